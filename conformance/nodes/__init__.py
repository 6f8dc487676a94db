"""Ways to obtain a node, registered by the prefix of ``--node``."""

from __future__ import annotations

from conformance.config import Locator, RunConfig, check_allowed
from conformance.errors import UsageError
from conformance.nodes.attach import AttachedNode
from conformance.nodes.base import Node
from conformance.nodes.pypi import PypiNode

__all__ = ["Node", "node_of"]


def node_of(config: RunConfig, name: str = "node") -> Node:
    """Returns the node that ``--node`` names, not started yet.

    Args:
        config: The run.
        name: Base name of its log files.

    Raises:
        UsageError: Nothing of that name, or an address that may not be tested.
        NodeDidNotStart: The release cannot be had.
    """
    way, _, rest = config.node.partition(":")
    if way == "pypi":
        if config.profile:
            raise UsageError(
                "--profile is for a node that somebody else started; a pypi node knows what it is"
            )
        return PypiNode(config.run_dir / "nodes", rest, name=name)
    if way == "ref":
        if config.profile:
            raise UsageError(
                "--profile is for a node that somebody else started; a reference node knows what it is"
            )
        # Router and session machine are of no interest to a run against another node.
        from conformance.nodes.ref import RefNode

        return RefNode(config.run_dir / "nodes", rest, name=name)
    if "/" in config.node:
        locator = Locator.parse(config.node)
        check_allowed(locator, allowed=config.may_test)
        return AttachedNode(locator, config.profile)
    raise UsageError(
        f"--node {config.node!r} is neither a locator like tcp/127.0.0.1:7447 nor pypi[:VERSION] "
        "nor ref[:MUTANT]"
    )
