"""Nodes that are bad, gone, harmed, or cannot be had: a verdict or the reason, in bounded time."""

from __future__ import annotations

import contextlib
import shlex
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conformance.nodes.ref import RefNode
from spark_reports.rows import read_run
from tests.conformance._runs import outcomes, run_own, verdicts

MANY = """
import pytest
from conformance.plugin import req

@req("ZN-INIT-001")
@pytest.mark.parametrize("number", range(200))
def test_session(tester, number):
    tester.session().fence()
"""

FEW = MANY.replace("range(200)", "range(4)")

Behaviour = Callable[[socket.socket, threading.Event], None]


def garbage(link: socket.socket, _: threading.Event) -> None:
    link.sendall(bytes(range(256)) * 40)
    link.recv(1)


def drips(link: socket.socket, ended: threading.Event) -> None:
    """Promises a batch of 60 KB and sends a byte of it now and then."""
    link.sendall(b"\x60\xea")
    while not ended.wait(0.01):
        link.sendall(b"\x24")


def echo(link: socket.socket, _: threading.Event) -> None:
    while data := link.recv(65536):
        link.sendall(data)


def silent(link: socket.socket, _: threading.Event) -> None:
    while link.recv(65536):
        pass


def closes(link: socket.socket, _: threading.Event) -> None:
    """Ends the link at once."""


def http(link: socket.socket, _: threading.Event) -> None:
    link.recv(65536)
    link.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


BEHAVIOURS: dict[str, Behaviour] = {
    "garbage": garbage,
    "drips": drips,
    "echo": echo,
    "silent": silent,
    "closes": closes,
    "http": http,
}


@contextlib.contextmanager
def serving(behaviour: Behaviour) -> Iterator[str]:
    """Does the same with every link; yields the locator."""
    ended = threading.Event()
    threads: list[threading.Thread] = []
    links: list[socket.socket] = []

    def one(link: socket.socket) -> None:
        with link, contextlib.suppress(OSError):
            behaviour(link, ended)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                link, _ = server.accept()
                links.append(link)
                threads.append(threading.Thread(target=one, args=(link,), daemon=True))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        acceptor = threading.Thread(target=accept, daemon=True)
        acceptor.start()
        yield f"tcp/127.0.0.1:{server.getsockname()[1]}"
        ended.set()
        server.shutdown(socket.SHUT_RDWR)
        for link in links:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
    for thread in [acceptor, *threads]:
        thread.join(5)


@pytest.mark.parametrize("kind", BEHAVIOURS)
def test_node_that_is_none_makes_everything_inconclusive_at_once(kind: str, tmp_path: Path) -> None:
    began = time.monotonic()
    with serving(BEHAVIOURS[kind]) as locator:
        done = run_own(MANY, tmp_path, "--node", locator)
    text = done.stdout + done.stderr
    assert done.returncode == 3, text
    assert "Traceback" not in text
    assert "INTERNALERROR" not in text
    rows = verdicts(tmp_path / "run")
    assert [row["outcome"] for row in rows] == ["inconclusive"] * 200
    assert locator in rows[0]["reason"]
    assert text.count(f"no node: {locator}") == 1
    assert "inconclusive 200 tests" in text
    # One patient look, not one for each test.
    assert time.monotonic() - began < 60
    assert read_run(tmp_path / "run").status == "failed"
    assert "ended early" in (tmp_path / "run" / "index.html").read_text()


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["one process", "two workers"])
def test_node_that_is_not_there_is_said_once(workers: list[str], tmp_path: Path) -> None:
    done = run_own(FEW, tmp_path, "--node", "tcp/127.0.0.1:1", *workers)
    text = done.stdout + done.stderr
    assert done.returncode == 3, text
    assert text.count("no node: no link to tcp/127.0.0.1:1 (Connection refused)") == 1
    assert set(outcomes(tmp_path / "run").values()) == {"inconclusive"}
    assert "Traceback" not in text


DIES = """
import os, signal
from conformance.plugin import req
import pytest

@req("ZN-INIT-001")
@pytest.mark.parametrize("number", range(3))
def test_before(tester, number):
    tester.session().fence()

@req("ZN-INIT-001")
def test_kills():
    os.kill(int(os.environ["VICTIM"]), signal.SIGKILL)

@req("ZN-INIT-001")
@pytest.mark.parametrize("number", range(100))
def test_later(tester, number):
    tester.session().fence()
"""


def test_node_of_somebody_else_that_dies_ends_the_run_with_what_is_known(tmp_path: Path) -> None:
    with RefNode(tmp_path / "nodes") as victim:
        assert victim._process is not None
        done = run_own(DIES, tmp_path, "--node", str(victim.locator), VICTIM=str(victim._process.pid))
    text = done.stdout + done.stderr
    assert done.returncode == 3, text
    found = outcomes(tmp_path / "run")
    assert [found[f"test_before[{number}]"] for number in range(3)] == ["pass"] * 3
    assert found["test_kills"] == "fail"
    assert {found[f"test_later[{number}]"] for number in range(100)} == {"inconclusive"}
    assert "no node: the node did not come back: no link to" in text
    assert "Traceback" not in text


@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["one process", "a worker"])
def test_words_that_no_terminal_can_show_reach_rows_and_page(workers: list[str], tmp_path: Path) -> None:
    tests = """
from conformance.errors import NotApplicable, Unmet
from conformance.plugin import req

@req("ZN-INIT-001")
def test_one():
    raise Unmet("this", "half a pair \\ud800 \\x1b[31m \\x00")

@req("ZN-INIT-001")
def test_two():
    raise NotApplicable("half a pair \\ud800")
"""
    done = run_own(tests, tmp_path, "--node", "ref", *workers)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "INTERNALERROR" not in done.stdout
    assert outcomes(tmp_path / "run") == {"test_one": "fail", "test_two": "n/a"}
    assert "half a pair \\ud800" in (tmp_path / "run" / "index.html").read_text()


NEEDS_ITS_OWN = """
from conformance.plugin import destructive, req

pids = []

@req("ZN-INIT-001")
@destructive
def test_harmful(tester, node):
    tester.session().fence()
    pids.append(str(node.locator))
    if node.owned:
        node._process.kill()
        node._process.wait()

@req("ZN-INIT-001")
def test_other(tester, node):
    tester.session().fence()
    pids.append(str(node.locator))
    assert pids[:-1] == [] or pids[0] != pids[1] or not node.owned
"""


def test_destructive_test_gets_a_node_of_its_own(tmp_path: Path) -> None:
    done = run_own(NEEDS_ITS_OWN, tmp_path, "--node", "ref")
    assert done.returncode == 0, done.stdout
    assert outcomes(tmp_path / "run") == {"test_harmful": "pass", "test_other": "pass"}


def test_destructive_test_leaves_a_foreign_node_alone_unless_allowed(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with RefNode(tmp_path / "nodes") as node:
        run_own(NEEDS_ITS_OWN, tmp_path / "one", "--node", str(node.locator))
        run_own(NEEDS_ITS_OWN, tmp_path / "two", "--node", str(node.locator), "--allow-destructive")
    assert outcomes(tmp_path / "one" / "run") == {"test_harmful": "n/a", "test_other": "pass"}
    (row,) = [row for row in verdicts(tmp_path / "one" / "run") if row["outcome"] == "n/a"]
    assert "--allow-destructive" in row["reason"]
    assert outcomes(tmp_path / "two" / "run") == {"test_harmful": "pass", "test_other": "pass"}


COMPLAINS = """
from conformance.plugin import req

@req("ZN-INIT-001")
def test_variant(tester_of, node):
    tester = tester_of(transport__link__tx__lease=4000)
    tester.session().fence()
    variant = tester_node()
    with open(variant._stderr.name, "ab") as log:
        log.write(b"internal error: something in it failed\\n")

def tester_node():
    import gc
    from conformance.nodes.ref import RefNode
    return next(one for one in gc.get_objects() if isinstance(one, RefNode) and "variant" in one._name)
"""


def test_node_for_one_test_that_complains_fails_that_test(tmp_path: Path) -> None:
    done = run_own(COMPLAINS, tmp_path, "--node", "ref")
    assert done.returncode == 1, done.stdout
    (row,) = [row for row in verdicts(tmp_path / "run") if "::" in row["test"]]
    assert (row["outcome"], row["expected"]) == ("fail", "the node stays well")
    assert "something in it failed" in row["seen"]


FULL = """
from conformance.plugin import req

@req("ZN-INIT-001")
def test_all_sessions(tester):
    for _ in range(2):
        tester.session().fence()

@req("ZN-INIT-001")
def test_behind(tester):
    tester.session().fence()
"""


@pytest.mark.parametrize(("room", "outcome"), [(2, "pass"), (1, "n/a")])
def test_node_with_room_for_few_sessions_is_well_and_shows_what_it_can(
    tmp_path: Path, room: int, outcome: str
) -> None:
    node = f"{shlex.quote(sys.executable)} -m conformance.refnode --listen {{locator}} --max-sessions {room}"
    done = run_own(FULL, tmp_path, "--node", f"cmd:{node}")
    assert done.returncode == 0, done.stdout
    assert outcomes(tmp_path / "run") == {"test_all_sessions": outcome, "test_behind": "pass"}


IN_ONE_GROUP = """
import os, signal
from conformance.expect import check
from conformance.plugin import req
from conformance.suite.test_group import company, kept

pids = []

@req("ZN-JOIN-001")
def test_1(company):
    pids.append(company.node.pid)

@req("ZN-JOIN-001")
def test_2(company):
    pids.append(company.node.pid)
    check(len(set(pids)) > 1, "another node", "the same one")

@req("ZN-JOIN-001")
def test_3(company):
    pids.append(company.node.pid)
    check(len(set(pids)) == 2, "a node that was started behind the failure", "the same one")
    os.kill(company.node.pid, signal.SIGABRT)
    assert company.node.awaited_death()

@req("ZN-JOIN-001")
def test_4(company):
    pids.append(company.node.pid)
    check(len(set(pids)) == 3, "a node that was started behind the death", "the same one")

@req("ZN-JOIN-001")
def test_5(company):
    with open(company.node._stderr.name, "ab") as log:
        log.write(b"internal error: something in it failed\\n")
"""


def test_node_that_tests_of_a_group_share_is_started_again_behind_a_failure_only(tmp_path: Path) -> None:
    run_own(IN_ONE_GROUP, tmp_path, "--node", "ref")
    assert outcomes(tmp_path / "run") == {
        "test_1": "pass",
        "test_2": "fail",
        "test_3": "pass",
        "test_4": "pass",
        # Nothing but what the node says of itself.
        "test_5": "fail",
    }
