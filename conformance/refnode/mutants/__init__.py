"""Nodes that break one rule each, to show that the suite notices. ``--list-mutants`` lists them."""

from __future__ import annotations

# Loading an area registers its mutants.
from conformance.refnode.mutants import (
    fragments,
    groups,
    handshake,
    lanes,
    parsing,
    receiving,
    responding,
    routes,
    routing,
    scouts,
)
from conformance.refnode.mutants.registry import CORRECT, MUTANTS, Memory, Mutant, mutant, mutant_named

__all__ = [
    "CORRECT",
    "MUTANTS",
    "Memory",
    "Mutant",
    "fragments",
    "groups",
    "handshake",
    "lanes",
    "mutant",
    "mutant_named",
    "parsing",
    "receiving",
    "responding",
    "routes",
    "routing",
    "scouts",
]
