"""Sessions that drive a node and a model of a router side by side: the steps of test_model.py."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from conformance.expect import check
from conformance.suite.common import (
    DECLARATIONS,
    FINAL,
    Watcher,
    declare,
    listed,
    patiently,
    routes,
    undeclare,
    watcher,
)
from conformance.suite.model import Entity, Model, Participant, Things, Wish
from conformance.tester import SessionEnd, Tester
from conformance.tester.aliases import Table, resolved
from scapy_layers.codes import InterestMode, QueryTarget
from scapy_layers.data import Del, Put, Query, Reply
from scapy_layers.declarations import UndeclareKeyExpr
from scapy_layers.extensions import QoS, QueryableInfo, Target
from scapy_layers.message import Message
from scapy_layers.network import Declare, Interest, Push, Request, Response, ResponseFinal
from scapy_layers.transport import Close

MOST_SESSIONS = 4

MOST_WISHES = 2
"""Interests that a session has at the same time."""

BIG = bytes(2000)
"""Behind a value that shall not fit a batch of 300 bytes."""

MADE = {bodies[0]: kind for kind, bodies in DECLARATIONS.items()}
GONE = {bodies[1]: kind for kind, bodies in DECLARATIONS.items()}

Heard = dict[tuple[str, int], str]
"""Keys by kind and entity id."""


@dataclass(slots=True)
class Answer:
    """What comes in for an interest.

    Attributes:
        heard: What was told since it was asked, and not taken back.
        kept: Queryables that were still told when nobody but the session itself had one there any more.
    """

    heard: Heard = field(default_factory=dict)
    kept: Things = field(default_factory=set)

    def keep(self, told: Things, others: Things) -> None:
        """Notes what was told of a session's own: of queryables only, and as long as nobody else has it."""
        self.kept |= {(kind, key) for kind, key in told if kind == "queryables"}
        self.kept -= others


class Party:
    """A session, and what came in at it.

    Attributes:
        end: The session.
        pushes: Publications that nobody has looked at yet.
        requests: Queries, likewise.
        replies: Answers to queries, likewise.
        finals: Queries that have been answered to the end, once for each RESPONSE_FINAL.
        answers: To its interests, by interest id.
        names: Keys by all aliases that it ever declared.
    """

    def __init__(self, end: SessionEnd) -> None:
        self.end = end
        self.pushes: list[Push] = []
        self.requests: list[Request] = []
        self.replies: list[Response] = []
        self.finals: list[int] = []
        self.answers: dict[int, Answer] = {}
        self.names: Table = {}
        self._heard: Heard = {}
        self._read = 0

    def hear(self) -> None:
        """Sorts what came in since the last time."""
        new, self._read = self.end.inbox[self._read :], len(self.end.inbox)
        for message in (seen.message for seen in new):
            if isinstance(message, Push):
                self.pushes.append(message)
            elif isinstance(message, Request):
                self.requests.append(message)
            elif isinstance(message, Response):
                self.replies.append(message)
            elif isinstance(message, ResponseFinal):
                self.finals.append(message.request_id)
            elif isinstance(message, Declare) and type(message.body) in MADE:
                self._take(MADE[type(message.body)], message.body.entity_id, self.key(message.body))
            elif isinstance(message, Declare) and type(message.body) in GONE:
                self._take(GONE[type(message.body)], message.body.entity_id, None)

    def key(self, message: Message) -> str:
        """Returns the full key of a message.

        Whether a node goes on using an alias that was taken back is the matter of ZN-DCL-103.
        """
        return self.end.key(message) if message.value("M") else resolved(message, self.names)

    def _take(self, kind: str, number: int, key: str | None) -> None:
        for heard in (self._heard, *(answer.heard for answer in self.answers.values())):
            if key is None:
                heard.pop((kind, number), None)
            else:
                heard[kind, number] = key

    def told(self, answer: Answer) -> list[Things]:
        """Returns what it has been told of: since it asked, and since it is there.

        A node that tells all sessions of everything unasked need not list it again.
        """
        return [{(kind, key) for (kind, _), key in heard.items()} for heard in (answer.heard, self._heard)]


class Sessions:
    """Steps of some sessions with a node; after each one node and model have to agree.

    The public methods are the steps. Their numbers are counted round, and a step that has no meaning where it stands
    does nothing, so that each sequence of steps can be taken.

    Args:
        tester: Makes the sessions; begins anew, and records what is done.
    """

    def __init__(self, tester: Tester) -> None:
        tester.begin_anew()
        tester.record()
        self._tester = tester
        self._base = f"harness/{tester.word()}"
        self._model = Model()
        self._parties: dict[str, Party] = {}
        self._gone: list[bytes] = []
        self._values = 0

    def run(self, steps: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Takes steps: names of methods, with their arguments.

        Raises:
            Unmet: Node and model differ after one of them.
        """
        for name, arguments in steps:
            if self._parties or name == "join":
                getattr(self, name)(**arguments)

    # Sessions -----------------------------------------------------------------------------------------

    def join(self, offer: dict[str, Any], *, back: bool) -> None:
        """Opens a session, with a new ZenohID or that of one that has said CLOSE."""
        if len(self._parties) == MOST_SESSIONS:
            return
        zid = {"zid": self._gone.pop()} if back and self._gone else {}
        # Reading R-58: whoever still tidies up may say no at first.
        end = routes(patiently(self._tester, **offer, **zid))
        self._parties[end.name] = Party(end)
        self._model.sessions[end.name] = Participant()

    def go(self, who: int, how: str) -> None:
        """Ends a session: what it declared is gone."""
        name, _ = self._session(who)
        self._end(name, how)
        self._agree()

    def _end(self, name: str, how: str = "close") -> None:
        """Ends a session, with CLOSE or without a word, and waits until the node has noticed."""
        del self._model.sessions[name]
        end = self._parties.pop(name).end
        # Only what it declared, and others are told is gone, shows that; where there are others.
        if self._parties:
            declare(end, "subscribers", self._witness.at(name))
            self._witness.until(f"D_SUBSCRIBER {name}")
        if how == "close":
            end.send(Close(S=1))
            end.expect_end()
            self._gone.append(end.session.config.zid)
        else:
            end.abort()
        if self._parties:
            self._witness.until(f"U_SUBSCRIBER {name}")

    @cached_property
    def _witness(self) -> Watcher:
        """One more session, which is told when another one is gone."""
        witness = watcher(self._tester, f"{self._base}-gone")
        witness.ask(subscribers=1)
        witness.snapshot()
        return witness

    # Declarations ---------------------------------------------------------------------------------------

    def declare(self, who: int, kind: str, key: str, how: int | None, *, complete: bool) -> None:
        """Declares something."""
        name, end = self._session(who)
        # No page says which counts when one session has two on one key that differ in this; they never do here.
        before = [
            one for one in self._model.sessions[name].entities.values() if one[:2] == (kind, self._at(key))
        ]
        whole = before[0].complete if before else complete and kind == "queryables"
        entity = Entity(kind, self._at(key), whole)
        number = end.next_id()
        info = {"extensions": [QueryableInfo(complete=1)]} if entity.complete else {}
        body = DECLARATIONS[kind][0](entity_id=number, **self._said(name, key, how), **info)
        end.post(Declare(body=body))
        end.fence()
        self._model.sessions[name].entities[number] = entity
        self._agree()

    def take_back(self, who: int, which: int) -> None:
        """Undeclares something."""
        having = [name for name, known in self._model.sessions.items() if known.entities]
        if not having:
            return
        name = having[who % len(having)]
        entities = self._model.sessions[name].entities
        number = list(entities)[which % len(entities)]
        undeclare(self._parties[name].end, self._model.take_back(name, number).kind, number)
        self._agree()

    def name_key(self, who: int, key: str) -> None:
        """Declares an alias, not by another one: that is the matter of ZN-DCL-102."""
        name, end = self._session(who)
        number = end.next_id()
        end.declare_alias(number, self._at(key))
        end.fence()
        self._parties[name].names[number] = self._at(key)
        self._model.sessions[name].aliases[number] = self._at(key)

    def take_name_back(self, who: int, which: int) -> None:
        """Undeclares an alias: what was declared with it stays."""
        having = [name for name, known in self._model.sessions.items() if known.aliases]
        if not having:
            return
        name = having[who % len(having)]
        aliases = self._model.sessions[name].aliases
        number = list(aliases)[which % len(aliases)]
        del aliases[number]
        end = self._parties[name].end
        end.post(Declare(body=UndeclareKeyExpr(key_id=number)))
        end.fence()
        self._agree()

    def ask_to_be_told(self, who: int, kinds: tuple[str, ...], key: str, how: int | None) -> None:
        """Sends an INTEREST: what there is comes before D_FINAL."""
        free = [name for name, known in self._model.sessions.items() if len(known.wishes) < MOST_WISHES]
        if not free:
            return
        name = free[who % len(free)]
        party = self._parties[name]
        party.hear()
        number = party.end.next_id()
        party.answers[number] = Answer()
        asking = {
            "interest_id": number,
            "restricted": 1,
            **self._said(name, key, how),
            **dict.fromkeys(kinds, 1),
        }
        party.end.post(Interest(mode=InterestMode.CURRENT_FUTURE, **asking))
        party.end.until(Declare, body=FINAL, interest_id=number)
        self._model.sessions[name].wishes[number] = Wish(kinds, self._at(key))
        self._agree()

    def ask_no_more(self, who: int, which: int) -> None:
        """Ends an interest: what it was about counts again when it is asked for anew."""
        asking = [name for name, known in self._model.sessions.items() if known.wishes]
        if not asking:
            return
        name = asking[who % len(asking)]
        party, wishes = self._parties[name], self._model.sessions[name].wishes
        number = list(wishes)[which % len(wishes)]
        party.end.post(Interest(mode=InterestMode.FINAL, interest_id=number))
        party.end.fence()
        del wishes[number], party.answers[number]
        self._agree()

    # Data -------------------------------------------------------------------------------------------------

    def publish(self, who: int, key: str, how: int | None, what: str, *, reliable: bool) -> None:
        """Publishes: each other session with a fitting subscriber gets it once and whole, and nobody else."""
        name, end = self._session(who)
        self._values += 1
        data = str(self._values).encode() + (BIG if what == "big PUT" else b"")
        body = Del() if what == "DEL" else Put(data=data)
        # What may be dropped is dropped when a node is busy.
        end.post(Push(**self._said(name, key, how), body=body, extensions=[QoS(D=1)]), reliable=reliable)
        end.fence()
        wanted = {other: [f"{what} {key}"] for other in self._model.receivers(name, self._at(key))}
        seen = {other: said for other in self._parties if (said := self._delivered(other, data))}
        check(seen == wanted, _shown(wanted), _shown(seen))

    def _delivered(self, name: str, data: bytes) -> list[str]:
        """Returns what a session got, in words."""
        party = self._heard(name)
        pushes, party.pushes = party.pushes, []
        said = []
        for push in pushes:
            key = party.key(push).removeprefix(f"{self._base}/")
            if isinstance(push.body, Del):
                said.append(f"DEL {key}")
                continue
            size = "big PUT" if len(push.body.data) >= len(BIG) else "PUT"
            right = bytes(push.body.data) == data
            said.append(f"{size} {key}" if right else f"{size} {key} with another value")
        return said

    # Queries ------------------------------------------------------------------------------------------------

    def query(self, who: int, key: str, how: int | None, whom: QueryTarget, lost: str) -> None:
        """Asks: whom the target names is asked once, the replies come back, then one final.

        Whoever goes before it has answered is not waited for, and when who asks goes nothing else changes.
        """
        name, end = self._session(who)
        number = end.next_id()
        chain = [QoS(D=1), Target(target=whom)]
        end.post(Request(request_id=number, **self._said(name, key, how), body=Query(), extensions=chain))
        end.fence()
        asked = [other for other in self._parties for _ in self._heard(other).requests]
        choices = self._model.asked(name, self._at(key), whom)
        fits = len(set(asked)) == len(asked) and any(must <= set(asked) <= may for must, may in choices)
        words = " or ".join(dict.fromkeys(listed(sorted(must)) for must, _ in choices))
        check(fits, f"a REQUEST for {words}", f"a REQUEST for {listed(asked)}")
        if lost == "who asks":
            self._end(name)
        elif lost == "one that is asked" and asked and len(choices) == 1:
            # With more choices the node would steer the steps.
            self._end(asked.pop())
        for other in asked:
            self._reply(other, key)
        if name not in self._parties:
            self._agree()
            return
        said = self._replies(name, number)
        check(said == sorted(asked), f"replies: {listed(sorted(asked))}", f"replies: {listed(said)}")
        self._agree()

    def _replies(self, name: str, number: int) -> list[str]:
        """Returns who has replied, behind the one final of a request."""
        party = self._parties[name]

        def ended() -> bool:
            party.hear()
            return number in party.finals

        party.end.wait(ended, self._tester.reply)
        self._heard(name)
        finals = party.finals.count(number)
        check(finals == 1, f"one RESPONSE_FINAL for request {number}", f"{finals}")
        replies, party.replies = party.replies, []
        stray = [str(one.request_id) for one in replies if one.request_id != number]
        check(not stray, f"replies to request {number} only", f"replies to {listed(stray)} too")
        return sorted(_answerer(one) for one in replies)

    def _reply(self, name: str, key: str) -> None:
        party = self._parties[name]
        number = party.requests.pop().request_id
        # What may be dropped is dropped when a node is busy.
        whole: dict[str, Any] = {"request_id": number, "extensions": [QoS(D=1)]}
        body = Reply(body=Put(data=name.encode()))
        party.end.post(Response(key_suffix=self._at(key), body=body, **whole), ResponseFinal(**whole))

    # What was told ----------------------------------------------------------------------------------------

    def _agree(self) -> None:
        """Judges that all sessions that asked have been told what the model says."""
        for name, known in self._model.sessions.items():
            if known.wishes:
                party = self._heard(name)
                for number, wish in known.wishes.items():
                    self._agree_on(name, party, wish, party.answers[number])

    def _agree_on(self, name: str, party: Party, wish: Wish, answer: Answer) -> None:
        own, others = self._model.own(name), self._model.others(name)
        # Whether it hears of its own is the matter of ZN-RTE-007, and what becomes of a queryable of that when it
        # takes its own back that of a test in test_routing.py.
        answer.keep(set.union(*party.told(answer)) & own, others)
        apart = own | answer.kept
        wanted = wish.of(others) - apart

        def told() -> list[Things]:
            party.hear()
            return [wish.of(things) - apart for things in party.told(answer)]

        # No fence tells when the node has noticed the end of another link.
        party.end.wait(lambda: wanted in told(), self._tester.reply)
        seen = told()
        check(wanted in seen, f"told of {self._words(wanted)}", f"told of {self._words(seen[0])}")

    def _words(self, things: Things) -> str:
        return listed(sorted(f"{kind} {key.removeprefix(self._base)[1:]}" for kind, key in things))

    # Inside ---------------------------------------------------------------------------------------------------

    def _at(self, key: str) -> str:
        return f"{self._base}/{key}"

    def _said(self, name: str, key: str, how: int | None) -> dict[str, Any]:
        """Returns the fields that say a key: whole, or by an alias of the session."""
        scope, suffix = self._model.sessions[name].written(self._at(key), how)
        return {"key_scope": scope, "key_suffix": suffix or None} | ({"M": 1} if scope else {})

    def _session(self, who: int) -> tuple[str, SessionEnd]:
        name = list(self._parties)[who % len(self._parties)]
        return name, self._parties[name].end

    def _heard(self, name: str) -> Party:
        """Returns a session that has heard all that the node said until now."""
        party = self._parties[name]
        party.end.fence()
        party.hear()
        return party


def _answerer(response: Response) -> str:
    """Returns who sent a reply: the value in it; what it is instead, where there is none."""
    inside = getattr(response.body, "body", None)
    return bytes(inside.data).decode(errors="replace") if isinstance(inside, Put) else str(response.body.name)


def _shown(deliveries: dict[str, list[str]]) -> str:
    return "; ".join(f"{name} gets {listed(said)}" for name, said in sorted(deliveries.items())) or "nothing"
