"""The recorded deviations: read from a file, checked, found again for a test on a node."""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, Self

from conformance.config import PROTOCOLS
from conformance.deviations.versions import NoVersions, Versions
from conformance.errors import UsageError
from conformance.requirements import requirements

SHIPPED = Path(__file__).parents[1] / "deviations.toml"
"""The deviations of released nodes that come with the suite."""

_NOT_JUDGED = frozenset({"n/a", "inconclusive"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """A known way in which released nodes differ from a requirement.

    Attributes:
        requirement: Its id.
        impl: Implementation, ``eclipse-zenoh``.
        versions: Releases: ``1.10.2``, ``1.0.0-1.10.2``, ``>=1.7``, or several of these joined by commas.
        test: Test id as on TCP, ``suite/test_init.py::test_x[*]``, with ``*`` as a wildcard.
        seen: What the test sees instead, word for word.
        note: What it means, in plain words.
        evidence: Where it can be seen: runs and captures, or a reading in docs/readings.md.
        reviewed: When somebody last looked whether it still is the node and not the test.
        review_by: When somebody should look again.
        transports: Names of transports joined by commas; all of them when empty.
        number: Place in its file, from 1.
        file: Name of the file.
    """

    requirement: str
    impl: str
    versions: str
    test: str
    seen: str
    note: str
    evidence: str
    reviewed: dt.date
    review_by: dt.date
    transports: str = ""
    number: int = 0
    file: str = SHIPPED.name
    _versions: Versions = field(init=False, repr=False, compare=False)
    _pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _transports: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name, None)
            if item.type == "str" and item.name != "transports" and not str(value).strip():
                raise self.wrong(item.name, "must not be empty")
        if self.requirement not in requirements():
            raise self.wrong("requirement", f"{self.requirement} is not in the catalogue")
        try:
            versions = Versions.parse(self.versions)
        except NoVersions as error:
            raise self.wrong("versions", str(error)) from None
        names = [name.strip() for name in self.transports.split(",")] if self.transports.strip() else []
        for name in names:
            if name not in PROTOCOLS:
                raise self.wrong("transports", f"{name!r} is not one of {', '.join(PROTOCOLS)}")
        if self.review_by <= self.reviewed:
            raise self.wrong("review_by", f"{self.review_by} must be later than reviewed ({self.reviewed})")
        wild = ".*".join(map(re.escape, self.test.split("*")))
        object.__setattr__(self, "_versions", versions)
        object.__setattr__(self, "_pattern", re.compile(wild, re.DOTALL))
        object.__setattr__(self, "_transports", frozenset(names or PROTOCOLS))

    @property
    def place(self) -> str:
        """Where it stands: ``deviations.toml: entry 3``."""
        return f"{self.file}: entry {self.number}"

    def wrong(self, key: str, why: str) -> UsageError:
        """Returns the error that names the place, the key and what is wrong there."""
        return UsageError(f"{self.place}: {key}: {why}")

    def is_on(self, impl: str, version: str, transport: str = "tcp") -> bool:
        """Tells whether it is recorded for a node, whatever the test."""
        return impl == self.impl and version in self._versions and self.is_over(transport)

    def is_over(self, transport: str) -> bool:
        """Tells whether it is recorded for a transport; rows of older versions do not name theirs: TCP."""
        return (transport or "tcp") in self._transports

    def is_about(self, test: str, transport: str = "tcp") -> bool:
        """Tells whether it is recorded for a test, whatever the node."""
        return self._pattern.fullmatch(plain(test, transport)) is not None

    def is_for(self, impl: str, version: str, test: str, transport: str = "tcp") -> bool:
        """Tells whether it is recorded for a test on a node."""
        return self.is_on(impl, version, transport) and self.is_about(test, transport)

    def shares_nodes(self, other: Deviation) -> bool:
        """Tells whether some node belongs to both."""
        return (
            self.impl == other.impl
            and not self._transports.isdisjoint(other._transports)
            and self._versions.meets(other._versions)
        )

    def named_versions(self) -> list[str]:
        """Returns the versions that the entry names."""
        return self._versions.ends()


def plain(test: str, transport: str) -> str:
    """Returns the id that a test has on TCP: ``test_x[0x8]`` for ``test_x[udp-0x8]``, ``test_x`` for ``test_x[udp]``."""
    if transport in {"", "tcp"}:
        return test
    return (
        test.replace(f"[{transport}-", "[", 1)
        if f"[{transport}-" in test
        else test.removesuffix(f"[{transport}]")
    )


class Deviations:
    """All recorded deviations of one file.

    Args:
        entries: In the order of the file.
        path: The file.
    """

    def __init__(self, entries: Iterable[Deviation] = (), path: Path = SHIPPED) -> None:
        self.entries = tuple(entries)
        self.path = path
        for one, other in combinations(self.entries, 2):
            if one.test == other.test and one.shares_nodes(other):
                raise _both(one, other, one.test)

    @classmethod
    def load(cls, path: Path = SHIPPED) -> Self:
        """Reads a file.

        Raises:
            UsageError: It cannot be read, or an entry is wrong; names the file, the entry and the key.
        """
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"{path.name}: not a TOML file ({error})") from None
        found = table.pop("deviation", [])
        if table:
            raise UsageError(
                f"{path.name}: {next(iter(table))}: unknown key; entries start with [[deviation]]"
            )
        if not isinstance(found, list):
            raise UsageError(f"{path.name}: deviation: must be a list; entries start with [[deviation]]")
        return cls((_entry(values, number, path) for number, values in enumerate(found, start=1)), path)

    def __iter__(self) -> Iterator[Deviation]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def of(self, impl: str, version: str, transport: str, test: str) -> Deviation | None:
        """Returns the deviation recorded for a test on a node, or None.

        Raises:
            UsageError: There are two.
        """
        found = [known for known in self.entries if known.is_for(impl, version, test, transport)]
        if len(found) > 1:
            raise _both(found[0], found[1], test)
        return found[0] if found else None

    def check(self, tests: Iterable[tuple[str, str]], *, whole: bool) -> None:
        """Compares the entries with the tests there are.

        Args:
            tests: Id and transport of each test, if possible of those that were deselected too.
            whole: These are all tests on their transports, so that an entry about none of them is out of date.

        Raises:
            UsageError: An entry is about no test, or two entries are about the same test on the same node.
        """
        # Ids as on TCP, each with its transports: most entries are for all of them.
        known_tests: dict[str, set[str]] = {}
        for test, transport in tests:
            known_tests.setdefault(plain(test, transport), set()).add(transport or "tcp")
        run_over = {transport for found in known_tests.values() for transport in found}
        claimed: dict[str, list[Deviation]] = {}
        for known in self.entries:
            mine = [
                test
                for test, over in known_tests.items()
                if known.is_about(test) and any(map(known.is_over, over))
            ]
            if whole and not mine and any(map(known.is_over, run_over)):
                raise known.wrong("test", f"no such test {known.test}; was it or its parameters renamed?")
            for test in mine:
                before = next((other for other in claimed.get(test, []) if other.shares_nodes(known)), None)
                if before is not None:
                    raise _both(before, known, test)
                claimed.setdefault(test, []).append(known)

    def unused(self, impl: str, version: str, verdicts: Iterable[tuple[str, str, str]]) -> list[Deviation]:
        """Returns the entries for a node that nothing in a run came near to.

        Args:
            impl: Implementation of the node.
            version: Its version.
            verdicts: Test, transport and outcome of all tests of a whole run.
        """
        judged = [(test, transport) for test, transport, outcome in verdicts if outcome not in _NOT_JUDGED]
        transports = {transport or "tcp" for _, transport in judged}
        return [
            known
            for known in self.entries
            if any(known.is_on(impl, version, transport) for transport in transports)
            and not any(known.is_for(impl, version, test, transport) for test, transport in judged)
        ]

    def overdue(self, impl: str, version: str, today: dt.date) -> list[Deviation]:
        """Returns the entries for a node that somebody should have looked at again by now."""
        return [
            known
            for known in self.entries
            if known.review_by < today
            and any(known.is_on(impl, version, transport) for transport in PROTOCOLS)
        ]

    def remarks(
        self,
        impl: str,
        version: str,
        verdicts: Iterable[tuple[str, str, str]],
        *,
        whole: bool,
        today: dt.date,
    ) -> list[str]:
        """Returns what the summary of a run says about the entries for its node, one line each.

        Args:
            impl: Implementation of the node.
            version: Its version.
            verdicts: Test, transport and outcome of each test.
            whole: All tests ran, so that an entry that none of them came near to is worth a line.
            today: Entries to be reviewed before are mentioned.
        """
        lines = [
            f"{known.place} ({known.requirement}): review was due by {known.review_by}"
            for known in self.overdue(impl, version, today)
        ]
        if whole:
            lines += [
                f"{known.place} ({known.requirement}): unused: no test {known.test} was judged on {impl} {version}"
                for known in self.unused(impl, version, verdicts)
            ]
        return lines


@cache
def shipped() -> Deviations:
    """Returns the deviations that come with the suite.

    Raises:
        UsageError: Their file is damaged.
    """
    return Deviations.load()


_KINDS: Mapping[str, tuple[type, str]] = {
    **dict.fromkeys(
        ("requirement", "impl", "versions", "test", "seen", "note", "evidence", "transports"),
        (str, "a text in quotes"),
    ),
    **dict.fromkeys(("reviewed", "review_by"), (dt.date, "a date without quotes, such as 2026-11-22")),
}
_OPTIONAL = frozenset({"transports"})


def _entry(values: Any, number: int, path: Path) -> Deviation:
    place = f"{path.name}: entry {number}"
    if not isinstance(values, dict):
        raise UsageError(f"{place}: deviation: must be a table; entries start with [[deviation]]")
    for key, value in values.items():
        if key not in _KINDS:
            raise UsageError(f"{place}: {key}: unknown key; the keys are {', '.join(_KINDS)}")
        kind, words = _KINDS[key]
        # A date with a time of day is a date to Python.
        if not isinstance(value, kind) or isinstance(value, dt.datetime):
            raise UsageError(f"{place}: {key}: must be {words}")
    for key in _KINDS:
        if key not in values and key not in _OPTIONAL:
            raise UsageError(f"{place}: {key}: is missing")
    return Deviation(**values, number=number, file=path.name)


def _both(one: Deviation, other: Deviation, test: str) -> UsageError:
    return other.wrong(
        "test",
        f"entry {one.number} also covers {test} on the same nodes; narrow versions, transports or test",
    )
