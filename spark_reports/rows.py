"""The rows that runs write and reports read: types, version, JSON lines. Standard library only.

A run is a folder::

    runs/<run-id>/
        run.json              one RunRow
        verdicts.jsonl        VerdictRow, one line each
        observations.jsonl    ObservationRow
        fuzz_cases.jsonl      FuzzCaseRow
        findings.jsonl        FindingRow, what campaigns found
        fuzz_coverage.jsonl   CoverageRow, what campaigns tried
        benchmarks.jsonl      BenchmarkRow, what benchmarks measured
        findings/             a folder for each finding, see docs/fuzzing.md
        captures/             annotated pcapng files

Each ``.jsonl`` ends with a footer line ``{"footer": true, "rows": N, ...}``. A file without one was cut
off; a reader sees that and says so instead of averaging it in. A second writer (a campaign after a
conformance run in the same folder) adds its rows and a new footer behind the old one, and the last line
counts all rows. Only the processes of one fuzzing run append side by side, each line by one write.
"""

import dataclasses
import datetime as dt
import errno
import hashlib
import json
import os
import re
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, ClassVar, Self

ROWS_VERSION = 6
"""Raised with every change of a row type; readers accept every version up to their own.

1: the first. 2: ``VerdictRow.transport``. 3: ``FuzzCaseRow.engine`` and all behind it, ``sent_hex`` with lengths
in front; FindingRow, CoverageRow. 4: ``RunRow.environment`` and all behind it; BenchmarkRow. 5:
``FindingRow.case_buckets``. 6: ``RunRow.selection``.
"""

VERDICTS = "verdicts.jsonl"
OBSERVATIONS = "observations.jsonl"
FUZZ_CASES = "fuzz_cases.jsonl"
FINDINGS = "findings.jsonl"
FUZZ_COVERAGE = "fuzz_coverage.jsonl"
BENCHMARKS = "benchmarks.jsonl"
RUN = "run.json"
CAPTURES = "captures"

LONGEST_LINE = 16 << 20
"""Bytes of a line, and of ``run.json``; the longest that writers make (a case of 4 MiB, packed) has six."""

CASE_BUCKETS_SINCE = 5
"""Rows of findings of this version and later say which buckets of cases they hold."""

ALL = "all"
"""``RunRow.selection`` of a run of the suite that left no test out."""

OUTCOMES = ("pass", "fail", "warning", "deviation", "n/a", "inconclusive")
"""Outcomes of a conformance test; what each means: README, section on outcomes."""

CUT = "…"
"""Ends a text that is told shorter than a row has it."""

STALE = "stale deviation: remove it"
"""Reason of a fail that is one only because the requirement is met and a deviation says otherwise."""

FUZZ_VERDICTS = ("accepted", "closed", "refused", "silent", "finding", "inconclusive")
"""How a fuzz case ended: the node went on (accepted), sent CLOSE (closed), ended the link (refused),
said nothing in time (silent), an oracle objected (finding), the node or the harness was not well
before the case (inconclusive)."""

FUZZ_ENGINES = ("fast", "boofuzz")
"""What plays cases against nodes; any other engine in a row is one of our own readers."""

FINDING_STATUS = ("confirmed", "seen", "not reproduced", "open")
"""Whether a finding is true: it came again on fresh nodes (confirmed), it was beyond doubt but did not come again (seen:
a process that ended), neither (not reproduced), nobody has looked yet (open)."""

COVERAGE_KINDS = ("pair", "edge", "extension", "strategy", "transition", "answer")
"""What CoverageRow counts."""

PASSIVE = "passive/"
"""Begins the ids of verdicts on what all tests together saw; the transport of one is that of the test that broke it."""

FIRST_TRANSPORT = "tcp"
"""What links ran over before rows said so: in version 1 there was no other."""

BETTER = ("higher", "lower")
"""Which way a measured value is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One invocation, or several that share a folder. Stands in ``run.json``.

    Attributes:
        run_id: Folder name; sorts by start time.
        started_at: UTC, ISO 8601 with milliseconds and ``Z``; what another writer spells otherwise is read as that
            (``as_utc``).
        ended_at: Same; None while the run goes on or when it was cut off.
        kind: What wrote into the folder so far, sorted, joined by ``+``: ``conformance``, ``fuzz``, ``tester``,
            ``benchmark``.
        node: The ``--node`` value.
        node_impl: For example ``eclipse-zenoh``; ``unknown`` for a node that was attached to.
        node_version: Its version, or ``unknown``.
        node_whatami: ``router``, ``peer`` or ``client``; empty when never learned.
        node_zid: Text form of its ZID; empty when never learned.
        harness_version: Version of this package.
        python: Version of the interpreter.
        platform: Operating system and machine.
        seed: Seed of all random choices.
        command: What was typed, without paths of this machine.
        status: ``running``, ``complete`` or ``failed`` (the node or the harness failed).
        environment: What results depend on besides node and options, one line: operating system, release of its
            kernel (major.minor), machine, processor, cores, Python (major.minor). Empty in rows before version 4.
        configuration: Options that change what is judged, ``name=value`` words in order of their names. Seed, paths
            and durations are no part of it. Empty in rows before version 4.
        harness_commit: Commit of this package where it runs from a checkout, with ``+`` behind it when files differ
            from that commit; empty otherwise.
        parent: Run id of the matrix or job that started this run; empty without one.
        selection: Which tests of the suite were asked for: ``ALL``, or the options that left some out on purpose. Empty
            where that is not known: in rows before version 6, and where nothing ran the suite.
    """

    TABLE: ClassVar[str] = "runs"

    run_id: str
    started_at: str
    ended_at: str | None
    kind: str
    node: str
    node_impl: str
    node_version: str
    node_whatami: str
    node_zid: str
    harness_version: str
    python: str
    platform: str
    seed: int
    command: str
    status: str
    environment: str = ""
    configuration: str = ""
    harness_commit: str = ""
    parent: str = ""
    selection: str = ""
    rows_version: int = ROWS_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRow:
    """The judgement on one test.

    Attributes:
        run_id: The run it belongs to.
        test: Path-like id, ``suite/test_init.py::test_x[param]``.
        requirements: Ids the test marks.
        level: Strictest level among them: MUST, MUST NOT, FACT, SHOULD, MAY.
        outcome: One of OUTCOMES.
        expected: What should have been seen; empty on a pass without further words.
        seen: What was seen instead.
        reason: Why n/a or inconclusive; which deviation; empty otherwise.
        stimulus: The last messages we sent before the judgement, decoded, one line.
        duration_s: Seconds.
        started_ns: Unix time in ns.
        capture: File below the run folder, or empty.
        repeat: The command that repeats this test alone.
        transport: What links to the node ran over, ``tcp``, ``tls``, ...; missing in rows of version 1. Of what all tests
            together saw (``PASSIVE``) it is that of the test that broke it, or empty.
    """

    TABLE: ClassVar[str] = "verdicts"

    run_id: str
    test: str
    requirements: tuple[str, ...]
    level: str
    outcome: str
    expected: str
    seen: str
    reason: str
    stimulus: str
    duration_s: float
    started_ns: int
    capture: str
    repeat: str
    transport: str = ""
    rows_version: int = ROWS_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationRow:
    """One thing seen on a link during a test.

    Attributes:
        run_id: The run it belongs to.
        test: As in VerdictRow.
        seq: Position within the test, from 0.
        time_ns: Unix time in ns.
        link: Name of the link within the test, ``a``, ``b``, ...
        direction: ``sent``, ``received``, ``opened`` or ``ended``.
        messages: Names of the messages in the batch, outermost first, joined by a space.
        summary: One line for people.
        raw_hex: The batch without its length prefix; empty for ``opened`` and ``ended``.
        error: Why the bytes do not decode; empty otherwise.
    """

    TABLE: ClassVar[str] = "observations"

    run_id: str
    test: str
    seq: int
    time_ns: int
    link: str
    direction: str
    messages: str
    summary: str
    raw_hex: str
    error: str
    rows_version: int = ROWS_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzCaseRow:
    """One stimulus of a campaign and what became of it.

    Attributes:
        run_id: The run it belongs to.
        campaign: Its name.
        case: Number within the campaign, from 1.
        time_ns: Unix time in ns at the start of the case.
        duration_s: Seconds, oracles included.
        seed: Seed of the campaign.
        state: Where the link was when the stimulus left: ``connected``, ``init_acked``, ``open`` ...
        message: The fuzzed message, ``INIT``, ``PUSH`` ...
        field: Path of the mutated field, ``INIT.batch_size``.
        mutation: What was done to it, one line.
        sent_hex: All that was sent in this case once the state was reached, lossless, lengths in front included;
            several stimuli are parted by spaces. Empty when ``sent_zlib`` has it. In rows of version 1 and 2 there
            is one stimulus, without its length.
        sent_bytes: Its length with prefixes.
        reply: Names of the messages that came back, joined by a space; ``EOF`` when the link ended.
        verdict: One of FUZZ_VERDICTS.
        oracle: The oracle that objected; empty otherwise.
        bucket: Signature of the finding: class, place, message; empty otherwise.
        detail: What the oracle saw, one line; why a case is inconclusive; empty otherwise.
        node_instance: Counts the starts of the node in this campaign, from 1.
        capture: File below the run folder, or empty.
        engine: ``boofuzz`` (a new session for each case), ``fast`` (many cases to a session), or one of our own
            readers that got the bytes instead of a node.
        source: Where the case comes from, by the name that findings use.
        strategy: Kind of the lie, one word: ``edge``, ``length``, ``havoc``, ``order`` ...
        answer: What the answers looked like: names, headers, extensions, reasons.
        rtt_us: Microseconds from the stimulus to the answer that shows that the node is done.
        links: How many links the case used.
        session: Number of the link it was played on; cases of one job with the same number shared it.
        position: How many cases were played on that link before.
        parent: What the case was made from, for those that come from a corpus; empty otherwise.
        job: Which of several processes played it, from 0.
        sent_zlib: ``sent_hex`` when more than 1 KiB was sent: its text, zlib, base64. At most 4 MiB are kept;
            ``sent_bytes`` tells.
    """

    TABLE: ClassVar[str] = "cases"

    run_id: str
    campaign: str
    case: int
    time_ns: int
    duration_s: float
    seed: int
    state: str
    message: str
    field: str
    mutation: str
    sent_hex: str
    sent_bytes: int
    reply: str
    verdict: str
    oracle: str
    bucket: str
    detail: str
    node_instance: int
    capture: str
    engine: str = "boofuzz"
    source: str = ""
    strategy: str = ""
    answer: str = ""
    rtt_us: int = 0
    links: int = 1
    session: int = 0
    position: int = 0
    parent: str = ""
    job: int = 0
    sent_zlib: str = ""
    rows_version: int = ROWS_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRow:
    """What a campaign found: one bucket. It says nothing of the bytes; those are in the folder.

    A bucket may have several rows: one when it was found, another when it was confirmed or made smaller, one at the
    end. Of those with the same job and part the last one counts.

    Attributes:
        run_id: The run it belongs to.
        bucket: Signature: harm, place, message; the same from run to run and from release to release.
        time_ns: Unix time in ns of the row.
        status: One of FINDING_STATUS.
        fails: It makes a run fail: it is true, and none of the known ones.
        harm: First word of the bucket.
        oracle: The oracle that objected.
        state: Where the link was.
        message: The message that was lied about.
        field: Path of the field; empty when no field is meant.
        detail: What the oracle saw, one line.
        campaign: Where it was found first.
        case: Number of the first case in it.
        hits: How many cases fell into it.
        left_out: Cases that were left out since because they would fall into it as well.
        tries: How often it was replayed on a fresh node.
        confirmed: How often that brought it about.
        messages: Messages that the smallest case sends.
        size: Bytes of them.
        known: Name of the known finding; empty when it is none.
        folder: Below the run folder, or empty.
        engine: As in FuzzCaseRow.
        seed: Seed of the campaign.
        job: Which of several processes found it, from 0.
        part: How often the run had been resumed by then.
        node_impl: Implementation of the node.
        node_version: Its version.
        case_buckets: The buckets in the rows of the cases that it counts: what each seemed to be when it was played.
            Empty in rows before version 5, and when no case was under way when it was seen.
    """

    TABLE: ClassVar[str] = "findings"

    run_id: str
    bucket: str
    time_ns: int
    status: str
    fails: bool
    harm: str
    oracle: str
    state: str
    message: str
    field: str
    detail: str
    campaign: str
    case: int
    hits: int
    left_out: int
    tries: int
    confirmed: int
    messages: int
    size: int
    known: str
    folder: str
    engine: str
    seed: int
    job: int
    part: int
    node_impl: str
    node_version: str
    case_buckets: tuple[str, ...] = ()
    rows_version: int = ROWS_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageRow:
    """How often a run tried one thing.

    Attributes:
        run_id: The run it belongs to.
        kind: One of COVERAGE_KINDS. ``pair``: a message in a state. ``edge``: a lie about a field of a message.
            ``extension``: an extension of a message that was lied about. ``strategy``: a kind of lie. ``transition``:
            what became of a link in a state. ``answer``: what a node answered to a message.
        campaigns: Names of the campaigns it is about, joined by a space.
        state: The state; empty where it does not matter.
        message: The message; empty where it does not matter.
        field: Path of the field, for ``edge``.
        what: The lie, the extension, the strategy, the shape of the answer, how the link ended.
        count: Cases.
        planned: The campaigns have it; together these are the denominator. What is met on the way is not planned.
    """

    TABLE: ClassVar[str] = "coverage"

    run_id: str
    kind: str
    campaigns: str
    state: str
    message: str
    field: str
    what: str
    count: int
    planned: bool
    rows_version: int = ROWS_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRow:
    """One value that a benchmark measured once.

    Attributes:
        run_id: The run it belongs to.
        name: What was measured, ``dissect push``; the same from run to run.
        metric: Which of its properties: ``rate``, ``seconds``, ``bytes``, ``ratio`` ...
        value: The value.
        unit: Its unit, ``messages/s``, ``us``, ``MiB``; empty for a ratio.
        better: One of BETTER.
        sample: Number of the repetition within the run, from 0.
        warmup: The first repetitions, which a comparison leaves out.
        baseline: What a ratio is against, by its name; empty otherwise.
    """

    TABLE: ClassVar[str] = "benchmarks"

    run_id: str
    name: str
    metric: str
    value: float
    unit: str
    better: str
    sample: int
    warmup: bool
    baseline: str
    rows_version: int = ROWS_VERSION


LineRow = VerdictRow | ObservationRow | FuzzCaseRow | FindingRow | CoverageRow | BenchmarkRow

type_of_file: Mapping[str, type[LineRow]] = {
    VERDICTS: VerdictRow,
    OBSERVATIONS: ObservationRow,
    FUZZ_CASES: FuzzCaseRow,
    FINDINGS: FindingRow,
    FUZZ_COVERAGE: CoverageRow,
    BENCHMARKS: BenchmarkRow,
}
"""Which rows each ``.jsonl`` file of a run holds."""

AnyRow = RunRow | LineRow


def is_partial(selection: str) -> bool:
    """Tells of a ``RunRow.selection`` whether tests were left out on purpose."""
    return selection not in {"", ALL}


def later_fields(row_type: type) -> dict[str, Any]:
    """Returns the fields that rows of older versions lack, each with the value that stands for it."""
    known = {"transport": FIRST_TRANSPORT} if row_type is VerdictRow else {}
    return {
        field.name: known.get(field.name, field.default)
        for field in dataclasses.fields(row_type)
        if field.default is not dataclasses.MISSING and field.name != "rows_version"
    }


class RowsError(ValueError):
    """A file of rows that cannot be read; the message says which file, which line and why."""


def utc_now() -> str:
    """Returns the present time as the rows spell it: UTC, ISO 8601, milliseconds, ``Z``."""
    now = dt.datetime.now(dt.UTC)
    return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d(?:\.\d+)?)(?:([Zz])|([+-]\d\d):?(\d\d))", re.ASCII)


def as_utc(text: str) -> str:
    """Returns a time as the rows spell it, so that times can be compared as texts; empty for what is none.

    Other writers give offsets (``+02:00``), none or more than three digits of a second. A time without an offset may
    be any of two dozen and is none.
    """
    found = _TIME.fullmatch(text)
    if found is None:
        return ""
    offset = "+00:00" if found[3] else f"{found[4]}:{found[5]}"
    try:
        moment = dt.datetime.fromisoformat(f"{found[1]}T{found[2]}{offset}").astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return ""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_run_id() -> str:
    """Returns a folder name that sorts by start time and is unique without a server."""
    now = dt.datetime.now(dt.UTC)
    nonce = f"{socket.gethostname()} {os.getpid()} {os.urandom(8).hex()}".encode()
    return f"{now:%Y%m%dT%H%M%SZ}-{hashlib.sha256(nonce).hexdigest()[:8]}"


def as_dict(row: Any) -> dict[str, Any]:
    """Returns the fields of a row, whose values are plain: ``dataclasses.asdict`` without its copies."""
    return {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}


def to_json(row: AnyRow) -> str:
    """Returns the row as one line of JSON without a line end."""
    return json.dumps(as_dict(row), ensure_ascii=False, separators=(",", ":"))


MOST_NESTED = 500
"""What is nested deeper is not read: how deep a Python can read and write JSON differs, and none less than this."""


class NotJson(ValueError):
    """Text that no JSON value can be read from; the message says why."""


def from_json(text: str | bytes) -> Any:
    """Returns a JSON value.

    Raises:
        NotJson: There is none, or one that Python cannot hold.
    """
    try:
        value = json.loads(text.decode("utf-8") if isinstance(text, bytes) else text)
    except RecursionError:
        raise NotJson("nested too deeply") from None
    except ValueError as error:
        # Not only a JSONDecodeError: bytes that are no UTF-8, an integer of thousands of digits.
        raise NotJson(str(error).partition(";")[0]) from None
    if is_deeper(value, MOST_NESTED):
        raise NotJson("nested too deeply")
    return value


def is_deeper(value: Any, levels: int) -> bool:
    """Whether a JSON value is nested deeper than so many levels; what holds nothing else has none."""
    inside = [value]
    for _ in range(levels + 1):
        inside = [
            item
            for one in inside
            if isinstance(one, (list, dict))
            for item in (one.values() if isinstance(one, dict) else one)
        ]
        if not inside:
            return False
    return True


class RowWriter:
    """Appends rows of one type to one file and closes it with a footer.

    Every row is flushed, so that what was recorded survives the end of the process. Use it as a
    context manager, or call ``close``.

    Raises:
        OSError: The folder cannot be written.
        RowsError: The file exists and is not a file of rows.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._count = _count_rows(path) if path.exists() else 0
        whole = not path.exists() or _ends_a_line(path)
        # A lone surrogate, from bytes that are no text, becomes the JSON escape for it.
        self._file: IO[str] = path.open("a", encoding="utf-8", errors="backslashreplace", newline="\n")
        if not whole:
            self._file.write("\n")

    def write(self, row: LineRow) -> None:
        """Appends one row."""
        self._file.write(to_json(row) + "\n")
        self._file.flush()
        self._count += 1

    def close(self) -> None:
        """Writes the footer; the file is complete from now on."""
        if not self._file.closed:
            footer = {"footer": True, "rows": self._count, "rows_version": ROWS_VERSION}
            self._file.write(json.dumps(footer, separators=(",", ":")) + "\n")
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error the footer is left out: a cut-off file must look cut off.
        if kind is None:
            self.close()
        else:
            self._file.close()


def check_appendable(path: Path) -> None:
    """Checks, before anything is changed, that a ``RowWriter`` would take a file.

    Raises:
        OSError: The file cannot be read.
        RowsError: It exists and is not a file of rows.
    """
    if path.exists():
        _count_rows(path)


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read(1) in {b"", b"\n"}


def _count_rows(path: Path) -> int:
    count = 0
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            value = from_json(line)
        except NotJson as error:
            raise RowsError(
                f"{path.name} line {number} is not JSON ({error}); use another --run-dir"
            ) from None
        count += not (isinstance(value, dict) and value.get("footer"))
    return count


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no row.

    Attributes:
        line: Its number, from 1.
        reason: Why it is none.
        text: The line itself, at most 200 characters.
    """

    line: int
    reason: str
    text: str


@dataclass(slots=True)
class RowFile:
    """What a file of rows holds.

    Attributes:
        rows: The good rows as dictionaries, in order.
        bad: Lines that are no rows, kept apart.
        complete: The last line is a footer whose count is right.
    """

    rows: list[dict[str, Any]]
    bad: list[BadLine]
    complete: bool


def read_rows(path: Path) -> RowFile:
    """Reads a ``.jsonl`` file of a run; never fails because of what a line holds.

    Raises:
        OSError: The file cannot be opened.
    """
    result = RowFile([], [], complete=False)
    kind = type_of_file[path.name]
    wanted = [field.name for field in dataclasses.fields(kind)]
    later = later_fields(kind)
    for number, value, problem in _json_lines(path):
        if problem:
            result.bad.append(BadLine(number, problem, value[:200]))
            result.complete = False
            continue
        if value.get("footer") is True:
            result.complete = value.get("rows") == len(result.rows) + len(result.bad)
            continue
        result.complete = False
        missing = [name for name in wanted if name not in value and name not in later]
        if missing:
            reason = f"no {', '.join(missing)}"
            result.bad.append(BadLine(number, reason, json.dumps(value)[:200]))
        elif not isinstance(value["rows_version"], int):
            result.bad.append(BadLine(number, "rows_version is no number", json.dumps(value)[:200]))
        elif value["rows_version"] > ROWS_VERSION:
            reason = f"rows_version {value['rows_version']} is newer than this reader ({ROWS_VERSION})"
            result.bad.append(BadLine(number, reason, json.dumps(value)[:200]))
        else:
            result.rows.append({name: value.get(name, later.get(name)) for name in wanted})
    return result


def _json_lines(path: Path) -> Iterator[tuple[int, Any, str]]:
    """Yields (line number, object, "") or (line number, text, reason) for each line that is not empty."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            text = line.rstrip("\n")
            if not text.strip():
                continue
            try:
                value = from_json(text)
            except NotJson:
                yield number, text, "not JSON" if line.endswith("\n") else "cut off in the middle of a line"
                continue
            if isinstance(value, dict):
                yield number, value, ""
            else:
                yield number, text, "not an object"


@contextmanager
def gone_on_failure(temporary: Path) -> Iterator[None]:
    """Removes a file that is written to be put in the place of another one when that fails, as on a full disk."""
    try:
        yield
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_run(folder: Path, row: RunRow) -> None:
    """Writes ``run.json``, whole or not at all."""
    temporary = folder / f".{RUN}.{os.getpid()}"
    text = json.dumps(dataclasses.asdict(row), indent=2, ensure_ascii=False) + "\n"
    with gone_on_failure(temporary):
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")
        temporary.replace(folder / RUN)


def read_run(folder: Path) -> RunRow:
    """Reads ``run.json``.

    Raises:
        RowsError: It is missing, cut off, or of a newer version.
    """
    return read_run_and_more(folder)[0]


def check_regular(path: Path) -> None:
    """Refuses what is neither file nor folder, before it is opened: a pipe would wait for a writer for ever.

    Raises:
        OSError: It is a pipe, a socket or a device, or it is not there.
    """
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))


def read_run_and_more(folder: Path) -> tuple[RunRow, dict[str, Any]]:
    """Reads ``run.json``; returns what else it holds besides the row as well.

    Raises:
        RowsError: It is missing, cut off, or of a newer version.
    """
    path = folder / RUN
    try:
        check_regular(path)
        if path.stat().st_size > LONGEST_LINE:
            raise RowsError(f"{folder.name}/{RUN} is no run row: it is larger than {LONGEST_LINE >> 20} MiB")
        value = from_json(path.read_bytes())
        if not isinstance(value, dict) or not isinstance(value.get("rows_version", 0), int):
            raise RowsError(f"{folder.name}/{RUN} is no run row")
        if value["rows_version"] > ROWS_VERSION:
            raise RowsError(
                f"{folder.name}/{RUN} is of rows_version {value['rows_version']}, newer than {ROWS_VERSION}"
            )
        for name in ("started_at", "ended_at"):
            if isinstance(time := value.get(name), str):
                value[name] = as_utc(time) or time
        later = later_fields(RunRow)
        known = {
            field.name: value.get(field.name, later[field.name]) if field.name in later else value[field.name]
            for field in dataclasses.fields(RunRow)
        }
        return RunRow(**known), {name: value[name] for name in value if name not in known}
    except FileNotFoundError:
        raise RowsError(f"{folder.name} is no run folder: it has no {RUN}") from None
    except NotJson as error:
        raise RowsError(f"{folder.name}/{RUN} is cut off or damaged ({error})") from None
    except KeyError as error:
        raise RowsError(f"{folder.name}/{RUN} is no run row: {error} is missing") from None
