"""Expectations: what has to be seen, as functions of the history."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from itertools import groupby
from typing import Any

from conformance.errors import Unmet
from conformance.observe import History
from scapy_layers import shape
from scapy_layers.message import Message

MOST_REPEATED = 8
"""Of how many messages of a kind in a row each is named."""


def words(cls: type[Message], wanted: dict[str, Any]) -> str:
    """Returns an expectation in words: ``CLOSE reason=1 (UNSUPPORTED)``."""
    return " ".join(
        [cls.shape().name, *(f"{name}={_value(cls, name, value)}" for name, value in wanted.items())]
    )


def _value(cls: type[Message], name: str, value: object) -> str:
    """Shows a value with its name from the tables, so that expected and seen read alike."""
    if callable(value):
        return str(getattr(value, "__doc__", None) or "a fitting value")
    for described in shape.walk(cls.wire_shapes()):
        bits = described.bits if isinstance(described, shape.Packed) else (described,)
        for part in bits:
            names = getattr(part, "names", None)
            if names and getattr(part, "name", "") == name and isinstance(value, int):
                known = [member.name for member in names if member == value]
                return f"{int(value)} ({known[0]})" if known else str(int(value))
    return str(int(value)) if isinstance(value, IntEnum | bool) else repr(value)


def field(message: Message, name: str) -> Any:
    """Returns a field for people: text as ``str``, flags as numbers, absent ones as None."""
    if name not in message.fieldtype:
        raise LookupError(f"{message.name} has no field {name!r}; it has {', '.join(message.fieldtype)}")
    if message.get_field(name).isconditional:
        return getattr(message, name)
    return message.value(name) if message.getfieldval(name) is None else getattr(message, name)


def fits(wanted: dict[str, Any], found: dict[str, Any]) -> bool:
    """Tells whether found fields are the wanted ones; a wanted callable judges the value itself."""
    return all(
        value(found[name]) if callable(value) else found[name] == value for name, value in wanted.items()
    )


def judge(message: Message, cls: type[Message], wanted: dict[str, Any], found: dict[str, Any]) -> None:
    """Checks the fields of a message; a wanted callable judges the value itself.

    Raises:
        Unmet: A field differs.
    """
    if not fits(wanted, found):
        raise Unmet(words(cls, wanted), words(cls, found), detail=message.describe())


def what_came(history: History, link: str, since: int) -> str:
    """Returns what came in since a position, in words that do not change from run to run."""
    names = [str(seen.message.name) for seen in history.received(link, since) if seen.carrier is None]
    names = _shortened(name for name in names if name != "KEEP_ALIVE")
    ended = history.ended(link)
    if ended and ended.seq >= since:
        names.append("end of stream" if "reset" not in ended.note else "reset")
    return ", ".join(names) or "nothing"


def _shortened(names: Iterable[str]) -> list[str]:
    """Says once what came over and over; not how often, which changes from run to run."""
    runs = ((name, len(list(same))) for name, same in groupby(names))
    return [
        word
        for name, count in runs
        for word in ([f"{name} many times"] if count > MOST_REPEATED else [name] * count)
    ]


def check(condition: object, expected: str, seen: object, detail: str = "") -> None:
    """Judges a value.

    Args:
        condition: Whether it is right.
        expected: What it has to be, in words.
        seen: What it is; must not change from run to run when it may become a recorded deviation.
        detail: Whatever helps a person.

    Raises:
        Unmet: It is not right.
    """
    if not condition:
        raise Unmet(expected, str(seen), detail)
