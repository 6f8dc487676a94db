"""Fragment chains and batches: what belongs together, taken apart and put together in every way but the right one.

A chain is a network message in FRAGMENTs; a batch holds transport messages, a FRAME network messages. Lies about
the fields of FRAGMENT and FRAME are elsewhere; here it is their order, their number and what they hold.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from fuzz.campaigns.base import Campaign, Setting
from fuzz.cases import Case, Edge, Fixed, Source, reach, send
from fuzz.lying import Lying
from fuzz.phrases import (
    Pieces,
    act,
    as_fragment,
    as_frame,
    batch,
    chain,
    closing,
    frame,
    interest,
    kinds,
    link_state,
    listen,
    network_messages,
    noise,
    push,
    query,
    subscriber,
    token,
    undeclare,
)
from fuzz.player.fitting import NODE_BATCH
from fuzz.script import SIZE, Do, Step
from fuzz.sequences import ENDS, Drawn, Made, given
from fuzz.states import State
from scapy_layers.declarations import UndeclareSubscriber
from scapy_layers.message import Message
from scapy_layers.transport import Close, KeepAlive, TransportOam

LONG_CHAIN = 4 << 20
"""Bytes of the longest chains. A node may take a GiB; what it does with much shows in some MB."""

LITTLE = 1000
"""Payload of a FRAGMENT that comes near to any limit of a chain before it is beyond it."""

FULL = NODE_BATCH - 2 - 16
"""Payload of a FRAGMENT that fills a batch: the length and the header stand in front."""

LONGEST_ROW = 400
"""Fragments, FRAMEs or messages in a row, where many are tried."""

LANES = (0, 1, 5, 7)


def _of(data: bytes, *parts: tuple[int, int], **how: bool) -> list[Step]:
    """Returns fragments of pieces of a message, the first marked as first, all but the last with more."""
    last = len(parts) - 1
    return [
        batch(
            as_fragment(data[start:end], first=index == 0, more=index < last, **how),
            note=f"fragment of bytes {start} to {end}",
        )
        for index, (start, end) in enumerate(parts)
    ]


def _part(data: bytes = b"", note: str = "", *, link: str = "a", **how: Any) -> Step:
    words = [name for name, value in how.items() if value not in (None, False)]
    pieces = as_fragment(data, **how)
    return batch(pieces, link=link, note=note or f"fragment of {len(data)} bytes ({', '.join(words)})")


def _chains() -> Fixed:
    whole = bytes(push(data=b"0123456789" * 3))
    third = len(whole) // 3
    one, two, three = whole[:third], whole[third : 2 * third], whole[2 * third :]
    first, middle, last = _part(one, first=True, more=True), _part(two, more=True), _part(three)
    other = _part(bytes(push("fuzz/other")), first=True)
    in_between = frame(push())
    return Fixed(
        "chains",
        State.OPEN,
        "FRAGMENT",
        {
            "first, middle, last": [first, middle, last],
            "first, last": [first, _part(two + three)],
            "one fragment that is all": [_part(whole, first=True)],
            "no first": [_part(one, more=True), middle, last],
            "no last": [first, middle],
            "no last, then a FRAME": [first, middle, in_between],
            "no last, then a FRAME of another lane, then the last": [
                first,
                middle,
                frame(push(), lane=1),
                last,
            ],
            "no last, then a FRAME of the other reliability, then the last": [
                first,
                middle,
                frame(push(), reliable=False),
                last,
            ],
            "the middle alone": [middle],
            "the last alone": [last],
            "first twice": [first, first, middle, last],
            "first in the middle": [first, _part(two, first=True, more=True), last],
            "first at the end": [first, middle, _part(three, first=True)],
            "first on all": [
                _part(one, first=True, more=True),
                _part(two, first=True, more=True),
                _part(three, first=True),
            ],
            "restarted with another message": [first, middle, other],
            "restarted again and again": [*([first, middle] * 20), last],
            "more behind the last": [first, middle, last, middle, last],
            "the last twice": [first, middle, last, last],
            "empty fragments in between": [first, *([_part(more=True)] * 5), middle, _part(more=True), last],
            "the first is empty": [_part(first=True, more=True), _part(one, more=True), middle, last],
            "the last is empty": [first, middle, _part(three, more=True), _part()],
            "all are empty": [_part(first=True, more=True), *([_part(more=True)] * 5), _part()],
            "one empty fragment": [_part(first=True)],
            "one byte each": _of(whole, *((at, at + 1) for at in range(len(whole)))),
            "drop behind the first": [first, _part(more=True, drop=True), middle, last],
            "drop, then a new chain": [first, _part(more=True, drop=True), other],
            "drop alone": [_part(more=True, drop=True)],
            "drop without more": [first, _part(drop=True), middle, last],
            "drop with bytes": [first, _part(two, more=True, drop=True), last],
            "drop on the first": [_part(one, first=True, more=True, drop=True), middle, last],
            "drop at the end": [first, middle, _part(three, drop=True)],
            "drop again and again": [first, *([_part(more=True, drop=True)] * 50), other],
            "a gap in the numbers": [first, _skipped(), last],
            "the same number twice": [
                _part(one, first=True, more=True, sn=1_000_000),
                _part(two, more=True, sn=1_000_000),
                _part(three, sn=1_000_001),
            ],
            "numbers backwards": [
                _part(one, first=True, more=True, sn=1_000_002),
                _part(two, more=True, sn=1_000_001),
                _part(three, sn=1_000_000),
            ],
            "numbers far ahead": [
                _part(one, first=True, more=True, sn=1_000_000),
                _part(two, more=True, sn=1_000_000 + (1 << 26)),
                _part(three, sn=1_000_000 + (1 << 26) + 1),
            ],
            "the lane changes": [
                _part(one, first=True, more=True, lane=1),
                _part(two, more=True, lane=2),
                _part(three, lane=3),
            ],
            "the reliability changes": [
                _part(one, first=True, more=True),
                _part(two, more=True, reliable=False),
                _part(three),
            ],
            "lanes in turns": [
                step
                for parts in zip(*(chain(whole, 3, lane=lane) for lane in range(8)), strict=True)
                for step in parts
            ],
            "lanes and reliabilities in turns": [
                step
                for parts in zip(
                    *(
                        chain(whole, 3, lane=lane, reliable=reliable)
                        for lane in LANES
                        for reliable in (True, False)
                    ),
                    strict=True,
                )
                for step in parts
            ],
            "lane said on the first only": [_part(one, first=True, more=True, lane=5), middle, last],
            "a lane that does not exist": [
                send(SIZE, b"\xe6", "sn", b"\x31\x0f" + one, note="fragment of lane 15"),
                last,
            ],
            "a lane beyond a byte": [
                send(
                    SIZE,
                    b"\xe6",
                    "sn",
                    b"\x31\xff\xff\xff\xff\x7f" + one,
                    note="fragment of a lane without end",
                ),
                last,
            ],
            "a FRAGMENT in a session of lanes that says no lane": [_part(whole, first=True, lane=None)],
            "two chains in two sessions": [
                reach(State.OPEN, "b"),
                *[
                    step
                    for parts in zip(chain(whole, 3), chain(whole, 3, link="b"), strict=True)
                    for step in parts
                ],
            ],
            "a chain that goes on in another session": [
                reach(State.OPEN, "b"),
                first,
                _part(two, more=True, link="b"),
                _part(three, link="b"),
                last,
            ],
            "CLOSE in the middle": [first, middle, closing()],
            "CLOSE in the middle, then the last": [first, middle, closing(), last],
            "KEEP_ALIVE in the middle": [first, batch(KeepAlive(), note="KEEP_ALIVE"), middle, last],
            "an empty batch in the middle": [first, batch(note="empty batch"), middle, last],
            "OAM in the middle": [first, batch(TransportOam(oam_id=7, data=b"hi"), note="OAM"), middle, last],
            "a FRAME in front, in its batch": [
                batch(as_frame(push()), as_fragment(whole, first=True), note="FRAME and FRAGMENT")
            ],
            "a chain in front of each other one, in one batch": [
                batch(
                    as_fragment(one, first=True, more=True),
                    as_fragment(two, more=True),
                    as_fragment(three),
                    note="chain in a batch",
                )
            ],
            **{f"the link ends in the middle: {how}": [first, middle, act(how)] for how in ENDS},
            **{
                f"{kind} in the middle": [first, middle, make("a"), last]
                for kind, make in kinds().items()
                if kind != "CLOSE"
            },
        },
        "chain",
    )


def _skipped() -> Step:
    return _part(b"x", more=True, sn=1_000_000 + 5)


def _contents() -> Made:
    """What a chain carries that is no network message, or more than one, or one with another chain in it."""
    whole = bytes(push())
    declare = bytes(subscriber(900))
    nested = bytes_of(as_frame(push(), sn=1_000_000))
    inside = bytes_of(as_fragment(whole, first=True, sn=1_000_000))
    contents: dict[str, Callable[[], bytes]] = {
        "nothing": lambda: b"",
        "a zero": lambda: b"\x00",
        "zeros": lambda: bytes(1000),
        "ones": lambda: b"\xff" * 1000,
        "a message that is cut": lambda: whole[:-2],
        "a header alone": lambda: whole[:1],
        "a message, then garbage": lambda: whole + b"\xff\xff\xff",
        "two messages": lambda: whole + declare,
        "a hundred messages": lambda: whole * 100,
        "a FRAME": lambda: nested,
        "a FRAME in a FRAME": lambda: bytes_of(as_frame(nested, sn=1_000_000)),
        "a FRAGMENT": lambda: inside,
        "CLOSE": lambda: bytes(Close(reason=0)),
        "KEEP_ALIVE": lambda: bytes(KeepAlive()),
        "a PUSH with a long key": lambda: bytes(push("fuzz/" + "k" * 60_000)),
        "a PUSH with a key of very many chunks": lambda: bytes(push("/".join(["k"] * 30_000))),
        "a PUSH of 100 kB": lambda: bytes(push(data=b"x" * 100_000)),
        "a subscriber with a long key": lambda: bytes(subscriber(1, "fuzz/" + "k" * 60_000)),
        "an interest in a long key": lambda: bytes(interest(1, key="fuzz/" + "k" * 60_000)),
        "a query with a long key": lambda: bytes(query(1, "fuzz/" + "k" * 60_000)),
        "link state of a hundred": lambda: bytes(link_state(1, 100)),
    }
    variants: dict[str, Callable[[], Sequence[Step]]] = {}
    for words, make in contents.items():
        variants[f"{words}, in one"] = partial(_carrying, make, 1)
        variants[f"{words}, in three"] = partial(_carrying, make, 3)
        variants[f"{words}, to another session"] = partial(_heard, make)
    return Made("contents of chains", State.OPEN, "FRAGMENT", variants, "content", _any_chain)


def _carrying(make: Callable[[], bytes], parts: int) -> list[Step]:
    return _cut(make(), parts)


def _heard(make: Callable[[], bytes]) -> list[Step]:
    return [
        reach(State.OPEN, "b"),
        frame(subscriber(1, "**"), link="b"),
        act(Do.SETTLE, "b"),
        *_cut(make(), 2),
        listen("b"),
    ]


def bytes_of(pieces: Pieces) -> bytes:
    """Returns a message whose numbers are written out."""
    return b"".join(piece for piece in pieces if isinstance(piece, bytes))


def _cut(data: bytes, parts: int) -> list[Step]:
    """Returns a chain of at least so many fragments, of more if they do not fit into batches."""
    return chain(data, max(parts, -(-len(data) // FULL)))


def _any_chain(rng: random.Random) -> Drawn:
    """Draws a chain with some things wrong."""
    content, data = _any_content(rng)
    parts = rng.randint(1, 6)
    lane, reliable = rng.choice((None, None, *LANES)), rng.random() < 0.7
    pieces = _pieces(rng, data, parts)
    steps: list[Step] = []
    kinds_done = [content]
    for index, piece in enumerate(pieces):
        how: dict[str, Any] = {
            "first": index == 0,
            "more": index < len(pieces) - 1,
            "lane": lane,
            "reliable": reliable,
        }
        if rng.random() < 0.25:
            wrong = rng.choice(
                ("first", "more", "lane", "reliable", "drop", "sn", "twice", "between", "gone")
            )
            kinds_done.append(wrong)
            match wrong:
                case "lane":
                    how["lane"] = rng.choice(LANES)
                case "sn":
                    how["sn"] = rng.choice((0, 999_999, 1_000_000, 1_000_001, 1_000_100, (1 << 28) - 1))
                case "between":
                    kind = rng.choice([name for name in kinds() if name != "CLOSE"])
                    kinds_done[-1] = f"{kind} between"
                    steps.append(kinds()[kind]("a"))
                case "twice":
                    steps.append(_part(piece, **how))
                case "gone":
                    continue
                case _:
                    how[wrong] = not how.get(wrong)
        steps.append(_part(piece, **how))
    words = f"{content} in {len(pieces)}: {', '.join(kinds_done[1:]) or 'as it should be'}"
    return Drawn(words, tuple(dict.fromkeys(kinds_done)), steps)


def _any_content(rng: random.Random) -> tuple[str, bytes]:
    match rng.randrange(5):
        case 0:
            return "garbage", rng.randbytes(rng.choice((1, 5, 50, 500)))
        case 1:
            return "FRAME", bytes_of(as_frame(push(), sn=rng.choice((0, 1_000_000))))
        case 2:
            data = bytearray(bytes(rng.choice(list(network_messages().values()))))
            for _ in range(rng.randint(1, 3)):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            return "havoc", bytes(data)
        case _:
            name, message = rng.choice(list(network_messages().items()))
            return name, bytes(message)


def _pieces(rng: random.Random, data: bytes, parts: int) -> list[bytes]:
    cuts = sorted(rng.randint(0, len(data)) for _ in range(parts - 1))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def _long() -> Made:
    """Chains of some MB, and of very many fragments."""

    def long(size: int, *end: Step, first: bool = True, **how: Any) -> Callable[[], list[Step]]:
        def make() -> list[Step]:
            head = bytes(push(data=b"x" * size))[:64]
            return [
                _part(head + noise(FULL - 64), first=first, more=True, **how),
                batch(
                    as_fragment(noise(FULL), more=True, **how),
                    times=max(1, size // FULL - 1),
                    note=f"{size >> 20} MB of fragments",
                ),
                *end,
            ]

        return make

    small = bytes(1)
    return Made(
        "long chains",
        State.OPEN,
        "FRAGMENT",
        {
            "some MB, then the last": long(LONG_CHAIN, _part()),
            "some MB, no last": long(LONG_CHAIN),
            "some MB without a first": long(LONG_CHAIN, _part(), first=False),
            "some MB, then drop": long(LONG_CHAIN, _part(more=True, drop=True)),
            "some MB, then a FRAME": long(LONG_CHAIN, frame(push())),
            "some MB, then a new first": long(LONG_CHAIN, _part(bytes(push()), first=True)),
            "some MB as best effort": long(LONG_CHAIN, _part(reliable=False), reliable=False),
            **{f"some MB, then the link ends: {how}": long(LONG_CHAIN, act(how)) for how in ENDS},
            "as much on every lane, no last": lambda: [
                step
                for lane in range(8)
                for step in (
                    _part(noise(1000), first=True, more=True, lane=lane),
                    batch(
                        as_fragment(noise(FULL), more=True, lane=lane),
                        times=LONG_CHAIN // 8 // FULL,
                        note="half a MB of fragments",
                    ),
                )
            ],
            "some MB in small fragments": lambda: [
                _part(noise(LITTLE), first=True, more=True),
                batch(
                    as_fragment(noise(LITTLE), more=True),
                    times=LONG_CHAIN // LITTLE,
                    note=f"fragments of {LITTLE} bytes",
                ),
                _part(),
            ],
            "very many fragments of one byte": lambda: [
                _part(small, first=True, more=True),
                batch(as_fragment(small, more=True), times=5000, note="fragments of one byte"),
                _part(small),
            ],
            "very many empty fragments": lambda: [
                _part(bytes(push())[:4], first=True, more=True),
                batch(as_fragment(b"", more=True), times=5000, note="empty fragments"),
                _part(bytes(push())[4:]),
            ],
            "very many chains without a last": lambda: [
                batch(as_fragment(noise(1000), first=True, more=True), times=2000, note="first fragments")
            ],
            "very many fragments without a first": lambda: [
                batch(as_fragment(noise(1000), more=True), times=2000, note="fragments"),
                _part(),
            ],
            "a long message to another session": lambda: [
                reach(State.OPEN, "b"),
                frame(subscriber(1), link="b"),
                act(Do.SETTLE, "b"),
                *_cut(bytes(push(data=b"x" * (1 << 20))), 1),
                listen("b"),
            ],
            "a long message to a session that does not read": lambda: [
                reach(State.OPEN, "b"),
                frame(subscriber(1), link="b"),
                act(Do.SETTLE, "b"),
                act(Do.PAUSE, "b"),
                *(_cut(bytes(push(data=b"x" * (2 << 20))), 1) * 3),
                act(Do.RESET, "b"),
            ],
        },
        "long",
    )


def _batches() -> Made:
    """Many messages to a batch, messages in messages, the largest batches."""
    one = push()
    raw = bytes(one)
    fitting = (NODE_BATCH - 2 - 8) // len(raw)
    keep_alive = bytes(KeepAlive())
    oam = bytes(TransportOam(oam_id=7, data=b"hi"))
    empty_frame = bytes_of(as_frame(sn=0))
    spread = as_frame(one)
    several: list[Message] = [one, subscriber(1), query(1), interest(1), token(2)]
    variants: dict[str, Callable[[], Sequence[Step]]] = {
        "a FRAME with no message": lambda: [frame(), frame(one)],
        "FRAMEs with no message": lambda: [batch(*([as_frame()] * LONGEST_ROW), note="empty FRAMEs")],
        "a FRAME with very many messages": lambda: [frame(raw * fitting, note=f"{fitting} PUSH")],
        "a FRAME with messages of each kind": lambda: [frame(*several)],
        "very many FRAMEs in a batch": lambda: [batch(*([spread] * LONGEST_ROW), note="FRAMEs")],
        "FRAMEs of all lanes in a batch": lambda: [
            batch(*(as_frame(one, lane=lane) for lane in range(8)), note="FRAMEs of all lanes")
        ],
        "a FRAME in a FRAME": lambda: [frame(bytes_of(as_frame(one, sn=1_000_000)))],
        "FRAMEs in a FRAME": lambda: [frame(empty_frame * LONGEST_ROW)],
        "a FRAGMENT in a FRAME": lambda: [frame(bytes_of(as_fragment(raw, first=True, sn=1_000_001)))],
        **{
            f"{kind} in a FRAME": given(frame(raw, message, raw, note="transport message in a FRAME"))
            for kind, message in (
                ("KEEP_ALIVE", keep_alive),
                ("OAM of the transport", oam),
                ("CLOSE", bytes(Close(reason=0))),
            )
        },
        "OAM between FRAMEs": lambda: [batch(spread, oam, spread, oam, note="OAM between FRAMEs")],
        "KEEP_ALIVE between FRAMEs": lambda: [
            batch(spread, keep_alive, spread, keep_alive, note="KEEP_ALIVE between FRAMEs")
        ],
        "a batch full of KEEP_ALIVE": lambda: [batch(keep_alive * (NODE_BATCH - 2), note="KEEP_ALIVEs")],
        "batches of KEEP_ALIVE": lambda: [batch(keep_alive, times=2000, note="KEEP_ALIVE")],
        "a batch full of OAM": lambda: [batch(oam * ((NODE_BATCH - 2) // len(oam)), note="OAMs")],
        "very many empty batches": lambda: [batch(times=2000, note="empty batch")],
        "a batch of the largest size": lambda: [_sized(NODE_BATCH - 2)],
        "a batch one byte larger than it may be": lambda: [_sized(NODE_BATCH - 1), frame(one)],
        "a batch two bytes larger than it may be": lambda: [_sized(NODE_BATCH), frame(one)],
        "a batch of the largest length": lambda: [_sized(0xFFFF), frame(one)],
        "batches of the largest size": lambda: [
            batch(_sized_pieces(NODE_BATCH - 2), times=80, note="batch of the largest size")
        ],
        "messages, then garbage": lambda: [
            batch(spread, keep_alive, spread, b"\xff\xff\xff", note="then garbage")
        ],
        "messages, then zeros": lambda: [batch(spread, keep_alive, spread, bytes(100), note="then zeros")],
        "garbage between messages": lambda: [batch(spread, b"\x1f\x0f\x0f", spread, note="garbage between")],
        "a message that is cut, then others": lambda: [
            batch(as_frame(raw[:-3]), spread, note="cut, then others")
        ],
        "a FRAME of an unknown lane between others": lambda: [
            batch(spread, as_frame(one, lane=7), spread, note="unknown lane between")
        ],
        "CLOSE between FRAMEs": lambda: [batch(spread, Close(reason=0), spread, note="CLOSE between FRAMEs")],
        "a FRAME byte by byte": lambda: [
            Step(Do.SEND, data=frame(one).data, bytewise=True, note="byte by byte")
        ],
        "two batches, the length of the second cut in two": lambda: [
            send(*_plain(frame(one)), b"\x01", note="a batch and half a length"),
            send(b"\x00" + keep_alive, note="the other half"),
        ],
        **{
            f"half a batch, then the link ends: {how}": given(
                send("size|length says twice as much", *as_frame(one), note="half a batch"),
                act(how),
            )
            for how in ENDS
        },
        "many declarations in one FRAME, taken back in the next": lambda: [
            frame(*[subscriber(number, f"fuzz/{number}") for number in range(200)], note="200 D_SUBSCRIBER"),
            frame(
                *[undeclare(UndeclareSubscriber, number) for number in range(200)], note="200 U_SUBSCRIBER"
            ),
        ],
        **{f"{kind} very often in one batch": partial(_often, make) for kind, make in kinds().items()},
    }
    return Made("batches", State.OPEN, "FRAME", variants, "batch", _any_batch)


def _sized_pieces(size: int) -> Pieces:
    """Returns a FRAME of exactly so many bytes while its number has three."""
    head = len(bytes(push(data=b""))) + 4
    data = bytes(size - head - 4)
    frame_ = as_frame(push(data=data))
    missing = size - sum(len(piece) if isinstance(piece, bytes) else 3 for piece in frame_)
    return as_frame(push(data=bytes(len(data) + missing)))


def _sized(size: int) -> Step:
    return batch(_sized_pieces(size), note=f"batch of {size} bytes")


def _plain(step: Step) -> tuple[bytes | str, ...]:
    """Returns the pieces of a batch with its length written out, so that more may follow."""
    body = step.data.pieces[1:]
    size = sum(len(piece) if isinstance(piece, bytes) else 3 for piece in body)
    return (size.to_bytes(2, "little"), *body)


def _often(make: Callable[[str], Step]) -> Sequence[Step]:
    step = make("a")
    pieces = step.data.pieces[1:]
    size = sum(len(piece) if isinstance(piece, bytes) else 3 for piece in pieces)
    times = min(LONGEST_ROW, (NODE_BATCH - 2) // max(1, size))
    return [send(SIZE, *(pieces * times), note=f"{times} times {step.note}")]


def _any_batch(rng: random.Random) -> Drawn:
    parts: list[Pieces | Message | bytes] = []
    done: list[str] = []
    for _ in range(rng.randint(2, 12)):
        match rng.randrange(6):
            case 0:
                done.append("KEEP_ALIVE")
                parts.append(KeepAlive())
            case 1:
                done.append("OAM")
                parts.append(TransportOam(oam_id=rng.choice((0, 1, 7, 65_535)), data=b"hi"))
            case 2:
                done.append("empty FRAME")
                parts.append(as_frame(lane=rng.choice((None, *LANES))))
            case 3:
                done.append("garbage")
                parts.append(rng.randbytes(rng.randint(1, 6)))
            case _:
                names = rng.sample(list(network_messages()), rng.randint(1, 4))
                done += names
                inside = [network_messages()[name] for name in names]
                parts.append(
                    as_frame(*inside, lane=rng.choice((None, None, *LANES)), reliable=rng.random() < 0.8)
                )
    if rng.random() < 0.3:
        done.append("FRAGMENT")
        parts.append(as_fragment(bytes(push()), first=rng.random() < 0.7, more=rng.random() < 0.5))
    return Drawn(", ".join(done), tuple(dict.fromkeys(done)), [batch(*parts, note=", ".join(done))])


class Fragmented(Source):
    """Lies about a network message that travels in a chain.

    Args:
        kind: For coverage.
        message: The valid message.
        parts: How many fragments it travels in.
    """

    sequence = True

    def __init__(self, kind: str, message: Message, parts: int) -> None:
        self.name = f"{kind} in fragments"
        self.state = State.OPEN
        self.message = kind
        self._parts = parts
        self._lies = Lying(self.name, self.state, message, kind=self.message, prefix="")

    def cases(self, rng: random.Random) -> Iterator[Case]:
        """See Source."""
        return map(self._taken, self._lies.cases(rng))

    def more(self, rng: random.Random) -> Iterator[Case]:
        """See Source."""
        return map(self._taken, self._lies.more(rng))

    def edges(self) -> Iterable[Edge]:
        """See Source."""
        return self._lies.edges()

    def steps(self, case: Case) -> tuple[Step, ...]:
        """See Source."""
        original: Case = case.plan
        whole = original.steps[0].data
        data = b"".join(piece for piece in whole.pieces if isinstance(piece, bytes))
        return tuple(_cut(data, self._parts))

    def _taken(self, case: Case) -> Case:
        return Case(
            self,
            case.message,
            case.field,
            case.mutation,
            "content",
            case.causes,
            case.edges,
            plan=case,
        )


def _sources(setting: Setting) -> Iterator[Source]:  # noqa: ARG001  (nothing depends on it)
    yield _chains()
    yield _contents()
    yield _long()
    yield _batches()
    for name, message in network_messages().items():
        yield Fragmented(name, message, 3)


CAMPAIGN = Campaign(
    "fragments",
    "fragment chains in every wrong order and with any content, and everything a batch or FRAME can hold",
    _sources,
)
