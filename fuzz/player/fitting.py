"""What is as large as the nodes that we know take it, for those that have agreed to smaller batches."""

from __future__ import annotations

from fuzz.player.pipe import Pipe
from scapy_layers import extensions as ext
from scapy_layers.batch import PREFIX, contents, prefixed
from scapy_layers.catalogue import decode
from scapy_layers.codes import Kind, NetworkId, TransportId
from scapy_layers.errors import WireError
from scapy_layers.primitives import Reader, write_vle
from scapy_layers.transport import Fragment, Frame

NODE_BATCH = 49_152
"""Largest batch of the nodes that we know, the two bytes of its length included."""

CRAMPED = 32
"""Bytes of a batch in which a node has room for an answer with all that may be around it."""

FRAME_R = bytes(Frame(R=1, sn=0))[:1]

FRAMES = {bytes(Frame(R=reliable, sn=0))[0]: reliable for reliable in (0, 1)}
LARGE = frozenset({NetworkId.PUSH, NetworkId.REQUEST, NetworkId.RESPONSE})
"""Messages of which one may be that large."""

SIZES = 0x40
"""Flag S of INIT."""

_ID = 0x1F
_FRAGMENT, _R, _M, _Z = int(TransportId.FRAGMENT), 0x20, 0x40, 0x80
_FIRST = bytes(ext.First())

_AROUND = PREFIX + 1 + 4 + len(_FIRST)
"""Bytes of a batch around a message or a part of one, at most: the numbers of our sessions take no more than four."""


def behind_zid(batch: bytes) -> int:
    """Returns where the ZenohID of an INIT ends, and resolution and batch size begin if it has SIZES."""
    return 3 + (batch[2] >> 4) + 1


def room_of(batch: bytes) -> int:
    """Returns the bytes of a batch that an InitAck grants, at least 1; 0 when it names no size."""
    if len(batch) < 4 or not batch[0] & SIZES:
        return 0
    at = behind_zid(batch) + 1
    return max(1, int.from_bytes(batch[at : at + 2], "little"))


def fits(data: bytes, pipe: Pipe) -> bool:
    """Tells whether one batch is no larger than the node has agreed to, as far as is known."""
    return len(data) <= (pipe.facts.get("room", 0) or len(data))


def batches(messages: bytes, pipe: Pipe) -> list[bytes]:
    """Returns network messages of ours as reliable batches without lengths; takes numbers.

    One FRAME, unless the node has agreed to less: then one for each message, and FRAGMENTs of what is too long even so.
    """
    room = pipe.facts.get("room", 0)
    if room < CRAMPED or _AROUND + len(messages) <= room:
        return [FRAME_R + pipe["sn"] + messages]
    (frame,) = contents(FRAME_R + b"\0" + messages).messages
    parts: list[bytes] = []
    for message in map(bytes, frame.messages):
        if _AROUND + len(message) <= room:
            parts.append(FRAME_R + pipe["sn"] + message)
        else:
            parts += fragments(message, pipe)
    return parts


def fragments(
    data: bytes, pipe: Pipe, *, first: bool = True, last: bool = True, reliable: bool = True
) -> list[bytes]:
    """Returns part of a network message as FRAGMENTs without lengths, as many as the node wants; takes numbers.

    Args:
        data: The part.
        pipe: Where they go.
        first: It is the beginning.
        last: It is the end.
        reliable: On which lane.
    """
    room = pipe.facts.get("room", 0)
    each = len(data) if room < CRAMPED else room - _AROUND
    cut = [data[at : at + each] for at in range(0, len(data), each)]
    made = []
    for index, part in enumerate(cut):
        chain = b"" if index or not first else _FIRST
        more = not last or index < len(cut) - 1
        header = _FRAGMENT | _R * reliable | _M * more | _Z * bool(chain)
        made.append(bytes([header]) + pipe["sn" if reliable else "sn_be"] + chain + part)
    return made


def fitted(data: bytes, pipe: Pipe) -> bytes:
    """Returns a batch with a large message, or a large FRAGMENT, as FRAGMENTs, where the node has agreed to smaller ones.

    What is on purpose as large as ``NODE_BATCH``, or larger, stays whole, and so does what lies about its length.
    """
    room, size = pipe.facts.get("room", 0), len(data) - PREFIX
    if room < CRAMPED or not room - PREFIX < size < NODE_BATCH - PREFIX or data != prefixed(data[PREFIX:]):
        return data
    reader = Reader(data, PREFIX)
    header = reader.u8()
    if header & _ID == TransportId.FRAGMENT:
        return _smaller(data, pipe, room)
    reliable = FRAMES.get(header)
    if reliable is None:
        return data
    number = reader.vle()
    message = reader.rest()
    if not message or message[0] & _ID not in LARGE:
        return data
    return _in_fragments(Fragment(R=reliable, sn=number, extensions=[ext.First()], data=message), pipe, room)


def _smaller(data: bytes, pipe: Pipe, room: int) -> bytes:
    """Returns a batch that begins with a FRAGMENT, which fills it, as several of them."""
    try:
        whole = decode(data[PREFIX:], Kind.TRANSPORT)
    except WireError:
        return data
    assert isinstance(whole, Fragment)
    return _in_fragments(whole, pipe, room)


def _in_fragments(whole: Fragment, pipe: Pipe, room: int) -> bytes:
    """Returns a FRAGMENT as so many that fit; what it says of its chain stays true."""
    chain = list(whole.extensions or ())
    behind = [one.copy() for one in chain if not isinstance(one, ext.First | ext.Drop)]
    for one in behind:
        # Which is the last one is another matter now.
        one.Z = None
    around = 1 + len(write_vle(pipe.sn_mask)) + sum(len(bytes(one)) for one in chain)
    each = max(1, room - PREFIX - around)
    message, number = bytes(whole.data), int(whole.sn)
    parts = [message[at : at + each] for at in range(0, len(message), each)]
    if whole.R:
        pipe.sn += len(parts) - 1
    else:
        pipe.sn_be += len(parts) - 1
    return b"".join(
        prefixed(
            bytes(
                Fragment(
                    R=whole.R,
                    M=int(bool(whole.M) or part is not parts[-1]),
                    sn=number + index & pipe.sn_mask,
                    extensions=(behind if index else chain) or None,
                    data=part,
                )
            )
        )
        for index, part in enumerate(parts)
    )
