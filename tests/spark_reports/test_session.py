import argparse
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from py4j.clientserver import ClientServerConnection  # type: ignore[import-untyped]
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark_reports.engine import progress, remote, session
from spark_reports.engine.archive import archive_for
from spark_reports.engine.java import Java
from spark_reports.engine.session import add_engine_options, engine_session
from spark_reports.engine.settings import BULK, FAST, FAST_LIMIT_BYTES, SMALL, Profile, spark_home
from spark_reports.errors import DataTrouble, EngineFailed, NoJava, WrongUse

ROOT = Path(__file__).parents[2]


def run(code: list[str], folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    (folder / "tmp").mkdir()
    return subprocess.run(
        [sys.executable, *code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "tmp"), **environ},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def broken_java(tmp_path: Path) -> Path:
    """A home of a Java that tells its version and does nothing else."""
    java = tmp_path / "jvm" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\n"
        '[ "$1" = -version ] && echo \'version "21.0.1"\' && exit\n'
        "echo 'Error: no room for a heap.' >&2\n"
        "exit 1\n"
    )
    java.chmod(0o755)
    return tmp_path / "jvm"


@pytest.fixture
def waiting_java(tmp_path: Path) -> Path:
    """A home of a Java that says when it begins, and ends with its input."""
    java = tmp_path / "waiting" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\n"
        '[ "$1" = -version ] && echo \'version "21.0.1"\' && exit\n'
        f"echo began > '{tmp_path}/began'\n"
        "cat\n"
        f"echo ended > '{tmp_path}/ended'\n"
    )
    java.chmod(0o755)
    return tmp_path / "waiting"


def test_spark_is_quiet_leaves_nothing_and_can_be_started_again(tmp_path: Path, broken_java: Path) -> None:
    code = """if True:
        import os, sys
        from spark_reports.errors import EngineFailed
        from spark_reports.engine.java import find_java
        from spark_reports.engine.session import spark_session
        from spark_reports.engine.settings import SMALL
        with spark_session(find_java(os.environ), os.environ, SMALL) as spark:
            print(spark.range(4).repartition(2).count(), "zenoh" in spark.conf.get("spark.sql.warehouse.dir"))
        print(os.environ["SPARK_HOME"], "SPARK_LOCAL_IP" in os.environ)
        try:
            with spark_session(find_java({"JAVA_HOME": sys.argv[1]}), os.environ) as spark:
                print("still on the first Java")
        except EngineFailed as error:
            print("Java 21" in str(error))
    """
    done = run(
        ["-c", code, str(broken_java)],
        tmp_path,
        SPARK_HOME="/nowhere/spark",
        SPARK_CONF_DIR="/nowhere/conf",
        PYSPARK_SUBMIT_ARGS="--master spark://nowhere:1 pyspark-shell",
        PYSPARK_PYTHON="/nowhere/python",
        HADOOP_CONF_DIR="/nowhere/hadoop",
    )
    assert (done.stdout, done.stderr) == ("4 True\n/nowhere/spark False\nTrue\n", "")
    assert [path.name for path in (tmp_path / "tmp").iterdir() if "hsperfdata" not in path.name] == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jvm", "tmp"]


def test_java_that_cannot_run_spark_is_one_line(tmp_path: Path, broken_java: Path) -> None:
    done = run(["-m", "spark_reports", "doctor"], tmp_path, JAVA_HOME=str(broken_java))
    assert done.returncode == 4
    (line,) = done.stderr.splitlines()
    assert "Spark does not start on Java 21" in line
    assert "Error: no room for a heap. `zenoh-reports doctor`" in line
    assert "pyspark    " in done.stdout


def test_java_that_cannot_write_its_address_is_not_waited_for(
    tmp_path: Path, broken_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_active", lambda: None)
    java = broken_java / "bin" / "java"
    # As on a disk that is full: the thread that should write has ended, others have not.
    told = "echo 'Exception in thread \"main\" java.io.IOException: No space left on device' >&2"
    java.write_text(
        java.read_text()
        .replace("exit 1", f"echo $$ > '{tmp_path}/pid'\n{told}\nexec sleep 600")
        .replace("Error: no", "no")
    )
    with (
        pytest.raises(EngineFailed, match=r"IOException: No space left on device\. `zenoh-reports"),
        engine_session(parse(), environ={"JAVA_HOME": str(broken_java)}),
    ):
        pytest.fail("started")
    # What stands for Java here is started by the script that looks for its command, and outlives it.
    os.kill(int((tmp_path / "pid").read_text(encoding="ascii")), signal.SIGTERM)


def test_what_fails_while_java_begins_ends_it(
    tmp_path: Path, waiting_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_active", lambda: None)

    def fail() -> None:
        with (tmp_path / "began").open() as began:
            # Its first word comes when it runs.
            assert began.readline() == "began\n"
        raise DataTrouble("it fails")

    os.mkfifo(tmp_path / "began")
    with (
        pytest.raises(DataTrouble, match="it fails"),
        engine_session(parse(), environ={"JAVA_HOME": str(waiting_java)}, meanwhile=fail),
    ):
        pytest.fail("started")
    assert (tmp_path / "ended").read_text(encoding="utf-8") == "ended\n"


def test_what_else_is_to_be_done_is_done_before_the_body(spark: SparkSession) -> None:
    done: list[str] = []
    with engine_session(parse(), meanwhile=lambda: done.append("meanwhile")) as found:
        assert found is spark
        assert done == ["meanwhile"]


REFUSED: Mapping[tuple[str, str], tuple[int, str]] = {
    # Options; the status; words of the line.
    ("--master", "local[x]"): (2, "--master: org.apache.spark.SparkException: Could not parse Master URL"),
    ("--master", "local[0]"): (2, "--master: org.apache.spark.SparkException: Asked to run locally with 0"),
    ("--memory", "999999g"): (4, "initialization of VM: Could not reserve enough space"),
    ("--conf", "spark.local.dir=/proc/nope"): (4, "Exception: /proc/nope. `zenoh-reports doctor`"),
}


@pytest.fixture(scope="module")
def refused(
    tmp_path_factory: pytest.TempPathFactory,
    make_run_in: Callable[..., Path],
    verdict_row: Callable[..., Any],
) -> dict[tuple[str, str], tuple[int, str]]:
    """Returns status and what was said of a command with each; all in one process, whose imports take their time."""
    folder = tmp_path_factory.mktemp("refused")
    runs = make_run_in(folder / "runs", "r1", verdicts=[verdict_row()])
    code = """if True:
        import contextlib, io, json, sys
        from spark_reports.__main__ import main
        told = []
        for options in json.loads(sys.argv[1]):
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                told.append([main(["query", "SELECT 1", "--store", sys.argv[2], *options]), said.getvalue()])
        print(json.dumps(told))
    """
    done = run(["-c", code, json.dumps(list(REFUSED)), str(runs)], folder)
    assert (done.stderr, done.returncode) == ("", 0)
    return dict(zip(REFUSED, map(tuple, json.loads(done.stdout)), strict=True))


@pytest.mark.parametrize("options", REFUSED, ids=" ".join)
def test_context_that_spark_refuses_is_one_line_that_says_why(
    refused: dict[tuple[str, str], tuple[int, str]], options: tuple[str, str]
) -> None:
    code, words = REFUSED[options]
    status, said = refused[options]
    assert status == code, said
    started, *hint, line = said.splitlines()
    # Where there is no archive.
    assert all("zenoh-reports warmup" in one for one in hint)
    assert started.startswith("starting Spark")
    assert line.startswith("zenoh-reports: ")
    assert words in line


def test_java_that_was_killed_is_an_engine_that_failed() -> None:
    for error in (Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111, "refused")):
        with pytest.raises(EngineFailed, match="Java ended"), session._explained():
            raise error
    # What reads our words may end as well.
    with pytest.raises(BrokenPipeError), session._explained():
        raise BrokenPipeError
    # What went wrong is told, and not that there is no Java to end any more.
    with session._java_may_be_gone():
        raise ConnectionRefusedError(111, "refused")


def test_java_that_ends_while_it_is_asked_has_told_nothing() -> None:
    class Gone(Exception):
        def __str__(self) -> str:
            raise ConnectionRefusedError(111, "Connection refused")

    assert session._told(Gone()) == ""
    assert session._told(ConnectionResetError(104, "Connection reset")) == ""
    assert session._told(ValueError("no room")) == "no room"


@pytest.mark.usefixtures("spark")
def test_java_that_hangs_up_is_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    from pyspark.accumulators import AccumulatorTCPServer, UpdateRequestHandler

    with AccumulatorTCPServer(("127.0.0.1", 0), UpdateRequestHandler, "secret") as server:
        with socket.create_connection(server.socket.getsockname()) as line:
            line.sendall(b"secret")
        server.handle_request()
        assert capsys.readouterr().err == ""
        with socket.create_connection(server.socket.getsockname()) as line:
            line.sendall(b"wrong!")
        server.handle_request()
        assert "ValueError" in capsys.readouterr().err


def test_line_that_leads_nowhere_is_followed_by_the_cause() -> None:
    text = (
        "Error while instantiating 'X':\n\nJVM stacktrace:\njava.lang.A: Error while instantiating 'X':\n"
        "\tat x.Y.z(Y.scala:1)\nCaused by: java.lang.B: between\n\tat x\nCaused by: java.lang.C: no room"
    )
    assert session._first_line(RuntimeError(text)) == "Error while instantiating 'X': no room"


def test_what_went_wrong_on_the_way_to_spark_connect_is_told(closed_port: int) -> None:
    address = f"127.0.0.1:{closed_port}"
    with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError) as raised:
        channel.unary_unary("/nobody/listens")(b"", timeout=600)
    told = session._first_line(RuntimeError(f"{raised.value}: RPC failed. There is more to say."))
    assert told.startswith("UNAVAILABLE: failed to connect")
    assert "\n" not in told


def test_what_a_worker_raised_is_told_without_its_stack() -> None:
    text = (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        '  File "x.py", line 6, in y\n    raise OSError(28)\nOSError: [Errno 28] No space left on device\n\n'
        "\tat org.apache.spark.X.y(X.scala:1)\n"
    )
    assert session._first_line(RuntimeError(text)) == "OSError: [Errno 28] No space left on device"


def test_session_uses_the_archive_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "spark_home", lambda: tmp_path)
    java, environ = Java(Path(sys.executable), 17, "PATH", None), {"XDG_CACHE_HOME": str(tmp_path)}
    assert session._archive_options(java, environ, None) == ()
    archive = archive_for(java, tmp_path, environ)
    assert archive is not None
    with archive.make() as made:
        made.write_bytes(b"classes")
    os.utime(archive.path, (0, 0))
    assert f"-XX:SharedArchiveFile={archive.path}" in session._archive_options(java, environ, None)
    assert archive.path.stat().st_mtime > 0
    target = tmp_path / "new.jsa"
    assert session._archive_options(java, environ, target) == (f"-XX:ArchiveClassesAtExit={target}",)


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_engine_options(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    "words",
    [
        ("--master", "spark://a:1", "--remote", "sc://a"),
        ("--remote", "sc://a", "--warm"),
        ("--profile", "slow"),
        ("--memory", "lots"),
        ("--memory", "0g"),
        ("--memory", "511m"),
        ("--conf", "spark.executor.memory"),
        ("--conf", "memory=1g"),
    ],
)
def test_options_that_make_no_sense_are_wrong_use(words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(*words)
    assert caught.value.code == 2


class Started:
    """Stands for Spark: notes how it was to be started."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.how: tuple[str, dict[str, Any]] | None = None
        self.said: list[str] = []
        for module, name in (
            (session, "spark_session"),
            (remote, "remote_session"),
            (remote, "warm_session"),
            (session, "_submitted"),
        ):
            monkeypatch.setattr(module, name, self._note(name))
        monkeypatch.setattr(session, "_active", lambda: None)
        monkeypatch.setattr(session, "find_java", lambda _: Java(Path("java"), 17, "PATH", None))
        monkeypatch.setattr(progress, "shown", lambda *_, **__: contextmanager(lambda: iter([None]))())

    def _note(self, name: str) -> Any:
        @contextmanager
        def start(*given: object, **values: Any) -> Iterator[None]:
            profiles = [value for value in given if isinstance(value, Profile)]
            self.how = (name, values | dict.fromkeys(["profile"], *profiles))
            yield

        return start

    def __call__(self, *words: str, input_bytes: int = 0, **environ: str) -> tuple[str, dict[str, Any]]:
        with engine_session(parse(*words), input_bytes=input_bytes, say=self.said.append, environ=environ):
            pass
        assert self.how is not None
        return self.how


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    return Started(monkeypatch)


def test_without_options_spark_runs_here(started: Started) -> None:
    name, how = started()
    assert (name, how["master"], how["profile"]) == ("spark_session", "local[*]", SMALL)
    assert started.said == ["starting Spark on Java 17 (PATH: java)"]


def test_command_says_how_spark_starts_faster_until_it_does(
    started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hint = "this takes half as long once `zenoh-reports warmup` was run"
    java = Java(Path(sys.executable), 17, "PATH", None)
    monkeypatch.setattr(session, "find_java", lambda _: java)
    started(HOME=str(tmp_path))
    assert started.said.pop() == hint
    started("--master", "spark://host:7077", HOME=str(tmp_path))
    archive = archive_for(java, spark_home(), {"HOME": str(tmp_path)})
    assert archive is not None
    archive.path.parent.mkdir(parents=True)
    archive.path.touch()
    started(HOME=str(tmp_path))
    assert hint not in started.said


def test_much_to_read_is_bulk_unless_told_otherwise(started: Started) -> None:
    assert started(input_bytes=FAST_LIMIT_BYTES)[1]["profile"] == BULK
    assert started("--profile", "fast", input_bytes=FAST_LIMIT_BYTES)[1]["profile"] == FAST
    assert started("--profile", "bulk")[1]["profile"] == BULK


def test_memory_and_settings_reach_spark_and_settings_win(started: Started) -> None:
    words = ("--memory", "3G", "--conf", "spark.a=b=c", "--conf", "spark.d=")
    assert started(*words)[1]["conf"] == {"spark.driver.memory": "3g", "spark.a": "b=c", "spark.d": ""}
    assert started("--memory", "3g", "--conf", "spark.driver.memory=4g")[1]["conf"] == {
        "spark.driver.memory": "4g"
    }


def test_each_place_is_reached_by_its_option(started: Started) -> None:
    assert started("--master", "spark://a:1")[1]["master"] == "spark://a:1"
    assert started("--remote", "sc://a", "--conf", "spark.x=y")[0] == "remote_session"
    assert started("--warm")[0] == "warm_session"
    assert started(PYSPARK_GATEWAY_PORT="1")[0] == "_submitted"


@pytest.mark.parametrize(
    ("kind", "words", "told"),
    [
        ("short", ("--profile", "bulk"), True),
        ("short", (), False),
        ("long", ("--profile", "bulk"), False),
        ("", ("--profile", "bulk"), False),
    ],
)
def test_long_work_on_a_server_for_short_work_is_told(
    started: Started, monkeypatch: pytest.MonkeyPatch, kind: str, words: tuple[str, ...], *, told: bool
) -> None:
    monkeypatch.setattr(remote.Place, "kind", lambda _: kind)
    started("--warm", *words)
    assert ("`zenoh-reports warmup --stop`" in " ".join(started.said)) is told


def test_remote_needs_no_java(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_java(_: object) -> None:
        raise NoJava("none")

    monkeypatch.setattr(session, "find_java", find_java)
    assert started("--remote", "sc://a")[0] == "remote_session"
    with pytest.raises(NoJava):
        started("--warm")


def test_session_that_is_there_is_used_and_left(spark: SparkSession) -> None:
    with engine_session(parse("--master", "spark://nowhere:1")) as found:
        assert found is spark
    assert spark.range(2).count() == 2


@pytest.mark.usefixtures("spark")
def test_java_is_asked_once_for_each_step_to_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    # PySpark would look for each function twice more, and name the line of each operator with five questions.
    sf.max(sf.col("known") + 1)
    asked: list[str] = []
    ask = ClientServerConnection.send_command

    def send(connection: ClientServerConnection, command: str) -> str:
        asked.append(command)
        return str(ask(connection, command))

    monkeypatch.setattr(ClientServerConnection, "send_command", send)
    sf.max(sf.col("asked") + 1)
    # What Python has forgotten, Java is told to forget with "m", some time.
    assert [command[0] for command in asked if command[0] != "m"] == ["c", "c", "c"]


def test_place_chosen_under_spark_submit_is_wrong_use() -> None:
    with (
        pytest.raises(WrongUse, match="options of spark-submit"),
        session._submitted(parse("--warm"), SMALL, {}),
    ):
        pytest.fail("started")


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that is taken, and at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def test_master_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch, closed_port: int) -> None:
    monkeypatch.setattr(session, "_active", lambda: None)
    with (
        pytest.raises(EngineFailed, match=rf"^no Spark master answers at 127.0.0.1:{closed_port} \("),
        engine_session(parse("--master", f"spark://127.0.0.1:{closed_port}")),
    ):
        pytest.fail("started")


def test_one_of_several_masters_may_be_down() -> None:
    assert session._masters("spark://a:1") == [("a", 1)]
    assert session._masters("spark://a:1,b:2") == session._masters("yarn") == []


def test_error_of_a_java_that_was_ended_with_the_command_is_an_interrupt() -> None:
    def interrupted(error: Exception) -> None:
        with session._explained():
            try:
                raise KeyboardInterrupt
            finally:
                # As a query that is told to stop, of a Java that got the same signal.
                raise error

    for error in (Py4JNetworkError("gone"), PySparkException("stopped"), ConnectionRefusedError()):
        with pytest.raises(KeyboardInterrupt):
            interrupted(error)
    with pytest.raises(KeyError):
        interrupted(KeyError("a fault of ours"))
    with pytest.raises(EngineFailed), session._explained():
        raise PySparkException("stopped")
