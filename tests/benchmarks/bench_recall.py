"""How much of what is planted in synthetic runs a report finds: ``python tests/benchmarks/bench_recall.py [SEEDS]``.

Runs, store and report are made for several seeds, in one session of Spark; every miss and every false alarm is named.
A statistical finding may be missed or made up by chance, so that one seed proves little. Exit 1 if there was any.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from spark_reports import recall, synthetic
from spark_reports.commands.demo import differences, reported
from spark_reports.engine.java import find_java
from spark_reports.engine.session import spark_session
from spark_reports.recall import CLASSES, Score

SEEDS = 5
RUNS = (300, 120)
"""Few runs of a release are harder: rates have wide intervals."""


def main() -> int:
    """Prints a table of all seeds together."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seeds", nargs="?", type=int, default=SEEDS, metavar="SEEDS", help="how many of them")
    seeds = range(1, 1 + parser.parse_args().seeds)
    every: dict[str, list[Score]] = {name: [] for name in CLASSES}
    with spark_session(find_java(os.environ), os.environ) as spark:
        for runs in RUNS:
            for seed in seeds:
                with tempfile.TemporaryDirectory(prefix="zenoh-recall-") as folder:
                    out = Path(folder)
                    truth = synthetic.make(out / "runs", runs, seed)
                    begin = perf_counter()
                    scores = recall.score(truth, recall.found_in(reported(spark, out), truth))
                    seconds = perf_counter() - begin
                print(
                    f"{runs} runs, seed {seed}: {truth.rows} rows, ingest and report {seconds:.1f} s",
                    flush=True,
                )
                for one in scores:
                    every[one.name].append(one)
                for line in differences(scores):
                    print(line, flush=True)
    whole = [
        Score(
            name,
            sum(one.planted for one in scores),
            sum(one.right for one in scores),
            tuple(fact for one in scores for fact in one.missed),
            tuple(fact for one in scores for fact in one.wrong),
        )
        for name, scores in every.items()
    ]
    print(recall.table(whole))
    return int(any(one.missed or one.wrong for one in whole))


if __name__ == "__main__":
    sys.exit(main())
