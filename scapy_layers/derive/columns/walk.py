"""The walk: each shape becomes a function once, and reads its field in all messages at a time.

What is refused, and what is too rare to be worth a wave, is left out (see ``cursor``). Conditions are masks; the items
of a list, the extensions of a chain and the bodies of messages are waves: the first one of every row, then the second.
"""

from __future__ import annotations

from typing import assert_never

import numpy as np

from scapy_layers import shape
from scapy_layers.derive.columns import chain, nested, single
from scapy_layers.derive.columns.cursor import Cursor
from scapy_layers.derive.columns.schema import Shapes
from scapy_layers.derive.columns.scope import Part, Scope, Step, groups
from scapy_layers.derive.columns.units import Places


class Walk:
    """Reads messages of one kind, as many as there are rows."""

    def __init__(self, shapes: Shapes) -> None:
        """Prepares the steps for every message."""
        self._shapes = shapes
        self._steps = {key: self._prepare(message.fields) for key, message in shapes.items()}

    def messages(
        self,
        cursor: Cursor,
        described: shape.Message,
        units: Places,
        within: Places | None,
        parts: list[Part],
    ) -> None:
        """Reads a message in each row.

        Args:
            cursor: Where the messages begin; it moves behind them.
            described: What they are.
            units: Which unit each row stands in.
            within: Where the message begins that each stands in; None at the top.
            parts: Gets them and the bodies inside, also those of rows that are left out.
        """
        at = cursor.pos
        scope = Scope(units, at, parts)
        for step in self._steps[described.kind, described.id]:
            step(cursor, scope)
        parts.append(Part(described, units, at, cursor.pos, within, scope.columns))

    def _prepare(self, shapes: tuple[shape.Shape, ...]) -> tuple[Step, ...]:
        # Messages that follow inside are waves of their own.
        return tuple(
            self._step(described) for described in shapes if not isinstance(described, shape.Messages)
        )

    def _step(self, described: shape.Shape) -> Step:  # noqa: PLR0911, PLR0912, C901  (one match over all kinds)
        match described:
            case shape.Packed():
                return single.packed(described)
            case shape.U8():
                return single.u8(described)
            case shape.Le():
                return single.le(described)
            case shape.Vle():
                return single.vle(described)
            case shape.Zid():
                return single.zid(described)
            case shape.CountedBytes() | shape.Rest():
                return single.some_bytes(described)
            case shape.When():
                return nested.when(described, self._prepare(described.fields))
            case shape.Many():
                return nested.many(described, self._prepare(described.item))
            case shape.Region():
                return nested.region(described, self._prepare(described.fields))
            case shape.Chain():
                return chain.chain(described, [self._prepare(known.fields) for known in described.known])
            case shape.Body():
                return self._body(described)
            case shape.Messages():
                raise ValueError("nothing is read behind messages that follow inside")
            case _:
                assert_never(described)

    def _body(self, described: shape.Body) -> Step:
        unknown = np.ones(32, bool)
        unknown[list(described.ids)] = False

        def step(cursor: Cursor, scope: Scope) -> None:
            number = cursor.peek() & 0x1F
            cursor.leave(unknown.take(number))
            for value, rows in groups(number, cursor.out):
                some, within = cursor.pick(rows), scope.at if rows is None else scope.at.take(rows)
                units = scope.units if rows is None else scope.units.take(rows)
                self.messages(some, self._shapes[described.kind, value], units, within, scope.parts)
                cursor.put(rows, some)

        return step
