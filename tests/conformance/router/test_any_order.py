"""Anything in any order: a naive model says what must come out, and hostile messages must leave nothing behind."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from conformance.router import RouterPolicy
from scapy_layers.codes import Kind, QueryTarget, Resolution, WhatAmI
from scapy_layers.derive.strategies import messages
from scapy_layers.extensions import Target
from scapy_layers.keyexpr import includes, intersects
from scapy_layers.message import Message
from scapy_layers.network import NetworkOam, Push, Request, ResponseFinal
from tests.conformance.router.mesh import KINDS, End, Mesh

KEYS = [
    "a",
    "a/b",
    "a/b/c",
    "a/*",
    "a/**",
    "**",
    "*/b",
    "**/c",
    "a/b$*",
    "a/$*b",
    "@v/a",
    "@v/*",
    "@v/**",
    "b",
]
NO_KEYS = ["", "a//b", "a/**/**", "a#"]

keys = st.sampled_from(KEYS)
faces = st.integers(0, 4)
kinds = st.sampled_from(list(KINDS))
numbers = st.integers(0, 3)


class Model(RuleBasedStateMachine):
    """Clients that declare, ask and publish, against a list of all declarations that is looked through every time."""

    def __init__(self) -> None:
        super().__init__()
        self.mesh = Mesh()
        self.ends: list[End] = []
        self.held: dict[tuple[int, str, int], tuple[str, int]] = {}
        self.interests: dict[tuple[int, int], tuple[str | None, str]] = {}
        self.known: dict[int, dict[tuple[str, int], str]] = {}
        self.open: dict[tuple[int, int], tuple[int, set[int]]] = {}

    @initialize()
    def begin(self) -> None:
        self.ends = self.mesh.clients(5)
        self.known = {face: {} for face in range(5)}

    # What clients do --------------------------------------------------------------------------------

    @rule(face=faces, kind=kinds, number=numbers, key=keys, complete=st.integers(0, 1))
    def declare(self, face: int, kind: str, number: int, key: str, complete: int) -> None:
        info = {"complete": complete} if kind == "qable" else {}
        self.ends[face].declare(kind, key, number, **info)
        self.held[face, kind, number] = (key, complete)

    @rule(face=faces, kind=kinds, number=numbers)
    def undeclare(self, face: int, kind: str, number: int) -> None:
        self.ends[face].undeclare(kind, number)
        self.held.pop((face, kind, number), None)

    @rule(face=faces, key=st.none() | keys, kind=kinds, number=numbers)
    def ask_for(self, face: int, key: str | None, kind: str, number: int) -> None:
        self.ends[face].interest(key, kind, number=number)
        self.interests[face, number] = (key, kind)
        for message in self.news(face):
            if message.startswith(f"!{number}"):
                break
        else:
            raise AssertionError("no answer")

    @rule(face=faces, number=numbers)
    def ask_no_more(self, face: int, number: int) -> None:
        self.ends[face].uninterest(number)
        self.interests.pop((face, number), None)

    @rule(face=faces, key=keys)
    def publish(self, face: int, key: str) -> None:
        for end in range(5):
            self.news(end)
        self.ends[face].put(key)
        wanted = {
            holder
            for (holder, kind, _), (declared, _) in self.held.items()
            if kind == "sub" and holder != face and intersects(declared, key)
        }
        for end in range(5):
            assert self.news(end) == [f"PUT {key}=1"] * (end in wanted), key

    @rule(face=faces, key=keys, choice=st.sampled_from(QueryTarget))
    def query(self, face: int, key: str, choice: QueryTarget) -> None:
        for end in range(5):
            self.news(end)
        self.ends[face].ask(key, 9, *([Target(target=choice)] if choice else []))
        found: dict[int, bool] = {}
        for (holder, kind, _), (declared, complete) in self.held.items():
            if kind == "qable" and holder != face and intersects(declared, key):
                found[holder] = found.get(holder, False) or bool(complete and includes(declared, key))
        asked = {end: self.requests(end) for end in range(5) if end != face}
        whom = {end for end, requests in asked.items() if requests}
        assert all(len(requests) <= 1 for requests in asked.values())
        match choice:
            case QueryTarget.ALL:
                assert whom == {*found}
            case QueryTarget.ALL_COMPLETE:
                assert whom == {end for end, complete in found.items() if complete}
            case QueryTarget.BEST_MATCHING:
                best = {end for end, whole in found.items() if whole}
                assert whom <= (best or {*found})
                assert len(whom) == bool(found)
        for end in whom:
            self.ends[end].reply(asked[end][0], key if "*" not in key else "z")
            self.ends[end].finish(asked[end][0])
        words = self.news(face)
        assert [word for word in words if word.startswith("final")] == ["final #9"]
        assert len(words) == len(whom) + 1

    @rule(face=faces)
    def leave_and_come_back(self, face: int) -> None:
        self.news(face)
        self.ends[face].close()
        assert self.news(face) == []
        self.ends[face] = self.mesh.asker()
        self.known[face] = {}
        self.held = {name: value for name, value in self.held.items() if name[0] != face}
        self.interests = {name: value for name, value in self.interests.items() if name[0] != face}

    # What they are told -------------------------------------------------------------------------------

    def news(self, face: int) -> list[str]:
        """Takes in declarations; returns everything in words, or just what is no later declaration."""
        end = self.ends[face]
        left = []
        for message in end.got():
            word = end.word(message)
            name = word.split(" ")[-1] if word.startswith("!") and word.endswith("done") else word
            said = word.split(" ", 1)[1] if word.startswith("!") else word
            if said[0] in "+-":
                self.note(face, said, message)
            if said[0] not in "+-" or word.startswith("!"):
                left.append(word if name else "")
        return left

    def note(self, face: int, said: str, message: Message) -> None:
        kind, key = said[1:].split(" ")[:2]
        body: Any = message.body
        known = self.known[face]
        if said[0] == "+":
            known[kind, body.entity_id] = key
        else:
            assert known.pop((kind, body.entity_id)) == key

    def requests(self, face: int) -> list[int]:
        return [message.request_id for message in self.ends[face].got() if isinstance(message, Request)]

    @invariant()
    def all_know_what_they_asked_for(self) -> None:
        for face in range(len(self.ends)):
            self.news(face)
            wanted = set()
            for (asker, _), (where, kind) in self.interests.items():
                if asker == face:
                    wanted |= {
                        (kind, key)
                        for (holder, one, _), (key, _) in self.held.items()
                        if one == kind and holder != face and (where is None or intersects(where, key))
                    }
            told = {
                (kind.name, key) for kind, _, key in self.mesh.router._neighbours[self.ends[face].face].told
            }
            names = {"SUBSCRIBER": "sub", "QUERYABLE": "qable", "TOKEN": "token"}
            assert {(names[kind], key) for kind, key in told} == wanted
            # Whoever asks no more is told no more, so it may know what is gone; but it knows all that it asked for.
            current = {(kind, key) for (kind, _), key in self.known[face].items()}
            assert wanted <= current

    def teardown(self) -> None:
        for end in self.ends:
            end.close()
        if self.ends:
            empty(self.mesh)


def empty(mesh: Mesh) -> None:
    """Judges that a router without sessions remembers nothing."""
    router = mesh.router
    assert len(router._records) == 0
    assert router._records.of_holder == {}
    assert len(router._queries) == 0
    assert router._queries._lines == {}
    assert router._queries._of_asker == {}
    assert router._neighbours == {}
    assert router._joining == {}
    assert router.next_deadline() is None


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


# Hostile ----------------------------------------------------------------------------------------------

GIVEN = {
    "key_suffix": (keys | st.sampled_from(NO_KEYS)).map(str.encode),
    "key_scope": st.sampled_from([0, 0, 0, 1, 2]),
    "key_id": numbers,
    "entity_id": numbers,
    "interest_id": numbers,
    "request_id": numbers,
    "timeout": st.integers(0, 3000),
    "budget": numbers,
    "node_id": numbers,
}
"""Values that meet each other."""

ROLES = st.sampled_from([WhatAmI.CLIENT, WhatAmI.PEER, WhatAmI.ROUTER])

steps = st.lists(
    st.tuples(st.just("message"), faces, messages(Kind.NETWORK, given=GIVEN))
    | st.tuples(st.just("open"), faces, ROLES)
    | st.tuples(st.just("close"), faces, st.none())
    | st.tuples(st.just("wait"), faces, st.sampled_from([0.1, 1.0, 20.0])),
    max_size=40,
)


class Tight(RouterPolicy):
    """Limits that are soon reached."""

    def most_declarations(self) -> int:
        return 3

    def most_queries(self) -> int:
        return 3

    def most_interests(self) -> int:
        return 2

    def most_routes(self) -> int:
        return 2

    def request_ids(self, rid: int) -> int:
        del rid
        return 2


class Crowd:
    """Sessions that open, close and send as they like; counts the REQUESTs of those that are there."""

    def __init__(self, whatami: int, policy: RouterPolicy) -> None:
        self.mesh = Mesh(whatami=whatami, policy=policy)
        self.ends: dict[int, End] = {}
        self.asked: Counter[tuple[int, int]] = Counter()

    def wait(self, _: int, seconds: float) -> None:
        self.mesh.wait(seconds)

    def open(self, face: int, whatami: int) -> None:
        if face not in self.ends:
            zid = bytes([0xCC, face + 1])
            self.ends[face] = self.mesh.open(whatami, zid=zid, rid=Resolution.BITS_8)

    def close(self, face: int, _: None) -> None:
        end = self.ends.pop(face, None)
        if end is not None:
            end.close()
            self.asked = Counter({name: count for name, count in self.asked.items() if name[0] != end.face})

    def message(self, face: int, message: Message) -> None:
        end = self.ends.get(face)
        if end is None:
            return
        if isinstance(message, Request):
            self.asked[end.face, message.request_id] += 1
        before = len(self.mesh.sent)
        end.send(message)
        if isinstance(message, Push):
            got = {out.face for out in self.mesh.sent[before:] if isinstance(out.message, Push)}
            assert end.face not in got

    def finals(self) -> Counter[tuple[int, int]]:
        """Returns how many RESPONSE_FINALs those got who are still there."""
        here = {end.face for end in self.ends.values()}
        return Counter(
            (out.face, out.message.request_id)
            for out in self.mesh.sent
            if isinstance(out.message, ResponseFinal) and out.face in here
        )


@settings(max_examples=300, deadline=None)
@given(steps, ROLES.filter(lambda role: role != WhatAmI.CLIENT), st.booleans())
def test_no_message_in_any_order_hurts(plan: list[tuple[str, int, Any]], role: WhatAmI, tight: bool) -> None:
    crowd = Crowd(role, Tight() if tight else RouterPolicy())
    for what, face, value in plan:
        getattr(crowd, what)(face, value)
    crowd.mesh.wait(20)
    assert crowd.finals() == crowd.asked
    for end in crowd.ends.values():
        end.close()
    empty(crowd.mesh)


@settings(max_examples=300, deadline=None)
@given(st.lists(messages(Kind.NETWORK, given={"key_suffix": GIVEN["key_suffix"]}), max_size=8))
def test_messages_made_and_never_sent_do_not_hurt_either(made: list[Message]) -> None:
    mesh = Mesh()
    end = mesh.open()
    for message in made:
        mesh.router.receive(end.face, message, 0.0)
        mesh._collect()


def test_messages_of_nobody_and_of_another_layer_are_refused() -> None:
    mesh = Mesh()
    end = mesh.open()
    end.close()
    end.put("a")
    other = mesh.open()
    mesh.router.receive(other.face, Push().body or Message(), 0.0)
    mesh.router.receive(other.face, NetworkOam(oam_id=77, ENC=0), 0.0)
    assert mesh.router.refused == 2
