"""A message as one line, the way tshark shows a packet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from scapy_layers.codes import CloseReason, InterestMode, OamId, Priority, What, WhatAmI
from scapy_layers.commands.filters import NS, full_name, key_of
from scapy_layers.commands.terminal import Colour, Piece
from scapy_layers.conversation import Heard, Unread
from scapy_layers.conversation.session import extension, zid_of
from scapy_layers.data import Del, Err, Put, Query, Reply
from scapy_layers.declarations import DeclareQueryable
from scapy_layers.encodings import is_text, name_of
from scapy_layers.extensions import (
    Budget,
    Drop,
    First,
    Patch,
    PutAttachment,
    QoS,
    QueryBody,
    Target,
    Timeout,
)
from scapy_layers.message import Layer, Message, UnknownExtension
from scapy_layers.network import Declare, Interest, NetworkOam, Request, Response, ResponseFinal
from scapy_layers.scouting import Hello, Scout
from scapy_layers.stream import Gap, Way
from scapy_layers.transport import Close, Fragment, Frame, Init, Join, Open

MOST_PREVIEW = 40
"""Characters of a payload that a line shows."""

MOST_KEY = 200
"""Characters of a key that a line shows."""

_ZID_SHOWN = 8

_NAME = 26
"""Columns of most names with what carries them."""


def line(item: Heard | Gap, start: int, *, zids: bool = False) -> Iterator[Piece]:
    """Yields the parts of a line.

    Args:
        item: What was heard, or was not.
        start: Time that counts as 0, ns.
        zids: Show ZenohIDs instead of addresses, where they are known.
    """
    yield Piece(f"{item.number:>5} {_seconds(item.time - start)}  ", Colour.DIM)
    ends = _zids(item) if zids and isinstance(item, Heard) else _addresses(item.way)
    yield Piece(f"{ends}  ")
    if isinstance(item, Gap):
        yield Piece(_lost(item), Colour.WRONG)
        return
    yield Piece(f"{'/'.join(_names(item)):<{_NAME}}", Colour.NAME)
    key = key_of(item)
    if key is not None:
        yield Piece(" ")
        yield Piece(_cut(key, MOST_KEY) or "(no key)", Colour.KEY)
    for text in _details(item):
        yield from (Piece(" "), text if isinstance(text, Piece) else Piece(text))
    if item.ignored:
        yield Piece(" ignored by receivers", Colour.NOTE)
    for remark in item.remarks:
        yield from (Piece(" "), Piece(f"[{remark.kind}: {remark.text}]", Colour.WRONG))


def _seconds(time: int) -> str:
    micros = time // 1000
    sign = "-" if micros < 0 else ""
    return f"{sign}{abs(micros) // 10**6}.{abs(micros) % 10**6:06}".rjust(11)


def _addresses(way: Way) -> str:
    return f"{way.source!s} -> {way.target!s}"


def _zids(heard: Heard) -> str:
    source = heard.source_zid and heard.source_zid[:_ZID_SHOWN]
    target = heard.target_zid and heard.target_zid[:_ZID_SHOWN]
    return f"{source or heard.way.source!s:<{_ZID_SHOWN}} -> {target or heard.way.target!s:<{_ZID_SHOWN}}"


def _lost(gap: Gap) -> str:
    missing = "an unknown number of bytes" if gap.missing is None else f"{gap.missing} bytes"
    lost = f"{missing} lost" if gap.missing != 0 else "nothing lost"
    skipped = f", {gap.skipped} bytes skipped" if gap.skipped else ""
    return f"GAP {lost}{skipped}: {gap.why}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


# Names --------------------------------------------------------------------------------------------


def _names(heard: Heard) -> Iterator[str]:
    """Yields the names from the outside in: FRAME, PUSH, PUT."""
    if heard.within is not None:
        yield str(heard.within.name)
    layer: Layer | None = heard.message
    while layer is not None:
        yield full_name(layer)
        body = layer.fields.get("body")
        layer = body if isinstance(body, Message) else None


# What is worth showing of each message ------------------------------------------------------------


def _details(heard: Heard) -> Iterator[Piece | str]:
    message = heard.message
    carrier = message if isinstance(message, Frame | Fragment) else heard.within
    if carrier is not None and "sn" in carrier.fields:
        yield Piece(f"sn={carrier.fields['sn']}{_lane(heard)}", Colour.DIM)
    if heard.pieces:
        yield Piece(f"from {len(heard.pieces)} fragments since packet {heard.pieces[0]}", Colour.DIM)
    yield from _shown(message)
    yield from _exchange(heard)


def _shown(layer: Layer) -> Iterator[Piece | str]:
    """Yields what is said about a layer and what it carries; what could not be read is left out."""
    show = _SHOW.get(type(layer))
    if show is not None and not layer.partial:
        yield from show(layer)
    elif layer.partial:
        yield Piece("not completely readable", Colour.NOTE)
    if layer.fields.get("Z"):
        yield from _unknown(layer)
    body = layer.fields.get("body")
    if isinstance(body, Message):
        yield from _shown(body)


def _unknown(layer: Layer) -> Iterator[Piece]:
    for one in layer.fields.get("extensions") or ():
        if isinstance(one, UnknownExtension):
            yield Piece(f"unknown-extension={one.header:#04x}", Colour.NOTE)


def _lane(heard: Heard) -> str:
    if heard.lane is None:
        return ""
    priority, reliable = heard.lane
    lane = "" if priority is Priority.DATA else f" {priority.name}"
    return lane + ("" if reliable else " best-effort")


def _exchange(heard: Heard) -> Iterator[Piece | str]:
    exchange = heard.exchange
    if exchange is None:
        return
    if isinstance(heard.message, Response | ResponseFinal) or exchange.kind == "scout":
        late = exchange.asked_time
        if heard.number != exchange.asked or heard.time != late:
            yield Piece(f"for packet {exchange.asked}, {_span(heard.time - late)} later", Colour.DIM)
    if isinstance(heard.message, ResponseFinal):
        yield Piece(f"with {exchange.answered} answer{'s' if exchange.answered != 1 else ''}", Colour.DIM)


def _span(ns: int) -> str:
    return f"{ns / NS:.3f} s" if abs(ns) >= NS else f"{ns / 1e6:.3f} ms"


def _who(layer: Layer) -> Iterator[str]:
    yield _named(WhatAmI, layer.whatami).lower()
    yield zid_of(layer) or "?"


def _named(codes: Any, value: int) -> str:
    try:
        return str(codes(value).name)
    except ValueError:
        return f"{value:#x}"


def _version(layer: Layer) -> Iterator[Piece]:
    if layer.version != 9:
        yield Piece(f"version={layer.version}", Colour.NOTE)


def _scout(message: Layer) -> Iterator[Piece | str]:
    yield from _version(message)
    roles = [role.name.lower() for role in What if role & message.what and role.name]
    yield f"for {', '.join(roles) or 'nobody'}"
    if message.I:
        yield zid_of(message) or "?"


def _hello(message: Layer) -> Iterator[Piece | str]:
    yield from _version(message)
    yield from _who(message)
    yield " ".join(str(locator) for locator in message.locators) if message.L else "(no locators)"


def _size(message: Layer) -> Iterator[str]:
    if message.S:
        yield f"batch={message.batch_size}"
        yield f"fsn={8 << message.fsn} rid={8 << message.rid}"


def _features(message: Layer) -> Iterator[str]:
    """Names the extensions of a handshake message."""
    for one in message.extensions or ():
        if isinstance(one, Patch) and not one.partial:
            yield f"Patch={one.patch}"
        elif not isinstance(one, UnknownExtension):
            yield str(one.name)


def _init(message: Layer) -> Iterator[Piece | str]:
    yield from _version(message)
    yield from _who(message)
    yield from _size(message)
    if message.A:
        yield f"cookie={len(message.cookie)} B"
    yield from _features(message)


def _lease(message: Layer) -> str:
    return f"lease={message.lease} s" if message.T else f"lease={message.lease} ms"


def _open(message: Layer) -> Iterator[Piece | str]:
    yield _lease(message)
    yield f"initial_sn={message.initial_sn}"
    if not message.A:
        yield f"cookie={len(message.cookie)} B"
    yield from _features(message)


def _join(message: Layer) -> Iterator[Piece | str]:
    yield from _version(message)
    yield from _who(message)
    yield from _size(message)
    yield _lease(message)
    yield f"next_sn={message.next_sn_re}/{message.next_sn_be}"
    yield from _features(message)


def _close(message: Layer) -> Iterator[Piece | str]:
    yield Piece(_named(CloseReason, message.reason), Colour.NOTE)
    yield "session" if message.S else "link"


def _frame(message: Layer) -> Iterator[Piece | str]:
    yield f"{len(message.messages)} messages" if len(message.messages) != 1 else "1 message"


def _fragment(message: Layer) -> Iterator[Piece | str]:
    marks = [
        name for name, kind in (("First", First), ("Drop", Drop)) if extension(message, kind) is not None
    ]
    yield from marks
    yield "more" if message.M else "last"
    yield f"{len(message.data)} B"


def _oam(message: Layer) -> Iterator[Piece | str]:
    yield _named(OamId, message.oam_id)
    state = message.fields.get("linkstate")
    if state is not None and not state.partial:
        count = len(state.records)
        yield f"{count} records" if count != 1 else "1 record"


def _request(message: Layer) -> Iterator[Piece | str]:
    yield f"id={message.request_id}"
    for kind, name in ((Target, "target"), (Budget, "budget"), (Timeout, "timeout")):
        found = extension(message, kind)
        if found is not None and not found.partial:
            said = found.getfieldval(name)
            yield f"{name}={_field(found, name)}" if kind is Target else f"{name}={said}"
    yield from _qos(message)


def _id(message: Layer) -> Iterator[Piece | str]:
    yield f"id={message.request_id}"


def _field(layer: Layer, name: str) -> str:
    shown = layer.get_field(name).i2repr(layer, layer.getfieldval(name))
    return str(shown).partition("(")[2].rstrip(")") or str(shown)


def _qos(message: Layer) -> Iterator[Piece]:
    found = extension(message, QoS)
    if found is None or found.partial:
        return
    said = [] if found.priority == Priority.DATA else [_named(Priority, found.priority)]
    said += [
        name for name, flag in (("block", found.D), ("express", found.E), ("block-first", found.F)) if flag
    ]
    if said:
        yield Piece(",".join(said), Colour.DIM)


def _interest(message: Layer) -> Iterator[Piece | str]:
    yield f"id={message.interest_id} {_named(InterestMode, message.mode)}"
    if message.mode:
        kinds = [
            k
            for k in ("keyexprs", "subscribers", "queryables", "tokens", "aggregate")
            if message.getfieldval(k)
        ]
        yield ",".join(kinds) or "(nothing)"


def _declare(message: Layer) -> Iterator[Piece | str]:
    if message.I:
        yield f"interest={message.interest_id}"
    body = message.fields.get("body")
    if body is not None:
        for name in ("key_id", "entity_id"):
            if name in body.fields:
                yield f"id={body.fields[name]}"


def _queryable(message: Layer) -> Iterator[Piece | str]:
    info = (message.extensions or [None])[0]
    if info is not None and "complete" in info.fields:
        if info.complete:
            yield "complete"
        if info.distance:
            yield f"distance={info.distance}"


def _put(message: Layer) -> Iterator[Piece | str]:
    code, schema = (message.encoding, message.schema) if message.E else (0, b"")
    if message.fields.get("data") is not None:
        yield from preview(message.data, code)
    else:
        count = len(message.fields.get("slices") or ())
        yield f"{count} slice{'s' if count != 1 else ''} in shared memory"
    if message.E:
        yield _cut(name_of(code, schema), MOST_PREVIEW)
    if extension(message, PutAttachment) is not None:
        yield "+attachment"


def _del(message: Layer) -> Iterator[Piece | str]:
    if len(message.extensions or ()) and any("Attachment" in str(one.name) for one in message.extensions):
        yield "+attachment"


def _query(message: Layer) -> Iterator[Piece | str]:
    if message.P:
        yield f"?{_cut(_text(message.parameters), MOST_PREVIEW)}"
    body = extension(message, QueryBody)
    if body is not None and not body.partial:
        yield from preview(body.data, body.encoding)


def _reply(_message: Layer) -> Iterator[Piece | str]:
    return iter(())


def _err(message: Layer) -> Iterator[Piece | str]:
    code = message.encoding if message.E else 0
    if message.fields.get("data") is not None:
        yield from preview(message.data, code)


def _unread(message: Layer) -> Iterator[Piece | str]:
    yield f"{len(message.data)} B: {message.data[:16].hex(' ')}"


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else bytes(value).decode("utf-8", "backslashreplace")


def preview(data: bytes, code: int = 0) -> Iterator[Piece | str]:
    """Yields the size of a payload, and how it begins: as text when it is that, else in hexadecimal."""
    yield Piece(f"{len(data)} B", Colour.DIM)
    if not data:
        return
    head = bytes(data[: 4 * MOST_PREVIEW])
    text = head.decode("utf-8", "ignore" if len(data) > len(head) else "replace")
    if is_text(name_of(code)) or (code == 0 and text.isprintable() and "\ufffd" not in text):
        shown = _cut(text, MOST_PREVIEW)
        more = "" if len(head) == len(data) or shown.endswith("...") else "..."
        yield Piece(f'"{shown}{more}"', Colour.VALUE)
    else:
        more = "..." if len(data) > MOST_PREVIEW // 2 else ""
        yield Piece(f"0x{head[: MOST_PREVIEW // 2].hex()}{more}", Colour.VALUE)


_SHOW: Mapping[type[Layer], Callable[[Layer], Iterator[Piece | str]]] = {
    Scout: _scout,
    Hello: _hello,
    Init: _init,
    Open: _open,
    Join: _join,
    Close: _close,
    Frame: _frame,
    Fragment: _fragment,
    NetworkOam: _oam,
    Request: _request,
    Response: _id,
    ResponseFinal: _id,
    Interest: _interest,
    Declare: _declare,
    DeclareQueryable: _queryable,
    Put: _put,
    Del: _del,
    Query: _query,
    Reply: _reply,
    Err: _err,
    Unread: _unread,
}
