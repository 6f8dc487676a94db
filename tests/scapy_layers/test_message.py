"""The base layers: computed or given, dissected and built again, copies, and everything Scapy does with a layer."""

from __future__ import annotations

import copy
import pickle
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.packet import Raw, fuzz, ls

from scapy_layers import all as everything
from scapy_layers.batch import contents
from scapy_layers.catalogue import EXTENSIONS, MESSAGES, decode, decode_one
from scapy_layers.codes import Enc, Kind
from scapy_layers.data import Del, Put, Query, Reply
from scapy_layers.declarations import DeclareFinal
from scapy_layers.derive.strategies import messages, nearly_valid
from scapy_layers.errors import BadValue, WireError
from scapy_layers.extensions import (
    AuthInitSyn,
    Patch,
    PutAttachment,
    QoS,
    QueryBody,
    RegionName,
    SourceInfo,
    UsrPwd,
    WireExpr,
)
from scapy_layers.fields import WhenField
from scapy_layers.message import Layer, Message, UnknownExtension, kind_of, message_class
from scapy_layers.network import Declare, Interest, NetworkOam, Push
from scapy_layers.primitives import Counted, CountedList, WideInt
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Close, Frame, Init, KeepAlive, Open
from tests.scapy_layers.golden import facts, raw

LAYERS = [*MESSAGES, *EXTENSIONS, UnknownExtension]

ANY_MESSAGE = pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
ANY_LAYER = pytest.mark.parametrize("cls", LAYERS, ids=lambda cls: cls.__name__)


# Round trip -----------------------------------------------------------------------------------------


@ANY_MESSAGE
@settings(max_examples=30)
@given(data=st.data())
def test_what_was_built_is_what_is_decoded(cls: type[Message], data: st.DataObject) -> None:
    message = data.draw(messages(cls.kind, cls.id))
    decoded = decode(bytes(message), cls.kind)
    assert type(decoded) is cls
    assert facts(decoded) == facts(message)
    assert bytes(decoded) == bytes(message)


@ANY_MESSAGE
@settings(max_examples=30)
@given(data=st.data())
def test_nearly_valid_bytes_are_understood_or_refused(cls: type[Message], data: st.DataObject) -> None:
    assert_understood_or_refused(data.draw(nearly_valid(cls.kind, cls.id)), cls.kind)


@settings(max_examples=300)
@given(st.binary(max_size=80), st.sampled_from(Kind))
def test_any_bytes_are_understood_or_refused(anything: bytes, kind: Kind) -> None:
    assert_understood_or_refused(anything, kind)


@settings(max_examples=200)
@given(messages(unknown=True), st.data())
def test_flipped_bits_are_understood_or_refused(message: Message, data: st.DataObject) -> None:
    mutant = bytearray(bytes(message))
    for place in data.draw(st.lists(st.integers(0, len(mutant) * 8 - 1), min_size=1, max_size=3)):
        mutant[place // 8] ^= 1 << place % 8
    assert_understood_or_refused(bytes(mutant), message.kind)


def assert_tells(error: WireError, anything: bytes) -> None:
    assert 0 <= error.offset <= len(anything)
    assert error.field
    assert error.found


def assert_understood_or_refused(anything: bytes, kind: Kind) -> None:
    try:
        decoded, end = decode_one(anything, kind)
    except WireError as error:
        assert_tells(error, anything)
    else:
        assert bytes(decoded) == anything[:end]
    found = contents(anything, kind)
    assert b"".join(map(bytes, found.messages)) + found.rest == anything
    for cls in (message_class(kind, anything[0] & 0x1F),) if anything else ():
        if cls is not None:
            tolerant = cls(anything)
            assert (
                bytes(tolerant)
                == bytes(tolerant.copy())
                == bytes(tolerant.clone_with(tolerant.payload, **tolerant.fields))
                == anything
            )
            assert tolerant.summary()
            assert repr(tolerant)
            assert tolerant.show(dump=True)
            assert facts(tolerant)


@ANY_LAYER
@settings(max_examples=20)
@given(data=st.data())
def test_dissecting_the_wrong_bytes_never_raises(cls: type[Layer], data: st.DataObject) -> None:
    anything = data.draw(st.binary(min_size=1, max_size=30))
    layer = cls(anything)
    assert bytes(layer) == anything
    assert layer.describe()


@pytest.mark.parametrize(
    ("digits", "kind"),
    [
        pytest.param("84" + "8f" * 65534, None, id="chain of unit extensions"),
        pytest.param("84" + "9f" * 65534, None, id="chain of mandatory extensions"),
        pytest.param("84" + "cf00" * 32767, None, id="chain of empty bodies"),
        pytest.param("81090205" + "81" * 65531, None, id="chain of known extensions"),
        pytest.param("84" + "af" + "ff" * 65533, None, id="chain of nine-byte numbers"),
        pytest.param("04" * 65535, None, id="many messages"),
        pytest.param("2500" + "1a00" * 32766, None, id="many messages in a FRAME"),
        pytest.param("2500" + "1e9a1f" * 21844, None, id="many refused messages in a FRAME"),
        pytest.param("22090105ffff03" + "00" * 65000, Kind.SCOUTING, id="many bad locators"),
        pytest.param("22090105" + "ff" * 9 + "012f" * 30000, Kind.SCOUTING, id="giant count"),
        pytest.param("bd000161" + "47" + "d58602" + "01ff03" + "0100" * 100, None, id="giant body"),
        pytest.param("21090005" + "ffff03" + "00" * 60000, None, id="giant cookie"),
    ],
)
def test_hostile_batches_take_bounded_time(digits: str, kind: Kind | None) -> None:
    # A batch is at most 64 KiB; what is in it costs about 30 microseconds a message or extension.
    hostile = raw(digits)
    started = time.process_time()
    found = contents(hostile, kind)
    assert time.process_time() - started < 20
    assert b"".join(map(bytes, found.messages)) + found.rest == hostile


def test_hostile_batches_take_bounded_memory() -> None:
    hostile = raw("84" + "9f" * 16_000)
    tracemalloc.start()
    found = contents(hostile)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.error is not None
    # Four kilobytes for each byte received: a layer, its fields and what was wrong with it.
    assert peak < 4096 * len(hostile)


@pytest.mark.parametrize("cut", range(1, 30))
def test_bytes_behind_a_partly_read_group_are_kept(cut: int) -> None:
    # The group of S (resolution, batch size), the timestamp of T, items of a list: all read half.
    for digits in (
        "e10901051a00c004deadbeef812701",
        "e1888e98a8c0e080810101aa0904c10830ddccbbaa07ac0200",
        "2209000104 0161 03612f62 05612f622f63 8002",
    ):
        whole = raw(digits)
        cls: Any = {0xE1: Init, 0x22: Hello}[whole[0]] if whole[1] == 9 else Put
        layer = cls(whole[:cut])
        assert bytes(layer) == whole[:cut]
        assert bytes(layer.copy()) == whole[:cut]
    stack = raw("470f0302020b888e98a8c0e080810101aa0200")
    assert bytes(everything.TimestampStack(stack[:cut])) == stack[:cut]
    lanes = raw("5112" + "8001" * 9)
    assert bytes(everything.JoinLanes(lanes[:cut])) == lanes[:cut]


# Computed or given ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "digits"),
    [
        (Scout(), "010907"),
        (Scout(zid="5"), "01090f05"),
        (Scout(zid="aabb", I=0), "010907"),
        (Scout(I=1), "01090f01"),
        (Scout(zid="5", zid_len=3), "01093f05"),
        (Hello(zid="5", L=1), "2209000500"),
        (Init(zid="5", batch_size=10), "41090205 0a0a00"),
        (Init(zid="5", batch_size=10, S=0), "01090205"),
        (Init(zid="5", S=1), "41090205 0affff"),
        (Init(zid="5", Z=1), "81090205"),
        (Init(zid="5", Z=0, extensions=[Patch(patch=1)]), "01090205"),
        (Init(zid="5", A=1), "21090205 00"),
        (Init(zid="5", cookie=b""), "21090205 00"),
        (Init(zid=b""), "010902"),
        (Init(zid=b"\x01" * 17), "010902" + "01" * 17),
        (Init(zid="5", mid=9), "09090205"),
        (Init(zid="5", whatami=None, version=None), "01090205"),
        (Open(cookie=b"\x01"), "02904e00 0101"),
        (Open(cookie=b"\x01", A=1), "22904e00"),
        (Open(cookie=Counted(b"\x01", said=200)), "02904e00 c80101"),
        (Open(lease=WideInt(10, 3), cookie=b""), "02 8a8000 00 00"),
        (Close(reserved_6=1), "4300"),
        (Frame(messages=CountedList([], said=9)), "0500"),
        (NetworkOam(), "1f00"),
        (NetworkOam(z64=1), "3f0001"),
        (NetworkOam(data=b"1"), "5f000131"),
        (NetworkOam(data=b"1", ENC=0), "1f00"),
        (NetworkOam(ENC=3), "7f00"),
        (Push(key_suffix="a", body=Del()), "3d00016102"),
        (Push(key_suffix="", body=Del()), "3d000002"),
        (Push(key_suffix="a", N=0, body=Del()), "1d0002"),
        (Push(N=1, body=Del()), "3d000002"),
        (Push(), "1d00"),
        (Push(body=b"\x1f\x01"), "1d001f01"),
        (Interest(interest_id=1), "1901"),
        (Interest(interest_id=1, mode=1), "390100"),
        (Interest(interest_id=1, mode=1, key_scope=3), "39011003"),
        (Interest(interest_id=1, mode=1, key_suffix="a"), "390130000161"),
        (Interest(interest_id=1, mode=1, key_suffix="a", restricted=0), "390120"),
        (Declare(interest_id=0, body=DeclareFinal()), "3e001a"),
        (Put(encoding=4), "410800"),
        (Put(schema="u"), "4101017500"),
        (Put(schema="u", S=0), "410000"),
        (Put(timestamp=1, timestamp_id="aa"), "210101aa00"),
        (Put(timestamp_id="aa"), "210001aa00"),
        (Put(encoding=WideInt(4, 3), S=WideInt(0, 4)), "418880800000"),
        (Query(consolidation=0), "2300"),
        (Reply(body=Del()), "0402"),
        (QoS(), "2105"),
        (QoS(Z=1), "a105"),
        (QoS(ENC=Enc.ZBUF), "410105"),
        (QoS(M=1, ext_id=3), "3305"),
        (Patch(patch=1, ENC=0), "0701"),
        (Patch(patch=1, ENC=2, length=9), "470901"),
        (AuthInitSyn(), "4300"),
        (AuthInitSyn(extensions=[UsrPwd()]), "430102"),
        (AuthInitSyn(extensions=[UsrPwd(), UsrPwd(Z=1)]), "43028282"),
        (AuthInitSyn() / b"ab", "43026162"),
        (AuthInitSyn(length=9) / b"ab", "43096162"),
        (PutAttachment(attachment=b"ab"), "43026162"),
        (PutAttachment(attachment=b"ab", length=0), "43006162"),
        (PutAttachment(attachment=b"ab", length=WideInt(2, 3)), "438280006162"),
        (RegionName(region="n"), "48016e"),
        (WireExpr(key_suffix="a"), "5f03010061"),
        (WireExpr(key_suffix="a", N=0), "5f020000"),
        (SourceInfo(zid="aabb"), "410510bbaa0000"),
        (SourceInfo(zid="aabb", zid_len=7), "410570bbaa0000"),
        (QueryBody(data=b"x"), "43020078"),
        (UnknownExtension(), "0f"),
        (UnknownExtension(data=b"x"), "4f0178"),
        (UnknownExtension(z64=0), "2f00"),
        (UnknownExtension(ENC=Enc.RESERVED, M=1), "7f"),
        (UnknownExtension(data=b"x", ENC=0), "0f"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_none_is_computed_and_a_given_value_wins(message: Layer, digits: str) -> None:
    assert bytes(message).hex() == digits.replace(" ", "")
    assert bytes(message.copy()) == bytes(message)


def test_chain_sets_z_on_all_but_the_last() -> None:
    init = Init(zid="5", extensions=[Patch(patch=1), Patch(patch=2), Patch(patch=3)])
    assert bytes(init).hex() == "81090205" + "a701a7022703"
    init.extensions[0].Z = 0
    init.extensions[2].Z = 1
    assert bytes(init).hex() == "81090205" + "2701a702a703"
    assert init.extensions[1].Z is None


@settings(max_examples=200)
@given(messages())
def test_flags_that_follow_from_fields_need_not_be_given(message: Message) -> None:
    whole = bytes(message)
    for flag in ("N", "Z", "I", "L", "E", "S", "restricted", "C", "P"):
        announced = [
            field
            for field in message.fields_desc
            if isinstance(field, WhenField) and flag in [need.field for need in field.conditions]
        ]
        # A flag can be set and announce nothing: an empty list, N of an INTEREST that is not restricted.
        present = any(message.present(f.conditions) and message.getfieldval(f.name) != [] for f in announced)
        if announced and (present or not message.value(flag)):
            message.setfieldval(flag, None)
    assert bytes(message) == whole


def test_flags_read_from_the_wire_count_as_given() -> None:
    init = decode(raw("01090205"))
    init.extensions.append(Patch(patch=1))
    assert bytes(init).hex() == "01090205"
    del init.Z
    assert bytes(init).hex() == "81090205" + "2701"
    init.cookie = b"\xaa"
    init.A = None
    assert bytes(init).hex() == "a1090205" + "01aa" + "2701"


def test_length_read_from_the_wire_counts_as_given() -> None:
    attachment = PutAttachment(raw("4302 6b76"))
    attachment.attachment = b"longer"
    assert bytes(attachment).hex().startswith("4302")
    del attachment.length
    assert bytes(attachment) == b"\x43\x06longer"


def test_over_long_carrier_grows_when_its_value_does() -> None:
    put = decode(raw("41 8800 00"), Kind.DATA)
    assert bytes(put).hex() == "41880000"
    put.encoding = 0xFFFF
    assert bytes(put).hex() == "41" + "feff07" + "00"


# Lists and copies -----------------------------------------------------------------------------------


def test_lists_are_never_shared() -> None:
    makers: list[Callable[[], Any]] = [Init, lambda: decode(raw("01090205")), lambda: Init(b"\x41\x09")]
    for make in makers:
        make().extensions.append(Patch())
        assert make().extensions == []
    Hello(raw("020900")).locators.append("x")
    assert Hello(raw("020900")).locators == Hello().locators == []
    frame = decode(raw("2500"))
    frame.messages.append(Push())
    assert decode(raw("2500")).messages == Frame().messages == []


def test_copies_are_independent_and_lie_alike() -> None:
    lanes = [{"next_sn_re": n, "next_sn_be": 0} for n in range(8)]
    join = everything.Join(extensions=[everything.JoinLanes(lanes=lanes)])
    hello = Hello(locators=CountedList([Counted("a/b", said=7)], said=3, width=2))
    frame = Frame(messages=[Push(key_suffix=Counted("a", width=3), body=Put(data=Counted(b"x", said=0)))])
    for message in (join, hello, frame):
        before = bytes(message)
        for twin in (message.copy(), copy.deepcopy(message), copy.copy(message)):
            assert bytes(twin) == before
    twin = join.copy()
    twin.extensions[0].lanes[0]["next_sn_re"] = 99
    assert join.extensions[0].lanes[0]["next_sn_re"] == 0
    other = frame.copy()
    other.messages[0].body.data = b"changed"
    assert frame.messages[0].body.data == b"x"


def test_findings_survive_copies_and_pickles() -> None:
    bad = Init(raw("81090200 0f 99"))
    for twin in (bad.copy(), pickle.loads(pickle.dumps(bad))):
        assert [str(error) for error in twin.errors] == [str(error) for error in bad.errors]
        assert (twin.partial, twin.stopped, bytes(twin)) == (bad.partial, bad.stopped, bytes(bad))


def test_dissection_says_what_it_could_not_do() -> None:
    whole, cut, odd = Init(raw("01090205")), Init(raw("0109020501"[:6])), Init(raw("01090300"))
    assert (whole.errors, whole.partial, whole.stopped) == ([], False, False)
    assert (cut.partial, cut.stopped, len(cut.errors)) == (True, True, 1)
    assert (odd.partial, odd.stopped, [error.field for error in odd.errors]) == (
        False,
        False,
        ["whatami", "zid"],
    )


def test_extension_without_an_end_stops_its_message_and_is_told_once() -> None:
    for digits in ("844f0500", "84cf0500", "8421", "84a1"):
        layer = KeepAlive(raw(digits))
        assert (layer.partial, layer.stopped, len(layer.errors)) == (True, True, 1)
        assert bytes(layer) == raw(digits)


def test_body_of_a_known_length_does_not_stop_the_chain() -> None:
    put = decode_tolerantly("81" + "c103f0aabb" + "43026b76" + "0178")
    source, attachment = put.extensions
    assert (source.partial, source.stopped, put.partial) == (True, False, False)
    assert (attachment.attachment, put.data) == (b"kv", b"x")
    assert [error.field for error in put.errors] == ["extensions[0].SourceInfo.zid"]


def decode_tolerantly(digits: str) -> Any:
    put = Put(raw(digits))
    assert bytes(put) == raw(digits)
    return put


def test_wrong_id_is_found_by_a_class_that_is_asked_for() -> None:
    assert [error.field for error in Init(raw("02090205")).errors] == ["mid"]
    assert [error.field for error in QoS(raw("3105")).errors] == ["M"]
    assert isinstance(Init(raw("02090205")).errors[0], BadValue)


def test_original_is_what_was_read() -> None:
    frame = Frame(raw("2500 9e21081a 1a01"))
    declare, final = frame.messages
    assert (declare.original, final.original) == (raw("9e21081a"), raw("1a01"))
    assert declare.extensions[0].original == raw("2108")
    assert declare.body.original == raw("1a")


# What Scapy does with layers --------------------------------------------------------------------------


@ANY_LAYER
def test_scapy_tools_work_on_every_layer(cls: type[Layer], capsys: pytest.CaptureFixture[str]) -> None:
    layer = cls()
    ls(cls)
    ls(layer)
    layer.show()
    layer.show2()
    assert "mid" in capsys.readouterr().out or not issubclass(cls, Message)
    assert layer.summary().startswith(layer.describe())
    assert repr(layer).startswith(f"<{cls.__name__}")
    assert layer.haslayer(cls)
    assert cls in layer
    assert layer.json()
    assert layer == layer.copy()
    assert len(layer) == len(bytes(layer))
    assert bytes(eval(layer.command(), vars(everything))) == bytes(layer)


@ANY_LAYER
def test_fuzz_makes_layers_that_can_be_dissected(cls: type[Layer]) -> None:
    for _ in range(20):
        fuzzed = fuzz(cls())
        fuzzed.show(dump=True)
        fuzzed.summary()
        anything = bytes(fuzzed)
        layer = cls(anything)
        assert bytes(layer) == anything
        if issubclass(cls, Message):
            assert anything[0] & 0x1F == cls.id


@settings(max_examples=200)
@given(messages())
def test_command_makes_the_same_message_again(message: Message) -> None:
    names = {**vars(everything), "Raw": Raw}
    assert bytes(eval(message.command(), names)) == bytes(message)
    decoded = decode(bytes(message), message.kind)
    assert bytes(eval(decoded.command(), names)) == bytes(message)


@ANY_LAYER
def test_field_names_are_unique_and_hide_nothing(cls: type[Layer]) -> None:
    names = [field.name for field in cls.fields_desc]
    assert len(set(names)) == len(names)
    assert [name for name in names if hasattr(Layer, name) or name in Layer.__all_slots__] == []
    for name in names:
        getattr(cls(), name)


def test_inner_layers_are_found() -> None:
    frame = decode(raw("2500 1a01 3d000161 01 0178"))
    assert Put in frame
    assert frame.haslayer("PUSH")
    assert frame[Put].data == b"x"
    with pytest.raises(IndexError):
        frame[Close]


def test_payload_behind_a_layer_is_no_part_of_it() -> None:
    close = Close(raw("0300 aabb"))
    assert (close.errors, close.payload.load, bytes(close)) == ([], b"\xaa\xbb", raw("0300aabb"))
    assert close.describe() == "CLOSE reason=0 (GENERIC) + 2 bytes not understood"
    assert bytes(Frame(R=1) / Push(key_scope=1, body=Del())) == raw("2500 1d0102")


def test_description_is_one_line_with_what_matters() -> None:
    frame = decode(raw("a5003105 bd0001614f0178 01026869"))
    assert frame.describe() == (
        "FRAME R=1 sn=0 [QoS priority=5 (DATA)] [PUSH key_scope=0 key_suffix='a' "
        "[unknown optional extension 0xf data=b'x'] PUT data=b'hi']"
    )
    assert len(decode(raw("2600") + bytes(500)).describe()) < 120
    assert Push(body=b"\x01", extensions=[b"\x0f"]).describe() == "PUSH [b'\\x0f'] b'\\x01'"


def test_value_is_what_goes_onto_the_wire() -> None:
    init = Init(zid="aabb", cookie=b"")
    assert [init.value(name) for name in ("A", "S", "Z", "zid_len", "version")] == [1, 0, 0, 1, 9]
    with pytest.raises(AttributeError):
        init.value("nonsense")


def test_derived_class_is_built_but_not_dissected() -> None:
    class OldInit(Init):
        version = 8

    assert bytes(OldInit(zid="5")).hex() == "01080205"
    assert type(decode(raw("01080205"))) is Init


def test_classes_are_chosen_by_layer_and_id() -> None:
    for cls in MESSAGES:
        assert message_class(cls.kind, cls.id) is cls
    assert message_class(Kind.TRANSPORT, 0x1D) is None
    assert kind_of(0xFD) is Kind.NETWORK
    assert kind_of(0x21) is kind_of(0x18) is Kind.TRANSPORT
