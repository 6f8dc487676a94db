"""Our end: a link and a session, every step of it bendable."""

from __future__ import annotations

import math
import random
import string
import time
from collections.abc import Callable
from typing import Any

from conformance.config import REPLY_SECONDS, Locator
from conformance.errors import HarnessError, LinkFailed, LocalError, Unmet
from conformance.expect import check, field, fits, judge, what_came, words
from conformance.link import Link, Links
from conformance.observe import History, Observation, Seen
from conformance.session.events import Closed, Event, Opened, Received
from conformance.session.machine import Session, SessionConfig
from conformance.session.negotiate import Offer
from conformance.session.policy import Policy
from conformance.session.states import State
from scapy_layers.codes import WhatAmI
from scapy_layers.data import Put, Query
from scapy_layers.declarations import DeclareKeyExpr, DeclareQueryable, DeclareSubscriber
from scapy_layers.extensions import QueryableInfo
from scapy_layers.message import Message
from scapy_layers.network import Declare, Push, Request, ResponseFinal
from scapy_layers.transport import Close, Fragment, Init, Open

Bend = Callable[[Message], Message | bytes | None]
"""Takes a message about to leave; returns what leaves instead, or nothing."""


class TesterPolicy(Policy):
    """The tester never hangs up by itself: what silence of the node means, a test judges."""

    def effective_lease(self, ours: float, theirs: float) -> float:  # noqa: ARG002
        """Waits for ever."""
        return math.inf


def fresh_zid(rng: random.Random) -> bytes:
    """Returns a random 16-byte ZenohID.

    Every session gets its own: a node that still closes the last session of a ZenohID refuses the next.
    """
    return rng.randbytes(15) + bytes([rng.randint(1, 255)])


class End:
    """Our end of one link, without a session: whatever is sent leaves as it is.

    Attributes:
        link: The connection.
        inbox: Everything that came in, network messages after the FRAME they came in.
    """

    def __init__(self, tester: Tester, link: Link) -> None:
        self.link = link
        self.inbox: list[Seen] = []
        self._tester = tester
        self._read = 0
        link.on_batch = self._on_batch

    # Stimulus --------------------------------------------------------------------------------------

    def send(self, *messages: Message | bytes, length: int | None = None) -> None:
        """Sends messages in one batch.

        Args:
            messages: Messages, or bytes that stand for some.
            length: What the length prefix says; the truth when None.
        """
        self.link.send(b"".join(bytes(message) for message in messages), length=length)

    def send_raw(self, data: bytes) -> None:
        """Sends bytes without a length prefix."""
        self.link.send_raw(data)

    # Expectation -----------------------------------------------------------------------------------

    def expect(self, cls: type[Message], *, within: float | None = None, **wanted: Any) -> Any:
        """Waits for the next message of a class and judges its fields.

        Args:
            cls: Class of the message; others that come before are passed over.
            within: Seconds; T1 when None.
            wanted: Fields and their values, or functions that judge a value; ``key`` is the full key.

        Returns:
            The message.

        Raises:
            Unmet: None came in time, or a field differs.
        """
        found = self._await(lambda seen: isinstance(seen.message, cls), within)
        return self._judge(found, cls, wanted)

    def until(self, cls: type[Message], *, within: float | None = None, **wanted: Any) -> list[Message]:
        """Waits for a message with these fields, whatever else comes, and returns what came before it.

        Arguments as in ``expect``.

        Raises:
            Unmet: It did not come in time.
        """
        start = self._read
        found = self._await(
            lambda seen: (
                isinstance(seen.message, cls)
                and fits(wanted, {name: self._field(seen.message, name) for name in wanted})
            ),
            within,
        )
        came = what_came(self._tester.history, self.link.name, self._since())
        check(found, words(cls, wanted), came)
        return [seen.message for seen in self.inbox[start : self._read - 1]]

    def expect_end(self, *, within: float | None = None) -> None:
        """Waits until the node ends the link.

        Raises:
            Unmet: It lives on.
        """
        seconds = self._tester.reply if within is None else within
        ended = self._tester.links.wait(lambda: self.link.ended is not None, seconds)
        check(ended, "end of the link", "the link lives on")
        self._tester.history.annotate("expected end of the link: met")

    def expect_refusal(self, reason: int | None = None, *, unless: type[Message] = Init) -> Close:
        """Waits for CLOSE in place of the next handshake message.

        Args:
            reason: The reason it must have; None for any.
            unless: The message that must not come.

        Raises:
            Unmet: No CLOSE, or another reason, or the message that must not come.
        """
        wanted = {} if reason is None else {"reason": reason}
        found = self._await(lambda seen: isinstance(seen.message, Close | unless), None)
        close: Close = self._judge(found, Close, wanted)
        return close

    def expect_nothing(self, *forbidden: type[Message], fence: Callable[[], object], **wanted: Any) -> None:
        """Runs a fence, and judges that nothing forbidden came before its answer.

        Args:
            forbidden: Classes of messages that must not come.
            fence: A second stimulus with a known answer; returns when the answer is there.
            wanted: Only messages with these fields are forbidden.

        Raises:
            Unmet: Something forbidden came, or the fence was not answered.
        """
        start = self._read
        fence()
        for seen in self.inbox[start:]:
            hit = isinstance(seen.message, forbidden) and all(
                self._field(seen.message, name) == value for name, value in wanted.items()
            )
            names = " or ".join(cls.shape().name for cls in forbidden)
            check(
                not hit, f"no {names} before the fence's answer", seen.message.name, seen.message.describe()
            )
        self._tester.history.annotate("expected nothing before the fence's answer: met")

    def collect(self, cls: type[Message], *, until: Callable[[], object]) -> list[Any]:
        """Runs a fence and returns all messages of a class that came before its answer."""
        start = self._read
        until()
        return [seen.message for seen in self.inbox[start:] if isinstance(seen.message, cls)]

    def wait(self, until: Callable[[], bool], seconds: float) -> bool:
        """Moves bytes until a condition holds; tells whether it did in time."""
        return self._tester.links.wait(until, seconds)

    def key(self, message: Message) -> str:
        """Returns the key expression of a message. An end without a session knows no aliases."""
        return str(field(message, "key_suffix") or "")

    def close(self) -> None:
        """Ends the link in order, without CLOSE."""
        self.link.close()

    def _judge(self, found: Seen | None, cls: type[Message], wanted: dict[str, Any]) -> Any:
        """Judges the message that was waited for, leaves a remark in the history, and returns it.

        Raises:
            Unmet: There is none, it is of another class, or a field differs.
        """
        history = self._tester.history
        expected = words(cls, wanted)
        try:
            if found is None:
                raise Unmet(expected, what_came(history, self.link.name, self._since()))
            if not isinstance(found.message, cls):
                raise Unmet(expected, str(found.message.name), found.message.describe())
            judge(found.message, cls, wanted, {name: self._field(found.message, name) for name in wanted})
        except Unmet as error:
            history.annotate(str(error), found.at if found else None)
            raise
        history.annotate(f"expected {expected}: met", found.at)
        return found.message

    def _field(self, message: Message, name: str) -> Any:
        return self.key(message) if name == "key" else field(message, name)

    def _since(self) -> int:
        return self.inbox[self._read - 1].at + 1 if self._read else 0

    def _await(self, wanted: Callable[[Seen], bool], within: float | None) -> Seen | None:
        seconds = self._tester.reply if within is None else within
        position = self._read

        def there() -> bool:
            nonlocal position
            while position < len(self.inbox):
                if wanted(self.inbox[position]):
                    return True
                position += 1
            return self.link.ended is not None

        if self._tester.links.wait(there, seconds) and position < len(self.inbox):
            self._read = position + 1
            return self.inbox[position]
        return None

    def _on_batch(self, seen: Observation) -> None:
        self.inbox.extend(self._tester.history.received(self.link.name, seen.seq))


class SessionEnd(End):
    """Our end of a session. Made by ``Tester.session``, or step by step with ``Tester.starting``.

    Attributes:
        session: The machine; ``session.agreed`` is what was negotiated.
        closed: Why the machine is over, once it is.
    """

    def __init__(self, tester: Tester, link: Link, session: Session) -> None:
        super().__init__(tester, link)
        self.session = session
        self.closed: Closed | None = None
        self._ids = 0
        self._ours: dict[int, str] = {}
        self._theirs: dict[int, str] = {}
        tester.links.every(self._tick)

    # Steps of the handshake ------------------------------------------------------------------------

    def open(self) -> Opened:
        """Runs the whole handshake.

        Raises:
            Unmet: The node does not go along.
        """
        self.session.connect()
        self.flush()
        self.expect(Init, A=1)
        self.expect(Open, A=1)
        check(self.session.peer is not None, "OPEN A=1 that can be accepted", "one that breaks the protocol")
        assert self.session.peer is not None
        return self.session.peer

    def flush(self) -> None:
        """Sends what the machine wants to send, bent where the tester says so."""
        for batch in self.session.messages_to_send(time.monotonic()):
            out = b"".join(
                bytes(bent) for message in batch if (bent := self._tester.bend(message)) is not None
            )
            if out:
                self.link.send(out)

    # Inside the session ----------------------------------------------------------------------------

    def post(self, *messages: Message, reliable: bool = True, priority: int | None = None) -> None:
        """Sends network messages, each in a FRAME of its own.

        Raises:
            Unmet: The node has ended the session, or broken the protocol so that ours is over.
        """
        if self.closed is not None:
            raise Unmet("a session that lives", self.closed.why)
        for message in messages:
            lane = {} if priority is None else {"priority": priority}
            self.session.send(message, reliable=reliable, **lane)
        self.flush()

    def put(self, key: str, data: bytes = b"", **fields: Any) -> None:
        """Publishes a value."""
        self.post(Push(key_suffix=key, body=Put(data=data), **fields))

    def declare_subscriber(self, key: str) -> int:
        """Declares a subscriber and returns its entity id; waits until the node has taken it in."""
        number = self.next_id()
        self.post(Declare(body=DeclareSubscriber(entity_id=number, key_suffix=key)))
        self.fence()
        return number

    def declare_queryable(self, key: str, *, complete: bool = False, distance: int = 0) -> int:
        """Declares a queryable and returns its entity id; waits until the node has taken it in."""
        number = self.next_id()
        info = [QueryableInfo(complete=int(complete), distance=distance)] if complete or distance else []
        self.post(Declare(body=DeclareQueryable(entity_id=number, key_suffix=key, extensions=info)))
        self.fence()
        return number

    def declare_alias(self, key_id: int, key: str) -> None:
        """Declares an alias of ours."""
        self._ours[key_id] = key
        self.post(Declare(body=DeclareKeyExpr(key_id=key_id, key_suffix=key)))

    def fence(self) -> None:
        """Asks a query on an unused key and waits for its end: the node has handled all before it.

        Raises:
            Unmet: No RESPONSE_FINAL for it in time.
        """
        number = self.next_id()
        self.post(Request(request_id=number, key_suffix=f"harness/fence/{self._tester.word()}", body=Query()))
        found = self._await(
            lambda seen: isinstance(seen.message, ResponseFinal) and seen.message.request_id == number, None
        )
        seen = what_came(self._tester.history, self.link.name, self._since())
        check(found, "RESPONSE_FINAL for the fence's query", seen)

    def next_id(self) -> int:
        """Returns a number not used yet for an entity, interest or request of this session."""
        self._ids += 1
        return self._ids

    def key(self, message: Message) -> str:
        """Returns the full key expression of a message, aliases resolved."""
        scope = field(message, "key_scope") or 0
        table = self._theirs if message.value("M") else self._ours
        prefix = table.get(scope, f"<unknown alias {scope}>") if scope else ""
        return prefix + str(field(message, "key_suffix") or "")

    def close(self, reason: int = 0) -> None:
        """Sends CLOSE and ends the link."""
        if self.link.ended is None and self.session.state is not State.CLOSED:
            self.session.close(reason)
            self.flush()
        self.link.close()

    def _tick(self, now: float) -> float | None:
        if self.link.ended is not None:
            return None
        self._noting(self.session.tick(now))
        self.flush()
        return self.session.next_deadline()

    def _on_batch(self, seen: Observation) -> None:
        before = len(self.inbox)
        super()._on_batch(seen)
        here = [item.message for item in self.inbox[before:]]
        for event in self._noting(self.session.receive_contents(seen.contents, time.monotonic())):
            # Messages in a FRAME are in the inbox already; those that FRAGMENTs made whole are not.
            if isinstance(event, Received) and not any(event.message is message for message in here):
                carrier = next((message for message in here if isinstance(message, Fragment)), None)
                self.inbox.append(Seen(event.message, carrier, seen.seq, seen.time_ns, len(seen.batch)))
        for item in self.inbox[before:]:
            if isinstance(item.message, Declare):
                self._learn(item.message.body)
        self.flush()

    def _noting(self, events: list[Event]) -> list[Event]:
        self.closed = next((event for event in events if isinstance(event, Closed)), self.closed)
        return events

    def _learn(self, body: Message | None) -> None:
        if isinstance(body, DeclareKeyExpr):
            self._theirs[body.key_id] = str(field(body, "key_suffix") or "")


class Tester:
    """Makes ends and holds what they share: history, links, time, seeded choices, bends.

    Attributes:
        locator: The node's.
        reply: T1 in seconds.
        rng: Seeded; all choices of a test come from it.
        on_send: Bends, applied in order to what sessions send.
    """

    # Begins like a class of tests, which pytest would collect.
    __test__ = False

    def __init__(self, locator: Locator, rng: random.Random, reply: float = REPLY_SECONDS) -> None:
        self.locator = locator
        self.rng = rng
        self.reply = reply
        self.history = History()
        self.links = Links(self.history)
        self.on_send: list[Bend] = []
        self._names = iter(string.ascii_lowercase)
        self._count = 0

    def link(self) -> End:
        """Makes a link without a session.

        Raises:
            LinkFailed: The node cannot be reached.
        """
        return End(self, self._connect())

    def starting(
        self,
        *,
        whatami: int = WhatAmI.CLIENT,
        zid: bytes | None = None,
        lease: float = 10.0,
        **offer: Any,
    ) -> SessionEnd:
        """Makes a link with a session machine that has not said anything yet.

        Args:
            whatami: Our role.
            zid: Our ZenohID; a fresh one when None.
            lease: Seconds.
            offer: Fields of ``Offer``: ``fsn``, ``rid``, ``batch_size``, ``qos``, ``patch``.
        """
        config = SessionConfig(
            zid=fresh_zid(self.rng) if zid is None else zid,
            whatami=whatami,
            lease=lease,
            offer=Offer(**offer),
        )
        return SessionEnd(self, self._connect(), Session(config, rng=self.rng, policy=TesterPolicy()))

    def session(self, **config: Any) -> SessionEnd:
        """Makes a link and opens a session; arguments as in ``starting``.

        Raises:
            Unmet: The node does not go along.
        """
        end = self.starting(**config)
        end.open()
        return end

    def init(self, **fields: Any) -> Init:
        """Returns an InitSyn with a fresh ZenohID; fields given win."""
        return Init(**{"zid": fresh_zid(self.rng), **fields})

    def word(self) -> str:
        """Returns a chunk for a key that nobody else uses."""
        self._count += 1
        return f"{self.rng.getrandbits(48):012x}{self._count}"

    def bend(self, message: Message) -> Message | bytes | None:
        """Applies all bends to a message about to leave."""
        out: Message | bytes | None = message
        for bend in self.on_send:
            if isinstance(out, Message):
                out = bend(out)
        return out

    def close(self) -> None:
        """Ends all links."""
        self.links.close()

    def _connect(self) -> Link:
        name = next(self._names, None)
        if name is None:
            self._count += 1
            name = f"link{self._count}"
        return self.links.connect(self.locator, name)


def why_not_well(locator: Locator, reply: float = REPLY_SECONDS) -> str:
    """Opens a fresh session, pings, and closes: the canary. Returns why that failed, or nothing.

    A TCP accept, and even an OpenAck, prove nothing: the ping is what shows that the node serves.
    """
    tester = Tester(locator, random.Random(), reply)
    try:
        end = tester.session()
        end.fence()
        end.close()
    except LinkFailed as error:
        return str(error)
    except (Unmet, LocalError, HarnessError) as error:
        return f"a fresh session fails: {error}"
    finally:
        tester.close()
    return ""
