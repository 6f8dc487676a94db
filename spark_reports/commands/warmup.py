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
        help="make later starts of Spark faster (run once, about half a minute)",
        description="Writes a class-data archive to the user's cache folder: Spark's Java classes as they are in "
        "memory, about 190 MB. With it, Spark starts in about half the time. The archive is valid until Spark or Java "
        "changes; one that does not match is ignored.",
    )
    warmup.add_argument("--again", action="store_true", help="create the archive even if there is one")
    warmup.add_argument("--stop", action="store_true", help="only stop the server that --warm left running")
    warmup.set_defaults(function=run)


def run(arguments: argparse.Namespace) -> int:
    """Makes the archive, or stops the server."""
    if arguments.stop:
        from spark_reports.engine import remote

        print("stopped" if remote.stop(os.environ) else "no warm server is running")
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
        raise EngineFailed("no cache folder to write to: neither XDG_CACHE_HOME nor HOME is set")
    if archive.path.is_file() and not again:
        archive.touch()
        print(f"{archive.path} already exists")
        return 0
    say(f"starting Spark on {java}")
    begin = time.monotonic()
    try:
        with (
            archive.make() as target,
            scratch() as folder,
            spark_session(java, os.environ, make_archive=target) as spark,
        ):
            say("running the queries of a report")
            training.run(spark, folder)
            say("writing the archive")
    except OSError as error:
        raise EngineFailed(f"no archive was written: {error}") from error
    size = archive.path.stat().st_size / 1e6
    print(f"{archive.path}: {size:.0f} MB, {time.monotonic() - begin:.0f} s")
    return 0
