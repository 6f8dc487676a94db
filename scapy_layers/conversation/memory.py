"""What is remembered of links and sessions, and when it is forgotten."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import count

from scapy_layers import extensions
from scapy_layers.conversation.aliases import Aliases
from scapy_layers.conversation.exchanges import Exchanges
from scapy_layers.conversation.identify import Claim
from scapy_layers.conversation.session import Session, extension
from scapy_layers.fragments import Fragments
from scapy_layers.limits import Limits
from scapy_layers.links import HANDSHAKE, MS, SHORTEST_LEASE_MS
from scapy_layers.scouted import is_group
from scapy_layers.stream import Endpoint, Link
from scapy_layers.transport import Init


@dataclass(slots=True, eq=False)
class Talk:
    """What is remembered of one link; lists have an item for each way.

    Attributes:
        link: The link.
        session: What it belongs to.
        claim: How sure it is that it is Zenoh.
        flipped: Side 0 of the session is the second endpoint of the link.
        latest: Time of the last batch, in ns.
        inits: The INIT on each way.
        starts: The sequence numbers with which OPEN says that each way begins.
        opened: The ways on which OPEN was heard.
        settled: The ways on which batches are as agreed: what follows OPEN, heard or lost.
        missed: The ways of which something is missing.
        ended: The ways that have ended, by the connection's end or, on UDP, by CLOSE.
        closed: The session is over, by CLOSE of both on UDP.
        compressed: Batches have a header byte, though no INIT was heard to say so: in a group, or in mid session.
        misses: Batches in a row that could not be read.
        said: Messages heard.
        greeting: All that was heard of the session is INIT.
    """

    link: Link
    session: Session
    claim: Claim
    flipped: bool = False
    latest: int = 0
    starts: list[int | None] = field(default_factory=lambda: [None, None])
    inits: list[Init | None] = field(default_factory=lambda: [None, None])
    opened: list[bool] = field(default_factory=lambda: [False, False])
    settled: list[bool] = field(default_factory=lambda: [False, False])
    missed: list[bool] = field(default_factory=lambda: [False, False])
    ended: list[bool] = field(default_factory=lambda: [False, False])
    closed: bool = False
    compressed: bool = False
    misses: int = 0
    said: int = 0
    greeting: bool = True

    @property
    def dialer(self) -> bytes | None:
        """Returns the ZenohID of the node that asked for the link, when that was heard."""
        return next((bytes(init.zid) for init in self.inits if init is not None and not init.A), None)

    def is_open_missing(self, index: int) -> bool:
        """Tells whether the other end has said OPEN, and nothing was heard of that of this one."""
        return self.opened[1 - index] and not self.settled[index]

    def settle(self, index: int) -> None:
        """Takes note that an OPEN was not heard: what comes behind it is as agreed, when that is known."""
        if self.session.fsn is not None:
            self.settled[index] = True
            self.switch()

    def switch(self) -> None:
        """Sets the framing that was agreed; from OPEN_SYN on already, for nothing comes before OPEN_ACK."""
        agreed = self.session.lowlatency
        self.link.take_framing(
            self.settled, agreed=agreed, possible=agreed is None and self._may_be_lowlatency()
        )

    def _may_be_lowlatency(self) -> bool:
        """Tells whether low latency may be agreed, as far as the handshake was heard."""
        heard = [init for init in self.inits if init is not None]
        if heard:
            return any(extension(init, extensions.LowLatency) is not None for init in heard)
        return any(self.opened)


class Memory:
    """All that a passive reader remembers; each table is bounded.

    Attributes:
        limits: The bounds.
        talks: The links that are Zenoh, by number, the most recently used last.
        aliases: Of all sessions.
        exchanges: Of all sessions.
        fragments: Of all sessions.
        midway: Numbers of links between two nodes whose beginning was not seen.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.talks: OrderedDict[int, Talk] = OrderedDict()
        self.aliases = Aliases(limits)
        self.exchanges = Exchanges(limits)
        self.fragments = Fragments(limits)
        self._forgotten_links = 0
        self.midway: set[int] = set()
        self._numbers = count()
        self._pairs: dict[frozenset[str | None], Session] = {}
        self._openings: dict[frozenset[tuple[str | None, int | None]], Session] = {}
        self._rooms: dict[Endpoint, tuple[int, int]] = {}

    @property
    def forgotten(self) -> dict[str, int]:
        """How much of each kind had to go because a bound was reached."""
        return {
            "links": self._forgotten_links,
            "aliases": self.aliases.table.forgotten,
            "exchanges": self.exchanges.table.forgotten,
            "messages": self.fragments.forgotten,
        }

    def talk(self, link: Link) -> Talk | None:
        """Returns what is remembered of a link, and notes that it is in use."""
        talk = self.talks.get(link.number)
        if talk:
            self.talks.move_to_end(link.number)
        return talk

    def begin(self, link: Link, claim: Claim) -> Talk:
        """Begins to remember a link, with a session of its own."""
        talk = self.talks[link.number] = Talk(link, self._new_session(link), claim)
        if claim is Claim.LIKELY and not talk.session.multicast:
            self.midway.add(link.number)
        if len(self.talks) > self.limits.links:
            self._forgotten_links += 1
            self.drop(next(iter(self.talks.values())))
        return talk

    def _new_session(self, link: Link) -> Session:
        if link.tcp or not is_group(link.second):
            return Session(next(self._numbers), links=[link])
        room, members = self._rooms.get(link.second) or (next(self._numbers), 0)
        self._rooms[link.second] = (room, members + 1)
        return Session(next(self._numbers), links=[link], multicast=True, room=room)

    def renew(self, talk: Talk) -> None:
        """Begins a new session between the same endpoints."""
        if self.talks.get(talk.link.number) is not talk:
            return
        self._leave(talk)
        talk.session = self._new_session(talk.link)
        talk.inits, talk.starts = [None, None], [None, None]
        talk.opened, talk.settled, talk.ended = [False, False], [False, False], [False, False]
        talk.missed = [False, False]
        talk.flipped = talk.closed = False
        # In a group the JOIN of the new one has shown it already.
        talk.compressed = talk.compressed and talk.session.multicast
        talk.greeting = True

    def _leave(self, talk: Talk) -> None:
        """Takes a link from its session, which is forgotten with its last one."""
        if talk.closed:
            return
        session = talk.session
        session.links.remove(talk.link)
        if session.links:
            return
        self.aliases.table.drop(session.number)
        self.fragments.drop(session.number)
        if session.multicast:
            room, members = self._rooms.pop(talk.link.second)
            if members > 1:
                self._rooms[talk.link.second] = (room, members - 1)
                return
        self.exchanges.drop(session)
        if self._pairs.get(frozenset(session.zids)) is session:
            del self._pairs[frozenset(session.zids)]
        if self._openings.get(session.opening) is session:
            del self._openings[session.opening]

    def make_sure(self, talk: Talk) -> None:
        """Takes note that the beginning of a link was seen."""
        talk.claim = Claim.SURE
        self.midway.discard(talk.link.number)

    def close(self, talk: Talk) -> None:
        """Forgets the session of a link on UDP, but not whose it was: nodes may say CLOSE more than once."""
        self._leave(talk)
        talk.closed = True

    def drop(self, talk: Talk) -> None:
        """Forgets a link; one that is forgotten already stays so."""
        if self.talks.get(talk.link.number) is not talk:
            return
        del self.talks[talk.link.number]
        self.midway.discard(talk.link.number)
        self._leave(talk)

    def unite(self, talk: Talk, time: int) -> None:
        """Finds the session that another link of the same two nodes has begun, and keeps alive.

        Args:
            talk: Its handshake is complete.
            time: In ns, of the packet that completed it.
        """
        ends = frozenset(talk.session.zids)
        if len(ends) < 2 or None in ends:
            return
        known = self._pairs.get(ends)
        if known is None or not self._alive(known, time):
            self._pairs[ends] = talk.session
        elif known is not talk.session:
            self._merge(talk, known)

    def cross(self, talk: Talk, time: int) -> None:
        """Finds the session that a link from the other end has begun.

        Two nodes that connect to each other have one session on both links, although they did not agree on several:
        each says on one of them that all begins with the same numbers. The second link may come at any time while
        the first one is there.

        Args:
            talk: Its handshake is complete.
            time: In ns, of the packet that completed it.
        """
        session = talk.session
        ends = frozenset(zip(session.zids, talk.starts, strict=True))
        if None in session.zids or session.zids[0] == session.zids[1]:
            return
        known = self._openings.get(ends)
        if known is not None and any(link.dialer != talk.dialer for link in self._alive(known, time)):
            known.multilink = True
            self._merge(talk, known)
        else:
            session.opening = ends
            self._openings[ends] = session

    def _alive(self, session: Session, time: int) -> list[Talk]:
        """Returns those links of a session that no end has left, and on which something came within the lease."""
        since = time - max(SHORTEST_LEASE_MS, *(party.lease or 0 for party in session.parties)) * MS
        talks = [self.talks[link.number] for link in session.links]
        return [talk for talk in talks if talk.latest > since and not any(talk.ended)]

    def _merge(self, talk: Talk, known: Session) -> None:
        """Makes a link one of another session, from which its own turned out not to differ."""
        talk.flipped = known.zids != talk.session.zids
        self._leave(talk)
        talk.session = known
        known.links.append(talk.link)
        if talk.said > HANDSHAKE:
            # Some messages were taken for those of another session.
            for party in known.parties:
                party.doubt()
