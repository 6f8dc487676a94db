"""What two ends agree on: pure functions. Spec: Session Establishment, Parameter Negotiation Rules."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.errors import RemoteError
from scapy_layers.codes import DEFAULT_BATCH_SIZE, CloseReason, Resolution
from scapy_layers.extensions import Patch, QoSOffer
from scapy_layers.transport import Init


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What one end proposes or accepts in INIT.

    Attributes:
        fsn: Resolution code of sequence numbers.
        rid: Resolution code of request ids.
        batch_size: Bytes, the largest batch it can receive.
        qos: QoS lanes.
        patch: Patch version, 0 when absent.
    """

    fsn: int = Resolution.BITS_32
    rid: int = Resolution.BITS_32
    batch_size: int = DEFAULT_BATCH_SIZE
    qos: bool = False
    patch: int = 0


def offer_of(init: Init) -> Offer:
    """Reads the offer out of an INIT; without S the defaults stand (docs/readings.md, S of INIT)."""
    given = init.value("S")
    chain = init.extensions or []
    return Offer(
        fsn=init.fsn if given else Resolution.BITS_32,
        rid=init.rid if given else Resolution.BITS_32,
        batch_size=init.batch_size if given else DEFAULT_BATCH_SIZE,
        qos=any(isinstance(extension, QoSOffer) for extension in chain),
        patch=next((extension.patch for extension in chain if isinstance(extension, Patch)), 0),
    )


def agreed(ours: Offer, answer: Offer) -> Offer:
    """Returns what holds for the session, given our offer and the node's answer.

    Raises:
        RemoteError: The answer raises what may only be lowered, or has what was not offered.
    """
    if answer.fsn > ours.fsn or answer.rid > ours.rid:
        raise RemoteError("InitAck raises a resolution", CloseReason.INVALID)
    if answer.patch > ours.patch:
        raise RemoteError("InitAck raises the patch version", CloseReason.GENERIC)
    return Offer(
        fsn=answer.fsn,
        rid=answer.rid,
        batch_size=min(ours.batch_size, answer.batch_size),
        qos=ours.qos and answer.qos,
        patch=min(ours.patch, answer.patch),
    )
