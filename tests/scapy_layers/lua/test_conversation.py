"""What ``zenoh.lua`` remembers of a conversation, as tshark shows it, against ``scapy_layers.conversation``."""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from random import Random
from typing import TypeAlias

import pytest

from scapy_layers import capture, catalogue, names
from scapy_layers.codes import Kind
from scapy_layers.conversation import Exchange, Heard, listen
from scapy_layers.conversation.heard import Unread
from scapy_layers.data import Put, Query, Reply
from scapy_layers.declarations import (
    DeclareFinal,
    DeclareSubscriber,
    DeclareToken,
    UndeclareKeyExpr,
    UndeclareSubscriber,
    UndeclareToken,
)
from scapy_layers.extensions import (
    Compression,
    First,
    LowLatency,
    MultiLinkInitAck,
    MultiLinkInitSyn,
    Patch,
    WireExpr,
)
from scapy_layers.lint import Severity, findings
from scapy_layers.network import Declare, Interest, Push, Request, Response, ResponseFinal
from scapy_layers.stream import units_of
from scapy_layers.transport import Close, Fragment, Frame, Init, KeepAlive, Open
from tests.agreement import damage
from tests.scapy_layers.lua.experts import number_of, pdml
from tests.scapy_layers.lua.made import (
    COOKIE,
    ZIDS,
    Anything,
    Datagrams,
    Talk,
    alias,
    frame,
    lossy_datagrams,
    put,
    save,
)
from tests.scapy_layers.scan.heard import packets, written

PCAPS = Path(__file__).parents[3] / "pcaps"
CAPTURES = sorted(path.stem for path in PCAPS.glob("*.pcapng"))
MESSAGES = {
    f"zenoh.{names.layer_name(described)}"
    for (kind, _), described in catalogue.shapes().items()
    if kind in {Kind.SCOUTING, Kind.TRANSPORT, Kind.NETWORK}
}
EXPERTS = [
    "place",
    "range",
    "gap",
    "loss",
    "duplicate",
    "old",
    "unordered",
    "lane",
    "fragment",
    "alias",
    "request",
    "declaration",
    "limit",
]
"""The expert infos of the conversation; others say what strict decoding refuses."""

NUMBERED = {"zenoh.frame", "zenoh.fragment"}
"""What shows priority and reliability, for all that it carries."""

ASIDE = {"dropped", "unresponsive"}
"""Captures in which a sender gives a message up half way, or a node is stopped: there is something to be said."""

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


@dataclass
class Told:
    """What is said of one message.

    Attributes:
        number: Of the packet.
        name: ``zenoh.push`` ...
        fields: Of the conversation, by name without ``zenoh.``: all values.
        experts: Ids of the expert infos.
    """

    number: int
    name: str
    fields: dict[str, list[str]] = field(default_factory=dict)
    experts: list[str] = field(default_factory=list)

    def one(self, name: str) -> str | None:
        """Returns the only value of a field."""
        values = self.fields.get(name, [])
        assert len(values) <= 1, f"{self}: {name} more than once"
        return values[0] if values else None

    def numbers(self, name: str) -> list[int]:
        """Returns packet numbers."""
        return [int(value) for value in self.fields.get(name, [])]


# tshark -------------------------------------------------------------------------------------------


def tshark(path: Path, *options: str) -> list[Told]:
    """Returns what tshark says of the messages of a capture."""
    found: list[Told] = []
    for packet in pdml(path, *options):
        number = number_of(packet)
        for proto in packet.findall("proto"):
            if proto.get("name", "").startswith("zenoh"):
                found += _messages(proto, number, {})
    return found


def _messages(node: ET.Element, number: int, ends: dict[str, list[str]]) -> Iterator[Told]:
    own = {
        name: [child.attrib["show"] for child in node if child.get("name") == f"zenoh.{name}"]
        for name in ("srczid", "dstzid")
    }
    ends = {name: values or ends.get(name, []) for name, values in own.items()}
    for child in node:
        name = child.get("name", "")
        if name in MESSAGES:
            told = Told(number, name, dict(ends))
            for inner in child:
                label = inner.get("name", "")
                if label.count(".") == 1:
                    told.fields.setdefault(label.removeprefix("zenoh."), []).append(inner.get("show", ""))
                told.experts += [
                    one.get("name", "").rpartition(".")[2]
                    for one in inner.iter()
                    if one.get("name", "").startswith("zenoh.expert.") and label == "_ws.expert"
                ]
            told.experts = [one for one in told.experts if one in EXPERTS]
            yield told
        yield from _messages(child, number, ends)


DECODE_AS = {"packed_multicast": "udp.port==57861,zenoh", "unicast_scouting": "udp.port==42638,zenoh"}
"""Captures of which a single packet does not show what it is: users would say so, too."""

_POOL = ThreadPoolExecutor(2)


ONCE = (
    "query_lanes",
    "undeclarations",
    "interleaved",
    "lowlatency",
    "compression",
    "joins",
    "meeting",
    "mesh",
)
"""Captures that are read in one pass as well."""


_runs: dict[tuple[str, bool], Future[list[Told]]] = {}


@pytest.fixture(scope="module", autouse=True)
def _begun(request: pytest.FixtureRequest) -> None:
    """Begins all runs at once that the selected tests need: tshark takes most of its time to start."""
    params = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    chosen = {one.params["name"] for one in params if one is not None and "name" in one.params}
    for name in CAPTURES:
        for twice in (True, False) if name in ONCE else (True,):
            if name in chosen:
                _runs[name, twice] = _POOL.submit(tshark, PCAPS / f"{name}.pcapng", *_options(name, twice))


def _options(name: str, twice: bool) -> list[str]:
    given = ["-2"] if twice else []
    if name in DECODE_AS:
        given += ["-d", DECODE_AS[name]]
    return [*given, "-Y", "zenoh"]


def dissected(name: str, *, twice: bool = True) -> list[Told]:
    """Returns what tshark says of a capture, read in one pass or in two."""
    return _runs[name, twice].result()


# scapy_layers -------------------------------------------------------------------------------------


@cache
def heard(path: Path) -> list[tuple[str, Heard]]:
    """Returns what ``listen`` says of a capture, in order of packets, with the name of each message in tshark."""
    return list(_named(listen(capture.read(path))))


def _named(told: Iterable[object]) -> Iterator[tuple[str, Heard]]:
    messages = [one for one in told if isinstance(one, Heard) and not isinstance(one.message, Unread)]
    for one in sorted(messages, key=_number):
        described = catalogue.shapes()[one.message.kind, type(one.message).id]
        yield f"zenoh.{names.layer_name(described)}", one


def _number(one: Heard) -> int:
    return one.number


Pairs: TypeAlias = list[tuple[Told, Heard]]


def _pairs(name: str) -> Pairs:
    """Returns every message of a capture as both see it."""
    return _matched(dissected(name), heard(PCAPS / f"{name}.pcapng"))


def _matched(ours: list[Told], theirs: list[tuple[str, Heard]]) -> Pairs:
    assert [(one.number, one.name) for one in ours] == [(one.number, called) for called, one in theirs]
    return [(one, other) for one, (_, other) in zip(ours, theirs, strict=True)]


def _check_keys(pairs: Pairs) -> None:
    for told, one in pairs:
        assert told.one("keyexpr") == one.keyexpr, told
        assert (told.one("srczid"), told.one("dstzid")) == (one.source_zid, one.target_zid), told
        numbered = one.lane if told.name in NUMBERED else None
        lane = None if numbered is None else (str(int(numbered.priority)), str(int(numbered.reliable)))
        assert (told.one("priority"), told.one("reliability")) == (lane or (None, None)), told


def _check_links(pairs: Pairs) -> None:
    begun: set[int] = set()
    for told, one in pairs:
        assert _links(told) == _expected_links(told.name, one, id(one.exchange) not in begun), told
        begun.add(id(one.exchange))


def _check_remarks(pairs: Pairs) -> None:
    for told, one in pairs:
        expected = [str(remark.kind) for remark in one.remarks if remark.kind in EXPERTS]
        assert sorted(told.experts) == sorted(expected), told


def _check_fragments(pairs: Pairs) -> None:
    packets: list[int] = []
    for told, one in pairs:
        if isinstance(one.message, Fragment):
            packets = told.numbers("fragments")
        elif one.pieces:
            assert tuple(packets) == one.pieces, told
            packets = []


# Every capture ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CAPTURES)
def test_capture_gives_the_messages_keys_and_ends_that_the_layers_give(name: str) -> None:
    _check_keys(_pairs(name))


@pytest.mark.parametrize("name", CAPTURES)
def test_capture_links_what_belongs_together(name: str) -> None:
    _check_links(_pairs(name))


def _links(told: Told) -> dict[str, list[int]]:
    known = (
        "request_in",
        "response_in",
        "final_in",
        "declared_in",
        "undeclared_in",
        "interest_in",
        "scout_in",
    )
    found = {link: told.numbers(link) for link in (*known, "hello_in")}
    return {link: numbers for link, numbers in found.items() if numbers}


def _expected_links(name: str, one: Heard, begins: bool) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    exchange, interest = one.exchange, one.interest
    if interest:
        found["interest_in"] = [interest.asked]
    if exchange and name in {"zenoh.response", "zenoh.response_final"}:
        found["request_in"] = [exchange.asked]
    elif exchange and name == "zenoh.hello":
        found["scout_in"] = [exchange.asked]
    elif exchange and name == "zenoh.scout":
        found["hello_in"] = _answers(exchange)
    elif exchange and name == "zenoh.request":
        found["response_in"] = _answers(exchange)
        found["final_in"] = _if_any(exchange.ended)
    elif exchange and name == "zenoh.interest" and one.message.fields["mode"]:
        found["response_in"] = _answers(exchange)
        found["final_in"] = _if_any(exchange.complete)
    elif exchange and name == "zenoh.interest":
        found["interest_in"] = [exchange.asked]
    elif exchange and exchange is not interest:
        if begins:
            found["undeclared_in"] = _if_any(exchange.ended)
        else:
            found["declared_in"] = [exchange.asked]
    return {link: numbers for link, numbers in found.items() if numbers}


def _answers(exchange: Exchange) -> list[int]:
    """Packet numbers of the answers; one is named once for its packet."""
    return list(dict.fromkeys(answer.number for answer in exchange.answers))


def _if_any(number: int | None) -> list[int]:
    return [] if number is None else [number]


@pytest.mark.parametrize("name", CAPTURES)
def test_capture_tells_the_time_between_request_and_response(name: str) -> None:
    for told, one in _pairs(name):
        answers = told.name in {"zenoh.response", "zenoh.response_final"} and one.exchange
        expected = (one.time - one.exchange.asked_time) / 1e9 if answers and one.exchange else None
        measured = told.one("response_time")
        assert (measured is None) == (expected is None), told
        if measured is not None and expected is not None:
            assert float(measured) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("name", CAPTURES)
def test_capture_puts_fragments_together(name: str) -> None:
    _check_fragments(_pairs(name))


@pytest.mark.parametrize("name", CAPTURES)
def test_capture_is_remarked_on_as_the_layers_do(name: str) -> None:
    pairs = _pairs(name)
    _check_remarks(pairs)
    if name not in ASIDE:
        assert not any(told.experts for told, _ in pairs)


@pytest.mark.parametrize("name", ONCE)
def test_one_pass_tells_the_same_but_for_what_is_to_come(name: str) -> None:
    to_come = {"response_in", "final_in", "undeclared_in", "hello_in", "reassembled_in"}
    for once, twice in zip(dissected(name, twice=False), dissected(name), strict=True):
        later = {key: values for key, values in twice.fields.items() if key not in to_come}
        assert (once.number, once.name, once.fields, once.experts) == (
            twice.number,
            twice.name,
            later,
            twice.experts,
        )


# Made up ------------------------------------------------------------------------------------------


def _of(path: Path, *talks: Talk, options: Sequence[str] = ("-Y", "zenoh")) -> list[Told]:
    return tshark(save(path / "made.pcap", *talks), *options)


def _keys(told: Iterable[Told]) -> list[str | None]:
    return [one.one("keyexpr") for one in told if one.name == "zenoh.push"]


def _experts(told: Iterable[Told]) -> list[tuple[int, str]]:
    return [(one.number, expert) for one in told for expert in one.experts]


@pytest.mark.parametrize("seed", range(4))
def test_anything_is_taken_as_the_layers_take_it(seed: int, tmp_path: Path) -> None:
    made = save(tmp_path / "made.pcap", *Anything(seed).talks(15))
    pairs = _matched(tshark(made, "-2", "-Y", "zenoh"), heard(made))
    _check_keys(pairs)
    _check_links(pairs)
    _check_remarks(pairs)
    _check_fragments(pairs)


def test_broken_sequence_is_noticed(tmp_path: Path) -> None:
    talk = Talk()
    talk.handshake(fsn=1)  # packets 3 to 6
    for sn in (10, 11, 14, 14, 12, 0x4000, 15):
        talk.say(frame(sn, put("a")))
    talk.answer(Frame(R=0, sn=25, messages=[put("b")]))
    assert _experts(_of(tmp_path, talk)) == [
        (9, "gap"),
        (10, "duplicate"),
        (11, "old"),
        (12, "range"),
        (14, "loss"),
    ]


def test_what_is_lost_from_the_capture_raises_no_alarm(tmp_path: Path) -> None:
    talk = Talk()
    talk.handshake()
    talk.say(frame(10, alias(1, "a"), Request(request_id=1, N=1, key_suffix="q", body=Query())))
    talk.lose(frame(11, alias(2, "b")))
    talk.say(frame(12, put(scope=2), put(scope=1)))
    talk.lose(frame(20, Response(request_id=1, N=1, key_suffix="q", body=Reply(body=Put()))), back=True)
    talk.answer(frame(21, ResponseFinal(request_id=2), put(scope=2, own=False)))
    told = _of(tmp_path, talk)
    assert _experts(told) == []
    assert _keys(told) == [None, "a", None]


@pytest.mark.parametrize("number", [10, 12, 23])
def test_datagram_that_the_snap_length_cut_is_missing(number: int, tmp_path: Path) -> None:
    given = packets((PCAPS / "packed_datagrams.pcapng").read_bytes())
    time, link, raw, size = given[number - 1]
    path = tmp_path / "x.pcap"
    path.write_bytes(written([*given[: number - 1], (time, link, raw[:60], size), *given[number:]]))
    pairs = _matched(tshark(path), heard(path))
    _check_keys(pairs)
    _check_remarks(pairs)


@pytest.mark.parametrize("options", [(), ("-2", "-Y", "zenoh")])
def test_what_comes_once_more_with_an_acknowledgement_of_lost_bytes_is_told_once(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    talk = Talk()
    talk.handshake()
    talk.lose(frame(20, put("a")), back=True)
    talk.say(frame(10, put("b")))
    talk.packets.append(talk.packets[-1])
    talk.say(frame(11, put("c")))
    told = _of(tmp_path, talk, options=options)
    assert _experts(told) == []
    assert _keys(told) == ["b", "c"]


@pytest.mark.parametrize(
    "then", [frame(12, put("c")), Fragment(R=1, sn=12, extensions=[First()], data=b"\x1d")]
)
def test_message_in_fragments_of_which_the_capture_lacks_some_raises_no_alarm(
    then: Frame | Fragment, tmp_path: Path
) -> None:
    talk = Talk()
    talk.handshake(Patch(patch=1))
    whole = bytes(put("a/b"))
    talk.say(Fragment(R=1, M=1, sn=10, extensions=[First()], data=whole[:4]))
    talk.lose(Fragment(R=1, sn=11, data=whole[4:]))
    talk.say(then)
    assert _experts(_of(tmp_path, talk)) == []


@pytest.mark.parametrize("patch", [0, 1])
@pytest.mark.parametrize("vain", [0, 1])
def test_datagrams_with_fragments_that_are_lost_are_taken_as_the_layers_take_them(
    patch: int, vain: int, tmp_path: Path
) -> None:
    made = save(tmp_path / "made.pcap", *lossy_datagrams(patch, vain))
    pairs = _matched(tshark(made, "-2", "-Y", "zenoh"), heard(made))
    _check_remarks(pairs)
    _check_fragments(pairs)
    said = {kind for told, _ in pairs for kind in told.experts}
    assert "unordered" in said
    assert ("fragment" in said) == (patch == 1 and vain == 0)


def test_first_of_two_passes_without_fields_raises_no_alarm_for_what_is_lost(tmp_path: Path) -> None:
    talk = Talk()
    talk.handshake()
    talk.say(frame(10, alias(1, "a")))
    talk.lose(frame(11, put("b")))
    talk.say(frame(12, put(scope=1)))
    told = _of(tmp_path, talk, options=("-2",))
    assert _experts(told) == []
    assert _keys(told) == ["a"]


@pytest.mark.parametrize("name", ["query_lanes", "undeclarations", "interleaved", "lowlatency", "multilink"])
def test_two_passes_without_a_filter_tell_the_same(name: str) -> None:
    path = PCAPS / f"{name}.pcapng"
    once, twice = tshark(path, "-2"), tshark(path, "-2", "-Y", "zenoh")
    assert [(one.number, one.name, one.fields) for one in once] == [
        (one.number, one.name, one.fields) for one in twice
    ]


@pytest.mark.parametrize("wanted", ["zenoh.put", "zenoh.request", "zenoh.close"])
@pytest.mark.parametrize("name", ["query", "fragments", "lowlatency", "compression", "joins"])
def test_packets_that_are_left_out_say_what_the_others_mean(name: str, wanted: str) -> None:
    """Those that ``-R`` leaves out have the number of the next one that stays."""
    path = PCAPS / f"{name}.pcapng"
    marked, alone = tshark(path, "-2", "-Y", wanted), tshark(path, "-2", "-R", wanted)
    assert [_but_numbers(one) for one in alone] == [_but_numbers(one) for one in marked]


def _but_numbers(told: Told) -> tuple[str, dict[str, list[str]], list[str]]:
    """What is said of a message, without numbers of packets."""
    said = {"keyexpr", "srczid", "dstzid", "priority", "reliability", "response_time"}
    return told.name, {name: told.fields[name] for name in said & told.fields.keys()}, told.experts


def test_alias_means_what_it_meant_at_the_time_whenever_it_is_read(tmp_path: Path) -> None:
    talk = Talk()
    talk.handshake()
    sn = 10
    for key in ("a", "b", "c"):
        talk.say(frame(sn, alias(1, key)))
        talk.say(frame(sn + 1, put("/x", scope=1)))
        talk.say(frame(sn + 2, Declare(body=UndeclareKeyExpr(key_id=1))))
        talk.answer(frame(20 + (sn - 10) // 3, put(scope=1, own=False)))  # it was under way
        sn += 3
    expected = ["a/x", "a", "b/x", "b", "c/x", "c"]
    assert _keys(_of(tmp_path, talk)) == expected
    assert _keys(_of(tmp_path, talk, options=("-2", "-Y", "zenoh"))) == expected


def test_token_without_a_number_and_a_name_is_taken_back(tmp_path: Path) -> None:
    talk = Talk()
    talk.handshake()
    nameless = Declare(body=UndeclareToken(extensions=[WireExpr()]))
    talk.say(frame(10, Declare(body=DeclareToken(N=1, key_suffix="a"))))  # 7
    talk.say(frame(11, nameless))
    talk.lose(frame(12, Declare(body=DeclareToken(N=1, key_suffix="b"))))
    talk.say(frame(13, nameless))
    told = [one for one in _of(tmp_path, talk, options=("-2", "-Y", "zenoh")) if one.name == "zenoh.declare"]
    assert [(one.one("keyexpr"), _links(one)) for one in told] == [
        ("a", {"undeclared_in": [8]}),
        ("a", {"declared_in": [7]}),
        (None, {}),
    ]
    assert not any(one.experts for one in told)


def test_request_id_that_is_used_again_leads_to_the_latest_request(tmp_path: Path) -> None:
    talk = Talk()
    talk.handshake()
    for turn in range(3):
        talk.say(frame(10 + turn, Request(request_id=7, N=1, key_suffix="q", body=Query())))  # 7, 10, 13
        talk.answer(frame(20 + 2 * turn, Response(request_id=7, N=1, key_suffix="q", body=Reply(body=Put()))))
        talk.answer(frame(21 + 2 * turn, ResponseFinal(request_id=7)))
    told = _of(tmp_path, talk, options=("-2", "-Y", "zenoh"))
    links = [(one.number, _links(one)) for one in told if _links(one)]
    assert links == [
        link
        for at in (7, 10, 13)
        for link in (
            (at, {"response_in": [at + 1], "final_in": [at + 2]}),
            (at + 1, {"request_in": [at]}),
            (at + 2, {"request_in": [at]}),
        )
    ]


SECOND_TIMES = {
    "alias": (alias(3, "a"), Declare(body=UndeclareKeyExpr(key_id=3)), alias(3, "b"), False),
    "subscriber": (
        Declare(body=DeclareSubscriber(entity_id=3, N=1, key_suffix="a")),
        Declare(body=UndeclareSubscriber(entity_id=3)),
        Declare(body=DeclareSubscriber(entity_id=3, N=1, key_suffix="b")),
        False,
    ),
    "request": (
        Request(request_id=3, N=1, key_suffix="a", body=Query()),
        ResponseFinal(request_id=3),
        Request(request_id=3, N=1, key_suffix="b", body=Query()),
        True,
    ),
}
"""What takes a number, what gives it back, what takes it again, and whether the other end gives it back."""


@pytest.mark.parametrize("carrier", [Talk, Datagrams])
@pytest.mark.parametrize("name", SECOND_TIMES)
def test_number_that_was_given_back_unheard_may_be_taken_again(
    name: str, carrier: type[Talk], tmp_path: Path
) -> None:
    first, back, again, answered = SECOND_TIMES[name]
    talk = carrier()
    talk.handshake()
    talk.say(frame(10, first))
    talk.lose(frame(20 if answered else 11, back), back=answered)
    talk.answer(frame(20 + answered, put("c")))
    talk.say(frame(11 if answered else 12, again))
    talk.say(frame(12 if answered else 13, put(scope=3) if name == "alias" else put("b")))
    told = _of(tmp_path, talk, options=("-2", "-Y", "zenoh"))
    path = tmp_path / "made.pcap"
    pairs = _matched(told, heard(path))
    _check_keys(pairs)
    _check_links(pairs)
    _check_remarks(pairs)
    assert _keys(told)[-1] == "b"
    assert {expert for _, expert in _experts(told)} <= {"unordered"}
    assert not [one for one in findings(units_of(path)) if one.severity is not Severity.DEVIATION]


@pytest.mark.parametrize("name", SECOND_TIMES)
def test_number_that_is_in_use_is_a_fault_where_nothing_can_be_lost(name: str, tmp_path: Path) -> None:
    first, _, again, _ = SECOND_TIMES[name]
    for carrier, expected in ((Talk, name), (Datagrams, "unordered")):
        talk = carrier()
        talk.handshake()
        talk.say(frame(10, first))
        talk.say(frame(11, again))
        told = _of(tmp_path, talk, options=("-2", "-Y", "zenoh"))
        _check_remarks(_matched(told, [*_named(listen(capture.read(tmp_path / "made.pcap")))]))
        assert [expert for _, expert in _experts(told)] == [expected.replace("subscriber", "declaration")]


def test_final_that_overtakes_an_answer_over_udp_is_no_fault_where_nothing_is_numbered(
    tmp_path: Path,
) -> None:
    talk = Datagrams()
    talk.handshake(LowLatency())
    talk.say(Request(request_id=3, N=1, key_suffix="a", body=Query()))
    talk.answer(ResponseFinal(request_id=3))
    talk.answer(Response(request_id=3, N=1, key_suffix="a", body=Reply(body=Put(data=b"x"))))
    told = _of(tmp_path, talk)
    path = tmp_path / "made.pcap"
    _check_remarks(_matched(told, heard(path)))
    assert [expert for _, expert in _experts(told)] == ["unordered"]
    assert not [one for one in findings(units_of(path)) if one.severity is not Severity.DEVIATION]


@pytest.mark.parametrize("heard_of", ["all", "nothing of OPEN", "nothing of the handshake"])
def test_low_latency_is_followed_whatever_was_captured_of_the_handshake(
    heard_of: str, tmp_path: Path
) -> None:
    long = "key/that/tells/more" * 5  # else nobody can know in mid session that it is one
    talk = Talk()
    talk.handshake(LowLatency())
    if heard_of != "all":
        del talk.packets[{"nothing of OPEN": slice(4, 6), "nothing of the handshake": slice(0, 6)}[heard_of]]
    talk.say(put(f"{long}/a"))
    talk.answer(put(f"{long}/b"))
    talk.say(KeepAlive())
    talk.say(put(f"{long}/c"))
    talk.say(Close(S=0, reason=0))
    talk.raw(b"\x02\0\x03\0")  # as real nodes leave
    told = _of(tmp_path, talk, options=("-2", "-Y", "zenoh", "-d", "tcp.port==7447,zenoh"))
    assert _keys(told) == [f"{long}/{end}" for end in "abc"]
    assert [one.name for one in told][-2:] == ["zenoh.close", "zenoh.close"]
    assert _experts(told) == []


def test_low_latency_is_followed_where_the_first_answer_was_captured_in_two_pieces_out_of_order(
    tmp_path: Path,
) -> None:
    talk = Talk()
    talk.handshake(LowLatency())
    answer = damage.packet(talk.packets[3])
    talk.packets[3:4] = [damage.piece(answer, 9, 99).raw, damage.piece(answer, 0, 9).raw]
    talk.say(put("a"))
    told = _of(tmp_path, talk, options=("-o", "tcp.reassemble_out_of_order:TRUE"))
    assert [one.name for one in told] == [*["zenoh.init"] * 2, *["zenoh.open"] * 2, "zenoh.push"]


@pytest.mark.parametrize("size", [1_448, 47_616])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "compression"])
def test_transfer_that_is_under_way_is_not_taken_for_batches(packed: bool, size: int, tmp_path: Path) -> None:
    """Random bytes hold many places that look like a FRAGMENT, behind whose head may be anything."""
    random = Random(size)
    talk = Talk()
    talk.packed = packed
    first = 100_000_000
    pieces = [Fragment(R=1, sn=first + at, M=1, data=random.randbytes(65_000)) for at in range(12)]
    batches = [b"\0" * packed + bytes(piece) for piece in pieces]
    stream = b"".join(len(batch).to_bytes(2, "little") + batch for batch in batches)
    del talk.packets[:]  # the capture begins in the middle of it
    for at in range(40_000, len(stream), size):
        talk.raw(stream[at : at + size])
        if at % 7 == 0:
            talk.answer(KeepAlive())
    talk.say(Fragment(R=1, sn=first + 12, data=b"x"))
    talk.say(Frame(R=1, sn=first + 13, messages=[put("behind/the/transfer")]))
    talk.answer(Frame(R=1, sn=200_000_000, messages=[put("in/answer/to/it")]))
    told = _of(tmp_path, talk, options=("-2", "-Y", "zenoh"))
    assert [key for key in _keys(told) if key] == ["behind/the/transfer", "in/answer/to/it"]
    assert {one.name for one in told} <= {
        f"zenoh.{name}" for name in ("fragment", "frame", "push", "keep_alive")
    }
    assert {expert for _, expert in _experts(told)} <= {"gap", "fragment"}


def test_end_of_a_transfer_that_looks_like_a_begin_hides_nothing_behind_it(tmp_path: Path) -> None:
    talk = Talk()
    del talk.packets[:]
    # The length of a large batch, and the head of a FRAGMENT.
    talk.raw(b"\xff\xff" + bytes(Fragment(R=1, sn=5, M=1, data=bytes(20_000))))
    talk.answer(Frame(R=1, sn=200_000_000, messages=[put("in/answer/to/it")]))
    for sn in range(13, 16):
        talk.say(Frame(R=1, sn=sn, messages=[put(f"behind/{sn}")]))
    told = _of(tmp_path, talk, options=("-2", "-Y", "zenoh"))
    assert [key for key in _keys(told) if key] == ["in/answer/to/it", "behind/13", "behind/14", "behind/15"]


def test_close_that_leaves_low_latency_with_compression_is_one(tmp_path: Path) -> None:
    talk = Talk()
    talk.handshake(LowLatency(), Compression())
    talk.say(put("a"))
    talk.say(Close(S=0, reason=0))
    talk.raw(b"\x03\0\0\x03\0")  # as real nodes leave
    told = _of(tmp_path, talk, options=("-2", "-Y", "zenoh"))
    assert [one.name for one in told][-3:] == ["zenoh.push", "zenoh.close", "zenoh.close"]
    assert _experts(told) == []


def test_compression_is_followed_as_agreed(tmp_path: Path) -> None:
    talk = Talk()
    talk.handshake(Compression())
    talk.say(frame(10, alias(1, "key/of/the/alias")))
    plain = bytes(frame(11, put("/x", scope=1)))
    talk.packed = False
    talk.say(b"\1" + bytes([len(plain) << 4]) + plain)
    talk.answer(b"\1\xff")
    assert _keys(_of(tmp_path, talk, options=("-2", "-Y", "zenoh"))) == ["key/of/the/alias/x"]


def test_connection_between_the_same_ports_begins_anew(tmp_path: Path) -> None:
    first, second = Talk(), Talk()
    for talk, key in ((first, "a"), (second, "b")):
        talk.handshake()
        talk.say(frame(10, alias(1, key), put(scope=1)))
    second.restart(5_000_000)
    for options in ((), ("-2",), ("-2", "-Y", "zenoh")):
        told = _of(tmp_path, first, second, options=options)
        assert _keys(told) == ["a", "b"]
        assert _experts(told) == []


def _multilink(talk: Talk, fsn: int = 2) -> None:
    proof = {"n": b"\1" * 64, "e": b"\3"}
    offer = {"S": 1, "whatami": 1, "fsn": fsn}
    talk.say(Init(zid=ZIDS[0], extensions=[MultiLinkInitSyn(**proof)], **offer))
    talk.answer(Init(A=1, zid=ZIDS[1], cookie=COOKIE, extensions=[MultiLinkInitAck(**proof)], **offer))
    talk.say(Open(T=1, lease=10, initial_sn=10, cookie=COOKIE))
    talk.answer(Open(A=1, T=1, lease=10, initial_sn=20))


def _two_links(fsn: int = 2) -> tuple[Talk, Talk]:
    first = Talk()
    second = Talk(50_001, beside=first)
    for talk in (first, second):
        _multilink(talk, fsn)
    return first, second


def test_links_of_one_session_share_aliases_requests_and_numbers(tmp_path: Path) -> None:
    first, second = _two_links()
    first.say(frame(10, alias(1, "a")))
    second.say(frame(12, put("/x", scope=1)))
    first.say(frame(11, put("/y", scope=1), Request(request_id=1, N=1, key_suffix="q", body=Query())))
    second.answer(frame(20, put("/z", scope=1, own=False), ResponseFinal(request_id=1)))
    told = _of(tmp_path, first, options=("-2", "-Y", "zenoh"))
    assert _keys(told) == ["a/x", "a/y", "a/z"]
    assert _experts(told) == []
    assert told[-1].numbers("request_in") == [15]


@pytest.mark.parametrize(
    ("at_once", "crossing", "step"),
    [
        (True, True, 1),
        (False, True, 1),
        (False, True, 2400),
        (False, True, 2600),
        (True, False, 1),
        (False, False, 1),
    ],
)
def test_nodes_that_connect_to_each_other_have_one_session(
    at_once: bool, crossing: bool, step: int, tmp_path: Path
) -> None:
    first = Talk()
    second = Talk(50_001, beside=first)

    def shake(talk: Talk, one: bytes, other: bytes, sn: int) -> list[Callable[[], None]]:
        return [
            lambda: talk.say(Init(S=1, whatami=1, zid=one)),
            lambda: talk.answer(Init(S=1, A=1, whatami=1, zid=other, cookie=COOKIE)),
            lambda: talk.say(Open(T=1, lease=10, initial_sn=sn, cookie=COOKIE)),
            lambda: talk.answer(Open(A=1, T=1, lease=10, initial_sn=30 - sn)),
        ]

    sn = 20 if crossing else 10
    both = shake(first, *ZIDS, 10), shake(second, *(ZIDS[::-1] if crossing else ZIDS), sn)
    for say in chain(*(zip(*both, strict=True) if at_once else both)):
        say()
    first.say(frame(10, alias(1, "a")))
    # In one session it is the next one.
    second.say(frame(sn if crossing else sn + 1, put("/x", scope=1, own=False)))
    told = tshark(save(tmp_path / "made.pcap", first, step=step), "-2", "-Y", "zenoh")
    united = crossing and 4 * step < 10_000  # the lease
    assert _keys(told) == ["a/x" if united else None]
    assert bool(_experts(told)) is not united


@pytest.mark.parametrize("kind", [Talk, Datagrams])
def test_link_that_one_end_has_closed_is_none_that_another_joins(kind: type[Talk], tmp_path: Path) -> None:
    first, second = kind(), kind(50_001)
    first.handshake()
    first.say(frame(10, alias(1, "a")))
    first.say(Close(S=0, reason=0))
    second.handshake(sn=(20, 10), zids=ZIDS[::-1])
    second.answer(frame(10, put("/x", scope=1)))
    told = _of(tmp_path, first, second, options=("-2", "-Y", "zenoh"))
    assert _keys(told) == [None]


@pytest.mark.parametrize(("closing", "whole", "united"), [(0, 0, True), (0, 1, False), (1, 0, False)])
def test_node_that_connects_again_is_in_the_session_while_the_other_one_has_a_link(
    closing: int, whole: int, united: bool, tmp_path: Path
) -> None:
    first = Talk()
    second, third = Talk(50_001, beside=first), Talk(50_002, beside=first)
    first.handshake()
    second.handshake(sn=(20, 10), zids=ZIDS[::-1])
    first.say(frame(10, alias(1, "a")))
    (first, second)[closing].say(Close(S=whole, reason=0))
    third.handshake()
    third.say(frame(11 if united else 10, put("/x", scope=1)))
    told = tshark(save(tmp_path / "made.pcap", first), "-2", "-Y", "zenoh")
    assert _keys(told) == ["a/x" if united else None]


@pytest.mark.parametrize("step", [1, 4000])
def test_session_of_several_links_that_ended_leaves_nothing_to_the_next(step: int, tmp_path: Path) -> None:
    first, second = Talk(), Talk(50_001)
    for talk, key in ((first, "a"), (second, "b")):
        _multilink(talk)
        talk.say(frame(10, alias(1, key), put(scope=1)))
        if step == 1:  # else it falls silent for longer than its lease
            talk.say(Close(S=0, reason=0))
    told = tshark(save(tmp_path / "made.pcap", first, second, step=step), "-2", "-Y", "zenoh")
    assert _keys(told) == ["a", "b"]
    assert _experts(told) == []


def test_first_number_may_come_late_on_another_link(tmp_path: Path) -> None:
    first, second = _two_links()
    first.say(frame(11, alias(1, "a")))
    second.say(frame(10, put("/x", scope=1)))
    second.say(frame(12, put("/y", scope=1)))
    told = _of(tmp_path, first, options=("-2", "-Y", "zenoh"))
    assert _keys(told) == ["a/x", "a/y"]
    assert _experts(told) == []


@pytest.mark.parametrize("dialed", [False, True])
def test_session_may_turn_out_late_to_be_another_one(dialed: bool, tmp_path: Path) -> None:
    first = Talk()
    second = Talk(50_001, beside=first)
    shake = Talk.handshake if dialed else _multilink
    shake(first)
    first.say(frame(10, alias(1, "a"), put(scope=1)))
    if dialed:
        second.handshake(sn=(20, 10), zids=ZIDS[::-1])
    else:
        _multilink(second)
    # In a lane that nothing was heard of before.
    second.say(
        frame(10, alias(2, "b"), Interest(interest_id=7, mode=1, subscribers=1, key_suffix="c"), lane=1),
        back=dialed,
    )
    second.say(frame(11, lane=1), back=dialed)
    second.say(frame(10, put("/x", scope=2)), back=dialed)
    second.say(frame(12, put("/y", scope=2), lane=1), back=dialed)
    second.say(
        frame(20, Declare(I=1, interest_id=7, body=DeclareFinal()), put("/z", scope=2, own=False)),
        back=not dialed,
    )
    told = _of(tmp_path, first, options=("-2", "-Y", "zenoh"))
    assert _keys(told) == ["a", "b/x", "b/y", "b/z"]
    assert [kind for _, kind in _experts(told)] == ["lane"] * 3  # they have not agreed on any
    assert sum(len(one.numbers("interest_in")) for one in told) == 1


@pytest.mark.parametrize("reliable", [False, True])
def test_number_that_comes_again_later_begins_no_session(reliable: bool, tmp_path: Path) -> None:
    first, second = _two_links()
    first.say(frame(10, alias(1, "a")))
    first.say(frame(10, reliable=False))
    second.say(frame(11, put("/x", scope=1)))
    second.say(frame(10, put("/y", scope=1), reliable=reliable))
    told = _of(tmp_path, first, options=("-2", "-Y", "zenoh"))
    assert _keys(told) == ["a/x", "a/y"]
    assert [kind for _, kind in _experts(told)] == ["old" if reliable else "duplicate"]


def test_number_that_follows_begins_no_session(tmp_path: Path) -> None:
    first, second = _two_links(fsn=0)
    first.say(frame(10, alias(1, "a")))
    for sn in (*range(11, 128), *range(10)):
        first.say(frame(sn))
    second.say(frame(10, put("/x", scope=1)))
    told = _of(tmp_path, first, options=("-2", "-Y", "zenoh"))
    assert _keys(told) == ["a/x"]
    assert _experts(told) == []


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("dialed", [False, True])
def test_session_whose_numbers_begin_again_is_another_one(
    dialed: bool, early: bool, answered: bool, tmp_path: Path
) -> None:
    first = Talk()
    second, third = Talk(50_001, beside=first), Talk(50_002, beside=first)
    shake = Talk.handshake if dialed else _multilink
    shake(first)
    first.say(frame(10, alias(1, "a"), put(scope=1)))
    first.answer(frame(20), frame(21))
    # The end of the first connection was not captured.
    if dialed:
        second.handshake(sn=(20, 10), zids=ZIDS[::-1])
    else:
        _multilink(second)
    if early:
        shake(third)
    numbers = [(False, frame(10, alias(1, "b"), put("/x", scope=1))), (True, frame(20))]
    for back, message in reversed(numbers) if answered else numbers:
        second.say(message, back=back != dialed)
    if not early:
        shake(third)
    third.say(frame(11, put("/y", scope=1)))
    third.answer(frame(21, put("/z", scope=1, own=False)))
    told = tshark(save(tmp_path / "made.pcap", first), "-2", "-Y", "zenoh")
    assert _keys(told) == ["a", "b/x", "b/y", "b/z"]
    assert _experts(told) == []


def test_fragments_name_each_other(tmp_path: Path) -> None:
    talk = Talk()
    talk.handshake(Patch(patch=1))
    whole = bytes(put("key/of/many/bytes"))
    for at, piece in enumerate((whole[:4], whole[4:9], whole[9:])):
        marks = [First()] if at == 0 else []
        talk.say(Fragment(R=1, M=int(at < 2), sn=10 + at, extensions=marks, data=piece))
    told = _of(tmp_path, talk, options=("-2", "-Y", "zenoh"))[4:]
    assert [one.name for one in told] == ["zenoh.fragment"] * 3 + ["zenoh.push"]
    assert [one.numbers("fragment_of") for one in told] == [[], [7], [7], []]
    assert [one.numbers("reassembled_in") for one in told] == [[9], [9], [], []]
    assert [one.numbers("fragments") for one in told] == [[], [], [7, 8, 9], []]
    assert _keys(told) == ["key/of/many/bytes"]


def test_second_pass_has_the_messages_of_more_fragments_than_are_kept(tmp_path: Path) -> None:
    talk = Talk()
    talk.handshake(Patch(patch=1))
    sn = 10
    for number in range(10):
        whole = bytes(Push(N=1, key_suffix=f"large/{number}", body=Put(data=bytes([number]) * (1 << 20))))
        pieces = [whole[at : at + 60_000] for at in range(0, len(whole), 60_000)]
        for at, piece in enumerate(pieces):
            marks = [First()] if at == 0 else []
            talk.say(Fragment(R=1, M=int(at < len(pieces) - 1), sn=sn, extensions=marks, data=piece))
            sn += 1
    once, twice = _of(tmp_path, talk), _of(tmp_path, talk, options=("-2", "-Y", "zenoh"))
    assert _keys(once) == _keys(twice) == [f"large/{number}" for number in range(10)]
    assert _experts(once) == _experts(twice) == []
