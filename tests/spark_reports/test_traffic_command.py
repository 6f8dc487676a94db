import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.csv
import pytest
from pyspark.sql import SparkSession

from spark_reports.__main__ import main
from spark_reports.captures.traffic_report import inert
from tests.benchmarks._common import frame, handshake, pcap, prefixed
from tests.spark_reports.frames import local_frame

Capture = pytest.CaptureFixture[str]
HOSTILE = "<script>alert(1)</script>\u202e"


def one_line(text: str) -> str:
    (line,) = text.splitlines()
    return line


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A capture of two PUTs on a key that would like to be a script."""
    key = HOSTILE.encode()

    def frames() -> Iterator[bytes]:
        opening, seq, back = handshake()
        yield from opening
        for sn in (100, 101):
            message = b"\x3d\x00" + bytes([len(key)]) + key + b"\x01\x04data"
            data = prefixed(b"\x25" + bytes([sn]) + message)
            yield frame(data, seq, ack=back)
            seq += len(data)

    path = tmp_path / "captures" / "hostile.pcap"
    path.parent.mkdir()
    pcap(path, frames())
    return path


@pytest.mark.usefixtures("spark")
def test_captures_give_a_page_numbers_and_tables(tmp_path: Path, hostile: Path, capsys: Capture) -> None:
    (hostile.parent / "broken.pcap").write_bytes(b"no capture")
    (hostile.parent / "empty.pcap").write_bytes(hostile.read_bytes()[:24])
    out = tmp_path / "out"
    command = ["traffic", str(hostile.parent), "--out", str(out), "--format", "csv", "--interval", "100ms"]
    assert main(command) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[-1] == str(out / "traffic.html")
    assert "3 captures; 1 damaged capture: 8 messages, 2 events" in lines[0]
    assert "warning" in printed.err
    assert "\u202e" not in printed.out
    assert "<script" not in (out / "traffic.html").read_text()
    told = json.loads((out / "traffic.json").read_text())
    assert [(key["keyexpr"], key["puts"], key["payload_bytes"]) for key in told["keys"]] == [(HOSTILE, 2, 8)]
    assert {Path(line["capture"]).name: line["messages"] for line in told["captures"]} == {
        "broken.pcap": 0,
        "empty.pcap": 0,
        "hostile.pcap": 8,
    }
    assert {path.name for path in out.iterdir() if path.is_dir()} == {
        "keys",
        "nodes",
        "rates",
        "requests",
        "sessions",
        "gaps",
        "errors",
    }
    (keys,) = (out / "keys").glob("*.csv")
    assert pyarrow.csv.read_csv(keys).column("puts").to_pylist() == [2]


def test_tables_for_spreadsheets_run_nothing(spark: SparkSession, tmp_path: Path) -> None:
    said = ["=HYPERLINK(1)", "@SUM(1)", "-1+1", "a\x1b[31m\u202eb", 'q"u,o', "plain", None]
    frame = local_frame(spark, [(text, 1) for text in said], "keyexpr string, puts int")
    table = inert(frame).write.option("header", True).option("escape", '"')
    table.csv(str(tmp_path / "keys"))
    (path,) = (tmp_path / "keys").glob("*.csv")
    with path.open(newline="", encoding="utf-8") as file:
        got = [row["keyexpr"] for row in csv.DictReader(file)]
    assert got == ["'=HYPERLINK(1)", "'@SUM(1)", "'-1+1", "a\ufffd[31m\ufffdb", 'q"u,o', "plain", ""]


def test_missing_capture_is_wrong_use(tmp_path: Path, capsys: Capture) -> None:
    assert main(["traffic", str(tmp_path / "none.pcap"), "--out", str(tmp_path / "out")]) == 2
    assert "no such capture" in one_line(capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def test_folder_without_captures_has_nothing_to_report(tmp_path: Path, capsys: Capture) -> None:
    assert main(["traffic", str(tmp_path), "--out", str(tmp_path / "out")]) == 3
    assert "no captures in" in one_line(capsys.readouterr().err)


@pytest.mark.parametrize("interval", ["fast", "0", "-1s", "1d", "1us", "nan", "1e99h", "s"])
def test_wrong_interval_is_wrong_use(interval: str, tmp_path: Path, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["traffic", str(tmp_path), "--out", str(tmp_path), f"--interval={interval}"])
    assert ended.value.code == 2
    assert "such as 100ms, 1s, 5m or 1h" in capsys.readouterr().err
