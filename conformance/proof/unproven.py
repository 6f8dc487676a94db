"""Requirements without a mutant, and why."""

from __future__ import annotations

REPORT_ONLY = "only reported: a node is free to do either"

UNPROVEN: dict[str, str] = {
    "ZN-EXT-105": REPORT_ONLY,
    "ZN-HLO-003": REPORT_ONLY,
    "ZN-INIT-046": REPORT_ONLY,
    "ZN-KA-103": REPORT_ONLY,
    "ZN-RTE-020": REPORT_ONLY,
    "ZN-SCT-002": REPORT_ONLY,
}
"""Requirements with a test that no mutant of their own proves, each with the reason."""
