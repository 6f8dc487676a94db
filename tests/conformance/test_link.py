"""Links over real sockets on loopback."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator

import pytest

from conformance.config import Locator
from conformance.errors import LinkFailed
from conformance.link import Link, Links
from conformance.observe import Direction, History, Observation
from scapy_layers.batch import prefixed
from scapy_layers.transport import Close, Fragment, KeepAlive


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(5)
        yield listening


@pytest.fixture
def links() -> Iterator[Links]:
    made = Links(History())
    yield made
    made.close()


@pytest.fixture
def ends(server: socket.socket, links: Links) -> Iterator[tuple[Link, socket.socket]]:
    link = links.connect(Locator("tcp", "127.0.0.1", server.getsockname()[1]), "a")
    other, _ = server.accept()
    other.settimeout(5)
    with other:
        yield link, other


def observations(links: Links) -> list[Observation]:
    assert links.history is not None
    return links.history.observations


def batches(links: Links) -> list[bytes]:
    return [seen.batch for seen in observations(links) if seen.direction is Direction.RECEIVED]


def test_batch_arrives_with_its_length_in_front(ends: tuple[Link, socket.socket]) -> None:
    link, other = ends
    link.send(b"\x04")
    assert other.recv(10) == b"\x01\x00\x04"


def test_length_that_lies_is_sent_as_given(ends: tuple[Link, socket.socket]) -> None:
    link, other = ends
    link.send(b"\x04", length=7)
    assert other.recv(10) == b"\x07\x00\x04"


def test_batches_are_found_however_the_stream_is_cut(ends: tuple[Link, socket.socket], links: Links) -> None:
    _, other = ends
    wanted = [bytes(KeepAlive()), b"", bytes(Close(reason=1)) * 100]
    for byte in b"".join(map(prefixed, wanted)):
        other.sendall(bytes([byte]))
        links.wait(lambda: False, 0)
    assert links.wait(lambda: len(batches(links)) == 3, 5)
    assert batches(links) == wanted


def test_end_of_stream_is_recorded_with_the_unfinished_batch(
    ends: tuple[Link, socket.socket], links: Links
) -> None:
    link, other = ends
    other.sendall(b"\x05\x00\x04")
    other.close()
    assert links.wait(lambda: link.ended is not None, 5)
    assert link.ended == "end of stream"
    *_, unfinished, ended = observations(links)
    assert (unfinished.raw, unfinished.note) == (b"\x05\x00\x04", "an unfinished batch")
    assert ended.direction is Direction.ENDED


def test_reset_is_told_from_an_orderly_end(ends: tuple[Link, socket.socket], links: Links) -> None:
    link, other = ends
    other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    other.close()
    assert links.wait(lambda: link.ended is not None, 5)
    assert link.ended == "reset by the node"


def test_what_came_before_a_failed_send_is_still_read(ends: tuple[Link, socket.socket], links: Links) -> None:
    link, other = ends
    other.sendall(prefixed(bytes(Close(reason=2))))
    other.close()
    for _ in range(3):
        if link.ended is None:
            link.send(bytes(KeepAlive()))
    links.wait(lambda: link.ended is not None, 5)
    assert batches(links) == [bytes(Close(reason=2))]


def test_large_batches_cross_while_both_sides_send(ends: tuple[Link, socket.socket], links: Links) -> None:
    link, other = ends
    other.setblocking(False)
    big = bytes(Fragment(data=bytes(60_000)))
    for _ in range(100):
        link.send(big)
    received = 0

    def all_there() -> bool:
        nonlocal received
        with contextlib.suppress(BlockingIOError):
            received += len(other.recv(1 << 20))
        return received == 100 * (len(big) + 2)

    while not all_there():
        links.wait(lambda: False, 0)
    assert not link.sending


def test_nobody_listening_is_a_link_failure_in_one_line(links: Links) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(LinkFailed, match=r"Connection refused.*is a node listening there") as caught:
            links.connect(Locator("tcp", "127.0.0.1", taken.getsockname()[1]), "a")
    assert "\n" not in str(caught.value)


def test_waiting_ends_at_its_bound_and_serves_timers(links: Links) -> None:
    calls: list[float] = []

    def timer(now: float) -> float | None:
        calls.append(now)
        return now + 0.001 if len(calls) < 5 else None

    links.every(timer)
    assert not links.wait(lambda: False, 0.05)
    assert links.wait(lambda: len(calls) >= 5, 10)


def test_sending_on_an_ended_link_does_nothing(ends: tuple[Link, socket.socket]) -> None:
    link, _ = ends
    link.close()
    link.send(b"\x04")
    link.close()
    assert link.ended == "closed by us"
