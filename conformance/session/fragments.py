"""FRAGMENTs back into a network message, with bounds. Spec: Fragmentation."""

from __future__ import annotations

from dataclasses import dataclass, field

from scapy_layers.extensions import Drop, First
from scapy_layers.transport import Fragment

MAX_MESSAGE = 1 << 30
"""Bytes of the largest reassembled message, as real nodes have it."""


@dataclass(slots=True)
class Reassembly:
    """The fragments of one lane and direction.

    Attributes:
        patch: Agreed patch version; from 1 on First and Drop count.
        most: Bytes after which a message is thrown away.
    """

    patch: int = 0
    most: int = MAX_MESSAGE
    # One buffer, not a list of parts: fragments of one byte shall cost one byte.
    _buffer: bytearray = field(default_factory=bytearray)
    _active: bool = False
    _spoilt: bool = False

    @property
    def size(self) -> int:
        """Bytes held."""
        return len(self._buffer)

    def take(self, fragment: Fragment, *, gap: bool = False) -> bytes | None:
        """Takes the next fragment and returns the message when it is complete.

        Args:
            fragment: The fragment.
            gap: Sequence numbers are missing before it: the partial message is lost, and so is the rest
                of that message as far as First tells where the next one begins.
        """
        chain = fragment.extensions or []
        if gap:
            self.forget()
        if self.patch and any(isinstance(extension, Drop) for extension in chain):
            self.forget()
            return None
        if self.patch and any(isinstance(extension, First) for extension in chain):
            self.forget()
            self._active = True
        if self.patch and not self._active:
            return None
        last = not fragment.value("M")
        if not self._spoilt:
            self._buffer += fragment.data
            if len(self._buffer) > self.most:
                self.spoil()
        if not last:
            return None
        whole = None if self._spoilt else bytes(self._buffer)
        self.forget()
        return whole

    def spoil(self) -> None:
        """Throws the partial message away and what is still to come of it."""
        self._buffer.clear()
        self._spoilt = True

    def forget(self) -> None:
        """Throws the partial message away."""
        self._buffer.clear()
        self._active = False
        self._spoilt = False
