"""What rules remember about links and sessions, within bounds."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Generic, NamedTuple, TypeVar

from scapy_layers.codes import InterestMode
from scapy_layers.conversation import Heard, Lane, RemarkKind, Session
from scapy_layers.conversation.session import Party, extension
from scapy_layers.extensions import Budget, Drop, Timeout
from scapy_layers.message import Layer
from scapy_layers.network import Interest, Request, ResponseFinal
from scapy_layers.scouting import Scout
from scapy_layers.stream import Datagram, Link
from scapy_layers.transport import Close, Fragment, Frame, Init, Open

MOST = 4096
"""Requests, interests, lanes, cookies and the like that are remembered at once: each a few hundred bytes."""

MOST_DATAGRAMS = 1024
"""Datagrams of which it is remembered that they were heard."""

AGAIN = 100_000_000
"""Nanoseconds within which the same datagram once more was captured twice, or came twice over the network."""

MOST_LINKS = 1024
"""Links that are remembered at once: during the handshake each with up to three batches."""

K = TypeVar("K")
V = TypeVar("V")


class Recent(OrderedDict[K, V], Generic[K, V]):
    """A table that forgets what was put there first."""

    def __init__(self, most: int = MOST) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > self._most:
            self.popitem(last=False)


def _links() -> Recent[int, LinkNotes]:
    return Recent(MOST_LINKS)


def digest(*parts: bytes | str) -> bytes:
    """Returns a few bytes that stand for many."""
    found = blake2b(digest_size=16)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        found.update(len(raw).to_bytes(4, "little") + raw)
    return found.digest()


@dataclass(slots=True, eq=False)
class LinkNotes:
    """What was said on a link. Sides: 0 is ``link.first``.

    Attributes:
        syn: InitSyn.
        initiator: The side that sent it.
        ack: InitAck.
        open_syn: OpenSyn.
        open_ack: OpenAck.
        closed: Packet time of the CLOSE of each side.
        heard: Time of the last batch of each side.
        whole: Nothing is missing since the first message, by side.
        complete: All that a side had said up to its last message was heard and could be read.
        messages: How many there were.
        copied: All of it is on another link too: packets were captured in front of and behind a translation of addresses.
        told: What is said once only.
    """

    syn: Init | None = None
    initiator: int = 0
    ack: Init | None = None
    open_syn: Open | None = None
    open_ack: Open | None = None
    closed: list[int | None] = field(default_factory=lambda: [None, None])
    heard: list[int | None] = field(default_factory=lambda: [None, None])
    whole: list[bool] = field(default_factory=lambda: [True, True])
    complete: list[bool] = field(default_factory=lambda: [False, False])
    messages: int = 0
    copied: bool = False
    told: set[str] = field(default_factory=set)

    @property
    def live(self) -> bool:
        """The handshake was heard to its end."""
        return self.open_ack is not None and self.open_syn is not None

    def once(self, what: str) -> bool:
        """Tells whether something is to be said, which it is once."""
        if what in self.told:
            return False
        self.told.add(what)
        return True


_SEEN = Init(zid=b"\x01"), Init(A=1, zid=b"\x01"), Open()


@dataclass(slots=True, eq=False)
class LaneNotes:
    """Where a lane of one sender stands.

    Attributes:
        chain: A message is being fragmented.
        last: Number of the last FRAME or FRAGMENT.
        ended: That was the last fragment of a message.
    """

    chain: bool = False
    last: int | None = None
    ended: bool = False


KINDS = ("keyexprs", "subscribers", "queryables", "tokens")
"""What an INTEREST can ask for."""


@dataclass(slots=True, eq=False)
class InterestNotes:
    """What an INTEREST asked for."""

    id: int
    mode: int
    kinds: frozenset[str]
    aggregate: bool
    number: int
    time: int
    answered: bool = False

    @classmethod
    def of(cls, heard: Heard) -> InterestNotes:
        """Returns what is worth remembering of one."""
        message = heard.message
        kinds = frozenset(kind for kind in KINDS if message.getfieldval(kind))
        mode, aggregate = int(message.mode), bool(message.aggregate)
        return cls(int(message.interest_id), mode, kinds, aggregate, heard.number, heard.time)


@dataclass(slots=True, eq=False)
class RequestNotes:
    """What a REQUEST asked for: most replies, ms; and packet and lane of its RESPONSE_FINAL."""

    budget: int | None
    timeout: int | None
    number: int
    time: int
    final: int | None = None
    final_lane: Lane | None = None

    @classmethod
    def of(cls, heard: Heard) -> RequestNotes:
        """Returns what is worth remembering of one."""
        budget, timeout = extension(heard.message, Budget), extension(heard.message, Timeout)
        return cls(
            None if budget is None or budget.partial else int(budget.budget),
            None if timeout is None or timeout.partial else int(timeout.timeout),
            heard.number,
            heard.time,
        )


class CookieNotes(NamedTuple):
    """Packet and link on which a cookie was seen last."""

    packet: int
    link: int


@dataclass(slots=True)
class Memory:
    """All that rules remember. Sides of a session are named by the sender's ZenohID, or by its endpoint."""

    links: Recent[int, LinkNotes] = field(default_factory=_links)
    lanes: Recent[tuple[int, str, Lane], LaneNotes] = field(default_factory=Recent)
    interests: Recent[tuple[int, str, int], InterestNotes] = field(default_factory=Recent)
    withdrawn: Recent[tuple[int, str, int], None] = field(default_factory=Recent)
    requests: Recent[tuple[int, str, int], RequestNotes] = field(default_factory=Recent)
    cookies: Recent[bytes, CookieNotes] = field(default_factory=Recent)
    starts: Recent[tuple[str, str], tuple[Session, int]] = field(default_factory=Recent)
    scouts: Recent[int, Layer] = field(default_factory=Recent)
    scouting: Recent[str, tuple[int, int]] = field(default_factory=Recent)
    pushed: Recent[tuple[int, str, bytes], int] = field(default_factory=Recent)
    joined: Recent[int, int] = field(default_factory=Recent)
    told: Recent[tuple[int, str], None] = field(default_factory=Recent)
    datagrams: Recent[bytes, int] = field(default_factory=lambda: Recent(MOST_DATAGRAMS))

    def link(self, link: Link) -> LinkNotes:
        """Returns the notes about a link."""
        found = self.links.get(link.number)
        return self.renew(link) if found is None else found

    def renew(self, link: Link) -> LinkNotes:
        """Begins the notes about a link anew and returns them."""
        found = self.links[link.number] = LinkNotes()
        return found

    def again(self, unit: Datagram) -> bool:
        """Tells whether the same datagram was heard a moment ago; takes note of it."""
        way = unit.way
        said = digest(f"{way.link.number} {way.forward}", unit.data)
        before = self.datagrams.pop(said, None)
        self.datagrams[said] = unit.time
        return before is not None and abs(unit.time - before) <= AGAIN

    def once(self, number: int, what: str) -> bool:
        """Tells whether something is to be said about a session, which it is once."""
        if (number, what) in self.told:
            return False
        self.told[number, what] = None
        return True


@dataclass(slots=True)
class Scene:
    """What a rule looks at: one message, before it changes the notes.

    Attributes:
        heard: The message.
        layer: The layer that the rule is about: the message, or a body inside it.
        link: Notes about the link.
        side: Of the sender: 0 for ``link.first``.
        memory: All notes.
    """

    heard: Heard
    layer: Layer
    link: LinkNotes
    side: int
    memory: Memory

    @property
    def session(self) -> Session | None:
        """The session."""
        return self.heard.session

    @property
    def parties(self) -> tuple[Party, Party] | None:
        """Sender and receiver, when there is a session."""
        session = self.heard.session
        if session is None:
            return None
        first, second = session.parties
        zid = self.heard.source_zid
        flipped = zid == second.zid if zid is not None and first.zid != second.zid else bool(self.side)
        return (second, first) if flipped and not session.multicast else (first, second)

    @property
    def sender(self) -> str:
        """Names the sender within its session."""
        return self.heard.source_zid or str(self.heard.way.source)

    @property
    def receiver(self) -> str:
        """Names the receiver."""
        return self.heard.target_zid or str(self.heard.way.target)

    @property
    def whole(self) -> bool:
        """All that the sender has said since its session began was heard, up to this message."""
        return self.link.complete[self.side] and self.link.whole[self.side]

    @property
    def unbroken(self) -> bool:
        """It is ``whole``, and no sequence number is missing in front of this message either."""
        missing = {RemarkKind.GAP, RemarkKind.LOSS, RemarkKind.UNORDERED}
        return self.whole and missing.isdisjoint(remark.kind for remark in self.heard.remarks)

    @property
    def lane(self) -> LaneNotes | None:
        """Where the lane of a FRAME or FRAGMENT stands; None when that is not known."""
        heard = self.heard
        if heard.lane is None or heard.session is None:
            return None
        return self.memory.lanes.get((heard.session.number, self.sender, heard.lane))

    def note(self) -> None:
        """Notes what the message says. To be called after all rules have looked at it."""
        self.link.messages += 1
        parties = self.parties
        self.link.complete[self.side] = parties is not None and parties[0].complete
        message, heard = self.heard.message, self.heard
        match message:
            case Init() | Open() if not message.partial:
                self._note_handshake(message)
            case Scout():
                self.memory.scouts[heard.number] = message
            case Close():
                self.link.closed[self.side] = heard.time
            case Frame() | Fragment() if heard.lane and heard.session and not heard.ignored:
                self._note_lane(message)
            case Interest() | Request() | ResponseFinal() if heard.session and not message.partial:
                self._note_question(message, heard.session.number)

    def _note_handshake(self, message: Init | Open) -> None:
        link = self.link
        match message:
            case Init(A=0):
                link.syn, link.initiator = message, self.side
                link.ack = link.open_syn = link.open_ack = None
            case Init():
                link.ack = message
            case Open(A=0):
                link.open_syn = message
            case Open():
                link.open_ack = message
                # What the handshake said has been judged; that it was heard is all that counts from here on.
                link.syn, link.ack, link.open_syn = _SEEN

    def _note_question(self, message: Layer, session: int) -> None:
        memory, heard = self.memory, self.heard
        match message:
            case Interest(mode=InterestMode.FINAL):
                asked = (session, self.sender, message.interest_id)
                if memory.interests.pop(asked, None) is not None:
                    # Answers that are on their way by now cross with it.
                    memory.withdrawn[asked] = None
            case Interest():
                memory.interests[session, self.sender, message.interest_id] = InterestNotes.of(heard)
            case Request():
                memory.requests[session, self.sender, message.request_id] = RequestNotes.of(heard)
            case ResponseFinal():
                found = memory.requests.get((session, self.receiver, message.request_id))
                if found:
                    found.final, found.final_lane = heard.number, heard.lane

    def _note_lane(self, message: Layer) -> None:
        assert self.heard.session
        assert self.heard.lane
        chain = isinstance(message, Fragment) and bool(message.M) and extension(message, Drop) is None
        ended = isinstance(message, Fragment) and not chain
        key = self.heard.session.number, self.sender, self.heard.lane
        self.memory.lanes[key] = LaneNotes(chain, message.sn, ended)
