"""``zenoh-dissect follow``."""

from __future__ import annotations

from pathlib import Path

import pytest

from scapy_layers.__main__ import main
from scapy_layers.commands.follow import duration, moment, shown
from tests.scapy_layers.commands.said import Said, error, final, put, query, reply

WIDE = 160


def follow(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["follow", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_lines_say_who_sent_what_to_whom(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = Said().say(put("a/b", "größe".encode(), 4)).say(query(1, "a/*", "x=1"))
    said.say(reply(1, "a/b", b"\0\1"), back=True).say(error(1), back=True).say(final(1), back=True)
    capture = said.write(tmp_path / "x.pcap")
    assert follow(capsys, "a/**", capture) == [
        '      7 1970-01-01 00:00:07.000500 1a1      > 2b2      put       a/b text/plain "größe"',
        "      8 1970-01-01 00:00:08.000500 1a1      > 2b2      query     a/* ?x=1 request 1",
        "      9 1970-01-01 00:00:09.000500 2b2      > 1a1      reply     a/b to request 1 after 1 s zenoh/bytes 0x0001",
        '     10 1970-01-01 00:00:10.000500 2b2      > 1a1      reply_err a/* to request 1 after 2 s zenoh/bytes "no"',
    ]
    assert follow(capsys, "a/*", capture, "--all")[-1].endswith("final     a/* to request 1 after 3 s")


def test_key_expression_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = Said().say(put("a/b/c"), put("a/c"), put("d")).write(tmp_path / "x.pcap")
    assert len(follow(capsys, "a/**", capture)) == 2
    assert len(follow(capsys, "**/c", capture)) == 2
    assert len(follow(capsys, "d", capture)) == 1
    assert follow(capsys, "e", capture) == []


def test_what_a_capture_says_cannot_command_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = Said().say(put("a\x1b[2J\n", b"\x1b[0m\n", 4)).write(tmp_path / "x.pcap")
    (line,) = follow(capsys, "**", capture)
    assert "\x1b" not in line
    assert "a\\x1b[2J\\n" in line


def test_wrong_key_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["follow", "a//b", "x"])
    assert ended.value.code == 2
    assert "an empty chunk in 'a//b'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("payload", "encoding", "text"),
    [
        (b"plain", "text/plain;utf8", '"plain"'),
        (b"", "text/plain", '""'),
        (b"\xff\xfe", "text/plain", "0xfffe"),
        (b'{"a":\n [1,2]}', "application/json", '{"a": [1, 2]}'),
        (b"no json", "application/json", '"no json"'),
        (b"[" * 50_000, "application/json", '"' + "[" * 159 + "... (50002 characters)"),
        (b"a\nb", "zenoh/bytes", '"a\\nb"'),
        (b"a\0b", "zenoh/bytes", "0x610062"),
        (b"abc", "application/cbor", "0x616263"),
        (b"<a/>", "application/x-own;v=2", '"<a/>"'),
        (b"", "zenoh/bytes", "(empty)"),
        (b"\0" * 100, "image/png", "0x" + "00" * 80 + "... (100 bytes)"),
    ],
    ids=range(12),
)
def test_payload_is_shown_as_its_encoding_says(payload: bytes, encoding: str, text: str) -> None:
    assert shown(payload, encoding, WIDE) == text


def test_payload_is_shown_whole_if_wanted() -> None:
    assert shown(b"\0" * 100, "", 0) == "0x" + "00" * 100
    assert shown(b"x" * 300, "text/plain", 0) == '"' + "x" * 300 + '"'


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1500, "1.5 us"),
        (2_000_000, "2 ms"),
        (10**9, "1 s"),
        (5 * 10**12, "5,000 s"),
    ],
)
def test_durations_have_the_unit_that_suits_them(ns: int, text: str) -> None:
    assert duration(ns) == text


def test_times_beyond_the_calendar_are_seconds() -> None:
    assert moment(2**63 * 10**9 + 1_000) == f"{2**63}.000001"
