"""Sequence numbers of one sender: a count for each lane, modulo the resolution. Spec: Sequence Numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from scapy_layers.remarks import Lane, Remark, RemarkKind

MASKS = (0x7F, 0x3FFF, 0x0FFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF)
"""Largest sequence number for the resolution codes 0 to 3: nodes use what 1, 2 and 4 VLE bytes hold."""

LAST_OF_64 = frozenset({0xFFFF_FFFF, 0x7FFF_FFFF_FFFF_FFFF, MASKS[3]})
"""Where nodes begin again when 64 bits are agreed: eclipse-zenoh counts with 32 bits, zenoh-pico with 63."""


def following(sn: int, mask: int | None) -> frozenset[int]:
    """Returns what may come after a number; when the resolution is not known, each of them is thought of."""
    if mask is not None and mask != MASKS[3]:
        return frozenset({sn + 1 & mask})
    wraps = LAST_OF_64 if mask is not None else LAST_OF_64.union(MASKS)
    return frozenset({sn + 1 & MASKS[3], 0}) if sn in wraps else frozenset({sn + 1})


def next_but_one(sn: int, mask: int | None) -> frozenset[int]:
    """Returns what may come after the number that may come after a number."""
    return frozenset(after for skipped in following(sn, mask) for after in following(skipped, mask))


class Part(NamedTuple):
    """What a FRAME or FRAGMENT holds of network messages.

    Attributes:
        fragment: A piece of one, else whole ones.
        begins: It says that it begins with a message.
        ends: It ends with one, or gives one up.
        inside: It says that it does not begin with one.
    """

    fragment: bool
    begins: bool
    ends: bool
    inside: bool = False


WHOLE = Part(fragment=False, begins=True, ends=True)


class Taken(NamedTuple):
    """What became of a number.

    Attributes:
        fresh: A receiver takes the message; it drops one that is a duplicate, old or out of range.
        remark: What is wrong with the number.
    """

    fresh: bool
    remark: Remark | None = None


_FRESH = Taken(fresh=True)


@dataclass(slots=True)
class _Position:
    last: int
    epoch: int
    part: Part = WHOLE
    missing: dict[int, None] = field(default_factory=dict)


@dataclass(slots=True)
class Numbers:
    """The numbers that one end of a session has sent.

    Attributes:
        mask: Largest number by the agreed resolution; None until that is known. A number that wraps tells.
    """

    mask: int | None = None
    _first: dict[Lane, int] = field(default_factory=dict)
    _first_epoch: int = 0
    _default_first: int | None = None
    _epoch: int = 0
    _positions: dict[Lane, _Position] = field(default_factory=dict)

    def start(self, default: int | None, lanes: Mapping[Lane, int] | None = None) -> None:
        """Notes which number each lane begins with, said by OPEN or JOIN."""
        self._default_first = default
        self._first = dict(lanes or {})
        self._first_epoch = self._epoch

    def is_first(self, lane: Lane, sn: int) -> bool:
        """Tells whether a number is that with which a lane begins, and nothing in front of it went unheard."""
        return self._first_epoch == self._epoch and self._first.get(lane, self._default_first) == sn

    def doubt(self) -> None:
        """Notes that messages were not seen: the next number of every lane is taken as it is."""
        self._epoch += 1

    def take(
        self, lane: Lane, sn: int, part: Part = WHOLE, *, reorder: int = 0, lossy: bool = False
    ) -> Taken:
        """Judges the number of the next FRAME or FRAGMENT of a lane.

        Args:
            lane: The lane.
            sn: Its number.
            part: What it holds.
            reorder: Numbers by which messages may overtake each other unharmed: 0 on one stream.
            lossy: Messages may be lost on the way: where one that begins or ends in fragments has to be, it was.
        """
        if self.mask is not None and sn > self.mask:
            text = f"sequence number {sn}, the agreed resolution ends at {self.mask}"
            return Taken(fresh=False, remark=Remark(RemarkKind.RANGE, text))
        at = self._positions.get(lane) or self._begin(lane, sn)
        before, at.part = at.part, part
        if at.epoch != self._epoch:
            at.last, at.epoch = sn, self._epoch
            at.missing.clear()
            return _FRESH
        # Real nodes take one number more than they send for a message in fragments, finished or given up.
        in_vain = before.fragment and (
            before.ends and not part.inside if lossy else before.ends or part.begins
        )
        if sn in following(at.last, self.mask) or (in_vain and sn in next_but_one(at.last, self.mask)):
            if sn == 0 and self.mask is None and at.last > 0:
                # It wrapped, which tells the resolution.
                self.mask = next(mask for mask in MASKS if mask >= at.last)
            at.last = sn
            return self._overdue(lane, at, reorder) if at.missing else _FRESH
        return self._jump(lane, at, sn, reorder)

    def _begin(self, lane: Lane, sn: int) -> _Position:
        """Returns where a lane stands before its first number: unknown, unless its start was seen."""
        first = self._first.get(lane, self._default_first)
        known = first is not None and self.mask is not None and self._first_epoch == self._epoch
        last = first - 1 & self.mask if known and first is not None and self.mask is not None else sn
        at = self._positions[lane] = _Position(last, self._epoch if known else -1)
        return at

    def _jump(self, lane: Lane, at: _Position, sn: int, reorder: int) -> Taken:
        mask = MASKS[-1] if self.mask is None else self.mask
        step = sn - at.last & mask
        if step == 0:
            text = f"sequence number {sn} again on {_name(lane)}"
            return Taken(fresh=False, remark=Remark(RemarkKind.DUPLICATE, text))
        if step <= mask >> 1:
            skipped = [at.last + past & mask for past in range(1, step)] if step <= reorder else []
            before, at.last = at.last, sn
            at.missing.update(dict.fromkeys(skipped))
            return self._overdue(lane, at, reorder) if skipped else _missing(lane, step - 1, before, sn)
        if sn in at.missing:
            del at.missing[sn]
            return _FRESH
        if self.mask is None and at.last - sn > MASKS[0] >> 1:
            # So far back only if a small resolution wrapped where nobody saw it.
            at.last = sn
            return _FRESH
        text = f"sequence number {sn} behind {at.last} on {_name(lane)}"
        return Taken(fresh=False, remark=Remark(RemarkKind.OLD, text))

    def _overdue(self, lane: Lane, at: _Position, reorder: int) -> Taken:
        """Tells of numbers that are still missing although the lane went on by more than ``reorder``."""
        mask = MASKS[-1] if self.mask is None else self.mask
        late = [sn for sn in at.missing if (at.last - sn & mask) > reorder]
        for sn in late:
            del at.missing[sn]
        return _missing(lane, len(late), late[0] - 1 & mask, at.last) if late else _FRESH


def _missing(lane: Lane, count: int, before: int, sn: int) -> Taken:
    kind = RemarkKind.GAP if lane.reliable else RemarkKind.LOSS
    text = f"{count} sequence numbers missing between {before} and {sn} on {_name(lane)}"
    return Taken(fresh=True, remark=Remark(kind, text))


def _name(lane: Lane) -> str:
    return f"{lane.priority.name} {'reliable' if lane.reliable else 'best effort'}"
