"""The coverage matrix: which test says what about which requirement."""

from __future__ import annotations

import csv
import io
import json

from conformance.page.facts import Facts
from conformance.page.reading import Recorded

COLUMNS = ("requirement", "area", "level", "via", "requirement_outcome", "test", "transport", "outcome")


def as_csv(facts: Facts) -> str:
    """Returns one line for each pair of requirement and test; a requirement without tests has one, too."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for one in facts.covered:
        requirement = one.requirement
        head = (requirement.id, requirement.area, requirement.level, requirement.via, one.outcome)
        for row in one.rows:
            lines.writerow([*head, row.test, row.transport, row.outcome])
        if not one.rows:
            lines.writerow([*head, "", "", ""])
    return text.getvalue()


def as_json(recorded: Recorded) -> str:
    """Returns the same as JSON, with the texts of the requirements and the run it is about."""
    run = recorded.run
    value = {
        "run_id": run.run_id,
        "node": run.node,
        "node_impl": run.node_impl,
        "node_version": run.node_version,
        "started_at": run.started_at,
        "complete": recorded.complete,
        "decided": recorded.facts.decided,
        "requirements": [
            {
                "id": one.requirement.id,
                "area": one.requirement.area,
                "level": one.requirement.level,
                "via": one.requirement.via,
                "text": one.requirement.text,
                "outcome": one.outcome,
                "tests": {row.test: row.outcome for row in one.rows},
            }
            for one in recorded.facts.covered
        ],
    }
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
