"""LINKSTATE between its bytes and what it says: one record for each node the sender knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scapy_layers.codes import Enc, OamId, Priority, What, WhatAmI
from scapy_layers.extensions import LinkState, QoS
from scapy_layers.network import NetworkOam

MAX_RECORDS = 1024
"""Records read of one message; four times the nodes a graph holds, so a neighbour may tell everything at once."""

MAX_LINKS = 256
"""Links of one record: nobody has more neighbours than there are nodes in a graph."""

MAX_LOCATORS = 32
"""Locators kept of one node; it listens on a few, and they are told on to everybody."""

MAX_LOCATOR = 255
"""Bytes of a locator on the wire."""

MAX_PSID = 0xFFFF
"""Largest index of a node: NodeId, which names nodes in messages, has 16 bits."""

MAX_SN = (1 << 62) - 1
"""Largest number of a record that is believed: far beyond any real one, and there is room to go on from it."""

TO_WHAT: Mapping[int, What] = {
    WhatAmI.ROUTER: What.ROUTER,
    WhatAmI.PEER: What.PEER,
    WhatAmI.CLIENT: What.CLIENT,
}
FROM_WHAT: Mapping[int, WhatAmI] = {
    What.ROUTER: WhatAmI.ROUTER,
    What.PEER: WhatAmI.PEER,
    What.CLIENT: WhatAmI.CLIENT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What one node is, in the sender's words.

    Attributes:
        psid: The sender's index of the node.
        sn: Version of the record; 0 for a node of which the sender knows no more than its name.
        zid: Wire bytes, None where the sender relies on having named the psid before.
        whatami: Role of the node.
        locators: Where it listens; None when the record leaves that open.
        links: Indices of the nodes it has links with.
        weights: For each link what the node sets for it, 0 for nothing; may be empty.
        gateway: The node is the way into another region.
    """

    psid: int
    sn: int
    zid: bytes | None = None
    whatami: int | None = None
    locators: tuple[str, ...] | None = None
    links: tuple[int, ...] = ()
    weights: tuple[int, ...] = ()
    gateway: bool = False


def is_linkstate(oam: NetworkOam) -> bool:
    """Tells whether a message is LINKSTATE; other management messages are nobody's business here."""
    return bool(oam.value("oam_id") == OamId.LINKSTATE and oam.value("ENC") == Enc.ZBUF)


def read(oam: NetworkOam) -> list[Record] | str:
    """Returns the records of a LINKSTATE, or why none of them can be believed."""
    if oam.errors:
        return f"it does not decode: {oam.errors[0]}"
    body = oam.linkstate
    if body is None:
        return "it has no body"
    if len(body.records) > MAX_RECORDS:
        return f"it has {len(body.records)} records, more than {MAX_RECORDS}"
    return [_record(fields) for fields in body.records]


def _record(fields: Mapping[str, Any]) -> Record:
    zid = fields.get("zid")
    whatami = fields.get("whatami")
    locators = fields.get("locators")
    return Record(
        psid=fields.get("psid") or 0,
        sn=fields.get("state_sn") or 0,
        # Zero bytes at the end say nothing: the ZenohID is a number, low byte first.
        zid=None if zid is None else bytes(zid).rstrip(b"\0"),
        whatami=None if whatami is None else FROM_WHAT.get(whatami),
        locators=None if locators is None else tuple(locators),
        links=tuple(fields.get("links") or ()),
        weights=tuple(fields.get("weights") or ()),
        gateway=bool(fields.get("gateway")),
    )


def why_absurd(record: Record) -> str:
    """Returns why a record cannot be true, or nothing."""
    if record.psid > MAX_PSID:
        return f"index {record.psid} fits no NodeId"
    if record.sn > MAX_SN:
        return f"version {record.sn} leaves no room for a next one"
    if len(record.links) > MAX_LINKS:
        return f"{len(record.links)} links are more than {MAX_LINKS}"
    if record.zid is not None and not 1 <= len(record.zid) <= 16:
        return "its ZenohID is none"
    return ""


def write(records: Iterable[Record]) -> NetworkOam:
    """Returns the message that says some records, in the lane and with the QoS that real nodes use."""
    return NetworkOam(
        oam_id=OamId.LINKSTATE,
        extensions=[QoS(priority=Priority.CONTROL, D=1)],
        linkstate=LinkState(records=[_fields(record) for record in records]),
    )


def _fields(record: Record) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "psid": record.psid,
        "state_sn": record.sn,
        "links": list(record.links),
        "gateway": int(record.gateway),
    }
    if record.zid is not None:
        fields["zid"] = record.zid
    if record.whatami is not None:
        fields["whatami"] = TO_WHAT[record.whatami]
    if record.locators is not None:
        fields["locators"] = list(record.locators)
    if any(record.weights):
        fields["weights"] = list(record.weights)
    return fields
