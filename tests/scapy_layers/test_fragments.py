"""Fragments back into messages: the table of what real nodes do, and the bounds."""

from __future__ import annotations

import pytest

from scapy_layers.codes import Priority
from scapy_layers.fragments import PIECE, Fragments, Piece, Place
from scapy_layers.limits import Limits
from scapy_layers.remarks import Lane, Remark, RemarkKind

LANE = Lane(Priority.DATA, reliable=True)
OTHER = Lane(Priority.REAL_TIME, reliable=True)
MASK = 0x7F


class Receiver:
    """Takes fragments of one sender and keeps what comes of them."""

    def __init__(self, patch: int | None, *, complete: bool = True, limits: Limits | None = None) -> None:
        self.fragments = Fragments(limits or Limits())
        self.patch = patch
        self.complete = complete
        self.messages: list[bytes] = []
        self.pieces: list[tuple[int, ...]] = []
        self.remarks: list[Remark] = []
        self.packet = 0

    def take(self, sn: int, data: bytes, marks: str = "", lane: Lane = LANE) -> Receiver:
        """``marks``: F for First, D for Drop, a dot for the last fragment."""
        self.packet += 1
        piece = Piece(self.packet, sn, data, more="." not in marks, first="F" in marks, drop="D" in marks)
        place = Place(0, 0, lane)
        mask = MASK if self.complete else None
        whole, remark = self.fragments.take(
            place, piece, patch=self.patch, mask=mask, complete=self.complete, opens=self.complete
        )
        if whole:
            self.messages.append(whole.data)
            self.pieces.append(whole.pieces)
        self.remarks += [remark] if remark else []
        return self

    def frame(self, sn: int, lane: Lane = LANE) -> Receiver:
        self.packet += 1
        remark = self.fragments.interrupt(Place(0, 0, lane), sn)
        self.remarks += [remark] if remark else []
        return self


PATCHES = pytest.mark.parametrize("patch", [0, 1])


@PATCHES
def test_chain_with_first_is_one_message(patch: int) -> None:
    receiver = Receiver(patch).take(126, b"a", "F").take(127, b"b").take(0, b"c", ".")
    assert (receiver.messages, receiver.pieces, receiver.remarks) == ([b"abc"], [(1, 2, 3)], [])
    assert receiver.fragments.held == 0


@pytest.mark.parametrize(("patch", "messages", "remarks"), [(0, [b"ab"], 0), (1, [], 2), (None, [b"ab"], 0)])
def test_chain_without_first(patch: int | None, messages: list[bytes], remarks: int) -> None:
    receiver = Receiver(patch).take(1, b"a").take(2, b"b", ".")
    assert (receiver.messages, len(receiver.remarks)) == (messages, remarks)


@pytest.mark.parametrize(("patch", "messages", "remarks"), [(0, [b"abc"], 0), (1, [b"bc"], 1)])
def test_first_in_the_middle(patch: int, messages: list[bytes], remarks: int) -> None:
    receiver = Receiver(patch).take(1, b"a", "F").take(2, b"b", "F").take(3, b"c", ".")
    assert (receiver.messages, len(receiver.remarks)) == (messages, remarks)


@pytest.mark.parametrize(("patch", "messages"), [(0, [b"abcd"]), (1, [b"cd"])])
def test_drop_in_the_middle(patch: int, messages: list[bytes]) -> None:
    receiver = Receiver(patch).take(1, b"a", "F").take(2, b"b", "D").take(3, b"c", "F").take(4, b"d", ".")
    assert (receiver.messages, receiver.remarks) == (messages, [])


@PATCHES
def test_gap_inside_the_chain_loses_it(patch: int) -> None:
    receiver = Receiver(patch).take(1, b"a", "F").take(3, b"b").take(4, b"c", ".")
    assert receiver.messages in ([], [b"bc"])
    assert receiver.remarks[0].kind is RemarkKind.FRAGMENT
    assert "sequence number 3 after 1" in receiver.remarks[0].text


@PATCHES
def test_frame_of_the_same_lane_loses_the_chain(patch: int) -> None:
    receiver = Receiver(patch).take(1, b"a", "F").frame(2)
    assert [remark.kind for remark in receiver.remarks] == [RemarkKind.FRAGMENT]
    assert receiver.take(3, b"b", "F.").messages == [b"b"]


@PATCHES
def test_frame_or_chain_of_another_lane_does_not_matter(patch: int) -> None:
    receiver = Receiver(patch).take(1, b"a", "F").frame(1, OTHER).take(2, b"x", "F", OTHER)
    receiver.take(2, b"b", ".").take(3, b"y", ".", OTHER)
    assert (receiver.messages, receiver.remarks) == ([b"ab", b"xy"], [])


@pytest.mark.parametrize(("patch", "messages", "remarks"), [(0, [b"b"], 0), (1, [], 1)])
def test_first_fragment_that_is_empty(patch: int, messages: list[bytes], remarks: int) -> None:
    receiver = Receiver(patch).take(1, b"", "F").take(2, b"b", ".")
    assert (receiver.messages, len(receiver.remarks)) == (messages, remarks)


@PATCHES
def test_one_fragment_may_be_the_whole_message(patch: int) -> None:
    assert Receiver(patch).take(1, b"a", "F.").messages == [b"a"]


def test_number_taken_in_vain_does_not_hide_the_beginning() -> None:
    receiver = Receiver(0).take(1, b"a", "F.").take(3, b"b").take(4, b"c", ".")
    assert (receiver.messages, receiver.remarks) == ([b"a", b"bc"], [])


@pytest.mark.parametrize("patch", [0, None])
def test_end_of_a_message_whose_beginning_is_not_captured_makes_none(patch: int | None) -> None:
    receiver = Receiver(patch, complete=False).take(5, b"end", ".").take(6, b"a").take(7, b"b", ".")
    assert (receiver.messages, receiver.remarks) == ([b"ab"], [])


def test_message_behind_a_frame_may_begin_without_first() -> None:
    receiver = Receiver(0, complete=False).frame(5).take(6, b"a").take(7, b"b", ".")
    assert receiver.messages == [b"ab"]


def test_number_is_left_out_behind_fragments_only() -> None:
    assert Receiver(0).take(5, b"end", ".").take(7, b"a", ".").messages == [b"end", b"a"]
    assert Receiver(0).frame(5).take(7, b"a", ".").messages == []


def test_message_behind_one_that_lacks_a_piece_may_begin_without_first() -> None:
    receiver = Receiver(0).frame(5).take(6, b"a").take(8, b"c", ".").take(9, b"d").take(10, b"e", ".")
    assert receiver.messages == [b"de"]


def test_fragment_far_behind_what_was_heard_last_begins_nothing() -> None:
    receiver = (
        Receiver(0, complete=False).frame(5).take(50, b"middle").take(51, b"end", ".").take(52, b"a", ".")
    )
    assert receiver.messages == [b"a"]


def test_message_that_grows_too_large_is_thrown_away_with_its_rest() -> None:
    receiver = Receiver(1, limits=Limits(message=1000))
    receiver.take(1, bytes(500), "F").take(2, bytes(500))
    receiver.complete = False
    receiver.take(3, bytes(500)).take(4, bytes(500), ".")
    assert ([remark.kind for remark in receiver.remarks], receiver.messages) == ([RemarkKind.LIMIT], [])
    assert (receiver.fragments.held, receiver.fragments.forgotten) == (0, 1)


def test_empty_fragments_count_as_well() -> None:
    receiver = Receiver(0, limits=Limits(message=100 * PIECE))
    for sn in range(120):
        receiver.take(sn, b"", "F" if not sn else "")
    assert RemarkKind.LIMIT in [remark.kind for remark in receiver.remarks]


def test_oldest_message_goes_when_there_are_too_many() -> None:
    fragments = Fragments(Limits(message=10_000, fragments=10_000))
    for session in range(50):
        piece = Piece(session, 1, bytes(1000), more=True, first=True, drop=False)
        fragments.take(Place(session, 0, LANE), piece, patch=1, mask=MASK, complete=True, opens=True)
        assert fragments.held <= 10_000
    assert fragments.forgotten == 41
    last = Piece(60, 2, b"x", more=False, first=False, drop=False)
    whole, _ = fragments.take(Place(49, 0, LANE), last, patch=1, mask=MASK, complete=True, opens=True)
    assert whole is not None
    assert len(whole.data) == 1001


def test_dropped_session_leaves_nothing() -> None:
    receiver = Receiver(1).take(1, b"a", "F")
    receiver.fragments.drop(0)
    assert receiver.fragments.held == 0
    assert receiver.take(2, b"b", ".").messages == []
