"""What a finding is called, and which objections are to one fault."""

from __future__ import annotations

import re

from fuzz.cases import Case
from fuzz.findings import Finding, without_line
from fuzz.kinship import STAGE, part_seen
from fuzz.lab import Tried
from fuzz.oracles import DEADLY, SERVING, Harm, Objection
from fuzz.oracles.places import in_file, words_of
from fuzz.states import State


def bucket_of(objection: Objection, case: Case | None, state: State | None) -> str:
    """Returns the signature of a finding in words, the same in every run and, as far as can be, every version.

    Where the process says where it failed, that is what it is: signal, file, and what it said there; lines move
    from version to version. Otherwise what is seen, and the kind of message and the part of a session it came in.
    """
    said = beginning_of(objection)
    if is_placed(objection):
        return said
    # What a stage needs of a node is gone: whatever was said there last, the same thing is broken.
    message = "" if objection.place == STAGE else case.message if case is not None else "?"
    return " ".join(filter(None, [said, part_seen(objection.oracle, state), message]))


def bucket_without(objection: Objection, kind: str) -> str:
    """Returns the signature of a finding that needs no message: what was sent when it was seen is not in it.

    Args:
        objection: What was seen.
        kind: ``TRAFFIC`` or ``STATE``.
    """
    said = beginning_of(objection)
    return said if is_placed(objection) else f"{said} {kind}"


def beginning_of(objection: Objection) -> str:
    """Returns what is seen, and where the process says that it failed, as signatures begin."""
    words = words_of(objection.detail)
    return " ".join(
        filter(None, [str(objection.harm), without_line(objection.place), f'"{words}"' if words else ""])
    )


def is_placed(objection: Objection) -> bool:
    """Tells whether the process itself said in which file of its own it failed."""
    return in_file(objection.place)


def objection_of(finding: Finding) -> Objection:
    """Returns the objection that a finding is about."""
    return Objection(finding.oracle, finding.harm, finding.place, finding.detail)


def comes_again(finding: Finding, tried: Tried) -> bool:
    """Tells whether a try shows the very fault that a finding is about."""
    return tried.objection is not None and same(objection_of(finding), tried.objection)


def akin(seen: Objection, now: Objection) -> bool:
    """Tells whether an objection is the same harm as another, or shows better what that was."""
    if now.harm in DEADLY:
        if seen.harm in DEADLY:
            return not (is_placed(seen) and is_placed(now)) or spot(seen) == spot(now)
        return seen.harm in SERVING
    if seen.harm is Harm.DIFFERS:
        return now.harm is seen.harm and now.place == seen.place
    if seen.harm is Harm.BUSY and now.harm in SERVING:
        # What keeps one thread of it busy for long keeps all of them busy when it is done again and again.
        return True
    return seen.harm is now.harm or (seen.harm in SERVING and now.harm in SERVING)


def same(wanted: Objection, now: Objection) -> bool:
    """Tells whether an objection is to the very same fault."""
    if is_placed(wanted):
        return (now.harm in DEADLY or now.harm is wanted.harm) and spot(wanted) == spot(now)
    return (now.harm is wanted.harm and without_line(now.place) == without_line(wanted.place)) or (
        now.harm in SERVING and wanted.harm in SERVING
    )


def telling(objection: Objection) -> int:
    """Returns how much an objection tells: the place where it failed; that it ended; that it failed; what others see."""
    if objection.harm not in DEADLY:
        return 0
    if is_placed(objection):
        return 3
    return 2 if objection.harm is Harm.CRASH else 1


def spot(objection: Objection) -> str:
    """Returns file and line, without the signal: a panic may end the process or not."""
    found = re.search(r"\S+:\d+", objection.place)
    return found[0] if found else objection.place
