import os
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_reports.engine.settings import (
    BULK,
    BULK_MEMORY,
    CODE,
    FAST,
    FAST_LIMIT_BYTES,
    FAST_MEMORY,
    LEAST_MEMORY,
    LOCAL,
    SMALL,
    SMALL_LIMIT_BYTES,
    Profile,
    applied,
    environment,
    heap,
    machine_memory,
    of_session,
    settings,
)


def test_one_machine_stays_on_the_loopback_address(tmp_path: Path) -> None:
    chosen = settings(LOCAL, tmp_path)
    assert chosen["spark.driver.host"] == chosen["spark.driver.bindAddress"] == "127.0.0.1"
    assert chosen["spark.ui.enabled"] == "false"


def test_what_one_machine_writes_lies_in_the_temporary_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    chosen = settings(LOCAL, folder)
    assert chosen["spark.local.dir"] == str(folder)
    assert chosen["spark.sql.warehouse.dir"].startswith(str(folder))
    assert f'"-Djava.io.tmpdir={folder}"' in chosen["spark.driver.extraJavaOptions"]


def test_long_runs_get_the_optimising_compiler_and_more_memory(tmp_path: Path) -> None:
    fast, bulk = settings(LOCAL, tmp_path), settings(LOCAL, tmp_path, BULK)
    assert "TieredStopAtLevel" in fast["spark.driver.extraJavaOptions"]
    assert "spark.buffer.pageSize" in fast.keys() - bulk.keys()
    assert "TieredStopAtLevel" not in bulk["spark.driver.extraJavaOptions"]
    assert int(fast["spark.driver.memory"].rstrip("m")) <= int(bulk["spark.driver.memory"].rstrip("m"))


@pytest.mark.parametrize("profile", [FAST, BULK])
def test_there_is_room_for_the_programs_that_are_kept(tmp_path: Path, profile: Profile) -> None:
    options = settings(LOCAL, tmp_path, profile)["spark.driver.extraJavaOptions"].split()
    assert CODE in options


def test_java_takes_the_room_for_programs(spark: SparkSession) -> None:
    pools = spark._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()  # type: ignore[union-attr]
    room = sum(pool.getUsage().getMax() for pool in pools if pool.getName().startswith("Code"))
    assert room >= 512 << 20


def test_options_for_java_are_passed_on(tmp_path: Path) -> None:
    chosen = settings(LOCAL, tmp_path, java_options=["-Xshare:auto"])
    assert "-Xshare:auto" in chosen["spark.driver.extraJavaOptions"].split()


@pytest.mark.parametrize("profile", [FAST, BULK])
def test_cluster_gets_its_url_and_nothing_of_this_machine(tmp_path: Path, profile: Profile) -> None:
    chosen = settings("spark://host:7077", tmp_path, profile)
    assert chosen["spark.master"] == "spark://host:7077"
    assert not [name for name, value in chosen.items() if "127.0.0.1" in value or str(tmp_path) in value]
    assert ("spark.sql.shuffle.partitions" in chosen) is profile.fast
    assert "spark.driver.memory" not in chosen


def test_session_anywhere_counts_time_in_utc_and_writes_zstd() -> None:
    for local in (True, False):
        chosen = of_session(FAST, local=local)
        assert chosen["spark.sql.session.timeZone"] == "UTC"
        assert chosen["spark.sql.parquet.compression.codec"] == "zstd"


@pytest.mark.parametrize(
    ("size", "profile"),
    [
        (0, SMALL),
        (SMALL_LIMIT_BYTES, FAST),
        (FAST_LIMIT_BYTES - 1, FAST),
        (FAST_LIMIT_BYTES, BULK),
    ],
)
def test_profile_goes_by_the_size_of_the_input(size: int, profile: Profile) -> None:
    assert Profile.for_input(size) == profile


def test_queries_over_little_are_interpreted() -> None:
    name = "spark.sql.codegen.factoryMode"
    assert of_session(SMALL, local=True)[name] == "NO_CODEGEN"
    assert name not in of_session(FAST, local=True)


@pytest.mark.parametrize(
    ("memory", "fast", "expected"),
    [
        (2 << 30, True, 1 << 30),
        (64 << 30, True, FAST_MEMORY),
        (8 << 30, False, 4 << 30),
        (64 << 30, False, BULK_MEMORY),
        (512 << 20, True, LEAST_MEMORY),
    ],
)
def test_heap_is_half_of_the_memory_within_bounds(memory: int, fast: bool, expected: int) -> None:
    assert heap(memory, fast=fast) == expected


@pytest.mark.parametrize(("memory", "start"), [("1g", "-Xms512m"), ("900M", "-Xms450m"), ("1t", None)])
def test_java_begins_with_no_more_than_it_may_have(tmp_path: Path, memory: str, start: str | None) -> None:
    chosen = settings(LOCAL, tmp_path, memory=memory)
    assert chosen["spark.driver.memory"] == memory
    starts = [word for word in chosen["spark.driver.extraJavaOptions"].split() if word.startswith("-Xms")]
    assert starts == ([] if start is None else [start])


@pytest.mark.parametrize(("text", "limited"), [("1048576\n", True), ("max\n", False)])
def test_container_with_a_limit_has_less_memory_than_its_machine(
    tmp_path: Path, text: str, limited: bool
) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text(text)
    assert (machine_memory([limit, tmp_path / "none"]) == 1 << 20) is limited
    assert machine_memory([tmp_path / "none"]) > 1 << 20


def test_one_machine_ignores_what_the_environment_says_of_spark(tmp_path: Path) -> None:
    changes = environment(
        LOCAL, None, tmp_path, {"SPARK_REMOTE": "sc://x", "PYSPARK_SUBMIT_ARGS": "y", "LANG": "C"}
    )
    assert changes["SPARK_REMOTE"] is None
    assert changes["PYSPARK_SUBMIT_ARGS"] is None
    assert changes["JAVA_HOME"] is None
    assert "LANG" not in changes
    # Java names files as the locale has it.
    assert changes["LC_ALL"] == "C.UTF-8"
    for utf8 in ({"LANG": "C.UTF-8"}, {"LC_ALL": "de_DE.UTF-8", "LANG": "C"}):
        assert "LC_ALL" not in environment(LOCAL, None, tmp_path, utf8)
    assert environment(LOCAL, None, tmp_path, {"LANG": "de_DE.UTF-8", "LC_ALL": "POSIX"})["LC_ALL"]
    assert (Path(str(changes["SPARK_HOME"])) / "bin" / "spark-submit").exists()


def test_cluster_keeps_what_the_environment_says_except_the_home(tmp_path: Path) -> None:
    changes = environment(
        "yarn",
        tmp_path,
        tmp_path,
        {"HADOOP_CONF_DIR": "/etc/hadoop", "SPARK_HOME": "/opt/other", "LANG": "C.UTF-8"},
    )
    assert set(changes) == {"SPARK_HOME", "JAVA_HOME"}
    assert changes["SPARK_HOME"] != "/opt/other"


def test_driver_of_a_cluster_gets_options_beside_those_it_has(tmp_path: Path) -> None:
    def options(master: str, **environ: str) -> str | None:
        return environment(master, None, tmp_path, environ, ["-a", "-b"]).get("SPARK_SUBMIT_OPTS")

    assert options("yarn") == "-a -b"
    assert options("yarn", SPARK_SUBMIT_OPTS="-c") == "-c -a -b"
    assert options(LOCAL) is None


def test_changes_of_the_environment_are_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZN_SET", "before")
    monkeypatch.delenv("ZN_UNSET", raising=False)
    with suppress(KeyError), applied({"ZN_SET": None, "ZN_UNSET": "now"}):
        assert ("ZN_SET" in os.environ, os.environ["ZN_UNSET"]) == (False, "now")
        os.environ["ZN_SET"] = "meanwhile"
        raise KeyError
    assert (os.environ["ZN_SET"], "ZN_UNSET" in os.environ) == ("before", False)
