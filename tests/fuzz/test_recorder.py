from __future__ import annotations

import random
from itertools import islice
from pathlib import Path
from typing import Any

from scapy.utils import PcapNgReader

from conformance.observe import Direction, Endpoints, History
from fuzz.cases import Plan
from fuzz.oracles import Harm, Objection
from fuzz.recorder import Record, Recorder
from fuzz.triage import Triage
from spark_reports.rows import FUZZ_CASES, FuzzCaseRow, read_rows
from tests.fuzz.fakes import config_in, pushes


def record(number: int, **changes: Any) -> Record:
    history = History()
    history.endpoints["a"] = Endpoints(("127.0.0.1", 1000), ("127.0.0.1", 7447))
    history.add(1_000_000_000, "a", Direction.OPENED, note="link a")
    history.add(2_000_000_000, "a", Direction.SENT, b"\x01\x00\x04", b"\x04")
    values: dict[str, Any] = {
        "run_id": "run", "campaign": "pushes", "case": number, "time_ns": 1, "duration_s": 0.1, "seed": 1,
        "state": "open", "message": "PUSH", "field": "PUSH.N", "mutation": "N=0", "sent_hex": "04",
        "sent_bytes": 3, "reply": "", "verdict": "accepted", "oracle": "", "bucket": "", "detail": "",
        "node_instance": 1, "capture": "",
    }  # fmt: skip
    return Record(FuzzCaseRow(**{**values, **changes}), history)


def comments(path: Path) -> list[str]:
    with PcapNgReader(str(path)) as reader:
        return [comment.decode() for packet in reader for comment in packet.comments or []]


def test_last_case_is_held_back_until_the_next_one(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run")
    with Recorder(config, "pushes") as recorder:
        recorder.add(record(1))
        assert not read_rows(config.run_dir / FUZZ_CASES).rows
        recorder.add(record(2))
        assert [row["case"] for row in read_rows(config.run_dir / FUZZ_CASES).rows] == [1]
    rows = read_rows(config.run_dir / FUZZ_CASES)
    assert [row["case"] for row in rows.rows] == [1, 2]
    assert rows.complete


def test_capture_of_a_campaign_names_case_mutation_and_verdict(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run")
    with Recorder(config, "pushes") as recorder:
        recorder.add(record(1))
    said = comments(config.run_dir / "captures" / "fuzz-pushes.pcapng")
    assert "case 1 of pushes: PUSH, PUSH.N: N=0" in said
    assert "verdict: accepted" in said


def test_capture_of_a_finding_is_that_of_its_smallest_case(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run")
    triage = Triage()
    cases = list(islice(Plan(list(pushes().stimuli()), random.Random(1)).cases(), 2))
    with Recorder(config, "pushes") as recorder:
        for number, size, case in ((1, 30, cases[0]), (2, 20, cases[0]), (3, 25, cases[0])):
            made = record(number, sent_bytes=size)
            recorder.add(made)
            finding, smallest = triage.add(
                Objection("stderr", Harm.PANIC, "a.rs:1", "it panicked"), case, number, size
            )
            recorder.found(finding, made, smallest=smallest)
    path = "captures/finding-pushes-1.pcapng"
    assert {row["capture"] for row in read_rows(config.run_dir / FUZZ_CASES).rows} == {path}
    said = comments(config.run_dir / path)
    assert any(text.startswith("case 2 of pushes") for text in said)
    assert any(text.startswith("finding panic a.rs:1") for text in said)


def test_rows_go_on_when_the_capture_is_full(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("fuzz.recorder.CAMPAIGN_CAPTURE_BYTES", 600)
    config = config_in(tmp_path / "run")
    with Recorder(config, "pushes") as recorder:
        for number in range(1, 10):
            recorder.add(record(number))
        recorder.flush()
        assert recorder.capture_is_full
    rows = read_rows(config.run_dir / FUZZ_CASES).rows
    assert len(rows) == 9
    assert rows[0]["capture"] == "captures/fuzz-pushes.pcapng"
    assert rows[-1]["capture"] == ""
