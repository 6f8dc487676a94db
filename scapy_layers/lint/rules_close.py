"""CLOSE, and what must not come behind it. Spec: Session Teardown; Close."""

from __future__ import annotations

from collections.abc import Iterator

from scapy_layers.codes import CloseReason
from scapy_layers.lint.notes import Scene
from scapy_layers.lint.rule import Break, rule
from scapy_layers.network import Declare, Interest, NetworkOam, Push, Request, Response, ResponseFinal
from scapy_layers.transport import Close, Fragment, Frame, Init, KeepAlive, Open, TransportOam

UNDER_WAY = 1_000_000_000
"""Nanoseconds in which a node can have sent something before it had read the CLOSE of the other end."""

_SENT = (
    KeepAlive,
    Frame,
    Fragment,
    TransportOam,
    Interest,
    ResponseFinal,
    Response,
    Request,
    Push,
    Declare,
    NetworkOam,
    Init,
    Open,
)


@rule("ZN-CLS-101", "ZN-CLS-002", level="FACT", text="the reason of CLOSE is one of the eight", on=Close)
def _reason(scene: Scene) -> Iterator[Break]:
    said = scene.layer.fields.get("reason")
    if said is not None and said not in list(CloseReason):
        yield Break(f"reason {said:#04x}")


@rule(
    "ZN-CLS-004",
    "ZN-CLS-003",
    level="FACT",
    text="CLOSE ends the link: its sender sends nothing behind it",
    on=_SENT,
)
def _behind_own(scene: Scene) -> Iterator[Break]:
    if _inside(scene) or scene.link.closed[scene.side] is None:
        return
    yield Break(f"{scene.layer.name} behind the sender's own CLOSE")


@rule("ZN-CLS-102", "ZN-CLS-007", level="MUST", text="on CLOSE the receiver stops sending", on=_SENT)
def _behind_other(scene: Scene) -> Iterator[Break]:
    closed = scene.link.closed[1 - scene.side]
    if _inside(scene) or closed is None or scene.heard.time - closed <= UNDER_WAY:
        return
    yield Break(f"{scene.layer.name} {(scene.heard.time - closed) / 1e9:.1f} s after the other end's CLOSE")


def _inside(scene: Scene) -> bool:
    """Tells whether another message speaks for this one, or a group goes on without its sender."""
    session = scene.session
    return scene.heard.within is not None or session is None or session.multicast


@rule("ZN-CLS-106", level="SHOULD", text="the reason is the most specific one", on=Close)
def _specific(scene: Scene) -> Iterator[Break]:
    link = scene.link
    said = scene.layer.fields.get("reason")
    if link.syn is None or link.ack is None or link.open_ack is not None or scene.side == link.initiator:
        return
    same = link.syn.fields.get("zid") == link.ack.fields.get("zid")
    if same and link.open_syn is not None and said != CloseReason.CONNECTION_TO_SELF:
        yield Break(f"reason {said} for a connection to itself")
