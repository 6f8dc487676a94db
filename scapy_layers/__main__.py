"""``zenoh-dissect``: look at Zenoh bytes from a terminal. Nothing heavy is imported before it is needed."""

from __future__ import annotations

import argparse
import inspect
import os
import re
import sys
from typing import TYPE_CHECKING, assert_never

if TYPE_CHECKING:
    # Scapy takes half a second to import; --help and wrong arguments must not wait for it.
    from collections.abc import Iterable, Iterator, Sequence

    from scapy_layers import shape
    from scapy_layers.batch import Contents
    from scapy_layers.message import Message

REFUSED = 1
"""Exit status: strict decoding refuses some of the bytes."""

WRONG_USE = 2
"""Exit status: the command line or the input makes no sense (argparse uses the same)."""

INTERRUPTED = 130
CLOSED_PIPE = 141

EXAMPLES = """\
examples:
  zenoh-dissect hex 25 00 3d 0001 61 01 02 6869     a FRAME with a PUSH
  zenoh-dissect hex --scouting 0109ff               a SCOUT
  zenoh-dissect hex --stream 01 00 04               a batch as on TCP, behind its length
  xxd -p batch.bin | zenoh-dissect hex              hexadecimal digits from standard input
  zenoh-dissect messages                            every message with its id
  zenoh-dissect messages init                       the bytes of INIT, as the specification draws them
  zenoh-dissect shell                               a Scapy shell that has all layers
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status.

    Args:
        argv: Arguments; those of the process when None.
    """
    parser = _parser()
    arguments = parser.parse_args(argv)
    try:
        status: int = arguments.run(arguments)
        if sys.stdout:
            sys.stdout.flush()
    except OSError as error:
        # Python flushes once more when it exits and would complain about the same thing again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return CLOSED_PIPE
        print(f"{parser.prog}: {error.strerror}", file=sys.stderr)
        return WRONG_USE
    except KeyboardInterrupt:
        return INTERRUPTED
    except _WrongUseError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return WRONG_USE
    return status


class _WrongUseError(Exception):
    """What the user gave makes no sense; the text says why."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="zenoh-dissect",
        description="Dissects Zenoh 1.x bytes and explains what they consist of.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    command = commands.add_parser(
        "hex",
        help="decode hexadecimal digits and show each message",
        description="Shows each message of a batch or datagram. Bytes that a decoder has to refuse are shown as far "
        "as they can be read, with the place of the refusal. Exit status: 0 accepted, 1 refused, 2 wrong use.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "digits",
        nargs="*",
        metavar="BYTES",
        help="hexadecimal digits; spaces, colons, commas and 0x do not matter; standard input when none are given",
    )
    form = command.add_mutually_exclusive_group()
    form.add_argument("--scouting", action="store_true", help="a datagram of scouting: SCOUT or HELLO")
    form.add_argument("--stream", action="store_true", help="batches with their two-byte lengths, as on TCP")
    command.set_defaults(run=_hex)

    command = commands.add_parser(
        "messages",
        help="list all messages, or draw one",
        description="Lists all messages with their ids, or draws the bytes of one and its extensions.",
    )
    command.add_argument("name", nargs="?", metavar="NAME", help="name in the specification, in any case")
    command.set_defaults(run=_messages)

    command = commands.add_parser(
        "shell",
        help="open a Scapy shell with all layers",
        description="Opens a Scapy shell in which every layer, decode() and contents() are defined.",
    )
    command.set_defaults(run=_shell)
    return parser


# hex ----------------------------------------------------------------------------------------------------


def _hex(arguments: argparse.Namespace) -> int:
    text = " ".join(arguments.digits) if arguments.digits else _standard_input()
    raw = _bytes_of(text)

    from scapy_layers.batch import BatchReader, contents
    from scapy_layers.codes import Kind

    if not arguments.stream:
        return _show(contents(raw, Kind.SCOUTING if arguments.scouting else None), raw)
    reader = BatchReader()
    status = 0
    for number, batch in enumerate(reader.feed(raw)):
        print(f"batch {number}, {len(batch)} bytes")
        status = max(status, _show(contents(batch), batch))
    if reader.pending:
        print(f"refused: {len(reader.pending)} bytes are no complete batch: {_digits(reader.pending)}")
        return REFUSED
    return status


def _standard_input() -> str:
    return sys.stdin.buffer.read().decode("ascii", "backslashreplace") if sys.stdin else ""


def _bytes_of(text: str) -> bytes:
    digits = re.sub(r"0[xX]|[\s:,]", "", text)
    if not digits:
        raise _WrongUseError("no bytes given")
    wrong = re.search(r"[^0-9a-fA-F]", digits)
    if wrong:
        raise _WrongUseError(f"{wrong[0]!r} is no hexadecimal digit")
    if len(digits) % 2:
        raise _WrongUseError(f"{len(digits)} hexadecimal digits do not make whole bytes")
    return bytes.fromhex(digits)


def _show(found: Contents, raw: bytes) -> int:
    for message in found.messages:
        print(_printable(message.show(dump=True)))
    if found.error is None:
        return 0
    print(f"refused: {_printable(str(found.error))}")
    at = found.error.offset
    print(f"  {_digits(raw[max(at - 8, 0) : at])} >{_digits(raw[at : at + 8]) or ' the end'}")
    if found.rest:
        print(f"not looked at: {len(found.rest)} bytes from byte {len(raw) - len(found.rest)}")
    return REFUSED


def _digits(raw: bytes) -> str:
    return raw.hex(" ")


def _printable(text: str) -> str:
    """Returns text that any terminal takes: what cannot be encoded is escaped."""
    encoding = (sys.stdout and sys.stdout.encoding) or "ascii"
    return text.encode(encoding, "backslashreplace").decode(encoding)


# messages -------------------------------------------------------------------------------------------------


def _messages(arguments: argparse.Namespace) -> int:
    from scapy_layers.catalogue import MESSAGES

    if arguments.name is None:
        for cls in MESSAGES:
            about = (cls.__doc__ or "").splitlines()[0]
            print(f"{cls.kind.name.lower():<12} {cls.id:#04x}  {cls.shape().name:<15} {about}")
        return 0
    wanted = arguments.name.lower()
    found = [cls for cls in MESSAGES if wanted in {cls.shape().name.lower(), cls.__name__.lower()}]
    if not found:
        raise _WrongUseError(f"no message is called {arguments.name!r}; `zenoh-dissect messages` lists all")
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


def _rows(  # noqa: C901, PLR0912  (one match over all kinds of shape)
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
            case shape.U16le():
                yield _row("|", f"{described.name} 7:0", remark)
                yield _row("|", f"{described.name} 15:8", remark)
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
                times = (
                    "as many as a VLE count says" if described.times is None else f"{described.times} times"
                )
                yield _row("~", described.name, f"{times}, each: {remark}")
                yield _line()
                yield from _rows(described.item, f"of {described.name}")
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


def _condition(condition: shape.Condition) -> str:
    wanted = "not 0" if condition.equals is None else f"= {condition.equals}"
    return f"if {condition.field} {wanted}"


def _names_of(described: shape.Body) -> str:
    from scapy_layers.catalogue import shapes

    names = [shapes()[described.kind, number].name for number in described.ids]
    return f"one of the {len(names)} {described.kind.name.lower()}s" if len(names) > 3 else " or ".join(names)


# shell --------------------------------------------------------------------------------------------------


def _shell(_arguments: argparse.Namespace) -> int:
    from scapy.main import interact

    from scapy_layers import all as layers

    names = {name: getattr(layers, name) for name in layers.__all__}
    interact(
        mydict=names,
        argv=["zenoh-dissect"],
        mybanner="Zenoh 1.x layers: ls(Init), decode(b'...'), contents(b'...')",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
