"""Mutants of multicast groups, and of what is judged from whatever a test happens to see."""

from __future__ import annotations

from conformance.refnode.mutants.registry import Bent, Memory, mutant
from scapy_layers.batch import prefixed
from scapy_layers.codes import Enc, Priority
from scapy_layers.declarations import DeclareToken
from scapy_layers.extensions import Lane, QoS, Timestamp
from scapy_layers.message import UnknownExtension
from scapy_layers.network import Declare, NetworkOam, Push
from scapy_layers.transport import Close, Frame, Init, Join, KeepAlive, Open, TransportOam

# JOIN -------------------------------------------------------------------------------------------------


@mutant("ZN-JOIN-002", of=Join)
def says_version_8_in_join(message: Join, _: Memory) -> Bent:
    message.version = 8
    return message


@mutant("ZN-JOIN-003", of=Join)
def puts_the_role_in_front_of_the_length(message: Join, _: Memory) -> Bent:
    raw = bytearray(bytes(message))
    raw[2] = raw[2] >> 4 | raw[2] << 4 & 0xF0
    return bytes(raw)


@mutant("ZN-JOIN-004", of=Join)
def puts_the_numbers_in_front_of_the_lease(message: Join, _: Memory) -> Bent:
    lease, reliable, best_effort = message.lease, message.next_sn_re, message.next_sn_be
    message.lease, message.next_sn_re, message.next_sn_be = reliable, best_effort, lease
    return message


@mutant("ZN-JOIN-008", of=Join)
def says_the_lease_in_the_other_unit(message: Join, _: Memory) -> Bent:
    message.T = 1 - message.value("T")
    return message


@mutant("ZN-KA-107", hears=Join)
def keeps_members_whose_joins_stop(message: Join, _: Memory) -> Bent:
    message.T, message.lease = 1, 3600
    return message


@mutant("ZN-BAT-105b", of=Join)
def puts_a_length_in_front_of_join(message: Join, _: Memory) -> Bent:
    return prefixed(bytes(message))


# What has no place in a group, and what has -------------------------------------------------------------


@mutant("ZN-MSG-006", "ZN-INIT-008", of=Join)
def answers_in_a_group(message: Join, _: Memory) -> Bent:
    return [message, Init(A=1, zid=message.zid, cookie=b"cookie")]


@mutant("ZN-INIT-008", "ZN-MSG-006", of=Join)
def asks_for_sessions_in_a_group(message: Join, _: Memory) -> Bent:
    return [message, Init(zid=message.zid)]


@mutant("ZN-OPEN-006", "ZN-MSG-006", of=Join)
def opens_sessions_in_a_group(message: Join, _: Memory) -> Bent:
    return [message, Open(A=1, initial_sn=1)]


@mutant("ZN-MSG-008", hears=TransportOam)
def refuses_oam_in_a_group(message: TransportOam, memory: Memory) -> Bent:
    return Close(S=1) if memory.get("group") else message.original


# Headers and ids ----------------------------------------------------------------------------------------


@mutant("ZN-MSG-010", of=KeepAlive)
def puts_the_id_in_the_high_bits(message: KeepAlive, _: Memory) -> Bent:
    return bytes([bytes(message)[0] << 3])


@mutant("ZN-NET-001", of=Frame)
def sends_declared_tokens_bare(message: Frame, _: Memory) -> Bent:
    for inside in message.messages:
        if isinstance(inside, Declare) and isinstance(inside.body, DeclareToken):
            return list(message.messages)
    return message


# Extensions of network messages ---------------------------------------------------------------------------


@mutant("ZN-NET-003", "ZN-NET-004", of=Declare)
def writes_qos_as_zbuf(message: Declare, _: Memory) -> Bent:
    message.extensions = [
        UnknownExtension(ext_id=0x1, data=b"\x08") if isinstance(extension, QoS) else extension
        for extension in message.extensions or []
    ]
    return message


@mutant("ZN-NET-006", "ZN-NET-005", of=Push)
def swaps_data_high_and_data_low(message: Push, _: Memory) -> Bent:
    swapped = {Priority.DATA_HIGH: Priority.DATA_LOW, Priority.DATA_LOW: Priority.DATA_HIGH}
    for extension in message.extensions or []:
        if isinstance(extension, QoS):
            extension.priority = swapped.get(extension.priority, extension.priority)
    return message


@mutant("ZN-NET-010", of=Declare)
def sets_bit_6_of_qos(message: Declare, _: Memory) -> Bent:
    message.extensions = [
        UnknownExtension(ext_id=0x1, z64=bytes(extension)[1] | 0x40)
        if isinstance(extension, QoS)
        else extension
        for extension in message.extensions or []
    ]
    return message


@mutant("ZN-NET-012", of=Declare)
def lets_declarations_be_dropped(message: Declare, _: Memory) -> Bent:
    message.extensions = [
        QoS(priority=extension.priority) if isinstance(extension, QoS) else extension
        for extension in message.extensions or []
    ]
    return message


@mutant("ZN-OAM-004", hears=TransportOam)
def takes_the_lane_of_oam_for_something_unknown(message: TransportOam, _: Memory) -> Bent:
    raw: bytes = message.original
    if not any(isinstance(extension, Lane) for extension in message.extensions or []):
        return raw
    return TransportOam(oam_id=message.oam_id, extensions=[UnknownExtension(ext_id=0xE, M=1)])


@mutant("ZN-OAM-006", hears=NetworkOam)
def reads_the_timestamp_of_oam_as_z64(message: NetworkOam, _: Memory) -> Bent:
    raw = bytearray(message.original)
    for extension in message.extensions or []:
        if isinstance(extension, Timestamp):
            at = bytes(raw).index(extension.original)
            raw[at] = raw[at] & 0x9F | Enc.Z64 << 5
    return bytes(raw)
