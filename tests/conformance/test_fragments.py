"""Network messages in fragments."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from conformance.session.fragments import Reassembly
from scapy_layers.extensions import Drop, First
from scapy_layers.transport import Fragment
from tests.conformance.session.pair import cut


def chain(raw: bytes, room: int, *, first: bool = True) -> list[Fragment]:
    parts = cut(raw, room)
    return [
        Fragment(
            M=int(at < len(parts) - 1), sn=at, data=part, extensions=[First()] if first and at == 0 else []
        )
        for at, part in enumerate(parts)
    ]


@given(st.binary(min_size=1, max_size=300), st.integers(1, 64), st.sampled_from([0, 1]))
def test_message_comes_back_whole_after_the_last_fragment_only(raw: bytes, room: int, patch: int) -> None:
    reassembly = Reassembly(patch)
    results = [reassembly.take(fragment) for fragment in chain(raw, room)]
    assert results[:-1] == [None] * (len(results) - 1)
    assert results[-1] == raw


def test_gap_discards_the_partial_message_and_the_next_is_whole() -> None:
    reassembly = Reassembly(1)
    one, _, three = chain(b"abcdef", 2)
    assert reassembly.take(one) is None
    assert reassembly.take(three, gap=True) is None
    assert [reassembly.take(part) for part in chain(b"xyz", 2)] == [None, b"xyz"]


def test_chain_without_first_counts_only_before_patch_1() -> None:
    assert [Reassembly(1).take(part) for part in chain(b"abc", 3, first=False)] == [None]
    assert [Reassembly(0).take(part) for part in chain(b"abc", 3, first=False)] == [b"abc"]


def test_first_in_the_middle_starts_anew_from_patch_1_on() -> None:
    reassembly = Reassembly(1)
    assert reassembly.take(Fragment(M=1, data=b"old", extensions=[First()])) is None
    assert reassembly.take(Fragment(M=1, data=b"new", extensions=[First()])) is None
    assert reassembly.take(Fragment(M=0, data=b"er")) == b"newer"


def test_drop_forgets_the_partial_message() -> None:
    reassembly = Reassembly(1)
    reassembly.take(Fragment(M=1, data=b"old", extensions=[First()]))
    assert reassembly.take(Fragment(M=1, extensions=[Drop()])) is None
    assert reassembly.take(Fragment(M=0, data=b"end")) is None


def test_endless_fragments_stay_within_the_bound() -> None:
    reassembly = Reassembly(1, most=1000)
    reassembly.take(Fragment(M=1, data=b"x" * 400, extensions=[First()]))
    for _ in range(100):
        assert reassembly.take(Fragment(M=1, data=b"x" * 400)) is None
    assert reassembly.take(Fragment(M=0, data=b"end")) is None
