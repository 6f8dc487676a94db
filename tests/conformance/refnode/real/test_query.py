"""Get, queryable and querier, through the node."""

from __future__ import annotations

import time

import pytest

from tests.conformance.refnode.real.clients import Client, Event, payload, text, texts
from tests.conformance.refnode.real.conftest import Connect, StartWorker
from tests.conformance.refnode.real.conversation import LONG, put
from tests.conformance.refnode.real.nodes import RefNode, RunningNode

AT_ONCE = 8.0
"""More than anything needs that does not wait for a timeout."""


def answered(replies: list[Event]) -> list[str]:
    """Returns the payloads of replies, in order of the alphabet."""
    return sorted(text(reply) for reply in replies)


@pytest.mark.spot_check
def test_get_that_concerns_nobody_ends_at_once(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    there.queryable("nobody/else", put("x"))
    assert here.get("nobody/here", within=AT_ONCE, timeout=LONG) == []


@pytest.mark.spot_check
def test_get_brings_the_reply_with_all_that_was_said_about_it(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    there.queryable("reply/*", put("r", encoding="application/json", attachment=payload("at")))
    [reply] = here.get("reply/a", within=AT_ONCE, timeout=LONG)
    reply.pop("timestamp")
    reply.pop("priority")
    assert reply == {
        "replier": there.zid,
        "kind": "PUT",
        "key": "reply/a",
        "payload": {"size": 1, "hex": b"r".hex()},
        "encoding": "application/json",
        "attachment": {"size": 2, "hex": b"at".hex()},
        "congestion": "BLOCK",
        "express": False,
    }


def test_queryable_is_told_all_that_the_query_said(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    queryable = there.queryable("told/**", put("x"))
    here.get(
        "told/*/b?a=1;b=%20c",
        payload=payload(b"\x00question"),
        encoding="text/plain",
        attachment=payload("at"),
    )
    query = queryable.next()
    assert (query["key"], query["parameters"]) == ("told/*/b", "a=1;b=%20c")
    assert bytes.fromhex(query["payload"]["hex"]) == b"\x00question"
    assert query["encoding"] == "text/plain"
    assert bytes.fromhex(query["attachment"]["hex"]) == b"at"


def test_query_without_a_payload_arrives_without_one(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    queryable = there.queryable("bare", put("x"))
    here.get("bare")
    query = queryable.next()
    assert (query["parameters"], query["payload"], query["attachment"]) == ("", None, None)


@pytest.mark.spot_check
def test_errors_and_deletions_are_replies_too(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    there.queryable(
        "kinds/**",
        put("fine", key="kinds/a"),
        {"kind": "DELETE", "key": "kinds/b", "attachment": payload("at")},
        {"kind": "ERR", "payload": payload("wrong"), "encoding": "text/plain"},
    )
    replies = here.get("kinds/*", consolidation="NONE", within=AT_ONCE, timeout=LONG)
    assert [reply["kind"] for reply in replies] == ["PUT", "DELETE", "ERR"]
    assert replies[1]["key"] == "kinds/b"
    assert replies[1]["attachment"] == {"size": 2, "hex": b"at".hex()}
    assert (text(replies[2]), replies[2]["encoding"]) == ("wrong", "text/plain")


def test_many_replies_come_in_order(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    there.queryable("replies/**", *(put(str(number), key=f"replies/{number}") for number in range(300)))
    replies = here.get("replies/*", consolidation="NONE", within=AT_ONCE, timeout=LONG)
    assert texts(replies) == [str(number) for number in range(300)]


def test_reply_arrives_before_the_queryable_has_finished(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    queryable = there.holding_queryable("slow/a")
    asked = here.start_get("slow/a", consolidation="NONE", timeout=LONG)
    query = queryable.next()
    there.reply(query, "PUT", payload=payload("first"))
    assert text(asked.next()) == "first"
    there.reply(query, "PUT", payload=payload("second"))
    assert text(asked.next()) == "second"
    there.finish(query)
    assert asked.rest(AT_ONCE) == []


def test_queries_may_be_answered_in_another_order(node: RunningNode, connect: Connect) -> None:
    here, there, other = connect(node), connect(node), connect(node)
    queryable = there.holding_queryable("order/**")
    asked = [
        client.start_get(f"order/{n}", timeout=LONG) for n, client in enumerate((here, other, here, there))
    ]
    # Its own client asks the fourth, which a library may answer without the node.
    queries = {query["key"]: query for query in queryable.take(4)}
    for key, query in sorted(queries.items(), reverse=True):
        there.reply(query, "PUT", payload=payload(key))
        there.finish(query)
    for n, entity in enumerate(asked):
        assert texts(entity.rest(AT_ONCE)) == [f"order/{n}"]


def three(node: RunningNode, connect: Connect, key: str) -> Client:
    """Connects three clients with a queryable each, two of them complete, and one that asks."""
    connect(node).queryable(f"{key}/a", put("part"))
    connect(node).queryable(f"{key}/**", put("whole 1"), complete=True)
    connect(node).queryable(f"{key}/**", put("whole 2"), complete=True)
    return connect(node)


@pytest.mark.spot_check
@pytest.mark.parametrize(
    ("target", "expected"),
    [("ALL", ["part", "whole 1", "whole 2"]), ("ALL_COMPLETE", ["whole 1", "whole 2"])],
)
def test_target_chooses_the_queryables(
    node: RunningNode, connect: Connect, target: str, expected: list[str]
) -> None:
    here = three(node, connect, "target")
    replies = here.get("target/a", target=target, consolidation="NONE", within=AT_ONCE, timeout=LONG)
    assert answered(replies) == expected


def test_best_matching_asks_a_complete_queryable(node: RunningNode, connect: Connect) -> None:
    here = three(node, connect, "best")
    replies = answered(
        here.get("best/a", target="BEST_MATCHING", consolidation="NONE", within=AT_ONCE, timeout=LONG)
    )
    assert len(set(replies)) == len(replies)
    assert set(replies) & {"whole 1", "whole 2"}


def test_all_complete_without_any_ends_at_once(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    there.queryable("part/a", put("x"))
    there.queryable("part/b", put("x"), complete=True)
    # Complete for one of the keys that are asked for is not complete for all of them.
    assert here.get("part/*", target="ALL_COMPLETE", within=AT_ONCE, timeout=LONG) == []


def test_wildcards_reach_every_queryable_that_intersects(node: RunningNode, connect: Connect) -> None:
    here, there, other = connect(node), connect(node), connect(node)
    there.queryable("wild/a", put("a"))
    there.queryable("wild/b/c", put("bc"))
    other.queryable("wild/*/c", put("*c", key="wild/x/c"))
    other.queryable("wilder/a", put("none"))

    def asked(selector: str) -> list[str]:
        return answered(here.get(selector, target="ALL", consolidation="NONE", within=AT_ONCE, timeout=LONG))

    assert asked("wild/*") == ["a"]
    assert asked("wild/**") == ["*c", "a", "bc"]
    assert asked("wild/*/c") == ["*c", "bc"]


@pytest.mark.parametrize(("mode", "count"), [("NONE", 4), ("LATEST", 1)])
def test_consolidation(node: RunningNode, connect: Connect, mode: str, count: int) -> None:
    here = connect(node)
    for number in range(2):
        connect(node).queryable("same/key", put(f"{number} 1"), put(f"{number} 2"))
    replies = here.get("same/key", target="ALL", consolidation=mode, within=AT_ONCE, timeout=LONG)
    assert len(replies) == count


def test_replies_on_other_keys_arrive_when_they_are_welcome(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    there.queryable("other/key", put("x", key="somewhere/else"))
    [reply] = here.get("other/key", accept_replies="ANY", within=AT_ONCE, timeout=LONG)
    assert reply["key"] == "somewhere/else"


@pytest.mark.spot_check
def test_silence_of_a_queryable_ends_with_the_timeout_of_the_query(
    node: RunningNode, connect: Connect
) -> None:
    here, there, other = connect(node), connect(node), connect(node)
    silent = there.holding_queryable("silent/a")
    other.queryable("silent/*", put("answer"))
    start = time.monotonic()
    replies = here.get("silent/a", target="ALL", consolidation="NONE", timeout=1.0, within=AT_ONCE)
    assert time.monotonic() - start > 0.9
    # The library and the nodes may each say that time is over.
    assert [text(reply) for reply in replies if reply["kind"] == "PUT"] == ["answer"]
    assert {text(reply) for reply in replies if reply["kind"] == "ERR"} <= {"Timeout"}
    # An answer that comes too late is nobody's.
    query = silent.next()
    there.reply(query, "PUT", payload=payload("late"))
    there.finish(query)
    assert answered(here.get("silent/b", within=AT_ONCE, timeout=LONG)) == ["answer"]


@pytest.mark.spot_check
def test_query_ends_when_the_process_that_was_asked_dies(
    node: RunningNode, connect: Connect, start_worker: StartWorker
) -> None:
    here, mortal = connect(node), start_worker()
    there = connect(node, worker=mortal)
    queryable = there.holding_queryable("mortal/a")
    asked = here.start_get("mortal/a", consolidation="NONE", timeout=LONG)
    there.reply(queryable.next(), "PUT", payload=payload("last words"))
    assert text(asked.next()) == "last words"
    mortal.kill()
    assert asked.rest(AT_ONCE) == []
    # When a node notices is its own business, so a real one may let this query time out; ours has noticed by now.
    timeout = LONG if isinstance(node, RefNode) else LONG / 30
    later = here.get("mortal/a", within=AT_ONCE, timeout=timeout)
    assert [reply for reply in later if reply["kind"] != "ERR"] == []
    assert not (later and isinstance(node, RefNode))


def test_query_ends_when_the_session_that_was_asked_closes(
    node: RunningNode, connect: Connect, start_worker: StartWorker
) -> None:
    here, other = connect(node), connect(node)
    there = connect(node, worker=start_worker())
    queryable = there.holding_queryable("closing/a")
    other.queryable("closing/*", put("other"))
    asked = here.start_get("closing/a", target="ALL", consolidation="NONE", timeout=LONG)
    queryable.next()
    there.close()
    assert answered([reply for reply in asked.rest(AT_ONCE) if reply["kind"] == "PUT"]) == ["other"]


def test_answer_to_somebody_who_has_left_harms_nobody(
    node: RunningNode, connect: Connect, start_worker: StartWorker
) -> None:
    here, there, mortal = connect(node), connect(node), start_worker()
    queryable = there.holding_queryable("left/a")
    connect(node, worker=mortal).start_get("left/a", timeout=LONG)
    left = queryable.next()
    mortal.kill()
    asked = here.start_get("left/a", timeout=LONG)
    query = queryable.next()
    there.reply(left, "PUT", payload=payload("for the dead"))
    there.finish(left)
    there.reply(query, "PUT", payload=payload("for the living"))
    there.finish(query)
    assert texts(asked.rest(AT_ONCE)) == ["for the living"]


def test_undeclared_queryable_is_not_asked(node: RunningNode, connect: Connect) -> None:
    here, there, other = connect(node), connect(node), connect(node)
    gone, stays = there.queryable("undeclared/*", put("gone")), other.queryable("undeclared/a", put("stays"))
    gone.undeclare()
    assert answered(here.get("undeclared/a", target="ALL", within=AT_ONCE, timeout=LONG)) == ["stays"]
    stays.undeclare()
    assert here.get("undeclared/a", target="ALL", within=AT_ONCE, timeout=LONG) == []
    assert gone.take(1, within=0) == []


def test_hundreds_of_queries_at_once(node: RunningNode, connect: Connect) -> None:
    clients = [connect(node) for _ in range(3)]
    clients[0].queryable("hundreds/**", put("yes"))
    asked = [clients[n % 3].start_get(f"hundreds/{n}", timeout=LONG) for n in range(400)]
    for number, entity in enumerate(asked):
        [reply] = entity.rest(AT_ONCE)
        assert reply["key"] == f"hundreds/{number}"


@pytest.mark.spot_check
def test_querier_asks_and_learns_who_is_there(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    querier = here.querier("querier/*", timeout=LONG)
    changes = querier.listener()
    here.settle()
    assert not querier.matching()
    assert querier.get(AT_ONCE) == []
    queryable = there.queryable("querier/**", put("r", key="querier/a"))
    assert changes.next() == {"matching": True}
    [reply] = querier.get(AT_ONCE, parameters="p=1", payload=payload("q"), attachment=payload("at"))
    assert (reply["key"], text(reply)) == ("querier/a", "r")
    query = queryable.next()
    assert (query["key"], query["parameters"]) == ("querier/*", "p=1")
    assert (query["payload"], query["attachment"]) == ({"size": 1, "hex": "71"}, {"size": 2, "hex": "6174"})
    queryable.undeclare()
    assert changes.next() == {"matching": False}
    assert querier.get(AT_ONCE) == []


def test_querier_of_complete_queryables_learns_of_those_only(node: RunningNode, connect: Connect) -> None:
    here, there, other = connect(node), connect(node), connect(node)
    querier = here.querier("complete/a", target="ALL_COMPLETE", timeout=LONG)
    changes = querier.listener()
    part = there.queryable("complete/*", put("part"))
    here.settle()
    assert not querier.matching()
    whole = other.queryable("complete/**", put("whole"), complete=True)
    assert changes.next() == {"matching": True}
    assert answered(querier.get(AT_ONCE)) == ["whole"]
    part.undeclare()
    whole.undeclare()
    assert changes.next() == {"matching": False}


def test_querier_learns_that_the_process_of_its_queryable_died(
    node: RunningNode, connect: Connect, start_worker: StartWorker
) -> None:
    here, mortal = connect(node), start_worker()
    querier = here.querier("died/a")
    changes = querier.listener()
    connect(node, worker=mortal).queryable("died/**", put("x"))
    assert changes.next() == {"matching": True}
    mortal.kill()
    assert changes.next() == {"matching": False}


def test_two_queryables_of_one_client_both_answer(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    there.queryable("both/a", put("1"))
    there.queryable("both/*", put("2"))
    assert answered(here.get("both/a", target="ALL", consolidation="NONE", within=AT_ONCE, timeout=LONG)) == [
        "1",
        "2",
    ]
