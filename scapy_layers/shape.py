"""What a field is, as small frozen records that need no Scapy and can be pickled.

A message is a tuple of shapes in wire order. Whoever must know the bytes (the strategies, the fuzz
requests, the column decoder, the Wireshark dissector) walks these records with one ``match`` closed by
``assert_never``, so the type checker names every reader that a new kind leaves incomplete.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import IntEnum, IntFlag

from scapy_layers.codes import Enc, Kind

Names = type[IntEnum] | type[IntFlag]
"""Enumeration that names the values of a field."""


@dataclass(frozen=True, slots=True)
class Bits:
    """Some bits of a carrier (see Packed).

    Attributes:
        name: Field name; reserved bits are called ``reserved`` and a number.
        size: How many bits.
        shift: Position of the lowest one in the carrier.
        default: What is sent unless given; None means computed.
        names: Names of the values.
        allowed: Values that a decoder accepts; None for all.
        counts: Name of the ZenohID whose length minus one stands here.
    """

    name: str
    size: int
    shift: int
    default: int | None = 0
    names: Names | None = None
    allowed: tuple[int, ...] | None = None
    counts: str | None = None

    @property
    def reserved(self) -> bool:
        """True for bits without meaning: sent as zero, ignored on receipt."""
        return self.name.startswith("reserved")


@dataclass(frozen=True, slots=True)
class Packed:
    """Bit fields that share a carrier: one byte, or one VLE integer.

    Attributes:
        bits: The fields, highest first, as the diagrams draw them.
        vle: True when the carrier is a VLE integer of up to 64 bits.
        enforced: A decoder refuses a VLE carrier that needs more bits than this; None for no limit.
    """

    bits: tuple[Bits, ...]
    vle: bool = False
    enforced: int | None = None


@dataclass(frozen=True, slots=True)
class U8:
    """One byte."""

    name: str
    default: int = 0
    names: Names | None = None
    allowed: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Le:
    """An integer of fixed size, low byte first.

    Attributes:
        name: Field name.
        size: Bytes.
        default: What is sent unless given.
        signed: Two's complement.
    """

    name: str
    size: int = 2
    default: int = 0
    signed: bool = False


@dataclass(frozen=True, slots=True)
class Vle:
    """A VLE integer.

    Attributes:
        name: Field name.
        z: Bits the value should fit: 8, 16, 32 or 64.
        enforced: A decoder refuses a larger value; otherwise real nodes cut it silently.
        default: What is sent unless given.
        names: Names of the values.
        allowed: Values that a decoder accepts; None for all.
        ntp64: It is a time, ``primitives.ntp64_ns``.
    """

    name: str
    z: int
    enforced: bool = False
    default: int = 0
    names: Names | None = None
    allowed: tuple[int, ...] | None = None
    ntp64: bool = False


@dataclass(frozen=True, slots=True)
class Zid:
    """A ZenohID: 1 to 16 bytes, little-endian, not all zero.

    Attributes:
        name: Field name.
        length: Bit field that holds its length minus one; None for the counted form (VLE length).
    """

    name: str
    length: str | None = None


@dataclass(frozen=True, slots=True)
class CountedBytes:
    """A VLE count and that many bytes.

    Attributes:
        name: Field name.
        z: Bits the count should fit.
        enforced: A decoder refuses a larger count.
        text: The bytes must be valid UTF-8.
        locator: The text must be ``proto/address`` without ``#``.
    """

    name: str
    z: int
    enforced: bool = True
    text: bool = False
    locator: bool = False


@dataclass(frozen=True, slots=True)
class Rest:
    """All bytes up to the end of the message, extension or batch around it."""

    name: str
    text: bool = False


@dataclass(frozen=True, slots=True)
class Condition:
    """When a field is present.

    Attributes:
        field: An earlier field of the same message.
        equals: Its value; None for any value but zero.
        negated: It must not be so.
    """

    field: str
    equals: int | None = 1
    negated: bool = False

    def holds(self, value: int) -> bool:
        """Tells whether the condition holds for a value of the field."""
        return (value != 0 if self.equals is None else value == self.equals) is not self.negated


@dataclass(frozen=True, slots=True)
class Carries:
    """When a field is present: a certain extension is in the chain in front of it.

    Attributes:
        field: The chain, an earlier field of the same message; absent counts as empty.
        header: Header byte of the extension, Z clear.
        negated: It must not be there.
    """

    field: str
    header: int
    negated: bool = False

    def holds(self, headers: Collection[int]) -> bool:
        """Tells whether the condition holds for the header bytes (Z clear) in the chain."""
        return (self.header in headers) is not self.negated


Conditions = tuple[Condition | Carries, ...]


@dataclass(frozen=True, slots=True)
class When:
    """Fields that are present only when all conditions hold."""

    conditions: Conditions
    fields: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Many:
    """A repeated group.

    Attributes:
        name: Field name; the value is a list of items.
        item: Fields of one item. An item of one field is its value, otherwise a small message.
        times: How often; a name: as often as that list in front has items; None: a VLE count says it.
        most: A decoder refuses a larger count.
    """

    name: str
    item: tuple[Shape, ...]
    times: int | str | None = None
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Region:
    """A VLE count of bytes, and fields that fill exactly those.

    Attributes:
        name: Field name; the value is a small layer.
        fields: What is inside.
    """

    name: str
    fields: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Extension:
    """One known extension of a message.

    The header byte is ``Z ENC ENC M id id id id``. A ZBUF extension has a VLE length and the fields fill
    exactly that many bytes; a Z64 extension is one VLE integer; a UNIT extension has no body.

    Attributes:
        name: What the specification calls it; two forms of one extension share it.
        id: Bits 3:0 of its header byte.
        enc: Which of the three bodies it has.
        mandatory: Bit M of its header byte.
        fields: Its body.
        enforced: A decoder refuses a body that does not fit the fields. Otherwise real nodes take any bytes
            unless they use what the extension offers; bytes that do not fit are kept.
        bounded: The length says where the body ends. Otherwise it is what the sender reckoned: the body ends
            where its fields do.
        conditions: On the message around it, where two bodies have the same header byte.
    """

    name: str
    id: int
    enc: Enc
    mandatory: bool
    fields: tuple[Shape, ...]
    enforced: bool = True
    bounded: bool = True
    conditions: Conditions = ()

    @property
    def header(self) -> int:
        """The header byte with Z clear, as the tables print it."""
        return self.enc << 5 | self.mandatory << 4 | self.id


@dataclass(frozen=True, slots=True)
class Chain:
    """The extension chain: headers with Z set but for the last one.

    Attributes:
        name: Field name; the value is a list of extensions.
        known: Those that this message defines.
        skips_mandatory: Real nodes skip unknown extensions here even when their M bit is set.
    """

    name: str
    known: tuple[Extension, ...]
    skips_mandatory: bool = False

    def __hash__(self) -> int:
        # A chain is looked up each time one is read; hashing all it contains would take longer than reading.
        return hash(tuple(extension.header for extension in self.known))


@dataclass(frozen=True, slots=True)
class Body:
    """Exactly one message of another kind, chosen by the id in its header byte."""

    name: str
    kind: Kind
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of another kind back to back, until an id of another kind or the end of the batch."""

    name: str
    kind: Kind
    ids: tuple[int, ...]


Shape = Packed | U8 | Le | Vle | Zid | CountedBytes | Rest | When | Many | Region | Chain | Body | Messages
"""Everything a field can be."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the protocol.

    Attributes:
        name: The specification's spelling, ``KEEP_ALIVE``.
        kind: Layer it belongs to; with ``id`` it is unique.
        id: Bits 4:0 of its header byte.
        fields: Its fields in wire order, header first.
    """

    name: str
    kind: Kind
    id: int
    fields: tuple[Shape, ...]


def walk(shapes: tuple[Shape, ...]) -> Iterator[Shape]:
    """Yields every shape, those inside When included, in wire order."""
    for shape in shapes:
        yield shape
        if isinstance(shape, When):
            yield from walk(shape.fields)
