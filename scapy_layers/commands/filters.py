"""Which messages of a capture a command shows: the options that pick some, shared by all commands."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from scapy_layers.commands.terminal import WrongUseError

if TYPE_CHECKING:
    from scapy_layers.conversation import Heard
    from scapy_layers.message import Layer
    from scapy_layers.stream import Gap, Way

NS = 1_000_000_000


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Adds the options; ``Filters.of`` reads them."""
    group = parser.add_argument_group(
        "filters", "Different options must all match; if one is repeated, any of its values may."
    )
    group.add_argument(
        "-m",
        "--message",
        action="append",
        default=[],
        metavar="NAME",
        help="name in the specification, in any case: put, INIT_SYN, d_token, frame ... "
        "A name finds the message that carries it: PUT finds PUSH and RESPONSE with a PUT",
    )
    group.add_argument(
        "-k",
        "--key",
        action="append",
        default=[],
        metavar="KEYEXPR",
        help="key expression that must intersect the full key: demo/**",
    )
    group.add_argument(
        "-z",
        "--zid",
        action="append",
        default=[],
        metavar="ZID",
        help="ZenohID of either end, or its first digits",
    )
    group.add_argument(
        "-l",
        "--link",
        action="append",
        default=[],
        metavar="LINK",
        help="address, port, or both, of either end: 192.0.2.1, 7447, 192.0.2.1:7447, [::1]:7447",
    )
    group.add_argument(
        "--after",
        metavar="TIME",
        help="seconds since the first packet, or an ISO 8601 time (UTC if it has no offset)",
    )
    group.add_argument("--before", metavar="TIME", help="same format as --after")
    group.add_argument("--remarks", action="store_true", help="only messages with remarks")


@dataclass(slots=True)
class Filters:
    """What ``add_filters`` was given.

    Attributes:
        start: Time of the first packet, ns: what relative times count from. To be set before the first question
            when there are such times; when it is not, the first message asked about starts the clock.
    """

    names: frozenset[str] = frozenset()
    keys: tuple[str, ...] = ()
    zids: tuple[str, ...] = ()
    ends: tuple[Callable[[Way], bool], ...] = ()
    after: Callable[[int], int] | None = None
    before: Callable[[int], int] | None = None
    remarks: bool = False
    start: int | None = None
    _known: dict[str, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Filters:
        """Returns what the options say.

        Raises:
            WrongUseError: One of them makes no sense.
        """
        return cls(
            names=frozenset(_name(name) for name in arguments.message),
            keys=tuple(_key(key) for key in arguments.key),
            zids=tuple(_zid(zid) for zid in arguments.zid),
            ends=tuple(_end(link) for link in arguments.link),
            after=_moment("--after", arguments.after),
            before=_moment("--before", arguments.before),
            remarks=arguments.remarks,
        )

    def matches(self, item: Heard | Gap) -> bool:
        """Tells whether a message is wanted.

        A gap has neither name nor key nor ZenohID, but something is wrong with it.
        """
        from scapy_layers.conversation import Heard

        if not self._at(item.time) or (self.ends and not any(end(item.way) for end in self.ends)):
            return False
        if not isinstance(item, Heard):
            return not (self.names or self.keys or self.zids)
        return (
            (not self.remarks or bool(item.remarks))
            and (not self.names or not self.names.isdisjoint(names_of(item)))
            and (not self.zids or self._has_zid(item))
            and (not self.keys or self._has_key(item))
        )

    def wants(self, name: str) -> bool:
        """Tells whether messages of this name were asked for."""
        return name in self.names

    def over(self, time: int) -> bool:
        """Tells whether nothing more can be wanted once a packet of this time was seen."""
        return self.before is not None and self.start is not None and time >= self.before(self.start)

    def _at(self, time: int) -> bool:
        if self.start is None:
            self.start = time
        return (self.after is None or time >= self.after(self.start)) and (
            self.before is None or time < self.before(self.start)
        )

    def _has_zid(self, heard: Heard) -> bool:
        return any(zid.startswith(self.zids) for zid in (heard.source_zid, heard.target_zid) if zid)

    def _has_key(self, heard: Heard) -> bool:
        key = key_of(heard)
        if key is None:
            return False
        if key not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = any(_meet(pattern, key) for pattern in self.keys)
        return self._known[key]


_MOST_KNOWN = 1024
"""Keys whose answer is remembered."""


def key_of(heard: Heard) -> str | None:
    """Returns the full key of a message, or of what it belongs to: a RESPONSE_FINAL has none of its own."""
    if not heard.keyexpr and heard.exchange is not None:
        return heard.exchange.keyexpr
    return heard.keyexpr


def names_of(heard: Heard) -> set[str]:
    """Returns all names that a message can be asked for by: its own, and those of the bodies inside."""
    from scapy_layers.message import Message

    names: set[str] = set()
    layer: Layer | None = heard.message
    while layer is not None:
        name = str(layer.name)
        names.add(name)
        if name in SYN_AND_ACK:
            names.add(full_name(layer))
        body = layer.fields.get("body")
        layer = body if isinstance(body, Message) else None
    return names


SYN_AND_ACK = frozenset({"INIT", "OPEN"})


def full_name(layer: Layer) -> str:
    """Returns the name of a message, with SYN or ACK where the flag A makes two of one."""
    name = str(layer.name)
    return f"{name}_{'ACK' if layer.fields.get('A') else 'SYN'}" if name in SYN_AND_ACK else name


# What users write ----------------------------------------------------------------------------------


def _name(text: str) -> str:
    from scapy_layers.catalogue import MESSAGES

    known = {cls.shape().name for cls in MESSAGES} | {"UNREAD"}
    known |= {f"{name}_{end}" for name in SYN_AND_ACK for end in ("SYN", "ACK")}
    plain = {re.sub(r"\W|_", "", name).lower(): name for name in known}
    found = plain.get(re.sub(r"\W|_", "", text).lower())
    if found is None:
        raise WrongUseError(f"no message is named {text!r}; `zenoh-dissect messages` lists all")
    return found


def _key(text: str) -> str:
    from scapy_layers.errors import BadValue
    from scapy_layers.keyexpr import canonical

    try:
        return canonical(text)
    except BadValue as error:
        raise WrongUseError(f"--key {text!r} is not a key expression: {error.found}") from None


def _zid(text: str) -> str:
    plain = text.lower()
    if not re.fullmatch("[0-9a-f]{1,32}", plain):
        raise WrongUseError(f"--zid {text!r} is not 1 to 32 hexadecimal digits")
    return plain


def _end(text: str) -> Callable[[Way], bool]:
    """Returns what tells whether a link has an end like this."""
    bracketed = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?", text)
    plain = re.fullmatch(r"([^:]*[^:\d][^:]*|):(\d+)", text)
    if bracketed or plain:
        found = bracketed or plain
        assert found
        address, port = found[1], found[2]
    elif text.isdecimal():
        address, port = "", text
    else:
        address, port = text, None
    if port is not None and not 0 < int(port) <= 0xFFFF:
        raise WrongUseError(f"--link {text!r}: {port} is not a port")
    if address or port is None:
        address = _address(address, text)

    def has(way: Way) -> bool:
        return any(
            (not address or end.address == address) and (port is None or end.port == int(port))
            for end in (way.source, way.target)
        )

    return has


def _address(text: str, given: str) -> str:
    from ipaddress import ip_address

    try:
        return str(ip_address(text))
    except ValueError:
        raise WrongUseError(f"--link {given!r} is not an address, port, or address:port") from None


def _moment(option: str, text: str | None) -> Callable[[int], int] | None:
    """Returns what makes a time of the time of the first packet, both in ns."""
    if text is None:
        return None
    try:
        seconds = float(text)
        if not abs(seconds) < 1 << 40:
            raise WrongUseError(f"{option} {text!r} is not a number of seconds")
        offset = round(seconds * NS)
    except ValueError:
        stamp = _stamp(option, text)
        return lambda _start: stamp
    return lambda start: start + offset


def _stamp(option: str, text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise WrongUseError(f"{option} {text!r} is neither seconds nor an ISO 8601 time") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    past = moment - datetime.fromtimestamp(0, UTC)
    return (past.days * 86_400 + past.seconds) * NS + past.microseconds * 1000


def _meet(pattern: str, key: str) -> bool:
    from scapy_layers.errors import BadValue
    from scapy_layers.keyexpr import intersects

    try:
        return intersects(pattern, key)
    except BadValue:
        # What is no key expression meets nothing.
        return False
