"""What belongs together: requests and responses, declarations, interests. Spec: Message Reference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from scapy_layers.conversation.session import Session
from scapy_layers.conversation.table import Table
from scapy_layers.limits import Limits

ExchangeKind = Literal["query", "declaration", "interest", "scout"]

COST = 256
"""Bytes of an exchange besides its entry in the table and its key."""

ANSWER = 128
"""Bytes that the note of one answer costs."""


class Answer(NamedTuple):
    """Packet number and time (ns) of an answer."""

    number: int
    time: int


@dataclass(slots=True, eq=False)
class Exchange:
    """Messages that belong together. It grows while its messages are heard.

    ==============  ==================  ==================================  ==================================
    kind            begins with         answers                             ends with
    ==============  ==================  ==================================  ==================================
    ``query``       REQUEST             RESPONSE                            RESPONSE_FINAL
    ``declaration`` D_KEYEXPR ...       the same declared again             U_KEYEXPR ...
    ``interest``    INTEREST            DECLARE with its id (I)             INTEREST mode FINAL; without FUTURE
                                                                            already D_FINAL
    ``scout``       SCOUT               HELLO                               never
    ==============  ==================  ==================================  ==================================

    Attributes:
        kind: Which of these.
        id: Request id, interest id, entity id or alias number; 0 for a scout.
        keyexpr: Full key, None when there is none or it could not be resolved.
        asked: Packet number of the first message.
        asked_time: Its time, ns.
        answers: The first answers, at most ``Limits.answers``.
        answered: How many there were.
        complete: Packet number of D_FINAL: what there was at the time is told.
        future: An interest that goes on after that.
        ended: Packet number of the message that ends it.
        ended_time: Its time, ns.
    """

    kind: ExchangeKind
    id: int
    keyexpr: str | None
    asked: int
    asked_time: int
    answers: list[Answer] = field(default_factory=list)
    answered: int = 0
    complete: int | None = None
    future: bool = False
    ended: int | None = None
    ended_time: int | None = None

    def answer(self, number: int, time: int, most: int) -> bool:
        """Notes an answer; lists it as well, up to ``most``, and tells whether it does."""
        self.answered += 1
        if len(self.answers) >= most:
            return False
        self.answers.append(Answer(number, time))
        return True

    def end(self, number: int, time: int) -> None:
        """Notes the message that ends it."""
        self.ended, self.ended_time = number, time


Key = tuple[str, int, int, str]
"""What is open, by kind of thing, end, id, and the key when the id is none."""


class Exchanges:
    """What is open in all sessions."""

    def __init__(self, limits: Limits) -> None:
        self._answers = limits.answers
        self.table: Table[Key, Exchange] = Table(limits.exchanges)
        # Apart from the others, so that what is over never drives out what is open.
        self._ended: Table[Key, Exchange] = Table(limits.ended)

    def lossless(self, session: Session) -> bool:
        """Tells whether nothing of a session had to go."""
        return self.table.lossless(session.room)

    def begin(self, session: Session, key: Key, exchange: Exchange) -> Exchange | None:
        """Opens an exchange; returns the one that was open under the same id and is now replaced."""
        before = self.table.get(session.room, key)
        self._ended.pop(session.room, key)
        self.table.put(session.room, key, exchange, COST + len(exchange.keyexpr or "") + len(key[3]))
        return before

    def find(self, session: Session, key: Key) -> Exchange | None:
        """Returns what is open under an id."""
        return self.table.get(session.room, key)

    def answer(self, session: Session, key: Key, number: int, time: int) -> Exchange | None:
        """Notes an answer to what is open under an id, and returns that."""
        exchange = self.table.get(session.room, key)
        if exchange and exchange.answer(number, time, self._answers):
            self.table.charge(session.room, key, ANSWER)
        return exchange

    def end(self, session: Session, key: Key, number: int, time: int) -> Exchange | None:
        """Ends what is open under an id and returns it; the id is free again."""
        exchange = self.table.pop(session.room, key)
        if exchange:
            exchange.end(number, time)
            if exchange.kind == "query":
                size = COST + len(exchange.keyexpr or "") + ANSWER * len(exchange.answers)
                self._ended.put(session.room, key, exchange, size)
        return exchange

    def answer_late(self, session: Session, key: Key, number: int, time: int) -> Exchange | None:
        """Notes an answer to the last request of an id, which has ended already, and returns that."""
        exchange = self._ended.get(session.room, key)
        if exchange and exchange.answer(number, time, self._answers):
            self._ended.charge(session.room, key, ANSWER)
        return exchange

    def drop(self, session: Session) -> None:
        """Forgets all of a session."""
        self.table.drop(session.room)
        self._ended.drop(session.room)

    def forget(self, session: Session, key: Key) -> None:
        """Drops what is kept under an id, if there is anything."""
        self.table.pop(session.room, key)
