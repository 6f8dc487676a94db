"""JOIN and the transport of a multicast group: members speak to all, without a handshake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from conformance.expect import check
from conformance.nodes import Node
from conformance.plugin import req, slow, transports
from conformance.running.outcome import shows_harm
from conformance.running.run import nodes_key
from conformance.suite.common import a_group, describe, listed, undropped
from conformance.tester import GroupEnd, SessionEnd, Tester
from conformance.tester.bends import changed, dropped
from scapy_layers.codes import Priority
from scapy_layers.extensions import JoinLanes, Patch
from scapy_layers.message import Message
from scapy_layers.network import Push
from scapy_layers.primitives import zid_to_text
from scapy_layers.transport import Close, Frame, Init, Join, KeepAlive, Open, TransportOam

pytestmark = transports("tcp")

LEASE_MS = 1000
"""Of the node: JOIN comes four times as often."""

MEMBER_LEASE = 0.8
"""Seconds; of a member that falls silent."""

SIZES = ("fsn", "rid", "batch_size")


def config(where: str, lease_ms: int = LEASE_MS, **more: Any) -> dict[str, Any]:
    """Returns the configuration of a peer in a group, at which a session of ours can subscribe too."""
    return {
        "mode": "peer",
        "listen__endpoints": ["tcp/127.0.0.1:0", where],
        "transport__link__tx__lease": lease_ms,
        "transport__multicast__qos__enabled": True,
        # A quarter of the lease, for nodes that do not derive it.
        "transport__multicast__join_interval": lease_ms // 4,
        **more,
    }


@dataclass
class Company:
    """A group with the node in it.

    Attributes:
        tester: Makes our ends.
        node: In the group.
        where: The group.
        ear: Hears the group, and is no member.
        base: Key of this test.
    """

    tester: Tester
    node: Node
    where: str
    ear: GroupEnd
    base: str
    _joined: Join | None = None
    _heard: list[SessionEnd] = field(default_factory=list)
    _guides: list[GroupEnd] = field(default_factory=list)

    def join(self) -> Join:
        """Returns the next JOIN of the node."""
        self.ear.until(Join, within=self.patience, zid=self.of_the_node)
        said: Join = self.ear.inbox[self.ear.position() - 1].message
        return said

    def of_the_node(self, zid: bytes) -> bool:
        """the ZenohID of the node"""
        return zid_to_text(bytes(zid)) == self.node.zid

    @property
    def patience(self) -> float:
        """Seconds in which a JOIN has to come."""
        return LEASE_MS / 1000 + self.tester.reply

    def offer(self) -> dict[str, Any]:
        """Returns what a JOIN has to announce to be taken by the node: the same as its own."""
        said = self._joined = self._joined or self.join()
        chain = said.extensions or []
        sizes = {name: getattr(said, name) for name in SIZES} if said.S else {}
        patch = next((int(one.patch) for one in chain if isinstance(one, Patch)), 0)
        return {"qos": any(isinstance(one, JoinLanes) for one in chain), "patch": patch, **sizes}

    def member(self, **more: Any) -> GroupEnd:
        """Makes an end that announces what the node announces; it joins at once unless ``join`` is False.

        The subscriber is there before it.
        """
        assert self.sub.closed is None
        return self.tester.group(self.where, **{**self.offer(), **more})

    @property
    def sub(self) -> SessionEnd:
        """A session with the node that subscribes to everything below the base."""
        if not self._heard:
            end = self.tester.session(locator=self.node.locator)
            end.declare_subscriber(f"{self.base}/**")
            self._heard.append(end)
        return self._heard[0]

    def at(self, key: str) -> str:
        """Returns a full key."""
        return f"{self.base}/{key}"

    def push(self, key: str) -> Push:
        """Returns a PUSH that is not sent yet."""
        return undropped(key_suffix=self.at(key))

    def expect(self, *wanted: str) -> None:
        """Judges what the subscriber got from the group, in words, before a control value of a member."""
        if not self._guides:
            self._guides.append(self.member())
        control = self.at(f"control/{self.tester.word()}")
        self._guides[0].put(control)
        came = self.sub.until(Push, key=control)
        pushes = [message for message in came if isinstance(message, Push)]
        words = [describe(self.sub, push, self.base) for push in pushes]
        values = [word for word in words if not word.startswith("PUT control")]
        check(values == list(wanted), listed(wanted), listed(values))


@dataclass
class Kept:
    """A node in a group, for the tests of this file.

    Attributes:
        node: It, once a test needed it.
        where: The group.
        stack: Ends it.
        suspect: The last test found a fault, which need not be found in all that come behind it.
    """

    where: str
    stack: ExitStack
    node: Node | None = None
    suspect: bool = False


# Not of the module: in another order of tests it would be started anew for each.
@pytest.fixture(scope="session")
def kept() -> Iterator[Kept]:
    """One node for all tests of this file."""
    with ExitStack() as stack:
        yield Kept(a_group(), stack)


@pytest.fixture
def company(request: pytest.FixtureRequest, node: Node, tester: Tester, kept: Kept) -> Iterator[Company]:
    """A group with the node in it, which is n/a when the node was not started by us."""
    if kept.node is None:
        kept.node = node.variant(**config(kept.where))
        kept.stack.callback(kept.node.stop)
        kept.node.start()
    elif kept.suspect or kept.node.death():
        kept.node.restart()
    request.node.stash.setdefault(nodes_key, []).append(kept.node)
    yield accompany(tester, kept.node, kept.where)
    kept.suspect = shows_harm(request.node)


def accompany(tester: Tester, node: Node, where: str) -> Company:
    """Returns a group with a node in it."""
    base = f"harness/{tester.word()}"
    return Company(tester, node, where, tester.group(where, join=False), base)


# What the node says ------------------------------------------------------------------------------------


@req("ZN-JOIN-001", "ZN-JOIN-002", "ZN-JOIN-004")
def test_join_of_the_node_is_laid_out_as_the_page_has_it(company: Company) -> None:
    join = company.join()
    raw: bytes = join.original
    check(raw[0] & 0x1F == 0x07, "id 0x07", f"{raw[0] & 0x1F:#04x}")
    check(raw[1] == 0x09, "version 0x09", f"{raw[1]:#04x}")
    check(not join.errors, "a JOIN that decodes", "one that does not", str(join.errors))
    seen = company.tester.history.observations[company.ear.inbox[company.ear.position() - 1].at]
    check(not seen.contents.error and not seen.contents.rest, "a datagram to its end", "bytes that are none")
    for bit, flag in ((0x20, join.T), (0x40, join.S), (0x80, join.Z)):
        check(bool(raw[0] & bit) == bool(flag), "T bit 5, S bit 6, Z bit 7", "another place")
    # Wrongly read flags or a field at another place would give another lease.
    check(join.lease == (LEASE_MS // 1000 if join.T else LEASE_MS), "the configured lease", "another")


@req("ZN-JOIN-003")
def test_join_names_the_node_as_init_does(company: Company) -> None:
    join = company.join()
    _, ack = greet_at(company)
    check(not join.original[2] & 0x0C, "bits 3:2 of the packed byte zero", "set")
    check(join.original[2] >> 4 == len(ack.zid) - 1, "the length of the ZenohID minus 1", "another")
    check(bytes(join.zid) == bytes(ack.zid), "the ZenohID of InitAck", "another")
    check(join.whatami == ack.whatami, "the role of InitAck", "another")


def greet_at(company: Company) -> tuple[Any, Init]:
    """Sends a correct InitSyn over tcp to the node in the group; returns the link and the InitAck."""
    link = company.tester.link(company.node.locator)
    link.send(company.tester.init())
    return link, link.expect(Init, A=1)


@slow
@req("ZN-JOIN-004")
def test_sizes_of_join_are_there_when_s(tester_of: Callable[..., Tester], tester: Tester) -> None:
    where = a_group()
    theirs = tester_of(**config(where, transport__link__tx__batch_size=2000))
    ear = theirs.group(where, join=False)
    join = ear.expect(Join, within=LEASE_MS / 1000 + tester.reply)
    check(join.S == 1, "S=1 for a batch size that is not the default", "S=0")
    at = 3 + len(join.zid)
    check(not join.original[at] & 0xF0, "bits 7:4 of the resolution zero", "set")
    check(join.batch_size == 2000, "a batch size of 2000, low byte first", "another", str(join.batch_size))
    check(join.lease * (1000 if join.T else 1) == LEASE_MS, "the lease behind them", "another")


@slow
@req("ZN-JOIN-008")
@pytest.mark.parametrize("lease_ms", [2000, 700])
def test_t_tells_the_unit_of_the_lease(
    tester_of: Callable[..., Tester], tester: Tester, lease_ms: int
) -> None:
    where = a_group()
    theirs = tester_of(**config(where, lease_ms))
    join = theirs.group(where, join=False).expect(Join, within=lease_ms / 1000 + tester.reply)
    seconds = join.lease if join.T else join.lease / 1000
    check(seconds == lease_ms / 1000, f"a lease of {lease_ms} ms", "another", f"T={join.T} {join.lease}")


@slow
@req("ZN-JOIN-005")
def test_join_is_repeated_while_the_node_is_in_the_group(node: Node, tester: Tester) -> None:
    where = a_group()
    with node.variant(**config(where)) as theirs:
        company = accompany(tester, theirs, where)
        joins = [company.join() for _ in range(4)]
        stamps = [seen.time_ns for seen in company.ear.inbox if any(seen.message is one for one in joins)]
        seconds = (stamps[-1] - stamps[0]) / 1e9
        check(seconds < 3 * LEASE_MS / 1000, "four JOINs within three leases", "fewer", f"{seconds:.3f} s")
        offer = company.offer()
    # Ours go on as often as those of the node would; what it sent before it stopped comes before the first.
    ours = tester.group(where, lease=LEASE_MS / 1000, **offer).group.config.zid
    company.ear.until(Join, zid=lambda zid: bytes(zid) == ours, within=company.patience)
    came = {bytes(company.ear.expect(Join, within=company.patience).zid) for _ in range(4)}
    check(came == {ours}, "no JOIN of a node that was stopped", "JOIN")


# INIT and OPEN have no place here ----------------------------------------------------------------------


@req("ZN-MSG-006", "ZN-INIT-008", "ZN-OPEN-006")
@pytest.mark.parametrize("joined", [False, True], ids=["stranger", "member"])
def test_init_and_open_are_not_answered_in_a_group(company: Company, joined: bool) -> None:
    greet_at(company)
    end = company.member(join=joined)
    end.send(company.tester.init())
    end.send(Open(cookie=b"cookie", initial_sn=1))
    company.expect()
    ear = company.ear
    answers = [
        seen.message.name
        for seen, source in zip(ear.inbox, ear.sources, strict=True)
        if isinstance(seen.message, Init | Open) and source != end.address
    ]
    check(not answers, "no INIT or OPEN of the node in the group", listed(answers))


# What others say -----------------------------------------------------------------------------------------


@req("ZN-JOIN-006")
def test_messages_are_taken_after_join_and_not_before(company: Company) -> None:
    stranger = company.member(join=False)
    stranger.send(Frame(R=1, sn=1, messages=[company.push("before")]))
    company.expect()
    stranger.join()
    stranger.put(company.at("after"), b"1")
    company.expect("PUT after=1")


def half_a_range_ahead(number: int) -> int:
    """Returns another number of 28 bits, which are those in use at 32 bit."""
    return (number + (1 << 27)) % (1 << 28)


@req("ZN-JOIN-007")
def test_numbers_of_the_lanes_stand_in_for_those_of_the_body(company: Company) -> None:
    end = company.member(join=False)
    check(end.group.config.offer.qos, "a JOIN of the node with the numbers of its lanes", "one without")
    # Half a range ahead: whoever counts from these takes the next numbers for old ones.
    end.bend(changed(Join, next_sn_re=half_a_range_ahead, next_sn_be=half_a_range_ahead))
    end.join()
    for priority in Priority:
        end.post(company.push(f"{priority:d}"), priority=int(priority))
    company.expect(*(f"PUT {priority:d}=1" for priority in Priority))


@req("ZN-MSG-008")
@pytest.mark.parametrize("kind", ["OAM", "KEEP_ALIVE", "FRAME", "FRAGMENT", "CLOSE"])
def test_transport_messages_are_valid_in_a_group(company: Company, kind: str) -> None:
    end = company.member()
    said: dict[str, list[Message]] = {"OAM": [TransportOam(oam_id=77)], "KEEP_ALIVE": [KeepAlive()]}
    for message in said.get(kind, ()):
        end.send(message)
    wanted = ["PUT after=1"]
    if kind == "FRAGMENT":
        end.put(company.at("large"), bytes(20_000))
        wanted = ["PUT large=20000 bytes", *wanted]
    if kind == "CLOSE":
        end.put(company.at("before"), b"1")
        company.expect("PUT before=1")
        end.send(Close(S=1))
        wanted = []
    end.put(company.at("after"), b"1")
    company.expect(*wanted)


@req("ZN-BAT-105")
def test_datagrams_of_a_group_have_no_length_in_front(company: Company) -> None:
    raw: bytes = company.join().original
    check(raw[0] & 0x1F == 0x07, "a datagram that begins with the header of JOIN", "another byte")
    company.member().put(company.at("a"), b"1")
    company.expect("PUT a=1")
    seen = company.tester.history.observations
    came = [one for one in seen if one.link == company.ear.name and one.direction == "received"]
    broken = [one for one in came if one.contents.error or one.contents.rest]
    check(not broken, "datagrams that begin with a header", "others")


@slow
@req("ZN-KA-107")
def test_member_whose_joins_stop_is_gone_after_its_lease(company: Company) -> None:
    silent, alive = company.member(lease=MEMBER_LEASE), company.member(lease=MEMBER_LEASE)
    silent.put(company.at("silent"), b"1")
    alive.put(company.at("alive"), b"1")
    company.expect("PUT silent=1", "PUT alive=1")
    silent.bend(dropped(Join))
    # A node that looks once a lease whether somebody spoke needs up to two of them. Its JOINs are the clock.
    for _ in range(round(2.5 * MEMBER_LEASE * 4000 / LEASE_MS)):
        company.join()
    silent.put(company.at("silent"), b"2")
    alive.put(company.at("alive"), b"2")
    company.expect("PUT alive=2")
