"""What holds on every kind of link."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.config import Locator
from conformance.errors import LinkFailed
from conformance.link import Link, Links
from conformance.observe import Direction
from scapy_layers.errors import BadValue
from scapy_layers.transport import Close, KeepAlive
from tests.conformance.link._ends import PROTOCOLS, STREAMS, Ends, Inbox, ends_of, where

PREFIXED = ("tcp", "tls", "unixsock-stream")


def test_batches_arrive_in_both_directions_as_they_were_sent(ends: Ends) -> None:
    there = [bytes(KeepAlive()), b"", bytes(Close(reason=1)) * 100]
    back = [bytes(Close(reason=3)), bytes(60_000)]
    for batch in there:
        ends.near.send(batch)
    for batch in back:
        ends.far.send(batch)
    ends.wait(lambda: len(ends.far_in.seen) == 3 and len(ends.near_in.seen) == 2)
    assert ends.far_in.batches == there
    assert ends.near_in.batches == back


def test_history_has_both_directions_with_the_bytes_that_travelled(ends: Ends) -> None:
    history = ends.links.history
    assert history is not None
    ends.near.send(b"\x04", note="a word")
    ends.wait(lambda: ends.far_in.seen)
    sent = [seen for seen in history.observations if seen.link == "a" and seen.direction is Direction.SENT][
        -1
    ]
    (came,) = ends.far_in.seen
    assert (sent.batch, sent.note, sent.raw) == (b"\x04", "a word", came.raw)
    assert [message.name for message in came.contents.messages] == ["KEEP_ALIVE"]
    if ends.near.streamed:
        assert came.raw == b"\x01\x00\x04"
    assert (
        history.endpoints["a"].local == history.endpoints["in1"].remote or "unix" in ends.near.locator.proto
    )
    assert history.endpoints["in1"].accepted


@pytest.mark.parametrize("proto", PROTOCOLS)
def test_without_a_history_only_what_comes_in_is_made(silent: Links, proto: str, tmp_path: Path) -> None:
    ends = ends_of(silent, proto, tmp_path)
    ends.near.send(b"\x04")
    ends.wait(lambda: ends.far_in.seen)
    (seen,) = ends.far_in.seen
    assert (seen.batch, seen.raw, seen.link) == (b"\x04", b"", "in1")
    assert seen.contents.names == "KEEP_ALIVE"


def test_end_is_told_once_to_both_owners_and_from_the_loop(ends: Ends) -> None:
    ends.near.close()
    assert ends.near_in.ends == []
    ends.turn()
    assert ends.near_in.ends == ["closed by us"]
    if ends.near.locator.proto != "udp":
        ends.wait(lambda: ends.far_in.ends)
        assert str(ends.far_in.ends[0]).startswith("end of stream")
        assert "without" not in str(ends.far_in.ends[0])
    ends.near.close()
    ends.near.abort()
    ends.turn()
    assert ends.near_in.ends == ["closed by us"]
    assert ends.near not in ends.links.links


def test_abort_is_told_from_an_orderly_end(stream: Ends) -> None:
    stream.near.abort()
    stream.wait(lambda: stream.far_in.ends)
    if stream.near.locator.proto == "unixsock-stream":
        assert stream.far_in.ends == ["end of stream"]
    else:
        assert stream.far_in.ends == ["reset by the node"]


@pytest.mark.parametrize("proto", PREFIXED)
def test_prefix_changes_between_two_batches_of_one_segment(links: Links, proto: str, tmp_path: Path) -> None:
    ends = ends_of(links, proto, tmp_path)
    keep = ends.far.on_batch

    def on_batch(seen: object) -> None:
        assert keep is not None
        keep(seen)  # type: ignore[arg-type]
        ends.far.prefix = {1: 4, 2: 2}.get(len(ends.far_in.seen), 2)

    ends.far.on_batch = on_batch
    ends.near.send_raw(b"\x01\x00\x04" + b"\x02\x00\x00\x00\x03\x00" + b"\x01\x00\x04")
    ends.wait(lambda: len(ends.far_in.seen) == 3)
    assert ends.far_in.batches == [b"\x04", b"\x03\x00", b"\x04"]
    assert ends.far_in.seen[1].raw == b"\x02\x00\x00\x00\x03\x00"
    ends.far.send(b"\x04", prefix=4)
    ends.near.prefix = 4
    ends.wait(lambda: ends.near_in.seen)


@pytest.mark.parametrize("proto", PREFIXED)
def test_length_that_lies_holds_the_batch_back_until_the_bytes_are_there(
    links: Links, proto: str, tmp_path: Path
) -> None:
    ends = ends_of(links, proto, tmp_path)
    ends.near.send(b"\x04", length=3)
    ends.turn()
    assert ends.far_in.seen == []
    ends.near.send_raw(b"\x04\x04")
    ends.wait(lambda: ends.far_in.seen)
    assert ends.far_in.batches == [b"\x04\x04\x04"]


def test_batch_above_the_limit_ends_the_link_with_the_reason(ends: Ends) -> None:
    ends.far.limit = 100
    ends.near.send(bytes(100))
    ends.near.send(bytes(101))
    ends.wait(lambda: ends.far_in.ends)
    assert [len(batch) for batch in ends.far_in.batches] == [100]
    assert ends.far_in.refused == ["batch length: 101 bytes, at most 100"]
    assert ends.far_in.ends == ["refused: batch length: 101 bytes, at most 100"]


def test_last_word_of_a_link_that_refuses_still_arrives(stream: Ends) -> None:
    stream.far.limit = 100
    stream.far.on_refused = lambda link, _: link.send(bytes(Close(reason=2)))
    stream.near.send(bytes(101))
    stream.wait(lambda: stream.near_in.ends)
    assert stream.near_in.batches == [bytes(Close(reason=2))]


def test_what_is_held_back_leaves_when_it_is_released(ends: Ends) -> None:
    udp = ends.near.locator.proto == "udp"
    ends.near.hold()
    ends.near.send(b"\x04")
    ends.near.send(b"\x03\x00")
    ends.turn()
    waiting = ends.near.waiting
    assert waiting >= 3
    assert ends.near.sending
    ends.near.release(1)
    assert ends.near.waiting == (2 if udp else waiting - 1)
    ends.turn()
    assert len(ends.far_in.seen) == (1 if udp else 0)
    ends.near.release()
    ends.wait(lambda: len(ends.far_in.seen) == 2)
    assert not ends.near.sending


def test_what_is_held_back_when_a_link_is_closed_never_leaves(ends: Ends) -> None:
    ends.near.hold()
    ends.near.send(b"\x04")
    ends.near.release(0 if ends.near.locator.proto == "udp" else 2)
    ends.near.close()
    if ends.near.locator.proto == "udp":
        ends.turn()
    else:
        ends.wait(lambda: ends.far_in.ends)
    assert ends.far_in.seen == []


def test_bytes_cut_into_single_ones_arrive_whole(stream: Ends) -> None:
    stream.near.chunk = lambda: 1
    stream.near.send(b"\x04")
    stream.near.send(bytes(Close(reason=1)) * 50)
    stream.wait(lambda: len(stream.far_in.seen) == 2)


def test_other_end_that_does_not_read_is_seen_and_reading_goes_on(stream: Ends) -> None:
    far_read, stream.far.on_batch = stream.far.on_batch, None
    stream.links.watch(stream.far, writing=False, reading=False)
    for _ in range(300):
        stream.near.send(bytes(60_000))
    assert stream.near.waiting > 1_000_000
    stream.far.send(b"\x04")
    stream.wait(lambda: stream.near_in.seen)
    stream.far.on_batch = far_read
    stream.links.watch(stream.far, writing=False)
    stream.wait(lambda: len(stream.far_in.seen) == 300, 20)
    assert stream.near.waiting == 0


def test_what_waits_when_a_link_is_closed_still_arrives(
    stream: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The other end reads, as slowly as the machine lets it.
    monkeypatch.setattr("conformance.link.stream.FAREWELL_SECONDS", 60.0)
    stream.links.watch(stream.far, writing=False, reading=False)
    for _ in range(300):
        stream.near.send(bytes(60_000))
    stream.near.close()
    assert stream.near.ended == "closed by us"
    stream.links.watch(stream.far, writing=False)
    stream.wait(lambda: stream.far_in.ends, 60)
    assert len(stream.far_in.seen) == 300


def test_closing_with_unread_bytes_is_no_reset(stream: Ends) -> None:
    stream.links.watch(stream.near, writing=False, reading=False)
    stream.far.send(bytes(60_000))
    stream.turn()
    stream.near.send(bytes(Close(reason=0)))
    stream.near.close()
    stream.wait(lambda: stream.far_in.ends)
    assert stream.far_in.batches == [bytes(Close(reason=0))]
    assert str(stream.far_in.ends[0]).startswith("end of stream")


def test_compression_is_taken_off_before_a_batch_is_taken_apart(ends: Ends) -> None:
    ends.far.unwrap = lambda batch: batch[1:]
    ends.near.send(b"\x00\x04", plain=b"\x04")
    ends.wait(lambda: ends.far_in.seen)
    (seen,) = ends.far_in.seen
    assert (seen.batch, seen.plain, seen.contents.names) == (b"\x00\x04", b"\x04", "KEEP_ALIVE")
    assert ends.links.history is not None
    sent = [seen for seen in ends.links.history.observations if seen.direction is Direction.SENT][-1]
    assert sent.contents.names == "KEEP_ALIVE"


def test_batch_that_cannot_be_unwrapped_is_handed_over_with_the_error(ends: Ends) -> None:
    def unwrap(_: bytes) -> bytes:
        raise BadValue("compression", "a broken block")

    ends.far.unwrap = unwrap
    ends.near.send(b"\x01\x04")
    ends.wait(lambda: ends.far_in.seen)
    inside = ends.far_in.seen[0].contents
    assert (inside.messages, inside.rest) == ((), b"\x01\x04")
    assert isinstance(inside.error, BadValue)


def test_sending_on_an_ended_link_is_noted_as_not_sent(ends: Ends) -> None:
    ends.near.close()
    ends.near.send(b"\x04", note="late")
    assert ends.links.history is not None
    assert ends.links.history.observations[-1].note == "late; not sent: the link has ended"


@pytest.mark.parametrize("proto", STREAMS)
def test_nobody_there_is_told_in_one_line(links: Links, proto: str, tmp_path: Path) -> None:
    listener = links.listen(where(proto, tmp_path), lambda _: None)
    listener.close()
    with pytest.raises(LinkFailed, match="is a node listening there") as caught:
        links.connect(listener.locator, "a")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("proto", PROTOCOLS)
def test_address_in_use_is_told_in_one_line(links: Links, proto: str, tmp_path: Path) -> None:
    listener = links.listen(where(proto, tmp_path), lambda _: None)
    with pytest.raises(LinkFailed, match=r"cannot listen on .*Address already in use"):
        links.listen(listener.locator, lambda _: None)


@pytest.mark.parametrize("proto", ["tcp", "udp", "ws"])
def test_ipv6_works_like_ipv4(links: Links, proto: str) -> None:
    arrived: list[Link] = []
    inbox = Inbox()

    def on_link(link: Link) -> None:
        arrived.append(link)
        inbox.of(link)

    try:
        listener = links.listen(Locator(proto, "::1", 0), on_link)
    except LinkFailed as error:
        pytest.skip(str(error))
    near = links.connect(listener.locator, "a")
    near.send(b"\x04")
    assert links.wait(lambda: bool(inbox.seen), 5)
    assert str(arrived[0].locator).startswith(f"{proto}/[::1]:")


@pytest.mark.parametrize(
    "wrong", [lambda link: link.send(bytes(70_000)), lambda link: link.send(b"", length=-1)]
)
def test_length_that_cannot_be_said_is_refused_here(links: Links, wrong: Callable[[Link], None]) -> None:
    ends = ends_of(links, "tcp", Path())
    with pytest.raises(ValueError, match="can say at most"):
        wrong(ends.near)
