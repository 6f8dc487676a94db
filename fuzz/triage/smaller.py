"""The script of a finding, made smaller."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from fuzz.findings import Finding, Minimised
from fuzz.kinship import phase_of
from fuzz.lab import SLOW, Lab, Tried, linger_of
from fuzz.oracles import Harm, Objection
from fuzz.script import Do, Script
from fuzz.shrink import shrink
from fuzz.states import State
from fuzz.triage.confirming import SLOW_SECONDS, WANTED, Stopped
from fuzz.triage.signature import comes_again, is_placed, objection_of, same
from fuzz.triage.validity import still_valid
from scapy_layers.batch import contents
from scapy_layers.codes import Kind
from scapy_layers.transport import Fragment

CONFIRM_SHARE, WAITED_SHARE = 0.15, 0.6
"""Of the time in which something is made smaller, for seeing that the smallest comes again; where that takes long."""

LEAST_SHARE, WAITED_LEAST = 0.2, 0.5
"""Of that time, what has to be left to begin once more with the smallest that came again; where that takes long."""

WAITED = frozenset({Harm.STALL, Harm.REFUSING, Harm.GONE, Harm.DEAF})
"""What takes seconds to be seen, in which hardly anything is done: several tries of it go side by side."""


def minimise(lab: Lab, finding: Finding, seconds: float, stop: Callable[[], bool] = lambda: False) -> None:
    """Makes the script of a finding smaller and confirms the smallest on fresh nodes.

    Raises:
        NoFreshNode: There is none.
        Stopped: ``stop`` has said so.
    """
    began = time.monotonic()
    deadline = began + seconds
    wanted = objection_of(finding)
    slow = finding.harm in SLOW
    origin = finding.script
    linger = linger_of(finding.waited) if finding.waited else 0.0
    seconds_each = SLOW_SECONDS if finding.tried is None else max(SLOW_SECONDS, 1.25 * finding.tried.seconds)

    def harms(script: Script, *, fresh: bool = False) -> bool:
        if stop():
            raise Stopped
        if not _same_kind(script, origin, wanted) or (origin.valid and not still_valid(script, origin)):
            return False
        tried = lab.play(
            script,
            fresh=fresh or slow or linger > 0,
            rounds=finding.plays,
            seconds=seconds_each,
            linger=linger,
        )
        if not comes_again(finding, tried):
            return False
        if not tried.fresh:
            # What came before may have helped.
            return harms(script, fresh=True)
        finding.smaller.append(script)
        return True

    share, least = (WAITED_SHARE, WAITED_LEAST) if finding.harm in WAITED else (CONFIRM_SHARE, LEAST_SHARE)
    smallest, tries, done, hurry = origin, 0, False, True
    tried: set[bytes] = set()
    while not done and (left := deadline - time.monotonic()) >= least * seconds:
        # Some of the time is for seeing that the smallest does it again and again.
        with lab.hurried() if hurry else nullcontext():
            hints = finding.smaller[::-1]
            result = shrink(smallest, harms, deadline - share * left, hints, tried, whole=origin.valid)
        smaller = result.kept[1:]
        true = _smallest(
            smaller, lambda script: _confirmed(lab, finding, script, wanted), deadline + seconds / 4
        )
        smallest, tries = result.kept[true], tries + result.tries
        # What showed only in a hurry is not it.
        if true < len(smaller):
            hurry, tried = False, set()
            finding.smaller.clear()
        done = result.done and true == len(smaller)
    # They are of use only where it is begun anew.
    finding.smaller.clear()
    finding.minimised = Minimised(
        finding.script.sends, finding.script.size, time.monotonic() - began, tries, done
    )


def _smallest(kept: Sequence[Script], is_true: Callable[[Script], bool], late: float) -> int:
    """Looks for the smallest of some scripts that is true; the smallest of all mostly is, those before it likelier.

    Args:
        kept: Each smaller than the one before.
        is_true: Tells whether it is, and takes it then.
        late: On ``time.monotonic``; nothing is tried behind it.

    Returns:
        How many of them there are up to the one that was taken; 0 when none was.
    """
    true, false = 0, len(kept) + 1
    at = len(kept)
    while false - true > 1 and time.monotonic() < late:
        if is_true(kept[at - 1]):
            true = at
        else:
            false = at
        at = (true + false) // 2
    return true


def _confirmed(lab: Lab, finding: Finding, script: Script, wanted: Objection) -> bool:
    """Plays a smaller script with all the patience there is; it is the finding's when it does it every time."""
    rounds, linger = finding.plays, linger_of(finding.waited)
    tries: list[Tried] = []
    while len(tries) < WANTED:
        beside = WANTED if finding.harm in WAITED else 1
        more = lab.play_beside(script, beside, rounds=rounds, seconds=finding.patience, linger=linger)
        if not all(tried.objection is not None and same(wanted, tried.objection) for tried in more):
            return False
        tries += more
    finding.shown_by(tries[-1])
    finding.confirmed = len(tries), len(tries)
    return True


def _same_kind(script: Script, origin: Script, wanted: Objection) -> bool:
    """Tells whether a smaller script is still about the same thing, where nothing but that tells faults apart."""
    if is_placed(wanted):
        return True
    phases = {phase_of(step.state) for step in script.steps if step.state is not None}
    before = {phase_of(step.state) for step in origin.steps if step.state is not None}
    sent, needed = _all_names_in(script), names_in(origin)
    # What comes of a FRAME alone is not about what was in it.
    alone = sent == {"FRAME"} <= _all_names_in(origin)
    return phases <= before and (alone or not needed or bool(names_in(script) & needed))


def names_in(script: Script) -> set[str]:
    """Returns the names of the messages that a script sends, as far as its bytes can be read, without the FRAMEs around them."""
    names = _all_names_in(script)
    return names - {"FRAME"} or names


def _all_names_in(script: Script) -> set[str]:
    """Returns the names of all messages that a script sends; also of what is in pieces."""
    names: set[str] = set()
    pieces: dict[str, bytes] = {}
    scouting = any(step.state is State.SCOUTING for step in script.steps)
    for step in script.steps:
        if step.do is Do.SEND and step.data.pieces:
            raw = b"".join(
                piece if isinstance(piece, bytes) else _STAND_IN.get(piece, b"\x01")
                for piece in step.data.pieces
            )
            read = contents(raw[:4096], Kind.SCOUTING if scouting else None)
            names.update(read.names.split())
            for message in read.messages:
                if isinstance(message, Fragment):
                    pieces[step.link] = pieces.get(step.link, b"") + bytes(message.data or b"")
                    names.update(contents(pieces[step.link][:4096], Kind.NETWORK).names.split())
                    if not message.M:
                        del pieces[step.link]
    return names


_STAND_IN = {"size": b"", "size32": b"", "zid": bytes(range(1, 17)), "cookie": b"\x01c"}
