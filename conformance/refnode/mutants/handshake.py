"""Mutants of INIT, OPEN and CLOSE."""

from __future__ import annotations

import hmac
from collections.abc import Collection, Mapping

from conformance.refnode.mutants.registry import Bent, Memory, mutant
from conformance.refnode.policy import NodePolicy
from conformance.session.policy import Dice, Policy
from scapy_layers.codes import CloseReason, Resolution
from scapy_layers.errors import WireError
from scapy_layers.extensions import MultiLinkAck, Patch, QoSLink, QoSOffer
from scapy_layers.message import Message
from scapy_layers.transport import Close, Init, KeepAlive, Open


def flipped(message: Message, byte: int, mask: int) -> bytes:
    """Returns a message with some bits set."""
    raw = bytearray(bytes(message))
    raw[byte] |= mask
    return bytes(raw)


# INIT ---------------------------------------------------------------------------------------------


@mutant("ZN-INIT-001", of=Open)
def says_something_before_open_ack(message: Open, _: Memory) -> Bent:
    return [KeepAlive(), message]


@mutant("ZN-INIT-002", "ZN-OPEN-005")
class SendsAnEmptyCookie(Policy):
    def cookie(self, rng: Dice) -> bytes:
        return b""


@mutant("ZN-INIT-003")
class TakesEveryVersion(Policy):
    def accepts_version(self, version: int) -> bool:
        return True


@mutant("ZN-INIT-004")
class AsksForNoRightPassword(Policy):
    def accepts_user(self, users: Mapping[bytes, bytes], user: bytes, nonce: int, proof: bytes) -> bool:
        return user in users


@mutant("ZN-INIT-005", "ZN-CLS-106")
class TakesSessionsBeyondItsLimit(Policy):
    def admits(self, own: bytes, theirs: bytes, present: Collection[bytes], most: int | None) -> int | None:
        return super().admits(own, theirs, present, None)


@mutant("ZN-INIT-006", "ZN-INIT-030", "ZN-OPEN-005")
class TakesAnyCookie(Policy):
    def accepts_cookie(self, given: bytes, returned: bytes) -> bool:
        return True


@mutant("ZN-INIT-010", "ZN-INIT-009", of=Init)
def replies_with_a_clear(message: Init, _: Memory) -> Bent:
    message.A = 0
    return message


@mutant("ZN-INIT-014", "ZN-JOIN-002")
class SaysVersion8(Policy):
    def version(self) -> int:
        return 8


@mutant("ZN-INIT-016", of=Init)
def sets_a_reserved_bit_beside_its_role(message: Init, _: Memory) -> Bent:
    return flipped(message, 2, 0x08)


@mutant("ZN-INIT-018", of=Init)
def is_always_a_router(message: Init, _: Memory) -> Bent:
    message.whatami = 0
    return message


@mutant("ZN-INIT-020", of=Init)
def has_a_new_zid_for_each_link(message: Init, memory: Memory) -> Bent:
    message.zid = bytes([1 + memory["number"] % 255]) + message.zid[1:]
    return message


@mutant("ZN-INIT-021", of=Init)
def sets_reserved_bits_of_the_resolution(message: Init, _: Memory) -> Bent:
    message.S = 1
    return flipped(message, 3 + len(message.zid), 0x40)


@mutant("ZN-INIT-022", of=Init)
def swaps_the_two_resolutions(message: Init, _: Memory) -> Bent:
    message.fsn, message.rid = message.value("rid"), message.value("fsn")
    message.S = 1
    return message


@mutant("ZN-INIT-025", of=Init)
def sends_the_batch_size_high_byte_first(message: Init, _: Memory) -> Bent:
    if message.value("S"):
        message.batch_size = int.from_bytes(message.batch_size.to_bytes(2, "little"), "big")
    return message


@mutant("ZN-INIT-027", "ZN-INIT-048", "ZN-BAT-103")
class IgnoresTheBatchSizeProposed(Policy):
    def accepted_batch_size(self, own: int, proposed: int) -> int:
        return own


@mutant("ZN-INIT-029")
class CutsTheCookieItReturns(Policy):
    def returned_cookie(self, cookie: bytes) -> bytes:
        return cookie[:64]


@mutant("ZN-INIT-031", "ZN-INIT-030")
class HasOneCookieForAll(Policy):
    def cookie(self, rng: Dice) -> bytes:
        return b"always the same"


@mutant("ZN-INIT-032", "ZN-INIT-034", of=Init)
def answers_qos_as_z64(message: Init, _: Memory) -> Bent:
    message.extensions = [QoSLink(qos=1) if isinstance(e, QoSOffer) else e for e in message.extensions or []]
    return message


@mutant("ZN-INIT-038", "ZN-INIT-050", "ZN-OPEN-022")
class AgreesOnLowLatencyUnasked(Policy):
    def accepted_lowlatency(self, *, own: bool, proposed: bool, qos: bool) -> bool:
        return proposed

    def accepted_qos(self, *, own: bool, proposed: bool) -> bool:
        return False


@mutant("ZN-INIT-039", "ZN-OPEN-023")
class AgreesOnCompressionUnasked(Policy):
    def accepted_compression(self, *, own: bool, proposed: bool) -> bool:
        return proposed


@mutant("ZN-INIT-039b")
class SendsBareBatchesThoughCompressionIsAgreed(Policy):
    def wrapped(self, raw: bytes) -> bytes:
        return raw


@mutant("ZN-INIT-039c")
class TakesCompressedBatchesForStoredOnes(Policy):
    def unwrapped(self, batch: bytes, most: int) -> bytes:
        del most
        return batch[1:]


@mutant("ZN-INIT-039d")
class SendsKeepAliveBareThoughCompressionIsAgreed(Policy):
    def wrapped(self, raw: bytes) -> bytes:
        return raw if raw == bytes(KeepAlive()) else super().wrapped(raw)


@mutant("ZN-INIT-039e")
class TakesBareBatchesThoughCompressionIsAgreed(Policy):
    def unwrapped(self, batch: bytes, most: int) -> bytes:
        try:
            return super().unwrapped(batch, most)
        except WireError:
            return batch


@mutant("ZN-INIT-040")
class EchoesThePatchVersion(Policy):
    def accepted_patch(self, own: int, proposed: int) -> int:
        return proposed


@mutant("ZN-INIT-040b", of=Init)
def answers_a_patch_version_unasked(message: Init, _: Memory) -> Bent:
    message.extensions, message.Z = [Patch(patch=1)], None
    return message


@mutant("ZN-INIT-042", of=Init)
def makes_its_extensions_mandatory(message: Init, _: Memory) -> Bent:
    for extension in message.extensions or []:
        extension.M = 1
    return message


@mutant("ZN-INIT-045")
class RefusesAVersionAsInvalid(Policy):
    def version_refusal(self) -> int:
        return CloseReason.INVALID


@mutant("ZN-INIT-047", "ZN-INIT-022")
class AlwaysAnswers32Bit(Policy):
    def accepted_fsn(self, own: int, proposed: int) -> int:
        return Resolution.BITS_32

    def accepted_rid(self, own: int, proposed: int) -> int:
        return Resolution.BITS_32


@mutant("ZN-INIT-051")
class JoinsLowLatencyAndLanes(Policy):
    def accepted_lowlatency(self, *, own: bool, proposed: bool, qos: bool) -> bool:
        return proposed


# OPEN ---------------------------------------------------------------------------------------------


@mutant("ZN-OPEN-001", of=Open)
def swaps_a_and_t(message: Open, _: Memory) -> Bent:
    raw = bytes(message)
    return bytes([raw[0] & 0x9F | 0x40]) + raw[1:]


@mutant("ZN-OPEN-002", of=Open)
def adds_a_cookie_to_open_ack(message: Open, _: Memory) -> Bent:
    return bytes(message) + b"\x02ab"


@mutant("ZN-OPEN-003")
class EchoesOurLease(Policy):
    def announced_lease(self, own: float, theirs: float | None) -> float:
        return own if theirs is None else theirs


@mutant("ZN-OPEN-003b", of=Open)
def says_seconds_for_milliseconds(message: Open, _: Memory) -> Bent:
    message.T = 1 - message.value("T")
    return message


@mutant("ZN-OPEN-007", of=Open)
def draws_a_32_bit_number_always(message: Open, _: Memory) -> Bent:
    message.initial_sn |= 1 << 31
    return message


@mutant("ZN-OPEN-008")
class AlwaysStartsAt0(Policy):
    def initial_sn(self, resolution: int, rng: Dice) -> int:
        return 0


@mutant("ZN-OPEN-009")
class TakesAnyInitialNumber(Policy):
    def accepts_initial_sn(self, sn: int, resolution: int) -> bool:
        return True


@mutant("ZN-OPEN-011", of=Open)
def counts_from_another_number(message: Open, _: Memory) -> Bent:
    message.initial_sn = message.initial_sn + 5 & 0x7F
    return message


@mutant("ZN-OPEN-012")
class UsesItsOwnLeaseOnly(Policy):
    def effective_lease(self, ours: float, theirs: float) -> float:
        return ours


@mutant("ZN-OPEN-013")
class UsesTheOtherLeaseOnly(Policy):
    def effective_lease(self, ours: float, theirs: float) -> float:
        return theirs


@mutant("ZN-OPEN-014", "ZN-KA-104", "ZN-KA-105")
class NeverExpires(Policy):
    def effective_lease(self, ours: float, theirs: float) -> float:
        return 3600.0


@mutant("ZN-OPEN-018", of=Open)
def confirms_lanes_as_z64(message: Open, _: Memory) -> Bent:
    message.extensions, message.Z = [QoSLink(qos=1)], None
    return message


@mutant("ZN-OPEN-021", of=Open)
def acknowledges_multilink_unasked(message: Open, _: Memory) -> Bent:
    message.extensions, message.Z = [MultiLinkAck()], None
    return message


@mutant("ZN-OPEN-022b")
class ConfirmsLowLatencyUnasked(Policy):
    def confirms_lowlatency(self, *, agreed: bool) -> bool:
        return True


@mutant("ZN-OPEN-023b")
class ConfirmsCompressionUnasked(Policy):
    def confirms_compression(self, *, agreed: bool) -> bool:
        return True


# CLOSE --------------------------------------------------------------------------------------------


@mutant("ZN-CLS-001", of=Close)
def sets_bit_6_of_close(message: Close, _: Memory) -> Bent:
    return flipped(message, 0, 0x40)


@mutant("ZN-CLS-002", of=Close)
def omits_the_reason(message: Close, _: Memory) -> Bent:
    return bytes(message)[:1]


@mutant("ZN-CLS-006")
class ShutsDownWithoutClose(NodePolicy):
    def says_goodbye(self) -> bool:
        return False


@mutant("ZN-CLS-007", "ZN-CLS-102", "ZN-CLS-103", "ZN-CLS-104", "ZN-CLS-109", "ZN-CLS-005")
class IgnoresClose(Policy):
    def ends_on_close(self, *, session: bool) -> bool:
        return False


@mutant("ZN-CLS-101", "ZN-CLS-002", "ZN-CLS-107", of=Close)
def gives_a_reason_of_its_own(message: Close, _: Memory) -> Bent:
    message.reason = 0x10
    return message


@mutant("ZN-CLS-103")
class NeverForgetsASession(Policy):
    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def admits(self, own: bytes, theirs: bytes, present: Collection[bytes], most: int | None) -> int | None:
        refusal = super().admits(own, theirs, {*present, *self._seen}, most)
        self._seen.add(theirs)
        return refusal


@mutant("ZN-CLS-105")
class AnswersClose(Policy):
    def answers_close(self) -> bool:
        return True


@mutant("ZN-CLS-106")
class RefusesSessionsWithGeneric(Policy):
    def admits(self, own: bytes, theirs: bytes, present: Collection[bytes], most: int | None) -> int | None:
        refusal = super().admits(own, theirs, present, most)
        return None if refusal is None else CloseReason.GENERIC


@mutant("ZN-CLS-107")
class RefusesWithGeneric(Policy):
    def unexpected(self, expected: str) -> int:
        return CloseReason.GENERIC

    def refusal_of(self, error: WireError | None) -> int:
        return CloseReason.GENERIC


@mutant("ZN-CLS-108")
class LeavesTheConnectionOpen(NodePolicy):
    def hangs_up(self) -> bool:
        return False


@mutant("ZN-CLS-007b")
class StaysConnectedAfterClose(NodePolicy):
    def hangs_up_on_close(self) -> bool:
        return False


@mutant("ZN-OPEN-005", "ZN-INIT-006")
class ComparesTheLengthOfCookies(Policy):
    def accepts_cookie(self, given: bytes, returned: bytes) -> bool:
        return hmac.compare_digest(bytes(len(given)), bytes(len(returned)))


# KEEP_ALIVE ---------------------------------------------------------------------------------------


@mutant("ZN-KA-001", of=KeepAlive)
def sets_bit_5_of_keep_alive(message: KeepAlive, _: Memory) -> Bent:
    return flipped(message, 0, 0x20)


@mutant("ZN-KA-101")
class KeepsTheLinkAliveAtItsOwnPace(Policy):
    def keep_alive_period(self, ours: float, theirs: float) -> float:
        return ours / 4


@mutant("ZN-KA-102")
class KeepsTheLinkAliveTwiceALease(Policy):
    def keep_alive_period(self, ours: float, theirs: float) -> float:
        return min(ours, theirs) / 2


@mutant("ZN-MSG-001", of=KeepAlive)
def has_another_id_for_keep_alive(message: KeepAlive, _: Memory) -> Bent:
    return b"\x0c"
