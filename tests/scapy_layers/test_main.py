"""The command: what it prints, its exit status, and that nothing makes it fall over."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scapy_layers.__main__ import _parser, main
from scapy_layers.catalogue import MESSAGES

COMMAND = [sys.executable, "-m", "scapy_layers"]


def run(*arguments: str, given: bytes = b"", **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *arguments], input=given, capture_output=True, timeout=600, check=False, **options
    )


def test_accepted_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hex", "25", "0x00", "3d:00:01,61", "01026869", "04"]) == 0
    shown = capsys.readouterr().out
    assert [name for name in ("FRAME", "PUSH", "PUT", "KEEP_ALIVE") if f"###[ {name} ]###" in shown] == [
        "FRAME",
        "PUSH",
        "PUT",
        "KEEP_ALIVE",
    ]
    assert "data      = b'hi'" in shown
    assert "refused" not in shown


def test_refused_bytes_are_shown_as_far_as_possible(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hex", "25003d0001ff0204"]) == 1
    *shown, last = capsys.readouterr().out.splitlines()
    assert any("###[ DEL ]###" in line for line in shown)
    assert last.startswith("refused: FRAME.messages.PUSH.key_suffix at byte 4: not UTF-8")
    assert last.endswith("[25 00 3d 00 >01 ff 02 04]")


def test_end_of_the_bytes_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hex", "25"]) == 1
    assert capsys.readouterr().out.endswith("[25 > the end]\n")


@pytest.mark.parametrize(
    ("form", "digits", "names"),
    [
        ("stream", "010004 0b002500 3d00016101026869", None),
        ("stream", "010004 0a002500 3d00016101026869", ["KEEP_ALIVE", "FRAME"]),
        ("lowlatency", "08000000 3d00016101026869 01000000 04", ["PUSH", "KEEP_ALIVE"]),
        ("lowlatency", "02000000 2500", None),
        ("batch", "2500 3d00016102 04", ["FRAME", "KEEP_ALIVE"]),
        ("batch", "3d00016102", None),
        ("transport", "0302", ["CLOSE"]),
        ("transport", "030204", None),
        ("network", "1a05", ["RESPONSE_FINAL"]),
        ("network", "04", None),
        ("scouting", "0109ff0102030405060708090a0b0c0d0e0f10", ["SCOUT"]),
        # Nodes pass over what is behind the first message of such a datagram.
        ("scouting", "010907 010907", ["SCOUT"]),
        ("scouting", "05", None),
    ],
)
def test_form_says_what_the_bytes_are(
    form: str, digits: str, names: list[str] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hex", "--as", form, "--format", "json", digits]) == (names is None)
    told = json.loads(capsys.readouterr().out)
    if names is None:
        assert told.keys() == {"ok", "error", "offset", "field"}
        assert told["ok"] is False
    else:
        assert (told["ok"], [message["name"] for message in told["messages"]]) == (True, names)
    assert main(["hex", "--as", form, digits]) == (names is None)


def test_offset_counts_from_the_first_byte_of_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hex", "--as", "stream", "-f", "json", "010004 0200 25ff"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["offset"], told["field"]) == (6, "FRAME.sn")


def test_lines_are_answered_one_by_one() -> None:
    given = b"network 1a05\nscouting 010907\nbatch 25003d0001ff0204\nfoo 00\n\ntransport\nnetwork zz\n"
    done = run("hex", "-", given=given)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["ok"] for answer in answers] == [True, True, False, False, False, False]
    assert answers[0]["messages"] == [{"name": "RESPONSE_FINAL", "Z": 0, "request_id": 5}]
    assert (answers[2]["offset"], answers[2]["field"]) == (4, "FRAME.messages.PUSH.key_suffix")
    assert "not one of stream" in answers[3]["error"]
    assert (done.returncode, done.stderr) == (1, b"")
    assert run("hex", "-", given=b"network 1a05").returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [["hex", "4"], ["hex", "zz"], ["hex", " "], ["messages", "nonsense"], ["hex", "é"]],
    ids=["odd", "no digits", "nothing", "name", "letter"],
)
def test_wrong_use_is_told_in_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    out, told = capsys.readouterr()
    assert out == ""
    assert told.startswith("zenoh-dissect: ")
    assert told.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["hex", "--as", "nonsense", "04"]])
def test_wrong_arguments_end_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


def test_list_of_messages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["messages"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(MESSAGES)


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_drawing_names_every_field_that_has_room(cls: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["messages", cls.shape().name.lower()]) == 0
    shown = capsys.readouterr().out
    for field in cls.fields_desc:
        if not field.name.startswith("reserved") and field.name != "mid":
            assert field.name[:3] in shown
    assert f"id = {cls.id:#04x}" in shown


INIT = """\
  7   6   5   4   3   2   1   0
+---+---+---+---+---+---+---+---+
| Z | S | A |     id = 0x01     |
+---+---+---+---+---+---+---+---+
|            version            |
+---+---+---+---+---+---+---+---+
|    zid_len    |   -   |whatami|
+---+---+---+---+---+---+---+---+
~              zid              ~ zid_len + 1 bytes
+---+---+---+---+---+---+---+---+
|       -       |  rid  |  fsn  | if S = 1
+---+---+---+---+---+---+---+---+
|        batch_size 7:0         | if S = 1
|        batch_size 15:8        | if S = 1
+---+---+---+---+---+---+---+---+
~            cookie             ~ <u8;z16> if A = 1
+---+---+---+---+---+---+---+---+
~          extensions           ~ if Z = 1
+---+---+---+---+---+---+---+---+

extension 0x01 QoS (UNIT)
"""


def test_drawing_looks_like_the_specification(capsys: pytest.CaptureFixture[str]) -> None:
    main(["messages", "Init"])
    assert INIT in capsys.readouterr().out


@pytest.mark.parametrize("name", ["INIT_SYN", "open_ack"])
def test_names_that_filters_take_are_those_of_a_drawing(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["messages", name]) == 0
    drawn = capsys.readouterr().out
    assert main(["messages", name[:4]]) == 0
    assert drawn == capsys.readouterr().out
    assert main(["messages", "put_syn"]) == 2


def test_help_does_not_load_scapy() -> None:
    code = "import sys; sys.argv = ['x', '--help']; import runpy\ntry: runpy.run_module('scapy_layers', run_name='__main__')\nexcept SystemExit: pass\nprint('scapy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "read" in done.stdout
    assert done.stdout.endswith("False\n")


def test_standard_input() -> None:
    done = run("hex", given=b"03\n02\n")
    assert (done.returncode, b"INVALID" in done.stdout, done.stderr) == (0, True, b"")
    done = run("hex", given=b"\xff\xfe\x00")
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


def test_capture_without_a_name_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["read", ""]) == 2
    assert capsys.readouterr().err == "zenoh-dissect: the name of a CAPTURE is empty\n"


def test_closed_pipe_and_full_disk_make_no_noise() -> None:
    shell = f"{sys.executable} -m scapy_layers messages put | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, check=False)
    assert done.stderr == b""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*COMMAND, "messages"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (2, b"zenoh-dissect: No space left on device\n")


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["read", "--help"]], ids=" ".join)
def test_help_and_version_that_do_not_arrive_make_no_noise(words: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, *words], stdout=full, stderr=subprocess.PIPE, check=False, env=environment
        )
    assert (done.returncode, done.stderr) == (2, b"zenoh-dissect: No space left on device\n")


def test_terminal_that_cannot_show_a_letter() -> None:
    done = run(
        "hex", "--as", "network", "3d0002c3a9010100", env={"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin"}
    )
    assert done.returncode == 0
    assert b"\\xe9" in done.stdout


def test_shell_has_all_layers() -> None:
    done = run("shell", given=b"print(decode(bytes(Close(reason=2))).describe())\nquit()\n")
    assert b"CLOSE reason=2 (INVALID)" in done.stdout + done.stderr


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """Returns all options, short and long, of a parser and those below it."""
    found = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= set().union(*map(options_of, action.choices.values()))
    return found


def test_page_of_the_options_has_all_of_them_and_no_others() -> None:
    page = (Path(__file__).parents[2] / "docs" / "dissect.md").read_text()
    written = set(re.findall(r"(?<=`)--?[a-z][a-z-]*|(?<=dissect )--[a-z]+", page))
    assert written == options_of(_parser())
