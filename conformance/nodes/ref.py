"""The reference node of this project, in a process of its own. ``--node ref[:MUTANT]``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import conformance
from conformance.config import PASSWORD_IN, Locator, Tls
from conformance.errors import NotApplicable
from conformance.nodes.child import ANYWHERE, LISTEN, ChildNode, scouting_of
from conformance.nodes.places import reached
from conformance.nodes.users import PASSWORD, USER, USERS
from conformance.refnode.mutants import mutant_named
from conformance.refnode.settings import MODES
from scapy_layers.commands.terminal import installed_version

IMPL = "zenoh-harness-refnode"

ROOT = str(Path(conformance.__file__).parents[1])
"""Where the packages are: the child shall run the same ones, installed or not."""

ALWAYS = ("--log-level", "info")
"""Options of every node that we start."""

BASE: dict[str, Any] = {LISTEN: ANYWHERE}
"""Configuration of the default node, in the words of the real one, so that a test need not know which it gets."""


def _switch(on: str, off: str = "") -> Callable[[Any], list[str]]:
    return lambda value: [on] if value else [off] if off else []


def _each(option: str) -> Callable[[Any], list[str]]:
    return lambda values: [word for value in values for word in (option, str(value))]


def _one(option: str) -> Callable[[Any], list[str]]:
    return lambda value: [option, str(value)]


def _milliseconds(option: str) -> Callable[[Any], list[str]]:
    return lambda value: [option, f"{value / 1000:g}"]


def _bits(option: str) -> Callable[[Any], list[str]]:
    return lambda value: [option, str(value).removesuffix("bit")]


def _only(*allowed: Any) -> Callable[[Any], list[str]]:
    """For what a reference node has no choice about."""

    def check(value: Any) -> list[str]:
        if value not in allowed:
            raise NotApplicable(f"the reference node cannot have {value!r} there")
        return []

    return check


def _listening(values: Any) -> list[str]:
    """Returns the options for places to listen at; a group is none of them."""
    return [
        word
        for value in values
        for word in ("--multicast" if Locator.parse(value, listening=True).group else "--listen", str(value))
    ]


OPTIONS: dict[str, Callable[[Any], list[str]]] = {
    "mode": lambda value: [*_only(*MODES)(value), "--mode", value],
    "id": _one("--zid"),
    "listen/endpoints": _listening,
    "connect/endpoints": _each("--connect"),
    "scouting/delay": lambda _: [],
    "scouting/multicast/enabled": lambda _: [],
    "scouting/multicast/address": lambda _: [],
    "scouting/multicast/interface": lambda _: [],
    "scouting/multicast/autoconnect": lambda wanted: ["--find"] if any(wanted.values()) else [],
    "scouting/timeout": lambda _: [],
    # It has no application; a peer asks for all declarations, whatever they are needed for.
    "app/publish": lambda _: [],
    "adminspace/enabled": _only(False),
    "transport/shared_memory/enabled": _only(False),
    "transport/link/tls/root_ca_certificate": _one("--tls-ca"),
    "transport/link/tls/listen_certificate": _one("--tls-cert"),
    "transport/link/tls/listen_private_key": _one("--tls-key"),
    "transport/link/tls/enable_mtls": _switch("--tls-mutual"),
    USERS: _one("--users"),
    USER: lambda name: ["--credentials", name] if name else [],
    # In the environment: what stands in a command can be read by everybody on the machine.
    PASSWORD: lambda _: [],
    "transport/unicast/qos/enabled": _switch("--qos", "--no-qos"),
    "transport/multicast/qos/enabled": _switch("--qos", "--no-qos"),
    # A quarter of the lease.
    "transport/multicast/join_interval": lambda _: [],
    "transport/unicast/lowlatency": _switch("--lowlatency"),
    "transport/unicast/compression/enabled": _switch("--compression"),
    "transport/unicast/max_sessions": _one("--max-sessions"),
    "transport/unicast/max_links": _one("--max-links"),
    "transport/unicast/accept_pending": _one("--half-open"),
    "transport/unicast/accept_timeout": _milliseconds("--handshake-seconds"),
    "transport/link/tx/lease": _milliseconds("--lease"),
    "transport/link/tx/batch_size": _one("--batch-size"),
    "transport/link/tx/sequence_number_resolution": _bits("--fsn"),
    "transport/link/rx/max_message_size": _one("--max-message"),
}
"""Configuration paths of the real node, and the options that say the same."""


def words_of(config: dict[str, Any]) -> list[str]:
    """Returns the command line for a configuration.

    Raises:
        NotApplicable: The reference node cannot be configured so.
    """
    scouting = scouting_of(config)
    words: list[str] = ["--scout", str(scouting)] if scouting else []
    for path, value in config.items():
        if path not in OPTIONS:
            raise NotApplicable(f"the reference node has no option for {path}")
        words += OPTIONS[path](value)
    return words


class RefNode(ChildNode):
    """A reference node as a child process.

    Args:
        logs: Folder for what the node writes.
        mutant: Id of the rule it breaks; empty for none.
        config: Paths and values on top of ``BASE``.
        name: Base name of the log files.
        transports: What it listens on, unless the configuration says where.
        tls: Certificates for links over TLS.

    Attributes:
        facts: The line with which it said that it is ready.

    Raises:
        UsageError: There is no such mutant.
    """

    title = IMPL
    configured = True
    complaint = re.compile(r"internal error|^Traceback")

    def __init__(
        self,
        logs: Path,
        mutant: str = "",
        config: dict[str, Any] | None = None,
        name: str = "node",
        *,
        transports: tuple[str, ...] = ("tcp",),
        tls: Tls | None = None,
    ) -> None:
        super().__init__(logs, {**BASE, **(config or {})}, name, transports=transports, tls=tls)
        self.mutant = mutant_named(mutant).name
        # Recorded deviations are those of a correct node; a mutant has none.
        self.impl = f"{IMPL}:{self.mutant}" if self.mutant else IMPL
        self.version = installed_version()
        self.facts: dict[str, Any] = {}

    def start(self) -> None:
        """Starts the process and waits until it says that it is ready."""
        log = self._spawn()
        assert self._process is not None
        assert self._process.stdout is not None
        with self._process.stdout as pipe:
            self.facts = json.loads(self._ready_line(pipe, log))
        self._reached(reached(self.facts["locators"]))
        self.whatami = self.facts["whatami"]
        self.zid = self.facts["zid"]

    def launch(self) -> None:
        """Starts the process; it is ready when it says something on a link."""
        self._spawn()

    def stop(self) -> None:
        """See ChildNode."""
        process = self._process
        super().stop()
        if process is not None and process.stdout is not None:
            process.stdout.close()

    def _spawn(self) -> Path:
        log = self._next_log()
        config = self._placed()
        words = words_of(config)
        mutant = ["--mutant", self.mutant] if self.mutant else []
        self._launch(
            [
                *(sys.executable, "-m", "conformance.refnode"),
                *("--end-with-parent", str(os.getpid())),
                *(*ALWAYS, *mutant, *words),
            ],
            log,
            subprocess.PIPE,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")]).rstrip(":"),
                PASSWORD_IN: str(config.get(PASSWORD, "")),
            },
        )
        return log

    def variant(self, **config: Any) -> RefNode:
        """Returns another node with its own configuration, not started yet.

        Raises:
            NotApplicable: The reference node cannot be configured so.
        """
        changed = self._changed(config)
        words_of(changed)
        made = RefNode(
            self._logs,
            self.mutant,
            changed,
            self._variant_name(),
            transports=self._places.transports,
            tls=self.tls,
        )
        self._tell_user(made)
        return made
