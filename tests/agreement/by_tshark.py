"""What tshark says with our dissector: PDML back into messages, its highlighted bytes read again.

A unit is what one batch item of the tree shows, or the item of a message that fragments made.
"""

from __future__ import annotations

import codecs
import os
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Protocol
from xml.etree import ElementTree

from scapy_layers import names, shape
from scapy_layers.catalogue import shapes
from scapy_layers.errors import WireError
from scapy_layers.names import Type
from scapy_layers.primitives import Reader, zid_to_text
from tests.agreement.said import Complaint, Entry, Part, Reading, Refusal, Said, Value

SCRIPT = Path(__file__).parents[2] / "scapy_layers" / "zenoh.lua"

FIELDS = names.all_fields(shapes().values())
_MESSAGES = {names.layer_name(described): described for described in shapes().values()}
_EXTENSIONS = {names.UNKNOWN_EXTENSION} | {
    names.layer_name(inner)
    for described in shapes().values()
    for inner in names.inner_layers(described.fields)
    if isinstance(inner, shape.Extension)
}

SECONDS = 60.0
"""tshark may take as long as this, and ``SECONDS_EACH`` for each packet."""

SECONDS_EACH = 0.02


class TsharkFailed(Exception):
    """tshark ended with an error, or not at all."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One unit as tshark shows it.

    Attributes:
        packet: Number of the packet.
        fragments: It was put together from fragments.
        reading: What is said of it.
    """

    packet: int
    fragments: bool
    reading: Reading


# tshark -------------------------------------------------------------------------------------------


def shown(path: Path, packets: int, *, script: Path = SCRIPT) -> list[Shown]:
    """Returns all units that tshark finds in a capture of so many packets.

    Raises:
        TsharkFailed: It did not come to an end, or says that it failed.
    """
    command = ["tshark", "-n", "-X", f"lua_script:{script}", "-r", str(path), "-T", "pdml", "-J", "zenoh _ws.lua _ws.malformed"]
    limit = SECONDS + SECONDS_EACH * packets
    with tempfile.TemporaryDirectory() as empty, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        # Nothing of what a person has configured or installed.
        environment = {**os.environ, "WIRESHARK_CONFIG_DIR": empty, "HOME": empty}
        try:
            run = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            raise TsharkFailed(f"{path}: no end within {limit:.0f} s") from None
        err.seek(0)
        said = err.read().decode(errors="replace")
        if run.returncode or "lua" in said.lower():
            raise TsharkFailed(f"{path}: exit status {run.returncode}: {said.strip()}")
        out.seek(0)
        return list(units_in(out))


def units_in(source: IO[bytes]) -> Iterator[Shown]:
    """Yields all units in PDML; where a script failed in a packet, its reading complains of that."""
    parser = ElementTree.XMLPullParser(("start", "end"))
    root = None
    for text in codecs.iterdecode(iter(partial(source.read, 1 << 16), b""), "utf-8", "replace"):
        parser.feed(text)
        for event, element in parser.read_events():
            if root is None:
                root = element
            if event == "end" and element.tag == "packet":
                yield from _packet(element)
                root.clear()


def _packet(packet: ElementTree.Element) -> Iterator[Shown]:
    number, failure = 0, ""
    for node in packet.iter():
        if node.get("name") == "num":
            number = int(node.get("show", "0"))
        elif not failure and "Lua Error" in (told := node.get("showname", "") or node.get("show", "")):
            failure = told
    if failure:
        # What the tree shows in front of it counts for nothing.
        yield Shown(number, False, Reading(complaints=(Complaint(0, "packet", "script", "no failure", failure),)))
        return
    for batch, fragments in _batches(packet, fragments=False):
        yield Shown(number, fragments, _Batch(batch).reading())


def _batches(node: ElementTree.Element, *, fragments: bool) -> Iterator[tuple[ElementTree.Element, bool]]:
    """Yields batch items in the order in which they were read: what fragments make behind their batch."""
    for child in node:
        if child.get("name") == "zenoh.batch":
            yield child, fragments
            yield from _batches(child, fragments=True)
        else:
            yield from _batches(child, fragments=fragments)


# Fields -------------------------------------------------------------------------------------------


class _Reread(Protocol):
    """Reads the value of a field from the bytes that are highlighted for it; may raise ``WireError``."""

    def __call__(self, raw: bytes) -> Value: ...


def _bits_of_byte(shift: int, size: int, raw: bytes) -> int:
    (byte,) = raw
    return byte >> shift & (1 << size) - 1


def _bits_of_vle(shift: int, size: int, raw: bytes) -> int:
    reader = Reader(raw)
    carrier = reader.vle()
    if reader.left:
        raise ValueError("more than the integer is highlighted")
    return int(carrier) >> shift & (1 << size) - 1


def _little_endian(signed: bool, raw: bytes) -> int:
    return int.from_bytes(raw, "little", signed=signed)


def _zid(raw: bytes) -> str:
    return zid_to_text(raw)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _itself(raw: bytes) -> bytes:
    return raw


def _ways(layer: str, described: Iterable[shape.Shape]) -> Iterator[tuple[str, _Reread]]:
    for one in described:
        match one:
            case shape.Packed():
                of = _bits_of_vle if one.vle else _bits_of_byte
                for bits in one.bits:
                    yield f"zenoh.{layer}.{bits.name}", partial(of, bits.shift, bits.size)
            case shape.U8():
                yield f"zenoh.{layer}.{one.name}", partial(_bits_of_byte, 0, 8)
            case shape.Le():
                yield f"zenoh.{layer}.{one.name}", partial(_little_endian, one.signed)
            case shape.Vle():
                yield f"zenoh.{layer}.{one.name}", partial(_bits_of_vle, 0, 64)
            case shape.Zid():
                yield f"zenoh.{layer}.{one.name}", _zid
            case shape.CountedBytes() | shape.Rest():
                yield f"zenoh.{layer}.{one.name}", _text if one.text else _itself
            case shape.When():
                yield from _ways(layer, one.fields)
            case shape.Many():
                yield from _ways(layer, one.item)
            case shape.Region() | shape.Chain() | shape.Body() | shape.Messages():
                pass


def _all_ways() -> dict[str, list[_Reread]]:
    """Returns how the bytes of each field can be read; extensions that share a name may do it differently."""
    found: dict[str, list[_Reread]] = defaultdict(list)
    for described in shapes().values():
        for layer in (described, *names.inner_layers(described.fields)):
            for name, way in _ways(names.layer_name(layer), layer.fields):
                found[name].append(way)
    found["zenoh.unknown_extension.z64"].append(partial(_bits_of_vle, 0, 64))
    found["zenoh.unknown_extension.data"].append(_itself)
    return found


_REREAD: dict[str, list[_Reread]] = _all_ways()


def _highlighted(node: ElementTree.Element) -> bytes:
    """Returns the bytes that are highlighted for a field."""
    return bytes.fromhex(node.get("unmaskedvalue") or node.get("value", ""))


def _value(node: ElementTree.Element, kind: Type) -> Value:
    """Returns the value of a field; text and bytes are what is highlighted, as what is shown may be cut or escaped."""
    told = node.get("show", "")
    match kind:
        case Type.TEXT:
            return _text(_highlighted(node))
        case Type.BYTES:
            return _highlighted(node)
        case Type.ZID:
            return told
        case _:
            return int(told, 0)


def _says_so(node: ElementTree.Element, name: str, value: Value) -> str | None:
    """Returns what is wrong with the bytes that are highlighted for a value, or with how it is shown."""
    raw, told = _highlighted(node), node.get("show", "")
    if len(raw) != int(node.get("size", "0")):
        return f"{node.get('size')} bytes, of which tshark gives {len(raw)}"
    if isinstance(value, bytes):
        return None if told.replace(":", "") == value.hex() else f"shown as {told}"
    if FIELDS[name].type is Type.TEXT:
        plain = str(value).isascii() and str(value).isprintable() and "\\" not in str(value)
        return None if told == value or not plain else f"shown as {told!r}"
    for way in _REREAD[name]:
        try:
            if way(raw) == value:
                return None
        except (WireError, ValueError):
            continue
    return f"highlighted {raw.hex() or 'nothing'}"


# Units --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Found:
    """What stands in a message of the tree, as it is walked."""

    at: int
    size: int
    name: str
    within: int | None
    entries: list[Entry] = field(default_factory=list)
    parts: list[_FoundPart] = field(default_factory=list)
    begun: list[tuple[int, Entry]] = field(default_factory=list)
    last: tuple[int, int] = (0, 0)

    def said(self) -> Said:
        return Said(
            self.at, self.size, self.name, self.within, tuple(self.entries), tuple(p.part() for p in self.parts)
        )


@dataclass(slots=True)
class _FoundPart:
    layer: str
    header: int = -1
    body: bytes = b""
    unread: bool = False
    entries: list[Entry] = field(default_factory=list)
    parts: list[_FoundPart] = field(default_factory=list)

    def part(self) -> Part:
        inside = tuple(part.part() for part in self.parts)
        return Part(self.layer, self.header, self.body, tuple(self.entries), inside, self.unread)


class _Batch:
    """One batch item of the tree."""

    def __init__(self, node: ElementTree.Element) -> None:
        self._node = node
        self._base = 0
        self._messages: list[_Found] = []
        self._complaints: list[Complaint] = []
        self._refusal: Refusal | None = None

    def reading(self) -> Reading:
        """Reads the item."""
        for child in self._node:
            if _layer(child) in _MESSAGES:
                self._base = _place(child)[0]
                break
        for child in self._node:
            if _layer(child) in _MESSAGES:
                self._message(child, None)
            elif child.get("name") == "zenoh.error":
                told = {one.get("name"): one.get("show", "") for one in child}
                self._refusal = Refusal(
                    int(told["zenoh.error.offset"]), told["zenoh.error.kind"], told["zenoh.error.field"]
                )
        messages, started = self._messages, None
        if self._refusal is not None:
            messages, started = self._up_to_the_fault(self._refusal)
        complaints = tuple(self._complaints)
        return Reading(tuple(one.said() for one in messages), self._refusal, complaints, started)

    def _up_to_the_fault(self, refusal: Refusal) -> tuple[list[_Found], tuple[Entry, ...]]:
        """Splits the messages into those in front of the refused one, and what was read of that."""
        if refusal.field == "header":
            return [one for one in self._messages if one.at < refusal.offset], ()
        # A message with a body is refused with it.
        whole = [
            index
            for index, one in enumerate(self._messages)
            if one.at <= refusal.offset and (one.within is None or self._named(one.within) == "frame")
        ]
        if not whole:
            return [], ()
        wrong = whole[-1]
        started = [
            entry for one in self._messages[wrong:] for end, entry in one.begun if end <= refusal.offset
        ]
        return self._messages[:wrong], tuple(started)

    def _named(self, at: int) -> str:
        return next(one.name for one in self._messages if one.at == at)

    def _message(self, node: ElementTree.Element, within: int | None) -> None:
        start, size = _place(node)
        found = _Found(start - self._base, size, _layer(node), within, last=(start, start))
        self._messages.append(found)
        self._walk(node, found, None, (start, start + size))

    def _walk(
        self, node: ElementTree.Element, found: _Found, part: _FoundPart | None, inside: tuple[int, int]
    ) -> None:
        for child in node:
            name, layer = child.get("name", ""), _layer(child)
            if name == "zenoh.batch":
                continue
            if layer in _MESSAGES:
                self._message(child, found.at)
            elif layer in _EXTENSIONS:
                extension = _FoundPart(layer)
                (found if part is None else part).parts.append(extension)
                self._walk(child, found, extension, inside)
            elif name in FIELDS:
                self._field(child, name, found, part, inside)
            elif name == "zenoh.extension.header" and part is not None:
                part.header = int(child.get("show", "0"), 0) & 0x7F
            elif name == "zenoh.unread" and part is not None:
                part.unread, part.body = True, _highlighted(child)
            else:
                self._walk(child, found, part, inside)

    def _field(
        self,
        node: ElementTree.Element,
        name: str,
        found: _Found,
        part: _FoundPart | None,
        inside: tuple[int, int],
    ) -> None:
        named = FIELDS[name]
        entry = Entry(named.layer, named.name, _value(node, named.type))
        (found if part is None else part).entries.append(entry)
        start, size = _place(node)
        found.begun.append((start + size - self._base, entry))
        wrong = _says_so(node, name, entry.value)
        if wrong is None and not inside[0] <= start <= start + size <= inside[1]:
            wrong = f"highlighted at {start - self._base}, {size} bytes, outside of its message"
        if wrong is None and (start, start + size) != found.last and start < found.last[1]:
            wrong = f"highlighted at {start - self._base}, which belongs to the field in front of it"
        found.last = (start, start + size)
        if wrong is not None:
            self._complaints.append(Complaint(found.at, found.name, name, repr(entry.value), wrong))


def _layer(node: ElementTree.Element) -> str:
    """Returns the layer whose item a node is, empty for other nodes."""
    name = node.get("name", "")
    return name.removeprefix("zenoh.") if name.count(".") == 1 else ""


def _place(node: ElementTree.Element) -> tuple[int, int]:
    return int(node.get("pos", "0")), int(node.get("size", "0"))


