"""SCOUT: who is answered, and how SCOUT is read. The node is asked in the group where it hears SCOUTs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from conformance.config import Locator
from conformance.errors import LinkFailed, NotApplicable
from conformance.expect import check
from conformance.nodes import Node
from conformance.observe import Observation
from conformance.plugin import req, transports
from conformance.suite.common import listed, unknown
from conformance.suite.scouting import (
    Asker,
    Kept,
    answer,
    asking,
    bit_of,
    bitmap,
    client,
    hearing_of,
    patience,
)
from conformance.tester import Tester
from conformance.tester.scout import ResponderEnd, ScoutEnd
from scapy_layers.codes import ScoutingId, WhatAmI
from scapy_layers.primitives import zid_to_text
from scapy_layers.scouting import Hello, Scout

pytestmark = transports("tcp")

OTHERS = pytest.mark.parametrize("others", ["neither", "one", "another", "both"])
"""Which of the roles that the node does not have are asked for."""

VERSIONS = pytest.mark.parametrize("version", [0x00, 0x08, 0x0A, 0xFF], ids=hex)


LOOKALIKE = {"mode": "peer", "id": zid_to_text(bytes(unknown("unit")))}
"""A peer whose ZenohID is the one byte of an extension that nobody knows."""


@pytest.fixture(scope="module")
def kept() -> Iterator[Kept]:
    """Variants of the node that tests share."""
    with Kept() as made:
        yield made


def packed(what: int, *, zid_len: int = 0, introduced: bool = False) -> int:
    """Returns the byte behind the version."""
    return zid_len << 4 | introduced << 3 | what


def scout(packed_byte: int, rest: bytes = b"", *, header: int = 0x01, version: int = 0x09) -> bytes:
    """Returns a SCOUT made by hand."""
    return bytes([header, version, packed_byte]) + rest


def foreign_zid(asker: Asker, length: int) -> bytes:
    """Returns a ZenohID of some length that is not the node's and does not begin like it."""
    # A zero at its end would say less than its length.
    rest = bytes(byte or 1 for byte in asker.tester.fresh_zid()[1:length])
    return flipped(asker.zid)[:1] + rest


def flipped(zid: bytes) -> bytes:
    """Returns a ZenohID with another first byte: one bit differs, unless no bit would be left."""
    return bytes([zid[0] ^ 0x80 or 1]) + zid[1:]


# Who is answered ----------------------------------------------------------------------------------------


@req("ZN-SCT-001")
def test_node_that_never_heard_of_us_answers_a_bare_datagram(tester: Tester, node: Node) -> None:
    end = tester.scout(hearing_of(node))
    stranger = tester.scout(hearing_of(node))
    stranger.scout(what=bit_of(node))
    answer(tester, node, stranger)
    check(not end.inbox, "nothing at a port that has not asked", "a datagram")


@req("ZN-SCT-004")
@OTHERS
def test_scout_for_other_roles_is_not_answered(tester: Tester, node: Node, others: str) -> None:
    asker = asking(tester, node)
    asker.answered(Scout(what=bitmap(node, others, asked=True)))
    asker.unanswered(Scout(what=bitmap(node, others, asked=False)))


@req("ZN-SCT-005", "ZN-HLO-001")
@OTHERS
def test_scout_for_the_role_of_the_node_is_answered_once(tester: Tester, node: Node, others: str) -> None:
    end = tester.scout(hearing_of(node))
    end.scout(what=bitmap(node, others, asked=True))
    answer(tester, node, end)
    end.expect_nothing(Hello, fence=end.ping)


@req("ZN-SCT-006", "ZN-HLO-001")
def test_hello_goes_to_the_port_that_asked_and_to_no_other(tester: Tester, node: Node) -> None:
    wrong = elsewhere(tester, hearing_of(node))
    one, another = tester.scout(hearing_of(node)), tester.scout(hearing_of(node))
    for asks, waits in ((one, another), (another, one)):
        asks.scout(what=bit_of(node))
        tester.links.wait(somebody_heard(asks, *wrong), patience(tester, node))
        check(not somebody_heard(*wrong)(), "HELLO at the port that asked", "HELLO elsewhere")
        if not asks.last(Hello):
            raise NotApplicable("the node answers no SCOUT")
        answer(tester, node, asks)
        waits.expect_nothing(Hello, fence=asks.ping)
    check(not somebody_heard(*wrong)(), "HELLO at the port that asked", "HELLO elsewhere as well")


def elsewhere(tester: Tester, group: Locator) -> list[ResponderEnd]:
    """Returns ends where no HELLO belongs: in the group, and at its port on this machine if that is free."""
    member = tester.responder(group)
    with contextlib.suppress(LinkFailed):
        return [member, tester.responder(Locator("udp", member.address[0], group.port))]
    return [member]


def somebody_heard(*ends: ScoutEnd | ResponderEnd) -> Callable[[], bool]:
    """Returns a condition: HELLO has come to one of these ends."""
    return lambda: any(end.last(Hello) for end in ends)


@req("ZN-SCT-007", "ZN-HLO-002")
def test_scout_with_the_zenoh_id_of_the_node_is_not_answered(tester: Tester, node: Node) -> None:
    asker = asking(tester, node)
    own = own_zid(tester)
    asker.answered(Scout(I=1, zid=flipped(own)))
    asker.unanswered(Scout(I=1, zid=own))


def own_zid(tester: Tester) -> bytes:
    """Returns the ZenohID that the node shows in a session."""
    peer = tester.session().session.peer
    assert peer is not None
    return bytes(peer.zid)


@req("ZN-SCT-008")
@pytest.mark.parametrize("zid_len", [0, 7, 14])
def test_without_i_nobody_is_taken_for_the_node(tester: Tester, node: Node, zid_len: int) -> None:
    asker = asking(tester, node)
    asker.answered(scout(packed(bit_of(node), zid_len=zid_len)))


@req("ZN-SCT-008")
def test_extension_that_looks_like_the_zenoh_id_of_the_node_is_none(
    tester: Tester, node: Node, kept: Kept
) -> None:
    variant = kept.variant(node, **LOOKALIKE)
    asker = asking(tester, variant)
    chain = bytes(unknown("unit"))
    check(zid_to_text(chain) == variant.zid, "a node with the ZenohID that it was told", "another ZenohID")
    asker.answered(scout(packed(bit_of(variant)), chain, header=0x81))


@req("ZN-SCT-017")
@pytest.mark.parametrize("mode", ["router", "peer", "client"])
def test_bits_of_the_bitmap_are_router_peer_client(
    tester: Tester, node: Node, kept: Kept, launched: Callable[..., Node], mode: str
) -> None:
    variants = {"peer": LOOKALIKE, "router": {"mode": "router"}}
    if mode == "client":
        variant = client(tester, launched)
    else:
        variant = node if node.whatami == mode else kept.variant(node, **variants[mode])
    asker = asking(tester, variant)
    asker.answered(scout(bit_of(variant)))
    for role in (role for role in WhatAmI if 1 << role != bit_of(variant)):
        asker.unanswered(scout(1 << role))


@req("ZN-SCT-019")
@VERSIONS
def test_scout_of_another_version_is_dropped(tester: Tester, node: Node, version: int) -> None:
    asker = asking(tester, node)
    asker.answered(scout(bit_of(node)))
    asker.unanswered(scout(bit_of(node), version=version))


@req("ZN-SCT-020")
@VERSIONS
def test_scout_of_another_version_is_dropped_in_silence(tester: Tester, node: Node, version: int) -> None:
    asker = asking(tester, node)
    asker.send(scout(bit_of(node), version=version))
    asker.end.ping()
    came = words_of(asker.later())
    check(not came, "no datagram", listed(came))
    tester.session().fence()


def words_of(datagrams: list[Observation]) -> list[str]:
    """Returns what datagrams hold, in words."""
    return [seen.contents.names or f"{len(seen.batch)} other bytes" for seen in datagrams]


# How SCOUT is read ----------------------------------------------------------------------------------------


@req("ZN-SCT-011")
@pytest.mark.parametrize("header", [0x01, 0x21, 0x41, 0x61], ids=hex)
def test_unused_bits_of_the_header_mean_nothing(tester: Tester, node: Node, header: int) -> None:
    asker = asking(tester, node)
    asker.answered(scout(bit_of(node), header=header))
    asker.unanswered(scout(bitmap(node, "both", asked=False), header=header))


@req("ZN-SCT-012")
@pytest.mark.parametrize("enc", ["unit", "z64", "zbuf"])
def test_extensions_follow_when_z_is_set(tester: Tester, node: Node, enc: str) -> None:
    asker = asking(tester, node)
    chain = bytes(unknown(enc))
    asker.answered(scout(bit_of(node)))
    asker.answered(scout(bit_of(node), chain, header=0x81))
    asker.unanswered(scout(bit_of(node), chain[:-1], header=0x81))


@req("ZN-SCT-013")
def test_version_comes_before_the_packed_byte(tester: Tester, node: Node) -> None:
    asker = asking(tester, node)
    asker.answered(bytes([0x01, 0x09, bit_of(node)]))
    asker.unanswered(bytes([0x01, bit_of(node), 0x09]))


@req("ZN-SCT-013")
@pytest.mark.parametrize("length", [1, 16])
def test_zenoh_id_comes_before_extensions(tester: Tester, node: Node, length: int) -> None:
    asker = asking(tester, node)
    zid, chain = foreign_zid(asker, length), bytes(unknown("zbuf"))
    introduced = packed(bit_of(node), zid_len=length - 1, introduced=True)
    asker.answered(scout(introduced, zid + chain, header=0x81))
    asker.unanswered(scout(introduced, zid + chain[:-1], header=0x81))


@req("ZN-SCT-014")
@pytest.mark.parametrize("what", range(8), ids=bin)
def test_packed_byte_is_length_and_i_and_roles(tester: Tester, node: Node, what: int) -> None:
    asker = asking(tester, node)
    for zid_len in (0, 1, 3, 7, 14):
        for introduced in (False, True):
            rest = foreign_zid(asker, 1 + zid_len) if introduced else b""
            datagram = scout(packed(what, zid_len=zid_len, introduced=introduced), rest)
            if what & bit_of(node):
                asker.answered(datagram)
            else:
                asker.unanswered(datagram)


@req("ZN-SCT-015")
@pytest.mark.parametrize("length", range(1, 17))
def test_zenoh_id_is_one_byte_longer_than_its_length_says(tester: Tester, node: Node, length: int) -> None:
    asker = asking(tester, node)
    zid = foreign_zid(asker, length)
    introduced = packed(bit_of(node), zid_len=length - 1, introduced=True)
    asker.answered(scout(introduced, zid))
    asker.unanswered(scout(introduced, zid[:-1]))


@req("ZN-SCT-016")
def test_without_i_no_zenoh_id_follows(tester: Tester, node: Node) -> None:
    asker = asking(tester, node)
    asker.answered(scout(packed(bit_of(node))))
    asker.answered(scout(packed(bit_of(node), zid_len=15)))


@req("ZN-BAT-105")
def test_scout_with_a_length_in_front_is_no_scout(tester: Tester, node: Node) -> None:
    asker = asking(tester, node)
    plain = scout(bit_of(node))
    asker.answered(plain)
    asker.unanswered(len(plain).to_bytes(2, "little") + plain)


@req("ZN-BAT-105")
def test_hello_has_no_length_in_front(tester: Tester, node: Node) -> None:
    asker = asking(tester, node)
    first = asker.datagram(asker.hello)[0] & 0x1F
    check(first == ScoutingId.HELLO, "the header of HELLO in front", "something else")
