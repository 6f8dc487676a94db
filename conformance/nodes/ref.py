"""The reference node of this project, in a process of its own. ``--node ref[:MUTANT]``."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import conformance
from conformance.config import START_SECONDS, Locator
from conformance.errors import NodeDidNotStart, NotApplicable
from conformance.nodes.base import Node
from conformance.refnode.mutants import mutant_named

IMPL = "zenoh-harness-refnode"

ROOT = str(Path(conformance.__file__).parents[1])
"""Where the packages are: the child shall run the same ones, installed or not."""

STOP_SECONDS = 2.0
"""How long the node may take to end after SIGTERM before it is killed."""

BASE: dict[str, Any] = {"listen/endpoints": ["tcp/127.0.0.1:0"]}
"""Configuration of the default node, in the words of the real one, so that a test need not know which it gets."""

COMPLAINT = re.compile(r"internal error|^Traceback", re.MULTILINE)
"""What the process writes to standard error when something in it failed."""


def _switch(on: str, off: str = "") -> Callable[[Any], list[str]]:
    return lambda value: [on] if value else [off] if off else []


def _each(option: str) -> Callable[[Any], list[str]]:
    return lambda values: [word for value in values for word in (option, str(value))]


def _one(option: str) -> Callable[[Any], list[str]]:
    return lambda value: [option, str(value)]


def _milliseconds(option: str) -> Callable[[Any], list[str]]:
    return lambda value: [option, f"{value / 1000:g}"]


def _bits(option: str) -> Callable[[Any], list[str]]:
    return lambda value: [option, str(value).removesuffix("bit")]


def _only(*allowed: Any) -> Callable[[Any], list[str]]:
    """For what a reference node has no choice about."""

    def check(value: Any) -> list[str]:
        if value not in allowed:
            raise NotApplicable(f"the reference node cannot have {value!r} there")
        return []

    return check


OPTIONS: dict[str, Callable[[Any], list[str]]] = {
    "mode": _one("--mode"),
    "id": _one("--zid"),
    "listen/endpoints": _each("--listen"),
    "connect/endpoints": _each("--connect"),
    "scouting/delay": lambda _: [],
    "scouting/multicast/enabled": _only(False),
    "adminspace/enabled": _only(False),
    "transport/shared_memory/enabled": _only(False),
    "transport/unicast/qos/enabled": _switch("--qos", "--no-qos"),
    "transport/unicast/lowlatency": _switch("--lowlatency"),
    "transport/unicast/compression/enabled": _switch("--compression"),
    "transport/unicast/max_sessions": _one("--max-sessions"),
    "transport/unicast/max_links": _only(1),
    "transport/unicast/accept_pending": _one("--half-open"),
    "transport/unicast/accept_timeout": _milliseconds("--handshake-seconds"),
    "transport/link/tx/lease": _milliseconds("--lease"),
    "transport/link/tx/batch_size": _one("--batch-size"),
    "transport/link/tx/sequence_number_resolution": _bits("--fsn"),
    "transport/link/rx/max_message_size": _one("--max-message"),
}
"""Configuration paths of the real node, and the options that say the same."""


def words_of(config: dict[str, Any]) -> list[str]:
    """Returns the command line for a configuration.

    Raises:
        NotApplicable: The reference node cannot be configured so.
    """
    words: list[str] = []
    for path, value in config.items():
        if path not in OPTIONS:
            raise NotApplicable(f"the reference node has no option for {path}")
        words += OPTIONS[path](value)
    return words


class RefNode(Node):
    """A reference node as a child process.

    Args:
        logs: Folder for what the node writes.
        mutant: Id of the rule it breaks; empty for none.
        config: Paths and values on top of ``BASE``.
        name: Base name of the log files.

    Raises:
        UsageError: There is no such mutant.
    """

    owned = True

    def __init__(
        self, logs: Path, mutant: str = "", config: dict[str, Any] | None = None, name: str = "node"
    ) -> None:
        self.mutant = mutant_named(mutant).name
        # Recorded deviations are those of a correct node; a mutant has none.
        self.impl = f"{IMPL}:{self.mutant}" if self.mutant else IMPL
        self.version = importlib.metadata.version("zenoh-harness")
        self.facts: dict[str, Any] = {}
        self._logs = logs
        self._config = {**BASE, **(config or {})}
        self._name = name
        self._variants = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None

    def start(self) -> None:
        """Starts the process and waits until it says that it is ready."""
        self.stop()
        words = words_of(self._config)
        self.starts += 1
        self._logs.mkdir(parents=True, exist_ok=True)
        log = self._logs / f"{self._name}-{self.starts}.stderr"
        # A file, not a pipe: a pipe that nobody drains stalls the node and looks like a hang.
        with log.open("wb") as err:
            self._process = subprocess.Popen(
                [
                    *(
                        sys.executable,
                        "-m",
                        "conformance.refnode",
                        "--end-with-parent",
                        "--log-level",
                        "info",
                    ),
                    *(("--mutant", self.mutant) if self.mutant else ()),
                    *words,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=err,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")]).rstrip(":"),
                },
                start_new_session=True,
            )
        self._stderr = log.open("rb")
        assert self._process.stdout is not None
        with self._process.stdout as pipe:
            self._wait_ready(pipe, log)

    def _wait_ready(self, pipe: IO[bytes], log: Path) -> None:
        assert self._process is not None
        ready, _, _ = select.select([pipe], [], [], START_SECONDS)
        line = pipe.readline() if ready else b""
        if not line:
            why = f"it was not ready within {START_SECONDS:g} s"
            if ready:
                # The pipe is closed: the process is ending.
                self._process.wait(STOP_SECONDS)
                why = self.death()
            tail = log.read_text(errors="replace").strip().splitlines()
            self.stop()
            raise NodeDidNotStart(f"{IMPL} did not start: {why}" + (f" ({tail[-1]})" if tail else ""))
        self.facts = json.loads(line)
        if not self.facts["locator"]:
            self.stop()
            raise NodeDidNotStart(f"{IMPL} does not listen; check its listen/endpoints")
        self.locator = Locator.parse(self.facts["locator"])
        self.whatami = self.facts["whatami"]
        self.zid = self.facts["zid"]

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
        """Returns the last line of a traceback that is new in standard error, or nothing."""
        if self._stderr is None:
            return ""
        text = self._stderr.read().decode(errors="replace")
        if not COMPLAINT.search(text):
            return ""
        return "; ".join(line.strip() for line in text.splitlines() if COMPLAINT.search(line))

    def variant(self, **config: Any) -> RefNode:
        """Returns another node with its own configuration, not started yet.

        Raises:
            NotApplicable: The reference node cannot be configured so.
        """
        self._variants += 1
        paths = {path.replace("__", "/"): value for path, value in config.items()}
        words_of(paths)
        return RefNode(
            self._logs, self.mutant, {**self._config, **paths}, f"{self._name}-variant{self._variants}"
        )
