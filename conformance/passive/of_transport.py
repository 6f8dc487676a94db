"""Rules of batches, headers, and the transport messages of a session."""

# ruff: noqa: D103  (a rule is named by what it demands)

from __future__ import annotations

from conformance.expect import check
from conformance.observe import Observation
from conformance.passive.rules import rule
from conformance.passive.talk import LOW_LATENCY, QOS, STREAMS, Talk
from scapy_layers.batch import MAX_BATCH, PREFIX
from scapy_layers.codes import CloseReason, Enc, Kind
from scapy_layers.data import Del, Err, Put, Query, Reply
from scapy_layers.errors import BadValue, Truncated, UnknownMessage
from scapy_layers.extensions import Lane
from scapy_layers.message import Extension, Message
from scapy_layers.network import (
    Declare,
    Interest,
    NetworkOam,
    Push,
    Request,
    Response,
    ResponseFinal,
)
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Close, Fragment, Frame, Init, Join, KeepAlive, Open, TransportOam

TRANSPORT = (TransportOam, Init, Open, Close, KeepAlive, Frame, Fragment, Join)

NETWORK = (Interest, ResponseFinal, Response, Request, Push, Declare, NetworkOam)

DATA = (Put, Del, Query, Reply, Err)


def reserved(message: Message, *bits: int) -> str:
    """Returns which bits of a header are set that have no meaning, in words."""
    said = [str(bit) for bit in bits if message.original[0] & 1 << bit]
    return f"bit {' and '.join(said)} set" if said else ""


def clear(message: Message, *bits: int) -> None:
    """Judges that bits of a header are clear.

    Raises:
        Unmet: One is set.
    """
    words = f"{message.name} with {'bits' if len(bits) > 1 else 'bit'} {' and '.join(map(str, bits))} clear"
    seen = reserved(message, *bits)
    check(not seen, words, seen)


def decodes(message: Message) -> None:
    """Judges that a message can be read to its end.

    Raises:
        Unmet: It cannot.
    """
    errors = message.errors
    check(not errors, f"{message.name} that decodes", errors and type(errors[0]).__name__)


# Headers ---------------------------------------------------------------------------------------------


@rule("ZN-MSG-001", Observation)
def ids_are_those_of_their_layer(batch: Observation, talk: Talk) -> bool | None:
    del talk
    inside = batch.contents
    if batch.kind is Kind.SCOUTING or not batch.batch:
        return False
    if not inside.messages and inside.error is None:
        return False
    unknown = isinstance(inside.error, UnknownMessage) and inside.error.field == "header"
    check(not unknown, "ids 0x00-0x07 of the transport, 0x19-0x1f of the network", "another id")
    return None


@rule("ZN-MSG-010", Observation)
def every_message_begins_with_a_header(batch: Observation, talk: Talk) -> bool | None:
    del talk
    inside = batch.contents
    if not batch.batch:
        return False
    # What is wrong further inside is a matter of the message that it stands in.
    lost = isinstance(inside.error, UnknownMessage | Truncated) and inside.error.field.count(".") < 2
    check(not lost, "messages up to the end of the batch", "bytes that are none")
    return None


@rule("ZN-NET-001", *NETWORK)
def network_messages_are_inside_frames(message: Message, talk: Talk) -> bool | None:
    if talk.carrier is not None:
        return None
    if not talk.certain:
        return False
    alone = talk.agreed(LOW_LATENCY) and not talk.agreed(QOS)
    check(alone, f"{message.name} inside FRAME or FRAGMENT", "outside")
    return None


@rule("ZN-MSG-006", *TRANSPORT)
def init_and_open_are_never_in_a_group(message: Message, talk: Talk) -> bool | None:
    if not talk.group:
        return False
    check(not isinstance(message, Init | Open), "no INIT or OPEN in a group", message.name)
    return None


@rule("ZN-INIT-008", *TRANSPORT)
def init_is_never_in_a_group(message: Message, talk: Talk) -> bool | None:
    if not talk.group:
        return False
    check(not isinstance(message, Init), "no INIT in a group", message.name)
    return None


@rule("ZN-OPEN-006", *TRANSPORT)
def open_is_never_in_a_group(message: Message, talk: Talk) -> bool | None:
    if not talk.group:
        return False
    check(not isinstance(message, Open), "no OPEN in a group", message.name)
    return None


# Batches ---------------------------------------------------------------------------------------------


@rule("ZN-BAT-103", Observation)
@rule("ZN-INIT-027", Observation)
def no_batch_is_larger_than_agreed(batch: Observation, talk: Talk) -> bool | None:
    if batch.kind is Kind.SCOUTING:
        return False
    if talk.agreed(LOW_LATENCY):
        return False
    agreed = talk.batch_size if talk.certain else MAX_BATCH
    check(len(batch.batch) <= agreed, "a batch of at most the agreed size", "a larger one")
    return None


@rule("ZN-BAT-104", Observation)
def a_length_of_two_bytes_is_in_front(batch: Observation, talk: Talk) -> bool | None:
    if talk.proto not in STREAMS or talk.agreed(LOW_LATENCY):
        return False
    whole = int.from_bytes(batch.raw[:PREFIX], "little") == len(batch.raw) - PREFIX
    # Reading R-57: a unit of no bytes is not judged.
    holds = bool(batch.contents.messages) or not batch.batch
    check(whole and holds, "a length of two bytes, then messages", "something else")
    return None


@rule("ZN-BAT-105", Observation)
def datagrams_have_no_length_in_front(batch: Observation, talk: Talk) -> bool | None:
    if talk.proto != "udp":
        return False
    whole = int.from_bytes(batch.raw[:PREFIX], "little") == len(batch.raw) - PREFIX
    lost = whole and batch.contents.error is not None
    check(not lost, "a datagram that begins with a header", "a length")
    return None


@rule("ZN-EXT-101", *TRANSPORT, Scout, Hello)
@rule("ZN-EXT-101", *NETWORK, *DATA, echoed=True)
def extensions_have_one_of_three_encodings(message: Message, talk: Talk) -> bool | None:
    del talk
    # Where such an extension ends is not known, so that it is none of the chain.
    reserved = [one for one in message.errors if isinstance(one, BadValue) and one.field.endswith("]")]
    check(not reserved, "Unit, Z64 or ZBuf", "encoding 11")
    return None if message.fields.get("extensions") else False


# CLOSE and KEEP_ALIVE ----------------------------------------------------------------------------------


@rule("ZN-CLS-001", Close)
def bit_6_of_close_is_clear(close: Close, talk: Talk) -> None:
    del talk
    clear(close, 6)


@rule("ZN-CLS-002", Close)
def close_has_a_reason(close: Close, talk: Talk) -> None:
    del talk
    check(close.fields.get("reason") is not None, "CLOSE with a reason", "none")


@rule("ZN-CLS-101", Close)
def reason_of_close_is_one_of_eight(close: Close, talk: Talk) -> bool | None:
    del talk
    reason = close.fields.get("reason")
    if reason is None:
        return False
    check(reason in list(CloseReason), "a reason from 0 to 7", "another")
    return None


@rule("ZN-KA-001", KeepAlive)
def only_z_of_keep_alive_is_set(alive: KeepAlive, talk: Talk) -> None:
    del talk
    clear(alive, 6, 5)


# OAM, FRAME, FRAGMENT: headers and extensions -----------------------------------------------------------


@rule("ZN-OAM-004", TransportOam, extension=0x1)
@rule("ZN-FRM-007", Frame, extension=0x1)
@rule("ZN-FRG-104", Fragment, extension=0x1)
def lane_is_a_mandatory_z64(extension: Extension, talk: Talk) -> None:
    del talk
    kind = (extension.fields["ENC"], extension.fields["M"])
    check(kind == (Enc.Z64, 1), "the lane as mandatory Z64", "another kind of extension")


@rule("ZN-FRM-008", Frame, Fragment, extension=0x1)
def lane_has_no_bits_but_the_priority(extension: Extension, talk: Talk) -> bool | None:
    del talk
    if not isinstance(extension, Lane):
        return False
    check(extension.original[1:] < b"\x08", "bits 7:3 of the lane zero", "set")
    return None


@rule("ZN-INIT-049", Frame, Fragment, extension=0x1)
def lanes_are_used_only_when_agreed(extension: Extension, talk: Talk) -> bool | None:
    del extension
    if not talk.certain:
        return False
    check(talk.agreed(QOS), "a lane only where QoS was agreed", "one without")
    return None


@rule("ZN-FRM-001", Frame)
def bit_6_of_frame_is_clear(frame: Frame, talk: Talk) -> None:
    del talk
    clear(frame, 6)


@rule("ZN-FRM-003", Frame)
def a_frame_holds_messages(frame: Frame, talk: Talk) -> None:
    del talk
    check(frame.fields.get("messages"), "FRAME with one or more messages", "an empty one")


@rule("ZN-FRG-005", Fragment, extension=0x2)
@rule("ZN-FRG-005", Fragment, extension=0x3)
def markers_of_fragments_are_units(extension: Extension, talk: Talk) -> None:
    del talk
    check(extension.fields["ENC"] == Enc.UNIT, "First and Drop as Unit", "another encoding")


# Order of the handshake ------------------------------------------------------------------------------------


@rule("ZN-INIT-001", *TRANSPORT)
def nothing_but_the_handshake_comes_before_its_end(message: Message, talk: Talk) -> bool | None:
    if talk.group or talk.join is not None or talk.opened is not None:
        return False
    mine = isinstance(message, Init) or (isinstance(message, Open) and talk.ack is not None)
    check(mine or isinstance(message, Close), "INIT, then OPEN", message.name)
    return None
