"""One factory for Spark sessions: the only place that knows how Spark is started and ended.

On one machine (the default) nothing is taken from Spark variables of the environment, everything is
bound to the loopback address, and all that Spark writes lies in a temporary folder that goes away with
the session. What the Java side prints is kept in that folder, so that the terminal stays quiet and a
start that fails can be explained in one line.

Commands take ``add_engine_options`` and ``engine_session``; with them the same job runs here, on a cluster
(``--master``), over Spark Connect (``--remote``), on a local server that stays (``--warm``), and under spark-submit.
"""

import argparse
import importlib.util
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partialmethod
from pathlib import Path
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any

from spark_reports.engine import packing, progress, remote
from spark_reports.engine.archive import Archive, archive_for
from spark_reports.engine.java import Java, find_java, home_for_spark
from spark_reports.engine.scratch import scratch, shared
from spark_reports.engine.settings import (
    BRIEF,
    BULK,
    FAST,
    INTERPRETED,
    LEAST_MEMORY,
    LOCAL,
    Profile,
    applied,
    bytes_of,
    environment,
    is_local,
    of_java,
    of_session,
    settings,
    spark_home,
)
from spark_reports.errors import DataTrouble, EngineFailed, WrongUse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LOCAL", "add_engine_options", "engine_session", "interpreting", "is_local", "spark_session"]

STOP_TIMEOUT_S = 20.0
"""How long the Java process may take to end before it is killed; it needs less than one."""

ARCHIVE_TIMEOUT_S = 180.0
"""The same when it writes a class-data archive, which takes 20 s of a core."""

POLL_S = 0.02
"""How often it is looked whether Java has begun; there is nothing to wait for but its end and a file."""

ENDED_S = 0.05
"""How often PySpark's server for accumulators looks whether it is to end, for which the end of a session waits."""

PROFILES: Mapping[str, Profile | None] = {"auto": None, "fast": FAST, "bulk": BULK}
"""``fast`` starts quickly, ``bulk`` runs long work quickly; ``auto`` goes by how much there is to read."""

# First words of lines in which Java says why it gave up.
_REASONS = ("Exception", "Error", "error", "not found", "Unrecognized", "Could not")

# What Java prints when the thread ends that was to write its address.
_DIED = b'Exception in thread "main"'

_TRACEBACK = "Traceback (most recent call last):"

_MISSING = "`pip install 'zenoh-harness[reports]'`"


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say where Spark runs, for ``engine_session``."""
    group = parser.add_argument_group("where Spark runs (default: on this machine)")
    where = group.add_mutually_exclusive_group()
    where.add_argument(
        "--master",
        default=LOCAL,
        metavar="URL",
        help="on a cluster, for example spark://host:7077; inputs and outputs must have the same path or URI on "
        "every worker",
    )
    where.add_argument(
        "--remote",
        metavar="URL",
        help="on a Spark Connect server, for example sc://host:15002; needs no Java on this machine",
    )
    where.add_argument(
        "--warm",
        action="store_true",
        help="on a server on this machine that is started once and keeps running (about 1.3 GB of memory, until "
        "`zenoh-reports warmup --stop`), so that later commands start at once",
    )
    group.add_argument(
        "--profile",
        choices=PROFILES,
        default="auto",
        help="fast starts quickly, bulk is quick on long work (default: bulk for 1 GB of input or more)",
    )
    group.add_argument(
        "--memory",
        type=_memory,
        metavar="SIZE",
        help="heap of the local Java, for example 4g (default: half of the memory, at most 2g, or 8g in bulk)",
    )
    group.add_argument(
        "--conf",
        type=_setting,
        action="append",
        metavar="NAME=VALUE",
        help="a Spark setting, for example spark.executor.memory=8g; may be repeated",
    )


@contextmanager
def engine_session(
    arguments: argparse.Namespace,
    *,
    input_bytes: int = 0,
    say: Callable[[str], None] = lambda _: None,
    environ: Mapping[str, str] | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Iterator["SparkSession"]:
    """Starts Spark where the options of ``add_engine_options`` say, and ends it; shows progress on a terminal.

    A session that is already there (a notebook, a test) is used as it is and left running.

    Args:
        arguments: The parsed command line.
        input_bytes: About how much will be read; decides the profile if the options do not.
        say: Told what is started, in one line.
        environ: Environment variables; those of the process if None.
        meanwhile: What else is to be done before the body; if a Java is started, while that takes its time.

    Raises:
        WrongUse: The options contradict what Spark was started with, or a URL is none.
        NoJava: Spark is to run here, and there is no Java.
        EngineFailed: Spark does not start or cannot be reached, or gives up in the body.
    """
    environ = os.environ if environ is None else environ
    profile = PROFILES[arguments.profile] or Profile.for_input(input_bytes)
    cluster = "PYSPARK_GATEWAY_PORT" in environ or not is_local(arguments.master)
    with (
        _explained(),
        _chosen(arguments, environ, profile=profile, say=say, meanwhile=meanwhile) as session,
        progress.shown(session, cluster=cluster, say=say),
    ):
        yield session


def _chosen(
    arguments: argparse.Namespace,
    environ: Mapping[str, str],
    *,
    profile: Profile,
    say: Callable[[str], None],
    meanwhile: Callable[[], None],
) -> AbstractContextManager["SparkSession"]:
    if (active := _active()) is not None:
        meanwhile()
        return nullcontext(active)
    conf = dict(arguments.conf or ())
    if "PYSPARK_GATEWAY_PORT" in environ:
        say("using the Spark of spark-submit")
        meanwhile()
        return _submitted(arguments, profile, conf)
    if arguments.remote:
        say(f"using Spark Connect at {arguments.remote}")
        meanwhile()
        return remote.remote_session(arguments.remote, profile, conf)
    java = find_java(environ)
    if arguments.warm:
        say(f"using the warm Spark on this machine, on {java}")
        if not profile.fast and remote.Place.of(environ).kind() == remote.SHORT:
            say(
                "it was started for short work, and long work may take three times as long on it: "
                "run `zenoh-reports warmup --stop` first to start a new one"
            )
        meanwhile()
        options = _archive_options(java, environ, None)
        return remote.warm_session(java, environ, profile, conf, archive=options)
    say(f"starting Spark {f'on {java}' if is_local(arguments.master) else f'with {arguments.master}'}")
    archive = archive_for(java, spark_home(), environ) if is_local(arguments.master) else None
    if archive is not None and not archive.path.is_file():
        say("this takes half as long once `zenoh-reports warmup` was run")
    memory = {"spark.driver.memory": arguments.memory} if arguments.memory else {}
    conf = {**memory, **conf}
    return spark_session(java, environ, profile, master=arguments.master, conf=conf, meanwhile=meanwhile)


@contextmanager
def spark_session(
    java: Java,
    environ: Mapping[str, str],
    profile: Profile = FAST,
    *,
    master: str = LOCAL,
    conf: Mapping[str, str] | None = None,
    make_archive: Path | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Iterator["SparkSession"]:
    """Starts Spark and ends it; leaves no file and no process behind.

    A session that is already there (a notebook, a test) is used as it is and left running.

    Args:
        java: What to run it on.
        environ: The environment of the process.
        profile: What it is prepared for.
        master: This machine, or the URL of a cluster.
        conf: Settings that win over those of ``settings``.
        make_archive: Write a class-data archive to this file at the end instead of using the one there is.
        meanwhile: As in ``engine_session``.

    Raises:
        WrongUse: Spark does not know such a master.
        EngineFailed: Spark does not start, or gives up in the body.
    """
    with _explained():
        if (active := _active()) is not None:
            meanwhile()
            yield active
            return
        with scratch() as temporary:
            options = _archive_options(java, environ, make_archive)
            wanted = dict(conf or {})
            memory = wanted.get("spark.driver.memory", "")
            chosen = settings(master, temporary, profile, memory=memory, java_options=options) | wanted
            home = home_for_spark(java, environ, temporary)
            changes = environment(master, home, temporary, environ, [*options, *of_java(profile)])
            patience = STOP_TIMEOUT_S if make_archive is None else ARCHIVE_TIMEOUT_S
            with _fresh_session(java, chosen, changes, temporary, patience, meanwhile) as session:
                if not is_local(master):
                    session.sparkContext.addPyFile(str(packing.pack(temporary)))
                # An error has to be put into words while Java is there: its message is asked for only then.
                with _explained():
                    yield session


@contextmanager
def interpreting(spark: "SparkSession") -> "Iterator[SparkSession | None]":
    """Yields a session beside one of ours that interprets queries; None where that saves nothing.

    A Java that was started for one command would compile each query for itself; a server keeps what it compiled.
    """
    if progress.is_connect(spark) or not is_local(spark.sparkContext.master or ""):
        yield None
        return
    beside = spark.newSession()
    for name, value in INTERPRETED.items():
        beside.conf.set(name, value)
    try:
        yield beside
    finally:
        # The session that made a frame last is the active one, which the next command of this process goes on with.
        with _java_may_be_gone():
            spark.createDataFrame([], "nothing int")


@contextmanager
def _java_may_be_gone() -> Iterator[None]:
    """Tidies up in a Java that may have ended: what went wrong then has been said, or is the end that was asked for."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    with suppress(Py4JError, OSError):
        yield


def _active() -> "SparkSession | None":
    if "pyspark.sql" not in sys.modules:
        # To find that there is none takes longer than to begin.
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


@contextmanager
def _explained() -> Iterator[None]:
    """Turns what Spark and its packages raise into one line."""
    for package in ("py4j", "pyspark"):
        if importlib.util.find_spec(package) is None:
            raise EngineFailed(f"{package} is missing: {_MISSING}")
    try:
        yield
    except Exception as error:
        # Not before: they take as long to import as Java takes to begin.
        from py4j.protocol import Py4JError, Py4JNetworkError
        from pyspark.errors import PySparkException

        if isinstance(error, PySparkException | Py4JError | OSError) and _is_of_an_interrupt(error):
            raise KeyboardInterrupt from error
        if isinstance(error, Py4JNetworkError | ConnectionRefusedError | ConnectionResetError):
            raise EngineFailed(
                "Java ended in the middle of it: was it killed, or was there too little memory (--memory)?"
            ) from error
        if not isinstance(error, PySparkException | Py4JError):
            raise
        if unread := _UNREAD.search(str(error)):
            raise DataTrouble(_unread_file(unread[0], error)) from error
        if wrong := _WRONG_SETTING.search(str(error)):
            raise WrongUse(f"--conf: {wrong[1].strip().rstrip('.')}") from error
        if _FULL.search(str(error)):
            told = _first_line(error)
            raise WrongUse(
                f"the disk is full: {told}; make room for the store and for temporary files, and try again"
            ) from error
        raise EngineFailed(f"Spark gave up: {_first_line(error)}") from error


def _is_of_an_interrupt(error: BaseException) -> bool:
    """Tells whether an error came up while a command tidied up that was interrupted: whoever does that may end Java as well."""
    before = error.__context__
    while before is not None and not isinstance(before, KeyboardInterrupt):
        before = before.__context__
    return before is not None


_WRONG_SETTING = re.compile(r"\[(?:INVALID_CONF_VALUE|CANNOT_MODIFY)[.\w]*\] ([^\n]*?)(?: SQLSTATE|\n|$)")
_WRONG_MASTER = re.compile(r"Could not parse Master URL|Asked to run locally with|Master must either be")
_OF_LINK = re.compile(r'terminated with:\s+status = (?:StatusCode\.)?(\w+)\s+details = "([^\n]*)"')
"""How gRPC says that a call of Spark Connect went wrong."""
_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_UNREAD = re.compile(r"PATH_NOT_FOUND|FAILED_READ_FILE(\.[A-Z_]+)?|CANNOT_READ_FILE_FOOTER")
_FILE = re.compile(r"[^\s'\"`:]*/(?:(?:tables|rollups|compact)/(\w+)|(apart))/[^\s'\"`]*\.parquet")


def _unread_file(condition: str, error: BaseException) -> str:
    """Says in one line that a file is not there or cannot be read; it is the data that is at fault, not Spark."""
    if (found := _FILE.search(str(error))) is None:
        return f"a file cannot be read: {_first_line(error)}"
    return (
        f"a file of the store's table {found[1] or found[2]} is missing or damaged: {found[0]} ({condition}); "
        "`zenoh-reports store check` may say which; docs/store.md says how to take its run in again"
    )


def _archive_options(java: Java, environ: Mapping[str, str], make: Path | None) -> Sequence[str]:
    found = archive_for(java, spark_home(), environ)
    if make is not None:
        return Archive(make, ahead=found.ahead if found else False).options_to_make()
    if found is None or not found.path.is_file():
        return ()
    found.touch()
    return found.options()


@contextmanager
def _submitted(
    arguments: argparse.Namespace, profile: Profile, conf: Mapping[str, str]
) -> Iterator["SparkSession"]:
    """Takes the Spark that spark-submit has started around this process.

    Raises:
        WrongUse: The options say where to run as well.
    """
    from pyspark.sql import SparkSession

    if arguments.master != LOCAL or arguments.remote or arguments.warm:
        raise WrongUse("under spark-submit, --master and the like are options of spark-submit")
    builder = SparkSession.builder.appName("zenoh-reports")
    for name, value in {**BRIEF, **of_session(profile, local=False), **conf}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        with scratch() as folder, _path_kept():
            # spark-submit gives a wheel to this process, but not to the workers.
            session.sparkContext.addPyFile(str(packing.pack(folder)))
            yield session
    finally:
        session.stop()


@contextmanager
def _fresh_session(
    java: Java,
    conf: Mapping[str, str],
    changes: Mapping[str, str | None],
    temporary: Path,
    patience: float,
    meanwhile: Callable[[], None],
) -> Iterator["SparkSession"]:
    """Starts a Java, and a session in it; ends both.

    Raises:
        WrongUse: Spark does not know such a master.
        EngineFailed: One of them does not start.
    """
    for host, port in _masters(conf["spark.master"]):
        remote.check_answers("Spark master", host, port)
    log, address = temporary / "spark.log", temporary / "gateway"
    process = _begin(conf, changes, log, address)
    gateway: Any = None
    try:
        meanwhile()
        # Packages are imported while Java begins; the last one with the first argument that Java is given, and pandas with it.
        import pyspark.testing.utils  # noqa: F401
        from py4j.protocol import Py4JError
        from pyspark import SparkConf, SparkContext
        from pyspark.accumulators import AccumulatorTCPServer
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        # Left to itself, it looks twice a second.
        AccumulatorTCPServer.serve_forever = partialmethod(TCPServer.serve_forever, ENDED_S)  # type: ignore[assignment]
        AccumulatorTCPServer.handle_error = _told_unless_hung_up  # type: ignore[assignment]
        on_interrupt = signal.getsignal(signal.SIGINT)
        with applied(changes):
            try:
                gateway = _connected(process, address, log)
                spark_conf = SparkConf(loadDefaults=False).setAll(list(conf.items()))
                context = SparkContext(conf=spark_conf, gateway=gateway)
            except (PySparkException, Py4JError, OSError) as error:
                told = "" if gateway is None else _told(error)
                _end(process, gateway, STOP_TIMEOUT_S)
                why = told or _reason(log)
                if _WRONG_MASTER.search(why):
                    raise WrongUse(f"--master: {why}") from error
                raise EngineFailed(
                    f"Spark does not start on {java}: {why}. `zenoh-reports doctor` shows what is installed"
                ) from error
        # PySpark's answer to Ctrl-C asks Java something in the middle of another question, and fails at length.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, on_interrupt)
        session = SparkSession(context)
        for name in _ASKED_OFTEN:
            setattr(context._jvm, name, _Known(getattr(context._jvm, name)))  # noqa: SLF001 (there is no public way)
        try:
            with _path_kept():
                yield session
        finally:
            with _java_may_be_gone():
                session.stop()
    finally:
        _end(process, gateway, patience)


_ASKED_OFTEN = (
    *("functions", "org.apache.spark.sql.functions"),
    *("PythonUtils", "org.apache.spark.api.python.PythonUtils"),
    *("PythonSQLUtils", "org.apache.spark.sql.api.python.PythonSQLUtils"),
)
"""Classes of Spark that nearly all which is asked of Java goes through; PySpark has called them by either name."""


class _Known:
    """A class of Java that remembers what its names mean; Py4J asks Java anew each time, with a quarter of all questions."""

    def __init__(self, java: Any) -> None:
        self._java = java

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._java, name)
        setattr(self, name, found)
        return found


def _begin(
    conf: Mapping[str, str], changes: Mapping[str, str | None], log: Path, address: Path
) -> "subprocess.Popen[bytes]":
    """Starts a Java as ``launch_gateway`` of PySpark does, without waiting for it.

    Args:
        conf: Settings.
        changes: Of the environment, for it alone.
        log: What it prints goes there.
        address: File that it writes as soon as it can be asked, for ``_connected``.
    """
    with applied({**changes, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(address)}):
        environ = dict(os.environ)
    command = [str(spark_home() / "bin" / "spark-submit")]
    for name, value in conf.items():
        command += ["--conf", f"{name}={value}"]
    command += shlex.split(environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    with log.open("wb") as output, shared(log.parent) as handle:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environ,
            # If this process is killed, Java goes on for a moment.
            pass_fds=(handle,),
            # Ctrl-C is for this process, which ends it in order.
            preexec_fn=_pass_over_interrupts,  # noqa: PLW1509 (nothing but a system call, as in PySpark)
        )


def _told_unless_hung_up(server: TCPServer, request: Any, address: Any) -> None:
    """Shows what went wrong on a line from Java, but not that Java has ended before this end of the line has."""
    if not isinstance(sys.exc_info()[1], EOFError | ConnectionError):
        TCPServer.handle_error(server, request, address)


def _pass_over_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _connected(process: "subprocess.Popen[bytes]", address: Path, log: Path) -> Any:
    """Waits until a Java that begins can be asked, and connects to it.

    Raises:
        ChildProcessError: It ended instead, or can say no more how to be asked.
    """
    from pyspark.java_gateway import launch_gateway
    from pyspark.serializers import UTF8Deserializer, read_int

    while not address.is_file():
        try:
            process.wait(POLL_S)
        except subprocess.TimeoutExpired:
            if _DIED in log.read_bytes():
                # Threads that wait for nothing keep it running.
                process.kill()
            continue
        raise ChildProcessError(f"Java ended with {process.returncode}")
    with address.open("rb") as file:
        port = read_int(file)  # type: ignore[no-untyped-call]
        secret = UTF8Deserializer().loads(file)  # type: ignore[no-untyped-call]
    with applied({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}):
        return launch_gateway()  # type: ignore[no-untyped-call]


@contextmanager
def _path_kept() -> Iterator[None]:
    """Takes back what Spark adds to the places that modules are looked for in; those go with the session."""
    before = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = before


def _masters(url: str) -> list[tuple[str, int]]:
    """Returns the addresses in a ``spark://`` URL if there is only one; of several, one may well be down."""
    found = re.fullmatch(r"spark://([^:,/]+):(\d+)", url)
    return [(found[1], int(found[2]))] if found else []


def _setting(text: str) -> tuple[str, str]:
    """Reads a setting as spark-submit does."""
    name, equals, value = text.partition("=")
    if name.startswith("spark.") and equals:
        return name, value
    raise argparse.ArgumentTypeError(f"{text!r} is not a setting such as spark.executor.memory=8g")


def _memory(text: str) -> str:
    """Reads a size as Spark writes it."""
    if not re.fullmatch(r"[1-9]\d{0,9}[mg]", text.lower()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 800m or 4g")
    if (bytes_of(text.lower()) or 0) < LEAST_MEMORY:
        raise argparse.ArgumentTypeError(
            f"{text} is too little for Spark; give it {LEAST_MEMORY >> 20}m or more"
        )
    return text.lower()


def _end(process: "subprocess.Popen[bytes]", gateway: Any, patience: float) -> None:
    """Ends the Java process, and lets PySpark forget it so that another may be started; a second time does nothing."""
    if gateway is not None:
        from pyspark import SparkContext

        if SparkContext._gateway is gateway:  # noqa: SLF001 (there is no public way)
            SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
        gateway.shutdown()
    if process.stdin is not None:
        # Java ends when its standard input does.
        process.stdin.close()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _first_line(error: BaseException) -> str:
    """Returns the line of an error that says what happened, without the stacks of Java and of Python workers."""
    _, of_worker, stack = str(error).rpartition(_TRACEBACK)
    if raised := [line for line in stack.splitlines() if of_worker and line and not line[0].isspace()]:
        return raised[0][:500].rstrip(".:")
    if of_link := _OF_LINK.search(str(error)):
        return f"{of_link[1]}: {of_link[2]}"[:500].rstrip(".:")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("An error occurred while calling", "at ", ":"))]
    # Py4J puts ": " before the exception of the other side, below a line of its own.
    thrown = [line[1:].strip() for line in lines if line.startswith(":")]
    first = (thrown or telling or lines or [type(error).__name__])[0]
    # Some say only that something went wrong, and below the stack why.
    causes = [line.split(": ", 2)[-1] for line in lines if line.startswith("Caused by: ")]
    if first.endswith(":") and causes:
        first = f"{first} {causes[-1]}"
    return first[:500].rstrip(".:")


def _told(error: BaseException) -> str:
    """Returns what an error says while Java is there to ask for its words; empty if Java has ended."""
    from py4j.protocol import Py4JError, Py4JNetworkError

    if isinstance(error, Py4JNetworkError | OSError):
        return ""
    try:
        return _first_line(error)
    except (Py4JError, OSError):
        return ""


_OF_START = "Error occurred during initialization of VM"
_OF_MAIN = 'Exception in thread "main" '


def _reason(log: Path) -> str:
    """Returns the line in which Java said why it ended."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith(("at ", "Using Spark's default"))]
    telling = [line for line in lines if any(word in line for word in _REASONS)]
    told = (telling[:1] or lines[-1:] or ["it ended without a message"])[0]
    if told == _OF_START and lines[-1] != told:
        # The reason stands below.
        told += f": {lines[lines.index(told) + 1]}"
    return told.removeprefix(_OF_MAIN)[:500].rstrip(".")
