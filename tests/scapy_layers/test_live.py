"""The command ``live``: troubles in one line; what it shows is what ``read`` shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import scapy.sendrecv
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


def test_missing_rights_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**_options: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(scapy.sendrecv, "sniff", refused)
    assert main(["live", "-i", "lo"]) == 2
    assert "no permission to capture on lo: run it as root" in told(capsys)


@pytest.mark.parametrize(
    "options", [["--port", "0"], ["--port", "x"], ["--duration", "-1"], ["--count", "0"]]
)
def test_wrong_numbers_end_with_2(options: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["live", "-i", "lo", *options])
    assert ended.value.code == 2


def test_messages_are_shown_as_read_shows_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sniff = scapy.sendrecv.sniff

    def replay(**options: Any) -> Any:
        wanted = {name: options[name] for name in ("session", "prn", "stop_filter", "store")}
        return sniff(offline=CAPTURE, quiet=True, **wanted)

    assert main(["read", CAPTURE, "--key", "answers/**", "--count", "5"]) == 0
    expected = [line.split()[2:] for line in capsys.readouterr().out.splitlines()]
    monkeypatch.setattr(scapy.sendrecv, "sniff", replay)
    assert main(["live", "-i", "lo", "--key", "answers/**", "--count", "5"]) == 0
    assert [line.split()[2:] for line in capsys.readouterr().out.splitlines()] == expected


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
