from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame

from spark_reports import rows
from spark_reports.rates import campaign_rates, traffic

Frame = Callable[..., DataFrame]
Case = Callable[..., rows.FuzzCaseRow]


def test_rate_is_cases_over_the_time_they_took(frame: Frame, case_row: Case) -> None:
    cases = frame(
        case_row(1),
        case_row(2, "panic", node_instance=2),
        case_row(4, duration_s=1.0),
        case_row(3, verdict="odd"),
        case_row(9, run_id="r2"),
    )
    first, second = campaign_rates(cases).orderBy("run_id").collect()
    # From the start of case 1, at 1 s, to the end of case 4, at 5 s.
    assert (first["cases"], first["seconds"], first["cases_per_s"]) == (4, 4.0, 1.0)
    assert (first["closed"], first["finding"], first["inconclusive"]) == (2, 1, 1)
    assert first["node_starts"] == 2
    assert (second["cases"], second["seconds"]) == (1, 0.5)


@pytest.mark.parametrize("duration", [0.0, -1.0, float("nan")])
def test_cases_without_duration_have_no_rate(frame: Frame, case_row: Case, duration: float) -> None:
    (row,) = campaign_rates(frame(case_row(duration_s=duration))).collect()
    assert row["cases_per_s"] is None or row["cases_per_s"] != row["cases_per_s"]


def test_verdicts_add_up_to_cases(frame: Frame, case_row: Case) -> None:
    cases = [case_row(number, verdict=name) for number, name in enumerate((*rows.FUZZ_VERDICTS, "new"), 1)]
    (row,) = campaign_rates(frame(*cases)).collect()
    assert sum(row[name] for name in rows.FUZZ_VERDICTS) == row["cases"] == len(cases)


def test_traffic_counts_batches(frame: Frame, observation_row: Callable[..., rows.ObservationRow]) -> None:
    observations = frame(
        observation_row("opened"),
        observation_row("sent"),
        observation_row("received"),
        observation_row("received", error="Truncated"),
        observation_row("sent", error="on purpose"),
    )
    assert [tuple(row) for row in traffic(observations).collect()] == [("r1", 2, 2, 1)]
