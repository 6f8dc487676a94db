"""Put, delete and subscribe, through the node."""

from __future__ import annotations

import pytest

from tests.conformance.refnode.real.clients import big, digest, payload, texts
from tests.conformance.refnode.real.conftest import Connect, StartWorker
from tests.conformance.refnode.real.nodes import RunningNode

WORDS = {"encoding": "text/plain;charset=x", "attachment": payload(b"\x00\xffat")}
PRIORITIES = (
    "REAL_TIME",
    "INTERACTIVE_HIGH",
    "INTERACTIVE_LOW",
    "DATA_HIGH",
    "DATA",
    "DATA_LOW",
    "BACKGROUND",
)


@pytest.mark.spot_check
def test_put_arrives_with_all_that_was_said_about_it(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    subscriber = there.subscribe("put/all")
    here.put(
        "put/all",
        b"\x00\x01hello\xff",
        **WORDS,
        priority="DATA_HIGH",
        congestion_control="BLOCK",
        express=True,
    )
    sample = subscriber.next()
    sample.pop("timestamp")
    assert sample == {
        "kind": "PUT",
        "key": "put/all",
        "payload": {"size": 8, "hex": b"\x00\x01hello\xff".hex()},
        "encoding": "text/plain;charset=x",
        "attachment": {"size": 4, "hex": "00ff6174"},
        "priority": "DATA_HIGH",
        "congestion": "BLOCK",
        "express": True,
    }


@pytest.mark.spot_check
def test_delete_arrives_as_a_deletion(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    subscriber = there.subscribe("delete/**")
    here.put("delete/a", "there")
    here.delete("delete/a", attachment=payload("gone"), priority="DATA_LOW")
    put, deletion = subscriber.take(2)
    assert (put["kind"], deletion["kind"], deletion["key"]) == ("PUT", "DELETE", "delete/a")
    assert deletion["payload"] == {"size": 0, "hex": ""}
    assert deletion["attachment"] == {"size": 4, "hex": b"gone".hex()}
    assert deletion["priority"] == "DATA_LOW"


@pytest.mark.parametrize("priority", PRIORITIES)
def test_priority_and_order_within_it_are_kept(node: RunningNode, connect: Connect, priority: str) -> None:
    here, there = connect(node), connect(node)
    subscriber = there.subscribe("priority/**")
    here.put_many("priority/{n}", 20, priority=priority, congestion_control="BLOCK")
    samples = subscriber.take(20)
    assert texts(samples) == [str(number) for number in range(20)]
    assert {sample["priority"] for sample in samples} == {priority}


@pytest.mark.parametrize("congestion", ["DROP", "BLOCK"])
@pytest.mark.parametrize("express", [False, True])
def test_congestion_control_and_express_are_kept(
    node: RunningNode, connect: Connect, congestion: str, express: bool
) -> None:
    here, there = connect(node), connect(node)
    subscriber = there.subscribe("qos")
    here.put("qos", "x", congestion_control=congestion, express=express)
    sample = subscriber.next()
    assert (sample["congestion"], sample["express"]) == (congestion, express)


@pytest.mark.parametrize(
    "encoding", ["zenoh/bytes", "application/json", "image/png", "own/kind", "text/plain;schema"]
)
def test_encoding_is_kept(node: RunningNode, connect: Connect, encoding: str) -> None:
    here, there = connect(node), connect(node)
    subscriber = there.subscribe("encoding")
    here.put("encoding", "x", encoding=encoding)
    assert subscriber.next()["encoding"] == encoding


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 40_000])
def test_payload_of_any_size_arrives_as_it_was(node: RunningNode, connect: Connect, size: int) -> None:
    here, there = connect(node), connect(node)
    subscriber = there.subscribe("size")
    here.put("size", big(size), attachment=big(size // 3, seed=2))
    sample = subscriber.next()
    assert sample["payload"]["size"] == size
    if size > 256:
        assert sample["payload"] == digest(size)
        assert sample["attachment"] == digest(size // 3, seed=2) or size // 3 <= 256


def test_timestamp_of_the_publisher_arrives_unchanged(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    subscriber = there.subscribe("timestamp")
    stamped = here.ask("put", key="timestamp", payload=payload("x"), timestamped=True)
    assert subscriber.next()["timestamp"] == stamped


@pytest.mark.parametrize(
    ("subscribed", "heard", "not_heard"),
    [
        ("k/a", ["k/a"], ["k/b", "k/a/b", "k"]),
        ("k/*", ["k/a", "k/longer"], ["k", "k/a/b"]),
        ("k/**", ["k", "k/a", "k/a/b/c"], ["kk/a"]),
        ("k/*/c", ["k/x/c"], ["k/c", "k/x/y/c", "k/x"]),
        ("k/**/c", ["k/c", "k/x/c", "k/x/y/c"], ["k/x/cc", "k/x"]),
        ("k/a$*", ["k/a", "k/ab", "k/a-b"], ["k/ba", "k/a/b"]),
        ("k/$*b/c", ["k/b/c", "k/ab/c"], ["k/ba/c"]),
        ("**", ["k", "other/key"], ["@admin/key"]),
        ("@k/*", ["@k/a"], ["@k/@a"]),
        ("k/über/*", ["k/über/ß"], ["k/uber/ß"]),
    ],
)
def test_subscriber_hears_what_its_key_expression_matches(
    node: RunningNode, connect: Connect, subscribed: str, heard: list[str], not_heard: list[str]
) -> None:
    here, there = connect(node), connect(node)
    subscriber = there.subscribe(subscribed)
    for key in [*not_heard, *heard]:
        here.put(key, "x")
    here.put(heard[0], "end")
    # Anything else would have come before the end.
    samples = subscriber.take(len(heard) + 1)
    assert [sample["key"] for sample in samples] == [*heard, heard[0]]
    assert texts(samples)[-1] == "end"


@pytest.mark.parametrize(("put", "heard"), [("w/*", ["w/*"]), ("w/**", ["w/**"]), ("w/a$*", ["w/a$*"])])
def test_put_on_a_key_with_wildcards_is_heard_by_who_intersects(
    node: RunningNode, connect: Connect, put: str, heard: list[str]
) -> None:
    here, there = connect(node), connect(node)
    subscriber = there.subscribe("w/ab")
    other = there.subscribe("v/**")
    here.put(put, "x")
    here.put("v/end", "x")
    assert [sample["key"] for sample in subscriber.take(1)] == heard
    assert [sample["key"] for sample in other.take(1)] == ["v/end"]


@pytest.mark.spot_check
def test_each_subscriber_of_each_client_hears_each_sample_once(node: RunningNode, connect: Connect) -> None:
    here = connect(node)
    keys = ("each/a", "each/*", "**")
    subscribers = [
        client.subscribe(key) for client in (connect(node), connect(node), connect(node)) for key in keys
    ]
    here.put("each/a", "1")
    here.put("each/a", "2")
    for subscriber in subscribers:
        assert texts(subscriber.take(2)) == ["1", "2"]
    here.put("each/a", "end")
    for subscriber in subscribers:
        assert texts(subscriber.take(1)) == ["end"]


def test_client_that_publishes_what_it_subscribes_hears_it_once(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    mine, other = here.subscribe("echo/**"), there.subscribe("echo/**")
    here.put("echo/a", "mine")
    assert texts(other.take(1)) == ["mine"]
    there.put("echo/a", "end")
    assert texts(mine.take(2)) == ["mine", "end"]


def test_undeclared_subscriber_hears_nothing_more_and_the_others_still_do(
    node: RunningNode, connect: Connect
) -> None:
    here, there, other = connect(node), connect(node), connect(node)
    first, second = there.subscribe("gone/a"), there.subscribe("gone/*")
    third = other.subscribe("gone/a")
    first.undeclare()
    here.put("gone/a", "x")
    assert texts(second.take(1)) == ["x"]
    assert texts(third.take(1)) == ["x"]
    second.undeclare()
    here.put("gone/a", "y")
    assert texts(third.take(1)) == ["y"]
    again = there.subscribe("gone/a")
    here.put("gone/a", "z")
    assert texts(again.take(1)) == ["z"]
    assert first.take(1, within=0) == second.take(1, within=0) == []


def test_clients_that_come_and_go_leave_the_others_alone(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    stays = there.subscribe("comes/**")
    for number in range(5):
        passing = connect(node)
        passing_subscriber = passing.subscribe("comes/**")
        here.put("comes/a", str(number))
        assert texts(passing_subscriber.take(1)) == [str(number)]
        passing_subscriber.undeclare()
    assert texts(stays.take(5)) == ["0", "1", "2", "3", "4"]


def test_many_to_many(node: RunningNode, connect: Connect) -> None:
    clients = [connect(node) for _ in range(4)]
    subscribers = [client.subscribe("many/**") for client in clients]
    for number, client in enumerate(clients):
        client.put_many(f"many/{number}", 50, congestion_control="BLOCK")
    for subscriber in subscribers:
        samples = subscriber.take(200)
        for number in range(4):
            mine = [sample for sample in samples if sample["key"] == f"many/{number}"]
            assert texts(mine) == [str(count) for count in range(50)]


@pytest.mark.spot_check
def test_publisher_puts_and_deletes(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    subscriber = there.subscribe("publisher/*")
    publisher = here.publisher("publisher/a", encoding="text/plain", priority="INTERACTIVE_LOW", express=True)
    publisher.matched()
    publisher.put("one")
    publisher.put("two", encoding="application/json", attachment=payload("a"))
    publisher.delete()
    one, two, gone = subscriber.take(3)
    assert texts([one, two]) == ["one", "two"]
    assert [one["encoding"], two["encoding"]] == ["text/plain", "application/json"]
    assert [one["kind"], two["kind"], gone["kind"]] == ["PUT", "PUT", "DELETE"]
    assert {event["priority"] for event in (one, two, gone)} == {"INTERACTIVE_LOW"}


@pytest.mark.parametrize("reliability", ["RELIABLE", "BEST_EFFORT"])
def test_publisher_of_either_reliability_is_heard(
    node: RunningNode, connect: Connect, reliability: str
) -> None:
    here, there = connect(node), connect(node)
    subscriber = there.subscribe("reliability")
    publisher = here.publisher("reliability", reliability=reliability)
    publisher.matched()
    publisher.put("x")
    assert texts(subscriber.take(1)) == ["x"]


@pytest.mark.spot_check
@pytest.mark.parametrize("subscribed", ["match/a", "match/*", "**"])
def test_publisher_learns_of_the_first_subscriber_and_of_the_end_of_the_last(
    node: RunningNode, connect: Connect, subscribed: str
) -> None:
    here, there, other = connect(node), connect(node), connect(node)
    publisher = here.publisher("match/a")
    changes = publisher.listener()
    here.settle()
    assert not publisher.matching()
    first = there.subscribe(subscribed)
    assert changes.next() == {"matching": True}
    second = other.subscribe("match/a")
    first.undeclare()
    publisher.put("x")
    assert texts(second.take(1)) == ["x"]
    assert publisher.matching()
    second.undeclare()
    assert changes.next() == {"matching": False}
    assert changes.take(1, within=0) == []


def test_publisher_learns_of_a_subscriber_that_was_there_before(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    there.subscribe("before/**")
    publisher = here.publisher("before/a")
    publisher.matched()
    # A second one on the same session asks again, or knows.
    here.publisher("before/b").matched()


def test_publisher_that_had_nobody_is_heard_by_who_comes_later(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    publisher = here.publisher("later/a")
    here.settle()
    publisher.put("to nobody")
    subscriber = there.subscribe("later/a")
    publisher.matched()
    publisher.put("to somebody")
    here.put("later/a", "by the session")
    assert texts(subscriber.take(2)) == ["to somebody", "by the session"]


def test_subscriber_elsewhere_does_not_match(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    publisher = here.publisher("elsewhere/a")
    there.subscribe("elsewhere/b")
    here.settle()
    assert not publisher.matching()


def test_publisher_for_others_does_not_match_the_subscriber_of_its_own_session(
    node: RunningNode, connect: Connect
) -> None:
    here, there = connect(node), connect(node)
    here.subscribe("own/a")
    publisher = here.publisher("own/a", allowed_destination="REMOTE")
    here.settle()
    assert not publisher.matching()
    there.subscribe("own/*")
    publisher.matched()


def test_publisher_learns_that_the_process_of_its_subscriber_died(
    node: RunningNode, connect: Connect, start_worker: StartWorker
) -> None:
    here, mortal = connect(node), start_worker()
    publisher = here.publisher("died/a")
    changes = publisher.listener()
    connect(node, worker=mortal).subscribe("died/a")
    assert changes.next() == {"matching": True}
    mortal.kill()
    assert changes.next() == {"matching": False}
