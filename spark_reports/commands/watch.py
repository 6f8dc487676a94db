"""``zenoh-reports watch``: campaigns and suites while they run."""

import argparse
import os
from collections.abc import Iterable
from contextlib import closing, nullcontext
from typing import Any

from spark_reports.commands.common import say, some_path
from spark_reports.commands.times import seconds
from spark_reports.engine.java import find_java
from spark_reports.engine.scratch import scratch
from spark_reports.engine.session import spark_session
from spark_reports.errors import EngineFailed, WrongUse
from spark_reports.folders import walk
from spark_reports.pages.text import visible


def add(commands: Any) -> None:
    """Adds the parser."""
    watch = commands.add_parser(
        "watch",
        help="follow campaigns and suites while they run",
        description="Follows all runs at and below the given folders, including those that start later, and prints "
        "rates, verdicts, new buckets and failed tests as they appear. Does not disturb the writers. Stop with Ctrl-C.",
    )
    watch.add_argument(
        "runs", nargs="+", type=some_path, metavar="RUNS", help="a run folder, or a folder of run folders"
    )
    watch.add_argument(
        "--checkpoint",
        type=some_path,
        metavar="DIR",
        help="store what was counted here, so that a watch that ended or was killed continues where it left off and "
        "counts no line twice (default: not stored)",
    )
    watch.add_argument(
        "--every",
        type=seconds,
        default=1.0,
        metavar="TIME",
        help="how often to look, for example 500ms or 5s (default: 1s)",
    )
    end = watch.add_mutually_exclusive_group()
    end.add_argument("--once", action="store_true", help="count what is there, then exit")
    end.add_argument(
        "--until-idle",
        type=seconds,
        metavar="TIME",
        help="exit after this long without a new line, for example 30s",
    )
    watch.set_defaults(function=run)


def run(arguments: argparse.Namespace) -> int:
    """Tells what comes until it is told to end."""
    for root in arguments.runs:
        if not root.is_dir():
            what = "is not a folder" if root.exists() else "does not exist"
            raise WrongUse(f"{root} {what}; give the folder with the runs, for example runs/")
    try:
        from spark_reports.following import telling, watch
    except ImportError as error:
        raise EngineFailed(
            f"{error.name} is missing or too old: `pip install 'zenoh-harness[reports]' 'pyspark>=4.2'`"
        ) from error
    java = find_java(os.environ)
    kept = arguments.checkpoint
    with nullcontext(kept) if kept else scratch("watch") as folder:
        plan = watch.Plan(
            roots=arguments.runs,
            checkpoint=folder,
            every_s=arguments.every,
            once=arguments.once,
            idle_s=arguments.until_idle,
        )
        counted = watch.begin(plan)
        teller = telling.Teller(counted.began)
        say(f"starting Spark on {java}")
        with spark_session(java, os.environ) as spark:
            say("watching; press Ctrl-C to stop" if not arguments.once else "counting")
            if not any(True for root in arguments.runs for _ in walk(root)):
                say(f"no run folder in {visible(', '.join(map(str, arguments.runs)))} yet")
            try:
                with closing(watch.follow(spark, plan, counted, say)) as batches:
                    for news in batches:
                        if news is not None:
                            _print(teller.news(counted, news))
                        _print(teller.look(counted))
            except KeyboardInterrupt:
                say("ended")
        _print(teller.end(counted))
    return 0


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)
