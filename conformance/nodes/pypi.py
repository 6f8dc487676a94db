"""The real node: eclipse-zenoh from PyPI, in a process of its own. ``--node pypi[:VERSION]``."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any

from conformance.config import REPLY_SECONDS, START_SECONDS, Locator
from conformance.errors import NodeDidNotStart, UsageError
from conformance.nodes.base import Node

IMPL = "eclipse-zenoh"

STOP_SECONDS = 1.0
"""How long a node may take to end after SIGTERM before it is killed."""

BASE: dict[str, Any] = {
    "mode": "router",
    "listen/endpoints": ["tcp/127.0.0.1:0"],
    "scouting/delay": 0,
    "scouting/multicast/enabled": False,
    "adminspace/enabled": False,
    "transport/shared_memory/enabled": False,
}
"""Configuration of the default node: a router on a port that the system chooses, without side channels."""

COMPLAINT = re.compile(r"panicked at|memory allocation of|stack overflow|fatal runtime error")
"""What the process writes to standard error when something in it failed."""


class PypiNode(Node):
    """An eclipse-zenoh node as a child process.

    Args:
        logs: Folder for what the node writes, one pair of files a start.
        version: Release to run; the installed one when empty, otherwise fetched once into the cache.
        config: Paths and values on top of ``BASE``.
        name: Base name of the log files.
    """

    owned = True
    impl = IMPL

    def __init__(
        self, logs: Path, version: str = "", config: dict[str, Any] | None = None, name: str = "node"
    ) -> None:
        self._logs = logs
        self._config = {**BASE, **(config or {})}
        self._name = name
        self._variants = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None
        self._path, self.version = _package(version)

    def start(self) -> None:
        """Starts the process and waits until it listens and serves."""
        self.stop()
        self.starts += 1
        self._logs.mkdir(parents=True, exist_ok=True)
        log = self._logs / f"{self._name}-{self.starts}.stderr"
        reading, writing = os.pipe()
        environment = {**os.environ, "RUST_BACKTRACE": "0", "PYTHONPATH": self._path}
        script = Path(__file__).with_name("pypi_process.py")
        # Files, not pipes: a pipe that nobody drains stalls the node and looks like a hang.
        with log.with_suffix(".stdout").open("wb") as out, log.open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, str(script), str(writing), json.dumps(self._config)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                pass_fds=[writing],
                env=environment,
                start_new_session=True,
            )
        os.close(writing)
        self._stderr = log.open("rb")
        with os.fdopen(reading, "rb") as pipe:
            self._wait_ready(pipe, log)
        try:
            self.ask(REPLY_SECONDS)
        except NodeDidNotStart:
            self.stop()
            raise

    def _wait_ready(self, pipe: IO[bytes], log: Path) -> None:
        ready, _, _ = select.select([pipe], [], [], START_SECONDS)
        line = pipe.readline() if ready else b""
        if not line:
            why = f"it was not ready within {START_SECONDS:g} s"
            if ready and self._process is not None:
                # The pipe is closed: the process is ending.
                self._process.wait(STOP_SECONDS)
                why = self.death()
            tail = log.read_text(errors="replace").strip().splitlines()
            self.stop()
            raise NodeDidNotStart(
                f"{IMPL} {self.version} did not start: {why}" + (f" ({tail[-1]})" if tail else "")
            )
        ports = json.loads(line)["ports"]
        if not ports:
            self.stop()
            raise NodeDidNotStart(f"{IMPL} {self.version} does not listen; check its listen/endpoints")
        self.locator = Locator("tcp", "127.0.0.1", ports[0])

    def stop(self) -> None:
        """Ends the process: SIGTERM, then SIGKILL."""
        process, self._process = self._process, None
        if process is not None:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
            process.wait()
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None

    def kill(self) -> None:
        """Ends the process with SIGKILL, without asking it first."""
        if self._process is not None:
            self._process.kill()
        self.stop()

    def death(self) -> str:
        """Returns the exit code or signal of a process that ended by itself."""
        if self._process is None:
            return "the process is not running"
        code = self._process.poll()
        if code is None:
            return ""
        return (
            f"the process died of {signal.Signals(-code).name}"
            if code < 0
            else f"the process ended with exit code {code}"
        )

    def complaints(self) -> str:
        """Returns new lines of standard error that tell of a failure, joined."""
        if self._stderr is None:
            return ""
        text = self._stderr.read().decode(errors="replace")
        # A panic is two lines: where, then why.
        lines = [line.strip() for line in text.splitlines()]
        found = [" ".join(lines[at : at + 2]) for at, line in enumerate(lines) if COMPLAINT.search(line)]
        return "; ".join(found)

    def variant(self, **config: Any) -> PypiNode:
        """Returns another node with its own configuration, not started yet."""
        self._variants += 1
        paths = {path.replace("__", "/"): value for path, value in config.items()}
        return PypiNode(
            self._logs, self.version, {**self._config, **paths}, f"{self._name}-variant{self._variants}"
        )


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
