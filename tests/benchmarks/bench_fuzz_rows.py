"""What recording costs a case: the row, and the count. Ratios against a dataclass and ``json`` in the same run.

python -m tests.benchmarks.bench_fuzz_rows
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from conformance.config import RunConfig, prepare_run_dir
from fuzz.coverage import Coverage
from fuzz.lying import Lying
from fuzz.player import Answer, Ending, Played
from fuzz.recorder import Recorder
from fuzz.states import State
from scapy_layers.data import Put
from scapy_layers.network import Push
from scapy_layers.transport import Frame
from spark_reports.rows import FUZZ_CASES, FuzzCaseRow, RowWriter

ROUNDS = 20_000


def best(function: Callable[[], object]) -> float:
    """Returns microseconds a call, the best of five."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(ROUNDS // 5):
            function()
        times.append((time.perf_counter() - began) / (ROUNDS // 5))
    return min(times) * 1e6


def main() -> None:
    """Prints the figures."""
    push = Frame(R=1, messages=[Push(key_suffix="a/b", body=Put(data=b"hello"))])
    source = Lying("PUSH", State.OPEN, push, {"FRAME.sn": "sn"}, ("FRAME",), kind="PUSH")
    case = next(iter(source.cases(random.Random(1))))
    answer = Answer(1, b"\x03\x02", ("CLOSE",), "CLOSE/03 INVALID", "", 0, 2)
    played = Played(Ending.CLOSED, [answer], [b"\x1e\x00" + bytes(30)], 0.0002)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        prepare_run_dir(folder)
        recorder = Recorder(RunConfig(node="none", run_dir=folder, run_id="run", seed=1))

        def row() -> None:
            recorder.case(
                1,
                "session",
                case,
                played,
                "closed",
                instance=1,
                engine="fast",
                duration_s=0.001,
                time_ns=1 << 60,
            )

        row_us = best(row)
        full_us = best(lambda: recorder.full)
        size = (folder / FUZZ_CASES).stat().st_size / recorder.rows
        writer = RowWriter(Path(name) / "plain.jsonl")

        def plain() -> None:
            writer.write(
                FuzzCaseRow(
                    run_id="run", campaign="session", case=1, time_ns=1 << 60, duration_s=0.001, seed=1,
                    state=str(case.state), message=case.message, field=case.field, mutation=case.mutation,
                    sent_hex=" ".join(data.hex() for data in played.sent), sent_bytes=sum(map(len, played.sent)),
                    reply=" ".join(played.names), verdict="closed", oracle="", bucket="", detail="",
                    node_instance=1, capture="", engine="fast", source=source.name, strategy=case.strategy,
                    answer=played.shape, rtt_us=200,
                )
            )  # fmt: skip

        plain_us = best(plain)
    coverage = Coverage([source])
    count_us = best(lambda: coverage.add("session", case, played, "closed"))
    print(f"row           {row_us:7.1f} us, {size:.0f} bytes")
    print(f"dataclass+json{plain_us:7.1f} us, {plain_us / row_us:.1f} times as long")
    print(f"room left     {full_us:7.1f} us")
    print(f"coverage      {count_us:7.1f} us")


if __name__ == "__main__":
    main()
