"""Records packets on the loopback interface and writes them as a capture file."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

PATIENCE = 20.0
"""Seconds after which what a scenario waits for counts as never coming."""


class CaptureError(Exception):
    """A capture cannot be made; the text says why, in one line."""


CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
SO_TIMESTAMPNS = 35
SOL_PACKET, PACKET_STATISTICS = 263, 6
PACKET_OUTGOING = 4
ETH_P_ALL = 3
IPV4, IPV6 = b"\x08\x00", b"\x86\xdd"
TCP, UDP = 6, 17
BUFFER = 1 << 24
"""Bytes the kernel keeps for us; half of it is enough for any scenario at once."""


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet as it was on the interface.

    Attributes:
        time_ns: When the kernel saw it, since the epoch.
        frame: All of its bytes, from the Ethernet header on.
        protocol: TCP or UDP, 0 for anything else.
        source: Port.
        target: Port.
        payload: What TCP or UDP carried.
    """

    time_ns: int
    frame: bytes
    protocol: int = 0
    source: int = 0
    target: int = 0
    payload: bytes = b""

    @classmethod
    def of(cls, time_ns: int, frame: bytes) -> Self:
        """Reads IP and what is in it; neither fragments nor IPv6 extension headers occur on loopback."""
        if frame[12:14] == IPV4:
            protocol = frame[23]
            at, end = 14 + (frame[14] & 0xF) * 4, 14 + int.from_bytes(frame[16:18], "big")
        elif frame[12:14] == IPV6:
            protocol = frame[20]
            at, end = 54, 54 + int.from_bytes(frame[18:20], "big")
        else:
            return cls(time_ns, frame)
        if protocol not in {TCP, UDP}:
            return cls(time_ns, frame)
        source, target = struct.unpack_from(">HH", frame, at)
        size = (frame[at + 12] >> 4) * 4 if protocol == TCP else 8
        return cls(time_ns, frame, protocol, source, target, frame[at + size : end])


def own_network() -> None:
    """Moves this process, and the nodes it will start, into a network of its own, if the system lets it.

    There nothing else is on the wire, no address of the machine can get into a locator, and an ordinary
    user may record. Where that is not to be had, the loopback interface of the machine is recorded.
    """
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None)
    if libc.unshare(CLONE_NEWNET) == 0:
        pass
    elif libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0:
        for file, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            with contextlib.suppress(OSError):  # the recorder finds out what is missing
                Path(f"/proc/self/{file}").write_text(text, encoding="ascii")
    else:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", IFF_UP))


class Recorder(threading.Thread):
    """Records the loopback interface from entering the context until ``stop``.

    The socket is ready when it is bound, and the kernel hands over packets on loopback before the
    sender's call returns: nothing of a node that is started later is missed.

    Raises:
        CaptureError: No right to record.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._packets: list[Packet] = []
        self._arrived = threading.Condition()
        self._stopped = False
        try:
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        except PermissionError:
            raise CaptureError(
                "recording packets needs root, as this system keeps user namespaces from you"
            ) from None
        except (AttributeError, OSError) as error:
            raise CaptureError(f"this system has no packet sockets to record with ({error})") from None
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        try:
            self._socket.bind(("lo", 0))
        except OSError as error:
            raise CaptureError(f"the loopback interface cannot be recorded ({error.strerror})") from None

    def run(self) -> None:
        """Takes packets until the socket is closed."""
        while not self._stopped:
            frame, extra, _, address = self._socket.recvmsg(1 << 17, 64)
            # Each packet shows twice on loopback, leaving and arriving.
            if address[2] != PACKET_OUTGOING:
                seconds, nanoseconds = struct.unpack("qq", extra[0][2])
                with self._arrived:
                    self._packets.append(Packet.of(seconds * 10**9 + nanoseconds, frame))
                    self._arrived.notify_all()

    def wait(self, what: str, found: Callable[[list[Packet]], bool]) -> None:
        """Waits until the packets so far are what a scenario wants.

        Raises:
            CaptureError: They never are.
        """
        with self._arrived:
            if not self._arrived.wait_for(lambda: found(self._packets), PATIENCE):
                raise CaptureError(f"no {what} within {PATIENCE:g} s")

    def stop(self) -> list[Packet]:
        """Ends the recording; everything sent before is in it.

        Raises:
            CaptureError: The kernel had to drop packets.
        """
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
            probe.sendto(b"", ("127.0.0.1", port))
            self.wait("probe packet", lambda packets: any(packet.target == port for packet in packets))
            self._stopped = True
            probe.sendto(b"", ("127.0.0.1", port))
        self.join()
        _, dropped = struct.unpack("II", self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        self._socket.close()
        if dropped:
            raise CaptureError(f"{dropped} packets were lost while recording; try again when it is quieter")
        return self._packets


def pcapng(packets: Iterable[Packet]) -> bytes:
    """Returns a capture file that says nothing about where it was made.

    Spec: draft-ietf-opsawg-pcapng; section header, interface description (Ethernet, nanoseconds, name lo),
    enhanced packets.
    """
    out = bytearray()

    def block(kind: int, body: bytes) -> None:
        body += bytes(-len(body) % 4)
        size = len(body) + 12
        out.extend(struct.pack("<II", kind, size) + body + struct.pack("<I", size))

    block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    name = struct.pack("<HH4s", 2, 2, b"lo")
    resolution = struct.pack("<HHB3x", 9, 1, 9)
    block(1, struct.pack("<HHI", 1, 0, 0) + name + resolution + bytes(4))
    for packet in packets:
        high, low = packet.time_ns >> 32, packet.time_ns & 0xFFFFFFFF
        size = len(packet.frame)
        block(6, struct.pack("<IIIII", 0, high, low, size, size) + packet.frame)
    return bytes(out)
