"""Many runs of the suite: over releases, and over again to count flips."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from conformance import flips, matrix, suite_runs
from conformance.errors import UsageError
from conformance.flips import busy_cores
from conformance.nodes.releases import RELEASES
from conformance.suite_runs import Runner, SuiteRun
from spark_reports.rows import VERDICTS, RowWriter, RunRow, VerdictRow, read_run, write_run

ROOT = Path(__file__).resolve().parents[2]
Capture = pytest.CaptureFixture[str]


def row(test: str = "t", outcome: str = "pass", seen: str = "") -> VerdictRow:
    return VerdictRow(
        run_id="r",
        test=test,
        requirements=("ZN-INIT-001",),
        level="MUST",
        outcome=outcome,
        expected="",
        seen=seen,
        reason="",
        stimulus="",
        duration_s=0.1,
        started_ns=1,
        capture="",
        repeat="",
    )


class Fake:
    """Stands for the suite: writes runs, and says which were asked for.

    Attributes:
        asked: Node and further arguments of each run.
        verdicts: What the next runs show, by node; a text says why it is not judged.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.verdicts: dict[str, Sequence[VerdictRow] | str] = {}

    def run(self, _: Runner, node: str, folder: Path, *words: str) -> SuiteRun:
        self.asked.append((node, words))
        shown = self.verdicts.get(node, [row()])
        folder.mkdir(parents=True)
        if isinstance(shown, str):
            return SuiteRun(folder, 3, 0.1, [], shown)
        texts = (
            "started_at",
            "kind",
            "node_impl",
            "node_version",
            "node_whatami",
            "node_zid",
            "harness_version",
        )
        values: dict[str, Any] = dict.fromkeys((*texts, "python", "platform", "command"), "x")
        write_run(
            folder,
            RunRow(run_id=folder.name, ended_at=None, node=node, seed=1, status="complete", **values),
        )
        with RowWriter(folder / VERDICTS) as writer:
            for one in shown:
                writer.write(one)
        return SuiteRun(
            folder,
            0,
            0.1,
            [{"test": o.test, "outcome": o.outcome, "seen": o.seen, "reason": ""} for o in shown],
        )


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    made = Fake()

    def run(runner: Runner, node: str, folder: Path, *words: str) -> SuiteRun:
        return made.run(runner, node, folder, *words)

    monkeypatch.setattr(Runner, "run", run)
    return made


# Versions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("all", list(RELEASES)),
        ("1.9.0,1.7.2", ["1.7.2", "1.9.0"]),
        ("1.10.0..", ["1.10.0", "1.10.1", "1.10.2"]),
        ("..1.1", ["1.0.0", "1.0.4"]),
        ("1.5..1.9", ["1.5.1", "1.6.2", "1.7.2", "1.9.0"]),
        ("1.10.1.., 1.0.0, 1.10.2", ["1.0.0", "1.10.1", "1.10.2"]),
        ("1.8.0", ["1.8.0"]),
    ],
)
def test_versions_are_chosen_oldest_first_and_once(text: str, versions: list[str]) -> None:
    assert matrix.choose(text, RELEASES) == versions


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is no version"),
        ("newest", "is no version"),
        ("1.x..", "is no version"),
        ("2.0..", "no release lies there; there are 1.0.0"),
        ("1.9.0..1.7.2", "no release lies there"),
    ],
)
def test_versions_that_are_none_say_what_to_write(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        matrix.choose(text, RELEASES)


# The matrix -----------------------------------------------------------------------------------------


def test_every_version_gets_a_run_folder_and_a_line(fake: Fake, tmp_path: Path, capsys: Capture) -> None:
    fake.verdicts["pypi:1.9.0"] = [row(), row("b", "deviation")]
    out = tmp_path / "m"
    assert (
        matrix.main(
            ["--versions", "1.9.0,1.10.0", "--out", str(out), "--jobs", "1", "--", "--req", "ZN-INIT"]
        )
        == 0
    )
    assert fake.asked == [
        (f"pypi:{version}", ("-m", "not slow", "--seed", "1", "--req", "ZN-INIT"))
        for version in ("1.9.0", "1.10.0")
    ]
    folders = sorted(path for path in out.iterdir() if path.is_dir())
    assert sorted(read_run(folder).node for folder in folders) == ["pypi:1.10.0", "pypi:1.9.0"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1.9.0   1 pass, 1 deviation, 0 s")
    assert lines[1].startswith("1.10.0  1 pass, 0 s")
    assert lines[-1] == f"what differs, and since when: zenoh-reports versions {out}"


@pytest.mark.parametrize(
    ("shown", "code"),
    [
        ([row()], 0),
        ([row(outcome="deviation"), row("b", "warning"), row("c", "n/a")], 0),
        ([row(outcome="fail")], 1),
        ([row(outcome="inconclusive")], 1),
        ("it cannot be installed", 3),
    ],
)
def test_exit_code_says_the_worst(
    fake: Fake, tmp_path: Path, shown: Sequence[VerdictRow] | str, code: int
) -> None:
    fake.verdicts["pypi:1.7.2"] = shown
    assert matrix.main(["--versions", "1.7.2,1.9.0", "--out", str(tmp_path / "m")]) == code


def test_release_that_cannot_be_had_is_named_and_the_others_go_on(
    fake: Fake, tmp_path: Path, capsys: Capture
) -> None:
    fake.verdicts["pypi:1.8.0"] = "eclipse-zenoh 1.8.0 cannot be installed"
    assert matrix.main(["--versions", "1.7.2,1.8.0,1.9.0", "--out", str(tmp_path / "m")]) == 3
    text = capsys.readouterr().out
    assert "2 of 3 releases judged" in text
    assert "not judged: 1.8.0: eclipse-zenoh 1.8.0 cannot be installed" in text


def test_resumed_matrix_runs_what_is_missing_only(fake: Fake, tmp_path: Path, capsys: Capture) -> None:
    words = ["--versions", "1.7.2,1.9.0,1.10.0", "--out", str(tmp_path / "m")]
    fake.verdicts["pypi:1.9.0"] = "it broke off"
    assert matrix.main(words) == 3
    cut = next(path for path in (tmp_path / "m").iterdir() if path.name.endswith("-1.10.0")) / VERDICTS
    cut.write_bytes(cut.read_bytes()[:-10])
    fake.asked.clear()
    del fake.verdicts["pypi:1.9.0"]
    capsys.readouterr()
    assert matrix.main([*words, "--resume"]) == 0
    assert sorted(node for node, _ in fake.asked) == ["pypi:1.10.0", "pypi:1.9.0"]
    assert "1.7.2   1 pass  (was there)" in capsys.readouterr().out
    fake.asked.clear()
    assert matrix.main([*words, "--resume"]) == 0
    assert fake.asked == []


def test_folder_of_another_matrix_is_wrong_use(fake: Fake, tmp_path: Path, capsys: Capture) -> None:
    words = ["--versions", "1.9.0", "--out", str(tmp_path / "m")]
    assert matrix.main(words) == 0
    assert matrix.main(words) == 4
    assert "--resume goes on with it" in capsys.readouterr().err
    assert matrix.main([*words, "--resume", "--seed", "2"]) == 4
    assert "was run with other arguments" in capsys.readouterr().err
    (tmp_path / "m" / matrix.MATRIX).write_text("[1]")
    assert matrix.main([*words, "--resume"]) == 4
    assert len(fake.asked) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    "words", [["--versions", "x"], ["--jobs", "0"], ["--jobs", "x"], ["--nope"], ["--out", "file/below"]]
)
@pytest.mark.usefixtures("fake")
def test_wrong_use_of_the_matrix_is_one_line(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    assert matrix.main(words) == 4
    (said,) = capsys.readouterr().err.splitlines()
    assert "invalid _" not in said


def test_interrupt_keeps_what_was_run(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(runner: Runner, node: str, folder: Path, *words: str) -> SuiteRun:
        if node == "pypi:1.9.0":
            raise KeyboardInterrupt
        return fake.run(runner, node, folder, *words)

    monkeypatch.setattr(Runner, "run", interrupted)
    words = ["--versions", "1.7.2,1.9.0", "--out", str(tmp_path / "m"), "--jobs", "1"]
    assert matrix.main(words) == 130
    assert list(json.loads((tmp_path / "m" / matrix.MATRIX).read_text())["runs"]) == ["1.7.2"]


# One run in a process of its own ----------------------------------------------------------------------


def write_suite(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Puts another file in the place of the suite, in a process without plugins."""
    (folder / "test_it.py").write_text(text)
    monkeypatch.setattr(suite_runs, "SUITE", folder / "test_it.py")
    (folder / "conftest.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--node')\n    parser.addoption('--run-dir')\n"
    )


ALONE = ("-p", "no:conformance.plugin", "-p", "no:xdist")


def test_run_that_hangs_is_stopped_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_suite(tmp_path, monkeypatch, "import threading\ndef test_hang():\n    threading.Event().wait()\n")
    done = Runner(3.0).run("x", tmp_path / "run", *ALONE)
    assert done.why == "it did not end within 3 s"
    assert done.seconds < 20


def test_run_that_breaks_off_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_suite(
        tmp_path, monkeypatch, "import pytest\ndef test_exit():\n    pytest.exit('no node to be had', 3)\n"
    )
    done = Runner(60.0).run("x", tmp_path / "run", *ALONE)
    assert (done.code, done.why) == (3, "no node to be had")
    assert (tmp_path / "run" / suite_runs.LOG).exists()


def test_password_for_the_suite_is_in_no_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = tmp_path / "shown.txt"
    code = (
        "import os, pathlib\ndef test_it():\n"
        "    words = pathlib.Path('/proc/self/cmdline').read_text()\n"
        f"    pathlib.Path({str(shown)!r}).write_text(words + os.environ['ZENOH_PASSWORD'])\n"
    )
    write_suite(tmp_path, monkeypatch, code)
    with (tmp_path / "conftest.py").open("a") as file:
        file.write("    parser.addoption('--user')\n")
    for number, words in enumerate((["--user", "alice:sesame:x"], ["--user=alice:sesame:x"])):
        Runner(60.0).run("x", tmp_path / f"run-{number}", *ALONE, *words)
        command, _, password = shown.read_text().rpartition("\0")
        assert "sesame" not in command
        assert command.split("\0")[-1].endswith("alice")
        assert password == "sesame:x"


def test_password_is_not_kept_in_the_folder_of_a_matrix(fake: Fake, tmp_path: Path) -> None:
    words = ["--versions", "1.9.0", "--out", str(tmp_path / "out")]
    assert matrix.main([*words, "--", "--user", "alice:sesame"]) == 0
    assert matrix.main([*words, "--resume", "--", "--user", "alice:sesame"]) == 0
    assert fake.asked[0][1][-2:] == ("--user", "alice:sesame")
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"alice" in written
    assert b"sesame" not in written


def test_run_without_rows_was_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_suite(tmp_path, monkeypatch, "def test_nothing():\n    pass\n")
    done = Runner(60.0).run("x", tmp_path / "run", *ALONE)
    assert done.code == 0
    assert done.why


# Flips ----------------------------------------------------------------------------------------------


def test_test_with_two_outcomes_has_flipped(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    numbers = itertools.count(1)

    def run(runner: Runner, node: str, folder: Path, *words: str) -> SuiteRun:
        odd = next(numbers) == 3
        fake.verdicts[node] = [row("steady"), row("flips", "fail", "CLOSE") if odd else row("flips")]
        return fake.run(runner, node, folder, *words)

    monkeypatch.setattr(Runner, "run", run)
    monkeypatch.setattr(flips, "busy_cores", lambda _: busy_nothing())
    assert flips.main(["--node", "ref", "--runs", "3", "--busy", "2", "--out", str(tmp_path / "f")]) == 1
    text = capsys.readouterr().out
    assert (
        "ref: 2 tests, 3 runs in random order, 2 on busy cores: 1 flips of 1 tests, 0 runs broke off" in text
    )
    found = json.loads((tmp_path / "f" / flips.FLIPS).read_text())
    assert [run["busy"] for run in found["runs"]] == [False, False, False, True, True]
    (flip,) = found["flips"]
    assert (flip["test"], flip["outcomes"]) == ("flips", {"pass": 4, "fail": 1})
    assert [(outcome, how) for _, outcome, how in flip["odd"]] == [("fail", "CLOSE")]
    seeds = [words[words.index("--shuffle") + 1] for _, words in fake.asked]
    assert len(set(seeds)) == 5


def busy_nothing() -> Any:
    return contextlib.nullcontext()


@pytest.mark.parametrize(("shown", "code"), [([row()], 0), ("it broke off", 3)])
def test_exit_code_of_flips(fake: Fake, tmp_path: Path, shown: Sequence[VerdictRow] | str, code: int) -> None:
    fake.verdicts["ref"] = shown
    assert flips.main(["--runs", "2", "--busy", "0", "--out", str(tmp_path / "f")]) == code


@pytest.mark.parametrize(
    "words", [["--runs", "0", "--busy", "0"], ["--runs", "-1"], ["--runs", "x"], ["--nope"]]
)
@pytest.mark.usefixtures("fake")
def test_wrong_use_of_flips_is_one_line(words: list[str], capsys: Capture) -> None:
    assert flips.main(words) == 4
    (said,) = capsys.readouterr().err.splitlines()
    assert "invalid _" not in said


def order(folder: Path, *words: str) -> list[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--collect-only",
        "-p",
        "no:cacheprovider",
        *words,
        str(folder),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_order_is_that_of_the_seed(tmp_path: Path) -> None:
    (tmp_path / "test_many.py").write_text("".join(f"def test_{name}():\n    pass\n" for name in "zyxwvuts"))
    shuffle = [*ALONE, "-p", "conformance.shuffle"]
    plain = order(tmp_path, *shuffle)
    one, again, other = (order(tmp_path, *shuffle, "--shuffle", seed) for seed in ("1", "1", "2"))
    assert plain[0].endswith("test_z")
    assert one == again
    assert sorted(one) == sorted(plain)
    assert len({tuple(plain), tuple(one), tuple(other)}) == 3


def test_busy_cores_end_with_the_block() -> None:
    with busy_cores(60.0) as pids:
        assert len(pids) == os.cpu_count()
        assert all(alive(pid) for pid in pids)
    assert not any(alive(pid) for pid in pids)


def test_busy_cores_end_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import threading\n"
        "from conformance.flips import busy_cores\n"
        "if __name__ == '__main__':\n"
        "    with busy_cores(600.0) as pids:\n"
        "        print(*pids, flush=True)\n"
        "        threading.Event().wait()\n"
    )
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert pids
        parent.kill()
        # Our end of the pipe ends when the last process that holds the other end is gone.
        assert parent.communicate(timeout=600)[0] == ""
    assert not any(alive(pid) for pid in pids)


def alive(pid: int) -> bool:
    """Tells whether a process lives; one that has ended and nobody waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("command", [matrix, flips])
@pytest.mark.parametrize("limit", ["nan", "-1", "inf", "0"])
def test_limit_that_is_no_time_is_wrong_use(command: Any, limit: str, fake: Fake, capsys: Capture) -> None:
    assert command.main(["--limit", limit]) == 4
    assert "is not a number of seconds" in capsys.readouterr().err
    assert not fake.asked
