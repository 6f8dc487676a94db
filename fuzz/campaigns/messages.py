"""Valid messages of every kind, made from the description, so that what is added to it is there by itself.

``forms`` gives the forms of a kind: minimal, with its options, with each extension, with all of them. Values are
those of ``SENSE`` where a node needs sense, and otherwise what the shapes say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any, assert_never

from scapy_layers import shape
from scapy_layers.catalogue import MESSAGES, build
from scapy_layers.codes import Consolidation, QueryTarget, Resolution, What
from scapy_layers.data import Del, Put
from scapy_layers.message import Extension, Message, layer_class
from scapy_layers.network import Push

ZID = bytes(range(1, 17))
"""Stands for the ZenohIDs of nodes that do not exist."""

STAMP = 0x6900_0000_0000_0000
"""A time that has passed (NTP64): nodes complain about others."""

MINIMAL = "minimal"
PLAIN = "plain"
FULL = "full"

SENSE: Mapping[str, Any] = {
    "zid": ZID,
    "timestamp": STAMP,
    "timestamp_id": ZID,
    "N": 1,
    "key_suffix": "fuzz/k",
    "D_SUBSCRIBER.key_suffix": "fuzz/**",
    "D_QUERYABLE.key_suffix": "fuzz/q",
    "D_TOKEN.key_suffix": "fuzz/t",
    "REQUEST.key_suffix": "fuzz/q",
    "RESPONSE.key_suffix": "fuzz/q",
    "INTEREST.key_suffix": "fuzz/**",
    "request_id": 1000,
    "interest_id": 1000,
    "entity_id": 900,
    "D_QUERYABLE.entity_id": 901,
    "U_QUERYABLE.entity_id": 901,
    "D_TOKEN.entity_id": 902,
    "U_TOKEN.entity_id": 902,
    "key_id": 7,
    "initial_sn": 1000,
    "sn": 1 << 20,
    "cookie": b"\x5a" * 16,
    "locator": "tcp/127.0.0.1:1",
    "oam_id": 7,
    "z64": 300,
    "data": b"hello",
    "slice": b"hello",
    "record": b"hello",
    "attachment": b"at",
    "encoding": 4,
    "schema": b"utf-8",
    "parameters": "x=1",
    "QUERY.consolidation": Consolidation.MONOTONIC,
    "REPLY.consolidation": Consolidation.LATEST,
    "target": QueryTarget.ALL,
    "budget": 5,
    "timeout": 500,
    "eid": 7,
    "source_sn": 9,
    "conf_flags": 1,
    "point": 1,
    "size": 5,
    "segment_id": 12_345,
    "challenge": 7,
    "nonce": b"\x5a" * 64,
    "UsrPwd.nonce": 7,
    "user": b"me",
    "hmac": b"\x5a" * 32,
    "n": b"\x5a" * 64,
    "e": b"\x01\x00\x01",
    "region": "north",
    "patch": 1,
    "bound": 1,
    "distance": 3,
    "rid": Resolution.BITS_32,
    "fsn": Resolution.BITS_32,
    "first_priority": 1,
    "last_priority": 6,
    "LINKSTATE.whatami": What.PEER,
    "psid": 1,
    "state_sn": 2,
    "link": 1,
    "weight": 100,
}
"""Values by the name of the field, or by what it is in and its name. Bits that are named here stay as they are.

Ids are those that are declared in the states ``declared`` and ``pending``, so that what takes them back does.
"""

BY_ALIAS: Mapping[str, Any] = {
    "key_scope": 7,
    "M": 1,
    "mapping": 1,
    "key_suffix": "/k",
    "D_KEYEXPR.key_id": 8,
    "D_SUBSCRIBER.key_suffix": "/**",
    "D_QUERYABLE.key_suffix": "/q",
    "D_TOKEN.key_suffix": "/t",
    "REQUEST.key_suffix": "/ask",
    "RESPONSE.key_suffix": "/q",
    "INTEREST.key_suffix": "/**",
}
"""Where an alias of ours stands for a base key, as in the states ``declared`` and ``pending``: keys with it."""

ROLES = frozenset({"A"})
"""Bits that say what a message is for: neither value of them is an option of the other."""

_NOT_CHOSEN = frozenset({"Z", "mid"})
"""Bits that follow from the rest."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a message shall be like.

    Attributes:
        options: With all that may be there or not.
        roles: Values of bits and numbers that say what it is for.
        extensions: Those it shall have, of those that it can have; None for one of each id.
        given: Values of its own fields.
        sense: What goes before ``SENSE``, here and in what is inside.
    """

    options: bool = False
    roles: Mapping[str, int] = field(default_factory=dict)
    extensions: frozenset[type[Extension]] | None = frozenset()
    given: Mapping[str, Any] = field(default_factory=dict)
    sense: Mapping[str, Any] = field(default_factory=dict)

    def inside(self, *, options: bool, extensions: frozenset[type[Extension]] | None = frozenset()) -> Wish:
        """Returns the wish for what is inside."""
        return Wish(options, extensions=extensions, sense=self.sense)

    def value(self, where: str, name: str, default: Any) -> Any:
        """Returns the value of a field that is not chosen otherwise."""
        for table in (self.sense, SENSE):
            for key in (f"{where}.{name}", name):
                if key in table:
                    return table[key]
        return default


def kind_of(cls: type[Message]) -> str:
    """Returns the name of a kind of message; two of one name are told apart by their layer."""
    name = str(cls.shape().name)
    alike = [other for other in MESSAGES if other.shape().name == name]
    return f"{name} ({cls.kind.name.lower()})" if len(alike) > 1 else name


KINDS: dict[str, type[Message]] = {kind_of(cls): cls for cls in MESSAGES}
"""Every kind of message of the description, by its name."""


def carried(message: Message, sense: Mapping[str, Any] | None = None) -> Message:
    """Puts a declaration or a data sub-message into the smallest message that can have it.

    Args:
        message: What is carried.
        sense: As in ``Wish``.

    Raises:
        ValueError: None can.
    """
    for cls in MESSAGES:
        for described in shape.walk(cls.wire_shapes()):
            if (
                isinstance(described, shape.Body)
                and described.kind == message.kind
                and message.id in described.ids
            ):
                return message_of(cls, Wish(given={described.name: message}, sense=sense or {}))
    raise ValueError(f"nothing carries a {message.name}")


def message_of(cls: type[Message], wish: Wish) -> Message:
    """Returns a valid message of a kind."""
    made = build(cls.shape(), _filled(cls.wire_shapes(), str(cls.shape().name), wish))
    assert isinstance(made, Message)
    return made


@cache
def forms(kind: str, *, by_alias: bool = False) -> dict[str, Message]:
    """Returns the forms of a kind of message, by words; with keys by an alias if wished.

    For each role: ``minimal``, ``plain`` (all options, no extension), ``full`` (one extension of each id as well),
    and ``with NAME`` for each extension.
    """
    cls = KINDS[kind]
    found: dict[str, Message] = {}
    seen: set[bytes] = set()
    alone: set[tuple[type[Extension], int]] = set()
    sense = BY_ALIAS if by_alias else {}
    for words, roles in _roles(cls):
        for form, wish in _wishes(roles, sense):
            message = message_of(cls, wish)
            raw = bytes(message)
            if raw not in seen:
                seen.add(raw)
                found[f"{form}{words}"] = message
        # An extension says the same whatever the message is for, unless that decides which one it is.
        for extension in extensions_of(cls):
            message = message_of(cls, Wish(roles=roles, extensions=frozenset({extension}), sense=sense))
            side = roles.get("A", 0)
            if message.extensions and (extension, side) not in alone:
                alone.add((extension, side))
                found[f"with {extension.__name__}{words}"] = message
    return found


def main_forms(kind: str, *, by_alias: bool = False) -> dict[str, Message]:
    """Returns those forms that together have every field: one for each role, and the fullest with extensions."""
    every = forms(kind, by_alias=by_alias)
    found = {words: message for words, message in every.items() if _form(words) == PLAIN}
    full = {words: message for words, message in every.items() if _form(words) == FULL}
    for side in (0, 1):
        own = {words: message for words, message in full.items() if getattr(message, "A", 0) == side}
        if own:
            words = max(own, key=lambda words: len(bytes(own[words])))
            found[words] = own[words]
    return found


def _form(words: str) -> str:
    return words.partition(",")[0]


def _wishes(roles: Mapping[str, int], sense: Mapping[str, Any]) -> Iterator[tuple[str, Wish]]:
    yield PLAIN, Wish(options=True, roles=roles, sense=sense)
    yield MINIMAL, Wish(roles=roles, sense=sense)
    yield FULL, Wish(options=True, roles=roles, extensions=None, sense=sense)


def extensions_of(cls: type[Message]) -> list[type[Extension]]:
    """Returns the extensions that a kind of message defines."""
    chains = [one for one in shape.walk(cls.wire_shapes()) if isinstance(one, shape.Chain)]
    return [_class_of(known) for chain in chains for known in chain.known]


def _class_of(described: shape.Extension) -> type[Extension]:
    found = layer_class(described)
    assert issubclass(found, Extension)
    return found


def _roles(cls: type[Message]) -> Iterator[tuple[str, dict[str, int]]]:
    """Yields every combination of what a message can be for, with words for it."""
    wanted = _deciding(cls.wire_shapes())
    choices: dict[str, list[int]] = {}
    for described in shape.walk(cls.wire_shapes()):
        for bits in described.bits if isinstance(described, shape.Packed) else ():
            if bits.name in ROLES and bits.name in wanted:
                choices[bits.name] = [0, 1]
            elif bits.size > 1 and bits.name in wanted:
                choices[bits.name] = [
                    int(value) for value in bits.allowed or bits.names or range(1 << bits.size)
                ]
        if isinstance(described, shape.Vle) and described.name in wanted:
            choices[described.name] = sorted(
                {SENSE.get(described.name, described.default), *wanted[described.name]}
            )
    for values in product(*choices.values()):
        roles = dict(zip(choices, values, strict=True))
        yield "".join(f", {name}={value}" for name, value in roles.items()), roles


def _deciding(shapes: tuple[shape.Shape, ...]) -> dict[str, set[int]]:
    """Returns the fields that others depend on, with the values that are named."""
    wanted: dict[str, set[int]] = {}
    for described in shape.walk(shapes):
        for need in described.conditions if isinstance(described, shape.When) else ():
            if isinstance(need, shape.Condition):
                wanted.setdefault(need.field, set()).update(() if need.equals is None else (need.equals,))
        for known in described.known if isinstance(described, shape.Chain) else ():
            for need in known.conditions:
                if isinstance(need, shape.Condition):
                    wanted.setdefault(need.field, set())
    return wanted


# Values ---------------------------------------------------------------------------------------------


def _filled(shapes: tuple[shape.Shape, ...], where: str, wish: Wish) -> dict[str, Any]:
    """Returns values of fields; what follows from others is left out."""
    values: dict[str, Any] = {}
    marks = _marks(shapes)
    wanted = _deciding(shapes)
    for described in shapes:
        _fill(described, values, where, wish, marks, wanted)
    return {**values, **wish.given}


def _fill(  # noqa: C901, PLR0912  (one match over all kinds of shape)
    described: shape.Shape,
    values: dict[str, Any],
    where: str,
    wish: Wish,
    marks: frozenset[int],
    wanted: Mapping[str, set[int]],
) -> None:
    match described:
        case shape.Packed():
            for bits in described.bits:
                if not (bits.reserved or bits.counts or bits.name in _NOT_CHOSEN):
                    values[bits.name] = _bits(bits, where, wish, wanted)
        case shape.U8() | shape.Le() | shape.Vle():
            default = described.default
            values[described.name] = wish.roles.get(
                described.name, wish.value(where, described.name, default)
            )
        case shape.Zid():
            values[described.name] = wish.value(where, described.name, ZID)
        case shape.CountedBytes() | shape.Rest():
            values[described.name] = wish.value(where, described.name, "fuzz" if described.text else b"fuzz")
        case shape.When():
            if all(_holds(need, values) for need in described.conditions):
                for inner in described.fields:
                    _fill(inner, values, where, wish, marks, wanted)
        case shape.Many():
            values[described.name] = _items(described, values, where, wish)
        case shape.Region():
            inside = _filled(described.fields, described.name.upper(), wish.inside(options=wish.options))
            values[described.name] = build(described, inside)
        case shape.Chain():
            values[described.name] = _chain(described, values, wish, marks)
        case shape.Body():
            cls = next(one for one in MESSAGES if one.kind == described.kind and one.id == described.ids[0])
            if described.name not in wish.given:
                values[described.name] = message_of(cls, wish.inside(options=False))
        case shape.Messages():
            values[described.name] = [push()] if wish.options else []
        case _:
            assert_never(described)


def push(key: str = "fuzz/k", data: bytes | None = b"hello") -> Message:
    """Returns a publication, or a deletion without data."""
    return Push(key_suffix=key, body=Del() if data is None else Put(data=data))


def _bits(bits: shape.Bits, where: str, wish: Wish, wanted: Mapping[str, set[int]]) -> int:
    chosen = wish.roles.get(bits.name, 0 if bits.name in ROLES else None)
    if chosen is not None:
        return chosen
    sense = wish.value(where, bits.name, None)
    # Bits that others depend on are set for options only; those with a meaning of their own have it.
    if sense is not None and (wish.options or bits.name not in wanted or bits.name == "N"):
        return int(sense)
    if bits.size == 1 or (bits.name in wanted and bits.default is None):
        return int(wish.options)
    return bits.default or 0


def _holds(need: shape.Condition | shape.Carries, values: Mapping[str, Any]) -> bool:
    if isinstance(need, shape.Condition):
        # Whether there is a chain follows from whether it is empty.
        return need.field in _NOT_CHOSEN or need.holds(values.get(need.field, 0))
    return need.holds([one.header for one in values.get(need.field) or ()])


def _items(described: shape.Many, values: Mapping[str, Any], where: str, wish: Wish) -> list[Any]:
    """Two items, one of each form; as many as it takes where their number is fixed."""
    times = described.times
    count = times if isinstance(times, int) else len(values[times]) if times else 2
    made = [_filled(described.item, where, wish.inside(options=bool(number % 2))) for number in range(count)]
    if len(described.item) == 1:
        return [next(iter(item.values())) for item in made]
    return made


def _chain(
    described: shape.Chain, values: Mapping[str, Any], wish: Wish, marks: frozenset[int]
) -> list[Extension]:
    """Extensions as wished, in the order of the table; without those that change what follows unless named."""
    possible = [
        known
        for known in described.known
        if all(_holds(need, values) for need in known.conditions if isinstance(need, shape.Condition))
    ]
    if wish.extensions is None:
        unmarked = [known for known in possible if known.header not in marks and not _marked(known)]
        first = {known.id: known for known in reversed(unmarked)}
        return [_extension(known, wish) for known in unmarked if first[known.id] is known]
    named = [known for known in possible if _class_of(known) in wish.extensions]
    chain: list[Extension] = []
    for known in named:
        for need in known.conditions:
            if isinstance(need, shape.Carries) and not need.negated:
                chain += [_extension(other, wish) for other in possible if other.header == need.header]
        chain.append(_extension(known, wish))
    return chain


def _marked(known: shape.Extension) -> bool:
    return any(isinstance(need, shape.Carries) and not need.negated for need in known.conditions)


def _extension(known: shape.Extension, wish: Wish) -> Extension:
    made = build(known, _filled(known.fields, known.name, wish.inside(options=True, extensions=None)))
    assert isinstance(made, Extension)
    return made


def _marks(shapes: tuple[shape.Shape, ...]) -> frozenset[int]:
    """Returns the headers of extensions that decide what else there is."""
    found: set[int] = set()
    for described in shape.walk(shapes):
        needs: list[Any] = list(described.conditions) if isinstance(described, shape.When) else []
        for known in described.known if isinstance(described, shape.Chain) else ():
            needs += known.conditions
        found |= {need.header for need in needs if isinstance(need, shape.Carries)}
    return frozenset(found)
