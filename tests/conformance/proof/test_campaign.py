"""The campaign itself: on a few mutants, one of which nothing can notice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.passive import CHECKERS
from conformance.proof.__main__ import main
from conformance.proof.results import unproven
from conformance.refnode.mutants import MUTANTS
from spark_reports.rows import VERDICTS, read_rows, read_run

ROOT = Path(__file__).parents[3]

WITH_A_SURVIVOR = """
import sys
from conformance.proof.__main__ import main
from conformance.refnode.mutants import mutant
from scapy_layers.transport import KeepAlive

@mutant("ZN-KA-003z", hears=KeepAlive)
def does_nothing_wrong(message, _):
    return message.original

sys.exit(main(sys.argv[1:]))
"""


def campaign(out: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITH_A_SURVIVOR, "--out", str(out), *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)


def test_killed_ones_are_told_from_survivors(tmp_path: Path) -> None:
    names = ("ZN-KA-003", "ZN-INIT-010", "ZN-KA-003z")
    done = campaign(tmp_path, "--sample", "2", *(word for name in names for word in ("--mutant", name)))
    assert done.returncode == 1, done.stdout + done.stderr
    said = [line for line in done.stdout.splitlines() if line.startswith("survived")]
    assert said == ["survived: ZN-KA-003z (does nothing wrong)"]
    found = json.loads((tmp_path / "proof.json").read_text())
    assert found["summary"]["killed"] == 2
    assert found["summary"]["correct_node"]["not_passed"] == []
    killed = found["mutants"]["ZN-KA-003"]["killed"]
    assert "ZN-KA-003" in killed["requirements"]
    assert killed["expected"]
    assert killed["seen"]
    # No session is possible with this one: it was tried without the canary.
    assert found["mutants"]["ZN-INIT-010"]["alone"]
    assert (tmp_path / "proof.html").read_text().startswith("<!doctype html>")
    folder = tmp_path / "runs" / "ZN-KA-003"
    assert read_run(folder).node == "ref:ZN-KA-003"
    assert read_rows(folder / VERDICTS).complete


def test_folder_of_another_campaign_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    done = campaign(tmp_path, "--mutant", "ZN-KA-003")
    assert done.returncode == 2
    assert "another --out" in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--mutant", "ZN-KA-999"], "no mutant 'ZN-KA-999'"),
        (["--out", "file/below"], "choose another --out"),
        (["--jobs", "0"], "at least 1"),
        (["--time-scale", "0"], "--time-scale must be more than 0"),
        (["--time-scale", "nan"], "--time-scale must be more than 0"),
    ],
)
def test_wrong_use_ends_with_2(
    words: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        sys.exit(main(["--mutant", "ZN-KA-003", *words]))
    assert ended.value.code == 2
    assert says in capsys.readouterr().err.splitlines()[-1]


def test_every_requirement_that_is_tested_has_a_mutant_or_a_reason(marked: set[str]) -> None:
    assert unproven(marked | set(CHECKERS), MUTANTS) == []


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The requirements that some test of the suite marks."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "conformance",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    plugin = tmp_path_factory.mktemp("plugin")
    (plugin / "marked.py").write_text(
        "def pytest_collection_finish(session):\n"
        "    for item in session.items:\n"
        "        for mark in item.iter_markers('req'):\n"
        "            print('MARKED', *mark.args)\n"
    )
    done = subprocess.run(
        [*command, "-p", "marked"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
        env={"PYTHONPATH": str(plugin), "PATH": "/usr/bin:/bin"},
    )
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("MARKED")]
    return {name for _, *names in lines for name in names}
