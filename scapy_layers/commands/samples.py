"""``zenoh-dissect samples``: what travelled, as JSON lines."""

from __future__ import annotations

import argparse

from scapy_layers.commands.events import events
from scapy_layers.commands.filters import Filters, add_filters
from scapy_layers.commands.sources import Sources, add_sources
from scapy_layers.commands.terminal import Screen, Subparsers, add_command

EVENTS = (
    "put",
    "delete",
    "query",
    "reply",
    "reply_err",
    "final",
    "keyexpr",
    "subscriber",
    "queryable",
    "token",
    "undeclare_keyexpr",
    "undeclare_subscriber",
    "undeclare_queryable",
    "undeclare_token",
    "interest",
    "interest_final",
    "declare_final",
    "scout",
    "hello",
)

EXAMPLES = """\
examples:
  zenoh-dissect samples capture.pcapng | head -3
  zenoh-dissect samples capture.pcapng -e put -e delete --key 'demo/**'
  zenoh-dissect samples *.pcap.gz | jq -r 'select(.latency > 1e6) | [.packet, .keyexpr, .latency] | @tsv'
  tcpdump -i lo -U -w - port 7447 | zenoh-dissect samples -
"""


def add(commands: Subparsers) -> None:
    """Registers the command."""
    parser = add_command(
        commands,
        "samples",
        _samples,
        summary="print values, queries, replies and declarations as JSON lines",
        description="Prints one JSON object per line for each event in a capture: values put, deletions, queries,\n"
        "replies, declarations, interests, scouting; with full keys, payloads in hexadecimal, and the\n"
        "ZenohIDs of both ends. docs/formats.md describes every field; with several captures each line\n"
        "also has `file`. What a router forwards is an event on each captured link; what receivers drop\n"
        "is not an event.\n\n"
        "Exit status: 0 all read, 1 a capture is damaged (the intact part was printed), 2 wrong use.",
        examples=EXAMPLES,
    )
    add_sources(parser)
    add_filters(parser)
    parser.add_argument(
        "-e",
        "--event",
        action="append",
        choices=EVENTS,
        metavar="EVENT",
        help="only this event; may be repeated: " + ", ".join(EVENTS),
    )


def _samples(arguments: argparse.Namespace) -> int:
    filters = Filters.of(arguments)
    screen = Screen(arguments)
    sources = Sources(arguments, screen)
    for source in sources:
        for event in events(source, filters):
            if not arguments.event or event.event in arguments.event:
                screen.raw(event.as_json(file=source.name if len(sources) > 1 else None))
    return sources.status
