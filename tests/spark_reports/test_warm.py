"""The server of ``--warm``, a real one; each session is that of a process of its own, as commands are."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_reports.engine.remote import stop

SESSION = """
import json, os
from spark_reports.engine.java import find_java
from spark_reports.engine.remote import ISOLATION, warm_session
from spark_reports.engine.settings import FAST

def compiled():
    ask = "SELECT java_method('org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator', 'compileTime')"
    return int(spark.sql(ask).head()[0])

with warm_session(find_java(os.environ), os.environ, FAST, {"spark.sql.shuffle.partitions": "3"}) as spark:
    before = compiled()
    rows = spark.range(1000).selectExpr("id % 7 AS a", "id * 3 AS b").groupBy("a").agg({"b": "sum"}).collect()
    found = {
        "total": sum(row[1] for row in rows),
        "compiled": compiled() - before,
        "partitions": spark.conf.get("spark.sql.shuffle.partitions"),
        "isolation": [spark.conf.get(name) for name in ISOLATION],
    }
print(json.dumps(found))
"""


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment with a place for a server of its own, which is ended."""
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    yield environ
    assert stop(environ)


def test_what_one_session_compiled_serves_the_next(environ: dict[str, str]) -> None:
    found = []
    for _ in range(2):
        said = subprocess.run(
            [sys.executable, "-c", SESSION],
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        found.append(json.loads(said.stdout.splitlines()[-1]))
    first, second = found
    assert first["total"] == second["total"] == 3 * sum(range(1000))
    assert first["partitions"] == second["partitions"] == "3"
    assert first["isolation"] == second["isolation"] == ["false", "false"]
    assert first["compiled"] > 0
    assert second["compiled"] == 0
