"""Scapy fields of Zenoh messages. Each carries its shape; nothing else describes the bytes.

The fields convert and show values. Reading and writing bytes is one function each in ``message.py``,
which walks the shapes like every other reader does.
"""

# ruff: noqa: ARG002, N802  (Scapy gives every method the packet; what stands in a field list reads like a type)

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable
from dataclasses import replace
from enum import IntEnum, IntFlag
from functools import reduce
from operator import or_
from typing import Any

from scapy.fields import ConditionalField, Field
from scapy.packet import Packet
from scapy.volatile import RandBin, RandNum

from scapy_layers import shape
from scapy_layers.codes import DataId, DeclarationId, Kind, NetworkId, ScoutingId, TransportId
from scapy_layers.primitives import Counted, CountedList, WideInt, iso, ntp64_ns, zid_from_text, zid_to_text

KIND_OF_IDS: dict[shape.Names, Kind] = {
    ScoutingId: Kind.SCOUTING,
    TransportId: Kind.TRANSPORT,
    NetworkId: Kind.NETWORK,
    DeclarationId: Kind.DECLARATION,
    DataId: Kind.DATA,
}


class ZenohField(Field):
    """Base of all fields here: has a shape and no Scapy format string.

    Attributes:
        shape: What stands on the wire. Bit fields that share a carrier share one Packed.
    """

    __slots__ = ["shape"]

    def __init__(self, name: str, default: Any, described: shape.Shape) -> None:
        self.shape = described
        super().__init__(name, default, fmt="B")


class NumberField(ZenohField):
    """An integer: bits of a carrier, a byte, a 16-bit word, or a VLE integer."""

    __slots__ = ["limit", "names"]

    def __init__(
        self, name: str, default: int | None, described: shape.Shape, limit: int, names: shape.Names | None
    ) -> None:
        # A signed field goes from -limit - 1 to limit.
        self.limit = limit
        self.names = names
        super().__init__(name, default, described)

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """Takes a number, or the name of a value in any case (``router``, ``CURRENT_FUTURE``, ``ROUTER|PEER``)."""
        if type(x) is int and 0 <= x <= self.limit:
            return x
        if isinstance(x, str) and self.names:
            several = x.upper().split("|") if issubclass(self.names, IntFlag) else [x.upper()]
            try:
                return reduce(or_, (int(self.names[name.strip()]) for name in several))
            except KeyError:
                known = ", ".join(self.names.__members__)
                raise ValueError(f"{self.name}: {x!r} is none of {known}") from None
        if isinstance(x, bool | IntEnum | IntFlag):
            x = int(x)
        if isinstance(x, int) and not 0 <= x <= self.limit:
            raise ValueError(f"{self.name}: {x} does not fit, the wire carries 0 to {self.limit}")
        return x

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        """Shows the number, with the time or the name that it stands for and the width of an over-long form."""
        text = str(int(x)) if isinstance(x, int) else repr(x)
        if isinstance(x, int) and isinstance(self.shape, shape.Vle) and self.shape.ntp64:
            text += f" ({iso(ntp64_ns(x))})"
        if self.names and isinstance(x, int):
            try:
                name = self.names(x).name
            except ValueError:
                name = None
            text += f" ({name})" if name else ""
        return f"{text} in {x.width} bytes" if isinstance(x, WideInt) else text

    def randval(self) -> Any:
        """Returns a random value that the wire can carry; None for bits that can only have one value."""
        bits = self.shape.bits if isinstance(self.shape, shape.Packed) else ()
        fixed = any(part.name == self.name and part.allowed == (self.default,) for part in bits)
        return None if fixed else RandNum(0, self.limit)


class BytesField(ZenohField):
    """Bytes; those that are text are shown and set as ``str``."""

    __slots__ = ["text"]

    def __init__(self, name: str, default: bytes, described: shape.Shape, text: bool = False) -> None:
        self.text = text
        super().__init__(name, default, described)

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """Takes bytes, or text (encoded as UTF-8, lone surrogates back to the bytes they stand for)."""
        return x.encode("utf-8", "surrogateescape") if isinstance(x, str) else x

    def i2h(self, pkt: Packet | None, x: Any) -> Any:
        """Gives text as ``str`` (bytes that are no UTF-8 as lone surrogates), the rest as bytes."""
        return x.decode("utf-8", "surrogateescape") if self.text and isinstance(x, bytes) else x

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        """Shows text or bytes, and a count that lies."""
        shown = repr(self.i2h(pkt, x))
        if isinstance(x, Counted) and x.said is not None and x.said != len(x):
            shown += f" behind the count {x.said}"
        return shown

    def randval(self) -> Any:
        """Returns random bytes."""
        return RandBin(RandNum(0, 64))


class ZidField(ZenohField):
    """A ZenohID: bytes in wire order, or the text form (hexadecimal of the number).

    Args:
        name: Field name.
        length: Bit field that holds its length minus one; None for the form with a VLE length.
        default: Wire bytes.
    """

    __slots__ = []

    def __init__(self, name: str, length: str | None = None, default: bytes = b"\x01") -> None:
        super().__init__(name, default, shape.Zid(name, length))

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """Takes wire bytes or the text form."""
        return zid_from_text(x) if isinstance(x, str) else x

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        """Shows the text form."""
        return zid_to_text(x) if isinstance(x, bytes) else repr(x)

    def randval(self) -> Any:
        """Returns a random 16-byte ZenohID."""
        return RandBin(16)


class ListField(ZenohField):
    """A list of values, of extensions, or of messages."""

    __slots__ = ["holds_packets"]
    islist = 1

    def __init__(self, name: str, described: shape.Shape, packets: bool) -> None:
        self.holds_packets = int(packets)
        super().__init__(name, [], described)

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """Takes a list, or a single item."""
        if x is None or isinstance(x, list):
            return x
        return list(x) if isinstance(x, tuple) else [x]

    def do_copy(self, x: Any) -> Any:
        """Copies the list and what is in it; a count that lies is kept."""
        if type(x) is list and all(isinstance(item, Packet) for item in x):
            return [item.copy() for item in x]
        return copy.deepcopy(x)

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        """Shows the items, and a count that lies."""
        if not isinstance(self.shape, shape.Many) or not any(isinstance(item, dict) for item in x or ()):
            return repr(x)
        zids = {one.name for one in shape.walk(self.shape.item) if isinstance(one, shape.Zid)}
        shown = ", ".join(_group(item, zids) if isinstance(item, dict) else repr(item) for item in x)
        said = f" behind the count {x.said}" if isinstance(x, CountedList) and x.said is not None else ""
        return f"[{shown}]{said}"

    def randval(self) -> Any:
        """Returns None: the items of a list are made random one by one."""
        return None


def _group(item: dict[str, Any], zids: set[str]) -> str:
    """Returns one line about a group; what is reserved, or follows from what is there, is left out."""
    parts = [
        f"{name}={zid_to_text(value) if name in zids and isinstance(value, bytes) else repr(value)}"
        for name, value in item.items()
        if not name.startswith(("reserved", "has_"))
    ]
    return "{" + " ".join(parts) + "}"


class PacketField(ZenohField):
    """One message inside another."""

    __slots__ = []
    holds_packets = 1

    def any2i(self, pkt: Packet | None, x: Any) -> Any:
        """Takes a message."""
        return x

    def i2repr(self, pkt: Packet | None, x: Any) -> str:
        """Shows the message."""
        return repr(x)


class WhenField(ConditionalField):
    """A field that is present under conditions, which are data.

    Attributes:
        conditions: All must hold.
    """

    __slots__ = ["conditions"]

    def __init__(self, field: ZenohField, conditions: shape.Conditions) -> None:
        self.conditions = conditions
        super().__init__(field, lambda pkt: pkt.present(conditions))

    def i2h(self, pkt: Packet | None, x: Any) -> Any:
        """Gives the value, None when it is absent; but a list always, so that items can be appended."""
        return x if isinstance(self.fld, ListField) else super().i2h(pkt, x)


AnyField = ZenohField | WhenField


# What a field list is written with, in wire order --------------------------------------------------


def Bits(
    name: str,
    size: int,
    names: shape.Names | None = None,
    *,
    default: int | None = 0,
    allowed: Iterable[int] | None = None,
    counts: str | None = None,
) -> shape.Bits:
    """Some bits, to stand inside ``packed``; arguments as in shape.Bits."""
    fixed = tuple(int(value) for value in allowed) if allowed is not None else None
    return shape.Bits(name, size, 0, int(default) if default is not None else None, names, fixed, counts)


def Flag(name: str) -> shape.Bits:
    """One bit that says whether something is present; computed unless given."""
    return shape.Bits(name, 1, 0, None)


def Reserved(size: int) -> shape.Bits:
    """Bits without meaning."""
    return shape.Bits("reserved", size, 0)


def packed(*bits: shape.Bits, vle: bool = False, enforced: int | None = None) -> list[ZenohField]:
    """Bit fields in one byte, highest first, or in one VLE integer.

    A VLE carrier gets reserved bits on top, up to 64, so that every value it can have is kept; one that
    needs more than ``enforced`` bits is refused by a decoder.

    Raises:
        ValueError: The bits do not fill whole bytes.
    """
    total = sum(part.size for part in bits)
    if vle and total < 64:
        bits = (Reserved(64 - total), *bits)
        total = 64
    if total != (64 if vle else 8):
        raise ValueError(f"{total} bits do not fill their carrier")
    placed: list[shape.Bits] = []
    shift = total
    for part in bits:
        shift -= part.size
        # Reserved bits are named by their place, so that each field of a message has its own name.
        name = f"reserved{shift}" if part.name == "reserved" else part.name
        placed.append(shape.Bits(name, part.size, shift, part.default, part.names, part.allowed, part.counts))
    group = shape.Packed(tuple(placed), vle, enforced)
    fields = [NumberField(b.name, b.default, group, (1 << b.size) - 1, b.names) for b in placed]
    if not vle:
        for field, part in zip(fields, placed, strict=True):
            # In bytes; Scapy's rfc() draws by it.
            field.sz = part.size / 8
    return fields


def header(mid: IntEnum, *flags: str | shape.Bits) -> list[ZenohField]:
    """The header byte of a message: flags from bit 7 down (``-`` for a reserved one), then the id."""
    parts = [
        flag if isinstance(flag, shape.Bits) else Reserved(1) if flag == "-" else Flag(flag) for flag in flags
    ]
    # Reserved header bits get a name of their own: a packed byte of the same message may have some too.
    parts = [
        shape.Bits(f"reserved_{7 - index}", 1, 0) if part.name == "reserved" else part
        for index, part in enumerate(parts)
    ]
    return packed(*parts, Bits("mid", 5, type(mid), default=mid, allowed=[mid]))


def U8(
    name: str, default: int = 0, names: shape.Names | None = None, *, allowed: Iterable[int] | None = None
) -> ZenohField:
    """One byte."""
    fixed = tuple(int(value) for value in allowed) if allowed is not None else None
    return NumberField(name, default, shape.U8(name, default, names, fixed), 0xFF, names)


def U16le(name: str, default: int = 0) -> ZenohField:
    """Two bytes, low byte first."""
    return NumberField(name, default, shape.Le(name, 2, default), 0xFFFF, None)


def Vle(
    name: str,
    z: int,
    names: shape.Names | None = None,
    *,
    default: int = 0,
    enforced: bool = False,
    allowed: Iterable[int] | None = None,
    ntp64: bool = False,
) -> ZenohField:
    """A VLE integer; arguments as in shape.Vle."""
    fixed = tuple(int(value) for value in allowed) if allowed is not None else None
    described = shape.Vle(name, z, enforced, default, names, fixed, ntp64)
    return NumberField(name, default, described, (1 << 64) - 1, names)


def CountedBytes(name: str, z: int, *, enforced: bool = True) -> ZenohField:
    """A VLE count and that many bytes. A ``Counted`` value lies about the count."""
    return BytesField(name, b"", shape.CountedBytes(name, z, enforced))


def CountedText(name: str, z: int, *, enforced: bool = True, locator: bool = False) -> ZenohField:
    """A VLE count and that many bytes of UTF-8."""
    return BytesField(name, b"", shape.CountedBytes(name, z, enforced, text=True, locator=locator), text=True)


def Rest(name: str, *, text: bool = False) -> ZenohField:
    """All bytes up to the end of what is around the field."""
    return BytesField(name, b"", shape.Rest(name, text), text)


def Many(name: str, *item: AnyField, times: int | str | None = None, most: int | None = None) -> ZenohField:
    """A list of groups; an item of one field is a plain value, otherwise a dictionary of its fields."""
    return ListField(name, shape.Many(name, shapes_of(list(item)), times, most), packets=False)


def Body(name: str, *ids: IntEnum) -> ZenohField:
    """One message of another kind."""
    kind = KIND_OF_IDS[type(ids[0])]
    return PacketField(name, None, shape.Body(name, kind, tuple(int(i) for i in ids)))


def Messages(name: str, ids: type[IntEnum]) -> ZenohField:
    """Messages of another kind back to back."""
    return ListField(name, shape.Messages(name, KIND_OF_IDS[ids], tuple(int(i) for i in ids)), packets=True)


def when(condition: str | tuple[str, int | None] | shape.Carries, *fields: AnyField) -> list[AnyField]:
    """Fields that are present only when something in front of them is so.

    Args:
        condition: A flag that must be set, a field and its value (None: any but zero), or an extension that
            must be there.
        fields: May be conditional themselves; then both conditions must hold.
    """
    outer = _condition(condition)
    result: list[AnyField] = []
    for inner in fields:
        if isinstance(inner, WhenField):
            result.append(WhenField(inner.fld, (outer, *inner.conditions)))
        else:
            result.append(WhenField(inner, (outer,)))
    return result


def unless(condition: str | tuple[str, int | None] | shape.Carries, *fields: AnyField) -> list[AnyField]:
    """Fields that are present only when something in front of them is not so; arguments as in ``when``."""
    negated = replace(_condition(condition), negated=True)
    return [
        WhenField(f.fld, (negated, *f.conditions)) if isinstance(f, WhenField) else WhenField(f, (negated,))
        for f in fields
    ]


def _condition(condition: str | tuple[str, int | None] | shape.Carries) -> shape.Condition | shape.Carries:
    match condition:
        case str():
            return shape.Condition(condition)
        case shape.Carries():
            return condition
        case _:
            return shape.Condition(*condition)


def shapes_of(fields: Iterable[Any]) -> tuple[shape.Shape, ...]:
    """Returns the shapes of a field list in wire order: what all readers read.

    Bit fields of one carrier become one Packed, neighbours under the same conditions one When.

    Raises:
        TypeError: A field cannot be described: it is not from this module.
    """
    plain: list[tuple[shape.Conditions, shape.Shape]] = []
    for field in fields:
        conditions = field.conditions if isinstance(field, WhenField) else ()
        inner = field.fld if isinstance(field, WhenField) else field
        if not isinstance(inner, ZenohField):
            raise TypeError(f"{inner!r} is no field from scapy_layers.fields and cannot be described")
        described = inner.shape
        if plain and isinstance(described, shape.Packed) and plain[-1][1] is described:
            continue
        plain.append((conditions, described))
    result: list[shape.Shape] = []
    for conditions, group in itertools.groupby(plain, key=lambda pair: pair[0]):
        members = tuple(described for _, described in group)
        result.extend([shape.When(conditions, members)] if conditions else members)
    return tuple(result)
