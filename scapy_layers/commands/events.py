"""What the commands share that show what travelled: events, picked by the common filters."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from scapy_layers.commands.filters import Filters
from scapy_layers.commands.sources import STANDARD_INPUT, Source

if TYPE_CHECKING:
    from scapy_layers.capture import Segment
    from scapy_layers.samples import Event


def events(source: Source, filters: Filters) -> Iterator[Event]:
    """Yields the events of a capture whose messages the filters let through."""
    from scapy_layers.conversation import Heard
    from scapy_layers.samples import event_of

    filters.start = None

    def watch(segment: Segment) -> None:
        if filters.start is None:
            filters.start = segment.time

    timed = filters.after is not None or filters.before is not None
    for item in source.heard(watch if timed else None):
        if filters.over(item.time):
            return
        if isinstance(item, Heard) and filters.matches(item):
            event = event_of(item)
            if event:
                yield event
                if source.given == STANDARD_INPUT:
                    # It may be a running capture that somebody watches.
                    sys.stdout.flush()


def keyexpr(text: str) -> str:
    """Returns the canonical form of a key expression, for argparse."""
    from scapy_layers.errors import BadValue
    from scapy_layers.keyexpr import canonical

    try:
        return canonical(text)
    except BadValue as error:
        raise argparse.ArgumentTypeError(f"not a key expression: {error.found}") from None
