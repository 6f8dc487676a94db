"""What is Zenoh and what is not. A port proves nothing; what is not sure is not claimed.

On TCP, ``stream`` has looked at the beginning, or has found a chain of batches in mid stream; here the first
batch has to pass strict decoding. On UDP every datagram stands alone and has to prove more.
"""

from __future__ import annotations

from enum import Enum

from scapy_layers.catalogue import decode
from scapy_layers.codes import DEFAULT_PORT, PROTOCOL_VERSION, Kind, ScoutingId, TransportId
from scapy_layers.conversation.batches import messages, unpack
from scapy_layers.errors import WireError
from scapy_layers.message import Layer
from scapy_layers.network import Push, Request, Response
from scapy_layers.scouted import is_group
from scapy_layers.scouting import Hello, Scout
from scapy_layers.stream import Way
from scapy_layers.transport import Frame, Init, Join

TELLING = (Push, Request, Response)
"""Network messages that say enough: a key and a body that fit to the byte."""

_IN_PROGRESS = {TransportId.FRAME, *(message.id for message in TELLING)}
"""What a datagram in mid session may begin with: in low latency nothing carries them."""

_VERSION = bytes([PROTOCOL_VERSION])


class Claim(Enum):
    """How sure it is that a link is a session link."""

    NONE = "nothing speaks for it"
    LIKELY = "a batch in mid session: believed until batches cannot be read"
    SURE = "its beginning was seen"


def of_stream(raw: bytes) -> Claim:
    """Judges the first batch of a TCP link."""
    if raw and raw[0] & 0x1F == TransportId.INIT and raw[1:2] == _VERSION:
        # The stream began with it; even a damaged one is what this link is about.
        return Claim.SURE
    return Claim.LIKELY if is_compressed(raw) or _strict(raw) else Claim.NONE


def is_compressed(raw: bytes) -> bool:
    """Tells whether a batch has the header byte of compression, when nobody has said so.

    As a message such a byte would begin an OAM, which nodes do not send, or INIT, which is no LZ4 block.
    """
    return bool(raw) and raw[0] <= 1 and bool(_strict(_unpacked(raw)))


def is_batch(raw: bytes) -> bool:
    """Tells whether strict decoding takes the whole of a batch, compressed or not."""
    return bool(_strict(raw)) or is_compressed(raw)


def of_datagram(way: Way, raw: bytes) -> Claim:
    """Judges a datagram of a pair of endpoints that has not shown anything yet.

    Between two nodes compression begins behind OPEN; in mid session it is not recognised. In a group each
    datagram has the header byte, those with JOIN as well.
    """
    if raw and raw[0] <= 1 and is_group(way.target):
        return _of_datagram(way, _unpacked(raw))
    return _of_datagram(way, raw)


def _of_datagram(way: Way, raw: bytes) -> Claim:
    number = raw[0] & 0x1F if raw else -1
    opens = number in {TransportId.INIT, TransportId.JOIN} and raw[1:2] == _VERSION
    usual = DEFAULT_PORT in {way.source.port, way.target.port} and number in _IN_PROGRESS
    read = _strict(raw) if opens or usual else []
    if not read:
        return Claim.NONE
    match read[0]:
        case Init() as init:
            # The answer makes it sure; until then it may be something else that looks like it.
            likely = len(read) == 1 and not init.reserved2
        case Join() as join:
            likely = is_group(way.target) and not join.reserved2
        case Frame() as frame:
            # Short ones (RESPONSE_FINAL, D_FINAL) are too easily met by chance.
            likely = any(isinstance(inner, TELLING) for inner in frame.messages)
        case bare:
            likely = isinstance(bare, TELLING)
    return Claim.LIKELY if likely else Claim.NONE


def scout(raw: bytes) -> Scout | None:
    """Returns the SCOUT that a datagram is, to the byte."""
    message = _scouting(raw, ScoutingId.SCOUT)
    return message if isinstance(message, Scout) else None


def hello(raw: bytes) -> Hello | None:
    """Returns the HELLO that a datagram is, to the byte."""
    message = _scouting(raw, ScoutingId.HELLO)
    return message if isinstance(message, Hello) else None


def _scouting(raw: bytes, number: int) -> Layer | None:
    if len(raw) < 3 or raw[0] & 0x1F != number or raw[1] != PROTOCOL_VERSION:
        return None
    try:
        return decode(raw, Kind.SCOUTING)
    except WireError:
        return None


def _strict(raw: bytes) -> list[Layer]:
    """Returns the messages of a batch, none if strict decoding refuses any of it."""
    found = []
    for message, errors in messages(raw):
        if errors or message.errors:
            return []
        found.append(message)
    return found


def _unpacked(raw: bytes) -> bytes:
    try:
        return unpack(raw)
    except WireError:
        return b""
