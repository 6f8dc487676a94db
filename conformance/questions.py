"""What a node can be asked to learn what it supports: the questions behind ``python -m conformance.profile``."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from conformance.errors import HarnessError, LocalError, NodeDidNotStart, Unmet
from conformance.nodes import Node
from conformance.nodes.base import ping, role_name
from conformance.profiles import NO_SCOUTING, ROLES
from conformance.tester import SessionEnd, Tester
from scapy_layers.codes import CloseReason, InterestMode
from scapy_layers.data import Put, Query, Reply
from scapy_layers.declarations import DeclareFinal, DeclareQueryable, DeclareSubscriber, DeclareToken
from scapy_layers.extensions import Compression, LowLatency, Patch, QoSOffer
from scapy_layers.message import Extension, Message
from scapy_layers.network import Declare, Interest, Push, Request, Response
from scapy_layers.scouting import Hello
from scapy_layers.transport import Close, Init, Open

SLOW_SECONDS = 0.1
"""A handshake that takes longer asks for more patience everywhere."""

RESOLUTION_BITS = (8, 16, 32, 64)
"""Widths by code."""

PAUSE_SECONDS = 0.05
"""Between two publications to a subscriber of which nobody can say whether the node knows it already."""

FRAGMENTED = 100_000
"""Bytes of a value that fits no batch."""

OFFERS: dict[str, Callable[[], Extension]] = {
    "qos": QoSOffer,
    "patch": lambda: Patch(patch=1),
    "lowlatency": LowLatency,
    "compression": Compression,
}
"""Extensions of INIT, each by the name of the feature that it offers."""

NOT_ASKED = ("multicast", "multilink", "authentication", "timestamps")
"""Features about which a link alone tells nothing."""


@dataclass
class Findings:
    """What was learned.

    Attributes:
        facts: Topic, and in words what was seen.
        roles: Of the node.
        transports: What it takes links over.
        scouting: Group in which it answers SCOUT, or ``none``.
        fence: How it can be asked whether it is done.
        features: What it has.
        time_scale: Patience it needs.
    """

    facts: list[tuple[str, str]] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)
    transports: list[str] = field(default_factory=list)
    scouting: str = NO_SCOUTING
    fence: str = "none"
    features: list[str] = field(default_factory=list)
    time_scale: float = 1.0

    def saw(self, topic: str, words: str) -> None:
        """Keeps what was seen."""
        self.facts.append((topic, words))


class Inquiry:
    """Asks one node, question by question.

    Args:
        node: The node, running.
        reply: T1 in seconds.
        rng: Of all random choices.
    """

    def __init__(self, node: Node, reply: float, rng: random.Random) -> None:
        self.found = Findings()
        self._node = node
        self._reply = reply
        self._rng = rng

    def ask(self) -> Findings:
        """Asks everything.

        Raises:
            NodeDidNotStart: The node opens no session, is none, or is gone after a question; says which.
        """
        found = self.found
        self._node.ask(self._reply)
        if doubt := self._node.doubt(self._reply):
            raise NodeDidNotStart(f"{self._node.locator}: {doubt}")
        found.roles = [role for role in ROLES if role == self._node.whatami]
        found.transports = list(self._node.locators)
        found.fence = self._node.fence
        found.saw("fence", _FENCES[found.fence])
        questions: tuple[tuple[str, Callable[[Tester], None]], ...] = (
            ("handshake", self._handshake),
            ("version", self._version),
            *[(f"offer of {name}", self._offer(name)) for name in OFFERS],
            ("close", self._close),
            ("rubbish", self._rubbish),
            ("routing", self._routing),
            ("fragments", self._fragments),
            ("queries", self._queries),
            ("a snapshot of subscribers", self._interests),
            ("a snapshot of tokens", self._tokens),
            ("scouting", self._scouting),
        )
        for topic, question in questions:
            self._put(topic, question)
        if found.fence == "query":
            self._add("queries")
        return found

    def _add(self, feature: str) -> None:
        if feature not in self.found.features:
            self.found.features.append(feature)

    def _put(self, topic: str, question: Callable[[Tester], None]) -> None:
        tester = self._node.tester(self._reply, self._rng)
        try:
            question(tester)
        except (Unmet, LocalError, HarnessError) as error:
            self.found.saw(topic, f"not shown: {error}")
            why = self._node.problem(self._reply)
            if why:
                raise NodeDidNotStart(
                    f"the node is not well any more after the question about {topic}: {why}"
                ) from None
        finally:
            tester.close()

    def _done(self, end: SessionEnd) -> None:
        """Waits until the node has handled all, as far as it can be asked."""
        ping(end)

    # Handshake ---------------------------------------------------------------------------------------------

    def _handshake(self, tester: Tester) -> None:
        found = self.found
        began = time.monotonic()
        link = tester.link()
        link.send(tester.init(S=1))
        ack: Init = link.expect(Init, A=1)
        link.send(Open(cookie=ack.cookie))
        opened: Open = link.expect(Open, A=1)
        took = time.monotonic() - began
        found.saw("role", f"{role_name(ack.whatami)}, protocol version {int(ack.version)}")
        found.saw("cookie", f"{len(bytes(ack.cookie))} bytes")
        sizes = (
            f"batches of {int(ack.batch_size)} bytes, sequence numbers of {RESOLUTION_BITS[int(ack.fsn)]} bits, "
            f"request ids of {RESOLUTION_BITS[int(ack.rid)]} bits"
            if ack.value("S")
            else "takes the sizes that are proposed without a word"
        )
        found.saw("sizes", sizes)
        lease = opened.lease if opened.value("T") else opened.lease / 1000
        found.saw("lease", f"{lease:g} s")
        found.saw("patience", f"a handshake takes {took * 1000:.0f} ms")
        if took > SLOW_SECONDS:
            found.time_scale = float(round(took / SLOW_SECONDS + 0.5))

    def _version(self, tester: Tester) -> None:
        link = tester.link()
        link.send(tester.init(version=8))
        link.wait(lambda: link.over, self._reply)
        answer = link.inbox[0].message if link.inbox else None
        self.found.saw("another version", _reaction(answer, over=link.over))

    def _offer(self, name: str) -> Callable[[Tester], None]:
        def ask(tester: Tester) -> None:
            link = tester.link()
            offered = OFFERS[name]()
            link.send(tester.init(extensions=[offered]))
            ack: Init = link.expect(Init, A=1)
            taken = any(isinstance(extension, type(offered)) for extension in ack.extensions or ())
            self.found.saw(f"offer of {name}", "taken" if taken else "passed over")
            if taken:
                self._add(name)

        return ask

    # Ends --------------------------------------------------------------------------------------------------

    def _close(self, tester: Tester) -> None:
        end = tester.session()
        self._done(end)
        before = len(end.inbox)
        end.session.close()
        end.flush()
        end.wait(lambda: end.over, self._reply)
        said = [seen.message for seen in end.inbox[before:] if isinstance(seen.message, Close)]
        self.found.saw("our CLOSE", _reaction(said[0] if said else None, over=end.over))

    def _rubbish(self, tester: Tester) -> None:
        end = tester.session()
        self._done(end)
        before = len(end.inbox)
        end.send(b"\x1f\xff\xff")
        end.wait(lambda: end.over, self._reply)
        said = [seen.message for seen in end.inbox[before:] if isinstance(seen.message, Close)]
        self.found.saw(
            "rubbish in a session",
            _reaction(said[0] if said else None, over=end.over),
        )

    # Between sessions ----------------------------------------------------------------------------------------

    def _pair(self, tester: Tester, **config: Any) -> tuple[SessionEnd, SessionEnd, str]:
        one, two = tester.session(**config), tester.session(**config)
        return one, two, f"harness/{tester.word()}"

    def _routing(self, tester: Tester) -> None:
        self._carry(tester, 8)
        self.found.saw("routing", "a value goes from one session to another")
        self._add("routing")

    def _fragments(self, tester: Tester) -> None:
        self._carry(tester, FRAGMENTED, patch=1)
        self.found.saw("fragments", f"a value of {FRAGMENTED} bytes goes from one session to another")
        self._add("fragments")

    def _carry(self, tester: Tester, size: int, **config: Any) -> None:
        """Judges that a value gets from one session to another."""
        sub, pub, key = self._pair(tester, **config)
        sub.post(Declare(body=DeclareSubscriber(entity_id=sub.next_id(), key_suffix=key)))
        self._done(sub)
        data = tester.rng.randbytes(size)
        deadline = time.monotonic() + self._reply

        def there() -> bool:
            return any(isinstance(seen.message, Push) for seen in sub.inbox)

        while not there() and time.monotonic() < deadline:
            pub.put(key, data)
            # One that can be asked whether it is done needs no second time.
            sub.wait(there, PAUSE_SECONDS if self.found.fence == "none" else self._reply)
        push = sub.expect(Push, key=key)
        if bytes(getattr(push.body, "data", b"")) != data:
            raise Unmet("the value that was published", "another value")

    def _queries(self, tester: Tester) -> None:
        answerer, asker, key = self._pair(tester)
        answerer.post(Declare(body=DeclareQueryable(entity_id=answerer.next_id(), key_suffix=key)))
        self._done(answerer)
        number = asker.next_id()
        asker.post(Request(request_id=number, key_suffix=key, body=Query()))
        request = answerer.expect(Request)
        reply = Reply(body=Put(data=b"1"))
        answerer.post(Response(request_id=request.request_id, key_suffix=key, body=reply))
        asker.expect(Response, request_id=number)
        self.found.saw("queries", "a query and its reply go from one session to another")

    def _interests(self, tester: Tester) -> None:
        self._snapshot(
            tester, DeclareSubscriber(entity_id=1, key_suffix=f"harness/{tester.word()}"), "subscribers"
        )
        self.found.saw("a snapshot of subscribers", "names the one of another session, and ends")
        self._add("interests")

    def _tokens(self, tester: Tester) -> None:
        self._snapshot(tester, DeclareToken(entity_id=1, key_suffix=f"harness/{tester.word()}"), "tokens")
        self.found.saw("a snapshot of tokens", "names the one of another session, and ends")
        self._add("tokens")
        # A node may answer what is asked about some entities only: that is judged, not left out.
        self._add("interests")

    def _snapshot(self, tester: Tester, body: Message, kind: str) -> None:
        """Has one session declare something, and judges that another is told of it when it asks."""
        one, two = tester.session(), tester.session()
        one.post(Declare(body=body))
        self._done(one)
        number = two.next_id()
        asked: dict[str, Any] = {"restricted": 1, "key_suffix": body.key_suffix, kind: 1}
        two.post(Interest(interest_id=number, mode=InterestMode.CURRENT, **asked))
        came = two.until(Declare, body=_final, interest_id=number)
        if not any(
            isinstance(told, Declare)
            and isinstance(told.body, type(body))
            and two.key(told.body) == body.key_suffix
            for told in came
        ):
            raise Unmet(f"the {kind} of another session", "an empty list")

    # Scouting ------------------------------------------------------------------------------------------------

    def _scouting(self, tester: Tester) -> None:
        where = self._node.scouting
        if where is None:
            self.found.saw("scouting", "not asked: no group is known in which the node hears SCOUTs")
            return
        scout = tester.scout(where)
        scout.scout()
        hello = scout.expect(Hello)
        self.found.scouting = str(where)
        self._add("scouting")
        locators = [str(text) for text in hello.locators or ()]
        self.found.saw(
            "scouting", f"SCOUT to {where} is answered; HELLO names {', '.join(locators) or 'no locator'}"
        )
        for text in locators:
            proto = text.partition("/")[0]
            if proto not in self.found.transports:
                self.found.saw("another transport", f"{text} stands in HELLO; ask it there")


_FENCES = {
    "query": "a query that nothing matches is ended at once",
    "interest": "a query that nothing matches is not ended; a snapshot of tokens is",
    "none": "neither a query that nothing matches nor a snapshot of tokens is ended: tests cannot wait for the node",
}


def _final(body: Message) -> bool:
    """D_FINAL"""  # noqa: D415  (stands for the body in what is expected)
    return isinstance(body, DeclareFinal)


def _reaction(message: Message | None, *, over: bool) -> str:
    """Returns in words what came of something."""
    if isinstance(message, Close):
        reason = int(message.reason)
        name = CloseReason(reason).name if reason in set(CloseReason) else f"{reason:#04x}"
        said = f"CLOSE {name}"
    else:
        said = "" if message is None else str(message.name)
    end = "the link ends" if over else "the link lives on"
    return f"{said}, {end}" if said else end
