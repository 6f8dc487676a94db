"""Where a PUSH and a REQUEST go."""

from __future__ import annotations

from conformance.router.policy import Candidate, RouterPolicy
from conformance.router.tables import Entity, Holder, Records
from conformance.router.trees import Trees
from scapy_layers.keyexpr import is_valid

_LONG = 512
"""Characters of a key up to which its route is remembered."""

Route = tuple[int, ...] | None
"""Faces in order; None for what is no key."""


def is_key(key: str, policy: RouterPolicy) -> bool:
    """Tells whether a text is a key expression, and none that takes long to compare."""
    short = key.count("/") < policy.most_chunks() and key.count("*") <= policy.most_stars()
    return short and is_valid(key)


class Routes:
    """Finds the faces behind which somebody has declared what a key meets, and remembers that until it changes."""

    def __init__(self, records: Records, trees: Trees, policy: RouterPolicy) -> None:
        self._records = records
        self._trees = trees
        self._policy = policy
        self._known: dict[tuple[bytes, str], Route] = {}

    def forget(self) -> None:
        """Forgets all routes: a declaration or the network has changed."""
        self._known.clear()

    def of_push(self, origin: bytes, key: str) -> Route:
        """Returns the faces that get a publication, the one it came over included if it subscribes."""
        known = self._known.get((origin, key), ())
        if known or (origin, key) in self._known:
            return known
        route = self._find(origin, key) if is_key(key, self._policy) else None
        if len(key) <= _LONG:
            if len(self._known) >= self._policy.most_routes():
                self._known.clear()
            self._known[origin, key] = route
        return route

    def _find(self, origin: bytes, key: str) -> Route:
        faces: set[int] = set()
        for record in self._records.matching(Entity.SUBSCRIBER, key):
            if not self._policy.leads(record.key, key):
                continue
            for holder in record.holders:
                face = self._towards(origin, holder)
                if face is not None:
                    faces.add(face)
        return tuple(sorted(faces))

    def of_request(self, origin: bytes, key: str, asker: int) -> list[Candidate]:
        """Returns the faces behind which a queryable meets a key, each once, the asker's left out."""
        found: dict[int, Candidate] = {}
        for record in self._records.matching(Entity.QUERYABLE, key):
            whole: bool | None = None
            for holder in record.holders:
                info = record.info(holder)
                face = self._towards(origin, holder)
                if info is None or face is None or face == asker:
                    continue
                if info.complete and whole is None:
                    whole = self._policy.complete_for(record.key, key)
                complete = info.complete and bool(whole)
                here, known = Candidate(face, complete, info.distance), found.get(face)
                # Complete is better, then near: one face can have several queryables.
                if known is None or (here.complete, -here.distance) > (known.complete, -known.distance):
                    found[face] = here
        return [found[face] for face in sorted(found)]

    def _towards(self, origin: bytes, holder: Holder) -> int | None:
        """Returns the face over which a holder is reached from here, when the message began at a node."""
        if isinstance(holder, int):
            return holder
        return self._trees.toward(origin, holder)
