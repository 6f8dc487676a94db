"""KeyIndex against the matcher of scapy_layers.keyexpr, pair by pair."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.router.keys import KeyIndex
from conformance.router.keys.index import _meets
from conformance.router.keys.wild import DEPTH
from scapy_layers.keyexpr import canonical, intersects

CHUNKS = [
    "a",
    "b",
    "ab",
    "ba",
    "abb",
    "*",
    "**",
    "a$*",
    "$*b",
    "$*a$*",
    "a$*b",
    "ab$*",
    "@a",
    "@b",
    "@a$*",
    "@$*",
    "a@b",
]

keys = st.lists(st.sampled_from(CHUNKS), min_size=1, max_size=6).map("/".join).map(canonical)
"""Small enough for wildcards to meet often."""

deep_keys = (
    st.lists(st.sampled_from(CHUNKS), min_size=DEPTH - 2, max_size=DEPTH + 6).map("/".join).map(canonical)
)


def found(index: KeyIndex[int], key: str) -> list[str]:
    return sorted(key for key, _ in index.matching(key))


@settings(max_examples=400, deadline=None)
@given(st.lists(keys, max_size=40, unique=True), st.lists(keys, min_size=1, max_size=10))
def test_index_finds_exactly_what_intersects(stored: list[str], asked: list[str]) -> None:
    index: KeyIndex[int] = KeyIndex()
    for number, key in enumerate(stored):
        index.add(key, number)
    for key in asked:
        wanted = sorted(other for other in stored if intersects(other, key))
        assert found(index, key) == wanted, key


@settings(max_examples=60, deadline=None)
@given(
    st.lists(deep_keys | keys, max_size=12, unique=True), st.lists(deep_keys | keys, min_size=1, max_size=6)
)
def test_index_finds_what_intersects_among_deep_keys(stored: list[str], asked: list[str]) -> None:
    index: KeyIndex[int] = KeyIndex()
    for number, key in enumerate(stored):
        index.add(key, number)
    for key in asked:
        assert found(index, key) == sorted(other for other in stored if intersects(other, key))


few = st.lists(st.sampled_from(["a", "ab", "**"]), min_size=1, max_size=6).map("/".join).map(canonical)
"""With no wildcard but ``**``, which meet one another often."""


@settings(max_examples=1000, deadline=None)
@given(few, few)
def test_texts_between_wildcards_are_found_as_chunks_are(a: str, b: str) -> None:
    assert _meets(a, b) is intersects(a, b)


@settings(max_examples=200, deadline=None)
@given(st.lists(keys, max_size=60), st.lists(keys, max_size=60), keys)
def test_index_forgets_what_is_taken_out(stored: list[str], gone: list[str], asked: str) -> None:
    index: KeyIndex[int] = KeyIndex()
    for key in stored:
        index.add(key, 1)
        index.add(key, 2)
    list(index.matching(asked))
    for key in gone:
        index.discard(key, 1)
        index.discard(key, 2)
    left = sorted(key for key in {*stored} - {*gone} if intersects(key, asked))
    assert sorted(index.matching(asked)) == sorted((key, value) for key in left for value in (1, 2))
    for key in stored:
        index.discard(key, 1)
        index.discard(key, 2)
    assert len(index) == 0
    assert index.keys_matching("**") == []
    assert index._shelves == {}


def test_values_under_one_key_are_kept_apart() -> None:
    index: KeyIndex[str] = KeyIndex()
    index.add("a/*", "x")
    index.add("a/*", "y")
    index.add("a/*", "y")
    index.discard("a/*", "x")
    index.discard("a/*", "never there")
    index.discard("b", "never there")
    assert list(index.matching("a/b")) == [("a/*", "y")]


def test_index_may_change_while_it_is_read() -> None:
    index: KeyIndex[int] = KeyIndex()
    for number in range(10):
        index.add(f"a/{number}", number)
    for key, value in index.matching("a/*"):
        index.discard(key, value)
        index.add(f"b/{value}", value)
    assert len(list(index.matching("b/*"))) == 10


@pytest.mark.parametrize(
    "key",
    [
        "/".join(["a"] * 32_000),
        "/".join(["a", "**"] * 13_000),
        "/".join(["*"] * 32_000),
        "/".join([*["*"] * 32_000, "**"]),
        "a$*" * 16_000 + "b",
        "/".join(["$*a"] * 16_000),
        "/".join(f"a{number}" for number in range(9_000)),
    ],
    ids=["chunks", "any", "stars", "stars and any", "inside", "patterns", "different"],
)
def test_keys_as_long_as_the_wire_allows_cost_their_bytes(key: str) -> None:
    index: KeyIndex[int] = KeyIndex()
    others = ["a/**", "**/b/**/c/**", "**/a/**", "**", "a/*/**/b", "$*a$*/**", "**/a$*/**/$*1", "a", key]
    begin = time.process_time()
    for number, other in enumerate(others):
        index.add(other, number)
    for other in others:
        assert found(index, other) == sorted(stored for stored in others if intersects(stored, other))
    index.discard(key, len(others) - 1)
    # Most of it is the matcher that this is compared with; quadratic work would take minutes.
    assert time.process_time() - begin < 20
