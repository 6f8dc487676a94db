"""``zenoh-dissect samples``."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scapy_layers.__main__ import main
from scapy_layers.commands.samples import EVENTS
from scapy_layers.samples import EventKind
from tests.scapy_layers.commands.said import A, B, Said, final, put, query, reply

ROOT = Path(__file__).parents[3]
PCAPS = ROOT / "pcaps"
FORMATS = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_each_event_is_a_line_with_all_its_fields(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = Said().say(put("a/b", b"hi", 4, b"utf8")).write(tmp_path / "x.pcap")
    assert main(["samples", capture]) == 0
    assert lines(capsys) == [
        {
            "event": "put",
            "packet": 7,
            "packets": [],
            "time": 7_000_500_000,
            "link": "10.0.0.1:50000 -> 10.0.0.2:7447",
            "source_zid": A,
            "target_zid": B,
            "keyexpr": "a/b",
            "priority": 5,
            "priority_name": "data",
            "congestion_control": "drop",
            "express": False,
            "reliable": True,
            "timestamp": None,
            "payload": "6869",
            "shared": [],
            "encoding": 4,
            "encoding_name": "text/plain;utf8",
            "schema": "utf8",
            "schema_hex": "75746638",
            "attachment": None,
            "ros2": None,
            "source_info": None,
            "remarks": [],
        }
    ]


def test_query_reply_and_end_belong_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = Said().say(query(7, "a/*", "x=1")).say(reply(7, "a/b"), back=True).say(final(7), back=True)
    assert main(["samples", said.write(tmp_path / "x.pcap")]) == 0
    asked, replied, ended = lines(capsys)
    assert (asked["event"], asked["request_id"], asked["parameters"]) == ("query", 7, "x=1")
    assert (asked["consolidation"], asked["target"], asked["timeout"]) == ("auto", "best_matching", None)
    assert (replied["kind"], replied["request_packet"], replied["latency"]) == ("put", 7, 10**9)
    assert (ended["event"], ended["latency"], ended["replies"]) == ("final", 2 * 10**9, 1)
    assert (replied["keyexpr"], ended["keyexpr"]) == ("a/b", "a/*")


def test_filters_pick_by_event_and_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = Said().say(put("a/b"), put("c")).say(query(1, "a/b"))
    capture = said.write(tmp_path / "x.pcap")
    assert main(["samples", capture, "--key", "a/*"]) == 0
    assert [event["event"] for event in lines(capsys)] == ["put", "query"]
    assert main(["samples", capture, "-e", "put", "-e", "delete"]) == 0
    assert [event["keyexpr"] for event in lines(capsys)] == ["a/b", "c"]


def test_lines_of_several_captures_name_theirs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [Said().say(put("a")).write(tmp_path / name) for name in ("x.pcap", "y.pcap")]
    assert main(["samples", *names]) == 0
    assert [(event["file"], event["packet"]) for event in lines(capsys)] == [(name, 7) for name in names]


def test_whole_packets_of_a_damaged_capture_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.pcap"
    Said().say(put("a")).say(put("b")).write(path)
    path.write_bytes(path.read_bytes()[:-3])
    assert main(["samples", str(path)]) == 1
    out, told = capsys.readouterr()
    assert [json.loads(line)["keyexpr"] for line in out.splitlines()] == ["a"]
    assert told.count("\n") == 1
    assert "at packet 8" in told


@pytest.mark.parametrize(
    "given", [["/nowhere/x.pcap"], [str(ROOT / "README.md")], ["-", "-"], ["x", "--key", "a//b"]]
)
def test_wrong_use_is_told_in_one_line(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["samples", *given]) == 2
    out, told = capsys.readouterr()
    assert out == ""
    assert told.startswith("zenoh-dissect: ")
    assert told.count("\n") == 1


def test_standard_input_and_a_pipe_that_closes() -> None:
    command = [sys.executable, "-m", "scapy_layers", "samples"]
    raw = (PCAPS / "query.pcapng").read_bytes()
    done = subprocess.run([*command, "-"], input=raw, capture_output=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout.splitlines()) > 100
    shell = f"{sys.executable} -m scapy_layers samples pcaps/*.pcapng | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (141, b"")
    assert done.stdout.count(b"\n") == 1


def test_terminal_without_letters_gets_json_all_the_same(
    tmp_path: Path,
) -> None:
    capture = Said().say(put("größe")).write(tmp_path / "x.pcap")
    done = subprocess.run(
        [sys.executable, "-m", "scapy_layers", "samples", capture],
        capture_output=True,
        cwd=ROOT,
        env={"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin"},
        check=False,
    )
    assert json.loads(done.stdout)["keyexpr"] == "größe"


def test_choices_of_the_command_are_the_events() -> None:
    assert set(EVENTS) == {kind.value for kind in EventKind}


def test_every_field_of_every_capture_is_in_the_description(capsys: pytest.CaptureFixture[str]) -> None:
    documented = set(re.findall(r"`(\w+)`", FORMATS[FORMATS.index("## `samples`") :]))
    captures = [str(path) for path in sorted(PCAPS.glob("*.pcapng"))]
    assert main(["samples", *captures]) == 0
    fields: dict[str, list[str]] = {}
    for event in lines(capsys):
        assert fields.setdefault(event["event"], list(event)) == list(event)
    # Real nodes take no alias back before their session ends.
    assert set(fields) == {kind.value for kind in EventKind} - {"undeclare_keyexpr"}
    assert {name for names in fields.values() for name in names} <= documented
