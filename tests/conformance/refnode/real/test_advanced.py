"""Publishers with a cache and subscribers that ask for what they missed: everything of a session at once."""

from __future__ import annotations

import pytest

from tests.conformance.refnode.real.clients import texts
from tests.conformance.refnode.real.conftest import Connect
from tests.conformance.refnode.real.nodes import RunningNode


@pytest.mark.spot_check
def test_subscriber_gets_what_was_published_before_it_came(node: RunningNode, connect: Connect) -> None:
    here, there, late = connect(node), connect(node), connect(node)
    publisher = here.advanced_publisher("advanced/a", cache=10)
    early = there.advanced_subscriber("advanced/*")
    here.publisher("advanced/a").matched()
    for number in range(5):
        publisher.put(str(number))
    assert texts(early.take(5)) == ["0", "1", "2", "3", "4"]
    latecomer = late.advanced_subscriber("advanced/*")
    assert texts(latecomer.take(5)) == ["0", "1", "2", "3", "4"]
    publisher.put("5")
    assert texts(early.take(1)) == texts(latecomer.take(1)) == ["5"]


def test_subscriber_gets_what_a_late_publisher_has_in_its_cache(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    subscriber = there.advanced_subscriber("late/*")
    publishers = [here.advanced_publisher(f"late/{name}", cache=3) for name in "ab"]
    for number in range(4):
        for publisher in publishers:
            publisher.put(str(number))
    samples = subscriber.take(8)
    for name in "ab":
        assert texts([sample for sample in samples if sample["key"] == f"late/{name}"])[-3:] == [
            "1",
            "2",
            "3",
        ]
