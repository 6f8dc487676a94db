"""What every way to obtain a node offers."""

from __future__ import annotations

import contextlib
import random
import time
from abc import ABC, abstractmethod
from typing import Any, Self

from conformance.config import Credentials, Locator, Tls
from conformance.errors import HarnessError, LocalError, NodeDidNotStart, NotApplicable, Unmet
from conformance.profiles import GENERAL, Profile
from conformance.session.authentication import challenged
from conformance.session.sequence import WRITTEN_BITS, mask
from conformance.tester import Fencing, SessionEnd, Tester, is_refusal, largest_number, trouble
from scapy_layers.codes import WhatAmI
from scapy_layers.primitives import zid_to_text
from scapy_layers.transport import Init

LOWERED_BITS = 16
"""Bits of sequence numbers that sessions of ours come to the end of."""


class Node(ABC):
    """A node under test.

    Attributes:
        locator: Where it is reached; changes with a restart.
        impl: Implementation, ``unknown`` when it cannot be told.
        version: Its version, ``unknown`` likewise.
        owned: We started it, so that it may be configured, harmed and restarted.
        listens: It takes links; else it only makes some, to us.
        configured: We know its configuration, because it is ours.
        starts: How often it was started.
        whatami: Its role, once it was asked; empty before.
        zid: Its ZenohID in text form, likewise.
        scouting: Where it hears SCOUTs; None when it does not, or nobody knows.
        tls: Certificates for links to it over TLS; None when it takes none.
        user: Who we are to it; None when it does not ask.
        asks_user: It asks who we are, as far as ``ask`` has seen; None before.
        profile: What it supports.
        fence: How it can be asked whether it has handled all that was sent: ``query``, ``interest``, ``none``.
        as_written: In sessions for which it lowers the resolution it hears numbers up to 2^bits - 1 (reading R-42); None
            until ``learn_counting``.
    """

    locator: Locator
    impl: str = "unknown"
    version: str = "unknown"
    owned: bool = False
    listens: bool = True
    configured: bool = False
    starts: int = 0
    whatami: str = ""
    zid: str = ""
    scouting: Locator | None = None
    tls: Tls | None = None
    user: Credentials | None = None
    asks_user: bool | None = None
    profile: Profile = GENERAL
    fence: str = "query"
    as_written: bool | None = None
    _locators: dict[str, Locator] | None = None

    @property
    def pid(self) -> int | None:
        """Number of its process; None when it is not ours."""
        return None

    @property
    def locators(self) -> dict[str, Locator]:
        """Where it is reached, by transport."""
        return self._locators or {self.locator.proto: self.locator}

    def lacks(self, transport: str) -> str:
        """Returns why no link of this transport leads to the node, or nothing."""
        return (
            "" if transport in self.locators else f"nobody knows where the node takes links over {transport}"
        )

    @abstractmethod
    def start(self) -> None:
        """Makes the node ready for links.

        Raises:
            NodeDidNotStart: It does not come up; says why.
        """

    def launch(self) -> None:
        """Starts the node without waiting for anything: for one that connects to us, which may never listen."""
        self.start()

    def ahead(self) -> None:  # noqa: B027  (most have nothing of the kind)
        """Starts what the next ``start`` takes over, if that disturbs nobody; ``kill`` leaves it, ``stop`` ends it."""

    @abstractmethod
    def stop(self) -> None:
        """Ends what ``start`` began; does nothing the second time."""

    def dismiss(self) -> None:
        """Asks the node to end in order, and does not wait until it has.

        Raises:
            NotApplicable: The node was not started by us.
        """
        raise NotApplicable("needs a node that was started by us")

    def kill(self) -> None:
        """Ends a node that does not answer any more, at once."""
        self.stop()

    @abstractmethod
    def death(self) -> str:
        """Returns how the process ended, or nothing while it lives or is not ours."""

    def has_left(self) -> bool:
        """Tells whether the process has ended in order, as one that only connects may when its link ends."""
        return False

    def awaited_death(self) -> str:
        """Returns the same of a process that may be about to end."""
        return self.death()

    @abstractmethod
    def complaints(self) -> str:
        """Returns what the process said about a failure of its own since the last call (panics)."""

    def last_words(self) -> str:
        """Returns what a process that has ended by itself wrote last, and where; empty when nobody knows."""
        return ""

    def variant(self, **config: Any) -> Node:  # noqa: ARG002  (nodes of ours take it)
        """Returns another node of the same kind with a configuration of its own, not started yet.

        Args:
            config: Paths of the node's configuration with ``__`` for ``/``, and values.

        Raises:
            NotApplicable: The node was not started by us.
        """
        raise NotApplicable("needs a node that is started with a configuration of its own")

    def problem(self, reply: float) -> str:
        """Returns why the node is not well, or nothing: process, standard error, then a fresh session."""
        found = self.death() or self.complaints() or self._canary(reply)
        # A node that dies complains or refuses first; that it died says more.
        return (found and self.awaited_death()) or found or self.complaints()

    def _canary(self, reply: float) -> str:
        """Opens a fresh session, pings, and closes; returns why that failed, or nothing."""
        return trouble(self.tester(reply))

    def tester(self, reply: float, rng: random.Random | None = None) -> Tester:
        """Returns a tester of this node."""
        made = Tester(self.locator, rng or random.Random(), reply, self.tls)
        made.fencing = Fencing(self.fence)
        made.user = self.user
        made.as_written = bool(self.as_written)
        return made

    def restart(self) -> None:
        """Ends the node and starts it again."""
        self.stop()
        self.start()

    def ask(self, reply: float) -> None:
        """Learns role and ZenohID from a handshake.

        Raises:
            NodeDidNotStart: No correct InitAck comes.
        """
        deadline = time.monotonic() + reply
        why = self._canary(reply)
        # One that has room for few sessions may not have noticed yet that the one that showed it to be ready is over.
        while self.owned and is_refusal(why) and time.monotonic() < deadline:
            why = self._canary(reply)
        if why:
            why = why if str(self.locator) in why else f"{self.locator}: {why}"
            raise NodeDidNotStart(f"{why}{self._of_user(why)}")
        tester = self.tester(reply)
        try:
            end = tester.starting()
            end.init()
            answer = end.expect(Init, A=1)
            self.whatami = role_name(answer.whatami)
            self.zid = zid_to_text(answer.zid)
            self.asks_user = challenged(bytes(answer))[1] is not None
        except (Unmet, HarnessError) as error:
            raise NodeDidNotStart(f"{self.locator}: {error}") from None
        finally:
            tester.close()

    def learn_counting(self, reply: float) -> None:
        """Learns how far it counts sequence numbers, once, if it lowers their resolution and can be asked."""
        # A client of ours has no locator.
        if self.as_written is not None or not (self.listens and hasattr(self, "locator")):
            return
        self.as_written = False
        with (
            contextlib.ExitStack() as stack,
            contextlib.suppress(Unmet, HarnessError, LocalError, NotApplicable),
        ):
            tester = self.tester(reply)
            stack.callback(tester.close)
            code = tester.session().session.agreed.fsn
            if WRITTEN_BITS[code] <= LOWERED_BITS:
                self.as_written = largest_number(tester, code) > mask(code)

    def _of_user(self, why: str) -> str:
        """Returns what may be wrong with who we are, when the node refuses a session, or nothing."""
        if self.user is None:
            return (
                "; if it asks for a user and a password, name them with --user"
                if "expected INIT" in why
                else ""
            )
        name = self.user.user.decode(errors="replace")
        return f"; it may not know the user {name}, or by another password" if "expected OPEN" in why else ""

    def doubt(self, reply: float) -> str:  # noqa: ARG002  (foreign nodes need it)
        """Returns why this is no Zenoh node at all, so that nothing that it does may be judged; or nothing."""
        return ""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            # Ctrl-C too: nobody else knows of the process yet.
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def role_name(whatami: int) -> str:
    """Returns the name of a role; a code that is none stays a number."""
    return WhatAmI(whatami).name.lower() if whatami in set(WhatAmI) else f"role {int(whatami)}"


def ping(end: SessionEnd) -> None:
    """Waits until the node has handled all that was sent, as far as it can be asked.

    Raises:
        Unmet: It does not say so.
    """
    with contextlib.suppress(NotApplicable):
        end.fence()
