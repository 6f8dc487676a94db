"""The marks of conformance tests, and what an item says about itself through them."""

from __future__ import annotations

from pathlib import Path

import pytest

req = pytest.mark.req
"""Names the requirements that a test covers: ``@req("ZN-INIT-045")``."""

slow = pytest.mark.slow
"""The test takes more than about a second on a healthy node."""

destructive = pytest.mark.destructive
"""The test may harm the node for others; it gets one of its own."""

transports = pytest.mark.transports
"""Names the transports on which a test makes sense: ``@transports("tcp", "udp")``."""

MARKS = (
    "req(*ids): requirements (ZN-...) that a conformance test covers",
    "slow: takes more than about a second on a healthy node",
    "destructive: may harm the node for others; gets a node of its own",
    "transports(*names): transports on which the test makes sense; all streams without it",
)

SUITE = Path(__file__).resolve().parents[1] / "suite"
"""Where the tests of the suite are."""

STREAMS = ("tcp", "tls", "ws", "unixsock-stream")
"""Transports of a test that does not say: over datagrams, batches may get lost and nobody sees a link end."""


def ids_of(item: pytest.Item) -> tuple[str, ...]:
    """Returns the requirements a test marks, in order, each once."""
    return tuple(dict.fromkeys(str(name) for mark in item.iter_markers("req") for name in mark.args))


def transport_of(item: pytest.Item) -> str:
    """Returns the transport a test runs over, empty for one that makes its links by itself."""
    callspec = getattr(item, "callspec", None)
    return str(callspec.params.get("transport", "")) if callspec is not None else ""


def test_id(item: pytest.Item) -> str:
    """Returns the id of a test without the place where the suite is installed: ``suite/test_x.py::test_y[z]``."""
    inside = item.nodeid.partition("::")[2]
    return (
        f"suite/{item.path.relative_to(SUITE).as_posix()}::{inside}"
        if item.path.is_relative_to(SUITE)
        else item.nodeid
    )


# Begins like a test, which pytest would collect.
test_id.__test__ = False  # type: ignore[attr-defined]
