from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree.ElementTree import parse

import pytest
from scapy.utils import RawPcapNgReader

from conformance.config import RunConfig
from conformance.errors import NodeDidNotStart, NotApplicable, UsageError
from conformance.nodes import node_of
from conformance.nodes.places import free_port
from fuzz import campaigns
from fuzz.__main__ import _parser, main
from fuzz.campaigns import Campaign, Setting
from fuzz.campaigns.messages import main_forms
from fuzz.campaigns.placing import Stated
from fuzz.cases import Source
from fuzz.commands.run import MOST_JOBS, campaigns_of, command, jobs_for, node_named
from fuzz.findings import FINDING, FOLDER, OPEN, README, SCRIPT, WITNESS, open_folder
from fuzz.interrupts import Interrupts
from fuzz.oracles import ORACLES
from fuzz.progress import Glance, Progress, Share, clock, together, words
from fuzz.runner import Runner
from fuzz.states import State
from spark_reports.rows import FINDINGS, FUZZ_CASES, FUZZ_COVERAGE, read_rows, read_run
from tests.conformance.refnode._started import Started
from tests.fuzz.planted import command as planted_command
from tests.fuzz.planted import planted

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return here


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A node without faults, that was started by somebody else."""
    made = planted(tmp_path_factory.mktemp("node"))
    made.start()
    yield str(made.locator)
    made.stop()


def small(*wanted: tuple[State, str]) -> Callable[[Setting], Iterator[Source]]:
    def make(_: Setting) -> Iterator[Source]:
        for state, kind in wanted:
            for words_, message in main_forms(kind).items():
                yield Stated(f"{kind} {words_}", state, message)

    return make


@pytest.fixture(autouse=True)
def small_campaigns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two campaigns that begin at once."""
    made = {
        "pushes": Campaign("pushes", "lies about PUSH", small((State.OPEN, "PUSH"))),
        "inits": Campaign("inits", "mutations of INIT", small((State.CONNECTED, "INIT"))),
    }
    for name in list(campaigns.CAMPAIGNS):
        monkeypatch.delitem(campaigns.CAMPAIGNS, name)
    for name, campaign in made.items():
        monkeypatch.setitem(campaigns.CAMPAIGNS, name, campaign)


def run(node: str, folder: Path, *words_: str, campaign: str = "pushes", cases: int = 20) -> int:
    argv = ["run", campaign, "--node", node, "--run-dir", str(folder), *words_]
    if not {"--seed", "--resume"} & {*words_}:
        argv += ["--seed", "1"]
    return main([*argv, "--cases", str(cases)] if cases else argv)


# What is shown ----------------------------------------------------------------------------------------


def test_list_is_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    assert capsys.readouterr().out.splitlines() == ["pushes  lies about PUSH", "inits   mutations of INIT"]


@pytest.mark.parametrize("command", ["list", "show"])
@pytest.mark.parametrize(
    ("error", "codes", "said"),
    [
        # A list has been shown then, which another command may not have come to.
        (BrokenPipeError(), {"list": 0, "show": 141}, ""),
        (OSError(28, "No space left on device"), {"list": 3, "show": 3}, "No space left on device"),
    ],
)
def test_what_cannot_be_written_is_an_error_that_is_told_unless_nobody_reads_on(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    error: OSError,
    codes: dict[str, int],
    said: str,
) -> None:
    (tmp_path / FOLDER).mkdir()

    class Gone(io.StringIO):
        def flush(self) -> None:
            raise error

    monkeypatch.setattr(sys, "stdout", Gone())
    assert main([command, *([str(tmp_path)] if command == "show" else [])]) == codes[command]
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == bool(said)


def test_list_has_details_for_people_and_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "-v"]) == 0
    assert re.search(r"states +connected\n +messages +INIT", capsys.readouterr().out)
    assert main(["list", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["name"], first["states"], second["messages"]) == ("pushes", ["open"], ["INIT"])
    assert second["edges"] > 100


def test_help_is_quick_and_has_examples_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert "zenoh-fuzz run all --node pypi --time 5m" in out
    assert "exit codes: 0 nothing new, 1 new findings, 2 usage error, 3" in out
    for name in ("list", "run", "replay", "shrink", "show"):
        assert main([name, "--help"]) == 0
    code = "import sys, fuzz.__main__ as m; m.main(['--help']); sys.exit(any(n in sys.modules for n in ('boofuzz', 'scapy', 'hypothesis')))"
    assert (
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False).returncode
        == 0
    )


def commands_in(path: Path) -> list[list[str]]:
    """Commands of zenoh-fuzz in a page or a workflow, with values for what a shell would fill in."""
    text = path.read_text().replace("\\\n", " ").replace('"$seed"', "7").replace('"$TIME"', "5m")
    found = re.findall(r"^[ $]*(zenoh-fuzz (?:run|list)\b.*?)(?:\|\| .*)?$", text, re.MULTILINE)
    return [shlex.split(words_)[1:] for words_ in found]


@pytest.mark.parametrize("name", ["docs/fuzzing.md", "docs/ci/fuzz.yml"])
def test_commands_in_the_documentation_are_taken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    found = commands_in(ROOT / name)
    assert len(found) >= 2
    for argv in found:
        assert _parser().parse_args(argv).function


def test_documentation_knows_the_options() -> None:
    page = (ROOT / "docs" / "fuzzing.md").read_text() + (ROOT / "docs" / "ci" / "fuzz.yml").read_text()
    there = set(re.findall(r"--[a-z][a-z-]+", page)) - {"--listen", "--times"}
    said = subprocess.run(
        [sys.executable, "-m", "fuzz", "run", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    options = set(re.findall(r"^  (?:-\w, )?(--[a-z][a-z-]+)", said.stdout, re.MULTILINE)) - {"--help"}
    assert there <= options
    assert options - there == set()


def test_nothing_that_triggers_a_fault_is_kept_by_ci_unless_asked_for_and_the_page_says_so() -> None:
    page = (ROOT / "docs" / "fuzzing.md").read_text().partition("## In CI")[2]
    steps = re.split(
        r"^ +- (?=name|uses)", (ROOT / "docs" / "ci" / "fuzz.yml").read_text(), flags=re.MULTILINE
    )
    keeping = [step for step in steps if re.search(r"uses: actions/(cache/save|upload-artifact)@", step)]
    secret = [step for step in keeping if re.search(r"^ +(runs/|corpus)", step, re.MULTILINE)]
    assert len(secret) == 3
    assert all("if: always() && vars.FUZZ_KEEP_FINDINGS == 'true'" in step for step in secret)
    for words_ in ("as an artefact", "in a cache for the next night", "each night begins anew"):
        assert words_ in page


def test_version_that_cannot_be_written_is_no_finding() -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "fuzz", "--version"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("zenoh-fuzz: ")
    assert "Traceback" not in done.stderr


def test_closed_pipe_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    argv = [sys.executable, "-W", "ignore", "-m", "fuzz", "list"]
    done = subprocess.run(argv, cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


# Wrong use --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "COMMAND"),
        (["run", "nope", "--node", "pypi"], "choose from: pushes, inits, or all"),
        (["run", "pushes,nope", "--node", "pypi"], "unknown campaign 'nope'"),
        (["run", "all,nope", "--node", "pypi"], "unknown campaign 'nope'"),
        (["run", "pushes", "--run-dir", ""], "--run-dir: is empty; name a folder"),
        (["run", "pushes", "--corpus", ""], "--corpus: is empty; name a folder"),
        (["run", "pushes", "--node", ""], "--node: is empty; give a name or leave out the option"),
        (["run", "pushes", "--node", "ref", "--also", ""], "--also: is empty; give a name"),
        (["replay", "findings/stall", "--node", ""], "--node: is empty; give a name"),
        (["replay", "findings/stall", "--also", ""], "--also: is empty; give a name"),
        (["run", "pushes", "--node", "pypi", "--time", "soon"], "use something like 20s, 2m or 1h"),
        (["run", "pushes", "--node", "pypi", "--time", "0s"], "not a duration"),
        (["run", "pushes", "--node", "pypi", "--cases", "0"], "use something like 500"),
        (["run", "pushes", "--node", "pypi", "--seed", "x"], "not a seed"),
        (["run", "pushes", "--node", "pypi", "--seed", str(1 << 63)], "not a seed"),
        (["run", "pushes", "--node", "pypi", "--jobs", "0"], "not a number of jobs"),
        (["run", "pushes", "--node", "pypi", "--max-disk", "much"], "use something like 500M or 4G"),
        (["run", "pushes", "--node", "pypi", "--rate", "0"], "not a rate"),
        (["run", "pushes", "--node", "pypi", "--engine", "slow"], "boofuzz"),
        (["run", "pushes", "--node", "pypi", "--web"], "need --engine boofuzz"),
        (["run", "pushes", "--node", "pypi", "--resume"], "--resume needs the --run-dir"),
        (["run", "pushes", "--node", "pypi", "--junit", "no/where/j.xml"], "there is no folder no/where"),
        (["run", "pushes", "--node", "pypi", "--junit", ".."], ".. is a folder; name a file in it"),
        (["run", "pushes", "--node", "pypi", "--markdown", ".."], ".. is a folder; name a file in it"),
        (["run", "pushes", "--node", "pypi", "--target", "lua"], "choose one"),
        (["run", "pushes", "--target", "lua", "--jobs", "2"], "--resume need a node"),
        (
            ["run", "pushes", "--target", "scapy", "--rate", "9", "--through-known"],
            "--rate, --through-known: for",
        ),
        (["run", "pushes", "--target", "scapy", "--engine", "boofuzz"], "--engine: for nodes only"),
        (["run", "pushes", "--target", "scapy", "--known", "k.toml"], "--known: for nodes only"),
        (["run", "pushes", "--node", "ref", "--known", "none.toml"], "none.toml: cannot be read"),
        (["run", "pushes", "--node", "cmd:node {locator}", "--profile", "mine"], "no such profile"),
        (["run", "pushes", "--node", "pypi", "--profile", "zenoh-pico"], "it already knows a pypi node"),
        (["run", "pushes", "--node", "nowhere"], "must be a locator"),
        (["run", "pushes", "--node", "pypi", "--also", "nowhere"], "--also 'nowhere' must be a locator"),
        (["run", "pushes", "--node", "ws/localhost:9", "--jobs", "2"], "started once per job"),
        (["run", "pushes", "--node", "tls/localhost:9", "--jobs", "2"], "started once per job"),
        (["run", "pushes", "--node", "tcp/127.0.0.1:99999"], "a port is a number"),
        (
            ["run", "pushes", "--node", "tcp/127.0.0.1:9", "--jobs", "2"],
            "needs a node that can be started once per job",
        ),
        (["run", "pushes", "--node", "tcp/192.0.2.1:7447"], "--i-may-test-this-node"),
        (["run", "pushes", "--target", "lua", "--user", "a:b"], "--user: for nodes only"),
        (["run", "pushes", "--user", "alice"], "no password for alice; write NAME:PASSWORD, or put it into"),
        (["run", "pushes", "--user", ":secret"], "write NAME:PASSWORD, or NAME and put"),
        (["run", "pushes", "--user", "a:b\nc"], "write NAME:PASSWORD, or NAME and put"),
    ],
)
def test_wrong_use_is_exit_2_and_says_what_to_do(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str], elsewhere: Path
) -> None:
    assert main(argv) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "node"),
    [
        ([], "pypi"),
        (["--node", "tcp/127.0.0.1:7447"], "tcp/127.0.0.1:7447"),
        (["--target", "refnode"], "ref"),
    ],
)
def test_node_is_the_real_one_unless_another_is_named(words: list[str], node: str) -> None:
    assert node_named(_parser().parse_args(["run", "pushes", *words])) == node


@pytest.mark.parametrize(
    ("words", "cores", "jobs"),
    [
        ([], 2, 2),
        ([], 1, 1),
        ([], 64, MOST_JOBS),
        (["--node", "ref", "--time", "9s"], 2, 2),
        (["--engine", "boofuzz"], 2, 2),
        (["--jobs", "3"], 2, 3),
        (["--cases", "9"], 2, 1),
        (["--engine", "boofuzz", "--web"], 2, 1),
        (["--engine", "boofuzz", "--boofuzz-db", "cases.db"], 2, 1),
        (["--node", "cmd:node {locator}"], 2, 1),
        (["--node", "tcp/127.0.0.1:7447"], 2, 1),
    ],
)
def test_each_core_plays_unless_that_may_change_what_is_played_or_harm(
    words: list[str], cores: int, jobs: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    options = _parser().parse_args(["run", "pushes", *words])
    named = node_named(options)
    assert jobs_for(options, node_of(RunConfig(node=named, run_dir=tmp_path, run_id="r", seed=1))) == jobs


def test_boofuzz_is_refused_what_it_cannot_have(
    tmp_path: Path, node: str, capsys: pytest.CaptureFixture[str], elsewhere: Path
) -> None:
    (tmp_path / "text").write_text("hello")
    boofuzz = ["--engine", "boofuzz"]
    assert run(node, elsewhere / "run", *boofuzz, "--boofuzz-db", str(tmp_path / "text")) == 2
    assert "exists and is not a database; choose another file" in capsys.readouterr().err
    assert run(node, elsewhere / "run", *boofuzz, "--boofuzz-db", os.devnull) == 2
    assert f"{os.devnull} exists and is not a database" in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run(node, elsewhere / "run", *boofuzz, "--web", str(port)) == 2
    assert f"port {port} is in use" in capsys.readouterr().err
    assert list(elsewhere.iterdir()) == []


def test_page_of_boofuzz_is_served_once_for_all_its_loops(tmp_path: Path) -> None:
    argv = [
        sys.executable,
        "-m",
        "fuzz",
        "run",
        "session",
        "--node",
        "ref",
        "--cases",
        "40",
        "--engine",
        "boofuzz",
    ]
    argv += ["--web", str(free_port("tcp")), "--run-dir", str(tmp_path / "run")]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "Exception in thread" in done.stderr) == (0, False), done.stderr


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_mistake_in_known_findings_is_exit_2_before_anything_starts(
    jobs: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], elsewhere: Path
) -> None:
    def load() -> None:
        raise UsageError("known_findings.toml: entry 1: impl: is missing")

    monkeypatch.setattr("fuzz.known.KnownFindings.load", load)
    assert run("ref", elsewhere / "run", "--jobs", jobs) == 2
    assert "entry 1: impl: is missing" in capsys.readouterr().err
    assert list(elsewhere.iterdir()) == []


def test_node_that_does_nothing_of_what_cases_need_is_exit_3(
    elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = f"cmd:{shlex.quote(sys.executable)} -c 0 {{connect}}"
    assert run(node, elsewhere / "run", "--time", "60s", cases=0) == 3
    seen = capsys.readouterr()
    assert "states skipped (takes links): its command does not specify where it listens" in seen.out
    assert "no case can be run on this node" in seen.err


def test_client_is_fuzzed_and_its_finding_repeats_without_the_fuzzer(elsewhere: Path) -> None:
    client = shlex.join([sys.executable, str(ROOT / "tests" / "fuzz" / "client_process.py")])
    campaigns.CAMPAIGNS["pushes"] = Campaign("pushes", "lies about PUSH", small((State.ACCEPTED, "PUSH")))
    # The fourth case says that its key is longer than anything.
    words_ = ["--minimise", "0", "--seed", "38"]
    assert run(f"cmd:{client} {{connect}} 99", elsewhere / "run", *words_, cases=10) == 1
    *_, found = read_rows(elsewhere / "run" / FINDINGS).rows
    assert (found["oracle"], found["status"]) == ("process", "confirmed")
    (test,) = (elsewhere / "run" / FOLDER).glob("*/test_finding.py")
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "the process died of SIGABRT" in done.stdout
    assert "1 failed" in done.stdout


def test_fewer_cases_than_processes_are_played_and_gone_on_with(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "fuzz", "run", "session", "--node", "ref"]
    # How many they are need not be said again.
    for cases, jobs in (("1", ["--jobs", "2"]), ("4", [])):
        words_ = ["--cases", cases, *jobs, "--resume", "--run-dir", str(tmp_path / "run")]
        done = subprocess.run([*argv, *words_], cwd=ROOT, capture_output=True, text=True, check=False)
        assert (done.returncode, "findings: nothing new" in done.stdout) == (0, True), done.stderr
        assert len(read_rows(tmp_path / "run" / FUZZ_CASES).rows) == int(cases)


def test_folder_that_cannot_be_written_is_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert run("tcp/127.0.0.1:9", tmp_path / "file" / "run") == 2
    assert "choose another --run-dir" in capsys.readouterr().err


def test_folder_with_another_thing_in_it_is_exit_2(
    tmp_path: Path, node: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{")
    assert run(node, tmp_path / "run") == 2
    assert "choose another --run-dir" in capsys.readouterr().err


def test_command_for_the_record_has_no_path_of_this_machine() -> None:
    typed = ["run", "session", "--node", "tcp/127.0.0.1:7447", "--run-dir", "/srv/me/runs/a"]
    assert command(typed) == "zenoh-fuzz run session --node tcp/127.0.0.1:7447 --run-dir a"
    for node in ("udp/127.0.0.1:1", "unixsock-stream//run/z.sock", "cmd:python3 tools/node.py {locator}"):
        assert shlex.split(command(["run", "session", "--node", node]))[-1] == node
        assert shlex.split(command(["run", "session", f"--also={node}"]))[-1] == f"--also={node}"


@pytest.mark.parametrize(
    ("words_", "kept"),
    [
        (["--user", "alice:open sesame"], ["--user", "alice"]),
        (["--user=alice:open sesame"], ["--user=alice"]),
        (["--us", "alice:open/sesame:x"], ["--us", "alice"]),
        (["--u=alice:open sesame"], ["--u=alice"]),
        (["--user", "alice"], ["--user", "alice"]),
    ],
)
def test_command_for_the_record_has_no_password(words_: list[str], kept: list[str]) -> None:
    typed = ["run", "session", *words_, "--node", "cmd:node a:b {locator}"]
    expected = ["zenoh-fuzz", "run", "session", *kept, *typed[-2:]]
    assert _parser().parse_args(typed if ":" in words_[-1] else typed[:2]).node in {typed[-1], None}
    assert shlex.split(command(typed)) == expected


# Runs -------------------------------------------------------------------------------------------------


def test_node_that_asks_for_a_user_is_fuzzed_and_no_password_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ZENOH_PASSWORD", "open sesame")
    for number, named in enumerate(("alice", "alice:close barley")):
        folder = tmp_path / f"run{number}"
        assert run("ref", folder, "--user", named, campaign="pushes,inits", cases=40) == 0
        rows = [row for row in read_rows(folder / FUZZ_CASES).rows if "INIT" in row["message"]]
        assert rows
        assert all(row["node_instance"] for row in rows)
        assert read_run(folder).configuration.endswith("user=yes")
        written = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
        assert b"alice" in written
        assert not any(word in written for word in (b"sesame", b"barley"))
    assert not any(word in "".join(capsys.readouterr()) for word in ("sesame", "barley"))


def test_user_that_a_node_does_not_ask_for_is_told_at_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = "the node does not ask for a user and a password: --user made no difference"
    assert run(planted_command(), tmp_path / "run", "--user", "alice:barley", campaign="inits", cases=20) == 0
    assert capsys.readouterr().out.count(told) == 1
    assert run("ref", tmp_path / "other", "--user", "alice:barley", campaign="inits", cases=20) == 0
    assert told not in capsys.readouterr().out


def test_user_that_a_node_does_not_know_is_exit_3_and_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Started(tmp_path, "--listen", "tcp/127.0.0.1:0", "--user", "alice:open sesame") as asking:
        node_ = str(asking.facts["locator"])
        for words_, said in (
            ((), "if it asks for a user and a password, name them with --user"),
            (("--user", "alice:barley"), "it may not know the user alice, or by another password"),
        ):
            assert run(node_, tmp_path / "run", *words_) == 3
            err = capsys.readouterr().err
            assert (err.count("\n"), said in err, "barley" in err) == (1, True, False)


def test_node_that_copes_is_exit_0_and_a_complete_run(
    tmp_path: Path, node: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "step.md"))
    (tmp_path / "step.md").write_text("before\n")
    folder, junit, page = tmp_path / "run", tmp_path / "j.xml", tmp_path / "m.md"
    assert (
        run(
            node,
            folder,
            "--seed",
            "1",
            "--junit",
            str(junit),
            "--markdown",
            str(page),
            campaign="all",
            cases=60,
        )
        == 0
    )
    out = capsys.readouterr().out
    assert "findings: nothing new" in out
    assert "2 of 2 pairs of state and message (100.0 %)" in out
    row = read_run(folder)
    assert (row.kind, row.status, row.seed, row.run_id) == ("fuzz", "complete", 1, "run")
    assert str(tmp_path) not in row.command
    cases = read_rows(folder / FUZZ_CASES)
    assert cases.complete
    assert not cases.bad
    assert len(cases.rows) == 60
    assert {case["campaign"] for case in cases.rows} == {"pushes", "inits"}
    coverage = read_rows(folder / FUZZ_COVERAGE)
    assert coverage.complete
    assert sum(one["count"] for one in coverage.rows if one["kind"] == "pair") == 60
    assert read_rows(folder / FINDINGS).rows == [] if (folder / FINDINGS).exists() else True
    captures = {case["capture"] for case in cases.rows} - {""}
    assert captures
    assert all((folder / capture).stat().st_size for capture in captures)
    suite = parse(junit).getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("failures"), suite.get("tests")) == ("0", "2")
    assert page.read_text().startswith("## zenoh-fuzz: pushes, inits against")
    assert (tmp_path / "step.md").read_text() == "before\n" + page.read_text()


def test_same_seed_is_the_same_cases(tmp_path: Path, node: str) -> None:
    found = []
    for name, seed in (("a", "5"), ("b", "5"), ("c", "6")):
        assert run(node, tmp_path / name, "--seed", seed, cases=40) == 0
        rows = read_rows(tmp_path / name / FUZZ_CASES).rows
        found.append({row["case"]: (row["source"], row["field"], row["mutation"]) for row in rows})
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_campaigns_share_a_run_folder(tmp_path: Path, node: str) -> None:
    for campaign in ("inits", "pushes"):
        assert run(node, tmp_path / "run", campaign=campaign, cases=10) == 0
    rows = read_rows(tmp_path / "run" / FUZZ_CASES)
    assert rows.complete
    assert [row["campaign"] for row in rows.rows] == ["inits"] * 10 + ["pushes"] * 10


def test_resumed_run_plays_each_case_once(
    tmp_path: Path, node: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert run(node, folder, "--seed", "3", "--resume", cases=30) == 0
    assert "starting a new run" in capsys.readouterr().err
    path = folder / FUZZ_CASES
    # As if it had been killed in the middle of a line.
    path.write_bytes(path.read_bytes().rpartition(b'{"footer"')[0][:-40])
    before = path.read_bytes()
    assert run(node, folder, cases=50) == 2
    assert "is truncated; continue with --resume" in capsys.readouterr().err
    assert path.read_bytes() == before
    assert run(node, folder, "--resume", "--seed", "4", cases=50) == 2
    assert "leave out --seed" in capsys.readouterr().err
    assert run(node, folder, "--resume", campaign="inits", cases=50) == 2
    assert "leave out --resume to add them" in capsys.readouterr().err
    (folder / FOLDER).mkdir(exist_ok=True)
    guess = open_folder(folder / FOLDER, "stall session PUSH")
    (guess / FINDING).write_text("{}")
    assert run(node, folder, "--resume", cases=50) == 0
    captured = capsys.readouterr()
    assert f"killed: zenoh-fuzz replay {guess}" in captured.out
    assert "resuming after 29 cases, 1 of them truncated and set aside" in captured.err
    assert "21 cases in" in captured.out
    assert "plus 29 in earlier parts" in captured.out
    rows = read_rows(path)
    assert rows.complete
    numbers = [row["case"] for row in rows.rows]
    assert len(numbers) == len(set(numbers)) == 50
    assert {row["seed"] for row in rows.rows} == {3}
    coverage = read_rows(folder / FUZZ_COVERAGE).rows
    assert sum(row["count"] for row in coverage if row["kind"] == "pair") == 50


def test_run_of_a_version_that_counts_otherwise_is_left_as_it_is(
    tmp_path: Path, node: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    assert run(node, folder, cases=20) == 0
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    other = replace(campaigns.CAMPAIGNS["pushes"], make=small((State.OPEN, "REQUEST"), (State.OPEN, "PUSH")))
    monkeypatch.setitem(campaigns.CAMPAIGNS, "pushes", other)
    capsys.readouterr()
    assert run(node, folder, "--resume", cases=40) == 2
    said = capsys.readouterr().err
    assert "cannot be continued, as its cases have other numbers now: it was begun by another version" in said
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_run_folder_that_is_full_ends_a_run_in_order(
    tmp_path: Path, node: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(node, tmp_path / "run", "--max-disk", "60k", cases=5000) == 0
    out = capsys.readouterr().out
    assert re.search(r"takes up [\d.]+ kB, the limit set by --max-disk", out)
    rows = read_rows(tmp_path / "run" / FUZZ_CASES)
    assert rows.complete
    assert 10 < len(rows.rows) < 500


def test_finding_is_exit_1_and_says_how_to_repeat_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    harmful = Campaign("harmful", "for tests", small((State.OPEN, "D_SUBSCRIBER")))
    monkeypatch.setitem(campaigns.CAMPAIGNS, "harmful", harmful)
    words_ = ["--seed", "1", "--minimise", "1s", "--markdown", str(tmp_path / "m.md")]
    assert run(planted_command("abort"), tmp_path / "run", *words_, campaign="harmful", cases=150) == 1
    out = capsys.readouterr().out
    assert re.search(r"finding: crash .*D_SUBSCRIBER", out)
    row = read_rows(tmp_path / "run" / FINDINGS).rows[-1]
    assert (row["fails"], row["status"], row["harm"]) == (True, "confirmed", "crash")
    assert (tmp_path / "run" / row["folder"] / "finding.json").exists()
    with RawPcapNgReader(str(tmp_path / "run" / row["folder"] / WITNESS)) as reader:
        assert sum(1 for _ in reader) > 10
    assert WITNESS in (tmp_path / "run" / row["folder"] / README).read_text()
    assert f"zenoh-fuzz replay {tmp_path}/run/{row['folder']}" in out
    sent = {
        case["sent_hex"]
        for case in read_rows(tmp_path / "run" / FUZZ_CASES).rows
        if case["verdict"] == "finding"
    }
    assert sent
    assert not any(len(one) > 8 and one in out + (tmp_path / "m.md").read_text() for one in sent)
    assert read_run(tmp_path / "run").status == "complete"


def test_finding_whose_row_was_not_written_when_the_run_was_killed_is_told_when_it_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    harmful = Campaign("harmful", "for tests", small((State.OPEN, "D_SUBSCRIBER")))
    monkeypatch.setitem(campaigns.CAMPAIGNS, "harmful", harmful)
    words_ = ["--seed", "1", "--minimise", "1s"]
    folder, node = tmp_path / "run", planted_command("abort")
    assert run(node, folder, *words_, campaign="harmful", cases=150) == 1
    before = read_rows(folder / FINDINGS).rows[-1]
    (folder / FINDINGS).unlink()
    capsys.readouterr()
    assert run(node, folder, "--resume", campaign="harmful", cases=150) == 1
    assert f"finding: {before['bucket']}" in capsys.readouterr().out
    (row,) = read_rows(folder / FINDINGS).rows
    names = ("bucket", "status", "hits", "folder", "part")
    assert [row[name] for name in names] == [before[name] for name in names]


def test_folder_of_a_finding_counts_what_was_left_out_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave_out(runner: Runner, _: Sequence[Path]) -> None:
        for finding in runner.summary.findings:
            finding.masked += 1000

    # Behind the last hit.
    monkeypatch.setattr("fuzz.runner.Runner.minimise", leave_out)
    harmful = Campaign("harmful", "for tests", small((State.OPEN, "D_SUBSCRIBER")))
    monkeypatch.setitem(campaigns.CAMPAIGNS, "harmful", harmful)
    words_ = ["--seed", "1", "--minimise", "0"]
    assert run(planted_command("abort"), tmp_path / "run", *words_, campaign="harmful", cases=150) == 1
    row = read_rows(tmp_path / "run" / FINDINGS).rows[-1]
    kept = json.loads((tmp_path / "run" / row["folder"] / "finding.json").read_text())
    assert row["left_out"] >= 1000
    assert (kept["hits"], kept["masked"]) == (row["hits"], row["left_out"])


def test_what_a_killed_part_of_a_run_left_is_looked_into_when_it_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, node, words_ = tmp_path / "run", planted_command("abort"), ("--minimise", "5s")
    harmful = Campaign("harmful", "for tests", small((State.OPEN, "D_SUBSCRIBER")))
    with monkeypatch.context() as only_here:
        only_here.setitem(campaigns.CAMPAIGNS, "harmful", harmful)
        assert run(node, tmp_path / "first", "--minimise", "0", campaign="harmful", cases=150) == 1
    (found,) = (tmp_path / "first" / FOLDER).iterdir()
    assert run(node, folder, *words_, cases=4) == 0
    # As if that run had been killed when it had just met it.
    left = folder / FOLDER / "open-abort"
    shutil.copytree(found, left)
    value = json.loads((left / FINDING).read_text())
    value |= {"status": OPEN, "hits": 1, "confirmed": {"hits": 0, "tries": 0}}
    (left / FINDING).write_text(json.dumps(value))
    capsys.readouterr()
    assert run(node, folder, *words_, "--resume", cases=6) == 1
    out = capsys.readouterr().out
    assert "reproduced on 3 of 3 fresh nodes" in out
    assert "not analysed" not in out
    assert not left.exists()
    last = read_rows(folder / FINDINGS).rows[-1]
    assert (last["status"], last["hits"], last["fails"]) == ("confirmed", 1, True)


def test_what_a_killed_part_of_a_run_confirmed_is_made_smaller_and_its_row_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, node = tmp_path / "run", planted_command("abort")
    harmful = Campaign("harmful", "for tests", small((State.OPEN, "D_SUBSCRIBER")))
    monkeypatch.setitem(campaigns.CAMPAIGNS, "harmful", harmful)
    assert run(node, folder, "--minimise", "0", campaign="harmful", cases=150) == 1
    (before,) = {row["bucket"]: row for row in read_rows(folder / FINDINGS).rows}.values()
    # As if a KEEP_ALIVE had been played before.
    path = folder / before["folder"] / SCRIPT
    script = json.loads(path.read_text())
    script["steps"].insert(1, {"do": "send", "link": "a", "data": "{size}04", "note": ""})
    path.write_text(json.dumps(script))
    rows = (folder / FINDINGS).read_text()
    (folder / FINDINGS).write_text(rows.replace('"messages":1,', '"messages":2,'))
    capsys.readouterr()
    assert run(node, folder, "--resume", "--minimise", "20s", campaign="harmful", cases=150) == 1
    assert "0 cases in" in capsys.readouterr().out
    *_, last = read_rows(folder / FINDINGS).rows
    assert (last["bucket"], last["hits"], last["part"]) == (before["bucket"], before["hits"], 0)
    kept = json.loads((folder / last["folder"] / FINDING).read_text())
    assert kept["minimised"]["messages"] == last["messages"] == 1


KNOWN = """
[[finding]]
id = "MINE-1"
impl = "zenoh-pico"
versions = "1.2-1.4"
harm = "crash"
message = "D_SUBSCRIBER"
note = "a declaration of this kind ends the process"
since = 2026-11-22
report = "reported privately"
"""


@pytest.mark.parametrize(("profile", "jobs"), [("zenoh-pico:1.3", "1"), ("", "2")])
def test_finding_on_a_node_of_ones_own_can_be_known(tmp_path: Path, profile: str, jobs: str) -> None:
    known = tmp_path / "known.toml"
    mine = KNOWN if profile else KNOWN.replace("zenoh-pico", "unknown").replace("1.2-1.4", "*")
    known.write_text(mine + KNOWN.replace("MINE-1", "MINE-2").replace("1.2-1.4", "1.5"), "utf-8")
    words_ = ["--profile", profile, "--known", str(known), "--jobs", jobs, "--seed", "1", "--minimise", "1s"]
    argv = [*words_, "--time", "60s", "--cases", "150"]
    code = CODE.replace('"pushes"', '"harmful"').replace('"PUSH"', '"D_SUBSCRIBER"')
    code = code.replace("sys.exit(", 'if __name__ == "__main__": sys.exit(')
    script = tmp_path / "run.py"
    script.write_text(code)
    said = ["run", "harmful", "--node", planted_command("abort"), "--run-dir", str(tmp_path / "run"), *argv]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), *said],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "findings: nothing new, 1 known" in done.stdout
    assert "note: known.toml: 1 of 2 entries are for " in done.stderr
    assert "(MINE-2)" in done.stderr
    rows = read_rows(tmp_path / "run" / FINDINGS).rows
    assert {(row["known"], row["fails"]) for row in rows if row["harm"] == "crash"} >= {("MINE-1", False)}
    row = read_run(tmp_path / "run")
    assert (row.node_impl, row.node_version) == (("zenoh-pico", "1.3") if profile else ("unknown", "unknown"))


@pytest.mark.parametrize(
    ("other", "place"),
    [
        ("ref:ZN-INIT-003", "closed / accepted"),
        ("ref:ZN-INIT-045", "closed UNSUPPORTED / closed INVALID"),
        ("ref", ""),
    ],
)
def test_what_another_node_answers_otherwise_is_a_finding_and_harms_nobody(
    tmp_path: Path,
    other: str,
    place: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fuzz.oracles.rival.SHARE", 1.0)
    words_ = ["--also", other, "--seed", "1", "--minimise", "0"]
    assert run("ref", tmp_path / "run", *words_, campaign="inits", cases=400) == (1 if place else 0)
    out = capsys.readouterr().out
    assert re.search(r"compared with zenoh-harness-refnode\S* \S+: (\d+) of \1 fields in their states", out)
    assert "restarts" not in out
    assert (f"finding: differs {place} handshake INIT" in out) == bool(place)
    assert ("zenoh-fuzz replay" in out) == bool(place)
    if place:
        row = read_rows(tmp_path / "run" / FINDINGS).rows[-1]
        assert (row["status"], row["fails"], row["harm"]) == ("confirmed", True, "differs")
        assert (row["confirmed"], row["tries"]) == (3, 3)
        assert "reproduced on 3 of 3 fresh nodes" in out
        rows = read_rows(tmp_path / "run" / FUZZ_CASES).rows
        guilty = next(one for one in rows if one["case"] == row["case"])
        assert "INIT.version" in guilty["field"]
        assert guilty["verdict"] == "closed"


def test_what_two_nodes_answer_differently_is_repeated_on_two_nodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.oracles.rival.SHARE", 1.0)
    words_ = ["--also", "ref:ZN-INIT-045", "--seed", "1", "--minimise", "0"]
    assert run("ref", tmp_path / "run", *words_, campaign="inits", cases=400) == 1
    (folder,) = (tmp_path / "run" / "findings").iterdir()
    found = json.loads((folder / "finding.json").read_text())
    assert found["also"] == "ref:ZN-INIT-045"
    assert found["commands"] == {"replay": "zenoh-fuzz replay ."}
    assert (folder / "finding.pcapng").exists()
    assert not (folder / "test_finding.py").exists()
    page = (folder / "README.md").read_text()
    assert "reproduced on 3 of 3 fresh nodes" in page
    assert "There is no pytest file" in page
    assert "`--also ref:ZN-INIT-045`" in page
    capsys.readouterr()
    assert main(["replay", str(folder)]) == 1
    assert "the answers differed in 1 of 1 replays" in capsys.readouterr().out
    assert main(["replay", str(tmp_path / "run")]) == 1
    assert capsys.readouterr().out.endswith(f"answered differently: 1 of 1\n  {folder.name}\n")
    assert main(["replay", str(tmp_path / "run"), "--also", "ref"]) == 0
    assert capsys.readouterr().out.endswith(f"same answers: 1 of 1\n  {folder.name}\n")
    assert main(["replay", str(folder), "--also", "ref"]) == 0
    assert "the answers were the same" in capsys.readouterr().out
    assert main(["shrink", str(folder)]) == 2
    assert "cannot be minimised" in capsys.readouterr().err
    found["also"] = ""
    (folder / "finding.json").write_text(json.dumps(found))
    assert main(["replay", str(folder)]) == 2
    assert "add --also" in capsys.readouterr().err


def test_node_that_is_not_there_is_exit_3_and_leaves_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    junit, page = tmp_path / "fuzz.xml", tmp_path / "fuzz.md"
    assert run("tcp/127.0.0.1:9", tmp_path / "run", "--junit", str(junit), "--markdown", str(page)) == 3
    err = capsys.readouterr().err
    (error,) = parse(junit).findall(".//testcase/error")
    assert "listening there?" in error.get("message", "")
    assert "listening there?" in page.read_text()
    assert "is a node listening there?" in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_summary_that_cannot_be_written_changes_nothing_of_the_run(
    tmp_path: Path, node: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "none" / "step.md"))
    page = tmp_path / "fuzz.md"
    assert run(node, tmp_path / "run", "--junit", "/dev/full", "--markdown", str(page)) == 0
    err = capsys.readouterr().err
    assert "zenoh-fuzz: cannot write /dev/full: No space left on device" in err
    assert "step.md: No such file or directory" in err
    assert "cannot write to" not in err
    assert "**Findings: nothing new.** 20 cases" in page.read_text()
    assert read_run(tmp_path / "run").status == "complete"


def test_file_of_a_run_that_cannot_be_written_is_named(
    tmp_path: Path, node: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run" / FUZZ_COVERAGE).mkdir(parents=True)
    (tmp_path / "run" / FUZZ_COVERAGE / "something").touch()
    assert run(node, tmp_path / "run") == 3
    assert re.search(rf"cannot write to \S*{re.escape(FUZZ_COVERAGE)}\S*: Is a dir", capsys.readouterr().err)
    assert read_run(tmp_path / "run").status == "failed"


def test_oracle_that_fails_is_exit_3_with_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setitem(ORACLES, "canary", replace(ORACLES["canary"], look=fails))
    with planted(tmp_path / "node") as made:
        assert run(str(made.locator), tmp_path / "run") == 3
    assert "oracle canary failed and was disabled: ZeroDivisionError" in capsys.readouterr().err
    assert len(read_rows(tmp_path / "run" / FUZZ_CASES).rows) == 20


def test_state_that_a_node_cannot_be_brought_into_is_said_without_a_traceback(
    tmp_path: Path, node: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(*_: object) -> None:
        raise NotApplicable("no link to it")

    monkeypatch.setattr("fuzz.runner.Runner.run", none)
    assert run(node, tmp_path / "run") == 3
    err = capsys.readouterr().err
    assert "zenoh-fuzz: no link to it" in err
    assert "Traceback" not in err
    assert "internal error in the harness" not in err


def test_node_that_dies_for_good_is_exit_3_with_the_rows_so_far(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.stages.base.COMEBACK_SECONDS", 0.2)
    monkeypatch.setattr("conformance.config.REPLY_SECONDS", 0.3)
    harmful = Campaign("harmful", "for tests", small((State.OPEN, "D_SUBSCRIBER")))
    monkeypatch.setitem(campaigns.CAMPAIGNS, "harmful", harmful)
    made = planted(tmp_path / "node", "abort")
    made.start()
    try:
        assert run(str(made.locator), tmp_path / "run", "--seed", "1", campaign="harmful", cases=5000) == 3
    finally:
        made.stop()
    captured = capsys.readouterr()
    assert "zenoh-fuzz: " in captured.err
    assert "Traceback" not in captured.err
    assert "gone" in captured.out
    assert read_run(tmp_path / "run").status == "failed"
    rows = read_rows(tmp_path / "run" / FUZZ_CASES)
    assert rows.complete
    assert rows.rows


def test_short_run_against_the_real_router_is_recorded(tmp_path: Path, elsewhere: Path) -> None:
    pytest.importorskip("zenoh")
    folder = tmp_path / "run"
    assert run("pypi", folder, "--seed", "3", campaign="all", cases=60) in {0, 1}
    row = read_run(folder)
    assert (row.node_impl, row.node_whatami, row.status) == ("eclipse-zenoh", "router", "complete")
    rows = read_rows(folder / FUZZ_CASES)
    assert rows.complete
    assert not rows.bad
    assert len(rows.rows) == 60
    verdicts = {case["verdict"] for case in rows.rows}
    assert "accepted" in verdicts
    assert list(elsewhere.iterdir()) == []


def test_all_is_every_campaign_also_beside_others() -> None:
    assert campaigns_of("all", "ab") == campaigns_of("b, all", "ab") == ("a", "b")
    assert campaigns_of("b,b", "ab") == ("b",)


# Signals ----------------------------------------------------------------------------------------------

CODE = """
import signal, sys, fuzz.__main__ as m
from fuzz import campaigns
from fuzz.campaigns import Campaign
from fuzz.states import State
from tests.fuzz.test_main import small
campaigns.CAMPAIGNS["pushes"] = Campaign("pushes", "for tests", small((State.OPEN, "PUSH")))
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(m.main())
"""


@contextlib.contextmanager
def started(node: str, folder: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """A run in a process of its own that has played some cases."""
    argv = ["run", "pushes", "--time", "1h", "--seed", "1", "--run-dir", str(folder), "--node", node, *more]
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", CODE, *argv],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        rows = folder / FUZZ_CASES
        while not rows.exists() or rows.read_bytes().count(b"\n") < 30:
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_takes_effect_between_two_cases_and_the_second_at_once(number: int) -> None:
    # SIGINT is ignored where the tests run in the background of a script.
    before = signal.signal(number, signal.default_int_handler)
    try:
        with Interrupts() as interrupts:
            os.kill(os.getpid(), number)
            assert interrupts.asked
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
            # Once is enough: what is done to end in order shall not be interrupted by it.
            interrupts.check()
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)


def test_second_signal_ends_a_run_at_once_with_the_rows_so_far(tmp_path: Path, node: str) -> None:
    with started(node, tmp_path / "run") as process:
        # Two of one kind may come as one. It is stopped, so that it does not end before the second comes.
        for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
            process.send_signal(number)
        out, err = process.communicate(timeout=600)
    assert process.returncode == 3
    assert err.splitlines()[-1] == "zenoh-fuzz: interrupted; everything recorded so far was kept"
    assert "Traceback" not in err
    assert "cases in" not in out
    rows = read_rows(tmp_path / "run" / FUZZ_CASES)
    assert len(rows.rows) >= 30
    assert not rows.bad


def test_signal_takes_effect_in_the_middle_of_what_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.interrupts.GRACE", 0.05)
    with Interrupts():
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            threading.Event().wait(20)


def test_signal_that_was_taken_does_not_come_back() -> None:
    with Interrupts() as interrupts:
        assert not interrupts.take()
        os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
        assert interrupts.take()
        assert not interrupts.take()
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interrupts.asked
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    "where", ["conformance.nodes.attach.AttachedNode.start", "fuzz.runner.Runner.__init__"]
)
def test_run_that_is_stopped_before_its_first_case_is_no_failure(
    tmp_path: Path,
    node: str,
    where: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(where, stopped)
    assert run(node, tmp_path / "run") == 0
    assert capsys.readouterr().err.endswith("zenoh-fuzz: stopped before the first case\n")
    if "attach" in where:
        assert not (tmp_path / "run").exists()
    else:
        assert read_run(tmp_path / "run").status == "complete"
        assert read_rows(tmp_path / "run" / FUZZ_CASES).complete


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("times", [1, 2])
def test_run_that_is_stopped_while_its_modules_load_is_no_failure(
    tmp_path: Path,
    node: str,
    number: int,
    times: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def load(text: str, known: Sequence[str]) -> tuple[str, ...]:
        for _ in range(times):
            os.kill(os.getpid(), number)
        return campaigns_of(text, known)

    monkeypatch.setattr("fuzz.commands.run.campaigns_of", load)
    monkeypatch.setattr(
        "conformance.nodes.attach.AttachedNode.start", lambda _: pytest.fail("it was started")
    )
    # Whoever else handles it would hide that nobody did.
    before = signal.signal(number, signal.default_int_handler)
    try:
        assert run(node, tmp_path / "run") == 0
    finally:
        signal.signal(number, before)
    assert capsys.readouterr().err == "zenoh-fuzz: stopped before the first case\n"
    assert not (tmp_path / "run").exists()


def test_node_that_cannot_be_had_because_the_run_is_stopped_is_no_failure(
    tmp_path: Path, node: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fetch(_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        raise NodeDidNotStart("it cannot be installed: operation cancelled by user")

    monkeypatch.setattr("conformance.nodes.attach.AttachedNode.start", fetch)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert run(node, tmp_path / "run") == 0
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "zenoh-fuzz: stopped before the first case\n"


def test_run_whose_node_does_not_start_leaves_nothing_behind(tmp_path: Path) -> None:
    assert run("cmd:false {locator}", tmp_path / "run") == 3
    assert not (tmp_path / "run").exists()
    assert run("cmd:sh -c 'echo no port; exit 1' {locator}", tmp_path / "run") == 3
    assert [path.read_text() for path in (tmp_path / "run" / "nodes").iterdir()] == ["no port\n"]


def test_signal_ends_a_run_with_all_its_rows(tmp_path: Path, node: str) -> None:
    folder = tmp_path / "run"
    with started(node, folder) as process:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    found = re.search(r"^(\d+) cases in .*\(stopped\)", out, re.MULTILINE)
    assert found, out
    rows = read_rows(folder / FUZZ_CASES)
    assert (len(rows.rows), rows.complete) == (int(found[1]), True)
    assert read_run(folder).status == "complete"


def test_killed_run_loses_no_case_and_is_gone_on_with(tmp_path: Path, node: str) -> None:
    folder = tmp_path / "run"
    with started(node, folder) as process:
        process.kill()
        process.communicate(timeout=600)
    before = read_rows(folder / FUZZ_CASES)
    assert len(before.bad) <= 1
    assert read_run(folder).status == "running"
    assert run(node, folder, "--resume", cases=len(before.rows) + 200) == 0
    after = read_rows(folder / FUZZ_CASES)
    assert after.complete
    assert not after.bad
    assert after.rows[: len(before.rows)] == before.rows
    numbers = [row["case"] for row in after.rows]
    assert len(numbers) == len(set(numbers)) == len(before.rows) + 200
    # What was under way when it was killed is played now.
    assert set(range(1, max(row["case"] for row in before.rows))) <= set(numbers)


# Progress ---------------------------------------------------------------------------------------------


class FakeSummary:
    def __init__(self, cases: int, seconds: float) -> None:
        self.total, self.seconds, self.restarts = cases, seconds, 1
        self.doing = ""
        self.findings: list[object] = []
        self.coverage = self

    def glance(self) -> tuple[Share, Share]:
        return Share(0b10, 2), Share(0b1101, 40)


def test_progress_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    progress = Progress(65.0, None, lambda: now[0])
    for second in (0.0, 1.0, 11.0):
        now[0] = second
        progress(FakeSummary(int(second) * 100, second))  # type: ignore[arg-type]
    assert capsys.readouterr().err.splitlines() == [
        "0:00: 0 cases, 0/s, 1 of 2 states, 3 of 40 pairs, 0 findings, 1 restarts, 1:05 left",
        "0:11: 1100 cases, 100/s, 1 of 2 states, 3 of 40 pairs, 0 findings, 1 restarts, 0:54 left",
    ]


def test_progress_tells_time_left_from_what_ends_first() -> None:
    glance = Glance(10.0, 1000, Share(1, 2), Share(3, 4), (("crash x", True), ("stall y", False)), 2)
    assert words(glance, None, None).endswith("2 findings (1 new), 2 restarts")
    assert words(glance, 100.0, 2000).endswith("0:10 left")
    assert words(glance, 12.0, 2000).endswith("0:02 left")
    assert [clock(seconds) for seconds in (0, 59.9, 61, 3661)] == ["0:00", "0:59", "1:01", "1:01:01"]


def test_processes_are_one_line() -> None:
    one = Glance(5.0, 10, Share(0b01, 2), Share(0b0111, 9), (("a", True),), 1)
    other = Glance(6.0, 20, Share(0b11, 2), Share(0b1100, 9), (("a", True), ("b", False)), 2)
    assert together([one, other]) == Glance(
        6.0, 30, Share(0b11, 2), Share(0b1111, 9), (("a", True), ("b", False)), 3
    )
    assert together([]) == Glance()


def test_progress_says_what_goes_on_behind_the_last_case() -> None:
    glance = Glance(10.0, 1000, doing="minimising findings, 2 of 3")
    assert words(glance, 10.0, None).endswith("0 restarts, minimising findings, 2 of 3")
    assert together([Glance(5.0, 10), glance]).doing == glance.doing


def test_the_time_goes_on_behind_the_last_case(capsys: pytest.CaptureFixture[str]) -> None:
    now = [100.0]
    progress = Progress(10.0, now=lambda: now[0])
    for glance in (Glance(10.0, 1000), Glance(10.0, 1000, doing="minimising findings, 2 of 3")):
        now[0] += 35.0
        progress.show(glance)
    assert [line.split(" cases")[0] for line in capsys.readouterr().err.splitlines()] == [
        "0:10: 1000",
        "1:10: 1000",
    ]


def test_what_takes_long_shows_that_the_run_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.progress.TICK_SECONDS", 0.01)
    now, ticked = [100.0], threading.Semaphore(0)

    def clock() -> float:
        if threading.current_thread().name == "progress":
            ticked.release()
        return now[0]

    def until_seen(second: float) -> None:
        now[0] = second
        # One look may have begun before it was that late.
        for _ in range(4):
            assert ticked.acquire(timeout=600)
        while ticked.acquire(blocking=False):
            pass

    with Progress(60.0, now=clock) as progress:
        until_seen(102.0)
        progress.show(Glance(2.0, 1000))
        until_seen(103.0)
        # Cases that end between two lines.
        now[0] = 106.0
        progress(FakeSummary(1050, 6.0))  # type: ignore[arg-type]
        last = FakeSummary(1050, 6.1)
        last.doing = "analysing the last findings"
        now[0] = 106.1
        progress(last)  # type: ignore[arg-type]
        until_seen(113.0)
        progress.show(Glance(3.0, 1200, doing="minimising findings, 1 of 2"))
        until_seen(143.0)
    shown = capsys.readouterr().err.splitlines()
    assert shown == [
        "0:02: getting ready for the first case",
        "0:02: 1000 cases, 500/s, 0 findings, 0 restarts, 0:58 left",
        "0:13: 1050 cases, 172/s, 1 of 2 states, 3 of 40 pairs, 0 findings, 1 restarts, analysing the last findings",
        "0:13: 1200 cases, 400/s, 0 findings, 0 restarts, minimising findings, 1 of 2",
        "0:43: 1200 cases, 400/s, 0 findings, 0 restarts, minimising findings, 1 of 2",
    ]
    assert progress._ticker is not None
    assert not progress._ticker.is_alive()


@contextlib.contextmanager
def delayed(locator: str, seconds: float) -> Iterator[str]:
    """A way to a node on which all that it says takes so many seconds."""
    host, _, port = locator.partition("/")[2].rpartition(":")
    loop = asyncio.new_event_loop()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, late: float) -> None:
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def read() -> None:
            with contextlib.suppress(ConnectionError):
                while data := await reader.read(1 << 16):
                    queue.put_nowait((loop.time() + late, data))
            queue.put_nowait((loop.time() + late, b""))

        reading = loop.create_task(read())
        try:
            while True:
                due, data = await queue.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if not data:
                    break
                writer.write(data)
        finally:
            reading.cancel()
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, int(port))
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(carry(reader, back, 0.0), carry(there, writer, seconds))

    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"tcp/127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:

        async def end() -> None:
            server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_node_that_answers_slowly_is_given_cases_and_it_is_said_why_they_are_few(
    node: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with delayed(node, 0.08) as slow:
        assert run(slow, tmp_path / "run", "--time", "8s", "--seed", "1", cases=0) == 0
    out = capsys.readouterr().out
    assert re.search(
        r"the node answers slowly: an exchange took \d+ ms .* 2 links are used in parallel, so the rate is low",
        out,
    )
    cases = int(re.search(r"(\d+) cases in", out)[1])  # type: ignore[index]
    # Two links, each waits 80 ms for an answer; a quarter of the time is for looking at the node.
    assert cases > 20
    assert run(node, tmp_path / "prompt") == 0
    assert "answers slowly" not in capsys.readouterr().out
