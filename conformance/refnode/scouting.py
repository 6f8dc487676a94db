"""SCOUT and HELLO: who answers, who asks and how often. Datagrams and a time in, datagrams out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scapy_layers.batch import contents
from scapy_layers.codes import PROTOCOL_VERSION, Kind, What, WhatAmI
from scapy_layers.message import Message
from scapy_layers.scouting import Hello, Scout

Address = tuple[str, int]
"""Host and port of a datagram."""

FIRST_GAP_SECONDS = 1.0
"""Between the first two SCOUTs; what real nodes wait."""

LONGEST_GAP_SECONDS = 8.0
"""Where gaps stop to grow; likewise."""


class ScoutPolicy:
    """What a correct node decides about scouting."""

    def unwrapped(self, datagram: bytes) -> bytes:
        """ZN-BAT-105: a datagram begins with its message; no length stands in front."""
        return datagram

    def takes_version(self, version: int) -> bool:
        """ZN-SCT-019: a SCOUT of another version is dropped; so is such a HELLO."""
        return version == PROTOCOL_VERSION

    def refusal(self) -> Message | bytes:
        """ZN-SCT-020: what a SCOUT of another version is answered with: nothing."""
        return b""

    def is_open(self, sessions: int) -> bool:  # noqa: ARG002  (mutants need it)
        """ZN-SCT-001: whoever asks is answered, however many sessions we have."""
        return True

    def is_asked(self, what: int, whatami: int) -> bool:
        """ZN-SCT-004, ZN-SCT-005, ZN-SCT-017, ZN-HLO-017: the bit of our role is set in the bitmap."""
        return bool(what & 1 << whatami)

    def zid_in(self, scout: Scout) -> bytes | None:
        """ZN-SCT-008: the ZenohID that a SCOUT carries; None when I is clear."""
        return bytes(scout.zid) if scout.value("I") else None

    def is_own(self, zid: bytes | None, ours: bytes) -> bool:
        """ZN-SCT-007, ZN-HLO-002: the SCOUT carries a ZenohID, and it is ours."""
        return zid == ours

    def hello(self, zid: bytes, whatami: int, locators: Sequence[str]) -> Message | bytes:
        """ZN-HLO-006, ZN-HLO-010, ZN-HLO-011, ZN-HLO-012, ZN-HLO-016: who we are, and where sessions can be opened."""
        listed = {"L": 1, "locators": list(locators)} if locators else {}
        return Hello(zid=zid, whatami=whatami, **listed)

    def answer_to(self, source: Address, group: Address) -> Address:  # noqa: ARG002  (mutants need it)
        """ZN-SCT-006, ZN-HLO-001: HELLO goes to where the SCOUT came from."""
        return source

    def destination(self, group: Address) -> Address:
        """ZN-SCT-003: SCOUT goes to the group, so that all who are there hear it."""
        return group

    def scout(self, what: int, zid: bytes) -> Message | bytes:
        """ZN-SCT-018, ZN-SCT-021: with our ZenohID, so that we need not hear ourselves."""
        return Scout(I=1, zid=zid, what=what)

    def gap(self, last: float | None) -> float:
        """ZN-SCT-009: seconds to the next SCOUT, given the gap before the last; it doubles up to a limit."""
        return FIRST_GAP_SECONDS if last is None else min(last * 2, LONGEST_GAP_SECONDS)

    def goes_on(self, found: int) -> bool:
        """ZN-SCT-010: scouting ends once somebody was found."""
        return found == 0

    def locators_of(self, hello: Hello, source: Address) -> tuple[str, ...]:
        """ZN-HLO-004, ZN-HLO-019: those listed; without a list the source of the datagram.

        The page does not say which protocol the source speaks: tcp is tried first, then udp.
        """
        if hello.value("L"):
            return tuple(map(str, hello.locators))
        host = f"[{source[0]}]" if ":" in source[0] else source[0]
        return f"tcp/{host}:{source[1]}", f"udp/{host}:{source[1]}"


def _only(datagram: bytes, cls: type[Message]) -> Message | None:
    """Returns the first message of a datagram when it is whole and of a class."""
    inside = contents(datagram, Kind.SCOUTING)
    first = inside.messages[0] if inside.messages else None
    return first if isinstance(first, cls) and not first.errors else None


class Responder:
    """Answers SCOUT.

    Args:
        zid: Wire bytes of our ZenohID.
        whatami: Our role.
        locators: Where we take links.
        group: Where SCOUTs come in.
        policy: Decides.
        sessions: Tells how many sessions we have.
    """

    def __init__(
        self,
        zid: bytes,
        whatami: WhatAmI,
        locators: Sequence[str],
        group: Address,
        policy: ScoutPolicy,
        sessions: Callable[[], int] = lambda: 0,
    ) -> None:
        self._zid = zid
        self._whatami = whatami
        self._locators = locators
        self._group = group
        self._policy = policy
        self._sessions = sessions

    def answer(self, datagram: bytes, source: Address) -> tuple[bytes, Address] | None:
        """Returns HELLO and where it goes, or None for silence."""
        policy = self._policy
        scout = _only(policy.unwrapped(datagram), Scout)
        if not isinstance(scout, Scout):
            return None
        if not policy.takes_version(scout.version):
            refusal = bytes(policy.refusal())
            return (refusal, source) if refusal else None
        if (
            not policy.is_open(self._sessions())
            or not policy.is_asked(scout.what, self._whatami)
            or policy.is_own(policy.zid_in(scout), self._zid)
        ):
            return None
        hello = policy.hello(self._zid, self._whatami, self._locators)
        return bytes(hello), policy.answer_to(source, self._group)


@dataclass(frozen=True, slots=True)
class Found:
    """Another node.

    Attributes:
        zid: Wire bytes of its ZenohID.
        whatami: Its role code.
        locators: Where it says it can be reached.
    """

    zid: bytes
    whatami: int
    locators: tuple[str, ...]


class Seeker:
    """Scouts until somebody answers.

    Args:
        zid: Wire bytes of our ZenohID.
        what: Roles wanted.
        policy: Decides.
    """

    def __init__(self, zid: bytes, what: What, policy: ScoutPolicy) -> None:
        self._zid = zid
        self._what = what
        self._policy = policy
        self._due: float | None = None
        self._gap: float | None = None
        self._found = 0

    def start(self, now: float) -> None:
        """Begins to scout, or begins anew; does nothing while it is at it."""
        if self._due is None:
            self._due, self._gap, self._found = now, None, 0

    def next_deadline(self) -> float | None:
        """Returns when ``tick`` is wanted; None when there is nothing to send."""
        return self._due

    def tick(self, now: float) -> bytes | None:
        """Returns a SCOUT when one is due."""
        if self._due is None or now < self._due:
            return None
        self._gap = self._policy.gap(self._gap)
        self._due = now + self._gap
        return bytes(self._policy.scout(self._what, self._zid))

    def receive(self, datagram: bytes, source: Address) -> Found | None:
        """Takes a datagram; returns who was found, None when it is no HELLO for us."""
        hello = _only(datagram, Hello)
        if not isinstance(hello, Hello) or not self._policy.takes_version(hello.version):
            return None
        if hello.zid == self._zid or not self._policy.is_asked(self._what, hello.whatami):
            return None
        self._found += 1
        if not self._policy.goes_on(self._found):
            self._due = None
        return Found(hello.zid, hello.whatami, self._policy.locators_of(hello, source))
