"""What every link offers, whatever carries it."""

from __future__ import annotations

import errno
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol

from conformance.config import Locator
from conformance.link.loop import Loop
from conformance.observe import Direction, Endpoints, History, Observation
from scapy_layers.batch import BatchReader, Contents
from scapy_layers.errors import WireError

BATCHES_A_TURN = 64
"""So many batches of one link are handled before the others have their turn."""

SECONDS_A_TURN = 0.01
"""And no more of them when they took so long: a batch may hold tens of thousands of messages."""

OnBatch = Callable[[Observation], None]


class Leftover(Protocol):
    """What outlives its link for a moment."""

    def close(self) -> None:
        """Ends it."""


class Home(Loop):
    """What links need of whoever made them: the loop, the record, and whether bytes are gathered.

    Attributes:
        history: Where everything is recorded; None: nothing is kept.
        gathers: Batches leave together at the end of a turn. With a history each leaves at once, so that its
            time is true.
    """

    def __init__(self, history: History | None) -> None:
        super().__init__()
        self.history = history
        self.gathers = history is None
        self.links: set[Link] = set()
        self.leftovers: set[Leftover] = set()


class Link(ABC):
    """One connection, or what is said with one address over a socket. Made by ``Links``.

    Attributes:
        name: Its name in the history.
        locator: Of the other end.
        ended: How it ended, in words; None while it lives.
        streamed: A length stands in front of each batch.
        limit: Bytes of the largest batch that is taken; a larger one ends the link.
        on_batch: Called with each batch that came in.
        on_end: Called once when it has ended, whoever ended it; from the loop, never from within a call of the owner.
        on_refused: Called with the reason before a link ends for what came in; may still send.
        unwrap: Takes the compression header off a batch before it is taken apart; raises WireError.
        chunk: Sizes of the pieces in which bytes are handed to the system, each in a segment of its own.
            Streams only.
    """

    streamed: bool = False

    def __init__(
        self, home: Home, name: str, locator: Locator, endpoints: Callable[[], Endpoints], note: str
    ) -> None:
        self.name = name
        self.locator = locator
        self.ended: str | None = None
        self.on_batch: OnBatch | None = None
        self.on_end: Callable[[Link], None] | None = None
        self.on_refused: Callable[[Link, str], None] | None = None
        self.unwrap: Callable[[bytes], bytes] | None = None
        self.chunk: Callable[[], int] | None = None
        self._home = home
        self._allowed: int | None = None
        self._dirty = False
        home.links.add(self)
        if home.history is not None:
            home.history.endpoints[name] = endpoints()
            self._record(Direction.OPENED, note=note)

    def cut_with(self, reader: type[BatchReader]) -> None:
        """Cuts the stream into batches with another reader, where a stream is cut; before anything came."""
        del reader

    # Sending ---------------------------------------------------------------------------------------

    @abstractmethod
    def send(
        self,
        batch: bytes,
        *,
        length: int | None = None,
        note: str = "",
        plain: bytes | None = None,
        prefix: int | None = None,
    ) -> None:
        """Sends one batch, with its length where the link has one.

        Args:
            batch: The messages, encoded.
            length: What the length says; the truth when None. Over WebSocket it is the length of the frame.
            note: A word for the record.
            plain: What the batch holds before compression, for the record.
            prefix: Bytes of the length, 0, 2 or 4; as ``self.prefix`` says when None.

        Raises:
            ValueError: The length cannot be said.
        """

    @abstractmethod
    def send_raw(self, data: bytes, *, note: str = "") -> None:
        """Sends bytes as they are, under the framing of batches.

        On tcp, tls and unixsock-stream they are part of the stream of batches (inside TLS); over WebSocket part of the
        stream that carries the frames, so they may be a frame made by hand; on udp they are one datagram.
        """

    @abstractmethod
    def send_cut(self, batch: bytes, cuts: Sequence[int], *, note: str = "") -> None:
        """Sends one batch over WebSocket as one message in several frames, cut at these positions.

        On other links it is an ordinary ``send``.
        """

    def hold(self) -> None:
        """Keeps back everything from now on, until it is released."""
        self._allowed = 0

    def release(self, count: int | None = None) -> None:
        """Lets go what was held back.

        Args:
            count: So many bytes (datagrams on udp), the rest stays; None: all, and nothing is held back any more.
        """
        self._allowed = None if count is None or self._allowed is None else self._allowed + count
        self.flush()

    @abstractmethod
    def flush(self) -> None:
        """Hands waiting bytes to the system as far as it takes them now."""

    @property
    @abstractmethod
    def waiting(self) -> int:
        """Bytes that have not left yet, because they are held back, gathered, or the other end does not read."""

    @property
    def sending(self) -> bool:
        """Bytes still wait to leave."""
        return self.ended is None and self.waiting > 0

    # Ending ----------------------------------------------------------------------------------------

    @abstractmethod
    def half_close(self) -> None:
        """Ends our direction once everything has left; what the other end still sends is read.

        tls says close_notify, WebSocket says CLOSE and keeps the stream open. udp knows no such thing.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends the link in order; what waits still leaves if the other end takes it, what is held back does not."""

    @abstractmethod
    def abort(self) -> None:
        """Ends the link at once: on streams with a TCP reset, without close_notify or CLOSE of WebSocket."""

    @abstractmethod
    def fileno(self) -> int:
        """The file descriptor."""

    # What comes next -------------------------------------------------------------------------------

    @property
    @abstractmethod
    def prefix(self) -> int:
        """Bytes of the length in front of the next batch: 0 where there is none, 2, or 4 in low-latency sessions."""

    @prefix.setter
    @abstractmethod
    def prefix(self, size: int) -> None:
        pass

    @property
    @abstractmethod
    def limit(self) -> int:
        """Bytes of the largest batch that is taken."""

    @limit.setter
    @abstractmethod
    def limit(self, size: int) -> None:
        pass

    # Used by the kinds of links --------------------------------------------------------------------

    @abstractmethod
    def readable(self) -> None:
        """Bytes are there."""

    @abstractmethod
    def writable(self) -> None:
        """The system takes bytes again."""

    def settle(self) -> None:
        """Sends what was gathered in a turn."""
        self._dirty = False
        self.flush()

    def _soon(self) -> None:
        """Sends now, or with everything else of this turn."""
        if not self._home.gathers:
            self.flush()
        elif not self._dirty:
            self._dirty = True
            self._home.later(self)

    def _record(
        self,
        direction: Direction,
        raw: bytes = b"",
        batch: bytes | None = None,
        note: str = "",
        plain: bytes | None = None,
    ) -> None:
        """Keeps an observation, where there is a history."""
        history = self._home.history
        if history is not None:
            if direction is Direction.SENT and self.ended is not None:
                note = f"{note}; not sent: the link has ended".lstrip("; ")
            history.add(time.time_ns(), self.name, direction, raw, batch, note, plain=plain)

    def _hand_over(self, batch: bytes, raw: Callable[[bytes], bytes]) -> None:
        """Gives one batch to the owner."""
        plain, inside = None, None
        if self.unwrap is not None:
            try:
                plain = self.unwrap(batch)
            except WireError as error:
                inside = Contents((), error, batch)
        history = self._home.history
        if history is not None:
            seen = history.add(
                time.time_ns(), self.name, Direction.RECEIVED, raw(batch), batch, plain=plain, inside=inside
            )
        else:
            seen = Observation(
                0, time.time_ns(), self.name, Direction.RECEIVED, b"", batch, plain=plain, _inside=inside
            )
        if self.on_batch is not None:
            self.on_batch(seen)

    def _note_end(self, how: str) -> None:
        self.ended = how
        self._record(Direction.ENDED, note=how)
        self._home.links.discard(self)
        if self.on_end is not None:
            self._home.call_later(self._tell_end)

    def _tell_end(self) -> None:
        if self.on_end is not None:
            self.on_end(self)

    def _tell_refused(self, why: str) -> None:
        if self.on_refused is not None:
            self.on_refused(self, why)


def words(error: OSError) -> str:
    """Returns how a link ended with an error of the system."""
    if error.errno == errno.ECONNRESET:
        return "reset by the node"
    return f"failed: {error.strerror or error}"


def code(error: OSError) -> str:
    """Returns the name of an error of the system."""
    return errno.errorcode.get(error.errno or 0, str(error))
