"""Extensions: every id, encoding and M bit on every message, chains of every kind, bodies inside bodies."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property, partial

from boofuzz.mutation import Mutation

from fuzz.campaigns.base import Campaign, Setting
from fuzz.campaigns.messages import KINDS, forms, main_forms
from fuzz.campaigns.placing import Stated
from fuzz.cases import Case, Source, send
from fuzz.lying import _Single
from fuzz.phrases import as_frame, batch
from fuzz.player import template_of
from fuzz.script import Step, Template
from fuzz.sequences import Made
from fuzz.states import State
from scapy_layers.codes import Enc
from scapy_layers.derive.requests import LONG, Lie, chained, in_front
from scapy_layers.primitives import VLE_MAX, write_vle

IDS = 16
"""Ids that an extension can have."""

MOST_DRAWN = 9
"""So many extensions at most are in a chain that is drawn, unless it is long."""

LONG_CHAIN = 300
"""Extensions of one that is."""

BODIES: dict[Enc, dict[str, bytes]] = {
    Enc.UNIT: {"": b""},
    Enc.Z64: {" 0": b"\x00", " 2^64-1": write_vle(VLE_MAX)},
    Enc.ZBUF: {" empty": b"\x00", " of 5 bytes": b"\x05hello", " of 40 bytes ff": b"\x28" + b"\xff" * 40},
    Enc.RESERVED: {"": b"\x01\x00"},
}

DEPTHS = (2, 10, 100, 1000, 5000)
"""How deep a body stands in bodies of its kind."""


class Chained(Stated):
    """Extensions that a message gets: all that there can be, one by one; then chains that are drawn.

    Args are those of ``Stated``; fields other than chains stay as they are.
    """

    @cached_property
    def _chains(self) -> list[list[_Single]]:
        return [[*one, *_grid(one[0])] for one in self._form.fields if _is_chain(one)]

    @property
    def _fields(self) -> list[list[_Single]]:
        return self._chains

    def more(self, rng: random.Random) -> Iterator[Case]:
        """Yields chains of known and unknown extensions in any order, some of them more than once."""
        while True:
            chain = rng.choice(self._fields)[0]
            drawn = rng.choices(
                self._pool, k=LONG_CHAIN if rng.random() < 0.05 else rng.randint(2, MOST_DRAWN)
            )
            raw = chained([data for _, data in drawn])
            names = [words for words, _ in drawn]
            words = (
                ", ".join(names) if len(names) <= MOST_DRAWN else f"{len(names)}: {', '.join(names[:4])}, ..."
            )
            yield self._case(_instead(chain, Lie("chain", words, lambda _, raw=raw: raw)))  # type: ignore[misc]

    @cached_property
    def _pool(self) -> Sequence[tuple[str, bytes]]:
        """What is drawn from: known extensions with sense, the same with nothing in them, unknown ones."""
        known = [
            (str(extension.name), bytes(extension))
            for message in forms(self.message).values()
            for extension in message.fields.get("extensions") or []
        ]
        wrong = [(f"{name} as Unit", bytes([raw[0] & 0x1F])) for name, raw in known]
        other = [
            (_words(head, words), bytes([head]) + body)
            for head in (0x0E, 0x1E, 0x2E, 0x4E, 0x5E, 0x6E)
            for words, body in BODIES[Enc(head >> 5 & 3)].items()
        ]
        return sorted({*known, *wrong, *other})


def _is_chain(field: Sequence[_Single]) -> bool:
    return field[0].field.endswith(".extensions") and any(
        one.lie.kind == "unknown extension" for one in field
    )


def _grid(one: _Single) -> Iterator[_Single]:
    """Every header byte an extension can have, in front of the chain."""
    return (_instead(one, lie) for lie in _any_extension())


@cache
def _any_extension() -> tuple[Lie, ...]:
    return tuple(
        Lie("any extension", _words(head, words), partial(in_front, head, body, 1))
        for number in range(IDS)
        for enc, bodies in BODIES.items()
        for head in (enc << 5 | mandatory << 4 | number for mandatory in (0, 1))
        for words, body in bodies.items()
    )


def _words(head: int, words: str) -> str:
    return f"{head:02x}: {'mandatory' if head & 0x10 else 'optional'} {Enc(head >> 5 & 3).name} {head & 0x0F}{words}"


def _instead(one: _Single, lie: Lie) -> _Single:
    """Returns another lie about the same chain."""
    mutations = tuple(
        Mutation(value=lie, qualified_name=mutation.qualified_name, index=mutation.index)
        if mutation.value is one.lie
        else mutation
        for mutation in one.mutations
    )
    return _Single(one.field, one.message, lie, mutations)


def home_of(kind: str, *, answer: bool = False) -> State:
    """Returns a state in which a node looks into a message of a kind."""
    match kind:
        case "INIT":
            return State.INIT_RECEIVED if answer else State.CONNECTED
        case "OPEN":
            return State.OPEN_RECEIVED if answer else State.INIT_ACKED
        case "JOIN":
            return State.GROUP
        case "SCOUT":
            return State.SCOUTING
        case "HELLO":
            return State.SEEKING
    return State.OPEN


def make(setting: Setting) -> Iterator[Source]:  # noqa: ARG001  (every campaign is called like this)
    """Chains of every kind of message, empty and full; bodies in bodies."""
    for kind in KINDS:
        for words, message in main_forms(kind).items():
            answer = bool(getattr(message, "A", 0)) if kind in {"INIT", "OPEN"} else False
            state = home_of(kind, answer=answer)
            yield Chained(f"{kind} {words}", state, message)
    yield Made("bodies in bodies", State.OPEN, "FRAME", dict(_deep(State.OPEN)), "depth")
    yield Made("bodies in bodies of INIT", State.CONNECTED, "INIT", dict(_deep(State.CONNECTED)), "depth")


def _deep(state: State) -> Iterator[tuple[str, Callable[[], Sequence[Step]]]]:
    for depth in DEPTHS:
        if state is State.CONNECTED:
            for words, header in (("Auth", 0x43), ("an unknown extension", 0x4E)):
                yield f"{words} in itself, {depth} deep", partial(_nested_init, header, depth)
        else:
            for words, head, one in (
                ("REPLY", b"\x1b\x05\x00", b"\x04"),
                ("DECLARE", b"", b"\x1e"),
                ("PUSH", b"", b"\x1d\x00"),
                ("FRAME", b"", b"\x25\x00"),
            ):
                yield f"{words} in itself, {depth} deep", partial(_nested, head, one, depth)
            yield f"an extension of PUSH in itself, {depth} deep", partial(_nested_push, depth)


def _nested(head: bytes, one: bytes, depth: int) -> Sequence[Step]:
    return [batch(as_frame(head + one * depth), note=f"{depth} deep")]


def _bodies(header: int, depth: int) -> bytes:
    """Returns an extension whose body is one like it, and so on; at most about ``LONG`` bytes."""
    data = b""
    for _ in range(depth):
        data = bytes([header]) + write_vle(len(data)) + data
        if len(data) > LONG:
            break
    return data


def _nested_init(header: int, depth: int) -> Sequence[Step]:
    plain = next(message for words, message in forms("INIT").items() if words.startswith("minimal"))
    init = plain.copy()
    init.zid = b"\xf6\xe7\x5bzid of a link"
    head, zid, tail = _with_z(template_of(init))
    return [send("size", head, zid, tail + _bodies(header, depth), note=f"INIT, {depth} deep")]


def _with_z(template: Template) -> tuple[bytes, str, bytes]:
    """Returns the pieces of an INIT that says that extensions follow."""
    _, head, zid, *tail = template.pieces
    assert isinstance(head, bytes)
    assert isinstance(zid, str)
    return (
        bytes([head[0] | 0x80]) + head[1:],
        zid,
        b"".join(piece for piece in tail if isinstance(piece, bytes)),
    )


def _nested_push(depth: int) -> Sequence[Step]:
    chain = _bodies(0x47, depth)
    return [batch(as_frame(b"\xbd\x00\x06fuzz/k" + chain + b"\x01\x00"), note=f"{depth} deep")]


CAMPAIGN = Campaign(
    "extensions",
    "every possible extension on every message, extension chains of all kinds, nested bodies",
    make,
)
