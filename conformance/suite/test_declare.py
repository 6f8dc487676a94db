"""DECLARE: entities, aliases, and what other sessions are told of them."""

from __future__ import annotations

import pytest

from conformance.expect import check
from conformance.plugin import req
from conformance.suite.common import (
    ALL_KINDS,
    DECLARATIONS,
    bits,
    declare,
    frame,
    listed,
    pair,
    settle,
    undeclare,
    undropped,
    unknown,
    watcher,
)
from conformance.tester import Tester
from scapy_layers.data import Put
from scapy_layers.declarations import (
    DeclareKeyExpr,
    DeclareQueryable,
    DeclareSubscriber,
    UndeclareKeyExpr,
)
from scapy_layers.extensions import NodeId, QoS, QueryableInfo, Timestamp
from scapy_layers.message import Extension
from scapy_layers.network import Declare

MANY_ALIASES = 40
"""Aliases of one session; more of them than a table of a small round size has."""

KINDS = pytest.mark.parametrize("kind", DECLARATIONS)


def names(kind: str) -> tuple[str, str]:
    """Returns the names of the bodies that declare and undeclare a kind."""
    made, gone = DECLARATIONS[kind]
    return made.shape().name, gone.shape().name


# DECLARE itself -----------------------------------------------------------------------------------


@req("ZN-DCL-001")
def test_declare_header_has_i_and_no_reserved_bit(tester: Tester) -> None:
    told = watcher(tester)
    told.ask()
    other = tester.session()
    declare(other, "subscribers", told.at("a"))
    told.until("D_SUBSCRIBER a")
    declares = [seen.message for seen in told.end.inbox if isinstance(seen.message, Declare)]
    for seen in declares:
        check(bits(seen, 0, 0x5F) == 0x1E, "header with id 0x1e, bit 6 clear", f"{bits(seen, 0, 0x5F):#04x}")
        check(bool(bits(seen, 0, 0x20)) == (seen.interest_id is not None), "I for an id", "the opposite")
    body = Declare(body=DeclareSubscriber(entity_id=99, key_suffix=told.at("reserved bit")))
    raw = bytes(body)
    other.send(frame(other), bytes([raw[0] | 0x40]) + raw[1:])
    told.until("D_SUBSCRIBER reserved bit")


@req("ZN-DCL-002")
def test_interest_id_is_there_only_in_answers(tester: Tester) -> None:
    told = watcher(tester)
    other = tester.session()
    declare(other, "tokens", told.at("old"))
    number = told.ask()
    answers = told.snapshot()
    seen = [answer.interest_id for answer in answers]
    check(seen == [number], "one DECLARE that answers the interest", f"{len(seen)}", f"{seen}")
    declare(other, "tokens", told.at("new"))
    update = told.end.expect(Declare)
    check(not update.I, "later updates without an interest id", "with one")


@req("ZN-DCL-101")
@KINDS
def test_id_that_was_not_declared_takes_nothing_back(tester: Tester, kind: str) -> None:
    made, gone = names(kind)
    told = watcher(tester)
    told.ask()
    first, second = tester.session(), tester.session()
    declare(first, kind, told.at("a"))
    declare(second, kind, told.at("b"))
    undeclare(second, kind, 4_000_000)
    declare(second, kind, told.at("control"))
    before = told.until(f"{made} control")
    check(not any(word.startswith(gone) for word in before), f"no {gone}", listed(before))


@req("ZN-DCL-003")
@pytest.mark.parametrize(
    "chain",
    [[], [QoS(D=1)], [Timestamp(timestamp=1 << 32, timestamp_id=b"\x01")], [NodeId(node_id=0)]],
    ids=["none", "QoS", "Timestamp", "NodeId"],
)
def test_declare_may_carry_qos_timestamp_and_node_id(tester: Tester, chain: list[Extension]) -> None:
    told = watcher(tester)
    told.ask()
    declare(tester.session(), "subscribers", told.at("a"), extensions=[ext.copy() for ext in chain])
    told.until("D_SUBSCRIBER a")


@req("ZN-NET-012")
@KINDS
def test_declarations_of_the_node_are_block(tester: Tester, kind: str) -> None:
    made, gone = names(kind)
    told = watcher(tester)
    told.ask()
    other = tester.session()
    number = declare(other, kind, told.at("a"))
    told.until(f"{made} a")
    undeclare(other, kind, number)
    told.until(f"{gone} a")
    declares = [seen.message for seen in told.end.inbox if isinstance(seen.message, Declare)]
    blocks = [bool(ext.D) for seen in declares for ext in seen.extensions or [] if isinstance(ext, QoS)]
    # Without QoS the default stands, which is Block for a DECLARE.
    check(all(blocks), "D=1, or no QoS", "D=0")


@req("ZN-EXT-103")
@pytest.mark.parametrize("enc", ["unit", "z64", "zbuf"])
def test_unknown_mandatory_extension_of_declare_makes_it_unacceptable(tester: Tester, enc: str) -> None:
    told = watcher(tester)
    told.ask()
    other, last = tester.session(), tester.session()
    for key, mandatory in (("optional", False), ("mandatory", True)):
        body = DeclareSubscriber(entity_id=90 + mandatory, key_suffix=told.at(key))
        other.post(Declare(body=body, extensions=[unknown(enc, mandatory=mandatory)]))
        if not mandatory:
            told.until("D_SUBSCRIBER optional")
    settle(other)
    declare(last, "subscribers", told.at("control"))
    before = told.until("D_SUBSCRIBER control")
    check("D_SUBSCRIBER mandatory" not in before, "no such declaration", "D_SUBSCRIBER mandatory")


@req("ZN-EXT-102")
@pytest.mark.parametrize("enc", ["unit", "z64", "zbuf"])
def test_unknown_optional_extension_of_declare_is_skipped(tester: Tester, enc: str) -> None:
    told = watcher(tester)
    told.ask()
    other = tester.session()
    declare(other, "subscribers", told.at("a"), extensions=[unknown(enc)])
    body = DeclareSubscriber(entity_id=99, key_suffix=told.at("b"), extensions=[unknown(enc)])
    other.post(Declare(body=body))
    told.until("D_SUBSCRIBER a")
    told.until("D_SUBSCRIBER b")


@req("ZN-DCL-004")
def test_one_declare_carries_one_declaration(tester: Tester) -> None:
    told = watcher(tester)
    told.ask()
    other = tester.session()
    first, second, stray = (
        DeclareSubscriber(entity_id=number, key_suffix=told.at(key))
        for number, key in ((91, "first"), (92, "second"), (93, "stray"))
    )
    other.send(frame(other, Declare(body=first), Declare(body=second)))
    told.until("D_SUBSCRIBER first")
    told.until("D_SUBSCRIBER second")
    other.send(frame(other, Declare(body=first)), stray)
    other.wait(lambda: other.link.ended is not None, 0)
    declare(tester.session(), "subscribers", told.at("control"))
    before = told.until("D_SUBSCRIBER control")
    check("D_SUBSCRIBER stray" not in before, "no second declaration behind one header", listed(before))


# Kinds ------------------------------------------------------------------------------------------------


@req("ZN-DCL-101", "ZN-RTE-003")
@KINDS
def test_other_sessions_are_told_what_is_declared_and_undeclared(tester: Tester, kind: str) -> None:
    made, gone = names(kind)
    told = watcher(tester)
    told.ask()
    told.expect("D_FINAL")
    other = tester.session()
    number = declare(other, kind, told.at("a"))
    told.expect(f"{made} a")
    undeclare(other, kind, number)
    told.expect(f"{gone} a")


@req("ZN-DCL-104")
def test_publishers_are_not_declared(tester: Tester) -> None:
    told = watcher(tester)
    told.ask()
    told.expect("D_FINAL")
    other = tester.session()
    other.put(told.at("a"), b"1")
    declare(other, "subscribers", told.at("control"))
    told.expect("D_SUBSCRIBER control")


@req("ZN-DCL-105")
@pytest.mark.parametrize(("complete", "distance"), [(0, 0), (1, 0), (1, 3), (0, 3)])
def test_queryables_carry_complete_and_distance(tester: Tester, complete: int, distance: int) -> None:
    told = watcher(tester)
    told.ask()
    tester.session().declare_queryable(told.at("a"), complete=bool(complete), distance=distance)
    told.end.until(Declare, body=is_queryable)
    seen = next(
        item.message.body
        for item in told.end.inbox
        if isinstance(item.message, Declare) and is_queryable(item.message.body)
    )
    info = next((ext for ext in seen.extensions or [] if isinstance(ext, QueryableInfo)), None)
    check((info.complete if info else 0) == complete, f"complete={complete}", f"complete={1 - complete}")
    far = info.distance if info else 0
    # Each hop may add to the distance; what we declared is the least.
    check(far >= distance, f"a distance of at least {distance}", f"{far}")


def is_queryable(body: object) -> bool:
    """D_QUERYABLE"""
    return isinstance(body, DeclareQueryable)


@req("ZN-DCL-106")
@pytest.mark.parametrize("goodbye", [True, False], ids=["CLOSE", "end-of-stream"])
def test_tokens_of_a_lost_session_are_undeclared(tester: Tester, goodbye: bool) -> None:
    told = watcher(tester)
    told.ask(tokens=1)
    lost, other = tester.session(), tester.session()
    declare(lost, "tokens", told.at("a"))
    declare(other, "tokens", told.at("b"))
    told.until("D_TOKEN b")
    if goodbye:
        lost.session.close()
        lost.flush()
    lost.close()
    before = told.until("U_TOKEN a")
    check("U_TOKEN b" not in before, "only the token of the lost session", listed(before))


# Aliases ----------------------------------------------------------------------------------------------


@req("ZN-DCL-102")
def test_alias_that_was_not_declared_leads_nowhere(tester: Tester) -> None:
    both = pair(tester)
    both.pub.post(undropped(M=1, key_scope=7, key_suffix="/b", body=Put(data=b"1")))
    both.pub.post(undropped(M=1, key_scope=7, body=Put(data=b"1")))
    both.expect()
    both.pub = tester.session()
    both.pub.declare_alias(7, both.at("a"))
    both.pub.post(undropped(M=1, key_scope=7, key_suffix="/b", body=Put(data=b"2")))
    both.expect("PUT a/b=2")


@req("ZN-DCL-102")
def test_alias_may_rest_on_another_alias(tester: Tester) -> None:
    both = pair(tester)
    both.pub.declare_alias(7, both.at("a"))
    both.pub.post(undropped(M=1, key_scope=7, body=Put(data=b"1")))
    both.expect("PUT a=1")
    both.pub.post(Declare(body=DeclareKeyExpr(key_id=8, key_scope=7, key_suffix="/b")))
    both.pub.post(undropped(M=1, key_scope=8, body=Put(data=b"2")))
    both.expect("PUT a/b=2")


@req("ZN-DCL-102")
def test_many_aliases_are_told_apart(tester: Tester) -> None:
    both = pair(tester)
    numbers = range(1, MANY_ALIASES + 1)
    for number in numbers:
        both.pub.declare_alias(number, both.at(f"a{number}"))
    for number in numbers:
        both.pub.post(undropped(M=1, key_scope=number, body=Put(data=b"1")))
    seen = [both.words(push) for push in both.delivered()]
    missing = [word for word in (f"PUT a{number}=1" for number in numbers) if seen.count(word) != 1]
    check(not missing, f"{MANY_ALIASES} values, each under a key of its own", f"not so {listed(missing)}")


@req("ZN-DCL-103")
def test_undeclared_alias_leads_nowhere(tester: Tester) -> None:
    both = pair(tester)
    both.pub.declare_alias(7, both.at("a"))
    both.pub.declare_alias(8, both.at("b"))
    aliased = [undropped(M=1, key_scope=number) for number in (7, 8)]
    both.pub.post(*aliased)
    both.expect("PUT a=1", "PUT b=1")
    both.pub.post(Declare(body=UndeclareKeyExpr(key_id=7)), *aliased)
    seen = [both.words(push) for push in both.delivered()]
    check("PUT a=1" not in seen, "nothing under the alias that was taken back", listed(seen))


@req("ZN-DCL-103")
@KINDS
def test_node_no_longer_uses_an_alias_that_was_taken_back(tester: Tester, kind: str) -> None:
    made, _ = names(kind)
    told = watcher(tester)
    told.ask(**ALL_KINDS)
    told.snapshot()
    other = tester.session()
    # Something else under the key lets the node keep what it knows of it.
    declare(other, "tokens" if kind == "subscribers" else "subscribers", told.at("a"))
    told.end.declare_alias(7, told.at("a"))
    told.end.post(Declare(body=UndeclareKeyExpr(key_id=7)))
    told.told()
    declare(other, kind, told.at("a"))
    told.expect(f"{made} a")


@req("ZN-DCL-102")
@KINDS
def test_alias_serves_in_declarations(tester: Tester, kind: str) -> None:
    made, _ = names(kind)
    told = watcher(tester)
    told.ask(**ALL_KINDS)
    other = tester.session()
    other.declare_alias(7, told.at("a"))
    body = DECLARATIONS[kind][0]
    other.post(Declare(body=body(entity_id=91, M=1, key_scope=7)))
    told.until(f"{made} a")
    other.post(Declare(body=body(entity_id=92, M=1, key_scope=7, key_suffix="/b")))
    told.until(f"{made} a/b")
