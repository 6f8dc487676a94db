"""How a message leaves in a state, and lies about a message that stands there."""

from __future__ import annotations

import random
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fuzz.campaigns.messages import BY_ALIAS, ZID, carried, kind_of
from fuzz.cases import VALID, Case, Cause, Edge
from fuzz.lying import Lying
from fuzz.script import SIZE, SIZE32, Step
from fuzz.states import State
from scapy_layers.codes import Kind
from scapy_layers.message import Message
from scapy_layers.transport import Frame

DATAGRAMS = frozenset({State.SCOUTING, State.SEEKING, State.GROUP, State.JOINED})
"""States in which nothing stands in front of a batch."""

STORED = b"\x00"
"""Header of a batch in a session with compression that is not compressed."""


@dataclass(frozen=True, slots=True)
class Framing:
    """What stands around a message.

    Attributes:
        prefix: Name of the length in front; empty for none.
        head: Bytes between the length and the message.
        bare: Network messages travel without FRAME.
    """

    prefix: str = SIZE
    head: bytes = b""
    bare: bool = False


def framing_of(state: State) -> Framing:
    """Returns how messages travel in a state."""
    if state in DATAGRAMS:
        return Framing("")
    if state is State.LOW_LATENCY:
        return Framing(SIZE32, bare=True)
    return Framing(head=STORED) if state is State.COMPRESSED else Framing()


@dataclass(frozen=True, slots=True)
class Placed:
    """A message that can leave on a link.

    Attributes:
        message: As it stands in a batch: what is meant, and what it needs around it.
        quiet: Names of what is around it.
        live: Fields that a link fills in: path -> name of the value.
    """

    message: Message
    quiet: tuple[str, ...] = ()
    live: Mapping[str, str] = field(default_factory=dict)


BASED = frozenset({State.DECLARED, State.PENDING})
"""States in which an alias of ours stands for a base key."""


def placed(message: Message, state: State, *, reliable: bool = True) -> Placed:
    """Puts a message into what it travels in, in a state.

    Args:
        message: Of any layer.
        state: Where the link is.
        reliable: A FRAME is for the reliable lane.
    """
    quiet: list[str] = []
    whole = message
    while whole.kind not in {Kind.SCOUTING, Kind.TRANSPORT, Kind.NETWORK}:
        whole = carried(whole, BY_ALIAS if state in BASED else None)
        quiet.insert(0, str(whole.name))
    if whole.kind is Kind.NETWORK and not framing_of(state).bare:
        whole = Frame(R=int(reliable), messages=[whole])
        quiet.insert(0, str(whole.name))
    return Placed(whole, tuple(quiet), live_of(whole))


def live_of(message: Message) -> dict[str, str]:
    """Returns what a link fills in: numbers that are due, our ZenohID, the cookie, the id of the node's query: by path."""
    name = str(message.name)
    found: dict[str, str] = {}
    match name:
        case "FRAME" | "FRAGMENT":
            found[f"{name}.sn"] = "sn" if message.R else "sn_be"
            for inside in message.fields.get("messages") or []:
                found |= live_of(inside)
        case "INIT" | "JOIN" | "SCOUT" | "HELLO" if len(message.zid or b"") in {0, len(ZID)}:
            found[f"{name}.zid"] = "zid"
        case "OPEN" if not message.A:
            found[f"{name}.cookie"] = "cookie"
        case "RESPONSE" | "RESPONSE_FINAL":
            found[f"{name}.request_id"] = "rid"
    return found


class Stated(Lying):
    """A valid message in a state, as it is; then all lies about it.

    Args:
        name: Unique in its campaign.
        state: Where the link is.
        message: Of any layer; what it needs around it stays correct.
        kind: Kind of message for coverage; that of the message when empty.
        alone: Every case needs a link of its own.
        reliable: A FRAME around it is for the reliable lane.
        before: What is done in front of it.
        after: What is done behind it.
    """

    def __init__(
        self,
        name: str,
        state: State,
        message: Message,
        *,
        kind: str = "",
        alone: bool = False,
        reliable: bool = True,
        before: Sequence[Step] = (),
        after: Sequence[Step] = (),
    ) -> None:
        place = placed(message, state, reliable=reliable)
        framing = framing_of(state)
        super().__init__(
            name,
            state,
            place.message,
            place.live,
            place.quiet,
            kind=kind or kind_of(type(message)),
            prefix=framing.prefix,
            head=framing.head,
            alone=alone,
        )
        self._before, self._after = tuple(before), tuple(after)

    def cases(self, rng: random.Random) -> Iterator[Case]:
        """Yields the message as it is, then its lies."""
        yield self._valid()
        yield from super().cases(rng)

    def unseen(self, rng: random.Random, seen: Container[Edge]) -> Iterator[Case]:
        """See Source."""
        if self._as_it_is not in seen:
            yield self._valid()
        yield from super().unseen(rng, seen)

    def _valid(self) -> Case:
        """Returns the message as it is."""
        causes = (Cause(self.name, "", VALID),)
        edges = (self._as_it_is,)
        return Case(self, self.message, "", VALID, VALID, causes, edges, self._alone, None, self.request)

    def edges(self) -> Iterable[Edge]:
        """See Source."""
        yield self._as_it_is
        yield from super().edges()

    @property
    def _as_it_is(self) -> Edge:
        return Edge(self.message, "", VALID)

    def steps(self, case: Case) -> tuple[Step, ...]:
        """See Source."""
        return (*self._before, *super().steps(case), *self._after)
