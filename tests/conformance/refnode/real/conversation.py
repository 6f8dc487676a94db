"""What two real clients must be able to do with each other, whatever is between them."""

from __future__ import annotations

import time

from tests.conformance.refnode.real.clients import SECONDS, Client, Event, big, digest, payload, texts

LONG = 25.0
"""A timeout that no test can sit out: what ends before it was ended by the node."""


def put(value: str, **more: object) -> Event:
    """Describes the answer of a queryable."""
    return {"kind": "PUT", "payload": payload(value), **more}


def know_each_other(here: Client, there: Client) -> None:
    """Waits until what one of them declares is known to the other and data finds its way, in both directions."""
    for one, other in ((here, there), (there, here)):
        subscriber = one.subscribe(f"known/{one.zid}")
        publisher = other.publisher(f"known/{one.zid}")
        publisher.matched()
        deadline = time.monotonic() + SECONDS
        publisher.put("")
        while not subscriber.take(1, within=0.1):
            assert time.monotonic() < deadline, "nothing gets through"
            publisher.put("")
        subscriber.undeclare()


def converse(here: Client, there: Client, *, large: int = 200_000) -> None:
    """Publishes, asks and watches both ways, small and large."""
    for one, other in ((here, there), (there, here)):
        subscriber = one.subscribe("works/**")
        queryable = one.queryable("ask/**", {"kind": "PUT", "payload": big(large // 3, seed=3)})
        watching = other.watch("alive/*", history=True)
        token = one.token("alive/a")
        # With more than one node between them, news takes longer than the next node needs to answer.
        publisher, querier = other.publisher("works/large"), other.querier("ask/a", timeout=LONG)
        publisher.matched()
        querier.matched()
        other.put_many("works/{n}", 100, congestion_control="BLOCK")
        other.put("works/large", big(large), congestion_control="BLOCK")
        assert texts(subscriber.take(100)) == [str(number) for number in range(100)]
        assert subscriber.next()["payload"] == digest(large)
        [reply] = querier.get(payload=big(large // 2))
        assert reply["payload"] == digest(large // 3, seed=3)
        assert queryable.next()["payload"] == digest(large // 2)
        assert watching.next()["kind"] == "PUT"
        gone = publisher.listener()
        for declared in (token, queryable, subscriber):
            declared.undeclare()
        assert watching.next()["kind"] == "DELETE"
        gone.until(lambda event: event["matching"] is False)
        assert other.get("ask/a", timeout=LONG) == []
