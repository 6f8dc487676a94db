import subprocess
from pathlib import Path

import pytest

from conformance import environment
from conformance.environment import build_version, configuration, harness_commit
from spark_reports.frames.versions import parse_version


def test_environment_is_one_line_of_what_results_depend_on() -> None:
    text = environment.environment()
    assert text == environment.environment()
    parts = text.split(", ")
    assert "\n" not in text
    assert parts[-1].startswith(("CPython 3.", "PyPy 3."))
    assert parts[-2].endswith(("core", "cores"))


def test_unknown_processor_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment, "CPU_INFO", tmp_path / "none")
    monkeypatch.setattr("platform.processor", lambda: "")
    environment.environment.cache_clear()
    try:
        assert ", ," not in environment.environment()
    finally:
        environment.environment.cache_clear()


def test_commit_of_a_checkout_tells_when_files_differ(tmp_path: Path) -> None:
    assert harness_commit(tmp_path) == ""
    assert build_version("0.1.0", tmp_path) == "0.1.0"

    def git(*words: str) -> None:
        who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *who, *words], check=True, capture_output=True)

    git("init")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "one")
    harness_commit.cache_clear()
    clean = harness_commit(tmp_path)
    assert len(clean) == 12
    assert build_version("0.1.0", tmp_path) == f"0.1.0-1-g{clean}"
    assert parse_version(build_version("0.1.0", tmp_path)) is not None
    (tmp_path / "a").write_text("2")
    harness_commit.cache_clear()
    assert harness_commit(tmp_path) == f"{clean}+"
    assert build_version("0.1.0", tmp_path) == f"0.1.0-1-g{clean}-dirty"
    git("commit", "-am", "two")
    # How many commits there were before is not known in a copy without them.
    copy = tmp_path / "copy"
    git("clone", "--depth", "1", f"file://{tmp_path}", str(copy))
    harness_commit.cache_clear()
    assert build_version("0.1.0", tmp_path).startswith("0.1.0-2-g")
    assert build_version("0.1.0", copy) == "0.1.0"


@pytest.mark.parametrize(
    ("words", "before", "text"),
    [
        ({}, "", ""),
        ({"b": 1, "a": "x y", "c": None, "d": False, "e": True, "f": ""}, "", "a=x_y b=1 e=yes"),
        ({"engine": "fast"}, "engine=boofuzz transport=tcp,tls", "engine=fast transport=tcp,tls"),
        ({"also": "cmd:x a=b"}, "", "also=cmd:x_a=b"),
    ],
)
def test_configuration_is_words_in_order(words: dict[str, object], before: str, text: str) -> None:
    assert configuration(words, before) == text
