"""What a watch says: a line for what each run added, new buckets and failed tests as they come, a summary at the end."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spark_reports import rows
from spark_reports.following.tally import WORDS, Group, News, RunTally, Tally
from spark_reports.pages.text import one_line, short, visible

SHOWN = 10
"""At most so many buckets, failed tests or bad lines of one batch are told one by one."""

LONGEST = 240
"""Characters of a line."""

_KIND_NAMES = {"good": "rows", "apart": "set aside", "blank": "blank", "footers": "footers"}
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
        return About("node not known yet", _UNKNOWN, "")
    title = " ".join(filter(None, (run.node_impl, run.node_version, run.node_whatami)))
    return About(title, run.status, run.ended_at or "")


class Teller:
    """Says what is new; remembers which runs it has spoken of.

    Args:
        started_at: When the watch began, as rows spell it; the first one of those that go on with each other. Runs that
            ended before are only counted.
        look: Reads what a run says of itself.
    """

    def __init__(self, started_at: str, look: Callable[[Path], About] = about) -> None:
        self._started_at = started_at
        self._look = look
        self._names: dict[str, str] = {}
        self._going: set[str] = set()
        self._ended: set[str] = set()

    def news(self, tally: Tally, news: News) -> Iterator[str]:
        """Yields what a batch has brought."""
        before: list[str] = []
        for folder in sorted(news.added):
            if self._is_over(folder):
                before.append(folder)
                continue
            self._ended.discard(folder)
            yield from self._greet(folder)
            yield from self._added(folder, tally.runs[folder], news.added[folder])
        if before:
            buckets = sum(group.folder in before for group in news.buckets)
            good = sum(sum(news.added[folder].values()) for folder in before)
            yield (
                f"{_count(len(before), 'run')} ended before: {_count(good, 'row')}, "
                f"{_count(buckets, 'bucket')} not seen in older runs"
            )
        live = {folder for folder in news.added if folder not in before}
        for title, found, say in (
            ("new bucket", news.buckets, _bucket),
            ("failed", news.fails, _fail),
            ("invalid", news.apart, _apart),
        ):
            yield from self._first_few(title, [group for group in found if group.folder in live], say)

    def look(self, tally: Tally) -> Iterator[str]:
        """Yields which runs have ended since, as soon as Spark found no line of theirs between two looks."""
        for folder in sorted(self._going):
            now = self._look(Path(folder))
            if not now.ended_at:
                continue
            if folder not in self._ended:
                # Its last lines may still be on their way.
                self._ended.add(folder)
            else:
                self._going.discard(folder)
                run = tally.runs.get(folder, RunTally())
                yield _line(f"{self._name(folder)}  ended, {now.status}: {_accounts(run)}")

    def end(self, tally: Tally) -> Iterator[str]:
        """Yields the summary."""
        every = [run.files.items() for run in tally.runs.values()]
        total = RunTally({f"{at}/{name}": kinds for at, files in enumerate(every) for name, kinds in files})
        yield f"{_count(len(tally.runs), 'run')}: {_accounts(total)}; {_count(len(tally.buckets), 'bucket')}"

    def _is_over(self, folder: str) -> bool:
        """Whether a run ended before the watch began."""
        if folder in self._names:
            return False
        ended_at = self._look(Path(folder)).ended_at
        return bool(ended_at) and ended_at < self._started_at

    def _greet(self, folder: str) -> Iterator[str]:
        if folder not in self._names:
            name = self._name(folder)
            self._going.add(folder)
            yield _line(f"{name}  {self._look(Path(folder)).title}")

    def _name(self, folder: str) -> str:
        """Returns what a run is called: the end of its path that is not that of another one."""
        if folder not in self._names:
            parts = Path(folder).parts
            taken = set(self._names.values())
            ends = ("/".join(parts[-length:]) for length in range(1, len(parts)))
            self._names[folder] = next((end for end in ends if end not in taken), folder)
        return self._names[folder]

    def _first_few(
        self, title: str, found: Sequence[Group], say: Callable[[Group, str], str]
    ) -> Iterator[str]:
        for group in found[:SHOWN]:
            yield _line(f"{title}: {say(group, self._name(group.folder))}")
        if len(found) > SHOWN:
            yield f"{title}: {len(found) - SHOWN} more"

    def _added(self, folder: str, run: RunTally, added: Mapping[str, int]) -> Iterator[str]:
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
        yield _line(f"{self._name(folder)}  {'; '.join(parts)}")


def _bucket(group: Group, run: str) -> str:
    where = f"{group.campaign}, case {group.case} of {run}"
    return f"{group.bucket} ({where})" + (f": {group.text}" if group.text else "")


def _fail(group: Group, run: str) -> str:
    return f"{group.test} ({run})" + (f": saw {group.text}" if group.text else "")


def _apart(group: Group, run: str) -> str:
    return f"{_count(group.lines, 'line')} of {run}/{group.file}: {group.text}"


def _accounts(run: RunTally) -> str:
    counts = [f"{run.lines(kind)} {name}" for kind, name in _KIND_NAMES.items() if run.lines(kind)]
    return f"{_count(run.lines(), 'line')}" + (f" = {' + '.join(counts)}" if counts else "")


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _line(text: str) -> str:
    return short(visible(one_line(text)), LONGEST)
