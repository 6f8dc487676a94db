"""Networks: two nodes of the kind under test, and what passes between them; nodes that are peers."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from conformance.config import Locator
from conformance.errors import NotApplicable, Unmet
from conformance.expect import check
from conformance.plugin import req, transports
from conformance.router.linkstates import Record, write
from conformance.suite.common import DECLARATIONS, Inquiry, Watcher, declare, describe, listed, watcher
from conformance.tester import SessionEnd, Tester
from scapy_layers.codes import QueryTarget, WhatAmI
from scapy_layers.data import Put, Reply
from scapy_layers.extensions import Target
from scapy_layers.message import Extension, Message
from scapy_layers.network import Declare, Push, Request, Response, ResponseFinal

pytestmark = transports("tcp")

NODE_ID = 0x3
"""Number of the NodeId extension."""

LINKED = 4
"""T1s within which two nodes have to have made their link, and to know the ways over it."""

AGAIN_SECONDS = 0.05
"""Between two attempts at something that two nodes will pass on once they know the way."""

Second = Callable[..., Tester]
"""Starts another node of the kind under test, and returns a tester of it."""


def second_router(tester: Tester, tester_of: Second) -> Locator:
    """Starts a router that connects to the node, and returns where it is; nobody waits for their link."""
    shown = {}
    if tester.user is not None:
        said = {"user": tester.user.user, "password": tester.user.password}
        shown = {f"transport__auth__usrpwd__{name}": word.decode() for name, word in said.items()}
    return tester_of(mode="router", connect__endpoints=[str(tester.locator)], **shown).locator


def told(tester: Tester, watcher: Watcher, *wanted: str) -> None:
    """Waits until a session was told all of this: the node may have to be connected with another one first."""
    missing = set(wanted)
    while missing:
        said: list[str] = []

        def hit(body: Message, said: list[str] = said) -> bool:
            said.append(watcher.words(Declare(body=body)))
            return said[-1] in missing

        hit.__doc__ = listed(sorted(missing))
        watcher.end.until(Declare, within=LINKED * tester.reply, body=hit)
        missing.discard(said[-1])


def again(tester: Tester, stimulus: Callable[[], object], effect: Callable[[], bool], words: str) -> None:
    """Repeats a stimulus until it has its effect: two nodes come to know the ways over their link bit by bit.

    Raises:
        Unmet: It never has.
    """
    deadline = time.monotonic() + LINKED * tester.reply
    while not effect():
        if time.monotonic() > deadline:
            raise Unmet(words, "nothing")
        stimulus()
        tester.links.wait(effect, AGAIN_SECONDS)


# Two routers ----------------------------------------------------------------------------------------------


@req("ZN-RTE-004")
def test_router_passes_declarations_on_to_a_router(tester: Tester, tester_of: Second) -> None:
    near = watcher(tester)
    near.ask()
    near.expect("D_FINAL")
    holder = tester.session(locator=second_router(tester, tester_of))
    for kind in DECLARATIONS:
        declare(holder, kind, near.at(kind))
    told(tester, near, *(f"{cls.shape().name} {kind}" for kind, (cls, _) in DECLARATIONS.items()))
    publisher, key = tester.session(), near.at("subscribers")
    again(
        tester, lambda: publisher.put(key), lambda: holder.last(Push) is not None, "PUSH at the other router"
    )
    check(holder.key(holder.last(Push)) == key, "PUSH of the key declared", "of another key")


@req("ZN-RTE-018", "ZN-RTE-020")
@pytest.mark.parametrize("routers", [1, 2])
def test_replies_come_back_over_all_routers(tester: Tester, tester_of: Second, routers: int) -> None:
    near = watcher(tester)
    near.ask(queryables=1)
    near.snapshot()
    where = second_router(tester, tester_of) if routers == 2 else tester.locator
    answerers = [tester.session(locator=where) for _ in range(2)]
    both = Inquiry(tester, near.end, answerers, near.base)
    for number, end in enumerate(answerers):
        end.declare_queryable(both.at(f"{number}/**"))
    told(tester, near, "D_QUERYABLE 0/**", "D_QUERYABLE 1/**")
    to_all = [Target(target=QueryTarget.ALL)]
    again(
        tester,
        lambda: both.ask("*/control", extensions=to_all),
        lambda: all(end.last(Request) is not None for end in answerers),
        "REQUEST at the other router",
    )

    def question(key: str) -> bool:
        """*/a"""
        return key == both.at("*/a")

    asked = both.ask("*/a", request_id=300, extensions=to_all)
    for number, end in enumerate(answerers):
        end.until(Request, key=question)
        request = end.last(Request)
        said = {"request_id": request.request_id, "key_suffix": both.at(f"{number}/a")}
        end.post(Response(**said, body=Reply(body=Put(data=b"1"))))
        both.finish(request, end)
    seen = sorted(describe(near.end, answer, near.base) for answer in both.answers(asked))
    check(seen == ["PUT 0/a=1", "PUT 1/a=1"], "PUT 0/a=1, PUT 1/a=1", listed(seen))
    # Routers in between may fold the RESPONSE_FINALs into one: how many there are is told, not judged.
    near.end.fence()
    finals = [one.message for one in near.end.inbox if isinstance(one.message, ResponseFinal)]
    count = sum(final.request_id == asked for final in finals)
    tester.history.annotate(f"{count} RESPONSE_FINAL for 2 queryables")


def joined_as_router(tester: Tester) -> SessionEnd:
    """Opens a session as a router that takes part in the network: it says that it has a link with the node.

    Raises:
        NotApplicable: The node is no router.
    """
    end = tester.session(whatami=WhatAmI.ROUTER)
    node = end.session.peer
    if node is None or node.whatami != WhatAmI.ROUTER:
        raise NotApplicable("only routers have a network of routers")
    own = Record(psid=0, sn=1, zid=end.session.config.zid, whatami=WhatAmI.ROUTER, links=(1,))
    end.post(write([own, Record(psid=1, sn=0, zid=node.zid, whatami=WhatAmI.ROUTER, links=())]))
    return end


@req("ZN-RTE-010")
def test_forwarder_is_named_in_a_mandatory_z64(tester: Tester, tester_of: Second) -> None:
    ours = Watcher(joined_as_router(tester), f"harness/{tester.word()}")
    far = Watcher(tester.session(locator=second_router(tester, tester_of)), ours.base)
    declare(far.end, "subscribers", ours.at("far"))
    told(tester, ours, "D_SUBSCRIBER far")
    far.ask()
    declare(ours.end, "subscribers", ours.at("ours"))
    told(tester, far, "D_SUBSCRIBER ours")
    key = ours.at("ours")
    again(tester, lambda: far.end.put(key), lambda: ours.end.last(Push) is not None, "PUSH at our router")
    # What comes from a router behind the node names it; what the node itself begins may leave that out.
    names = [
        ext
        for seen in ours.end.inbox
        if isinstance(seen.message, Declare | Push)
        for ext in seen.message.extensions or []
        if ext.ext_id == NODE_ID
    ]
    if not names:
        raise NotApplicable("the node names no forwarder")
    wrong = {words(ext) for ext in names} - {"mandatory Z64"}
    check(not wrong, "NodeId as mandatory Z64", listed(sorted(wrong)))


def words(extension: Extension) -> str:
    """Returns M and encoding of an extension in words."""
    encodings = ("Unit", "Z64", "ZBuf", "reserved")
    return f"{'mandatory' if extension.M else 'optional'} {encodings[extension.ENC]}"


# Peers ------------------------------------------------------------------------------------------------------


@req("ZN-RTE-008")
@pytest.mark.parametrize("role", [WhatAmI.PEER, WhatAmI.CLIENT], ids=["peer", "client"])
def test_peer_passes_declarations_on_except_to_their_source(tester_of: Second, role: WhatAmI) -> None:
    tester = tester_of(mode="peer")
    source = Watcher(tester.session(whatami=role), f"harness/{tester.word()}")
    other = Watcher(tester.session(whatami=role), source.base)
    for each in (source, other):
        each.ask()
        each.snapshot()
    source.expect(fence=lambda: declare(source.end, "subscribers", source.at("a")))
    other.until("D_SUBSCRIBER a")
    source.expect()
