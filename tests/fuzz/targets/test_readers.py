from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from conformance.config import RunConfig
from fuzz.campaigns import havoc, session
from fuzz.campaigns.base import Setting
from fuzz.readers import by_columns, compare, dissector
from fuzz.readers.compare import NOTHING
from fuzz.readers.invariants import TARGETS as INVARIANTS
from fuzz.readers.said import Refusal
from fuzz.readers.together import Read
from fuzz.readers.units import Unit, UnitKind
from fuzz.summary import Outcome
from fuzz.targets import NODES, TARGETS, Limit, guard, layers, run_target
from fuzz.targets.columns import Columns, differing
from fuzz.targets.feed import Input, inputs
from fuzz.targets.layers import Layers
from fuzz.targets.lua import Dissector
from scapy_layers import stream
from scapy_layers.batch import BatchReader
from scapy_layers.derive.columns.cursor import Cursor
from scapy_layers.errors import Truncated

PUSH = bytes.fromhex("25003d00016101026869")


@pytest.fixture(scope="module")
def some() -> list[Input]:
    return list(islice(inputs([havoc.CAMPAIGN], Setting(5)), 60))


def test_our_readers_bear_what_the_campaigns_send(some: list[Input]) -> None:
    assert list(Layers().examine(some, 1)) == []
    columns = Columns()
    columns._turn = 3  # the next time from a capture as well
    assert list(columns.examine(some, 1)) == []


needs_tshark = pytest.mark.skipif(not dissector.is_there(), reason="tshark is not there")


@needs_tshark
def test_dissector_bears_what_the_campaigns_send(some: list[Input]) -> None:
    assert list(Dissector().examine(some, 1)) == []


# The oracles see what they look for --------------------------------------------------------------------


def broken(raise_: Callable[[bytes], object]) -> Callable[[bytes], Any]:
    old = INVARIANTS["strict"].read

    def read(raw: bytes) -> object:
        raise_(raw)
        return old(raw)

    return read


def too_deep(raw: bytes) -> None:
    if len(raw) > 3:
        raise RecursionError("too deep")


def for_ever(raw: bytes) -> None:  # noqa: ARG001
    while True:
        pass


def slowly(raw: bytes) -> None:  # noqa: ARG001
    end = time.process_time() + 0.06
    while time.process_time() < end:
        pass


def test_input_that_is_larger_than_any_batch_is_cut() -> None:
    for seed in range(20):
        large = Random(seed).randbytes(70_000)
        assert dissector.capture_of([large] * 20, seed).number > 10


@pytest.mark.parametrize(
    ("how", "bucket"),
    [
        (too_deep, "panic strict RecursionError elsewhere"),
        (for_ever, "stall strict elsewhere"),
        (slowly, "slow strict"),
    ],
)
def test_reader_that_fails_is_seen(
    how: Callable[[bytes], object], bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(INVARIANTS, "strict", replace(INVARIANTS["strict"], read=broken(how)))
    monkeypatch.setattr(layers, "limits", lambda: guard.limits(0.5))
    assert Layers().shows(PUSH, "bytes") == bucket


@pytest.mark.parametrize(
    ("said", "told"),
    [("three bytes more", "not as it should be: three bytes more"), ("", "an invariant does not hold in ")],
)
def test_broken_invariant_is_told_in_words(said: str, told: str) -> None:
    def fails(_: bytes) -> None:
        raise AssertionError(said)

    (detail,) = {fault.detail for fault in layers._watched(lambda: fails(b""), "strict", PUSH, "bytes", 0)}
    assert detail.startswith(told)


def test_reader_that_takes_much_memory_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    peaks = iter([100 << 20, 200 << 20, *[200 << 20] * 9])
    monkeypatch.setattr(guard, "_peak", lambda: next(peaks))
    (fault,) = Layers()._of_bytes(PUSH, 0, ["strict"])
    assert (fault.bucket, fault.detail) == ("growth strict", "100 MiB at once")


def test_message_that_is_not_built_again_as_it_was_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    strict = INVARIANTS["strict"]
    monkeypatch.setitem(INVARIANTS, "strict", replace(strict, read=lambda raw: strict.read(raw)[:-1]))
    buckets = {Layers().shows(PUSH + bytes([4] * extra), "bytes") for extra in range(1, 40)}
    assert "differs strict elsewhere" in buckets


@pytest.mark.parametrize("part", ["take", "complete", "rest", "_rest", "_take_udp", "_take_tcp"])
def test_each_way_through_a_capture_is_gone(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(stream.Reader, part, fail)
    raws = [PUSH * times for times in range(1, 30)]
    faults = [fault for raw in raws for fault in Layers()._of_bytes(raw, 0, ["conversation", "capture"])]
    assert any("KeyError" in fault.bucket for fault in faults)


def test_capture_that_is_read_otherwise_by_the_short_way_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    complete = stream.Reader.complete

    def forgetful(self: stream.Reader, *args: Any) -> tuple[int, Iterable[stream.Batch]]:
        return complete(self, *args)[0], ()

    monkeypatch.setattr(stream.Reader, "complete", forgetful)
    assert any(list(Layers()._of_bytes(PUSH * times, 0, ["capture"])) for times in range(1, 9))


def test_stream_that_is_cut_by_its_segments_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(BatchReader):
        def feed(self, data: bytes) -> list[bytes]:
            found = super().feed(data)
            return found[:1]

    monkeypatch.setattr(layers, "BatchReader", Forgetful)
    stream = b"".join(len(PUSH).to_bytes(2, "little") + PUSH for _ in range(20))
    assert Layers().shows(stream, "stream") == "differs streams batches"


def test_stream_as_it_should_be_is_fine() -> None:
    stream = b"".join(len(PUSH).to_bytes(2, "little") + PUSH for _ in range(20))
    assert Layers().shows(stream, "stream") == ""
    assert Layers().shows(stream[:-3] + b"\xff", "stream") == ""


def test_column_that_says_something_else_is_seen_with_its_field(monkeypatch: pytest.MonkeyPatch) -> None:
    old = by_columns.readings

    def wrong(units: Any) -> Any:
        return [replace(one, refusal=Refusal(1, Truncated.__name__, "x")) for one in old(units)]

    monkeypatch.setattr(by_columns, "readings", wrong)
    assert Columns().shows(PUSH, "batch") == "differs columns refusal kind"


def test_column_that_is_wrong_beside_other_rows_only_is_shown_by_its_unit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = by_columns.readings

    def wrong(units: Any) -> Any:
        read = old(units)
        if len(read) == 1:
            return read
        return [replace(read[0], refusal=Refusal(1, Truncated.__name__, "x")), *read[1:]]

    monkeypatch.setattr(by_columns, "readings", wrong)
    assert Columns().shows(PUSH, "batch") == "differs columns refusal kind"
    # What is wrong with the others is no matter of this one.
    monkeypatch.setattr(by_columns, "readings", lambda units: [*old(units)[:1], *wrong(units)[:0:-1]])
    assert Columns().shows(PUSH, "batch") == ""


def test_reader_that_says_something_else_is_to_blame_before_one_that_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = {"scapy": "5", "columns": NOTHING, "tshark": "7"}
    other = SimpleNamespace(
        field="zenoh.a", message="push", at=0, number=0, values=values, unit=Unit(UnitKind.BATCH, b"")
    )
    monkeypatch.setattr(compare, "differences", lambda *_: [other])
    (fault,) = differing(Read([], {}), [])
    assert fault.bucket == "differs tshark push zenoh.a"


def test_integer_that_columns_read_otherwise_is_one_finding_wherever_it_stands(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = Cursor.vle_from
    monkeypatch.setattr(Cursor, "vle_from", lambda *of: old(*of) & ~np.uint64(1 << 20))
    monkeypatch.setattr("fuzz.targets.base.SHRINK_SECONDS", 1.0)
    config = RunConfig(node="ref", run_dir=tmp_path, run_id="run", seed=1)
    told: list[Outcome] = []
    assert run_target("columns", config, Limit(cases=600), 1, told.append, campaigns=[session.CAMPAIGN]) == 1
    found = {row.bucket: row for row in told[-1].findings}
    assert set(found) == {"differs columns vle"}
    assert len(found["differs columns vle"].case_buckets) > 5


def test_fields_of_lists_are_of_a_kind_too() -> None:
    of = compare.kinds()
    assert [
        of[f"zenoh.{name}"] for name in ("linkstate.psid", "put.encoding", "push.key_suffix", "init.S")
    ] == [
        "vle",
        "vle",
        "countedbytes",
        "packed",
    ]


def test_columns_that_fail_are_laid_on_the_unit_that_did_it(
    monkeypatch: pytest.MonkeyPatch, some: list[Input]
) -> None:
    old = by_columns.readings
    bad = some[7].units[0].data

    def fail(units: Any) -> Any:
        if any(unit.data == bad for unit in units):
            raise IndexError("out of range")
        return old(units)

    monkeypatch.setattr(by_columns, "readings", fail)
    (fault,) = Columns().examine(some[:16], 1)
    assert (fault.index, fault.data, fault.bucket) == (7, bad, "panic columns IndexError elsewhere")


def test_targets_have_names_and_one_line_each() -> None:
    assert set(TARGETS) == {"scapy", "columns", "lua"}
    assert NODES == {"refnode": "ref"}
    assert all(target.purpose and "\n" not in target.purpose for target in TARGETS.values())
