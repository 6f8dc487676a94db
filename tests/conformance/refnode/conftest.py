from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.refnode._started import Started

Start = Callable[..., Started]
LEASE = 3600
"""Seconds. A raw socket sends no KEEP_ALIVE, however long a test takes."""

TCP = ("--listen", "tcp/127.0.0.1:0", "--lease", str(LEASE))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    """Starts reference nodes; on tcp unless other locators are given. None may fail inside or outlive the test."""
    with contextlib.ExitStack() as stack:
        nodes: list[Started] = []

        def make(*words: str, level: str = "info", module: str = "conformance.refnode") -> Started:
            listening = any(word in words for word in ("--listen", "--scout", "--multicast", "--connect"))
            node = stack.enter_context(
                Started(tmp_path, *(() if listening else TCP), *words, level=level, module=module)
            )
            if module == "conformance.refnode":
                nodes.append(node)
            return node

        yield make
        for node in nodes:
            assert "internal error" not in node.said(), node.said()
            assert "Traceback" not in node.said(), node.said()


@pytest.fixture
def node(start: Callable[..., Started]) -> Started:
    """A correct reference node on tcp."""
    return start()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """One correct node for many tests that must leave it well."""
    with Started(tmp_path_factory.mktemp("shared"), *TCP) as node:
        yield node
        assert "Traceback" not in node.said(), node.said()
