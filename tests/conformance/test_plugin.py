"""The pytest plugin, run as users run it: in a process of its own, against the real router."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.nodes.pypi import PypiNode
from spark_reports.rows import OBSERVATIONS, VERDICTS, read_rows, read_run

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("conformance", "fuzz", "scapy_layers", "spark_reports")
ONE = ["--req", "ZN-INIT-045"]


def run(*words: str, cwd: Path, path: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs pytest; with ``path`` in front of the import path."""
    environment = {**os.environ, **env}
    environment.pop("PYTEST_ADDOPTS", None)
    environment.pop("PYTEST_XDIST_WORKER", None)
    environment.pop("PYTHONPATH", None)
    if path:
        environment["PYTHONPATH"] = str(path)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, env=environment, check=False, timeout=120
    )


def verdicts(folder: Path) -> list[dict[str, Any]]:
    found = read_rows(folder / VERDICTS)
    assert found.complete
    assert not found.bad
    return found.rows


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, so that nothing is left in the tree."""
    folder = tmp_path_factory.mktemp("checkout")
    ignore = shutil.ignore_patterns("__pycache__")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=ignore)
    for name in ("pyproject.toml", "conftest.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "tests").mkdir()
    (folder / "tests" / "test_own.py").write_text("def test_own() -> None:\n    assert True\n")
    return folder


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, installed into a folder of its own."""
    dist = tmp_path_factory.mktemp("dist")
    source = tmp_path_factory.mktemp("source") / "tree"
    shutil.copytree(checkout, source)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(dist), "."], cwd=source, check=True
    )
    target = tmp_path_factory.mktemp("installed")
    (built,) = dist.iterdir()
    subprocess.run(
        [*pip, "install", "--no-deps", "--no-index", "--target", str(target), str(built)], check=True
    )
    return target


WAYS = {
    "checkout": (["conformance/"], ".", False),
    "inside the folder": ([], "conformance", False),
    "absolute path": (["{checkout}/conformance"], "..", False),
    "dot": (["."], ".", False),
    "two workers": (["conformance/", "-n", "2"], ".", False),
    "wheel with --pyargs": (["--pyargs", "conformance"], "..", True),
    "wheel inside a checkout": (["conformance/"], ".", True),
}


@pytest.mark.parametrize("way", WAYS)
def test_suite_runs_whatever_way_it_is_called(
    way: str, checkout: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    words, cwd, installed = WAYS[way]
    path = request.getfixturevalue("wheel") if installed else None
    words = [word.format(checkout=checkout) for word in words]
    done = run(*words, *ONE, "--run-dir", str(tmp_path / "run"), cwd=checkout / cwd, path=path)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = verdicts(tmp_path / "run")
    assert {row["outcome"] for row in rows} == {"deviation"}
    assert len(rows) == 3
    assert read_run(tmp_path / "run").status == "complete"


def test_bare_call_runs_our_own_tests(checkout: Path) -> None:
    done = run(cwd=checkout)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert not (checkout / "runs").exists()


@pytest.mark.skipif(
    not any(d.metadata["Name"] == "zenoh-harness" for d in importlib.metadata.distributions()),
    reason="needs the editable installation that make setup makes",
)
def test_editable_installation_finds_the_suite_from_anywhere(tmp_path: Path) -> None:
    done = run("--pyargs", "conformance", *ONE, "--run-dir", str(tmp_path / "run"), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(verdicts(tmp_path / "run")) == 3


# Outcomes -------------------------------------------------------------------------------------------

TESTS = """
import pytest
from conformance.errors import NotApplicable, Unmet
from conformance.plugin import req
from scapy_layers.transport import Init

@req("ZN-INIT-001")
def test_pass(tester):
    end = tester.link()
    end.send(tester.init())
    end.expect(Init, A=1)

@req("ZN-INIT-001")
def test_fail(tester):
    end = tester.link()
    end.send(tester.init())
    end.expect(Init, A=1, version=8)

@req("ZN-CLS-106")
def test_should():
    raise Unmet("this", "that")

@req("ZN-INIT-001")
def test_not_applicable():
    raise NotApplicable("cannot show it")

@req("ZN-INIT-001")
def test_inconclusive(tester):
    from conformance.errors import LinkFailed
    raise LinkFailed("no link")

@req("ZN-INIT-001")
def test_recorded():
    raise Unmet("this", "the recorded words")

@req("ZN-INIT-001")
def test_differs():
    raise Unmet("this", "other words")

@req("ZN-INIT-001")
def test_stale():
    pass

@req("ZN-INIT-001")
def test_bug():
    raise KeyError("a bug of the test")

@req("ZN-INIT-001")
def test_harms_the_node(node):
    node._process.kill()
    node._process.wait()

@req("ZN-INIT-001")
def test_behind_the_harm(tester):
    tester.session().fence()
"""

CONFTEST = """
import conformance.requirements as r

def known(test):
    return r.Deviation(requirement="ZN-INIT-001", impl="eclipse-zenoh", versions="0-99", test=f"*::{test}",
                       seen="the recorded words", note="why")

r.deviations = lambda: (known("test_recorded"), known("test_differs"), known("test_stale"))
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    folder = tmp_path_factory.mktemp("outcomes")
    (folder / "test_outcomes.py").write_text(TESTS)
    (folder / "conftest.py").write_text(CONFTEST)
    done = run("-p", "conformance.plugin", "--run-dir", "run", "--seed", "7", cwd=folder, path=ROOT)
    return done, folder / "run"


def test_each_outcome_is_a_row(outcomes: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    done, folder = outcomes
    assert done.returncode == 1
    by_test = {row["test"].rpartition("::")[2]: row for row in verdicts(folder)}
    assert {name: row["outcome"] for name, row in by_test.items()} == {
        "test_pass": "pass",
        "test_fail": "fail",
        "test_should": "warning",
        "test_not_applicable": "n/a",
        "test_inconclusive": "inconclusive",
        "test_recorded": "deviation",
        "test_differs": "fail",
        "test_stale": "fail",
        "test_bug": "inconclusive",
        "test_harms_the_node": "fail",
        "test_behind_the_harm": "pass",
    }
    assert by_test["test_bug"]["reason"] == "the test itself failed: KeyError: 'a bug of the test'"
    harm = by_test["test_harms_the_node"]
    assert (harm["expected"], harm["seen"]) == ("the node stays well", "the process died of SIGKILL")
    fail = by_test["test_fail"]
    assert (fail["expected"], fail["seen"]) == ("INIT A=1 version=8", "INIT A=1 version=9")
    assert fail["level"] == "FACT"
    assert fail["stimulus"].startswith("INIT version=9")
    assert "--seed 7" in fail["repeat"]
    assert "stale" in by_test["test_stale"]["reason"]
    assert "the recorded words" in by_test["test_differs"]["reason"]


def test_failure_prints_all_that_is_needed_to_see_it_again(
    outcomes: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    text = outcomes[0].stdout
    for words in (
        "ZN-INIT-001 (FACT;",
        "expected  INIT A=1 version=8",
        "seen  INIT A=1 version=9",
        "exchange",
        "->",
        "capture",
        "repeat  pytest",
        "outcomes: 2 pass, 4 fail, 1 warning, 1 deviation, 1 n/a, 2 inconclusive",
    ):
        assert words in text, words
    assert "a bug of the test" in text


def test_observations_and_capture_belong_to_the_test(
    outcomes: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    _, folder = outcomes
    found = read_rows(folder / OBSERVATIONS)
    assert found.complete
    mine = [row for row in found.rows if row["test"].endswith("test_pass")]
    assert [row["direction"] for row in mine] == ["opened", "sent", "received"]
    assert [row["messages"] for row in mine] == ["", "INIT", "INIT"]
    captures = [row["capture"] for row in verdicts(folder) if row["capture"]]
    assert len(captures) == 3
    assert all((folder / name).stat().st_size > 0 for name in captures)


def test_rows_hold_no_path_of_this_machine(outcomes: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    _, folder = outcomes
    text = (folder / "run.json").read_text() + (folder / VERDICTS).read_text()
    assert str(folder.parent) not in text
    assert json.loads((folder / "run.json").read_text())["seed"] == 7


# Wrong use -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--node", "tcp/127.0.0.1:1"], 3, "no link to tcp/127.0.0.1:1 (Connection refused)"),
        (["--node", "tcp/127.0.0.1:1", "-n", "2"], 3, "no link to tcp/127.0.0.1:1 (Connection refused)"),
        (["--node", "127.0.0.1:1"], 4, "neither a locator"),
        # A name that no resolver is asked for: tests send nothing off this machine.
        (["--node", "tcp/no..name:1"], 4, "no known name"),
        (["--node", "tcp/192.0.2.1:7447"], 4, "--i-may-test-this-node"),
        (["--node", "tcp/192.0.2.1:7447", "-n", "2"], 4, "--i-may-test-this-node"),
        (["--run-dir", "file/below"], 4, "choose another --run-dir"),
        (["--req", "ZN-NOPE-1"], 4, "no requirement and no area"),
        (["--level", "OUGHT"], 4, "must be one of MUST"),
        (["--time-scale", "0"], 4, "must be more than 0"),
        (["--seed", str(1 << 63)], 4, "--seed must be a number from 0 to"),
        (["--node", "pypi:abc"], 4, "is no release of eclipse-zenoh"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_use_is_one_clear_line(
    words: list[str], code: int, says: str, checkout: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    words = [str(tmp_path / word) if word.startswith("file/") else word for word in words]
    folder = [] if "--run-dir" in words else ["--run-dir", str(tmp_path / "run")]
    done = run("conformance/", *words, *folder, cwd=checkout)
    text = done.stdout + done.stderr
    assert done.returncode == code, text
    lines = [line for line in text.splitlines() if says in line]
    # With workers the test that met the problem is shown too.
    assert len(lines) == 1 if "-n" not in words else lines
    assert len(lines[-1]) < 300
    assert "Traceback" not in text


def test_requirement_and_level_select(checkout: Path, tmp_path: Path) -> None:
    listed = run("conformance/", "--collect-only", "-q", "--req", "ZN-INIT", "--level", "MUST", cwd=checkout)
    assert "test_init.py" in listed.stdout
    assert "test_unsupported_version_is_refused_with_unsupported" not in listed.stdout
    assert not (checkout / "runs").exists()
    assert not list(tmp_path.iterdir())


@pytest.fixture
def router(tmp_path: Path) -> Iterator[PypiNode]:
    with PypiNode(tmp_path / "nodes") as running:
        yield running


def test_node_of_ones_own_is_judged_by_its_profile(router: PypiNode, checkout: Path, tmp_path: Path) -> None:
    common = ["conformance/", *ONE, "--node", str(router.locator)]
    plain = run(*common, "--run-dir", str(tmp_path / "plain"), cwd=checkout)
    assert plain.returncode == 1
    assert {row["outcome"] for row in verdicts(tmp_path / "plain")} == {"fail"}
    assert read_run(tmp_path / "plain").node_impl == "unknown"
    profile = ["--profile", f"eclipse-zenoh:{router.version}"]
    known = run(*common, *profile, "--run-dir", str(tmp_path / "known"), cwd=checkout)
    assert known.returncode == 0, known.stdout
    assert {row["outcome"] for row in verdicts(tmp_path / "known")} == {"deviation"}


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["one process", "two workers"])
def test_second_run_in_the_same_folder_is_refused_and_loses_nothing(
    workers: list[str], checkout: Path, tmp_path: Path
) -> None:
    words = ["conformance/", *ONE, *workers, "--run-dir", str(tmp_path / "run")]
    assert run(*words, cwd=checkout).returncode == 0
    before = (tmp_path / "run" / VERDICTS).read_bytes()
    again = run(*words, cwd=checkout)
    assert again.returncode == 4
    assert "holds the verdicts of another run" in again.stdout + again.stderr
    assert (tmp_path / "run" / VERDICTS).read_bytes() == before
