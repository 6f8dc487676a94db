"""How batches stand in a stream, and what they look like."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from scapy_layers import websocket
from scapy_layers.codes import PROTOCOL_VERSION, NetworkId, TransportId
from scapy_layers.errors import WireError
from scapy_layers.primitives import Reader


class Framing(Enum):
    """How batches are told apart in one direction of a link."""

    UNDECIDED = "not known yet"
    SHORT = "2-byte length"
    LONG = "4-byte length, as after OPEN in low latency"
    EITHER = "2-byte or 4-byte length: low latency was offered, the answer is not known"
    WEBSOCKET = "one binary message each"
    FOREIGN = "not Zenoh: bytes are dropped"


# What a batch looks like --------------------------------------------------------------------------

_ID = 0x1F
_Z = 0x80
_LANE = 0x20
_RESERVED = 0x40
_COMPRESSED = 1
_LONG_LITERALS = 0xF0
"""From this token on bytes follow that say how many literals more there are."""
_QOS = 0x31
_FIRST_AND_DROP = frozenset({0x02, 0x03})
_OF_OPEN = frozenset({0x01, 0x22, 0x42, 0x43, 0x44, 0x04, 0x05, 0x06, 0x27})
"""The headers of the extensions of OPEN, without Z."""
_LONGEST_VLE = 9
_MOST_SN_BITS = 28


class Looks(NamedTuple):
    """What the first bytes of a batch tell.

    Attributes:
        bits: Of evidence that it is one; 0 when it cannot be.
        lane: Reliability and priority of a FRAME or FRAGMENT.
        sn: Its sequence number; None for other messages.
        sn_bits: How much it says when that number is the one expected.
        opens: It is INIT or OPEN, which begin a direction and travel alone.
    """

    bits: int
    lane: int = 0
    sn: int | None = None
    sn_bits: int = 0

    opens: bool = False

    @property
    def is_fragment(self) -> bool:
        """Tells whether it is a FRAGMENT, behind whose head anything may stand."""
        return self.sn is not None and self.lane & _ID == TransportId.FRAGMENT


_NOTHING = Looks(0)
_NETWORK = frozenset(NetworkId)
_TELLING = frozenset({NetworkId.PUSH, NetworkId.REQUEST, NetworkId.RESPONSE})
HEAD = 32
"""Bytes of a batch that are looked at."""


def looks(head: bytes, size: int) -> Looks:
    """Judges a batch by its first ``HEAD`` bytes.

    With compression a batch begins with a byte of its own; a stored batch and the literals at the beginning of a
    compressed one are looked at behind it.
    """
    seen = _message(head, size)
    if not seen.bits and len(head) > 1:
        if head[0] == 0:
            seen = _message(head[1:], size - 1)
        elif head[0] == _COMPRESSED and (at := _literals(head)):
            seen = _message(head[at:], size)
    return seen


def _literals(head: bytes) -> int:
    """Returns where the literals of an LZ4 block behind the header byte begin; 0 if there are fewer than four."""
    if head[1] < 0x40:
        return 0
    at = 2
    if head[1] >= _LONG_LITERALS:
        while at < len(head) and head[at] == 0xFF:
            at += 1
        at += 1
    return at


def _message(head: bytes, size: int) -> Looks:
    if not head or not size:
        return _NOTHING
    header, bits = head[0], 0
    match header & _ID:
        case TransportId.FRAME:
            return _frame(head, size)
        case TransportId.FRAGMENT:
            return _numbered(head)[0]
        case TransportId.KEEP_ALIVE:
            bits = 8 if size == 1 and header == TransportId.KEEP_ALIVE else 0
        case TransportId.CLOSE:
            bits = 12 if size == 2 and header & ~_LANE == TransportId.CLOSE else 0
        case TransportId.INIT:
            bits = 12 if size >= 4 and head[1:2] == bytes([PROTOCOL_VERSION]) else 0
            return Looks(bits, opens=True)
        case TransportId.OPEN:
            return Looks(8 if _is_open(head, size) else 0, opens=True)
        case number if number in _NETWORK:  # alone only in low latency
            bits = 3 if size >= 2 else 0
    return Looks(bits)


def _is_open(head: bytes, size: int) -> bool:
    """Tells whether lease, sequence number and, in OPEN_SYN, the cookie end where the batch does, or extensions begin."""
    at = _behind_vle(head, _behind_vle(head, 1))
    if at and not head[0] & _LANE:
        begin, at = at, _behind_vle(head, at)
        cookie = sum((byte & 0x7F) << 7 * index for index, byte in enumerate(head[begin:at]))
        at = at and at + cookie
    if not at or not head[0] & _Z:
        return at == size
    return at < size and (at >= len(head) or head[at] & 0x7F in _OF_OPEN)


def _behind_vle(head: bytes, at: int) -> int:
    """Returns where the number that begins at a place ends; 0 when it does not, or the place is 0."""
    for end in range(at, min(at + _LONGEST_VLE, len(head))) if at else ():
        if head[end] < 0x80:
            return end + 1
    return 0


def _frame(head: bytes, size: int) -> Looks:
    """A FRAME: behind its own fields the header of a network message."""
    seen, at = _numbered(head)
    if not seen.bits or head[0] & _RESERVED:
        return _NOTHING
    if at == size:
        return seen
    message = at < len(head) and head[at] & _ID in _NETWORK
    return seen._replace(bits=seen.bits + 3) if message else _NOTHING


def _numbered(head: bytes) -> tuple[Looks, int]:
    """The sequence number and extensions of FRAME and FRAGMENT, and where they end."""
    header, at, sn = head[0], 1, 0
    while at < len(head):
        sn |= (head[at] & 0x7F) << 7 * (at - 1)
        at += 1
        if head[at - 1] < 0x80:
            break
        if at > _LONGEST_VLE:
            return _NOTHING, at
    else:
        return _NOTHING, at
    sn_bits = min(7 * (at - 1), _MOST_SN_BITS)
    bits, lane, more = 5, header & (_ID | _LANE), header & _Z
    while more and at + 1 < len(head):
        kind, more = head[at] & 0x7F, head[at] & _Z
        if kind == _QOS:
            lane = lane & 0xFF | (head[at + 1] & 7) << 8
            at += 1
        elif kind not in _FIRST_AND_DROP:
            return _NOTHING, at
        bits += 3
        at += 1
    return (_NOTHING if more else Looks(bits, lane, sn, sn_bits)), at


def plausible(batch: bytes) -> bool:
    """Tells from its first message whether bytes may be a batch."""
    return looks(batch[:HEAD], len(batch)).bits > 0


_COOKIE = 8
"""Bytes of a cookie that cannot be met by chance."""


def closes(datagram: bytes) -> bool:
    """Tells whether a datagram is a CLOSE and nothing else, with a header byte of compression or without."""
    close = datagram[1:] if datagram[:1] == b"\0" else datagram
    return len(close) == 2 and close[0] & ~_LANE == TransportId.CLOSE


def is_handshake(batch: bytes) -> bool:
    """Tells whether a batch without a header byte begins with INIT or OPEN, or is empty: with no message of a session."""
    if not batch or batch[0] & _ID == TransportId.OPEN:
        return True
    return batch[0] & _ID == TransportId.INIT and batch[1:2] == bytes([PROTOCOL_VERSION])


def opens(batch: bytes | bytearray) -> bool:
    """Tells whether bytes are INIT, or OPEN with its cookie: nothing else looks like them."""
    if not batch or batch[0] & _ID not in {TransportId.INIT, TransportId.OPEN}:
        return False
    if batch[0] & _ID == TransportId.INIT:
        return len(batch) >= 4 and batch[1] == PROTOCOL_VERSION and len(batch) >= 4 + (batch[2] >> 4)
    if batch[0] & _LANE:  # OPEN_ACK, which says too little
        return False
    reader = Reader(bytes(batch), 1)
    try:
        reader.vle()  # lease
        reader.vle()  # initial sequence number
        size = reader.vle()
    except WireError:
        return False
    return _COOKIE <= size <= reader.left and (bool(batch[0] & _Z) or size == reader.left)


def telling(batch: bytes | bytearray) -> bool:
    """Tells whether bytes begin with a FRAME that carries a PUSH, REQUEST or RESPONSE: in mid session that is enough."""
    head = bytes(batch[:HEAD])
    if not head or head[0] & (_ID | _RESERVED) != TransportId.FRAME:
        return False
    seen, at = _numbered(head)
    return seen.bits > 0 and at < len(head) and head[at] & _ID in _TELLING


# Where batches may stand --------------------------------------------------------------------------


class Place(NamedTuple):
    """A batch in a buffer: ``buffer[start:end]``, with the mask of a WebSocket frame."""

    start: int
    end: int
    mask: bytes


def short(data: bytes | bytearray, at: int) -> Place | None:
    """The batch whose 2-byte length stands here; None when the length is not complete."""
    if at + 2 > len(data):
        return None
    return Place(at + 2, at + 2 + (data[at] | data[at + 1] << 8), b"")


def long(data: bytes | bytearray, at: int) -> Place | None:
    """The batch whose 4-byte length stands here; None when the length is not complete."""
    if at + 4 > len(data):
        return None
    return Place(at + 4, at + 4 + int.from_bytes(data[at : at + 4], "little"), b"")


def binary_message(data: bytes | bytearray, at: int) -> Place | None:
    """The WebSocket message whose only frame stands here; None when the header is not complete.

    Raises:
        ValueError: Something else stands here.
    """
    found = websocket.frame(data, at)
    if found is None:
        return None
    if found.first != 0x82:
        raise ValueError("not a whole binary message")
    return Place(found.start, found.end, found.mask)
