"""Network messages: INTEREST RESPONSE_FINAL RESPONSE REQUEST PUSH DECLARE OAM."""

# ruff: noqa: RUF012  (a field list is a class attribute: that is how Scapy layers are written)

from __future__ import annotations

import scapy_layers.data
import scapy_layers.declarations  # noqa: F401  (bodies are chosen by id: their classes must be there)
from scapy_layers import extensions
from scapy_layers.codes import DataId, DeclarationId, Enc, InterestMode, NetworkId, OamId
from scapy_layers.extensions import LinkState, key
from scapy_layers.fields import Bits, Body, CountedBytes, Flag, Vle, header, packed, unless, when
from scapy_layers.message import Message, RegionOf


class Interest(Message):
    """Asks for current and future declarations, or ends that (mode FINAL). Spec: INTEREST."""

    name = "INTEREST"
    fields_desc = [
        *header(NetworkId.INTEREST, "Z", Bits("mode", 2, InterestMode)),
        Vle("interest_id", 32),
        *when(
            ("mode", None),
            *packed(
                Bits("aggregate", 1),
                Bits("M", 1),
                Flag("N"),
                Flag("restricted"),
                Bits("tokens", 1),
                Bits("queryables", 1),
                Bits("subscribers", 1),
                Bits("keyexprs", 1),
            ),
            *when("restricted", *key()),
        ),
        extensions.INTEREST,
    ]


class ResponseFinal(Message):
    """Says that no more replies come. Spec: Message Reference, RESPONSE_FINAL."""

    name = "RESPONSE_FINAL"
    fields_desc = [
        *header(NetworkId.RESPONSE_FINAL, "Z", "-", "-"),
        Vle("request_id", 32, enforced=True),
        extensions.RESPONSE_FINAL,
    ]


class Response(Message):
    """Carries one reply to a REQUEST. Spec: Message Reference, RESPONSE."""

    name = "RESPONSE"
    fields_desc = [
        *header(NetworkId.RESPONSE, "Z", "M", "N"),
        Vle("request_id", 32, enforced=True),
        *key(),
        extensions.RESPONSE,
        Body("body", DataId.REPLY, DataId.ERR),
    ]


class Request(Message):
    """Queries a key expression. Spec: Message Reference, REQUEST."""

    name = "REQUEST"
    fields_desc = [
        *header(NetworkId.REQUEST, "Z", "M", "N"),
        Vle("request_id", 32, enforced=True),
        *key(),
        extensions.REQUEST,
        Body("body", DataId.QUERY),
    ]


class Push(Message):
    """Publishes a value or a deletion. Spec: Message Reference, PUSH."""

    name = "PUSH"
    fields_desc = [
        *header(NetworkId.PUSH, "Z", "M", "N"),
        *key(),
        extensions.PUSH,
        Body("body", DataId.PUT, DataId.DEL),
    ]


class Declare(Message):
    """Carries one declaration; I links it to an INTEREST. Spec: Message Reference, DECLARE."""

    name = "DECLARE"
    fields_desc = [
        *header(NetworkId.DECLARE, "Z", "-", "I"),
        *when("I", Vle("interest_id", 32)),
        extensions.DECLARE,
        Body("body", *DeclarationId),
    ]


class NetworkOam(Message):
    """Carries management data between nodes, link state among it. Spec: Message Reference, OAM."""

    name = "OAM"
    fields_desc = [
        *header(NetworkId.OAM, "Z", Bits("ENC", 2, Enc, default=None, allowed=(Enc.UNIT, Enc.Z64, Enc.ZBUF))),
        Vle("oam_id", 16, OamId),
        extensions.NETWORK_OAM,
        *when(("ENC", Enc.Z64), Vle("z64", 64)),
        *when(
            ("ENC", Enc.ZBUF),
            *when(("oam_id", OamId.LINKSTATE), RegionOf("linkstate", LinkState)),
            *unless(("oam_id", OamId.LINKSTATE), CountedBytes("data", z=64, enforced=False)),
        ),
    ]
