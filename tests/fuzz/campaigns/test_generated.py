from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from fuzz.campaigns import generated
from fuzz.campaigns.base import Setting
from fuzz.campaigns.generated import CAMPAIGN, LONGEST, Generated
from fuzz.plan import Plan
from fuzz.script import SIZE
from fuzz.states import State
from fuzz.targets.feed import Nominal
from scapy_layers.batch import contents
from scapy_layers.catalogue import decode
from scapy_layers.codes import Kind
from scapy_layers.derive.strategies import examples

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Draws few messages: each takes milliseconds."""
    monkeypatch.setattr(generated, "EACH", 16)
    monkeypatch.setattr(generated, "CHUNKS", 2)
    generated._drawn.cache_clear()
    yield
    generated._drawn.cache_clear()


def source(seed: int = 1) -> Generated:
    return Generated(seed, State.OPEN, Kind.NETWORK, "FRAME", LONGEST, SIZE)


def sent(of: Generated, count: int) -> list[list[str]]:
    return [[str(step.data) for step in case.steps] for case in islice(of.more(random.Random(1)), count)]


def test_same_seed_generates_the_same_and_another_seed_other_sequences() -> None:
    assert sent(source(), 100) == sent(source(), 100)
    assert sent(source(1), 100) != sent(source(2), 100)


def test_sequences_have_several_messages_in_frames_that_are_due() -> None:
    sequences = sent(source(), 200)
    assert {1, 2, 3, 4} <= {len(steps) for steps in sequences}
    assert all(data.startswith(("{size}25{sn}", "{size}05{sn_be}")) for steps in sequences for data in steps)


def test_sequence_that_says_it_is_valid_is() -> None:
    told = 0
    for case in islice(source().more(random.Random(1)), 300):
        if case.mutation.endswith("all valid"):
            told += 1
            values = Nominal()
            for step in case.steps:
                assert contents(step.data.fill(values)[2:]).error is None
    assert told > 10


def test_messages_are_about_few_keys_so_that_they_concern_each_other() -> None:
    right = [one for one in examples(Kind.NETWORK, 16, 3, {"key_suffix": ["k/only"]}) if not one.what]
    named = [decode(one.raw, Kind.NETWORK) for one in right]
    suffixes = {message.key_suffix for message in named if getattr(message, "key_suffix", None)}
    assert suffixes <= {"k/only"}


def test_examples_are_half_right_half_with_one_lie() -> None:
    drawn = examples(Kind.NETWORK, 20, 7)
    assert drawn == examples(Kind.NETWORK, 20, 7)
    assert 5 <= sum(not one.what for one in drawn) <= 15


def test_campaign_has_its_states() -> None:
    assert {State.OPEN, State.DECLARED, State.PENDING, State.SCOUTING} <= set(CAMPAIGN.states)
    numbers = [one.number for one in islice(Plan(CAMPAIGN, Setting(1)).cases(), 20)]
    assert numbers == list(range(1, 21))


def test_what_is_drawn_does_not_depend_on_what_else_is_loaded() -> None:
    said = (
        "import sys; {}; from scapy_layers.codes import Kind; from scapy_layers.derive.strategies import examples; "
        "sys.stdout.write(repr([examples(Kind.NETWORK, 48, seed) for seed in (168, 169)]))"
    )
    with_less, with_more = (
        subprocess.run(
            [sys.executable, "-c", said.format(first)], capture_output=True, text=True, check=True, cwd=ROOT
        ).stdout
        for first in ("import scapy_layers.shape", "import conformance.router, fuzz.runner")
    )
    assert with_less == with_more
