"""FRAGMENTs back into messages, one chain a lane, within bounds. Spec: Fragmentation."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

from scapy_layers.codes import Priority
from scapy_layers.lanes import following, next_but_one
from scapy_layers.limits import Limits
from scapy_layers.remarks import Lane, Remark, RemarkKind

PIECE = 64
"""Bytes that a piece costs besides its data: an empty one is not free."""

LANES = tuple(Lane(priority, reliable) for priority in Priority for reliable in (False, True))
"""All lanes that a direction can have."""


class Place(NamedTuple):
    """Where a chain grows: session number, end that sends, lane."""

    session: int
    side: int
    lane: Lane


class Piece(NamedTuple):
    """What a FRAGMENT says.

    Attributes:
        number: Of the packet.
        sn: Sequence number.
        data: Slice of the message.
        more: The message goes on.
        first: It has the extension First.
        drop: It has the extension Drop.
    """

    number: int
    sn: int
    data: bytes
    more: bool
    first: bool
    drop: bool


class Whole(NamedTuple):
    """A message that is complete: its bytes, and the packets that brought them."""

    data: bytes
    pieces: tuple[int, ...]


@dataclass(slots=True)
class _Chain:
    last: int = 0
    parts: list[bytes] = field(default_factory=list)
    pieces: list[int] = field(default_factory=list)
    size: int = 0
    cost: int = 0
    missed: bool = False  # something of the sender was not captured since it began


class Fragments:
    """The unfinished messages of all lanes.

    Attributes:
        held: Bytes they cost now.
        forgotten: Messages that went unfinished because of a bound.
    """

    def __init__(self, limits: Limits) -> None:
        self.held = 0
        self.forgotten = 0
        self._all = limits.fragments
        self._most = min(limits.message, limits.fragments)
        self._chains: OrderedDict[Place, _Chain] = OrderedDict()
        # The last number of what ended on a lane, and whether it was in fragments: behind it a message begins,
        # whatever the patch version. By session.
        self._ends: dict[int, dict[Place, tuple[int, bool]]] = {}

    def take(
        self, place: Place, piece: Piece, *, patch: int | None, mask: int | None, complete: bool, opens: bool
    ) -> tuple[Whole | None, Remark | None]:
        """Takes the next fragment of a lane.

        Args:
            place: The lane.
            piece: The fragment.
            patch: Agreed patch version. Below 1 First and Drop do not count; when None, they count where
                they stand.
            mask: Largest sequence number, None when it is not known.
            complete: All of the sender was heard so far, so the beginning of the message as well.
            opens: It is the first on its lane that its sender has said.

        Returns:
            The message when it is complete, and a remark about fragments that make none.
        """
        marks = patch is None or patch >= 1
        why = self._broken_by(place, piece, patch, mask)
        remark = self._lost(place, why) if why else None
        if marks and piece.drop:
            # The sender gave it up. To say so is its duty, no fault.
            self._end(place, piece.sn)
            return None, remark
        if place not in self._chains:
            named = marks and piece.first
            if not named and (patch or not self._may_begin(place, piece, mask, opens)):
                astray = self._astray(place, piece, mask, complete)
                return None, remark or astray
            self._chains[place] = _Chain()
        if over := self._grow(place, piece):
            return None, over
        if piece.more:
            return None, remark
        chain = self._chains[place]
        whole = Whole(b"".join(chain.parts), tuple(chain.pieces))
        self._end(place, piece.sn)
        return whole, remark

    def interrupt(self, place: Place, sn: int) -> Remark | None:
        """Takes note of a FRAME on a lane: an unfinished message there is lost."""
        remark = self._lost(place, "a FRAME of the same lane") if place in self._chains else None
        self._ends.setdefault(place.session, {})[place] = sn, False
        return remark

    def miss(self, session: int, side: int) -> None:
        """Takes note that something that a side said was not captured: its messages may lack what is there."""
        for lane in LANES:
            if chain := self._chains.get(Place(session, side, lane)):
                chain.missed = True

    def unsettle(self, session: int) -> None:
        """Takes note that not all of a session was looked at: where a message ended on its lanes is not known."""
        self._ends.pop(session, None)

    def drop(self, session: int) -> None:
        """Forgets the lanes of a session."""
        self._ends.pop(session, None)
        for side in (0, 1):
            for lane in LANES:
                self._forget(Place(session, side, lane))

    def _broken_by(self, place: Place, piece: Piece, patch: int | None, mask: int | None) -> str:
        """Returns why a fragment does not go on with the message of its lane; empty if it does, or is the first."""
        chain = self._chains.get(place)
        if chain is None:
            return ""
        if piece.first and patch != 0:
            return "a new one begins"
        if piece.sn not in following(chain.last, mask):
            return f"sequence number {piece.sn} after {chain.last}"
        if patch and not chain.size:
            # As real nodes do: a first fragment without a byte does not count as one.
            return "its first fragment is empty"
        return ""

    def _may_begin(self, place: Place, piece: Piece, mask: int | None, opens: bool) -> bool:
        """Tells whether a fragment that does not say so begins a message."""
        ended = self._ended(place)
        if ended is None:
            return opens
        end, in_fragments = ended
        # Real nodes take one number more than they send for a message in fragments.
        return self._is_next(place, piece, mask) or (in_fragments and piece.sn in next_but_one(end, mask))

    def _is_next(self, place: Place, piece: Piece, mask: int | None) -> bool:
        """Tells whether nothing can be between a fragment and what ended on its lane."""
        ended = self._ended(place)
        return ended is not None and piece.sn in following(ended[0], mask)

    def _ended(self, place: Place) -> tuple[int, bool] | None:
        return self._ends.get(place.session, {}).get(place)

    def _astray(self, place: Place, piece: Piece, mask: int | None, complete: bool) -> Remark | None:
        """Passes over a fragment of a message whose beginning is not there."""
        sure = complete or self._is_next(place, piece, mask)
        if not piece.more:
            self._end(place, piece.sn)
        if not sure:
            return None
        return Remark(RemarkKind.FRAGMENT, "a fragment of a message that never began")

    def _grow(self, place: Place, piece: Piece) -> Remark | None:
        chain = self._chains[place]
        chain.last = piece.sn
        chain.parts.append(piece.data)
        chain.pieces.append(piece.number)
        chain.size += len(piece.data)
        chain.cost += len(piece.data) + PIECE
        self.held += len(piece.data) + PIECE
        self._chains.move_to_end(place)
        if chain.cost > self._most:
            self._forget(place)
            self.forgotten += 1
            text = f"a message of more than {self._most} bytes is thrown away"
            return Remark(RemarkKind.LIMIT, text)
        while self.held > self._all:
            self._forget(next(iter(self._chains)))
            self.forgotten += 1
        return None

    def _lost(self, place: Place, why: str) -> Remark | None:
        """Throws an unfinished message away."""
        count, missed = len(self._chains[place].pieces), self._chains[place].missed
        self._forget(place)
        return (
            None if missed else Remark(RemarkKind.FRAGMENT, f"a message of {count} fragments is lost: {why}")
        )

    def _end(self, place: Place, sn: int) -> None:
        self._forget(place)
        self._ends.setdefault(place.session, {})[place] = sn, True

    def _forget(self, place: Place) -> None:
        chain = self._chains.pop(place, None)
        if chain:
            self.held -= chain.cost
