"""Rules of network messages, declarations and data: much of it is passed on from somebody else."""

# ruff: noqa: D103  (a rule is named by what it demands)

from __future__ import annotations

from functools import lru_cache

from conformance.expect import check
from conformance.passive.of_handshake import encoded
from conformance.passive.of_transport import NETWORK, clear, decodes
from conformance.passive.rules import rule
from conformance.passive.talk import Talk, extension_of
from scapy_layers import keyexpr
from scapy_layers.codes import Enc
from scapy_layers.data import Del, Err, Put, Query, Reply
from scapy_layers.declarations import DeclareKeyExpr, DeclareQueryable, DeclareSubscriber, DeclareToken
from scapy_layers.errors import BadValue
from scapy_layers.extensions import QoS, ResponderId, Timestamp
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

KEYED = (Push, Request, Response, Interest, DeclareKeyExpr, DeclareSubscriber, DeclareQueryable, DeclareToken)
"""Messages that name a key."""


@lru_cache(maxsize=4096)
def spelling(key: str) -> str | None:
    """Returns the canonical spelling of a key expression; None when it is none."""
    try:
        return keyexpr.canonical(key)
    except BadValue:
        return None


# Extensions ------------------------------------------------------------------------------------------------


@rule("ZN-NET-003", *NETWORK, extension=0x1, echoed=True)
@rule("ZN-NET-004", *NETWORK, extension=0x1, echoed=True)
@rule("ZN-OAM-006", NetworkOam, extension=0x1, echoed=True)
def qos_is_an_optional_z64(extension: Extension, talk: Talk) -> None:
    del talk
    encoded(extension, Enc.Z64, "QoS")
    check(not extension.fields["M"], "QoS with M clear", "M set")


@rule("ZN-NET-003", *NETWORK, extension=0x2, echoed=True)
@rule("ZN-NET-013", *NETWORK, extension=0x2, echoed=True)
@rule("ZN-OAM-006", NetworkOam, extension=0x2, echoed=True)
def timestamp_is_an_optional_zbuf(extension: Extension, talk: Talk) -> None:
    del talk
    encoded(extension, Enc.ZBUF, "Timestamp")
    check(not extension.fields["M"], "Timestamp with M clear", "M set")
    if isinstance(extension, Timestamp):
        check(not extension.errors, "time, length and ZenohID in Timestamp", "something else")


@rule("ZN-NET-010", *NETWORK, extension=0x1, echoed=True)
def upper_bits_of_qos_are_zero(extension: Extension, talk: Talk) -> bool | None:
    del talk
    if not isinstance(extension, QoS):
        return False
    check(extension.original[1:] < b"\x40", "bits 7:6 of QoS zero", "set")
    return None


@rule("ZN-NET-012", Declare, Interest, echoed=True)
def declare_and_interest_are_not_to_be_dropped(message: Message, talk: Talk) -> None:
    del talk
    qos = extension_of(message, 0x1)
    dropped = isinstance(qos, QoS) and not qos.fields.get("D")
    check(not dropped, f"{message.name} with D set, or without QoS", "with D clear")


@rule("ZN-RTE-010", Push, Request, Declare, Interest, extension=0x3, echoed=True)
def node_id_is_a_mandatory_z64(extension: Extension, talk: Talk) -> None:
    del talk
    encoded(extension, Enc.Z64, "NodeId")
    check(extension.fields["M"], "NodeId with M set", "M clear")


@rule("ZN-REQ-102", Request, extension=0x4, echoed=True)
def target_is_a_mandatory_z64(extension: Extension, talk: Talk) -> None:
    del talk
    encoded(extension, Enc.Z64, "QueryTarget")
    check(extension.fields["M"], "QueryTarget with M set", "M clear")


@rule("ZN-REQ-102", Request, extension=0x5, echoed=True)
@rule("ZN-REQ-102", Request, extension=0x6, echoed=True)
def budget_and_timeout_are_optional_z64(extension: Extension, talk: Talk) -> None:
    del talk
    encoded(extension, Enc.Z64, "Budget and Timeout")
    check(not extension.fields["M"], "Budget and Timeout with M clear", "M set")


@rule("ZN-RSP-006", Response, extension=0x3, echoed=True)
def responder_id_is_a_zbuf_that_decodes(extension: Extension, talk: Talk) -> None:
    del talk
    encoded(extension, Enc.ZBUF, "ResponderId")
    if isinstance(extension, ResponderId):
        check(not extension.errors, "length, ZenohID and entity id in ResponderId", "something else")


@rule("ZN-QRY-005", Query, extension=0x3, echoed=True)
def body_of_a_query_is_zbuf(extension: Extension, talk: Talk) -> None:
    del talk
    encoded(extension, Enc.ZBUF, "QueryBody")


# Headers, and what decodes -----------------------------------------------------------------------------------


@rule("ZN-FIN-001", ResponseFinal, echoed=True)
def only_z_of_response_final_is_set(final: ResponseFinal, talk: Talk) -> None:
    del talk
    clear(final, 6, 5)


@rule("ZN-DCL-001", Declare, echoed=True)
def bit_6_of_declare_is_clear(declare: Declare, talk: Talk) -> None:
    del talk
    clear(declare, 6)


@rule("ZN-PUSH-001", Push, echoed=True)
@rule("ZN-REQ-001", Request, echoed=True)
@rule("ZN-RSP-001", Response, echoed=True)
@rule("ZN-INT-001", Interest, echoed=True)
def it_decodes(message: Message, talk: Talk) -> None:
    del talk
    decodes(message)


# Bodies ------------------------------------------------------------------------------------------------------


@rule("ZN-PUSH-006", Push, echoed=True)
@rule("ZN-DATA-001", Push, echoed=True)
def body_of_push_is_put_or_del(push: Push, talk: Talk) -> None:
    del talk
    check(isinstance(push.fields.get("body"), Put | Del), "PUT or DEL in PUSH", "something else")


@rule("ZN-REQ-005", Request, echoed=True)
@rule("ZN-DATA-001", Request, echoed=True)
def body_of_request_is_query(request: Request, talk: Talk) -> None:
    del talk
    check(isinstance(request.fields.get("body"), Query), "QUERY in REQUEST", "something else")


@rule("ZN-RSP-007", Response, echoed=True)
@rule("ZN-DATA-001", Response, echoed=True)
def body_of_response_is_reply_or_err(response: Response, talk: Talk) -> None:
    del talk
    check(isinstance(response.fields.get("body"), Reply | Err), "REPLY or ERR in RESPONSE", "something else")


@rule("ZN-RPL-001", Reply, echoed=True)
def body_of_reply_is_put_or_del(reply: Reply, talk: Talk) -> None:
    del talk
    check(isinstance(reply.fields.get("body"), Put | Del), "PUT or DEL in REPLY", "something else")


@rule("ZN-DCL-101", Declare, echoed=True)
def body_of_declare_is_one_of_nine(declare: Declare, talk: Talk) -> None:
    del talk
    check(isinstance(declare.fields.get("body"), Message), "one of the nine declarations", "something else")


# Keys --------------------------------------------------------------------------------------------------------


@rule("ZN-KEX-101", *KEYED)
def keys_are_chunks_parted_by_slashes(message: Message, talk: Talk) -> bool | None:
    del talk
    key = _full_key(message)
    if not key:
        return False
    check(spelling(key) is not None, "a key expression", "a text that is none")
    return None


@rule("ZN-KEX-102", *KEYED)
def keys_are_canonical(message: Message, talk: Talk) -> bool | None:
    del talk
    key = _full_key(message)
    if not key or spelling(key) is None:
        return False
    check(spelling(key) == key, "a canonical key expression", "another form of it")
    return None


def _full_key(message: Message) -> str:
    """Returns the key of a message that has no alias in it."""
    suffix = message.fields.get("key_suffix")
    if not suffix or message.fields.get("key_scope"):
        return ""
    return suffix if isinstance(suffix, str) else bytes(suffix).decode(errors="replace")
