"""A network message into FRAGMENTs and back, with bounds. Spec: Fragmentation."""

from __future__ import annotations

from dataclasses import dataclass, field

from scapy_layers.extensions import Drop, First
from scapy_layers.transport import Fragment

MAX_MESSAGE = 1 << 30
"""Bytes of the largest reassembled message, as real nodes have it."""


def cut(raw: bytes, room: int) -> list[bytes]:
    """Cuts an encoded network message into slices of at most ``room`` bytes.

    Raises:
        ValueError: No room for a single byte.
    """
    if room < 1:
        raise ValueError("the batch size leaves no room for a fragment")
    return [raw[at : at + room] for at in range(0, len(raw), room)]


@dataclass(slots=True)
class Reassembly:
    """The fragments of one lane and direction.

    Attributes:
        patch: Agreed patch version; from 1 on First and Drop count.
        most: Bytes after which a message is thrown away.
    """

    patch: int = 0
    most: int = MAX_MESSAGE
    _parts: list[bytes] = field(default_factory=list)
    _size: int = 0
    _active: bool = False

    def take(self, fragment: Fragment, *, gap: bool = False) -> bytes | None:
        """Takes the next fragment and returns the message when it is complete.

        Args:
            fragment: The fragment.
            gap: Sequence numbers are missing before it: the partial message is lost.
        """
        chain = fragment.extensions or []
        if gap:
            self.forget()
        if self.patch and any(isinstance(extension, Drop) for extension in chain):
            self.forget()
            return None
        first = any(isinstance(extension, First) for extension in chain)
        if self.patch and first:
            self.forget()
            self._active = True
        if self.patch and not self._active:
            return None
        self._parts.append(fragment.data)
        self._size += len(fragment.data)
        if self._size > self.most:
            self.forget()
            return None
        if fragment.value("M"):
            return None
        whole = b"".join(self._parts)
        self.forget()
        return whole

    def forget(self) -> None:
        """Throws the partial message away."""
        self._parts.clear()
        self._size = 0
        self._active = False
