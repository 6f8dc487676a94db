"""``zenoh-dissect live``: the messages on an interface, as they come."""

from __future__ import annotations

import argparse
import struct
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from scapy_layers.commands.filters import Filters, add_filters
from scapy_layers.commands.read import View, add_shown
from scapy_layers.commands.terminal import (
    Screen,
    Subparsers,
    WrongUseError,
    add_command,
    add_output,
    named,
    seconds,
)

if TYPE_CHECKING:
    from scapy.packet import Packet

    from scapy_layers.conversation import Heard
    from scapy_layers.stream import Gap

ANY = "any"
"""Name for all interfaces, as for tcpdump."""

BUFFER = 64 << 20
"""Bytes of packets that may wait while others are shown, as far as the system grants them; Scapy asks for 64 KiB."""

_SOL_SOCKET, _RCVBUFFORCE = 1, 33
_SOL_PACKET, _STATISTICS = 263, 6
"""Linux: a buffer beyond what users may have, and how many packets there were, and how many found no room in it."""

EXAMPLES = """\
examples:
  sudo zenoh-dissect live -i lo
  sudo zenoh-dissect live -i eth0 --port 7447 --port 7446 --key 'demo/**'
  sudo zenoh-dissect live -i lo --duration 10 --format jsonl > messages.jsonl

Start it before the nodes, so that it sees links from their beginning.
"""


def add(commands: Subparsers) -> None:
    """Registers the command."""
    parser = add_command(
        commands,
        "live",
        _live,
        summary="show the messages on an interface as they arrive",
        description="Captures on an interface and shows each message as `read` does for a file. Capturing needs\n"
        "root or CAP_NET_RAW. Stops on Ctrl-C, or after --count or --duration.\n\n"
        "Exit status: 0 done, 2 wrong use or no permission.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "-i",
        "--interface",
        metavar="IFACE",
        type=named,
        required=True,
        help="such as lo or eth0; any for all that are up",
    )
    parser.add_argument(
        "-p",
        "--port",
        action="append",
        default=[],
        type=_port,
        metavar="PORT",
        help="only packets of this port (default: all; Zenoh is recognized by its bytes)",
    )
    parser.add_argument(
        "-d", "--duration", type=seconds, metavar="SECONDS", help="stop after this many seconds"
    )
    add_filters(parser)
    add_shown(parser)
    add_output(parser)


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 0xFFFF:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)


def _live(arguments: argparse.Namespace) -> int:
    from scapy.sendrecv import sniff

    from scapy_layers.zenoh_session import Zenoh, ZenohSession

    screen = Screen(arguments)
    shown = _Shown(View(arguments, Filters.of(arguments), screen))

    def show(packet: Packet) -> None:
        shown.show(packet[Zenoh].heard)

    def done(_packet: Packet) -> bool:
        return shown.done

    session = ZenohSession(ports=arguments.port, missing=shown.show, frames=True)
    bpf = _filter(arguments.port)
    listening = _Listening()
    try:
        sniff(
            iface=_interfaces(arguments.interface),
            L2socket=listening.begin,
            session=session,
            filter=bpf,
            prn=show,
            stop_filter=done,
            timeout=arguments.duration,
            store=False,
        )
    except PermissionError:
        raise WrongUseError(
            f"no permission to capture on {arguments.interface}: run as root, or give the interpreter CAP_NET_RAW"
        ) from None
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise WrongUseError(f"cannot capture on {arguments.interface}: {said}") from None
    for packet in session.rest():
        show(packet)
    if shown.failed:
        raise shown.failed
    if lost := listening.lost():
        screen.complain(
            f"{lost} packets arrived faster than they are shown, and were lost: "
            "capture to a file (`tcpdump -w FILE`, `dumpcap -w FILE`), and read that"
        )
    return 0


def _interfaces(name: str) -> str | list[str]:
    """Returns where to listen: Scapy knows no interface that stands for all of them."""
    from scapy.interfaces import get_working_ifaces

    return name if name != ANY else [one.network_name for one in get_working_ifaces()]


class _Shown:
    """What is shown, until that is enough or fails.

    Attributes:
        failed: Why nothing more can be shown: Scapy would say that its socket failed, and end as if all were good.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self.failed: OSError | None = None

    @property
    def done(self) -> bool:
        """Whether nothing more is wanted."""
        return self._view.done or self.failed is not None

    def show(self, what: Heard | Gap) -> None:
        """Shows a message or a gap, if more is wanted."""
        if self.done:
            return
        try:
            self._view.show(what)
        except OSError as error:
            self.failed = error


class _Listening:
    """The sockets that Scapy listens at, with more room than it asks for."""

    def __init__(self) -> None:
        self._counted: list[Any] = []

    def begin(self, **options: Any) -> Any:
        """Opens one, with what Scapy asks for."""
        from scapy.config import conf
        from scapy.interfaces import resolve_iface

        before, conf.bufsize = conf.bufsize, BUFFER
        try:
            opened = resolve_iface(options["iface"]).l2listen()(**options)
        finally:
            conf.bufsize = before
        if sys.platform == "linux" and hasattr(opened, "ins"):
            with suppress(OSError):  # who may not has what users may have
                opened.ins.setsockopt(_SOL_SOCKET, _RCVBUFFORCE, BUFFER)
            self._counted.append(opened.ins.dup())  # Scapy closes its own before anybody can ask
            _lost_at(self._counted[-1])  # what came before it had room
        return opened

    def lost(self) -> int:
        """Returns how many packets found no room; to be called once, at the end."""
        lost = 0
        for one in self._counted:
            with one:
                lost += _lost_at(one)
        return lost


def _lost_at(socket: Any) -> int:
    """Returns how many found no room since it was asked last."""
    _, lost = struct.unpack("II", socket.getsockopt(_SOL_PACKET, _STATISTICS, 8))
    return int(lost)


def _filter(ports: list[int]) -> str | None:
    """Returns a filter for the kernel, None when there is nothing to filter or no libpcap to compile it."""
    from scapy.arch.common import compile_filter
    from scapy.error import Scapy_Exception

    if not ports:
        return None
    text = " or ".join(f"port {port}" for port in ports)
    try:
        compile_filter(text, linktype=1)
    except (ImportError, OSError, Scapy_Exception):
        return None
    return text
