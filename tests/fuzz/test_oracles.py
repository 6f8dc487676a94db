from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from fuzz.oracles import ORACLES, Harm, Patient, examine, place_of
from tests.fuzz.fakes import PANIC, FakeNode, Server

ALL = ("process", "stderr", "ping")


@pytest.fixture
def node() -> Iterator[FakeNode]:
    with FakeNode() as node:
        yield node


def server_of(node: FakeNode) -> Server:
    assert node.server
    return node.server


def test_a_node_that_serves_has_no_objection(node: FakeNode) -> None:
    patient = Patient(node, 1.0)
    assert examine(patient, ALL) is None
    patient.close()


def test_registry_has_the_three_oracles() -> None:
    assert tuple(ORACLES) == ALL


def test_a_process_that_died_is_a_crash_with_its_signal(node: FakeNode) -> None:
    server_of(node).dead = "the process died of SIGSEGV"
    objection = examine(Patient(node, 1.0), ALL)
    assert objection
    assert (objection.oracle, objection.harm, objection.place) == ("process", Harm.CRASH, "SIGSEGV")


def test_last_words_of_a_dead_process_are_the_place(node: FakeNode) -> None:
    server_of(node).dead = "the process died of SIGABRT"
    server_of(node).said = "memory allocation of 12345678 bytes failed"
    objection = examine(Patient(node, 1.0), ALL)
    assert objection
    assert objection.place == "SIGABRT memory allocation"


def test_a_panic_text_is_a_panic_at_its_place(node: FakeNode) -> None:
    server_of(node).said = PANIC
    objection = examine(Patient(node, 1.0), ALL)
    assert objection
    assert (objection.oracle, objection.harm) == ("stderr", Harm.PANIC)
    assert objection.place == "some-crate/src/net/face.rs:83"


def test_a_node_that_does_not_answer_is_a_stall() -> None:
    with FakeNode(lambda _: "stall") as node:
        began = time.monotonic()
        objection = examine(Patient(node, 0.2), ALL)
    assert objection
    assert (objection.oracle, objection.harm, objection.place) == ("ping", Harm.STALL, "")
    assert time.monotonic() - began < 2


def test_a_panic_text_that_comes_behind_the_failed_ping_wins_over_stall() -> None:
    with FakeNode(lambda _: "mumble") as node:
        patient = Patient(node, 0.2)
        assert examine(patient, ALL) is None  # harms the node, but the session goes on
        objection = examine(patient, ALL)
        patient.close()
    assert objection
    assert objection.harm is Harm.PANIC


def test_an_address_where_nobody_listens_any_more_is_gone_when_the_node_is_not_ours(node: FakeNode) -> None:
    locator = node.locator
    node.stop()
    other = FakeNode()
    other.owned = False
    other.locator = locator
    other.server = None
    objection = ORACLES["ping"](Patient(other, 0.2))
    assert objection
    assert objection.harm is Harm.GONE


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ("thread 'a' panicked at zenoh/src/net/x.rs:1:2: why", "zenoh/src/net/x.rs:1"),
        (
            "thread 'a' panicked at /build/git/checkouts/z-9c5/cc8/io/zenoh-link/src/a.rs:10:1:",
            "zenoh-link/src/a.rs:10",
        ),
        ("thread 'a' panicked at /x/slab-0.4.11/src/lib.rs:7:9: invalid key", "slab/src/lib.rs:7"),
        ("thread 'a' panicked at 'it failed', src/lib.rs:12:5", "src/lib.rs:12"),
        ("thread 'a' panicked at /rustc/0f1e2d/library/core/src/cell.rs:3:1:", "core/src/cell.rs:3"),
        ("thread 'rx-0' has overflowed its stack fatal runtime error: stack overflow", "fatal runtime error"),
        ("memory allocation of 99 bytes failed", "memory allocation"),
        ("something else", ""),
    ],
)
def test_place_has_no_prefix_version_or_column(said: str, place: str) -> None:
    assert place_of(said) == place
