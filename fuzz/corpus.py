"""Real messages to begin from: out of captures of real nodes, out of what earlier cases brought to light.

Every seed is bytes in which what belongs to a session (sequence numbers, ZenohID, cookie, ids of requests of the node)
is replaced by stand-ins, so that it makes sense in a session of ours. No two seeds have the same shape.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.errors import UsageError
from fuzz.anatomy import Anatomy, Piece, anatomy
from fuzz.lying import MARKS as LIVE
from fuzz.player.sessions import ALIAS
from fuzz.script import PREFIXES, Do, Step, Template
from scapy_layers import capture, stream
from scapy_layers.catalogue import shapes
from scapy_layers.codes import Kind, TransportId
from scapy_layers.conversation import Conversations, is_batch
from scapy_layers.message import Message, kind_of
from scapy_layers.primitives import write_vle
from scapy_layers.transport import Frame

if TYPE_CHECKING:
    from fuzz.cases import Case
    from fuzz.player import Played

PCAPS = Path(__file__).parents[1] / "pcaps"
"""Captures of real nodes; a checkout has them, an installed package has not."""

LONGEST = 1500
"""Bytes of a seed at most."""

MOST_SEEDS = 2000
"""Learned seeds that are kept; the oldest are forgotten for new ones."""

MOST_BYTES = 1 << 20
"""What they may take together."""

FORMAT = 1
"""Version of the files of a corpus."""

MARKS: dict[str, bytes] = {"rid": b"\xf8\xe7\x5b", **LIVE}
"""Stand-ins for live values in seeds; each could stand where it does."""


class CorpusError(UsageError):
    """A corpus that cannot be read; the message names the file and says why."""


class Family(StrEnum):
    """Where a seed may be sent: what it begins with decides."""

    INIT = "init"
    OPEN = "open"
    SESSION = "session"
    NETWORK = "network"
    JOIN = "join"
    SCOUTING = "scouting"


@dataclass(frozen=True)
class Seed:
    """Bytes to begin from.

    Attributes:
        raw: A batch or datagram without a length in front, with stand-ins (``MARKS``).
        family: Where it may be sent.
        origin: Which capture and packet it came from, or which case.
    """

    raw: bytes
    family: Family
    origin: str

    @cached_property
    def anatomy(self) -> Anatomy:
        """It in pieces."""
        return anatomy(self.raw, Kind.SCOUTING if self.family is Family.SCOUTING else None)

    @property
    def name(self) -> str:
        """Kind of message; see ``Anatomy.name``."""
        return self.anatomy.name

    @property
    def template(self) -> Template:
        """What leaves, without the length in front."""
        return Template.of(*places(self.raw))

    def to_json(self) -> dict[str, Any]:
        """Returns it as plain values."""
        return {
            "format": FORMAT,
            "family": str(self.family),
            "data": str(self.template),
            "origin": self.origin,
        }

    @classmethod
    def from_json(cls, value: Any) -> Seed:
        """Reads what ``to_json`` gave.

        Raises:
            CorpusError: It is no seed.
        """
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise CorpusError(f"no seed of format {FORMAT}")
        try:
            raw = marked(Template.parse(str(value["data"])))
            family = Family(value["family"])
        except KeyError as error:
            raise CorpusError(f"{error} is missing") from None
        except ValueError as error:
            raise CorpusError(str(error)) from None
        if not 0 < len(raw) <= LONGEST:
            raise CorpusError(f"a seed of {len(raw)} bytes, must be 1 to {LONGEST}")
        return cls(raw, family, str(value.get("origin", "")))


_MARK = re.compile(b"(" + b"|".join(map(re.escape, MARKS.values())) + b")")
_NAMES = {mark: name for name, mark in MARKS.items()}


def places(raw: bytes) -> list[bytes | str]:
    """Returns bytes and the names of the live values between them; a stand-in that was changed is only bytes."""
    return [_NAMES.get(piece, piece) if index % 2 else piece for index, piece in enumerate(_MARK.split(raw))]


def marked(template: Template) -> bytes:
    """Returns what a template says, with stand-ins for live values and without a length in front.

    Raises:
        CorpusError: It needs a value that has no stand-in.
    """
    parts = []
    for piece in template.pieces:
        if isinstance(piece, bytes):
            parts.append(piece)
            continue
        name = piece.partition("|")[0]
        if name in PREFIXES:
            continue
        if name not in MARKS:
            raise CorpusError(f"the value {name!r} has no stand-in")
        parts.append(MARKS[name])
    return b"".join(parts)


# Captures --------------------------------------------------------------------------------------------


def family_of(raw: bytes, *, scouting: bool = False) -> Family | None:
    """Returns where bytes may be sent; None when their first message can travel nowhere."""
    if not raw:
        return None
    if scouting:
        return Family.SCOUTING
    number = raw[0] & 0x1F
    if kind_of(number) is Kind.NETWORK:
        return Family.NETWORK
    return _FAMILIES.get(TransportId(number)) if number in set(TransportId) else None


_FAMILIES = {
    TransportId.INIT: Family.INIT,
    TransportId.OPEN: Family.OPEN,
    TransportId.JOIN: Family.JOIN,
    TransportId.FRAME: Family.SESSION,
    TransportId.FRAGMENT: Family.SESSION,
    TransportId.KEEP_ALIVE: Family.SESSION,
    TransportId.CLOSE: Family.SESSION,
    TransportId.OAM: Family.SESSION,
}


def seed_of(raw: bytes, origin: str, *, scouting: bool = False) -> Seed | None:
    """Returns bytes that travelled as a seed; None when they are of no use as one."""
    found = _seed_and_shape(raw, origin, scouting=scouting)
    return found[0] if found is not None else None


def _seed_and_shape(raw: bytes, origin: str, *, scouting: bool) -> tuple[Seed, str] | None:
    """Returns a seed, and the shape of its bytes."""
    family = family_of(raw, scouting=scouting)
    if family is None or len(raw) > LONGEST:
        return None
    cut = anatomy(raw, Kind.SCOUTING if scouting else None)
    if not cut.whole:
        return None
    return Seed(b"".join(_livened(cut.pieces)), family, origin), cut.shape


def _livened(pieces: Iterable[Piece]) -> Iterator[bytes]:  # noqa: C901  (one match over all places)
    """Yields the bytes of pieces, stand-ins where a value belongs to a session."""
    reliable = True
    for piece in pieces:
        raw = piece.raw
        match piece.path:
            case "FRAME.Z" | "FRAGMENT.Z":
                reliable = bool(raw[0] & 0x20)
            case "FRAME.sn" | "FRAGMENT.sn":
                raw = MARKS["sn" if reliable else "sn_be"]
            case "INIT.zid_len" | "JOIN.zid_len":
                # Ours have all bytes that there can be.
                raw = bytes([raw[0] & 0x0F | 0xF0])
            case "INIT.zid" | "JOIN.zid":
                raw = MARKS["zid"]
            case "OPEN.cookie.length":
                # The stand-in is counted.
                raw = b""
            case "OPEN.cookie":
                raw = MARKS["cookie"]
            case "D_KEYEXPR.key_id":
                raw = write_vle(ALIAS)
            case path if path.endswith(".key_scope") and raw != b"\x00":
                # The alias of that session is not known in ours.
                raw = write_vle(ALIAS)
            case "RESPONSE.request_id" | "RESPONSE_FINAL.request_id":
                raw = MARKS["rid"]
            case _:
                pass
        yield raw


def captured(path: Path) -> Iterator[tuple[bytes, int, bool]]:
    """Yields what a capture holds: batches without their compression, and datagrams of scouting.

    Yields:
        The bytes, the number of the packet, and whether they are scouting.

    Raises:
        CorpusError: The file cannot be read.
    """
    conversations = Conversations()
    try:
        for unit in stream.units(capture.read(path), plausible=is_batch):
            batch, number = b"", 0
            for heard in conversations.hear(unit):
                message, raw = heard.message, bytes(heard.message.original)
                if isinstance(message, Message) and message.kind is Kind.SCOUTING:
                    yield raw, heard.number, True
                elif heard.within is None and isinstance(message, Message):
                    batch, number = batch + raw, heard.number
            if batch:
                yield batch, number, False
    except (capture.CaptureError, OSError) as error:
        raise CorpusError(f"{path}: {error}") from None


@cache
def known_seeds(folder: Path) -> tuple[Seed, ...]:
    """Returns the seeds of all captures in a folder, of each shape the shortest; nothing when there are none.

    Raises:
        CorpusError: A capture cannot be read.
    """
    found: dict[tuple[Family, str], Seed] = {}
    seen: set[bytes] = set()
    for path in sorted(folder.glob("*.pcapng")):
        for raw, number, scouting in captured(path):
            if raw in seen:
                continue
            seen.add(raw)
            made = _seed_and_shape(raw, f"{path.name}, packet {number}", scouting=scouting)
            if made is not None:
                seed, shape = made
                key = seed.family, shape
                if key not in found or len(seed.raw) < len(found[key].raw):
                    found[key] = seed
    return tuple(found.values())


@cache
def made_seeds() -> tuple[Seed, ...]:
    """Returns seeds made from the description of the messages: what there is without captures."""
    from scapy_layers.derive.strategies import drawn, messages

    found: dict[tuple[Family, str], Seed] = {}
    for described in shapes().values():
        if described.kind not in {Kind.SCOUTING, Kind.TRANSPORT, Kind.NETWORK}:
            continue
        for number, message in enumerate(drawn(messages(described.kind, described.id), MADE, 1)):
            raw, scouting = bytes(message), described.kind is Kind.SCOUTING
            framed = bytes(Frame(R=1, sn=0))[:2] + raw
            for one in [raw, framed] if described.kind is Kind.NETWORK else [raw]:
                seed = seed_of(one, f"made, {described.name} {number}", scouting=scouting)
                if seed is not None:
                    found.setdefault((seed.family, seed.anatomy.shape), seed)
    return tuple(found.values())


MADE = 6
"""Messages of each kind that are made when there are no captures."""


# Corpus ----------------------------------------------------------------------------------------------


class Corpus:
    """Seeds, those that were known and those that were learned.

    Args:
        folder: Where learned seeds are kept from run to run, each in a file of its own; None for nowhere.
        captures: Folder of captures.

    Attributes:
        known: What it began with.
        notice: What people should know about that; empty when there is nothing to say.
        learned: How many were learned since it was made.

    Raises:
        CorpusError: A file of the folder cannot be read.
    """

    def __init__(self, folder: Path | None = None, captures: Path = PCAPS) -> None:
        self._folder = folder
        self.known = known_seeds(captures)
        self.notice = ""
        if not self.known:
            self.notice = f"no captures of real nodes in {captures}: seeds are generated from the protocol description instead"
            self.known = made_seeds()
        self.learned = 0
        self._shapes: set[str] = set()
        self._fresh: deque[tuple[Seed, str]] = deque()
        self._size = 0
        self._by_family: dict[Family, list[Seed]] = defaultdict(list)
        self._by_name: dict[tuple[Family, str], list[Seed]] = defaultdict(list)
        for seed in self.known:
            self._add(seed)
        for seed in self._kept():
            self._take(seed, seed.anatomy.shape)

    def of(self, family: Family, name: str = "") -> list[Seed]:
        """Returns the seeds of a family, or those of one kind of message; it grows."""
        return self._by_name[family, name] if name else self._by_family[family]

    def names(self, family: Family) -> list[str]:
        """Returns the kinds of messages that a family has now."""
        return sorted({seed.name for seed in self._by_family[family]})

    def __len__(self) -> int:
        return sum(map(len, self._by_family.values()))

    def learn(self, case: Case, played: Played) -> list[Seed]:
        """Takes in a case that was answered in a new way, and the answers; returns what is new of them."""
        found = []
        if played.ending in LASTING:
            words = f"{case.message}, {case.field or 'no field'}: {case.mutation}"[:LONGEST_WORDS]
            for step in case.steps:
                if step.do is Do.SEND and (seed := self._of_step(step, f"case: {words}")) is not None:
                    found += self._learned(seed, f"{seed.anatomy.shape} -> {played.shape}")
            for answer in played.answers:
                answered = seed_of(answer.batch, f"answer to: {words}", scouting=_is_scouted(answer.names))
                if answered is not None:
                    found += self._learned(answered, answered.anatomy.shape)
        return found

    @staticmethod
    def _of_step(step: Step, origin: str) -> Seed | None:
        try:
            raw = marked(step.data)
        except CorpusError:
            # A value that only that case has.
            return None
        family = family_of(raw)
        return Seed(raw, family, origin) if family is not None and len(raw) <= LONGEST else None

    def _learned(self, seed: Seed, shape: str) -> list[Seed]:
        if not self._take(seed, shape):
            return []
        self.learned += 1
        if self._folder is not None:
            _write(self._folder / _file_of(seed), json.dumps(seed.to_json(), indent=1))
        return [seed]

    def _take(self, seed: Seed, shape: str) -> bool:
        key = f"{seed.family} {shape}"
        if key in self._shapes:
            return False
        self._add(seed, key)
        self._fresh.append((seed, key))
        self._size += len(seed.raw)
        while len(self._fresh) > MOST_SEEDS or self._size > MOST_BYTES:
            self._forget(*self._fresh.popleft())
        return True

    def _add(self, seed: Seed, key: str = "") -> None:
        self._shapes.add(key or f"{seed.family} {seed.anatomy.shape}")
        self._by_family[seed.family].append(seed)
        self._by_name[seed.family, seed.name].append(seed)

    def _forget(self, seed: Seed, key: str) -> None:
        self._shapes.discard(key)
        self._size -= len(seed.raw)
        self._by_family[seed.family].remove(seed)
        self._by_name[seed.family, seed.name].remove(seed)
        if self._folder is not None:
            (self._folder / _file_of(seed)).unlink(missing_ok=True)

    def _kept(self) -> Iterator[Seed]:
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            paths = sorted(self._folder.glob("*.json"))
        except OSError as error:
            raise CorpusError(f"{self._folder}: {error.strerror}") from None
        for path in paths:
            try:
                yield Seed.from_json(json.loads(path.read_text("utf-8")))
            except FileNotFoundError:
                # Another process of the same run has forgotten it.
                continue
            except (OSError, ValueError, RecursionError, CorpusError) as error:
                raise CorpusError(f"{path}: {error}; move it away to continue without it") from None


LASTING = frozenset({"accepted", "closed"})
"""Only what a node bore is learned from: seeds that end nodes would be all that is tried from then on."""

LONGEST_WORDS = 200


def _is_scouted(names: tuple[str, ...]) -> bool:
    return bool(names) and names[0] in {"SCOUT", "HELLO"}


def _file_of(seed: Seed) -> str:
    return f"{sha256(f'{seed.family} '.encode() + seed.raw).hexdigest()[:24]}.json"


def _write(path: Path, text: str) -> None:
    """Writes a file at once: whoever reads sees all of it or none."""
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, suffix=".part", delete=False
    ) as file:
        file.write(text)
    Path(file.name).replace(path)
