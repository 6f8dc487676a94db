"""What a person needs to understand a failure and to see it again."""

from __future__ import annotations

from conformance.observe import Direction, Observation
from conformance.requirements import requirements
from conformance.running.run import Run
from conformance.tester import Tester
from conformance.verdicts import Judged
from spark_reports.rows import VerdictRow

EXCHANGE_LINES = 60
"""Most observations that a failure prints; the capture has all."""

MOST_HEX = 160
"""Digits of a batch that a failure prints."""

ARROWS = {"sent": "->", "received": "<-", "opened": "--", "ended": "--"}


def explain(row: VerdictRow, judged: Judged, run: Run, testers: list[Tester]) -> str:
    """Returns requirement, stimulus, what was expected and seen, the exchange, and how to see it again."""
    config = run.settings.config
    lines = [f"{row.outcome}: {row.test}"]
    for name in row.requirements:
        requirement = requirements()[name]
        lines.append(f"  {name} ({requirement.level}; {requirement.source}): {requirement.text}")
    facts = [
        *[("stimulus", line) for line in _stimulus(testers)],
        ("expected", row.expected),
        ("seen", row.seen),
        ("detail", judged.detail),
        ("reason", row.reason),
        ("node", f"{run.node.impl} {run.node.version} at {getattr(run.node, 'locator', 'no address')}"),
        *[("exchange", line) for made in testers for line in _exchange(made)],
        ("seed", str(config.seed)),
        ("capture", str(config.run_dir / row.capture) if row.capture else "none"),
        ("repeat", row.repeat),
    ]
    before = ""
    for name, text in facts:
        if text:
            lines.append(f"{'' if name == before else name:>10}  {text}")
            before = name
    return "\n".join(lines)


def _stimulus(testers: list[Tester]) -> list[str]:
    """Returns the last thing that was sent, decoded and in hexadecimal."""
    for made in reversed(testers):
        for seen in reversed(made.history.observations):
            if seen.direction is Direction.SENT:
                return [seen.describe(), _hex(seen)]
    return []


def _exchange(made: Tester) -> list[str]:
    """Returns the exchange with times in ms, decoded and in hexadecimal."""
    observations = made.history.observations
    lines: list[str] = []
    if len(observations) > EXCHANGE_LINES:
        lines.append(f"({len(observations) - EXCHANGE_LINES} earlier ones are in observations.jsonl)")
    for seen in observations[-EXCHANGE_LINES:]:
        ms = (seen.time_ns - observations[0].time_ns) / 1e6
        lines.append(f"{ms:9.3f} ms  {seen.link} {ARROWS[seen.direction.value]} {seen.describe()}")
        if seen.raw:
            lines.append(" " * 16 + _hex(seen))
    return lines


def _hex(seen: Observation) -> str:
    raw = seen.raw.hex()
    return raw if len(raw) <= MOST_HEX else f"{raw[:MOST_HEX]}... ({len(seen.raw)} bytes)"
