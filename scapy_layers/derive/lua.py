"""The Wireshark dissector: syntax written from the shapes, between hand-written parts for what a conversation remembers.

``python -m scapy_layers.derive.lua`` writes ``scapy_layers/zenoh.lua``. Every message, extension and region becomes one
Lua function that reads it, adds its fields to the tree, and answers to each byte as strict decoding does. The parts in
``prelude/`` share one table ``Z``; each runs in a block of its own. Only what Lua 5.1 to 5.4 have in common is used.

A generated function is called as ``read(b, m, at, stop)``: the batch, the table that gets the fields, the place of the
first byte and the one behind the last (both from 0). It returns where it stopped, nil when the rest cannot be read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntFlag
from pathlib import Path
from typing import assert_never

from scapy_layers import codes, names, shape
from scapy_layers.codes import Kind
from scapy_layers.encodings import NAMES

PRELUDE = Path(__file__).parent / "prelude"
OUTPUT = Path(__file__).parent.parent / "zenoh.lua"

BEFORE = ("head", "core")
"""Parts in front of the generated one."""

AFTER = (
    "preferences",
    "lz4",
    "memory",
    "links",
    "looks",
    "websocket",
    "seek",
    "sync",
    "lanes",
    "fragments",
    "exchanges",
    "scouts",
    "conversation",
    "rules",
    "payload",
    "statistics",
    "heuristic",
    "tail",
)
"""Parts behind it, in this order; listeners are called in it."""

_MAKERS = {
    names.Type.UINT8: "uint8",
    names.Type.UINT16: "uint16",
    names.Type.UINT32: "uint32",
    names.Type.UINT64: "uint64",
    names.Type.INT16: "int16",
    names.Type.INT32: "int32",
    names.Type.INT64: "int64",
    names.Type.TEXT: "string",
    names.Type.ZID: "string",
    names.Type.BYTES: "bytes",
}
"""How Wireshark calls a type."""

_ENUMERATIONS: tuple[shape.Names, ...] = (
    codes.WhatAmI,
    codes.What,
    codes.Resolution,
    codes.CloseReason,
    codes.Priority,
    codes.InterestMode,
    codes.QueryTarget,
    codes.Consolidation,
    codes.Bound,
    codes.Encoding,
    codes.OamId,
)


def generate(messages: Mapping[tuple[Kind, int], shape.Message], after: Sequence[str] = AFTER) -> str:
    """Returns the whole of ``zenoh.lua``.

    Args:
        messages: As ``catalogue.shapes()`` gives them.
        after: Parts behind the generated one, by name.
    """
    parts = [_part(name) for name in BEFORE]
    parts.append(_block("generated", "\n".join(_Syntax(messages).lines())))
    parts += [_part(name) for name in after if (PRELUDE / f"{name}.lua").exists()]
    return "\n".join(parts)


def _part(name: str) -> str:
    source = (PRELUDE / f"{name}.lua").read_text(encoding="utf-8")
    return source if name == "head" else _block(name, source)


def _block(name: str, source: str) -> str:
    return f"-- {name} {'-' * (100 - len(name))}\n\ndo\n{source.rstrip()}\nend\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _names_of(enumeration: shape.Names) -> Iterator[tuple[int, str]]:
    """Yields values and what Wireshark calls them; of flags each combination, as it looks up the whole value."""
    if not issubclass(enumeration, IntFlag):
        yield from ((int(one), str(one.name).lower()) for one in enumeration)
        return
    for number in range(1, sum(enumeration) + 1):
        yield number, ", ".join(str(one.name).lower() for one in enumeration(number))


def _shown(name: str) -> str:
    """Returns how the name of a value is written: as in the layers."""
    return name.lower()


@dataclass
class _Lines:
    """Lua source, line by line."""

    out: list[str] = field(default_factory=list)
    depth: int = 1

    def __call__(self, *lines: str) -> None:
        self.out += ["  " * self.depth + line for line in lines]

    def open(self, line: str) -> None:
        """Begins a block."""
        self(line)
        self.depth += 1

    def close(self, line: str = "end") -> None:
        """Ends it."""
        self.depth -= 1
        self(line)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the fields of a function go.

    Attributes:
        layer: Its name, in front of the names of fields.
        values: The Lua variable that gets the values.
        item: The Lua variable of the tree item, nil in a dry run.
        path: Lua expression, what stands in front of a field in the path of an error; empty at the top.
    """

    layer: str
    values: str = "m"
    item: str = "item"
    path: str = ""

    def named(self, name: str) -> str:
        """The Lua expression of the path to a field."""
        return f'{self.path} .. ".{name}"' if self.path else _quoted(name)


class _Syntax:
    """Writes the generated part."""

    def __init__(self, messages: Mapping[tuple[Kind, int], shape.Message]) -> None:
        self._messages = messages
        inner = dict.fromkeys(
            one for message in messages.values() for one in names.inner_layers(message.fields)
        )
        self._inner = {one: f"{names.layer_name(one)}_{index}" for index, one in enumerate(inner)}
        layers = [*messages.values(), *inner]
        walked = [described for layer in layers for described in shape.walk(layer.fields)]
        chains = dict.fromkeys(described for described in walked if isinstance(described, shape.Chain))
        self._chains = {chain: index + 1 for index, chain in enumerate(chains)}
        sets = dict.fromkeys(described.ids for described in walked if isinstance(described, shape.Body))
        self._sets = {ids: index + 1 for index, ids in enumerate(sets)}
        self._named = names.all_fields(messages.values()).values()
        self._wide = {f"{one.layer}_{one.name}" for one in self._named if one.type is names.Type.UINT64}

    def lines(self) -> Iterator[str]:
        """Yields the source: names, fields, what stands inside what, functions."""
        yield from self._enumerations()
        yield from self._fields()
        yield _LOCALS
        yield from self._tables()
        for message in self._messages.values():
            yield from self._function("R", names.layer_name(message), message)
        for inner, name in self._inner.items():
            yield from self._function("I", name, inner)
        yield from self._ids()

    # Names and fields

    def _enumerations(self) -> Iterator[str]:
        yield "Z.enums = {"
        for enumeration in _ENUMERATIONS:
            values = ", ".join(f"[{number}] = {_quoted(name)}" for number, name in _names_of(enumeration))
            yield f"  {enumeration.__name__} = {{ {values} }},"
        yield "}"
        encodings = ", ".join(f"[{number}] = {_quoted(name)}" for number, name in sorted(NAMES.items()))
        yield f"Z.encodings = {{ {encodings} }}"

    def _fields(self) -> Iterator[str]:
        for named in self._named:
            maker = _MAKERS[named.type]
            arguments = [_quoted(named.name)]
            if "int" in maker:
                arguments.append("base.DEC")
                # A whole byte needs no mask.
                mask = named.bits not in {0, 0xFF}
                if named.names or mask:
                    arguments.append(f"Z.enums.{named.names.__name__}" if named.names else "nil")
                if mask:
                    arguments.append(f"0x{named.bits:02x}")
            key = f"{named.layer}_{named.name}"
            yield f'Z.syntax("{named.layer}.{named.name}", "{key}", "{maker}", {", ".join(arguments)})'
        for key in dict.fromkeys(
            f"{names.layer_name(layer)}.{one.name}"
            for layer in (*self._messages.values(), *self._inner)
            for one in shape.walk(layer.fields)
            if isinstance(one, shape.Vle) and one.ntp64
        ):
            yield f'Z.syntax("{key}_time", "{key.replace(".", "_")}_time", "absolute_time", "time", base.UTC)'
        labels = {names.UNKNOWN_EXTENSION: "unknown extension"}
        for layer in (*self._messages.values(), *self._inner):
            labels.setdefault(names.layer_name(layer), layer.name)
        for layer_name, label in labels.items():
            yield f'Z.syntax("{layer_name}", "{layer_name}", "none", {_quoted(label)})'

    # Tables

    def _tables(self) -> Iterator[str]:
        """What extensions and regions are, which chain may hold which, which ids a body may have."""
        for inner, name in self._inner.items():
            layer = names.layer_name(inner)
            parts = [f'name = "{layer}"', f"label = {_quoted(inner.name)}", f"field = F.{layer}"]
            if isinstance(inner, shape.Extension):
                parts += [f"enc = {int(inner.enc)}", f"new = {_maker(inner, layer)}"]
                parts += [] if inner.enforced else ["lenient = true"]
                parts += [] if inner.bounded else ["unbounded = true"]
                if inner.conditions:
                    parts.append(
                        f"fits = function(m, seen) return {_conditions(inner.conditions, 'm', 'seen')} end"
                    )
            yield f"I.{name} = {{ {', '.join(parts)} }}"
        for chain, index in self._chains.items():
            known: dict[int, list[str]] = {}
            for extension in chain.known:
                known.setdefault(extension.header, []).append(f"I.{self._inner[extension]}")
            entries = [f"[0x{header:02x}] = {{ {', '.join(found)} }}" for header, found in known.items()]
            entries += ["skips_mandatory = true"] if chain.skips_mandatory else []
            yield f"C[{index}] = {{ {', '.join(entries)} }}"
        for ids, index in self._sets.items():
            yield f"S[{index}] = {{ {', '.join(f'[0x{number:02x}] = true' for number in ids)} }}"

    def _ids(self) -> Iterator[str]:
        for (kind, number), message in self._messages.items():
            layer, level = names.layer_name(message), kind.name.lower()
            yield (
                f'Z.messages.{level}[0x{number:02x}] = {{ name = "{layer}", label = {_quoted(message.name)}, '
                f'kind = "{level}", read = R.{layer}, field = F.{layer}, new = {_maker(message, layer, level)} }}'
            )

    # Functions

    def _function(
        self, table: str, name: str, described: shape.Message | shape.Extension | shape.Region
    ) -> Iterator[str]:
        out = _Lines()
        place = _Place(names.layer_name(described))
        out.depth = 0
        out("")
        out.open(f"{'R.' + name if table == 'R' else f'I.{name}.read'} = function(b, m, at, stop)")
        out("local raw, range, item = b.raw, b.range, m.shown", "local start, c, lo, hi, n")
        self._shapes(out, described.fields, place)
        out("return at")
        out.close()
        yield from out.out

    def _shapes(self, out: _Lines, shapes: Iterable[shape.Shape], place: _Place) -> None:
        for described in shapes:
            self._shape(out, described, place)

    def _shape(self, out: _Lines, described: shape.Shape, place: _Place) -> None:  # noqa: C901, PLR0912  (one match over all kinds of shape)
        match described:
            case shape.Packed():
                if described.vle:
                    _packed_vle(out, described, place, self._wide)
                else:
                    _packed_byte(out, described, place)
            case shape.U8():
                _u8(out, described, place)
            case shape.Le():
                _le(out, described, place)
            case shape.Vle():
                _vle(out, described, place)
            case shape.Zid():
                _zid(out, described, place)
            case shape.CountedBytes():
                _counted(out, described, place)
            case shape.Rest():
                _rest(out, described, place)
            case shape.When():
                out.open(f"if {_conditions(described.conditions, place.values, 'm.seen')} then")
                self._shapes(out, described.fields, place)
                out.close()
            case shape.Many():
                self._many(out, described, place)
            case shape.Region():
                where = f"{place.values}, {_quoted(described.name)}, {place.named(described.name)}"
                _go_on(
                    out,
                    f"region(b, m, {where}, I.{self._inner[described]}, {place.item} or m.item, at, stop)",
                )
            case shape.Chain():
                _go_on(
                    out, f"chain(b, m, {place.named(described.name)}, C[{self._chains[described]}], at, stop)"
                )
            case shape.Body():
                ids = f"messages.{described.kind.name.lower()}, S[{self._sets[described.ids]}]"
                _go_on(out, f"body(b, m, {place.named(described.name)}, {ids}, at, stop)")
            case shape.Messages():
                _go_on(out, f"messages_of(b, m, messages.{described.kind.name.lower()}, at, stop)")
            case _:
                assert_never(described)

    def _many(self, out: _Lines, described: shape.Many, place: _Place) -> None:
        name, whole = described.name, place.named(described.name)
        lone = described.item[0] if len(described.item) == 1 else None
        out.open("do")
        out("local first, count = at, nil")
        match described.times:
            case None:
                out("lo, hi, n = vle(raw, at, stop)", f"if not lo then return cut(b, m, {whole}, at) end")
                out("count, at = lo + hi * 4294967296, n")
            case int():
                out(f"count = {described.times}")
            case _:
                out(f"count = #({place.values}.{described.times} or none)")
        if described.most is not None:
            wrong = f'note(b, m, "BadValue", {whole}, first, "a count of " .. count)'
            out(f"if count > {described.most} then {wrong} end")
        out("local list, index = {}, 0", f"{place.values}.{name} = list")
        out.open("while index < count do")
        out(f'local v, path, begun = {{}}, {whole} .. "[" .. index .. "]", at')
        sub = place.item
        if lone is None:
            sub = "sub_item"
            out(
                f'local sub_item = {place.item} and add({place.item}, range(at, 0), "{name}[" .. index .. "]")'
            )
        self._shapes(out, described.item, _Place(place.layer, "v", sub, "path"))
        out("index = index + 1")
        if lone is None:
            out("if sub_item then set_len(sub_item, at - begun) end", "list[index] = v")
        else:
            assert not isinstance(lone, shape.Packed | shape.When)
            out(f"list[index] = v.{lone.name}")
        out.close()
        out.close()


_KEPT = {
    shape.Message: "at parent slot named within place item shown here stop heard keyexpr",
    shape.Extension: "at parent slot named nth header enc item shown stop",
}
"""What the core notes about a layer, beside its fields."""


def _maker(described: shape.Message | shape.Extension, layer: str, kind: str = "") -> str:
    """Returns the Lua function that makes the table of a layer.

    With room for all that will stand in it: a table that grows is copied each time, which takes as long as reading.
    Lua makes room by powers of two, so no more keys are written down than ask for the right one.
    """
    keys = dict.fromkeys(_KEPT[type(described)].split())
    for one in described.fields:
        match one:
            case shape.Packed():
                keys |= dict.fromkeys(bits.name for bits in one.bits if bits.name not in {"mid", "ext_id"})
            case shape.When():
                if any(isinstance(inside, shape.Chain) for inside in one.fields):
                    keys |= dict.fromkeys(("ext", "extensions", "seen"))
            case _:
                keys[one.name] = None
    told = [f'name = "{layer}"', f"label = {_quoted(described.name)}"]
    told += [f'kind = "{kind}"', "whole = true"] if kind else []
    needed = (1 << (len(told) + len(keys) - 1).bit_length() - 1) + 1
    told += [f"{key} = nil" for key in keys][: max(needed - len(told), 0)]
    return f"function() return {{ {', '.join(told)} }} end"


def _go_on(out: _Lines, call: str) -> None:
    """What stands inside is read by the core; nothing follows what could not be read."""
    out(f"at = {call}", "if not at then return nil end")


def _conditions(conditions: shape.Conditions, values: str, seen: str) -> str:
    """Returns the Lua expression of some conditions."""
    told = []
    for need in conditions:
        match need:
            case shape.Condition():
                test = (
                    f"{values}.{need.field} ~= 0"
                    if need.equals is None
                    else f"{values}.{need.field} == {need.equals}"
                )
            case shape.Carries():
                test = f"({seen} or none)[0x{need.header:02x}]"
            case _:
                assert_never(need)
        told.append(f"not ({test})" if need.negated else test)
    return " and ".join(told)


# Fields -------------------------------------------------------------------------------------------


def _allowed(out: _Lines, allowed: tuple[int, ...] | None, value: str, path: str, at: str, most: int) -> None:
    """Notes a value without meaning; ``most`` is the largest that the field can have."""
    if allowed is None or len(allowed) > most:
        return
    ordered = sorted(allowed)
    if ordered == list(range(ordered[0], ordered[-1] + 1)):
        test = f"{value} < {ordered[0]} or {value} > {ordered[-1]}"
    else:
        test = " and ".join(f"{value} ~= {one}" for one in ordered)
    out(f'if {test} then note(b, m, "BadValue", {path}, {at}, {value} .. " has no meaning") end')


def _extracted(carrier: str, bits: shape.Bits, total: int) -> str:
    """The Lua expression of some bits of a number below 2^53."""
    value = f"floor({carrier} / {1 << bits.shift})" if bits.shift else carrier
    return value if bits.shift + bits.size == total else f"{value} % {1 << bits.size}"


def _packed_byte(out: _Lines, described: shape.Packed, place: _Place) -> None:
    header = any(bits.name == "mid" for bits in described.bits)
    first = next(bits.name for bits in described.bits if not bits.reserved)
    out(
        "c = at < stop and byte(raw, at + 1)", f"if not c then return cut(b, m, {place.named(first)}, at) end"
    )
    for bits in described.bits:
        if bits.name not in names.SAID or bits.name == "ENC":
            out(f"{place.values}.{bits.name} = {_extracted('c', bits, 8)}")
    shown = [bits for bits in described.bits if bits.name not in names.SAID]
    if shown:
        # The item of the message is made with the range of its header byte, which is kept when bits of it are wanted.
        out("local here = m.here" if header else f"local here = {place.item} and range(at, 1)")
        out.open("if here then")
        for bits in shown:
            add = f"add({place.item}, F.{place.layer}_{bits.name}, here)"
            out(f"if {place.values}.{bits.name} ~= 0 then {add} end" if bits.reserved else add)
        out.close()
    for bits in described.bits:
        if bits.name != "mid":
            value = f"{place.values}.{bits.name}"
            _allowed(out, bits.allowed, value, place.named(bits.name), "at", (1 << bits.size) - 1)
    out("at = at + 1")


def _packed_vle(out: _Lines, described: shape.Packed, place: _Place, wide: Container[str]) -> None:
    first = next(bits.name for bits in described.bits if not bits.reserved)
    out(
        "start, lo, hi, n = at, vle(raw, at, stop)",
        f"if not lo then return cut(b, m, {place.named(first)}, at) end",
    )
    if described.enforced is not None:
        wrong = f'note(b, m, "Overlong", {place.named(first)}, at, "more than {described.enforced} bits")'
        out(f"if {_above(described.enforced)} then {wrong} end")
    for bits in described.bits:
        end = bits.shift + bits.size
        if end <= 32:
            value = _extracted("lo", bits, 32)
        elif bits.shift >= 32:
            value = _extracted("hi", shape.Bits("", bits.size, bits.shift - 32), 32)
        else:
            value = f"bits_of(lo, hi, {bits.shift}, {bits.size})"
        out(f"{place.values}.{bits.name} = {value}")
        _allowed(
            out,
            bits.allowed,
            f"{place.values}.{bits.name}",
            place.named(bits.name),
            "at",
            (1 << bits.size) - 1,
        )
    out.open(f"if {place.item} then")
    out("local here = range(at, n - at)")
    for bits in described.bits:
        value = f"{place.values}.{bits.name}"
        key = f"{place.layer}_{bits.name}"
        add = f"add({place.item}, F.{key}, here, {f'wide({value})' if key in wide else value})"
        out(f"if {value} ~= 0 then {add} end" if bits.reserved else add)
    out.close()
    out("at = n")


def _above(bits: int) -> str:
    """The Lua expression that tells whether a VLE integer needs more bits."""
    if bits >= 64:
        return "false"
    return (
        f"hi >= {1 << bits - 32}"
        if bits > 32
        else "hi > 0"
        if bits == 32
        else f"(hi > 0 or lo >= {1 << bits})"
    )


def _u8(out: _Lines, described: shape.U8, place: _Place) -> None:
    name, path = f"{place.values}.{described.name}", place.named(described.name)
    out("c = at < stop and byte(raw, at + 1)", f"if not c then return cut(b, m, {path}, at) end")
    out(f"{name} = c")
    out(f"if {place.item} then add({place.item}, F.{place.layer}_{described.name}, range(at, 1)) end")
    _allowed(out, described.allowed, name, path, "at", 255)
    out("at = at + 1")


def _le(out: _Lines, described: shape.Le, place: _Place) -> None:
    path, size = place.named(described.name), described.size
    out(f"if stop - at < {size} then return cut(b, m, {path}, at) end")
    out(f"{place.values}.{described.name} = le(raw, at, {size}, {'true' if described.signed else 'false'})")
    out(f"if {place.item} then add_le({place.item}, F.{place.layer}_{described.name}, range(at, {size})) end")
    out(f"at = at + {size}")


def _vle(out: _Lines, described: shape.Vle, place: _Place) -> None:
    name, path = f"{place.values}.{described.name}", place.named(described.name)
    out("lo, hi, n = vle(raw, at, stop)", f"if not lo then return cut(b, m, {path}, at) end")
    out(f"{name} = hi == 0 and lo or number(lo, hi)")
    out(
        f"if {place.item} then add_vle({place.item}, F.{place.layer}_{described.name}, range, at, n, lo, hi) end"
    )
    if described.ntp64:
        out(
            f"if {place.item} then add_ntp64({place.item}, F.{place.layer}_{described.name}_time, range, at, n, lo, hi) end"
        )
    if described.enforced and described.z < 64:
        out(
            f'if {_above(described.z)} then note(b, m, "Overlong", {path}, at, "more than {described.z} bits") end'
        )
    if described.allowed is not None:
        _allowed(out, described.allowed, "(lo + hi * 4294967296)", path, "at", 1 << 64)
    out("at = n")


def _zid(out: _Lines, described: shape.Zid, place: _Place) -> None:
    name, path = f"{place.values}.{described.name}", place.named(described.name)
    if described.length:
        out(f"start, n = at, at + {place.values}.{described.length} + 1")
    else:
        out("lo, hi, start = vle(raw, at, stop)", f"if not lo then return cut(b, m, {path}, at) end")
        wrong = f'fail(b, m, "BadValue", {path}, at, "a ZenohID of " .. lo + hi * 4294967296 .. " bytes")'
        out(f"if hi > 0 or lo < 1 or lo > 16 then return {wrong} end", "n = start + lo")
    out(f"if n > stop then return cut(b, m, {path}, at) end")
    out(f"{name} = zid(raw, start, n)")
    out(
        f"if {place.item} then add({place.item}, F.{place.layer}_{described.name}, range(start, n - start), {name}) end"
    )
    out(f'if {name} == "0" then note(b, m, "BadValue", {path}, at, "a ZenohID of value 0") end')
    out("at = n")


def _counted(out: _Lines, described: shape.CountedBytes, place: _Place) -> None:
    path = place.named(described.name)
    out("lo, hi, start = vle(raw, at, stop)", f"if not lo then return cut(b, m, {path}, at) end")
    if described.enforced and described.z < 64:
        out(
            f'if {_above(described.z)} then return fail(b, m, "Overlong", {path}, at, "a length of " .. lo + hi * 4294967296) end'
        )
    out("n = start + lo", f"if hi > 0 or n > stop then return cut(b, m, {path}, at) end")
    _bytes(out, described, place)
    if described.locator:
        value = f"{place.values}.{described.name}"
        wrong = f'note(b, m, "BadValue", {path}, at, "no locator (proto/address)")'
        out(f'if not find({value}, "/", 1, true) or find({value}, "#", 1, true) then {wrong} end')
    out("at = n")


def _rest(out: _Lines, described: shape.Rest, place: _Place) -> None:
    out("start, n = at, stop")
    _bytes(out, described, place)
    out("at = n")


def _bytes(out: _Lines, described: shape.CountedBytes | shape.Rest, place: _Place) -> None:
    """The bytes from ``start`` to ``n`` as a value and in the tree."""
    value, key = f"{place.values}.{described.name}", f"F.{place.layer}_{described.name}"
    out(f"{value} = sub(raw, start + 1, n)")
    if described.text:
        out(f"if {place.item} then add({place.item}, {key}, range(start, n - start), shown({value})) end")
        wrong = f'note(b, m, "BadValue", {place.named(described.name)}, at, "not UTF-8")'
        out(f"if not is_utf8({value}) then {wrong} end")
    else:
        out(f"if {place.item} then add({place.item}, {key}, range(start, n - start)) end")


_LOCALS = """
local byte, sub, find, floor = string.byte, string.sub, string.find, math.floor
local F, messages, none = Z.fields, Z.messages, {}
local vle, number, wide, bits_of, add_vle, add_ntp64 = Z.vle, Z.number, Z.wide, Z.bits_of, Z.add_vle, Z.add_ntp64
local le, zid = Z.le, Z.zid
local shown, is_utf8, note, fail, cut = Z.shown, Z.is_utf8, Z.refuse, Z.fail, Z.cut
local add, add_le, set_len = TreeItem.add, TreeItem.add_le, TreeItem.set_len
local chain, region, body, messages_of = Z.chain, Z.region, Z.body, Z.messages_of
local R, I, C, S = {}, {}, {}, {}"""


def main(arguments: list[str] | None = None) -> int:
    """Writes ``zenoh.lua``, or another file for trying things out."""
    from scapy_layers.catalogue import shapes

    parser = argparse.ArgumentParser(prog="python -m scapy_layers.derive.lua", description=main.__doc__)
    parser.add_argument(
        "--out", type=Path, default=OUTPUT, help="where to write (default: zenoh.lua of the package)"
    )
    parser.add_argument(
        "parts", nargs="*", default=AFTER, help="parts behind the generated one (default: all)"
    )
    chosen = parser.parse_args(arguments)
    chosen.out.write_text(generate(shapes(), chosen.parts), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
