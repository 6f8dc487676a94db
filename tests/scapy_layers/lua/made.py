"""Captures of conversations that are made up: packets to the byte, and sessions in which anything may go wrong."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

from scapy_layers.codes import InterestMode
from scapy_layers.data import Err, Put, Query, Reply
from scapy_layers.declarations import (
    DeclareFinal,
    DeclareKeyExpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    UndeclareKeyExpr,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from scapy_layers.extensions import (
    Compression,
    Drop,
    First,
    Lane,
    LowLatency,
    NodeId,
    Patch,
    QoSOffer,
    WireExpr,
)
from scapy_layers.message import Extension, Message
from scapy_layers.network import Declare, Interest, Push, Request, Response, ResponseFinal
from scapy_layers.transport import Close, Fragment, Frame, Init, KeepAlive, Open

COOKIE = bytes(8)
ZIDS = b"\xa1\x01", b"\xb2\x02"
MASKS = (0x7F, 0x3FFF, 0x0FFF_FFFF)
SYN, PSH, ACK = 2, 8, 16
_SEQUENCE = 14 + 20 + 4
"""Where the numbers of TCP stand in a packet."""


class Talk:
    """A TCP connection between two addresses, packet after packet.

    Attributes:
        packets: Ethernet frames; of several connections, when they share them.
        prefix: Bytes of the lengths in front of batches.
        packed: Batches have the header byte of compression.
    """

    def __init__(self, port: int = 50_000, *, beside: Talk | None = None) -> None:
        self.packets: list[bytes] = [] if beside is None else beside.packets
        self.prefix = 2
        self.packed = False
        self._port = port
        self._next = [1_000, 900_000]
        for back, flags in ((False, SYN), (True, SYN | ACK)):
            self.raw(b"", back=back, flags=flags)
            self._next[back] += 1

    def say(self, *messages: Message | bytes, back: bool = False) -> None:
        """One batch in a segment of its own."""
        raw = b"".join(map(bytes, messages))
        if self.packed:
            raw = b"\0" + raw
        self.raw(len(raw).to_bytes(self.prefix, "little") + raw, back=back)

    def answer(self, *messages: Message | bytes) -> None:
        """One batch from the second end to the first."""
        self.say(*messages, back=True)

    def raw(self, data: bytes, *, back: bool = False, flags: int = PSH | ACK) -> None:
        """A segment."""
        ends = (7447, self._port) if back else (self._port, 7447)
        words = 5 << 4
        tcp = struct.pack(
            ">HHIIBBHHH", *ends, self._next[back], self._next[not back], words, flags, 512, 0, 0
        )
        here, there = bytes([10, 0, 0, 1 + back]), bytes([10, 0, 0, 2 - back])
        size = 40 + len(data)
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, size, 1, 0, 64, 6, 0, here, there)
        self.packets.append(bytes(12) + b"\x08\0" + ip + tcp + data)
        self._next[back] += len(data)

    def restart(self, number: int) -> None:
        """Moves all sequence numbers, as those of another connection between the same ports."""
        for at, packet in enumerate(self.packets):
            seq, ack = struct.unpack_from(">II", packet, _SEQUENCE)
            moved = struct.pack(">II", seq + number, ack + number)
            self.packets[at] = packet[:_SEQUENCE] + moved + packet[_SEQUENCE + 8 :]

    def lose(self, *messages: Message | bytes, back: bool = False) -> None:
        """One batch that is not in the capture."""
        self.say(*messages, back=back)
        del self.packets[-1]

    def handshake(
        self, *extensions: Extension, sn: Sequence[int] = (10, 20), fsn: int = 2, zids: Sequence[bytes] = ZIDS
    ) -> None:
        """INIT and OPEN of both; both name the extensions."""
        own = list(extensions)
        self.say(Init(S=1, whatami=2, zid=zids[0], fsn=fsn, extensions=own))
        self.answer(Init(S=1, A=1, whatami=0, zid=zids[1], fsn=fsn, cookie=COOKIE, extensions=own))
        self.say(Open(T=1, lease=10, initial_sn=sn[0], cookie=COOKIE))
        if any(isinstance(one, LowLatency) for one in own):
            self.prefix = 4
        self.answer(Open(A=1, lease=2500, initial_sn=sn[1]))
        self.packed = self.prefix == 2 and any(isinstance(one, Compression) for one in own)


class Datagrams(Talk):
    """What two nodes say over UDP."""

    def say(self, *messages: Message | bytes, back: bool = False) -> None:
        """One batch in a datagram of its own."""
        self.raw(b"".join(map(bytes, messages)), back=back)

    def raw(self, data: bytes, *, back: bool = False, flags: int = 0) -> None:
        """A datagram; none for what TCP begins with."""
        if flags:
            return
        ends = (7447, self._port) if back else (self._port, 7447)
        here, there = bytes([10, 0, 0, 1 + back]), bytes([10, 0, 0, 2 - back])
        udp = struct.pack(">HHHH", *ends, 8 + len(data), 0)
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 28 + len(data), 1, 0, 64, 17, 0, here, there)
        self.packets.append(bytes(12) + b"\x08\0" + ip + udp + data)


def save(path: Path, *talks: Talk, step: int = 1) -> Path:
    """Writes what was said as a pcap, so many milliseconds between packets."""
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1)]
    for index, packet in enumerate(packet for talk in talks for packet in talk.packets):
        seconds, part = divmod(index * step, 1000)
        parts += [struct.pack("<IIII", seconds, part * 1000, len(packet), len(packet)), packet]
    path.write_bytes(b"".join(parts))
    return path


# Messages -----------------------------------------------------------------------------------------


def put(key: str = "", *, scope: int = 0, own: bool = True) -> Push:
    """A PUT; ``own`` when the alias is one of the sender."""
    return Push(M=int(own), N=int(bool(key)), key_scope=scope, key_suffix=key, body=Put(data=b"x"))


def frame(sn: int, *messages: Message, lane: int | None = None, reliable: bool = True) -> Frame:
    """A FRAME; without a lane, its priority is DATA."""
    chain = [] if lane is None else [Lane(priority=lane)]
    return Frame(R=int(reliable), sn=sn, extensions=chain, messages=list(messages))


def alias(number: int, key: str, scope: int = 0) -> Declare:
    """D_KEYEXPR."""
    return Declare(body=DeclareKeyExpr(key_id=number, key_scope=scope, key_suffix=key))


# Anything -----------------------------------------------------------------------------------------


def lossy_datagrams(patch: int, vain: int) -> list[Talk]:
    """Sessions over UDP with messages in fragments, of which datagrams are lost.

    Args:
        patch: What the sessions agree on.
        vain: How many numbers their senders leave out behind a message in fragments. One of ten they do not end.
    """
    random = Random(patch * 2 + vain)
    talks: list[Talk] = []
    for port in range(50_000, 50_020):
        talk, sn = Datagrams(port), 10
        talk.handshake(Patch(patch=patch))
        for _ in range(12):
            said: list[Message] = [frame(sn, put("c"))]
            if random.random() < 0.6:
                said = _in_fragments(sn, put("a/b" * random.randint(1, 5)), random.choice([3, 5, 9]), patch)
                sn += vain
                if random.random() < 0.1:
                    del said[-1]
            sn += len(said)
            for one in said:
                (talk.lose if random.random() < 0.08 else talk.say)(one)
        talks.append(talk)
    return talks


def _in_fragments(sn: int, message: Message, size: int, patch: int) -> list[Message]:
    whole = bytes(message)
    parts = [whole[at : at + size] for at in range(0, len(whole), size)]
    return [
        Fragment(
            R=1,
            M=int(index < len(parts) - 1),
            sn=sn + index,
            extensions=[First()] if patch and not index else [],
            data=part,
        )
        for index, part in enumerate(parts)
    ]


class Anything:
    """Sessions in which both ends say what comes to their minds, right and wrong."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def talks(self, count: int) -> list[Talk]:
        """Returns some connections."""
        return [self._talk(40_000 + number) for number in range(count)]

    def _talk(self, port: int) -> Talk:
        random, talk = self.random, Talk(port)
        offers = (QoSOffer(), Patch(patch=1), LowLatency(), Compression())
        extensions = [one for one in offers if random.random() < (0.5 if one is not offers[2] else 0.2)]
        fsn = random.randrange(3)
        start = [random.choice((0, 10, MASKS[fsn] - 3)) for _ in range(2)]
        talk.handshake(*extensions, sn=start, fsn=fsn)
        numbers: list[dict[tuple[int | None, bool], int]] = [{}, {}]
        for _ in range(random.randrange(5, 60)):
            back = random.random() < 0.5
            if talk.prefix == 4 and random.random() < 0.97:
                talk.say(self._message(), back=back)
                continue
            lane = (random.choice((None, None, None, 1, 5, 7)), random.random() < 0.7)
            for batch in self._numbered(lane, numbers[back], start[back], MASKS[fsn]):
                talk.say(batch, back=back)
        if random.random() < 0.5:
            talk.say(Close(S=0, reason=0))
        return talk

    def _numbered(
        self,
        lane: tuple[int | None, bool],
        numbers: dict[tuple[int | None, bool], int],
        start: int,
        mask: int,
    ) -> Iterator[Message]:
        """A FRAME, or the FRAGMENTs of a message, with numbers that are right most of the time."""
        random = self.random
        lane = (None if lane[0] == 5 and random.random() < 0.5 else lane[0], lane[1])
        key = (5 if lane[0] is None else lane[0], lane[1])
        chain: list[Extension] = [] if lane[0] is None else [Lane(priority=lane[0])]

        def number() -> int:
            step = random.choice((1,) * 30 + (0, 2, 3, -1, -5, 50))
            numbers[key] = (numbers.get(key, start - 1) + step) & mask
            return mask + 1 if random.random() < 0.01 else numbers[key]

        if random.random() < 0.05:
            yield KeepAlive()
            return
        if random.random() < 0.8:
            messages = [self._message() for _ in range(random.randrange(1, 4))]
            yield Frame(R=int(lane[1]), sn=number(), extensions=chain, messages=messages)
            return
        data = bytes(self._message()) if random.random() < 0.9 else b"\x05 is no network message"
        size = random.randrange(1, len(data) + 1)
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        for at, piece in enumerate(pieces):
            more = at < len(pieces) - 1
            if random.random() < 0.03:
                continue
            marks: list[Extension] = [First()] if (at == 0) == (random.random() < 0.95) else []
            marks += [Drop()] if random.random() < 0.03 else []
            yield Fragment(R=int(lane[1]), M=int(more), sn=number(), extensions=[*chain, *marks], data=piece)
            if random.random() < 0.03:
                yield Frame(R=int(lane[1]), sn=number(), extensions=chain, messages=[self._message()])
        if random.random() < 0.4:
            number()

    # Few numbers and keys: they are met again.

    def _id(self) -> int:
        return self.random.randrange(4)

    def _key(self) -> tuple[int, int, str]:
        """Returns M, scope and suffix."""
        scope = self.random.choice((0, 0, 1, 2, 3))
        return self.random.randrange(2), scope, self.random.choice(("a/b", "/c", "d", "" if scope else "e"))

    def _message(self) -> Message:
        makers: Sequence[Callable[[], Message]] = (
            self._push,
            self._request,
            self._response,
            self._final,
            self._interest,
            self._declare,
            self._declare,
            self._declare,
        )
        return self.random.choice(makers)()

    def _push(self) -> Message:
        mapping, scope, suffix = self._key()
        return put(suffix, scope=scope, own=bool(mapping))

    def _request(self) -> Message:
        mapping, scope, suffix = self._key()
        return Request(
            M=mapping,
            N=int(bool(suffix)),
            request_id=self._id(),
            key_scope=scope,
            key_suffix=suffix,
            body=Query(),
        )

    def _response(self) -> Message:
        mapping, scope, suffix = self._key()
        body = Reply(body=Put(data=b"r")) if self.random.random() < 0.8 else Err(data=b"no")
        return Response(
            M=mapping,
            N=int(bool(suffix)),
            request_id=self._id(),
            key_scope=scope,
            key_suffix=suffix,
            body=body,
        )

    def _final(self) -> Message:
        return ResponseFinal(request_id=self._id())

    def _interest(self) -> Message:
        mode = self.random.choice(tuple(InterestMode))
        if mode == InterestMode.FINAL:
            return Interest(mode=mode, interest_id=self._id())
        mapping, scope, suffix = self._key()
        return Interest(
            mode=mode,
            interest_id=self._id(),
            restricted=1,
            subscribers=1,
            M=mapping,
            N=int(bool(suffix)),
            key_scope=scope,
            key_suffix=suffix,
        )

    def _declare(self) -> Message:
        random = self.random
        mapping, scope, suffix = self._key()
        number, named = self._id(), {"N": int(bool(suffix)), "key_scope": scope, "key_suffix": suffix}
        declared = random.choice((DeclareSubscriber, DeclareQueryable, DeclareToken))
        undeclared = random.choice((UndeclareSubscriber, UndeclareQueryable, UndeclareToken))
        wire = WireExpr(mapping=mapping, **named)
        body = random.choice(
            (
                DeclareKeyExpr(key_id=number + 1, **named),
                DeclareKeyExpr(key_id=number + 1, **named),
                UndeclareKeyExpr(key_id=number + 1),
                declared(entity_id=number, M=mapping, **named),
                declared(entity_id=number, M=mapping, **named),
                undeclared(entity_id=number, extensions=[wire] if random.random() < 0.5 else []),
                DeclareFinal(),
            )
        )
        answers = {"I": 1, "interest_id": self._id()} if random.random() < 0.3 else {}
        chain = [NodeId(node_id=random.randrange(2))] if random.random() < 0.3 else []
        return Declare(body=body, extensions=chain, **answers)
