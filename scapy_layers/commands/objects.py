"""A message as one JSON object; ``docs/formats.md`` describes every field."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from scapy_layers.commands.filters import full_name
from scapy_layers.conversation import Heard, Session
from scapy_layers.conversation.exchanges import Exchange
from scapy_layers.message import Message
from scapy_layers.present import Plain, as_data
from scapy_layers.stream import Gap, Link, Way
from scapy_layers.transport import Frame

_MOST_SESSIONS = 4096
"""Sessions of which is remembered what was told."""


class Objects:
    """Makes objects; tells what a session has settled in front of the first message that depends on it.

    Args:
        start: Time that counts as 0, ns.
        file: Name of the capture, None when there is only one.
    """

    def __init__(self, start: int, file: str | None = None) -> None:
        self._start = start
        self._file = {} if file is None else {"file": file}
        self._told: OrderedDict[int, Plain] = OrderedDict()

    def of(self, item: Heard | Gap) -> Iterator[str]:
        """Yields the lines that an item makes."""
        if isinstance(item, Gap):
            yield self._line(_gap(item) | self._when(item))
            return
        if item.session is not None:
            settled = _session(item.session)
            if self._told.get(item.session.number) != settled:
                self._told[item.session.number] = settled
                self._told.move_to_end(item.session.number)
                if len(self._told) > _MOST_SESSIONS:
                    self._told.popitem(last=False)
                yield self._line({"type": "session", "packet": item.number} | settled)
        yield self._line(self._message(item))

    def _line(self, data: Plain) -> str:
        return json.dumps(data | self._file)

    def _when(self, item: Heard | Gap) -> Plain:
        return {"time": item.time, "relative": item.time - self._start}

    def _message(self, heard: Heard) -> Plain:
        data: Plain = {"type": "message", "packet": heard.number} | self._when(heard)
        data |= {
            "link": link(heard.way.link),
            "source": str(heard.way.source),
            "target": str(heard.way.target),
            "source_zid": heard.source_zid,
            "target_zid": heard.target_zid,
            "session": heard.session.number if heard.session else None,
            "path": path(heard),
        }
        carrier = heard.message if "sn" in heard.message.fields else heard.within
        if carrier is not None and "sn" in carrier.fields:
            data["sn"] = carrier.fields["sn"]
        if heard.lane:
            priority, reliable = heard.lane
            name = priority.name.lower()
            data["lane"] = {"priority": int(priority), "priority_name": name, "reliable": reliable}
        if heard.pieces:
            data["packets"] = list(heard.pieces)
        data["keyexpr"] = None if heard.keyexpr is None else _text(heard.keyexpr)
        if heard.exchange:
            data["exchange"] = _exchange(heard.exchange, heard)
        if heard.interest and heard.interest is not heard.exchange:
            data["interest"] = _exchange(heard.interest, heard)
        data["ignored"] = heard.ignored
        data["remarks"] = [
            {"kind": str(remark.kind), "text": _text(remark.text)}
            | ({} if remark.field is None else {"offset": remark.offset, "field": remark.field})
            for remark in heard.remarks
        ]
        said = as_data(heard.message)
        if isinstance(heard.message, Frame) and "messages" in said:
            # Each is an object of its own.
            said["messages"] = len(said["messages"])
        data["message"] = said
        return data


def path(heard: Heard) -> list[str]:
    """Returns the names from the outside in: FRAME, PUSH, PUT; INIT and OPEN with _SYN or _ACK."""
    names = [] if heard.within is None else [str(heard.within.name)]
    layer: Any = heard.message
    while layer is not None:
        names.append(full_name(layer))
        body = layer.fields.get("body")
        layer = body if isinstance(body, Message) else None
    return names


def link(of: Link) -> Plain:
    """Returns what tells links apart."""
    return {"number": of.number, "protocol": "tcp" if of.tcp else "udp"}


def _ends(way: Way) -> Plain:
    return {"link": link(way.link), "source": str(way.source), "target": str(way.target)}


def _gap(gap: Gap) -> Plain:
    return {
        "type": "gap",
        "packet": gap.number,
        **_ends(gap.way),
        "missing": gap.missing,
        "skipped": gap.skipped,
        "why": gap.why,
    }


def _session(session: Session) -> Plain:
    return {
        "session": session.number,
        "multicast": session.multicast,
        "ends": [
            {
                "zid": party.zid,
                "whatami": party.whatami.name.lower() if party.whatami is not None else None,
                "lease": party.lease,
            }
            for party in session.parties
        ],
        "fsn": None if session.fsn is None else 8 << session.fsn,
        "rid": None if session.rid is None else 8 << session.rid,
        "batch_size": session.batch_size,
        "qos": session.qos,
        "lowlatency": session.lowlatency,
        "compression": session.compression,
        "shm": session.shm,
        "multilink": session.multilink,
        "patch": session.patch,
    }


def _exchange(exchange: Exchange, heard: Heard) -> Plain:
    """Returns what a message belongs to, as it stands with this message."""
    return {
        "kind": exchange.kind,
        "id": exchange.id,
        "keyexpr": None if exchange.keyexpr is None else _text(exchange.keyexpr),
        "asked": exchange.asked,
        "answers": exchange.answered,
        "ended": exchange.ended,
        "latency": None if heard.number == exchange.asked else heard.time - exchange.asked_time,
    }


def _text(text: str) -> str:
    """Returns text that any JSON reader takes: bytes that are no UTF-8 are escaped as in Python."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
