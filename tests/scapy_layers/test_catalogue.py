"""The catalogue: everything is in it, and strict decoding of one message, exactly one, and a batch."""

from __future__ import annotations

import inspect
from dataclasses import replace
from itertools import combinations

import pytest

from scapy_layers import data, declarations, extensions, network, scouting, shape, transport
from scapy_layers.catalogue import EXTENSIONS, MESSAGES, build, decode, decode_batch, decode_one, shapes
from scapy_layers.codes import DataId, DeclarationId, Kind, NetworkId, ScoutingId, TransportId
from scapy_layers.errors import BadValue, Truncated, UnknownMessage
from scapy_layers.message import Extension, Message
from tests.scapy_layers.golden import raw


def test_every_message_class_is_listed() -> None:
    found = {
        cls
        for module in (scouting, transport, network, declarations, data)
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if issubclass(cls, Message) and cls.__module__ == module.__name__
    }
    assert found == set(MESSAGES)
    assert len(MESSAGES) == len(shapes())


def test_every_extension_class_is_in_some_table() -> None:
    found = {
        cls
        for _, cls in inspect.getmembers(extensions, inspect.isclass)
        if issubclass(cls, Extension) and cls is not Extension
    }
    assert found == set(EXTENSIONS)


def test_every_id_of_the_specification_has_a_message() -> None:
    wanted = {
        *((Kind.SCOUTING, i) for i in ScoutingId),
        *((Kind.TRANSPORT, i) for i in TransportId),
        *((Kind.NETWORK, i) for i in NetworkId),
        *((Kind.DECLARATION, i) for i in DeclarationId),
        *((Kind.DATA, i) for i in DataId),
    }
    assert set(shapes()) == wanted


def test_names_are_those_of_the_specification() -> None:
    for (kind, number), described in shapes().items():
        ids = {
            Kind.SCOUTING: ScoutingId,
            Kind.TRANSPORT: TransportId,
            Kind.NETWORK: NetworkId,
            Kind.DECLARATION: DeclarationId,
            Kind.DATA: DataId,
        }[kind]
        assert described.name == ids(number).name


def test_extensions_with_the_same_header_are_told_apart_by_opposite_conditions() -> None:
    for chain in chains():
        for one, other in combinations(chain.known, 2):
            if one.header == other.header:
                assert (
                    opposite(one.conditions) == other.conditions
                    or opposite(other.conditions) == one.conditions
                )


def chains() -> list[shape.Chain]:
    inside = [extension.wire_shapes() for extension in EXTENSIONS]
    outside = [described.fields for described in shapes().values()]
    return [one for group in outside + inside for one in shape.walk(group) if isinstance(one, shape.Chain)]


def opposite(conditions: shape.Conditions) -> shape.Conditions:
    (need,) = conditions
    if isinstance(need, shape.Carries):
        return (replace(need, negated=not need.negated),)
    assert need.equals in {0, 1}
    return (replace(need, equals=1 - need.equals),)


def test_build_makes_the_layer_of_a_shape() -> None:
    assert bytes(build(shapes()[Kind.TRANSPORT, 3], {"reason": 2})) == b"\x03\x02"
    assert bytes(build(extensions.Patch.shape(), {"patch": 1})) == b"\x27\x01"
    with pytest.raises(KeyError):
        build(shape.Message("NONE", Kind.DATA, 31, ()), {})


def test_decode_one_says_where_the_next_message_begins() -> None:
    message, end = decode_one(raw("ffff 0302 04"), at=2)
    assert (message.name, end) == ("CLOSE", 4)
    message, end = decode_one(raw("ffff 0302 04"), at=end)
    assert (message.name, end) == ("KEEP_ALIVE", 5)
    with pytest.raises(Truncated) as caught:
        decode_one(raw("0302"), at=2)
    assert caught.value.offset == 2


def test_decode_says_that_it_takes_bytes() -> None:
    for other in ("3d00", 5, None):
        with pytest.raises(TypeError, match=r"^bytes are decoded, not (str|int|NoneType); bytes.fromhex\(\)"):
            decode(other)  # type: ignore[arg-type]


def test_decode_takes_exactly_one_message() -> None:
    assert decode(raw("0302")).name == "CLOSE"
    with pytest.raises(BadValue) as caught:
        decode(raw("030204"))
    assert (caught.value.field, caught.value.offset) == ("CLOSE", 2)


def test_kind_tells_equal_ids_apart() -> None:
    assert decode(raw("010907"), Kind.SCOUTING).name == "SCOUT"
    assert decode(raw("0100"), Kind.DATA).name == "PUT"
    assert decode(raw("0107"), Kind.DECLARATION).name == "U_KEYEXPR"
    with pytest.raises(UnknownMessage):
        decode(raw("1f00"), Kind.DATA)


def test_decode_batch_goes_on_behind_a_frame() -> None:
    batch = raw("25 07 3d000161010134 04 25 08 3d000161010135")
    assert [message.name for message in decode_batch(batch)] == ["FRAME", "KEEP_ALIVE", "FRAME"]
    assert decode_batch(b"") == []
    with pytest.raises(UnknownMessage) as caught:
        decode_batch(batch + b"\x08")
    assert caught.value.offset == len(batch)
