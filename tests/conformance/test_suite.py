"""The suite against the real node, and against mutants of it: each rule that is broken is found."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from conformance.requirements import requirements
from tests.conformance._mutants import MUTANTS

pytest.importorskip("zenoh")

ROOT = Path(__file__).parents[2]

SIDE_BY_SIDE = 4
"""Processes that run mutants at the same time, each with a node of its own."""

Rows = list[dict[str, Any]]


def verdicts(folder: Path) -> Rows:
    """Returns the verdict rows of a run."""
    lines = (folder / "verdicts.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if "test" in row]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    folder = tmp_path_factory.mktemp("plain")
    # Most of the time of this, too, is waited.
    command = [sys.executable, "-m", "pytest", "conformance", "-q", "-n", "3", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--run-dir", str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (folder / "verdicts.jsonl").exists(), done.stdout + done.stderr
    return verdicts(folder)


@pytest.fixture(scope="module")
def bent(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bent")
    names: list[str] = [
        str(item.callspec.params["mutant"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == test_mutant_is_found.__name__
    ]
    # Most of the time is waited for answers that a mutant does not give, so several run side by side.
    command = [sys.executable, "-m", "tests.conformance._run_mutants", str(folder)]
    running = [
        subprocess.Popen([*command, *names[at::SIDE_BY_SIDE]], cwd=ROOT, stdout=subprocess.DEVNULL)
        for at in range(min(SIDE_BY_SIDE, len(names)))
    ]
    codes = [process.wait() for process in running]
    assert not any(codes), f"exit codes {codes}; see standard error"
    return folder


def test_real_node_meets_the_suite_or_deviates_as_recorded(plain: Rows) -> None:
    counts = Counter(row["outcome"] for row in plain)
    odd = [
        f"{row['test']}: {row['seen'] or row['reason']}"
        for row in plain
        if row["outcome"] not in {"pass", "deviation", "n/a"}
    ]
    # Each on a line: shown as a list, most of it is cut off.
    assert not odd, "\n".join(odd)
    assert counts["pass"] > 300


def test_suite_covers_the_first_areas(plain: Rows) -> None:
    shown = {name for row in plain if row["outcome"] != "n/a" for name in row["requirements"]}
    areas = Counter(requirements()[name].area for name in shown)
    first = ("INIT", "OPEN", "CLS", "KA", "FRM", "PUSH", "DCL", "REQ")
    assert all(areas[area] for area in first)
    assert sum(areas[area] for area in first) >= 80


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant_is_found(bent: Path, mutant: str) -> None:
    rows = verdicts(bent / mutant)
    for requirement in MUTANTS[mutant].requirements:
        outcomes = {row["test"]: row["outcome"] for row in rows if requirement in row["requirements"]}
        assert {"fail", "warning"} & set(outcomes.values()), f"{requirement}: {outcomes}"
