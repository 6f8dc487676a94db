"""Decisions of the router, one short method each, tagged with requirements. A mutant replaces one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from scapy_layers.codes import InterestMode, QueryTarget, Resolution, WhatAmI
from scapy_layers.keyexpr import includes

Q = TypeVar("Q")


class Candidate(NamedTuple):
    """A face behind which a queryable matches a query.

    Attributes:
        face: The face.
        complete: The queryable answers all of its key, which includes the key of the query.
        distance: Hops from here.
    """

    face: int
    complete: bool
    distance: int


class RouterPolicy:
    """What a correct router decides."""

    # Declarations ---------------------------------------------------------------------------------

    def told_unasked(self, whatami: int) -> bool:
        """ZN-RTE-005, ZN-RTE-006, ZN-RTE-008: neighbours of every role are told of all declarations."""
        del whatami
        return True

    def told_to_network(self, whatami: int) -> bool:
        """ZN-RTE-004: the nodes of the network, each of which passes it on, are told of all declarations."""
        del whatami
        return True

    def tokens_unasked(self, whatami: int) -> bool:
        """ZN-RTE-006, ZN-INT-101: whether tokens are among what a neighbour is told unasked.

        Not for clients: released ones keep what they are told, and when their application asks which tokens there are,
        they give it what they have kept and what we list, each token twice.
        """
        return whatami != WhatAmI.CLIENT

    def joining_seconds(self, whatami: int) -> float:
        """ZN-RTE-022, ZN-RTE-025: how long a neighbour that joins has time to ask with INTEREST before it is told all.

        Routers never ask.
        """
        return 0.0 if whatami == WhatAmI.ROUTER else 0.5

    def narrows(self) -> bool:
        """ZN-INT-101, ZN-INT-104: whether who asked is told what it asked for and nothing else from then on (R-40)."""
        return True

    def asks_on_joining(self, ours: int, theirs: int) -> bool:
        """ZN-RTE-022: whether we ask a new neighbour for all declarations. Real routers tell peers nothing unasked."""
        return ours == WhatAmI.PEER and theirs == WhatAmI.ROUTER

    def told_of_own(self) -> bool:
        """ZN-RTE-007, ZN-RTE-009: a declaration never goes back where it came from."""
        return False

    def farther(self, distance: int) -> int:
        """ZN-DCL-105: the distance of a queryable as told on the next hop."""
        return min(distance + 1, 0xFFFF)

    def told_complete(self, complete: bool) -> bool:
        """ZN-DCL-105: whether a queryable is told as complete."""
        return complete

    def undeclares_lost(self, *, expired: bool) -> bool:
        """ZN-DCL-106, ZN-CLS-104, ZN-KA-105: what a session declared is gone with it, however it ended."""
        del expired
        return True

    def lists_current(self, mode: int) -> bool:
        """ZN-INT-101, ZN-INT-102, ZN-INT-103: whether an interest is answered with what is declared already."""
        return mode in {InterestMode.CURRENT, InterestMode.CURRENT_FUTURE}

    def tells_changes(self, mode: int) -> bool:
        """ZN-INT-101, ZN-INT-102, ZN-INT-103: whether later changes follow."""
        return mode in {InterestMode.FUTURE, InterestMode.CURRENT_FUTURE}

    def closes_list(self, mode: int) -> bool:
        """ZN-RTE-024, ZN-INT-101, ZN-INT-102: whether D_FINAL follows."""
        return mode in {InterestMode.CURRENT, InterestMode.CURRENT_FUTURE}

    def aggregates(self, token: bool) -> bool:
        """ZN-INT-106: matches are folded into the key of the interest, tokens as real routers do it never."""
        return not token

    # Publications ---------------------------------------------------------------------------------

    def returned_to_source(self) -> bool:
        """ZN-RTE-013: a PUSH never goes back to the session it came from."""
        return False

    def node_id(self, source: int) -> int | None:
        """ZN-PUSH-005, ZN-RTE-010, ZN-RTE-012: what NodeId says on a PUSH to who is no router; None for no NodeId.

        Args:
            source: The face over which the PUSH came.
        """
        return source & 0xFFFF

    def floods(self) -> bool:
        """ZN-RTE-001: a PUSH goes only where a subscriber is."""
        return False

    def leads(self, declared: str, published: str) -> bool:
        """ZN-RTE-026: whether a subscriber gets what is published under a key that meets its own."""
        del declared, published
        return True

    def carries(self, linked: bool) -> bool:
        """ZN-RTE-011: whether publications and queries of one peer are carried to another.

        Args:
            linked: They have a link of their own, and would get everything twice.
        """
        return not linked

    # Queries --------------------------------------------------------------------------------------

    def targets(self, target: int, candidates: Sequence[Candidate]) -> list[int]:
        """ZN-RTE-014, ZN-RTE-015, ZN-RTE-016: the faces that are asked, by the target extension of a REQUEST."""
        if target == QueryTarget.ALL:
            return [one.face for one in candidates]
        if target == QueryTarget.ALL_COMPLETE:
            return [one.face for one in candidates if one.complete]
        best = min(candidates, key=lambda one: (not one.complete, one.distance, one.face), default=None)
        return [] if best is None else [best.face]

    def complete_for(self, declared: str, asked: str) -> bool:
        """ZN-RTE-016: whether a complete queryable answers all that a query asks for."""
        return includes(declared, asked)

    def request_ids(self, rid: int) -> int:
        """ZN-REQ-101: how many request ids the agreed resolution gives; the field has no more than 32 bits."""
        return 1 << min(8 << min(rid, Resolution.BITS_64), 32)

    def default_timeout(self) -> float:
        """ZN-REQ-103: seconds that a query without Timeout waits."""
        return 10.0

    def timeout(self, milliseconds: int) -> float:
        """ZN-REQ-103: seconds that a query with Timeout waits, an hour at most."""
        return min(milliseconds / 1000, 3600.0)

    def timeout_error(self) -> bytes | None:
        """ZN-REQ-103: what ERR says when a queryable did not answer in time; None for no ERR. As real routers do it."""
        return b"Timeout"

    def within_budget(self, replies: int, budget: int | None) -> bool:
        """ZN-REQ-104: whether one more reply may pass after so many."""
        return not budget or replies < budget

    def answered(self, number: int, asked: Mapping[int, Q]) -> Q | None:
        """ZN-RSP-003, ZN-FIN-003: which open query a reply belongs to; None for none, then it goes nowhere.

        Args:
            number: The id in the reply.
            asked: Open queries that its sender was asked, by id.
        """
        return asked.get(number)

    def told_reply(self, asker: int, faces: Iterable[int]) -> Iterable[int]:
        """ZN-RTE-017: the faces that get a reply."""
        del faces
        return (asker,)

    def ends_at_once(self, others: int) -> bool:
        """ZN-FIN-005: a query that nobody can answer ends at once, whatever else is open."""
        del others
        return True

    def gone_is_finished(self) -> bool:
        """ZN-RTE-021: a queryable whose session ends counts as finished."""
        return True

    def finished(self, waiting: int) -> bool:
        """ZN-FIN-004, ZN-RTE-019, ZN-RTE-020: the one RESPONSE_FINAL follows the last queryable.

        Args:
            waiting: Queryables that have not finished.
        """
        return waiting == 0

    # Limits: generous, but there is one for everything that a neighbour can make us keep ---------------

    def most_declarations(self) -> int:
        """Entities of one face."""
        return 1_000_000

    def most_aliases(self) -> int:
        """Aliases of one face; ids have 16 bits."""
        return 1 << 16

    def most_alias_characters(self) -> int:
        """Characters of all aliases of one face together."""
        return 16 << 20

    def most_key_characters(self) -> int:
        """Characters of all keys together that one holder has declared, and of those that one face is interested in."""
        return 64 << 20

    def most_chunks(self) -> int:
        """Chunks of a key: comparing two keys can take as many steps as their chunks multiplied."""
        return 1024

    def most_stars(self) -> int:
        """Asterisks of a key: each wildcard is tried along all of the other key."""
        return 128

    def most_interests(self) -> int:
        """Open interests of one face."""
        return 10_000

    def most_queries(self) -> int:
        """Open queries of all faces."""
        return 1_000_000

    def most_queries_of_asker(self) -> int:
        """Open queries of one face."""
        return 10_000

    def most_routes(self) -> int:
        """Keys whose routes are remembered."""
        return 10_000
