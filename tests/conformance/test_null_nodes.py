"""Six things that are no nodes: the suite passes nothing on them."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import NodeDidNotStart, UsageError
from conformance.nodes.attach import AttachedNode
from conformance.nodes.null import KINDS, NullNode
from conformance.nodes.pypi import PypiNode
from conformance.nodes.transcript import record
from conformance.nodes.yes import Yes, hello
from conformance.tester import Tester
from scapy_layers.batch import contents
from scapy_layers.codes import Kind
from scapy_layers.message import Message
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Init, Open
from spark_reports.rows import VERDICTS, read_rows
from tests.conformance._runs import ROOT, run_prepared

REPLY = 0.2
"""Seconds for what does not come."""

LONG = 30.0
"""Seconds for what comes."""

NO_SESSION = ("closed", "silent", "echo", "noise")
"""Kinds with which no session can be opened, so that no test may pass even when nobody looks at the node."""

TELLING = [f"conformance/suite/test_{name}.py" for name in ("init", "open", "hello", "scout")]
"""Tests of single messages: what is easiest to pass by chance."""


def verdicts(kind: str, folder: Path, where: list[str], *words: str) -> list[dict[str, Any]]:
    """Runs a part of the suite on a null node; returns what became of the tests."""
    options = ["-m", "not slow", "--time-scale", "0.1", "-q", "--run-dir", str(folder)]
    done = run_prepared(*where, "--node", f"null:{kind}", *options, *words, cwd=ROOT)
    assert done.returncode != 0, done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    found = read_rows(folder / VERDICTS)
    assert found.complete
    return found.rows


@pytest.mark.parametrize("kind", KINDS)
def test_suite_passes_nothing_on_what_is_no_node(kind: str, tmp_path: Path) -> None:
    rows = verdicts(kind, tmp_path / "run", ["conformance/"])
    outcomes = Counter(row["outcome"] for row in rows)
    assert len(rows) > 300
    assert set(outcomes) <= {"fail", "warning", "n/a", "inconclusive"}, outcomes
    reasons = {row["reason"] for row in rows if row["outcome"] == "inconclusive"}
    assert reasons
    assert all("the test itself failed" not in reason for reason in reasons), reasons


@pytest.mark.parametrize("kind", [kind for kind in NO_SESSION if kind != "noise"])  # noise may hit by chance
def test_nothing_passes_even_when_nobody_looks_whether_the_node_is_well(kind: str, tmp_path: Path) -> None:
    rows = verdicts(kind, tmp_path / "run", TELLING, "--trust-node")
    judged = [row for row in rows if row["test"].startswith("suite/")]
    assert len(judged) > 50
    assert [row["test"] for row in judged if row["outcome"] == "pass"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_null_node_is_told_from_a_node_at_the_start(kind: str) -> None:
    with NullNode(kind, 1) as node:
        if kind in NO_SESSION:
            with pytest.raises(NodeDidNotStart) as caught:
                node.ask(REPLY)
            assert "\n" not in str(caught.value)
            assert node.problem(REPLY)
        else:
            # The canary alone does not see it.
            node.ask(LONG)
            assert node.problem(LONG) == ""
            assert "this is no node: it answers a query before there is a session" in node.doubt(10 * REPLY)


def test_node_is_not_taken_for_a_null_node(tmp_path: Path) -> None:
    with PypiNode(tmp_path) as node:
        attached = AttachedNode(node.locator)
        attached.ask(LONG)
        assert attached.doubt(LONG) == ""
        assert attached.zid == node.zid
        assert attached.fence == "query"


class Careful(Yes):
    """Says yes to everything that belongs into a session, and only there."""

    heard = 0

    def answer(self, batch: bytes) -> list[bytes]:
        self.heard += 1
        first = contents(batch).messages
        if self.heard == 1 and not (first and isinstance(first[0], Init)):
            return []
        return super().answer(batch)


def test_careful_one_that_says_yes_is_found_out_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance.nodes.null.Yes", Careful)
    with NullNode("yes", 1) as node:
        node.ask(LONG)
        found = node.doubt(REPLY)
        assert found == "this is no node: it answers a version that there is not, and carries no publication"


def test_kind_that_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError, match="the kinds are closed, silent, echo, noise, replay, yes"):
        NullNode("maybe")


@pytest.mark.parametrize("proto", ["tcp", "udp", "ws", "unixsock-stream"])
def test_null_node_says_its_part_on_every_transport(proto: str) -> None:
    with NullNode("echo", 1, transports=("tcp", "udp", "ws", "unixsock-stream")) as node:
        tester = Tester(node.locators[proto], random.Random(1), 5.0)
        try:
            link = tester.link()
            link.send(tester.init(zid=b"me"))
            assert link.expect(Init).zid == b"me"
        finally:
            tester.close()


SAID = {"closed": [], "silent": [], "echo": [Scout], "replay": [Hello], "yes": [Hello]}


@pytest.mark.parametrize("kind", SAID)
def test_scout_is_treated_in_the_same_way(kind: str) -> None:
    with NullNode(kind, 1) as node:
        assert node.scouting is not None
        tester = node.tester(REPLY)
        try:
            scout = tester.scout(node.scouting)
            scout.scout()
            scout.wait(lambda: bool(scout.inbox), 5.0 if SAID[kind] else REPLY)
            assert [type(seen.message) for seen in scout.inbox] == SAID[kind]
        finally:
            tester.close()


def test_noise_is_the_same_for_the_same_seed() -> None:
    noise = [KINDS["noise"](random.Random(7)).answer()(b"x" * 9) for _ in range(2)]
    assert noise[0] == noise[1]
    assert KINDS["noise"](random.Random(8)).answer()(b"x" * 9) != noise[0]


def test_replay_says_what_a_correct_node_said_batch_by_batch() -> None:
    said = record(random.Random(1)).answers
    assert len(said) > 10
    messages = [[message for batch in part for message in contents(batch).messages] for part in said]
    assert [type(message) for message in messages[0]] == [Init]
    assert [type(message) for message in messages[1]] == [Open]
    assert not any(message.errors for part in messages for message in part)
    answer = KINDS["replay"](random.Random(1)).answer()
    assert [answer(b"whatever") for _ in said][:2] == [list(part) for part in said[:2]]


def test_whatever_is_said_to_yes_it_answers_without_failing() -> None:
    dice = random.Random(3)
    whole = [
        bytes(Init(zid=b"x", S=1)),
        bytes(Open(cookie=b"c")),
        *[b for p in record(dice).answers for b in p],
    ]
    for _ in range(3000):
        data = bytearray(dice.choice(whole))
        for _ in range(dice.randrange(4)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        cut = bytes(data[: dice.randrange(1, len(data) + 1)])
        for answer in Yes(dice).answer(cut):
            assert isinstance(answer, bytes)
        assert isinstance(hello(cut), bytes)


def test_yes_to_init_and_open_is_well_formed() -> None:
    yes = Yes(random.Random(1))
    asked: list[Message] = [Init(zid=b"me", S=1, batch_size=400, fsn=0, rid=1), Open(cookie=b"c", lease=7)]
    ack, opened = (contents(yes.answer(bytes(message))[0]).messages[0] for message in asked)
    assert (ack.A, ack.batch_size, ack.fsn, ack.rid, ack.errors) == (1, 400, 0, 1, [])
    assert bytes(ack.cookie)
    assert (opened.A, opened.lease, opened.errors) == (1, 7, [])
    scout = contents(bytes(Scout(what=1)), Kind.SCOUTING).messages[0]
    assert contents(hello(bytes(scout)), Kind.SCOUTING).error is None
