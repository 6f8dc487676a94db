"""Folders for the time of a command, also when it is killed."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spark_reports.engine.scratch import remove_leftovers, scratch, shared

ROOT = Path(__file__).parents[2]

# Two folders with something in them, until standard input ends.
HOLD = """if True:
    import sys
    from spark_reports.engine.scratch import scratch
    with scratch() as one, scratch("store") as other:
        for folder in (one, other):
            (folder / "deep").mkdir()
            (folder / "deep" / "file").touch()
            (folder / "link").symlink_to("/")
            print(folder, flush=True)
        sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def holding(place: Path) -> Iterator[tuple["subprocess.Popen[str]", list[Path]]]:
    """Runs a process that has two folders."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(place)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process, [Path(process.stdout.readline().strip()) for _ in range(2)]


def test_folder_is_private_and_goes_away(place: Path) -> None:
    with scratch("store") as folder:
        assert (folder.parent, folder.stat().st_mode & 0o777) == (place, 0o700)
        assert folder.name.startswith("zenoh-reports-store-")
        (folder / "file").touch()
    assert list(place.iterdir()) == []


def test_folders_of_a_process_stay_until_it_ends_in_order(place: Path) -> None:
    with holding(place) as (process, folders):
        remove_leftovers()
        assert all((folder / "deep" / "file").exists() for folder in folders)
        process.communicate()
    assert list(place.iterdir()) == []


def test_folders_of_a_process_that_was_killed_go_with_the_next_command(place: Path) -> None:
    with holding(place) as (process, folders):
        process.kill()
        process.wait()
        assert all((folder / "deep" / "file").exists() for folder in folders)
    with scratch() as mine:
        assert list(place.iterdir()) == [mine]


def test_folder_stays_as_long_as_another_process_uses_it(place: Path) -> None:
    with (
        holding(place) as (process, (one, other)),
        shared(one) as handle,
        subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(handle,)
        ) as user,
    ):
        process.kill()
        process.wait()
        remove_leftovers()
        assert (one.exists(), other.exists()) == (True, False)
        user.kill()
    remove_leftovers()
    assert list(place.iterdir()) == []


def test_what_may_belong_to_somebody_stays(place: Path) -> None:
    # Of an earlier version, of a process that is about to lock it, of another machine.
    for name, owner in (("a", None), ("b", ""), ("c", "another host")):
        (place / f"zenoh-reports-{name}").mkdir()
        if owner is not None:
            (place / f"zenoh-reports-{name}" / "_owner").write_text(owner)
    (place / "zenoh-reports-d").mkdir()
    (place / "zenoh-reports-d" / "_owner").symlink_to("/etc/passwd")
    remove_leftovers()
    assert sorted(path.name[-1] for path in place.iterdir()) == ["a", "b", "c", "d"]
