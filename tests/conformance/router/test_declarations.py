"""Who is told of declarations: unasked, asked, once, and taken back when the last holder goes."""

from __future__ import annotations

import random

import pytest

from conformance.router import RouterPolicy
from conformance.router.tables import Entity, Info, Record, merged
from scapy_layers.codes import InterestMode, WhatAmI
from scapy_layers.data import Query
from scapy_layers.declarations import DeclareFinal, DeclareKeyExpr
from scapy_layers.extensions import QoS, WireExpr
from scapy_layers.network import Declare, Interest, Request
from tests.conformance.router.mesh import KINDS, Mesh, extension

EACH = pytest.mark.parametrize("kind", KINDS)
INFO = {"sub": "", "qable": " 1", "token": ""}
"""A queryable is one hop farther away for who is told of it."""

NEIGHBOURS = (WhatAmI.CLIENT, WhatAmI.PEER)
SILENT = ("token", WhatAmI.CLIENT)
"""The one thing that nobody is told who has not asked."""

GRACE = RouterPolicy().joining_seconds(WhatAmI.CLIENT)

# Unasked --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "whatami"),
    [(kind, whatami) for kind in KINDS for whatami in NEIGHBOURS if (kind, whatami) != SILENT],
)
def test_silent_neighbour_is_told_after_its_time_to_ask(kind: str, whatami: int) -> None:
    mesh = Mesh()
    (a,) = mesh.clients(1)
    told = mesh.open(whatami)
    a.declare(kind, "t")
    mesh.wait(GRACE * 0.9)
    assert told.said() == []
    mesh.wait(GRACE * 0.2)
    number = a.declare(kind, "u")
    a.undeclare(kind, number)
    assert told.said() == [f"+{kind} t{INFO[kind]}", f"+{kind} u{INFO[kind]}", f"-{kind} u"]
    assert mesh.router.next_deadline() is None


def test_client_is_told_of_tokens_only_when_it_asks() -> None:
    mesh = Mesh()
    (a,) = mesh.clients(1)
    told = mesh.open()
    mesh.wait(GRACE)
    a.declare("token", "t")
    late = mesh.open()
    mesh.wait(GRACE)
    for one in (told, late):
        assert one.said() == []
        one.interest("**", "token", mode=InterestMode.CURRENT)
        assert one.said() == ["!1 +token t", "!1 done"]


def test_neighbour_that_goes_to_work_is_told_before_it_is_answered() -> None:
    mesh = Mesh()
    (a,) = mesh.clients(1)
    a.declare("sub", "t")
    told = mesh.open()
    told.ask("nobody")
    assert told.said() == ["+sub t", "final #1"]


def test_neighbour_that_declares_aliases_first_has_still_time_to_ask() -> None:
    mesh = Mesh()
    (a,) = mesh.clients(1)
    a.declare("sub", "t/x")
    a.declare("sub", "u/x")
    told = mesh.open()
    told.alias(7, "t")
    told.send(
        Interest(
            interest_id=3,
            mode=InterestMode.CURRENT,
            subscribers=1,
            restricted=1,
            M=1,
            key_scope=7,
            key_suffix="/**",
        )
    )
    mesh.wait(1)
    assert told.said() == ["!3 +sub t/x", "!3 done"]


def test_neighbour_that_asks_later_is_told_the_end_of_what_it_knows() -> None:
    mesh = Mesh()
    (a,) = mesh.clients(1)
    number = a.declare("sub", "t")
    told = mesh.open()
    mesh.wait(1)
    told.interest("u", "sub", mode=InterestMode.FUTURE)
    a.undeclare("sub", number)
    a.declare("sub", "v")
    assert told.said() == ["+sub t", "-sub t"]


@EACH
def test_declaration_does_not_go_back(kind: str) -> None:
    mesh = Mesh()
    a, b = mesh.open(WhatAmI.PEER), mesh.open(WhatAmI.PEER)
    mesh.wait(1)
    for number in (1, 2):
        a.interest("**", number=number)
    a.said()
    a.declare(kind, "t")
    assert a.said() == []
    assert b.said() == [f"+{kind} t{INFO[kind]}"]
    a.interest("**", number=3)
    assert a.said() == ["!3 done"]


@EACH
def test_key_is_told_while_somebody_else_holds_it(kind: str) -> None:
    mesh = Mesh()
    a, b, c = (mesh.open(WhatAmI.PEER) for _ in range(3))
    mesh.wait(1)
    plus, minus = f"+{kind} t{INFO[kind]}", f"-{kind} t"
    first = a.declare(kind, "t")
    again = a.declare(kind, "t")
    assert (a.said(), b.said(), c.said()) == ([], [plus], [plus])
    other = b.declare(kind, "t")
    assert (a.said(), b.said(), c.said()) == ([plus], [], [])
    a.undeclare(kind, first)
    assert (a.said(), b.said(), c.said()) == ([], [], [])
    a.undeclare(kind, again)
    assert (a.said(), b.said(), c.said()) == ([], [minus], [])
    b.undeclare(kind, other)
    assert (a.said(), b.said(), c.said()) == ([minus], [], [minus])


@EACH
def test_lost_session_takes_with_it_what_only_it_had(kind: str) -> None:
    mesh = Mesh()
    a, b, told = (mesh.open(WhatAmI.PEER) for _ in range(3))
    mesh.wait(1)
    a.declare(kind, "only")
    a.declare(kind, "both")
    a.declare(kind, "both")
    b.declare(kind, "both")
    told.said()
    a.close()
    assert told.said() == [f"-{kind} only"]
    assert b.said()[-1:] != [f"+{kind} both"]


def test_replaced_entity_is_taken_back_and_told_anew() -> None:
    mesh = Mesh()
    a, told = mesh.open(), mesh.open()
    mesh.wait(1)
    a.declare("sub", "old", 7)
    a.declare("sub", "old", 7)
    a.declare("sub", "new", 7)
    assert told.said() == ["+sub old", "-sub old", "+sub new"]


def test_declarations_look_like_those_of_real_nodes() -> None:
    mesh = Mesh()
    a, told = mesh.open(), mesh.open()
    mesh.wait(1)
    number = a.declare("sub", "t/**")
    a.undeclare("sub", number)
    made, gone = told.got()
    assert (made.I, made.body.N, made.body.M, made.body.key_scope) == (0, 1, 1, 0)
    assert bytes(extension(made, QoS)) == b"\x21\x08"
    assert made.body.entity_id == gone.body.entity_id
    assert bytes(extension(gone.body, WireExpr)) == b"\x5f\x06\x03\x00t/**"
    assert [(out.reliable, out.priority) for out in mesh.sent[-2:]] == [(True, 0)] * 2


# Queryables -----------------------------------------------------------------------------------------


def test_queryable_is_complete_if_one_is_and_as_near_as_the_nearest() -> None:
    mesh = Mesh()
    a, b, told = (mesh.open() for _ in range(3))
    mesh.wait(1)
    first = a.declare("qable", "q", distance=5)
    b.declare("qable", "q", complete=1, distance=7)
    a.declare("qable", "q", distance=2)
    a.undeclare("qable", first)
    b.close()
    assert told.said() == [
        "+qable q 6",
        "+qable q complete 6",
        "+qable q complete 3",
        "+qable q 3",
    ]
    ids = {out.message.body.entity_id for out in mesh.sent if out.face == told.face}
    assert len(ids) == 1


def test_queryable_may_change_its_mind() -> None:
    mesh = Mesh()
    a, told = mesh.open(), mesh.open()
    mesh.wait(1)
    a.declare("qable", "q", 7)
    a.declare("qable", "q", 7, complete=1)
    a.declare("qable", "q", 7, complete=1)
    assert told.said() == ["+qable q 1", "+qable q complete 1"]


def test_distance_has_an_end() -> None:
    mesh = Mesh()
    a, told = mesh.open(), mesh.open()
    mesh.wait(1)
    a.declare("qable", "q", distance=0xFFFF)
    assert told.said() == ["+qable q 65535"]


# Interests --------------------------------------------------------------------------------------------


@EACH
def test_current_lists_what_is_there_and_nothing_later(kind: str) -> None:
    a, b = Mesh().clients(2)
    for one in KINDS:
        a.declare(one, "t/x")
    a.declare(kind, "u/x")
    b.interest("t/**", kind, mode=InterestMode.CURRENT, number=0)
    assert b.said() == [f"!0 +{kind} t/x{INFO[kind]}", "!0 done"]
    number = a.declare(kind, "t/y")
    a.undeclare(kind, number)
    assert b.said() == []


@EACH
def test_future_tells_changes_only_and_is_not_closed(kind: str) -> None:
    a, b = Mesh().clients(2)
    old = a.declare(kind, "t/old")
    b.interest("t/**", kind, mode=InterestMode.FUTURE)
    assert b.said() == []
    a.undeclare(kind, old)
    number = a.declare(kind, "t/new")
    a.declare(kind, "u/new")
    a.undeclare(kind, number)
    assert b.said() == [f"+{kind} t/new{INFO[kind]}", f"-{kind} t/new"]


@EACH
def test_future_does_not_tell_of_the_old_when_one_of_its_holders_goes(kind: str) -> None:
    a, b, c = Mesh().clients(3)
    a.declare(kind, "t")
    c.declare(kind, "t")
    b.interest("t", kind, mode=InterestMode.FUTURE)
    c.close()
    assert b.said() == []


@EACH
def test_current_future_lists_then_tells_changes(kind: str) -> None:
    a, b = Mesh().clients(2)
    old = a.declare(kind, "t/old")
    b.interest(None, kind, number=9)
    assert b.said() == [f"!9 +{kind} t/old{INFO[kind]}", "!9 done"]
    a.declare(kind, "t/new")
    a.undeclare(kind, old)
    assert b.said() == [f"+{kind} t/new{INFO[kind]}", f"-{kind} t/old"]


@EACH
@pytest.mark.parametrize("mode", [InterestMode.CURRENT, InterestMode.CURRENT_FUTURE])
def test_empty_list_is_closed_too(kind: str, mode: int) -> None:
    (a,) = Mesh().clients(1)
    a.interest("t", kind, mode=mode)
    a.interest("t", kind, mode=mode, number=2, keyexprs=1)
    assert a.said() == ["!1 done", "!2 done"]


def test_interest_in_aliases_alone_is_answered() -> None:
    (a,) = Mesh().clients(1)
    a.send(Interest(interest_id=4, mode=InterestMode.CURRENT, keyexprs=1))
    assert a.said() == ["!4 done"]


@EACH
def test_final_ends_all_news(kind: str) -> None:
    a, b = Mesh().clients(2)
    b.interest("t/**", kind)
    number = a.declare(kind, "t/x")
    b.said()
    b.uninterest()
    a.undeclare(kind, number)
    a.declare(kind, "t/y")
    assert b.said() == []


@EACH
def test_final_of_one_interest_leaves_what_another_asked_for(kind: str) -> None:
    a, b = Mesh().clients(2)
    b.interest("t/**", kind, number=1)
    b.interest("*/x", kind, number=2)
    inside, outside = a.declare(kind, "t/x"), a.declare(kind, "t/y")
    assert b.said()[2:] == [f"+{kind} t/x{INFO[kind]}", f"+{kind} t/y{INFO[kind]}"]
    b.uninterest(1)
    a.undeclare(kind, outside)
    a.undeclare(kind, inside)
    assert b.said() == [f"-{kind} t/x"]


def test_interest_with_an_id_that_is_in_use_replaces_the_old_one() -> None:
    mesh = Mesh()
    a, b = mesh.clients(2)
    b.interest("t/**", "sub")
    number = a.declare("sub", "t/x")
    b.interest("*/x", "sub")
    assert b.said() == ["!1 done", "+sub t/x", "!1 +sub t/x", "!1 done"]
    a.declare("sub", "t/y")
    a.undeclare("sub", number)
    assert b.said() == ["-sub t/x"]
    assert len(mesh.router._neighbours[b.face].told) == 0


def test_replaced_interest_leaves_no_news_behind() -> None:
    a, b = Mesh().clients(2)
    b.interest("t/**", "sub")
    number = a.declare("sub", "t/y")
    b.interest("u/**", "sub")
    b.said()
    a.undeclare("sub", number)
    assert b.said() == []


def test_end_of_an_interest_leaves_what_was_told_unasked() -> None:
    mesh = Mesh()
    (a,) = mesh.clients(1)
    number = a.declare("sub", "t")
    told = mesh.open()
    mesh.wait(1)
    told.interest("t", "sub")
    told.uninterest()
    a.undeclare("sub", number)
    assert told.said() == ["+sub t", "!1 +sub t", "!1 done", "-sub t"]


def test_interest_without_a_key_that_holds_is_not_answered() -> None:
    mesh = Mesh()
    (a,) = mesh.clients(1)
    a.interest("a//b")
    a.send(Interest(interest_id=5, mode=3, subscribers=1, restricted=1, M=1, key_scope=7))
    assert a.said() == []
    assert mesh.router.refused == 2


@pytest.mark.parametrize("kind", ["sub", "qable"])
def test_aggregate_folds_matches_into_the_key_of_the_interest(kind: str) -> None:
    a, b = Mesh().clients(2)
    numbers = [a.declare(kind, f"t/{name}") for name in "ab"]
    b.interest("t/**", kind, aggregate=1)
    assert b.said() == [f"!1 +{kind} t/**{INFO[kind]}", "!1 done"]
    numbers.append(a.declare(kind, "t/c"))
    for number in numbers[:2]:
        a.undeclare(kind, number)
    assert b.said() == []
    a.undeclare(kind, numbers[2])
    assert b.said() == [f"-{kind} t/**"]
    a.declare(kind, "t/d")
    assert b.said() == [f"+{kind} t/**{INFO[kind]}"]


def test_tokens_are_never_folded() -> None:
    a, b = Mesh().clients(2)
    a.declare("token", "t/a")
    a.declare("token", "t/b")
    b.interest("t/*", "token", aggregate=1)
    assert b.said() == ["!1 +token t/a", "!1 +token t/b", "!1 done"]


def test_folded_queryable_is_complete_only_if_one_covers_the_whole_key() -> None:
    a, b = Mesh().clients(2)
    b.interest("t/**", "qable", aggregate=1)
    a.declare("qable", "t/a", complete=1, distance=3)
    whole = a.declare("qable", "**", complete=1, distance=4)
    near = a.declare("qable", "t/b", 77, distance=1)
    a.declare("qable", "t/b", 77, distance=9)
    a.undeclare("qable", whole)
    a.undeclare("qable", near)
    assert b.said()[1:] == [
        "+qable t/** 4",
        "+qable t/** complete 4",
        "+qable t/** complete 2",
        "+qable t/** complete 4",
        "+qable t/** 4",
    ]


def test_folded_and_plain_interests_stand_side_by_side() -> None:
    a, b = Mesh().clients(2)
    b.interest("t/*", "sub", number=1)
    b.interest("t/*", "sub", number=2, aggregate=1)
    b.said()
    number = a.declare("sub", "t/a")
    assert sorted(b.said()) == ["+sub t/*", "+sub t/a"]
    b.uninterest(1)
    a.undeclare("sub", number)
    assert b.said() == ["-sub t/*"]


def test_own_declarations_are_no_part_of_what_is_folded() -> None:
    a, b = Mesh().clients(2)
    b.declare("sub", "t/own")
    b.interest("t/*", "sub", aggregate=1)
    a.declare("sub", "t/a")
    assert b.said() == ["!1 done", "+sub t/*"]


def test_d_final_of_a_neighbour_means_nothing() -> None:
    mesh = Mesh()
    a, b = mesh.clients(2)
    a.send(Declare(body=DeclareFinal()))
    a.send(Declare(I=1, interest_id=0, body=DeclareFinal()))
    assert (a.said(), b.said()) == ([], [])


# Limits -------------------------------------------------------------------------------------------------


class Tight(RouterPolicy):
    def most_declarations(self) -> int:
        return 2

    def most_aliases(self) -> int:
        return 2

    def most_interests(self) -> int:
        return 2

    def most_queries(self) -> int:
        return 2


def test_declarations_beyond_the_limit_are_refused_and_known_ones_still_change() -> None:
    mesh = Mesh(policy=Tight())
    a, b = mesh.clients(2)
    b.interest(None, "sub")
    for number in (1, 2, 3):
        a.declare("sub", f"t/{number}", number)
    a.declare("sub", "t/changed", 2)
    assert b.said()[1:] == ["+sub t/1", "+sub t/2", "-sub t/2", "+sub t/changed"]
    a.undeclare("sub", 1)
    a.declare("sub", "t/4", 4)
    assert b.said() == ["-sub t/1", "+sub t/4"]
    assert mesh.router.refused == 1


def test_aliases_interests_and_queries_beyond_their_limits_are_refused() -> None:
    mesh = Mesh(policy=Tight())
    a, b = mesh.clients(2)
    for number in (1, 2, 3):
        a.send(Declare(body=DeclareKeyExpr(key_id=number, key_suffix="t")))
        a.interest("t", "token", mode=InterestMode.FUTURE, number=number)
    b.declare("qable", "t")
    for number in (1, 2, 3):
        a.send(Request(request_id=number, key_suffix="t", body=Query()))
    assert a.said() == ["final #3"]
    neighbour = mesh.router._neighbours[a.face]
    assert sorted(neighbour.aliases) == [1, 2]
    assert len(neighbour.interests) == 2
    assert mesh.router.refused == 1 + 2 + 1


LONG = "/".join(["a"] * 1024)


def test_keys_of_too_many_chunks_are_refused_everywhere() -> None:
    mesh = Mesh()
    a, b = mesh.clients(2)
    b.interest(None, "sub", "qable")
    b.declare("sub", "**")
    b.declare("qable", "**")
    b.said()
    a.declare("sub", LONG)
    a.declare("sub", LONG + "/a")
    assert [len(said) for said in b.said()] == [len("+sub ") + len(LONG)]
    a.put(LONG)
    a.put(LONG + "/a")
    a.ask(LONG + "/a", 1)
    a.interest("**/" + LONG, "sub", number=7)
    a.put("/".join(["**/a"] * 64))
    a.put("/".join(["**/a"] * 64 + ["*"]))
    assert a.said() == ["final #1"]
    assert len(b.got()) == 2
    assert mesh.router.refused == 5


def test_characters_of_all_aliases_of_a_face_are_bounded() -> None:
    class Small(RouterPolicy):
        def most_alias_characters(self) -> int:
            return 100

    mesh = Mesh(policy=Small())
    (a,) = mesh.clients(1)
    a.alias(1, "a" * 60)
    a.alias(2, "b", scope=1)
    neighbour = mesh.router._neighbours[a.face]
    assert list(neighbour.aliases) == [1]
    a.unalias(1)
    a.unalias(1)
    a.alias(3, "a" * 100)
    assert list(neighbour.aliases) == [3]
    assert mesh.router.refused == 1


def test_characters_of_declared_keys_and_of_interests_are_bounded() -> None:
    class Small(RouterPolicy):
        def most_key_characters(self) -> int:
            return 10

    mesh = Mesh(policy=Small())
    a, b = mesh.clients(2)
    b.uninterest(4_000_000)
    b.interest(None, "sub")
    b.said()
    a.declare("token", "1")
    a.declare("sub", "123456", 1)
    a.declare("sub", "abcdef", 2)
    a.declare("sub", "123456", 3)
    a.undeclare("sub", 1)
    a.undeclare("sub", 3)
    a.declare("sub", "abcdef", 4)
    assert b.said() == ["+sub 123456", "-sub 123456", "+sub abcdef"]
    b.interest("bcdef", "sub", number=8)
    b.interest("bcdefg", "sub", number=9)
    assert len(mesh.router._neighbours[b.face].interests) == 2
    assert mesh.router.refused == 2


@pytest.mark.parametrize("seed", range(5))
def test_queryables_of_one_key_taken_together_are_the_best_of_each(seed: int) -> None:
    chance = random.Random(seed)
    record = Record(Entity.QUERYABLE, "q")
    alone: dict[tuple[int | bytes, int], Info] = {}
    for _ in range(2000):
        holder: int | bytes = chance.choice([*range(12), b"a", b"b"])
        name = chance.randrange(12)
        if chance.random() < 0.45:
            if record.pop(holder, name):
                record.pop_holder(holder)
            alone.pop((holder, name), None)
        else:
            alone[holder, name] = Info(chance.random() < 0.01, chance.randrange(300))
            record.put(holder, name, alone[holder, name])
        if chance.random() < 0.01:
            record.pop_holder(holder)
            alone = {one: info for one, info in alone.items() if one[0] != holder}
        assert record.of_all(3) == merged([info for (one, _), info in alone.items() if one != 3])
        assert record.of_all(None) == merged(list(alone.values()))
        assert record.of(lambda node: node == b"a") == merged(
            [info for (one, _), info in alone.items() if one != b"b"]
        )
        assert record.info(holder) == merged([info for (one, _), info in alone.items() if one == holder])


def test_interests_that_ask_for_the_same_are_looked_at_once_until_the_last_has_ended() -> None:
    mesh = Mesh()
    a, b = mesh.clients(2)
    for number in range(50):
        b.interest("t/**", "sub", "token", mode=InterestMode.FUTURE, number=number)
        b.interest(None, "sub", mode=InterestMode.FUTURE, number=100 + number)
    interests = mesh.router._neighbours[b.face].interests
    assert len(interests.covering(Entity.SUBSCRIBER, "t/x")) == 2
    assert len(interests.covering(Entity.TOKEN, "t/x")) == 1
    for number in (*range(49), *range(100, 150)):
        b.uninterest(number)
    a.declare("sub", "t/1")
    a.declare("sub", "u/1")
    assert b.said() == ["+sub t/1"]
    b.uninterest(49)
    a.declare("sub", "t/2")
    assert b.said() == []
    assert interests.covering(Entity.SUBSCRIBER, "t/x") == []
