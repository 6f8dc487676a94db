"""The node in the middle: the reference node, or a real router that proves that the test itself is right."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from conformance.nodes.places import free_port
from tests.conformance.refnode.real.clients import CLIENT, Client, Worker

START_SECONDS = 120.0
"""How long a node may take to be ready."""

STOP_SECONDS = 60.0
"""How long it may take to say goodbye."""

ANY_PORT = "tcp/127.0.0.1:0"

TRANSPORT: dict[str, Any] = {
    "batch_size": "transport/link/tx/batch_size",
    "fsn": "transport/link/tx/sequence_number_resolution",
    "qos": "transport/unicast/qos/enabled",
    "lowlatency": "transport/unicast/lowlatency",
    "compression": "transport/unicast/compression/enabled",
}
"""Where the configuration of the library has what a transport can be."""


@dataclass(frozen=True, kw_only=True)
class Transport:
    """What both ends of a session shall offer; None leaves it to them."""

    batch_size: int | None = None
    fsn: int | None = None
    qos: bool | None = None
    lowlatency: bool | None = None
    compression: bool | None = None

    @property
    def config(self) -> dict[str, Any]:
        """The paths and values for the library."""
        told = {name: getattr(self, name) for name in TRANSPORT}
        if self.fsn is not None:
            told["fsn"] = f"{self.fsn}bit"
        return {TRANSPORT[name]: value for name, value in told.items() if value is not None}

    @property
    def arguments(self) -> list[str]:
        """The options for the reference node."""
        switches = {"--lowlatency": self.lowlatency, "--compression": self.compression}
        numbers = {"--batch-size": self.batch_size, "--fsn": self.fsn}
        return [
            *([] if self.qos is None else ["--qos" if self.qos else "--no-qos"]),
            *(name for name, on in switches.items() if on),
            *(part for name, number in numbers.items() if number for part in (name, str(number))),
        ]


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """Files with the certificate of a server, its key, and who signed it."""

    chain: Path
    key: Path
    authority: Path


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What node a test needs."""

    listen: tuple[str, ...] = (ANY_PORT,)
    connect: tuple[str, ...] = ()
    mode: str = "router"
    transport: Transport = field(default_factory=Transport)
    users: Mapping[str, str] = field(default_factory=dict)
    certificate: Certificate | None = None
    scout: str = ""
    group: str = ""


class RunningNode(Protocol):
    """A node that is ready."""

    wanted: Wanted
    locators: list[str]
    zid: str

    def stop(self) -> None:
        """Ends it in good order, if it has not ended."""

    def kill(self) -> None:
        """Ends it without a word."""


def locator(node: RunningNode, proto: str = "tcp") -> str:
    """Returns where the node listens by this protocol, as a client can use it."""
    found = next(known for known in node.locators if known.startswith(f"{proto}/"))
    # The certificate is for a name.
    return found.replace("127.0.0.1", "localhost") if proto == "tls" else found


def scouting(group: str) -> dict[str, Any]:
    """Returns what makes the library scout in a group: ``udp/239.255.0.1:7000#iface=lo``."""
    address, _, interface = group.removeprefix("udp/").partition("#iface=")
    return {
        "scouting/multicast/enabled": True,
        "scouting/multicast/address": address,
        "scouting/multicast/interface": interface,
        "scouting/multicast/ttl": 0,
    }


def with_port(listen: str) -> str:
    """Chooses a port, as the library does not tell which one it got for port 0."""
    proto, _, address = listen.partition("/")
    host, _, port = address.rpartition(":")
    return listen if port != "0" else f"{proto}/{host}:{free_port(proto, host)}"


class RealNode:
    """A router or peer of eclipse-zenoh."""

    def __init__(self, wanted: Wanted, folder: Path) -> None:
        self.wanted = wanted
        self.locators = [with_port(listen) for listen in wanted.listen]
        config = {
            **CLIENT,
            "mode": wanted.mode,
            "scouting/delay": 0,
            "listen/endpoints": self.locators + [wanted.group] * bool(wanted.group),
            "connect/endpoints": list(wanted.connect),
            # A neighbour may come later; that is nothing to wait for, and nothing to die of.
            "connect/timeout_ms": 0 if not wanted.connect else 10_000,
            **wanted.transport.config,
            **(scouting(wanted.scout) if wanted.scout else {}),
        }
        if wanted.users:
            names = folder / "users.txt"
            names.write_text("".join(f"{user}:{password}\n" for user, password in wanted.users.items()))
            config["transport/auth/usrpwd/dictionary_file"] = str(names)
        if wanted.certificate is not None:
            config["transport/link/tls/listen_certificate"] = str(wanted.certificate.chain)
            config["transport/link/tls/listen_private_key"] = str(wanted.certificate.key)
        self._worker = Worker(folder / "real-node.log")
        try:
            self._session: Client = self._worker.open(config)
            self.zid = self._session.zid
        except BaseException:
            self._worker.kill()
            raise

    def stop(self) -> None:
        if self._worker.alive:
            self._session.close()
            self._worker.end()

    def kill(self) -> None:
        self._worker.kill()


class RefNode:
    """The reference node in a process of its own."""

    def __init__(self, wanted: Wanted, folder: Path) -> None:
        self.wanted = wanted
        self._log = folder / "ref-node.log"
        arguments = [
            *(part for listen in wanted.listen for part in ("--listen", listen)),
            *(part for connect in wanted.connect for part in ("--connect", connect)),
            *("--mode", wanted.mode),
            *(("--scout", wanted.scout) if wanted.scout else ()),
            *(("--multicast", wanted.group) if wanted.group else ()),
            "--end-with-parent",
            *wanted.transport.arguments,
            *(part for user, password in wanted.users.items() for part in ("--user", f"{user}:{password}")),
        ]
        if wanted.certificate is not None:
            arguments += [
                "--tls-cert",
                str(wanted.certificate.chain),
                "--tls-key",
                str(wanted.certificate.key),
            ]
        with self._log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "conformance.refnode", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=Path(__file__).parents[4],
            )
        ready = json.loads(self._ready_line())
        self.zid: str = ready["zid"]
        self.locators: list[str] = ready["locators"]

    def _ready_line(self) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        deadline = time.monotonic() + START_SECONDS
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            more = os.read(descriptor, 4096) if ready else b""
            if not more:
                self.kill()
                raise AssertionError(f"the reference node is not ready; its log ends: {self._tail()}")
            line += more
        return line

    def _tail(self) -> str:
        return " / ".join(self._log.read_text(errors="replace").splitlines()[-5:])

    def stop(self) -> None:
        """Ends it in good order, and sees that it had nothing to complain about itself."""
        if self._process.returncode is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_SECONDS)
        finally:
            self.kill()
        assert code == 0, f"the reference node ended with {code}; its log ends: {self._tail()}"
        assert "Traceback" not in self._log.read_text(errors="replace"), f"see {self._log}: {self._tail()}"

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


NODES: Mapping[str, type[RealNode | RefNode]] = {"ref": RefNode, "real": RealNode}


def again(node: RunningNode) -> Wanted:
    """Returns what is wanted of a node that takes the place of this one."""
    return replace(node.wanted, listen=tuple(node.locators))
