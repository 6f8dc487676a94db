"""What a reference node is asked to be, checked once. Every default stands here with its unit and reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from conformance.config import Credentials, Locator, Tls
from conformance.errors import UsageError
from scapy_layers.codes import DEFAULT_BATCH_SIZE, CloseReason, Resolution, WhatAmI
from scapy_layers.errors import WireError
from scapy_layers.primitives import zid_from_text

LEASE_SECONDS = 10.0
"""Announced in OPEN: what real nodes announce."""

PATCH = 1
"""Patch version: marks of FRAGMENT are known."""

MAX_SESSIONS = 1000
"""Sessions at once; real nodes have the same limit. A session costs about 20 kB."""

HALF_OPEN = 200
"""Links at once on which the handshake is not over. Each may wait for ``HANDSHAKE_SECONDS``."""

HANDSHAKE_SECONDS = 10.0
"""From the link to OPEN; what real nodes allow."""

WAITING_BYTES = 16 << 20
"""Bytes that may wait for a neighbour that does not read. Above a quarter of it, droppable messages are dropped."""

MAX_MESSAGE = 1 << 26
"""Bytes of the largest message put together from FRAGMENTs: 64 MiB, so that one link cannot eat the memory."""

GOODBYE_SECONDS = 2.0
"""How long a node that shuts down waits until CLOSE has left on all links."""

RETRY_SECONDS = (0.1, 5.0)
"""Pause before the second attempt to reach another node, and the longest one; it doubles in between."""

RESOLUTIONS = {
    8: Resolution.BITS_8,
    16: Resolution.BITS_16,
    32: Resolution.BITS_32,
    64: Resolution.BITS_64,
}
"""Widths in bits and their codes."""

MODES = {"router": WhatAmI.ROUTER, "peer": WhatAmI.PEER}
"""Roles that a reference node plays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """What a reference node is.

    Attributes:
        zid: Wire bytes of its ZenohID.
        listen: Where it takes links.
        connect: Where it makes links; tried again until it works, and again when the link ends.
        mode: Its role.
        lease: Seconds, announced in OPEN and JOIN.
        batch_size: Bytes of the largest batch it takes.
        fsn: Resolution code of sequence numbers.
        rid: Resolution code of request ids.
        patch: Patch version.
        qos: It has the eight lanes.
        lowlatency: It takes part in low-latency sessions; where QoS lanes are agreed too, those win.
        compression: It takes part in LZ4 compression.
        max_sessions: Sessions at once.
        max_links: Links of one session.
        half_open: Links at once on which the handshake is not over.
        handshake_seconds: How long a handshake may take.
        waiting_bytes: Bytes that may wait for a neighbour that does not read.
        max_message: Bytes of the largest message put together from FRAGMENTs.
        users: Passwords by user; None when it demands no authentication.
        credentials: Whom it is when it connects; None for nobody.
        tls: Certificates for tls locators.
        scout: Group or address where it answers SCOUT; None for nowhere.
        find: It scouts too, and connects to what it finds.
        multicast: Group in which it takes part; None for none.
        mutant: Id of the rule it breaks; empty for none.
        seed: Of its random choices; None for choices nobody can foretell.
    """

    zid: bytes
    listen: tuple[Locator, ...] = ()
    connect: tuple[Locator, ...] = ()
    mode: WhatAmI = WhatAmI.ROUTER
    patch: int = PATCH
    lease: float = LEASE_SECONDS
    batch_size: int = DEFAULT_BATCH_SIZE
    fsn: Resolution = Resolution.BITS_32
    rid: Resolution = Resolution.BITS_32
    qos: bool = True
    lowlatency: bool = False
    compression: bool = False
    max_sessions: int = MAX_SESSIONS
    max_links: int = 1
    half_open: int = HALF_OPEN
    handshake_seconds: float = HANDSHAKE_SECONDS
    waiting_bytes: int = WAITING_BYTES
    max_message: int = MAX_MESSAGE
    users: Mapping[bytes, bytes] | None = None
    credentials: Credentials | None = None
    tls: Tls | None = None
    scout: Locator | None = None
    find: bool = False
    multicast: Locator | None = None
    mutant: str = ""
    seed: int | None = None

    def __post_init__(self) -> None:
        """Checks what one option alone, or two together, rule out.

        Raises:
            UsageError: Says what to write instead.
        """
        _within("--lease", self.lease, 0.001, 1e9, "seconds")
        _within("--batch-size", self.batch_size, 32, DEFAULT_BATCH_SIZE, "bytes")
        _within("--max-sessions", self.max_sessions, 1, 1_000_000, "sessions")
        _within("--max-links", self.max_links, 1, 100, "links")
        _within("--half-open", self.half_open, 1, 1_000_000, "links")
        _within("--handshake-seconds", self.handshake_seconds, 0.001, 1e9, "seconds")
        _within("--waiting-bytes", self.waiting_bytes, 1024, 1 << 40, "bytes")
        _within("--max-message", self.max_message, 1, 1 << 40, "bytes")
        if not 1 <= len(self.zid) <= 16 or not any(self.zid):
            raise UsageError("--zid: a ZenohID has 1 to 16 bytes and is not 0")
        if self.find and self.scout is None:
            raise UsageError("--find needs --scout: the group to ask, like udp/224.0.0.224:7446")
        if not (self.listen or self.connect or self.scout or self.multicast):
            raise UsageError("a node needs --listen, --connect, --scout or --multicast")
        for option, locator in (("--scout", self.scout), ("--multicast", self.multicast)):
            if locator is not None and locator.proto != "udp":
                raise UsageError(f"{option} {locator}: only udp carries datagrams to a group")


def _within(option: str, value: float, least: float, most: float, unit: str) -> None:
    if not least <= value <= most:
        raise UsageError(f"{option} {value:g}: must be {least:g} to {most:g} {unit}")


def users_of(pairs: Iterable[str], file: Path | None = None) -> dict[bytes, bytes] | None:
    """Reads ``USER:PASSWORD`` pairs; None when there are none.

    Args:
        pairs: As typed.
        file: Has one on each line that is not empty.

    Raises:
        UsageError: One has no colon or no user, or the file cannot be read or has none; repeats no password.
    """
    places = [("--user", pair) for pair in pairs]
    if file is not None:
        places += _lines_of(file)
    found: dict[bytes, bytes] = {}
    for place, pair in places:
        user, colon, password = pair.partition(":")
        if not colon or not user:
            raise UsageError(f"{place}: write USER:PASSWORD")
        found[user.encode()] = password.encode()
    return found or None


def _lines_of(file: Path) -> list[tuple[str, str]]:
    """Returns the lines of a file of users that are not empty, each with its place."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"--users {file}: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"--users {file}: is no text in UTF-8") from None
    found = [(f"--users {file}: line {number}", line) for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        # Everybody would be let in.
        raise UsageError(f"--users {file}: names nobody")
    return found


def zid_of(text: str) -> bytes:
    """Reads a ZenohID as people write it: hexadecimal digits, without a leading 0.

    Raises:
        UsageError: It is none.
    """
    if not re.fullmatch(r"[0-9a-fA-F]{1,32}", text):
        raise UsageError(f"--zid {text!r}: write 1 to 32 hexadecimal digits")
    try:
        return zid_from_text(text)
    except WireError as error:
        raise UsageError(f"--zid {text!r}: {error}") from None


def reason_name(reason: int | None) -> str:
    """Returns a close reason in words; ``none`` when nobody gave one."""
    if reason is None:
        return "none"
    return CloseReason(reason).name if reason in set(CloseReason) else f"{reason:#04x}"
