"""Mutants of routes: where publications, queries, replies and declarations go, and what becomes of them on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from conformance.refnode.mutants.registry import Bent, Memory, mutant
from conformance.refnode.mutants.routing import with_put
from conformance.router.policy import Q, RouterPolicy
from conformance.session.policy import Policy
from scapy_layers.data import Del, Put
from scapy_layers.declarations import (
    DeclareFinal,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    UndeclareSubscriber,
)
from scapy_layers.extensions import DelAttachment, PutAttachment, QoS, QueryAttachment, QueryBody
from scapy_layers.keyexpr import includes
from scapy_layers.message import Message
from scapy_layers.network import Declare, Interest, Push, Request, ResponseFinal
from scapy_layers.transport import Frame

CONFIGURED = b"harness"
"""First chunk of the keys that a node with fixed routes knows."""


# What becomes of a publication ------------------------------------------------------------------------


@mutant("ZN-NET-001b", of=Frame)
def sends_single_deletes_outside_frame(message: Frame, _: Memory) -> Bent:
    inside = message.messages
    bare = len(inside) == 1 and isinstance(inside[0], Push) and isinstance(inside[0].body, Del)
    return inside[0] if bare else message


def with_qos(message: Message, **bits: int) -> Message:
    """Sets bits of the QoS of a message that has one."""
    for extension in message.extensions or []:
        if isinstance(extension, QoS):
            for name, value in bits.items():
                setattr(extension, name, value)
    return message


@mutant("ZN-NET-007", of=Push)
def clears_block(message: Push, _: Memory) -> Bent:
    return with_qos(message, D=0)


@mutant("ZN-NET-008b", of=Push)
def clears_express(message: Push, _: Memory) -> Bent:
    return with_qos(message, E=0)


@mutant("ZN-PUT-003", of=Push)
def drops_the_schema(message: Push, _: Memory) -> Bent:
    def change(put: Put) -> None:
        if put.value("E"):
            put.schema = None
            put.S = None

    return with_put(message, change)


@mutant("ZN-DATA-002", "ZN-PUT-004", of=(Push, Request))
def cuts_attachments_at_255_bytes(message: Push | Request, _: Memory) -> Bent:
    for extension in message.body.extensions or []:
        if isinstance(extension, PutAttachment | DelAttachment | QueryAttachment):
            extension.attachment = bytes(extension.attachment)[:255]
    return message


@mutant("ZN-QRY-005", "ZN-QRY-004", of=Request)
def puts_the_body_of_a_query_under_another_number(message: Request, _: Memory) -> Bent:
    for extension in message.body.extensions or []:
        if isinstance(extension, QueryBody):
            extension.ext_id = 0x0D
    return message


# Where it goes --------------------------------------------------------------------------------------------


@mutant("ZN-RTE-001")
class FloodsPublications(RouterPolicy):
    def floods(self) -> bool:
        return True


@mutant("ZN-RTE-002", hears=Push)
def routes_what_it_was_configured_for(message: Push, _: Memory) -> Bent:
    known = message.fields.get("key_scope") or bytes(message.fields.get("key_suffix") or b"").startswith(
        CONFIGURED
    )
    return bytes(message.original) if known else b""


@mutant("ZN-RTE-026")
class DeliversWhatIsIncludedOnly(RouterPolicy):
    def leads(self, declared: str, published: str) -> bool:
        return includes(declared, published)


# Queries and replies ---------------------------------------------------------------------------------------


@mutant("ZN-RSP-003")
class GivesAStrangeReplyToAnyQuery(RouterPolicy):
    def answered(self, number: int, asked: Mapping[int, Q]) -> Q | None:
        return asked.get(number) or next(iter(asked.values()), None)


@mutant("ZN-FIN-003")
class PassesLateReplies(RouterPolicy):
    def __init__(self) -> None:
        self._known: dict[int, Any] = {}

    def answered(self, number: int, asked: Mapping[int, Q]) -> Q | None:
        query = asked.get(number)
        if query is not None:
            self._known[number] = query
        late: Q | None = self._known.get(number)
        return late


@mutant("ZN-FIN-005")
class LetsAnUnansweredQueryTimeOutBesideOthers(RouterPolicy):
    def ends_at_once(self, others: int) -> bool:
        return not others


@mutant("ZN-RTE-017")
class TellsEverybodyOfReplies(RouterPolicy):
    def told_reply(self, asker: int, faces: Iterable[int]) -> Iterable[int]:
        return tuple(faces)


@mutant("ZN-RTE-019", "ZN-FIN-004")
class FinishesBeforeTheLast(RouterPolicy):
    def finished(self, waiting: int) -> bool:
        return waiting <= 1


# Declarations and interests -------------------------------------------------------------------------------------


@mutant("ZN-RTE-003", "ZN-DCL-101", "ZN-DCL-105", of=Declare)
def keeps_queryables_to_itself(message: Declare, _: Memory) -> Bent:
    return None if isinstance(message.body, DeclareQueryable) else message


@mutant("ZN-RTE-009", "ZN-RTE-007", of=ResponseFinal, hears=(Declare, Interest))
def tells_tokens_back_to_whoever_has_an_interest(message: Message, memory: Memory) -> Bent:
    if isinstance(message, ResponseFinal):
        echo = memory.pop("echo", None)
        return message if echo is None or "asked" not in memory else [echo, message]
    if isinstance(message, Interest):
        memory["asked"] = True
    elif isinstance(message.fields.get("body"), DeclareToken):
        memory["echo"] = bytes(message.original)
    return bytes(message.original)


@mutant("ZN-RTE-023", "ZN-INT-103", "ZN-INT-106", of=Declare)
def lists_one_declaration_only(message: Declare, memory: Memory) -> Bent:
    if not message.value("I") or isinstance(message.body, DeclareFinal):
        return message
    listed = memory.setdefault("listed", set())
    kind = (message.interest_id, type(message.body))
    if kind in listed:
        return None
    listed.add(kind)
    return message


@mutant("ZN-RTE-024", of=Declare)
def closes_no_empty_list(message: Declare, memory: Memory) -> Bent:
    listed = memory.setdefault("listed", set())
    if message.value("I"):
        if isinstance(message.body, DeclareFinal):
            return message if message.interest_id in listed else None
        listed.add(message.interest_id)
    return message


@mutant("ZN-CLS-104", of=Declare)
def takes_everything_back_with_the_first(message: Declare, memory: Memory) -> Bent:
    told = memory.setdefault("told", set())
    if isinstance(message.body, DeclareSubscriber):
        told.add(message.body.entity_id)
    if not isinstance(message.body, UndeclareSubscriber):
        return message
    told.discard(message.body.entity_id)
    return [message, *(Declare(body=UndeclareSubscriber(entity_id=number)) for number in sorted(told))]


@mutant("ZN-KEX-102", of=Declare)
def spells_keys_with_stars_to_spare(message: Declare, _: Memory) -> Bent:
    body = message.body
    if isinstance(body, DeclareSubscriber) and "/**/" in str(body.key_suffix):
        body.key_suffix = str(body.key_suffix).replace("/**/", "/**/**/")
    return message


# Lease ----------------------------------------------------------------------------------------------------------


@mutant("ZN-KA-104", "ZN-OPEN-012", "ZN-OPEN-013", "ZN-OPEN-014", "ZN-OPEN-004", "ZN-OPEN-016", "ZN-KA-105")
class WaitsForTwoLeases(Policy):
    def effective_lease(self, ours: float, theirs: float) -> float:
        return 2 * super().effective_lease(ours, theirs)
