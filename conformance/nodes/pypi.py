"""The real node: eclipse-zenoh from PyPI, in a process of its own. ``--node pypi[:VERSION]``."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from conformance.config import REPLY_SECONDS, Locator
from conformance.errors import NodeDidNotStart, UsageError
from conformance.nodes.child import ChildNode, scouting_of, with_paths

IMPL = "eclipse-zenoh"

BASE: dict[str, Any] = {
    "mode": "router",
    "listen/endpoints": ["tcp/127.0.0.1:0"],
    "scouting/delay": 0,
    "scouting/multicast/enabled": False,
    "adminspace/enabled": False,
    "transport/shared_memory/enabled": False,
}
"""Configuration of the default node: a router on a port that the system chooses, without side channels."""


class PypiNode(ChildNode):
    """An eclipse-zenoh node as a child process.

    Args:
        logs: Folder for what the node writes, one pair of files a start.
        version: Release to run; the installed one when empty, otherwise fetched once into the cache.
        config: Paths and values on top of ``BASE``.
        name: Base name of the log files.
    """

    impl = IMPL
    complaint = re.compile(r"panicked at|memory allocation of|stack overflow|fatal runtime error")

    def __init__(
        self, logs: Path, version: str = "", config: dict[str, Any] | None = None, name: str = "node"
    ) -> None:
        super().__init__(logs, {**BASE, **(config or {})}, name)
        self.scouting = scouting_of(self._config)
        self._path, self.version = _package(version)

    @property
    def title(self) -> str:
        """See ChildNode."""
        return f"{IMPL} {self.version}"

    def start(self) -> None:
        """Starts the process and waits until it listens and serves."""
        log, reading = self._spawn()
        with os.fdopen(reading, "rb") as pipe:
            ports = json.loads(self._ready_line(pipe, log))["ports"]
        if not ports:
            raise self._refuse_silent()
        self.locator = Locator("tcp", "127.0.0.1", ports[0])
        try:
            self.ask(REPLY_SECONDS)
        except NodeDidNotStart:
            self.stop()
            raise

    def launch(self) -> None:
        """Starts the process; it is ready when it says something on a link."""
        _, reading = self._spawn()
        os.close(reading)

    def _spawn(self) -> tuple[Path, int]:
        log = self._next_log()
        reading, writing = os.pipe()
        script = Path(__file__).with_name("pypi_process.py")
        with log.with_suffix(".stdout").open("wb") as out:
            self._launch(
                [sys.executable, str(script), str(writing), json.dumps(self._config)],
                log,
                out,
                pass_fds=[writing],
                env={**os.environ, "RUST_BACKTRACE": "0", "PYTHONPATH": self._path},
            )
        os.close(writing)
        return log, reading

    def variant(self, **config: Any) -> PypiNode:
        """Returns another node with its own configuration, not started yet."""
        return PypiNode(self._logs, self.version, with_paths(self._config, config), self._variant_name())


def _package(version: str) -> tuple[str, str]:
    """Returns the import path of a release (empty for the installed one) and its version.

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
            f"{IMPL} is not installed; install the extra 'node', or point --node at a node of yours"
        )
    if not re.fullmatch(r"\d+(\.\d+)*[a-z0-9.]*", version):
        raise UsageError(f"{version!r} is no release of {IMPL}; write one like pypi:1.10.2")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zenoh-harness" / "nodes"
    folder = cache / f"{IMPL}-{version}-{sys.implementation.cache_tag}"
    if not folder.exists():
        _fetch(version, folder)
    return str(folder), version


def _fetch(version: str, folder: Path) -> None:
    """Installs one release into a folder of its own, whole or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        target = Path(temporary) / "package"
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--no-deps",
                "--target",
                str(target),
                f"{IMPL}=={version}",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1].removeprefix("ERROR: ")
            raise NodeDidNotStart(f"{IMPL} {version} cannot be installed: {reason}")
        if not folder.exists():
            shutil.move(target, folder)
