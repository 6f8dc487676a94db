"""Requirements that are judged by looking at everything that any test happened to see.

Each test reports what it saw of them; when all tests are done, each of these requirements gets one
verdict of its own, ``passive/ZN-MSG-001``. A break does not fail the test in which it was seen. What is
seen in order counts only where the test itself shows that somebody is there who speaks Zenoh: an echo of
our own messages is always well formed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from conformance.passive import CHECKERS
from conformance.requirements import requirements
from conformance.running.selection import is_wanted
from conformance.verdicts import Judged
from spark_reports.rows import VerdictRow

FOLDER = "passive"
"""What the ids of these verdicts begin with."""


VOUCHING = ("pass", "deviation")
"""Outcomes of a test in which the node was what it should be, or what it is known to be."""


@dataclass(frozen=True, slots=True)
class Break:
    """A requirement was broken in a test.

    Attributes:
        expected: What has to be.
        seen: What was.
        row: The verdict on the test.
    """

    expected: str
    seen: str
    row: VerdictRow


@dataclass(slots=True)
class Tally:
    """What all tests saw of one requirement.

    Attributes:
        applied: How often something was seen that it speaks of.
        breaks: The first of each kind.
    """

    applied: int = 0
    breaks: dict[tuple[str, str], Break] = field(default_factory=dict)


class Passing:
    """Gathers remarks of tests, and judges when all are done."""

    def __init__(self) -> None:
        self._tallies: dict[str, Tally] = {}

    def add(self, row: VerdictRow, remarks: Iterable[dict[str, Any]]) -> None:
        """Takes what a test saw."""
        for remark in remarks:
            tally = self._tallies.setdefault(remark["requirement"], Tally())
            tally.applied += remark["applied"] if row.outcome in VOUCHING else 0
            if remark["expected"]:
                found = Break(remark["expected"], remark["seen"], row)
                tally.breaks.setdefault((found.expected, found.seen), found)

    def judged(
        self, wanted: list[str], levels: list[str], *, partial: bool
    ) -> Iterator[tuple[str, Judged, VerdictRow | None]]:
        """Yields what became of each requirement, with the test that showed it.

        Args:
            wanted: What --req names.
            levels: What --level names.
            partial: Only some tests were run, so that what none of them saw says nothing.
        """
        for name in sorted(CHECKERS):
            if name not in requirements() or not is_wanted(name, wanted, levels):
                continue
            tally = self._tallies.get(name, Tally())
            for found in tally.breaks.values():
                reason = f"seen in {found.row.test}"
                yield name, Judged("fail", found.expected, found.seen, reason=reason), found.row
            if tally.breaks:
                continue
            if tally.applied:
                yield name, Judged(), None
            elif not partial:
                yield name, Judged("n/a", reason="no test saw anything that it speaks of"), None


def row_of(run_id: str, name: str, judged: Judged, shown: VerdictRow | None) -> VerdictRow:
    """Returns the verdict on a requirement.

    Args:
        run_id: Of the run.
        name: The requirement.
        judged: What became of it.
        shown: The test that showed it.
    """
    return VerdictRow(
        run_id=run_id,
        test=f"{FOLDER}/{name}",
        requirements=(name,),
        level=requirements()[name].level,
        outcome=judged.outcome,
        expected=judged.expected,
        seen=judged.seen,
        reason=judged.reason,
        stimulus=shown.stimulus if shown else "",
        duration_s=0.0,
        started_ns=shown.started_ns if shown else time.time_ns(),
        capture=shown.capture if shown else "",
        repeat=shown.repeat if shown else "",
        transport=shown.transport if shown else "",
    )


def passive_tests(transports: Iterable[str]) -> list[tuple[str, str]]:
    """Returns id and transport of all these verdicts, as if they were tests."""
    return [(f"{FOLDER}/{name}", transport) for name in CHECKERS for transport in transports]
