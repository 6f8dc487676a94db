"""The command ``live``: troubles in one line; what it shows is what ``read`` shows."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
import scapy.interfaces
import scapy.sendrecv
from scapy.config import conf
from scapy.layers.inet import TCP
from scapy.utils import rdpcap, wrpcap

from scapy_layers.__main__ import main

CAPTURE = str(Path(__file__).parents[2] / "pcaps" / "query.pcapng")
CLIENT = 54776
"""Port of one of the links in it."""


def told(capsys: pytest.CaptureFixture[str]) -> str:
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


def test_interface_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["live", "-i", "no-such-interface"]) == 2
    assert told(capsys).startswith("zenoh-dissect: cannot capture on no-such-interface: ")


def test_any_stands_for_all_interfaces_that_are_up(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    up = [SimpleNamespace(network_name=name) for name in ("lo", "eth7")]
    asked = []
    monkeypatch.setattr(scapy.interfaces, "get_working_ifaces", lambda: up)
    monkeypatch.setattr(scapy.sendrecv, "sniff", lambda **options: asked.append(options["iface"]))
    assert main(["live", "-i", "any"]) == 0
    assert asked == [["lo", "eth7"]]
    assert capsys.readouterr() == ("", "")


def test_missing_rights_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**_options: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(scapy.sendrecv, "sniff", refused)
    assert main(["live", "-i", "lo"]) == 2
    assert "no permission to capture on lo: run as root" in told(capsys)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--port", "0"], "'0' is not a port"),
        (["--port", "x"], "'x' is not a port"),
        (["--duration", "-1"], "'-1' is not a number of seconds"),
        (["--duration", "x"], "'x' is not a number of seconds"),
        (["--count", "0"], "at least 1"),
        (["--interface", ""], "is empty"),
    ],
)
def test_wrong_numbers_end_with_2(options: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["live", "-i", "lo", *options])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_messages_are_shown_as_read_shows_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sniff = scapy.sendrecv.sniff

    def replay(**options: Any) -> Any:
        wanted = {name: options[name] for name in ("session", "prn", "stop_filter", "store")}
        return sniff(offline=CAPTURE, quiet=True, **wanted)

    for options in (["--format", "jsonl"], ["--format", "jsonl", "--count", "30"], ["--message", "frame"]):
        assert main(["read", CAPTURE, *options]) == 0
        expected = _without_times(capsys.readouterr().out)
        with monkeypatch.context() as patch:
            patch.setattr(scapy.sendrecv, "sniff", replay)
            assert main(["live", "-i", "lo", *options]) == 0
        assert _without_times(capsys.readouterr().out) == expected
        assert "FRAME" in str(expected)
    assert main(["read", CAPTURE, "--key", "answers/**", "--count", "5"]) == 0
    expected = [line.split()[2:] for line in capsys.readouterr().out.splitlines()]
    monkeypatch.setattr(scapy.sendrecv, "sniff", replay)
    assert main(["live", "-i", "lo", "--key", "answers/**", "--count", "5"]) == 0
    assert [line.split()[2:] for line in capsys.readouterr().out.splitlines()] == expected


REPLAY = """
import sys, scapy.sendrecv
from scapy_layers.__main__ import main
sniff, (_, capture, *arguments) = scapy.sendrecv.sniff, sys.argv
def replay(session, prn, stop_filter, store, **_):
    return sniff(offline=capture, quiet=True, session=session, prn=prn, stop_filter=stop_filter, store=store)
scapy.sendrecv.sniff = replay
sys.exit(main(["live", "-i", "lo", *arguments]))
"""


def test_what_cannot_be_shown_is_told_as_such() -> None:
    command = [sys.executable, "-c", REPLAY, CAPTURE, "--format", "jsonl"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (2, b"zenoh-dissect: No space left on device\n")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def _without_times(out: str) -> list[object]:
    """Lines or objects, without what depends on the first packet, which Scapy does not tell to the nanosecond."""
    if not out.startswith("{"):
        return [line.split()[2:] for line in out.splitlines()]
    objects = [json.loads(line) for line in out.splitlines()]
    return [
        {name: value for name, value in one.items() if name not in {"time", "relative", "exchange"}}
        for one in objects
    ]


@pytest.mark.parametrize("ends", [True, False])
def test_what_was_lost_and_what_waited_for_it_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ends: bool
) -> None:
    holed = str(tmp_path / "holed.pcap")
    # Nobody says that what is lost has come; and an interface does not say that nothing more comes.
    said = [packet for packet in rdpcap(CAPTURE) if packet[TCP].sport == CLIENT]
    del said[9]
    wrpcap(holed, said)
    sniff = scapy.sendrecv.sniff

    def replay(session: Any, prn: Any, **options: Any) -> Any:
        if ends:
            return sniff(offline=holed, quiet=True, session=session, prn=prn, store=options["store"])
        for packet in rdpcap(holed):
            for message in session.messages(packet):
                prn(message)
        return None

    assert main(["read", holed]) == 0
    expected = [line.split()[2:] for line in capsys.readouterr().out.splitlines()]
    assert any("not in the capture" in " ".join(line) for line in expected)
    monkeypatch.setattr(scapy.sendrecv, "sniff", replay)
    assert main(["live", "-i", "lo"]) == 0
    assert [line.split()[2:] for line in capsys.readouterr().out.splitlines()] == expected


class Socket:
    """What Scapy listens with, and the socket in it: of the packets behind its opening it loses seven."""

    def __init__(self) -> None:
        self.ins = self
        self.room: list[int] = []
        self.losses = [3, 7]

    def setsockopt(self, _level: int, _name: int, size: int) -> None:
        self.room.append(size)

    def getsockopt(self, _level: int, _name: int, _size: int) -> bytes:
        return struct.pack("II", 100, self.losses.pop(0))

    def dup(self) -> Socket:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what was lost")
def test_packets_for_which_there_was_no_room_are_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listening, asked = {"lo": Socket(), "eth7": Socket()}, []

    def opened(**options: Any) -> Socket:
        asked.append((options, conf.bufsize))
        return listening[options["iface"]]

    def sniff(L2socket: Any, iface: list[str], **_: Any) -> None:  # noqa: N803  (as Scapy calls it)
        assert [L2socket(iface=name) for name in iface] == list(listening.values())

    monkeypatch.setattr(scapy.interfaces, "resolve_iface", lambda _: SimpleNamespace(l2listen=lambda: opened))
    monkeypatch.setattr(scapy.sendrecv, "sniff", sniff)
    up = [SimpleNamespace(network_name=name) for name in listening]
    monkeypatch.setattr(scapy.interfaces, "get_working_ifaces", lambda: up)
    usual = conf.bufsize
    assert main(["live", "-i", "any"]) == 0
    assert told(capsys).startswith(
        "zenoh-dissect: 14 packets arrived faster than they are shown, and were lost"
    )
    assert asked == [({"iface": name}, 64 << 20) for name in listening]
    assert conf.bufsize == usual
    assert [one.room for one in listening.values()] == [[64 << 20]] * 2
