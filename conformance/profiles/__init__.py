"""What a foreign node supports, so that what it cannot do is n/a with a reason, and never passed.

A profile is a TOML file; those in this folder are shipped. Keys, all of them optional but ``impl``:

=============  =======================================================================================
impl           implementation: chooses the recorded deviations
version        release of it; ``--profile NAME:VERSION`` wins
roles          what the node can be: router, peer, client
transports     what it takes links over
scouting       group in which it hears SCOUTs, ``none`` when it hears none; the default group when empty
fence          how it can be asked whether it has handled all that was sent: ``query`` (it ends a query that
               nothing matches), ``interest`` (it ends a snapshot of tokens), ``none``; without this key
               it is found out
features       what it has of ``FEATURES``; without this key all of it. The rest is n/a
minimum        so many tests of the whole suite apply to it at least
destructive    tests that may harm it are allowed without --allow-destructive
time_scale     multiplies all waiting times
excluded       tables of ``requirements`` (ids or areas), ``tests`` (patterns), ``versions`` and a ``reason``
=============  =======================================================================================
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import Any

from conformance.config import PROTOCOLS, Locator
from conformance.errors import UsageError
from conformance.profiles.features import FEATURES
from conformance.profiles.versions import covers
from conformance.requirements import requirements

ROLES = ("router", "peer", "client")

FENCES = ("query", "interest", "none")

NO_SCOUTING = "none"
"""The node does not answer SCOUT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """What does not apply to a node.

    Attributes:
        requirements: Ids or areas: ``ZN-KA-106``, ``ZN-JOIN``.
        tests: Patterns of test ids, with or without the folder: ``test_auth.py*``.
        reason: Why, in words for the report.
        versions: Releases for which it holds; all when empty.
    """

    requirements: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    reason: str
    versions: str = ""

    def holds(self, test: str, ids: tuple[str, ...], version: str) -> bool:
        """Tells whether it takes a test out."""
        if self.versions and not covers(self.versions, version):
            return False
        if any(name == given or name.startswith(f"{given}-") for name in ids for given in self.requirements):
            return True
        # Parameters stand in brackets, which a pattern would take as a set of characters.
        patterns = [pattern.replace("[", "[[]") for pattern in self.tests]
        short = test.removeprefix("suite/")
        return any(fnmatchcase(test, pattern) or fnmatchcase(short, pattern) for pattern in patterns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a node supports.

    Attributes:
        name: Of the profile; empty for the one of a node of which nothing is known.
        impl: Implementation.
        version: Its release.
        transports: What it takes links over.
        roles: What it can be.
        minimum: So many tests of the whole suite apply to it at least.
        excluded: What does not apply.
        features: What it has of ``FEATURES``.
        scouting: Locator of the group in which it hears SCOUTs; ``none``; empty for the default one.
        destructive: Tests that may harm it are allowed.
        time_scale: Multiplies all waiting times.
        fence: How it can be asked whether it has handled all; empty to find out.
    """

    name: str = ""
    impl: str = "unknown"
    version: str = "unknown"
    transports: tuple[str, ...] = PROTOCOLS
    roles: tuple[str, ...] = ROLES
    minimum: int = 1
    excluded: tuple[Exclusion, ...] = ()
    features: frozenset[str] = frozenset(FEATURES)
    scouting: str = ""
    destructive: bool = False
    time_scale: float = 1.0
    fence: str = ""

    def why_not(self, test_id: str, requirement_ids: tuple[str, ...]) -> str:
        """Returns why a test does not apply to this node, or nothing.

        Args:
            test_id: ``suite/test_init.py::test_x[0x08]``.
            requirement_ids: What the test marks; one that does not apply is enough.
        """
        for exclusion in self.excluded:
            if exclusion.holds(test_id, requirement_ids, self.version):
                return f"profile {self.name}: {exclusion.reason}"
        for name, feature in FEATURES.items():
            if name not in self.features and feature.shown_by(requirement_ids):
                return f"profile {self.name}: the node has no {feature.words}"
        return ""


GENERAL = Profile()
"""Of a node of which nothing is known."""


def shipped() -> tuple[str, ...]:
    """Returns the names of the profiles that come with the suite."""
    names = (entry.name for entry in files("conformance.profiles").iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


def load_profile(name_or_path: str, version: str = "") -> Profile:
    """Returns a profile.

    Args:
        name_or_path: ``zenoh-pico``, ``eclipse-zenoh:1.10.2``, or the path of a TOML file; empty for ``GENERAL``.
        version: Release of the node, when it is known otherwise.

    Raises:
        UsageError: There is none, or it says something that is no profile; names file and key.
    """
    if not name_or_path:
        return replace(GENERAL, version=version or GENERAL.version)
    if name_or_path.endswith(".toml") or "/" in name_or_path:
        path, said = Path(name_or_path), ""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "not a text file"
            raise UsageError(f"--profile {name_or_path}: cannot be read ({why})") from None
        name, where = path.stem, name_or_path
    else:
        name, _, said = name_or_path.partition(":")
        if name not in shipped():
            raise UsageError(
                f"--profile {name!r}: no such profile; give a TOML file, or one of {', '.join(shipped())}"
            )
        if said and not any(char.isdigit() for char in said):
            raise UsageError(f"--profile {name_or_path}: {said!r} is no version; write one like 1.10.2")
        where = f"{name}.toml"
        text = (files("conformance.profiles") / where).read_text(encoding="utf-8")
    profile = read_profile(text, name, where)
    said = said or version
    return replace(profile, version=said) if said else profile


def read_profile(text: str, name: str, where: str) -> Profile:
    """Reads a profile.

    Args:
        text: TOML.
        name: Of the profile.
        where: The file, for messages.

    Raises:
        UsageError: It is none; says where and what to write.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where}: not a TOML file: {error}") from None
    _known(table, KEYS, where, "")
    fields = {key: read(table[key], f"{where}: {key}") for key, read in KEYS.items() if key in table}
    if "impl" not in fields:
        raise UsageError(f"{where}: impl is missing: which implementation is it?")
    return Profile(name=name, **fields)


# What each key holds ---------------------------------------------------------------------------------------


def _known(table: dict[str, Any], keys: dict[str, Any], where: str, inside: str) -> None:
    for key in table:
        if key not in keys:
            place = f"{inside}.{key}" if inside else key
            raise UsageError(f"{where}: {place}: no such key; the keys are {', '.join(keys)}")


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{where}: must be a text")
    return value


def _truth(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{where}: must be true or false")
    return value


def _count(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"{where}: must be a number of at least 1")
    return value


def _scale(value: Any, where: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise UsageError(f"{where}: must be a number above 0")
    return float(value)


def _texts(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise UsageError(f"{where}: must be a list of texts")
    return tuple(value)


def _some_of(*allowed: str) -> Callable[[Any, str], tuple[str, ...]]:
    def read(value: Any, where: str) -> tuple[str, ...]:
        for item in _texts(value, where):
            if item not in allowed:
                raise UsageError(f"{where}: {item!r} is not one of {', '.join(allowed)}")
        if not value:
            raise UsageError(f"{where}: give at least one of {', '.join(allowed)}")
        return tuple(dict.fromkeys(value))

    return read


def _one_of(*allowed: str) -> Callable[[Any, str], str]:
    def read(value: Any, where: str) -> str:
        if value not in allowed:
            raise UsageError(f"{where}: {value!r} is not one of {', '.join(allowed)}")
        return str(value)

    return read


def _features(value: Any, where: str) -> frozenset[str]:
    for item in _texts(value, where):
        if item not in FEATURES:
            raise UsageError(f"{where}: {item!r} is not one of {', '.join(FEATURES)}")
    return frozenset(value)


def _group(value: Any, where: str) -> str:
    if isinstance(value, str) and value in {"", NO_SCOUTING}:
        return value
    try:
        locator = Locator.parse(_text(value, where))
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    if locator.proto != "udp":
        raise UsageError(f"{where}: SCOUT uses udp; write {NO_SCOUTING} if the node does not listen for it")
    return str(locator)


def _ids(value: Any, where: str) -> tuple[str, ...]:
    for item in _texts(value, where):
        if not any(known == item or known.startswith(f"{item}-") for known in requirements()):
            raise UsageError(f"{where}: {item} is not a requirement or area")
    return tuple(value)


def _versions(value: Any, where: str) -> str:
    try:
        covers(_text(value, where), "1.0.0")
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None
    return str(value)


def _exclusions(value: Any, where: str) -> tuple[Exclusion, ...]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise UsageError(f"{where}: must be tables, each under [[excluded]]")
    found = []
    for number, table in enumerate(value, 1):
        here = f"{where}, number {number}"
        _known(table, EXCLUSION_KEYS, here, "")
        fields: dict[str, Any] = {
            key: read(table[key], f"{here}: {key}") for key, read in EXCLUSION_KEYS.items() if key in table
        }
        if "reason" not in fields:
            raise UsageError(f"{here}: reason is missing: the report shows it")
        if not fields.get("requirements") and not fields.get("tests"):
            raise UsageError(f"{here}: give requirements or tests")
        found.append(Exclusion(**fields))
    return tuple(found)


EXCLUSION_KEYS: dict[str, Callable[[Any, str], Any]] = {
    "requirements": _ids,
    "tests": _texts,
    "versions": _versions,
    "reason": _text,
}

KEYS: dict[str, Callable[[Any, str], Any]] = {
    "impl": _text,
    "version": _text,
    "roles": _some_of(*ROLES),
    "transports": _some_of(*PROTOCOLS),
    "scouting": _group,
    "fence": _one_of(*FENCES),
    "features": _features,
    "minimum": _count,
    "destructive": _truth,
    "time_scale": _scale,
    "excluded": _exclusions,
}
"""Keys of a profile, and what reads them."""
