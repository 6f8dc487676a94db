"""What the node itself decides about links, one method each; sessions, router and scouting have policies too."""

from __future__ import annotations

from scapy_layers.batch import BatchReader
from scapy_layers.codes import CloseReason
from scapy_layers.extensions import QoS
from scapy_layers.message import Message
from scapy_layers.network import Push

PATIENCE_SECONDS = 5.0
"""How long a neighbour may take nothing while more waits for it than may wait."""

MOST_AT_ONCE = 16
"""So many times what may wait are never held, not even for a moment."""


class NodePolicy:
    """What a correct node decides about its links."""

    def refusal(self, half_open: int, most: int) -> CloseReason | None:
        """ZN-INIT-005: why a new link is refused when too many handshakes are under way; None when it is not."""
        return CloseReason.MAX_SESSIONS if half_open >= most else None

    def may_drop(self, message: Message, waiting: int, most: int) -> bool:
        """ZN-NET-011: a PUSH that may be lost is lost once a quarter of what may wait does wait."""
        if waiting <= most >> 2 or not isinstance(message, Push):
            return False
        for extension in message.extensions or ():
            if isinstance(extension, QoS):
                return not (extension.D or extension.F)
        return True

    def unresponsive(self, waiting: int, most: int, seconds: float) -> bool:
        """ZN-CLS-101: a neighbour that does not read; its session ends with UNRESPONSIVE.

        One that was just told a lot has had no time to read it: it gets some, unless memory is at stake.

        Args:
            waiting: Bytes that wait to leave.
            most: Bytes that may wait.
            seconds: How long nothing was taken while more than that waited.
        """
        return waiting > most and (seconds >= PATIENCE_SECONDS or waiting > most * MOST_AT_ONCE)

    def reader(self) -> type[BatchReader]:
        """ZN-MSG-004, ZN-MSG-005, ZN-BAT-104: what cuts a stream into batches."""
        return BatchReader

    def says_goodbye(self) -> bool:
        """ZN-CLS-006: a node that shuts down ends its sessions with CLOSE."""
        return True

    def hangs_up(self) -> bool:
        """ZN-CLS-108: behind our CLOSE the link ends."""
        return True

    def hangs_up_on_close(self) -> bool:
        """ZN-CLS-007: behind a CLOSE of the other end the link ends."""
        return True
