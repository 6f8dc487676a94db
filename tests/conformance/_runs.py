"""pytest in a process of its own and what it leaves behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from spark_reports.rows import VERDICTS, read_rows
from tests.conformance import _prepared

ROOT = Path(__file__).resolve().parents[2]

Done = subprocess.CompletedProcess[str]


def run(*words: str, cwd: Path, path: Path | None = None) -> Done:
    """Runs pytest as a command; with ``path`` in front of the import path."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    environment = _prepared.environment() | ({"PYTHONPATH": str(path)} if path else {})
    return subprocess.run(
        command,
        cwd=cwd,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=_prepared.SECONDS,
    )


def run_prepared(*words: str, cwd: Path, **env: str) -> Done:
    """Does the same with this checkout in front of the import path, without the time it takes to start."""
    environment = {**_prepared.environment(), **env, "PYTHONPATH": str(ROOT)}
    return _prepared.run(["-p", "no:cacheprovider", *words], cwd, environment)


def run_own(tests: str, folder: Path, *words: str, **env: str) -> Done:
    """Runs tests that stand in a file ``test_own.py`` of their own, with the plugin; the run folder is ``run``."""
    (folder / "test_own.py").write_text(tests)
    return run_prepared("-p", "conformance.plugin", "--run-dir", "run", *words, cwd=folder, **env)


def verdicts(folder: Path) -> list[dict[str, Any]]:
    """Returns the rows of a run that came to its end."""
    found = read_rows(folder / VERDICTS)
    assert found.complete
    assert not found.bad
    return found.rows


def outcomes(folder: Path) -> dict[str, str]:
    """Returns the outcome of each test by its name; what was judged in passing is left out."""
    return {
        row["test"].rpartition("::")[2]: row["outcome"] for row in verdicts(folder) if "::" in row["test"]
    }
