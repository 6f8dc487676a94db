"""The server of ``--warm``, a real one; each session is that of a process of its own, as commands are."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_reports.engine.remote import stop

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

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Runs a command in an environment with a place for a server of its own, which is ended."""
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path_factory.mktemp("runtime"))}

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", SESSION, *options]
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)

    yield run
    assert stop(environ)


def test_what_one_session_compiled_serves_the_next_and_its_settings_do_not(run: Run) -> None:
    first, second = (
        json.loads(run(*options).stdout.splitlines()[-1]) for options in (("--conf", f"{PARTITIONS}=3"), ())
    )
    assert first["total"] == second["total"] == 3 * sum(range(1000))
    assert first["isolation"] == second["isolation"] == ["false", "false"]
    assert (first["partitions"], second["partitions"]) == ("3", "1")
    # Not where the first command happened to be started.
    assert Path(first["tables"].removeprefix("file:")).parent.name == f"zenoh-reports-{os.getuid()}"
    # That is what Java calls itself with the quick compiler alone.
    assert "emulated-client" in first["kind"]
    assert first["compiled"] > 0
    assert second["compiled"] == 0


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (f"{PARTITIONS}=x", f"--conf: The value 'x' in the config \"{PARTITIONS}\" is invalid"),
        ("spark.executor.memory=8g", "--conf: Cannot modify the value of the Spark config"),
    ],
)
def test_setting_that_cannot_be_is_wrong_use_at_once(run: Run, setting: str, message: str) -> None:
    said = run("--conf", setting)
    assert said.returncode
    assert message in said.stderr.splitlines()[-1]
    assert "WrongUse" in said.stderr.splitlines()[-1]
