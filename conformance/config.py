"""Options of a run, checked once. Every default stands here with its unit and reason."""

from __future__ import annotations

import ipaddress
import os
import random
import re
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

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

PROTOCOLS = ("tcp", "tls", "udp", "ws", "unixsock-stream")
"""Link protocols that the tester speaks."""

UNIX = "unixsock-stream"

PASSWORD_IN = "ZENOH_PASSWORD"  # noqa: S105  (its name)
"""Variable with the password of ``--user``: what stands in a command can be read by everybody on the machine."""

LONGEST_PATH = 107
"""Bytes of the path of a Unix socket that Linux takes."""

EXAMPLES = {
    "tcp": "tcp/127.0.0.1:7447",
    "tls": "tls/localhost:7447",
    "udp": "udp/127.0.0.1:7447 or udp/224.0.0.224:7446#iface=lo",
    "ws": "ws/127.0.0.1:7447",
    UNIX: "unixsock-stream//tmp/zenoh.sock",
}


@dataclass(frozen=True, slots=True)
class Locator:
    """Where a node can be reached, or where one listens.

    Attributes:
        proto: One of ``PROTOCOLS``.
        host: Address or name, without brackets; empty for a Unix socket.
        port: 1 to 65535; 0 when the system chooses, and for a Unix socket.
        path: Of a Unix socket; empty otherwise.
        metadata: What stands behind ``?``: ``rel``, ``prio``.
        config: What stands behind ``#`` and never travels: ``iface``, ``ttl``.
    """

    proto: str
    host: str
    port: int
    path: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict, hash=False)
    config: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return self.bare + _pairs("?", self.metadata) + _pairs("#", self.config)

    @property
    def bare(self) -> str:
        """The text without what stands behind ``?`` and ``#``."""
        if self.proto == UNIX:
            return f"{self.proto}/{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.proto}/{host}:{self.port}"

    @property
    def group(self) -> bool:
        """The address is one of a multicast group."""
        try:
            return ipaddress.ip_address(self.host.partition("%")[0]).is_multicast
        except ValueError:
            return False

    @classmethod
    def parse(cls, text: str, *, listening: bool = False) -> Locator:
        """Reads ``tcp/127.0.0.1:7447``, ``tcp/[::1]:7447``, ``tls/localhost``, ``unixsock-stream//tmp/a.sock``.

        Args:
            text: The locator.
            listening: Port 0 is allowed: the system chooses.

        Raises:
            UsageError: The text is no such locator; says what to write.
        """
        proto, slash, rest = text.partition("/")
        if not slash or not text.isprintable():
            raise UsageError(f"{text!r} is not a locator; use one like {EXAMPLES['tcp']}")
        if proto not in PROTOCOLS:
            raise UsageError(f"{text!r}: this tester speaks {', '.join(PROTOCOLS)}, not {proto or 'nothing'}")
        rest, _, config = rest.partition("#")
        address, _, metadata = rest.partition("?")
        data, options = _read_pairs(text, metadata), _read_pairs(text, config)
        if proto == UNIX:
            return cls(proto, "", 0, _path(text, address), data, options)
        match = re.fullmatch(r"(?:\[([^\]]+)\]|([^:\[\]/]+))(?::(\d{1,5}))?", address)
        if not match:
            hint = " (put an IPv6 address in brackets)" if address.count(":") > 1 else ""
            raise UsageError(f"{text!r} is not a locator; use one like {EXAMPLES[proto]}{hint}")
        port = int(match[3]) if match[3] else DEFAULT_PORT
        least = 0 if listening else 1
        if not least <= port <= 65_535:
            raise UsageError(f"{text!r}: a port is a number from {least} to 65535")
        return cls(proto, match[1] or match[2], port, "", data, options)


def _path(text: str, address: str) -> str:
    if not address or len(address.encode()) > LONGEST_PATH or "\0" in address:
        raise UsageError(
            f"{text!r}: it needs a path of 1 to {LONGEST_PATH} bytes; use one like {EXAMPLES[UNIX]}"
        )
    return address


def _read_pairs(text: str, pairs: str) -> dict[str, str]:
    found = {}
    for pair in filter(None, pairs.split(";")):
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"{text!r}: {pair!r} is not an option; use key=value, separated by ;")
        found[key] = value
    return found


def _pairs(mark: str, pairs: Mapping[str, str]) -> str:
    return mark + ";".join(f"{key}={value}" for key, value in sorted(pairs.items())) if pairs else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Certificates for links over TLS, as paths of PEM files.

    Attributes:
        ca: Who must have signed the certificate of the other end.
        certificate: Ours, with its chain: needed to listen, and to connect where the other end demands one.
        key: The key of our certificate.
        verify: The name of the node we connect to must stand in its certificate, and ``ca`` must vouch for it.
        mutual: Whoever connects to us must show a certificate that ``ca`` vouches for.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    verify: bool = True
    mutual: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What we show when we connect.

    Attributes:
        user: Its name.
        password: Never travels; it is the message of a keyed hash. Nor is it written or shown anywhere.
    """

    user: bytes
    password: bytes = field(repr=False)

    @classmethod
    def parse(cls, text: str, option: str = "--user") -> Self:
        """Reads ``NAME:PASSWORD``, or ``NAME`` when the password is in the variable ``ZENOH_PASSWORD``.

        Args:
            text: What was typed.
            option: Where.

        Raises:
            UsageError: It is neither; does not repeat what may be a password.
        """
        name, colon, password = text.partition(":")
        if not colon:
            password = os.environ.get(PASSWORD_IN, "")
        if not name or not text.isprintable() or not password.isprintable():
            raise UsageError(
                f"{option}: write NAME:PASSWORD, or NAME and put the password into {PASSWORD_IN}"
            )
        if not password:
            raise UsageError(
                f"{option}: no password for {name}; write NAME:PASSWORD, or put it into {PASSWORD_IN}"
            )
        return cls(user=name.encode(), password=password.encode())


def check_allowed(locator: Locator, *, allowed: bool) -> None:
    """Refuses nodes that are not on this machine's loopback unless the user says that it may be tested.

    Raises:
        UsageError: The address is not loopback and the option was not given, or the name is unknown.
    """
    if locator.proto == UNIX or (locator.group and locator.config.get("iface") == "lo"):
        return
    try:
        found = {
            info[4][0] for info in socket.getaddrinfo(locator.host, locator.port, type=socket.SOCK_STREAM)
        }
    except (OSError, UnicodeError):
        raise UsageError(f"{locator}: {locator.host!r} is not an address or known name") from None
    outside = sorted(
        address for address in found if not ipaddress.ip_address(str(address).split("%")[0]).is_loopback
    )
    if outside and not allowed:
        raise UsageError(
            f"{locator} is not on this machine's loopback ({outside[0]}); these tests may harm a node. "
            "If you are allowed to test it, add --i-may-test-this-node"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """What one run was asked to do.

    Attributes:
        node: ``tcp/...``, ``pypi[:VERSION]``, ``ref[:MUTANT]``, ``cmd:...`` or ``null:KIND``.
        run_dir: Where rows and captures go.
        run_id: Name of the run; the folder's name.
        seed: Of all random choices.
        time_scale: All times the suite waits are multiplied by it.
        strict_should: A broken SHOULD is a fail, not a warning.
        profile: Of a node that is not ours: a name that we ship, with ``:VERSION``, or a file; empty when unknown.
        may_test: The user says that a node outside loopback may be tested.
        user: Who we are, to a node that asks for a user and a password; None to one that does not.
        transports: What links are made of in this run; a node of ours listens on all of them.
        trust_node: The node is not looked at between tests. Only for tests of the suite itself: a node that can do
            nothing then meets every test.
    """

    node: str
    run_dir: Path
    run_id: str
    seed: int
    time_scale: float = 1.0
    strict_should: bool = False
    profile: str = ""
    may_test: bool = False
    user: Credentials | None = None
    transports: tuple[str, ...] = ("tcp",)
    trust_node: bool = False

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
        # Without a name: several processes may look at once.
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise UsageError(
            f"cannot write to the run folder {path} ({error.strerror}); choose another --run-dir"
        ) from None
