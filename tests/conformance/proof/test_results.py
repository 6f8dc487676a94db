"""What a campaign makes of outcomes."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

import pytest

from conformance.proof.page import page
from conformance.proof.plan import Plan
from conformance.proof.results import NullResult, Proof, document, line_of, result_of, sentences, unproven
from conformance.proof.unproven import UNPROVEN
from conformance.refnode.mutants import CORRECT, MUTANTS, Mutant
from conformance.requirements import requirements
from spark_reports.rows import VerdictRow

BROKEN = Mutant(name="ZN-INIT-001", requirements=("ZN-INIT-001", "ZN-INIT-002"), title="<b>wrong</b>")


def row(test: str, outcome: str, *marked: str) -> VerdictRow:
    return VerdictRow(
        run_id="r",
        test=test,
        requirements=marked,
        level="FACT",
        outcome=outcome,
        expected="this",
        seen="that" if outcome != "inconclusive" else "",
        reason="why",
        stimulus="",
        duration_s=0.1,
        started_ns=1,
        capture="",
        repeat="",
    )


def judged(*rows: VerdictRow, trouble: str = "") -> Any:
    return result_of(Plan("ZN-INIT-001"), BROKEN, rows, 1.0, trouble)


@pytest.mark.parametrize("outcome", ["fail", "warning"])
def test_kill_is_a_fail_or_a_warning_of_a_test_of_the_first_requirement(outcome: str) -> None:
    made = judged(row("a", "pass", "ZN-INIT-001"), row("b", outcome, "ZN-INIT-001"))
    assert made.killed is not None
    assert made.killed.test == "b"
    assert not made.strays


@pytest.mark.parametrize("outcome", ["pass", "n/a", "inconclusive", "deviation"])
def test_anything_else_is_no_kill(outcome: str) -> None:
    assert judged(row("a", outcome, "ZN-INIT-001")).killed is None


def test_fails_elsewhere_are_told_apart() -> None:
    made = judged(row("a", "fail", "ZN-INIT-002"), row("b", "inconclusive", "ZN-KA-001"))
    assert made.killed is None
    assert [noticed.test for noticed in made.elsewhere] == ["a"]
    assert [(noticed.test, noticed.seen) for noticed in made.strays] == [("b", "why")]
    assert "SURVIVED" in line_of(made, 0)
    assert "noticed elsewhere by a" in line_of(made, 0)


def test_mutant_that_faced_nothing_was_not_judged() -> None:
    assert judged().trouble
    assert "NOT JUDGED" in line_of(judged(), 0)


def proof(*results: Any, nulls: list[NullResult] | None = None, correct: Any = None) -> Proof:
    return Proof(
        seed=1,
        bound=0,
        tests={"a": frozenset({"ZN-INIT-001"}), "b": frozenset({"ZN-KA-001"})},
        correct=correct,
        results=list(results),
        nulls=nulls or [],
        started_at="2026-01-01T00:00:00.000Z",
    )


KILLED = (row("a", "fail", "ZN-INIT-001"), row("b", "pass", "ZN-KA-001"))


def test_proof_holds_when_all_are_killed_and_nothing_else_happens() -> None:
    correct = result_of(Plan(""), CORRECT, [row("a", "pass", "ZN-INIT-001")], 1.0, "")
    null = NullResult(kind="echo", outcomes={"fail": 2}, passed=[], seconds=1.0)
    made = proof(judged(*KILLED), nulls=[null], correct=correct)
    assert made.holds
    assert document(made, requirements())["summary"]["killed"] == 1


def test_proof_does_not_hold_with_a_survivor_a_stray_a_flaw_or_a_null_pass() -> None:
    stray = row("b", "fail", "ZN-KA-001")
    flawed = result_of(Plan(""), CORRECT, [row("a", "fail", "ZN-INIT-001")], 1.0, "")
    passed = NullResult(kind="echo", outcomes={"pass": 1}, passed=["b"], seconds=1.0)
    for made, word in (
        (proof(judged(row("a", "pass", "ZN-INIT-001"))), "survived: ZN-INIT-001"),
        (proof(judged(KILLED[0], stray)), "too many stray kills: ZN-INIT-001 (1)"),
        (proof(judged(*KILLED), correct=flawed), "not passed by the correct node: a"),
        (proof(judged(*KILLED), nulls=[passed]), "null node echo: 1 pass"),
    ):
        assert not made.holds
        assert word in "\n".join(sentences(made))


class Shapes(HTMLParser):
    """Counts rectangles of the matrix by their class."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.bold = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "rect":
            self.found.append(dict(attrs)["class"] or "")
        self.bold += tag == "b"


def test_page_shows_kills_and_strays_and_escapes_what_it_shows() -> None:
    made = proof(judged(KILLED[0], row("b", "fail", "ZN-KA-001")))
    text = page(json.loads(json.dumps(document(made, requirements()))))
    shapes = Shapes()
    shapes.feed(text)
    assert sorted(shapes.found) == ["kill", "stray"]
    assert shapes.bold == 0
    assert "&lt;b&gt;wrong&lt;/b&gt;" in text


def test_requirements_without_a_mutant_have_a_reason_and_no_mutant() -> None:
    assert set(UNPROVEN) <= set(requirements())
    assert all(UNPROVEN.values())
    own = {mutant.requirements[0] for mutant in MUTANTS.values()}
    assert not own & set(UNPROVEN)


def test_unproven_names_tested_requirements_without_mutant_and_reason() -> None:
    assert unproven(["ZN-INIT-001", "ZN-INIT-046", "ZN-KA-001"], {"ZN-INIT-001": BROKEN}) == ["ZN-KA-001"]
