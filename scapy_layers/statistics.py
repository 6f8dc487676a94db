"""A capture in numbers: what was said, by whom, on which links and keys, and how fast it was answered.

Memory is bounded: of links, sessions, nodes and keys those are kept that say most, and what is left out is told.
Everything counts once for each link it was captured on: what a router forwards comes twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from scapy_layers.capture import Segment
from scapy_layers.conversation import Conversations, Heard, Remark, RemarkKind, Session, Unread
from scapy_layers.message import Layer, Message
from scapy_layers.samples import Content, Event, EventKind, Final, Scouting, event_of
from scapy_layers.stream import Gap, Link
from scapy_layers.tally import Spread, Tally
from scapy_layers.transport import Init, Open

TOP = 100
"""Rows of each table in the result, unless asked for another number."""

MOST_LINKS = 10_000
MOST_SESSIONS = 2_000
MOST_NODES = 10_000
"""Of these, more are only counted."""

MOST_REASONS = 50
"""Different explanations of gaps that are told apart."""

Place = tuple[int, int]
"""Which capture, and the number of a link or session in it."""

_OF_KEY = {
    EventKind.PUT: "puts",
    EventKind.DELETE: "deletes",
    EventKind.QUERY: "queries",
    EventKind.REPLY: "replies",
    EventKind.REPLY_ERR: "errors",
}
"""What is counted of a key."""


@dataclass(slots=True)
class _Span:
    """When something was heard first and last, ns, and how often."""

    weight: int = 0
    first: int = 0
    last: int = 0

    def at(self, time: int) -> None:
        if not self.weight:
            self.first = time
        self.weight += 1
        self.last = time


@dataclass(slots=True)
class _Link(_Span):
    link: Link | None = None
    session: Session | None = None
    disordered: bool = False


@dataclass(slots=True)
class _Talk(_Span):
    session: Session | None = None
    links: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Node(_Span):
    whatami: str | None = None
    bytes: int = 0


@dataclass(slots=True)
class _Key(_Span):
    counts: Counter[str] = field(default_factory=Counter)
    bytes: int = 0


@dataclass(slots=True)
class _Gaps:
    count: int = 0
    missing: int = 0
    unknown: int = 0
    skipped: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def take(self, gap: Gap) -> None:
        self.count += 1
        self.skipped += gap.skipped
        if gap.missing is None:
            self.unknown += 1
        else:
            self.missing += gap.missing
        known = gap.why in self.reasons or len(self.reasons) < MOST_REASONS
        self.reasons[gap.why if known else "other"] += 1


@dataclass(slots=True)
class _Remarked:
    count: int
    capture: int
    packet: int
    first: Remark


class Statistics:
    """Counts what is heard, of one capture or of several."""

    def __init__(self) -> None:
        self._capture = 0
        self._packets = 0
        self._payload = 0
        self._times: tuple[int, int] | None = None
        self._duration = 0
        self._counts: Counter[str] = Counter()
        self._unread = 0
        self._links: Tally[Place, _Link] = Tally(_Link, rows=MOST_LINKS)
        self._sessions: Tally[Place, _Talk] = Tally(_Talk, rows=MOST_SESSIONS)
        self._nodes: Tally[str, _Node] = Tally(_Node, rows=MOST_NODES)
        self._keys: Tally[str, _Key] = Tally(_Key)
        self._keyed = _Key()
        self._sent = self._answered = self._strays = 0
        self._to_reply = Spread()
        self._to_final = Spread()
        self._gaps = _Gaps()
        self._remarks: dict[RemarkKind, _Remarked] = {}
        self._forgotten: Counter[str] = Counter()
        self._foreign = 0
        self._disordered = 0

    # Counting -------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begins with the next capture."""
        self._capture += 1
        self._times = None

    def packet(self, segment: Segment) -> None:
        """Counts a packet, whether it is Zenoh or not."""
        self._packets += 1
        self._payload += len(segment.data)
        first, last = self._times or (segment.time, segment.time)
        self._times = min(first, segment.time), max(last, segment.time)

    def end(self, conversations: Conversations) -> None:
        """Ends with a capture.

        Args:
            conversations: What has heard it.
        """
        if self._times:
            self._duration += self._times[1] - self._times[0]
        self._forgotten.update(conversations.forgotten)
        self._foreign += conversations.foreign

    def take(self, heard: Heard | Gap) -> None:
        """Counts what was heard, or not."""
        if isinstance(heard, Gap):
            self._gaps.take(heard)
            return
        for remark in heard.remarks:
            row = self._remarks.setdefault(remark.kind, _Remarked(0, self._capture, heard.number, remark))
            row.count += 1
        if isinstance(heard.message, Unread):
            self._unread += len(heard.message.fields.get("data") or b"")
        for name in _counted(heard.message):
            self._counts[name] += 1
        self._take_ends(heard)
        event = event_of(heard)
        if event:
            self._take_event(event, heard)

    def _take_ends(self, heard: Heard) -> None:
        """Counts a message for its link, its session, and the node that sent it."""
        link, session = heard.way.link, heard.session
        row = self._links[self._capture, link.number]
        row.at(heard.time)
        row.link = link
        if link.late and not row.disordered:
            row.disordered = True
            self._disordered += 1
        if heard.source_zid:
            self._nodes[heard.source_zid].at(heard.time)
        if session is None:
            return
        place = self._capture, session.number
        before = row.session
        if before and before is not session and place in self._sessions:
            # The link has joined a session that another link of the same two nodes had begun.
            joined = self._sessions.pop((self._capture, before.number))
            self._sessions[place].weight += joined.weight if joined else 0
        row.session = session
        talk = self._sessions[place]
        talk.at(heard.time)
        talk.session = session
        if link.number not in talk.links and len(talk.links) < TOP:
            talk.links.append(link.number)
        for party in session.parties:
            if party.zid and party.whatami is not None:
                self._nodes[party.zid].whatami = party.whatami.name.lower()

    def _take_event(self, event: Event, heard: Heard) -> None:
        counted = _OF_KEY.get(event.event)
        size = len(event.payload or b"") if isinstance(event, Content) else 0
        if counted:
            for row in (self._keyed, *((self._keys[event.keyexpr],) if event.keyexpr is not None else ())):
                row.at(event.time)
                row.counts[counted] += 1
                row.bytes += size
            if event.source_zid:
                self._nodes[event.source_zid].bytes += size
        match event.event:
            case EventKind.QUERY:
                self._sent += 1
            case EventKind.REPLY | EventKind.REPLY_ERR if heard.exchange and heard.exchange.answered == 1:
                self._to_reply.add(event.time - heard.exchange.asked_time)
            case EventKind.FINAL if isinstance(event, Final):
                if event.latency is None:
                    self._strays += 1
                else:
                    self._answered += 1
                    self._to_final.add(event.latency)
            case EventKind.HELLO if isinstance(event, Scouting) and event.source_zid:
                self._nodes[event.source_zid].whatami = event.whatami

    # The result -----------------------------------------------------------------------------------

    def as_data(self, top: int = TOP) -> dict[str, Any]:
        """Returns all numbers as JSON can say them; ``docs/formats.md`` describes them.

        Args:
            top: Rows of each table at most.
        """
        return {
            "captures": self._capture,
            "packets": self._packets,
            "payload_bytes": self._payload,
            "duration": self._duration,
            "counts": dict(sorted(self._counts.items())),
            "unread_bytes": self._unread,
            "links": _table(self._links, top, self._link),
            "sessions": _table(self._sessions, top, self._session),
            "zids": _table(self._nodes, top, self._node),
            "keys": _table(self._keys, top, self._key) | {"total": self._key_counts(self._keyed)},
            "requests": {
                "sent": self._sent,
                "answered": self._answered,
                "unanswered": self._sent - self._answered,
                "finals_without_request": self._strays,
                "to_first_reply": _spread(self._to_reply),
                "to_final": _spread(self._to_final),
            },
            "gaps": {
                "count": self._gaps.count,
                "missing_bytes": self._gaps.missing,
                "of_unknown_size": self._gaps.unknown,
                "skipped_bytes": self._gaps.skipped,
                "reasons": dict(self._gaps.reasons.most_common()),
            },
            "forgotten": dict(self._forgotten),
            "given_up_links": self._foreign,
            "disordered_links": self._disordered,
            "remarks": {
                str(kind): {
                    "count": row.count,
                    "capture": row.capture,
                    "packet": row.packet,
                    "text": _safe(row.first.text),
                }
                for kind, row in sorted(self._remarks.items())
            },
        }

    @staticmethod
    def _link(place: Place, row: _Link) -> dict[str, Any]:
        assert row.link is not None
        return {
            "capture": place[0],
            "link": place[1],
            "protocol": "tcp" if row.link.tcp else "udp",
            "first": str(row.link.first),
            "second": str(row.link.second),
            "session": row.session.number if row.session else None,
            "messages": row.weight,
            "duration": row.last - row.first,
        }

    @staticmethod
    def _session(place: Place, row: _Talk) -> dict[str, Any]:
        session = row.session
        assert session is not None
        return {
            "capture": place[0],
            "session": place[1],
            "zids": list(session.zids),
            "whatami": [_role(party.whatami) for party in session.parties],
            "multicast": session.multicast,
            "links": row.links,
            "messages": row.weight,
            "duration": row.last - row.first,
            "leases": [party.lease for party in session.parties],
            "qos": session.qos,
            "lowlatency": session.lowlatency,
            "compression": session.compression,
            "shm": session.shm,
            "multilink": session.multilink,
            "patch": session.patch,
            "batch_size": session.batch_size,
            "sn_bits": _bits(session.fsn),
            "request_id_bits": _bits(session.rid),
        }

    @staticmethod
    def _node(zid: str, row: _Node) -> dict[str, Any]:
        return {"zid": zid, "whatami": row.whatami, "messages": row.weight, "payload_bytes": row.bytes}

    def _key(self, keyexpr: str, row: _Key) -> dict[str, Any]:
        return {"keyexpr": keyexpr} | self._key_counts(row)

    def _key_counts(self, row: _Key) -> dict[str, Any]:
        seconds = self._duration / 1e9
        return {
            "events": row.weight,
            **{name: row.counts[name] for name in _OF_KEY.values()},
            "payload_bytes": row.bytes,
            "per_second": round(row.weight / seconds, 3) if seconds else None,
        }


def _counted(message: Layer) -> Iterator[str]:
    """Yields the names of a message and its bodies; INIT and OPEN are split by who sends them."""
    inner: Any = message
    while isinstance(inner, Message):
        name = str(inner.name)
        if isinstance(inner, Init | Open):
            name += "_ACK" if inner.fields.get("A") else "_SYN"
        yield name
        inner = inner.fields.get("body")


def _table(rows: Tally[Any, Any], top: int, show: Any) -> dict[str, Any]:
    """Returns the rows that weigh most, and what is not among them."""
    listed = rows.top(top)
    shown = sum(row.weight for _, row in listed)
    held = sum(row.weight for _, row in rows.items())
    return {
        "listed": [show(name, row) for name, row in listed],
        "left_out": {
            "rows": len(rows) - len(listed) + rows.left_out,
            "messages": held - shown + rows.weight_left_out,
        },
    }


def _spread(values: Spread) -> dict[str, Any]:
    return {
        "count": values.count,
        "min": values.least,
        "median": values.median,
        "max": values.most,
        "median_is_exact": values.exact,
    }


def _role(whatami: Any) -> str | None:
    return None if whatami is None else str(whatami.name).lower()


def _bits(resolution: int | None) -> int | None:
    return None if resolution is None else 8 << resolution


def _safe(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
