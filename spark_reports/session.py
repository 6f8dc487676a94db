"""One factory for Spark sessions: the only place that knows how Spark is started and ended.

On one machine (the default) nothing is taken from Spark variables of the environment, everything is
bound to the loopback address, and all that Spark writes lies in a temporary folder that goes away with
the session. What the Java side prints is kept in that folder, so that the terminal stays quiet and a
start that fails can be explained in one line.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_reports.errors import EngineFailed
from spark_reports.java import Java, home_for_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
"""Master that stands for this machine, all cores."""

FAST_LIMIT_BYTES = 1 << 30
"""Up to this much input the quick compiler and the plain collector win; beyond, C2 and G1 do."""

LOOPBACK = "127.0.0.1"

STOP_TIMEOUT_S = 20.0
"""How long the Java process may take to end before it is killed; it needs less than one."""

# First words of lines in which Java says why it gave up.
_REASONS = ("Exception", "Error", "error", "not found", "Unrecognized", "Could not")


def is_local(master: str) -> bool:
    """Whether the master is this machine."""
    return master.startswith("local")


def settings(master: str, temporary: Path, *, fast: bool = True) -> dict[str, str]:
    """Returns the Spark settings for a master.

    Args:
        master: ``local[*]`` and its like, or the URL of a cluster, which is passed on as it is.
        temporary: Folder for what Spark writes.
        fast: Start quickly rather than run long: quick compiler, plain collector, one shuffle partition.
    """
    result = {
        "spark.app.name": "zenoh-reports",
        "spark.master": master,
        "spark.submit.deployMode": "client",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # The files of all runs are listed here; a Spark job for it takes longer from 32 runs on.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    }
    if not is_local(master):
        return result
    java_options = ["-XX:-UsePerfData", f'"-Djava.io.tmpdir={temporary}"']
    if fast:
        java_options += ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        # Re-planning at run time splits a query into more jobs than small data is worth.
        result |= {"spark.sql.shuffle.partitions": "1", "spark.sql.adaptive.enabled": "false"}
    else:
        result["spark.sql.shuffle.partitions"] = str(os.cpu_count() or 1)
    return result | {
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.driver.extraJavaOptions": " ".join(java_options),
        "spark.pyspark.python": sys.executable,
        "spark.local.dir": str(temporary),
        "spark.sql.warehouse.dir": str(temporary / "warehouse"),
        "spark.log.level": "ERROR",
    }


def environment(
    master: str, java_home: Path | None, temporary: Path, environ: Mapping[str, str]
) -> dict[str, str | None]:
    """Returns the variables to set, or with None to unset, while Spark starts."""
    import pyspark

    package = Path(pyspark.__file__).parent
    distribution = package / "spark-distribution"
    changes: dict[str, str | None] = {}
    if is_local(master):
        foreign = ("SPARK_", "PYSPARK_", "HADOOP_", "YARN_")
        changes |= dict.fromkeys(name for name in environ if name.startswith(foreign))
        changes |= {
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_LOCAL_HOSTNAME": "localhost",
            # No such folder: no defaults of another installation.
            "SPARK_CONF_DIR": str(temporary / "conf"),
            "PYSPARK_PYTHON": sys.executable,
        }
    # The Python and the Java half must be of one version, whatever else is installed.
    changes["SPARK_HOME"] = str(distribution if distribution.is_dir() else package)
    changes["JAVA_HOME"] = None if java_home is None else str(java_home)
    return changes


@contextmanager
def spark_session(
    java: Java, environ: Mapping[str, str], *, master: str = LOCAL, fast: bool = True
) -> Iterator["SparkSession"]:
    """Starts Spark and ends it; leaves no file and no process behind.

    A session that is already there (a notebook, a test) is used as it is and left running.

    Args:
        java: What to run it on.
        environ: The environment of the process.
        master: This machine, or the URL of a cluster.
        fast: As in ``settings``.

    Raises:
        EngineFailed: Spark does not start, or gives up in the body.
    """
    try:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise EngineFailed(f"{error.name} is missing: `pip install 'zenoh-harness[reports]'`") from error
    try:
        if (active := SparkSession.getActiveSession()) is not None:
            yield active
            return
        with tempfile.TemporaryDirectory(prefix="zenoh-reports-", ignore_cleanup_errors=True) as folder:
            yield from _fresh_session(java, environ, master, Path(folder), fast)
    except (PySparkException, Py4JError) as error:
        raise EngineFailed(f"Spark gave up: {_first_line(error)}") from error


def _fresh_session(
    java: Java, environ: Mapping[str, str], master: str, temporary: Path, fast: bool
) -> Iterator["SparkSession"]:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf(loadDefaults=False).setAll(list(settings(master, temporary, fast=fast).items()))
    changes = environment(master, home_for_spark(java, environ, temporary), temporary, environ)
    log = temporary / "spark.log"
    gateway: Any = None
    on_interrupt = signal.getsignal(signal.SIGINT)
    with _environ(changes), log.open("wb") as output:
        try:
            gateway = launch_gateway(conf, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
            context = SparkContext(conf=conf, gateway=gateway)
        except (PySparkException, Py4JError, OSError) as error:
            _end(gateway)
            why = _reason(log) if gateway is None else _first_line(error)
            raise EngineFailed(
                f"Spark does not start on {java}: {why}. `zenoh-reports doctor` shows what is installed"
            ) from error
    # PySpark's answer to Ctrl-C asks Java something in the middle of another question, and fails at length.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, on_interrupt)
    session = SparkSession(context)
    try:
        yield session
    finally:
        session.stop()
        _end(gateway)


def _end(gateway: Any) -> None:
    """Ends the Java process, and lets PySpark forget it so that another may be started."""
    from pyspark import SparkContext

    if gateway is None:
        return
    if SparkContext._gateway is gateway:  # noqa: SLF001 (there is no public way)
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    gateway.shutdown()
    process: subprocess.Popen[bytes] = gateway.proc
    if process.stdin is not None:
        # Java ends when its standard input does.
        process.stdin.close()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def _environ(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Applies changes to the environment of this process, which PySpark reads, and takes them back."""
    before = {name: os.environ.get(name) for name in changes}
    _apply(changes)
    try:
        yield
    finally:
        _apply(before)


def _apply(changes: Mapping[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _first_line(error: BaseException) -> str:
    """Returns the line of an error that says what happened, without the Java stack below it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("An error occurred while calling", "at ", ":"))]
    # Py4J puts ": " before the exception of the other side, below a line of its own.
    thrown = [line[1:].strip() for line in lines if line.startswith(":")]
    return (thrown or telling or lines or [type(error).__name__])[0][:500].rstrip(".")


def _reason(log: Path) -> str:
    """Returns the line in which Java said why it ended."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith(("at ", "Using Spark's default"))]
    telling = [line for line in lines if any(word in line for word in _REASONS)]
    return (telling[:1] or lines[-1:] or ["it ended without a word"])[0][:500].rstrip(".")
