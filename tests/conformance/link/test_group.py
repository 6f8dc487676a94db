"""Datagrams: scouting and groups, on the loopback interface only."""

from __future__ import annotations

import socket

import pytest

from conformance.config import Locator
from conformance.errors import LinkFailed
from conformance.link import Datagrams, Links
from conformance.nodes.places import free_port
from conformance.observe import Direction, Observation
from scapy_layers.codes import Kind
from scapy_layers.scouting import Hello, Scout


class Heard:
    """What one Datagrams heard."""

    def __init__(self, of: Datagrams) -> None:
        self.seen: list[tuple[Observation, tuple[str, int]]] = []
        of.on_datagram = lambda seen, source: self.seen.append((seen, source))

    @property
    def batches(self) -> list[bytes]:
        return [seen.batch for seen, _ in self.seen]


@pytest.fixture
def group() -> Locator:
    """A group on the loopback interface, if this machine can have one there."""
    where = Locator.parse(f"udp/239.255.7.11:{free_port('udp')}#iface=lo;ttl=0")
    try:
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hears,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as speaks,
        ):
            hears.bind((where.host, where.port))
            member = socket.inet_aton(where.host) + socket.inet_aton("127.0.0.1")
            hears.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
            hears.settimeout(1)
            speaks.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
            speaks.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            speaks.sendto(b"", (where.host, where.port))
            hears.recv(1)
    except OSError as error:
        pytest.skip(f"no groups on the loopback interface: {error}")
    return where


def never() -> bool:
    return False


def test_members_hear_each_other_and_not_themselves(links: Links, group: Locator) -> None:
    one, other = links.datagrams(group, "a", group=True), links.datagrams(group, "b", group=True)
    first, second = Heard(one), Heard(other)
    one.send(b"\x04")
    other.send(b"\x03\x00")
    assert links.wait(lambda: bool(first.seen) and bool(second.seen), 5)
    links.wait(never, 0.02)
    assert first.batches == [b"\x03\x00"]
    assert second.batches == [b"\x04"]
    assert second.seen[0][1] == one.address
    assert one.address[0] == "127.0.0.1"
    assert second.seen[0][0].contents.names == "KEEP_ALIVE"


def test_hello_goes_to_where_the_scout_came_from(links: Links, group: Locator) -> None:
    responder = links.datagrams(group, "node", group=True, kind=Kind.SCOUTING)
    seeker = links.datagrams(group, "scout", group=False, kind=Kind.SCOUTING)
    bystander = Heard(links.datagrams(group, "other", group=False, kind=Kind.SCOUTING))
    responder.on_datagram = lambda _, source: responder.send_to(bytes(Hello(zid=b"\x01")), source)
    answers = Heard(seeker)
    seeker.send(bytes(Scout()))
    assert links.wait(lambda: bool(answers.seen), 5)
    (seen, source), *_ = answers.seen
    assert seen.contents.names == "HELLO"
    assert source == responder.address
    assert seen.route == (responder.address, seeker.address)
    assert bystander.seen == []
    assert links.history is not None
    scouts = [item for item in links.history.observations if item.contents.names == "SCOUT"]
    assert [item.direction for item in scouts] == [Direction.SENT, Direction.RECEIVED]
    assert {item.route for item in scouts} == {(seeker.address, (group.host, group.port))}


def test_unicast_address_is_heard_as_well_and_its_port_may_be_chosen(links: Links) -> None:
    responder = links.datagrams(Locator("udp", "127.0.0.1", 0), "node", group=True, kind=Kind.SCOUTING)
    heard = Heard(responder)
    seeker = links.datagrams(responder.locator, "scout", group=False, kind=Kind.SCOUTING)
    seeker.send(bytes(Scout()))
    assert links.wait(lambda: bool(heard.seen), 5)
    assert responder.locator.port not in {0, responder.address[1]}


def test_any_bytes_are_an_observation(links: Links) -> None:
    responder = links.datagrams(Locator("udp", "127.0.0.1", 0), "node", group=True, kind=Kind.SCOUTING)
    heard = Heard(responder)
    seeker = links.datagrams(responder.locator, "scout", group=False)
    for data in (b"", b"\xff", bytes(range(256))):
        seeker.send(data)
    assert links.wait(lambda: len(heard.seen) == 3, 5)
    assert heard.seen[1][0].contents.error is not None


def test_datagram_that_is_too_large_is_lost_and_noted(links: Links) -> None:
    responder = links.datagrams(Locator("udp", "127.0.0.1", 0), "node", group=True)
    heard = Heard(responder)
    seeker = links.datagrams(responder.locator, "scout", group=False)
    seeker.send(bytes(65_530))
    seeker.send(b"\x04")
    assert links.wait(lambda: bool(heard.seen), 5)
    assert heard.batches == [b"\x04"]
    assert seeker.refused == "EMSGSIZE"


def test_nobody_at_an_address_harms_nothing(links: Links) -> None:
    seeker = links.datagrams(Locator("udp", "127.0.0.1", free_port("udp")), "scout", group=False)
    seeker.send(b"\x04")
    links.wait(never, 0.02)
    seeker.send(b"\x04")
    assert seeker.ended is None


def test_closed_datagrams_say_and_hear_nothing(links: Links) -> None:
    responder = links.datagrams(Locator("udp", "127.0.0.1", 0), "node", group=True)
    heard = Heard(responder)
    seeker = links.datagrams(responder.locator, "scout", group=False)
    seeker.send(b"\x04")
    responder.close()
    responder.close()
    responder.send(b"\x04")
    links.wait(never, 0.02)
    assert heard.seen == []
    assert responder.ended == "closed by us"


def test_unknown_interface_is_told_in_one_line(links: Links) -> None:
    with pytest.raises(LinkFailed, match="iface=nowhere") as caught:
        links.datagrams(Locator.parse("udp/239.255.7.11:17446#iface=nowhere"), "a", group=True)
    assert "\n" not in str(caught.value)
    assert not links.leftovers
