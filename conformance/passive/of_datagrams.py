"""Rules of SCOUT and HELLO."""

# ruff: noqa: D103  (a rule is named by what it demands)

from __future__ import annotations

from conformance.expect import check
from conformance.passive.of_transport import clear, decodes
from conformance.passive.rules import rule
from conformance.passive.talk import Talk
from scapy_layers.codes import PROTOCOL_VERSION
from scapy_layers.scouting import Hello, Scout


@rule("ZN-HLO-005", Hello)
def bit_6_of_hello_is_clear(hello: Hello, talk: Talk) -> None:
    del talk
    clear(hello, 6)


@rule("ZN-HLO-006", Hello)
@rule("ZN-HLO-012", Hello)
def hello_decodes(hello: Hello, talk: Talk) -> None:
    del talk
    decodes(hello)


@rule("ZN-HLO-008", Hello)
def bits_3_and_2_of_the_packed_byte_of_hello_are_zero(hello: Hello, talk: Talk) -> None:
    del talk
    raw: bytes = hello.original
    check(len(raw) > 2 and not raw[2] & 0x0C, "bits 3:2 of the packed byte zero", "set")


@rule("ZN-HLO-009", Hello)
def role_of_hello_is_one_of_three(hello: Hello, talk: Talk) -> None:
    del talk
    raw: bytes = hello.original
    check(len(raw) > 2 and raw[2] & 0x03 != 0x03, "role 00, 01 or 10", "role 11")


@rule("ZN-HLO-010", Hello)
@rule("ZN-SCT-018", Scout)
def version_of_scouting_is_9(message: Hello | Scout, talk: Talk) -> None:
    del talk
    check(message.fields.get("version") == PROTOCOL_VERSION, "version 0x09", "another")
