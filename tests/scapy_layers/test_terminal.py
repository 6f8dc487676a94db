"""Colours only where they are wanted, a progress bar only on a terminal, nothing hostile anywhere."""

from __future__ import annotations

import argparse
import io
import subprocess
import sys

import pytest

from scapy_layers.commands.terminal import Colour, Piece, Screen, add_output, printable

MEGABYTE = 1 << 20


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def screen(*options: str) -> Screen:
    parser = argparse.ArgumentParser()
    add_output(parser)
    return Screen(parser.parse_args(options))


def terminal(monkeypatch: pytest.MonkeyPatch, name: str) -> Terminal:
    """Puts a terminal in the place of a stream. Called in the test: between set-up and test pytest has its own."""
    made = Terminal()
    monkeypatch.setattr(sys, name, made)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return made


def test_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    out = terminal(monkeypatch, "stdout")
    screen().line("plain ", Piece("wrong", Colour.WRONG))
    assert out.getvalue() == "plain \x1b[1;31mwrong\x1b[0m\n"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_environment_can_decline_colours(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = terminal(monkeypatch, "stdout")
    monkeypatch.setenv(name, value)
    screen().line(Piece("wrong", Colour.WRONG))
    assert out.getvalue() == "wrong\n"


def test_choice_of_the_user_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    out = terminal(monkeypatch, "stdout")
    screen("--color", "never").line(Piece("a", Colour.KEY))
    monkeypatch.setenv("NO_COLOR", "1")
    screen("--color", "always").line(Piece("b", Colour.KEY))
    assert out.getvalue() == "a\n\x1b[36mb\x1b[0m\n"


def test_pipe_gets_no_colours(capsys: pytest.CaptureFixture[str]) -> None:
    screen().line(Piece("wrong", Colour.WRONG))
    assert capsys.readouterr().out == "wrong\n"


@pytest.mark.parametrize(
    "text", ["\x1b[2J", "\r", "a\nb", "\u202eabc", "\x9b31m", "\u2066", "\x00", "\udcff", "\u200f"]
)
def test_hostile_text_is_escaped(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = terminal(monkeypatch, "stdout")
    screen("--color", "never").line(Piece(text))
    assert out.getvalue()[:-1].isprintable()
    assert out.getvalue().count("\n") == 1


def test_printable_text_stays() -> None:
    assert printable("Grüße/*\n") == "Grüße/*\n"


def test_progress_of_a_long_file_is_drawn_and_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    out = terminal(monkeypatch, "stdout")
    err = terminal(monkeypatch, "stderr")
    shown = screen()
    told = shown.progress("long.pcap", 100 * MEGABYTE)
    assert told is not None
    for done in range(0, 101, 50):
        told(done * MEGABYTE)
    assert "long.pcap: [###############...............]  50% of 105 MB" in err.getvalue()
    before = len(err.getvalue())
    told(100 * MEGABYTE)
    assert len(err.getvalue()) == before
    shown.line("a line")
    assert err.getvalue().endswith("\r\x1b[K")
    assert out.getvalue() == "a line\n"


def test_progress_of_unknown_size_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    err = terminal(monkeypatch, "stderr")
    told = screen().progress("standard input", None)
    assert told is not None
    told(9 * MEGABYTE)
    assert "standard input: 9 MB" in err.getvalue()


def test_progress_is_not_drawn_when_nobody_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    err = terminal(monkeypatch, "stderr")
    assert screen("--no-progress").progress("x", 100 * MEGABYTE) is None
    assert screen().progress("x", 1000) is None
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert screen().progress("x", 100 * MEGABYTE) is None
    assert err.getvalue() == ""


def test_name_of_a_file_cannot_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    err = terminal(monkeypatch, "stderr")
    told = screen().progress("\x1b[2J\nx", 100 * MEGABYTE)
    assert told is not None
    told(MEGABYTE)
    assert "\x1b[2J" not in err.getvalue()
    assert "\n" not in err.getvalue()


def test_complaint_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    err = terminal(monkeypatch, "stderr")
    screen().complain("bad\nname\x1b")
    assert err.getvalue() == "zenoh-dissect: bad\\nname\\x1b\n"


def test_process_ends_at_once_with_what_it_wrote_and_had_registered() -> None:
    code = """
import atexit, threading
from scapy_layers.commands.terminal import end_at_once
threading.Thread(target=threading.Event().wait).start()
atexit.register(print, "removed")
print("written")
end_at_once(3)
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=600
    )
    assert (ended.returncode, ended.stderr) == (3, "")
    assert ended.stdout.split() == ["written", "removed"]
