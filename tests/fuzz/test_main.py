from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fuzz.__main__ import Progress, command, main
from fuzz.boo import Summary
from spark_reports.rows import CAPTURES, FUZZ_CASES, read_rows, read_run
from tests.fuzz.fakes import Server

pytestmark = pytest.mark.usefixtures("elsewhere")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


@contextlib.contextmanager
def serving(harm: Callable[[bytes], str] = lambda _: "") -> Iterator[str]:
    server = Server(harm)
    try:
        yield f"tcp/127.0.0.1:{server.port}"
    finally:
        server.close()


def test_list_shows_the_campaigns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert "handshake:" in out
    assert "session:" in out
    assert "init_acked" in out
    assert "process, stderr, ping" in out


def test_help_is_quick_and_has_examples_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert "zenoh-fuzz run handshake --node pypi --time 20s" in out
    assert "exit codes: 0 no finding, 1 findings, 2 wrong use, 3" in out
    assert main(["run", "--help"]) == 0
    code = "import sys, fuzz.__main__ as m; m.main(['--help']); sys.exit('boofuzz' in sys.modules or 'scapy' in sys.modules)"
    root = Path(__file__).parents[2]
    assert (
        subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, check=False).returncode
        == 0
    )


def test_node_that_copes_is_exit_0_and_a_complete_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    with serving() as node:
        code = main(
            ["run", "handshake", "--node", node, "--cases", "40", "--seed", "1", "--run-dir", str(folder)]
        )
    assert code == 0
    assert "no finding" in capsys.readouterr().out
    run = read_run(folder)
    assert (run.kind, run.status, run.seed, run.run_id) == ("fuzz", "complete", 1, "run")
    assert str(tmp_path) not in run.command
    rows = read_rows(folder / FUZZ_CASES)
    assert rows.complete
    assert len(rows.rows) == 40
    assert (folder / CAPTURES / "fuzz-handshake.pcapng").stat().st_size


def test_both_campaigns_share_a_run_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with serving() as node:
        for campaign in ("handshake", "session", "session"):
            assert main(["run", campaign, "--node", node, "--cases", "15", "--run-dir", str(folder)]) == 0
    rows = read_rows(folder / FUZZ_CASES)
    assert rows.complete
    assert [row["campaign"] for row in rows.rows] == ["handshake"] * 15 + ["session"] * 30
    captures = {row["capture"] for row in rows.rows}
    assert captures == {f"captures/fuzz-{name}.pcapng" for name in ("handshake", "session", "session-1")}


def test_findings_are_exit_1_with_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conformance.config.REPLY_SECONDS", 0.3)
    closes: list[bytes] = []

    def hiccup(batch: bytes) -> str:
        # Only the campaign sends CLOSE with another reason; the next connection is the ping.
        if batch[:1] != b"\x03" or batch == b"\x03\x00":
            return ""
        closes.append(batch)
        return "hiccup" if len(closes) == 1 else ""

    with serving(hiccup) as node:
        code = main(
            [
                "run",
                "handshake",
                "--node",
                node,
                "--cases",
                "60",
                "--seed",
                "1",
                "--run-dir",
                str(tmp_path / "r"),
            ]
        )
    out = capsys.readouterr().out
    assert code == 1
    assert re.search(r"finding: stall \w+", out)
    assert "1 cases, first " in out
    (found,) = [row for row in read_rows(tmp_path / "r" / FUZZ_CASES).rows if row["verdict"] == "finding"]
    assert found["oracle"] == "ping"
    assert (tmp_path / "r" / found["capture"]).exists()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "COMMAND"),
        (["run", "nope", "--node", "pypi"], "there are: handshake, session"),
        (["run", "session"], "--node"),
        (["run", "session", "--node", "pypi", "--time", "soon"], "write one like 20s, 2m or 1h"),
        (["run", "session", "--node", "pypi", "--time", "0s"], "no time"),
        (["run", "session", "--node", "pypi", "--cases", "0"], "write one like 500"),
        (["run", "session", "--node", "pypi", "--seed", "x"], "no seed"),
        (["run", "session", "--node", "pypi", "--seed", str(1 << 63)], "no seed"),
        (["run", "session", "--node", "nowhere"], "none of a locator"),
        (["run", "session", "--node", "tcp/127.0.0.1:99999"], "a port is a number"),
        (["run", "session", "--node", "tcp/192.0.2.1:7447"], "--i-may-test-this-node"),
    ],
)
def test_wrong_use_is_exit_2_and_says_what_to_do(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str], elsewhere: Path
) -> None:
    assert main(argv) == 2
    err = capsys.readouterr().err
    assert words in err
    assert "Traceback" not in err
    assert list(elsewhere.iterdir()) == []


def test_folder_that_cannot_be_written_is_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    code = main(["run", "session", "--node", "tcp/127.0.0.1:9", "--run-dir", str(tmp_path / "file" / "run")])
    assert code == 2
    assert "choose another --run-dir" in capsys.readouterr().err


def test_folder_with_another_thing_in_it_is_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{")
    with serving() as node:
        assert main(["run", "session", "--node", node, "--run-dir", str(tmp_path / "run")]) == 2
    assert "choose another --run-dir" in capsys.readouterr().err


def test_refused_folder_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    argv = ["run", "session", "--cases", "3", "--run-dir", str(folder), "--node"]
    with serving() as node:
        assert main([*argv, node]) == 0
        rows = folder / FUZZ_CASES
        rows.write_bytes(rows.read_bytes()[:-60])
        before = rows.read_bytes(), (folder / "run.json").read_bytes()
        assert main([*argv, node]) == 2
    assert "use another --run-dir" in capsys.readouterr().err
    assert (rows.read_bytes(), (folder / "run.json").read_bytes()) == before


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signal_ends_a_campaign_with_all_its_rows(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "run"
    root = Path(__file__).parents[2]
    code = "import signal, sys, fuzz.__main__ as m; signal.signal(signal.SIGINT, signal.default_int_handler); sys.exit(m.main())"
    argv = ["run", "session", "--time", "60s", "--run-dir", str(folder), "--node"]
    with (
        serving() as node,
        subprocess.Popen(
            [sys.executable, "-c", code, *argv, node],
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stderr is not None
        while " cases, " not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(getattr(signal, name))
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    found = re.match(r"(\d+) cases in .*\(stopped\)", out)
    assert found, out
    rows = read_rows(folder / FUZZ_CASES)
    assert (len(rows.rows), rows.complete) == (int(found[1]), True)
    assert read_run(folder).status == "complete"


def test_closed_pipe_is_no_error() -> None:
    root = Path(__file__).parents[2]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", "list"], cwd=root, stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_node_that_is_not_there_is_exit_3_and_leaves_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving() as node:
        pass
    code = main(["run", "session", "--node", node, "--cases", "5", "--run-dir", str(tmp_path / "run")])
    err = capsys.readouterr().err
    assert code == 3
    assert "is a node listening there?" in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_node_that_dies_for_good_is_exit_3_with_the_rows_so_far(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.boo.RECOVERY", 0.1)
    count = [0]

    def die(_: bytes) -> str:
        count[0] += 1
        return "die" if count[0] == 200 else ""

    with serving(die) as node:
        code = main(["run", "session", "--node", node, "--cases", "500", "--run-dir", str(tmp_path / "run")])
    assert code == 3
    captured = capsys.readouterr()
    assert "start it again" in captured.err
    assert "finding: gone" in captured.out
    assert read_run(tmp_path / "run").status == "failed"
    assert read_rows(tmp_path / "run" / FUZZ_CASES).complete


def test_command_for_the_record_has_no_path_of_this_machine() -> None:
    typed = ["run", "session", "--node", "tcp/127.0.0.1:7447", "--run-dir", "/srv/me/runs/a"]
    assert command(typed) == "zenoh-fuzz run session --node tcp/127.0.0.1:7447 --run-dir a"


def test_progress_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    progress = Progress(lambda: now[0])
    for second in (0.0, 1.0, 6.0):
        now[0] = second
        progress(Summary(cases=int(second) * 100, seconds=second))
    assert capsys.readouterr().err.splitlines() == [
        "0 s: 0 cases, 0/s, 0 findings, 0 restarts",
        "6 s: 600 cases, 100/s, 0 findings, 0 restarts",
    ]


def test_short_campaign_against_the_real_router_is_recorded(tmp_path: Path, elsewhere: Path) -> None:
    pytest.importorskip("zenoh")
    folder = tmp_path / "run"
    code = main(["run", "session", "--node", "pypi", "--time", "3s", "--seed", "3", "--run-dir", str(folder)])
    assert code in {0, 1}  # what the router does with it is its own business
    run = read_run(folder)
    assert (run.node_impl, run.node_whatami, run.status) == ("eclipse-zenoh", "router", "complete")
    rows = read_rows(folder / FUZZ_CASES)
    assert rows.complete
    assert not rows.bad
    assert len(rows.rows) > 30
    verdicts = {row["verdict"] for row in rows.rows}
    assert {"accepted", "refused"} <= verdicts
    assert "inconclusive" not in verdicts
    assert (folder / CAPTURES / "fuzz-session.pcapng").stat().st_size > 10_000
    assert list(elsewhere.iterdir()) == []
