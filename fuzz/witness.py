"""The traffic before something was seen, as it was: all there is of what nobody can bring about again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from conformance.recorder import CaptureWriter
from fuzz.player import Trace
from fuzz.player.history import history_of
from fuzz.states import State

MOST_BYTES = 2 << 20
"""So much is kept of the links of the last cases, and of others: the newest."""


class Witness:
    """What the links of a stage carried last.

    Args:
        trace: Goes on; what comes later is not in it. It is looked at only when somebody wants it written.
        links: Numbers of those of the last cases.
        states: Where links were, by number.
        detail: What was seen then.
    """

    def __init__(
        self, trace: Trace, links: Collection[int], states: Mapping[int, State], detail: str
    ) -> None:
        self._trace, self._end = trace, trace.end
        self._links = links
        self._states = states
        self._detail = detail

    def write(self, path: Path) -> None:
        """Writes it as a capture for Wireshark; of links that were open before, the handshake stands first.

        Raises:
            OSError: It cannot be written.
        """
        trace, end = self._trace, self._end
        events = trace.newest(end, MOST_BYTES, self._links)
        known = set(events)
        opened = [
            event
            for link in {event.link for event in events}
            for event in trace.beginning(link, end)
            if event not in known
        ]
        history = history_of(
            sorted([*opened, *events], key=lambda event: event.time_ns),
            trace.endpoints,
            compressed=self._in(State.COMPRESSED),
            scouting=self._in(State.SCOUTING),
        )
        with CaptureWriter(path) as capture:
            capture.add(history, "traffic before it was seen", [f"seen: {self._detail}"], describe=False)

    def _in(self, state: State) -> set[int]:
        return {link for link, there in self._states.items() if there is state}
