import dataclasses
import importlib.metadata
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_reports.__main__ import main
from spark_reports.commands import doctor
from spark_reports.engine.archive import archive_for
from spark_reports.engine.java import Java, find_java
from spark_reports.engine.settings import spark_home
from spark_reports.errors import NoJava

Capture = pytest.CaptureFixture[str]
Lines = Callable[[], dict[str, str]]


@pytest.fixture
def printed(capsys: Capture) -> Lines:
    """Returns what was printed, by the name in front."""

    def read() -> dict[str, str]:
        lines = capsys.readouterr().out.splitlines()
        return {line[: doctor._WIDTH].rstrip(): line[doctor._WIDTH :] for line in lines}

    return read


@pytest.fixture(autouse=True)
def no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_java(_: object) -> None:
        raise NoJava("no usable Java 17 or newer (none). Install one")

    monkeypatch.setattr(doctor, "find_java", find_java)


@pytest.mark.usefixtures("spark")
def test_what_is_there_is_told(printed: Lines) -> None:
    assert main(["doctor"]) == 0
    lines = printed()
    assert lines["pyspark"] == importlib.metadata.version("pyspark")
    assert lines["warm server"] == "none"
    assert lines["machine"].endswith(" GB of memory")
    assert next(iter(lines)) == "Java"
    assert lines["Spark"].endswith("starts and counts to 3")


@pytest.mark.usefixtures("spark")
def test_java_that_was_passed_over_is_told(printed: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    java = find_java(os.environ)
    other = dataclasses.replace(java, passed_over=("JAVA_HOME: /nowhere/bin/java cannot be run",))
    monkeypatch.setattr(doctor, "find_java", lambda _: other)
    assert main(["doctor"]) == 0
    assert printed()[""] == "passed over: JAVA_HOME: /nowhere/bin/java cannot be run"


def test_java_alone_is_told_in_one_line(capsys: Capture) -> None:
    assert main(["doctor", "--java"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("Java ")


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize("arguments", [["doctor"], ["doctor", "--java"]])
def test_no_java_is_one_line(arguments: list[str], capsys: Capture) -> None:
    assert main(arguments) == 4
    assert capsys.readouterr().err == "zenoh-reports: no usable Java 17 or newer (none). Install one\n"


def test_package_that_is_missing_is_told_with_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, printed: Lines
) -> None:
    there = importlib.metadata.version

    def version(name: str) -> str:
        if name in {"Jinja2", "grpcio"}:
            raise importlib.metadata.PackageNotFoundError(name)
        return there(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert main(["doctor"]) == 4
    lines = printed()
    assert lines["Jinja2"] == "not installed"
    assert lines["grpcio"] == (
        "not installed (only needed for --remote and --warm: `pip install 'zenoh-harness[connect]'`)"
    )
    assert "Spark" not in lines


def test_missing_package_ends_with_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(doctor, "PACKAGES", (doctor.Package("no-such-package", "reports"),))
    assert main(["doctor"]) == 4
    assert capsys.readouterr().err == (
        "zenoh-reports: missing: no-such-package. Install with `pip install 'zenoh-harness[reports]'`\n"
    )


def test_archive_is_told_of_or_how_to_make_it(tmp_path: Path) -> None:
    java, environ = Java(Path("/bin/sh"), 17, "PATH", None), {"XDG_CACHE_HOME": str(tmp_path)}
    assert "no cache folder" in doctor._archive(java, {})
    assert "`zenoh-reports warmup`" in doctor._archive(java, environ)
    archive = archive_for(java, spark_home(), environ)
    assert archive is not None
    with archive.make() as made:
        made.write_bytes(b"classes")
    assert str(archive.path) in doctor._archive(java, environ)
