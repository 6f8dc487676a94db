"""What makes the exit code: limits on what a report says, from the command line and from a TOML file.

A gate counts something (new failures, findings ...) and fails when there is more of it than its limit. Data gates
ask whether the data is good enough to judge by; where one fails, the others say little, and the exit code is 3
instead of 1. docs/reports.md has an example of a file.
"""

import dataclasses
import datetime as dt
import math
import re
import tomllib
import typing
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_reports.errors import DataTrouble, GateFailed, WrongUse
from spark_reports.folders import COMPLETE, DUPLICATE, RUNNING, is_time
from spark_reports.report import (
    NEW_FAILURE,
    NOT_RUN,
    SLOWER,
    TOO_FEW,
    CheckChange,
    Flaky,
    GateResult,
    Report,
)

APART_PERCENT = 1.0
"""So many of 100 lines may be kept apart, unless a file says otherwise."""

SLOWER_PERCENT = 5.0
"""What became slower by less than this does not count, whatever the statistics say."""

NAMED = 3
"""The text of a gate names so many of what it counted."""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Tests whose failures are not counted for a while.

    Attributes:
        test: Id of a test; ``*`` stands for anything.
        until: Last day on which this holds; compared with the day of the newest run, so that a report over the same
            runs always says the same.
        why: For the person who finds it.
    """

    test: str
    until: dt.date
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """What is allowed.

    Attributes:
        limits: By the name of a gate, how many there may be. A gate that is not there is not asked for.
        slower_percent: As ``SLOWER_PERCENT``.
        apart_percent: As ``APART_PERCENT``.
        min_runs: Fewer complete runs that are judged are data trouble.
        baseline: There must be runs to compare with.
        quarantine: What is not counted.
    """

    limits: Mapping[str, int] = field(default_factory=dict)
    slower_percent: float = SLOWER_PERCENT
    apart_percent: float = APART_PERCENT
    min_runs: int = 1
    baseline: bool = False
    quarantine: Sequence[Quarantined] = ()

    def failing_on(self, names: Iterable[str]) -> "Gates":
        """Returns these gates with none of ``names`` allowed where no limit is given."""
        return dataclasses.replace(self, limits={**dict.fromkeys(names, 0), **self.limits})


def read_gates(path: Path) -> Gates:
    """Reads a file of gates.

    Raises:
        WrongUse: It cannot be read, or says something that no gate knows.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise WrongUse(f"{path} cannot be read ({error.strerror})") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise WrongUse(f"{path} is not a TOML file: {error}") from error
    try:
        return _gates(content)
    except ValueError as error:
        raise WrongUse(f"{path}: {error}") from error


def parse_names(text: str) -> tuple[str, ...]:
    """Reads names of gates joined by commas, as ``--fail-on`` has them.

    Raises:
        ValueError: One of them is none, or there is none at all.
    """
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = [name for name in names if name not in GATES]
    if unknown or not names:
        raise ValueError(f"unknown gate {', '.join(unknown) or repr(text)}; the gates are {', '.join(GATES)}")
    return names


def judged(report: Report, gates: Gates) -> Report:
    """Returns a report that says which gates hold, and what is in quarantine."""
    reason = _quarantine_of(report, gates)
    changes = tuple(dataclasses.replace(change, quarantine=reason(change.test)) for change in report.changes)
    return dataclasses.replace(report, changes=changes, gates=tuple(judge(report, gates)))


def judge(report: Report, gates: Gates) -> list[GateResult]:
    """Returns whether each gate that was asked for holds, data gates first."""
    results = [_enough_runs(report, gates), _little_apart(report, gates)]
    if gates.baseline:
        results.append(_has_baseline(report))
    for name, count in GATES.items():
        if name in gates.limits:
            found = count(report, gates)
            limit = gates.limits[name]
            text = _text(found, limit)
            if name == "slower" and (few := _too_few(report)):
                text += f"; {few}"
            results.append(GateResult(name=name, ok=len(found) <= limit, text=text))
    if expired := _expired(report, gates):
        verb = "counts" if len(expired) == 1 else "count"
        text = f"{_such_as(expired).removeprefix(': ')}: expired, and {verb} again"
        results.append(GateResult(name="quarantine", ok=True, text=text))
    return results


def check(results: Iterable[GateResult]) -> None:
    """Checks that all gates hold.

    Raises:
        DataTrouble: A data gate does not.
        GateFailed: Another one does not.
    """
    failed = [result for result in results if not result.ok]
    for names, error in ((DATA_GATES, DataTrouble), (tuple(GATES), GateFailed)):
        if mine := [result for result in failed if result.name in names]:
            raise error("; ".join(f"gate {result.name} failed: {result.text}" for result in mine))


def _new_failures(report: Report, gates: Gates) -> list[str]:
    return _checks(report, gates, NEW_FAILURE)


def _not_run(report: Report, gates: Gates) -> list[str]:
    return _checks(report, gates, NOT_RUN)


def _checks(report: Report, gates: Gates, status: str) -> list[str]:
    mine = [change for change in report.changes if change.status == status]
    return [_name(change) for change in _counted(mine, report, gates)]


def _flaky(report: Report, gates: Gates) -> list[str]:
    """Names the flaky tests that changed within the version that is judged: what others did is history."""
    mine = [flaky for flaky in report.flaky if flaky.flips_c]
    return [_name(flaky) for flaky in _counted(mine, report, gates)]


def _new_findings(report: Report, _: Gates) -> list[str]:
    return [finding.bucket for finding in report.findings if finding.is_news]


def _coverage(report: Report, _: Gates) -> list[str]:
    return [f"{lost.kind} {lost.name}" for lost in report.lost]


def _slower(report: Report, gates: Gates) -> list[str]:
    return [
        trend.name
        for trend in report.trends
        if trend.status == SLOWER
        and (trend.change is None or abs(trend.change) * 100 >= gates.slower_percent)
    ]


def _too_few(report: Report) -> str:
    """Says that there were too few runs to judge any measurement by; empty when some were judged, or none was taken."""
    statuses = [trend.status for trend in report.trends]
    if not statuses or set(statuses) != {TOO_FEW}:
        return ""
    return f"none of {len(statuses)} measurements was judged, as there are too few runs on either side"


def _stale(report: Report, _: Gates) -> list[str]:
    return [f"{stale.requirement} on {stale.node_version}" for stale in report.stale]


GATES: Mapping[str, Callable[[Report, Gates], list[str]]] = {
    "new-failures": _new_failures,
    "not-run": _not_run,
    "new-findings": _new_findings,
    "coverage": _coverage,
    "flaky": _flaky,
    "slower": _slower,
    "stale": _stale,
}
"""The gates, each with what it counts."""

DATA_GATES = ("runs", "kept-apart", "baseline")


def _enough_runs(report: Report, gates: Gates) -> GateResult:
    judged = set(report.sets.candidate)
    whole = sum(run.run_id in judged and run.state == COMPLETE for run in report.runs)
    text = f"{whole} of {len(judged)} judged runs complete, at least {gates.min_runs} needed"
    # Who judged the runs before them instead would say that all is well when nobody looked.
    if unread := report.sets.unread:
        text += (
            f"; {_verb(unread)} newer but not judged{_such_as([run.run_id for run in unread])} "
            f"({unread[0].why}); repair {_them(unread)} or record the run again"
        )
    if broken := report.not_whole:
        going = set(broken.values()) == {RUNNING}
        again = f"wait until {_they(broken)} ended and report again, or " if going else ""
        text += (
            f"; {_verb(broken)} the newest of {'its' if len(broken) == 1 else 'their'} kind and incomplete"
            f"{_such_as([f'{run_id} ({state})' for run_id, state in broken.items()])}; {again}record {_them(broken)} again"
        )
    if left := report.left_incomplete:
        names = [f"{run_id} ({state})" for run_id, state in left.items()]
        text += f"; {_verb(left)} incomplete and passed over, as later ones are of newer versions{_such_as(names)}"
    if blind := report.blind:
        text += f"; {_decided(blind)} no requirement, as all is inconclusive or n/a{_such_as(blind)}"
    ok = whole >= gates.min_runs and not unread and not broken and not blind
    return GateResult(name="runs", ok=ok, text=text)


def _decided(runs: Collection[object]) -> str:
    return "1 run decided" if len(runs) == 1 else f"{len(runs)} runs decided"


def _them(runs: Collection[object]) -> str:
    return "it" if len(runs) == 1 else "them"


def _they(runs: Collection[object]) -> str:
    return "it has" if len(runs) == 1 else "they have"


def _verb(runs: Collection[object]) -> str:
    return "1 run is" if len(runs) == 1 else f"{len(runs)} runs are"


def _little_apart(report: Report, gates: Gates) -> GateResult:
    """Asks each run that is compared on its own: among many whole ones a run of which nothing is left is no small part.

    What was left behind is not asked.
    """
    compared = {run_id for pair in report.sets.followed for run_id in (*pair.candidate, *pair.baseline)}
    lines, apart = Counter[str](), Counter[str]()
    for account in report.accounts:
        if account.run_id in compared or not compared:
            lines[account.run_id] += account.lines
            apart[account.run_id] += account.apart
    share = {run_id: 100 * apart[run_id] / count for run_id, count in lines.items() if count}
    percent = 100 * apart.total() / lines.total() if lines.total() else 0.0
    much = [run_id for run_id in share if share[run_id] > gates.apart_percent]
    text = f"{apart.total()} of {lines.total()} lines set aside ({percent:.2f} %), {gates.apart_percent:g} % allowed"
    if much:
        worst = sorted(much, key=lambda run_id: -share[run_id])
        text += f" in each run{_such_as([f'{run_id} has {share[run_id]:.1f} %' for run_id in worst])}"
    return GateResult(name="kept-apart", ok=not much, text=text)


def _has_baseline(report: Report) -> GateResult:
    alone = [pair.key for pair in report.sets.pairs if not pair.baseline]
    found = len(report.sets.pairs) - len(alone)
    text = (
        f"{found} of {len(report.sets.pairs)} kinds of runs have something to compare with{_such_as(alone)}"
    )
    # With a baseline of its own name the newest runs may be of a machine that never met it.
    judged = set(report.sets.candidate)
    apart = {one.run_id for one in report.sets.not_comparable} - judged
    newest = max((run.started_at for run in report.runs if run.run_id in judged), default="")
    later = [run.run_id for run in report.runs if run.run_id in apart and run.started_at > newest]
    if later:
        text += f"; {_verb(later)} newer and cannot be compared{_such_as(later)}"
    text = "; ".join([text, *report.sets.cautions])
    ok = bool(report.sets.pairs) and not (alone or later or report.sets.cautions)
    return GateResult(name="baseline", ok=ok, text=text)


_T = typing.TypeVar("_T", CheckChange, Flaky)


def _counted(found: Iterable[_T], report: Report, gates: Gates) -> list[_T]:
    """Returns what is not in quarantine."""
    reason = _quarantine_of(report, gates)
    return [one for one in found if not reason(one.test)]


def _expired(report: Report, gates: Gates) -> list[str]:
    """Returns which tests were in quarantine until a day before that of the newest run."""
    day = _day(report)
    return [
        f"{entry.test} until {entry.until}" for entry in gates.quarantine if entry.until.isoformat() < day
    ]


def _day(report: Report) -> str:
    """Returns the day of the newest run; empty when no run has one."""
    times = (run.started_at for run in report.runs if run.state != DUPLICATE and is_time(run.started_at))
    return max((time[:10] for time in times), default="")


def _quarantine_of(report: Report, gates: Gates) -> Callable[[str], str]:
    """Returns what says until when a test is in quarantine, and why; empty when it is not on the day of the newest run."""
    day = _day(report)
    held = [(_pattern(entry.test), entry) for entry in gates.quarantine if day <= entry.until.isoformat()]

    def reason(test: str) -> str:
        found = next((entry for pattern, entry in held if pattern.fullmatch(test)), None)
        return f"until {found.until}: {found.why}" if found else ""

    return reason


def _pattern(test: str) -> re.Pattern[str]:
    # Not fnmatch: the brackets of parameters, test_x[tcp], are meant as they are.
    return re.compile(".*".join(map(re.escape, test.split("*"))), re.DOTALL)


def _name(found: CheckChange | Flaky) -> str:
    return " ".join([*found.requirements, found.test])


def _text(found: Sequence[str], limit: int) -> str:
    return f"{len(found)}, {limit} allowed{_such_as(found)}"


def _such_as(found: Sequence[str]) -> str:
    if not found:
        return ""
    # What is worse on many nodes is called the same on each.
    names = [f"{name} ({times} times)" if times > 1 else name for name, times in Counter(found).items()]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f": {', '.join(names[:NAMED])}{more}"


def _gates(content: Mapping[str, Any]) -> Gates:
    known = {f"max_{name.replace('-', '_')}": name for name in GATES}
    plain: dict[str, type | tuple[type, ...]] = {
        "slower_percent": (int, float),
        "apart_percent": (int, float),
        "min_runs": int,
        "baseline": bool,
    }
    limits: dict[str, int] = {}
    values: dict[str, Any] = {}
    for key, value in content.items():
        if key in known:
            limits[known[key]] = _number(key, value, int)
        elif plain.get(key) is bool:
            if not isinstance(value, bool):
                raise ValueError(f"{key} must be true or false")
            values[key] = value
        elif key in plain:
            values[key] = _number(key, value, plain[key])
            if key == "apart_percent" and value > 100:
                raise ValueError(f"{key} must be 100 or less: of 100 lines no more can be no rows")
        elif key == "quarantine":
            values[key] = _quarantine(value)
        else:
            raise ValueError(f"unknown key {key}; known are {', '.join([*known, *plain, 'quarantine'])}")
    return Gates(limits=limits, **values)


def _number(key: str, value: object, kind: type | tuple[type, ...]) -> Any:
    if isinstance(value, bool) or not isinstance(value, kind) or not 0 <= value < math.inf:  # type: ignore[operator]
        what = "a whole number" if kind is int else "a number"
        raise ValueError(f"{key} must be {what}, 0 or more")
    return value


def _quarantine(entries: object) -> tuple[Quarantined, ...]:
    names = {field.name for field in dataclasses.fields(Quarantined)}
    result = []
    for entry in entries if isinstance(entries, list) else [entries]:
        if not isinstance(entry, dict) or set(entry) != names:
            raise ValueError(f"an entry of [[quarantine]] needs exactly {', '.join(sorted(names))}")
        if type(entry["until"]) is not dt.date or not all(
            isinstance(entry[name], str) for name in ("test", "why")
        ):
            raise ValueError("in [[quarantine]], test and why must be texts, until a date such as 2026-12-31")
        if not entry["test"].strip():
            raise ValueError("in [[quarantine]], test is empty; name a test, or * for all")
        result.append(Quarantined(**entry))
    return tuple(result)
