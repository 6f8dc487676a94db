"""PUSH, PUT and DEL: publications as the node forwards them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conformance.errors import NotApplicable
from conformance.expect import check, field
from conformance.plugin import req
from conformance.suite.common import UNKNOWN_ID, Pair, bits, frame, listed, pair, undropped, unknown
from conformance.tester import Tester
from scapy_layers.codes import Priority
from scapy_layers.data import Del, Err, Put, Query, Reply
from scapy_layers.extensions import (
    DelAttachment,
    Lane,
    NodeId,
    PutAttachment,
    QoS,
    SourceInfo,
    Timestamp,
)
from scapy_layers.message import Extension, Message
from scapy_layers.network import Push
from scapy_layers.transport import Frame

ALIAS = 7
"""ExprId of an alias of ours."""

SMALL_LENGTHS = 300
"""Lengths of payloads that are tried one by one."""

STAMP = {"timestamp": 0x65_00_00_00_80_00_00_00, "timestamp_id": b"\x0a\x0b"}


def source() -> SourceInfo:
    """Returns a SourceInfo extension."""
    return SourceInfo(zid=b"\x11\x22\x33", eid=9, source_sn=300)


def extension(message: Message, cls: type[Extension]) -> Any:
    """Returns an extension of a message; None when it has none of that class."""
    return next((ext for ext in message.extensions or [] if isinstance(ext, cls)), None)


def aliased(tester: Tester) -> Pair:
    """Returns a pair whose publisher has an alias for the key ``a``."""
    both = pair(tester)
    both.pub.declare_alias(ALIAS, both.at("a"))
    return both


# PUSH ---------------------------------------------------------------------------------------------


@req("ZN-PUSH-001")
def test_forwarded_push_has_its_flags_where_they_belong(tester: Tester) -> None:
    both = pair(tester)
    both.put("a", b"1")
    push = both.expect("PUT a=1")[0]
    check(bits(push, 0, 0x1F) == 0x1D, "id 0x1d", f"{bits(push, 0, 0x1F):#04x}")
    check(bool(bits(push, 0, 0x20)) == bool(push.key_suffix), "N for a suffix", "the opposite")
    check(not push.errors, "a PUSH that decodes", "one that does not", str(push.errors))


@req("ZN-PUSH-002")
def test_scope_0_means_that_the_suffix_is_the_whole_key(tester: Tester) -> None:
    both = pair(tester)
    both.pub.post(both.push("a", key_scope=0))
    both.pub.post(both.push("a/b/c", key_scope=0))
    both.expect("PUT a=1", "PUT a/b/c=1")


@req("ZN-PUSH-003", "ZN-DCL-102")
def test_suffix_is_there_only_when_n(tester: Tester) -> None:
    both = aliased(tester)
    both.put("full", b"0")
    both.pub.post(
        undropped(M=1, key_scope=ALIAS, body=Put(data=b"1")),
        undropped(M=1, key_scope=ALIAS, key_suffix="/b", body=Put(data=b"2")),
    )
    both.expect("PUT full=0", "PUT a=1", "PUT a/b=2")


@req("ZN-PUSH-003", "ZN-DCL-102")
def test_empty_suffix_adds_nothing_to_an_alias(tester: Tester) -> None:
    both = aliased(tester)
    both.pub.post(undropped(N=1, M=1, key_scope=ALIAS, key_suffix="", body=Put(data=b"1")))
    both.expect("PUT a=1")


@req("ZN-PUSH-004")
def test_m_tells_whose_alias_it_is(tester: Tester) -> None:
    both = aliased(tester)
    both.pub.post(undropped(M=1, key_scope=ALIAS, body=Put(data=b"ours")))
    both.expect("PUT a=ours")
    both.pub.post(undropped(M=0, key_scope=ALIAS, body=Put(data=b"theirs")))
    both.expect()


@req("ZN-PUSH-005")
@pytest.mark.parametrize(
    "chain",
    [[], [QoS()], [Timestamp(**STAMP)], [NodeId(node_id=0)], [QoS(), Timestamp(**STAMP), NodeId(node_id=0)]],
    ids=["none", "QoS", "Timestamp", "NodeId", "all"],
)
def test_push_may_carry_qos_timestamp_and_node_id(tester: Tester, chain: list[Extension]) -> None:
    both = pair(tester)
    both.pub.post(both.push(extensions=[ext.copy() for ext in chain]))
    both.expect("PUT a=1")


@req("ZN-PUSH-006", "ZN-DATA-001")
@pytest.mark.parametrize(
    "body", [Query(), Reply(body=Put(data=b"1")), Err(data=b"1")], ids=["QUERY", "REPLY", "ERR"]
)
def test_body_of_push_is_put_or_del_and_nothing_else(tester: Tester, body: Message) -> None:
    both = pair(tester)
    both.pub.post(both.push("put"), both.push("del", body=Del()))
    both.expect("PUT put=1", "DEL del")
    both.pub.send(frame(both.pub, both.push("other", body=body)))
    both.expect()


@req("ZN-EXT-102")
@pytest.mark.parametrize("enc", ["unit", "z64", "zbuf"])
def test_unknown_optional_extension_of_push_is_skipped(tester: Tester, enc: str) -> None:
    both = pair(tester)
    both.pub.post(both.push("push", extensions=[unknown(enc)]))
    both.pub.post(both.push("put", body=Put(data=b"2", extensions=[unknown(enc)])))
    both.pub.post(both.push("del", body=Del(extensions=[unknown(enc)])))
    both.expect("PUT push=1", "PUT put=2", "DEL del")


@req("ZN-EXT-105")
@pytest.mark.parametrize("enc", ["unit", "z64", "zbuf"])
def test_unknown_optional_extension_of_push_is_passed_on(tester: Tester, enc: str) -> None:
    both = pair(tester)
    both.pub.post(both.push(extensions=[unknown(enc)]))
    chain = both.expect("PUT a=1")[0].extensions or []
    if not any(ext.ext_id == UNKNOWN_ID for ext in chain):
        # Only told, not judged: what a router does not know it can hardly check.
        raise NotApplicable("the node leaves extensions out that it does not know")


@req("ZN-EXT-103")
@pytest.mark.parametrize("enc", ["unit", "z64", "zbuf"])
def test_unknown_mandatory_extension_of_push_makes_it_unacceptable(tester: Tester, enc: str) -> None:
    both = pair(tester)
    both.pub.post(both.push("optional", extensions=[unknown(enc)]))
    both.expect("PUT optional=1")
    both.pub.post(both.push("mandatory", extensions=[unknown(enc, mandatory=True)]))
    both.expect()


# QoS and timestamp of network messages -----------------------------------------------------------------


@req("ZN-NET-004", "ZN-NET-005", "ZN-NET-010")
@pytest.mark.parametrize("priority", [None, *Priority])
def test_priority_survives_forwarding(tester: Tester, priority: int | None) -> None:
    both = pair(tester, subscriber={"qos": True}, qos=True)
    if not both.sub.session.agreed.qos:
        raise NotApplicable("the node has no QoS lanes")
    both.pub.post(both.push(extensions=[] if priority is None else [QoS(priority=priority)]))
    push = both.sub.expect(Push)
    said = extension(push, QoS)
    check(said is None or not said.M, "an optional QoS extension", "a mandatory one")
    check(said is None or not said.original[1] & 0xC0, "bits 7:6 of QoS zero", "set")
    seen = Priority.DATA if said is None else said.priority
    wanted = Priority.DATA if priority is None else priority
    check(seen == wanted, f"priority {wanted:d}", f"priority {seen:d}")


@req("ZN-NET-007", "ZN-NET-008", "ZN-NET-011")
@pytest.mark.parametrize(("block", "express"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_block_and_express_survive_forwarding(tester: Tester, block: int, express: int) -> None:
    both = pair(tester)
    both.pub.post(both.push(extensions=[QoS(D=block, E=express)] * (block or express)))
    said = extension(both.expect("PUT a=1")[0], QoS)
    seen = (said.D, said.E) if said else (0, 0)
    check(seen == (block, express), f"D={block} E={express}", f"D={seen[0]} E={seen[1]}")


@req("ZN-NET-006", "ZN-NET-005")
def test_priorities_run_from_control_to_background(tester: Tester) -> None:
    names = [
        "CONTROL",
        "REAL_TIME",
        "INTERACTIVE_HIGH",
        "INTERACTIVE_LOW",
        "DATA_HIGH",
        "DATA",
        "DATA_LOW",
        "BACKGROUND",
    ]
    check([one.name for one in Priority] == names, listed(names), listed([one.name for one in Priority]))
    both = pair(tester, subscriber={"qos": True}, qos=True)
    if not (both.sub.session.agreed.qos and both.pub.session.agreed.qos):
        raise NotApplicable("the node has no QoS lanes")
    for number, name in enumerate(names):
        said = QoS(D=1, priority=number)
        both.pub.post(both.push(name, extensions=[said]), priority=number)
        both.sub.until(Push, key=both.at(name))
        seen = both.sub.inbox[both.sub.position() - 1]
        quality = extension(seen.message, QoS)
        lane = None if seen.carrier is None else extension(seen.carrier, Lane)
        found = [Priority.DATA if one is None else int(one.priority) for one in (quality, lane)]
        words = [Priority(one).name for one in found]
        check(found == [number, number], f"{name} as priority and as lane", listed(words))


@req("ZN-NET-009")
@pytest.mark.parametrize("patch", [1, 0], ids=["patch-1", "patch-0"])
def test_block_first_is_sent_from_patch_1_on(tester: Tester, patch: int) -> None:
    both = pair(tester, subscriber={"patch": patch}, patch=1)
    if not both.pub.session.agreed.patch:
        raise NotApplicable("the node knows no patch")
    # They may be dropped when a queue is full; not all of them are.
    both.pub.post(*[both.push(key, extensions=[QoS(F=1)]) for key in ("a", "b", "c")])
    came = both.delivered()
    check(bool(came), "a value that is blocked for first", "nothing")
    said = extension(came[0], QoS)
    seen = bool(said.F) if said else False
    check(seen == bool(patch), f"F={patch}", f"F={int(seen)}")


@req("ZN-NET-002")
def test_network_messages_are_bare_in_low_latency_sessions(tester_of: Callable[..., Tester]) -> None:
    tester = tester_of(transport__unicast__lowlatency=True, transport__unicast__qos__enabled=False)
    bare: dict[str, Any] = {"lowlatency": True}
    to_the_node, from_the_node = pair(tester, **bare), pair(tester, subscriber=bare)
    for both, direct in ((to_the_node, to_the_node.pub), (from_the_node, from_the_node.sub)):
        if not direct.session.agreed.lowlatency:
            raise NotApplicable("the node has no low-latency sessions")
        both.put("a", b"1")
        both.pub.post(both.push("b", body=Del()))
        both.expect("PUT a=1", "DEL b")
        framed = [seen for seen in direct.inbox if isinstance(seen.message, Frame)]
        check(not framed, "no FRAME in a low-latency session", "FRAME")


@req("ZN-NET-003", "ZN-NET-013")
def test_timestamp_of_push_survives_forwarding(tester: Tester) -> None:
    both = pair(tester)
    both.pub.post(both.push("without"), both.push("with", extensions=[Timestamp(**STAMP)]))
    push = both.expect("PUT without=1", "PUT with=1")[1]
    said = extension(push, Timestamp)
    seen = said and {name: getattr(said, name) for name in STAMP}
    check(seen == STAMP, "the Timestamp extension as it was sent", "another" if said else "none")


# PUT and DEL ------------------------------------------------------------------------------------------


@req("ZN-PUT-001", "ZN-PUT-002", "ZN-PUT-004", "ZN-DATA-002")
@pytest.mark.parametrize("stamped", [0, 1])
@pytest.mark.parametrize("encoded", [0, 1])
@pytest.mark.parametrize("extended", [0, 1])
def test_fields_of_put_survive_forwarding(tester: Tester, stamped: int, encoded: int, extended: int) -> None:
    both = pair(tester)
    attachment = tester.rng.randbytes(300)
    wanted = {**STAMP} if stamped else {}
    wanted |= {"encoding": 10, "schema": b"s"} if encoded else {}
    extensions = [source(), PutAttachment(attachment=attachment)] if extended else []
    both.pub.post(both.push(body=Put(data=b"1", extensions=extensions, **wanted)))
    put = both.expect("PUT a=1")[0].body
    check(not put.errors, "a PUT that decodes", "one that does not")
    for name, value in wanted.items():
        check(field(put, name) == value, f"{name} as it was sent", "another value", str(field(put, name)))
    if extended:
        info, attached = extension(put, SourceInfo), extension(put, PutAttachment)
        met = info is not None and (info.zid, info.eid, info.source_sn) == (b"\x11\x22\x33", 9, 300)
        check(met, "SourceInfo as it was sent", "another" if info else "none")
        met = attached is not None and attached.attachment == attachment
        check(met, "the attachment as it was sent", "another" if attached else "none")
    else:
        known = [ext for ext in put.extensions or [] if isinstance(ext, SourceInfo | PutAttachment)]
        check(not known, "neither SourceInfo nor attachment", "some")


@req("ZN-PUT-003")
@pytest.mark.parametrize("schema", [None, b"s", b"x" * 200], ids=["none", "short", "long"])
@pytest.mark.parametrize("number", [0, 1, 127, 1000])
def test_encoding_survives_forwarding(tester: Tester, number: int, schema: bytes | None) -> None:
    both = pair(tester)
    said = {"encoding": number} | ({"schema": schema} if schema else {})
    both.pub.post(both.push(body=Put(data=b"1", **said)))
    put = both.expect("PUT a=1")[0].body
    seen = (field(put, "encoding") or 0, field(put, "schema") or None)
    check(seen == (number, schema), f"encoding {number} and its schema", "another", str(seen))


@req("ZN-PUT-005")
@pytest.mark.parametrize("size", [0, 1, 127, 128, 65_535, 100_000])
def test_payload_of_any_length_is_delivered(tester: Tester, size: int) -> None:
    both = pair(tester)
    value = tester.rng.randbytes(size)
    both.put("before", b"0")
    both.put("a", value, extensions=[QoS(D=1)])
    pushes = both.delivered()
    check([both.sub.key(push) for push in pushes] == [both.at("before"), both.at("a")], "both", "not both")
    check(bytes(pushes[1].body.data) == value, f"{size} bytes as they were published", "others")


@req("ZN-PUT-005")
def test_payloads_of_all_small_lengths_are_delivered(tester: Tester) -> None:
    both = pair(tester)
    for size in range(SMALL_LENGTHS):
        both.put("a", bytes(size), extensions=[QoS(D=1)])
    came = [len(push.body.data) for push in both.delivered()]
    missing = [str(size) for size in range(SMALL_LENGTHS) if came.count(size) != 1]
    check(not missing, f"each length below {SMALL_LENGTHS} once", f"not so {listed(missing)}")


@req("ZN-DEL-001")
def test_del_has_no_payload(tester: Tester) -> None:
    both = pair(tester)
    both.pub.send(frame(both.pub, both.push("a", body=Del()), both.push("b"), both.push("c", body=Del())))
    both.expect("DEL a", "PUT b=1", "DEL c")


@req("ZN-DEL-002")
def test_source_and_attachment_of_del_survive_forwarding(tester: Tester) -> None:
    both = pair(tester)
    attachment = tester.rng.randbytes(50)
    said = [source(), DelAttachment(attachment=attachment)]
    both.pub.post(both.push(body=Del()), both.push(body=Del(extensions=said, **STAMP)))
    seen = both.expect("DEL a", "DEL a")[1].body
    info, attached = extension(seen, SourceInfo), extension(seen, DelAttachment)
    check(info is not None and info.eid == 9, "SourceInfo as it was sent", "another" if info else "none")
    met = attached is not None and attached.attachment == attachment
    check(met, "the attachment as it was sent", "another" if attached else "none")
    check(seen.timestamp == STAMP["timestamp"], "the timestamp as it was sent", "another")
