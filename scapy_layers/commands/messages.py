"""``zenoh-dissect messages``: the protocol at a glance."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, assert_never

from scapy_layers.commands.filters import SYN_AND_ACK
from scapy_layers.commands.terminal import Subparsers, WrongUseError, add_command

if TYPE_CHECKING:
    from scapy_layers import shape
    from scapy_layers.message import Message

EXAMPLES = """\
examples:
  zenoh-dissect messages           all messages with their ids
  zenoh-dissect messages init      the layout of INIT as the specification draws it, and its extensions
"""


def add(commands: Subparsers) -> None:
    """Registers the command."""
    parser = add_command(
        commands,
        "messages",
        _messages,
        summary="list all messages, or show the layout of one",
        description="Lists all messages with their ids, or shows the byte layout of one and its extensions.",
        examples=EXAMPLES,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="name in the specification, in any case")


def _messages(arguments: argparse.Namespace) -> int:
    from scapy_layers.catalogue import MESSAGES

    if arguments.name is None:
        for cls in MESSAGES:
            about = (cls.__doc__ or "").splitlines()[0]
            print(f"{cls.kind.name.lower():<12} {cls.id:#04x}  {cls.shape().name:<15} {about}")
        return 0
    wanted = arguments.name.lower()
    name, _, end = wanted.partition("_")
    if name.upper() in SYN_AND_ACK and end in {"syn", "ack"}:
        wanted = name
    found = [cls for cls in MESSAGES if wanted in {cls.shape().name.lower(), cls.__name__.lower()}]
    if not found:
        raise WrongUseError(f"no message is named {arguments.name!r}; `zenoh-dissect messages` lists all")
    print("\n\n".join("\n".join(_drawing(cls)) for cls in found))
    return 0


def _drawing(cls: type[Message]) -> Iterator[str]:
    from scapy_layers import shape

    described = cls.shape()
    yield f"{described.name} ({described.kind.name.lower()}, id {described.id:#04x}): {inspect.getdoc(cls)}"
    yield ""
    yield from _figure(described.fields)
    for one in shape.walk(described.fields):
        if isinstance(one, shape.Chain):
            for known in sorted(one.known, key=lambda known: (known.id, known.enc)):
                mandatory = ", mandatory" if known.mandatory else ""
                yield ""
                yield f"extension {known.header:#04x} {known.name} ({known.enc.name}{mandatory})"
                yield from _figure(known.fields)


CELL = 4
"""Columns of one bit in a figure, its left border included."""

WIDTH = 8 * CELL - 1
"""Columns of one byte in a figure, without its borders."""


def _figure(fields: tuple[shape.Shape, ...]) -> Iterator[str]:
    if not fields:
        return
    yield (" " + " ".join(f"{bit:^{CELL - 1}}" for bit in range(7, -1, -1))).rstrip()
    yield _line()
    yield from _rows(fields, "")


def _rows(  # noqa: C901, PLR0912, PLR0915  (one match over all kinds of shape)
    fields: Iterable[shape.Shape], remark: str
) -> Iterator[str]:
    """Draws fields one below the other: ``|`` around whole bytes, ``~`` around what has no fixed size."""
    from scapy_layers import shape

    for described in fields:
        match described:
            case shape.Packed(vle=False):
                cells = [_cell(bits, bits.size * CELL - 1) for bits in described.bits]
                yield _row("|", "|".join(cells), remark)
            case shape.Packed():
                used = [bits for bits in described.bits if not bits.reserved]
                places = ", ".join(f"{bits.name} {_places(bits)}" for bits in used)
                yield _row("~", " ".join(bits.name for bits in used), f"one VLE integer: {places} {remark}")
            case shape.U8():
                yield _row("|", described.name, remark)
            case shape.Le():
                for index in range(described.size):
                    yield _row("|", f"{described.name} {8 * index + 7}:{8 * index}", remark)
            case shape.Vle():
                yield _row("~", described.name, f"z{described.z} {remark}")
            case shape.Zid():
                size = f"{described.length} + 1 bytes" if described.length else "<u8;z8>"
                yield _row("~", described.name, f"{size} {remark}")
            case shape.CountedBytes():
                kind = "utf8" if described.text else "u8"
                yield _row("~", described.name, f"<{kind};z{described.z}> {remark}")
            case shape.Rest():
                yield _row("~", described.name, f"to the end {remark}")
            case shape.When():
                yield from _rows(described.fields, " and ".join(map(_condition, described.conditions)))
                continue
            case shape.Many():
                match described.times:
                    case None:
                        times = "as many as a VLE count says"
                    case int():
                        times = f"{described.times} times"
                    case _:
                        times = f"as many as there are {described.times}"
                yield _row("~", described.name, f"{times}, each: {remark}")
                yield _line()
                yield from _rows(described.item, f"of {described.name}")
                continue
            case shape.Region():
                yield _row("~", described.name, f"as many bytes as a VLE count says, in them: {remark}")
                yield _line()
                yield from _rows(described.fields, f"of {described.name}")
                continue
            case shape.Chain():
                yield _row("~", "extensions", remark)
            case shape.Body():
                yield _row("~", described.name, f"{_names_of(described)} {remark}")
            case shape.Messages():
                yield _row("~", described.name, f"{described.kind.name.lower()} messages {remark}")
            case _:
                assert_never(described)
        yield _line()


def _places(bits: shape.Bits) -> str:
    return f"{bits.shift}" if bits.size == 1 else f"{bits.shift + bits.size - 1}:{bits.shift}"


def _line() -> str:
    return "+" + "+".join("-" * (CELL - 1) for _ in range(8)) + "+"


def _row(border: str, text: str, remark: str) -> str:
    return f"{border}{text[:WIDTH]:^{WIDTH}}{border} {remark}".rstrip()


def _cell(bits: shape.Bits, width: int) -> str:
    value = f" = {bits.default:#04x}" if bits.name == "mid" else ""
    name = "-" if bits.reserved else "id" if value else bits.name
    return f"{(name + value)[:width]:^{width}}"


def _condition(need: shape.Condition | shape.Carries) -> str:
    from scapy_layers import shape

    if isinstance(need, shape.Carries):
        return f"if extension {need.header:#04x} is {'not ' if need.negated else ''}there"
    wanted = "not 0" if need.equals is None else f"= {need.equals}"
    return f"{'unless' if need.negated else 'if'} {need.field} {wanted}"


def _names_of(described: shape.Body) -> str:
    from scapy_layers.catalogue import shapes

    names = [shapes()[described.kind, number].name for number in described.ids]
    return f"one of the {len(names)} {described.kind.name.lower()}s" if len(names) > 3 else " or ".join(names)
