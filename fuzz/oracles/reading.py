"""What the canary reads in the bytes that come: numbers, ids, and which of them are its own."""

from __future__ import annotations

from conformance.session.lanes import Consecutive, LaneKey, lane_of
from fuzz.player import Answer, Answers, Pipe
from fuzz.player.answers import FENCE_ID, vle
from fuzz.player.fitting import FRAME_R
from scapy_layers import extensions as ext
from scapy_layers.batch import contents
from scapy_layers.codes import Enc, NetworkId, TransportId
from scapy_layers.errors import WireError
from scapy_layers.message import Message
from scapy_layers.network import Request, Response, ResponseFinal
from scapy_layers.primitives import VLE_BYTES, Reader
from scapy_layers.transport import Fragment, Frame

ROOMY = 512
"""In batches of so many bytes all that others are to get of ours has room, with all that a node may add."""

LONGEST_FORM, MOST_FORMS = 256, 256
"""Bytes of a FRAME that are compared with those that came before, and how many of these are remembered."""

MOST_JOINED = 1 << 20
"""So many bytes of a message in FRAGMENTs are kept: no message to our sessions is nearly as long."""

_SECONDS = 0x40
"""Flag T of OPEN."""

_ID = 0x1F
_MORE = 0x80


class Unread(Answers):
    """Leaves alone what carries a word of ours: the canary knows what it must look like.

    Args:
        word: The word.
    """

    def __init__(self, word: bytes) -> None:
        super().__init__()
        self._word = word

    def read(self, batch: bytes, time_ns: int, pipe: Pipe | None = None) -> Answer:
        """See Answers."""
        if self._word in batch:
            return Answer(time_ns, batch, (), "", "", 0, None)
        return super().read(batch, time_ns, pipe)


class Joiner:
    """Puts together what comes in FRAGMENTs.

    Args:
        answers: Reads what has become whole.
    """

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._parts: dict[tuple[Pipe, LaneKey], bytes] = {}

    def take(self, pipe: Pipe, answer: Answer) -> list[Answer]:
        """Returns an answer as it is, or its messages one by one, with a FRAME for each FRAGMENT that ends a message."""
        messages = contents(answer.batch).messages
        if not any(isinstance(message, Fragment) for message in messages):
            return [answer]
        whole: list[Answer] = []
        for message in messages:
            if not isinstance(message, Fragment):
                whole.append(self._answers.read(bytes(message), answer.time_ns))
                continue
            key = pipe, lane_of(message)
            if any(isinstance(one, ext.First) for one in message.extensions or ()):
                self._parts[key] = b""
            # A node may never end what it has begun.
            self._parts[key] = (self._parts.get(key, b"") + bytes(message.data))[:MOST_JOINED]
            if not message.M:
                batch = FRAME_R + b"\0" + self._parts.pop(key)
                whole.append(self._answers.read(batch, answer.time_ns))
                pipe.finals += whole[-1].finals
        return whole


class Numbering:
    """Sees whether the numbers of what comes follow one another.

    Args:
        word: What all carries that we have sent ourselves.
    """

    def __init__(self, word: bytes) -> None:
        self._word = word
        self._consecutive: dict[Pipe, Consecutive] = {}
        self._forms: dict[tuple[bytes, bool], LaneKey] = {}

    def wrong(self, pipe: Pipe, batch: bytes) -> str:
        """Returns what is wrong with the numbers of a batch, nothing if they are in turn."""
        numbers = self._consecutive.setdefault(pipe, Consecutive())
        framed = self._framed(batch)
        return numbers.wrong(contents(batch).messages) if framed is None else numbers.off("FRAME", *framed)

    def _framed(self, batch: bytes) -> tuple[LaneKey, int] | None:
        """Returns lane and number of a batch that is one FRAME as one before, what we have sent in it aside; else None.

        To take each apart would cost as much as all else that a beat does.
        """
        if not batch or batch[0] & _ID != TransportId.FRAME:
            return None
        behind = 1
        while behind < len(batch) and batch[behind] & _MORE:
            behind += 1
        if behind == len(batch) or behind > VLE_BYTES:
            return None
        at = batch.find(self._word)
        ours = at > 0
        form = batch[:1] + batch[behind + 1 : at - 1 if ours else len(batch)]
        # The length of what we have sent stands in front of it, and nothing behind.
        if len(form) > LONGEST_FORM or (ours and batch[at - 1] != len(batch) - at):
            return None
        lane = self._forms.get((form, ours))
        if lane is None:
            if len(self._forms) >= MOST_FORMS:
                return None
            messages = contents(batch).messages
            if len(messages) != 1 or not isinstance(messages[0], Frame):
                return None
            lane = self._forms[form, ours] = lane_of(messages[0])
        return lane, vle(batch[1 : behind + 1])


def head_of(message: Message, blank: bytes) -> bytes:
    """Returns a message without what stands at its end."""
    raw = bytes(message)
    assert raw.endswith(blank)
    return raw[: -len(blank)]


def has_lanes(pipe: Pipe) -> bool:
    """Tells whether both ends of a session have agreed on lanes, and a small publication fits into a batch."""
    if 0 < pipe.facts.get("room", 0) < ROOMY:
        return False
    return any(
        isinstance(one, ext.QoSOffer)
        for message in contents(pipe.facts["init_ack"]).messages
        for one in message.extensions or ()
    )


def to_others(batch: bytes) -> bool:
    """Tells whether there is an answer in a batch that is none to a fence; others may reply to those that they are handed."""
    return any(
        isinstance(inside, Response | ResponseFinal) and inside.request_id != FENCE_ID
        for message in contents(batch).messages
        for inside in getattr(message, "messages", None) or ()
    )


def lease_of(pipe: Pipe) -> float:
    """Returns the seconds of the lease that the node has named in a session."""
    opened = pipe.facts["open_ack"]
    lease = vle(opened[1:])
    return float(lease if opened[0] & _SECONDS else lease / 1000)


def id_of(batch: bytes, kind: NetworkId) -> int | None:
    """Returns the request id of the first query or reply in a batch; None when there is none."""
    reader = Reader(batch)
    try:
        header = reader.u8()
        if header & _ID == TransportId.FRAME:
            reader.vle()
            more = header & _MORE
            while more:
                one = reader.u8()
                more = one & _MORE
                if one >> 5 & 3 == Enc.Z64:
                    reader.vle()
                elif one >> 5 & 3 == Enc.ZBUF:
                    reader.take(reader.vle())
            if reader.u8() & _ID == kind:
                return int(reader.vle())
    except WireError:
        return None
    for message in contents(batch).messages:
        for inside in getattr(message, "messages", None) or ():
            if isinstance(inside, Request if kind is NetworkId.REQUEST else Response):
                return int(inside.request_id)
    return None
