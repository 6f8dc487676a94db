"""Captures of a run read again by tshark: no difference where there is none, and each that is planted is found."""

from __future__ import annotations

import io
import shutil
import struct
from pathlib import Path

import pytest

from conformance import second_opinion
from conformance.observe import Direction, Endpoints, History
from conformance.opinion.compare import parting
from conformance.opinion.merged import merge, unmasked
from conformance.opinion.reading import Told, heard, read_pdml
from conformance.recorder import CaptureWriter, observation_rows
from scapy_layers.transport import Close, Init, KeepAlive, Open
from scapy_layers.tshark import TsharkError
from spark_reports.rows import OBSERVATIONS, VERDICTS, RowWriter, write_run
from tests.conformance.test_page import RUN, verdict

tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


def prefixed(batch: bytes) -> bytes:
    return struct.pack("<H", len(batch)) + batch


def session(port: int, *, keep_alives: int = 1) -> History:
    """A handshake on the same ports each time, and whatever follows."""
    made = History()
    made.endpoints["a"] = Endpoints(("127.0.0.1", 40_000), ("127.0.0.1", port))
    made.add(0, "a", Direction.OPENED)
    said = [
        (Direction.SENT, Init(zid=b"\x01\x02")),
        (Direction.RECEIVED, Init(A=1, zid=b"\x03\x04", cookie=b"cookie")),
        (Direction.SENT, Open(lease=10_000, initial_sn=3, cookie=b"cookie")),
        (Direction.RECEIVED, Open(A=1, lease=10_000, initial_sn=5)),
        *[(Direction.SENT, KeepAlive())] * keep_alives,
        (Direction.SENT, Close(reason=0)),
    ]
    for number, (direction, message) in enumerate(said, start=1):
        made.add(number * 1_000_000, "a", direction, prefixed(bytes(message)), bytes(message))
    made.add(9_000_000, "a", Direction.ENDED, note="end of stream")
    return made


def run_of(folder: Path, histories: dict[str, History]) -> Path:
    (folder / "captures").mkdir(parents=True)
    write_run(folder, RUN)
    with RowWriter(folder / VERDICTS) as verdicts, RowWriter(folder / OBSERVATIONS) as observations:
        for name, history in histories.items():
            row = verdict(name, "pass")
            verdicts.write(row)
            for seen in observation_rows("run", row.test, history):
                observations.write(seen)
            with CaptureWriter(folder / row.capture) as capture:
                capture.add(history, name)
    return folder


@tshark
def test_tshark_agrees_although_the_captures_use_the_same_ports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_of(
        tmp_path / "run", {f"s{number}": session(17_447, keep_alives=number) for number in range(1, 5)}
    )
    opinion = second_opinion.second_opinion(folder)
    assert opinion.differences == []
    assert (opinion.captures, opinion.messages) == (4, 4 * 5 + 1 + 2 + 3 + 4)
    assert second_opinion.main([str(folder)]) == 0
    assert "no differences" in capsys.readouterr().out


@tshark
def test_other_decoder_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_of(tmp_path / "run", {"one": session(17_447), "two": session(17_447)})
    right = heard

    def wrong(path: Path) -> dict[int, list[Told]]:
        found = right(path)
        number = max(found)
        found[number] = [Told("keep_alive", {})]
        return found

    monkeypatch.setattr(second_opinion, "heard", wrong)
    monkeypatch.setattr(second_opinion, "decoded", lambda _: iter(()))
    assert second_opinion.main([str(folder)]) == 1
    text = capsys.readouterr().out
    assert "two.pcapng, packet " in text
    assert "messages: ours keep_alive; tshark close" in text
    assert "1 difference" in text


@tshark
def test_stream_that_only_the_tester_knows_to_be_zenoh_is_compared_with_the_rows(tmp_path: Path) -> None:
    made = History()
    made.endpoints["a"] = Endpoints(("127.0.0.1", 40_000), ("127.0.0.1", 17_447))
    made.add(0, "a", Direction.OPENED)
    cut = bytes(Init(zid=b"\x01\x02"))[:2]
    made.add(1_000_000, "a", Direction.SENT, prefixed(cut), cut)
    assert second_opinion.second_opinion(run_of(tmp_path / "run", {"one": made})).differences == []


def test_readings_part_at_names_and_at_numbers() -> None:
    close = Told("close", {"reason": 0})
    assert parting([close], [close]) is None
    assert parting([close], [Told("close")]) is None
    assert parting([close], []) == ("messages", "close", "nothing")
    assert parting([close], [Told("close", {"reason": 3})]) == ("close.reason", "0", "3")


def test_pdml_is_read_in_the_order_of_the_bytes() -> None:
    text = b"""<packet>
<field name="num" pos="0" show="7" size="9"/>
<field name="zenoh.frame" showname="FRAME" size="9" pos="56" show="" value="">
<field name="zenoh.frame.R" showname="..1" size="1" pos="56" show="1" value="1"/>
<field name="zenoh.push" showname="PUSH" size="7" pos="58" show="" value="">
<field name="zenoh.push.key_scope" size="1" pos="59" show="0x05" value="05"/>
<field name="zenoh.frame.sn" size="1" pos="57" show="9" value="09"/>
"""
    found = read_pdml(io.BytesIO(text))
    assert [told.name for told in found[7]] == ["frame", "push"]
    assert found[7][0].fields == {"R": 1}
    assert found[7][1].fields == {"key_scope": 5}


def test_merged_capture_keeps_bytes_and_tells_captures_apart(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "run", {"one": session(17_447), "two": session(17_447)})
    merged = merge(sorted((folder / "captures").iterdir()), tmp_path / "m.pcap")
    assert merged.tcp_ports == {40_000, 17_447}
    raw = (tmp_path / "m.pcap").read_bytes()
    assert raw.count(bytes([10, 0, 1, 1])) > 0 < raw.count(bytes([10, 0, 2, 1]))
    assert raw.count(prefixed(bytes(Close(reason=0)))) == 2
    assert [packet.number for packet in merged.packets].count(1) == 2


@pytest.mark.parametrize("size", [0, 5, 125, 126, 65_535, 65_536])
def test_frame_of_a_websocket_client_is_unmasked(size: int) -> None:
    data, mask = bytes(index % 251 for index in range(size)), b"\x01\x80\xff\x10"
    if size < 126:
        head = bytes([size | 0x80])
    else:
        head = b"\xfe" + struct.pack("!H", size) if size < 65_536 else b"\xff" + struct.pack("!Q", size)
    body = bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))
    assert unmasked(b"\x82" + head + mask + body) == data
    assert unmasked((b"\x82" + head + mask + body)[:-1]) == b""


def test_without_tshark_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_of(tmp_path / "run", {"one": session(17_447)})

    def missing(*_: object) -> None:
        raise TsharkError("tshark was not found")

    monkeypatch.setattr(second_opinion, "tshark", missing)
    assert second_opinion.main([str(folder)]) == second_opinion.EXIT_NOTHING
    assert "n/a: tshark was not found" in capsys.readouterr().out


def test_folder_that_is_no_run_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert second_opinion.main([str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
