"""Every kind of message in every state."""

import random
from itertools import islice

from fuzz.campaigns import CAMPAIGNS, Setting
from fuzz.campaigns.everywhere import CAMPAIGN, pairs
from fuzz.campaigns.placing import Stated
from fuzz.cases import VALID
from fuzz.states import State
from scapy_layers.catalogue import MESSAGES
from tests.fuzz.campaigns.sent import MOST_BYTES, said, sizes

SOURCES = list(CAMPAIGN.make(Setting(1)))


def test_every_kind_of_the_catalogue_is_tried_in_every_state() -> None:
    assert {(source.state, source.message) for source in SOURCES} == set(pairs())
    assert len(pairs()) == len(State) * len(MESSAGES)


def test_each_source_begins_with_the_message_as_it_is() -> None:
    for source in SOURCES[::50]:
        assert isinstance(source, Stated)
        first = next(source.cases(random.Random(1)))
        assert (first.mutation, first.state, first.message) == (VALID, source.state, source.message)


def test_every_kind_is_lied_about() -> None:
    sources = {source.message: source for source in SOURCES if source.state is State.OPEN}
    for kind, source in sources.items():
        told = {case.message for case in islice(source.cases(random.Random(1)), 1, 40)}
        assert kind.partition(" ")[0] in {message.partition(" ")[0] for message in told}


def test_cases_render_and_are_not_too_large() -> None:
    rng = random.Random(1)
    for source in SOURCES[::80]:
        for case in (*islice(source.cases(rng), 0, 1000, 100), *islice(source.more(rng), 1)):
            assert sizes(case) <= MOST_BYTES


def test_the_seed_decides() -> None:
    few = SOURCES[::500]
    assert said(few, 3) == said(few, 3) == said(list(CAMPAIGN.make(Setting(1)))[::500], 3)
    assert said(few, 3) != said(few, 3, seed=2)


def test_names_differ() -> None:
    assert len({source.name for source in SOURCES}) == len(SOURCES)


def test_it_is_registered_with_the_others() -> None:
    assert {"everywhere", "handshake", "session", "extensions", "keys", "valid"} <= CAMPAIGNS.keys()
