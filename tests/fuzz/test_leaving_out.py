"""What is left out, and what of that may be played once all the same."""

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fuzz.cases import Case, Cause
from fuzz.findings import CONFIRMED, FLAKY, Finding
from fuzz.lying import Lying
from fuzz.oracles import Harm
from fuzz.states import State
from fuzz.triage.leaving_out import HITS, SAMPLE, WIDE, LeftOut
from scapy_layers.data import Del
from scapy_layers.network import Push
from scapy_layers.transport import Frame

PLACE = "some-crate/src/face.rs"


def cause(field: str = "PUT.encoding", kind: str = "edge", source: str = "PUSH") -> Cause:
    return Cause(source, field, kind)


def case_of(*causes: Cause, state: State = State.OPEN) -> Case:
    return cast("Case", SimpleNamespace(causes=causes, state=state))


def finding_of(*causes: Cause, **values: Any) -> Finding:
    there = {
        "states": {"open"},
        "harm": Harm.PANIC,
        "place": PLACE,
        "status": CONFIRMED,
        "known": "",
        "before": 0,
        "hits": HITS,
    }
    return cast("Finding", SimpleNamespace(causes=list(causes), masked=0, **{**there, **values}))


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, True),
        ({"harm": Harm.CRASH, "place": "memory allocation"}, True),
        ({"place": ""}, False),
        ({"harm": Harm.STALL}, False),
        ({"status": FLAKY, "hits": 100}, False),
    ],
)
def test_what_a_process_says_of_its_end_tells_one_fault_from_another(
    values: dict[str, Any], told: bool
) -> None:
    left_out = LeftOut(through_known=False)
    left_out.learn(finding_of(cause(), **values))
    assert left_out.takes(case_of(cause()))
    assert left_out.is_told_apart(case_of(cause())) is told
    assert not left_out.is_told_apart(case_of(cause("PUT.data")))


def test_what_is_looked_into_or_left_out_for_another_reason_too_is_not_told_apart() -> None:
    left_out = LeftOut(through_known=False)
    left_out.learn(finding_of(cause()))
    left_out.learn(finding_of(cause("PUT.data"), harm=Harm.STALL, place=""))
    assert not left_out.is_told_apart(case_of(cause(), cause("PUT.data")))
    left_out.hold([cause()], SimpleNamespace(masked=0))
    assert not left_out.is_told_apart(case_of(cause()))
    left_out.release([cause()])
    assert left_out.is_told_apart(case_of(cause()))


def test_what_is_left_out_for_its_kind_is_told_apart_without_being_counted() -> None:
    left_out = LeftOut(through_known=False)
    finding = finding_of(*(cause(f"PUT.field{number}") for number in range(WIDE)))
    left_out.learn(finding)
    alike = case_of(cause("PUT.another"))
    for _ in range(2 * SAMPLE):
        assert left_out.is_told_apart(alike)
    assert finding.masked == 0
    taken = [left_out.takes(alike) for _ in range(SAMPLE)]
    assert taken == [True] * (SAMPLE - 1) + [False]


def test_a_field_that_harms_in_many_messages_is_left_out_in_others_in_the_same_part_of_a_conversation() -> (
    None
):
    left_out = LeftOut(through_known=False)
    left_out.learn(finding_of(*(cause("X.zid", source=f"source {number}") for number in range(WIDE))))
    other = cause("Y.zid", source="another")
    assert left_out.takes(case_of(other))
    assert left_out.takes(case_of(other, state=State.DECLARED))
    assert not left_out.takes(case_of(other, state=State.JOINED))
    assert not left_out.takes(case_of(cause("Y.zid", "length", "another")))


@pytest.mark.parametrize("part", ["batch", "INIT.extensions", "INIT.mid", "INIT.extensions.Patch.Z"])
def test_what_all_messages_have_is_not_the_same_field_of_them(part: str) -> None:
    left_out = LeftOut(through_known=False)
    left_out.learn(finding_of(*(cause(part, "cut", f"source {number}") for number in range(WIDE))))
    assert left_out.takes(case_of(cause(part, "cut", "source 1")))
    assert not left_out.takes(case_of(cause(part, "cut", "another")))


def test_a_key_of_another_sort_is_played() -> None:
    push = Frame(R=1, messages=[Push(key_suffix="a/b", body=Del())])
    source = Lying("PUSH", State.OPEN, push, {"FRAME.sn": "sn"}, ("FRAME",))
    texts = {case.mutation: case for case in source.cases(random.Random(1)) if case.strategy == "text"}
    left_out = LeftOut(through_known=False)
    left_out.learn(finding_of(*texts["text 'a//b'"].causes))
    assert left_out.takes(texts["text '//'"])
    assert not left_out.takes(texts["text '**'"])
    assert not left_out.takes(texts["text '\\xff'"])
