"""What Scapy's users do with any layer works with these: at the keyboard, over sockets, in a campaign."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from scapy.config import conf
from scapy.layers.dns import DNS
from scapy.layers.inet import IP, UDP
from scapy.main import load_layer
from scapy.packet import Packet, Raw, explore, fuzz, ls, rfc
from scapy.utils import hexdump
from scapy.volatile import RandChoice, RandString

import scapy_layers.all as everything
from scapy_layers import answers as answering
from scapy_layers import listing, ports
from scapy_layers.batch import Batch, contents, prefixed
from scapy_layers.catalogue import EXTENSIONS, MESSAGES, decode
from scapy_layers.data import Err, Put, Query, Reply
from scapy_layers.declarations import DeclareFinal, DeclareToken
from scapy_layers.derive.strategies import messages
from scapy_layers.errors import Overlong
from scapy_layers.extensions import Lane, LowLatency, QoS, SourceInfo, Timeout
from scapy_layers.listing import LISTED, list_layers
from scapy_layers.message import Layer, Message, UnknownExtension
from scapy_layers.network import Declare, Interest, Push, Request, Response, ResponseFinal
from scapy_layers.ports import bind_ports, unbind_ports
from scapy_layers.scouting import Hello, Scout
from scapy_layers.sockets import ZenohDatagramSocket, ZenohStreamSocket
from scapy_layers.transport import Close, Frame, Init, Join, KeepAlive, Open

LAYERS: list[type[Layer]] = [*MESSAGES, *EXTENSIONS, Batch, UnknownExtension]

TIMEOUT = 10
"""Seconds after which Scapy gives up. Nothing here waits for it: all answers are there before."""

FRAME = Frame(
    R=1,
    sn=7,
    extensions=[Lane(priority=2)],
    messages=[
        Push(key_suffix="demo/a", extensions=[QoS(priority=2)], body=Put(data=b"\x00x", timestamp=5)),
        Request(
            request_id=3, key_suffix="demo/**", extensions=[Timeout(timeout=9)], body=Query(parameters="a")
        ),
        Response(request_id=3, key_suffix="é", body=Reply(body=Put(data=b"'\"", extensions=[SourceInfo()]))),
        Declare(body=DeclareToken(key_suffix="t"), extensions=[UnknownExtension(ext_id=9, data=b"\xff")]),
    ],
)


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets Scapy tell nothing of what it sends and gets."""
    monkeypatch.setattr(conf, "verb", 0)


# At the keyboard ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", LAYERS, ids=lambda cls: cls.__name__)
def test_every_layer_can_be_listed_drawn_and_shown(
    cls: type[Layer], capsys: pytest.CaptureFixture[str]
) -> None:
    ls(cls)
    listed = capsys.readouterr().out
    assert all(field.name in listed for field in cls.fields_desc)
    assert f"Fig. {cls.__name__}" in rfc(cls, ret=True)
    layer = cls()
    assert layer.name in layer.show(dump=True)
    assert layer.name in layer.show2(dump=True)
    assert hexdump(layer, dump=True).startswith("0000") == bool(bytes(layer))


def test_layers_are_found_by_a_part_of_their_name(capsys: pytest.CaptureFixture[str]) -> None:
    ls("respon", case_sensitive=False)
    found = capsys.readouterr().out
    assert "ResponseFinal" in found
    assert "ResponderId" in found


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    # Scapy looks its modules up by name; those of tests, where some layers are made up, it does not find.
    known = {name: some[:] for name, some in conf.layers.ldict.items() if not name.startswith("tests.")}
    monkeypatch.setattr(conf.layers, "ldict", known)
    monkeypatch.setitem(sys.modules, LISTED, everything)
    monkeypatch.setattr("scapy.layers.zenoh", everything, raising=False)
    list_layers(everything, LAYERS)


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize("name", ["zenoh", LISTED])
def test_explore_shows_all_layers(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    explore(name)
    shown = capsys.readouterr().out
    assert all(cls.__name__ in shown for cls in LAYERS)
    assert "Layer " not in shown


@pytest.mark.usefixtures("listed")
def test_the_menu_of_explore_has_one_entry_for_them() -> None:
    ours = {
        name: said
        for name, said in conf.layers.layers()
        if "zenoh" in name or name.startswith("scapy_layers")
    }
    assert list(ours) == [LISTED]
    assert ours[LISTED].startswith("For the Scapy shell")


@pytest.mark.usefixtures("listed")
def test_load_layer_brings_their_names() -> None:
    names: dict[str, Any] = {}
    load_layer("zenoh", globals_dict=names)
    assert names["Frame"] is Frame
    assert listing.LISTED.endswith(".zenoh")


def test_a_command_makes_an_equal_frame() -> None:
    for frame in (FRAME, decode(bytes(FRAME))):
        again = eval(frame.command(), vars(everything))
        assert again == frame
        assert bytes(again) == bytes(FRAME)


@settings(max_examples=50)
@given(messages())
def test_a_command_makes_an_equal_packet_of_every_message(message: Message) -> None:
    for one in (message, decode(bytes(message), message.kind)):
        again = eval(one.command(), vars(everything))
        assert again == one
        assert bytes(again) == bytes(one)


@settings(max_examples=50)
@given(messages())
def test_every_message_has_a_json_form(message: Message) -> None:
    for one in (message, decode(bytes(message), message.kind)):
        assert json.loads(one.json())["mid"] == message.id


def test_the_json_form_has_what_is_inside() -> None:
    said = json.loads(FRAME.json())
    assert [inside["mid"] for inside in said["messages"]] == [0x1D, 0x1C, 0x1B, 0x1E]
    assert said["messages"][0]["extensions"][0]["priority"] == 2
    assert said["messages"][2]["body"]["body"]["data"] == "'\""


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_fuzzed_messages_can_be_built_a_thousand_times(cls: type[Message]) -> None:
    fuzzed = fuzz(cls())
    built = {bytes(fuzzed) for _ in range(1000)}
    for raw in list(built)[:20]:
        assert type(contents(raw, cls.kind).messages[0]) is cls


@pytest.mark.parametrize("cls", [*EXTENSIONS, Batch, UnknownExtension], ids=lambda cls: cls.__name__)
def test_fuzzed_extensions_can_be_built(cls: type[Layer]) -> None:
    fuzzed = fuzz(cls())
    assert all(isinstance(bytes(fuzzed), bytes) for _ in range(50))


def test_fuzzed_messages_differ_in_what_is_present() -> None:
    for message in (Frame(), Init(), Init(S=1), Request(M=1, N=1), Put(E=1)):
        assert len({bytes(fuzz(message)) for _ in range(50)}) > 10


@pytest.mark.parametrize(
    ("several", "alone"),
    [
        (Close(reason=["GENERIC", "expired", 200]), [Close(reason=0), Close(reason=5), Close(reason=200)]),
        (Init(zid=["aa", b"\xbb"]), [Init(zid="aa"), Init(zid="bb")]),
        (Push(key_suffix=["a", "ü"]), [Push(key_suffix="a"), Push(key_suffix="ü")]),
        (Push(body=Put(data=["x", b"y"])), [Push(body=Put(data="x")), Push(body=Put(data="y"))]),
        (
            Frame(sn=1, messages=[Push(key_suffix=["a", "b"])]),
            [Frame(sn=1, messages=[Push(key_suffix="a")])],
        ),
    ],
    ids=lambda one: one.summary() if isinstance(one, Packet) else "",
)
def test_names_and_text_in_a_list_are_taken_as_if_given_alone(several: Packet, alone: list[Packet]) -> None:
    assert [bytes(one) for one in several] == [bytes(one) for one in alone]
    assert bytes(several) == bytes(alone[0])


def test_roles_are_taken_as_they_are_shown() -> None:
    assert Scout(what="ROUTER|PEER").what == Scout(what="peer | router").what == 3
    assert "(ROUTER|PEER)" in Scout(what=3).summary()
    with pytest.raises(ValueError, match=r"'ROUTER\|NOBODY' is none of ROUTER, PEER, CLIENT"):
        Scout(what="ROUTER|NOBODY")
    with pytest.raises(ValueError, match="none of"):
        Init(whatami="ROUTER|PEER")


def test_random_names_and_text_are_taken_as_if_given_alone() -> None:
    assert len(bytes(Push(key_suffix=RandString(5)))) == len(bytes(Push(key_suffix="xxxxx")))
    assert bytes(Init(zid=RandString(2, "a"))) == bytes(Init(zid="aa"))
    assert bytes(Init(whatami=RandChoice("router"))) == bytes(Init(whatami="router"))


# Questions and answers ----------------------------------------------------------------------------

INIT_SYN, INIT_ACK = Init(zid="aa"), Init(zid="bb", A=1, cookie=b"c")
OPEN_SYN, OPEN_ACK = Open(cookie=b"c"), Open(A=1, lease=9)
REQUEST, RESPONSE = Request(request_id=3, body=Query()), Response(request_id=3, body=Reply(body=Put()))
INTEREST = Interest(interest_id=3, mode="CURRENT", tokens=1)

PAIRS = {
    "HELLO": (Scout(), Hello(zid="cc")),
    "INIT": (INIT_SYN, INIT_ACK),
    "OPEN": (OPEN_SYN, OPEN_ACK),
    "refused INIT": (INIT_SYN, Close(reason="UNSUPPORTED")),
    "refused OPEN": (OPEN_SYN, Close(reason="INVALID")),
    "reply": (REQUEST, RESPONSE),
    "error": (REQUEST, Response(request_id=3, body=Err())),
    "end of replies": (REQUEST, ResponseFinal(request_id=3)),
    "declaration": (INTEREST, Declare(interest_id=3, body=DeclareToken(key_suffix="a"))),
    "end of declarations": (INTEREST, Declare(interest_id=3, body=DeclareFinal())),
}

OTHERS = {
    "the same": (REQUEST, REQUEST),
    "SCOUT": (Scout(), Scout()),
    "HELLO first": (Hello(), Scout()),
    "two INIT_SYN": (INIT_SYN, INIT_SYN),
    "two INIT_ACK": (INIT_ACK, INIT_ACK),
    "INIT_ACK first": (INIT_ACK, INIT_SYN),
    "OPEN_ACK for INIT_SYN": (INIT_SYN, OPEN_ACK),
    "OPEN_SYN": (OPEN_SYN, OPEN_SYN),
    "other request": (REQUEST, Response(request_id=4, body=Reply(body=Put()))),
    "end of another": (REQUEST, ResponseFinal(request_id=2)),
    "declaration of an interest": (REQUEST, Declare(interest_id=3, body=DeclareFinal())),
    "reply to an interest": (INTEREST, RESPONSE),
    "unasked declaration": (INTEREST, Declare(body=DeclareToken(key_suffix="a"))),
    "ended interest": (Interest(interest_id=3, mode="FINAL"), Declare(interest_id=3, body=DeclareFinal())),
    "JOIN": (Join(), Join()),
    "KEEP_ALIVE": (KeepAlive(), KeepAlive()),
    "CLOSE": (Close(), Close()),
    "extension": (LowLatency(), LowLatency()),
    "foreign": (INIT_SYN, Raw(b"x")),
}


def around(message: Packet) -> list[Packet]:
    """Returns a message in all the ways in which it travels."""
    bare = [message, decode(bytes(message), message.kind) if isinstance(message, Message) else message]
    frame = [Frame(messages=[KeepAlive(), one]) for one in bare]
    stacked = [Frame() / message, Batch() / KeepAlive() / Frame() / message.copy() / Raw(b"x")]
    return [*bare, *frame, Batch(messages=[KeepAlive(), *frame[:1]]), *stacked]


@pytest.mark.parametrize(("question", "answer"), PAIRS.values(), ids=PAIRS)
def test_an_answer_answers_its_question_however_both_travel(question: Packet, answer: Packet) -> None:
    for asked, answered in zip(around(question), around(answer), strict=True):
        assert answered.answers(asked)
        assert answered.hashret() == asked.hashret() != b""
        assert not asked.answers(answered)


@pytest.mark.parametrize(("question", "other"), OTHERS.values(), ids=OTHERS)
def test_another_message_answers_nothing(question: Packet, other: Packet) -> None:
    for asked, said in zip(around(question), around(other), strict=True):
        assert not answering.answers(said, asked)


def test_any_message_of_a_frame_may_be_the_answer() -> None:
    asked = Frame(messages=[Push(), Request(request_id=8, body=Query()), REQUEST])
    mixed = Frame(messages=[Declare(body=DeclareFinal()), ResponseFinal(request_id=7), RESPONSE])
    assert mixed.answers(asked)
    assert mixed.hashret() == asked.hashret()
    assert not Frame(messages=mixed.messages[:2]).answers(asked)
    assert not Frame().answers(Frame())


def test_a_message_whose_id_was_cut_off_answers_nothing() -> None:
    cut = Response(bytes(RESPONSE)[:1])
    assert cut.partial
    assert not cut.answers(Request(request_id=0, body=Query()))
    assert cut.hashret() == b""


@settings(max_examples=50)
@given(messages(), messages())
def test_any_two_messages_can_be_asked_whether_they_answer(one: Message, other: Message) -> None:
    said, asked = decode(bytes(one), one.kind), decode(bytes(other), other.kind)
    if said.answers(asked):
        assert said.hashret() == asked.hashret()


@pytest.mark.usefixtures("udp")
def test_hellos_answer_a_scout_to_a_group_inside_ip(monkeypatch: pytest.MonkeyPatch) -> None:
    bind_ports()
    asked = IP(src="10.0.0.1", dst="224.0.0.224") / UDP(sport=40_000) / Scout()
    said = IP(bytes(IP(src="10.0.0.2", dst="10.0.0.1") / UDP(sport=50_000, dport=40_000) / Hello()))
    said[UDP].decode_payload_as(Hello)
    other = IP(src="10.0.0.2", dst="10.0.0.1") / UDP(sport=50_000, dport=40_001) / Hello()
    # As with every protocol that asks a group and is answered by hosts.
    monkeypatch.setattr(conf, "checkIPaddr", False)
    assert said.hashret() == asked.hashret()
    assert said.answers(asked)
    assert not other.answers(asked)


# Streams ------------------------------------------------------------------------------------------


class Ends:
    """A stream link: our end as a Scapy socket, the other one bare."""

    def __init__(self, **options: Any) -> None:
        here, self.there = socket.socketpair()
        self.link = ZenohStreamSocket(here, **options)

    def says(self, *said: Packet, end: bool = True) -> None:
        """Sends from the other end, each message as a batch."""
        self.there.sendall(b"".join(prefixed(bytes(message)) for message in said))
        if end:
            self.there.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.link.close()
        self.there.close()


@pytest.fixture
def ends() -> Iterator[Callable[..., Ends]]:
    made: list[Ends] = []

    def make(**options: Any) -> Ends:
        made.append(Ends(**options))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_messages_come_one_by_one_however_their_bytes_arrive(ends: Callable[..., Ends]) -> None:
    batches = [bytes(Init()), bytes(FRAME) + bytes(KeepAlive()), b"", bytes(Close())]
    pair = ends()
    found = []
    for byte in b"".join(map(prefixed, batches)):
        pair.there.sendall(bytes([byte]))
        found.append(pair.link.recv())
        while pair.link.is_ready():
            found.append(pair.link.recv())
    came = [message for message in found if message is not None]
    assert came == [Init(bytes(Init())), Frame(bytes(FRAME)), KeepAlive(b"\x04"), Close(bytes(Close()))]
    assert b"".join(map(bytes, came)) == b"".join(batches)
    assert all(message.time > 1e9 for message in came)


def test_what_cannot_be_understood_comes_too(ends: Callable[..., Ends]) -> None:
    pair = ends()
    pair.there.sendall(prefixed(bytes(KeepAlive()) + b"\x1a") + prefixed(b"\x0f\x01") + prefixed(b"\x04"))
    pair.there.shutdown(socket.SHUT_WR)
    came = pair.link.sniff(timeout=TIMEOUT)
    assert [bytes(message) for message in came] == [b"\x04", b"\x1a", b"\x0f\x01", b"\x04"]
    assert [type(message) for message in came][2:] == [Raw, KeepAlive]


def test_a_stream_that_ends_is_told_from_one_that_pauses(ends: Callable[..., Ends]) -> None:
    pair = ends()
    pair.there.sendall(prefixed(bytes(KeepAlive()))[:2])
    assert pair.link.recv() is None
    pair.there.shutdown(socket.SHUT_WR)
    with pytest.raises(EOFError, match="closed inside a batch: 2 bytes of it"):
        pair.link.recv()


def test_the_length_may_change_between_two_batches_that_came_together(ends: Callable[..., Ends]) -> None:
    pair = ends(limit=70_000)
    long = Push(key_suffix="a", body=Put(data=bytes(66_000)))
    raw = bytes(long)
    pair.there.sendall(prefixed(bytes(OPEN_ACK)) + len(raw).to_bytes(4, "little"))
    assert pair.link.recv() == Open(bytes(OPEN_ACK))
    pair.link.prefix = 4
    assert not pair.link.is_ready()
    pair.there.sendall(raw)
    came = None
    while came is None:
        came = pair.link.recv()
    assert bytes(came) == raw
    assert pair.link.send(KeepAlive()) == 5
    assert pair.there.recv(10) == b"\x01\0\0\0\x04"


def test_a_batch_above_the_limit_is_refused_when_its_length_is_here(ends: Callable[..., Ends]) -> None:
    pair = ends(prefix=4, limit=10)
    pair.there.sendall(b"\x0b\0\0\0")
    with pytest.raises(Overlong, match="11 bytes, at most 10"):
        pair.link.recv()


def test_sent_messages_get_a_length_and_a_time(ends: Callable[..., Ends]) -> None:
    pair = ends()
    message = KeepAlive()
    assert pair.link.send(message) == 3
    assert pair.link.send(Batch(messages=[Frame(), KeepAlive()])) == 5
    assert pair.link.send(b"\xff") == 3
    assert pair.there.recv(100) == b"\x01\0\x04" + b"\x03\0\x05\0\x04" + b"\x01\0\xff"
    assert message.sent_time > 1e9
    with pytest.raises(OverflowError):
        pair.link.send(bytes(65_536))


def test_a_handshake_is_two_calls(ends: Callable[..., Ends]) -> None:
    pair = ends()
    pair.says(KeepAlive(), INIT_ACK, OPEN_ACK, end=False)
    ack = pair.link.sr1(Init(zid="aa"), timeout=TIMEOUT)
    assert ack.cookie == b"c"
    # The answer to OPEN came with that to INIT and waits in our end; select knows.
    done = pair.link.sr1(Open(cookie=ack.cookie), timeout=TIMEOUT)
    assert done == Open(bytes(OPEN_ACK))
    assert pair.there.recv(100) == prefixed(bytes(INIT_SYN)) + prefixed(bytes(OPEN_SYN))


def test_a_refused_handshake_is_an_answer(ends: Callable[..., Ends]) -> None:
    pair = ends()
    pair.says(Close(reason="MAX_LINKS"))
    assert pair.link.sr1(Init(), timeout=TIMEOUT).reason == 4


def test_replies_are_found_by_their_request(ends: Callable[..., Ends]) -> None:
    pair = ends()
    replies = [
        Frame(sn=1, messages=[Push(body=Put()), Response(request_id=2, body=Reply(body=Put(data=b"2")))]),
        Frame(sn=2, messages=[Response(request_id=1, body=Reply(body=Put(data=b"1")))]),
        Frame(sn=3, messages=[ResponseFinal(request_id=9)]),
        Frame(sn=4, messages=[ResponseFinal(request_id=1), KeepAlive()]),
    ]
    pair.says(*replies)
    asked = [Frame(sn=n, messages=[Request(request_id=n, body=Query())]) for n in (1, 2, 3)]
    answered, silent = pair.link.sr(asked, multi=True, timeout=TIMEOUT, threaded=False)
    assert [(one.sn, other.sn) for one, other in answered] == [(2, 1), (1, 2), (1, 4)]
    assert [one.sn for one in silent] == [3]


def test_replies_without_frames_are_found_too(ends: Callable[..., Ends]) -> None:
    pair = ends(prefix=4)
    for reply in (Response(request_id=7, body=Err(data=b"no")), RESPONSE):
        pair.there.sendall(len(reply).to_bytes(4, "little") + bytes(reply))
    assert pair.link.sr1(REQUEST, timeout=TIMEOUT).body.body == Put(b"\x01\x00")


def test_two_links_can_be_sniffed_together(ends: Callable[..., Ends]) -> None:
    from scapy.sendrecv import sniff

    pairs = [ends(), ends()]
    for sn, pair in enumerate(pairs):
        pair.says(Frame(sn=sn), Frame(sn=sn + 10), KeepAlive())
    came = sniff(opened_socket=[pair.link for pair in pairs], timeout=TIMEOUT)
    assert sorted(message.sn for message in came if Frame in message) == [0, 1, 10, 11]
    assert len(came) == 6


# Datagrams ----------------------------------------------------------------------------------------


@pytest.fixture
def datagrams() -> Iterator[list[socket.socket]]:
    """Four UDP sockets on loopback."""
    made = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(4)]
    for one in made:
        one.bind(("127.0.0.1", 0))
    yield made
    for one in made:
        one.close()


def test_several_nodes_answer_one_scout(datagrams: list[socket.socket]) -> None:
    here, *nodes = datagrams
    for number, node in enumerate(nodes, 1):
        node.sendto(bytes(Hello(zid=f"{number}", locators=["tcp/a:1"])), here.getsockname())
    link = ZenohDatagramSocket(here, nodes[0].getsockname(), scouting=True)
    seen: list[Packet] = []

    def are_all_here(message: Packet) -> bool:
        seen.append(message)
        return len(seen) == len(nodes)

    answered, _ = link.sr(Scout(), multi=True, timeout=TIMEOUT, threaded=False, stop_filter=are_all_here)
    assert [hello.zid for _, hello in answered] == [b"\x01", b"\x02", b"\x03"]
    assert [hello.comment.decode() for _, hello in answered] == [
        "127.0.0.1:{1}".format(*node.getsockname()) for node in nodes
    ]
    assert nodes[0].recv(100) == bytes(Scout())


def test_a_datagram_is_a_batch_on_a_session_link(datagrams: list[socket.socket]) -> None:
    here, there, *_ = datagrams
    here.connect(there.getsockname())
    link = ZenohDatagramSocket(here)
    for raw in (b"", bytes(KeepAlive()) + bytes(INIT_ACK) + b"\x1a"):
        there.sendto(raw, here.getsockname())
    assert link.sr1(INIT_SYN, timeout=TIMEOUT).cookie == b"c"
    assert there.recv(100) == bytes(INIT_SYN)
    assert link.is_ready()
    rest = link.recv()
    assert rest is not None
    assert bytes(rest) == b"\x1a"


def test_a_datagram_socket_without_addresses_works() -> None:
    here, there = socket.socketpair(type=socket.SOCK_DGRAM)
    with ZenohDatagramSocket(here, scouting=True) as link, there:
        there.send(bytes(Hello()))
        hello = link.sr1(Scout(), timeout=TIMEOUT)
        assert hello == Hello(bytes(Hello()))
        assert hello.comment is None


# Ports --------------------------------------------------------------------------------------------


@pytest.fixture
def udp(monkeypatch: pytest.MonkeyPatch) -> None:
    """UDP as if nothing of Zenoh were bound; afterwards it is as before."""
    others = [bound for bound in UDP.payload_guess if bound[1].__module__.startswith("scapy.")]
    others = [bound for bound in others if bound[1] is not Batch]
    monkeypatch.setattr(UDP, "payload_guess", [*others, ({"sport": 53}, DNS)])
    monkeypatch.setattr(ports, "_bound", [])
    for cls in (Scout, Hello, Batch):
        monkeypatch.setattr(cls, "_overload_fields", {})


def carried(message: Packet, **port: int) -> Packet:
    """Returns what Scapy finds in a datagram."""
    return UDP(bytes(UDP(**port) / Raw(bytes(message)))).payload


@pytest.mark.usefixtures("udp")
def test_ports_are_bound_in_both_directions_and_filled_in() -> None:
    bind_ports()
    for way in ("sport", "dport"):
        assert carried(Scout(), **{way: 7446}) == Scout(bytes(Scout()))
        assert carried(Hello(), **{way: 7446}) == Hello(bytes(Hello()))
        assert carried(FRAME, **{way: 7447})[Batch].messages == [Frame(bytes(FRAME))]
    assert type(carried(Raw(b"\x00"), dport=7446)) is Raw
    assert ((UDP() / Scout()).dport, (UDP() / Hello()).sport, (UDP() / Batch()).dport) == (7446, 7446, 7447)


@pytest.mark.usefixtures("udp")
def test_bound_ports_go_before_scapys_default_source_port() -> None:
    bind_ports()
    assert type(carried(Scout(), sport=53, dport=7446)) is Scout
    assert type(carried(Scout(), sport=53, dport=7445)) is not Scout


@pytest.mark.usefixtures("udp")
def test_binding_again_moves_the_ports() -> None:
    bind_ports()
    bind_ports(scouting=17_446, session=(17_447, 17_448))
    assert Scout not in carried(Scout(), dport=7446, sport=1)
    assert Scout in carried(Scout(), dport=17_446)
    assert Batch not in carried(FRAME, dport=7447, sport=1)
    assert Batch in carried(FRAME, sport=17_447)
    assert Batch in carried(FRAME, dport=17_448)
    assert ((UDP() / Scout()).dport, (UDP() / Batch()).dport) == (17_446, 17_447)


@pytest.mark.usefixtures("udp")
def test_unbinding_leaves_udp_as_it_was() -> None:
    before = UDP.payload_guess[:]
    bind_ports(scouting=(), session=9)
    assert len(UDP.payload_guess) == len(before) + 2
    bind_ports()
    unbind_ports()
    unbind_ports()
    assert UDP.payload_guess == before
    assert (UDP() / Batch()).dport == UDP().dport


# A campaign ---------------------------------------------------------------------------------------


def test_the_campaign_runs_under_utscapy(tmp_path: Path) -> None:
    campaign = Path(__file__).with_name("zenoh.uts")
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "scapy.tools.UTscapy", "-t", str(campaign), "-f", "text"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "passed]" in done.stdout


@pytest.mark.parametrize("wrong", [0, 70000, -1, "a", [7447, 70000], None])
def test_what_is_no_port_is_refused_and_leaves_those_that_are_bound(wrong: Any) -> None:
    bind_ports()
    with pytest.raises(ValueError, match="is no UDP port"):
        bind_ports(session=wrong)
    assert isinstance(UDP(bytes(UDP(sport=1, dport=7447) / b"\x04")).payload, Batch)
