"""The command ``read``: what it shows, what it lets through, and how it takes bad input."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scapy_layers.__main__ import main
from scapy_layers.all import Frame, Init, Open, Push, Put
from tests.scapy_layers.packets import (
    enhanced,
    ethernet,
    interface,
    ipv4,
    pcap,
    pcapng,
    prefixed,
    put,
    section,
    tcp,
    udp,
)

PCAPS = Path(__file__).parents[2] / "pcaps"
HANDSHAKE = (
    (0, bytes(Init(zid=bytes(range(1, 7))))),
    (1, bytes(Init(A=1, zid=bytes(range(17, 23)), cookie=b"cook", whatami=0))),
    (0, bytes(Open(lease=100, initial_sn=100, cookie=b"cook"))),
    (1, bytes(Open(A=1, lease=100, initial_sn=100))),
)
HOSTILE = "a/\x1b[31mred\x1b[0m\n\u202egnp.exe\x07/\ud7ff"


def read(capsys: pytest.CaptureFixture[str], *arguments: str | Path, status: int = 0) -> list[str]:
    assert main(["read", *map(str, arguments)]) == status
    return capsys.readouterr().out.splitlines()


def objects(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in read(capsys, *arguments, "--format", "jsonl")]


def session(*batches: bytes) -> bytes:
    """A capture of one session; the batches come from the side that connects."""
    packets, seq, back = [tcp(b"", seq=0, flags=2)], 1, 1
    packets.append(tcp(b"", seq=0, flags=18, sport=7447, dport=50_000))
    for answers, batch in (*HANDSHAKE, *((0, batch) for batch in batches)):
        data = prefixed(batch)
        if answers:
            packets.append(tcp(data, seq=back, sport=7447, dport=50_000))
            back += len(data)
        else:
            packets.append(tcp(data, seq=seq))
            seq += len(data)
    return pcap(_addressed(packets))


def _addressed(packets: list[bytes]) -> list[bytes]:
    """Packets of the port 7447 go back: their addresses are exchanged."""
    framed = []
    for packet in packets:
        raw = ethernet(ipv4(packet))
        if packet[:2] == (7447).to_bytes(2, "big"):
            raw = raw[:26] + raw[30:34] + raw[26:30] + raw[34:]
        framed.append(raw)
    return framed


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "session.pcap"
    path.write_bytes(session(put(100), put(101), put(103)))
    return path


def test_line_has_number_time_ends_names_key_and_payload(
    capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = read(capsys, capture)
    assert [line.split()[0] for line in lines] == ["3", "4", "5", "6", "7", "8", "9", "9"]
    words = lines[4].split()
    assert words[1:5] == ["6.000000", "10.0.0.1:50000", "->", "10.0.0.2:7447"]
    assert "FRAME/PUSH/PUT" in words
    assert "a/bc" in words
    assert '7 B "payload"' in lines[4]
    # The FRAME in front has a line of its own where something is wrong with it.
    assert "gap: 1 sequence numbers missing" in " ".join(lines)


def test_handshake_is_named_by_its_steps(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = read(capsys, capture)
    names = [name for line in shown for name in line.split() if name.startswith(("INIT", "OPEN"))]
    assert names == ["INIT_SYN", "INIT_ACK", "OPEN_SYN", "OPEN_ACK"]


@pytest.mark.parametrize(
    ("options", "packets"),
    [
        (["-m", "init_syn", "-m", "OpenAck"], [3, 6]),
        (["--message", "put"], [7, 8, 9]),
        (["--message", "frame"], [7, 8, 9]),
        (["--key", "a/*"], [7, 8, 9]),
        (["--key", "b/*"], []),
        (["--after", "3", "--before", "5"], [4, 5]),
        (["--after", "1970-01-01T00:00:08", "-m", "put"], [8, 9]),
        (["--link", "7447", "--count", "2"], [3, 4]),
        (["--link", "10.0.0.1:50000", "--count", "1"], [3]),
        (["--link", "10.0.0.7"], []),
        (["--zid", "0605", "--count", "1"], []),
        (["--zid", "605", "--count", "1"], [3]),
        (["--remarks"], [9]),
    ],
    ids=str,
)
def test_filters_pick_messages(
    options: list[str], packets: list[int], capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [int(line.split()[0]) for line in read(capsys, capture, *options)] == packets


@pytest.mark.parametrize(
    "options",
    [
        ["--message", "nonsense"],
        ["--key", "a//b"],
        ["--zid", "xyz"],
        ["--link", "nowhere"],
        ["--link", ""],
        ["--link", "10.0.0.1:99999"],
        ["--after", "soon"],
        ["--after", "nan"],
    ],
    ids=" ".join,
)
def test_filter_that_makes_no_sense_is_told_in_one_line(
    options: list[str], capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["read", str(capture), *options]) == 2
    out, told = capsys.readouterr()
    assert out == ""
    assert told.startswith("zenoh-dissect: ")
    assert told.count("\n") == 1


def test_key_filter_finds_the_final_of_a_query(capsys: pytest.CaptureFixture[str]) -> None:
    shown = read(capsys, PCAPS / "query.pcapng", "--key", "fence", "-m", "response_final")
    assert len(shown) == 1
    assert "RESPONSE_FINAL" in shown[0]


def test_zids_take_the_place_of_addresses(capsys: pytest.CaptureFixture[str]) -> None:
    shown = read(capsys, PCAPS / "put_delete.pcapng", "--zids", "-m", "put", "-n", "1")
    assert "b1b1b1b1 -> a1a1a1a1" in shown[0]
    assert "127.0.0.1" not in shown[0]


def test_tree_shows_every_field_and_what_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    shown = "\n".join(read(capsys, PCAPS / "query.pcapng", "-m", "response", "-n", "1", "--format", "tree"))
    for part in ("###[ RESPONSE ]###", "###[ PUT ]###", "zids ", "session ", "query ", "started by packet"):
        assert part in shown


def test_objects_tell_sessions_before_their_messages(
    capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = objects(capsys, capture)
    last = [one for one in told if one["type"] == "session"][-1]
    assert (last["fsn"], last["batch_size"], last["ends"][0]["lease"]) == (32, 65_535, 100)
    (first, *_) = [
        one for one in told if one["type"] == "message" and one["path"] == ["FRAME", "PUSH", "PUT"]
    ]
    assert first["keyexpr"] == "a/bc"
    assert (first["message"]["name"], first["message"]["body"]["name"]) == ("PUSH", "PUT")
    assert (first["sn"], first["lane"]) == (100, {"priority": 5, "priority_name": "data", "reliable": True})
    frames = [one for one in told if one.get("path") == ["FRAME"]]
    assert [one["message"]["messages"] for one in frames] == [1, 1, 1]
    assert frames[-1]["remarks"][0]["kind"] == "gap"


def test_object_holds_the_payload(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = objects(capsys, capture, "-m", "put", "-n", "1")
    assert told[-1]["message"]["body"]["data"] == b"payload".hex()


def test_objects_tie_answers_to_their_question(capsys: pytest.CaptureFixture[str]) -> None:
    told = objects(capsys, PCAPS / "query.pcapng", "-m", "response")
    message = next(one for one in told if one["type"] == "message")
    exchange = message["exchange"]
    assert (exchange["kind"], exchange["answers"]) == ("query", 1)
    assert exchange["asked"] < message["packet"]
    assert exchange["latency"] > 0


@pytest.mark.parametrize("path", sorted(PCAPS.glob("*.pcapng")), ids=lambda path: path.stem)
@pytest.mark.parametrize("form", ["text", "tree", "jsonl"])
def test_every_capture_can_be_read(form: str, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Fifty messages of each are enough to meet every kind.
    for line in read(capsys, path, "--format", form, "--count", "50"):
        assert line.isprintable()
        if form == "jsonl":
            json.loads(line)


@pytest.mark.parametrize("form", ["text", "tree"])
def test_hostile_text_never_reaches_the_terminal(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "hostile.pcap"
    frame = Frame(R=1, sn=100, messages=[Push(key_suffix=HOSTILE, body=Put(data=HOSTILE.encode()))])
    path.write_bytes(session(bytes(frame)))
    lines = read(capsys, path, "--format", form, "-m", "put")
    assert lines
    assert all(line.isprintable() for line in lines)
    assert form == "tree" or len(lines) == 1


def test_standard_input_and_gzip(
    capture: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read(capsys, capture)
    packed = gzip.compress(capture.read_bytes())
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(packed)))
    assert read(capsys, "-") == expected


def test_several_captures_are_shown_one_by_one(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = read(capsys, capture, capture, "-n", "1")
    assert [line for line in shown if line.startswith("==")] == [f"== {capture}"] * 2
    assert len(shown) == 4
    assert {one["file"] for one in objects(capsys, capture, capture, "-n", "1")} == {str(capture)}


def test_damaged_tail_is_told_behind_what_was_whole(
    capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capture.write_bytes(capture.read_bytes()[:-3])
    assert main(["read", str(capture)]) == 1
    out, told = capsys.readouterr()
    assert len(out.splitlines()) == 6
    assert told.startswith(f"zenoh-dissect: {capture}: the file ends inside a packet")
    assert told.count("\n") == 1


@pytest.mark.parametrize("what", ["missing", "folder", "empty", "text"])
def test_what_is_no_capture_is_told_in_one_line(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "it"
    if what == "folder":
        path.mkdir()
    elif what != "missing":
        path.write_text("" if what == "empty" else "no capture at all\n")
    assert main(["read", str(path)]) == 2
    out, told = capsys.readouterr()
    assert out == ""
    assert told.startswith(f"zenoh-dissect: {path}: ")
    assert told.count("\n") == 1


@pytest.mark.parametrize("command", ["read", "samples", "stats", "lint"])
def test_capture_of_a_link_that_is_not_read_is_told_and_no_success(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wireless.pcapng"
    path.write_bytes(pcapng([bytes(80), bytes(90)], link=105))
    assert main([command, str(path)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"zenoh-dissect: {path}: packets skipped: 2, of link type 105")
    assert told.count("\n") == 1


def test_link_that_is_not_read_beside_others_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "both.pcapng"
    dns = ethernet(ipv4(udp(b"query", dport=53), protocol=17))
    path.write_bytes(section() + interface() + interface(220) + enhanced(dns) + enhanced(bytes(64), number=1))
    assert main(["stats", str(path)]) == 0
    assert "packets skipped: 1, of link type 220" in capsys.readouterr().err


def test_bad_file_does_not_stop_the_next_one(
    capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(read(capsys, tmp_path / "missing", capture, status=2)) > 2


def test_foreign_traffic_is_listed_when_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dns.pcap"
    path.write_bytes(pcap([ethernet(ipv4(udp(b"query", dport=53), protocol=17))]))
    assert read(capsys, path) == []
    assert read(capsys, path, "--verbose") == [
        "not Zenoh: udp 10.0.0.1:50000 - 10.0.0.2:53, 1 packet with data"
    ]


def test_gap_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = session(put(100), put(101), put(102), put(103), put(104))
    path = tmp_path / "lossy.pcap"
    size = 16 + 54 + len(prefixed(put(100)))
    cut = whole[: -3 * size] + whole[-2 * size :]
    path.write_bytes(cut)
    shown = read(capsys, path)
    (gap,) = [line for line in shown if "GAP" in line]
    assert f"{len(prefixed(put(100)))} bytes lost" in gap
    assert [line for line in read(capsys, path, "--remarks") if "GAP" in line] == [gap]


def test_pipe_that_closes_makes_no_noise() -> None:
    shell = (
        f"{sys.executable} -m scapy_layers read {PCAPS / 'mixed.pcapng'} | head -1; exit ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", shell], capture_output=True, check=False, timeout=600)
    assert done.stderr == b""
    assert len(done.stdout.splitlines()) == 1
