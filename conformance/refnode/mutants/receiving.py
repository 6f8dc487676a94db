"""Mutants that misread network messages, or take what they should refuse."""

from __future__ import annotations

from typing import Any

from conformance.refnode.mutants.parsing import REFUSED, unknown_in, with_bits
from conformance.refnode.mutants.registry import Bent, Memory, mutant
from scapy_layers.codes import InterestMode
from scapy_layers.data import Err, Put, Query, Reply
from scapy_layers.declarations import (
    DeclareKeyExpr,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    UndeclareKeyExpr,
    UndeclareQueryable,
    UndeclareSubscriber,
)
from scapy_layers.errors import Overlong, UnknownMessage
from scapy_layers.extensions import Budget, NodeId, QoS, ResponderId, Timestamp
from scapy_layers.keyexpr import is_valid
from scapy_layers.message import Message
from scapy_layers.network import Declare, Interest, Push, Request, Response, ResponseFinal
from scapy_layers.primitives import Reader, WideInt, write_vle
from scapy_layers.transport import Frame, Open


def has(message: Message, *classes: type[Any]) -> bool:
    """Tells whether a message has one of these extensions."""
    return any(isinstance(extension, classes) for extension in message.extensions or [])


def misplaced(message: Message) -> int | None:
    """Returns the id of a body that may not stand in this message; None when it has one that may."""
    error = message.errors[0] if message.errors else None
    if isinstance(error, UnknownMessage) and error.field == "body":
        return int(error.found.split()[1], 16)
    return None


def key_of(message: Message) -> dict[str, Any]:
    """Returns the fields of a message that say its key."""
    return {name: message.fields[name] for name in ("M", "key_scope", "key_suffix") if name in message.fields}


# PUSH -----------------------------------------------------------------------------------------------


@mutant("ZN-PUSH-002", hears=Push)
def needs_an_alias_for_keys_of_five_chunks(message: Push, _: Memory) -> Bent:
    long = not message.key_scope and str(message.key_suffix).count("/") >= 4
    return REFUSED if long else bytes(message.original)


@mutant("ZN-PUSH-003", "ZN-PUSH-004", "ZN-DCL-102", "ZN-DCL-103", hears=Push)
def always_reads_a_suffix(message: Push, _: Memory) -> Bent:
    return with_bits(message, 0, 0, 0x20)


@mutant("ZN-PUSH-004", hears=Push)
def takes_every_alias_for_one_of_the_sender(message: Push, _: Memory) -> Bent:
    return with_bits(message, 0, 0, 0x40)


@mutant("ZN-PUSH-005", hears=Push)
def refuses_node_id_on_push(message: Push, _: Memory) -> Bent:
    return REFUSED if has(message, NodeId) else bytes(message.original)


@mutant("ZN-PUSH-006", "ZN-DATA-001", hears=Push)
def takes_a_query_for_a_value(message: Push, _: Memory) -> Bent:
    if misplaced(message) == Query.id:
        return Push(body=Put(data=b"query"), **key_of(message))
    return bytes(message.original)


@mutant("ZN-DATA-001", "ZN-PUSH-006", hears=Push)
def takes_an_error_for_a_value(message: Push, _: Memory) -> Bent:
    if misplaced(message) == Err.id:
        return Push(body=Put(data=b"error"), **key_of(message))
    return bytes(message.original)


@mutant("ZN-PUT-005", hears=Push)
def refuses_values_whose_length_takes_two_bytes(message: Push, _: Memory) -> Bent:
    body = message.fields.get("body")
    refused = isinstance(body, Put) and 128 <= len(bytes(body.data)) < 1 << 14
    return REFUSED if refused else bytes(message.original)


@mutant("ZN-VLE-102", hears=Push)
def cuts_the_upper_bits_of_a_scope(message: Push, _: Memory) -> Bent:
    error = message.errors[0] if message.errors else None
    if not isinstance(error, Overlong) or error.field != "key_scope":
        return bytes(message.original)
    raw: bytes = message.original
    reader = Reader(raw, 1)
    scope = reader.vle()
    return raw[:1] + write_vle(scope & 0xFFFF) + reader.rest()


# REQUEST and QUERY ------------------------------------------------------------------------------------


@mutant("ZN-REQ-003", hears=Request)
def knows_no_aliases_in_queries(message: Request, _: Memory) -> Bent:
    if not message.fields.get("key_scope"):
        return bytes(message.original)
    message.key_scope = 0
    return message


@mutant("ZN-REQ-004", "ZN-REQ-104", hears=Request)
def refuses_budget(message: Request, _: Memory) -> Bent:
    return REFUSED if has(message, Budget) else bytes(message.original)


@mutant("ZN-REQ-005", "ZN-DATA-001", hears=Request)
def takes_a_value_for_a_query(message: Request, _: Memory) -> Bent:
    if misplaced(message) is None:
        return bytes(message.original)
    return Request(request_id=message.request_id, body=Query(), **key_of(message))


@mutant("ZN-QRY-002", "ZN-QRY-001", "ZN-QRY-003", hears=Request)
def reads_consolidation_in_front_of_parameters(message: Request, _: Memory) -> Bent:
    raw: bytes = message.original
    body = message.fields.get("body")
    if not isinstance(body, Query) or not body.value("P") or body.value("C"):
        return raw
    inside: bytes = body.original
    return raw[: len(raw) - len(inside)] + bytes([inside[0] | 0x20]) + inside[1:]


@mutant("ZN-VLE-101", "ZN-REQ-002", hears=Request)
def reads_numbers_high_group_first(message: Request, _: Memory) -> Bent:
    raw: bytes = message.original
    reader = Reader(raw, 1)
    try:
        reader.vle()
    except Exception:  # noqa: BLE001  (cut: nothing to misread)
        return raw
    groups = [byte & 0x7F for byte in raw[1 : reader.at]]
    turned = [group | 0x80 for group in reversed(groups)]
    turned[-1] &= 0x7F
    return raw[:1] + bytes(turned) + raw[reader.at :]


@mutant("ZN-VLE-103", hears=Request)
def reads_a_padded_number_with_its_upper_bit(message: Request, _: Memory) -> Bent:
    if not isinstance(message.fields.get("request_id"), WideInt):
        return bytes(message.original)
    message.request_id = message.original[1]
    return message


# RESPONSE and RESPONSE_FINAL ----------------------------------------------------------------------------


@mutant("ZN-RSP-004", of=Response, hears=Request)
def answers_under_the_key_of_the_query(message: Response | Request, memory: Memory) -> Bent:
    keys = memory.setdefault("asked", {})
    if isinstance(message, Request):
        keys[int(message.request_id)] = message.fields.get("key_suffix")
        return bytes(message.original)
    if keys.get(message.request_id):
        message.key_suffix = keys[message.request_id]
    return message


@mutant("ZN-RSP-005", "ZN-RSP-006", hears=Response)
def refuses_responder_id(message: Response, _: Memory) -> Bent:
    return REFUSED if has(message, ResponderId) else bytes(message.original)


@mutant("ZN-RSP-007", "ZN-DATA-001", hears=Response)
def takes_a_bare_value_for_a_reply(message: Response, _: Memory) -> Bent:
    if misplaced(message) != Put.id:
        return bytes(message.original)
    body = Reply(body=Put(data=b"bare"))
    return Response(request_id=message.request_id, body=body, **key_of(message))


@mutant("ZN-FIN-006", hears=ResponseFinal)
def refuses_extensions_of_response_final(message: ResponseFinal, _: Memory) -> Bent:
    return REFUSED if has(message, QoS, Timestamp) else bytes(message.original)


# DECLARE ----------------------------------------------------------------------------------------------------


@mutant("ZN-DCL-003", hears=Declare)
def refuses_node_id_on_declare(message: Declare, _: Memory) -> Bent:
    return REFUSED if has(message, NodeId) else bytes(message.original)


@mutant("ZN-DCL-004", hears=(Frame, Open))
def reads_declarations_until_the_batch_ends(message: Frame | Open, memory: Memory) -> Bent:
    raw: bytes = message.original
    if isinstance(message, Frame):
        memory["sn"] = message.sn
    elif memory["before"] and "sn" in memory:
        # D_SUBSCRIBER and OPEN have one id. What could not be read of it follows by itself.
        return bytes(Frame(R=0, sn=memory["sn"])) + bytes([Declare.id]) + raw
    return raw


@mutant("ZN-DCL-102", hears=Declare)
def forgets_an_alias_that_rests_on_another(message: Declare, _: Memory) -> Bent:
    body = message.fields.get("body")
    forgotten = isinstance(body, DeclareKeyExpr) and body.fields.get("key_scope")
    return b"" if forgotten else bytes(message.original)


@mutant("ZN-DCL-103", hears=Declare)
def keeps_an_undeclared_alias(message: Declare, _: Memory) -> Bent:
    kept = isinstance(message.fields.get("body"), UndeclareKeyExpr)
    return b"" if kept else bytes(message.original)


@mutant("ZN-DCL-103b", hears=Declare, of=Declare)
def uses_an_alias_that_was_taken_back(message: Declare, memory: Memory) -> Bent:
    named, gone = memory.setdefault("named", {}), memory.setdefault("gone", {})
    body = message.fields.get("body")
    if isinstance(body, DeclareKeyExpr):
        named[body.key_id] = str(body.key_suffix)
    elif isinstance(body, UndeclareKeyExpr):
        gone[named.pop(body.key_id, None)] = body.key_id
    if message.original:
        return bytes(message.original)
    if isinstance(body, DeclareSubscriber | DeclareQueryable | DeclareToken) and str(body.key_suffix) in gone:
        body.key_scope, body.key_suffix, body.M = gone[str(body.key_suffix)], None, 0
    return message


@mutant("ZN-DCL-104", hears=Push)
def declares_what_is_published(message: Push, memory: Memory) -> Bent:
    raw: bytes = message.original
    if message.errors or message.fields.get("key_scope") or not message.fields.get("key_suffix"):
        return raw
    number = memory["entity"] = memory.get("entity", 1 << 31) + 1
    body = DeclareSubscriber(entity_id=number, key_suffix=message.key_suffix)
    return bytes(Declare(body=body)) + raw


@mutant("ZN-RTE-027", "ZN-DCL-101", hears=Declare)
def goes_on_routing_to_whoever_undeclared(message: Declare, _: Memory) -> Bent:
    ignored = isinstance(message.fields.get("body"), UndeclareSubscriber)
    return b"" if ignored else bytes(message.original)


@mutant("ZN-RTE-027b", hears=Declare)
def goes_on_asking_whoever_undeclared(message: Declare, _: Memory) -> Bent:
    ignored = isinstance(message.fields.get("body"), UndeclareQueryable)
    return b"" if ignored else bytes(message.original)


@mutant("ZN-EXT-102", "ZN-EXT-101", "ZN-EXT-103", hears=(Push, Declare, Interest, Request, Response))
def refuses_unknown_extensions_of_network_messages(message: Message, _: Memory) -> Bent:
    return REFUSED if unknown_in(message) else bytes(message.original)


# INTEREST -----------------------------------------------------------------------------------------------------

MODE_BITS = 0x60


@mutant("ZN-INT-001", "ZN-INT-101", "ZN-INT-102", "ZN-RTE-023", "ZN-RTE-024", hears=Interest)
def swaps_the_two_bits_of_the_mode(message: Interest, _: Memory) -> Bent:
    bits = message.original[0] & MODE_BITS
    return with_bits(message, 0, MODE_BITS, (bits << 1 | bits >> 1) & MODE_BITS)


@mutant("ZN-INT-003", hears=Frame)
def always_reads_options_of_interest(message: Frame, _: Memory) -> Bent:
    raw: bytes = message.original
    inside = message.messages
    out, eats = [], False
    for each in inside:
        out.append(each.original[1:] if eats else each.original)
        eats = isinstance(each, Interest) and each.value("mode") == InterestMode.FINAL and not each.errors
    return raw[: len(raw) - sum(len(each.original) for each in inside)] + b"".join(out)


@mutant("ZN-INT-004", hears=Interest)
def swaps_subscribers_and_queryables_in_interests(message: Interest, _: Memory) -> Bent:
    if message.errors or message.value("mode") == InterestMode.FINAL:
        return bytes(message.original)
    message.subscribers, message.queryables = message.value("queryables"), message.value("subscribers")
    return message


@mutant("ZN-INT-005", hears=Interest)
def reads_a_key_where_none_is(message: Interest, _: Memory) -> Bent:
    if message.errors or message.value("mode") == InterestMode.FINAL or message.value("restricted"):
        return bytes(message.original)
    message.restricted = 1
    return message


@mutant("ZN-INT-006", hears=Interest)
def refuses_node_id_on_interest(message: Interest, _: Memory) -> Bent:
    return REFUSED if has(message, NodeId) else bytes(message.original)


@mutant("ZN-INT-104", hears=Interest)
def ignores_the_end_of_an_interest(message: Interest, _: Memory) -> Bent:
    return b"" if message.value("mode") == InterestMode.FINAL else bytes(message.original)


@mutant("ZN-INT-105", "ZN-INT-005", hears=Interest)
def ignores_the_key_of_an_interest(message: Interest, _: Memory) -> Bent:
    if message.errors or not message.value("restricted"):
        return bytes(message.original)
    message.restricted = message.N = message.M = 0
    return message


# Keys -----------------------------------------------------------------------------------------------------------

NO_KEY = str.maketrans("", "", "#?$")


@mutant("ZN-KEX-101", hears=Push)
def mends_what_is_no_key(message: Push, _: Memory) -> Bent:
    key = str(message.fields.get("key_suffix", b""), "utf-8", "replace")
    if message.errors or message.fields.get("key_scope") or is_valid(key):
        return bytes(message.original)
    mended = "/".join(filter(None, key.translate(NO_KEY).split("/")))
    message.key_suffix = mended or "a"
    return message
