"""Brings links into states, sends what a case says, and sees what becomes of it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache

from conformance.observe import Direction
from conformance.tester import Fencing, fresh_zid
from fuzz.player.answers import FENCE_ID, Answer, Answers
from fuzz.player.doors import Door, NoLink
from fuzz.player.fitting import CRAMPED, batches, fits, fitted, room_of
from fuzz.player.pipe import FIRST_SN, Pipe
from fuzz.player.tasks import GivenUp, Task, Wait, run
from fuzz.player.trace import Trace
from fuzz.script import Do, Script, Step, Template
from fuzz.states import FACTS, State
from scapy_layers import extensions as ext
from scapy_layers.batch import prefixed
from scapy_layers.codes import InterestMode
from scapy_layers.data import Query
from scapy_layers.message import Message
from scapy_layers.network import Interest, Request
from scapy_layers.primitives import write_vle
from scapy_layers.transport import Close, Frame, Init, Open

PATIENCE = 0.004
"""Seconds in which a node on loopback answers a fence when nothing is wrong; a hundred times what it takes."""

ENDING = 0.05
"""Seconds that a link may live on behind CLOSE before we end it: some nodes never do."""

HEARING, OWED_HEARING = 0.02, 0.2
"""Seconds that a step waits for an answer that other steps need; behind what is valid, which is owed one. It goes on
without it."""

FENCE_KEY = "@zenoh-harness/fence"
"""A key that nobody serves; a verbatim chunk, so that no wild card of a stimulus matches it."""


class NotReached(Exception):
    """A link did not come into a state; the message says why."""


class Ending(StrEnum):
    """What became of a stimulus; the names of ``rows.FUZZ_VERDICTS``.

    ``accepted``: the node went on. ``closed``: it sent CLOSE. ``refused``: it ended the link without a word.
    ``silent``: it neither answered in time nor ended the link.
    """

    ACCEPTED = "accepted"
    CLOSED = "closed"
    REFUSED = "refused"
    SILENT = "silent"


@dataclass(slots=True)
class Played:
    """What became of a case.

    Attributes:
        ending: In one word.
        answers: What came back behind the stimulus, fences aside.
        sent: What left, in order; lengths in front included.
        rtt: Seconds from the stimulus to the answer of the fence; of all steps together.
        late: Seconds for which nothing came before a fence was answered; the longest.
        start: Position in the trace.
        links: Numbers of the links that were used.
        failure: The state was not reached: why. Nothing was learned then.
        by_itself: The node ended the link itself.
        torn: The node stopped to read what was sent.
        deaf: On one of the links the node answers nothing any more, though its session is not ended.
        session_ended: The node ended a session, by CLOSE or without a word.
        in_vain: How often the node did not answer between two steps in a session that goes on.
        valid: All that is sent is as it should be, as far as it is known; what was sent without an answer that it needs
            is not.
    """

    ending: Ending = Ending.SILENT
    answers: list[Answer] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)
    rtt: float = 0.0
    late: float = 0.0
    start: int = 0
    links: set[int] = field(default_factory=set)
    failure: str = ""
    by_itself: bool = False
    deaf: bool = False
    torn: bool = False
    session_ended: bool = False
    in_vain: int = 0
    valid: bool = False

    @property
    def close(self) -> int | None:
        """The reason of the first CLOSE that came back; None when none did."""
        return next((answer.close for answer in self.answers if answer.close is not None), None)

    @property
    def shape(self) -> str:
        """What the answers look like together: the signal for something new."""
        return " | ".join([*(answer.shape for answer in self.answers), str(self.ending)])

    @property
    def names(self) -> list[str]:
        """Names of the messages that came back; ``EOF`` when the node ended the link."""
        names = [name for answer in self.answers for name in answer.names]
        return [*names, "EOF"] if self.by_itself else names

    @property
    def refused(self) -> str:
        """The first answer that a strict decoder refuses: why."""
        return next((answer.refused for answer in self.answers if answer.refused), "")


Reach = Callable[["Player", Pipe], "Task[None]"]

REACH: dict[State, Reach] = {}
"""Brings a link from the state before into a state. To add a state, add it in ``states`` and register this."""


def reach(state: State) -> Callable[[Reach], Reach]:
    """Registers how a state is reached."""

    def register(function: Reach) -> Reach:
        REACH[state] = function
        return function

    return register


Settle = Callable[["Player", Pipe, Played], "Task[None]"]

SETTLE: dict[State, Settle] = {}
"""Sees what becomes of a stimulus in states in which the node cannot be asked on the link itself."""


def settling(state: State) -> Callable[[Settle], Settle]:
    """Registers how it is seen in a state what became of a stimulus."""

    def register(function: Settle) -> Settle:
        SETTLE[state] = function
        return function

    return register


class Player:
    """Plays steps against one node.

    Args:
        door: Where links come from.
        reply: T1: seconds that an answer may take.
        fencing: How the node can be asked whether it is done.
        rng: Draws ZenohIDs.
        trace: Remembers what went over the links; a new one when None.
        answers: Recognises answers; shared between the players of one campaign.

    Attributes:
        links: Those that live or lived, by name.
        helpers: Links of ours that states need beside them, by name; they outlive cases.
        patience: Seconds in which the node answers a fence when nothing is wrong.
        nth_play: Which of many plays this is: keys with ``digits`` are others in each.
        at_work: Tells whether the node's process computes although nothing is asked of it, as far as anybody knows.
    """

    def __init__(
        self,
        door: Door,
        reply: float,
        fencing: Fencing = Fencing.QUERY,
        rng: random.Random | None = None,
        trace: Trace | None = None,
        answers: Answers | None = None,
    ) -> None:
        self.door = door
        self.reply = reply
        self.patience = PATIENCE
        self.nth_play = 0
        self.at_work: Callable[[], bool] = lambda: False
        self.fencing = fencing
        self.rng = rng or random.Random()
        self.trace = trace or Trace()
        self.answers = answers or Answers()
        self.links: dict[str, Pipe] = {}
        self.helpers: dict[str, Pipe] = {}

    # Steps -----------------------------------------------------------------------------------------

    def play(self, script: Script, hopeless: Callable[[], bool] | None = None) -> Played:
        """Plays all steps on fresh links, waits for what becomes of them, and closes the links.

        Args:
            script: What is played.
            hopeless: Tells, while something is waited for, that the node has failed.
        """
        return run(self.playing(script), hopeless)

    def playing(self, script: Script) -> Task[Played]:
        """The same as a task."""
        self.close()
        played = Played(start=self.trace.end, valid=script.valid)
        try:
            yield from self.steps(script.steps, played)
            yield from self.conclude(played)
        except (NotReached, GivenUp) as error:
            played.failure = str(error)
        finally:
            self.close()
        return played

    def steps(self, steps: tuple[Step, ...], played: Played) -> Task[None]:
        """Plays steps on the links that there are.

        Raises:
            NotReached: A link does not come into its state.
        """
        began = time.perf_counter()
        last = len(steps) - 1
        for index, step in enumerate(steps):
            yield from self._step(step, played, last=index == last)
        played.rtt = time.perf_counter() - began

    def _step(self, step: Step, played: Played, *, last: bool) -> Task[None]:  # noqa: C901  (one case each)
        if step.do is Do.REACH:
            assert step.state is not None
            yield from self.reaching(step.state, step.link)
            return
        pipe = self.links.get(step.link)
        if pipe is None:
            raise NotReached(f"there is no link {step.link!r}; it needs a 'reach' step first")
        played.links.add(pipe.number)
        match step.do:
            case Do.SEND:
                self._send(pipe, step, played, last=last)
            case Do.PAUSE:
                pipe.paused = True
            case Do.RESUME:
                pipe.paused = False
                pipe.receive()
            case Do.FINISH:
                pipe.finish()
            case Do.CLOSE:
                pipe.close()
            case Do.RESET:
                pipe.reset()
            case Do.SETTLE:
                yield from self._catch_up(pipe, played)
            case Do.AWAIT:
                yield from self._hear(pipe, played)

    def _catch_up(self, pipe: Pipe, played: Played) -> Task[None]:
        """Waits between two steps until the node has dealt with what was sent on a link, which goes on.

        In a session whose numbers are spoiled it answers nothing: of many, only the first are waited for as long as T1.
        """
        wanted = None if pipe.paused else self.fence(pipe)
        seconds = self.reply if played.in_vain < IN_VAIN else max(HEARING, self.patience)
        answered = yield from self._await(pipe, wanted, HEARING if wanted is None else seconds)
        played.in_vain += wanted is not None and not answered and not pipe.ended
        pipe.heard = len(pipe.inbox)

    def _send(self, pipe: Pipe, step: Step, played: Played, *, last: bool) -> None:
        pipe.nth_play = self.nth_play
        for pipe.turn in range(step.times):
            data = filled(step.data, pipe)
            if len(played.sent) < MOST_SENT:
                played.sent.append(data)
            bytewise = step.bytewise and len(data) <= MOST_BYTEWISE
            if pipe.stream:
                whole, data = data, fitted(data, pipe)
                played.valid = played.valid and (data is not whole or fits(data, pipe))
            # A fence follows behind the last step: both leave in one segment. Of several links another one is asked first.
            follows = last and pipe.turn == step.times - 1 and len(self.links) == 1
            more = follows and self._question(pipe) is not None
            if not pipe.send(data, step.note, bytewise=bytewise, more=more):
                played.torn |= pipe.torn
                break
            if step.times > 1:
                pipe.receive()

    def _hear(self, pipe: Pipe, played: Played) -> Task[None]:
        """Waits a moment for the next answer. A link whose handshake was played by hand is in a session behind it."""
        deadline = time.perf_counter() + (OWED_HEARING if played.valid else HEARING)
        pipe.receive()
        while len(pipe.inbox) <= pipe.heard and not pipe.ended:
            if time.perf_counter() >= deadline:
                played.valid = False
                break
            yield Wait(pipe, deadline)
            pipe.receive()
        pipe.heard = len(pipe.inbox)
        for answer in pipe.inbox:
            if "INIT" in answer.names:
                pipe.sn_mask = mask_of(answer.batch, pipe) or pipe.sn_mask
                pipe.facts["room"] = room_of(answer.batch)
            elif "OPEN" in answer.names and pipe.state in (State.CONNECTED, State.INIT_ACKED):
                pipe.state = State.OPEN
            elif "OPEN" in answer.names and pipe.state is State.INIT_RECEIVED:
                pipe.state = State.OPEN_RECEIVED
            elif "FRAME" in answer.names and pipe.state is State.OPEN_RECEIVED:
                pipe.state = State.ACCEPTED

    def conclude(self, played: Played) -> Task[None]:
        """Asks the node on its links whether it is done, and waits for the answer, a CLOSE or the end.

        Args:
            played: What became of the case so far; completed.
        """
        began = time.perf_counter()
        for pipe in list(self.links.values()):
            yield from self.settle(pipe, played)
        played.rtt += time.perf_counter() - began

    def settle(self, pipe: Pipe, played: Played) -> Task[None]:
        """Waits until the node has dealt with what was sent on a link, as far as it can be asked."""
        played.links.add(pipe.number)
        pipe.paused = False
        if pipe.state in SETTLE:
            yield from SETTLE[pipe.state](self, pipe, played)
            return
        wanted = self.fence(pipe)
        owed = played.valid and wanted is not None
        answered = yield from self._await(pipe, wanted, self.reply if owed else self.patience)
        lanes, deaf = pipe.state is not State.LOW_LATENCY, False
        if not answered and wanted is not None and lanes and self._in_step(pipe, played):
            answered, deaf = yield from self._ask_in_all_ways(pipe, played)
        if not answered and not pipe.ended:
            # The node ends its side once it has dealt with all that came before.
            pipe.finish()
            answered = yield from self._await(pipe, wanted, self.reply if pipe.stream else self.patience)
            # What answers now was only slow: how long shows as a pause.
            played.deaf |= deaf and not answered
        for helper in pipe.facts.get("helpers", ()):
            # Nobody looks at what the node says there, but it must not have to wait for us.
            helper.receive()
        inbox = pipe.take()
        if answered:
            pipe.late = max(pipe.late, pipe.silent)
        played.late, pipe.late, pipe.silent = max(played.late, pipe.late), 0.0, 0.0
        reason = next((answer.close for answer in inbox if answer.close is not None), None)
        by_itself = bool(pipe.ended) and not pipe.by_us and not pipe.finished
        played.by_itself |= by_itself
        # A node may answer our end with CLOSE.
        in_session = pipe.state is not None and FACTS[pipe.state].session and not pipe.finished
        played.session_ended |= in_session and (by_itself or reason is not None)
        played.answers += [answer for answer in inbox if not answer.fence]
        if reason is not None:
            played.ending = Ending.CLOSED
        elif answered:
            played.ending = Ending.ACCEPTED
        elif pipe.ended and not pipe.finished:
            played.ending = Ending.REFUSED
        elif any(not answer.fence for answer in inbox) and wanted is None:
            played.ending = Ending.ACCEPTED
        else:
            played.ending = Ending.SILENT

    def _in_step(self, pipe: Pipe, played: Played) -> bool:
        """Tells whether a session is owed an answer: all that was sent on it are whole batches, and neither side ends it.

        In a batch that is longer than what came of it a node waits for the rest, and takes our questions for that. Over
        very much, on whatever links, it may take its time. Into a batch of the size that was agreed an answer has to fit.
        """
        start = max(played.start, pipe.since)
        if pipe.ended or pipe.finished or pipe.torn or not pipe.stream or self.trace.first > start:
            return False
        if 0 < pipe.facts.get("room", 0) < CRAMPED:
            return False
        if any(answer.close is not None for answer in pipe.inbox):
            return False
        of_all = (one.raw for one in self.trace.since(played.start) if one.direction is Direction.SENT)
        if sum(map(len, of_all)) > MOST_OWED:
            return False
        mine = (event for event in self.trace.since(start) if event.link == pipe.number)
        return is_whole(b"".join(one.raw for one in mine if one.direction is Direction.SENT), pipe.prefix)

    def _ask_in_all_ways(self, pipe: Pipe, played: Played) -> Task[tuple[bool, bool]]:
        """Asks the node once more in a session, so that numbers that were spoiled do not matter.

        Tells whether it answers, and whether it seems to be deaf there.
        """
        if (yield from self._await(pipe, pipe.fences, HEARING)) or not self._in_step(pipe, played):
            return pipe.finals >= pipe.fences, False
        assert pipe.state is not None
        wanted = pipe.finals + 1
        for question in questions_of(self.fencing, pipe.state, (pipe.sn, pipe.sn_be), pipe.sn_mask):
            pipe.send(question.fill(pipe), AGAIN)
        heard = len(pipe.inbox)
        answered = yield from self._await(pipe, wanted, DEAF_TIMES * self.reply)
        # While it still answers what came before it has not come to our questions.
        speaks = any(not one.fence and one.names != ("KEEP_ALIVE",) for one in pipe.inbox[heard:])
        quiet = not answered and not speaks and self._in_step(pipe, played)
        deaf = False
        # Asked now: what it computes for a link ends with that.
        if quiet and not self.at_work():
            # It may have come to rest because it has answered by now, or ended the link.
            answered = yield from self._await(pipe, wanted, 0.0)
            deaf = not answered and self._in_step(pipe, played)
        # Its numbers are no good any more.
        pipe.finish()
        return answered, deaf

    def _question(self, pipe: Pipe) -> Template | None:
        """Returns what asks the node on a link whether it is done; None when it cannot be asked there."""
        state = pipe.state
        if pipe.ended or state is None or not FACTS[state].session:
            return None
        return question_of(self.fencing, state, stream=pipe.stream)

    def fence(self, pipe: Pipe) -> int | None:
        """Asks the node in a session whether it is done; returns how many answers show it, None if it cannot be asked."""
        question = self._question(pipe)
        if question is None:
            return None
        pipe.fences += 1
        pipe.send(question.fill(pipe), "fence")
        return pipe.fences

    def say(self, pipe: Pipe, messages: bytes, note: str, *, fence: bool = True) -> None:
        """Sends network messages.

        Args:
            pipe: Where.
            messages: One behind the other.
            note: For people.
            fence: One follows at once: both leave in one segment, if the node can be asked.
        """
        more = fence and self._question(pipe) is not None
        for batch in batches(messages, pipe):
            pipe.send(prefixed(batch) if pipe.stream else batch, note, more=more)

    def fenced(self, pipe: Pipe) -> Task[None]:
        """Waits for the answer of a fence and takes what came up to it; a node that cannot be asked is not waited for.

        Raises:
            NotReached: The link ends, or T1 passes.
        """
        wanted = self.fence(pipe)
        if wanted is None:
            return
        answered = yield from self._await(pipe, wanted, self.reply)
        if not answered:
            reason = next((answer.close for answer in pipe.inbox if answer.close is not None), None)
            seen = (
                f"CLOSE (reason {reason})"
                if reason is not None
                else f"the end of the link ({pipe.ended})"
                if pipe.ended
                else f"nothing within {self.reply:g} s"
            )
            raise NotReached(f"expected the answer to a fence, got {seen}")
        pipe.take()

    def _await(self, pipe: Pipe, wanted: int | None, seconds: float) -> Task[bool]:
        """Waits for the answer of a fence, or for any answer where there is none, or for the end.

        Behind CLOSE nothing more comes; that the link ends is not waited for as long.
        """
        deadline = time.perf_counter() + seconds
        seen, quiet = 0, 0.0
        while True:
            pipe.receive()
            if any(answer.close is not None for answer in pipe.inbox[seen:]):
                deadline = min(deadline, time.perf_counter() + ENDING)
            seen = len(pipe.inbox)
            if wanted is not None and pipe.finals >= wanted:
                pipe.late = max(pipe.late, quiet)
                return True
            if pipe.ended:
                return False
            if wanted is None and any(not answer.close for answer in pipe.inbox) and not pipe.finished:
                return True
            if time.perf_counter() >= deadline:
                if wanted is not None:
                    pipe.silent = max(pipe.silent, quiet)
                return False
            quiet += yield Wait(pipe, deadline)

    # States ----------------------------------------------------------------------------------------

    def reach(self, state: State, name: str = "a") -> Pipe:
        """Makes a link and brings it into a state. See ``reaching``."""
        return run(self.reaching(state, name))

    def reaching(self, state: State, name: str = "a") -> Task[Pipe]:
        """Makes a link and brings it into a state.

        Raises:
            NotReached: There is no link, or the node does not go along.
        """
        old = self.links.pop(name, None)
        if old is not None:
            old.close()
        pipe = self.links[name] = yield from self.linking(self.door)
        pipe.others = self.links
        yield from self._bring(pipe, state)
        return pipe

    def helping(self, state: State, name: str, door: Door) -> Task[Pipe]:
        """The same for a helper.

        Raises:
            NotReached: There is no link, or the node does not go along.
        """
        pipe = yield from self.linking(door)
        try:
            yield from self._bring(pipe, state)
        except BaseException:
            pipe.close()
            raise
        self.helpers[name] = pipe
        return pipe

    def linking(self, door: Door) -> Task[Pipe]:
        """Makes a link of which nobody keeps account.

        Raises:
            NotReached: There is none.
        """
        try:
            sock, ends = yield from door.opening(self.reply)
        except NoLink as error:
            raise NotReached(str(error)) from None
        sock.setblocking(False)
        return Pipe(
            sock,
            ends,
            self.trace,
            self.answers,
            fresh_zid(self.rng),
            door.peer,
            door.user,
            as_written=door.as_written,
        )

    def _bring(self, pipe: Pipe, state: State) -> Task[None]:
        path = [state]
        while (before := FACTS[path[0]].before) is not None:
            path.insert(0, before)
        pipe.facts["goal"] = state
        for one in path:
            if one not in REACH:
                raise NotReached(f"there is no way to reach the state {one}")
            yield from REACH[one](self, pipe)
            pipe.state = one
        pipe.take()
        pipe.since = self.trace.end

    def expect(self, pipe: Pipe, name: str) -> Task[Answer]:
        """Waits for a message and takes what came up to it.

        Raises:
            NotReached: The link ends, or T1 passes.
        """
        deadline = time.perf_counter() + self.reply
        while True:
            pipe.receive()
            for index, answer in enumerate(pipe.inbox):
                if name in answer.names:
                    del pipe.inbox[: index + 1]
                    return answer
                if answer.close is not None:
                    raise NotReached(f"expected {name}, got CLOSE (reason {answer.close})")
            if pipe.ended:
                raise NotReached(f"expected {name}, got the end of the link ({pipe.ended})")
            if time.perf_counter() >= deadline:
                raise NotReached(f"expected {name}, got nothing within {self.reply:g} s")
            yield Wait(pipe, deadline)

    def close(self) -> None:
        """Closes all links."""
        for pipe in self.links.values():
            pipe.close()
        self.links.clear()

    def leave(self) -> None:
        """Closes all links and what helps them."""
        self.close()
        for pipe in self.helpers.values():
            pipe.close()
        self.helpers.clear()


MOST_SENT = 10_000
"""So many stimuli of one case are kept for its row."""

MOST_BYTEWISE = 4096

MOST_OWED = 1 << 17
"""Bytes behind which a node that is well answers within T1, also on a busy machine: declarations take it longest."""

DEAF_TIMES = 3
"""So many times T1 a session is waited for that answers nothing, before the node is said to be deaf there."""

AGAIN = "fence again"
"""Note of a fence that is sent because the first one was not answered."""

IN_VAIN = 3
"""So many sessions that go on without an answer are each waited for as long as T1."""

TURNS = 4
"""A node takes what is less than half of all numbers ahead: of so many, evenly apart, it takes one at least."""


def is_whole(data: bytes, prefix: int) -> bool:
    """Tells whether bytes are batches, each with a length of ``prefix`` bytes in front, and nothing is left over."""
    at = 0
    while at < len(data):
        at += prefix + int.from_bytes(data[at : at + prefix], "little")
    return at == len(data)


FRAME_BE = bytes(Frame(R=0, sn=0))[:1]
"""Header of a FRAME that may be dropped: a stimulus that spoils the numbers of the others does not stop a fence."""


def filled(template: Template, pipe: Pipe) -> bytes:
    """Returns what leaves on a link.

    Raises:
        NotReached: A value is not to be had, because it is of a link that there is not.
    """
    try:
        return template.fill(pipe)
    except KeyError as error:
        raise NotReached(f"there is no value {error}") from None


def mask_of(batch: bytes, pipe: Pipe) -> int:
    """Returns the largest sequence number that an INIT on a link grants or proposes; 0 when it names no resolution."""
    if len(batch) < 4 or not batch[0] & _SIZES:
        return 0
    at = 3 + (batch[2] >> 4) + 1
    masks = WRITTEN if pipe.as_written else MASKS
    return masks[batch[at] & 3] if at < len(batch) else 0


_SIZES = 0x40
"""Flag S of INIT."""

MASKS = (0x7F, 0x3FFF, 0x0FFF_FFFF, (1 << 63) - 1)
"""Largest sequence number, by the two bits of a resolution."""

WRITTEN = (0xFF, 0xFFFF, *MASKS[2:])
"""The same of nodes that count to 2^bits - 1 (reading R-42); to the end of the longer ones no session comes."""


@cache
def question_of(fencing: Fencing, state: State, *, stream: bool) -> Template | None:
    """Returns a fence as it travels in a session; None when the node cannot be asked."""
    question = fence_of(fencing)
    if not question:
        return None
    if state is State.LOW_LATENCY:
        return Template.of("size32", question)
    head = [b"\x00"] if state is State.COMPRESSED else []
    return Template.of(*(["size"] if stream else []), *head, FRAME_BE, "sn_be", question)


def questions_of(fencing: Fencing, state: State, numbers: tuple[int, int], mask: int) -> Iterator[Template]:
    """Yields fences with numbers of which one is behind the last one that the node has read, whatever that was.

    Args:
        fencing: How the node can be asked.
        state: Where the link is.
        numbers: Those that are due: reliable, best effort.
        mask: The largest one.
    """
    ring = min(mask, MASKS[2])
    for turn in range(TURNS):
        for reliable, number in zip((1, 0), numbers, strict=True):
            head = bytes(Frame(R=reliable, sn=(number + turn * (ring // TURNS)) & ring))
            yield Template.of(
                "size", *([b"\x00"] if state is State.COMPRESSED else []), head, fence_of(fencing)
            )


@cache
def fence_of(fencing: Fencing) -> bytes:
    """Returns the network message that asks a node whether it is done; empty when it cannot be asked.

    The answer to a query has the congestion control of the query: it may not be dropped.
    """
    match fencing:
        case Fencing.QUERY:
            chain = [ext.QoS(D=1)]
            return bytes(Request(request_id=FENCE_ID, key_suffix=FENCE_KEY, extensions=chain, body=Query()))
        case Fencing.INTEREST:
            return bytes(
                Interest(mode=InterestMode.CURRENT, interest_id=FENCE_ID, tokens=1, key_suffix=FENCE_KEY)
            )
        case _:
            return b""


# How the states of links that we make are reached -----------------------------------------------------

_ZID = b"\xf6\xe7\x5bzid of a link"
_COOKIE = b"\xf7\xe7\x5bcookie of a link"


def template_of(message: Message, prefix: str = "size") -> Template:
    """Returns a message as a template; the stand-ins ``_ZID`` and ``_COOKIE`` in it become live values."""
    pieces: list[bytes | str] = [bytes(message)]
    for mark, name in ((_ZID, "zid"), (write_vle(len(_COOKIE)) + _COOKIE, "cookie")):
        for at in reversed(range(len(pieces))):
            piece = pieces[at]
            if isinstance(piece, bytes) and mark in piece:
                head, _, tail = piece.partition(mark)
                pieces[at : at + 1] = [head, name, tail]
    return Template.of(prefix, *pieces)


@cache
def _init(goal: State) -> Template:
    offers: list[Message] = []
    if goal is State.LOW_LATENCY:
        offers = [ext.LowLatency()]
    elif goal is State.COMPRESSED:
        offers = [ext.QoSOffer(), ext.Compression()]
    else:
        offers = [ext.QoSOffer()]
    return template_of(Init(zid=_ZID, extensions=[*offers, ext.Patch(patch=1)]))


@cache
def _open() -> Template:
    return first_number(template_of(Open(lease=60, T=1, initial_sn=0, cookie=_COOKIE)))


def first_number(opening: Template) -> Template:
    """Returns an OPEN with a lease of one byte and the number 0 with that of the link instead."""
    prefix, head, *rest = opening.pieces
    assert isinstance(head, bytes)
    return Template.of(prefix, head[:2], f"from {FIRST_SN}", head[3:], *rest)


@reach(State.CONNECTED)
def _connected(player: Player, pipe: Pipe) -> Task[None]:  # noqa: ARG001  (called like the others)
    """A new link is in it."""
    yield from ()


@reach(State.INIT_ACKED)
def _init_acked(player: Player, pipe: Pipe) -> Task[None]:
    pipe.send(_init(pipe.facts["goal"]).fill(pipe))
    answer = yield from player.expect(pipe, "INIT")
    pipe.facts["agreed"] = answer.shape
    pipe.sn_mask = mask_of(answer.batch, pipe) or pipe.sn_mask
    pipe.facts["room"] = room_of(answer.batch)
    pipe.facts["init_ack"] = answer.batch
    pipe.values["cookie"] = write_vle(len(answer.live)) + answer.live


@reach(State.OPEN)
def opened(player: Player, pipe: Pipe) -> Task[None]:
    """Returns the cookie and waits for OpenAck."""
    pipe.send(_open().fill(pipe))
    answer = yield from player.expect(pipe, "OPEN")
    pipe.facts["open_ack"] = answer.batch


@reach(State.CLOSED)
def _closed(player: Player, pipe: Pipe) -> Task[None]:  # noqa: ARG001
    yield from ()
    pipe.send(Template.of("size", bytes(Close(reason=0))).fill(pipe))
