"""Sources that take long wait, get their share, and are named in the end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from fuzz import fairness as module
from fuzz.campaigns.base import Campaign
from fuzz.cases import Case
from fuzz.fairness import Fairness
from fuzz.plan import Numbered

CAMPAIGN = Campaign("c", "", lambda _: [])


class Clock:
    """Seconds that pass when it is said."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Named:
    """Stands for a source."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._count = 0

    def case(self) -> Numbered:
        self._count += 1
        return Numbered(CAMPAIGN, self._count, cast("Case", SimpleNamespace(source=self)))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fair(clock: Clock) -> Fairness:
    """Of many sources, one of which has nearly all cases."""
    fair, quick = Fairness(1000, clock), Named("quick")
    for _ in range(1000):
        play(fair, clock, quick.case(), 0.0)
    return fair


def play(fair: Fairness, clock: Clock, one: Numbered, seconds: float, *beside: Numbered) -> None:
    """Plays a case that takes some time."""
    clock.now += seconds
    fair.ended(one, lambda: beside)


def test_a_source_that_takes_long_gets_its_share_and_no_more(fair: Fairness, clock: Clock) -> None:
    slow, quick = Named("slow"), Named("quick")
    taken = 0.0
    for _ in range(20_000):
        for one in fair.due():
            play(fair, clock, one, 5.0)
            taken += 5.0
        play(fair, clock, quick.case(), 0.01)
        new = slow.case()
        if not fair.put_off(new):
            play(fair, clock, new, 5.0)
            taken += 5.0
    passed = clock.now - 100
    # One more than is fair may have been begun.
    assert 0.01 * passed < taken < module.SHARE * passed + 3 * 5.0


def test_what_was_under_way_shares_the_blame(fair: Fairness, clock: Clock) -> None:
    one, other, innocent = Named("one"), Named("other"), Named("innocent")
    clock.now += module.SETTLED
    fair.go_on()
    play(fair, clock, one.case(), 10.0, other.case())
    play(fair, clock, innocent.case(), module.GAP / 2)
    assert fair.had_enough(one.case())
    assert fair.had_enough(other.case())
    assert not fair.had_enough(innocent.case())


def test_who_did_it_has_the_blame_alone(fair: Fairness, clock: Clock) -> None:
    one, other = Named("one"), Named("other")
    clock.now += 30.0
    fair.charge([one.case()])
    assert fair.had_enough(one.case())
    assert not fair.had_enough(other.case())


def test_nothing_waits_in_the_beginning(fair: Fairness, clock: Clock) -> None:
    one = Named("one")
    play(fair, clock, one.case(), module.SETTLED - 1)
    assert not fair.put_off(one.case())
    clock.now += 2
    assert fair.put_off(one.case())


def test_what_passes_between_two_turns_is_nobodys(fair: Fairness, clock: Clock) -> None:
    one = Named("one")
    clock.now += 100.0
    fair.go_on()
    play(fair, clock, one.case(), 0.01)
    assert not fair.had_enough(one.case())


def test_with_few_sources_each_may_have_more(clock: Clock) -> None:
    fair = Fairness(4, clock)
    one = Named("one")
    play(fair, clock, one.case(), 4.0)
    play(fair, clock, Named("other").case(), 6.1)
    assert not fair.had_enough(one.case())
    play(fair, clock, one.case(), 9.0)
    assert fair.had_enough(one.case())


def test_cases_that_wait_come_one_of_each_when_it_is_fair_again(fair: Fairness, clock: Clock) -> None:
    one, other = Named("one"), Named("other")
    clock.now += 20.0
    fair.charge([one.case(), other.case()])
    waiting = [one.case(), one.case(), other.case()]
    assert all(fair.put_off(case) for case in waiting)
    assert fair.due() == []
    clock.now += 1000.0
    fair.go_on()
    assert fair.due() == [waiting[0], waiting[2]]
    assert fair.due() == [waiting[1]]
    assert fair.due() == []


def test_when_nothing_else_is_left_they_are_played(fair: Fairness, clock: Clock) -> None:
    sources = [Named("one"), Named("other"), Named("third")]
    clock.now += 20.0
    fair.charge([source.case() for source in sources])
    waiting = [source.case() for source in [*sources, sources[0]]]
    assert all(fair.put_off(case) for case in waiting)
    assert fair.rest(2) == waiting[:2]
    assert fair.rest(2) == [waiting[3], waiting[2]]
    assert fair.rest(2) == []


def test_what_waited_in_an_earlier_part_waits_until_it_is_known_what_takes_long(clock: Clock) -> None:
    fair, one, other = Fairness(1000, clock), Named("one"), Named("other")
    waiting = [one.case(), one.case(), other.case()]
    for case in waiting:
        fair.wait(case)
    assert fair.due() == []
    clock.now += module.SETTLED
    assert fair.due() == [waiting[0], waiting[2]]
    assert fair.due() == [waiting[1]]
    assert fair.left == []


def test_those_that_wait_to_the_end_are_counted_and_the_longest_named(
    fair: Fairness, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    one = Named("one")
    assert fair.note() == ""
    clock.now += 20.0
    fair.charge([one.case()])
    assert fair.put_off(one.case())
    assert (
        fair.note()
        == "1 case was postponed because its source took too long; slowest: one (100% of the time)"
    )
    assert all(fair.put_off(one.case()) for _ in range(2))
    assert fair.let_go == [("c", 4)]
    assert fair.left == [("c", 2), ("c", 3), ("c", 4)]
    assert (
        fair.note()
        == "3 cases were postponed because their sources took too long; slowest: one (100% of the time)"
    )
