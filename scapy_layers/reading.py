"""From bytes to values: each shape becomes a function once, a message is read by calling them in order.

Nothing here raises for what the bytes are but a ``WireError``. Time is linear in the bytes: what a count
claims is never trusted, and what was read once is not looked at again.
"""

# ruff: noqa: ARG001, SLF001  (every step has the same arguments; Scapy calls a class's own name _name)

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Protocol, Self, assert_never

from scapy_layers import shape
from scapy_layers.codes import Enc, Kind
from scapy_layers.errors import BadValue, Overlong, UnknownMandatoryExtension, UnknownMessage, WireError
from scapy_layers.primitives import Counted, CountedList, Reader, WideInt

Values = dict[str, Any]
"""The fields of a layer by name."""

MOST_ERRORS = 100
"""So many errors are listed, the first ones: a strict decoder stops at the first, a reader at a few."""


class Readable(Protocol):
    """A class of layers, as far as reading goes."""

    fields: Values
    _name: str
    stopped: bool

    @classmethod
    def read(cls, reader: Reader, errors: Findings) -> Self:
        """Dissects a layer; the reader moves behind it, the list gets what is wrong with it."""


class Findings(list[WireError]):
    """What a strict decoder refuses, in order: the first ones, and how many there were.

    Attributes:
        total: How many were found, the ones that are not kept included.
    """

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0

    def note(self, kind: type[WireError], name: str, found: str, at: int) -> None:
        """Takes note of an error that leaves the rest readable; arguments as of a WireError."""
        self.total += 1
        if len(self) < MOST_ERRORS:
            self.append(kind(name, found, at))

    def add(self, error: WireError) -> None:
        """Takes note of an error that ended something."""
        self.total += 1
        if len(self) < MOST_ERRORS:
            self.append(error)

    def within(self, start: int, place: str) -> None:
        """Says of the errors from ``start`` on that they are inside something."""
        for index in range(start, len(self)):
            self[index] = self[index].within(place)


by_id: dict[tuple[Kind, int], type[Readable]] = {}
"""The class of each message by layer and id."""

by_shape: dict[shape.Extension | shape.Region, type[Readable]] = {}
"""The class of each extension and region by its description."""

unknown_extension: list[type[Readable]] = []
"""The class of what no message defines: the only item."""

Step = Callable[[Values, Reader, Findings], bool]
"""Reads one shape into the values; errors that leave the rest readable go to the list.

It returns False when a layer inside could not be taken apart to its end, so that nothing may follow it, and
raises a WireError when the field cannot be read; the reader then stands where the field begins.
"""

Program = tuple[tuple[Step, str], ...]
"""Steps with the names of their fields."""


@cache
def program(shapes: tuple[shape.Shape, ...]) -> Program:
    """Returns the functions that read some shapes, in wire order."""
    return tuple((_step(described), _name(described)) for described in shapes)


def run(steps: Program, values: Values, reader: Reader, errors: Findings) -> bool:
    """Reads shapes one after the other; result and errors as of a Step."""
    name = ""
    try:
        for step, name in steps:  # noqa: B007  (the name of the step that raised)
            if not step(values, reader, errors):
                return False
    except WireError as error:
        if not error.field:
            error.about(name)
        raise
    return True


def _name(described: shape.Shape) -> str:
    """Returns what an error calls a field."""
    if isinstance(described, shape.Packed):
        return next(bits.name for bits in described.bits if not bits.reserved)
    return "" if isinstance(described, shape.When) else described.name


def _step(described: shape.Shape) -> Step:  # noqa: PLR0911, PLR0912, C901  (one match over all kinds of shape)
    match described:
        case shape.Packed():
            return _packed_vle(described) if described.vle else _packed_byte(described)
        case shape.U8():
            return _u8(described)
        case shape.Le():
            return _le(described)
        case shape.Vle():
            return _vle(described)
        case shape.Zid():
            return _zid(described)
        case shape.CountedBytes():
            return _counted(described)
        case shape.Rest():
            return _rest(described)
        case shape.When():
            return _when(described)
        case shape.Many():
            return _many(described)
        case shape.Region():
            return _region(described)
        case shape.Chain():
            return _chain(described)
        case shape.Body():
            return _body(described)
        case shape.Messages():
            return _messages(described)
        case _:
            assert_never(described)


def _meaning(allowed: tuple[int, ...] | None, value: int) -> str | None:
    """Returns what is wrong with a value, None when it has a meaning."""
    return None if allowed is None or value in allowed else f"{value} has no meaning"


# Numbers --------------------------------------------------------------------------------------------


def _packed_byte(described: shape.Packed) -> Step:
    # There are only 256 carriers: each is taken apart when it is first met.
    apart: dict[int, tuple[Values, tuple[tuple[str, str], ...]]] = {}

    def take_apart(carrier: int) -> tuple[Values, tuple[tuple[str, str], ...]]:
        values = {bits.name: carrier >> bits.shift & (1 << bits.size) - 1 for bits in described.bits}
        wrong = ((bits.name, _meaning(bits.allowed, values[bits.name])) for bits in described.bits)
        result = apart[carrier] = values, tuple((name, found) for name, found in wrong if found)
        return result

    def step(values: Values, reader: Reader, errors: Findings) -> bool:
        at = reader.at
        carrier = reader.u8()
        bits, wrong = apart.get(carrier) or take_apart(carrier)
        values.update(bits)
        for name, found in wrong:
            errors.note(BadValue, name, found, at)
        return True

    return step


def _packed_vle(described: shape.Packed) -> Step:
    parts = [(bits.name, bits.shift, (1 << bits.size) - 1, bits.allowed) for bits in described.bits]
    last = described.bits[-1].name

    def step(values: Values, reader: Reader, errors: Findings) -> bool:
        at = reader.at
        carrier = reader.vle()
        if described.enforced is not None and carrier >> described.enforced:
            found = f"{int(carrier)} needs more than {described.enforced} bits"
            errors.note(Overlong, _name(described), found, at)
        for name, shift, mask, allowed in parts:
            value = values[name] = carrier >> shift & mask
            found_wrong = _meaning(allowed, value)
            if found_wrong:
                errors.note(BadValue, name, found_wrong, at)
        if type(carrier) is WideInt:
            # An over-long carrier is remembered at its lowest bits.
            values[last] = WideInt(values[last], carrier.width)
        return True

    return step


def _u8(described: shape.U8) -> Step:
    name, allowed = described.name, described.allowed

    def step(values: Values, reader: Reader, errors: Findings) -> bool:
        value = values[name] = reader.u8()
        if allowed is not None and value not in allowed:
            errors.note(BadValue, name, f"{value} has no meaning", reader.at - 1)
        return True

    return step


def _le(described: shape.Le) -> Step:
    def step(values: Values, reader: Reader, errors: Findings) -> bool:
        raw = reader.take(described.size)
        values[described.name] = int.from_bytes(raw, "little", signed=described.signed)
        return True

    return step


def _vle(described: shape.Vle) -> Step:
    name, allowed = described.name, described.allowed
    bits = described.z if described.enforced else 64

    def step(values: Values, reader: Reader, errors: Findings) -> bool:
        at = reader.at
        value = values[name] = reader.vle()
        if value >> bits:
            errors.note(Overlong, name, f"{int(value)} needs more than {bits} bits", at)
        if allowed is not None and value not in allowed:
            errors.note(BadValue, name, f"{int(value)} has no meaning", at)
        return True

    return step


# Bytes ----------------------------------------------------------------------------------------------


def _zid(described: shape.Zid) -> Step:
    def step(values: Values, reader: Reader, errors: Findings) -> bool:
        at = reader.at
        if described.length:
            raw = reader.take(values[described.length] + 1, "a ZenohID")
        else:
            size = reader.vle()
            if not 1 <= size <= 16:
                reader.at = at
                raise BadValue(described.name, f"a ZenohID of {int(size)} bytes, must be 1 to 16", at)
            raw = _take_counted(size, reader, at, "a ZenohID")
        values[described.name] = raw
        if not any(raw):
            errors.note(BadValue, described.name, "a ZenohID of value 0", at)
        return True

    return step


def _take_counted(size: int, reader: Reader, at: int, what: str) -> bytes:
    """Takes the bytes behind a count that was read at ``at``; the reader goes back there when it cannot."""
    try:
        raw = reader.take(size, what)
    except WireError as error:
        reader.at = at
        raise type(error)("", error.found, at) from None
    return Counted(raw, None, size.width) if type(size) is WideInt else raw


def _counted(described: shape.CountedBytes) -> Step:
    name, text, locator = described.name, described.text, described.locator
    bits = described.z if described.enforced else 64

    def step(values: Values, reader: Reader, errors: Findings) -> bool:
        at = reader.at
        size = reader.vle()
        if size >> bits:
            reader.at = at
            raise Overlong(name, f"a length of {int(size)}, at most {(1 << bits) - 1}", at)
        raw = values[name] = _take_counted(size, reader, at, name)
        if text:
            _check_text(name, raw, at, errors)
        if locator and (b"/" not in raw or b"#" in raw):
            errors.note(BadValue, name, f"{raw!r} is no locator (proto/address[?metadata])", at)
        return True

    return step


def _rest(described: shape.Rest) -> Step:
    def step(values: Values, reader: Reader, errors: Findings) -> bool:
        at = reader.at
        raw = values[described.name] = reader.rest()
        if described.text:
            _check_text(described.name, raw, at, errors)
        return True

    return step


def _check_text(name: str, raw: bytes, at: int, errors: Findings) -> None:
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        errors.note(BadValue, name, f"not UTF-8 ({error.reason} at {error.start})", at)


# Groups ---------------------------------------------------------------------------------------------


def holds(conditions: shape.Conditions, get: Callable[[str], Any]) -> bool:
    """Tells whether all conditions hold; ``get`` gives the value of a field."""
    for need in conditions:
        value = get(need.field)
        if isinstance(need, shape.Carries):
            # What was put there to mislead is no extension.
            headers = [getattr(extension, "header", -1) for extension in value or ()]
            if not need.holds(headers):
                return False
        elif not need.holds(value):
            return False
    return True


def _when(described: shape.When) -> Step:
    inside = program(described.fields)
    conditions = described.conditions

    def step(values: Values, reader: Reader, errors: Findings) -> bool:
        for need in conditions:
            if isinstance(need, shape.Carries):
                fits = need.holds(_headers(values.get(need.field) or ()))
            else:
                fits = need.holds(values[need.field])
            if not fits:
                return True
        return run(inside, values, reader, errors)

    need = conditions[0]
    if len(conditions) > 1 or isinstance(need, shape.Carries) or need.equals != 1 or need.negated:
        return step
    field = need.field

    def flagged(values: Values, reader: Reader, errors: Findings) -> bool:
        """The commonest: one flag that must be set."""
        return run(inside, values, reader, errors) if values[field] == 1 else True

    return flagged


def _headers(chain: Iterable[Readable]) -> set[int]:
    """Returns the header bytes of extensions that were read, Z clear."""
    return {
        extension.fields["ENC"] << 5 | extension.fields["M"] << 4 | extension.fields["ext_id"]
        for extension in chain
    }


def _many(described: shape.Many) -> Step:
    name, inside = described.name, program(described.item)
    single = _plain(described.item[0]) if len(described.item) == 1 else None

    def step(values: Values, reader: Reader, errors: Findings) -> bool:
        at = reader.at
        counted = described.times is None
        match described.times:
            case None:
                count = reader.vle()
            case int():
                count = described.times
            case _:
                count = len(values.get(described.times) or ())
        if described.most is not None and count > described.most:
            errors.note(BadValue, name, f"a count of {int(count)}, at most {described.most}", at)
        items: list[Any] = []
        try:
            for index in range(count):
                start, known = reader.at, len(errors)
                item: Values = {}
                try:
                    run(inside, item, reader, errors)
                except WireError as error:
                    # What was read of this item is not kept, so it has to be read again as something else.
                    reader.at = start
                    errors.within(known, f"{name}[{index}]")
                    raise error.within(f"{name}[{index}]") from None
                errors.within(known, f"{name}[{index}]")
                items.append(single(item) if single else item)
        finally:
            width = count.width if type(count) is WideInt else None
            said = int(count) if counted and len(items) != count else None
            lies = said is not None or width is not None
            values[name] = CountedList(items, said, width) if lies else items
        return True

    return step


def _plain(described: shape.Shape) -> Callable[[Values], Any]:
    """Returns what makes the value of an item with only one field.

    Text becomes ``str``, bytes that are no UTF-8 as lone surrogates; a count that is wrong or over-long is
    kept with the bytes.
    """
    text = isinstance(described, shape.CountedBytes | shape.Rest) and described.text

    def plain(item: Values) -> Any:
        (value,) = item.values()
        return value.decode("utf-8", "surrogateescape") if text and type(value) is bytes else value

    return plain


# Layers ---------------------------------------------------------------------------------------------


def _go_on(inner: Readable, errors: Findings, known: int, place: str) -> bool:
    """Says where the errors of a layer inside are, and tells whether something may follow it."""
    errors.within(known, place)
    return not inner.stopped


def _region(described: shape.Region) -> Step:
    def step(values: Values, reader: Reader, errors: Findings) -> bool:
        known, total = len(errors), errors.total
        inner = values[described.name] = by_shape[described].read(reader, errors)
        return errors.total == total or _go_on(inner, errors, known, described.name)

    return step


def _chain(described: shape.Chain) -> Step:  # noqa: C901
    name, skips_mandatory = described.name, described.skips_mandatory
    classes: dict[int, list[tuple[shape.Conditions, type[Readable]]]] = {}
    reserved = Enc.RESERVED << 5

    def look_up() -> None:
        # Not before the first chain is read: the classes come after the tables that name them.
        for extension in described.known:
            classes.setdefault(extension.header, []).append((extension.conditions, by_shape[extension]))

    def chosen(head: int, values: Values, seen: set[int]) -> type[Readable]:
        # Reading R-08: known is what has the whole header byte of the table, Z aside.
        for conditions, cls in classes.get(head, ()):
            for need in conditions:
                # Not by ``holds``: looking through the chain again for each extension would take for ever.
                fits = need.holds(seen) if isinstance(need, shape.Carries) else need.holds(values[need.field])
                if not fits:
                    break
            else:
                return cls
        return unknown_extension[0]

    def step(values: Values, reader: Reader, errors: Findings) -> bool:
        if not classes:
            look_up()
        chain: list[Any] = []
        values[name] = chain
        seen: set[int] = set()
        more = True
        while more:
            at = reader.at
            head = reader.peek("the header of an extension")
            if head & 0x60 == reserved:
                found = "an extension with the reserved encoding 3"
                raise BadValue(f"{name}[{len(chain)}]", found, at)
            cls = chosen(head & 0x7F, values, seen)
            seen.add(head & 0x7F)
            known, total = len(errors), errors.total
            extension: Any = cls.read(reader, errors)
            chain.append(extension)
            if errors.total > total and not _go_on(
                extension, errors, known, f"{name}[{len(chain) - 1}].{extension._name}"
            ):
                return False
            if head & 0x10 and cls is unknown_extension[0] and not skips_mandatory:
                found = f"extension {head & 0x0F:#x} is not known here and is mandatory"
                errors.note(UnknownMandatoryExtension, f"{name}[{len(chain) - 1}]", found, at)
            more = head & 0x80 != 0
        return True

    return step


def _body(described: shape.Body) -> Step:
    def step(values: Values, reader: Reader, errors: Findings) -> bool:
        number = reader.peek("its header byte") & 0x1F
        if number not in described.ids:
            raise UnknownMessage(described.name, f"id {number:#04x} may not stand here", reader.at)
        known, total = len(errors), errors.total
        inner: Any = by_id[described.kind, number].read(reader, errors)
        values[described.name] = inner
        return errors.total == total or _go_on(inner, errors, known, f"{described.name}.{inner._name}")

    return step


def _messages(described: shape.Messages) -> Step:
    name, kind, ids = described.name, described.kind, frozenset(described.ids)

    def step(values: Values, reader: Reader, errors: Findings) -> bool:
        messages: list[Any] = []
        values[name] = messages
        while reader.at < reader.end:
            number = reader.data[reader.at] & 0x1F
            if number not in ids:
                break
            known, total = len(errors), errors.total
            inner: Any = by_id[kind, number].read(reader, errors)
            messages.append(inner)
            if errors.total > total and not _go_on(inner, errors, known, f"{name}.{inner._name}"):
                return False
        return True

    return step
