"""CLOSE: ends of sessions and links, and refusals."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformance.config import RunConfig
from conformance.errors import NotApplicable
from conformance.expect import check
from conformance.nodes.base import Node
from conformance.plugin import req
from conformance.suite.common import (
    accept,
    bits,
    declare,
    greet,
    leave,
    listed,
    pair,
    patiently,
    unknown,
    watcher,
)
from conformance.tester import End, Tester
from scapy_layers.codes import CloseReason
from scapy_layers.message import Message
from scapy_layers.network import Push
from scapy_layers.transport import Close, Init, KeepAlive, Open

LEASE = 0.4


def refusals(tester: Tester) -> dict[str, Close]:
    """Provokes refusals of a node during the handshake, and returns those that are a CLOSE.

    Raises:
        NotApplicable: None is; whether they have to be is the matter of ZN-INIT-003 and its like.
    """
    stimuli: dict[str, Message | bytes] = {
        "version": tester.init(version=0x08),
        "role": tester.init(whatami=3),
        "no INIT": KeepAlive(),
        "cut INIT": bytes(tester.init())[:5],
    }
    seen: dict[str, Close] = {}
    for name, stimulus in stimuli.items():
        link = tester.link()
        link.send(stimulus)
        if closes(tester, link):
            seen[name] = link.expect_refusal()
    link, _ = greet(tester)
    link.send(Open(cookie=b"no such cookie"))
    if closes(tester, link):
        seen["cookie"] = link.expect_refusal(unless=Open)
    if not seen:
        raise NotApplicable("the node refuses without CLOSE")
    return seen


def closes(tester: Tester, link: End) -> bool:
    """Tells whether the node says CLOSE."""

    def closed() -> bool:
        return any(isinstance(seen.message, Close) for seen in link.inbox)

    link.wait(lambda: closed() or link.over, tester.reply)
    return closed()


# What the node sends ----------------------------------------------------------------------------------


@req("ZN-CLS-001", "ZN-CLS-002", "ZN-CLS-101")
def test_close_is_a_header_and_one_of_eight_reasons(tester: Tester) -> None:
    for close in refusals(tester).values():
        check(bits(close, 0, 0x5F) == 0x03, "header with id 3, bit 6 clear", f"{bits(close, 0, 0x5F):#04x}")
        check(close.Z or len(close.original) == 2, "two bytes without Z", f"{len(close.original)} bytes")
        check(close.reason in list(CloseReason), "a reason from 0 to 7", f"reason {close.reason}")


@req("ZN-CLS-107")
def test_refusal_before_the_session_says_unsupported_or_invalid(tester: Tester) -> None:
    for why, close in refusals(tester).items():
        met = close.reason in {CloseReason.UNSUPPORTED, CloseReason.INVALID}
        check(met, f"reason 1 or 2 for {why}", f"reason {close.reason}")


@req("ZN-CLS-108")
def test_node_ends_the_connection_after_its_close(tester: Tester) -> None:
    link = tester.link()
    link.send(tester.init(version=0x08))
    if not closes(tester, link):
        raise NotApplicable("the node refuses without CLOSE")
    link.expect_refusal()
    link.expect_end()


@req("ZN-CLS-106")
def test_own_zenoh_id_is_refused_as_connection_to_self(tester: Tester) -> None:
    _, ack = greet(tester)
    link = tester.link()
    link.send(tester.init(zid=ack.zid))
    # The text does not say at which step; so the stimulus goes on as long as the node does.
    link.wait(lambda: bool(link.inbox), tester.reply)
    if link.inbox and isinstance(link.inbox[0].message, Init):
        link.send(Open(cookie=link.inbox[0].message.cookie))
    link.expect_refusal(CloseReason.CONNECTION_TO_SELF, unless=Open)


@req("ZN-CLS-106")
def test_session_beyond_the_limit_is_refused_as_max_sessions(tester_of: Callable[..., Tester]) -> None:
    tester = tester_of(transport__unicast__max_sessions=1)
    first = patiently(tester)
    refused = tester.starting()
    refused.session.connect()
    refused.flush()
    refused.expect_refusal(CloseReason.MAX_SESSIONS, unless=Open)
    leave(first)
    patiently(tester)


@req("ZN-CLS-106")
def test_expired_lease_is_told_as_expired(tester: Tester, run_config: RunConfig) -> None:
    link, _ = accept(tester, lease=round(LEASE * 1000))
    link.expect(Close, within=LEASE + run_config.reply, reason=CloseReason.EXPIRED)


@req("ZN-CLS-006")
def test_node_that_shuts_down_says_close(tester: Tester, node: Node) -> None:
    with node.variant() as leaving:
        end = tester.session(locator=leaving.locator)
        leaving.dismiss()
        # Whether the link ends behind it is a matter of ZN-CLS-108.
        end.expect(Close)
    with node.variant() as dying:
        end = tester.session(locator=dying.locator)
        dying.kill()
        end.expect_end()
        told = [seen for seen in end.inbox if isinstance(seen.message, Close)]
        check(not told, "no CLOSE of a node that is killed", "CLOSE")


# What the node does with ours ----------------------------------------------------------------------------


@req("ZN-CLS-005", "ZN-EXT-102")
@pytest.mark.parametrize("enc", ["", "unit", "z64", "zbuf"])
def test_close_with_an_unknown_extension_ends_the_link(tester: Tester, enc: str) -> None:
    end = tester.session()
    end.fence()
    end.send(Close(extensions=[unknown(enc)] if enc else []))
    end.expect_end()


@req("ZN-CLS-007", "ZN-CLS-102")
def test_node_sends_nothing_after_our_close(tester: Tester) -> None:
    both = pair(tester)
    both.put("before", b"1")
    both.expect("PUT before=1")
    closed = len(both.sub.inbox)
    both.sub.send(Close())
    both.sub.wait(lambda: both.sub.link.ended is not None, tester.reply)
    both.put("after", b"2")
    both.pub.fence()
    sent = [str(seen.message.name) for seen in both.sub.inbox[closed:] if isinstance(seen.message, Push)]
    check(not sent, "nothing after our CLOSE", listed(sent))
    both.sub.expect_end()


@req("ZN-CLS-105")
@pytest.mark.parametrize("reason", [CloseReason.GENERIC, CloseReason.EXPIRED], ids=lambda code: code.name)
def test_close_is_not_answered(tester: Tester, reason: CloseReason) -> None:
    end = tester.session()
    end.fence()
    end.send(Close(reason=reason))
    end.expect_end()
    answers = [seen for seen in end.inbox if isinstance(seen.message, Close)]
    check(not answers, "the end of the link only", "CLOSE")


@req("ZN-CLS-103")
def test_zenoh_id_can_come_back_after_close(tester: Tester) -> None:
    zid = tester.rng.randbytes(15) + b"\x01"
    for _ in range(20):
        # Reading R-58: whoever still tidies up may say no at first.
        end = patiently(tester, zid=zid)
        end.fence()
        leave(end)


@req("ZN-CLS-104")
@pytest.mark.parametrize("goodbye", [True, False], ids=["CLOSE", "end-of-stream"])
def test_only_what_the_lost_session_alone_declared_is_undeclared(tester: Tester, goodbye: bool) -> None:
    told = watcher(tester)
    told.ask()
    first, second = tester.session(), tester.session()
    declare(first, "subscribers", told.at("shared"))
    declare(second, "subscribers", told.at("shared"))
    declare(first, "subscribers", told.at("own"))
    said = told.until("D_SUBSCRIBER own")
    if goodbye:
        first.send(Close())
    else:
        first.close()
    before = told.until("U_SUBSCRIBER own")
    declare(second, "subscribers", told.at("control"))
    before += told.until("D_SUBSCRIBER control")
    # A node may tell of each of the two by an id of its own, and takes one of them back then.
    left = said.count("D_SUBSCRIBER shared") - before.count("U_SUBSCRIBER shared")
    check(left > 0, "U_SUBSCRIBER of its own key only", listed(before))
    second.close()
    told.until("U_SUBSCRIBER shared")


@req("ZN-CLS-109")
def test_close_inside_the_handshake_ends_the_link(tester: Tester) -> None:
    accept(tester)
    link, _ = greet(tester)
    link.send(Close())
    link.expect_end()
    opened = [seen for seen in link.inbox if isinstance(seen.message, Open)]
    check(not opened, "no OpenAck after our CLOSE", "OPEN")
