"""What the node itself decides about links, one method each; sessions, router and scouting have policies too."""

from __future__ import annotations

from scapy_layers.codes import CloseReason
from scapy_layers.extensions import QoS
from scapy_layers.message import Message
from scapy_layers.network import Push


class NodePolicy:
    """What a correct node decides about its links."""

    def refusal(self, half_open: int, most: int) -> CloseReason | None:
        """ZN-INIT-005: why a new link is refused when too many handshakes are under way; None when it is not."""
        return CloseReason.MAX_SESSIONS if half_open >= most else None

    def may_drop(self, message: Message, waiting: int, most: int) -> bool:
        """ZN-NET-010: a PUSH that may be lost is lost once a quarter of what may wait does wait."""
        if waiting <= most >> 2 or not isinstance(message, Push):
            return False
        for extension in message.extensions or ():
            if isinstance(extension, QoS):
                return not (extension.D or extension.F)
        return True

    def unresponsive(self, waiting: int, most: int) -> bool:
        """ZN-CLS-101: too much waits for a neighbour that does not read; its session ends with UNRESPONSIVE."""
        return waiting > most

    def says_goodbye(self) -> bool:
        """ZN-CLS-006: a node that shuts down ends its sessions with CLOSE."""
        return True

    def hangs_up(self) -> bool:
        """ZN-CLS-108: behind our CLOSE the link ends."""
        return True

    def hangs_up_on_close(self) -> bool:
        """ZN-CLS-007: behind a CLOSE of the other end the link ends."""
        return True
