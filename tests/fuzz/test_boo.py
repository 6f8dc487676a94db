from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

import fuzz.boo
import fuzz.cases
from conformance.config import Locator
from conformance.errors import NodeDidNotStart
from fuzz.boo import Budget, Runner, Summary, forget_cores
from fuzz.campaigns import CAMPAIGNS, Campaign
from fuzz.oracles import Harm
from fuzz.recorder import Recorder
from scapy_layers.catalogue import decode
from spark_reports.rows import FUZZ_CASES, read_rows
from tests.fuzz.fakes import FakeNode, config_in, pushes

KEY = b"\x03a/b"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is left in the working directory is seen."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)


@contextlib.contextmanager
def running(node: FakeNode, folder: Path, campaign: Campaign, cases: int, seed: int = 1) -> Iterator[Runner]:
    config = config_in(folder, seed)
    recorder = Recorder(config, campaign.name)
    try:
        with node:
            yield Runner(config, node, campaign, Budget(cases=cases), recorder)
    finally:
        recorder.close()


def run(node: FakeNode, folder: Path, campaign: Campaign, cases: int, seed: int = 1) -> Summary:
    with running(node, folder, campaign, cases, seed) as runner:
        return runner.run()


def rows_of(folder: Path) -> list[dict[str, object]]:
    file = read_rows(folder / FUZZ_CASES)
    assert file.complete
    assert not file.bad
    return file.rows


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_node_that_copes_has_no_finding_and_a_row_for_each_case(tmp_path: Path, name: str) -> None:
    summary = run(FakeNode(), tmp_path / "run", CAMPAIGNS[name], 60)
    assert not summary.triage.findings
    assert summary.cases == 60
    rows = rows_of(tmp_path / "run")
    assert [row["case"] for row in rows] == list(range(1, 61))
    assert {row["verdict"] for row in rows} <= {"accepted", "closed", "refused", "silent"}
    assert {row["state"] for row in rows} == set(CAMPAIGNS[name].states)
    for row in rows:
        assert row["sent_bytes"]
        assert (tmp_path / "run" / str(row["capture"])).stat().st_size
    assert list((tmp_path / "here").iterdir()) == []


def test_verdicts_tell_what_the_node_did(tmp_path: Path) -> None:
    run(FakeNode(), tmp_path / "run", pushes(), 250)
    rows = rows_of(tmp_path / "run")
    by_mutation = {(row["field"], row["mutation"]): row for row in rows}
    assert by_mutation["batch.length", "length says 65535"]["verdict"] == "silent"
    assert by_mutation["PUSH.mid", "mid=8 (true: 29)"]["verdict"] == "refused"
    accepted = [row for row in rows if row["verdict"] == "accepted"]
    assert accepted
    assert all(row["reply"] == "" for row in accepted)


def test_sent_bytes_are_the_stimulus_with_the_live_number(tmp_path: Path) -> None:
    run(FakeNode(), tmp_path / "run", pushes(), 150)
    row = next(
        row
        for row in rows_of(tmp_path / "run")
        if row["field"] == "PUT.data" and row["verdict"] == "accepted"
    )
    frame = decode(bytes.fromhex(str(row["sent_hex"])))
    assert frame.name == "FRAME"
    assert frame.sn > 0
    assert row["sent_bytes"] == len(str(row["sent_hex"])) // 2 + 2


@pytest.mark.parametrize(
    ("how", "harm", "place"),
    [("die", Harm.CRASH, "SIGSEGV"), ("panic", Harm.PANIC, "some-crate/src/net/face.rs:83")],
)
def test_harmed_node_is_a_finding_and_the_run_goes_on(
    tmp_path: Path, how: str, harm: Harm, place: str
) -> None:
    node = FakeNode(
        lambda batch: (
            how
            if batch and batch[0] & 0x1F == 5 and KEY + b"\x01\x05" not in batch and b"\x03a/" in batch
            else ""
        )
    )
    summary = run(node, tmp_path / "run", pushes(), 120)
    assert summary.cases == 120
    assert summary.restarts == node.starts - 1 > 0
    assert summary.slowest_restart < 0.8
    findings = list(summary.triage.findings.values())
    assert findings
    assert {tuple(finding.bucket.split()[:2]) for finding in findings} == {(str(harm), place)}
    rows = rows_of(tmp_path / "run")
    found = [row for row in rows if row["verdict"] == "finding"]
    assert len(found) == sum(finding.hits for finding in findings)
    assert max(int(str(row["node_instance"])) for row in rows) > 1
    for row in found:
        assert row["bucket"] in summary.triage.findings
        assert row["detail"]
        assert "finding-pushes-" in str(row["capture"])
        assert (tmp_path / "run" / str(row["capture"])).exists()


def test_stall_is_a_finding_by_field_and_the_node_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conformance.config.REPLY_SECONDS", 0.3)
    node = FakeNode(lambda batch: "stall" if b"\x05hell" in batch and b"\x05hello" not in batch else "")
    summary = run(node, tmp_path / "run", pushes(), 200)
    assert {finding.harm for finding in summary.triage.findings.values()} == {Harm.STALL}
    assert all("stall " in bucket for bucket in summary.triage.findings)
    assert node.starts > 1
    assert len(rows_of(tmp_path / "run")) == 200


def test_same_fault_again_and_again_is_masked_and_said(tmp_path: Path) -> None:
    # Every text that is no plain key harms.
    node = FakeNode(
        lambda batch: (
            "panic" if batch[:1] == b"\x25" and b"a/b" not in batch and b"harness" not in batch else ""
        )
    )
    summary = run(node, tmp_path / "run", pushes(), 400)
    masked = sum(summary.triage.masked.values())
    assert masked == sum(finding.masked for finding in summary.triage.findings.values()) > 0
    assert len(rows_of(tmp_path / "run")) == 400


def test_replay_on_a_fresh_node_confirms_what_one_case_does(tmp_path: Path) -> None:
    node = FakeNode(
        lambda batch: "panic" if KEY not in batch and b"a/b" in batch and b"harness" not in batch else ""
    )
    with running(node, tmp_path / "run", pushes(), 120) as runner:
        summary = runner.run()
        runner.replay()
    assert summary.cases == 120
    assert summary.triage.findings
    for finding in summary.triage.findings.values():
        assert finding.confirmed == (2, 2)
    assert len(rows_of(tmp_path / "run")) == 120


def test_harm_that_shows_late_is_put_to_the_case_before(tmp_path: Path) -> None:
    node = FakeNode()
    late = [False]
    with running(node, tmp_path / "run", pushes(), 5) as runner:
        begin = runner.begin

        def panics_between_cases(case: fuzz.cases.Case) -> None:
            begin(case)
            if runner.summary.cases == 3 and not late[0]:
                late[0] = True
                assert node.server
                node.server.said = "panicked at src/x.rs:1:2: late"

        runner.begin = panics_between_cases  # type: ignore[method-assign]
        summary = runner.run()
    rows = rows_of(tmp_path / "run")
    assert [row["verdict"] == "finding" for row in rows] == [False, False, True, False, False]
    assert str(rows[2]["detail"]).startswith("seen behind the case")
    assert summary.restarts == 1


def test_node_of_others_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz.boo, "RECOVERY_STEP", 0.01)
    monkeypatch.setattr("conformance.config.REPLY_SECONDS", 0.3)
    seen = [0]

    def once(batch: bytes) -> str:
        seen[0] += b"\x05hello" in batch
        return "hiccup" if seen[0] == 10 and b"\x05hello" in batch else ""

    node = FakeNode(once)
    node.owned = False
    summary = run(node, tmp_path / "run", pushes(), 40)
    assert summary.cases == 40
    assert summary.restarts == 1
    assert node.starts == 1
    (finding,) = summary.triage.findings.values()
    assert finding.harm is Harm.STALL


def test_node_of_others_that_stays_down_ends_the_run_with_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz.boo, "RECOVERY", 0.1)
    monkeypatch.setattr(fuzz.boo, "RECOVERY_STEP", 0.01)
    seen = [0]

    def once(batch: bytes) -> str:
        seen[0] += b"\x05hello" in batch
        return "die" if seen[0] == 5 else ""

    node = FakeNode(once)
    node.owned = False
    monkeypatch.setattr(node, "death", lambda: "")
    with pytest.raises(NodeDidNotStart, match="not well any more"):
        run(node, tmp_path / "run", pushes(), 40)
    rows = rows_of(tmp_path / "run")
    assert rows[-1]["verdict"] == "finding"
    assert str(rows[-1]["bucket"]).startswith("gone ")


def test_ctrl_c_ends_with_what_was_recorded(tmp_path: Path) -> None:
    with running(FakeNode(), tmp_path / "run", pushes(), 40) as runner:

        def press(summary: Summary) -> None:
            if summary.cases == 7:
                raise KeyboardInterrupt

        runner._progress = press
        summary = runner.run()
    assert summary.interrupted
    assert len(rows_of(tmp_path / "run")) == 7


def test_node_that_never_comes_into_the_state_ends_the_run(tmp_path: Path) -> None:
    class Elsewhere(FakeNode):
        def start(self) -> None:
            super().start()
            assert self.server
            self.server.close()
            self.server = None
            self.locator = Locator("tcp", "127.0.0.1", self.locator.port)

        def death(self) -> str:
            return ""

    with pytest.raises(NodeDidNotStart, match="does not come into the state open"):
        run(Elsewhere(), tmp_path / "run", pushes(), 10)


def test_a_node_that_crashes_leaves_no_core() -> None:
    forget_cores()
    assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0
