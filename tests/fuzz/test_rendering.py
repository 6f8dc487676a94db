"""The fast rendering gives what boofuzz gives, for every lie."""

import pytest
from boofuzz.mutation_context import MutationContext
from boofuzz.protocol_session import ProtocolSession

from fuzz.rendering import MARK, Rendering, split
from scapy_layers import extensions as ext
from scapy_layers.data import Put, Query
from scapy_layers.declarations import DeclareSubscriber
from scapy_layers.derive.requests import request_of
from scapy_layers.message import Message
from scapy_layers.network import Declare, Interest, Push, Request
from scapy_layers.transport import Fragment, Frame, Init, Join, Open

SN, ZID, COOKIE = b"\xf3\xe7\x5b", b"\xf6\xe7\x5bzid of a link", b"\x13\xf7\xe7\x5bcookie of a link"
MARKS = {"sn": SN, "zid": ZID, "cookie": COOKIE}
LIVE = {"FRAME.sn": "sn", "FRAGMENT.sn": "sn", "INIT.zid": "zid", "OPEN.cookie": "cookie"}
VALUES = {"sn": 1_504_243, "zid": ZID, "cookie": COOKIE[1:]}

MESSAGES: list[Message] = [
    Init(zid=ZID, batch_size=8192, extensions=[ext.QoSOffer(), ext.AuthInitSyn(extensions=[ext.UsrPwd()])]),
    Open(lease=10, initial_sn=1000, cookie=COOKIE[1:], extensions=[ext.RemoteBound(bound=1)]),
    Frame(
        R=1,
        extensions=[ext.Lane()],
        messages=[Push(key_suffix="k", body=Put(encoding=4, schema=b"s", data=b"hello"))],
    ),
    Frame(R=1, messages=[Request(request_id=7, key_suffix="q", body=Query(parameters="x=1"))]),
    Frame(
        R=1,
        messages=[Declare(body=DeclareSubscriber(entity_id=9, key_suffix="a/**")), Interest(interest_id=3)],
    ),
    Fragment(R=1, M=1, extensions=[ext.First()], data=b"part"),
    Join(zid=bytes(range(1, 17)), extensions=[ext.JoinLanes(lanes=[{"next_sn_re": 1, "next_sn_be": 2}] * 8)]),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: str(message.name))
@pytest.mark.parametrize("prefixed", [True, False])
def test_every_lie_renders_as_boofuzz_renders_it(message: Message, prefixed: bool) -> None:
    request = request_of("sample", message, live=LIVE, prefixed=prefixed)
    rendering = Rendering(request, MARKS)
    session = ProtocolSession()
    session.session_variables = VALUES
    lies = 0
    for mutations in request.get_mutations():
        named = {mutation.qualified_name: mutation for mutation in mutations}
        body, lie = rendering.render(named)
        if MARK in body:
            continue
        size = min(len(body), 0xFFFF)
        head = lie.make(size) if lie else size.to_bytes(2, "little")
        wanted = request.render(MutationContext(mutations=named, protocol_session=session))
        assert (head if prefixed else b"") + body == wanted, mutations[-1].value.words
        lies += 1
    assert lies > 100


def test_nothing_is_left_of_an_earlier_lie() -> None:
    request = request_of("sample", MESSAGES[2], live=LIVE)
    rendering = Rendering(request, MARKS)
    true = rendering.render({})
    for mutations in request.get_mutations():
        rendering.render({mutation.qualified_name: mutation for mutation in mutations})
        assert rendering.render({}) == true


def test_marks_are_split_out_where_they_are_whole() -> None:
    assert split(b"a" + SN + b"b" + ZID, MARKS) == [b"a", "sn", b"b", "zid"]
    assert split(b"", MARKS) == []
    assert split(SN + SN, MARKS) == ["sn", "sn"]


def test_a_mark_that_is_cut_names_its_first_bytes() -> None:
    assert split(b"a" + COOKIE[:7], MARKS) == [b"a", "cookie|first 7"]
    assert split(b"a\x13", MARKS) == [b"a", "cookie|first 1"]
    assert split(b"a\x13", {"sn": SN}) == [b"a\x13"]


def test_a_lie_about_a_live_value_keeps_its_name() -> None:
    request = request_of("sample", Init(zid=ZID), live=LIVE)
    rendering = Rendering(request, MARKS)
    words = set()
    for mutations in request.get_mutations():
        body, _ = rendering.render({mutation.qualified_name: mutation for mutation in mutations})
        words |= {piece for piece in split(body, MARKS) if isinstance(piece, str)}
    assert {"zid", "zid|16 bytes ff", "zid|left out", "zid|first 3"} <= words
