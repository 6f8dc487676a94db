"""A standalone cluster, a Connect server and spark-submit, all on this machine: the report is that of local mode."""

import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
from pyspark.sql import SparkSession

from spark_reports import rows, traffic
from spark_reports.__main__ import main
from spark_reports.engine.archive import archive_for
from spark_reports.engine.java import find_java, home_for_spark
from spark_reports.engine.settings import LOOPBACK, spark_home

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]

PATIENCE_S = 120.0
"""How long a program may say nothing on a busy machine."""

MEMORY = "600m"
"""Of each executor; Spark refuses less than 450."""

QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
"""For Javas that live for some seconds."""


CAPTURES = [str(ROOT / "pcaps" / f"{name}.pcapng") for name in ("query", "fragments", "lowlatency")]

BY_KEY = """
import argparse
import json
from pathlib import Path

from spark_reports import traffic
from spark_reports.engine.session import add_engine_options, engine_session
from tests.spark_reports.test_cluster import by_key

parser = argparse.ArgumentParser()
add_engine_options(parser)
with engine_session(parser.parse_args(), input_bytes=0, say=print) as spark:
    traffic.register(spark)
    Path(__file__).with_suffix(".json").write_text(json.dumps(by_key(spark)))
"""
"""What a user writes who counts what is in captures."""


class Daemon:
    """A process that is read from until it says what is waited for."""

    def __init__(self, command: Sequence[str | Path], environ: Mapping[str, str], folder: Path) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self.said: list[str] = []
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def until(self, pattern: str) -> re.Match[str]:
        """Waits for a line, and returns what of it fits."""
        while (line := self._lines.get(timeout=PATIENCE_S)) is not None:
            self.said.append(line)
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"ended without {pattern!r}:\n{''.join(self.said)}")

    def end(self) -> None:
        """Ends the process, and waits for that."""
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Job:
    """A command that runs while something else is done."""

    def __init__(self, command: Sequence[str | Path], environ: Mapping[str, str], folder: Path) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            # spark-submit gives what Python says on either stream to its standard output.
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._said = ""

    def told(self) -> str:
        """Waits for its end; returns all that it said."""
        said, _ = self._process.communicate()
        self._said += said or ""
        assert self._process.returncode == 0, self._said
        return self._said

    def end(self) -> None:
        """Ends it, if it has not ended."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.communicate()


class Cluster:
    """A master and two workers with room for two applications, of which the first has a core of each.

    So much here is waiting for one Java or another that two of them side by side take little longer than one.
    """

    def __init__(self, folder: Path) -> None:
        self._ends = ExitStack()
        java = find_java(os.environ)
        archive = archive_for(java, spark_home(), os.environ)
        self.options = [*QUICK, *(archive.options() if archive else ())]
        foreign = ("SPARK_", "PYSPARK_", "HADOOP_", "YARN_")
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        self.environ |= {
            "SPARK_HOME": str(spark_home()),
            "SPARK_CONF_DIR": str(folder / "no-conf"),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_JAVA_OPTS": " ".join([*self.options, "-Dspark.master.rest.enabled=false"]),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
        }
        home = home_for_spark(java, os.environ, folder)
        if home is not None:
            self.environ["JAVA_HOME"] = str(home)
        self.folder = folder
        self.daemons: list[Daemon] = []
        here = ("--host", LOOPBACK, "--webui-port", "0")
        master = self.start("bin/spark-class", "org.apache.spark.deploy.master.Master", *here, "--port", "0")
        self.url = master.until(r"Starting Spark master at (spark://\S+)")[1]
        size = ("--cores", "2", "--memory", "2g")
        workers = [
            self.start(
                *("bin/spark-class", "org.apache.spark.deploy.worker.Worker", *here, *size),
                *("--work-dir", str(folder / name), self.url),
            )
            for name in ("worker1", "worker2")
        ]
        for worker in workers:
            worker.until("Successfully registered with master")

    def start(self, program: str, *arguments: str, memory: str = "256m") -> Daemon:
        """Starts a program of Spark that stays."""
        environ = {**self.environ, "SPARK_DAEMON_MEMORY": memory}
        daemon = Daemon([spark_home() / program, *arguments], environ, self.folder)
        self._ends.callback(daemon.end)
        self.daemons.append(daemon)
        return daemon

    def begin(self, *command: str | Path, without: str = "") -> Job:
        """Begins a command, without a variable of the environment."""
        environ = {name: value for name, value in self.environ.items() if name != without}
        job = Job(command, environ, self.folder)
        self._ends.callback(job.end)
        return job

    def conf(self, executors: int = 1) -> list[str]:
        """Returns settings for what runs on the cluster, as spark-submit and our commands take them.

        A Java for each executor is a third of all the work here, so only one application has two of them.
        """
        chosen = {
            "spark.executor.memory": MEMORY,
            "spark.executor.cores": "1",
            "spark.cores.max": str(executors),
            "spark.executor.extraJavaOptions": " ".join(self.options),
            "spark.driver.host": LOOPBACK,
            "spark.ui.enabled": "false",
        }
        return [word for name, value in chosen.items() for word in ("--conf", f"{name}={value}")]

    def end(self) -> None:
        """Ends all that was started, last things first."""
        self._ends.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    cluster = Cluster(folder)
    yield cluster
    cluster.end()
    assert not [daemon for daemon in cluster.daemons if daemon.process.poll() is None]


@pytest.fixture(scope="module")
def runs(
    tmp_path_factory: pytest.TempPathFactory,
    make_run_in: Callable[..., Path],
    verdict_row: Callable[..., rows.VerdictRow],
    case_row: Callable[..., rows.FuzzCaseRow],
    observation_row: Callable[..., rows.ObservationRow],
) -> Path:
    """Four runs on two releases; one is cut off, one has more findings than the others together."""
    root = tmp_path_factory.mktemp("runs")
    for day in range(1, 5):
        outcomes = ["pass", "fail" if day > 2 else "pass", "n/a"]
        verdicts = [
            verdict_row(outcome, (f"ZN-INIT-00{number}",), test=f"t{number}")
            for number, outcome in enumerate(outcomes, 1)
        ]
        found = 40 if day == 4 else day
        cases = [
            case_row(number, f"bucket{number % 3}" if number < found else "", rtt_us=number * 10)
            for number in range(1, 60)
        ]
        batches = [
            observation_row("sent" if seq % 2 else "received", seq=seq, time_ns=seq * 1000)
            for seq in range(20)
        ]
        version = "1.10.2" if day > 2 else "1.9.0"
        make_run_in(
            root, f"r{day}", day, verdicts=verdicts, cases=cases, observations=batches, node_version=version
        )
    cut = root / "r3" / rows.FUZZ_CASES
    cut.write_bytes(cut.read_bytes()[:-30])
    return root


@pytest.fixture(scope="module")
def filling(cluster: Cluster, runs: Path) -> Job:
    """Fills a store with the workers of the cluster, and writes the report ``of-cluster`` beside it."""
    store, out = cluster.folder / "store", cluster.folder / "of-cluster"
    build = (sys.executable, "-m", "spark_reports", "build", runs, "--store", store, "--out", out)
    driver = ("--conf", f"spark.driver.extraJavaOptions={' '.join(cluster.options)}")
    return cluster.begin(*build, "--master", cluster.url, *cluster.conf(executors=2), *driver)


@pytest.fixture(scope="module")
def expected(spark: SparkSession, runs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What local mode says, in the session that is there."""
    assert SparkSession.getActiveSession() is spark
    out = tmp_path_factory.mktemp("local")
    assert main(["build", str(runs), "--out", str(out)]) == 0
    return said(out)


@pytest.fixture(scope="module")
def store(cluster: Cluster, filling: Job) -> Path:
    """A store that the workers of the cluster have filled."""
    assert f"starting Spark with {cluster.url}" in filling.told()
    return cluster.folder / "store"


def said(out: Path) -> dict[str, Any]:
    """Returns what a report says, without when and with what it was made."""
    report: dict[str, Any] = json.loads((out / "report.json").read_text(encoding="utf-8"))
    for name in ("created", "made", "generated_at", "spark"):
        report.pop(name, None)
    return report


@pytest.mark.usefixtures("building")
def test_daemons_listen_on_the_loopback_address_only(cluster: Cluster) -> None:
    listening = [
        connection.laddr
        for daemon in cluster.daemons
        for connection in psutil.Process(daemon.process.pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    # One port to talk to and one page each; no REST server.
    assert len(listening) == 6
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {LOOPBACK}


@pytest.mark.usefixtures("filling")  # begins before local mode does, which is asked meanwhile
def test_report_of_the_cluster_is_that_of_local_mode(expected: dict[str, Any], store: Path) -> None:
    out = store.with_name("of-cluster")
    assert said(out) == expected
    assert (out / "report.html").is_file()


def by_key(spark: SparkSession) -> dict[str, int]:
    """Counts messages of captures by their full key."""
    messages = spark.read.format("zenoh").load(CAPTURES)
    found = traffic.keys(messages, traffic.aliases(messages)).groupBy("keyexpr").count()
    return {str(key): count for key, count in found.collect()}


@pytest.fixture
def connect(cluster: Cluster) -> Iterator[str]:
    """Where a Connect server answers, beside what was submitted."""
    server = cluster.start(
        *("bin/spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--master", cluster.url, "--driver-java-options", " ".join(cluster.options)),
        *("--conf", f"spark.connect.grpc.binding.address={LOOPBACK}"),
        *("--conf", "spark.connect.grpc.binding.port=0", *cluster.conf()),
        "spark-internal",
        # It is a driver, but takes what daemons get.
        memory="1g",
    )
    port = server.until(r"Spark Connect server started at: \S*?:(\d+)")[1]
    yield f"sc://{LOOPBACK}:{port}"
    server.end()


@pytest.mark.usefixtures("submitted")
def test_report_and_keys_of_captures_over_connect_are_those_of_local_mode(
    spark: SparkSession, cluster: Cluster, connect: str, store: Path, expected: dict[str, Any]
) -> None:
    out = cluster.folder / "of-connect"
    reports = (sys.executable, "-m", "spark_reports", "build")
    # Of the session only; the server keeps its own.
    setting = ("--conf", "spark.sql.shuffle.partitions=2")
    report = cluster.begin(*reports, "--store", store, "--out", out, "--remote", connect, *setting)
    place = cluster.folder / "by_key.py"
    place.write_text(BY_KEY)
    counted = cluster.begin(sys.executable, place, "--remote", connect)
    traffic.register(spark)
    keys = by_key(spark)
    assert sum(keys.values()) > len(keys) > 10
    assert f"using Spark Connect at {connect}" in report.told()
    assert said(out) == expected
    counted.told()
    assert json.loads(place.with_suffix(".json").read_text()) == keys


@pytest.fixture(scope="module")
def building(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Job, Path]]:
    """Builds the wheel, and where it will be."""
    # In a copy: setuptools leaves build/ and *.egg-info beside what it builds.
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for package in ("scapy_layers", "conformance", "fuzz", "spark_reports"):
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "LICENSE", "README.md"):
        shutil.copy(ROOT / file, source)
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        built,
        source,
    ]
    job = Job(command, os.environ, source)
    yield job, built
    job.end()


@pytest.fixture(scope="module")
def wheel(building: tuple[Job, Path]) -> Path:
    job, built = building
    job.told()
    (wheel,) = built.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def submitted(cluster: Cluster, wheel: Path, store: Path) -> Job:
    """Submits the wheel with the report ``of-wheel``; it runs beside what comes next."""
    job, out = cluster.folder / "zenoh_reports.py", cluster.folder / "of-wheel"
    job.write_text(
        "import sys\n"
        "from spark_reports.__main__ import __file__ as place, main\n"
        "print(place, file=sys.stderr)\n"
        "sys.exit(main())\n"
    )
    return cluster.begin(
        *(spark_home() / "bin" / "spark-submit", "--master", cluster.url, "--py-files", wheel),
        *("--driver-java-options", " ".join(cluster.options)),
        *cluster.conf(),
        *(job, "build", "--store", store, "--out", out),
        without="PYTHONPATH",
    )


def test_report_of_a_submitted_wheel_is_that_of_local_mode(
    cluster: Cluster, wheel: Path, submitted: Job, expected: dict[str, Any]
) -> None:
    told = submitted.told()
    assert f"{wheel.name}/spark_reports/__main__.py" in told
    assert "using the Spark of spark-submit" in told
    assert said(cluster.folder / "of-wheel") == expected
