"""Counting things of which there may be any number, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, Protocol, TypeVar

MOST_ROWS = 20_000
"""Things that are counted one by one."""

MOST_TEXT = 32 << 20
"""Characters of their names, all together."""

MOST_VALUES = 1 << 16
"""Values of which a median is taken; of more, every second, fourth, ... is."""


class Row(Protocol):
    """What is counted of one thing."""

    @property
    def weight(self) -> int:
        """How much it matters; what matters least is let go first."""


K = TypeVar("K", bound=Hashable)
R = TypeVar("R", bound=Row)


class Tally(Generic[K, R]):
    """Rows by name. When there are too many, the half that weighs least goes into what is left out.

    What comes often stays, whenever it comes. A name that went and comes again begins anew, so that its row
    then says too little: ``left_out`` and ``weight_left_out`` tell how much may be missing.

    Args:
        new: Makes an empty row.
        rows: How many rows there may be.
        text: How many characters their names may have together.

    Attributes:
        left_out: Rows that were let go.
        weight_left_out: Their weight.
    """

    def __init__(self, new: Callable[[], R], *, rows: int = MOST_ROWS, text: int = MOST_TEXT) -> None:
        self.left_out = 0
        self.weight_left_out = 0
        self._new = new
        self._most_rows = rows
        self._most_text = text
        self._text = 0
        self._rows: dict[K, R] = {}

    def __getitem__(self, name: K) -> R:
        """Returns the row of a name, a new one if there is none."""
        row = self._rows.get(name)
        if row is None:
            self._text += _length(name)
            if len(self._rows) >= self._most_rows or self._text > self._most_text:
                self._forget()
            row = self._rows[name] = self._new()
        return row

    def pop(self, name: K) -> R | None:
        """Removes a row and returns it."""
        row = self._rows.pop(name, None)
        if row is not None:
            self._text -= _length(name)
        return row

    def __contains__(self, name: K) -> bool:
        return name in self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def items(self) -> Iterator[tuple[K, R]]:
        """Yields names and rows in the order in which they appeared."""
        yield from self._rows.items()

    def top(self, count: int) -> list[tuple[K, R]]:
        """Returns those that weigh most, the heaviest first; of equal ones the earlier."""
        return sorted(self._rows.items(), key=_weight, reverse=True)[:count]

    def _forget(self) -> None:
        ranked = sorted(self._rows.items(), key=_weight)
        for name, row in ranked[: len(ranked) // 2 + 1]:
            self.left_out += 1
            self.weight_left_out += row.weight
            self._text -= _length(name)
            del self._rows[name]


def _weight(item: tuple[Hashable, Row]) -> int:
    return item[1].weight


def _length(name: Hashable) -> int:
    return len(name) if isinstance(name, str) else 0


class Spread:
    """Smallest, middle and largest of any number of values.

    Attributes:
        count: How many there were.
        least: The smallest, None without values.
        most: The largest.
    """

    def __init__(self, most_values: int = MOST_VALUES) -> None:
        self.count = 0
        self.least: int | None = None
        self.most: int | None = None
        self._most_values = most_values
        self._step = 1
        self._values: list[int] = []

    def add(self, value: int) -> None:
        """Takes a value."""
        self.least = value if self.least is None else min(self.least, value)
        self.most = value if self.most is None else max(self.most, value)
        if self.count % self._step == 0:
            self._values.append(value)
            if len(self._values) >= self._most_values:
                self._values = self._values[::2]
                self._step *= 2
        self.count += 1

    @property
    def median(self) -> int | None:
        """The middle one, of two the lower; an estimate when ``exact`` is false."""
        ranked = sorted(self._values)
        return ranked[(len(ranked) - 1) // 2] if ranked else None

    @property
    def exact(self) -> bool:
        """The median is of all values."""
        return self._step == 1
