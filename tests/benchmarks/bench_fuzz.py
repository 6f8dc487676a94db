"""What the two engines do in a second, every row stored and every case judged: ``python tests/benchmarks/bench_fuzz.py``.

Ratios are to what one player does on the same node in the same run: a new session and one question in it, or one valid
publication and the question whether it was dealt with, one after the other, nothing stored and nothing judged. Beside
the rates stand the share of the oracles, how long a restart took, how much memory the harness held in each quarter of
the run, what a case takes of the processors in the harness and in the nodes behind the first quarter, which bounds the rate
on so many cores, and whether the same seed sends the same bytes twice.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

sys.path.insert(0, str(Path(__file__).parents[2]))

from conformance.config import RunConfig
from conformance.nodes import node_of
from conformance.nodes.base import Node
from fuzz.cases import send
from fuzz.oracles import Patient, When
from fuzz.player import Played, run
from fuzz.script import Step
from fuzz.stages import Stage, stage_for
from fuzz.states import State
from scapy_layers.data import Put
from scapy_layers.network import Push
from scapy_layers.transport import Frame
from spark_reports.rows import FUZZ_CASES
from tests.benchmarks._common import Rate, table
from tests.benchmarks._fuzz import ROOT, command, rows

ENGINES = ("fast", "boofuzz")
REPLY = 1.0
RESTARTS = 5
PUBLICATION = send(
    "size", bytes(Frame(R=1, sn=0))[:1], "sn", bytes(Push(key_suffix="bench/k", body=Put(data=b"x" * 8)))
)


@dataclass
class Part:
    """One run of an engine.

    Attributes:
        rate: Cases a second, from the first row to the last.
        cases: How many.
        held: Memory of the harness at the end of each quarter, in MiB.
        cpu: Seconds of a core that a case takes behind the first quarter, in the harness and in its nodes; the starts of
            nodes included.
        code: Exit code.
        said: The end of what it printed.
    """

    rate: float
    cases: int
    held: list[float]
    cpu: tuple[float, float]
    code: int
    said: str


@contextmanager
def staged(name: str, folder: Path) -> Iterator[Stage]:
    """Runs a node."""
    config = RunConfig(node=name, run_dir=folder, run_id="bench", seed=1)
    node: Node = node_of(config)
    with node:
        stage = stage_for("", node, config)
        stage.start()
        yield stage


def for_seconds(seconds: float, once: Callable[[], object]) -> float:
    """Returns how often a second something is done."""
    count, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < seconds:
        once()
        count += 1
    return count / took


def alone(stage: Stage, seconds: float) -> dict[str, float]:
    """Returns what one player does, nothing stored and nothing judged."""
    player = stage.player(random.Random(1))

    def publication(steps: tuple[Step, ...]) -> None:
        played = Played(start=player.trace.end)
        run(player.steps(steps, played))
        run(player.conclude(played))

    def session() -> None:
        player.close()
        player.reach(State.OPEN)
        publication((PUBLICATION,))

    rates = {"boofuzz": for_seconds(seconds, session)}
    player.close()
    player.reach(State.OPEN)
    rates["fast"] = for_seconds(seconds, lambda: publication((PUBLICATION,)))
    player.close()
    return rates


def oracles(stage: Stage) -> str:
    """Returns what each way of looking at a node that is well takes, in microseconds."""
    patient = Patient(stage, REPLY, rng=random.Random(1))
    patient.begin()
    words = []
    for when, count in ((When.CASE, 2000), (When.BEAT, 500), (When.ODD, 50)):
        taken = []
        for _ in range(count):
            began = time.perf_counter()
            objection = patient.examine(when)
            taken.append(time.perf_counter() - began)
            assert objection is None, objection
        words.append(f"{when} {sorted(taken)[count // 2] * 1e6:,.0f} us")
    patient.close()
    return ", ".join(words)


def restarts(stage: Stage) -> str:
    """Returns how long it takes from a node that is dead to the next session."""
    taken = []
    player = stage.player(random.Random(1))
    for _ in range(RESTARTS):
        began = time.perf_counter()
        stage.restart()
        player.reach(State.OPEN)
        taken.append(time.perf_counter() - began)
    player.close()
    return f"{min(taken) * 1e3:,.0f} to {max(taken) * 1e3:,.0f} ms"


def part(words: list[str], folder: Path, seconds: float) -> Part:
    """Runs an engine and looks at the memory of the process meanwhile."""
    with (folder.parent / f"{folder.name}.out").open("w+") as out:
        child = subprocess.Popen(words, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT)
        held, used = [], []
        for quarter in range(1, 5):
            try:
                child.wait(seconds / 4 - (0.2 if quarter == 4 else 0))
                break
            except subprocess.TimeoutExpired:
                held.append(resident(child.pid))
                used.append((time.time_ns(), *cpu_seconds(child.pid)))
        code = child.wait()
        out.seek(0)
        said = out.read()[-3000:]
    times = [row["time_ns"] for row in rows(folder / FUZZ_CASES)]
    took = (max(times) - min(times)) / 1e9 if times else 0.0
    cpu = (0.0, 0.0)
    if len(used) > 1 and (count := sum(used[0][0] <= one < used[-1][0] for one in times)):
        cpu = (used[-1][1] - used[0][1]) / count, (used[-1][2] - used[0][2]) / count
    return Part(len(times) / took if took else 0.0, len(times), held, cpu, code, said)


def cpu_seconds(pid: int) -> tuple[float, float]:
    """Returns seconds of a core that a process has used, and those below it, whether they live or ended."""
    process = psutil.Process(pid)
    own = process.cpu_times()
    below = own.children_user + own.children_system
    for child in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            times = child.cpu_times()
            below += times.user + times.system
    return own.user + own.system, below


def resident(pid: int) -> float:
    """Returns the memory of a process in MiB."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def same_bytes(campaign: str, node: str, folder: Path, engine: str, cases: int) -> str:
    """Runs the same seed twice; returns how many cases sent the same, aside from what only a link knows."""
    sent: list[dict[int, tuple[Any, ...]]] = []
    for number in (1, 2):
        own = folder / f"same-{engine}-{number}"
        words = command(campaign, node, own, 7, "--engine", engine, "--cases", str(cases))
        subprocess.run(words, cwd=ROOT, capture_output=True, check=False, timeout=600)
        sent.append(
            {
                row["case"]: (row["source"], row["field"], row["mutation"], row["sent_hex"])
                for row in rows(own / FUZZ_CASES)
            }
        )
    both = sent[0].keys() & sent[1].keys()
    alike = sum(sent[0][number] == sent[1][number] for number in both)
    planned = sum(sent[0][number][:3] == sent[1][number][:3] for number in both)
    live = sum(
        sent[0][number] != sent[1][number] and alike_but_live(sent[0][number][3], sent[1][number][3])
        for number in both
    )
    return (
        f"{len(both)} of {cases} cases in both runs; {planned} with the same stimulus, {alike} with the same bytes, "
        f"{live} more that differ in a sequence number, a cookie or a ZenohID only"
    )


def alike_but_live(one: str, other: str) -> bool:
    """Tells whether two stimuli have the same length and differ in one run of bytes that only a link knows."""
    if len(one) != len(other):
        return False
    differ = [at // 2 for at in range(0, len(one), 2) if one[at : at + 2] != other[at : at + 2]]
    return bool(differ) and differ[-1] - differ[0] < 64


def main() -> None:
    """Prints a table for each node."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", nargs="+", default=["pypi", "ref"])
    parser.add_argument("--campaign", default="session")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument(
        "--cases", type=int, default=3000, help="for the comparison of two runs with one seed"
    )
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as temporary:
        for number, name in enumerate(options.nodes):
            folder = Path(temporary) / str(number)
            folder.mkdir()
            with staged(name, folder / "node") as stage:
                base = alone(stage, options.seconds / 10)
                looks = oracles(stage)
                again = restarts(stage) if stage.node.owned else "not ours"
            for engine in ENGINES:
                parts = {}
                for jobs in sorted({1, cores}):
                    own = folder / f"{engine}-{jobs}"
                    how = ["--engine", engine, "--time", f"{options.seconds:.0f}s", "--jobs", str(jobs)]
                    words = command(options.campaign, name, own, 1, *how)
                    parts[jobs] = part(words, own, options.seconds)
                done = parts[1]
                rates = [
                    Rate(f"cases, {jobs} process{'es' * (jobs > 1)}", one.rate) for jobs, one in parts.items()
                ]
                what = "a question in one session" if engine == "fast" else "a new session and a question"
                title = f"{name}, {engine} engine, {done.cases} cases of {options.campaign}"
                print(table(title, [Rate(what, base[engine]), *rates], against=what))
                print(f"  memory at each quarter: {', '.join(f'{held:.0f} MiB' for held in done.held)}")
                if all(done.cpu):
                    ours, theirs = done.cpu
                    print(
                        f"  a case takes {ours * 1e6:.0f} us of a core in the harness and {theirs * 1e6:.0f} in the nodes: at "
                        f"most {cores / sum(done.cpu):,.0f} a second on {cores} cores, {cores / theirs:,.0f} if ours took nothing"
                    )
                print(f"  {same_bytes(options.campaign, name, folder, engine, options.cases)}")
                if done.code not in {0, 1}:
                    print(f"  exit code {done.code}: {done.said}")
            print(
                f"{name}: a look at a node that is well: {looks}; restart to the next session: {again}\n",
                flush=True,
            )


if __name__ == "__main__":
    main()
