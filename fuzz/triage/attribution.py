"""Which case did it: suspects are tried on fresh nodes, the likeliest first."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from fuzz.audience import attended
from fuzz.findings import CERTAIN, PROVEN, Finding, without_line
from fuzz.lab import LINGER, LONGEST_LINGER, ROUNDS, SLOW, TWICE, Lab, Tried, linger_of
from fuzz.oracles import AWAITED, DEADLY, Harm, Objection, When
from fuzz.script import Script
from fuzz.triage.confirming import SLOW_SECONDS
from fuzz.triage.signature import akin, is_placed
from fuzz.triage.suspects import Group, Suspect, doubling, each_message_often, joined, odd, one_of_each

ATTRIBUTE_SECONDS = 20.0
"""So long it may take to find out which case did it."""

DELAYED_SECONDS = 40.0
"""So much longer for what was seen again, and for a process that takes its time to die."""

LATE = 8
"""So many cases in front of the one behind which a node was seen to be dead may have killed it."""

RECENT = 8
"""So many of the last cases are tried alone first."""

APART = 16
"""Of many cases that are played one after the other to see harm that stays, a look is taken behind every so many."""

NEAR = 64
"""So many of the last cases are played one after the other before all are: there may not be the time for all."""

KINDS_SECONDS, KIND_SECONDS, LIKELY = 30.0, 0.5, 3
"""So long it may take to try kinds of messages, so long each of them, and so many are looked at closely then."""

GROUPS, GROUP_SECONDS = 6, 1.2
"""So many groups of cases are tried for so long each, to see by which of them the node grows."""


class Attribution:
    """Finds the case that did it.

    Args:
        lab: Where scripts are tried.
        findings: Those that there are; read only.
        over: Tells whether a time on ``time.monotonic`` has come, or all has to end.
    """

    def __init__(self, lab: Lab, findings: Mapping[str, Finding], over: Callable[[float], bool]) -> None:
        self._lab = lab
        self._findings = findings
        self._over = over

    def culprit(
        self,
        objection: Objection,
        suspects: Sequence[Suspect],
        deadline: float,
        before: Sequence[Suspect] = (),
    ) -> tuple[Suspect, Tried] | None:
        """Returns the suspect that did it, with a try on a fresh node that shows it; None when nothing does.

        Of what was played before them only that is tried which is known to do so.
        """
        until = min(deadline, time.monotonic() + ATTRIBUTE_SECONDS)
        if objection.harm in SLOW:
            return self._slow(objection, suspects, deadline)
        if objection.harm in AWAITED:
            return self._waited(objection, suspects, deadline)
        found = (
            self._first(objection, self._likeliest(suspects), until)
            or self._handed_on(objection, suspects[-RECENT:], until)
            or self._familiar(objection, [*before, *suspects], until)
            or self._first(objection, self._less_likely(suspects), until)
        )
        if found is not None:
            return found[0][-1], found[1]
        # Neither the last nor its session: one that is further back, or many of them together.
        found = self._of_many(objection, suspects, until, deadline)
        if objection.harm in CERTAIN and (found is None or len(found[0]) > 1):
            until = max(deadline, time.monotonic() + DELAYED_SECONDS)
            found = self._delayed(objection, suspects if found is None else found[0], until) or found
        return found and (found[0][-1], found[1])

    def _of_many(
        self, objection: Objection, suspects: Group, until: float, deadline: float
    ) -> tuple[Group, Tried] | None:
        """Plays all of them one after the other, then together, as they overlapped."""
        scripts = [suspect.as_sent for suspect in suspects]
        found = None
        for count in dict.fromkeys((min(NEAR, len(suspects)), len(suspects))):
            found = found or self._walked(objection, suspects[-count:], scripts[-count:], until, deadline)
        if found is None:
            groups = (suspects[-count:] for count in doubling(len(suspects)))
            found = self._first(objection, ((group, joined(group)) for group in groups), until, LINGER)
        if found is None and objection.harm in DEADLY:
            scripts = [attended(script) for script in scripts]
            found = self._walked(objection, suspects, scripts, until, deadline)
        return found

    def _walked(
        self, objection: Objection, suspects: Group, scripts: Sequence[Script], until: float, deadline: float
    ) -> tuple[Group, Tried] | None:
        """Plays scripts of suspects one after the other, and what they come to see by fresh nodes."""
        began = time.monotonic()
        alike = partial(akin, objection)
        stays = objection.lasting or objection.harm in DEADLY
        seen = self._lab.walk(scripts, alike, until, apart=APART if stays else 1)
        if seen is None:
            return None
        now = time.monotonic()
        suspect, before = suspects[seen[0]], suspects[: seen[0] + 1]
        # What came again, and takes long to be seen, shall not be given up so near to the end.
        longer = now + 2 * (now - began) + 4 * seen[1].seconds + 2
        until = max(until, min(longer, deadline + DELAYED_SECONDS))
        ways = dict.fromkeys((suspect.alone, suspect.as_sent, seen[1].script, suspect.script))
        tries: list[tuple[Group, Script]] = [((suspect,), script) for script in ways]
        # It may have taken its time to die.
        tries += [((one,), one.as_sent) for one in reversed(before[-LATE:-1])]
        found = self._first(objection, iter(tries), until, LINGER)
        if found is None and stays:
            # Something that another one left behind, and that the first look at it may not have shown.
            pairs = [(one, suspect) for one in reversed(before[:-1])]
            met = self._lab.walk([joined(pair) for pair in pairs], alike, until, apart=APART)
            shown = pairs[: met[0] + 1][-LATE:] if met is not None else []
            found = self._first(objection, ((pair, joined(pair)) for pair in reversed(shown)), until, LINGER)
        return found or self._first(objection, iter([(before, joined(before))]), until, LINGER)

    def _handed_on(self, objection: Objection, suspects: Group, until: float) -> tuple[Group, Tried] | None:
        """Tries cases with somebody who listens, all at once, and if that shows it one by one, the last one first.

        Who wanted what ended the process may have been a session that was begun long before.
        """
        together = joined(suspects)
        if objection.harm not in DEADLY or attended(together) == together:
            return None
        shown = self._first(objection, iter([(suspects, attended(together))]), until)
        if shown is None:
            return None
        each = (((one,), attended(one.as_sent)) for one in reversed(suspects))
        # What is called by its place needs no case.
        return self._first(objection, each, until) or (shown if is_placed(objection) else None)

    def _familiar(self, objection: Objection, suspects: Group, until: float) -> tuple[Group, Tried] | None:
        """Tries those of many suspects that are about a message of which a process is known to die as this one did.

        It may take its time to die, and then others seem to have done it, or many together.
        """
        if objection.harm not in CERTAIN or is_placed(objection) or len(suspects) == 1:
            return None
        place = without_line(objection.place)
        for finding in list(self._findings.values()):
            same = finding.harm is objection.harm and without_line(finding.place) == place
            if same and finding.status in PROVEN and finding.tried is not None and not finding.without:
                like = [one for one in reversed(suspects) if one.case.message in finding.messages][:RECENT]
                tries: Iterator[tuple[Group, Script]] = (((one,), one.as_sent) for one in like)
                found = self._first(objection, tries, until, linger_of(finding.waited))
                if found is not None:
                    return found
        return None

    def _delayed(self, objection: Objection, suspects: Group, until: float) -> tuple[Group, Tried] | None:
        """Returns who made a process die that takes its time to die, with a try that shows it.

        Cases are played from the first one on, and then the process is waited for: the last one of the fewest of which
        it dies is the one that did it.
        """
        shown = self._first(objection, iter([(suspects, joined(suspects))]), until, LONGEST_LINGER)
        if shown is not None and not shown[1].waited:
            # It died while they were played: of the last one then, most likely.
            shown = self._fewest(objection, shown, until, at_once=True)
            if shown is not None and len(fewer := shown[0][:-1]):
                tries = iter([(fewer, joined(fewer))])
                before = self._first(objection, tries, until, linger_of(shown[1].seconds))
                shown = (before and self._fewest(objection, before, until)) or shown
        elif shown is not None:
            shown = self._fewest(objection, shown, until)
        if shown is None:
            return None
        last = shown[0][-1]
        alone = (((last,), script) for script in (last.alone, last.script))
        return self._first(objection, alone, until, linger_of(shown[1].seconds)) or shown

    def _fewest(
        self, objection: Objection, shown: tuple[Group, Tried], until: float, *, at_once: bool = False
    ) -> tuple[Group, Tried] | None:
        """Returns the fewest of some cases, from the first one on, that show the harm.

        When time is up these are those found by then, where the process has said where it failed; None where it has not.

        Args:
            objection: What was seen.
            shown: All of them, with a try that shows it.
            until: On ``time.monotonic``.
            at_once: A process that dies of them is taken to do so at once.
        """
        suspects, too_few = shown[0], 0
        while (count := len(shown[0])) - too_few > 1:
            if self._over(until):
                # What is called by its place needs no case, and can be made smaller from here.
                return shown if is_placed(objection) else None
            group = suspects[: (count + too_few) // 2]
            # It is not known how long after the first case it died, only that it was not longer.
            linger = LINGER if at_once else linger_of(shown[1].seconds)
            fewer = self._first(objection, iter([(group, joined(group))]), until, linger)
            if fewer is None:
                too_few = len(group)
            else:
                shown = fewer
        return shown

    def _first(
        self, objection: Objection, tries: Iterator[tuple[Group, Script]], until: float, linger: float = 0.0
    ) -> tuple[Group, Tried] | None:
        """Returns the first try that shows the harm, and what was played in it."""
        for group, script in tries:
            if self._over(until):
                return None
            tried = self._lab.play(script, case=group[-1].case, linger=linger)
            if tried.objection is not None and akin(objection, tried.objection):
                return group, tried
        return None

    @staticmethod
    def _likeliest(suspects: Group) -> Iterator[tuple[Group, Script]]:
        """Yields what is most likely: the last case alone, then what was played on its link."""
        last = suspects[-1]
        yield (last,), last.alone
        if last.as_sent != last.alone:
            yield (last,), last.as_sent
        if len(last.script.steps) > len(last.alone.steps):
            yield (last,), last.script

    @staticmethod
    def _less_likely(suspects: Group) -> Iterator[tuple[Group, Script]]:
        """Yields others of the last cases, that got no answer; then the last one once more."""
        last = suspects[-1]
        for suspect in odd(suspects[:-1])[: RECENT // 2]:
            yield (suspect,), suspect.as_sent
        # Some harm is a matter of luck.
        yield (last,), last.alone
        yield (last,), last.alone

    def _waited(self, objection: Objection, suspects: Group, until: float) -> tuple[Suspect, Tried] | None:
        """The same for what is waited for on a node that is well otherwise.

        Most likely it needs no case at all; else it goes on behind the one that did it.
        """
        last = suspects[-1:]
        shown = self._first(objection, iter([(last, last[0].alone)]), until)
        if shown is None and len(suspects) > 1:
            shown = self._first(objection, iter([(suspects, joined(suspects))]), until)
            shown = shown and self._fewest(objection, shown, until, at_once=True)
        if shown is None:
            return None
        one = shown[0][-1]
        alone = self._first(objection, iter([((one,), one.alone)]), until) if len(shown[0]) > 1 else None
        return one, (alone or shown)[1]

    def _slow(
        self, objection: Objection, suspects: Sequence[Suspect], deadline: float
    ) -> tuple[Suspect, Tried] | None:
        """The same for what shows only when it is done again and again.

        One of the last is tried first: where every session does it, or none is needed, all of them look alike, and
        whether a case is needed at all is seen when it is confirmed. Then all that was played is tried in groups; the group
        by which the node grows, or becomes slow, most is split again. What a case leaves behind may be too little for that;
        then so are single messages, each sent often.
        """
        left = one_of_each(suspects)
        if objection.harm is Harm.BUSY and (found := self._busied(objection, left[::-1], deadline)):
            return found
        if found := self._shown_by(_quickest(left[-RECENT:]), objection, ROUNDS):
            return found
        return self._by_group(objection, left, deadline) or self._by_message(objection, suspects)

    def _by_group(
        self, objection: Objection, left: Sequence[Suspect], deadline: float
    ) -> tuple[Suspect, Tried] | None:
        """Tries cases in groups, and those of the group by which the node grows most in groups again."""
        while len(left) > 1:
            groups = [left[at::GROUPS] for at in range(min(GROUPS, len(left)))]
            grown = []
            for group in groups:
                if self._over(deadline):
                    return None
                tried = self._again_and_again(group, GROUP_SECONDS)
                if tried.objection is not None and akin(objection, tried.objection):
                    grown.append(float("inf"))
                    break
                grown.append(_growth(objection, tried))
            if max(grown) <= 0:
                return None
            left = groups[grown.index(max(grown))]
        return self._shown_by(left[0], objection, ROUNDS)

    def _by_message(self, objection: Objection, suspects: Sequence[Suspect]) -> tuple[Suspect, Tried] | None:
        """The same for single messages, each of them sent often in one session: first those by which a node grows most."""
        if objection.harm is Harm.BUSY:
            return None
        until = time.monotonic() + KINDS_SECONDS
        grown: list[tuple[float, Suspect]] = []
        for suspect in each_message_often(one_of_each(suspects)):
            if self._over(until):
                break
            tried = self._again_and_again([suspect], KIND_SECONDS)
            grown.append((_growth(objection, tried), suspect))
        most = sorted(grown, key=lambda pair: pair[0], reverse=True)[:LIKELY]
        for _, suspect in most:
            found = self._shown_by(suspect, objection, ROUNDS, 2 * SLOW_SECONDS)
            if found is not None:
                return found
        return None

    def _busied(
        self, objection: Objection, newest: Sequence[Suspect], deadline: float
    ) -> tuple[Suspect, Tried] | None:
        """The same for a processor that does not come to rest: mostly one case is enough, and groups take long."""
        scripts = [suspect.as_sent for suspect in newest]
        seen = self._lab.walk(scripts, partial(akin, objection), deadline, When.TREND)
        if seen is None:
            return None
        suspect = newest[seen[0]]
        return self._shown_by(suspect, objection, TWICE) or self._shown_by(suspect, objection, ROUNDS)

    def _shown_by(
        self, suspect: Suspect, objection: Objection, rounds: int, seconds: float = SLOW_SECONDS
    ) -> tuple[Suspect, Tried] | None:
        """Returns a suspect with a try that shows the harm when it is played so often; None when it does not."""
        tried = self._again_and_again([suspect], seconds, rounds)
        shows = tried.objection is not None and akin(objection, tried.objection)
        return (suspect, tried) if shows else None

    def _again_and_again(self, group: Sequence[Suspect], seconds: float, rounds: int = ROUNDS) -> Tried:
        script = joined(group) if len(group) > 1 else group[0].alone
        return self._lab.play(script, rounds=rounds, seconds=seconds, case=group[-1].case)


def _growth(objection: Objection, tried: Tried) -> float:
    """Returns by how much a second a try made that grow which was objected to."""
    return tried.grown[{Harm.LEAK: 1, Harm.SLOW: 2}.get(objection.harm, 0)]


def _quickest(suspects: Sequence[Suspect]) -> Suspect:
    """Returns the one that can be played most often."""
    return min(suspects, key=lambda one: one.played.rtt if one.played is not None else math.inf)
