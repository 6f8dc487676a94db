"""What a SCOUT without the right answer means: of a node of ours, and of one that others started."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from conformance.config import Locator
from conformance.errors import NotApplicable, Unmet
from conformance.nodes.attach import AttachedNode
from conformance.nodes.child import private_scouting, scouting_of
from conformance.suite.scouting import Kept, answer, asking, bit_of, bitmap, hearing_of, words_of_bitmap
from conformance.tester import Tester
from scapy_layers.primitives import zid_to_text
from scapy_layers.scouting import Hello, Scout

REPLY = 0.1
"""T1: nobody here has to start a process."""


@pytest.fixture
def tester() -> Iterator[Tester]:
    """Plays all parts."""
    made = Tester("tcp/127.0.0.1:1", random.Random(1), REPLY)
    yield made
    made.close()


class Known(AttachedNode):
    """A node of which everything is known; a responder of the tester answers for it, or nobody does."""

    def __init__(self, *, owned: bool) -> None:
        super().__init__(Locator.parse("tcp/127.0.0.1:1"))
        self.owned = owned
        self.whatami = "router"
        self.scouting = scouting_of(private_scouting())

    def answering(self, tester: Tester) -> None:
        """Makes somebody answer, another one each time; the last is the node."""
        responder = tester.responder(hearing_of(self), "tcp/127.0.0.1:1")
        self.zid = zid_to_text(responder.zid)


@pytest.mark.parametrize("owned", [False, True])
def test_answer_is_found_and_what_is_not_answered_too(tester: Tester, owned: bool) -> None:
    node = Known(owned=owned)
    node.answering(tester)
    asker = asking(tester, node)
    assert asker.datagram(asker.answered(Scout(what=1)))[:2] == b"\x22\x09"
    asker.unanswered(Scout(what=6))
    with pytest.raises(Unmet, match="seen nothing"):
        asker.answered(b"\x01\x09")
    with pytest.raises(Unmet, match="seen HELLO"):
        asker.unanswered(Scout(what=1))


def test_node_of_ours_that_does_not_answer_fails_where_the_answer_is_judged(tester: Tester) -> None:
    node = Known(owned=True)
    with pytest.raises(NotApplicable, match="answers no SCOUT"):
        asking(tester, node)
    end = tester.scout(hearing_of(node))
    end.scout()
    with pytest.raises(Unmet):
        answer(tester, node, end)


@pytest.mark.parametrize("told", [False, True])
def test_node_of_others_that_does_not_answer_need_not_scout_unless_its_profile_says_so(
    tester: Tester, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    node = Known(owned=False)
    where = hearing_of(node)
    monkeypatch.setattr("conformance.suite.scouting.DEFAULT_SCOUTING", f"{where.host}:{where.port}")
    if told:
        node.profile = replace(node.profile, scouting=str(where))
    end = tester.scout(where)
    end.scout()
    with pytest.raises(Unmet if told else NotApplicable):
        answer(tester, node, end)


@pytest.mark.parametrize("one_or_the_other", [False, True])
def test_two_nodes_of_others_in_one_place_are_not_judged(tester: Tester, one_or_the_other: bool) -> None:
    node = Known(owned=False)
    node.answering(tester)
    first = node.zid
    node.answering(tester)
    if one_or_the_other:
        node.zid = first
    with pytest.raises(NotApplicable, match="other nodes answer"):
        asking(tester, node)


def test_node_that_was_deaf_once_is_waited_for_less_until_it_answers(
    tester: Tester, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Known(owned=True)
    tester.reply = 0.6
    wait = tester.links.wait
    asked: list[float] = []

    def counted(until: Callable[[], bool], seconds: float) -> bool:
        asked.append(seconds)
        return wait(until, seconds)

    monkeypatch.setattr(tester.links, "wait", counted)
    for longest in (5.0, 0.5):
        asked.clear()
        with pytest.raises(NotApplicable):
            asking(tester, node)
        assert 0 < sum(asked) < longest
    node.answering(tester)
    assert isinstance(asking(tester, node).hello, Hello)


def test_hello_that_is_cut_fails(tester: Tester) -> None:
    node = Known(owned=True)
    tester.responder(hearing_of(node)).answer = b"\x02\x09\xf0abc"
    with pytest.raises(Unmet, match="HELLO that does not decode"):
        asking(tester, node)


def test_place_or_role_that_nobody_knows_is_not_judged() -> None:
    node = Known(owned=False)
    node.scouting, node.whatami = None, ""
    with pytest.raises(NotApplicable, match="hears SCOUT"):
        hearing_of(node)
    with pytest.raises(NotApplicable, match="role"):
        bit_of(node)


def test_bitmaps_with_and_without_the_role_of_the_node_are_all_eight() -> None:
    node = Known(owned=False)
    made = [
        bitmap(node, others, asked=asked)
        for others in ("neither", "one", "another", "both")
        for asked in (False, True)
    ]
    assert sorted(made) == list(range(8))
    assert [what & 1 for what in made] == [0, 1] * 4
    assert words_of_bitmap(5) == "router, client"
    assert words_of_bitmap(0) == "nobody"


def test_variants_are_not_to_be_had_of_nodes_of_others() -> None:
    with Kept() as kept, pytest.raises(NotApplicable):
        kept.variant(Known(owned=False), mode="peer")
