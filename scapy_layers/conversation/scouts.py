"""SCOUT, and the HELLOs that answer it from ports nobody knew before."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from scapy_layers.conversation import identify
from scapy_layers.conversation.exchanges import Exchange
from scapy_layers.conversation.heard import Heard
from scapy_layers.conversation.session import zid_of
from scapy_layers.limits import Limits
from scapy_layers.scouting import Hello, Scout
from scapy_layers.stream import Datagram, Endpoint


@dataclass(slots=True, eq=False)
class _Scouted:
    heard: Heard
    exchange: Exchange
    told: bool


class Scouts:
    """The latest SCOUT of each endpoint.

    Attributes:
        forgotten: Scouts that had to go because there were too many.
    """

    def __init__(self, limits: Limits) -> None:
        self.forgotten = 0
        self._limits = limits
        self._scouts: OrderedDict[Endpoint, _Scouted] = OrderedDict()

    def hear(self, unit: Datagram) -> list[Heard]:
        """Returns what a datagram says if it is a SCOUT or HELLO, and something speaks for that.

        A SCOUT to a group or to the usual port is believed; any other one when its HELLO comes, and is told
        then. A HELLO is believed that goes where a SCOUT came from, or that names a locator.
        """
        if scout := identify.scout(unit.data):
            return self._scout(unit, scout)
        if hello := identify.hello(unit.data):
            return self._hello(unit, hello)
        return []

    def _scout(self, unit: Datagram, scout: Scout) -> list[Heard]:
        way = unit.way
        exchange = Exchange("scout", 0, None, unit.number, unit.time)
        heard = Heard(unit.number, unit.time, way, scout, source_zid=zid_of(scout), exchange=exchange)
        before = self._scouts.pop(way.source, None)
        answered = before is not None and before.told and before.heard.way.target == way.target
        told = answered or identify.is_scouted(way.target)
        self._scouts[way.source] = _Scouted(heard, exchange, told)
        if len(self._scouts) > self._limits.links:
            self._scouts.popitem(last=False)
            self.forgotten += 1
        return [heard] if told else []

    def _hello(self, unit: Datagram, hello: Hello) -> list[Heard]:
        way = unit.way
        heard = Heard(unit.number, unit.time, way, hello, source_zid=zid_of(hello))
        scouted = self._scouts.get(way.target)
        if scouted is None or not _may_answer(unit, scouted):
            # Without a SCOUT only a locator speaks for it.
            return [heard] if hello.locators else []
        first = [] if scouted.told else [scouted.heard]
        scouted.told = True
        heard.target_zid = scouted.heard.source_zid
        heard.exchange = scouted.exchange
        scouted.exchange.answer(unit.number, unit.time, self._limits.answers)
        return [*first, heard]


def _may_answer(unit: Datagram, scouted: _Scouted) -> bool:
    """Tells whether a HELLO comes from where a SCOUT went to: of a group anybody may answer."""
    asked = scouted.heard.way.target
    return identify.is_group(asked) or asked.address == unit.way.source.address
