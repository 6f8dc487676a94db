"""Sessions between two ends of ours: whole and step by step, in every form that can be agreed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from conformance.errors import LocalError, Unmet
from conformance.tester import Tester
from conformance.tester.bends import changed, delayed, dropped, extended, nth, repeated, replaced
from scapy_layers.codes import CloseReason, WhatAmI
from scapy_layers.data import Put
from scapy_layers.declarations import DeclareKeyExpr, UndeclareKeyExpr
from scapy_layers.message import UnknownExtension
from scapy_layers.network import Declare, Push
from scapy_layers.transport import Close, Fragment, Frame, Init, KeepAlive, Open
from tests.conformance.tester._pairs import lone_tester, session_pair


@pytest.fixture
def tester() -> Iterator[Tester]:
    with lone_tester() as made:
        yield made


def notes(tester: Tester) -> list[str]:
    return [text for seen in tester.history.observations for text in tester.history.notes(seen.seq)]


FORMS: list[dict[str, Any]] = [
    {},
    {"qos": True},
    {"patch": 1, "batch_size": 300},
    {"fsn": 0},
    {"fsn": 3},
    {"compression": True},
    {"lowlatency": True},
    {"lowlatency": True, "compression": True},
    {"qos": True, "patch": 1, "compression": True, "batch_size": 500},
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_values_pass_both_ways_in_a_session_of_every_form(tester: Tester, form: dict[str, Any]) -> None:
    ours, theirs = session_pair(tester, **form)
    for end in (ours, theirs):
        assert {name: getattr(end.session.agreed, name) for name in form} == form
    for size in (0, 5, 2000):
        ours.put("a/b", b"x" * size)
        assert theirs.expect(Push, key="a/b").body.data == b"x" * size
        theirs.put("c", b"y" * size)
        assert ours.expect(Push, key="c").body.data == b"y" * size
    ours.close()
    theirs.expect(Close, reason=CloseReason.GENERIC)
    theirs.expect_end()


@pytest.mark.parametrize("proto", ["tcp/127.0.0.1:0", "udp/127.0.0.1:0", "ws/127.0.0.1:0", "unix"])
@pytest.mark.parametrize("form", [{}, {"lowlatency": True}, {"compression": True}], ids=str)
def test_sessions_live_on_every_kind_of_link(
    tester: Tester, proto: str, form: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    where = f"unixsock-stream/{tmp_path_factory.mktemp('s') / 's'}" if proto == "unix" else proto
    ours, theirs = session_pair(tester, tester.listen(where), **form)
    ours.put("a", b"x" * 100)
    theirs.expect(Push, key="a")
    theirs.put("b")
    ours.expect(Push, key="b")


def test_message_in_fragments_stands_whole_behind_them(tester: Tester) -> None:
    ours, theirs = session_pair(tester, batch_size=200)
    ours.put("a", b"x" * 500)
    theirs.expect(Push)
    names = [seen.message.name for seen in theirs.inbox][-4:]
    assert names == ["FRAGMENT", "FRAGMENT", "FRAGMENT", "PUSH"]
    assert isinstance(theirs.inbox[-1].carrier, Fragment)


def test_handshake_goes_step_by_step(tester: Tester) -> None:
    listener = tester.listen()
    ours = tester.starting(locator=listener.locator)
    syn = ours.init()
    theirs = listener.accept()
    assert theirs.take_init_syn().zid == syn.zid
    # Nothing is answered before its step.
    assert not ours.wait(lambda: bool(ours.inbox), 0.05)
    ack = theirs.init_ack()
    assert ours.take_init_ack(cookie=ack.cookie).whatami == WhatAmI.ROUTER
    assert not theirs.wait(lambda: len(theirs.inbox) > 1, 0.05)
    ours.open_syn()
    theirs.take_open_syn(cookie=ack.cookie)
    assert not ours.wait(lambda: len(ours.inbox) > 1, 0.05)
    theirs.open_ack()
    ours.take_open_ack()
    ours.put("a")
    theirs.expect(Push, key="a")


def test_fields_of_each_step_can_be_others(tester: Tester) -> None:
    listener = tester.listen()
    ours = tester.starting(locator=listener.locator)
    ours.init(whatami=WhatAmI.PEER)
    theirs = listener.accept()
    theirs.take_init_syn(whatami=WhatAmI.PEER)
    assert theirs.init_ack(cookie=b"challenge").cookie == b"challenge"
    ours.take_init_ack(cookie=b"challenge")
    ours.open_syn(cookie=b"another", lease=3, T=1)
    with pytest.raises(Unmet, match="another"):
        theirs.take_open_syn(cookie=b"challenge")
    theirs.open_ack(initial_sn=77)
    assert ours.take_open_ack().initial_sn == 77


def test_serving_end_judges_the_cookie(tester: Tester) -> None:
    listener = tester.listen()
    ours = tester.starting(locator=listener.locator)
    ours.bend(changed(Open, cookie=b"another"))
    ours.begin()
    theirs = listener.accept()
    with pytest.raises(Unmet, match="cookie"):
        theirs.serve()


def test_sizes_that_init_ack_says_hold(tester: Tester) -> None:
    listener = tester.listen()
    ours = tester.starting(locator=listener.locator)
    ours.begin()
    theirs = listener.accept()
    theirs.take_init_syn()
    theirs.init_ack(S=1, batch_size=100, fsn=0, rid=2)
    theirs.take_open_syn()
    theirs.open_ack()
    ours.finish()
    assert theirs.session.agreed == ours.session.agreed
    theirs.put("a", b"x" * 300)
    ours.expect(Push, key="a")
    assert max(seen.batch_size for seen in ours.inbox) <= 100


def test_step_whose_turn_it_is_not_is_a_mistake_of_the_test(tester: Tester) -> None:
    listener = tester.listen()
    ours = tester.starting(locator=listener.locator)
    ours.init()
    with pytest.raises(LocalError, match="no OPEN to send"):
        ours.open_syn()
    theirs = listener.accept()
    with pytest.raises(LocalError, match="no OPEN to send"):
        theirs.open_ack()


def test_refused_init_is_answered_with_close_at_once(tester: Tester) -> None:
    listener = tester.listen()
    ours = tester.link(listener.locator)
    ours.send(tester.init(version=8))
    theirs = listener.accept()
    ours.expect_refusal(CloseReason.UNSUPPORTED)
    with pytest.raises(LocalError, match="version"):
        theirs.init_ack()


def test_first_number_and_challenge_can_be_chosen(tester: Tester) -> None:
    listener = tester.listen()
    ours = tester.starting(locator=listener.locator, initial_sn=5)
    ours.begin()
    theirs = listener.accept(cookie=b"c" * 200, initial_sn=9)
    theirs.serve()
    ours.finish()
    ours.put("a")
    assert theirs.expect(Frame).sn == 5
    theirs.put("a")
    assert ours.expect(Frame).sn == 9
    assert ours.last(Init).cookie == b"c" * 200


def test_user_with_the_right_password_is_let_in(tester: Tester) -> None:
    listener = tester.listen()
    for password, comes in ((b"right", True), (b"wrong", False)):
        ours = tester.starting(locator=listener.locator, user=(b"anna", password))
        ours.begin()
        theirs = listener.accept(users={b"anna": b"right"})
        if comes:
            theirs.serve()
            ours.finish()
        else:
            theirs.take_init_syn()
            theirs.init_ack()
            ours.expect_refusal(unless=Open)


def test_aliases_are_resolved_both_ways_and_forgotten(tester: Tester) -> None:
    ours, theirs = session_pair(tester)
    theirs.declare_alias(3, "long/key")
    theirs.post(Declare(body=DeclareKeyExpr(key_id=4, key_scope=3, key_suffix="/deeper")))
    theirs.post(Push(key_scope=4, M=1, key_suffix="/z", body=Put()))
    ours.expect(Push, key="long/key/deeper/z")
    # M=0: the table of the end that hears it.
    theirs.post(Push(key_scope=3, M=0, body=Put()))
    ours.expect(Push, key="<unknown alias 3>")
    ours.post(Declare(body=DeclareKeyExpr(key_id=3, key_suffix="mine")))
    theirs.post(Push(key_scope=3, M=0, body=Put()))
    ours.expect(Push, key="mine")
    theirs.post(Declare(body=UndeclareKeyExpr(key_id=3)), Push(key_scope=3, M=1, body=Put()))
    ours.expect(Push, key="<unknown alias 3>")


def test_bend_of_a_session_leaves_the_others_alone(tester: Tester) -> None:
    listener = tester.listen()
    (ours, theirs), (other, others) = session_pair(tester, listener), session_pair(tester, listener)
    ours.bend(changed(Put, data=b"bent"))
    for end in (ours, other):
        end.put("a", b"straight")
    assert theirs.expect(Push).body.data == b"bent"
    assert others.expect(Push).body.data == b"straight"


def test_bend_that_did_something_is_a_note_in_the_history(tester: Tester) -> None:
    ours, theirs = session_pair(tester)
    tester.bend(nth(2, dropped(Push)))
    for key in "abc":
        ours.put(key)
    theirs.expect(Push, key="a")
    theirs.expect(Push, key="c")
    assert [text for text in notes(tester) if text.startswith("bend")] == [
        f"bend on {ours.name}: number 2: PUSH dropped"
    ]


@pytest.mark.parametrize("form", [{}, {"lowlatency": True}, {"compression": True}], ids=str)
def test_what_a_bend_adds_leaves_in_batches_of_its_own(tester: Tester, form: dict[str, Any]) -> None:
    ours, theirs = session_pair(tester, **form)
    ours.bend(repeated(Push if "lowlatency" in form else Frame))
    ours.put("a")
    cls = Push if "lowlatency" in form else Frame
    first, second = theirs.expect(cls), theirs.expect(cls)
    assert bytes(first) == bytes(second)
    assert len({seen.at for seen in theirs.inbox if isinstance(seen.message, cls)}) == 2


def test_bytes_that_stand_for_a_message_leave_as_they_are(tester: Tester) -> None:
    ours, theirs = session_pair(tester)
    ours.bend(replaced(Frame, b"\x04\x04"))
    ours.put("a")
    theirs.expect(KeepAlive)
    theirs.expect(KeepAlive)


@pytest.mark.parametrize("form", [{}, {"compression": True}], ids=str)
def test_delayed_message_leaves_by_itself_when_its_time_has_come(
    tester: Tester, form: dict[str, Any]
) -> None:
    ours, theirs = session_pair(tester, **form)
    ours.bend(nth(1, delayed(Push, seconds=0.1)))
    started = time.monotonic()
    ours.put("a")
    ours.put("b")
    theirs.expect(Push, key="b")
    theirs.expect(Push, key="a")
    assert time.monotonic() - started >= 0.1


def test_bend_of_the_handshake_shows_at_the_other_end(tester: Tester) -> None:
    listener = tester.listen()
    tester.bend(extended(Init, UnknownExtension(ext_id=14)))
    ours = tester.starting(locator=listener.locator)
    ours.begin()
    theirs = listener.accept()
    assert [one.ext_id for one in theirs.take_init_syn().extensions] == [14]


def test_session_keeps_itself_alive(tester: Tester) -> None:
    ours, theirs = session_pair(tester, lease=4.0)
    tester.advance(1.5)
    assert ours.last(KeepAlive) is not None
    assert theirs.last(KeepAlive) is not None


def test_bytes_are_kept_back_let_go_and_cut(tester: Tester) -> None:
    ours, theirs = session_pair(tester)
    ours.hold()
    ours.put("a")
    assert not theirs.wait(lambda: theirs.last(Push) is not None, 0.05)
    ours.release(3)
    assert not theirs.wait(lambda: theirs.last(Push) is not None, 0.05)
    ours.release()
    theirs.expect(Push, key="a")
    ours.chunk([1, 2])
    ours.put("b")
    theirs.expect(Push, key="b")
    ours.half_close()
    theirs.expect_end()
    assert "end of stream" in str(theirs.link.ended)


def test_reset_is_seen_as_one(tester: Tester) -> None:
    ours, theirs = session_pair(tester)
    ours.abort()
    theirs.expect_end()
    assert "reset" in str(theirs.link.ended)


def test_choice_is_made_by_the_seed_and_noted() -> None:
    picked = []
    for _ in range(2):
        with lone_tester(seed=5) as tester:
            tester.listen()
            picked.append([tester.choose("abcdef", "a letter") for _ in range(5)])
    assert picked[0] == picked[1]
    assert len(set(picked[0])) > 1


def test_sessions_that_are_over_cost_no_time(tester: Tester) -> None:
    listener = tester.listen()
    for _ in range(5):
        ours, theirs = session_pair(tester, listener)
        ours.close()
        theirs.expect_end()
        theirs.close()
    tester.advance(0.01)
    assert len(tester.links._tickers) == 0


def test_nothing_is_waited_for_on_a_link_that_has_ended(tester: Tester) -> None:
    ours, theirs = session_pair(tester)
    theirs.close()
    started = time.monotonic()
    with pytest.raises(Unmet, match="CLOSE, end of stream"):
        ours.expect(Push, within=60)
    assert time.monotonic() - started < 30


def test_no_two_links_share_a_name(tester: Tester) -> None:
    listener = tester.listen(name="x")
    first, second = tester.link(listener.locator, name="b"), tester.link(listener.locator, name="b")
    assert first.name == "b"
    assert len({listener.name, first.name, second.name, tester.link(listener.locator).name}) == 4
    second.send(KeepAlive())
    assert {seen.link for seen in tester.history.observations if seen.raw} == {second.name}
