"""Building: the fast writer gives the bytes of the slow one, whatever the fields are, and keeps Scapy's habits."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.fields import RawVal
from scapy.layers.inet import IP, UDP
from scapy.packet import NoPayload, Packet, Raw, fuzz
from scapy.volatile import RandBin, RandInt, RandNum

from scapy_layers import shape, stream
from scapy_layers import transport as transport_module
from scapy_layers.batch import Batch, contents
from scapy_layers.catalogue import MESSAGES, decode
from scapy_layers.codes import Enc, Kind
from scapy_layers.data import Del, Put
from scapy_layers.derive.strategies import batches, messages, nearly_valid
from scapy_layers.extensions import Lane, LinkState, NodeId, Patch, PutAttachment, QoS, QoSOffer, SourceInfo
from scapy_layers.message import Extension, Layer, Message, Region, message_class
from scapy_layers.network import NetworkOam, Push
from scapy_layers.primitives import VLE_BYTES, Counted, CountedList, WideInt, vle_size, write_count, write_vle
from scapy_layers.reading import holds
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Close, Frame, Init, KeepAlive, Open
from scapy_layers.writing import Misfit, layout_of, writers

CAPTURES = sorted((Path(__file__).parents[2] / "pcaps").glob("*.pcapng"))

ANY_MESSAGE = pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)

# The slow way: field by field, each layer by itself -----------------------------------------------------

Get = Callable[[str], Any]


class NotRead(Exception):
    """A field of a layer that was read only in part."""


def slowly(layer: Any) -> bytes:
    """Builds a layer as the pages say it, without a thought about time."""
    if not isinstance(layer, Layer):
        return bytes(layer)
    behind = b"" if isinstance(layer.payload, NoPayload) else bytes(layer.payload)
    shapes = layer.wire_shapes()
    if isinstance(layer, Extension):
        return fields(layer, shapes[:1]) + body(layer, shapes[2:], worth(layer)("ENC") == Enc.ZBUF, behind)
    if isinstance(layer, Region):
        return body(layer, shapes[1:], True, behind)
    return fields(layer, shapes) + behind


def body(layer: Layer, shapes: tuple[shape.Shape, ...], counted: bool, behind: bytes) -> bytes:
    inside = fields(layer, shapes)
    length = layer.fields.get("length")
    if counted and (length is not None or not layer.partial):
        inside = write_vle(len(inside) + len(behind) if length is None else length) + inside
    return inside + behind


def worth(layer: Layer) -> Get:
    layout = layout_of(layer.wire_shapes())
    return lambda name: valued(layout.conditions, layout.zids, layer.fields, layer.default_fields, name)


def fields(layer: Layer, shapes: tuple[shape.Shape, ...]) -> bytes:
    value = worth(layer)

    def read(name: str) -> Any:
        if layer.partial and name not in layer.fields:
            raise NotRead(name)
        return value(name)

    out = bytearray()
    try:
        for described in shapes:
            append(described, read, out)
    except NotRead:
        pass
    return bytes(out)


def valued(conditions: Any, zids: Any, given_: Any, defaults: Any, name: str) -> Any:
    """A field is what was given, what it is by default, or what follows from the others."""
    if given_.get(name) is not None:
        return given_[name]
    if defaults[name] is not None:
        return defaults[name]
    if name in zids:

        def other(field: str) -> Any:
            return valued(conditions, zids, given_, defaults, field)

        present = holds(conditions.get(zids[name], ()), other)
        return max(len(other(zids[name])), 1) - 1 & 0x0F if present else 0
    for field, needs in conditions.items():
        if given_.get(field) not in (None, []) or type(given_.get(field)) is CountedList:
            for need in needs:
                if need.field == name and isinstance(need, shape.Condition) and not need.negated:
                    return 1 if need.equals is None else need.equals
    return 0


def append(described: shape.Shape, get: Get, out: bytearray) -> None:  # noqa: C901, PLR0912
    match described:
        case shape.Packed():
            carrier, width = 0, 0
            for bits in described.bits:
                value = get(bits.name)
                carrier |= (value & (1 << bits.size) - 1) << bits.shift
                width = max(width, value.width if isinstance(value, WideInt) else 0)
            out += write_vle(carrier, max(width, vle_size(carrier))) if described.vle else bytes([carrier])
        case shape.U8():
            out.append(get(described.name))
        case shape.Le():
            out += get(described.name).to_bytes(described.size, "little", signed=described.signed)
        case shape.Vle():
            out += write_vle(get(described.name))
        case shape.Zid():
            zid = get(described.name)
            out += zid if described.length else write_count(zid) + zid
        case shape.CountedBytes():
            raw = get(described.name)
            out += write_count(raw) + raw
        case shape.Rest():
            out += get(described.name)
        case shape.When():
            if holds(described.conditions, get):
                for inner in described.fields:
                    append(inner, get, out)
        case shape.Many():
            items = get(described.name)
            out += write_count(items) if described.times is None else b""
            for item in items:
                append_item(described, item, out)
        case shape.Region():
            region = get(described.name)
            out += write_count(region) + region if isinstance(region, bytes) else slowly(region or b"\0")
        case shape.Chain():
            chain = get(described.name)
            for index, extension in enumerate(chain):
                raw = slowly(extension)
                more = index < len(chain) - 1 and extension.getfieldval("Z") is None
                out += bytes([raw[0] | 0x80]) + raw[1:] if more else raw
        case shape.Body():
            out += slowly(get(described.name) or b"")
        case shape.Messages():
            for message in get(described.name):
                out += slowly(message)


def append_item(described: shape.Many, item: Any, out: bytearray) -> None:
    if len(described.item) == 1 and not isinstance(item, dict):
        value = item.encode("utf-8", "surrogateescape") if isinstance(item, str) else item
        append(described.item[0], lambda _: value, out)
        return
    layout = layout_of(described.item)
    for inner in described.item:
        append(inner, lambda name: valued(layout.conditions, layout.zids, item, layout.defaults, name), out)


# Both ways give the same --------------------------------------------------------------------------------


@ANY_MESSAGE
@settings(max_examples=15)
@given(data=st.data())
def test_fast_and_slow_way_give_the_same_bytes(cls: type[Message], data: st.DataObject) -> None:
    message = data.draw(messages(cls.kind, cls.id))
    whole = bytes(message)
    assert whole == slowly(message)
    assert bytes(decode(whole, cls.kind)) == whole
    assert bytes(message.copy()) == whole
    assert bytes(pickle.loads(pickle.dumps(message))) == whole


@ANY_MESSAGE
@settings(max_examples=15)
@given(data=st.data())
def test_any_values_that_are_missing_wide_or_wrong_are_written_alike(
    cls: type[Message], data: st.DataObject
) -> None:
    message = data.draw(messages(cls.kind, cls.id))
    read = decode(bytes(message), cls.kind)
    for start in (message, read):
        spoil(data, start)
        assert outcome(bytes, start) == outcome(slowly, start) == outcome(bytes, start.copy())


@ANY_MESSAGE
@settings(max_examples=15)
@given(data=st.data())
def test_layers_that_were_read_in_part_are_written_alike(cls: type[Message], data: st.DataObject) -> None:
    raw = data.draw(nearly_valid(cls.kind, cls.id))
    for message in (*contents(raw, cls.kind).messages, cls(raw)):
        twin = message.copy()
        before = bytes(message)
        assert before == slowly(message) == bytes(twin)
        spoil(data, message)
        assert outcome(bytes, message) == outcome(slowly, message)
        assert bytes(twin) == before


@settings(max_examples=50)
@given(batches())
def test_batches_are_written_alike(batch: Batch) -> None:
    assert bytes(batch) == slowly(batch) == b"".join(map(bytes, batch.messages))


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_everything_that_nodes_sent_is_written_as_it_was(capture: Path) -> None:
    seen = 0
    for raw, kind in captured(capture):
        found = contents(raw, kind)
        assert b"".join(bytes(message) for message in found.messages) + found.rest == raw
        for message in found.messages:
            assert bytes(message.copy()) == slowly(message) == bytes(message)
            seen += 1
    # What TLS hides is none of our messages.
    assert seen or "tls" in capture.stem


def captured(capture: Path) -> list[tuple[bytes, Kind | None]]:
    units = stream.units_of(capture)
    sent = [(unit.data, None) for unit in units if isinstance(unit, stream.Batch)]
    units = stream.units_of(capture)
    scouted = [(unit.data, None) for unit in units if isinstance(unit, stream.Datagram)]
    return list(dict.fromkeys(sent + scouted))


def inside(layer: Layer) -> Iterator[Layer]:
    """Yields a layer and all those in it."""
    yield layer
    for value in list(layer.fields.values()):
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, Layer):
                yield from inside(inner)
            elif isinstance(inner, dict):
                for one in inner.values():
                    if isinstance(one, Layer):
                        yield from inside(one)


def spoil(data: st.DataObject, message: Layer) -> None:
    """Takes some values away, and gives others: whatever a field takes, as often as not one that lies."""
    places = [
        (layer, described, name)
        for layer in inside(message)
        for described in shape.walk(layer.wire_shapes())
        for name in names_of(described)
    ]
    for _ in range(data.draw(st.integers(0, 6))):
        layer, described, name = data.draw(st.sampled_from(places))
        match data.draw(st.sampled_from(["delete", "none", "other", "other"])):
            case "delete":
                layer.delfieldval(name)
            case "none":
                setattr(layer, name, None)
            case _:
                layer.setfieldval(name, data.draw(other(layer, described, name)))


def names_of(described: shape.Shape) -> list[str]:
    match described:
        case shape.Packed():
            return [bits.name for bits in described.bits]
        case shape.When():
            return []
        case _:
            return [described.name]


def other(layer: Layer, described: shape.Shape, name: str) -> st.SearchStrategy[Any]:
    """Values that a field of this shape takes."""
    limits = {shape.U8: 255, shape.Le: 0xFFFF, shape.Vle: (1 << 64) - 1, shape.Packed: 1}
    raw = st.binary(max_size=200)
    found = {
        shape.Zid: raw,
        shape.CountedBytes: raw
        | st.builds(Counted, raw, st.none() | st.integers(0, 1 << 40), st.none() | st.just(9)),
        shape.Rest: raw,
        shape.Chain: st.lists(st.sampled_from([Patch(patch=3), QoS(), NodeId(node_id=7, Z=0)]), max_size=3),
        shape.Body: st.sampled_from([Del(), Put(data=b"x"), b"", b"\x1f", Raw(b"raw"), RawVal(b"val")]),
        shape.Region: st.sampled_from([b"", b"abc", Counted(b"abc", said=9)]),
    }.get(type(described))
    if type(described) in limits:
        found = st.integers(0, limits[type(described)]) | st.integers(0, 1)
        if type(described) in {shape.Vle, shape.Packed}:
            found |= st.integers(0, 1).flatmap(
                lambda n: st.integers(1, VLE_BYTES).map(lambda width: WideInt(n, width))
            )
    return st.just(layer.getfieldval(name)) if found is None else found


def outcome(build: Callable[[Any], bytes], layer: Layer) -> bytes | type[Exception]:
    """Returns the bytes, or how it ends when a value is nothing that can be written."""
    try:
        return build(layer)
    except Exception as error:  # noqa: BLE001  (both ways shall end alike, whatever that is)
        return type(error)


# None, lists, text ----------------------------------------------------------------------------------------


def test_fields_are_set_in_wire_order_and_lists_are_own() -> None:
    push = Push(body=Del(), key_suffix="a", key_scope=1)
    assert list(push.fields) == ["extensions", "key_scope", "key_suffix", "body"]
    assert Push().fields == {"extensions": []}
    Push().extensions.append(QoS())
    assert Push().extensions == []


def test_names_that_are_no_field_are_refused() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        Push(nonsense=1)
    with pytest.raises(ValueError, match="does not fit"):
        Push(key_scope=-1, nonsense=1)


@pytest.mark.parametrize(
    "message",
    [
        Push(key_scope="text"),
        Push(key_scope=b"\x01"),
        Push(key_scope=1.5),
        Push(key_suffix=5),
        Init(batch_size="text"),
        Init(version=b"\x01"),
        Init(zid=7),
        Open(lease=RawVal(b"\x01")),
        Frame(messages=RawVal(b"\x01")),
        Hello(locators=[None]),
        Hello(locators=[7]),
    ],
    ids=repr,
)
def test_values_that_are_nothing_of_the_kind_are_an_error(message: Layer) -> None:
    for _ in range(2):
        with pytest.raises((TypeError, AttributeError)):
            bytes(message)
    with pytest.raises((TypeError, AttributeError)):
        bytes(Frame(messages=[message]))


def test_raw_bytes_in_the_place_of_layers_go_out_as_they_are() -> None:
    assert bytes(Push(body=RawVal(b"\x1f\x01"))) == bytes(Push(body=Raw(b"\x1f\x01"))) == b"\x1d\x00\x1f\x01"
    assert bytes(Frame(messages=[b"ab", Raw(b"c"), RawVal(b"d")])) == b"\x05\x00abcd"
    assert bytes(KeepAlive(extensions=[QoS(Z=1), b"\x0f"])) == b"\x84\xa1\x05\x0f"
    with pytest.raises(Misfit, match=r"^KEEP_ALIVE\.extensions"):
        bytes(KeepAlive(extensions=[b"\x0f", QoS()]))


# What Scapy chooses -----------------------------------------------------------------------------------------


def test_random_values_are_drawn_each_time_and_used_consistently() -> None:
    open_ = Open(lease=RandInt(), initial_sn=RandNum(0, 5), cookie=RandBin(RandNum(1, 9)))
    seen = {bytes(open_) for _ in range(20)}
    assert len(seen) > 10
    assert all(bytes(decode(one)) == one for one in seen)
    frame = Frame(sn=RandNum(0, 99), messages=[Push(key_scope=RandNum(0, 300), body=Put(data=RandBin(3)))])
    seen = {bytes(frame) for _ in range(20)}
    assert len(seen) > 10
    assert all(len(decode(one).messages[0].body.data) == 3 for one in seen)
    flags = {bytes(Push(N=RandNum(0, 1), key_suffix="a", body=Del())) for _ in range(50)}
    assert flags == {b"\x1d\x00\x02", b"\x3d\x00\x01a\x02"}


def test_random_values_in_lists_are_drawn() -> None:
    records = [
        {"psid": RandNum(200, 300), "state_sn": 1, "locators": ["a/b"], "links": [RandNum(1000, 2000)]}
    ]
    oam = NetworkOam(oam_id=1, linkstate=LinkState(records=records))
    for _ in range(20):
        again: Any = decode(bytes(oam)).linkstate.records[0]
        assert 200 <= again["psid"] <= 300
        assert 1000 <= again["links"][0] <= 2000


def test_random_values_of_a_layer_that_was_read_are_drawn() -> None:
    frame = decode(b"\x05\x00")
    frame.sn = RandNum(1000, 2000)
    assert 1000 <= decode(bytes(frame)).sn <= 2000
    frame.fields["R"] = RandNum(1, 1)
    assert decode(bytes(frame)).R == 1


def test_sets_of_values_make_several_messages() -> None:
    push = Push(key_scope=[1, 2], body=[Put(data=b"x"), Del()])
    assert {bytes(one) for one in push} == {
        b"\x1d\x01\x01\x01x",
        b"\x1d\x02\x01\x01x",
        b"\x1d\x01\x02",
        b"\x1d\x02\x02",
    }
    assert bytes(push) == bytes(next(iter(push)))
    assert bytes(Frame(messages=[push])) == b"\x05\x00" + bytes(push)
    assert [bytes(one) for one in Close(reason=(1, 3))] == [b"\x03\x01", b"\x03\x02", b"\x03\x03"]
    assert bytes(Close(reason=(1, 3))) == b"\x03\x01"


@ANY_MESSAGE
def test_fuzz_changes_only_the_copy(cls: type[Message]) -> None:
    before = bytes(cls())
    message = cls()
    fuzzed = fuzz(message)
    assert {bytes(fuzzed) for _ in range(10)}
    assert bytes(cls()) == bytes(message) == bytes(message.copy()) == before
    # What Scapy keeps about a class is not touched either.
    for layer in (message, cls()):
        assert layer.show(dump=True)
        assert bytes(layer) == before


def test_fuzzed_fields_are_drawn_each_time() -> None:
    fuzzed = fuzz(Close())
    assert len({bytes(fuzzed) for _ in range(30)}) > 5
    assert len({bytes(fuzzed.copy()) for _ in range(30)}) > 5


# Scapy's habits -----------------------------------------------------------------------------------------------


def test_payloads_and_transforms_go_scapys_way() -> None:
    close = Close() / Raw(b"ab")
    assert bytes(close) == b"\x03\x00ab"
    close.remove_payload()
    assert bytes(close) == b"\x03\x00"
    close.add_payload(b"c")
    assert bytes(close) == b"\x03\x00c"
    assert bytes(Frame(messages=[Close() / b"x"])) == b"\x05\x00\x03\x00x"
    upper = Close(post_transform=lambda raw: raw + b"!")
    assert bytes(upper) == b"\x03\x00!"
    late = Close()
    late.post_transforms.append(lambda raw: raw + b"?")
    assert bytes(late) == b"\x03\x00?"
    assert bytes(Batch(messages=[late, Close()])) == b"\x03\x00?\x03\x00"
    assert bytes(PutAttachment(attachment=b"a") / b"bc") == b"\x43\x03abc"


def test_layers_behind_other_packets_are_built() -> None:
    packet = IP() / UDP() / Scout()
    assert bytes(packet).endswith(bytes(Scout()))
    assert packet[Scout].underlayer is packet[UDP]
    assert packet[UDP].payload is packet[Scout]
    assert IP(bytes(packet))[UDP].len == 8 + 3


def test_what_scapy_adds_is_there_when_it_is_asked_for() -> None:
    before = time.time()
    push, read = Push(key_scope=1, body=Del()), decode(b"\x1d\x01\x02")
    for layer in (push, read):
        assert (layer.underlayer, layer.parent, layer.direction, layer.wirelen, layer.comment) == (None,) * 5
        assert isinstance(layer.payload, NoPayload)
        assert layer.default_fields["key_suffix"] == b""
        assert (layer.name, layer.original) == ("PUSH", bytes(layer) if layer is read else b"")
        assert bytes(layer) == b"\x1d\x01\x02"
    assert before <= push.time <= time.time()
    assert (push.explicit, read.explicit) == (0, 1)
    assert (push == push.copy(), read == read.copy(), push == Push(key_scope=2, body=Del())) == (
        True,
        True,
        False,
    )


def test_what_was_set_before_is_kept() -> None:
    above = UDP()
    for layer in (KeepAlive(), decode(b"\x04")):
        layer.underlayer = above
        layer.time = 17.0
        layer.comment = b"why"
        assert layer.payload is not None
        assert (layer.underlayer, layer.time, layer.comment) == (above, 17.0, b"why")
        assert bytes(layer) == b"\x04"


def test_classes_that_build_in_their_own_way_do() -> None:
    class Shouting(Close):
        def post_build(self, pkt: bytes, pay: bytes) -> bytes:
            return pkt + b"!" + pay

    class Fixed(Put):
        def self_build(self) -> bytes:
            return b"\x01\x00"

    class WithDefaults(Init):
        version = 8
        extensions = [Patch(patch=1)]  # noqa: RUF012  (Scapy's way to say what a field is by default)

    assert bytes(Shouting()) == b"\x03\x00!"
    assert bytes(Batch(messages=[Shouting(), Close()])) == b"\x03\x00!\x03\x00"
    assert bytes(Push(body=Fixed(data=b"x"))) == b"\x1d\x00\x01\x00"
    assert bytes(WithDefaults(zid="5", Z=1)).hex() == "8108" + "0205" + "2701"
    WithDefaults().extensions.append(QoSOffer())
    assert len(WithDefaults().extensions) == 1
    assert not {Shouting, Fixed} & writers.keys()


def test_bytes_follow_every_change() -> None:
    frame = decode(bytes(Frame(R=1, sn=5, messages=[Push(key_suffix="a/b", body=Put(data=b"x"))])))
    (push,) = frame.messages
    push.key_suffix, push.key_scope, push.M = "c", 9, 0
    assert bytes(frame) == b"\x25\x05" + bytes(push) == b"\x25\x05\x3d\x09\x01c\x01\x01x"
    push.body.fields["data"] = b"yz"
    assert bytes(frame).endswith(b"\x02yz")
    push.extensions.append(NodeId(node_id=3))
    assert bytes(frame).endswith(b"\x01\x02yz")
    assert bytes(push)[0] == 0x3D
    del push.Z
    assert bytes(push) == b"\xbd\x09\x01c\x33\x03\x01\x02yz"
    del push.N
    push.key_suffix = None
    assert bytes(push) == b"\x9d\x09\x33\x03\x01\x02yz"
    assert bytes(push) == slowly(push)


def test_copies_are_independent() -> None:
    info = SourceInfo(zid="5", eid=1)
    for push in (
        Push(extensions=[QoS(F=1)], body=Put(data=b"x", extensions=[info])),
        decode(bytes(Push(extensions=[QoS(F=1)], body=Put(data=b"x", extensions=[info])))),
    ):
        before, twin = bytes(push), push.copy()
        twin.extensions[0].F = 0
        twin.extensions.append(NodeId())
        twin.body.extensions[0].eid = 9
        twin.body.data = b"changed"
        assert (bytes(push), push.original) == (before, before if push.explicit else b"")
        assert bytes(twin) != before


def test_numbers_of_every_size_are_written() -> None:
    for number in [0, *(1 << bits for bits in range(64)), *((1 << bits) - 1 for bits in range(1, 65))]:
        assert bytes(Open(lease=number, cookie=b""))[1:-2] == write_vle(number)
    with pytest.raises(ValueError, match="fit"):
        Open(lease=1 << 64)
    too_large = Open()
    too_large.fields["lease"] = 1 << 64
    with pytest.raises(ValueError, match="64-bit"):
        bytes(too_large)


def test_length_of_a_long_body_is_written_in_front_of_it() -> None:
    for size in (0, 1, 126, 127, 128, 129, 16_383, 16_384, 70_000):
        attachment = PutAttachment(attachment=bytes(size))
        assert bytes(attachment) == b"\x43" + write_vle(size) + bytes(size)
        put = Put(extensions=[attachment, QoS()], data=bytes(size))
        assert bytes(put) == slowly(put)


def test_every_class_of_layers_has_its_writer() -> None:
    classes = [*MESSAGES, *layers_of(transport_module), Batch, Lane]
    assert all(cls in writers for cls in classes)
    assert message_class(Kind.TRANSPORT, Frame.id) in writers


def layers_of(module: Any) -> list[type[Packet]]:
    return [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, Message)][1:]


@pytest.mark.parametrize(
    ("layer", "told"),
    [
        (lambda: Push(body=5), "PUSH.body: 5 (int) cannot be written"),
        (lambda: Put(extensions=[10**12]), "PUT.extensions: [1000000000000] (list) cannot be written"),
        (lambda: Frame(messages=[3]), "FRAME.messages: [3] (list) cannot be written"),
        (lambda: Frame(messages=[Push(body=Put(data=3))]), "PUT.data: 3 (int) cannot be written"),
        (lambda: Init(A=1, S="a"), "INIT.S: 'a' (str) cannot be written"),
        (lambda: Init(batch_size=1.5), "INIT.batch_size: 1.5 (float) cannot be written"),
        (lambda: Frame(sn="1"), "FRAME.sn: '1' (str) cannot be written"),
        (lambda: Patch(patch="x"), "Patch.patch: 'x' (str) cannot be written"),
        (lambda: Hello(zid=1), "HELLO: zid=1 is no ZenohID"),
        (lambda: Hello(locators=[5]), "HELLO.locators: [5] (list) cannot be written"),
    ],
)
def test_value_of_a_kind_that_its_field_cannot_carry_is_named(layer: Callable[[], Packet], told: str) -> None:
    with pytest.raises(Misfit) as caught:
        bytes(layer())
    assert str(caught.value) == told
