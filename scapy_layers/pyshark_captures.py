"""pyshark's captures, read by this process itself, with packets whose Zenoh fields have types.

pyshark drives tshark through an event loop of asyncio: it warns, fails inside a running loop (notebooks), and
takes two turns of the loop for each packet. Here the output is read line by line; everything else is pyshark's.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from pyshark import FileCapture as _FileCapture
from pyshark import LiveCapture as _LiveCapture
from pyshark.capture.capture import Capture as _Capture
from pyshark.capture.capture import StopCapture
from pyshark.ek_field_mapping import MAPPING
from pyshark.packet.layers.ek_layer import EkLayer
from pyshark.packet.layers.json_layer import JsonLayer
from pyshark.packet.packet import Packet
from pyshark.tshark.tshark import TSharkVersionException

from scapy_layers.tshark import Tshark, TsharkError, complaint
from scapy_layers.typed_fields import FieldTable, Pairs, from_ek, from_json

_GRACE = 10
"""Seconds tshark may take to end when it is asked to."""

_NO_LOOP = object()
"""Given to pyshark for an event loop, so that it does not make one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How tshark is run.

    Attributes:
        program: Which one.
        mode: ``ek`` or ``json``.
        arguments: Besides those that pyshark makes of its own options.
        table: The fields of Zenoh.
    """

    program: Tshark
    mode: str
    arguments: list[str]
    table: FieldTable

    @property
    def options(self) -> dict[str, Any]:
        """What pyshark is told of it."""
        return {
            "use_ek": self.mode == "ek",
            "use_json": self.mode == "json",
            "tshark_path": str(self.program.path),
            "custom_parameters": self.arguments,
            "eventloop": _NO_LOOP,
        }


class _Reading:
    """How packets come out of tshark."""

    _plan: Plan
    get_parameters: Callable[..., list[str]]

    def _begin(self, plan: Plan) -> None:
        self._plan = plan
        self._programs: set[subprocess.Popen[bytes]] = set()

    def _packets_from_tshark_sync(
        self, packet_count: int | None = None, existing_process: None = None, duration: float | None = None
    ) -> Generator[Packet, None, None]:
        """Yields packets; this is what all of pyshark's ways to get some are made of."""
        assert existing_process is None
        with tempfile.TemporaryFile() as told, self._opened() as pipe:
            command = self._command(duration)
            program = subprocess.Popen(command, stdin=pipe, stdout=subprocess.PIPE, stderr=told)
            self._programs.add(program)
            assert program.stdout is not None
            try:
                packets = _ek_packets if self._plan.mode == "ek" else _json_packets
                for number, packet in enumerate(packets(program.stdout, self._plan), 1):
                    yield packet
                    if number == packet_count or program not in self._programs:
                        return
                if program.wait():
                    told.seek(0)
                    raise TsharkError(
                        f"tshark: {complaint(told.read()) or f'ended with {program.returncode}'}"
                    )
            finally:
                self._end(program)

    def _opened(self) -> AbstractContextManager[int | None]:
        """Opens what tshark gets as its input, if anything."""
        return nullcontext(None)

    def _command(self, duration: float | None = None) -> list[str]:
        command = [str(self._plan.program.path), "-n", "-T", self._plan.mode, *self.get_parameters()]
        if isinstance(self, LiveCapture):
            # These packets are wanted at once, those of a file as quickly as possible.
            command.append("-l")
            if duration is not None:
                command += ["-a", f"duration:{math.ceil(duration)}"]
        return command

    def _end(self, program: subprocess.Popen[bytes]) -> None:
        self._programs.discard(program)
        if program.poll() is None:
            program.terminate()
        if program.stdout is not None:
            program.stdout.close()
        try:
            program.wait(_GRACE)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()

    def apply_on_packets(
        self,
        callback: Callable[[Packet], object],
        timeout: float | None = None,
        packet_count: int | None = None,
    ) -> None:
        """Calls a function with each packet until there are no more, or it raises pyshark's StopCapture.

        Args:
            callback: Takes a packet.
            timeout: Seconds after which a live capture ends, in whole ones; a file is read to its end.
            packet_count: How many packets at most; all when None or 0.
        """
        with closing(self._packets_from_tshark_sync(packet_count or None, duration=timeout)) as packets:
            try:
                for packet in packets:
                    callback(packet)
            except StopCapture:
                pass

    def close(self) -> None:
        """Ends every tshark that still runs for this capture."""
        for program in list(self._programs):
            self._end(program)

    async def close_async(self) -> None:
        """Does the same."""
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_programs"):
            self.close()


class FileCapture(_Reading, _FileCapture):
    """A capture in a file, packets with typed Zenoh fields; everything else as in pyshark."""

    def __init__(self, plan: Plan, capture: Path, **options: Any) -> None:
        """Takes how to run tshark, and pyshark's own options."""
        self._begin(plan)
        super().__init__(str(capture), **plan.options, **options)


class LiveCapture(_Reading, _LiveCapture):
    """What travels now, packets with typed Zenoh fields; everything else as in pyshark."""

    def __init__(self, plan: Plan, interfaces: Sequence[str], **options: Any) -> None:
        """Takes how to run tshark, and pyshark's own options."""
        self._begin(plan)
        # pyshark's own set-up asks for all interfaces of the machine, and fails when there are none.
        _Capture.__init__(self, **plan.options, **options)
        self.interfaces = list(interfaces)

    def get_parameters(self, packet_count: int | None = None) -> list[str]:
        """Returns the arguments of tshark, which captures itself."""
        parameters: list[str] = _Capture.get_parameters(self, packet_count=packet_count)
        names = ["-"] if self._pipe() else self.interfaces
        return [*parameters, *(part for name in names for part in ("-i", name))]

    def _pipe(self) -> str:
        """Returns the pipe to read from that only we may open: whoever captures for root gives that right away."""
        name = self.interfaces[0] if len(self.interfaces) == 1 else ""
        return name if self._plan.program.refuses and Path(name).is_fifo() else ""

    @contextmanager
    def _opened(self) -> Iterator[int | None]:
        pipe = self._pipe()
        descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK) if pipe else None
        try:
            yield descriptor
        finally:
            if descriptor is not None:
                os.close(descriptor)


class _EkLayer(EkLayer):
    """A layer of another protocol, which loads pyshark's table of types (half a second) when it is needed."""

    __slots__ = ("_program",)

    def __init__(self, name: str, tree: dict[str, Any], program: Tshark) -> None:
        super().__init__(name, tree)
        self._program = program

    def _get_field_value(self, full_field_name: str) -> Any:
        if not MAPPING._protocol_to_mapping:  # noqa: SLF001  (there is no other way)
            _load_types(self._program)
        return super()._get_field_value(full_field_name)

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return _EkLayer, (self._layer_name, self._fields_dict, self._program)


def _load_types(program: Tshark) -> None:
    with warnings.catch_warnings():
        # pyshark leaves closing its files to the interpreter.
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            MAPPING.load_mapping(".".join(map(str, program.version)), tshark_path=str(program.path))
        except (OSError, json.JSONDecodeError, TSharkVersionException):
            # No folder for its cache, or another process is writing it right now; from Wireshark 4.6 on the table does not
            # say any more what pyshark knows its version by.
            MAPPING._protocol_to_mapping = program.types()  # noqa: SLF001


def _ek_packets(lines: IO[bytes], plan: Plan) -> Iterator[Packet]:
    table = plan.table
    ours = table.protocol
    for line in lines:
        if line.startswith(b'{"index"') or line.isspace():
            # For Elasticsearch; a packet follows.
            continue
        layers: Pairs = json.loads(line.decode("utf-8", "replace"), object_pairs_hook=Pairs)["layers"]
        frame = layers.pop("frame")
        found = []
        for name in _in_order(layers, frame.get("frame_frame_protocols", "")):
            trees = [
                tree for tree in _listed(layers[name]) if isinstance(tree, Pairs) and "filtered" not in tree
            ]
            if name == ours and trees:
                found.append(from_ek(table, trees))
            else:
                found += [_EkLayer(name, tree, plan.program) for tree in trees]
        yield Packet(
            layers=found,
            frame_info=_EkLayer("frame", frame, plan.program),
            number=int(frame.get("frame_frame_number", 0)),
            length=int(frame.get("frame_frame_len", 0)),
            captured_length=int(frame.get("frame_frame_cap_len", 0)),
            sniff_time=_epoch(frame.get("frame_frame_time_epoch", "0")),
            interface_captured=frame.get("frame_frame_interface_id"),
        )


def _json_packets(lines: IO[bytes], plan: Plan) -> Iterator[Packet]:
    table = plan.table
    ours = table.protocol
    for text in _objects(lines):
        layers: Pairs = json.loads(text.decode("utf-8", "replace"), object_pairs_hook=Pairs)["_source"][
            "layers"
        ]
        frame = layers.pop("frame")
        found: list[Any] = []
        for name in _in_order(layers, frame.get("frame.protocols", "")):
            if name == ours:
                # A tree without fields is only a name.
                trees = [tree if isinstance(tree, Pairs) else Pairs([]) for tree in _listed(layers[name])]
                if "filtered" not in trees[0]:
                    found.append(from_json(table, trees))
            elif name != "_ws.lua.fake":
                found += [JsonLayer(name, tree) for tree in _listed(layers[name]) if "filtered" not in tree]
        yield Packet(
            layers=found,
            frame_info=JsonLayer("frame", frame),
            number=int(frame.get("frame.number", 0)),
            length=int(frame.get("frame.len", 0)),
            captured_length=int(frame.get("frame.cap_len", 0)),
            sniff_time=_epoch(frame.get("frame.time_epoch", "0")),
            interface_captured=frame.get("frame.interface_id"),
        )


def _objects(lines: IO[bytes]) -> Iterator[bytes]:
    """Yields the packets in tshark's JSON: a list of objects, each from a line ``  {`` to a line ``  }``."""
    inside: list[bytes] = []
    for line in lines:
        if line.startswith(b"  {"):
            inside = [b"{"]
        elif line.startswith(b"  }"):
            yield b"".join([*inside, b"}"])
        else:
            inside.append(line)


def _in_order(layers: dict[str, Any], protocols: str) -> list[str]:
    """Returns the names of layers as they are nested; those that are not part of the nesting come last."""
    nested = [name for name in dict.fromkeys(protocols.split(":")) if name in layers]
    return nested if len(nested) == len(layers) else list(dict.fromkeys([*nested, *layers]))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _epoch(text: str) -> str:
    """Returns a time in seconds since 1970; Wireshark 4.4 writes it as a date."""
    date, point, fraction = text.removesuffix("Z").partition(".")
    return f"{datetime.fromisoformat(f'{date}Z').timestamp():.0f}{point}{fraction}" if "T" in date else text
