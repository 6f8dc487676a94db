"""Streams and datagrams into batches, batches into messages: whole, byte by byte, and with anything in them."""

from __future__ import annotations

import itertools
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_layers.batch import MAX_BATCH, Batch, BatchReader, contents, prefixed
from scapy_layers.codes import Kind
from scapy_layers.derive.strategies import batches
from scapy_layers.errors import BadValue, Overlong, Truncated, UnknownMessage
from tests.scapy_layers.golden import raw

H61 = raw("25 07 3d000161010134 04 25 08 3d000161010135")


def test_messages_of_a_batch_come_in_order() -> None:
    found = contents(H61)
    assert found.names == "FRAME PUSH PUT KEEP_ALIVE FRAME PUSH PUT"
    assert (found.error, found.rest) == (None, b"")


def test_frame_ends_at_the_first_id_of_the_transport() -> None:
    found = contents(raw("2500 1a01 0300 04"))
    assert found.names == "FRAME RESPONSE_FINAL CLOSE KEEP_ALIVE"


def test_fragment_takes_the_rest() -> None:
    found = contents(raw("2600 04 04"))
    assert found.names == "FRAGMENT"
    assert found.messages[0].data == b"\x04\x04"


def test_network_messages_stand_alone_on_low_latency_links() -> None:
    assert contents(raw("1a01 04 1a02")).names == "RESPONSE_FINAL KEEP_ALIVE RESPONSE_FINAL"


@pytest.mark.parametrize(
    ("digits", "kind", "names", "error", "rest"),
    [
        ("", None, "", None, ""),
        ("04 1800", None, "KEEP_ALIVE", UnknownMessage, "1800"),
        ("04 0201 04", None, "KEEP_ALIVE OPEN", Truncated, ""),
        ("2500 3d000161 07 04", None, "FRAME PUSH", UnknownMessage, ""),
        ("01090203 0204", None, "INIT OPEN", Truncated, ""),
        ("2500 3d0001ff02 04", None, "FRAME PUSH DEL", BadValue, "04"),
        ("03ff", Kind.SCOUTING, "", UnknownMessage, "03ff"),
        ("010907010907", Kind.SCOUTING, "SCOUT SCOUT", None, ""),
        ("1a", Kind.DATA, "", UnknownMessage, "1a"),
    ],
)
def test_first_refusal_ends_a_batch(
    digits: str, kind: Kind | None, names: str, error: type | None, rest: str
) -> None:
    found = contents(raw(digits), kind)
    assert found.names == names
    assert type(found.error) is (error or type(None))
    assert found.rest.hex() == rest
    assert b"".join(map(bytes, found.messages)) + found.rest == raw(digits)


@given(batches())
def test_batch_layer_and_contents_agree(batch: Batch) -> None:
    whole = bytes(batch)
    found = contents(whole)
    assert (found.error, found.rest) == (None, b"")
    again = Batch(whole)
    assert not again.errors
    assert bytes(again) == whole
    assert [m.describe() for m in again.messages] == [m.describe() for m in found.messages]


def test_batch_layer_keeps_what_it_does_not_understand() -> None:
    batch = Batch(raw("04 1800"))
    assert isinstance(batch.errors[0], UnknownMessage)
    assert (len(batch.messages), bytes(batch)) == (1, raw("041800"))


def test_prefix_is_little_endian_and_does_not_count_itself() -> None:
    assert prefixed(b"\x04").hex() == "010004"
    assert prefixed(b"", 0x1234).hex() == "3412"
    assert len(prefixed(bytes(MAX_BATCH))) == MAX_BATCH + 2
    for wrong in (-1, MAX_BATCH + 1):
        with pytest.raises(ValueError, match="at most"):
            prefixed(b"", wrong)
    with pytest.raises(ValueError, match="65536 bytes"):
        prefixed(bytes(MAX_BATCH + 1))


@given(st.lists(st.binary(max_size=20)), st.lists(st.integers(0, 60)), st.sampled_from([2, 4]))
def test_stream_gives_the_same_batches_however_it_is_cut(
    sent: list[bytes], cuts: list[int], prefix: int
) -> None:
    stream = b"".join(len(one).to_bytes(prefix, "little") + one for one in sent)
    whole = BatchReader(prefix)
    assert whole.feed(stream) == sent
    assert whole.pending == b""
    single = BatchReader(prefix)
    assert [batch for byte in stream for batch in single.feed(bytes([byte]))] == sent
    pieces = BatchReader(prefix)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    got = [batch for a, b in itertools.pairwise(edges) for batch in pieces.feed(stream[a:b])]
    assert got == sent
    assert pieces.pending == b""


def test_pending_bytes_are_shown_with_their_prefix() -> None:
    reader = BatchReader()
    assert reader.feed(raw("0100 04 0300 04")) == [b"\x04"]
    assert reader.pending.hex() == "030004"


def test_oversize_length_is_refused_after_what_came_before_it() -> None:
    reader = BatchReader(prefix=4)
    assert reader.feed(raw("01000000 04 ffffffff 04")) == [b"\x04"]
    for _ in range(2):
        with pytest.raises(Overlong):
            reader.feed(b"")


def test_limit_bounds_the_memory() -> None:
    reader = BatchReader(prefix=4, limit=10)
    assert reader.feed((10).to_bytes(4, "little") + bytes(10)) == [bytes(10)]
    with pytest.raises(Overlong):
        reader.feed((11).to_bytes(4, "little"))


def test_prefix_may_change_between_two_batches_of_one_piece() -> None:
    reader = BatchReader()
    reader.add(b"\x01\x00\x04" + b"\x02\x00\x00\x00\x03\x00" + b"\x01")
    assert reader.take() == b"\x04"
    reader.prefix = 4
    assert reader.take() == b"\x03\x00"
    assert reader.take() is None
    reader.prefix = 2
    reader.add(b"\x00\x04")
    assert reader.pending == b"\x01\x00\x04"
    assert reader.take() == b"\x04"
    assert reader.take() is None
    assert reader.pending == b""


def test_bytes_of_the_caller_stay_as_they_are() -> None:
    reader, data = BatchReader(), bytearray(b"\x02\x00\x04")
    reader.add(data)  # type: ignore[arg-type]  # only bytes are promised to work
    reader.add(b"\x04")
    assert data == b"\x02\x00\x04"
    assert reader.take() == b"\x04\x04"


def test_batch_that_arrives_in_single_bytes_is_not_copied_again_and_again() -> None:
    reader, batch = BatchReader(prefix=4, limit=1 << 20), bytes(300_000)
    for byte in len(batch).to_bytes(4, "little"):
        reader.add(bytes([byte]))
    begin = perf_counter()
    for _ in batch:
        reader.add(b"\x00")
    assert reader.take() == batch
    assert perf_counter() - begin < 5
