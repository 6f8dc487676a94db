"""INIT: session initialisation and negotiation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import pytest

from conformance.errors import NotApplicable
from conformance.expect import check
from conformance.nodes.base import Node
from conformance.plugin import req
from conformance.suite.common import (
    accept,
    bits,
    carriers,
    count_up_to,
    fragments_of,
    frame,
    goes_on,
    greet,
    leave,
    listed,
    not_taken,
    pair,
    patiently,
    unknown,
)
from conformance.tester import SessionEnd, Tester, largest_number
from scapy_layers.codes import CloseReason, Priority, Resolution, WhatAmI
from scapy_layers.extensions import (
    Compression,
    Drop,
    First,
    InitSynShm,
    Lane,
    LowLatency,
    Patch,
    QoS,
    QoSLink,
    QoSOffer,
    RegionName,
)
from scapy_layers.message import UnknownExtension
from scapy_layers.network import Push
from scapy_layers.transport import Fragment, Frame, Init, KeepAlive, Open

RESERVED_ROLE = 0b11

VERSIONS = pytest.mark.parametrize("version", [0x08, 0x0A, 0xFF], ids=hex)


def own_batch_size(tester: Tester) -> int:
    """Returns the batch size that the node states when it is free to choose."""
    _, ack = greet(tester)
    return int(ack.batch_size) if ack.S else 65_535


def resolutions(ack: Init, fsn: int, rid: int) -> tuple[int, int]:
    """Returns the resolutions that hold after an InitAck; without S the proposed ones."""
    return (ack.fsn, ack.rid) if ack.S else (fsn, rid)


def offered(ack: Init) -> list[str]:
    """Returns the extensions of an InitAck in words, with their encodings."""
    encodings = ("Unit", "Z64", "ZBuf", "reserved")
    return [f"{extension.ext_id:#x} {encodings[extension.ENC]}" for extension in ack.extensions or []]


def understood(ack: Init) -> list[str]:
    """Returns those that say something: unknown ones may differ from one InitAck to the next, as their order may."""
    known = [ext for ext in ack.extensions or [] if not isinstance(ext, UnknownExtension)]
    return sorted(offered(Init(extensions=known)))


# The four messages --------------------------------------------------------------------------------


@req("ZN-INIT-001")
def test_set_up_is_init_ack_then_open_ack(tester: Tester) -> None:
    quiet = tester.link()
    end = tester.starting()
    end.open()
    names = [str(seen.message.name) for seen in end.inbox[:2]]
    check(names == ["INIT", "OPEN"], "INIT, OPEN", listed(names))
    check(not quiet.inbox, "nothing on a link without InitSyn", "something")


@req("ZN-INIT-002")
def test_init_ack_brings_a_cookie(tester: Tester) -> None:
    _, ack = greet(tester)
    check(len(ack.cookie) >= 1, "a cookie of at least one byte", f"{len(ack.cookie)} bytes")


@req("ZN-INIT-003")
@VERSIONS
def test_unsupported_version_is_answered_with_close(tester: Tester, version: int) -> None:
    greet(tester, version=0x09)
    link = tester.link()
    link.send(tester.init(version=version))
    link.expect_refusal()


@req("ZN-INIT-045")
@VERSIONS
def test_unsupported_version_is_refused_with_unsupported(tester: Tester, version: int) -> None:
    greet(tester, version=0x09)
    link = tester.link()
    link.send(tester.init(version=version))
    link.expect_refusal(CloseReason.UNSUPPORTED)


@req("ZN-INIT-006")
def test_refused_cookie_is_answered_with_close_instead_of_open_ack(tester: Tester) -> None:
    accept(tester)
    link, ack = greet(tester)
    link.send(Open(cookie=bytes(byte ^ 1 for byte in ack.cookie) or b"no such cookie"))
    link.expect_refusal(unless=Open)


@req("ZN-INIT-007")
@pytest.mark.parametrize(
    "first",
    [Open(), KeepAlive(), Init(A=1, zid=b"\1", cookie=b"cookie"), Frame(R=1, sn=0), bytes([0x0C])],
    ids=["OPEN", "KEEP_ALIVE", "InitAck", "FRAME", "unknown"],
)
def test_session_starts_with_nothing_but_init_syn(tester: Tester, first: Any) -> None:
    greet(tester)
    link = tester.link()
    link.send(first)
    link.expect_refusal()
    check(not [seen for seen in link.inbox if isinstance(seen.message, Open)], "no OPEN", "OPEN")


# Layout -------------------------------------------------------------------------------------------


@req("ZN-INIT-009", "ZN-INIT-010")
def test_init_ack_header_says_what_follows(tester: Tester) -> None:
    for proposal in ({}, {"batch_size": 512}):
        link, ack = greet(tester, **proposal)
        check(bits(ack, 0, 0x3F) == 0x21, "header with id 1 and A", f"{bits(ack, 0, 0x3F):#04x}")
        seen = tester.history.observations[link.inbox[0].at].contents
        whole = len(seen.messages) == 1 and seen.error is None and not seen.rest
        check(whole, "an InitAck that ends where its flags say", "other bytes", str(seen.error))


@req("ZN-INIT-009")
@pytest.mark.parametrize("flag", ["A", "S", "Z"])
def test_flag_without_its_fields_starts_no_session(tester: Tester, flag: str) -> None:
    greet(tester)
    link = tester.link()
    plain = bytes(tester.init())
    link.send(bytes([plain[0] | {"A": 0x20, "S": 0x40, "Z": 0x80}[flag]]) + plain[1:])
    not_taken(link)


@req("ZN-INIT-011")
def test_s_announces_resolution_and_batch_size(tester: Tester) -> None:
    greet(tester)
    _, ack = greet(tester, fsn=Resolution.BITS_16, rid=Resolution.BITS_32, batch_size=1024)
    seen = resolutions(ack, Resolution.BITS_16, Resolution.BITS_32)
    check(seen[0] <= Resolution.BITS_16, "numbers of at most 16 bit", f"FSN {seen[0]}")
    link = tester.link()
    link.send(bytes(tester.init(S=1))[:-3])
    not_taken(link)


@req("ZN-INIT-013")
@pytest.mark.parametrize("enc", ["unit", "zbuf"])
def test_z_announces_a_chain_that_ends_the_message(tester: Tester, enc: str) -> None:
    goes_on(*greet(tester))
    goes_on(*greet(tester, extensions=[unknown(enc)]))
    goes_on(*greet(tester, batch_size=1024, extensions=[unknown(enc), unknown("unit")]))


@req("ZN-INIT-014")
def test_init_ack_says_version_9(tester: Tester) -> None:
    _, ack = greet(tester)
    check(bits(ack, 1, 0xFF) == 0x09, "version 0x09", f"version {bits(ack, 1, 0xFF):#04x}")


@req("ZN-INIT-015")
def test_zid_has_1_to_16_bytes(tester: Tester) -> None:
    for size in range(1, 17):
        link = tester.link()
        link.send(tester.init(zid=bytes(tester.rng.randint(1, 255) for _ in range(size))))
        link.expect(Init, A=1)
        link.close()
    link = tester.link()
    link.send(bytes(tester.init())[:-1])
    not_taken(link)


@req("ZN-INIT-016")
def test_init_ack_sends_reserved_packed_bits_as_zero(tester: Tester) -> None:
    _, ack = greet(tester)
    check(not bits(ack, 2, 0x0C), "bits 3:2 of the packed byte zero", f"{bits(ack, 2, 0x0C):#04x}")


@req("ZN-INIT-017")
@pytest.mark.parametrize("reserved", [0x04, 0x08, 0x0C], ids=hex)
def test_reserved_packed_bits_of_ours_change_nothing(tester: Tester, reserved: int) -> None:
    _, plain = greet(tester)
    raw = bytearray(bytes(tester.init()))
    raw[2] |= reserved
    link = tester.link()
    link.send(bytes(raw))
    ack = link.expect(Init, A=1, whatami=plain.whatami)
    check(understood(ack) == understood(plain), listed(understood(plain)), listed(understood(ack)))
    goes_on(link, ack)


@req("ZN-INIT-018")
@pytest.mark.parametrize("mode", ["router", "peer"])
def test_init_ack_shows_the_role_of_the_node(tester_of: Callable[..., Tester], mode: str) -> None:
    link = (tester := tester_of(mode=mode)).link()
    link.send(tester.init())
    link.expect(Init, whatami=WhatAmI[mode.upper()])


@req("ZN-INIT-019")
def test_role_code_3_starts_no_session(tester: Tester) -> None:
    greet(tester, whatami=WhatAmI.CLIENT)
    link = tester.link()
    link.send(tester.init(whatami=RESERVED_ROLE))
    link.expect_refusal()


@req("ZN-INIT-020")
def test_zid_of_the_node_is_the_same_on_all_links(tester: Tester) -> None:
    zids = {greet(tester)[1].zid for _ in range(3)}
    check(len(zids) == 1, "one ZenohID on 3 links", f"{len(zids)}")


# Resolution and batch size --------------------------------------------------------------------------


@req("ZN-INIT-021")
@pytest.mark.parametrize("reserved", [0x00, 0xF0], ids=hex)
def test_reserved_resolution_bits_are_zero(tester: Tester, reserved: int) -> None:
    raw = bytearray(bytes(tester.init(fsn=Resolution.BITS_16, rid=Resolution.BITS_16, batch_size=1024)))
    raw[-3] |= reserved
    link = tester.link()
    link.send(bytes(raw))
    ack = link.expect(Init, A=1)
    if not ack.S:
        raise NotApplicable("its InitAck has no resolution byte")
    seen = bits(ack, 3 + len(ack.zid), 0xF0)
    check(not seen, "bits 7:4 of the resolution byte zero", f"{seen:#04x}")


@req("ZN-INIT-022")
@pytest.mark.parametrize(("fsn", "rid"), [(0, 2), (2, 0)], ids=["fsn", "rid"])
def test_each_resolution_is_lowered_for_itself(tester: Tester, fsn: int, rid: int) -> None:
    _, ack = greet(tester, fsn=Resolution.BITS_32, rid=Resolution.BITS_32, batch_size=1024)
    free = resolutions(ack, Resolution.BITS_32, Resolution.BITS_32)
    _, ack = greet(tester, fsn=fsn, rid=rid, batch_size=1024)
    seen = resolutions(ack, fsn, rid)
    wanted = min(fsn, free[0]), min(rid, free[1])
    check(seen == wanted, f"FSN {wanted[0]}, RID {wanted[1]}", f"FSN {seen[0]}, RID {seen[1]}")


@req("ZN-INIT-023")
@pytest.mark.parametrize("code", Resolution, ids=lambda code: code.name)
def test_resolution_codes_mean_8_16_32_and_64_bit(tester: Tester, code: Resolution) -> None:
    _, ack = greet(tester, fsn=code)
    if not ack.S and code > Resolution.BITS_32:
        raise NotApplicable("its InitAck has no resolution byte: what was proposed, or the default (R-05)?")
    agreed = tester.session(fsn=code).session.agreed.fsn
    if agreed < min(code, Resolution.BITS_32):
        raise NotApplicable(f"it agrees on {8 << agreed} bits at most")
    largest = largest_number(tester, agreed)
    both = pair(tester, fsn=code, initial_sn=largest - 1)
    count_up_to(both.pub, largest)
    for key in ("last but one", "last", "first again"):
        both.pub.post(both.push(key))
    both.expect("PUT last but one=1", "PUT last=1", "PUT first again=1")
    if agreed < Resolution.BITS_64:
        beyond = both.pub.session.take_sn() | 1 << (8 << agreed)
        both.pub.send(frame(both.pub, both.push("beyond"), sn=beyond))
        both.expect()


@req("ZN-INIT-024", "ZN-INIT-026")
def test_without_s_the_defaults_stand(tester: Tester) -> None:
    _, short = greet(tester)
    _, said = greet(tester, S=1, fsn=Resolution.BITS_32, rid=Resolution.BITS_32, batch_size=65_535)
    seen, wanted = [
        (*resolutions(ack, Resolution.BITS_32, Resolution.BITS_32), ack.batch_size if ack.S else 65_535)
        for ack in (short, said)
    ]
    words = "FSN {}, RID {}, batch size {}"
    check(seen == wanted, words.format(*wanted), words.format(*seen))


@req("ZN-INIT-025")
def test_batch_size_is_two_bytes_low_byte_first(tester: Tester) -> None:
    wanted = min(0x0180, own_batch_size(tester))
    _, ack = greet(tester, batch_size=0x0180)
    at = 4 + len(ack.zid)
    seen = ack.original[at : at + 2] if ack.S else (0x0180).to_bytes(2, "little")
    check(seen == wanted.to_bytes(2, "little"), wanted.to_bytes(2, "little").hex(" "), seen.hex(" "))


@req("ZN-INIT-027")
def test_node_never_sends_a_batch_larger_than_agreed(tester: Tester) -> None:
    size = 256
    value = tester.rng.randbytes(4096)
    for proposed in (size, 65_535):
        both = pair(tester, subscriber={"batch_size": proposed})
        both.put("large", value, extensions=[QoS(D=1)])
        push = both.expect("PUT large=4096 bytes")[0]
        check(bytes(push.body.data) == value, "the value as it was published", "other bytes")
        largest = max(seen.batch_size for seen in both.sub.inbox)
        if both.sub.session.agreed.batch_size <= size:
            # Either what was proposed, or all that the node takes.
            check(largest <= size, f"no batch above {size} bytes", "a larger one", f"{largest} bytes")
        elif largest <= size:
            raise NotApplicable(f"none of its batches is larger than {size} bytes, whatever was agreed")


@req("ZN-INIT-046")
def test_answer_to_the_highest_resolutions_is_told(tester: Tester) -> None:
    _, ack = greet(tester, fsn=Resolution.BITS_64, rid=Resolution.BITS_64, batch_size=1024)
    fsn, rid = resolutions(ack, Resolution.BITS_64, Resolution.BITS_64)
    # Lowering is allowed, so there is nothing to judge; the capture has the answer.
    tester.history.annotate(f"to 64 and 64 bit the node answers {8 << fsn} and {8 << rid} bit")


@req("ZN-INIT-047")
def test_resolutions_are_never_raised(tester: Tester) -> None:
    for fsn, rid in product(range(4), repeat=2):
        link, ack = greet(tester, fsn=fsn, rid=rid, batch_size=1024)
        link.close()
        seen = resolutions(ack, fsn, rid)
        met = seen[0] <= fsn and seen[1] <= rid
        check(met, f"at most FSN {fsn}, RID {rid}", f"FSN {seen[0]}, RID {seen[1]}")


@req("ZN-INIT-048")
@pytest.mark.parametrize("size", [65_535, 1000, 64])
def test_batch_size_is_the_smaller_one(tester: Tester, size: int) -> None:
    wanted = min(size, own_batch_size(tester))
    _, ack = greet(tester, batch_size=size, S=1)
    seen = min(size, ack.batch_size) if ack.S else size
    check(seen == wanted, f"batch size {wanted}", f"batch size {seen}")
    check(not ack.S or ack.batch_size <= size, f"at most {size}", ack.batch_size)


# Cookie ---------------------------------------------------------------------------------------------


@req("ZN-INIT-030")
@pytest.mark.parametrize("ended", [False, True], ids=["live", "ended"])
def test_cookie_of_another_handshake_is_refused(tester: Tester, ended: bool) -> None:
    other, foreign = greet(tester)
    if ended:
        other.close()
    accept(tester)
    link, _ = greet(tester)
    link.send(Open(cookie=foreign.cookie))
    link.expect_refusal(unless=Open)


@req("ZN-INIT-031")
def test_cookies_differ_from_handshake_to_handshake(tester: Tester) -> None:
    cookies = set()
    for _ in range(20):
        link, ack = greet(tester)
        cookies.add(ack.cookie)
        link.close()
    check(len(cookies) == 20, "20 cookies in 20 handshakes", len(cookies))


# Extensions -------------------------------------------------------------------------------------------

RANGED = QoSLink(has_priorities=1, first_priority=Priority.CONTROL, last_priority=Priority.BACKGROUND)


@req("ZN-INIT-032")
def test_qos_is_answered_as_unit_and_only_when_offered(tester: Tester) -> None:
    _, without = greet(tester)
    check("0x1 Unit" not in offered(without), "no QoS unasked", listed(offered(without)))
    _, ack = greet(tester, extensions=[QoSOffer()])
    seen = [item for item in offered(ack) if item.startswith("0x1 ")]
    check(seen in ([], ["0x1 Unit"]), "0x1 Unit or nothing", listed(seen))
    if not seen:
        raise NotApplicable("the node has no lanes")


@req("ZN-INIT-033", "ZN-INIT-034")
def test_qos_link_is_told_from_qos_by_its_encoding(tester: Tester) -> None:
    _, lanes = greet(tester, extensions=[QoSOffer()])
    check("0x1 Z64" not in offered(lanes), "no Z64 in answer to Unit", listed(offered(lanes)))
    _, link = greet(tester, extensions=[RANGED.copy()])
    check("0x1 Unit" not in offered(link), "0x1 Z64 or nothing", listed(offered(link)))
    if not any(item.startswith("0x1 ") for item in offered(lanes) + offered(link)):
        raise NotApplicable("the node has no lanes")


@req("ZN-INIT-034")
def test_qos_and_qos_link_together_are_no_reason_to_close(tester: Tester) -> None:
    greet(tester, extensions=[QoSOffer()])
    greet(tester, extensions=[RANGED.copy()])
    greet(tester, extensions=[QoSOffer(), RANGED.copy()])


@req("ZN-INIT-038", "ZN-INIT-051")
@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
def test_low_latency_is_answered_when_it_is_on(tester_of: Callable[..., Tester], on: bool) -> None:
    tester = tester_of(transport__unicast__lowlatency=on, transport__unicast__qos__enabled=not on)
    _, without = greet(tester)
    check("0x5 Unit" not in offered(without), "nothing unasked", listed(offered(without)))
    _, ack = greet(tester, extensions=[LowLatency()])
    seen = [item for item in offered(ack) if item.startswith("0x5 ")]
    check(seen == ["0x5 Unit"] * on, "0x5 Unit" if on else "nothing", listed(seen))
    _, both = greet(tester, extensions=[QoSOffer(), LowLatency()])
    joined = {"0x1 Unit", "0x5 Unit"} <= set(offered(both))
    check(not joined, "QoS or low latency, not both", listed(offered(both)))


@req("ZN-INIT-039")
@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
def test_compression_is_answered_when_it_is_on(tester_of: Callable[..., Tester], on: bool) -> None:
    tester = tester_of(transport__unicast__compression__enabled=on)
    _, without = greet(tester)
    check("0x6 Unit" not in offered(without), "nothing unasked", listed(offered(without)))
    _, ack = greet(tester, extensions=[Compression()])
    seen = [item for item in offered(ack) if item.startswith("0x6 ")]
    check(seen == ["0x6 Unit"] * on, "0x6 Unit" if on else "nothing", listed(seen))


@req("ZN-INIT-035")
def test_shared_memory_is_not_answered_when_it_is_off(tester: Tester, node: Node) -> None:
    if not node.configured:
        raise NotApplicable("nobody knows whether the node has its shared memory off")
    for chain in ([], [InitSynShm(segment_id=1)]):
        _, ack = greet(tester, extensions=chain)
        seen = [item for item in offered(ack) if item.startswith("0x2 ")]
        check(not seen, "no shared memory in InitAck", listed(seen))


@req("ZN-INIT-041")
def test_node_without_a_region_names_none(tester: Tester, node: Node) -> None:
    _, ack = greet(tester)
    regions = [bytes(ext.original) for ext in ack.extensions or [] if ext.ext_id == RegionName().ext_id]
    if node.configured:
        check(not regions, "no region in InitAck", f"{len(regions)}")
    named = [raw for raw in regions if len(raw) > len(bytes(RegionName()))]
    check(len(named) == len(regions), "a region with a name, or none", "an empty one")


def patch_of(ack: Init) -> int:
    """Returns the patch version of an InitAck; 0 when it says none."""
    return next((int(ext.patch) for ext in ack.extensions or [] if isinstance(ext, Patch)), 0)


@req("ZN-INIT-040")
def test_patch_is_the_smaller_version(tester: Tester) -> None:
    _, without = greet(tester)
    check(patch_of(without) == 0, "no patch unasked", f"patch {patch_of(without)}")
    answers = [patch_of(greet(tester, extensions=[Patch(patch=patch)])[1]) for patch in (1, 254, 255)]
    check(answers[0] <= 1, "at most patch 1", f"patch {answers[0]}")
    check(answers[1] == answers[2], "the node's own version, whatever we offer", f"{answers[1:]}")
    if not any(answers):
        raise NotApplicable("the node says no patch version")


@req("ZN-INIT-042")
def test_extensions_of_init_ack_are_optional(tester: Tester) -> None:
    _, ack = greet(tester, extensions=[QoSOffer(), Patch(patch=1)])
    if not ack.extensions:
        raise NotApplicable("the node answers with no extension")
    mandatory = [str(extension.name) for extension in ack.extensions if extension.M]
    check(not mandatory, "no mandatory extension", listed(mandatory))


def marks(parts: Iterable[Fragment]) -> list[str]:
    """Returns the markers of fragments: ``First``, ``Drop``, ``none``."""
    return [
        "+".join(str(ext.name) for ext in part.extensions or [] if isinstance(ext, First | Drop)) or "none"
        for part in parts
    ]


@req("ZN-INIT-044")
def test_patch_1_marks_the_first_fragment(tester: Tester) -> None:
    both = pair(tester, subscriber={"batch_size": 1024, "patch": 1})
    if not both.sub.session.agreed.patch:
        raise NotApplicable("the node knows no patch")
    both.put("large", bytes(3000), extensions=[QoS(D=1)])
    (large,) = both.expect("PUT large=3000 bytes")
    seen = marks(fragments_of(both.sub, large))
    wanted = ["First"] + ["none"] * (len(seen) - 1)
    check(seen == wanted and len(seen) > 1, "First on the first fragment only", listed(seen))


@req("ZN-INIT-043")
def test_without_patch_fragments_are_not_marked(tester: Tester) -> None:
    both = pair(tester, subscriber={"batch_size": 1024})
    both.put("large", bytes(3000), extensions=[QoS(D=1)])
    both.expect("PUT large=3000 bytes")
    seen = marks(part for part in carriers(both.sub) if isinstance(part, Fragment))
    check(set(seen) == {"none"}, "fragments without First and Drop", listed(sorted(set(seen))))


@req("ZN-INIT-049")
@pytest.mark.parametrize("agreed", [True, False], ids=["agreed", "not-agreed"])
def test_lanes_exist_only_when_both_sides_offered_them(tester: Tester, agreed: bool) -> None:
    both = pair(tester, subscriber={"qos": agreed}, qos=agreed)
    if agreed and not (both.pub.session.agreed.qos and both.sub.session.agreed.qos):
        raise NotApplicable("the node has no QoS lanes")
    both.put("before")
    both.expect("PUT before=")
    lane, said = [Lane(priority=Priority.REAL_TIME)], [QoS(priority=Priority.REAL_TIME)]
    both.pub.send(frame(both.pub, both.push("lane", extensions=said), sn=first_sn(both.pub), extensions=lane))
    if agreed:
        both.sub.until(Push, key=both.at("lane"))
    else:
        both.expect()
    used = any(
        isinstance(extension, Lane)
        for carrier in carriers(both.sub)
        for extension in carrier.extensions or []
    )
    check(used == agreed, f"{'a' if agreed else 'no'} lane used by the node", "the opposite")


@req("ZN-INIT-050")
@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
def test_frames_are_left_out_only_when_both_sides_offered_low_latency(
    tester_of: Callable[..., Tester], on: bool
) -> None:
    tester = tester_of(transport__unicast__lowlatency=on, transport__unicast__qos__enabled=False)
    for offer in (True, False):
        both = pair(tester, subscriber={"lowlatency": offer})
        both.put("a", b"1")
        both.expect("PUT a=1")
        bare = {seen.carrier is None for seen in both.sub.inbox if isinstance(seen.message, Push)}
        wanted = "PUSH without FRAME" if on and offer else "PUSH in FRAME"
        check(bare == {on and offer}, wanted, "the opposite")


def first_sn(end: SessionEnd) -> int:
    """Returns our first number on a channel that was not used yet."""
    return end.session.take_sn(reliable=True, priority=Priority.REAL_TIME)


# Limits and malformed messages --------------------------------------------------------------------


@req("ZN-INIT-005")
def test_session_limit_is_answered_with_close(tester_of: Callable[..., Tester]) -> None:
    tester = tester_of(transport__unicast__max_sessions=1)
    first = patiently(tester)
    refused = tester.starting()
    refused.session.connect()
    refused.flush()
    refused.expect_refusal(unless=Open)
    leave(first)
    patiently(tester)


@req("ZN-INIT-052")
def test_cut_init_syn_starts_no_session(tester: Tester) -> None:
    whole = bytes(tester.init(batch_size=1024))
    # Reading R-57: a unit of no bytes is not judged.
    for size in range(1, len(whole)):
        link = tester.link()
        link.send(whole[:size])
        not_taken(link)
    link = tester.link()
    link.send(whole)
    link.expect(Init, A=1)
