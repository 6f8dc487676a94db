from __future__ import annotations

import pickle
import random
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from fuzz.campaigns import CAMPAIGNS, Setting
from fuzz.cases import Case, Edge, Fixed, Source, send
from fuzz.coverage import OTHER, Coverage, extensions
from fuzz.lying import Lying
from fuzz.states import State
from scapy_layers import extensions as ext
from scapy_layers.data import Put
from scapy_layers.network import NetworkOam, Push
from scapy_layers.transport import Frame, Init, TransportOam
from spark_reports.rows import COVERAGE_KINDS, CoverageRow


class Reply:
    def __init__(self, shape: str = "INIT/21 | accepted", failure: str = "") -> None:
        self.shape = shape
        self.failure = failure


def init() -> Lying:
    message = Init(zid=b"z" * 16, extensions=[ext.QoSOffer(), ext.Patch(patch=1)])
    return Lying("INIT", State.CONNECTED, message, {"INIT.zid": "zid"})


def push() -> Lying:
    message = Frame(R=1, messages=[Push(key_suffix="a", body=Put(data=b"x"))])
    return Lying("a push", State.OPEN, message, {"FRAME.sn": "sn"}, ("FRAME",), kind="PUSH")


def twice() -> Fixed:
    return Fixed(
        "order of INIT", State.OPEN, "INIT", {"twice": [send(b"\x01")], "late": [send(b"\x02")]}, "order"
    )


def parts(coverage: Coverage) -> dict[str, tuple[int, int]]:
    return {part.name: (part.tried, part.planned) for part in coverage.parts}


def singles(source: Source, count: int | None = None) -> list[Case]:
    return list(islice(source.cases(random.Random(1)), count))


def test_nothing_tried_has_denominators_all_the_same() -> None:
    found = parts(Coverage([init(), push(), twice()]))
    assert found["states"] == (0, 2)
    assert found["pairs of state and message"] == (0, 3)
    assert found["messages"] == (0, 2)
    edges = {edge for source in (init(), push(), twice()) for edge in source.edges()}
    variants = set(twice().edges())
    assert len(variants) == 2
    assert found["variants of sequences"] == (0, len(variants))
    assert found["edges of fields"] == (0, len(edges - variants))
    assert found["fields"] == (0, len({edge[:2] for edge in edges - variants}))
    assert found["extensions"][1] >= 9


def test_every_case_of_every_source_is_all_there_is() -> None:
    sources = [init(), push(), twice()]
    coverage = Coverage(sources)
    for source in sources:
        for case in singles(source):
            coverage.add("c", case, Reply(), "accepted")
    assert all(tried == planned for tried, planned in parts(coverage).values()), parts(coverage)
    assert coverage.missing() == []
    assert [str(share) for share in coverage.glance()] == ["2 of 2", "3 of 3"]


def test_what_two_have_tried_of_the_same_is_one_share() -> None:
    sources = [init(), push(), twice()]
    one, other = Coverage(sources), Coverage(sources)
    one.add("c", next(iter(singles(sources[0]))), Reply(), "accepted")
    other.add("c", next(iter(singles(sources[0]))), Reply(), "accepted")
    assert [str(a | b) for a, b in zip(one.glance(), other.glance(), strict=True)] == ["1 of 2", "1 of 3"]
    other.add("c", next(iter(singles(sources[1]))), Reply(), "accepted")
    assert [str(a | b) for a, b in zip(one.glance(), other.glance(), strict=True)] == ["2 of 2", "2 of 3"]


def test_pair_of_lies_covers_both() -> None:
    source = init()
    coverage = Coverage([source])
    pair = next(case for case in source.more(random.Random(3)) if len(case.edges) == 2)
    coverage.add("c", pair, Reply(), "accepted")
    assert parts(coverage)["edges of fields"][0] == 2


@pytest.mark.parametrize(
    ("edge", "of_field"),
    [
        (Edge("PUT", "PUT.data", "empty"), True),
        (Edge("PUT", "", "valid"), True),
        (Edge("PUT", "batch.length", "one more"), True),
        (Edge("PUT", "", "a hundred times"), False),
        (Edge("PUT", "behind", "DEL"), False),
        (Edge("D_TOKEN", "matching D_TOKEN", "many stars"), False),
    ],
)
def test_what_is_no_field_is_counted_apart(edge: Edge, of_field: bool) -> None:
    assert edge.of_field == of_field


def test_case_whose_state_was_not_reached_has_tried_nothing() -> None:
    coverage = Coverage([push()])
    assert not coverage.add("c", singles(push(), 1)[0], Reply(failure="no OPEN"), "inconclusive")
    assert parts(coverage)["pairs of state and message"] == (0, 1)
    assert coverage.missing() == ["PUSH in open"]
    assert ("open", "not reached", 1) in list(coverage.transitions())


def test_first_answer_of_a_shape_is_new_for_its_message() -> None:
    coverage = Coverage([init()])
    case = singles(init(), 1)[0]
    assert coverage.add("c", case, Reply("a"), "accepted")
    assert not coverage.add("c", case, Reply("a"), "accepted")
    assert coverage.add("c", case, Reply("b"), "accepted")
    assert coverage.add("c", singles(twice(), 1)[0], Reply("a" * 399 + "b"), "accepted")
    assert coverage.shapes == 3


def test_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.coverage.MOST_ANSWERS", 3)
    coverage = Coverage([init()])
    case = singles(init(), 1)[0]
    assert [coverage.add("c", case, Reply(str(number)), "accepted") for number in range(5)] == [True] * 3 + [
        False
    ] * 2
    assert coverage.answers["INIT", OTHER] == 2


def test_lies_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.coverage.MOST_EDGES", 5)
    coverage = Coverage([init()])
    for case in singles(init(), 20) * 2:
        coverage.add("c", case, Reply(), "accepted")
    assert len(coverage.edges) == 6
    assert coverage.edges[Edge("INIT", "", OTHER)] == 30
    assert coverage.edges.total() == 40


def test_extensions_are_told_from_paths_and_from_words() -> None:
    edges = {
        Edge("INIT", "INIT.extensions.QoS.M", "M=1"): 2,
        Edge("INIT", "INIT.extensions", "QoS twice"): 3,
        Edge("INIT", "INIT.extensions", "an empty Auth"): 1,
        Edge("INIT", "INIT.extensions", "1000 unknown Unit extensions"): 1,
        Edge("INIT", "INIT.zid", "0"): 9,
    }
    assert extensions(edges) == {("INIT", "QoS"): 5, ("INIT", "Auth"): 1}


def test_transitions_go_through_the_states_before() -> None:
    coverage = Coverage([push()])
    coverage.add("c", singles(push(), 1)[0], Reply(), "closed")
    found = {(state, what): count for state, what, count in coverage.transitions()}
    assert found == {("connected", "init_acked"): 1, ("init_acked", "open"): 1, ("open", "closed"): 1}


def test_rows_hold_what_was_tried_and_what_was_not() -> None:
    coverage = Coverage({"a": [init()], "b": [init(), push()]})
    case = singles(init(), 1)[0]
    coverage.add("a", case, Reply(), "accepted")
    rows = list(coverage.rows("run"))
    assert {row.kind for row in rows} == set(COVERAGE_KINDS)
    pairs = {
        (row.state, row.message): (row.count, row.planned, row.campaigns)
        for row in rows
        if row.kind == "pair"
    }
    assert pairs == {("connected", "INIT"): (1, True, "a b"), ("open", "PUSH"): (0, True, "b")}
    edges = [row for row in rows if row.kind == "edge"]
    assert sum(row.count for row in edges) == 1
    assert len(edges) == parts(coverage)["edges of fields"][1]
    assert all(row.planned for row in edges)
    assert [row.what for row in rows if row.kind == "answer"] == ["INIT/21 | accepted"]


def row_of(
    case: Case, campaign: str, verdict: str = "accepted", answer: str = "INIT/21 | accepted"
) -> dict[str, Any]:
    return {
        "campaign": campaign, "state": str(case.state), "message": case.message, "field": case.field,
        "mutation": case.mutation, "verdict": verdict, "source": case.source.name, "strategy": case.strategy,
        "answer": answer,
    }  # fmt: skip


def test_rows_of_an_earlier_part_count_as_the_cases_did() -> None:
    sources = [init(), push(), twice()]
    counted, again = Coverage({"a": sources}), Coverage({"a": sources})
    cases = [
        case for source in sources for case in [*singles(source), *islice(source.more(random.Random(2)), 50)]
    ]
    for case in cases:
        counted.add("a", case, Reply(), "accepted")
        again.add_row(row_of(case, "a"))
    counted.add("a", cases[0], Reply(failure="no"), "inconclusive")
    again.add_row(row_of(cases[0], "a", "inconclusive"))
    assert list(again.rows("run")) == list(counted.rows("run"))


@pytest.mark.parametrize("name", ["state", "keys", "framing"])
def test_variants_of_sequences_count_in_rows_as_they_did(name: str) -> None:
    sources = list(CAMPAIGNS[name].make(Setting(1)))[::9]
    counted, again = Coverage({name: sources}), Coverage({name: sources})
    for case in (case for source in sources for case in singles(source, 12)):
        counted.add(name, case, Reply(), "accepted")
        again.add_row(row_of(case, name))
    assert parts(again) == parts(counted)
    assert parts(again)["variants of sequences"][0] > 0
    assert again.edges == counted.edges


def test_pair_of_a_lie_and_what_is_done_to_the_batch_counts_in_rows_as_it_did() -> None:
    message = Frame(R=1, messages=[Push(key_suffix="a", body=Put(data=b"x"))])
    sources = [push(), Lying("a put", State.OPEN, message, {"FRAME.sn": "sn"}, ("FRAME",), kind="PUT")]
    counted, again = Coverage({"a": sources}), Coverage({"a": sources})
    for case in islice(push().more(random.Random(2)), 400):
        counted.add("a", case, Reply(), "accepted")
        again.add_row(row_of(case, "a"))
    assert {edge.field.partition(".")[0] for edge in counted.edges} >= {"batch", "PUT"}
    assert again.edges == counted.edges


def test_messages_of_one_name_are_lied_about_and_counted_each_for_itself() -> None:
    network = Frame(R=1, messages=[NetworkOam(oam_id=7, data=b"hi")])
    sources = [
        Lying("of the network", State.OPEN, network, {"FRAME.sn": "sn"}, ("FRAME",), kind="OAM (network)"),
        Lying("of the link", State.OPEN, TransportOam(oam_id=7, data=b"hi"), kind="OAM (transport)"),
    ]
    counted, again = Coverage({"a": sources}), Coverage({"a": sources})
    first, second = sources
    for case in [*singles(first), *islice(first.more(random.Random(2)), 200)]:
        counted.add("a", case, Reply(), "accepted")
        again.add_row(row_of(case, "a"))
    assert {edge.message for edge in counted.edges} == {"OAM (network)"}
    assert all(edge.of_field for edge in counted.edges)
    assert again.edges == counted.edges
    assert len(list(second.unseen(random.Random(1), counted.edges))) == len(singles(second)) > 100
    tried, planned = parts(counted)["edges of fields"]
    assert planned - tried == len(set(second.edges()))


def test_processes_are_added_up() -> None:
    whole = Coverage({"a": [init()]})
    for source in (init(), push()):
        one = Coverage({"a": [source]})
        one.add("a", singles(source, 1)[0], Reply(), "accepted")
        whole.merge(one)
    assert parts(whole)["pairs of state and message"] == (2, 2)
    assert (
        whole.answers == {("INIT", "INIT/21 | accepted"): 1, ("PUSH", "INIT/21 | accepted"): 1}
        or whole.shapes == 1
    )


def test_lies_that_were_left_out_and_not_tried_elsewhere_are_told() -> None:
    coverage, other = Coverage([push()]), Coverage([])
    tried, hidden, both = singles(push(), 3)
    coverage.add("c", tried, Reply(), "accepted")
    coverage.leave_out(hidden)
    other.leave_out(both)
    other.leave_out(tried)
    assert coverage.hidden == 1
    coverage.merge(pickle.loads(pickle.dumps(other)))
    assert coverage.hidden == 2
    coverage.add("c", both, Reply(), "accepted")
    assert coverage.hidden == 1


def test_variants_of_sequences_that_were_left_out_are_no_edges_of_fields() -> None:
    source = Fixed("s", State.OPEN, "M", {"x": [send(b"")]}, "order")
    coverage = Coverage([source])
    coverage.leave_out(next(iter(source.cases(random.Random(1)))))
    assert coverage.left_out
    assert coverage.hidden == 0


def test_missing_pairs_are_named_and_bounded() -> None:
    sources = [
        Fixed(f"s{number}", State.OPEN, f"M{number:02}", {"x": [send(b"")]}, "order") for number in range(12)
    ]
    assert Coverage(sources).missing(3) == ["M00 in open", "M01 in open", "M02 in open", "and 9 more"]


def test_rows_are_those_of_the_schema(tmp_path: Path) -> None:
    rows = list(Coverage([init()]).rows(tmp_path.name))
    assert {type(row) for row in rows} == {CoverageRow}
    assert {row.run_id for row in rows} == {tmp_path.name}


def test_what_travels_between_processes_is_what_was_counted() -> None:
    there = Coverage({"a": [init()]})
    there.add("a", singles(init(), 1)[0], Reply(), "accepted")
    came = pickle.loads(pickle.dumps(there))
    assert not came.planned
    here = Coverage({"a": [init()]})
    here.merge(came)
    assert list(here.rows("run")) == list(there.rows("run"))
