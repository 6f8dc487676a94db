from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from conformance.config import RunConfig
from conformance.nodes import node_of
from fuzz.campaigns.base import Setting
from fuzz.campaigns.havoc import CAMPAIGN, NETWORK, Havoc, Shared, sources
from fuzz.cases import Case
from fuzz.corpus import CorpusError, Family
from fuzz.plan import Plan
from fuzz.player import Answer, Answers, Ending, Initiator, NotReached, Played, Player, run
from fuzz.script import SIZE
from fuzz.states import State
from fuzz.targets.feed import Nominal
from scapy_layers.batch import BatchReader
from scapy_layers.data import Put
from scapy_layers.network import Push
from scapy_layers.transport import Frame


@pytest.fixture
def pushes() -> Havoc:
    return Havoc(State.OPEN, Family.SESSION, "PUSH", Shared(Setting()), SIZE)


def sent(cases: Iterator[Case], count: int) -> list[str]:
    return [str(step.data) for case in islice(cases, count) for step in case.steps]


def test_same_seed_sends_the_same_bytes_and_another_seed_others() -> None:
    def bytes_of(seed: int) -> list[str]:
        plan = Plan(CAMPAIGN, Setting(seed))
        return [str(step.data) for one in islice(plan.cases(), 150) for step in one.case.steps]

    assert bytes_of(1) == bytes_of(1)
    assert bytes_of(1) != bytes_of(2)


def test_states_that_the_campaign_reaches() -> None:
    assert {State.CONNECTED, State.INIT_ACKED, State.OPEN, State.DECLARED, State.SCOUTING} <= set(
        CAMPAIGN.states
    )
    assert set(NETWORK) <= set(CAMPAIGN.messages)


def test_listing_the_campaign_reads_no_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shared, "corpus", property(lambda _: pytest.fail("read")))
    assert len(list(sources(Setting()))) > 20


def test_first_cases_are_real_messages_as_they_are(pushes: Havoc) -> None:
    for case in pushes.cases(random.Random(1)):
        assert case.mutation.startswith("as in ")
        assert ".pcapng, packet " in case.mutation
        data = case.steps[0].data.fill(Nominal())
        assert len(BatchReader().feed(data)) == 1


def test_length_in_front_is_true_so_that_the_mutation_is_read() -> None:
    for source in sources(Setting()):
        if source.state is State.OPEN:
            for case in islice(source.more(random.Random(1)), 30):
                data = case.steps[0].data.fill(Nominal())
                assert len(data) - 2 == int.from_bytes(data[:2], "little")


def test_case_says_what_was_done_to_which_field(pushes: Havoc) -> None:
    cases = list(islice(pushes.more(random.Random(4)), 100))
    assert all(case.mutation and case.causes and case.strategy == "havoc" for case in cases)
    assert any(case.field.startswith("PUSH.") for case in cases)
    assert all(cause.source == pushes.name for case in cases for cause in case.causes)


def test_kind_without_a_seed_begins_from_another_of_the_family() -> None:
    source = Havoc(State.LOW_LATENCY, Family.NETWORK, "NOTHING", Shared(Setting()), SIZE)
    assert list(islice(source.more(random.Random(1)), 5))


def test_what_was_learned_is_mutated_from_then_on(pushes: Havoc) -> None:
    marker = b"only in what was learned"
    cases = pushes.more(random.Random(1))
    next(cases)
    assert not any(marker.hex() in data for data in sent(cases, 200))
    push = Push(key_suffix=marker.decode(), body=Put(data=b"x"))
    answer = bytes(Frame(R=1, sn=9, messages=[push] * 13))

    case = next(pushes.cases(random.Random(1)))
    pushes.learn(case, Played(ending=Ending.ACCEPTED, answers=[answered(answer)]))

    assert sum(marker.hex() in data for data in sent(cases, 200)) > 10


def answered(batch: bytes) -> Answer:

    return Answers().read(batch, 0)


def test_runs_do_not_learn_from_each_other() -> None:
    first, second = (Plan(CAMPAIGN, Setting(1)) for _ in range(2))
    expected = [one.case.mutation for one in islice(second.cases(), 120)]
    source = first.sources[2]
    case = next(source.cases(random.Random(1)))
    source.learn(case, Played(ending=Ending.ACCEPTED, answers=[answered(bytes(Frame(messages=[PUSH] * 17)))]))
    third = Plan(CAMPAIGN, Setting(1))
    assert [one.case.mutation for one in islice(third.cases(), 120)] == expected


PUSH = Push(key_suffix="k", body=Put(data=b"x"))


def test_corpus_is_kept_in_the_folder_of_the_setting(tmp_path: Path) -> None:
    source = Havoc(State.OPEN, Family.SESSION, "PUSH", Shared(Setting(corpus=tmp_path / "corpus")), SIZE)
    case = next(source.cases(random.Random(1)))
    source.learn(case, Played(ending=Ending.ACCEPTED, answers=[answered(bytes(Frame(messages=[PUSH] * 17)))]))
    files = list((tmp_path / "corpus").iterdir())
    assert files
    assert json.loads(files[0].read_text())["format"] == 1
    files[0].write_text("no")
    with pytest.raises(CorpusError, match="move it away"):
        list(sources(Setting(corpus=tmp_path / "corpus")))


def test_real_node_takes_real_messages_and_teaches_new_ones(tmp_path: Path) -> None:
    node = node_of(RunConfig(node="pypi", run_dir=tmp_path, run_id="havoc", seed=1))
    node.start()
    try:
        player = Player(Initiator(node.locator), 1.0)
        shared = Shared(Setting())
        source = Havoc(State.OPEN, Family.SESSION, "INTEREST", shared, SIZE)
        endings = []
        for case in source.cases(random.Random(1)):
            player.reach(State.OPEN)
            played = Played()
            try:
                run(player.steps(case.steps, played))
                run(player.conclude(played))
            except NotReached as error:
                pytest.fail(str(error))
            endings.append(played.ending)
            source.learn(case, played)
        player.close()
    finally:
        node.stop()
    assert endings.count(Ending.ACCEPTED) > len(endings) / 2
    assert shared.corpus.learned > 0
