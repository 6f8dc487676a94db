"""Runs the suite in a process of its own, and reads what it recorded: for commands that run it many times."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.config import PASSWORD_IN
from conformance.environment import PARENT
from conformance.errors import UsageError
from spark_reports.rows import OUTCOMES, RUN, VERDICTS, read_rows

SUITE = Path(__file__).parent
"""What pytest is pointed at."""

LOG = "pytest.log"
"""File in the run folder that holds what pytest printed."""

CORE = ("-m", "not slow")
"""The core run: what takes more than about a second is left out."""

USER = "--user"
"""Option that may hold a password. A command line can be read by everybody on the machine."""

JUDGED = frozenset({0, 1})
"""Exit codes of pytest after which all tests were judged."""

SETTLE_SECONDS = 20.0
"""How long pytest may take to end its nodes after it was told to stop."""


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """What became of one run.

    Attributes:
        folder: Its run folder.
        code: Exit code of pytest.
        seconds: How long it took.
        verdicts: Verdict rows, as dictionaries.
        why: Why it did not judge all tests, one sentence; empty when it did.
    """

    folder: Path
    code: int
    seconds: float
    verdicts: Sequence[dict[str, Any]] = field(repr=False)
    why: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """How many tests ended in each outcome, in the order of the outcomes."""
        return counts_of(self.verdicts)


def counts_of(verdicts: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Returns how many verdicts there are of each outcome that occurs."""
    found = Counter(row["outcome"] for row in verdicts)
    return {name: found[name] for name in OUTCOMES if found[name]}


def in_words(counts: dict[str, int]) -> str:
    """Returns ``401 pass, 22 fail``."""
    return ", ".join(f"{number} {name}" for name, number in counts.items()) or "nothing was judged"


class Runner:
    """Runs the suite, several runs at the same time when several threads ask for it.

    Args:
        limit: Seconds after which a run is stopped.
        parent: What the runs name as the one that started them.
    """

    def __init__(self, limit: float, parent: str = "") -> None:
        self._limit = limit
        self._parent = parent
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(self, node: str, folder: Path, *words: str) -> SuiteRun:
        """Runs the suite against a node.

        Args:
            node: The ``--node`` value.
            folder: Run folder, not there yet.
            words: More arguments for pytest.

        Raises:
            UsageError: The folder cannot be made.
        """
        command = [sys.executable, "-m", "pytest", str(SUITE), "--node", node, "--run-dir", str(folder)]
        shown, password = apart(words)
        command += ["-q", "-p", "no:cacheprovider", *shown]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        if self._parent:
            environment[PARENT] = self._parent
        if password:
            environment[PASSWORD_IN] = password
        started = time.monotonic()
        try:
            folder.mkdir(parents=True)
            with (folder / LOG).open("wb") as log:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment
                )
                self._running.add(process)
                ended = self._await(process)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be made ({error.strerror}); name another --out") from None
        seconds = time.monotonic() - started
        found = read_rows(folder / VERDICTS) if (folder / VERDICTS).exists() else None
        why = ""
        if not ended:
            why = "it was stopped" if self._stopped else f"it did not end within {self._limit:g} s"
        elif process.returncode not in JUDGED:
            why = _last_words(folder / LOG) or f"pytest ended with exit code {process.returncode}"
        elif found is None or not found.complete:
            why = _last_words(folder / LOG) or "its rows are not complete"
        return SuiteRun(folder, process.returncode, seconds, found.rows if found else [], why)

    def stop(self) -> None:
        """Ends the runs that go on; pytest ends the nodes it has started."""
        self._stopped = True
        for process in list(self._running):
            process.send_signal(_stop_signal())

    def _await(self, process: subprocess.Popen[bytes]) -> bool:
        """Waits for the end of pytest; tells whether it came by itself."""
        try:
            process.wait(self._limit)
        except subprocess.TimeoutExpired:
            _end(process)
            return False
        except BaseException:
            _end(process)
            raise
        finally:
            self._running.discard(process)
        return not self._stopped


def apart(words: Iterable[str]) -> tuple[list[str], str]:
    """Returns arguments for pytest without the password of ``--user``, and the password; empty when there is none."""
    shown, password, before = [], "", ""
    for word in words:
        if before == USER or word.startswith(f"{USER}="):
            name, _, password = word.partition(":")
            shown.append(name)
        else:
            shown.append(word)
        before = word
    return shown, password


def _stop_signal() -> signal.Signals:
    """Returns what stops pytest: on SIGINT it ends its nodes in order, but in a shell's background it hears none."""
    return signal.SIGTERM if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else signal.SIGINT


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(_stop_signal())
    try:
        process.wait(SETTLE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def say(text: str, *, error: bool = False) -> None:
    """Prints a line at once."""
    stream = sys.stderr if error else sys.stdout
    stream.write(text + "\n")
    stream.flush()


def _last_words(log: Path) -> str:
    """Returns the line in which pytest says why it ended."""
    lines = [line.strip("! =\n") for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    lines = [line for line in lines if line]
    said = [
        line for line in lines if re.match(r"(ERROR|Exit|_pytest\.outcomes\.Exit|INTERNALERROR>)\b", line)
    ]
    line = (said or lines or [""])[-1]
    return line.removeprefix("ERROR: ").removeprefix("_pytest.outcomes.Exit: ")[:300]


def is_run(folder: Path) -> bool:
    """Tells whether a folder holds the rows of a run."""
    return (folder / RUN).exists() and (folder / VERDICTS).exists()
