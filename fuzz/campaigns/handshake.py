"""Lies before there is a session: INIT, OPEN and what else may come there; and sessions agreed on in odd ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product

from fuzz.campaigns.base import Campaign, Setting
from fuzz.campaigns.messages import ZID, Wish, extensions_of, forms, main_forms, message_of
from fuzz.campaigns.placing import Stated
from fuzz.cases import Source, send
from fuzz.phrases import ZID_MARK, as_fragment, batch, frame, listen, push, query
from fuzz.player import template_of
from fuzz.script import SIZE, Step
from fuzz.sequences import Made
from fuzz.states import State
from scapy_layers import extensions as ext
from scapy_layers.codes import Resolution, WhatAmI
from scapy_layers.message import Extension, Message
from scapy_layers.transport import Init, Open

STATES = (State.CONNECTED, State.INIT_ACKED)

OTHERS = ("CLOSE", "KEEP_ALIVE", "JOIN")
"""What else belongs to links; everything else that does not is in the campaign ``everywhere``."""

NEGOTIATED: dict[str, Sequence[tuple[type[Extension], type[Extension] | None]]] = {
    "MultiLink": [(ext.MultiLinkInitSyn, ext.MultiLinkOpenSyn)],
    "Shm": [(ext.InitSynShm, ext.OpenSynShm), (ext.InitSynShm, ext.OpenShm)],
    "Auth": [(ext.AuthInitSyn, ext.AuthOpenSyn)],
    "QoSLink": [(ext.QoSLink, ext.QoSOffer)],
    "RegionName": [(ext.RegionName, ext.RemoteBound)],
}
"""What INIT offers, and what OPEN says about it then."""

BATCH_SIZES = (0, 1, 2, 32, 8192, 65_535)


def make(setting: Setting) -> Iterator[Source]:  # noqa: ARG001  (every campaign is called like this)
    """INIT on a fresh link, OPEN behind an InitAck, each in the other's place, and as an acceptor says them."""
    for state, kind in product(STATES, ("INIT", "OPEN", *OTHERS)):
        for words, message in _forms(kind, state).items():
            yield Stated(f"{kind} {words} in {state}", state, message)
    for words, init in _inits():
        yield Stated(f"INIT {words} in {State.CONNECTED}", State.CONNECTED, init)
    for words, opening, before in _openings():
        yield Stated(f"OPEN {words}", State.CONNECTED, opening, before=before, after=[listen()])
    yield Made("sessions as agreed", State.CONNECTED, "OPEN", dict(_sessions()), "agreement")


def _forms(kind: str, state: State) -> dict[str, Message]:
    """Every form where the message is due, the main ones elsewhere."""
    due = (kind == "INIT" and state is State.CONNECTED) or (kind == "OPEN" and state is State.INIT_ACKED)
    return forms(kind) if due else main_forms(kind)


def _inits() -> Iterator[tuple[str, Message]]:
    """Correct INITs that other nodes might send; their lies are others, since what is true is."""
    for size in (1, 2, 8, 15):
        yield f"with a ZenohID of {size} bytes", Init(zid=ZID[:size])
    for role in WhatAmI:
        yield f"of a {role.name.lower()}", Init(zid=ZID, whatami=role)
    yield "without anything", Init(zid=ZID)
    yield (
        "with small numbers",
        Init(
            zid=ZID, rid=Resolution.BITS_8, fsn=Resolution.BITS_8, batch_size=128, extensions=[ext.QoSOffer()]
        ),
    )


def _offer(*offered: type[Extension], **values: int) -> Step:
    """Returns the step that sends INIT with extensions."""
    given = {"zid": ZID_MARK, **values}
    init = message_of(Init, Wish(options=bool(values), extensions=frozenset(offered), given=given))
    return send(*template_of(init).pieces, note=f"INIT with {', '.join(one.__name__ for one in offered)}")


def _openings() -> Iterator[tuple[str, Message, Sequence[Step]]]:
    """OPENs behind an INIT that makes their extensions mean something."""
    for name, pairs in NEGOTIATED.items():
        for offered, said in pairs:
            chain = frozenset({said} if said else set())
            opening = message_of(Open, Wish(roles={"A": 0}, extensions=chain))
            words = f"with {said.__name__ if said else 'nothing'} behind {name} in INIT"
            yield words, opening, (_offer(offered), listen())


def _sessions() -> Iterator[tuple[str, Callable[[], Sequence[Step]]]]:
    """Handshakes and a little traffic: each width of numbers, size of batches, role, first number and lease."""
    for fsn, rid in product(Resolution, Resolution):
        yield f"fsn {fsn.name}, rid {rid.name}", partial(_session, {"fsn": fsn, "rid": rid})
    for size in BATCH_SIZES:
        yield f"batches of {size}", partial(_session, {"batch_size": size})
    for role in range(4):
        yield f"role {role}", partial(_session, {"whatami": role})
    for fsn, bits in (
        (Resolution.BITS_8, 7),
        (Resolution.BITS_16, 14),
        (Resolution.BITS_32, 28),
        (Resolution.BITS_64, 56),
    ):
        for first in ((1 << bits) - 1, 1 << bits):
            yield f"fsn {fsn.name}, first number {first}", partial(_session, {"fsn": fsn}, first=first)
    for lease, seconds in product((0, 1, 100, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1), (0, 1)):
        unit = "s" if seconds else "ms"
        yield f"lease {lease} {unit}", partial(_session, {}, lease=lease, seconds=seconds)
    offers = [one for one in extensions_of(Init) if one not in {ext.LowLatency, ext.Compression}]
    for one in offers:
        yield f"INIT with {one.__name__}", partial(_session, {}, offers=(one,))


def _session(
    values: dict[str, int],
    *,
    first: int = 100,
    lease: int = 60,
    seconds: int = 1,
    offers: Sequence[type[Extension]] = (ext.QoSOffer, ext.Patch),
) -> Sequence[Step]:
    init = message_of(
        Init, Wish(options=True, extensions=frozenset(offers), given={"zid": ZID_MARK, **values})
    )
    head = bytes(Open(T=seconds, lease=lease, initial_sn=0, cookie=b""))[:-2]
    return [
        send(*template_of(init).pieces, note="INIT"),
        listen(),
        send(SIZE, head, f"from {first}", "cookie", note="OPEN"),
        listen(),
        frame(push(), query(1)),
        batch(as_fragment(bytes(push()), first=True), note="FRAGMENT"),
        frame(push()),
    ]


CAMPAIGN = Campaign("handshake", "mutations of INIT and OPEN, and sessions negotiated in unusual ways", make)
