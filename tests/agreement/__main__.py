"""Compares all readers at length: ``python -m tests.agreement --examples 100000 --seed 7``.

With captures as arguments those are compared; with ``--unit`` one unit, as a difference names it. Ends with status 1
when readers differ.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from fuzz.readers.compare import BY_DESIGN, Difference, differences
from fuzz.readers.together import Order, Read, read_capture, read_units
from fuzz.readers.units import Unit, UnitKind
from pcaps.recording import CaptureError as NotPlayed
from pcaps.recording import own_network
from scapy_layers.capture import CaptureError
from scapy_layers.tshark import is_there
from tests.agreement import damage, plays, sequences
from tests.agreement.generate import units

PCAPS = sorted((Path(__file__).parents[2] / "pcaps").glob("*.pcapng"))

MOST_TOLD = 5
"""Lines about what is said against the nodes of a capture."""

EACH = 5_000
"""Units that one process of tshark gets."""


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.agreement", description=__doc__)
    parser.add_argument("captures", nargs="*", type=Path, metavar="CAPTURE")
    parser.add_argument(
        "-o",
        dest="options",
        action="append",
        default=[],
        metavar="NAME:VALUE",
        help="a preference of tshark for captures, like tcp.reassemble_out_of_order:TRUE; repeatable",
    )
    parser.add_argument("--examples", type=int, default=10_000, help="units to make (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--damage",
        type=int,
        metavar="N",
        help="compare N damaged variants of the captures, or of those in pcaps/",
    )
    parser.add_argument(
        "--sequences", type=int, metavar="N", help="compare N captures of messages in an order that is drawn"
    )
    parser.add_argument(
        "--plays",
        type=int,
        metavar="N",
        help="compare N captures of real nodes of all releases that do what is drawn, and print what is said against them",
    )
    parser.add_argument(
        "--any-order",
        action="store_true",
        help="sequences need not begin as sessions do; tshark, which believes its ports, is not asked",
    )
    parser.add_argument(
        "--unit", type=_unit, metavar="KIND:HEX", help="read one unit: batch:8409, scouting:0109"
    )
    parser.add_argument(
        "--low-latency", action="store_true", help="batches travel in a session with low latency"
    )
    parser.add_argument("--compression", action="store_true", help="batches travel compressed")
    parser.add_argument(
        "--all", action="store_true", help="print a difference for each field, not just the first"
    )
    parser.add_argument(
        "--by-design", action="store_true", help="print what readers may say differently, and why"
    )
    arguments = parser.parse_args(argv)
    if arguments.by_design:
        for what, why in BY_DESIGN.items():
            print(f"{what}: {why}")
        return 0
    if not is_there():
        print("tshark is not there: only the others are compared", file=sys.stderr)
    read: Iterable[Read]
    carrier = {"low_latency": arguments.low_latency, "compression": arguments.compression}
    if arguments.plays:
        own_network()
        read = _plays(arguments.plays, arguments.seed)
    elif arguments.sequences:
        read = _sequences(arguments.sequences, arguments.seed, orderly=not arguments.any_order)
    elif arguments.damage:
        read = _damaged(arguments.captures or PCAPS, arguments.damage, arguments.seed)
    elif arguments.captures:
        # They may begin late, or lack segments.
        options = [*plays.OURS_FIRST, *(part for one in arguments.options for part in ("-o", one))]
        read = (_captured(path, options) for path in arguments.captures)
    elif arguments.unit:
        read = [read_units([arguments.unit], **carrier)]
    else:
        read = (read_units(some, **carrier) for some in _shares(units(arguments.examples, arguments.seed)))
    try:
        return _report(read, only_first=not arguments.all)
    except (CaptureError, NotPlayed, OSError) as error:
        parser.error(str(error))


def _captured(path: Path, options: Sequence[str]) -> Read:
    """Reads a capture; an error names it."""
    try:
        return read_capture(path, options=options, order=Order.LATER)
    except CaptureError as error:
        raise CaptureError(f"{path}: {error.reason}", error.number, error.offset) from error


def _damaged(paths: Sequence[Path], count: int, seed: int) -> Iterator[Read]:
    """Yields readings of damaged captures."""
    for made in damage.variants(paths, count, seed):
        yield _kept(made.name, made.data, partial(read_capture, options=made.options, order=made.order))


def _plays(count: int, seed: int) -> Iterator[Read]:
    """Yields readings of what real nodes do; prints what is said against them, and keeps such a capture."""
    releases = plays.releases()
    for number in range(seed, seed + count):
        name = f"play-{number}.pcapng"
        try:
            data = plays.play(number, releases)
        except NotPlayed as error:
            print(f"{name}: broke off: ...{str(error)[-200:]}", flush=True)
            continue
        reader = partial(read_capture, options=plays.OURS_FIRST, order=Order.LATER)
        yield _kept(name, data, reader, plays.accusations)


def _sequences(count: int, seed: int, *, orderly: bool) -> Iterator[Read]:
    """Yields readings of sequences."""
    for name, data in sequences.captures(count, seed, orderly=orderly):
        yield _kept(name, data, partial(read_capture, tshark=orderly))


def _kept(
    name: str,
    data: bytes,
    reader: Callable[[Path], Read],
    accusations: Callable[[Path], Iterable[str]] = lambda _path: (),
) -> Read:
    """Returns the reading of a capture; one that is read differently, or accused, stays in a folder, which is named."""
    folder = Path(tempfile.mkdtemp(prefix="agreement-"))
    path = folder / name
    path.write_bytes(data)
    read = reader(path)
    accused = list(accusations(path))
    for one in accused[:MOST_TOLD]:
        print(f"{name}: {one}", flush=True)
    if not accused and next(differences(read.units, read.readings), None) is None:
        shutil.rmtree(folder)
    else:
        print(f"kept: {path}")
    return read


def _report(read: Iterable[Read], *, only_first: bool) -> int:
    met: Counter[tuple[str, str]] = Counter()
    count, began = 0, time.monotonic()
    for one in read:
        count += len(one.units)
        for difference in differences(one.units, one.readings):
            place = _place(difference)
            met[place] += 1
            if met[place] == 1 and (not only_first or len(met) == 1):
                print(difference, end="\n\n", flush=True)
        if met and only_first:
            break
    spent = time.monotonic() - began
    print(f"{count} units, {met.total()} read differently, {count / max(spent, 0.001):.0f} units/s")
    if not only_first:
        for (message, field), number in met.most_common():
            print(f"{number:>8} {message} {field}")
    return 1 if met else 0


def _place(difference: Difference) -> tuple[str, str]:
    return difference.message, difference.field.split("[")[0]


def _shares(source: Iterator[Unit]) -> Iterator[list[Unit]]:
    while share := list(islice(source, EACH)):
        yield share


def _unit(text: str) -> Unit:
    kind, _, data = text.partition(":")
    return Unit(UnitKind(kind), bytes.fromhex(data), about="the unit")


if __name__ == "__main__":
    sys.exit(main())
