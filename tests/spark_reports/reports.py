"""A report in which everything is there, made without Spark: what the page and the other files are tested on."""

import itertools
import random
from typing import Any

from spark_reports import report, rows
from spark_reports.frames.matrix import LEVELS

IMPL = "eclipse-zenoh"
KEY = "eclipse-zenoh router; Linux 6.1 x86_64, 2 cores, Python 3.11; transport=tcp"
_AREAS = ("INIT", "OPEN", "CLS", "FRM", "FRG", "DCL", "PUSH", "REQ", "RTE", "KEX")
_CAMPAIGNS = ("handshake", "session", "routing")


def example_report(checks: int = 120, runs: int = 12, versions: int = 4, **values: Any) -> report.Report:
    """Returns the same report each time it is called with the same numbers.

    Args:
        checks: Number of requirements; each has one test.
        runs: Number of runs, spread evenly over the versions.
        versions: Number of versions of the node.
        values: Fields of the report to put in place of those that are made up here.
    """
    chance = random.Random(8)
    names = [f"ZN-{_AREAS[number % len(_AREAS)]}-{number:03d}" for number in range(checks)]
    releases = [f"1.{number}.0" for number in range(versions)]
    lines = [
        _run(number, releases[number * versions // runs], checks, chance) for number in reversed(range(runs))
    ]
    newest, earlier = lines[: max(1, runs // versions)], lines[max(1, runs // versions) :]
    pair = report.Compared(
        key=KEY,
        node=f"{IMPL} router",
        candidate=tuple(run.run_id for run in newest),
        baseline=tuple(run.run_id for run in earlier[: len(newest)]),
        candidate_version=newest[0].node_version,
        baseline_version=earlier[0].node_version if earlier else "",
    )
    whole: dict[str, Any] = {
        "runs": tuple(lines),
        "cells": tuple(_cells(names, releases, lines, chance)),
        "changes": tuple(_changes(names, lines, chance)),
        "troubles": tuple(
            _trouble(outcome, name, lines[0])
            for outcome, name in zip(("fail", "fail", "warning", "deviation"), names, strict=False)
        ),
        "not_applicable": (report.NotApplicable(reason="needs a router of routers", tests=3),),
        "findings": tuple(_findings(lines)),
        "rates": tuple(_rates(lines, chance)),
        "bad_lines": (
            report.BadLineShown(
                run_id=lines[0].run_id, file=rows.FUZZ_CASES, line=7, problem="no verdict", text='{"case": 7}'
            ),
        ),
        "left_out": (),
        "differences": (
            report.Difference(
                node_impl=IMPL,
                requirement=names[0],
                level="MUST",
                oldest=releases[0],
                newest=releases[-1],
                versions=versions,
                first=releases[-1],
                test=_test(names[0]),
                before="as required",
                after="CLOSE",
                differing=1,
            ),
        ),
        "sets": report.SetInfo(
            asked="previous",
            text=f"{len(pair.candidate)} runs on {pair.candidate_version} against {len(pair.baseline)} on "
            f"{pair.baseline_version}",
            pairs=(pair,),
            not_comparable=(
                report.NotComparable(run_id=lines[-1].run_id, why="no other run has its environment"),
            ),
        ),
        "unchanged": max(0, checks - len(report.CHECK_STATUSES) + 1),
        "flaky": tuple(_flaky(name, lines, chance) for name in names[1:4]),
        "coverage": tuple(_coverage(lines, checks)),
        "lost": (
            report.Lost(
                key=KEY,
                kind="requirement",
                name=names[5],
                level="MUST",
                last_run=lines[-1].run_id,
                why="not run",
            ),
            report.Lost(
                key=KEY, kind="pair", name="open PUSH", level="", last_run=lines[-1].run_id, why="not tried"
            ),
        ),
        "trends": tuple(_trends(lines, chance)),
        "mutants": (
            report.MutantLine(requirement=names[0], level="MUST", mutants=3, killed=3, alive=()),
            report.MutantLine(
                requirement=names[1], level="MUST", mutants=2, killed=1, alive=("open-ack-lease",)
            ),
        ),
        "stale": (
            report.StaleDeviation(
                node_impl=IMPL,
                node_version=releases[-1],
                requirement=names[2],
                test=_test(names[2]),
                run_id=lines[0].run_id,
            ),
        ),
        "first_bad": (
            report.FirstBad(
                node_impl=IMPL,
                requirement=names[0],
                test=_test(names[0]),
                transport="tcp",
                good=releases[-2] if versions > 1 else "",
                bad=releases[-1],
                confidence=0.97,
                runs_good=len(earlier),
                runs_bad=len(newest),
                failed_bad=len(newest),
                node_whatami=newest[0].node_whatami,
                environment=newest[0].environment,
                configuration=newest[0].configuration,
            ),
        ),
        "found": tuple(
            report.FoundPoint(
                run_id=run.run_id,
                started_at=run.started_at,
                cases=1500 * number,
                buckets=min(4, 1 + number // 2),
            )
            for number, run in enumerate(reversed(lines), start=1)
        ),
        "accounts": tuple(
            report.AccountLine(
                run_id=run.run_id,
                file=name,
                lines=count + 1 + run.bad * (name == rows.FUZZ_CASES),
                good=count,
                apart=run.bad * (name == rows.FUZZ_CASES),
                blank=0,
                footers=1,
            )
            for run in lines
            for name, count in run.rows.items()
        ),
        "gates": (
            report.GateResult(name="new-failures", ok=False, text="1 new failure, 0 allowed"),
            report.GateResult(name="new-findings", ok=True, text="0 new findings, 0 allowed"),
        ),
    }
    return report.Report(**{**whole, **values})


def _test(requirement: str) -> str:
    return f"suite/test_{requirement.split('-')[1].lower()}.py::test_{requirement.replace('-', '_').lower()}"


def _run(number: int, version: str, checks: int, chance: random.Random) -> report.RunLine:
    started = f"2026-{1 + number // 28:02d}-{1 + number % 28:02d}T10:00:00.000Z"
    fails = chance.randrange(4)
    sent = chance.randrange(1000, 2000)
    return report.RunLine(
        run_id=f"{started[:10].replace('-', '')}T100000Z-{number:04x}",
        started_at=started,
        ended_at=started.replace("T10:00", "T10:05"),
        kind="conformance+fuzz",
        node="pypi",
        node_impl=IMPL,
        node_version=version,
        node_whatami="router",
        harness_version="0.1.0",
        python="3.11",
        platform="Linux x86_64",
        seed=number,
        command="pytest conformance/ --node pypi",
        state="complete" if number else "cut off",
        notes=() if number else ("verdicts.jsonl has no footer, so rows may be missing at its end",),
        outcomes={**dict.fromkeys(rows.OUTCOMES, 0), "pass": checks - fails - 2, "fail": fails, "n/a": 2},
        rows={rows.FUZZ_CASES: 1500, rows.OBSERVATIONS: 2 * sent, rows.VERDICTS: checks},
        bad=0 if number else 1,
        sent=sent,
        received=sent,
        undecoded=0,
        findings=2,
        environment="Linux 6.1 x86_64, 2 cores, Python 3.11",
        configuration="transport=tcp",
        harness_commit="0123456",
        parent="",
        attempt=1,
    )


def _cells(
    names: list[str], releases: list[str], lines: list[report.RunLine], chance: random.Random
) -> list[report.Cell]:
    newest = {run.node_version: run.run_id for run in reversed(lines)}
    cells = []
    for version in releases:
        for number, name in enumerate(names):
            outcome = (
                "pass" if chance.random() < 0.9 else chance.choice(("fail", "warning", "deviation", "n/a"))
            )
            cells.append(
                report.Cell(
                    node_impl=IMPL,
                    node_version=version,
                    requirement=name,
                    area=name.split("-")[1],
                    level=LEVELS[number % len(LEVELS)],
                    outcome=outcome,
                    run_id=newest.get(version, lines[0].run_id),
                    runs=3,
                    other=("fail",) if outcome == "pass" and number % 17 == 0 else (),
                )
            )
    return cells


def _changes(
    names: list[str], lines: list[report.RunLine], chance: random.Random
) -> list[report.CheckChange]:
    changes = []
    for name, status in zip(names, report.CHECK_STATUSES[:-1], strict=False):
        statistical = status == report.FLAKY
        changes.append(
            report.CheckChange(
                key=KEY,
                test=_test(name),
                transport="tcp",
                requirements=(name,),
                level="MUST",
                status=status,
                certainty=report.STATISTICAL if statistical else report.DETERMINISTIC,
                failed_c=3 if status in {report.NEW_FAILURE, report.STILL_FAILING} else 0,
                runs_c=0 if status in {report.NOT_RUN, report.NA_EVERYWHERE} else 3,
                failed_b=3 if status in {report.FIXED, report.STILL_FAILING} else 0,
                runs_b=3,
                low=0.44,
                high=1.0,
                p=0.01 if statistical else None,
                q=0.04 if statistical else None,
                flips=chance.randrange(1, 5) if statistical else 1,
                rate=0.5,
                last_flip_run=lines[0].run_id,
                seen="CLOSE(reason=INVALID)",
                capture=f"captures/{name}.pcapng",
                repeat=f"pytest conformance/{_test(name)} --node pypi --seed 7",
                run_id=lines[0].run_id,
            )
        )
    return changes


def _flaky(name: str, lines: list[report.RunLine], chance: random.Random) -> report.Flaky:
    history = tuple(
        (run.run_id, chance.choice(("pass", "pass", "fail"))) for run in list(reversed(lines))[-30:]
    )
    failed = sum(outcome == "fail" for _, outcome in history)
    flips = sum(before[1] != after[1] for before, after in itertools.pairwise(history))
    rate = failed / len(history)
    return report.Flaky(
        key=KEY,
        test=_test(name),
        transport="tcp",
        requirements=(name,),
        level="MUST",
        runs=len(history),
        failed=failed,
        rate=rate,
        low=max(0.0, rate - 0.2),
        high=min(1.0, rate + 0.2),
        flips=flips,
        flips_c=flips,
        score=flips / max(1, len(history) - 1) * min(1.0, 4 * rate * (1 - rate)),
        last_flip_run=lines[0].run_id,
        seen="nothing within 1 s",
        capture="",
        repeat=f"pytest conformance/{_test(name)} --node pypi",
        run_id=lines[0].run_id,
        history=history,
    )


def _trouble(outcome: str, name: str, run: report.RunLine) -> report.Trouble:
    return report.Trouble(
        outcome=outcome,
        test=_test(name),
        requirements=(name,),
        level="MUST",
        node_impl=run.node_impl,
        node_version=run.node_version,
        run_id=run.run_id,
        expected="INIT(A=1)",
        seen="CLOSE(reason=INVALID)",
        reason="",
        stimulus="INIT(S=1, version=9)",
        capture=f"captures/{name}.pcapng",
        repeat=f"pytest conformance/{_test(name)} --node pypi",
    )


def _findings(lines: list[report.RunLine]) -> list[report.Finding]:
    found = []
    oldest_first = list(reversed(lines))
    for number, status in enumerate((report.NEW, report.REOPENED, report.KNOWN, report.GONE)):
        seen_in = oldest_first[-1:] if status == report.NEW else oldest_first[number :: 2 + number]
        by_run = {run.run_id: 3 + number for run in seen_in}
        found.append(
            report.Finding(
                bucket=f"crash: INIT.lease: thread panicked at link {number}",
                node_impl=seen_in[-1].node_impl,
                cases=sum(by_run.values()),
                runs=len(by_run),
                first_run=seen_in[0].run_id,
                last_run=seen_in[-1].run_id,
                campaigns=_CAMPAIGNS[:2],
                fields=("INIT.lease",),
                states=("init_acked", "open"),
                oracles=("alive",),
                versions=tuple(sorted({f"{run.node_impl} {run.node_version}" for run in seen_in})),
                run_id=seen_in[-1].run_id,
                campaign=_CAMPAIGNS[0],
                case=40 + number,
                sent_bytes=4,
                sent_hex="02000102",
                message="INIT",
                field="INIT.lease",
                mutation="0 -> 1",
                state="open",
                reply="EOF",
                detail="the process ended with signal 6",
                capture="captures/finding.pcapng",
                seed=7,
                by_run=by_run,
                status=status,
                first_seen=seen_in[0].started_at,
                last_seen=seen_in[-1].started_at,
                cases_before=39 + number,
            )
        )
    return found


def _rates(lines: list[report.RunLine], chance: random.Random) -> list[report.Rate]:
    return [
        report.Rate(
            run_id=run.run_id,
            campaign=campaign,
            cases=500,
            seconds=2.0,
            cases_per_s=250.0 + chance.uniform(-20, 20),
            node_starts=1,
            verdicts={**dict.fromkeys(rows.FUZZ_VERDICTS, 0), "closed": 497, "finding": 3},
        )
        for campaign in _CAMPAIGNS
        for run in lines
    ]


def _coverage(lines: list[report.RunLine], checks: int) -> list[report.CoverageLine]:
    return [
        report.CoverageLine(
            run_id=run.run_id, kind=kind, tried=planned - (number % 3), planned=planned, cases=10 * planned
        )
        for kind, planned in (("pair", 60), ("edge", 400), ("requirement", checks))
        for number, run in enumerate(lines)
    ]


def _trends(lines: list[report.RunLine], chance: random.Random) -> list[report.Trend]:
    def points(base: float, last: float) -> tuple[report.TrendPoint, ...]:
        values = [
            (run, (last if number >= len(lines) - 3 else base) * chance.uniform(0.97, 1.03))
            for number, run in enumerate(reversed(lines))
        ]
        return tuple(
            report.TrendPoint(
                run_id=run.run_id,
                started_at=run.started_at,
                version=run.node_version,
                value=value,
                low=0.9 * value,
                high=1.1 * value,
            )
            for run, value in values
        )

    return [
        report.Trend(
            key=KEY,
            name="reply to OPEN, median",
            unit="us",
            better="lower",
            points=points(300, 420),
            drift="40 % slower than the baseline (p 0.002)",
            status=report.SLOWER,
            change=0.4,
        ),
        report.Trend(
            key=KEY,
            name="cases per second of handshake",
            unit="1/s",
            better="higher",
            points=points(250, 250),
            drift="within 2 % of the baseline",
            status=report.STEADY,
            change=0.01,
        ),
        report.Trend(
            key=KEY,
            name="decode, fast columns",
            unit="1/s",
            better="higher",
            points=points(1e6, 1e6)[:2],
            drift="",
            status=report.TOO_FEW,
        ),
    ]
