"""Lies about every message that travels in a session, with numbers that are due."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from fuzz.campaigns.base import Campaign, Setting
from fuzz.campaigns.messages import KINDS, Wish, forms, main_forms, message_of
from fuzz.campaigns.placing import BASED, Stated, placed
from fuzz.cases import Fixed, Source
from fuzz.lying import Lying
from fuzz.phrases import as_frame, batch
from fuzz.script import Step
from fuzz.states import State
from scapy_layers import extensions as ext
from scapy_layers import shape
from scapy_layers.catalogue import MESSAGES
from scapy_layers.codes import Kind, Priority
from scapy_layers.message import Message
from scapy_layers.network import Declare, Interest, Push, Request
from scapy_layers.transport import Fragment, Frame

STATES = (State.OPEN, State.DECLARED, State.PENDING)

INSIDE = frozenset({Kind.NETWORK, Kind.DECLARATION, Kind.DATA})


def make(setting: Setting) -> Iterator[Source]:  # noqa: ARG001  (every campaign is called like this)
    """Each kind alone in a FRAME; FRAMEs of several; FRAGMENTs; what belongs to the link; what stands in the wrong place."""
    for state, (kind, cls) in product(STATES, KINDS.items()):
        if cls.kind in INSIDE:
            chosen = main_forms if state in BASED else forms
            for words, message in chosen(kind, by_alias=state in BASED).items():
                yield Stated(f"{kind} {words} in {state}", state, message)
        elif cls.kind is Kind.TRANSPORT and state is State.OPEN:
            for words, message in forms(kind).items():
                yield Stated(f"{kind} {words} in {state}", state, message)
    yield from _best_effort()
    yield from _several()
    yield from _fragments()
    yield from _lanes()
    yield Fixed("in the wrong place", State.OPEN, "FRAME", dict(_misplaced()), "place", alone=False)


def _best_effort() -> Iterator[Source]:
    for kind in ("PUSH", "REQUEST", "DECLARE", "INTEREST"):
        message = message_of(KINDS[kind], Wish())
        yield Stated(f"{kind} best effort", State.OPEN, message, reliable=False)


def _several() -> Iterator[Source]:
    """FRAMEs of four messages of which one lies, so that others stand in front of it and behind it."""
    messages = [message_of(cls, Wish()) for cls in (Push, Declare, Request, Interest)]
    whole = Frame(R=1, sn=1 << 20, messages=messages)
    for loud in messages:
        quiet = ("FRAME", *(str(one.name) for one in messages if one is not loud))
        name = f"FRAME of several, {loud.name}"
        yield Lying(name, State.OPEN, whole, {"FRAME.sn": "sn"}, quiet, kind=str(loud.name))


def _fragments() -> Iterator[Source]:
    """Messages that come whole or in part in one FRAGMENT."""
    raw = bytes(message_of(Push, Wish(options=True, extensions=None)))
    live = {"FRAGMENT.sn": "sn"}
    wholly = Fragment(R=1, extensions=[ext.First()], data=raw)
    yield Lying("FRAGMENT, whole", State.OPEN, wholly, live)
    for words, data in (("half", raw[: len(raw) // 2]), ("nothing", b"")):
        first = Fragment(R=1, M=1, extensions=[ext.First()], data=data)
        yield Lying(f"FRAGMENT, first with {words}", State.OPEN, first, live)
    last = Fragment(R=1, data=b"\x00" * 10)
    yield Lying("FRAGMENT, last", State.FRAGMENTING, last, live)
    more = Fragment(R=1, M=1, data=b"\x00" * 10)
    yield Lying("FRAGMENT, more", State.FRAGMENTING, more, live)


def _lanes() -> Iterator[Source]:
    """FRAMEs of each priority."""
    for lane in Priority:
        message = Frame(
            R=1, sn=1 << 20, extensions=[ext.Lane(priority=lane)], messages=[message_of(Push, Wish())]
        )
        # What is inside is for others: a node without lanes reads no further than to the priority.
        yield Lying(
            f"FRAME on lane {lane.name}", State.OPEN, message, {"FRAME.sn": "sn"}, ("PUSH", "PUT", "DEL")
        )


def _misplaced() -> Iterator[tuple[str, list[Step]]]:
    """Each kind where another belongs: in a FRAME, in a PUSH, in a DECLARE, ..."""
    inner = {kind: bytes(message_of(cls, Wish())) for kind, cls in KINDS.items()}
    for words, head in _heads().items():
        for kind, raw in inner.items():
            yield f"{kind} in {words}", [batch(as_frame(head + raw), note=f"{kind} in {words}")]


def _heads() -> Mapping[str, bytes]:
    """Returns what stands in front of the body, for each message that has one."""
    heads: dict[str, bytes] = {"FRAME": b""}
    for cls in MESSAGES:
        body = next((one for one in shape.walk(cls.wire_shapes()) if isinstance(one, shape.Body)), None)
        if body is not None:
            message = message_of(cls, Wish())
            inside = message.fields[body.name]
            place = placed(message, State.LOW_LATENCY).message
            heads[str(cls.shape().name)] = _front(place, inside)
    return heads


def _front(whole: Message, inside: Message) -> bytes:
    raw, end = bytes(whole), bytes(inside)
    assert raw.endswith(end)
    return raw[: len(raw) - len(end)]


CAMPAIGN = Campaign("session", "mutations of every message that is sent in a session", make, weight=2.0)
