"""What a reader of Zenoh bytes may raise: WireError and its kinds, nothing else.

WireError(ValueError)
    Truncated                   the bytes end inside a field
    Overlong                    a number is larger than its field permits
    BadValue                    a value that has no meaning here, or bytes where none may stand
    UnknownMessage              an id that no message of this layer has
    UnknownMandatoryExtension   an extension nobody knows, with its M bit set
"""

from __future__ import annotations


class WireError(ValueError):
    """Bytes that a decoder refuses.

    Attributes:
        field: Path of the field, outermost message first: ``FRAME.messages.PUSH.key_suffix``.
        offset: Where the field begins, in bytes from the start of what was decoded.
        found: What stood there, in words.
    """

    def __init__(self, field: str, found: str, offset: int = 0) -> None:
        super().__init__(field, found, offset)
        self.field = field
        self.found = found
        self.offset = offset

    def about(self, field: str) -> None:
        """Says which field it is, where that was not known yet."""
        self.field = field
        self.args = (field, self.found, self.offset)

    def within(self, outer: str) -> WireError:
        """Returns the same error with the name of the message or field around it in front of the path."""
        return type(self)(f"{outer}.{self.field}" if self.field else outer, self.found, self.offset)

    def __str__(self) -> str:
        return f"{self.field} at byte {self.offset}: {self.found}"


class Truncated(WireError):
    """The bytes end inside a field."""


class Overlong(WireError):
    """A number or count is larger than its field permits."""


class BadValue(WireError):
    """A value without meaning, or bytes where none may stand."""


class UnknownMessage(WireError):
    """An id that no message of this layer has."""


class UnknownMandatoryExtension(WireError):
    """An extension that this protocol version does not define here, with its M bit set."""
