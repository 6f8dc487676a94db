"""User and password in the bytes of a handshake that is there already: shown in it, and taken out of it.

The machine says them in messages of its own. Whoever sends bytes as they are (the fuzzer, a regression test) wants the
same bytes with them in it, and no others changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from conformance.config import Credentials
from conformance.session.policy import password_proof
from scapy_layers.codes import Enc, TransportId
from scapy_layers.errors import WireError
from scapy_layers.extensions import AuthInitSyn, AuthOpenSyn, UsrPwd, UsrPwdProof
from scapy_layers.primitives import Reader

AUTH, USER = 0x3, 0x2
"""Numbers of the extension of INIT and OPEN, and of the method inside."""

ID, ACK, SIZES, MORE = 0x1F, 0x20, 0x40, 0x80
"""In the header of a message: its id, and the flags A, S of INIT, Z. Z is the same in that of an extension."""

INIT_SYN, INIT_ACK, OPEN_SYN = int(TransportId.INIT), TransportId.INIT | ACK, int(TransportId.OPEN)

ASKED = bytes(AuthInitSyn(extensions=[UsrPwd()]))
"""What stands in InitSyn."""

_HASH = b"\xf6\xe7\x5b a hash of 32 bytes: nothing!"


def shown(message: bytes, who: Credentials, nonce: int | None) -> bytes:
    """Returns an InitSyn or OpenSyn, and what is behind it, in which somebody shows who it is.

    Anything else stays as it is, and so does one that shows something else, or cannot be read up to its extensions.

    Args:
        message: Begins with the message.
        who: Shows itself.
        nonce: Of InitAck; None when there was none.
    """
    kind = message[0] & (ID | ACK) if message else 0
    if kind not in {INIT_SYN, OPEN_SYN} or (kind == OPEN_SYN and nonce is None):
        return message
    try:
        at = _chain_of(message)
        if any(message[start] & 0xF == AUTH for start, _, _ in _extensions(message, at)):
            return message
    except WireError:
        return message
    extension = ASKED if nonce is None or kind == INIT_SYN else _proof(who, nonce)
    # In front of the others: what is wrong in their chain stays as wrong as it is.
    header = extension[0] | message[0] & MORE
    return bytes([message[0] | MORE]) + message[1:at] + bytes([header]) + extension[1:] + message[at:]


def hidden(message: bytes, who: bytes) -> bytes:
    """Returns a message as it was before this user showed itself in it; any other as it is."""
    kind = message[0] & (ID | ACK) if message else 0
    if kind not in {INIT_SYN, OPEN_SYN}:
        return message
    try:
        at = _chain_of(message)
        first = next(_extensions(message, at), None)
    except WireError:
        return message
    ours = ASKED if kind == INIT_SYN else _around_hash(who)[0]
    if first is None or not (bytes([message[at] & ~MORE]) + message[at + 1 :]).startswith(ours):
        return message
    return _without(message, *first)


def challenged(message: bytes) -> tuple[bytes, int | None]:
    """Returns an InitAck without the nonce that a password is to be hashed with, and the nonce; other messages as they are."""
    if not message or message[0] & (ID | ACK) != INIT_ACK:
        return message, None
    try:
        for start, end, before in _extensions(message, _chain_of(message)):
            if message[start] & 0x7F != AUTH | Enc.ZBUF << 5:
                continue
            body = Reader(message, start + 1, end)
            body.vle()
            # With other methods beside it, it is left to whoever reads all of it.
            if body.u8() == USER | Enc.Z64 << 5:
                nonce = int(body.vle())
                if not body.left:
                    return _without(message, start, end, before), nonce
    except WireError:
        pass
    return message, None


def _chain_of(message: bytes) -> int:
    """Returns where the extensions of an INIT or OPEN begin, or would begin.

    Raises:
        WireError: It ends before.
    """
    reader = Reader(message)
    header = reader.u8()
    if header & ID == TransportId.INIT:
        reader.take(1)
        reader.take((reader.u8() >> 4) + 1)
        if header & SIZES:
            reader.take(3)
    else:
        reader.vle()
        reader.vle()
    if bool(header & ACK) == (header & ID == TransportId.INIT):
        reader.take(reader.vle())
    return reader.at


def _extensions(message: bytes, at: int) -> Iterator[tuple[int, int, int]]:
    """Yields where each extension begins and ends, and where the header is whose Z says that it is there.

    Raises:
        WireError: The message ends in one, or it is of a kind that nobody knows.
    """
    reader = Reader(message, at)
    before = 0
    while message[before] & MORE:
        start = reader.at
        encoding = reader.u8() >> 5 & 3
        if encoding == Enc.Z64:
            reader.vle()
        elif encoding == Enc.ZBUF:
            reader.take(reader.vle())
        elif encoding != Enc.UNIT:
            raise WireError("extension", "reserved encoding", start)
        yield start, reader.at, before
        before = start


def _without(message: bytes, start: int, end: int, before: int) -> bytes:
    """Returns a message without one of its extensions."""
    left = bytearray(message)
    left[before] &= ~MORE & 0xFF | message[start] & MORE
    del left[start:end]
    return bytes(left)


def _proof(who: Credentials, nonce: int) -> bytes:
    head, tail = _around_hash(who.user)
    return head + password_proof(who.password, nonce) + tail


@lru_cache(maxsize=16)
def _around_hash(user: bytes) -> tuple[bytes, bytes]:
    """Returns what stands in front of the hash and behind it, in OpenSyn."""
    head, _, tail = bytes(AuthOpenSyn(extensions=[UsrPwdProof(user=user, hmac=_HASH)])).partition(_HASH)
    return head, tail
