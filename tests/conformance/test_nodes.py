"""Ways to obtain a node."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.config import Credentials, Locator, RunConfig
from conformance.errors import NodeDidNotStart, NotApplicable, Unmet, UsageError
from conformance.nodes import foreign, node_of
from conformance.nodes.attach import AttachedNode
from conformance.nodes.base import ping, role_name
from conformance.nodes.child import ChildNode, private_scouting
from conformance.nodes.pypi import SPARES, PypiNode
from conformance.nodes.ref import RefNode
from conformance.tester import SessionEnd, why_not_well


def config(node: str, folder: Path, profile: str = "") -> RunConfig:
    return RunConfig(node=node, run_dir=folder, run_id="r", seed=1, profile=profile)


def test_real_node_starts_serves_and_ends(tmp_path: Path) -> None:
    node = PypiNode(tmp_path)
    with node:
        assert node.whatami == "router"
        assert node.problem(1.0) == ""
        assert int(node.zid, 16)
    assert node.death() == "the process is not running"
    assert why_not_well(node.locator)


def test_death_by_signal_is_noticed_and_a_restart_heals_it(tmp_path: Path) -> None:
    with PypiNode(tmp_path) as node:
        assert node._process is not None
        os.kill(node._process.pid, signal.SIGKILL)
        node._process.wait()
        assert node.problem(1.0) == "the process died of SIGKILL"
        node.restart()
        assert node.problem(1.0) == ""
        assert node.starts == 2


def test_what_a_process_said_is_kept_and_nothing_of_one_that_said_nothing(tmp_path: Path) -> None:
    with PypiNode(tmp_path) as node:
        node.ahead()
        assert len(list(tmp_path.iterdir())) == 2 * (1 + SPARES)
        with (tmp_path / "node-1.stderr").open("a") as log:
            log.write("something\n")
        node.restart()
    assert [file.name for file in tmp_path.iterdir()] == ["node-1.stderr"]


def test_node_of_ours_that_has_no_room_yet_is_asked_again_and_one_of_others_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = "a fresh session fails: expected OPEN A=1, seen CLOSE"
    with RefNode(tmp_path) as node:
        others = AttachedNode(node.locator)
        for one in node, others:
            # It notices late that the session before is over.
            found = iter([full, ""])
            monkeypatch.setattr(one, "_canary", lambda _, found=found: next(found))
        node.ask(60.0)
        with pytest.raises(NodeDidNotStart, match="seen CLOSE"):
            others.ask(60.0)


def test_stopped_process_is_noticed_by_the_ping(tmp_path: Path) -> None:
    with PypiNode(tmp_path) as node:
        assert node._process is not None
        os.kill(node._process.pid, signal.SIGSTOP)
        try:
            assert "a fresh session fails" in node.problem(0.1)
        finally:
            os.kill(node._process.pid, signal.SIGCONT)


def test_panic_on_standard_error_is_reported_once(tmp_path: Path) -> None:
    with PypiNode(tmp_path) as node:
        with (tmp_path / "node-1.stderr").open("a") as log:
            log.write("a line\nthread 'x' panicked at src/lib.rs:12:5:\nthe reason\n")
        assert node.problem(1.0) == "thread 'x' panicked at src/lib.rs:12:5: the reason"
        assert node.problem(1.0) == ""


def test_variant_has_its_own_configuration_and_process(tmp_path: Path) -> None:
    with PypiNode(tmp_path) as node, node.variant(mode="peer") as variant:
        assert variant.whatami == "peer"
        assert variant.locator != node.locator


@pytest.mark.parametrize("way", ["pypi", "ref"])
def test_node_of_ours_asks_for_the_user_that_the_run_names(tmp_path: Path, way: str) -> None:
    user = Credentials(user=b"alice", password=b"open sesame")
    with node_of(RunConfig(node=way, run_dir=tmp_path, run_id="run", seed=1, user=user)) as node:
        node.ask(2.0)
        assert (node.problem(2.0), bool(node.zid)) == ("", True)
        assert isinstance(node, ChildNode)
        assert node._process is not None
        assert b"sesame" not in Path(f"/proc/{node._process.pid}/cmdline").read_bytes()
        node.user = None
        assert "seen CLOSE" in node.problem(2.0)
        node.user = user
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"sesame" not in written
    with node.variant(mode="peer") as variant:
        assert (variant.user, variant.problem(2.0)) == (user, "")
    others = tmp_path / "others.txt"
    others.write_text("bob:x\n")
    assert node.variant(transport__auth__usrpwd__dictionary_file=str(others)).user is None


def test_password_with_which_a_reference_node_connects_is_not_in_its_command(tmp_path: Path) -> None:
    who = {f"transport/auth/usrpwd/{name}": word for name, word in (("user", "me"), ("password", "sesame"))}
    with RefNode(tmp_path, config={**who, "connect/endpoints": ["tcp/127.0.0.1:1"]}) as node:
        assert node._process is not None
        process = Path(f"/proc/{node._process.pid}")
        assert b"--credentials\0me\0" in (process / "cmdline").read_bytes()
        assert b"sesame" not in (process / "cmdline").read_bytes()
        assert b"ZENOH_PASSWORD=sesame\0" in (process / "environ").read_bytes()


def test_configuration_the_node_refuses_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(NodeDidNotStart, match=r"did not start: .*exit code 1") as caught:
        PypiNode(tmp_path, config={"no/such/path": 1}).start()
    assert "\n" not in str(caught.value)


def test_port_in_use_is_one_line(tmp_path: Path) -> None:
    with PypiNode(tmp_path) as node:
        taken = [str(node.locator)]
        with pytest.raises(NodeDidNotStart, match="did not start"):
            PypiNode(tmp_path, config={"listen/endpoints": taken}, name="second").start()


def test_release_that_is_no_release_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a release"):
        PypiNode(tmp_path, version="../x")


def test_prefix_of_the_option_chooses_the_way(tmp_path: Path) -> None:
    assert isinstance(node_of(config("pypi", tmp_path)), PypiNode)
    attached = node_of(config("tcp/127.0.0.1:1", tmp_path, "eclipse-zenoh:1.10.2"))
    assert (attached.impl, attached.version) == ("eclipse-zenoh", "1.10.2")
    with pytest.raises(UsageError, match="must be a locator"):
        node_of(config("docker", tmp_path))
    with pytest.raises(UsageError, match="--profile"):
        node_of(config("pypi", tmp_path, "x"))


def test_attached_node_has_no_variants() -> None:
    with pytest.raises(NotApplicable, match="configuration of its own"):
        AttachedNode(Locator("tcp", "127.0.0.1", 1)).variant(mode="peer")


def test_kill_ends_a_node_that_ignores_everything(tmp_path: Path) -> None:
    with PypiNode(tmp_path) as node:
        assert node._process is not None
        os.kill(node._process.pid, signal.SIGSTOP)
        node.kill()
        assert node.death() == "the process is not running"
        node.start()
        assert node.problem(1.0) == ""


def test_interrupt_while_a_node_starts_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    def interrupted(node: ChildNode, _pipe: object, _log: Path) -> bytes:
        assert node.pid is not None
        started.append(node.pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(ChildNode, "_ready_line", interrupted)
    node = RefNode(tmp_path)
    with pytest.raises(KeyboardInterrupt), node:
        pass
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


def test_next_start_takes_over_what_was_started_ahead(tmp_path: Path) -> None:
    with PypiNode(tmp_path) as node:
        first = node.pid
        node.ahead()
        node.ahead()
        ahead = [spare.process for spare in node._spares]
        assert len({first, *(process.pid for process in ahead)}) == 1 + SPARES
        node.kill()
        node.start()
        assert node.pid == ahead[0].pid
        assert node.starts == 2
        assert node.problem(1.0) == ""
        # Its words are its own.
        assert node._stderr is not None
        assert Path(node._stderr.name) == tmp_path / "node-2.stderr"
        node.ahead()
        assert node._spares[-1].number == 4
        later = node._spares[-1].process
    assert [process.poll() for process in (*ahead[1:], later)] == [-signal.SIGKILL] * 2


def test_start_passes_over_what_has_died_while_it_stood_ready(tmp_path: Path) -> None:
    with PypiNode(tmp_path) as node:
        node.ahead()
        dead, *others = [spare.process for spare in node._spares]
        dead.kill()
        dead.wait()
        node.kill()
        node.start()
        assert node.pid == others[0].pid
        assert node.starts == 3
        for process in others[1:]:
            process.kill()
            process.wait()
        node.kill()
        node.start()
        assert node.problem(1.0) == ""


def test_what_stands_ready_does_not_hear_what_is_asked_of_the_node(tmp_path: Path) -> None:
    with PypiNode(tmp_path, config=private_scouting()) as node:
        group = node.scouting
        node.ahead()
        node.kill()
        node.start()
        assert node.scouting not in {None, group}
        assert node.problem(1.0) == ""


@pytest.mark.parametrize("config", [{"mode": "peer"}, {"connect/endpoints": ["tcp/127.0.0.1:1"]}])
def test_nothing_that_speaks_to_others_is_started_ahead(tmp_path: Path, config: dict[str, object]) -> None:
    node = PypiNode(tmp_path, config=config)
    node.ahead()
    assert not node._spares


def test_core_files_are_off(tmp_path: Path) -> None:
    with PypiNode(tmp_path) as node:
        assert node._process is not None
        limits = Path(f"/proc/{node._process.pid}/limits").read_text()
        (line,) = [line for line in limits.splitlines() if line.startswith("Max core file size")]
        assert line.split()[4] == "0"


def drip(link: socket.socket) -> None:
    """Sends one byte after the other, for ever."""
    with contextlib.suppress(OSError):
        while True:
            link.sendall(b"\x20")
            link.settimeout(0.02)
            with contextlib.suppress(TimeoutError):
                link.recv(100)


def close(link: socket.socket) -> None:
    """Closes at once."""
    link.close()


def speak(link: socket.socket) -> None:
    """Speaks another protocol."""
    with contextlib.suppress(OSError):
        link.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def reset(link: socket.socket) -> None:
    """Resets the connection."""
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    link.close()


@pytest.mark.parametrize("manner", [drip, close, speak, reset])
def test_something_that_misbehaves_is_given_up_in_time_with_a_reason(
    manner: Callable[[socket.socket], None],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    link, _ = server.accept()
                    with link:
                        manner(link)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        node = AttachedNode(Locator("tcp", "127.0.0.1", server.getsockname()[1]))
        began = time.monotonic()
        with pytest.raises(NodeDidNotStart) as caught:
            node.ask(0.3)
        assert "\n" not in str(caught.value)
        assert node.problem(0.3)
        assert time.monotonic() - began < 60
        server.shutdown(socket.SHUT_RDWR)
        thread.join(60)


def test_role_that_is_none_stays_a_number() -> None:
    assert [role_name(code) for code in (0, 1, 2, 3)] == ["router", "peer", "client", "role 3"]


def test_node_that_ends_no_query_is_asked_in_another_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with PypiNode(tmp_path) as node:
        attached = AttachedNode(node.locator)
        ways = []

        def unless_query(end: SessionEnd) -> None:
            ways.append(attached.fence)
            if attached.fence == "query":
                raise Unmet("an end", "none")
            ping(end)

        monkeypatch.setattr(foreign, "ping", unless_query)
        attached.ask(5.0)
        assert attached.fence == "interest"
        assert ways == ["query", "interest"]
        assert attached.problem(5.0) == ""
