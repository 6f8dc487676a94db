"""Hypothesis for our tests, the order of the longest files, and which of them go together.

There is no deadline, because a busy machine is no finding. Each run tries the same examples, so that a change fails for
what it changed; ``--hypothesis-profile search`` looks for new ones.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from scapy_layers import tshark

settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ours", settings.get_profile("search"), derandomize=True)
settings.load_profile("ours")

# The processes of xdist get the environment of the one that starts them, and find tshark for themselves.
os.environ["PATH"] = os.environ.setdefault("PATH_BEFORE_TESTS", os.environ["PATH"])
if tshark.is_there() and (found := tshark.find()).refuses:
    # Tests start it by its name as well.
    os.environ["PATH"] = os.pathsep.join((str(found.path.parent), os.environ["PATH"]))

LONGEST = ("test_cluster.py", "test_suite.py", "spark_reports")
"""A minute each, or several: begun last, they would be waited for by idle workers."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest files, and folders, first."""
    items.sort(key=lambda item: next((at for at, one in enumerate(LONGEST) if one in item.path.parts), 9))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Gives all that is about Spark to one of more than two workers: each of them would start and warm up its own."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    scheduler: Any = LoadFileScheduling(config, log)
    file_of = scheduler._split_scope

    def split_scope(nodeid: str) -> str:
        file: str = file_of(nodeid)
        folder, _, name = file.rpartition("/")
        together = scheduler.numnodes > 2 and folder == "tests/spark_reports" and name not in LONGEST
        return folder if together else file

    scheduler._split_scope = split_scope
    return scheduler
