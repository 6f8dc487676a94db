"""pytest in a process of its own, as users run it, and what it leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from spark_reports.rows import VERDICTS, read_rows

ROOT = Path(__file__).resolve().parents[2]

Done = subprocess.CompletedProcess[str]


def run(*words: str, cwd: Path, path: Path | None = None, **env: str) -> Done:
    """Runs pytest; with ``path`` in front of the import path."""
    environment = {**os.environ, **env}
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTHONPATH"):
        environment.pop(name, None)
    if path:
        environment["PYTHONPATH"] = str(path)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, env=environment, check=False, timeout=600
    )


def run_own(tests: str, folder: Path, *words: str, **env: str) -> Done:
    """Runs tests that stand in a file ``test_own.py`` of their own, with the plugin; the run folder is ``run``."""
    (folder / "test_own.py").write_text(tests)
    # Whatever other plugins are installed takes a third of the time and has no part in it.
    alone = () if "-n" in words else ("--disable-plugin-autoload",)
    return run(*alone, "-p", "conformance.plugin", "--run-dir", "run", *words, cwd=folder, path=ROOT, **env)


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
