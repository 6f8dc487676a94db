"""Lies about what travels in a session."""

import random
from itertools import islice

from fuzz.campaigns import Setting
from fuzz.campaigns.messages import KINDS
from fuzz.campaigns.session import CAMPAIGN, INSIDE
from fuzz.cases import Fixed
from fuzz.lying import Lying
from fuzz.states import State
from scapy_layers.catalogue import decode_batch
from scapy_layers.codes import Kind
from tests.fuzz.campaigns.sent import MOST_BYTES, filled, said, sends, sizes

SOURCES = list(CAMPAIGN.make(Setting(1)))


def named(name: str) -> Lying:
    (source,) = (source for source in SOURCES if source.name == name)
    assert isinstance(source, Lying)
    return source


def test_every_kind_of_a_session_is_told_in_each_kind_of_session() -> None:
    told = {(source.state, source.message) for source in SOURCES}
    for state in (State.OPEN, State.DECLARED, State.PENDING):
        assert {(state, kind) for kind, cls in KINDS.items() if cls.kind in INSIDE} <= told
    assert {(State.OPEN, kind) for kind, cls in KINDS.items() if cls.kind is Kind.TRANSPORT} <= told


def test_in_a_frame_of_several_only_one_lies() -> None:
    source = named("FRAME of several, REQUEST")
    (step,) = source.valid_steps()
    messages = decode_batch(filled(step)[2:])[0].messages
    assert [str(one.name) for one in messages] == ["PUSH", "DECLARE", "REQUEST", "INTEREST"]
    assert {edge.field.partition(".")[0] for edge in source.edges()} <= {
        "batch",
        "REQUEST",
        "QUERY",
        "PUT",
        "D_KEYEXPR",
    }


def test_the_frame_around_a_message_says_the_truth() -> None:
    fields = {edge.field for edge in named("PUSH full in open").edges()}
    assert "PUSH.extensions.NodeId.node_id" in fields
    assert not any(field.startswith("FRAME") for field in fields)


def test_best_effort_takes_its_own_numbers() -> None:
    (step,) = named("PUSH best effort").valid_steps()
    assert step.data.names == ("sn_be",)


def test_every_kind_stands_where_another_belongs() -> None:
    (source,) = (source for source in SOURCES if isinstance(source, Fixed))
    words = {case.mutation for case in source.cases(random.Random(1))}
    around = {"FRAME", "RESPONSE", "REQUEST", "PUSH", "DECLARE", "REPLY"}
    assert words == {f"{kind} in {outer}" for kind in KINDS for outer in around}
    (nested,) = (case for case in source.cases(random.Random(1)) if case.mutation == "D_FINAL in REPLY")
    assert filled(sends(nested)[0]).endswith(b"\x04\x1a")


def test_cases_render_and_are_not_too_large() -> None:
    rng = random.Random(1)
    for source in SOURCES[::12]:
        for case in (*islice(source.cases(rng), 0, 2000, 250), *islice(source.more(rng), 1)):
            assert sizes(case) <= MOST_BYTES


def test_the_seed_decides() -> None:
    few = SOURCES[::40]
    assert said(few, 5) == said(few, 5) == said(list(CAMPAIGN.make(Setting(1)))[::40], 5)
    assert said(few, 5) != said(few, 5, seed=2)


def test_on_lanes_only_the_frame_lies() -> None:
    lanes = [source for source in SOURCES if source.name.startswith("FRAME on lane")]
    assert len(lanes) == 8
    for source in lanes:
        assert {edge.field.partition(".")[0] for edge in source.edges()} <= {"batch", "FRAME"}
