"""What frame functions must not do, so that the same code runs here, over Connect and on a cluster."""

import ast
from pathlib import Path

import pytest

from spark_reports import frames

FRAMES = sorted(
    path for path in Path(frames.__file__).parent.glob("*.py") if path.stem not in {"__init__", "statistics"}
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


@pytest.mark.parametrize("path", FRAMES, ids=lambda path: path.stem)
def test_frames_start_nothing_and_hold_nothing(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not used & (ACTIONS | NOT_OVER_CONNECT | STATE)


@pytest.mark.parametrize("path", FRAMES, ids=lambda path: path.stem)
def test_no_window_holds_all_rows(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    begun = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Window"
    }
    # A window without a partition brings every row to one task.
    assert begun <= {"partitionBy", "unboundedPreceding", "unboundedFollowing", "currentRow"}


@pytest.mark.parametrize("path", FRAMES, ids=lambda path: path.stem)
def test_no_python_runs_on_a_worker(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not [word for word in ("udf(", "mapInArrow", "applyInArrow", "pandas") if word in text]
