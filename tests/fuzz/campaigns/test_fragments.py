"""Fragment chains and batches."""

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from conformance.config import RunConfig
from conformance.nodes import node_of
from fuzz.campaigns.base import Setting
from fuzz.campaigns.fragments import CAMPAIGN, FULL, LONG_CHAIN, Fragmented
from fuzz.campaigns.messages import KINDS
from fuzz.cases import Case, Source, reach
from fuzz.phrases import act, chain, frame, listen, network_messages, push, subscriber
from fuzz.player import Ending, Initiator, Player
from fuzz.player.fitting import NODE_BATCH
from fuzz.player.pipe import FIRST_SN
from fuzz.script import Do, Script, Step
from fuzz.states import State
from scapy_layers.batch import contents
from scapy_layers.codes import Kind
from scapy_layers.extensions import First
from scapy_layers.message import Message
from scapy_layers.primitives import write_vle
from scapy_layers.transport import Fragment

SOURCES = {source.name: source for source in CAMPAIGN.make(Setting())}
VALUES = {"sn": write_vle(FIRST_SN), "sn_be": write_vle(FIRST_SN)}


def cases(source: str) -> dict[str, Case]:
    return {case.mutation: case for case in SOURCES[source].cases(random.Random(1))}


def messages(steps: tuple[Step, ...]) -> Iterator[Message]:
    for step in steps:
        if step.do is Do.SEND:
            yield from contents(step.data.fill(VALUES)[2:]).messages


def fragments(steps: tuple[Step, ...]) -> list[Message]:
    return [message for message in messages(steps) if isinstance(message, Fragment)]


def is_first(message: Message) -> bool:
    return any(isinstance(one, First) for one in message.extensions)


def test_a_chain_holds_the_message_it_is_made_of() -> None:
    whole = bytes(push(data=b"0123456789"))
    for parts in (1, 2, 3, len(whole)):
        found = fragments(tuple(chain(whole, parts)))
        assert b"".join(one.data for one in found) == whole
        assert [is_first(one) for one in found] == [True] + [False] * (len(found) - 1)
        assert [bool(one.M) for one in found] == [True] * (len(found) - 1) + [False]


@pytest.mark.parametrize(
    ("words", "first", "more"),
    [
        ("first, middle, last", [1, 0, 0], [1, 1, 0]),
        ("no first", [0, 0, 0], [1, 1, 0]),
        ("no last", [1, 0], [1, 1]),
        ("the last alone", [0], [0]),
        ("first twice", [1, 1, 0, 0], [1, 1, 1, 0]),
        ("first on all", [1, 1, 1], [1, 1, 0]),
        ("more behind the last", [1, 0, 0, 0, 0], [1, 1, 0, 1, 0]),
        ("one fragment that is all", [1], [0]),
        ("drop alone", [0], [1]),
    ],
)
def test_chains_are_what_they_say(words: str, first: list[int], more: list[int]) -> None:
    found = fragments(cases("chains")[words].steps)
    assert [int(is_first(one)) for one in found] == first
    assert [int(one.M) for one in found] == more


def test_every_kind_of_message_stands_in_the_middle_of_a_chain() -> None:
    found = cases("chains")
    assert all(f"{kind} in the middle" in found for kind in (*KINDS, "batch") if kind != "CLOSE")
    assert "CLOSE in the middle" in found


def test_lies_travel_in_fragments_and_come_together_again() -> None:
    source = SOURCES["PUSH in fragments"]
    assert isinstance(source, Fragmented)
    valid = bytes(network_messages()["PUSH"])
    wholes = []
    for case in source.cases(random.Random(1)):
        found = fragments(case.steps)
        assert is_first(found[0])
        assert not found[-1].M
        wholes.append(b"".join(one.data for one in found))
        assert all(len(one.data) <= FULL for one in found)
    assert len(set(wholes)) > 0.9 * len(wholes)
    assert wholes.count(valid) < 3
    assert sum(len(fragments(case.steps)) > 1 for case in source.cases(random.Random(1))) > 0.9 * len(wholes)
    assert {edge for case in source.cases(random.Random(1)) for edge in case.edges} == set(source.edges())


def test_every_network_message_is_lied_about_in_fragments() -> None:
    carried = {name for name, cls in KINDS.items() if cls.kind in (Kind.NETWORK, Kind.DECLARATION, Kind.DATA)}
    assert {source.message for source in SOURCES.values() if isinstance(source, Fragmented)} == carried


def test_batches_are_as_large_as_they_say() -> None:
    found = cases("batches")
    for words, size in (
        ("a batch of the largest size", NODE_BATCH - 2),
        ("a batch one byte larger than it may be", NODE_BATCH - 1),
        ("a batch of the largest length", 0xFFFF),
    ):
        data = found[words].steps[0].data.fill(VALUES)
        assert len(data) - 2 == size == int.from_bytes(data[:2], "little")
        assert contents(data[2:]).error is None
    for words, case in found.items():
        if "larger" not in words and "largest length" not in words:
            assert all(len(step.data.fill(VALUES)) <= NODE_BATCH for step in case.steps if step.do is Do.SEND)


def test_a_length_may_be_cut_in_two() -> None:
    first, second = cases("batches")["two batches, the length of the second cut in two"].steps
    data = first.data.fill(VALUES) + second.data.fill(VALUES)
    size = int.from_bytes(data[:2], "little")
    assert data[2 + size :] == b"\x01\x00\x04"


def test_cases_are_bounded_and_the_same_for_a_seed() -> None:
    def drawn(source: Source, seed: int) -> list[tuple[str, tuple[Step, ...]]]:
        made = [*islice(source.cases(random.Random(seed)), 5), *islice(source.more(random.Random(seed)), 10)]
        return [(case.mutation, case.steps) for case in made]

    for source in SOURCES.values():
        once = drawn(source, 1)
        assert once == drawn(source, 1) != drawn(source, 2)
        for words, steps in once:
            script = Script(steps)
            assert script.size <= 2 * LONG_CHAIN, words
            assert script.sends <= 6000, words


def test_drawn_chains_say_what_is_wrong_with_them() -> None:
    drawn = list(islice(SOURCES["contents of chains"].more(random.Random(1)), 200))
    assert any(case.mutation.endswith("as it should be") for case in drawn)
    kinds = {cause.kind for case in drawn for cause in case.causes}
    assert {"first", "more", "drop", "lane", "gone", "garbage", "havoc", "FRAME"} <= kinds


def test_real_node_puts_chains_together(tmp_path: Path) -> None:
    """What is delivered shows that chains are chains: whole ones arrive, others do not."""
    node = node_of(RunConfig(node="pypi", run_dir=tmp_path, run_id="fragments", seed=1))
    node.start()
    arrives = {
        "first, middle, last": True,
        "one byte each": True,
        "KEEP_ALIVE in the middle": True,
        "no first": False,
        "a gap in the numbers": False,
        "drop behind the first": False,
    }
    try:
        player = Player(Initiator(node.locator), 2.0)
        for words, expected in arrives.items():
            heard = (reach(State.OPEN, "b"), frame(subscriber(1), link="b"), act(Do.SETTLE, "b"))
            steps = (*cases("chains")[words].steps, act(Do.SETTLE), listen("b"))
            played = player.play(Script((reach(State.OPEN, "a"), *heard, *steps)))
            assert played.ending is Ending.ACCEPTED
            assert ("PUSH" in played.names) is expected, words
    finally:
        node.stop()


def test_a_long_chain_comes_near_to_any_limit_before_it_is_beyond_it() -> None:
    steps = cases("long chains")["some MB in small fragments"].steps
    assert max(len(bytes(one)) for one in fragments(steps)) < 1100
    assert sum(step.times for step in steps) * 1000 > LONG_CHAIN
