"""The command: what it prints, its exit status, and that nothing makes it fall over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scapy_layers.__main__ import main
from scapy_layers.catalogue import MESSAGES

COMMAND = [sys.executable, "-m", "scapy_layers"]


def run(*arguments: str, given: bytes = b"", **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *arguments], input=given, capture_output=True, timeout=60, check=False, **options
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
    shown = capsys.readouterr().out
    assert "###[ DEL ]###" in shown
    assert "refused: FRAME.messages.PUSH.key_suffix at byte 4: not UTF-8" in shown
    assert "  25 00 3d 00 >01 ff 02 04" in shown
    assert "not looked at: 1 bytes from byte 7" in shown


def test_end_of_the_bytes_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hex", "25"]) == 1
    assert "  25 > the end" in capsys.readouterr().out


def test_scouting(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hex", "--scouting", "0109ff0102030405060708090a0b0c0d0e0f10"]) == 0
    assert "zid       = 100f0e0d0c0b0a090807060504030201" in capsys.readouterr().out
    assert main(["hex", "--scouting", "05"]) == 1


def test_stream(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hex", "--stream", "010004 02000302"]) == 0
    assert "batch 1, 2 bytes" in capsys.readouterr().out
    assert main(["hex", "--stream", "010004 0200"]) == 1
    assert "2 bytes are no complete batch: 02 00" in capsys.readouterr().out
    assert main(["hex", "--stream", "010008 010004"]) == 1


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


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["hex", "--stream", "--scouting", "04"]])
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


def test_help_does_not_load_scapy() -> None:
    code = "import sys; sys.argv = ['x', '--help']; import runpy\ntry: runpy.run_module('scapy_layers', run_name='__main__')\nexcept SystemExit: pass\nprint('scapy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "examples:" in done.stdout
    assert done.stdout.endswith("False\n")


def test_standard_input() -> None:
    done = run("hex", given=b"03\n02\n")
    assert (done.returncode, b"INVALID" in done.stdout, done.stderr) == (0, True, b"")
    done = run("hex", given=b"\xff\xfe\x00")
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


def test_closed_pipe_and_full_disk_make_no_noise() -> None:
    shell = f"{sys.executable} -m scapy_layers messages put | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, check=False)
    assert done.stderr == b""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*COMMAND, "messages"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (2, b"zenoh-dissect: No space left on device\n")


def test_terminal_that_cannot_show_a_letter() -> None:
    done = run("hex", "3d0002c3a9010100", env={"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin"})
    assert done.returncode == 0
    assert b"\\xe9" in done.stdout


def test_shell_has_all_layers() -> None:
    done = run("shell", given=b"print(decode(bytes(Close(reason=2))).describe())\nquit()\n")
    assert b"CLOSE reason=2 (INVALID)" in done.stdout + done.stderr
