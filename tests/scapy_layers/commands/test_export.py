"""``zenoh-dissect export``: nothing outside of the folder, nothing overwritten."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scapy_layers.__main__ import main
from tests.scapy_layers.commands.said import Said, final, put, query, reply, with_small_files


def listed(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "export.jsonl").read_text(encoding="utf-8").splitlines()]


def test_each_payload_has_a_file_and_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = Said().say(put("camera/front", b"\xff\xd8", 17), put("text", b"hi", 4))
    said.say(query(1, "q")).say(reply(1, "q", b"answer"), back=True).say(final(1), back=True)
    out = tmp_path / "new" / "out"
    assert main(["export", said.write(tmp_path / "x.pcap"), "--out", str(out)]) == 0
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.suffix != ".jsonl"} == {
        "000001-camera_front.jpg": b"\xff\xd8",
        "000002-text.txt": b"hi",
        "000003-q.bin": b"answer",
    }
    rows = listed(out)
    assert [(row["file"], row["size"], row["event"], row["packet"]) for row in rows] == [
        ("000001-camera_front.jpg", 2, "put", 7),
        ("000002-text.txt", 2, "put", 7),
        ("000003-q.bin", 6, "reply", 9),
    ]
    assert all("payload" not in row for row in rows)
    assert "3 payloads, 10 bytes" in capsys.readouterr().out


def test_several_captures_are_told_apart(tmp_path: Path) -> None:
    captures = [Said().say(put("a", name)).write(tmp_path / f"{name.decode()}.pcap") for name in (b"x", b"y")]
    assert main(["export", *captures, "--out", str(tmp_path / "out")]) == 0
    assert [(row["file"], row["capture"]) for row in listed(tmp_path / "out")] == [
        ("000001-a.bin", captures[0]),
        ("000002-a.bin", captures[1]),
    ]
    assert main(["export", captures[0], "--out", str(tmp_path / "one")]) == 0
    assert "capture" not in listed(tmp_path / "one")[0]


@pytest.mark.parametrize(
    "key",
    [
        "../../etc/passwd",
        "..",
        "/abs",
        "a\0b",
        "a\\..\\b",
        "~",
        "-rf",
        ".hidden",
        "CON",
        "x" * 60_000,
        "é/文",
        "a\n",
    ],
    ids=range(12),
)
def test_no_key_leads_out_of_the_folder(key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = Said().say(put(key, b"payload")).write(tmp_path / "x.pcap")
    out = tmp_path / "deep" / "out"
    assert main(["export", capture, "--out", str(out)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "x.pcap"]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["out"]
    (row,) = listed(out)
    assert (out / row["file"]).read_bytes() == b"payload"
    assert Path(row["file"]).name == row["file"]
    assert len(row["file"]) < 130
    assert row["keyexpr"] == key
    assert "1 payloads" in capsys.readouterr().out


def test_nothing_that_exists_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = Said().say(put("a", b"new")).write(tmp_path / "x.pcap")
    out = tmp_path / "out"
    out.mkdir()
    (out / "000001-a.bin").write_bytes(b"old")
    (out / "000001-a-2.bin").symlink_to(tmp_path / "elsewhere")
    assert main(["export", capture, "--out", str(out)]) == 0
    assert (out / "000001-a.bin").read_bytes() == b"old"
    assert not (tmp_path / "elsewhere").exists()
    assert [row["file"] for row in listed(out)] == ["000001-a-3.bin"]
    assert main(["export", capture, "--out", str(out)]) == 2
    assert "already contains an export" in capsys.readouterr().err
    assert main(["export", capture, "--out", capture]) == 2
    assert "is not a folder" in capsys.readouterr().err


def test_filter_picks_keys_and_wrong_use_leaves_nothing(tmp_path: Path) -> None:
    capture = Said().say(put("a/b"), put("c")).write(tmp_path / "x.pcap")
    assert main(["export", capture, "--out", str(tmp_path / "out"), "--key", "a/**"]) == 0
    assert [row["keyexpr"] for row in listed(tmp_path / "out")] == ["a/b"]
    assert main(["export", capture, "--out", str(tmp_path / "never"), "--key", "a//"]) == 2
    assert main(["export", "/nowhere", "--out", str(tmp_path / "never")]) == 2
    assert not (tmp_path / "never").exists()


def test_full_disk_leaves_whole_payloads_that_are_listed(tmp_path: Path) -> None:
    said = Said().say(put("small", b"whole")).say(put("big", bytes(20_000))).say(put("small", b"never"))
    out = tmp_path / "out"
    done = with_small_files(10_000, "export", said.write(tmp_path / "x.pcap"), "--out", str(out))
    assert (done.returncode, done.stderr) == (2, f"zenoh-dissect: {out}: File too large, after 1 payloads\n")
    assert [row["file"] for row in listed(out)] == ["000001-small.bin"]
    assert sorted(path.name for path in out.iterdir()) == ["000001-small.bin", "export.jsonl"]
