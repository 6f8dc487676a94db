"""Ways to obtain a node, registered by the prefix of ``--node``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.config import Locator, RunConfig, Tls, check_allowed, prepare_run_dir
from conformance.errors import UsageError
from conformance.nodes.attach import AttachedNode
from conformance.nodes.base import Node
from conformance.nodes.certificates import certificates
from conformance.nodes.child import private_scouting
from conformance.nodes.command import CommandNode
from conformance.nodes.pypi import PypiNode
from conformance.nodes.users import USERS, dictionary
from conformance.profiles import load_profile

__all__ = ["Node", "node_of"]


WAYS = "a locator like tcp/127.0.0.1:7447, pypi[:VERSION], ref[:MUTANT], cmd:'COMMAND {locator}' or null:KIND"


def node_of(config: RunConfig, name: str = "node") -> Node:
    """Returns the node that ``--node`` names, not started yet.

    Args:
        config: The run.
        name: Base name of its log files.

    Raises:
        UsageError: Nothing of that name, or an address that may not be tested.
        NodeDidNotStart: The release cannot be had.
    """
    node = _made(config, name)
    node.user = config.user
    return node


def _made(config: RunConfig, name: str) -> Node:
    way, _, rest = config.node.partition(":")
    if way in _WAYS:
        return _WAYS[way](config, rest, name)
    if "/" in config.node:
        locator = Locator.parse(config.node)
        check_allowed(locator, allowed=config.may_test)
        return AttachedNode(locator, load_profile(config.profile))
    raise UsageError(f"--node {config.node!r} must be {WAYS}")


def _pypi(config: RunConfig, version: str, name: str) -> Node:
    _refuse_profile(config, "a pypi node")
    logs = config.run_dir / "nodes"
    return PypiNode(logs, version, _own(config), name, transports=config.transports, tls=_tls(config))


def _ref(config: RunConfig, mutant: str, name: str) -> Node:
    _refuse_profile(config, "a reference node")
    # Router and session machine are of no interest to a run against another node.
    from conformance.nodes.ref import RefNode

    logs = config.run_dir / "nodes"
    return RefNode(logs, mutant, _own(config), name, transports=config.transports, tls=_tls(config))


def _cmd(config: RunConfig, command: str, name: str) -> Node:
    logs, profile = config.run_dir / "nodes", load_profile(config.profile)
    return CommandNode(
        logs,
        command,
        profile,
        name,
        transports=config.transports,
        tls=_tls(config),
        time_scale=config.time_scale,
    )


def _null(config: RunConfig, kind: str, name: str) -> Node:  # noqa: ARG001  (it writes nothing)
    _refuse_profile(config, "a null node")
    # Its transcript is of no interest to a run against a node.
    from conformance.nodes.null import NullNode

    return NullNode(kind, config.seed, transports=config.transports, tls=_tls(config))


_WAYS: dict[str, Callable[[RunConfig, str, str], Node]] = {
    "pypi": _pypi,
    "ref": _ref,
    "cmd": _cmd,
    "null": _null,
}
"""By prefix of ``--node``: what makes the node from the run, what stands behind the prefix, and its name."""


def _own(config: RunConfig) -> dict[str, Any]:
    """Returns the configuration of a node of ours: it asks for the user that the run names."""
    users = {USERS: dictionary(config.user)} if config.user else {}
    return {**private_scouting(), **users}


def _refuse_profile(config: RunConfig, what: str) -> None:
    if config.profile:
        raise UsageError(f"--profile is for nodes that the suite does not know; it already knows {what}")


def _tls(config: RunConfig) -> Tls | None:
    """Returns the certificates of a run that makes links over TLS."""
    if "tls" not in config.transports:
        return None
    prepare_run_dir(config.run_dir)
    return certificates(config.run_dir / "nodes" / "tls")
