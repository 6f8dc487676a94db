"""The catalogue of requirements."""

from __future__ import annotations

import re

from conformance.requirements import LEVELS, requirements, strictest


def test_catalogue_has_312_requirements_with_well_formed_ids() -> None:
    assert len(requirements()) == 312
    assert all(re.fullmatch(r"ZN-[A-Z]+-\d{3}", name) for name in requirements())


def test_text_of_a_requirement_needs_no_other_one() -> None:
    # Pages show each where its test failed, not behind the one in front of it.
    hanging = [row.id for row in requirements().values() if row.text.startswith(("...", "It "))]
    assert not hanging


def test_area_is_the_middle_of_the_id() -> None:
    assert requirements()["ZN-INIT-045"].area == "INIT"


def test_strictest_level_wins() -> None:
    by_level = {level: next(r.id for r in requirements().values() if r.level == level) for level in LEVELS}
    assert strictest((by_level["SHOULD"], by_level["MUST"], by_level["FACT"])) == "MUST"
    assert strictest((by_level["MAY"], by_level["SHOULD"])) == "SHOULD"
