"""What two ends agree on: pure functions. Spec: Session Establishment, Parameter Negotiation Rules."""

from __future__ import annotations

from dataclasses import dataclass, replace

from conformance.errors import RemoteError
from conformance.session.policy import Policy
from scapy_layers.codes import DEFAULT_BATCH_SIZE, CloseReason, Resolution
from scapy_layers.extensions import Compression, LowLatency, Patch, QoSOffer, RegionName
from scapy_layers.message import Extension
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
        lowlatency: Network messages without FRAME.
        compression: LZ4 batches.
        region: Name of the sender's administrative region; empty when absent.
    """

    fsn: int = Resolution.BITS_32
    rid: int = Resolution.BITS_32
    batch_size: int = DEFAULT_BATCH_SIZE
    qos: bool = False
    patch: int = 0
    lowlatency: bool = False
    compression: bool = False
    region: str = ""

    @property
    def sizes(self) -> tuple[int, int, int]:
        """What stands in INIT when S is set."""
        return self.fsn, self.rid, self.batch_size


DEFAULT_SIZES = Offer().sizes
"""What an INIT without S means (docs/readings.md, R-05)."""


def offer_of(init: Init) -> Offer:
    """Reads the offer out of an INIT; without S the defaults stand (docs/readings.md, R-05)."""
    fsn, rid, batch_size = DEFAULT_SIZES
    if init.value("S"):
        fsn, rid, batch_size = init.fsn, init.rid, init.batch_size
    qos = lowlatency = compression = False
    patch, region = 0, ""
    for extension in init.extensions or ():
        if isinstance(extension, QoSOffer):
            qos = True
        elif isinstance(extension, Patch):
            patch = extension.patch
        elif isinstance(extension, LowLatency):
            lowlatency = True
        elif isinstance(extension, Compression):
            compression = True
        elif isinstance(extension, RegionName):
            region = _text(extension.region)
    return Offer(
        fsn=fsn,
        rid=rid,
        batch_size=batch_size,
        qos=qos,
        patch=patch,
        lowlatency=lowlatency,
        compression=compression,
        region=region,
    )


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def chain_of(offer: Offer) -> list[Extension]:
    """Returns the extensions of INIT that say an offer."""
    chain: list[Extension] = []
    if offer.qos:
        chain.append(QoSOffer())
    if offer.lowlatency:
        chain.append(LowLatency())
    if offer.compression:
        chain.append(Compression())
    if offer.patch:
        chain.append(Patch(patch=offer.patch))
    if offer.region:
        chain.append(RegionName(region=offer.region))
    return chain


def accepted(own: Offer, proposed: Offer, policy: Policy) -> Offer:
    """Returns what an acceptor answers to a proposal.

    Args:
        own: What the acceptor would offer itself.
        proposed: What InitSyn says.
        policy: Decides each parameter.

    Raises:
        RemoteError: With such parameters no session is possible.
    """
    if not policy.accepts_region(proposed.region):
        raise RemoteError(f"a region name of {len(proposed.region.encode())} bytes, 1 to 32 are allowed")
    qos = policy.accepted_qos(own=own.qos, proposed=proposed.qos)
    answer = Offer(
        fsn=policy.accepted_fsn(own.fsn, proposed.fsn),
        rid=policy.accepted_rid(own.rid, proposed.rid),
        batch_size=policy.accepted_batch_size(own.batch_size, proposed.batch_size),
        qos=qos,
        patch=policy.accepted_patch(own.patch, proposed.patch),
        lowlatency=policy.accepted_lowlatency(own=own.lowlatency, proposed=proposed.lowlatency, qos=qos),
        compression=policy.accepted_compression(own=own.compression, proposed=proposed.compression),
        region=own.region,
    )
    if not policy.accepts_batch_size(answer.batch_size):
        raise RemoteError(f"a batch size of {answer.batch_size} bytes leaves no room for a message")
    return answer


def agreed(ours: Offer, answer: Offer, policy: Policy | None = None) -> Offer:
    """Returns what holds for the session, given our offer and the node's answer; the region is the node's.

    Raises:
        RemoteError: The answer raises what may only be lowered, or has what was not offered.
    """
    policy = policy or Policy()
    if policy.refuses_raise() and (answer.fsn > ours.fsn or answer.rid > ours.rid):
        raise RemoteError("InitAck raises a resolution", CloseReason.INVALID)
    if policy.refuses_raise() and answer.patch > ours.patch:
        raise RemoteError("InitAck raises the patch version", CloseReason.GENERIC)
    if not policy.accepts_region(answer.region):
        raise RemoteError(f"a region name of {len(answer.region.encode())} bytes, 1 to 32 are allowed")
    both = replace(
        answer,
        batch_size=min(ours.batch_size, answer.batch_size),
        qos=ours.qos and answer.qos,
        patch=min(ours.patch, answer.patch),
        lowlatency=ours.lowlatency and answer.lowlatency and not (ours.qos and answer.qos),
        compression=ours.compression and answer.compression,
    )
    if not policy.accepts_batch_size(both.batch_size):
        raise RemoteError(f"a batch size of {both.batch_size} bytes leaves no room for a message")
    return both
