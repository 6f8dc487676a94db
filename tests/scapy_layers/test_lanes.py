"""Sequence numbers of one sender, against a plain count of what was sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_layers.codes import Priority
from scapy_layers.lanes import MASKS, WHOLE, Numbers, Part
from scapy_layers.remarks import Lane, RemarkKind

RELIABLE = Lane(Priority.DATA, reliable=True)
BEST_EFFORT = Lane(Priority.DATA, reliable=False)
FIRST = Part(fragment=True, begins=True, ends=False)
MIDDLE = Part(fragment=True, begins=False, ends=False)
LAST = Part(fragment=True, begins=False, ends=True)


def started(mask: int = 0x7F, first: int = 0) -> Numbers:
    numbers = Numbers(mask)
    numbers.start(first)
    return numbers


def kind(numbers: Numbers, sn: int, part: Part = WHOLE, lane: Lane = RELIABLE) -> RemarkKind | None:
    remark = numbers.take(lane, sn, part).remark
    return remark and remark.kind


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("first", [0, 1, 0x7F])
def test_numbers_in_order_are_fresh_through_the_wrap(mask: int, first: int) -> None:
    numbers = started(mask, first)
    for step in range(300):
        assert numbers.take(RELIABLE, first + step & mask) == (True, None)
    numbers = started(mask, mask - 1)
    assert [kind(numbers, sn) for sn in (mask - 1, mask, 0, 1)] == [None] * 4


@pytest.mark.parametrize("mask", MASKS)
def test_forward_half_is_a_gap_the_other_half_is_old(mask: int) -> None:
    half = mask >> 1
    for sn, expected in [
        (2, RemarkKind.GAP),
        (half, RemarkKind.GAP),
        (half + 1, RemarkKind.OLD),
        (mask, RemarkKind.OLD),
    ]:
        numbers = started(mask)
        numbers.take(RELIABLE, 0)
        taken = numbers.take(RELIABLE, sn)
        assert taken.remark is not None
        assert (taken.remark.kind, taken.fresh) == (expected, expected is RemarkKind.GAP)


def test_gap_says_how_many_and_where() -> None:
    numbers = started()
    numbers.take(RELIABLE, 0)
    (_, remark) = numbers.take(RELIABLE, 4)
    assert remark is not None
    assert remark.text == "3 sequence numbers missing between 0 and 4 on DATA reliable"
    assert kind(numbers, 5) is None


def test_first_number_is_the_one_that_was_said() -> None:
    assert kind(started(first=5), 5) is None
    assert kind(started(first=5), 6) is RemarkKind.GAP
    assert kind(started(first=5), 6, lane=BEST_EFFORT) is RemarkKind.LOSS
    assert kind(started(first=5), 4) is RemarkKind.DUPLICATE
    assert kind(started(first=5), 3) is RemarkKind.OLD


def test_number_above_the_resolution_is_out_of_range_and_counts_for_nothing() -> None:
    numbers = started()
    assert kind(numbers, 0) is None
    assert kind(numbers, 128) is RemarkKind.RANGE
    assert kind(numbers, 1) is None


def test_duplicate_and_old_leave_the_count_where_it_is() -> None:
    numbers = started()
    seen = [kind(numbers, sn) for sn in (0, 1, 1, 0, 2)]
    assert seen == [None, None, RemarkKind.DUPLICATE, RemarkKind.OLD, None]


def test_doubt_takes_the_next_number_of_each_lane_as_it_is() -> None:
    numbers = started()
    numbers.take(RELIABLE, 0)
    numbers.doubt()
    assert [kind(numbers, sn) for sn in (50, 51, 53)] == [None, None, RemarkKind.GAP]
    assert kind(numbers, 9, lane=BEST_EFFORT) is None
    assert kind(numbers, 11, lane=BEST_EFFORT) is RemarkKind.LOSS


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (LAST, WHOLE, None),
        (LAST, FIRST, None),
        (LAST, MIDDLE, None),
        (MIDDLE, FIRST, None),
        (MIDDLE, WHOLE, None),
        (MIDDLE, MIDDLE, RemarkKind.GAP),
        (WHOLE, WHOLE, RemarkKind.GAP),
        (WHOLE, FIRST, RemarkKind.GAP),
    ],
)
def test_number_taken_in_vain_for_a_message_in_fragments_is_no_gap(
    before: Part, after: Part, expected: RemarkKind | None
) -> None:
    for first in (0, 0x7E, 0x7F):
        numbers = started(first=first)
        assert kind(numbers, first, before) is None
        assert kind(numbers, first + 2 & 0x7F, after) is expected
        numbers = started(first=first)
        numbers.take(RELIABLE, first, before)
        assert kind(numbers, first + 3 & 0x7F, after) is RemarkKind.GAP


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (LAST, WHOLE, None),
        (LAST, FIRST, None),
        (LAST, MIDDLE, None),
        (LAST, MIDDLE._replace(inside=True), RemarkKind.GAP),
        (MIDDLE, FIRST, RemarkKind.GAP),
        (MIDDLE, WHOLE, RemarkKind.GAP),
    ],
)
def test_number_of_what_was_lost_on_the_way_is_not_taken_in_vain(
    before: Part, after: Part, expected: RemarkKind | None
) -> None:
    numbers = started(first=0)
    numbers.take(RELIABLE, 0, before, lossy=True)
    remark = numbers.take(RELIABLE, 2, after, lossy=True).remark
    assert (remark and remark.kind) is expected


@given(
    st.sampled_from(MASKS),
    st.integers(0, 1 << 32),
    st.permutations(range(20)),
    st.sets(st.integers(0, 19), max_size=5),
)
def test_numbers_that_overtake_each_other_are_fresh_and_lost_ones_are_told_once(
    mask: int, first: int, order: list[int], lost: set[int]
) -> None:
    numbers = started(mask, first & mask)
    remarks = []
    for step in [*(step for step in order if step not in lost), *range(20, 60)]:
        fresh, remark = numbers.take(RELIABLE, first + step & mask, reorder=20)
        assert fresh
        remarks += [remark] if remark else []
    assert sum(int(remark.text.split()[0]) for remark in remarks) == len(lost)


@given(st.sampled_from(MASKS), st.data())
def test_unknown_resolution_raises_no_alarm_about_a_whole_stream(mask: int, data: st.DataObject) -> None:
    numbers = Numbers()
    first = data.draw(st.integers(max(mask - 100, 0), mask))
    assert all(numbers.take(RELIABLE, first + step & mask) == (True, None) for step in range(200))
    assert numbers.mask == mask


@given(st.lists(st.integers(0, 300), max_size=60), st.sampled_from([None, 0x7F]), st.sampled_from([0, 8]))
def test_any_numbers_are_judged(sns: list[int], mask: int | None, reorder: int) -> None:
    numbers = Numbers(mask)
    for sn in sns:
        numbers.take(RELIABLE, sn, reorder=reorder)


@pytest.mark.parametrize("last", [0xFFFF_FFFF, 0x7FFF_FFFF_FFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF])
def test_64_bits_begin_again_where_some_node_does(last: int) -> None:
    numbers = started(MASKS[3], last - 1)
    assert [kind(numbers, sn) for sn in (last - 1, last, 0, 1)] == [None] * 4
    # Not one earlier.
    numbers = started(MASKS[3], last - 1)
    assert kind(numbers, last - 1) is None
    assert kind(numbers, 0) is not None


def test_64_bits_may_be_more_than_32() -> None:
    numbers = started(MASKS[3], 1 << 40)
    assert [kind(numbers, (1 << 40) + more) for more in (0, 1, 2)] == [None] * 3
