"""SCOUT, and the HELLOs that answer it from ports nobody knew before."""

from __future__ import annotations

from scapy_layers.conversation import identify
from scapy_layers.conversation.exchanges import Exchange
from scapy_layers.conversation.heard import Heard
from scapy_layers.conversation.session import zid_of
from scapy_layers.limits import Limits
from scapy_layers.scouted import Scouted
from scapy_layers.scouting import Hello, Scout
from scapy_layers.stream import Datagram


class Scouts:
    """The latest SCOUT of each endpoint."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._scouted: Scouted[tuple[Heard, Exchange]] = Scouted(limits.links)

    @property
    def forgotten(self) -> int:
        """Scouts that had to go because there were too many."""
        return self._scouted.forgotten

    def hear(self, unit: Datagram) -> list[Heard]:
        """Returns what a datagram says if it is a SCOUT or HELLO, and something speaks for that.

        With a HELLO comes the SCOUT that only it shows to be one.
        """
        if scout := identify.scout(unit.data):
            return self._scout(unit, scout)
        if hello := identify.hello(unit.data):
            return self._hello(unit, hello)
        return []

    def _scout(self, unit: Datagram, scout: Scout) -> list[Heard]:
        exchange = Exchange("scout", 0, None, unit.number, unit.time)
        heard = Heard(unit.number, unit.time, unit.way, scout, source_zid=zid_of(scout), exchange=exchange)
        return [heard] if self._scouted.ask(unit.way, unit.data, (heard, exchange)) else []

    def _hello(self, unit: Datagram, hello: Hello) -> list[Heard]:
        heard = Heard(unit.number, unit.time, unit.way, hello, source_zid=zid_of(hello))
        believed, asked, belated = self._scouted.answer(unit.way, unit.data)
        if asked is None:
            return [heard] if believed else []
        scout, heard.exchange = asked
        heard.target_zid = scout.source_zid
        heard.exchange.answer(unit.number, unit.time, self._limits.answers)
        return [scout, heard] if belated else [heard]
