"""Key expressions: the outcome table, all small cases against an enumeration, bounds, and a real node."""

from __future__ import annotations

import functools
import itertools
import json
import subprocess
import sys
from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_layers.errors import BadValue
from scapy_layers.keyexpr import canonical, concrete, includes, intersects, is_valid, why_invalid

OUTCOMES = [
    tuple(line.split())
    for line in """
a a YYY
a/b a/b YYY
a b NNN
a a/b NNN
* abc YYN
* a/b NNN
** abc YYN
** a/b/c YYN
** * YYN
*/** ** YNY
** ** YYY
ab$* abcd YYN
ab$* ab YYN
ab$* ab/c NNN
ab$*d abcd YYN
ab$*cd abxxcxxcd YYN
ab$*cd abxxcxxd NNN
ab$*cd abxxcxxcdx NNN
ab$*c$*d abxxcxxd YYN
ab/* ab NNN
ab/** ab YYN
ab/** ab/c YYN
ab/** ab/* YYN
a/**/b a/b YYN
a/*/b a/b NNN
a/**/b a/c/d/b YYN
a/*/c/*/e a/b/c/d/e YYN
a/*/c/*/e a/c/e NNN
a/*/c/*/e a/b/c/d/x/e NNN
a/$*b/c/$*d/e a/xb/c/xd/e YYN
a/**/c/**/e a/b/b/b/c/d/d/d/e YYN
a/**/c/**/e a/c/e YYN
a/**/c/*/e/* a/b/b/b/c/d/d/c/d/e/f YYN
a/**/c/*/e/* a/b/b/b/c/d/d/c/d/d/e/f NNN
**/xyz a/b/xyz/d/e/f/xyz YYN
**/xyz$*xyz a/b/xyz/d/e/f/xyz NNN
**/xyz$*xyz a/b/xyzdefxyz YYN
x/abc abc NNN
x/* x/abc YYN
* x/abc NNN
x/* x/abc$* YYN
x/$*abc x/abc$* YNN
x/a$* x/abc$* YYN
x/a$*de x/abc$*de YYN
x/a$*d$*e x/a$*e YNY
x/a$*d$*e x/a$*c$*e YNN
x/a$*d$*e x/ade YYN
x/c$* x/abc$* NNN
x/$*c$* x/abc$* YYN
x/$*d x/$*e NNN
a/* */b YNN
a/** **/b YNN
a/** b/** NNN
a/**/c a/b/** YNN
a/*/b a/** YNY
@a @a YYY
@a @ab NNN
@a @a/b NNN
@a @a/* NNN
@a @a/** YNY
@a **/@a YNY
@a @a$*/** NNN
* @a NNN
** @a NNN
** @a/b NNN
** a/@b NNN
a/* a/@b NNN
a/** a/@b/c NNN
$*a @a NNN
a$* a@b YYN
* a@b YYN
@$* @a NNN
**/@b a/@b YYN
**/@b/** a/@b/c YYN
@a/* @a/@b NNN
@a/** @a/@b NNN
@a/**/@b @a/@b YYN
@a/@b/** @a/@b YYN
@a/**/c/**/e @a/b/b/b/c/d/d/d/e YYN
@a/**/c/**/e @a/@b/b/b/c/d/d/d/e NNN
@a/**/@c/**/e @a/b/b/b/@c/d/d/d/e YYN
@a/**/e @a/b/b/@c/b/d/d/d/e NNN
@a/**/@c/**/@b @a/**/@c/@b YYN
@a/**/@c/@b @a/@c/**/@b YNN
@a/**/@b @a/**/@c/**/@b NNN
@/** @/router/x YYN
""".strip().splitlines()
]
"""Rows of: A, B, and Y or N for "A intersects B", "A includes B", "B includes A"."""

VALID = [
    "a",
    "*",
    "**",
    "a$*",
    "$*a",
    "a$*b$*c",
    "$*-$*",
    "*/**",
    "*/*/**",
    "a/*/$*b",
    "@",
    "@a",
    "@a$*",
    "@$*",
    "a@b",
    "A/B",
    "a/./b",
    "a/../b",
    "é/ü",
    "a/@a/**",
]

INVALID = [
    "/",
    "/a",
    "a/",
    "a//b",
    "a*",
    "*a",
    "a**",
    "a/***",
    "@*",
    "*$*",
    "**$*",
    "$**",
    "$",
    "a$",
    "a$b",
    "a/$",
    "$*$",
    "$$*",
    "a#b",
    "a?b",
    "/b",
    "**?",
]

REWRITTEN = [
    ("$*$*/a", "*/a"),
    ("$*", "*"),
    ("a/$*", "a/*"),
    ("a$*$*b", "a$*b"),
    ("a$*$*$*b$*$*", "a$*b$*"),
    ("hello/foo$*$*/bar", "hello/foo$*/bar"),
    ("**/**", "**"),
    ("a/**/*/b", "a/*/**/b"),
    ("hello/**/**/bye", "hello/**/bye"),
    ("a/**/*/**/*/b", "a/*/*/**/b"),
    ("**/*/**", "*/**"),
    ("**/*", "*/**"),
    ("hello/**/$*/bye", "hello/*/**/bye"),
    ("hello/**/$*$*/**/bye", "hello/*/**/bye"),
    ("@$*$*", "@$*"),
    ("**/@a/**", "**/@a/**"),
]


def test_the_outcome_table_is_whole() -> None:
    assert len(OUTCOMES) == 86


@pytest.mark.parametrize(("a", "b", "outcome"), OUTCOMES, ids=lambda text: text)
def test_outcomes_are_those_of_the_table(a: str, b: str, outcome: str) -> None:
    for left, right, expected in ((a, b, outcome), (b, a, outcome[0] + outcome[2] + outcome[1])):
        found = (intersects(left, right), includes(left, right), includes(right, left))
        assert "".join("NY"[yes] for yes in found) == expected


@pytest.mark.parametrize("text", [*VALID, "a b", "a\0", " "])
def test_valid_keys_are_canonical_and_match_themselves(text: str) -> None:
    assert why_invalid(text) is None
    assert is_valid(text)
    assert canonical(text) == text
    assert intersects(text, text)
    assert includes(text, text)
    assert concrete(text) == ("*" not in text)


@pytest.mark.parametrize("text", [*INVALID, "", "a/\ud800", "a\ud800$*"])
def test_what_is_no_key_has_no_canonical_form_and_is_never_compared(text: str) -> None:
    assert not is_valid(text)
    assert not concrete(text)
    with pytest.raises(BadValue) as caught:
        canonical(text)
    assert caught.value.found == why_invalid(text)
    for compare in (intersects, includes):
        for pair in ((text, "a"), ("a", text), (text, text)):
            with pytest.raises(BadValue):
                compare(*pair)


@pytest.mark.parametrize(("text", "expected"), REWRITTEN)
def test_another_spelling_is_rewritten_and_not_valid_itself(text: str, expected: str) -> None:
    assert canonical(text) == expected
    assert canonical(expected) == expected
    assert is_valid(text) == (text == expected)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "empty, a key has at least one chunk"),
        ("a//b", "an empty chunk in 'a//b'"),
        ("x/a*", "'*' in chunk 'a*', where it stands neither alone nor behind a '$'"),
        ("x/a$", "'$' in chunk 'a$' without a '*' behind it"),
        ("a/b?", "'?' in chunk 'b?', no key has it"),
        ("a/$*", "not canonical, 'a/$*' is written 'a/*'"),
        ("\udcff/x", "chunk '\\udcff' is not UTF-8"),
    ],
)
def test_why_a_key_is_invalid_is_one_sentence(text: str, sentence: str) -> None:
    assert why_invalid(text) == sentence


def test_where_a_key_goes_wrong_is_told_briefly() -> None:
    with pytest.raises(BadValue) as caught:
        canonical("ab/" + "c" * 70_000 + "*")
    assert caught.value.offset == 3
    assert len(caught.value.found) < 150


# Against an enumeration ---------------------------------------------------------------------------


def test_comparing_few_chunks_agrees_with_all_keys_they_match() -> None:
    """Exact: seven chunks are room for every ``**`` of four to be longer than the other key is rigid."""
    # The key of no chunks counts: by the table "*/**" does not include "**".
    keys = list(itertools.chain.from_iterable(itertools.product("az@", repeat=n) for n in range(8)))
    place = {key: 1 << number for number, key in enumerate(keys)}
    patterns = sorted(
        {
            canonical("/".join(chunks))
            for n in range(1, 5)
            for chunks in itertools.product(["a", "*", "**", "@"], repeat=n)
        }
    )
    matched = {
        pattern: sum(place[key] for key in _keys(tuple(pattern.split("/")), 7)) for pattern in patterns
    }
    for a, b in itertools.product(patterns, repeat=2):
        assert intersects(a, b) == bool(matched[a] & matched[b]), (a, b)
        assert includes(a, b) == (matched[a] & matched[b] == matched[b]), (a, b)
        assert (matched[a] == matched[b]) == (a == b), (a, b)


@functools.cache
def _keys(chunks: tuple[str, ...], most: int) -> frozenset[tuple[str, ...]]:
    """Returns all keys of up to ``most`` chunks out of a, z and @ that a pattern matches."""
    if not chunks:
        return frozenset([()])
    first, rest = chunks[0], chunks[1:]
    found = set(_keys(rest, most)) if first == "**" else set()
    if most:
        again = chunks if first == "**" else rest
        for chunk in "az" if first.startswith("*") else first:
            found |= {(chunk, *key) for key in _keys(again, most - 1)}
    return frozenset(found)


def test_comparing_chunks_agrees_with_all_words_they_match() -> None:
    """Exact: a word that both match need not be longer than both together, one that only b matches than b."""
    words = ["".join(word) for n in range(1, 8) for word in itertools.product("az@", repeat=n)]
    patterns = sorted(
        {"".join(parts) for n in range(1, 5) for parts in itertools.product(["a", "@", "$*"], repeat=n)}
    )
    patterns = [pattern for pattern in patterns if is_valid(pattern) and not pattern.startswith("@")]
    matched = {
        pattern: sum(1 << number for number, word in enumerate(words) if _is_match(pattern, word))
        for pattern in patterns
    }
    for a, b in itertools.product(patterns, repeat=2):
        assert intersects(a, b) == bool(matched[a] & matched[b]), (a, b)
        assert includes(a, b) == (matched[a] & matched[b] == matched[b]), (a, b)


@functools.cache
def _is_match(pattern: str, word: str) -> bool:
    """Tells whether a pattern of chunks matches a key without wildcards: tried in the plainest way."""
    if word.startswith("@"):
        return pattern == word
    if pattern == "*":
        return bool(word)
    if pattern.startswith("$*"):
        return any(_is_rest(pattern[2:], word[n:]) for n in range(len(word) + 1))
    return _is_rest(pattern, word)


@functools.cache
def _is_rest(pattern: str, word: str) -> bool:
    if pattern.startswith("$*"):
        return any(_is_rest(pattern[2:], word[n:]) for n in range(len(word) + 1))
    if not pattern or not word:
        return pattern == word
    return pattern[0] == word[0] and _is_rest(pattern[1:], word[1:])


def _matches(pattern: tuple[str, ...], key: tuple[str, ...]) -> bool:
    """Tells whether a key without wildcards is matched: a table of all pairs of beginnings."""
    row = [True] + [False] * len(key)
    for chunk in pattern:
        if chunk == "**":
            after = [row[0]]
            for n, word in enumerate(key):
                after.append(row[n + 1] or (after[n] and not word.startswith("@")))
        else:
            after = [False, *(row[n] and _is_match(chunk, word) for n, word in enumerate(key))]
        row = after
    return row[-1]


CHUNKS = st.sampled_from(["a", "b", "ab", "*", "**", "$*b", "a$*", "$*a$*", "a$*b", "@a", "@b"])
KEYS = st.lists(CHUNKS, min_size=1, max_size=6).map("/".join).map(canonical)


@given(KEYS, KEYS)
def test_what_a_key_includes_is_what_it_matches_in_every_instance(a: str, b: str) -> None:
    # "z" is foreign to both keys; more of them than a has chunks bring nothing new.
    wild = tuple(a.split("/"))
    choices = [
        [(), ("z",), ("z",) * 2, ("z",) * 7]
        if chunk == "**"
        else [(chunk.replace("$*", "z").replace("*", "z"),)]
        for chunk in b.split("/")
    ]
    every = all(
        _matches(wild, tuple(itertools.chain.from_iterable(parts))) for parts in itertools.product(*choices)
    )
    assert includes(a, b) == every


@given(KEYS, KEYS)
def test_keys_intersect_in_both_directions_and_with_all_they_include(a: str, b: str) -> None:
    assert intersects(a, b) == intersects(b, a)
    assert intersects(a, a)
    assert includes(a, a)
    assert includes("**", a) == ("@" not in a)
    if includes(a, b):
        assert intersects(a, b)
        assert not includes(b, a) or a == b


@given(KEYS, KEYS, KEYS)
def test_including_goes_on_through_a_third_key(a: str, b: str, c: str) -> None:
    if includes(a, b) and includes(b, c):
        assert includes(a, c)
    if includes(a, b) and intersects(b, c):
        assert intersects(a, c)


PIECES = st.sampled_from(["a", "/", "*", "**", "$*", "$", "@", "#", "/*/", "/**/", "\u00e9", "a$*$*"])


@given(st.lists(PIECES | st.text(max_size=3), max_size=10).map("".join))
def test_any_text_has_one_canonical_form_or_a_reason_why_not(text: str) -> None:
    try:
        better = canonical(text)
    except BadValue:
        assert why_invalid(text)
        return
    assert canonical(better) == better
    assert is_valid(better)
    assert is_valid(text) == (text == better)


@given(
    st.lists(st.sampled_from(["a", "*", "**", "$*", "$*$*", "a$*$*", "@a"]), min_size=1, max_size=5),
    st.lists(st.sampled_from(["a", "az", "z", "@a"]), min_size=1, max_size=7).map(tuple),
)
def test_the_canonical_form_matches_the_same_keys(chunks: list[str], key: tuple[str, ...]) -> None:
    better = tuple(canonical("/".join(chunks)).split("/"))
    assert _matches(better, key) == _matches(tuple(chunks), key)


# Bounds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("a$*" * 20_000 + "b", "a" * 60_000),
        ("a$*" * 20_000 + "b", "a$*" * 20_000 + "c"),
        ("**/x/" * 13_000 + "y", "x/" * 30_000 + "x"),
        ("**/" + "a/" * 16_000 + "b/**", "a/" * 30_000 + "a"),
        ("**/" + "a/*/" * 8_000 + "b/**", "a/" * 30_000 + "a"),
        ("a/" + "*/**/a/" * 9_000 + "**", "a/" * 30_000 + "b"),
        ("@a/**/" * 9_000 + "b", "@a/" * 21_000 + "b"),
    ],
    ids=["characters", "both", "many-any", "rigid", "rigid-stars", "least", "verbatim"],
)
def test_long_keys_are_compared_without_trying_all_combinations(a: str, b: str) -> None:
    # What is shown is that it ends: each of these has more than 2**1000 combinations.
    assert not includes(b, a)
    assert intersects(a, b) >= includes(a, b)


def test_a_run_of_chunks_is_found_wherever_it_stands() -> None:
    for place in range(400):
        row = ["a", "b"] * 200
        row[place : place + 3] = "cac"
        assert includes("**/c/a/$*c/**", "/".join(row))
        assert includes("a/" * place + "**/c/a/c/**", "/".join([*"a" * place, *row]))
        assert not intersects("**/c/c/**", "/".join(row))


def test_stars_beside_any_ask_for_chunks_that_any_of_the_other_key_does_not_give() -> None:
    assert includes("**/c/*/*/**/d/**", "a/c/x/**/y/d")
    assert not includes("**/c/*/*/**/d/**", "a/c/x/**/d")
    assert not includes("**/c/*/**/d", "c/**/d")
    assert includes("*/**/d", "**/c/d")
    assert not includes("**/c/*/d/**", "c/**/d")


# Against a real node ------------------------------------------------------------------------------

ASK = """
import json, sys, zenoh
for line in sys.stdin:
    a, b = (zenoh.KeyExpr(text) for text in json.loads(line))
    print(json.dumps([a.intersects(b), a.includes(b), b.includes(a)]))
"""


@pytest.mark.skipif(find_spec("zenoh") is None, reason="needs eclipse-zenoh")
def test_a_real_node_compares_the_same_way() -> None:
    chunks = ["a", "*", "**", "a$*", "@a"]
    keys = sorted(
        {canonical("/".join(some)) for n in (1, 2, 3) for some in itertools.product(chunks, repeat=n)}
    )
    pairs = list(itertools.combinations(keys, 2))
    asked = "".join(json.dumps(pair) + "\n" for pair in pairs)
    done = subprocess.run(
        [sys.executable, "-c", ASK], input=asked, capture_output=True, check=True, text=True
    )
    for (a, b), line in zip(pairs, done.stdout.splitlines(), strict=True):
        meet, forth, back = json.loads(line)
        assert intersects(a, b) == meet, (a, b)
        # The node misses some: it never lays "*" of one key over what "**" of the other may be.
        for left, right, said in ((a, b, forth), (b, a, back)):
            missed = "*/**" in left and "**" in right
            assert includes(left, right) == said or (missed and not said), (left, right)
