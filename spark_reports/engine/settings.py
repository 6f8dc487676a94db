"""What Spark is told: settings and environment variables, as plain values; nothing is started here."""

import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

LOCAL = "local[*]"
"""Master that stands for this machine, all cores."""

LOOPBACK = "127.0.0.1"

UTF8 = "C.UTF-8"
"""A locale that differs from C in its encoding only."""

FAST_LIMIT_BYTES = 1 << 30
"""Up to this much input the quick compiler and the plain collector win; beyond, C2 and G1 do."""

LINES_OF_PARQUET = 18
"""Bytes of lines that one byte of Parquet stands for: a fuzz case is 500 bytes long, and 28 in its table."""

SMALL_LIMIT_BYTES = 1 << 20
"""Up to this much input, to write and compile a program for each query costs more than it saves."""

FAST_MEMORY = 2 << 30
"""Most heap of the profile ``fast``, bytes; Java takes it as it needs it."""

BULK_MEMORY = 8 << 30
"""Most heap of the profile ``bulk``, bytes."""

LEAST_MEMORY = 512 << 20
"""Spark refuses to start with less than 450 MiB, bytes."""

CLUSTER_PARTITIONS = 8
"""Of a shuffle of little data on a cluster; Spark's own 200 are a second of work for nothing in each query."""

PAGE = "1m"
"""Piece of memory for groups and sorts in the profile ``fast``."""

KEPT_PROGRAMS = "spark.sql.codegen.cache.maxEntries"
"""Names how many compiled programs are kept."""

PROGRAMS = 2_000
"""A report compiles four hundred; of the hundred that are kept by default the next one finds none again."""

CODE = "-XX:ReservedCodeCacheSize=512m"
"""Room for what Java compiles, which it only takes as it needs it. The quick compiler alone has 48 MB of its own accord:
programs of an ingest and a report over some hundred runs fill them, and then Java may end."""

QUICK = "-XX:TieredStopAtLevel=1"
"""Of Java's two compilers only the quick one: the thorough one takes minutes of work to pay, and until then a core."""

INTERPRETED: Mapping[str, str] = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings of a session in which no query is compiled."""

BRIEF: Mapping[str, str] = {"spark.python.sql.dataFrameDebugging.enabled": "false"}
"""Setting to start Spark with; a session cannot change it. Otherwise PySpark asks Java five times for each column that is
made, only to name a line of ours in an error, of which one line is shown."""

_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def is_local(master: str) -> bool:
    """Whether the master is this machine."""
    return master.startswith("local")


def cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine_memory(limits: Sequence[Path] = _CGROUP_LIMITS) -> int:
    """Returns the memory of this machine or, if that is less, of the container; bytes.

    Args:
        limits: Files with a number of bytes, or a word for none.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in limits:
        if limit.is_file() and (text := limit.read_text(encoding="ascii").strip()).isdigit():
            memory = min(memory, int(text))
    return memory


def heap(memory: int, *, fast: bool) -> int:
    """Returns the bytes that Java may use for objects: half of the memory, for Python and caches need the rest."""
    return max(LEAST_MEMORY, min(memory // 2, FAST_MEMORY if fast else BULK_MEMORY))


def bytes_of(size: str) -> int | None:
    """Returns the bytes of a size as Spark has it, ``800m`` or ``4g``; None for what only Spark understands."""
    if size[:-1].isdigit() and (shift := {"m": 20, "g": 30}.get(size[-1].lower())):
        return int(size[:-1]) << shift
    return None


@dataclass(frozen=True, slots=True)
class Profile:
    """What Spark is prepared for.

    Attributes:
        fast: To start quickly rather than to run long: quick compiler, plain collector, few partitions.
        small: To be asked much about little: queries are interpreted. Implies ``fast``.
    """

    fast: bool = True
    small: bool = False

    @classmethod
    def for_input(cls, size: int) -> "Profile":
        """Returns the profile for so many bytes of lines; what is read of Parquet counts ``LINES_OF_PARQUET`` times."""
        return cls(fast=size < FAST_LIMIT_BYTES, small=size < SMALL_LIMIT_BYTES)


FAST = Profile()
BULK = Profile(fast=False)
SMALL = Profile(small=True)


def of_session(profile: Profile, *, local: bool) -> dict[str, str]:
    """Returns the settings that may be given to a session that already runs, wherever it does.

    Args:
        profile: What it is prepared for.
        local: Spark runs on this machine; for long work a cluster knows its own number of partitions.
    """
    result = {
        "spark.sql.session.timeZone": "UTC",
        # The files of all runs are listed by the driver; a Spark job for it takes longer from 32 runs on.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        "spark.sql.parquet.compression.codec": "zstd",
    }
    if profile.small:
        result |= INTERPRETED
    if profile.fast:
        # Re-planning at run time splits a query into more jobs than small data is worth.
        partitions = 1 if local else CLUSTER_PARTITIONS
        result |= {
            "spark.sql.shuffle.partitions": str(partitions),
            "spark.sql.adaptive.enabled": "false",
            # What is little stays in memory; from 128 groups on, lists would be made by sorting all rows.
            "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",
        }
    elif local:
        result |= {"spark.sql.shuffle.partitions": str(cores()), "spark.sql.adaptive.enabled": "true"}
    return result


def of_java(profile: Profile) -> tuple[str, ...]:
    """Returns the options of a Java that keeps many programs, and of one that starts quickly."""
    quick = ("-XX:+UseSerialGC", QUICK, "-XX:MetaspaceSize=256m")
    return (CODE, *quick) if profile.fast else (CODE,)


def settings(
    master: str,
    temporary: Path,
    profile: Profile = FAST,
    *,
    memory: str = "",
    java_options: Sequence[str] = (),
) -> dict[str, str]:
    """Returns the Spark settings for a master.

    Args:
        master: ``local[*]`` and its like, or the URL of a cluster, which is passed on as it is.
        temporary: Folder for what Spark writes.
        profile: What it is prepared for.
        memory: Heap of the Java here as Spark has it, ``4g``; if empty ``heap`` of what this machine has, while a
            cluster's own defaults stand.
        java_options: More options for the Java of this machine; not used for a cluster.
    """
    local = is_local(master)
    result = {
        "spark.app.name": "zenoh-reports",
        "spark.master": master,
        "spark.submit.deployMode": "client",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        KEPT_PROGRAMS: str(PROGRAMS),
        **BRIEF,
        **of_session(profile, local=local),
    }
    if memory:
        result["spark.driver.memory"] = memory
    if not local:
        return result
    size = bytes_of(memory) if memory else heap(machine_memory(), fast=profile.fast)
    options = ["-XX:-UsePerfData", f"-Djava.io.tmpdir={temporary}", *java_options, *of_java(profile)]
    if profile.fast and size is not None:
        # Room from the start: what is thrown away is looked for ten times less often.
        options += [f"-Xms{size // 2 >> 20}m", f"-Xmn{size * 3 // 10 >> 20}m"]
        # Every step of every query takes such a page and clears it; of its own accord Spark makes it 32 MiB.
        result["spark.buffer.pageSize"] = PAGE
    quoted = (f'"{option}"' if " " in option else option for option in options)
    return result | {
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.driver.memory": memory or f"{heap(machine_memory(), fast=profile.fast) >> 20}m",
        "spark.driver.extraJavaOptions": " ".join(quoted),
        "spark.pyspark.python": sys.executable,
        "spark.local.dir": str(temporary),
        "spark.sql.warehouse.dir": str(temporary / "warehouse"),
        "spark.log.level": "ERROR",
    }


def spark_home() -> Path:
    """Returns the folder of the Spark that came with PySpark."""
    # To import it takes longer than all that is needed before Java can start.
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    package = Path(spec.origin).parent
    distribution = package / "spark-distribution"
    return distribution if distribution.is_dir() else package


def environment(
    master: str,
    java_home: Path | None,
    temporary: Path,
    environ: Mapping[str, str],
    java_options: Sequence[str] = (),
) -> dict[str, str | None]:
    """Returns the variables to set, or with None to unset, while Spark starts.

    Args:
        master: As in ``settings``.
        java_home: As ``java.home_for_spark`` has it.
        temporary: Folder for what Spark writes.
        environ: The environment as it is.
        java_options: More options for the driver of a cluster, which runs here; those of the settings stay as the
            cluster's own defaults have them.
    """
    changes: dict[str, str | None] = {}
    if is_local(master):
        foreign = ("SPARK_", "PYSPARK_", "HADOOP_", "YARN_")
        changes |= dict.fromkeys(name for name in environ if name.startswith(foreign))
        changes |= {
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_LOCAL_HOSTNAME": "localhost",
            # No such folder: no defaults of another installation.
            "SPARK_CONF_DIR": str(temporary / "conf"),
            # The Java that puts the command of the real one together lives for a moment.
            "SPARK_LAUNCHER_OPTS": f"{QUICK} -XX:+UseSerialGC -XX:-UsePerfData",
            "PYSPARK_PYTHON": sys.executable,
        }
    elif java_options:
        changes["SPARK_SUBMIT_OPTS"] = " ".join(
            filter(None, (environ.get("SPARK_SUBMIT_OPTS"), *java_options))
        )
    if (environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or "C") in {"C", "POSIX"}:
        # There Java reads no path that is not ASCII, that of the folder for temporary files included.
        changes["LC_ALL"] = UTF8
    # The Python and the Java half must be of one version, whatever else is installed.
    changes["SPARK_HOME"] = str(spark_home())
    changes["JAVA_HOME"] = None if java_home is None else str(java_home)
    return changes


@contextmanager
def applied(changes: Mapping[str, str | None]) -> Iterator[None]:
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
