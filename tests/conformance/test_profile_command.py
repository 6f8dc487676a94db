"""``python -m conformance.profile``: a first profile of a node, made by asking it."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance import profile
from conformance.config import Credentials, RunConfig
from conformance.nodes import Node, node_of
from conformance.profile import EXIT_FAILED, EXIT_USAGE, listed, main, quoted
from conformance.profiles import load_profile
from conformance.profiles.features import FEATURES
from conformance.questions import NOT_ASKED, Inquiry


@pytest.fixture(scope="module", params=["pypi", "ref"])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("run")
    with node_of(RunConfig(node=request.param, run_dir=folder, run_id="r", seed=1)) as made:
        yield made


def test_profile_of_a_router_says_what_was_seen_and_can_be_used(node: Node, tmp_path: Path) -> None:
    out = tmp_path / "own.toml"
    assert main([str(node.locator), "--out", str(out), "--name", "mine", "--release", "3.1"]) == 0
    text = out.read_text()
    assert "# role: router, protocol version 9\n" in text
    assert "# routing: a value goes from one session to another\n" in text
    assert re.search(r"^# lease: 10 s$", text, re.MULTILINE)
    assert re.search(r"^# cookie: \d+ bytes$", text, re.MULTILINE)
    made = load_profile(str(out))
    assert (made.name, made.impl, made.version) == ("own", "mine", "3.1")
    assert (made.roles, made.transports, made.fence) == (("router",), ("tcp",), "query")
    # It was not told of the group that the node hears SCOUTs in.
    left_out = {*NOT_ASKED, "lowlatency", "compression", "scouting"}
    assert set(made.features) == set(FEATURES) - left_out


def test_profile_of_a_node_of_ours_knows_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ref"]) == 0
    text = capsys.readouterr().out
    assert 'impl = "zenoh-harness-refnode"' in text
    assert 'scouting = "udp/239.255.' in text
    assert '"scouting"' in text


def test_node_that_asks_for_a_user_gets_a_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    user = Credentials(user=b"alice", password=b"open sesame")
    with node_of(RunConfig(node="ref", run_dir=tmp_path, run_id="r", seed=1, user=user)) as made:
        assert main([str(made.locator)]) == EXIT_FAILED
        assert "name them with --user" in capsys.readouterr().err
        monkeypatch.setenv("ZENOH_PASSWORD", "open sesame")
        for words in (["--user", "alice:open sesame"], ["--user", "alice"]):
            assert main([str(made.locator), *words]) == 0
            text = capsys.readouterr().out
            assert "# role: router" in text
            assert "sesame" not in text


def test_peer_is_called_one(capsys: pytest.CaptureFixture[str]) -> None:
    root = str(Path(__file__).resolve().parents[2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", root)
        command = f"cmd:{sys.executable} -m conformance.refnode --mode peer --listen {{locator}}"
        assert main([command]) == 0
    assert 'roles = ["peer"]' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("closed", "Connection refused"),
        ("silent", "expected INIT A=1, seen nothing"),
        (
            "echo",
            "a fresh session fails: expected INIT A=1, seen INIT A=0; our end gave it up: INIT instead of",
        ),
        ("noise", "; our end gave it up: the batch does not decode: "),
        ("replay", "this is no node: it answers a query before there is a session and"),
        ("yes", "this is no node: it answers a query before there is a session and"),
    ],
)
def test_something_that_is_no_node_gets_no_profile(
    kind: str, why: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "own.toml"
    assert main([f"null:{kind}", "--time-scale", "0.3", "--out", str(out)]) == EXIT_FAILED
    said = capsys.readouterr()
    assert why in said.err
    assert said.err.startswith("conformance.profile: ")
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert not out.exists()


def test_node_that_dies_between_questions_is_named_with_the_question(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = node_of(RunConfig(node="pypi", run_dir=tmp_path, run_id="r", seed=1))
    asked = Inquiry._version

    def kill(self: Inquiry, tester: object) -> None:
        victim.kill()
        asked(self, tester)  # type: ignore[arg-type]

    with victim:
        monkeypatch.setattr(Inquiry, "_version", kill)
        assert main([str(victim.locator)]) == EXIT_FAILED
    said = capsys.readouterr().err
    assert "the node is not well any more after the question about version: no link to" in said
    assert said.count("\n") == 1


def test_something_that_speaks_another_protocol_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def speak() -> None:
            link, _ = server.accept()
            with link:
                link.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=speak)
        thread.start()
        assert main([f"tcp/127.0.0.1:{server.getsockname()[1]}", "--time-scale", "0.3"]) == EXIT_FAILED
        thread.join()
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "a fresh session fails" in said


BAD = {
    ("bogus",): "'bogus' must be a locator",
    ("tcp/192.0.2.1:1",): "--i-may-test-this-node",
    ("null:maybe",): "no such kind; the kinds are closed, silent",
    ("ref", "--time-scale", "0"): "--time-scale must be more than 0",
}


@pytest.mark.parametrize("words", BAD)
def test_wrong_options_are_one_line(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(list(words)) == EXIT_USAGE
    said = capsys.readouterr().err
    assert BAD[words] in said
    assert said.count("\n") == 1


def test_file_that_is_there_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "own.toml"
    out.write_text("mine")
    assert main(["ref", "--out", str(out)]) == EXIT_USAGE
    assert "is there already" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert main(["ref", "--out", str(tmp_path / "no" / "own.toml")]) == EXIT_USAGE
    assert "cannot be written (No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("where", "says"),
    [(">/dev/full", "standard output: No space left on device"), (">&-", "there is no standard output")],
)
def test_profile_that_cannot_be_shown_is_one_line(node: Node, where: str, says: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m conformance.profile {shlex.quote(str(node.locator))} {where}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == EXIT_USAGE
    assert done.stderr == f"conformance.profile: {says}; name a file with --out\n"


def test_texts_of_a_node_cannot_break_the_file() -> None:
    assert quoted('a"\\\n\x7fb') == '"a\\"\\\\b"'
    assert listed(["a", "b"]) == '["a", "b"]'
    assert profile._comment("x\ny\x00 = 1") == ["# x?y? = 1"]


def test_command_runs_as_a_module(node: Node) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run(
        [sys.executable, "-m", "conformance.profile", str(node.locator)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# First profile of a node at tcp/")
