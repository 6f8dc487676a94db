"""A history into rows and into an annotated capture; the run folder's ``run.json``."""

from __future__ import annotations

import dataclasses
import ipaddress
import platform
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from scapy.packet import Raw
from scapy.utils import PcapNgWriter

from conformance.config import RunConfig
from conformance.environment import configuration, environment, harness_commit, parent
from conformance.errors import UsageError
from conformance.observe import Direction, Endpoints, History, Observation
from scapy_layers.commands.terminal import installed_version
from spark_reports.rows import ALL, RUN, ObservationRow, RowsError, RunRow, read_run, utc_now, write_run

LINKTYPE_RAW = 101
"""Packets begin with an IPv4 or IPv6 header."""

SEGMENT = 60_000
"""Most bytes of a batch in one packet of a capture."""

SUITE_RUN = "conformance"
"""Kind of a run of the suite."""

TCP, UDP = 6, 17
MAX_DATAGRAM = {4: 65_507, 6: 65_527}
"""Bytes that a datagram holds, by the version of IP."""

CHECKSUM_AT = {TCP: 16, UDP: 6}
ZERO = {TCP: 0, UDP: 0xFFFF}
"""What a checksum of 0 is written as; in UDP 0 means that there is none."""

SYN, ACK, PSH, FIN, RST = 0x02, 0x10, 0x08, 0x01, 0x04

MAX_COMMENT = 4_000
"""Bytes of one remark; longer ones are cut, the rows have them whole."""


def observation_rows(run_id: str, test: str, history: History, first: int = 0) -> list[ObservationRow]:
    """Returns one row for each observation of a history, numbered from ``first``."""
    return [
        ObservationRow(
            run_id=run_id,
            test=test,
            seq=first + seen.seq,
            time_ns=seen.time_ns,
            link=seen.link,
            direction=seen.direction.value,
            messages=seen.contents.names,
            summary=seen.describe(),
            raw_hex=(seen.batch or seen.raw).hex(),
            error=str(seen.contents.error or ""),
        )
        for seen in history.observations
    ]


class CaptureWriter:
    """Writes histories into one pcapng file, as TCP and UDP packets with remarks that tshark shows.

    The bytes are those that travelled, over TLS those inside; addresses and ports are the true ones, for Unix sockets
    made up; the TCP headers are made up, since the tester sees streams, not packets.

    Args:
        path: The file; replaced when it exists.
        limit: Bytes after which nothing more is added; ``full`` tells.

    Raises:
        OSError: The file cannot be written.
    """

    def __init__(self, path: Path, limit: int = 64 << 20) -> None:
        self.path = path
        self.full = False
        self._limit = limit
        self._size = 0
        self._writer = PcapNgWriter(str(path))
        self._writer.linktype = LINKTYPE_RAW
        self._writer.write_header(None)

    def add(
        self, history: History, title: str, remarks: list[str] | None = None, *, describe: bool = True
    ) -> None:
        """Appends all observations of a history.

        Args:
            history: What was seen.
            title: Stands at the first packet: the test or case and what it is about.
            remarks: Stand at the last packet: expected, seen, verdict.
            describe: Each packet says which messages are in it, which takes longer than to write it.
        """
        if self.full:
            return
        routes = {name: _route(name, ends) for name, ends in history.endpoints.items()}
        made: list[tuple[bytes, int, list[str]]] = []
        waiting = [title]
        for seen in history.observations:
            waiting += _remarks(seen, history, describe=describe)
            for packet in routes[seen.link].packets(seen):
                made.append((packet, seen.time_ns, waiting))
                waiting = []
        if made:
            # What belongs to something that is no packet, such as the end of a link over UDP, stands at the last one.
            made[-1][2].extend([*waiting, *(remarks or [])])
        for packet, time_ns, comments in made:
            self._write(packet, time_ns, comments)

    @property
    def size(self) -> int:
        """Bytes of the file, more or less."""
        return self._size

    def close(self) -> None:
        """Completes the file."""
        self._writer.close()

    def _write(self, packet: bytes, time_ns: int, comments: list[str]) -> None:
        self._size += len(packet) + sum(map(len, comments)) + 64
        if self._size > self._limit:
            self.full = True
            return
        wrapped = Raw(packet)
        wrapped.time = time_ns / 1e9
        wrapped.comments = [comment.encode("utf-8", "backslashreplace")[:MAX_COMMENT] for comment in comments]
        self._writer.write_packet(wrapped)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _remarks(seen: Observation, history: History, *, describe: bool) -> list[str]:
    """Returns what is said about an observation."""
    ends = history.endpoints[seen.link]
    comments = []
    match seen.direction:
        case Direction.SENT if describe:
            comments.append(f"stimulus: {seen.describe()}")
        case Direction.RECEIVED if describe:
            comments.append(f"received: {seen.describe()}")
        case Direction.OPENED if ends.remark:
            comments.append(ends.remark)
        case Direction.ENDED if ends.proto == "udp":
            comments.append(f"link {seen.link}: {seen.note}")
    if ends.proto == "udp" and too_long(seen.raw, ends.local[0]):
        comments.append(f"link {seen.link}: not sent: {len(seen.raw)} bytes are too many for a datagram")
    if describe and seen.contents.error:
        comments.append(f"does not decode: {seen.contents.error}")
    return [*comments, *history.notes(seen.seq)]


def _route(name: str, ends: Endpoints) -> _Stream | _Datagrams:
    return _Datagrams(ends) if ends.proto == "udp" else _Stream(name, ends)


def too_long(data: bytes, address: str) -> bool:
    """Tells whether bytes are more than a datagram between such addresses holds: none of them leave."""
    return len(data) > MAX_DATAGRAM[ipaddress.ip_address(address.partition("%")[0]).version]


class _Datagrams:
    """Shows what is said over UDP."""

    def __init__(self, ends: Endpoints) -> None:
        self._ends = ends

    def packets(self, seen: Observation) -> list[bytes]:
        """Returns the packet of a datagram; a beginning and an end have none."""
        ends = self._ends
        match seen.direction:
            case Direction.SENT:
                source, target = seen.route or (ends.local, ends.remote)
            case Direction.RECEIVED:
                source, target = seen.route or (ends.remote, ends.local)
            case _:
                return []
        if too_long(seen.raw, source[0]):
            # The system refused it.
            return []
        head = struct.pack("!HHHH", source[1], target[1], 8 + len(seen.raw), 0)
        return [_ip(source[0], target[0], UDP, head, seen.raw)]


class _Stream:
    """Numbers the bytes of one link in both directions.

    Args:
        name: Of the link.
        ends: Its addresses.
    """

    def __init__(self, name: str, ends: Endpoints) -> None:
        self._ends = ends
        # From the next link between the same ports it differs, as with TCP: else that would be this one, sent again.
        self._first = zlib.crc32(f"{name} {ends.local} {ends.remote}".encode())
        self._next = {True: self._first, False: self._first}

    def packets(self, seen: Observation) -> list[bytes]:
        """Returns the packets that show an observation."""
        if seen.carried is not None and seen.direction is not Direction.OPENED:
            sent, received = seen.carried
            behind = self._first + 1  # as SYN takes one
            self._next = {True: behind + sent & 0xFFFFFFFF, False: behind + received & 0xFFFFFFFF}
        match seen.direction:
            case Direction.OPENED:
                first = not self._ends.accepted
                packets = [
                    self._packet(first, SYN),
                    self._packet(not first, SYN | ACK),
                    self._packet(first, ACK),
                ]
            case Direction.ENDED:
                ours = seen.note.endswith("by us") or seen.note.startswith("refused")
                flags = RST | ACK if "reset" in seen.note or "aborted" in seen.note else FIN | ACK
                packets = [self._packet(ours, flags)]
            case _:
                ours = seen.direction is Direction.SENT
                packets = [
                    self._packet(ours, PSH | ACK, seen.raw[at : at + SEGMENT])
                    for at in range(0, len(seen.raw), SEGMENT)
                ]
        return packets

    def _packet(self, ours: bool, flags: int, data: bytes = b"") -> bytes:
        source, target = (
            (self._ends.local, self._ends.remote) if ours else (self._ends.remote, self._ends.local)
        )
        ack = self._next[not ours] if flags & ACK else 0
        head = struct.pack(
            "!HHIIBBHHH", source[1], target[1], self._next[ours], ack, 5 << 4, flags, 65_535, 0, 0
        )
        self._next[ours] = self._next[ours] + len(data) + bool(flags & (SYN | FIN)) & 0xFFFFFFFF
        return _ip(source[0], target[0], TCP, head, data)


def _ip(source: str, target: str, protocol: int, head: bytes, data: bytes) -> bytes:
    """Returns a TCP segment or UDP datagram with its checksum in an IPv4 or IPv6 packet."""
    a, b = (ipaddress.ip_address(address.partition("%")[0]) for address in (source, target))
    size = len(head) + len(data)
    pseudo = a.packed + b.packed + struct.pack("!II", size, protocol)
    at = CHECKSUM_AT[protocol]
    head = head[:at] + struct.pack("!H", _checksum(pseudo + head + data) or ZERO[protocol]) + head[at + 2 :]
    if a.version == 6:
        return struct.pack("!IHBB", 6 << 28, size, protocol, 64) + a.packed + b.packed + head + data
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + size, 0, 0x4000, 64, protocol, 0) + a.packed + b.packed
    return ip[:10] + struct.pack("!H", _checksum(ip)) + ip[12:] + head + data


def _checksum(data: bytes) -> int:
    """Returns the Internet checksum (RFC 1071)."""
    padded = data + b"\x00" * (len(data) & 1)
    # The sum of 16-bit words modulo 0xffff is the number itself modulo 0xffff.
    total = int.from_bytes(padded, "big") % 0xFFFF
    return 0xFFFF - total if total else 0 if any(padded) else 0xFFFF


# run.json ------------------------------------------------------------------------------------------


class Described(Protocol):
    """What is known of a node; ``nodes.Node`` is one, NodeFacts another."""

    @property
    def impl(self) -> str:
        """Implementation."""

    @property
    def version(self) -> str:
        """Its version."""

    @property
    def whatami(self) -> str:
        """Its role."""

    @property
    def zid(self) -> str:
        """Text form of its ZenohID."""


@dataclasses.dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a run says about its node; attributes as in Described."""

    impl: str
    version: str
    whatami: str
    zid: str

    @classmethod
    def of(cls, node: Described) -> Self:
        """Takes them from a node that was asked."""
        return cls(node.impl, node.version, node.whatami, node.zid)


def open_run(
    config: RunConfig,
    node: Described,
    kind: str,
    command: str,
    options: Mapping[str, object] | None = None,
    selection: str = "",
) -> RunRow:
    """Writes ``run.json`` for a run that begins, or that another tool began in the same folder.

    Of several tools in one folder the last one's seed and ZenohID stand; each fuzz row has its own seed.

    Args:
        config: The run.
        node: The node, started and asked, or what is known of it.
        kind: ``conformance`` or ``fuzz``.
        command: What was typed.
        options: Those that change what is judged, as ``environment.configuration`` takes them.
        selection: Which tests of the suite were asked for, as ``RunRow`` has it; empty if this is no run of it.

    Raises:
        UsageError: The folder holds a run that cannot be read, or one against another node.
    """
    folder = config.run_dir
    row = RunRow(
        run_id=config.run_id,
        started_at=utc_now(),
        ended_at=None,
        kind=kind,
        node=config.node,
        node_impl=node.impl,
        node_version=node.version,
        node_whatami=node.whatami,
        node_zid=node.zid,
        harness_version=installed_version(),
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        seed=config.seed,
        command=command,
        status="running",
        environment=environment(),
        configuration=configuration(options or {}),
        harness_commit=harness_commit(),
        parent=parent(),
        selection=selection,
    )
    if (folder / RUN).exists():
        try:
            before = read_run(folder)
        except RowsError as error:
            raise UsageError(f"{error}; choose another --run-dir") from None
        was, now = (before.node, before.node_version), (row.node, row.node_version)
        if was != now and not (was[0] == now[0] and "unknown" in {was[1], now[1]}):
            raise UsageError(
                f"{folder.name} holds a run against {before.node} ({before.node_impl} {before.node_version}); "
                "choose another --run-dir"
            )
        if node.impl == "unknown":
            # The tool that ran before was told what this node is.
            row = dataclasses.replace(row, node_impl=before.node_impl, node_version=before.node_version)
        kinds = sorted({*before.kind.split("+"), kind})
        row = dataclasses.replace(
            row,
            started_at=before.started_at,
            kind="+".join(kinds),
            command=f"{before.command}; {command}" if command != before.command else command,
            configuration=configuration(options or {}, before.configuration),
            parent=row.parent or before.parent,
            selection=_both_selections(before, row),
        )
    write_run(folder, row)
    return row


def _both_selections(before: RunRow, row: RunRow) -> str:
    """Returns what two tools in one folder selected; what one of them does not know, nobody knows."""
    known = [one.selection for one in (before, row) if SUITE_RUN in one.kind.split("+")]
    if ALL in known:
        return ALL
    return "; ".join(dict.fromkeys(known)) if all(known) else ""


def close_run(config: RunConfig, row: RunRow, *, failed: bool = False) -> None:
    """Writes ``run.json`` for a run that ended.

    Args:
        config: The run.
        row: What ``open_run`` returned.
        failed: The node or the harness failed.
    """
    ended = dataclasses.replace(row, ended_at=utc_now(), status="failed" if failed else "complete")
    write_run(config.run_dir, ended)
