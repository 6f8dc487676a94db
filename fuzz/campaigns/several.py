"""Several sessions at once: what they say about each other, and how they end while others still count on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fuzz.cases import Fixed, reach
from fuzz.phrases import (
    act,
    answering,
    as_frame,
    batch,
    closing,
    declare,
    failure,
    final,
    frame,
    interest,
    keyexpr,
    listen,
    numbered,
    push,
    query,
    queryable,
    reply,
    subscriber,
    token,
    undeclare,
)
from fuzz.player.fitting import NODE_BATCH
from fuzz.script import Do, Step
from fuzz.sequences import ENDS, Made, flat
from fuzz.states import State
from scapy_layers.codes import InterestMode
from scapy_layers.declarations import (
    DeclareFinal,
    UndeclareKeyExpr,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from scapy_layers.message import Message
from scapy_layers.network import Declare, ResponseFinal

MOST_LINKS = 30
"""Links at once: well below the hundred half-open ones and the thousand sessions that nodes admit."""

FLOOD = 8 << 20
"""Bytes for a peer that does not read: more than the buffers of both sockets hold."""

BACK = {UndeclareSubscriber: subscriber, UndeclareQueryable: queryable, UndeclareToken: token}
"""What takes back what."""

# Answers ----------------------------------------------------------------------------------------------------


def answers() -> Fixed:
    """Answers that nobody waits for, that come too late, from somebody else, or never."""
    asked = [reach(State.OPEN, "b"), frame(queryable(1)), act(Do.SETTLE), frame(query(5), link="b"), listen()]
    answer, last = answering(reply(), note="REPLY"), answering(final(), note="RESPONSE_FINAL")
    return Fixed(
        "answers",
        State.OPEN,
        "RESPONSE",
        {
            "a reply behind the final": [*asked, last, answer, listen("b")],
            "the final twice": [*asked, answer, last, last, listen("b")],
            "replies in the same FRAME behind the final": [
                *asked,
                answering(final(), reply(), final(), note="final, REPLY, final"),
                listen("b"),
            ],
            "a thousand replies": [*asked, *([answer] * 10), _many(answer, 990), last, listen("b")],
            "an error, then a reply": [*asked, answering(failure(), note="ERR"), answer, last, listen("b")],
            "a reply from the wrong session": [
                *asked,
                answering(reply("rid@a"), link="b", note="REPLY"),
                answering(final("rid@a"), link="b", note="RESPONSE_FINAL"),
                answer,
                last,
                listen("b"),
            ],
            "a reply from a third session": [
                *asked,
                reach(State.OPEN, "c"),
                answering(reply("rid@a"), final("rid@a"), link="c", note="REPLY and final"),
                last,
                listen("b"),
            ],
            "a reply with another key": [
                *asked,
                answering(reply(key="other/key"), reply(key="fuzz/**"), note="REPLY of another key"),
                last,
                listen("b"),
            ],
            "the queryable goes while its reply is awaited": [
                *asked,
                frame(undeclare(UndeclareQueryable, 1)),
                answer,
                last,
                listen("b"),
            ],
            **{
                f"the session with the queryable ends while its reply is awaited: {how}": [
                    *asked,
                    act(how),
                    listen("b"),
                    frame(query(6), link="b"),
                    listen("b"),
                ]
                for how in ENDS
            },
            "the session with the queryable ends with CLOSE while its reply is awaited": [
                *asked,
                closing(),
                listen("b"),
            ],
            **{
                f"the session that asked ends: {how}": [*asked, act(how, "b"), answer, answer, last]
                for how in ENDS
            },
            "the session that asked comes back and asks with the same id": [
                *asked,
                act(Do.RESET, "b"),
                reach(State.OPEN, "b"),
                frame(query(5), link="b"),
                answer,
                last,
                listen("b"),
            ],
            "the same request id while it waits": [
                *asked,
                frame(query(5), link="b"),
                frame(query(5, "fuzz/other"), link="b"),
                answer,
                last,
                listen("b"),
            ],
            "a query of the same id in both sessions": [
                *asked,
                frame(queryable(2), link="b"),
                frame(query(5)),
                listen("b"),
                answering(reply(), final(), link="b", note="REPLY and final"),
                answer,
                last,
            ],
            "finals that nobody waits for": [
                frame(ResponseFinal(request_id=number)) for number in (0, 1, 5, 1 << 31)
            ],
            "replies that nobody waits for": [
                answering((*_said(reply("rid")),), note="REPLY") for _ in range(5)
            ],
            "final of an interest that nobody has": [
                *[frame(interest(number, InterestMode.FINAL)) for number in (0, 1, 7, (1 << 32) - 1)],
            ],
            "the interest ends twice": [
                frame(interest(1)),
                frame(interest(1, InterestMode.FINAL)),
                frame(interest(1, InterestMode.FINAL)),
            ],
            "the same interest id again": [
                frame(interest(1)),
                frame(interest(1, InterestMode.CURRENT, "fuzz/other/**")),
                frame(interest(1, InterestMode.FUTURE)),
                frame(interest(1, InterestMode.FINAL)),
            ],
            "D_FINAL of interests that nobody has": [
                frame(Declare(interest_id=number, body=DeclareFinal())) for number in (0, 1, 7, (1 << 32) - 1)
            ],
            "declarations that answer interests nobody has": [
                frame(Declare(interest_id=number, body=subscriber(number).body)) for number in (0, 1, 7, 500)
            ],
            "replies before the query": [
                reach(State.OPEN, "b"),
                answer,
                last,
                frame(queryable(1)),
                frame(query(5), link="b"),
            ],
            "a queryable that asks itself": [frame(queryable(1)), frame(query(5)), listen(), answer, last],
            "two sessions that ask each other": [
                *asked,
                frame(queryable(1), link="b"),
                act(Do.SETTLE, "b"),
                frame(query(5)),
                listen("b"),
                answering(reply(), link="b", note="REPLY"),
                answer,
                last,
                answering(final(), link="b", note="RESPONSE_FINAL"),
            ],
        },
        "answers",
    )


def _many(step: Step, times: int) -> Step:
    return Step(step.do, step.link, data=step.data, times=times, note=step.note)


def _said(pieces: Sequence[bytes | str]) -> Sequence[bytes | str]:
    return pieces


# Declarations across sessions -------------------------------------------------------------------------------


def churn() -> Fixed:
    """What one session declares and another takes back, and sessions that come and go with it."""
    ids = range(1, 6)
    variants: dict[str, Sequence[Step]] = {}
    for undone, done in BACK.items():
        name = str(done(1).body.name)
        variants |= {
            f"{name}: declared here, taken back there": [
                reach(State.OPEN, "b"),
                *[frame(done(number)) for number in ids],
                *[frame(undeclare(undone, number), link="b") for number in ids],
                *[frame(undeclare(undone, number)) for number in ids],
            ],
            f"{name}: ids reused for other keys": [
                *[frame(done(1, f"fuzz/k{number}")) for number in range(20)],
                frame(undeclare(undone, 1)),
                frame(undeclare(undone, 1)),
                frame(done(1)),
            ],
            f"{name}: id reused for another kind": [
                frame(done(1)),
                *[frame(undeclare(other, 1)) for other in BACK],
                *[frame(other(1)) for other in BACK.values()],
                frame(undeclare(undone, 1)),
            ],
            f"{name}: taken back with another key": [
                frame(done(1)),
                frame(undeclare(undone, 1, "other/key")),
                frame(undeclare(undone, 1, "fuzz/**")),
                frame(undeclare(undone, 1)),
            ],
            f"{name}: taken back in the same FRAME": [
                frame(done(1), undeclare(undone, 1), done(1), undeclare(undone, 1))
            ],
            f"{name}: a hundred times there and back": [
                *([frame(done(1)), frame(undeclare(undone, 1))] * 100),
            ],
            f"{name}: while another session wants to know": [
                reach(State.OPEN, "b"),
                frame(interest(1), link="b"),
                act(Do.SETTLE, "b"),
                *([frame(done(1)), frame(undeclare(undone, 1))] * 50),
                listen("b"),
                frame(interest(1, InterestMode.FINAL), link="b"),
            ],
            f"{name}: the session that wants to know ends meanwhile": [
                reach(State.OPEN, "b"),
                frame(interest(1), link="b"),
                *[frame(done(number)) for number in ids],
                act(Do.RESET, "b"),
                *[frame(undeclare(undone, number)) for number in ids],
            ],
            f"{name}: sessions that come and go with it": [
                *flat(
                    (reach(State.OPEN, "b"), frame(done(1), link="b"), act(ENDS[turn % len(ENDS)], "b"))
                    for turn in range(12)
                ),
                frame(interest(1, InterestMode.CURRENT)),
                listen(),
            ],
            f"{name}: by an alias that is taken back": [
                frame(keyexpr(1, "fuzz")),
                frame(_by_alias(done(1))),
                frame(declare(UndeclareKeyExpr(key_id=1))),
                frame(keyexpr(1, "other")),
                frame(undeclare(undone, 1)),
                frame(_by_alias(done(2))),
                frame(push("other/x")),
            ],
        }
    publishing = [
        reach(State.OPEN, "b"),
        frame(subscriber(1)),
        act(Do.SETTLE),
        _many(frame(push(), link="b"), 50),
    ]
    variants |= {
        "the subscriber goes while publications travel": [
            *publishing,
            frame(undeclare(UndeclareSubscriber, 1)),
            _many(frame(push(), link="b"), 50),
        ],
        **{
            f"the session with the subscriber ends while publications travel: {how}": [
                *publishing,
                act(how),
                _many(frame(push(), link="b"), 50),
            ]
            for how in ENDS
        },
        **{f"the session that publishes ends: {how}": [*publishing, act(how, "b"), listen()] for how in ENDS},
        "aliases that change while publications travel": [
            reach(State.OPEN, "b"),
            frame(subscriber(1, "fuzz/**")),
            *flat(
                (
                    frame(keyexpr(1, f"fuzz/{turn}"), link="b"),
                    batch(as_frame(push("/x", scope=1)), link="b", note="PUSH by alias"),
                    frame(declare(UndeclareKeyExpr(key_id=1)), link="b"),
                )
                for turn in range(30)
            ),
            listen(),
        ],
        "an alias of the node used after it ended": [
            frame(keyexpr(1, "fuzz")),
            frame(interest(1, InterestMode.CURRENT_FUTURE, keyexprs=1, subscribers=1)),
            reach(State.OPEN, "b"),
            frame(subscriber(1, "fuzz/a"), link="b"),
            listen(),
            act(Do.RESET, "b"),
            *[batch(as_frame(push("/x", scope=scope)), note="PUSH by alias") for scope in range(1, 5)],
        ],
    }
    return Fixed("declarations across sessions", State.OPEN, "DECLARE", variants, "churn")


def _by_alias(message: Declare) -> Declare:
    body = message.body.copy()
    body.M, body.key_scope, body.key_suffix = 1, 1, "/x"
    return Declare(body=body)


# Peers that do not read -------------------------------------------------------------------------------------


def slow() -> Made:
    """Peers that do not read what a node has for them."""
    size = NODE_BATCH - 200
    times = FLOOD // size

    def flooded(block: bool, *behind: Step) -> Callable[[], list[Step]]:
        return lambda: [
            reach(State.OPEN, "b"),
            frame(subscriber(1)),
            act(Do.SETTLE),
            act(Do.PAUSE),
            frame(push(data=b"x" * size, block=block), link="b", times=times, note=f"{FLOOD >> 20} MB"),
            *behind,
        ]

    def beside() -> list[Step]:
        """A third session asks, while the node has more for one than that reads."""
        return [reach(State.OPEN, "c"), *flooded(False, act(Do.SETTLE, "c"))()]

    def asked(*behind: Step) -> Callable[[], list[Step]]:
        return lambda: [
            reach(State.OPEN, "b"),
            frame(queryable(1)),
            act(Do.SETTLE),
            act(Do.PAUSE),
            *[frame(query(number), link="b") for number in range(1, 101)],
            *behind,
        ]

    return Made(
        "peers that do not read",
        State.OPEN,
        "PUSH",
        {
            "a subscriber, publications that may be dropped": flooded(False),
            "a subscriber, publications that may not be dropped": flooded(True),
            **{f"a subscriber that does not read, then: {how}": flooded(False, act(how)) for how in ENDS},
            "a subscriber that does not read, while a third session asks": beside,
            "a subscriber that reads again": flooded(False, act(Do.RESUME), frame(push(), link="b")),
            "a subscriber that says CLOSE and does not read": flooded(False, closing()),
            **{
                f"publications that may not be dropped, the publisher ends: {how}": flooded(
                    True, act(how, "b")
                )
                for how in ENDS
            },
            "a queryable": asked(),
            **{f"a queryable that does not read, then: {how}": asked(act(how)) for how in ENDS},
            "a session that asks and does not read": lambda: [
                reach(State.OPEN, "b"),
                frame(subscriber(1, "fuzz/**")),
                act(Do.PAUSE),
                *[frame(interest(number)) for number in range(1, 200)],
                _many(frame(push(), link="b"), 500),
                act(Do.RESET),
            ],
            "sessions of which none reads": lambda: [
                *flat(
                    (reach(State.OPEN, f"s{n}"), frame(subscriber(1), link=f"s{n}"), act(Do.PAUSE, f"s{n}"))
                    for n in range(8)
                ),
                frame(push(data=b"x" * 8000), times=FLOOD // 8 // 8000, note="1 MB to each of eight"),
            ],
        },
        "slow",
    )


# Many links -------------------------------------------------------------------------------------------------


def many_links() -> Fixed:
    """As many links as may be, all doing the same."""
    names = [f"l{number}" for number in range(MOST_LINKS)]
    opened = [step for name in names for step in (reach(State.OPEN, name), frame(subscriber(1), link=name))]
    return Fixed(
        "many links at once",
        State.OPEN,
        "DECLARE",
        {
            "all hear the same publication": [*opened, frame(push()), listen(names[-1])],
            "all publish to all": [*opened, *[frame(push(), link=name) for name in names], listen(names[0])],
            **{
                f"all end at once: {how}": [*opened, *[act(how, name) for name in names], frame(push())]
                for how in ENDS
            },
            "all say CLOSE": [*opened, *[closing(name) for name in names], frame(push())],
            "all answer one query": [
                *flat(
                    (reach(State.OPEN, name), frame(queryable(1), link=name), act(Do.SETTLE, name))
                    for name in names
                ),
                frame(query(5, "fuzz/**")),
                *flat(
                    (listen(name), answering(reply(), final(), link=name, note="REPLY and final"))
                    for name in names
                ),
                listen(),
            ],
            "all are asked, half of them end, the others say final twice": [
                *flat(
                    (reach(State.OPEN, name), frame(queryable(1), link=name), act(Do.SETTLE, name))
                    for name in names
                ),
                frame(query(5, "fuzz/**")),
                *flat(
                    (listen(name), act(Do.RESET, name))
                    if index % 2
                    else (listen(name), answering(final(), final(), link=name, note="final twice"))
                    for index, name in enumerate(names)
                ),
                listen(),
            ],
            "all want to know, one declares": [
                *flat((reach(State.OPEN, name), frame(interest(1), link=name)) for name in names),
                numbered(subscriber_at, times=50, note="D_SUBSCRIBER"),
                listen(names[-1]),
            ],
            "one after the other comes and goes": [
                *flat(
                    (
                        reach(State.OPEN, "b"),
                        frame(subscriber(1), link="b"),
                        frame(push()),
                        act(ENDS[n % len(ENDS)], "b"),
                    )
                    for n in range(MOST_LINKS)
                )
            ],
        },
        "links",
    )


def crowd() -> Fixed:
    """Many sessions that declare and take back keys that overlap, all at the same time."""
    names = [f"l{number}" for number in range(MOST_LINKS)]
    half, others = names[::2], names[1::2]
    opened = [reach(State.OPEN, name) for name in names]
    variants: dict[str, Sequence[Step]] = {}
    for undone, done in BACK.items():
        busy = {name: _there_and_back(done, undone, name) for name in names}
        all_of_it = [*opened, *busy.values()]
        name = str(done(1).body.name)
        variants |= {
            f"{name}: there and back": [*all_of_it, frame(push("fuzz/a/b"))],
            **{
                f"{name}: there and back, then half of the sessions end: {how}": [
                    *all_of_it,
                    *[act(how, link) for link in half],
                    frame(push("fuzz/a/b")),
                ]
                for how in ENDS
            },
            f"{name}: there and back in half of the sessions, the others ask what there is": [
                *opened,
                *flat(
                    (busy[link], _many(frame(interest(1, InterestMode.CURRENT), link=other), 5))
                    for link, other in zip(half, others, strict=True)
                ),
                *[busy[link] for link in half],
            ],
            f"{name}: there and back in half of the sessions, the others query everything": [
                *opened,
                *flat(
                    (busy[link], frame(query(1, "**"), query(2, "@/**"), link=other))
                    for link, other in zip(half, others, strict=True)
                ),
                *[busy[link] for link in half],
            ],
            f"{name}: there and back in half of the sessions, the others publish": [
                *opened,
                *flat(
                    (busy[link], _many(frame(push("fuzz/a/b"), push(f"fuzz/{link}"), link=other), 20))
                    for link, other in zip(half, others, strict=True)
                ),
                *[busy[link] for link in half],
            ],
        }
    return Fixed("many links declare at once", State.OPEN, "DECLARE", variants, "links")


def _there_and_back(done: Callable[..., Declare], undone: type[Message], link: str) -> Step:
    """Declares keys that those of other links match, and takes them back, again and again in large FRAMEs."""
    keys = (
        "fuzz/**",
        "fuzz/*",
        "fuzz/a",
        "fuzz/a/*",
        "fuzz/*/b",
        "fuzz/a/b",
        f"fuzz/{link}",
        f"fuzz/{link}/*",
    )
    there = [done(number, key) for number, key in enumerate(keys, 1)]
    back = [undeclare(undone, number) for number in range(1, len(keys) + 1)]
    note = f"{len(keys)} {there[0].body.name} and back, four times"
    return frame(*[*there, *back] * 4, link=link, note=note)


def subscriber_at(entity: int, digits: str) -> Declare:
    """Declares a subscriber of a key with digits in it."""
    return subscriber(entity, f"fuzz/{digits}")
