"""The pytest plugin: gives each part of ``conformance.running`` its place in a run.

Idle in every pytest run that collects no test marked ``req``.

Exit codes are pytest's: 0 nothing failed, 1 something failed or was inconclusive, or nothing at all could be
decided, 2 interrupted, 3 there was no node (any more) or the harness failed, 4 wrong use, nothing selected or too
few tests.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from conformance.config import check_unused, prepare_run_dir
from conformance.errors import HarnessError, UsageError
from conformance.nodes import node_of
from conformance.running import fixtures
from conformance.running.listing import listing
from conformance.running.marks import MARKS, destructive, ids_of, req, slow, test_id, transport_of, transports
from conformance.running.options import (
    add_options,
    check_options,
    is_worker,
    settings_of,
    wanted_requirements,
    wanted_transports,
)
from conformance.running.outcome import Outcomes
from conformance.running.passing import passive_tests
from conformance.running.run import Run, run_key
from conformance.running.selection import (
    add_keywords,
    check_marks,
    check_number,
    is_whole,
    left_out,
    spread_over_transports,
)
from conformance.running.shown import Shown
from conformance.running.writer import EXIT_HARNESS, EXIT_USAGE, Recorder, deviations_of

__all__ = ["destructive", "req", "slow", "transports"]

_known_key = pytest.StashKey[list[tuple[str, str]]]()
"""Id and transport of all judged tests that were collected, deselected ones too."""


# Options --------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Registers marks and parts; those that write, in the process that writes."""
    for line in MARKS:
        config.addinivalue_line("markers", line)
    try:
        check_options(config)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    config.pluginmanager.register(fixtures, "zenoh-fixtures")
    config.pluginmanager.register(Outcomes(), "zenoh-outcomes")
    if not is_worker(config):
        shown = Shown(config)
        config.pluginmanager.register(shown, "zenoh-shown")
        config.pluginmanager.register(Recorder(config, shown), "zenoh-recorder")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Lists in this process, whatever -n says, and without what pytest says about a run."""
    if config.getoption("--list-reqs"):
        if hasattr(config.option, "numprocesses"):
            config.option.numprocesses, config.option.dist, config.option.tx = None, "no", []
        config.option.verbose = -2


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a worker of pytest-xdist the folder and the seed, so that all workers share a run."""
    try:
        settings = settings_of(node.config)
        check_unused(settings.config.run_dir)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    config = settings.config
    node.workerinput["zenoh"] = {"run_dir": str(config.run_dir), "seed": config.seed}


# Collection -----------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Makes one test of each transport; first of all, so that its name leads in the id."""
    spread_over_transports(metafunc, wanted_transports(metafunc.config))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Lets -k find a test by plain words."""
    add_keywords(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Checks the marks, lets pytest deselect, and deselects what our own options leave out."""
    check_marks(items)
    config.stash[_known_key] = [(test_id(item), transport_of(item)) for item in items if ids_of(item)]
    yield
    if config.getoption("--list-reqs"):
        return
    out = left_out(config, items)
    if out:
        config.hook.pytest_deselected(items=out)
        gone = set(out)
        items[:] = [item for item in items if item not in gone]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Starts the node once it is known that there is something to judge."""
    config = session.config
    if config.option.collectonly or config.getoption("--list-reqs"):
        return
    known = config.stash.get(_known_key, [])
    judged = [item for item in session.items if ids_of(item)]
    if not known or (session.items and not judged):
        return
    try:
        settings = settings_of(config)
        all_files = is_whole(test for test, _ in known)
        whole = all_files and not settings.narrowed
        check_number(judged, settings.profile if whole else None)
        deviations = deviations_of(settings)
        deviations.check([*known, *passive_tests(settings.config.transports)], whole=whole)
        if not is_worker(config):
            check_unused(settings.config.run_dir)
        # Before the folder is made: a node that was mistyped leaves none behind.
        node = node_of(settings.config, str(getattr(config, "workerinput", {}).get("workerid", "node")))
        prepare_run_dir(settings.config.run_dir)
        run = Run(settings, node, deviations, all_files)
    except HarnessError as error:
        _refuse(session, str(error), EXIT_USAGE if isinstance(error, UsageError) else EXIT_HARNESS)
        return
    config.stash[run_key] = run
    run.start()
    if not settings.asked and not run.lost:
        _drop(session, [item for item in judged if (over := transport_of(item)) and run.node.lacks(over)])


def _drop(session: pytest.Session, out: list[pytest.Item]) -> None:
    """Leaves out tests over transports that nobody asked for by name and that the node does not offer."""
    if out:
        session.config.hook.pytest_deselected(items=out)
        gone = set(out)
        session.items[:] = [item for item in session.items if item not in gone]


def _refuse(session: pytest.Session, why: str, code: int) -> None:
    """Ends the run with one sentence."""
    if is_worker(session.config):
        # A worker of pytest-xdist cannot end the run; the controller does when it hears this.
        session.config.workeroutput["zenoh_refused"] = [why, code]  # type: ignore[attr-defined]
        session.items.clear()
    elif code == EXIT_USAGE:
        raise pytest.UsageError(why)
    else:
        pytest.exit(why, code)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Lists requirements instead of running tests, when that is what was asked for."""
    config = session.config
    if not config.getoption("--list-reqs"):
        return None
    writer = config.get_terminal_writer()
    for line in listing(session.items, wanted_requirements(config), config.getoption("--level")):
        writer.line(line)
    return True


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends a node of ours."""
    if run_key in config.stash:
        config.stash[run_key].node.stop()
