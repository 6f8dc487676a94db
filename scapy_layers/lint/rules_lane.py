"""FRAME and the sequence numbers of lanes. Spec: Message Reference, FRAME; Sequence Numbers."""

from __future__ import annotations

from collections.abc import Iterator

from scapy_layers.conversation import RemarkKind
from scapy_layers.lint.notes import Scene
from scapy_layers.lint.rule import ECLIPSE, Break, rule
from scapy_layers.network import Declare, Interest, NetworkOam, Push, Request, Response, ResponseFinal
from scapy_layers.transport import Fragment, Frame

_NETWORK = (Interest, ResponseFinal, Response, Request, Push, Declare, NetworkOam)
_NUMBERED = (Frame, Fragment)


def _remarks(scene: Scene, *kinds: RemarkKind) -> Iterator[str]:
    for remark in scene.heard.remarks:
        if remark.kind in kinds:
            yield remark.text


@rule("ZN-FRM-003", level="FACT", text="a FRAME holds one or more messages", on=Frame)
def _empty(scene: Scene) -> Iterator[Break]:
    if not scene.layer.fields.get("messages") and not scene.layer.partial:
        yield Break("a FRAME without a message")


@rule("ZN-FRM-002", level="FACT", text="an SN is inside the agreed resolution", on=_NUMBERED)
def _range(scene: Scene) -> Iterator[Break]:
    for text in _remarks(scene, RemarkKind.RANGE):
        yield Break(text)


@rule("ZN-OPEN-011", level="FACT", text="each side starts counting at its own announced SN", on=_NUMBERED)
def _start(scene: Scene) -> Iterator[Break]:
    if scene.lane is None and not _reordered(scene):
        for text in _jumps(scene):
            yield Break(f"the first number of the lane: {text}")


@rule("ZN-FRM-010", level="FACT", text="SNs of a lane rise by one", on=_NUMBERED)
def _consecutive(scene: Scene) -> Iterator[Break]:
    if scene.lane is not None and not _reordered(scene):
        for text in _jumps(scene):
            yield Break(text)


def _jumps(scene: Scene) -> Iterator[str]:
    """Yields what is wrong with a number. A datagram may be lost; what a stream loses, its sender left out."""
    yield from _remarks(scene, RemarkKind.DUPLICATE, RemarkKind.OLD)
    if scene.heard.way.link.tcp:
        yield from _remarks(scene, RemarkKind.GAP, RemarkKind.LOSS)


def _reordered(scene: Scene) -> bool:
    """Tells whether datagrams can have overtaken each other, or come twice."""
    return not scene.heard.way.link.tcp


@rule(
    "ZN-FRG-003", level="FACT", text="fragments take SNs from the counter of the lane, one each", on=_NUMBERED
)
def _slip(scene: Scene) -> Iterator[Break]:
    lane, session, sn = scene.lane, scene.session, scene.layer.fields.get("sn")
    if lane is None or session is None or sn is None or lane.last is None or not lane.ended:
        return
    mask = session.mask
    if mask is not None and scene.whole and sn == (lane.last + 2) & mask and scene.heard.way.link.tcp:
        yield Break(f"{int(sn)} behind the last fragment {int(lane.last)}: one number is left out", ECLIPSE)


@rule("ZN-INIT-049", level="FACT", text="lanes are used only where both sides agreed on QoS", on=_NUMBERED)
def _lane(scene: Scene) -> Iterator[Break]:
    for text in _remarks(scene, RemarkKind.LANE):
        yield Break(text)


@rule("ZN-INIT-050", level="FACT", text="a low-latency session has no FRAME", on=_NUMBERED)
def _framed(scene: Scene) -> Iterator[Break]:
    for text in _remarks(scene, RemarkKind.PLACE):
        yield Break(text)


@rule(
    "ZN-NET-001",
    level="FACT",
    text="network messages stand in FRAMEs unless low latency is agreed",
    on=_NETWORK,
)
def _bare(scene: Scene) -> Iterator[Break]:
    for text in _remarks(scene, RemarkKind.PLACE):
        yield Break(text)
