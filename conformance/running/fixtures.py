"""What tests ask for: the node, testers of it, nodes with a configuration of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import Any

import pytest

from conformance.config import RunConfig
from conformance.errors import Inconclusive, NotApplicable
from conformance.nodes import Node
from conformance.running.marks import test_id
from conformance.running.run import nodes_key, run_key, testers_key
from conformance.tester import Fencing, Tester


@pytest.fixture
def run_config(request: pytest.FixtureRequest) -> RunConfig:
    """The options of the run: T1, slack, seed."""
    return request.config.stash[run_key].settings.config


@pytest.fixture
def transport(request: pytest.FixtureRequest) -> str:
    """What links of this test are made of."""
    return str(getattr(request, "param", "tcp"))


@pytest.fixture
def node(request: pytest.FixtureRequest) -> Generator[Node, None, None]:
    """The node under test, running; for a destructive test one of its own, if it can be had."""
    run = request.config.stash[run_key]
    if run.lost:
        raise Inconclusive(run.lost)
    if request.node.get_closest_marker("destructive") is None:
        yield run.node
    elif run.node.owned:
        with _watched(request, run.node.variant()) as own:
            yield own
    elif run.settings.allow_destructive:
        yield run.node
    else:
        raise NotApplicable("may harm the node, which is not ours: allow it with --allow-destructive")


@pytest.fixture
def tester(
    request: pytest.FixtureRequest, node: Node, run_config: RunConfig, transport: str
) -> Generator[Tester, None, None]:
    """Our end: makes links and sessions, records everything; ends all links behind the test."""
    why = node.lacks(transport)
    if why:
        raise NotApplicable(why)
    with _testing(request, node, run_config, transport) as made:
        yield made


@pytest.fixture
def tester_of(
    request: pytest.FixtureRequest, node: Node, run_config: RunConfig, transport: str
) -> Generator[Callable[..., Tester], None, None]:
    """Makes testers of nodes with a configuration of their own: ``tester_of(transport__unicast__max_sessions=1)``.

    The test is n/a when the node was not started by us.
    """
    with contextlib.ExitStack() as stack:

        def make(**config: Any) -> Tester:
            variant = stack.enter_context(_watched(request, node.variant(**config)))
            why = variant.lacks(transport)
            if why:
                raise NotApplicable(why)
            return stack.enter_context(_testing(request, variant, run_config, transport))

        yield make


@pytest.fixture
def launched(request: pytest.FixtureRequest, node: Node) -> Generator[Callable[..., Node], None, None]:
    """Launches nodes with a configuration of their own, without waiting for them: ``launched(mode="client")``.

    They are ended behind the test. The test is n/a when the node was not started by us.
    """
    with contextlib.ExitStack() as stack:

        def make(**config: Any) -> Node:
            variant = node.variant(**config)
            request.node.stash.setdefault(nodes_key, []).append(variant)
            # One that still waits for somebody to answer does not hear a polite signal.
            stack.callback(variant.kill)
            variant.launch()
            return variant

        yield make


@contextlib.contextmanager
def _watched(request: pytest.FixtureRequest, node: Node) -> Generator[Node, None, None]:
    """Starts a node for one test, and has it looked at behind the test."""
    with node as running:
        request.node.stash.setdefault(nodes_key, []).append(running)
        yield running


@contextlib.contextmanager
def _testing(
    request: pytest.FixtureRequest, node: Node, config: RunConfig, transport: str
) -> Generator[Tester, None, None]:
    where = node.locators.get(transport, node.locator)
    made = Tester(where, config.rng(test_id(request.node)), config.reply, node.tls)
    made.fencing = Fencing(node.fence)
    made.user = node.user
    request.node.stash.setdefault(testers_key, []).append(made)
    try:
        yield made
    finally:
        made.close()
