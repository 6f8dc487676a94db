"""Passive conformance: which requirements the traffic of a capture breaks.

``Linter().hear(unit)`` takes what ``stream`` yields; ``findings`` joins everything. A rule is a small function in
one of the ``rules_...`` modules; ``RULES`` lists them all.
"""

from scapy_layers.lint import (
    rules_close,
    rules_declare,
    rules_format,
    rules_fragment,
    rules_init,
    rules_key,
    rules_lane,
    rules_lease,
    rules_open,
    rules_query,
    rules_scout,
)
from scapy_layers.lint.linter import Linter, findings
from scapy_layers.lint.rule import RULES, Break, Finding, Rule, Severity

__all__ = [
    "RULES",
    "Break",
    "Finding",
    "Linter",
    "Rule",
    "Severity",
    "findings",
    "rules_close",
    "rules_declare",
    "rules_format",
    "rules_fragment",
    "rules_init",
    "rules_key",
    "rules_lane",
    "rules_lease",
    "rules_open",
    "rules_query",
    "rules_scout",
]
