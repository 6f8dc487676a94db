"""The bytes themselves: reserved bits, the form of extensions, sizes of integers, what a decoder refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

from scapy_layers import extensions as ext
from scapy_layers import shape
from scapy_layers.conversation import RemarkKind, Unread
from scapy_layers.data import Del, Err, Put, Query, Reply
from scapy_layers.declarations import (
    DeclareFinal,
    DeclareKeyExpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    UndeclareKeyExpr,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
from scapy_layers.lint.notes import Scene
from scapy_layers.lint.rule import PICO, Break, Level, rule
from scapy_layers.message import Extension, Layer, UnknownExtension
from scapy_layers.network import Declare, Interest, NetworkOam, Push, Request, Response, ResponseFinal
from scapy_layers.primitives import Counted, WideInt, vle_size
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Close, Fragment, Frame, Init, Join, KeepAlive, Open, TransportOam

_BODIES = (
    DeclareFinal,
    DeclareKeyExpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    UndeclareKeyExpr,
    UndeclareQueryable,
    UndeclareSubscriber,
    UndeclareToken,
)
_NETWORK = (Interest, ResponseFinal, Response, Request, Push, Declare, NetworkOam)
_TRANSPORT = (TransportOam, Init, Open, Close, KeepAlive, Frame, Fragment, Join)
_DATA = (Put, Del, Query, Reply, Err)
_ALL = (Scout, Hello, *_TRANSPORT, *_NETWORK, *_BODIES, *_DATA)


# Reserved bits --------------------------------------------------------------------------------------


@cache
def _reserved(shapes: tuple[shape.Shape, ...]) -> tuple[str, ...]:
    """Returns the fields of a layer whose bits mean nothing."""
    return tuple(
        bits.name
        for described in shape.walk(shapes)
        if isinstance(described, shape.Packed)
        for bits in described.bits
        if bits.reserved
    )


def _bits_set(layer: Layer, choose: Callable[[str], bool]) -> Iterator[str]:
    for name in _reserved(layer.wire_shapes()):
        value = layer.fields.get(name)
        if value and choose(name):
            yield f"{layer.name}: bits {value:#x} at {name.removeprefix('reserved').lstrip('_')}"


def _any(_name: str) -> bool:
    return True


def _reserved_rule(
    number: str,
    on: type[Layer] | tuple[type[Layer], ...],
    text: str,
    level: Level = "FACT",
    choose: Callable[[str], bool] = _any,
) -> None:
    def check(scene: Scene) -> Iterator[Break]:
        for found in _bits_set(scene.layer, choose):
            yield Break(found)

    rule(number, level=level, text=text, on=on)(check)


def _in_header(name: str) -> bool:
    return name.startswith("reserved_")


def _in_packed_byte(name: str) -> bool:
    return name == "reserved2"


def _in_resolution(name: str) -> bool:
    return name == "reserved4"


_reserved_rule("ZN-SCT-011", Scout, "bits 6 and 5 of SCOUT's header are not used")
_reserved_rule("ZN-HLO-005", Hello, "bit 6 of HELLO's header is zero", choose=_in_header)
_reserved_rule("ZN-HLO-008", Hello, "bits 3:2 of HELLO's packed byte are zero", "MUST", _in_packed_byte)
_reserved_rule("ZN-INIT-016", Init, "bits 3:2 of INIT's packed byte are zero", choose=_in_packed_byte)
_reserved_rule("ZN-INIT-021", Init, "bits 7:4 of the resolution byte are zero", "MUST", _in_resolution)
_reserved_rule("ZN-JOIN-001", Join, "reserved bits of JOIN are zero")
_reserved_rule("ZN-CLS-001", Close, "bit 6 of CLOSE's header is not used")
_reserved_rule("ZN-KA-001", KeepAlive, "of KEEP_ALIVE's flags only Z may be set")
_reserved_rule("ZN-FRM-001", Frame, "bit 6 of FRAME's header is zero")
_reserved_rule("ZN-FIN-001", ResponseFinal, "of RESPONSE_FINAL's flags only Z may be set")
_reserved_rule("ZN-DCL-001", Declare, "bit 6 of DECLARE's header is not used")
_reserved_rule("ZN-DEL-001", Del, "bit 6 of DEL's header is not used")
_reserved_rule("ZN-RPL-001", Reply, "bit 6 of REPLY's header is not used")


def _inside_rule(number: str, on: tuple[type[Layer], ...], kind: type[Extension], text: str) -> None:
    """Registers a rule about the reserved bits of an extension."""

    def check(scene: Scene) -> Iterator[Break]:
        for one in scene.layer.fields.get("extensions") or ():
            if type(one) is kind:
                for found in _bits_set(one, _any):
                    yield Break(found)

    rule(number, level="FACT", text=text, on=on)(check)


_inside_rule("ZN-NET-010", _NETWORK, ext.QoS, "bits 7:6 of a QoS value are zero")
_inside_rule("ZN-FRM-008", (Frame, Fragment), ext.Lane, "a lane is 0 to 7: bits 7:3 are zero")
_inside_rule("ZN-RSP-006", (Response,), ext.ResponderId, "bits 3:0 in ResponderId are zero")


@rule("ZN-NET-009", level="FACT", text="BlockFirst needs patch 1", on=_NETWORK)
def _block_first(scene: Scene) -> Iterator[Break]:
    if scene.session is None or scene.session.patch != 0:
        return
    for one in scene.layer.fields.get("extensions") or ():
        if type(one) is ext.QoS and one.fields.get("F"):
            yield Break("BlockFirst at patch 0")


# Extensions -----------------------------------------------------------------------------------------

_FORMS: Mapping[type[Layer], Mapping[int, str]] = {
    TransportOam: {1: "ZN-OAM-004"},
    Init: dict.fromkeys(range(1, 9), "ZN-INIT-042"),
    Open: dict.fromkeys(range(1, 8), "ZN-OPEN-025"),
    Frame: {1: "ZN-FRM-007"},
    Fragment: {1: "ZN-FRG-104", 2: "ZN-FRG-005", 3: "ZN-FRG-005"},
    NetworkOam: {1: "ZN-OAM-006", 2: "ZN-OAM-006"},
    Push: {1: "ZN-NET-004", 2: "ZN-NET-013", 3: "ZN-RTE-010"},
    Request: {1: "ZN-NET-004", 2: "ZN-NET-013", **dict.fromkeys(range(3, 7), "ZN-REQ-102")},
    Response: {1: "ZN-NET-004", 2: "ZN-NET-013", 3: "ZN-RSP-006"},
    ResponseFinal: {1: "ZN-FIN-006", 2: "ZN-FIN-006"},
    Declare: {1: "ZN-DCL-003", 2: "ZN-DCL-003", 3: "ZN-DCL-003"},
    Interest: {1: "ZN-INT-006", 2: "ZN-INT-006", 3: "ZN-INT-006"},
    DeclareQueryable: {1: "ZN-DCL-105"},
}
"""Known extensions whose ENC and M a requirement states: one with the id but another header is a mistake."""


def _form_rule(number: str) -> None:
    layers = tuple(cls for cls, known in _FORMS.items() if number in known.values())

    def check(scene: Scene) -> Iterator[Break]:
        for one in scene.layer.fields.get("extensions") or ():
            if (
                type(one) is UnknownExtension
                and _FORMS[type(scene.layer)].get(one.fields["ext_id"]) == number
            ):
                yield Break(
                    f"{scene.layer.name} extension {one.fields['ext_id']:#x} with header {one.header:#04x}"
                )

    rule(number, level="FACT", text="known extensions have the encoding and the M of the table", on=layers)(
        check
    )


for _number in sorted({number for known in _FORMS.values() for number in known.values()}):
    _form_rule(_number)


@rule("ZN-DEL-002", level="FACT", text="the attachment of a DEL is extension 0x2", on=Del)
def _pico_attachment(scene: Scene) -> Iterator[Break]:
    if any(type(one) is ext.PutAttachment for one in scene.layer.fields.get("extensions") or ()):
        yield Break("an attachment as extension 0x3", PICO)


# Integers -------------------------------------------------------------------------------------------


@cache
def _sizes(shapes: tuple[shape.Shape, ...]) -> Mapping[str, int]:
    """Returns for each VLE field of a layer how many bytes it may have: z8 2, z16 3, z32 5, z64 9."""
    sizes: dict[str, int] = {}
    for described in shape.walk(shapes):
        if isinstance(described, shape.Vle | shape.CountedBytes):
            sizes[described.name] = min((described.z + 6) // 7, 9)
    return sizes


@rule(
    "ZN-VLE-102", level="FACT", text="a VLE integer fits its type: z8 2 bytes, z16 3, z32 5, z64 9", on=_ALL
)
def _wide(scene: Scene) -> Iterator[Break]:
    for layer in (scene.layer, *(scene.layer.fields.get("extensions") or ())):
        for name, value in layer.fields.items():
            if type(value) in _WIDE or (type(value) is int and value >> 7):
                size = _sizes(layer.wire_shapes()).get(name, 9)
                width = vle_size(value) if type(value) is int else value.width
                if width is not None and width > size:
                    yield Break(f"{layer.name}.{name} in {width} bytes")


_WIDE = frozenset({WideInt, Counted})
"""Integers, and bytes behind one, that may take more bytes than they need."""


# What a decoder refuses -------------------------------------------------------------------------------

_REFUSED: Mapping[type[Layer], str] = {
    Scout: "ZN-SCT-013",
    Hello: "ZN-HLO-006",
    TransportOam: "ZN-OAM-001",
    Init: "ZN-INIT-013",
    Open: "ZN-OPEN-002",
    Close: "ZN-CLS-005",
    KeepAlive: "ZN-KA-002",
    Frame: "ZN-FRM-004",
    Fragment: "ZN-FRG-001",
    Join: "ZN-JOIN-004",
    Interest: "ZN-INT-003",
    ResponseFinal: "ZN-FIN-001",
    Response: "ZN-RSP-007",
    Request: "ZN-REQ-005",
    Push: "ZN-PUSH-006",
    Declare: "ZN-DCL-004",
    NetworkOam: "ZN-OAM-005",
    Unread: "ZN-MSG-010",
}
_CONTENT = {
    "ZN-MSG-010": "every message opens with a header byte that says what it is",
    "ZN-FRM-004": "messages fill the rest of a FRAME",
}


def _refused_rule(cls: type[Layer], number: str) -> None:
    def check(scene: Scene) -> Iterator[Break]:
        for remark in scene.heard.remarks:
            if remark.kind is RemarkKind.REFUSED and not _has_its_own(remark.text):
                yield Break(remark.text)

    text = _CONTENT.get(
        number, f"a {cls.shape().name if hasattr(cls, 'shape') else 'message'} can be decoded"
    )
    rule(number, level="FACT", text=text, on=cls)(check)


def _has_its_own(text: str) -> bool:
    return _is_mandatory(text) or _is_reserved_encoding(text) or _is_role(text)


def _is_mandatory(text: str) -> bool:
    return "mandatory" in text


def _is_reserved_encoding(text: str) -> bool:
    return "reserved encoding" in text


def _is_role(text: str) -> bool:
    return ".whatami at" in text


for _cls, _number in _REFUSED.items():
    _refused_rule(_cls, _number)


def _named_rule(number: str, fits: Callable[[str], bool], text: str, on: tuple[type[Layer], ...]) -> None:
    def check(scene: Scene) -> Iterator[Break]:
        for remark in scene.heard.remarks:
            if remark.kind is RemarkKind.REFUSED and fits(remark.text):
                yield Break(remark.text)

    rule(number, level="FACT", text=text, on=on)(check)


_WHOLE = (*_TRANSPORT, *_NETWORK, Unread)
_named_rule("ZN-EXT-103", _is_mandatory, "extensions that the version does not define are optional", _WHOLE)
_named_rule("ZN-EXT-104", _is_reserved_encoding, "encoding 11 is reserved", _WHOLE)
_named_rule("ZN-INIT-019", _is_role, "role code 11 has no meaning", (Init, Join))
