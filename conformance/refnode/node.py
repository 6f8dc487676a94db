"""The node: links, a session for each, a router between them, scouting, a multicast group."""

from __future__ import annotations

import random
import string
import sys
import time
from dataclasses import replace

from conformance.errors import LinkFailed
from conformance.link import Link, Links, Listener
from conformance.refnode.core import Core, log
from conformance.refnode.counters import Counters
from conformance.refnode.dialling import Dialler
from conformance.refnode.membership import Membership
from conformance.refnode.mutants import mutant_named
from conformance.refnode.neighbour import Neighbour
from conformance.refnode.search import Search
from conformance.refnode.settings import GOODBYE_SECONDS, NodeConfig, reason_name
from conformance.router import Router
from conformance.session.registry import Registry
from conformance.session.rsa import new_key
from scapy_layers.codes import CloseReason
from scapy_layers.primitives import zid_to_text
from scapy_layers.transport import Close

TURN_SECONDS = 3600.0
"""The loop is entered anew after this; nothing hangs on it."""


class Node:
    """A reference node. ``start``, then ``run`` until somebody calls ``stop``, then ``close``.

    Args:
        config: What it is.

    Raises:
        UsageError: There is no such mutant.
    """

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.mutant = mutant_named(config.mutant)
        self.links = Links(None, config.tls)
        self._listeners: list[Listener] = []
        self._parts: list[Dialler | Search | Membership] = []
        self._stopping = False
        self._telling = False
        self._router_due: float | None = None

    @property
    def locators(self) -> list[str]:
        """Where it takes links, with the true ports."""
        # What stands behind # is for this machine only.
        return [str(replace(listener.locator, config={})) for listener in self._listeners]

    @property
    def counters(self) -> Counters:
        """What it has done so far."""
        return self._core.counters

    @property
    def facts(self) -> dict[str, object]:
        """What whoever started it wants to know."""
        config = self.config
        return {
            "locator": self.locators[0] if self._listeners else "",
            "locators": self.locators,
            "zid": zid_to_text(config.zid),
            "whatami": config.mode.name.lower(),
            "mutant": self.mutant.name or None,
        }

    def start(self) -> None:
        """Listens, answers SCOUT, joins its group and begins to connect.

        Raises:
            HarnessError: It cannot listen there.
        """
        config = self.config
        for number, locator in enumerate(config.listen):
            # in1, in2 are links of the first one; in-b1, in-b2 of the second.
            name = "in" if not number else f"in-{string.ascii_lowercase[number % 26]}"
            self._listeners.append(self.links.listen(locator, self._arrived, name))
        rng = random.SystemRandom() if config.seed is None else random.Random(config.seed)
        self._core = Core(
            config=config,
            links=self.links,
            router=Router(config.zid, config.mode, policy=self.mutant.router(), locators=self.locators),
            registry=Registry(max_sessions=config.max_sessions),
            rng=rng,
            key=new_key(rng) if config.max_links > 1 else None,
            clock=time.monotonic,
            mutant=self.mutant,
        )
        if config.scout is not None:
            self._parts.append(Search(self._core, config.scout, self.locators))
        if config.multicast is not None:
            self._parts.append(Membership(self._core, config.multicast))
        self._parts += [Dialler(self._core, locator) for locator in config.connect]
        for part in self._parts:
            part.start()

    def run(self) -> None:
        """Serves until ``stop``."""
        while not self._stopping:
            self.links.wait(self._turned, TURN_SECONDS)

    def stop(self) -> None:
        """Ends ``run``; safe in a signal handler."""
        self._stopping = True
        self.links.wake()

    def tell(self) -> None:
        """Makes the node write its counters to the log; safe in a signal handler."""
        self._telling = True
        self.links.wake()

    def close(self) -> None:
        """Ends every session with CLOSE, waits until that has left, and ends all links."""
        for part in self._parts:
            part.stop()
        core = self._core
        if core.decisions.says_goodbye():
            for mouth in tuple(core.mouths.values()):
                if isinstance(mouth, Neighbour):
                    mouth.close(CloseReason.GENERIC, "the node shuts down")
            self.links.wait(self._emptied, GOODBYE_SECONDS)
        # Not before: links over udp share the socket of their listener.
        for listener in self._listeners:
            listener.close()
        self.links.wait(lambda: not self.links.leftovers, GOODBYE_SECONDS)
        self.links.close()

    # Inside ----------------------------------------------------------------------------------------------

    def _turned(self) -> bool:
        core = self._core
        core.turn()
        due = core.router.next_deadline()
        if due is not None and (self._router_due is None or due < self._router_due):
            self._router_due = due
            self.links.at(due, self._router_tick)
        if self._telling:
            self._telling = False
            sys.stderr.write(core.counters.line() + "\n")
            sys.stderr.flush()
        return self._stopping

    def _emptied(self) -> bool:
        self._core.turn()
        return not self._core.mouths

    def _router_tick(self, now: float) -> None:
        self._router_due = None
        self._core.router.tick(now)
        self.links.wake()

    def _arrived(self, link: Link) -> None:
        if self._stopping:
            link.close()
            return
        core = self._core
        reason = core.decisions.refusal(core.counters.half_open, self.config.half_open)
        if reason is None:
            Neighbour(core, link, initiator=False)
            return
        core.counters.refused += 1
        core.counters.count_closed(reason_name(reason))
        log.info("link %s refused: %d handshakes are under way", link.name, core.counters.half_open)
        try:
            link.send(bytes(Close(reason=reason)))
        except LinkFailed as error:
            log.info("link %s: %s", link.name, error)
        link.close()
