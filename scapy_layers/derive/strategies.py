"""Hypothesis strategies read from the shapes: valid messages, and bytes with exactly one lie in them.

``messages`` and ``batches`` make layers that strict decoding accepts and whose values are within their
nominal ranges. ``lies`` takes such a message and changes one thing; what comes out may be refused or not,
but it must never hurt. Everything shrinks towards the shortest message with all flags clear.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntFlag
from functools import cache
from typing import Any, TypeVar, assert_never
from unittest.mock import patch

from hypothesis import HealthCheck, Phase, settings
from hypothesis import given as hypothesis_given
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st
from hypothesis.internal.conjecture.providers import HypothesisProvider
from hypothesis.strategies import DrawFn, SearchStrategy

from scapy_layers import shape
from scapy_layers.batch import Batch
from scapy_layers.catalogue import build, shapes
from scapy_layers.codes import Enc, Kind
from scapy_layers.message import Extension, Layer, Message, UnknownExtension
from scapy_layers.primitives import VLE_BYTES, VLE_MAX, Counted, CountedList, WideInt, vle_size

Given = Mapping[str, SearchStrategy[Any]]
"""Strategies that replace the derived one of every field of that name, in nested layers too."""

_FEW = 3
"""Most items of a list, unless it has a fixed length: more show nothing new and only slow things down."""

_SHORT = 24
"""Most bytes or characters of a value: enough to need all forms of what stands around it."""

T = TypeVar("T")


def drawn(strategy: SearchStrategy[T], count: int, number: int) -> list[T]:
    """Returns at most so many examples, the simplest one among them; ``number`` is the seed.

    Where there are no more, there are fewer.
    """
    found: list[T] = []

    @hypothesis_seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis_given(strategy)
    def collect(example: T) -> None:
        found.append(example)

    run: Callable[[], None] = collect
    # Now and then Hypothesis draws a number that stands in a module which is loaded: the same seed would give other
    # examples as soon as any is changed, or imported besides.
    with patch.object(HypothesisProvider, "_maybe_draw_constant", lambda *_, **__: None):
        run()
    return found


# Valid ----------------------------------------------------------------------------------------------


def messages(
    kind: Kind | None = None, number: int | None = None, *, unknown: bool = True, given: Given | None = None
) -> SearchStrategy[Message]:
    """Valid messages, with everything inside them.

    Args:
        kind: Layer of the message; None for any.
        number: Its id; None for any of the layer.
        unknown: Put optional extensions that nobody knows into the chains as well.
        given: What some fields shall be, ``{"key_suffix": st.just("demo/a")}``.

    Raises:
        ValueError: There is no such message.
    """
    return _messages(kind, number, unknown, given) if given else _plain(kind, number, unknown)


@cache
def _plain(kind: Kind | None, number: int | None, unknown: bool) -> SearchStrategy[Message]:
    return _messages(kind, number, unknown, {})


def _messages(kind: Kind | None, number: int | None, unknown: bool, given: Given) -> SearchStrategy[Message]:
    wanted = [
        described
        for described in shapes().values()
        if (kind is None or described.kind == kind) and (number is None or described.id == number)
    ]
    if not wanted:
        raise ValueError(f"no message has the id {number} in the layer {kind}")
    made = {described: _message(described, unknown, given) for described in wanted}
    return st.sampled_from(wanted).flatmap(made.__getitem__)


@st.composite
def batches(draw: DrawFn, *, unknown: bool = True, given: Given | None = None) -> Batch:
    """Valid batches: transport messages one behind the other, one that fills the batch only at the end."""
    last = st.lists(messages(Kind.TRANSPORT, unknown=unknown, given=given), min_size=1, max_size=_FEW)
    drawn = draw(last)
    return Batch(messages=[m for m in drawn[:-1] if not _fills_batch(m.shape())] + drawn[-1:])


def _fills_batch(described: shape.Message) -> bool:
    return isinstance(described.fields[-1], shape.Rest)


@st.composite
def _message(draw: DrawFn, described: shape.Message, unknown: bool, given: Given) -> Any:
    return build(described, _draw_all(draw, described.fields, unknown, given))


def _draw_all(
    draw: DrawFn, described: tuple[shape.Shape, ...], unknown: bool, given: Given
) -> dict[str, Any]:
    """Draws the values of some fields; what is computed is left out, the flags of what may be absent not."""
    values: dict[str, Any] = {}
    for one in described:
        _draw_values(draw, one, values, unknown, given)
    return {name: draw(given[name]) if name in given else value for name, value in values.items()}


def _draw_values(  # noqa: C901, PLR0912  (one match over all kinds of shape)
    draw: DrawFn, described: shape.Shape, values: dict[str, Any], unknown: bool, given: Given
) -> None:
    """Draws the values of one shape into ``values``."""
    match described:
        case shape.Packed():
            for bits in described.bits:
                # Z is left to be computed: it follows from the chain, which may turn out empty.
                if not (bits.reserved or bits.counts or bits.name in {"Z", "mid"}):
                    limit = (1 << bits.size) - 1
                    values[bits.name] = draw(_numbers(limit, bits.names, bits.allowed))
        case shape.U8():
            # A byte that has neither names nor limits is a constant of the protocol: its version.
            constant = described.names is None and described.allowed is None
            numbers = _numbers(0xFF, described.names, described.allowed)
            values[described.name] = described.default if constant else draw(numbers)
        case shape.Le():
            limit = 1 << 8 * described.size - described.signed
            values[described.name] = draw(_integers(-limit if described.signed else 0, limit - 1))
        case shape.Vle():
            limit = (1 << described.z) - 1
            values[described.name] = draw(_numbers(limit, described.names, described.allowed))
        case shape.Zid():
            values[described.name] = draw(_ZIDS)
        case shape.CountedBytes():
            texts = _LOCATORS if described.locator else _TEXTS
            values[described.name] = draw(texts if described.text else _BYTES)
        case shape.Rest():
            values[described.name] = draw(_TEXTS if described.text else _BYTES)
        case shape.When():
            if _present(described.conditions, values):
                for inner in described.fields:
                    _draw_values(draw, inner, values, unknown, given)
        case shape.Many():
            least, most = _times(described, values)
            items = [
                _draw_all(draw, described.item, unknown, given) for _ in range(draw(_integers(least, most)))
            ]
            single = len(described.item) == 1
            values[described.name] = [next(iter(item.values())) for item in items] if single else items
        case shape.Region():
            values[described.name] = build(described, _draw_all(draw, described.fields, unknown, given))
        case shape.Chain():
            values[described.name] = _draw_chain(draw, described, values, unknown, given)
        case shape.Body():
            number = draw(_one_of(described.ids))
            values[described.name] = draw(messages(described.kind, number, unknown=unknown, given=given))
        case shape.Messages():
            one = _one_of(described.ids).flatmap(
                lambda number: messages(described.kind, number, unknown=unknown, given=given)
            )
            values[described.name] = draw(st.lists(one, max_size=_FEW))
        case _:
            assert_never(described)


def _present(conditions: shape.Conditions, values: dict[str, Any]) -> bool:
    """Tells whether what was drawn so far asks for a field; what is computed follows from the field."""
    for need in conditions:
        if isinstance(need, shape.Carries):
            if not need.holds([one.header for one in values.get(need.field, ())]):
                return False
        elif need.field in values and not need.holds(values[need.field]):
            return False
    return True


def _times(described: shape.Many, values: dict[str, Any]) -> tuple[int, int]:
    """Returns how many items a list has, at least and at most."""
    match described.times:
        case None:
            return 0, _FEW
        case int():
            return described.times, described.times
        case _:
            size = len(values[described.times])
            return size, size


def _draw_chain(
    draw: DrawFn, described: shape.Chain, values: dict[str, Any], unknown: bool, given: Given
) -> list[Any]:
    possible = tuple(
        one
        for one in described.known
        if _present(tuple(n for n in one.conditions if isinstance(n, shape.Condition)), values)
    )
    # No two of one id: real nodes see two forms of one extension as a contradiction.
    known = draw(_some_of(possible)) if possible else []
    chain: list[Any] = []
    for one in known:
        # Some extensions are there only behind another one.
        if _present(one.conditions, {**values, described.name: chain}):
            chain.append(build(one, _draw_all(draw, one.fields, unknown, given)))
    if unknown:
        chain += draw(_perhaps_unknown(tuple(one.header for one in described.known)))
    return chain


# Hypothesis looks at each strategy before it draws from it for the first time, which takes longer than to draw.


_integers = cache(st.integers)


@cache
def _one_of(values: tuple[T, ...]) -> SearchStrategy[T]:
    return st.sampled_from(values)


@cache
def _some_of(known: tuple[shape.Extension, ...]) -> SearchStrategy[list[shape.Extension]]:
    return st.lists(st.sampled_from(known), max_size=_FEW, unique_by=lambda one: one.id)


@cache
def _perhaps_unknown(taken: tuple[int, ...]) -> SearchStrategy[list[UnknownExtension]]:
    return st.lists(_unknown_extensions(taken, mandatory=False), max_size=1)


@st.composite
def _unknown_extensions(draw: DrawFn, taken: tuple[int, ...], mandatory: bool) -> UnknownExtension:
    """Extensions whose header byte is none of ``taken``."""
    free = tuple(byte for byte in range(0x60) if bool(byte & 0x10) == mandatory and byte not in taken)
    header = draw(_one_of(free))
    values: dict[str, Any] = {"ENC": header >> 5, "M": int(mandatory), "ext_id": header & 0x0F}
    match header >> 5:
        case Enc.Z64:
            values["z64"] = draw(_integers(0, VLE_MAX))
        case Enc.ZBUF:
            values["data"] = draw(_BYTES)
    return UnknownExtension(**values)


@cache
def _numbers(limit: int, names: shape.Names | None, allowed: tuple[int, ...] | None) -> SearchStrategy[int]:
    """Numbers up to a limit; of an enumeration mostly those that have a name."""
    if allowed is not None:
        return st.sampled_from(allowed)
    if names is None or issubclass(names, IntFlag):
        return st.integers(0, limit)
    named = st.sampled_from([int(value) for value in names])
    # Where only one value has a name (OAM), it is one of many that nodes use.
    return named | st.integers(0, limit) if len(names) == 1 else named


def _zid(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "little")


_ZIDS = st.integers(1, (1 << 128) - 1).map(_zid)
_BYTES = st.binary(max_size=_SHORT)
_TEXTS = st.text(st.characters(codec="utf-8"), max_size=_SHORT)
_LOCATORS = st.builds(
    "{}/{}".format,
    st.sampled_from(["tcp", "udp", "tls", "quic", "ws", "serial", "unixsock-stream"]),
    st.text(st.characters(codec="utf-8", exclude_characters="#"), max_size=_SHORT),
)

# Nearly valid -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lie:
    """Bytes of a valid message with one thing changed.

    Attributes:
        what: What was changed, and where.
        raw: The bytes.
    """

    what: str
    raw: bytes


def nearly_valid(
    kind: Kind | None = None, number: int | None = None, *, given: Given | None = None
) -> SearchStrategy[bytes]:
    """Bytes of a message that is right but for one thing; arguments as in ``messages``."""
    return lies(kind, number, given=given).map(lambda lie: lie.raw)


def lies(
    kind: Kind | None = None, number: int | None = None, *, given: Given | None = None
) -> SearchStrategy[Lie]:
    """Like ``nearly_valid``, and says what is wrong; arguments as in ``messages``."""
    return messages(kind, number, given=given).flatmap(_one_lie)


def examples(
    kind: Kind, count: int, number: int, given: Mapping[str, Sequence[Any]] | None = None
) -> list[Lie]:
    """Returns messages of one layer for readers without Hypothesis: each is drawn once right and once with a lie.

    Args:
        kind: Layer.
        count: How many at most; half of them are right, and say nothing in ``what``.
        number: The seed: the same gives the same, as long as Hypothesis is the same.
        given: Values that some fields shall have, so that messages speak of the same things.
    """
    choices = {name: st.sampled_from(list(values)) for name, values in (given or {}).items()}
    right = messages(kind, given=choices).map(lambda message: Lie("", bytes(message)))
    return [
        one
        for drawn_of in (right, lies(kind, given=choices))
        for one in drawn(drawn_of, (count + 1) // 2, number)
    ]


@st.composite
def _one_lie(draw: DrawFn, message: Message) -> Lie:
    told = draw(st.sampled_from(["cut", "stray", "field", "field"]))
    raw = bytes(message)
    if told == "cut":
        size = draw(st.integers(0, len(raw) - 1))
        return Lie(f"cut to {size} of {len(raw)} bytes", raw[:size])
    if told == "stray":
        at, stray = draw(st.integers(0, len(raw))), draw(st.binary(min_size=1, max_size=4))
        return Lie(f"{stray.hex()} put in at byte {at}", raw[:at] + stray + raw[at:])
    layer, described = draw(st.sampled_from(_places(message)))
    what, tell = draw(st.sampled_from(_lies_about(layer, described)))
    tell(draw)
    return Lie(f"{layer.name}: {what}", bytes(message))


def _places(layer: Layer) -> list[tuple[Layer, shape.Shape]]:
    """Lists every field that is present, in this layer and those inside, that something can be wrong about."""
    places: list[tuple[Layer, shape.Shape]] = []
    pending = list(layer.wire_shapes())
    while pending:
        described = pending.pop(0)
        if isinstance(described, shape.When):
            if layer.present(described.conditions):
                pending = [*described.fields, *pending]
            continue
        if _lies_about(layer, described):
            places.append((layer, described))
        if isinstance(described, shape.Chain | shape.Messages):
            for inner in layer.getfieldval(described.name):
                places += _places(inner)
        elif isinstance(described, shape.Body | shape.Region):
            places += _places(layer.getfieldval(described.name))
    return places


Told = tuple[str, Callable[[DrawFn], None]]
"""What a lie is called, and what tells it."""


def _lies_about(  # noqa: C901, PLR0912, PLR0915  (one match over all kinds of shape)
    layer: Layer, described: shape.Shape
) -> list[Told]:
    """Lists what can be wrong about a field, simplest first; each sets the field of the layer."""
    told: list[Told] = []

    def lie(name: str, what: str, values: SearchStrategy[Any]) -> None:
        told.append((f"{what} {name}", lambda draw: layer.setfieldval(name, draw(values))))

    match described:
        case shape.Packed():
            for bits in described.bits:
                limit = (1 << bits.size) - 1
                now = layer.value(bits.name)
                if bits.reserved:
                    lie(bits.name, "bits set in", st.integers(1, limit))
                elif bits.allowed is not None and len(bits.allowed) <= limit:
                    wrong = [value for value in range(limit + 1) if value not in bits.allowed]
                    lie(bits.name, "out of range", st.sampled_from(wrong))
                elif bits.default is None and not (bits.name == "Z" and isinstance(layer, Extension)):
                    # A flag without its field, a field without its flag, a length nibble that is off.
                    lie(bits.name, "wrong", _other_than(now, limit))
            if described.vle:
                last = described.bits[-1].name
                carrier = sum(layer.value(b.name) << b.shift for b in described.bits)
                lie(last, "over-long", _wide(layer.value(last), vle_size(carrier)))
        case shape.U8():
            if described.allowed is not None:
                wrong = [value for value in range(256) if value not in described.allowed]
                lie(described.name, "out of range", st.sampled_from(wrong))
            elif described.names is None:
                lie(described.name, "unknown", _other_than(described.default, 0xFF))
        case shape.Le():
            pass
        case shape.Vle():
            now = layer.value(described.name)
            if now is None:
                # The length of an extension: the only number that is computed.
                lie(described.name, "wrong", st.integers(0, 2 * _SHORT))
            elif vle_size(now) < VLE_BYTES:
                lie(described.name, "over-long", _wide(now, vle_size(now)))
            if described.allowed is not None:
                lie(described.name, "out of range", st.integers(max(described.allowed) + 1, VLE_MAX))
            elif described.z < 64:
                lie(described.name, "too large", st.integers(1 << described.z, VLE_MAX))
        case shape.Zid():
            now = layer.value(described.name)
            lie(described.name, "zero", st.just(bytes(len(now))))
            lie(described.name, "of the wrong size", st.sampled_from([b"", b"\x01" * 17]))
            if described.length is None:
                _lie_about_count(lie, described.name, now)
        case shape.CountedBytes():
            now = layer.value(described.name)
            _lie_about_count(lie, described.name, now)
            if described.text:
                lie(described.name, "no UTF-8 in", st.just(now + b"\xff"))
        case shape.Rest():
            if described.text:
                lie(described.name, "no UTF-8 in", st.just(layer.value(described.name) + b"\xff"))
        case shape.When():
            raise AssertionError("a place is what stands inside the condition")
        case shape.Many():
            items = layer.value(described.name)
            if described.times is None:
                said = _other_than(len(items), VLE_MAX)
                lie(described.name, "wrong count of", said.map(lambda said: CountedList(items, said)))
            elif items:
                lie(described.name, "too few", st.integers(0, len(items) - 1).map(lambda n: items[:n]))
        case shape.Chain():
            chain = layer.value(described.name)
            taken = tuple(known.header for known in described.known)
            unknown = _unknown_extensions(taken, mandatory=True)
            lie(described.name, "mandatory unknown among", unknown.map(lambda one: [*chain, one]))
            reserved = st.integers(0, 15).map(lambda n: UnknownExtension(ENC=Enc.RESERVED, ext_id=n))
            lie(described.name, "reserved encoding among", reserved.map(lambda one: [one, *chain]))
            if chain:
                # The Z of an extension follows from its place, so only here it is known which one is wrong.
                told.append((f"wrong Z among {described.name}", lambda draw: _wrong_z(draw, chain)))
        case shape.Body():
            other = st.integers(0, 31).filter(lambda number: number not in described.ids)
            lie(described.name, "unknown id of", other.map(lambda number: bytes([number])))
            lie(described.name, "missing", st.just(b""))
        case shape.Region() | shape.Messages():
            pass
        case _:
            assert_never(described)
    return told


def _wrong_z(draw: DrawFn, chain: list[Layer]) -> None:
    """Ends a chain too early, or not at its end."""
    place = draw(st.integers(0, len(chain) - 1))
    chain[place].setfieldval("Z", int(place == len(chain) - 1))


def _other_than(value: int, limit: int) -> SearchStrategy[int]:
    return st.integers(0, limit).filter(lambda other: other != value)


def _wide(value: int, least: int) -> SearchStrategy[WideInt]:
    """The same number in more bytes than it needs, where that is possible."""
    return st.integers(min(least + 1, VLE_BYTES), VLE_BYTES).map(lambda width: WideInt(value, width))


def _lie_about_count(lie: Callable[[str, str, SearchStrategy[Any]], None], name: str, now: bytes) -> None:
    size = len(now)
    said = st.sampled_from([size + 1, max(size - 1, 0)]) | _other_than(size, VLE_MAX)
    lie(name, "wrong count of", said.map(lambda said: Counted(now, said)))
    wide = _wide(size, vle_size(size))
    lie(name, "over-long count of", wide.map(lambda count: Counted(now, None, count.width)))
