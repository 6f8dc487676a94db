"""The order of cases: seeded, resumable, divided."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from fuzz.campaigns.base import Campaign, Setting
from fuzz.cases import Edge, Fixed, Source, send
from fuzz.lying import Lying
from fuzz.plan import Done, Numbered, Plan, merged, mine
from fuzz.states import State
from scapy_layers.transport import Close, Init, KeepAlive

ZID = bytes(range(1, 17))


def sources(_: Setting) -> Iterator[Source]:
    yield Lying("INIT", State.CONNECTED, Init(zid=ZID), {"INIT.zid": "zid"})
    yield Lying("CLOSE", State.OPEN, Close())
    yield Lying("KEEP_ALIVE", State.OPEN, KeepAlive())
    yield Fixed("twice", State.OPEN, "KEEP_ALIVE", {"a": [send("size", b"\x04")], "b": [send(b"")]}, "repeat")


ONE = Campaign("one", "", sources)
TWO = Campaign("two", "", sources, weight=3)


def said(cases: Iterator[Numbered], most: int) -> list[tuple[str, int, str, str]]:
    return [
        (one.campaign.name, one.number, one.case.source.name, one.case.mutation)
        for one in islice(cases, most)
    ]


def test_the_seed_decides_all() -> None:
    assert said(Plan(ONE, Setting(1)).cases(), 900) == said(Plan(ONE, Setting(1)).cases(), 900)
    assert said(Plan(ONE, Setting(1)).cases(), 900) != said(Plan(ONE, Setting(2)).cases(), 900)
    both = [Plan(ONE, Setting(1)), Plan(TWO, Setting(1))]
    again = [Plan(ONE, Setting(1)), Plan(TWO, Setting(1))]
    assert said(merged(both, 1), 900) == said(merged(again, 1), 900)


def test_each_pair_of_state_and_message_comes_first() -> None:
    first = [one.case.source for one in islice(Plan(ONE, Setting(1)).cases(), 3)]
    assert {(source.state, source.message) for source in first} == {
        (State.CONNECTED, "INIT"),
        (State.OPEN, "CLOSE"),
        (State.OPEN, "KEEP_ALIVE"),
    }


def test_every_single_case_comes_once_before_only_the_endless_are_left() -> None:
    plan = Plan(ONE, Setting(1))
    singles = {(source.name, edge) for source in plan.sources for edge in source.edges()}
    seen = [
        (one.case.source.name, one.case.edges[0])
        for one in islice(plan.cases(), 2 * len(singles))
        if len(one.case.edges) == 1
    ]
    assert set(seen) >= singles
    assert len(seen) == len(set(seen))


def edges_of(*plans: Plan) -> set[Edge]:
    """Returns all that the sources of some plans cover."""
    return {edge for plan in plans for source in plan.sources for edge in source.edges()}


def test_each_lie_comes_once_before_most_come_again() -> None:
    plans = [Plan(ONE, Setting(1)), Plan(TWO, Setting(1))]
    planned = edges_of(*plans)
    seen: set[Edge] = set()
    again = 0
    for one in merged(plans, 1):
        again += seen.issuperset(one.case.edges)
        seen.update(one.case.edges)
        if seen >= planned:
            break
    # Of each four cases three try something new; sources of 16 have their turns, so it is not quite so.
    assert again < len(planned) / 2


def test_variants_of_sequences_do_not_keep_lies_about_fields_waiting() -> None:
    def both(setting: Setting) -> Iterator[Source]:
        yield from sources(setting)
        for number in range(8):
            variants = {f"{number} {word}": [send("size", b"\x04")] for word in range(100)}
            yield Fixed(f"sequence {number}", State.OPEN, "KEEP_ALIVE", variants, "repeat")

    plan = Plan(Campaign("both", "", both), Setting(1))
    left = {edge for edge in edges_of(plan) if edge.of_field}
    lies = len(left)
    swept = Counter[bool]()
    for one in merged([plan], 1):
        swept[one.case.source.sequence] += 1
        left.difference_update(one.case.edges)
        if not left:
            break
    # One of eight, and what comes by the order of the plan.
    assert lies / 8 < swept[True] < lies / 2


def test_what_came_before_its_time_does_not_come_again() -> None:
    plans = [Plan(ONE, Setting(1)), Plan(TWO, Setting(1))]
    singles = {
        (plan.campaign.name, source.name, edge)
        for plan in plans
        for source in plan.sources
        for edge in source.edges()
    }
    seen = [
        (one.campaign.name, one.case.source.name, one.case.edges[0])
        for one in islice(merged(plans, 1), 4 * len(singles))
        if len(one.case.edges) == 1
    ]
    assert set(seen) >= singles
    assert len(seen) == len(set(seen))


def test_numbers_count_the_cases_of_each_campaign() -> None:
    cases = list(islice(merged([Plan(ONE, Setting(1)), Plan(TWO, Setting(1))], 1), 1000))
    for name in ("one", "two"):
        numbers = [one.number for one in cases if one.campaign.name == name]
        assert numbers == list(range(1, len(numbers) + 1))


def test_lies_are_tried_where_their_message_belongs() -> None:
    everywhere = Campaign("everywhere", "", sources, repeats=True)
    plans = [Plan(everywhere, Setting(1)), Plan(ONE, Setting(1))]
    first: dict[Edge, str] = {}
    for one in islice(merged(plans, 1), 6, 300):
        for edge in one.case.edges:
            first.setdefault(edge, one.campaign.name)
    counts = Counter(first.values())
    assert counts["one"] > 3 * counts["everywhere"]


def test_weights_share_out_what_comes_behind_the_beginning() -> None:
    plans = [Plan(ONE, Setting(1)), Plan(TWO, Setting(1))]
    cases = merged(plans, 1)
    planned, seen = edges_of(*plans), set[Edge]()
    while not seen >= planned:
        seen.update(next(cases).case.edges)
    names = [one.campaign.name for one in islice(cases, 2000)]
    assert 0.7 < names.count("two") / len(names) < 0.8


def test_processes_share_the_cases_without_rest() -> None:
    whole = said(Plan(ONE, Setting(1)).cases(), 600)
    parts = [said(mine(Plan(ONE, Setting(1)).cases(), {}, job, 3), 200) for job in range(3)]
    assert sorted(one for part in parts for one in part) == sorted(whole)


def test_what_is_done_is_not_played_again() -> None:
    done = {"one": Done(10, frozenset({12, 14}))}
    numbers = [one.number for one in islice(mine(Plan(ONE, Setting(1)).cases(), done, 0, 1), 4)]
    assert numbers == [11, 13, 15, 16]
