"""What routing costs, message objects in and out, no sockets.

Only the ratios mean something.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parents[2]))

from conformance.router import Face, Router
from conformance.router.keys import KeyIndex
from scapy_layers.catalogue import decode
from scapy_layers.codes import WhatAmI
from scapy_layers.data import Put, Query, Reply
from scapy_layers.declarations import DeclareQueryable, DeclareSubscriber, UndeclareSubscriber
from scapy_layers.extensions import QueryableInfo
from scapy_layers.message import Message
from scapy_layers.network import Declare, Interest, Push, Request, Response, ResponseFinal
from tests.benchmarks._common import Rate, best, table

LARGEST = 100_000
LOOKUPS = 500
PUSHES = 20_000

SHAPES: dict[str, Callable[[int], str]] = {
    "concrete": lambda number: f"base/{number // 100}/x{number}",
    "a/*": lambda number: f"base/x{number}/*",
    "*/a": lambda number: f"base/*/x{number}",
    "a/**": lambda number: f"base/x{number}/**",
    "**/a": lambda number: f"**/x{number}",
    "a$*": lambda number: f"base/x{number}-$*",
    "mixed": lambda number: (
        f"base/{number // 100}/x{number}",
        f"base/x{number}/*",
        f"base/*/x{number}",
        f"base/x{number}/**",
        f"**/x{number}",
        f"base/x{number}-$*/y",
    )[number % 6],
}

ASKED: dict[str, Callable[[int], str]] = {
    "base/0/x5": lambda number: f"base/0/x{number}",
    "base/x5/*": lambda number: f"base/x{number}/*",
    "base/*/x5": lambda number: f"base/*/x{number}",
    "**/x5": lambda number: f"**/x{number}",
    "base/0/x5$*": lambda number: f"base/0/x{number}$*",
}


def filled(shape: Callable[[int], str], size: int) -> KeyIndex[int]:
    """Returns an index of so many keys."""
    index: KeyIndex[int] = KeyIndex()
    for number in range(size):
        index.add(shape(number), number)
    return index


def lookup(index: KeyIndex[int], keys: list[str], size: int) -> Rate:
    """Returns the lookups a second."""

    def run() -> None:
        for key in keys:
            list(index.matching(key))

    return best(f"{size:7,} keys", len(keys), run, runs=3)


def matching(sizes: list[int]) -> None:
    """Prints how the time of a lookup grows with the number of keys, where the number of matches does not."""
    print(f"lookup, microseconds at {', '.join(f'{size:,}' for size in sizes)} keys, and how they grow")
    for name, shape in SHAPES.items():
        indexes = [filled(shape, size) for size in sizes]
        for what, asked in ASKED.items():
            keys = [asked(number * 37 % 100) for number in range(LOOKUPS)]
            found = [sum(len(index.keys_matching(key)) for key in keys[:5]) / 5 for index in indexes]
            if found[-1] > 3 * found[0] + 1:
                continue
            rates = [lookup(index, keys, size).rate for index, size in zip(indexes, sizes, strict=True)]
            # A look-up has to name what it finds: with many matches look at the time of one.
            each = 1e6 / rates[-1] / max(found[-1], 1.0)
            times = "".join(f"{1e6 / rate:10.2f}" for rate in rates)
            growth = "".join(f"{rates[0] / rate:8.2f}" for rate in rates[1:])
            print(
                f"  {name:>9} stored, {what:>11} asked, {found[-1]:6.2f} found {times}{growth}, a match {each:8.2f}"
            )


def sessions(count: int) -> Router:
    """Returns a router with faces that were told nothing unasked."""
    router = Router(b"\x01\x02")
    for face in range(count):
        router.open(Face(face), bytes([3, face + 1]), WhatAmI.CLIENT, 0.0)
        router.receive(Face(face), wire(Interest(mode=2, tokens=1, restricted=1, key_suffix="none")), 0.0)
    return router


def wire(message: Message) -> Message:
    """Returns a message as it comes from the wire."""
    return decode(bytes(message))


def routed() -> None:
    """Prints routed messages a second."""
    rates = []
    push = wire(Push(key_suffix="base/5/x5", body=Put(data=b"0123456789")))
    for subscribers, stored in ((1, 0), (1, LARGEST // 10), (10, 0)):
        router = sessions(subscribers + 2)
        for number in range(stored):
            body = DeclareSubscriber(entity_id=number, key_suffix=f"other/{number}")
            router.receive(Face(subscribers + 1), Declare(body=body), 0.0)
        for face in range(1, subscribers + 1):
            body = DeclareSubscriber(entity_id=1, key_suffix="base/**")
            router.receive(Face(face), wire(Declare(body=body)), 0.0)
        router.take()

        def run(router: Router = router, subscribers: int = subscribers) -> None:
            for _ in range(PUSHES):
                router.receive(Face(0), push, 0.0)
                assert len(router.take()) == subscribers

        rates.append(best(f"PUSH to {subscribers}, {stored:,} other keys", PUSHES, run))
    rates.append(queries())
    print(table("routed messages", rates, against=rates[0].name))


def queries() -> Rate:
    """Returns queries a second, each with its reply and its two finals."""
    router = sessions(2)
    info = [QueryableInfo(complete=1)]
    body = DeclareQueryable(entity_id=1, key_suffix="base/**", extensions=info)
    router.receive(Face(1), wire(Declare(body=body)), 0.0)
    router.take()
    request = wire(Request(request_id=7, key_suffix="base/5/x5", body=Query()))
    reply = Reply(body=Put(data=b"0123456789"))

    def run() -> None:
        for _ in range(PUSHES // 4):
            router.receive(Face(0), request, 0.0)
            (asked,) = router.take()
            number = asked.message.request_id
            response = Response(request_id=number, key_suffix="base/5/x5", body=reply)
            router.receive(Face(1), response, 0.0)
            router.receive(Face(1), ResponseFinal(request_id=number), 0.0)
            assert len(router.take()) == 2

    return best("query with reply and final, built by Scapy", PUSHES // 4, run, runs=3)


def declaring(sizes: list[int]) -> None:
    """Prints what a declaration costs when there are already many, and when all of them go."""
    rates, gone = [], []
    for size in sizes:
        router = sessions(3)
        messages = [
            Declare(body=DeclareSubscriber(entity_id=number, key_suffix=SHAPES["mixed"](number)))
            for number in range(size)
        ]
        begin = perf_counter()
        for message in messages:
            router.receive(Face(1), message, 0.0)
        rates.append(Rate(f"declared, {size:,} in all", size / (perf_counter() - begin)))
        for number in range(size // 2):
            router.receive(Face(1), Declare(body=UndeclareSubscriber(entity_id=number)), 0.0)
        begin = perf_counter()
        router.close(Face(1), 0.0)
        gone.append(Rate(f"gone with the session, {size:,}", (size - size // 2) / (perf_counter() - begin)))
    print(table("declarations", [*rates, *gone], against=rates[0].name))


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "count", nargs="?", type=int, default=LARGEST, help="size of the largest table (%(default)s)"
    )
    sizes = sorted({100, 10_000, parser.parse_args().count})
    routed()
    declaring(sizes)
    matching(sizes)


if __name__ == "__main__":
    main()
