"""Cases into rows and annotated captures."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from conformance.config import RunConfig
from conformance.observe import History
from conformance.recorder import CaptureWriter
from fuzz.triage import Finding
from spark_reports.rows import CAPTURES, FUZZ_CASES, FuzzCaseRow, RowWriter

CAMPAIGN_CAPTURE_BYTES = 64 << 20
"""A campaign's capture takes so much; what comes later is in the rows only."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """Holds back signals that end a campaign, so that a case is recorded and counted whole or not at all."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass(slots=True)
class Record:
    """A case that ran.

    Attributes:
        row: Its row.
        history: What was seen on its link.
    """

    row: FuzzCaseRow
    history: History

    @property
    def title(self) -> str:
        """Stands at the first packet of the case."""
        row = self.row
        return f"case {row.case} of {row.campaign}: {row.message}, {row.field}: {row.mutation}"

    @property
    def remarks(self) -> list[str]:
        """Stand at the last packet of the case."""
        row = self.row
        verdict = f"verdict: {row.verdict}"
        if row.oracle:
            verdict += f"; oracle {row.oracle}: {row.detail} [{row.bucket}]"
        return [f"reply: {row.reply or 'nothing'}", verdict]


class Recorder:
    """Writes what a campaign did into the run folder.

    The last case is held back until the next one begins: what a case does to a node may show late.

    Args:
        config: The run.
        campaign: Name of the campaign.

    Raises:
        OSError: The folder cannot be written.
        RowsError: The rows that are there already cannot be read.
    """

    def __init__(self, config: RunConfig, campaign: str) -> None:
        self._config = config
        self._campaign = campaign
        self._rows = RowWriter(config.run_dir / FUZZ_CASES)
        self._path = self._free(f"fuzz-{campaign}")
        self._capture = CaptureWriter(config.run_dir / self._path, CAMPAIGN_CAPTURE_BYTES)
        self._findings: dict[int, str] = {}
        self.last: Record | None = None

    def _free(self, name: str) -> str:
        """Returns the path of a capture that is not there yet: a campaign may run twice in a folder."""
        names = (f"{CAPTURES}/{name}{f'-{number}' if number else ''}.pcapng" for number in range(2**31))
        return next(path for path in names if not (self._config.run_dir / path).exists())

    @property
    def capture_is_full(self) -> bool:
        """Some cases are in the rows only."""
        return self._capture.full

    def add(self, record: Record) -> None:
        """Takes a case; the one before it is final now."""
        self.flush()
        self.last = record

    def found(self, finding: Finding, record: Record, *, smallest: bool) -> None:
        """Writes the capture of a bucket's smallest case and puts the finding into the row of a case."""
        path = self._findings.get(finding.number)
        if path is None:
            path = self._findings[finding.number] = self._free(f"finding-{self._campaign}-{finding.number}")
        record.row = replace(record.row, capture=path)
        if smallest:
            with CaptureWriter(self._config.run_dir / path) as capture:
                capture.add(record.history, record.title, [f"finding {finding.bucket}", *record.remarks])

    def flush(self) -> None:
        """Writes the case that was held back."""
        with undisturbed():
            record, self.last = self.last, None
            if record is None:
                return
            self._capture.add(record.history, record.title, record.remarks)
            if not record.row.capture and not self._capture.full:
                record.row = replace(record.row, capture=self._path)
            self._rows.write(record.row)

    def close(self) -> None:
        """Writes what is held back, completes all files."""
        try:
            self.flush()
        finally:
            self._capture.close()
            self._rows.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def relative(path: Path) -> str:
    """Returns a path as people see it: relative to where they are, when it is below."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
