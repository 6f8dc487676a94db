"""Findings that are known: recognised by their signature, counted, shown, and no reason to fail.

The file holds signatures only. What triggers a fault of somebody else's node stands nowhere in this repository.
"""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import Path
from typing import Any, Self

from conformance.deviations.versions import NoVersions, Versions
from conformance.errors import UsageError
from fuzz.oracles import Harm
from fuzz.states import State
from scapy_layers.catalogue import MESSAGES

SHIPPED = Path(__file__).with_name("known_findings.toml")

PRIVATELY = "reported privately"
"""Stands in ``report`` as long as nothing about the fault is public."""

BATCH = "batch"
"""Kind of message of stimuli that are none."""

MESSAGE_NAMES = frozenset({*(cls.shape().name for cls in MESSAGES), BATCH})

UNKNOWN = "unknown"
"""What a node is called of which nobody knows what it is."""

UNFIT_SHOWN = 5
"""So many entries are named that are for other nodes."""

_ANY, _WILD = "*", "*?"
_PATTERNS = "place", "state", "message", "about"
_BYTES = re.compile(r"(?:[0-9a-fA-F]{2}[\s:]?){12,}")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What a finding is recognised by.

    Attributes:
        harm: The class.
        place: Where in the node, with its signal and without line; empty when unknown.
        state: Where the link was.
        message: Kind of the message that was lied about.
        about: The field by which it is called; empty when it is called by its message.
    """

    harm: str
    place: str
    state: str
    message: str
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A finding that is known.

    Attributes:
        id: Short name, unique in the file.
        impl: Implementation: ``eclipse-zenoh``.
        versions: Releases that have it: ``1.10.2``, ``1.0.0-1.10.2``, ``>=1.7``, several joined by commas; ``*`` for
            all, also for a node of which nobody knows its release.
        harm: The class: ``crash``, ``stall``, ...
        note: What goes wrong, in one sentence that does not tell how to bring it about.
        since: When it was entered.
        report: Where it was reported: a link, or ``reported privately``.
        place: Pattern of the place, with ``*`` as a wildcard.
        state: Pattern of the state.
        message: Pattern of the kind of message.
        about: Pattern of the field by which it is called, where it is called by one, whichever message it was met by.
        number: Place in its file, from 1.
        file: Name of the file.
    """

    id: str
    impl: str
    versions: str
    harm: str
    note: str
    since: dt.date
    report: str
    place: str = _ANY
    state: str = _ANY
    message: str = _ANY
    about: str = _ANY
    number: int = 0
    file: str = SHIPPED.name
    _versions: Versions | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name, None)
            if isinstance(value, str) and not value.strip():
                raise self.wrong(item.name, "must not be empty")
            if isinstance(value, str) and item.name != "report" and _BYTES.search(value):
                raise self.wrong(item.name, "contains bytes; only signatures belong in this file")
        if not _ID.fullmatch(self.id):
            raise self.wrong("id", f"{self.id!r} is not a short name; use something like ZF-2026-001")
        if self.harm not in set(Harm):
            raise self.wrong("harm", f"{self.harm!r} is not one of {', '.join(Harm)}")
        object.__setattr__(self, "_versions", self._read_versions())
        self._some("state", State)
        self._some("message", MESSAGE_NAMES)
        if not any(pattern.strip(_WILD) for pattern in (self.place, self.message, self.about)):
            raise self.wrong("place", f"every {self.harm} would match; narrow place, message or about")
        if self.since > dt.datetime.now(dt.UTC).date() + dt.timedelta(days=1):
            raise self.wrong("since", f"{self.since} is in the future")
        if self.report != PRIVATELY and not re.fullmatch(r"https://\S+", self.report):
            raise self.wrong("report", f"must be a link starting with https://, or {PRIVATELY!r}")

    def _read_versions(self) -> Versions | None:
        if self.versions.strip() == _ANY:
            return None
        try:
            return Versions.parse(self.versions)
        except NoVersions as error:
            raise self.wrong("versions", f"{error}; use {_ANY} for all") from None

    def _some(self, key: str, words: Iterable[str]) -> None:
        """Refuses a pattern that nothing can ever match: it is misspelt, or what it was about was renamed."""
        pattern = getattr(self, key)
        if not any(fnmatchcase(word, pattern) for word in words):
            raise self.wrong(key, f"no {key} matches {pattern}; choose from: {', '.join(sorted(words))}")

    def wrong(self, key: str, why: str) -> UsageError:
        """Returns the error that names the place, the key and what is wrong there."""
        return UsageError(f"{self.file}: entry {self.number}: {key}: {why}")

    def is_for(self, impl: str, version: str) -> bool:
        """Tells whether it is known of a node."""
        return impl == self.impl and (self._versions is None or version in self._versions)

    def matches(self, signature: Signature) -> bool:
        """Tells whether a finding looks like it, whatever the node."""
        return signature.harm == self.harm and all(
            fnmatchcase(getattr(signature, key), getattr(self, key)) for key in _PATTERNS
        )

    def same(self, other: Known) -> bool:
        """Tells whether both say the same of some node."""
        if any(getattr(self, key) != getattr(other, key) for key in ("impl", "harm", *_PATTERNS)):
            return False
        mine, theirs = self._versions, other._versions
        return mine is None or theirs is None or mine.meets(theirs)


class KnownFindings:
    """All known findings of one file, or of those of a run.

    Args:
        entries: In the order of the file.
    """

    def __init__(self, entries: Iterable[Known] = ()) -> None:
        self.entries = tuple(entries)
        for one, other in combinations(self.entries, 2):
            if one.id == other.id:
                raise other.wrong("id", f"entry {one.number} already has it")
            if one.same(other):
                raise other.wrong(
                    "versions", f"entry {one.number} already covers these releases; merge the ranges"
                )

    @classmethod
    def load(cls, path: Path = SHIPPED) -> Self:
        """Reads a file.

        Raises:
            UsageError: It cannot be read, or an entry is wrong or can never match; names entry and key.
        """
        try:
            # Some editors begin a file with a mark.
            table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"{path.name}: is not a TOML file ({error})") from None
        found = table.pop("finding", [])
        if table:
            raise UsageError(f"{path.name}: {next(iter(table))}: unknown; entries start with [[finding]]")
        if not isinstance(found, list):
            raise UsageError(f"{path.name}: finding: must be a list; entries start with [[finding]]")
        return cls(_entry(values, number, path) for number, values in enumerate(found, start=1))

    def __iter__(self) -> Iterator[Known]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @classmethod
    def of_run(cls, own: Path | None = None) -> Self:
        """Returns what is known to a run: what is shipped, behind what a file of the user's own says.

        Raises:
            UsageError: One of the files cannot be read, or has an entry that is wrong.
        """
        shipped = cls.load()
        if own is None:
            return shipped
        both = cls()
        # What both say is no mistake: it was entered here before it was shipped.
        both.entries = (*cls.load(own), *shipped)
        return both

    def unfit(self, impl: str, version: str) -> str:
        """Says which entries nothing that is found on a node can match; nothing when there are none."""
        unfit = [known for known in self.entries if not known.is_for(impl, version)]
        if not unfit:
            return ""
        count = f"{len(unfit)} of {len(self)} entries are" if len(unfit) < len(self) else "all entries are"
        ids = ", ".join([known.id for known in unfit[:UNFIT_SHOWN]] + ["..."] * (len(unfit) > UNFIT_SHOWN))
        others = f"for other nodes than {impl} {version}"
        if impl == UNKNOWN:
            others = "for nodes with a name, which this one has not; give it one with --profile NAME:VERSION"
        return f"{unfit[0].file}: {count} {others} ({ids})"

    def of(self, signature: Signature, impl: str, version: str) -> Known | None:
        """Returns what is known of a finding on a node: the first entry that fits, or None."""
        fitting = (known for known in self.entries if known.is_for(impl, version))
        return next((known for known in fitting if known.matches(signature)), None)


_KEYS = [item.name for item in fields(Known) if item.init and item.name not in {"number", "file"}]


def _entry(values: Any, number: int, path: Path) -> Known:
    place = f"{path.name}: entry {number}"
    if not isinstance(values, dict):
        raise UsageError(f"{place}: finding: must be a table; entries start with [[finding]]")
    for key, value in values.items():
        if key not in _KEYS:
            raise UsageError(f"{place}: {key}: unknown key; the keys are {', '.join(_KEYS)}")
        if key == "since":
            # A date with a time of day is a date to Python.
            if not isinstance(value, dt.date) or isinstance(value, dt.datetime):
                raise UsageError(f"{place}: since: must be a date without quotes, such as 2026-11-22")
        elif not isinstance(value, str):
            raise UsageError(f"{place}: {key}: must be a quoted string")
    for key in _KEYS:
        if key not in values and key not in _PATTERNS:
            raise UsageError(f"{place}: {key}: is missing")
    return Known(**values, number=number, file=path.name)
