"""Scouting on sockets: HELLO for whoever asks, SCOUTs of our own when the node is to find others."""

from __future__ import annotations

from conformance.config import Locator
from conformance.errors import UsageError
from conformance.link import Datagrams, Reaching, Timer
from conformance.observe import Observation
from conformance.refnode.core import Core, log
from conformance.refnode.dialling import dial
from conformance.refnode.mutants import Memory
from conformance.refnode.scouting import Address, Found, Responder, Seeker
from scapy_layers.codes import Kind, What
from scapy_layers.primitives import zid_to_text

WANTED = What.ROUTER | What.PEER
"""Roles that a node of ours connects to."""

MOST_TRIED = 4
"""Locators of one HELLO that are tried."""

FOUND_SECONDS = 1.0
"""How long one of them may take."""

PAUSE_SECONDS = 5.0
"""After a HELLO that led nowhere no other is followed for so long."""


class Search:
    """The scouting of a node.

    Args:
        core: What all links share.
        where: Group, or address, of SCOUTs.
        locators: What HELLO says.
    """

    def __init__(self, core: Core, where: Locator, locators: list[str]) -> None:
        policy = core.mutant.scout()
        self._core = core
        self._where = where
        self._group: Address = (where.host, where.port)
        self._policy = policy
        self._responder = Responder(
            core.config.zid,
            core.config.mode,
            locators,
            self._group,
            policy,
            lambda: len(core.registry.present),
        )
        self._seeker = Seeker(core.config.zid, WANTED, policy)
        self._memory: Memory = {}
        self._socket: Datagrams | None = None
        self._timer: Timer | None = None
        self._tries = 0
        self._not_before = 0.0
        self._meeting = False
        self._reaching: Reaching | None = None

    def start(self) -> None:
        """Answers from now on; asks too when the node is to find others.

        Raises:
            LinkFailed: There is no such address here.
        """
        self._socket = self._core.links.datagrams(self._where, "scout", group=True, kind=Kind.SCOUTING)
        self._socket.on_datagram = self._heard
        if self._core.config.find:
            self._seek(self._core.clock())

    def stop(self) -> None:
        """Neither answers nor asks any more."""
        if self._reaching is not None:
            self._reaching.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _heard(self, seen: Observation, source: Address) -> None:
        if self._socket is None:
            return
        try:
            mutant, heard = self._core.mutant, seen.batch
            if mutant.hear is not None:
                heard = mutant.heard(heard, self._memory, Kind.SCOUTING)
            answer = self._responder.answer(heard, source)
            if answer is not None:
                self._socket.send_to(*answer)
            elif self._core.config.find:
                found = self._seeker.receive(heard, source)
                if found is not None:
                    self._meet(found)
        except Exception:  # noqa: BLE001  (scouting shall not harm the links)
            self._core.counters.internal_errors += 1
            log.exception("scouting: internal error")

    def _seek(self, now: float) -> None:
        self._seeker.start(now)
        if self._timer is None:
            self._tick(now)

    def _tick(self, now: float) -> None:
        scout = self._seeker.tick(now)
        if scout is not None and self._socket is not None:
            self._say(scout)
        due = self._seeker.next_deadline()
        self._timer = None if due is None else self._core.links.at(due, self._tick)

    def _say(self, scout: bytes) -> None:
        assert self._socket is not None
        where = self._policy.destination(self._group)
        if where == self._group:
            self._socket.send(scout)
        else:
            self._socket.send_to(scout, where)

    def _meet(self, found: Found) -> None:
        """Connects to a node that was found, by the first of its locators that works."""
        core = self._core
        now = core.clock()
        if found.zid in core.registry.present or now < self._not_before or self._meeting:
            return
        log.info("found %s at %s", zid_to_text(found.zid), ", ".join(map(repr, found.locators)) or "no place")
        if not found.locators:
            return
        self._meeting = True
        self._try(list(found.locators[:MOST_TRIED]))

    def _try(self, left: list[str]) -> None:
        """Tries one locator after the other."""
        while left:
            try:
                locator = Locator.parse(left.pop(0))
            except UsageError as error:
                log.info("%s", error)
                continue
            self._tries += 1
            self._reaching = dial(
                self._core,
                locator,
                f"found{self._tries}",
                self._lost,
                lambda: self._try(left),
                FOUND_SECONDS,
                self._met,
            )
            return
        # Anybody can send HELLO; what it costs us to try shall not depend on how often.
        self._not_before = self._core.clock() + PAUSE_SECONDS
        self._met()

    def _met(self) -> None:
        self._meeting = False

    def _lost(self, _: bool) -> None:
        if not self._core.registry.present and self._socket is not None:
            self._seek(self._core.clock())
