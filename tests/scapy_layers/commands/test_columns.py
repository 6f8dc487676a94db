"""``zenoh-dissect columns``: every table a file, nothing overwritten, nothing left half-way."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyarrow import parquet

from scapy_layers import tables
from scapy_layers.__main__ import main
from scapy_layers.commands import columns
from tests.scapy_layers.commands.said import Said, put, with_small_files
from tests.scapy_layers.packets import pcap


@pytest.fixture
def capture(tmp_path: Path) -> str:
    said = Said().say(put("a/b", b"one")).say(put("a/c", b"two"), put("a/d", b"three"))
    return said.write(tmp_path / "x.pcap")


def test_each_table_has_a_file_also_without_rows(
    capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "out"
    assert main(["columns", capture, "--out", str(out)]) == 0
    assert {path.name for path in out.iterdir()} == set(tables.names())
    for name in tables.names():
        assert [path.name for path in (out / name).iterdir()] == ["x.pcap.parquet"]
        assert parquet.read_schema(out / name / "x.pcap.parquet").equals(tables.schema(name))
    rows = parquet.read_table(out / "put" / "x.pcap.parquet").to_pylist()
    assert [(row["packet"], row["data"]) for row in rows] == [(7, b"one"), (8, b"two"), (8, b"three")]
    assert not parquet.read_table(out / "errors" / "x.pcap.parquet").num_rows
    # A busy machine takes a second, and is told how fast that was.
    said = f"{capture}: 8 packets, 12 messages in 6 batches, 0 errors, 0 gaps"
    assert capsys.readouterr().out.partition(";")[0].strip() == said


def test_only_what_is_wanted_is_written(capture: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["--tables", "connections", "--columns", "push.key_suffix,push.packet"]
    assert main(["columns", capture, "--out", str(out), *arguments]) == 0
    assert {path.name for path in out.iterdir()} == {"connections", "push"}
    table = parquet.read_table(out / "push" / "x.pcap.parquet")
    assert table.to_pydict() == {"packet": [7, 8, 8], "key_suffix": ["a/b", "a/c", "a/d"]}


def test_columns_of_what_is_no_message_can_be_chosen(capture: str, tmp_path: Path) -> None:
    assert (
        main(["columns", capture, "--out", str(tmp_path / "out"), "--columns", "connections.source_zid"]) == 0
    )
    table = parquet.read_table(tmp_path / "out" / "connections" / "x.pcap.parquet")
    assert table.to_pydict() == {"source_zid": ["1a1"]}


def test_damaged_capture_is_written_as_far_as_it_is_whole(
    capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(capture)
    path.write_bytes(path.read_bytes()[:-1])
    assert main(["columns", capture, "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr()
    assert "7 packets" in said.out
    assert "the file ends inside a packet" in said.err
    (row,) = parquet.read_table(tmp_path / "out" / "errors" / "x.pcap.parquet").to_pylist()
    assert row["kind"] == "CaptureError"


def test_file_that_exists_is_not_written_to(
    capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "out" / "put" / "x.pcap.parquet"
    there.parent.mkdir(parents=True)
    there.write_bytes(b"mine")
    assert main(["columns", capture, "--out", str(tmp_path / "out")]) == 2
    assert f"{there} already exists; choose another folder with --out" in capsys.readouterr().err
    assert there.read_bytes() == b"mine"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["put"]


def test_captures_of_one_name_are_refused(
    capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["columns", capture, capture, "--out", str(tmp_path / "out")]) == 2
    assert "two captures are named x.pcap" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tables", "puts"], "no table 'puts'"),
        (["--columns", "put"], "--columns takes table.column"),
        (["--columns", "put.nothing"], "no column 'nothing' in put; there are packet, time"),
    ],
)
def test_name_that_does_not_exist_is_wrong_use(
    arguments: list[str], said: str, capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["columns", capture, "--out", str(tmp_path / "out"), *arguments]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_read_leaves_nothing_behind(
    capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text("no capture")
    given = [str(tmp_path / "text"), str(tmp_path / "nothing"), str(tmp_path), capture]
    assert main(["columns", *given, "--out", str(tmp_path / "out"), "--tables", "put"]) == 2
    told = capsys.readouterr().err
    assert "text: neither pcap nor pcapng" in told
    assert "nothing: No such file" in told
    assert "a folder, not a capture" in told
    assert [path.name for path in (tmp_path / "out" / "put").iterdir()] == ["x.pcap.parquet"]


def test_capture_of_a_link_that_is_not_read_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wireless.pcap"
    path.write_bytes(pcap([bytes(80)], link=105))
    assert main(["columns", str(path), "--out", str(tmp_path / "out"), "--tables", "put"]) == 0
    assert "no packets are TCP or UDP over Ethernet" in capsys.readouterr().err


def test_folder_that_cannot_be_made_is_told(
    capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["columns", capture, "--out", str(tmp_path / "file" / "out")]) == 2
    assert "file" in capsys.readouterr().err


def test_interruption_leaves_nothing_behind(
    capture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "ROWS", 1)
    whole = columns._Files._write

    def write(files: columns._Files, name: str) -> None:
        whole(files, name)
        if name == "put":
            raise KeyboardInterrupt

    monkeypatch.setattr(columns._Files, "_write", write)
    assert main(["columns", capture, "--out", str(tmp_path / "out")]) == 130
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


@pytest.mark.parametrize("most", [2, 1_000])
def test_full_disk_leaves_nothing_behind(most: int, capture: str, tmp_path: Path) -> None:
    done = with_small_files(most, "columns", capture, "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert done.stderr.startswith(f"zenoh-dissect: {tmp_path / 'out'}: ")
    assert "File too large" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


def test_standard_input_is_read(capture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = io.BytesIO(Path(capture).read_bytes())
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=data))
    assert main(["columns", "-", "--out", str(tmp_path / "out"), "--tables", "put"]) == 0
    assert parquet.read_table(tmp_path / "out" / "put" / "stdin.parquet").num_rows == 3


def test_missing_package_is_told_with_what_to_install(
    capture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [
        name for name in sys.modules if name.startswith(("scapy_layers.tables", "scapy_layers.scan"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("scapy_layers.tables")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["columns", capture, "--out", str(tmp_path / "out")]) == 2
    assert "needs numpy and pyarrow" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--out", "x", "--tables", ""], "--tables: names none"),
        (["--out", "x", "--columns", ","], "--columns: names none"),
        (["--out", ""], "--out: is empty"),
    ],
)
def test_nothing_where_a_name_belongs_is_wrong_use(
    arguments: list[str], said: str, capture: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["columns", capture, *arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_capture_whose_name_is_no_utf_8_has_tables(capture: str, tmp_path: Path) -> None:
    named = tmp_path / os.fsdecode(b"gr\xf6\xdfe.pcap")
    named.write_bytes(Path(capture).read_bytes())
    assert main(["columns", str(named), "--out", str(tmp_path / "out"), "--tables", "put"]) == 0
    with (tmp_path / "out" / "put" / f"{named.name}.parquet").open("rb") as file:
        assert parquet.read_table(file).num_rows
