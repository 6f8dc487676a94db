"""Both ends of a link in one loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from conformance.config import Locator
from conformance.link import Link, Links, Listener
from conformance.observe import Observation

PROTOCOLS = ("tcp", "tls", "udp", "ws", "unixsock-stream")
STREAMS = ("tcp", "tls", "ws", "unixsock-stream")


def where(proto: str, folder: Path) -> Locator:
    if proto == "unixsock-stream":
        return Locator(proto, "", 0, str(folder / "socket"))
    return Locator(proto, "localhost" if proto == "tls" else "127.0.0.1", 0)


@dataclass
class Inbox:
    """What came in on a link, and how it ended."""

    seen: list[Observation] = field(default_factory=list)
    ends: list[str | None] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def of(self, link: Link) -> Inbox:
        link.on_batch = self.seen.append
        link.on_end = lambda ended: self.ends.append(ended.ended)
        link.on_refused = lambda _, why: self.refused.append(why)
        return self

    @property
    def batches(self) -> list[bytes]:
        return [seen.batch for seen in self.seen]


@dataclass
class Ends:
    """The end that connected and the one that accepted."""

    links: Links
    listener: Listener
    near: Link
    far: Link
    near_in: Inbox
    far_in: Inbox

    def wait(self, until: Callable[[], object], seconds: float = 5) -> None:
        assert self.links.wait(lambda: bool(until()), seconds), "not in time"

    def turn(self) -> None:
        self.links.wait(lambda: False, 0)


def ends_of(links: Links, proto: str, folder: Path) -> Ends:
    """Connects one end to the other. On udp the far end is made by a first, empty datagram."""
    arrived: list[Link] = []
    inbox = Inbox()

    def on_link(link: Link) -> None:
        arrived.append(link)
        inbox.of(link)

    listener = links.listen(where(proto, folder), on_link)
    near = links.connect(listener.locator, "a")
    if proto == "udp":
        near.send(b"")
    assert links.wait(lambda: bool(arrived), 5)
    ends = Ends(links, listener, near, arrived[0], Inbox().of(near), inbox)
    if proto == "udp":
        ends.wait(lambda: inbox.seen)
        inbox.seen.clear()
    return ends
