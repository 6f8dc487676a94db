"""Which worker of xdist runs what."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("workers", "dist", "folder"),
    [(3, "loadfile", "tests/spark_reports"), (2, "loadfile", None), (3, "load", None)],
)
def test_of_three_workers_one_has_all_that_needs_spark(
    pytestconfig: pytest.Config, workers: int, dist: str, folder: str | None
) -> None:
    pytest.importorskip("xdist")
    options = {"dist": dist, "tx": ["popen"] * workers}
    config = SimpleNamespace(getvalue=options.__getitem__)
    made: Any = pytestconfig.hook.pytest_xdist_make_scheduler(config=config, log=None)
    if dist == "load":
        assert made is None
        return
    files = ["tests/spark_reports/test_load.py", "tests/spark_reports/test_cluster.py", "tests/test_pcaps.py"]
    scopes = [made._split_scope(f"{file}::test[a/b::c]") for file in files]
    assert scopes == [folder or files[0], *files[1:]]
