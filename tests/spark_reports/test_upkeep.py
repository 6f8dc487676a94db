"""Merging, cutting down, sweeping up: what counts stays, and nobody who reads loses anything."""

import datetime as dt
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs, parquet

from spark_reports.__main__ import main
from spark_reports.errors import DataTrouble, WrongUse
from spark_reports.storage import merging, upkeep
from spark_reports.storage.merging import batches, keys_of
from spark_reports.storage.places import RemotePlace
from spark_reports.storage.store import Draft, Store
from spark_reports.storage.tables import arrow_schema
from spark_reports.storage.upkeep import Retention
from tests.spark_reports.stored import cases, publish

ROOT = Path(__file__).parents[2]

KILLED = """
import os, signal, sys
from spark_reports.storage import upkeep
from spark_reports.storage.store import Store

def stop(name):
    if name == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

upkeep.compact(Store(sys.argv[1], step=stop), ["requirements"])
"""

LATER = dt.datetime(2027, 11, 1, tzinfo=dt.UTC)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store", durable=False)


@pytest.fixture
def remote(tmp_path: Path) -> Store:
    made = Store(tmp_path / "remote")
    (tmp_path / "remote").mkdir()
    made.place = RemotePlace(fs.LocalFileSystem(), str(tmp_path / "remote"), f"file://{tmp_path}/remote")
    return made


def read(store: Store, table: str) -> list[dict[str, Any]]:
    """Returns the rows that a reader sees, as ``views`` opens them."""
    files = store.files(table, store.commits(), store.generations().get(table))
    found: list[dict[str, Any]] = []
    for file in files.merged:
        for batch in batches(store.place, file, keys=keys_of(files.live)):
            found += batch.to_pylist()
    for file in files.loose:
        for batch in batches(store.place, file):
            found += batch.to_pylist()
    return found


def numbers(store: Store, table: str = "requirements") -> list[tuple[str, int, int]]:
    return sorted((row["run_id"], row["attempt"], row["tests"]) for row in read(store, table))


def requirement(tests: int) -> dict[str, list[dict[str, Any]]]:
    return {"requirements": [{"requirement": "ZN-INIT-001", "tests": tests}]}


def parquet_files(store: Store) -> set[str]:
    return {found.path for found in store.place.walk("") if found.path.endswith(".parquet")}


def test_merged_table_has_the_same_rows_in_one_file(store: Store) -> None:
    for n in range(5):
        publish(store, f"r{n}", requirement(n), day=n + 1)
    before = numbers(store)
    (done,) = upkeep.compact(store, ["requirements", "checks"])
    assert (done.table, done.before, done.after, done.rows) == ("requirements", 5, 1, 5)
    files = store.files("requirements", store.commits(), store.generations()["requirements"])
    assert len(files.merged) == 1
    assert files.loose == ()
    assert numbers(store) == before == [(f"r{n}", 1, n) for n in range(5)]


def test_merging_goes_on_where_the_last_one_ended(store: Store) -> None:
    for n in range(3):
        publish(store, f"r{n}", requirement(n))
    upkeep.compact(store)
    publish(store, "r3", requirement(3))
    assert upkeep.compact(store) == []
    assert len(numbers(store)) == 4
    publish(store, "r4", requirement(4))
    (done,) = upkeep.compact(store)
    assert (done.before, done.after, done.rows) == (3, 1, 5)
    assert store.generations()["requirements"].number == 2
    assert numbers(store) == [(f"r{n}", 1, n) for n in range(5)]


def test_attempt_that_came_after_merging_counts_alone(store: Store) -> None:
    for n in range(2):
        publish(store, f"r{n}", requirement(n))
    upkeep.compact(store)
    publish(store, "r0", requirement(7), bundle="other")
    assert numbers(store) == [("r0", 2, 7), ("r1", 1, 1)]
    upkeep.compact(store)
    assert store.generations()["requirements"].files[0].rows == 2
    assert numbers(store) == [("r0", 2, 7), ("r1", 1, 1)]


def test_large_merged_files_are_carried_over_as_long_as_all_in_them_counts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "MERGED_BYTES", 1)

    def merged(*names: str) -> list[str]:
        commits, generations = Store(store.uri).snapshot()
        wanted = [commit for commit in commits if not names or commit.run_id in names]
        files = store.files("requirements", wanted, generations["requirements"])
        return [file.path.split("/")[2] for file in files.merged]

    for n in range(4):
        publish(store, f"r{n}", requirement(n))
        if n % 2:
            upkeep.compact(store)
    assert merged() == ["gen-1", "gen-2"]
    assert merged("r2") == ["gen-2"]
    upkeep.sweep(store, grace_s=0)
    with store.merging("requirements"):
        pass
    assert [generation.number for generation in store.all_generations()] == [2]
    assert numbers(store) == [(f"r{n}", 1, n) for n in range(4)]

    publish(store, "r0", requirement(9), bundle="other")
    (done,) = upkeep.compact(store)
    assert merged() == ["gen-2", "gen-3"]
    assert (done.before, done.after, done.rows) == (3, 2, 4)
    upkeep.sweep(store, grace_s=0)
    assert numbers(store) == [("r0", 2, 9), ("r1", 1, 1), ("r2", 1, 2), ("r3", 1, 3)]
    assert upkeep.check(store) == []
    assert len(parquet_files(store)) == 2


def test_rows_of_any_size_are_merged_in_pieces(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_BATCH_BYTES", 1 << 12)
    monkeypatch.setattr(merging, "_GROUP_BYTES", 1 << 14)
    for n in range(2):
        long = [{"campaign": "c", "case": k, "sent_hex": os.urandom(500).hex()} for k in range(50)]
        publish(store, f"r{n}", {"cases": long})
    before = read(store, "cases")
    upkeep.compact(store)
    (file,) = store.generations()["cases"].files
    with parquet.ParquetFile(Path(store.uri, file.path)) as opened:
        assert opened.num_row_groups > 3
    assert [row["sent_hex"] for row in read(store, "cases")] == [row["sent_hex"] for row in before]


def test_some_runs_of_a_merged_table_can_be_had_alone(store: Store) -> None:
    for n in range(3):
        publish(store, f"r{n}", requirement(n))
    upkeep.compact(store)
    one = [commit for commit in store.commits() if commit.run_id == "r1"]
    files = store.files("requirements", one, store.generations()["requirements"])
    assert files.live == {("r1", 1)}
    assert files.loose == ()
    assert len(files.held) == 3


def test_merging_fills_columns_that_older_files_lack(store: Store) -> None:
    publish(store, "r0", {"runs": [{"node": "a"}]})
    with store.staging("r1") as stage:
        old = arrow_schema("runs").remove(arrow_schema("runs").get_field_index("environment"))
        rows = pa.Table.from_pylist([{"run_id": "r1", "attempt": 1, "node": "b"}], old)
        parquet.write_table(rows, f"{stage.folder('runs')}/part-0.parquet")
        stage.publish(Draft(run={"run_id": "r1", "started_at": ""}, bundle="r1"))
    upkeep.compact(store, ["runs"])
    assert {(row["node"], row["environment"]) for row in read(store, "runs")} == {("a", None), ("b", None)}


def test_extra_column_survives_merging_whoever_wrote_it(store: Store) -> None:
    schema = arrow_schema("findings", extra=True)
    halves = list(schema.field("extra").type)
    for run_id, order in (("r0", halves), ("r1", halves[::-1])):
        with store.staging(run_id) as stage:
            at = schema.get_field_index("extra")
            mine = schema.set(at, pa.field("extra", pa.struct(order)))
            rows = [
                {"run_id": run_id, "attempt": 1, "extra": {"value": b"v", "metadata": b"m"}},
                {"run_id": run_id, "attempt": 1},
            ]
            parquet.write_table(
                pa.Table.from_pylist(rows, mine), f"{stage.folder('findings')}/part-0.parquet"
            )
            stage.publish(Draft(run={"run_id": run_id, "started_at": ""}, bundle=run_id))
    publish(store, "r2", {"findings": [{"bucket": "b"}]})
    upkeep.compact(store, ["findings"])
    found = [row["extra"] for row in read(store, "findings")]
    assert found.count({"value": b"v", "metadata": b"m"}) == 2
    assert found.count(None) == 3


def test_extra_column_that_spark_took_apart_is_left_to_spark(store: Store) -> None:
    shredded = pa.struct({"metadata": pa.binary(), "value": pa.binary(), "typed_value": pa.int64()})
    for run_id in ("r0", "r1"):
        with store.staging(run_id) as stage:
            rows = pa.table({"run_id": [run_id], "attempt": [1], "extra": pa.nulls(1, shredded)})
            parquet.write_table(rows, f"{stage.folder('findings')}/part-0.parquet")
            stage.publish(Draft(run={"run_id": run_id, "started_at": ""}, bundle=run_id))
    with pytest.raises(WrongUse, match=r"findings .* merged by Spark: give a --master"):
        upkeep.compact(store, ["findings"])
    assert store.generations() == {}


def test_reader_of_the_old_files_goes_on_until_the_grace_is_over(store: Store) -> None:
    for n in range(3):
        publish(store, f"r{n}", requirement(n))
    commits, generations = store.commits(), store.generations()
    upkeep.compact(store)
    upkeep.sweep(store)
    old = store.files("requirements", commits, generations.get("requirements"))
    assert sum(batch.num_rows for file in old.loose for batch in batches(store.place, file)) == 3

    swept = upkeep.sweep(store, grace_s=0)
    assert swept.files == 3
    assert numbers(store) == [(f"r{n}", 1, n) for n in range(3)]
    assert upkeep.check(store) == []


def test_snapshot_names_files_that_are_there_whatever_happens_in_between(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(2):
        publish(store, f"r{n}", requirement(n))
    upkeep.compact(store)
    upkeep.sweep(store, grace_s=0)
    reader = Store(store.uri)
    asked: list[str] = []

    def between(name: str, ask: Callable[[], Any]) -> Callable[[], Any]:
        def asking() -> Any:
            asked.append(name)
            if len(asked) == 2:
                publish(store, "r0", requirement(7), bundle="other")
                upkeep.compact(store, least=1)
            return ask()

        return asking

    for name in ("commits", "generations"):
        monkeypatch.setattr(reader, name, between(name, getattr(reader, name)))
    commits, generations = reader.snapshot()
    files = reader.files("requirements", commits, generations["requirements"])
    assert len(asked) == 2
    assert all(Path(store.uri, file.path).exists() for file in (*files.merged, *files.loose))
    assert {commit.attempt for commit in commits if commit.run_id == "r0"} == {2}


def test_generation_that_is_swept_up_while_it_is_looked_for_is_not_missed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(4):
        publish(store, f"r{n}", requirement(n))
        upkeep.compact(store, least=1)
    reader = Store(store.uri)
    unwatched = reader.place.read

    def late(path: str) -> bytes:
        if path == "_generations/requirements.1.json":
            upkeep.sweep(store, grace_s=0)
        return unwatched(path)

    monkeypatch.setattr(reader.place, "read", late)
    assert [one.number for one in reader.all_generations()] == [4]


def test_sweep_spares_old_files_that_were_replaced_just_now(store: Store) -> None:
    """What counts is how long no record has named a file, not how old it is."""
    for n in range(3):
        publish(store, f"r{n}", requirement(n))
    publish(store, "r0", requirement(5), bundle="other")
    upkeep.compact(store)
    publish(store, "r3", requirement(3))
    upkeep.compact(store, least=1)
    for found in store.place.walk(""):
        os.utime(Path(store.uri, found.path), (1, 1))
    assert len(parquet_files(store)) == 7
    assert upkeep.sweep(store, grace_s=3600).files == 0
    assert len(store.all_generations()) == 2
    assert upkeep.sweep(store, grace_s=0).files == 6


def test_sweep_removes_records_that_were_never_finished(store: Store) -> None:
    publish(store, "r0", requirement(0))
    for name, time in (("r1.1.json.0.unfinished", 1), ("r2.1.json.0.unfinished", None)):
        path = Path(store.uri, "_commits", name)
        path.touch()
        if time is not None:
            os.utime(path, (time, time))
    assert upkeep.sweep(store, grace_s=0).files == 1
    assert sorted(store.place.names("_commits")) == ["r0.1.json", "r2.1.json.0.unfinished"]
    assert len(store.commits()) == 1


def test_sweep_removes_old_generations_and_attempts_and_nothing_else(store: Store) -> None:
    for n in range(2):
        publish(store, f"r{n}", requirement(n))
    upkeep.compact(store)
    publish(store, "r0", requirement(5), bundle="other")
    upkeep.compact(store, least=1)
    publish(store, "r2", requirement(2))
    expected = numbers(store)
    assert len(parquet_files(store)) == 6
    upkeep.sweep(store, grace_s=0)
    assert parquet_files(store) == {
        "compact/requirements/gen-2/part-0.parquet",
        "rollups/requirements/r2/1/part-0.parquet",
    }
    assert [generation.number for generation in store.all_generations()] == [2]
    fresh = Store(store.uri)
    assert numbers(fresh) == expected
    assert upkeep.check(fresh) == []
    assert fresh.has("other")


def test_sweep_spares_what_is_being_published(tmp_path: Path) -> None:
    """A raw file keeps the time it had, so its age says nothing about how long it has been there."""
    uri = tmp_path / "store"

    def sweep(name: str) -> None:
        if name == "moved":
            upkeep.sweep(Store(uri), grace_s=0)

    store = Store(uri, durable=False, step=sweep)
    with store.staging("r1") as stage:
        raw = Path(stage.folder("raw"), "run.json")
        raw.write_text("{}")
        os.utime(raw, (1, 1))
        stage.publish(Draft(run={"run_id": "r1", "started_at": ""}, bundle="b"))
    assert upkeep.check(store) == []
    assert Path(uri, store.commits()[0].tables["raw"][0].path).exists()


def test_sweep_spares_a_generation_that_is_being_published(tmp_path: Path) -> None:
    def sweep(name: str) -> None:
        if name == "moved":
            upkeep.sweep(Store(tmp_path / "store"), grace_s=0)

    for n in range(2):
        publish(Store(tmp_path / "store", durable=False), f"r{n}", requirement(n))
    store = Store(tmp_path / "store", durable=False, step=sweep)
    upkeep.compact(store)
    assert upkeep.check(store) == []
    assert len(numbers(store)) == 2


@pytest.mark.parametrize("step", ["written", "moved", "record written", "committed"])
def test_merger_killed_at_any_step_leaves_a_whole_store_and_can_be_repeated(store: Store, step: str) -> None:
    for n in range(3):
        publish(store, f"r{n}", requirement(n))
    expected = numbers(store)
    killed = subprocess.run([sys.executable, "-c", KILLED, store.uri, step], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert numbers(store) == expected
    assert upkeep.sweep(store, grace_s=0).leftovers == 1
    assert numbers(store) == expected
    publish(store, "r3", requirement(3))
    upkeep.compact(store, least=1)
    assert numbers(store) == [*expected, ("r3", 1, 3)]
    assert upkeep.check(store) == []


@pytest.mark.parametrize("step", ["written", "moved", "committed"])
def test_next_merger_takes_over_from_one_that_was_killed(store: Store, step: str) -> None:
    for n in range(3):
        publish(store, f"r{n}", requirement(n))
    expected = numbers(store)
    subprocess.run([sys.executable, "-c", KILLED, store.uri, step], cwd=ROOT, check=False)
    publish(store, "r3", requirement(3))
    assert {one.table for one in upkeep.compact(store, least=1)} == {"requirements"}
    assert numbers(store) == [*expected, ("r3", 1, 3)]
    assert upkeep.check(store) == []
    assert upkeep.sweep(store, grace_s=0).leftovers == 0


def test_merger_that_finds_no_room_stands_in_nobodys_way(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(2):
        publish(store, f"r{n}", requirement(n))

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(WrongUse, match="cannot write to"):
            upkeep.compact(store)
    assert [merged.table for merged in upkeep.compact(store)] == ["requirements"]


def test_two_mergers_of_a_table_do_not_work_at_once(store: Store) -> None:
    store.create()
    with store.merging("cases"), pytest.raises(DataTrouble, match="another process is merging cases"):
        upkeep.compact(Store(store.uri), ["cases"])


def test_tidying_merges_only_many_small_files(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "MANY", 3)
    publish(store, "r0", {**requirement(0), "cases": cases(closed=1)})
    publish(store, "r1", {**requirement(1), "cases": cases(closed=1)})
    said: list[str] = []
    assert upkeep.tidy(store, said.append) == []
    publish(store, "r2", requirement(2))
    with store.merging("requirements"):
        assert upkeep.tidy(store, said.append) == []
    assert said == [
        "requirements stays in 3 files: another process is merging requirements; try again when it is done"
    ]
    monkeypatch.setattr(upkeep, "SMALL", 1)
    assert upkeep.tidy(store, said.append) == []
    monkeypatch.undo()
    monkeypatch.setattr(upkeep, "MANY", 3)
    assert [done.table for done in upkeep.tidy(store, said.append)] == ["requirements"]
    assert len(said) == 1


def test_old_runs_keep_what_matters(store: Store) -> None:
    tables = {
        "cases": cases(closed=5, finding=2, inconclusive=1),
        "observations": [{"test": test, "seq": n} for test in ("a", "b", "c") for n in range(2)],
        "verdicts": [
            {"test": "a", "outcome": "pass"},
            {"test": "b", "outcome": "fail"},
            {"test": "c", "outcome": "n/a"},
        ],
        **requirement(3),
    }
    publish(store, "r1", tables)
    (commit,) = upkeep.retain(store, Retention(cases_days=30, observations_days=30), LATER)
    assert (commit.attempt, commit.revision, commit.trimmed) == (1, 1, ("cases", "observations"))
    assert sorted(row["verdict"] for row in read(store, "cases")) == ["finding", "finding", "inconclusive"]
    assert {row["test"] for row in read(store, "observations")} == {"b"}
    assert len(read(store, "verdicts")) == 3
    assert numbers(store) == [("r1", 1, 3)]
    assert upkeep.check(store) == []
    upkeep.sweep(store, grace_s=0)
    assert upkeep.check(Store(store.uri)) == []
    assert len(parquet_files(store)) == 4


def test_retention_leaves_young_runs_and_those_that_were_cut_down_alone(store: Store) -> None:
    publish(store, "old", {"cases": cases(closed=1)}, day=1)
    publish(store, "young", {"cases": cases(closed=1)}, day=20)
    now = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
    assert [commit.run_id for commit in upkeep.retain(store, Retention(cases_days=10), now)] == ["old"]
    assert upkeep.retain(store, Retention(cases_days=10), now) == []
    assert upkeep.retain(store, Retention(raw_days=0), LATER) == []
    assert {row["run_id"] for row in read(store, "cases")} == {"young"}


def test_raw_files_are_dropped_whole(store: Store) -> None:
    with store.staging("r1") as stage:
        Path(stage.folder("raw"), "run.json").write_text("{}")
        stage.publish(Draft(run={"run_id": "r1", "started_at": "2026-11-01T10:00:00.000Z"}, bundle="b"))
    upkeep.retain(store, Retention(raw_days=1), LATER)
    assert store.commits()[0].tables == {}
    assert upkeep.sweep(store, grace_s=0).files == 1


def test_runs_are_cut_down_in_merged_tables_too(store: Store) -> None:
    for n in range(3):
        publish(store, f"r{n}", {"cases": cases(closed=5, finding=n)}, day=1 + 10 * n)
    upkeep.compact(store)
    now = dt.datetime(2026, 11, 15, tzinfo=dt.UTC)
    revised = upkeep.retain(store, Retention(cases_days=1), now)
    assert [(commit.run_id, commit.rows("cases")) for commit in revised] == [("r0", 0), ("r1", 1)]

    def left() -> dict[str, int]:
        return {f"r{n}": sum(row["run_id"] == f"r{n}" for row in read(store, "cases")) for n in range(3)}

    assert left() == {"r0": 0, "r1": 1, "r2": 7}
    (done,) = upkeep.compact(store)
    assert done.rows == 8
    upkeep.sweep(store, grace_s=0)
    assert left() == {"r0": 0, "r1": 1, "r2": 7}
    assert upkeep.check(store) == []


def test_merged_table_of_which_nothing_counts_any_more_is_emptied(store: Store) -> None:
    for n in range(2):
        publish(store, f"r{n}", {"cases": cases(closed=5)})
    upkeep.compact(store)
    upkeep.retain(store, Retention(cases_days=1), LATER)
    assert read(store, "cases") == []
    (done,) = upkeep.compact(store)
    assert (done.before, done.after, done.rows) == (0, 0, 0)
    upkeep.sweep(store, grace_s=0)
    assert parquet_files(store) == set()
    assert read(store, "cases") == []
    assert upkeep.compact(store) == []


def test_check_names_what_is_missing_short_or_miscounted(store: Store) -> None:
    publish(store, "r1", {"verdicts": [{"test": "a"}], **requirement(1)})
    publish(store, "r2", {"verdicts": [{"test": "a"}]})
    assert upkeep.check(store) == []
    Path(store.uri, "rollups/requirements/r1/1/part-0.parquet").unlink()
    with Path(store.uri, "tables/verdicts/r1/1/part-0.parquet").open("ab") as file:
        file.write(b"x")
    record = Path(store.uri, "_commits/r2.1.json")
    value = json.loads(record.read_bytes())
    value["accounts"]["verdicts.jsonl"] |= {"lines": 3, "good": 2}
    record.write_text(json.dumps(value))
    wrong = upkeep.check(Store(store.uri))
    assert len(wrong) == 4
    assert wrong[0] == "rollups/requirements/r1/1/part-0.parquet is missing"
    assert "verdicts/r1/1/part-0.parquet has" in wrong[1]
    assert wrong[2].startswith("r2: verdicts.jsonl has 3 lines, but 2 good")
    assert wrong[3] == "r2: verdicts.jsonl has 2 good lines, verdicts has 1 rows"


def test_check_reads_records_that_a_checkpoint_stands_in_for(store: Store) -> None:
    for number in range(20):
        publish(store, f"r{number}", {"verdicts": [{"test": "a"}]})
    store.checkpoint()
    cut, changed = (Path(store.uri, f"_commits/{name}.1.json") for name in ("r3", "r7"))
    cut.write_bytes(cut.read_bytes()[:-30])
    changed.write_bytes(
        changed.read_bytes().replace(b"verdicts 1", b"verdicts 2").replace(b'"attempt"', b'"attempt" ')
    )
    value = json.loads(changed.read_bytes())
    changed.write_text(json.dumps(value | {"bundle": "another"}))
    again = Store(store.uri)
    assert len(again.commits()) == 20
    first, second = upkeep.check(again)
    assert "_commits/r3.1.json is damaged" in first
    assert second == "_commits/r7.1.json and its copy in _checkpoints differ"


@pytest.mark.parametrize("least", ["0", "abc", "", "1.5", "9" * 5000])
def test_number_of_files_that_is_none_is_told(least: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command("compact", "x", "--least", least)
    assert "is not a whole number from 1 to 999999999" in capsys.readouterr().err


def test_remote_store_is_merged_cut_down_and_swept(remote: Store) -> None:
    for n in range(3):
        publish(remote, f"r{n}", {"cases": cases(closed=5, finding=n), **requirement(n)})
    upkeep.compact(remote)
    upkeep.retain(remote, Retention(cases_days=1), LATER)
    upkeep.compact(remote)
    upkeep.sweep(remote, grace_s=0)
    assert numbers(remote) == [(f"r{n}", 1, n) for n in range(3)]
    assert len(read(remote, "cases")) == 3
    assert upkeep.check(Store(remote.uri)) == []
    assert len(parquet_files(remote)) == 2


def test_remote_mergers_at_once_do_no_harm(remote: Store) -> None:
    for n in range(2):
        publish(remote, f"r{n}", requirement(n))
    with remote.merging("requirements") as slow:
        upkeep.compact(remote)
        publish(remote, "r2", requirement(2))
        schema = arrow_schema("requirements")
        rows = [{"run_id": f"r{n}", "attempt": 1, "tests": n} for n in range(2)]
        filesystem, folder = slow.arrow()
        parquet.write_table(
            pa.Table.from_pylist(rows, schema), f"{folder}/part-0.parquet", filesystem=filesystem
        )
        slow.publish(remote.commits()[:2])
    assert [generation.number for generation in remote.all_generations()] == [1, 1]
    for _ in range(2):
        assert numbers(remote) == [(f"r{n}", 1, n) for n in range(3)]
        upkeep.sweep(remote, grace_s=0)
    assert len(remote.all_generations()) == 1
    assert upkeep.check(remote) == []


def test_other_formats_are_left_to_their_own_means(store: Store) -> None:
    store.create("delta")
    for action in (upkeep.compact, upkeep.sweep, lambda store: upkeep.retain(store, Retention())):
        with pytest.raises(WrongUse, match="format delta, which has its own tools"):
            action(store)


def command(*arguments: str) -> int:
    return main(["store", *arguments])


def test_list_command_shows_runs_and_advice(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    for n in range(3):
        publish(store, f"r{n}", {"verdicts": [{"test": "a"}] * n, **requirement(n)}, day=3 - n)
    publish(store, "evil\x1b[2J", requirement(1), day=9)
    assert command("list", store.uri) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["r2", "r1", "r0", "evil?[2J"]
    assert lines[0].split()[:4] == ["run", "attempt", "started", "node"]
    assert lines[5].startswith("4 runs in 6 loose and 0 merged files")
    assert command("list", store.uri, "--json") == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (first["run"], first["verdicts"], first["state"]) == ("r2", 2, "complete")


def test_commands_compact_cut_down_sweep_and_check(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    for n in range(2):
        publish(store, f"r{n}", {"cases": cases(closed=3, finding=1)})
    assert command("check", store.uri) == 0
    assert command("compact", store.uri) == 0
    assert "cases: 8 rows from 2 files in 1" in capsys.readouterr().out
    assert command("compact", store.uri) == 0
    assert "no table has enough loose files" in capsys.readouterr().out
    assert command("retain", store.uri, "--cases", "0m") == 0
    captured = capsys.readouterr()
    assert "r0: 1 of 4 cases kept" in captured.out
    assert "2 runs trimmed; `compact`" in captured.err
    assert command("retain", store.uri, "--cases", "0m") == 0
    assert capsys.readouterr().err == "0 runs trimmed: nothing that old is left to drop\n"
    assert command("sweep", store.uri, "--grace", "0m") == 0
    assert "removed 2 files" in capsys.readouterr().out
    (file,) = store.generations()["cases"].files
    Path(store.uri, store.commits()[0].tables["cases"][0].path).unlink()
    assert command("check", store.uri) == 3
    captured = capsys.readouterr()
    assert "part-0.parquet is missing" in captured.out
    assert "is damaged: 1 problem" in captured.err
    assert file.rows == 8


def test_one_run_that_is_cut_down_is_one(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    publish(store, "r0", {"cases": cases(closed=3, finding=1)})
    assert command("retain", store.uri, "--cases", "0m") == 0
    assert "1 run trimmed" in capsys.readouterr().err


def test_commands_refuse_wrong_use_with_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for action in ("list", "check", "compact", "sweep"):
        assert command(action, str(tmp_path / "nowhere")) == 2
        assert "is not a store" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    for action in ("list", "check", "compact", "sweep"):
        assert command(action, str(tmp_path / "file")) == 2
        assert "file is not a store" in capsys.readouterr().err
    assert command("retain", str(tmp_path)) == 2
    assert "nothing to drop" in capsys.readouterr().err
    for arguments in (("retain", "x", "--raw", "soon"), ("compact", "x", "--least", "0")):
        with pytest.raises(SystemExit):
            command(*arguments)


def test_bytes_that_changed_in_place_are_found_by_reading(store: Store) -> None:
    for n in range(40):
        publish(store, f"r{n:02}", requirement(n))
    upkeep.compact(store, ["requirements"])
    (file,) = store.files("requirements", store.commits(), store.generations()["requirements"]).merged
    path = Path(store.uri, file.path)
    whole = path.read_bytes()
    before = numbers(store)
    assert upkeep.check(store, read=True) == []
    pages = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for at in range(4, pages, 9):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        assert upkeep.check(store) == []
        found = upkeep.check(store, read=True)
        if not found:
            # Within the header of a page there are bytes that nobody looks at.
            assert numbers(store) == before
        assert all(line.startswith(f"{file.path} ") for line in found)
    path.write_bytes(bytes(len(whole)))
    assert len(upkeep.check(store, read=True)) == 1


def test_raw_file_that_changed_in_place_is_found_by_reading(store: Store) -> None:
    with store.staging("r1") as stage:
        raw = Path(stage.folder("raw"), "run.json.zst")
        with pa.CompressedOutputStream(str(raw), "zstd") as stream:
            stream.write(b"{}" * 1000)
        stage.publish(Draft(run={"run_id": "r1", "started_at": ""}, bundle="b"))
    assert upkeep.check(store, read=True) == []
    (file,) = store.commits()[0].tables["raw"]
    Path(store.uri, file.path).write_bytes(bytes(file.bytes))
    assert upkeep.check(store) == []
    (found,) = upkeep.check(store, read=True)
    assert found.startswith(f"{file.path} cannot be read: ")
