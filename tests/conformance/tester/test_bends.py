"""Bends alone: what leaves in place of a message."""

from __future__ import annotations

import random

import pytest

from conformance.tester.bending import Bend, Bending, words_of
from conformance.tester.bends import (
    changed,
    cut,
    delayed,
    dropped,
    extended,
    nth,
    reordered,
    repeated,
    replaced,
    sometimes,
)
from scapy_layers.data import Del, Put, Reply
from scapy_layers.message import Message, UnknownExtension
from scapy_layers.network import Push, Response
from scapy_layers.transport import Close, Frame, Init, KeepAlive, Open


def left(bend: Bend, *messages: Message) -> list[bytes]:
    """Returns what leaves of messages that one session sends."""
    bending = Bending(random.Random(1))
    return [bytes(item) for message in messages for item in bending.out(message, [bend])]


def push(data: bytes = b"1") -> Push:
    return Push(key_suffix="a", body=Put(data=data))


def test_changed_field_leaves_and_the_message_itself_stays() -> None:
    init = Init(zid=b"\x01")
    assert left(changed(Init, version=8), init) == [bytes(Init(zid=b"\x01", version=8))]
    assert init.value("version") == 9


def test_change_may_depend_on_the_old_value() -> None:
    assert left(changed(Open, initial_sn=lambda sn: sn + 1), Open(A=1, initial_sn=4)) == [
        bytes(Open(A=1, initial_sn=5))
    ]


def test_messages_of_other_classes_leave_as_they_are() -> None:
    assert left(changed(Init, version=8), KeepAlive(), Close()) == [bytes(KeepAlive()), bytes(Close())]


def test_bend_of_a_field_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(LookupError, match="INIT has no field 'versoin'"):
        changed(Init, versoin=8)


def test_bend_reaches_into_frames_and_bodies() -> None:
    frame = Frame(R=1, sn=3, messages=[push(), Response(request_id=1, body=Reply(body=Put(data=b"2")))])
    wanted = Frame(R=1, sn=3, messages=[push(b"x"), Response(request_id=1, body=Reply(body=Put(data=b"x")))])
    assert left(changed(Put, data=b"x"), frame) == [bytes(wanted)]
    assert frame.messages[0].body.data == b"1"


def test_what_is_dropped_inside_a_frame_leaves_the_others_there() -> None:
    frame = Frame(R=1, sn=3, messages=[push(), Push(key_suffix="b", body=Del())])
    assert left(dropped(Put), frame) == [
        bytes(Frame(R=1, sn=3, messages=[Push(key_suffix="a", body=b""), frame.messages[1]]))
    ]
    both = Frame(R=1, sn=3, messages=[push(), Response(request_id=1, body=Reply(body=Put(data=b"2")))])
    assert left(dropped(Push), both) == [bytes(Frame(R=1, sn=3, messages=[both.messages[1]]))]


def test_frame_whose_messages_are_all_dropped_does_not_leave() -> None:
    assert left(dropped(Push), Frame(sn=1, messages=[push()]), KeepAlive()) == [bytes(KeepAlive())]


def test_dropped_replaced_and_cut() -> None:
    assert left(dropped(KeepAlive), KeepAlive(), Close()) == [bytes(Close())]
    assert left(replaced(KeepAlive, Close()), KeepAlive()) == [bytes(Close())]
    assert left(replaced(KeepAlive, b"\xff"), KeepAlive()) == [b"\xff"]
    assert left(cut(Init, 3), Init(zid=b"\x01")) == [bytes(Init(zid=b"\x01"))[:3]]


def test_extension_is_added_behind_those_that_are_there() -> None:
    one, two = UnknownExtension(ext_id=0xD), UnknownExtension(ext_id=0xE, M=1)
    wanted = Init(zid=b"\x01", extensions=[one, two])
    assert left(extended(Init, two), Init(zid=b"\x01", extensions=[one])) == [bytes(wanted)]
    # Z that was read from the wire is said anew.
    assert left(extended(Init, one), Init(bytes(Init(zid=b"\x01")))) == [
        bytes(Init(zid=b"\x01", extensions=[one]))
    ]


def test_repeated_leaves_so_many_times() -> None:
    assert left(repeated(KeepAlive, 3), KeepAlive()) == [bytes(KeepAlive())] * 3


def test_reordered_messages_overtake_each_other_in_pairs() -> None:
    frames = [Frame(sn=number, messages=[push()]) for number in range(5)]
    wanted = [bytes(frames[number]) for number in (1, 0, 3, 2)]
    assert left(reordered(Frame), *frames) == wanted


def test_nth_bends_one_message_only() -> None:
    closes = [Close(reason=number) for number in range(3)]
    assert left(nth(2, dropped(Close)), *closes) == [bytes(closes[0]), bytes(closes[2])]


def test_nth_counts_in_each_session_apart() -> None:
    bend = nth(1, dropped(Close))
    assert left(bend, Close(), Close()) == left(bend, Close(), Close()) == [bytes(Close())]


def test_sometimes_chooses_by_the_seed() -> None:
    closes = [Close(reason=number) for number in range(40)]
    bend = sometimes(0.5, dropped(Close))
    first = left(bend, *closes)
    assert first == left(bend, *closes)
    assert 5 < len(first) < 35
    assert left(sometimes(0, dropped(Close)), *closes) == [bytes(one) for one in closes]


def test_delayed_until_another_message_leaves_behind_it() -> None:
    assert left(delayed(KeepAlive, until=Close), KeepAlive(), Init(zid=b"\x01"), Close()) == [
        bytes(Init(zid=b"\x01")),
        bytes(Close()),
        bytes(KeepAlive()),
    ]


def test_delayed_by_seconds_leaves_when_they_are_over() -> None:
    bending, bends = Bending(random.Random(1)), [delayed(KeepAlive, seconds=2)]
    assert bending.out(KeepAlive(), bends) == []
    assert bending.freed(10.0, bends) == []
    assert bending.due(bends) == 12.0
    assert bending.freed(11.9, bends) == []
    assert [bytes(item) for item in bending.freed(12.0, bends)] == [bytes(KeepAlive())]
    assert bending.due(bends) is None


def test_delayed_until_a_condition_holds() -> None:
    ready = False
    bending, bends = Bending(random.Random(1)), [delayed(KeepAlive, until=lambda: ready)]
    assert bending.out(KeepAlive(), bends) == []
    assert bending.freed(1.0, bends) == []
    ready = True
    assert len(bending.freed(1.0, bends)) == 1


def test_what_is_let_go_passes_the_bends_behind() -> None:
    bending = Bending(random.Random(1))
    bends: list[Bend] = [delayed(Close, seconds=0), changed(Close, reason=3)]
    assert bending.out(Close(), bends) == []
    assert [bytes(item) for item in bending.freed(1.0, bends)] == [bytes(Close(reason=3))]


def test_delay_needs_one_end() -> None:
    with pytest.raises(ValueError, match="seconds or until"):
        delayed(Close)


def test_bends_are_applied_in_order() -> None:
    bending = Bending(random.Random(1))
    bends: list[Bend] = [changed(Close, reason=1), changed(Close, reason=lambda reason: reason + 1)]
    assert [bytes(item) for item in bending.out(Close(), bends)] == [bytes(Close(reason=2))]


def test_only_a_bend_that_did_something_has_a_word() -> None:
    def quiet(message: Message) -> Message:
        """A bend: nothing changes."""
        return message

    bending = Bending(random.Random(1))
    bending.out(KeepAlive(), [changed(Init, version=8), quiet, repeated(KeepAlive)])
    assert bending.done == ["KEEP_ALIVE sent 2 times"]


def test_function_that_changes_a_message_in_place_has_a_word() -> None:
    def later(message: Message) -> Message:
        """A bend: another reason."""
        message.reason = 4
        return message

    bending = Bending(random.Random(1))
    assert [bytes(item) for item in bending.out(Close(), [later])] == [bytes(Close(reason=4))]
    assert bending.done == ["another reason"]


@pytest.mark.parametrize(
    ("bend", "words"),
    [
        (changed(Init, version=8), "INIT with version=8"),
        (dropped(KeepAlive), "KEEP_ALIVE dropped"),
        (replaced(Init, b"\x01"), "INIT replaced by 01"),
        (repeated(Frame), "FRAME sent 2 times"),
        (reordered(Frame), "FRAME overtaken by the next"),
        (cut(Push, 2), "PUSH cut to 2 bytes"),
        (extended(Init, UnknownExtension(ext_id=14)), "INIT with unknown optional extension 0xe"),
        (delayed(Open, seconds=0.5), "OPEN delayed by 0.5 s"),
        (delayed(Open, until=Close), "OPEN delayed until CLOSE has left"),
        (nth(2, dropped(Frame)), "number 2: FRAME dropped"),
        (sometimes(0.25, dropped(Frame)), "one in 4: FRAME dropped"),
    ],
)
def test_bend_says_what_it_does(bend: Bend, words: str) -> None:
    assert words_of(bend) == words
