"""Lies about the fields of one valid message, read from its shapes: the source that most campaigns are made of."""

from __future__ import annotations

import itertools
import random
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache, cached_property
from typing import Any, NamedTuple

from boofuzz import Request
from boofuzz.mutation import Mutation

from fuzz.cases import Case, Cause, Edge, Source, in_paths
from fuzz.rendering import Rendering, split
from fuzz.script import Do, Step, Template
from fuzz.states import State
from scapy_layers.derive.requests import Lie, every_lie, field_of, request_of
from scapy_layers.message import Message
from scapy_layers.primitives import write_vle

COOKIE_SIZE = 48
"""Bytes of the stand-in for a cookie while its place is searched; nodes use about so many."""

COOKIE = b"\xf7\xe7\x5b" + b"c" * (COOKIE_SIZE - 3)
"""The stand-in for a cookie, without its length."""

MARKS: Mapping[str, bytes] = {
    "sn": b"\xf3\xe7\x5b",
    "sn_be": b"\xf4\xe7\x5b",
    "rid": b"\xf8\xe7\x5b",
    "zid": b"\xf6\xe7\x5bzid of a link",
    "cookie": write_vle(COOKIE_SIZE) + COOKIE,
}
"""Stand-ins for live values in rendered bytes."""


class _Single(NamedTuple):
    """One lie about one field.

    Attributes:
        field: Path of the field.
        message: The innermost message it belongs to.
        lie: What is done.
        mutations: The lie as boofuzz has it, and what shows a hidden field. A run keeps hundreds of thousands of them.
    """

    field: str
    message: str
    lie: Lie
    mutations: tuple[Mutation, ...]

    @property
    def elements(self) -> set[str]:
        """The names by which boofuzz knows the elements that it changes."""
        return {mutation.qualified_name for mutation in self.mutations}


class _Form(NamedTuple):
    """What is read from the shapes of one message.

    Attributes:
        request: For boofuzz.
        fields: All lies, by field.
        rendering: Makes the bytes.
    """

    request: Request
    fields: list[list[_Single]]
    rendering: Rendering


_count = itertools.count(1)


@cache
def _form(
    kind: Any,
    message: bytes,
    live: tuple[tuple[str, str], ...],
    quiet: tuple[str, ...],
    prefixed: bool,
) -> _Form:
    """Reads a message; once, whatever the states it is sent in."""
    valid: Message = kind(message)
    name = f"{valid.name} {next(_count)}"
    request = request_of(name, valid, live=dict(live), quiet=quiet, prefixed=prefixed)
    fields: dict[str, list[_Single]] = {}
    for element, mutations in every_lie(request):
        lie: Lie = mutations[-1].value
        path = field_of(element, lie)
        fields.setdefault(path, []).append(_Single(path, element.place.message, lie, tuple(mutations)))
    return _Form(request, list(fields.values()), Rendering(request, MARKS))


class Lying(Source):
    """All lies about one valid message.

    Args:
        name: Unique in its campaign.
        state: Where the link is.
        message: The valid message; what surrounds the one that is meant may be quiet.
        live: Fields that are filled in from the link: path -> ``sn``, ``sn_be``, ``zid``, ``cookie``.
        quiet: Messages around it that stay correct.
        kind: Kind of message for coverage; the name of the message, or of what it carries if that alone is meant.
        prefix: What stands in front: ``size``, ``size32``, or nothing (datagrams).
        head: Bytes between the length and the message, such as the header of a compressed batch.
        alone: Every case needs a link of its own.
    """

    def __init__(
        self,
        name: str,
        state: State,
        message: Message,
        live: Mapping[str, str] | None = None,
        quiet: Iterable[str] = (),
        *,
        kind: str = "",
        prefix: str = "size",
        head: bytes = b"",
        alone: bool = False,
    ) -> None:
        self.name = name
        self.state = state
        self.valid = message
        self.message = kind or str(message.name)
        self._live = dict(live or {})
        self._quiet = tuple(quiet)
        self._prefix = prefix
        self._head = head
        self._alone = alone

    @cached_property
    def _form(self) -> _Form:
        prefixed = self._prefix == "size" and not self._head
        kind: Any = type(self.valid)
        return _form(kind, bytes(self.valid), tuple(self._live.items()), self._quiet, prefixed)

    @property
    def request(self) -> Request:
        """The request of boofuzz, made when the first case is due; one for all states."""
        return self._form.request

    @property
    def _rendering(self) -> Rendering:
        return self._form.rendering

    @property
    def _fields(self) -> list[list[_Single]]:
        return self._form.fields

    def valid_steps(self) -> tuple[Step, ...]:
        """Returns what sends the message as it is."""
        return self._send({}, "valid")

    def cases(self, rng: random.Random) -> Iterator[Case]:
        """Yields every lie once, round by round: in each, every field has its turn."""
        return map(self._case, self._singles(rng))

    def unseen(self, rng: random.Random, seen: Container[Edge]) -> Iterator[Case]:
        """See Source. Most were seen in another state: of those no case is made."""
        return (self._case(one) for one in self._singles(rng) if _edge(self.message, one) not in seen)

    def _singles(self, rng: random.Random) -> Iterator[_Single]:
        """Yields the lies in the order of the cases."""
        fields = [rng.sample(one, len(one)) for one in rng.sample(self._fields, len(self._fields))]
        for depth in range(max(map(len, fields), default=0)):
            for one in fields:
                if depth < len(one):
                    yield one[depth]

    def more(self, rng: random.Random) -> Iterator[Case]:
        """Yields pairs of lies about different elements."""
        fields = self._fields
        while fields:
            first, second = (rng.choice(rng.choice(fields)) for _ in range(2))
            if first.elements.isdisjoint(second.elements):
                yield self._case(first, second)
            elif sum(map(len, fields)) < 4:
                return

    def _case(self, *singles: _Single) -> Case:
        first = singles[0]
        message = self.message if first.message == "batch" else first.message
        return Case(
            self,
            message,
            " + ".join(single.field for single in singles),
            " + ".join(single.lie.words for single in singles),
            "pair" if len(singles) > 1 else first.lie.kind,
            tuple(Cause(self.name, single.field, single.lie.effect) for single in singles),
            tuple(_edge(self.message, single) for single in singles),
            self._alone,
            None,
            self.request,
            {mutation.qualified_name: mutation for single in singles for mutation in single.mutations},
        )

    def edges(self) -> Iterable[Edge]:
        """See Source."""
        return (_edge(self.message, single) for one in self._fields for single in one)

    def steps(self, case: Case) -> tuple[Step, ...]:
        """See Source."""
        return self._send(case.mutations, ": ".join(filter(None, (case.field, case.mutation))))

    def _send(self, mutations: Mapping[str, Mutation], words: str) -> tuple[Step, ...]:
        body, lie = self._rendering.render(mutations)
        prefix = f"{self._prefix}|{lie.words}" if lie is not None else self._prefix
        return (
            Step(
                Do.SEND, data=Template.of(prefix, self._head, *split(body, self._rendering.marks)), note=words
            ),
        )


def _edge(kind: str, single: _Single) -> Edge:
    message = kind if single.message in {"batch", in_paths(kind)} else single.message
    return Edge(message, single.field, single.lie.words)
