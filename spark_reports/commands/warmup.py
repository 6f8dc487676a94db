"""``zenoh-reports warmup``: makes later starts of Spark quicker, or ends the server that ``--warm`` leaves running."""

import argparse
import os
import time
from typing import Any

from spark_reports.commands.common import say
from spark_reports.engine.archive import archive_for
from spark_reports.engine.java import find_java
from spark_reports.engine.scratch import scratch
from spark_reports.errors import EngineFailed


def add(commands: Any) -> None:
    """Adds the parser."""
    warmup = commands.add_parser(
        "warmup",
        help="make later starts of Spark quicker (once, about half a minute)",
        description="Writes a class-data archive into the user's cache folder: Spark's Java classes as they lie in "
        "memory, about 190 MB, with which it starts in about half the time. One holds until Spark or Java changes; "
        "one that does not fit is passed over.",
    )
    warmup.add_argument("--again", action="store_true", help="make the archive even if there is one")
    warmup.add_argument("--stop", action="store_true", help="only end the server that --warm left running")
    warmup.set_defaults(function=run)


def run(arguments: argparse.Namespace) -> int:
    """Makes the archive, or stops the server."""
    if arguments.stop:
        from spark_reports.engine import remote

        print("stopped" if remote.stop(os.environ) else "no warm server runs")
        return 0
    return _make(again=arguments.again)


def _make(*, again: bool) -> int:
    try:
        from spark_reports.engine import settings, training
        from spark_reports.engine.session import spark_session
    except ImportError as error:
        raise EngineFailed(f"{error.name} is missing: `pip install 'zenoh-harness[reports]'`") from error
    java = find_java(os.environ)
    archive = archive_for(java, settings.spark_home(), os.environ)
    if archive is None:
        raise EngineFailed("there is no cache folder to write to: neither XDG_CACHE_HOME nor HOME is set")
    if archive.path.is_file() and not again:
        archive.touch()
        print(f"{archive.path} is there")
        return 0
    say(f"starting Spark on {java}")
    begin = time.monotonic()
    try:
        with (
            archive.make() as target,
            scratch() as folder,
            spark_session(java, os.environ, make_archive=target) as spark,
        ):
            say("running what a report runs")
            training.run(spark, folder)
            say("writing the archive")
    except OSError as error:
        raise EngineFailed(f"no archive was written: {error}") from error
    size = archive.path.stat().st_size / 1e6
    print(f"{archive.path}: {size:.0f} MB, {time.monotonic() - begin:.0f} s")
    return 0
