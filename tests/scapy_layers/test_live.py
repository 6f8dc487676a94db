"""The command ``live``: troubles in one line; what it shows is what ``read`` shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import scapy.sendrecv

from scapy_layers.__main__ import main

CAPTURE = str(Path(__file__).parents[2] / "pcaps" / "query.pcapng")


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
