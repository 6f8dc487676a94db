"""The server of ``--warm``, a real one; each session is that of a process of its own, as commands are."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from spark_reports.engine.remote import PORT, Place, stop

SESSION = """
import argparse, json, os, sys
from spark_reports.engine.remote import ISOLATION
from spark_reports.engine.session import add_engine_options, engine_session

def compiled():
    ask = "SELECT java_method('org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator', 'compileTime')"
    return int(spark.sql(ask).head()[0])

def kind():
    return spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'java.vm.info')").head()[0]

parser = argparse.ArgumentParser()
add_engine_options(parser)
with engine_session(parser.parse_args(["--warm", *sys.argv[1:]])) as spark:
    before = compiled()
    rows = spark.range(1000).selectExpr("id % 7 AS a", "id * 3 AS b").groupBy("a").agg({"b": "sum"}).collect()
    found = {
        "total": sum(row[1] for row in rows),
        "compiled": compiled() - before,
        "kind": kind(),
        "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
        "tables": spark.conf.get("spark.sql.warehouse.dir"),
        "isolation": [spark.conf.get(name) for name in ISOLATION],
    }
print(json.dumps(found))
"""
PARTITIONS = "spark.sql.shuffle.partitions"


class Run:
    """Runs commands in an environment with a place for a server of its own."""

    def __init__(self, runtime: Path) -> None:
        self.environ = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}

    def __call__(self, *options: str, code: str = SESSION) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", code, *options]
        return subprocess.run(
            command, env=self.environ, capture_output=True, text=True, timeout=600, check=False
        )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    run = Run(tmp_path_factory.mktemp("runtime"))
    yield run
    assert stop(run.environ)


KILLED = """
import os, signal
from spark_reports.engine.remote import Place
from spark_reports.engine.session import engine_session, add_engine_options
from spark_reports.errors import EngineFailed
import argparse

parser = argparse.ArgumentParser()
add_engine_options(parser)
try:
    with engine_session(parser.parse_args(["--warm"])) as spark:
        os.kill(Place.of(os.environ).process(), signal.SIGKILL)
        spark.range(9).count()
except EngineFailed as error:
    print("failed:", error)
"""


def test_command_does_not_wait_for_a_server_that_was_killed(run: Run) -> None:
    # PySpark left alone would ask for ten minutes.
    done = run(code=KILLED)
    assert "failed: Spark gave up: " in done.stdout, done.stderr


@dataclass(frozen=True)
class Sessions:
    """What two commands told, one after the other, and what the server told of itself then."""

    told: tuple[dict[str, Any], dict[str, Any]]
    server: dict[str, Any]


@pytest.fixture(scope="module")
def sessions(run: Run) -> Sessions:
    first, second = run("--conf", f"{PARTITIONS}=3"), run()
    assert (first.returncode, second.returncode) == (0, 0), (first.stderr, second.stderr)
    # Another test ends the server, and with it this file.
    server = json.loads(Place.of(run.environ).discovery.read_text(encoding="utf-8"))
    return Sessions((_told(first), _told(second)), server)


def _told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_what_one_session_compiled_serves_the_next_and_its_settings_do_not(sessions: Sessions) -> None:
    first, second = sessions.told
    assert first["total"] == second["total"] == 3 * sum(range(1000))
    assert first["isolation"] == second["isolation"] == ["false", "false"]
    assert (first["partitions"], second["partitions"]) == ("3", "1")
    # Not where the first command happened to be started.
    assert Path(first["tables"].removeprefix("file:")).parent.name == f"zenoh-reports-{os.getuid()}"
    # That is what Java calls itself with the quick compiler alone.
    assert "emulated-client" in first["kind"]
    assert first["compiled"] > 0
    assert second["compiled"] == 0


def test_server_has_a_port_of_its_own(sessions: Sessions) -> None:
    assert sessions.server["port"] != PORT, "that of Spark is taken by all who start one at the same time"


WRONG = """
import argparse, json, sys
from spark_reports.engine.session import add_engine_options, engine_session
from spark_reports.errors import WrongUse

parser = argparse.ArgumentParser()
add_engine_options(parser)
told = []
for setting in sys.argv[1:]:
    try:
        with engine_session(parser.parse_args(["--warm", "--conf", setting])):
            told.append("started")
    except WrongUse as error:
        told.append(str(error))
print(json.dumps(told))
"""


def test_setting_that_cannot_be_is_wrong_use_at_once(run: Run) -> None:
    done = run(f"{PARTITIONS}=x", "spark.executor.memory=8g", code=WRONG)
    invalid, fixed = json.loads(done.stdout.splitlines()[-1])
    assert invalid.startswith(f"--conf: The value 'x' in the config \"{PARTITIONS}\" is invalid"), done.stderr
    assert fixed.startswith("--conf: Cannot modify the value of the Spark config")
