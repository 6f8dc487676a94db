"""The reference node by every protocol: as listener, as the end that connects, in scouting, in a group."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from conformance.config import Locator, Tls
from conformance.errors import Unmet
from conformance.nodes.places import free_port
from conformance.tester import SessionEnd, Tester
from scapy_layers.codes import WhatAmI
from scapy_layers.declarations import DeclareSubscriber
from scapy_layers.network import Declare, Push
from scapy_layers.primitives import zid_from_text
from scapy_layers.scouting import Hello
from tests.conformance.link.test_reaching import full
from tests.conformance.refnode._started import Started
from tests.conformance.refnode.conftest import Start

REPLY = 10.0
PROTOCOLS = ("tcp", "tls", "udp", "ws", "unixsock-stream")
Testing = Callable[[Started], Tester]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    made = Tls(ca=folder / "ca.pem", certificate=folder / "chain.pem", key=folder / "key.pem")
    assert made.ca
    assert made.certificate
    assert made.key
    authority.cert_pem.write_to_path(made.ca)
    issued.private_key_pem.write_to_path(made.key)
    made.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    return made


@pytest.fixture
def testing(certificate: Tls) -> Iterator[Testing]:
    """Makes testers of nodes."""
    made: list[Tester] = []

    def make(node: Started) -> Tester:
        locator = node.locator if node.facts["locator"] else Locator("tcp", "127.0.0.1", 1)
        made.append(Tester(locator, random.Random(1), REPLY, certificate))
        return made[-1]

    yield make
    for tester in made:
        tester.close()


def group(last: int) -> str:
    return f"udp/239.255.77.{last}:{free_port('udp')}#iface=lo"


def listening(proto: str, folder: Path, certificate: Tls) -> list[str]:
    here = f"unixsock-stream/{folder}/node.sock" if proto == "unixsock-stream" else f"{proto}/127.0.0.1:0"
    secured = ["--tls-cert", str(certificate.certificate), "--tls-key", str(certificate.key)]
    return ["--listen", here, *(secured if proto == "tls" else [])]


def carries(one: SessionEnd, two: SessionEnd, size: int = 1) -> None:
    """Judges that a value goes from one session to another, cut into fragments where it is large."""
    one.declare_subscriber("a/**")
    two.put("a/b", b"x" * size)
    assert bytes(one.expect(Push).body.data) == b"x" * size


@pytest.mark.parametrize("proto", PROTOCOLS)
def test_value_goes_through_a_node_by_every_protocol(
    start: Start, testing: Testing, tmp_path: Path, certificate: Tls, proto: str
) -> None:
    node = start(*listening(proto, tmp_path, certificate))
    tester = testing(node)
    assert node.facts["locator"].startswith(f"{proto}/")
    carries(tester.session(), tester.session())


@pytest.mark.parametrize("option", ["--lowlatency", "--compression"])
def test_large_value_goes_through_special_sessions(start: Start, testing: Testing, option: str) -> None:
    node = start(option, "--no-qos")
    tester = testing(node)
    offer = {option.removeprefix("--"): True}
    carries(tester.session(**offer), tester.session(), 200_000)


def test_session_ends_with_close_by_every_protocol(
    start: Start, testing: Testing, tmp_path: Path, certificate: Tls
) -> None:
    words = [word for proto in PROTOCOLS for word in listening(proto, tmp_path, certificate)]
    node = start(*words)
    tester = testing(node)
    ends = [tester.session(locator=Locator.parse(text)) for text in node.facts["locators"]]
    assert len(ends) == len(PROTOCOLS)
    assert node.ends() == 0
    for end in ends:
        end.wait(lambda end=end: end.closed is not None, REPLY)  # type: ignore[misc]
        assert end.closed is not None
        assert end.closed.reason == 0, end.link.locator


def test_password_lets_in_and_keeps_out(start: Start, testing: Testing) -> None:
    tester = testing(start("--user", "ann:secret"))
    tester.session(user=(b"ann", b"secret")).fence()
    for wrong in ((b"ann", b"Secret"), (b"bob", b"secret"), None):
        with pytest.raises(Unmet):
            tester.session(user=wrong)


# As the end that connects --------------------------------------------------------------------------------


def test_node_connects_and_carries_between_its_links(start: Start, testing: Testing) -> None:
    first = start()
    second = start("--connect", first.facts["locator"], "--listen", "tcp/127.0.0.1:0")
    first.until_stats(sessions=1)
    one, two = testing(first).session(), testing(second).session()
    one.declare_subscriber("a/**")
    # Told by the first node to the second, and by that to whom it concerns.
    two.until(Declare, body=lambda body: isinstance(body, DeclareSubscriber))
    two.put("a/b", b"over two nodes")
    assert bytes(one.expect(Push).body.data) == b"over two nodes"


def test_node_connects_again_when_its_link_ends(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(REPLY)
        node = start("--connect", f"tcp/127.0.0.1:{listener.getsockname()[1]}", "--zid", "abcd")
        for _ in range(3):
            accepted, _ = listener.accept()
            with accepted:
                accepted.settimeout(REPLY)
                init = accepted.recv(100)
                assert init[2] & 0x1F == 1
                assert zid_from_text("abcd") in init
    assert node.stats()["internal_errors"] == 0


def test_node_serves_others_while_it_dials_one_that_does_not_answer(start: Start, testing: Testing) -> None:
    with full() as port:
        node = start("--listen", "tcp/127.0.0.1:0", "--connect", f"tcp/127.0.0.1:{port}")
        testing(node).session().fence()
        assert "no answer in time" not in node.said()
        assert node.says("no answer in time")


def test_node_waits_for_one_that_starts_later(start: Start) -> None:
    port = free_port("tcp")
    node = start("--connect", f"tcp/127.0.0.1:{port}")
    assert node.says("is a node listening there?")
    start("--listen", f"tcp/127.0.0.1:{port}")
    node.until_stats(sessions=1)


def test_node_shows_its_credentials(start: Start) -> None:
    guarded = start("--user", "ann:secret")
    start("--connect", guarded.facts["locator"], "--credentials", "ann:secret")
    guarded.until_stats(sessions=1)


# Scouting ------------------------------------------------------------------------------------------------


def test_scout_to_the_group_is_answered_with_our_locators(start: Start, testing: Testing) -> None:
    where = group(1)
    node = start("--listen", "tcp/127.0.0.1:0", "--scout", where)
    tester = testing(node)
    end = tester.scout(where)
    end.scout()
    hello = end.expect(Hello, whatami=WhatAmI.ROUTER)
    assert list(hello.locators) == [node.facts["locator"]]
    assert hello.zid == zid_from_text(node.facts["zid"])
    end.expect_nothing(Hello, fence=lambda: (end.scout(what=2), end.ping()))


def test_scout_to_an_address_is_answered(start: Start, testing: Testing) -> None:
    where = f"udp/127.0.0.1:{free_port('udp')}"
    node = start("--listen", "tcp/127.0.0.1:0", "--scout", where)
    end = testing(node).scout(where)
    end.scout()
    end.expect(Hello)


def test_node_that_finds_connects_to_who_answers(start: Start) -> None:
    where = group(2)
    answering = start("--listen", "tcp/127.0.0.1:0", "--scout", where)
    start("--scout", where, "--find", "--mode", "peer")
    answering.until_stats(sessions=1)


def test_node_that_finds_asks_with_growing_gaps_until_somebody_answers(
    start: Start, testing: Testing
) -> None:
    where = group(3)
    tester = testing(start())
    responder = tester.responder(where)
    listener = tester.listen()
    node = start("--scout", where, "--find", "--zid", "77")
    scouts = responder.expect_scouts(3, REPLY)
    assert [scout.zid for scout in scouts] == [b"\x77"] * 3
    one, two = responder.gaps()[:2]
    assert 1.5 * one < two
    responder.reply(str(listener.locator))
    listener.accept(REPLY).serve()
    assert node.until_stats(sessions=1)["internal_errors"] == 0


def test_locators_of_a_hello_that_lead_nowhere_harm_nobody(start: Start, testing: Testing) -> None:
    where = group(8)
    tester = testing(start())
    responder = tester.responder(where)
    listener = tester.listen()
    node = start("--scout", where, "--find", "--zid", "77")
    responder.expect_scouts(1, REPLY)
    port = free_port("tcp")
    # No certificate for the first, nobody behind the second; one behind the last is reached all the same.
    responder.reply(
        f"tls/127.0.0.1:{port}", f"ws/127.0.0.1:{port}", "tcp/127.0.0.1\nforged: 1", str(listener.locator)
    )
    listener.accept(REPLY).serve()
    assert node.until_stats(sessions=1)["internal_errors"] == 0
    assert "\nforged" not in node.said()


def test_hellos_that_come_while_one_is_followed_do_not_pile_up(start: Start, testing: Testing) -> None:
    where = group(9)
    tester = testing(start())
    responder = tester.responder(where)
    node = start("--scout", where, "--find", "--zid", "77")
    responder.expect_scouts(1, REPLY)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        for _ in range(400):
            responder.reply(f"ws/127.0.0.1:{mute.getsockname()[1]}")
        node.until_stats(internal_errors=0)
        mute.settimeout(REPLY)
        mute.accept()[0].close()
        mute.settimeout(0.3)
        with pytest.raises(TimeoutError):
            mute.accept()
    assert node.until_stats(internal_errors=0)


# In a group ----------------------------------------------------------------------------------------------


def test_value_goes_from_a_group_to_a_session_and_back(start: Start, testing: Testing) -> None:
    where = group(4)
    node = start("--listen", "tcp/127.0.0.1:0", "--multicast", where, "--mode", "router", "--no-qos")
    tester = testing(node)
    member = tester.group(where, patch=1)
    member.expect_member(zid_from_text(node.facts["zid"]))
    end = tester.session()
    end.declare_subscriber("a/**")
    node.until_stats(sessions=2)
    member.put("a/b", b"from the group")
    assert bytes(end.expect(Push).body.data) == b"from the group"


def test_member_that_leaves_is_gone_and_our_end_says_close(start: Start, testing: Testing) -> None:
    where = group(5)
    node = start("--multicast", where, "--no-qos")
    tester = testing(node)
    staying, leaving = tester.group(where, patch=1), tester.group(where, patch=1)
    node.until_stats(sessions=2)
    leaving.leave()
    node.until_stats(sessions=1)
    ours = zid_from_text(node.facts["zid"])
    staying.expect_member(ours)
    assert node.ends() == 0
    staying.expect_left(ours)


def test_push_of_a_member_is_not_said_again_to_the_group(start: Start, testing: Testing) -> None:
    where = group(6)
    node = start("--multicast", where, "--no-qos")
    tester = testing(node)
    one, two = tester.group(where, patch=1), tester.group(where, patch=1)
    node.until_stats(sessions=2)
    two.expect_member(zid_from_text(node.facts["zid"]))
    two.post(Declare(body=DeclareSubscriber(entity_id=1, key_suffix="a/**")))
    node.until_stats(received=1)
    one.put("a/b", b"1")
    two.expect(Push)
    one.put("a/end", b"1")
    node.until_stats(received=3)
    two.expect(Push, key="a/end")
    assert [two.key(seen.message) for seen in two.inbox if isinstance(seen.message, Push)] == ["a/b", "a/end"]
