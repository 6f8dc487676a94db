"""Runs of pytest that do not start from nothing are like those that do."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.conformance import _prepared
from tests.conformance._runs import ROOT, Done, run, run_prepared

TESTS = """
import os
import random
import sys

def test_that_fails():
    print("to be shown")
    print("and this", file=sys.stderr)
    assert [1, 2] == [1, 3]

def test_of_what_is_around():
    import conformance.plugin
    (root,) = {path for path in sys.path if path == os.environ["PYTHONPATH"]}
    said = [os.getcwd(), os.environ.get("MARK"), sys.argv[1:], conformance.plugin.__file__, root]
    with open("said", "a") as out:
        print(os.getpid(), random.random(), said, sep="\\n", file=out)
    os.environ["MARK"] = "of an earlier run"
    random.seed(7)
    del sys.path[:2]
"""


def shown(done: Done) -> tuple[int, str, str]:
    return done.returncode, re.sub(r"in \d+\.\d+s", "in no time", done.stdout), done.stderr


def test_prepared_run_is_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    words = ["-p", "conformance.plugin", "-rA", "test_it.py"]
    whole = run(*words, cwd=tmp_path, path=ROOT)
    prepared = [run_prepared(*words, cwd=tmp_path) for _ in range(2)]
    assert whole.returncode == pytest.ExitCode.TESTS_FAILED
    assert "to be shown" in whole.stdout
    assert [shown(one) for one in prepared] == [shown(whole)] * 2
    lines = (tmp_path / "said").read_text().splitlines()
    processes, chances, surroundings = (set(lines[at::3]) for at in range(3))
    assert (len(processes), len(chances), len(surroundings)) == (3, 3, 1)


def test_prepared_run_gets_its_own_environment(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import os\ndef test_it(): assert os.environ['MARK'] == 'here'\n")
    assert run_prepared("test_it.py", cwd=tmp_path, MARK="here").returncode == 0
    assert run_prepared("test_it.py", cwd=tmp_path).returncode == 1
    assert "MARK" not in os.environ


def test_prepared_run_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "test_it.py").write_text("import signal\ndef test_it():\n    signal.pause()\n")
    monkeypatch.setattr(_prepared, "SECONDS", 1)
    with pytest.raises(TimeoutError, match="1 s"):
        run_prepared("test_it.py", cwd=tmp_path)
