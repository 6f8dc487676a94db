"""Rows and captures of what was seen."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scapy.layers import inet, inet6  # noqa: F401  (so that Scapy knows IP and TCP)
from scapy.utils import PcapNgReader, RawPcapNgReader

from conformance.config import RunConfig
from conformance.errors import UsageError
from conformance.observe import Direction, Endpoints, History
from conformance.recorder import CaptureWriter, NodeFacts, close_run, observation_rows, open_run
from scapy_layers.batch import prefixed
from scapy_layers.codes import Kind
from scapy_layers.data import Put
from scapy_layers.network import Push
from scapy_layers.scouting import Scout
from scapy_layers.transport import Frame, KeepAlive
from spark_reports.rows import read_run

FACTS = NodeFacts("eclipse-zenoh", "1.10.2", "router", "aa")


def history(host: str = "127.0.0.1") -> History:
    made = History()
    made.endpoints["a"] = Endpoints((host, 50_000), (host, 7447))
    made.add(1_000_000_000, "a", Direction.OPENED, note="link a")
    frame = bytes(Frame(R=1, sn=1, messages=[Push(key_suffix="k", body=Put(data=b"x"))]))
    made.add(1_001_000_000, "a", Direction.SENT, prefixed(frame), frame)
    made.annotate("expected nothing: met")
    made.add(1_002_000_000, "a", Direction.RECEIVED, prefixed(b"\x08"), b"\x08")
    made.add(1_003_000_000, "a", Direction.ENDED, note="end of stream")
    return made


def capture(path: Path, made: History, **kwargs: Any) -> Path:
    with CaptureWriter(path, **kwargs) as writer:
        writer.add(made, "title of the test", ["verdict: pass"])
    return path


def packets_of(path: Path) -> list[Any]:
    with PcapNgReader(str(path)) as reader:
        return list(reader)


def test_rows_say_what_each_observation_was() -> None:
    rows = observation_rows("r", "t", history(), first=5)
    assert [row.seq for row in rows] == [5, 6, 7, 8]
    assert [row.direction for row in rows] == ["opened", "sent", "received", "ended"]
    assert rows[1].messages == "FRAME PUSH PUT"
    assert rows[2].raw_hex == "08"
    assert "id 0x08 is no transport message" in rows[2].error


def test_message_is_put_into_words_once_for_rows_and_capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worded: list[Frame] = []
    describe = Frame.describe

    def counted(self: Frame) -> str:
        worded.append(self)
        return describe(self)

    monkeypatch.setattr(Frame, "describe", counted)
    made = history()
    rows = observation_rows("r", "t", made)
    assert rows[1].summary.startswith("FRAME R=1 sn=1 [PUSH")
    capture(tmp_path / "c.pcapng", made)
    assert len(worded) == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_capture_has_the_bytes_in_order_between_the_true_ports(tmp_path: Path, host: str) -> None:
    packets = packets_of(capture(tmp_path / "c.pcapng", history(host)))
    tcp = [packet["TCP"] for packet in packets]
    assert [(p.sport, p.dport) for p in tcp[:2]] == [(50_000, 7447), (7447, 50_000)]
    assert [str(p.flags) for p in tcp] == ["S", "SA", "A", "PA", "PA", "FA"]
    assert bytes(tcp[3].payload)[2] == 0x25
    assert bytes(tcp[4].payload) == b"\x01\x00\x08"
    assert float(packets[3].time) == pytest.approx(1.001)
    for packet in packets:
        # Scapy computes checksums anew when they are taken out.
        fresh = packet.copy()
        for layer in (fresh.getlayer("IP"), fresh["TCP"]):
            if layer is not None:
                del layer.chksum
        assert bytes(fresh) == bytes(packet)


def test_remarks_name_stimulus_expectation_and_verdict(tmp_path: Path) -> None:
    with RawPcapNgReader(str(capture(tmp_path / "c.pcapng", history()))) as reader:
        packets = list(reader)
    remarks = [[remark.decode() for remark in meta.comments or []] for _, meta in packets]
    assert remarks[0] == ["title of the test"]
    assert remarks[3][0].startswith("stimulus: FRAME R=1 sn=1 [PUSH")
    assert remarks[3][1] == "expected nothing: met"
    assert any("does not decode" in remark for remark in remarks[4])
    assert remarks[5] == ["verdict: pass"]


def test_messages_are_described_only_when_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "c.pcapng"
    with CaptureWriter(path) as writer:
        writer.add(history(), "title of the test", ["verdict: pass"], describe=False)
    with RawPcapNgReader(str(path)) as reader:
        remarks = [remark.decode() for _, meta in reader for remark in meta.comments or []]
    assert remarks == ["title of the test", "expected nothing: met", "verdict: pass"]


@pytest.mark.skipif(not shutil.which("tshark"), reason="needs tshark")
def test_tshark_shows_the_remarks_and_finds_nothing_wrong(tmp_path: Path) -> None:
    path = capture(tmp_path / "c.pcapng", history())
    options = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]
    fields = ["-T", "fields", "-e", "frame.comment", "-e", "tcp.checksum.status", "-e", "tcp.analysis.flags"]
    done = subprocess.run(
        ["tshark", "-r", str(path), *options, *fields], capture_output=True, text=True, check=True
    )
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert "verdict: pass" in lines[-1][0]
    assert {line[1] for line in lines} == {"1"}
    assert {line[2] for line in lines} == {""}


def test_batch_larger_than_a_packet_is_spread_over_several(tmp_path: Path) -> None:
    made = History()
    made.endpoints["a"] = Endpoints(("127.0.0.1", 1), ("127.0.0.1", 2))
    made.add(0, "a", Direction.OPENED)
    batch = bytes(KeepAlive()) * 65_535
    made.add(1, "a", Direction.SENT, prefixed(batch), batch)
    packets = packets_of(capture(tmp_path / "c.pcapng", made))
    assert b"".join(bytes(packet["TCP"].payload) for packet in packets) == prefixed(batch)


def test_full_capture_stays_within_its_limit_and_says_so(tmp_path: Path) -> None:
    writer = CaptureWriter(tmp_path / "c.pcapng", limit=5000)
    for _ in range(100):
        writer.add(history(), "t")
    writer.close()
    assert writer.full
    assert (tmp_path / "c.pcapng").stat().st_size < 6000


def test_link_that_was_accepted_begins_with_the_other_end(tmp_path: Path) -> None:
    made = history()
    made.endpoints["a"] = replace(made.endpoints["a"], accepted=True)
    first, second, *_ = packets_of(capture(tmp_path / "c.pcapng", made))
    assert (first["TCP"].sport, str(first["TCP"].flags)) == (7447, "S")
    assert (second["TCP"].sport, str(second["TCP"].flags)) == (50_000, "SA")


@pytest.mark.parametrize(
    ("proto", "path", "words"),
    [("tls", "", "decrypted"), ("unixsock-stream", "/tmp/a", "Unix socket /tmp/a")],
)
def test_what_a_capture_cannot_show_is_said(tmp_path: Path, proto: str, path: str, words: str) -> None:
    made = history()
    made.endpoints["a"] = replace(made.endpoints["a"], proto=proto, path=path)
    with RawPcapNgReader(str(capture(tmp_path / "c.pcapng", made))) as reader:
        (_, meta), *_ = list(reader)
    assert any(words in remark.decode() for remark in meta.comments or [])


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_datagrams_are_udp_between_the_true_addresses(tmp_path: Path, host: str) -> None:
    made = History()
    made.endpoints["a"] = Endpoints((host, 50_000), (host, 7447), "udp")
    made.add(1_000_000_000, "a", Direction.OPENED, note="link a")
    made.add(1_001_000_000, "a", Direction.SENT, b"\x04", b"\x04")
    made.add(1_002_000_000, "a", Direction.RECEIVED, b"", b"")
    elsewhere = (host, 9)
    made.add(1_003_000_000, "a", Direction.RECEIVED, b"\x04", b"\x04", route=(elsewhere, (host, 50_000)))
    made.add(1_004_000_000, "a", Direction.ENDED, note="closed by us")
    path = capture(tmp_path / "c.pcapng", made)
    udp = [packet["UDP"] for packet in packets_of(path)]
    assert [(p.sport, p.dport) for p in udp] == [(50_000, 7447), (7447, 50_000), (9, 50_000)]
    assert [p.len for p in udp] == [9, 8, 9]
    with RawPcapNgReader(str(path)) as reader:
        remarks = [[remark.decode() for remark in meta.comments or []] for _, meta in reader]
    assert remarks[0] == ["title of the test", "stimulus: KEEP_ALIVE"]
    assert remarks[-1] == ["received: KEEP_ALIVE", "link a: closed by us", "verdict: pass"]


@pytest.mark.parametrize(("host", "most"), [("127.0.0.1", 65_507), ("::1", 65_527)])
def test_what_no_datagram_holds_is_said_instead_of_shown(tmp_path: Path, host: str, most: int) -> None:
    made = History()
    made.endpoints["a"] = Endpoints((host, 50_000), (host, 7447), "udp")
    for number, size in enumerate((most, most + 1, 1)):
        made.add(number, "a", Direction.SENT, b"\x04" * size, b"\x04")
    path = capture(tmp_path / "c.pcapng", made)
    assert [packet["UDP"].len for packet in packets_of(path)] == [8 + most, 9]
    with RawPcapNgReader(str(path)) as reader:
        remarks = [[remark.decode() for remark in meta.comments or []] for _, meta in reader]
    assert f"link a: not sent: {most + 1} bytes are too many for a datagram" in remarks[1]


def test_scouting_is_taken_apart_as_scouting() -> None:
    made = History()
    made.endpoints["s"] = Endpoints(("127.0.0.1", 1), ("127.0.0.1", 2), "udp")
    data = bytes(Scout())
    made.add(0, "s", Direction.SENT, data, data, kind=Kind.SCOUTING)
    assert [row.messages for row in observation_rows("r", "t", made)] == ["SCOUT"]


def test_checksum_of_zero_is_written_as_ones_over_udp(tmp_path: Path) -> None:
    def checksum(data: bytes) -> int:
        made = History()
        made.endpoints["a"] = Endpoints(("127.0.0.1", 1), ("127.0.0.1", 2), "udp")
        made.add(0, "a", Direction.SENT, data, b"")
        (packet,) = packets_of(capture(tmp_path / "c.pcapng", made))
        found: int = packet["UDP"].chksum
        return found

    assert checksum(checksum(bytes(2)).to_bytes(2, "big")) == 0xFFFF


@pytest.mark.skipif(not shutil.which("tshark"), reason="needs tshark")
def test_checksums_of_datagrams_are_right(tmp_path: Path) -> None:
    made = History()
    made.endpoints["a"] = Endpoints(("127.0.0.1", 1), ("127.0.0.1", 2), "udp")
    for number in range(300):
        made.add(number, "a", Direction.SENT, number.to_bytes(2, "big"), b"")
    path = capture(tmp_path / "c.pcapng", made)
    done = subprocess.run(
        [
            "tshark",
            "-r",
            str(path),
            "-o",
            "udp.check_checksum:TRUE",
            "-T",
            "fields",
            "-e",
            "udp.checksum.status",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) == {"1"}


def settings(folder: Path) -> RunConfig:
    return RunConfig(node="pypi", run_dir=folder, run_id=folder.name, seed=1)


def test_second_tool_in_the_same_folder_is_added_to_the_run(tmp_path: Path) -> None:
    first = open_run(settings(tmp_path), FACTS, "conformance", "pytest conformance")
    assert read_run(tmp_path).status == "running"
    close_run(settings(tmp_path), first)
    second = open_run(settings(tmp_path), FACTS, "fuzz", "zenoh-fuzz run handshake")
    close_run(settings(tmp_path), second)
    run = read_run(tmp_path)
    assert run.kind == "conformance+fuzz"
    assert run.started_at == first.started_at
    assert run.command == "pytest conformance; zenoh-fuzz run handshake"
    assert run.status == "complete"
    assert run.ended_at is not None


@pytest.mark.parametrize(
    ("runs", "selection"),
    [
        ([("conformance", "-k close"), ("conformance", "-m slow"), ("fuzz", "")], "-k close; -m slow"),
        ([("conformance", "-k close"), ("conformance", "all")], "all"),
        ([("fuzz", ""), ("conformance", "-k close")], "-k close"),
        # A row before version 6 does not say it, and may have been whole.
        ([("conformance", ""), ("conformance", "-k close")], ""),
    ],
)
def test_run_says_what_was_selected_in_its_folder(
    tmp_path: Path, runs: list[tuple[str, str]], selection: str
) -> None:
    for kind, selected in runs:
        row = open_run(settings(tmp_path), FACTS, kind, "x", selection=selected)
        close_run(settings(tmp_path), row)
    assert read_run(tmp_path).selection == selection


def test_damaged_run_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(UsageError, match="choose another --run-dir"):
        open_run(settings(tmp_path), FACTS, "fuzz", "x")
    assert (tmp_path / "run.json").read_text() == "{"


def test_run_against_another_node_is_not_mixed_in(tmp_path: Path) -> None:
    close_run(settings(tmp_path), open_run(settings(tmp_path), FACTS, "conformance", "x"))
    before = (tmp_path / "run.json").read_bytes()
    other = NodeFacts("eclipse-zenoh", "1.9.0", "router", "bb")
    with pytest.raises(UsageError, match=r"holds a run against pypi \(eclipse-zenoh 1.10.2\)"):
        open_run(settings(tmp_path), other, "fuzz", "y")
    assert (tmp_path / "run.json").read_bytes() == before


def test_what_is_known_of_a_node_stays_when_the_second_tool_does_not_know_it(tmp_path: Path) -> None:
    close_run(settings(tmp_path), open_run(settings(tmp_path), FACTS, "conformance", "x"))
    close_run(
        settings(tmp_path),
        open_run(settings(tmp_path), NodeFacts("unknown", "unknown", "router", "aa"), "fuzz", "y"),
    )
    assert read_run(tmp_path).node_version == "1.10.2"


def test_run_says_what_its_results_depend_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZENOH_PARENT_RUN", "matrix-1")
    close_run(
        settings(tmp_path), open_run(settings(tmp_path), FACTS, "conformance", "x", {"transport": "tcp"})
    )
    monkeypatch.delenv("ZENOH_PARENT_RUN")
    open_run(settings(tmp_path), FACTS, "fuzz", "y", {"campaigns": "all", "through-known": True})
    run = read_run(tmp_path)
    assert (run.configuration, run.parent) == ("campaigns=all through-known=yes transport=tcp", "matrix-1")
    assert "core" in run.environment
