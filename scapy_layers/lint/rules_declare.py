"""DECLARE and INTEREST. Spec: Declarations; Interests."""

from __future__ import annotations

from collections.abc import Iterator

from scapy_layers.codes import InterestMode
from scapy_layers.conversation import RemarkKind
from scapy_layers.declarations import (
    DeclareFinal,
    DeclareKeyExpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
)
from scapy_layers.errors import BadValue
from scapy_layers.keyexpr import intersects
from scapy_layers.lint.notes import InterestNotes, Scene
from scapy_layers.lint.rule import ECLIPSE, Break, rule
from scapy_layers.network import Declare

_KINDS = {
    DeclareKeyExpr: "keyexprs",
    DeclareSubscriber: "subscribers",
    DeclareQueryable: "queryables",
    DeclareToken: "tokens",
}


@rule(
    "ZN-DCL-101",
    level="FACT",
    text="what is undeclared was declared, and an entity keeps its key",
    on=Declare,
)
def _entity(scene: Scene) -> Iterator[Break]:
    for remark in scene.heard.remarks:
        if remark.kind is RemarkKind.DECLARATION:
            yield Break(remark.text)


def _asked(scene: Scene) -> InterestNotes | None:
    """Returns the interest that a declaration says to answer."""
    if scene.session is None or not scene.layer.fields.get("I"):
        return None
    number = scene.layer.fields.get("interest_id", -1)
    return scene.memory.interests.get((scene.session.number, scene.receiver, number))


@rule(
    "ZN-DCL-002",
    "ZN-INT-002",
    level="FACT",
    text="the interest id is that of an INTEREST of the other end",
    on=Declare,
)
def _unasked(scene: Scene) -> Iterator[Break]:
    parties, number = scene.parties, scene.layer.fields.get("interest_id")
    if parties is None or not scene.layer.fields.get("I") or scene.heard.interest is not None:
        return
    # With id 0 peers say unasked that all they had to declare at the beginning is told.
    if not number or _asked(scene) is not None or scene.session is None or scene.session.multicast:
        return
    if (scene.session.number, scene.receiver, number) in scene.memory.withdrawn:
        return
    # A datagram with the interest may have been lost; only the next one of its lane will tell.
    heard = parties[1].complete and scene.link.whole[1 - scene.side] and scene.heard.way.link.tcp
    if heard and scene.link.live:
        yield Break(f"an answer to interest {int(number)}, which is not open")


@rule("ZN-INT-102", level="FACT", text="an interest in the future only gets no D_FINAL", on=Declare)
def _future(scene: Scene) -> Iterator[Break]:
    asked = _asked(scene)
    if asked is not None and isinstance(scene.layer.fields.get("body"), DeclareFinal):
        if asked.mode == InterestMode.FUTURE:
            yield Break(f"D_FINAL for interest {asked.id} of packet {asked.number}", ECLIPSE)
        asked.answered = True


@rule("ZN-INT-004", level="FACT", text="an interest is answered with the kinds it asks for", on=Declare)
def _kind(scene: Scene) -> Iterator[Break]:
    asked = _asked(scene)
    body = scene.layer.fields.get("body")
    kind = _KINDS.get(type(body))
    if asked is None or kind is None or kind in asked.kinds:
        return
    yield Break(f"{body.name} for an interest in {_wanted(asked)}")


def _wanted(asked: InterestNotes) -> str:
    return ", ".join(kind for kind in _KINDS.values() if kind in asked.kinds) or "nothing"


@rule(
    "ZN-INT-105",
    level="FACT",
    text="a restricted interest is answered with what intersects its key",
    on=Declare,
)
def _outside(scene: Scene) -> Iterator[Break]:
    interest, key, body = scene.heard.interest, scene.heard.keyexpr, scene.layer.fields.get("body")
    if interest is None or not interest.keyexpr or not key or isinstance(body, DeclareKeyExpr | DeclareFinal):
        return
    try:
        meets = intersects(interest.keyexpr, key)
    except BadValue:
        return
    if not meets:
        yield Break(f"{key!r} in answer to {interest.keyexpr!r}")


@rule("ZN-INT-106", level="FACT", text="aggregate folds matches into the interest's own key", on=Declare)
def _folded(scene: Scene) -> Iterator[Break]:
    asked, interest, key = _asked(scene), scene.heard.interest, scene.heard.keyexpr
    if asked is None or interest is None or not asked.aggregate:
        return
    folds = isinstance(scene.layer.fields.get("body"), DeclareSubscriber | DeclareQueryable)
    if folds and interest.keyexpr and key and key != interest.keyexpr:
        yield Break(f"{key!r} instead of {interest.keyexpr!r}")
