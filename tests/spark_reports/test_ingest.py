import dataclasses
import json
import re
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark_reports import rows
from spark_reports.folders import find_run_folders, is_in
from spark_reports.storage import ingest as module
from spark_reports.storage.damage import DAMAGE
from spark_reports.storage.ingest import Ingested, in_words, ingest
from spark_reports.storage.pieces import Piece
from spark_reports.storage.store import Account, Commit, Store
from spark_reports.storage.tables import ROLLUPS
from spark_reports.storage.views import open_views
from spark_reports.storage.writing import Work

MakeRun = Callable[..., Path]
Row = Callable[..., Any]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store", durable=False)


def taken(spark: SparkSession, store: Store, root: Path) -> Ingested:
    done = ingest(spark, store, find_run_folders([root]))
    assert done.troubles == ()
    for commit in done.commits:
        for file, account in commit.accounts.items():
            assert account.balanced
            assert commit.rows(rows.type_of_file[file].TABLE) == account.good
        assert commit.rows("apart") == sum(account.apart for account in commit.accounts.values())
    return done


def held(store: Store, commit: Commit, table: str) -> list[dict[str, Any]]:
    """Returns the rows of a run as they are in the files."""
    files = [store.place.address(entry.path) for entry in commit.tables.get(table, ())]
    tables = [pq.ParquetFile(file).read() for file in files]
    return list(pa.concat_tables(tables, promote_options="default").to_pylist()) if tables else []


def test_runs_are_taken_in_with_all_that_they_recorded(
    spark: SparkSession,
    store: Store,
    tmp_path: Path,
    make_run: MakeRun,
    verdict_row: Row,
    case_row: Row,
    observation_row: Row,
) -> None:
    verdict, case, seen = verdict_row("fail", ("ZN-A-1", "ZN-B-2")), case_row(3, rtt_us=7), observation_row()
    make_run("r1", verdicts=[verdict], cases=[case], observations=[seen])
    make_run("r2", 2, verdicts=[verdict], cases=None, environment="Linux 6.1", kind="conformance")
    done = taken(spark, store, tmp_path / "runs")
    first, second = done.commits
    assert (first.run_id, first.attempt, first.state, second.run["environment"]) == (
        "r1",
        1,
        "complete",
        "Linux 6.1",
    )
    for table, row in (("verdicts", verdict), ("cases", case), ("observations", seen)):
        (found,) = held(store, first, table)
        assert found == json.loads(rows.to_json(row)) | {"attempt": 1}
    (run,) = held(store, second, "runs")
    assert (run["node_version"], run["state"], run["notes"], run["attempt"]) == ("1.10.2", "complete", [], 1)
    assert first.accounts[rows.FUZZ_CASES] == Account(lines=2, good=1, footers=1)
    assert in_words(done.account) == "8 lines in = 4 good + 0 set aside + 0 blank + 4 footers"
    assert set(first.tables) == {
        *(
            "runs",
            "verdicts",
            "cases",
            "observations",
            "requirements",
            "checks",
            "case_outcomes",
            "case_times",
        ),
        "traffic",
    }


def test_every_rollup_has_its_columns_and_each_run_a_file_of_its_own(
    spark: SparkSession,
    store: Store,
    tmp_path: Path,
    make_run: MakeRun,
    verdict_row: Row,
    case_row: Row,
    observation_row: Row,
) -> None:
    seen = [
        observation_row(direction, seq=seq, time_ns=seq * 1000)
        for seq, direction in enumerate(("sent", "received"))
    ]
    for name in ("r1", "r2"):
        make_run(name, verdicts=[verdict_row()], cases=[case_row(1, "panic", rtt_us=9)], observations=seen)
    done = taken(spark, store, tmp_path / "runs")
    for commit in done.commits:
        for table, schema in ROLLUPS.items():
            (row,) = held(store, commit, table)
            assert list(row) == schema.names
            assert (row["run_id"], row["attempt"]) == (commit.run_id, 1)
            assert len(commit.tables[table]) == 1
    views = open_views(spark, store)
    assert {row["bucket"] for row in views.buckets.collect()} == {"panic"}


def test_the_same_files_are_taken_in_once(
    spark: SparkSession, store: Store, tmp_path: Path, make_run: MakeRun, verdict_row: Row
) -> None:
    run = make_run("r1", verdicts=[verdict_row()], cases=None)
    taken(spark, store, tmp_path / "runs")
    again = taken(spark, store, tmp_path / "runs")
    assert (again.commits, [commit.run_id for commit in again.known]) == ((), ["r1"])
    with rows.RowWriter(run / rows.VERDICTS) as writer:
        writer.write(verdict_row("fail", test="b"))
    (changed,) = taken(spark, store, tmp_path / "runs").commits
    assert (changed.attempt, changed.rows("verdicts")) == (2, 2)
    assert {row["attempt"] for row in held(store, changed, "verdicts")} == {2}
    assert [commit.attempt for commit in store.commits()] == [2]


def test_attempt_before_the_newest_is_taken_in_anew_if_it_is_handed_over_again(
    spark: SparkSession, store: Store, tmp_path: Path, make_run_in: MakeRun, verdict_row: Row
) -> None:
    make_run_in(tmp_path / "full", "r1", verdicts=[verdict_row(), verdict_row("fail", test="b")], cases=None)
    make_run_in(tmp_path / "backup", "r1", verdicts=[verdict_row()], cases=None)
    held_now = []
    for root in ("full", "backup", "full", "full"):
        taken(spark, store, tmp_path / root)
        held_now += [(commit.attempt, commit.rows("verdicts")) for commit in store.commits()]
    assert held_now == [(1, 2), (2, 1), (3, 2), (3, 2)]


def test_copy_that_was_made_before_a_run_ended_does_not_stand_for_it(
    spark: SparkSession, store: Store, tmp_path: Path, make_run_in: MakeRun, verdict_row: Row
) -> None:
    def copy(name: str, count: int, status: str) -> Path:
        verdicts = [verdict_row(test=str(number)) for number in range(count)]
        run = make_run_in(
            tmp_path / name, "r1", verdicts=verdicts, cases=None, status=status, kind="conformance"
        )
        if status != "complete":
            lines = (run / rows.VERDICTS).read_text().splitlines(keepends=True)
            (run / rows.VERDICTS).write_text("".join(lines[:-1]))
        return run.parent

    said: list[str] = []
    ingest(spark, store, find_run_folders([copy("whole", 3, "complete")]), said.append)
    late = ingest(spark, store, find_run_folders([copy("part", 2, "running")]), said.append)
    assert (late.commits, [commit.attempt for commit in late.known], late.troubles) == ((), [1], ())
    assert [line for line in said if line.startswith("warning")] == [
        f"warning: {tmp_path}/part/r1 was copied before r1 ended; the store has it whole"
    ]
    assert [commit.rows("verdicts") for commit in store.commits()] == [3]
    # One that went on has more to say, even if it was cut off then.
    (longer,) = ingest(spark, store, find_run_folders([copy("on", 9, "running")])).commits
    assert (longer.attempt, longer.state, longer.rows("verdicts")) == (2, "running", 9)


def test_run_that_another_process_takes_in_meanwhile_is_known(
    spark: SparkSession,
    store: Store,
    tmp_path: Path,
    make_run: MakeRun,
    verdict_row: Row,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_run("r1", verdicts=[verdict_row()], cases=None)
    look = module._look

    def then_another(*arguments: Any) -> Any:
        found = look(*arguments)
        monkeypatch.setattr(module, "_look", look)
        taken(spark, store, tmp_path / "runs")
        return found

    monkeypatch.setattr(module, "_look", then_another)
    done = taken(spark, store, tmp_path / "runs")
    assert (done.commits, [commit.run_id for commit in done.known]) == ((), ["r1"])
    assert [commit.attempt for commit in store.commits()] == [1]


def test_what_else_a_run_says_of_itself_is_kept(
    spark: SparkSession, store: Store, tmp_path: Path, make_run: MakeRun, verdict_row: Row
) -> None:
    make_run("plain", verdicts=[verdict_row()])
    path = make_run("more", verdicts=[verdict_row()]) / rows.RUN
    path.write_text(json.dumps({**json.loads(path.read_text()), "lab": {"bench": 7}}))
    taken(spark, store, tmp_path / "runs")
    runs = open_views(spark, store).runs.selectExpr(
        "run_id", "variant_get(extra, '$.lab.bench', 'int') bench"
    )
    assert sorted(map(tuple, runs.collect())) == [("more", 7), ("plain", None)]


def test_damaged_files_lose_only_what_is_damaged(
    spark: SparkSession,
    store: Store,
    tmp_path: Path,
    make_run: MakeRun,
    verdict_row: Row,
    case_row: Row,
    observation_row: Row,
) -> None:
    many = range(8)
    expected = {}
    for number, (file, harm, state) in enumerate(DAMAGE):
        name = f"damaged{number}"
        folder = make_run(
            name,
            verdicts=[verdict_row(test=f"t{n}") for n in many],
            cases=[case_row(n) for n in many],
            observations=[observation_row(seq=n) for n in many],
        )
        damaged, good, apart, blank, footers = harm((folder / file).read_bytes())
        (folder / file).write_bytes(damaged)
        expected[name] = (
            file,
            state,
            Account(
                lines=good + apart + blank + footers, good=good, apart=apart, blank=blank, footers=footers
            ),
        )
    done = taken(spark, store, tmp_path / "runs")
    for commit in done.commits:
        file, state, account = expected[commit.run_id]
        assert (commit.run_id, commit.state, commit.accounts[file]) == (commit.run_id, state, account)
    views = open_views(spark, store)
    foreign = views.cases.where("extra IS NOT NULL").selectExpr(
        "variant_get(extra, '$.note.tries[1]', 'int') two"
    )
    assert [row["two"] for row in foreign.collect()] == [2]
    bad = views.apart.where("run_id = 'damaged3'").orderBy("line").collect()
    assert [(row["file"], row["line"], row["reason"]) for row in bad] == [
        (rows.FUZZ_CASES, 3, "not UTF-8 (byte 2)"),
        (rows.FUZZ_CASES, 4, "not an object"),
        (rows.FUZZ_CASES, 5, "no run_id"),
    ]


def test_run_whose_description_is_missing_or_damaged_is_taken_in_all_the_same(
    spark: SparkSession, store: Store, tmp_path: Path, make_run: MakeRun, verdict_row: Row
) -> None:
    missing = make_run("missing", verdicts=[verdict_row()], cases=None)
    (missing / rows.RUN).unlink()
    damaged = make_run("damaged", verdicts=[verdict_row()], cases=None)
    (damaged / rows.RUN).write_text('{"run_id": "dam')
    newer = make_run("newer", verdicts=[verdict_row()], cases=None)
    rows.write_run(newer, dataclasses.replace(rows.read_run(newer), rows_version=99))
    done = taken(spark, store, tmp_path / "runs")
    assert {
        commit.run_id: (commit.state, commit.rows("verdicts")) for commit in done.commits
    } == dict.fromkeys(("missing", "damaged", "newer"), ("unreadable", 1))
    assert all(commit.notes for commit in done.commits)


def test_folders_of_the_same_files_count_once_also_when_nothing_says_that_they_are_one_run(
    spark: SparkSession, store: Store, tmp_path: Path, make_run: MakeRun, verdict_row: Row
) -> None:
    for name in ("a", "b", "c"):
        folder = make_run(name, verdicts=[verdict_row(run_id="one", started_ns=int(name == "c"))], cases=None)
        (folder / rows.RUN).unlink()
    done = taken(spark, store, tmp_path / "runs")
    assert [commit.run_id for commit in store.commits()] == ["a", "c"]
    assert {commit.run_id for commit in done.commits} == {"a", "c"}


def test_runs_are_read_by_as_few_tasks_as_can_be() -> None:
    def works(*sizes: int) -> list[Work]:
        each = [
            Work(run, run, "", Piece(0, size, 1, 1), 0, "", "", "", 1, "", "")
            for run, size in enumerate(sizes)
        ]
        return [*each, *(dataclasses.replace(each[-1], part=part) for part in (1, 2))]

    small, large = module.LEAST_PIECE // 4, module.LEAST_PIECE
    tasks = module._shared_out(works(small, small, small, small, large))
    assert [[work.run for work in task] for task in tasks] == [[0, 1, 2], [3], [4], [4], [4]]
    # One that is worth less than a task is not divided, though a part of it had room in the one before.
    tasks = module._shared_out(works(small, small, small))
    assert [[work.run for work in task] for task in tasks] == [[0, 1], [2, 2, 2]]


def test_rows_of_older_versions_are_read_with_what_stands_for_their_missing_fields(
    spark: SparkSession, store: Store, tmp_path: Path, make_run: MakeRun, verdict_row: Row
) -> None:
    run = make_run("old", verdicts=None, cases=None, kind="conformance")
    about = json.loads((run / rows.RUN).read_text())
    later = rows.later_fields(rows.RunRow)
    (run / rows.RUN).write_text(
        json.dumps({name: about[name] for name in about if name not in later} | {"rows_version": 1})
    )
    old = json.loads(rows.to_json(verdict_row()))
    del old["transport"]
    (run / rows.VERDICTS).write_text(
        json.dumps(old | {"rows_version": 1}) + '\n{"footer":true,"rows":1,"rows_version":1}\n'
    )
    (commit,) = taken(spark, store, tmp_path / "runs").commits
    assert (commit.state, commit.run["environment"], commit.run["parent"]) == ("complete", "", "")
    (row,) = held(store, commit, "verdicts")
    assert (row["transport"], row["rows_version"]) == ("tcp", 1)


def test_findings_of_older_versions_say_of_no_bucket_that_they_hold_it(
    spark: SparkSession, store: Store, tmp_path: Path, make_run: MakeRun
) -> None:
    run = make_run("old", verdicts=None, cases=None)
    kinds: dict[type, object] = {str: "x", int: 1, bool: True}
    hints = typing.get_type_hints(rows.FindingRow)
    later = rows.later_fields(rows.FindingRow)
    fields = [field.name for field in dataclasses.fields(rows.FindingRow) if field.name not in later]
    old = {name: kinds[hints[name]] for name in fields} | {"rows_version": 4}
    new = old | {"case_buckets": ["a", "b"], "rows_version": 5}
    lines = [*map(json.dumps, (old, new)), '{"footer":true,"rows":2,"rows_version":5}']
    (run / rows.FINDINGS).write_text("".join(f"{line}\n" for line in lines))
    (commit,) = taken(spark, store, tmp_path / "runs").commits
    assert [row["case_buckets"] for row in held(store, commit, "findings")] == [[], ["a", "b"]]
    # A file of an earlier version of the store has no such column.
    (entry,) = commit.tables["findings"]
    path = Path(store.uri, entry.path)
    pq.write_table(pq.ParquetFile(path).read().drop_columns(["case_buckets"]), path)
    shown = open_views(spark, store).findings.select("case_buckets").collect()
    assert [row["case_buckets"] for row in shown] == [[], []]


def test_names_of_folders_may_be_anything(
    spark: SparkSession, store: Store, tmp_path: Path, make_run: MakeRun, verdict_row: Row
) -> None:
    names = [
        "a b+c",
        "50%20off",
        "[x]{y}*?",
        "ü\u4e2d",
        "_hidden",
        ".dot",
        "back\\slash",
        "a'b\"c#d",
        "\udcff",
    ]
    for name in names:
        make_run(name, verdicts=[verdict_row(run_id="before")], cases=None)
    taken(spark, store, tmp_path / "runs")
    found = {row["run_id"] for row in open_views(spark, store).checks.collect()}
    assert found == {*names[:-1], "\\udcff"}
    # Whatever they are called, a report can find them.
    folders = {commit.folder for commit in store.commits()}
    assert folders == {str(tmp_path / "runs" / name) for name in names}
    assert all(is_in(commit.folder, commit.run) for commit in store.commits())


def test_a_long_file_is_read_in_pieces_and_a_batch_holds_some_runs(
    spark: SparkSession,
    store: Store,
    tmp_path: Path,
    make_run: MakeRun,
    case_row: Row,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BATCH_RUNS", 2)
    monkeypatch.setattr(module, "LEAST_PIECE", 2000)
    monkeypatch.setattr(module, "MOST_PIECE", 2000)
    monkeypatch.setattr("spark_reports.storage.pieces.scan.__defaults__", (1000,))
    for name, count in (("a", 1), ("big", 100), ("c", 2)):
        make_run(name, verdicts=None, cases=[case_row(number) for number in range(1, count + 1)], kind="fuzz")
    (tmp_path / "runs" / "copy").mkdir()
    told: list[str] = []
    (tmp_path / "runs" / "copy" / rows.RUN).write_bytes((tmp_path / "runs" / "a" / rows.RUN).read_bytes())
    done = ingest(spark, store, find_run_folders([tmp_path / "runs"]), told.append)
    assert [commit.run_id for commit in done.commits] == ["a", "big", "c"]
    assert [path.name for path in done.duplicates] == ["copy"]
    big = done.commits[1]
    assert len(big.tables["cases"]) > 10
    assert sorted(row["case"] for row in held(store, big, "cases")) == list(range(1, 101))
    assert len(told) == 2
    assert told[-1] == "3 of 3 runs: 106 lines in = 103 good + 0 set aside + 0 blank + 3 footers"


def test_runs_in_folders_of_one_name_keep_their_names_in_the_store(
    spark: SparkSession, store: Store, tmp_path: Path, make_run_in: Callable[..., Path], verdict_row: Row
) -> None:
    late = make_run_in(
        tmp_path / "late", "run1", 7, verdicts=[verdict_row()], cases=None, node_version="1.11.0"
    )
    early = make_run_in(tmp_path / "early", "run1", 1, verdicts=[verdict_row("fail")], cases=None)
    going = rows.read_run(early)
    rows.write_run(early, dataclasses.replace(going, status="running", ended_at=None, node_version="unknown"))

    def take(*folders: Path) -> dict[Path, str]:
        return dict(ingest(spark, store, find_run_folders(folders)).names)

    assert take(late) == {late: "run1"}
    (other,) = take(early).values()
    assert re.fullmatch("run1-[0-9a-f]{8}", other)
    # Now it has ended, and is taken in together with the other one, and its name would be another one.
    rows.write_run(early, going)
    assert take(tmp_path) == {late: "run1", early: other}
    assert take(tmp_path) == {late: "run1", early: other}
    assert [(one.run_id, one.attempt, one.run["node_version"]) for one in store.commits()] == [
        (other, 2, "1.10.2"),
        ("run1", 1, "1.11.0"),
    ]
    outcomes = {row["run_id"]: row["outcome"] for row in open_views(spark, store).checks.collect()}
    assert outcomes == {other: "fail", "run1": "pass"}


def test_repaired_run_takes_the_place_of_the_damaged_one(
    spark: SparkSession, store: Store, make_run: MakeRun, verdict_row: Row
) -> None:
    run = make_run("r1", verdicts=[verdict_row()], cases=None, kind="conformance")
    whole = (run / rows.RUN).read_bytes()
    for content in (whole[:200], b"", whole):
        (run / rows.RUN).write_bytes(content)
        ingest(spark, store, find_run_folders([run]))
    (commit,) = store.commits()
    assert (commit.run_id, commit.attempt, commit.state) == ("r1", 3, "complete")


def test_files_that_nobody_may_read_are_told_of(
    spark: SparkSession, store: Store, tmp_path: Path, make_run: MakeRun, verdict_row: Row
) -> None:
    make_run("r1", verdicts=[verdict_row()], cases=None)
    (folder,) = find_run_folders([tmp_path / "runs"])
    (folder.path / rows.VERDICTS).unlink()
    (commit,) = ingest(spark, store, [folder]).commits
    assert commit.state == "cut off"
    assert "verdicts.jsonl cannot be opened (No such file or directory)" in commit.notes
    assert set(commit.tables) == {"runs"}


def test_file_that_is_overwritten_while_it_is_read_is_not_taken_in(
    spark: SparkSession,
    store: Store,
    tmp_path: Path,
    make_run: MakeRun,
    verdict_row: Row,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_run("good", verdicts=[verdict_row()], cases=None)
    for name in ("shorter", "other"):
        make_run(name, verdicts=[verdict_row(), verdict_row()], cases=None)
    folders = find_run_folders([tmp_path / "runs"])
    look = module._look

    def then_change(*arguments: Any) -> Any:
        found = look(*arguments)
        path = tmp_path / "runs" / "shorter" / rows.VERDICTS
        path.write_bytes(path.read_bytes()[:100])
        path = tmp_path / "runs" / "other" / rows.VERDICTS
        path.write_bytes(path.read_bytes().replace(b"\n", b" ", 1))
        return found

    monkeypatch.setattr(module, "_look", then_change)
    done = ingest(spark, store, folders)
    assert [commit.run_id for commit in done.commits] == ["good"]
    other, shorter = sorted(done.troubles)
    assert other.startswith("other: verdicts.jsonl had 3 lines when scanned and 2 when read;")
    assert shorter == "shorter: verdicts.jsonl cannot be read any more (it became shorter)"
    assert [commit.run_id for commit in store.commits()] == ["good"]


def test_raw_files_are_kept_on_demand(
    spark: SparkSession, store: Store, make_run: MakeRun, verdict_row: Row
) -> None:
    run = make_run("r1", verdicts=[verdict_row()], cases=None)
    done = ingest(spark, store, find_run_folders([run]), keep_raw=True)
    (commit,) = done.commits
    kept = {
        Path(entry.path).name: pa.input_stream(store.place.address(entry.path), compression="zstd").read()
        for entry in commit.tables["raw"]
    }
    assert kept == {f"{name}.zst": (run / name).read_bytes() for name in (rows.RUN, rows.VERDICTS)}
