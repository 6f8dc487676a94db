"""Captures as they come from real networks: begun late, with holes, twice, in other pieces, in other files.

Everything is drawn from a seed, so a variant is named by its kind and its seed.
"""

from __future__ import annotations

import gzip
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from fuzz.readers.together import Order
from scapy_layers.capture import runs
from scapy_layers.codes import DEFAULT_PORT
from scapy_layers.ip import LinkType

_TCP, _UDP = 6, 17
_IPV4, _IPV6 = b"\x08\x00", b"\x86\xdd"
_ETHERNET = 14
_FIN, _SYN, _RST, _PUSH, _ACK = 1, 2, 4, 8, 0x10
_SIZES = (100, 536, 1460, 9_000, 65_483)
"""Bytes of TCP in a segment: what is usual on a slow line, on Ethernet, with large frames, on loopback."""

_ON_THEIR_WAY = 500
"""Packets behind a reset, a millisecond apart: for a second the layers take them for the same connection."""


class Packet(NamedTuple):
    """An Ethernet frame, and where TCP or UDP begin in it; ``transport`` is 0 where there is none."""

    raw: bytes
    transport: int
    protocol: int

    @property
    def ports(self) -> tuple[bytes, bytes]:
        """Of source and target."""
        at = self.transport
        return self.raw[at : at + 2], self.raw[at + 2 : at + 4]

    @property
    def flags(self) -> int:
        """Of TCP."""
        return self.raw[self.transport + 13]

    @property
    def payload(self) -> int:
        """Where the bytes of TCP or UDP begin."""
        if self.protocol == _UDP:
            return self.transport + 8
        return self.transport + (self.raw[self.transport + 12] >> 4) * 4


def packet(raw: bytes) -> Packet:
    """Finds TCP and UDP in a frame; what stands behind the IP packet is cut off."""
    kind = raw[12:14]
    if kind == _IPV4:
        raw = raw[: _ETHERNET + int.from_bytes(raw[16:18], "big")]
        transport, protocol = _ETHERNET + (raw[14] & 15) * 4, raw[23]
    elif kind == _IPV6:
        raw = raw[: _ETHERNET + 40 + int.from_bytes(raw[18:20], "big")]
        transport, protocol = _ETHERNET + 40, raw[20]
    else:
        return Packet(raw, 0, 0)
    return Packet(raw, transport, protocol) if protocol in {_TCP, _UDP} else Packet(raw, 0, 0)


def packets(path: Path) -> list[Packet]:
    """Reads a capture in pcapng; who accepts connections does so on the port of Zenoh.

    On other ports the dissector for Wireshark believes a session in progress by its PUSH, REQUEST or RESPONSE only.
    """
    found = [
        packet(_framed(link, run.buffer[start:end]))
        for run in runs(path)
        for _, link, start, end, _ in run.records
    ]
    accepting = {
        one.ports[0] for one in found if one.protocol == _TCP and one.flags & (_SYN | _ACK) == _SYN | _ACK
    }
    accepting |= {one.ports[1] for one in found if one.protocol == _UDP and _is_init(one)}
    return [_moved(one, accepting) for one in found]


def _framed(link: int, raw: bytes) -> bytes:
    """Returns a packet as Ethernet carries it."""
    if link != LinkType.RAW:
        return raw
    return bytes(12) + (_IPV6 if raw[0] >> 4 == 6 else _IPV4) + raw


def _is_init(one: Packet) -> bool:
    """Tells an INIT_SYN in a datagram: header and version."""
    head = one.raw[one.payload : one.payload + 2]
    return len(head) == 2 and head[0] & 0x3F == 1 and head[1] == 9 and not _is_group(one)


def _is_group(one: Packet) -> bool:
    """Tells whether it goes to a group, where what looks like INIT is a SCOUT."""
    return one.raw[30] >> 4 == 14 if one.raw[12:14] == _IPV4 else one.raw[38] == 0xFF


def _moved(one: Packet, accepting: set[bytes]) -> Packet:
    if not one.transport or not accepting.intersection(one.ports):
        return one
    raw = bytearray(one.raw)
    for place in (one.transport, one.transport + 2):
        if bytes(raw[place : place + 2]) in accepting:
            struct.pack_into(">H", raw, place, DEFAULT_PORT)
    return one._replace(raw=bytes(raw))


# Pieces -------------------------------------------------------------------------------------------


def piece(one: Packet, at: int, size: int) -> Packet:
    """Returns the segment with so many bytes of another one."""
    head, data = bytearray(one.raw[: one.payload]), one.raw[one.payload :]
    end = min(at + size, len(data))
    if one.raw[12:14] == _IPV4:
        struct.pack_into(">H", head, 16, len(head) - _ETHERNET + end - at)
    else:
        struct.pack_into(">H", head, 18, len(head) - _ETHERNET - 40 + end - at)
    (seq,) = struct.unpack_from(">I", head, one.transport + 4)
    struct.pack_into(">I", head, one.transport + 4, (seq + at) % (1 << 32))
    if end < len(data):
        head[one.transport + 13] &= ~(_FIN | _PUSH)
    return one._replace(raw=bytes(head) + data[at:end])


def in_segments(found: Sequence[Packet], size: int) -> list[Packet]:
    """Cuts what TCP carries into segments of a size at most."""
    return [part for one in found for part in _segments(one, size)]


def _segments(one: Packet, size: int) -> Iterator[Packet]:
    length = len(one.raw) - one.payload
    if one.protocol != _TCP or length <= size:
        yield one
        return
    for at in range(0, length, size):
        yield piece(one, at, size)


# Damage -------------------------------------------------------------------------------------------

Kind = Callable[[list[Packet], Random], list[Packet]]


def late(found: list[Packet], random: Random) -> list[Packet]:
    """The capture begins late."""
    return found[random.randrange(1, max(2, len(found) * 3 // 4)) :]


def cut(found: list[Packet], random: Random) -> list[Packet]:
    """Other segments."""
    return in_segments(found, random.choice(_SIZES))


def cut_late(found: list[Packet], random: Random) -> list[Packet]:
    """Other segments, and begun among them."""
    return late(in_segments(found, random.choice(_SIZES)), random)


def lossy(found: list[Packet], random: Random) -> list[Packet]:
    """Other segments, some of which are lost."""
    share = random.choice((0.01, 0.03, 0.1))
    return [one for one in in_segments(found, random.choice(_SIZES)) if random.random() >= share]


def bursts(found: list[Packet], random: Random) -> list[Packet]:
    """Other segments, of which some in a row are lost."""
    parts, left = in_segments(found, random.choice(_SIZES)), []
    losing = 0
    for one in parts:
        if losing:
            losing -= 1
        elif random.random() < 0.01:
            losing = random.randrange(1, 20)
        else:
            left.append(one)
    return left


def late_and_lossy(found: list[Packet], random: Random) -> list[Packet]:
    """Begun late, with losses."""
    return lossy(late(found, random), random)


def one_way(found: list[Packet], random: Random) -> list[Packet]:
    """One direction only, begun late."""
    side = random.randrange(2)
    return [
        one
        for one in late(in_segments(found, random.choice(_SIZES)), random)
        if one.protocol != _TCP or int.from_bytes(one.ports[side], "big") == DEFAULT_PORT
    ]


def unheard(found: list[Packet], random: Random) -> list[Packet]:
    """What one side says first in each connection is lost: its part of the handshake, or less, or more."""
    side = random.randrange(2)
    lost: Counter[bytes] = Counter()
    kept: list[Packet] = []
    for one in found:
        says = one.protocol == _TCP and len(one.raw) > one.payload
        if says and int.from_bytes(one.ports[side], "big") == DEFAULT_PORT:
            lost[one.ports[1 - side]] += 1
            if lost[one.ports[1 - side]] <= random.choice((1, 2, 2, 2, 3)):
                continue
        kept.append(one)
    return kept


def doubled(found: list[Packet], random: Random) -> list[Packet]:
    """Packets twice, and retransmissions in other pieces."""
    sent: list[Packet] = []
    for one in in_segments(found, random.choice(_SIZES)):
        sent.append(one)
        if random.random() < 0.1:
            sent.append(one)
        length = len(one.raw) - one.payload
        if one.protocol == _TCP and length > 1 and random.random() < 0.1:
            at = random.randrange(length - 1)
            sent.append(piece(one, at, random.randrange(1, length)))
    return sent


def mutated(found: list[Packet], random: Random) -> list[Packet]:
    """Some bits are wrong, of handshakes too, but none of the first lengths: Wireshark reads segments anew behind these."""
    changed = []
    for one in found:
        raw = bytearray(one.raw)
        if one.transport and len(raw) > one.payload + 2 and random.random() < 0.2:
            raw[random.randrange(one.payload + 2, len(raw))] ^= 1 << random.randrange(8)
        changed.append(one._replace(raw=bytes(raw)))
    return changed


def clipped(found: list[Packet], random: Random) -> list[Packet]:
    """Some packets lack their last bytes; the header of IP says so, or not.

    Nothing comes twice: what comes again in place of a shorter segment Wireshark does not hand on.
    """
    changed = []
    for index, one in enumerate(_once(found)):
        size = len(one.raw) - one.payload
        if index > 5 and one.transport and size > 1 and random.random() < 0.2:
            kept = one._replace(raw=one.raw[: one.payload + random.randrange(1, size)])
            changed.append(_honest(kept) if random.random() < 0.5 else kept)
        else:
            changed.append(one)
    return changed


def _once(found: Sequence[Packet]) -> Iterator[Packet]:
    """Leaves out what TCP sends again."""
    sent: set[bytes] = set()
    for one in found:
        if one.protocol == _TCP and len(one.raw) > one.payload:
            place = one.raw[_ETHERNET:][12:20] + one.raw[one.transport : one.transport + 8]
            if place in sent:
                continue
            sent.add(place)
        yield one


def _honest(one: Packet) -> Packet:
    """Lets the header of IP say what there is."""
    raw = bytearray(one.raw)
    place, size = (16, len(raw) - _ETHERNET) if raw[12:14] == _IPV4 else (18, len(raw) - _ETHERNET - 40)
    struct.pack_into(">H", raw, place, size)
    return one._replace(raw=bytes(raw))


def swapped(found: list[Packet], random: Random) -> list[Packet]:
    """Some segments come one place too late, behind another one of the same direction."""
    parts = in_segments(found, random.choice(_SIZES))
    for index in range(8, len(parts) - 1, 2):
        one, other = parts[index : index + 2]
        if one.transport and other.transport and one.ports == other.ports and random.random() < 0.3:
            parts[index : index + 2] = other, one
    return parts


def reset(found: list[Packet], random: Random) -> list[Packet]:
    """A connection is reset, and what was on its way still comes."""
    parts = in_segments(found, random.choice(_SIZES))
    places = [index for index, one in enumerate(parts) if index > 10 and one.protocol == _TCP]
    if not places:
        return parts
    place = random.choice(places)
    rst = bytearray(piece(parts[place], 0, 0).raw)
    rst[parts[place].transport + 13] = _RST | _ACK
    return [*parts[:place], parts[place]._replace(raw=bytes(rst)), *parts[place : place + _ON_THEIR_WAY]]


KINDS: dict[str, Kind] = {
    one.__name__: one
    for one in (
        late,
        cut,
        cut_late,
        lossy,
        bursts,
        late_and_lossy,
        one_way,
        unheard,
        doubled,
        mutated,
        clipped,
        swapped,
        reset,
    )
}


# Files --------------------------------------------------------------------------------------------


def pcap(
    raws: Sequence[bytes], *, link: int = 1, snap: int = 1 << 18, nanoseconds: bool = False, order: str = "<"
) -> bytes:
    """Returns a pcap; packets are a millisecond apart."""
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 1 << 18, link)]
    unit = 1_000_000 if nanoseconds else 1_000
    for index, raw in enumerate(raws):
        seconds, part = divmod(index, 1000)
        kept = raw[:snap]
        parts += [
            struct.pack(order + "IIII", 1_700_000_000 + seconds, part * unit, len(kept), len(raw)),
            kept,
        ]
    return b"".join(parts)


def pcapng(raws: Sequence[bytes], *, order: str = "<") -> bytes:
    """Returns a pcapng of two sections, each with two interfaces of different times and blocks of others between."""
    file = bytearray()

    def block(kind: int, body: bytes) -> None:
        body += bytes(-len(body) % 4)
        size = struct.pack(order + "I", len(body) + 12)
        file.extend(struct.pack(order + "I", kind) + size + body + size)

    half = len(raws) // 2
    for share, begin in ((raws[:half], 0), (raws[half:], half)):
        block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))
        block(1, struct.pack(order + "HHI", 1, 0, 0))
        block(1, struct.pack(order + "HHIHHBxxxHH", 101, 0, 0, 9, 1, 9, 0, 0))
        for index, raw in enumerate(share, begin):
            plain = index % 2 == 0 or raw[12:14] not in {_IPV4, _IPV6}
            data = raw if plain else raw[_ETHERNET:]
            when = (1_700_000_000_000 + index) * (1_000 if plain else 1_000_000)
            head = struct.pack(
                order + "IIIII", int(not plain), when >> 32, when & 0xFFFFFFFF, len(data), len(data)
            )
            block(6, head + data)
            if index % 50 == 7:
                block(0x0BAD, struct.pack(order + "I", 1) + b"ours")
                block(5, struct.pack(order + "III", 0, 0, 0))
    return bytes(file)


def tagged(raw: bytes) -> bytes:
    """Puts a VLAN tag into a frame."""
    return raw[:12] + b"\x81\x00\x00\x05" + raw[12:]


def lengthened(raw: bytes) -> bytes:
    """Gives a frame a length in place of its type, which stands behind LLC then; long ones have no such form."""
    inside = b"\xaa\xaa\x03\x00\x00\x00" + raw[12:]
    return raw[:12] + len(inside).to_bytes(2, "big") + inside if len(inside) <= 1_500 else raw


def files(raws: Sequence[bytes], snap: int) -> dict[str, Callable[[], bytes]]:
    """Returns what makes files of all kinds of some packets, by name; some are cut behind so many bytes."""
    return {
        "plain": lambda: pcap(raws),
        "nanoseconds": lambda: pcap(raws, nanoseconds=True),
        "big": lambda: pcap(raws, order=">"),
        "vlan": lambda: pcap([tagged(raw) for raw in raws]),
        "llc": lambda: pcap([lengthened(raw) for raw in raws]),
        "raw": lambda: pcap([raw[_ETHERNET:] for raw in raws if raw[12:14] in {_IPV4, _IPV6}], link=101),
        "pcapng": lambda: pcapng(raws),
        "pcapng_big": lambda: pcapng(raws, order=">"),
        "gzip": lambda: gzip.compress(pcap(raws), 1),
        f"snap{snap}": lambda: pcap(raws, snap=snap),
        f"chopped{snap}": lambda: pcap([raw[:snap] for raw in raws]),
    }


class Variant(NamedTuple):
    """A damaged capture.

    Attributes:
        name: Of the capture, what was done to it, with which seed, and the kind of file.
        data: The file.
        options: What tshark has to be told.
    """

    name: str
    data: bytes
    options: tuple[str, ...]

    @property
    def order(self) -> Order:
        """In which packets tshark may tell what."""
        return Order.ANY if self.options else Order.LATER


def variant(path: Path, kind: str, seed: int) -> Variant:
    """Returns a capture, damaged in one way."""
    random = Random(f"{path.stem} {kind} {seed}")
    raws = [one.raw for one in KINDS[kind](packets(path), random)]
    made = files(raws, random.choice((96, 200, 1_500, 9_000)))
    # Wireshark reads segments as they come, unless it is told to wait for those that are missing.
    swapped_ones = kind == swapped.__name__
    name = random.choice([one for one in made if not swapped_ones or one[-1].isalpha()])
    return Variant(f"{path.stem}_{kind}_{seed}_{name}", made[name](), _OUT_OF_ORDER if swapped_ones else ())


def variants(paths: Sequence[Path], count: int, seed: int) -> Iterator[Variant]:
    """Yields so many damaged captures, the kinds in turns."""
    random = Random(seed)
    for index in range(count):
        kind = list(KINDS)[index % len(KINDS)]
        yield variant(random.choice(paths), kind, random.randrange(1 << 30))


_OUT_OF_ORDER = ("-o", "tcp.reassemble_out_of_order:TRUE")
