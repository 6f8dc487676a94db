"""UDP: one socket, many links."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from conformance.config import Locator
from conformance.link import Link, Links
from conformance.link.listener import DatagramListener
from tests.conformance.link._ends import Inbox, ends_of, where


@pytest.fixture
def arrived() -> list[Link]:
    return []


def listening(links: Links, arrived: list[Link], inboxes: dict[str, Inbox]) -> DatagramListener:
    def on_link(link: Link) -> None:
        arrived.append(link)
        inboxes[link.name] = Inbox().of(link)

    listener = links.listen(where("udp", Path()), on_link)
    assert isinstance(listener, DatagramListener)
    return listener


def test_each_source_is_a_link(links: Links, arrived: list[Link]) -> None:
    inboxes: dict[str, Inbox] = {}
    listener = listening(links, arrived, inboxes)
    one, other = links.connect(listener.locator, "a"), links.connect(listener.locator, "b")
    answers = Inbox().of(one), Inbox().of(other)
    one.send(b"\x04")
    other.send(b"\x03\x00")
    one.send(b"\x03\x01")
    assert links.wait(lambda: sum(len(inbox.seen) for inbox in inboxes.values()) == 3, 60)
    assert inboxes["in1"].batches == [b"\x04", b"\x03\x01"]
    assert inboxes["in2"].batches == [b"\x03\x00"]
    for link in arrived:
        link.send(link.name.encode())
    assert links.wait(lambda: all(inbox.seen for inbox in answers), 60)
    assert [inbox.batches for inbox in answers] == [[b"in1"], [b"in2"]]


def test_source_whose_link_has_ended_is_a_new_link(links: Links, arrived: list[Link]) -> None:
    listener = listening(links, arrived, {})
    near = links.connect(listener.locator, "a")
    near.send(b"\x04")
    assert links.wait(lambda: len(arrived) == 1, 60)
    arrived[0].close()
    near.send(b"\x04")
    assert links.wait(lambda: len(arrived) == 2, 60)


def test_silent_source_is_forgotten(
    links: Links, arrived: list[Link], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conformance.link.datagram.IDLE_SECONDS", 0.1)
    listener = listening(links, arrived, {})
    links.connect(listener.locator, "a").send(b"\x04")
    assert links.wait(lambda: bool(arrived), 60)
    assert links.wait(lambda: arrived[0].ended is not None, 60)
    assert arrived[0].ended == "silent for 0.1 s"


def test_further_sources_are_not_heard_when_there_are_too_many(
    links: Links, arrived: list[Link], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conformance.link.datagram.MOST_SOURCES", 2)
    listener = listening(links, arrived, {})
    for name in "abc":
        links.connect(listener.locator, name).send(b"\x04")
    assert links.wait(lambda: listener.refused == 1, 60)
    assert len(arrived) == 2


def test_nobody_there_shows_when_something_was_sent(links: Links) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    link = links.connect(Locator("udp", "127.0.0.1", port), "a")
    link.send(b"\x04")
    assert links.wait(lambda: link.ended is not None, 60)
    assert link.ended == "failed: Connection refused"


def test_batch_that_fits_no_datagram_ends_the_link_with_the_reason(links: Links, tmp_path: Path) -> None:
    ends = ends_of(links, "udp", tmp_path)
    ends.near.send(bytes(65_530))
    assert ends.near.ended == "send failed: EMSGSIZE"


def test_closing_the_listener_ends_its_links(links: Links, tmp_path: Path) -> None:
    ends = ends_of(links, "udp", tmp_path)
    ends.listener.close()
    ends.turn()
    assert ends.far_in.ends == ["closed by us"]
    ends.far.send(b"\x04")


def test_raw_bytes_are_a_datagram(links: Links, tmp_path: Path) -> None:
    ends = ends_of(links, "udp", tmp_path)
    ends.near.send_raw(b"\xff\xff")
    ends.near.send(b"\x04", prefix=2)
    ends.near.send_cut(b"\x04", [0])
    ends.near.half_close()
    ends.wait(lambda: len(ends.far_in.seen) == 3)
    assert ends.far_in.batches == [b"\xff\xff", b"\x01\x00\x04", b"\x04"]
    with pytest.raises(ValueError, match="says nothing"):
        ends.near.send(b"\x04", length=7)
