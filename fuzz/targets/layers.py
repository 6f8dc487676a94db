"""The Scapy layers and what stands around them: readers of batches, streams and captures, and the passive listener."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import ClassVar
from zlib import crc32

from fuzz.oracles import Harm
from fuzz.readers.invariants import TARGETS as INVARIANTS
from fuzz.targets.base import Fault, Target, failed, place_of
from fuzz.targets.feed import Input, pieces
from fuzz.targets.guard import Grows, Hangs, limits
from scapy_layers.batch import LONG_PREFIX, PREFIX, BatchReader
from scapy_layers.catalogue import Form, decode_as
from scapy_layers.errors import Overlong, WireError

SLOW_MS = 50.0
"""Milliseconds of CPU time that one KB may take; usual are one or two."""

STRICT = "strict"
"""Name of the invariant that is cheap."""

AGAIN = 3
"""What was slow is measured so often again before it is believed."""

PREFIXES = {"stream": PREFIX, "lowlatency": LONG_PREFIX}


class Layers(Target):
    """Everything that reads bytes into layers."""

    name: ClassVar[str] = "scapy"
    purpose: ClassVar[str] = "the layers: strict and tolerant decoding, streams, captures, conversations"
    each: ClassVar[int] = 64

    def examine(self, some: Sequence[Input], seed: int) -> Iterable[Fault]:
        """See Target."""
        for index, one in enumerate(some):
            for unit in one.units:
                yield from self._of_bytes(unit.data, index, _some(unit.data))
            if one.stream:
                form = "lowlatency" if one.prefix == LONG_PREFIX else "stream"
                yield from self._of_stream(one.stream, form, index, seed + index)

    def shown(self, data: bytes, form: str) -> Iterable[Fault]:
        """See Target."""
        return self._of_stream(data, form, 0, 0) if form in PREFIXES else self._of_bytes(data, 0, INVARIANTS)

    @staticmethod
    def _of_bytes(data: bytes, index: int, names: Iterable[str]) -> Iterator[Fault]:
        for name in names:
            check = partial(_quick, INVARIANTS[name], data)
            yield from _watched(check, name, data, "bytes", index)

    @staticmethod
    def _of_stream(data: bytes, form: str, index: int, seed: int) -> Iterator[Fault]:
        for check in (partial(_cut_alike, data, PREFIXES[form], seed), partial(_decoded, data, Form(form))):
            yield from _watched(check, "streams", data, form, index)


def _some(data: bytes) -> tuple[str, str]:
    """Chooses what is tried with some bytes: strict decoding always, and one of what takes ten times as long."""
    others = [name for name in INVARIANTS if name != STRICT]
    return STRICT, others[crc32(data) % len(others)]


def _watched(check: Callable[[], object], name: str, data: bytes, form: str, index: int) -> Iterator[Fault]:
    """Yields what goes wrong in a check."""
    try:
        with limits():
            check()
    except Hangs as error:
        yield Fault(f"{Harm.STALL} {name} {place_of(error)}", str(error), index, data, form)
    except Grows as error:
        yield Fault(f"{Harm.GROWTH} {name}", str(error), index, data, form)
    except _Slow as error:
        yield Fault(f"{Harm.SLOW} {name}", str(error), index, data, form)
    except _Different as error:
        yield Fault(f"{Harm.DIFFERS} {name} {error.what}", str(error), index, data, form)
    except AssertionError as error:
        yield Fault(
            f"{Harm.DIFFERS} {name} {place_of(error)}",
            f"not as it should be: {error}"[:300]
            if str(error)
            else f"an invariant does not hold in {place_of(error)}",
            index,
            data,
            form,
        )
    except Exception as error:  # noqa: BLE001  (whatever it is, it is what this looks for)
        yield failed(name, error, index, data, form)


class _Slow(Exception):
    """A reader took too long; the message says how long."""


class _Different(Exception):
    """Two ways to read the same say different things.

    Args:
        what: On what.
        detail: How.
    """

    def __init__(self, what: str, detail: str) -> None:
        super().__init__(detail)
        self.what = what


def _quick(invariant: Callable[[bytes], float], data: bytes) -> None:
    size = max(1.0, len(data) / 1024)
    spent = invariant(data) / size
    if spent > SLOW_MS:
        spent = min(spent, *(invariant(data) / size for _ in range(AGAIN)))
        if spent > SLOW_MS:
            raise _Slow(f"{spent:.0f} ms of CPU time for each KB")


def _decoded(data: bytes, form: Form) -> None:
    try:
        messages = decode_as(form, data)
    except WireError:
        return
    for message in messages:
        if bytes(message) != message.original:
            raise _Different(
                str(message.name), f"{message.original.hex()} is built as {bytes(message).hex()}"[:300]
            )


def _cut_alike(stream: bytes, prefix: int, seed: int) -> None:
    """A stream is cut into the same batches, however it arrives."""
    whole = _batches([stream], prefix, len(stream))
    apart = _batches(pieces(stream, random.Random(seed)), prefix, len(stream))
    if whole != apart:
        raise _Different("batches", f"{len(whole[0])} batches at once, {len(apart[0])} in pieces")
    joined = b"".join(len(batch).to_bytes(prefix, "little") + batch for batch in whole[0])
    if not whole[1] and not stream.startswith(joined):
        raise _Different("bytes of batches", "batches that are not in the stream")


def _batches(parts: Iterable[bytes], prefix: int, limit: int) -> tuple[list[bytes], bool]:
    reader = BatchReader(prefix, limit=max(limit, 1)) if prefix == LONG_PREFIX else BatchReader()
    found: list[bytes] = []
    for part in parts:
        try:
            found += reader.feed(part)
        except Overlong:
            return found, True
    # What comes behind an overlong one is asked for once more.
    try:
        reader.feed(b"")
    except Overlong:
        return found, True
    return found, False
