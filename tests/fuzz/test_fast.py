"""The fast engine: every case is played once, sessions are shared and bounded, nothing is lost when it stops."""

import random
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import pytest

from conformance.config import Locator
from fuzz.boo import Boo
from fuzz.campaigns.base import Campaign, Setting
from fuzz.cases import Fixed, Source, reach, send
from fuzz.fast import HEAVY, LANES, SHARED, Fast, Ran
from fuzz.lying import Lying
from fuzz.phrases import DIGITS, with_digits
from fuzz.plan import Numbered, Plan
from fuzz.player import Ending, Initiator, Player
from fuzz.states import State
from scapy_layers.data import Put
from scapy_layers.network import Push
from scapy_layers.transport import Close, Frame, Init
from tests.fuzz.fakes import Server

SN = {"FRAME.sn": "sn"}


def sources(_: Setting) -> Iterator[Source]:
    yield Lying("PUSH", State.OPEN, Frame(R=1, messages=[Push(key_suffix="k", body=Put(data=b"v"))]), SN)
    yield Lying("CLOSE", State.OPEN, Close())
    yield Lying("INIT", State.CONNECTED, Init(zid=bytes(range(1, 17))), {"INIT.zid": "zid"})
    burst = [send("size", b"\x04", times=HEAVY + 1)]
    two = [reach(State.OPEN, "b"), send("size", b"\x04", link="b"), send("size", b"\x04")]
    yield Fixed("bursts", State.OPEN, "KEEP_ALIVE", {"burst": burst, "two": two}, "repeat")


PLAN = Plan(Campaign("c", "", sources), Setting(1))


class Judge:
    """Takes note of what is told."""

    def __init__(self, most: int = 10**9) -> None:
        self.ran: list[Ran] = []
        self.together = 0
        self.engine: Fast | Boo | None = None
        self.most = most
        self.resting_from = 10**9

    def ended(self, ran: Ran) -> bool:
        """See fast.Judge."""
        self.ran.append(ran)
        assert self.engine
        self.together = max(self.together, len(self.engine.in_flight))
        if sum(step.times for step in ran.steps) > HEAVY:
            assert not self.engine.in_flight
        return len(self.ran) < self.most

    def idle(self) -> bool:
        """See fast.Judge."""
        return True

    def failed(self) -> bool:
        return False

    def rests(self) -> bool:
        """See fast.Judge."""
        return len(self.ran) >= self.resting_from


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(lambda _: "")
    yield made
    made.close()


def player(server: Server) -> Player:
    return Player(Initiator(Locator.parse(f"tcp/127.0.0.1:{server.port}")), 1.0)


def fast(server: Server, judge: Judge) -> Fast:
    judge.engine = engine = Fast(lambda: player(server), judge)
    return engine


def test_every_case_is_played_once_side_by_side(server: Server) -> None:
    judge = Judge()
    cases = list(islice(PLAN.cases(), 300))
    engine = fast(server, judge)
    assert engine.play(iter(cases))
    engine.abandon()
    assert sorted(ran.numbered.number for ran in judge.ran) == [one.number for one in cases]
    assert not [ran.played.failure for ran in judge.ran if ran.played.failure]
    assert judge.together > 1


def test_what_the_node_lets_wait_for_is_late(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(batch: bytes) -> str:
        if batch == b"\x04":
            time.sleep(1.0)
        return ""

    monkeypatch.setattr(server, "_harm", slow)
    judge = Judge()
    steps = {"slow": [send("size", b"\x04")], "quick": [send("size", b"\x24")]}
    cases = Fixed("both", State.OPEN, "KEEP_ALIVE", steps, "value").cases(random.Random(1))
    engine = fast(server, judge)
    # One behind the other: while the node sleeps it lets all wait.
    for number, case in enumerate(cases, 1):
        assert engine.play(iter([Numbered(PLAN.campaign, number, case)]))
    engine.abandon()
    late = {bytes(ran.played.sent[0][2:]): ran.played.late > 0.5 for ran in judge.ran}
    assert late == {b"\x04": True, b"\x24": False}


def test_sessions_are_shared_and_end_in_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine an answer that takes long must not end a session.
    monkeypatch.setattr("fuzz.player.player.PATIENCE", 5.0)
    judge = Judge()
    source = Lying("KEEP_ALIVE", State.OPEN, Frame(R=1, messages=[]), SN)
    valid = replace(next(source.cases(random.Random(1))), mutations={})
    engine = fast(server, judge)
    source.all_valid = True
    engine.play(Numbered(PLAN.campaign, number, valid) for number in range(1, 200))
    engine.abandon()
    lanes: dict[int, list[int]] = {}
    for ran in judge.ran:
        lanes.setdefault(ran.lane, []).append(ran.position)
        assert ran.played.ending is Ending.ACCEPTED
        # What the cases before it have left in the session is no matter of its own.
        assert ran.played.valid is (ran.position == 0)
    assert all(positions == list(range(len(positions))) for positions in lanes.values())
    assert max(map(len, lanes.values())) <= SHARED
    assert len(lanes) < 20


def test_what_was_not_played_comes_back_when_it_stops(server: Server) -> None:
    judge = Judge(most=50)
    cases = list(islice(PLAN.cases(), 300))
    source = iter(cases)
    engine = fast(server, judge)
    assert not engine.play(source)
    left = [*engine.abandon(), *engine.waiting(), *source]
    numbers = sorted([one.number for one in left] + [ran.numbered.number for ran in judge.ran])
    assert numbers == [one.number for one in cases]
    assert not engine.in_flight
    judge.most = 1000
    assert engine.play(iter(left[:20]))
    engine.abandon()


@pytest.mark.parametrize("kind", [Fast, Boo])
def test_when_it_rests_nothing_begins_and_what_is_under_way_ends(
    server: Server, kind: type[Fast] | type[Boo]
) -> None:
    judge = Judge()
    judge.engine = engine = kind(lambda: player(server), judge)
    judge.resting_from = 20
    cases = list(islice(PLAN.cases(), 100))
    source = iter(cases)
    engine.play(source)
    assert not engine.in_flight
    assert 20 <= len(judge.ran) < 20 + LANES
    left = [*engine.abandon(), *engine.waiting(), *source]
    assert len(left) == 100 - len(judge.ran)


def test_boofuzz_does_not_wait_for_the_answer_of_a_node_that_has_failed() -> None:
    class Failing(Judge):
        asked = 0

        def failed(self) -> bool:
            self.asked += 1
            return True

    judge = Failing(most=1)
    source = Lying("INIT", State.CONNECTED, Init(zid=bytes(range(1, 17))), {"INIT.zid": "zid"})
    valid = replace(next(source.cases(random.Random(1))), mutations={})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = Locator.parse(f"tcp/127.0.0.1:{silent.getsockname()[1]}")
        judge.engine = engine = Boo(lambda: Player(Initiator(where), 5.0), judge)
        # It would wait T1 otherwise, and nobody would be asked.
        engine.play(iter([Numbered(PLAN.campaign, 1, valid)]))
        engine.abandon()
    (ran,) = judge.ran
    assert judge.asked
    assert ran.played.sent


def test_both_engines_send_the_same_bytes(server: Server) -> None:
    sent = []
    for kind in (Fast, Boo):
        judge = Judge()
        engine = kind(lambda: player(server), judge)
        judge.engine = engine
        engine.play(islice(PLAN.cases(), 120))
        engine.abandon()
        # Sequence numbers go by the place in a session, ZenohIDs are fresh.
        sent.append(
            {
                ran.numbered.number: b"".join(ran.played.sent)
                for ran in judge.ran
                if ran.state is State.OPEN and ran.position == 0
            }
        )
    both = sent[0].keys() & sent[1].keys()
    assert len(both) > 20
    assert {number: sent[0][number] for number in both} == {number: sent[1][number] for number in both}


@pytest.mark.parametrize("kind", [Fast, Boo])
def test_keys_with_digits_are_others_in_each_case_and_the_same_in_each_run(
    server: Server, kind: type[Fast] | type[Boo]
) -> None:
    """What a node keeps of each key that it has ever heard does not show where the same ones come again."""
    told = with_digits(b"\x04", DIGITS.encode())
    same = Fixed("same", State.OPEN, "PUSH", {"told": [send("size", *told, times=2)]}, "repeat")
    plan = Plan(Campaign("c", "", lambda _: [same]), Setting(1))
    (case,) = plan.order()
    judge = Judge()
    judge.engine = engine = kind(lambda: player(server), judge)
    engine.play(Numbered(plan.campaign, number, case) for number in (7, 8, 1007))
    engine.abandon()
    digits = {ran.numbered.number: [sent[3:] for sent in ran.played.sent] for ran in judge.ran}
    assert digits == {
        7: [b"007001", b"007002"],
        8: [b"008001", b"008002"],
        1007: [b"007001", b"007002"],
    }
