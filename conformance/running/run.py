"""What the tests of one process share: the options and the node, with what became of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from conformance.deviations import Deviations
from conformance.errors import HarnessError
from conformance.nodes import Node
from conformance.running.options import Settings
from conformance.tester import Tester, is_refusal, is_unanswered

PATIENCE = 3
"""How often in a row a node that is not ours may fail to answer before it counts as lost."""

run_key = pytest.StashKey["Run"]()
testers_key = pytest.StashKey[list[Tester]]()
nodes_key = pytest.StashKey[list[Node]]()
pending_key = pytest.StashKey[Exception]()
"""Why a test cannot be run; raised in its place."""


COMEBACK_REPLIES = 5
"""So many times T1 a node that is not ours has to come back once it was not well several times."""

PAUSE_SECONDS = 0.1
"""Between two looks whether it did."""


@dataclass(slots=True)
class Run:
    """What the tests of one process share.

    Attributes:
        settings: The options.
        node: The node, running unless it is lost.
        deviations: What is known of nodes.
        whole: All files of the suite take part, so that what no test saw says something.
        lost: Why there is no node any more; empty while there is one. Tests are inconclusive from then on.
        unwell: How often in a row the node was not well.
        last_words: What the process wrote last when the node was not well the last time, and where.
    """

    settings: Settings
    node: Node
    deviations: Deviations
    whole: bool = False
    lost: str = ""
    unwell: int = 0
    last_words: str = ""

    def start(self) -> None:
        """Starts the node; one that does not come up is lost."""
        try:
            self.node.start()
            if not self.settings.config.trust_node:
                reply = self.settings.config.reply
                self.node.ask(reply)
                doubt = self.node.doubt(reply)
                self.lost = f"{self.node.locator}: {doubt}" if doubt else ""
        except HarnessError as error:
            self.lost = str(error)

    def problem(self, testers: Sequence[Tester] = ()) -> str:
        """Looks whether the node is well; returns why it is not, or nothing.

        A node of ours is started again. One that is not ours is given up when it has failed several times.

        Args:
            testers: Those of the test. A node that refuses one more session may have no more than they hold, and a peer
                may wait for what they have to say: it is asked again with their links closed.
        """
        if self.lost or self.settings.config.trust_node:
            return self.lost
        reply = self.settings.config.reply
        found = self.node.problem(reply)
        if self._may_be_ours(found, testers):
            for tester in testers:
                tester.close()
            deadline = time.monotonic() + reply
            while self._may_be_ours(found, testers) and time.monotonic() < deadline:
                found = self.node.problem(reply)
        if not found:
            self.unwell = 0
            return ""
        self.unwell += 1
        self.last_words = self.node.last_words()
        if self.node.owned:
            self._restart()
        elif self.unwell >= PATIENCE and not self._comes_back():
            self.lost = f"the node did not come back: {found}"
        return found

    def _may_be_ours(self, found: str, testers: Sequence[Tester]) -> bool:
        """Tells whether a node may be unwell for no other reason than that sessions of ours are open."""
        waits = self.node.whatami != "router" and any(tester.takes_part for tester in testers)
        return bool(testers) and (is_refusal(found) or (waits and is_unanswered(found)))

    def _comes_back(self) -> bool:
        """Gives whoever looks after the node some time to start it again; tells whether it is well."""
        reply = self.settings.config.reply
        deadline = time.monotonic() + COMEBACK_REPLIES * reply
        while time.monotonic() < deadline:
            if not self.node.problem(reply):
                self.unwell = 0
                return True
            time.sleep(PAUSE_SECONDS)  # nothing tells us when somebody else's node is back
        return False

    def _restart(self) -> None:
        try:
            self.node.restart()
        except HarnessError as error:
            self.lost = f"the node did not come up again: {error}"


def harmed(item: pytest.Item) -> str:
    """Returns what nodes that a test had for itself said about a failure of their own."""
    return "; ".join(filter(None, (_harm(node) for node in item.stash.get(nodes_key, []))))


def _harm(node: Node) -> str:
    said = node.complaints()
    # One that the test has ended has no process any more.
    return (node.awaited_death() if said and node.pid is not None else "") or said
