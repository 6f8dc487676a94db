"""``zenoh-dissect follow``: what happens to a key, line by line."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from scapy_layers.commands.events import events, keyexpr
from scapy_layers.commands.filters import Filters, add_filters
from scapy_layers.commands.sources import Sources, add_sources
from scapy_layers.commands.terminal import Colour, Piece, Screen, Subparsers, add_command, at_least

if TYPE_CHECKING:
    from scapy_layers.samples import Event

SHOWN = frozenset({"put", "delete", "query", "reply", "reply_err", "token", "undeclare_token"})
"""Events that are shown without ``--all``."""

WIDTH = 160
"""Characters of a payload, unless asked for another number."""

MOST_JSON = 1 << 16
"""Bytes of JSON that are tidied up; what is longer is shown as it is."""

_LINES = re.compile("[\n\r\t]")

EXAMPLES = """\
examples:
  zenoh-dissect follow demo/example capture.pcapng
  zenoh-dissect follow 'robot/**/battery' monday.pcap tuesday.pcap.gz
  zenoh-dissect follow '**' capture.pcapng --all --width 0
  tcpdump -i lo -U -w - port 7447 | zenoh-dissect follow 'demo/**' -
"""


def add(commands: Subparsers) -> None:
    """Registers the command."""
    parser = add_command(
        commands,
        "follow",
        _follow,
        summary="show what happens to a key: values, deletions, queries, replies",
        description="Shows one line per value, deletion, query, reply and liveliness token whose key intersects the\n"
        "key expression KEY: packet, time (UTC), sender and receiver (first digits of their ZenohIDs),\n"
        "kind, key, encoding, payload. Payloads are shown according to their encoding: text and JSON as\n"
        "is, binary in hexadecimal; with an unknown encoding, as text if printable.\n\n"
        "Exit status: 0 all read, 1 a capture is damaged (the intact part was shown), 2 wrong use.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "keyexpr", metavar="KEY", type=keyexpr, help="key expression, such as demo/** or robot/*/state"
    )
    add_sources(parser)
    add_filters(parser)
    parser.add_argument(
        "--all", action="store_true", help="also show declarations, interests and final replies"
    )
    parser.add_argument(
        "--width",
        type=at_least(0),
        default=WIDTH,
        metavar="N",
        help="characters to show of each payload, 0 for all (default: %(default)s)",
    )


def _follow(arguments: argparse.Namespace) -> int:
    from scapy_layers.samples import matches

    filters = Filters.of(arguments)
    screen = Screen(arguments)
    sources = Sources(arguments, screen)
    for source in sources:
        if len(sources) > 1:
            screen.line(Piece(f"== {source.name}", Colour.NAME))
        for event in events(source, filters):
            if (arguments.all or event.event in SHOWN) and matches(arguments.keyexpr, event.keyexpr):
                screen.line(*_line(event, max(arguments.width, 0)))
    return sources.status


def _line(event: Event, width: int) -> Iterator[Piece]:
    ends = f"{_short(event.source_zid)} > {_short(event.target_zid)}"
    yield Piece(f"{event.packet:>7} {moment(event.time)} {ends} ", Colour.DIM)
    yield Piece(f"{event.event:<9} ", Colour.NAME)
    yield Piece(event.keyexpr or "", Colour.KEY)
    for text in _details(event, width):
        yield Piece(f" {text}")
    if event.remarks:
        more = f", and {len(event.remarks) - 1} more" if len(event.remarks) > 1 else ""
        yield Piece(f" [{event.remarks[0]}{more}]", Colour.WRONG)


def _details(event: Event, width: int) -> list[str]:
    """Returns what is to be said behind the key."""
    from scapy_layers.samples import Answer, Content, Final, Query

    parts: list[str] = []
    if isinstance(event, Query):
        if event.parameters:
            parts.append(f"?{event.parameters}")
        parts.append(f"request {event.request_id}")
    if isinstance(event, Answer | Final):
        parts.append(f"to request {event.request_id}")
        if event.latency is not None:
            parts.append(f"after {duration(event.latency)}")
    if isinstance(event, Answer) and event.kind == "delete":
        parts.append("delete")
    if isinstance(event, Content):
        if event.encoding_name is not None:
            parts += [event.encoding_name, _payload(event, width)]
        if event.ros2:
            parts.append(f"({event.ros2})")
        elif event.attachment is not None:
            parts.append(f"attachment {shown(event.attachment, '', width)}")
    return parts


def _payload(event: object, width: int) -> str:
    from scapy_layers.samples import Content

    assert isinstance(event, Content)
    if event.shared:
        return f"{sum(piece.size for piece in event.shared)} bytes in shared memory"
    if event.payload is None:
        return "unreadable payload"
    return shown(event.payload, event.encoding_name or "", width)


def shown(payload: bytes, encoding: str, width: int) -> str:
    """Returns a payload on one line: text and JSON between what marks them, all else in hexadecimal.

    Args:
        payload: The bytes.
        encoding: Text of the encoding. Where it says nothing about text (none, ``zenoh/bytes``, one of an
            application's own), what is printable is shown as text.
        width: Characters at most, 0 for all.
    """
    from scapy_layers.encodings import is_binary, is_json, is_text

    claimed = is_text(encoding)
    if not is_binary(encoding):
        try:
            text = payload.decode()
        except UnicodeDecodeError:
            pass
        else:
            if is_json(encoding) and len(payload) <= MOST_JSON:
                return _cut(_tidy(text), width)
            if claimed or (text and _LINES.sub("", text).isprintable()):
                return _cut(json.dumps(text, ensure_ascii=False), width)
    digits = payload[: width // 2 or None].hex()
    left = len(payload) - len(digits) // 2
    return f"0x{digits}{f'... ({len(payload)} bytes)' if left else ''}" if payload else "(empty)"


def _tidy(text: str) -> str:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False)
    except (ValueError, RecursionError):
        return json.dumps(text, ensure_ascii=False)


def _cut(text: str, width: int) -> str:
    return text if not width or len(text) <= width else f"{text[:width]}... ({len(text)} characters)"


def _short(zid: str | None) -> str:
    return f"{zid[:8] if zid else '?':<8}"


def moment(time: int) -> str:
    """Returns a time (ns since 1970) as text, UTC, to the microsecond."""
    seconds, rest = divmod(time, 10**9)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest // 1000:06}"
    except (OverflowError, ValueError, OSError):
        return f"{seconds}.{rest // 1000:06}"


def duration(ns: int) -> str:
    """Returns a duration in the unit that suits it."""
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if abs(ns) >= size:
            return f"{ns / size:.3g} {unit}" if abs(ns) < 1000 * size else f"{ns / size:,.0f} {unit}"
    return f"{ns} ns"
