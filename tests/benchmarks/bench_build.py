"""What it costs to make messages and build their bytes: ``python tests/benchmarks/bench_build.py``.

Beside each stands what it costs to take the same bytes apart, measured in turn: the ratio says more than the times.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from scapy_layers.all import Frame, Init, KeepAlive, Open, Patch, Push, Put, QoS, QoSOffer
from scapy_layers.batch import contents
from scapy_layers.message import Message

ROUNDS = 9
CALLS = 1000
ZID = bytes(range(1, 17))
PUBLISHED = bytes(Frame(R=1, sn=5, messages=[Push(key_suffix="demo/example/a", body=Put(data=b"hello"))]))


def init() -> Message:
    """An INIT as a client sends it."""
    return Init(whatami=2, zid=ZID, fsn=2, rid=2, batch_size=65535, extensions=[QoSOffer(), Patch(patch=1)])


def opened() -> Message:
    """An OPEN that returns the cookie."""
    return Open(A=0, initial_sn=77, cookie=bytes(32), lease=10, T=1)


def published() -> Message:
    """A FRAME with one value."""
    return Frame(R=1, sn=5, messages=[Push(key_suffix="demo/example/a", body=Put(data=b"hello"))])


def prioritised() -> Message:
    """A FRAME with one value that has a priority."""
    put = Push(key_suffix="demo/example/a", extensions=[QoS(priority=2)], body=Put(encoding=4, data=b"hello"))
    return Frame(R=1, sn=5, messages=[put])


def read() -> Push:
    """A PUSH that came in a FRAME."""
    push = contents(PUBLISHED).messages[0].messages[0]
    assert isinstance(push, Push)
    return push


def main() -> None:
    """Measures and prints one table."""
    # As timeit does: collecting what the loops leave behind is no part of what is measured.
    gc.disable()
    push, sent_on = read(), [read() for _ in range(ROUNDS * CALLS)]

    def relayed() -> Message:
        return Frame(R=1, sn=6, messages=[push])

    def changed() -> Message:
        other = sent_on.pop()
        other.key_suffix, other.key_scope, other.M = "demo/other/b", 0, 0
        return other

    def copied() -> Message:
        return push.copy()

    makers: dict[str, Callable[[], Message]] = {
        "INIT with two extensions": init,
        "OPEN with a cookie": opened,
        "KEEP_ALIVE": KeepAlive,
        "FRAME, PUSH, PUT": published,
        "FRAME, PUSH with QoS, PUT with encoding": prioritised,
        "FRAME around a PUSH that was read": relayed,
        "PUSH that was read and changed": changed,
        "PUSH that was read and copied": copied,
    }
    print(f"microseconds, best of {ROUNDS} rounds; the ratio is building to decoding")
    print(f"{'what':<42}{'bytes':>7}{'make':>8}{'bytes()':>9}{'decode':>8}{'ratio':>7}")
    for what, make in makers.items():
        built, made, raw = [], [], b""
        taken = []
        for _ in range(ROUNDS):
            begin = time.process_time()
            messages = [make() for _ in range(CALLS)]
            between = time.process_time()
            raws = [bytes(message) for message in messages]
            end = time.process_time()
            raw = raws[0]
            for _ in range(CALLS):
                contents(raw)
            taken.append(time.process_time() - end)
            made.append(between - begin)
            built.append(end - between)
        make_us, build_us, decode_us = (min(seconds) / CALLS * 1e6 for seconds in (made, built, taken))
        ratio = (make_us + build_us) / decode_us
        print(f"{what:<42}{len(raw):>7}{make_us:>8.1f}{build_us:>9.1f}{decode_us:>8.1f}{ratio:>7.2f}")


if __name__ == "__main__":
    main()
