"""From what a test raised to its outcome: levels, recorded deviations, and words for people."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from conformance.deviations import Deviations, shipped
from conformance.errors import HarnessError, NoRoom, NotApplicable, SessionError, Unmet
from conformance.requirements import strictest
from spark_reports.rows import STALE


@dataclass(slots=True)
class Judged:
    """What became of a test.

    Attributes:
        outcome: One of ``rows.OUTCOMES``.
        expected: What should have been seen.
        seen: What was seen.
        reason: Why n/a or inconclusive, or which deviation.
        detail: For people; may change from run to run.
        bug: The test itself failed.
    """

    outcome: str = "pass"
    expected: str = ""
    seen: str = ""
    reason: str = ""
    detail: str = ""
    bug: bool = False


def judge(error: Exception | None) -> Judged:
    """Returns the outcome of a test by what it raised.

    Whatever is no judgement is a bug of the test: nothing was learned about the node.
    """
    match error:
        case None:
            return Judged()
        case NoRoom():
            return Judged("n/a", reason="the node has no room for as many sessions as this takes")
        case Unmet():
            return Judged("fail", error.expected, error.seen, detail=error.detail)
        case NotApplicable():
            return Judged("n/a", reason=str(error))
        case HarnessError() | SessionError():
            return Judged("inconclusive", reason=str(error))
        case _:
            return Judged(
                "inconclusive", reason=f"the test itself failed: {type(error).__name__}: {error}", bug=True
            )


def compare(
    judged: Judged,
    ids: tuple[str, ...],
    test: str,
    node: tuple[str, str],
    *,
    strict_should: bool,
    transport: str = "tcp",
    deviations: Deviations | None = None,
) -> None:
    """Applies levels and recorded deviations to an outcome.

    Args:
        judged: Is changed in place.
        ids: Requirements of the test.
        test: Its id.
        node: Implementation and version.
        strict_should: A broken SHOULD stays a fail.
        transport: What links to the node ran over.
        deviations: What is known of nodes; what comes with the suite when None.
    """
    if judged.outcome == "fail" and strictest(ids) in {"SHOULD", "MAY"} and not strict_should:
        judged.outcome = "warning"
    recorded = shipped() if deviations is None else deviations
    known = recorded.of(*node, transport, test)
    if known is None or judged.outcome in {"n/a", "inconclusive"}:
        return
    if judged.outcome == "pass":
        judged.outcome = "fail"
        judged.expected = f"the deviation recorded in {known.place}: {known.seen}"
        judged.seen = "the requirement is met"
        judged.reason = STALE
    elif judged.seen == known.seen:
        judged.outcome = "deviation"
        judged.reason = known.note
    else:
        judged.outcome = "fail"
        judged.reason = f"differs from the deviation recorded in {known.place}: {known.seen}"


def short(path: Path) -> str:
    """Returns a path relative to the working directory when it lies below it."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
