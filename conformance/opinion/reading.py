"""Messages of each packet: as our reader of captures hears them, as the tester had them, and as tshark shows them."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from scapy_layers import capture, names
from scapy_layers.batch import contents
from scapy_layers.catalogue import shapes
from scapy_layers.codes import Kind
from scapy_layers.conversation import Heard, Unread, listen
from scapy_layers.message import Layer, Message
from scapy_layers.tshark import Tshark, TsharkError, complaint

SECONDS = 60.0
"""tshark may take as long as this, and ``SECONDS_EACH`` for each packet."""

SECONDS_EACH = 0.02

MESSAGES = frozenset(names.layer_name(described) for described in shapes().values())
"""What messages are called in the fields of Wireshark."""


@dataclass(frozen=True, slots=True)
class Told:
    """A message as a reader tells it.

    Attributes:
        name: ``push``.
        fields: Its numbers and flags by name: those that every reader has without interpreting them.
    """

    name: str
    fields: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


Reading = dict[int, list[Told]]
"""Messages by number of the packet, in the order of the bytes."""


# Ours -----------------------------------------------------------------------------------------------


def heard(path: Path) -> Reading:
    """Returns what our reader of captures hears: streams are cut, fragments put together, batches decompressed."""
    found: Reading = {}
    for item in listen(capture.read(path)):
        if isinstance(item, Heard) and not isinstance(item.message, Unread):
            found.setdefault(item.number, []).extend(_alone(item.message))
    return found


def decoded(batch: bytes) -> Iterator[list[Told]]:
    """Yields what a batch is to the tester: as one of a link, and as a datagram of scouting."""
    for kind in (None, Kind.SCOUTING):
        yield [told for message in contents(batch, kind).messages for told in _nested(message)]


def _alone(message: Layer) -> Iterator[Told]:
    """Yields a message and its body, but not what a FRAME carries, which is heard by itself."""
    yield _told(message)
    body = message.fields.get("body")
    if isinstance(body, Message):
        yield from _alone(body)


def _nested(message: Layer) -> Iterator[Told]:
    yield _told(message)
    for inner in [*message.fields.get("messages", []), message.fields.get("body")]:
        if isinstance(inner, Message):
            yield from _nested(inner)


def _told(layer: Layer) -> Told:
    numbers = {name: int(value) for name, value in layer.fields.items() if isinstance(value, int)}
    return Told(names.layer_name(layer.shape()), numbers)


# tshark ---------------------------------------------------------------------------------------------

_FIELD = re.compile(rb'<field name="(num|zenoh\.([a-z_]+)(?:\.(\w+))?)"[^>]*? show="([^"]*)"')


def shown(
    program: Tshark, loading: Sequence[str], path: Path, packets: int, ports: Mapping[str, Iterable[int]]
) -> Reading:
    """Returns what tshark shows with our dissector.

    Args:
        program: tshark.
        loading: What loads our dissector.
        path: The capture.
        packets: How many it has.
        ports: Preferences of our dissector that name ports: what to read without having to recognise it.

    Raises:
        TsharkError: It gave up, or took too long.
    """
    command = [str(program.path), "-n", *loading, "-r", str(path), "-T", "pdml", "-J", "zenoh"]
    for name, numbers in ports.items():
        if wanted := ",".join(map(str, sorted(numbers))):
            command += ["-o", f"zenoh.{name}:{wanted}"]
    with (
        tempfile.TemporaryDirectory() as empty,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        # Nothing of what a person has configured.
        environment = {**os.environ, "WIRESHARK_CONFIG_DIR": empty}
        limit = SECONDS + SECONDS_EACH * packets
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
            raise TsharkError(f"tshark did not come to an end within {limit:.0f} s") from None
        err.seek(0)
        said = complaint(err.read())
        if run.returncode:
            raise TsharkError(f"tshark ended with exit status {run.returncode}: {said}")
        out.seek(0)
        return read_pdml(out)


def read_pdml(source: IO[bytes]) -> Reading:
    """Returns the messages in what tshark writes, which has one field a line, outer ones first."""
    found: Reading = {}
    number, fields = 0, dict[str, int]()
    for line in source:
        match = _FIELD.search(line)
        if match is None:
            continue
        name, layer, inner, value = match.groups()
        if name == b"num":
            number = int(value)
        elif inner is None:
            if (message := layer.decode()) in MESSAGES:
                fields = {}
                found.setdefault(number, []).append(Told(message, fields))
        elif found.get(number) and layer.decode() == found[number][-1].name:
            _note(fields, inner.decode(), value)
    return found


def _note(fields: dict[str, int], name: str, value: bytes) -> None:
    text = value.decode("utf-8", "replace")
    if re.fullmatch(r"0x[0-9a-f]+|\d+", text):
        fields.setdefault(name, int(text, 16) if text.startswith("0x") else int(text))
    elif text in {"True", "False"}:
        fields.setdefault(name, int(text == "True"))
