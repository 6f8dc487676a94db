"""Traffic that is right in every respect: nothing of it may harm a node, and no oracle may object.

What a case says is drawn: a conversation of a few links that publish, subscribe, ask, answer, declare and take back,
with keys and ids of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from fuzz.campaigns.base import Campaign, Setting
from fuzz.campaigns.messages import STAMP, ZID
from fuzz.campaigns.placing import STORED
from fuzz.cases import Source, reach, send
from fuzz.phrases import (
    DIGITS,
    Pieces,
    act,
    as_fragment,
    as_frame,
    failure,
    final,
    handshake,
    interest,
    listen,
    reply,
    with_digits,
)
from fuzz.player.sessions import ALIAS
from fuzz.script import SIZE, SIZE32, Do, Step
from fuzz.sequences import Drawn, Made
from fuzz.states import State
from scapy_layers import extensions as ext
from scapy_layers.codes import Consolidation, InterestMode, Priority, QueryTarget
from scapy_layers.data import Del, Put, Query, Reply
from scapy_layers.declarations import (
    DeclareKeyExpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    UndeclareKeyExpr,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from scapy_layers.message import Extension, Message
from scapy_layers.network import Declare, Interest, Push, Request, Response
from scapy_layers.transport import KeepAlive

STATES = (State.OPEN, State.DECLARED, State.ACCEPTED, State.LOW_LATENCY, State.COMPRESSED)
"""Sessions in which conversations take place."""

TOGETHER = 1000
"""Bytes of messages that go in one batch; several of more in one each: a node may have agreed to small ones."""

LARGEST = 200_000
"""Bytes of a value that is sent in fragments."""

PIECE = 30_000
"""Bytes of one of them."""

MOST_DRAWN = 251
"""So many bytes of a payload are drawn; behind them they come again."""

_FIRST_ID = 1 << 16
"""Ids that are drawn are not those of states."""


@dataclass(frozen=True, slots=True)
class Speaker:
    """One link of a conversation.

    Attributes:
        link: Its name.
        state: Where it is.
        rng: Draws what is said.
    """

    link: str
    state: State
    rng: random.Random

    def says(self, *messages: Message | Pieces, note: str) -> list[Step]:
        """Returns the steps that send network messages, as they travel in the state."""
        parts = [with_digits(*(part if isinstance(part, tuple) else (bytes(part),))) for part in messages]
        if self.state is State.LOW_LATENCY:
            return [send(SIZE32, *part, link=self.link, note=note) for part in parts]
        inside = [tuple(piece for part in parts for piece in part)]
        if sum(map(len, inside[0])) > TOGETHER:
            inside = [tuple(part) for part in parts]
        return [send(SIZE, *self._head, *as_frame(), *one, link=self.link, note=note) for one in inside]

    def says_in_pieces(self, message: Message, note: str) -> list[Step]:
        """Returns the steps that send a network message in fragments."""
        raw = bytes(message)
        cuts = range(0, len(raw), PIECE)
        return [
            send(
                SIZE,
                *self._head,
                *with_digits(*as_fragment(raw[at : at + PIECE], first=at == 0, more=at != cuts[-1])),
                link=self.link,
                note=note,
            )
            for at in cuts
        ]

    def renews(self) -> list[Step]:
        """Returns the step that sends KEEP_ALIVE."""
        prefix = SIZE32 if self.state is State.LOW_LATENCY else SIZE
        return [send(prefix, *self._head, bytes(KeepAlive()), link=self.link, note="KEEP_ALIVE")]

    def waits(self) -> list[Step]:
        """Returns the step that waits until the node has dealt with what was said."""
        return [act(Do.SETTLE, self.link)]

    @property
    def _head(self) -> Pieces:
        return (STORED,) if self.state is State.COMPRESSED else ()


Talk = Callable[[Speaker, Speaker, str, random.Random], list[Step]]
"""What two links say about a key."""


def _id(rng: random.Random) -> int:
    return rng.randrange(_FIRST_ID, 1 << 31)


def _qos(rng: random.Random) -> list[Extension]:
    chain: list[Extension] = []
    if rng.random() < 0.5:
        chain.append(ext.QoS(priority=rng.choice([*Priority][1:]), D=rng.randrange(2), E=rng.randrange(2)))
    if rng.random() < 0.2:
        chain.append(ext.Timestamp(timestamp=STAMP + rng.randrange(1 << 32), timestamp_id=ZID))
    return chain


def _payload(rng: random.Random, size: int) -> bytes:
    """Draws bytes. Long ones repeat themselves, so that rows of what was sent stay small when they are packed."""
    drawn = rng.randbytes(min(size, MOST_DRAWN))
    return drawn * (size // MOST_DRAWN) + drawn[: size % MOST_DRAWN] if size > MOST_DRAWN else drawn


def _value(rng: random.Random, size: int | None = None) -> Put:
    """Draws a value with or without each of its options."""
    put = Put(data=_payload(rng, rng.choice((0, 1, 5, 100, 1000, 20_000)) if size is None else size))
    if rng.random() < 0.3:
        put.timestamp, put.timestamp_id = STAMP + rng.randrange(1 << 40), ZID
    if rng.random() < 0.4:
        put.encoding = rng.randrange(53)
        if rng.random() < 0.3:
            put.schema = rng.choice((b"utf-8", b"x" * 200))
    chain: list[Extension] = []
    if rng.random() < 0.3:
        chain.append(ext.SourceInfo(zid=ZID, eid=rng.randrange(1 << 16), source_sn=rng.randrange(1 << 20)))
    if rng.random() < 0.3:
        chain.append(ext.PutAttachment(attachment=rng.randbytes(rng.randrange(1, 60))))
    put.extensions = chain
    return put


def _push(rng: random.Random, key: str, body: Message | None = None) -> Message:
    return Push(M=1, key_suffix=key, extensions=_qos(rng), body=body or _value(rng))


# What is talked about ------------------------------------------------------------------------------------


def _publishing(one: Speaker, other: Speaker, key: str, rng: random.Random) -> list[Step]:
    entity = _id(rng)
    pattern = rng.choice((key, f"{key}/**", f"{key}/*", f"{key}/a$*", "fuzz/**"))
    subscribed = Declare(body=DeclareSubscriber(entity_id=entity, key_suffix=pattern))
    steps = [*other.says(subscribed, note="D_SUBSCRIBER"), *other.waits()]
    for _ in range(rng.randrange(1, 6)):
        where = rng.choice((key, f"{key}/a", f"{key}/ab"))
        pushes = [_push(rng, where) for _ in range(rng.choice((1, 1, 1, 3)))]
        steps += one.says(*pushes, note="PUT")
    steps += one.says(_push(rng, f"{key}/a", Del()), note="DEL")
    steps += [
        *one.waits(),
        *other.says(Declare(body=UndeclareSubscriber(entity_id=entity)), note="U_SUBSCRIBER"),
    ]
    return steps


def _asking(one: Speaker, other: Speaker, key: str, rng: random.Random) -> list[Step]:
    entity = _id(rng)
    info = [ext.QueryableInfo(complete=rng.randrange(2), distance=0)]
    there = Declare(body=DeclareQueryable(entity_id=entity, key_suffix=key, extensions=info))
    chain: list[Extension] = [ext.Timeout(timeout=60_000)]
    if rng.random() < 0.5:
        chain.append(ext.Target(target=rng.choice([*QueryTarget][1:2])))
    query = Query(consolidation=rng.choice([*Consolidation]))
    if rng.random() < 0.4:
        query.parameters = "a=1;b=2"
    inner: list[Extension] = []
    if rng.random() < 0.3:
        inner.append(ext.QueryBody(encoding=4, data=rng.randbytes(rng.randrange(100))))
    if rng.random() < 0.3:
        inner.append(ext.QueryAttachment(attachment=b"at"))
    query.extensions = inner
    request = Request(request_id=_id(rng), M=1, key_suffix=key, extensions=chain, body=query)
    if one is other:
        # A session is not asked for what itself has asked.
        return [*other.says(there, note="D_QUERYABLE"), *one.says(request, note="REQUEST"), listen(one.link)]
    answers = [reply(key=key, data=rng.randbytes(rng.randrange(100))) for _ in range(rng.randrange(3))]
    if rng.random() < 0.3:
        answers = [failure(key=key)]
    return [
        *other.says(there, note="D_QUERYABLE"),
        *other.waits(),
        *one.says(request, note="REQUEST"),
        *one.waits(),
        listen(other.link),
        *(step for answer in answers for step in other.says(answer, note="RESPONSE")),
        *other.says(final(), note="RESPONSE_FINAL"),
        *other.waits(),
        listen(one.link),
        *other.says(Declare(body=UndeclareQueryable(entity_id=entity)), note="U_QUERYABLE"),
    ]


def _watching(one: Speaker, other: Speaker, key: str, rng: random.Random) -> list[Step]:
    entity, wanted = _id(rng), _id(rng)
    mode = rng.choice((InterestMode.CURRENT, InterestMode.FUTURE, InterestMode.CURRENT_FUTURE))
    ask = Interest(mode=mode, interest_id=wanted, tokens=1, key_suffix=f"{key}/**")
    alive = Declare(body=DeclareToken(entity_id=entity, key_suffix=f"{key}/t"))
    gone = Declare(body=UndeclareToken(entity_id=entity))
    steps = [
        *one.says(ask, note="INTEREST"),
        *one.waits(),
        *other.says(alive, note="D_TOKEN"),
        *other.waits(),
    ]
    if mode is not InterestMode.CURRENT and one is not other:
        # A session is not told of its own tokens.
        steps.append(listen(one.link))
    steps += [*other.says(gone, note="U_TOKEN"), *other.waits()]
    return (
        [*steps, *one.says(interest(wanted, InterestMode.FINAL), note="INTEREST, final")]
        if mode > 1
        else steps
    )


def _shortening(one: Speaker, other: Speaker, key: str, rng: random.Random) -> list[Step]:
    alias = rng.randrange(100, 60_000)
    entity = _id(rng)
    known = Declare(body=DeclareKeyExpr(key_id=alias, key_suffix=key))
    subscribed = Declare(body=DeclareSubscriber(entity_id=entity, key_scope=alias, M=1))
    said = [
        Push(M=1, key_scope=alias, key_suffix=suffix, body=_value(rng)) for suffix in (None, "/a", "/b/c")
    ]
    return [
        *one.says(known, note="D_KEYEXPR"),
        *other.says(known, subscribed, note="D_KEYEXPR, D_SUBSCRIBER"),
        *other.waits(),
        *one.says(*said, note="PUSH by alias"),
        *one.waits(),
        *other.says(Declare(body=UndeclareSubscriber(entity_id=entity)), note="U_SUBSCRIBER"),
        *(
            step
            for speaker in (one, other)
            for step in speaker.says(Declare(body=UndeclareKeyExpr(key_id=alias)), note="U_KEYEXPR")
        ),
    ]


def _at_length(one: Speaker, other: Speaker, key: str, rng: random.Random) -> list[Step]:
    entity = _id(rng)
    large = _push(rng, key, _value(rng, rng.randrange(1000, LARGEST)))
    subscribed = Declare(body=DeclareSubscriber(entity_id=entity, key_suffix=key))
    said = [] if one.state is State.LOW_LATENCY else one.says_in_pieces(large, "PUT in fragments")
    return [
        *other.says(subscribed, note="D_SUBSCRIBER"),
        *other.waits(),
        *said,
        *one.says(_push(rng, key), note="PUT"),
        *one.waits(),
        *other.waits(),
        *other.says(Declare(body=UndeclareSubscriber(entity_id=entity)), note="U_SUBSCRIBER"),
    ]


def _living(one: Speaker, other: Speaker, key: str, rng: random.Random) -> list[Step]:
    return [*one.renews(), *other.renews(), *one.says(_push(rng, key), note="PUT"), *one.renews()]


TALKS: dict[str, Talk] = {
    "publishing": _publishing,
    "asking": _asking,
    "watching": _watching,
    "shortening": _shortening,
    "at length": _at_length,
    "living": _living,
}


def _conversation(state: State, others: int, rng: random.Random) -> Drawn:
    """Draws what the link of a state and so many more talk about."""
    speakers = [Speaker("a", state, rng), *(Speaker(link, State.OPEN, rng) for link in "bcd"[:others])]
    steps: list[Step] = [reach(State.OPEN, speaker.link) for speaker in speakers[1:]]
    about = rng.choices(sorted(TALKS), k=rng.randrange(1, 4))
    for topic in about:
        one, other = rng.choice(speakers), rng.choice(speakers)
        # A session never gets what itself has said.
        steps += TALKS[topic](one, other, f"fuzz/{rng.getrandbits(40):x}{DIGITS}", rng)
    return Drawn(", ".join(about), tuple(dict.fromkeys(about)), steps)


def _one(topic: str, state: State, others: int, seed: str) -> Sequence[Step]:
    rng = random.Random(seed)
    speakers = [Speaker("a", state, rng), *(Speaker(link, State.OPEN, rng) for link in "bcd"[:others])]
    steps = [reach(State.OPEN, speaker.link) for speaker in speakers[1:]]
    return [*steps, *TALKS[topic](speakers[0], speakers[-1], f"fuzz/{topic.replace(' ', '-')}{DIGITS}", rng)]


def _drawn_answer(rng: random.Random) -> Drawn:
    return Drawn("a reply to a query that waits", ("reply",), _answer(f"{rng.random()}"))


def _answer(seed: str) -> Sequence[Step]:
    rng = random.Random(seed)
    raw = bytes(Response(request_id=0, M=1, key_scope=ALIAS, key_suffix="/q", body=Reply(body=_value(rng))))
    return Speaker("a", State.PENDING, rng).says((raw[:1], "rid", raw[2:]), note="RESPONSE")


def _meeting(seed: str) -> Sequence[Step]:
    """A session that begins as it should, says something and renews its lease."""
    rng = random.Random(seed)
    speaker = Speaker("a", State.OPEN, rng)
    pushes = [
        step for _ in range(rng.randrange(1, 4)) for step in speaker.says(_push(rng, "fuzz/k"), note="PUT")
    ]
    return [*handshake(), *pushes, *speaker.renews()]


def _drawn_meeting(rng: random.Random) -> Drawn:
    return Drawn("a handshake by hand", ("meeting",), _meeting(f"{rng.random()}"))


def make(setting: Setting) -> Iterator[Source]:
    """Conversations of one link and of several in every kind of session; handshakes."""
    for state in STATES:
        # Beside a link that the node makes, we have none; and it takes its time to make another one.
        for others in (0,) if state is State.ACCEPTED else (0, 1, 3):
            topics = {
                topic: partial(_one, topic, state, others, f"{setting.seed} {topic}") for topic in TALKS
            }
            draw = partial(_conversation, state, others)
            name = f"conversations of {others + 1} in {state}"
            alone = state is not State.ACCEPTED
            yield Made(name, state, "FRAME", topics, "valid", draw, alone=alone, all_valid=True)
    once = {"a handshake by hand": partial(_meeting, f"{setting.seed}")}
    answer = {"a reply to a query that waits": partial(_answer, f"{setting.seed}")}
    yield Made("replies", State.PENDING, "RESPONSE", answer, "valid", _drawn_answer, alone=False)
    yield Made("handshakes", State.CONNECTED, "INIT", once, "valid", _drawn_meeting, all_valid=True)


CAMPAIGN = Campaign("valid", "fully valid traffic: no oracle may object", make, weight=0.2)
