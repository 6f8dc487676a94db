"""Plays scripts: all links in one loop, no threads. A step that waits lets the others of a parallel group go on."""

# ruff: noqa: ARG002  (all steps are called alike, with where they stand)

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from functools import singledispatchmethod
from typing import Any, TypeVar

from conformance.errors import HarnessError, LinkFailed, LocalError, Unmet
from conformance.tester import steps
from conformance.tester.ends import End
from conformance.tester.group import GroupEnd
from conformance.tester.hearing import Hearing
from conformance.tester.listener import ListenerEnd
from conformance.tester.played import AnyEnd, Failure, Path, Played, Skipped, dotted
from conformance.tester.said import Fields, Said, network_message
from conformance.tester.scout import DatagramEnd, ResponderEnd, ScoutEnd
from conformance.tester.script import Script, digest
from conformance.tester.session import SessionEnd
from conformance.tester.steps import Step
from conformance.tester.tester import Tester
from conformance.tester.values import ScriptError, message_class, read, unhex
from scapy_layers.message import Message
from scapy_layers.network import Interest, Request
from scapy_layers.scouting import Hello
from scapy_layers.transport import Close, Init, Open

Wait = tuple[Callable[[], bool], float]
"""A condition, and seconds after which to go on without it."""

Going = Iterator[Wait]

E_ = TypeVar("E_")


def play(tester: Tester, script: Script, *, lenient: bool = False) -> Played:
    """Plays a script; it ends at the first expectation that is not met.

    Args:
        tester: Makes the ends; they live on when the script is over.
        script: What to do.
        lenient: A step that has no meaning any more (its link is not there, the session cannot send) is passed
            over with a note.

    Returns:
        What came of it.

    Raises:
        ScriptError: A step has no meaning, unless lenient.
        LinkFailed: A link cannot be made, unless lenient.
    """
    return Player(tester, script, lenient=lenient).run()


class _Stop(Exception):
    """An expectation was not met: the script is over."""


class _Meaningless(Exception):
    """A step has no meaning where it stands."""


class Player:
    """Plays one script once."""

    def __init__(self, tester: Tester, script: Script, *, lenient: bool) -> None:
        self._tester = tester
        self._script = script
        self._lenient = lenient
        self.played = Played(script, tester.history)

    def run(self) -> Played:
        """Plays it; see ``play``."""
        try:
            for condition, seconds in self._all(self._script.steps, ()):
                self._tester.links.wait(condition, seconds)
        except _Stop:
            pass
        return self.played

    def _all(self, group: tuple[Step, ...], at: Path) -> Going:
        for index, step in enumerate(group):
            yield from self._one(step, (*at, index))

    def _one(self, step: Step, path: Path) -> Going:
        try:
            for name in step.links:
                if name not in self.played.ends:
                    raise _Meaningless(f"there is no link {name!r}")
            yield from self._do(step, path)
            self.played.done += 1
        except Unmet as unmet:
            self.played.failure = Failure(path, step, unmet.expected, unmet.seen, unmet.detail)
            self._note(str(self.played.failure))
            raise _Stop from None
        except (_Meaningless, LocalError, HarnessError, ValueError) as error:
            if not self._lenient:
                if isinstance(error, LinkFailed | ScriptError):
                    raise
                raise ScriptError(f"step {dotted(path)}: {error}") from None
            self.played.skipped.append(Skipped(path, step, str(error)))
            self._note(f"step {dotted(path)} passed over: {error}")

    def _note(self, text: str) -> None:
        self._tester.history.annotate(text)

    def _end(self, name: str, kind: type[E_]) -> E_:
        """Returns the end of a name.

        Raises:
            _Meaningless: It is of another kind.
        """
        end = self.played.ends[name]
        if not isinstance(end, kind):
            raise _Meaningless(f"{name!r} is no {_called(kind)}")
        return end

    def _hearing(self, name: str) -> Hearing:
        """Returns an end at which messages arrive.

        Raises:
            _Meaningless: It is a listener.
        """
        end = self.played.ends[name]
        if isinstance(end, ListenerEnd):
            raise _Meaningless(f"{name!r} is a listener, nothing arrives at it")
        return end

    def _fields(self, fields: Fields, name: str) -> dict[str, Any]:
        end = self.played.ends[name]
        return {key: read(value, lambda live: self._live(end, live), key) for key, value in fields.items()}

    def _messages(self, said: tuple[Said, ...], name: str) -> list[Message | bytes]:
        end = self.played.ends[name]
        return [one.message(lambda live: self._live(end, live)) for one in said]

    def _live(self, end: AnyEnd, name: str) -> Any:
        """Returns a value that only a running link knows.

        Raises:
            _Meaningless: This one does not know it.
        """
        values: dict[str, Callable[[], Any]] = {
            "cookie": lambda: _last(end, Init, A=1).cookie,
            "node_zid": lambda: _last(end, Init).zid,
            "request_id": lambda: _last(end, Request).request_id,
            "interest_id": lambda: _last(end, Interest).interest_id,
            "zid": lambda: self._zid(end),
            "sn": lambda: self._sn(end, reliable=True),
            "sn_be": lambda: self._sn(end, reliable=False),
        }
        return values[name]()

    def _zid(self, end: AnyEnd) -> bytes:
        if isinstance(end, SessionEnd):
            return end.session.config.zid
        if isinstance(end, GroupEnd):
            return end.group.config.zid
        return self._tester.fresh_zid()

    @staticmethod
    def _sn(end: AnyEnd, *, reliable: bool) -> int:
        if not isinstance(end, SessionEnd):
            raise _Meaningless("an end without a session has no sequence numbers")
        return end.session.take_sn(reliable=reliable)

    # Steps -----------------------------------------------------------------------------------------------

    @singledispatchmethod
    def _do(self, step: Step, path: Path) -> Going:
        """Does one step; yields what it waits for."""
        raise ScriptError(f"step {dotted(path)}: {type(step).__name__} cannot be played")

    def _keep(self, name: str, end: AnyEnd) -> None:
        self.played.ends[name] = end

    def _new(self, name: str) -> str:
        """Returns the name of a new link.

        Raises:
            _Meaningless: The script has one of that name.
        """
        if name in self.played.ends:
            raise _Meaningless(f"there is a link {name!r} already")
        return name

    @_do.register
    def _(self, step: steps.Connect, path: Path) -> Going:
        self._keep(step.link, self._tester.link(step.locator or None, name=self._new(step.link)))
        yield from ()

    def _start(self, step: steps.Start) -> SessionEnd:
        end = self._tester.starting(
            name=self._new(step.link),
            locator=step.locator or None,
            whatami=step.whatami,
            zid=unhex(step.zid) or None,
            lease=step.lease,
            initial_sn=step.initial_sn,
            user=(step.user.encode(), step.password.encode()) if step.user else None,
            **step.offer,
        )
        self._keep(step.link, end)
        return end

    @_do.register
    def _(self, step: steps.Start, path: Path) -> Going:
        self._start(step)
        yield from ()

    @_do.register
    def _(self, step: steps.Session, path: Path) -> Going:
        yield from self._open(self._start(step))

    def _open(self, end: SessionEnd) -> Going:
        end.begin()
        yield from self._finish(end)

    def _finish(self, end: SessionEnd) -> Going:
        yield end.looking_for(end.fitting(Open, {"A": 1})), self._tester.reply
        end.finish(within=0)

    @_do.register
    def _(self, step: steps.Listen, path: Path) -> Going:
        self._keep(step.link, self._tester.listen(step.locator, name=self._new(step.link)))
        yield from ()

    @_do.register
    def _(self, step: steps.Accept, path: Path) -> Going:
        listener = self._end(step.listener, ListenerEnd)
        name = self._new(step.link)
        yield lambda: listener.called, self._seconds(step.within)
        if step.session:
            users = {user.encode(): str(word).encode() for user, word in step.users.items()}
            end: End = listener.accept(
                0,
                whatami=step.whatami,
                zid=unhex(step.zid) or None,
                lease=step.lease,
                initial_sn=step.initial_sn,
                cookie=unhex(step.cookie) or None,
                users=users or None,
                **step.offer,
            )
        else:
            end = listener.accept_link(0)
        self._keep(name, end)

    @_do.register
    def _(self, step: steps.OpenScout, path: Path) -> Going:
        self._keep(step.link, self._tester.scout(step.locator, name=self._new(step.link)))
        yield from ()

    @_do.register
    def _(self, step: steps.OpenResponder, path: Path) -> Going:
        end = self._tester.responder(
            step.locator,
            *(step.answers or ()),
            name=self._new(step.link),
            zid=unhex(step.zid) or None,
            whatami=step.whatami,
        )
        self._keep(step.link, end)
        yield from ()

    @_do.register
    def _(self, step: steps.OpenGroup, path: Path) -> Going:
        end = self._tester.group(
            step.locator,
            name=self._new(step.link),
            whatami=step.whatami,
            zid=unhex(step.zid) or None,
            lease=step.lease,
            join=step.join,
            **step.offer,
        )
        self._keep(step.link, end)
        yield from ()

    @_do.register
    def _(self, step: steps.Handshake, path: Path) -> Going:
        fields = self._fields(step.fields, step.link)
        if step.part in {"join", "leave"}:
            group = self._end(step.link, GroupEnd)
            getattr(group, step.part)(**fields)
            return
        end = self._end(step.link, SessionEnd)
        if step.part == "open":
            yield from self._open(end)
        elif step.part == "finish":
            yield from self._finish(end)
        elif step.part == "serve":
            yield from self._serve(end)
        elif step.part.startswith("take_"):
            yield from self._take(end, step.part, fields)
        else:
            getattr(end, step.part)(**fields)

    def _take(self, end: SessionEnd, part: str, fields: dict[str, Any]) -> Going:
        cls = Init if "init" in part else Open
        yield end.looking_for(end.fitting(cls, {"A": int("ack" in part)})), self._tester.reply
        getattr(end, part)(within=0, **fields)

    def _serve(self, end: SessionEnd) -> Going:
        yield from self._take(end, "take_init_syn", {})
        ack = end.init_ack()
        yield from self._take(end, "take_open_syn", {"cookie": bytes(ack.cookie)})
        end.open_ack()

    @_do.register
    def _(self, step: steps.Send, path: Path) -> Going:
        messages = self._messages(step.messages, step.link)
        end = self.played.ends[step.link]
        if isinstance(end, DatagramEnd):
            end.send(*messages)
        else:
            self._end(step.link, End).send(*messages, length=step.length)
        yield from ()

    @_do.register
    def _(self, step: steps.Post, path: Path) -> Going:
        end = self.played.ends[step.link]
        if not isinstance(end, SessionEnd | GroupEnd):
            raise _Meaningless(f"{step.link!r} has no session")
        for said in self._messages(step.messages, step.link):
            message = said if isinstance(said, Message) else network_message(said)
            end.post(message, reliable=step.reliable, priority=step.priority)
        yield from ()

    @_do.register
    def _(self, step: steps.Answer, path: Path) -> Going:
        fields = self._fields(step.fields, step.link)
        self._end(step.link, ResponderEnd).reply(*step.locators, **fields)
        yield from ()

    @_do.register
    def _(self, step: steps.Raw, path: Path) -> Going:
        self._end(step.link, End).send_raw(unhex(step.hex))
        yield from ()

    @_do.register
    def _(self, step: steps.Hold, path: Path) -> Going:
        self._end(step.link, End).hold()
        yield from ()

    @_do.register
    def _(self, step: steps.Release, path: Path) -> Going:
        self._end(step.link, End).release(step.count)
        yield from ()

    @_do.register
    def _(self, step: steps.Chunk, path: Path) -> Going:
        self._end(step.link, End).chunk(step.sizes)
        yield from ()

    @_do.register
    def _(self, step: steps.HalfClose, path: Path) -> Going:
        self._end(step.link, End).half_close()
        yield from ()

    @_do.register
    def _(self, step: steps.Abort, path: Path) -> Going:
        self._end(step.link, End).abort()
        yield from ()

    @_do.register
    def _(self, step: steps.Close, path: Path) -> Going:
        end = self.played.ends[step.link]
        if isinstance(end, SessionEnd | GroupEnd):
            end.close(step.reason)
        else:
            end.close()
        yield from ()

    @_do.register
    def _(self, step: steps.EndLink, path: Path) -> Going:
        end = self.played.ends[step.link]
        if isinstance(end, End):
            end.link.close()
        else:
            end.close()
        yield from ()

    @_do.register
    def _(self, step: steps.Bend, path: Path) -> Going:
        if not step.link:
            self._tester.bend(step.bend)
        else:
            end = self.played.ends[step.link]
            if not isinstance(end, SessionEnd | GroupEnd):
                raise _Meaningless(f"{step.link!r} has no session, nothing of it is bent")
            end.bend(step.bend)
        yield from ()

    @_do.register
    def _(self, step: steps.Advance, path: Path) -> Going:
        yield lambda: False, step.seconds

    @_do.register
    def _(self, step: steps.Note, path: Path) -> Going:
        self._tester.note(step.text)
        yield from ()

    # Expectations ------------------------------------------------------------------------------------------

    @_do.register
    def _(self, step: steps.Expect, path: Path) -> Going:
        end = self._hearing(step.link)
        cls = message_class(step.message)
        fields = self._fields(step.fields, step.link)
        yield end.looking_for(end.fitting(cls, fields if step.passing else {})), self._seconds(step.within)
        (end.until if step.passing else end.expect)(cls, within=0, **fields)

    @_do.register
    def _(self, step: steps.ExpectRefusal, path: Path) -> Going:
        end = self._end(step.link, End)
        unless = message_class(step.unless)
        yield end.looking_for(lambda seen: isinstance(seen.message, Close | unless)), self._tester.reply
        end.expect_refusal(step.reason, unless=unless, within=0)

    @_do.register
    def _(self, step: steps.ExpectEnd, path: Path) -> Going:
        end = self._end(step.link, End)
        yield lambda: end.over, self._seconds(step.within)
        end.expect_end(within=0)

    @_do.register
    def _(self, step: steps.ExpectNothing, path: Path) -> Going:
        end = self._hearing(step.link)
        classes = tuple(message_class(name) for name in step.messages)
        fields = self._fields(step.fields, step.link)
        start = end.position()
        yield from self._all(step.fence, (*path, 0))
        end.judge_nothing(classes, fields, start)

    @_do.register
    def _(self, step: steps.Fence, path: Path) -> Going:
        end = self.played.ends[step.link]
        if isinstance(end, ScoutEnd):
            asker = end.ask_ping()
            yield asker.looking_for(asker.fitting(Hello, {})), self._tester.reply
            asker.expect(Hello, within=0)
            yield lambda: False, 0.0
        elif isinstance(end, SessionEnd):
            number = end.ask_fence()
            yield end.looking_for(lambda seen: end.answers_fence(seen, number)), self._tester.reply
            end.take_fence(number, within=0)
        else:
            raise _Meaningless(f"{step.link!r} is no session and does not scout: nothing answers a fence")

    # Several -------------------------------------------------------------------------------------------------

    @_do.register
    def _(self, step: steps.Choose, path: Path) -> Going:
        if step.options:
            # By what is chosen from, not by how much was chosen before: taking out a step changes no other choice.
            rng = random.Random(f"{self._script.seed} {digest(step)}")
            at = rng.randrange(len(step.options))
            self._note(f"chosen: option {at + 1} of {len(step.options)} in step {dotted(path)}")
            yield from self._all(step.options[at], (*path, at))

    @_do.register
    def _(self, step: steps.Parallel, path: Path) -> Going:
        running = [_Track(self._all(group, (*path, number))) for number, group in enumerate(step.groups)]
        while running := [track for track in running if track.go_on()]:
            until = min(track.deadline for track in running)
            waiting = tuple(running)
            yield (
                lambda waiting=waiting: any(track.ready() for track in waiting),  # type: ignore[misc]
                max(0.0, until - time.monotonic()),
            )

    def _seconds(self, within: float | None) -> float:
        return self._tester.reply if within is None else within


class _Track:
    """One group of a parallel step."""

    def __init__(self, going: Going) -> None:
        self._going = going
        self._condition: Callable[[], bool] | None = None
        self.deadline = 0.0

    def ready(self) -> bool:
        """It need not wait any more."""
        return self._condition is None or self._condition() or time.monotonic() >= self.deadline

    def go_on(self) -> bool:
        """Goes on as far as it can without waiting; tells whether there is more to do."""
        while self.ready():
            wait = next(self._going, None)
            if wait is None:
                return False
            self._condition, seconds = wait
            self.deadline = time.monotonic() + seconds
            if seconds == 0.0:
                # It wants one turn of the loop, not an answer at once.
                return True
        return True


def _last(end: AnyEnd, cls: type[Message], **wanted: Any) -> Any:
    """Returns the last message of a class that came in.

    Raises:
        _Meaningless: None came.
    """
    if isinstance(end, Hearing):
        fits = end.fitting(cls, wanted)
        for seen in reversed(end.inbox):
            if fits(seen):
                return seen.message
    raise _Meaningless(f"no {cls.shape().name} came from which a value could be taken")


def _called(kind: type[Any]) -> str:
    names = {SessionEnd: "session", ListenerEnd: "listener", ResponderEnd: "responder", GroupEnd: "group"}
    return names.get(kind, "link")
