"""What tshark says with our dissector: PDML back into messages, its highlighted bytes read again.

A unit is what one batch item of the tree shows, or the item of a message that fragments made.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from xml.etree.ElementTree import Element, XMLPullParser

import scapy_layers
from fuzz.readers.reread import FIELDS, complaint, highlighted, place, value_of
from fuzz.readers.said import Complaint, Entry, Part, Reading, Refusal, Said
from scapy_layers import names, shape, tshark
from scapy_layers.catalogue import shapes

SCRIPT = Path(scapy_layers.__file__).parent / "zenoh.lua"

_MESSAGES = {names.layer_name(described): described for described in shapes().values()}
_EXTENSIONS = {names.UNKNOWN_EXTENSION} | {
    names.layer_name(inner)
    for described in shapes().values()
    for inner in names.inner_layers(described.fields)
    if isinstance(inner, shape.Extension)
}

RIGHT = "the value of the bytes that are highlighted"
"""What tshark is to show of a field."""

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
        datagram: It came by UDP.
        reading: What is said of it.
    """

    packet: int
    fragments: bool
    datagram: bool
    reading: Reading


# tshark -------------------------------------------------------------------------------------------


def shown(path: Path, packets: int, *, script: Path = SCRIPT, options: Sequence[str] = ()) -> list[Shown]:
    """Returns all units that tshark finds in a capture of so many packets.

    Raises:
        TsharkFailed: It did not come to an end, or says that it failed.
    """
    command = [
        str(tshark.find().path),
        "-n",
        "-X",
        f"lua_script:{script}",
        "-r",
        str(path),
        "-T",
        "pdml",
        "-J",
        "zenoh _ws.lua _ws.malformed",
        *options,
    ]
    limit = SECONDS + SECONDS_EACH * packets
    with (
        tempfile.TemporaryDirectory() as empty,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        # Nothing of what a person has configured or installed.
        environment = {**os.environ, "WIRESHARK_CONFIG_DIR": empty, "HOME": empty}
        try:
            run = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environment,
                timeout=limit,
                check=False,
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
    parser: XMLPullParser[Element] = XMLPullParser(("end",))
    for line in source:
        parser.feed(_decoded(line))
        for *_, element in parser.read_events():
            if isinstance(element, Element) and element.tag == "packet":
                yield from _packet(element)
                element.clear()


def _decoded(line: bytes) -> str:
    """Decodes a line of PDML; a field of ours that is no UTF-8, and so no XML, is marked with ``broken``."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        # What Wireshark's own dissectors make of a payload is not ours.
        return line.replace(b'<field name="zenoh.', b'<field broken="" name="zenoh.').decode(errors="replace")


def _script_error(node: Element) -> str:
    """Returns what a script failed with; that a field says the same words, as keys may, is no failure."""
    told = node.get("showname", "") or node.get("show", "")
    of_a_field = node.get("name", "") not in {"", "_ws.lua.error"}
    return told if told.startswith("Lua Error:") and not of_a_field else ""


def _packet(packet: Element) -> Iterator[Shown]:
    number, failure = 0, ""
    for node in packet.iter():
        if node.get("name") == "num":
            number = int(node.get("show", "0"))
        elif not failure and (told := _script_error(node)):
            failure = told
        elif not failure and "broken" in node.attrib:
            failure = f"{node.get('name')} is no UTF-8: {node.get('show')}"
    if failure:
        # What the tree shows in front of it counts for nothing.
        yield Shown(
            number,
            False,
            False,
            Reading(complaints=(Complaint(0, "packet", "script", "no failure", failure),)),
        )
        return
    datagram = any(layer.get("name") == "udp" for layer in packet)
    for batch, fragments in _batches(packet, fragments=False):
        yield Shown(number, fragments, datagram, _Batch(batch).reading())


def _batches(node: Element, *, fragments: bool) -> Iterator[tuple[Element, bool]]:
    """Yields batch items in the order in which they were read: what fragments make behind their batch."""
    for child in node:
        if child.get("name") == "zenoh.batch":
            yield child, fragments
            yield from _batches(child, fragments=True)
        else:
            yield from _batches(child, fragments=fragments)


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
            self.at,
            self.size,
            self.name,
            self.within,
            tuple(self.entries),
            tuple(p.part() for p in self.parts),
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

    def __init__(self, node: Element) -> None:
        self._node = node
        self._base = 0
        self._messages: list[_Found] = []
        self._complaints: list[Complaint] = []
        self._refusal: Refusal | None = None

    def reading(self) -> Reading:
        """Reads the item."""
        for child in self._node:
            if _layer(child) in _MESSAGES:
                self._base = _begin(child)
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
            if (one.within is None or self._named(one.within) == "frame") and self._may_be_about(refusal, one)
        ]
        if not whole:
            return [], ()
        wrong = whole[-1]
        started = [
            entry for one in self._messages[wrong:] for end, entry in one.begun if end <= refusal.offset
        ]
        return self._messages[:wrong], tuple(started)

    def _may_be_about(self, refusal: Refusal, one: _Found) -> bool:
        if one.at != refusal.offset:
            return one.at < refusal.offset
        # What ends here may lack something at its end; the path tells whether it is about the first byte of this one.
        return refusal.field.count(".") == (1 if one.within is None else 3)

    def _named(self, at: int) -> str:
        return next(one.name for one in self._messages if one.at == at)

    def _message(self, node: Element, within: int | None) -> None:
        start, size = _begin(node), place(node)[1]
        found = _Found(start - self._base, size, _layer(node), within, last=(start, start))
        self._messages.append(found)
        self._walk(node, found, None, (start, start + size))

    def _walk(self, node: Element, found: _Found, part: _FoundPart | None, inside: tuple[int, int]) -> None:
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
                part.unread, part.body = True, highlighted(child)
            else:
                self._walk(child, found, part, inside)

    def _field(
        self,
        node: Element,
        name: str,
        found: _Found,
        part: _FoundPart | None,
        inside: tuple[int, int],
    ) -> None:
        named = FIELDS[name]
        entry = Entry(named.layer, named.name, value_of(node, named.type))
        (found if part is None else part).entries.append(entry)
        start, size = place(node)
        found.begun.append((start + size - self._base, entry))
        wrong = complaint(node, name, entry.value)
        if wrong is None and not inside[0] <= start <= start + size <= inside[1]:
            wrong = f"highlighted at {start - self._base}, {size} bytes, outside of its message"
        if wrong is None and (start, start + size) != found.last and start < found.last[1]:
            wrong = f"highlighted at {start - self._base}, which belongs to the field in front of it"
        found.last = (start, start + size)
        if wrong is not None:
            self._complaints.append(Complaint(found.at, found.name, name, RIGHT, f"{entry.value!r}, {wrong}"))


def _layer(node: Element) -> str:
    """Returns the layer whose item a node is, empty for other nodes."""
    name = node.get("name", "")
    return name.removeprefix("zenoh.") if name.count(".") == 1 else ""


def _begin(node: Element) -> int:
    """Returns where a message begins: where its first field does.

    What PDML says of an item that begins in front of the one around it, as in bytes of another tab, is the sum of both.
    """
    first = next(iter(node), None)
    return place(node if first is None else first)[0]
