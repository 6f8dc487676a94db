"""What can go wrong, and whose fault it is.

HarnessError                    never reported as the node's fault
    UsageError                  wrong options; says what to write instead
    NodeDidNotStart             the node could not be had
    LinkFailed                  a link could not be made or used
    Inconclusive                the node was not well before the stimulus, so nothing was learned
SessionError                    during a session
    LocalError                  our code asked for something illegal: a bug, or a bend too early
    RemoteError                 the node broke the protocol; carries the close reason it deserves
Unmet(AssertionError)           an expectation was not met: the node's fault
    NoRoom                      the node takes no more sessions: it cannot show it
NotApplicable                   this node or profile cannot show it
"""

from __future__ import annotations

from scapy_layers.codes import CloseReason


class HarnessError(Exception):
    """The harness or the surroundings failed; the message says what and what to do."""


class UsageError(HarnessError):
    """Wrong options."""


class NodeDidNotStart(HarnessError):
    """The node could not be had."""


class LinkFailed(HarnessError):
    """A link could not be made or used."""


class Inconclusive(HarnessError):
    """Nothing was learned about the node, because it was not well to begin with."""


class SessionError(Exception):
    """Something illegal in a session."""


class LocalError(SessionError):
    """Our side asked for something illegal."""


class RemoteError(SessionError):
    """The node broke the protocol.

    Attributes:
        reason: The close reason it deserves.
    """

    def __init__(self, message: str, reason: int = CloseReason.INVALID) -> None:
        super().__init__(message)
        self.reason = reason


class Unmet(AssertionError):
    """An expectation was not met.

    Attributes:
        expected: What should have been seen, in words that do not change from run to run.
        seen: What was seen instead, likewise.
        detail: Whatever helps a person: values that change from run to run.
    """

    def __init__(self, expected: str, seen: str, detail: str = "") -> None:
        super().__init__(expected, seen, detail)
        self.expected = expected
        self.seen = seen
        self.detail = detail

    def __str__(self) -> str:
        return f"expected {self.expected}, seen {self.seen}"


class NoRoom(Unmet):
    """The node has as many sessions as it takes: it says so (MAX_SESSIONS) behind the first one of ours."""


class NotApplicable(Exception):
    """This node or profile cannot show it; the message says why."""
