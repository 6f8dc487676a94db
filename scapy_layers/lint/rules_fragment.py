"""Chains of FRAGMENTs. Spec: Message Reference, FRAGMENT; Fragmentation."""

from __future__ import annotations

from collections.abc import Iterator

from scapy_layers.conversation import RemarkKind
from scapy_layers.conversation.session import extension
from scapy_layers.extensions import Drop, First
from scapy_layers.lint.notes import Scene
from scapy_layers.lint.rule import ECLIPSE, Break, rule
from scapy_layers.transport import Fragment, Frame


@rule(
    "ZN-INIT-043", level="FACT", text="First and Drop stand only where both sides know patch 1", on=Fragment
)
def _unknown(scene: Scene) -> Iterator[Break]:
    if scene.session is None or scene.session.patch != 0:
        return
    if extension(scene.layer, First) is not None:
        yield Break("First at patch 0", ECLIPSE)
    if extension(scene.layer, Drop) is not None:
        yield Break("Drop at patch 0")


@rule(
    "ZN-INIT-044",
    "ZN-FRG-005",
    level="FACT",
    text="at patch 1 the first fragment of a message has First, no other",
    on=Fragment,
)
def _first(scene: Scene) -> Iterator[Break]:
    lane = scene.lane
    if scene.session is None or not scene.session.patch or not scene.unbroken or scene.heard.ignored:
        return
    begins = lane is None or not lane.chain
    marked = extension(scene.layer, First) is not None
    if begins and not marked and extension(scene.layer, Drop) is None:
        yield Break("the first fragment of a message without First")
    elif marked and not begins:
        yield Break("First in the middle of a message, without Drop before it")


@rule("ZN-FRG-002", level="FACT", text="M is set on all but the last fragment", on=Fragment)
def _drop(scene: Scene) -> Iterator[Break]:
    if extension(scene.layer, Drop) is not None and not scene.layer.fields.get("M"):
        yield Break("Drop on a fragment that says it is the last one")


@rule(
    "ZN-FRG-102",
    level="FACT",
    text="nothing else is sent on a lane while a message is fragmented there",
    on=Frame,
)
def _between(scene: Scene) -> Iterator[Break]:
    lane = scene.lane
    if lane is not None and lane.chain and scene.unbroken and not scene.heard.ignored:
        yield Break("a FRAME inside a chain of fragments")


@rule("ZN-FRG-105", level="FACT", text="the fragments decode as one network message", on=Fragment)
def _rubbish(scene: Scene) -> Iterator[Break]:
    if scene.layer.fields.get("M") or not scene.unbroken:
        return
    for remark in scene.heard.remarks:
        if remark.kind is RemarkKind.FRAGMENT and "no network message" in remark.text:
            yield Break(remark.text)
