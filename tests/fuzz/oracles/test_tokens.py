"""Tokens of sessions of ours, on the planted node."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from conformance.config import RunConfig
from conformance.nodes import node_of
from fuzz.lab import Lab
from fuzz.oracles import Harm, Patient, When
from fuzz.oracles.canary import Canary
from fuzz.oracles.trouble import Wrong
from fuzz.player import Pipe
from fuzz.regression import fails_on
from fuzz.stages import stage_for
from scapy_layers.batch import prefixed
from scapy_layers.transport import Close
from tests.fuzz.planted import FAULTS, command

pytestmark = pytest.mark.usefixtures("unhurried")


@pytest.mark.parametrize(
    ("fault", "place"),
    [
        ("cling", "token of a session that has ended is told"),
        ("inherit", "publication for a session that has ended"),
        ("forget", "token is not told"),
    ],
)
def test_what_others_are_not_told_is_a_finding_whose_test_fails_until_it_is_mended(
    tmp_path: Path, fault: str, place: str
) -> None:
    config = RunConfig(node=command(fault), run_dir=tmp_path, run_id="planted", seed=1)
    with Lab(config, node_of(config), seats=1) as lab:
        tried = lab.play(FAULTS[fault].trigger)
    assert tried.objection is not None
    assert (tried.objection.harm, tried.objection.place) == (Harm.DISTURBED, place)
    assert fails_on(command(fault), "disturbed", tried)
    assert fails_on(command(), "disturbed", tried) is False


def test_token_that_a_fresh_node_keeps_is_told(tmp_path: Path) -> None:
    config = RunConfig(node=command("stick"), run_dir=tmp_path, run_id="planted", seed=1)
    with Lab(config, node_of(config), seats=1) as lab:
        objection = lab.play(FAULTS["stick"].trigger).objection
    assert objection is not None
    assert (objection.harm, objection.place) == (Harm.DISTURBED, str(Wrong.STUCK))


def test_sessions_whose_tokens_are_looked_for_end_with_close_by_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[bytes] = []
    close = Pipe.close

    def closed(self: Pipe) -> None:
        ends.append(self.farewell)
        close(self)

    config = RunConfig(node=command(), run_dir=tmp_path, run_id="planted", seed=1)
    with node_of(config) as node, closing(Canary(node, config.reply, random.Random())) as birds:
        birds.open()
        monkeypatch.setattr(Pipe, "close", closed)
        assert birds.look_at_tokens() is None
        assert sorted(ends) == [b"", prefixed(bytes(Close(reason=0)))]
        monkeypatch.undo()


def test_real_node_tells_of_tokens(tmp_path: Path) -> None:
    config = RunConfig(node="pypi", run_dir=tmp_path, run_id="real", seed=1)
    with node_of(config) as node, closing(Canary(node, config.reply, random.Random())) as birds:
        birds.open()
        assert birds.guests.tokens


def test_node_that_is_well_tells_of_tokens_as_long_as_they_are_there(tmp_path: Path) -> None:
    config = RunConfig(node=command(), run_dir=tmp_path, run_id="planted", seed=1)
    with Lab(config, node_of(config), seats=1) as lab:
        assert lab.play(FAULTS["cling"].trigger).objection is None


def test_in_a_campaign_tokens_are_looked_at_now_and_then_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[bool] = []

    def look(self: Canary, *, at_once: bool) -> None:  # noqa: ARG001
        looks.append(at_once)

    monkeypatch.setattr(Canary, "look_at_tokens", look)
    config = RunConfig(node=command(), run_dir=tmp_path, run_id="planted", seed=1)
    with node_of(config) as node:
        patient = Patient(stage_for("", node, config), config.reply)
        patient.begin()
        for thorough in (False, False, True, True):
            patient.thorough = thorough
            assert patient.examine(When.ODD, names=["tokens"]) is None
        patient.close()
    assert looks == [False, True, True]


@pytest.mark.parametrize(("fault", "wrong"), [("", None), ("cling", Wrong.STUCK)])
def test_end_of_a_token_is_asked_for_by_the_next_look_where_it_does_not_matter(
    tmp_path: Path, fault: str, wrong: Wrong | None
) -> None:
    config = RunConfig(node=command(fault), run_dir=tmp_path, run_id="planted", seed=1)
    with node_of(config) as node, closing(Canary(node, config.reply, random.Random())) as birds:
        birds.open()
        assert birds.guests.tokens
        if fault:
            player = stage_for("", node, config).player(random.Random())
            player.play(FAULTS[fault].trigger)
        assert birds.look_at_tokens(at_once=False) is None
        trouble = birds.look_at_tokens(at_once=False)
        assert (trouble and trouble.wrong) is wrong
