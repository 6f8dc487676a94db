"""Over which face each node of a network of routers is heard of, and asking there when that may have changed.

Routers know a declaration by node and key, whoever tells of it. While links change, somebody who was on the way
before may still speak, or be the only one who did: what is known then can be too much or too little for good. So
the one who is on the way now is asked for everything, and what it does not say is not so. Released routers do not
answer that; they say on their own what they think has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from conformance.router.tables import Entity, Records
from conformance.router.trees import Trees


@dataclass(slots=True)
class _Question:
    """A question that a face has not answered yet.

    Attributes:
        number: Its interest id.
        about: The nodes for whose sake it was asked.
        said: What the answer has told so far.
        again: Nodes for whose sake it has to be asked once more.
    """

    number: int
    about: set[bytes]
    said: set[tuple[Entity, bytes, str]] = field(default_factory=set)
    again: set[bytes] = field(default_factory=set)


class Upstream:
    """Keeps what is known of the nodes of the network in step with who is next on the way to them.

    Args:
        trees: The network.
        records: What is declared.
        ask: Sends the question for all declarations over a face, with an interest id.
        drop: Forgets what a node declared under a key.
    """

    def __init__(
        self,
        trees: Trees,
        records: Records,
        ask: Callable[[int, int], None],
        drop: Callable[[Entity, str, bytes], None],
    ) -> None:
        self._trees = trees
        self._records = records
        self._ask = ask
        self._drop = drop
        self._faces: dict[bytes, int] = {}
        self._lost: dict[bytes, set[int]] = {}
        self._questions: dict[int, _Question] = {}
        self._asked = 0

    def heard(self, face: int, zid: bytes, source: bytes) -> None:
        """Notes that the router behind a face has spoken about a node; asks who should have, if that is another."""
        known = self._trees.upstream(source)
        if known is None:
            self._faces.setdefault(source, face)
            return
        self._faces[source] = known
        # About itself everybody speaks the truth.
        if face != known and zid != source:
            self._wonder(known, source)

    def lost(self, source: bytes, faces: Iterable[int]) -> None:
        """Notes that what a node had declared is forgotten; some of those faces may not know that it ever was lost."""
        self._faces.pop(source, None)
        self._lost[source] = set(faces)

    def closed(self, face: int) -> None:
        """Notes that a session has ended."""
        self._questions.pop(face, None)
        for faces in self._lost.values():
            faces.discard(face)

    def rearranged(self, known: Collection[bytes]) -> None:
        """Asks who is next on the way now to the nodes that are heard of from elsewhere than before.

        Args:
            known: All nodes that the network may lead to again.
        """
        for source in [source for source in self._faces if source not in self._records.of_holder]:
            del self._faces[source]
        for holder in self._records.of_holder:
            face = self._trees.upstream(holder) if isinstance(holder, bytes) else None
            if face is None or not isinstance(holder, bytes):
                continue
            before = self._faces.get(holder, face)
            self._faces[holder] = face
            if before != face:
                self._wonder(face, holder)
        for source, faces in list(self._lost.items()):
            back = self._trees.upstream(source)
            if back is not None or source not in known:
                del self._lost[source]
            if back is not None and back in faces:
                self._wonder(back, source)

    def _wonder(self, face: int, source: bytes) -> None:
        question = self._questions.get(face)
        if question is not None:
            question.again.add(source)
            return
        self._asked = self._asked % 0xFFFF_FFFF + 1
        self._questions[face] = _Question(self._asked, {source})
        self._ask(face, self._asked)

    # Answers ----------------------------------------------------------------------------------------

    def said(self, face: int, number: int, name: tuple[Entity, bytes, str]) -> None:
        """Notes a declaration that answers an interest."""
        question = self._questions.get(face)
        if question is not None and question.number == number:
            question.said.add(name)

    def finished(self, face: int, number: int) -> None:
        """Notes that an interest has been answered: what was not said is not so."""
        question = self._questions.get(face)
        if question is None or question.number != number:
            return
        del self._questions[face]
        for source in question.about:
            if self._trees.upstream(source) != face:
                continue
            for record in list(self._records.of_holder.get(source, ())):
                if (record.kind, source, record.key) not in question.said:
                    self._drop(record.kind, record.key, source)
        for source in question.again:
            upstream = self._trees.upstream(source)
            if upstream is not None:
                self._wonder(upstream, source)
