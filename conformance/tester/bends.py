"""Bends: what changes on the way out. Each is a value that can be shown, written down and put together.

A bend says which messages it is about and what leaves in their place. It reaches messages inside a FRAME and
bodies inside network messages as well; whatever is around them stays. A plain function from a message to what
leaves instead is a bend too.

``tester.on_send.append(changed(Init, version=8))``
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from conformance.tester.bending import Bent, NamedBend, Running, contains, name_of
from scapy_layers.message import Extension, Message


@dataclass(frozen=True)
class Changed(NamedBend):
    """Other values in some fields.

    Attributes:
        fields: Names and values; a function gets the value that was there.
    """

    of: type[Message]
    fields: dict[str, Any]

    def __post_init__(self) -> None:
        known = [one.name for one in self.of.fields_desc]
        for name in self.fields:
            if name not in known:
                raise LookupError(f"{name_of(self.of)} has no field {name!r}; it has {', '.join(known)}")

    def __str__(self) -> str:
        said = (
            f"{name}={getattr(value, '__name__', 'a function') if callable(value) else repr(value)}"
            for name, value in self.fields.items()
        )
        return f"{name_of(self.of)} with {', '.join(said)}"

    def start(self, rng: random.Random) -> Running:  # noqa: ARG002  (nothing is chosen)
        """Remembers nothing."""

        def act(message: Message) -> Message:
            copy = message.copy()
            for name, value in self.fields.items():
                setattr(copy, name, value(message.value(name)) if callable(value) else value)
            return copy

        return Running(self.of, act)


@dataclass(frozen=True)
class Dropped(NamedBend):
    """Does not leave."""

    of: type[Message]

    def __str__(self) -> str:
        return f"{name_of(self.of)} dropped"

    def start(self, rng: random.Random) -> Running:  # noqa: ARG002  (nothing is chosen)
        """Remembers nothing."""
        return Running(self.of, lambda _: None)


@dataclass(frozen=True)
class Replaced(NamedBend):
    """Something else leaves."""

    of: type[Message]
    by: Message | bytes

    def __str__(self) -> str:
        what = self.by.hex() or "no bytes" if isinstance(self.by, bytes) else self.by.describe()
        return f"{name_of(self.of)} replaced by {what}"

    def start(self, rng: random.Random) -> Running:  # noqa: ARG002  (nothing is chosen)
        """Remembers nothing."""
        return Running(self.of, lambda _: self.by)


@dataclass(frozen=True)
class Repeated(NamedBend):
    """Leaves several times, with the same bytes."""

    of: type[Message]
    times: int = 2

    def __str__(self) -> str:
        return f"{name_of(self.of)} sent {self.times} times"

    def start(self, rng: random.Random) -> Running:  # noqa: ARG002  (nothing is chosen)
        """Remembers nothing."""
        return Running(self.of, lambda message: [message] * self.times)


@dataclass(frozen=True)
class Reordered(NamedBend):
    """Each second one overtakes the one before it. A last one without a successor never leaves."""

    of: type[Message]

    def __str__(self) -> str:
        return f"{name_of(self.of)} overtaken by the next"

    def start(self, rng: random.Random) -> Running:  # noqa: ARG002  (nothing is chosen)
        """Remembers one message."""
        held: list[Message | bytes] = []

        def act(message: Message) -> Bent:
            if not held:
                held.append(message)
                return None
            return [message, held.pop()]

        return Running(self.of, act)


@dataclass(frozen=True)
class Extended(NamedBend):
    """One more extension at the end of the chain."""

    of: type[Message]
    extension: Extension

    def __str__(self) -> str:
        return f"{name_of(self.of)} with {self.extension.describe()}"

    def start(self, rng: random.Random) -> Running:  # noqa: ARG002  (nothing is chosen)
        """Remembers nothing."""

        def act(message: Message) -> Message:
            copy = message.copy()
            copy.extensions = [*(message.extensions or []), self.extension]
            # Whether a chain follows is to be said anew.
            copy.Z = None
            return copy

        return Running(self.of, act)


@dataclass(frozen=True)
class Cut(NamedBend):
    """Only the first bytes leave."""

    of: type[Message]
    size: int

    def __str__(self) -> str:
        return f"{name_of(self.of)} cut to {self.size} bytes"

    def start(self, rng: random.Random) -> Running:  # noqa: ARG002  (nothing is chosen)
        """Remembers nothing."""
        return Running(self.of, lambda message: bytes(message)[: self.size])


@dataclass(frozen=True)
class Delayed(NamedBend):
    """Leaves later.

    Attributes:
        seconds: So much later; None when something else decides.
        until: Right behind a message of this class, or when this function says so.
    """

    of: type[Message]
    seconds: float | None = None
    until: type[Message] | Callable[[], bool] | None = None

    def __str__(self) -> str:
        if self.seconds is not None:
            return f"{name_of(self.of)} delayed by {self.seconds:g} s"
        if isinstance(self.until, type):
            return f"{name_of(self.of)} delayed until {name_of(self.until)} has left"
        return f"{name_of(self.of)} delayed until {getattr(self.until, '__doc__', None) or 'something holds'}"

    def __post_init__(self) -> None:
        if (self.seconds is None) == (self.until is None):
            raise ValueError("a delay needs either seconds or until")

    def start(self, rng: random.Random) -> Running:  # noqa: ARG002  (nothing is chosen)
        """Remembers what it holds back, and when it took it first."""
        held: list[Message | bytes] = []
        # Times are those that the owner tells; when a message came is known with the next look at the clock.
        dues: list[float] = []

        def act(message: Message) -> None:
            held.append(message)

        def follow(message: Message) -> list[Message | bytes]:
            if isinstance(self.until, type) and held and contains(message, self.until):
                out = held[:]
                held.clear()
                return out
            return []

        def free(now: float) -> list[Message | bytes]:
            if self.seconds is not None:
                dues.extend([now + self.seconds] * (len(held) - len(dues)))
                ready = sum(1 for due in dues if due <= now)
                del dues[:ready]
            else:
                open_now = callable(self.until) and not isinstance(self.until, type) and self.until()
                ready = len(held) if open_now else 0
            out = held[:ready]
            del held[:ready]
            return out

        return Running(self.of, act, free, lambda: dues[0] if dues else None, follow)


@dataclass(frozen=True)
class Nth(NamedBend):
    """Another bend, but only for the n-th message that it is about, from 1."""

    n: int
    inner: NamedBend
    of: type[Message] = field(init=False, default=Message)

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", self.inner.of)

    def __str__(self) -> str:
        return f"number {self.n}: {self.inner}"

    def start(self, rng: random.Random) -> Running:
        """Remembers how many there were."""
        inner = self.inner.start(rng)
        count = 0

        def act(message: Message) -> Bent:
            nonlocal count
            count += 1
            return inner.act(message) if count == self.n else message

        return Running(inner.of, act, inner.free, inner.due, inner.follow)


@dataclass(frozen=True)
class Sometimes(NamedBend):
    """Another bend, for a seeded choice of the messages that it is about.

    Attributes:
        chance: From 0 to 1.
    """

    chance: float
    inner: NamedBend
    of: type[Message] = field(init=False, default=Message)

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", self.inner.of)

    def __str__(self) -> str:
        return f"one in {1 / self.chance:.3g}: {self.inner}" if self.chance else f"never: {self.inner}"

    def start(self, rng: random.Random) -> Running:
        """Remembers nothing; chooses by the generator of the run."""
        inner = self.inner.start(rng)

        def act(message: Message) -> Bent:
            return inner.act(message) if rng.random() < self.chance else message

        return Running(inner.of, act, inner.free, inner.due, inner.follow)


# As a sentence has them -----------------------------------------------------------------------------


def changed(of: type[Message], **fields: Any) -> Changed:
    """Other values in some fields; a function gets the value that was there.

    Raises:
        LookupError: No such field.
    """
    return Changed(of, fields)


def dropped(of: type[Message]) -> Dropped:
    """Messages of a class do not leave."""
    return Dropped(of)


def replaced(of: type[Message], by: Message | bytes) -> Replaced:
    """Something else leaves in place of messages of a class."""
    return Replaced(of, by)


def repeated(of: type[Message], times: int = 2) -> Repeated:
    """Messages of a class leave several times."""
    return Repeated(of, times)


def reordered(of: type[Message]) -> Reordered:
    """Of two messages of a class the second leaves first."""
    return Reordered(of)


def extended(of: type[Message], extension: Extension) -> Extended:
    """Messages of a class have one more extension."""
    return Extended(of, extension)


def cut(of: type[Message], size: int) -> Cut:
    """Of messages of a class only the first bytes leave."""
    return Cut(of, size)


def delayed(
    of: type[Message],
    *,
    seconds: float | None = None,
    until: type[Message] | Callable[[], bool] | None = None,
) -> Delayed:
    """Messages of a class leave later: after a time, behind a message of another class, or on a condition.

    Raises:
        ValueError: Neither is given, or both.
    """
    return Delayed(of, seconds, until)


def nth(n: int, bend: NamedBend) -> Nth:
    """A bend for the n-th message of a session that it is about, from 1."""
    return Nth(n, bend)


def sometimes(chance: float, bend: NamedBend) -> Sometimes:
    """A bend for a seeded choice of messages."""
    return Sometimes(chance, bend)
