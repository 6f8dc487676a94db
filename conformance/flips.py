"""python -m conformance.flips: does a test ever judge the same node differently?

Runs the core in random order, many times, then again with every core of the machine kept busy, and counts
for each test how often it ended in which outcome. A test with more than one outcome has flipped.

Exit codes: 0 no flips; 1 flips; 3 a run broke off; 4 wrong use; 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from conformance.errors import UsageError
from conformance.suite_runs import CORE, Runner, SuiteRun, in_words, say
from scapy_layers.commands.terminal import at_least, folder, seconds
from spark_reports.rows import OUTCOMES, new_run_id

FLIPS = "flips.json"

LIMIT_SECONDS = 900.0
"""How long one run may take, on a busy machine too."""

OK, FLIPPED, BROKEN, WRONG_USE, INTERRUPTED = 0, 1, 3, 4, 130

_EXAMPLES = """\
examples:
  python -m conformance.flips --node ref                          30 runs, and 10 on a busy machine
  python -m conformance.flips --node pypi --runs 5 --busy 2 -- --req ZN-OPEN

exit codes:
  0 no flips   1 flips   3 a run broke off   4 wrong use   130 interrupted
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRun:
    """A run that was counted.

    Attributes:
        run_id: Its folder.
        seed: Of its order and of its random choices.
        busy: Every core was kept busy.
        seconds: How long it took.
        outcomes: How many tests ended in each outcome.
        why: Why it broke off; empty otherwise.
    """

    run_id: str
    seed: int
    busy: bool
    seconds: float
    outcomes: dict[str, int]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A test that did not always end alike.

    Attributes:
        test: Its id.
        outcomes: How often it ended in each outcome.
        odd: Runs in which it did not end as in most: folder, outcome, what was seen or why.
    """

    test: str
    outcomes: dict[str, int]
    odd: list[tuple[str, str, str]]


@dataclass(slots=True)
class Count:
    """What was counted.

    Attributes:
        node: The ``--node`` value.
        runs: All runs.
        seen: For each test and run how it ended: outcome, and what was seen or why.
    """

    node: str
    runs: list[OneRun] = field(default_factory=list)
    seen: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)

    def add(self, done: SuiteRun, seed: int, *, busy: bool) -> OneRun:
        """Takes in a run."""
        run = OneRun(
            run_id=done.folder.name,
            seed=seed,
            busy=busy,
            seconds=round(done.seconds, 1),
            outcomes=done.counts,
            why=done.why,
        )
        self.runs.append(run)
        for row in done.verdicts:
            self.seen.setdefault(row["test"], {})[run.run_id] = (row["outcome"], row["seen"] or row["reason"])
        return run

    def flips(self) -> list[Flip]:
        """Returns the tests that ended in more than one outcome, those that flip most first."""
        found = []
        for test, by_run in sorted(self.seen.items()):
            counted = Counter(outcome for outcome, _ in by_run.values())
            if len(counted) > 1:
                usual = counted.most_common(1)[0][0]
                odd = [(run_id, *how) for run_id, how in by_run.items() if how[0] != usual]
                found.append(
                    Flip(test=test, outcomes={n: counted[n] for n in OUTCOMES if counted[n]}, odd=odd)
                )
        return sorted(found, key=lambda flip: -len(flip.odd))

    def save(self, out: Path) -> None:
        """Writes what was counted so far.

        Raises:
            UsageError: The folder cannot be written.
        """
        values: dict[str, Any] = {
            "node": self.node,
            "tests": len(self.seen),
            "runs": [asdict(run) for run in self.runs],
            "flips": [asdict(flip) for flip in self.flips()],
        }
        try:
            (out / FLIPS).write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{out}: cannot be written ({error.strerror}); name another --out") from None


def main(argv: list[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    for_pytest: list[str] = []
    if "--" in words:
        at = words.index("--")
        words, for_pytest = words[:at], words[at + 1 :]
    try:
        arguments = _parser().parse_args(words)
        if arguments.runs + arguments.busy < 1:
            raise UsageError("--runs and --busy: at least one run is needed")
        out: Path = arguments.out or Path("runs") / f"flips-{new_run_id()}"
        count = Count(arguments.node)
        dice = random.Random(arguments.seed)
        for number in range(arguments.runs + arguments.busy):
            busy = number >= arguments.runs
            _one_more(count, out, dice.randrange(1 << 32), for_pytest, arguments.limit, busy=busy)
            count.save(out)
    except UsageError as error:
        say(f"flips: {error}", error=True)
        return WRONG_USE
    except KeyboardInterrupt:
        say("flips: interrupted", error=True)
        return INTERRUPTED
    for line in table(count):
        say(line)
    say(f"{out / FLIPS}")
    if any(run.why for run in count.runs):
        return BROKEN
    return FLIPPED if count.flips() else OK


def _one_more(
    count: Count, out: Path, seed: int, for_pytest: Sequence[str], limit: float, *, busy: bool
) -> None:
    words = [*CORE, "-p", "conformance.shuffle", "--shuffle", str(seed), "--seed", str(seed), *for_pytest]
    with busy_cores(limit) if busy else contextlib.nullcontext():
        done = Runner(limit, out.resolve().name).run(count.node, out / new_run_id(), *words)
    run = count.add(done, seed, busy=busy)
    how = f"not judged: {run.why}" if run.why else in_words(run.outcomes)
    say(f"run {len(count.runs):>3}{' (busy)' if busy else ''}  {how}  {run.seconds:.0f} s  seed {seed}")


class _Parser(argparse.ArgumentParser):
    """Ends wrong use as the suite does."""

    def error(self, message: str) -> Any:
        raise UsageError(f"{message}; see --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m conformance.flips",
        description="Counts tests that judge the same node differently from run to run. Arguments after -- are "
        "passed to pytest.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--node", default="ref", metavar="NODE", help="node, as for the suite (default: ref)")
    parser.add_argument(
        "--runs", type=at_least(0), default=30, metavar="N", help="runs in random order (default: 30)"
    )
    parser.add_argument(
        "--busy",
        type=at_least(0),
        default=10,
        metavar="N",
        help="runs with all cores kept busy (default: 10)",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of all orders (default: 1)")
    parser.add_argument(
        "--limit",
        type=seconds,
        default=LIMIT_SECONDS,
        metavar="SECONDS",
        help="stop a run that takes longer (default: %(default)g)",
    )
    parser.add_argument("--out", type=folder, metavar="DIR", help="folder (default: runs/flips-<run-id>)")
    return parser


# Busy cores -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def busy_cores(limit: float) -> Generator[list[int], None, None]:
    """Keeps every core busy; yields the processes that do it.

    They end with us, whatever becomes of us, and behind the limit in any case.

    Args:
        limit: Seconds.
    """
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=_be_busy, args=(os.getpid(), limit), daemon=True)
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        for worker in workers:
            worker.start()
        yield [worker.pid or 0 for worker in workers]
    finally:
        for worker in workers:
            if worker.is_alive():
                worker.terminate()
        for worker in workers:
            if worker.pid is not None:
                worker.join()


def _be_busy(parent: int, limit: float) -> None:
    """Computes until the parent is gone or time is up."""
    until = time.monotonic() + limit
    while os.getppid() == parent and time.monotonic() < until:
        sum(range(100_000))


# What was counted -----------------------------------------------------------------------------------


def table(count: Count) -> list[str]:
    """Returns what was counted, in lines."""
    flips = count.flips()
    broken = [run for run in count.runs if run.why]
    busy = sum(run.busy for run in count.runs)
    runs = f"{len(count.runs) - busy} runs in random order, {busy} on busy cores"
    odd = f"{sum(len(flip.odd) for flip in flips)} flips of {len(flips)} tests"
    lines = [f"{count.node}: {len(count.seen)} tests, {runs}: {odd}, {len(broken)} runs broke off"]
    for flip in flips:
        lines.append(f"{in_words(flip.outcomes):<28}  {flip.test}")
        lines += [f"{'':<28}  {run_id}: {outcome}: {how}" for run_id, outcome, how in flip.odd[:5]]
    lines += [f"broke off: {run.run_id}: {run.why}" for run in broken]
    return lines


if __name__ == "__main__":
    sys.exit(main())
