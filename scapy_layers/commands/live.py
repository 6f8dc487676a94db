"""``zenoh-dissect live``: the messages on an interface, as they come."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from scapy_layers.commands.filters import Filters, add_filters
from scapy_layers.commands.read import View, add_shown
from scapy_layers.commands.terminal import Screen, Subparsers, WrongUseError, add_command, add_output

if TYPE_CHECKING:
    from scapy.packet import Packet

    from scapy_layers.stream import Gap

EXAMPLES = """\
examples:
  sudo zenoh-dissect live -i lo
  sudo zenoh-dissect live -i eth0 --port 7447 --port 7446 --key 'demo/**'
  sudo zenoh-dissect live -i lo --duration 10 --format jsonl > messages.jsonl

Links are understood from their beginning: start before the nodes do.
"""


def add(commands: Subparsers) -> None:
    """Registers the command."""
    parser = add_command(
        commands,
        "live",
        _live,
        summary="show the messages on an interface as they come",
        description="Captures on an interface and shows what `read` shows of a file, message by message. Capturing\n"
        "needs rights: root, or CAP_NET_RAW. Ends with Ctrl-C, or as --count and --duration say.\n\n"
        "Exit status: 0 done, 2 wrong use, not permitted included.",
        examples=EXAMPLES,
    )
    parser.add_argument("-i", "--interface", metavar="IFACE", required=True, help="such as lo or eth0")
    parser.add_argument(
        "-p",
        "--port",
        action="append",
        default=[],
        type=_port,
        metavar="PORT",
        help="only packets of this port (default: all; Zenoh is told from other traffic by its bytes)",
    )
    parser.add_argument(
        "-d", "--duration", type=_seconds, metavar="SECONDS", help="stop after so many seconds"
    )
    add_filters(parser)
    add_shown(parser)
    add_output(parser)


def _port(text: str) -> int:
    port = int(text)
    if not 0 < port <= 0xFFFF:
        raise argparse.ArgumentTypeError(f"{port} is no port")
    return port


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError("more than 0")
    return seconds


def _live(arguments: argparse.Namespace) -> int:
    from scapy.sendrecv import sniff

    from scapy_layers.zenoh_session import Zenoh, ZenohSession

    view = View(arguments, Filters.of(arguments), Screen(arguments))

    def show(packet: Packet) -> None:
        if not view.done:
            view.show(packet[Zenoh].heard)

    def done(_packet: Packet) -> bool:
        return view.done

    def missing(gap: Gap) -> None:
        if not view.done:
            view.show(gap)

    session = ZenohSession(ports=arguments.port, missing=missing)
    bpf = _filter(arguments.port)
    try:
        sniff(
            iface=arguments.interface,
            session=session,
            filter=bpf,
            prn=show,
            stop_filter=done,
            timeout=arguments.duration,
            store=False,
        )
    except PermissionError:
        raise WrongUseError(
            f"no permission to capture on {arguments.interface}: run it as root, or give the interpreter CAP_NET_RAW"
        ) from None
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise WrongUseError(f"cannot capture on {arguments.interface}: {said}") from None
    for packet in session.rest():
        show(packet)
    return 0


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
