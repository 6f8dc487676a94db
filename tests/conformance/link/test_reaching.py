"""Links that are made without waiting."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conformance.config import Locator, Tls
from conformance.errors import UsageError
from conformance.link import Link, Links

REPLY = 10.0


@pytest.fixture
def links() -> Iterator[Links]:
    made = Links(None)
    yield made
    made.close()


@contextmanager
def full() -> Iterator[int]:
    """A port whose system answers nobody, because its queue is full."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        port = listening.getsockname()[1]
        waiting = []
        try:
            for _ in range(4):
                one = socket.socket()
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", port))
                waiting.append(one)
            yield port
        finally:
            for one in waiting:
                one.close()


class Heard:
    def __init__(self) -> None:
        self.made: list[Link] = []
        self.failed: list[str] = []

    def done(self) -> bool:
        return bool(self.made or self.failed)


def reach(links: Links, text: str, seconds: float = REPLY) -> Heard:
    heard = Heard()
    links.reach(Locator.parse(text), "a", heard.made.append, heard.failed.append, seconds)
    assert not heard.done(), "nobody is called before the loop runs"
    return heard


@pytest.mark.parametrize("proto", ["tcp", "udp", "ws", "unixsock-stream"])
def test_link_carries_batches_both_ways(links: Links, proto: str, tmp_path: Path) -> None:
    where = f"{proto}/{tmp_path}/a.sock" if proto == "unixsock-stream" else f"{proto}/127.0.0.1:0"
    came: list[bytes] = []

    def arrived(link: Link) -> None:
        link.on_batch = lambda seen: link.send(seen.batch[::-1])

    listener = links.listen(Locator.parse(where, listening=True), arrived)
    heard = reach(links, str(listener.locator))
    assert links.wait(heard.done, REPLY)
    (link,) = heard.made
    link.on_batch = lambda seen: came.append(seen.batch)
    link.send(b"abc")
    assert links.wait(lambda: bool(came), REPLY)
    assert came == [b"cba"]


def test_nobody_there_is_told(links: Links) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        heard = reach(links, f"tcp/127.0.0.1:{port}")
        assert links.wait(heard.done, REPLY)
    assert heard.failed == [
        f"no link to tcp/127.0.0.1:{port} (Connection refused); is a node listening there?"
    ]


def test_one_that_does_not_answer_keeps_nobody_waiting(links: Links) -> None:
    came: list[Link] = []
    listener = links.listen(Locator.parse("tcp/127.0.0.1:0", listening=True), came.append)
    with full() as port:
        slow = reach(links, f"tcp/127.0.0.1:{port}", 0.5)
        quick = reach(links, str(listener.locator))
        assert links.wait(quick.done, REPLY)
        assert not slow.done()
        assert links.wait(slow.done, REPLY)
    assert slow.failed == [f"no link to tcp/127.0.0.1:{port} (no answer in time); is a node listening there?"]
    assert quick.made


def test_many_handshakes_that_stop_do_not_wait_for_each_other(links: Links) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as mute:
        port = mute.getsockname()[1]
        heard = [reach(links, f"ws/127.0.0.1:{port}", 0.5) for _ in range(300)]
        assert links.wait(lambda: all(one.done() for one in heard), REPLY)
    assert {len(one.failed) for one in heard} == {1}


def test_other_protocol_behind_the_port_is_told(links: Links) -> None:
    listener = links.listen(Locator.parse("tcp/127.0.0.1:0", listening=True), lambda link: link.close())
    heard = reach(links, f"ws/127.0.0.1:{listener.locator.port}")
    assert links.wait(heard.done, REPLY)
    assert "does it speak ws?" in heard.failed[0]


def test_missing_certificate_is_told_at_once() -> None:
    made = Links(None, Tls())
    with pytest.raises(UsageError):
        made.listen(Locator.parse("tls/localhost:0", listening=True), lambda _: None)
    made.close()


@pytest.mark.parametrize("when", ["at once", "under way"])
def test_cancelled_attempt_calls_nobody_and_leaves_nothing(links: Links, when: str) -> None:
    heard = Heard()
    with full() as port:
        reaching = links.reach(
            Locator.parse(f"tcp/127.0.0.1:{port}"), "a", heard.made.append, heard.failed.append, 0.2
        )
        assert reaching is not None
        if when == "under way":
            links.wait(lambda: False, 0.05)
        reaching.cancel()
        links.wait(lambda: False, 0.3)
    assert not heard.done()
    assert not links.leftovers
