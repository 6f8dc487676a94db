"""INTEREST: what a session asks to be told of."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.expect import check
from conformance.plugin import req
from conformance.suite.common import (
    DECLARATIONS,
    Watcher,
    declare,
    frame,
    listed,
    question,
    settle,
    undeclare,
    unknown,
    watcher,
)
from conformance.tester import SessionEnd, Tester
from scapy_layers.codes import InterestMode
from scapy_layers.extensions import NodeId, QoS, Timestamp
from scapy_layers.message import Extension
from scapy_layers.network import Interest, ResponseFinal

KINDS = pytest.mark.parametrize("kind", DECLARATIONS)


def made(kind: str, key: str) -> str:
    """Returns the words for a declaration."""
    return f"{DECLARATIONS[kind][0].shape().name} {key}"


def populated(tester: Tester) -> tuple[Watcher, SessionEnd]:
    """Returns a watcher that has not asked yet, and a session that declared ``old`` in every kind."""
    told = watcher(tester)
    other = tester.session()
    for kind in DECLARATIONS:
        declare(other, kind, told.at("old"))
    return told, other


# Layout -------------------------------------------------------------------------------------------


@req("ZN-INT-002")
@pytest.mark.parametrize("number", [0, 128, 0xFFFF_FFFF])
def test_interest_id_is_a_z32_that_the_answer_repeats(tester: Tester, number: int) -> None:
    told, _ = populated(tester)
    told.ask(interest_id=number, tokens=1)
    answers = told.snapshot()
    check([answer.interest_id for answer in answers] == [number], "one D_TOKEN with the id", "another answer")


@req("ZN-INT-003")
def test_final_has_no_options(tester: Tester) -> None:
    told, _ = populated(tester)
    number = told.ask()
    told.snapshot()
    request = question(request_id=77, key_suffix="harness/unused")
    end = told.end
    end.send(frame(end, Interest(interest_id=number, mode=InterestMode.FINAL), request))
    end.expect(ResponseFinal, request_id=77)
    again = question(request_id=78, key_suffix="harness/unused")
    end.send(frame(end, Interest(interest_id=number, mode=InterestMode.FINAL)), b"\x0f" + bytes(again))
    if settle(end):
        answers = [seen for seen in end.inbox if isinstance(seen.message, ResponseFinal)]
        stray = [seen for seen in answers if seen.message.request_id == 78]
        check(not stray, "nothing behind a stray options byte", "RESPONSE_FINAL")


@req("ZN-INT-004")
@KINDS
def test_each_option_asks_for_one_kind(tester: Tester, kind: str) -> None:
    told, _ = populated(tester)
    told.ask(**{kind: 1})
    told.expect(made(kind, "old"), "D_FINAL")


@req("ZN-INT-005", "ZN-INT-105")
@pytest.mark.parametrize("way", ["suffix", "alias", "alias and suffix"])
def test_restricted_interest_tells_only_what_intersects(tester: Tester, way: str) -> None:
    told, other = populated(tester)
    declare(other, "tokens", told.at("in/side"))
    declare(other, "tokens", told.at("out/side"))
    told.end.declare_alias(7, told.at("in/**") if way == "alias" else told.at("in"))
    keys: dict[str, dict[str, Any]] = {
        "suffix": {"key_suffix": told.at("in/**")},
        "alias": {"M": 1, "key_scope": 7, "key_suffix": None},
        "alias and suffix": {"M": 1, "key_scope": 7, "key_suffix": "/**"},
    }
    told.ask(tokens=1, **keys[way])
    told.expect("D_TOKEN in/side", "D_FINAL")


@req("ZN-INT-005")
def test_interest_without_restriction_tells_all(tester: Tester) -> None:
    told, other = populated(tester)
    declare(other, "tokens", told.at("in/side"))
    told.ask(tokens=1, restricted=0, key_suffix=None)
    seen = told.told()
    wanted = {"D_TOKEN old", "D_TOKEN in/side", "D_FINAL"}
    check(wanted <= set(seen), listed(sorted(wanted)), listed(sorted(wanted & set(seen))))


@req("ZN-INT-006")
@pytest.mark.parametrize(
    "chain",
    [[], [QoS(D=1)], [Timestamp(timestamp=1 << 32, timestamp_id=b"\x01")], [NodeId(node_id=0)]],
    ids=["none", "QoS", "Timestamp", "NodeId"],
)
def test_interest_may_carry_qos_timestamp_and_node_id(tester: Tester, chain: list[Extension]) -> None:
    told, _ = populated(tester)
    told.ask(tokens=1, extensions=[ext.copy() for ext in chain])
    told.expect("D_TOKEN old", "D_FINAL")


@req("ZN-EXT-102")
@pytest.mark.parametrize("enc", ["unit", "z64", "zbuf"])
def test_unknown_optional_extension_of_interest_is_skipped(tester: Tester, enc: str) -> None:
    told, _ = populated(tester)
    told.ask(tokens=1, extensions=[unknown(enc)])
    told.expect("D_TOKEN old", "D_FINAL")


# Modes --------------------------------------------------------------------------------------------------


@req("ZN-INT-101", "ZN-INT-001", "ZN-RTE-023", "ZN-RTE-024")
@KINDS
def test_current_is_a_snapshot_with_d_final(tester: Tester, kind: str) -> None:
    told, other = populated(tester)
    told.ask(InterestMode.CURRENT, **{kind: 1})
    told.expect(made(kind, "old"), "D_FINAL")
    declare(other, kind, told.at("new"))
    told.expect_nothing(tester, other, kind)


@req("ZN-INT-102", "ZN-INT-001")
@KINDS
def test_future_tells_of_changes_without_d_final(tester: Tester, kind: str) -> None:
    told, other = populated(tester)
    told.ask(InterestMode.FUTURE, **{kind: 1})
    told.expect()
    declare(other, kind, told.at("new"))
    told.expect(made(kind, "new"))


@req("ZN-INT-103", "ZN-INT-001", "ZN-RTE-023", "ZN-RTE-024")
@KINDS
def test_current_future_is_a_snapshot_then_changes(tester: Tester, kind: str) -> None:
    told, other = populated(tester)
    for key in ("second", "third"):
        declare(other, kind, told.at(key))
    told.ask(InterestMode.CURRENT_FUTURE, **{kind: 1})
    seen = sorted(told.words(answer) for answer in told.snapshot())
    wanted = sorted(made(kind, key) for key in ("old", "second", "third"))
    check(seen == wanted, listed(wanted), listed(seen))
    declare(other, kind, told.at("new"))
    told.expect(made(kind, "new"))


@req("ZN-RTE-024")
@KINDS
def test_d_final_closes_an_empty_list_too(tester: Tester, kind: str) -> None:
    told = watcher(tester)
    told.ask(InterestMode.CURRENT_FUTURE, **{kind: 1})
    told.expect("D_FINAL")


@req("ZN-INT-104", "ZN-INT-001")
@KINDS
def test_final_ends_an_interest(tester: Tester, kind: str) -> None:
    told, other = populated(tester)
    number = told.ask(**{kind: 1})
    told.snapshot()
    declare(other, kind, told.at("before"))
    told.expect(made(kind, "before"))
    told.end.post(Interest(interest_id=number, mode=InterestMode.FINAL))
    told.end.fence()
    declare(other, kind, told.at("after"))
    told.expect_nothing(tester, other, kind)


@req("ZN-INT-104")
@KINDS
def test_final_ends_news_of_what_was_told_before(tester: Tester, kind: str) -> None:
    told = watcher(tester)
    other = tester.session()
    number = told.ask(**{kind: 1})
    told.snapshot()
    entity = declare(other, kind, told.at("a"))
    told.expect(made(kind, "a"))
    told.end.post(Interest(interest_id=number, mode=InterestMode.FINAL))
    told.end.fence()
    undeclare(other, kind, entity)
    told.expect_nothing(tester, other, kind)


@req("ZN-INT-106")
@pytest.mark.parametrize("kind", ["subscribers", "queryables"])
def test_aggregate_folds_matches_into_one(tester: Tester, kind: str) -> None:
    told = watcher(tester)
    other = tester.session()
    for key in ("a", "b", "c"):
        declare(other, kind, told.at(key))
    told.ask(**{kind: 1})
    seen = [told.words(answer) for answer in told.snapshot()]
    check(len(seen) == 3, "three declarations without aggregate", listed(seen))
    told.ask(**{kind: 1}, aggregate=1)
    aggregated = [told.words(answer) for answer in told.snapshot()]
    check(aggregated == [made(kind, "**")], made(kind, "**"), listed(sorted(aggregated)))
