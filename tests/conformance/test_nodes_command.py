"""A node that a command starts."""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.config import PROTOCOLS, RunConfig
from conformance.errors import NodeDidNotStart, NotApplicable, UsageError
from conformance.nodes import child, command, node_of
from conformance.nodes.command import SCRIPT, CommandNode
from conformance.nodes.traces import goes_on
from scapy_layers.batch import prefixed
from scapy_layers.data import Put
from scapy_layers.network import Push
from scapy_layers.transport import Frame
from tests.conformance.test_nodes_transports import hello_of

PYTHON = shlex.quote(sys.executable)
REFNODE = f"{PYTHON} -m conformance.refnode --listen {{locator}}"
CLIENT = f"{PYTHON} {shlex.quote(str(Path(__file__).parents[1] / 'fuzz' / 'client_process.py'))}"
FATAL = prefixed(bytes(Frame(sn=1, messages=[Push(key_suffix="more than nine", body=Put())])))
REPLY = 5.0


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(Path(__file__).resolve().parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]).rstrip(":"))


def made(text: str, folder: Path, *transports: str) -> CommandNode:
    run = RunConfig(node=f"cmd:{text}", run_dir=folder, run_id="r", seed=1, transports=transports or ("tcp",))
    node = node_of(run)
    assert isinstance(node, CommandNode)
    return node


def test_slow_node_has_the_time_to_start_that_the_run_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It thinks for 0.3 s before each answer.
    slow = f"cmd:{PYTHON} -m tests.conformance._rare_node --listen {{locator}} --mutant THINKS"
    monkeypatch.setattr(command, "REPLY_SECONDS", 0.1)
    monkeypatch.setattr(command, "START_SECONDS", 4.0)
    run = RunConfig(node=slow, run_dir=tmp_path, run_id="r", seed=1)
    with pytest.raises(NodeDidNotStart, match=r"did not answer within 4 s: a fresh session fails"):
        node_of(run).start()
    with node_of(replace(run, time_scale=8)) as node:
        assert node.starts == 1


def program(folder: Path, text: str) -> str:
    path = folder / "program.py"
    path.write_text(text)
    return f"{PYTHON} {shlex.quote(str(path))}"


def test_command_becomes_a_node_that_is_watched_and_started_again(tmp_path: Path) -> None:
    node = made(REFNODE, tmp_path)
    with node:
        node.ask(REPLY)
        assert (node.whatami, node.fence, node.impl) == ("router", "query", "unknown")
        assert node.problem(REPLY) == ""
        assert node._process is not None
        os.kill(node._process.pid, signal.SIGKILL)
        node._ended(REPLY)
        assert node.problem(REPLY) == "the process died of SIGKILL"
        node.restart()
        assert node.problem(REPLY) == ""
    assert node.death() == "the process is not running"


def test_all_that_is_known_is_filled_in(tmp_path: Path) -> None:
    words = (
        "--listen {ws} --listen {tls} --listen {udp} --listen {unixsock-stream} "
        "--tls-cert {tls_certificate} --tls-key {tls_key} --tls-ca {tls_ca} --scout udp/{scouting}#iface=lo"
    )
    node = made(f"{REFNODE} {words}", tmp_path, *PROTOCOLS)
    # Whoever wants a node that hears SCOUT has to know before it starts.
    where = node.scouting
    assert where is not None
    with node:
        assert node.scouting == where
        assert set(node.locators) == set(PROTOCOLS)
        assert len(hello_of(node).locators or ()) == len(PROTOCOLS)


def test_transport_that_the_command_does_not_name_is_lacking(tmp_path: Path) -> None:
    node = made("true {port}", tmp_path, "tcp", "ws")
    node._filled()
    node._reached(node._filled()[1])
    assert node.lacks("tcp") == ""
    assert node.lacks("ws") == ("the command of the node does not make it listen on ws; {ws} says where")
    node.stop()


def test_braces_of_the_node_itself_stay(tmp_path: Path) -> None:
    words, _ = made("""true {port} '{"mode": {x}}' {}""", tmp_path)._filled()
    assert words[2:] == ['{"mode": {x}}', "{}"]
    assert words[1].isdecimal()


BAD = {
    "nosuchcommand {locator}": "there is no command 'nosuchcommand'",
    "": "needs a command",
    "true": "does not say where to listen",
    "true '{locator}": "no closing quotation",
    "true {tls}": "add --transports tls",
    "true {locator} {connect}": "write [[ ]] around what says so",
}


@pytest.mark.parametrize("text", BAD)
def test_command_that_makes_no_sense_is_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(BAD[text])):
        made(text, tmp_path)


def test_what_makes_a_node_connect_is_left_out_of_one_that_connects_to_nobody(tmp_path: Path) -> None:
    node = made("true -l {locator} [[-e {connect}]] '[[\"x\"]]'", tmp_path)
    assert node._filled()[0][2:] != []
    assert node._filled()[0][3:] == ['[["x"]]']
    connected = node.variant(connect__endpoints=["tcp/127.0.0.1:7"], mode="peer")
    assert connected._filled()[0][3:] == ["-e", "tcp/127.0.0.1:7", '[["x"]]']
    assert node.listens
    assert connected.variant()._filled()[0][3:] == ['[["x"]]']


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"connect__endpoints": ["tcp/127.0.0.1:7", "tcp/127.0.0.1:8"]}, "several places at once"),
        ({"connect__endpoints": ["tcp/127.0.0.1:7"], "mode": "peer"}, "can be made a peer"),
        ({"connect__endpoints": ["tcp/127.0.0.1:7"], "transport__unicast__lowlatency": True}, "of its own"),
        ({"mode": "client"}, "of its own"),
    ],
)
def test_node_of_a_command_connects_and_nothing_else(
    config: dict[str, object], why: str, tmp_path: Path
) -> None:
    with pytest.raises(NotApplicable, match=why):
        made("true {connect}", tmp_path).variant(**config)
    with pytest.raises(NotApplicable, match=r"connects to us|of its own"):
        made("true {locator}", tmp_path).variant(**config)


def test_node_that_only_connects_may_leave_but_not_die(tmp_path: Path) -> None:
    node = made(f"{CLIENT} {{connect}} 9", tmp_path)
    assert (node.listens, node.whatami) == (False, "client")
    with pytest.raises(NodeDidNotStart, match="only connects, and takes no links"):
        node.start()
    with pytest.raises(NotApplicable, match="takes no links"):
        node.tester(REPLY)
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.settimeout(REPLY)
        connected = node.variant(connect__endpoints=[f"tcp/127.0.0.1:{door.getsockname()[1]}"])
        for said, left, death in ((b"", True, ""), (FATAL, False, "the process died of SIGABRT")):
            connected.launch()
            link, _ = door.accept()
            with link:
                link.sendall(said)
                link.shutdown(socket.SHUT_WR)
                connected._ended(REPLY)
            assert (connected.has_left(), connected.death()) == (left, death)
            assert connected.problem(REPLY) == death
            connected.kill()


@pytest.mark.parametrize(("code", "left"), [(0, True), (1, True), (127, True), (134, False)])
def test_shell_whose_child_has_died_has_not_left(code: int, left: bool, tmp_path: Path) -> None:
    node = made(f"sh -c 'exit {code}' {{connect}}", tmp_path).variant(connect__endpoints=["tcp/127.0.0.1:7"])
    node.launch()
    node._ended(REPLY)
    assert node.has_left() == left
    assert node.death() == ("" if left else f"the process ended with exit code {code}")
    node.kill()


def test_command_that_ends_at_once_says_so_with_its_last_words(tmp_path: Path) -> None:
    node = made("sh -c 'echo first >&2; echo no such option >&2; exit 3' {locator}", tmp_path)
    with pytest.raises(NodeDidNotStart, match=r"ended with exit code 3 \(no such option\)$"):
        node.start()
    assert node._process is None


def test_command_that_never_listens_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "START_SECONDS", 0.2)
    node = made("sh -c 'echo warming up >&2; exec sleep 60' {locator}", tmp_path)
    with pytest.raises(NodeDidNotStart, match=r"did not answer within 0.2 s: no link .*\(warming up\)$"):
        node.start()


def test_command_that_stops_answering_before_it_is_known_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: float) -> None:
        raise NodeDidNotStart("no correct InitAck")

    node = made(REFNODE, tmp_path)
    monkeypatch.setattr(node, "ask", refused)
    with pytest.raises(NodeDidNotStart, match="no correct InitAck"):
        node.start()
    assert node.pid is None


def test_whatever_the_command_started_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "START_SECONDS", 1.0)
    monkeypatch.setattr(command, "STOP_SECONDS", 0.1)
    note = tmp_path / "child"
    stubborn = 'trap "" TERM; sleep 60 & echo $! > ' + shlex.quote(str(note)) + "; wait; wait; sleep 60"
    node = made(f"sh -c {shlex.quote(stubborn)} {{locator}}", tmp_path)
    node.launch()
    assert node._process is not None
    while not note.exists() or not note.read_text().strip():
        node._ended(0.01)
    child = os.pidfd_open(int(note.read_text()))
    try:
        node.stop()
        assert ended(child)
    finally:
        os.close(child)


def ended(descriptor: int) -> bool:
    """Waits until a process has ended."""
    return bool(select.select([descriptor], [], [], REPLY)[0])


def test_complaints_on_standard_error_are_reported(tmp_path: Path) -> None:
    lines = ["==1==ERROR: AddressSanitizer: heap-use-after-free", "thread 'x' panicked at a.rs", "panic: nil"]
    text = f"import sys, time\nprint({lines!r}, sep='', file=sys.stderr)\nfor l in {lines!r}: print(l, file=sys.stderr)"
    node = made(f"{program(tmp_path, text)} {{port}}", tmp_path)
    node.launch()
    assert node._ended(REPLY)
    said = node.complaints()
    assert all(line in said for line in lines)
    assert node.death() == "the process ended with exit code 0"
    node.stop()


def test_report_of_a_sanitizer_is_waited_for_until_it_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    text = f"""
import sys
print("==1==ERROR: AddressSanitizer: heap-use-after-free", file=sys.stderr, flush=True)
open({str(gate)!r}).read()
print("SUMMARY: AddressSanitizer: heap-use-after-free /build/a.c:7 in f", file=sys.stderr)
"""
    node = made(f"{program(tmp_path, text)} {{port}}", tmp_path)
    node.launch()
    log = next(tmp_path.rglob("*.stderr"))
    assert awaited(lambda: b"ERROR" in log.read_bytes())
    known = goes_on

    def asked(said: bytes) -> bool:
        if gate.exists():
            gate.open("w").close()
            gate.unlink()
        return known(said)

    monkeypatch.setattr(child, "goes_on", asked)
    monkeypatch.setattr(child, "TRACE_SECONDS", 0.0)
    assert "a.c:7 in f" in node.complaints()
    node.stop()


def awaited(condition: Callable[[], bool]) -> bool:
    """Waits until a condition holds; tells whether it does."""
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


def test_of_a_process_that_says_very_much_the_beginning_and_the_end_are_looked_through(
    tmp_path: Path,
) -> None:
    text = """
import sys
much = "2026-11-26 11:00:00 DEBUG nothing of interest\\n" * 200_000
for number in range(3):
    sys.stderr.write(f"thread 'rx-{number}' panicked at src/a.rs:{number}:\\nsome words\\n{much * 2 * (number < 2)}")
"""
    node = made(f"{program(tmp_path, text)} {{port}}", tmp_path)
    node.launch()
    assert node._ended(REPLY)
    # All of it takes a quarter of a minute to look through, and to read it piece by piece takes longer.
    began = time.process_time()
    said = node.complaints()
    assert time.process_time() - began < 5
    assert said == "; ".join(
        f"thread 'rx-{number}' panicked at src/a.rs:{number}: some words" for number in (0, 2)
    )
    assert not node.complaints()
    node.stop()


def test_colours_are_no_part_of_what_a_process_says(tmp_path: Path) -> None:
    text = r"""
import sys
sys.stderr.write("\x1b[2mlater\x1b[0m \x1b[1mthread 'rx-0' panicked at \x1b[4msrc/a.rs:9:1\x1b[0m:\n\x1b[31mwhy\x1b[0m\n")
sys.stderr.write("\x1b[38;5;9mpanic: nil\x1b[m\n")
"""
    node = made(f"{program(tmp_path, text)} {{port}}", tmp_path)
    node.launch()
    assert node._ended(REPLY)
    assert node.complaints() == "later thread 'rx-0' panicked at src/a.rs:9:1: why; panic: nil"
    node.stop()


def test_node_that_dies_behind_its_complaint_is_reported_as_dead(tmp_path: Path) -> None:
    # It goes on for a while after it has said why, as one does that writes its memory to disk.
    text = """
import os, resource, signal, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
signal.signal(signal.SIGALRM, lambda *_: os.abort())
signal.setitimer(signal.ITIMER_REAL, 0.1)
print("panic: no memory", file=sys.stderr, flush=True)
signal.pause()
"""
    node = made(f"{program(tmp_path, text)} {{port}}", tmp_path)
    node.launch()
    while not (said := node.complaints()):
        assert not node.death()
    assert said == "panic: no memory"
    assert node.awaited_death() == "the process died of SIGABRT"
    node.stop()


def test_variant_of_a_command_is_another_node_but_takes_no_configuration(tmp_path: Path) -> None:
    node = made(REFNODE, tmp_path)
    with pytest.raises(NotApplicable, match="configuration of its own"):
        node.variant(mode="peer")
    with node, node.variant() as other:
        assert other.locator != node.locator
        assert other.zid != node.zid


def test_command_is_not_begun_when_the_harness_was_killed_meanwhile() -> None:
    def run(parent: int) -> str:
        words = [sys.executable, str(SCRIPT), str(parent), "echo", "begun"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    assert run(os.getpid()) == "begun\n"
    assert not run(os.getppid())


def test_command_does_not_outlive_the_harness(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    inner = f"sh -c {shlex.quote(f'echo $$ > {note}; exec sleep 60')} {{port}}"
    text = (
        "import os, sys\nfrom pathlib import Path\nfrom conformance.nodes.command import CommandNode\n"
        f"node = CommandNode(Path({str(tmp_path)!r}), {inner!r})\nnode.launch()\n"
        f"while not Path({str(note)!r}).exists() or not Path({str(note)!r}).read_text().strip():\n"
        "    node._ended(0.01)\nos.kill(os.getpid(), 9)\n"
    )
    (tmp_path / "harness.py").write_text(text)
    harness = made(f"{PYTHON} {shlex.quote(str(tmp_path / 'harness.py'))} {{port}}", tmp_path)
    harness.launch()
    assert harness._ended(20)
    pid = int(note.read_text())
    try:
        orphan = os.pidfd_open(pid)
    except ProcessLookupError:
        pass  # it is gone already
    else:
        assert ended(orphan)
        os.close(orphan)
    finally:
        harness.stop()


def test_page_names_all_that_may_stand_in_a_command() -> None:
    page = (Path(__file__).parents[2] / "docs" / "your-node.md").read_text()
    known = ["locator", "port", "scouting", "connect", *PROTOCOLS, *command.TLS_WORDS]
    assert [word for word in known if f"{{{word}}}" not in page] == []


def test_last_words_are_told_though_somebody_has_heard_them_before(tmp_path: Path) -> None:
    dies = "import os\nos.write(2, b'panic: first\\nthe last line\\n')\nos._exit(3)\n"
    node = made(f"{program(tmp_path, dies)} {{locator}}", tmp_path)
    node.launch()
    try:
        assert node._ended(12 * REPLY)
        assert node.awaited_death() == "the process ended with exit code 3"
        assert node.complaints().startswith("panic: first")
        assert node.last_words().startswith("nodes/node-1.stderr: panic: first")
    finally:
        node.kill()
