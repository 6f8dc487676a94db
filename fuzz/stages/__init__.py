"""Where cases are played: a node that does what their states need, and the way to it.

``stage_for`` makes a stage for one of ``Facts.needs``. To add one, write a ``Stage`` and register it in ``STAGES``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from conformance.config import RunConfig
from conformance.errors import NotApplicable
from conformance.nodes.base import Node
from fuzz.stages.base import Stage, variant
from fuzz.stages.connecting import Connecting
from fuzz.stages.datagrams import Joining, Scouting, Seeking

__all__ = ["STAGES", "Connecting", "Joining", "Scouting", "Seeking", "Stage", "stage_for"]

Make = Callable[[Node, RunConfig, Mapping[str, Any]], Stage]


def _given(node: Node, config: RunConfig, where: Mapping[str, Any]) -> Stage:
    """The node itself, or one like it with a configuration of its own."""
    if not node.listens:
        raise NotApplicable("its command does not specify where it listens")
    return Stage(variant(node, where) if where else node, config)


class _Agreeing(Stage):
    """A node that agrees on something in INIT."""

    def __init__(self, needs: str, node: Node, config: RunConfig) -> None:
        self.needs = needs
        super().__init__(node, config)


def _agreeing(needs: str, config_of: Mapping[str, Any]) -> Make:
    def make(node: Node, config: RunConfig, where: Mapping[str, Any]) -> Stage:
        return _Agreeing(needs, variant(node, {**config_of, **where}), config)

    return make


STAGES: dict[str, Make] = {
    "": _given,
    # Low latency has no lanes.
    "low_latency": _agreeing(
        "low_latency", {"transport/unicast/lowlatency": True, "transport/unicast/qos/enabled": False}
    ),
    "compression": _agreeing("compression", {"transport/unicast/compression/enabled": True}),
    "connects": Connecting,
    "scouts": Scouting,
    "seeks": Seeking,
    "joins": Joining,
}
"""What makes a stage, by what its states need."""


def stage_for(needs: str, node: Node, config: RunConfig, where: Mapping[str, Any] | None = None) -> Stage:
    """Returns a stage, not started yet.

    Args:
        needs: One of ``Facts.needs``.
        node: Of the kind.
        config: The run.
        where: Configuration on top, by path: that of a script.

    Raises:
        NotApplicable: The node cannot do it; says why.
    """
    if needs not in STAGES:
        raise NotApplicable(f"there is no way to get a node that {needs}")
    return STAGES[needs](node, config, dict(where or {}))
