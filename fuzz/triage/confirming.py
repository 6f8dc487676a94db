"""Whether it comes again: on fresh nodes, n of m times, and without its message first."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from fuzz.findings import CONFIRMED, FLAKY, SEEN, STATE, TRAFFIC, Finding, Minimised
from fuzz.lab import LINGER, LONGEST_LINGER, Lab, NoFreshNode, Tried, linger_of
from fuzz.script import Do, Script
from fuzz.triage.signature import akin, bucket_without, comes_again, objection_of

WANTED, TRIES = 3, 5
"""A finding is confirmed when it comes again so often, of so many fresh nodes."""

CONFIRM_SECONDS = 8.0
"""So long that may take; then as often as there was time for."""

SLOW_SECONDS = 4.0
"""So long a script is played again and again to see whether the node grows by it."""

ORDINARY = frozenset({Do.REACH, Do.SETTLE, Do.CLOSE})
"""Steps that every node has to bear: they are what is left of a script without its messages."""


class Stopped(Exception):
    """There was no more time for it."""


class Confirming:
    """Plays again what was found.

    Args:
        lab: Where scripts are tried.
        over: Tells whether a time on ``time.monotonic`` has come, or all has to end.
        save: Writes a finding.
    """

    def __init__(self, lab: Lab, over: Callable[[float], bool], save: Callable[[Finding], None]) -> None:
        self._lab = lab
        self._over = over
        self._save = save

    def confirm(self, finding: Finding, tried: Tried, deadline: float) -> None:
        """Plays it on fresh nodes, n of m times; without its message first, which may be innocent."""
        try:
            if self._confirm_without(finding, tried, deadline):
                return
        except NoFreshNode as error:
            finding.notes.append(f"Could not be retried without its message: {error}")
        self.again(finding, tried, deadline)

    def again(self, finding: Finding, tried: Tried, deadline: float) -> None:
        """Plays what showed it on fresh nodes, n of m times."""
        until = min(deadline, time.monotonic() + CONFIRM_SECONDS)
        linger = linger_of(finding.waited)
        results, _ = self._times(finding, finding.script, [tried] if tried.fresh else [], until, linger)
        self.settle(finding, results)

    def _times(
        self, finding: Finding, script: Script, tries: list[Tried], until: float, linger: float
    ) -> tuple[list[bool], Tried | None]:
        """Plays a script on fresh nodes until it is clear whether it shows the fault.

        Args:
            finding: The fault.
            script: What is played.
            tries: Tries of it that showed the fault.
            until: On ``time.monotonic``; then as often as there was time for.
            linger: See ``Lab.play``.

        Returns:
            Whether it was seen, for each try; the last one in which it was.
        """
        results = [True] * len(tries)
        if self._lab.owed:
            return self._times_beside(finding, script, tries)
        last = self._try_again(
            finding,
            results,
            lambda: self._lab.play(script, rounds=finding.plays, seconds=finding.patience, linger=linger),
            lambda: bool(results) and self._over(until),
        )
        return results, last or (tries[-1] if tries else None)

    def _times_beside(
        self, finding: Finding, script: Script, tries: list[Tried]
    ) -> tuple[list[bool], Tried | None]:
        """The same, side by side, for what is mostly waited for."""
        results = [True] * len(tries)
        try:
            more = self._lab.play_beside(script, WANTED - len(tries))
        except NoFreshNode as error:
            finding.notes.append(f"Could not be retried any further: {error}")
            return results, tries[-1] if tries else None
        shows = [one for one in more if comes_again(finding, one)]
        return results + [one in shows for one in more], next(iter([*shows, *tries]), None)

    def _try_again(
        self, finding: Finding, results: list[bool], play: Callable[[], Tried], enough: Callable[[], bool]
    ) -> Tried | None:
        """Plays something on fresh nodes until it is clear whether it is true, or ``enough`` says so.

        Args:
            finding: What it is.
            results: Whether it was seen, for each try; what comes is added.
            play: Plays it once.
            enough: Is asked before each try.

        Returns:
            The last of these tries in which it was seen.
        """
        last = None
        while not is_clear(results) and not enough():
            try:
                tried = play()
            except NoFreshNode as error:
                finding.notes.append(f"Could not be retried any further: {error}")
                break
            shows = tried.objection is not None and akin(objection_of(finding), tried.objection)
            results.append(shows)
            last = tried if shows else last
        return last

    def _confirm_without(self, finding: Finding, tried: Tried, deadline: float) -> bool:
        """Sees whether the fault shows without the message: only coming into the state; with nothing at all.

        What showed that is confirmed as any finding is, and then it is what the finding is about.

        Returns:
            Whether it does; otherwise the finding is as it was.
        """
        controls = [(STATE, bare(finding.script))] if bare(finding.script) != finding.script else []
        controls += [(TRAFFIC, finding.script.with_steps(()))]
        linger = min(LONGEST_LINGER, max(LINGER, tried.seconds))
        kept = finding.plays
        found = False
        for kind, script in controls:
            if script == finding.script:
                continue
            if self._over(deadline):
                if not found:
                    finding.notes.append(
                        "There was no time to check whether it also occurs without its message."
                    )
                break
            seen = self._lab.play(script, rounds=kept, seconds=SLOW_SECONDS, linger=linger)
            if not comes_again(finding, seen):
                break
            until = min(deadline, time.monotonic() + CONFIRM_SECONDS)
            results, last = self._times(finding, script, [seen], until, linger)
            assert last is not None
            if not is_true(results):
                how = f"{results.count(True)} of {len(results)} times"
                finding.notes.append(f"Without its message it was seen {how}, which is too few to count.")
                break
            self._lay_on_none(finding, kind, last)
            self.settle(finding, results)
            found = True
        return found

    def _lay_on_none(self, finding: Finding, kind: str, tried: Tried) -> None:
        """Takes back what a finding says of a case and its message."""
        assert tried.objection is not None
        finding.without = kind
        finding.shown_by(tried)
        finding.message = finding.field = ""
        finding.mutation = "nothing" if kind == TRAFFIC else "nothing but to come into its state"
        finding.messages.clear()
        finding.causes.clear()
        if kind == TRAFFIC:
            finding.state = ""
            finding.minimised = Minimised(0, 0, 0.0, 0, done=True)
        seen = tried.objection
        finding.harm, finding.oracle, finding.place, finding.detail = (
            seen.harm,
            seen.oracle,
            seen.place,
            seen.detail,
        )
        finding.bucket = bucket_without(seen, kind)

    def compare(self, finding: Finding, stop: Callable[[], bool]) -> None:
        """Plays what two nodes answer differently on fresh nodes of both kinds, n of m times.

        Raises:
            Stopped: ``stop`` has said so; the finding is as it was.
        """

        def enough() -> bool:
            if stop():
                raise Stopped
            return False

        results: list[bool] = []
        shown = self._try_again(finding, results, lambda: self._lab.compare(finding.script), enough)
        if shown is not None:
            finding.shown_by(shown)
        self.settle(finding, results)

    def settle(self, finding: Finding, results: Sequence[bool]) -> None:
        """Says what a finding is that was or was not seen in each try on a fresh node, and saves it."""
        hits = results.count(True)
        finding.confirmed = hits, len(results)
        if is_true(results):
            finding.status = CONFIRMED
        elif finding.beyond_doubt:
            finding.status = SEEN
        else:
            finding.status = FLAKY
        self._save(finding)


def bare(script: Script) -> Script:
    """Returns what brings links into their states, without anything that is sent on them then."""
    return script.with_steps(step for step in script.steps if step.do in ORDINARY)


def is_true(results: Sequence[bool]) -> bool:
    """Tells whether something came again on fresh nodes as often as was asked for."""
    return results.count(True) >= WANTED or (bool(results) and all(results))


def is_clear(results: Sequence[bool]) -> bool:
    """Tells whether something was tried so often on fresh nodes that it is clear whether it is true."""
    hits = results.count(True)
    return len(results) >= TRIES or hits >= WANTED or len(results) - hits > TRIES - WANTED
