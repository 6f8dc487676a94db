"""Goes over a history once and hands every rule what it looks at."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from conformance.errors import Unmet
from conformance.observe import Direction, Endpoints, History, Observation
from conformance.passive.rules import Rule, about_extensions, by_class, by_extension
from conformance.passive.talk import Talk
from scapy_layers.codes import Kind
from scapy_layers.message import Message
from scapy_layers.transport import Frame


@dataclass(slots=True)
class Remark:
    """What a history shows of one requirement.

    Attributes:
        requirement: Its id.
        applied: How often something was seen that it speaks of.
        expected: What has to be, when it was broken; empty otherwise.
        seen: What was, the first time.
        at: Position of that in the history; -1 when it was not broken.
    """

    requirement: str
    applied: int = 0
    expected: str = ""
    seen: str = ""
    at: int = -1

    @property
    def broken(self) -> bool:
        """The node broke the requirement."""
        return bool(self.expected)


def look(history: History) -> list[Remark]:
    """Judges all that the node sent in a history; what ends of ours say to each other does not count."""
    return list(_Look(history).remarks().values())


class _Look:
    """One walk through a history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._found: dict[str, Remark] = {}
        self._talks: dict[object, Talk] = {}
        self._own = _own(history.endpoints)
        self._addresses = {one.local for one in history.endpoints.values() if one.proto == "udp"}

    def remarks(self) -> dict[str, Remark]:
        for seen in self._history.observations:
            if seen.direction is Direction.SENT:
                self._said(seen)
            elif seen.direction is Direction.RECEIVED:
                talk = self._talk_of(seen)
                if talk is not None and not talk.blind:
                    self._judge_batch(seen, talk)
        return self._found

    # Whose words --------------------------------------------------------------------------------------

    def _talk_of(self, seen: Observation) -> Talk | None:
        """Returns the conversation that something came in; None when the node did not say it."""
        if seen.link in self._own or seen.link not in self._history.endpoints:
            return None
        key: object = seen.link
        if seen.route is not None:
            if seen.route[0] in self._addresses:
                return None
            key = (seen.link, seen.route[0])
        talk = self._talks.get(key)
        if talk is None:
            ends = self._history.endpoints[seen.link]
            group = seen.route is not None and _multicast(seen.route[1][0])
            talk = self._talks[key] = Talk(seen.link, ends.proto, ends.accepted, group)
        return talk

    def _said(self, seen: Observation) -> None:
        if seen.link not in self._own and seen.route is None:
            talk = self._talk_of(seen)
            if talk is not None:
                talk.said(seen)

    # What was said ------------------------------------------------------------------------------------

    def _judge_batch(self, seen: Observation, talk: Talk) -> None:
        talk.begin(seen)
        if talk.blind:
            return
        for one in by_class.get(Observation, ()):
            self._apply(one, seen, talk, seen)
        for message in seen.contents.messages:
            self._judge(message, talk, seen)
            if isinstance(message, Frame):
                talk.carrier = message
                for inner in message.fields.get("messages", ()):
                    self._judge(inner, talk, seen)
                    talk.heard(inner)
                talk.carrier = None
            if seen.kind is not Kind.SCOUTING:
                talk.heard(message)

    def _judge(self, message: Message, talk: Talk, seen: Observation) -> None:
        for one, subject in rules_of(message):
            self._apply(one, subject, talk, seen)

    def _apply(self, one: Rule, subject: object, talk: Talk, seen: Observation) -> None:
        try:
            if one.judge(subject, talk) is False:
                return
        except Unmet as unmet:
            if one.echoed and self._said_by_us(one, talk):
                return
            remark = self._remark(one)
            if not remark.broken:
                remark.expected, remark.seen, remark.at = unmet.expected, unmet.seen, seen.seq
        self._remark(one).applied += 1

    def _remark(self, one: Rule) -> Remark:
        found = self._found.get(one.requirement)
        if found is None:
            found = self._found[one.requirement] = Remark(one.requirement)
        return found

    def _said_by_us(self, one: Rule, talk: Talk) -> bool:
        """Tells whether what breaks a rule was said by an end of ours: then the node only passed it on."""
        for seen in self._history.observations:
            if seen.direction is not Direction.SENT:
                continue
            for message in _with_inner(seen):
                for other, subject in rules_of(message):
                    if other is not one:
                        continue
                    try:
                        other.judge(subject, talk)
                    except Unmet:
                        return True
        return False


def rules_of(message: Message) -> Iterator[tuple[Rule, object]]:
    """Yields the rules for a message, its extensions and its body, and what each of them gets."""
    kind = type(message)
    for one in by_class.get(kind, ()):
        yield one, message
    chain = message.fields.get("extensions")
    if chain:
        every = about_extensions.get(kind, ())
        for extension in chain:
            for one in every:
                yield one, extension
            for one in by_extension.get((kind, extension.fields["ext_id"]), ()):
                yield one, extension
    body = message.fields.get("body")
    if body is not None:
        yield from rules_of(body)


def _with_inner(seen: Observation) -> Iterator[Message]:
    for message in seen.contents.messages:
        yield message
        if isinstance(message, Frame):
            yield from message.fields.get("messages", ())


def _own(endpoints: dict[str, Endpoints]) -> set[str]:
    """Returns the links between two ends of ours: both ends stand in the history."""
    called = {(one.local, one.remote) for one in endpoints.values()}
    # Addresses of Unix sockets are made up for each end; whoever listens there has a path.
    paths = {one.path for one in endpoints.values() if one.path and one.accepted}
    paths &= {one.path for one in endpoints.values() if one.path and not one.accepted}
    return {
        name
        for name, one in endpoints.items()
        if (one.remote, one.local) in called or (one.path and one.path in paths)
    }


@cache
def _multicast(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_multicast
    except ValueError:
        return False
