"""Makes a script smaller while it still does its harm: messages first, then fields, then bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, NamedTuple

from fuzz.lying import MARKS
from fuzz.rendering import split
from fuzz.script import PREFIXES, Do, Script, Step, Template, lies_about
from fuzz.states import FACTS, State
from scapy_layers.batch import contents
from scapy_layers.codes import Kind, TransportId
from scapy_layers.extensions import First
from scapy_layers.message import Layer, Message

SMALLER = ", then made smaller"
"""Stands behind the words for a message that is not as it was any more."""

TAKEN_APART = 4096
"""Longer stimuli are not taken apart into fields: their bytes are made fewer."""

FINEST = 256
"""Bytes are left out one by one in pieces that are no longer; in longer ones, so manieth parts of them."""

ZEROED = 64
"""Bytes are zeroed one by one in pieces that are no longer."""

EACH = 32
"""Values that are no longer are made shorter by one byte, too."""

MANY = 8
"""Of so many messages and more the ends are left out first."""

RELIABLE, MORE, EXTENDED = 0x20, 0x40, 0x80
"""Flags of FRAME and FRAGMENT."""

FIRST = bytes(First())
"""The extension that the first fragment of a message has."""

_FIXED = frozenset({"mid", "ENC", "ext_id", "M"})
"""Fields that say what a message or an extension is."""

Test = Callable[[Script], bool]
"""Plays a script; tells whether it does the same harm."""


@dataclass(slots=True)
class Shrunk:
    """What became of a script.

    Attributes:
        script: The smallest that does the harm.
        kept: All that did, from the first to the smallest.
        tries: How many were tried.
        seconds: How long it took.
        done: Nothing is left to be tried; otherwise time was up.
    """

    script: Script
    kept: list[Script] = field(default_factory=list)
    tries: int = 0
    seconds: float = 0.0
    done: bool = False


class _OutOfTime(Exception):
    """The budget is spent."""


def shrink(
    script: Script,
    harms: Test,
    deadline: float,
    hints: Iterable[Script] = (),
    tried: set[bytes] | None = None,
    *,
    whole: bool = False,
) -> Shrunk:
    """Makes a script smaller.

    Args:
        script: It does harm.
        harms: Plays one, on a node where that can be seen.
        deadline: On ``time.monotonic``; nothing new is tried behind it.
        hints: Smaller ones that are worth a try before all others.
        tried: Marks of what need not be tried again; what is tried is added.
        whole: Messages are left out, and what is in them stays.
    """
    shrinker = _Shrinker(script, harms, deadline, set() if tried is None else tried)
    return shrinker.run(hints, () if whole else (_times, _states, _tame, _fields, _bytes))


def _mark(script: Script) -> bytes:
    """Returns what stands for a script, whose text may have twenty megabytes."""
    return blake2b(str(script).encode(), digest_size=16).digest()


class _Shrinker:
    def __init__(self, script: Script, harms: Test, deadline: float, tried: set[bytes]) -> None:
        self._harms = harms
        self._deadline = deadline
        self._seen = tried
        tried.add(_mark(script))
        self._result = Shrunk(script, [script])

    def run(self, hints: Iterable[Script], phases: Sequence[Callable[[Script], Iterator[Script]]]) -> Shrunk:
        result = self._result
        began = time.monotonic()
        try:
            for hint in hints:
                self._try(hint)
            before = None
            while before is not result.script:
                before = result.script
                self._until_none(_only_one)
                self._ends()
                self._messages()
                for phase in (_whole, *phases):
                    self._until_none(phase)
            result.done = True
        except _OutOfTime:
            pass
        result.seconds = time.monotonic() - began
        return result

    def _try(self, script: Script) -> bool:
        """Tries one; it is the smallest from then on when it does the harm."""
        if cost_of(script) >= cost_of(self._result.script) or not valid(script.steps):
            return False
        mark = _mark(script)
        if mark in self._seen:
            return False
        if time.monotonic() >= self._deadline:
            raise _OutOfTime
        self._seen.add(mark)
        self._result.tries += 1
        if not self._harms(script):
            return False
        self._result.script = script
        self._result.kept.append(script)
        return True

    def _until_none(self, candidates: Callable[[Script], Iterator[Script]]) -> None:
        """Takes what is smaller as long as there is something; begins anew behind each success."""
        found = True
        while found:
            found = any(self._try(script) for script in candidates(self._result.script))

    def _ends(self) -> None:
        """Leaves out, by halves, what is behind the message that does it and before the first that it needs, then all between.

        Of the hundreds that a campaign leaves mostly two are needed.
        """
        script = self._result.script
        first, last = 0, sum(step.do is Do.SEND for step in script.steps)
        if last < MANY:
            return
        too_late = last
        while too_late - first > 1:
            middle = (first + too_late) // 2
            if self._try(_those_of(script, range(middle, last))):
                first = middle
            else:
                too_late = middle
        # Mostly it is the very last one.
        too_few, middle = first, last - 1
        while last - too_few > 1:
            if self._try(_those_of(script, range(first, middle))):
                last = middle
            else:
                too_few = middle
            middle = (last + too_few) // 2
        self._try(_those_of(script, (first, last - 1)))

    def _messages(self) -> None:
        """Leaves out as many steps as can be left out (ddmin): halves, quarters, ... single ones."""
        steps = list(self._result.script.steps)
        size = max(1, len(steps) // 2)
        while True:
            at = 0
            while at < len(steps):
                left = steps[at : at + size]
                for rest in _without(steps[:at], left, steps[at + size :]):
                    if len(rest) < len(steps) and self._try(self._result.script.with_steps(rest)):
                        steps = rest
                        break
                else:
                    at += size
            if size == 1:
                return
            size = max(1, size // 2)


def _those_of(script: Script, kept: Collection[int]) -> Script:
    """Returns a script with some of its messages, by number from 0, what follows each, and the links that they need."""
    steps = []
    number = -1
    for step in script.steps:
        number += step.do is Do.SEND
        if step.do is Do.REACH or number in kept:
            steps.append(step)
    return script.with_steps(without_idle_links(steps, used=True))


def _without(before: list[Step], left: list[Step], behind: list[Step]) -> Iterator[list[Step]]:
    """Yields steps without some of them: with the links that are still used, with all links, without those links."""
    links = [step for step in left if step.do is Do.REACH]
    kept = [*before, *links, *behind]
    yield without_idle_links(kept, used=True)
    yield kept
    if links:
        yield without_idle_links([*before, *behind])


def cost_of(script: Script) -> tuple[int, ...]:
    """Returns what is to become less, the most important first: messages, steps, states, bytes, their values."""
    steps = script.steps
    data = [piece for step in steps for piece in step.data.pieces]
    raw = [piece for piece in data if isinstance(piece, bytes)]
    return (
        script.sends,
        len(steps),
        sum(_depth(step.state) for step in steps if step.state is not None),
        sum(map(len, raw)) + sum(_weight(piece) for piece in data if isinstance(piece, str)),
        sum(step.bytewise for step in steps),
        sum(piece.count(b"*") for piece in raw),
        sum(len(piece) - piece.count(0) for piece in raw),
        sum(map(sum, raw)),
    )


def _weight(piece: str) -> int:
    """Returns what a value counts: as much as a byte; a lie about one, as many as it has."""
    name, _, words = piece.partition("|")
    return 1 if not words else 3 if name in PREFIXES else 2 + len(_written(piece))


def _written(piece: str) -> bytes:
    """Returns a lie about a value as the bytes that it may be."""
    name, _, words = piece.partition("|")
    return bytes(lies_about(name)[words](MARKS[name]))


def _depth(state: State) -> int:
    depth, before = 0, FACTS[state].before
    while before is not None:
        depth, before = depth + 1, FACTS[before].before
    return depth


def valid(steps: Sequence[Step]) -> bool:
    """Tells whether every step has a link, and something is sent or at least brought about."""
    there: set[str] = set()
    for step in steps:
        if step.do is Do.REACH:
            there.add(step.link)
        elif step.link not in there:
            return False
    return bool(steps)


def without_idle_links(steps: Sequence[Step], *, used: bool = False) -> list[Step]:
    """Leaves out steps on links that are not there.

    Args:
        steps: In order.
        used: Links on which nothing is sent are left out too.
    """
    needed = {step.link for step in steps if step.do is Do.SEND}
    there: set[str] = set()
    kept = []
    for step in steps:
        if step.do is Do.REACH and (step.link in needed or not used):
            there.add(step.link)
        if step.link in there:
            kept.append(step)
    return kept


def _only_one(script: Script) -> Iterator[Script]:
    """Yields each message alone behind the beginning of its link, the last one first."""
    steps = script.steps
    if script.sends < 2:
        return
    for index in reversed([index for index, step in enumerate(steps) if step.do is Do.SEND][-3:]):
        link = steps[index].link
        reached = [step for step in steps[:index] if step.do is Do.REACH and step.link == link]
        yield script.with_steps([reached[-1], replace(steps[index], times=1)])


def _whole(script: Script) -> Iterator[Script]:
    """Yields what is sent in fragments in one piece, link by link."""
    for link in dict.fromkeys(step.link for step in script.steps):
        parts = {
            index: fragment
            for index, step in enumerate(script.steps)
            if step.link == link
            and step.do is Do.SEND
            and (fragment := _fragment(step.data.pieces)) is not None
        }
        if parts:
            last = max(parts)
            frame = bytes([TransportId.FRAME | parts[last].header & RELIABLE])
            inside = (piece for fragment in parts.values() for piece in fragment.inside)
            data = Template.of("size", frame, "sn", *inside)
            less = _with(script, last, data=data, note="in one piece")
            yield script.with_steps(
                step for index, step in enumerate(less.steps) if index == last or index not in parts
            )


class _Fragment(NamedTuple):
    """A stimulus that is a FRAGMENT and nothing else.

    Attributes:
        header: Its first byte.
        inside: What it carries.
    """

    header: int
    inside: tuple[bytes | str, ...]


def _fragment(pieces: tuple[bytes | str, ...]) -> _Fragment | None:
    """Reads a FRAGMENT that has no extension but the mark of the first one; None when a stimulus is something else."""
    match pieces:
        case ("size", bytes() as header, "sn", *inside) if len(header) == 1:
            if header[0] & ~(RELIABLE | MORE) == TransportId.FRAGMENT:
                return _Fragment(header[0], tuple(inside))
            begun = header[0] & ~(RELIABLE | MORE) == TransportId.FRAGMENT | EXTENDED
            if begun and inside and isinstance(inside[0], bytes) and inside[0][:1] == FIRST:
                return _Fragment(header[0], (inside[0][1:], *inside[1:]))
    return None


def _times(script: Script) -> Iterator[Script]:
    """Yields repeated steps less often, and bytes at once."""
    for index, step in enumerate(script.steps):
        less = sorted({1, step.times // 8, step.times // 2, step.times - 1} - {0, step.times})
        yield from (_with(script, index, times=times) for times in less if times < step.times)
        if step.bytewise:
            yield _with(script, index, bytewise=False)


def _states(script: Script) -> Iterator[Script]:
    """Yields states that are nearer to the beginning."""
    for index, step in enumerate(script.steps):
        state = step.state
        while state is not None and (state := FACTS[state].before) is not None:
            if step.state is not None and FACTS[state].needs == FACTS[step.state].needs:
                yield _with(script, index, state=state)


def _with(script: Script, index: int, **changes: object) -> Script:
    steps = list(script.steps)
    note = steps[index].note
    if "data" in changes and note and not note.endswith(SMALLER):
        # What it says of the bytes is true of those that there were.
        changes.setdefault("note", note + SMALLER)
    steps[index] = replace(steps[index], **changes)  # type: ignore[arg-type]
    return script.with_steps(steps)


def _tame(script: Script) -> Iterator[Script]:
    """Yields stimuli with letters in place of wild cards: where none is needed, it is no matter of matching."""
    for index, step in enumerate(script.steps):
        for card in (b"*", b"**", b"$*"):
            pieces = tuple(
                piece.replace(card, b"a" * len(card)) if isinstance(piece, bytes) else piece
                for piece in step.data.pieces
            )
            if pieces != step.data.pieces:
                yield _with(script, index, data=Template.of(*pieces))


# Fields ------------------------------------------------------------------------------------------------


def _fields(script: Script) -> Iterator[Script]:
    """Yields stimuli with fewer messages, extensions and fields, taken apart by the description."""
    kinds: dict[str, Kind | None] = {}
    for index, step in enumerate(script.steps):
        if step.state is not None:
            kinds[step.link] = Kind.SCOUTING if step.state is State.SCOUTING else None
        if step.do is Do.SEND:
            for data in simpler(step.data, kinds.get(step.link)):
                yield _with(script, index, data=data)


def simpler(template: Template, kind: Kind | None = None) -> Iterator[Template]:
    """Yields a stimulus with one thing less in it, or with a smaller number; lengths around it stay true.

    Nothing comes of bytes that cannot be taken apart, nor of those in which a live value lies.
    """
    pieces = list(template.pieces)
    head: list[bytes | str] = []
    if pieces and isinstance(pieces[0], str) and pieces[0].partition("|")[0] in PREFIXES:
        head = [pieces.pop(0)]
    if any(isinstance(piece, str) and piece not in MARKS for piece in pieces):
        return
    raw = b"".join(piece if isinstance(piece, bytes) else MARKS[piece] for piece in pieces)
    if not raw or len(raw) > TAKEN_APART:
        return
    for data in _Tree(raw, kind).smaller():
        yield Template.of(*head, *split(data, MARKS))


Path = tuple[tuple[str, int], ...]
"""Fields from the outermost layer inwards, each with a position where it is a list (-1 where it is not)."""


class _Tree:
    """Bytes as layers, in which lengths and flags that are true are computed again when something changes."""

    def __init__(self, raw: bytes, kind: Kind | None) -> None:
        self._raw = raw
        self._kind = kind
        seen = contents(raw, kind)
        self._rest = seen.rest
        self._computed: list[tuple[Path, str]] = []
        self._usable = self._bytes(list(seen.messages)) == raw
        if self._usable:
            self._compute()

    def smaller(self) -> Iterator[bytes]:
        """Yields the bytes of all single changes, the big ones first."""
        if not self._usable:
            return
        if self._rest:
            yield self._raw[: len(self._raw) - len(self._rest)]
        for change in self._changes():
            messages = self._layers()
            change(messages)
            data = self._bytes(messages)
            if len(data) <= len(self._raw) and data != self._raw:
                yield data

    def _layers(self) -> list[Message]:
        messages = list(contents(self._raw, self._kind).messages)
        for path, name in self._computed:
            _at(messages, path).fields.pop(name, None)
        return messages

    def _bytes(self, messages: list[Message]) -> bytes:
        return b"".join(map(bytes, messages)) + self._rest

    def _compute(self) -> None:
        """Finds the fields that come out the same when they are not given."""
        for path, layer in list(walk(self._layers())):
            for name, value in list(layer.fields.items()):
                if name in _FIXED or not isinstance(value, int):
                    continue
                self._computed.append((path, name))
                if self._bytes(self._layers()) != self._raw:
                    self._computed.pop()

    def _changes(self) -> Iterator[Callable[[list[Message]], None]]:
        messages = self._layers()
        layers = list(walk(messages))
        if len(messages) > 1:
            yield from (_dropping(index) for index in range(len(messages)))
        for path, layer in layers:
            for name, value in layer.fields.items():
                if isinstance(value, list) and value:
                    yield from _shorter_lists(path, name, value)
        for path, layer in layers:
            for name, value in layer.fields.items():
                if name not in _FIXED and not isinstance(value, (list, Layer)) and value is not None:
                    yield _leaving_out(path, name)
                    yield from (_setting(path, name, less) for less in _less(value))


def _shorter_lists(path: Path, name: str, value: list[Any]) -> Iterator[Callable[[list[Message]], None]]:
    yield _setting(path, name, [])
    if len(value) > 1:
        half = len(value) // 2
        yield _cutting(path, name, slice(half, None))
        yield _cutting(path, name, slice(0, half))
        yield from (_cutting(path, name, slice(index, index + 1)) for index in range(len(value)))


def _less(value: Any) -> list[Any]:
    """Returns smaller values, the smallest first."""
    if isinstance(value, (bytes, str)):
        sizes = {0, 1, len(value) // 2, *([len(value) - 1] if len(value) <= EACH else [])}
        return [value[:size] for size in sorted(sizes) if 0 <= size < len(value)]
    if isinstance(value, int):
        return [number for number in sorted({0, 1, int(value) >> 8, int(value) >> 1}) if number < value]
    return []


def walk(messages: Sequence[Layer], path: Path = (), name: str = "") -> Iterator[tuple[Path, Layer]]:
    """Yields all layers with their paths, the outer ones first."""
    for index, message in enumerate(messages):
        here = (*path, (name, index))
        yield from _below(message, here)


def _below(layer: Layer, here: Path) -> Iterator[tuple[Path, Layer]]:
    yield here, layer
    for name, value in layer.fields.items():
        if isinstance(value, Layer):
            yield from _below(value, (*here, (name, -1)))
        elif isinstance(value, list):
            for index, inside in enumerate(value):
                if isinstance(inside, Layer):
                    yield from _below(inside, (*here, (name, index)))


def _at(messages: Sequence[Layer], path: Path) -> Layer:
    layer = messages[path[0][1]]
    for name, index in path[1:]:
        value = layer.fields[name]
        layer = value if index < 0 else value[index]
    return layer


def _dropping(index: int) -> Callable[[list[Message]], None]:
    def change(messages: list[Message]) -> None:
        del messages[index]

    return change


def _setting(path: Path, name: str, value: object) -> Callable[[list[Message]], None]:
    def change(messages: list[Message]) -> None:
        _at(messages, path).setfieldval(name, value)

    return change


def _leaving_out(path: Path, name: str) -> Callable[[list[Message]], None]:
    def change(messages: list[Message]) -> None:
        _at(messages, path).fields.pop(name, None)

    return change


def _cutting(path: Path, name: str, where: slice) -> Callable[[list[Message]], None]:
    def change(messages: list[Message]) -> None:
        layer = _at(messages, path)
        value = list(layer.fields[name])
        del value[where]
        layer.setfieldval(name, value)

    return change


# Bytes -------------------------------------------------------------------------------------------------


def _bytes(script: Script) -> Iterator[Script]:
    """Yields stimuli with fewer bytes, then with zeros."""
    for index, step in enumerate(script.steps):
        if step.do is Do.SEND:
            for data in fewer(step.data):
                yield _with(script, index, data=data)


def fewer(template: Template) -> Iterator[Template]:
    """Yields a template with bytes cut out, large pieces first; then with bytes that are zero."""
    pieces = template.pieces
    yield from _fewer_pieces(pieces)
    for index, piece in enumerate(pieces):
        if isinstance(piece, bytes):
            yield from (_swapped(pieces, index, less) for less in _cut(piece))
        elif "|" in piece:
            # A lie goes back to the truth, or is written out so that it can become smaller.
            yield _swapped(pieces, index, piece.partition("|")[0])
            if piece.partition("|")[0] not in PREFIXES:
                yield _swapped(pieces, index, _written(piece))
        elif index:
            yield _swapped(pieces, index, b"")
    for index, piece in enumerate(pieces):
        if isinstance(piece, bytes):
            yield from (_swapped(pieces, index, less) for less in _zeroed(piece))


def _fewer_pieces(pieces: tuple[bytes | str, ...]) -> Iterator[Template]:
    """Yields a template without runs of its pieces: many small messages, each with a number that the player puts in."""
    # The length in front stays.
    first = sum(isinstance(piece, str) and piece.partition("|")[0] in PREFIXES for piece in pieces[:1])
    size = (len(pieces) - first) // 2
    while size > 1:
        for at in reversed(range(first, len(pieces), size)):
            yield Template.of(*pieces[:at], *pieces[at + size :])
        size //= 2


def _cut(piece: bytes) -> Iterator[bytes]:
    size = len(piece)
    while size > len(piece) // FINEST:
        for at in reversed(range(0, len(piece), size)):
            yield piece[:at] + piece[at + size :]
        size //= 2


def _zeroed(piece: bytes) -> Iterator[bytes]:
    sizes = {len(piece), -(-len(piece) // 4)} if len(piece) > ZEROED else {len(piece), 8, 1}
    for size in sorted(sizes, reverse=True):
        for at in range(0, len(piece), size):
            part = piece[at : at + size]
            if any(part):
                yield piece[:at] + bytes(len(part)) + piece[at + size :]


def _swapped(pieces: tuple[bytes | str, ...], index: int, piece: bytes | str) -> Template:
    return Template.of(*pieces[:index], *([piece] if piece else []), *pieces[index + 1 :])
