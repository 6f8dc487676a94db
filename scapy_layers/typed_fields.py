"""The fields of one packet as tshark's JSON has them, with types: what ``packet.zenoh`` is.

tshark writes every value as text. Which type it has says the table of fields that tshark prints itself.
"""

from __future__ import annotations

import keyword
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TextIO, TypeAlias

Value: TypeAlias = int | float | str | bytes | bool
"""Of one field, once."""


class FieldTable:
    """All fields of a protocol.

    Attributes:
        protocol: Its name, which all names of its fields begin with.
        keys: What tshark's EK format calls a field (``zenoh_zenoh_frame_sn``), by its name without the
            protocol (``frame.sn``).
        full: The same by the whole name (``zenoh.frame.sn``).
        types: What Wireshark calls the type of a field, by its name in EK.
        below: The names of the fields below a name (``frame``); a name that is missing here has none.
        inside: What can follow a name in an attribute: ``sn`` after ``frame``, ``frame`` at the top, which is "".
    """

    def __init__(self, types: Mapping[str, str], protocol: str = "zenoh") -> None:
        """Takes the types of fields (``FT_UINT64``) by their full names."""
        self.protocol = protocol
        self.keys: dict[str, str] = {}
        self.full: dict[str, str] = {}
        self.types: dict[str, str] = {}
        self.below: dict[str, list[str]] = {}
        self.inside: dict[str, dict[str, None]] = {}
        self._reads: dict[str, Callable[[str], Value]] = {}
        for full, type_ in types.items():
            name = full.removeprefix(f"{protocol}.")
            key = f"{protocol}_{full.replace('.', '_')}"
            self.keys[name] = self.full[full] = key
            self.types[key] = type_
            self._reads[key] = _READS.get(type_, str)
            parts = name.split(".")
            for at in range(len(parts)):
                self.inside.setdefault(".".join(parts[:at]), {})[parts[at]] = None
            for at in range(1, len(parts)):
                self.below.setdefault(".".join(parts[:at]), []).append(name)

    def __contains__(self, key: object) -> bool:
        """Whether EK has a field of that name."""
        return key in self._reads

    def typed(self, key: str, found: Any) -> Value | list[Value]:
        """Returns what tshark wrote, with its type.

        Args:
            key: Name of the field in EK.
            found: The text, a list of texts, or something that JSON has itself: true, false, null.
        """
        if isinstance(found, list):
            return [self._one(key, item) for item in found]
        return self._one(key, found)

    def _one(self, key: str, found: Any) -> Value:
        if isinstance(found, str):
            return self._reads[key](found)
        return True if found is None else bool(found)


def _integer(text: str) -> int:
    return int(text, 16) if text.startswith("0x") else int(text)


def _octets(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _truth(text: str) -> bool:
    return text in {"1", "True", "true"}


def _presence(_text: str) -> bool:
    return True


def _moment(text: str) -> float:
    """Returns seconds since 1970: of 2023-11-14T22:13:20.123000000Z, or Nov 14, 2023 22:13:20.123000000 UTC."""
    date, _, rest = text.partition(".")
    digits, _, zone = rest.removesuffix("Z").partition(" ")
    if "T" in date[:11]:
        whole = datetime.fromisoformat(date).replace(tzinfo=UTC)
    else:
        month, day, year, clock = date.replace(",", "").split()[:4]
        whole = datetime.fromisoformat(f"{year}-{_MONTHS.index(month) // 3 + 1:02}-{day:0>2}T{clock}")
        # Without a zone that everybody knows it is the time of this machine.
        whole = whole.replace(tzinfo=UTC) if zone == "UTC" else whole
    return whole.timestamp() + float(f"0.{digits or 0}")


_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"

_READS: dict[str, Callable[[str], Value]] = {
    **{f"FT_{sign}INT{bits}": _integer for sign in ("", "U") for bits in (8, 16, 24, 32, 40, 48, 56, 64)},
    "FT_FRAMENUM": _integer,
    "FT_FLOAT": float,
    "FT_DOUBLE": float,
    "FT_RELATIVE_TIME": float,
    "FT_ABSOLUTE_TIME": _moment,
    "FT_BYTES": _octets,
    "FT_BOOLEAN": _truth,
    "FT_NONE": _presence,
    "FT_PROTOCOL": _presence,
}
"""How the text of a type is read; all others are text."""


class Fields:
    """The fields below a name: of the protocol, of a message.

    Every field is an attribute. Besides there are the methods that pyshark's layers have.
    """

    __slots__ = ("_name", "_raw", "_table")

    def __init__(self, table: FieldTable, raw: dict[str, Any], name: str = "") -> None:
        """Takes what tshark wrote by the names of EK."""
        self._table = table
        self._raw = raw
        self._name = name

    def __getattr__(self, item: str) -> Any:
        if item.startswith("_"):
            raise AttributeError(item)
        found = self.get_field(item)
        if found is None:
            raise AttributeError(f"this packet has no {self._full(item)}{self._advice(item)}")
        return found

    def get_field(self, name: str) -> Fields | Value | list[Value] | None:
        """Returns a field; None when this packet does not have it.

        Args:
            name: Below this one: ``sn``, or from the top ``frame.sn``.
        """
        path = self._path(name)
        raw = self._raw
        key = self._table.keys.get(path)
        below = self._table.below.get(path)
        if below is not None:
            keys = self._table.keys
            if (key is not None and key in raw) or any(keys[field] in raw for field in below):
                return Fields(self._table, raw, path)
            return None
        return None if key is None or key not in raw else self._table.typed(key, raw[key])

    def get_field_as_list(self, name: str) -> list[Any]:
        """Returns all values of a field in the order of the bytes; none when this packet does not have it."""
        found = self.get_field(name)
        if isinstance(found, Fields):
            found = found.value
        if found is None:
            return []
        return found if isinstance(found, list) else [found]

    def get(self, item: str, default: Any = None) -> Any:
        """Returns a field, or something else when this packet does not have it."""
        found = self.get_field(item)
        return default if found is None else found

    def has_field(self, name: str) -> bool:
        """Tells whether this packet has a field."""
        return self.get_field(name) is not None

    __contains__ = has_field

    @property
    def value(self) -> Value | list[Value] | None:
        """The value of this name itself; None when it only has fields below."""
        key = self._table.keys.get(self._name)
        return None if key is None or key not in self._raw else self._table.typed(key, self._raw[key])

    @property
    def layer_name(self) -> str:
        """The name of the protocol or message."""
        return self._name.rpartition(".")[2] or self._table.protocol

    @property
    def field_names(self) -> list[str]:
        """What the attributes of this packet are."""
        return [name for name in self._table.inside.get(self._name, ()) if self.has_field(name)]

    @property
    def all_field_names(self) -> list[str]:
        """The full names of all fields below that this packet has: ``frame.sn``."""
        names = self._table.below.get(self._name, ()) if self._name else self._table.keys
        return [name for name in names if self._table.keys[name] in self._raw]

    def pretty_print(self, writer: TextIO | None = None) -> None:
        """Prints all fields."""
        (writer or sys.stdout).write(str(self))

    def __str__(self) -> str:
        if self._name and self.value is not None and not self.all_field_names:
            return str(self.value)
        lines = (f"\t{name}: {self._shown(name)}\n" for name in self.all_field_names)
        return f"Layer {self.layer_name.upper()}:\n{''.join(lines)}"

    def __repr__(self) -> str:
        return f"<{self.layer_name.upper()} Layer>" if not self._name else f"<{self._full('')[:-1]}>"

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *(f"{n}_" if keyword.iskeyword(n) else n for n in self.field_names)]

    def __getstate__(self) -> tuple[FieldTable, dict[str, Any], str]:
        return self._table, self._raw, self._name

    def __setstate__(self, state: tuple[FieldTable, dict[str, Any], str]) -> None:
        self._table, self._raw, self._name = state

    def _path(self, name: str) -> str:
        if name.endswith("_") and keyword.iskeyword(name[:-1]):
            name = name[:-1]
        return f"{self._name}.{name}" if self._name else name

    def _full(self, name: str) -> str:
        return f"{self._table.protocol}.{self._path(name)}"

    def _advice(self, item: str) -> str:
        known = self._path(item)
        return "" if known in self._table.keys or known in self._table.below else ", nor has any"

    def _shown(self, name: str) -> str:
        return repr(self._table.typed(key := self._table.keys[name], self._raw[key]))


class Pairs(dict[str, Any]):
    """An object of JSON in which names may occur several times, as tshark writes them.

    As a dictionary it has lists for these, as pyshark expects it.

    Attributes:
        pairs: What it consists of, in order.
    """

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs
        if len(self) < len(pairs):
            several: dict[str, list[Any]] = {}
            for name, value in pairs:
                several.setdefault(name, []).append(value)
            self.update((name, values) for name, values in several.items() if len(values) > 1)


def from_ek(table: FieldTable, trees: Sequence[Pairs]) -> Fields:
    """Returns the fields of the trees that a protocol has in one packet, as EK writes them.

    EK has the values of a field together that stand in branches of the same name, under one name; a field that
    stands in branches of different names comes several times.
    """
    if len(trees) == 1 and "_ws_expert" not in trees[0] and len(trees[0]) == len(trees[0].pairs):
        # Nothing to gather.
        return Fields(table, trees[0])
    raw: dict[str, Any] = {}
    for tree in trees:
        _gather(table, tree.pairs, raw)
    return Fields(table, raw)


def from_json(table: FieldTable, trees: Sequence[Pairs]) -> Fields:
    """Returns the fields of the trees that a protocol has in one packet, as JSON writes them."""
    raw: dict[str, Any] = {}
    for tree in trees:
        _gather(table, _renamed(table, tree), raw)
    return Fields(table, raw)


def _renamed(table: FieldTable, tree: Pairs) -> Iterator[tuple[str, Any]]:
    """Yields all there is in a tree, branches before what is on them, by the names of EK."""
    for name, value in tree.pairs:
        yield table.full.get(name, name), None if isinstance(value, Pairs) else value
        if isinstance(value, Pairs):
            yield from _renamed(table, value)


def _gather(table: FieldTable, items: Iterable[tuple[str, Any]], raw: dict[str, Any]) -> None:
    """Adds what the fields of a tree are to what is known."""
    for key, found in items:
        for item in found if isinstance(found, list) else (found,):
            if isinstance(item, Pairs):
                _gather(table, item.pairs, raw)
            elif key not in table:
                continue
            elif key not in raw:
                raw[key] = item
            elif isinstance(raw[key], list):
                raw[key].append(item)
            else:
                raw[key] = [raw[key], item]
