"""What benchmarks measured as rows of a run, so that reports can follow them from version to version.

``ZENOH_BENCH_RUN`` names the folder of a run, made if missing; several benchmarks may write into one, one after the
other. Without it nothing is written.
"""

from __future__ import annotations

import atexit
import os
import shlex
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from conformance.config import RunConfig, prepare_run_dir
from conformance.environment import build_version
from conformance.recorder import NodeFacts, close_run, open_run
from scapy_layers.commands.terminal import installed_version
from spark_reports.rows import BENCHMARKS, BenchmarkRow, RowWriter

VARIABLE = "ZENOH_BENCH_RUN"
KIND = "benchmark"


def record(
    name: str,
    values: Sequence[float],
    unit: str,
    *,
    metric: str = "rate",
    better: str = "higher",
    baseline: str = "",
) -> None:
    """Appends a row for each value, in the order in which they were measured.

    The first of three or more is a warm-up: caches fill and the interpreter specialises. The name of the script
    stands in front of the name, so that two benchmarks may measure things of one name.

    Raises:
        OSError: The folder cannot be written.
    """
    folder = _folder()
    if folder is None:
        return
    script = Path(sys.argv[0]).stem.removeprefix("bench_")
    with RowWriter(folder / BENCHMARKS) as rows:
        for sample, value in enumerate(values):
            rows.write(
                BenchmarkRow(
                    run_id=folder.name,
                    name=f"{script}: {name}",
                    metric=metric,
                    value=value,
                    unit=unit,
                    better=better,
                    sample=sample,
                    warmup=sample == 0 and len(values) > 2,
                    baseline=baseline,
                )
            )


@cache
def _folder() -> Path | None:
    """Makes the run on first use; what is benchmarked is this package."""
    if not os.environ.get(VARIABLE):
        return None
    folder = Path(os.environ[VARIABLE]).resolve()
    prepare_run_dir(folder)
    config = RunConfig(node="none", run_dir=folder, run_id=folder.name, seed=0)
    facts = NodeFacts("zenoh-harness", build_version(installed_version()), "", "")
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    row = open_run(config, facts, KIND, command)
    # A benchmark that is killed leaves a run that has not ended.
    atexit.register(lambda: close_run(config, row, failed=hasattr(sys, "last_type")))
    return folder
