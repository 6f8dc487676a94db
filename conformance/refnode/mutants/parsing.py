"""Mutants that misread transport messages: headers, lengths, extension chains, batches."""

from __future__ import annotations

from conformance.refnode.mutants.registry import Bent, Memory, mutant
from conformance.refnode.policy import NodePolicy
from conformance.session.policy import Dice, Policy
from scapy_layers.batch import BatchReader
from scapy_layers.codes import DEFAULT_BATCH_SIZE, Enc, Resolution
from scapy_layers.data import Put
from scapy_layers.errors import Truncated
from scapy_layers.extensions import QoSLink, QoSOffer
from scapy_layers.message import Message, UnknownExtension
from scapy_layers.network import NetworkOam, Push
from scapy_layers.transport import Close, Frame, Init, Join, KeepAlive, Open, TransportOam

REFUSED = b"\x08"
"""No message of any layer: whoever reads it refuses the batch from here on."""


def unknown_in(message: Message) -> bool:
    """Tells whether a message has an extension that nobody knows."""
    return any(isinstance(extension, UnknownExtension) for extension in message.extensions or [])


def with_bits(message: Message, at: int, clear: int, put: int = 0) -> bytes:
    """Returns the bytes of a message that came in, some bits of one of them changed."""
    raw = bytearray(message.original)
    raw[at] = raw[at] & ~clear | put
    return bytes(raw)


# Streams into batches -----------------------------------------------------------------------------


class OneReadOneBatch(BatchReader):
    """Takes what one read of the socket brings for one batch, as long as the handshake lasts."""

    _reads = 0

    def add(self, data: bytes) -> None:
        """Forgets what is more or less than one batch."""
        self._reads += 1
        if self._reads > 2 or len(data) == self.prefix + int.from_bytes(data[: self.prefix], "little"):
            super().add(data)


class HighByteFirst(BatchReader):
    """Reads a length whose low byte is 0 with the high byte first."""

    def add(self, data: bytes) -> None:
        """Exchanges the bytes of such a length."""
        if self.prefix == 2 and not self.pending and data[:1] == b"\0" and data[1:2] != b"\0":
            data = bytes([data[1], data[0]]) + data[2:]
        super().add(data)


class NoLength(BatchReader):
    """Takes a stream that begins with the header of INIT for a batch without a length."""

    def add(self, data: bytes) -> None:
        """Puts the length in front that is missing."""
        if not self.pending and data[1:2] == b"\x09" and data[0] & 0x1F == Init.id:
            data = len(data).to_bytes(self.prefix, "little") + data
        super().add(data)


@mutant("ZN-MSG-004")
class TakesOneReadForOneBatch(NodePolicy):
    def reader(self) -> type[BatchReader]:
        return OneReadOneBatch


@mutant("ZN-MSG-005")
class ReadsSomeLengthsHighByteFirst(NodePolicy):
    def reader(self) -> type[BatchReader]:
        return HighByteFirst


@mutant("ZN-BAT-104")
class TakesABatchWithoutALength(NodePolicy):
    def reader(self) -> type[BatchReader]:
        return NoLength


# Batches into messages ------------------------------------------------------------------------------


@mutant("ZN-BAT-101", hears=Message)
def takes_one_message_of_a_batch(message: Message, memory: Memory) -> Bent:
    return b"" if memory["before"] else bytes(message.original)


@mutant("ZN-BAT-102", hears=Message)
def handles_close_last(message: Message, memory: Memory) -> Bent:
    if isinstance(message, Close) and memory["behind"]:
        memory["late"] = message.original
        return b""
    raw: bytes = message.original
    return raw if memory["behind"] else raw + memory.pop("late", b"")


@mutant("ZN-BAT-103b", "ZN-INIT-027")
class FillsBatchesBeyondTheAgreedSize(Policy):
    def room(self, batch_size: int) -> int:
        return super().room(batch_size) + (64 if batch_size < 60_000 else 0)


# OAM ------------------------------------------------------------------------------------------------

ENC_BITS = 0x60


@mutant("ZN-OAM-001", hears=TransportOam)
def reads_a_z64_body_as_zbuf(message: TransportOam, _: Memory) -> Bent:
    if message.value("ENC") == Enc.Z64:
        return with_bits(message, 0, ENC_BITS, Enc.ZBUF << 5)
    return bytes(message.original)


@mutant("ZN-OAM-002", hears=TransportOam)
def reads_the_oam_id_as_one_byte(message: TransportOam, _: Memory) -> Bent:
    return with_bits(message, 1, 0x80)


@mutant("ZN-OAM-003", hears=TransportOam)
def reads_the_body_of_oam_before_its_extensions(message: TransportOam, _: Memory) -> Bent:
    return with_bits(message, 0, 0x80) if unknown_in(message) else bytes(message.original)


@mutant("ZN-OAM-005", "ZN-OAM-006", hears=Frame)
def drops_the_rest_of_a_frame_after_oam(message: Frame, _: Memory) -> Bent:
    raw: bytes = message.original
    behind = 0
    for inside in reversed(message.messages):
        if isinstance(inside, NetworkOam):
            return raw[: len(raw) - behind]
        behind += len(inside.original)
    return raw


# INIT -------------------------------------------------------------------------------------------------


def is_syn(message: Message) -> bool:
    """Tells whether this is an InitSyn that could be read."""
    return isinstance(message, Init) and not message.value("A") and not message.errors


def truncated(message: Message) -> bool:
    """Tells whether a message ends too early."""
    return bool(message.errors) and isinstance(message.errors[0], Truncated)


def without_sizes(message: Init, **said: int) -> Bent:
    """Takes an InitSyn without sizes for one that has others than the defaults."""
    if not is_syn(message) or message.value("S"):
        return bytes(message.original)
    sizes = {"fsn": Resolution.BITS_32, "rid": Resolution.BITS_32, "batch_size": DEFAULT_BATCH_SIZE}
    for name, value in {"S": 1, **sizes, **said}.items():
        setattr(message, name, value)
    return message


@mutant("ZN-INIT-007", hears=(Init, Open))
def takes_open_for_init(message: Init | Open, memory: Memory) -> Bent:
    if memory.setdefault("first", message.id) == Open.id and isinstance(message, Open):
        return Init(zid=b"\x01\x02")
    return bytes(message.original)


@mutant("ZN-INIT-009", hears=Init)
def takes_a_cookie_flag_for_nothing(message: Init, _: Memory) -> Bent:
    missing = truncated(message) and message.value("A")
    return with_bits(message, 0, 0x20) if missing else bytes(message.original)


@mutant("ZN-INIT-011", "ZN-INIT-009", "ZN-INIT-052", hears=Init)
def reads_no_sizes_where_none_are_left(message: Init, _: Memory) -> Bent:
    missing = truncated(message) and message.value("S") and message.fields.get("zid")
    return with_bits(message, 0, 0x40) if missing else bytes(message.original)


@mutant("ZN-INIT-013", "ZN-EXT-102", "ZN-EXT-103", "ZN-EXT-104", hears=Init)
def refuses_unknown_extensions_of_init(message: Init, _: Memory) -> Bent:
    return REFUSED if unknown_in(message) else bytes(message.original)


@mutant("ZN-INIT-015", hears=Init)
def refuses_short_zids(message: Init, _: Memory) -> Bent:
    return REFUSED if is_syn(message) and len(message.zid) < 4 else bytes(message.original)


@mutant("ZN-INIT-017", hears=Init)
def refuses_reserved_bits_beside_the_role(message: Init, _: Memory) -> Bent:
    return REFUSED if is_syn(message) and message.original[2] & 0x0C else bytes(message.original)


@mutant("ZN-INIT-019", hears=Init)
def takes_role_3_for_a_client(message: Init, _: Memory) -> Bent:
    raw: bytes = message.original
    return with_bits(message, 2, 0x01) if len(raw) > 2 and raw[2] & 0x03 == 3 else raw


@mutant("ZN-INIT-024", hears=Init)
def assumes_8_bit_without_s(message: Init, _: Memory) -> Bent:
    return without_sizes(message, fsn=Resolution.BITS_8)


@mutant("ZN-INIT-026", hears=Init)
def assumes_batches_of_1500_without_s(message: Init, _: Memory) -> Bent:
    return without_sizes(message, batch_size=1500)


@mutant("ZN-INIT-030")
class TakesEveryCookieItEverGave(Policy):
    def __init__(self) -> None:
        self._given: set[bytes] = set()

    def cookie(self, rng: Dice) -> bytes:
        self._given.add(made := super().cookie(rng))
        return made

    def accepts_cookie(self, given: bytes, returned: bytes) -> bool:
        return returned in self._given


@mutant("ZN-INIT-033", "ZN-INIT-034", hears=Init)
def takes_qos_link_for_qos(message: Init, _: Memory) -> Bent:
    if not any(isinstance(extension, QoSLink) for extension in message.extensions or []):
        return bytes(message.original)
    message.extensions = [QoSOffer() if isinstance(e, QoSLink) else e for e in message.extensions]
    return message


@mutant("ZN-INIT-034", hears=Init)
def refuses_qos_and_qos_link_together(message: Init, _: Memory) -> Bent:
    offered = {type(extension) for extension in message.extensions or []}
    return REFUSED if {QoSOffer, QoSLink} <= offered else bytes(message.original)


@mutant("ZN-INIT-052", hears=Init)
def waits_for_the_rest_of_a_cut_init(message: Init, _: Memory) -> Bent:
    raw: bytes = message.original
    return b"" if truncated(message) and len(raw) <= 3 else raw


# OPEN and CLOSE ------------------------------------------------------------------------------------------


@mutant("ZN-OPEN-004", hears=Open)
def reads_few_seconds_as_milliseconds(message: Open, _: Memory) -> Bent:
    if not message.errors and message.value("T") and message.lease < 5:
        message.T = 0
        return message
    return bytes(message.original)


@mutant("ZN-CLS-005", hears=Close)
def ignores_close_with_extensions(message: Close, _: Memory) -> Bent:
    return b"" if message.value("Z") else bytes(message.original)


@mutant("ZN-CLS-102", "ZN-CLS-007", hears=(Close, Push))
def ignores_close_of_whoever_only_listens(message: Close | Push, memory: Memory) -> Bent:
    if isinstance(message, Push):
        memory["spoke"] = True
    ignored = isinstance(message, Close) and "spoke" not in memory
    return b"" if ignored else bytes(message.original)


@mutant("ZN-CLS-109", hears=(Open, Close))
def ignores_close_before_open(message: Open | Close, memory: Memory) -> Bent:
    if isinstance(message, Open):
        memory["open"] = True
    ignored = isinstance(message, Close) and "open" not in memory
    return b"" if ignored else bytes(message.original)


# KEEP_ALIVE and JOIN ----------------------------------------------------------------------------------------


@mutant("ZN-KA-002", hears=Message)
def eats_a_byte_after_keep_alive(message: Message, memory: Memory) -> Bent:
    raw: bytes = message.original
    if memory["before"] and memory.pop("eats", False):
        raw = raw[1:]
    if isinstance(message, KeepAlive) and raw:
        memory["eats"] = True
    return raw


@mutant("ZN-KA-003", "ZN-EXT-101", "ZN-EXT-102", hears=KeepAlive)
def refuses_extensions_of_keep_alive(message: KeepAlive, _: Memory) -> Bent:
    return REFUSED if message.extensions else bytes(message.original)


@mutant("ZN-MSG-007", hears=(Join, Frame))
def counts_from_the_numbers_of_a_join(message: Join | Frame, memory: Memory) -> Bent:
    if isinstance(message, Join):
        memory["joined"] = True
    return b"" if memory.get("joined") else bytes(message.original)


# FRAME --------------------------------------------------------------------------------------------------------


@mutant("ZN-MSG-009", "ZN-INIT-007", hears=(Frame, Open))
def passes_over_a_frame_before_open(message: Frame | Open, memory: Memory) -> Bent:
    if isinstance(message, Open):
        memory["open"] = True
    early = isinstance(message, Frame) and "open" not in memory
    return b"" if early else bytes(message.original)


@mutant("ZN-MSG-003", hears=(Frame, Init))
def takes_a_bare_put_for_a_publication(message: Frame | Init, memory: Memory) -> Bent:
    raw: bytes = message.original
    if isinstance(message, Frame):
        pushes = [inside for inside in message.messages if isinstance(inside, Push)]
        if pushes:
            memory["last"] = pushes[-1].key_suffix
        memory["sn"] = message.sn
    elif "last" in memory:
        # PUT and INIT have one id, in different layers. The other channel has numbers of its own.
        push = Push(key_suffix=memory["last"], body=Put(data=b"bare"))
        return Frame(R=0, sn=memory["sn"], messages=[push])
    return raw


@mutant("ZN-FRM-003", hears=Frame)
def takes_sixteen_messages_of_a_frame(message: Frame, _: Memory) -> Bent:
    raw: bytes = message.original
    return raw[: len(raw) - sum(len(inside.original) for inside in message.messages[16:])]


@mutant("ZN-FRM-004", hears=Frame)
def takes_a_cut_value(message: Frame, _: Memory) -> Bent:
    raw: bytes = message.original
    return raw + b"?" if truncated(message) else raw


@mutant("ZN-FRM-005", "ZN-EXT-102", "ZN-EXT-103", hears=Frame)
def reads_extensions_of_a_frame_as_messages(message: Frame, _: Memory) -> Bent:
    return with_bits(message, 0, 0x80) if unknown_in(message) else bytes(message.original)


@mutant("ZN-FRM-006", hears=Frame)
def counts_both_channels_as_one(message: Frame, _: Memory) -> Bent:
    return with_bits(message, 0, 0, 0x20)


# Extension chains -----------------------------------------------------------------------------------------------


@mutant("ZN-EXT-101", hears=(KeepAlive, Push))
def reads_four_extensions_at_most(message: KeepAlive | Push, _: Memory) -> Bent:
    return REFUSED if len(message.extensions or []) > 4 else bytes(message.original)


@mutant("ZN-EXT-104", hears=Init)
def reads_encoding_3_as_zbuf(message: Init, _: Memory) -> Bent:
    raw: bytes = message.original
    at = raw.rfind(UNKNOWN_RESERVED)
    return raw[:at] + UNKNOWN_ZBUF + raw[at + 1 :] if message.errors and at > 0 else raw


UNKNOWN_RESERVED = b"\x6e"
"""Header of extension 0xe with the reserved encoding."""

UNKNOWN_ZBUF = b"\x4e"
"""The same with encoding ZBuf."""
