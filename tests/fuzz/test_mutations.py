from __future__ import annotations

import random
from collections import Counter
from itertools import islice

import pytest

from fuzz.anatomy import Sort, anatomy
from fuzz.corpus import Corpus, Family, Seed
from fuzz.mutations import BYTE_OPERATORS, LONGEST, OPERATORS, Edit, Stock, mutated
from scapy_layers import extensions as ext
from scapy_layers.batch import contents
from scapy_layers.catalogue import decode_batch
from scapy_layers.data import Put
from scapy_layers.network import Push
from scapy_layers.transport import Frame


def frame(*messages: Push) -> Seed:
    return Seed(bytes(Frame(R=1, sn=1_000_000, messages=list(messages))), Family.SESSION, "test")


STAMPED = Push(
    key_suffix="a/b", extensions=[ext.Timestamp(timestamp=7, timestamp_id=b"\x01")], body=Put(data=b"hi")
)
PLAIN = Push(key_suffix="c", body=Put(data=b"x"))


@pytest.fixture(scope="module")
def stock() -> Stock:
    stock = Stock()
    for seed in Corpus().of(Family.SESSION):
        stock.add(seed)
    return stock


def index_of(edit: Edit, path: str) -> int:
    return next(i for i, piece in enumerate(edit.anatomy.pieces) if piece.path == path)


def test_lengths_around_a_change_stay_true_at_every_depth() -> None:
    edit = Edit(frame(STAMPED).anatomy, Stock())
    edit.set(index_of(edit, "PUSH.Timestamp.timestamp_id"), b"\x02" * 9)
    edit.set(index_of(edit, "PUSH.key_suffix"), b"k" * 200)

    (message,) = decode_batch(edit.done())

    push = message.messages[0]
    assert push.key_suffix == "k" * 200
    assert push.extensions[0].timestamp_id == b"\x02" * 9


def test_length_that_lies_stays_a_lie() -> None:
    edit = Edit(frame(PLAIN).anatomy, Stock())
    edit.lie(index_of(edit, "PUT.data.length"), b"\x7f")
    edit.set(index_of(edit, "PUT.data"), b"long")
    assert edit.done().endswith(b"\x7flong")


def test_what_is_put_in_front_of_a_length_survives_it() -> None:
    edit = Edit(frame(PLAIN).anatomy, Stock())
    edit.put(index_of(edit, "PUT.data.length"), b"\xee")
    edit.set(index_of(edit, "PUT.data"), b"abc")
    assert edit.done().endswith(b"\x01\xee\x03abc")


def tried(name: str, seed: Seed, stock: Stock, times: int = 60) -> list[bytes]:
    made = []
    for number in range(times):
        edit = Edit(seed.anatomy, stock)
        if OPERATORS[name](edit, random.Random(number)) is not None:
            made.append(edit.done())
    return made


def test_transplanted_extension_is_read_as_one(stock: Stock) -> None:
    made = tried("transplant", frame(PLAIN), stock)
    counts = Counter(len(anatomy(raw).extensions) for raw in made)
    assert counts.keys() <= {0, 1}
    assert counts[1] > len(made) / 2


def test_second_extension_of_a_chain_is_announced(stock: Stock) -> None:
    made = tried("transplant", frame(STAMPED), stock)
    assert sum(len(anatomy(raw).extensions) == 2 for raw in made) > len(made) / 2


def test_inserted_message_is_read_as_one(stock: Stock) -> None:
    made = tried("insert", frame(PLAIN), stock)
    assert made
    for raw in made:
        carried = [span for span in anatomy(raw).messages if span.depth == 1]
        assert len(carried) == 2


def test_repeated_extension_is_a_longer_chain() -> None:
    made = tried("twice", frame(STAMPED), Stock())
    assert any(len(anatomy(raw).extensions) > 30 for raw in made)
    assert any(len([span for span in anatomy(raw).messages if span.name == "PUSH"]) > 30 for raw in made)


def test_dropped_message_is_gone() -> None:
    made = tried("drop", frame(PLAIN, STAMPED), Stock())
    assert any(len(contents(raw).messages[0].messages) == 1 and not contents(raw).error for raw in made)


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_changes_something(name: str, stock: Stock) -> None:
    seed = frame(PLAIN, STAMPED)
    assert any(raw != seed.raw for raw in tried(name, seed, stock))


@pytest.mark.parametrize("name", BYTE_OPERATORS)
def test_every_operator_of_bytes_changes_something_and_says_where(name: str, stock: Stock) -> None:
    seed, changed = frame(PLAIN, STAMPED), 0
    for number in range(40):
        data, rng = bytearray(seed.raw), random.Random(number)
        words = BYTE_OPERATORS[name](data, int(rng.random() * len(data)), rng, stock)
        assert words
        changed += data != seed.raw
    assert changed > 20


def test_no_operator_fails_on_any_seed(stock: Stock) -> None:
    rng = random.Random(3)
    for seed in stock.seeds:
        for _ in range(5):
            assert len(mutated(seed, stock, rng).raw) <= LONGEST
    for raw in (b"\x00", b"\xff", b"\x25", b"\x02\x80"):
        for _ in range(200):
            mutated(Seed(raw, Family.SESSION, "tiny"), stock, rng)


def test_same_generator_makes_the_same(stock: Stock) -> None:
    def made(number: int) -> list[bytes]:
        rng = random.Random(number)
        return [mutated(seed, stock, rng).raw for seed in islice(stock.seeds, 100)]

    assert made(1) == made(1)
    assert made(1) != made(2)


def test_mutations_are_neither_all_valid_nor_all_broken(stock: Stock) -> None:
    rng = random.Random(1)
    made = [mutated(seed, stock, rng) for seed in stock.seeds]
    valid = sum(contents(one.raw).error is None for one in made)
    assert 0.2 < valid / len(made) < 0.7


def test_every_operator_is_used_and_every_change_has_a_cause(stock: Stock) -> None:
    rng = random.Random(2)
    done = [change for _ in range(6) for seed in stock.seeds for change in mutated(seed, stock, rng).done]
    assert {kind for kind, _ in done} == {*OPERATORS, *BYTE_OPERATORS}
    assert all(path for _, path in done)


def test_numbers_that_are_lengths_are_told_from_others() -> None:
    sorts = {piece.path: piece.sort for piece in frame(STAMPED).anatomy.pieces}
    assert sorts["FRAME.sn"] is Sort.NUMBER
    assert sorts["PUT.data.length"] is Sort.LENGTH
