"""Which tests run: requirements, levels, plain words, transports, and what is too few."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

import pytest

from conformance.errors import UsageError
from conformance.page.words import words_of
from conformance.passive import CHECKERS
from conformance.profiles import Profile
from conformance.requirements import requirements
from conformance.running.marks import STREAMS, SUITE, ids_of, test_id, transport_of
from conformance.running.options import wanted_requirements

NO_TRANSPORT = ""
"""Parameter of a test that makes sense on none of the wanted transports; it is left out."""

AREAS = {
    "BAT": "batch",
    "CLS": "close",
    "DATA": "data attachment encoding",
    "DCL": "declare declaration",
    "DEL": "delete",
    "ERR": "error reply",
    "EXT": "extension",
    "FIN": "response final",
    "FRG": "fragment",
    "FRM": "frame sequence number",
    "HLO": "hello scouting discovery",
    "INIT": "init handshake",
    "INT": "interest",
    "JOIN": "join multicast group",
    "KA": "keep alive lease",
    "KEX": "key expression",
    "MSG": "message header",
    "NET": "network",
    "OAM": "oam administration",
    "OPEN": "open handshake",
    "PUSH": "push publication",
    "PUT": "put publication",
    "QRY": "query",
    "REQ": "request query",
    "RPL": "reply",
    "RSP": "response reply",
    "RTE": "routing route",
    "SCT": "scout scouting discovery",
    "VLE": "variable length number",
}
"""Words that ``-k`` finds an area by, besides those of its requirements."""


def add_keywords(item: pytest.Item) -> None:
    """Lets ``-k`` find a test by the words of its title and of the requirements it covers."""
    ids = ids_of(item)
    if not ids:
        return
    words = {words_of(item.nodeid), *ids}
    for name in ids:
        requirement = requirements().get(name)
        if requirement is not None:
            words |= {requirement.text, requirement.level, AREAS.get(requirement.area, requirement.area)}
    item.extra_keyword_matches |= words


def spread_over_transports(metafunc: pytest.Metafunc, wanted: Iterable[str]) -> None:
    """Makes one test of each transport that is wanted and makes sense; tcp leaves no trace in the id."""
    if "transport" not in metafunc.fixturenames or metafunc.definition.get_closest_marker("req") is None:
        return
    mark = metafunc.definition.get_closest_marker("transports")
    sensible = mark.args if mark is not None else STREAMS
    names = [name for name in wanted if name in sensible] or [NO_TRANSPORT]
    metafunc.parametrize(
        "transport",
        [
            pytest.param(name, id=pytest.HIDDEN_PARAM if name in {"tcp", NO_TRANSPORT} else name)
            for name in names
        ],
        indirect=True,
    )


def check_marks(items: Iterable[pytest.Item]) -> None:
    """Refuses tests of the suite whose marks are wrong.

    Raises:
        pytest.UsageError: A test names no requirement, or one that there is not.
    """
    for item in items:
        ids = ids_of(item)
        if item.path.is_relative_to(SUITE) and not ids:
            raise pytest.UsageError(f"{item.nodeid} names no requirement; mark it with @req")
        for name in ids:
            if name not in requirements():
                raise pytest.UsageError(f"{item.nodeid} names {name}, which is not in requirements.toml")


def left_out(config: pytest.Config, items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Returns the judged tests that --req, --level and --transports leave out.

    When what --req asks for is only seen in passing, all tests stay, to be looked at.
    """
    wanted, levels = wanted_requirements(config), config.getoption("--level")
    judged = [item for item in items if ids_of(item)]
    out = [item for item in judged if not any(is_wanted(name, wanted, levels) for name in ids_of(item))]
    if len(out) == len(judged) and any(is_wanted(name, wanted, levels) for name in CHECKERS):
        out = []
    return [item for item in judged if item in set(out) or _on_no_transport(item)]


def _on_no_transport(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and "transport" in callspec.params and transport_of(item) == NO_TRANSPORT


def is_wanted(name: str, wanted: list[str], levels: list[str]) -> bool:
    """Tells whether a requirement is one of those that --req and --level ask for."""
    by_name = not wanted or any(name == one or name.startswith(f"{one}-") for one in wanted)
    return by_name and (not levels or requirements()[name].level in levels)


def is_whole(tests: Iterable[str]) -> bool:
    """Tells whether tests of all files of the suite are there."""
    found = {PurePath(test.partition("::")[0]).name for test in tests}
    return {path.name for path in SUITE.glob("test_*.py")} <= found


def check_number(judged: list[pytest.Item], profile: Profile | None) -> None:
    """Refuses a run in which nothing, or less than what the node's profile promises, would be judged.

    Args:
        judged: The tests.
        profile: Of the node, when nothing was left out on purpose.

    Raises:
        UsageError: There are too few.
    """
    if not judged:
        raise UsageError("nothing selected: no test of the suite matches all options")
    if profile is None:
        return
    count = sum(not profile.why_not(test_id(item), ids_of(item)) for item in judged)
    if count < profile.minimum:
        raise UsageError(
            f"only {count} tests apply, and the profile {profile.name or 'of an unknown node'} requires at least "
            f"{profile.minimum}: are parts of the suite missing?"
        )
