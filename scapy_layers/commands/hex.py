"""``zenoh-dissect hex``: what some bytes mean."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from scapy_layers.commands.terminal import REFUSED, Subparsers, WrongUseError, add_command, printable

if TYPE_CHECKING:
    from scapy_layers.catalogue import Form
    from scapy_layers.errors import WireError
    from scapy_layers.message import Message

FORMS = ("stream", "lowlatency", "batch", "transport", "network", "scouting")

EXAMPLES = """\
values of --as:
  stream      batches after their 2-byte lengths, as on TCP
  lowlatency  messages after 4-byte lengths, as in a low-latency session after OPEN
  batch       consecutive transport messages: a batch without its length, or a datagram of a session
  transport   one transport message
  network     one network message
  scouting    a scouting datagram: SCOUT or HELLO

examples:
  zenoh-dissect hex 25 00 3d 0001 61 01 02 6869         a FRAME with a PUSH
  zenoh-dissect hex --as network 3d0003612f62010268 69  a PUSH without the FRAME
  zenoh-dissect hex --as scouting 0109ff --format json
  xxd -p batch.bin | zenoh-dissect hex
  printf 'network 1a05\\nscouting 010907\\n' | zenoh-dissect hex -
"""


def add(commands: Subparsers) -> None:
    """Registers the command."""
    parser = add_command(
        commands,
        "hex",
        _hex,
        summary="decode hexadecimal digits and show each message",
        description="Shows the messages in the given bytes. If a decoder must refuse them, they are shown up to that\n"
        "point, and one line says where and why. With - as BYTES, each line of standard input is KIND HEX\n"
        "(a value of --as, then digits), and each answer is one JSON object with `ok` and `messages`, or\n"
        "`error`, `offset` and `field`.\n\n"
        "Exit status: 0 accepted, 1 refused (with -: any line refused), 2 wrong use.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "digits",
        nargs="*",
        metavar="BYTES",
        help="hexadecimal digits; spaces, colons, commas and 0x are ignored; default: standard input; "
        "- for lines (see above)",
    )
    parser.add_argument(
        "--as", dest="form", choices=FORMS, default="batch", help="what the bytes are (default: %(default)s)"
    )
    parser.add_argument(
        "-f",
        "--format",
        choices=("tree", "json"),
        default="tree",
        help="output format (default: %(default)s)",
    )


def _hex(arguments: argparse.Namespace) -> int:
    if arguments.digits == ["-"]:
        return max((_answer(line) for line in _lines() if line.strip()), default=0)
    raw = _bytes_of(" ".join(arguments.digits) or "".join(_lines()))

    from scapy_layers.catalogue import Form

    form = Form(arguments.form)
    if arguments.format == "json":
        data = _judged(form, raw)
        print(json.dumps(data))
        return 0 if data["ok"] else REFUSED
    return _show(form, raw)


def _lines() -> Iterable[str]:
    if sys.stdin is None:
        raise WrongUseError("no standard input to read lines from")
    return (line.decode("ascii", "backslashreplace") for line in sys.stdin.buffer)


def _answer(line: str) -> int:
    """Answers one line of standard input."""
    from scapy_layers.catalogue import Form

    kind, _, digits = line.strip().partition(" ")
    try:
        if kind not in FORMS:
            raise WrongUseError(f"{kind!r} is not one of {', '.join(FORMS)}")
        data = _judged(Form(kind), _bytes_of(digits, empty=True))
    except WrongUseError as error:
        data = {"ok": False, "error": str(error), "offset": None, "field": None}
    print(json.dumps(data), flush=True)
    return 0 if data["ok"] else REFUSED


def _judged(form: Form, raw: bytes) -> dict[str, Any]:
    """Returns what strict decoding says, as JSON can."""
    from scapy_layers.catalogue import decode_as
    from scapy_layers.errors import WireError
    from scapy_layers.present import as_data

    try:
        messages = decode_as(form, raw)
    except WireError as error:
        return {"ok": False, "error": str(error), "offset": error.offset, "field": error.field}
    return {"ok": True, "messages": [as_data(message) for message in messages]}


def _bytes_of(text: str, *, empty: bool = False) -> bytes:
    digits = re.sub(r"0[xX]|[\s:,]", "", text)
    if not digits and not empty:
        raise WrongUseError("no bytes given")
    wrong = re.search(r"[^0-9a-fA-F]", digits)
    if wrong:
        raise WrongUseError(f"{wrong[0]!r} is not a hexadecimal digit")
    if len(digits) % 2:
        raise WrongUseError(f"{len(digits)} hexadecimal digits do not make whole bytes")
    return bytes.fromhex(digits)


def _show(form: Form, raw: bytes) -> int:
    from scapy_layers.catalogue import decode_as
    from scapy_layers.errors import WireError

    try:
        decode_as(form, raw)
    except WireError as error:
        for message in _readable(form, raw):
            print(printable(message.show(dump=True)))
        print(printable(_refusal(error, raw)))
        return REFUSED
    for message in _readable(form, raw):
        print(printable(message.show(dump=True)))
    return 0


def _readable(form: Form, raw: bytes) -> Iterator[Message]:
    """Yields what can be read of the bytes, right or wrong."""
    from scapy_layers.batch import LONG_PREFIX, BatchReader, contents
    from scapy_layers.catalogue import Form
    from scapy_layers.codes import Kind
    from scapy_layers.errors import Overlong

    kinds = {
        Form.BATCH: Kind.TRANSPORT,
        Form.TRANSPORT: Kind.TRANSPORT,
        Form.NETWORK: Kind.NETWORK,
        Form.SCOUTING: Kind.SCOUTING,
    }
    if form in kinds:
        found = contents(raw, kinds[form]).messages
        yield from found[:1] if form is Form.SCOUTING else found
        return
    reader = BatchReader(LONG_PREFIX, limit=len(raw)) if form is Form.LOWLATENCY else BatchReader()
    try:
        batches = reader.feed(raw)
    except Overlong:
        return
    for batch in batches:
        yield from contents(batch, None if form is Form.LOWLATENCY else Kind.TRANSPORT).messages


def _refusal(error: WireError, raw: bytes) -> str:
    """Returns the one line that says where and why, with the bytes around the place."""
    at = error.offset
    place = f"{raw[max(at - 8, 0) : at].hex(' ')} >{raw[at : at + 8].hex(' ') or ' the end'}"
    return f"refused: {error} [{place.strip()}]"
