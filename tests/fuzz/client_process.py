"""A client that connects once and ends with its link: ``client_process.py LOCATOR [FATAL]``.

It opens a session and says that queries are done. A publication whose key is longer than FATAL characters ends it with
SIGABRT.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys

BATCH = 65_535


def vle(data: bytes, at: int) -> tuple[int, int]:
    """Reads a VLE integer; returns it, and where it ends."""
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


def answer(batch: bytes, fatal: int, *, opening: bool) -> bytes | None:
    """Returns what is said to a batch; None where the session ends."""
    kind = batch[0] & 0x1F
    if kind == 0x01 and opening:
        _, begin = vle(batch, 3 + (batch[2] >> 4) + 1 + (3 if batch[0] & 0x40 else 0))
        return b"\x42\x0a\x05" + batch[begin - 1 :][: 1 + batch[begin - 1]]
    if kind == 0x03:
        return None
    if kind != 0x05:
        return b""
    _, at = vle(batch, 1)
    header = batch[at]
    _, behind = vle(batch, at + 1)
    if header & 0x3F == 0x3D and vle(batch, behind)[0] > fatal:
        os.abort()
    if header & 0x1F == 0x1C:
        return b"\x25\x05\x1a" + batch[at + 1 : behind]
    return b""


def main() -> int:
    """Serves one link; returns the exit code."""
    host, _, port = sys.argv[1].partition("/")[2].rpartition(":")
    fatal = int(sys.argv[2]) if len(sys.argv) > 2 else BATCH
    with socket.create_connection((host, int(port))) as sock, sock.makefile("rb") as stream:
        said: bytes | None = b"\x01\x09\x72" + secrets.token_bytes(8)
        opening = True
        while said is not None:
            if said:
                sock.sendall(len(said).to_bytes(2, "little") + said)
            size = int.from_bytes(stream.read(2), "little")
            batch = stream.read(size)
            if not batch:
                return 1
            try:
                said = answer(batch, fatal, opening=opening)
            except IndexError:
                return 2
            opening = False
    return 0


if __name__ == "__main__":
    sys.exit(main())
