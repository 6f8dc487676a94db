"""What cases of campaigns send, for tests."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import islice

from fuzz.campaigns import Campaign, Setting
from fuzz.cases import Case, Source
from fuzz.script import Do, Step
from scapy_layers.primitives import write_vle

MOST_BYTES = 400_000
"""What a case may send."""

VALUES = {
    "sn": write_vle(1_000_000),
    "sn_be": write_vle(1_000_001),
    "zid": bytes(range(0x20, 0x30)),
    "cookie": write_vle(48) + b"k" * 48,
    "rid": write_vle(2_000_000),
    "digits": b"000001",
}
"""Live values, as they stand on the wire."""


class Values(dict[str, bytes]):
    """Those, and the numbers that a handshake by hand begins with."""

    def __missing__(self, name: str) -> bytes:
        assert name.startswith("from ")
        return write_vle(int(name.removeprefix("from ")))


def filled(step: Step) -> bytes:
    """Returns the bytes of a step."""
    return step.data.fill(Values(VALUES))


def sampled(campaign: Campaign, every: int, seed: int = 1) -> Iterator[Case]:
    """Yields some cases of each source: the first, every so manieth, and some of those without end."""
    for source in campaign.make(Setting(seed)):
        singles = list(source.cases(random.Random(seed)))
        yield singles[0]
        yield from singles[1::every]
        yield from islice(source.more(random.Random(seed)), 2)


def sends(case: Case) -> list[Step]:
    """Returns the steps of a case that send."""
    return [step for step in case.steps if step.do is Do.SEND]


def sizes(case: Case) -> int:
    """Returns how many bytes a case sends."""
    return sum(step.times * len(filled(step)) for step in sends(case))


def said(sources: Iterable[Source], most: int, seed: int = 1) -> list[tuple[str, str, str, list[str]]]:
    """Returns what the first cases of sources are and send."""
    return [
        (source.name, case.field, case.mutation, [str(step.data) for step in case.steps])
        for source in sources
        for case in (
            *islice(source.cases(random.Random(seed)), most),
            *islice(source.more(random.Random(seed)), 2),
        )
    ]
