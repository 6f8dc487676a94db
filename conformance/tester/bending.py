"""How bends work: what a bend is, how it reaches messages inside others, and the bends of one session at work."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from scapy_layers.message import Message
from scapy_layers.transport import Frame

Bent = Message | bytes | None | Sequence[Message | bytes]
"""What leaves in place of a message: another one, bytes, nothing, or several, each in a batch of its own."""

Act = Callable[[Message], Bent]

CARRYING = ("messages", "body")
"""Fields that hold messages: those of a FRAME, the body of a network message, what is inside REPLY."""


@dataclass(slots=True)
class Running:
    """A bend at work in one session.

    Attributes:
        of: Class of the messages it is about.
        act: Takes such a message, returns what leaves instead.
        free: Takes the time, returns what it held back and lets go now.
        due: Tells when ``free`` will have something; None while that is not known.
        follow: Takes what left in place of a message; returns what follows right behind it.
    """

    of: type[Message]
    act: Act
    free: Callable[[float], list[Message | bytes]] = lambda _: []
    due: Callable[[], float | None] = lambda: None
    follow: Callable[[Message], list[Message | bytes]] = lambda _: []


class NamedBend(ABC):
    """A bend with a name. What it has to remember, it remembers for each session apart."""

    of: type[Message]

    @abstractmethod
    def start(self, rng: random.Random) -> Running:
        """Sets the bend to work in one session."""

    @abstractmethod
    def __str__(self) -> str:
        """Says what it does, for the history."""

    def __call__(self, message: Message) -> Bent:
        """Bends one message as if it were the first of a session."""
        running = self.start(random.Random(0))  # a choice that depends on nothing
        return reach(message, running.of, running.act)


Bend = Act | NamedBend


def words_of(bend: Bend) -> str:
    """Returns what a bend says about itself."""
    if isinstance(bend, NamedBend):
        return str(bend)
    first = (getattr(bend, "__doc__", None) or getattr(bend, "__name__", "") or "a function").splitlines()[0]
    return first.removeprefix("A bend: ").rstrip(".")


def reach(message: Message, of: type[Message], act: Act) -> Bent:
    """Applies a change to a message, or to messages of that class inside it.

    A FRAME whose messages are all gone does not leave either: its number stays unused.
    """
    if isinstance(message, of):
        return act(message)
    for name in CARRYING:
        inside = message.fields.get(name)
        if isinstance(inside, list) and inside:
            kept: list[Any] = []
            for item in inside:
                kept += listed(reach(item, of, act)) if isinstance(item, Message) else [item]
            if not _same(kept, inside):
                return _with(message, name, kept) if kept or not isinstance(message, Frame) else None
        elif isinstance(inside, Message):
            body = listed(reach(inside, of, act))
            if not _same(body, [inside]):
                one = body[0] if len(body) == 1 else b"".join(bytes(part) for part in body)
                return _with(message, name, one)
    return message


def listed(bent: Bent) -> list[Message | bytes]:
    """Returns what leaves as a list."""
    if bent is None:
        return []
    # A message of Scapy is iterable, and so are bytes: neither is a list of things that leave.
    return [bent] if isinstance(bent, Message | bytes) else list(bent)


def _same(kept: Sequence[object], before: Sequence[object]) -> bool:
    return len(kept) == len(before) and all(one is other for one, other in zip(kept, before, strict=True))


def _with(message: Message, name: str, value: object) -> Message:
    """Returns a copy of a message with another value."""
    copy = message.copy()
    setattr(copy, name, value)
    return copy


def name_of(cls: type[Message]) -> str:
    """Returns what the pages call a class of messages."""
    return "any message" if cls is Message else cls.shape().name


def contains(message: Message | bytes, of: type[Message]) -> bool:
    """Tells whether a message is of a class, or has one inside."""
    found = False

    def act(inner: Message) -> Message:
        nonlocal found
        found = True
        return inner

    if isinstance(message, Message):
        reach(message, of, act)
    return found


class Bending:
    """The bends of one session at work.

    Args:
        rng: Makes the choices.
        note: Gets a word about each bend that did something, behind what leaves because of it.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._running: dict[int, tuple[Bend, Running]] = {}
        self.done: list[str] = []

    def out(self, message: Message, bends: Iterable[Bend]) -> list[Message | bytes]:
        """Returns what leaves in place of a message. ``done`` gets a word about each bend that acted."""
        return self._through([message], list(bends))

    def freed(self, now: float, bends: Iterable[Bend]) -> list[Message | bytes]:
        """Returns what was held back and may leave now."""
        out: list[Message | bytes] = []
        line = list(bends)
        for at, bend in enumerate(line):
            let_go = self._run(bend).free(now)
            if let_go:
                self.done.append(f"{words_of(bend)}: now")
                out += self._through(let_go, line[at + 1 :])
        return out

    def due(self, bends: Iterable[Bend]) -> float | None:
        """Returns when ``freed`` will have something; None while that is not known."""
        return min((due for bend in bends if (due := self._run(bend).due()) is not None), default=None)

    def _through(self, items: list[Message | bytes], bends: list[Bend]) -> list[Message | bytes]:
        for bend in bends:
            running = self._run(bend)
            bent: list[Message | bytes] = []
            for item in items:
                if not isinstance(item, Message):
                    bent.append(item)
                    continue
                before = bytes(item)
                kept = listed(reach(item, running.of, running.act))
                behind = running.follow(item)
                # A function may have changed the message in place.
                if behind or [bytes(one) for one in kept] != [before]:
                    self.done.append(words_of(bend))
                bent += [*kept, *behind]
            items = bent
        return items

    def _run(self, bend: Bend) -> Running:
        known = self._running.get(id(bend))
        if known is None:
            running = bend.start(self._rng) if isinstance(bend, NamedBend) else Running(Message, bend)
            # The bend is kept as well, so that its id stays its own.
            known = self._running[id(bend)] = (bend, running)
        return known[1]
