"""A node against a model of a router: whatever happens in whatever order, both agree.

Hypothesis draws the steps and shortens a sequence after which node and model differ. The shortest one is what the
capture of the test shows; as a script it stands in the run folder, to be played again.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky, FlakyFailure
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from conformance.config import RunConfig
from conformance.errors import Unmet
from conformance.expect import check
from conformance.plugin import req
from conformance.suite.common import DECLARATIONS, FINAL, declare, listed, routes, undeclare
from conformance.suite.model import KINDS, Entity, Model, Participant
from conformance.tester import SessionEnd, Tester
from scapy_layers.codes import InterestMode, QueryTarget, Resolution
from scapy_layers.data import Del, Put, Query, Reply
from scapy_layers.declarations import DeclareQueryable
from scapy_layers.extensions import QoS, QueryableInfo, Target
from scapy_layers.keyexpr import canonical
from scapy_layers.network import Declare, Interest, Push, Request, Response, ResponseFinal
from scapy_layers.transport import Close

MOST_SESSIONS = 4

SEQUENCES = 60
"""Sequences of steps that are tried."""

STEPS = 20
"""Most steps of a sequence."""

OFFERS: list[dict[str, Any]] = [
    {},
    {"qos": True, "patch": 1},
    {"batch_size": 300, "patch": 1},
    {"fsn": Resolution.BITS_8},
]
"""What the sessions propose, simplest first."""

BIG = bytes(2000)
"""Behind a value that shall not fit a batch of 300 bytes."""

WHO = st.integers(0, MOST_SESSIONS - 1)

CONCRETE = st.lists(st.sampled_from("ab"), min_size=1, max_size=2).map("/".join)

KEYS = st.lists(st.sampled_from(["a", "b", "*", "**", "a$*"]), min_size=1, max_size=3).map(
    lambda chunks: canonical("/".join(chunks))
)

MADE = {bodies[0]: kind for kind, bodies in DECLARATIONS.items()}
GONE = {bodies[1]: kind for kind, bodies in DECLARATIONS.items()}

Things = set[tuple[str, str]]
"""Kinds and keys."""


class Party:
    """A session, and what came in at it.

    Attributes:
        end: The session.
        pushes: Publications that nobody has looked at yet.
        requests: Queries, likewise.
        kept: What it was still told of when nobody but itself had it any more.
    """

    def __init__(self, end: SessionEnd) -> None:
        self.end = end
        self.pushes: list[Push] = []
        self.requests: list[Request] = []
        self.kept: Things = set()
        self._told: dict[tuple[str, int], str] = {}
        self._read = 0

    def hear(self) -> None:
        """Sorts what came in since the last time."""
        new, self._read = self.end.inbox[self._read :], len(self.end.inbox)
        for message in (seen.message for seen in new):
            if isinstance(message, Push):
                self.pushes.append(message)
            elif isinstance(message, Request):
                self.requests.append(message)
            elif isinstance(message, Declare) and type(message.body) in MADE:
                self._told[MADE[type(message.body)], message.body.entity_id] = self.end.key(message.body)
            elif isinstance(message, Declare) and type(message.body) in GONE:
                self._told.pop((GONE[type(message.body)], message.body.entity_id), None)

    @property
    def told(self) -> Things:
        """What it has been told of, and not taken back."""
        return {(kind, key) for (kind, _), key in self._told.items()}


class Sessions(RuleBasedStateMachine):
    """Steps of some sessions with a node; after each one node and model have to agree."""

    def __init__(self, tester: Tester) -> None:
        super().__init__()
        tester.begin_anew()
        tester.record()
        self._tester = tester
        self._base = f"harness/{tester.word()}"
        self._model = Model()
        self._parties: dict[str, Party] = {}
        self._values = 0

    # Sessions -----------------------------------------------------------------------------------------

    @precondition(lambda self: len(self._parties) < MOST_SESSIONS)
    @rule(offer=st.sampled_from(OFFERS))
    def join(self, offer: dict[str, Any]) -> None:
        """Opens a session."""
        end = routes(self._tester.session(**offer))
        self._parties[end.name] = Party(end)
        self._model.sessions[end.name] = Participant()

    @precondition(lambda self: self._parties)
    @rule(who=WHO, how=st.sampled_from(["close", "abort"]))
    def go(self, who: int, how: str) -> None:
        """Ends a session: what it declared is gone."""
        name, end = self._session(who)
        del self._parties[name], self._model.sessions[name]
        if how == "close":
            end.send(Close(S=1))
            end.expect_end()
        else:
            end.abort()
        self._agree()

    # Declarations ---------------------------------------------------------------------------------------

    @precondition(lambda self: self._parties)
    @rule(who=WHO, kind=st.sampled_from(KINDS), key=KEYS, complete=st.booleans())
    def declare(self, who: int, kind: str, key: str, *, complete: bool) -> None:
        """Declares something."""
        name, end = self._session(who)
        entity = Entity(kind, self._at(key), complete and kind == "queryables")
        if entity.complete:
            number = end.next_id()
            info = [QueryableInfo(complete=1)]
            body = DeclareQueryable(entity_id=number, key_suffix=entity.key, extensions=info)
            end.post(Declare(body=body))
            end.fence()
        else:
            number = declare(end, kind, entity.key)
        self._model.sessions[name].entities[number] = entity
        self._agree()

    @precondition(lambda self: any(known.entities for known in self._model.sessions.values()))
    @rule(who=WHO, which=st.integers(0, 7))
    def take_back(self, who: int, which: int) -> None:
        """Undeclares something."""
        having = [name for name, known in self._model.sessions.items() if known.entities]
        name = having[who % len(having)]
        entities = self._model.sessions[name].entities
        number = list(entities)[which % len(entities)]
        undeclare(self._parties[name].end, entities.pop(number).kind, number)
        self._agree()

    @precondition(lambda self: any(not known.asked for known in self._model.sessions.values()))
    @rule(who=WHO)
    def ask_to_be_told(self, who: int) -> None:
        """Sends an INTEREST in everything: what there is comes before D_FINAL."""
        waiting = [name for name, known in self._model.sessions.items() if not known.asked]
        name = waiting[who % len(waiting)]
        end = self._parties[name].end
        number = end.next_id()
        kinds = dict.fromkeys(KINDS, 1)
        asking: dict[str, Any] = {"interest_id": number, "key_suffix": self._at("**"), "restricted": 1}
        end.post(Interest(mode=InterestMode.CURRENT_FUTURE, **asking, **kinds))
        end.until(Declare, body=FINAL, interest_id=number)
        self._model.sessions[name].asked = True
        self._agree()

    # Data -------------------------------------------------------------------------------------------------

    @precondition(lambda self: self._parties)
    @rule(who=WHO, key=CONCRETE, what=st.sampled_from(["PUT", "DEL", "big PUT"]), reliable=st.booleans())
    def publish(self, who: int, key: str, what: str, *, reliable: bool) -> None:
        """Publishes: each other session with a fitting subscriber gets it once and whole, and nobody else."""
        name, end = self._session(who)
        self._values += 1
        data = str(self._values).encode() + (BIG if what == "big PUT" else b"")
        body = Del() if what == "DEL" else Put(data=data)
        # What may be dropped is dropped when a node is busy.
        end.post(Push(key_suffix=self._at(key), body=body, extensions=[QoS(D=1)]), reliable=reliable)
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
            key = party.end.key(push).removeprefix(f"{self._base}/")
            if isinstance(push.body, Del):
                said.append(f"DEL {key}")
                continue
            size = "big PUT" if len(push.body.data) >= len(BIG) else "PUT"
            right = bytes(push.body.data) == data
            said.append(f"{size} {key}" if right else f"{size} {key} with another value")
        return said

    # Queries ------------------------------------------------------------------------------------------------

    @precondition(lambda self: self._parties)
    @rule(who=WHO, key=CONCRETE, whom=st.sampled_from([QueryTarget.ALL, QueryTarget.ALL_COMPLETE]))
    def query(self, who: int, key: str, whom: QueryTarget) -> None:
        """Asks: each other session with a fitting queryable is asked once, its reply comes back, then one final."""
        name, end = self._session(who)
        number = end.next_id()
        chain = [QoS(D=1), Target(target=whom)]
        end.post(Request(request_id=number, key_suffix=self._at(key), body=Query(), extensions=chain))
        wanted = self._model.asked(name, self._at(key), complete=whom == QueryTarget.ALL_COMPLETE)
        for other in sorted(wanted):
            self._reply(other, key)
        came = end.until(ResponseFinal, request_id=number)
        said = sorted(bytes(one.body.body.data).decode() for one in came if isinstance(one, Response))
        check(said == sorted(wanted), f"replies: {listed(sorted(wanted))}", f"replies: {listed(said)}")
        more = [other for other in self._parties if self._heard(other).requests]
        check(not more, "nobody is asked beside them", f"a REQUEST for {listed(more)}")

    def _reply(self, name: str, key: str) -> None:
        party = self._parties[name]

        def asked() -> bool:
            party.hear()
            return bool(party.requests)

        party.end.wait(asked, self._tester.reply)
        check(party.requests, f"a REQUEST for {name}", "none")
        request = party.requests.pop(0)
        party.end.post(
            Response(
                request_id=request.request_id,
                key_suffix=self._at(key),
                body=Reply(body=Put(data=name.encode())),
            ),
            ResponseFinal(request_id=request.request_id),
        )

    # What was told ----------------------------------------------------------------------------------------

    def _agree(self) -> None:
        """Judges that all sessions that asked have been told what the model says."""
        for name, known in self._model.sessions.items():
            if known.asked:
                self._agree_on(name)

    def _agree_on(self, name: str) -> None:
        own, others = self._model.own(name), self._model.told(name)
        party = self._heard(name)
        # Whether it hears of its own is the matter of ZN-RTE-007, and what becomes of that when it takes its own
        # back that of a test in test_routing.py.
        party.kept = (party.kept | party.told & own) - others
        apart = own | party.kept
        wanted = others - apart

        def agreed() -> bool:
            party.hear()
            return party.told - apart == wanted

        # No fence tells when the node has noticed the end of another link.
        party.end.wait(agreed, self._tester.reply)
        told = party.told - apart
        check(told == wanted, f"told of {self._words(wanted)}", f"told of {self._words(told)}")

    def _words(self, things: Things) -> str:
        return listed(sorted(f"{kind} {key.removeprefix(self._base)[1:]}" for kind, key in things))

    # Inside ---------------------------------------------------------------------------------------------------

    def _at(self, key: str) -> str:
        return f"{self._base}/{key}"

    def _session(self, who: int) -> tuple[str, SessionEnd]:
        name = list(self._parties)[who % len(self._parties)]
        return name, self._parties[name].end

    def _heard(self, name: str) -> Party:
        """Returns a session that has heard all that the node said until now."""
        party = self._parties[name]
        party.end.fence()
        party.hear()
        return party


def _shown(deliveries: dict[str, list[str]]) -> str:
    return "; ".join(f"{name} gets {listed(said)}" for name, said in sorted(deliveries.items())) or "nothing"


@pytest.mark.slow
@req("ZN-RTE-025")
def test_node_agrees_with_the_model_after_any_sequence_of_steps(
    tester: Tester, run_config: RunConfig
) -> None:
    effort = settings(
        max_examples=SEQUENCES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        print_blob=False,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )

    @seed(run_config.seed)
    def sessions() -> Sessions:
        return Sessions(tester)

    try:
        run_state_machine_as_test(sessions, settings=effort)  # type: ignore[arg-type]
    except Unmet as error:
        raise Unmet(error.expected, error.seen, f"shortest sequence: {keep(tester, run_config)}") from error
    except Flaky as error:
        seen = "a difference that was not there when the same steps were done again"
        raise Unmet("node and model agree", seen, first_of(error)) from error


def first_of(error: Flaky) -> str:
    """Returns what was seen the first time of something that did not come again."""
    seen = error.exceptions if isinstance(error, FlakyFailure) else [error]
    return "; ".join(dict.fromkeys(str(one) for one in seen))


def keep(tester: Tester, run_config: RunConfig) -> str:
    """Writes the last sequence as a script into the run folder and returns where."""
    assert tester.journal is not None
    path = run_config.run_dir / "scripts" / "test_model.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tester.journal.script("a sequence after which node and model differ").to_json())
    return str(path)
