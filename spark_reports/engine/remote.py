"""Sessions over Spark Connect: on a server somewhere (``--remote``), or on a local one that stays (``--warm``).

The local server is Spark's own (``spark.local.connect.reuse``, new in 4.3 and called experimental there). The first
command with ``--warm`` starts it, later ones find it and save the start of Java; it takes about 1.3 GB of memory and
stays until ``zenoh-reports warmup --stop``. It is ours alone: it lies in a folder of this user, is bound to the
loopback address, and asks for a token that only this user can read. When our code, Python or Spark has changed since
it was started, it is ended and another one is started, so a command never runs on yesterday's code.
"""

import hashlib
import json
import os
import select
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from spark_reports.engine import packing
from spark_reports.engine.java import Java, home_for_spark
from spark_reports.engine.scratch import scratch
from spark_reports.engine.settings import (
    BULK,
    KEPT_PROGRAMS,
    LOCAL,
    LOOPBACK,
    PROGRAMS,
    QUICK,
    Profile,
    applied,
    environment,
    of_session,
    settings,
)
from spark_reports.errors import EngineFailed, WrongUse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PORT = 15002
"""Of a Spark Connect server, unless its URL says otherwise."""

ANSWER_S = 5.0
"""How long a server may take to accept a connection; Spark's client would go on trying for ten minutes."""

STOP_S = 20.0
"""How long the local server may take to end."""

IDLE_MS = 60_000
"""How often Java looks for memory to give back while nothing happens."""

ISOLATION = ("spark.sql.artifact.isolation.enabled", "spark.sql.artifact.isolation.alwaysApplyClassloader")
"""Name whether each session has Java classes of its own. None of ours brings any; isolated, each would compile anew
what those before it compiled, and run it slowly, as the new."""

RETRIES, RETRIES_AFAR = 4, 6
"""How often a server is asked again that does not answer, here and elsewhere: for four seconds, and for a minute."""

_NOT_STARTED = "LOCAL_CONNECT_SERVER_START_FAILED"
_ROOT = Path(__file__).parents[2]
"""Where the packages lie."""

SHORT, LONG = "short", "long"
"""Kinds of the local server: one with Java's quick compiler alone, which makes a report at once as fast as it will ever be,
and one with both, on which work of minutes takes a third of the time and reports are slow at first."""

_MODE = (
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_CONNECT_AUTHENTICATE_TOKEN",
    "SPARK_REMOTE",
    "SPARK_LOCAL_REMOTE",
)
"""Variables by which PySpark remembers that it works over Connect; they must not outlive the session."""


def check_answers(where: str, host: str, port: int, timeout_s: float = ANSWER_S) -> None:
    """Checks that something listens at an address, before Spark waits for it at length.

    Raises:
        EngineFailed: Nothing does; names the address and why.
    """
    try:
        with socket.create_connection((host, port), timeout_s):
            return
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        raise EngineFailed(f"no {where} answers at {host}:{port} ({why})") from error


def address(url: str) -> tuple[str, int]:
    """Returns host and port of a Connect URL.

    Raises:
        WrongUse: It is none.
    """
    parts = urlsplit(url)
    try:
        port = parts.port or PORT
    except ValueError as error:
        raise WrongUse(f"--remote {url}: {error}") from error
    if parts.scheme != "sc" or not parts.hostname:
        raise WrongUse(f"--remote {url} is not a Spark Connect URL such as sc://host:{PORT}")
    return parts.hostname, port


@contextmanager
def remote_session(url: str, profile: Profile, conf: Mapping[str, str]) -> Iterator["SparkSession"]:
    """Opens a session on a server, sends it our code, and closes it.

    Args:
        url: Of the server.
        profile: What the session is prepared for.
        conf: Settings of the session that win over ours.

    Raises:
        WrongUse: The URL is none.
        EngineFailed: No server answers there, or packages for Connect are missing.
    """
    check_answers("Spark Connect server", *address(url))
    with (
        scratch() as folder,
        applied(dict.fromkeys(_MODE)),
        _opened(url, of_session(profile, local=False)) as session,
    ):
        _set(session, conf)
        session.addArtifacts(str(packing.pack(folder)), pyfile=True)
        yield session


@contextmanager
def warm_session(
    java: Java,
    environ: Mapping[str, str],
    profile: Profile,
    conf: Mapping[str, str],
    *,
    archive: Sequence[str] = (),
) -> Iterator["SparkSession"]:
    """Opens a session on the local server, which is started if need be, and closes the session only.

    Args:
        java: What the server runs on.
        environ: The environment of the process.
        profile: What the session is prepared for, and a server that is started for it: for short work or long.
        conf: Settings of the session that win over ours.
        archive: Options with which Java uses a class-data archive.

    Raises:
        EngineFailed: The server does not start, or packages for Connect are missing.
    """
    place = Place.of(environ)
    made = _digest(java, archive)
    if place.state()[0] not in {"", made}:
        stop(environ)
    kind = place.kind() or (SHORT if profile.fast else LONG)
    place.make()
    changes = environment(LOCAL, home_for_spark(java, environ, place.folder), place.folder, environ)
    changes |= dict.fromkeys(_MODE)
    # The server leaves the folder of the checkout that it is started from.
    root = str(_ROOT)
    changes["PYTHONPATH"] = os.pathsep.join(filter(None, (root, environ.get("PYTHONPATH"))))
    # A server that waits gives memory back.
    idle = ("-XX:+UseG1GC", f"-XX:G1PeriodicGCInterval={IDLE_MS}")
    kept = f"-D{KEPT_PROGRAMS}={PROGRAMS}"
    # Otherwise an empty folder in that of whoever starts it.
    tables = f"-Dspark.sql.warehouse.dir={place.folder / 'tables'}"
    quick = (QUICK,) if kind == SHORT else ()
    started = settings(LOCAL, place.folder, BULK, java_options=[*archive, *idle, *quick, kept, tables])
    # No session may set these, and each would try to: nothing of ours is ever put there, and Java knows the other.
    del started["spark.sql.warehouse.dir"], started[KEPT_PROGRAMS]
    changes |= {
        "SPARK_LOCAL_CONNECT_REUSE": "1",
        "SPARK_LOCAL_CONNECT_DISCOVERY": str(place.discovery),
        # What only the start of a server may set; a session that found one would be told off for each.
        "PYSPARK_REMOTE_INIT_CONF_LEN": "1",
        "PYSPARK_REMOTE_INIT_CONF_0": json.dumps(started),
    }
    with applied(changes):
        place.write_state(made, kind)
        # What the first session is opened with, the server is started with, for all that come.
        with _on_server(place) as session, _sharing(session) as sharing:
            _set(sharing, {**of_session(profile, local=True), **conf})
            yield sharing


@contextmanager
def _on_server(place: "Place") -> Iterator["SparkSession"]:
    """Opens a session on the local server; where one is about to end, on the next."""
    from pyspark.errors import PySparkException

    # If none runs: Spark takes the same port each time, and so would two users who start theirs at the same time.
    start = {"spark.local.connect.server.port": str(_free_port())}
    with ExitStack() as stack:
        try:
            session = stack.enter_context(_opened(LOCAL, start))
        except PySparkException as error:
            if error.getCondition() != _NOT_STARTED:
                raise
            place.let_end()
            session = stack.enter_context(_opened(LOCAL, start))
        yield session


def _free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def _opened(url: str, options: Mapping[str, str]) -> Iterator["SparkSession"]:
    try:
        from pyspark.errors import PySparkImportError
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise EngineFailed(f"{error.name} is missing: `pip install 'zenoh-harness[reports]'`") from error
    builder = SparkSession.builder.remote(url)
    for name, value in options.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except (PySparkImportError, ImportError) as error:
        raise EngineFailed(
            f"Spark Connect needs more packages: `pip install 'zenoh-harness[connect]'` ({error})"
        ) from error
    _try_again(session, RETRIES if url == LOCAL else RETRIES_AFAR)
    try:
        yield session
    finally:
        _try_again(session, 0)
        session.stop()


def _try_again(session: "SparkSession", times: int) -> None:
    """Says how often what gets no answer is asked again. Left alone, that is ten minutes for each question."""
    # Others in their place would not be heeded by what is being asked again already, which the end of a session waits for.
    for policy in session.client.get_retry_policies():
        policy.max_retries = times


def _set(session: "SparkSession", options: Mapping[str, str]) -> None:
    """Sets settings one by one, so that what cannot be set is told; a builder passes over that."""
    for name, value in options.items():
        session.conf.set(name, value)


@contextmanager
def _sharing(session: "SparkSession") -> Iterator["SparkSession"]:
    """Opens a session beside another that shares what it compiles with all others of its kind.

    A server isolates each session with its first request, before that can say that it need not be; a clone is asked
    with the settings that it was made with.
    """
    _set(session, dict.fromkeys(ISOLATION, "false"))
    clone: SparkSession = session.cloneSession()  # type: ignore[attr-defined]  # sessions over Connect have it
    _try_again(clone, RETRIES)
    try:
        yield clone
    finally:
        _try_again(clone, 0)
        clone.stop()


@dataclass(frozen=True, slots=True)
class Place:
    """The folder in which the local server leaves word of itself."""

    folder: Path

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Place":
        """Returns the place of this user; it may not exist."""
        runtime = Path(environ.get("XDG_RUNTIME_DIR", ""))
        base = runtime if runtime.is_absolute() and runtime.is_dir() else Path(tempfile.gettempdir())
        return cls(base / f"zenoh-reports-{os.getuid()}")

    @property
    def discovery(self) -> Path:
        """The file in which Spark writes port, token and process."""
        return self.folder / "server.json"

    def make(self) -> None:
        """Makes the folder, for nobody else to look into.

        Raises:
            EngineFailed: It is there and another user's.
        """
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self.folder.chmod(0o700)
        except OSError as error:
            raise EngineFailed(f"--warm: {self.folder} cannot be used ({error.strerror})") from error

    def state(self) -> tuple[str, str]:
        """Returns a digest of what the server was started with, and its kind; empty ones if none was."""
        file = self.folder / "state"
        there = file.read_text(encoding="utf-8") if file.is_file() and self.discovery.is_file() else ""
        made, _, kind = there.partition(" ")
        return made, kind

    def kind(self) -> str:
        """Returns for which work the server that runs was started, ``SHORT`` or ``LONG``; empty if none runs."""
        return self.state()[1] if self.process() is not None else ""

    def write_state(self, made: str, kind: str) -> None:
        """Notes what the server is started with."""
        (self.folder / "state").write_text(f"{made} {kind}", encoding="utf-8")

    def process(self) -> int | None:
        """Returns the process of the server that was started last, if it still runs."""
        try:
            pid = int(json.loads(self.discovery.read_text(encoding="utf-8"))["pid"])
            os.kill(pid, 0)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return pid

    def let_end(self) -> None:
        """Waits for the end of a server that no longer listens: Spark starts no other before that.

        Raises:
            EngineFailed: It stays.
        """
        pid = self.process()
        if pid is None or not _is_server(pid):
            return
        port = json.loads(self.discovery.read_text(encoding="utf-8")).get("port")
        try:
            socket.create_connection((LOOPBACK, port), ANSWER_S).close()
        except (OSError, TypeError, OverflowError):
            _wait_for_end(pid)
            # Whose child it became may let its number stand for a while, or for ever; Spark takes that for a server.
            for file in self.folder.glob("*.pid"):
                file.unlink(missing_ok=True)


def _is_server(pid: int) -> bool:
    """Whether a process is Spark's server, and no other that has its number by now."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    # One that is ending has given back its memory, and with it what it was called with.
    return not command or b"SparkConnectServer" in command


def stop(environ: Mapping[str, str]) -> bool:
    """Ends the local server of this user and waits for its end; returns whether there was one.

    Raises:
        EngineFailed: It does not end.
    """
    place = Place.of(environ)
    pid = place.process()
    if pid is None:
        return False
    with applied({"SPARK_LOCAL_CONNECT_DISCOVERY": str(place.discovery)}):
        from pyspark.sql.connect.local_server import stop_local_connect_server

        if not stop_local_connect_server():
            return False
    _wait_for_end(pid)
    shutil.rmtree(place.folder)
    return True


def _wait_for_end(pid: int) -> None:
    """Waits until a process that is not our child is gone.

    Raises:
        EngineFailed: It stays.
    """
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if not select.select([handle], [], [], STOP_S)[0]:
            raise EngineFailed(f"the warm server, process {pid}, does not stop")
    finally:
        os.close(handle)


def _digest(java: Java, archive: Sequence[str]) -> str:
    """Returns what must not have changed if a server that runs is to be used."""
    digest = hashlib.sha256()
    # The same interpreter goes by several names: python, python3, and what a script begins with.
    for part in (sys.prefix, sys.version, str(java), *archive):
        digest.update(part.encode("utf-8", "surrogateescape") + b"\0")
    for package in packing.PACKAGES:
        folder = _ROOT / package
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path}\0{path.stat().st_mtime_ns}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
