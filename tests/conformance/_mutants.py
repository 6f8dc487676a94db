"""Rules that a bent node breaks, each named for what it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scapy_layers.batch import contents
from scapy_layers.codes import InterestMode, Priority, QueryTarget, Resolution
from scapy_layers.data import Del, Err, Put, Reply
from scapy_layers.declarations import (
    DeclareFinal,
    DeclareKeyExpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    UndeclareKeyExpr,
    UndeclareSubscriber,
    UndeclareToken,
)
from scapy_layers.extensions import (
    Budget,
    DelAttachment,
    First,
    Lane,
    NodeId,
    Patch,
    PutAttachment,
    QoS,
    QoSLink,
    QoSOffer,
    QueryableInfo,
    QueryBody,
    ResponderId,
    SourceInfo,
    Target,
    Timeout,
)
from scapy_layers.message import Message, UnknownExtension
from scapy_layers.network import Declare, Interest, NetworkOam, Push, Request, Response, ResponseFinal
from scapy_layers.transport import Close, Fragment, Frame, Init, KeepAlive, Open, TransportOam
from tests.conformance._bending import Bent, Mutant, Wire

MUTANTS: dict[str, Mutant] = {}

Bend = Callable[[Any, Wire], Bent]

UNKNOWN_MESSAGE = b"\x08"
"""A transport message that makes the real node end the link."""


def _mutant(of: Any, requirements: tuple[str, ...], outward: bool) -> Callable[[Bend], Bend]:
    def register(bend: Bend) -> Bend:
        ids = tuple(f"ZN-{name}" for name in requirements)
        MUTANTS[bend.__name__] = Mutant(bend.__name__, ids, of, bend, outward)
        return bend

    return register


def says(of: Any, *requirements: str) -> Callable[[Bend], Bend]:
    """A mutant that bends what the node says."""
    return _mutant(of, requirements, outward=True)


def hears(of: Any, *requirements: str) -> Callable[[Bend], Bend]:
    """A mutant that bends what the node hears, so that it seems to act wrongly."""
    return _mutant(of, requirements, outward=False)


def flipped(message: Message, byte: int, mask: int) -> bytes:
    """Returns a message with some bits set."""
    raw = bytearray(bytes(message))
    raw[byte] |= mask
    return bytes(raw)


def without(message: Message, *classes: type[Message] | Any) -> Message:
    """Takes extensions out of a message."""
    kept = [ext for ext in message.extensions or [] if not isinstance(ext, classes)]
    message.extensions = kept
    message.Z = None
    return message


def has(message: Message, *classes: Any) -> bool:
    """Tells whether a message has one of these extensions."""
    return any(isinstance(ext, classes) for ext in message.extensions or [])


def unacceptable(message: Init) -> Init:
    """Makes an InitSyn one that the real node refuses."""
    message.version = 0x08
    return message


# INIT ---------------------------------------------------------------------------------------------


@says(Open, "INIT-001")
def says_something_before_open_ack(message: Open, _: Wire) -> Bent:
    return [KeepAlive(), message]


@says(Init, "INIT-002", "OPEN-005")
def sends_an_empty_cookie(message: Init, _: Wire) -> Bent:
    message.cookie = b""
    return message


@says(Close, "INIT-003", "INIT-006", "INIT-007", "INIT-019", "INIT-045", "EXT-103")
def refuses_without_a_word(*_: Any) -> Bent:
    return None


@hears(Init, "INIT-003", "INIT-045")
def skips_the_version_check(message: Init, _: Wire) -> Bent:
    message.version = 0x09
    return message


@says(bytes, "INIT-006", "INIT-030", "OPEN-005")
def remembers_its_cookie(batch: bytes, wire: Wire) -> Bent:
    for message in contents(batch).messages:
        if isinstance(message, Init):
            return flipped_cookie(message, wire)
    # The real node refused; the bent one accepts.
    return bytes(Open(A=1, lease=10, T=1)) if batch[:1] == b"\x03" and "cookie" in wire.memory else batch


def flipped_cookie(message: Init, wire: Wire) -> Bent:
    """Remembers that InitAck was sent."""
    wire.memory["cookie"] = message.cookie
    return message


@says(Close, "INIT-007")
def answers_open_ack_without_init(*_: Any) -> Bent:
    return [Open(A=1), Close(reason=2)]


@says(Init, "INIT-009", "INIT-010")
def replies_with_a_clear(message: Init, _: Wire) -> Bent:
    message.A = 0
    return message


@says(Init, "INIT-009")
def appends_a_stray_byte(message: Init, _: Wire) -> Bent:
    return bytes(message) + b"\x7f"


@hears(bytes, "INIT-009", "INIT-011", "INIT-052")
def takes_a_cut_init_syn(batch: bytes, _: Wire) -> Bent:
    whole = batch[:1] not in {b"", b"\x01", b"\x41", b"\x81"} or not contents(batch).error
    return batch if whole and batch else Init(zid=b"\x01\x02\x03")


@hears(Init, "INIT-013", "INIT-040", "EXT-102")
def refuses_any_extension(message: Init, _: Wire) -> Bent:
    return unacceptable(message) if message.extensions else message


@says(Init, "INIT-014")
def says_version_8(message: Init, _: Wire) -> Bent:
    message.version = 0x08
    return message


@hears(Init, "INIT-015")
def limits_zids_to_8_bytes(message: Init, _: Wire) -> Bent:
    return unacceptable(message) if len(message.zid) > 8 else message


@says(Init, "INIT-016")
def sets_a_reserved_packed_bit(message: Init, _: Wire) -> Bent:
    return flipped(message, 2, 0x08)


@hears(bytes, "INIT-017")
def refuses_reserved_packed_bits(batch: bytes, _: Wire) -> Bent:
    is_init = batch[:1] in {b"\x01", b"\x41", b"\x81", b"\xc1"}
    return UNKNOWN_MESSAGE if is_init and len(batch) > 2 and batch[2] & 0x0C else batch


@hears(bytes, "INIT-019")
def treats_role_3_as_client(batch: bytes, _: Wire) -> Bent:
    is_init = batch[:1] == b"\x01" and len(batch) > 2 and batch[2] & 3 == 3
    return batch[:2] + bytes([batch[2] & 0xFE]) + batch[3:] if is_init else batch


@says(Init, "INIT-020")
def has_a_new_zid_for_each_link(message: Init, wire: Wire) -> Bent:
    message.zid = bytes([1 + len(wire.proxy.wires) % 255]) + message.zid[1:]
    return message


@says(Init, "INIT-021")
def sets_reserved_resolution_bits(message: Init, _: Wire) -> Bent:
    return flipped(message, 3 + len(message.zid), 0x40)


@says(Init, "INIT-022", "INIT-047")
def swaps_the_resolutions(message: Init, _: Wire) -> Bent:
    message.fsn, message.rid = message.rid, message.fsn
    return message


@hears(Init, "INIT-024", "INIT-026")
def assumes_small_defaults(message: Init, _: Wire) -> Bent:
    if not message.value("S"):
        message.S, message.fsn, message.rid, message.batch_size = 1, 0, 2, 1500
    return message


@says(Init, "INIT-025")
def sends_the_batch_size_high_byte_first(message: Init, _: Wire) -> Bent:
    message.batch_size = int.from_bytes(message.batch_size.to_bytes(2, "little"), "big")
    return message


@hears(Init, "INIT-027", "BAT-103", "INIT-044")
def ignores_our_batch_size(message: Init, _: Wire) -> Bent:
    if message.value("S"):
        message.batch_size = 65_535
    return message


@says(Init, "INIT-031")
def has_one_cookie_for_all(message: Init, _: Wire) -> Bent:
    message.cookie = b"always the same"
    return message


@says(Init, "INIT-032", "INIT-034")
def answers_qos_as_z64(message: Init, _: Wire) -> Bent:
    message.extensions = [QoSLink(qos=1) if isinstance(e, QoSOffer) else e for e in message.extensions or []]
    return message


@says(Init, "INIT-033", "INIT-034")
def answers_qos_link_as_qos(message: Init, _: Wire) -> Bent:
    message.extensions = [QoSOffer() if isinstance(e, QoSLink) else e for e in message.extensions or []]
    return message


@says(Init, "INIT-040")
def answers_the_same_patch_unasked(message: Init, _: Wire) -> Bent:
    message.extensions, message.Z = [Patch(patch=1)], None
    return message


@says(Init, "INIT-042")
def makes_its_extensions_mandatory(message: Init, _: Wire) -> Bent:
    for ext in message.extensions or []:
        ext.M = 1
    return message


@says(Fragment, "INIT-044")
def never_sends_first(message: Fragment, _: Wire) -> Bent:
    return without(message, First)


@says(Init, "INIT-047", "INIT-022")
def always_answers_32_bit(message: Init, _: Wire) -> Bent:
    message.fsn = message.rid = Resolution.BITS_32
    return message


@says(Init, "INIT-048")
def always_answers_its_own_batch_size(message: Init, _: Wire) -> Bent:
    message.batch_size = 65_535
    return message


@says(Frame, "INIT-049")
def uses_lanes_unasked(message: Frame, _: Wire) -> Bent:
    message.extensions, message.Z = [Lane(priority=Priority.REAL_TIME)], None
    return message


@hears(Frame, "INIT-049")
def takes_lanes_that_were_not_agreed(message: Frame, _: Wire) -> Bent:
    if has(message, Lane):
        message.sn += 3
    return without(message, Lane)


# OPEN ---------------------------------------------------------------------------------------------


@says(Open, "OPEN-001")
def swaps_a_and_t(message: Open, _: Wire) -> Bent:
    raw = bytes(message)
    return bytes([raw[0] & 0x9F | 0x40]) + raw[1:]


@says(Open, "OPEN-002")
def adds_a_cookie_to_open_ack(message: Open, _: Wire) -> Bent:
    return bytes(message) + b"\x02ab"


@hears(Open, "OPEN-004")
def reads_t_the_other_way_round(message: Open, _: Wire) -> Bent:
    message.T = 1 - message.value("T")
    message.lease = min(message.lease, 100)
    return message


@says(Open, "OPEN-007")
def draws_a_32_bit_number_always(message: Open, _: Wire) -> Bent:
    message.initial_sn |= 1 << 31
    return bytes(message) if message.initial_sn < 1 << 32 else message


@says(Open, "OPEN-008")
def always_starts_at_0(message: Open, _: Wire) -> Bent:
    message.initial_sn = 0
    return message


@says(Open, "OPEN-011")
def counts_from_another_number(message: Open, _: Wire) -> Bent:
    message.initial_sn += 5
    return message


@hears(Open, "OPEN-012", "OPEN-014", "KA-104", "KA-105", "CLS-106", "OPEN-015")
def never_expires(message: Open, _: Wire) -> Bent:
    message.T, message.lease = 1, 60
    return message


@hears((Frame, TransportOam), "OPEN-015")
def counts_keep_alive_only(*_: Any) -> Bent:
    return None


@hears(bytes, "OPEN-017")
def needs_a_keep_alive_first(batch: bytes, wire: Wire) -> Bent:
    if batch[:1] == b"\x25" and "awake" not in wire.memory:
        wire.memory["awake"] = True
        return None
    return batch


@says(Open, "OPEN-018")
def confirms_lanes_unasked(message: Open, _: Wire) -> Bent:
    message.extensions, message.Z = [QoSOffer()], None
    return message


@hears(Open, "OPEN-024", "EXT-102")
def refuses_extensions_of_open(message: Open, _: Wire) -> Bent:
    return UNKNOWN_MESSAGE if message.extensions else message


# CLOSE --------------------------------------------------------------------------------------------


@says(Close, "CLS-001")
def sets_bit_6_of_close(message: Close, _: Wire) -> Bent:
    return flipped(message, 0, 0x40)


@says(Close, "CLS-002")
def omits_the_reason(message: Close, _: Wire) -> Bent:
    return bytes(message)[:1]


@says(Close, "CLS-101", "CLS-002", "CLS-107")
def gives_a_reason_of_its_own(message: Close, _: Wire) -> Bent:
    message.reason = 0x10
    return message


@says(Close, "CLS-107", "CLS-106", "INIT-045")
def refuses_with_generic(message: Close, _: Wire) -> Bent:
    message.reason = 0
    return message


@says(Close, "CLS-108")
def leaves_the_connection_open(message: Close, wire: Wire) -> Bent:
    wire.keeps_open = True
    return message


@hears(Close, "CLS-005")
def ignores_close_with_extensions(message: Close, _: Wire) -> Bent:
    return None if message.extensions else message


@hears(Close, "CLS-007", "CLS-102", "CLS-103", "CLS-104", "CLS-109", "CLS-005")
def ignores_close(*_: Any) -> Bent:
    return None


@hears(Close, "CLS-105")
def answers_close(message: Close, wire: Wire) -> Bent:
    wire.say(message)
    return message


@says(Declare, "CLS-104", "KA-105")
def undeclares_everything(message: Declare, wire: Wire) -> Bent:
    known = wire.memory.setdefault("known", set())
    body = message.body
    if isinstance(body, DeclareSubscriber):
        known.add(body.entity_id)
    if isinstance(body, UndeclareSubscriber):
        return [*(Declare(body=UndeclareSubscriber(entity_id=number)) for number in sorted(known))]
    return message


# KEEP_ALIVE ---------------------------------------------------------------------------------------


@hears(bytes, "KA-002", "BAT-101", "BAT-102")
def eats_a_byte_behind_keep_alive(batch: bytes, _: Wire) -> Bent:
    if batch[:1] != b"\x04" or len(batch) == 1:
        return batch
    rest = batch.lstrip(b"\x04")
    return batch[: len(batch) - len(rest)] + rest[1:]


@hears(KeepAlive, "KA-003", "EXT-101")
def closes_on_extensions_of_keep_alive(message: KeepAlive, _: Wire) -> Bent:
    return UNKNOWN_MESSAGE if message.extensions else message


@says(Declare, "KA-105", "CLS-104", "DCL-106", "DCL-101")
def never_undeclares(message: Declare, _: Wire) -> Bent:
    return None if isinstance(message.body, UndeclareSubscriber | UndeclareToken) else message


# FRAME --------------------------------------------------------------------------------------------


@says(Frame, "FRM-001")
def sets_bit_6_of_frame(message: Frame, _: Wire) -> Bent:
    return flipped(message, 0, 0x40)


@says(Frame, "FRM-002")
def numbers_beyond_the_range(message: Frame, _: Wire) -> Bent:
    message.sn += 1 << 9
    return message


@hears(Frame, "FRM-002")
def takes_numbers_beyond_the_range(message: Frame, _: Wire) -> Bent:
    message.sn &= 0x7F if message.sn < 0x1000 else 0xFFFF_FFFF
    return message


@says(Frame, "FRM-010")
def skips_every_tenth_number(message: Frame, wire: Wire) -> Bent:
    count = wire.memory["count"] = wire.memory.get("count", 0) + 1
    message.sn += count // 10
    return message


@hears(Frame, "FRM-003", "DEL-001", "DCL-004")
def takes_only_the_first_message(message: Frame, _: Wire) -> Bent:
    message.messages = message.messages[:1]
    return message


@hears(bytes, "FRM-004")
def delivers_a_cut_value(batch: bytes, _: Wire) -> Bent:
    return batch + b"1" if contents(batch).error else batch


@hears(Frame, "FRM-005", "EXT-102")
def refuses_frames_with_extensions(message: Frame, _: Wire) -> Bent:
    return None if has(message, UnknownExtension) else message


@hears(Frame, "FRM-006")
def has_one_counter_for_both_channels(message: Frame, wire: Wire) -> Bent:
    last = wire.memory.get("last", -1)
    wire.memory["last"] = max(last, message.sn)
    return message if message.sn > last else None


@says(Frame, "FRM-007")
def sends_lanes_as_optional(message: Frame, _: Wire) -> Bent:
    for ext in message.extensions or []:
        ext.M = 0
    return message


@says(Frame, "FRM-008")
def shifts_the_lane_by_one(message: Frame, _: Wire) -> Bent:
    for ext in message.extensions or []:
        ext.priority = (ext.priority + 1) % 8
    return message


@says(Push, "FRM-009", "RTE-011", "FRM-003")
def delivers_twice(message: Push, _: Wire) -> Bent:
    return [message, message]


# Batches and OAM --------------------------------------------------------------------------------------


@hears(bytes, "MSG-002", "NET-001")
def takes_network_messages_outside_frame(batch: bytes, wire: Wire) -> Bent:
    if batch[:1] and batch[0] & 0x1F == 0x1D:
        return bytes(Frame(R=0, sn=wire.memory["sn"])) + batch
    inside = contents(batch).messages
    if inside and isinstance(inside[0], Open):
        wire.memory["sn"] = inside[0].initial_sn
    return batch


@hears(
    (TransportOam, NetworkOam), "OAM-001", "OAM-002", "OAM-003", "OAM-004", "OAM-005", "OAM-006", "VLE-101"
)
def closes_on_oam(*_: Any) -> Bent:
    return UNKNOWN_MESSAGE


@says(bytes, "BAT-103")
def sends_more_than_agreed(batch: bytes, _: Wire) -> Bent:
    return batch + b"\x04" * 600


# PUSH, PUT, DEL -----------------------------------------------------------------------------------


@says(Push, "PUSH-001", "PUSH-002", "RTE-002", "RTE-011", "RTE-026")
def forwards_without_the_suffix(message: Push, _: Wire) -> Bent:
    message.N = 0
    return message


@hears(Push, "PUSH-002", "PUSH-003", "DCL-102")
def takes_only_keys_without_suffix(message: Push, _: Wire) -> Bent:
    if "control" in (message.key_suffix or ""):
        return message
    message.N = 0
    return message


@hears(Push, "PUSH-004")
def ignores_m(message: Push, _: Wire) -> Bent:
    message.M = 1
    return message


@hears(Push, "PUSH-005")
def refuses_node_id(message: Push, _: Wire) -> Bent:
    return None if has(message, NodeId) else message


@hears(bytes, "PUSH-006", "DATA-001")
def delivers_a_query_body(batch: bytes, _: Wire) -> Bent:
    inside = contents(batch)
    if inside.error and inside.messages and isinstance(inside.messages[0], Frame):
        # Body id 3 becomes a PUT of one byte; 4 and 5 stay refused.
        return batch[:-1] + b"\x01\x01!" if batch[-1:] == b"\x03" else batch
    return batch


@hears(Push, "EXT-102")
def refuses_push_with_unknown_extensions(message: Push, _: Wire) -> Bent:
    return None if has(message, UnknownExtension) else message


@hears(bytes, "EXT-103")
def ignores_the_mandatory_bit(batch: bytes, _: Wire) -> Bent:
    return batch.replace(b"\x1e\x01\x01", b"\x0e\x01\x01").replace(b"\x5e\x07", b"\x4e\x07")


@hears(bytes, "EXT-104")
def reads_encoding_3_as_unit(batch: bytes, _: Wire) -> Bent:
    return batch[:-3] + b"\x0e" if batch[-3:] == b"\x6e\x01\x00" else batch


@says(Push, "NET-004")
def makes_qos_mandatory(message: Push, _: Wire) -> Bent:
    for ext in message.extensions or []:
        ext.M = 1
    return message


@says(Push, "NET-005", "NET-007", "NET-008", "NET-003", "NET-013")
def forwards_without_extensions(message: Push, _: Wire) -> Bent:
    message.extensions, message.Z = [], None
    return message


@says(Push, "NET-010", "NET-011")
def sets_bits_of_qos(message: Push, _: Wire) -> Bent:
    message.extensions, message.Z = [QoS(D=1)], None
    raw = bytes(message)
    return raw.replace(b"\x21\x0d", b"\x21\xcd\x00")


def _put(message: Push, bend: Callable[[Put], None]) -> Push:
    if isinstance(message.body, Put) and "control" not in str(message.key_suffix):
        bend(message.body)
    return message


@says(Push, "PUT-001", "PUT-003")
def drops_the_encoding(message: Push, _: Wire) -> Bent:
    def bend(put: Put) -> None:
        put.E = 0

    return _put(message, bend)


@says(Push, "PUT-002", "PUT-005")
def changes_the_payload(message: Push, _: Wire) -> Bent:
    def bend(put: Put) -> None:
        put.data = bytes(put.data) + b"!"

    return _put(message, bend)


@says(Push, "PUT-004", "DATA-002")
def drops_the_attachment(message: Push, _: Wire) -> Bent:
    def bend(put: Put) -> None:
        without(put, PutAttachment)

    return _put(message, bend)


@says(Push, "DEL-001", "PUSH-006")
def turns_del_into_put(message: Push, _: Wire) -> Bent:
    if isinstance(message.body, Del):
        message.body = Put()
    return message


@says(Push, "DEL-002")
def drops_what_stands_on_del(message: Push, _: Wire) -> Bent:
    if isinstance(message.body, Del):
        without(message.body, SourceInfo, DelAttachment)
    return message


# DECLARE ------------------------------------------------------------------------------------------


@says(Declare, "DCL-001")
def sets_bit_6_of_declare(message: Declare, _: Wire) -> Bent:
    return flipped(message, 0, 0x40)


@says(Declare, "DCL-002")
def always_writes_an_interest_id(message: Declare, _: Wire) -> Bent:
    if not message.value("I"):
        message.I, message.interest_id = 1, 1
    return message


@hears(Declare, "DCL-003", "EXT-102")
def refuses_declare_with_extensions(message: Declare, _: Wire) -> Bent:
    return None if message.extensions else message


@hears(bytes, "DCL-004")
def reads_bodies_until_the_batch_ends(batch: bytes, _: Wire) -> Bent:
    inside = contents(batch)
    at = batch.rfind(b"\x22\x5d\x00")
    return batch[:at] + b"\x1e" + batch[at:] if inside.error and at > 0 else batch


@says(Declare, "DCL-101", "INT-004", "INT-103")
def swaps_queryables_and_tokens(message: Declare, _: Wire) -> Bent:
    body = message.body
    swap = {DeclareQueryable: DeclareToken, DeclareToken: DeclareQueryable}
    if type(body) in swap:
        other = swap[type(body)]
        message.body = other(
            entity_id=body.entity_id, M=body.M, key_scope=body.key_scope, key_suffix=body.key_suffix
        )
    return message


@hears(Declare, "DCL-102", "PUSH-003", "PUSH-004", "REQ-003")
def forgets_aliases(message: Declare, _: Wire) -> Bent:
    return None if isinstance(message.body, DeclareKeyExpr) else message


@hears(Declare, "DCL-103")
def keeps_aliases(message: Declare, _: Wire) -> Bent:
    return None if isinstance(message.body, UndeclareKeyExpr) else message


@hears(Push, "DCL-104")
def declares_publishers(message: Push, wire: Wire) -> Bent:
    for other in wire.others():
        body = DeclareSubscriber(entity_id=9, key_suffix=message.key_suffix)
        other.say(Frame(R=1, sn=0, messages=[Declare(body=body)]))
    return message


@says(Declare, "DCL-105")
def drops_queryable_info(message: Declare, _: Wire) -> Bent:
    if isinstance(message.body, DeclareQueryable):
        without(message.body, QueryableInfo)
    return message


# INTEREST -----------------------------------------------------------------------------------------


@hears(Interest, "INT-001", "INT-103")
def takes_current_future_for_current(message: Interest, _: Wire) -> Bent:
    if message.mode == InterestMode.CURRENT_FUTURE:
        message.mode = InterestMode.CURRENT
    return message


@says(Declare, "INT-002")
def truncates_the_interest_id(message: Declare, _: Wire) -> Bent:
    if message.interest_id is not None:
        message.interest_id = message.interest_id + 1 & 0xFF
    return message


@hears(Interest, "INT-003")
def closes_on_final(message: Interest, _: Wire) -> Bent:
    return b"\x18" if message.mode == InterestMode.FINAL else message


@hears(Interest, "INT-004")
def swaps_subscribers_and_queryables(message: Interest, _: Wire) -> Bent:
    if message.mode:
        message.subscribers, message.queryables = message.queryables, message.subscribers
    return message


@hears(Interest, "INT-005", "INT-105")
def ignores_the_key_of_an_interest(message: Interest, _: Wire) -> Bent:
    if message.mode:
        message.M, message.key_scope, message.key_suffix = 0, 0, "**"
    return message


@hears(Interest, "INT-006", "EXT-102")
def refuses_interest_with_extensions(message: Interest, _: Wire) -> Bent:
    return None if message.extensions else message


@says(Declare, "INT-101", "INT-103", "RTE-024")
def sends_no_d_final(message: Declare, _: Wire) -> Bent:
    return None if isinstance(message.body, DeclareFinal) else message


@hears(Interest, "INT-104")
def ignores_final(message: Interest, _: Wire) -> Bent:
    return message if message.mode else None


@hears(Interest, "INT-106")
def ignores_aggregate(message: Interest, _: Wire) -> Bent:
    if message.mode:
        message.aggregate = 0
    return message


# Routing ------------------------------------------------------------------------------------------


@hears(Declare, "RTE-001", "RTE-011", "RTE-026", "KEX-102")
def floods(message: Declare, _: Wire) -> Bent:
    if isinstance(message.body, DeclareSubscriber):
        message.body.key_suffix = "**"
    return message


@hears(Declare, "RTE-002", "RTE-003", "RTE-023")
def keeps_declarations_to_itself(*_: Any) -> Bent:
    return None


@says(Declare, "RTE-005", "RTE-006", "RTE-003")
def tells_nobody(*_: Any) -> Bent:
    return None


@hears(Declare, "RTE-007", "RTE-009")
def echoes_declarations(message: Declare, wire: Wire) -> Bent:
    wire.say(Frame(R=1, sn=0, messages=[message]))
    return message


@hears(Push, "RTE-013")
def echoes_publications(message: Push, wire: Wire) -> Bent:
    wire.say(Frame(R=1, sn=0, messages=[message]))
    return message


@hears(Request, "RTE-014", "RTE-016")
def asks_the_best_only(message: Request, _: Wire) -> Bent:
    return without(message, Target)


@hears(Request, "RTE-015", "RTE-016")
def asks_all(message: Request, _: Wire) -> Bent:
    message.extensions, message.Z = [Target(target=QueryTarget.ALL)], None
    return message


@says(Response, "RTE-017")
def broadcasts_replies(message: Response, wire: Wire) -> Bent:
    for other in wire.others():
        other.say(Frame(R=1, sn=0, messages=[message]))
    return message


@says(bytes, "RTE-021")
def hangs_when_a_queryable_leaves(batch: bytes, wire: Wire) -> Bent:
    for message in contents(batch).messages:
        for inner in message.messages if isinstance(message, Frame) else []:
            if isinstance(inner, Response):
                wire.memory["open"] = inner.request_id
            if isinstance(inner, ResponseFinal) and inner.request_id == wire.memory.get("open"):
                return None
    return batch


@says(Declare, "RTE-023", "INT-103")
def lists_all_but_one(message: Declare, wire: Wire) -> Bent:
    first = "listed" not in wire.memory and not isinstance(message.body, DeclareFinal)
    wire.memory["listed"] = True
    return None if first else message


@hears(Declare, "RTE-027")
def keeps_routing(message: Declare, _: Wire) -> Bent:
    return None if isinstance(message.body, UndeclareSubscriber) else message


@hears(Push, "RTE-026")
def tests_equality_of_keys(message: Push, _: Wire) -> Bent:
    return None if "*" in (message.key_suffix or "") else message


@hears(Push, "KEX-101")
def routes_what_is_no_key(message: Push, _: Wire) -> Bent:
    key = message.key_suffix or ""
    if "/" in key and key != "/":
        for stray in "#?$*":
            key = key.replace(stray, "")
        message.key_suffix = key.replace("//", "/").rstrip("/")
    return message


# REQUEST and QUERY ------------------------------------------------------------------------------------


@says(Request, "REQ-001")
def forwards_queries_without_the_suffix(message: Request, _: Wire) -> Bent:
    message.N = 0
    return message


@says((Response, ResponseFinal), "REQ-002", "VLE-101")
def truncates_the_request_id(message: Response | ResponseFinal, _: Wire) -> Bent:
    message.request_id &= 0xFFFF
    return message


@hears(Request, "REQ-004")
def refuses_budget(message: Request, _: Wire) -> Bent:
    return None if has(message, Budget) else message


@hears(Request, "EXT-102")
def refuses_requests_with_unknown_extensions(message: Request, _: Wire) -> Bent:
    return None if has(message, UnknownExtension) or has(message.body, UnknownExtension) else message


@hears(bytes, "REQ-005", "DATA-001")
def forwards_del_as_query(batch: bytes, _: Wire) -> Bent:
    inside = contents(batch)
    stray = inside.error and inside.messages and isinstance(inside.messages[0], Frame)
    return batch[:-1] + b"\x03" if stray and batch[-1:] == b"\x02" else batch


@says(Request, "REQ-006")
def passes_request_ids_through(message: Request, _: Wire) -> Bent:
    message.request_id = 42
    return message


@says(Request, "REQ-101")
def counts_request_ids_beyond(message: Request, _: Wire) -> Bent:
    raw = bytes(message)
    return raw[:1] + b"\x80\x80\x80\x80\x10" + raw[2:]


@says(Request, "REQ-102")
def makes_budget_mandatory(message: Request, _: Wire) -> Bent:
    for ext in message.extensions or []:
        ext.M = 1
    return message


@hears(Request, "REQ-103")
def ignores_timeout(message: Request, _: Wire) -> Bent:
    return without(message, Timeout)


@says(Request, "QRY-001", "QRY-002")
def drops_consolidation(message: Request, _: Wire) -> Bent:
    message.body.C = 0
    return message


@says(Request, "QRY-003")
def drops_parameters(message: Request, _: Wire) -> Bent:
    message.body.P = 0
    return message


@says(Request, "QRY-004", "QRY-005", "DATA-002")
def drops_query_body(message: Request, _: Wire) -> Bent:
    without(message.body, QueryBody)
    return message


@hears(bytes, "VLE-102")
def cuts_large_request_ids(batch: bytes, _: Wire) -> Bent:
    for large in (b"\x80\x80\x80\x80\x10", b"\xff\xff\xff\xff\x7f"):
        batch = batch.replace(large, b"\x05")
    return batch


@says(ResponseFinal, "VLE-103")
def misreads_padded_numbers(message: ResponseFinal, _: Wire) -> Bent:
    if message.request_id == 6:
        message.request_id = 0x306
    return message


# RESPONSE and RESPONSE_FINAL --------------------------------------------------------------------------


@says(Response, "RSP-001", "RSP-004")
def takes_the_base_as_key_of_replies(message: Response, _: Wire) -> Bent:
    message.key_suffix = str(message.key_suffix).rpartition("/")[0]
    return message


@says(Response, "RSP-002")
def gives_replies_to_the_last_query(message: Response, _: Wire) -> Bent:
    message.request_id = 42
    return message


@says(ResponseFinal, "FIN-002", "REQ-002", "FIN-005")
def finishes_with_its_inner_id(message: ResponseFinal, _: Wire) -> Bent:
    message.request_id ^= 0x4000
    return message


@hears(Response, "RSP-003")
def forwards_strays(message: Response, _: Wire) -> Bent:
    if message.request_id > 1000:
        message.request_id -= 1000
    return message


@hears(Response, "RSP-005", "RSP-006")
def refuses_responder_id(message: Response, _: Wire) -> Bent:
    return None if has(message, ResponderId) else message


@hears(Response, "EXT-102")
def refuses_replies_with_unknown_extensions(message: Response, _: Wire) -> Bent:
    return None if has(message, UnknownExtension) or has(message.body, UnknownExtension) else message


@says(Response, "RSP-006")
def drops_responder_id(message: Response, _: Wire) -> Bent:
    return without(message, ResponderId)


@hears(bytes, "RSP-007", "DATA-001")
def takes_a_bare_put_for_a_reply(batch: bytes, _: Wire) -> Bent:
    inside = contents(batch)
    return batch[:-3] + b"\x04" + batch[-3:] if inside.error and batch[-3:] == b"\x01\x01\x32" else batch


@says(Response, "RSP-101")
def passes_the_first_reply_only(message: Response, wire: Wire) -> Bent:
    seen = wire.memory.setdefault("replies", 0)
    wire.memory["replies"] += 1
    return None if seen else message


@says(Response, "RSP-007", "RPL-001")
def drops_del_replies(message: Response, _: Wire) -> Bent:
    is_del = isinstance(message.body, Reply) and isinstance(message.body.body, Del)
    return None if is_del else message


@says(Response, "RPL-002")
def drops_consolidation_of_replies(message: Response, _: Wire) -> Bent:
    if isinstance(message.body, Reply):
        message.body.C = 0
    return message


@says(Response, "ERR-001", "RSP-007")
def turns_err_into_an_empty_reply(message: Response, _: Wire) -> Bent:
    if isinstance(message.body, Err):
        message.body = Reply(body=Put())
    return message


@says(ResponseFinal, "FIN-001")
def sets_bit_5_of_response_final(message: ResponseFinal, _: Wire) -> Bent:
    return flipped(message, 0, 0x20)


@says(ResponseFinal, "FIN-003")
def forwards_late_replies(message: ResponseFinal, _: Wire) -> Bent:
    late = Reply(body=Put(data=b"late"))
    return [message, Response(request_id=message.request_id, key_suffix="late", body=late)]


@says(ResponseFinal, "FIN-004", "RTE-019")
def finishes_twice(message: ResponseFinal, _: Wire) -> Bent:
    return [message, message]


@hears(ResponseFinal, "FIN-004", "RTE-019")
def finishes_with_the_first(message: ResponseFinal, wire: Wire) -> Bent:
    for other in wire.others():
        other.say(Frame(R=1, sn=0, messages=[ResponseFinal(request_id=1)]))
    return message


@hears(ResponseFinal, "FIN-006", "EXT-102")
def refuses_finals_with_extensions(message: ResponseFinal, _: Wire) -> Bent:
    return None if message.extensions else message


@says(ResponseFinal, "FIN-005")
def lets_unanswered_queries_time_out(message: ResponseFinal, _: Wire) -> Bent:
    return None if message.request_id == 2 else message
