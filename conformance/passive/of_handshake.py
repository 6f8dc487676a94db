"""Rules of INIT, OPEN and JOIN."""

# ruff: noqa: D103  (a rule is named by what it demands)

from __future__ import annotations

from conformance.expect import check
from conformance.passive.of_transport import decodes
from conformance.passive.rules import ANY, rule
from conformance.passive.talk import QOS, Talk, extension_of
from scapy_layers.codes import PROTOCOL_VERSION, Enc
from scapy_layers.extensions import RegionName
from scapy_layers.message import Extension, Message
from scapy_layers.transport import Init, Join, Open


def encoded(extension: Extension, enc: Enc, what: str) -> None:
    """Judges the encoding of an extension.

    Raises:
        Unmet: It is another one.
    """
    name = {Enc.UNIT: "Unit", Enc.Z64: "Z64", Enc.ZBUF: "ZBuf"}
    check(extension.fields["ENC"] == enc, f"{what} as {name[enc]}", "another encoding")


def packed_byte(message: Message) -> int | None:
    """Returns the byte with length of the ZenohID and role; None when it is not there."""
    raw: bytes = message.original
    return raw[2] if len(raw) > 2 else None


# INIT --------------------------------------------------------------------------------------------------


@rule("ZN-INIT-010", Init)
def a_tells_who_asks_and_who_answers(init: Init, talk: Talk) -> bool | None:
    if talk.group:
        return False
    wanted = 0 if talk.accepted else 1
    check(init.fields["A"] == wanted, f"INIT with A={wanted}", f"A={int(init.fields['A'])}")
    return None


@rule("ZN-INIT-014", Init)
@rule("ZN-JOIN-002", Join)
def version_is_9(message: Message, talk: Talk) -> None:
    del talk
    version = message.fields.get("version")
    check(version == PROTOCOL_VERSION, "version 0x09", "another")


@rule("ZN-INIT-016", Init)
@rule("ZN-JOIN-003", Join)
def bits_3_and_2_of_the_packed_byte_are_zero(message: Message, talk: Talk) -> None:
    del talk
    packed = packed_byte(message)
    check(packed is not None and not packed & 0x0C, "bits 3:2 of the packed byte zero", "set")


@rule("ZN-INIT-019", Init)
def role_is_one_of_three(init: Init, talk: Talk) -> None:
    del talk
    check((packed_byte(init) or 0) & 0x03 != 0x03, "role 00, 01 or 10", "role 11")


@rule("ZN-INIT-021", Init)
def upper_bits_of_the_resolution_are_zero(init: Init, talk: Talk) -> bool | None:
    del talk
    if not init.fields.get("S") or "batch_size" not in init.fields:
        return False
    at = 3 + len(init.fields["zid"])
    check(not init.original[at] & 0xF0, "bits 7:4 of the resolution zero", "set")
    return None


@rule("ZN-INIT-028", Init)
def only_init_ack_has_a_cookie(init: Init, talk: Talk) -> None:
    del talk
    cookie = init.fields.get("cookie")
    words = "InitAck with a cookie" if init.fields["A"] else "InitSyn without a cookie"
    check(bool(cookie) == bool(init.fields["A"]), words, "the opposite")


@rule("ZN-INIT-047", Init)
def resolutions_are_not_raised(init: Init, talk: Talk) -> bool | None:
    if talk.accepted or talk.syn is None or talk.odd or not init.fields.get("S"):
        return False
    for name in ("fsn", "rid"):
        asked, said = talk.syn.value(name), init.fields.get(name)
        if said is not None:
            check(said <= (2 if asked is None else asked), f"{name} as proposed or lower", "higher")
    return None


@rule("ZN-INIT-048", Init)
def batch_size_is_not_raised(init: Init, talk: Talk) -> bool | None:
    if talk.accepted or talk.syn is None or talk.odd or init.fields.get("batch_size") is None:
        return False
    check(init.batch_size <= talk.batch_size, "the batch size as proposed or smaller", "a larger one")
    return None


@rule("ZN-INIT-035", Init)
def shared_memory_of_init_is_zbuf_or_absent(init: Init, talk: Talk) -> None:
    del talk
    extension = extension_of(init, 0x2)
    if extension is not None:
        encoded(extension, Enc.ZBUF, "Shm of INIT")


@rule("ZN-INIT-036", Init, extension=0x3)
def authentication_of_init_is_zbuf(extension: Extension, talk: Talk) -> None:
    del talk
    encoded(extension, Enc.ZBUF, "Auth of INIT")


@rule("ZN-INIT-037", Init, extension=0x4)
def multilink_of_init_is_zbuf(extension: Extension, talk: Talk) -> None:
    del talk
    encoded(extension, Enc.ZBUF, "MultiLink of INIT")


@rule("ZN-INIT-038", Init, extension=0x5)
def low_latency_of_init_is_unit(extension: Extension, talk: Talk) -> None:
    del talk
    encoded(extension, Enc.UNIT, "LowLatency of INIT")


@rule("ZN-INIT-039", Init, extension=0x6)
def compression_of_init_is_unit(extension: Extension, talk: Talk) -> None:
    del talk
    encoded(extension, Enc.UNIT, "Compression of INIT")


@rule("ZN-INIT-040", Init, extension=0x7)
def patch_of_init_is_z64(extension: Extension, talk: Talk) -> None:
    del talk
    encoded(extension, Enc.Z64, "Patch of INIT")


@rule("ZN-INIT-041", Init)
def region_is_a_name_or_absent(init: Init, talk: Talk) -> None:
    del talk
    extension = extension_of(init, 0x8)
    if extension is not None:
        encoded(extension, Enc.ZBUF, "RegionName of INIT")
    if isinstance(extension, RegionName):
        check(extension.fields.get("region"), "a name of the region", "an empty one")


@rule("ZN-INIT-042", Init, extension=ANY)
def extensions_of_init_are_optional(extension: Extension, talk: Talk) -> None:
    del talk
    check(not extension.fields["M"], "extensions of INIT with M clear", "M set")


# OPEN --------------------------------------------------------------------------------------------------


@rule("ZN-OPEN-002", Open)
def open_decodes(opened: Open, talk: Talk) -> None:
    del talk
    decodes(opened)


@rule("ZN-OPEN-003", Open)
def a_of_open_tells_who_answers(opened: Open, talk: Talk) -> None:
    wanted = 0 if talk.accepted else 1
    check(opened.fields["A"] == wanted, f"OPEN with A={wanted}", f"A={int(opened.fields['A'])}")


@rule("ZN-OPEN-007", Open)
def first_number_is_in_the_agreed_range(opened: Open, talk: Talk) -> bool | None:
    if talk.odd or talk.ack is None or opened.fields.get("initial_sn") is None:
        return False
    bits = talk.bits("fsn")
    check(opened.initial_sn >> bits == 0, f"an initial number of at most {bits} bits", "a larger one")
    return None


@rule("ZN-OPEN-018", Open, extension=0x1)
def lanes_of_open_are_unit_and_agreed(extension: Extension, talk: Talk) -> None:
    encoded(extension, Enc.UNIT, "QoS of OPEN")
    check(talk.odd or talk.agreed(QOS), "QoS of OPEN only when agreed", "although it was not")


@rule("ZN-OPEN-019", Open)
def shared_memory_of_open_is_z64_or_absent(opened: Open, talk: Talk) -> None:
    del talk
    extension = extension_of(opened, 0x2)
    if extension is not None:
        encoded(extension, Enc.Z64, "Shm of OPEN")


@rule("ZN-OPEN-020", Open, extension=0x3)
def authentication_of_open_is_zbuf(extension: Extension, talk: Talk) -> None:
    del talk
    encoded(extension, Enc.ZBUF, "Auth of OPEN")


@rule("ZN-OPEN-021", Open, extension=0x4)
def multilink_of_open_is_zbuf_then_unit(extension: Extension, talk: Talk) -> None:
    if talk.accepted:
        encoded(extension, Enc.ZBUF, "MultiLink of OpenSyn")
    else:
        encoded(extension, Enc.UNIT, "MultiLink of OpenAck")


@rule("ZN-OPEN-022", Open, extension=0x5)
def low_latency_of_open_is_unit_and_agreed(extension: Extension, talk: Talk) -> None:
    encoded(extension, Enc.UNIT, "LowLatency of OPEN")
    check(talk.odd or talk.agreed(0x5), "LowLatency of OPEN only when agreed", "although it was not")


@rule("ZN-OPEN-023", Open, extension=0x6)
def compression_of_open_is_unit_and_agreed(extension: Extension, talk: Talk) -> None:
    encoded(extension, Enc.UNIT, "Compression of OPEN")
    check(talk.odd or talk.agreed(0x6), "Compression of OPEN only when agreed", "although it was not")


@rule("ZN-OPEN-024", Open, extension=0x7)
def routing_hint_is_z64(extension: Extension, talk: Talk) -> None:
    del talk
    encoded(extension, Enc.Z64, "the routing hint of OPEN")


@rule("ZN-OPEN-025", Open, extension=ANY)
def extensions_of_open_are_optional(extension: Extension, talk: Talk) -> None:
    del talk
    check(not extension.fields["M"], "extensions of OPEN with M clear", "M set")


# JOIN --------------------------------------------------------------------------------------------------


@rule("ZN-JOIN-004", Join)
def join_decodes(join: Join, talk: Talk) -> None:
    del talk
    decodes(join)
