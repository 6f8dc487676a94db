"""What a passive reader says about each message."""

from __future__ import annotations

from dataclasses import dataclass, field

from scapy_layers.conversation.exchanges import Exchange
from scapy_layers.conversation.session import Session
from scapy_layers.fields import Rest
from scapy_layers.message import Layer
from scapy_layers.remarks import Lane, Remark, RemarkKind
from scapy_layers.stream import Way


class Unread(Layer):
    """Bytes of a batch that belong to no message: behind one that is refused, or all of it."""

    name = "UNREAD"
    fields_desc = [Rest("data")]  # noqa: RUF012  (that is how Scapy layers are written)


@dataclass(slots=True, eq=False)
class Heard:
    """One message as a passive reader saw it.

    Attributes:
        number: Of the packet in which it ended. On one way of a link they count up; what had to wait (for a hole
            to be filled, for the HELLO that shows a SCOUT to an uncommon place to be one) comes later than others.
        time: Of that packet, ns since 1970.
        way: Link and direction.
        message: The layer: transport (a FRAME included, once), network, scouting, or ``Unread``.
        session: What it belongs to; None for scouting.
        within: The FRAME, or the last FRAGMENT, that carried a network message.
        pieces: Packet numbers of the fragments it was put together from.
        lane: Of a FRAME or FRAGMENT, and of what they carry.
        source_zid: ZenohID of the sender, as text.
        target_zid: ZenohID of the receiver, as text.
        keyexpr: Full key of a PUSH, REQUEST, RESPONSE, INTEREST, of the declaration, or of what is undeclared.
            Empty where the message says so; None where there is none or the alias is not known.
        exchange: What it belongs to.
        interest: The interest that a declaration answers.
        ignored: Receivers drop it, because of its sequence number or what it stands in.
        remarks: What is wrong with it, or worth saying.
    """

    number: int
    time: int
    way: Way
    message: Layer
    session: Session | None = None
    within: Layer | None = None
    pieces: tuple[int, ...] = ()
    lane: Lane | None = None
    source_zid: str | None = None
    target_zid: str | None = None
    keyexpr: str | None = None
    exchange: Exchange | None = None
    interest: Exchange | None = None
    ignored: bool = False
    remarks: list[Remark] = field(default_factory=list)

    @property
    def refused(self) -> bool:
        """A strict decoder refuses it."""
        return bool(self.remarks) and any(remark.kind is RemarkKind.REFUSED for remark in self.remarks)

    def remark(self, kind: RemarkKind, text: str) -> None:
        """Adds a remark."""
        self.remarks.append(Remark(kind, text))
