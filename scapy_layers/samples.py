"""What travelled: values, deletions, queries, replies and declarations, recovered from a capture.

``samples(listen(capture.read(path)))`` yields one record for each event. What receivers drop is not among them:
duplicates by sequence number, messages where none may stand. What a decoder refuses is, as far as it could be
read, with a remark. ``docs/formats.md`` describes each field as JSON has it; names are the same here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

from scapy_layers import encodings, extensions
from scapy_layers.codes import Consolidation, Encoding, InterestMode, Priority, QueryTarget, What, WhatAmI
from scapy_layers.conversation import Heard
from scapy_layers.data import Del, Err, Put, Reply
from scapy_layers.data import Query as QueryBody
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
from scapy_layers.keyexpr import intersects, is_valid
from scapy_layers.message import Layer
from scapy_layers.network import Declare, Push, Request, Response, ResponseFinal
from scapy_layers.network import Interest as InterestMessage
from scapy_layers.primitives import zid_to_text
from scapy_layers.ros2 import Ros2Attachment, from_attachment
from scapy_layers.scouting import Hello, Scout
from scapy_layers.stream import Gap


class EventKind(StrEnum):
    """What happened."""

    PUT = "put"
    DELETE = "delete"
    QUERY = "query"
    REPLY = "reply"
    REPLY_ERR = "reply_err"
    FINAL = "final"
    KEYEXPR = "keyexpr"
    SUBSCRIBER = "subscriber"
    QUERYABLE = "queryable"
    TOKEN = "token"  # noqa: S105  (a liveliness token is no secret)
    UNDECLARE_KEYEXPR = "undeclare_keyexpr"
    UNDECLARE_SUBSCRIBER = "undeclare_subscriber"
    UNDECLARE_QUERYABLE = "undeclare_queryable"
    UNDECLARE_TOKEN = "undeclare_token"  # noqa: S105
    INTEREST = "interest"
    INTEREST_FINAL = "interest_final"
    DECLARE_FINAL = "declare_final"
    SCOUT = "scout"
    HELLO = "hello"


class Stamp(NamedTuple):
    """A timestamp: NTP64 (seconds << 32 | fraction) and the id of the clock, as text."""

    time: int
    id: str


class Entity(NamedTuple):
    """An entity of a node: its ZenohID as text, and its number there."""

    zid: str
    eid: int


class Source(NamedTuple):
    """Which entity sent a value, and the number that it gave it."""

    zid: str
    eid: int
    sn: int


@dataclass(frozen=True, slots=True)
class Shared:
    """A piece of a payload that stands in shared memory, not on the wire."""

    size: int
    segment_id: int
    index: int
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all events have.

    Attributes:
        event: What happened.
        packet: Number of the packet in which the message ended, from 1.
        packets: Numbers of the packets of its FRAGMENTs; empty when it was not fragmented.
        time: Of the packet, ns since 1970; 0 when the capture has no times.
        link: ``address:port -> address:port``.
        source_zid: ZenohID of the node that sent it; None when no handshake was captured.
        target_zid: Of the node that it was sent to; None as well for a group.
        keyexpr: Full key expression; None when there is none, or its alias was declared before the capture.
        remarks: What is wrong with the message, in words.
    """

    event: EventKind
    packet: int
    packets: tuple[int, ...]
    time: int
    link: str
    source_zid: str | None
    target_zid: str | None
    keyexpr: str | None
    remarks: tuple[str, ...]

    def as_data(self) -> dict[str, Any]:
        """Returns what JSON can say: bytes as hexadecimal, records as objects; no field is ever left out."""
        return {name: _plain(getattr(self, name)) for name in _FIELDS[type(self)]}

    def as_json(self, file: str | None = None) -> str:
        """Returns one line of JSON, with the name of its capture when one is given."""
        data = self.as_data()
        return json.dumps(data if file is None else data | {"file": file})


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried(Event):
    """What all events have that are network messages.

    Attributes:
        priority: 0 to 7; 5 when the message says none.
        priority_name: Its name.
        congestion_control: ``drop``, ``block`` or ``block_first``.
        express: Sent at once instead of waiting for company.
        reliable: By a reliable lane; None in low latency, which has no lanes.
        timestamp: Of the value, else of the message.
    """

    priority: int
    priority_name: str
    congestion_control: str
    express: bool
    reliable: bool | None
    timestamp: Stamp | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Content(Carried):
    """What events have that may bring a payload.

    Attributes:
        payload: The bytes; None when there is none, or not all of it is on the wire.
        shared: The pieces of it that stand in shared memory.
        encoding: Its number; None without payload.
        encoding_name: As text, such as ``text/plain;utf8``.
        schema: What the encoding says beyond its number, bytes that are no UTF-8 escaped; None when it does not.
        schema_hex: The same, exactly.
        attachment: The bytes beside the payload.
        ros2: What they say if rmw_zenoh has written them.
        source_info: Which entity sent it.
    """

    payload: bytes | None
    shared: tuple[Shared, ...]
    encoding: int | None
    encoding_name: str | None
    schema: str | None
    schema_hex: bytes | None
    attachment: bytes | None
    ros2: Ros2Attachment | None
    source_info: Source | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Content):
    """A value put, or a key deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query(Content):
    """A query; the payload is what it brings along.

    Attributes:
        request_id: Number that ties replies to it, on this session.
        parameters: What stands behind ``?`` in a selector.
        consolidation: ``auto``, ``none``, ``monotonic``, ``latest``, or a number without name.
        target: ``best_matching``, ``all``, ``all_complete``, or a number without name.
        budget: Most replies wanted; None for any number.
        timeout: How long to wait for them, ms; None when not said.
    """

    request_id: int | None
    parameters: str
    consolidation: str | int
    target: str | int
    budget: int | None
    timeout: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Content):
    """A reply to a query, or an error.

    Attributes:
        kind: ``put`` or ``delete``; None for an error.
        request_id: As in the query.
        request_packet: Packet of the query; None when it was not captured.
        latency: From there to here, ns.
        responder: Who answers.
    """

    kind: str | None
    request_id: int | None
    request_packet: int | None
    latency: int | None
    responder: Entity | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Final(Carried):
    """No more replies come.

    Attributes:
        request_id: As in the query.
        request_packet: Packet of the query; None when it was not captured.
        latency: From there to here, ns.
        replies: How many replies and errors came.
    """

    request_id: int | None
    request_packet: int | None
    latency: int | None
    replies: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration(Carried):
    """Something is declared or taken back.

    Attributes:
        entity_id: Number of a subscriber, queryable or token.
        key_id: Number of an alias.
        interest_id: The interest that is answered; None when it is not about one.
        complete: The queryable has all values of its key; None for anything else.
        distance: Hops to the queryable; None for anything else.
        declared_packet: Packet in which it was declared before; None when it was not, or that was not captured.
    """

    entity_id: int | None
    key_id: int | None
    interest_id: int | None
    complete: bool | None
    distance: int | None
    declared_packet: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interest(Carried):
    """An interest in declarations begins or ends, or all that there was is told.

    Attributes:
        interest_id: Number that ties declarations to it, on this session.
        mode: ``current``, ``future``, ``current_future`` or ``final``; None for ``declare_final``.
        options: Which of ``keyexprs``, ``subscribers``, ``queryables``, ``tokens``, ``aggregate``.
        interest_packet: Packet of the INTEREST that this is about; None in itself, and when it was not captured.
        latency: From there to here, ns.
    """

    interest_id: int | None
    mode: str | None
    options: tuple[str, ...]
    interest_packet: int | None
    latency: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scouting(Event):
    """A node looks for others, or is found.

    Attributes:
        what: Roles that a SCOUT looks for; empty for a HELLO.
        whatami: Role of the node that says HELLO.
        locators: Where it can be reached.
        scout_packet: Packet of the SCOUT; None when it was not captured.
        latency: From there to here, ns.
    """

    what: tuple[str, ...]
    whatami: str | None
    locators: tuple[str, ...]
    scout_packet: int | None
    latency: int | None


def samples(heard: Iterable[Heard | Gap]) -> Iterator[Event]:
    """Yields what travelled, in the order of the capture."""
    for one in heard:
        event = None if isinstance(one, Gap) else event_of(one)
        if event:
            yield event


def event_of(heard: Heard) -> Event | None:
    """Returns the event that a message is, None when it is none or receivers drop it."""
    read = _READERS.get(type(heard.message))
    return read(heard) if read and not heard.ignored else None


def matches(pattern: str, keyexpr: str | None) -> bool:
    """Tells whether some key is matched by a valid pattern and by what was captured, whatever that is."""
    return keyexpr is not None and is_valid(keyexpr) and intersects(pattern, keyexpr)


# Reading messages ---------------------------------------------------------------------------------


def _push(heard: Heard) -> Event | None:
    body = heard.message.fields.get("body")
    if not isinstance(body, Put | Del):
        return None
    kind = EventKind.PUT if isinstance(body, Put) else EventKind.DELETE
    return Sample(**_carried(heard, kind, body), **_value(body))


def _request(heard: Heard) -> Event | None:
    body = heard.message.fields.get("body")
    if not isinstance(body, QueryBody):
        return None
    own, inner = _extensions(heard.message), _extensions(body)
    value = inner.get(extensions.QueryBody) or inner.get(extensions.QueryBodySliced)
    return Query(
        **_carried(heard, EventKind.QUERY),
        **_content(value, inner),
        request_id=_field(heard.message, "request_id"),
        parameters=_text(_field(body, "parameters") or ""),
        consolidation=_named(Consolidation, _field(body, "consolidation") or 0),
        target=_named(QueryTarget, _field(own.get(extensions.Target), "target") or 0),
        budget=_field(own.get(extensions.Budget), "budget"),
        timeout=_field(own.get(extensions.Timeout), "timeout"),
    )


def _response(heard: Heard) -> Event | None:
    body = heard.message.fields.get("body")
    responder = _extensions(heard.message).get(extensions.ResponderId)
    zid, eid = _field(responder, "zid"), _field(responder, "eid")
    common: dict[str, Any] = {
        **_asked(heard),
        "responder": None if zid is None or eid is None else Entity(zid_to_text(zid), eid),
    }
    if isinstance(body, Err):
        error = _content(body, _extensions(body))
        return Answer(**_carried(heard, EventKind.REPLY_ERR), **error, kind=None, **common)
    value = body.fields.get("body") if isinstance(body, Reply) else None
    if not isinstance(value, Put | Del):
        return None
    kind = "put" if isinstance(value, Put) else "delete"
    return Answer(**_carried(heard, EventKind.REPLY, value), **_value(value), kind=kind, **common)


def _final(heard: Heard) -> Event:
    replies = heard.exchange.answered if heard.exchange else None
    return Final(**_carried(heard, EventKind.FINAL), **_asked(heard), replies=replies)


def _declare(heard: Heard) -> Event | None:
    body = heard.message.fields.get("body")
    if isinstance(body, DeclareFinal):
        return Interest(
            **_carried(heard, EventKind.DECLARE_FINAL),
            **_of_interest(heard),
            mode=None,
            options=(),
        )
    kind = _DECLARATIONS.get(type(body))
    if body is None or kind is None:
        return None
    queryable = isinstance(body, DeclareQueryable)
    info = _extensions(body).get(extensions.QueryableInfo) if queryable else None
    return Declaration(
        **_carried(heard, kind),
        entity_id=_field(body, "entity_id"),
        key_id=_field(body, "key_id"),
        interest_id=_field(heard.message, "interest_id"),
        complete=bool(_field(info, "complete")) if queryable else None,
        distance=_field(info, "distance") or 0 if queryable else None,
        declared_packet=_since(heard)[0],
    )


def _interest(heard: Heard) -> Event | None:
    message = heard.message
    mode = _field(message, "mode")
    if mode is None:
        return None
    final = mode == InterestMode.FINAL
    return Interest(
        **_carried(heard, EventKind.INTEREST_FINAL if final else EventKind.INTEREST),
        **_of_interest(heard),
        mode=InterestMode(mode).name.lower(),
        options=tuple(name for name in _OPTIONS if _field(message, name)),
    )


def _scout(heard: Heard) -> Event:
    roles = _field(heard.message, "what") or 0
    return Scouting(
        **_common(heard, EventKind.SCOUT),
        what=tuple(str(role.name).lower() for role in What if role & roles),
        whatami=None,
        locators=(),
        scout_packet=None,
        latency=None,
    )


def _hello(heard: Heard) -> Event:
    role = _field(heard.message, "whatami")
    packet, latency = _since(heard)
    return Scouting(
        **_common(heard, EventKind.HELLO),
        what=(),
        whatami=None if role is None else str(_named(WhatAmI, role)),
        locators=tuple(map(_text, _field(heard.message, "locators") or ())),
        scout_packet=packet,
        latency=latency,
    )


_READERS: Mapping[type[Layer], Callable[[Heard], Event | None]] = {
    Push: _push,
    Request: _request,
    Response: _response,
    ResponseFinal: _final,
    Declare: _declare,
    InterestMessage: _interest,
    Scout: _scout,
    Hello: _hello,
}

_DECLARATIONS: Mapping[type[Layer], EventKind] = {
    DeclareKeyExpr: EventKind.KEYEXPR,
    DeclareSubscriber: EventKind.SUBSCRIBER,
    DeclareQueryable: EventKind.QUERYABLE,
    DeclareToken: EventKind.TOKEN,
    UndeclareKeyExpr: EventKind.UNDECLARE_KEYEXPR,
    UndeclareSubscriber: EventKind.UNDECLARE_SUBSCRIBER,
    UndeclareQueryable: EventKind.UNDECLARE_QUERYABLE,
    UndeclareToken: EventKind.UNDECLARE_TOKEN,
}

_OPTIONS = ("keyexprs", "subscribers", "queryables", "tokens", "aggregate")


# Parts of messages --------------------------------------------------------------------------------

_NO_EXTENSIONS: dict[type[Layer], Layer] = {}


def _extensions(layer: Layer) -> dict[type[Layer], Layer]:
    """Returns the extensions by class; of several equal ones the last counts, as in nodes."""
    chain = layer.fields.get("extensions")
    return {type(one): one for one in chain} if chain else _NO_EXTENSIONS


def _field(layer: Layer | None, name: str) -> Any:
    """Returns what was read of a field, None when it is not there."""
    return None if layer is None else layer.fields.get(name)


def _common(heard: Heard, kind: EventKind) -> dict[str, Any]:
    way = heard.way
    # Errors and ends name no key: they are about that of the query. Nothing has an empty one.
    keyexpr = heard.keyexpr or (heard.exchange and heard.exchange.keyexpr) or None
    return {
        "event": kind,
        "packet": heard.number,
        "packets": heard.pieces,
        "time": heard.time,
        "link": f"{way.source} -> {way.target}",
        "source_zid": heard.source_zid,
        "target_zid": heard.target_zid,
        "keyexpr": None if keyexpr is None else _text(keyexpr),
        "remarks": tuple(_text(remark.text) for remark in heard.remarks),
    }


def _carried(heard: Heard, kind: EventKind, body: Layer | None = None) -> dict[str, Any]:
    """Returns what ``Carried`` has.

    Args:
        heard: The message.
        kind: What happened.
        body: PUT or DEL.
    """
    found = _extensions(heard.message)
    qos = found.get(extensions.QoS)
    priority = _field(qos, "priority")
    priority = Priority.DATA if priority is None else Priority(priority)
    blocks = "block_first" if _field(qos, "F") else "drop"
    return _common(heard, kind) | {
        "priority": int(priority),
        "priority_name": priority.name.lower(),
        "congestion_control": "block" if _field(qos, "D") else blocks,
        "express": bool(_field(qos, "E")),
        "reliable": heard.lane.reliable if heard.lane else None,
        "timestamp": _stamp(body) or _stamp(found.get(extensions.Timestamp)),
    }


def _stamp(layer: Layer | None) -> Stamp | None:
    time, clock = _field(layer, "timestamp"), _field(layer, "timestamp_id")
    return None if time is None or clock is None else Stamp(time, zid_to_text(clock))


def _value(body: Layer) -> dict[str, Any]:
    """Returns the content of PUT or DEL."""
    return _content(body if isinstance(body, Put) else None, _extensions(body))


def _content(holder: Layer | None, beside: dict[type[Layer], Layer]) -> dict[str, Any]:
    """Returns what ``Content`` has.

    Args:
        holder: What has the payload and its encoding.
        beside: Extensions with the attachment and the source.
    """
    payload, shared = _payload(holder)
    encoding, schema = _field(holder, "encoding"), _field(holder, "schema")
    if _field(holder, "E") == 0:
        encoding = Encoding.ZENOH_BYTES
    attachment = None
    for kind in (extensions.PutAttachment, extensions.DelAttachment, extensions.QueryAttachment):
        attachment = _field(beside.get(kind), "attachment") if attachment is None else attachment
    return {
        "payload": payload,
        "shared": shared,
        "encoding": None if encoding is None else int(encoding),
        "encoding_name": None if encoding is None else encodings.name_of(encoding, schema),
        "schema": None if schema is None else encodings.schema_text(schema),
        "schema_hex": schema,
        "attachment": attachment,
        "ros2": from_attachment(attachment) if attachment else None,
        "source_info": _source(beside.get(extensions.SourceInfo)),
    }


def _payload(holder: Layer | None) -> tuple[bytes | None, tuple[Shared, ...]]:
    slices = _field(holder, "slices")
    if slices is None:
        return _field(holder, "data"), ()
    shared = tuple(
        Shared(**{name: reference.fields.get(name) or 0 for name in _REFERENCE})
        for one in slices
        if (reference := one.get("reference")) is not None
    )
    whole = not shared and all("slice" in one for one in slices)
    return b"".join(one["slice"] for one in slices) if whole else None, shared


_REFERENCE = ("size", "segment_id", "index", "generation")


def _source(info: Layer | None) -> Source | None:
    zid, eid, sn = _field(info, "zid"), _field(info, "eid"), _field(info, "source_sn")
    return None if zid is None or eid is None or sn is None else Source(zid_to_text(zid), eid, sn)


def _since(heard: Heard) -> tuple[int | None, int | None]:
    """Returns the packet that the exchange began with, and the time since then; None for its own beginning."""
    began = heard.exchange
    if began is None or not (began.answered or began.ended is not None or began.complete is not None):
        return None, None
    return began.asked, heard.time - began.asked_time


def _asked(heard: Heard) -> dict[str, Any]:
    packet, latency = _since(heard)
    return {
        "request_id": _field(heard.message, "request_id"),
        "request_packet": packet,
        "latency": latency,
    }


def _of_interest(heard: Heard) -> dict[str, Any]:
    packet, latency = _since(heard)
    return {
        "interest_id": _field(heard.message, "interest_id"),
        "interest_packet": packet,
        "latency": latency,
    }


def _named(names: type[IntEnum], number: int) -> str | int:
    """Returns the name of a number, or the number when it has none."""
    try:
        return names(number).name.lower()
    except ValueError:
        return number


# To JSON ------------------------------------------------------------------------------------------


def _names(cls: type[Event]) -> tuple[str, ...]:
    """Returns the fields of an event; remarks come last."""
    return (*(field.name for field in fields(cls) if field.name != "remarks"), "remarks")


_FIELDS: Mapping[type[Event], tuple[str, ...]] = {
    cls: _names(cls) for cls in (Sample, Query, Answer, Final, Declaration, Interest, Scouting)
}


def _plain(value: Any) -> Any:
    if type(value) in _AS_IS:
        return value
    match value:
        case bytes():
            return value.hex()
        case Ros2Attachment() | Shared():
            return {name: _plain(part) for name, part in asdict(value).items()}
        case tuple() if hasattr(value, "_asdict"):
            return value._asdict()
        case tuple():
            return [_plain(one) for one in value]
        case _:
            return value


_AS_IS = frozenset({type(None), bool, int, str, EventKind})


def _text(value: str | bytes) -> str:
    """Returns text that any JSON reader takes: bytes that are no UTF-8 are escaped as in Python."""
    raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    return raw.decode("utf-8", "backslashreplace")
