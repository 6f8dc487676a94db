"""What is as large as the nodes that we know take it, for those that have agreed to smaller batches."""

from __future__ import annotations

from fuzz.player.pipe import Pipe
from scapy_layers import extensions as ext
from scapy_layers.batch import PREFIX, prefixed
from scapy_layers.codes import NetworkId
from scapy_layers.primitives import Reader, write_vle
from scapy_layers.transport import Fragment, Frame

NODE_BATCH = 49_152
"""Largest batch of the nodes that we know, the two bytes of its length included."""

CRAMPED = 32
"""Bytes of a batch in which a node has room for an answer with all that may be around it."""

FRAMES = {bytes(Frame(R=reliable, sn=0))[0]: reliable for reliable in (0, 1)}
LARGE = frozenset({NetworkId.PUSH, NetworkId.REQUEST, NetworkId.RESPONSE})
"""Messages of which one may be that large."""

_SIZES = 0x40
"""Flag S of INIT."""


def room_of(batch: bytes) -> int:
    """Returns the bytes of a batch that an InitAck grants, at least 1; 0 when it names no size."""
    if len(batch) < 4 or not batch[0] & _SIZES:
        return 0
    at = 3 + (batch[2] >> 4) + 2
    return max(1, int.from_bytes(batch[at : at + 2], "little"))


def fitted(data: bytes, pipe: Pipe) -> bytes:
    """Returns a batch with a large message as FRAGMENTs, where the node has agreed to smaller batches.

    What is on purpose as large as ``NODE_BATCH``, or larger, stays whole, and so does what lies about its length.
    """
    room, size = pipe.facts.get("room", 0), len(data) - PREFIX
    if room < CRAMPED or not room - PREFIX < size < NODE_BATCH - PREFIX or data != prefixed(data[PREFIX:]):
        return data
    reader = Reader(data, PREFIX)
    reliable = FRAMES.get(reader.u8())
    if reliable is None:
        return data
    number = reader.vle()
    message = reader.rest()
    if not message or message[0] & 0x1F not in LARGE:
        return data
    each = room - PREFIX - len(write_vle(pipe.sn_mask)) - 2
    parts = [message[at : at + each] for at in range(0, len(message), each)]
    if reliable:
        pipe.sn += len(parts) - 1
    else:
        pipe.sn_be += len(parts) - 1
    return b"".join(
        prefixed(
            bytes(
                Fragment(
                    R=reliable,
                    M=part is not parts[-1],
                    sn=number + index & pipe.sn_mask,
                    extensions=None if index else [ext.First()],
                    data=part,
                )
            )
        )
        for index, part in enumerate(parts)
    )
