"""A reference node in a process of its own, and a raw socket to it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

from conformance.config import Locator
from conformance.refnode.node import Node
from scapy_layers.batch import BatchReader, contents, prefixed
from scapy_layers.message import Message
from scapy_layers.transport import Close, Frame, Init, Open

ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 60.0
"""Seconds for what takes milliseconds on an idle machine."""

TICK = 0.01


class Raw:
    """A stream socket to a node, batch by batch."""

    def __init__(self, address: tuple[str, int] | str) -> None:
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(address)
        self._reader = BatchReader()
        self._waiting: list[bytes] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *messages: Message | bytes) -> None:
        self.socket.sendall(prefixed(b"".join(map(bytes, messages))))

    def batch(self) -> bytes | None:
        """Returns the next batch; None at the end of the stream."""
        while not self._waiting:
            try:
                data = self._received()
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._waiting += self._reader.feed(data)
        return self._waiting.pop(0)

    def _received(self) -> bytes:
        return self.socket.recv(1 << 16)

    def message(self) -> Message | None:
        """Returns the only message of the next batch."""
        batch = self.batch()
        if batch is None:
            return None
        (message,) = contents(batch).messages
        return message

    def ended(self) -> bool:
        """Waits for the end of the stream, whatever comes before."""
        while self.batch() is not None:
            pass
        return True

    def open(self, zid: bytes, *, lease: int = 60, **init: Any) -> Open:
        """Runs a handshake."""
        self.send(Init(zid=zid, **init))
        answer = self.message()
        assert isinstance(answer, Init), answer
        self.send(Open(T=1, lease=lease, initial_sn=0, cookie=answer.cookie))
        opened = self.message()
        assert isinstance(opened, Open), opened
        return opened

    def until(self, cls: type[Message]) -> Any:
        """Returns the next message of a class, inside a FRAME or not."""
        while (batch := self.batch()) is not None:
            for message in contents(batch).messages:
                inside = message.messages if isinstance(message, Frame) else []
                for each in (message, *inside):
                    if isinstance(each, cls):
                        return each
        raise AssertionError(f"the stream ended before {cls.__name__}")

    def closed(self) -> int:
        """Waits for CLOSE and the end behind it; returns the reason."""
        close: Close = self.until(Close)
        assert self.batch() is None
        return int(close.reason)


class Beside(Raw):
    """A stream socket to a node in this process, which has its turns only while something is waited for here."""

    def __init__(self, node: Node) -> None:
        locator = Locator.parse(node.locators[0])
        super().__init__((locator.host, locator.port))
        self._node = node

    def readable(self) -> bool:
        """Tells whether something is there to be read."""
        return bool(select.select([self.socket], [], [], 0)[0])

    def _received(self) -> bytes:
        deadline = time.monotonic() + PATIENCE
        while not self.readable():
            assert time.monotonic() < deadline, "nothing comes"
            self._node.links.wait(self._node._turned, 0)
        return super()._received()


class Started:
    """A reference node as a child process."""

    def __init__(
        self, folder: Path, *words: str, level: str = "info", module: str = "conformance.refnode"
    ) -> None:
        self.log = folder / f"refnode-{len(list(folder.glob('refnode-*')))}.stderr"
        command = [sys.executable, "-m", module, "--end-with-parent", "--log-level", level]
        with self.log.open("wb") as err:
            self.process = subprocess.Popen(
                [*command, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=err,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], 2 * PATIENCE)
        line = self.process.stdout.readline() if ready else b""
        assert line, self.said()
        self.facts: dict[str, Any] = json.loads(line)
        self._told = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    @property
    def locator(self) -> Locator:
        return Locator.parse(self.facts["locator"])

    def raw(self) -> Raw:
        return Raw((self.locator.host, self.locator.port))

    def said(self) -> str:
        """Returns what the node wrote to standard error so far."""
        return self.log.read_text()

    def says(self, text: str) -> bool:
        """Waits until the node has written something."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.said():
            if time.monotonic() > deadline:
                return False
            time.sleep(TICK)
        return True

    def stats(self) -> dict[str, Any]:
        """Asks for the counters."""
        self.process.send_signal(signal.SIGUSR1)
        self._told += 1
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            lines = [line for line in self.said().splitlines(keepends=True) if line.startswith('{"stats"')]
            if len(lines) >= self._told and lines[-1].endswith("\n"):
                stats: dict[str, Any] = json.loads(lines[self._told - 1])["stats"]
                return stats
            time.sleep(TICK)
        raise AssertionError("no counters")

    def until_stats(self, **wanted: int) -> dict[str, Any]:
        """Waits until counters have some values."""
        deadline = time.monotonic() + PATIENCE
        while True:
            stats = self.stats()
            if all(stats[name] == value for name, value in wanted.items()):
                return stats
            assert time.monotonic() < deadline, stats
            time.sleep(TICK)

    def ends(self, number: int = signal.SIGTERM) -> int:
        """Sends a signal and returns the exit code."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def resident(self) -> int:
        """Returns kB of memory in use."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])
