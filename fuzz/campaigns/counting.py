"""Sequence numbers: left out, repeated, far ahead, behind, and around their end."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from fuzz.cases import Fixed, Source
from fuzz.phrases import (
    as_fragment,
    as_frame,
    batch,
    init,
    listen,
    opening,
    push,
)
from fuzz.script import Step
from fuzz.sequences import Drawn, Made
from fuzz.states import State
from scapy_layers.codes import Resolution

WIDTHS = {Resolution.BITS_8: 7, Resolution.BITS_16: 14, Resolution.BITS_32: 28}
"""Bits of a sequence number, by resolution."""


def orders(mask: int) -> dict[str, list[int]]:
    """Returns numbers behind the first one, by words; see Session, Sequence Numbers."""
    half = mask >> 1
    return {
        "as due": [0, 1, 2, 3],
        "one left out": [0, 2, 3],
        "repeated": [0, 0, 1, 1],
        "backwards": [3, 2, 1, 0, 4],
        "old ones again": [0, 1, 2, 0, 1, 3],
        "as far ahead as may be": [0, half, half + 1],
        "one further ahead than may be": [0, half + 1, 1],
        "one behind the first": [-1, 0, 1],
        "far behind": [0, -half, 1],
        "all around in four steps": [0, half, 2 * half, 3 * half, 4 * half],
    }


def numbers() -> Iterator[Source]:
    """Numbers in every order that matters, for each width, and in any order."""
    for width, bits in WIDTHS.items():
        mask = (1 << bits) - 1
        variants: dict[str, Sequence[Step]] = {}
        for first in (0, 1, mask // 2, mask - 1, mask):
            for words, order in orders(mask).items():
                sns = [(first + one) & mask for one in order]
                variants[f"from {first}: {words}"] = _numbered(width, first, [_frame_at(sn) for sn in sns])
        first = mask - 1
        for words, order in orders(mask).items():
            sns = [(first + one) & mask for one in order]
            variants[f"fragments from {first}: {words}"] = _numbered(width, first, _fragments_at(sns))
            variants[f"best effort from {first}: {words}"] = _numbered(
                width, first, [_frame_at(sn, reliable=False) for sn in sns]
            )
            variants[f"two lanes from {first}: {words}"] = _numbered(
                width, first, [_frame_at(sn, lane=lane) for sn in sns for lane in (0, 7)]
            )
        for beyond in (
            mask + 1,
            mask + 2,
            2 * mask + 1,
            (1 << 32) - 1,
            1 << 32,
            (1 << 63) - 1,
            1 << 63,
            (1 << 64) - 1,
        ):
            variants[f"beyond the last: {beyond}"] = _numbered(
                width, 0, [_frame_at(0), _frame_at(beyond), _frame_at(1)]
            )
        yield Fixed(f"numbers of {bits} bits", State.CONNECTED, "FRAME", variants, "numbers")
    yield Made("numbers in any order", State.CONNECTED, "FRAME", {}, "numbers", _any_numbers)


def _numbered(width: int, first: int, steps: Iterable[Step]) -> list[Step]:
    return [init(fsn=width), listen(), opening(first=first), listen(), *steps]


@cache
def _published() -> bytes:
    return bytes(push())


def _frame_at(sn: int, *, reliable: bool = True, lane: int | None = None) -> Step:
    return batch(as_frame(_published(), sn=sn, reliable=reliable, lane=lane), note=f"PUSH, number {sn}")


def _fragments_at(sns: Sequence[int]) -> list[Step]:
    raw = bytes(push(data=b"x" * 40))
    size = -(-len(raw) // len(sns))
    last = len(sns) - 1
    return [
        batch(
            as_fragment(raw[index * size : (index + 1) * size], first=index == 0, more=index < last, sn=sn),
            note=f"fragment, number {sn}",
        )
        for index, sn in enumerate(sns)
    ]


def _any_numbers(rng: random.Random) -> Drawn:
    width = rng.choice(list(WIDTHS))
    mask = (1 << WIDTHS[width]) - 1
    first = rng.choice((0, 1, mask, mask - 1, rng.randint(0, mask)))
    at, steps = first, []
    for _ in range(rng.randint(2, 20)):
        at = (at + rng.choice((0, 1, 1, 1, 2, -1, mask >> 1, (mask >> 1) + 1, rng.randint(0, mask)))) & mask
        lane = rng.choice((None, None, 0, 5, 7))
        steps.append(_frame_at(at, reliable=rng.random() < 0.7, lane=lane))
        if rng.random() < 0.2:
            piece = as_fragment(b"x" * 9, first=rng.random() < 0.5, more=rng.random() < 0.7, sn=at, lane=lane)
            steps.append(batch(piece, note=f"fragment, number {at}"))
    return Drawn(
        f"{len(steps)} numbers of {WIDTHS[width]} bits from {first}",
        ("drawn",),
        _numbered(width, first, steps),
    )
