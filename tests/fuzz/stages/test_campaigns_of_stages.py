"""The campaigns about scouting, responders, groups and framing: what they send is bounded and stays where it should."""

import ipaddress
import random
import re
from functools import cache
from itertools import islice

import pytest

from fuzz.campaigns import framing, multicast, responder, scouting
from fuzz.campaigns.base import Campaign, Setting
from fuzz.cases import Case
from fuzz.script import Script
from fuzz.states import FACTS, State
from scapy_layers.batch import contents
from scapy_layers.errors import WireError
from scapy_layers.lz4 import decompress

CAMPAIGNS = {one.CAMPAIGN.name: one.CAMPAIGN for one in (framing, multicast, responder, scouting)}

MOST_BYTES = 4 << 20
"""Of one case."""

MOST_MESSAGES = 200

LARGEST_DATAGRAM = 65_507


LIES_OF = 12
"""Of so many sources of lies, which have tests of their own, one is looked at."""


def cases_of(campaign: Campaign) -> list[Case]:
    """What was written down or is drawn here, and a few lies."""
    found: list[Case] = []
    for number, source in enumerate(campaign.make(Setting())):
        rng = random.Random(f"1 {source.name}")
        if source.sequence:
            found += source.cases(rng)
            found += islice(source.more(rng), 3)
        elif number % LIES_OF == 0:
            found += islice(source.cases(rng), 3)
    return found


@cache
def kept(name: str) -> list[Case]:
    return cases_of(CAMPAIGNS[name])


@pytest.mark.parametrize("name", sorted(CAMPAIGNS))
def test_names_are_unique_and_states_have_stages(name: str) -> None:
    sources = list(CAMPAIGNS[name].make(Setting()))
    assert len({source.name for source in sources}) == len(sources)
    assert {source.state for source in sources} <= FACTS.keys()


def test_campaigns_are_where_they_belong() -> None:
    states = {name: set(campaign.states) for name, campaign in CAMPAIGNS.items()}
    assert states["scouting"] == {State.SCOUTING, State.SEEKING}
    assert states["responder"] == {State.INIT_RECEIVED, State.OPEN_RECEIVED, State.ACCEPTED}
    assert states["multicast"] == {State.GROUP, State.JOINED}
    assert {State.LOW_LATENCY, State.COMPRESSED, State.OPEN, State.CONNECTED} <= states["framing"]


@pytest.mark.parametrize("name", sorted(CAMPAIGNS))
def test_cases_are_bounded_and_can_be_kept(name: str) -> None:
    for case in kept(name):
        script = Script(case.steps)
        assert script.steps, case.mutation
        assert script.sends <= MOST_MESSAGES, case.mutation
        assert script.size <= MOST_BYTES, case.mutation
        assert Script.from_json(script.to_json()).steps == script.steps, case.mutation


@pytest.mark.parametrize("name", sorted(CAMPAIGNS))
def test_same_seed_gives_the_same_cases(name: str) -> None:
    again = cases_of(CAMPAIGNS[name])
    assert [case.steps for case in again] == [case.steps for case in kept(name)]


@pytest.mark.parametrize("name", ["multicast", "scouting"])
def test_datagrams_can_be_sent(name: str) -> None:
    for case in kept(name):
        for step in case.steps if case.source.sequence else ():
            assert sum(map(len, step.data.pieces)) <= LARGEST_DATAGRAM, case.mutation
            first = step.data.pieces[0] if step.data.pieces else b""
            assert isinstance(first, bytes) or case.mutation.endswith("length in front"), case.mutation


def test_no_locator_leads_beyond_loopback() -> None:
    for place in scouting.PLACES:
        proto, _, address = place.partition("/")
        host = re.match(r"\[([^\]]*)\]|([0-9.]+)", address)
        if proto.lower() in {"tcp", "tls", "ws", "udp", "quic"}:
            assert host
            assert ipaddress.ip_address(host[1] or host[2]).is_loopback, place
        else:
            assert proto in {"unixsock-stream", "unixpipe", "serial", "vsock", "shm"}, place


@pytest.mark.parametrize("size", [1, 2, 9, 10, 15, 127, 128, 130, 255, 256, 32_767, 65_535])
def test_filling_is_of_the_right_size_and_can_be_read(size: int) -> None:
    made = framing.filled(size)
    assert len(made) == size
    seen = contents(made)
    assert not seen.error
    assert not seen.rest
    assert len(seen.messages) < 12


@pytest.mark.parametrize("size", [100, 300, 49_152, 65_535, 1 << 20])
def test_blocks_unpack_to_what_they_should(size: int) -> None:
    assert decompress(framing.literals(bytes(range(256)) * 3), 2000) == bytes(range(256)) * 3
    whole = decompress(framing.packed(size), 2 << 20)
    assert len(whole) == size
    assert not contents(whole).error


def test_bomb_is_one() -> None:
    case = next(case for case in kept("framing") if case.mutation == "a bomb")
    block = case.steps[0].data.pieces[1]
    assert isinstance(block, bytes)
    assert block[:1] == framing.COMPRESSED
    with pytest.raises(WireError, match="more than"):
        decompress(block[1:], 1 << 20)
    assert len(decompress(block[1:], 32 << 20)) > 250 * len(block)
