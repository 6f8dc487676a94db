"""Scouting: the end that asks, and the end that answers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from conformance.config import Locator
from conformance.errors import LocalError
from conformance.expect import check
from conformance.observe import Observation
from conformance.tester.hearing import Hearing
from conformance.tester.shared import Shared
from conformance.tester.steps import Answer, EndLink, Fence, Send
from conformance.tester.values import written
from scapy_layers.codes import Kind, What
from scapy_layers.message import Message
from scapy_layers.scouting import Hello, Scout

Address = tuple[str, int]

EVERYBODY = What.ROUTER | What.PEER | What.CLIENT


class DatagramEnd(Hearing):
    """An end of a datagram socket, where each message is a datagram.

    Attributes:
        locator: Where what is sent goes: a node or a group.
        sources: Where each message of the inbox came from.
    """

    def __init__(
        self, tester: Shared, locator: Locator, name: str, *, group: bool, kind: Kind | None
    ) -> None:
        super().__init__(tester, name)
        self.locator = locator
        self.sources: list[Address] = []
        self._datagrams = tester.links.datagrams(locator, name, group=group, kind=kind)
        self._datagrams.on_datagram = self._on_datagram

    @property
    def address(self) -> Address:
        """Our own host and port."""
        address: Address = self._datagrams.address
        return address

    def send(self, *messages: Message | bytes, to: Address | None = None) -> None:
        """Sends messages in one datagram.

        Args:
            messages: Messages, or bytes that stand for some.
            to: Host and port; the locator's when None.
        """
        with self._tester.doing(lambda: Send(link=self.name, messages=self.said(*messages))):
            data = b"".join(bytes(message) for message in messages)
            if to is None:
                self._datagrams.send(data)
            else:
                self._datagrams.send_to(data, to)

    def came_from(self, message: Message) -> Address:
        """Returns host and port of the sender of a message that came in.

        Raises:
            LookupError: It did not come in here.
        """
        for seen, source in zip(self.inbox, self.sources, strict=True):
            if seen.message is message:
                return source
        raise LookupError("that message did not come in at this end")

    def close(self) -> None:
        """Closes the socket."""
        with self._tester.doing(lambda: EndLink(link=self.name)):
            self._datagrams.close()

    def _on_datagram(self, seen: Observation, source: Address) -> None:
        new = self._hear(seen)
        self.sources += [source] * len(new)


class ScoutEnd(DatagramEnd):
    """Asks who is there, from a port that is in no group. Made by ``Tester.scout``."""

    def __init__(self, tester: Shared, locator: Locator, name: str) -> None:
        super().__init__(tester, locator, name, group=False, kind=Kind.SCOUTING)
        self._asker: _Asker | None = None

    def scout(self, **fields: Any) -> Scout:
        """Sends a SCOUT for all roles; fields given win. Returns it."""
        said = Scout(**{"what": EVERYBODY, **fields})
        self.send(said)
        return said

    def ping(self) -> Hello:
        """Asks from another port and waits for the answer: the node has handled all that was sent before.

        HELLO does not say to which SCOUT it belongs, so the answer must not arrive here.

        Raises:
            Unmet: No answer.
        """
        with self._tester.doing(lambda: Fence(link=self.name)):
            asker = self.ask_ping()
            hello: Hello = asker.expect(Hello)
            # What was sent to us before stands in our socket by now; the loop shall see it as well.
            self._tester.links.wait(lambda: False, 0)
            return hello

    def ask_ping(self) -> DatagramEnd:
        """Sends the SCOUT of a ping; returns the end at which the answer arrives."""
        if self._asker is None:
            self._asker = _Asker(self._tester, self.locator, f"{self.name}-ping")
        self._asker.send(Scout(what=EVERYBODY))
        return self._asker


class _Asker(DatagramEnd):
    """Asks the SCOUTs of pings."""

    def __init__(self, tester: Shared, locator: Locator, name: str) -> None:
        super().__init__(tester, locator, name, group=False, kind=Kind.SCOUTING)


class ResponderEnd(DatagramEnd):
    """Hears the SCOUTs of a group and answers them. Made by ``Tester.responder``.

    Attributes:
        zid: Our ZenohID; what HELLO leads to should have the same one.
        answer: What each SCOUT that asks for its role is answered with, at once; None: a test answers.
    """

    def __init__(self, tester: Shared, locator: Locator, name: str, zid: bytes, whatami: int) -> None:
        self.answer: Hello | bytes | None = None
        self.zid = zid
        self._whatami = whatami
        super().__init__(tester, locator, name, group=True, kind=Kind.SCOUTING)

    def hello(self, *locators: str, **fields: Any) -> Hello:
        """Returns a HELLO of ours with locators; fields given win. Without a locator L is clear."""
        said = {"locators": list(locators)} if locators else {}
        return Hello(**{"zid": self.zid, "whatami": self._whatami, **said, **fields})

    def answers(self, *locators: str, **fields: Any) -> None:
        """Answers from now on each SCOUT that asks for our role; arguments as in ``hello``."""
        self.answer = self.hello(*locators, **fields)

    def reply(self, *locators: str, to: Scout | None = None, **fields: Any) -> None:
        """Answers one SCOUT, the last one that came if none is named; other arguments as in ``hello``.

        Raises:
            LocalError: No SCOUT came.
        """
        plain = {name: written(value) for name, value in fields.items()}
        with self._tester.doing(lambda: Answer(link=self.name, locators=locators, fields=plain)):
            scout = to or self.last(Scout)
            if scout is None:
                raise LocalError("no SCOUT came that could be answered")
            self.send(self.hello(*locators, **fields), to=self.came_from(scout))

    def gaps(self) -> list[float]:
        """Returns the seconds between the SCOUTs that came."""
        stamps = [seen.time_ns for seen in self.inbox if isinstance(seen.message, Scout)]
        return [(after - before) / 1e9 for before, after in pairwise(stamps)]

    def expect_scouts(self, count: int, within: float) -> list[Scout]:
        """Waits for so many SCOUTs in all.

        Raises:
            Unmet: Fewer came.
        """

        def there() -> list[Scout]:
            return [seen.message for seen in self.inbox if isinstance(seen.message, Scout)]

        self.wait(lambda: len(there()) >= count, within)
        check(len(there()) >= count, f"{count} SCOUTs", f"{len(there())} SCOUTs")
        return there()

    def _on_datagram(self, seen: Observation, source: Address) -> None:
        super()._on_datagram(seen, source)
        for message in seen.contents.messages:
            if isinstance(message, Scout) and not message.errors and self._asked(message):
                assert self.answer is not None
                self._datagrams.send_to(bytes(self.answer), source)

    def _asked(self, scout: Scout) -> bool:
        return self.answer is not None and bool(int(scout.what) & role_bit(self._whatami))


def role_bit(whatami: int) -> int:
    """Returns the bit of SCOUT that asks for a role."""
    return 1 << whatami
