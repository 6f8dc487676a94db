"""Cases into rows: one write for each, so that whatever ends the process loses no case that had ended."""

from __future__ import annotations

import errno
import math
import os
import time
import zlib
from base64 import b64encode
from collections.abc import Iterable
from json.encoder import encode_basestring as _quoted
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from conformance.config import RunConfig
from conformance.observe import Endpoints
from conformance.recorder import CaptureWriter
from fuzz.player.history import history_of
from fuzz.states import State
from spark_reports.rows import (
    CAPTURES,
    FINDINGS,
    FUZZ_CASES,
    FUZZ_COVERAGE,
    ROWS_VERSION,
    CoverageRow,
    FindingRow,
    gone_on_failure,
    to_json,
)

if TYPE_CHECKING:
    from fuzz.cases import Case
    from fuzz.findings import Finding
    from fuzz.oracles import Objection
    from fuzz.player import Played, Trace

MAX_DISK = 4 << 30
"""Bytes that a run folder may take unless another limit is given: some seven million cases."""

LEAST_FREE = 256 << 20
"""A run ends when the disk has less than this left."""

LOOK_SECONDS = 1.0
"""The size of the folder is looked at again after so many seconds, for what others write into it: nodes, findings, other
processes; and at once when what is written here takes half of the room that was left."""

PLAIN = 1024
"""Stimuli of up to so many bytes stand in their row as hexadecimal digits; more are compressed."""

MOST_KEPT = 4 << 20
"""Bytes of one case that are kept; what is sent comes from the seed and can be made again."""

LONGEST_ANSWER = 400
"""Characters of an answer's shape in a row."""

CAPTURE_BYTES = 32 << 20
"""The capture of a run takes so much; what comes later is in the rows only."""

CASE_CAPTURE_BYTES = 256 << 10
"""A case of more bytes than this is in the rows only."""

NOISE = frozenset({"FRAME", "KEEP_ALIVE"})
"""What is no reply: the frames around messages, and what comes anyway."""


class Lines:
    """Appends whole lines to a file that other processes may append to as well.

    Args:
        path: The file.

    Raises:
        OSError: It cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def write(self, text: str) -> int:
        """Appends a line; returns its bytes.

        Raises:
            OSError: The disk is full.
        """
        # A lone surrogate, from bytes that are no text, becomes the JSON escape for it.
        data = text.encode("utf-8", "backslashreplace")
        written = os.write(self._fd, data)
        if written != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written

    @property
    def size(self) -> int:
        """Bytes of the file, whoever wrote them."""
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        """Closes the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Recorder:
    """Writes what campaigns did into the run folder. The footers are written by ``fuzz.resume.complete``.

    Args:
        config: The run; its folder is there.
        job: Which of several processes this is, from 0.
        part: How often the run was resumed.
        max_disk: Bytes that the run folder may take while cases are played; None for no limit. The table of what was
            tried is not counted: it is written behind the last case, and as large as the campaigns are.

    Raises:
        OSError: The folder cannot be written.
    """

    def __init__(
        self, config: RunConfig, *, job: int = 0, part: int = 0, max_disk: int | None = MAX_DISK
    ) -> None:
        self._config = config
        self._job = job
        self.part = part
        self._max_disk = max_disk
        self._cases = Lines(config.run_dir / FUZZ_CASES)
        self._findings: Lines | None = None
        self._capture: CaptureWriter | None = None
        self._capture_path = ""
        self._begun: set[tuple[int, Endpoints]] = set()  # links that are in the capture
        self._head = f'{{"run_id":{_quoted(config.run_id)},"campaign":'
        of_job = f',"job":{job}' if job else ""
        self._tail = f'{of_job},"rows_version":{ROWS_VERSION}}}\n'
        self._look_at = -math.inf
        self._look_behind = 0
        self._kept = 0
        self._full = ""
        self.rows = 0

    # Cases -------------------------------------------------------------------------------------------

    def case(
        self,
        number: int,
        campaign: str,
        case: Case,
        played: Played,
        verdict: str,
        *,
        objection: Objection | None = None,
        bucket: str = "",
        instance: int,
        engine: str,
        duration_s: float,
        time_ns: int,
        position: int = 0,
        session: int = 0,
        links: int = 1,
        parent: str = "",
        capture: str = "",
    ) -> None:
        """Writes the row of a case that ended; see ``rows.FuzzCaseRow``.

        The line is put together by hand: that takes a third of the time of a dataclass and ``json``, and there are
        thousands a second. A test holds both against each other.

        Raises:
            OSError: The disk is full.
        """
        sent = played.sent
        size = sum(map(len, sent))
        packed = ""
        if size <= PLAIN:
            text = " ".join([data.hex() for data in sent])
        else:
            text, packed = "", _packed(sent)
        reply = " ".join([name for name in played.names if name not in NOISE])
        oracle, detail = (
            (objection.oracle, objection.detail) if objection is not None else ("", played.failure)
        )
        # What has its usual value is left out: readers put it in again.
        extra = [
            f',"session":{session}' if session else "",
            f',"links":{links}' if links != 1 else "",
            f',"position":{position}' if position else "",
            f',"parent":{_quoted(parent)}' if parent else "",
            f',"sent_zlib":"{packed}"' if packed else "",
        ]
        self._cases.write(
            f'{self._head}{_quoted(campaign)},"case":{number},"time_ns":{time_ns},"duration_s":{duration_s:.6f}'
            f',"seed":{self._config.seed},"state":"{case.state}","message":{_quoted(case.message)}'
            f',"field":{_quoted(case.field)},"mutation":{_quoted(case.mutation)},"sent_hex":"{text}"'
            f',"sent_bytes":{size},"reply":{_quoted(reply)},"verdict":"{verdict}","oracle":{_quoted(oracle)}'
            f',"bucket":{_quoted(bucket)},"detail":{_quoted(detail)},"node_instance":{instance}'
            f',"capture":{_quoted(capture)},"engine":"{engine}","source":{_quoted(case.source.name)}'
            f',"strategy":{_quoted(case.strategy)},"answer":{_quoted(played.shape[:LONGEST_ANSWER])}'
            f',"rtt_us":{round(played.rtt * 1e6)}{"".join(extra)}{self._tail}'
        )
        self.rows += 1

    # What stops a run --------------------------------------------------------------------------------

    @property
    def full(self) -> str:
        """Why nothing more may be written; empty while there is room.

        Asked behind every case: most of the time it is one system call.
        """
        if not self._full and (
            time.monotonic() >= self._look_at or self._cases.size + self._kept >= self._look_behind
        ):
            self._full = self._room()
        return self._full

    def _room(self) -> str:
        folder = self._config.run_dir
        disk = os.statvfs(folder)
        free = disk.f_bavail * disk.f_frsize
        if free < LEAST_FREE:
            return f"less than {LEAST_FREE >> 20} MiB of disk space left"
        left = free - LEAST_FREE
        if self._max_disk is not None:
            size = folder_size(folder, but=FUZZ_COVERAGE)
            if size >= self._max_disk:
                return f"the run folder takes up {_size(size)}, the limit set by --max-disk"
            left = min(left, self._max_disk - size)
        self._look_at = time.monotonic() + LOOK_SECONDS
        self._look_behind = self._cases.size + self._kept + left // 2
        return ""

    # Findings, coverage, captures ----------------------------------------------------------------------

    def finding(self, row: FindingRow) -> None:
        """Writes what is known of a finding now.

        Raises:
            OSError: The disk is full.
        """
        if self._findings is None:
            self._findings = Lines(self._config.run_dir / FINDINGS)
        self._findings.write(to_json(row) + "\n")

    def found(self, finding: Finding, engine: str) -> FindingRow:
        """Writes what is known of a finding now, and returns the row.

        Raises:
            OSError: The disk is full.
        """
        hits, tries = finding.confirmed
        messages, size = finding.size
        row = FindingRow(
            run_id=self._config.run_id,
            bucket=finding.bucket,
            time_ns=time.time_ns(),
            status=finding.status,
            fails=finding.fails,
            harm=str(finding.harm),
            oracle=finding.oracle,
            state=finding.state,
            message=finding.message,
            field=finding.field,
            detail=finding.detail,
            campaign=finding.campaign,
            case=finding.case,
            hits=finding.hits,
            left_out=finding.masked,
            tries=tries,
            confirmed=hits,
            messages=messages,
            size=size,
            known=finding.known,
            folder=_below(self._config.run_dir, finding.path),
            engine=engine,
            seed=self._config.seed,
            job=self._job,
            part=self.part,
            node_impl=finding.impl,
            node_version=finding.version,
            case_buckets=tuple(sorted(finding.case_buckets)),
        )
        self.finding(row)
        return row

    def coverage(self, rows: Iterable[CoverageRow]) -> None:
        """Replaces the coverage of the run, whole or not at all.

        Raises:
            OSError: The disk is full.
        """
        path = self._config.run_dir / FUZZ_COVERAGE
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        count = 0
        with gone_on_failure(temporary):
            with temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
                for row in rows:
                    file.write(to_json(row) + "\n")
                    count += 1
                file.write(footer(count))
            temporary.replace(path)

    def keep(
        self,
        trace: Trace,
        case: Case,
        played: Played,
        remarks: Iterable[str] = (),
    ) -> str:
        """Adds what went over the links in a case to the capture of the run, for answers never seen before.

        Where a link was opened before, its handshake comes first, once; what went over it since is missing, as the
        sequence numbers of TCP tell.

        Returns:
            The capture, below the run folder; empty when there is no room left in it.
        """
        if sum(map(len, played.sent)) > CASE_CAPTURE_BYTES:
            return ""
        if self._capture is None:
            self._capture_path = self._free("fuzz" if not self._job else f"fuzz-job{self._job}")
            self._capture = CaptureWriter(self._config.run_dir / self._capture_path, CAPTURE_BYTES)
        title = f"{case.message} in {case.state}; {case.field or case.source.name}: {case.mutation}"
        state, endpoints = case.state, trace.endpoints
        # Other cases are played beside it.
        events = [event for event in trace.since(played.start) if event.link in played.links]
        links = {(link, endpoints[link]) for link in played.links if link in endpoints}
        opened = [
            event for link, _ in sorted(links - self._begun) for event in trace.beginning(link, played.start)
        ]
        self._begun |= links
        history = history_of(
            [*opened, *events],
            endpoints,
            compressed=endpoints if state is State.COMPRESSED else (),
            scouting=endpoints if state is State.SCOUTING else (),
        )
        remarks = [f"answer: {played.shape[:LONGEST_ANSWER]}", *remarks]
        # Dissectors say what is in a packet, and a campaign has no time for that.
        self._capture.add(history, title, remarks, describe=False)
        self._kept = self._capture.size
        return "" if self._capture.full else self._capture_path

    def _free(self, name: str) -> str:
        """Returns the path of a capture that is not there yet: a run may be resumed."""
        names = (f"{CAPTURES}/{name}{f'-{number}' if number else ''}.pcapng" for number in range(2**31))
        return next(path for path in names if not (self._config.run_dir / path).exists())

    def close(self) -> None:
        """Closes all files."""
        if self._capture is not None:
            self._capture.close()
            self._capture = None
        for lines in (self._cases, self._findings):
            if lines is not None:
                lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _packed(sent: Iterable[bytes]) -> str:
    """Returns what ``sent_zlib`` holds."""
    kept, left = [], MOST_KEPT
    for data in sent:
        if left <= 0:
            break
        kept.append(data[:left].hex())
        left -= len(data)
    return b64encode(zlib.compress(" ".join(kept).encode(), 1)).decode()


def _below(folder: Path, path: Path | None) -> str:
    """Returns a path as it stands in rows."""
    if path is None:
        return ""
    here, there = folder.resolve(), path.resolve()
    return str(there.relative_to(here)) if there.is_relative_to(here) else path.name


def _size(size: int) -> str:
    """Returns bytes in words: ``2.6 MB``."""
    return next(
        (f"{size / unit:.1f} {name}" for unit, name in ((1e9, "GB"), (1e6, "MB")) if size >= unit),
        f"{size / 1e3:.1f} kB",
    )


def footer(count: int) -> str:
    """Returns the line that completes a file of rows."""
    return f'{{"footer":true,"rows":{count},"rows_version":{ROWS_VERSION}}}\n'


def folder_size(folder: Path, but: str = "") -> int:
    """Returns the bytes of all files below a folder, but for those of one name."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            if name == but:
                continue
            try:
                size += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118  (thousands of files)
            except FileNotFoundError:
                continue
    return size
