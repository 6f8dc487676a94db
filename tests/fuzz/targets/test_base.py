from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

import scapy_layers
from conformance.config import RunConfig
from conformance.errors import HarnessError, UsageError
from fuzz import targets
from fuzz.__main__ import main as zenoh_fuzz
from fuzz.campaigns.base import Campaign, Setting
from fuzz.cases import Fixed, Source, send
from fuzz.findings import FLAKY
from fuzz.states import State
from fuzz.summary import Outcome, as_text
from fuzz.targets import Fault, Limit, Target, base, run_target
from fuzz.targets.base import FAMILY, Run, failed, smaller
from fuzz.targets.feed import Input, inputs
from spark_reports.rows import FINDINGS, FUZZ_CASES


class Touchy(Target):
    """Cannot stand two bytes behind each other."""

    name: ClassVar[str] = "touchy"
    purpose: ClassVar[str] = "a reader of a test"
    each: ClassVar[int] = 3

    def examine(self, some: Sequence[Input], seed: int) -> Iterable[Fault]:  # noqa: ARG002
        for index, one in enumerate(some):
            for unit in one.units:
                yield from (replace(fault, index=index) for fault in self.shown(unit.data, "batch"))

    def shown(self, data: bytes, form: str) -> Iterable[Fault]:
        if b"\xab\xcd" in data:
            yield Fault("panic touchy", "seen", 0, data, form)


class Absent(Touchy):
    def start(self) -> None:
        raise HarnessError("it is not there")


def cases(_: Setting) -> Iterator[Source]:
    variants = {f"{number}": [send("size", bytes([number]) * 9)] for number in range(1, 20)}
    variants["bad"] = [send("size", b"x" * 500 + b"\xab\xcd" + b"y" * 700)]
    variants["bad as well"] = [send("size", b"z" * 20 + b"\xab\xcd")]
    yield Fixed("it", State.OPEN, "IT", variants, "test")


CAMPAIGN = Campaign("test", "", cases)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunConfig:
    monkeypatch.setattr(targets, "TARGETS", {"touchy": Touchy, "absent": Absent})
    return RunConfig(node="ref", run_dir=tmp_path, run_id="run", seed=1)


def go(config: RunConfig, name: str = "touchy", limit: Limit | None = None) -> tuple[int, Outcome]:
    told: list[Outcome] = []
    code = run_target(name, config, limit or Limit(), 3, told.append, campaigns=[CAMPAIGN])
    return code, told[-1]


def test_folder_that_is_full_ends_a_run(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Touchy, "each", 1)
    one, other = config.run_dir / "one", config.run_dir / "other"
    one.mkdir()
    other.mkdir()
    _, whole = go(replace(config, run_dir=one))
    _, outcome = go(replace(config, run_dir=other), limit=Limit(max_disk=2000))
    assert outcome.stopped
    assert 0 < outcome.total < whole.total


class Slow(Touchy):
    """Takes a second to begin and a tenth of one for each input, on a clock of its own."""

    each: ClassVar[int] = 400
    now: ClassVar[float] = 0.0
    given: ClassVar[list[int]] = []

    def examine(self, some: Sequence[Input], seed: int) -> Iterable[Fault]:  # noqa: ARG002
        Slow.given.append(len(some))
        Slow.now += 1.0 + 0.1 * len(some)
        return ()


def test_reader_that_takes_long_keeps_to_the_time(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(targets.TARGETS, "slow", Slow)
    monkeypatch.setattr(Slow, "now", 0.0)
    monkeypatch.setattr(Slow, "given", [])
    clock = SimpleNamespace(
        monotonic=lambda: Slow.now, perf_counter=lambda: Slow.now, time=time.time, time_ns=time.time_ns
    )
    monkeypatch.setattr("fuzz.targets.base.time", clock)
    many = Campaign("test", "", lambda _: iter([Fixed("it", State.OPEN, "IT", MANY, "test")]))
    run_target("slow", config, Limit(seconds=20.0), 3, campaigns=[many])
    assert 19.0 < Slow.now < 21.5
    assert len(Slow.given) > 4
    assert max(Slow.given) > min(Slow.given[:-1])


MANY = {f"{number}": [send("size", b"x")] for number in range(1000)}


def test_finding_is_counted_shrunk_and_kept(config: RunConfig) -> None:
    code, outcome = go(config)

    assert code == 1
    (row,) = outcome.findings
    assert (row.bucket, row.harm, row.hits, row.status, row.size) == (
        "panic touchy",
        "panic",
        2,
        "confirmed",
        2,
    )
    folder = config.run_dir / row.folder
    assert (folder / "input.bin").read_bytes() == b"\xab\xcd"
    facts = json.loads((folder / "finding.json").read_text())
    assert (facts["bucket"], facts["hex"], facts["seed"], facts["campaign"]) == (
        "panic touchy",
        "abcd",
        3,
        "test",
    )
    assert facts["status"] == "confirmed"
    assert "shows it again" in (folder / "README.md").read_text()


class Forgetful(Touchy):
    """Does it beside others only, and nothing that it is given alone shows that."""

    def examine(self, some: Sequence[Input], seed: int) -> Iterable[Fault]:
        return [replace(fault, bucket="panic forgetful") for fault in super().examine(some, seed)]


def test_finding_that_its_bytes_do_not_show_says_so(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "TARGETS", {"forgetful": Forgetful})
    code, outcome = go(config, "forgetful")
    (row,) = outcome.findings
    assert (code, row.status, row.tries, row.confirmed) == (1, "not reproduced", 1, 0)
    folder = config.run_dir / row.folder
    assert "It does not show this again" in (folder / "README.md").read_text()
    assert json.loads((folder / "finding.json").read_text())["status"] == "not reproduced"
    assert "its bytes do not show it again" in "\n".join(finding_lines(outcome))


def finding_lines(outcome: Outcome) -> list[str]:
    return as_text(outcome, "run").splitlines()


def test_time_for_making_findings_smaller_is_told(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []

    def report(outcome: Outcome) -> None:
        told.append(outcome.doing)
        if outcome.doing:
            clock.now += 7

    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(
        "fuzz.targets.base.time",
        SimpleNamespace(monotonic=lambda: clock.now, perf_counter=time.perf_counter, time_ns=time.time_ns),
    )
    outcome = Outcome()
    run = Run(Touchy(), config, [CAMPAIGN], Limit(seconds=5.0, cases=30), report, outcome=outcome)
    run.run()
    assert told[-1] == "minimising findings, 1 of 1"
    assert outcome.doing == ""
    assert "--time was exceeded by 7 s for minimising findings" in outcome.notes


def test_run_that_is_stopped_while_findings_become_smaller_keeps_them(config: RunConfig) -> None:
    def report(outcome: Outcome) -> None:
        if outcome.doing:
            raise KeyboardInterrupt

    outcome = Outcome()
    Run(Touchy(), config, [CAMPAIGN], Limit(cases=30), report, outcome=outcome).run()
    assert outcome.interrupted
    (row,) = outcome.findings
    assert (row.status, row.size > 2) == ("confirmed", True)


def test_finding_of_a_reader_is_shown_and_read_again(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(*words: str) -> tuple[int, str]:
        code = zenoh_fuzz(list(words))
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    _, outcome = go(config)
    monkeypatch.setattr(targets, "TARGETS", {"touchy": Touchy})
    run, folder = str(config.run_dir), str(config.run_dir / outcome.findings[0].folder)
    assert command("show", run) == (0, "panic touchy: confirmed, 2 cases, 2 bytes\n")
    code, text = command("show", folder)
    assert (code, text.startswith("# panic touchy")) == (0, True)
    code, text = command("show", "--json", run)
    assert (code, [one["bucket"] for one in json.loads(text)]) == (0, ["panic touchy"])
    assert command("replay", folder) == (1, "1 of 1: panic touchy\n")
    assert command("replay", folder, "--node", "pypi")[0] == 2
    assert command("shrink", folder)[0] == 2
    (Path(folder) / "input.bin").write_bytes(b"x")
    assert command("replay", folder, "--times", "2") == (
        0,
        "1 of 2: no fault found\n2 of 2: no fault found\n",
    )
    (Path(folder) / "input.bin").unlink()
    code, text = command("replay", folder)
    assert (code, "input.bin" in text) == (3, True)


class Twofold(Touchy):
    """Says the same in two ways, of which a folder's name shows nothing."""

    def shown(self, data: bytes, form: str) -> Iterable[Fault]:
        for fault in super().shown(data, form):
            yield replace(fault, bucket=f"panic {'touchy!' if b'z' in data else 'touchy'}")


def test_findings_whose_names_look_alike_have_folders_of_their_own(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "TARGETS", {"touchy": Twofold})
    monkeypatch.setattr("fuzz.targets.base.SHRINK_SECONDS", 0.0)
    _, outcome = go(config)
    assert len(outcome.findings) == 2
    buckets = {row.bucket: config.run_dir / row.folder / "finding.json" for row in outcome.findings}
    assert {bucket: json.loads(path.read_text())["bucket"] for bucket, path in buckets.items()} == {
        "panic touchy": "panic touchy",
        "panic touchy!": "panic touchy!",
    }


class Muddled(Touchy):
    """Reads one kind of value otherwise in several fields, and fails."""

    fields: ClassVar[str] = "abc"

    def shown(self, data: bytes, form: str) -> Iterable[Fault]:
        for fault in super().shown(data, form):
            yield fault
            yield from (
                replace(fault, bucket=f"differs {name}", family="differs kind") for name in self.fields
            )


@pytest.mark.parametrize("fields", ["abc", "ab"])
def test_fields_of_one_kind_that_are_read_otherwise_are_one_finding_where_there_are_several(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch, fields: str
) -> None:
    monkeypatch.setattr(targets, "TARGETS", {"touchy": Muddled})
    monkeypatch.setattr(Muddled, "fields", fields)
    _, outcome = go(config)
    apart = [f"differs {field}" for field in fields]
    told = apart if len(fields) < FAMILY else ["differs kind"]
    assert [row.bucket for row in outcome.findings] == ["panic touchy", *told]
    first = outcome.findings[1]
    assert all((row.status, row.size, row.hits) == ("confirmed", 2, 2) for row in outcome.findings)
    assert zenoh_fuzz(["replay", str(config.run_dir / first.folder)]) == 1
    folders = {path.name for path in (config.run_dir / "findings").iterdir()}
    assert folders == {Path(row.folder).name for row in outcome.findings}
    if told != apart:
        assert first.case_buckets == tuple(apart)
        assert all(bucket in (config.run_dir / first.folder / "README.md").read_text() for bucket in apart)
        rows = [json.loads(line) for line in (config.run_dir / FINDINGS).read_text().splitlines()]
        last = {row["bucket"]: row for row in rows if "bucket" in row}
        assert [(last[bucket]["hits"], last[bucket]["status"]) for bucket in apart] == [(0, FLAKY)] * len(
            apart
        )


class Hanging(Touchy):
    """Hangs in a field, as if it took long."""

    each: ClassVar[int] = 1
    read: ClassVar[list[str]] = []

    def examine(self, some: Sequence[Input], seed: int) -> Iterable[Fault]:  # noqa: ARG002
        for index, one in enumerate(some):
            case = one.numbered.case
            self.read.append(f"{case.message} {case.field}")
            if case.message == "BAD":
                yield Fault("stall hanging", "no end", index, b"x", "")


def test_messages_that_hang_a_reader_are_left_out_soon(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "TARGETS", {"hanging": Hanging})
    monkeypatch.setattr(Hanging, "read", [])

    def some(_: Setting) -> Iterator[Source]:
        for message in ("BAD", "GOOD"):
            steps = {f"lie {number}": [send("size", b"x")] for number in range(5)}
            for name in "abcdef":
                yield Fixed(f"{message} {name}", State.OPEN, message, steps, name)

    told: list[Outcome] = []
    run_target("hanging", config, Limit(), 3, told.append, campaigns=[Campaign("test", "", some)])
    assert Counter(Hanging.read) == {"BAD ": 1, "GOOD ": 30}
    assert "29 cases not read: others like them hung the reader" in told[-1].notes


def test_run_ends_where_all_that_is_left_would_hang_the_reader(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "TARGETS", {"hanging": Hanging})
    source = Fixed("it", State.OPEN, "BAD", {"x": [send("size", b"x")]}, "a")
    (endless,) = islice(inputs([Campaign("test", "", lambda _: iter([source]))], Setting(1)), 1)
    monkeypatch.setattr(base, "inputs", lambda *_: itertools.repeat(endless))
    told: list[Outcome] = []
    run_target("hanging", config, Limit(), 3, told.append, campaigns=[CAMPAIGN])
    assert told[-1].total == 1
    assert f"{base.MOST_LEFT_OUT + 1} cases not read: others like them hung the reader" in told[-1].notes


def test_message_that_hangs_a_reader_in_several_fields_is_left_out_whole(config: RunConfig) -> None:
    run = Run(Hanging(), config, [])

    def one(message: str, name: str) -> Any:
        return SimpleNamespace(numbered=SimpleNamespace(case=SimpleNamespace(message=message, field=name)))

    for name in "abc":
        assert run._is_read(one("BAD", name))
        run._note_hang(one("BAD", name))
    assert not run._is_read(one("BAD", "d"))
    assert run._is_read(one("GOOD", "d"))


def test_of_several_faults_that_bytes_show_the_wanted_one_is_looked_for() -> None:
    assert Muddled().shows(b"\xab\xcd", "batch") == "panic touchy"
    assert Muddled().shows(b"\xab\xcd", "batch", "differs b") == "differs b"
    assert Muddled().shows(b"\xab\xcd", "batch", "differs z") == "panic touchy"
    assert Muddled().shows(b"", "batch", "differs b") == ""


def test_reader_that_fails_is_called_by_the_place_whatever_was_looked_at() -> None:
    def fault(name: str, source: str) -> Fault:
        try:
            exec(compile("[][1]", source, "exec"), {})
        except IndexError as error:
            return failed(name, error, 0, b"", "batch")
        raise AssertionError

    ours = str(Path(scapy_layers.__file__).with_name("x.py"))
    assert (
        fault("strict", ours).bucket
        == fault("capture", ours).bucket
        == "panic IndexError scapy_layers/x.py:<module>"
    )
    assert fault("strict", "/elsewhere/y.py").bucket == "panic strict IndexError elsewhere"
    assert fault("strict", ours).detail == "strict: IndexError: list index out of range"


def test_case_that_meets_a_fault_in_each_of_its_units_is_one_hit(config: RunConfig) -> None:
    steps = [send("size", b"\xab\xcd"), send("size", b"\xab\xcd more")]
    twice = Campaign("test", "", lambda _: iter([Fixed("it", State.OPEN, "IT", {"twice": steps}, "test")]))
    told: list[Outcome] = []
    run_target("touchy", config, Limit(), 3, told.append, campaigns=[twice])
    (row,) = told[-1].findings
    assert (row.hits, told[-1].total) == (1, 1)


def test_every_case_is_a_row_and_every_finding_too(config: RunConfig) -> None:
    go(config)
    rows = [json.loads(line) for line in (config.run_dir / FUZZ_CASES).read_text().splitlines()]
    assert len(rows) == 21
    assert {row["engine"] for row in rows} == {"touchy"}
    assert sorted(row["mutation"] for row in rows if row["verdict"] == "finding") == ["bad", "bad as well"]
    assert {row["bucket"] for row in rows if row["verdict"] == "finding"} == {"panic touchy"}
    found = [json.loads(line) for line in (config.run_dir / FINDINGS).read_text().splitlines()]
    assert [(row["status"], row["hits"]) for row in found] == [("open", 1), ("confirmed", 2)]


def test_finding_is_kept_before_the_run_ends(config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "_finish", lambda *_: pytest.fail("killed"))
    with pytest.raises(pytest.fail.Exception):
        go(config)
    (folder,) = (config.run_dir / "findings").iterdir()
    assert b"\xab\xcd" in (folder / "input.bin").read_bytes()
    assert json.loads((config.run_dir / FINDINGS).read_text())["status"] == "open"


def test_nothing_found_is_0_and_a_limit_of_cases_is_kept(config: RunConfig) -> None:
    def good(setting: Setting) -> Iterator[Source]:
        (source,) = cases(setting)
        assert isinstance(source, Fixed)
        yield Fixed(
            "it", State.OPEN, "IT", {"fine": [send("size", b"fine")], "too": [send("size", b"ok")]}, "t"
        )

    told: list[Outcome] = []
    made = Campaign("good", "", good)
    assert run_target("touchy", config, Limit(cases=1), 1, told.append, campaigns=[made]) == 0
    assert (told[-1].total, told[-1].findings) == (1, [])


def test_reader_that_is_not_there_is_3_with_the_reason(config: RunConfig) -> None:
    code, outcome = go(config, "absent")
    assert (code, outcome.failed) == (3, "it is not there")


def test_unknown_target_is_refused(config: RunConfig) -> None:
    with pytest.raises(UsageError, match="unknown target 'odd'; choose from touchy, absent"):
        go(config, "odd")


def test_what_is_not_shown_again_stays_as_it_is() -> None:
    fault = Fault("panic other", "", 0, b"\xab\xcd" * 9, "batch")
    assert smaller(Touchy(), fault) == fault
