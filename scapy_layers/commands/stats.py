"""``zenoh-dissect stats``: a capture in numbers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import Any

from scapy_layers.commands.follow import duration
from scapy_layers.commands.sources import Sources, add_sources
from scapy_layers.commands.terminal import (
    INTERRUPTED,
    Colour,
    Piece,
    Screen,
    Subparsers,
    add_command,
    at_least,
)

ROWS = {"text": 10, "json": 100}
"""Rows of each table, unless asked for another number."""

WIDE = 60
"""Characters of a key or a remark in a table."""

EXAMPLES = """\
examples:
  zenoh-dissect stats capture.pcapng
  zenoh-dissect stats capture.pcapng --top 50
  zenoh-dissect stats *.pcap.gz --format json | jq .counts
  tcpdump -i lo -w - port 7447 | zenoh-dissect stats -       counts until Ctrl-C
"""


def add(commands: Subparsers) -> None:
    """Registers the command."""
    parser = add_command(
        commands,
        "stats",
        _stats,
        summary="count messages, keys and nodes, and time the answers to queries",
        description="Counts what is in captures: messages by their name in the specification, links, sessions, nodes,\n"
        "keys with their rates and bytes, how long requests took, what is missing, and what is wrong.\n"
        "What a router forwards is counted on each captured link. Long tables show the top rows and how\n"
        "much is left out. docs/formats.md describes the JSON.\n\n"
        "Exit status: 0 all read, 1 a capture is damaged (the intact part was counted), 2 wrong use,\n"
        "130 interrupted by Ctrl-C (what was read by then is shown).",
        examples=EXAMPLES,
    )
    add_sources(parser)
    parser.add_argument(
        "-f",
        "--format",
        choices=("text", "json"),
        default="text",
        help="output format (default: %(default)s)",
    )
    parser.add_argument(
        "--top", type=at_least(0), metavar="N", help="rows of each table (default: 10 as text, 100 as JSON)"
    )


def _stats(arguments: argparse.Namespace) -> int:
    from scapy_layers.conversation import Conversations
    from scapy_layers.statistics import Statistics
    from scapy_layers.stream import Gap

    screen = Screen(arguments)
    sources = Sources(arguments, screen)
    statistics = Statistics()
    interrupted = False
    for source in sources:
        conversations = Conversations()
        statistics.begin()
        try:
            for unit in source.units(statistics.packet):
                if isinstance(unit, Gap):
                    statistics.take(unit)
                for heard in conversations.hear(unit):
                    statistics.take(heard)
        except KeyboardInterrupt:
            interrupted = True
        statistics.end(conversations)
        if interrupted:
            break
    top = ROWS[arguments.format] if arguments.top is None else arguments.top
    data = statistics.as_data(top)
    if arguments.format == "json":
        screen.raw(json.dumps(data))
    else:
        for line in _text(data):
            screen.line(Piece(line.rstrip(), Colour.PLAIN if line.startswith(" ") else Colour.NAME))
    return INTERRUPTED if interrupted else sources.status


def _text(data: dict[str, Any]) -> Iterator[str]:
    several = f"{data['captures']} captures, " if data["captures"] > 1 else ""
    yield (
        f"{several}{data['packets']:,} packets of TCP and UDP in {duration(data['duration'])}, "
        f"with {_bytes(data['payload_bytes'])}"
    )
    if not data["counts"]:
        yield "no readable Zenoh messages"
    yield from _counts(data["counts"])
    yield from _table(
        data["zids"],
        "nodes",
        ("zid", "role", ">messages", ">payload sent"),
        lambda row: (row["zid"], row["whatami"] or "?", row["messages"], _bytes(row["payload_bytes"])),
    )
    yield from _table(
        data["sessions"],
        "sessions",
        ("", "between", "links", "with", ">messages", ">duration"),
        lambda row: (
            _number(row["session"], row, data),
            " and ".join(zid or "?" for zid in row["zids"])
            if not row["multicast"]
            else f"{row['zids'][0]} and its group",
            ", ".join(f"#{number}" for number in row["links"]),
            _agreed(row),
            row["messages"],
            duration(row["duration"]),
        ),
    )
    yield from _table(
        data["links"],
        "links",
        ("", "", "first", "second", ">messages", ">duration"),
        lambda row: (
            _number(row["link"], row, data),
            row["protocol"],
            row["first"],
            row["second"],
            row["messages"],
            duration(row["duration"]),
        ),
    )
    yield from _table(
        data["keys"],
        "keys",
        ("key", ">put", ">delete", ">query", ">reply", ">error", ">payload", ">per second"),
        lambda row: (
            _short(row["keyexpr"]) or "(empty)",
            *(row[name] or "" for name in ("puts", "deletes", "queries", "replies", "errors")),
            _bytes(row["payload_bytes"]),
            "" if row["per_second"] is None else f"{row['per_second']:,.1f}",
        ),
    )
    yield from _requests(data["requests"])
    if data["disordered_links"]:
        yield ""
        yield (
            f"captured out of order: {data['disordered_links']:,} links; answers that come before what they"
            " answer cannot be matched, and keys may be unknown"
        )
    gaps = data["gaps"]
    if gaps["count"]:
        yield ""
        unknown = f", {gaps['of_unknown_size']} of unknown size" if gaps["of_unknown_size"] else ""
        yield f"gaps: {gaps['count']}{unknown}; {gaps['missing_bytes']:,} bytes missing, {gaps['skipped_bytes']:,} skipped"
        yield from (f"  {number:>7}  {why}" for why, number in gaps["reasons"].items())
    if data["unread_bytes"]:
        yield ""
        yield f"{data['unread_bytes']:,} bytes of batches are not part of any message"
    forgotten = {what: number for what, number in data["forgotten"].items() if number}
    if forgotten:
        yield ""
        told = ", ".join(f"{number:,} {what}" for what, number in forgotten.items())
        yield f"memory limit reached: {told} were dropped, what refers to them may be incomplete"
    if data["remarks"]:
        yield ""
        yield "remarks"
        rows = [
            (row["count"], kind, f"packet {_number(row['packet'], row, data, '')}", row["text"])
            for kind, row in data["remarks"].items()
        ]
        yield from _aligned(("", "", "first in", "location"), rows)


def _number(number: int, row: dict[str, Any], data: dict[str, Any], mark: str = "#") -> str:
    """Returns a number that counts in one capture; of several, with that of the capture."""
    return f"{mark}{number}" if data["captures"] == 1 else f"{row['capture']}:{mark}{number}"


def _counts(counts: dict[str, int]) -> Iterator[str]:
    if not counts:
        return
    yield ""
    yield "messages"
    cells = [f"{number:>9,} {name:<15}" for name, number in sorted(counts.items(), key=_by_count)]
    lines = -(-len(cells) // 4)
    for at in range(lines):
        yield "".join(cells[at::lines])


def _by_count(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def _agreed(row: dict[str, Any]) -> str:
    features = ("qos", "lowlatency", "compression", "shm", "multilink")
    return " ".join(name for name in features if row[name]) or ("?" if row["sn_bits"] is None else "-")


def _requests(data: dict[str, Any]) -> Iterator[str]:
    if not data["sent"] and not data["finals_without_request"]:
        return
    yield ""
    strays = data["finals_without_request"]
    without = f", {strays} final replies to queries that were not captured" if strays else ""
    yield f"queries: {data['sent']:,}, {data['unanswered']:,} without end{without}"
    for name, what in (("to_first_reply", "first reply after"), ("to_final", "end after")):
        spread = data[name]
        if spread["count"]:
            about = "" if spread["median_is_exact"] else "about "
            yield (
                f"  {what} {about}{duration(spread['median'])} (median; {duration(spread['min'])}"
                f" to {duration(spread['max'])}; {spread['count']:,} times)"
            )


def _table(data: dict[str, Any], title: str, heads: Sequence[str], cells: Any) -> Iterator[str]:
    """Yields a table; a heading with ``>`` in front stands above numbers."""
    if not data["listed"]:
        return
    yield ""
    yield title
    yield from _aligned(heads, [cells(row) for row in data["listed"]])
    left = data["left_out"]
    if left["rows"]:
        yield f"  ... and {left['rows']:,} more, {left['messages']:,} messages"


def _aligned(heads: Sequence[str], rows: list[tuple[Any, ...]]) -> Iterator[str]:
    texts = [tuple(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row) for row in rows]
    names = [head.lstrip(">") for head in heads]
    widths = [max(map(len, column)) for column in zip(names, *texts, strict=True)]
    right = [head.startswith(">") or isinstance(rows[0][at], int) for at, head in enumerate(heads)]
    for row in (names, *texts):
        cells = zip(row, widths, right, strict=True)
        yield "  " + "  ".join(
            f"{cell:>{wide}}" if number else f"{cell:<{wide}}" for cell, wide, number in cells
        )


def _short(text: str) -> str:
    return text if len(text) <= WIDE else f"{text[: WIDE - 3]}..."


def _bytes(number: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number} B"
