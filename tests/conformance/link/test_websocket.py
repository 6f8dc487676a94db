"""WebSocket: frames, control frames, and what is no batch."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.frames import CloseCode, Frame, Opcode

from conformance.config import Locator
from conformance.errors import LinkFailed
from conformance.link import Link, Links
from conformance.link.stream import MOST_WAITING
from conformance.observe import Direction
from scapy_layers import websocket
from tests.conformance.link._ends import Ends, Inbox, ends_of, where


@pytest.fixture
def ends(links: Links, tmp_path: Path) -> Ends:
    return ends_of(links, "ws", tmp_path)


@pytest.fixture
def plain(links: Links, tmp_path: Path) -> Iterator[tuple[socket.socket, list[Link], Inbox, Links]]:
    """A bare socket to a WebSocket listener."""
    arrived: list[Link] = []
    inbox = Inbox()

    def on_link(link: Link) -> None:
        arrived.append(link)
        inbox.of(link)

    listener = links.listen(where("ws", tmp_path), on_link)
    with socket.create_connection(("127.0.0.1", listener.locator.port)) as other:
        other.settimeout(5)
        yield other, arrived, inbox, links


def masked(opcode: Opcode, data: bytes, *, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=True)


def test_batch_in_several_frames_is_one_batch(ends: Ends) -> None:
    ends.near.send_cut(b"\x04\x03\x00", [1, 2])
    ends.wait(lambda: ends.far_in.seen)
    assert ends.far_in.batches == [b"\x04\x03\x00"]
    raw, at, firsts = ends.far_in.seen[0].raw, 0, []
    while at < len(raw):
        frame = websocket.frame(raw, at)
        assert frame is not None
        firsts.append(frame.first)
        at = frame.end
    assert firsts == [0x02, 0x00, 0x80]


def test_frame_made_by_hand_leaves_as_it_is(ends: Ends) -> None:
    ends.near.send_raw(masked(Opcode.BINARY, b"\x04"))
    ends.wait(lambda: ends.far_in.seen)
    assert ends.far_in.batches == [b"\x04"]


def test_length_of_the_frame_may_lie(ends: Ends) -> None:
    ends.near.send(b"\x04", length=3)
    ends.turn()
    assert ends.far_in.seen == []
    ends.near.send_raw(b"\x04\x04")
    ends.wait(lambda: ends.far_in.seen)
    assert ends.far_in.batches == [b"\x04\x04\x04"]


@pytest.mark.parametrize("size", [125, 126, 65_535, 65_536])
def test_lie_about_any_size_is_a_frame(ends: Ends, size: int) -> None:
    ends.far.limit = 1 << 20
    ends.near.send(bytes(size), length=size)
    ends.wait(lambda: ends.far_in.seen)
    assert len(ends.far_in.batches[0]) == size


def test_length_prefix_that_somebody_wants_stands_inside_the_message(ends: Ends) -> None:
    ends.near.send(b"\x04", prefix=2)
    ends.wait(lambda: ends.far_in.seen)
    assert ends.far_in.batches == [b"\x01\x00\x04"]


def test_ping_between_two_frames_of_a_batch_is_answered(ends: Ends) -> None:
    ends.near.send_raw(masked(Opcode.BINARY, b"\x04", fin=False) + masked(Opcode.PING, b"hello"))
    ends.near.send_raw(masked(Opcode.CONT, b"\x04"))
    history = ends.links.history
    assert history is not None
    ends.wait(
        lambda: any(
            seen.link == "a" and seen.direction is Direction.RECEIVED and seen.note == "WebSocket PONG"
            for seen in history.observations
        )
    )
    assert ends.far_in.batches == [b"\x04\x04"]


def test_who_pings_and_does_not_read_gets_no_more_answers(ends: Ends) -> None:
    ends.links.watch(ends.near, writing=False, reading=False)
    ping = masked(Opcode.PING, bytes(125))
    for _ in range(200):
        ends.near.send_raw(ping * 500)
        ends.turn()
    ends.near.send(b"\x04")
    ends.wait(lambda: ends.far_in.seen, 20)
    assert ends.far.waiting < 2 * MOST_WAITING


def test_text_is_refused_with_the_code_for_it(ends: Ends) -> None:
    ends.near.send_raw(masked(Opcode.TEXT, b"hello"))
    ends.wait(lambda: ends.far_in.ends and ends.near_in.ends)
    assert ends.far_in.ends == ["refused: a text message, where a batch is a binary one"]
    assert ends.near_in.ends == [f"end of stream (WebSocket CLOSE {CloseCode.UNSUPPORTED_DATA.value})"]


def test_frame_that_breaks_the_rules_ends_the_link_behind_what_came_before(ends: Ends) -> None:
    ends.near.send(b"\x04")
    ends.near.send_raw(b"\xff\xff\xff")
    ends.wait(lambda: ends.far_in.ends)
    assert ends.far_in.batches == [b"\x04"]
    assert str(ends.far_in.ends[0]).startswith("refused: WebSocket: ")


def test_message_of_gigabytes_is_refused_unread(ends: Ends) -> None:
    ends.near.send(b"\x04", length=1 << 40)
    ends.wait(lambda: ends.far_in.ends)
    assert ends.far_in.refused == ["batch length: a message above 1048576 bytes"]


def test_farewell_is_answered(ends: Ends) -> None:
    ends.near.half_close()
    ends.wait(lambda: ends.far_in.ends and ends.near_in.ends)
    assert ends.far_in.ends == ["end of stream (WebSocket CLOSE 1000)"]
    assert ends.near_in.ends == ["end of stream (WebSocket CLOSE 1000)"]


def test_whole_stream_stands_in_the_history(ends: Ends) -> None:
    ends.near.send(b"\x04")
    ends.wait(lambda: ends.far_in.seen)
    ends.near.close()
    ends.wait(lambda: ends.far_in.ends)
    history = ends.links.history
    assert history is not None

    def stream(link: str, direction: Direction) -> bytes:
        return b"".join(
            seen.raw for seen in history.observations if seen.link == link and seen.direction is direction
        )

    assert stream("a", Direction.SENT) == stream("in1", Direction.RECEIVED)
    # The answer to the farewell is not read any more.
    assert stream("in1", Direction.SENT).startswith(stream("a", Direction.RECEIVED))
    assert stream("a", Direction.SENT).startswith(b"GET / HTTP/1.1\r\n")


@pytest.mark.parametrize(
    "said",
    [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x01\x00\x04" * 10 + b"\r\n", b"GET / HTTP/1.1\r\n" * 5000],
)
def test_request_for_something_else_is_turned_down(
    plain: tuple[socket.socket, list[Link], Inbox, Links], said: bytes
) -> None:
    other, arrived, _, links = plain
    other.sendall(said)
    assert links.wait(lambda: bool(links.links), 60)
    assert links.wait(lambda: not links.links, 60)
    assert arrived == []


def test_node_that_does_not_upgrade_is_told_in_one_line(links: Links) -> None:
    answered = links.listen(
        where("tcp", Path()),
        lambda link: link.send_raw(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
    )
    with pytest.raises(LinkFailed, match=r"no upgrade to WebSocket.*404.*does it speak ws"):
        links.connect(Locator("ws", "127.0.0.1", answered.locator.port), "a")
