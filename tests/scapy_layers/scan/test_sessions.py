"""Fragments put together where something was not heard. Whole captures are compared with the Scapy side elsewhere."""

import pytest

from scapy_layers.codes import Priority
from scapy_layers.remarks import Lane
from scapy_layers.scan.events import Agreed, Doubts, Introduced, Joins, Leaves, Starts
from scapy_layers.scan.sessions import Part, Sessions

LINK, OTHER, SESSION = 3, 4, 9


def opened(patch: int = 1, start: int | None = None, *, multilink: bool = False) -> Sessions:
    """A session with numbers of one byte, of which the beginning was seen; OPEN names the first number."""
    sessions = Sessions()
    sessions.take_note(Joins(LINK, SESSION))
    sessions.take_note(Introduced(LINK, 0))
    sessions.take_note(Agreed(SESSION, 0x7F, patch, lowlatency=False, multilink=multilink))
    if start is not None:
        sessions.take_note(Starts(SESSION, 0, start))
    return sessions


def part(
    sn: int, data: bytes | None = None, *, link: int = LINK, more: bool = False, first: bool = False
) -> Part:
    return Part(7, link, True, True, True, int(Priority.DATA), sn & 0x7F, data, more, first)


def whole(sessions: Sessions, sn: int, *, first: bool = True) -> bytes | None:
    """Takes two fragments; returns the message that they make."""
    assert sessions.take(part(sn, b"ab", more=True, first=first)) is None
    found = sessions.take(part(sn + 1, b"c"))
    return None if found is None else found.data


@pytest.mark.parametrize("step", [1, 63, 64, 100, 126, 127])
def test_number_behind_a_hole_counts_as_it_is(step: int) -> None:
    sessions = opened()
    sessions.take(part(20))
    sessions.doubt(LINK, forward=True)
    assert whole(sessions, 20 + step) == b"abc"


def test_old_number_is_dropped_where_nothing_is_missing() -> None:
    sessions = opened()
    sessions.take(part(20))
    sessions.doubt(LINK, forward=False)
    assert whole(sessions, 20 + 65) is None


def test_only_the_next_number_counts_as_it_is() -> None:
    sessions = opened()
    sessions.take(part(20))
    sessions.doubt(LINK, forward=True)
    sessions.take(part(90))
    assert whole(sessions, 80) is None


@pytest.mark.parametrize("patch", [0, 1])
def test_message_begins_behind_frames_that_nobody_looked_at(patch: int) -> None:
    sessions = opened(patch, start=20)
    sessions.take(part(20))
    sessions.pass_over({LINK})
    assert whole(sessions, 20 + 100, first=patch > 0) == b"abc"


def test_message_that_does_not_say_that_it_begins_is_passed_over_where_something_is_missing() -> None:
    sessions = opened(0, start=20)
    sessions.take(part(20))
    sessions.doubt(LINK, forward=True)
    sessions.pass_over({LINK})
    assert whole(sessions, 20 + 100, first=False) is None


def test_message_goes_on_behind_frames_of_other_lanes_that_nobody_looked_at() -> None:
    sessions = opened(start=10)
    sessions.take(part(60))
    sessions.take(part(61, b"a", more=True, first=True))
    sessions.pass_over({LINK})
    assert sessions.take(part(62, b"b"))


@pytest.mark.parametrize(("sn", "fresh"), [(9, False), (10, True), (12, True), (200, False)])
def test_first_number_of_a_lane_is_no_older_than_open_names_and_in_range(sn: int, fresh: bool) -> None:
    sessions = opened(start=10)
    first = part(10, b"a", more=True, first=True)._replace(sn=sn)
    sessions.take(first)
    found = sessions.take(part(10, b"b")._replace(sn=sn + 1))
    assert (found is not None) == fresh


@pytest.mark.parametrize(("sn", "fresh"), [(8, False), (10, True), (100, False)])
def test_number_that_join_names_is_that_of_the_lane(sn: int, fresh: bool) -> None:
    sessions = opened()
    lanes = {Lane(Priority.DATA, reliable=True): 10, Lane(Priority.DATA, reliable=False): 100}
    sessions.take_note(Starts(SESSION, 0, None, lanes))
    assert (whole(sessions, sn) is not None) == fresh


def test_open_ends_doubts() -> None:
    sessions = opened(0, start=10)
    sessions.take_note(Doubts(SESSION, 0))
    sessions.take_note(Starts(SESSION, 0, 10))
    assert whole(sessions, 10, first=False) == b"abc"


def test_links_of_a_session_share_its_lanes() -> None:
    sessions = opened(start=10, multilink=True)
    sessions.take_note(Joins(OTHER, SESSION))
    assert sessions.linked({LINK}, []) == {LINK, OTHER}
    assert sessions.take(part(10, b"a", more=True, first=True)) is None
    assert sessions.take(part(11, b"b", link=OTHER))


def test_link_that_turns_out_to_be_of_another_session_stays_introduced() -> None:
    sessions = Sessions()
    sessions.take_note(Joins(LINK, SESSION))
    sessions.take_note(Introduced(LINK, 0))
    sessions.take_note(Joins(LINK, SESSION + 1))
    sessions.take_note(Agreed(SESSION + 1, 0x7F, 0, lowlatency=False, multilink=True))
    sessions.take_note(Starts(SESSION + 1, 0, 10))
    assert whole(sessions, 10, first=False) == b"abc"


def test_what_a_session_leaves_unfinished_is_forgotten_with_its_last_link() -> None:
    sessions = opened(start=10)
    sessions.take(part(10, b"a", more=True, first=True))
    assert sessions.held
    sessions.take_note(Leaves(LINK))
    assert not sessions.held
    sessions.take_note(Joins(LINK, SESSION + 1))
    assert sessions.take(part(11, b"b")) is None


def test_nothing_travels_in_fragments_with_low_latency() -> None:
    sessions = opened(start=10)
    sessions.take_note(Agreed(SESSION, 0x7F, 1, lowlatency=True, multilink=False))
    assert whole(sessions, 10) is None
