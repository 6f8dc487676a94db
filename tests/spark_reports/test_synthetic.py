"""Synthetic runs: the same bytes from the same seed, and a truth that the folders bear out."""

import collections
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_reports import folders, recall, rows, synthetic, synthetic_plan
from spark_reports.recall import Truth


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    root = tmp_path_factory.mktemp("synthetic") / "runs"
    return root, synthetic.make(root, synthetic.LEAST_RUNS, seed=3)


def _verdicts(root: Path) -> Iterator[tuple[rows.RunRow, dict[str, str]]]:
    for folder in sorted(root.iterdir()):
        if folder.name.startswith("copy"):
            continue
        run = rows.read_run(folder)
        for row in rows.read_rows(folder / rows.VERDICTS).rows:
            yield run, row


def _digest(root: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(root)} ".encode() + path.read_bytes())
    return digest.hexdigest()


def test_same_seed_gives_the_same_bytes(made: tuple[Path, Truth], tmp_path: Path) -> None:
    root, truth = made
    assert synthetic.make(tmp_path, synthetic.LEAST_RUNS, seed=3) == truth
    assert _digest(tmp_path) == _digest(root)


def test_every_class_is_planted(made: tuple[Path, Truth]) -> None:
    _, truth = made
    # With so few runs a drift is there, and need not be found.
    assert {name for name in recall.CLASSES if truth.planted[name] or truth.either[name]} == set(
        recall.CLASSES
    )
    assert {name for name in recall.CLASSES if not truth.planted[name]} == {recall.SLOWER, recall.FASTER}


def test_accounts_are_what_the_reader_of_rows_counts(made: tuple[Path, Truth]) -> None:
    root, truth = made
    good = 0
    for run_id, name, *counts in truth.planted[recall.ACCOUNT]:
        lines, of_rows, apart, blank, footers = map(int, counts)
        found = rows.read_rows(root / run_id / name)
        assert (len(found.rows), len(found.bad)) == (of_rows, apart), f"{run_id}/{name}"
        assert lines == of_rows + apart + blank + footers
        text = (root / run_id / name).read_bytes()
        assert lines == text.count(b"\n") + (not text.endswith(b"\n"))
        good += of_rows
    assert good == truth.rows


def test_states_are_what_folders_are_judged_to_be(made: tuple[Path, Truth]) -> None:
    root, truth = made
    accounts: dict[str, dict[str, folders.Counted]] = collections.defaultdict(dict)
    for run_id, name, _, good, apart, *_ in truth.planted[recall.ACCOUNT]:
        accounts[run_id][name] = folders.Counted(int(good), int(apart))
    found = {
        (folder.run.run_id, folders.judge(folder, accounts[folder.path.name])[0])
        for folder in folders.find_run_folders([root])
    }
    assert found == truth.planted[recall.STATE]


def test_new_failures_fail_in_the_newest_release_only(made: tuple[Path, Truth]) -> None:
    root, truth = made
    newest = synthetic_plan.RELEASES[-1]
    failed: dict[tuple[str, str], list[tuple[bool, str]]] = collections.defaultdict(list)
    for run, row in _verdicts(root):
        if truth.line_of[run.run_id] in {"router", "router over tls", "client"}:
            failed[row["test"], row["transport"]].append((row["outcome"] == "fail", run.node_version))
    always = 0
    for fact in truth.planted[recall.NEW_FAILURE]:
        of_newest = [bad for bad, version in failed[fact[0], fact[1]] if version == newest]
        of_others = [bad for bad, version in failed[fact[0], fact[1]] if version != newest]
        assert sum(of_newest) / len(of_newest) > 0.4
        assert sum(of_others) / len(of_others) < 0.3
        always += not any(of_others)
    assert always >= 5


def test_runs_that_stand_alone_share_neither_machine_nor_options(made: tuple[Path, Truth]) -> None:
    root, truth = made
    keys = collections.Counter(
        (run.node_impl, run.node_whatami, run.environment, run.configuration)
        for run in map(rows.read_run, (path for path in root.iterdir() if not path.name.startswith("copy")))
    )
    for (run_id,) in truth.planted[recall.NOT_COMPARABLE]:
        run = rows.read_run(root / run_id)
        assert keys[run.node_impl, run.node_whatami, run.environment, run.configuration] == 1


def test_too_few_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="5 runs are too few; at least 100"):
        synthetic.make(tmp_path / "runs", 5)
    assert not (tmp_path / "runs").exists()
