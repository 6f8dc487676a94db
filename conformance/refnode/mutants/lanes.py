"""Mutants of what carries messages: parameters of a session, FRAME, FRAGMENT, lanes, JOIN."""

from __future__ import annotations

import time
from collections.abc import Sequence

from conformance.refnode.mutants.handshake import flipped
from conformance.refnode.mutants.registry import Bent, Memory, mutant
from conformance.session import sequence
from conformance.session.policy import Policy
from scapy_layers.codes import CloseReason, Priority, Resolution
from scapy_layers.declarations import UndeclareQueryable, UndeclareSubscriber, UndeclareToken
from scapy_layers.errors import WireError
from scapy_layers.extensions import (
    InitAckShm,
    Lane,
    LowLatency,
    OpenAckShm,
    QoS,
    RegionName,
    RemoteBound,
)
from scapy_layers.message import Extension, Message
from scapy_layers.network import (
    Declare,
    Interest,
    NetworkOam,
    Push,
    Request,
    Response,
    ResponseFinal,
)
from scapy_layers.transport import Fragment, Frame, Init, Join, KeepAlive, Open

NO_MESSAGE = b"\x1f"
"""A batch that no node can take apart: a message of the network outside FRAME, and cut."""

LOCK_SECONDS = 5.0
"""Longer than anybody waits for a handshake."""

NETWORK = (Push, Request, Response, ResponseFinal, Declare, Interest, NetworkOam)


# INIT and OPEN --------------------------------------------------------------------------------------


@mutant("ZN-INIT-023")
class Reads16BitAs8Bit(Policy):
    def following_sn(self, sn: int, resolution: int) -> int:
        return super().following_sn(sn, self._read(resolution))

    def in_range(self, sn: int, resolution: int) -> bool:
        return super().in_range(sn, self._read(resolution))

    def is_new(self, last: int, sn: int, resolution: int) -> bool:
        return super().is_new(last, sn, self._read(resolution))

    @staticmethod
    def _read(resolution: int) -> int:
        return Resolution.BITS_8 if resolution == Resolution.BITS_16 else resolution


@mutant("ZN-INIT-035", of=Init)
def answers_shared_memory_always(message: Init, _: Memory) -> Bent:
    return more(message, InitAckShm(challenge=1, segment_id=1))


@mutant("ZN-INIT-041", of=Init)
def names_an_empty_region(message: Init, _: Memory) -> Bent:
    return more(message, RegionName(region=""))


@mutant("ZN-INIT-050", of=(Frame, *NETWORK))
def sends_frames_in_low_latency_sessions(message: Message, memory: Memory) -> Bent:
    if isinstance(message, Frame):
        return message
    memory["sn"] = memory.get("sn", 0) + 1
    return Frame(R=1, sn=memory["sn"], messages=[message])


@mutant("ZN-OPEN-010")
class HoldsALockAfterARefusedOpen(Policy):
    def __init__(self) -> None:
        self._locked_until = 0.0

    def accepts_initial_sn(self, sn: int, resolution: int) -> bool:
        taken = super().accepts_initial_sn(sn, resolution)
        if not taken:
            self._locked_until = time.monotonic() + LOCK_SECONDS
        return taken

    def accepts_version(self, version: int) -> bool:
        return time.monotonic() >= self._locked_until and super().accepts_version(version)


@mutant("ZN-OPEN-016", of=Open)
def says_no_lease_in_low_latency_sessions(message: Open, _: Memory) -> Bent:
    if any(isinstance(extension, LowLatency) for extension in message.extensions or []):
        message.lease = 0
    return message


@mutant("ZN-OPEN-017", hears=Frame)
def takes_best_effort_only_behind_something_reliable(message: Frame, memory: Memory) -> Bent:
    if message.value("R"):
        memory["live"] = True
    return message.original if memory.get("live") else None


@mutant("ZN-OPEN-019", of=Open)
def answers_shared_memory_as_zbuf(message: Open, _: Memory) -> Bent:
    return more(message, OpenAckShm())


@mutant("ZN-OPEN-024", hears=Open)
def refuses_a_routing_hint(message: Open, _: Memory) -> Bent:
    hint = any(extension.ext_id == RemoteBound().ext_id for extension in message.extensions or [])
    return NO_MESSAGE if hint else message.original


@mutant("ZN-OPEN-025", of=Open)
def makes_confirmations_mandatory(message: Open, _: Memory) -> Bent:
    for extension in message.extensions or []:
        extension.M = 1
    return message


def more(message: Message, extension: Extension) -> Message:
    """Adds an extension to a message."""
    message.extensions = [extension, *(message.extensions or [])]
    message.Z = None
    return message


# FRAME and FRAGMENT ---------------------------------------------------------------------------------


@mutant("ZN-OPEN-015")
class CountsKeepAliveOnly(Policy):
    def renews_lease(self, messages: Sequence[Message]) -> bool:
        return any(isinstance(message, KeepAlive) for message in messages)


@mutant("ZN-INIT-043")
class MarksFragmentsUnasked(Policy):
    def marks_first(self, patch: int) -> bool:
        return True


@mutant("ZN-INIT-044")
class NeverSendsFirst(Policy):
    def marks_first(self, patch: int) -> bool:
        return False


@mutant("ZN-INIT-049")
class TakesLanesThatWereNotAgreed(Policy):
    def accepts_lane(self, priority: int, *, qos: bool) -> bool:
        return True


@mutant("ZN-INIT-049b", of=Frame)
def uses_lanes_for_later_publications_unasked(message: Frame, memory: Memory) -> Bent:
    if any(isinstance(inside, Push) for inside in message.messages):
        memory["publications"] = memory.get("publications", 0) + 1
        # The first two stay right, so that few tests but that of the rule notice.
        if memory["publications"] > 2:
            message.extensions, message.Z = [Lane(priority=Priority.REAL_TIME)], None
    return message


@mutant("ZN-FRM-001", of=Frame)
def sets_bit_6_of_frame(message: Frame, _: Memory) -> Bent:
    return flipped(message, 0, 0x40)


@mutant("ZN-FRM-002")
class CountsWithoutEnd(Policy):
    def following_sn(self, sn: int, resolution: int) -> int:
        return sn + 1


@mutant("ZN-FRM-002b")
class TakesNumbersBeyondTheRange(Policy):
    def in_range(self, sn: int, resolution: int) -> bool:
        return True


@mutant("ZN-FRM-007", of=(Frame, Fragment))
def sends_lanes_as_optional(message: Frame | Fragment, _: Memory) -> Bent:
    for extension in message.extensions or []:
        extension.M = 0
    return message


@mutant("ZN-FRM-008", of=Frame)
def shifts_the_lane_by_one(message: Frame, _: Memory) -> Bent:
    for extension in message.extensions or []:
        extension.priority = (extension.priority + 1) % 8
    return message


@mutant("ZN-FRM-009")
class TakesANumberTwice(Policy):
    def is_new(self, last: int, sn: int, resolution: int) -> bool:
        return sn == last or super().is_new(last, sn, resolution)


@mutant("ZN-FRM-010")
class SkipsEveryTenthNumber(Policy):
    def following_sn(self, sn: int, resolution: int) -> int:
        after = sequence.following(sn, resolution)
        return after if after % 10 else sequence.following(after, resolution)


@mutant("ZN-FRG-001", of=Fragment)
def swaps_r_and_m(message: Fragment, _: Memory) -> Bent:
    message.R, message.M = message.value("M"), message.value("R")
    return message


@mutant("ZN-FRG-002", of=Fragment)
def says_more_on_the_last_fragment(message: Fragment, _: Memory) -> Bent:
    message.M = 1
    return message


@mutant("ZN-FRG-005")
class TakesFragmentsWithoutFirst(Policy):
    def counts_markers(self, patch: int) -> bool:
        return False


@mutant("ZN-FRG-103")
class JoinsFragmentsAcrossAGap(Policy):
    def breaks_chain(self, steps: int) -> bool:
        return False


@mutant("ZN-MSG-002", "ZN-NET-001")
class TakesNetworkMessagesOutsideFrame(Policy):
    def accepts_bare(self, *, lowlatency: bool) -> bool:
        return True


@mutant("ZN-NET-002")
class DemandsFramesInLowLatencySessions(Policy):
    def accepts_bare(self, *, lowlatency: bool) -> bool:
        return False


@mutant("ZN-NET-008")
class PutsExpressMessagesTogether(Policy):
    def sends_alone(self, *, express: bool) -> bool:
        return False


@mutant("ZN-NET-009")
class KeepsBlockFirstUnasked(Policy):
    def keeps_block_first(self, patch: int) -> bool:
        return True


@mutant("ZN-NET-011", of=Push)
def blocks_where_nothing_was_said(message: Push, _: Memory) -> Bent:
    said = any(isinstance(extension, QoS) for extension in message.extensions or [])
    return message if said else more(message, QoS(D=1))


@mutant("ZN-RTE-025", of=Declare)
def takes_something_else_back_every_third_time(message: Declare, memory: Memory) -> Bent:
    if isinstance(message.body, UndeclareSubscriber | UndeclareQueryable | UndeclareToken):
        memory["gone"] = memory.get("gone", 0) + 1
        if not memory["gone"] % 3:
            message.body.entity_id += 1_000_000
    return message


@mutant("ZN-EXT-103", "ZN-INIT-052")
class RefusesAMandatoryExtensionAsGeneric(Policy):
    def refusal_of(self, error: WireError | None) -> int:
        return CloseReason.GENERIC


@mutant("ZN-JOIN-001", of=Join)
def puts_the_flags_of_join_where_open_has_them(message: Join, _: Memory) -> Bent:
    raw = bytes(message)
    bits = raw[0] & 0x60
    return bytes([raw[0] & 0x9F | (bits >> 1 & 0x20) | (bits << 1 & 0x40)]) + raw[1:]


@mutant("ZN-JOIN-005")
class JoinsOnce(Policy):
    def join_period(self, lease: float) -> float:
        return 3600.0


@mutant("ZN-JOIN-006")
class HearsStrangers(Policy):
    def hears_strangers(self) -> bool:
        return True


@mutant("ZN-JOIN-007")
class UsesTheNumbersOfTheBody(Policy):
    def lane_numbers_count(self) -> bool:
        return False
