"""Mutants of network messages: what the router decides, and what becomes of a message on its way out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from conformance.refnode.mutants.handshake import flipped
from conformance.refnode.mutants.registry import Bent, Memory, mutant
from conformance.router.policy import Candidate, RouterPolicy
from scapy_layers.codes import InterestMode, QueryTarget, WhatAmI
from scapy_layers.data import Del, Err, Put, Reply
from scapy_layers.declarations import (
    DeclareFinal,
    DeclareQueryable,
    DeclareSubscriber,
    DeclareToken,
    UndeclareSubscriber,
    UndeclareToken,
)
from scapy_layers.extensions import (
    DelAttachment,
    NodeId,
    PutAttachment,
    QoS,
    QueryableInfo,
    QueryBody,
    ResponderId,
    SourceInfo,
    Timestamp,
)
from scapy_layers.message import Message
from scapy_layers.network import Declare, Push, Request, Response, ResponseFinal


def without(message: Message, *classes: type[Message] | type) -> Message:
    """Takes extensions out of a message."""
    message.extensions = [each for each in message.extensions or [] if not isinstance(each, classes)]
    for each in message.extensions:
        # Whether more follow is no longer as it was.
        each.Z = None
    message.Z = None
    return message


def with_put(message: Push, change: Callable[[Put], None]) -> Push:
    """Changes the PUT inside a PUSH."""
    if isinstance(message.body, Put):
        change(message.body)
    return message


# PUSH, PUT, DEL ------------------------------------------------------------------------------------


@mutant("ZN-PUSH-001", "ZN-PUSH-002", of=Push)
def forwards_without_the_suffix(message: Push, _: Memory) -> Bent:
    message.N = 0
    return message


@mutant("ZN-RTE-012", "ZN-RTE-010")
class ForwardsWithoutNodeId(RouterPolicy):
    def node_id(self, source: int) -> int | None:
        return None


@mutant("ZN-NET-004", of=Push)
def makes_qos_mandatory(message: Push, _: Memory) -> Bent:
    for extension in message.extensions or []:
        if isinstance(extension, QoS):
            extension.M = 1
    return message


@mutant("ZN-NET-005", "ZN-NET-007", "ZN-NET-008", of=Push)
def forwards_without_qos(message: Push, _: Memory) -> Bent:
    return without(message, QoS)


@mutant("ZN-NET-013", of=Push)
def forwards_without_timestamp(message: Push, _: Memory) -> Bent:
    return without(message, Timestamp)


@mutant("ZN-PUT-001", "ZN-PUT-003", of=Push)
def drops_the_encoding(message: Push, _: Memory) -> Bent:
    def change(put: Put) -> None:
        put.E = 0

    return with_put(message, change)


@mutant("ZN-PUT-002", "ZN-PUT-005", of=Push)
def changes_the_payload(message: Push, _: Memory) -> Bent:
    def change(put: Put) -> None:
        put.data = bytes(put.data) + b"!"

    return with_put(message, change)


@mutant("ZN-PUT-004", "ZN-DATA-002", of=Push)
def drops_the_attachment(message: Push, _: Memory) -> Bent:
    def change(put: Put) -> None:
        without(put, PutAttachment)

    return with_put(message, change)


@mutant("ZN-DEL-001", "ZN-PUSH-006", of=Push)
def turns_del_into_put(message: Push, _: Memory) -> Bent:
    if isinstance(message.body, Del):
        message.body = Put()
    return message


@mutant("ZN-DEL-002", of=Push)
def drops_what_stands_on_del(message: Push, _: Memory) -> Bent:
    if isinstance(message.body, Del):
        without(message.body, SourceInfo, DelAttachment)
    return message


@mutant("ZN-RTE-011", of=Push)
def delivers_twice(message: Push, _: Memory) -> Bent:
    return [message, message]


@mutant("ZN-RTE-013")
class EchoesPublications(RouterPolicy):
    def returned_to_source(self) -> bool:
        return True


# DECLARE ------------------------------------------------------------------------------------------


@mutant("ZN-DCL-001", of=Declare)
def sets_bit_6_of_declare(message: Declare, _: Memory) -> Bent:
    return flipped(message, 0, 0x40)


@mutant("ZN-DCL-002", of=Declare)
def always_writes_an_interest_id(message: Declare, _: Memory) -> Bent:
    if not message.value("I"):
        message.I, message.interest_id = 1, 1
    return message


@mutant("ZN-DCL-101", "ZN-INT-004", of=Declare)
def swaps_queryables_and_tokens(message: Declare, _: Memory) -> Bent:
    body = message.body
    swap = {DeclareQueryable: DeclareToken, DeclareToken: DeclareQueryable}
    if type(body) in swap:
        fields = {name: getattr(body, name) for name in ("entity_id", "M", "key_scope", "key_suffix")}
        message.body = swap[type(body)](**fields)
    return message


@mutant("ZN-DCL-105", of=Declare)
def drops_queryable_info(message: Declare, _: Memory) -> Bent:
    if isinstance(message.body, DeclareQueryable):
        without(message.body, QueryableInfo)
    return message


@mutant("ZN-DCL-106", "ZN-CLS-104", "ZN-KA-105")
class NeverUndeclaresWhatIsLost(RouterPolicy):
    def undeclares_lost(self, *, expired: bool) -> bool:
        return False


@mutant("ZN-KA-105")
class NeverUndeclaresWhatASilentSessionDeclared(RouterPolicy):
    def undeclares_lost(self, *, expired: bool) -> bool:
        return not expired


@mutant("ZN-DCL-106b", of=Declare)
def never_undeclares(message: Declare, _: Memory) -> Bent:
    return None if isinstance(message.body, UndeclareSubscriber | UndeclareToken) else message


@mutant("ZN-RTE-007", "ZN-RTE-009")
class EchoesDeclarations(RouterPolicy):
    def told_of_own(self) -> bool:
        return True


@mutant("ZN-RTE-005b", "ZN-RTE-006", of=Declare)
def tells_of_no_subscriber(message: Declare, _: Memory) -> Bent:
    return None if isinstance(message.body, DeclareSubscriber) else message


@mutant("ZN-RTE-005")
class LeavesPeersOut(RouterPolicy):
    def told_unasked(self, whatami: int) -> bool:
        return whatami != WhatAmI.PEER


@mutant("ZN-RTE-006")
class LeavesClientsOut(RouterPolicy):
    def told_unasked(self, whatami: int) -> bool:
        return whatami != WhatAmI.CLIENT


@mutant("ZN-RTE-005c", "ZN-RTE-006")
class TellsNobodyUnasked(RouterPolicy):
    def told_unasked(self, whatami: int) -> bool:
        return False


# INTEREST -----------------------------------------------------------------------------------------


@mutant("ZN-INT-002", of=Declare)
def changes_the_interest_id(message: Declare, _: Memory) -> Bent:
    if message.value("I"):
        message.interest_id = message.interest_id + 1 & 0xFF
    return message


@mutant("ZN-INT-101", "ZN-INT-103", "ZN-RTE-024", of=Declare)
def sends_no_d_final(message: Declare, _: Memory) -> Bent:
    return None if isinstance(message.body, DeclareFinal) else message


@mutant("ZN-INT-102")
class ClosesTheListOfFuture(RouterPolicy):
    def closes_list(self, mode: int) -> bool:
        return mode != InterestMode.FINAL


@mutant("ZN-INT-103")
class TellsNoChangesAfterTheList(RouterPolicy):
    def tells_changes(self, mode: int) -> bool:
        return mode == InterestMode.FUTURE


@mutant("ZN-INT-106")
class NeverAggregates(RouterPolicy):
    def aggregates(self, token: bool) -> bool:
        return False


# REQUEST and QUERY ------------------------------------------------------------------------------------


@mutant("ZN-REQ-001", of=Request)
def forwards_queries_without_the_suffix(message: Request, _: Memory) -> Bent:
    message.N = 0
    return message


@mutant("ZN-REQ-002", of=(Response, ResponseFinal))
def cuts_the_request_id(message: Response | ResponseFinal, _: Memory) -> Bent:
    message.request_id &= 0xFF
    return message


@mutant("ZN-REQ-006", of=Request)
def gives_every_query_one_id(message: Request, _: Memory) -> Bent:
    message.request_id = 42
    return message


@mutant("ZN-REQ-101")
class CountsRequestIdsBeyondTheirRange(RouterPolicy):
    def request_ids(self, rid: int) -> int:
        return 1 << 32


@mutant("ZN-REQ-102", of=Request)
def makes_every_extension_mandatory(message: Request, _: Memory) -> Bent:
    for extension in message.extensions or []:
        extension.M = 1
    return message


@mutant("ZN-REQ-103")
class IgnoresTimeout(RouterPolicy):
    def timeout(self, milliseconds: int) -> float:
        return 3600.0


@mutant("ZN-REQ-104")
class IgnoresBudget(RouterPolicy):
    def within_budget(self, replies: int, budget: int | None) -> bool:
        return True


@mutant("ZN-RTE-014")
class AsksTheFirstOfAll(RouterPolicy):
    def targets(self, target: int, candidates: Sequence[Candidate]) -> list[int]:
        asked = super().targets(target, candidates)
        return asked[:1] if target == QueryTarget.ALL else asked


@mutant("ZN-RTE-015")
class AsksAllForTheBest(RouterPolicy):
    def targets(self, target: int, candidates: Sequence[Candidate]) -> list[int]:
        best = target == QueryTarget.BEST_MATCHING
        return super().targets(QueryTarget.ALL if best else target, candidates)


@mutant("ZN-RTE-016")
class AsksIncompleteQueryablesToo(RouterPolicy):
    def targets(self, target: int, candidates: Sequence[Candidate]) -> list[int]:
        return super().targets(min(target, 1), candidates)


@mutant("ZN-RTE-021")
class HangsWhenAQueryableLeaves(RouterPolicy):
    def gone_is_finished(self) -> bool:
        return False


@mutant("ZN-QRY-001", "ZN-QRY-002", of=Request)
def drops_consolidation(message: Request, _: Memory) -> Bent:
    message.body.C = 0
    return message


@mutant("ZN-QRY-003", of=Request)
def drops_parameters(message: Request, _: Memory) -> Bent:
    message.body.P = 0
    return message


@mutant("ZN-QRY-004", "ZN-QRY-005", of=Request)
def drops_the_body_of_a_query(message: Request, _: Memory) -> Bent:
    without(message.body, QueryBody)
    return message


# RESPONSE and RESPONSE_FINAL --------------------------------------------------------------------------


@mutant("ZN-RSP-001", "ZN-RSP-004", of=Response)
def cuts_the_key_of_replies(message: Response, _: Memory) -> Bent:
    message.key_suffix = str(message.key_suffix).rpartition("/")[0]
    return message


@mutant("ZN-RSP-002", of=Response)
def gives_replies_to_another_query(message: Response, _: Memory) -> Bent:
    message.request_id ^= 0x40
    return message


@mutant("ZN-RSP-006", "ZN-RSP-005", of=Response)
def drops_responder_id(message: Response, _: Memory) -> Bent:
    return without(message, ResponderId)


@mutant("ZN-RSP-101", of=Response)
def passes_the_first_reply_only(message: Response, memory: Memory) -> Bent:
    seen = memory.setdefault("replied", set())
    if message.request_id in seen:
        return None
    seen.add(message.request_id)
    return message


@mutant("ZN-RPL-001", "ZN-RSP-007", of=Response)
def drops_del_replies(message: Response, _: Memory) -> Bent:
    is_del = isinstance(message.body, Reply) and isinstance(message.body.body, Del)
    return None if is_del else message


@mutant("ZN-RPL-002", of=Response)
def drops_consolidation_of_replies(message: Response, _: Memory) -> Bent:
    if isinstance(message.body, Reply):
        message.body.C = 0
    return message


@mutant("ZN-ERR-001", of=Response)
def turns_err_into_an_empty_reply(message: Response, _: Memory) -> Bent:
    if isinstance(message.body, Err):
        message.body = Reply(body=Put())
    return message


@mutant("ZN-FIN-001", of=ResponseFinal)
def sets_bit_5_of_response_final(message: ResponseFinal, _: Memory) -> Bent:
    return flipped(message, 0, 0x20)


@mutant("ZN-FIN-002", of=ResponseFinal)
def finishes_with_another_id(message: ResponseFinal, _: Memory) -> Bent:
    message.request_id ^= 0x4000
    return message


@mutant("ZN-FIN-004", "ZN-RTE-019", "ZN-RTE-020")
class FinishesWithTheFirst(RouterPolicy):
    def finished(self, waiting: int) -> bool:
        return True


@mutant("ZN-FIN-004b", of=ResponseFinal)
def finishes_twice(message: ResponseFinal, _: Memory) -> Bent:
    return [message, message]


@mutant("ZN-RTE-010b", of=Push)
def names_the_wrong_forwarder(message: Push, _: Memory) -> Bent:
    for extension in message.extensions or []:
        if isinstance(extension, NodeId):
            extension.node_id += 1
    return message
