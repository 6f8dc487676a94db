"""Releases of eclipse-zenoh, each in a folder of its own: fetched once by pip, and there for good."""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conformance.errors import NodeDidNotStart, UsageError

IMPL = "eclipse-zenoh"

RELEASES = (
    "1.0.0",
    "1.0.4",
    "1.1.1",
    "1.2.1",
    "1.3.4",
    "1.4.0",
    "1.5.1",
    "1.6.2",
    "1.7.2",
    "1.9.0",
    "1.10.0",
    "1.10.1",
    "1.10.2",
)
"""The last release of each line since 1.0.0 that has wheels (1.8.0 has none), and the first of all."""

HINT = f"write one like pypi:{RELEASES[-1]}"


def package(version: str) -> tuple[str, str]:
    """Returns the import path of a release (empty for the installed one) and its version.

    Args:
        version: The release; the installed one when empty.

    Raises:
        UsageError: The version is none.
        NodeDidNotStart: It is neither installed nor to be had.
    """
    try:
        installed = importlib.metadata.version(IMPL)
    except importlib.metadata.PackageNotFoundError:
        installed = ""
    if installed and version in {"", installed}:
        return "", installed
    if not version:
        raise NodeDidNotStart(
            f"{IMPL} is not installed; install the extra 'node', or point --node at your own node"
        )
    if not re.fullmatch(r"\d+(\.\d+)*[a-z0-9.]*", version):
        raise UsageError(f"{version!r} is not a release of {IMPL}; {HINT}")
    folder = cache() / f"{IMPL}-{version}-{sys.implementation.cache_tag}"
    if not folder.exists():
        _fetch(version, folder)
    return str(folder), version


def cache() -> Path:
    """Returns the folder in which releases are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zenoh-harness" / "nodes"


def _fetch(version: str, folder: Path) -> None:
    """Installs one release into a folder of its own, whole or not at all.

    Raises:
        NodeDidNotStart: It cannot be had.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(folder), tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            if folder.exists():  # whoever was here before us has installed it
                return
            target = Path(temporary) / "package"
            _install(version, target)
            shutil.move(target, folder)
    except OSError as error:
        raise NodeDidNotStart(
            f"{IMPL} {version} cannot be stored in {folder.parent} ({error.strerror}); "
            "set XDG_CACHE_HOME to use another folder"
        ) from None


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Waits until no other process installs the same release. The lock ends with whoever holds it."""
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(version: str, target: Path) -> None:
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", str(target), f"{IMPL}=={version}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NodeDidNotStart(f"{IMPL} {version} cannot be installed: {_why(done.stderr)}")


def _why(said: str) -> str:
    """Returns in one sentence what pip said."""
    if "No matching distribution" in said or "not find a version" in said:
        return (
            "no such release for this Python and machine, or the package index is unreachable; "
            f"known to work: {', '.join(RELEASES)}"
        )
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR: ")] or lines or ["pip failed"]
    return errors[-1].removeprefix("ERROR: ")
