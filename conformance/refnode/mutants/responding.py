"""Mutants of what a node says and does when it is the one that connects."""

from __future__ import annotations

from conformance.refnode.mutants.registry import Bent, Memory, mutant
from conformance.router.policy import RouterPolicy
from conformance.session.policy import Policy
from scapy_layers.codes import WhatAmI
from scapy_layers.declarations import DeclareQueryable, DeclareSubscriber, DeclareToken
from scapy_layers.extensions import (
    AuthInitAck,
    AuthOpenAck,
    MultiLinkAck,
    MultiLinkInitAck,
    MultiLinkOpenSyn,
    NodeId,
)
from scapy_layers.message import Extension, Message, UnknownExtension
from scapy_layers.network import Declare, Response, ResponseFinal
from scapy_layers.transport import Init, Open

# INIT ---------------------------------------------------------------------------------------------------


@mutant("ZN-INIT-012")
class FallsBackToSmallBatchesWithoutS(Policy):
    def sizes_unsaid(self, proposed: tuple[int, int, int]) -> tuple[int, int, int]:
        fsn, rid, _ = proposed
        return fsn, rid, 256


@mutant("ZN-INIT-028", of=Init)
def adds_a_cookie_to_init_syn(message: Init, _: Memory) -> Bent:
    if message.value("A"):
        return message
    message.extensions, message.Z = [], None
    return bytes(message) + b"\x02ab"


@mutant("ZN-INIT-048b", "ZN-INIT-027", hears=Init)
def overlooks_the_batch_size_of_init_ack(message: Init, _: Memory) -> Bent:
    if message.value("A") and message.value("S"):
        message.batch_size = 65_535
    return message


# OPEN ---------------------------------------------------------------------------------------------------


@mutant("ZN-OPEN-025b", of=Open)
def makes_the_extensions_of_open_syn_mandatory(message: Open, _: Memory) -> Bent:
    if not message.value("A"):
        for extension in message.extensions or []:
            extension.M = 1
    return message


# Behind the handshake -------------------------------------------------------------------------------------


@mutant("ZN-RTE-022")
class NeverAsks(RouterPolicy):
    def asks_on_joining(self, ours: int, theirs: int) -> bool:
        return False


# Between nodes --------------------------------------------------------------------------------------------


@mutant("ZN-RTE-004b")
class TellsNoRouter(RouterPolicy):
    def told_to_network(self, whatami: int) -> bool:
        return whatami != WhatAmI.ROUTER


@mutant("ZN-RTE-008", of=(Init, Declare))
def passes_nothing_on_as_a_peer(message: Init | Declare, memory: Memory) -> Bent:
    if isinstance(message, Init):
        memory["peer"] = message.whatami == WhatAmI.PEER
        return message
    tells = isinstance(message.body, DeclareSubscriber | DeclareQueryable | DeclareToken)
    return None if memory["peer"] and tells else message


@mutant("ZN-RTE-010", of=Declare)
def names_the_forwarder_of_declarations_without_a_number(message: Declare, _: Memory) -> Bent:
    chain = message.extensions or []
    message.extensions = [UnknownExtension(ext_id=3) if isinstance(e, NodeId) else e for e in chain]
    return message


@mutant("ZN-RTE-018", hears=(Init, Response, ResponseFinal))
def forgets_queries_that_it_passed_to_a_router(
    message: Init | Response | ResponseFinal, memory: Memory
) -> Bent:
    if isinstance(message, Init):
        memory["router"] = message.whatami == WhatAmI.ROUTER
    elif memory["router"]:
        message.request_id ^= 0x4000
    return message


# Authentication -------------------------------------------------------------------------------------------


def _as_unit(message: Init | Open, auth: type[Extension]) -> Message:
    chain = message.extensions or []
    message.extensions = [UnknownExtension(ext_id=3) if isinstance(ext, auth) else ext for ext in chain]
    return message


@mutant("ZN-INIT-036", of=Init)
def asks_for_the_password_without_a_challenge(message: Init, _: Memory) -> Bent:
    return _as_unit(message, AuthInitAck)


@mutant("ZN-OPEN-020", of=Open)
def acknowledges_the_password_as_unit(message: Open, _: Memory) -> Bent:
    return _as_unit(message, AuthOpenAck)


# Several links --------------------------------------------------------------------------------------------


@mutant("ZN-INIT-037", of=Init)
def answers_multilink_as_unit(message: Init, _: Memory) -> Bent:
    chain = message.extensions or []
    message.extensions = [UnknownExtension(ext_id=4) if isinstance(e, MultiLinkInitAck) else e for e in chain]
    return message


@mutant("ZN-OPEN-021b", of=Open)
def acknowledges_multilink_as_zbuf(message: Open, _: Memory) -> Bent:
    nonce = MultiLinkOpenSyn(nonce=b"nonce")
    message.extensions = [nonce if isinstance(e, MultiLinkAck) else e for e in message.extensions or []]
    return message


@mutant("ZN-CLS-003")
class EndsOneLinkWhateverCloseSays(Policy):
    def ends_all_links(self, *, session: bool) -> bool:
        return False


@mutant("ZN-CLS-004")
class EndsAllLinksWhateverCloseSays(Policy):
    def ends_all_links(self, *, session: bool) -> bool:
        return True


@mutant("ZN-KA-106")
class EndsAllLinksWithTheLeaseOfOne(Policy):
    def expiry_ends_all_links(self) -> bool:
        return True
