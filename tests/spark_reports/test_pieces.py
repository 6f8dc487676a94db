import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_reports.storage import pieces
from spark_reports.storage.pieces import Piece, bundle, scan, scan_all
from spark_reports.storage.store import bundle_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "verdicts.jsonl"


def test_file_without_a_line_has_no_pieces(path: Path) -> None:
    path.write_bytes(b"")
    assert scan(path, 100) == pieces.Scan(hashlib.sha256().hexdigest(), 0, 0, ())


def test_pieces_end_where_lines_do(path: Path) -> None:
    path.write_bytes(b"one\ntwo\nthree\nfour")
    found = scan(path, 6, block=4)
    assert found.pieces == (Piece(0, 8, 1, 2), Piece(8, 14, 3, 1), Piece(14, 18, 4, 1, last=True))
    assert (found.size, found.lines) == (18, 4)


@settings(max_examples=200, deadline=None)
@given(
    data=st.lists(st.sampled_from([b"", b"a", b"\n", b"bcd", b"0123456789"]), max_size=60).map(b"".join),
    most=st.integers(1, 40),
    block=st.integers(1, 30),
)
def test_pieces_cover_each_line_once_with_its_number(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, most: int, block: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "pieces.jsonl"
    path.write_bytes(data)
    found = scan(path, most, block=block)
    assert found.digest == hashlib.sha256(data).hexdigest()
    assert b"".join(data[piece.start : piece.end] for piece in found.pieces) == data
    lines = data.splitlines(keepends=True)
    assert found.lines == len(lines)
    at = 0
    for piece in found.pieces:
        assert piece.first_line == at + 1
        held = lines[at : at + piece.lines]
        assert b"".join(held) == data[piece.start : piece.end]
        at += piece.lines
    assert at == len(lines)
    assert [piece.last for piece in found.pieces[:-1]] == [False] * (len(found.pieces) - 1)


@pytest.mark.parametrize("end", [b"\n", b""])
def test_line_that_is_too_long_is_a_piece_of_its_own(
    path: Path, monkeypatch: pytest.MonkeyPatch, end: bytes
) -> None:
    monkeypatch.setattr(pieces, "LONGEST_LINE", 20)
    path.write_bytes(b"a\nb\n" + b"x" * 30 + b"\nc\n" + b"y" * 40 + end)
    found = scan(path, 1000, block=8)
    assert found.pieces[:3] == (Piece(0, 4, 1, 2), Piece(4, 35, 3, 1, long=True), Piece(35, 37, 4, 1))
    assert (found.pieces[3].start, found.pieces[3].long, found.lines) == (37, True, 5)


def test_bundle_is_that_of_the_store(tmp_path: Path) -> None:
    files = [tmp_path / "run.json", tmp_path / "verdicts.jsonl"]
    for number, path in enumerate(files):
        path.write_text(f"{number}\n")
    digests = {path.name: scan(path, 10).digest for path in files}
    assert bundle(digests) == bundle_of(files)


def test_file_that_cannot_be_read_has_its_error(path: Path) -> None:
    path.write_bytes(b"a\n")
    gone = path.with_name("gone.jsonl")
    found = scan_all({path: 10, gone: 10})
    assert isinstance(found[gone], FileNotFoundError)
    assert found[path] == scan(path, 10)
