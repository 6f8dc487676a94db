"""Options of a run, checked once. Every default stands here with its unit and reason."""

from __future__ import annotations

import ipaddress
import random
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from conformance.errors import UsageError
from scapy_layers.codes import DEFAULT_PORT
from spark_reports.rows import VERDICTS

REPLY_SECONDS = 1.0
"""T1: how long an answer may take. Loopback handshakes take 0.3 ms, so this is never waited out on success."""

TIMER_SLACK_SECONDS = 0.15
"""How late a timer of the node may fire."""

CONNECT_SECONDS = 2.0
"""How long making a link may take."""

START_SECONDS = 20.0
"""How long a node of ours may take from its start to the first handshake."""

PROTOCOLS = ("tcp",)
"""Link protocols that the tester speaks."""


@dataclass(frozen=True, slots=True)
class Locator:
    """Where a node can be reached.

    Attributes:
        proto: ``tcp``.
        host: Address or name, without brackets.
        port: 1 to 65535.
    """

    proto: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.proto}/{host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Locator:
        """Reads ``tcp/127.0.0.1:7447``, ``tcp/[::1]:7447``, ``tcp/localhost``.

        Raises:
            UsageError: The text is no such locator; says what is wrong.
        """
        proto, slash, address = text.partition("/")
        match = re.fullmatch(r"(?:\[([^\]]+)\]|([^:\[\]/]+))(?::(\d{1,5}))?", address)
        if not slash or not match:
            raise UsageError(f"{text!r} is no locator; write one like tcp/127.0.0.1:7447")
        if proto not in PROTOCOLS:
            raise UsageError(f"{text!r}: this tester speaks {', '.join(PROTOCOLS)}, not {proto}")
        port = int(match[3]) if match[3] else DEFAULT_PORT
        if not 1 <= port <= 65_535:
            raise UsageError(f"{text!r}: a port is a number from 1 to 65535")
        return cls(proto, match[1] or match[2], port)


def check_allowed(locator: Locator, *, allowed: bool) -> None:
    """Refuses nodes that are not on this machine's loopback unless the user says that it may be tested.

    Raises:
        UsageError: The address is not loopback and the option was not given, or the name is unknown.
    """
    try:
        found = {
            info[4][0] for info in socket.getaddrinfo(locator.host, locator.port, type=socket.SOCK_STREAM)
        }
    except (OSError, UnicodeError):
        raise UsageError(f"{locator}: {locator.host!r} is no address and no known name") from None
    outside = sorted(
        address for address in found if not ipaddress.ip_address(str(address).split("%")[0]).is_loopback
    )
    if outside and not allowed:
        raise UsageError(
            f"{locator} is not on this machine's loopback ({outside[0]}); these tests may harm a node. "
            "If it is yours to test, add --i-may-test-this-node"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """What one run was asked to do.

    Attributes:
        node: ``tcp/...`` or ``pypi[:VERSION]``.
        run_dir: Where rows and captures go.
        run_id: Name of the run; the folder's name.
        seed: Of all random choices.
        time_scale: All times the suite waits are multiplied by it.
        strict_should: A broken SHOULD is a fail, not a warning.
        profile: ``IMPLEMENTATION[:VERSION]`` of a node that was not started by us; empty when unknown.
        may_test: The user says that a node outside loopback may be tested.
    """

    node: str
    run_dir: Path
    run_id: str
    seed: int
    time_scale: float = 1.0
    strict_should: bool = False
    profile: str = ""
    may_test: bool = False

    @property
    def reply(self) -> float:
        """T1 in seconds."""
        return REPLY_SECONDS * self.time_scale

    @property
    def slack(self) -> float:
        """Slack of timers in seconds."""
        return TIMER_SLACK_SECONDS * self.time_scale

    def rng(self, name: str) -> random.Random:
        """Returns the random generator of one test or campaign: the same for the same seed and name."""
        return random.Random(f"{self.seed} {name}")


def check_unused(path: Path) -> None:
    """Refuses a run folder that holds verdicts already: two runs in one folder cannot be told apart.

    Raises:
        UsageError: It does.
    """
    if (path / VERDICTS).exists():
        raise UsageError(f"the run folder {path} holds the verdicts of another run; choose another --run-dir")


def prepare_run_dir(path: Path) -> None:
    """Makes a run folder, or takes an existing one.

    Raises:
        UsageError: It cannot be made or written.
    """
    try:
        (path / "captures").mkdir(parents=True, exist_ok=True)
        probe = path / ".writable"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise UsageError(
            f"cannot write to the run folder {path} ({error.strerror}); choose another --run-dir"
        ) from None
