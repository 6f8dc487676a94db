"""Nodes that do what few nodes do, and are right: no test may fail on them."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.conformance._runs import ROOT, run_prepared, verdicts

TOLD = ["--req", "ZN-INT", "--req", "ZN-DCL", "--req", "ZN-RTE"]


@pytest.mark.parametrize(
    ("name", "words", "decided"),
    [
        ("TELLS-AT-ONCE", TOLD, 100),
        ("TELLS-EVERYTHING", TOLD, 90),
        ("SPEAKS-IN-ALIASES", [*TOLD, "--req", "ZN-KEX"], 100),
        ("WRITES-LONG-NUMBERS", ["--req", "ZN-REQ", "--req", "ZN-RSP", "--req", "ZN-FIN"], 30),
        ("COUNTS-AS-THE-PAGE", ["--req", "ZN-FRM", "--req", "ZN-INIT-023", "--req", "ZN-OPEN"], 60),
        ("ADDS-EXTENSIONS-NOW-AND-THEN", ["--req", "ZN-INIT", "--req", "ZN-OPEN", "-m", "not slow"], 100),
        (
            "CUTS-EVERYTHING",
            [
                "--req",
                "ZN-FRG",
                "--req",
                "ZN-FRM",
                "--req",
                "ZN-INIT-027",
                "--req",
                "ZN-INIT-044",
                "--req",
                "ZN-INIT-049",
                "--req",
                "ZN-OPEN-011",
            ],
            50,
        ),
        ("REFUSES-EMPTY-FRAGMENTS", ["--req", "ZN-FRG-105"], 3),
        ("PASSES-OVER-EMPTY-UNITS", ["--req", "ZN-INIT-052"], 1),
        ("HAS-COOKIES-OF-ANY-LENGTH", ["--req", "ZN-OPEN-005"], 1),
        ("HAS-SMALL-BATCHES --batch-size 300", ["-k", "back_to_back"], 2),
        ("THINKS", ["-k", "any_message_renews", "--time-scale", "4"], 1),
        ("ADDS-EXTENSIONS", ["-k", "survive and not any_bytes", "-m", "not slow"], 30),
    ],
)
def test_node_that_does_something_rare_fails_nothing(
    name: str, words: list[str], decided: int, tmp_path: Path
) -> None:
    node = f"cmd:{sys.executable} -m tests.conformance._rare_node --listen {{locator}} --mutant {name}"
    done = run_prepared(
        "conformance", "-q", "--node", node, "--run-dir", str(tmp_path / "run"), *words, cwd=ROOT
    )
    rows = verdicts(tmp_path / "run")
    odd = [
        f"{row['test']}: {row['seen'] or row['reason']}"
        for row in rows
        if row["outcome"] not in {"pass", "n/a"}
    ]
    assert not odd, "\n".join(odd)
    assert done.returncode == 0
    assert Counter(row["outcome"] for row in rows)["pass"] >= decided
