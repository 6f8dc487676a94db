"""Our own readers as targets: ``zenoh-fuzz run all --target scapy``.

To add one, write a class of ``Target`` and register it in ``TARGETS``.
"""

from __future__ import annotations

from fuzz.targets.base import Fault, Limit, Target, run_target
from fuzz.targets.columns import Columns
from fuzz.targets.layers import Layers
from fuzz.targets.lua import Dissector

__all__ = ["NODES", "TARGETS", "Fault", "Limit", "Target", "run_target"]

TARGETS: dict[str, type[Target]] = {target.name: target for target in (Layers, Columns, Dissector)}
"""Readers."""

NODES = {"refnode": "ref"}
"""Targets that are nodes, in the words of ``--node``: everything that judges nodes judges them too."""
