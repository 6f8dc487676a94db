"""What the verdicts of a run say about the requirements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from conformance.requirements import Requirement, requirements
from spark_reports.rows import VerdictRow

WORST_FIRST = ("fail", "inconclusive", "warning", "deviation", "pass", "n/a")
"""When several tests are about one requirement, the first of these that occurs counts: one test that was
not decided leaves the requirement undecided, and n/a stands only where no test could say more."""

DECIDED = ("pass", "fail", "warning", "deviation")
"""Outcomes that say something about the node."""

UNTRIED = ""
"""Outcome of a requirement that no test of the run is about."""


@dataclass(frozen=True, slots=True)
class Covered:
    """A requirement and what became of it.

    Attributes:
        requirement: It.
        outcome: The worst of its tests; UNTRIED without any.
        rows: Verdicts of its tests.
    """

    requirement: Requirement
    outcome: str
    rows: tuple[VerdictRow, ...]


class Facts:
    """Verdicts, and what they come to for each requirement.

    Attributes:
        rows: All verdicts, in the order of the run.
        covered: Every requirement of the catalogue, in its order.
    """

    def __init__(self, rows: Iterable[VerdictRow]) -> None:
        self.rows = list(rows)
        by_id: dict[str, list[VerdictRow]] = {}
        for row in self.rows:
            for name in row.requirements:
                by_id.setdefault(name, []).append(row)
        self.covered = [
            Covered(
                requirement, worst(row.outcome for row in by_id.get(name, [])), tuple(by_id.get(name, []))
            )
            for name, requirement in requirements().items()
        ]

    @property
    def decided(self) -> dict[str, int]:
        """How many requirements were decided, by outcome."""
        return {name: sum(one.outcome == name for one in self.covered) for name in DECIDED}


def worst(outcomes: Iterable[str]) -> str:
    """Returns the outcome that counts; one that is unknown is no judgement."""
    found = {outcome if outcome in WORST_FIRST else "inconclusive" for outcome in outcomes}
    return next((outcome for outcome in WORST_FIRST if outcome in found), UNTRIED)
