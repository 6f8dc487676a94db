"""Short campaigns against nodes with faults that were planted: found in the right class, true, small, and gone past.

``tests/benchmarks/bench_fuzz_finds.py`` does the same with all campaigns, all faults, and more time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fuzz import campaigns
from fuzz.__main__ import main
from fuzz.campaigns import Campaign, Setting
from fuzz.campaigns.messages import main_forms
from fuzz.campaigns.placing import Stated
from fuzz.cases import Source
from fuzz.states import State
from spark_reports.rows import FINDINGS, FUZZ_CASES
from tests.benchmarks._fuzz import rows
from tests.fuzz.planted import FAULTS, command

REACHES: dict[str, tuple[tuple[State, str], ...]] = {
    "abort": ((State.OPEN, "D_SUBSCRIBER"),),
    "panic": ((State.OPEN, "PUT"),),
    "late": ((State.OPEN, "INTEREST"),),
    "delayed": ((State.OPEN, "U_SUBSCRIBER"),),
    "pair": ((State.OPEN, "PUT"), (State.OPEN, "QUERY")),
    "stall": ((State.OPEN, "QUERY"),),
    "refuse": ((State.CONNECTED, "INIT"),),
    "deadtables": ((State.OPEN, "U_KEYEXPR"),),
    "undue": ((State.OPEN, "D_QUERYABLE"),),
    "undecodable": ((State.OPEN, "INTEREST"),),
    "disturb": ((State.OPEN, "OAM (network)"),),
    "exit0": ((State.OPEN, "ERR"),),
}
"""Lies about these messages set a fault off."""


@dataclass
class Ran:
    """What a campaign did.

    Attributes:
        code: Exit code.
        findings: The last row of each bucket.
        folder: Of the run.
        cases: Rows of cases.
    """

    code: int
    folder: Path
    findings: dict[str, dict[str, Any]] = field(default_factory=dict)
    cases: list[dict[str, Any]] = field(default_factory=list)

    def of(self, fault: str) -> dict[str, Any]:
        """Returns the finding of a fault: the one in its class about a message that sets it off."""
        kinds = {kind for _, kind in REACHES[fault]}
        found = [
            row
            for row in self.findings.values()
            if row["harm"] in FAULTS[fault].harms and kinds & set(row["message"].split())
        ]
        assert found, f"{fault} was not found; there is {list(self.findings)}"
        return found[0]


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Runs a campaign that lies about what sets some faults off, against a node with these faults."""

    def run(*faults: str, cases: int, others: tuple[tuple[State, str], ...] = ()) -> Ran:
        wanted = dict.fromkeys([*(pair for fault in faults for pair in REACHES[fault]), *others])

        def make(_: Setting) -> Iterator[Source]:
            for state, kind in wanted:
                for words, message in main_forms(kind).items():
                    yield Stated(f"{kind} {words}", state, message)

        monkeypatch.setitem(campaigns.CAMPAIGNS, "planted", Campaign("planted", "for tests", make))
        folder = tmp_path / "run"
        words = ["run", "planted", "--node", command(*faults), "--cases", str(cases), "--seed", "1"]
        ran = Ran(main([*words, "--minimise", "4s", "--run-dir", str(folder)]), folder)
        for row in rows(folder / FINDINGS):
            ran.findings[row["bucket"]] = row
        ran.cases = list(rows(folder / FUZZ_CASES))
        return ran

    return run


def test_node_without_faults_gives_no_finding(campaign: Callable[..., Ran]) -> None:
    others = tuple(dict.fromkeys(pair for pairs in REACHES.values() for pair in pairs))
    ran = campaign(cases=500, others=others)
    assert (ran.code, ran.findings) == (0, {})
    assert len(ran.cases) == 500


@pytest.mark.parametrize(("faults", "cases"), [(("abort", "panic"), 500)])
def test_faults_are_found_confirmed_made_small_and_gone_past(
    campaign: Callable[..., Ran], faults: tuple[str, ...], cases: int
) -> None:
    ran = campaign(*faults, cases=cases)
    assert ran.code == 1
    for fault in faults:
        row = ran.of(fault)
        # Who did it cannot always be told in time on a machine that is busy; that it was seen is true all the same.
        assert row["status"] in {"confirmed", "seen"}
        if row["status"] == "confirmed":
            assert row["messages"] <= FAULTS[fault].trigger.sends + 2
        assert (
            json.loads((ran.folder / row["folder"] / "finding.json").read_text())["bucket"] == row["bucket"]
        )
    expected = {harm for fault in faults for harm in FAULTS[fault].harms}
    assert {row["harm"] for row in ran.findings.values()} <= expected
    assert ran.cases[-1]["node_instance"] > len(faults)
