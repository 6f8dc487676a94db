"""SCOUT and HELLO. Spec: SCOUT; HELLO."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scapy_layers.lint.notes import Scene
from scapy_layers.lint.rule import ECLIPSE, Break, rule
from scapy_layers.scouted import is_group
from scapy_layers.scouting import Hello, Scout

_SHRINKS = 0.75
"""A gap this much shorter than the one before is no growing one."""

_CAP = 8_000_000_000
"""Nanoseconds from which on a gap need not grow."""

_LOCATOR = re.compile(r"[a-z0-9][a-z0-9+.-]*/[^?#]+(\?(?P<meta>[^#]*))?")
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+(%[\w.-]+)?\]|[^\[\]:/]+):\d{1,5}")
_BY_HOST = frozenset({"tcp", "udp", "tls", "quic", "ws"})


@rule("ZN-SCT-003", level="SHOULD", text="SCOUT travels to a multicast or broadcast destination", on=Scout)
def _destination(scene: Scene) -> Iterator[Break]:
    target = scene.heard.way.target
    if not is_group(target) and not target.address.endswith(".255"):
        yield Break(f"to {target.address}")


@rule("ZN-SCT-009", level="SHOULD", text="an unanswered SCOUT is repeated with growing gaps", on=Scout)
def _gaps(scene: Scene) -> Iterator[Break]:
    heard, scouting = scene.heard, scene.memory.scouting
    who = f"{heard.way.source} {heard.way.target} {bytes(heard.message.original).hex()}"
    before, gap = scouting.get(who, (heard.time, 0))
    now = heard.time - before
    if gap and now < _SHRINKS * min(gap, _CAP):
        yield Break(f"{now / 1e9:.1f} s after the last one, the gap before was {gap / 1e9:.1f} s")
    scouting[who] = heard.time, now


@rule("ZN-SCT-004", "ZN-HLO-017", level="MUST", text="only a node whose role is asked for answers", on=Hello)
def _role(scene: Scene) -> Iterator[Break]:
    scout = _scout_of(scene)
    if scout is not None and not scout.what >> scene.layer.whatami & 1:
        yield Break(f"role {scene.layer.whatami} answers a SCOUT for {scout.what:#x}")


@rule(
    "ZN-SCT-007",
    "ZN-HLO-002",
    level="MUST NOT",
    text="a SCOUT with the node's own ZenohID is not answered",
    on=Hello,
)
def _self(scene: Scene) -> Iterator[Break]:
    scout = _scout_of(scene)
    if scout is not None and scout.I and scout.zid == scene.layer.zid:
        yield Break("HELLO to a SCOUT with the same ZenohID", ECLIPSE)


def _scout_of(scene: Scene) -> Scout | None:
    exchange = scene.heard.exchange
    return None if exchange is None else scene.memory.scouts.get(exchange.asked)


def _locators(scene: Scene) -> Iterator[str]:
    for locator in scene.layer.fields.get("locators") or ():
        yield locator if isinstance(locator, str) else bytes(locator).decode("utf-8", "backslashreplace")


@rule("ZN-HLO-013", level="FACT", text="a locator reads proto/address?metadata", on=Hello)
def _grammar(scene: Scene) -> Iterator[Break]:
    for locator in _locators(scene):
        if not _LOCATOR.fullmatch(locator):
            yield Break(f"locator {locator!r}")


@rule("ZN-HLO-014", level="FACT", text="an address is IPv4, IPv6 in brackets, or a host name", on=Hello)
def _address(scene: Scene) -> Iterator[Break]:
    for locator in _locators(scene):
        proto, _, rest = locator.partition("/")
        if proto in _BY_HOST and not _HOST.fullmatch(rest.partition("?")[0]):
            yield Break(f"locator {locator!r}")


@rule("ZN-HLO-015", level="FACT", text="metadata is key=value pairs parted by ;", on=Hello)
def _metadata(scene: Scene) -> Iterator[Break]:
    for locator in _locators(scene):
        found = _LOCATOR.fullmatch(locator)
        meta = found["meta"] if found else None
        if meta and not all(re.fullmatch(r"[^=;&]+=[^;&]*", pair) for pair in meta.split(";")):
            yield Break(f"locator {locator!r}")
