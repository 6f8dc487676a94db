"""Requirements and recorded deviations."""

from __future__ import annotations

import re

import pytest

from conformance.requirements import LEVELS, Deviation, deviations, requirements, strictest


def test_catalogue_has_312_requirements_with_well_formed_ids() -> None:
    assert len(requirements()) == 312
    assert all(re.fullmatch(r"ZN-[A-Z]+-\d{3}", name) for name in requirements())


def test_area_is_the_middle_of_the_id() -> None:
    assert requirements()["ZN-INIT-045"].area == "INIT"


def test_strictest_level_wins() -> None:
    by_level = {level: next(r.id for r in requirements().values() if r.level == level) for level in LEVELS}
    assert strictest((by_level["SHOULD"], by_level["MUST"], by_level["FACT"])) == "MUST"
    assert strictest((by_level["MAY"], by_level["SHOULD"])) == "SHOULD"


def known(versions: str = "1.10.2", test: str = "suite/test_a.py::test_b[*]") -> Deviation:
    return Deviation(
        requirement="ZN-INIT-045", impl="eclipse-zenoh", versions=versions, test=test, seen="x", note=""
    )


@pytest.mark.parametrize(
    ("versions", "version", "holds"),
    [
        ("1.10.2", "1.10.2", True),
        ("1.10.2", "1.10.1", False),
        ("1.0.0-1.10.2", "1.9.0", True),
        ("1.0.0-1.10.2", "1.11.0", False),
        ("1.0.0-1.1.1, 1.10.0-1.10.2", "1.10.1", True),
        ("1.0.0-1.1.1, 1.10.0-1.10.2", "1.5.1", False),
        ("1.10.2", "unknown", False),
    ],
)
def test_versions_are_compared_as_numbers(versions: str, version: str, holds: bool) -> None:
    assert known(versions).is_for("eclipse-zenoh", version, "suite/test_a.py::test_b[0x8]") is holds


def test_deviation_is_for_its_implementation_and_test_only() -> None:
    assert not known().is_for("other", "1.10.2", "suite/test_a.py::test_b[0x8]")
    assert not known().is_for("eclipse-zenoh", "1.10.2", "suite/test_a.py::test_c[0x8]")
    assert known(test="suite/test_a.py::test_b[0x8]").is_for(
        "eclipse-zenoh", "1.10.2", "suite/test_a.py::test_b[0x8]"
    )
    assert not known(test="suite/test_a.py::test_b[0x8]").is_for(
        "eclipse-zenoh", "1.10.2", "suite/test_a.py::test_b0"
    )


def test_recorded_deviations_name_what_was_seen_and_why_it_stands() -> None:
    for deviation in deviations():
        assert deviation.seen
        assert deviation.note
        assert deviation.test.startswith("suite/")
