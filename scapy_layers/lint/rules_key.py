"""Keys: valid and canonical, aliases declared before they are used. Spec: Key Expressions; WireExpr."""

from __future__ import annotations

from collections.abc import Iterator

from scapy_layers.conversation import RemarkKind
from scapy_layers.declarations import DeclareKeyExpr, UndeclareKeyExpr
from scapy_layers.errors import BadValue
from scapy_layers.keyexpr import canonical
from scapy_layers.lint.notes import Scene
from scapy_layers.lint.rule import ECLIPSE, Break, rule
from scapy_layers.network import Declare, Interest, Push, Request, Response

_KEYED = (Push, Request, Response, Interest, Declare)


def _judged(scene: Scene) -> str | None:
    """Returns the key that has to be one.

    An alias may be a piece of a key. What an undeclaration does not say it takes from its declaration.
    """
    key = scene.heard.keyexpr
    if key is None:
        return None
    body = scene.layer.fields.get("body")
    if isinstance(scene.layer, Declare) and (
        isinstance(body, DeclareKeyExpr) or body is None or str(body.name).startswith("U_")
    ):
        return None
    return key


@rule("ZN-KEX-101", level="FACT", text="keys are chunks parted by slashes, without stray $ * # ?", on=_KEYED)
def _valid(scene: Scene) -> Iterator[Break]:
    key = _judged(scene)
    if key is None:
        return
    try:
        canonical(key)
    except BadValue as error:
        # Real nodes tell of a timeout with a RESPONSE without a key.
        timeout = not key and isinstance(scene.layer, Response)
        yield Break(error.found, ECLIPSE if timeout else None)


@rule("ZN-KEX-102", level="FACT", text="only canonical key expressions travel", on=_KEYED)
def _canonical(scene: Scene) -> Iterator[Break]:
    key = _judged(scene)
    if key is None:
        return
    try:
        better = canonical(key)
    except BadValue:
        return
    if better != key:
        yield Break(f"{key!r} instead of {better!r}")


@rule(
    "ZN-DCL-102",
    "ZN-PUSH-004",
    level="FACT",
    text="an alias is declared before it is used, and once",
    on=_KEYED,
)
def _alias(scene: Scene) -> Iterator[Break]:
    if isinstance(scene.layer.fields.get("body"), UndeclareKeyExpr):
        return
    for remark in scene.heard.remarks:
        if remark.kind is RemarkKind.ALIAS:
            yield Break(remark.text)


@rule("ZN-DCL-103", level="FACT", text="U_KEYEXPR takes back an alias that is declared", on=Declare)
def _taken_back(scene: Scene) -> Iterator[Break]:
    if isinstance(scene.layer.fields.get("body"), UndeclareKeyExpr):
        for remark in scene.heard.remarks:
            if remark.kind is RemarkKind.ALIAS:
                yield Break(remark.text)


@rule("ZN-PUSH-002", level="FACT", text="ExprId 0 is the global scope, no alias", on=DeclareKeyExpr)
def _zero(scene: Scene) -> Iterator[Break]:
    if scene.layer.fields.get("key_id") == 0:
        yield Break("an alias of number 0")
