"""``python -m conformance.second_opinion RUN``: has tshark read every capture of a run again.

Compares, packet by packet, which messages it finds and the numbers in them with what our decoder makes of the same
bytes, and the bytes with those that the run recorded.

Exit codes: 0 no difference, 1 differences, 2 wrong use, 5 nothing was compared (no tshark, no captures).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from conformance.opinion.compare import Difference, parting
from conformance.opinion.merged import Merged, Packet, merge, unmasked
from conformance.opinion.reading import Told, decoded, heard, shown
from scapy_layers.codes import SCOUTING_PORT
from scapy_layers.tshark import TsharkError
from scapy_layers.wireshark import parameters, tshark
from spark_reports.rows import CAPTURES, OBSERVATIONS, VERDICTS, RowsError, read_rows, read_run

EXIT_DIFFERENT = 1
EXIT_USAGE = 2
EXIT_NOTHING = 5

MOST = 20
"""Differences that are printed."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """What came of it.

    Attributes:
        captures: How many were read.
        packets: How many they have.
        messages: How many were compared.
        differences: Where tshark says otherwise, the first one of each capture.
    """

    captures: int
    packets: int
    messages: int
    differences: list[Difference]


def second_opinion(folder: Path) -> Opinion:
    """Reads all captures of a run again.

    Raises:
        TsharkError: There is no tshark, or it gave up.
        RowsError: The folder holds no run.
        OSError: A file cannot be read.
    """
    read_run(folder)
    program, loading = tshark(), parameters()
    captures = sorted((folder / CAPTURES).glob("*.pcapng"))
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(1) as other:
        path = Path(place) / "merged.pcap"
        merged = merge(captures, path)
        ports = {
            "tcp_ports": merged.tcp_ports,
            "udp_ports": merged.udp_ports,
            "scouting_ports": merged.scouting_ports | {SCOUTING_PORT},
        }
        # tshark is a process of its own: it reads while we do.
        pending = other.submit(shown, program, loading, path, len(merged.packets), ports)
        ours = heard(path)
        theirs = pending.result()
    recorded = _recorded(folder)
    differences = list(_differences(merged, ours, theirs, recorded))
    first: dict[str, Difference] = {}
    for difference in differences:
        first.setdefault(difference.capture, difference)
    messages = sum(map(len, theirs.values()))
    return Opinion(len(captures), len(merged.packets), messages, list(first.values()))


def _recorded(folder: Path) -> dict[str, list[bytes]]:
    """Returns what each capture has to carry, in order: the batches that the rows have."""
    if not (folder / VERDICTS).exists() or not (folder / OBSERVATIONS).exists():
        return {}
    names = {
        row["test"]: Path(row["capture"]).name
        for row in read_rows(folder / VERDICTS).rows
        if row["capture"] and "::" in row["test"]
    }
    found: dict[str, list[bytes]] = {}
    for row in read_rows(folder / OBSERVATIONS).rows:
        if row["direction"] in {"sent", "received"} and row["test"] in names and row["raw_hex"]:
            found.setdefault(names[row["test"]], []).append(bytes.fromhex(row["raw_hex"]))
    return found


def _differences(
    merged: Merged,
    ours: dict[int, list[Told]],
    theirs: dict[int, list[Told]],
    recorded: dict[str, list[bytes]],
) -> Iterator[Difference]:
    for name, packets in _by_capture(merged.packets):
        batches = _carried(packets, recorded.get(name, []))
        for number, packet in packets:
            other = theirs.get(number, [])
            found = parting(ours.get(number, []), other)
            if found is None:
                continue
            # Who reads a capture may not know that a stream is Zenoh at all; the tester did.
            batch = batches.get(number)
            if batch is not None and any(parting(told, other) is None for told in decoded(batch)):
                continue
            yield Difference(name, packet.number, *found)


def _by_capture(packets: Iterable[Packet]) -> Iterator[tuple[str, list[tuple[int, Packet]]]]:
    groups: dict[str, list[tuple[int, Packet]]] = {}
    for number, packet in enumerate(packets, start=1):
        groups.setdefault(packet.capture.name, []).append((number, packet))
    yield from groups.items()


def _carried(packets: Iterable[tuple[int, Packet]], batches: Iterable[bytes]) -> dict[int, bytes]:
    """Returns the batch that each packet completes."""
    found: dict[int, bytes] = {}
    pending, gathered = iter(batches), b""
    batch = next(pending, None)
    for number, packet in packets:
        if not packet.payload or batch is None:
            continue
        gathered += packet.payload
        if gathered.endswith(batch) or unmasked(packet.payload) == batch:
            found[number], gathered = batch, b""
            batch = next(pending, None)
    return found


def main(words: list[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance.second_opinion",
        description="Has tshark, with our dissector for Wireshark, read every capture of a run again, and says where "
        "it does not agree with what our decoder makes of the same bytes.",
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a run")
    given = parser.parse_args(words)
    code = 0
    for folder in given.runs:
        code = max(code, _judge(folder))
    return code


def _judge(folder: Path) -> int:
    try:
        opinion = second_opinion(folder)
    except TsharkError as error:
        print(f"{folder}: n/a: {error}")
        return EXIT_NOTHING
    except (RowsError, OSError) as error:
        print(f"second opinion: {error}", file=sys.stderr)
        return EXIT_USAGE
    if not opinion.captures:
        print(f"{folder}: n/a: the run has no captures")
        return EXIT_NOTHING
    for difference in opinion.differences[:MOST]:
        print(difference)
    if len(opinion.differences) > MOST:
        print(f"and {len(opinion.differences) - MOST} more")
    print(
        f"{folder}: {opinion.captures} captures, {opinion.packets} packets, {opinion.messages} messages read again by "
        f"tshark: {len(opinion.differences) or 'no'} difference{'' if len(opinion.differences) == 1 else 's'}"
    )
    return EXIT_DIFFERENT if opinion.differences else 0


if __name__ == "__main__":
    sys.exit(main())
