"""A pytest plugin that runs tests in random order: ``-p conformance.shuffle --shuffle SEED``."""

from __future__ import annotations

import random

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option."""
    parser.addoption(
        "--shuffle", type=int, default=None, metavar="SEED", help="run tests in an order of this seed"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the tests into an order that only the seed decides, not the order they were found in."""
    seed = config.getoption("--shuffle")
    if seed is not None:
        items.sort(key=lambda item: item.nodeid)
        random.Random(seed).shuffle(items)
