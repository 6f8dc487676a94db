"""``python -m conformance.refnode``: runs a reference node until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import ctypes
import json
import logging
import os
import secrets
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from conformance.config import Credentials, Locator, Tls
from conformance.errors import HarnessError, UsageError
from conformance.refnode.mutants import MUTANTS
from conformance.refnode.node import Node
from conformance.refnode.settings import (
    HALF_OPEN,
    HANDSHAKE_SECONDS,
    LEASE_SECONDS,
    MAX_MESSAGE,
    MAX_SESSIONS,
    MODES,
    PATCH,
    RESOLUTIONS,
    WAITING_BYTES,
    NodeConfig,
    users_of,
    zid_of,
)
from scapy_layers.codes import DEFAULT_BATCH_SIZE
from scapy_layers.commands.terminal import forget_output

EXIT_USAGE = 2
"""Wrong options."""

EXIT_FAILED = 3
"""The node cannot listen where it shall."""

PR_SET_PDEATHSIG = 1


def parser() -> argparse.ArgumentParser:
    """Returns the command line."""
    made = argparse.ArgumentParser(
        prog="python -m conformance.refnode",
        description="A small, correct Zenoh node. Prints one JSON line when it is ready; SIGTERM ends it.",
    )
    add = made.add_argument
    where: dict[str, Any] = {"action": "append", "default": [], "metavar": "LOCATOR"}
    add(
        "--listen",
        **where,
        help="take links here: tcp/127.0.0.1:0; tcp, tls, udp, ws, unixsock-stream; repeatable",
    )
    add("--connect", **where, help="make a link there, again whenever it ends; repeatable")
    add("--mode", choices=sorted(MODES), default="router", help="role (default: router)")
    add("--zid", default="", metavar="HEX", help="ZenohID in hexadecimal (default: a random one)")
    add("--lease", type=float, default=LEASE_SECONDS, metavar="S", help="seconds (default: %(default)g)")
    add("--batch-size", type=int, default=DEFAULT_BATCH_SIZE, metavar="BYTES", help="default: %(default)s")
    add("--fsn", type=int, choices=RESOLUTIONS, default=32, help="bits of sequence numbers (default: 32)")
    add("--rid", type=int, choices=RESOLUTIONS, default=32, help="bits of request ids (default: 32)")
    add("--patch", type=int, default=PATCH, metavar="N", help="patch version (default: %(default)s)")
    add("--qos", action=argparse.BooleanOptionalAction, default=True, help="priority lanes (default: on)")
    add(
        "--lowlatency",
        action="store_true",
        help="take part in low-latency sessions, where lanes are not agreed",
    )
    add("--compression", action="store_true", help="take part in compression")
    add("--max-sessions", type=int, default=MAX_SESSIONS, metavar="N", help="default: %(default)s")
    add("--max-links", type=int, default=1, metavar="N", help="links of one session (default: %(default)s)")
    add(
        "--half-open",
        type=int,
        default=HALF_OPEN,
        metavar="N",
        help="handshakes at once (default: %(default)s)",
    )
    add(
        "--handshake-seconds", type=float, default=HANDSHAKE_SECONDS, metavar="S", help="default: %(default)g"
    )
    add(
        "--waiting-bytes",
        type=int,
        default=WAITING_BYTES,
        metavar="BYTES",
        help="what may wait for a neighbour that does not read (default: %(default)s)",
    )
    add("--max-message", type=int, default=MAX_MESSAGE, metavar="BYTES", help="default: %(default)s")
    add(
        "--user",
        action="append",
        default=[],
        metavar="USER:PASSWORD",
        help="who may open a session; nobody else then; repeatable",
    )
    add(
        "--users",
        type=Path,
        metavar="FILE",
        help="the same, a line for each: what is typed can be read by everybody on the machine",
    )
    add(
        "--credentials",
        default="",
        metavar="USER[:PASSWORD]",
        help="who we are when we connect; USER alone takes the password from the variable ZENOH_PASSWORD",
    )
    for name, what in (("cert", "certificate"), ("key", "its key"), ("ca", "certificate of who is trusted")):
        add(f"--tls-{name}", type=Path, metavar="FILE", help=f"{what}, PEM")
    add(
        "--tls-mutual",
        action="store_true",
        help="whoever connects must show a certificate that the CA signed",
    )
    add("--scout", default="", metavar="LOCATOR", help="answer SCOUT there: udp/239.255.0.1:17446#iface=lo")
    add("--find", action="store_true", help="scout there too, and connect to who answers")
    add(
        "--multicast",
        default="",
        metavar="LOCATOR",
        help="take part in a group: udp/239.255.0.2:17447#iface=lo",
    )
    add("--mutant", default="", metavar="ID", help="break the rule of a requirement: ZN-INIT-045")
    add("--list-mutants", action="store_true", help="list the rules that can be broken, and end")
    add("--seed", type=int, default=None, help="of all random choices (default: none can be foretold)")
    add("--stats", action="store_true", help="write counters to standard error at the end (SIGUSR1: now)")
    levels = ("debug", "info", "warning", "error")
    add("--log-level", choices=levels, default="warning", help="default: %(default)s")
    add(
        "--end-with-parent",
        nargs="?",
        const=os.getppid(),
        type=int,
        metavar="PID",
        help="end when whoever started it ends, whose process number is this",
    )
    return made


def config_of(options: argparse.Namespace) -> NodeConfig:
    """Returns what the command line asks for.

    Raises:
        UsageError: It makes no sense.
    """
    return NodeConfig(
        zid=zid_of(options.zid)
        if options.zid
        else secrets.token_bytes(15) + bytes([1 + secrets.randbelow(255)]),
        listen=tuple(Locator.parse(text, listening=True) for text in options.listen),
        connect=tuple(map(Locator.parse, options.connect)),
        mode=MODES[options.mode],
        lease=options.lease,
        batch_size=options.batch_size,
        fsn=RESOLUTIONS[options.fsn],
        rid=RESOLUTIONS[options.rid],
        patch=options.patch,
        qos=options.qos,
        lowlatency=options.lowlatency,
        compression=options.compression,
        max_sessions=options.max_sessions,
        max_links=options.max_links,
        half_open=options.half_open,
        handshake_seconds=options.handshake_seconds,
        waiting_bytes=options.waiting_bytes,
        max_message=options.max_message,
        users=users_of(options.user, options.users),
        credentials=Credentials.parse(options.credentials, "--credentials") if options.credentials else None,
        tls=_tls(options),
        scout=Locator.parse(options.scout) if options.scout else None,
        find=options.find,
        multicast=Locator.parse(options.multicast) if options.multicast else None,
        mutant=options.mutant,
        seed=options.seed,
    )


def _tls(options: argparse.Namespace) -> Tls | None:
    if not (options.tls_cert or options.tls_key or options.tls_ca):
        return None
    return Tls(
        ca=options.tls_ca, certificate=options.tls_cert, key=options.tls_key, mutual=options.tls_mutual
    )


def list_mutants() -> None:
    """Prints every mutant: id, what it does, what else it breaks."""
    for name, known in sorted(MUTANTS.items()):
        others = ", ".join(known.requirements[1:])
        print(f"{name:<14} {known.title}" + (f" ({others})" if others else ""))


def main(words: list[str] | None = None) -> int:
    """Runs a node; returns the exit code."""
    options = parser().parse_args(words)
    if options.list_mutants:
        return 0 if _shown(list_mutants) else EXIT_USAGE
    if options.end_with_parent is not None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != options.end_with_parent:
            return 0  # it was killed before that was said
    logging.basicConfig(
        stream=sys.stderr, level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(message)s"
    )
    try:
        node = Node(config_of(options))
        node.start()
    except UsageError as error:
        print(f"refnode: {error}", file=sys.stderr)
        return EXIT_USAGE
    except HarnessError as error:
        print(f"refnode: {error}", file=sys.stderr)
        return EXIT_FAILED
    _obey_signals(node)
    if not _shown(lambda: print(json.dumps({**node.facts, "pid": os.getpid()}))):
        node.close()
        return EXIT_FAILED
    node.run()
    node.close()
    if options.stats:
        print(node.counters.line(), file=sys.stderr, flush=True)
    return 0


def _shown(say: Callable[[], None]) -> bool:
    """Tells whether something could be written to standard output, or nobody wants to read it; else says why not."""
    try:
        say()
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        forget_output()
        if not isinstance(error, BrokenPipeError):
            print(f"refnode: standard output: {error.strerror}", file=sys.stderr)
            return False
    return True


def _obey_signals(node: Node) -> None:
    """SIGTERM and SIGINT end the node in order, the second one at once; SIGUSR1 makes it tell its counters."""
    heard: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        if heard:
            # In the middle of an orderly end: no more courtesies.
            os._exit(128 + number)
        heard.append(number)
        node.stop()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGUSR1, lambda *_: node.tell())


if __name__ == "__main__":
    sys.exit(main())
