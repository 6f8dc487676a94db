"""boofuzz requests, read from the shapes: one element a field, valid by default, and the lies it can tell.

A request is made from a valid message, so everything that is not mutated stays correct: lengths, counts
and flags keep the values they had on the wire, whatever happens next to them. Lies are listed, not drawn:
the same message gives the same list in the same order.

Some stock pieces of boofuzz 0.4.2 cannot be used: ``Size`` wraps silently beyond 65535, a ``Block`` with
``dep`` never compares equal to an integer and mutates what it hides. So the elements are our own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, wraps
from typing import Any, ParamSpec, assert_never, cast

from boofuzz import Fuzzable, FuzzableBlock, ProtocolSessionReference, Request
from boofuzz.mutation import Mutation

from scapy_layers import shape
from scapy_layers.batch import MAX_BATCH, PREFIX
from scapy_layers.catalogue import decode
from scapy_layers.codes import Enc
from scapy_layers.errors import WireError
from scapy_layers.keyexpr import sort_of
from scapy_layers.message import Extension, Layer, Message
from scapy_layers.primitives import VLE_BYTES, VLE_MAX, Reader, vle_size, write_vle

_P = ParamSpec("_P")

LONG = 20_000
"""Bytes of what is long on purpose: two of them still fit into a batch and into what nodes accept of one."""

MIDDLING = 1200
"""Bytes of what is longer than most buffers, and still fits into the batches of small nodes with all that is around it."""

BACK = ((1 << 32) - 1024, (1 << 64) - 1024)
"""Lengths that lead back in front of the batch where they are added to an address of 32 or 64 bits."""

BYTE = 8

SMALL_ENUM = 4
"""Bit fields of at most so many bits are sent with every value."""

CUTS = 512
"""At most so many places where a batch is cut short: behind every byte of what is not longer."""

INNER_CUTS = 128
"""The same for the body of an extension or region, whose length says that it ends there."""

ENDS_OF_VLE = sorted({(1 << 7 * k) + d for k in range(1, 9) for d in (-1, 0)})
"""Where a VLE integer becomes a byte longer."""

KEYS: tuple[bytes, ...] = (
    b"", b"/", b"//", b"a//b", b"/a", b"a/", b"*", b"**", b"**/**", b"**/*", b"*/**", b"a/**/**/b", b"***",
    b"a/***", b"a**", b"**a", b"a*b", b"$*", b"$*$*", b"a$*", b"$*a", b"a$*$*b", b"$", b"a$b", b"$**", b"**$*",
    b"$*/**/$*", b"@", b"@/**", b"@a/b", b"a/@b/c", b"@/router/local", b"@@", b"?", b"#", b"a?b", b"a#b", b" ",
    b"\x00", b"a\x00b", b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a/\xe2\x82", b".", b"..", b"a/../b",
    "é".encode(), "\u202e/a".encode(), b"%s%n", b"a/" * 500 + b"a", b"*/" * 500 + b"*",
    b"**/a/" * 200 + b"**", b"$*a" * 300, b"a" * LONG, b"a/" * (LONG // 2) + b"a", b"/" * LONG, b"**/" * 3000 + b"**",
)  # fmt: skip
"""Key expressions: forms that are not canonical, wild cards, verbatim chunks, bytes that are no UTF-8, long ones."""

LOCATORS: tuple[bytes, ...] = (
    b"", b"/", b"tcp", b"tcp/", b"/127.0.0.1:1", b"tcp/127.0.0.1", b"tcp/127.0.0.1:99999", b"nope/127.0.0.1:1",
    b"tcp/127.0.0.1:1#a=b", b"tcp/127.0.0.1:1?rel=2", b"tcp/127.0.0.1:1?prio=9-0", b"tcp/[::1]:1", b"tcp/[::1",
    b"\xff/\xff", b"tcp/" + b"a" * 251, b"tcp/" + b"a" * 252,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lie:
    """One mutation.

    Attributes:
        kind: What kind of lie it is, in a word.
        words: What is done, for people.
        make: Bytes of the field, from its true value (leaves) or its true bytes (blocks).
        sort: What is sent, in few words, where that makes a difference.
    """

    kind: str
    words: str
    make: Callable[[Any], bytes]
    sort: str = field(default="", kw_only=True)

    @property
    def effect(self) -> str:
        """Lies about one field of which this is the same are expected to have one effect; campaigns mask by it."""
        return f"{self.kind}, {self.sort}" if self.sort else self.kind


@dataclass(frozen=True, slots=True)
class BitsLie(Lie):
    """Another value of packed bits.

    Attributes:
        about: Name of the bits.
        carrier: The whole carrier.
        follow: Fields under a condition on these bits come and go with them.
    """

    about: str = ""
    carrier: int = 0
    follow: bool = False


def _once(function: Callable[_P, Iterator[Lie]]) -> Callable[_P, tuple[Lie, ...]]:
    """Has lies made once for all messages: there are hundreds of these, and some lies hold many bytes."""

    @wraps(function)
    def lies(*args: _P.args, **named: _P.kwargs) -> tuple[Lie, ...]:
        return tuple(function(*args, **named))

    return cast("Callable[_P, tuple[Lie, ...]]", cache(lies))


# Elements -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """Where an element stands.

    Attributes:
        message: Name of the innermost message.
        path: From that message to the field: ``PUT.extensions.Attachment.data``.
    """

    message: str
    path: str

    def at(self, name: str) -> Place:
        """Returns the place of something inside."""
        return Place(self.message, f"{self.path}.{name}")


class Leaf(Fuzzable):
    """A field that holds nothing else.

    Args:
        name: Unique among its siblings.
        place: Where it stands.
        default: Its true value, or a reference to one that is known only when the case runs.
        write: Bytes of a true value.
        lies: What it can say instead.
    """

    def __init__(
        self, name: str, place: Place, default: Any, write: Callable[[Any], bytes], lies: Iterable[Lie]
    ) -> None:
        super().__init__(name=name, default_value=default)
        self.place = place
        self.lies = (*lies, Lie("missing", "left out", lambda _: b""))
        self._write = write

    def mutations(self, default_value: object) -> Iterator[Lie]:  # noqa: ARG002  (boofuzz calls by name)
        """Yields the lies, always in the same order."""
        yield from self.lies

    def num_mutations(self, default_value: object) -> int:  # noqa: ARG002
        """Returns how many lies there are."""
        return len(self.lies)

    def encode(self, value: Any, mutation_context: Any) -> bytes:
        """Returns the bytes of a true value or of a lie about it."""
        if isinstance(value, Lie):
            session = mutation_context.protocol_session if mutation_context else None
            return value.make(self.original_value(session))
        return self._write(value)


class Carrier(Leaf):
    """Bits that share a byte or a VLE integer; knows the value of each for conditions."""

    def __init__(
        self, name: str, place: Place, value: int, described: shape.Packed, controls: frozenset[str]
    ) -> None:
        write = write_vle if described.vle else _one_byte
        super().__init__(name, place, value, write, _carrier_lies(described, value, controls, write))
        self.value = value
        self.bits = {bits.name: bits for bits in described.bits}

    def number(self, name: str, mutation_context: Any) -> int:
        """Returns the value of one bit field as those see it that depend on it."""
        carrier = self.value
        lie = self.get_value(mutation_context)
        if isinstance(lie, BitsLie) and lie.follow:
            carrier = lie.carrier
        return _part(carrier, self.bits[name])

    def with_bits(self, wanted: Mapping[str, int]) -> Mutation:
        """Returns the mutation that gives some bits other values, so that hidden fields are shown."""
        carrier = self.value
        for name, value in wanted.items():
            carrier = _with(carrier, self.bits[name], value)
        words = ", ".join(f"{name}={value}" for name, value in wanted.items())
        lie = BitsLie("shown", f"shown by {words}", lambda _: self._write(carrier), "", carrier, True)
        return Mutation(value=lie, qualified_name=self.qualified_name, index=len(self.lies))


class Length(Leaf):
    """A length or count in front of another element; follows it unless it lies.

    Args:
        name: Unique among its siblings.
        place: Where it stands.
        of: What it counts; rendered with the same mutations.
        write: Bytes of a length.
        lies: Made from the true length.
    """

    def __init__(
        self, name: str, place: Place, of: Fuzzable, write: Callable[[int], bytes], lies: Iterable[Lie]
    ) -> None:
        super().__init__(name, place, None, write, lies)
        self._of = of

    def encode(self, value: Any, mutation_context: Any) -> bytes:
        """Returns the true length as bytes, or a lie about it."""
        true = len(self._of.render(mutation_context))
        return value.make(true) if isinstance(value, Lie) else self._write(true)


class Block(FuzzableBlock):
    """Elements one after the other; can lie as a whole.

    Args:
        name: Unique among its siblings.
        place: Where it stands.
        children: The elements.
        lies: Made from the bytes of all children.
    """

    def __init__(
        self, name: str, place: Place, children: Sequence[Fuzzable], lies: Iterable[Lie] = ()
    ) -> None:
        super().__init__(name=name, children=list(children))
        self.place = place
        self.lies = tuple(lies)

    def mutations(self, default_value: object, skip_elements: object = None) -> Iterator[Any]:  # noqa: ARG002
        """Yields the lies of the whole, then those of each child."""
        yield from self.lies
        yield from super().mutations(default_value)

    def num_mutations(self, default_value: object = None) -> int:
        """Returns how many lies there are, those of all children included."""
        return len(self.lies) + int(super().num_mutations(default_value))

    def encode(self, value: Any, mutation_context: Any) -> bytes:
        """Returns the bytes of all children, or a lie about them."""
        data: bytes = self.get_child_data(mutation_context)
        return value.make(data) if isinstance(value, Lie) else data


class Conditional(Block):
    """Elements that are there only under conditions on bits in front of them.

    Those that are not there by default are fuzzed too: together with the bits that show them.

    Args:
        name: Unique among its siblings.
        place: Where it stands.
        children: The elements.
        conditions: All must hold; with the carrier that has the bits.
    """

    def __init__(
        self,
        name: str,
        place: Place,
        children: Sequence[Fuzzable],
        conditions: Sequence[tuple[Carrier, shape.Condition]],
    ) -> None:
        super().__init__(name, place, children)
        self._conditions = conditions

    def showing(self) -> list[Mutation]:
        """Returns the mutations that show the elements when they are hidden by default."""
        missing: dict[Carrier, dict[str, int]] = {}
        for carrier, condition in self._conditions:
            if not condition.holds(carrier.number(condition.field, None)):
                named = condition.equals or 0
                wanted = next(value for value in (named, 1, 0) if condition.holds(value))
                missing.setdefault(carrier, {})[condition.field] = wanted
        return [carrier.with_bits(wanted) for carrier, wanted in missing.items()]

    def mutations(self, default_value: object, skip_elements: object = None) -> Iterator[Any]:  # noqa: ARG002
        """Yields the lies of the children; hidden ones with what shows them in front."""
        shown = self.showing()
        for mutation in super().mutations(default_value):
            yield [*shown, *mutation]

    def encode(self, value: Any, mutation_context: Any) -> bytes:
        """Returns the bytes of the children when the conditions hold."""
        if all(
            condition.holds(carrier.number(condition.field, mutation_context))
            for carrier, condition in self._conditions
        ):
            return super().encode(value, mutation_context)
        return b""


# Reading shapes -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Scope:
    """What the reader knows inside one message, extension or item.

    Attributes:
        place: Where it stands.
        values: The true values by field name; a missing one is the default of its shape.
        live: Values known only when the case runs: path of the field -> name of the value.
        controls: Fields that others depend on.
        carriers: Bit fields read so far, with their carrier.
    """

    place: Place
    values: Mapping[str, Any]
    live: Mapping[str, str]
    controls: frozenset[str]
    carriers: dict[str, Carrier] = field(default_factory=dict)

    def default(self, name: str, true: Any) -> Any:
        """Returns the true value of a field, as a reference when it is known only later."""
        path = self.place.at(name).path
        return ProtocolSessionReference(self.live[path], true) if path in self.live else true


def request_of(
    name: str,
    *messages: Message,
    live: Mapping[str, str] | None = None,
    quiet: Iterable[str] = (),
    prefixed: bool = True,
) -> Request:
    """Returns a boofuzz request that sends messages in one batch, and all lies about them.

    Args:
        name: Of the request; unique in a boofuzz session.
        messages: Valid messages.
        live: Fields whose true value is known only when a case runs: path -> name of the session variable
            of boofuzz that holds it. ``{"FRAME.sn": "sn"}``.
        quiet: Names of messages that say the truth about themselves; what is inside them may lie.
        prefixed: With the 2-byte length of stream links in front.

    Raises:
        WireError: A message is not valid.
    """
    place = Place("batch", "batch")
    inside = [
        _message(decode(bytes(message), message.kind), live or {}, frozenset(quiet)) for message in messages
    ]
    size = len(b"".join(bytes(message) for message in messages))
    batch = Block("batch", place, _numbered(inside), _batch_lies(size))
    if not prefixed:
        return Request(name, children=[batch])
    length = Length("length", place.at("length"), batch, _prefix, list(_prefix_lies()))
    return Request(name, children=[length, batch])


def field_of(element: Leaf | Block, lie: Lie) -> str:
    """Returns the path of the field that a lie is about: ``INIT.batch_size``, ``PUSH.N``."""
    if isinstance(lie, BitsLie) and lie.about:
        return f"{element.place.path.rpartition('.')[0]}.{lie.about}"
    return element.place.path


def leaves(request: Request) -> Iterator[Leaf | Block]:
    """Yields all elements of a request that have lies of their own."""
    for element in request.names.values():
        if isinstance(element, Leaf | Block) and element.lies:
            yield element


def every_lie(request: Request) -> Iterator[tuple[Leaf | Block, list[Mutation]]]:
    """Yields each lie with the element that tells it: ``request.get_mutations()`` in the same order, much faster."""
    yield from _lies_in(request.stack, [])


def _lies_in(
    elements: Iterable[Fuzzable], shown: list[Mutation]
) -> Iterator[tuple[Leaf | Block, list[Mutation]]]:
    for element in elements:
        if not isinstance(element, Leaf | Block):
            continue
        inside = [*shown, *element.showing()] if isinstance(element, Conditional) else shown
        name = element.qualified_name
        for index, lie in enumerate(element.lies):
            yield element, [*inside, Mutation(value=lie, qualified_name=name, index=index)]
        if isinstance(element, Block):
            yield from _lies_in(element.stack, inside)


def _message(message: Message, live: Mapping[str, str], quiet: frozenset[str]) -> Block:
    name = str(message.name)
    place = Place(name, name)
    elements = _elements(message.wire_shapes(), message.fields, place, live, quiet)
    if name in quiet:
        for element in elements:
            _silence(element)
        return Block(name, place, elements)
    return Block(name, place, elements, _repetitions())


def _silence(element: Fuzzable) -> None:
    """Takes away the lies of a message's own fields; messages inside it keep theirs."""
    if isinstance(element, Leaf | Block):
        element.lies = ()
    if isinstance(element, Block):
        for child in element.stack:
            if not (isinstance(child, Block) and child.place.message != element.place.message):
                _silence(child)


def _elements(
    shapes: tuple[shape.Shape, ...],
    values: Mapping[str, Any],
    place: Place,
    live: Mapping[str, str],
    quiet: frozenset[str] = frozenset(),
) -> list[Fuzzable]:
    """Reads the fields of one message, extension or item."""
    controls = frozenset(
        condition.field
        for described in shapes
        if isinstance(described, shape.When)
        for condition in described.conditions
    )
    scope = _Scope(place, values, live, controls)
    return [_element(described, scope, quiet) for described in shapes]


def _element(described: shape.Shape, scope: _Scope, quiet: frozenset[str]) -> Fuzzable:  # noqa: C901, PLR0911, PLR0912
    """Reads one shape. This is the one match over all kinds."""
    place, values = scope.place, scope.values
    match described:
        case shape.Packed():
            carrier = 0
            for bits in described.bits:
                carrier = _with(carrier, bits, values.get(bits.name, bits.default) or 0)
            name = next(bits.name for bits in described.bits if not bits.reserved)
            name = "header" if described.bits[-1].name in {"mid", "ext_id"} else name
            element = Carrier(name, place.at(name), carrier, described, scope.controls)
            scope.carriers |= dict.fromkeys(element.bits, element)
            return element
        case shape.U8():
            value = values.get(described.name, described.default)
            return Leaf(
                described.name, place.at(described.name), value, _one_byte, _u8_lies(described, value)
            )
        case shape.Le():
            value = values.get(described.name, described.default)
            lies = [*_le_lies(described, value)]
            return Leaf(described.name, place.at(described.name), value, _le(described), lies)
        case shape.Vle():
            value = int(values.get(described.name) or described.default)
            lies = [*_vle_lies(described, value)]
            return Leaf(
                described.name,
                place.at(described.name),
                scope.default(described.name, value),
                write_vle,
                lies,
            )
        case shape.Zid():
            value = bytes(values.get(described.name, b"\x01"))
            write = bytes if described.length else _counted
            counts = [] if described.length else [*_count_lies(64)]
            true = scope.default(described.name, value)
            return Leaf(described.name, place.at(described.name), true, write, [*counts, *_zid_lies(write)])
        case shape.CountedBytes():
            value = bytes(values.get(described.name, b""))
            lies = [*_count_lies(described.z), *_content_lies(_counted), *_text_lies(described, _counted)]
            return Leaf(
                described.name, place.at(described.name), scope.default(described.name, value), _counted, lies
            )
        case shape.Rest():
            value = bytes(values.get(described.name, b""))
            lies = [*_content_lies(bytes), *_text_lies(described, bytes)]
            return Leaf(
                described.name, place.at(described.name), scope.default(described.name, value), bytes, lies
            )
        case shape.When():
            return _conditional(described, scope, quiet)
        case shape.Many():
            return _many(described, scope)
        case shape.Region():
            return _region(described, scope)
        case shape.Chain():
            chain = values.get(described.name) or []
            inside = _numbered([_extension(item, place.at(described.name), scope.live) for item in chain])
            return Block(described.name, place.at(described.name), inside, _chain_lies(described, chain))
        case shape.Body():
            return Block(described.name, place, [_message(values[described.name], scope.live, quiet)])
        case shape.Messages():
            inside = [_message(item, scope.live, quiet) for item in values.get(described.name) or []]
            return Block(described.name, place.at(described.name), _numbered(inside), _repetitions())
        case _:
            assert_never(described)


def _conditional(described: shape.When, scope: _Scope, quiet: frozenset[str]) -> Fuzzable:
    """Reads what is there under conditions. Those on bits are judged when a case runs, all others now."""
    needs: list[tuple[Carrier, shape.Condition]] = []
    present = True
    for need in described.conditions:
        if isinstance(need, shape.Condition) and need.field in scope.carriers:
            needs.append((scope.carriers[need.field], need))
        elif isinstance(need, shape.Condition):
            present = present and need.holds(scope.values.get(need.field, 0))
        else:
            present = present and need.holds([one.header for one in scope.values.get(need.field) or ()])
    name = "if " + " ".join(("no " if need.negated else "") + need.field for need in described.conditions)
    inside = [_element(inner, scope, quiet) for inner in described.fields] if present else []
    first = inside[0].name if inside else "nothing"
    return Conditional(f"{name} {first}", scope.place, inside, needs)


def _region(described: shape.Region, scope: _Scope) -> Fuzzable:
    """Reads a length and the fields behind it."""
    place = scope.place.at(described.name)
    layer = scope.values.get(described.name)
    # One that is not there by default has the defaults of its shapes.
    values = layer.fields if layer else {}
    inside = _elements(described.fields, values, place, scope.live)
    body = Block("body", place, inside, _body_lies(len(bytes(layer)) if layer else 0))
    length = Length("length", place.at("length"), body, write_vle, list(_length_lies()))
    return Block(described.name, place, [length, body])


def _many(described: shape.Many, scope: _Scope) -> Fuzzable:
    place = scope.place.at(described.name)
    items: list[Fuzzable] = []
    for item in scope.values.get(described.name) or []:
        given = item if isinstance(item, dict) else {_name_of(described.item[0]): _as_bytes(item)}
        items.append(Block("item", place, _elements(described.item, given, place, scope.live)))
    group = Block("items", place, _numbered(items), _repetitions())
    if described.times is not None:
        return group
    true = len(items)
    values = {
        0,
        true + 1,
        max(0, true - 1),
        127,
        128,
        255,
        256,
        1 << 16,
        (1 << 32) - 1,
        1 << 32,
        1 << 63,
        VLE_MAX,
    }
    if described.most is not None:
        values |= {described.most, described.most + 1}
    lies = [
        _fixed("count", f"count says {value} (true: {true})", write_vle(value))
        for value in sorted(values - {true})
    ]
    count = Leaf("count", place.at("count"), true, write_vle, [*lies, *_vle_forms()])
    return Block(described.name, place, [count, group], _recounts(described))


@_once
def _recounts(described: shape.Many) -> Iterator[Lie]:
    """Other numbers of items, counted truly."""
    yield _fixed("count", "no item, count accordingly", b"\x00")
    for times in (2, 100):
        yield Lie("repeated", f"{times} times as many, count accordingly", _times_as_many(times))
    yield Lie("repeated", "very many, count accordingly", _times_as_many(None))
    if described.most is not None:
        most = described.most
        yield Lie("repeated", f"{most} or more, count accordingly", lambda data: _at_least(most, data))
        yield Lie(
            "repeated", f"{most + 1} or more, count accordingly", lambda data: _at_least(most + 1, data)
        )


def _times_as_many(times: int | None) -> Callable[[bytes], bytes]:
    """Returns what repeats counted items; so that they are long when None."""

    def repeated(data: bytes) -> bytes:
        count, items = _count_and_items(data)
        often = min(times or LONG, LONG // max(1, len(items)))
        return write_vle(min(count * often, VLE_MAX)) + items * often

    return repeated


def _at_least(most: int, data: bytes) -> bytes:
    return _times_as_many(-(-most // max(1, _count_and_items(data)[0])))(data)


def _count_and_items(data: bytes) -> tuple[int, bytes]:
    """Returns how many items there are said to be, and their bytes; where another lie left no count, all is one item."""
    reader = Reader(data)
    try:
        return reader.vle(), data[reader.at :]
    except WireError:
        return 1, data


def _name_of(described: shape.Shape) -> str:
    """Returns the name of the only field of an item."""
    return str(getattr(described, "name", ""))


def _as_bytes(value: Any) -> Any:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def _extension(extension: Extension, place: Place, live: Mapping[str, str]) -> Block:
    """Reads one extension: header, length when it has one, fields."""
    header, _, *fields = extension.wire_shapes()
    inside = place.at(str(extension.name))
    values = {**extension.fields, "Z": extension.value("Z"), "ENC": extension.value("ENC")}
    first, *rest = _elements((header, *fields), values, inside, live)
    if extension.partial:
        # A body that does not fit what is known of it, which nodes do not look into.
        raw = bytes(extension.payload)
        rest = [Leaf("data", inside.at("data"), raw, bytes, _content_lies(bytes))]
    if values["ENC"] != Enc.ZBUF:
        return Block(str(extension.name), inside, [first, Block("body", inside, rest)])
    body = Block("body", inside, rest, _body_lies(len(bytes(extension))))
    length = Length("length", inside.at("length"), body, write_vle, list(_length_lies()))
    return Block(str(extension.name), inside, [first, length, body])


def _numbered(blocks: Sequence[Fuzzable]) -> list[Fuzzable]:
    """Gives blocks of the same name numbers, since boofuzz wants siblings to differ."""
    names = [block.name for block in blocks]
    for index, block in enumerate(blocks):
        if names.count(block.name) > 1:
            block._name = f"{names[index]}[{index}]"  # noqa: SLF001  (boofuzz has no other way)
    return list(blocks)


# Lies ---------------------------------------------------------------------------------------------


def _fixed(kind: str, words: str, data: bytes) -> Lie:
    """Returns a lie that has nothing to do with the true value."""
    return Lie(kind, words, lambda _: data)


def _counting(said: int) -> Callable[[bytes], bytes]:
    """Returns what puts a count in front of bytes."""
    return lambda data: write_vle(said) + data


def _one_byte(value: int) -> bytes:
    return bytes([value & 0xFF])


def _le(described: shape.Le) -> Callable[[int], bytes]:
    return lambda value: value.to_bytes(described.size, "little", signed=described.signed)


def _counted(value: bytes) -> bytes:
    return write_vle(len(value)) + value


def _prefix(size: int) -> bytes:
    if size > MAX_BATCH:
        raise ValueError(f"a batch of {size} bytes, the length in front of it can say at most {MAX_BATCH}")
    return size.to_bytes(PREFIX, "little")


def _part(carrier: int, bits: shape.Bits) -> int:
    return carrier >> bits.shift & (1 << bits.size) - 1


def _with(carrier: int, bits: shape.Bits, value: int) -> int:
    mask = (1 << bits.size) - 1
    return carrier & ~(mask << bits.shift) | (value & mask) << bits.shift


@_once
def _carrier_lies(
    described: shape.Packed, true: int, controls: frozenset[str], write: Callable[[int], bytes]
) -> Iterator[Lie]:
    """Every bit field against what stands there: flags, values, reserved bits, ids, length nibbles."""
    for bits in described.bits:
        for value in _bit_values(bits, _part(true, bits)):
            carrier = _with(true, bits, value)
            kind = _bits_kind(bits)
            words = f"{bits.name}={value} (true: {_part(true, bits)})"
            make = _fixed(kind, words, write(carrier)).make
            if bits.name in controls:
                yield BitsLie(kind, f"{words}, content as before", make, bits.name, carrier)
                yield BitsLie("presence", f"{words}, content accordingly", make, bits.name, carrier, True)
            else:
                yield BitsLie(kind, words, make, bits.name, carrier)
    if described.vle:
        for value in (0, (1 << 32) - 1, 1 << 32, 1 << 63, VLE_MAX):
            yield _fixed("edge", f"all bits together {value}", write_vle(value))
        yield from _vle_forms()


def _bits_kind(bits: shape.Bits) -> str:
    if bits.reserved:
        return "reserved"
    if bits.name in {"mid", "ext_id"}:
        return "id"
    if bits.counts:
        return "length"
    return "flag" if bits.size == 1 else "value"


def _bit_values(bits: shape.Bits, true: int) -> list[int]:
    most = (1 << bits.size) - 1
    if bits.reserved:
        values = {
            most,
            *(1 << bit for bit in range(bits.size) if bits.size <= BYTE or bit in {0, bits.size - 1}),
        }
    elif bits.size <= SMALL_ENUM or bits.name == "mid":
        values = set(range(most + 1))
    else:
        values = {0, 1, 2, 127, 128, 255, 256, 0xFFFF, most >> 1, most - 1, most, true + 1, abs(true - 1)}
        values |= _beyond(bits.names, bits.allowed)
    return sorted(value for value in values if value <= most and value != true)


def _beyond(names: shape.Names | None, allowed: tuple[int, ...] | None) -> set[int]:
    """Returns the last value of a table, and the one behind it."""
    lasts = {int(max(table)) for table in (names, allowed) if table}
    return lasts | {last + 1 for last in lasts}


@_once
def _u8_lies(described: shape.U8, true: int) -> Iterator[Lie]:
    values = {0, 1, 2, 127, 128, 254, 255, (true + 1) & 0xFF, (true - 1) & 0xFF}
    values |= {true ^ 1 << bit for bit in range(8)}
    if described.names:
        values |= {int(member) for member in described.names}
    values |= _beyond(described.names, described.allowed)
    for value in sorted(value for value in values - {true} if value <= 0xFF):
        yield _fixed("value", f"{value} (true: {true})", bytes([value]))


@_once
def _le_lies(described: shape.Le, true: int) -> Iterator[Lie]:
    write = _le(described)
    bits = 8 * described.size - described.signed
    least, most = (-(1 << bits) if described.signed else 0), (1 << bits) - 1
    values = {0, 1, 2, 9, 10, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xC000, 0xFF00, 0xFFFF, least, most}
    for value in sorted((values | {true + 1, true - 1}) - {true}):
        if least <= value <= most:
            yield _fixed("edge", f"{value} (true: {true})", write(value))
    yield Lie("cut", "its last byte is gone", lambda value: write(value)[:-1])


@_once
def _vle_lies(described: shape.Vle, true: int) -> Iterator[Lie]:
    limit = (1 << described.z) - 1
    values = {0, 1, *ENDS_OF_VLE, limit, limit + 1, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, 1 << 63, VLE_MAX}
    if described.names:
        values |= {int(member) for member in described.names}
    values |= _beyond(described.names, described.allowed)
    for value in sorted(value for value in values if value <= VLE_MAX and value != true):
        kind = "edge" if value <= limit else f"beyond {described.z} bits"
        yield _fixed(kind, f"{value}", write_vle(value))
    yield Lie("edge", "one more than true", lambda value: write_vle(min(value + 1, VLE_MAX)))
    yield Lie("edge", "one less than true", lambda value: write_vle(max(value - 1, 0)))
    yield from _vle_forms()


@_once
def _vle_forms() -> Iterator[Lie]:
    """Forms of a VLE integer that no encoder writes."""
    yield Lie(
        "over-long", "in one byte more than needed", lambda value: _wide(value, vle_size(_integer(value)) + 1)
    )
    yield Lie("over-long", "in nine bytes", lambda value: _wide(value, VLE_BYTES))
    yield _fixed("unterminated", "a byte that says more follows, then the next field", b"\x80")
    yield _fixed("unterminated", "eight bytes that say more follows", b"\xff" * 8)
    yield _fixed("unterminated", "twelve bytes that say more follows", b"\xff" * 12)


def _wide(value: Any, width: int) -> bytes:
    return write_vle(_integer(value), min(width, VLE_BYTES))


def _integer(value: Any) -> int:
    """Returns what stands in a VLE integer: the value, or the count of bytes."""
    return len(value) if isinstance(value, bytes) else int(value)


@_once
def _count_lies(z: int) -> Iterator[Lie]:
    """A count in front of bytes that are as before."""
    yield Lie("count", "count says 0", lambda data: b"\x00" + data)
    yield Lie("count", "count says one less", lambda data: write_vle(max(0, len(data) - 1)) + data)
    yield Lie("count", "count says one more", lambda data: write_vle(len(data) + 1) + data)
    for said in sorted(
        {
            127,
            128,
            255,
            256,
            (1 << 16) - 1,
            1 << 16,
            (1 << min(z, 63)) - 1,
            (1 << 32) - 1,
            1 << 63,
            *BACK,
            VLE_MAX,
        }
    ):
        yield Lie("count", f"count says {said}", _counting(said))
    for lie in _vle_forms():
        yield Lie(lie.kind, f"count {lie.words}", _in_front_of(lie.make))


def _in_front_of(make: Callable[[Any], bytes]) -> Callable[[bytes], bytes]:
    """Returns what puts a form of the count in front of bytes."""
    return lambda data: make(data) + data


@_once
def _length_lies() -> Iterator[Lie]:
    """The length of a ZBuf extension; its body is as before."""
    yield _fixed("length", "length says 0", b"\x00")
    yield Lie("length", "length says one less", lambda size: write_vle(max(0, size - 1)))
    yield Lie("length", "length says one more", lambda size: write_vle(size + 1))
    for said in (127, 128, 255, 1 << 16, (1 << 31) - 1, (1 << 32) - 1, 1 << 32, 1 << 63, *BACK, VLE_MAX):
        yield _fixed("length", f"length says {said}", write_vle(said))
    yield from _vle_forms()


@_once
def _body_lies(size: int) -> Iterator[Lie]:
    """What stands behind a length, cut or with more behind it; the length is true.

    Args:
        size: Of the whole, length included.
    """
    step = max(1, -(-size // INNER_CUTS))
    for end in range(0, size - 1, step):
        yield Lie("cut", f"ends after {end} bytes, length accordingly", _first(end))
    yield Lie("trailing", "one byte 00 more, length accordingly", lambda data: data + b"\x00")
    yield Lie("trailing", "16 bytes ff more, length accordingly", lambda data: data + b"\xff" * 16)
    yield Lie("repeated", "twice, length accordingly", lambda data: data * 2)


@_once
def _content_lies(write: Callable[[bytes], bytes]) -> Iterator[Lie]:
    """Other bytes behind a true count."""
    for size in (0, 1, 64, 255, 256, MIDDLING, LONG):
        yield _fixed("content", f"{size} bytes ff", write(b"\xff" * size))
    yield Lie("content", "16 bytes 00", lambda _: write(bytes(16)))
    yield Lie("content", "the last byte is gone", lambda data: write(data[:-1]))
    yield Lie("content", "one byte more", lambda data: write(data + b"\x00"))
    yield Lie("content", "twice", lambda data: write(data * 2))
    yield Lie(
        "content",
        "first bit flipped",
        lambda data: write(bytes([data[0] ^ 0x80]) + data[1:] if data else b"\x80"),
    )
    yield Lie(
        "content",
        "last bit flipped",
        lambda data: write(data[:-1] + bytes([data[-1] ^ 1]) if data else b"\x01"),
    )


@_once
def _text_lies(described: shape.CountedBytes | shape.Rest, write: Callable[[bytes], bytes]) -> Iterator[Lie]:
    if not described.text:
        return
    locator = isinstance(described, shape.CountedBytes) and described.locator
    for text in LOCATORS if locator else KEYS:
        shown = repr(text)[2:-1]
        words = shown if len(shown) <= 40 else f"{shown[:24]}... ({len(text)} bytes)"
        sort = "" if locator else sort_of(text)
        yield replace(_fixed("text", f"text '{words}'", write(text)), sort=sort)


@_once
def _zid_lies(write: Callable[[bytes], bytes]) -> Iterator[Lie]:
    """Other ZenohIDs, also of a length that the nibble in front does not say."""
    for data, words in (
        (b"", "no byte"), (b"\x01", "one byte"), (b"\x00", "one byte 0"), (bytes(16), "16 bytes 0"),
        (b"\xff" * 16, "16 bytes ff"), (b"\x01" + bytes(15), "15 bytes 0 at the end"), (b"\x01" * 17, "17 bytes"),
        (b"\x01" * 15, "15 bytes"), (b"\x01" * 255, "255 bytes"),
    ):  # fmt: skip
        yield _fixed("zid", words, write(data))


def _repeated(data: bytes) -> bytes:
    return data * max(2, LONG // max(1, len(data)))


def _repetitions() -> list[Lie]:
    """A whole message or group of messages left out, doubled, sent very often, cut."""
    return [
        Lie("missing", "left out", lambda _: b""),
        Lie("repeated", "twice", lambda data: data * 2),
        Lie("repeated", "very often", _repeated),
        Lie("cut", "its second half is gone", lambda data: data[: len(data) // 2]),
    ]


@_once
def _batch_lies(size: int) -> Iterator[Lie]:
    step = max(1, -(-size // CUTS))
    for end in range(0, size, step):
        yield Lie("cut", f"cut after {end} bytes", _first(end))
    yield Lie("trailing", "one byte 00 behind it", lambda data: data + b"\x00")
    yield Lie("trailing", "one byte ff behind it", lambda data: data + b"\xff")
    yield Lie("trailing", "16 bytes ff behind it", lambda data: data + b"\xff" * 16)
    yield Lie("trailing", "padded with 00 to 65535 bytes", lambda data: data.ljust(MAX_BATCH, b"\x00"))
    yield Lie("repeated", "twice in the batch", lambda data: data * 2)


def _first(size: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:size]


@_once
def _prefix_lies() -> Iterator[Lie]:
    """The 2-byte length; the batch is as before."""
    for said in (0, 1, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xC000, 0xC001, MAX_BATCH):
        yield _fixed("length", f"length says {said}", _prefix(said))
    yield Lie("length", "length says one less", lambda size: _prefix(max(0, size - 1)))
    yield Lie("length", "length says one more", lambda size: _prefix(min(MAX_BATCH, size + 1)))
    yield Lie("length", "length says twice as much", lambda size: _prefix(min(MAX_BATCH, size * 2)))
    yield Lie("length", "high byte first", lambda size: size.to_bytes(2, "big"))
    yield Lie("cut", "one byte instead of two", lambda size: _prefix(size)[:1])


def _extended(kind: str, words: str, head: int, body: bytes = b"", times: int = 1) -> Lie:
    """Returns the lie that puts extensions in front of the true ones."""
    return Lie(kind, words, lambda data: in_front(head, body, times, data))


def _chain_lies(described: shape.Chain, chain: Sequence[Layer]) -> Iterator[Lie]:
    """Other chains than the true one."""
    yield from _foreign_lies(described)
    if len(chain) > 1:
        yield _fixed("order", "in reverse order", chained([bytes(one) for one in reversed(chain)]))
    for extension in chain:
        raw = bytes(extension)
        yield _extended("repeated extension", f"{extension.name} twice", raw[0], raw[1:])
        yield _extended(
            "repeated extension", f"{extension.name} 200 times", raw[0], raw[1:], min(200, LONG // len(raw))
        )


@_once
def _foreign_lies(described: shape.Chain) -> Iterator[Lie]:
    """Extensions that are not in the true chain."""
    yield _extended("unknown extension", "an unknown optional Unit extension", 0x0E)
    yield _extended("unknown extension", "an unknown optional Z64 extension", 0x2E, b"\x07")
    yield _extended("unknown extension", "an unknown optional ZBuf extension", 0x4E, b"\x02hi")
    yield _extended("mandatory extension", "an unknown mandatory Unit extension", 0x1E)
    yield _extended("mandatory extension", "an unknown mandatory Z64 extension", 0x3E, b"\x07")
    yield _extended("mandatory extension", "an unknown mandatory ZBuf extension", 0x5E, b"\x02hi")
    yield _extended("reserved encoding", "an optional extension with ENC 3", 0x6E, b"\x01\x00")
    yield _extended("reserved encoding", "a mandatory extension with ENC 3", 0x7E, b"\x01\x00")
    yield _extended("extension length", "a ZBuf extension of 2^32-1 bytes", 0x4E, write_vle((1 << 32) - 1))
    yield _extended("extension length", "a ZBuf extension of 2^64-1 bytes", 0x4E, write_vle(VLE_MAX))
    yield _extended("extension length", "a ZBuf extension of an unterminated length", 0x4E, b"\x80")
    yield _extended("many extensions", "1000 unknown Unit extensions", 0x0E, times=1000)
    yield _extended("many extensions", f"{LONG} unknown Unit extensions", 0x0E, times=LONG)
    yield _extended("many extensions", "1000 unknown ZBuf extensions", 0x4E, b"\x02hi", 1000)
    yield _fixed("endless chain", "every extension says that one follows", b"\x8e" * 256)
    yield _fixed("endless chain", "one extension that says one follows", b"\x8e")
    # Extensions with the same header byte are told apart by the message around them.
    for known in {one.header: one for one in described.known}.values():
        minimal = {Enc.UNIT: b"", Enc.Z64: b"\x00", Enc.ZBUF: b"\x00"}
        for enc in (Enc.UNIT, Enc.Z64, Enc.ZBUF):
            head = known.header & ~0x60 | enc << 5
            words = (
                f"{known.name} with encoding {enc.name}" if enc is not known.enc else f"an empty {known.name}"
            )
            yield _extended("known extension", words, head, minimal[enc])
        if known.enc is Enc.Z64:
            yield _extended(
                "known extension", f"{known.name} of value 2^64-1", known.header, write_vle(VLE_MAX)
            )
        if known.enc is Enc.ZBUF:
            yield _extended(
                "known extension",
                f"{known.name} of 4000 bytes ff",
                known.header,
                write_vle(4000) + b"\xff" * 4000,
            )
        yield _extended(
            "known extension", f"{known.name} with M flipped", known.header ^ 0x10, minimal[known.enc]
        )


def chained(extensions: Sequence[bytes]) -> bytes:
    """Returns a chain of extensions; Z is set on all but the last."""
    last = len(extensions) - 1
    return b"".join(
        bytes([raw[0] & 0x7F | (number < last) << 7]) + raw[1:] for number, raw in enumerate(extensions)
    )


def in_front(head: int, body: bytes, times: int, data: bytes) -> bytes:
    """Puts extensions in front of a chain; Z is set on all but the last of the whole chain.

    Args:
        head: Header byte of the extensions, Z clear.
        body: What follows it.
        times: How many.
        data: The chain; empty for none.
    """
    one = bytes([head | 0x80]) + body
    if data:
        return one * times + data
    return one * (times - 1) + bytes([head & 0x7F]) + body
