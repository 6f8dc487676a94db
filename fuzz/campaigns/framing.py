"""How batches travel: lengths that lie, batches in pieces and in heaps, compression, low latency.

What is in the batches is right, so that only their framing is on trial.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise

from fuzz.campaigns.base import Campaign, Setting
from fuzz.campaigns.messages import KINDS, main_forms
from fuzz.campaigns.placing import Stated
from fuzz.cases import Source, reach, send
from fuzz.phrases import act, as_fragment, as_frame, batch, closing, frame, init, opening, push
from fuzz.script import SIZE, SIZE32, Do, Step
from fuzz.sequences import Drawn, Made
from fuzz.states import State
from scapy_layers.batch import MAX_BATCH
from scapy_layers.codes import Kind
from scapy_layers.transport import Close, KeepAlive, TransportOam

TCP_STATES = (
    State.CONNECTED,
    State.INIT_ACKED,
    State.OPEN,
    State.FRAGMENTING,
    State.CLOSED,
    State.INIT_RECEIVED,
    State.OPEN_RECEIVED,
    State.ACCEPTED,
)
"""States of links whose batches have a length of two bytes in front."""

LENGTHS = (0, 1, 2, 3, 15, 127, 128, 255, 256, 32_767, 32_768, 49_150, 49_151, 49_152, 65_534, 65_535)

LONG_LENGTHS = (*LENGTHS, 65_536, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 2, (1 << 32) - 1)
"""Of the length in low-latency sessions, which has four bytes."""

SMALLEST = 10
"""Bytes from which on one large message is worth it."""

HEAP = 300
"""Batches in one segment."""

BOMB = 65_000
"""Bytes of a batch that unpacks to 255 times as many."""

STORED, COMPRESSED = b"\x00", b"\x01"


def make(setting: Setting) -> Iterator[Source]:  # noqa: ARG001  (every campaign is called like this)
    """Lengths and pieces in every state of a stream; then what compression and low latency add."""
    for state in TCP_STATES:
        yield Made(f"lengths in {state}", state, "batch", dict(_lengths(2, LENGTHS)), "length")
        yield Made(f"empty batches in {state}", state, "batch", dict(_empty(SIZE)), "length", alone=False)
    for state in (State.OPEN, State.ACCEPTED):
        yield Made(
            f"pieces in {state}", state, "batch", dict(_pieces()), "pieces", _cut_anywhere, alone=False
        )
    yield Made("links that stop in the middle", State.OPEN, "batch", dict(_stopped()), "pieces")
    yield Made("pieces of a handshake", State.CONNECTED, "INIT", dict(_handshakes()), "pieces")
    yield from _low_latency()
    yield from _compression()


Variant = tuple[str, Callable[[], Sequence[Step]]]


def _raw(*data: bytes, note: str = "") -> Callable[[], Sequence[Step]]:
    return lambda: [send(one, note=note) for one in data]


def filled(size: int) -> bytes:
    """Returns transport messages of so many bytes: one large one, so that it is not their number that counts."""
    keep = bytes(KeepAlive())
    if size < SMALLEST:
        return keep * size
    over = len(bytes(TransportOam(oam_id=7, data=bytes(size)))) - size
    large = bytes(TransportOam(oam_id=7, data=bytes(size - over)))
    return large + keep * (size - len(large))


def _lengths(width: int, lengths: Sequence[int]) -> Iterator[Variant]:
    """Lengths that say more than follows, or less."""
    keep = bytes(KeepAlive())
    for size in lengths:
        said = size.to_bytes(width, "little")
        yield f"{size}, nothing follows", _raw(said)
        yield f"{size}, one byte follows", _raw(said + keep)
        if 0 < size <= MAX_BATCH:
            yield f"{size}, as much follows", _raw(said + filled(size))
            yield f"{size}, one byte less", _raw(said + filled(size)[:-1])
            yield f"{size}, one byte more", _raw(said + filled(size) + keep)
            yield f"{size}, high bytes", _raw(said + b"\xff" * size)
        if width == 2:
            yield f"{size}, the other byte first", _raw(size.to_bytes(width, "big") + keep * min(size, 300))
    for cut in range(1, width):
        yield f"{cut} byte of a length", _raw(b"\x01" * cut)
    other = 6 - width
    yield f"a length of {other} bytes", _raw(len(keep).to_bytes(other, "little") + keep)
    yield "no length", _raw(keep)
    yield "a line of text", _raw(b"GET / HTTP/1.1\r\n\r\n")
    yield "a TLS hello", _raw(bytes.fromhex("16030100c8010000c40303") + bytes(192))


def _empty(prefix: str) -> Iterator[Variant]:
    one = send(prefix, note="an empty batch")
    yield "an empty batch", lambda: [one]
    yield "two empty batches", lambda: [one, one]
    yield "many empty batches", lambda: [send(bytes(2 * HEAP), note="empty batches")]
    yield "empty batches and a KEEP_ALIVE", lambda: [one, send(prefix, bytes(KeepAlive())), one]


def _pieces() -> Iterator[Variant]:
    """Correct batches, cut and heaped."""
    keep = b"\x01\x00" + bytes(KeepAlive())
    value = push(data=bytes(200))
    yield "byte by byte", lambda: [_bytewise(frame(value))]
    yield "a heap of KEEP_ALIVEs", _raw(keep * HEAP)
    yield "a heap of KEEP_ALIVEs and half of one", _raw(keep * HEAP + keep[:2], keep[2:])
    yield "the length alone, then the rest", _raw(keep[:2], keep[2:])
    yield "half a length, then the rest", _raw(keep[:1], keep[1:])
    yield "the end of one batch and the beginning of the next", _raw(keep[:2], keep[2:] + keep[:1], keep[1:])
    yield "a batch of KEEP_ALIVEs", lambda: [batch(bytes(KeepAlive()) * HEAP, note="KEEP_ALIVEs")]
    yield "a batch of FRAMEs", lambda: [batch(*[as_frame(push())] * 50, note="FRAMEs")]
    yield "a FRAME of many", lambda: [frame(*[push()] * 200, note="PUSHes")]
    yield "a FRAME of nothing", lambda: [frame()]
    yield "the largest batch that nodes take", lambda: [frame(push(data=bytes(49_000)))]
    yield "a large batch in two segments", lambda: _halves(frame(push(data=bytes(40_000))))
    yield "a KEEP_ALIVE behind a FRAME", lambda: [batch(as_frame(push()), KeepAlive(), as_frame(push()))]


def _stopped() -> Iterator[Variant]:
    """Another link says the beginning of a batch, and nothing more; meanwhile the node is asked on this one."""
    for state in (State.CONNECTED, State.INIT_ACKED, State.OPEN):
        for words, said in {
            "half a length": b"\x20",
            "a length": b"\x20\x00",
            "a length and half of the batch": b"\x20\x00" + bytes(KeepAlive()) * 16,
        }.items():
            yield (
                f"{words} on another link in {state}",
                partial(
                    list,
                    # The end of the other link is behind the question: a node that waited for it answers then.
                    (reach(state, "b"), send(said, link="b", note=words), act(Do.SETTLE), act(Do.CLOSE, "b")),
                ),
            )


def _bytewise(step: Step) -> Step:
    return Step(Do.SEND, step.link, data=step.data, bytewise=True, note=f"{step.note} byte by byte")


def _halves(step: Step) -> list[Step]:
    """The number is filled in once, so what is cut is a FRAME on a lane of its own, with its first number."""
    pieces = step.data.pieces
    head, tail = pieces[1], pieces[3]
    assert isinstance(head, bytes)
    assert isinstance(tail, bytes)
    size = len(head) + 3 + len(tail)
    return [send(size.to_bytes(2, "little"), head, "sn", tail[:20_000]), send(tail[20_000:], note="the rest")]


def _cut_anywhere(rng: random.Random) -> Drawn:
    """Draws correct batches and cuts the stream of them where it likes."""
    parts = [
        rng.choice((b"\x01\x00\x04", b"\x00\x00", b"\x02\x00\x04\x04", b"\x05\x00\x00\x07\x04\x04\x04"))
        for _ in range(rng.randrange(1, 40))
    ]
    stream = b"".join(parts)
    cuts = sorted(rng.randrange(len(stream) + 1) for _ in range(rng.randrange(1, 8)))
    edges = [0, *cuts, len(stream)]
    pieces = [stream[a:b] for a, b in pairwise(edges) if b > a]
    words = f"{len(parts)} batches in {len(pieces)} pieces"
    return Drawn(words, ("pieces",), [send(piece, note=words) for piece in pieces])


def _handshakes() -> Iterator[Variant]:
    yield "INIT byte by byte", lambda: [_bytewise(init())]
    yield "INIT twice in one segment", lambda: [send(*_unsized(init()), note="INIT INIT")]
    yield "INIT behind an empty batch", lambda: [send(b"\x00\x00"), init()]
    yield (
        "INIT, and bytes behind it in its batch",
        lambda: [send(*init().data.pieces, bytes(500), note="INIT and zeros")],
    )
    yield "INIT and half of another length", lambda: [init(), send(b"\x16")]
    yield "INIT, then OPEN without waiting", lambda: [init(), opening()]


def _unsized(step: Step) -> tuple[bytes | str, ...]:
    pieces = step.data.pieces
    return (*pieces, *pieces[1:])


# Low latency ------------------------------------------------------------------------------------------------


def _low_latency() -> Iterator[Source]:
    state = State.LOW_LATENCY
    yield Made(f"lengths in {state}", state, "batch", dict(_lengths(4, LONG_LENGTHS)), "length")
    yield Made(f"what has no place in {state}", state, "FRAME", dict(_out_of_place()), "place")
    for kind in ("KEEP_ALIVE", "CLOSE", "PUSH"):
        for words, message in main_forms(kind).items():
            yield Stated(f"{kind} {words} in {state}", state, message)


def _out_of_place() -> Iterator[Variant]:
    for kind, cls in KINDS.items():
        if cls.kind is Kind.TRANSPORT:
            for words, message in main_forms(kind).items():
                yield f"{kind} {words}", lambda message=message: [send(SIZE32, bytes(message))]  # type: ignore[misc]
    one = bytes(push())
    yield "FRAME", lambda: [send(SIZE32, *as_frame(push()))]
    yield (
        "FRAGMENT, then its end",
        lambda: [
            send(SIZE32, *as_fragment(one[:5], first=True, more=True)),
            send(SIZE32, *as_fragment(one[5:])),
        ],
    )
    yield "two PUSHes in one batch", lambda: [send(SIZE32, one + one)]
    yield "PUSH and KEEP_ALIVE in one batch", lambda: [send(SIZE32, one + bytes(KeepAlive()))]
    yield "CLOSE and PUSH in one batch", lambda: [send(SIZE32, bytes(Close()) + one)]
    yield "PUSH behind CLOSE", lambda: [send(SIZE32, bytes(Close())), send(SIZE32, one)]
    yield "a length of two bytes", lambda: [send(SIZE, one)]
    yield "CLOSE with a length of two bytes", lambda: [closing()]
    yield "an empty batch", lambda: [send(bytes(4))]
    yield "many empty batches", lambda: [send(bytes(4 * HEAP))]
    for size in (49_000, 65_400, 70_000, 1 << 20):
        yield f"a PUSH of {size} bytes", lambda size=size: [send(SIZE32, bytes(push(data=bytes(size))))]  # type: ignore[misc]


# Compression ------------------------------------------------------------------------------------------------


def literals(data: bytes) -> bytes:
    """Returns an LZ4 block that holds bytes as they are."""
    size = len(data)
    head = bytes([min(size, 15) << 4])
    if size >= 15:
        head += b"\xff" * ((size - 15) // 255) + bytes([(size - 15) % 255])
    return head + data


def match(back: int, size: int, before: bytes = b"\x04") -> bytes:
    """Returns the beginning of an LZ4 block: literals, then a copy of at least four bytes from so far back."""
    more = size - 4
    token = len(before) << 4 | min(more, 15)
    tail = b"\xff" * ((more - 15) // 255) + bytes([(more - 15) % 255]) if more >= 15 else b""
    return bytes([token]) + before + back.to_bytes(2, "little") + tail


def packed(size: int) -> bytes:
    """Returns an LZ4 block that unpacks to a transport message of so many bytes."""
    head = filled(size)[: -(size - SMALLEST)]
    return match(1, size - len(head) - 5, head) + literals(bytes(5))


def _compression() -> Iterator[Source]:
    state = State.COMPRESSED
    yield Made(f"lengths in {state}", state, "batch", dict(_lengths(2, LENGTHS)), "length")
    yield Made("headers of batches", state, "batch", dict(_headers()), "flags", alone=False)
    yield Made("blocks", state, "batch", dict(_blocks()), "compression", _any_block, alone=False)
    yield Made(
        "INIT with compression, the rest without", State.CONNECTED, "INIT", dict(_unagreed()), "agreement"
    )


def _headers() -> Iterator[Variant]:
    """Every header of a batch, in front of a stored and of a compressed one."""
    keep = bytes(KeepAlive())
    for header in range(256):
        head = bytes([header])
        yield f"header {header:02x}, stored", lambda head=head: [send(SIZE, head, keep)]  # type: ignore[misc]
        yield f"header {header:02x}, compressed", lambda head=head: [send(SIZE, head, literals(keep))]  # type: ignore[misc]
    yield "no header", lambda: [send(SIZE)]
    yield "a header and nothing", lambda: [send(SIZE, STORED)]
    yield "a header of a block and nothing", lambda: [send(SIZE, COMPRESSED)]


def _blocks() -> Iterator[Variant]:
    keep = bytes(KeepAlive())
    blocks: dict[str, bytes] = {
        "literals": literals(keep * 40),
        "literals and a match": match(1, 60) + literals(keep * 5),
        "no literals at the end": match(1, 60),
        "an offset of 0": match(0, 60) + literals(keep),
        "an offset from before the block": match(2, 60) + literals(keep),
        "the largest offset": match(65_535, 60) + literals(keep),
        "a length that goes on": b"\xf0" + b"\xff" * 1000,
        "a length that ends the block": b"\xf0",
        "a match length that goes on": b"\x1f\x04\x01\x00" + b"\xff" * 1000,
        "literals that are not there": b"\xf0\x64" + keep,
        "half an offset": b"\x10\x04\x01",
        "a token alone": b"\x00",
        "many tokens": bytes(500),
        "a literal length of 16 MB": b"\xf0" + b"\xff" * BOMB + b"\x00",
        "nothing in a block": literals(b""),
        "a frame of LZ4, not a block": bytes.fromhex("04224d186040820000000000"),
    }
    for size in (100, 49_150, 49_151, 49_152, 65_534, 65_535, 65_536, 200_000, 1 << 20):
        blocks[f"a message that unpacks to {size} bytes"] = packed(size)
    blocks["a bomb"] = b"\x1f\x04\x01\x00" + b"\xff" * BOMB + b"\x00" + literals(keep * 5)
    blocks["a bomb that is cut"] = b"\x1f\x04\x01\x00" + b"\xff" * BOMB
    blocks["zeros that unpack to much"] = match(1, 60_000, b"\x00") + literals(b"\x00" * 5)
    for name, block in blocks.items():
        yield name, lambda block=block: [send(SIZE, COMPRESSED, block)]  # type: ignore[misc]
    yield "bombs", lambda: [send(SIZE, COMPRESSED, blocks["a bomb"], times=20)]
    value = bytes(push(data=bytes(3000)))
    yield "a FRAME", lambda: [send(SIZE, COMPRESSED, *_packed_frame(value))]
    yield "a FRAME that is stored", lambda: [send(SIZE, STORED, *as_frame(value))]
    yield "a CLOSE", lambda: [send(SIZE, COMPRESSED, literals(bytes(Close(S=1, reason=0))))]


def _packed_frame(inside: bytes) -> tuple[bytes | str, ...]:
    """A block of a FRAME: its number is filled in when it leaves, and has three bytes then."""
    head, number, tail = as_frame(inside)
    assert isinstance(head, bytes)
    assert isinstance(tail, bytes)
    size = len(head) + 3 + len(tail)
    return literals(bytes(size))[:-size] + head, number, tail


def _any_block(rng: random.Random) -> Drawn:
    """Draws sequences of an LZ4 block, right ones for the most part; then changes a few bytes."""
    block = bytearray()
    done = 0
    for _ in range(rng.randrange(1, 12)):
        before = bytes([4]) * rng.randrange(1, 15)
        done += len(before)
        size = rng.choice((4, 5, 18, 19, 20, 274, 275, 5000))
        block += match(
            rng.choice((1, 1, done, rng.randrange(1, done + 1), rng.randrange(65_536))), size, before
        )
        done += size
    block += literals(b"\x04" * rng.randrange(1, 20))
    changes = rng.choice((0, 0, 1, 2, 4))
    for _ in range(changes):
        block[rng.randrange(len(block))] = rng.randrange(256)
    if rng.random() < 0.2:
        del block[rng.randrange(len(block)) :]
    words = f"a block of {len(block)} bytes, {changes} of them changed"
    return Drawn(words, ("random block",), [send(SIZE, COMPRESSED, bytes(block), note=words)])


def _unagreed() -> Iterator[Variant]:
    keep = bytes(KeepAlive())
    for words, said in {
        "stored": STORED + keep,
        "compressed": COMPRESSED + literals(keep),
        "neither": keep,
    }.items():
        yield (
            f"INIT, OPEN, then {words}",
            lambda said=said: [  # type: ignore[misc]
                init(),
                Step(Do.AWAIT, "a"),
                opening(),
                Step(Do.AWAIT, "a"),
                send(SIZE, said),
                frame(push()),
            ],
        )


CAMPAIGN = Campaign(
    "framing", "batch lengths, split batches and bursts of batches; compressed batches; low latency", make
)
