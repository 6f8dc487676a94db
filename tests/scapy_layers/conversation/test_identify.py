"""What is Zenoh and what is not: scouting, sessions from their beginning and from the middle, and everything else."""

from __future__ import annotations

import random

import pytest

from scapy_layers.conversation import Conversations, Heard, Limits
from scapy_layers.declarations import DeclareFinal
from scapy_layers.extensions import Compression, Patch
from scapy_layers.message import Message
from scapy_layers.network import Declare, Push
from scapy_layers.scouting import Hello, Scout
from scapy_layers.stream import Datagram, Endpoint, Framing, Link, plausible
from scapy_layers.transport import Close, Fragment, Init, Join, KeepAlive, Open
from tests.scapy_layers.conversation.pair import (
    ALICE,
    BOB,
    COOKIE,
    A,
    B,
    Pair,
    alias,
    fragment,
    frame,
    kinds,
    names,
    put,
)
from tests.scapy_layers.golden import raw

GROUP = Endpoint("224.0.0.224", 7446)
SCOUT = raw("010907")


class Datagrams:
    """UDP datagrams between any endpoints; every pair of them is a link."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.hearing = Conversations(limits)
        self.links: dict[frozenset[Endpoint], Link] = {}
        self.packet = 0

    def send(self, source: Endpoint, target: Endpoint, payload: Message | bytes) -> list[Heard]:
        self.packet += 1
        ends = frozenset({source, target})
        link = self.links.setdefault(ends, Link(len(self.links), False, source, target, plausible))
        way = link.ways[source != link.first]
        return list(self.hearing.hear(Datagram(way, self.packet, self.packet, bytes(payload))))


def host(number: int, port: int) -> Endpoint:
    return Endpoint(f"10.0.0.{number}", port)


# Scouting -----------------------------------------------------------------------------------------


def test_hello_from_any_port_belongs_to_its_scout() -> None:
    net = Datagrams()
    (scout,) = net.send(host(1, 40_000), GROUP, Scout(what=3, zid=ALICE))
    (hello,) = net.send(host(2, 52_850), host(1, 40_000), Hello(zid=BOB, locators=["tcp/10.0.0.2:7447"]))
    (other,) = net.send(host(3, 1234), host(1, 40_000), Hello(zid=BOB, whatami=1))
    exchange = scout.exchange
    assert exchange is not None
    assert names([scout, hello, other]) == ["SCOUT", "HELLO", "HELLO"]
    assert hello.exchange is other.exchange is exchange
    assert (exchange.kind, exchange.asked, [answer.number for answer in exchange.answers]) == (
        "scout",
        1,
        [2, 3],
    )
    assert (scout.source_zid, hello.source_zid, hello.target_zid) == (A, B, A)
    assert hello.session is None


def test_each_scout_has_the_hellos_that_follow_it() -> None:
    net = Datagrams()
    first = net.send(host(1, 40_000), GROUP, SCOUT)[0]
    second = net.send(host(1, 40_000), GROUP, SCOUT)[0]
    hello = net.send(host(2, 5), host(1, 40_000), Hello(zid=BOB))[0]
    assert hello.exchange is second.exchange
    assert first.exchange is not None
    assert first.exchange.answered == 0


def test_scout_to_an_uncommon_place_is_told_with_its_hello() -> None:
    net = Datagrams()
    odd = host(2, 17_446)
    assert not net.send(host(1, 40_000), odd, SCOUT)
    assert not net.send(host(9, 5), host(1, 40_000), Hello(zid=BOB)), "not from where it went to"
    heard = net.send(host(2, 5), host(1, 40_000), Hello(zid=BOB))
    assert [(one.number, one.message.name) for one in heard] == [(1, "SCOUT"), (3, "HELLO")]
    assert heard[0].exchange is heard[1].exchange
    assert names(net.send(host(1, 40_000), odd, SCOUT)) == ["SCOUT"]


def test_hello_without_its_scout_needs_a_locator() -> None:
    net = Datagrams()
    assert not net.send(host(2, 5), host(1, 40_000), Hello(zid=BOB))
    (hello,) = net.send(host(2, 5), host(1, 40_000), Hello(zid=BOB, locators=["tcp/10.0.0.2:7447"]))
    assert hello.exchange is None


@pytest.mark.parametrize(
    "almost", ["01", "0109", "010807", "01090700", "010907010907", "810907", "010908", "010a07", "020907"]
)
def test_almost_a_scout_is_none(almost: str) -> None:
    assert not Datagrams().send(host(1, 40_000), GROUP, raw(almost))


def test_scouts_are_bounded_and_counted() -> None:
    net = Datagrams(Limits(links=3))
    for port in range(10):
        net.send(host(1, port), GROUP, SCOUT)
    assert net.hearing.forgotten["scouts"] == 7


# Sessions -----------------------------------------------------------------------------------------


def test_init_and_scout_share_an_id_but_not_a_meaning() -> None:
    net = Datagrams()
    (init,) = net.send(host(1, 40_000), host(2, 9999), Init(zid=ALICE, extensions=[Patch(patch=1)]))
    assert isinstance(init.message, Init)
    (ack,) = net.send(host(2, 9999), host(1, 40_000), Init(A=1, whatami=0, zid=BOB, cookie=COOKIE))
    assert (ack.source_zid, ack.target_zid) == (B, A)
    (opening,) = net.send(host(1, 40_000), host(2, 9999), Open(lease=9, initial_sn=1, cookie=COOKIE))
    assert isinstance(opening.message, Open)


@pytest.mark.parametrize(
    "first",
    [
        bytes(Init(zid=ALICE, version=8)),
        bytes(Init(zid=ALICE)) + b"\x00",
        bytes(Init(zid=ALICE, batch_size=9))[:-1],
        bytes(Init(zid=ALICE, reserved2=1)),
        bytes(KeepAlive()),
        bytes(Close(reason=0)),
        bytes(fragment(1, b"anything", first=True)),
        bytes(frame(1)),
        bytes(Join(zid=ALICE)),
        bytes(frame(1, Declare(body=DeclareFinal()))),
        bytes(Declare(body=DeclareFinal())),
        bytes(put("a/b"))[:-1],
    ],
)
@pytest.mark.parametrize("port", [7447, 9999])
def test_datagram_that_proves_nothing_is_none(first: bytes, port: int) -> None:
    assert not Datagrams().send(host(1, 40_000), host(2, port), first)


@pytest.mark.parametrize("said", [frame(1, put("a/b")), put("a/b")], ids=["FRAME", "low latency"])
def test_session_in_progress_is_heard_on_the_usual_port(said: Message) -> None:
    heard = Datagrams().send(host(1, 40_000), host(2, 7447), said)
    assert [one.keyexpr for one in heard if isinstance(one.message, Push)] == ["a/b"]
    assert not Datagrams().send(host(1, 40_000), host(2, 9999), said)


def test_frame_on_an_uncommon_port_proves_nothing() -> None:
    net = Datagrams()
    assert not net.send(host(1, 40_000), host(2, 9999), frame(1, put("a/b")))
    heard = net.send(host(1, 40_000), host(2, 7447), frame(1, put("a/b")))
    assert [one.keyexpr for one in heard] == [None, "a/b"]
    (heard_fragment,) = net.send(host(2, 7447), host(1, 40_000), fragment(1, b"anything"))
    assert isinstance(heard_fragment.message, Fragment)


def test_init_that_nobody_answers_is_given_up_when_nonsense_follows() -> None:
    net = Datagrams()
    ends = host(1, 40_000), host(2, 9999)
    assert net.send(*ends, Init(zid=ALICE))
    for _ in range(3):
        net.send(*ends, b"\xff" * 20)
    assert not net.send(*ends, b"\xff" * 20)
    assert net.hearing.foreign == 1


FOREIGN = {
    "DNS query": "0109 0100 0001 0000 0000 0000 03777777 076578616d706c65 03636f6d 00 0001 0001",
    "DNS query 2": "2209 0100 0001 0000 0000 0000 03777777 076578616d706c65 03636f6d 00 0001 0001",
    "DNS answer": "0109 8180 0001 0001 0000 0000 0161 00 0001 0001 c00c 0001 0001 0000003c 0004 01020304",
    "QUIC initial": "c1 00000001 08 0102030405060708 00 00 41 02" + "5a" * 300,
    "QUIC initial 5": "c5 00000001 08 0102030405060708 00 00 41 02" + "5a" * 300,
    "QUIC short": "45" + "9c" * 40,
    "QUIC short PUSH": "5d" + "9c" * 40,
    "RTP": "8060 1a2b 00000a00 deadbeef" + "d5" * 160,
    "RTCP": "81c9 0007" + "00" * 28,
    "STUN": "0101 0008 2112a442" + "31" * 12 + "0020 0004 00010203",
    "NTP": "230a 06ec" + "00" * 44,
    "DTLS": "16fefd 0000 0000 0000 0001 0020" + "aa" * 32,
    "DHCP": "01010600 3903f326" + "00" * 228 + "63825363 350101 ff",
    "mDNS": "0000 8400 0000 0001 0000 0000 05 5f68747470 00 000c 0001 00000078 0002 c00c",
    "one byte": "04",
    "nothing": "",
}


@pytest.mark.parametrize("payload", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("target", [host(2, 53), host(2, 7447), host(2, 7446), GROUP])
def test_foreign_datagram_is_no_message(payload: str, target: Endpoint) -> None:
    net = Datagrams()
    for _ in range(4):
        assert not net.send(host(1, 40_000), target, raw(payload))
        assert not net.send(target, host(1, 40_000), raw(payload))


def test_random_datagrams_are_no_messages() -> None:
    dice = random.Random(7)
    net = Datagrams()
    targets = [host(2, 7447), host(2, 9999), host(2, 7446), Endpoint("224.0.0.225", 7447)]
    for _ in range(30_000):
        payload = dice.randbytes(dice.choice([1, 4, 8, 16, 40, 300]))
        assert not net.send(host(1, dice.randrange(2000)), dice.choice(targets), payload)


def test_random_datagrams_that_begin_like_a_session_are_given_up_soon() -> None:
    dice = random.Random(7)
    net = Datagrams()
    ends = host(1, 40_000), Endpoint("224.0.0.225", 7447)
    net.send(*ends, Join(zid=ALICE))
    for _ in range(100):
        net.send(*ends, b"\x25" + dice.randbytes(50))
    assert net.hearing.foreign == 1
    assert not net.send(*ends, frame(1))


# The middle of a stream ---------------------------------------------------------------------------


def test_session_from_the_middle_is_heard_without_alarm() -> None:
    pair = Pair()
    heard = [
        *pair.say(fragment(1000, b"the end of a message", more=False)),
        *pair.answer(frame(7, put("a/b"), lane=2)),
        *pair.say(frame(1001, put("/x", scope=4))),
        *pair.say(frame(1002, alias(4, "late"), put("/x", scope=4))),
    ]
    assert [one.keyexpr for one in heard if one.within] == ["a/b", None, "late", "late/x"]
    assert {one.source_zid for one in heard} == {None}
    assert not kinds(heard)
    session = heard[0].session
    assert session is not None
    assert (session.qos, session.fsn, session.lowlatency) == (True, None, False)
    assert kinds(pair.say(frame(1005))) == ["gap"]


def test_resolution_is_learned_when_numbers_wrap() -> None:
    pair = Pair()
    heard = [one for sn in (126, 127, 0, 1) for one in pair.say(frame(sn, put("a")))]
    assert not kinds(heard)
    assert kinds(pair.say(frame(128, put("a")))) == ["range"]


def test_compression_is_found_out_in_the_middle() -> None:
    pair = Pair()
    heard = [
        *pair.say(b"\x00", KeepAlive()),
        *pair.say(b"\x00", frame(5, put("a"))),
        *pair.answer(b"\x00", KeepAlive()),
    ]
    assert (names(heard), kinds(heard)) == (["KEEP_ALIVE", "FRAME", "PUSH", "KEEP_ALIVE"], [])


def test_compressed_batch_may_be_the_first_one() -> None:
    packed = b"\x01" + raw("ff0025dbadee187d0003742f7801c801410100ae60414141414141")
    assert names(Pair().say(packed)) == ["FRAME", "PUSH"]


def test_low_latency_is_found_out_in_the_middle() -> None:
    pair = Pair()
    for way in pair.link.ways:
        way.framing = Framing.LONG
    (heard,) = pair.say(put("a/b"))
    assert heard.session is not None
    assert (heard.keyexpr, heard.session.lowlatency, heard.remarks) == ("a/b", True, [])


def test_fragments_without_first_are_put_together_once_the_beginning_is_sure() -> None:
    pair = Pair()
    whole = bytes(put("a/b", b"0123456789"))
    pair.say(fragment(1, b"rest of another", more=False))
    pair.say(fragment(2, whole[:5]))
    heard = pair.say(fragment(3, whole[5:], more=False))
    assert (names(heard), kinds(heard)) == (["FRAGMENT", "PUSH"], [])


def test_stream_that_cannot_be_read_is_left_alone() -> None:
    pair = Pair()
    assert not pair.say(b"\x17\x03\x03nonsense")
    assert not pair.answer(b"\xff\xff")
    assert pair.link.ways[0].framing is Framing.SHORT
    assert not pair.say(b"GET / HTTP/1.1")
    assert [way.framing for way in pair.link.ways] == [Framing.FOREIGN, Framing.FOREIGN]
    assert pair.hearing.foreign == 1


def test_stream_believed_too_early_is_given_up() -> None:
    pair = Pair()
    assert pair.say(KeepAlive())
    for _ in range(3):
        pair.say(b"\xff\xff")
    assert {way.framing for way in pair.link.ways} == {Framing.FOREIGN}


def test_session_whose_beginning_was_seen_is_never_given_up() -> None:
    pair = Pair()
    pair.handshake(Compression())
    for _ in range(10):
        assert kinds(pair.say(b"\x08\xff")) == ["refused"]
    assert names(pair.say(b"\x00", KeepAlive())) == ["KEEP_ALIVE"]


def test_damaged_init_is_heard() -> None:
    heard = Pair().say(bytes(Init(zid=ALICE))[:-1])
    assert (names(heard), kinds(heard)) == (["INIT"], ["refused"])
