"""Traffic that is right in every respect."""

import random
import zlib
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path

import pytest

from conformance.config import RunConfig
from conformance.nodes import node_of
from fuzz.campaigns import CAMPAIGNS, Setting
from fuzz.campaigns.placing import framing_of
from fuzz.campaigns.valid import CAMPAIGN, PIECE, STATES, TALKS
from fuzz.cases import Case, reach
from fuzz.player import Ending, Initiator, Player
from fuzz.script import Do, Script
from fuzz.states import State
from scapy_layers.catalogue import decode_batch
from scapy_layers.keyexpr import is_valid
from scapy_layers.message import Message
from tests.fuzz.campaigns.sent import MOST_BYTES, filled, said, sampled, sends, sizes

SOURCES = list(CAMPAIGN.make(Setting(1)))

CASES = list(sampled(CAMPAIGN, 1))


def messages(case: Case, *, link: str = "") -> Iterator[Message]:
    """Yields the network messages of a case, read strictly."""
    framing = framing_of(case.state)
    for step in sends(case):
        if link and step.link != link:
            continue
        own = framing if step.link == "a" else framing_of(State.OPEN)
        size = {"size": 2, "size32": 4}[own.prefix] + len(own.head)
        for message in decode_batch(filled(step)[size:]):
            yield from message.fields.get("messages") or [message]


def test_all_that_is_said_is_read_strictly() -> None:
    kinds = {str(message.name) for case in CASES for message in messages(case)}
    assert {
        "PUSH",
        "REQUEST",
        "RESPONSE",
        "RESPONSE_FINAL",
        "INTEREST",
        "DECLARE",
        "FRAGMENT",
        "KEEP_ALIVE",
    } <= kinds


def test_keys_are_valid() -> None:
    keys = {
        layer.key_suffix
        for case in CASES
        for message in messages(case)
        for layer in (message, message.fields.get("body"))
        if isinstance(layer, Message) and layer.fields.get("key_suffix") and not layer.key_scope
    }
    texts = [key.decode() if isinstance(key, bytes) else key for key in keys]
    assert texts
    assert all(map(is_valid, texts))


def test_what_is_declared_is_taken_back_on_the_same_link() -> None:
    """Queryables of who asks itself aside: they end with the session."""
    for case in CASES:
        if case.mutation == "asking" or "asking," in case.mutation or ", asking" in case.mutation:
            continue
        open_ids: dict[tuple[str, str], list[int]] = {}
        for link in {step.link for step in sends(case)}:
            for message in messages(case, link=link):
                body = message.fields.get("body")
                if message.name == "DECLARE" and isinstance(body, Message):
                    what, thing = str(body.name).split("_")
                    number = body.fields.get("entity_id", body.fields.get("key_id"))
                    ids = open_ids.setdefault((link, thing), [])
                    if what == "D":
                        ids.append(number)
                    else:
                        ids.remove(number)
        assert not any(open_ids.values()), case.mutation


def test_fragments_come_in_order_and_end() -> None:
    for case in CASES:
        pieces = [message for message in messages(case) if message.name == "FRAGMENT"]
        for before, after in pairwise(pieces):
            assert bool(before.M) == (not after.extensions), "First only behind the end of a chain"
        if pieces:
            assert not pieces[-1].M
            assert all(len(piece.data) == PIECE for piece in pieces if piece.M)


def test_links_come_into_sessions_before_they_speak() -> None:
    for case in CASES:
        known = {"a"}
        for step in case.steps:
            if step.do is Do.REACH:
                known.add(step.link)
                assert step.state is State.OPEN
            assert step.link in known


def test_a_reply_comes_behind_a_wait_for_its_query() -> None:
    for case in CASES:
        if case.state is State.PENDING:
            continue
        heard: set[str] = set()
        for step in case.steps:
            if step.do is Do.AWAIT:
                heard.add(step.link)
            if "rid" in step.data.names:
                assert step.link in heard


def test_every_talk_takes_place_in_every_kind_of_session() -> None:
    for state in STATES:
        told = {
            case.mutation
            for source in SOURCES
            if source.state is state
            for case in source.cases(random.Random(1))
        }
        assert told == TALKS.keys()


def test_steps_are_the_same_each_time_they_are_made() -> None:
    for case in CASES:
        assert case.steps == case.steps


def test_conversations_have_no_end_and_differ() -> None:
    source = SOURCES[1]
    assert len({str(case.steps) for case in islice(source.more(random.Random(1)), 20)}) == 20


def test_rows_of_long_values_are_packed_well() -> None:
    sent = b"".join(filled(step) for case in CASES for step in sends(case))
    assert len(sent) > 100 * 20_000
    assert len(zlib.compress(sent, 1)) < len(sent) / 5


def test_cases_are_not_too_large() -> None:
    assert all(sizes(case) <= 2 * MOST_BYTES for case in CASES)


def test_the_seed_decides() -> None:
    assert said(SOURCES, 2) == said(SOURCES, 2) == said(CAMPAIGN.make(Setting(1)), 2)
    assert said(SOURCES, 2) != said(SOURCES, 2, seed=2)


def test_a_real_node_accepts_every_talk_and_carries_what_is_said(tmp_path: Path) -> None:
    pytest.importorskip("zenoh")
    node = node_of(RunConfig(node="pypi", run_dir=tmp_path, run_id="valid", seed=1))
    node.start()
    try:
        player = Player(Initiator(node.locator), 2.0)
        came = set()
        for case in CASES:
            if case.state is State.OPEN:
                played = player.play(Script((reach(case.state, "a"), *case.steps)))
                assert (played.failure, played.ending, played.refused) == ("", Ending.ACCEPTED, ""), (
                    case.mutation
                )
                came |= {name for answer in played.answers for name in answer.names}
        assert {"PUT", "REQUEST", "REPLY", "RESPONSE_FINAL", "D_TOKEN", "FRAGMENT"} <= came
        assert "CLOSE" not in came
    finally:
        node.stop()


def test_of_no_other_campaign_all_is_said_to_be_valid() -> None:
    said_so = {
        name: {source.all_valid for source in campaign.make(Setting(1))}
        for name, campaign in CAMPAIGNS.items()
    }
    assert said_so.pop(CAMPAIGN.name) == {True, False}
    assert set().union(*said_so.values()) == {False}
