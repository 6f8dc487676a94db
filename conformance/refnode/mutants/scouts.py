"""Mutants of scouting."""

from __future__ import annotations

import re
from collections.abc import Sequence

from conformance.refnode.mutants.registry import Memory, mutant
from conformance.refnode.scouting import Address, ScoutPolicy
from scapy_layers.codes import WhatAmI
from scapy_layers.message import Message
from scapy_layers.scouting import Hello, Scout

# Who is answered ---------------------------------------------------------------------------------------


@mutant("ZN-SCT-001", "ZN-SCT-005", "ZN-HLO-001")
class AnswersOnlyWhileItHasASession(ScoutPolicy):
    def is_open(self, sessions: int) -> bool:
        return sessions > 0


@mutant("ZN-SCT-004", "ZN-HLO-017")
class AnswersEveryScout(ScoutPolicy):
    def is_asked(self, what: int, whatami: int) -> bool:
        return True


@mutant("ZN-SCT-005", "ZN-HLO-001")
class IgnoresScoutsForTwoRoles(ScoutPolicy):
    def is_asked(self, what: int, whatami: int) -> bool:
        return what.bit_count() != 2 and super().is_asked(what, whatami)


@mutant("ZN-SCT-006", "ZN-HLO-001")
class SendsHelloToTheGroup(ScoutPolicy):
    def answer_to(self, source: Address, group: Address) -> Address:
        return group


@mutant("ZN-SCT-007", "ZN-HLO-002")
class AnswersItself(ScoutPolicy):
    def is_own(self, zid: bytes | None, ours: bytes) -> bool:
        return False


@mutant("ZN-SCT-008")
class TakesTheBytesBehindThePackedByteForAZid(ScoutPolicy):
    def zid_in(self, scout: Scout) -> bytes | None:
        raw: bytes = scout.original
        return raw[3 : 4 + (raw[2] >> 4)]


@mutant("ZN-SCT-017")
class SwapsPeerAndClient(ScoutPolicy):
    def is_asked(self, what: int, whatami: int) -> bool:
        return bool((what & 1 | what >> 1 & 2 | what << 1 & 4) & 1 << whatami)


@mutant("ZN-SCT-019", "ZN-SCT-020")
class AnswersEveryVersion(ScoutPolicy):
    def takes_version(self, version: int) -> bool:
        return True


@mutant("ZN-SCT-020")
class AnswersAnotherVersionWithClose(ScoutPolicy):
    def refusal(self) -> Message | bytes:
        return b"\x03\x02"


@mutant("ZN-HLO-001", "ZN-SCT-006")
class SendsHelloToThePortOfTheGroup(ScoutPolicy):
    def answer_to(self, source: Address, group: Address) -> Address:
        return source[0], group[1]


@mutant("ZN-HLO-002", "ZN-SCT-007")
class ReadsItsOwnZidBackwards(ScoutPolicy):
    def is_own(self, zid: bytes | None, ours: bytes) -> bool:
        return zid == ours[::-1]


@mutant("ZN-BAT-105")
class TakesALengthInFrontOfADatagram(ScoutPolicy):
    def unwrapped(self, datagram: bytes) -> bytes:
        rest = datagram[2:]
        return rest if datagram[:2] == len(rest).to_bytes(2, "little") else datagram


# How SCOUT is read ---------------------------------------------------------------------------------------


@mutant("ZN-SCT-011", hears=Scout)
def refuses_unused_header_bits(scout: Scout, memory: Memory) -> bytes:
    raw: bytes = scout.original
    return b"" if raw[0] & 0x60 else raw


@mutant("ZN-SCT-012", hears=Scout)
def refuses_every_chain_of_extensions(scout: Scout, memory: Memory) -> bytes:
    raw: bytes = scout.original
    return b"" if raw[0] & 0x80 else raw


@mutant("ZN-SCT-013", hears=Scout)
def takes_version_and_packed_byte_in_any_order(scout: Scout, memory: Memory) -> bytes:
    raw: bytes = scout.original
    swapped = len(raw) > 2 and raw[1] != 9 and raw[2] == 9
    return bytes([raw[0], raw[2], raw[1]]) + raw[3:] if swapped else raw


@mutant("ZN-SCT-014", hears=Scout)
def takes_the_length_for_roles_too(scout: Scout, memory: Memory) -> bytes:
    raw: bytes = scout.original
    return raw[:2] + bytes([raw[2] | raw[2] >> 4 & 7]) + raw[3:] if len(raw) > 2 else raw


@mutant("ZN-SCT-015", hears=Scout)
def takes_the_nibble_for_the_number_of_bytes(scout: Scout, memory: Memory) -> bytes:
    raw: bytes = scout.original
    if len(raw) < 3 or not raw[2] & 8:
        return raw
    count = raw[2] >> 4
    zid, rest = raw[3 : 3 + count], raw[3 + count :]
    if not count or len(zid) < count:
        return raw
    return raw[:2] + bytes([raw[2] - 0x10]) + zid + rest


@mutant("ZN-SCT-016", hears=Scout)
def waits_for_sixteen_bytes_that_were_not_announced(scout: Scout, memory: Memory) -> bytes:
    raw: bytes = scout.original
    return b"" if len(raw) < 19 and raw[2] & 0xF8 == 0xF0 else raw


# How the node scouts ---------------------------------------------------------------------------------------


@mutant("ZN-SCT-003")
class ScoutsForOneAddressOnly(ScoutPolicy):
    def destination(self, group: Address) -> Address:
        return "127.0.0.1", group[1]


@mutant("ZN-SCT-009")
class ScoutsAtAFixedPace(ScoutPolicy):
    def gap(self, last: float | None) -> float:
        return 1.0


@mutant("ZN-SCT-010")
class GoesOnScouting(ScoutPolicy):
    def goes_on(self, found: int) -> bool:
        return True


@mutant("ZN-SCT-018")
class ScoutsWithVersion10(ScoutPolicy):
    def scout(self, what: int, zid: bytes) -> Message | bytes:
        return Scout(version=10, I=1, zid=zid, what=what)


@mutant("ZN-SCT-021")
class ScoutsWithAStrangeZid(ScoutPolicy):
    def scout(self, what: int, zid: bytes) -> Message | bytes:
        return Scout(I=1, zid=bytes([zid[0] ^ 0x55]) + zid[1:], what=what)


@mutant("ZN-HLO-004")
class IgnoresHelloWithoutLocators(ScoutPolicy):
    def locators_of(self, hello: Hello, source: Address) -> tuple[str, ...]:
        return super().locators_of(hello, source) if hello.value("L") else ()


@mutant("ZN-HLO-019")
class NeverConnectsToWhatItFinds(ScoutPolicy):
    def locators_of(self, hello: Hello, source: Address) -> tuple[str, ...]:
        return ()


# What HELLO says -------------------------------------------------------------------------------------------


@mutant("ZN-HLO-005")
class SetsBit6OfHello(ScoutPolicy):
    def hello(self, zid: bytes, whatami: int, locators: Sequence[str]) -> Message | bytes:
        raw = bytes(super().hello(zid, whatami, locators))
        return bytes([raw[0] | 0x40]) + raw[1:]


@mutant("ZN-HLO-006")
class ListsLocatorsBeforeItsZidForWhoeverSaysWhoItIs(ScoutPolicy):
    _introduced = False

    def is_own(self, zid: bytes | None, ours: bytes) -> bool:
        self._introduced = zid is not None
        return super().is_own(zid, ours)

    def hello(self, zid: bytes, whatami: int, locators: Sequence[str]) -> Message | bytes:
        raw = bytes(super().hello(zid, whatami, locators))
        end = 3 + len(zid)
        return raw[:3] + raw[end:] + raw[3:end] if self._introduced else raw


@mutant("ZN-HLO-007")
class SaysTheLengthOfAShortZidItself(ScoutPolicy):
    def hello(self, zid: bytes, whatami: int, locators: Sequence[str]) -> Message | bytes:
        raw = bytes(super().hello(zid, whatami, locators))
        return raw[:2] + bytes([min(len(zid), 15) << 4 | whatami]) + raw[3:]


@mutant("ZN-HLO-008")
class SetsAReservedBitOfHello(ScoutPolicy):
    def hello(self, zid: bytes, whatami: int, locators: Sequence[str]) -> Message | bytes:
        raw = bytes(super().hello(zid, whatami, locators))
        return raw[:2] + bytes([raw[2] | 0x04]) + raw[3:]


@mutant("ZN-HLO-009")
class IsAlwaysARouterInHello(ScoutPolicy):
    def hello(self, zid: bytes, whatami: int, locators: Sequence[str]) -> Message | bytes:
        return super().hello(zid, 0, locators)


@mutant("ZN-HLO-010")
class SaysVersion8InHello(ScoutPolicy):
    def hello(self, zid: bytes, whatami: int, locators: Sequence[str]) -> Message | bytes:
        raw = bytes(super().hello(zid, whatami, locators))
        return raw[:1] + b"\x08" + raw[2:]


@mutant("ZN-HLO-011")
class HasAStrangeZidInHello(ScoutPolicy):
    def hello(self, zid: bytes, whatami: int, locators: Sequence[str]) -> Message | bytes:
        return super().hello(bytes([zid[0] ^ 0x55]) + zid[1:], whatami, locators)


@mutant("ZN-HLO-012")
class CountsOneLocatorTooMany(ScoutPolicy):
    def hello(self, zid: bytes, whatami: int, locators: Sequence[str]) -> Message | bytes:
        raw = bytes(super().hello(zid, whatami, locators))
        at = 3 + len(zid)
        return raw[:at] + bytes([raw[at] + 1]) + raw[at + 1 :] if locators else raw


@mutant("ZN-HLO-013")
class WritesSchemesForLocators(ScoutPolicy):
    def hello(self, zid: bytes, whatami: int, locators: Sequence[str]) -> Message | bytes:
        return super().hello(zid, whatami, [locator.replace("/", "://", 1) for locator in locators])


@mutant("ZN-HLO-014")
class OmitsTheBracketsOfIpv6(ScoutPolicy):
    def hello(self, zid: bytes, whatami: int, locators: Sequence[str]) -> Message | bytes:
        bare = str.maketrans("", "", "[]")
        return super().hello(zid, whatami, [locator.translate(bare) for locator in locators])


@mutant("ZN-HLO-015")
class PartsMetadataWithAmpersands(ScoutPolicy):
    def hello(self, zid: bytes, whatami: int, locators: Sequence[str]) -> Message | bytes:
        return super().hello(zid, whatami, [locator.replace(";", "&") for locator in locators])


@mutant("ZN-HLO-016")
class AdvertisesAnotherPort(ScoutPolicy):
    def hello(self, zid: bytes, whatami: int, locators: Sequence[str]) -> Message | bytes:
        moved = [re.sub(r"(?<=:)\d+(?=\?|$)", lambda port: str(int(port[0]) ^ 1), text) for text in locators]
        return super().hello(zid, whatami, moved)


@mutant("ZN-HLO-017")
class AnswersWhoeverAsksForRoutersOnlyAsAPeer(ScoutPolicy):
    _what = 0

    def is_asked(self, what: int, whatami: int) -> bool:
        self._what = what
        return super().is_asked(what, whatami)

    def hello(self, zid: bytes, whatami: int, locators: Sequence[str]) -> Message | bytes:
        role = WhatAmI.PEER if self._what == 1 << WhatAmI.ROUTER else whatami
        return super().hello(zid, role, locators)


@mutant("ZN-HLO-018")
class AppendsAStrayByteToHello(ScoutPolicy):
    def hello(self, zid: bytes, whatami: int, locators: Sequence[str]) -> Message | bytes:
        return bytes(super().hello(zid, whatami, locators)) + b"\x00"
