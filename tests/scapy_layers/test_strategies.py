"""Strategies: what they make is valid, varied and small when it shrinks; lies are lies."""

from __future__ import annotations

import contextlib
from random import Random

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from scapy_layers import shape
from scapy_layers.batch import Batch, contents
from scapy_layers.catalogue import MESSAGES, decode, decode_one
from scapy_layers.codes import Kind
from scapy_layers.data import Query
from scapy_layers.derive.strategies import Lie, _lies_about, _places, batches, lies, messages, nearly_valid
from scapy_layers.errors import (
    BadValue,
    Overlong,
    Truncated,
    UnknownMandatoryExtension,
    UnknownMessage,
    WireError,
)
from scapy_layers.extensions import JoinLanes, Patch, QoS, QueryBody, RegionName, Target, Timestamp
from scapy_layers.message import Layer, Message, UnknownExtension
from scapy_layers.network import Push, Request
from scapy_layers.primitives import WideInt, vle_size
from scapy_layers.scouting import Hello
from scapy_layers.transport import Fragment, Init, Join

ONCE = settings(max_examples=1, database=None, phases=[Phase.generate])
SEARCH = settings(max_examples=5_000, database=None, phases=[Phase.generate, Phase.shrink])


@given(messages())
def test_messages_are_valid(message: Message) -> None:
    assert not decode(bytes(message), message.kind).errors


@given(messages(Kind.TRANSPORT, 1) | messages(Kind.TRANSPORT, 2))
def test_no_two_known_extensions_of_one_id(message: Message) -> None:
    ids = [one.value("ext_id") for one in message.extensions if not isinstance(one, UnknownExtension)]
    assert len(set(ids)) == len(ids)


@given(batches())
def test_batches_are_valid_and_only_end_with_what_fills_them(batch: Batch) -> None:
    assert contents(bytes(batch)).error is None
    assert not any(isinstance(message, Fragment) for message in batch.messages[:-1])


def inside(layer: Layer) -> list[Layer]:
    found = [layer]
    for field in layer.packetfields:
        value = layer.getfieldval(field.name)
        for one in value if isinstance(value, list) else [value]:
            found += inside(one) if isinstance(one, Layer) else []
    return found


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_every_flag_field_and_extension_is_made(cls: type[Message]) -> None:
    missing = {field.name for field in cls.fields_desc if not field.name.startswith("reserved")}
    (chain,) = (one for one in shape.walk(cls.wire_shapes()) if isinstance(one, shape.Chain))
    missing |= {"unknown", *(f"{known.enc << 5 | known.id}" for known in chain.known)}
    if cls.id == 0:
        missing.discard("mid")

    def made_the_rest(message: Message) -> bool:
        decoded = decode(bytes(message), cls.kind)
        chain = decoded.getfieldval("extensions") or []
        missing.difference_update(name for name, value in decoded.fields.items() if value)
        missing.difference_update(f"{one.value('ENC') << 5 | one.value('ext_id')}" for one in chain)
        missing.difference_update("unknown" for one in chain if isinstance(one, UnknownExtension))
        return not missing

    # The last of what there is ends the search: few messages need all of these examples.
    enough = settings(max_examples=200, database=None, phases=[Phase.generate])
    with contextlib.suppress(NoSuchExample):
        find(messages(cls.kind, cls.id), made_the_rest, settings=enough, random=Random(7))
    assert missing == set()


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_simplest_message_has_no_flag_and_no_extension(cls: type[Message]) -> None:
    smallest = find(messages(cls.kind, cls.id), lambda _: True, settings=SEARCH, random=Random(7))
    assert bytes(smallest)[0] & 0xE0 == 0
    assert len(bytes(smallest)) <= 7


def test_shrinking_keeps_only_what_matters() -> None:
    smallest = find(
        messages(Kind.NETWORK),
        lambda message: any(
            isinstance(one, QoS) and one.D for one in message.getfieldval("extensions") or []
        ),
        settings=SEARCH,
        random=Random(7),
    )
    assert len(bytes(smallest)) <= 5
    assert smallest.extensions[0].describe() == "QoS D=1 priority=0 (CONTROL)"


def test_fields_can_be_given() -> None:
    fixed = {"key_suffix": st.just("demo/a"), "whatami": st.just(2)}

    @given(messages(Kind.NETWORK, 0x1D, given=fixed), messages(Kind.TRANSPORT, 1, given=fixed))
    def check(push: Push, init: Init) -> None:
        assert push.key_suffix in {"demo/a", None}
        assert init.whatami == 2

    check()


def test_unknown_extensions_can_be_left_out() -> None:
    @given(messages(Kind.DATA, unknown=False))
    def check(message: Message) -> None:
        assert not any(isinstance(one, UnknownExtension) for one in inside(message))

    check()


def test_message_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="no message"):
        messages(Kind.DATA, 31)


@pytest.mark.parametrize("error", [Truncated, Overlong, BadValue, UnknownMessage, UnknownMandatoryExtension])
def test_lies_find_every_kind_of_refusal(error: type[WireError]) -> None:
    def is_refused(anything: bytes) -> bool:
        try:
            decode_one(anything)
        except WireError as refused:
            return type(refused) is error
        return False

    smallest = find(nearly_valid(Kind.TRANSPORT), is_refused, settings=SEARCH, random=Random(7))
    assert len(smallest) <= 64


ELABORATE = [
    Hello(zid="5", locators=["a/b"]),
    Init(zid="5", extensions=[RegionName(region="n"), Patch()]),
    Join(extensions=[JoinLanes(lanes=[{}] * 8)]),
    Request(
        key_suffix="a",
        extensions=[Target(target=1), Timestamp()],
        body=Query(extensions=[QueryBody(schema="s")]),
    ),
]

TOLD = {
    "wrong Z",
    "wrong Z among extensions",
    "wrong N",
    "wrong zid_len",
    "wrong length",
    "wrong count of key_suffix",
    "wrong count of locators",
    "over-long count of schema",
    "over-long key_scope",
    "over-long S",
    "out of range whatami",
    "out of range target",
    "out of range mid",
    "too large request_id",
    "too large key_scope",
    "too large length",
    "zero zid",
    "zero timestamp_id",
    "of the wrong size timestamp_id",
    "no UTF-8 in key_suffix",
    "no UTF-8 in region",
    "mandatory unknown among extensions",
    "reserved encoding among extensions",
    "unknown id of body",
    "missing body",
    "too few lanes",
    "bits set in reserved2",
    "unknown version",
}


def test_lies_are_told_about_every_kind_of_field() -> None:
    found = {
        what
        for message in ELABORATE
        for layer, described in _places(message)
        for what, _ in _lies_about(layer, described)
    }
    assert TOLD - found == set()


@pytest.mark.parametrize("message", ELABORATE, ids=lambda message: str(message.name))
def test_each_lie_can_be_told_and_is_no_secret(message: Message) -> None:
    count = sum(len(_lies_about(layer, one)) for layer, one in _places(message))
    told = 0
    for place, (layer, described) in enumerate(_places(message)):
        for number, (what, _) in enumerate(_lies_about(layer, described)):
            liar = message.copy()
            _, tell = _lies_about(*_places(liar)[place])[number]
            find(st.composite(lambda draw, tell=tell: tell(draw) or True)(), bool, settings=ONCE)
            assert bytes(liar) != bytes(message), what
            told += 1
    assert told == count


@given(lies())
def test_lie_says_what_it_is(lie: Lie) -> None:
    assert lie.what


@given(messages(Kind.TRANSPORT, 2), st.integers(1, 9))
def test_over_long_numbers_are_no_reason_to_refuse(message: Message, width: int) -> None:
    number = message.initial_sn
    message.initial_sn = WideInt(number, max(width, vle_size(number)))
    assert decode(bytes(message)).initial_sn == number
