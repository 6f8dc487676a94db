"""A node in a process of its own: started, waited for, watched, ended."""

from __future__ import annotations

import os
import random
import re
import select
import signal
import subprocess
import time
from abc import abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, ClassVar

from conformance.config import REPLY_SECONDS, START_SECONDS, Locator, Tls
from conformance.errors import NodeDidNotStart
from conformance.nodes.base import Node
from conformance.nodes.places import Places
from conformance.nodes.traces import goes_on, lines_of, reports, told
from conformance.nodes.users import USERS

DEFAULT_SCOUTING = "224.0.0.224:7446"
"""Group and port of SCOUT where nothing else is configured."""

LISTEN = "listen/endpoints"
"""Where a node takes links."""

ANYWHERE = ["tcp/127.0.0.1:0"]
"""Where a node listens unless something else is asked for; with it, it listens on all transports of the run."""

CHUNK = 1 << 16
"""Bytes of standard error that are read at once."""

MOST_SAID = 1 << 23
"""Bytes of standard error that are looked through at once, which takes a second. Of a process that has said more since
the last look only the first CHUNK and so many at the end are: whoever waits for all of it never comes to an end."""

MOST_WORDS = 300
"""Characters of the last words of a process."""

TAIL = 1 << 20
"""Bytes at the end in which a trace that is still being written has its beginning."""

STOP_SECONDS = 2.0
"""How long a node may take to end after SIGTERM before it is killed."""

TRACE_SECONDS, TRACE_STEP = 0.1, 0.002
"""How long the rest of a trace is waited for, which is written line by line; and between two looks."""

REPORT_SECONDS = 5.0
"""How long that of a sanitizer is waited for, at most."""

DYING_SECONDS = 0.3
"""How long a process that has complained, or serves no more, may take to end by itself."""


class ChildNode(Node):
    """A node as a child process.

    Args:
        logs: Folder for what the node writes, one file or pair of files a start.
        config: Paths and values of its configuration.
        name: Base name of the log files.
        transports: What it listens on, unless the configuration says where.
        tls: Certificates for links over TLS.

    Attributes:
        complaint: What it writes to standard error when something in it failed.
        title: What to call it when it does not start.
        patience: Seconds that each of its answers may take when it starts.
    """

    owned = True
    complaint: ClassVar[re.Pattern[str]]
    patience: float = REPLY_SECONDS
    _unfinished: bytes = b""
    _complained: str = ""

    def __init__(
        self,
        logs: Path,
        config: dict[str, Any],
        name: str,
        *,
        transports: tuple[str, ...] = ("tcp",),
        tls: Tls | None = None,
    ) -> None:
        self._logs = logs
        self._config = config
        self._name = name
        self._places = Places(transports)
        self.tls = tls
        self.scouting = scouting_of(config)
        self._variants = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """See Node."""
        return self._process.pid if self._process is not None else None

    def _placed(self) -> dict[str, Any]:
        """Returns the configuration with every place where the node listens, and what it needs there."""
        config = dict(self._config)
        if config[LISTEN] == ANYWHERE:
            config[LISTEN] = self._places.endpoints()
        if self.tls is not None and any(where.startswith("tls/") for where in config[LISTEN]):
            config = {**tls_config(self.tls), **config}
        return config

    def _changed(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Returns the configuration of a variant. It scouts in a group of its own: none shall find another."""
        own = private_scouting() if self.scouting is not None else {}
        return with_paths({**self._config, **own}, changes)

    def _reached(self, locators: dict[str, Locator]) -> None:
        """Takes in where the node listens.

        Raises:
            NodeDidNotStart: Nowhere.
        """
        if not locators:
            raise self._refuse_silent()
        self._locators = locators
        self.locator = locators.get("tcp") or next(iter(locators.values()))

    @property
    @abstractmethod
    def title(self) -> str:
        """What to call it when it does not start."""

    def _next_log(self) -> Path:
        """Ends the process, if there is one, and returns where the next one writes its standard error."""
        self.stop()
        self.starts += 1
        return self._log(self.starts)

    def _log(self, number: int) -> Path:
        """Returns where the process of a start writes its standard error."""
        self._logs.mkdir(parents=True, exist_ok=True)
        return self._logs / f"{self._name}-{number}.stderr"

    def _launch(self, command: list[str], log: Path, stdout: IO[bytes] | int, **options: Any) -> None:
        """Starts the process; ``options`` are those of Popen."""
        self._watch(self._begun(command, log, stdout, **options), log)

    @staticmethod
    def _begun(
        command: list[str], log: Path, stdout: IO[bytes] | int, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Starts a process that nobody watches yet."""
        # A file, not a pipe: a pipe that nobody drains stalls the node and looks like a hang.
        with log.open("wb") as err:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=err,
                start_new_session=True,
                **options,
            )

    def _watch(self, process: subprocess.Popen[bytes], log: Path) -> None:
        """Makes a process the one that this is about."""
        self._process = process
        self._stderr = log.open("rb")
        self._unfinished = b""

    def _ready_line(self, pipe: IO[bytes], log: Path) -> bytes:
        """Waits for the line with which the process says that it is ready.

        Raises:
            NodeDidNotStart: It does not come.
        """
        ready, _, _ = select.select([pipe], [], [], START_SECONDS)
        line = pipe.readline() if ready else b""
        if line:
            return line
        why = f"it was not ready within {START_SECONDS:g} s"
        if ready and self._process is not None:
            # The pipe is closed: the process is ending.
            self._process.wait(STOP_SECONDS)
            why = self.death()
        self.stop()
        raise NodeDidNotStart(f"{self.title} did not start: {why}{last_line(log)}")

    def _introduce(self) -> None:
        """Learns role and ZenohID of the process that has started; ends it if it does not say.

        Raises:
            NodeDidNotStart: It does not.
        """
        try:
            self.ask(self.patience)
        except NodeDidNotStart:
            self.stop()
            raise

    def _refuse_silent(self) -> NodeDidNotStart:
        """Ends a node that has nowhere to be reached, and returns what to raise."""
        self.stop()
        return NodeDidNotStart(f"{self.title} does not listen; check its listen/endpoints")

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
            discard_silent(Path(self._stderr.name))
            self._stderr = None
        self._places.clear()

    def dismiss(self) -> None:
        """Asks the process to end in order (SIGTERM), and does not wait until it has."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)

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

    def awaited_death(self) -> str:
        """Returns the same, and waits a moment for it."""
        if not self.death():
            self._ended(DYING_SECONDS)
        return self.death()

    def _ended(self, seconds: float) -> bool:
        """Waits until the process ends; tells whether it did. It can still be asked how."""
        assert self._process is not None
        descriptor = os.pidfd_open(self._process.pid)
        try:
            ready, _, _ = select.select([descriptor], [], [], seconds)
        finally:
            os.close(descriptor)
        return bool(ready)

    def complaints(self) -> str:
        """Returns new lines of standard error that tell of a failure, each with what says where it was, joined."""
        if self._stderr is None:
            return ""
        said = self._unfinished + self._new()
        if not said:
            return ""
        said += self._more_of(said)
        self._unfinished = b""
        if not said.endswith(b"\n") and not self.death():
            # A line is written piece by piece, and may be read in the middle.
            said, newline, self._unfinished = said.rpartition(b"\n")
            said += newline
        lines = lines_of(said)
        found = "; ".join(
            told(lines, at) for at, line in enumerate(lines) if self.complaint.search(line.strip())
        )
        self._complained = found or self._complained
        return found

    def last_words(self) -> str:
        """See Node: what tells of a failure, or else the last line."""
        if self._stderr is None or not self.death():
            return ""
        log = Path(self._stderr.name)
        # Whoever looked while it was still dying may have heard the complaint before.
        said = self.complaints() or self._complained or _last_line(log)
        return f"{log.parent.name}/{log.name}: {said[:MOST_WORDS]}" if said else ""

    def _new(self) -> bytes:
        """Returns what was written to standard error since the last call."""
        assert self._stderr is not None
        file = self._stderr.fileno()
        # Asked behind every case: of a file that has not grown, this is one system call; read() takes three.
        new = os.read(file, CHUNK)
        if len(new) < CHUNK:
            return new
        parts = [new]
        at, end = os.lseek(file, 0, os.SEEK_CUR), os.fstat(file).st_size
        if end - at > MOST_SAID:
            os.lseek(file, end - MOST_SAID, os.SEEK_SET)
            parts.append(b"\n")
        while os.lseek(file, 0, os.SEEK_CUR) < end and (new := os.read(file, CHUNK)):
            parts.append(new)
        return b"".join(parts)

    def _more_of(self, said: bytes) -> bytes:
        """Returns what a process writes that has begun to say where it failed; waits a moment for that."""
        assert self._stderr is not None
        said = said[-TAIL:]
        more, deadline = b"", time.monotonic() + (REPORT_SECONDS if reports(said) else TRACE_SECONDS)
        while goes_on(said + more) and time.monotonic() < deadline:
            ended = self._ended(TRACE_STEP)
            more += os.read(self._stderr.fileno(), CHUNK)
            if ended:
                break
        return more

    def _tell_user(self, variant: ChildNode) -> None:
        """Tells a variant who we are, unless it lets in others than this node does."""
        if variant._config.get(USERS) == self._config.get(USERS):
            variant.user = self.user

    def _variant_name(self) -> str:
        self._variants += 1
        return f"{self._name}-variant{self._variants}"


def discard_silent(log: Path) -> None:
    """Removes what a process that has ended writes to, as far as it wrote nothing: a campaign starts hundreds."""
    for file in log, log.with_suffix(".stdout"):
        with suppress(FileNotFoundError):
            if not file.stat().st_size:
                file.unlink()


def last_line(log: Path) -> str:
    """Returns the last line that a process wrote, in brackets, for a message; nothing when it wrote none."""
    line = _last_line(log)
    return f" ({line})" if line else ""


def _last_line(log: Path) -> str:
    lines: list[str] = []
    # Of a process that wrote nothing, there is none.
    with suppress(FileNotFoundError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - CHUNK))
        lines = [line for line in lines_of(file.read()) if line.strip()]
    return lines[-1] if lines else ""


def scouting_of(config: dict[str, Any]) -> Locator | None:
    """Returns where a node of this configuration hears SCOUTs."""
    if not config.get("scouting/multicast/enabled"):
        return None
    address = config.get("scouting/multicast/address", DEFAULT_SCOUTING)
    interface = config.get("scouting/multicast/interface", "lo")
    return Locator.parse(f"udp/{address}#iface={interface}")


def tls_config(tls: Tls) -> dict[str, Any]:
    """Returns the configuration of a node that shows these certificates."""
    paths = {
        "root_ca_certificate": tls.ca,
        "listen_certificate": tls.certificate,
        "listen_private_key": tls.key,
    }
    return {f"transport/link/tls/{name}": str(path) for name, path in paths.items()}


def private_scouting() -> dict[str, Any]:
    """Returns the configuration of scouting in a group on loopback that no other node is in."""
    dice = random.SystemRandom()
    group = f"239.255.{dice.randrange(1, 255)}.{dice.randrange(1, 255)}:{dice.randrange(20_000, 30_000)}"
    return {
        "scouting/multicast/enabled": True,
        "scouting/multicast/address": group,
        "scouting/multicast/interface": "lo",
    }


def with_paths(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Returns a configuration with changes whose paths are written with ``__`` for ``/``."""
    return {**config, **{path.replace("__", "/"): value for path, value in changes.items()}}
