"""Where Scapy expects Zenoh: which UDP ports carry scouting and which carry batches.

TCP is not bound: what a segment holds depends on those before it, so streams are read by sessions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scapy.layers.inet import UDP
from scapy.packet import Packet, Raw, bind_top_down, split_bottom_up, split_top_down

from scapy_layers.batch import Batch
from scapy_layers.codes import DEFAULT_PORT, SCOUTING_PORT, Kind
from scapy_layers.message import message_class
from scapy_layers.scouting import Hello, Scout


class _ScoutingDatagram(Packet):
    """Stands for SCOUT or HELLO where a port is bound; the first byte of a datagram tells which."""

    @classmethod
    def dispatch_hook(cls, _pkt: bytes = b"", *_args: Any, **_kwargs: Any) -> Any:
        """Scapy's entry: chooses the class for some bytes."""
        return message_class(Kind.SCOUTING, _pkt[0] & 0x1F) or Raw


LAST_PORT = 0xFFFF

_bound: list[tuple[type[Packet], int]] = []
"""What is bound at present, in the order in which it was."""


def bind_ports(
    scouting: int | Iterable[int] = SCOUTING_PORT, session: int | Iterable[int] = DEFAULT_PORT
) -> None:
    """Makes these the UDP ports of Zenoh, in place of those bound before.

    They go before what Scapy knows about UDP ports, its own default source port 53 for example.

    Args:
        scouting: Ports of SCOUT and HELLO. The first one is filled in when such a datagram is built.
        session: Ports of batches; likewise.

    Raises:
        ValueError: One of them is no port; those bound before stay.
    """
    for_scouting, for_session = _ports(scouting), _ports(session)
    unbind_ports()
    for port in for_scouting:
        _bind(_ScoutingDatagram, port)
    for port in for_session:
        _bind(Batch, port)
    # A HELLO answers from any port to the port that the SCOUT came from; only one that nobody asked for is
    # sent to the scouting port. So the port is what Scapy fills in, not what a HELLO must have.
    for port in for_scouting[:1]:
        bind_top_down(UDP, Scout, dport=port)
        bind_top_down(UDP, Hello, sport=port)
    for port in for_session[:1]:
        bind_top_down(UDP, Batch, dport=port)


def unbind_ports() -> None:
    """Makes Scapy take no UDP port for Zenoh."""
    while _bound:
        cls, port = _bound.pop()
        split_bottom_up(UDP, cls, dport=port)
        split_bottom_up(UDP, cls, sport=port)
    for layer in (Scout, Hello, Batch):
        split_top_down(UDP, layer)


def _ports(given: int | Iterable[int]) -> tuple[int, ...]:
    ports: tuple[Any, ...] = tuple(given) if isinstance(given, Iterable) else (given,)
    for port in ports:
        if not (isinstance(port, int) and 1 <= port <= LAST_PORT):
            raise ValueError(f"{port!r} is no UDP port; ports are numbers from 1 to {LAST_PORT}")
    return ports


def _bind(cls: type[Packet], port: int) -> None:
    # Scapy's own function for this would put them behind all others.
    UDP.payload_guess = [({"dport": port}, cls), ({"sport": port}, cls), *UDP.payload_guess]
    _bound.append((cls, port))
