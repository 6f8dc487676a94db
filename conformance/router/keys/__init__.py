"""Key expressions in great number, found by those that intersect. Other packages import from here."""

from conformance.router.keys.index import KeyIndex

__all__ = ["KeyIndex"]
