"""What a case does to a node, as plain data: steps, and bytes with places for what each link has of its own.

A script is what is kept of a finding: it is shown, replayed and made smaller. It needs no boofuzz.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Protocol, Self

from fuzz.states import State
from scapy_layers.batch import LONG_PREFIX, PREFIX

SIZE = "size"
"""Place of the 2-byte length of all that stands behind it (u16, low byte first)."""

SIZE32 = "size32"
"""The same in four bytes, as in low-latency sessions."""

PREFIXES = {SIZE: PREFIX, SIZE32: LONG_PREFIX}


class Values(Protocol):
    """Live values as wire bytes, by name; a link is one, a dictionary another."""

    def __getitem__(self, name: str, /) -> bytes: ...


_PLACE = re.compile(r"\{([^{}]+)\}")


class ScriptError(ValueError):
    """A text that is no script; the message says which part and why."""


@dataclass(frozen=True, slots=True)
class Template:
    """Bytes that leave on a link, with places that are filled in when they leave.

    Attributes:
        pieces: Bytes, and names of values: ``size`` (only in front), ``sn``, ``zid``, ``cookie``, ... (see
            ``player.Pipe``). ``cookie@b`` is the value of another link. A name may be followed by ``|`` and what is
            done to the value, see ``lies_about``.
    """

    pieces: tuple[bytes | str, ...]

    @classmethod
    def of(cls, *pieces: bytes | str) -> Self:
        """Returns a template of pieces, neighbouring bytes joined."""
        joined: list[bytes | str] = []
        for piece in pieces:
            if isinstance(piece, bytes) and joined and isinstance(joined[-1], bytes):
                joined[-1] += piece
            elif piece:
                joined.append(piece)
        return cls(tuple(joined))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads ``{size}25{sn}7d``: hexadecimal digits and names in braces.

        Raises:
            ScriptError: It is none.
        """
        pieces: list[bytes | str] = []
        for index, part in enumerate(_PLACE.split(text)):
            if index % 2:
                pieces.append(part)
            else:
                try:
                    pieces.append(bytes.fromhex(part))
                except ValueError:
                    raise ScriptError(f"{part[:40]!r} are not hexadecimal digits") from None
        return cls.of(*pieces)

    def __str__(self) -> str:
        return "".join(piece.hex() if isinstance(piece, bytes) else f"{{{piece}}}" for piece in self.pieces)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the values it needs, lengths aside."""
        return tuple(
            piece.partition("|")[0]
            for piece in self.pieces
            if isinstance(piece, str) and piece.partition("|")[0] not in PREFIXES
        )

    @property
    def plain(self) -> bytes | None:
        """All bytes when nothing is to be filled in; None otherwise."""
        pieces = self.pieces
        if not pieces:
            return b""
        return pieces[0] if len(pieces) == 1 and isinstance(pieces[0], bytes) else None

    def fill(self, values: Values) -> bytes:
        """Returns the bytes that leave.

        Args:
            values: By name, as bytes that stand on the wire: a VLE integer, a counted cookie. Those of a link
                that is no ``stream`` have no length in front of a batch, unless it is lied about.

        Raises:
            KeyError: A value is not there.
        """
        pieces = self.pieces
        if not pieces:
            return b""
        head, _, words = pieces[0].partition("|") if isinstance(pieces[0], str) else ("", "", "")
        prefix = PREFIXES.get(head)
        data = b"".join(
            [
                piece if isinstance(piece, bytes) else _value(piece, values)
                for piece in (pieces if prefix is None else pieces[1:])
            ]
        )
        if prefix is None:
            return data
        if words:
            return bytes(lies_about(head)[words](len(data))) + data
        if not getattr(values, "stream", True):
            return data
        # What is too long for its length says the most that can be said.
        return min(len(data), (1 << 8 * prefix) - 1).to_bytes(prefix, "little") + data


def _value(piece: str, values: Values) -> bytes:
    name, _, words = piece.partition("|")
    value = values[name]
    return bytes(lies_about(name.partition("@")[0])[words](value)) if words else value


@lru_cache(maxsize=16)
def lies_about(name: str) -> Mapping[str, Any]:
    """Returns what can be done to a live value, by words: function from its true wire bytes to other bytes."""
    from fuzz.live import lies_about_live

    return lies_about_live(name)


class Do(StrEnum):
    """What a step does.

    ``reach``: a new link comes into a state. ``send``: bytes leave. ``pause``: nothing is read from a link any
    more. ``resume``: it is read again. ``finish``: our side ends (FIN), the other goes on. ``close``: the link is
    closed, what comes is lost. ``reset``: it is closed with RST. ``settle``: waits until the node has dealt with
    all that was sent on a link, as far as it can be asked. ``await``: waits a moment for the next answer, so that
    what is in it (a cookie, a request id) is there for the next step; goes on without one.
    """

    REACH = "reach"
    SEND = "send"
    PAUSE = "pause"
    RESUME = "resume"
    FINISH = "finish"
    CLOSE = "close"
    RESET = "reset"
    SETTLE = "settle"
    AWAIT = "await"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a script.

    Attributes:
        do: What.
        link: Which link: ``a``, ``b``, ...
        state: For ``reach``.
        data: For ``send``.
        times: For ``send``: how often, one right after the other; each with its own sequence number, and with
            its own ``{count}`` and ``{digits}``.
        bytewise: For ``send``: the bytes leave one by one, each in a segment of its own (at most 4096 bytes).
        note: For people.
    """

    do: Do
    link: str = "a"
    state: State | None = None
    data: Template = field(default_factory=lambda: Template(()))
    times: int = 1
    bytewise: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Script:
    """Steps against a node.

    Attributes:
        steps: In order.
        where: Configuration that the node needs, by path (only nodes that are ours have one).
        valid: All of it is as it should be: the node has no reason to end a session.
    """

    steps: tuple[Step, ...]
    where: tuple[tuple[str, Any], ...] = ()
    valid: bool = False

    @property
    def sends(self) -> int:
        """How many messages leave, those that bring links into their states aside."""
        return sum(step.times for step in self.steps if step.do is Do.SEND)

    @property
    def size(self) -> int:
        """Bytes of what leaves, roughly: values that are filled in count for nothing."""
        return sum(
            step.times * sum(len(piece) for piece in step.data.pieces if isinstance(piece, bytes))
            for step in self.steps
        )

    def with_steps(self, steps: Iterable[Step]) -> Script:
        """Returns the same with other steps."""
        return replace(self, steps=tuple(steps))

    def to_json(self) -> dict[str, Any]:
        """Returns it as plain values; see ``docs/formats.md``."""
        steps = []
        for step in self.steps:
            plain: dict[str, Any] = {"do": str(step.do), "link": step.link}
            if step.state is not None:
                plain["state"] = str(step.state)
            if step.do is Do.SEND:
                plain["data"] = str(step.data)
            if step.times != 1:
                plain["times"] = step.times
            if step.bytewise:
                plain["bytewise"] = True
            if step.note:
                plain["note"] = step.note
            steps.append(plain)
        return {"where": dict(self.where), **({"valid": True} if self.valid else {}), "steps": steps}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Reads what ``to_json`` gave.

        Raises:
            ScriptError: It is no script; says where.
        """
        if not isinstance(value, dict) or not isinstance(value.get("steps"), list):
            raise ScriptError("a script is an object with a list of 'steps'")
        where = value.get("where", {})
        if not isinstance(where, dict):
            raise ScriptError("'where' is an object of configuration paths")
        return cls(tuple(_steps(value["steps"])), tuple(sorted(where.items())), bool(value.get("valid")))

    def __str__(self) -> str:
        return json.dumps(self.to_json(), ensure_ascii=False, indent=1)


def _steps(values: list[Any]) -> Iterator[Step]:
    for number, plain in enumerate(values, 1):
        try:
            yield Step(
                Do(plain["do"]),
                str(plain.get("link", "a")),
                State(plain["state"]) if "state" in plain else None,
                Template.parse(plain.get("data", "")),
                int(plain.get("times", 1)),
                bool(plain.get("bytewise")),
                str(plain.get("note", "")),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ScriptError(f"step {number}: {error}") from None
