"""The grid requirement by node version: what every requirement showed on every version, in one picture.

Rows that look the same share one symbol, so a thousand requirements on sixty versions stay small.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from spark_reports.pages import svg
from spark_reports.report import Cell

ORDER = ("pass", "deviation", "warning", "fail", "inconclusive", "n/a")
"""Outcomes as they stand in a bar, from good to not known."""

_URGENT = ("fail", "warning", "inconclusive", "deviation", "", "n/a", "pass")
"""Outcomes by which requirements have a row when there are too many."""

AREAS: Mapping[str, str] = {
    "SCT": "SCOUT",
    "HLO": "HELLO",
    "MSG": "Message layers",
    "BAT": "Batches",
    "VLE": "Variable-length integers",
    "EXT": "Extensions",
    "OAM": "OAM",
    "INIT": "INIT",
    "OPEN": "OPEN",
    "CLS": "CLOSE",
    "KA": "KEEP_ALIVE",
    "FRM": "FRAME",
    "FRG": "FRAGMENT",
    "JOIN": "JOIN",
    "NET": "Network messages",
    "PUSH": "PUSH",
    "REQ": "REQUEST",
    "RSP": "RESPONSE",
    "FIN": "RESPONSE_FINAL",
    "DCL": "DECLARE",
    "INT": "INTEREST",
    "DATA": "Data",
    "PUT": "PUT",
    "DEL": "DEL",
    "QRY": "QUERY",
    "RPL": "REPLY",
    "ERR": "ERR",
    "RTE": "Routing",
    "KEX": "Key expressions",
}
"""Areas of requirements in the order of the specification, with the words for them."""

MAX_COLUMNS = 60
MAX_ROWS = 1_200
MAX_BYTES = 120_000
"""Of symbols: where rows have little in common, there are fewer columns."""

Version = tuple[str, str]
"""Implementation and version of a node."""

# So many digits at once that Python turns them into a number, whatever a version holds.
_PIECE = re.compile(r"(\d{1,18})|([A-Za-z]+)")
_BEFORE = ("dev", "nightly", "snapshot", "a", "alpha", "b", "beta", "c", "pre", "preview", "rc")


@dataclass(frozen=True, slots=True)
class Row:
    """A requirement.

    Attributes:
        number: The last part of its id.
        outcome: What the version that was judged last showed; empty if it was not tried there.
        symbol: Name of the shapes of its cells.
        title: What it showed, in words.
    """

    requirement: str
    number: str
    outcome: str
    symbol: str
    title: str


@dataclass(frozen=True, slots=True)
class Area:
    """The requirements of one area, and how many of them showed what on the version that was judged last.

    Attributes:
        requirements: How many there are; ``counts`` are of them, those that have no row included. Where tests were left
            out on purpose on that version, how many were selected.
    """

    name: str
    title: str
    counts: Mapping[str, int]
    rows: Sequence[Row]
    requirements: int


@dataclass(frozen=True, slots=True)
class Grid:
    """All requirements on all versions.

    Attributes:
        columns: Versions, the implementation that was judged last at the end, oldest version first.
        ends: Names of the first and the last column, for the ends of an axis.
        areas: In the order of the specification.
        symbols: Name and shapes of every row that differs from the others.
        width: Of a symbol.
        left_out: Number of versions that have no column.
        rows_left_out: Number of requirements that have no row.
        legend: An outcome and its shape.
        selected: Names of the columns in which an empty cell may be one that was not selected.
    """

    columns: Sequence[Version]
    ends: tuple[str, str]
    areas: Sequence[Area]
    symbols: Sequence[tuple[str, Markup]]
    width: int
    left_out: int
    rows_left_out: int
    legend: Sequence[tuple[str, Markup]]
    selected: Sequence[str]


def make_grid(
    cells: Iterable[Cell], judged_first: Sequence[Version], selected: Collection[Version] = ()
) -> Grid:
    """Returns the grid.

    Args:
        cells: Outcomes.
        judged_first: Versions, the one that counts now in front. Those that have no place are dropped from
            the end.
        selected: Those on which tests were left out on purpose in every run.
    """
    by_requirement: dict[str, dict[Version, Cell]] = {}
    for cell in cells:
        by_requirement.setdefault(cell.requirement, {})[cell.node_impl, cell.node_version] = cell
    outcomes: dict[str, str] = {}
    of_area: dict[str, list[str]] = {}
    for requirement, mine in by_requirement.items():
        newest = mine.get(judged_first[0]) if judged_first else None
        outcomes[requirement] = newest.outcome if newest else ""
        of_area.setdefault(next(iter(mine.values())).area, []).append(outcomes[requirement])
    rank = {outcome: place for place, outcome in enumerate(_URGENT)}
    urgent = sorted(by_requirement, key=lambda name: (rank.get(outcomes[name], 0), name))
    kept = {requirement: by_requirement[requirement] for requirement in sorted(urgent[:MAX_ROWS])}
    shown = judged_first[:MAX_COLUMNS]
    places, symbols = _symbols(kept.values(), shown)
    while len(shown) > 1 and (size := sum(len(shapes) for _, shapes in symbols.values())) > MAX_BYTES:
        shown = shown[: max(1, min(len(shown) - 1, len(shown) * MAX_BYTES // size))]
        places, symbols = _symbols(kept.values(), shown)
    columns = [place for place in places if place is not None]
    left_out = bool(judged_first) and judged_first[0] in selected
    several = len({impl for impl, _ in columns}) > 1
    areas: dict[str, list[Row]] = {name: [] for name in of_area}
    for requirement, mine in kept.items():
        areas[next(iter(mine.values())).area].append(
            Row(
                requirement,
                requirement.rpartition("-")[2] or requirement,
                outcomes[requirement],
                symbols[_outcomes(mine, places)][0],
                _title(requirement, mine, columns, several, selected),
            )
        )
    known = list(AREAS)
    order = sorted(areas, key=lambda name: (known.index(name) if name in AREAS else len(known), name))
    return Grid(
        columns=columns,
        ends=(_label(columns[0], several), _label(columns[-1], several)) if columns else ("", ""),
        areas=[
            Area(
                name,
                AREAS.get(name, name),
                _counts(of_area[name]),
                areas[name],
                len([outcome for outcome in of_area[name] if outcome or not left_out]),
            )
            for name in order
        ],
        symbols=list(symbols.values()),
        width=max(1, len(places)),
        left_out=len(judged_first) - len(shown),
        rows_left_out=len(by_requirement) - len(kept),
        legend=[(name, svg.strip([name])) for name in ORDER],
        selected=[_label(key, several) for key in columns if key in selected],
    )


_Outcomes = tuple[str, ...]


def _symbols(
    rows: Iterable[Mapping[Version, Cell]], shown: Sequence[Version]
) -> tuple[list[Version | None], dict[_Outcomes, tuple[str, Markup]]]:
    """Returns the columns in order, None between two implementations, and name and shapes of each kind of row."""
    impls = list(dict.fromkeys(impl for impl, _ in shown))
    in_order = sorted(shown, key=lambda key: (-impls.index(key[0]), version_key(key[1])))
    places: list[Version | None] = []
    for _, group in groupby(in_order, key=lambda key: key[0]):
        places += [*([None] if places else []), *group]
    kinds = dict.fromkeys(_outcomes(row, places) for row in rows)
    return places, {kind: (f"s{number}", svg.strip(kind)) for number, kind in enumerate(kinds)}


def _outcomes(cells: Mapping[Version, Cell], places: Iterable[Version | None]) -> _Outcomes:
    return tuple(cells[place].outcome if place is not None and place in cells else "" for place in places)


def version_key(version: str) -> tuple[object, ...]:
    """Returns what versions are ordered by, whatever they hold: 1.9.0 before 1.10.0rc1 before 1.10.0."""
    key: list[tuple[int, int, str]] = []
    for number, word in _PIECE.findall(version.partition("+")[0]):
        if number:
            key.append((2, int(number), ""))
        elif word.lower() != "v" or key:
            key.append((0 if word.lower() in _BEFORE else 3, 0, word.lower()))
    # The end of a version stands behind its previews and before whatever goes on.
    return (bool(key) and key[0][0] == 2, *key, (1, 0, ""), version)


def _label(key: Version, several: bool) -> str:
    return " ".join(filter(None, key)) if several else key[1]


def _counts(outcomes: Sequence[str]) -> dict[str, int]:
    return {outcome: outcomes.count(outcome) for outcome in ORDER if outcome in outcomes}


def _title(
    requirement: str,
    cells: Mapping[Version, Cell],
    columns: Sequence[Version],
    several: bool,
    selected: Collection[Version],
) -> str:
    """Says what a row shows: ``ZN-INIT-003 MUST: pass 1.0.4 to 1.8.0, fail 1.9.0``."""
    shown = [(key, cells[key].outcome) for key in columns if key in cells]
    tried = [
        (key, cells[key].outcome if key in cells else "not selected on")
        for key in columns
        if key in cells or key in selected
    ]
    level = next(iter(cells.values())).level
    told = []
    for (impl, outcome), group in groupby(tried, key=lambda item: (item[0][0], item[1])):
        versions = [key[1] for key, _ in group]
        ends = versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
        told.append(f"{outcome} {f'{impl} ' if several else ''}{ends}")
    newest = cells[shown[-1][0]].other if shown else ()
    other = f"; other runs of it: {', '.join(newest)}" if newest else ""
    if len(told) > 6:
        told = [*told[:2], f"{len(told) - 5} changes", *told[-3:]]
    return f"{requirement} {level}: {', '.join(told) or 'not tried'}{other}"
