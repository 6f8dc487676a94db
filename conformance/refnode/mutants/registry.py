"""What a mutant is: a correct node, except that it breaks one rule."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from conformance.errors import UsageError
from conformance.refnode.policy import NodePolicy
from conformance.refnode.scouting import ScoutPolicy
from conformance.router.policy import RouterPolicy
from conformance.session.policy import Policy
from scapy_layers.batch import contents
from scapy_layers.codes import Kind
from scapy_layers.message import Message
from scapy_layers.transport import Frame

Bent = Message | bytes | None | Iterable[Message | bytes]
"""What takes the place of a message: another one, bytes, nothing, or several."""

Memory = dict[str, Any]
"""Whatever a mutant has to remember of one link."""

Bend = Callable[[Any, Memory], Bent]
"""Takes a message about to leave, or one that came in and is not understood yet."""

Rule = type[Policy] | type[RouterPolicy] | type[ScoutPolicy] | type[NodePolicy]
"""A set of decisions, one of them wrong."""

Made = TypeVar("Made", bound=Rule | Bend)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A node that breaks one rule.

    Attributes:
        name: Its id: the requirement it breaks; with a letter behind it where a requirement has several mutants.
        requirements: All that it breaks, the one of the id first.
        title: What it does wrong.
        session: Decisions of its sessions.
        router: Decisions of its router.
        scout: Decisions about scouting.
        node: Decisions about links.
        of: Classes of the messages that ``bend`` takes.
        bend: What becomes of such a message when it leaves; None when it leaves as it is.
        hears: Classes of the messages that ``hear`` takes.
        hear: What such a message is taken for when it comes in; None when for what it is.
    """

    name: str
    requirements: tuple[str, ...]
    title: str
    session: type[Policy] = Policy
    router: type[RouterPolicy] = RouterPolicy
    scout: type[ScoutPolicy] = ScoutPolicy
    node: type[NodePolicy] = NodePolicy
    of: tuple[type[Message], ...] = ()
    bend: Bend | None = None
    hears: tuple[type[Message], ...] = ()
    hear: Bend | None = None

    def bent(self, messages: list[Message], memory: Memory) -> bytes:
        """Returns the bytes of a batch as this mutant sends it; what is inside a FRAME is bent too."""
        assert self.bend is not None
        out = []
        for message in messages:
            if isinstance(message, self.of):
                out.append(joined(self.bend(message.copy(), memory)))
            elif isinstance(message, Frame):
                inner = [
                    joined(self.bend(inside.copy(), memory)) if isinstance(inside, self.of) else bytes(inside)
                    for inside in message.messages
                ]
                head = Frame(R=message.value("R"), sn=message.sn, extensions=message.extensions)
                out.append(bytes(head) + b"".join(inner) if any(inner) else b"")
            else:
                out.append(bytes(message))
        return b"".join(out)

    def heard(self, batch: bytes, memory: Memory, kind: Kind | None = None) -> bytes:
        """Returns what this mutant takes a batch or datagram for; what is inside a FRAME is misheard too.

        The messages that ``hear`` gets may have errors; their bytes are in ``original``. What stands in front of a
        message of a batch and behind it is in the memory: ``before`` and ``behind``. A batch of which nothing is left
        was not heard at all.
        """
        assert self.hear is not None
        inside = contents(batch, kind)
        out = []
        for at, message in enumerate(inside.messages):
            memory["before"], memory["behind"] = inside.messages[:at], inside.messages[at + 1 :]
            out.append(self._misheard(message, memory))
        return b"".join(out) + inside.rest

    def _misheard(self, message: Message, memory: Memory) -> bytes:
        assert self.hear is not None
        raw: bytes = message.original
        if isinstance(message, self.hears):
            return joined(self.hear(message, memory))
        if not isinstance(message, Frame):
            return raw
        whole = b"".join(each.original for each in message.messages)
        if not raw.endswith(whole):
            # Of its last message nothing could be read.
            return raw
        inner = [self._misheard(each, memory) for each in message.messages]
        return raw[: len(raw) - len(whole)] + b"".join(inner)


def joined(made: Bent) -> bytes:
    """Returns the bytes of what takes the place of a message."""
    if made is None:
        return b""
    if isinstance(made, Message | bytes):
        return bytes(made)
    return b"".join(bytes(part) for part in made)


CORRECT = Mutant(name="", requirements=(), title="breaks no rule")
"""The node as it should be."""

MUTANTS: dict[str, Mutant] = {}
"""All mutants by id."""


Classes = type[Message] | tuple[type[Message], ...]


def mutant(*requirements: str, of: Classes = (), hears: Classes = ()) -> Callable[[Made], Made]:
    """Registers a policy with one method replaced, or a function that bends what leaves or what comes in.

    Args:
        requirements: What it breaks; the first is its id.
        of: Classes of the messages that a function bends when they leave.
        hears: Classes of the messages that a function mistakes when they come in, before anything is made of them. A
            function may do both: remember what comes in, and bend what leaves.
    """

    def register(made: Made) -> Made:
        name, *others = requirements
        ids = (re.sub(r"[a-z]$", "", name), *others)
        title = _title(made)
        if name in MUTANTS:
            raise ValueError(f"two mutants are named {name}")
        place, value = _place(made)
        changed: dict[str, Any] = {place: value}
        if place == "bend":
            changed = {"bend": value, "of": _tuple(of)} if of else {}
            if hears:
                changed |= {"hear": value, "hears": _tuple(hears)}
        MUTANTS[name] = Mutant(name=name, requirements=ids, title=title, **changed)
        return made

    return register


def _tuple(classes: Classes) -> tuple[type[Message], ...]:
    return classes if isinstance(classes, tuple) else (classes,)


def _place(made: Rule | Bend) -> tuple[str, object]:
    """Returns which part of a mutant this is."""
    if not isinstance(made, type):
        return "bend", made
    for base, place in ((Policy, "session"), (RouterPolicy, "router"), (ScoutPolicy, "scout")):
        if issubclass(made, base):
            return place, made
    return "node", made


def _title(made: Rule | Bend) -> str:
    """Returns a name in words: ``SaysVersion8`` and ``says_version_8`` are "says version 8"."""
    name = str(getattr(made, "__name__", made))
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[a-z])(?=[0-9])|_", " ", name).lower()


def mutant_named(name: str) -> Mutant:
    """Returns a mutant by its id, or by a requirement that it breaks; the correct node for no name.

    Raises:
        UsageError: There is none; names near ones.
    """
    if not name:
        return CORRECT
    wanted = name if name in MUTANTS else name.upper()
    if wanted in MUTANTS:
        return MUTANTS[wanted]
    for known in MUTANTS.values():
        if wanted in known.requirements:
            return known
    every = sorted({*MUTANTS, *(each for known in MUTANTS.values() for each in known.requirements)})
    area = "-".join(wanted.split("-")[:2])
    near = difflib.get_close_matches(wanted, every, n=3) or [each for each in every if each.startswith(area)]
    hint = f"; near it: {', '.join(near[:3])}" if near else ""
    raise UsageError(
        f"no mutant {name!r}{hint}; python -m conformance.refnode --list-mutants lists all {len(MUTANTS)}"
    )
