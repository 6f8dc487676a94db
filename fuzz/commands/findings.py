"""``zenoh-fuzz replay``, ``shrink`` and ``show``: findings, behind the run that found them."""

from __future__ import annotations

import argparse
import json
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzz.commands.run import FAILED, add_user, fail, named_of
from fuzz.commands.telling import in_a_sentence, tell

if TYPE_CHECKING:
    from fuzz.findings import Finding
    from fuzz.lab import Lab, Tried
    from fuzz.oracles import Harm
    from fuzz.script import Script
    from fuzz.targets.base import Kept

WELL, HARMED = 0, 1

_HARM, _DIFFERENT = ("did not survive", "survived"), ("answered differently", "same answers")
NOT_REPLAYED = "not replayed"
OUTCOMES = (*_HARM, *_DIFFERENT, NOT_REPLAYED)
"""What may come of one of several findings."""

CODES = """
exit codes: 0 the node survives every time (with two nodes: same answers), 1 it does not, 2 usage error, 3 the node or
the harness failed, or a finding of a run could not be replayed while the node survived all others
"""

SHRINK_CODES = """
exit codes: 0 minimised as far as possible, 1 not reproduced, 2 usage error, 3 the node or the harness failed
"""

LONGEST = 300
"""Characters of the answers in the line of a replay."""

MINIMISE_SECONDS = 60.0
"""How long ``shrink`` takes unless it is told: three times what a run gives a finding."""


def add_replay(commands: Any) -> None:
    """Adds ``replay`` to the commands."""
    parser = commands.add_parser(
        "replay",
        help="replay a finding, or all of a run, on a fresh node",
        description="Replays a finding, all findings of a run, or any script, each on a fresh node, and reports what "
        "happens.",
        epilog=CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "what", type=Path, metavar="FOLDER|SCRIPT", help="folder of a finding or of a run, or a script.json"
    )
    _add_node(parser)
    parser.add_argument(
        "--also",
        metavar="NODE",
        type=named_of,
        help="also replay on this node and compare the answers (default: the second node, if the finding has one)",
    )
    parser.add_argument(
        "--times",
        type=_count,
        metavar="N",
        help="number of replays, each on a fresh node (default: 1; for a run up to 3 of each finding, until the node "
        "does not survive)",
    )
    parser.add_argument(
        "--first", action="store_true", help="replay the original script instead of the minimised one"
    )
    parser.set_defaults(function=replay)


def add_shrink(commands: Any) -> None:
    """Adds ``shrink`` to the commands."""
    parser = commands.add_parser(
        "shrink",
        help="minimise a finding",
        description="Minimises the script of a finding and rewrites its folder.",
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
        help="time limit (default: 1m)",
    )
    parser.set_defaults(function=shrink)


def add_show(commands: Any) -> None:
    """Adds ``show`` to the commands."""
    parser = commands.add_parser(
        "show",
        help="show a finding, or list all findings of a run",
        description="Shows a finding. For a run folder, lists all its findings, one per line.",
    )
    parser.add_argument("what", type=Path, metavar="FOLDER", help="folder of a finding or of a run")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(function=show)


def _add_node(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--node", type=named_of, help="use this node instead of the one it was found on")
    add_user(parser)
    parser.add_argument(
        "--profile",
        metavar="NAME[:VERSION]",
        default="",
        help="profile of the node, as for run",
    )
    parser.add_argument(
        "--i-may-test-this-node",
        dest="may_test",
        action="store_true",
        help="allow a node that is not on this machine's loopback",
    )


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text[:6]) <= 1000:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number from 1 to 1000")
    return int(text)


def _seconds(text: str) -> float:
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], text[-1]) if text[-1:] in units else (text, "s")
    try:
        seconds = float(number) * units[unit]
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration; use something like 20s, 2m or 1h")
    return seconds


# replay ----------------------------------------------------------------------------------------------


@in_a_sentence
def replay(options: argparse.Namespace, _: list[str]) -> int:
    """Plays scripts on fresh nodes; returns the exit code."""
    from fuzz.findings import FINDING

    what: Path = options.what
    if not what.is_dir() or (what / FINDING).exists():
        return _replay(options, what)
    folders = _of_run(what)
    codes: dict[str, int] = {}
    for number, folder in enumerate(folders, 1):
        tell(f"finding {number} of {len(folders)}: {folder.name}")
        codes[folder.name] = _replay_one_of_many(options, folder)
    if not folders:
        tell("no findings")
    outcomes = {folder.name: _outcome(options, folder, codes[folder.name]) for folder in folders}
    for words in OUTCOMES:
        names = [name for name, outcome in outcomes.items() if outcome == words]
        if names:
            tell("\n  ".join([f"{words}: {len(names)} of {len(codes)}", *names]))
    return next((code for code in (HARMED, FAILED) if code in codes.values()), WELL)


def _outcome(options: argparse.Namespace, folder: Path, code: int) -> str:
    """Returns in words what came of one finding of many."""
    from fuzz.findings import NoFinding

    if code == FAILED:
        return NOT_REPLAYED
    two = bool(options.also)
    # That of a reader is no finding of a node.
    with suppress(NoFinding):
        two |= _load(folder).two
    return (_DIFFERENT if two else _HARM)[code == WELL]


def _replay_one_of_many(options: argparse.Namespace, folder: Path) -> int:
    """Plays the script of one finding; what is wrong with it alone does not end the command."""
    from conformance.errors import HarnessError, NotApplicable, UsageError
    from fuzz.findings import NoFinding
    from fuzz.standalone import TRIES

    try:
        # Some need luck: as often as their tests.
        return _replay(options, folder, TRIES)
    except UsageError:
        raise
    except (NoFinding, HarnessError, NotApplicable, OSError) as error:
        return fail(str(error), FAILED)


def _replay(options: argparse.Namespace, what: Path, most: int = 1) -> int:
    """Plays one script on fresh nodes; returns the exit code.

    Args:
        options: Of the command.
        what: The folder of a finding, or a script.
        most: So often, until it does harm, unless the options say how often.
    """
    from conformance.errors import UsageError
    from fuzz.lab import linger_of
    from fuzz.targets.base import Kept

    kept = Kept.load(what)
    if kept is not None:
        return _read_again(kept, options, what)
    times = options.times or most
    loaded = _load(what, first=options.first)
    also = options.also or loaded.also
    if loaded.two and not also:
        raise UsageError(
            "the finding is a difference between two nodes, but does not name the second one; add --also"
        )
    harmed = reached = 0
    _remind(options, user=loaded.user)
    with _lab(options, loaded.node, also) as lab:
        for number in range(1, times + 1):
            if also:
                tried = lab.compare(loaded.script)
            else:
                with lab.waiting_for(loaded.harm, loaded.place):
                    tried = lab.play(
                        loaded.script,
                        rounds=loaded.plays,
                        seconds=loaded.patience,
                        linger=linger_of(loaded.waited),
                    )
            harmed += tried.objection is not None
            reached += not tried.played.failure
            tell(f"{number} of {times}: {_words(tried, alike=bool(also))}")
            if harmed and not options.times:
                break
    if not harmed and not reached:
        return fail("the script could not be replayed; the node may or may not be affected", FAILED)
    bad, good = _BOTH if also else _ONE
    tell(f"{bad} {harmed} of {number} replays" if harmed else good)
    return HARMED if harmed else WELL


def _read_again(kept: Kept, options: argparse.Namespace, what: Path) -> int:
    """Gives the bytes of a finding to the reader that it is about; returns the exit code."""
    from conformance.errors import UsageError
    from fuzz.targets import TARGETS

    name = kept.facts["target"]
    if options.node or options.also:
        raise UsageError(f"{what} is a finding about the reader {name}; --node and --also are for nodes")
    if name not in TARGETS:
        raise UsageError(f"{what} is a finding about the reader {name!r}, which is not known here")
    # Of the same bytes a reader makes the same each time.
    times = options.times or 1
    seen = [kept.shown(TARGETS[name]()) for _ in range(times)]
    for number, bucket in enumerate(seen, 1):
        tell(f"{number} of {times}: {bucket or 'no fault found'}")
    return HARMED if any(seen) else WELL


_ONE = "the node did not survive", "the node survived"
_BOTH = "the answers differed in", "the answers were the same"


@dataclass(slots=True)
class _Loaded:
    script: Script
    node: str = ""
    plays: int = 1
    patience: float = 0.0
    waited: float = 0.0
    also: str = ""
    user: bool = False
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
        loaded = _Loaded(
            script,
            finding.node,
            finding.plays,
            finding.patience,
            finding.waited,
            finding.also,
            finding.user,
        )
        loaded.harm, loaded.place = finding.harm, finding.place
        return loaded
    try:
        return _Loaded(Script.from_json(json.loads(what.read_text(encoding="utf-8"))))
    except OSError as error:
        raise NoFinding(f"{what} cannot be read ({error.strerror})") from None
    except ScriptError as error:
        raise NoFinding(f"{what}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise NoFinding(f"{what} is not valid JSON ({error})") from None


def _words(tried: Tried, *, alike: bool = False) -> str:
    seen = tried.objection
    answer = textwrap.shorten(" ".join(tried.played.names), LONGEST, placeholder=" ...") or "none"
    if seen is not None:
        often = f" after {tried.rounds} rounds" if tried.rounds > 1 else ""
        place = f" {seen.place}" if seen.place else ""
        return f"{seen.harm}{place}{often}: {seen.detail}"
    how = "same answers" if alike else "survived"
    if tried.played.failure:
        return f"{how}, but the state was not reached: {tried.played.failure}"
    return f"{how}; {tried.played.ending}, answers: {answer}"


def _remind(options: argparse.Namespace, *, user: bool) -> None:
    """Says that the node of a finding asked for a user, where none is named."""
    if user and options.user is None:
        tell(
            "the node of this finding asked for a user and a password; name them with --user if this one does too"
        )


@contextmanager
def _lab(options: argparse.Namespace, node: str, also: str = "") -> Iterator[Lab]:
    from conformance.config import RunConfig, prepare_run_dir
    from conformance.errors import UsageError
    from conformance.nodes import node_of
    from fuzz.lab import Lab

    wanted = options.node or node
    if not wanted:
        raise UsageError("a script does not name a node; add --node")
    with tempfile.TemporaryDirectory(prefix="zenoh-fuzz-") as folder:
        prepare_run_dir(Path(folder))
        config = RunConfig(
            node=wanted,
            run_dir=Path(folder),
            run_id="replay",
            seed=1,
            profile=options.profile,
            may_test=options.may_test,
            user=options.user,
        )
        # The profile is of the node under test.
        other = node_of(replace(config, node=also, profile=""), "also") if also else None
        with Lab(config, node_of(config), seats=1, also=other) as lab:
            yield lab


# shrink ----------------------------------------------------------------------------------------------


@in_a_sentence
def shrink(options: argparse.Namespace, _: list[str]) -> int:
    """Makes a finding smaller; returns the exit code."""
    from conformance.errors import UsageError
    from fuzz.findings import CONFIRMED, FINDING, Finding, many
    from fuzz.lab import linger_of
    from fuzz.oracles import Harm
    from fuzz.regression import fails_on
    from fuzz.targets.base import Kept
    from fuzz.triage import comes_again, minimise
    from fuzz.triage.confirming import TRIES

    if options.what.is_dir() and not (options.what / FINDING).exists():
        folders = _of_run(options.what)
        raise UsageError(
            f"{options.what} is a run; name one of its findings"
            + (f", like {folders[0]}" if folders else ", of which there is none")
        )
    if Kept.load(options.what) is not None:
        raise UsageError(
            f"{options.what} is a finding about a reader of this project; its bytes were made fewer by the run"
        )
    finding = Finding.load(options.what)
    if finding.harm is Harm.DIFFERS:
        raise UsageError(
            "a difference between two nodes cannot be minimised: a smaller script might differ for another reason"
        )
    before = finding.script.sends, finding.script.size
    _remind(options, user=finding.user)
    with _lab(options, finding.node) as lab, lab.waiting_for(finding.harm, finding.place):
        for _try in range(TRIES):
            tried = lab.play(
                finding.script,
                rounds=finding.plays,
                seconds=finding.patience,
                linger=linger_of(finding.waited),
            )
            if comes_again(finding, tried):
                break
        else:
            other = f"; a different failure was seen: {_words(tried)}" if tried.objection is not None else ""
            tell(f"not reproduced in {TRIES} tries{other}; nothing was changed")
            return HARMED
        finding.tried, finding.in_vain = tried, False
        minimise(lab, finding, options.time)
        node = options.node or finding.node
        finding.test_fails = fails_on(node, str(finding.harm), finding.tried, options.user)
    finding.status = CONFIRMED
    finding.save()
    made = finding.minimised
    assert made is not None
    was = f"{many(before[0], 'message')}, {many(before[1], 'byte')}"
    tell(f"from {was} to {many(made.messages, 'message')}, {many(made.size, 'byte')}")
    tell(
        f"{'one try' if made.tries == 1 else f'{made.tries} tries'} in {made.seconds:.1f} s{'' if made.done else '; time ran out'}"
    )
    return WELL


# show ------------------------------------------------------------------------------------------------


@in_a_sentence
def show(options: argparse.Namespace, _: list[str]) -> int:
    """Shows a finding or all findings of a run; returns the exit code."""
    from conformance.page.words import visible
    from fuzz.findings import FINDING, README, Finding, readme_of
    from fuzz.resume import findings_before
    from fuzz.summary import by_bucket
    from fuzz.targets.base import Kept

    what: Path = options.what
    kept = Kept.load(what)
    if kept is not None:
        facts = json.dumps(kept.facts, ensure_ascii=False, indent=1)
        tell(facts if options.json else (what / README).read_text(encoding="utf-8"))
        return WELL
    if (what / FINDING).exists():
        finding = Finding.load(what)
        if options.json:
            tell(json.dumps(finding.to_json(), ensure_ascii=False, indent=1))
        else:
            page = what / README
            tell(page.read_text(encoding="utf-8") if page.exists() else readme_of(finding))
        return WELL
    folders = _of_run(what)
    loaded = {folder: Kept.load(folder) for folder in folders}
    of_readers = [one for one in loaded.values() if one is not None]
    found = [Finding.load(folder) for folder, one in loaded.items() if one is None]
    # A folder is of one process and of one part of the run; its rows are of all.
    hits = {row.bucket: row.hits for row in by_bucket(findings_before(what))}
    found = [replace(finding, hits=hits.get(finding.bucket, finding.hits)) for finding in found]
    if options.json:
        every = [*(finding.to_json() for finding in found), *(one.facts for one in of_readers)]
        tell(json.dumps(every, ensure_ascii=False, indent=1))
    else:
        lines = [*map(line_of, found), *(one.line for one in of_readers)]
        tell("\n".join(visible(line).replace("\n", " ") for line in lines) or "no findings")
    return WELL


def _of_run(what: Path) -> list[Path]:
    """Returns the folders of the findings of a run.

    Raises:
        NoFinding: It is no folder of a run, nor that of its findings.
    """
    from fuzz.findings import FINDING, FOLDER, NoFinding
    from spark_reports.rows import RUN

    below = what / FOLDER if (what / FOLDER).is_dir() else what
    folders = [path.parent for path in sorted(below.glob(f"*/{FINDING}"))]
    # A run that found nothing is one all the same.
    if not folders and below.name != FOLDER and not (what / RUN).exists():
        raise NoFinding(f"{what} is not the folder of a finding or a run")
    return folders


def line_of(finding: Finding) -> str:
    """Returns a finding in one line."""
    from fuzz.findings import many

    hits, tries = finding.confirmed
    known = f", known as {finding.known}" if finding.known else ""
    made = finding.minimised
    small = f", {many(made.messages, 'message')}, {many(made.size, 'byte')}" if made else ""
    again = f" {hits} of {tries}" if tries else ""
    return f"{finding.bucket}: {finding.status}{again}, {many(finding.hits, 'case')}{small}{known}"
