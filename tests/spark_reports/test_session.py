import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_reports.session import LOCAL, environment, settings

ROOT = Path(__file__).parents[2]


def test_one_machine_stays_on_the_loopback_address(tmp_path: Path) -> None:
    chosen = settings(LOCAL, tmp_path)
    assert chosen["spark.driver.host"] == chosen["spark.driver.bindAddress"] == "127.0.0.1"
    assert chosen["spark.ui.enabled"] == "false"
    assert chosen["spark.sql.warehouse.dir"].startswith(str(tmp_path))


def test_long_runs_get_the_optimising_compiler(tmp_path: Path) -> None:
    assert "TieredStopAtLevel" in settings(LOCAL, tmp_path)["spark.driver.extraJavaOptions"]
    assert "TieredStopAtLevel" not in settings(LOCAL, tmp_path, fast=False)["spark.driver.extraJavaOptions"]


def test_cluster_gets_its_url_and_nothing_of_this_machine(tmp_path: Path) -> None:
    chosen = settings("spark://host:7077", tmp_path)
    assert chosen["spark.master"] == "spark://host:7077"
    assert not [name for name, value in chosen.items() if "127.0.0.1" in value or str(tmp_path) in value]


def test_one_machine_ignores_what_the_environment_says_of_spark(tmp_path: Path) -> None:
    changes = environment(
        LOCAL, None, tmp_path, {"SPARK_REMOTE": "sc://x", "PYSPARK_SUBMIT_ARGS": "y", "LANG": "C"}
    )
    assert changes["SPARK_REMOTE"] is None
    assert changes["PYSPARK_SUBMIT_ARGS"] is None
    assert changes["JAVA_HOME"] is None
    assert "LANG" not in changes
    assert (Path(str(changes["SPARK_HOME"])) / "bin" / "spark-submit").exists()


def test_cluster_keeps_what_the_environment_says_except_the_home(tmp_path: Path) -> None:
    changes = environment(
        "yarn", tmp_path, tmp_path, {"HADOOP_CONF_DIR": "/etc/hadoop", "SPARK_HOME": "/opt/other"}
    )
    assert set(changes) == {"SPARK_HOME", "JAVA_HOME"}
    assert changes["SPARK_HOME"] != "/opt/other"


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


def test_spark_is_quiet_leaves_nothing_and_can_be_started_again(tmp_path: Path, broken_java: Path) -> None:
    code = """if True:
        import os, sys
        from spark_reports.errors import EngineFailed
        from spark_reports.java import find_java
        from spark_reports.session import spark_session
        with spark_session(find_java(os.environ), os.environ) as spark:
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
