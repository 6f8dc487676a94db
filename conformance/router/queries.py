"""Open queries: who asked, who still has to answer, and when that has taken too long."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from conformance.router.policy import RouterPolicy
from conformance.router.relay import made
from conformance.router.tables import Neighbour
from scapy_layers.data import Err, Reply
from scapy_layers.extensions import ResponderId
from scapy_layers.message import Extension, Message
from scapy_layers.network import Response, ResponseFinal


class Asking(NamedTuple):
    """What makes a REQUEST for one target.

    Attributes:
        face: The target.
        make: Returns the REQUEST with an id.
    """

    face: int
    make: Callable[[int], Message]


class Query:
    """One open query.

    Attributes:
        asker: The face that asked.
        request_id: The asker's id.
        quality: QoS of the query, for what is answered by ourselves.
        reliable: Lane of the query.
        priority: Lane of the query.
        budget: Most replies; None or 0 for any number.
        replies: How many there were.
        deadline: When the wait is over.
        asked: Targets that have not finished, each with our id there.
        parked: Targets that wait for an id.
    """

    __slots__ = (
        "asked",
        "asker",
        "budget",
        "deadline",
        "number",
        "parked",
        "priority",
        "quality",
        "reliable",
        "replies",
        "request_id",
    )

    def __init__(
        self,
        asker: int,
        request_id: int,
        quality: list[Extension],
        deadline: float,
        *,
        reliable: bool,
        priority: int,
        budget: int | None,
    ) -> None:
        self.number = 0
        self.asker = asker
        self.request_id = request_id
        self.quality = quality
        self.reliable = reliable
        self.priority = priority
        self.budget = budget
        self.replies = 0
        self.deadline = deadline
        self.asked: dict[tuple[int, int], None] = {}
        self.parked: set[int] = set()


_RESTING = 4096
"""Ids that rest before one of them is used again, where there are others: late answers may still bear them."""

_AT_ONCE = 1000
"""Queries that are ended in one go when their time is over; whoever else has something to say comes in between."""


class _Line:
    """Our ids at one face: which are in use, and what waits for one."""

    __slots__ = ("free", "fresh", "open", "parked")

    def __init__(self) -> None:
        self.fresh = 0
        self.free: deque[int] = deque()
        self.open: dict[int, Query] = {}
        self.parked: deque[tuple[Query, Asking]] = deque()


class Queries:
    """All open queries, and our request ids at each face."""

    def __init__(
        self,
        neighbours: dict[int, Neighbour],
        policy: RouterPolicy,
        send: Callable[[int, Message, bool, int], None],
    ) -> None:
        self._neighbours = neighbours
        self._policy = policy
        self._send = send
        self._open: dict[int, Query] = {}
        self._lines: dict[int, _Line] = {}
        self._of_asker: dict[int, dict[int, Query]] = {}
        self._deadlines: list[tuple[float, int]] = []
        self._count = 0

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    def of(self, asker: int) -> int:
        """Returns how many of one face are open."""
        return len(self._of_asker.get(asker, ()))

    # Questions --------------------------------------------------------------------------------------

    def ask(self, query: Query, targets: list[Asking]) -> None:
        """Opens a query and asks its targets; without any it ends at once."""
        if not targets and self._policy.ends_at_once(len(self._open)):
            self._say_final(query)
            return
        self._count += 1
        query.number = self._count
        self._open[query.number] = query
        self._of_asker.setdefault(query.asker, {})[query.number] = query
        heapq.heappush(self._deadlines, (query.deadline, query.number))
        for asking in targets:
            line = self._lines.get(asking.face)
            if line is None:
                line = self._lines[asking.face] = _Line()
            if line.parked or not self._ask_one(line, query, asking):
                line.parked.append((query, asking))
                query.parked.add(asking.face)

    def _ask_one(self, line: _Line, query: Query, asking: Asking) -> bool:
        """Asks one target; tells whether there was an id for it."""
        ids = self._policy.request_ids(self._neighbours[asking.face].rid)
        if len(line.open) >= ids:
            return False
        if line.fresh < ids and len(line.free) < _RESTING:
            number = line.fresh
            line.fresh += 1
        else:
            number = line.free.popleft()
        line.open[number] = query
        query.asked[asking.face, number] = None
        self._send(asking.face, asking.make(number), query.reliable, query.priority)
        return True

    # Answers ----------------------------------------------------------------------------------------

    def asked_with(self, face: int, number: int) -> Query | None:
        """Returns the query that a face was asked with an id of ours."""
        line = self._lines.get(face)
        return None if line is None else self._policy.answered(number, line.open)

    def reply(self, query: Query, response: Message, *, reliable: bool, priority: int) -> None:
        """Passes a reply on to the asker, if it wants more."""
        if isinstance(response.fields.get("body"), Reply):
            if not self._policy.within_budget(query.replies, query.budget):
                return
            query.replies += 1
        for face in self._policy.told_reply(query.asker, self._neighbours):
            self._send(face, response, reliable, priority)

    def finished(self, face: int, number: int) -> bool:
        """Notes that a target has finished; tells whether it was asked with that id."""
        line = self._lines.get(face)
        query = None if line is None else line.open.get(number)
        if line is None or query is None:
            return False
        del query.asked[face, number]
        self._free(face, line, number)
        self._maybe_over(query)
        return True

    def _free(self, face: int, line: _Line, number: int) -> None:
        """Takes an id back and gives it to whoever waits for one."""
        del line.open[number]
        line.free.append(number)
        while line.parked:
            query, asking = line.parked[0]
            if query.number in self._open and face in query.parked:
                if not self._ask_one(line, query, asking):
                    return
                query.parked.discard(face)
            line.parked.popleft()

    def _maybe_over(self, query: Query) -> None:
        if query.number in self._open and self._policy.finished(len(query.asked) + len(query.parked)):
            self._over(query)

    def _over(self, query: Query) -> None:
        """Ends a query with the one RESPONSE_FINAL."""
        of_asker = self._of_asker[query.asker]
        del of_asker[query.number]
        if not of_asker:
            del self._of_asker[query.asker]
        del self._open[query.number]
        self._say_final(query)
        self._give_back(query)

    def _give_back(self, query: Query) -> None:
        """Gives back the ids of a query that is over; answers that still come mean nothing any more."""
        for face, number in list(query.asked):
            line = self._lines.get(face)
            if line is not None:
                self._free(face, line, number)
        query.asked.clear()
        query.parked.clear()

    def _say_final(self, query: Query) -> None:
        fields = {"request_id": query.request_id, "extensions": query.quality}
        self._send(query.asker, made(ResponseFinal, fields), query.reliable, query.priority)

    # Sessions and time --------------------------------------------------------------------------------

    def closed(self, face: int) -> None:
        """A session has ended: its own queries have nobody to answer to, and it will not answer those of others."""
        line = self._lines.pop(face, None)
        own = self._of_asker.pop(face, {})
        for number in own:
            del self._open[number]
        # Only now, or the ids of some would go to others of the same asker.
        for query in own.values():
            self._give_back(query)
        if line is None:
            return
        over: dict[int, Query] = {}
        for number, query in line.open.items():
            if self._policy.gone_is_finished():
                query.asked.pop((face, number), None)
                over[query.number] = query
        for query, _ in line.parked:
            query.parked.discard(face)
            over[query.number] = query
        for query in over.values():
            self._maybe_over(query)

    def next_deadline(self) -> float | None:
        """Returns when the next wait is over."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][1] not in self._open:
            heapq.heappop(deadlines)
        if len(deadlines) > 1024 + 2 * len(self._open):
            # Most queries end long before; what is left of them must not pile up.
            self._deadlines = [one for one in deadlines if one[1] in self._open]
            heapq.heapify(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def tick(self, now: float) -> None:
        """Ends the queries whose time is over; when there are many, the next deadline is due already."""
        for _ in range(_AT_ONCE):
            deadline = self.next_deadline()
            if deadline is None or deadline > now:
                return
            _, number = heapq.heappop(self._deadlines)
            query = self._open[number]
            text = self._policy.timeout_error()
            if text is not None:
                for face, _ in query.asked:
                    self._send(query.asker, self._timeout(query, face, text), query.reliable, query.priority)
            self._over(query)

    def _timeout(self, query: Query, face: int, text: bytes) -> Message:
        """Returns the ERR that real routers send for a queryable that did not finish in time; it has no key."""
        neighbour = self._neighbours.get(face)
        chain: list[Extension] = []
        if neighbour is not None:
            more = {"Z": 1} if query.quality else {}
            chain.append(made(ResponderId, {**more, "zid": neighbour.zid, "eid": 0}))
        chain += query.quality
        body = made(Err, {"data": text})
        return made(
            Response,
            {"M": 1, "request_id": query.request_id, "key_scope": 0, "extensions": chain, "body": body},
        )
