"""REQUEST, RESPONSE, and who answers."""

from __future__ import annotations

from pcaps.scenarios.data import PRIORITIES
from pcaps.stage import Stage, scenario


@scenario()
def query(stage: Stage) -> None:
    """REQUEST and RESPONSE: one reply, several, an error, a deletion, no reply, no queryable.

    Parameters, body, attachment, SourceInfo, targets, consolidations, a priority, a querier.
    """
    router = stage.router()
    bob = stage.client("bob", router)
    bob.queryable(name="one", key="answers/one", answers=[{"key": "answers/one", "payload": "1"}])
    bob.queryable(
        name="many",
        key="answers/many/*",
        complete=True,
        answers=[
            {"key": "answers/many/a", "payload": "first", "encoding": "text/plain"},
            {"key": "answers/many/b", "payload": "second", "attachment": "with", "stamped": True},
            {"key": "answers/many/c"},
        ],
    )
    bob.queryable(
        name="error", key="answers/error", answers=[{"payload": "no such thing", "encoding": "text/plain"}]
    )
    bob.queryable(name="bare", key="answers/bare", answers=[{"payload": "error without encoding"}])
    bob.queryable(name="none", key="answers/none", answers=[])
    bob.fence()
    alice = stage.client("alice", router)
    stage.asks(alice, "answers/one")
    stage.asks(alice, "answers/one?a=1;b=two")
    stage.asks(alice, "answers/many/*", target="ALL", consolidation="NONE")
    stage.asks(alice, "answers/many/*", target="ALL_COMPLETE", consolidation="MONOTONIC")
    stage.asks(alice, "answers/error")
    stage.asks(alice, "answers/bare")
    stage.asks(alice, "answers/none")
    stage.asks(alice, "nobody/answers")
    stage.asks(
        alice, "answers/one", payload='{"body": true}', encoding="application/json", attachment="query"
    )
    stage.asks(alice, "answers/*", target="ALL", accept_replies="ANY", priority="INTERACTIVE_HIGH", sourced=3)
    alice.querier(name="asker", key="answers/**", target="ALL")
    alice.matching(name="asker")
    stage.asks(alice, "by=querier", querier="asker")
    alice.undeclare(name="asker")
    # The error queryables, one, none: *; these and many: **.
    stage.answered(bob, 8 + 4 + 5)


TARGETS = ("BEST_MATCHING", "ALL", "ALL_COMPLETE")

CONSOLIDATIONS = ("AUTO", "NONE", "MONOTONIC", "LATEST")


@scenario()
def targets(stage: Stage) -> None:
    """Each target with each consolidation, for three queryables of two nodes, two of them complete.

    Then queries and replies of each priority and congestion control, express and not, with SourceInfo and
    TimestampStack; replies for other keys; errors with an encoding.
    """
    router = stage.router()
    bob = stage.client("bob", router)
    dave = stage.client("dave", router)
    for node, name, complete in ((bob, "whole", True), (bob, "part", False), (dave, "other", True)):
        answers = [
            {"key": "store/a", "payload": f"a of {name}", "stamped": True},
            {"key": f"store/{name}", "payload": f"own of {name}", "encoding": "text/plain;utf-8"},
        ]
        node.queryable(name=name, key="store/**", complete=complete, answers=answers)
    bob.queryable(
        name="error",
        key="error",
        answers=[{"payload": '{"no": "such"}', "encoding": "application/json;schema"}],
    )
    bob.queryable(name="elsewhere", key="asked", answers=[{"key": "another/key", "payload": "found"}])
    bob.fence()
    dave.fence()
    alice = stage.client("alice", router)
    for target in TARGETS:
        for consolidation in CONSOLIDATIONS:
            stage.asks(alice, "store/*", target=target, consolidation=consolidation)
    stage.asks(alice, "error")
    stage.asks(alice, "asked", accept_replies="ANY", consolidation="NONE")
    stage.asks(alice, "asked?_anyke", consolidation="NONE")
    stage.asks(alice, "store/a?_time=[now(-1h)..now()];limit=3", target="ALL", consolidation="NONE")


@scenario()
def query_lanes(stage: Stage) -> None:
    """Queries and replies of each priority and congestion control, express and not, with SourceInfo."""
    router = stage.router()
    bob = stage.client("bob", router)
    for priority in PRIORITIES:
        key = f"lane/{priority.lower()}"
        answers = [
            {"key": key, "payload": "reply", "priority": priority, "congestion_control": "BLOCK"},
            {"key": key, "payload": "now", "priority": priority, "express": True, "attachment": "urgent"},
            {"key": key, "priority": "DATA_LOW", "stamped": True},
        ]
        bob.queryable(name=priority, key=key, answers=answers)
    bob.fence()
    alice = stage.client("alice", router)
    for number, priority in enumerate(PRIORITIES):
        asked = {"priority": priority, "consolidation": "NONE", "sourced": number}
        stage.asks(alice, f"lane/{priority.lower()}", congestion_control="BLOCK", **asked)
        stage.asks(alice, f"lane/{priority.lower()}", express=True, congestion_control="DROP", **asked)


@scenario()
def matching(stage: Stage) -> None:
    """Publishers and queriers that are told who is at the other end: INTEREST and the declarations it brings.

    The other end comes, gets company, and goes; a complete queryable for a querier that wants one.
    """
    router = stage.router()
    alice = stage.client("alice", router)
    alice.publisher(name="data", key="match/data")
    alice.querier(name="any", key="match/q/*", target="ALL")
    alice.querier(name="complete", key="match/q/*", target="ALL_COMPLETE")
    for name in ("data", "any", "complete"):
        alice.listen_matching(name=name)
    alice.fence()
    bob = stage.client("bob", router)
    bob.subscribe(name="data", key="match/*")
    alice.gathered(what="matching", count=1)
    bob.subscribe(name="again", key="match/data")
    bob.queryable(name="partial", key="match/q/**", answers=[{"key": "match/q/a", "payload": "a"}])
    alice.gathered(what="matching", count=2)
    stage.asks(alice, "", querier="any")
    bob.queryable(
        name="complete", key="match/q/*", complete=True, answers=[{"key": "match/q/b", "payload": "b"}]
    )
    alice.gathered(what="matching", count=3)
    stage.asks(alice, "x=1", querier="complete")
    alice.publish(name="data", payload="to both")
    stage.received(bob, 2)
    for name in ("data", "again", "partial", "complete"):
        bob.undeclare(name=name)
    alice.gathered(what="matching", count=6)
    for name in ("data", "any", "complete"):
        alice.undeclare(name=name)
    alice.fence()


@scenario()
def unanswered(stage: Stage) -> None:
    """A query that times out: ERR with an empty key by the router, then RESPONSE_FINAL; one whose answerer goes."""
    router = stage.router()
    bob = stage.client("bob", router)
    bob.queryable(name="slow", key="slow", answers=[{"key": "slow", "payload": "not all"}], keep=True)
    bob.fence()
    alice = stage.client("alice", router)
    stage.asks(alice, "slow", timeout=0.3, consolidation="NONE")
    stage.answered(bob, 1)
    alice.tell("get", selector="slow", timeout=20.0, consolidation="NONE")
    stage.answered(bob, 2)
    stage.close(bob)
    alice.answer()
