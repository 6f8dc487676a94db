"""``zenoh-reports query``: SQL over what is in a store, or in run folders."""

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_reports.commands.common import check_not_empty, say, some_place
from spark_reports.commands.opening import check_name, open_store
from spark_reports.engine.session import add_engine_options, engine_session
from spark_reports.engine.settings import LINES_OF_PARQUET
from spark_reports.errors import EngineFailed, WrongUse
from spark_reports.folders import RunFolder, find_run_folders

if TYPE_CHECKING:
    from spark_reports.storage.store import Store

_EXAMPLES = """\
examples:
  zenoh-reports query                                    the views and their columns
  zenoh-reports query "SELECT node_version, count(*) FROM runs GROUP BY ALL" --store store
  zenoh-reports query "FROM buckets |> WHERE first_case < 100 |> SELECT bucket, run_id" --store runs --format csv
"""


def add(commands: Any) -> None:
    """Adds the parser."""
    query = commands.add_parser(
        "query",
        help="run an SQL query on a store",
        description="Runs one Spark SQL query. Without a query, lists the views and their columns, which "
        "docs/reports.md explains. Never changes the store.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    query.add_argument(
        "sql", nargs="?", default="", metavar="SQL", help="the query; - to read it from standard input"
    )
    query.add_argument(
        "--store",
        type=some_place,
        metavar="STORE",
        help="path or URI of a store, or a folder of run folders",
    )
    query.add_argument(
        "--format",
        choices=("table", "csv", "json"),
        default="table",
        help="output format (default: %(default)s)",
    )
    query.add_argument(
        "--limit", type=_limit, default=1_000, metavar="N", help="show at most N rows (default: %(default)s)"
    )
    add_engine_options(query)
    query.set_defaults(function=run)


def _limit(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:9]) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 1000000")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Prints the answer, or the list of the views."""
    try:
        from spark_reports import query
        from spark_reports.storage.ingest import ingest
        from spark_reports.storage.views import open_views
    except ImportError as error:
        raise EngineFailed(f"{error.name} is missing: `pip install 'zenoh-harness[reports]'`") from error
    if not arguments.sql:
        print(query.listing())
        return 0
    if not arguments.store:
        raise WrongUse("--store is missing; give a store, or the folder with the runs")
    # Before Spark is started, and folders are taken in.
    sql = query.checked(_text(arguments.sql))
    with (
        _opened(arguments) as (store, folders),
        engine_session(
            arguments, input_bytes=_size(folders) if folders else size_of(store, query.views_in(sql)), say=say
        ) as spark,
    ):
        if folders:
            ingest(spark, store, folders, say)
        answer = query.ask(spark, open_views(spark, store), sql, arguments.limit)
    print(query.as_text(answer, arguments.format), end="")
    if answer.more:
        say(f"more than {arguments.limit} rows; use --limit to show more, up to {query.MOST}")
    return 0


def _text(sql: str) -> str:
    """Returns the query, that of standard input for ``-``.

    Raises:
        WrongUse: It is no text.
    """
    try:
        text = sys.stdin.read() if sql == "-" else sql
        # What cannot be decoded is there as halves of surrogate pairs.
        text.encode()
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise WrongUse(f"the query is not text ({error.reason})") from error
    return text


@contextmanager
def _opened(arguments: argparse.Namespace) -> Iterator[tuple["Store", list[RunFolder]]]:
    """Opens a store, or a temporary one for run folders, which are returned as well.

    Raises:
        WrongUse: There is neither, or it cannot be read as the options say.
        NothingToReport: There is nothing in it.
    """
    name = arguments.store
    with open_store(name) as store:
        if store.exists():
            check_name(store, arguments)
            yield store, []
            return
    if not Path(name).is_dir():
        raise WrongUse(f"{name} is neither a store nor a folder of run folders")
    folders = find_run_folders([Path(name)])
    check_not_empty(folders, [Path(name)])
    with open_store(None) as store:
        yield store, folders


def size_of(store: "Store", tables: Iterable[str]) -> int:
    """Returns how many bytes of lines are in some tables of a store, about."""
    commits = store.commits()
    parquet = (entry for table in tables for commit in commits for entry in commit.tables.get(table, ()))
    return LINES_OF_PARQUET * sum(entry.bytes for entry in parquet)


def _size(folders: Iterable[RunFolder]) -> int:
    return sum(tail.size for folder in folders for tail in folder.files.values())
