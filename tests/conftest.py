"""Hypothesis for our tests, and the order of the longest files.

There is no deadline, because a busy machine is no finding. Each run tries the same examples, so that a change fails for
what it changed; ``--hypothesis-profile search`` looks for new ones.
"""

from __future__ import annotations

import os

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

LONGEST = {"test_cluster.py", "test_suite.py"}
"""Minutes each: begun last, they would be waited for by idle workers."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest files first."""
    items.sort(key=lambda item: item.path.name not in LONGEST)
