"""Which tests each mutant has to face."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, cycle, islice, zip_longest

from conformance.refnode.mutants import Mutant

SAMPLE = 12
"""Tests of other requirements that each mutant faces, to see what else it breaks."""

MOST_PASSED = 200
"""Tests of a mutant whose requirement no test marks: it is judged by what is seen in passing, in whatever test."""

Tests = Mapping[str, frozenset[str]]
"""The requirements that each test marks, by the name of the test."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one mutant has to face.

    Attributes:
        mutant: Its id; empty for the correct node.
        own: Tests that mark its first requirement: one of them has to notice.
        further: Tests that mark another requirement that it breaks; asked when none of its own notices.
        passing: Any tests: something may be seen in one of them, where no test marks its first requirement.
        sample: Tests of other requirements, which should notice nothing.
    """

    mutant: str
    own: tuple[str, ...] = ()
    further: tuple[str, ...] = ()
    passing: tuple[str, ...] = ()
    sample: tuple[str, ...] = ()

    @property
    def tests(self) -> tuple[str, ...]:
        """All of them, in the order in which they run."""
        return tuple(dict.fromkeys(self.own + self.passing + self.further + self.sample))

    @property
    def until_noticed(self) -> frozenset[str]:
        """Those that need not run any more once it was noticed."""
        return frozenset(self.own + self.passing + self.further) - frozenset(self.sample)


def plans(
    mutants: Sequence[Mutant],
    tests: Tests,
    *,
    slow: Iterable[str] = (),
    searching: Iterable[str] = (),
    size: int = SAMPLE,
    seed: int = 0,
    all_tests: bool = False,
) -> list[Plan]:
    """Returns a plan for each mutant.

    The samples of neighbouring mutants follow each other through all tests in a shuffled order, so that together they
    reach every test.

    Args:
        mutants: Whom to plan for.
        tests: All tests there are, in the order in which pytest runs them.
        slow: Those that take long: they come after the others.
        searching: Those that look for the shortest way to break a node, which takes minutes when it is broken: they
            come last of all, and in no sample.
        size: Tests of other requirements for each.
        seed: Of the order of those.
        all_tests: Each mutant faces every test.
    """
    late, last = frozenset(slow), frozenset(searching)
    ordered = sorted(tests, key=lambda test: (test in last, test in late))
    shuffled = sorted(set(tests) - last)
    random.Random(seed).shuffle(shuffled)
    turning = cycle(shuffled) if shuffled else iter(())
    mixed = _of_all_areas([test for test in ordered if test not in last], tests)
    made = []
    for mutant in mutants:
        first, broken = mutant.requirements[0], frozenset(mutant.requirements)
        own = tuple(test for test in ordered if first in tests[test])
        further = tuple(test for test in ordered if broken & tests[test] and first not in tests[test])
        if all_tests:
            sample = tuple(test for test in ordered if not broken & tests[test] and test not in last)
        else:
            taken = islice(turning, min(size, len(shuffled)))
            sample = tuple(test for test in taken if not broken & tests[test])
        passing = () if own else tuple(islice(mixed, MOST_PASSED))
        made.append(Plan(mutant.name, own, further, passing, sample))
    return made


def _of_all_areas(ordered: Sequence[str], tests: Tests) -> list[str]:
    """Returns tests of all areas in turn, so that the first ones show a bit of everything."""
    of: dict[str, list[str]] = {}
    for test in ordered:
        area = min(tests[test]).split("-")[1]
        of.setdefault(area, []).append(test)
    return [test for test in chain.from_iterable(zip_longest(*of.values())) if test is not None]
