"""What links cost beside bare sockets: ``python tests/benchmarks/bench_link.py``.

A child process is the other end. Echo: it sends windows of 64 small batches and waits for the echo of each; once with
one batch under way at a time. Connections: it connects, sends one batch, reads the echo, closes. Counted is the CPU time
of the serving process, minimum of several rounds, and its ratio to a loop of bare sockets that does the same.
"""

from __future__ import annotations

import argparse
import math
import os
import selectors
import socket
import struct
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).parents[2]))

from conformance.config import Locator, Tls
from conformance.errors import LinkFailed
from conformance.link import Link, Links
from conformance.observe import History, Observation
from scapy_layers.data import Put
from scapy_layers.network import Push
from scapy_layers.transport import Frame

BATCH = bytes(Frame(R=1, sn=1, messages=[Push(key_suffix="demo/example", body=Put(data=b"value"))]))
WINDOW = 64
LOOK_SECONDS = 0.05
"""How often a serving end looks whether the other end is done."""


def in_child(work: Callable[[], None]) -> int:
    """Runs work in a child process; returns its number."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return child


def ask(ends: Callable[[], socket.socket], count: int, window: int) -> None:
    """Sends batches and waits for their echo."""
    prefixed = struct.pack("<H", len(BATCH)) + BATCH
    with ends() as mine:
        for _ in range(count // window):
            mine.sendall(prefixed * window)
            left = len(prefixed) * window
            while left:
                left -= len(mine.recv(left))


def connect_to(address: tuple[str, int] | str) -> socket.socket:
    """Returns a connected socket."""
    if isinstance(address, str):
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.connect(address)
        return made
    made = socket.create_connection(address)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def bare(listening: socket.socket, done: Callable[[], bool]) -> None:
    """Serves with a selector and nothing else: whole segments go back as they came."""
    selector = selectors.DefaultSelector()
    listening.setblocking(False)
    selector.register(listening, selectors.EVENT_READ)
    while not done():
        for key, _ in selector.select(LOOK_SECONDS):
            if key.fileobj is listening:
                accepted, _ = listening.accept()
                accepted.setblocking(False)
                selector.register(accepted, selectors.EVENT_READ)
                continue
            other = key.fileobj
            assert isinstance(other, socket.socket)
            data = b""
            with suppress(OSError):
                data = other.recv(1 << 16)
            if data:
                other.send(data)
            else:
                selector.unregister(other)
                other.close()
    selector.close()


def with_links(
    links: Links, where: Locator, on_link: Callable[[Link], None], done: Callable[[], bool]
) -> None:
    """Serves with links, and ends them."""
    links.listen(where, on_link)
    links.every(lambda now: now + LOOK_SECONDS)
    links.wait(done, math.inf)
    links.close()


def echo(link: Link) -> None:
    """Sends each batch back."""
    link.on_batch = lambda seen: link.send(seen.batch)


def decode_and_echo(link: Link) -> None:
    """Takes each batch apart first, as a session does."""

    def on_batch(seen: Observation) -> None:
        assert seen.contents.messages
        link.send(seen.batch)

    link.on_batch = on_batch


def free_port(kind: int = socket.SOCK_STREAM) -> int:
    """Returns a port nobody uses."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def spent(child_work: Callable[[], None], serve: Callable[[Callable[[], bool]], None]) -> float:
    """Returns the CPU seconds of the serving process while a child is at work."""
    child = in_child(child_work)
    over = False

    def done() -> bool:
        nonlocal over
        if not over:
            number, status = os.waitpid(child, os.WNOHANG)
            over = number == child
            assert not over or status == 0, "the other end failed"
        return over

    before = process_time()
    serve(done)
    return process_time() - before


def patient(connect: Callable[[], socket.socket]) -> socket.socket:
    """Connects as soon as somebody listens."""
    while True:
        try:
            return connect()
        except OSError:
            continue


class Asker:
    """The other end of kinds of links that a bare socket does not speak."""

    def __init__(self, locator: Locator, tls: Tls) -> None:
        self._links = Links(None, tls)
        self._locator = locator
        self._came = 0

    def ask(self, count: int, window: int) -> None:
        """Sends batches and waits for their echo."""
        link = self._connected()
        for _ in range(count // window):
            self._came = 0
            for _ in range(window):
                link.send(BATCH)
            assert self._links.wait(lambda: self._came >= window, 20)
        self._links.close()

    def _connected(self) -> Link:
        """Returns a link once somebody listens; over UDP only an answer shows that."""
        while True:
            with suppress(LinkFailed):
                link = self._links.connect(self._locator, "a")
                link.on_batch = self._count
                link.send(BATCH)
                if self._links.wait(lambda: self._came > 0, 0.2):
                    return link

    def _count(self, _: Observation) -> None:
        self._came += 1


def certificates(folder: Path) -> Tls:
    """Makes what tls needs."""
    import trustme

    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(folder / "node.pem")
    return Tls(ca=folder / "ca.pem", certificate=folder / "node.pem")


def line(name: str, seconds: float, count: int, base: float) -> None:
    """Prints one result."""
    each = seconds / count
    print(f"{name:44} {each * 1e6:8.1f} us {1 / each:10,.0f} /s {each / base:6.2f} x")


def where(proto: str, folder: str) -> Locator:
    """Returns a locator nobody uses."""
    if proto == "unixsock-stream":
        return Locator(proto, "", 0, f"{folder}/s")
    kind = socket.SOCK_DGRAM if proto == "udp" else socket.SOCK_STREAM
    return Locator(proto, "localhost" if proto == "tls" else "127.0.0.1", free_port(kind))


def bare_round(work: Callable[[tuple[str, int]], None]) -> float:
    """Returns the CPU seconds of bare sockets."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return spent(partial(work, listening.getsockname()), partial(bare, listening))


def ask_bare(count: int, window: int, address: tuple[str, int] | str) -> None:
    """Asks over a bare socket, as soon as somebody listens."""
    ask(partial(patient, partial(connect_to, address)), count, window)


def connect_often(count: int, address: tuple[str, int]) -> None:
    """Connects, asks once, closes, again and again."""
    patient(partial(connect_to, address)).close()
    for _ in range(count):
        ask(partial(connect_to, address), 1, 1)


VARIANTS: list[tuple[str, str, Callable[[Link], None], bool]] = [
    ("tcp", "tcp, no history", echo, False),
    ("tcp", "tcp, no history, batches taken apart", decode_and_echo, False),
    ("tcp", "tcp, history kept", echo, True),
    ("unixsock-stream", "unixsock-stream, no history", echo, False),
    ("tls", "tls, no history", echo, False),
    ("ws", "ws, no history", echo, False),
    ("udp", "udp, no history", echo, False),
]


def measure_echo(rounds: int, count: int, window: int) -> None:
    """Batches in one session."""
    print(f"\necho of {len(BATCH)} byte batches, {window} under way: CPU of the serving end for each")
    base = min(bare_round(partial(ask_bare, count, window)) for _ in range(rounds)) / count
    line("bare sockets, bytes go back", base * count, count, base)
    with tempfile.TemporaryDirectory() as folder:
        tls = certificates(Path(folder))

        def once(proto: str, on_link: Callable[[Link], None], kept: bool) -> float:
            locator = where(proto, folder)
            work = (
                partial(ask_bare, count, window, locator.path or (locator.host, locator.port))
                if proto in {"tcp", "unixsock-stream"}
                else lambda: Asker(locator, tls).ask(count, window)
            )
            links = Links(History() if kept else None, tls)
            return spent(work, partial(with_links, links, locator, on_link))

        for proto, name, on_link, kept in VARIANTS:
            line(name, min(once(proto, on_link, kept) for _ in range(rounds)), count, base)


def measure_connections(rounds: int, count: int) -> None:
    """Connections, each with one batch."""
    print("\nconnections with one batch and its echo: CPU of the serving end for each")
    work = partial(connect_often, count)
    base = min(bare_round(work) for _ in range(rounds)) / count
    line("bare sockets", base * count, count, base)

    def once(kept: bool) -> float:
        locator = where("tcp", "")
        links = Links(History() if kept else None)
        return spent(partial(work, (locator.host, locator.port)), partial(with_links, links, locator, echo))

    for name, kept in (("tcp, no history", False), ("tcp, history kept", True)):
        line(name, min(once(kept) for _ in range(rounds)), count, base)


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    measure_echo(args.rounds, args.batches, WINDOW)
    measure_echo(args.rounds, args.batches // 8, 1)
    measure_connections(args.rounds, args.connections)
    return 0


if __name__ == "__main__":
    sys.exit(main())
