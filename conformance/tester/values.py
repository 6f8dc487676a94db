"""Values of fields as plain data and back: what scripts are written in.

Numbers and text stand for themselves. Bytes are ``{"hex": "0a0b"}``, a message, extension or region is
``{"layer": "Put", "fields": {...}}``, and what only a running link knows is ``{"live": "cookie"}``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any, cast

from conformance.errors import UsageError
from scapy_layers import catalogue, shape
from scapy_layers.message import Layer, Message, Region, UnknownExtension

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]

Live = Callable[[str], Any]
"""Gives a value that only a running link knows."""

LIVE = ("cookie", "zid", "sn", "sn_be", "request_id", "interest_id", "node_zid")
"""Names of such values.

``cookie``: of the last InitAck. ``zid``: ours. ``node_zid``: of the other end. ``sn``, ``sn_be``: the next
number of the reliable and of the best-effort channel. ``request_id``, ``interest_id``: of the last REQUEST, INTEREST that came in.
"""


class ScriptError(UsageError):
    """A script is not what it has to be; says where and what."""


@cache
def layers() -> dict[str, type[Layer]]:
    """Returns all classes of messages, extensions and regions by the name they have in Python."""
    regions = [cls for cls in Region.__subclasses__() if cls.__module__.startswith("scapy_layers.")]
    found = [*catalogue.MESSAGES, *catalogue.EXTENSIONS, UnknownExtension, *regions]
    return {cls.__name__: cls for cls in found}


def message_class(name: str, where: str = "") -> type[Message]:
    """Returns the class of a message by its name.

    Raises:
        ScriptError: There is none.
    """
    cls = layers().get(name)
    if cls is None or not issubclass(cls, Message):
        raise ScriptError(f"{where}: {name!r} is no message; write one like Init, Push, DeclareSubscriber")
    return cls


def written(value: Any) -> Plain:  # noqa: PLR0911  (one match over all kinds of value)
    """Returns a value as plain data.

    Raises:
        TypeError: It is none of a field.
    """
    match value:
        case Layer():
            described: Any = type(value)
            texts = _texts(described)
            given = {
                name: _text(inner) if name in texts else written(inner)
                for name, inner in value.fields.items()
                if _says_something(inner)
            }
            return {"layer": type(value).__name__, "fields": given}
        case bytes() | bytearray():
            return {"hex": bytes(value).hex()}
        case bool() | None:
            return value
        case Enum():
            return cast("Plain", value.value)
        case int() | float() | str():
            return value
        case list() | tuple():
            return [written(inner) for inner in value]
        case dict():
            return {str(name): written(inner) for name, inner in value.items()}
    raise TypeError(f"{type(value).__name__} cannot be written down")


@cache
def _texts(cls: Any) -> frozenset[str]:
    """Returns the names of the fields of a layer that hold text, or a list of texts."""
    names = set()
    for described in shape.walk(cls.wire_shapes()):
        if isinstance(described, shape.Many | shape.CountedBytes | shape.Rest):
            inside = described.item[0] if isinstance(described, shape.Many) else described
            if isinstance(inside, shape.CountedBytes | shape.Rest) and inside.text:
                names.add(described.name)
    return frozenset(names)


def _text(value: Any) -> Plain:
    """Returns text as such, where its bytes are some."""
    if isinstance(value, list):
        return [_text(inner) for inner in value]
    try:
        return value.decode() if isinstance(value, bytes) else written(value)
    except UnicodeDecodeError:
        return written(value)


def _says_something(value: object) -> bool:
    return not (value is None or (isinstance(value, list) and not value))


def read(plain: Plain, live: Live, where: str = "") -> Any:
    """Returns the value that plain data stands for.

    Raises:
        ScriptError: It stands for none.
    """
    match plain:
        case {"hex": str(text), **rest} if not rest:
            return unhex(text, where)
        case {"live": str(name), **rest} if not rest:
            if name not in LIVE:
                raise ScriptError(f"{where}: {name!r} is no live value; there are {', '.join(LIVE)}")
            return live(name)
        case {"layer": str(name), "fields": dict(fields), **rest} if not rest:
            return build(name, fields, live, where)
        case dict():
            raise ScriptError(
                f"{where}: a value is a number, text, a list, or an object with hex, live, or layer and fields; "
                f"this one has {', '.join(sorted(plain)) or 'nothing'}"
            )
        case list():
            return [read(inner, live, f"{where}[{at}]") for at, inner in enumerate(plain)]
        case _:
            return plain


def build(name: str, fields: dict[str, Any], live: Live, where: str = "") -> Layer:
    """Makes a layer from plain data.

    Raises:
        ScriptError: No such layer or field, or a value that does not fit.
    """
    cls = layers().get(name)
    if cls is None:
        raise ScriptError(f"{where}: {name!r} is no layer; write one like Init, Push, Put, QoSOffer")
    known = [one.name for one in cls.fields_desc]
    for field in fields:
        if field not in known:
            raise ScriptError(f"{where}: {name} has no field {field!r}; it has {', '.join(known)}")
    values = {field: read(value, live, f"{where}.{field}") for field, value in fields.items()}
    try:
        made = cls(**values)
        bytes(made)
    except Exception as error:  # noqa: BLE001  (Scapy raises whatever its fields do with a value of another type)
        raise ScriptError(f"{where}: {name} cannot be built: {error}") from None
    return made


def unhex(text: str, where: str = "") -> bytes:
    """Reads hexadecimal digits.

    Raises:
        ScriptError: They are none.
    """
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ScriptError(f"{where}: {text[:40]!r} is not hexadecimal") from None


def read_simple(hint: Any, plain: Any, where: str) -> Any:
    """Checks that a value of JSON has one of the simple types, and returns it.

    Raises:
        ScriptError: It has another.
    """
    words: dict[Any, tuple[str, Callable[[Any], bool]]] = {
        bool: ("true or false", lambda one: isinstance(one, bool)),
        int: ("a whole number", lambda one: isinstance(one, int) and not isinstance(one, bool)),
        float: ("a number", lambda one: isinstance(one, int | float) and not isinstance(one, bool)),
        str: ("text", lambda one: isinstance(one, str)),
    }
    said, fits = words[hint]
    if not fits(plain):
        raise wrong(where, said, plain)
    return plain


def wrong(where: str, wanted: str, plain: Any) -> ScriptError:
    """Returns the error for a value of another type."""
    return ScriptError(f"{where}: {wanted} is wanted, not {json.dumps(plain)[:60]}")
