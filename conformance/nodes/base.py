"""What every way to obtain a node offers."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from typing import Any, Self

from conformance.config import Locator
from conformance.errors import HarnessError, NodeDidNotStart, NotApplicable, Unmet
from conformance.tester import Tester, why_not_well
from scapy_layers.codes import WhatAmI
from scapy_layers.primitives import zid_to_text
from scapy_layers.transport import Init


class Node(ABC):
    """A node under test.

    Attributes:
        locator: Where it is reached; changes with a restart.
        impl: Implementation, ``unknown`` when it cannot be told.
        version: Its version, ``unknown`` likewise.
        owned: We started it, so that it may be configured, harmed and restarted.
        starts: How often it was started.
        whatami: Its role, once it was asked; empty before.
        zid: Its ZenohID in text form, likewise.
        scouting: Where it hears SCOUTs; None when it does not, or nobody knows.
    """

    locator: Locator
    impl: str = "unknown"
    version: str = "unknown"
    owned: bool = False
    starts: int = 0
    whatami: str = ""
    zid: str = ""
    scouting: Locator | None = None

    @abstractmethod
    def start(self) -> None:
        """Makes the node ready for links.

        Raises:
            NodeDidNotStart: It does not come up; says why.
        """

    def launch(self) -> None:
        """Starts the node without waiting for anything: for one that connects to us, which may never listen."""
        self.start()

    @abstractmethod
    def stop(self) -> None:
        """Ends what ``start`` began; does nothing the second time."""

    def kill(self) -> None:
        """Ends a node that does not answer any more, at once."""
        self.stop()

    @abstractmethod
    def death(self) -> str:
        """Returns how the process ended, or nothing while it lives or is not ours."""

    @abstractmethod
    def complaints(self) -> str:
        """Returns what the process said about a failure of its own since the last call (panics)."""

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
        return self.death() or self.complaints() or why_not_well(self.locator, reply) or self.complaints()

    def restart(self) -> None:
        """Ends the node and starts it again."""
        self.stop()
        self.start()

    def ask(self, reply: float) -> None:
        """Learns role and ZenohID from a handshake.

        Raises:
            NodeDidNotStart: No correct InitAck comes.
        """
        why = why_not_well(self.locator, reply)
        if why:
            raise NodeDidNotStart(why if str(self.locator) in why else f"{self.locator}: {why}")
        tester = Tester(self.locator, random.Random(), reply)
        try:
            end = tester.link()
            end.send(tester.init())
            answer = end.expect(Init, A=1)
            self.whatami = WhatAmI(answer.whatami).name.lower()
            self.zid = zid_to_text(answer.zid)
        except (Unmet, HarnessError) as error:
            raise NodeDidNotStart(f"{self.locator}: {error}") from None
        finally:
            tester.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
