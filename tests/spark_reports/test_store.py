"""The store without Spark: records, attempts, killed and racing writers, other places."""

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs, parquet

from spark_reports.errors import DataTrouble, WrongUse
from spark_reports.rows import ROWS_VERSION
from spark_reports.storage import store as stores
from spark_reports.storage.claims import claim
from spark_reports.storage.commits import STORE_VERSION, Commit, NewerStore, safe_name
from spark_reports.storage.places import LocalPlace, RemotePlace, plain_uri
from spark_reports.storage.store import Account, Draft, Staging, Store, bundle_of

TIMES = 12
"""How often racing processes publish each kind of run."""

ROOT = Path(__file__).parents[2]

STORED = f"""
import os, signal, sys
sys.path.insert(0, {str(ROOT)!r})
import pyarrow as pa
from pyarrow import parquet
from spark_reports.storage.store import Account, Draft, Store

def write(stage, table, count):
    rows = pa.table({{"run_id": [stage.run_id] * count, "attempt": [stage.attempt] * count, "n": range(count)}})
    parquet.write_table(rows, stage.folder(table) + "/part-0.parquet")

def take_in(store, run_id, bundle, count=3):
    with store.staging(run_id) as stage:
        write(stage, "verdicts", count)
        write(stage, "requirements", count)
        account = Account(lines=count, good=count)
        draft = Draft(
            run={{"run_id": run_id, "started_at": "2026-11-01"}}, bundle=bundle, accounts={{"verdicts.jsonl": account}}
        )
        return stage.publish(draft)
"""

_helpers: dict[str, Any] = {}
# The same words run in child processes.
exec(STORED, _helpers)
take_in: Callable[..., Commit] = _helpers["take_in"]
write: Callable[[Staging, str, int], None] = _helpers["write"]


def child(code: str, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", STORED + textwrap.dedent(code), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store", durable=False)


@pytest.fixture
def remote(tmp_path: Path) -> Store:
    """A store on something that gives no promise but that a file is whole."""
    made = Store(tmp_path / "remote")
    (tmp_path / "remote").mkdir()
    made.place = RemotePlace(fs.LocalFileSystem(), str(tmp_path / "remote"), f"file://{tmp_path}/remote")
    return made


def read(store: Store, table: str) -> list[tuple[str, int, int]]:
    """Returns run, attempt and number of every row that a reader sees."""
    files = store.files(table, store.commits(), store.generations().get(table))
    assert not files.merged
    found = []
    for file in files.loose:
        filesystem, path = store.place.arrow(file.path)
        rows = parquet.read_table(path, filesystem=filesystem).to_pylist()
        assert len(rows) == file.rows
        found += [(row["run_id"], row["attempt"], row["n"]) for row in rows]
    return found


def all_files(store: Store) -> set[str]:
    return {found.path for found in store.place.walk("") if not found.path.startswith("_")}


def test_published_run_is_there_with_files_and_accounts(store: Store) -> None:
    with store.staging("r1") as stage:
        write(stage, "verdicts", 3)
        Path(stage.folder("verdicts"), "_SUCCESS").touch()
        Path(stage.folder("verdicts"), ".part-0.parquet.crc").touch()
        write(stage, "cases", 0)
        Path(stage.folder("raw"), "run.json").write_text("{}")
        draft = Draft(
            run={"run_id": "r1", "started_at": "2026-11-01"},
            bundle="b",
            accounts={"verdicts.jsonl": Account(lines=5, good=3, blank=1, footers=1)},
            state="cut off",
            notes=("it ends early",),
        )
        stage.publish(draft)
    (commit,) = Store(store.uri).commits()
    assert (commit.run_id, commit.attempt, commit.started_at) == ("r1", 1, "2026-11-01")
    assert (commit.state, commit.notes, commit.rows_version) == ("cut off", ("it ends early",), ROWS_VERSION)
    assert commit.accounts["verdicts.jsonl"].balanced
    assert set(commit.tables) == {"verdicts", "raw"}
    assert commit.rows("verdicts") == 3
    assert all_files(store) == {
        "tables/verdicts/r1/1/part-0.parquet",
        "raw/r1/1/run.json",
    }


def test_same_bundle_twice_is_one_run(store: Store) -> None:
    first = take_in(store, "r1", "b")
    assert store.has("b")
    assert not store.has("c")
    assert take_in(store, "renamed", "b") == first
    assert [commit.run_id for commit in store.commits()] == ["r1"]
    assert len(all_files(store)) == 2


def test_other_bundle_of_a_run_is_a_new_attempt_that_counts_alone(store: Store) -> None:
    take_in(store, "r1", "b", 3)
    take_in(store, "r1", "c", 2)
    assert [(commit.run_id, commit.attempt) for commit in store.commits()] == [("r1", 2)]
    assert read(store, "verdicts") == [("r1", 2, 0), ("r1", 2, 1)]
    # Whoever hands over what was there before means that.
    assert not store.has("b")
    assert take_in(store, "r1", "b").attempt == 3
    assert [commit.attempt for commit in store.commits()] == [3]


def test_late_run_stands_where_it_started(store: Store) -> None:
    for run_id, day in (("b", 2), ("c", 3), ("a", 1)):
        with store.staging(run_id) as stage:
            write(stage, "verdicts", 1)
            stage.publish(Draft(run={"run_id": run_id, "started_at": f"2026-11-{day:02d}"}, bundle=run_id))
    assert [commit.run_id for commit in store.commits()] == ["a", "b", "c"]


def test_attempts_are_counted_beyond_nine(store: Store) -> None:
    for attempt in range(1, 12):
        assert take_in(store, "r1", f"b{attempt}", 1).attempt == attempt
    assert [commit.attempt for commit in store.commits()] == [11]


def test_body_that_fails_leaves_nothing(store: Store) -> None:
    def fail() -> None:
        with store.staging("r1") as stage:
            write(stage, "verdicts", 1)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert store.commits() == []
    assert all_files(store) == set()
    assert list(Path(store.uri, "_staging").iterdir()) == []


def test_failure_between_moves_leaves_nothing(tmp_path: Path) -> None:
    def step(name: str) -> None:
        if name == "moved one":
            raise TimeoutError

    store = Store(tmp_path / "store", durable=False, step=step)
    with pytest.raises(TimeoutError):
        take_in(store, "r1", "b")
    assert all_files(store) == set()


def test_file_that_is_no_parquet_is_refused(store: Store) -> None:
    with store.staging("r1") as stage:
        Path(stage.folder("cases"), "part-0.parquet").write_bytes(b"PAR1 and then nothing")
        with pytest.raises(DataTrouble, match=r"part-0.parquet was not written completely"):
            stage.publish(Draft(run={"run_id": "r1"}, bundle="b"))


@pytest.mark.parametrize("step", stores.STEPS)
def test_writer_killed_at_any_step_leaves_a_whole_store_and_can_be_repeated(
    tmp_path: Path, step: str
) -> None:
    uri = tmp_path / "store"
    take_in(Store(uri, durable=False), "r0", "b0")
    killed = child(
        """
        def stop(name):
            if name == sys.argv[2]:
                os.kill(os.getpid(), signal.SIGKILL)
        take_in(Store(sys.argv[1], step=stop), "r1", "b1")
        """,
        str(uri),
        step,
    )
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    store = Store(uri, durable=False)
    there = {"r0", "r1"} if step == "committed" else {"r0"}
    assert {commit.run_id for commit in store.commits()} == there
    assert {run_id for run_id, _, _ in read(store, "verdicts")} == there
    assert (uri / "_staging" / "r1.1.lock").exists()

    assert take_in(store, "r1", "b1").attempt == 1
    assert sorted(read(store, "verdicts")) == [("r0", 1, n) for n in range(3)] + [
        ("r1", 1, n) for n in range(3)
    ]
    assert sorted(read(store, "requirements")) == sorted(read(store, "verdicts"))
    store.clean()
    assert list((uri / "_staging").iterdir()) == []
    assert len(all_files(store)) == 4


def test_leftovers_of_other_runs_are_cleaned_but_not_those_of_the_living(store: Store) -> None:
    killed = child(
        """
        def stop(name):
            if name == "moved":
                os.kill(os.getpid(), signal.SIGKILL)
        take_in(Store(sys.argv[1], step=stop), "dead", "b1")
        """,
        store.uri,
    )
    killed.communicate()
    with store.staging("alive") as stage:
        write(stage, "verdicts", 1)
        assert Store(store.uri).clean() == ["dead.1"]
        stage.publish(Draft(run={"run_id": "alive"}, bundle="b"))
    assert [commit.run_id for commit in store.commits()] == ["alive"]
    assert all("/alive/" in path for path in all_files(store))


def test_claim_of_another_machine_is_given_up_only_when_it_is_old(store: Store) -> None:
    store.create()
    area = Path(store.uri, "_staging")
    area.mkdir()
    lock = area / "r1.1.lock"
    lock.write_text(json.dumps({"host": "elsewhere", "pid": 1}))
    assert store.clean() == []
    assert take_in(store, "r1", "b").attempt == 2
    os.utime(lock, (1, 1))
    assert store.clean() == ["r1.1"]


def test_claim_is_one_process_alone(tmp_path: Path) -> None:
    held = claim(tmp_path, "r1.1")
    assert held is not None
    assert claim(tmp_path, "r1.1") is None
    held.release()
    assert list(tmp_path.iterdir()) == []


def test_attempt_that_was_used_since_the_look_at_the_records_is_not_used_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_in(store, "r1", "b")
    monkeypatch.setattr(store, "_next_attempt", lambda _: 1)
    assert take_in(store, "r1", "c").attempt == 2
    assert len(all_files(store)) == 4


@pytest.mark.parametrize("links", [True, False])
def test_record_is_put_only_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    place = LocalPlace(tmp_path / "store")
    assert place.put("_commits/r1.1.json", b"first")
    assert not place.put("_commits/r1.1.json", b"second")
    assert place.read("_commits/r1.1.json") == b"first"
    assert place.names("_commits") == ["r1.1.json"]


def test_processes_at_once_lose_and_double_nothing(tmp_path: Path) -> None:
    """Same run with other bundles, the same bundle, runs of their own: all at the same time, again and again."""
    uri = tmp_path / "store"
    code = """
        me, times = sys.argv[2], int(sys.argv[3])
        store = Store(sys.argv[1], durable=False)
        sys.stdin.read(1)
        for n in range(times):
            take_in(store, f"own{me}-{n}", f"own{me}-{n}", 1)
            take_in(store, "shared", f"shared-{me}-{n}", 2)
            take_in(store, f"same{n}", f"same{n}", 4)
        """
    children = [
        subprocess.Popen(
            [sys.executable, "-c", STORED + textwrap.dedent(code), str(uri), str(me), str(TIMES)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for me in range(3)
    ]
    for one in children:
        assert one.stdin is not None
        one.stdin.write("go")
        one.stdin.close()
        one.stdin = None
    for one in children:
        _, errors = one.communicate()
        assert one.returncode == 0, errors
    store = Store(uri)
    bundles = {commit.bundle for commit in store.history()}
    expected = {f"own{me}-{n}" for me in range(3) for n in range(TIMES)}
    assert bundles == expected | {f"shared-{me}-{n}" for me in range(3) for n in range(TIMES)} | {
        f"same{n}" for n in range(TIMES)
    }
    attempts = [commit.attempt for commit in store.history() if commit.run_id == "shared"]
    assert attempts == list(range(1, 3 * TIMES + 1))
    found = sorted((run_id, n) for run_id, _, n in read(store, "verdicts"))
    assert found == sorted(
        [(run_id, 0) for run_id in expected]
        + [("shared", n) for n in range(2)]
        + [(f"same{k}", n) for k in range(TIMES) for n in range(4)]
    )
    assert list((uri / "_staging").iterdir()) == []


def test_store_of_a_newer_version_is_refused_with_one_line(store: Store) -> None:
    take_in(store, "r1", "b")
    mark = Path(store.uri, "_store.json")
    mark.write_text(json.dumps({"store_version": STORE_VERSION + 1, "format": "parquet"}))
    with pytest.raises(
        NewerStore, match=rf"store version {STORE_VERSION + 1}, this .* up to {STORE_VERSION}"
    ):
        store.commits()
    with pytest.raises(NewerStore), store.staging("r2"):
        pass


@pytest.mark.parametrize("name", ["store_version", "rows_version"])
def test_record_of_a_newer_version_is_refused(store: Store, name: str) -> None:
    take_in(store, "r1", "b")
    record = Path(store.uri, "_commits", "r1.1.json")
    record.write_text(json.dumps(json.loads(record.read_bytes()) | {name: 99}))
    with pytest.raises(NewerStore, match=r"r1\.1\.json .*99.* use a newer one"):
        Store(store.uri).commits()


def test_record_with_fields_of_later_versions_is_read(store: Store) -> None:
    commit = take_in(store, "r1", "b")
    record = Path(store.uri, "_commits", "r1.1.json")
    record.write_text(json.dumps(json.loads(record.read_bytes()) | {"later": 1}))
    assert Store(store.uri).commits() == [commit]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"store_version":1}', '{"store_version":1,"rows_version":1}']
)
def test_damaged_record_is_named(store: Store, text: str) -> None:
    take_in(store, "r1", "b")
    Path(store.uri, "_commits", "r1.1.json").write_text(text)
    with pytest.raises(DataTrouble, match=r"_commits/r1\.1\.json"):
        Store(store.uri).commits()


def test_run_whose_record_was_moved_away_can_be_taken_in_again(store: Store) -> None:
    take_in(store, "r1", "b", 3)
    Path(store.uri, "_commits", "r1.1.json").unlink()
    assert take_in(Store(store.uri, durable=False), "r1", "b", 2).attempt == 1
    assert len(read(store, "verdicts")) == 2


def test_what_is_no_store_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match=r"is not a store; .*ingest"):
        Store(tmp_path / "nowhere").commits()
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").touch()
    with pytest.raises(WrongUse, match="contains other files"):
        Store(tmp_path / "letters").create()
    with pytest.raises(WrongUse, match="cannot write to"):
        Store(tmp_path / "letters" / "a.txt").create()
    with pytest.raises(WrongUse, match="a store is a folder, or a URI"):
        Store("gopher://example/store")


def test_two_may_make_a_store_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Store(store.uri)
    unwatched = store.place.names

    def late(folder: str) -> list[str]:
        if not folder:
            take_in(other, "r1", "b")
        return unwatched(folder)

    monkeypatch.setattr(store.place, "names", late)
    store.create()
    assert len(store.commits()) == 1


def test_store_keeps_its_format(store: Store) -> None:
    store.create("delta")
    assert store.format == "delta"
    with pytest.raises(WrongUse, match="is a store of format delta, not parquet"):
        store.create("parquet")


@pytest.mark.parametrize(
    ("given", "called"),
    [
        ("s3a://bucket/a%20b?region=x&endpoint_override=127.0.0.1%3A1", "s3a://bucket/a b"),
        ("s3://key:secret@bucket/store", "s3://bucket/store"),
        ("abfss://container@account.example/store", "abfss://container@account.example/store"),
        ("hdfs://host:8020/store", "hdfs://host:8020/store"),
    ],
)
def test_other_programs_and_messages_get_no_options_and_no_secret(given: str, called: str) -> None:
    assert plain_uri(given) == called


def test_file_uri_and_path_are_the_same_store(tmp_path: Path) -> None:
    take_in(Store(tmp_path / "a store", durable=False), "r1", "b")
    assert len(Store(f"file://{tmp_path}/a%20store").commits()) == 1


@pytest.mark.parametrize("run_id", ["a.b", "../x", "_hidden", ".hidden", "ä %2f*[?]{}", "x" * 300, "", "~2e"])
def test_any_run_id_is_stored_and_found(store: Store, run_id: str) -> None:
    name = safe_name(run_id)
    assert len(name) < 150
    assert not set(name) & set("./%*?[]{}\\ ")
    assert name[0] not in "._"
    take_in(store, run_id, "b")
    take_in(store, "other", "c")
    assert {commit.run_id for commit in store.commits()} == {run_id, "other"}


def test_safe_names_are_different_for_different_runs() -> None:
    runs = ["a.b", "a~2eb", "a/b", "a~2fb", "_a", "~5fa", "x" * 300, "x" * 301, "r\udcff"]
    assert len({safe_name(run_id) for run_id in runs}) == len(runs)


def test_bundle_is_of_names_and_content_in_any_order(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("1")
    two.write_text("2")
    whole = bundle_of([one, two])
    assert whole == bundle_of([two, one])
    one.write_text("2")
    two.write_text("1")
    assert bundle_of([one, two]) != whole
    assert bundle_of([one]) != whole


def test_remote_store_keeps_runs_too(remote: Store) -> None:
    assert take_in_remote(remote, "r1", "b1").attempt == 1
    assert take_in_remote(remote, "r1", "b2").attempt == 2
    assert take_in_remote(remote, "r2", "b2").run_id == "r1"
    assert read(remote, "verdicts") == [("r1", 2, 0)]
    # Nothing is moved there, so two writers must not share a folder.
    (commit,) = remote.commits()
    assert commit.tables["verdicts"][0].path.startswith("tables/verdicts/r1/2-")


def test_remote_writers_of_the_same_attempt_are_both_whole_and_one_counts(remote: Store) -> None:
    with contextlib.ExitStack() as stack:
        stages = [stack.enter_context(remote.staging("r1")) for _ in range(2)]
        assert [stage.attempt for stage in stages] == [1, 1]
        for count, stage in enumerate(stages, start=1):
            write_remote(stage, count)
            stage.publish(Draft(run={"run_id": "r1", "started_at": ""}, bundle=f"b{count}"))
    assert {commit.bundle for commit in remote.history()} == {"b1", "b2"}
    (commit,) = remote.commits()
    assert [n for _, _, n in read(remote, "verdicts")] == list(range(int(commit.bundle[1:])))
    assert Store(remote.uri).commits() == [commit]


def take_in_remote(store: Store, run_id: str, bundle: str) -> Commit:
    with store.staging(run_id) as stage:
        write_remote(stage, 1)
        return stage.publish(Draft(run={"run_id": run_id, "started_at": ""}, bundle=bundle))


def write_remote(stage: Staging, count: int) -> None:
    filesystem, path = stage.arrow("verdicts")
    rows = pa.table({"run_id": [stage.run_id] * count, "attempt": [stage.attempt] * count, "n": range(count)})
    filesystem.create_dir(path)
    parquet.write_table(rows, f"{path}/part-0.parquet", filesystem=filesystem)


def test_format_that_needs_spark_is_not_written_without(store: Store) -> None:
    store.create("delta")
    with store.staging("r1") as stage, pytest.raises(WrongUse, match="only Spark can write to it"):
        stage.publish(Draft(run={"run_id": "r1"}, bundle="b"))


def test_appended_attempt_is_never_numbered_twice(store: Store) -> None:
    """Rows that were appended to a table cannot be taken back by removing a file."""
    store.create("delta")
    appended: list[tuple[str, str]] = []

    def fail(table: str, _folder: str, target: str) -> None:
        appended.append((table, target))
        raise TimeoutError

    with store.staging("r1") as stage:
        write(stage, "verdicts", 2)
        with pytest.raises(TimeoutError):
            stage.publish(Draft(run={"run_id": "r1", "started_at": ""}, bundle="b"), fail)
    assert appended == [("verdicts", f"{store.uri}/delta/verdicts")]
    with store.staging("r1") as stage:
        assert stage.attempt == 2
        write(stage, "verdicts", 2)
        commit = stage.publish(Draft(run={"run_id": "r1", "started_at": ""}, bundle="b"), lambda *_: None)
    assert commit.rows("verdicts") == 2
    assert store.commits() == [commit]


def opened_by(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the list to which every file that a store opens is added."""
    opened: list[str] = []
    unwatched = store.place.read

    def watched(path: str) -> bytes:
        opened.append(path)
        return unwatched(path)

    monkeypatch.setattr(store.place, "read", watched)
    return opened


def test_each_record_is_opened_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(20):
        take_in(store, f"r{n}", f"b{n}", 1)
    fresh = Store(store.uri)
    opened = opened_by(fresh, monkeypatch)
    for _ in range(3):
        fresh.commits()
        fresh.has("b7")
    records = [path for path in opened if path.startswith("_commits/")]
    assert len(records) == len(set(records)) == 20


def test_checkpoint_holds_the_records_up_to_it_as_they_were_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(17):
        take_in(store, f"r{n:02}", f"b{n}", 1)
    record = Path(store.uri, "_commits", "r03.1.json")
    record.write_text(json.dumps(json.loads(record.read_bytes()) | {"later": 1}))
    store.checkpoint()
    for n in range(17, 20):
        take_in(store, f"r{n:02}", f"b{n}", 1)
    store.checkpoint()
    assert [path.name for path in Path(store.uri, "_checkpoints").iterdir()] == ["17.json"]
    assert '"later":1' in Path(store.uri, "_checkpoints", "17.json").read_text()

    fresh = Store(store.uri)
    opened = opened_by(fresh, monkeypatch)
    assert fresh.commits() == store.commits()
    assert sorted(opened) == [
        "_checkpoints/17.json",
        *(f"_commits/r{n}.1.json" for n in range(17, 20)),
        "_store.json",
    ]
    for n in range(20, 34):
        take_in(store, f"r{n:02}", f"b{n}", 1)
    store.checkpoint()
    assert [path.name for path in Path(store.uri, "_checkpoints").iterdir()] == ["34.json"]
    assert Store(store.uri).commits() == store.commits()


def test_checkpoint_that_is_replaced_while_it_is_looked_for_is_not_needed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(17):
        take_in(store, f"r{n:02}", f"b{n}", 1)
    fresh = Store(store.uri)
    monkeypatch.setattr(fresh, "_checkpoints", lambda: [5])
    assert len(fresh.commits()) == 17
