"""RESPONSE, RESPONSE_FINAL, REPLY and ERR: answers on their way back."""

from __future__ import annotations

import pytest

from conformance.expect import check, field
from conformance.plugin import req
from conformance.suite.common import bits, declare, frame, inquiry, listed, settle, undeclare, unknown
from conformance.tester import Tester
from scapy_layers.codes import Consolidation, QueryTarget
from scapy_layers.data import Del, Err, Put, Reply
from scapy_layers.extensions import QoS, ResponderId, Target, Timestamp
from scapy_layers.message import Extension
from scapy_layers.network import Request, Response, ResponseFinal

STAMP = Timestamp(timestamp=1 << 32, timestamp_id=b"\x01")
RESPONDER = ResponderId(zid=b"\x11\x22\x33\x44", eid=300)


# RESPONSE -----------------------------------------------------------------------------------------


@req("ZN-RSP-001", "ZN-RSP-004", "ZN-FIN-001")
def test_forwarded_answers_have_their_flags_where_they_belong(tester: Tester) -> None:
    both = inquiry(tester)
    number, request = both.asked("**")
    both.reply(request, Put(data=b"1"), key="x")
    both.finish(request)
    answer = both.expect(number, "PUT x=1")[0]
    check(bits(answer, 0, 0x1F) == 0x1B, "id 0x1b", f"{bits(answer, 0, 0x1F):#04x}")
    check(bool(bits(answer, 0, 0x20)) == bool(answer.key_suffix), "N for a suffix", "the opposite")
    final = next(seen.message for seen in both.asker.inbox[::-1] if isinstance(seen.message, ResponseFinal))
    check(bits(final, 0, 0x7F) == 0x1A, "header with id 0x1a, bits 6:5 clear", f"{bits(final, 0, 0x7F):#04x}")
    # The id may be longer than it needs to be (reading R-03): its last byte is the one without bit 7.
    *more, last = final.original[1:]
    alone = last < 0x80 and all(byte >= 0x80 for byte in more)
    check(final.Z or alone, "header and id only", f"{len(final.original)} bytes")


@req("ZN-RSP-002", "ZN-FIN-002")
def test_answers_carry_the_id_of_their_request(tester: Tester) -> None:
    both = inquiry(tester)
    numbers = [both.ask(key, request_id=number) for key, number in (("first", 42), ("second", 7))]
    requests = {both.answerer.key(seen): seen for seen in (both.answerer.expect(Request) for _ in numbers)}
    for key in ("second", "first"):
        both.reply(requests[both.at(key)], Put(data=key.encode()), key=key)
        both.finish(requests[both.at(key)])
    both.expect(7, "PUT second=second")
    both.expect(42, "PUT first=first")


@req("ZN-RSP-003")
def test_reply_to_nothing_goes_nowhere(tester: Tester) -> None:
    both = inquiry(tester)
    number, request = both.asked()
    stray = request.request_id + 1000
    both.answerer.post(Response(request_id=stray, key_suffix=both.at("stray"), body=Reply(body=Put())))
    both.answerer.post(ResponseFinal(request_id=stray))
    both.reply(request, Put(data=b"1"))
    both.finish(request)
    before = both.asker.until(ResponseFinal, request_id=number)
    seen = [str(message.name) for message in before if isinstance(message, Response | ResponseFinal)]
    check(seen == ["RESPONSE"], "the reply to the query only", listed(seen))


@req("ZN-RSP-003")
def test_reply_of_a_session_that_was_not_asked_goes_nowhere(tester: Tester) -> None:
    both = inquiry(tester)
    number, request = both.asked()
    other = tester.session()
    asked = request.request_id
    other.post(Response(request_id=asked, key_suffix=both.at("a"), body=Reply(body=Put(data=b"stray"))))
    other.post(ResponseFinal(request_id=asked))
    settle(other)
    both.reply(request, Put(data=b"1"))
    both.finish(request)
    both.expect(number, "PUT a=1")


@req("ZN-RSP-005")
@pytest.mark.parametrize(
    "chain", [[], [QoS(D=1)], [STAMP], [RESPONDER]], ids=["none", "QoS", "Timestamp", "ResponderId"]
)
def test_response_may_carry_each_of_its_extensions(tester: Tester, chain: list[Extension]) -> None:
    both = inquiry(tester)
    number, request = both.asked()
    both.reply(request, Put(data=b"1"), extensions=[ext.copy() for ext in chain])
    both.finish(request)
    both.expect(number, "PUT a=1")


@req("ZN-EXT-102")
@pytest.mark.parametrize("enc", ["unit", "z64", "zbuf"])
def test_unknown_optional_extension_of_answers_is_skipped(tester: Tester, enc: str) -> None:
    both = inquiry(tester)
    number, request = both.asked()
    both.reply(request, Put(data=b"1"), extensions=[unknown(enc)])
    both.reply(request, Reply(body=Put(data=b"2"), extensions=[unknown(enc)]))
    both.reply(request, Err(data=b"3", extensions=[unknown(enc)]))
    both.finish(request, extensions=[unknown(enc)])
    both.expect(number, "PUT a=1", "PUT a=2", "ERR 3")


@req("ZN-RSP-006")
def test_responder_id_survives_forwarding(tester: Tester) -> None:
    both = inquiry(tester)
    number, request = both.asked()
    both.reply(request, Put(data=b"1"))
    both.reply(request, Put(data=b"2"), extensions=[RESPONDER.copy()])
    both.finish(request)
    chain = both.expect(number, "PUT a=1", "PUT a=2")[1].extensions or []
    seen = [(ext.zid, ext.eid) for ext in chain if isinstance(ext, ResponderId)]
    check(
        seen == [(RESPONDER.zid, RESPONDER.eid)], "ResponderId as it was sent", "another" if seen else "none"
    )


@req("ZN-RSP-007", "ZN-RPL-001", "ZN-ERR-001")
def test_body_of_response_is_reply_or_err(tester: Tester) -> None:
    both = inquiry(tester)
    number, request = both.asked()
    both.reply(request, Put(data=b"1"), Del(), Err(encoding=1, data=b"no"))
    both.finish(request)
    answers = both.expect(number, "PUT a=1", "DEL a", "ERR no")
    names = [str(answer.body.name) for answer in answers]
    check(names == ["REPLY", "REPLY", "ERR"], "REPLY, REPLY, ERR", listed(names))
    check(field(answers[2].body, "encoding") == 1, "the encoding of ERR as it was sent", "another")


@req("ZN-RSP-007", "ZN-DATA-001")
def test_bare_put_is_no_reply(tester: Tester) -> None:
    both = inquiry(tester)
    number, request = both.asked()
    both.reply(request, Put(data=b"1"))
    bare = Response(request_id=request.request_id, key_suffix=both.at("bare"), body=Put(data=b"2"))
    both.answerer.send(frame(both.answerer, bare))
    if settle(both.answerer):
        both.finish(request)
    both.expect(number, "PUT a=1")


@req("ZN-RSP-101")
@pytest.mark.parametrize("count", [0, 1, 5])
def test_any_number_of_replies_passes_in_order(tester: Tester, count: int) -> None:
    both = inquiry(tester)
    number, request = both.asked()
    both.reply(request, *(Put(data=b"%d" % each) for each in range(count)))
    both.finish(request)
    both.expect(number, *(f"PUT a={each}" for each in range(count)))


@req("ZN-RPL-002")
@pytest.mark.parametrize("mode", [None, Consolidation.NONE, Consolidation.LATEST])
def test_consolidation_of_reply_is_there_only_when_c(tester: Tester, mode: int | None) -> None:
    both = inquiry(tester)
    number, request = both.asked()
    said = {} if mode is None else {"consolidation": mode}
    both.reply(request, Reply(body=Put(data=b"1"), **said))
    both.finish(request)
    reply = both.expect(number, "PUT a=1")[0].body
    seen = field(reply, "consolidation") or 0
    check(seen == (mode or 0), f"consolidation {mode or 0:d}", f"{seen:d}")


# RESPONSE_FINAL ---------------------------------------------------------------------------------------


@req("ZN-FIN-003")
def test_no_reply_comes_after_response_final(tester: Tester) -> None:
    both = inquiry(tester)
    number, request = both.asked()
    both.reply(request, Put(data=b"1"))
    both.finish(request)
    both.reply(request, Put(data=b"late"))
    both.expect(number, "PUT a=1")
    both.answerer.fence()
    both.asker.expect_nothing(Response, fence=both.asker.fence)


@req("ZN-FIN-004", "ZN-RTE-019")
@pytest.mark.parametrize("queryables", [0, 1, 2, 5])
def test_one_final_after_the_last_queryable(tester: Tester, queryables: int) -> None:
    both = inquiry(tester, queryables)
    number = both.ask(extensions=[Target(target=QueryTarget.ALL)])
    requests = [end.expect(Request) for end in both.answerers]
    for end, request in zip(both.answerers, requests, strict=True):
        # Whoever comes later may still reply, so the end of the others is not the end.
        both.asker.expect_nothing(ResponseFinal, fence=both.asker.fence, request_id=number)
        both.finish(request, end)
    both.asker.until(ResponseFinal, request_id=number)
    both.asker.expect_nothing(ResponseFinal, fence=both.asker.fence, request_id=number)


@req("ZN-FIN-005")
def test_query_that_nobody_answers_ends_at_once(tester: Tester) -> None:
    both = inquiry(tester)
    waiting, _ = both.asked()
    unused = both.ask(key_suffix=f"harness/unused/{tester.word()}")
    before = both.asker.until(ResponseFinal, request_id=unused)
    early = [seen for seen in before if isinstance(seen, ResponseFinal) and seen.request_id == waiting]
    check(not early, "no end of the query that has a queryable", "RESPONSE_FINAL")


@req("ZN-FIN-006")
@pytest.mark.parametrize("chain", [[], [QoS(D=1)], [STAMP]], ids=["none", "QoS", "Timestamp"])
def test_response_final_may_carry_qos_and_timestamp(tester: Tester, chain: list[Extension]) -> None:
    both = inquiry(tester)
    number, request = both.asked()
    both.finish(request, extensions=[ext.copy() for ext in chain])
    both.expect(number)
    # A queryable that leaves counts as finished too, so that the querier alone does not show it.
    both.answerer.fence()


@req("ZN-RTE-021")
@pytest.mark.parametrize("way", ["undeclared", "CLOSE", "end of stream"])
def test_queryable_that_leaves_counts_as_finished(tester: Tester, way: str) -> None:
    both = inquiry(tester, queryables=0)
    answerer = tester.session()
    entity = declare(answerer, "queryables", both.at("**"))
    both.answerers.append(answerer)
    number, request = both.asked()
    both.reply(request, Put(data=b"1"))
    answerer.fence()
    both.asker.expect_nothing(ResponseFinal, fence=both.asker.fence, request_id=number)
    if way == "undeclared":
        undeclare(answerer, "queryables", entity)
        both.finish(request)
    elif way == "CLOSE":
        answerer.session.close()
        answerer.flush()
    else:
        answerer.close()
    both.asker.until(ResponseFinal, request_id=number)
