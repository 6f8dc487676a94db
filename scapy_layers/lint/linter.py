"""Calls the rules that have something to say about each message, and remembers what they need."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache

from scapy_layers.conversation import Conversations, Heard
from scapy_layers.lint import rules_format, rules_lease
from scapy_layers.lint.notes import LinkNotes, Memory, Scene
from scapy_layers.lint.rule import RULES, Break, Finding, Rule
from scapy_layers.message import Layer, Message
from scapy_layers.stream import Batch, Datagram, End, Gap, Unit
from scapy_layers.transport import Init, Join

_LOOK = 1_000_000_000
"""Nanoseconds between two looks at what waits for an answer."""


def findings(units: Iterable[Unit]) -> Iterator[Finding]:
    """Yields what is broken in the units of a capture."""
    linter = Linter()
    for unit in units:
        yield from linter.hear(unit)


@cache
def _rules() -> dict[type[Layer], list[Rule]]:
    found: dict[type[Layer], list[Rule]] = defaultdict(list)
    for one in RULES:
        for cls in one.on:
            found[cls].append(one)
    return dict(found)


class Linter:
    """Judges the units of a capture, one after the other.

    Attributes:
        judged: How many messages there were.
        doubtful: How many findings were kept back, as packets were captured out of order or lost: answers may have stood
            in front of what they answer.
    """

    def __init__(self) -> None:
        self.judged = 0
        self.doubtful = 0
        self._conversations = Conversations()
        self._memory = Memory()
        self._looked = 0
        self._disordered = False  # a connection in the capture was; datagrams acknowledge nothing

    def hear(self, unit: Unit) -> Iterator[Finding]:
        """Yields what a unit breaks. To be run to its end before the next unit is asked for."""
        link = self._memory.link(unit.way.link)
        self._disordered = self._disordered or unit.way.link.disordered
        side = int(not unit.way.forward)
        match unit:
            case Gap():
                link.whole[side] = False
                list(self._conversations.hear(unit))
            case End():
                list(self._conversations.hear(unit))
                for rule, found in rules_lease.wordless(link, unit):
                    yield Finding(rule, found.text, found.known, unit.number, unit.time, unit.way)
            case Batch() | Datagram():
                broken = self._batch(unit, link, side)
                if isinstance(unit, Datagram) and self._memory.again(unit):
                    # It was captured twice, or the network doubled it: no fault of who sent it.
                    list(broken)
                else:
                    yield from self._certain(unit, broken)

    def _certain(self, unit: Batch | Datagram, broken: Iterable[Finding]) -> Iterator[Finding]:
        """Keeps back what may be the capture's fault: where it is out of order, all that is not wrong by itself."""
        disordered = unit.way.link.disordered or (self._disordered and isinstance(unit, Datagram))
        for one in broken:
            if disordered and not _alone(one.rule):
                self.doubtful += 1
            else:
                yield one

    def _batch(self, unit: Batch | Datagram, link: LinkNotes, side: int) -> Iterator[Finding]:
        first = True
        for heard in self._conversations.hear(unit):
            if isinstance(unit, Datagram) and isinstance(heard.message, Init) and not heard.message.A:
                # No connection ends the session before: another one begins between the same endpoints.
                link = self._memory.renew(unit.way.link)
            # A SCOUT may be told behind its own datagram.
            scene = Scene(heard, heard.message, self._memory.link(heard.way.link), side, self._memory)
            if first and heard.session is not None:
                first = False
                yield from self._whole(unit, scene)
            self.judged += 1
            yield from self._message(scene)
            scene.note()
            if isinstance(heard.message, Join) and heard.session is not None:
                self._memory.joined[heard.session.number] = heard.time
        link.heard[side] = unit.time

    def _whole(self, unit: Batch | Datagram, scene: Scene) -> Iterator[Finding]:
        """Judges a batch as a whole, by its size and the time."""
        session, parties = scene.session, scene.parties
        assert session is not None
        assert parties is not None
        broken: list[tuple[Rule, Break]] = []
        if scene.link.live and scene.link.closed == [None, None]:
            broken += rules_lease.size(session, unit)
            broken += rules_lease.pace(scene.link, parties, scene.side, unit.time)
        if session.multicast:
            broken += rules_lease.size(session, unit)
            if not isinstance(scene.heard.message, Join):
                broken += rules_lease.join_pace(self._memory, scene.heard)
        if unit.time - self._looked > _LOOK:
            self._looked = unit.time
            broken += rules_lease.unanswered(self._memory, session, unit.time)
        for rule, found in broken:
            yield _finding(rule, found, scene, ())

    def _message(self, scene: Scene) -> Iterator[Finding]:
        layers = [] if scene.heard.within is None else [scene.heard.within]
        layer: Layer | None = scene.heard.message
        while layer is not None:
            layers.append(layer)
            scene.layer = layer
            for rule in _rules().get(type(layer), ()):
                for found in rule.check(scene):
                    yield _finding(rule, found, scene, tuple(str(one.name) for one in layers))
            body = layer.fields.get("body")
            layer = body if isinstance(body, Message) else None


def _alone(rule: Rule) -> bool:
    """Tells whether a rule looks at nothing but the message."""
    return rule.check.__module__ == rules_format.__name__


def _finding(rule: Rule, found: Break, scene: Scene, path: tuple[str, ...]) -> Finding:
    heard: Heard = scene.heard
    return Finding(
        rule,
        found.text,
        found.known,
        heard.number,
        heard.time,
        heard.way,
        heard.source_zid,
        path,
        heard.keyexpr,
    )
