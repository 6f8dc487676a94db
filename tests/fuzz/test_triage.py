from __future__ import annotations

import random
from itertools import islice

import pytest

from fuzz.cases import Case, Plan
from fuzz.oracles import Harm, Objection
from fuzz.triage import HITS, Triage, bucket_of
from tests.fuzz.fakes import pushes

PANIC = Objection("stderr", Harm.PANIC, "crate/src/a.rs:1", "it panicked")
STALL = Objection("ping", Harm.STALL, "", "no answer")


@pytest.fixture
def cases() -> list[Case]:
    return list(islice(Plan(list(pushes().stimuli()), random.Random(1)).cases(), 2000))


def about(cases: list[Case], field: str, kind: str = "") -> list[Case]:
    return [case for case in cases if case.field == field and kind in {"", case.lies[0].lie.kind}]


def test_bucket_is_class_place_and_message(cases: list[Case]) -> None:
    case = about(cases, "PUT.data")[0]
    assert bucket_of(PANIC, case) == "panic crate/src/a.rs:1 PUT"
    assert bucket_of(STALL, case) == "stall PUT.data"


def test_cases_with_one_signature_share_a_bucket_that_keeps_the_smallest(cases: list[Case]) -> None:
    triage = Triage()
    first, second, third = about(cases, "PUT.data")[:3]
    assert triage.add(PANIC, first, 7, 50)[1]
    finding, smallest = triage.add(PANIC, second, 8, 40)
    assert smallest
    assert not triage.add(PANIC, third, 9, 60)[1]
    assert (finding.hits, finding.first, finding.smallest, finding.size, finding.case) == (
        3,
        7,
        8,
        40,
        second,
    )
    assert len(triage.findings) == 1


def test_what_hits_a_bucket_again_and_again_is_left_out_and_counted(cases: list[Case]) -> None:
    triage = Triage()
    same = about(cases, "PUT.data", "count")
    for number, case in enumerate(same[:HITS]):
        assert not triage.leaves_out(case)
        triage.add(PANIC, case, number, 50)
    assert triage.leaves_out(same[HITS])
    assert not triage.leaves_out(about(cases, "PUT.data", "content")[0])
    assert not triage.leaves_out(about(cases, "PUSH.key_suffix", "count")[0])
    (finding,) = triage.findings.values()
    assert finding.masked == 1
    assert sum(triage.masked.values()) == 1


def test_pairs_do_not_mask_their_parts(cases: list[Case]) -> None:
    triage = Triage()
    one, two = about(cases, "PUT.data", "count")[0], about(cases, "PUSH.key_suffix", "text")[0]
    pair = Case(one.stimulus, one.request, (*one.lies, *two.lies))
    for number in range(HITS + 1):
        triage.add(PANIC, pair, number, 50)
    assert not triage.leaves_out(one)
