"""What oracles cost: ``python tests/benchmarks/bench_oracles.py [--node pypi]``.

A well node is looked at, with nothing else under way. For each oracle: wall-clock time of one look (the median), how
often it is asked at a given rate of cases, and its share of the time of a case. The goal: together less than a fifth.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[2]))

from conformance.config import RunConfig
from conformance.nodes import node_of
from fuzz.oracles import BEAT_CASES, BEAT_SECONDS, ODD_SECONDS, ORACLES, TREND_SECONDS, Patient, When
from fuzz.player import Played
from fuzz.stages import stage_for

LOOKS = {When.CASE: 2000, When.BEAT: 300, When.ODD: 60, When.TREND: 20}

GOAL = 0.2
"""Share of the time of a case."""


def a_second(when: When, rate: float) -> float:
    """Returns how often an oracle is asked in a second at a rate of cases."""
    trend, odd = 1 / TREND_SECONDS, 1 / ODD_SECONDS
    asked = {When.TREND: trend, When.ODD: odd + trend}
    asked[When.BEAT] = max(rate / BEAT_CASES, 1 / BEAT_SECONDS)
    asked[When.CASE] = rate
    return asked[when]


def look(patient: Patient, when: When, name: str) -> float:
    """Returns the seconds that one look of one oracle takes."""
    began = time.perf_counter()
    objection = patient.examine(when, Played(), None, [name])
    taken = time.perf_counter() - began
    if objection is not None:
        sys.exit(f"{name} objects: {objection.detail}")
    return taken


def main() -> None:
    """Looks at a well node and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--node", default="pypi", help="default: pypi")
    parser.add_argument("--rate", type=float, default=3000.0, help="cases a second (default: 3000)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = RunConfig(node=options.node, run_dir=Path(folder), run_id="bench", seed=1)
        stage = stage_for("", node_of(config), config)
        stage.start()
        patient = Patient(stage, config.reply)
        try:
            began = time.perf_counter()
            patient.begin()
            print(
                f"begin: {(time.perf_counter() - began) * 1e3:.1f} ms; not judged: {patient.notes or 'nothing'}"
            )
            print(f"{'oracle':12} {'when':6} {'a look':>10} {'a second':>9} {'share':>7}")
            total = 0.0
            for one in ORACLES.values():
                # The beat of a thorough look is another one: it waits, and sends more.
                for when in (When.BEAT, When.ODD) if one.when is When.BEAT else (one.when,):
                    taken = median(look(patient, when, one.name) for _ in range(LOOKS[when]))
                    often = a_second(when, options.rate)
                    total += taken * often
                    print(f"{one.name:12} {when:6} {taken * 1e6:7.1f} us {often:9.1f} {taken * often:7.2%}")
                    patient.keep()
            print(f"together {total:.1%} of the time at {options.rate:.0f} cases/s; goal: {GOAL:.0%}")
        finally:
            patient.close()
            stage.stop()


if __name__ == "__main__":
    main()
