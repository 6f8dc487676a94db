"""What is believed to be SCOUT or HELLO, and in which company."""

from __future__ import annotations

import pytest

from scapy_layers.links import Endpoint, Link, Way
from scapy_layers.scouted import Answer, Scouted
from tests.scapy_layers.golden import raw

ASKER, OTHER = Endpoint("10.0.0.1", 40_000), Endpoint("10.0.0.1", 40_001)
NODE, STRANGER = Endpoint("10.0.0.2", 9000), Endpoint("10.0.0.3", 9000)
GROUP, OTHER_GROUP = Endpoint("224.0.0.224", 9000), Endpoint("ff02::1", 9000)
USUAL, ODD = raw("010907"), raw("010911")
HELLO, WITH_LOCATOR = raw("0209300102030405"), raw("22093201020304010a7463702f613a37343437")


def way(source: Endpoint, target: Endpoint) -> Way:
    return Link(0, False, source, target, bool).ways[0]


def scouted(most: int = 10) -> Scouted[str]:
    return Scouted(most)


@pytest.mark.parametrize("odd", ["010911", "010900", "610901", "8109014e07756e6b6e6f776e", "01091f0000"])
def test_odd_scout_is_believed_in_the_company_of_others(odd: str) -> None:
    found = scouted()
    assert not found.ask(way(ASKER, GROUP), raw(odd), "first")
    assert found.ask(way(OTHER, GROUP), USUAL, "usual")
    assert found.ask(way(ASKER, GROUP), raw(odd), "in a group that is asked")
    assert found.ask(way(OTHER, OTHER_GROUP), raw(odd), "from one who asks")
    assert not found.ask(way(STRANGER, Endpoint("224.0.0.225", 9000)), raw(odd), "of neither")


@pytest.mark.parametrize("port", [7446, 7447])
def test_any_scout_is_believed_on_the_ports_of_groups(port: int) -> None:
    assert scouted().ask(way(ASKER, Endpoint("224.0.0.224", port)), ODD, "it")


def test_scout_to_a_node_is_believed_when_it_is_answered() -> None:
    found = scouted()
    assert not found.ask(way(ASKER, NODE), USUAL, "it")
    assert found.answer(way(STRANGER, ASKER), HELLO) == Answer(False)
    assert found.answer(way(NODE, ASKER), HELLO) == Answer(True, "it", belated=True)
    assert found.answer(way(NODE, ASKER), HELLO) == Answer(True, "it")
    assert found.ask(way(ASKER, NODE), ODD, "again")
    assert not found.ask(way(ASKER, STRANGER), USUAL, "another node")
    assert not found.ask(way(OTHER, NODE), USUAL, "from another socket")


def test_odd_scout_in_a_group_is_believed_when_anybody_answers() -> None:
    found = scouted()
    assert not found.ask(way(ASKER, GROUP), ODD, "it")
    assert found.answer(way(STRANGER, ASKER), HELLO) == Answer(True, "it", belated=True)
    assert found.ask(way(ASKER, OTHER_GROUP), ODD, "again")


@pytest.mark.parametrize(
    "odd",
    [
        "220930010203040103612f20",  # a blank in a locator
        "a2093201020304010a7463702f613a37343437",  # extensions
        "62093201020304010a7463702f613a37343437",  # a reserved bit of the header
        "22093601020304010a7463702f613a37343437",  # one of the role
        "22093200000000010a7463702f613a37343437",  # a zid of zeros
        "2209320102030400",  # no locators
    ],
)
def test_hello_that_nobody_asked_for_names_locators_as_nodes_do(odd: str) -> None:
    found = scouted()
    assert found.answer(way(NODE, ASKER), raw(odd)) == Answer(False)
    assert found.answer(way(NODE, GROUP), WITH_LOCATOR) == Answer(False), "nobody answers a group"
    assert found.answer(way(NODE, ASKER), WITH_LOCATOR) == Answer(True)
    assert found.answer(way(STRANGER, ASKER), raw(odd)) == Answer(True), "it went to one who is answered"


def test_answer_belongs_to_the_latest_scout_that_its_sender_can_have_heard() -> None:
    found = scouted()
    found.ask(way(ASKER, GROUP), USUAL, "first")
    found.ask(way(ASKER, GROUP), USUAL, "second")
    assert found.answer(way(NODE, ASKER), HELLO).scout == "second"
    found.ask(way(ASKER, STRANGER), USUAL, "not to the node")
    assert found.answer(way(NODE, ASKER), HELLO) == Answer(True)


def test_what_is_remembered_is_bounded() -> None:
    found = scouted(most=2)
    for number in range(4):
        found.ask(way(ASKER._replace(port=number), NODE), USUAL, f"{number}")
    assert found.forgotten == 2
    assert found.answer(way(NODE, ASKER._replace(port=1)), HELLO) == Answer(False)
    assert found.answer(way(NODE, ASKER._replace(port=2)), HELLO) == Answer(True, "2", belated=True)


def test_who_asks_again_is_remembered_longer() -> None:
    found = scouted(most=2)
    for port in (1, 2, 1, 3):
        found.ask(way(ASKER._replace(port=port), NODE), USUAL, f"{port}")
    assert [found.answer(way(NODE, ASKER._replace(port=port)), HELLO).scout for port in (1, 2, 3)] == [
        "1",
        None,
        "3",
    ]
