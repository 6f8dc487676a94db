"""``--list-reqs``: the catalogue with the tests that cover it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from conformance.passive import CHECKERS
from conformance.requirements import requirements
from conformance.running.marks import ids_of, test_id
from conformance.running.passing import FOLDER
from conformance.running.selection import is_wanted


def listing(items: Iterable[pytest.Item], wanted: list[str], levels: list[str]) -> Iterator[str]:
    """Yields the lines: id, level, how it is observed, text; below them the tests, with their number of cases."""
    tests: dict[str, Counter[str]] = {}
    for item in items:
        for name in ids_of(item):
            tests.setdefault(name, Counter())[test_id(item).partition("[")[0]] += 1
    for name in CHECKERS:
        tests.setdefault(name, Counter())[f"{FOLDER}/{name}"] += 1
    shown = [one for one in requirements().values() if is_wanted(one.id, wanted, levels)]
    for one in shown:
        yield f"{one.id:<13} {one.level:<9} {one.via:<6} {one.text}"
        for test, count in sorted(tests.get(one.id, Counter()).items()):
            yield f"{'':<13} {test}" + (f" ({count} cases)" if count > 1 else "")
        if one.id not in tests:
            yield f"{'':<13} no test"
    covered = sum(one.id in tests for one in shown)
    yield f"{len(shown)} requirements, {covered} of them with tests"
