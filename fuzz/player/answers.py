"""What comes back, told apart: taken apart once for each shape, recognised from then on.

The shape of an answer is which messages it holds with which flags, extensions and reasons, not what they
carry: an answer of a new shape means that a case has reached something new in the node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from scapy_layers.batch import MAX_BATCH, Contents, contents
from scapy_layers.codes import CloseReason, Kind, TransportId
from scapy_layers.declarations import DeclareFinal
from scapy_layers.errors import WireError
from scapy_layers.lz4 import decompress
from scapy_layers.message import Message
from scapy_layers.network import Declare, Push, ResponseFinal
from scapy_layers.primitives import Reader, write_vle
from scapy_layers.transport import Close, Init, Open

if TYPE_CHECKING:
    from fuzz.player.pipe import Pipe

MOST_KNOWN = 5_000
"""So many answers are recognised by their bytes; then the memory of them begins anew."""

LONGEST_KNOWN = 4096
"""Longer answers are taken apart each time: few are alike."""

FENCE_ID = 4_000_000_000
"""Request id and interest id of fences; stimuli have small ones."""

OURS = b"@zenoh-harness/k"
"""What the canary publishes on keys that cases use begins with it."""

_ID = 0x1F
_COMPRESSED = 1


class Answer(NamedTuple):
    """A batch or datagram that came back.

    Attributes:
        time_ns: Unix time in ns.
        batch: Its bytes without the length.
        names: Of its messages, outermost first; without answers to our fence, and what the canary publishes, when there
            is something else.
        shape: What it looks like, see the module; of the same messages.
        refused: Why a strict decoder refuses it; empty when it does not.
        finals: How many answers to our fence are in it.
        close: It holds a CLOSE: its reason; None otherwise.
        live: Of InitAck: the cookie; empty otherwise.
        ids: Request ids of queries in it.
        fence: There is nothing but answers to our fence in it, or what the canary publishes.
    """

    time_ns: int
    batch: bytes
    names: tuple[str, ...]
    shape: str
    refused: str
    finals: int
    close: int | None
    live: bytes = b""
    ids: tuple[int, ...] = ()
    fence: bool = False


_new = tuple.__new__


def _again(answer: Answer, time_ns: int, batch: bytes) -> Answer:
    """Returns an answer that came again; the same as ``_replace``, in a third of the time."""
    return _new(Answer, (time_ns, batch, *answer[2:]))


@dataclass(frozen=True, slots=True)
class _Known:
    """An answer with a hole in which values differ.

    Attributes:
        head: In front of it.
        tail: Behind it.
        size: Bytes of the hole; None for a VLE integer.
        answer: What it says.
    """

    head: bytes
    tail: bytes
    size: int | None
    answer: Answer


class Answers:
    """Reads answers.

    Attributes:
        shapes: How often each shape was seen.
        decoded: How many were taken apart.
    """

    def __init__(self) -> None:
        self.shapes: dict[str, int] = {}
        self.decoded = 0
        self._known: dict[tuple[int, bytes | tuple[bytes, ...]], Answer] = {}
        self._holes: dict[tuple[int, bytes], list[_Known]] = {}
        self._of_scouting: dict[bytes, Answer] = {}

    def read(self, batch: bytes, time_ns: int, pipe: Pipe | None = None) -> Answer:
        """Returns what a batch says. Never raises for what its bytes are."""
        if pipe is not None and pipe.facts.get("compressed"):
            answer = self._unpacked(batch, time_ns, pipe)
        elif pipe is not None and pipe.facts.get("scouting"):
            answer = self._scouted(batch, time_ns, pipe)
        else:
            answer = self._recognised(batch, time_ns, pipe) or self._taken_apart(batch, time_ns, pipe)
        self.shapes[answer.shape] = self.shapes.get(answer.shape, 0) + 1
        return answer

    def _unpacked(self, batch: bytes, time_ns: int, pipe: Pipe) -> Answer:
        """Reads a batch of a session with compression: a header byte, then LZ4 or the batch as it is."""
        if not batch:
            return self._taken_apart(batch, time_ns, pipe)
        try:
            inside = decompress(batch[1:], MAX_BATCH) if batch[0] & _COMPRESSED else batch[1:]
        except WireError as error:
            return Answer(time_ns, batch, (), "no LZ4", str(error), 0, None)
        known = self._recognised(inside, time_ns, pipe) or self._taken_apart(inside, time_ns, pipe)
        return known._replace(
            batch=batch, shape=f"{'lz4' if batch[0] & _COMPRESSED else 'plain'} {known.shape}"
        )

    def _scouted(self, batch: bytes, time_ns: int, pipe: Pipe) -> Answer:
        """Reads a datagram of scouting, whose ids mean something else on links."""
        known = self._of_scouting.get(batch)
        if known is not None:
            return known._replace(time_ns=time_ns)
        if len(self._of_scouting) >= MOST_KNOWN:
            self._of_scouting.clear()
        self._of_scouting[batch] = answer = self._taken_apart(batch, time_ns, pipe)
        return answer

    def _recognised(self, batch: bytes, time_ns: int, pipe: Pipe | None) -> Answer | None:
        if not batch or len(batch) > LONGEST_KNOWN:
            return None
        header = batch[0]
        if header & _ID == TransportId.FRAME:
            known = self._known.get((header, _of_any_link(_behind_vle(batch, 1), pipe)))
            return _again(known, time_ns, batch) if known else None
        known = self._known.get((-1, batch))
        if known is not None:
            return _again(known, time_ns, batch)
        for hole in self._holes.get((header, batch[1:2]), ()):
            at = len(hole.head)
            if not batch.startswith(hole.head):
                continue
            if hole.size is None:
                if _behind_vle(batch, at) == hole.tail:
                    return _again(hole.answer, time_ns, batch)
            elif len(batch) == at + hole.size + len(hole.tail) and batch.endswith(hole.tail):
                return hole.answer._replace(time_ns=time_ns, batch=batch, live=batch[at : at + hole.size])
        return None

    def _taken_apart(self, batch: bytes, time_ns: int, pipe: Pipe | None) -> Answer:
        self.decoded += 1
        scouting = pipe is not None and pipe.facts.get("scouting")
        seen = _of_datagram(batch) if scouting else contents(batch)
        messages = seen.messages
        close = next((int(message.reason) for message in messages if isinstance(message, Close)), None)
        cookie = next(
            (bytes(message.cookie or b"") for message in messages if isinstance(message, Init) and message.A),
            b"",
        )
        network = [inside for message in messages for inside in _inside(message)]
        finals = sum(map(_final, network))
        ours = OURS in batch and any(map(_of_canary, network))
        # Whether an answer shares its batch with one to a fence is a matter of moments.
        stripped = map(_without_ours, messages) if finals or ours else messages
        others = tuple(message for message in stripped if message is not None)
        fence = not (others or seen.error or seen.rest) and (finals > 0 or ours)
        told = messages if fence else others
        answer = Answer(
            time_ns,
            batch,
            tuple(Contents(told).names.split()),
            " ".join(map(shape_of, told))
            + (f" +{'refused' if seen.error else 'rest'}" if seen.rest or seen.error else ""),
            str(seen.error) if seen.error else "",
            finals,
            close,
            cookie,
            tuple(int(message.request_id) for message in network if message.name == "REQUEST"),
            fence,
        )
        if not scouting and not ours:
            self._remember(answer, messages, pipe)
        return answer

    def _remember(self, answer: Answer, messages: tuple[Message, ...], pipe: Pipe | None) -> None:
        batch = answer.batch
        if not batch or len(batch) > LONGEST_KNOWN:
            return
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        header = batch[0]
        first = messages[0] if messages else None
        if header & _ID == TransportId.FRAME:
            behind = _of_any_link(_behind_vle(batch, 1), pipe)
            if answer.refused and isinstance(behind, tuple):
                return  # why may tell of the key
            self._known[header, behind] = answer
        elif len(messages) == 1 and isinstance(first, Init) and answer.live:
            self._hole(batch, answer.live, None, answer)
        elif len(messages) == 1 and isinstance(first, Open):
            self._hole(batch, write_vle(first.initial_sn or 0), 0, answer)
        else:
            self._known[-1, batch] = answer

    def _hole(self, batch: bytes, value: bytes, vle: int | None, answer: Answer) -> None:
        at = batch.find(value, 2 if vle is not None else 4)
        if at < 0:
            self._known[-1, batch] = answer
            return
        tail = batch[at + len(value) :]
        holes = self._holes.setdefault((batch[0], batch[1:2]), [])
        holes.append(_Known(batch[:at], tail, None if vle is not None else len(value), answer))
        # Those of old node processes are of no use any more.
        del holes[:-8]


def _behind_vle(data: bytes, at: int) -> bytes:
    while at < len(data) and data[at] & 0x80:
        at += 1
    return data[at + 1 :]


def _of_any_link(data: bytes, pipe: Pipe | None) -> bytes | tuple[bytes, ...]:
    """Returns bytes, cut where the base key of a link stands: every link has its own, and nodes repeat it."""
    base: str = pipe.facts.get("base", "") if pipe is not None else ""
    parts = data.split(base.encode()) if base else [data]
    return data if len(parts) == 1 else tuple(parts)


def _of_datagram(batch: bytes) -> Contents:
    """Reads what came to a port that scouts: SCOUT and HELLO, or what nodes say over UDP links.

    The address of a HELLO without locators is one: whoever follows it begins a session there.
    """
    seen = contents(batch, Kind.SCOUTING)
    of_link = contents(batch) if seen.error else seen
    return seen if of_link.error else of_link


def _inside(message: Message) -> list[Message]:
    inside = getattr(message, "messages", None)
    return list(inside) if isinstance(inside, list) else [message]


def _final(message: Message) -> bool:
    if isinstance(message, ResponseFinal):
        return bool(message.request_id == FENCE_ID)
    return (
        isinstance(message, Declare)
        and message.interest_id == FENCE_ID
        and isinstance(message.body, DeclareFinal)
    )


def _of_canary(message: Message) -> bool:
    """Tells whether it is what the canary publishes on a key that cases use."""
    if not isinstance(message, Push):
        return False
    return bytes(getattr(message.body, "data", None) or b"").startswith(OURS)


def _without_ours(message: Message) -> Message | None:
    """Returns a message without answers to our fence and what the canary publishes; None when nothing is left."""
    inside = _inside(message)
    others = [one for one in inside if not _final(one) and not _of_canary(one)]
    if len(others) == len(inside):
        return message
    if not others:
        return None
    rest = message.copy()
    rest.messages = others
    return rest


def shape_of(message: Message) -> str:
    """Returns what a message looks like: name, header byte, headers of its extensions, what is in it.

    ``CLOSE/23 GENERIC``, ``FRAME/25(31)[RESPONSE_FINAL/1a]``.
    """
    raw = _bytes_of(message)
    parts = [f"{message.name}/{raw[0]:02x}" if raw else str(message.name)]
    chain = getattr(message, "extensions", None) or []
    if chain:
        parts.append(f"({','.join(f'{_bytes_of(one)[0] & 0x7F:02x}' for one in chain)})")
    if isinstance(message, Close):
        reason = int(message.reason)
        parts.append(f" {CloseReason(reason).name if reason in set(CloseReason) else reason}")
    body = getattr(message, "body", None)
    inside = getattr(message, "messages", None)
    within = [body] if isinstance(body, Message) else inside if isinstance(inside, list) else []
    if within:
        parts.append(f"[{' '.join(shape_of(one) for one in within if isinstance(one, Message))}]")
    if message.errors:
        parts.append("!")
    return "".join(parts)


def _bytes_of(layer: Any) -> bytes:
    """Returns the bytes a layer was read from; those it makes if it was not read."""
    return layer.original or bytes(layer)


def vle(data: bytes) -> int:
    """Returns the VLE integer at the beginning of bytes."""
    return int(Reader(data).vle())
