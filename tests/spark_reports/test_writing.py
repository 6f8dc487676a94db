import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from spark_reports import rows
from spark_reports.storage import parse, pieces, writing
from spark_reports.storage.pieces import scan
from spark_reports.storage.tables import arrow_schema
from spark_reports.storage.writing import (
    DONE,
    READ,
    Parts,
    Target,
    Work,
    ddl,
    take_in,
    take_in_piece,
    write_rollups,
)

LOCAL = pafs.LocalFileSystem()
Row = Callable[..., Any]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    for name in ("rows", "apart", "buckets", "case_outcomes"):
        (tmp_path / name).mkdir()
    return tmp_path / rows.FUZZ_CASES


def works(path: Path, most: int = 1 << 30, block: int = pieces.BLOCK) -> list[Work]:
    folder = path.parent
    return [
        Work(
            0,
            0,
            str(path),
            piece,
            part,
            path.name,
            "cases",
            "r1",
            3,
            str(folder / "rows"),
            str(folder / "apart"),
        )
        for part, piece in enumerate(scan(path, most, block).pieces)
    ]


def read(folder: Path) -> list[dict[str, Any]]:
    """Returns the rows in the files of a folder, in the order of their names."""
    assert not [name.name for name in folder.iterdir() if not name.name.startswith("part-")]
    tables = [pq.ParquetFile(file).read() for file in sorted(folder.iterdir())]
    return list(pa.concat_tables(tables, promote_options="default").to_pylist()) if tables else []


def counts(found: list[dict[str, Any]]) -> tuple[int, ...]:
    assert not any(row["trouble"] for row in found)
    return tuple(sum(row[name] for row in found) for name in writing.COUNTS)


def test_piece_becomes_rows_and_lines_kept_apart(path: Path, case_row: Row) -> None:
    path.write_text(
        "\n".join(
            [rows.to_json(case_row(1)), "rubbish", "", rows.to_json(case_row(2)), '{"footer":true}', ""]
        )
    )
    (work,) = works(path)
    found = list(take_in_piece(work, LOCAL))
    assert counts(found) == (5, 2, 1, 1, 1)
    first, second = read(path.parent / "rows")
    assert first == {**dataclasses.asdict(case_row(1)), "attempt": 3}
    assert (second["case"], second["run_id"]) == (2, "r1")
    assert read(path.parent / "apart") == [
        {"run_id": "r1", "attempt": 3, "file": path.name, "line": 2, "reason": "not JSON", "text": "rubbish"}
    ]


def test_one_row_with_unknown_keys_among_many_keeps_them(path: Path, case_row: Row) -> None:
    # So many that they are not parsed together: most tables have no column for what is not known.
    lines = [rows.to_json(case_row(at)) for at in range(1, 41)]
    lines[20] = lines[20].replace("{", '{"note":[1],', 1)
    path.write_text("\n".join([*lines, ""]))
    (work,) = works(path)
    assert counts(list(take_in_piece(work, LOCAL))) == (40, 40, 0, 0, 0)
    found = read(path.parent / "rows")
    assert [row["case"] for row in found] == list(range(1, 41))
    assert [row["case"] for row in found if row["extra"] is not None] == [21]


def test_blocks_and_pieces_lose_no_line_and_no_number(
    path: Path, case_row: Row, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "BLOCK", 700)
    monkeypatch.setattr(writing, "GROUP", 3000)
    lines = [
        rows.to_json(case_row(number, detail="ü")) if number % 7 else "x" * number for number in range(200)
    ]
    path.write_text("\n".join(lines))
    all_works = works(path, 20_000, 5000)
    assert len(all_works) > 3
    found = [row for work in all_works for row in take_in_piece(work, LOCAL)]
    bad = [number for number in range(200) if not number % 7]
    assert counts(found) == (200, 200 - len(bad), len(bad) - 1, 1, 0)
    assert [row["case"] for row in read(path.parent / "rows")] == [n for n in range(200) if n % 7]
    assert [row["line"] for row in read(path.parent / "apart")] == [number + 1 for number in bad[1:]]
    assert len({(row["part"], row["chunk"]) for row in found}) == len(found) > len(all_works)


def test_line_that_is_too_long_is_never_read_whole(
    path: Path, case_row: Row, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "LONGEST_LINE", 5000)
    monkeypatch.setattr(writing, "BLOCK", 1000)
    path.write_text(f"{rows.to_json(case_row(1))}\n{'x' * 1_000_000}\n{rows.to_json(case_row(2))}\n")
    sizes: list[int] = []

    def text_of(line: bytes) -> str:
        sizes.append(len(line))
        return parse.text_of(line)

    monkeypatch.setattr(writing, "text_of", text_of)
    found = [row for work in works(path, block=512) for row in take_in_piece(work, LOCAL)]
    assert counts(found) == (3, 2, 1, 0, 0)
    (apart,) = read(path.parent / "apart")
    assert (apart["line"], apart["reason"]) == (2, "longer than 16 MiB")
    assert sizes == [4 * parse.LONGEST_TEXT]


def test_file_that_became_shorter_or_went_away_is_told_of(path: Path, case_row: Row) -> None:
    path.write_text(rows.to_json(case_row(1)) + "\n")
    (work,) = works(path)
    path.write_text("")
    assert [row["trouble"] for row in take_in_piece(work, LOCAL)] == [
        "fuzz_cases.jsonl cannot be read any more (it became shorter)"
    ]
    path.unlink()
    assert [row["trouble"] for row in take_in_piece(work, LOCAL)] == [
        "fuzz_cases.jsonl cannot be read any more (No such file or directory)"
    ]
    assert read(path.parent / "rows") == []


def test_task_that_is_tried_again_writes_the_same_files(path: Path, case_row: Row) -> None:
    path.write_text(rows.to_json(case_row(1)) + "\nrubbish\n")
    (work,) = works(path)
    run = take_in([[], [work]], [], set(), LOCAL)
    numbers = [pa.RecordBatch.from_pydict({"id": [1]})]
    first = [batch.to_pylist() for batch in run(numbers)]
    names = {file: file.read_bytes() for file in path.parent.glob("*/*")}
    assert [batch.to_pylist() for batch in run(numbers)] == first
    assert {file: file.read_bytes() for file in path.parent.glob("*/*")} == names


def test_rollups_of_a_run_that_one_task_reads_are_written_there(path: Path, case_row: Row) -> None:
    path.write_text("".join(rows.to_json(case_row(number, "panic")) + "\n" for number in range(1, 12)))
    (work,) = works(path)
    folders = {name: str(path.parent / name) for name in ("buckets", "case_outcomes")}
    run = take_in([[work]], [Target("r1", 3, folders)], {work.run}, LOCAL)
    (told,) = run([pa.RecordBatch.from_pydict({"id": [0]})])
    assert told.schema == READ
    assert counts(told.to_pylist()) == (11, 11, 0, 0, 0)
    assert {told.column(name).null_count for name in folders} == {told.num_rows}
    (bucket,) = read(path.parent / "buckets")
    assert (bucket["run_id"], bucket["attempt"], bucket["cases"]) == ("r1", 3, 11)
    assert sum(row["cases"] for row in read(path.parent / "case_outcomes")) == 11


def test_new_columns_begin_a_new_file(tmp_path: Path) -> None:
    parts = Parts(LOCAL, str(tmp_path), "x")
    parts.write(pa.table({"a": [1]}))
    parts.write(pa.table({"a": [2]}))
    parts.write(pa.table({"a": [3], "extra": ["y"]}))
    parts.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["part-x-1.parquet", "part-x.parquet"]
    assert [row["a"] for row in sorted(read(tmp_path), key=lambda row: int(row["a"]))] == [1, 2, 3]


def test_pages_have_checksums(tmp_path: Path) -> None:
    parts = Parts(LOCAL, str(tmp_path), "x")
    parts.write(pa.table({"a": range(1000)}))
    parts.close()
    (path,) = tmp_path.iterdir()
    whole = bytearray(path.read_bytes())
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    first = column.dictionary_page_offset or column.data_page_offset
    whole[first + column.total_compressed_size - 1] ^= 1
    path.write_bytes(whole)
    with pytest.raises(OSError, match="CRC"):
        pq.ParquetFile(path, page_checksum_verification=True).read()


def test_file_that_is_given_up_is_gone(tmp_path: Path) -> None:
    parts = Parts(LOCAL, str(tmp_path), "x")
    parts.write(pa.table({"a": [1]}))
    parts.give_up()
    parts.close()
    assert not list(tmp_path.iterdir())


def test_rollups_of_a_run_are_put_together_in_the_order_of_its_file(
    path: Path, case_row: Row, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "GROUP", 1)
    monkeypatch.setattr(writing, "BLOCK", 600)
    cases = [case_row(number, "panic" if number == 9 else "") for number in range(1, 12)]
    path.write_text("".join(rows.to_json(case) + "\n" for case in cases))
    made = [row for work in works(path, 2000, 500) for row in take_in_piece(work, LOCAL)]
    made.reverse()
    folders = {name: str(path.parent / name) for name in ("buckets", "case_outcomes")}
    done = write_rollups([Target("r1", 3, folders)], LOCAL)(pa.Table.from_pylist(made, schema=READ))
    assert (done.schema, done.num_rows) == (DONE, len(made))
    (bucket,) = read(path.parent / "buckets")
    assert (bucket["run_id"], bucket["attempt"], bucket["cases_before"]) == ("r1", 3, 8)
    assert sum(row["cases"] for row in read(path.parent / "case_outcomes")) == 11


def test_run_with_a_file_that_cannot_be_read_gets_no_rollups(path: Path, case_row: Row) -> None:
    path.write_text(rows.to_json(case_row(1, "panic")) + "\n")
    (work,) = works(path)
    made = [{**row, "trouble": "gone"} for row in take_in_piece(work, LOCAL)]
    folders = {"buckets": str(path.parent / "buckets")}
    write_rollups([Target("r1", 3, folders)], LOCAL)(pa.Table.from_pylist(made, schema=READ))
    assert read(path.parent / "buckets") == []


def test_schemas_are_told_to_spark() -> None:
    assert ddl(DONE) == (
        "number bigint, lines bigint, good bigint, apart bigint, blank bigint, footers bigint, trouble string"
    )
    assert arrow_schema("apart").names == ["run_id", "attempt", "file", "line", "reason", "text"]
