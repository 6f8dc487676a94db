"""HELLO: its shape, and whether what it says is true."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conformance.config import Locator, RunConfig
from conformance.errors import LinkFailed, NotApplicable, UsageError
from conformance.expect import check
from conformance.nodes import Node
from conformance.plugin import req, slow, transports
from conformance.suite.common import listed
from conformance.suite.scouting import Asker, Kept, asking, bitmap, client, hearing_of, started, zid_in
from conformance.tester import Tester
from scapy_layers.codes import ScoutingId, WhatAmI
from scapy_layers.primitives import zid_to_text
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Init

pytestmark = transports("tcp")

FLAG_Z, UNUSED, FLAG_L = 0x80, 0x40, 0x20
"""Bits of the header."""

LISTENING_SECONDS = 3.0
"""How long we wait for a HELLO that nobody asked for."""

LOCATOR = re.compile(r"[a-z][a-z0-9_-]*/(?!/)?[^?#]+(\?[^?#]+)?")
"""A protocol, an address, and perhaps metadata. The address of a Unix socket is a path."""

IPV4 = re.compile(r"\d{1,3}(\.\d{1,3}){3}:\d{1,5}")
IPV6 = re.compile(r"\[[0-9a-fA-F:.]+(%[^\]]+)?\]:\d{1,5}")
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?:\d{1,5}")

METADATA = re.compile(r"[^=;?#]+=[^=;?#]+(;[^=;?#]+=[^=;?#]+)*")


PEER: dict[str, Any] = {
    "mode": "peer",
    "id": "8070605040302010",
    "listen/endpoints": ["tcp/127.0.0.1:0?prio=0-7;rel=1"],
}
"""A peer with a ZenohID of eight bytes, and with metadata in its locator."""


@pytest.fixture(scope="module")
def kept() -> Iterator[Kept]:
    """Variants of the node that tests share."""
    with Kept() as made:
        yield made


def strings(raw: bytes) -> tuple[list[bytes], bytes]:
    """Reads a counted list of strings by hand; returns them, and what stands behind the list.

    Raises:
        ValueError: The bytes end before the list does.
    """
    count, at = number(raw, 0)
    found = []
    for _ in range(count):
        length, at = number(raw, at)
        if at + length > len(raw):
            raise ValueError("the bytes end inside a string")
        found.append(raw[at : at + length])
        at += length
    return found, raw[at:]


def number(raw: bytes, at: int) -> tuple[int, int]:
    """Reads an integer of seven bits a byte; returns it and where it ends.

    Raises:
        ValueError: The bytes end before.
    """
    value = shift = 0
    while at < len(raw):
        value |= (raw[at] & 0x7F) << shift
        if raw[at] < 0x80:
            return value, at + 1
        shift, at = shift + 7, at + 1
    raise ValueError("the bytes end inside a number")


def datagram(asker: Asker) -> bytes:
    """Returns the whole datagram that the first HELLO came in."""
    return asker.datagram(asker.hello)


def advertised(hello: Hello, proto: str = "") -> list[str]:
    """Returns the locators of a HELLO, all or those of a protocol.

    Raises:
        NotApplicable: It lists none, or cannot be read, which other tests judge.
    """
    if hello.errors:
        raise NotApplicable("HELLO cannot be read")
    found = [text for text in map(str, hello.locators or []) if text.startswith(proto and f"{proto}/")]
    if not found:
        raise NotApplicable(" ".join(filter(None, ("HELLO lists no", proto, "locators"))))
    return found


# Header and packed byte ---------------------------------------------------------------------------------


@req("ZN-HLO-005")
def test_header_is_the_id_with_two_flags(tester: Tester, node: Node) -> None:
    asker = asking(tester, node)
    header = datagram(asker)[0]
    check(header & 0x1F == ScoutingId.HELLO, "id 2", "another id")
    check(not header & UNUSED, "bit 6 clear", "bit 6 set")


@req("ZN-HLO-006")
@pytest.mark.parametrize("introduced", [False, True], ids=["to a stranger", "to whom says who it is"])
def test_order_of_fields(tester: Tester, node: Node, introduced: bool) -> None:
    asker = asking(tester, node)
    scout = Scout(I=1, zid=tester.fresh_zid()) if introduced else Scout()
    hello = asker.answered(scout)
    check(zid_in(hello) == asker.zid, "the ZenohID behind the packed byte", "something else there")
    whole = not hello.errors and hello.original == asker.datagram(hello)
    check(whole, "a HELLO that fills its datagram", "a HELLO that cannot be read to its end")


@req("ZN-HLO-007")
@pytest.mark.parametrize("length", [1, 8, 16])
def test_length_of_the_zenoh_id(tester: Tester, node: Node, kept: Kept, length: int) -> None:
    zid = PEER["id"] if length == 8 else zid_to_text(bytes(range(1, 1 + length)))
    same = (len(node.zid) + 1) // 2 == length
    variant = node if same else kept.variant(node, **{**PEER, "id": zid})
    said = 1 + (datagram(asking(tester, variant))[2] >> 4)
    check(said == length, f"a length of {length}", f"a length of {said}")


@req("ZN-HLO-008")
def test_reserved_bits_of_the_packed_byte_are_zero(tester: Tester, node: Node) -> None:
    asker = asking(tester, node)
    reserved = datagram(asker)[2] >> 2 & 0b11
    check(not reserved, "bits 3:2 = 00", f"bits 3:2 = {reserved:02b}")


@req("ZN-HLO-009")
@pytest.mark.parametrize("mode", ["router", "peer", "client"])
def test_role_codes(tester: Tester, node: Node, kept: Kept, launched: Callable[..., Node], mode: str) -> None:
    if mode == "client":
        variant = client(tester, launched)
    else:
        variant = node if node.whatami == mode else kept.variant(node, **{**PEER, "mode": mode})
    code = role_in(asking(tester, variant).hello)
    check(code == WhatAmI[mode.upper()], f"{WhatAmI[mode.upper()]:02b}", f"{code:02b}")


@req("ZN-HLO-010")
def test_version_is_9(tester: Tester, node: Node) -> None:
    asker = asking(tester, node)
    version = datagram(asker)[1]
    check(version == 0x09, "version 0x09", f"version {version:#04x}")


@req("ZN-HLO-018")
def test_nothing_but_extensions_stands_behind_the_last_field(tester: Tester, node: Node) -> None:
    asker = asking(tester, node)
    left = datagram(asker).removeprefix(asker.hello.original)
    check(not left, "nothing behind the last field", "stray bytes")
    chain = bool(asker.hello.extensions)
    check(chain == bool(asker.hello.original[0] & FLAG_Z), "a chain of extensions if Z says so", "the other")


# What it says is true -------------------------------------------------------------------------------------


@req("ZN-HLO-011")
def test_zenoh_id_is_the_one_of_init(tester: Tester, node: Node) -> None:
    asker = asking(tester, node)
    link = tester.link()
    link.send(tester.init())
    shown = link.expect(Init, A=1).zid
    check(asker.zid == shown, "the ZenohID of InitAck", "another one")
    check(zid_in(asker.answered(Scout())) == shown, "the ZenohID of InitAck", "another one the next time")


@req("ZN-HLO-011")
def test_another_node_has_another_zenoh_id(tester: Tester, node: Node, kept: Kept) -> None:
    other = asking(tester, kept.variant(node, **PEER))
    check(other.zid != asking(tester, node).zid, "two ZenohIDs", "one")


@req("ZN-HLO-016")
def test_sessions_can_be_opened_at_every_locator(tester: Tester, node: Node) -> None:
    found = advertised(asking(tester, node).hello, "tcp")
    check(not takes_links(tester, closed_port()), "a refusal at a closed port", "a link")
    for locator in found:
        check(takes_links(tester, locator), "a node at the locator", "nobody at the locator", locator)


def takes_links(tester: Tester, locator: str) -> bool:
    """Tells whether a node sends InitAck at a locator."""
    try:
        link = tester.link(Locator.parse(locator))
    except (LinkFailed, UsageError):
        return False
    link.send(tester.init())
    link.expect(Init, A=1)
    return True


def closed_port() -> str:
    """Returns a locator where nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"tcp/127.0.0.1:{held.getsockname()[1]}"


@req("ZN-HLO-017")
@pytest.mark.parametrize("others", ["neither", "one", "another", "both"])
def test_role_is_one_that_was_asked_for(tester: Tester, node: Node, others: str) -> None:
    asker = asking(tester, node)
    for asked in (True, False):
        what = bitmap(node, others, asked=asked)
        for hello in asker.answers(Scout(what=what)):
            check(what >> role_in(hello) & 1, "a role that was asked for", "another role")


def role_in(hello: Hello) -> int:
    """Returns the role in a HELLO, cut out by hand.

    Raises:
        Unmet: The HELLO is too short for it.
    """
    zid_in(hello)
    return int(hello.original[2] & 0b11)


# Locators ----------------------------------------------------------------------------------------------


@req("ZN-HLO-012")
def test_locators_are_counted_and_each_has_its_length(tester: Tester, node: Node) -> None:
    asker = asking(tester, node)
    if not datagram(asker)[0] & FLAG_L:
        raise NotApplicable("HELLO lists no locators")
    try:
        found, _ = strings(datagram(asker)[3 + len(asker.zid) :])
        texts = listed([text.decode() for text in found])
    except (ValueError, UnicodeError):
        texts = "a list that cannot be read"
    # The layer reads them a second time.
    again = listed(list(map(str, asker.hello.locators or [])))
    check(texts == again, "as many strings as are counted", "a list that cannot be read", texts)


@req("ZN-HLO-013")
def test_locators_are_protocol_and_address(tester: Tester, node: Node) -> None:
    for locator in advertised(asking(tester, node).hello):
        check(LOCATOR.fullmatch(locator), "proto/address?metadata", "another form", locator)


@req("ZN-HLO-014")
def test_addresses_are_ipv4_or_ipv6_in_brackets_or_names(tester: Tester, node: Node) -> None:
    if not has_ipv6():
        raise NotApplicable("this machine has no ::1")
    with started(node, listen__endpoints=["tcp/127.0.0.1:0", "tcp/[::1]:0"]) as variant:
        found = advertised(asking(tester, variant).hello, "tcp")
    forms = sorted({form(locator) for locator in found})
    check(forms == ["IPv4", "IPv6"], "IPv4, IPv6", listed(forms), listed(found))


def has_ipv6() -> bool:
    """Tells whether somebody can listen at ::1."""
    try:
        with socket.socket(socket.AF_INET6) as held:
            held.bind(("::1", 0))
    except OSError:
        return False
    return True


def form(locator: str) -> str:
    """Returns which kind of address a tcp locator has."""
    address = locator.removeprefix("tcp/").partition("?")[0]
    known = {"IPv4": IPV4, "IPv6": IPV6, "a name": NAME}
    return next((name for name, pattern in known.items() if pattern.fullmatch(address)), "something else")


@req("ZN-HLO-015")
def test_metadata_are_pairs_parted_by_semicolons(tester: Tester, node: Node, kept: Kept) -> None:
    found = advertised(asking(tester, kept.variant(node, **PEER)).hello, "tcp")
    texts = [locator.partition("?")[2] for locator in found]
    check(all(texts), "metadata behind ?", "no metadata")
    check(all(map(METADATA.fullmatch, texts)), "key=value;key=value", "another form", listed(texts))
    pairs = sorted({pair for text in texts for pair in text.split(";")})
    check(pairs == ["prio=0-7", "rel=1"], "prio=0-7, rel=1", listed(pairs))
    plain = advertised(asking(tester, node).hello)
    check(not any("?" in locator for locator in plain), "no metadata unless there are some", "a ?")


# Unasked -------------------------------------------------------------------------------------------------


@req("ZN-HLO-003")
@slow
def test_hello_that_nobody_asked_for(tester: Tester, node: Node, run_config: RunConfig) -> None:
    member = tester.responder(hearing_of(node))
    if not member.wait(lambda: member.last(Hello) is not None, LISTENING_SECONDS * run_config.time_scale):
        raise NotApplicable(f"no HELLO came unasked within {LISTENING_SECONDS:g} s")
    hello = member.expect(Hello)
    check(not hello.errors, "a HELLO that can be read", "one that cannot")
    check(hello.version == 0x09, "version 0x09", f"version {hello.version:#04x}")
