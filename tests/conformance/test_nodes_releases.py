"""Releases of the real node: each in a folder of its own, fetched once."""

from __future__ import annotations

import subprocess
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import NodeDidNotStart, NotApplicable, UsageError
from conformance.nodes import releases
from conformance.nodes.pypi import PypiNode
from conformance.nodes.releases import RELEASES, package

OLD = RELEASES[0]
FAKE = "9.9.9"


def number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def test_releases_stand_in_order_each_once() -> None:
    assert list(RELEASES) == sorted(set(RELEASES), key=number)
    assert len(RELEASES) == 13


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no way to the index, and a folder in which pip finds a release that there is not."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    about = f"eclipse_zenoh-{FAKE}.dist-info"
    with zipfile.ZipFile(wheels / f"eclipse_zenoh-{FAKE}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("zenoh/__init__.py", "")
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: eclipse-zenoh\nVersion: {FAKE}\n")
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{about}/RECORD", "")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return tmp_path / "cache" / "zenoh-harness" / "nodes"


@pytest.mark.parametrize("version", RELEASES)
def test_release_starts_without_a_way_to_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    try:
        package(version)
    except NodeDidNotStart as error:
        pytest.skip(str(error))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with PypiNode(tmp_path, version) as node:
        assert node.version == version
        assert node.whatami == "router"
        assert node.profile.version == version
        assert node.problem(5.0) == ""


def test_release_is_installed_into_a_folder_of_its_own(cache: Path) -> None:
    path, version = package(FAKE)
    assert version == FAKE
    assert Path(path).parent == cache
    assert (Path(path) / "zenoh" / "__init__.py").exists()
    assert {entry.name for entry in cache.iterdir()} == {Path(path).name, f"{Path(path).name}.lock"}


@pytest.mark.usefixtures("cache")
def test_release_that_is_there_is_not_installed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = package(FAKE)
    monkeypatch.setattr(subprocess, "run", None)
    assert package(FAKE)[0] == path


@pytest.mark.usefixtures("cache")
def test_several_that_want_a_release_at_once_install_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    installs: list[Path] = []
    install = releases._install
    together = threading.Barrier(4)

    def counted(version: str, target: Path) -> None:
        installs.append(target)
        install(version, target)

    def want() -> None:
        together.wait()
        found.append(package(FAKE)[0])

    found: list[str] = []
    monkeypatch.setattr(releases, "_install", counted)
    threads = [threading.Thread(target=want) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(installs) == 1
    assert len(found) == 4
    assert len(set(found)) == 1


def test_installation_that_fails_leaves_nothing_behind(cache: Path) -> None:
    with pytest.raises(NodeDidNotStart) as caught:
        package("1.8.0")
    assert "eclipse-zenoh 1.8.0 cannot be installed: no such release" in str(caught.value)
    assert RELEASES[-1] in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [entry.suffix for entry in cache.iterdir()] == [".lock"]


@pytest.mark.usefixtures("cache")
def test_what_else_pip_says_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "WARNING: x\nERROR: the disk is full\nhint: buy another"
    monkeypatch.setattr(
        subprocess, "run", lambda *words, **_: subprocess.CompletedProcess(words, 1, "", said)
    )
    with pytest.raises(NodeDidNotStart, match=r"cannot be installed: the disk is full$"):
        package(FAKE)


def test_cache_that_cannot_be_written_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(NodeDidNotStart, match="set XDG_CACHE_HOME to use another folder"):
        package(FAKE)


def test_word_that_is_no_version_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'../x' is not a release of eclipse-zenoh; write one like pypi:"):
        package("../x")


def test_key_that_an_old_release_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PypiNode, "_known", {})
    node = PypiNode(tmp_path, OLD)
    with pytest.raises(NotApplicable, match=f"eclipse-zenoh {OLD} has no configuration key region_name"):
        node.variant(region_name="north")
    assert node.variant(mode="peer").version == OLD

    def none(*_: Any, **__: Any) -> None:
        raise AssertionError("asked again")

    monkeypatch.setattr(subprocess, "run", none)
    node.variant(mode="router")
    with pytest.raises(NotApplicable, match="region_name"):
        node.variant(region_name="south")


def test_key_that_the_last_release_lacks_is_a_mistake_of_the_test(tmp_path: Path) -> None:
    variant = PypiNode(tmp_path, RELEASES[-1]).variant(no__such__path=1)
    with pytest.raises(NodeDidNotStart, match="did not start"):
        variant.start()
