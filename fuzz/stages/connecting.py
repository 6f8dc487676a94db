"""A node that connects to listeners of ours, one to each player."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from conformance.config import START_SECONDS, RunConfig
from conformance.errors import NodeDidNotStart, NotApplicable
from conformance.nodes.base import Node
from fuzz.player import Door, NotReached, Player, run
from fuzz.player.accepting import Acceptor
from fuzz.stages.base import LANES, Stage, variant
from fuzz.states import State

RETRY = "connect/retry"

WISHES: dict[str, Any] = {
    "connect/timeout_ms": -1,
    "connect/exit_on_failure": False,
    # It shall be led nowhere by what is said to it.
    "scouting/gossip/autoconnect": {"router": [], "peer": []},
}

CLIENT = "client"

TRIES = 3
"""Sessions that are tried to see how a node gets on with many listeners."""

SLOW_SECONDS = 0.3
"""A node that takes longer to begin a session makes its links one by one; it gets one listener only."""

SLOW_MS = 20
"""Such a node also gives up a handshake that takes longer than its pause between two of them."""

READY = "fuzz/ready"
"""A client publishes there once it is ready, and asks for subscribers before."""


class Connecting(Stage):
    """A node that makes links to us; one whose link has ended makes the next at once.

    A peer connects to several listeners at once, if it can. A client, or whoever takes no links, has one session, and
    takes none of others.

    Args:
        node: Of the kind.
        config: The run.
        where: Configuration on top: ``mode`` says whether it is a client.

    Raises:
        NotApplicable: The node cannot be configured so.
    """

    needs = "connects"

    def __init__(self, node: Node, config: RunConfig, where: Mapping[str, Any]) -> None:
        self._kind = node
        self._where = dict(where)
        self._acceptors: list[Acceptor] = []
        self._quick = False
        self._watch: Player | None = None
        self.serves = node.listens and where.get("mode") != CLIENT
        try:
            made = self._configured(LANES if self.serves else 1)
        except NotApplicable:
            # It may connect to one at least.
            made = self._configured(1)
        super().__init__(made, config)

    def _configured(self, lanes: int) -> Node:
        """Returns the node that connects to so many listeners, and to one more that shows whether it does."""
        self._close()
        self.lanes = lanes
        self._acceptors = [Acceptor() for _ in range(lanes + 1 if lanes > 1 else 1)]
        self._turn: Iterator[Acceptor] = itertools.cycle(self._acceptors[:lanes])
        wanted = {
            "mode": "peer" if self.serves else CLIENT,
            "connect/endpoints": [str(each.locator) for each in self._acceptors],
            "scouting/multicast/enabled": False,
            **self._where,
        }
        wishes = WISHES if self.serves else {**WISHES, "app/publish": [READY]}
        pause = SLOW_MS if lanes == 1 and self.serves else 1
        retry = {"period_init_ms": pause, "period_max_ms": pause, "period_increase_factor": 1}
        with suppress(NotApplicable):
            variant(self._kind, {RETRY: retry})
            self._quick = True
        for acceptor in self._acceptors:
            acceptor.patient = not self._quick
            acceptor.call = self._call_back
        try:
            return variant(self._kind, wanted, {**wishes, RETRY: retry})
        except NotApplicable:
            self._close()
            raise

    def door(self) -> Door:
        """See Stage."""
        return next(self._turn)

    def renew(self, player: Player) -> None:
        """See Stage."""

    def launch(self) -> None:
        """See Stage."""
        for acceptor in self._acceptors:
            acceptor.drain()
        if self.serves:
            self.node.start()
            return
        # It does not say that it is ready before somebody has taken it in.
        self.node.launch()
        self.node.whatami = CLIENT
        player = Player(self._acceptors[0], START_SECONDS)
        try:
            pipe = player.reach(State.ACCEPTED)
        except NotReached as error:
            raise NodeDidNotStart(f"the client does not connect to the fuzzer: {error}") from None
        # One that loses its session earlier takes long to come back; of what others do nobody knows.
        deadline = time.perf_counter() + (self.config.reply if self.node.configured else 0.0)
        while (
            not any("INTEREST" in shape for shape in player.answers.shapes) and time.perf_counter() < deadline
        ):
            pipe.wait(deadline - time.perf_counter())
            pipe.receive()
        player.leave()

    def _call_back(self) -> None:
        """Starts a node again that has left because its link has ended."""
        if self.node.has_left():
            self.node.kill()
            self.node.launch()

    def check(self) -> None:
        """See Stage."""
        if self.lanes > 1 and not self._is_quick():
            self.node.kill()
            self.node = self._configured(1)
            self._begin(shared=False)
        why = self.trouble(self.config.reply)
        if why:
            raise NotApplicable(why)

    def _is_quick(self) -> bool:
        """Tells whether it begins sessions on one link while others wait for us."""
        player = Player(self._acceptors[0], self.config.reply)
        try:
            for player.door in self._acceptors[:TRIES]:
                began = time.perf_counter()
                player.reach(State.ACCEPTED)
                if time.perf_counter() - began > SLOW_SECONDS * self.config.time_scale:
                    return False
        except NotReached:
            return False
        finally:
            player.leave()
        return True

    def trouble(self, reply: float) -> str:
        """See Stage."""
        alone = len(self._acceptors) == 1
        if alone and any(not pipe.ended for one in self._players for pipe in one.links.values()):
            return ""
        if not self._quick and not alone:
            return self._watched(reply)
        player = Player(self._acceptors[-1], reply)
        try:
            # Behind a session even a node that pauses longer and longer is soon back.
            player.reach(State.INIT_RECEIVED if self._quick else State.ACCEPTED)
        except NotReached as error:
            return f"the node does not connect to the fuzzer: {error}"
        else:
            return ""
        finally:
            player.leave()

    def _watched(self, reply: float) -> str:
        """Looks at a session that lives on: a node that pauses after each of its links would be waited for each time."""
        player = self._watch = self._watch or Player(self._acceptors[-1], reply)
        why = ""
        # The link that waits may be about to be given up.
        for _ in range(2):
            try:
                pipe = player.links.get("a")
                if pipe is None or pipe.ended:
                    pipe = player.reach(State.ACCEPTED)
                run(player.fenced(pipe))
            except NotReached as error:
                player.leave()
                why = f"the node does not connect to the fuzzer: {error}"
            else:
                return ""
        return why

    def withdraw(self) -> None:
        """See Stage."""
        self._close()

    def stop(self) -> None:
        """See Stage."""
        if self._watch is not None:
            self._watch.leave()
        super().stop()
        self._close()

    def _close(self) -> None:
        while self._acceptors:
            self._acceptors.pop().close()
