"""Whether a script that was made smaller is still valid: a node may end a session in which it is not.

What was valid stays so when whole messages are left out of it on which no other depends. Their bytes stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from fuzz.kinship import raw_of
from fuzz.script import Do, Script
from fuzz.shrink import walk
from fuzz.states import State
from scapy_layers.batch import contents
from scapy_layers.codes import InterestMode, Kind
from scapy_layers.declarations import (
    DeclareKeyExpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    UndeclareKeyExpr,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from scapy_layers.message import Message
from scapy_layers.network import Interest
from scapy_layers.transport import Fragment, Frame, Init, Open

Id = tuple[str, int]
"""What an id is of, and the id."""

_NAMED = (
    ("alias", "key_id", DeclareKeyExpr, UndeclareKeyExpr),
    ("queryable", "entity_id", DeclareQueryable, UndeclareQueryable),
    ("subscriber", "entity_id", DeclareSubscriber, UndeclareSubscriber),
    ("token", "entity_id", DeclareToken, UndeclareToken),
)
"""What an id is of, the field that has it, what gives it a meaning and what takes that away."""

_HANDSHAKE, _PIECES = "handshake", "pieces"
"""What belongs together: all that makes a session by hand; the fragments of a link."""


@dataclass(frozen=True, slots=True)
class _Said:
    """Something that is said on a link, or waited for.

    Attributes:
        raw: Its bytes, and what goes round it.
        belongs: What it belongs to, of which nothing may be missing; empty for nothing.
        gives: Ids that mean something behind it.
        needs: Ids that have to mean something.
    """

    raw: bytes
    belongs: str = ""
    gives: frozenset[Id] = frozenset()
    needs: frozenset[Id] = frozenset()


def still_valid(script: Script, origin: Script) -> bool:
    """Tells whether a smaller script is valid, given that another one is that has all of its messages."""
    before, now = _by_link(origin), _by_link(script)
    return script.where == origin.where and all(
        _is_part(said, before.get(link, (None, []))) for link, said in now.items()
    )


_Link = tuple[State | None, list[_Said]]


def _is_part(now: _Link, before: _Link) -> bool:
    if now[0] is not before[0] or Counter(one.raw for one in now[1]) - Counter(one.raw for one in before[1]):
        return False
    parts, whole = _parts(now[1]), _parts(before[1])
    if parts[_HANDSHAKE] != whole[_HANDSHAKE] or parts[_PIECES] not in ([], whole[_PIECES]):
        return False
    # What nobody gave a meaning there has one from the state.
    open_ids = {one for said in before[1] for one in said.gives}
    given: set[Id] = set()
    for said in now[1]:
        if (said.needs & open_ids) - given:
            return False
        given |= said.gives
    return True


def _parts(said: list[_Said]) -> dict[str, list[bytes]]:
    return {kind: [one.raw for one in said if one.belongs == kind] for kind in (_HANDSHAKE, _PIECES)}


def _by_link(script: Script) -> dict[str, _Link]:
    """Returns the state of each link, and what is said on it."""
    links: dict[str, _Link] = {}
    for step in script.steps:
        state, said = links.setdefault(step.link, (step.state, []))
        if step.do is Do.AWAIT and state is State.CONNECTED:
            said.append(_Said(b"await", _HANDSHAKE))
        elif step.do is Do.SEND and step.data.pieces:
            raw = raw_of(step.data)
            said += step.times * list(_messages(raw[1:] if state is State.COMPRESSED else raw, state))
    return links


def _messages(raw: bytes, state: State | None) -> Iterator[_Said]:
    read = contents(raw, Kind.NETWORK if state is State.LOW_LATENCY else None)
    for message in read.messages:
        if isinstance(message, Frame):
            head = Frame(R=message.R, sn=0, extensions=message.extensions)
            yield from (_said(inner, bytes(head)) for inner in message.messages)
        else:
            yield _said(message, b"")
    if read.error is not None or read.rest:
        # Nobody knows what is in it; a stand-in may be no good there.
        yield _Said(raw)


def _said(message: Message, around: bytes) -> _Said:
    gives, needs = set(), set()
    layers = [layer for _, layer in walk((message,))]
    for layer in layers:
        if scope := layer.fields.get("key_scope"):
            needs.add(("alias", scope))
        for kind, field, declare, undeclare in _NAMED:
            if isinstance(layer, declare):
                gives.add((kind, layer.fields[field]))
            elif isinstance(layer, undeclare):
                needs.add((kind, layer.fields[field]))
        if isinstance(layer, Interest):
            named = ("interest", layer.fields["interest_id"])
            (needs if layer.mode == InterestMode.FINAL else gives).add(named)
    belongs = (
        _HANDSHAKE if isinstance(message, (Init, Open)) else _PIECES if isinstance(message, Fragment) else ""
    )
    return _Said(around + bytes(message), belongs, frozenset(gives), frozenset(needs))
