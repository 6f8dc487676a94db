"""Our end of a session: whole, or one step of the handshake after the other; either side of it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from conformance.errors import LocalError, NotApplicable, Unmet
from conformance.expect import check, what_came
from conformance.link import Link
from conformance.observe import Observation, Seen
from conformance.session.events import Closed, Event, Opened, Received
from conformance.session.lanes import Unit
from conformance.session.machine import Session, SessionConfig
from conformance.session.negotiate import DEFAULT_SIZES
from conformance.session.policy import Dice, Policy
from conformance.session.sequence import WRITTEN_BITS
from conformance.session.states import State
from conformance.tester.aliases import learn, resolved
from conformance.tester.bending import Bend, Bending
from conformance.tester.bends import changed
from conformance.tester.ends import End
from conformance.tester.shared import Fencing, Shared, bend_step
from conformance.tester.steps import Close as CloseStep
from conformance.tester.steps import Fence, Handshake, Post
from conformance.tester.values import written
from scapy_layers.codes import InterestMode, Priority
from scapy_layers.data import Put, Query
from scapy_layers.declarations import (
    DeclareFinal,
    DeclareKeyExpr,
    DeclareQueryable,
    DeclareSubscriber,
)
from scapy_layers.extensions import QoS, QueryableInfo
from scapy_layers.message import Message
from scapy_layers.network import Declare, Interest, Push, Request, ResponseFinal
from scapy_layers.transport import Fragment, Frame, Init, Open

SIZES = ("fsn", "rid", "batch_size")
"""Fields of INIT that hold once they were said: our machine goes by what left, not by what it wanted."""


class TesterPolicy(Policy):
    """The tester never hangs up by itself: what silence of the node means, a test judges.

    Args:
        initial_sn: The first sequence number; a random one when None.
        cookie: The challenge of InitAck; a random one when None.
        as_written: Count to 2^bits - 1, not only as far as nodes do (reading R-42).
    """

    def __init__(
        self, initial_sn: int | None = None, cookie: bytes | None = None, *, as_written: bool = False
    ) -> None:
        self._initial_sn = initial_sn
        self._cookie = cookie
        self._as_written = as_written

    def following_sn(self, sn: int, resolution: int) -> int:
        """One more; 0 after the largest that the node hears."""
        if self._as_written:
            return sn + 1 & (1 << WRITTEN_BITS[resolution]) - 1
        return super().following_sn(sn, resolution)

    def effective_lease(self, ours: float, theirs: float) -> float:  # noqa: ARG002
        """Waits for ever."""
        return math.inf

    def sizes_unsaid(self, proposed: tuple[int, int, int]) -> tuple[int, int, int]:
        """What holds whether an InitAck without S stands for the proposal or for the defaults (reading R-05)."""
        fsn, rid, batch_size = map(min, proposed, DEFAULT_SIZES)
        return fsn, rid, batch_size

    def initial_sn(self, resolution: int, rng: Dice) -> int:
        """The one that a test wants; else one so far from the end of the range that no test comes to it by chance.

        Nodes differ in where that end is (reading R-42).
        """
        if self._initial_sn is not None:
            return self._initial_sn
        return super().initial_sn(resolution, rng) >> 1

    def cookie(self, rng: Dice) -> bytes:
        """The one that a test wants."""
        return super().cookie(rng) if self._cookie is None else self._cookie

    def accepts_cookie(self, given: bytes, returned: bytes) -> bool:  # noqa: ARG002
        """Goes on whatever comes back; a test judges it."""
        return True


class TesterSession(Session):
    """A machine that remembers the numbers that a test took from it, for FRAMEs made by hand.

    Attributes:
        taken: Reliable or not, and the number.
    """

    def __init__(self, config: SessionConfig, *, rng: Dice, policy: Policy) -> None:
        super().__init__(config, rng=rng, policy=policy)
        self.taken: set[tuple[bool, int]] = set()

    def take_sn(self, *, reliable: bool = True, priority: int = Priority.DATA) -> int:
        """Returns the next sequence number of a lane and counts on."""
        sn = super().take_sn(reliable=reliable, priority=priority)
        if priority == Priority.DATA:
            self.taken.add((reliable, sn))
        return sn


class SessionEnd(End):
    """Our end of a session. Made by ``Tester.session``, ``Tester.starting`` or ``ListenerEnd.accept``.

    Attributes:
        session: The machine; ``session.agreed`` is what was negotiated.
        closed: Why the machine is over, once it is.
        on_send: Bends of this session, behind those of the tester.
    """

    def __init__(self, tester: Shared, link: Link, session: TesterSession) -> None:
        super().__init__(tester, link)
        self.session = session
        self.closed: Closed | None = None
        self.on_send: list[Bend] = []
        self._bending = Bending(tester.rng)
        # While a test takes the handshake step by step, what the machine wants to say waits for its step.
        self._by_steps = False
        self._waiting: list[Unit] = []
        self._said: dict[type[Message], Message] = {}
        self._ids = 0
        self._ours: dict[int, str] = {}
        self._theirs: dict[int, str] = {}
        link.unwrap = session.unwrap
        self._ticker = tester.links.every(self._tick)

    # The handshake, whole ----------------------------------------------------------------------------

    def open(self) -> Opened:
        """Runs the whole handshake as the end that connects.

        Raises:
            Unmet: The node does not go along.
        """
        with self._tester.doing(lambda: Handshake(link=self.name, part="open")):
            self.begin()
            return self.finish()

    def begin(self) -> None:
        """Begins the handshake as the end that connects; it goes on by itself."""
        with self._tester.doing(lambda: Handshake(link=self.name, part="begin")):
            self.session.connect(None)
            self.flush()

    def finish(self, within: float | None = None) -> Opened:
        """Waits until a handshake that was begun is over.

        Args:
            within: Seconds for each answer; T1 when None.

        Raises:
            Unmet: The node does not go along.
        """
        with self._tester.doing(lambda: Handshake(link=self.name, part="finish")):
            self.expect(Init, A=1, within=within)
            self.expect(Open, A=1, within=within)
            peer = self.session.peer
            check(peer is not None, "OPEN A=1 that can be accepted", "one that breaks the protocol")
            assert peer is not None
            return peer

    def serve(self) -> Opened:
        """Runs the whole handshake as the end that was connected to.

        Raises:
            Unmet: The other end does not go along.
        """
        with self._tester.doing(lambda: Handshake(link=self.name, part="serve")):
            self.take_init_syn()
            ack = self.init_ack()
            self.take_open_syn(cookie=bytes(ack.cookie))
            self.open_ack()
            assert self.session.peer is not None
            return self.session.peer

    # The handshake, step by step -----------------------------------------------------------------------

    def init(self, **fields: Any) -> Init:
        """Sends InitSyn; the machine waits with OpenSyn until ``open_syn``. Fields given win.

        Returns:
            What was sent.
        """
        with self._tester.doing(lambda: self._step("init", fields)):
            self._by_steps = True
            self.session.connect(None)
            said: Init = self._say(Init, fields)
            return said

    def take_init_ack(self, *, within: float | None = None, **wanted: Any) -> Init:
        """Waits for InitAck.

        Raises:
            Unmet: It does not come, or a field differs.
        """
        with self._tester.doing(lambda: self._step("take_init_ack", wanted)):
            ack: Init = self.expect(Init, A=1, within=within, **wanted)
            return ack

    def open_syn(self, **fields: Any) -> Open:
        """Sends OpenSyn with the cookie of InitAck. Fields given win.

        Raises:
            LocalError: InitAck has not come, or cannot be accepted.
        """
        with self._tester.doing(lambda: self._step("open_syn", fields)):
            said: Open = self._say(Open, fields)
            return said

    def take_open_ack(self, *, within: float | None = None, **wanted: Any) -> Open:
        """Waits for OpenAck: the session lives.

        Raises:
            Unmet: It does not come, or a field differs.
        """
        with self._tester.doing(lambda: self._step("take_open_ack", wanted)):
            ack: Open = self.expect(Open, A=1, within=within, **wanted)
            self._by_steps = False
            self.flush()
            return ack

    def take_init_syn(self, *, within: float | None = None, **wanted: Any) -> Init:
        """Waits for InitSyn.

        Raises:
            Unmet: It does not come, or a field differs.
        """
        with self._tester.doing(lambda: self._step("take_init_syn", wanted)):
            syn: Init = self.expect(Init, A=0, within=within, **wanted)
            return syn

    def init_ack(self, **fields: Any) -> Init:
        """Sends InitAck. Fields given win; the sizes given hold for the session.

        Raises:
            LocalError: InitSyn has not come, or cannot be accepted.
        """
        with self._tester.doing(lambda: self._step("init_ack", fields)):
            said: Init = self._say(Init, fields)
            sizes = {name: fields[name] for name in SIZES if name in fields}
            if sizes:
                self.session.agreed = replace(self.session.agreed, **sizes)
            return said

    def take_open_syn(self, *, within: float | None = None, **wanted: Any) -> Open:
        """Waits for OpenSyn.

        Raises:
            Unmet: It does not come, or a field differs.
        """
        with self._tester.doing(lambda: self._step("take_open_syn", wanted)):
            syn: Open = self.expect(Open, A=0, within=within, **wanted)
            return syn

    def open_ack(self, **fields: Any) -> Open:
        """Sends OpenAck: the session lives. Fields given win.

        Raises:
            LocalError: OpenSyn has not come, or cannot be accepted.
        """
        with self._tester.doing(lambda: self._step("open_ack", fields)):
            said: Open = self._say(Open, fields)
            self._by_steps = False
            self.flush()
            return said

    def accepting(self) -> None:
        """Makes this the end that was connected to. Called by ``ListenerEnd.accept``."""
        self._by_steps = True
        self.session.accept(None)

    def _step(self, part: str, fields: dict[str, Any]) -> Handshake:
        plain = {name: written(value) for name, value in fields.items() if not callable(value)}
        return Handshake(link=self.name, part=part, fields=plain)

    def _say(self, cls: type[Any], fields: dict[str, Any]) -> Any:
        """Lets the machine's next handshake message leave, with other fields.

        Raises:
            LocalError: The machine has no such message to send.
        """
        self._waiting += self.session.units_to_send(time.monotonic())
        if not any(isinstance(message, cls) for unit in self._waiting for message in unit.messages):
            why = self.closed.why if self.closed else "what comes before it has not come"
            raise LocalError(f"no {cls.shape().name} to send: {why}")
        ready, self._waiting = self._waiting, []
        self._dispatch(ready, [changed(cls, **fields)] if fields else [])
        return self._said[cls]

    # What leaves ---------------------------------------------------------------------------------------

    def bend(self, *bends: Bend) -> None:
        """Bends from now on what this session sends."""
        for bend in bends:
            with self._tester.doing(lambda bend=bend: bend_step(bend, self.name)):  # type: ignore[misc]
                self.on_send.append(bend)

    def flush(self) -> None:
        """Sends what the machine wants to send, bent where the tester says so."""
        now = time.monotonic()
        self._waiting += self.session.units_to_send(now)
        if not self._by_steps or self.session.over:
            ready, self._waiting = self._waiting, []
            self._dispatch(ready)
        bends = self._bends()
        if bends:
            for freed in self._bending.freed(now, bends):
                self._leave(bytes(freed))

    def _bends(self) -> list[Bend]:
        return [*self._tester.on_send, *self.on_send]

    def _dispatch(self, units: Iterable[Unit], first: Iterable[Bend] = ()) -> None:
        bends = [*first, *self._bends()]
        for unit in units:
            if not bends and not self._by_steps:
                self._leave(unit.raw, unit)
                continue
            together = b""
            for message in unit.messages:
                items = self._bending.out(message, bends)
                if len(items) == 1:
                    together += bytes(items[0])
                    self._said[type(message)] = items[0] if isinstance(items[0], Message) else message
                    continue
                self._said[type(message)] = message
                # Several in place of one: each in a batch of its own, or a FRAGMENT would swallow the others.
                if together:
                    self._leave(together, unit)
                    together = b""
                for item in items:
                    self._leave(bytes(item), unit)
            if together:
                self._leave(together, unit)
            self._note_bends()

    def _leave(self, raw: bytes, unit: Unit | None = None) -> None:
        """Sends one batch, wrapped as the session has it."""
        raw = self.showing(raw)
        prefix = self.session.prefix if unit is None else unit.prefix
        wrapped = self.session.wrap(raw) if unit is None else unit.wrap(raw)
        plain = raw if wrapped is not raw else None
        self.link.send(wrapped, plain=plain, prefix=prefix if self.link.streamed else None)
        self._note_bends()

    def _note_bends(self) -> None:
        for words in self._bending.done:
            self._tester.history.annotate(f"bend on {self.name}: {words}")
        self._bending.done.clear()

    # Inside the session ----------------------------------------------------------------------------

    def post(self, *messages: Message, reliable: bool = True, priority: int | None = None) -> None:
        """Sends network messages, each in a FRAME of its own.

        Raises:
            Unmet: The node has ended the session, or broken the protocol so that ours is over.
        """
        with self._tester.doing(
            lambda: Post(link=self.name, messages=self.said(*messages), reliable=reliable, priority=priority)
        ):
            if self.closed is not None:
                raise Unmet("a session that lives", self.closed.why)
            for message in messages:
                lane = int(Priority.DATA) if priority is None else priority
                self.session.send(message, reliable=reliable, priority=lane)
                if isinstance(message, Declare):
                    learn(message.body, self._ours)
            self.flush()

    def put(self, key: str, data: bytes = b"", **fields: Any) -> None:
        """Publishes a value that may not be dropped, unless other extensions are given."""
        fields = {"extensions": [QoS(D=1)], **fields}
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
        self.post(Declare(body=DeclareKeyExpr(key_id=key_id, key_suffix=key)))

    def fence(self) -> None:
        """Asks something with a known answer and waits for it: the node has handled all before.

        Raises:
            Unmet: It is not answered in time.
            NotApplicable: Nobody can ask this node.
        """
        with self._tester.doing(lambda: Fence(link=self.name)):
            self.take_fence(self.ask_fence())

    def ask_fence(self) -> int:
        """Asks what the fence of this node is, and returns its id: a query on an unused key, or an interest.

        Raises:
            NotApplicable: Nobody can ask this node.
        """
        number = self.next_id()
        match self._tester.fencing:
            case Fencing.QUERY:
                key = f"harness/fence/{self._tester.word()}"
                # Its answer may be dropped where the query may be, and what never comes was not done.
                block = [QoS(D=1)]
                self.post(Request(request_id=number, key_suffix=key, extensions=block, body=Query()))
            case Fencing.INTEREST:
                self.post(Interest(interest_id=number, mode=InterestMode.CURRENT, tokens=1))
            case Fencing.NONE:
                raise NotApplicable("nobody can ask this node whether it has handled all that was sent")
        return number

    def take_fence(self, number: int, within: float | None = None) -> None:
        """Waits for the answer of a fence.

        Raises:
            Unmet: It does not come.
        """
        found = self._await(lambda seen: self.answers_fence(seen, number), within)
        seen = what_came(self._tester.history, self.name, self._since())
        asked = self._tester.fencing is Fencing.QUERY
        check(
            found,
            "RESPONSE_FINAL for the fence's query" if asked else "D_FINAL for the fence's interest",
            seen,
        )

    def answers_fence(self, seen: Seen, number: int) -> bool:
        """Tells whether a message is the answer of a fence."""
        message = seen.message
        if self._tester.fencing is Fencing.QUERY:
            return isinstance(message, ResponseFinal) and message.request_id == number
        final = isinstance(message, Declare) and isinstance(message.body, DeclareFinal)
        return final and message.interest_id == number

    def next_id(self) -> int:
        """Returns a number not used yet for an entity, interest or request of this session."""
        self._ids += 1
        return self._ids

    def key(self, message: Message) -> str:
        """Returns the full key expression of a message, aliases resolved."""
        return resolved(message, self._theirs if message.value("M") else self._ours)

    def close(self, reason: int = 0) -> None:
        """Sends CLOSE and ends the link."""
        with self._tester.doing(lambda: CloseStep(link=self.name, reason=reason)):
            if self.link.ended is None and self.session.state is not State.CLOSED:
                self.session.close(reason)
                self.flush()
            self.link.close()

    def _alive(self, message: Message) -> dict[str, str]:
        if isinstance(message, Frame | Fragment):
            reliable = bool(message.value("R"))
            if (reliable, message.value("sn")) in self.session.taken:
                return {"sn": "sn" if reliable else "sn_be"}
        return super()._alive(message)

    # Time and bytes --------------------------------------------------------------------------------------

    def _tick(self, now: float) -> float | None:
        self._own_up(now)
        if self.link.ended is not None:
            self._ticker.cancel()
            return None
        self._noting(self.session.tick(now))
        self.flush()
        due = self._bending.due(self._bends())
        deadline = self.session.next_deadline()
        return min(due, deadline) if due is not None and deadline is not None else due or deadline

    def take(self, seen: Observation) -> None:
        """Takes in what came."""
        new = self._hear(seen)
        here = {id(item.message) for item in new}
        now = time.monotonic()
        self._own_up(now)
        for event in self._noting(self.session.receive_contents(seen.contents, now)):
            # Messages in a FRAME are in the inbox already; those that FRAGMENTs made whole are not.
            if isinstance(event, Received) and id(event.message) not in here:
                carrier = next((one.message for one in new if isinstance(one.message, Fragment)), None)
                whole = Seen(event.message, carrier, seen.seq, seen.time_ns, len(seen.batch))
                self.inbox.append(whole)
                new.append(whole)
        for item in new:
            if isinstance(item.message, Declare):
                learn(item.message.body, self._theirs)
        if self.link.streamed:
            self.link.prefix, self.link.limit = self.session.prefix, self.session.limit
        self.flush()

    def _own_up(self, now: float) -> None:
        """Records that we were kept from sending anything for a whole lease."""
        silence = self.session.neglected(now)
        if silence:
            self._tester.history.neglect(self.name, silence)

    def _noting(self, events: list[Event]) -> list[Event]:
        for event in events:
            if isinstance(event, Closed):
                self.closed = event
                if event.by_us:
                    self._tester.history.give_up(self.name, event.why)
        return events


def offer_in_script(offer: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of an offer as a script has them."""
    return {name: written(value) for name, value in offer.items()}
