"""What is said against the nodes of a capture that was played."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agreement import plays

PCAPS = Path(__file__).parents[2] / "pcaps"


@pytest.mark.parametrize("name", ["connected_again", "dialed_back", "mesh"])
def test_nodes_that_do_nothing_wrong_are_not_accused(name: str) -> None:
    assert list(plays.accusations(PCAPS / f"{name}.pcapng")) == []


def test_nodes_are_accused_by_what_is_heard_and_by_the_linter() -> None:
    heard, lost, linted = plays.accusations(PCAPS / "unresponsive.pcapng")
    assert heard.startswith("packet 18: FRAGMENT: 1 sequence numbers missing")
    assert lost.startswith("packet 18: FRAGMENT: a message of 4 fragments is lost")
    assert linted.startswith("packet 18: ZN-FRM-010: ")


def test_what_wireshark_alone_says_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    path = PCAPS / "leases.pcapng"
    (silent,) = plays.accusations(path)
    assert silent.startswith("packet 55: ZN-KA-102: ")
    monkeypatch.setattr(plays, "findings", lambda _units: [])
    alone = [one for one in plays.accusations(path) if "Wireshark alone: " in one]
    assert any(one.startswith("packet 55: Wireshark alone: ZN-KA-102 ") for one in alone)
