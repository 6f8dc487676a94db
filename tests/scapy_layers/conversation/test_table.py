"""A bounded memory: least recently used goes first, groups go at once, and nothing goes unnoticed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scapy_layers.conversation.table import ENTRY, Table


def test_value_is_kept_by_group_and_key() -> None:
    table: Table[str, int] = Table(10 * ENTRY)
    table.put(1, "a", 5)
    table.put(2, "a", 6)
    table.put(1, "a", 7)
    assert (table.get(1, "a"), table.get(2, "a"), table.get(1, "b"), table.get(3, "a")) == (7, 6, None, None)
    assert (table.pop(1, "a"), table.pop(1, "a")) == (7, None)
    assert table.held == ENTRY


def test_least_recently_used_goes_first_and_is_counted() -> None:
    table: Table[str, int] = Table(3 * ENTRY)
    for number, key in enumerate("abc"):
        table.put(1, key, number)
    table.get(1, "a")
    table.put(1, "d", 3)
    assert [table.get(1, key) for key in "abcd"] == [0, None, 2, 3]
    assert table.forgotten == 1
    assert not table.lossless(1)


def test_group_that_was_silent_longest_loses_first() -> None:
    table: Table[str, int] = Table(3 * ENTRY)
    table.put(1, "a", 0)
    table.put(2, "a", 0)
    table.get(1, "a")
    table.put(3, "a", 0, size=ENTRY)
    assert (table.get(1, "a"), table.get(2, "a")) == (0, None)
    assert table.lossless(1)
    assert not table.lossless(2)


def test_what_is_dropped_with_its_group_is_not_forgotten() -> None:
    table: Table[str, int] = Table(3 * ENTRY)
    table.put(1, "a", 0, size=ENTRY)
    table.put(2, "a", 0)
    table.drop(1)
    table.drop(1)
    assert (table.get(1, "a"), table.get(2, "a"), table.held, table.forgotten) == (None, 0, ENTRY, 0)


def test_value_larger_than_the_table_is_not_kept() -> None:
    table: Table[str, int] = Table(ENTRY)
    table.put(1, "a", 0, size=1)
    assert (table.get(1, "a"), table.held, table.forgotten) == (None, 0, 1)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "get", "pop", "drop"]),
        st.integers(0, 2),
        st.integers(0, 3),
        st.integers(0, ENTRY),
    ),
    max_size=40,
)


@given(STEPS)
def test_bound_holds_whatever_happens(steps: list[tuple[str, int, int, int]]) -> None:
    table: Table[int, int] = Table(4 * ENTRY)
    for step, group, key, size in steps:
        match step:
            case "put":
                table.put(group, key, size, size)
            case "get":
                table.get(group, key)
            case "pop":
                table.pop(group, key)
            case "drop":
                table.drop(group)
        assert 0 <= table.held <= table.most
    for group in range(3):
        table.drop(group)
    assert table.held == 0
