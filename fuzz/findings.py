"""A finding and its folder: what was sent, what was seen, how to see it again."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from conformance.observe import History
from conformance.recorder import CaptureWriter
from fuzz.cases import Cause
from fuzz.known import Signature
from fuzz.lab import LONGEST_LINGER, ROUNDS_SECONDS, Tried
from fuzz.oracles import Harm
from fuzz.oracles.service import NOTHING, UNREACHED
from fuzz.oracles.trouble import Wrong
from fuzz.player.history import history_of
from fuzz.player.player import AGAIN
from fuzz.regression import shortened, test_of
from fuzz.script import Do, Script, ScriptError
from fuzz.states import State
from spark_reports.rows import gone_on_failure

FOLDER = "findings"
"""Folder of a run in which its findings are."""

VERSION = 1
"""Of ``finding.json``; a later one may have more keys."""

FINDING, SCRIPT, FIRST, CAPTURE, README, TEST = (
    "finding.json",
    "script.json",
    "first.json",
    "finding.pcapng",
    "README.md",
    "test_finding.py",
)

WITNESS = "seen.pcapng"
"""The traffic before it was seen first, where it was a campaign that saw it."""

CONFIRMED, SEEN, FLAKY, OPEN = "confirmed", "seen", "not reproduced", "open"
"""Whether it is true: it came again on fresh nodes as often as was asked for; it was seen beyond doubt (a process that
ended, a session that the node ended, anything that was seen often) but did not come again; neither; nobody has looked
yet."""

PROVEN = {CONFIRMED, SEEN}
"""It is true."""

DUMPED = 2048
"""So many bytes of a stimulus are shown."""

TRAFFIC, STATE = "ordinary traffic", "state alone"
"""What is enough for a fault that needs no message of a case: what the oracles say to any node; that, and that links
come into their states."""

CERTAIN = frozenset({Harm.CRASH, Harm.PANIC})
"""What is true when it was seen once, and ends the process or what goes on in it."""

ACTED = frozenset({Harm.UNDUE, Harm.GONE, Harm.UNDECODABLE, Harm.OVERDUE, Harm.UNCLEAN, Harm.DIFFERS})
"""What the node did, and did not only fail to do in time: however busy the machine is, it is true as well. Two nodes
that differ were seen to do so three times, on fresh links; what is overdue was waited for many times as long as a node
that is well takes."""

SPOILT = frozenset(
    {
        Wrong.CHANGED,
        Wrong.TWICE,
        Wrong.REORDERED,
        Wrong.ASTRAY,
        Wrong.REPLY_CHANGED,
        Wrong.REPLY_ASTRAY,
        Wrong.MISNUMBERED,
        Wrong.UNASKED,
        Wrong.COMMON_CHANGED,
        Wrong.COMMON_TWICE,
    }
)
"""The same of what others send through it."""

OFTEN = 3
"""What rests on a time is true when it was seen so often: each time on a node that had been started anew."""

PATIENCE = 4 * ROUNDS_SECONDS
"""Seconds for what shows slowly, where nobody knows how long it took."""


class NoFinding(ValueError):
    """A folder that holds no finding; the message says why."""


@dataclasses.dataclass(slots=True)
class Minimised:
    """How far a script was made smaller.

    Attributes:
        messages: Messages that are left, those that bring links into their states aside.
        size: Bytes that are left.
        seconds: How long it took.
        tries: How many scripts were tried.
        done: Nothing was left to try; otherwise time was up.
    """

    messages: int
    size: int
    seconds: float
    tries: int
    done: bool


@dataclasses.dataclass(slots=True, kw_only=True)
class Finding:
    """A fault that was found.

    Attributes:
        bucket: The signature in words; unique in a run.
        harm: The class.
        oracle: Which oracle objected.
        place: Where in the node, with its line if there is one; may be empty.
        detail: What the oracle saw.
        state: Where the link was that did it.
        message: Kind of the message that was lied about.
        field: Path of the field; may be empty.
        about: The field by which it is called once it was made smaller; empty when it is called by its message.
        mutation: What was done.
        campaign: Name of the campaign.
        case: Number of the first case; 0 when it cannot be said which one did it.
        seed: Of the run.
        run: Name of the run.
        found_at: UTC.
        node: As for ``--node``.
        impl: Implementation.
        version: Its version.
        script: The smallest that does it.
        first: As it was found.
        hits: How many cases fell into it.
        confirmed: How often it came again on a fresh node, of how many tries.
        status: ``open``, ``confirmed``, ``seen`` or ``not reproduced``.
        rounds: How often the script is played until it shows.
        waited: Seconds for which the node seems well behind the script, before it is not.
        lasting: It was waited for so long to end, when it was seen, that no busy machine explains it.
        without: ``ordinary traffic`` or ``state alone`` when it shows without the message of any case; else empty.
        minimised: How far it was made smaller; None before that.
        known: Id of the entry in the known findings; empty when it is new.
        places: All places with their lines in which it was seen.
        messages: All kinds of messages that brought it about.
        states: All states in which it was brought about.
        masked: Cases left out because of it.
        causes: What brought it about.
        notes: What people should know.
        before: Hits in earlier parts of the run.
        case_buckets: Buckets that the rows of its cases have: what each seemed to be when it was played.
        path: The folder.
        tried: The last try in which it was seen.
        vain: A try of the script on a fresh node in which it was not: of a fault that nobody could lay on a case.
        in_vain: The capture and the test are of such a try.
        test_fails: Its test was run and fails on the node, as it should; None when it was not run.
        also: The other node, as for ``--also``, where two answer differently; else empty.
        user: The node asks for a user and a password, which are not kept.
        smaller: Scripts that did it in other cases, or while it was made smaller, the smallest last: worth a try before others
            when that begins.
        captured: The try that the capture in the folder shows, what is said there, and its inode.
    """

    bucket: str
    harm: Harm
    oracle: str
    place: str
    detail: str
    state: str
    message: str
    field: str = ""
    about: str = ""
    mutation: str = ""
    campaign: str = ""
    case: int = 0
    seed: int = 0
    run: str = ""
    found_at: str = ""
    node: str = ""
    impl: str = "unknown"
    version: str = "unknown"
    script: Script
    first: Script
    hits: int = 1
    confirmed: tuple[int, int] = (0, 0)
    status: str = OPEN
    rounds: int = 1
    waited: float = 0.0
    lasting: bool = False
    without: str = ""
    minimised: Minimised | None = None
    known: str = ""
    places: set[str] = dataclasses.field(default_factory=set)
    messages: set[str] = dataclasses.field(default_factory=set)
    states: set[str] = dataclasses.field(default_factory=set)
    masked: int = 0
    causes: set[Cause] = dataclasses.field(default_factory=set)
    notes: list[str] = dataclasses.field(default_factory=list)
    before: int = 0
    case_buckets: set[str] = dataclasses.field(default_factory=set)
    path: Path | None = None
    tried: Tried | None = None
    vain: Tried | None = None
    in_vain: bool = False
    test_fails: bool | None = None
    also: str = ""
    user: bool = False
    smaller: list[Script] = dataclasses.field(default_factory=list)
    captured: tuple[Tried, tuple[str, ...], int] | None = dataclasses.field(
        default=None, repr=False, compare=False
    )

    @property
    def plays(self) -> int:
        """How often the script is played at most where it is tried again: what shows slowly shows sooner or later."""
        return 1 if self.rounds == 1 else 2 * self.rounds

    @property
    def patience(self) -> float:
        """Seconds that this may take. What makes a node slow makes the rounds slow, too."""
        return PATIENCE if self.tried is None else max(ROUNDS_SECONDS, 2 * self.tried.seconds)

    def shown_by(self, tried: Tried) -> None:
        """Takes what was played in a try that showed it for what it takes."""
        self.test_fails = None
        self.script, self.tried = tried.script, tried
        self.rounds, self.waited = tried.rounds, tried.waited
        self.vain, self.in_vain = None, False

    def played_in_vain(self, tried: Tried) -> None:
        """Takes a try that did not show it for what can be played again, as there is no other."""
        self.vain, self.in_vain = tried, True
        self.rounds = tried.rounds

    @property
    def played(self) -> Tried | None:
        """The try of which the capture and the test are made."""
        tried = self.tried or self.vain
        return tried if tried is not None and tried.script == self.script else None

    @property
    def fails(self) -> bool:
        """It makes a run fail: it is new, and true."""
        return not self.known and self.status != FLAKY

    @property
    def size(self) -> tuple[int, int]:
        """Messages of the smallest script, those that bring links into their states aside, and their bytes."""
        made = self.minimised
        return (made.messages, made.size) if made else (self.script.sends, self.script.size)

    @property
    def is_large(self) -> bool:
        """It is to be made smaller. Where two nodes differ, a smaller script might do so for another reason."""
        return self.status == CONFIRMED and self.minimised is None and self.harm is not Harm.DIFFERS

    @property
    def shown(self) -> bool:
        """Its folder holds a capture of a try, and a test unless it takes two nodes."""
        return self.played is not None or (self.path is not None and (self.path / CAPTURE).exists())

    @property
    def tested(self) -> bool:
        """Its folder holds a test. One of two nodes that differ has none: the test has one node."""
        return self.shown and self.harm is not Harm.DIFFERS

    @property
    def beyond_doubt(self) -> bool:
        """It is true even if nobody can tell which case did it: the node did something, or it was seen often."""
        if self.harm is Harm.DIFFERS and self.confirmed[1]:
            # Fresh nodes do not differ: it is a matter of what they had been through, or of time.
            return False
        if self.lasting or self.harm in CERTAIN | ACTED:
            return True
        if self.harm is Harm.REFUSING and not self.place.endswith((NOTHING, UNREACHED)):
            return True
        if self.harm is Harm.DISTURBED and self.place in SPOILT:
            return True
        return self.before + self.hits + self.confirmed[0] >= OFTEN

    @property
    def signature(self) -> Signature:
        """What it is recognised by."""
        return Signature(
            harm=str(self.harm),
            place=without_line(self.place),
            state=self.state,
            message=self.message,
            about=self.about,
        )

    @property
    def title(self) -> str:
        """One line: what is wrong."""
        return f"{self.bucket} ({self.impl} {self.version})"

    def to_json(self) -> dict[str, Any]:
        """Returns what ``finding.json`` holds; see ``docs/findings.md``."""
        hits, tries = self.confirmed
        made = self.minimised
        return {
            "finding_version": VERSION,
            "bucket": self.bucket,
            "status": self.status,
            "known": self.known,
            "harm": str(self.harm),
            "oracle": self.oracle,
            "place": self.place,
            "detail": self.detail,
            "state": self.state,
            "message": self.message,
            "field": self.field,
            "about": self.about,
            "mutation": self.mutation,
            "campaign": self.campaign,
            "case": self.case,
            "seed": self.seed,
            "run": self.run,
            "found_at": self.found_at,
            "node": self.node,
            "node_impl": self.impl,
            "node_version": self.version,
            "node_config": dict(self.script.where),
            "also": self.also,
            "user": self.user,
            "hits": self.before + self.hits,
            "masked": self.masked,
            "confirmed": {"hits": hits, "tries": tries},
            "rounds": self.rounds,
            "waited": round(self.waited, 3),
            "lasting": self.lasting,
            "without": self.without,
            "in_vain": self.in_vain,
            "test_fails": self.test_fails,
            "minimised": None
            if made is None
            else {
                "messages": made.messages,
                "bytes": made.size,
                "seconds": round(made.seconds, 2),
                "tries": made.tries,
                "done": made.done,
            },
            "places": sorted(self.places),
            "messages": sorted(self.messages),
            "states": sorted(self.states),
            "causes": [list(cause) for cause in sorted(self.causes)],
            "notes": self.notes,
            "commands": {
                "replay": _replay(self),
                **({} if self.harm is Harm.DIFFERS else {"shrink": f"zenoh-fuzz shrink .{_user(self)}"}),
                **({"test": f"pytest {TEST}{_user(self)}"} if self.tested else {}),
            },
        }

    @classmethod
    def from_json(cls, value: Any, script: Script, first: Script) -> Self:
        """Reads what ``to_json`` gave.

        Raises:
            NoFinding: It is none; says which key and why.
        """
        if not isinstance(value, dict):
            raise NoFinding(f"{FINDING} does not hold a JSON object")
        if value.get("finding_version") != VERSION:
            raise NoFinding(
                f"{FINDING}: finding_version: {value.get('finding_version')!r}, this program reads {VERSION}"
            )
        for keys, kind in ((_TEXTS, str), (_NUMBERS, int)):
            for key in keys:
                if not isinstance(value.get(key), kind) or isinstance(value.get(key), bool):
                    raise NoFinding(
                        f"{FINDING}: {key}: must be {'text' if kind is str else 'a whole number'}"
                    )
        try:
            confirmed, made = value["confirmed"], value["minimised"]
            return cls(
                **{key: value[key] for key in (*_TEXTS, *_NUMBERS) if not key.startswith("node_")},
                impl=value["node_impl"],
                version=value["node_version"],
                harm=Harm(value["harm"]),
                script=script,
                first=first,
                # Those of earlier versions do not say so.
                without=str(value.get("without", "")),
                about=str(value.get("about", "")),
                also=str(value.get("also", "")),
                user=bool(value.get("user", False)),
                in_vain=bool(value.get("in_vain", False)),
                test_fails=None if value.get("test_fails") is None else bool(value["test_fails"]),
                lasting=bool(value.get("lasting", False)),
                waited=min(max(0.0, float(value.get("waited", 0.0))), LONGEST_LINGER),
                confirmed=(int(confirmed["hits"]), int(confirmed["tries"])),
                minimised=None
                if made is None
                else Minimised(
                    int(made["messages"]),
                    int(made["bytes"]),
                    float(made["seconds"]),
                    int(made["tries"]),
                    bool(made["done"]),
                ),
                places=set(map(str, value["places"])),
                messages=set(map(str, value["messages"])),
                states=set(map(str, value["states"])),
                causes={Cause(*map(str, cause)) for cause in value["causes"]},
                notes=list(map(str, value["notes"])),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise NoFinding(f"{FINDING}: {error}") from None

    # The folder ------------------------------------------------------------------------------------

    def save(self) -> None:
        """Writes the folder, or what has changed in it; whole files or none, so that it can be killed at any time.

        What another process has put there stays when it is better; see ``_stays``.

        Raises:
            OSError: It cannot be written.
        """
        if self.path is None:
            return
        with _alone_in(self.path.parent):
            if not _stays(_loaded(self.path), self):
                self._save(self.path)

    def _save(self, path: Path) -> None:
        path.mkdir(exist_ok=True)
        _write(path / FIRST, f"{self.first}\n")
        _write(path / SCRIPT, f"{self.script}\n")
        if self.played is not None:
            self._write_capture(path, self.played)
            if self.tested:
                _write(path / TEST, test_of(self.title, str(self.harm), self.node, self.played))
        _write(path / README, readme_of(self))
        # Last: a folder with this file is complete.
        _write(path / FINDING, json.dumps(self.to_json(), ensure_ascii=False, indent=1) + "\n")

    def enter_known(self, known: str) -> None:
        """Writes down that a finding of another part of the run is on the list of known ones by now, or no longer."""
        assert self.path is not None
        self.known = known
        with _alone_in(self.path.parent):
            _write(self.path / FINDING, json.dumps(self.to_json(), ensure_ascii=False, indent=1) + "\n")

    def settle(self) -> None:
        """Gives a folder that was made by `open_folder` the name of the bucket.

        What an earlier part of the run, or another process, has put there is replaced, unless it is better.
        """
        if self.path is None or not self.path.name.startswith(f"{OPEN}-"):
            return
        with _alone_in(self.path.parent):
            settled, there = folder_of(self.path.parent, self.bucket)
            if _stays(there, self):
                shutil.rmtree(self.path)
            else:
                if settled.exists():
                    shutil.rmtree(settled)
                self.path.replace(settled)
            self.path = settled

    def move(self) -> None:
        """Takes the folder along to another name of the bucket; what an earlier part of the run has there is one with it."""
        if self.path is None:
            return
        with _alone_in(self.path.parent):
            moved, there = folder_of(self.path.parent, self.bucket)
            if there is not None:
                self.before += there.hits
                shutil.rmtree(moved)
            self.path.replace(moved)
            self.path = moved

    def _write_capture(self, path: Path, tried: Tried) -> None:
        """Writes the capture of a try, unless it is there: findings are saved with each hit."""
        said = self.bucket, *remarks_of(self)
        there = self.captured
        # Another process may have put another one there.
        if there is not None and there[0] is tried and there[1:] == (said, _inode(path / CAPTURE)):
            return
        beside = path / f".{CAPTURE}.{os.getpid()}"
        with gone_on_failure(beside):
            with CaptureWriter(beside) as capture:
                capture.add(history_in(tried), f"finding: {self.bucket}", remarks_of(self))
            beside.replace(path / CAPTURE)
        self.captured = tried, said, _inode(path / CAPTURE)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads a folder.

        Raises:
            NoFinding: It holds no finding, or a damaged one.
        """
        try:
            script = Script.from_json(_read(folder / SCRIPT))
            first = Script.from_json(_read(folder / FIRST))
            finding = cls.from_json(_read(folder / FINDING), script, first)
        except ScriptError as error:
            raise NoFinding(f"{folder}: {error}") from None
        except NoFinding as error:
            raise NoFinding(f"{folder}: {error}") from None
        finding.path = folder
        return finding


_TEXTS = (
    *("bucket", "status", "known", "oracle", "place", "detail", "state", "message", "field", "mutation"),
    *("campaign", "run", "found_at", "node", "node_impl", "node_version"),
)
_NUMBERS = ("case", "seed", "hits", "masked", "rounds")


def without_line(place: str) -> str:
    """Returns a place without the number of its line, which differs from version to version."""
    return re.sub(r":\d+\b", "", place)


def history_in(tried: Tried) -> History:
    """Returns what went over the links in a try, by the names that the script gives them."""
    names: dict[int, str] = {}
    for step, part in zip(tried.script.steps, tried.parts, strict=False):
        if step.do is Do.REACH and part.link:
            taken = step.link in names.values()
            names[part.link] = f"{step.link} ({part.link})" if taken else step.link
    return history_of(
        tried.events,
        tried.endpoints,
        names=names,
        compressed=tried.links(State.COMPRESSED),
        scouting=tried.links(State.SCOUTING),
    )


def remarks_of(finding: Finding) -> list[str]:
    """Returns what stands at the last packet of the capture."""
    return [f"seen: {finding.detail}", f"verdict: finding {finding.bucket}, {finding.status}"]


def slug_of(bucket: str) -> str:
    """Returns a folder name for a bucket."""
    words = re.sub(r"[^A-Za-z0-9.]+", "-", bucket).strip("-.").lower()
    return words[:100].rstrip("-.") or "finding"


@contextmanager
def _alone_in(below: Path) -> Iterator[None]:
    """Keeps who else writes or replaces findings waiting meanwhile, other processes too; makes their folder."""
    below.mkdir(parents=True, exist_ok=True)
    folder = os.open(below, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def folder_of(below: Path, bucket: str) -> tuple[Path, Finding | None]:
    """Returns the folder of a bucket, and what an earlier part of the run, or another process, has put there."""
    slug, number = slug_of(bucket), 1
    while True:
        path = below / (slug if number == 1 else f"{slug}-{number}")
        if not path.exists():
            return path, None
        try:
            there = Finding.load(path)
        except NoFinding:
            # It may be needed all the same, to find out what went wrong.
            there = None
        if there is not None and there.bucket == bucket:
            return path, there
        number += 1


def _loaded(path: Path) -> Finding | None:
    try:
        return Finding.load(path)
    except NoFinding:
        return None


def _stays(there: Finding | None, finding: Finding) -> bool:
    """Tells whether what is in a folder stays there: it is proven, and the other one is not, or of another case and larger."""
    if there is None or there.status not in PROVEN:
        return False
    if finding.status not in PROVEN:
        return True
    mine = (there.campaign, there.case, there.found_at) == (finding.campaign, finding.case, finding.found_at)
    return not mine and _rank(there) < _rank(finding)


def _rank(finding: Finding) -> tuple[float, int, int]:
    hits, tries = finding.confirmed
    return -hits / tries if tries else 0.0, finding.script.sends, finding.script.size


def open_folder(below: Path, bucket: str) -> Path:
    """Makes a folder, that nobody else has, for what is being looked into; returns it."""
    with _alone_in(below):
        path, _ = folder_of(below, f"{OPEN} {bucket}")
        path.mkdir()
    return path


def left_open(below: Path) -> list[Path]:
    """Returns folders of what nobody has looked into, because a process was killed before it came to that."""
    return sorted(path.parent for path in below.glob(f"{OPEN}-*/{FINDING}"))


def unfinished(below: Path) -> list[Path]:
    """Returns folders of what nobody has looked into, and of what came again and was not made smaller."""
    settled = sorted(path.parent for path in below.glob(f"*/{FINDING}"))
    large = [path for path in settled if (there := _loaded(path)) is not None and there.is_large]
    return [*left_open(below), *large]


def drop_folder(path: Path | None) -> None:
    """Removes the folder of a finding that is told of in another one, as far as it can be removed."""
    if path is not None:
        with _alone_in(path.parent):
            shutil.rmtree(path, ignore_errors=True)


def _write(path: Path, text: str) -> None:
    """Writes a file beside and puts it in place, unless it holds that already."""
    if path.exists() and path.read_text(encoding="utf-8", errors="replace") == text:
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with gone_on_failure(beside):
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)


def _inode(path: Path) -> int:
    """Returns the inode of a file; 0 when there is none."""
    return path.stat().st_ino if path.exists() else 0


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NoFinding(f"{path.name} cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise NoFinding(f"{path.name} is not valid JSON ({error})") from None


# For people --------------------------------------------------------------------------------------------


def readme_of(finding: Finding) -> str:
    """Returns the page of a finding."""
    hits, tries = finding.confirmed
    beside = f" with `--also {finding.also}`" if finding.also else ""
    lines = [
        f"# {finding.bucket}",
        "",
        f"Seen on {finding.impl} {finding.version} (`--node {finding.node}`{beside}): **{_one_line(finding.detail)}**",
        "",
        _truth(finding),
        "",
        "| | |",
        "|---|---|",
        f"| harm | {finding.harm}: {_PURPOSE[finding.harm]} |",
        f"| place | {finding.place or 'unknown'} |",
        f"| oracle | {finding.oracle} |",
        f"| state | {finding.state} |",
        f"| message | {finding.message} |",
        f"| field | {finding.field or '(none: the order of messages, or the whole message)'} |",
        f"| mutation of the first case | {_one_line(finding.mutation) or '(none)'} |",
        f"| campaign | {finding.campaign}, case {finding.case or 'unknown'}, seed {finding.seed} |",
        f"| cases like it | {finding.before + finding.hits}, plus {finding.masked} skipped because of it |",
        f"| on fresh nodes | {f'{hits} of {tries}' if tries else 'in vain' if finding.in_vain else 'not retried'} |",
        f"| minimised | {_shrunk(finding)} |",
    ]
    if finding.known:
        lines.append(f"| known as | {finding.known} |")
    if finding.without:
        lines += ["", _ALONE[finding.without]]
    lines += [f"\n{note}" for note in [*finding.notes, *filter(None, [_together(finding)])]]
    lines += [
        "",
        "## Reproduce",
        "",
        "In this folder:",
        "",
        "```",
        _replay(finding),
        "```",
        "",
        *([_ASKS, ""] if finding.user else []),
        *_files(finding),
        "",
        "## Sent",
        "",
        *_sent(finding),
        "",
        "## Seen",
        "",
        _one_line(finding.detail),
    ]
    if finding.tried is not None:
        lines += ["", "```", *_seen(finding.tried), "```"]
    lines += [
        "",
        "---",
        "",
        "Report a fault in someone else's node privately to its maintainers first (SECURITY.md).",
        "Keep this folder confidential until then.",
        "",
    ]
    return "\n".join(lines)


_PURPOSE = {
    Harm.CRASH: "the process ended",
    Harm.PANIC: "something in the process failed, and it reported that",
    Harm.GONE: "the node no longer listens",
    Harm.STALL: "the process is alive but answers nothing",
    Harm.REFUSING: "the node accepts no new sessions",
    Harm.DEAF: "the node stops answering in a session but does not close it",
    Harm.UNDUE: "the node ended a session that did nothing wrong",
    Harm.DISTURBED: "what others send through the node is lost, late or changed",
    Harm.PAUSE: "the node answers nothing for a while, then recovers",
    Harm.BUSY: "the process uses the CPU while idle",
    Harm.GROWTH: "memory use keeps growing",
    Harm.LEAK: "the number of descriptors, threads or child processes keeps growing",
    Harm.SLOW: "answers take many times as long as at first",
    Harm.UNDECODABLE: "the node sent something that a strict decoder rejects",
    Harm.OVERDUE: "the node does not do what it owes on a silent link",
    Harm.UNCLEAN: "on shutdown, the process dies of something else or reports that something failed",
    Harm.DIFFERS: "another node answers differently",
}


_TESTED = {
    None: "it fails as long as the fault is there.",
    True: "it fails as long as the fault is there; it was run, and failed.",
    False: "**but it was run and passed although the fault is there**, so a pass does not mean that the node is fixed.",
}
_TWO = (
    "The replay starts two nodes, the one above and the one given by `--also`; use `--node` and `--also` for others. "
    "There is no pytest file, because that has only one node, and the script is not minimised, because what is left "
    "might differ for another reason."
)
_NO_FILES = (
    "It was never played on a fresh node, so there is neither a capture nor a test: the script holds what was sent "
    "before it was seen, which may not be enough to reproduce it."
)
_IN_VAIN = (
    "The script holds what was sent before it was seen, which may not be enough: played on a fresh node, it did not show "
    f"the fault. `{CAPTURE}` is the traffic of that, for Wireshark. `pytest {TEST}` plays the same without the fuzzer "
    "(`--node` for another node) and looks for the fault: "
)
_VAIN_TEST = {
    None: "it was not run.",
    True: "it was run, and failed: it does show the fault, at least at times.",
    False: "it was run and passed as well, so **a pass does not mean that the node is fixed**.",
}

_ASKS = "The node asks for a user and a password, which are not kept here: name them, in the test too."

_ALONE = {
    TRAFFIC: "No message of a case is needed: the ordinary traffic of the oracles (opening sessions, publications, queries, "
    "pings) is enough.",
    STATE: "No message of a case is needed: it is enough that links reach their states, with nothing but the ordinary "
    "traffic of the oracles besides.",
}


def _replay(finding: Finding) -> str:
    """Returns the command that shows it again."""
    # Those of earlier releases do not say which the other node was.
    unsaid = finding.harm is Harm.DIFFERS and not finding.also
    return f"zenoh-fuzz replay .{' --also OTHER_NODE' if unsaid else ''}{_user(finding)}"


def _user(finding: Finding) -> str:
    """Returns the option without which the node refuses sessions, or nothing."""
    return " --user NAME:PASSWORD" if finding.user else ""


def _files(finding: Finding) -> list[str]:
    """Returns what the test and the captures are good for."""
    seen = finding.path is not None and (finding.path / WITNESS).exists()
    first = f"`{WITNESS}` is the traffic in the campaign before it was seen first, other cases included."
    return [*_again(finding), *([first] if seen else [])]


def _again(finding: Finding) -> list[str]:
    """Returns what the test is good for, and the capture of what was played again."""
    if finding.harm is Harm.DIFFERS:
        capture = (
            f" `{CAPTURE}` (of {finding.impl} {finding.version}) opens in Wireshark." if finding.shown else ""
        )
        return [f"{_TWO}{capture}"]
    if not finding.shown:
        return [_NO_FILES]
    if finding.in_vain:
        return [f"{_IN_VAIN}{_VAIN_TEST[finding.test_fails]}"]
    tested = _TESTED[finding.test_fails]
    return [
        f"Or, without the fuzzer, `pytest {TEST}`: {tested} Use `--node` to test another node.",
        f"`{CAPTURE}` opens in Wireshark.",
    ]


def _together(finding: Finding) -> str:
    """Returns what has to be said where different faults may have fallen into one bucket."""
    fields = sorted({cause.field or cause.source for cause in finding.causes})
    if len(fields) < 2 or re.search(r"\S+\.\w+:\d+", finding.place):
        return ""
    shown = ", ".join(_one_line(field) for field in fields[:8])
    more = f" and {len(fields) - 8} more" if len(fields) > 8 else ""
    return (
        f"Cases with different mutations fell into this bucket: {shown}{more}. The node does not report where it failed, "
        "so this may be one fault or several. Only the first one was analysed: fuzz again once it is fixed."
    )


def _truth(finding: Finding) -> str:
    hits, tries = finding.confirmed
    match finding.status:
        case "confirmed":
            return f"Confirmed: reproduced on {hits} of {tries} fresh nodes."
        case "seen":
            if finding.harm is Harm.DIFFERS:
                return (
                    "It was seen three times on fresh links to nodes that had been used before; it was not retried on "
                    "fresh nodes."
                )
            often = many(finding.before + finding.hits, "case")
            what = {
                Harm.CRASH: "The process ended, which is beyond doubt",
                Harm.PANIC: "The process reported a failure, which is beyond doubt",
            }.get(finding.harm, f"It was seen in {often} and is beyond doubt")
            again = (
                f"it could not be reproduced reliably ({hits} of {tries} fresh nodes)"
                if tries
                else ("the case responsible could not be identified")
            )
            return f"{what}; but {again}. The script below is what was sent before it."
        case "not reproduced":
            how = f"{hits} of {tries} fresh nodes" if tries else "none of the cases before it reproduced it"
            return (
                f"Not reproduced ({how}): the machine may be the cause, or more than one case may be needed. It does "
                "not fail the run."
            )
        case _:
            return "Not yet retried."


def _shrunk(finding: Finding) -> str:
    made = finding.minimised
    if finding.harm is Harm.DIFFERS:
        return "no"
    if made is None:
        return "not yet"
    how = "" if made.done else ", then time ran out"
    small = f"{many(made.messages, 'message')}, {many(made.size, 'byte')}"
    return f"to {small}, in {made.seconds:.1f} s with {'one try' if made.tries == 1 else f'{made.tries} tries'}{how}"


def many(count: int, noun: str) -> str:
    """Returns so many of something in words."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")[:400]


def _sent(finding: Finding) -> list[str]:
    lines = [
        "Hexadecimal digits; values in braces are filled in on sending: lengths, sequence numbers, ZenohID, cookie.",
        "",
    ]
    if not finding.script.steps:
        return ["Nothing: the ordinary traffic of the oracles is enough."]
    if finding.script.valid:
        lines += ["All of it is valid: a node has no reason to end a session.", ""]
    if finding.rounds > 1:
        digits = any("digits" in step.data.names for step in finding.script.steps)
        fresh = ", each time with other digits" if digits else ""
        lines += [f"All of this up to {finding.plays} times{fresh}:", ""]
    for number, step in enumerate(finding.script.steps, 1):
        link = f"link {step.link}"
        match step.do:
            case Do.REACH:
                lines.append(f"{number}. {link} reaches the state `{step.state}`")
            case Do.SEND:
                often = f" {step.times} times" if step.times > 1 else ""
                slowly = ", byte by byte" if step.bytewise else ""
                note = f": {_one_line(step.note)}" if step.note else ""
                lines += [f"{number}. {link} sends{often}{slowly}{note}", "", "   ```"]
                text = shortened(str(step.data))
                lines += [f"   {text[at : at + 96]}" for at in range(0, min(len(text), 2 * DUMPED), 96)]
                if len(text) > 2 * DUMPED:
                    lines.append(f"   ... ({len(text) - 2 * DUMPED} more digits, see {SCRIPT})")
                lines += ["   ```", ""]
            case _:
                lines.append(f"{number}. {link}: {step.do}")
    return lines


def _seen(tried: Tried) -> list[str]:
    """Returns what went over the links, decoded, with the bytes of what we sent."""
    lines: list[str] = []
    history = history_in(tried)
    began = history.observations[0].time_ns if history.observations else 0
    for seen in history.observations[-200:]:
        arrow = {"sent": "->", "received": "<-", "opened": "--", "ended": "--"}[str(seen.direction)]
        what = seen.describe() or str(seen.direction)
        what = f"{seen.note}: {what}" if seen.note in {"fence", AGAIN} else what
        lines.append(f"{(seen.time_ns - began) / 1e6:9.3f} ms  {seen.link} {arrow} {_clear(what)[:300]}")
        if seen.direction == "sent":
            lines += dump(seen.raw)
    return lines


def _clear(text: str) -> str:
    return "".join(char if char.isprintable() else "." for char in text).replace("```", "'''")


def dump(data: bytes, most: int = 256) -> list[str]:
    """Returns bytes as lines with offset, hexadecimal digits and characters."""
    lines = []
    for at in range(0, min(len(data), most), 16):
        part = data[at : at + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 and byte != 0x60 else "." for byte in part)
        lines.append(f"              {at:04x}  {part.hex(' '):<47}  {text}")
    if len(data) > most:
        lines.append(f"              ... {len(data) - most} more bytes")
    return lines
