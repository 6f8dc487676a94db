"""What a node says on a tour through the protocol, judged by the rules that look at every test.

The tour is made once; each requirement has a verdict of its own over what was seen on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from conformance.errors import HarnessError, NotApplicable, SessionError, Unmet
from conformance.expect import check
from conformance.nodes import Node
from conformance.nodes.child import private_scouting
from conformance.observe import History
from conformance.passive import CHECKERS, Remark, look
from conformance.plugin import req, transports
from conformance.suite.common import a_group, leave, undropped
from conformance.tester import Tester
from scapy_layers.codes import InterestMode, Priority, QueryTarget, WhatAmI
from scapy_layers.data import Del, Err, Put, Query, Reply
from scapy_layers.declarations import DeclareToken, UndeclareToken
from scapy_layers.extensions import (
    Budget,
    NodeId,
    PutAttachment,
    QoS,
    QueryBody,
    ResponderId,
    SourceInfo,
    Target,
    Timeout,
    Timestamp,
)
from scapy_layers.network import Declare, Interest, NetworkOam, Push, Request, Response, ResponseFinal
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Close, Fragment, Init, Join, KeepAlive

RARE = frozenset(
    {
        "ZN-INIT-036",  # authentication is off
        "ZN-INIT-037",  # multilink is off
        "ZN-OAM-004",  # no node has a reason to send OAM outside FRAME
        "ZN-OPEN-020",  # authentication is off
        "ZN-OPEN-021",  # multilink is off
        "ZN-OPEN-024",  # hints are for regions
        "ZN-OPEN-022",  # low latency is off
        "ZN-OPEN-023",  # compression is off
        "ZN-INIT-038",  # low latency is off
        "ZN-INIT-039",  # compression is off
    }
)
"""What a tour does not show; the runs as a whole may."""

STAMP = {"timestamp": 0x65_00_00_00_80_00_00_00, "timestamp_id": b"\x0a\x0b"}

SMALL = 512
"""A batch size that makes the node send fragments."""

LEASE_MS = 1000
"""Of the node that is launched for the tour."""


@dataclass
class Tour:
    """What was seen on a tour.

    Attributes:
        tester: Makes it.
        node: Is toured.
        launched: Launches another one.
        base: Key of the tour.
        missed: Stops that the node did not go along with, and why.
    """

    tester: Tester
    node: Node
    launched: Callable[..., Node]
    base: str
    missed: dict[str, str]

    def at(self, key: str) -> str:
        """Returns a full key."""
        return f"{self.base}/{key}"

    def take(self) -> History:
        """Makes the tour; a stop at which the node does something unforeseen is left for the next.

        Raises:
            Unmet: The node does not even open a session.
        """
        self.tester.session().fence()
        for stop in (refusals, declarations, publications, fragments, priorities, queries, hops, elsewhere):
            try:
                stop(self)
            except (Unmet, HarnessError, SessionError, NotApplicable) as error:
                self.missed[stop.__name__] = str(error)
                self.tester.note(f"tour: {stop.__name__}: {error}")
        return self.tester.history


def refusals(tour: Tour) -> None:
    """CLOSE."""
    link = tour.tester.link()
    link.send(tour.tester.init(version=8))
    link.expect(Close)
    link = tour.tester.link()
    link.send(tour.tester.init(fsn=0, rid=0, batch_size=SMALL, S=1))
    link.expect(Init, A=1)


def declarations(tour: Tour) -> None:
    """DECLARE of every kind."""
    asks, declares = tour.tester.session(), tour.tester.session()
    kinds = {"subscribers": 1, "queryables": 1, "tokens": 1}
    key = {"restricted": 1, "key_suffix": tour.at("**")}
    asks.post(Interest(interest_id=asks.next_id(), mode=InterestMode.CURRENT_FUTURE, **kinds, **key))
    declares.declare_subscriber(tour.at("sub/*"))
    declares.declare_queryable(tour.at("query"), complete=True, distance=1)
    token = declares.next_id()
    declares.post(Declare(body=DeclareToken(entity_id=token, key_suffix=tour.at("token"))))
    declares.fence()
    declares.post(Declare(body=UndeclareToken(entity_id=token)))
    declares.fence()
    asks.fence()
    leave(declares)
    asks.fence()


def publications(tour: Tour) -> None:
    """PUSH with all that may stand on it."""
    sub, pub = tour.tester.session(patch=1), tour.tester.session(patch=1)
    sub.declare_subscriber(tour.at("**"))
    chain = [QoS(D=1, E=1), Timestamp(**STAMP), NodeId(node_id=0)]
    inside = [SourceInfo(zid=b"\x11\x22", eid=9, source_sn=300), PutAttachment(attachment=b"attached")]
    pub.post(Push(key_suffix=tour.at("bare"), body=Put(data=b"1")))
    put = Put(data=b"2", encoding=10, schema=b"s", extensions=inside, **STAMP)
    pub.post(Push(key_suffix=tour.at("full"), extensions=chain, body=put))
    pub.post(undropped(key_suffix=tour.at("gone"), body=Del()))
    sub.until(Push, key=tour.at("gone"))


def fragments(tour: Tour) -> None:
    """FRAGMENTs with and without patch 1, then FRAMEs."""
    pub = tour.tester.session()
    for patch in (0, 1):
        sub = tour.tester.session(batch_size=SMALL, patch=patch)
        sub.declare_subscriber(tour.at(f"{patch}/**"))
        for size in (1, 10 * SMALL, 1, 1):
            pub.put(tour.at(f"{patch}/a"), bytes(size))
        pub.put(tour.at(f"{patch}/last"))
        sub.until(Push, key=tour.at(f"{patch}/last"))
        check(sub.last(Fragment), "FRAGMENTs", "none")
        sub.fence()


def priorities(tour: Tour) -> None:
    """A PUSH of every priority on the lane of that priority, in fragments."""
    offer = {"qos": True, "patch": 1}
    sub, pub = tour.tester.session(batch_size=SMALL, **offer), tour.tester.session(**offer)
    if not (sub.session.agreed.qos and pub.session.agreed.qos):
        raise NotApplicable("the node has no QoS lanes")
    sub.declare_subscriber(tour.at("priority/*"))
    for priority in Priority:
        value = Put(data=bytes(2 * SMALL * (priority % 2)))
        chain = [QoS(D=1, priority=priority)]
        push = undropped(key_suffix=tour.at(f"priority/{priority:d}"), extensions=chain, body=value)
        pub.post(push, priority=int(priority))
        sub.expect(Push)


def queries(tour: Tour) -> None:
    """REQUEST, RESPONSE with REPLY and ERR, RESPONSE_FINAL."""
    asks, answers = tour.tester.session(rid=0), tour.tester.session()
    answers.declare_queryable(tour.at("queries/**"))
    chain = [
        QoS(D=1),
        Timestamp(**STAMP),
        Target(target=QueryTarget.ALL),
        Budget(budget=5),
        Timeout(timeout=2000),
    ]
    query = Query(consolidation=1, parameters="a=1", extensions=[QueryBody(encoding=10, data=b"body")])
    number = asks.next_id()
    asked = Request(request_id=number, key_suffix=tour.at("queries/a"), extensions=chain, body=query)
    asks.post(asked)
    request = answers.expect(Request)
    who = ResponderId(zid=b"\x11\x22", eid=3)
    said = {"request_id": request.request_id, "key_suffix": tour.at("queries/a")}
    for body in (Reply(body=Put(data=b"1")), Reply(consolidation=1, body=Del()), Err(data=b"no")):
        answers.post(Response(**said, extensions=[who.copy()], body=body))
    answers.post(ResponseFinal(request_id=request.request_id))
    asks.until(ResponseFinal, request_id=number)


def hops(tour: Tour) -> None:
    """What is said to another router: OAM, INTEREST, NodeId."""
    router = tour.tester.session(whatami=WhatAmI.ROUTER)
    router.expect(NetworkOam)
    router.declare_subscriber(tour.at("hop/*"))
    pub = tour.tester.session()
    pub.put(tour.at("hop/a"))
    pub.fence()
    router.fence()


def elsewhere(tour: Tour) -> None:
    """A peer that connects to us, joins a group, scouts and answers."""
    listener = tour.tester.listen()
    group, scouting = a_group(), private_scouting()
    ear = tour.tester.group(group, join=False)
    where = f"udp/{scouting['scouting/multicast/address']}#iface=lo"
    responder, scout = tour.tester.responder(where), tour.tester.scout(where)
    tour.launched(
        **{path.replace("/", "__"): value for path, value in scouting.items()},
        mode="peer",
        scouting__multicast__autoconnect={"peer": ["router", "peer"]},
        listen__endpoints=["tcp/127.0.0.1:0", group],
        connect__endpoints=[str(listener.locator)],
        transport__link__tx__lease=LEASE_MS,
    )
    patience = 5 * tour.tester.reply
    link = listener.accept(within=patience, whatami=WhatAmI.ROUTER)
    link.serve()
    ear.expect(Join, within=patience)
    link.expect(KeepAlive, within=LEASE_MS / 1000)
    responder.wait(lambda: responder.last(Scout) is not None, tour.tester.reply)
    scout.scout()
    scout.expect(Hello)


@dataclass
class Seen:
    """What a tour showed.

    Attributes:
        history: All of it.
        remarks: By requirement.
        missed: See Tour.
    """

    history: History
    remarks: dict[str, Remark]
    missed: dict[str, str]


# Not of the module: in another order of tests it would be made anew for each.
@pytest.fixture(scope="session")
def shown() -> list[Seen]:
    """The tour, once it was made."""
    return []


@transports("tcp")
@pytest.mark.parametrize(
    "requirement", [pytest.param(name, marks=req(name)) for name in sorted(CHECKERS.keys() - RARE)]
)
def test_what_is_seen_on_a_tour_keeps_to(
    tester: Tester, node: Node, launched: Callable[..., Node], shown: list[Seen], requirement: str
) -> None:
    if not shown:
        tour = Tour(tester, node, launched, f"harness/{tester.word()}", {})
        history = tour.take()
        shown.append(Seen(history, {one.requirement: one for one in look(history)}, tour.missed))
    remark = shown[0].remarks.get(requirement)
    if remark is None:
        # Why is in the capture; here it would differ from run to run.
        missed = ", ".join(shown[0].missed)
        ended = f"; stops that it did not go along with: {missed}" if missed else ""
        raise NotApplicable(f"the node said nothing on the tour that this is about{ended}")
    if remark.broken:
        # The capture of this test shall show what broke it.
        tester.history = shown[0].history
        raise Unmet(remark.expected, remark.seen, shown[0].history.observations[remark.at].describe())
