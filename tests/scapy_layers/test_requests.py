from __future__ import annotations

import random
from itertools import pairwise
from typing import Any, assert_never

import pytest
from boofuzz.mutation_context import MutationContext
from boofuzz.protocol_session import ProtocolSession

from scapy_layers import extensions as ext
from scapy_layers import shape
from scapy_layers.batch import MAX_BATCH
from scapy_layers.catalogue import EXTENSIONS, MESSAGES, decode
from scapy_layers.codes import Kind
from scapy_layers.data import Del, Err, Put, Query, Reply
from scapy_layers.declarations import DeclareFinal, DeclareKeyExpr, DeclareQueryable, UndeclareToken
from scapy_layers.derive.requests import BitsLie, Block, Leaf, Lie, every_lie, field_of, leaves, request_of
from scapy_layers.errors import WireError
from scapy_layers.message import Message
from scapy_layers.network import Declare, Interest, NetworkOam, Push, Request, Response, ResponseFinal
from scapy_layers.primitives import WideInt, write_vle
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Close, Fragment, Frame, Init, Join, KeepAlive, Open, TransportOam

ZID = bytes(range(1, 17))
INFO = ext.SourceInfo(zid=ZID, eid=1, source_sn=2)
PUT = Put(
    timestamp=1 << 62, timestamp_id=b"\x01\x02", encoding=4, schema=b"utf", data=b"hi", extensions=[INFO]
)
FULL: list[Message] = [
    Scout(zid=ZID),
    Hello(zid=ZID, locators=["tcp/127.0.0.1:1", "udp/127.0.0.1:2"]),
    TransportOam(oam_id=3, data=b"hi"),
    TransportOam(oam_id=3, z64=300),
    Init(zid=ZID),
    Init(
        zid=ZID,
        batch_size=100,
        extensions=[ext.QoSOffer(), ext.Patch(patch=1), ext.RegionName(region="north")],
    ),
    Init(A=1, zid=ZID, cookie=b"cookie"),
    Open(lease=10, initial_sn=300, cookie=b"cookie"),
    Close(),
    KeepAlive(),
    Frame(sn=300, messages=[Push(key_suffix="a/b", body=PUT), ResponseFinal(request_id=1)]),
    Fragment(M=1, sn=3, extensions=[ext.First()], data=b"abc"),
    Join(zid=ZID, extensions=[ext.JoinLanes(lanes=[{"next_sn_re": 1, "next_sn_be": 2}] * 8)]),
    Interest(mode=1, interest_id=7, tokens=1, key_suffix="a/**"),
    Interest(mode=0, interest_id=7),
    ResponseFinal(request_id=7, extensions=[ext.QoS(D=1)]),
    Response(request_id=7, key_scope=1, body=Reply(consolidation=1, body=PUT)),
    Request(request_id=7, key_suffix="a", extensions=[ext.Target(target=1)], body=Query(parameters="x=1")),
    Push(M=1, key_scope=4, key_suffix="a", body=Del(extensions=[ext.DelAttachment(attachment=b"at")])),
    Push(
        key_suffix="a",
        extensions=[ext.TimestampStack(conf_flags=1, records=[{"custom": 1, "point": 1, "record": b"abc"}])],
        body=PUT,
    ),
    Declare(
        interest_id=9,
        body=DeclareQueryable(entity_id=1, key_suffix="q", extensions=[ext.QueryableInfo(complete=1)]),
    ),
    Declare(body=UndeclareToken(entity_id=1, extensions=[ext.WireExpr(key_suffix="t")])),
    Declare(body=DeclareFinal()),
    DeclareKeyExpr(key_id=1, key_suffix="a"),
    NetworkOam(oam_id=2, data=b"hi"),
    NetworkOam(
        oam_id=1,
        linkstate=ext.LinkState(
            records=[
                {
                    "psid": 1,
                    "state_sn": 2,
                    "zid": ZID,
                    "whatami": 2,
                    "locators": ["tcp/a:1"],
                    "links": [3, 4],
                },
                {"links": [5], "weights": [6], "gateway": 1},
            ]
        ),
    ),
    Err(encoding=4, data=b"oops"),
    Put(
        extensions=[ext.Shm()],
        slices=[
            {"kind": 0, "slice": b"hi"},
            {"kind": 1, "reference": ext.ShmReference(size=9, segment_id=1, index=2, generation=3)},
        ],
    ),
    Query(extensions=[ext.QueryBodyShm(), ext.QueryBodySliced(slices=[{"kind": 0, "slice": b"hi"}])]),
    Init(
        zid=ZID,
        extensions=[
            ext.InitSynShm(segment_id=1),
            ext.AuthInitSyn(extensions=[ext.UsrPwd(), ext.PubKeySyn(n=b"abc", e=b"d")]),
            ext.MultiLinkInitSyn() / b"\xff no key",
        ],
    ),
    Open(
        cookie=b"x",
        extensions=[
            ext.OpenSynShm(challenge=7, has_counters=1, counters=list(range(8))),
            ext.AuthOpenSyn(extensions=[ext.UsrPwdProof(user=b"me", hmac=b"pw")]),
        ],
    ),
]


def bodies(cls: type[Message]) -> dict[str, Any]:
    """Returns what a message must have to be whole."""
    for described in cls.wire_shapes():
        if isinstance(described, shape.Body):
            inner = next(m for m in MESSAGES if m.kind == described.kind and m.id == described.ids[0])
            return {described.name: inner(**bodies(inner))}
    return {}


SIMPLE = [cls(**bodies(cls)) for cls in MESSAGES]


def name_of(message: Message) -> str:
    return str(message.name)


def rendered(request: Any, mutations: Any = (), **live: Any) -> bytes:
    context = MutationContext(
        mutations={mutation.qualified_name: mutation for mutation in mutations},
        protocol_session=ProtocolSession(session_variables=live) if live else None,
    )
    data: bytes = request.render(context)
    return data


def lies_of(request: Any, field: str, words: str = "") -> list[list[Any]]:
    return [
        mutations
        for mutations in request.get_mutations()
        if field_of(request.names[mutations[-1].qualified_name], mutations[-1].value) == field
        and words in mutations[-1].value.words
    ]


def only(request: Any, field: str, words: str) -> bytes:
    (mutations,) = lies_of(request, field, words)
    return rendered(request, mutations)


@pytest.mark.parametrize("message", SIMPLE + FULL, ids=name_of)
def test_without_a_lie_the_bytes_are_those_of_the_message(message: Message) -> None:
    request = request_of("r", message, prefixed=False)
    raw = request.render()
    assert raw == bytes(message)
    assert bytes(decode(raw, message.kind)) == raw


@pytest.mark.parametrize("message", SIMPLE + FULL, ids=name_of)
def test_every_lie_gives_bytes_that_fit_into_a_batch(message: Message) -> None:
    request = request_of("r", message)
    true = rendered(request)
    assert true[:2] == len(bytes(message)).to_bytes(2, "little")
    count = different = 0
    for mutations in request.get_mutations():
        raw = rendered(request, mutations)
        assert len(raw) <= 2 + MAX_BATCH
        count += 1
        different += raw != true
    assert count == request.get_num_mutations() > 40
    assert different / count > 0.9


def test_two_messages_of_one_name_stand_in_one_batch() -> None:
    request = request_of("r", KeepAlive(), KeepAlive())
    assert request.render() == b"\x02\x00\x04\x04"


def test_what_is_no_valid_message_is_refused() -> None:
    with pytest.raises(WireError):
        request_of("r", Init(zid=b"\x00"))


@pytest.mark.parametrize("message", SIMPLE + FULL, ids=name_of)
def test_every_field_has_lies(message: Message) -> None:
    request = request_of("r", message)
    names = {
        field_of(request.names[mutations[-1].qualified_name], mutations[-1].value)
        for mutations in request.get_mutations()
    }
    for wanted in fields(type(message).wire_shapes(), name_of(message), message):
        assert wanted in names, wanted


def fields(shapes: tuple[shape.Shape, ...], prefix: str, layer: Any) -> set[str]:  # noqa: C901
    """Returns the path of every field that must have lies, those that are hidden by bits included."""
    found: set[str] = set()
    bits = {b.name for one in shape.walk(shapes) if isinstance(one, shape.Packed) for b in one.bits}
    for described in shapes:
        match described:
            case shape.Packed():
                found |= {f"{prefix}.{bits.name}" for bits in described.bits}
            case shape.U8() | shape.Le() | shape.Vle() | shape.Zid() | shape.CountedBytes() | shape.Rest():
                found.add(f"{prefix}.{described.name}")
            case shape.When():
                if layer.present(tuple(need for need in described.conditions if need.field not in bits)):
                    found |= fields(described.fields, prefix, layer)
            case shape.Region():
                inside = f"{prefix}.{described.name}"
                found |= {f"{inside}.length"} | fields(described.fields, inside, layer[ext.LinkState])
            case shape.Many():
                found.add(f"{prefix}.{described.name}")
                if described.times is None:
                    found.add(f"{prefix}.{described.name}.count")
            case shape.Chain() | shape.Messages():
                found.add(f"{prefix}.{described.name}")
            case shape.Body():
                pass
            case _:
                assert_never(described)
    return found


def test_each_kind_of_shape_is_somewhere_in_the_messages() -> None:
    kinds = {
        type(described) for layer in (*MESSAGES, *EXTENSIONS) for described in shape.walk(layer.wire_shapes())
    }
    assert kinds == set(shape.Shape.__args__)


def test_the_order_of_the_lies_is_always_the_same() -> None:
    def words() -> list[tuple[str, str]]:
        request = request_of("r", FULL[5])
        return [(m[-1].qualified_name, m[-1].value.words) for m in request.get_mutations()]

    assert words() == words()


def test_lengths_follow_what_they_count_unless_they_lie() -> None:
    request = request_of("r", Init(zid=ZID, extensions=[ext.RegionName(region="north")]))
    longer = only(request, "INIT.extensions.RegionName.region", "twice")
    assert longer[0] == len(longer) - 2
    assert longer.endswith(b"\x48\x0anorthnorth")
    lying = only(request, "INIT.extensions.RegionName.length", "one more")
    assert lying.endswith(b"\x48\x06north")
    assert only(request, "batch.length", "says 0")[:2] == b"\x00\x00"


def test_count_lies_leave_the_bytes_behind_it() -> None:
    request = request_of("r", Put(data=b"hello"), prefixed=False)
    assert only(request, "PUT.data", "one less") == b"\x01\x04hello"
    assert only(request, "PUT.data", "one more") == b"\x01\x06hello"
    for said in ((1 << 32) - 1024, (1 << 64) - 1024):
        assert only(request, "PUT.data", f"says {said}") == b"\x01" + write_vle(said) + b"hello"
    assert only(request, "PUT.data", f"says {(1 << 64) - 1}") == b"\x01" + b"\xff" * 9 + b"hello"
    assert only(request, "PUT.data", "count in nine bytes") == b"\x01\x85" + b"\x80" * 7 + b"\x00hello"


def test_content_lies_are_short_long_and_between() -> None:
    request = request_of("r", Put(data=b"hello"), prefixed=False)
    sizes = {len(rendered(request, mutations)) for mutations in lies_of(request, "PUT.data", "bytes ff")}
    assert {2, 66, 258, 259} < sizes
    assert any(1024 < size < 1400 for size in sizes)
    assert max(sizes) > 16_384


def test_vle_lies_have_edges_of_width_and_of_type_and_broken_forms() -> None:
    request = request_of("r", ResponseFinal(request_id=5), prefixed=False)
    sent = {rendered(request, mutations)[1:] for mutations in lies_of(request, "RESPONSE_FINAL.request_id")}
    for value in (0, 1, 127, 128, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, 1 << 63, (1 << 64) - 1):
        assert bytes(ResponseFinal(request_id=value))[1:] in sent
    assert bytes(ResponseFinal(request_id=WideInt(5, 2)))[1:] in sent
    assert bytes(ResponseFinal(request_id=WideInt(5, 9)))[1:] in sent
    assert b"\xff" * 12 in sent


def test_flag_lies_with_content_as_before_or_accordingly() -> None:
    request = request_of("r", Push(key_suffix="ab", body=Del()), prefixed=False)
    true = request.render()
    assert only(request, "PUSH.N", "as before") == bytes([true[0] ^ 0x20]) + true[1:]
    assert only(request, "PUSH.N", "accordingly") == bytes(Push(N=0, body=Del()))


def test_bits_go_through_all_values_and_reserved_ones_are_set() -> None:
    request = request_of("r", Init(zid=ZID), prefixed=False)
    assert {rendered(request, m)[2] & 3 for m in lies_of(request, "INIT.whatami")[:3]} == {0, 1, 3}
    assert only(request, "INIT.reserved2", "=3")[2] & 0x0C == 0x0C
    assert len(lies_of(request, "INIT.mid")) == 31
    assert len(lies_of(request, "INIT.zid_len", "zid_len=")) == 15


def test_hidden_fields_are_fuzzed_with_what_shows_them() -> None:
    request = request_of("r", Init(zid=ZID), prefixed=False)
    raw = only(request, "INIT.batch_size", "49152")
    assert raw == bytes(Init(zid=ZID, batch_size=49152))
    inner = request_of("r", Interest(mode=0, interest_id=1), prefixed=False)
    shown = [rendered(inner, m) for m in lies_of(inner, "INTEREST.key_suffix", "text 'a//b'")]
    assert shown == [bytes(Interest(mode=1, restricted=1, interest_id=1, key_suffix="a//b"))]


def test_zid_lies_do_not_fit_the_nibble() -> None:
    request = request_of("r", Init(zid=ZID), prefixed=False)
    assert only(request, "INIT.zid", "17 bytes") == bytes(Init(zid_len=15, zid=b"\x01" * 17))
    assert only(request, "INIT.zid", "no byte") == bytes(Init(zid_len=15, zid=b""))


def test_chain_lies_stand_in_front_and_keep_the_chain_going() -> None:
    request = request_of("r", KeepAlive(), prefixed=False)
    assert only(request, "KEEP_ALIVE.extensions", "unknown optional Z64") == b"\x84\x2e\x07"
    assert only(request, "KEEP_ALIVE.extensions", "unknown mandatory Unit") == b"\x84\x1e"
    assert only(request, "KEEP_ALIVE.extensions", "optional extension with ENC 3") == b"\x84\x6e\x01\x00"
    assert only(request, "KEEP_ALIVE.extensions", "1000 unknown Unit") == b"\x84" + b"\x8e" * 999 + b"\x0e"
    assert only(request, "KEEP_ALIVE.extensions", "every extension says") == b"\x84" + b"\x8e" * 256
    full = request_of("r", Init(zid=ZID, extensions=[ext.Patch(patch=1)]), prefixed=False)
    assert only(full, "INIT.extensions", "unknown optional Z64").endswith(b"\xae\x07\x27\x01")
    assert only(full, "INIT.extensions", "Patch twice").endswith(b"\xa7\x01\x27\x01")


def test_texts_are_key_expressions_and_locators() -> None:
    push = request_of("r", Push(key_suffix="a", body=Del()), prefixed=False)
    texts = {m[-1].value.words for m in lies_of(push, "PUSH.key_suffix", "text")}
    assert {
        "text 'a//b'",
        "text '**/**'",
        "text '$*$*'",
        "text '@'",
        "text '\\xff'",
        "text 'a\\x00b'",
    } <= texts
    hello = request_of("r", FULL[1], prefixed=False)
    assert lies_of(hello, "HELLO.locators.locator", "text 'tcp/'")


def test_texts_of_other_sorts_are_expected_to_have_other_effects() -> None:
    push = request_of("r", Push(key_suffix="a", body=Del()), prefixed=False)
    texts = [m[-1].value for m in lies_of(push, "PUSH.key_suffix", "text")]
    effects = {lie.effect for lie in texts}
    assert {lie.kind for lie in texts} == {"text"}
    assert {"text, valid", "text, valid wild", "text, not canonical", "text, no UTF-8"} <= effects
    assert len(effects) < len(texts) / 3
    others = [m[-1].value for m in push.get_mutations() if m[-1].value.kind != "text"]
    assert all(lie.effect == lie.kind for lie in others)


def test_many_lies_about_its_count() -> None:
    request = request_of("r", Hello(zid=ZID, locators=["tcp/a:1"]), prefixed=False)
    assert only(request, "HELLO.locators.count", "says 2 ").endswith(b"\x02\x07tcp/a:1")


def test_live_values_are_filled_in_and_lied_about() -> None:
    frame = Frame(R=1, sn=1, messages=[Push(key_suffix="a", body=Del())])
    request = request_of("r", frame, live={"FRAME.sn": "sn"}, quiet=["FRAME"], prefixed=False)
    assert rendered(request, sn=300) == bytes(Frame(R=1, sn=300, messages=frame.messages))
    opening = request_of("r", Open(cookie=b"x"), live={"OPEN.cookie": "cookie"}, prefixed=False)
    (less,) = lies_of(opening, "OPEN.cookie", "the last byte is gone")
    assert rendered(opening, less, cookie=b"abcd").endswith(b"\x03abc")


def test_quiet_messages_say_the_truth_and_those_inside_do_not() -> None:
    request = request_of("r", Frame(sn=1, messages=[Push(key_suffix="a", body=PUT)]), quiet=["FRAME", "PUSH"])
    messages = {element.place.message for element in leaves(request)}
    assert messages == {"batch", "PUT"}


def test_a_batch_that_its_length_cannot_say_is_an_error() -> None:
    request = request_of("r", Put(data=b"hi"))
    block = request.names["r.batch"]
    assert isinstance(block, Block)
    block.lies = (Lie("long", "too long", lambda _: bytes(MAX_BATCH + 1)),)
    mutations = next(m for m in request.get_mutations() if m[-1].value.kind == "long")
    with pytest.raises(ValueError, match="65536 bytes"):
        rendered(request, mutations)


def test_names_of_lies_are_short_and_of_one_line() -> None:
    for message in FULL:
        request = request_of("r", message)
        for element in leaves(request):
            assert isinstance(element, Leaf | Block)
            for lie in element.lies:
                assert lie.kind
                assert len(lie.words) < 100
                assert lie.words.isprintable()
                assert isinstance(lie, BitsLie) == bool(getattr(lie, "about", ""))


def test_two_lies_at_once_render() -> None:
    rng = random.Random(1)
    for message in FULL:
        request = request_of("r", message)
        mutations = list(request.get_mutations())
        rng.shuffle(mutations)
        for first, second in pairwise(mutations[:60]):
            assert len(rendered(request, [*first, *second])) <= 2 + MAX_BATCH


def test_a_message_is_cut_behind_every_byte() -> None:
    message = Push(key_suffix="a" * 200, body=PUT)
    raw = bytes(message)
    request = request_of("r", message)
    sent = {rendered(request, mutations) for mutations in lies_of(request, "batch", "cut after")}
    assert sent == {len(raw[:end]).to_bytes(2, "little") + raw[:end] for end in range(len(raw))}


def test_bodies_are_cut_behind_every_byte_with_a_length_that_is_true() -> None:
    request = request_of("r", Put(extensions=[INFO], data=b""), prefixed=False)
    body = bytes(INFO)[2:]
    sent = {
        rendered(request, mutations)
        for mutations in lies_of(request, "PUT.extensions.SourceInfo", "ends after")
    }
    head, info = b"\x81", bytes(INFO)[:1]
    assert sent >= {head + info + bytes([end]) + body[:end] + b"\x00" for end in range(len(body))}
    more = only(request, "PUT.extensions.SourceInfo", "one byte 00 more")
    assert more == head + info + bytes([len(body) + 1]) + body + b"\x00" + b"\x00"
    oam = request_of("r", FULL[24], prefixed=False)
    assert lies_of(oam, "OAM.data", "the last byte is gone")
    state = request_of("r", next(one for one in FULL if one.fields.get("linkstate")), prefixed=False)
    cut = only(state, "OAM.linkstate", "ends after 3 bytes")
    assert cut[2:] == b"\x03" + bytes(decode(state.render(), Kind.NETWORK).linkstate)[1:4]


def test_lists_are_longer_and_shorter_with_a_count_that_is_true() -> None:
    request = request_of("r", Hello(zid=ZID, locators=["tcp/a:1", "tcp/b:1"]), prefixed=False)
    true = request.render()
    front, items = true[:19], true[20:]
    assert only(request, "HELLO.locators", "no item") == front + b"\x00"
    assert only(request, "HELLO.locators", "2 times as many") == front + b"\x04" + items * 2
    many = decode(only(request, "HELLO.locators", "very many"), Kind.SCOUTING)
    assert len(many.locators) > 2000
    stack = ext.TimestampStack(records=[{"custom": 1, "point": 1, "record": b"abc"}])
    push = request_of("r", Push(key_suffix="a", extensions=[stack], body=Del()), prefixed=False)
    at_most = only(push, "PUSH.extensions.TimestampStack.records", "255 or more")
    assert len(decode(at_most, Kind.NETWORK).extensions[0].records) == 255
    with pytest.raises(WireError):
        decode(only(push, "PUSH.extensions.TimestampStack.records", "256 or more"), Kind.NETWORK)


def test_an_empty_list_has_no_longer_forms_that_fail() -> None:
    request = request_of("r", Hello(zid=ZID, locators=[]), prefixed=False)
    for mutations in lies_of(request, "HELLO.locators"):
        assert rendered(request, mutations)


@pytest.mark.parametrize("locators", [[], ["tcp/a:1", "tcp/b:1"]])
def test_lists_are_longer_whatever_another_lie_made_of_their_count(locators: list[str]) -> None:
    request = request_of("r", Hello(zid=ZID, locators=locators), prefixed=False)
    counts = lies_of(request, "HELLO.locators.count")
    made = {count[-1].value.make(len(locators)) for count in counts}
    assert made >= {b"", b"\x80"}, "some of them are no numbers"
    for mutations in lies_of(request, "HELLO.locators", "count accordingly"):
        sent = {rendered(request, [*mutations, *count]) for count in counts}
        assert len(sent) > 1 or "no item" in mutations[-1].value.words


def test_bits_of_a_vle_integer_have_edges_together() -> None:
    request = request_of("r", Frame(sn=1, extensions=[ext.Lane(priority=3)]), prefixed=False)
    sent = {rendered(request, m)[3:] for m in lies_of(request, "FRAME.extensions.QoS.priority", "together")}
    assert sent == {
        b"\x00",
        b"\xff\xff\xff\xff\x0f",
        b"\x80\x80\x80\x80\x10",
        b"\x80" * 8 + b"\x80",
        b"\xff" * 9,
    }
    reserved = {rendered(request, m)[3:] for m in lies_of(request, "FRAME.extensions.QoS.reserved3")}
    assert b"\x0b" in reserved


def test_every_reserved_bit_is_set_alone_and_all_together() -> None:
    init = request_of("r", Init(zid=ZID, rid=0), prefixed=False)
    sent = {rendered(init, m)[19] >> 4 for m in lies_of(init, "INIT.reserved4")}
    assert sent == {1, 2, 4, 8, 15}


def test_numbers_go_one_beyond_their_table() -> None:
    close = request_of("r", Close(), prefixed=False)
    assert rendered(close, lies_of(close, "CLOSE.reason", "8 (")[0]) == b"\x03\x08"
    query = request_of("r", Query(consolidation=1), prefixed=False)
    assert b"\x23\x04" in {rendered(query, m) for m in lies_of(query, "QUERY.consolidation")}
    err = request_of("r", Err(encoding=4, data=b""), prefixed=False)
    beyond = 0xFFFF + 1
    assert {rendered(err, m) for m in lies_of(err, "ERR.encoding", f"encoding={beyond} ")} == {
        bytes(Err(encoding=beyond, data=b""))
    }
    request = request_of(
        "r", Request(key_suffix="a", extensions=[ext.Target(target=1)], body=Query()), prefixed=False
    )
    assert lies_of(request, "REQUEST.extensions.QueryTarget.target", "3")


def test_extensions_come_in_the_other_order() -> None:
    init = Init(zid=ZID, extensions=[ext.QoSOffer(), ext.Patch(patch=1), ext.RegionName(region="n")])
    request = request_of("r", init, prefixed=False)
    turned = decode(only(request, "INIT.extensions", "reverse order"), Kind.TRANSPORT)
    assert [type(one) for one in turned.extensions] == [ext.RegionName, ext.Patch, ext.QoSOffer]
    assert not lies_of(request_of("r", Init(zid=ZID), prefixed=False), "INIT.extensions", "reverse order")


def test_every_lie_is_what_boofuzz_lists() -> None:
    join = Join(zid=b"\x01" * 16, extensions=[ext.JoinLanes(lanes=[{"next_sn_re": 1, "next_sn_be": 2}] * 8)])
    push = Frame(R=1, messages=[Push(key_suffix="k", body=Put(data=b"v"))])
    for message in (Init(zid=b"\x01" * 16), Open(cookie=b"c"), join, push):
        request = request_of("sample", message)
        listed = [[(one.qualified_name, one.index) for one in some] for some in request.get_mutations()]
        ours = [[(one.qualified_name, one.index) for one in some] for _, some in every_lie(request)]
        assert ours == listed
        assert len(ours) > 50


def test_lies_of_one_kind_are_made_once_for_all_messages() -> None:
    """A run has hundreds of messages, and each text has lies of twenty thousand bytes."""
    one, other = (
        [mutations[-1].value for _, mutations in every_lie(request_of("m", message))]
        for message in (Push(key_suffix="a", body=PUT), Request(request_id=9, key_suffix="bc", body=Query()))
    )
    large = [lie for lie in one if lie.kind in {"text", "content", "mandatory extension"}]
    assert {"text", "content", "mandatory extension"} == {lie.kind for lie in large}
    known = {id(lie) for lie in other}
    texts = [lie for lie in large if lie.kind == "text"]
    assert all(id(lie) in known for lie in texts)
    # Those of chains are about the extensions that a message may have.
    assert any(id(lie) in known for lie in large if lie.kind == "content")
