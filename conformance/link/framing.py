"""How batches stand in what a socket carries. No socket here: bytes in, batches out, and the other way round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from scapy_layers.batch import LONG_PREFIX, MAX_BATCH, PREFIX, BatchReader

LENGTHS = {0: 0, PREFIX: MAX_BATCH, LONG_PREFIX: 0xFFFFFFFF}
"""Bytes of a length prefix, and the largest length they can say."""


class Broken(Exception):
    """The other end breaks the rules of what carries the batches; the message says how."""


class Framing(ABC):
    """One link's framing, both directions.

    Attributes:
        opened: Batches can be sent: the handshake, where there is one, is over.
        over: How the other end took its leave, in words, where the framing has a farewell; empty before.
        talks: It has something to say by itself: ``answer`` is worth a look.
        seals: What leaves goes through ``seal``.
        log: What passed and is no batch, for the record: (sent by us, bytes, words). None: not wanted.
    """

    talks: bool = False
    seals: bool = False

    def __init__(self) -> None:
        self.opened = True
        self.over = ""
        self.log: list[tuple[bool, bytes, str]] | None = None
        self._prefix = 0
        self._limit = MAX_BATCH

    @property
    def prefix(self) -> int:
        """Bytes of the length in front of the next batch that comes in, and of those that leave."""
        return self._prefix

    @prefix.setter
    def prefix(self, size: int) -> None:
        self._prefix = size

    @property
    def limit(self) -> int:
        """Bytes of the largest batch that is taken."""
        return self._limit

    @limit.setter
    def limit(self, size: int) -> None:
        self._limit = size

    @abstractmethod
    def feed(self, data: bytes) -> None:
        """Takes bytes from the socket.

        Raises:
            Broken: Nothing can be read from here on.
        """

    @abstractmethod
    def take(self) -> bytes | None:
        """Returns the next batch, or None.

        Raises:
            Overlong: It is larger than ``limit``.
            Broken: Nothing can be read from here on.
        """

    @abstractmethod
    def frame(self, batch: bytes, length: int | None, prefix: int | None) -> bytes:
        """Returns a batch as it leaves.

        Args:
            batch: The messages, encoded.
            length: What the length says; the truth when None.
            prefix: Bytes of the length; as the link has it when None.

        Raises:
            ValueError: The length cannot be said.
        """

    def frame_cut(self, batch: bytes, cuts: Sequence[int]) -> bytes:  # noqa: ARG002  (for those who can)
        """Returns a batch in several frames, cut at these positions, where the framing knows such a thing."""
        return self.frame(batch, None, None)

    @abstractmethod
    def came_as(self, batch: bytes) -> bytes:
        """Returns the batch taken last as it travelled."""

    @property
    @abstractmethod
    def pending(self) -> bytes:
        """Bytes of a batch that is not complete."""

    def cut_with(self, reader: type[BatchReader]) -> None:
        """Cuts what comes in with another reader, where there are lengths to be read; before anything came."""
        del reader

    def start(self) -> None:
        """Begins the handshake; what it says is in ``answer``. Most framings have none."""
        self.opened = True

    def answer(self) -> bytes:
        """Returns what the framing itself has to say, and forgets it."""
        return b""

    def seal(self, data: bytes) -> bytes:
        """Returns framed bytes as the socket carries them; only where ``seals``."""
        return data

    def goodbye(self) -> bytes:
        """Returns the framing's own farewell."""
        return b""

    def stream_ended(self) -> str:
        """Says in words how the stream ended when no more bytes come."""
        return "end of stream"


class Prefixed(Framing):
    """Batches with their length in front: what a plain stream carries."""

    def __init__(self) -> None:
        super().__init__()
        self._reader = BatchReader()

    @property
    def prefix(self) -> int:
        """Bytes of the length."""
        return self._reader.prefix

    @prefix.setter
    def prefix(self, size: int) -> None:
        self._reader.prefix = size

    @property
    def limit(self) -> int:
        """Bytes of the largest batch."""
        return self._reader.limit

    @limit.setter
    def limit(self, size: int) -> None:
        self._reader.limit = size

    def feed(self, data: bytes) -> None:
        """See Framing."""
        self._reader.add(data)

    def take(self) -> bytes | None:
        """See Framing."""
        return self._reader.take()

    def frame(self, batch: bytes, length: int | None, prefix: int | None) -> bytes:
        """See Framing."""
        return with_length(batch, length, self._reader.prefix if prefix is None else prefix)

    def cut_with(self, reader: type[BatchReader]) -> None:
        """See Framing."""
        if type(self._reader) is not reader:
            self._reader = reader(self.prefix, self.limit)

    def came_as(self, batch: bytes) -> bytes:
        """See Framing."""
        return len(batch).to_bytes(self._reader.prefix, "little") + batch

    @property
    def pending(self) -> bytes:
        """See Framing."""
        return self._reader.pending


def with_length(batch: bytes, length: int | None, prefix: int) -> bytes:
    """Returns a batch with its length in front.

    Raises:
        ValueError: The length cannot be said, or a length is wanted where there is none.
    """
    said = len(batch) if length is None else length
    if prefix not in LENGTHS or (not prefix and length is not None):
        raise ValueError(f"a length prefix of {prefix} bytes says nothing; it has 2 or 4")
    if prefix and not 0 <= said <= LENGTHS[prefix]:
        raise ValueError(f"a batch of {said} bytes, the length prefix can say at most {LENGTHS[prefix]}")
    return said.to_bytes(prefix, "little") + batch if prefix else batch
