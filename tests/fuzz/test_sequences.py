"""Operators on lists of steps."""

import json
import random
from itertools import islice

import pytest

from fuzz.cases import reach
from fuzz.phrases import batch, closing, listen
from fuzz.player.pipe import FIRST_SN
from fuzz.script import Do, Script, Step, Template
from fuzz.sequences import (
    MOST_SENDS,
    MOST_STEPS,
    OPERATORS,
    Change,
    Drawn,
    Made,
    Ordered,
    Scenario,
    acts,
    changes_of,
    frozen_numbers,
    given,
    playable,
)
from fuzz.states import State
from scapy_layers.primitives import write_vle


def say(letter: str, link: str = "a", *, number: bool = False) -> Step:
    pieces = (letter.encode(), "sn") if number else (letter.encode(),)
    return batch(pieces, link=link, note=letter)


A, B, C = say("A"), say("B"), say("C")
SHORT = Scenario("short", "PUSH", State.OPEN, (A, listen(), B, C))
TWO_LINKS = Scenario("two links", "PUSH", State.OPEN, (reach(State.OPEN, "b"), A, say("B", "b"), C))
LATER_LINK = Scenario("later link", "PUSH", State.OPEN, (A, reach(State.OPEN, "b"), say("B", "b"), C))
SCENARIOS = [
    SHORT,
    TWO_LINKS,
    LATER_LINK,
    Scenario("numbers", "PUSH", State.OPEN, (say("A", number=True), say("B", number=True))),
]


def said(change: Change) -> str:
    """Returns what is done as text: letters, with the link and what else is not usual."""
    words = []
    for step in change.steps:
        if step.do is not Do.SEND:
            words.append(f"{step.do}({step.link})" if step.link != "a" else str(step.do))
            continue
        name = step.note
        name += f"x{step.times}" if step.times > 1 else ""
        name += "..." if step.bytewise else ""
        words.append(name if step.link == "a" else f"{name}({step.link})")
    return " ".join(words)


def made(operator: str, scenario: Scenario = SHORT) -> list[str]:
    return [said(change) for change in changes_of(scenario) if change.operator == operator]


def test_a_wait_belongs_to_what_it_waits_for() -> None:
    assert [len(group) for group in acts(SHORT.steps)] == [2, 1, 1]
    assert [len(group) for group in acts((listen(), A))] == [1, 1]


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("skip", ["B C", "A await C", "A await B"]),
        ("repeat", ["A await A await B C", "A await B B C", "A await B C C"]),
        ("often", ["Ax50 await B C", "A await Bx50 C", "A await B Cx50"]),
        ("swap", ["B A await C", "C B A await", "A await C B"]),
        ("reverse", ["C B A await"]),
        ("early", ["C A await B"]),
        ("late", ["B C A await"]),
        ("replay", ["A await B C A await", "A await B C B", "A await B C C", "A await B C A await B C"]),
        ("behind CLOSE", None),
        ("end behind", None),
        ("deaf", ["pause A await B C", "A await pause B C", "A await B pause C"]),
        ("together", ["A with B await C", "A await B with C"]),
        ("impatient", ["A B C"]),
        ("slowly", ["A... await B C", "A await B... C", "A await B C..."]),
    ],
)
def test_operators_do_what_they_say(operator: str, expected: list[str] | None) -> None:
    found = made(operator)
    if operator == "behind CLOSE":
        assert found[:3] == ["CLOSE A await B C", "A await CLOSE B C", "A await B CLOSE C"]
        assert found[3:] == ["CLOSE with A B C", "A await CLOSE with B C", "A await B CLOSE with C"]
    elif operator == "end behind":
        assert len(found) == 9
        assert found[:3] == ["A finish B C", "A reset B C", "A close B C"]
    else:
        assert found == expected


def test_what_goes_elsewhere_has_a_link_to_go_to() -> None:
    assert made("stranger") == [
        "reach(z) A(z) await(z) B C",
        "reach(z) A await B(z) C",
        "reach(z) A await B C(z)",
    ]
    assert "reach(b) A(b) B(b) C" in made("stranger", TWO_LINKS)
    assert made("replay elsewhere")[-1] == "A await B C reach(z) A(z) await(z) B(z) C(z)"


def test_side_by_side_takes_turns_on_links_of_its_own() -> None:
    first = made("side by side")[0]
    assert first == "A await reach(a1) B A(a1) await(a1) C B(a1) C(a1)"
    assert "reach(b1)" in made("side by side", TWO_LINKS)[0]
    crossing = Scenario(
        "crossing", "OPEN", State.OPEN, (reach(State.OPEN, "b"), batch((b"x", "cookie@b"), note="A"))
    )
    copies = [change.steps[-1].data for change in changes_of(crossing) if change.operator == "side by side"]
    assert copies[0].names == ("cookie@b1",)


def test_half_of_a_batch_says_that_there_is_more() -> None:
    whole = batch(b"0123456789", note="digits")
    (half, end), *_ = (
        change.steps
        for change in changes_of(Scenario("one", "PUSH", State.OPEN, (whole,)))
        if change.operator == "half"
    )
    data = half.data.fill({})
    assert data[2:] == b"01234"
    assert int.from_bytes(data[:2], "little") > 5
    assert end.do is Do.FINISH


def test_frozen_numbers_are_those_that_are_due() -> None:
    steps = (
        say("A", number=True),
        Step(Do.SEND, data=Template.of("sn_be", "sn"), times=3),
        say("E", number=True),
        batch((b"x", "from 7")),
        say("B", number=True),
        say("C", "b", number=True),
        reach(State.OPEN, "b"),
        say("D", "b", number=True),
    )
    texts = [str(step.data) for step in frozen_numbers(steps) if step.do is Do.SEND]
    first, second, fifth = (write_vle(FIRST_SN + due).hex() for due in (0, 1, 4))
    assert texts == [
        f"{{size}}41{first}",
        f"{first}{second}",
        f"{{size}}45{fifth}",
        "{size}78{from 7}",
        "{size}4207",
        f"{{size}}43{first}",
        f"{{size}}44{first}",
    ]


def test_every_change_is_played_on_links_that_there_are() -> None:
    for scenario in SCENARIOS:
        changes = list(changes_of(scenario))
        assert all(playable(change.steps) for change in changes)
        assert all(change.steps != scenario.steps for change in changes)
        assert len({change.words for change in changes}) == len(changes)
        # A scenario may be too small for an operator, but not all of them are.
    assert {change.operator for scenario in SCENARIOS for change in changes_of(scenario)} == set(OPERATORS)


def test_what_needs_a_link_does_not_come_before_it() -> None:
    assert made("swap", LATER_LINK) == ["C reach(b) B(b) A", "A reach(b) C B(b)"]
    assert not playable((say("B", "b"), reach(State.OPEN, "b")))


def test_every_single_change_comes_once_and_is_an_edge() -> None:
    source = Ordered(SHORT, SCENARIOS)
    cases = list(source.cases(random.Random(1)))
    assert cases[0].steps == SHORT.steps
    assert sorted(edge for case in cases for edge in case.edges) == sorted(source.edges())
    assert len(set(source.edges())) == len(cases)
    assert {case.causes[0].kind for case in cases} == {
        "valid",
        *(change.operator for change in changes_of(SHORT)),
    }
    assert all(case.alone and case.state is State.OPEN for case in cases)


def test_operators_take_turns() -> None:
    cases = list(islice(Ordered(TWO_LINKS).cases(random.Random(1)), 1, 10))
    assert len({case.causes[0].kind for case in cases}) == len(cases)


def test_combinations_are_bounded_seeded_and_say_what_was_done() -> None:
    source = Ordered(SHORT, SCENARIOS)

    def drawn(seed: int) -> list[str]:
        return [str(Script(case.steps)) for case in islice(source.more(random.Random(seed)), 60)]

    assert drawn(1) == drawn(1) != drawn(2)
    for case in islice(source.more(random.Random(3)), 300):
        assert playable(case.steps)
        assert len(case.steps) <= MOST_STEPS
        assert sum(step.times for step in case.steps) <= MOST_SENDS + MOST_STEPS
        assert not case.edges
        assert case.mutation
        assert {cause.kind for cause in case.causes} <= {*OPERATORS, "woven with", "goes on as"}


def test_other_scenarios_are_woven_in() -> None:
    cases = list(islice(Ordered(SHORT, SCENARIOS).more(random.Random(1)), 80))
    kinds = {cause.kind for case in cases for cause in case.causes}
    assert {"woven with", "goes on as"} <= kinds
    woven = next(case for case in cases if case.mutation.startswith("woven with two links"))
    assert {"a9", "b9"} <= {step.link for step in woven.steps}


def test_cases_survive_json() -> None:
    for case in Ordered(TWO_LINKS).cases(random.Random(1)):
        script = Script(case.steps)
        assert Script.from_json(json.loads(json.dumps(script.to_json()))) == script


def test_large_cases_are_made_when_they_are_due() -> None:
    calls = []

    def large() -> list[Step]:
        calls.append(1)
        return [A]

    source = Made(
        "large",
        State.OPEN,
        "PUSH",
        {"one": large, "two": given(B)},
        "many",
        lambda rng: Drawn(f"drawn {rng.random()}", ("this", "that"), [C]),
        behind=(closing(),),
        kind=lambda words: words[:1],
    )
    cases = {case.mutation: case for case in source.cases(random.Random(1))}
    assert not calls
    assert cases["one"].steps == (A, closing())
    assert cases["two"].steps == (B, closing())
    assert cases["two"].causes[0].kind == "t"
    assert {edge for case in cases.values() for edge in case.edges} == set(source.edges())
    drawn = next(source.more(random.Random(1)))
    assert [cause.kind for cause in drawn.causes] == ["this", "that"]
    assert drawn.steps == (C, closing())
    assert not list(Made("none", State.OPEN, "PUSH", {"two": given(B)}, "many").more(random.Random(1)))
