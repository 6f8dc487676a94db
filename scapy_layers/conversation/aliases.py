"""Key expressions and the numbers that stand for them, by session and end. Spec: WireExpr."""

from __future__ import annotations

from typing import NamedTuple

from scapy_layers.conversation.session import Session
from scapy_layers.conversation.table import Table
from scapy_layers.declarations import DeclareKeyExpr
from scapy_layers.extensions import WireExpr
from scapy_layers.limits import Limits
from scapy_layers.message import Layer
from scapy_layers.remarks import Remark, RemarkKind


class Reference(NamedTuple):
    """A key as a message refers to it.

    Attributes:
        scope: Number of the alias it begins with, 0 for none.
        suffix: What follows, without a separator.
        own: The alias is one of the sender, else of the receiver.
    """

    scope: int
    suffix: str
    own: bool


def reference(layer: Layer) -> Reference | None:
    """Returns the key of a dissected message, declaration body or WireExpr extension.

    None when they are absent (an INTEREST that is not restricted) or could not be read.
    """
    fields = layer.fields
    scope = fields.get("key_scope")
    if scope is None:
        return None
    match layer:
        case DeclareKeyExpr():
            # It has no M: what it builds on are aliases of its sender.
            own = True
        case WireExpr():
            own = bool(fields["mapping"])
        case _:
            own = bool(fields["M"])
    return Reference(int(scope), layer.key_suffix or "" if "key_suffix" in fields else "", own)


class _Alias(NamedTuple):
    key: str
    retired: bool = False


class Aliases:
    """The aliases that both ends of each session have declared."""

    def __init__(self, limits: Limits) -> None:
        self._longest = limits.key
        self.table: Table[tuple[int, int], _Alias] = Table(limits.aliases)

    def declare(self, session: Session, side: int, number: int, key: str) -> Remark | None:
        """Takes D_KEYEXPR of one end.

        An alias that is in use stays as it is, as in real nodes, unless what took it back may not have been heard.
        """
        known = self.table.get(session.number, (side, number))
        if known and not known.retired:
            if known.key == key:
                return None
            if session.certain(side) and not session.lossy:
                return Remark(RemarkKind.ALIAS, f"alias {number} is in use for {known.key!r}, which stays")
        self.table.put(session.number, (side, number), _Alias(key), len(key))
        return None

    def undeclare(self, session: Session, side: int, number: int) -> tuple[str | None, Remark | None]:
        """Takes U_KEYEXPR of one end and returns the key that the alias stood for."""
        known = self.table.get(session.number, (side, number))
        if known and not known.retired:
            # The other end may have used it in messages that are under way.
            self.table.put(session.number, (side, number), known._replace(retired=True), len(known.key))
            return known.key, None
        return None, self._unknown(session, side, number)

    def resolve(self, session: Session, side: int, key: Reference) -> tuple[str | None, Remark | None]:
        """Returns the full key that one end means; a remark when it cannot mean any."""
        if not key.scope:
            return key.suffix, None
        owner = side if key.own else 1 - side
        known = self.table.get(session.number, (owner, key.scope))
        if known is None or (known.retired and key.own):
            return None, self._unknown(session, owner, key.scope)
        if len(known.key) + len(key.suffix) > self._longest:
            return None, Remark(RemarkKind.LIMIT, f"a key of more than {self._longest} characters")
        return known.key + key.suffix, None

    def _unknown(self, session: Session, owner: int, number: int) -> Remark | None:
        """Returns a remark if the declaration must have been heard, had there been one."""
        if not session.certain(owner) or not self.table.lossless(session.number):
            return None
        return session.unheard(RemarkKind.ALIAS, f"alias {number} is not declared")
