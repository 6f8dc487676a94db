"""Our end of a multicast group: JOIN instead of a handshake, one sender, many members."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from conformance.config import Locator
from conformance.errors import Unmet
from conformance.expect import check
from conformance.observe import Observation, Seen
from conformance.session.events import Joined, Left, Received
from conformance.session.group import Group
from conformance.tester.aliases import learn, resolved
from conformance.tester.bending import Bend, Bending
from conformance.tester.bends import changed
from conformance.tester.scout import Address, DatagramEnd
from conformance.tester.shared import Shared, bend_step
from conformance.tester.steps import Close as CloseStep
from conformance.tester.steps import Handshake, Post
from conformance.tester.values import written
from scapy_layers.data import Put
from scapy_layers.extensions import QoS
from scapy_layers.message import Message
from scapy_layers.network import Declare, Push
from scapy_layers.transport import Fragment, Join


class GroupEnd(DatagramEnd):
    """Our end of a multicast group. Made by ``Tester.group``.

    Attributes:
        group: The machine.
        left: Members that are gone, and why.
        on_send: Bends of this end, behind those of the tester.
    """

    def __init__(self, tester: Shared, locator: Locator, name: str, group: Group) -> None:
        super().__init__(tester, locator, name, group=True, kind=None)
        self.group = group
        self.left: list[Left] = []
        self.on_send: list[Bend] = []
        self._bending = Bending(tester.rng)
        self._first: list[Bend] = []
        self._ours: dict[int, str] = {}
        self._theirs: dict[Address, dict[int, str]] = {}
        self._ticker = tester.links.every(self._tick)

    @property
    def members(self) -> dict[bytes, Joined]:
        """Who is in the group, by ZenohID."""
        return {member.zid: member for member in self.group.members}

    def join(self, **fields: Any) -> None:
        """Announces us; again before our lease is over. Fields given win in this first JOIN.

        Raises:
            LocalError: We joined before.
        """
        plain = {name: written(value) for name, value in fields.items()}
        with self._tester.doing(lambda: Handshake(link=self.name, part="join", fields=plain)):
            self.group.join(time.monotonic())
            self._first = [changed(Join, **fields)] if fields else []
            self.flush()
            self._first = []

    def expect_member(self, zid: bytes | None = None, *, within: float | None = None) -> Joined:
        """Waits until a node is in the group.

        Args:
            zid: Which; any when None.
            within: Seconds; T1 when None.

        Raises:
            Unmet: It does not come.
        """
        seconds = self._tester.reply if within is None else within

        def there() -> Joined | None:
            members = self.members
            return next(iter(members.values()), None) if zid is None else members.get(zid)

        self.wait(lambda: there() is not None, seconds)
        found = there()
        if found is None:
            raise Unmet("a member of the group", "no JOIN that can be accepted")
        self._tester.history.annotate("expected a member of the group: met")
        return found

    def expect_left(self, zid: bytes, *, within: float | None = None) -> Left:
        """Waits until a member is gone.

        Raises:
            Unmet: It stays.
        """
        seconds = self._tester.reply if within is None else within

        def gone() -> Left | None:
            return next((one for one in self.left if one.zid == zid), None)

        self.wait(lambda: gone() is not None, seconds)
        found = gone()
        check(found is not None, "the member leaves", "it stays")
        assert found is not None
        return found

    def post(self, *messages: Message, reliable: bool = True, priority: int | None = None) -> None:
        """Sends network messages to the group, each in a FRAME of its own.

        Raises:
            LocalError: We have not joined.
        """
        with self._tester.doing(
            lambda: Post(link=self.name, messages=self.said(*messages), reliable=reliable, priority=priority)
        ):
            lane = {} if priority is None else {"priority": priority}
            for message in messages:
                self.group.send(message, reliable=reliable, **lane)
                if isinstance(message, Declare):
                    learn(message.body, self._ours)
            self.flush()

    def put(self, key: str, data: bytes = b"", **fields: Any) -> None:
        """Publishes a value that may not be dropped, unless other extensions are given."""
        fields = {"extensions": [QoS(D=1)], **fields}
        self.post(Push(key_suffix=key, body=Put(data=data), **fields))

    def bend(self, *bends: Bend) -> None:
        """Bends from now on what this end sends."""
        for bend in bends:
            with self._tester.doing(lambda bend=bend: bend_step(bend, self.name)):  # type: ignore[misc]
                self.on_send.append(bend)

    def leave(self, reason: int = 0) -> None:
        """Sends CLOSE; the socket stays."""
        with self._tester.doing(lambda: Handshake(link=self.name, part="leave", fields={"reason": reason})):
            self.group.leave(reason)
            self.flush()

    def close(self, reason: int = 0) -> None:
        """Sends CLOSE and closes the socket."""
        with self._tester.doing(lambda: CloseStep(link=self.name, reason=reason)):
            self.group.leave(reason)
            self.flush()
            self._datagrams.close()

    def key(self, message: Message) -> str:
        """Returns the full key expression of a message, aliases of its sender resolved."""
        theirs = bool(message.value("M"))
        return resolved(message, self._theirs.get(self._source_of(message), {}) if theirs else self._ours)

    def flush(self) -> None:
        """Sends what the machine wants to send, bent where the tester says so."""
        now = time.monotonic()
        bends = [*self._first, *self._tester.on_send, *self.on_send]
        for unit in self.group.units_to_send(now):
            if not bends:
                self._datagrams.send(unit.raw)
                continue
            for message in unit.messages:
                self._leave(self._bending.out(message, bends))
        if bends:
            self._leave(self._bending.freed(now, bends))

    def _leave(self, items: Iterable[Message | bytes]) -> None:
        for item in items:
            self._datagrams.send(bytes(item))
        for words in self._bending.done:
            self._tester.history.annotate(f"bend on {self.name}: {words}")
        self._bending.done.clear()

    def _source_of(self, message: Message) -> Address:
        for seen, source in zip(reversed(self.inbox), reversed(self.sources), strict=True):
            if seen.message is message:
                return source
        return ("", 0)

    def _tick(self, now: float) -> float | None:
        if self._datagrams.ended is not None:
            self._ticker.cancel()
            return None
        self._noting(self.group.tick(now))
        self.flush()
        due = self._bending.due([*self._tester.on_send, *self.on_send])
        deadline = self.group.next_deadline()
        return min(due, deadline) if due is not None and deadline is not None else due or deadline

    def _on_datagram(self, seen: Observation, source: Address) -> None:
        before = len(self.inbox)
        super()._on_datagram(seen, source)
        new = self.inbox[before:]
        here = {bytes(item.message.original) for item in new}
        fragment = next((one.message for one in new if isinstance(one.message, Fragment)), None)
        for event in self._noting(self.group.receive(seen.batch, source, time.monotonic())):
            # Messages in a FRAME are in the inbox already; those that FRAGMENTs made whole are not.
            if fragment and isinstance(event, Received) and bytes(event.message.original) not in here:
                whole = Seen(event.message, fragment, seen.seq, seen.time_ns, len(seen.batch))
                self.inbox.append(whole)
                self.sources.append(source)
                new.append(whole)
        for item in new:
            if isinstance(item.message, Declare):
                learn(item.message.body, self._theirs.setdefault(source, {}))
        self.flush()

    def _noting(self, events: list[Any]) -> list[Any]:
        self.left += [event for event in events if isinstance(event, Left)]
        return events
