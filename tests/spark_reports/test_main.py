import argparse
import csv
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from pyspark.sql import SparkSession

from spark_reports import __main__ as command
from spark_reports import rows
from spark_reports.__main__ import main
from spark_reports.commands import build, doctor
from spark_reports.engine import session
from spark_reports.errors import NoJava
from spark_reports.pages.cards import slug
from spark_reports.report import Report
from tests.spark_reports.reports import example_report

MakeRun = Callable[..., Path]
Verdict = Callable[..., rows.VerdictRow]
Case = Callable[..., rows.FuzzCaseRow]
Capture = pytest.CaptureFixture[str]


def one_line(text: str) -> str:
    (line,) = text.splitlines()
    return line


@pytest.mark.usefixtures("spark")
def test_report_over_whole_and_cut_runs_is_written(
    tmp_path: Path, make_run: MakeRun, verdict_row: Verdict, case_row: Case, capsys: Capture
) -> None:
    both = [verdict_row(), verdict_row("fail", test="b")]
    same = {"configuration": "transport=tcp"}
    make_run("r1", 1, verdicts=both, cases=[case_row(1, "panic\x1b[31m")], **same)
    (tmp_path / "runs/r1/findings/panic-31m").mkdir(parents=True)
    cut = make_run("r2", 2, verdicts=both, kind="conformance", cases=None, **same)
    (cut / rows.VERDICTS).write_bytes((cut / rows.VERDICTS).read_bytes()[:-50])
    out = tmp_path / "deep" / "out"
    assert main(["build", str(tmp_path / "runs"), "--out", str(out)]) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[-1] == str(out / "report.html")
    assert "2 runs, 2026-11-01 to 2026-11-02" in lines[0]
    assert lines[0].endswith("; the newest run is cut off: what it did not get to is unknown")
    assert "compared: 1 run on eclipse-zenoh router 1.10.2 with 1 run on 1.10.2" in lines
    assert "1 finding (0 new) in 1 fuzz case" in lines
    assert "\x1b" not in printed.out
    assert "warning: 1 run cut off" in printed.err
    assert "warning: 1 line set aside as invalid" in printed.err
    assert len(json.loads((out / "report.json").read_text())["runs"]) == 2
    page = (out / "report.html").read_text()
    assert "ends in the middle of a line" in page
    assert f"zenoh-fuzz replay {tmp_path}/runs/r1/findings/panic" in page


@pytest.mark.usefixtures("spark")
def test_gates_do_not_hold_when_the_newest_run_is_damaged(
    tmp_path: Path,
    make_run: MakeRun,
    verdict_row: Verdict,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from spark_reports import collect

    made, ask = list[Report](), collect.collect

    def once(*given: Any, **more: Any) -> Report:
        """The same runs give the same report, for which Spark takes a while."""
        if not made:
            made.append(ask(*given, **more))
        return made[0]

    monkeypatch.setattr(collect, "collect", once)
    for day in (1, 2, 3):
        run = make_run(f"r{day}", day, verdicts=[verdict_row()], kind="conformance", cases=None)
    (run / rows.RUN).write_bytes((run / rows.RUN).read_bytes()[:200])
    build = ["build", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]
    assert main([*build, "--fail-on", "new-failures"]) == 3
    told = capsys.readouterr().err.splitlines()
    assert told[-1].startswith(
        "zenoh-reports: gate runs failed: 1 of 1 judged runs complete, at least 1 needed; 1 run is "
    )
    assert "not judged: r3 (r3/run.json is cut off or damaged" in told[-1]
    assert any(line.startswith("warning: r3 may be the newest run but was not judged") for line in told)
    assert main(build) == 0


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Puts an example in place of what would be read, and no Spark behind it."""
    from spark_reports import collect

    found = SimpleNamespace(
        views=None, commits=(), few=None, interpreted=None, near=None, troubles=(), names={}
    )
    monkeypatch.setattr(build, "opened", lambda *_: nullcontext(found))
    monkeypatch.setattr(collect, "collect", lambda *_, **__: example_report(gates=()))
    return found


BUILD = ["build", "--store", "store", "--out"]


@pytest.mark.usefixtures("made")
def test_gate_that_fails_is_named_and_the_report_written(tmp_path: Path, capsys: Capture) -> None:
    assert main([*BUILD, str(tmp_path), "--fail-on", "flaky,new-failures"]) == 1
    printed = capsys.readouterr()
    assert printed.err.splitlines()[-1].startswith(
        "zenoh-reports: gate new-failures failed: 1, 0 allowed: ZN-INIT-000"
    )
    assert "gate kept-apart holds: 0 of 25696 lines" in printed.out
    written = json.loads((tmp_path / "report.json").read_text())
    assert {gate["name"]: gate["ok"] for gate in written["gates"]} == {
        "runs": True,
        "kept-apart": True,
        "new-failures": False,
        "flaky": False,
    }


@pytest.mark.usefixtures("made")
def test_gates_that_hold_or_are_not_asked_for_are_no_failure(tmp_path: Path) -> None:
    (tmp_path / "gates.toml").write_text("max_new_failures = 1\nmax_flaky = 3")
    gates = ["--gates", str(tmp_path / "gates.toml")]
    assert main([*BUILD, str(tmp_path / "out"), *gates, "--fail-on", "flaky"]) == 0
    assert main([*BUILD, str(tmp_path / "out"), *gates, "--fail-on", "flaky,slower"]) == 1
    assert main([*BUILD, str(tmp_path / "out")]) == 0
    assert json.loads((tmp_path / "out" / "report.json").read_text())["gates"] == []


def test_report_on_a_store_leads_to_run_folders_that_are_still_there(
    tmp_path: Path, made: SimpleNamespace, make_run: MakeRun
) -> None:
    finding = example_report().findings[0]
    folder = make_run("there", cases=None)
    run = dataclasses.asdict(rows.read_run(folder))
    made.commits = [SimpleNamespace(run_id=finding.run_id, run=run, folder=str(folder))]

    def page() -> str:
        assert main([*BUILD, str(tmp_path / "out")]) == 0
        return (tmp_path / "out" / "report.html").read_text()

    kept = f"findings/{slug(finding.bucket)}"
    (folder / kept).mkdir(parents=True)
    there = page()
    assert f"zenoh-fuzz replay {folder}/{kept}" in there
    assert f'href="../runs/there/{kept}/"' in there
    # Another run has taken its place.
    rows.write_run(folder, rows.RunRow(**run | {"started_at": "2026-11-30T10:00:00.000Z"}))
    other = page()
    assert f"that was {folder} when it was ingested, where it is not now" in other
    assert "../runs/there" not in other
    (folder / rows.RUN).unlink()
    assert page() == other
    made.commits[0].folder = ""
    assert "its record in the store does not say where that is" in page()


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"changes": (), "unchanged": 0}, []),
        ({"changes": (), "unchanged": 3}, ["checks: unchanged 3"]),
        ({"changes": example_report().changes[:1], "unchanged": 0}, ["checks: new failure 1"]),
    ],
)
def test_checks_are_counted_where_some_were_compared(
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    values: dict[str, Any],
    told: list[str],
) -> None:
    monkeypatch.setattr("spark_reports.collect.collect", lambda *_, **__: example_report(gates=(), **values))
    assert main([*BUILD, str(tmp_path)]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("checks")] == told


@pytest.mark.usefixtures("made")
def test_new_failure_in_quarantine_fails_no_gate_and_is_skipped_in_junit(tmp_path: Path) -> None:
    (tmp_path / "gates.toml").write_text(
        "[[quarantine]]\ntest = '*::test_zn_init_000'\nuntil = 2030-01-01\nwhy = 'hangs'"
    )
    gates = ["--gates", str(tmp_path / "gates.toml"), "--fail-on", "new-failures"]
    assert main([*BUILD, str(tmp_path / "out"), *gates]) == 0
    checks = ET.parse(tmp_path / "out" / "junit.xml").getroot()[0]
    assert (checks.get("name"), checks.get("failures")) == ("checks", "0")
    assert main([*BUILD, str(tmp_path / "out"), "--fail-on", "new-failures"]) == 1


def test_data_that_is_in_trouble_goes_before_gates(
    tmp_path: Path, made: SimpleNamespace, capsys: Capture
) -> None:
    (tmp_path / "gates.toml").write_text("min_runs = 9\nmax_flaky = 0")
    arguments = [*BUILD, str(tmp_path / "out"), "--gates", str(tmp_path / "gates.toml")]
    assert main(arguments) == 3
    assert (
        "gate runs failed: 3 of 3 judged runs complete, at least 9 needed"
        in capsys.readouterr().err.splitlines()[-1]
    )
    made.troubles = ("r1: it changed while it was read",)
    assert main([*BUILD, str(tmp_path / "out")]) == 3
    assert capsys.readouterr().err.splitlines()[-1] == (
        "zenoh-reports: 1 run could not be read: r1: it changed while it was read"
    )
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "give run folders, a store with --store, or both"),
        (
            ["runs", "--fail-on", "new-bugs"],
            "--fail-on: unknown gate new-bugs; the gates are new-failures, not-run",
        ),
        (["runs", "--gates", "none.toml"], "none.toml cannot be read"),
        (["runs", "--baseline", ""], "--baseline is empty; give a run, a version, or previous"),
        (["runs", "--master", "spark://host:7077"], "give a --store that every worker can reach"),
        (["runs", "--remote", "sc://host"], "give a --store that every worker can reach"),
        (["--store", "none"], "none is not a store"),
    ],
)
def test_what_cannot_be_built_is_wrong_use(
    tmp_path: Path,
    make_run: MakeRun,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
    options: list[str],
    words: str,
) -> None:
    make_run()
    monkeypatch.chdir(tmp_path)
    assert main(["build", *options, "--out", "out"]) == 2
    assert words in one_line(capsys.readouterr().err)


@pytest.mark.usefixtures("spark")
def test_versions_are_printed_as_lines_or_as_csv(
    tmp_path: Path, make_run: MakeRun, verdict_row: Verdict, capsys: Capture
) -> None:
    names = ("ZN-INIT-001", "ZN-INIT-002")
    for day, version in enumerate(("1.10.2", "1.9.0"), start=1):
        outcome = "fail" if version == "1.9.0" else "pass"
        verdicts = [
            verdict_row(outcome, names[:1], seen="\x1b[31m"),
            verdict_row("pass", names[1:], test="b"),
        ]
        make_run(version, day, verdicts=verdicts, cases=None, node_version=version)
    store = str(tmp_path / "store")
    assert main(["versions", str(tmp_path / "runs"), "--store", store]) == 0
    first, line = capsys.readouterr().out.splitlines()
    assert first == "eclipse-zenoh, 2 releases: 1 of 2 requirements differ"
    assert line.split() == [
        *["ZN-INIT-001", "MUST", "1.10.2", "\\x1b[31m", "->", "as", "required"],
        "suite/test_init.py::test_a",
    ]
    assert main(["versions", "--store", store, "--csv"]) == 0
    rows_of = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [(row["requirement"], row["first"], row["before"]) for row in rows_of] == [
        ("ZN-INIT-001", "1.10.2", "\\x1b[31m"),
        ("ZN-INIT-002", "", ""),
    ]


def test_folder_without_runs_has_nothing_to_report(tmp_path: Path, capsys: Capture) -> None:
    assert main(["build", str(tmp_path), "--out", str(tmp_path / "out")]) == 3
    line = one_line(capsys.readouterr().err)
    assert f"no run folders in {tmp_path}" in line
    assert "pytest conformance/" in line
    assert not (tmp_path / "out").exists()


def test_empty_run_folder_has_nothing_to_report(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / rows.VERDICTS).touch()
    assert main(["build", str(tmp_path), "--out", str(tmp_path / "out")]) == 3
    assert "run is no run folder: it has no run.json" in one_line(capsys.readouterr().err)


def test_run_that_recorded_nothing_has_nothing_to_report(
    tmp_path: Path, make_run: MakeRun, capsys: Capture
) -> None:
    make_run(verdicts=None, cases=None)
    assert main(["build", str(tmp_path), "--out", str(tmp_path / "out")]) == 3
    assert "no rows were written" in one_line(capsys.readouterr().err)


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_folder_that_is_not_there_is_wrong_use(tmp_path: Path, capsys: Capture, name: str) -> None:
    (tmp_path / "file").touch()
    assert main(["build", str(tmp_path / name), "--out", str(tmp_path / "out")]) == 2
    assert str(tmp_path / name) in one_line(capsys.readouterr().err)


@pytest.mark.usefixtures("spark")
def test_out_that_cannot_be_written_is_wrong_use(tmp_path: Path, make_run: MakeRun, capsys: Capture) -> None:
    make_run()
    (tmp_path / "file").touch()
    assert main(["build", str(tmp_path), "--out", str(tmp_path / "file" / "out")]) == 2
    assert "cannot write into" in one_line(capsys.readouterr().err)


@pytest.mark.parametrize("arguments", [[], ["build"], ["build", "runs"], ["mend"], ["build", "--out"]])
def test_wrong_arguments_are_wrong_use(arguments: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: zenoh-reports" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["build", "runs", "--out", ""],
        ["build", "", "--out", "out"],
        ["build", "runs", "--out", "out", "--store", ""],
        ["build", "runs", "--out", "out", "--gates", ""],
        ["demo", "--out", ""],
        ["ingest", "runs", "--store", ""],
        ["ingest", "", "--store", "store"],
        ["query", "SELECT 1", "--store", ""],
        ["store", "check", ""],
        ["traffic", "", "--out", "out"],
        ["traffic", "captures", "--out", ""],
        ["versions", ""],
        ["versions", "--store", ""],
        ["watch", ""],
        ["watch", "runs", "--checkpoint", ""],
    ],
)
def test_empty_path_is_wrong_use_and_not_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "must not be empty; use . for the current folder" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_no_java_is_one_line(
    tmp_path: Path, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def find_java(_: object) -> None:
        raise NoJava("no usable Java 17 or newer (none). Install one")

    monkeypatch.setattr(session, "find_java", find_java)
    monkeypatch.setattr(session, "_active", lambda: None)
    make_run()
    assert main(["build", str(tmp_path), "--out", str(tmp_path / "out")]) == 4
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "zenoh-reports: no usable Java 17 or newer (none). Install one"


def test_interrupt_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def interrupt() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "_print_java", interrupt)
    assert main(["doctor", "--java"]) == 130
    assert one_line(capsys.readouterr().err) == "zenoh-reports: interrupted"


def test_sigterm_is_an_interrupt(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def cancelled() -> int:
        signal.raise_signal(signal.SIGTERM)
        return 0

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(doctor, "_print_java", cancelled)
    assert main(["doctor", "--java"]) == 130
    assert one_line(capsys.readouterr().err) == "zenoh-reports: interrupted"
    assert signal.getsignal(signal.SIGTERM) == before


def test_closed_pipe_is_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    argv = [sys.executable, "-m", "spark_reports", "doctor", "--java"]
    done = subprocess.run(argv, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("name", ["n" * 300, "file"])
def test_what_the_system_refuses_is_one_line_and_no_failed_gate(
    tmp_path: Path, name: str, capsys: Capture
) -> None:
    (tmp_path / "file").touch()
    assert main(["store", "list", str(tmp_path / name)]) == 2
    assert str(tmp_path / name) in one_line(capsys.readouterr().err)


def test_version_that_cannot_be_written_is_no_failed_gate() -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "spark_reports", "--version"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, one_line(done.stderr)[:15]) == (2, "zenoh-reports: ")


def test_letters_that_a_terminal_does_not_have_are_escapes() -> None:
    code = "import sys; from spark_reports.__main__ import main; main(['doctor', '--java']); print('\\udcff \\u017c')"
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, check=True)
    assert done.stdout.splitlines()[-1] == b"\\udcff \\u017c"


def test_engine_that_gives_up_is_one_line(
    spark: SparkSession, tmp_path: Path, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    from spark_reports.storage import ingest

    run = make_run()
    build = ["build", str(tmp_path), "--out", str(tmp_path / "out")]

    def give_up(*_: object, **__: object) -> None:
        spark.sql("SELECT raise_error('no more')").collect()

    monkeypatch.setattr(ingest, "ingest", give_up)
    assert main(build) == 4
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("zenoh-reports: Spark gave up: [USER_RAISED_EXCEPTION] no more")

    def lose_file(*_: object, **__: object) -> None:
        spark.read.text(str(run / "gone")).count()

    monkeypatch.setattr(ingest, "ingest", lose_file)
    assert main(build) == 3
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("zenoh-reports: a file cannot be read: [PATH_NOT_FOUND]")
    assert str(run / "gone") in line

    def fill_disk(*_: object, **__: object) -> None:
        spark.sql("SELECT raise_error('OSError: [Errno 28] No space left on device')").collect()

    monkeypatch.setattr(ingest, "ingest", fill_disk)
    assert main(build) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("zenoh-reports: the disk is full: ")
    assert line.endswith("and try again")


def test_help_and_rows_need_no_heavy_package() -> None:
    code = (
        "import sys, spark_reports.rows, spark_reports.__main__ as m\n"
        "try: m.main(['build', '--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'pyspark', 'pandas', 'pyarrow', 'jinja2', 'numpy'} & set(sys.modules)))\n"
    )
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
    assert "--master URL" in done.stdout


def test_every_option_is_in_the_table_of_the_docs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reports.md").read_text(encoding="utf-8")
    table = text.partition("\n## Commands and their options\n")[2].partition("\n## ")[0]
    engine = argparse.ArgumentParser()
    session.add_engine_options(engine)
    shared = {option for action in engine._actions for option in action.option_strings}

    def commands(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
        below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        for action in below:
            for word, made in action.choices.items():
                yield from commands(made, f"{name} {word}".strip())
        if not below:
            yield name, parser

    assert all(f"`{option}`" in table for option in shared if option.startswith("--") and option != "--help")
    for name, parser in commands(command._parser(), ""):
        (line,) = (line for line in table.splitlines() if re.match(f"\\| `{name}[ `]", line))
        own = {option for action in parser._actions for option in action.option_strings}
        # The one of `store compact` is an option of its own.
        wanted = own - ({"--help", "-h"} if name == "store compact" else shared)
        told = set(re.findall("--[a-z-]+", line))
        assert told == wanted, name
