from __future__ import annotations

import pytest

from fuzz.anatomy import Sort, anatomy
from scapy_layers import extensions as ext
from scapy_layers.batch import contents
from scapy_layers.codes import Kind
from scapy_layers.data import Put
from scapy_layers.network import Push
from scapy_layers.primitives import Reader
from scapy_layers.scouting import Hello
from scapy_layers.transport import Frame, Init, Open
from tests.robustness.inputs import inputs, seeds

SOME = 9

PUSH = Push(
    key_suffix="a/b",
    extensions=[ext.QoS(), ext.Timestamp(timestamp=7, timestamp_id=b"\x01")],
    body=Put(data=b"hi"),
)


def test_every_field_of_a_message_is_a_piece_with_its_path() -> None:
    cut = anatomy(bytes(Frame(R=1, sn=300, messages=[Push(key_suffix="a/b", body=Put(data=b"hi"))])))

    told = [(piece.path, piece.raw) for piece in cut.pieces if piece.raw]
    assert told == [
        ("FRAME.Z", b"\x25"),
        ("FRAME.sn", b"\xac\x02"),
        ("PUSH.Z", b"\x3d"),
        ("PUSH.key_scope", b"\x00"),
        ("PUSH.key_suffix.length", b"\x03"),
        ("PUSH.key_suffix", b"a/b"),
        ("PUT.Z", b"\x01"),
        ("PUT.data.length", b"\x02"),
        ("PUT.data", b"hi"),
    ]
    assert [(span.name, span.depth) for span in cut.messages] == [("FRAME", 0), ("PUSH", 1), ("PUT", 2)]
    assert cut.whole
    assert cut.name == "PUSH"


def test_lengths_know_what_they_count_at_every_depth() -> None:
    cut = anatomy(bytes(PUSH))

    length = next(i for i, piece in enumerate(cut.pieces) if piece.path == "PUSH.Timestamp.length")
    inner = next(i for i, piece in enumerate(cut.pieces) if piece.path == "PUSH.Timestamp.timestamp_id")
    first, end = cut.counts[length]
    assert b"".join(cut.raws[first:end]) == b"\x07\x01\x01"
    assert cut.pieces[inner].inside == (inner - 1, length)
    assert [span.name for span in cut.extensions] == ["QoS", "Timestamp"]


@pytest.mark.parametrize("message", [Init(A=1, cookie=b"c"), Open(cookie=b"c"), PUSH])
def test_place_for_extensions_is_known_with_and_without_some(message: Init | Open | Push) -> None:
    cut = anatomy(bytes(message))
    assert cut.chains[0].filled is bool(message.extensions)
    assert cut.pieces[cut.chains[0].header].sort is Sort.HEADER


def test_counts_are_true_in_all_captures() -> None:
    for raw in seeds()[::SOME]:
        cut = anatomy(raw)
        assert bytes(cut) == raw
        for index, (first, end) in cut.counts.items():
            assert Reader(cut.raws[index]).vle() == sum(map(len, cut.raws[first:end]))


def test_what_a_strict_decoder_takes_is_taken_apart_whole() -> None:
    for raw in seeds()[::SOME]:
        if contents(raw).error is None:
            assert anatomy(raw).whole, raw.hex()


def test_any_bytes_are_pieces() -> None:
    for raw in inputs(800, 5):
        assert bytes(anatomy(raw)) == raw
        assert bytes(anatomy(raw, Kind.SCOUTING)) == raw


def test_shape_is_the_same_for_other_values_and_another_for_other_extensions() -> None:
    one, other = Push(key_suffix="a", body=Put(data=b"x")), Push(key_suffix="bcd", body=Put(data=b"yyy"))
    assert anatomy(bytes(one)).shape == anatomy(bytes(other)).shape
    assert anatomy(bytes(one)).shape != anatomy(bytes(PUSH)).shape


def test_byte_belongs_to_the_field_it_stands_in() -> None:
    cut = anatomy(bytes(Push(key_suffix="abc", body=Put(data=b"hi"))))
    assert [cut.path_at(at) for at in (0, 1, 2, 3, 5, 6)] == [
        "PUSH.Z", "PUSH.key_scope", "PUSH.key_suffix.length", "PUSH.key_suffix", "PUSH.key_suffix", "PUT.Z",
    ]  # fmt: skip
    assert cut.path_at(10_000) == "rest"


def test_scouting_is_read_as_such() -> None:
    raw = bytes(Hello(zid=b"\x01", locators=["tcp/a:1", "udp/b:2"]))
    cut = anatomy(raw, Kind.SCOUTING)
    assert cut.name == "HELLO"
    assert [piece.raw for piece in cut.pieces if piece.sort is Sort.TEXT] == [b"tcp/a:1", b"udp/b:2"]
    assert [piece.raw for piece in cut.pieces if piece.sort is Sort.COUNT] == [b"\x02"]


def test_huge_counts_cost_nothing() -> None:
    raw = bytes(Hello(zid=b"\x01", locators=[]))[:-1] + b"\xff" * 9
    assert not anatomy(raw, Kind.SCOUTING).whole
