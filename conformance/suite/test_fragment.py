"""FRAGMENT: messages that do not fit a FRAME, cut by the node and cut by us."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import pytest

from conformance.errors import NotApplicable
from conformance.expect import check
from conformance.plugin import destructive, req
from conformance.suite.common import (
    Pair,
    bits,
    carriers,
    fragments_of,
    frame,
    listed,
    pair,
    question,
    settle,
    unknown,
)
from conformance.tester import SessionEnd, Tester
from scapy_layers.codes import Priority
from scapy_layers.data import Put
from scapy_layers.extensions import Drop, First, Lane, QoS
from scapy_layers.network import Push, ResponseFinal
from scapy_layers.transport import Fragment, Frame, KeepAlive

SMALL = 256
"""A batch size that a value of some KiB does not fit."""

LARGE = 4096
"""Bytes of a value that does not fit such a batch."""

LIMIT = 1 << 20
"""Bytes of the largest message, where a node is configured with one."""


def blocking(both: Pair, key: str, data: bytes, priority: int = Priority.DATA) -> Push:
    """Returns a PUSH that the node may not drop, however busy it is."""
    return both.push(key, body=Put(data=data), extensions=[QoS(D=1, priority=priority)])


def cut(raw: bytes, *places: int) -> list[bytes]:
    """Cuts bytes at some places."""
    ends = [0, *places, len(raw)]
    return [raw[start:end] for start, end in pairwise(ends)]


def fragments(end: SessionEnd, parts: list[bytes], *, first: bool = False) -> list[Fragment]:
    """Returns FRAGMENTs with the next numbers of the reliable channel.

    Args:
        end: Will send them.
        parts: What they carry.
        first: The first one is marked as such, as patch 1 demands.
    """
    return [
        Fragment(
            R=1,
            M=int(number < len(parts) - 1),
            sn=end.session.take_sn(),
            extensions=[First()] if first and not number else [],
            data=part,
        )
        for number, part in enumerate(parts)
    ]


def send(end: SessionEnd, messages: Iterable[Fragment | Frame]) -> None:
    """Sends each message in a batch of its own: a FRAGMENT fills its batch."""
    for message in messages:
        end.send(message)


def got(end: SessionEnd) -> list[Fragment]:
    """Returns the FRAGMENTs that an end got, in order."""
    return [message for message in carriers(end) if isinstance(message, Fragment)]


def cut_by_the_node(tester: Tester) -> tuple[Pair, list[Fragment]]:
    """Returns a pair and the FRAGMENTs in which a large value reached the subscriber."""
    both = pair(tester, subscriber={"batch_size": SMALL})
    both.pub.post(blocking(both, "large", bytes(LARGE)))
    (large,) = both.expect(f"PUT large={LARGE} bytes")
    parts = fragments_of(both.sub, large)
    check(len(parts) > 1, "several FRAGMENTs", f"{len(parts)}")
    return both, parts


def with_markers(tester: Tester) -> Pair:
    """Returns a pair whose publisher has agreed on patch 1.

    Raises:
        NotApplicable: The node knows no patch.
    """
    both = pair(tester, patch=1)
    if not both.pub.session.agreed.patch:
        raise NotApplicable("the node knows no patch")
    return both


# What the node sends ----------------------------------------------------------------------------------


@req("ZN-FRG-001")
def test_fragment_header_has_r_and_m(tester: Tester) -> None:
    _, parts = cut_by_the_node(tester)
    check({bits(part, 0, 0x1F) for part in parts} == {0x06}, "headers with id 6", "others")
    check(len({bits(part, 0, 0x20) for part in parts}) == 1, "one channel for all", "two")
    more = [bool(bits(part, 0, 0x40)) for part in parts]
    check(more == [True] * (len(more) - 1) + [False], "bit 6 on all but the last", "another order")
    for part in parts:
        check(bool(bits(part, 0, 0x80)) == bool(part.extensions), "bit 7 for extensions", "the opposite")


@req("ZN-FRG-002")
def test_more_is_set_on_all_but_the_last_fragment(tester: Tester) -> None:
    _, parts = cut_by_the_node(tester)
    more = [bool(part.M) for part in parts]
    check(more == [True] * (len(more) - 1) + [False], "M on all but the last", "another order")


@req("ZN-FRG-003")
def test_fragments_are_numbered_with_the_frames_of_their_channel(tester: Tester) -> None:
    both = pair(tester, subscriber={"batch_size": SMALL})
    for key, size in (("before", 1), ("large", LARGE), ("after", 2)):
        both.pub.post(blocking(both, key, bytes(size)))
    both.delivered()
    last = got(both.sub)[-1:]
    check(last, "FRAGMENTs", "none")
    run = [message for message in carriers(both.sub) if message.R == last[0].R]
    for earlier, later in pairwise(run):
        # Zero follows the largest number, whatever that is.
        met = later.sn in {earlier.sn + 1, 0}
        seen = f"a step of {later.sn - earlier.sn} from {earlier.name} to {later.name}"
        check(met, "numbers that rise by one", seen, f"{[message.sn for message in run]}")
    if Frame not in {type(message) for message in run}:
        raise NotApplicable("the node sends everything in FRAGMENTs (reading R-61)")


@req("ZN-FRG-101")
def test_message_that_fits_no_frame_is_sent_in_fragments(tester: Tester) -> None:
    for size in (SMALL, 65_535):
        value = tester.rng.randbytes(LARGE)
        both = pair(tester, subscriber={"batch_size": size})
        both.pub.post(blocking(both, "large", value))
        push = both.expect(f"PUT large={LARGE} bytes")[0]
        check(bytes(push.body.data) == value, "the value as it was published", "other bytes")
        parts = got(both.sub)
        if both.sub.session.agreed.batch_size <= LARGE:
            # Either what was proposed, or all that the node takes.
            largest = max(seen.batch_size for seen in both.sub.inbox)
            check(parts, "FRAGMENTs", "none")
            check(
                largest <= max(SMALL, both.sub.session.agreed.batch_size),
                "no batch above the agreed size",
                "a larger one",
            )


@req("ZN-FRG-101")
def test_message_of_any_length_around_that_of_a_batch_arrives_whole(tester: Tester) -> None:
    both = pair(tester, subscriber={"batch_size": SMALL})
    sizes = range(SMALL // 2, SMALL * 3 // 2, 8)
    for size in sizes:
        both.pub.post(blocking(both, "a", bytes(size)))
    both.expect(*(f"PUT a={size} bytes" for size in sizes))
    largest = max(seen.batch_size for seen in both.sub.inbox)
    check(largest <= SMALL, f"no batch above {SMALL} bytes", "a larger one")


@req("ZN-FRG-102")
def test_nothing_comes_between_the_fragments_of_a_message(tester: Tester) -> None:
    both = pair(tester, subscriber={"batch_size": SMALL})
    publishers = [both.pub, tester.session(), tester.session()]
    wanted: dict[str, bytes] = {}
    for number in range(3):
        for each, publisher in enumerate(publishers):
            key = f"{each}/{number}"
            wanted[both.at(key)] = value = tester.rng.randbytes(LARGE)
            publisher.post(blocking(both, key, value), blocking(both, "small", b"1"))
    seen = {both.sub.key(push): bytes(push.body.data) for push in delivered_of_all(both, publishers)}
    channels: dict[int, list[Fragment | Frame]] = {}
    for message in carriers(both.sub):
        channels.setdefault(message.R, []).append(message)
    for run in channels.values():
        between = [
            str(later.name)
            for earlier, later in pairwise(run)
            if isinstance(earlier, Fragment) and earlier.M and isinstance(later, Frame)
        ]
        check(not between, "no FRAME inside a message in FRAGMENTs", "FRAME")
    whole = [key for key, value in wanted.items() if seen.get(key) == value]
    check(len(whole) == len(wanted), f"{len(wanted)} values whole", f"{len(whole)}")


def delivered_of_all(both: Pair, publishers: list[SessionEnd]) -> list[Push]:
    """Returns what the subscriber gets of several publishers, before a control value of each."""
    came: list[Push] = []
    for publisher in publishers:
        both.pub = publisher
        came += both.delivered()
    return came


@req("ZN-FRG-104")
@pytest.mark.parametrize("priority", [Priority.REAL_TIME, Priority.DATA], ids=lambda code: code.name)
def test_all_fragments_of_a_message_are_on_one_lane(tester: Tester, priority: Priority) -> None:
    both = pair(tester, subscriber={"qos": True, "batch_size": SMALL}, qos=True)
    if not (both.sub.session.agreed.qos and both.pub.session.agreed.qos):
        raise NotApplicable("the node has no QoS lanes")
    both.pub.post(blocking(both, "large", bytes(LARGE), priority), priority=priority)
    large = both.sub.expect(Push, key=both.at("large"))
    lanes = {
        next((int(ext.priority) for ext in part.extensions or [] if isinstance(ext, Lane)), None)
        for part in fragments_of(both.sub, large)
    }
    wanted: list[set[int | None]] = [{int(priority)}]
    if priority == Priority.DATA:
        wanted.append({None})
    check(lanes in wanted, f"lane {priority:d} on each FRAGMENT", "another lane, or none on some")


# What the node does with ours ----------------------------------------------------------------------------


@req("ZN-FRG-002")
def test_message_is_whole_with_the_fragment_without_more(tester: Tester) -> None:
    both = pair(tester)
    other = tester.session()
    both.pub.fence()
    *early, last = fragments(both.pub, cut(bytes(both.push("a")), 5, 10))
    send(both.pub, early)
    fence_beside(both.pub)
    control = both.at("control")
    other.put(control)
    before = [both.words(push) for push in both.sub.until(Push, key=control) if isinstance(push, Push)]
    check(not before, "nothing before the last FRAGMENT", listed(before))
    both.pub.send(last)
    both.expect("PUT a=1")


def fence_beside(end: SessionEnd) -> None:
    """As a fence, but on the best-effort channel: a FRAME would end a message in FRAGMENTs on the other."""
    number = end.next_id()
    end.post(question(request_id=number, key_suffix="harness/fence/beside"), reliable=False)
    end.until(ResponseFinal, request_id=number)


@req("ZN-FRG-003")
def test_frames_and_fragments_of_ours_are_taken_in_one_run_of_numbers(tester: Tester) -> None:
    both = pair(tester)
    both.put("before", b"1")
    send(both.pub, fragments(both.pub, cut(bytes(both.push("between")), 7)))
    both.put("after", b"1")
    both.expect("PUT before=1", "PUT between=1", "PUT after=1")


@req("ZN-FRG-004")
def test_message_may_be_cut_anywhere(tester: Tester) -> None:
    both = pair(tester)
    raw = bytes(blocking(both, "a", b"value"))
    both.pub.send(frame(both.pub, blocking(both, "a", b"value")))
    places = range(1, len(raw))
    for place in places:
        send(both.pub, fragments(both.pub, cut(raw, place)))
    send(both.pub, fragments(both.pub, [raw[at : at + 1] for at in range(len(raw))]))
    seen = [both.words(push) for push in both.delivered()]
    wanted = 1 + len(places) + 1
    check(seen == ["PUT a=value"] * wanted, "the value from each cut", "fewer, or others", f"{seen}")


@req("ZN-FRG-004", "ZN-EXT-102")
@pytest.mark.parametrize("enc", ["unit", "z64", "zbuf"])
def test_data_of_a_fragment_begins_behind_its_extensions(tester: Tester, enc: str) -> None:
    both = pair(tester)
    send(both.pub, fragments(both.pub, cut(bytes(both.push("without")), 5)))
    parts = fragments(both.pub, cut(bytes(both.push("with")), 5))
    for part in parts:
        part.extensions = [unknown(enc)]
    send(both.pub, parts)
    both.expect("PUT without=1", "PUT with=1")


@req("ZN-FRG-005")
def test_with_patch_1_a_message_begins_with_first(tester: Tester) -> None:
    both = with_markers(tester)
    send(both.pub, fragments(both.pub, cut(bytes(both.push("marked")), 5), first=True))
    both.expect("PUT marked=1")
    send(both.pub, fragments(both.pub, cut(bytes(both.push("unmarked")), 5)))
    send(both.pub, fragments(both.pub, cut(bytes(both.push("next")), 5), first=True))
    both.expect("PUT next=1")


@req("ZN-FRG-005")
def test_without_patch_fragments_need_no_first(tester: Tester) -> None:
    both = pair(tester)
    send(both.pub, fragments(both.pub, cut(bytes(both.push("unmarked")), 5)))
    both.expect("PUT unmarked=1")


@req("ZN-FRG-005")
@pytest.mark.parametrize("where", ["middle", "last"])
def test_with_patch_1_drop_takes_a_message_back(tester: Tester, where: str) -> None:
    both = with_markers(tester)
    places = (5, 10)
    send(both.pub, fragments(both.pub, cut(bytes(both.push("whole")), *places), first=True))
    dropped = fragments(both.pub, cut(bytes(both.push("dropped")), *places), first=True)
    marked = dropped[1 if where == "middle" else 2]
    marked.extensions = [Drop()]
    send(both.pub, dropped)
    send(both.pub, fragments(both.pub, cut(bytes(both.push("next")), *places), first=True))
    both.expect("PUT whole=1", "PUT next=1")


@req("ZN-FRG-103")
@pytest.mark.parametrize("patch", [0, 1], ids=["patch-0", "patch-1"])
def test_gap_in_the_numbers_loses_the_message_and_no_other(tester: Tester, patch: int) -> None:
    both = with_markers(tester) if patch else pair(tester)
    first = bool(patch)
    send(both.pub, fragments(both.pub, cut(bytes(both.push("whole")), 5), first=first))
    both.expect("PUT whole=1")
    parts = fragments(both.pub, [*cut(bytes(both.push("lost")), 5)], first=first)
    parts[1].sn = both.pub.session.take_sn()
    send(both.pub, parts)
    send(both.pub, fragments(both.pub, cut(bytes(both.push("next")), 5), first=first))
    both.expect("PUT next=1")


RUBBISH: dict[str, Callable[[Pair], bytes]] = {
    "random": lambda both: b"\x00" + both.tester.rng.randbytes(60),
    "cut PUSH": lambda both: bytes(both.push("cut"))[:-1],
    "KEEP_ALIVE": lambda _: 2 * bytes(KeepAlive()),
    "nothing": lambda _: b"",
}
"""What is no network message."""


@req("ZN-FRG-105")
@pytest.mark.parametrize("what", RUBBISH)
def test_rubbish_in_fragments_is_dropped_without_harm(tester: Tester, what: str) -> None:
    both = pair(tester)
    send(both.pub, fragments(both.pub, cut(bytes(both.push("whole")), 5)))
    both.expect("PUT whole=1")
    rubbish = RUBBISH[what](both)
    send(both.pub, fragments(both.pub, cut(rubbish, len(rubbish) // 2)))
    lives = settle(both.pub)
    if not (rubbish or lives):
        raise NotApplicable("the node refuses FRAGMENTs without bytes (reading R-63)")
    check(lives, "a session that lives on", "it ends")
    both.put("next", b"1")
    both.expect("PUT next=1")


@req("ZN-FRG-106")
@destructive
def test_unfinished_message_beyond_the_limit_is_given_up(tester_of: Callable[..., Tester]) -> None:
    tester = tester_of(transport__link__rx__max_message_size=LIMIT)
    both = pair(tester)
    for key, size in (("within", LIMIT // 2), ("beyond", 3 * LIMIT)):
        raw = bytes(blocking(both, key, bytes(size)))
        room = both.pub.session.agreed.batch_size - 64
        send(both.pub, fragments(both.pub, [raw[at : at + room] for at in range(0, len(raw), room)]))
        if key == "within":
            both.expect(f"PUT within={size} bytes")
    if settle(both.pub):
        both.put("next", b"1")
        both.expect("PUT next=1")
    else:
        both.expect()
