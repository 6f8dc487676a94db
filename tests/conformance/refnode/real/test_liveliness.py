"""Liveliness: tokens, questions and subscribers with and without history, through the node."""

from __future__ import annotations

import pytest

from tests.conformance.refnode.real.clients import Event
from tests.conformance.refnode.real.conftest import Connect, StartWorker
from tests.conformance.refnode.real.nodes import RunningNode


def changes(events: list[Event]) -> list[tuple[str, str]]:
    """Returns what came and went."""
    return [(event["kind"], event["key"]) for event in events]


@pytest.mark.spot_check
def test_get_tells_which_tokens_there_are(node: RunningNode, connect: Connect) -> None:
    here, there, other = connect(node), connect(node), connect(node)
    assert here.alive("get/**") == []
    first, second = there.token("get/a"), other.token("get/b/c")
    assert here.alive("get/**") == ["get/a", "get/b/c"]
    assert here.alive("get/*") == ["get/a"]
    assert here.alive("get/b/c") == ["get/b/c"]
    assert here.alive("got/*") == []
    first.undeclare()
    assert here.alive("get/**") == ["get/b/c"]
    second.undeclare()
    assert here.alive("get/**") == []


@pytest.mark.spot_check
def test_get_tells_each_token_once_even_to_who_was_there_before(node: RunningNode, connect: Connect) -> None:
    here, there, quiet = connect(node), connect(node), connect(node)
    watching = here.watch("once/*", history=False)
    # The third has asked for nothing for so long that a node may tell it what there is.
    assert watching.take(1, within=1.0) == []
    there.token("once/a")
    assert changes(watching.take(1)) == [("PUT", "once/a")]
    assert quiet.alive("once/*") == ["once/a"]


@pytest.mark.spot_check
def test_subscriber_hears_what_comes_and_goes(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    watching = here.watch("live/*", history=False)
    first = there.token("live/a")
    there.token("elsewhere/a")
    second = there.token("live/b")
    assert changes(watching.take(2)) == [("PUT", "live/a"), ("PUT", "live/b")]
    second.undeclare()
    first.undeclare()
    assert changes(watching.take(2)) == [("DELETE", "live/b"), ("DELETE", "live/a")]


@pytest.mark.spot_check
def test_history_tells_what_is_there_and_then_what_changes(node: RunningNode, connect: Connect) -> None:
    here, there, other = connect(node), connect(node), connect(node)
    first, _ = there.token("history/a"), other.token("history/b")
    with_history = here.watch("history/*", history=True)
    without = here.watch("history/**", history=False)
    assert sorted(changes(with_history.take(2))) == [("PUT", "history/a"), ("PUT", "history/b")]
    other.token("history/c")
    first.undeclare()
    for watching in (with_history, without):
        assert changes(watching.take(2)) == [("PUT", "history/c"), ("DELETE", "history/a")]
    assert with_history.take(1, within=0) == without.take(1, within=0) == []


def test_history_of_nothing_is_empty(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    watching = here.watch("empty/**", history=True)
    assert watching.take(1, within=0) == []
    there.token("empty/a")
    assert changes(watching.take(1)) == [("PUT", "empty/a")]


def test_two_tokens_on_a_key_are_there_until_both_have_gone(node: RunningNode, connect: Connect) -> None:
    here, there, other, asking = (connect(node) for _ in range(4))
    watching = here.watch("twice/*", history=False)
    first, second = there.token("twice/a"), other.token("twice/a")
    assert asking.alive("twice/*") == ["twice/a"]
    first.undeclare()
    assert asking.alive("twice/*") == ["twice/a"]
    second.undeclare()
    assert asking.alive("twice/*") == []
    assert changes(watching.take(2)) == [("PUT", "twice/a"), ("DELETE", "twice/a")]
    assert watching.take(1, within=0) == []


def test_two_tokens_of_one_client_on_a_key_are_there_until_both_have_gone(
    node: RunningNode, connect: Connect
) -> None:
    here, there, asking = connect(node), connect(node), connect(node)
    watching = here.watch("double/*", history=True)
    first, second = there.token("double/a"), there.token("double/a")
    first.undeclare()
    assert asking.alive("double/*") == ["double/a"]
    second.undeclare()
    assert changes(watching.take(2)) == [("PUT", "double/a"), ("DELETE", "double/a")]


@pytest.mark.spot_check
def test_token_goes_with_the_process_that_held_it(
    node: RunningNode, connect: Connect, start_worker: StartWorker
) -> None:
    here, mortal = connect(node), start_worker()
    watching = here.watch("mortal/*", history=True)
    connect(node, worker=mortal).token("mortal/a")
    assert changes(watching.take(1)) == [("PUT", "mortal/a")]
    mortal.kill()
    assert changes(watching.take(1)) == [("DELETE", "mortal/a")]
    assert here.alive("mortal/**") == []


def test_token_goes_with_the_session_that_held_it(
    node: RunningNode, connect: Connect, start_worker: StartWorker
) -> None:
    here = connect(node)
    watching = here.watch("closed/*", history=False)
    there = connect(node, worker=start_worker())
    there.token("closed/a")
    there.token("closed/b")
    there.close()
    assert changes(watching.take(2)) == [("PUT", "closed/a"), ("PUT", "closed/b")]
    assert sorted(changes(watching.take(2))) == [("DELETE", "closed/a"), ("DELETE", "closed/b")]


def test_token_that_comes_back_is_heard_again(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    watching = here.watch("again/*", history=True)
    for _ in range(3):
        there.token("again/a").undeclare()
    assert changes(watching.take(6)) == [("PUT", "again/a"), ("DELETE", "again/a")] * 3


def test_undeclared_subscriber_hears_nothing_more(node: RunningNode, connect: Connect) -> None:
    here, there, asking = connect(node), connect(node), connect(node)
    gone, stays = here.watch("quiet/*", history=False), here.watch("quiet/**", history=False)
    gone.undeclare()
    there.token("quiet/a")
    assert changes(stays.take(1)) == [("PUT", "quiet/a")]
    stays.undeclare()
    assert asking.alive("quiet/*") == ["quiet/a"]
    assert gone.take(1, within=0) == []


def test_hundred_tokens_are_all_told(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    keys = sorted(f"hundred/{number}" for number in range(100))
    for key in keys:
        there.ask("token", key=key)
    there.settle()
    assert here.alive("hundred/*") == keys
    watching = here.watch("hundred/*", history=True)
    assert sorted(event["key"] for event in watching.take(100)) == keys


def test_tokens_are_no_subscribers_and_no_queryables(node: RunningNode, connect: Connect) -> None:
    here, there = connect(node), connect(node)
    publisher = here.publisher("kinds/a")
    there.token("kinds/a")
    here.settle()
    assert not publisher.matching()
    assert here.get("kinds/a") == []
    there.subscribe("kinds/b")
    assert here.alive("kinds/*") == ["kinds/a"]
