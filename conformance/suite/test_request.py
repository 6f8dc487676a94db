"""REQUEST and QUERY: queries as the node forwards them."""

from __future__ import annotations

import pytest

from conformance.config import RunConfig
from conformance.expect import check, field
from conformance.plugin import req
from conformance.suite.common import bits, frame, inquiry, listed, question, unknown
from conformance.tester import Tester
from scapy_layers.codes import Consolidation, Enc, QueryTarget, Resolution
from scapy_layers.data import Del, Put, Query
from scapy_layers.extensions import (
    Budget,
    NodeId,
    QoS,
    QueryAttachment,
    QueryBody,
    SourceInfo,
    Target,
    Timeout,
    Timestamp,
)
from scapy_layers.message import Extension, Message, UnknownExtension
from scapy_layers.network import Request, ResponseFinal

LARGEST = 0xFFFF_FFFF

EXTENSIONS: dict[str, list[Extension]] = {
    "none": [],
    "QoS": [QoS(D=1)],
    "Timestamp": [Timestamp(timestamp=1 << 32, timestamp_id=b"\x01")],
    "NodeId": [NodeId(node_id=0)],
    "QueryTarget": [Target(target=QueryTarget.ALL)],
    "Budget": [Budget(budget=5)],
    "Timeout": [Timeout(timeout=5000)],
}


# REQUEST ------------------------------------------------------------------------------------------


@req("ZN-REQ-001")
def test_forwarded_request_has_its_flags_where_they_belong(tester: Tester) -> None:
    both = inquiry(tester)
    number, request = both.asked("a")
    check(bits(request, 0, 0x1F) == 0x1C, "id 0x1c", f"{bits(request, 0, 0x1F):#04x}")
    check(bool(bits(request, 0, 0x20)) == bool(request.key_suffix), "N for a suffix", "the opposite")
    check(both.answerer.key(request) == both.at("a"), "the key that was asked", "another")
    check(not request.errors, "a REQUEST that decodes", "one that does not", str(request.errors))
    both.finish(request)
    both.expect(number)


@req("ZN-REQ-002", "ZN-VLE-101")
@pytest.mark.parametrize("number", [0, 127, 128, 16_383, 16_384, 1 << 21, 1 << 28, LARGEST])
def test_request_id_is_a_z32_that_the_answer_repeats(tester: Tester, number: int) -> None:
    both = inquiry(tester)
    _, request = both.asked(request_id=number)
    both.reply(request, Put(data=b"1"))
    both.finish(request)
    answers = both.expect(number, "PUT a=1")
    check(answers[0].request_id == number, f"RESPONSE with id {number}", f"id {answers[0].request_id}")


@req("ZN-REQ-003")
def test_key_of_a_query_may_rest_on_an_alias(tester: Tester) -> None:
    both = inquiry(tester)
    both.asker.declare_alias(7, both.at("a"))
    for suffix, key in ((None, "a"), ("/b", "a/b")):
        number, request = both.asked(M=1, key_scope=7, key_suffix=suffix)
        seen = both.answerer.key(request).removeprefix(f"{both.base}/")
        check(seen == key, f"a query of {key}", f"a query of {seen}")
        both.finish(request)
        both.expect(number)
    both.ask(key_scope=9, M=1, key_suffix="/b")
    number, request = both.asked("control")
    seen = both.answerer.key(request).removeprefix(f"{both.base}/")
    check(seen == "control", "no query under an alias that was not declared", f"a query of {seen}")


@req("ZN-REQ-004")
@pytest.mark.parametrize("said", EXTENSIONS)
def test_request_may_carry_each_of_its_extensions(tester: Tester, said: str) -> None:
    both = inquiry(tester)
    number, request = both.asked(extensions=[ext.copy() for ext in EXTENSIONS[said]])
    both.reply(request, Put(data=b"1"))
    both.finish(request)
    both.expect(number, "PUT a=1")


@req("ZN-EXT-102")
@pytest.mark.parametrize("enc", ["unit", "z64", "zbuf"])
def test_unknown_optional_extension_of_request_is_skipped(tester: Tester, enc: str) -> None:
    both = inquiry(tester)
    both.asked(extensions=[unknown(enc)])
    both.asked(body=Query(extensions=[unknown(enc)]))


@req("ZN-REQ-005", "ZN-DATA-001")
@pytest.mark.parametrize("body", [Put(data=b"1"), Del()], ids=["PUT", "DEL"])
def test_body_of_request_is_query_and_nothing_else(tester: Tester, body: Message) -> None:
    both = inquiry(tester)
    both.asked("query")
    both.asker.send(frame(both.asker, both.request("other", body=body)))
    both.asker.wait(lambda: both.asker.link.ended is not None, 0)
    control = tester.session()
    control.post(question(request_id=1, key_suffix=both.at("control")))
    request = both.answerer.expect(Request)
    seen = both.answerer.key(request).removeprefix(f"{both.base}/")
    check(seen == "control", "no query with such a body", f"a query of {seen}")


@req("ZN-REQ-006")
def test_node_gives_each_query_an_id_of_its_own_and_maps_replies_back(tester: Tester) -> None:
    first = inquiry(tester)
    second = inquiry(tester, queryables=0)
    second.base, second.answerers = first.base, first.answerers
    requests = {}
    for both, key in ((first, "first"), (second, "second")):
        _, requests[key] = both.asked(key, request_id=42)
    ids = {request.request_id for request in requests.values()}
    check(len(ids) == 2, "two ids for two queries", f"{len(ids)}")
    for both, key in ((second, "second"), (first, "first")):
        both.reply(requests[key], Put(data=key.encode()), key=key)
        both.finish(requests[key])
    first.expect(42, "PUT first=first")
    second.expect(42, "PUT second=second")


@req("ZN-REQ-101")
@pytest.mark.parametrize(("rid", "width"), [(Resolution.BITS_8, 8), (Resolution.BITS_32, 32)])
def test_request_ids_of_the_node_stay_in_the_agreed_range(tester: Tester, rid: int, width: int) -> None:
    both = inquiry(tester, rid=rid)
    count = 300 if width == 8 else 20
    seen: list[int] = []
    for _ in range(count):
        # One at a time: of more than there are ids, no node can have them all open.
        _, request = both.asked()
        seen.append(request.request_id)
        both.finish(request)
    check(max(seen) < 1 << width, f"request ids of at most {width} bits", "a larger one", f"{max(seen)}")


@req("ZN-REQ-102")
def test_extensions_of_a_forwarded_request_have_their_encodings(tester: Tester) -> None:
    both = inquiry(tester, complete=True)
    said = [Target(target=QueryTarget.ALL), Budget(budget=5), Timeout(timeout=5000)]
    _, request = both.asked(extensions=said)
    wanted = {3: (Enc.Z64, 1), 4: (Enc.Z64, 1), 5: (Enc.Z64, 0), 6: (Enc.Z64, 0)}
    chain = {ext.ext_id: (ext.ENC, ext.M) for ext in request.extensions or []}
    wrong = [f"{number:#x}" for number, head in chain.items() if number in wanted and head != wanted[number]]
    check(not wrong, "QueryTarget, Budget, Timeout as listed", f"others: {listed(wrong)}")
    target = next((ext.target for ext in request.extensions or [] if isinstance(ext, Target)), None)
    check(target == QueryTarget.ALL, "the target that was asked for", f"{target}")


@req("ZN-REQ-103")
def test_timeout_bounds_the_wait(tester: Tester, run_config: RunConfig) -> None:
    both = inquiry(tester)
    unbounded, _ = both.asked("unbounded")
    number, _ = both.asked("bounded", extensions=[Timeout(timeout=300)])
    finals = both.asker.until(ResponseFinal, request_id=number, within=0.3 + run_config.slack)
    early = [seen for seen in finals if isinstance(seen, ResponseFinal) and seen.request_id == unbounded]
    check(not early, "no end of the query without Timeout", "RESPONSE_FINAL")
    sent = next(seen.time_ns for seen in tester.history.observations if b"bounded" in seen.raw[-40:])
    ended = both.asker.inbox[-1].time_ns
    check(ended - sent > 0.29e9, "the wait that was asked for", "an early end")


@req("ZN-REQ-104")
@pytest.mark.parametrize("budget", [2, None], ids=["2", "none"])
def test_budget_caps_the_number_of_replies(tester: Tester, budget: int | None) -> None:
    both = inquiry(tester)
    number, request = both.asked(extensions=[] if budget is None else [Budget(budget=budget)])
    both.reply(request, *(Put(data=b"%d" % each) for each in range(5)))
    both.finish(request)
    replies = both.answers(number)
    if budget is None:
        check(len(replies) == 5, "5 replies", f"{len(replies)}")
    else:
        check(len(replies) <= budget, f"at most {budget} replies", f"{len(replies)}")
        check(replies, "some replies", "none")


@req("ZN-NET-012")
@pytest.mark.parametrize("said", [None, 1], ids=["default", "D=1"])
def test_forwarded_request_is_block_by_default(tester: Tester, said: int | None) -> None:
    both = inquiry(tester)
    _, request = both.asked(extensions=[] if said is None else [QoS(D=said)])
    blocks = [bool(ext.D) for ext in request.extensions or [] if isinstance(ext, QoS)]
    # Without QoS the default stands, which is Block for a REQUEST.
    check(all(blocks), "D=1, or no QoS", "D=0")


# QUERY ------------------------------------------------------------------------------------------------


@req("ZN-QRY-001", "ZN-QRY-002", "ZN-QRY-003")
@pytest.mark.parametrize("parameters", [None, "a=1;b=2", "x" * 300], ids=["none", "short", "long"])
@pytest.mark.parametrize("mode", [None, *Consolidation])
def test_fields_of_query_survive_forwarding(tester: Tester, mode: int | None, parameters: str | None) -> None:
    both = inquiry(tester)
    said = {"consolidation": mode, "parameters": parameters}
    _, request = both.asked(body=Query(**{name: value for name, value in said.items() if value is not None}))
    query = request.body
    check(bits(query, 0, 0x1F) == 0x03, "id 0x03", f"{bits(query, 0, 0x1F):#04x}")
    seen = field(query, "consolidation") or Consolidation.AUTO
    check(seen == (mode or 0), f"consolidation {mode or 0:d}", f"{seen:d}")
    check((field(query, "parameters") or None) == parameters, "the parameters as they were sent", "others")


@req("ZN-QRY-004", "ZN-QRY-005", "ZN-DATA-002")
@pytest.mark.parametrize("what", ["SourceInfo", "QueryBody", "Attachment"])
def test_extensions_of_query_survive_forwarding(tester: Tester, what: str) -> None:
    both = inquiry(tester)
    data = tester.rng.randbytes(300)
    said: dict[str, Extension] = {
        "SourceInfo": SourceInfo(zid=b"\x11\x22", eid=9, source_sn=300),
        "QueryBody": QueryBody(encoding=5, data=data),
        "Attachment": QueryAttachment(attachment=data),
    }
    both.asked("without")
    _, request = both.asked(body=Query(extensions=[said[what]]))
    # A router may add extensions that need not be understood.
    chain = [ext for ext in request.body.extensions or [] if not isinstance(ext, UnknownExtension)]
    check([str(ext.name) for ext in chain] == [what], what, listed([str(ext.name) for ext in chain]))
    check(content(chain[0]) == content(said[what]), f"{what} as it was sent", "other bytes")


def content(extension: Extension) -> bytes:
    """Returns the bytes of an extension, whether others follow it or not."""
    raw = bytes(extension)
    return bytes([raw[0] & 0x7F]) + raw[1:]
