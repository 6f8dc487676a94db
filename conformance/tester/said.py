"""Messages as a script has them, and checks of what it says about them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_type_hints

from conformance.config import Locator
from conformance.errors import UsageError
from conformance.session.negotiate import Offer
from conformance.tester.values import Live, ScriptError, build, read, read_simple, unhex, written
from scapy_layers.batch import contents
from scapy_layers.catalogue import decode
from scapy_layers.codes import Kind
from scapy_layers.errors import WireError
from scapy_layers.message import Message

MAX_ZID = 16

Fields = dict[str, Any]
"""Plain data, as ``values.written`` makes it."""


def no_live(name: str) -> Any:
    """Refuses live values, where no link runs.

    Raises:
        ScriptError: Always.
    """
    raise ScriptError(f"the live value {name!r} has no place here")


def stand_in(name: str) -> Any:
    """Gives something of the right type for a live value, to see whether a message can be built."""
    return b"\x01" if name in {"cookie", "zid", "node_zid"} else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A message: its bytes with a remark, or a layer with some fields; the others are computed.

    Attributes:
        hex: The bytes.
        comment: What they are, for people.
        layer: Name of the class; empty when the bytes stand.
        fields: Of the layer.
    """

    hex: str = ""
    comment: str = ""
    layer: str = ""
    fields: Fields = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.layer:
            if self.hex:
                raise ScriptError("a message is either hex or layer and fields, not both")
            build(self.layer, self.fields, stand_in, self.layer)
        else:
            unhex(self.hex, "hex")

    @classmethod
    def of(cls, message: Message | bytes, live: Mapping[str, str] | None = None) -> Said:
        """Writes a message down, as a layer if that gives the same bytes.

        Args:
            message: The message.
            live: Fields whose value only a running link knows, and the names of those values.
        """
        raw = bytes(message)
        if isinstance(message, Message):
            try:
                plain = written(message)
                assert isinstance(plain, dict)
                said = cls(layer=type(message).__name__, fields=plain["fields"])  # type: ignore[arg-type]
                if bytes(said.message(no_live)) == raw:
                    if live:
                        fields = {**said.fields, **{name: {"live": value} for name, value in live.items()}}
                        said = replace(said, fields=fields)
                    return said
            except (TypeError, ScriptError):
                pass  # bytes among the fields, or a class of its own: the bytes stand
            return cls(hex=raw.hex(), comment=message.describe())
        inside = "; ".join(one.describe() for one in contents(raw).messages)
        return cls(hex=raw.hex(), comment=inside)

    def message(self, live: Live) -> Message | bytes:
        """Returns what is to be sent.

        Raises:
            ScriptError: It cannot be built.
        """
        if not self.layer:
            return unhex(self.hex)
        made = build(self.layer, self.fields, live, self.layer)
        return made if isinstance(made, Message) else bytes(made)


def network_message(raw: bytes) -> Message:
    """Returns bytes as the network message that they are.

    Raises:
        ScriptError: They are none.
    """
    try:
        return decode(raw, Kind.NETWORK)
    except WireError as error:
        raise ScriptError(
            f"what a session numbers is a network message: {error}; send others as they are"
        ) from None


LIMITS: dict[str, tuple[float, float]] = {
    "fsn": (0, 3),
    "rid": (0, 3),
    "batch_size": (0, 0xFFFF),
    "patch": (0, 0xFF),
    "whatami": (0, 3),
    "lease": (0, 1 << 32),
    "initial_sn": (0, (1 << 64) - 1),
    "priority": (0, 7),
    "reason": (0, 0xFF),
    "length": (0, (1 << 32) - 1),
    "count": (0, 1 << 32),
    "within": (0, 3600),
    "seconds": (0, 3600),
}
"""Least and largest value of what a step says in numbers."""


def check_limits(values: Mapping[str, Any]) -> None:
    """Checks that numbers are within their limits; others than those with limits are passed over.

    Raises:
        ScriptError: They are not.
    """
    for name, value in values.items():
        least, most = LIMITS.get(name, (-math.inf, math.inf))
        if isinstance(value, int | float) and not least <= value <= most:
            raise ScriptError(f"{name} is a number from {least} to {most}, not {value}")


def check_locator(text: str, *, listening: bool = False) -> None:
    """Checks that a text is a locator; an empty one stands for the tester's node.

    Raises:
        ScriptError: It is none.
    """
    try:
        if text:
            Locator.parse(text, listening=listening)
    except UsageError as error:
        raise ScriptError(str(error)) from None


def check_zid(text: str) -> None:
    """Checks that a text is a ZenohID; an empty one stands for a fresh one.

    Raises:
        ScriptError: It is none.
    """
    if len(unhex(text, "zid")) > MAX_ZID:
        raise ScriptError(f"a ZenohID has at most {MAX_ZID} bytes")


def check_offer(offer: Fields) -> None:
    """Checks that there are such fields of an offer, with values that fit.

    Raises:
        ScriptError: There are not.
    """
    hints = get_type_hints(Offer)
    for name, value in offer.items():
        if name not in hints:
            raise ScriptError(f"an offer has no {name!r}; it has {', '.join(hints)}")
        read_simple(hints[name], value, f"offer.{name}")
    check_limits(offer)


def check_sent(cls: type[Message], fields: Fields) -> None:
    """Checks that a message can be built with some fields.

    Raises:
        ScriptError: It cannot.
    """
    build(cls.__name__, fields, stand_in, cls.__name__)


def check_fields(cls: type[Message], fields: Fields) -> None:
    """Checks that a message has some fields; ``key`` stands for the full key.

    Raises:
        ScriptError: It has not.
    """
    known = {one.name for one in cls.fields_desc}
    known |= {"key"} if {"key_scope", "M"} <= known else set()
    for name, value in fields.items():
        if name not in known:
            raise ScriptError(f"{cls.__name__} has no field {name!r}; it has {', '.join(sorted(known))}")
        read(value, stand_in, f"{cls.__name__}.{name}")
