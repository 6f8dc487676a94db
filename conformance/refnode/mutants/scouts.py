"""Mutants of scouting."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.refnode.mutants.registry import mutant
from conformance.refnode.scouting import Address, ScoutPolicy
from scapy_layers.message import Message
from scapy_layers.scouting import Hello, Scout


@mutant("ZN-SCT-004", "ZN-HLO-017")
class AnswersEveryScout(ScoutPolicy):
    def is_asked(self, what: int, whatami: int) -> bool:
        return True


@mutant("ZN-SCT-005", "ZN-HLO-001")
class AnswersScoutsForOneRoleOnly(ScoutPolicy):
    def is_asked(self, what: int, whatami: int) -> bool:
        return what == 1 << whatami


@mutant("ZN-SCT-006")
class SendsHelloToTheGroup(ScoutPolicy):
    def answer_to(self, source: Address, group: Address) -> Address:
        return group


@mutant("ZN-SCT-007", "ZN-HLO-002")
class AnswersItself(ScoutPolicy):
    def is_own(self, zid: bytes | None, ours: bytes) -> bool:
        return False


@mutant("ZN-SCT-009")
class ScoutsAtAFixedPace(ScoutPolicy):
    def gap(self, last: float | None) -> float:
        return 1.0


@mutant("ZN-SCT-010")
class GoesOnScouting(ScoutPolicy):
    def goes_on(self, found: int) -> bool:
        return True


@mutant("ZN-SCT-017")
class SwapsPeerAndClient(ScoutPolicy):
    def is_asked(self, what: int, whatami: int) -> bool:
        return bool((what & 1 | what >> 1 & 2 | what << 1 & 4) & 1 << whatami)


@mutant("ZN-SCT-018")
class ScoutsWithVersion10(ScoutPolicy):
    def scout(self, what: int, zid: bytes) -> Message | bytes:
        return Scout(version=10, I=1, zid=zid, what=what)


@mutant("ZN-SCT-019")
class AnswersEveryVersion(ScoutPolicy):
    def takes_version(self, version: int) -> bool:
        return True


@mutant("ZN-SCT-021")
class ScoutsWithAStrangeZid(ScoutPolicy):
    def scout(self, what: int, zid: bytes) -> Message | bytes:
        return Scout(I=1, zid=bytes([zid[0] ^ 0x55]) + zid[1:], what=what)


@mutant("ZN-HLO-004")
class IgnoresHelloWithoutLocators(ScoutPolicy):
    def locators_of(self, hello: Hello, source: Address) -> tuple[str, ...]:
        return super().locators_of(hello, source) if hello.value("L") else ()


@mutant("ZN-HLO-005")
class SetsBit6OfHello(ScoutPolicy):
    def hello(self, zid: bytes, whatami: int, locators: Sequence[str]) -> Message | bytes:
        raw = bytes(super().hello(zid, whatami, locators))
        return bytes([raw[0] | 0x40]) + raw[1:]


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


@mutant("ZN-HLO-013")
class WritesSchemesForLocators(ScoutPolicy):
    def hello(self, zid: bytes, whatami: int, locators: Sequence[str]) -> Message | bytes:
        return super().hello(zid, whatami, [locator.replace("/", "://", 1) for locator in locators])


@mutant("ZN-HLO-016")
class AdvertisesAnotherPort(ScoutPolicy):
    def hello(self, zid: bytes, whatami: int, locators: Sequence[str]) -> Message | bytes:
        moved = [locator.rpartition(":") for locator in locators]
        return super().hello(zid, whatami, [f"{at}:{int(port) ^ 1}" for at, _, port in moved])


@mutant("ZN-HLO-018")
class AppendsAStrayByteToHello(ScoutPolicy):
    def hello(self, zid: bytes, whatami: int, locators: Sequence[str]) -> Message | bytes:
        return bytes(super().hello(zid, whatami, locators)) + b"\x00"


@mutant("ZN-HLO-019")
class NeverConnectsToWhatItFinds(ScoutPolicy):
    def locators_of(self, hello: Hello, source: Address) -> tuple[str, ...]:
        return ()
