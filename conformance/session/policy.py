"""Decisions that the specification gives to a node, one short method each, tagged with requirements.

A machine asks, it does not decide; a mutant is a policy with one method replaced. Resolutions are codes
(0 to 3), leases are seconds, sizes are bytes, refusals are CLOSE reasons.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from conformance.session import compression, sequence
from scapy_layers.codes import PROTOCOL_VERSION, CloseReason, Priority
from scapy_layers.errors import UnknownMandatoryExtension, WireError
from scapy_layers.message import Message


class Dice(Protocol):
    """A source of random numbers; ``random.Random`` is one. The machine has none of its own."""

    def randint(self, a: int, b: int) -> int:
        """Returns a number from ``a`` to ``b``, both included."""

    def randbytes(self, n: int) -> bytes:
        """Returns ``n`` random bytes."""


KEEP_ALIVES_PER_LEASE = 4
"""Keep-Alive: at least one message every quarter of the lease."""

COOKIE_BYTES = 16
"""Enough that no two handshakes ever share one, and none can be guessed."""

SMALLEST_BATCH = 32
"""Bytes: below it a FRAME with its lane and number leaves no room for a fragment worth sending."""

FRAME_ROOM = 16
"""Bytes kept free in a batch for prefix, header, number, lane and marker of a FRAME or FRAGMENT."""

REGION_BYTES = 32
"""Longest region name, as real nodes have it."""


def password_proof(password: bytes, nonce: int) -> bytes:
    """Returns what proves a password: HMAC-SHA3-256 of it, the nonce (u64, low byte first) being the key."""
    return hmac.digest(nonce.to_bytes(8, "little"), password, "sha3_256")


class Policy:
    """What a correct node decides in a session."""

    # INIT ------------------------------------------------------------------------------------------

    def version(self) -> int:
        """ZN-INIT-014: the protocol version that INIT and JOIN name."""
        return PROTOCOL_VERSION

    def accepts_version(self, version: int) -> bool:
        """ZN-INIT-003, ZN-INIT-014: versions with which a session is possible."""
        return version == PROTOCOL_VERSION

    def version_refusal(self) -> int:
        """ZN-INIT-045: the reason that answers another version."""
        return CloseReason.UNSUPPORTED

    def accepted_fsn(self, own: int, proposed: int) -> int:
        """ZN-INIT-022, ZN-INIT-046, ZN-INIT-047: lower than proposed or equal, never higher."""
        return min(own, proposed)

    def accepted_rid(self, own: int, proposed: int) -> int:
        """ZN-INIT-022, ZN-INIT-046, ZN-INIT-047: as the resolution of sequence numbers."""
        return min(own, proposed)

    def accepted_batch_size(self, own: int, proposed: int) -> int:
        """ZN-INIT-048: the smaller one."""
        return min(own, proposed)

    def accepts_batch_size(self, size: int) -> bool:
        """ZN-INIT-027: sizes within which messages can be sent at all; the page names no smallest one."""
        return size >= SMALLEST_BATCH

    def accepted_qos(self, *, own: bool, proposed: bool) -> bool:
        """ZN-INIT-032, ZN-INIT-049: lanes only when both ends offer them."""
        return own and proposed

    def accepted_lowlatency(self, *, own: bool, proposed: bool, qos: bool) -> bool:
        """ZN-INIT-038, ZN-INIT-050, ZN-INIT-051: only when both ends offer it, and not together with lanes."""
        return own and proposed and not qos

    def accepted_compression(self, *, own: bool, proposed: bool) -> bool:
        """ZN-INIT-039: only when both ends offer it."""
        return own and proposed

    def accepted_patch(self, own: int, proposed: int) -> int:
        """ZN-INIT-040, ZN-INIT-043: the smaller one; absent counts as 0."""
        return min(own, proposed)

    def accepts_region(self, name: str) -> bool:
        """ZN-INIT-041: names of up to 32 bytes; the empty one stands for none."""
        return len(name.encode()) <= REGION_BYTES

    def refuses_raise(self) -> bool:
        """ZN-INIT-047: an InitAck that raises what was proposed ends the handshake."""
        return True

    def writes_sizes(self, sizes: Collection[int], defaults: Collection[int]) -> bool:
        """ZN-INIT-011: S whenever the values are not what its absence means, in each reading of that."""
        return sizes != defaults

    def sizes_unsaid(self, proposed: tuple[int, int, int]) -> tuple[int, int, int]:
        """ZN-INIT-012: what an InitAck without S means: resolutions and batch size as they were proposed."""
        return proposed

    def cookie(self, rng: Dice) -> bytes:
        """ZN-INIT-002, ZN-INIT-031: the challenge of InitAck, another one in every handshake."""
        return rng.randbytes(COOKIE_BYTES)

    def returned_cookie(self, cookie: bytes) -> bytes:
        """ZN-INIT-029: the cookie goes back bit for bit."""
        return cookie

    def refusal_of(self, error: WireError | None) -> int:
        """ZN-INIT-052, ZN-EXT-103, ZN-CLS-107: the reason for bytes that do not decode."""
        unsupported = isinstance(error, UnknownMandatoryExtension)
        return CloseReason.UNSUPPORTED if unsupported else CloseReason.INVALID

    def takes_empty_units(self) -> bool:
        """ZN-INIT-052: whether a unit without a message is passed over in a handshake too (reading R-57)."""
        return False

    def unexpected(self, expected: str) -> int:
        """ZN-INIT-007, ZN-CLS-107: the reason for a message that is not the expected one of the handshake."""
        del expected
        return CloseReason.INVALID

    # OPEN ------------------------------------------------------------------------------------------

    def accepts_cookie(self, given: bytes, returned: bytes) -> bool:
        """ZN-INIT-006, ZN-INIT-030, ZN-OPEN-005: exactly the cookie of this handshake."""
        return hmac.compare_digest(given, returned)

    def initial_sn(self, resolution: int, rng: Dice) -> int:
        """ZN-OPEN-007, ZN-OPEN-008: random, inside the agreed range."""
        return rng.randint(0, sequence.mask(resolution))

    def accepts_initial_sn(self, sn: int, resolution: int) -> bool:
        """ZN-OPEN-009: every number of the range that the page gives."""
        return sn >> sequence.WRITTEN_BITS[resolution] == 0

    def announced_lease(self, own: float, theirs: float | None) -> float:
        """ZN-OPEN-003: our own lease, whatever the other end announced (None when it has not yet)."""
        del theirs
        return own

    def lease_in_seconds(self, lease: float) -> bool:
        """ZN-OPEN-004: T for a whole number of seconds, milliseconds otherwise."""
        return lease == int(lease)

    def accepts_lease(self, lease: float) -> bool:
        """ZN-OPEN-014: a lease of nothing would be over when it begins; the page names no smallest one."""
        return lease > 0

    def confirms_qos(self, *, agreed: bool) -> bool:
        """ZN-OPEN-018: OPEN says QoS when INIT agreed on it."""
        return agreed

    def confirms_lowlatency(self, *, agreed: bool) -> bool:
        """ZN-OPEN-022: OPEN says LowLatency when INIT agreed on it, never otherwise."""
        return agreed

    def wrapped(self, raw: bytes) -> bytes:
        """ZN-INIT-039: a batch of a session that agreed on compression, as it travels."""
        return compression.wrap(raw)

    def unwrapped(self, batch: bytes, most: int) -> bytes:
        """ZN-INIT-039: what such a batch holds; see ``compression.unwrap``."""
        return compression.unwrap(batch, most)

    def confirms_compression(self, *, agreed: bool) -> bool:
        """ZN-OPEN-023: OPEN says Compression when INIT agreed on it, never otherwise."""
        return agreed

    def accepts_user(self, users: Mapping[bytes, bytes], user: bytes, nonce: int, proof: bytes) -> bool:
        """ZN-INIT-004, ZN-OPEN-020: a known user with the right password."""
        password = users.get(user)
        # The same work for users there are and users there are not.
        right = hmac.compare_digest(password_proof(password or b"", nonce), proof)
        return right and password is not None

    def authentication_refusal(self) -> int:
        """ZN-INIT-004, ZN-CLS-107: the reason for a missing or wrong proof."""
        return CloseReason.INVALID

    def admits(self, own: bytes, theirs: bytes, present: Collection[bytes], most: int | None) -> int | None:
        """ZN-INIT-005, ZN-CLS-106: None, or the reason why there can be no session with a node.

        Args:
            own: Our ZenohID.
            theirs: Theirs.
            present: ZenohIDs that have a session to which this link does not belong.
            most: Sessions at most; None for no limit.
        """
        if theirs == own:
            return CloseReason.CONNECTION_TO_SELF
        if theirs in present:
            return CloseReason.MAX_LINKS
        if most is not None and len(present) >= most:
            return CloseReason.MAX_SESSIONS
        return None

    def handshake_refusal(self) -> int:
        """ZN-CLS-106: the reason for a handshake that does not go on in time."""
        return CloseReason.EXPIRED

    # Lease -----------------------------------------------------------------------------------------

    def effective_lease(self, ours: float, theirs: float) -> float:
        """ZN-OPEN-012, ZN-OPEN-013: seconds of silence after which the node counts as gone."""
        return min(ours, theirs)

    def keep_alive_period(self, ours: float, theirs: float) -> float:
        """ZN-KA-101, ZN-KA-102: seconds between two messages of ours, given both leases."""
        return min(ours, theirs) / KEEP_ALIVES_PER_LEASE

    def renews_lease(self, messages: Sequence[Message]) -> bool:
        """ZN-OPEN-015: any message shows that the node lives."""
        del messages
        return True

    def expiry_reason(self) -> int | None:
        """ZN-KA-104, ZN-CLS-106: what CLOSE says when the lease ran out; None: no CLOSE."""
        return CloseReason.EXPIRED

    def expiry_ends_all_links(self) -> bool:
        """ZN-KA-106: each link has a lease of its own; the session lives as long as one of them does."""
        return False

    # CLOSE -----------------------------------------------------------------------------------------

    def answers_close(self) -> bool:
        """ZN-CLS-105: CLOSE needs no answer."""
        return False

    def ends_on_close(self, *, session: bool) -> bool:
        """ZN-CLS-007, ZN-CLS-102: CLOSE ends the link over which it came, whatever S says."""
        del session
        return True

    def ends_all_links(self, *, session: bool) -> bool:
        """ZN-CLS-003, ZN-CLS-004: with S CLOSE ends the other links of the session too."""
        return session

    # FRAME and FRAGMENT ----------------------------------------------------------------------------

    def following_sn(self, sn: int, resolution: int) -> int:
        """ZN-FRM-002, ZN-FRM-010: one more, 0 after the largest."""
        return sequence.following(sn, resolution)

    def in_range(self, sn: int, resolution: int) -> bool:
        """ZN-FRM-002: numbers inside the agreed resolution, as wide as the page has it."""
        return sn >> sequence.WRITTEN_BITS[resolution] == 0

    def is_new(self, last: int, sn: int, resolution: int) -> bool:
        """ZN-FRM-009: not heard before."""
        return sequence.is_new(last, sn, resolution)

    def accepts_lane(self, priority: int, *, qos: bool) -> bool:
        """ZN-INIT-049: lanes other than DATA only when QoS was agreed."""
        return qos or priority == Priority.DATA

    def room(self, batch_size: int) -> int:
        """ZN-BAT-103, ZN-INIT-027: bytes of network messages that fit into a batch of the agreed size."""
        return batch_size - FRAME_ROOM

    def writes_lane(self, priority: int) -> bool:
        """ZN-FRM-007, ZN-FRG-104: the lane stands on every FRAME and FRAGMENT but those of DATA."""
        return priority != Priority.DATA

    def marks_first(self, patch: int) -> bool:
        """ZN-INIT-043, ZN-INIT-044: First from patch 1 on."""
        return patch >= 1

    def counts_markers(self, patch: int) -> bool:
        """ZN-FRG-005: First and Drop mean something from patch 1 on."""
        return patch >= 1

    def breaks_chain(self, steps: int) -> bool:
        """ZN-FRG-103: a fragment continues the one before it only when its number is the next one."""
        return steps != 1

    def most_fragments(self, configured: int) -> int:
        """ZN-FRG-106: bytes of all unfinished messages of a session together."""
        return configured

    def accepts_bare(self, *, lowlatency: bool) -> bool:
        """ZN-MSG-002, ZN-NET-001, ZN-NET-002: network messages outside FRAME only in low-latency sessions."""
        return lowlatency

    def keeps_block_first(self, patch: int) -> bool:
        """ZN-NET-009: F of QoS is known from patch 1 on."""
        return patch >= 1

    def sends_alone(self, *, express: bool) -> bool:
        """ZN-NET-008: an express message does not share its batch."""
        return express

    # JOIN ------------------------------------------------------------------------------------------

    def join_period(self, lease: float) -> float:
        """ZN-JOIN-005, ZN-KA-107: seconds between two JOINs; they stand in for KEEP_ALIVE."""
        return lease / KEEP_ALIVES_PER_LEASE

    def accepts_member(self, *, same_sizes: bool, lanes: bool, qos: bool) -> bool:
        """ZN-JOIN-006: a JOIN whose resolution and batch size are ours, with no lanes that we do not have."""
        return same_sizes and (qos or not lanes)

    def lane_numbers_count(self) -> bool:
        """ZN-JOIN-007: the numbers of the lanes stand in for those of the body."""
        return True

    def hears_strangers(self) -> bool:
        """ZN-JOIN-006: nothing is taken from a node before its JOIN."""
        return False
