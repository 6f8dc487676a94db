"""REQUEST, RESPONSE, RESPONSE_FINAL, and PUSH on its way. Spec: Query; Reply; Routing."""

from __future__ import annotations

from collections.abc import Iterator

from scapy_layers.codes import Consolidation, WhatAmI
from scapy_layers.conversation import RemarkKind
from scapy_layers.conversation.session import extension
from scapy_layers.data import Err, Put, Query, Reply
from scapy_layers.extensions import NodeId, QueryBodyShm, Shm, SourceInfo
from scapy_layers.lint.notes import RequestNotes, Scene, digest
from scapy_layers.lint.rule import ECLIPSE, Break, rule
from scapy_layers.network import Push, Request, Response, ResponseFinal

SLACK = 500_000_000
"""Nanoseconds that an answer may be late."""


@rule("ZN-REQ-101", level="MUST", text="request ids stay inside the agreed RID range", on=Request)
def _range(scene: Scene) -> Iterator[Break]:
    session, said = scene.session, scene.layer.fields.get("request_id")
    if session is None or session.rid is None or said is None or not said >> (8 << session.rid):
        return
    if scene.memory.once(session.number, f"rid {scene.sender}"):
        yield Break(f"id {int(said)} at {8 << session.rid} bit, and perhaps more", ECLIPSE)


@rule("ZN-REQ-006", level="FACT", text="a request id in use is not used for another request", on=Request)
def _reused(scene: Scene) -> Iterator[Break]:
    for remark in scene.heard.remarks:
        if remark.kind is RemarkKind.REQUEST:
            yield Break(remark.text)


def _request(scene: Scene) -> RequestNotes | None:
    """Returns the request that a message says to answer."""
    session, number = scene.session, scene.layer.fields.get("request_id")
    if session is None or number is None:
        return None
    return scene.memory.requests.get((session.number, scene.receiver, number))


def _unknown(scene: Scene) -> Iterator[str]:
    for remark in scene.heard.remarks:
        if remark.kind is RemarkKind.REQUEST:
            yield remark.text


@rule("ZN-RSP-002", level="FACT", text="the request id of RESPONSE ties it to a REQUEST", on=Response)
def _response(scene: Scene) -> Iterator[Break]:
    if _request(scene) is None:
        for text in _unknown(scene):
            yield Break(text)


@rule("ZN-FIN-003", level="FACT", text="no RESPONSE comes after RESPONSE_FINAL", on=Response)
def _late(scene: Scene) -> Iterator[Break]:
    asked = _request(scene)
    if asked is not None and asked.final is not None and any(_unknown(scene)):
        # Releases up to 1.7 send the final in the lane of the query, where it overtakes replies in other lanes.
        overtook = scene.heard.lane != asked.final_lane
        yield Break(
            f"an answer behind the RESPONSE_FINAL of packet {asked.final}", ECLIPSE if overtook else None
        )


@rule(
    "ZN-FIN-002", level="MUST", text="the request id of RESPONSE_FINAL is that of a REQUEST", on=ResponseFinal
)
def _final(scene: Scene) -> Iterator[Break]:
    if _request(scene) is None:
        for text in _unknown(scene):
            yield Break(text)


@rule(
    "ZN-FIN-004",
    "ZN-RTE-019",
    level="MUST",
    text="a REQUEST gets exactly one RESPONSE_FINAL",
    on=ResponseFinal,
)
def _again(scene: Scene) -> Iterator[Break]:
    asked = _request(scene)
    multicast = scene.session is not None and scene.session.multicast
    if asked is not None and asked.final is not None and not multicast and any(_unknown(scene)):
        yield Break(f"a second one, the first is in packet {asked.final}")


@rule("ZN-REQ-104", level="FACT", text="Budget caps the number of replies", on=Response)
def _budget(scene: Scene) -> Iterator[Break]:
    asked, exchange = _request(scene), scene.heard.exchange
    if asked is not None and asked.budget and exchange is not None and exchange.answered > asked.budget:
        yield Break(f"reply {exchange.answered} to a REQUEST with a budget of {asked.budget}")


@rule(
    "ZN-REQ-103",
    level="FACT",
    text="Timeout bounds the wait: RESPONSE_FINAL comes when it passes",
    on=ResponseFinal,
)
def _timeout(scene: Scene) -> Iterator[Break]:
    asked, parties = _request(scene), scene.parties
    # A node that only has a queryable may be late: the router between it and the asker is what watches the time.
    if asked is None or asked.timeout is None or parties is None or parties[0].whatami != WhatAmI.ROUTER:
        return
    waited = scene.heard.time - asked.time
    if waited > asked.timeout * 1_000_000 * 9 // 8 + SLACK:
        yield Break(f"after {waited / 1e9:.1f} s, the timeout is {asked.timeout} ms")


def _consolidation(scene: Scene) -> Iterator[Break]:
    said = scene.layer.fields.get("consolidation")
    if said is not None and said not in list(Consolidation):
        yield Break(f"consolidation {int(said)}")


rule("ZN-QRY-002", level="FACT", text="consolidation is 0 to 3", on=Query)(_consolidation)
rule("ZN-RPL-002", level="FACT", text="consolidation is 0 to 3", on=Reply)(_consolidation)


# Shared memory --------------------------------------------------------------------------------------


@rule(
    "ZN-PUT-004", level="FACT", text="Shm stands only where both ends agreed on shared memory", on=(Put, Err)
)
def _shm(scene: Scene) -> Iterator[Break]:
    session = scene.session
    if session is not None and session.shm is False and extension(scene.layer, Shm) is not None:
        yield Break("Shm without an agreement on it")


@rule(
    "ZN-QRY-005",
    level="FACT",
    text="the marker 0x04 stands only where both ends agreed on shared memory",
    on=Query,
)
def _shm_body(scene: Scene) -> Iterator[Break]:
    session = scene.session
    if session is not None and session.shm is False and extension(scene.layer, QueryBodyShm) is not None:
        yield Break("the marker without an agreement on shared memory")


# Routing --------------------------------------------------------------------------------------------


@rule("ZN-RTE-012", level="FACT", text="a PUSH that is passed on carries NodeId", on=Push)
def _node_id(scene: Scene) -> Iterator[Break]:
    parties, session = scene.parties, scene.session
    if parties is None or session is None or parties[0].whatami != WhatAmI.ROUTER:
        return
    if extension(scene.layer, NodeId) is None and scene.memory.once(session.number, f"node {scene.sender}"):
        yield Break("no NodeId from a router, here and perhaps later", ECLIPSE)


@rule("ZN-RTE-013", level="MUST NOT", text="a PUSH is not sent back to where it came from", on=Push)
def _back(scene: Scene) -> Iterator[Break]:
    session, key, body = scene.session, scene.heard.keyexpr, scene.layer.fields.get("body")
    if session is None or session.multicast or key is None or body is None:
        return
    mark = _mark(body)
    if mark is None:
        return
    mark = digest(key, mark)
    before = scene.memory.pushed.get((session.number, scene.receiver, mark))
    if before is not None:
        yield Break(f"what came in packet {before} goes back")
    scene.memory.pushed[session.number, scene.sender, mark] = scene.heard.number


def _mark(body: object) -> bytes | None:
    """Returns what makes a sample unique: its timestamp, or its source and number."""
    fields = getattr(body, "fields", {})
    source = extension(body, SourceInfo) if fields.get("extensions") else None  # type: ignore[arg-type]
    if source is not None and not source.partial:
        return b"%s %d %d" % (source.zid, source.eid, source.source_sn)
    if fields.get("T") and "timestamp_id" in fields:
        return b"%d %s" % (fields["timestamp"], fields["timestamp_id"])
    return None
