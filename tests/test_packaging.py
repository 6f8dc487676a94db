"""The wheel holds the four packages and all of their files, and no file of ours tells where it was made."""

import configparser
import email.message
import email.parser
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("conformance", "fuzz", "scapy_layers", "spark_reports")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

HOME = re.compile(rb"/(?:home|Users)/\w+|/root/\w|\w:\\Users\\")
INDEX = re.compile(rb"(?i)--(?:extra-)?index[-_]url|--find-[l]inks|//[\w.:@-]+/(?:[\w-]+/)?simple\b")


class Wheel:
    """What is in the wheel: names of files, and the files that describe it."""

    def __init__(self, path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            self.names = {name for name in archive.namelist() if not name.endswith("/")}
            (folder,) = {name.partition("/")[0] for name in self.names if ".dist-info/" in name}
            self.folder = folder
            self.top_level = archive.read(f"{folder}/top_level.txt").decode().split()
            self.entry_points = archive.read(f"{folder}/entry_points.txt").decode()
            self.metadata: email.message.Message = email.parser.BytesParser().parsebytes(
                archive.read(f"{folder}/METADATA")
            )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    # In a copy: setuptools leaves build/ and *.egg-info beside what it builds.
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "LICENSE", PROJECT["readme"]):
        shutil.copy(ROOT / file, source)
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(built),
        str(source),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = built.glob("*.whl")
    return Wheel(path)


def tracked_files() -> list[Path]:
    # A checkout may belong to somebody else than who tests it (root in a container).
    command = ["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-z"]
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [path for name in done.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_wheel_holds_exactly_the_four_packages(wheel: Wheel) -> None:
    assert sorted(wheel.top_level) == sorted(PACKAGES)
    assert {name.partition("/")[0] for name in wheel.names} == {*PACKAGES, wheel.folder}


def test_wheel_holds_every_file_of_the_packages(wheel: Wheel) -> None:
    files = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {f"{package}/py.typed" for package in PACKAGES} <= files
    missing = sorted(files - wheel.names)
    assert not missing, f"add their endings to [tool.setuptools.package-data] in pyproject.toml: {missing}"


def test_wheel_states_the_licence_and_carries_its_text(wheel: Wheel) -> None:
    assert wheel.metadata["License-Expression"] == "GPL-2.0-or-later"
    assert wheel.metadata.get_all("License-File") == ["LICENSE"]
    assert f"{wheel.folder}/licenses/LICENSE" in wheel.names


def test_wheel_requires_only_scapy_without_extras(wheel: Wheel) -> None:
    required = [line for line in wheel.metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert [re.match(r"[\w-]+", line)[0] for line in required] == ["scapy"]  # type: ignore[index]


def test_wheel_entry_points_lead_to_modules_in_it(wheel: Wheel) -> None:
    parser = configparser.ConfigParser(delimiters="=")
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(wheel.entry_points)
    assert dict(parser["console_scripts"]) == PROJECT["scripts"]
    assert dict(parser["pytest11"]) == {"conformance.plugin": "conformance.plugin"}
    modules = {target.partition(":")[0] for section in parser.values() for target in section.values()}
    missing = sorted(module for module in modules if f"{module.replace('.', '/')}.py" not in wheel.names)
    assert not missing


def test_constraints_pin_what_pyproject_asks_for() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    names = {_normal(name) for name in pinned}
    asked = [
        *PROJECT["dependencies"],
        # atheris is for few platforms, and nothing that the set-up needs.
        *(
            line
            for name, extra in PROJECT["optional-dependencies"].items()
            if name != "atheris"
            for line in extra
        ),
    ]
    wanted = {_normal(re.split(r"[\[<>=!~; ]", line)[0]) for line in asked} - {PROJECT["name"]}
    assert wanted <= names


@pytest.mark.parametrize(
    ("what", "pattern"), [("a path of somebody's home", HOME), ("the address of a package index", INDEX)]
)
def test_tracked_files_do_not_tell_where_they_were_made(what: str, pattern: re.Pattern[bytes]) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]!r}"
        for path in tracked_files()
        for match in pattern.finditer(path.read_bytes())
    ]
    assert not found, f"{what} in {found}"


@pytest.mark.parametrize("text", [b"/home/" + b"ann/x", b"/root/" + b"x", b"C:" + b"\\Users\\ann"])
def test_home_pattern_finds_homes(text: bytes) -> None:
    assert HOME.search(text)


@pytest.mark.parametrize(
    "text",
    [
        b"--index-" + b"url x",
        b"--find-" + b"links=x",
        b"https://a.example:80/" + b"simple/",
        b"//h/pypi/" + b"simple",
    ],
)
def test_index_pattern_finds_indexes(text: bytes) -> None:
    assert INDEX.search(text)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("name", ["PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE"])
def test_make_gives_its_pythons_nothing_that_changes_what_they_import(name: str) -> None:
    command = ["make", "--silent", "--eval=show: ; @env", "show"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, name: "1"}, capture_output=True, text=True, check=True
    )
    assert "PYTHONUNBUFFERED=1" in done.stdout.splitlines()
    assert not [line for line in done.stdout.splitlines() if line.startswith(f"{name}=")]
