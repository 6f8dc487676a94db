"""Datagrams: how it is seen what became of them, and what JOIN has to say."""

from collections.abc import Iterator

import pytest

from conformance.config import Locator
from fuzz.cases import reach, send
from fuzz.player import Ending, NotReached, Played, Player
from fuzz.player.answers import Answers
from fuzz.player.datagrams import ASKER, SCOUT, Speaker, join_like
from fuzz.player.pipe import FIRST_SN
from fuzz.player.tasks import Task
from fuzz.script import Script
from fuzz.states import State
from scapy_layers.batch import contents
from scapy_layers.extensions import JoinLanes, Patch
from scapy_layers.transport import Join
from tests.fuzz.player.callers import Hearer

ASKED = bytes.fromhex("010907")

REPLY = 0.05
"""Seconds for what never comes."""

LONG = 30.0
"""Seconds for what comes."""


@pytest.fixture
def hearer() -> Iterator[Hearer]:
    made = Hearer()
    yield made
    made.close()


def player_of(hearer: Hearer) -> Player:
    return Player(Speaker(Locator("udp", "127.0.0.1", hearer.port)), LONG)


def test_answers_to_a_stimulus_are_told_from_those_to_a_ping(hearer: Hearer) -> None:
    player = player_of(hearer)
    answered = player.play(Script((reach(State.SCOUTING, "a"), send(ASKED))))
    assert (answered.failure, answered.ending, answered.names) == ("", Ending.ACCEPTED, ["HELLO"])
    ignored = player.play(Script((reach(State.SCOUTING, "a"), send(b"\x01"))))
    assert (ignored.failure, ignored.ending, ignored.names) == ("", Ending.ACCEPTED, [])
    both = player.play(Script((reach(State.SCOUTING, "a"), send(ASKED, times=3))))
    assert both.names == ["HELLO"] * 3
    player.leave()


def test_ping_that_was_lost_is_sent_again() -> None:
    deaf = [True, False]
    hearer = Hearer(lambda _: not deaf.pop() if deaf else True)
    player = player_of(hearer)
    deaf[:] = [False, True]
    player.reach(State.SCOUTING)
    assert hearer.heard == [SCOUT, SCOUT]
    player.leave()
    hearer.close()


def test_node_that_does_not_hear_any_more_is_silent() -> None:
    hears = [True]
    hearer = Hearer(lambda _: hears[0])
    player = player_of(hearer)
    player.reach(State.SCOUTING)
    asker = player.helpers[ASKER]
    hears[0], player.reply = False, REPLY
    played = player.play(Script((reach(State.SCOUTING, "a"), send(ASKED))))
    assert "does not answer SCOUT" in played.failure
    assert asker.ended
    assert ASKER not in player.helpers
    with pytest.raises(NotReached):
        player.reach(State.SCOUTING)
    hears[0], player.reply = True, LONG
    assert player.play(Script((reach(State.SCOUTING, "a"), send(ASKED)))).names == ["HELLO"]
    player.leave()
    hearer.close()


def test_stimulus_that_makes_the_node_deaf_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    hears = [True]

    def listen(data: bytes) -> bool:
        hears[0] &= data != b"\xff"
        return hears[0]

    def concluded(played: Played) -> Task[None]:
        player.reply = REPLY
        yield from conclude(played)

    hearer = Hearer(listen)
    player = player_of(hearer)
    conclude = player.conclude
    monkeypatch.setattr(player, "conclude", concluded)
    played = player.play(Script((reach(State.SCOUTING, "a"), send(b"\xff"))))
    assert (played.failure, played.ending) == ("", Ending.SILENT)
    player.leave()
    hearer.close()


def test_ids_of_scouting_are_not_those_of_links(hearer: Hearer) -> None:
    answers = Answers()
    player = player_of(hearer)
    player.answers = answers
    played = player.play(Script((reach(State.SCOUTING, "a"), send(ASKED))))
    hello = played.answers[0].batch
    assert answers.read(hello, 0).names[0] == "OPEN"
    assert player.play(Script((reach(State.SCOUTING, "a"), send(ASKED)))).names == ["HELLO"]
    player.leave()


def test_datagram_that_is_too_long_does_not_end_the_link(hearer: Hearer) -> None:
    player = player_of(hearer)
    played = player.play(Script((reach(State.SCOUTING, "a"), send(bytes(70_000)), send(ASKED))))
    assert (played.ending, played.names) == (Ending.ACCEPTED, ["HELLO"])
    player.leave()


@pytest.mark.parametrize(
    "theirs",
    [
        Join(zid=b"\x01", lease=10_000, next_sn_re=1, next_sn_be=2),
        Join(zid=b"\x01", S=1, rid=1, fsn=1, batch_size=2000, extensions=[Patch(patch=1)]),
        Join(
            zid=b"\x01",
            extensions=[JoinLanes(lanes=[{"next_sn_re": 1, "next_sn_be": 1}] * 8), Patch(patch=1)],
        ),
    ],
)
def test_our_join_announces_what_theirs_does(theirs: Join) -> None:
    said = contents(join_like(bytes(theirs)).fill({"zid": b"\x02" * 16}))
    assert not said.error
    ours = said.messages[0]
    assert isinstance(ours, Join)
    assert bool(ours.S) == bool(theirs.S)
    if theirs.S:
        assert (ours.rid, ours.fsn, ours.batch_size) == (theirs.rid, theirs.fsn, theirs.batch_size)
    assert [type(one) for one in ours.extensions or []] == [type(one) for one in theirs.extensions or []]
    assert (ours.zid, ours.next_sn_re, ours.next_sn_be) == (b"\x02" * 16, FIRST_SN, FIRST_SN)
