"""What commands read: run folders and a store, and the Spark that reads them, opened in the order that takes least time."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from spark_reports.commands.common import say
from spark_reports.engine.scratch import scratch
from spark_reports.engine.session import engine_session, interpreting, is_local
from spark_reports.errors import EngineFailed, WrongUse
from spark_reports.folders import RunFolder

if TYPE_CHECKING:
    from spark_reports.storage.gathering import Gathered
    from spark_reports.storage.ingest import Scans
    from spark_reports.storage.store import Commit, Store
    from spark_reports.storage.views import Views

_ROLLUP_SHARE = 50
"""A report over a store reads about one byte in so many: rollups, not cases."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What there is to report on.

    Attributes:
        views: Its tables.
        commits: Its runs.
        few: Opens the tables of some of the runs.
        interpreted: The tables in a session that interprets queries, where it is worth having one.
        near: The copies that ``views`` reads, where there are some.
        troubles: Run folders that could not be taken in, each with the reason.
        names: What the run in each folder is called.
    """

    views: "Views"
    commits: Sequence["Commit"]
    few: Callable[[Sequence["Commit"]], "Views"]
    interpreted: "Views | None"
    near: "Gathered | None"
    troubles: Sequence[str]
    names: Mapping[Path, str] = field(default_factory=dict)


@contextmanager
def opened(
    arguments: argparse.Namespace, folders: Sequence[RunFolder], load: Callable[[], None] = lambda: None
) -> Iterator[Opened]:
    """Takes run folders into a store, and opens it.

    Args:
        arguments: With the options of ``add_engine_options``, and ``store``: its URI, None for a temporary one.
        folders: May be none; then what is in the store is opened.
        load: Imports what the body needs, which takes nearly as long as Java takes to begin.

    Raises:
        WrongUse: There is no store, or a temporary one would not be seen by those who read it.
        EngineFailed: A package is missing.
    """
    if arguments.store is None and not _is_near(arguments):
        raise WrongUse("give a --store that every worker can reach; a temporary one is on this machine")
    with ExitStack() as stack:
        store = stack.enter_context(open_store(arguments.store))
        check_name(store, arguments)
        known = [] if folders and not store.exists() else store.commits()
        # There is nothing to wait for, unless runs are to be taken in first.
        early = not folders and _is_near(arguments)
        copies: list[Gathered] = []
        scanned: list[Scans] = []

        def meanwhile() -> None:
            try:
                if early:
                    copies.append(stack.enter_context(_gathered(store, known)))
                _load()
                if folders:
                    scanned.append(_scan_ahead(folders))
                load()
            except ImportError as error:
                missing = f"{error.name} is missing: `pip install 'zenoh-harness[reports]'`"
                raise EngineFailed(missing) from error

        size = sum(tail.size for folder in folders for tail in folder.files.values())
        read = size + _size(known) // _ROLLUP_SHARE
        spark = stack.enter_context(engine_session(arguments, input_bytes=read, say=say, meanwhile=meanwhile))
        from spark_reports.pages.page import count
        from spark_reports.storage import ingest
        from spark_reports.storage.views import open_views

        troubles: Sequence[str] = ()
        names: Mapping[Path, str] = {}
        if folders:
            say(f"reading {count(len(folders), 'run')}, {size / 1e6:.1f} MB")
            done = ingest.ingest(spark, store, folders, say, ahead=scanned[0])
            troubles, names = done.troubles, done.names
        commits = store.commits() if folders else known
        if folders and _is_near(arguments):
            copies.append(stack.enter_context(_gathered(store, commits)))
        near = copies[0] if copies else None
        views = open_views(spark, store, commits) if near is None else near.views(spark)
        beside = None if near is None else stack.enter_context(interpreting(spark))
        interpreted = None if near is None or beside is None else near.views(beside)
        yield Opened(
            views, commits, lambda few: open_views(spark, store, few), interpreted, near, troubles, names
        )


def _load() -> None:
    """Imports what ``opened`` needs of packages that take their time."""
    import spark_reports.pages.page
    import spark_reports.storage.ingest
    import spark_reports.storage.views  # noqa: F401


def _scan_ahead(folders: Sequence[RunFolder]) -> "Scans":
    from spark_reports.storage.ingest import scan_ahead

    return scan_ahead(folders)


@contextmanager
def open_store(uri: str | None) -> Iterator["Store"]:
    """Opens a store; without a URI a temporary one, which goes away afterwards."""
    from spark_reports.storage.store import Store

    if uri is not None:
        yield Store(uri)
        return
    with scratch("store") as folder:
        yield Store(folder, durable=False)


def check_name(store: "Store", arguments: argparse.Namespace) -> None:
    """Checks before Spark starts that it can read a store of that name.

    Raises:
        WrongUse: It cannot over Spark Connect, where every path is a pattern, and Hadoop matches none with a colon.
    """
    from spark_reports.storage.places import is_pattern

    if (
        (arguments.remote or arguments.warm)
        and is_pattern(store.name)
        and ":" in store.name.rpartition("://")[2]
    ):
        raise WrongUse(
            f"{store.name} has a colon and one of \\ * ? [ ] {{ }} in its path, which cannot be read with --remote or "
            "--warm; omit the option, or use another path for the store"
        )


def _is_near(arguments: argparse.Namespace) -> bool:
    """Whether Spark sees the temporary files of this machine."""
    return not arguments.remote and is_local(arguments.master)


@contextmanager
def _gathered(store: "Store", commits: Sequence["Commit"]) -> Iterator["Gathered"]:
    from spark_reports.storage.gathering import Gathered

    with (
        scratch("near") as folder,
        Gathered(store, commits, folder, summed=True) as near,
    ):
        yield near


def _size(commits: Sequence["Commit"]) -> int:
    return sum(entry.bytes for commit in commits for entries in commit.tables.values() for entry in entries)
