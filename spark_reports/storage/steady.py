"""What only ever passed, set aside: of those that ran in the same runs, one stands for all.

Most checks and requirements of most runs are of that kind, and all that can be said of them hangs on the runs that they
are in. So questions are asked of the others, and of one of each kind.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

PASSED = "pass"

Name = tuple[str, ...]
"""What one is called: a check by test and transport, a requirement by its id."""


@dataclass(frozen=True, slots=True)
class Rollup:
    """A rollup of outcomes.

    Attributes:
        names: Columns by which one is called.
        kinds: Columns of which those that one stands for have the same.
        shared: Column with lists of what several have in common; those that share something stay together.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    shared: str = ""


ROLLUPS: Mapping[str, Rollup] = {
    "checks": Rollup(("test", "transport"), ("run_id",), "requirements"),
    "requirements": Rollup(("requirement",), ("run_id", "level", "area")),
}
"""Tables of which rows are set aside."""


@dataclass(frozen=True, slots=True)
class Changing:
    """What is left.

    Attributes:
        rows: Of those that did not always pass, of those that share something with one of these, and of one of each kind of
            the others.
        members: By the one that stands for them, all of a kind, itself among them.
    """

    rows: pa.Table
    members: Mapping[Name, Sequence[Name]]


def set_aside(rows: pa.Table, rollup: Rollup) -> Changing:
    """Sets aside rows of a rollup; all rows of one stay, or none."""
    ones = _codes(*(rows[name] for name in rollup.names))
    if not len(ones):
        return Changing(rows, {})
    unsteady = np.zeros(ones.max() + 1, bool)
    unsteady[ones[~np.asarray(pc.equal(_text(rows["outcome"]), PASSED))]] = True
    if rollup.shared:
        sharing = _sharing(rows[rollup.shared].combine_chunks(), unsteady[ones])
        unsteady[ones[sharing]] = True
    kinds = _by_kind(ones, _codes(*(rows[name] for name in rollup.kinds)), unsteady)
    kept = unsteady.copy()
    kept[[members[0] for members in kinds]] = True
    _, first = np.unique(ones, return_index=True)
    called = [tuple(row.values()) for row in rows.select(rollup.names).take(pa.array(first)).to_pylist()]
    return Changing(
        rows.filter(pa.array(kept[ones])),
        {called[members[0]]: [called[one] for one in members] for members in kinds},
    )


def _text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(values, "")


def _codes(*columns: pa.ChunkedArray) -> NDArray[np.int64]:
    """Returns a number for each row, the same for the same values; 0 for the first."""
    joined = pc.binary_join_element_wise(*map(_text, columns), "\0")
    return np.asarray(joined.combine_chunks().dictionary_encode().indices, np.int64)


def _sharing(lists: pa.ListArray, unsteady: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns which rows share something with an unsteady one; those that list nothing have that in common."""
    bare = np.asarray(pc.fill_null(pc.list_value_length(lists), 0)) == 0
    shared: NDArray[np.bool_] = bare & bool((bare & unsteady).any())
    names, rows = _codes(pa.chunked_array([lists.flatten()])), np.asarray(lists.value_parent_indices())
    wanted = np.zeros(names.max(initial=0) + 1, bool)
    wanted[names[unsteady[rows]]] = True
    shared[rows[wanted[names]]] = True
    return shared


def _by_kind(
    ones: NDArray[np.int64], places: NDArray[np.int64], unsteady: NDArray[np.bool_]
) -> list[list[int]]:
    """Returns the steady ones, those together that have the same places."""
    steady = ~unsteady[ones]
    pairs = np.unique(ones[steady] * (places.max() + 1) + places[steady])
    owners, its_places = np.divmod(pairs, places.max() + 1)
    kinds: dict[bytes, list[int]] = {}
    begins = np.flatnonzero(np.diff(owners, prepend=-1, append=-1))
    for begin, end in pairwise(begins):
        kinds.setdefault(its_places[begin:end].tobytes(), []).append(int(owners[begin]))
    return list(kinds.values())
