from __future__ import annotations

import pytest

from conformance.session.lanes import Consecutive
from scapy_layers.codes import Priority
from scapy_layers.extensions import Lane
from scapy_layers.message import Message
from scapy_layers.transport import Fragment, Frame, KeepAlive


def frame(sn: int, *, reliable: int = 1, priority: int = Priority.DATA) -> Frame:
    chain = [Lane(priority=priority)] if priority != Priority.DATA else []
    return Frame(R=reliable, sn=sn, extensions=chain)


@pytest.mark.parametrize(
    "said",
    [
        [frame(7), KeepAlive(), frame(8), Fragment(R=1, sn=9), Fragment(R=1, sn=10), frame(11)],
        [frame(7), frame(3, priority=Priority.REAL_TIME), frame(8), frame(4, priority=Priority.REAL_TIME)],
        [frame(7), frame(20, reliable=0), frame(90, reliable=0), frame(8)],
        [frame(127), frame(0)],
        [frame((1 << 28) - 1), frame(0), frame(1)],
        [frame((1 << 32) - 1), frame(0)],
    ],
)
def test_numbers_that_follow_one_another_are_in_turn(said: list[Message]) -> None:
    assert not Consecutive().wrong(said)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ([frame(7), frame(9)], "FRAME 9 comes behind 7"),
        ([frame(7), frame(7)], "FRAME 7 comes behind 7"),
        ([frame(7), frame(0)], "FRAME 0 comes behind 7"),
        ([frame(128), frame(0)], "FRAME 0 comes behind 128"),
        ([Fragment(R=1, M=1, sn=7), Fragment(R=1, sn=9)], "FRAGMENT 9 comes behind 7"),
        ([frame(7), frame(3, priority=Priority.REAL_TIME), frame(5, priority=Priority.REAL_TIME)], "FRAME 5"),
    ],
)
def test_a_number_that_is_not_the_one_due_is_told(said: list[Message], words: str) -> None:
    numbers = Consecutive()
    # However many come at once.
    told = [numbers.wrong([one]) for one in said]
    assert told[-1].startswith(words)
    assert not any(told[:-1])
    assert Consecutive().wrong(said) == told[-1]


@pytest.mark.parametrize(
    ("numbers", "wrong"),
    [
        ((5, 6, 8), ""),
        ((5, 6, 7), ""),
        ((5, 6, 9), "FRAME 9 comes behind 6 on a reliable lane"),
        ((5, 7, 8), "FRAGMENT 7 comes behind 5 on a reliable lane"),
        ((126, 127, 1), ""),
        ((125, 126, 0), ""),
    ],
)
def test_behind_the_last_fragment_one_number_may_be_left_out(numbers: tuple[int, ...], wrong: str) -> None:
    first, last, behind = numbers
    said = [Fragment(R=1, M=1, sn=first), Fragment(R=1, M=0, sn=last), Frame(R=1, sn=behind)]
    assert Consecutive().wrong(said) == wrong
