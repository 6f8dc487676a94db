"""A stage: one node process, the door to it, and players."""

from __future__ import annotations

import random
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from conformance.config import RunConfig
from conformance.errors import NodeDidNotStart, NotApplicable
from conformance.nodes.base import Node
from conformance.tester import Fencing
from fuzz.player import Answers, Door, Initiator, Pipe, Player, Trace
from fuzz.player.doors import SPOKEN, NoLink

COMEBACK_SECONDS = 10.0
"""So long a node that is not ours has to come back."""

LANES = 8
"""Players side by side, where each of them needs something of its own."""

MOST_PLAYERS = 64
"""Players side by side, where nothing else limits them."""


class Stage:
    """A node that does what some states need.

    Args:
        node: Not started yet, or attached to.
        config: The run.

    Attributes:
        needs: What of ``Facts.needs`` it serves.
        node: The process; oracles look at it.
        lanes: So many players can play side by side.
        serves: Others can open sessions with the node: those of a canary, say.
        prompt: While it is well something always comes back at once: that nothing does is odd.
        at_work: Tells whether the process computes although nothing is asked of it; whoever can know puts it here.
    """

    needs = ""
    lanes = MOST_PLAYERS
    serves = True
    prompt = False

    def __init__(self, node: Node, config: RunConfig) -> None:
        self.node = node
        self.config = config
        self.at_work: Callable[[], bool] = lambda: False
        self._players: weakref.WeakSet[Player] = weakref.WeakSet()

    # What differs ----------------------------------------------------------------------------------

    def door(self) -> Door:
        """Returns where the links of one more player come from.

        Raises:
            NotApplicable: The node takes none that we can make.
        """
        return _initiator(self.node)

    def prepare(self) -> None:
        """Makes ready what has to be there before the node starts."""

    def launch(self) -> None:
        """Starts the node.

        Raises:
            NodeDidNotStart: It does not come up.
        """
        self.node.start()

    def check(self) -> None:
        """Looks whether the node that has started does what is needed.

        Raises:
            NotApplicable: It does not.
        """

    def trouble(self, reply: float) -> str:  # noqa: ARG002  (stages that need something of the node look)
        """Returns why what the states need is not there any more, although the node may serve sessions; or nothing."""
        return ""

    # What is the same ------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the node and sees that it does what is needed.

        Raises:
            NodeDidNotStart: It does not come up.
            NotApplicable: It cannot do what is needed; says why.
        """
        # Another stage may be playing on the same node: that goes on, whatever comes out here.
        shared = self.node.starts > 0 and not self.node.death()
        try:
            self.prepare()
            self._begin(shared=shared)
            self.check()
        except BaseException:
            if shared:
                self._leave()
            else:
                self.stop()
            raise

    def _begin(self, *, shared: bool) -> None:
        if not shared:
            self.launch()
        if not self.node.whatami:
            self.node.ask(self.config.reply)
        self.node.learn_counting(self.config.reply)

    def restart(self) -> None:
        """Kills and starts the node, as fast as it can be; players go on with the new one.

        Raises:
            NodeDidNotStart: It does not come up again.
        """
        if self.node.owned:
            self.node.kill()
            self._leave()
            self.launch()
        else:
            self._leave()
            self._await_comeback()
        for player in self._players:
            self.renew(player)

    def _await_comeback(self) -> None:
        deadline = time.monotonic() + COMEBACK_SECONDS
        while True:
            try:
                self.node.ask(self.config.reply)
            except NodeDidNotStart:
                if time.monotonic() > deadline:
                    raise
                time.sleep(self.config.reply / 10)  # nothing tells when somebody else has started it again
            else:
                return

    def renew(self, player: Player) -> None:
        """Shows a player where the node is that was started again."""
        player.door = self.door()

    def player(
        self, rng: random.Random | None = None, trace: Trace | None = None, answers: Answers | None = None
    ) -> Player:
        """Returns one more player."""
        player = Player(self.door(), self.config.reply, Fencing(self.node.fence), rng, trace, answers)
        player.at_work = self._is_at_work
        # Some are only dropped; their links must not live on.
        weakref.finalize(player, _close, player.links, player.helpers)
        self._players.add(player)
        return player

    def _is_at_work(self) -> bool:
        # Whoever knows may come after the player.
        return self.at_work()

    def withdraw(self) -> None:
        """Takes back the doors of ours: no link that nobody answers holds up a node that is asked to end. It cannot restart."""

    def _leave(self) -> None:
        for player in self._players:
            player.leave()

    def stop(self) -> None:
        """Ends the node if it is ours, and all links."""
        self._leave()
        if self.node.owned:
            # A node that waits for somebody does not hear a polite signal.
            self.node.kill()
            self.node.stop()


def _close(*links: dict[str, Pipe]) -> None:
    for some in links:
        for pipe in some.values():
            pipe.close()


def _initiator(node: Node) -> Initiator:
    spoken = [node.locators[proto] for proto in SPOKEN if proto in node.locators]
    try:
        made = Initiator(spoken[0] if spoken else node.locator, node.user, node.tls)
    except NoLink as error:
        raise NotApplicable(str(error)) from None
    made.as_written = bool(node.as_written)
    return made


def variant(node: Node, wanted: Mapping[str, Any], wishes: Mapping[str, Any] | None = None) -> Node:
    """Returns a node with a configuration of its own.

    Args:
        node: Of the kind.
        wanted: Paths and values that it must have.
        wishes: Those of them that it knows it has.

    Raises:
        NotApplicable: It cannot be configured so.
    """

    def made(paths: Mapping[str, Any]) -> Node:
        return node.variant(**{path.replace("/", "__"): value for path, value in paths.items()})

    granted: dict[str, Any] = {}
    for path, value in (wishes or {}).items():
        with suppress(NotApplicable):  # without it it may do
            made({**granted, path: value, **wanted})
            granted[path] = value
    return made({**granted, **wanted})
