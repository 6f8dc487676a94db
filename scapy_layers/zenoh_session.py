"""A session for Scapy's ``sniff``: captured or live packets in, one packet for each Zenoh message out.

    >>> from scapy_layers.all import *
    >>> sniff(offline="capture.pcapng", session=ZenohSession).summary()
    >>> sniff(iface="lo", session=ZenohSession, prn=lambda packet: packet.keyexpr)

Streams are put in order, batches unpacked, fragments put together, aliases resolved; nothing but Zenoh comes
through.
"""

from __future__ import annotations

import copyreg
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from copy import copy
from typing import TYPE_CHECKING, Any, cast

from scapy.config import conf
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot3
from scapy.packet import Packet
from scapy.sessions import DefaultSession
from scapy.utils import EDecimal

from scapy_layers import stream
from scapy_layers.conversation import Conversations, Heard, is_batch
from scapy_layers.ip import Decoder
from scapy_layers.stream import Way
from scapy_layers.transport import Frame

if TYPE_CHECKING:
    from scapy_layers.ip import Segment
    from scapy_layers.links import Endpoint

NS = 1_000_000_000


class Zenoh(Packet):
    """Stands between TCP or UDP and a message; it has no bytes, only what is known about the message.

    ``packet.heard`` is all of it; ``packet.keyexpr``, ``source_zid``, ``target_zid``, ``lane``, ``exchange``,
    ``remarks`` and the rest of ``Heard`` can be asked of any packet that has this layer.
    """

    name = "Zenoh"
    fields_desc: list[Any] = []  # noqa: RUF012  (that is how Scapy layers are written)
    __slots__ = ["heard"]

    heard: Heard | None

    def __init__(self, *args: Any, heard: Heard | None = None, **kwargs: Any) -> None:
        self.heard = heard
        super().__init__(*args, **kwargs)

    def __getattr__(self, attr: str) -> Any:
        if attr == "heard":
            # Scapy asks payloads in this way, past the slot.
            return object.__getattribute__(self, attr)
        if attr in _KNOWN and self.heard is not None:
            return getattr(self.heard, attr)
        return super().__getattr__(attr)

    def clone_with(self, *args: Any, **kwargs: Any) -> Any:
        """Scapy's copy of a packet with other values."""
        clone = super().clone_with(*args, **kwargs)
        clone.heard = self.heard
        return clone

    def copy(self) -> Any:
        """Returns a deep copy that knows the same."""
        clone = super().copy()
        clone.heard = self.heard
        return clone

    def __reduce__(self) -> tuple[Any, ...]:
        return _reduced(self)

    def _command(self, json: bool = False) -> list[tuple[str, Any]]:
        """Scapy's entry of ``command`` and ``json``; the latter makes no JSON of a layer that has nothing to tell."""
        if not json:
            return []
        told = [(name, getattr(self.heard, name, None)) for name in _TOLD]
        return [*told, ("remarks", self._remarks())]

    def _remarks(self) -> list[str]:
        return (
            [] if self.heard is None else [f"{remark.kind}: {remark.text}" for remark in self.heard.remarks]
        )

    def mysummary(self) -> str:
        """Who says what to whom, in one line, with the full key and what is wrong."""
        heard = self.heard
        if heard is None:
            return "Zenoh"
        key = "" if heard.keyexpr is None else f" {heard.keyexpr!r}"
        remarks = "".join(f" [{remark}]" for remark in self._remarks())
        return f"{heard.way.source} > {heard.way.target} {heard.message.describe()}{key}{remarks}"

    def _do_summary(self) -> tuple[int, str, list[Any]]:
        """Scapy's entry: this layer speaks for the message behind it."""
        return 1, self.mysummary(), []


_KNOWN = frozenset(Heard.__slots__) - {"number", "time", "message"}
"""What can be asked of a packet directly."""


_TOLD = ("number", "source_zid", "target_zid", "keyexpr")
"""What JSON has of a message besides its fields."""

_SCAPYS = (
    *("fields", "explicit", "raw_packet_cache", "raw_packet_cache_fields", "wirelen"),
    *("time", "sent_time", "direction", "sniffed_on", "comments"),
)
"""What Scapy knows of a header and copies."""


def _reduced(packet: Packet) -> tuple[Any, ...]:
    """Takes a packet apart for ``pickle`` and ``copy.copy``: Scapy does so by its bytes, and ``Zenoh`` has none."""
    headers: list[tuple[type[Packet], dict[str, Any]]] = []
    for layer in packet.iterpayloads():
        if isinstance(layer, Zenoh):
            return _again, (headers, layer.heard, layer.payload or None)
        headers.append((type(layer), {name: getattr(layer, name) for name in _SCAPYS}))
    return cast("tuple[Any, ...]", packet.__reduce__())


def _again(
    headers: list[tuple[type[Packet], dict[str, Any]]], heard: Heard | None, payload: Packet | None
) -> Packet:
    """Returns a packet that was taken apart; it shares nothing that can be changed but what was heard."""
    packet: Packet = Zenoh(heard=heard)
    if payload is not None:
        packet.add_payload(payload.copy())
    for cls, known in reversed(headers):
        layer = cls()
        for name, value in known.items():
            setattr(layer, name, copy(value))
        layer.fields = layer.copy_fields_dict(layer.fields)
        layer.add_payload(packet)
        packet = layer
    return _with_reducer(packet)


def _with_reducer(packet: Packet) -> Packet:
    """Has the headers of a packet pickled with what is behind them, wherever it is held: that goes by the class."""
    for layer in packet.iterpayloads():
        if isinstance(layer, Zenoh):
            break
        copyreg.dispatch_table.setdefault(type(layer), _reduced)
    return packet


class ZenohSession(DefaultSession):
    """Turns the packets of a capture or interface into one packet for each message.

    Each has the link, IP and TCP or UDP headers of the packet in which the message ended, a ``Zenoh`` layer with
    what is known about it, and the message. A FRAME comes only when it carries nothing or something is wrong with
    it: its messages come instead. ``time`` is that of the packet. Packets that complete no message give none.

    They are there to be read. What ``wrpcap`` writes of them is no capture of a session: a message has neither its
    FRAME nor its length in front, and one of several packets has no headers of the others. The packet that was
    captured has the number ``heard.number``, from 1:

        >>> captured = rdpcap("capture.pcapng")
        >>> found = sniff(offline=captured, session=ZenohSession, lfilter=lambda packet: packet.keyexpr == "demo/a")
        >>> wrpcap("part.pcap", [captured[number - 1] for number in sorted({one.heard.number for one in found})])

    Args:
        ports: Only packets from or to one of them; all when there are none.
        missing: Is told what was lost between the messages, in its place.
        frames: Every FRAME comes as well, in front of its messages.
    """

    def __init__(
        self,
        *args: Any,
        ports: Collection[int] = (),
        missing: Callable[[stream.Gap], object] | None = None,
        frames: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._missing = missing
        self._frames = frames
        self._ports = frozenset(ports)
        self._decode = Decoder().decode
        self._streams = stream.Reader(is_batch, stream.Limits())
        self._conversations = Conversations()
        self._number = 0
        self._outgoing: OrderedDict[bytes, None] = OrderedDict()

    def recv(self, sock: Any) -> Iterator[Packet]:
        """Scapy's entry: yields the messages that the next packet completes."""
        try:
            packet = sock.recv(_LONGEST)
        except EOFError:
            yield from self.rest()
            raise
        if packet and not (_is_loopback(sock) and self._was_there(packet)):
            yield from self.messages(packet)

    def messages(self, packet: Packet) -> Iterator[Packet]:
        """Yields the messages that a packet completes."""
        self._number += 1
        segment = self._segment(packet)
        if segment is not None and self._wants(segment):
            yield from self._packets(self._streams.take(segment), packet)

    def rest(self) -> Iterator[Packet]:
        """Yields the messages that waited for packets that do not come any more; to be called at the end."""
        yield from self._packets(self._streams.finish(), None)

    def _was_there(self, packet: Packet) -> bool:
        """Tells whether a packet was seen already: on a loopback each comes twice, outgoing and incoming."""
        raw = bytes(packet)
        if raw in self._outgoing:
            del self._outgoing[raw]
            return True
        self._outgoing[raw] = None
        if len(self._outgoing) > _MOST_OUTGOING:
            self._outgoing.popitem(last=False)
        return False

    def _wants(self, segment: Segment) -> bool:
        return not self._ports or not self._ports.isdisjoint({segment.sport, segment.dport})

    def _segment(self, packet: Packet) -> Segment | None:
        try:
            link = conf.l2types.layer2num[type(packet)]
        except KeyError:
            # IP without anything below, as a raw socket gives it, and as one is made by hand.
            if not isinstance(packet, IP | IPv6):
                return None
            link = _RAW
        raw = bytes(packet)
        return self._decode(self._number, _ns(packet), link, raw, packet.wirelen or len(raw))

    def _packets(self, units: Iterator[stream.Unit], packet: Packet | None) -> Iterator[Packet]:
        for unit in units:
            if isinstance(unit, stream.Gap) and self._missing is not None:
                self._missing(unit)
            for heard in self._conversations.hear(unit):
                carries = isinstance(heard.message, Frame) and bool(heard.message.messages)
                if heard.remarks or not carries or self._frames:
                    headers = self._headers(packet, heard)
                    zenoh = Zenoh(heard=heard)
                    zenoh.add_payload(heard.message)
                    headers.lastlayer().add_payload(zenoh)
                    headers.time = EDecimal(heard.time) / NS
                    yield _with_reducer(headers)

    def _headers(self, packet: Packet | None, heard: Heard) -> Packet:
        """Returns what stands in front of the message: copied, or made when another packet set it free.

        Made for a packet in a tunnel as well: of what carries it Scapy knows some, and others not.
        """
        if packet is None or heard.number != self._number:
            return _made(heard.way)
        headers = packet.copy()
        for layer in (Dot3, IP, IPv6, TCP, UDP):
            if layer in headers:
                if layer in {TCP, UDP}:
                    headers[layer].remove_payload()
                _forget(headers[layer])
        return headers if _lead_to(headers, heard.way.source) else _made(heard.way)


_MOST_OUTGOING = 256
"""Packets on a loopback of which the second copy is waited for."""

_LONGEST = 1 << 18
"""Bytes of a packet that are taken. Scapy takes 65535 unless told, and the largest on a loopback have 14 more."""

_RAW = 101
"""Link type of packets that begin with IP."""


def _is_loopback(sock: Any) -> bool:
    return str(getattr(sock, "iface", "")) == str(conf.loopback_name)


def _ns(packet: Packet) -> int:
    return int(EDecimal(packet.time) * NS)


def _forget(layer: Packet) -> None:
    """Makes lengths and checksums computed again: the message is not as long as the bytes that stood there."""
    for name in ("len", "plen", "chksum"):
        if name in layer.fields:
            del layer.fields[name]
    layer.raw_packet_cache = None


def _lead_to(headers: Packet, source: Endpoint) -> bool:
    """Tells whether these are the headers of one packet, which somebody has sent."""
    last = headers.lastlayer()
    of_ip = [layer for layer in headers.iterpayloads() if isinstance(layer, IP | IPv6)]
    return isinstance(last, TCP | UDP) and [(layer.src, last.sport) for layer in of_ip] == [source]


def _made(way: Way) -> Packet:
    source, target = way.source, way.target
    ip = (IPv6 if ":" in source.address else IP)(src=source.address, dst=target.address)
    return ip / (TCP if way.link.tcp else UDP)(sport=source.port, dport=target.port)
