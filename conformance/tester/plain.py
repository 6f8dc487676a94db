"""Steps, bends and messages as JSON and back: each is an object with its attributes, and what it is."""

from __future__ import annotations

import dataclasses
import types
from functools import cache
from types import ModuleType
from typing import Any, Union, get_args, get_origin, get_type_hints

from conformance.tester import bends, steps
from conformance.tester.bending import NamedBend
from conformance.tester.said import Said, no_live
from conformance.tester.steps import Step
from conformance.tester.values import Plain, ScriptError, message_class, read, read_simple, written, wrong
from scapy_layers.message import Extension, Message


@cache
def steps_by_name() -> dict[str, type[Step]]:
    """Returns the classes of steps by the name they have in JSON: ``expect_end``."""
    return {_name(cls): cls for cls in _classes(steps, Step)}


@cache
def bends_by_name() -> dict[str, type[NamedBend]]:
    """Returns the classes of bends by the name they have in JSON: ``changed``."""
    return {_name(cls): cls for cls in _classes(bends, NamedBend)}


def _classes(module: ModuleType, base: Any) -> list[Any]:
    """Returns what a module derives from a class of its own."""
    found = (one for one in vars(module).values() if isinstance(one, type) and issubclass(one, base))
    return [one for one in found if one is not base]


def _name(cls: type) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in cls.__name__).removeprefix("_")


def write(value: Any) -> Plain:  # noqa: PLR0911  (one match over all kinds of value)
    """Writes a step, a bend, a message, or what is in their attributes."""
    match value:
        case Step():
            return {"step": _name(type(value)), **_attributes(value)}
        case NamedBend():
            return {"bend": _name(type(value)), **_attributes(value)}
        case Said():
            return _attributes(value)
        case type():
            return value.__name__
        case list() | tuple():
            return [write(inner) for inner in value]
        case dict():
            return {str(name): write(inner) for name, inner in value.items()}
    try:
        return written(value)
    except TypeError:
        raise ScriptError(f"{value!r} cannot be written down") from None


def _attributes(value: Any) -> dict[str, Plain]:
    """Writes those attributes that differ from their defaults."""
    out: dict[str, Plain] = {}
    for one in dataclasses.fields(value):
        given = getattr(value, one.name)
        default = one.default_factory() if callable(one.default_factory) else one.default
        if one.init and (default is dataclasses.MISSING or given != default):
            out[one.name] = write(given)
    return out


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def read_object(cls: type, plain: dict[str, Any], where: str) -> Any:
    """Makes a dataclass from a JSON object.

    Raises:
        ScriptError: It has other attributes, or values of other types.
    """
    attributes = {one.name: one for one in dataclasses.fields(cls) if one.init}
    for name in plain:
        if name not in attributes:
            raise ScriptError(f"{where}: no attribute {name!r}; there are {', '.join(attributes)}")
    values: dict[str, Any] = {}
    for name, one in attributes.items():
        if name in plain:
            values[name] = _read_value(_hints(cls)[name], plain[name], f"{where}.{name}")
        elif one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING:
            raise ScriptError(f"{where}: {name!r} is missing")
    try:
        return cls(**values)
    except ScriptError as error:
        raise ScriptError(f"{where}: {error}") from None
    except (LookupError, ValueError, TypeError) as error:
        raise ScriptError(f"{where}: {error.args[0]}") from None


def _read_value(hint: Any, plain: Any, where: str) -> Any:  # noqa: C901, PLR0911, PLR0912  (one match over all types)
    """Makes a value of a type from JSON."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        if plain is None and type(None) in arguments:
            return None
        return _read_value(_choose(arguments, plain), plain, where)
    if hint is Any:
        return plain
    if origin is tuple:
        if not isinstance(plain, list):
            raise wrong(where, "a list", plain)
        return tuple(_read_value(arguments[0], inner, f"{where}[{at}]") for at, inner in enumerate(plain))
    if origin is dict:
        if not isinstance(plain, dict):
            raise wrong(where, "an object", plain)
        return plain
    if origin is type:
        return message_class(_text(plain, where), where)
    if hint is Step:
        return _read_kind("step", steps_by_name(), plain, where)
    if hint is NamedBend:
        return _read_bend(plain, where)
    if hint is Said:
        if not isinstance(plain, dict):
            raise wrong(where, "an object", plain)
        return read_object(Said, plain, where)
    if hint in {bytes, Message, Extension}:
        made = read(plain, no_live, where)
        if not isinstance(made, (bytes, Message) if hint is not Extension else Extension):
            raise wrong(where, "a layer, or bytes", plain)
        return made
    return read_simple(hint, plain, where)


def _choose(arguments: tuple[Any, ...], plain: Any) -> Any:
    """Chooses among the types that an attribute may have."""
    kinds = [one for one in arguments if one is not type(None)]
    if isinstance(plain, str):
        return next((one for one in kinds if one is str or get_origin(one) is type), kinds[0])
    return kinds[0]


def _read_bend(plain: Any, where: str) -> NamedBend:
    if isinstance(plain, dict) and plain.get("bend") == "changed":
        fields = plain.get("fields")
        if isinstance(fields, dict):
            plain = {**plain, "fields": {name: read(value, no_live, where) for name, value in fields.items()}}
    made: NamedBend = _read_kind("bend", bends_by_name(), plain, where)
    return made


def _read_kind(word: str, known: dict[str, Any], plain: Any, where: str) -> Any:
    if not isinstance(plain, dict) or not isinstance(plain.get(word), str):
        raise ScriptError(f'{where}: a {word} is an object with "{word}" and its attributes')
    name = plain[word]
    if name not in known:
        raise ScriptError(f"{where}: {name!r} is no {word}; there are {', '.join(sorted(known))}")
    rest = {key: value for key, value in plain.items() if key != word}
    return read_object(known[name], rest, f"{where} ({name})")


def _text(plain: Any, where: str) -> str:
    if not isinstance(plain, str):
        raise wrong(where, "text", plain)
    return plain
