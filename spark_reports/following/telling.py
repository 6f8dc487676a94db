"""What a watch says: a line for what each run added, new buckets and failed tests as they come, a summary at the end."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spark_reports import rows
from spark_reports.following.stream import scan
from spark_reports.following.tally import WORDS, Group, News, RunTally, Tally
from spark_reports.pages.text import one_line, short, visible

SHOWN = 10
"""At most so many buckets, failed tests or bad lines of one batch are told one by one."""

LONGEST = 240
"""Characters of a line."""

_KIND_NAMES = {"good": "rows", "apart": "kept apart", "blank": "blank", "footers": "footers"}
_UNKNOWN = "unknown"

_TOLD = (rows.FUZZ_CASES, rows.VERDICTS)
"""Files whose outcomes are told; of the others it is enough how many lines they have."""


@dataclass(frozen=True, slots=True)
class About:
    """What the run.json of a run says at the moment.

    Attributes:
        title: The node and its version.
        status: As in RunRow; ``unknown`` if it cannot be read.
        ended_at: As in RunRow; empty while it goes on.
    """

    title: str
    status: str
    ended_at: str


def about(folder: Path) -> About:
    """Reads the run.json of a run; one that is missing or damaged is unknown, for it may be written any moment."""
    try:
        run = rows.read_run(folder)
    except (rows.RowsError, OSError):
        return About("a node that is not known yet", _UNKNOWN, "")
    title = " ".join(filter(None, (run.node_impl, run.node_version, run.node_whatami)))
    return About(title, run.status, run.ended_at or "")


class Teller:
    """Says what is new; remembers which runs it has spoken of.

    Args:
        roots: The folders that are watched.
        started_at: When the watch began, as rows spell it. Runs that ended before are only counted.
        look: Reads what a run says of itself.
    """

    def __init__(self, roots: Sequence[Path], started_at: str, look: Callable[[Path], About] = about) -> None:
        self._roots = [str(root.resolve()) for root in roots]
        self._started_at = started_at
        self._look = look
        self._folders: dict[str, Path] = {}
        self._going: dict[str, Path] = {}
        self._told: set[str] = set()
        self._ended: set[str] = set()

    def news(self, tally: Tally, news: News) -> Iterator[str]:
        """Yields what a batch has brought."""
        before: list[str] = []
        for run_id in sorted(news.added):
            if self._is_over(run_id):
                before.append(run_id)
                continue
            self._ended.discard(run_id)
            yield from self._greet(run_id)
            yield from self._added(run_id, tally.runs[run_id], news.added[run_id])
        if before:
            buckets = sum(group.run_id in before for group in news.buckets)
            good = sum(sum(news.added[run_id].values()) for run_id in before)
            yield (
                f"{_count(len(before), 'run')} ended before: {_count(good, 'row')}, "
                f"{_count(buckets, 'bucket')} not seen in older ones"
            )
        live = {run_id for run_id in news.added if run_id not in before}
        yield from _first_few("new bucket", news.buckets, live, _bucket)
        yield from _first_few("failed", news.fails, live, _fail)
        yield from _first_few("no row", news.apart, live, _apart)

    def look(self, tally: Tally) -> Iterator[str]:
        """Yields which runs have ended since, as soon as no line of theirs came between two looks."""
        for run_id, folder in list(self._going.items()):
            now = self._look(folder)
            if not now.ended_at:
                continue
            if run_id not in self._ended:
                # Its last lines may still be on their way.
                self._ended.add(run_id)
            else:
                del self._going[run_id]
                run = tally.runs.get(run_id, RunTally())
                yield _line(f"{run_id}  ended, {now.status}: {_accounts(run)}")

    def end(self, tally: Tally) -> Iterator[str]:
        """Yields the summary."""
        every = [run.files.items() for run in tally.runs.values()]
        total = RunTally({f"{at}/{name}": kinds for at, files in enumerate(every) for name, kinds in files})
        yield f"{_count(len(tally.runs), 'run')}: {_accounts(total)}; {_count(len(tally.buckets), 'bucket')}"

    def _is_over(self, run_id: str) -> bool:
        """Whether a run ended before the watch began."""
        if run_id in self._told:
            return False
        if run_id not in self._folders:
            self._folders = {Path(path).parent.name: Path(path).parent for path in scan(self._roots)}
        folder = self._folders.get(run_id)
        ended_at = self._look(folder).ended_at if folder is not None else ""
        return bool(ended_at) and ended_at < self._started_at

    def _greet(self, run_id: str) -> Iterator[str]:
        if run_id not in self._told:
            self._told.add(run_id)
            folder = self._folders.get(run_id)
            if folder is not None:
                self._going[run_id] = folder
                yield _line(f"{run_id}  {self._look(folder).title}")

    def _added(self, run_id: str, run: RunTally, added: Mapping[str, int]) -> Iterator[str]:
        parts = []
        for name in sorted(added, key=lambda name: (name not in _TOLD, name)):
            more = added[name]
            total = run.files[name]["good"]
            said = run.outcomes.get(name, {}) if name in _TOLD else {}
            outcomes = ", ".join(f"{number} {word}" for word, number in sorted(said.items()))
            rate = f", {run.rate:.0f}/s" if name == rows.FUZZ_CASES and run.rate is not None else ""
            parts.append(
                f"{_count(total, WORDS[name])} (+{more}{rate})" + (f": {outcomes}" if outcomes else "")
            )
        yield _line(f"{run_id}  {'; '.join(parts)}")


def _first_few(
    title: str, found: Sequence[Group], live: set[str], say: Callable[[Group], str]
) -> Iterator[str]:
    wanted = [group for group in found if group.run_id in live]
    for group in wanted[:SHOWN]:
        yield _line(f"{title}: {say(group)}")
    if len(wanted) > SHOWN:
        yield f"{title}: {len(wanted) - SHOWN} more"


def _bucket(group: Group) -> str:
    where = f"{group.campaign}, case {group.case} of {group.run_id}"
    return f"{group.bucket} ({where})" + (f": {group.text}" if group.text else "")


def _fail(group: Group) -> str:
    return f"{group.test} ({group.run_id})" + (f": saw {group.text}" if group.text else "")


def _apart(group: Group) -> str:
    return f"{_count(group.lines, 'line')} of {group.run_id}/{group.file}: {group.text}"


def _accounts(run: RunTally) -> str:
    counts = [f"{run.lines(kind)} {name}" for kind, name in _KIND_NAMES.items() if run.lines(kind)]
    return f"{_count(run.lines(), 'line')}" + (f" = {' + '.join(counts)}" if counts else "")


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _line(text: str) -> str:
    return short(visible(one_line(text)), LONGEST)
