"""What frame functions must not do, so that the same code runs here, over Connect and on a cluster."""

import ast
from pathlib import Path

import pytest

import spark_reports

FRAMES = (
    *("coverage", "drift", "estimates", "findings", "matrix", "mutants", "rates", "regressions", "sets"),
    "versions",
)

ACTIONS = {
    "collect",
    "toArrow",
    "toPandas",
    "toLocalIterator",
    "take",
    "head",
    "show",
    "foreach",
    "foreachPartition",
}

NOT_OVER_CONNECT = {"rdd", "sparkContext", "_jdf", "_jvm", "_sc"}

STATE = {"persist", "cache", "checkpoint", "sparkSession", "createDataFrame", "getActiveSession"}


@pytest.mark.parametrize("name", FRAMES)
def test_frames_start_nothing_and_hold_nothing(name: str) -> None:
    tree = ast.parse((Path(spark_reports.__file__).parent / f"{name}.py").read_text(encoding="utf-8"))
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not used & (ACTIONS | NOT_OVER_CONNECT | STATE)


@pytest.mark.parametrize("name", FRAMES)
def test_no_window_holds_all_rows(name: str) -> None:
    tree = ast.parse((Path(spark_reports.__file__).parent / f"{name}.py").read_text(encoding="utf-8"))
    begun = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Window"
    }
    # A window without a partition brings every row to one task.
    assert begun <= {"partitionBy", "unboundedPreceding", "unboundedFollowing", "currentRow"}


@pytest.mark.parametrize("name", FRAMES)
def test_no_python_runs_on_a_worker(name: str) -> None:
    text = (Path(spark_reports.__file__).parent / f"{name}.py").read_text(encoding="utf-8")
    assert not [word for word in ("udf(", "mapInArrow", "applyInArrow", "pandas") if word in text]
