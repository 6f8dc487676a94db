"""The real node: eclipse-zenoh from PyPI, in a process of its own. ``--node pypi[:VERSION]``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from conformance.config import Locator, Tls
from conformance.errors import NodeDidNotStart, NotApplicable
from conformance.nodes.child import ANYWHERE, LISTEN, ChildNode, discard_silent, private_scouting, scouting_of
from conformance.nodes.places import HOST, reached, settled
from conformance.nodes.releases import IMPL, RELEASES, package
from conformance.nodes.users import USERS
from conformance.profiles import load_profile

ATTEMPTS = 5
"""Starts with other ports, when somebody else took one of those that were free."""

SCRIPT = Path(__file__).with_name("pypi_process.py")

TAKEN = re.compile(r"[Aa]ddress already in use|os error 98")

NOT_OFFERED = re.compile(r"not supported for ([a-z-]+) protocol|[Uu]nsupported protocol:? ?'?([a-z-]+)")
"""What a release says of a transport that it was built without."""

BASE: dict[str, Any] = {
    "mode": "router",
    LISTEN: ANYWHERE,
    "scouting/delay": 0,
    "scouting/multicast/enabled": False,
    "adminspace/enabled": False,
    "transport/shared_memory/enabled": False,
}
"""Configuration of the default node: a router on a port that the system chooses, without side channels."""


SPARES = 2
"""Processes that stand ready. What has harmed one is seen to harm the next, so two of them go one right after the other."""

ALOOF = frozenset(
    {
        *BASE,
        "scouting/multicast/address",
        "scouting/multicast/interface",
        USERS,
        "transport/unicast/compression/enabled",
        "transport/unicast/lowlatency",
        "transport/unicast/qos/enabled",
    }
)
"""With a configuration of these alone, a router speaks to nobody who has not spoken to it."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """A process that was started, and has not said that it is ready.

    Attributes:
        number: Of the start.
        process: It.
        log: Where it writes its standard error.
        reading: Descriptor on which it says that it is ready.
        config: What it was given.
    """

    number: int
    process: subprocess.Popen[bytes]
    log: Path
    reading: int
    config: dict[str, Any]


class PypiNode(ChildNode):
    """An eclipse-zenoh node as a child process.

    Args:
        logs: Folder for what the node writes, one pair of files a start.
        version: Release to run; the installed one when empty, otherwise fetched once into the cache.
        config: Paths and values on top of ``BASE``.
        name: Base name of the log files.
        transports: What it listens on, unless the configuration says where.
        tls: Certificates for links over TLS.
    """

    impl = IMPL
    configured = True
    complaint = re.compile(r"panicked at|memory allocation of|stack overflow|fatal runtime error")
    _known: ClassVar[dict[tuple[str, str], str]] = {}
    """By release and configuration path: why it does not take it; empty when it does."""

    def __init__(
        self,
        logs: Path,
        version: str = "",
        config: dict[str, Any] | None = None,
        name: str = "node",
        *,
        transports: tuple[str, ...] = ("tcp",),
        tls: Tls | None = None,
    ) -> None:
        super().__init__(logs, {**BASE, **(config or {})}, name, transports=transports, tls=tls)
        self._path, self.version = package(version)
        self.profile = load_profile(IMPL, self.version)
        self._not_offered: set[str] = set()
        self._spares: deque[_Begun] = deque()

    @property
    def title(self) -> str:
        """See ChildNode."""
        return f"{IMPL} {self.version}"

    def lacks(self, transport: str) -> str:
        """See Node."""
        if transport in self._not_offered:
            return f"{self.title} was built without links over {transport}"
        return super().lacks(transport)

    def start(self) -> None:
        """Starts the process and waits until it listens and serves."""
        for left in reversed(range(ATTEMPTS)):
            begun = self._next()
            try:
                with os.fdopen(begun.reading, "rb") as pipe:
                    ports = json.loads(self._ready_line(pipe, begun.log))["ports"]
            except NodeDidNotStart:
                if not left or not self._otherwise(begun.log):
                    raise
                continue
            break
        self._reached(_found(begun.config[LISTEN], ports))
        if USERS in begun.config and self.user is None:
            # It says nothing to whoever shows no password.
            return
        self._introduce()

    def _otherwise(self, log: Path) -> bool:
        """Tells whether another start may go better: with other ports, or without a transport."""
        if self._config[LISTEN] != ANYWHERE:
            return False
        said = log.read_text(errors="replace")
        missing = NOT_OFFERED.search(said)
        if missing is None:
            return bool(TAKEN.search(said))
        proto = missing[1] or missing[2]
        self._not_offered.add(proto)
        return proto != "tcp" and proto in self._places.transports

    def launch(self) -> None:
        """Starts the process; it is ready when it says something on a link."""
        os.close(self._next().reading)

    def ahead(self) -> None:
        """See Node. To start takes as long as hundreds of cases. Each hears SCOUT in a group of its own."""
        if self._config[LISTEN] != ANYWHERE or self._places.transports != ("tcp",):
            return
        if self._config["mode"] != "router" or not ALOOF.issuperset(self._config):
            return
        while len(self._spares) < SPARES:
            own = private_scouting() if self.scouting is not None else {}
            last = self._spares[-1].number if self._spares else self.starts
            self._spares.append(self._spawn(last + 1, own))

    def stop(self) -> None:
        """See Node."""
        super().stop()
        while self._spares:
            self._let_go(self._spares.popleft())

    def kill(self) -> None:
        """See Node."""
        if self._process is not None:
            self._process.kill()
        # What stands ready goes on doing so.
        super().stop()

    def _next(self) -> _Begun:
        """Ends the process, if there is one, and returns the next: one that stands ready, if there is one."""
        super().stop()
        while self._spares:
            begun = self._spares.popleft()
            self.starts = begun.number
            if begun.process.poll() is None:
                break
            self._let_go(begun)
        else:
            self.starts += 1
            begun = self._spawn(self.starts, {})
        self._watch(begun.process, begun.log)
        self.scouting = scouting_of(begun.config)
        return begun

    @staticmethod
    def _let_go(begun: _Begun) -> None:
        """Ends a process that nobody has taken."""
        os.close(begun.reading)
        begun.process.kill()
        begun.process.wait()
        discard_silent(begun.log)

    def _spawn(self, number: int, own: dict[str, Any]) -> _Begun:
        log = self._log(number)
        config = {**self._placed(), **own}
        config[LISTEN] = _with_ports(
            [where for where in config[LISTEN] if where.partition("/")[0] not in self._not_offered]
        )
        reading, writing = os.pipe()
        with log.with_suffix(".stdout").open("wb") as out:
            process = self._begun(
                [sys.executable, str(SCRIPT), str(writing), json.dumps(config), str(os.getpid())],
                log,
                out,
                pass_fds=[writing],
                env=self._environment(),
            )
        os.close(writing)
        return _Begun(number, process, log, reading, config)

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "RUST_BACKTRACE": "0", "PYTHONPATH": self._path}

    def variant(self, **config: Any) -> PypiNode:
        """Returns another node with its own configuration, not started yet.

        Raises:
            NotApplicable: This release does not know a path of it.
        """
        changed = self._changed(config)
        self._check(changed)
        made = PypiNode(
            self._logs,
            self.version,
            changed,
            self._variant_name(),
            transports=self._places.transports,
            tls=self.tls,
        )
        self._tell_user(made)
        return made

    def _check(self, config: dict[str, Any]) -> None:
        """Looks whether this release knows the paths of a configuration.

        Raises:
            NotApplicable: It does not.
        """
        if self.version == RELEASES[-1]:
            # The suite is written for it: a path that it does not know is a mistake of ours and shall be seen.
            return
        asked = {path: value for path, value in config.items() if (self.version, path) not in self._known}
        if asked:
            done = subprocess.run(
                [sys.executable, str(SCRIPT), "unknown", json.dumps(asked)],
                capture_output=True,
                text=True,
                check=True,
                env=self._environment(),
            )
            unknown = json.loads(done.stdout)
            self._known.update({(self.version, path): unknown.get(path, "") for path in asked})
        for path in config:
            if self._known[self.version, path]:
                raise NotApplicable(f"{self.title} has no configuration key {path}")


def _with_ports(endpoints: list[str]) -> list[str]:
    """Returns endpoints of which at most one, tcp, leaves the choice of its port to the system.

    A node does not tell which of its ports is which.
    """
    free = next((at for at, where in enumerate(endpoints) if where == ANYWHERE[0]), None)
    return [where if at == free else settled(where) for at, where in enumerate(endpoints)]


def _found(endpoints: list[str], ports: list[int]) -> dict[str, Locator]:
    """Returns by transport where the node takes links, given the TCP ports on which it listens."""
    said = [where for where in endpoints if where != ANYWHERE[0]]
    chosen = {locator.port for locator in reached(said).values()}
    left = [port for port in ports if port not in chosen]
    if len(said) < len(endpoints) and left:
        return {"tcp": Locator("tcp", HOST, left[0]), **reached(said)}
    return reached(said)
