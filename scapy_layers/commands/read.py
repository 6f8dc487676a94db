"""``zenoh-dissect read``: the messages of a capture, one a line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from scapy_layers.commands.filters import Filters, add_filters
from scapy_layers.commands.sources import Source, Sources, add_sources
from scapy_layers.commands.terminal import Colour, Piece, Screen, Subparsers, add_command, at_least
from scapy_layers.primitives import iso

if TYPE_CHECKING:
    from scapy_layers.capture import Segment
    from scapy_layers.conversation import Heard
    from scapy_layers.stream import Gap

FORMATS = ("text", "tree", "jsonl")

EXAMPLES = """\
examples:
  zenoh-dissect read capture.pcapng
  zenoh-dissect read capture.pcapng --message put --key 'demo/**' --after 2.5
  zenoh-dissect read capture.pcapng --remarks                 only messages with remarks
  zenoh-dissect read capture.pcapng -m init_syn --format tree  every field of the first messages
  zenoh-dissect read capture.pcapng --format jsonl | jq -c '[.packet, .path, .keyexpr]'
  tcpdump -i lo -U -w - port 7447 | zenoh-dissect read -
"""

MOST_FOREIGN = 4096
"""Pairs of endpoints that are listed as not Zenoh."""


def add(commands: Subparsers) -> None:
    """Registers the command."""
    parser = add_command(
        commands,
        "read",
        _read,
        summary="show the messages of a capture, one per line",
        description="Shows every Zenoh message of a capture: packet number, seconds since the first packet, sender and\n"
        "receiver, the message and what carries it, its full key, its payload, and in [brackets] what is\n"
        "wrong with it. A FRAME gets its own line only if it is empty, if something is wrong with it, or\n"
        "with --message frame. Gaps in a stream also get a line.\n\n"
        "Exit status: 0 all read, 1 a capture is damaged (the intact part was shown), 2 wrong use.",
        examples=EXAMPLES,
    )
    add_sources(parser)
    add_filters(parser)
    add_shown(parser)
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="list at the end the traffic that is not Zenoh"
    )


def add_shown(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say how much is shown, and how; a ``View`` is made of the arguments."""
    parser.add_argument(
        "-f",
        "--format",
        choices=FORMATS,
        default="text",
        help="text: one line per message (default); tree: every field; jsonl: one JSON object per line "
        "(docs/formats.md)",
    )
    parser.add_argument(
        "-n", "--count", type=at_least(1), metavar="N", help="stop after N messages of each capture"
    )
    parser.add_argument(
        "--zids", action="store_true", help="show sender and receiver by ZenohID, not by address"
    )


def _read(arguments: argparse.Namespace) -> int:
    filters = Filters.of(arguments)
    screen = Screen(arguments)
    sources = Sources(arguments, screen)
    for source in sources:
        filters.start = None
        view = View(arguments, filters, screen, file=source.name if len(sources) > 1 else None)
        _read_one(source, view, screen, verbose=arguments.verbose)
    return sources.status


def _read_one(source: Source, view: View, screen: Screen, *, verbose: bool) -> None:
    foreign = Foreign()

    def watch(segment: Segment) -> None:
        if view.filters.start is None:
            view.filters.start = segment.time
        if verbose:
            foreign.watch(segment)

    silent = True
    for item in source.heard(watch):
        silent = False
        foreign.known(item)
        view.show(item)
        if view.done:
            break
    if verbose:
        for text in foreign.told():
            view.note(text)
    elif silent and not source.sources.status:
        screen.complain(f"{source.name}: no Zenoh messages; --verbose lists other traffic")


class View:
    """Shows what the filters let through, in the wanted format.

    Attributes:
        filters: What is wanted.
        done: All that was asked for was shown.
    """

    def __init__(
        self, arguments: argparse.Namespace, filters: Filters, screen: Screen, file: str | None = None
    ) -> None:
        from scapy_layers.commands.objects import Objects

        self.filters = filters
        self.done = False
        self._left: int | None = arguments.count
        self._format: str = arguments.format
        self._zids: bool = arguments.zids
        self._screen = screen
        self._file = file
        self._objects: Objects | None = None
        if file is not None and self._format != "jsonl":
            screen.line(Piece(f"== {file}", Colour.NAME))

    def show(self, item: Heard | Gap) -> None:
        """Shows an item if it is wanted."""
        if self.filters.over(item.time):
            self.done = True
        elif self.filters.matches(item) and (self._format == "jsonl" or self._stands_alone(item)):
            self._shower()(item)
            if self._left is not None:
                self._left -= 1
                self.done = self._left == 0

    def note(self, text: str) -> None:
        """Shows a line that is about no message."""
        if self._format != "jsonl":
            self._screen.line(Piece(text, Colour.DIM))

    def _stands_alone(self, item: Heard | Gap) -> bool:
        """Tells whether an item has a line of its own; the messages in a FRAME speak for it."""
        from scapy_layers.conversation import Heard
        from scapy_layers.transport import Frame

        if not isinstance(item, Heard) or not isinstance(item.message, Frame):
            return True
        return bool(item.remarks) or not item.message.messages or self.filters.wants("FRAME")

    def _shower(self) -> Callable[[Heard | Gap], None]:
        return {"text": self._text, "tree": self._tree, "jsonl": self._jsonl}[self._format]

    def _text(self, item: Heard | Gap) -> None:
        from scapy_layers.commands.lines import line

        self._screen.line(*line(item, self._start(item), zids=self._zids))

    def _tree(self, item: Heard | Gap) -> None:
        from scapy_layers.conversation import Heard

        self._text(item)
        if isinstance(item, Heard):
            for text in _context(item):
                self._screen.line(Piece(f"  {text}", Colour.DIM))
            for text in item.message.show(dump=True).splitlines():
                self._screen.line(f"  {text}")
        self._screen.raw("")

    def _jsonl(self, item: Heard | Gap) -> None:
        from scapy_layers.commands.objects import Objects

        if self._objects is None:
            self._objects = Objects(self._start(item), self._file)
        for text in self._objects.of(item):
            self._screen.raw(text)

    def _start(self, item: Heard | Gap) -> int:
        return item.time if self.filters.start is None else self.filters.start


def _context(heard: Heard) -> Iterator[str]:
    """Yields what is known of a message that its bytes do not say."""
    yield f"time        {iso(heard.time)}"
    if heard.source_zid or heard.target_zid:
        yield f"zids        {heard.source_zid or '?'} -> {heard.target_zid or '?'}"
    session = heard.session
    if session is not None and session.batch_size is not None:
        features = [
            name
            for name in ("qos", "lowlatency", "compression", "shm", "multilink", "multicast")
            if getattr(session, name)
        ]
        fsn = "?" if session.fsn is None else 8 << session.fsn
        yield (
            f"session     {session.number}: batches of {session.batch_size} B, sequence numbers of {fsn} bit, "
            f"patch {session.patch}{''.join(f', {name}' for name in features)}"
        )
    exchange = heard.exchange
    if exchange is not None:
        ended = "" if exchange.ended is None else f", ended by packet {exchange.ended}"
        yield (
            f"{exchange.kind:<11} {exchange.id}, started by packet {exchange.asked}, "
            f"{exchange.answered} answers{ended}"
        )
    if heard.interest is not None and heard.interest is not exchange:
        yield f"interest    {heard.interest.id}, asked by packet {heard.interest.asked}"
    if heard.pieces:
        more = " ..." if len(heard.pieces) > 20 else ""
        yield f"fragments   packets {' '.join(map(str, heard.pieces[:20]))}{more}"


class Foreign:
    """Pairs of endpoints, and whether any Zenoh was heard between them."""

    def __init__(self) -> None:
        self._packets: dict[tuple[bool, frozenset[str]], int] = {}
        self._zenoh: set[tuple[bool, frozenset[str]]] = set()
        self._more = 0

    def watch(self, segment: Segment) -> None:
        """Notes a segment."""
        from ipaddress import ip_address

        from scapy_layers.stream import Endpoint

        if not segment.data:
            return
        source = str(Endpoint(str(ip_address(segment.source)), segment.sport))
        target = str(Endpoint(str(ip_address(segment.target)), segment.dport))
        pair = segment.tcp, frozenset((source, target))
        if pair in self._packets or len(self._packets) < MOST_FOREIGN:
            self._packets[pair] = self._packets.get(pair, 0) + 1
        else:
            self._more += 1

    def known(self, item: Heard | Gap) -> None:
        """Notes that something was understood."""
        way = item.way
        self._zenoh.add((way.link.tcp, frozenset((str(way.source), str(way.target)))))

    def told(self) -> Iterator[str]:
        """Yields a line for each pair that is not Zenoh."""
        for pair, packets in self._packets.items():
            if pair not in self._zenoh:
                tcp, ends = pair
                count = f"{packets} packets" if packets != 1 else "1 packet"
                yield f"not Zenoh: {'tcp' if tcp else 'udp'} {' - '.join(sorted(ends))}, {count} with data"
        if self._more:
            yield f"not looked at: {self._more} packets between other endpoints"
