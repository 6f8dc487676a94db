"""The pytest plugin, run as users run it: in a process of its own, against the real router."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.nodes.pypi import PypiNode
from spark_reports.rows import VERDICTS, read_run
from tests.conformance._runs import ROOT, run, run_own, verdicts

PACKAGES = ("conformance", "fuzz", "scapy_layers", "spark_reports")
ONE = ["--req", "ZN-INIT-045"]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, so that nothing is left in the tree."""
    # In a folder of its own: pytest looks for conftest.py in what stands beside it, too.
    folder = tmp_path_factory.mktemp("place") / "checkout"
    folder.mkdir()
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
    rows = [row for row in verdicts(tmp_path / "run") if "::" in row["test"]]
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


def test_whole_run_away_from_any_checkout_knows_its_tests(tmp_path: Path) -> None:
    # Nobody listens there: the run ends at once, but not before ids, profile and deviations fit together.
    done = run(
        "--pyargs", "conformance.suite", "--node", "null:closed", "--run-dir", "run", cwd=tmp_path, path=ROOT
    )
    assert done.returncode == 3, done.stdout + done.stderr
    rows = verdicts(tmp_path / "run")
    assert len(rows) > 700
    assert {row["outcome"] for row in rows} == {"inconclusive"}
    assert {row["test"].partition("/")[0] for row in rows} == {"suite"}


def test_full_disk_ends_the_run_with_one_sentence(tmp_path: Path) -> None:
    # Files of this process and its children may only have so many bytes.
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000)); import signal; "
    limited += "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); import pytest; raise SystemExit(pytest.main())"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            limited,
            "-p",
            "no:cacheprovider",
            "conformance/",
            "--node",
            "ref",
            "--req",
            "ZN-PUT",
            "--run-dir",
            str(tmp_path / "run"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 3, said
    assert "cannot write to the run folder: File too large" in said
    assert "Traceback" not in said
    assert "INTERNALERROR" not in said


ONE_TEST = """
from conformance.plugin import req

@req("ZN-INIT-001")
def test_one(tester):
    tester.session()
"""

# Wrong use -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--node", "127.0.0.1:1"], 4, "a locator like tcp/127.0.0.1:7447"),
        # A name that no resolver is asked for: tests send nothing off this machine.
        (["--node", "tcp/no..name:1"], 4, "not an address or known name"),
        (["--node", "tcp/192.0.2.1:7447"], 4, "--i-may-test-this-node"),
        (["--node", "tcp/192.0.2.1:7447", "-n", "2"], 4, "--i-may-test-this-node"),
        (["--run-dir", "file/below"], 4, "choose another --run-dir"),
        (["--run-dir", "file/below", "--transports", "tls"], 4, "choose another --run-dir"),
        (["--req", "ZN-NOPE-1"], 4, "no such requirement or area"),
        (["--req", "ZN-NOPE-1", "-n", "2"], 4, "no such requirement or area"),
        (["--transports", "tcp,pigeon"], 4, "pigeon is not one of tcp, tls"),
        (["--profile", "nobody"], 4, "no such profile"),
        (["--deviations", "nowhere.toml"], 4, "no such file"),
        (["--proof", "nowhere.json"], 4, "no such file"),
        (["--proof", "file"], 4, "is no proof.json"),
        (["--captures", "some"], 4, "invalid choice"),
        (["-k", "nothing_is_called_so"], 4, "nothing selected"),
        (["-k", "nothing_is_called_so", "-n", "2"], 4, "nothing selected"),
        (["--level", "OUGHT"], 4, "must be one of MUST"),
        (["--time-scale", "0"], 4, "must be more than 0"),
        (["--seed", str(1 << 63)], 4, "--seed must be a number from 0 to"),
        (["--node", "pypi:abc"], 4, "is not a release of eclipse-zenoh"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_use_is_one_clear_line(words: list[str], code: int, says: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    words = [str(tmp_path / word) if word.startswith("file/") else word for word in words]
    done = run_own(ONE_TEST, tmp_path, *words)
    text = done.stdout + done.stderr
    assert done.returncode == code, text
    lines = [line for line in text.splitlines() if says in line]
    # With workers the test that met the problem is shown too.
    assert len(lines) == 1 if "-n" not in words else lines
    assert len(lines[-1]) < 300
    assert "Traceback" not in text
    assert "INTERNALERROR" not in text
    assert not (tmp_path / "run").exists()


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


def test_checkout_that_nobody_may_write_to_serves(tmp_path: Path) -> None:
    cache = [
        "-p",
        "cacheprovider",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
        "-o",
        "cache_dir=/proc/none",
    ]
    done = run(
        "conformance/suite/test_init.py",
        "--node",
        "ref",
        *ONE,
        "--run-dir",
        str(tmp_path / "run"),
        *cache,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "requirements decided: " in done.stdout
