"""Strategies: what they make is valid, varied and small when it shrinks; lies are lies."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from scapy_layers.batch import Batch, contents
from scapy_layers.catalogue import EXTENSIONS, MESSAGES, decode, decode_one
from scapy_layers.codes import Kind
from scapy_layers.derive.strategies import Lie, batches, lies, messages, nearly_valid
from scapy_layers.errors import (
    BadValue,
    Overlong,
    Truncated,
    UnknownMandatoryExtension,
    UnknownMessage,
    WireError,
)
from scapy_layers.extensions import QoS
from scapy_layers.message import Layer, Message, UnknownExtension
from scapy_layers.network import Push
from scapy_layers.primitives import WideInt
from scapy_layers.transport import Fragment, Init

SEARCH = settings(max_examples=5_000, database=None, phases=[Phase.generate, Phase.shrink])


@given(messages())
def test_messages_are_valid(message: Message) -> None:
    assert not decode(bytes(message), message.kind).errors


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


def test_every_layer_flag_and_field_is_made() -> None:
    made: set[type] = set()
    given_fields: set[tuple[str, str]] = set()

    @settings(
        max_examples=1500, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(messages())
    def collect(message: Message) -> None:
        for layer in inside(decode(bytes(message), message.kind)):
            made.add(type(layer))
            given_fields.update((type(layer).__name__, name) for name, value in layer.fields.items() if value)

    collect()
    assert {*MESSAGES, *EXTENSIONS, UnknownExtension} - made == set()
    flags = {
        (cls.__name__, bits.name)
        for cls in MESSAGES
        for bits in cls.wire_shapes()[0].bits  # type: ignore[union-attr]
        if not bits.reserved and bits.name != "mid"
    }
    assert flags - given_fields == set()


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_simplest_message_has_no_flag_and_no_extension(cls: type[Message]) -> None:
    smallest = find(messages(cls.kind, cls.id), lambda _: True, settings=SEARCH)
    assert bytes(smallest)[0] & 0xE0 == 0
    assert len(bytes(smallest)) <= 7


def test_shrinking_keeps_only_what_matters() -> None:
    smallest = find(
        messages(Kind.NETWORK),
        lambda message: any(
            isinstance(one, QoS) and one.D for one in message.getfieldval("extensions") or []
        ),
        settings=SEARCH,
    )
    assert len(bytes(smallest)) <= 4
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

    smallest = find(nearly_valid(Kind.TRANSPORT), is_refused, settings=SEARCH)
    assert len(smallest) <= 12


@pytest.mark.parametrize(
    "what",
    [
        "cut to",
        "put in at",
        "wrong Z",
        "wrong zid_len",
        "wrong length",
        "wrong count of key_suffix",
        "wrong count of locators",
        "over-long count of data",
        "over-long key_scope",
        "over-long S",
        "out of range whatami",
        "out of range target",
        "out of range mid",
        "too large request_id",
        "zero zid",
        "of the wrong size timestamp_id",
        "no UTF-8 in key_suffix",
        "mandatory unknown among extensions",
        "reserved encoding among extensions",
        "unknown id of body",
        "too few lanes",
        "bits set in reserved",
        "unknown version",
    ],
)
def test_lies_of_every_kind_are_told(what: str) -> None:
    where = {"locators": (Kind.SCOUTING, 2), "lanes": (Kind.TRANSPORT, 7), "target": (Kind.NETWORK, 0x1C)}
    told = lies(*where.get(what.rsplit(maxsplit=1)[-1], ()))
    find(told, lambda lie: what in lie.what, settings=settings(SEARCH, phases=[Phase.generate]))


@given(lies())
def test_lie_says_what_it_is(lie: Lie) -> None:
    assert lie.what


def test_over_long_numbers_are_no_reason_to_refuse() -> None:
    @given(messages(Kind.TRANSPORT, 2), st.integers(0, 8))
    def check(message: Message, more: int) -> None:
        sn = message.initial_sn
        wide = WideInt(sn, 9)
        message.initial_sn = wide
        assert decode(bytes(message)).initial_sn == sn + 0 * more

    check()
