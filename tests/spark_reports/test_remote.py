import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.connect.client.retries import DefaultPolicy

from spark_reports.engine import remote
from spark_reports.engine.java import Java
from spark_reports.engine.remote import PORT, Place, address, check_answers, stop
from spark_reports.errors import EngineFailed, WrongUse

JAVA = Java(Path("java"), 17, "PATH", None)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sc://host", ("host", PORT)),
        ("sc://host:1/;user_id=a", ("host", 1)),
        ("sc://[::1]:2", ("::1", 2)),
    ],
)
def test_address_is_read_from_the_url(url: str, expected: tuple[str, int]) -> None:
    assert address(url) == expected


@pytest.mark.parametrize("url", ["host:1", "spark://host:1", "sc://", "sc://host:99999", "local[2]"])
def test_url_that_is_none_is_wrong_use(url: str) -> None:
    with pytest.raises(WrongUse, match="--remote"):
        address(url)


def test_server_that_answers_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_answers("server", *server.getsockname())


def test_server_that_does_not_answer_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        host, port = taken.getsockname()
        with pytest.raises(EngineFailed, match=rf"^no server answers at {host}:{port} \("):
            check_answers("server", host, port)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_RUNTIME_DIR": str(tmp_path)}


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing, as the server would be."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def test_place_is_for_this_user_alone(environ: dict[str, str], tmp_path: Path) -> None:
    place = Place.of(environ)
    place.make()
    place.make()
    assert place.folder.is_relative_to(tmp_path)
    assert place.folder.stat().st_mode & 0o777 == 0o700


def test_place_that_is_a_file_is_named(environ: dict[str, str]) -> None:
    place = Place.of(environ)
    place.folder.write_text("")
    with pytest.raises(EngineFailed, match=f"--warm: {place.folder} cannot be used"):
        place.make()


@pytest.mark.parametrize("text", [None, "", "{}", '{"pid": "x"}', "[]"])
def test_server_that_left_no_word_does_not_run(environ: dict[str, str], text: str | None) -> None:
    place = Place.of(environ)
    place.make()
    if text is not None:
        place.discovery.write_text(text)
    assert place.process() is None
    assert stop(environ) is False


def test_server_runs_as_long_as_its_process(
    environ: dict[str, str], process: subprocess.Popen[bytes]
) -> None:
    place = Place.of(environ)
    place.make()
    place.discovery.write_text(json.dumps({"pid": process.pid}))
    assert place.process() == process.pid
    place.write_state("digest", remote.LONG)
    assert (place.state(), place.kind()) == (("digest", remote.LONG), remote.LONG)
    process.kill()
    process.wait()
    assert place.process() is None
    assert place.kind() == ""


def test_process_that_is_no_server_is_not_ended(
    environ: dict[str, str], process: subprocess.Popen[bytes]
) -> None:
    place = Place.of(environ)
    place.make()
    told = {"pid": process.pid, "port": 1, "host": "localhost", "token": "t", "spark_version": "4"}
    place.discovery.write_text(json.dumps(told))
    assert stop(environ) is False
    assert process.poll() is None


def _waiting(*arguments: str) -> subprocess.Popen[bytes]:
    """Starts a process that waits to be killed; while it only starts, it has no command line, as one that ends."""
    wait = "import sys; print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", wait, *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    return process


def test_server_that_no_longer_listens_is_waited_for(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark starts no other server while the process of the last one is there."""
    monkeypatch.setattr(remote, "STOP_S", 0.05)
    place = Place.of(environ)
    place.make()
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        _waiting("SparkConnectServer") as server,
        _waiting() as other,
    ):
        place.discovery.write_text(json.dumps({"pid": server.pid, "port": listening.getsockname()[1]}))
        place.let_end()
        # Port 1 is nobody's here, and a process that got the number of a server is none.
        place.discovery.write_text(json.dumps({"pid": other.pid, "port": 1}))
        place.let_end()
        place.discovery.write_text(json.dumps({"pid": server.pid, "port": 1}))
        with pytest.raises(EngineFailed, match=f"process {server.pid}, does not stop"):
            place.let_end()
        (place.folder / "spark-x.pid").write_text(str(server.pid))
        server.kill()
        # It stays as a zombie until it is waited for, which is what Spark would see.
        place.let_end()
        assert not list(place.folder.glob("*.pid"))


def test_server_that_stays_is_named(
    monkeypatch: pytest.MonkeyPatch, process: subprocess.Popen[bytes]
) -> None:
    with monkeypatch.context() as impatient:
        impatient.setattr(remote, "STOP_S", 0.05)
        with pytest.raises(EngineFailed, match=f"process {process.pid}, does not stop"):
            remote._wait_for_end(process.pid)
    process.kill()
    remote._wait_for_end(process.pid)


def test_changed_code_needs_another_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "spark_reports" / "engine"
    package.mkdir(parents=True)
    module = package / "remote.py"
    module.write_text("")
    monkeypatch.setattr(remote, "_ROOT", tmp_path)
    os.utime(module, (1, 1))
    before = remote._digest(JAVA, ())
    assert remote._digest(JAVA, ()) == before
    assert remote._digest(JAVA, ("-XX:SharedArchiveFile=a",)) != before
    os.utime(module, (2, 2))
    assert remote._digest(JAVA, ()) != before


def test_another_interpreter_needs_another_server_and_another_name_of_it_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = remote._digest(JAVA, ())
    monkeypatch.setattr(sys, "executable", f"{sys.executable}-by-another-name")
    assert remote._digest(JAVA, ()) == before
    monkeypatch.setattr(sys, "prefix", "/elsewhere")
    assert remote._digest(JAVA, ()) != before


def test_what_is_being_asked_again_is_given_up_at_the_end() -> None:
    policy = DefaultPolicy()
    session: Any = SimpleNamespace(client=SimpleNamespace(get_retry_policies=lambda: [policy]))
    remote._try_again(session, 4)
    asked = policy.to_state()
    assert asked.next_attempt() is not None
    remote._try_again(session, 0)
    assert asked.next_attempt() is None
