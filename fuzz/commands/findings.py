"""``zenoh-fuzz replay``, ``shrink`` and ``show``: findings, behind the run that found them."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fuzz.findings import Finding
    from fuzz.lab import Lab, Tried
    from fuzz.oracles import Harm
    from fuzz.script import Script

WELL, HARMED, USAGE, FAILED = 0, 1, 2, 3

CODES = """
exit codes: 0 the node survives every time (two answer alike), 1 it does not, 2 wrong use, 3 the node or the harness failed
"""

SHRINK_CODES = """
exit codes: 0 the script is as small as it could be made, 1 it does not come again, 2 wrong use, 3 the node or the
harness failed
"""

LONGEST = 300
"""Characters of the answers in the line of a replay."""

MINIMISE_SECONDS = 60.0
"""How long ``shrink`` takes unless it is told: three times what a run gives a finding."""


def add_replay(commands: Any) -> None:
    """Adds ``replay`` to the commands."""
    parser = commands.add_parser(
        "replay",
        help="play a finding again on a fresh node",
        description="Plays a finding, or any script, on a fresh node and says what is seen.",
        epilog=CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "what", type=Path, metavar="FOLDER|SCRIPT", help="folder of a finding, or a script.json"
    )
    _add_node(parser)
    parser.add_argument(
        "--also",
        metavar="NODE",
        default="",
        help="play it on this node too, and see whether both answer alike (default: where two did not, the other of them)",
    )
    parser.add_argument("--times", type=_count, default=1, metavar="N", help="on so many nodes (default: 1)")
    parser.add_argument("--first", action="store_true", help="play it as it was found, not the smallest")
    parser.set_defaults(function=replay)


def add_shrink(commands: Any) -> None:
    """Adds ``shrink`` to the commands."""
    parser = commands.add_parser(
        "shrink",
        help="make a finding smaller",
        description="Makes the script of a finding smaller, and writes its folder anew.",
        epilog=SHRINK_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", type=Path, metavar="FOLDER", help="folder of a finding")
    _add_node(parser)
    parser.add_argument(
        "--time",
        type=_seconds,
        default=MINIMISE_SECONDS,
        metavar="TIME",
        help="how long at most (default: 1m)",
    )
    parser.set_defaults(function=shrink)


def add_show(commands: Any) -> None:
    """Adds ``show`` to the commands."""
    parser = commands.add_parser(
        "show",
        help="show a finding, or all of a run",
        description="Shows what a finding is about; of a run folder, all its findings, one line each.",
    )
    parser.add_argument("what", type=Path, metavar="FOLDER", help="folder of a finding, or of a run")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(function=show)


def _add_node(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--node", default="", help="another node than the one it was found on")
    parser.add_argument(
        "--profile",
        metavar="NAME[:VERSION]",
        default="",
        help="what the node is, as of run",
    )
    parser.add_argument(
        "--i-may-test-this-node",
        dest="may_test",
        action="store_true",
        help="allow a node that is not on this machine's loopback",
    )


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:6]) <= 1000:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number from 1 to 1000")
    return int(text)


def _seconds(text: str) -> float:
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "s")
    try:
        seconds = float(number) * units[unit]
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write one like 20s, 2m or 1h")
    return seconds


Command = Callable[[argparse.Namespace, list[str]], int]


def _in_a_sentence(command: Command) -> Command:
    """Turns errors of a command into one sentence and an exit code."""

    @wraps(command)
    def guarded(options: argparse.Namespace, argv: list[str]) -> int:
        from conformance.errors import HarnessError, NotApplicable, UsageError
        from fuzz.findings import NoFinding

        try:
            return command(options, argv)
        except (UsageError, NoFinding) as error:
            return _say(str(error), USAGE)
        except (HarnessError, NotApplicable, OSError) as error:
            return _say(str(error), FAILED)

    return guarded


# replay ----------------------------------------------------------------------------------------------


@_in_a_sentence
def replay(options: argparse.Namespace, _: list[str]) -> int:
    """Plays a script on fresh nodes; returns the exit code."""
    from conformance.errors import UsageError
    from fuzz.lab import linger_of

    loaded = _load(options.what, first=options.first)
    also = options.also or loaded.also
    if loaded.two and not also:
        raise UsageError(
            "two nodes answered differently, and it is not said which the other one was; add --also"
        )
    harmed = reached = 0
    with _lab(options, loaded.node, also) as lab:
        for number in range(1, options.times + 1):
            if also:
                tried = lab.compare(loaded.script)
            else:
                with lab.waiting_for(loaded.harm, loaded.place):
                    tried = lab.play(loaded.script, rounds=loaded.rounds, linger=linger_of(loaded.waited))
            harmed += tried.objection is not None
            reached += not tried.played.failure
            _print(f"{number} of {options.times}: {_words(tried, alike=bool(also))}")
    if not harmed and not reached:
        return _say("it could not be played; nothing is known of the node", FAILED)
    bad, good = _BOTH if also else _ONE
    _print(f"{harmed} of {options.times} times {bad}" if harmed else good)
    return HARMED if harmed else WELL


_ONE = "the node did not survive it", "the node survives it"
_BOTH = "they answered differently", "they answer alike"


@dataclass(slots=True)
class _Loaded:
    script: Script
    node: str = ""
    rounds: int = 1
    waited: float = 0.0
    also: str = ""
    harm: Harm | None = None
    place: str = ""

    @property
    def two(self) -> bool:
        return self.harm == "differs"


def _load(what: Path, *, first: bool = False) -> _Loaded:
    """Reads a finding or a script.

    Raises:
        NoFinding: It is neither.
        ScriptError: It is a file without a script.
    """
    from fuzz.findings import Finding, NoFinding
    from fuzz.script import Script, ScriptError

    if what.is_dir():
        finding = Finding.load(what)
        script = finding.first if first else finding.script
        loaded = _Loaded(script, finding.node, finding.rounds, finding.waited, finding.also)
        loaded.harm, loaded.place = finding.harm, finding.place
        return loaded
    try:
        return _Loaded(Script.from_json(json.loads(what.read_text(encoding="utf-8"))))
    except OSError as error:
        raise NoFinding(f"{what} cannot be read ({error.strerror})") from None
    except ScriptError as error:
        raise NoFinding(f"{what}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise NoFinding(f"{what} is no JSON ({error})") from None


def _words(tried: Tried, *, alike: bool = False) -> str:
    seen = tried.objection
    answer = textwrap.shorten(" ".join(tried.played.names), LONGEST, placeholder=" ...") or "nothing"
    if seen is not None:
        often = f" behind {tried.rounds} rounds" if tried.rounds > 1 else ""
        place = f" {seen.place}" if seen.place else ""
        return f"{seen.harm}{place}{often}: {seen.detail}"
    how = "alike" if alike else "survived"
    if tried.played.failure:
        return f"{how}, but the state was not reached: {tried.played.failure}"
    return f"{how}; {tried.played.ending}, answers: {answer}"


@contextmanager
def _lab(options: argparse.Namespace, node: str, also: str = "") -> Iterator[Lab]:
    from conformance.config import RunConfig, prepare_run_dir
    from conformance.errors import UsageError
    from conformance.nodes import node_of
    from fuzz.lab import Lab

    wanted = options.node or node
    if not wanted:
        raise UsageError("a script does not say which node it is for; add --node")
    with tempfile.TemporaryDirectory(prefix="zenoh-fuzz-") as folder:
        prepare_run_dir(Path(folder))
        config = RunConfig(
            node=wanted,
            run_dir=Path(folder),
            run_id="replay",
            seed=1,
            profile=options.profile,
            may_test=options.may_test,
        )
        # The profile is of the node under test.
        other = node_of(replace(config, node=also, profile=""), "also") if also else None
        with Lab(config, node_of(config), seats=1, also=other) as lab:
            yield lab


# shrink ----------------------------------------------------------------------------------------------


@_in_a_sentence
def shrink(options: argparse.Namespace, _: list[str]) -> int:
    """Makes a finding smaller; returns the exit code."""
    from conformance.errors import UsageError
    from fuzz.findings import CONFIRMED, Finding, many
    from fuzz.lab import linger_of
    from fuzz.oracles import Harm
    from fuzz.regression import fails_on
    from fuzz.triage import comes_again, minimise

    finding = Finding.load(options.what)
    if finding.harm is Harm.DIFFERS:
        raise UsageError(
            "what two nodes answer differently is not made smaller: it might differ for another reason"
        )
    before = finding.script.sends, finding.script.size
    with _lab(options, finding.node) as lab, lab.waiting_for(finding.harm, finding.place):
        tried = lab.play(finding.script, rounds=finding.rounds, linger=linger_of(finding.waited))
        if not comes_again(finding, tried):
            other = f"; what is seen is another one, {_words(tried)}" if tried.objection is not None else ""
            _print(f"it does not come again{other}; nothing was changed")
            return HARMED
        finding.tried = tried
        minimise(lab, finding, options.time)
        finding.test_fails = fails_on(options.node or finding.node, str(finding.harm), finding.tried)
    finding.status = CONFIRMED
    finding.save()
    made = finding.minimised
    assert made is not None
    was = f"{many(before[0], 'message')}, {many(before[1], 'byte')}"
    _print(f"from {was} to {many(made.messages, 'message')}, {many(made.size, 'byte')}")
    _print(
        f"{'one try' if made.tries == 1 else f'{made.tries} tries'} in {made.seconds:.1f} s{'' if made.done else '; time was up'}"
    )
    return WELL


# show ------------------------------------------------------------------------------------------------


@_in_a_sentence
def show(options: argparse.Namespace, _: list[str]) -> int:
    """Shows a finding or all findings of a run; returns the exit code."""
    from fuzz.findings import FINDING, FOLDER, README, Finding, NoFinding, readme_of
    from spark_reports.rows import RUN

    what: Path = options.what
    if (what / FINDING).exists():
        finding = Finding.load(what)
        if options.json:
            _print(json.dumps(finding.to_json(), ensure_ascii=False, indent=1))
        else:
            page = what / README
            _print(page.read_text(encoding="utf-8") if page.exists() else readme_of(finding))
        return WELL
    below = what / FOLDER if (what / FOLDER).is_dir() else what
    found = [Finding.load(path.parent) for path in sorted(below.glob(f"*/{FINDING}"))]
    # A run that found nothing is one all the same.
    if not found and below.name != FOLDER and not (what / RUN).exists():
        raise NoFinding(f"{what} is no folder of a finding or a run")
    if options.json:
        _print(json.dumps([finding.to_json() for finding in found], ensure_ascii=False, indent=1))
    else:
        _print("\n".join(line_of(finding) for finding in found) or "no finding")
    return WELL


def line_of(finding: Finding) -> str:
    """Returns a finding in one line."""
    from fuzz.findings import many

    hits, tries = finding.confirmed
    known = f", known as {finding.known}" if finding.known else ""
    made = finding.minimised
    small = f", {many(made.messages, 'message')}, {many(made.size, 'byte')}" if made else ""
    again = f" {hits} of {tries}" if tries else ""
    return f"{finding.bucket}: {finding.status}{again}, {many(finding.hits, 'case')}{small}{known}"


def _say(why: str, code: int) -> int:
    sys.stderr.write(f"zenoh-fuzz: {why}\n")
    return code


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
