"""Mutants of FRAME, FRAGMENT, batches and JOIN."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.refnode.mutants.handshake import flipped
from conformance.refnode.mutants.registry import Bent, Memory, mutant
from conformance.session import sequence
from conformance.session.policy import Policy
from scapy_layers.codes import CloseReason, Priority
from scapy_layers.errors import WireError
from scapy_layers.extensions import Lane
from scapy_layers.message import Message
from scapy_layers.transport import Fragment, Frame, Join, KeepAlive


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
def uses_lanes_unasked(message: Frame, _: Memory) -> Bent:
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


@mutant("ZN-FRG-104")
class LeavesTheLaneOut(Policy):
    def writes_lane(self, priority: int) -> bool:
        return False


@mutant("ZN-MSG-002", "ZN-NET-001")
class TakesNetworkMessagesOutsideFrame(Policy):
    def accepts_bare(self, *, lowlatency: bool) -> bool:
        return True


@mutant("ZN-NET-008")
class PutsExpressMessagesTogether(Policy):
    def sends_alone(self, *, express: bool) -> bool:
        return False


@mutant("ZN-NET-009")
class KeepsBlockFirstUnasked(Policy):
    def keeps_block_first(self, patch: int) -> bool:
        return True


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
