"""Sessions of ours that live through the whole run, and what they send each other through the node.

A publisher and a subscriber, numbered publications whose every byte follows from the number, queries that the
subscriber replies to, and a session that publishes in fragments, or says nothing where the node joins none. Keys begin
with a verbatim chunk and hold a random word, so that no wild card of a stimulus matches them and no stimulus names them.
There is no Scapy on the way: messages are rendered once, and found again by a random word in them.

For a moment of each thorough look there are subscribers of the keys that cases use, too: see ``common``.
"""

from __future__ import annotations

import random
import select
import time
from collections import deque
from collections.abc import Callable, Collection, Container

from conformance.nodes.base import Node
from conformance.tester import Fencing
from fuzz.oracles.base import Harm, Spot
from fuzz.oracles.besides import BESIDES
from fuzz.oracles.common import COMMON, CommonKeys, declared, served, undeclared
from fuzz.oracles.fresh import EXCHANGES, EXCHANGES_AGAIN, Fresh
from fuzz.oracles.guests import SOON, Guests
from fuzz.oracles.machine import TURN, Turns, Watch
from fuzz.oracles.reading import (
    ROOMY,
    Joiner,
    Numbering,
    Unread,
    has_lanes,
    head_of,
    id_of,
    lease_of,
    to_others,
)
from fuzz.oracles.service import ASKED_MS, close_words, door_to, question_of
from fuzz.oracles.trouble import MUTE, OUTLIVE, Trouble, Wrong
from fuzz.player import Answer, Pipe, Player, Trace
from fuzz.player.answers import OURS
from fuzz.player.fitting import batches, fragments
from fuzz.player.pipe import FIRST_SN
from fuzz.states import State
from scapy_layers import extensions as ext
from scapy_layers.batch import contents
from scapy_layers.codes import NetworkId, Priority, QueryTarget
from scapy_layers.data import Put, Query, Reply
from scapy_layers.declarations import DeclareKeyExpr, DeclareQueryable, DeclareSubscriber
from scapy_layers.network import Declare, Push, Request, Response, ResponseFinal
from scapy_layers.primitives import write_vle
from scapy_layers.transport import Frame, KeepAlive

TRACE_BYTES = 1 << 20
"""So much of what the canary said is remembered."""

KEEP_SECONDS = 1.0
"""A session that says nothing sends KEEP_ALIVE so often, or four times in the lease that the node names."""

NEGLECT_SECONDS = 3.0
"""A session that we left alone for longer, or for half of the lease that the node names, may be ended by it."""

EXCUSED_SECONDS = 5.0
"""So long after that it may still be seen to have ended it."""

PROMPT = 0.004
"""Seconds in which what we send is there when nothing is wrong; a beat waits no longer."""

ODD_AGE = 0.05
"""Seconds after which it is looked for in earnest."""

LOOKS = 8
"""Exchanges of a thorough look; one loss in three is not missed by them."""

COMMON_TRIES = 3
"""So often something is published on a key that cases use before it is said that it is not carried: it may be dropped."""

RARE_LOOKS = 150
"""The same where scripts are tried of which one may have spoilt something that is spoilt now and then: one in 50 is not
missed by them."""

LEAST_LOOKS, LOOK_SECONDS, RARE_SECONDS = 3, 0.5, 3.0
"""With a node that takes long to answer so many are enough when so much time has passed."""

FIRST_SHARE = 0.25
"""Share of T1 that a session is waited for, before a new one shows whether the node answers anybody."""

BUSY_TIMES = 4
"""On a machine that is busy with other things, so many times as long is waited once more."""

WAITING_MS = 2000
"""So long a query waits for our reply, in ms; nothing piles up in a node that loses them."""

IDS = 16
"""Request ids are used again after so many, so that the end of a query is recognised by its bytes."""

COMPLETE = ext.QueryableInfo(complete=1)
"""With it a query goes to our queryable only, and not to sessions of the campaign of which a node does not know yet
what they serve."""

WORD = 16
DIGITS = 12
FILLER = 24
ALIASES = 40
"""The publisher has so many keys; the first one is used, as it must be whatever is declared behind it."""

REPLIES = 2
"""Alias of our queryable's key in its session: every other reply goes by it."""

SPREAD = 64
"""Payloads have so many lengths in turn: a fault may show at a few of them only."""

PIECE = 40_000
"""So much of a large publication goes in one FRAGMENT, or less where the node has agreed to smaller batches."""

STEP = 0.02

SLOW_TIMES = 4
"""A node that takes long when it is fresh is waited for so many times as long, wherever that is more."""

URGENT = ext.QoS(D=1, E=1)
"""What the canary sends may not be dropped and does not wait for company."""


class Canary:
    """The sessions and their traffic.

    Args:
        node: The node; it listens.
        reply: T1 in seconds.
        rng: Draws the words.
        unjudged: What is not judged any more.
        fresh: What is known of other processes of this node, which is not tried again; it becomes more.

    Attributes:
        routes: Publications arrive, as far as was seen when the node was fresh.
        replies: So do queries and replies.
        joins: Publications arrive that go in two fragments, of which the second is sent when the next look is taken: what
            cases do meanwhile is no part of them.
        named: Publications arrive whose key is an alias; every other one goes so.
        named_replies: So do replies.
        besides: What it carries besides, as numbers of ``BESIDES``.
        asked: The node answers fences.
        baseline: Latency of a fresh node in seconds, the median.
        recent: Seconds that the latest exchanges took.
        common: What goes through keys that cases use.
        guests: Sessions that come and go, and what is left of them.
        key: What is published on.
        question: What asks the node whether it is done; empty when nobody can ask it.
        player: Makes the links.
        pipes: The links.
        trace: What went over them.
    """

    besides: list[int]
    _lanes: dict[int, int]
    _missing: set[int]

    def __init__(
        self,
        node: Node,
        reply: float,
        rng: random.Random,
        unjudged: Container[Spot] = (),
        fresh: Fresh | None = None,
    ) -> None:
        self.reply = reply
        self._node = node
        self._unjudged, self._fresh = unjudged, fresh if fresh is not None else Fresh()
        word = f"{rng.getrandbits(64):016x}".encode()
        self._word = word
        self._fillers = [rng.randbytes(FILLER + number % SPREAD) for number in range(256)]
        self.trace = Trace(TRACE_BYTES)
        self.question = question_of(node.fence)
        self.player = Player(door_to(node), reply, Fencing(node.fence), rng, self.trace, Unread(word))
        key = f"@zenoh-harness/canary/{rng.getrandbits(64):016x}"
        self.key = key
        self._push = head_of(Push(key_suffix=key, extensions=[URGENT], body=Put(data=b"")), b"\0")
        self._named_push = head_of(Push(key_scope=1, M=1, extensions=[URGENT], body=Put(data=b"")), b"\0")
        self._request = head_of(
            Request(
                request_id=0,
                key_suffix=key,
                extensions=[
                    URGENT,
                    ext.Target(target=QueryTarget.BEST_MATCHING),
                    ext.Timeout(timeout=WAITING_MS),
                ],
                body=Query(P=1, parameters="0" * (WORD + 1 + DIGITS)),
            ),
            b"0" * (WORD + 1 + DIGITS),
        )
        self._response, self._named_response = (
            head_of(
                Response(request_id=0, **where, extensions=[URGENT], body=Reply(body=Put(data=b""))), b"\0"
            )
            for where in ({"key_suffix": key}, {"key_scope": REPLIES, "M": 1})
        )
        self._final = bytes(ResponseFinal(request_id=0))[:1]
        self.publisher: Pipe
        self.subscriber: Pipe
        self.idler: Pipe
        self.pipes: list[Pipe] = []
        self.routes = self.replies = self.asked = self.joins = self.named = self.named_replies = False
        # Whether the last one went by an alias, and the number of one that a fresh node did not hand on.
        self._by_alias, self._given_up = False, 0
        self.baseline = 0.0
        self.recent: deque[float] = deque(maxlen=EXCHANGES)
        self.common = CommonKeys(rng)
        self.guests = Guests(self)
        self._extra = self._extra_seen = self._number = self._seen = 0
        self._keep, self._neglect = KEEP_SECONDS, NEGLECT_SECONDS
        self._sent_at = 0.0
        self._begun = self._whole = self._joined = 0
        self._joined_at = 0.0
        self._rest = b""
        self.besides, self._lanes, self._missing = [], {}, set()
        self._alone = True
        self._foreign = 0
        # The last one is the last query that was replied to by an alias.
        self._query = self._queried = self._replied = self._aliased = 0
        self._query_at = 0.0
        self._wrong: deque[Trouble] = deque()
        self._numbering = Numbering(word)
        self._uncounted: list[tuple[Pipe, bytes]] = []
        self._joiner = Joiner(self.player.answers)
        self._keep_at = 0.0
        self._said_at: dict[Pipe, float] = {}
        self._excused: dict[Pipe, float] = {}
        self._wanted: dict[Pipe, int] = {}

    # Sessions ----------------------------------------------------------------------------------------

    def open(self) -> None:
        """Opens the sessions, and sees what the node does for them.

        Raises:
            NotReached: It does not open them.
        """
        self.publisher = self.player.reach(State.OPEN, "publisher")
        self.subscriber = self.player.reach(State.OPEN, "subscriber")
        self.idler = self.player.reach(State.OPEN, "idler")
        now = time.perf_counter()
        self.pipes = [self.publisher, self.subscriber, self.idler]
        self._said_at = dict.fromkeys(self.pipes, now)
        # A node may take the shorter of two leases, its own.
        lease = min(lease_of(pipe) for pipe in self.pipes)
        self._keep, self._neglect = min(KEEP_SECONDS, lease / 4), min(NEGLECT_SECONDS, lease / 2)
        for body in (
            DeclareSubscriber(entity_id=1, key_suffix=self.key),
            DeclareQueryable(entity_id=2, key_suffix=self.key, extensions=[COMPLETE]),
        ):
            self.say(self.subscriber, bytes(Declare(body=body)))
        self.asked = self.answers(self.subscriber, self.reply) and self.answers(self.publisher, self.reply)
        self._measure()
        if self.routes:
            self._try_aliases()
        if self.routes and self.publisher.stream:
            self._try_fragments()
        if self.routes and self.asked:
            self._try_others()
        self._alone = False
        if not self.routes:
            # What it publishes of its own, to all that are there, is its business.
            self._wrong = deque(trouble for trouble in self._wrong if trouble.wrong is not Wrong.ASTRAY)
        if not self.routes and not self.replies:
            # A node that carries nothing may be a small one, which takes few links.
            self.player.links.pop("idler").close()
            self.pipes.remove(self.idler)

    def _measure(self) -> None:
        """Learns what the node does for us, and how long it takes.

        What it spoils already now, with nothing but this sent to it, is wrong at the first look.
        """
        self.routes = self.replies = True
        known = self._fresh.exchanges
        for _ in range(EXCHANGES_AGAIN if len(known) == EXCHANGES else EXCHANGES):
            self._send()
            self.hear(self._complete, self.reply if not self.recent else self._usual(2 * ODD_AGE))
            if not self.recent and self._seen < self._number:
                self.routes = False
            if self._replied < self._query:
                self.replies = self._replied > 0
            if not self.routes and not self.replies:
                break
        # Of a process that is not fresh any more only we are to know how long it takes.
        times = sorted([*known, *self.recent])
        self.baseline = times[len(times) // 2] if times else 0.0

    def _try_aliases(self) -> None:
        """Sees whether publications arrive whose key is an alias; behind it more aliases are declared."""
        keys = self.key, *(f"{self.key}/{number}" for number in range(2, ALIASES + 1))
        first, *others = (
            bytes(Declare(body=DeclareKeyExpr(key_id=number, key_suffix=key)))
            for number, key in enumerate(keys, 1)
        )
        self.say(self.publisher, first)
        self.named = True
        for _ in range(0 if self._fresh.aliases else 2):
            self._send()
            self.named = self.hear(self._complete, self.reply)
            if not self.named:
                # It may still come.
                self._given_up, self._seen, self._replied = self._number, self._number, self._query
                return
        self._fresh.aliases = True
        self.say(self.publisher, *others)
        if self.replies:
            self._try_named_replies()

    def _try_named_replies(self) -> None:
        """Sees whether replies arrive whose key is an alias."""
        self.say(self.subscriber, bytes(Declare(body=DeclareKeyExpr(key_id=REPLIES, key_suffix=self.key))))
        self.named_replies = True
        for _ in range(0 if self._fresh.named_replies else 2):
            self._send()
            if not self.hear(self._complete, self.reply):
                self.named_replies, self._replied = False, self._query
                return
        self._fresh.named_replies = True

    def _try_fragments(self) -> None:
        """Sees whether publications arrive that go in fragments; behind it one is begun."""
        self.joins = True
        if not self._fresh.fragments:
            watch = Watch()
            for _ in range(2):
                self._send()
                if not self.hear(self._complete, self._usual(2 * ODD_AGE)) and self.answers(
                    self.subscriber, self.first_share
                ):
                    self.hear(self._complete, self.reply if watch.busy else self._usual(2 * ODD_AGE))
            self.joins = self._fresh.fragments = self._joined == self._whole > 0
        if self.joins:
            # Never ended: what goes in fragments on the other lane of the session is no part of it.
            pipe = self.publisher
            self._write(pipe, *fragments(self._push, pipe, last=False, reliable=False))

    def _try_others(self) -> None:
        """Sees what the node does besides: large publications, keys that cases use, tokens."""
        if self.publisher.stream:
            self._try_besides()
        fresh = self._fresh
        if len(fresh.common) < len(COMMON):
            missing = self._published_on(COMMON)
            fresh.common = tuple(key for key in COMMON if missing is not None and key not in missing)
        self.common.carried = fresh.common
        guests = self.guests
        guests.tokens = fresh.tokens
        if self.publisher.stream and not fresh.tokens:
            wrong = guests.wrong()
            fresh.tokens = wrong is None
            guests.tokens = wrong is None or wrong in OUTLIVE
            if wrong in OUTLIVE:
                self._note(wrong, OUTLIVE[wrong])

    def _try_besides(self) -> None:
        """Sees what it carries besides, up to the first size and the first priority that it does not."""
        known = self._fresh.besides
        lost = set() if has_lanes(self.publisher) else {True}
        for place, one in enumerate(BESIDES):
            ranked, spot = one.priority != Priority.DATA, (Harm.DISTURBED, f"not to be tried: {one}")
            if ranked in lost or spot in self._unjudged:
                lost.add(ranked)
            elif place in known or self._carries(place):
                self.besides.append(place)
            else:
                lost.add(ranked)
                harmed = self.gone is not None or not self.answers(self.publisher, self.reply)
                if harmed and isinstance(self._unjudged, dict):
                    # Cases are to find that, and not each start of a node to end so.
                    self._unjudged[spot] = "it harms a fresh node"
        self._fresh.besides = self.besides

    def _carries(self, place: int) -> bool | None:
        """Publishes one of ``BESIDES``; tells whether it arrives, None when the sessions are not answered."""
        self._extra = (self._extra // len(BESIDES) + 1) * len(BESIDES) + place
        watch = Watch()
        self._write(self.publisher, *self._extra_batches())
        if not self.hear(self._has_come, self.odd_age):
            for pipe in (self.publisher, self.subscriber):
                if not self.answers(pipe, self.first_share):
                    return None
            # A node may hand on by another thread than the one that answers, and on other lanes later.
            ranked = BESIDES[place].priority != Priority.DATA
            self.hear(self._has_come, self.reply if watch.busy or ranked else 2 * self.odd_age)
        return self._has_come()

    def _extra_batches(self) -> list[bytes]:
        """Returns what publishes the one whose turn it is."""
        pipe, one = self.publisher, BESIDES[self._extra % len(BESIDES)]
        payload = self._extra_payload(self._extra)
        if one.priority != Priority.DATA:
            number = self._lanes[one.priority] = self._lanes.get(one.priority, FIRST_SN - 1) + 1
            lane = Frame(R=1, sn=number & pipe.sn_mask, extensions=[ext.Lane(priority=one.priority)])
            qos = ext.QoS(D=1, E=1, priority=one.priority)
            return [bytes(lane) + bytes(Push(key_suffix=self.key, extensions=[qos], body=Put(data=payload)))]
        push = self._push + write_vle(len(payload)) + payload
        if len(push) <= PIECE:
            return batches(push, pipe)
        cuts = range(0, len(push), PIECE)
        return [
            part
            for at in cuts
            for part in fragments(push[at : at + PIECE], pipe, first=not at, last=at == cuts[-1])
        ]

    def _has_come(self) -> bool:
        return self._extra_seen == self._extra

    def _extra_payload(self, number: int) -> bytes:
        """Returns one of which any part that is missing, or in another place, shows."""
        start = self._mark(b"l", number)
        return start + random.Random(number).randbytes(BESIDES[number % len(BESIDES)].size - len(start))

    def close(self) -> None:
        """Ends the sessions."""
        self.player.close()

    def keep(self) -> None:
        """Says KEEP_ALIVE where nothing was said for a while, and takes in what came. Cheap; called often."""
        now = time.perf_counter()
        if now < self._keep_at:
            return
        self._keep_at = now + self._keep / 2
        for pipe in self.pipes:
            if now - self._said_at[pipe] >= self._keep:
                self._write(pipe, _KEEP_ALIVE)
            self._take(pipe)
        self._count()

    def neglected(self, pipe: Pipe) -> bool:
        """Tells whether we are silent, or were until a moment ago, for so long that a node may end the session."""
        now = time.perf_counter()
        return now < self._excused.get(pipe, 0.0) or now - self._said_at[pipe] > self._neglect

    # Sending -----------------------------------------------------------------------------------------

    def _write(self, pipe: Pipe, *batches: bytes) -> None:
        now = time.perf_counter()
        if now - self._said_at[pipe] > self._neglect:
            self._excused[pipe] = now + EXCUSED_SECONDS
        self._said_at[pipe] = now
        if not pipe.stream:
            for batch in batches:
                pipe.send(batch)
            return
        pipe.send(b"".join([part for batch in batches for part in (len(batch).to_bytes(2, "little"), batch)]))

    def say(self, pipe: Pipe, *messages: bytes) -> None:
        """Sends messages, each in as many batches as it needs."""
        self._write(pipe, *(batch for message in messages for batch in batches(message, pipe)))

    def _send(self, *, apart: bool = False) -> None:
        """Publishes the next number and asks the next query, unless those before are still under way.

        Args:
            apart: The publication goes in two fragments, where the node joins them.
        """
        messages: list[bytes] = []
        sent: list[bytes] = []
        pipe, now = self.publisher, time.perf_counter()
        if self.routes and self._seen >= self._number:
            self._number += 1
            self._sent_at = now
            self._by_alias = self.named and not apart and not self._number % 2
            push = (self._named_push if self._by_alias else self._push) + self._payload(b"p", self._number)
            if apart and self.joins:
                half = len(push) // 2
                sent += fragments(push[:half], pipe, last=False)
                sent += fragments(push[half:], pipe, first=False)
            else:
                messages.append(push)
        if self.replies and self._replied >= self._query:
            self._query += 1
            self._query_at = now
            head = self._request[:1] + write_vle(self._query % IDS + 1) + self._request[2:]
            messages.append(head + self._mark(b"q", self._query))
        for message in messages:
            sent += batches(message, pipe)
        if sent:
            self._write(pipe, *sent)
        if parts := self._parts():
            self._write(self.idler, *parts)
        # Meanwhile the node is at work.
        self._count()

    def _parts(self) -> list[bytes]:
        """Returns what ends the publication that was begun in fragments, and begins the next one."""
        pipe, parts = self.idler, []
        if self._joined < self._whole:
            return []
        if self._rest:
            parts += self._last_part()
        if self.joins:
            self._begun += 1
            push = self._push + self._payload(b"f", self._begun)
            half = len(push) // 2
            parts += fragments(push[:half], pipe, last=False)
            self._rest = push[half:]
        return parts

    def _last_part(self) -> list[bytes]:
        """Returns what ends the publication that was begun in fragments."""
        parts = fragments(self._rest, self.idler, first=False)
        self._rest, self._whole, self._joined_at = b"", self._begun, time.perf_counter()
        return parts

    def _mark(self, kind: bytes, number: int) -> bytes:
        return b"%b%b%012d" % (self._word, kind, number)

    def _payload(self, kind: bytes, number: int) -> bytes:
        """Returns a payload behind its length."""
        payload = self._mark(kind, number) + self._fillers[number & 0xFF]
        return bytes((len(payload),)) + payload

    # Hearing -----------------------------------------------------------------------------------------

    def _complete(self) -> bool:
        return (
            (self._seen >= self._number or not self.routes)
            and (self._replied >= self._query or not self.replies)
            and (self._joined >= self._whole or not self.joins)
        )

    def hear(self, done: Callable[[], bool], seconds: float, watch: Watch | None = None) -> bool:
        """Takes in what comes until a condition holds, a session ends, or time has passed."""
        deadline = time.perf_counter() + seconds
        poll = select.poll()
        for pipe in self.pipes:
            if not pipe.ended:
                poll.register(pipe.fileno(), select.POLLIN)
        while True:
            now = time.perf_counter()
            if now >= deadline or self.publisher.ended or self.subscriber.ended:
                self._take_all()
                return done()
            asked = min(STEP, deadline - now)
            ready = poll.poll(asked * 1000)
            if watch is not None and not ready:
                watch.woken(time.perf_counter() - now - asked - 0.001)
            self._take_all()
            if done():
                return True

    def _take_all(self) -> None:
        for pipe in (self.subscriber, self.publisher):
            self._take(pipe)
        if self.joins:
            self._take(self.idler)

    def _take(self, pipe: Pipe) -> None:
        for answer in self._came(pipe):
            if OURS in answer.batch:
                self._take_common(pipe, answer.batch)
            self.guests.told |= "D_TOKEN" in answer.names
            if answer.close is not None:
                pipe.facts["close"] = answer.close
            elif self._word in answer.batch:
                self._find(pipe, answer.batch)
            elif "PUSH" in answer.names and pipe is not self.publisher:
                self._stray(pipe, answer)
            elif (
                pipe is not self.publisher and _ANSWERS.intersection(answer.names) and to_others(answer.batch)
            ):
                self._note(Wrong.UNASKED, "a session receives an answer although it asked nothing")
        if pipe.finals > pipe.fences:
            pipe.fences = pipe.finals
            self._note(Wrong.UNASKED, "a session receives more answers than it sent queries")

    def _came(self, pipe: Pipe) -> list[Answer]:
        """Receives what is there; FRAGMENTs of a node that has agreed to small batches as FRAMEs."""
        pipe.receive()
        if not pipe.inbox:
            return []
        came = pipe.take()
        if pipe.stream:
            self._uncounted += ((pipe, answer.batch) for answer in came)
        if 0 < pipe.facts.get("room", 0) < ROOMY or self._extra_seen < self._extra:
            return [whole for answer in came for whole in self._joiner.take(pipe, answer)]
        return came

    def _take_common(self, pipe: Pipe, batch: bytes) -> None:
        if pipe is self.subscriber:
            self.common.take(batch)
        elif pipe is self.idler:
            self._note(
                Wrong.ASTRAY, "a session receives a publication for a key that it did not subscribe to"
            )

    def _count(self) -> None:
        """Sees whether the numbers of what came follow one another."""
        for pipe, batch in self._uncounted:
            if wrong := self._numbering.wrong(pipe, batch):
                self._note(Wrong.MISNUMBERED, f"the node skips or repeats sequence numbers: {wrong}")
        self._uncounted.clear()

    def _find(self, pipe: Pipe, batch: bytes) -> None:
        """Finds what carries our word in a batch."""
        at = batch.find(self._word)
        while at >= 0:
            behind = at + WORD + 1 + DIGITS
            kind, digits = batch[at + WORD : at + WORD + 1], batch[at + WORD + 1 : behind]
            number = int(digits) if digits.isdigit() else -1
            if pipe is self.subscriber and kind == b"q":
                self._serve(batch, number)
                self._queried = max(self._queried, number)
            elif kind == b"l" and pipe is self.subscriber:
                self._came_besides(batch[at:], number)
            else:
                whole = kind in {b"p", b"r", b"f"} and self._is_whole(batch, at, kind, number)
                if kind == b"f" and pipe is self.subscriber:
                    self._came_joined(number, whole=whole)
                elif kind == b"r" or pipe is self.publisher:
                    self._came_back(number, id_of(batch, NetworkId.RESPONSE), whole=whole)
                else:
                    self._arrived(number, whole=whole)
            at = batch.find(self._word, behind)

    def _is_whole(self, batch: bytes, at: int, kind: bytes, number: int) -> bool:
        payload = self._payload(kind, number)
        return batch[at - 1 : at - 1 + len(payload)] == payload

    def _arrived(self, number: int, *, whole: bool) -> None:
        sent = 0 < number <= self._number
        if not whole or not sent:
            self._note(
                Wrong.CHANGED, f"a publication arrives changed; the last one sent was number {self._number}"
            )
        # A changed one is not lost as well.
        if sent and number > self._seen:
            if number == self._number:
                self.recent.append(time.perf_counter() - self._sent_at)
            self._missing.update(range(self._seen + 1, number))
            self._seen = number
        elif whole and number in self._missing:
            self._missing.discard(number)
            self._note(Wrong.REORDERED, f"publication {number} arrives after {self._seen}")
        elif whole and sent and number != self._given_up:
            self._note(Wrong.TWICE, f"publication {number} arrives again, after {self._seen}")

    def _came_joined(self, number: int, *, whole: bool) -> None:
        if not whole:
            self._note(
                Wrong.CHANGED,
                f"a fragmented publication arrives changed; the last one sent was number {self._whole}",
            )
        elif number <= self._joined:
            self._note(Wrong.TWICE, f"fragmented publication {number} arrives again")
        elif number > self._joined + 1:
            self._note(Wrong.UNJOINED, f"fragmented publication {number} arrives, the one before it does not")
        # A changed one is not lost as well.
        self._joined = max(self._joined, min(number, self._whole))

    def _came_besides(self, behind: bytes, number: int) -> None:
        """Takes in one of ``BESIDES``; ``behind`` is its payload and what stands behind it."""
        if number != self._extra:
            return
        self._extra_seen, one = number, BESIDES[number % len(BESIDES)]
        if behind[: one.size] != self._extra_payload(number):
            wrong = Wrong.CHANGED if one.priority != Priority.DATA else Wrong.LARGE_CHANGED
            self._note(wrong, f"{one} arrives changed")

    def _came_back(self, number: int, request: int | None, *, whole: bool) -> None:
        if not whole or not 0 < number <= self._query:
            self._note(
                Wrong.REPLY_CHANGED, f"a reply arrives changed; the last query was number {self._query}"
            )
        elif request is not None and request != number % IDS + 1:
            self._note(
                Wrong.REPLY_ASTRAY,
                f"the reply to query {number} arrives with id {request}; the query had id {number % IDS + 1}",
            )
        self._replied = max(self._replied, min(number, self._query))

    def _serve(self, batch: bytes, number: int) -> None:
        """Replies to a query."""
        request = id_of(batch, NetworkId.REQUEST)
        if request is None:
            return
        rid = write_vle(request)
        by_alias = self.named_replies and not number % 2
        head = self._named_response if by_alias else self._response
        if by_alias:
            self._aliased = number
        reply = head[:1] + rid + head[2:] + self._payload(b"r", number)
        self.say(self.subscriber, reply + self._final + rid)
        if time.perf_counter() - self._query_at > WAITING_MS / 2000:
            # We were at something else when it came, and by now the node may have given it up.
            self._replied = max(self._replied, number)

    def _stray(self, pipe: Pipe, answer: Answer) -> None:
        """Looks at a publication without our word: one of ours of which nothing is left, or one for another key.

        As soon as others are there it may be theirs: where a node tells them of the subscriber by an alias, a stimulus
        may hit upon that. It is ours when ours does not come.
        """
        for message in contents(answer.batch).messages:
            for inside in getattr(message, "messages", None) or ():
                if not isinstance(inside, Push) or inside.key_scope:
                    continue
                if pipe is self.subscriber and inside.value("key_suffix") in _COMMON:
                    # It has asked for these, or had until a moment ago.
                    continue
                if inside.value("key_suffix") != self.key.encode():
                    self._note(
                        Wrong.ASTRAY,
                        "a session receives a publication for a key that it did not subscribe to",
                    )
                elif pipe is self.subscriber and self._alone:
                    self._arrived(self._number, whole=False)
                elif pipe is self.subscriber and self._seen < self._number:
                    self._foreign = self._number

    def _note(self, wrong: Wrong, detail: str) -> None:
        """Remembers what is wrong until somebody asks; the same only once."""
        if wrong is Wrong.ASTRAY and not self.routes:
            return
        trouble = Trouble(wrong, "", detail)
        if (Harm.DISTURBED, trouble.place) in self._unjudged:
            return
        if all(one.wrong is not wrong for one in self._wrong):
            self._wrong.append(trouble)

    # Judging -----------------------------------------------------------------------------------------

    def ask(self) -> None:
        """Asks the node in the sessions that send whether it is done; ``answered`` tells."""
        for pipe in (self.publisher, self.subscriber):
            self._wanted[pipe] = self._question_in(pipe)

    def answered(self, seconds: float) -> bool:
        """Tells whether the node answers in one of the sessions that were asked, in time."""
        return self.hear(lambda: any(pipe.finals >= wanted for pipe, wanted in self._wanted.items()), seconds)

    def answers(self, pipe: Pipe, seconds: float, question: bytes = b"") -> bool:
        """Asks the node in one of the sessions whether it is done; tells whether it answers in time.

        Args:
            pipe: The session.
            seconds: How long it may take.
            question: Asks that by another query than the usual one.
        """
        wanted = self._question_in(pipe, question)
        return bool(self.question) and self.hear(lambda: pipe.finals >= wanted, seconds)

    def _question_in(self, pipe: Pipe, question: bytes = b"") -> int:
        """Asks in a session; returns how many answers show that all that was sent before it was dealt with."""
        pipe.fences += 1
        if question or self.question:
            self.say(pipe, question or self.question)
        return pipe.fences

    def beat(self) -> Trouble | None:
        """One exchange; what does not come at once is looked for at the next beat."""
        if not self.routes and not self.replies:
            return self._beat_of_fences()
        self._send()
        if self.hear(self._complete, PROMPT) and not self._wrong and self.gone is None:
            return None
        return self.trouble()

    def look(self, *, rare: bool = False, every: bool = False) -> Trouble | None:
        """Some exchanges, each waited for; ``recent`` tells how long they took.

        Args:
            rare: So many of them that something that goes wrong now and then is seen.
            every: All that is published by turns.
        """
        most, seconds = (RARE_LOOKS, RARE_SECONDS) if rare else (LOOKS, LOOK_SECONDS)
        self.recent.clear()
        if self.idler in self.pipes:
            self._take(self.idler)
        if not self.routes and not self.replies:
            return self._beat_of_fences()
        began = time.perf_counter()
        for number in range(most):
            if number >= LEAST_LOOKS and time.perf_counter() - began > seconds:
                break
            self._send(apart=number % 4 in (1, 2))
            if not self.hear(self._settled, self.odd_age) or not self._complete():
                trouble = self.trouble() or self._overdue()
                if trouble is not None:
                    return trouble
        return self.trouble() or self._look_besides(every=every)

    def _look_besides(self, *, every: bool) -> Trouble | None:
        """Publishes one of ``BESIDES``, or each of those that the node carries."""
        turn = [*self.besides, *self.besides]
        at = next((index for index, place in enumerate(turn) if place > self._extra % len(BESIDES)), 0)
        for place in turn[at : at + len(self.besides) if every else at + 1]:
            one = BESIDES[place]
            lost = Wrong.LARGE_LOST if one.priority == Priority.DATA else Wrong.UNRANKED
            if (Harm.DISTURBED, str(lost)) in self._unjudged:
                continue
            arrives = self._carries(place)
            if arrives is None:
                return self._of_end() or MUTE
            if not arrives and self.gone is None:
                self._extra_seen = self._extra
                return Trouble(lost, "", f"{one} does not arrive although sessions are answered; others do")
            if trouble := self.trouble():
                return trouble
        return None

    def look_at_common(self) -> Trouble | None:
        """Publishes on keys that cases use, for which there are subscribers of ours for this moment."""
        missing = self._published_on(self.common.carried, overlapping=True)
        if missing is None or not (missing or self._behind_ends()):
            return self._of_end() or MUTE
        common = self.common
        lost = "do not arrive although sessions are answered and other keys are delivered"
        wrong: list[tuple[Wrong, Wrong, Collection[str], str]] = [
            (Wrong.COMMON_SILENT, Wrong.SILENT, missing, lost),
            (Wrong.COMMON_CHANGED, Wrong.CHANGED, common.changed, "arrive changed"),
            (Wrong.COMMON_TWICE, Wrong.TWICE, common.twice, "arrive twice"),
            (Wrong.KEPT, Wrong.KEPT, common.kept, "or queries, arrive behind the end of what they are for"),
        ]
        for what, always, keys, how in wrong:
            # What a node does with every key is not said of one.
            if keys and not any((Harm.DISTURBED, str(one)) in self._unjudged for one in (what, always)):
                return Trouble(what, "", f"publications for {', '.join(sorted(keys))} {how}")
        return self.trouble()

    def _published_on(self, keys: tuple[str, ...], *, overlapping: bool = False) -> tuple[str, ...] | None:
        """Subscribes to some keys, publishes on each, and takes the subscribers back.

        Args:
            keys: Without wild cards.
            overlapping: Our publisher subscribes too, and takes that back before: to take one subscriber back is not to
                take away those of others.

        Returns:
            Those of which nothing arrives; None when the sessions are not answered.
        """
        if not keys:
            return ()
        common = self.common
        common.begin()
        self.say(self.subscriber, declared(keys))
        if not self.answers(self.subscriber, self.first_share):
            return None
        if overlapping:
            self.say(self.publisher, declared(keys), undeclared(len(keys)))
        missing = keys
        for _ in range(COMMON_TRIES):
            watch = Watch()
            self.say(self.publisher, common.published(missing))
            if not self.hear(lambda: not common.missing, self.odd_age):
                for pipe in (self.publisher, self.subscriber):
                    if not self.answers(pipe, self.first_share):
                        return None
                # A node may hand on by another thread than the one that answers.
                self.hear(lambda: not common.missing, self.reply if watch.busy else 2 * self.odd_age)
            missing = common.missing
            if not missing or self.gone is not None:
                break
        self.say(self.subscriber, undeclared(len(keys)))
        # What comes twice is there by then.
        answered = self.answers(self.subscriber, self.first_share)
        return missing if answered else None

    def _behind_ends(self) -> bool:
        """Publishes and asks behind the end of subscribers and of a queryable, again for a while where that arrives.

        Returns:
            Whether the sessions are answered; ``common.kept`` tells what arrives.
        """
        common, until = self.common, time.perf_counter() + self.reply
        key = f"{self.key}/served" if self.replies and self._node.fence == Fencing.QUERY else ""
        if key:
            self.say(self.subscriber, served(key))
            if not self.answers(self.subscriber, self.first_share):
                return False
        while True:
            last = time.perf_counter() >= until
            common.taken_back()
            self.say(self.publisher, common.published_behind(common.carried))
            # A queryable that is there still keeps the query waiting.
            query = common.asked_behind(key, ASKED_MS) if key else b""
            answered = self.answers(self.publisher, self.first_share, query)
            answered = answered and self.answers(self.subscriber, self.first_share)
            if not common.kept:
                return answered
            if last:
                return True
            # A node may take a moment to see to it.
            self.hear(lambda: False, SOON)

    def carries_common(self) -> bool:
        """The same; tells whether all arrives."""
        return bool(self.common.carried) and self._published_on(self.common.carried, overlapping=True) == ()

    def look_at_tokens(self, *, at_once: bool = True) -> Trouble | None:
        """Has a session come and go, and looks what is left of it; see ``Guests.wrong``."""
        wrong = self.guests.wrong(at_once=at_once)
        if wrong is None and at_once:
            # What one leaves behind shows in the next one.
            wrong = self.guests.wrong()
        if wrong is None:
            return self.trouble()
        if wrong is Wrong.MUTE:
            return self._of_end() or MUTE
        return Trouble(wrong, "", OUTLIVE.get(wrong, f"a {wrong} although sessions are answered"))

    def _settled(self) -> bool:
        return self._complete() or bool(self._wrong)

    def _beat_of_fences(self) -> Trouble | None:
        """The same for a node that carries nothing from session to session."""
        began = time.perf_counter()
        if not self.asked or self.answers(self.publisher, PROMPT):
            self.recent.append(time.perf_counter() - began)
            return self.trouble()
        if self.gone is not None or self.answers(self.publisher, self.first_share):
            return self.trouble()
        return MUTE

    def timed(self) -> float | None:
        """One exchange, waited for; returns how long it took, None when something is wrong."""
        if not self.routes:
            began = time.perf_counter()
            answered = self.asked and self.answers(self.publisher, self.patience)
            return time.perf_counter() - began if answered else None
        seen = self._seen
        self._send()
        return self.recent[-1] if self.hear(self._complete, self.patience) and self._seen > seen else None

    def trouble(self) -> Trouble | None:
        """Returns what is wrong; looks for what is overdue."""
        self._count()
        ended = self._of_end()
        if ended is not None:
            return ended
        if self._wrong:
            return self._wrong.popleft()
        now = time.perf_counter()
        overdue = (self.routes and self._seen < self._number and now - self._sent_at > self.odd_age) or (
            self.replies and self._replied < self._query and now - self._query_at > self.odd_age
        )
        overdue |= self.joins and self._joined < self._whole and now - self._joined_at > self.odd_age
        return self._overdue() if overdue else None

    @property
    def gone(self) -> Pipe | None:
        """The first link that the node has ended, or on which it said CLOSE."""
        return next((pipe for pipe in self.pipes if pipe.ended or "close" in pipe.facts), None)

    def _of_end(self) -> Trouble | None:
        """Returns which of the sessions has ended."""
        pipe = self.gone
        if pipe is None:
            return None
        reason = pipe.facts.get("close")
        how = "end of the link" if reason is None else close_words(reason)
        name = {self.publisher: "publisher", self.subscriber: "subscriber"}.get(pipe, "third session")
        detail = f"the node ended the session of the fuzzer's {name}, which did nothing wrong ({how})"
        return Trouble(Wrong.ENDED, how, detail)

    def _usual(self, seconds: float) -> float:
        """Returns seconds that are no sign of trouble: more than a time when a fresh node took long."""
        baseline = self.baseline or (self.recent[0] if self.recent else 0.0)
        return max(seconds, SLOW_TIMES * baseline)

    @property
    def odd_age(self) -> float:
        """Seconds after which what was sent is looked for in earnest."""
        return self._usual(ODD_AGE)

    @property
    def first_share(self) -> float:
        """Seconds that a session is waited for, before a new one shows whether the node answers anybody."""
        return min(self.reply, self._usual(self.reply * FIRST_SHARE))

    @property
    def patience(self) -> float:
        """Seconds after which something is late: many times what it took at first."""
        return max(2 * self.reply, 100 * self.baseline)

    def later(self) -> Trouble | None:
        """Waits for sessions that did not answer; returns what it means, nothing when it did not take too long.

        On a busy machine it waits longer, and nothing that comes is late.
        """
        watch, turns = Watch(), Turns(self._node.pid)
        since = self._sent_at if self._seen < self._number else time.perf_counter()
        self.ask()
        answered = self.answered(self.patience)
        if not answered and watch.busy and turns.had < self.patience * TURN:
            answered = self.answered(BUSY_TIMES * self.patience)
        took = time.perf_counter() - since
        if self._of_end() is not None:
            return self._of_end()
        if not answered:
            return MUTE
        if took > self.patience and not watch.busy:
            return Trouble(
                Wrong.LATE,
                "",
                f"for {took:.1f} s nothing was answered or forwarded in the fuzzer's own sessions",
            )
        return None

    def _overdue(self) -> Trouble | None:
        """Looks for what is overdue.

        What a session answers behind it shows that the node has dealt with it, however busy the machine is: first
        where it was sent, then where it should have come.
        """
        if not self.asked:
            return self._long_overdue()
        watch = Watch()
        read_at = None
        # The second time for a reply of ours to a query that came only now.
        for _ in range(2):
            replied = self._queried >= self._query
            senders = [self.publisher]
            if self.joins:
                # A question may not stand in the midst of what was begun in fragments: that is ended first.
                if self._rest:
                    self._write(self.idler, *self._last_part())
                senders.append(self.idler)
            for pipe in (*senders, self.subscriber, self.publisher):
                if not self.answers(pipe, self.first_share):
                    return self._of_end() or MUTE
            if replied and read_at is None:
                read_at = time.perf_counter()
            # A node may hand on by another thread than the one that answers.
            if self.hear(self._settled, self.reply if watch.busy else 2 * self.odd_age):
                return self._wrong.popleft() if self._wrong else None
        return self._missed("although sessions are answered", read_at)

    def _long_overdue(self) -> Trouble | None:
        """The same where sessions cannot be asked: only time tells, and more of it on a busy machine."""
        watch = Watch()
        if self.hear(self._settled, self.patience, watch) or (
            watch.busy and self.hear(self._settled, BUSY_TIMES * self.patience)
        ):
            return self._wrong.popleft() if self._wrong else None
        return self._missed(f"in {self.patience:g} s")

    def _missed(self, how: str, read_at: float | None = None) -> Trouble | None:
        """Returns what it means that something has not come.

        Args:
            how: How long it was waited for.
            read_at: When the node had read our reply for sure; None for now.
        """
        ended = self._of_end()
        if ended is not None:
            return ended
        lost, replied = self._seen < self._number, self._replied
        unjoined = self.joins and self._joined < self._whole
        if unjoined and not lost:
            self._joined = self._whole
            detail = f"a publication in two fragments does not arrive {how}; an unfragmented one does"
            return Trouble(Wrong.UNJOINED, "", detail)
        queried = self._queried
        self._replied = max(self._replied, self._query)
        if not lost:
            if queried < self._query:
                return Trouble(
                    Wrong.UNREPLIED, "", f"a query does not arrive at the fuzzer's queryable {how}"
                )
            if (read_at or time.perf_counter()) - self._query_at > WAITING_MS / 1000:
                # The node was at something else, and had to give the query up before it read our reply. One that
                # loses replies loses the next one too.
                return None
            return self._unreplied(replied + 1, how)
        return self._lost(how)

    def _unreplied(self, number: int, how: str) -> Trouble:
        """Returns what it means that a reply does not come back."""
        detail = f"the reply to query {number} does not come back {how}"
        if self._aliased < number:
            return Trouble(Wrong.NO_REPLY, "", detail)
        # The next one shows whether this one is lost, or all are.
        self._send()
        if self.hear(lambda: self._replied >= self._query, self.reply):
            return Trouble(Wrong.UNNAMED_REPLY, "", f"{detail}, whose key is an alias; the next one does")
        self._replied = self._query
        return Trouble(Wrong.NO_REPLY, "", detail)

    def _lost(self, how: str) -> Trouble:
        """Returns what it means that a publication does not arrive."""
        number, by_alias = self._number, self._by_alias
        self._seen = number
        if self._foreign == number:
            return Trouble(
                Wrong.CHANGED,
                "",
                f"publication {number} does not arrive {how}, but one that the fuzzer did not send does",
            )
        # The next one shows whether this one is lost, or all are.
        self._send()
        if self.hear(lambda: self._seen >= self._number, self.reply):
            if by_alias:
                detail = (
                    f"publication {number} does not arrive {how}, whose key is an alias; the next one does"
                )
                return Trouble(Wrong.UNNAMED, "", detail)
            return Trouble(Wrong.LOST, "", f"publication {number} does not arrive {how}; the next one does")
        self._seen, self._replied = self._number, self._query
        return Trouble(Wrong.SILENT, "", f"publications do not arrive {how}")


_KEEP_ALIVE = bytes(KeepAlive())
_ANSWERS = frozenset({"RESPONSE", "RESPONSE_FINAL"})
_COMMON = frozenset(key.encode() for key in COMMON)
