"""Bytes, layers, bytes again: over-long numbers everywhere, bodies nobody looks into, values that are forbidden."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scapy_layers import extensions as ext
from scapy_layers import shape
from scapy_layers.batch import contents
from scapy_layers.catalogue import MESSAGES, decode, decode_one
from scapy_layers.codes import Enc, Kind
from scapy_layers.data import Del, Err, Put, Query
from scapy_layers.derive.strategies import messages
from scapy_layers.errors import WireError
from scapy_layers.message import Layer, Message, UnknownExtension
from scapy_layers.network import Declare, Interest, NetworkOam, Push, Response
from scapy_layers.primitives import VLE_BYTES, Counted, CountedList, WideInt
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Fragment, Frame, Init, Join, KeepAlive, Open, TransportOam
from scapy_layers.writing import layout_of
from tests.scapy_layers.golden import facts, raw

# Over-long numbers ------------------------------------------------------------------------------------


def widen(layer: Layer) -> None:
    """Writes every number, count and length of a layer and of those inside in nine bytes."""
    _widen(layer.wire_shapes(), layer.fields, layer.value, layer.present)
    if "length" in layer.default_fields and layer.present(dict(conditions(layer)).get("length", ())):
        layer.length = 0
        head = 1 if "ENC" in layer.default_fields else 0
        layer.length = WideInt(len(bytes(layer)) - head - 1, VLE_BYTES)


def conditions(layer: Layer) -> list[tuple[str, shape.Conditions]]:
    return list(layout_of(layer.wire_shapes()).conditions.items())


def _widen(shapes: tuple[shape.Shape, ...], fields: dict[str, Any], value: Any, present: Any) -> None:  # noqa: C901
    for described in shapes:
        match described:
            case shape.Packed(vle=True):
                last = described.bits[-1].name
                fields[last] = WideInt(value(last), VLE_BYTES)
            case shape.Vle() if described.name != "length":
                fields[described.name] = WideInt(value(described.name), VLE_BYTES)
            case shape.CountedBytes() | shape.Zid(length=None):
                fields[described.name] = Counted(value(described.name), None, VLE_BYTES)
            case shape.When():
                if present(described.conditions):
                    _widen(described.fields, fields, value, present)
            case shape.Many():
                items = [_widened(described, item) for item in value(described.name)]
                counted = CountedList(items, None, VLE_BYTES)
                fields[described.name] = counted if described.times is None else items
            case shape.Chain() | shape.Messages():
                for inner in value(described.name):
                    widen(inner)
            case shape.Body() | shape.Region():
                widen(value(described.name))


def _widened(described: shape.Many, item: Any) -> Any:
    layout = layout_of(described.item)
    single = not isinstance(item, dict)
    if single:
        (name,) = layout.defaults
        text = item.encode("utf-8", "surrogateescape") if isinstance(item, str) else item
        fields = {name: text}
    else:
        fields = dict(item)

    def value(name: str) -> Any:
        return layout.value(name, fields, layout.defaults)

    _widen(described.item, fields, value, lambda needs: all(need.holds(value(need.field)) for need in needs))
    return next(iter(fields.values())) if single else fields


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
@settings(max_examples=15)
@given(data=st.data())
def test_over_long_numbers_everywhere_change_nothing(cls: type[Message], data: st.DataObject) -> None:
    message = data.draw(messages(cls.kind, cls.id))
    short, said = bytes(message), facts(message)
    decoded = decode(short, cls.kind)
    widen(message)
    widen(decoded)
    wide = bytes(message)
    assert bytes(decoded) == wide
    again = decode(wide, cls.kind)
    assert bytes(again) == wide
    assert facts(again) == facts(message) == said


def test_widening_reaches_every_number() -> None:
    stack = ext.TimestampStack(records=[{"custom": 1, "point": 1, "record": b"a"}])
    push = Push(
        key_suffix="a", extensions=[stack], body=Put(extensions=[ext.Shm()], slices=[{"slice": b"b"}])
    )
    widen(push)
    assert bytes(push).hex() == (
        "bd"
        + wide(0)
        + wide(1)
        + "61"
        + "47"
        + wide(1 + 9 + 1 + 9 + 1)
        + "01"
        + wide(1)
        + "81"
        + wide(1)
        + "61"
        "81" + "12" + wide(1) + "00" + wide(1) + "62"
    )


def wide(number: int) -> str:
    return (bytes([number | 0x80]) + b"\x80" * 7 + b"\x00").hex()


# Bodies nobody looks into -------------------------------------------------------------------------------

LENIENT = [
    pytest.param(head, number, id=f"{name}, {number:#x}")
    for name, head, numbers in (
        ("InitSyn", "81090205", (0x42, 0x43, 0x44)),
        ("InitAck", "a109020500", (0x42, 0x43, 0x44)),
        ("OpenSyn", "82000000", (0x42, 0x43, 0x44)),
        ("OpenAck", "a20000", (0x42, 0x43)),
    )
    for number in numbers
]


@pytest.mark.parametrize(("head", "number"), LENIENT)
@settings(max_examples=40)
@given(
    body=st.binary(max_size=40)
    | st.builds(bytes.__add__, st.just(b"\x02\xab\xcd\x01\x03"), st.binary(max_size=4))
)
def test_any_body_is_taken_and_kept(head: str, number: int, body: bytes) -> None:
    whole = raw(head) + bytes([number | 0x80, len(body)]) + body + b"\x0f"
    message = decode(whole)
    first, last = message.extensions
    assert not message.errors
    assert not first.errors
    assert isinstance(last, UnknownExtension)
    assert not isinstance(first, UnknownExtension)
    assert first.payload.original in {b"", body} or bytes(first.payload) == body
    assert first.partial is bool(bytes(first.payload) or not body)
    for twin in (message, message.copy(), decode(bytes(message))):
        assert bytes(twin) == whole
        assert twin.show(dump=True)
        assert twin.describe()


def test_body_that_does_not_fit_has_no_half_read_fields() -> None:
    (shm,) = decode(raw("a10902050042 03 078080")).extensions
    assert (shm.partial, shm.fields.get("challenge"), bytes(shm.payload)) == (True, None, raw("078080"))
    (auth,) = decode(raw("8109020543 02 021f")).extensions
    assert (auth.partial, bytes(auth.payload)) == (True, raw("021f"))
    # The fields that fit make it whole again.
    assert decode(raw("8109020543 02 820f")).extensions[0].extensions[0] == ext.UsrPwd(raw("82"))


# Chains -----------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.sampled_from(
            ["01", "2105", "21b6f020", "21" + "ff" * 9, "218000", "42020700", "4200", "0f", "2f818000"]
        )
        | st.sampled_from(
            ["4f00", "4f8000", "4f03616263", "43010f", "4400", "05", "06", "2701", "480161", "4800"]
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["010905 05", "21090505 00", "0200 00 00", "22 00 00"]),
)
def test_chains_in_any_order_with_duplicates_are_rebuilt(chain: list[str], head: str) -> None:
    extensions = [raw(one) for one in chain]
    linked = b"".join(bytes([one[0] | 0x80]) + one[1:] for one in extensions[:-1]) + extensions[-1]
    message = raw(head.replace("0905", "0902"))
    whole = bytes([message[0] | 0x80]) + message[1:] + linked
    decoded = decode(whole)
    assert bytes(decoded) == whole
    assert len(decoded.extensions) == len(chain)
    for one in (*decoded.extensions, decoded):
        one.Z = None
    assert bytes(decoded) == whole


@settings(max_examples=300)
@given(st.binary(min_size=1, max_size=60), st.sampled_from(MESSAGES))
def test_what_is_taken_is_rebuilt(tail: bytes, cls: type[Message]) -> None:
    anything = bytes([tail[0] & 0xE0 | cls.id]) + tail[1:]
    try:
        message, end = decode_one(anything, cls.kind)
    except WireError:
        return
    assert bytes(message) == bytes(message.copy()) == anything[:end]


# Values that are forbidden ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "digits"),
    [
        (Scout(zid=b"", I=1), "01090f"),
        (Hello(zid=b"\x01" * 17, zid_len=0), "020900" + "01" * 17),
        (Hello(zid=b"\x01", whatami=3), "02090301"),
        (Hello(zid=b"\x01", locators=CountedList(["a"], said=9, width=2)), "2209000189000161"),
        (Hello(zid=b"\x01", locators=["no locator", b"\xff"]), "22090001020a" + b"no locator".hex() + "01ff"),
        (Init(zid=b"\x01", whatami=3, reserved2=3, version=0), "01000f01"),
        (Init(zid=b"\x00"), "01090200"),
        (Init(zid=b"\x01", reserved4=15, batch_size=0), "41090201fa0000"),
        (Join(zid=b"\x01", extensions=[ext.JoinLanes(lanes=[])]), "870901 01 904e 0000 5100"),
        (Open(cookie=Counted(b"", said=2**64 - 1)), "02904e00" + "ff" * 9),
        (TransportOam(ENC=3), "6000"),
        (KeepAlive(extensions=[UnknownExtension(ENC=3, M=1)]), "847f"),
        (KeepAlive(extensions=[UnknownExtension(Z=1)]), "848f"),
        (KeepAlive(extensions=[UnknownExtension(data=b"a", length=0)]), "844f0061"),
        (KeepAlive(extensions=[UnknownExtension(data=b"a", length=2**64 - 1)]), "844f" + "ff" * 9 + "61"),
        (KeepAlive(Z=1), "84"),
        (KeepAlive(mid=31, reserved_6=1), "5f"),
        (Frame(sn=2**64 - 1), "05" + "ff" * 9),
        (Fragment(data=b"", extensions=[ext.Drop(), ext.First()]), "86008302"),
        (Push(key_scope=2**64 - 1, body=Err()), "1d" + "ff" * 9 + "0500"),
        (Push(key_suffix=b"\xff", body=Del(mid=9)), "3d0001ff09"),
        (Push(body=Put(S=1, E=1)), "1d0041010000"),
        (Push(body=Put(timestamp_id=b"", T=1)), "1d0021000000"),
        (Push(body=Put(slices=[{"slice": b"a"}])), "1d000100"),
        (Push(body=Put(extensions=[ext.Shm()], slices=[{"kind": 7}])), "1d0081120107"),
        (Push(body=Put(extensions=[ext.Shm()], slices=CountedList([], said=5))), "1d00811205"),
        (Push(body=Put(extensions=[ext.Shm()], data=b"unseen")), "1d00811200"),
        (Push(body=Query(extensions=[ext.QueryBody(data=b"a"), ext.QueryBodyShm()])), "1d0083c302006104"),
        (Response(body=Put()), "1b00000100"),
        (Interest(mode=0, tokens=1), "1900"),
        (Declare(body=b""), "1e"),
        (Declare(I=1, body=b"\x08\x00"), "3e000800"),
        (NetworkOam(oam_id=1, ENC=2), "5f0100"),
        (NetworkOam(oam_id=1, linkstate=b"\xff"), "5f0101ff"),
        (NetworkOam(oam_id=1, linkstate=Counted(b"\xff", said=9)), "5f0109ff"),
        (NetworkOam(oam_id=1, linkstate=ext.LinkState(length=0)), "5f010000"),
        (NetworkOam(oam_id=1, linkstate=ext.LinkState() / b"\xff"), "5f010200ff"),
        (
            NetworkOam(oam_id=1, linkstate=ext.LinkState(records=[{"links": [1], "has_weights": 1}])),
            "5f010601080000 0101",
        ),
        (
            NetworkOam(oam_id=1, linkstate=ext.LinkState(records=[{"locators": CountedList(["a"], said=0)}])),
            "5f010801040000 00016100",
        ),
        (
            NetworkOam(oam_id=1, linkstate=ext.LinkState(records=[{"zid": b"", "whatami": 9}])),
            "5f010701030000 000900",
        ),
        (ext.Lane(M=0, priority=7), "2107"),
        (ext.AuthInitSyn(extensions=[ext.UsrPwd(ext_id=9)]), "430109"),
        (ext.OpenAckShm(has_counters=2), "420102"),
        (ext.OpenAckShm(counters=[1]), "42020101"),
        (ext.TimestampStack(conf_flags=0, records=CountedList([], said=300)), "470300ac02"),
        (ext.Patch(patch=2**64 - 1, ENC=Enc.ZBUF, length=1), "4701" + "ff" * 9),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_forbidden_values_are_built_as_given(message: Layer, digits: str) -> None:
    whole = raw(digits)
    assert bytes(message).hex() == whole.hex()
    assert bytes(message.copy()) == whole
    if isinstance(message, Message):
        found = contents(whole, Kind.SCOUTING if message.kind is Kind.SCOUTING else None)
        assert b"".join(map(bytes, found.messages)) + found.rest == whole
    assert bytes(type(message)(whole)) == whole
