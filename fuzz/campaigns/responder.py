"""A node that makes the link: what it gets as InitAck, as OpenAck, and in a session that it began."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

from fuzz.campaigns.base import Campaign, Setting
from fuzz.campaigns.messages import KINDS, Wish, extensions_of, forms, main_forms, message_of
from fuzz.campaigns.placing import Stated
from fuzz.cases import Source, send
from fuzz.phrases import ZID_MARK, as_frame, batch, frame, link_state, listen, push, query
from fuzz.player import template_of
from fuzz.script import SIZE, Do, Step
from fuzz.sequences import Made
from fuzz.states import State
from scapy_layers import extensions as ext
from scapy_layers.codes import CloseReason, Kind, Resolution
from scapy_layers.message import Extension
from scapy_layers.transport import Close, Init, KeepAlive, Open

STATES = (State.INIT_RECEIVED, State.OPEN_RECEIVED, State.ACCEPTED)

COOKIES = (0, 1, 2, 127, 128, 1000, 16_383, 16_384, 60_000)
"""Bytes of a cookie, each of which the node has to keep and to return."""

BATCH_SIZES = (0, 1, 2, 3, 16, 32, 128, 8192, 65_535)

WIDTHS = {Resolution.BITS_8: 7, Resolution.BITS_16: 14, Resolution.BITS_32: 28, Resolution.BITS_64: 56}
"""Bits of the numbers that are in use."""

LEASES = (0, 1, 100, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)


def make(setting: Setting) -> Iterator[Source]:  # noqa: ARG001  (every campaign is called like this)
    """INIT and OPEN in every form where they are due; everything else in every state; handshakes with odd ends."""
    for words, message in forms("INIT").items():
        yield Stated(f"INIT {words} in {State.INIT_RECEIVED}", State.INIT_RECEIVED, message)
    for words, message in forms("OPEN").items():
        yield Stated(f"OPEN {words} in {State.OPEN_RECEIVED}", State.OPEN_RECEIVED, message)
    for kind, cls in KINDS.items():
        for words, message in main_forms(kind).items():
            if cls.kind is Kind.TRANSPORT:
                for state in STATES:
                    if (kind, state) not in {("INIT", State.INIT_RECEIVED), ("OPEN", State.OPEN_RECEIVED)}:
                        yield Stated(f"{kind} {words} in {state}", state, message)
            elif cls.kind is not Kind.SCOUTING:
                yield Stated(f"{kind} {words} in {State.ACCEPTED}", State.ACCEPTED, message)
    yield Made("answers to INIT", State.INIT_RECEIVED, "INIT", dict(_agreements()), "agreement")
    yield Made("order", State.INIT_RECEIVED, "OPEN", dict(_orders()), "order")
    yield Made("ends", State.INIT_RECEIVED, "CLOSE", dict(_ends()), "end")
    yield Made("sessions that it began", State.ACCEPTED, "FRAME", dict(_sessions()), "state")


Variant = tuple[str, Callable[[], Sequence[Step]]]


def init_ack(
    *offered: type[Extension], cookie: bytes = b"\x5a" * 16, given: Mapping[str, int | bytes] | None = None
) -> Step:
    """Returns the step that answers INIT; fields given win."""
    given = {"zid": ZID_MARK, "cookie": cookie, **(given or {})}
    message = message_of(Init, Wish(roles={"A": 1}, options=True, extensions=frozenset(offered), given=given))
    return send(*template_of(message).pieces, note="InitAck")


def open_ack(first: int | None = None, *, lease: int = 60, seconds: int = 1) -> Step:
    """Returns the step that answers OPEN."""
    head = bytes(Open(A=1, T=seconds, lease=lease, initial_sn=0))[:-1]
    return send(SIZE, head, "sn" if first is None else f"from {first}", note="OpenAck")


def _rest(first: int | None = None, **said: int) -> list[Step]:
    """The handshake goes on, and so does the session."""
    return [
        listen(),
        open_ack(first, **said),
        listen(),
        frame(push(), query(1)),
        frame(push()),
        batch(KeepAlive()),
    ]


def _agreements() -> Iterator[Variant]:
    """What InitAck may agree on, what OpenAck may say, and the session that follows."""
    for words, given in _agreed():
        yield words, lambda given=given: [init_ack(given=given), *_rest()]  # type: ignore[misc]
    for size in COOKIES:
        yield f"cookie of {size} bytes", lambda size=size: [init_ack(cookie=bytes(size)), *_rest()]  # type: ignore[misc]
    for one in extensions_of(Init):
        yield f"with {one.__name__}", lambda one=one: [init_ack(one), *_rest()]  # type: ignore[misc]
    yield "with all that can be offered", lambda: [init_ack(*extensions_of(Init)), *_rest()]
    for fsn, bits in WIDTHS.items():
        for first in ((1 << bits) - 1, 1 << bits):
            yield (
                f"fsn {fsn.name}, first number {first}",
                lambda fsn=fsn, first=first: [init_ack(given={"fsn": fsn}), *_rest(first)],  # type: ignore[misc]
            )
    for lease, seconds in product(LEASES, (0, 1)):
        said = {"lease": lease, "seconds": seconds}
        yield (
            f"lease {lease} {'s' if seconds else 'ms'}",
            lambda said=said: [init_ack(), *_rest(**said)],  # type: ignore[misc]
        )


def _agreed() -> Iterator[tuple[str, dict[str, int | bytes]]]:
    for size in BATCH_SIZES:
        yield f"batches of {size}", {"batch_size": size}
    for fsn, rid in product(Resolution, Resolution):
        yield f"fsn {fsn.name}, rid {rid.name}", {"fsn": fsn, "rid": rid}
    for role in range(4):
        yield f"role {role}", {"whatami": role}
    for size in (1, 2, 8, 15):
        yield f"ZenohID of {size} bytes", {"zid": bytes(range(1, size + 1))}
    yield "ZenohID of nobody", {"zid": bytes(16)}


def _orders() -> Iterator[Variant]:
    ack, syn = init_ack(ext.QoSOffer), template_of(Init(zid=ZID_MARK))
    syn_step = send(*syn.pieces, note="InitSyn")
    open_syn = batch(Open(cookie=b"\x5a" * 16, initial_sn=1), note="OpenSyn")
    settled = Step(Do.SETTLE, "a")
    yield "OpenAck at once", lambda: [open_ack(), frame(push())]
    yield "InitAck and OpenAck at once", lambda: [ack, open_ack(), frame(push())]
    yield "InitAck twice", lambda: [ack, listen(), ack, open_ack(), frame(push())]
    yield "OpenAck twice", lambda: [ack, listen(), open_ack(), open_ack(), frame(push())]
    yield "InitSyn for InitSyn", lambda: [syn_step, ack, *_rest()]
    yield "InitSyn behind InitAck", lambda: [ack, listen(), syn_step, open_ack(), frame(push())]
    yield "OpenSyn for OpenSyn", lambda: [ack, listen(), open_syn, open_ack(), frame(push())]
    yield "our own handshake on its link", lambda: [syn_step, listen(), open_syn, listen(), frame(push())]
    yield "FRAME before InitAck", lambda: [frame(push()), ack, *_rest()]
    yield "FRAME before OpenAck", lambda: [ack, listen(), frame(push()), open_ack(), frame(push())]
    yield "KEEP_ALIVE before InitAck", lambda: [batch(KeepAlive()), ack, *_rest()]
    yield "KEEP_ALIVE before OpenAck", lambda: [ack, listen(), batch(KeepAlive()), open_ack(), settled]
    yield "nothing, in a batch", lambda: [batch(b""), ack, *_rest()]
    yield "InitAck in pieces", lambda: [*_in_pieces(ack), *_rest()]
    yield (
        "OpenAck and the session in one batch",
        lambda: [
            ack,
            listen(),
            batch(Open(A=1, T=1, lease=60, initial_sn=5), as_frame(push(), sn=5)),
        ],
    )


def _in_pieces(step: Step) -> list[Step]:
    return [Step(Do.SEND, step.link, data=step.data, bytewise=True, note=f"{step.note} byte by byte")]


def _ends() -> Iterator[Variant]:
    ack = init_ack(ext.QoSOffer)
    ways: dict[str, list[Step]] = {
        "FIN": [Step(Do.FINISH)],
        "the end of the link": [Step(Do.CLOSE)],
        "RST": [Step(Do.RESET)],
    }
    for reason in (*CloseReason, 0xFF):
        for session in (0, 1):
            note = f"CLOSE {int(reason)} S={session}"
            ways[note] = [batch(Close(S=session, reason=int(reason)), note=note)]
    for name, end in ways.items():
        yield f"{name} instead of InitAck", lambda end=end: end  # type: ignore[misc]
        yield f"{name} instead of OpenAck", lambda end=end: [ack, listen(), *end]  # type: ignore[misc]
        yield f"{name} right behind OpenAck", lambda end=end: [ack, listen(), open_ack(), *end]  # type: ignore[misc]
        yield f"{name} in the session", lambda end=end: [ack, *_rest(), *end]  # type: ignore[misc]


def _sessions() -> Iterator[Variant]:
    yield (
        "places in the network, over and over",
        lambda: [frame(link_state(sn, links=sn % 4), note=f"OAM {sn}") for sn in range(1, 40)],
    )
    yield (
        "places in the network, backwards",
        lambda: [frame(link_state(sn, links=3), note=f"OAM {sn}") for sn in range(40, 1, -1)],
    )
    yield "a network of 200", lambda: [frame(link_state(1, links=200), note="OAM")]
    yield "InitAck and OpenAck again", lambda: [init_ack(ext.QoSOffer), open_ack(), frame(push())]
    yield "CLOSE, then more", lambda: [batch(Close(S=1, reason=0)), frame(push())]


CAMPAIGN = Campaign(
    "responder",
    "mutations sent to a node that connects to the fuzzer: InitAck, OpenAck, and everything after",
    make,
)
