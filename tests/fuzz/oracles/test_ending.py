"""How a process ends that is asked to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.config import RunConfig
from conformance.nodes import node_of
from fuzz import campaigns
from fuzz.__main__ import main
from fuzz.campaigns import Campaign, Setting
from fuzz.campaigns.messages import main_forms
from fuzz.campaigns.placing import Stated
from fuzz.cases import Source
from fuzz.lab import Lab, Tried
from fuzz.oracles import Harm, Objection, Patient
from fuzz.regression import fails_on
from fuzz.script import Script
from fuzz.stages import stage_for
from fuzz.states import State
from fuzz.triage.signature import same
from spark_reports.rows import FINDINGS, FUZZ_CASES
from tests.benchmarks._fuzz import rows
from tests.fuzz.planted import FAULTS, command

LEAK = """==7==ERROR: LeakSanitizer: detected memory leaks

Direct leak of 12 byte(s) in 3 object(s) allocated from:
    #0 0x7f931ec7077b in __interceptor_strdup ../../../../src/libsanitizer/asan/asan_interceptors.cpp:439
    #1 0x556e730337f3 in keep /srv/node/tables.c:423

SUMMARY: AddressSanitizer: 12 byte(s) leaked in 3 allocation(s).
"""


def ended(folder: Path, *faults: str) -> Tried:
    """Plays what sets a fault off, and asks the node to end."""
    config = RunConfig(node=command(*faults), run_dir=folder, run_id="planted", seed=1)
    script = FAULTS[faults[0]].trigger if faults else Script(())
    with Lab(config, node_of(config), seats=1) as lab, lab.waiting_for(Harm.UNCLEAN, ""):
        return lab.play(script)


def test_node_that_dies_of_something_else_when_it_is_asked_to_end_is_told(tmp_path: Path) -> None:
    tried = ended(tmp_path, "farewell")
    seen = tried.objection
    assert seen is not None
    assert (seen.oracle, seen.harm, seen.place) == ("ending", Harm.UNCLEAN, "SIGABRT")
    assert fails_on(command("farewell"), str(Harm.UNCLEAN), tried) is True
    assert fails_on(command(), str(Harm.UNCLEAN), tried) is False


def test_node_that_is_well_ends_as_it_is_asked_to(tmp_path: Path) -> None:
    assert ended(tmp_path).objection is None


def test_node_that_was_asked_to_end_is_started_anew_for_the_next_try(tmp_path: Path) -> None:
    config = RunConfig(node=command("farewell"), run_dir=tmp_path, run_id="planted", seed=1)
    with Lab(config, node_of(config), seats=1) as lab, lab.waiting_for(Harm.UNCLEAN, ""):
        assert lab.play(Script(())).objection is None
        assert lab.play(FAULTS["farewell"].trigger, fresh=False).objection is not None


@pytest.mark.parametrize(
    ("trap", "place"),
    [
        ("", None),
        ("exit 0", None),
        ("exit 1", None),
        ("exit 143", None),
        ("exit 139", "SIGSEGV"),
        ("cat leak >&2; exit 1", "tables.c:423"),
    ],
)
def test_how_a_process_ends(tmp_path: Path, trap: str, place: str | None) -> None:
    (tmp_path / "leak").write_text(LEAK)
    node = command().removeprefix("cmd:").replace("{locator}", "$1")
    lines = [f"cd {tmp_path}", f"{node} &", f"trap '{trap}' TERM" if trap else "", "wait"]
    script = tmp_path / "node.sh"
    script.write_text("\n".join(lines))
    config = RunConfig(node=f"cmd:sh {script} {{locator}}", run_dir=tmp_path, run_id="planted", seed=1)
    stage = stage_for("", node_of(config), config)
    stage.start()
    try:
        objection = Patient(stage, config.reply).ending()
    finally:
        stage.stop()
    assert (objection.place if objection else None) == place


def test_fault_in_a_file_comes_again_where_it_is_seen_in_the_same_place() -> None:
    first, other = (
        Objection("ending", Harm.UNCLEAN, f"tables.c:{line}", "asked to end") for line in (423, 1)
    )
    assert same(first, first)
    assert not same(first, other)


def test_campaign_asks_the_node_to_end_and_lays_what_it_sees_on_a_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.runner.RECENT", 40)

    def make(_: Setting) -> Iterator[Source]:
        for words, message in main_forms("U_QUERYABLE").items():
            yield Stated(f"U_QUERYABLE {words}", State.OPEN, message)

    monkeypatch.setitem(campaigns.CAMPAIGNS, "planted", Campaign("planted", "for tests", make))
    words = ["--node", command("farewell"), "--cases", "40", "--seed", "1", "--minimise", "0"]
    assert main(["run", "planted", *words, "--run-dir", str(tmp_path / "run")]) == 1
    last = {row["bucket"]: row for row in rows(tmp_path / "run" / FINDINGS)}
    # What turned out to be the same as another one was never hit.
    (row,) = (row for row in last.values() if row["hits"])
    assert (row["harm"], row["status"], row["message"]) == ("unclean", "confirmed", "U_QUERYABLE")
    assert main(["replay", str(tmp_path / "run" / row["folder"])]) == 1


def test_real_node_is_not_held_up_by_links_on_which_no_session_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fuzz.oracles.ending.SECONDS", 5.0)
    words = ["--node", "pypi", "--cases", "60", "--seed", "1", "--run-dir", str(tmp_path / "run")]
    assert main(["run", "valid", *words]) == 0
    shown = capsys.readouterr().out
    assert "accepted" in (tmp_path / "run" / FUZZ_CASES).read_text()
    assert "does not end" not in shown
