"""Key expressions, right and wrong, in every place where one stands; aliases, known and unknown; hard matching."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import product

from fuzz.campaigns.base import Campaign, Setting
from fuzz.campaigns.messages import Wish, extensions_of, kind_of, message_of
from fuzz.campaigns.placing import placed
from fuzz.cases import Case, Cause, Source, reach
from fuzz.phrases import (
    act,
    as_frame,
    batch,
    declare,
    frame,
    interest,
    keyexpr,
    push,
    query,
    queryable,
    subscriber,
    token,
    undeclare,
)
from fuzz.script import Do, Step
from fuzz.sequences import Drawn, Made
from fuzz.states import State
from scapy_layers import shape
from scapy_layers.catalogue import MESSAGES
from scapy_layers.declarations import (
    DeclareKeyExpr,
    DeclareSubscriber,
    UndeclareKeyExpr,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from scapy_layers.derive.requests import KEYS
from scapy_layers.keyexpr import sort_of
from scapy_layers.message import Message
from scapy_layers.network import Interest

SUFFIX = "key_suffix"

ENTITY = 930
"""Id of what is declared for a while; the states have others."""

ALIASES = (0, 1, 20, 127, 128, 255, 256, 65_535, 65_536, (1 << 32) - 1)
"""Numbers that an alias may or may not have."""

TIMES = (1, 2, 5, 10, 20, 40, 100, 400)
"""How often a pattern has its hard part."""

MIDDLING = 600
"""Bytes of a key of which two, one behind the other, still fit into what small nodes take."""

MOST_KEY = 60_000
"""Bytes of a key; with what stands around it, it fits into a batch that nodes take."""

MORE_KEYS: tuple[bytes, ...] = (
    b"a", b"a/b", b"*/**", b"**/a", b"a/**", b"a/*/**/b", b"a/**/*/b", b"**/*/**", b"a/$*", b"a$*b$*c", b"$*-$*", b"$*$*a",
    b"@a$*", b"@$*", b"@*", b"a/@*", b"*/@a", b"**/@a", b"@a/**/@b", b"a@b", b"A/B", b"a b", b"a/./b", b"\xef\xbf\xbd", b"\xf0\x9f\x8c\x8d/a",
    b"\xc0\x80", b"a\xff/b", b"\xe2\x82", b"a/\x00/b", b"\n", b"a\r\nb", b"$*/" * 300 + b"$*", b"*$*", b"a$*$*", b"a$*$*$*b", b"$*a$*$*",
    b"a/b$*$*", b"a/$*$*b/c", b"**/" * 500 + b"a", b"@a/" * 400 + b"b", b"a?b=c", b"a#b", b"a\\b", b"{}", b"${x}", b"a,b",
    b"x" * 255, b"x" * 256, b"x" * 32_768, b"x" * 45_000, b"x/" * 22_000 + b"x", b"*/" * 20_000 + b"*", b"\xc3\xa9" * 20_000,
)  # fmt: skip
"""Besides those of ``requests.KEYS``: chunks that begin with @, doubled ``$*``, broken UTF-8, what other formats escape."""

CHUNKS: tuple[bytes, ...] = (
    b"a", b"b", b"ab", b"a", b"*", b"**", b"$*", b"a$*", b"$*a", b"a$*b", b"$*a$*", b"@a", b"@", b"@*", b"", b"a*", b"$", b"a$",
    b"$$", b"$*$*", b"***", b"?", b"#", b" ", b"\x00", b"\xff", b"\xc3", "é".encode(), "中".encode(), b".", b"..", b"-", b"a" * 100,
)  # fmt: skip
"""What the grammar joins."""

Variant = tuple[str, str, Callable[[], Sequence[Step]]]
"""Words, the sort of key, and what makes the steps."""

Build = Callable[[bytes, int, int, bool], Message]
"""Makes a message from the suffix of its key, the alias, whose it is (M), and whether there is a suffix (N)."""


@cache
def places() -> dict[str, Build]:
    """Returns every place where a key stands, by the kind of message."""
    found: dict[str, Build] = {}
    for cls in MESSAGES:
        names = {getattr(one, "name", "") for one in shape.walk(cls.wire_shapes())}
        chain = frozenset(
            known
            for known in extensions_of(cls)
            if any(getattr(one, "name", "") == SUFFIX for one in shape.walk(known.wire_shapes()))
        )
        if SUFFIX in names or chain:
            found[kind_of(cls)] = partial(_built, cls, chain)
    return found


def _built(
    cls: type[Message], chain: frozenset[type], suffix: bytes, scope: int, mapping: int, named: bool
) -> Message:
    text = suffix.decode("utf-8", "surrogateescape")
    sense = {
        "key_scope": scope,
        SUFFIX: text,
        "N": int(named),
        "M": mapping,
        "mapping": mapping,
        "entity_id": ENTITY,
    }
    roles = {"mode": 3} if cls is Interest else {}
    return message_of(cls, Wish(options=True, roles=roles, extensions=chain, sense=sense))


def _sent(message: Message, note: str) -> Step:
    """Returns the step that sends a message of any layer below FRAME, in one."""
    network = placed(message, State.LOW_LATENCY).message
    return batch(as_frame(network), note=note)


def expression(rng: random.Random) -> bytes:
    """Draws a key expression, canonical or not."""
    kind = rng.random()
    if kind < 0.05:
        return rng.choice(CHUNKS) * rng.choice((10, 100, 1000))
    count = rng.choice((1, 1, 2, 2, 3, 4, 6, 10)) if kind < 0.95 else rng.choice((50, 500, 5000))
    parts = rng.choices(CHUNKS, k=count) if kind < 0.9 else rng.choices(rng.sample(CHUNKS, 3), k=count)
    return b"/".join(parts)[:MOST_KEY]


def shown(key: bytes) -> str:
    """Returns a key for people, in one short line."""
    text = repr(key)[2:-1]
    return text if len(text) <= 40 else f"{text[:24]}... ({len(key)} bytes)"


class Sorted(Made):
    """Cases that are laid on the sort of their keys: what harms a node is seldom one key alone.

    Args:
        name: Unique in its campaign.
        state: Where link ``a`` is.
        message: Kind of message.
        variants: Words, sort, and what makes the steps.
        strategy: For tables.
        draw: Makes a case beyond them.
        alone: The cases need links of their own.
    """

    def __init__(
        self,
        name: str,
        state: State,
        message: str,
        variants: Iterable[Variant],
        strategy: str,
        draw: Callable[[random.Random], Drawn] | None = None,
        *,
        alone: bool = True,
    ) -> None:
        listed = list(variants)
        made = {words: make_steps for words, _, make_steps in listed}
        super().__init__(name, state, message, made, strategy, draw, alone=alone)
        self._sorts = {words: sort for words, sort, _ in listed}

    def cases(self, rng: random.Random) -> Iterator[Case]:
        """See Source."""
        for case in super().cases(rng):
            yield replace(case, causes=(Cause(self.name, SUFFIX, self._sorts[case.mutation]),))

    def more(self, rng: random.Random) -> Iterator[Case]:
        """See Source."""
        for case in super().more(rng):
            yield replace(case, causes=tuple(cause._replace(field=SUFFIX) for cause in case.causes))


def make(setting: Setting) -> Iterator[Source]:  # noqa: ARG001  (every campaign is called like this)
    """Keys and aliases in each place; patterns that are hard to match against each other."""
    for kind, build in places().items():
        yield Sorted(
            f"keys of {kind}",
            State.OPEN,
            kind,
            _keys(build),
            "key",
            partial(_drawn, build),
            alone=False,
        )
        yield Sorted(f"aliases of {kind}", State.OPEN, kind, _aliases(build), "alias")
        by = partial(_drawn_by_alias, build)
        yield Sorted(
            f"keys of {kind} by alias", State.DECLARED, kind, _suffixes(build), "alias", by, alone=False
        )
    for kind in ("D_SUBSCRIBER", "D_QUERYABLE", "D_TOKEN", "INTEREST"):
        yield Sorted(
            f"matching {kind}",
            State.OPEN,
            kind,
            _matching(kind),
            "matching",
            partial(_drawn_pair, kind),
        )


# Keys -------------------------------------------------------------------------------------------------


def _keys(build: Build) -> Iterator[Variant]:
    for key in dict.fromkeys((*KEYS, *MORE_KEYS)):
        yield f"key '{shown(key)}'", sort_of(key), partial(_key, build, key)
    yield "no key at all", "no key", partial(_key, build, b"", named=False)


def _key(build: Build, key: bytes, *, scope: int = 0, mapping: int = 1, named: bool = True) -> Sequence[Step]:
    return [_sent(build(key, scope, mapping, named), f"key '{shown(key)}'")]


def _drawn(build: Build, rng: random.Random) -> Drawn:
    key = expression(rng)
    return Drawn(f"key '{shown(key)}'", (sort_of(key),), _key(build, key))


def _suffixes(build: Build) -> Iterator[Variant]:
    """What stands behind the alias of a declared session."""
    for key in (
        b"",
        b"/",
        b"/a",
        b"a",
        b"/**",
        b"/*",
        b"$*",
        b"*",
        b"//",
        b"/@a",
        b"#",
        b"\xff",
        b"/" + b"a" * MIDDLING,
        b"/" + b"a" * 40_000,
    ):
        for mapping in (0, 1):
            words = f"alias 7 of {_whose(mapping)} and '{shown(key)}'"
            yield words, _sort_by_alias(key, mapping), partial(_key, build, key, scope=7, mapping=mapping)


def _drawn_by_alias(build: Build, rng: random.Random) -> Drawn:
    key, mapping = expression(rng), rng.randrange(2)
    words = f"alias 7 of {_whose(mapping)} and '{shown(key)}'"
    return Drawn(words, (_sort_by_alias(key, mapping),), _key(build, key, scope=7, mapping=mapping))


def _sort_by_alias(key: bytes, mapping: int) -> str:
    return f"alias 7 of {_whose(mapping)} and {sort_of(b'a' + key)}"


def _whose(mapping: int) -> str:
    return "ours" if mapping else "theirs"


# Aliases ------------------------------------------------------------------------------------------------


def _stories() -> Mapping[str, Sequence[Message]]:
    """Returns what may have been said about alias 20, by words."""
    taken_back = declare(UndeclareKeyExpr(key_id=20))
    chained = declare(DeclareKeyExpr(key_id=20, key_scope=21, key_suffix="/b"))
    itself = declare(DeclareKeyExpr(key_id=20, key_scope=20, key_suffix="/b"))
    return {
        "never": [],
        "once": [keyexpr(20, "fuzz/a")],
        "twice": [keyexpr(20, "fuzz/a"), keyexpr(20, "fuzz/a")],
        "with two keys": [keyexpr(20, "fuzz/a"), keyexpr(20, "fuzz/b")],
        "and taken back": [keyexpr(20, "fuzz/a"), taken_back],
        "taken back twice": [keyexpr(20, "fuzz/a"), taken_back, taken_back],
        "taken back and again": [keyexpr(20, "fuzz/a"), taken_back, keyexpr(20, "fuzz/b")],
        "used and taken back": [
            keyexpr(20, "fuzz/a"),
            declare(DeclareSubscriber(entity_id=931, key_scope=20, M=1)),
            taken_back,
        ],
        "on an alias": [keyexpr(21, "fuzz"), chained],
        "on an alias that was taken back": [
            keyexpr(21, "fuzz"),
            declare(UndeclareKeyExpr(key_id=21)),
            chained,
        ],
        "on itself": [itself],
        "on itself, known": [keyexpr(20, "fuzz/a"), itself],
        "with a wild card": [keyexpr(20, "fuzz/**")],
        "with half a chunk": [keyexpr(20, "fuzz/a$")],
        "with half a wild card": [keyexpr(20, "fuzz/*")],
        "with an empty key": [declare(DeclareKeyExpr(key_id=20, N=1, key_suffix=""))],
        "without a key": [declare(DeclareKeyExpr(key_id=20))],
        "with a slash at the end": [keyexpr(20, "fuzz/")],
        "with a middling key": [keyexpr(20, "fuzz/" + "a" * MIDDLING)],
        "with a long key": [keyexpr(20, "fuzz/" + "a" * 30_000)],
    }


def _aliases(build: Build) -> Iterator[Variant]:
    for story, messages in _stories().items():
        for mapping, (key, named) in product(
            (1, 0), ((b"", False), (b"", True), (b"/x", True), (b"*", True), (b"/" + b"a" * MIDDLING, True))
        ):
            sort = f"alias declared {story}, as one of {_whose(mapping)}"
            words = f"{sort}, suffix '{shown(key)}'" if named else sort
            yield words, sort, partial(_used, messages, build, 20, key, mapping, named)
    for alias in ALIASES:
        said = [] if alias >= 1 << 16 else [keyexpr(alias, "fuzz/a")]
        yield f"alias {alias}, declared", f"alias {alias}", partial(_used, said, build, alias, b"/x", 1, True)
        yield f"alias {alias}, unknown", f"alias {alias}", partial(_used, [], build, alias, b"/x", 1, True)


def _used(
    story: Sequence[Message], build: Build, alias: int, key: bytes, mapping: int, named: bool
) -> Sequence[Step]:
    before = [frame(message, note=f"before: {message.name}") for message in story]
    use = _sent(build(key, alias, mapping, named), f"alias {alias}")
    return [*before, use, frame(declare(UndeclareKeyExpr(key_id=20)), note="after: U_KEYEXPR"), use]


# Matching -----------------------------------------------------------------------------------------------


def _patterns(times: int) -> Iterator[tuple[str, bytes, bytes]]:
    """Yields pairs of keys that naive matching tries in very many ways."""
    n = times
    yield "** between the same chunks", b"**/a/" * n + b"b", b"a/" * (2 * n) + b"c"
    yield (
        "** between different chunks",
        b"/".join(b"**/%d" % i for i in range(n)),
        b"/".join(b"%d" % i for i in range(n)),
    )
    yield "$* between the same letters", b"x" + b"$*a" * n + b"b", b"x" + b"a" * (2 * n) + b"c"
    yield "$* against $*", b"x" + b"$*a" * n, b"x" + b"a$*" * n + b"b"
    yield "** against **", b"**/a/" * n + b"**", b"**/b/" * n + b"**"
    yield "** and * in turns", b"*/**/a/" * n + b"b", b"a/" * (3 * n) + b"c"
    yield "* and long", b"*/" * n + b"*", b"a/" * n + b"a"
    yield "** with $* in them", b"**/a$*/" * n + b"b", b"aa/" * (2 * n) + b"c"
    yield "** before @", b"**/@a/" * n + b"b", b"@a/" * n + b"b"


def _matching(kind: str) -> Iterator[Variant]:
    for times in TIMES:
        for words, wide, narrow in _patterns(times):
            if max(len(wide), len(narrow)) <= MOST_KEY:
                yield f"{words}, {times} times", words, partial(_pair, kind, wide, narrow)
                yield (
                    f"{words}, {times} times, the other way round",
                    words,
                    partial(_pair, kind, narrow, wide),
                )


def _text(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")


def _pair(kind: str, first: bytes, second: bytes) -> Sequence[Step]:
    """Declares one key, uses another that is to be matched with it, takes the first back.

    In two sessions: a node need not match what a session says with what it has said itself.
    """
    one, other = _text(first), _text(second)
    match kind:
        case "D_SUBSCRIBER":
            said, use, back = subscriber(ENTITY, one), push(other), undeclare(UndeclareSubscriber, ENTITY)
        case "D_QUERYABLE":
            said, use, back = (
                queryable(ENTITY, one),
                query(3000, other),
                undeclare(UndeclareQueryable, ENTITY),
            )
        case "D_TOKEN":
            said, use, back = (
                token(ENTITY, one),
                interest(3000, 1, other, tokens=1),
                undeclare(UndeclareToken, ENTITY),
            )
        case _:
            said, use, back = (
                interest(3000, 3, one),
                subscriber(ENTITY, other),
                undeclare(UndeclareSubscriber, ENTITY),
            )
    steps = [
        reach(State.OPEN, "b"),
        frame(said, link="b", note=f"'{shown(first)}'"),
        act(Do.SETTLE, "b"),
        frame(use, note=f"'{shown(second)}'"),
    ]
    if kind == "INTEREST":
        return [*steps, frame(back), frame(interest(3000, 0), link="b")]
    return [*steps, frame(back, link="b")]


def _drawn_pair(kind: str, rng: random.Random) -> Drawn:
    first, second = expression(rng), expression(rng)
    return Drawn(
        f"'{shown(first)}' and '{shown(second)}'",
        (f"{sort_of(first)}, {sort_of(second)}",),
        _pair(kind, first, second),
    )


CAMPAIGN = Campaign(
    "keys", "key expressions and aliases in every position, expressions that are hard to match", make
)
