"""Checks that only ever passed, set aside: of those that ran in the same runs, one stands for all.

Most checks of most runs are of that kind, and all that can be said of them hangs on the runs that they ran in. So a
question about what changed is asked of the others, and of one of each kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

PASSED = "pass"


@dataclass(frozen=True, slots=True)
class Changing:
    """What is left.

    Attributes:
        rows: Of checks that did not always pass, of those that share a requirement with one of these, and of one of each
            kind of the others.
        stands_for: For how many each of these stands, itself among them, by test and transport.
    """

    rows: pa.Table
    stands_for: Mapping[tuple[str, str], int]


def set_aside(rows: pa.Table) -> Changing:
    """Sets aside rows of the rollup ``checks``; all rows of a check stay, or none."""
    checks = _codes(pc.binary_join_element_wise(*(_text(rows[name]) for name in ("test", "transport")), "\0"))
    if not len(checks):
        return Changing(rows, {})
    passed = np.asarray(pc.equal(_text(rows["outcome"]), PASSED))
    unsteady = np.zeros(checks.max() + 1, bool)
    unsteady[checks[~passed]] = True
    unsteady[checks[_sharing(rows["requirements"].combine_chunks(), unsteady[checks])]] = True
    places, counts = _representatives(checks, _codes(rows["run_id"]), unsteady)
    kept = unsteady.copy()
    kept[checks[places]] = True
    names = ((row["test"], row["transport"]) for row in rows.take(pa.array(places)).to_pylist())
    return Changing(rows.filter(pa.array(kept[checks])), dict(zip(names, counts, strict=True)))


def _text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.fill_null(values, "")


def _codes(values: pa.ChunkedArray) -> NDArray[np.int64]:
    """Returns a number for each value, the same for the same; 0 for the first."""
    return np.asarray(values.combine_chunks().dictionary_encode().indices, np.int64)


def _sharing(requirements: pa.ListArray, unsteady: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns which rows have a requirement of an unsteady one; those that name none have that in common."""
    names, rows = (
        _codes(pa.chunked_array([requirements.flatten()])),
        np.asarray(requirements.value_parent_indices()),
    )
    bare = np.asarray(pc.fill_null(requirements.value_lengths(), 0)) == 0
    shared: NDArray[np.bool_] = bare & bool((bare & unsteady).any())
    if len(names):
        wanted = np.zeros(names.max() + 1, bool)
        wanted[names[unsteady[rows]]] = True
        shared[rows[wanted[names]]] = True
    return shared


def _representatives(
    checks: NDArray[np.int64], runs: NDArray[np.int64], unsteady: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], list[int]]:
    """Returns where the first row of one check of each kind is, and how many checks are of that kind."""
    steady = np.flatnonzero(~unsteady[checks])
    pairs = np.unique(checks[steady] * (runs.max() + 1) + runs[steady])
    owners, its_runs = np.divmod(pairs, runs.max() + 1)
    first: dict[bytes, np.int64] = {}
    count: dict[bytes, int] = {}
    begins = np.flatnonzero(np.diff(owners, prepend=-1, append=-1))
    for begin, end in pairwise(begins):
        kind = its_runs[begin:end].tobytes()
        first.setdefault(kind, owners[begin])
        count[kind] = count.get(kind, 0) + 1
    _, place = np.unique(checks, return_index=True)
    return place[np.array(list(first.values()), np.int64)], list(count.values())
