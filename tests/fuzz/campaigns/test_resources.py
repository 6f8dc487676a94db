"""Many things at once."""

import random
from collections.abc import Iterator
from itertools import islice

import pytest

from fuzz.campaigns.base import Setting
from fuzz.campaigns.resources import (
    CAMPAIGN,
    HALF_OPEN,
    KEYS,
    MANY,
    MOST_BYTES,
    SIZES,
    THINGS,
    hard_keys,
    held,
)
from fuzz.cases import Case
from fuzz.phrases import in_few_batches
from fuzz.player.fitting import NODE_BATCH
from fuzz.player.pipe import FIRST_SN
from fuzz.script import Do, Script, Step
from scapy_layers.batch import contents
from scapy_layers.keyexpr import is_valid
from scapy_layers.message import Message
from scapy_layers.primitives import write_vle

SOURCES = {source.name: source for source in CAMPAIGN.make(Setting())}


class Values(dict[str, bytes]):
    """Live values of a turn."""

    def __init__(self, turn: int) -> None:
        sn = write_vle(FIRST_SN)
        super().__init__(sn=sn, sn_be=sn, zid=b"\x01" * 16, cookie=b"\x01c", rid=b"\x05")
        self |= {"count": write_vle(turn + 1), "digits": b"%06d" % (turn + 1)}

    def __missing__(self, name: str) -> bytes:
        assert name.startswith("from ")
        return write_vle(int(name[5:]))


def inside(step: Step, turn: int = 0) -> tuple[Message, ...]:
    seen = contents(step.data.fill(Values(turn))[2:])
    assert seen.error is None, f"{step.note}: {seen.error}"
    return seen.messages


def all_cases(most: int = 100) -> Iterator[Case]:
    for source in SOURCES.values():
        yield from islice(source.cases(random.Random(1)), most)
        yield from islice(source.more(random.Random(1)), 5)


def test_all_that_is_sent_is_right() -> None:
    """Here it is the number of things that is tried, nothing else."""
    for case in all_cases(30):
        for step in dict.fromkeys(case.steps):
            if step.do is Do.SEND and sum(map(len, step.data.pieces)) < 3000:
                assert inside(step), case.mutation


def test_cases_are_bounded() -> None:
    for case in all_cases():
        script = Script(case.steps)
        assert script.size <= MOST_BYTES, case.mutation
        assert script.sends <= 4 * MANY, case.mutation
        assert len({step.link for step in case.steps}) <= HALF_OPEN + 1, case.mutation


@pytest.mark.parametrize("kind", list(THINGS))
def test_every_kind_of_thing_is_held_with_ids_and_keys_of_its_own(kind: str) -> None:
    step = held(kind, "each of its own key", MANY)
    assert step.times == MANY
    seen = set()
    for turn in range(3):
        message = inside(step, turn)[0].messages[0]
        body = message.fields.get("body")
        named = body if isinstance(body, Message) and "key_suffix" in body.fields else message
        seen.add(named.key_suffix)
    assert seen == {"fuzz/000001", "fuzz/000002", "fuzz/000003"}


@pytest.mark.parametrize("key", list(KEYS))
def test_keys_are_valid(key: str) -> None:
    message = inside(held("PUSH", key, 10))[0].messages[0]
    assert is_valid(message.key_suffix), message.key_suffix


def test_few_batches_hold_as_many_as_many() -> None:
    cases = {case.mutation: case for case in SOURCES["many D_TOKEN"].cases(random.Random(1))}
    steps = [step for step in cases["many in few batches"].steps if step.do is Do.SEND]
    found = [message.body for step in steps for message in inside(step)[0].messages]
    assert [body.entity_id for body in found] == list(range(1, MANY + 1))
    assert len({body.key_suffix for body in found}) == MANY
    assert len(steps) < 10
    for step in in_few_batches(THINGS["D_TOKEN"], 10_000, "D_TOKEN"):
        assert len(step.data.fill(Values(0))) <= NODE_BATCH


@pytest.mark.parametrize("size", SIZES)
def test_hard_keys_are_valid_and_grow(size: int) -> None:
    for words, (wide, other) in hard_keys(size).items():
        assert is_valid(wide), f"{words}: {wide}"
        assert is_valid(other), f"{words}: {other}"
        assert wide.count("*") >= size


def test_hard_keys_of_one_kind_are_laid_on_that_kind() -> None:
    source = SOURCES["keys that are hard to match"]
    kinds = {case.causes[0].kind for case in source.cases(random.Random(1))}
    assert set(hard_keys(2)) <= kinds
    assert len(kinds) < len(hard_keys(2)) + 5


def test_drawn_keys_are_valid() -> None:
    for case in islice(SOURCES["keys that are hard to match"].more(random.Random(1)), 50):
        for step in case.steps:
            if step.do is Do.SEND:
                for message in inside(step)[0].messages:
                    named = message.body if message.name == "DECLARE" else message
                    assert is_valid(named.key_suffix), named.key_suffix


def test_cases_end_when_the_node_is_done_with_them() -> None:
    for name in ("many INTEREST", "pending queries", "unfinished fragments"):
        for case in SOURCES[name].cases(random.Random(1)):
            assert case.steps[-1].do is Do.SETTLE


def test_the_seed_decides() -> None:
    def drawn(seed: int) -> list[tuple[str, tuple[Step, ...]]]:
        return [
            (case.mutation, case.steps)
            for source in SOURCES.values()
            for case in (
                *islice(source.cases(random.Random(seed)), 3),
                *islice(source.more(random.Random(seed)), 3),
            )
        ]

    assert drawn(1) == drawn(1)
    assert [words for words, _ in drawn(1)] != [words for words, _ in drawn(2)]


def test_edges_are_what_single_cases_cover() -> None:
    for source in SOURCES.values():
        covered = {edge for case in source.cases(random.Random(1)) for edge in case.edges}
        assert covered == set(source.edges()), source.name
