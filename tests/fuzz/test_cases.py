from __future__ import annotations

import random
from itertools import islice

import pytest

from fuzz.campaigns import CAMPAIGNS
from fuzz.cases import Case, Plan


def plan(name: str, seed: int = 1) -> Plan:
    return Plan(list(CAMPAIGNS[name].stimuli()), random.Random(seed))


def words(case: Case) -> tuple[str, str, str]:
    return case.stimulus.name, case.field, case.mutation


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_same_seed_gives_the_same_cases_and_bytes(name: str) -> None:
    first, second = (list(islice(plan(name).cases(), 400)) for _ in range(2))
    assert [words(case) for case in first] == [words(case) for case in second]
    assert [render(case) for case in first] == [render(case) for case in second]


def test_another_seed_gives_another_order() -> None:
    first, second = (list(islice(plan("session", seed).cases(), 50)) for seed in (1, 2))
    assert [words(case) for case in first] != [words(case) for case in second]


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_first_round_touches_each_field_of_each_message_once(name: str) -> None:
    made = plan(name)
    first = list(islice(made.cases(), made.fields))
    assert len({(case.stimulus.name, case.field) for case in first}) == made.fields
    # Long before the end of the round, each message had its turn.
    soon = {case.stimulus.name for case in first[: len(made.requests) * 2]}
    assert len(soon) == len(made.requests)


def test_every_single_lie_comes_once_then_pairs() -> None:
    made = plan("handshake")
    cases = list(islice(made.cases(), made.singles + 50))
    singles, pairs = cases[: made.singles], cases[made.singles :]
    assert all(len(case.lies) == 1 for case in singles)
    assert all(len(case.lies) == 2 for case in pairs)
    names = [(case.stimulus.name, *case.mutations, case.lies[0].mutations[-1].index) for case in singles]
    assert len(set(names)) == len(names)
    for case in pairs:
        assert len(case.mutations) == sum(len(lying.mutations) for lying in case.lies)


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_pairs_fit_into_a_batch(name: str) -> None:
    made = plan(name)
    for case in islice(made.cases(), made.singles, made.singles + 300):
        assert len(render(case)) <= 2 + 0xFFFF


def test_message_is_the_innermost_one() -> None:
    of = {case.field: case.message for case in islice(plan("session").cases(), 5000)}
    assert of["PUT.data"] == "PUT"
    assert of["PUSH.key_suffix"] == "PUSH"
    assert of["FRAME.sn"] == "FRAME"
    assert of["batch.length"] != "batch"


def render(case: Case) -> bytes:
    from boofuzz.mutation_context import MutationContext

    data: bytes = case.request.render(MutationContext(mutations=case.mutations))
    return data
