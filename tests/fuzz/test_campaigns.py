from __future__ import annotations

import pytest

from fuzz.campaigns import CAMPAIGNS, Stimulus
from fuzz.oracles import ORACLES
from scapy_layers.catalogue import decode
from scapy_layers.codes import DeclarationId

STIMULI = [stimulus for campaign in CAMPAIGNS.values() for stimulus in campaign.stimuli()]


@pytest.mark.parametrize("stimulus", STIMULI, ids=[f"{made.state} {made.name}" for made in STIMULI])
def test_stimuli_are_valid_messages(stimulus: Stimulus) -> None:
    raw = bytes(stimulus.message)
    assert bytes(decode(raw, stimulus.message.kind)) == raw


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_stimuli_differ_in_name_and_oracles_exist(name: str) -> None:
    campaign = CAMPAIGNS[name]
    assert len(set(campaign.messages)) == len(campaign.messages)
    assert set(campaign.oracles) <= ORACLES.keys()


def test_handshake_begins_in_both_states_before_the_session() -> None:
    assert CAMPAIGNS["handshake"].states == ["connected", "init_acked"]
    assert CAMPAIGNS["session"].states == ["open"]


def test_session_has_every_declaration_and_network_message() -> None:
    names = " ".join(CAMPAIGNS["session"].messages)
    for declaration in DeclarationId:
        assert declaration.name in names
    for message in (
        "PUT",
        "DEL",
        "REQUEST",
        "INTEREST",
        "REPLY",
        "ERR",
        "RESPONSE_FINAL",
        "OAM",
        "FRAGMENT",
        "CLOSE",
    ):
        assert message in names
