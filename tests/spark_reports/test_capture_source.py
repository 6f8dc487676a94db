"""The data source: what it plans and reads, alone and under Spark."""

import pickle
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.datasource import EqualTo, In
from pyspark.sql.types import StringType, StructField, StructType

from scapy_layers import tables
from scapy_layers.data import Put
from scapy_layers.declarations import DeclareKeyExpr, UndeclareKeyExpr
from scapy_layers.derive.columns import Decoder
from scapy_layers.network import Declare, Push
from scapy_layers.scan import plain
from scapy_layers.transport import Frame
from spark_reports import traffic
from spark_reports.captures import messages
from spark_reports.captures.capture_source import CaptureReader, CaptureSource, FilteredReader, Options, find
from tests.benchmarks._common import frame, handshake, pcap, prefixed, put

PCAPS = Path(__file__).parents[2] / "pcaps"
KEYS = PCAPS / "keys.pcapng"


def reader_of(*paths: Path, **options: str) -> CaptureReader:
    """Returns a reader as a worker gets it: pickled."""
    given = {"paths": pa_json([str(path) for path in paths])} | options
    source = CaptureSource(given)
    found: CaptureReader = pickle.loads(pickle.dumps(source.reader(source.schema())))
    return found


def pa_json(paths: list[str]) -> str:
    return "[" + ", ".join(f'"{path}"' for path in paths) + "]"


def rows_of(reader: CaptureReader) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for task in reader.partitions():
        for batch in reader.read(pickle.loads(pickle.dumps(task))):
            assert batch.schema.equals(reader.schema)
            found += batch.to_pylist()
    return found


def filtered(*paths: Path, **options: str) -> FilteredReader:
    reader = reader_of(*paths, pushdown="true", **options)
    assert isinstance(reader, FilteredReader)
    return reader


def place(row: dict[str, Any]) -> tuple[int, int]:
    return row["batch"], row["offset"]


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of a few MB: one session that puts 30 000 times."""
    path = tmp_path_factory.mktemp("stream") / "stream.pcap"

    def frames() -> Iterator[bytes]:
        opening, seq, back = handshake()
        yield from opening
        for sn in range(30_000):
            data = prefixed(put(100 + sn, sn.to_bytes(4, "big")))
            yield frame(data, seq, ack=back)
            seq += len(data)

    pcap(path, frames())
    return path


# Options and files --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "no captures named"),
        ({"path": "s3://bucket/a.pcap"}, "not a local path"),
        ({"path": "a", "table": "pushes"}, "option table is 'pushes'; it must be one of messages, .*push"),
        (
            {"path": "a", "columns": "packet,key"},
            "option columns is 'key'; it must be one of capture, packet",
        ),
        ({"path": "a", "depth": "deep"}, "must be one of full, header"),
        ({"path": "a", "mode": "strict"}, "must be one of permissive, failfast"),
        ({"path": "a", "message": "push,frames"}, "option message is 'frames'"),
        ({"path": "a", "body": "put,push"}, "option body is 'push'"),
        ({"path": "a", "pushdown": "yes"}, "option pushdown is 'yes'; it must be one of true, false"),
        ({"path": "a", "count": "1"}, "option count is '1'; it must be one of true, false"),
        ({"path": "a", "split": "64MB"}, "must be a number of bytes"),
        ({"path": "a", "tabel": "put"}, "unknown option tabel; the options are table, columns"),
        ({"path": "a", "split": "5"}, "at least 1048576"),
    ],
)
def test_wrong_option_error_says_what_could_be(options: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Options.of(options)


def test_files_folders_and_patterns_are_found_once(tmp_path: Path) -> None:
    for name in ("b.pcap", "a.pcapng", "deep/c.PCAP.gz", "notes.txt", "trace"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    folder = str(tmp_path)
    assert [Path(path).name for path in find([folder])] == ["a.pcapng", "b.pcap", "c.PCAP.gz"]
    assert [Path(path).name for path in find([f"{folder}/*.pcap*", f"{folder}/b.pcap"])] == [
        "a.pcapng",
        "b.pcap",
    ]
    assert [Path(path).name for path in find([f"{folder}/trace"])] == ["trace"]
    assert find([f"{folder}/*.none"]) == []
    with pytest.raises(ValueError, match="no such capture"):
        find([f"{folder}/missing.pcap"])


def test_schema_that_the_table_has_not_is_refused() -> None:
    source = CaptureSource({"path": str(KEYS)})
    whole = source.schema()
    some = StructType([whole["packet"], whole["body"]])
    assert source.reader(some).schema.names == ["packet", "body"]
    with pytest.raises(ValueError, match="column packet is int64, not string"):
        source.reader(StructType([StructField("packet", StringType())]))
    put_schema = CaptureSource({"path": str(KEYS), "table": "put"}).schema()
    with pytest.raises(ValueError, match="option schema is"):
        source.reader(put_schema)


def test_rows_with_lists_cannot_be_counted() -> None:
    with pytest.raises(ValueError, match=r"cannot be used with column qos, which is struct<.*option columns"):
        reader_of(KEYS, table="push", count="true")


def test_counted_rows_need_a_column_for_their_number() -> None:
    source = CaptureSource({"path": str(KEYS), "count": "true", "columns": "message"})
    with pytest.raises(ValueError, match="needs the column count bigint"):
        source.reader(StructType([source.schema()["message"]]))


# Tasks --------------------------------------------------------------------------------------------


def test_many_small_files_are_one_task(tmp_path: Path) -> None:
    for number in range(40):
        shutil.copy(KEYS, tmp_path / f"{number}.pcapng")
    tasks = reader_of(tmp_path).partitions()
    assert [len(task.parts) for task in tasks] == [40]


def test_splits_are_the_whole(stream: Path) -> None:
    columns = {
        "columns": "capture,packet,batch,offset,message,body,sn,key_suffix,payload,source,source_zid,error"
    }
    whole, parts = reader_of(stream, **columns), reader_of(stream, split=str(1 << 20), **columns)
    assert len(whole.partitions()) == 1
    assert len(parts.partitions()) > 1
    found = sorted(rows_of(parts), key=place)
    assert found == sorted(rows_of(whole), key=place)
    assert len(found) == 60_004
    assert found[-1]["payload"] == (29_999).to_bytes(4, "big")
    assert {row["source"] for row in found} == {"127.0.0.1:50000", "127.0.0.1:7447"}
    assert {row["source_zid"] for row in found} == {"7060504030201", "17161514131211"}


def test_split_is_read_without_scapy(stream: Path) -> None:
    """A worker gets everything pickled; here one that refuses to import Scapy."""
    import subprocess

    reader = reader_of(stream, split=str(1 << 20), columns="message,payload")
    (task, *_) = reader.partitions()
    code = (
        "import sys, pickle; sys.modules['scapy'] = None\n"
        "reader, task = pickle.load(sys.stdin.buffer)\n"
        "print(sum(batch.num_rows for batch in reader.read(task)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps((reader, task)),
        capture_output=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr.decode()
    assert int(done.stdout) > 1000


# Filters ------------------------------------------------------------------------------------------


def test_filter_on_capture_opens_no_other_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copy(KEYS, tmp_path / f"{name}.pcapng")
    reader = filtered(tmp_path)
    one = EqualTo(("capture",), str(tmp_path / "a.pcapng"))
    assert list(reader.pushFilters([one])) == [one]
    assert [task.parts for task in reader.partitions()] == [((str(tmp_path / "a.pcapng"), None),)]


def test_filter_on_message_and_body_makes_no_other_table(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    real = tables.read

    def spy(*args: Any, **more: Any) -> Any:
        asked.append(more["selection"].schemas)
        return real(*args, **more)

    monkeypatch.setattr(tables, "read", spy)
    reader = filtered(KEYS, columns="message,body,key_id,key_suffix")
    reader.pushFilters([In(("body",), ("d_keyexpr", "u_keyexpr"))])
    found = rows_of(reader)
    assert {row["body"] for row in found} <= {"d_keyexpr", "u_keyexpr"}
    assert found
    assert set(asked[0]) == {"declare", "d_keyexpr", "u_keyexpr"}
    rows_of(reader_of(KEYS, columns="message,sn", message="keep_alive"))
    assert set(asked[1]) == {"keep_alive"}
    found = rows_of(reader_of(KEYS, columns="body,key_suffix", body="d_keyexpr"))
    assert {row["body"] for row in found} == {"d_keyexpr"}
    assert set(asked[2]) == {"declare", "d_keyexpr"}


# Rows ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["messages", *tables.names()])
def test_every_table_has_the_schema_that_it_says(table: str) -> None:
    reader = reader_of(PCAPS / "mixed.pcapng", PCAPS / "fragments.pcapng", table=table)
    for row in rows_of(reader):
        assert list(row) == reader.schema.names
        assert Path(row["capture"]).parent == PCAPS


def test_header_depth_has_messages_of_the_transport_alone() -> None:
    found = {row["message"] for row in rows_of(reader_of(KEYS, depth="header"))}
    assert {"init", "open", "frame"} <= found <= set(messages.OUTER)
    assert rows_of(reader_of(KEYS, depth="header", table="put")) == []


def test_nanoseconds_are_kept() -> None:
    found = rows_of(reader_of(KEYS, table="push", columns="time,time_ns"))
    assert found
    for row in found:
        assert row["time_ns"] // 1_000 == round(row["time"].timestamp() * 1e6)


def damaged(tmp_path: Path) -> tuple[Path, Path]:
    cut, none = tmp_path / "cut.pcapng", tmp_path / "none.pcap"
    cut.write_bytes(KEYS.read_bytes()[:-30])
    none.write_bytes(b"this is no capture at all")
    return cut, none


def test_damaged_files_among_others_are_read_as_far_as_they_are_whole(tmp_path: Path) -> None:
    cut, none = damaged(tmp_path)
    shutil.copy(KEYS, tmp_path / "whole.pcapng")
    found = rows_of(reader_of(tmp_path, columns="capture,message,error"))
    wrong = {Path(row["capture"]).name: row["error"] for row in found if row["error"]}
    assert set(wrong) == {cut.name, none.name}
    assert "the file ends inside" in wrong[cut.name]
    assert "neither pcap nor pcapng" in wrong[none.name]
    counts = [sum(Path(row["capture"]).name == name for row in found) for name in (cut.name, "whole.pcapng")]
    assert counts[1] > 50
    assert abs(counts[1] - counts[0]) < 10
    errors = rows_of(reader_of(tmp_path, table="errors"))
    assert {Path(row["capture"]).name: row["kind"] for row in errors} == dict.fromkeys(wrong, "CaptureError")


def test_what_reads_captures_is_prepared_once_for_all_of_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To prepare it takes longer than to read a small capture, as a run of the suite leaves by the hundred."""
    made: list[Decoder] = []

    def decoder(*given: Any) -> Decoder:
        made.append(Decoder(*given))
        return made[-1]

    for module in (tables, plain):
        monkeypatch.setattr(module, "Decoder", decoder)
    assert rows_of(reader_of(KEYS))
    of_one = len(made)
    for number in range(3):
        shutil.copy(KEYS, tmp_path / f"{number}.pcapng")
    assert {Path(row["capture"]).stem for row in rows_of(reader_of(tmp_path))} == {"0", "1", "2"}
    assert len(made) == 2 * of_one > 0


def test_damaged_file_fails_fast_when_asked_to(tmp_path: Path) -> None:
    for path in damaged(tmp_path):
        with pytest.raises(ValueError, match=r"ends inside|neither pcap"):
            rows_of(reader_of(path, mode="failfast", columns="message"))


# Spark --------------------------------------------------------------------------------------------


def test_spark_reads_filters_and_selects(spark: SparkSession, tmp_path: Path) -> None:
    traffic.register(spark)
    cut, none = damaged(tmp_path)
    columns = "capture,message,body,packet"
    source = spark.read.format("zenoh").option("columns", columns)
    paths = [str(KEYS), str(cut), str(none)]
    rows = rows_of(reader_of(KEYS, cut, none, columns=columns))
    counts = Counter((row["message"], row["packet"] > 30) for row in rows if row["message"])

    def told(frame: DataFrame) -> Counter[tuple[str, bool]]:
        grouped = frame.groupBy("message", (sf.col("packet") > 30).alias("late")).count().collect()
        return Counter({(row.message, row.late): row["count"] for row in grouped if row.message})

    pushed = source.option("pushdown", "true").load(paths).where("message = 'push' and packet > 30")
    assert told(pushed) == {("push", True): counts["push", True]}
    # One frame with several filters is safe as it is read without that option.
    read = source.option("pushdown", "false").load(paths)
    both = read.where("message = 'push'").union(read.where("message = 'frame'"))
    assert told(both) == Counter(
        {name: number for name, number in counts.items() if name[0] in {"push", "frame"}}
    )


@pytest.mark.parametrize("said", [None, "python3.99"])
def test_workers_run_this_python_unless_another_one_is_said(
    said: str | None, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As of a session that was started by a Python whose environment is not activated.
    monkeypatch.setattr(spark.sparkContext, "pythonExec", said or "python3")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if said:
        monkeypatch.setenv("PYSPARK_PYTHON", said)
    traffic.register(spark)
    assert spark.sparkContext.pythonExec == (said or sys.executable)
    monkeypatch.undo()
    traffic.register(spark)


def test_spark_counts_alike_rows_as_it_counts_rows(spark: SparkSession, tmp_path: Path) -> None:
    traffic.register(spark)
    cut, none = damaged(tmp_path)
    paths = [str(KEYS), str(cut), str(none)]
    by = ["capture", "message", "key_scope", "key_suffix", "error"]
    source = spark.read.format("zenoh").option("columns", ",".join(by))
    apart = {tuple(row) for row in source.load(paths).groupBy(*by).agg(sf.count("*")).collect()}
    counted = source.option("count", "true").load(paths)
    assert counted.columns == [*by, "count"]
    found = counted.groupBy(*by).agg(sf.count("*").alias("rows"), sf.sum("count")).collect()
    assert {(*row[:-2], row[-1]) for row in found} == apart
    assert sum(row["rows"] for row in found) < sum(row[-1] for row in apart)
    assert any(row[-1] > 1 for row in apart)


def test_alike_messages_count_as_one_only_between_two_changes_of_numbers(tmp_path: Path) -> None:
    """A number stands for another key every 1000 messages; once in the midst of a batch."""
    path = tmp_path / "aliases.pcap"
    kinds = 24

    def batches() -> Iterator[bytes]:
        for kind in range(kinds):
            declared = Declare(body=DeclareKeyExpr(key_id=1, key_suffix=f"key/{kind}"))
            undeclared = Declare(body=UndeclareKeyExpr(key_id=1))
            said = Push(key_scope=1, N=1, M=1, key_suffix="/x" * 20, body=Put(data=b"x"))
            yield bytes(Frame(R=1, sn=1, messages=[declared, said]))
            yield from [bytes(Frame(R=1, sn=1, messages=[said]))] * 1000
            yield bytes(Frame(R=1, sn=1, messages=[said, undeclared, said]))

    def frames() -> Iterator[bytes]:
        opening, seq, back = handshake()
        yield from opening
        for batch in batches():
            data = prefixed(batch)
            yield frame(data, seq, ack=back)
            seq += len(data)

    pcap(path, frames())
    columns = "connection,forward,batch,pieces,offset,message,body,key_scope,key_suffix,mapping"
    for split in (1 << 20, 1 << 30):
        reader = reader_of(path, columns=columns, count="true", split=str(split), message="push")
        found = rows_of(reader)
        assert sum(row["count"] for row in found) == kinds * 1003
        many = [row["count"] for row in found if row["count"] > 1]
        assert sum(many) == kinds * 1000
        assert len(many) >= kinds
        assert len(found) == len(many) + 3 * kinds
        # Where one of them stands is where the first of them does.
        apart = rows_of(reader_of(path, columns=columns, split=str(split), message="push"))
        places = {place(row) for row in apart}
        assert all(place(row) in places for row in found)
        whole = [batch for row in found if row["count"] > 1 for batch in (row["batch"],)]
        assert len(set(whole)) == len(whole)
    # Without all of the place, it is a column like others.
    assert len(rows_of(reader_of(path, columns="batch", count="true", message="push"))) == kinds * 1002


def test_error_in_an_option_is_told_by_spark(spark: SparkSession) -> None:
    traffic.register(spark)
    with pytest.raises(PySparkException, match="option table is 'nothing'"):
        spark.read.format("zenoh").option("table", "nothing").load(str(KEYS))
