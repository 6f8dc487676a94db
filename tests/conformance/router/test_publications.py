"""Where a PUSH goes, and what it looks like there."""

from __future__ import annotations

import pytest

from conformance.router import RouterPolicy
from scapy_layers.codes import WhatAmI
from scapy_layers.data import Del, Put
from scapy_layers.declarations import DeclareSubscriber
from scapy_layers.extensions import NodeId, QoS, Timestamp
from scapy_layers.message import UnknownExtension
from scapy_layers.network import Declare, Push
from tests.conformance.router.mesh import Mesh, extension, node_ids


def test_push_without_a_subscriber_goes_nowhere() -> None:
    a, b = Mesh().clients(2)
    a.put("t/x")
    assert b.said() == a.said() == []


def test_push_reaches_each_matching_face_once() -> None:
    a, b, c, d = Mesh().clients(4)
    b.declare("sub", "t/*")
    b.declare("sub", "t/x")
    c.declare("sub", "t/**")
    d.declare("sub", "u/**")
    a.put("t/x")
    assert [end.said() for end in (a, b, c, d)] == [[], ["PUT t/x=1"], ["PUT t/x=1"], []]


def test_push_is_not_sent_back() -> None:
    a, b = Mesh().clients(2)
    for end in (a, b):
        end.declare("sub", "t/**")
    a.put("t/x")
    assert a.said() == []
    assert b.said() == ["PUT t/x=1"]


def test_push_goes_where_it_led_until_the_subscriber_is_gone() -> None:
    a, b = Mesh().clients(2)
    first = b.declare("sub", "t/**")
    second = b.declare("sub", "t/**")
    b.undeclare("sub", first)
    a.put("t/x")
    b.undeclare("sub", second)
    a.put("t/y")
    assert b.said() == ["PUT t/x=1"]


def test_replaced_subscriber_leads_to_its_new_key_only() -> None:
    a, b = Mesh().clients(2)
    b.declare("sub", "old", 7)
    b.declare("sub", "new", 7)
    a.put("old")
    a.put("new")
    b.undeclare("sub", 7)
    a.put("new")
    assert b.said() == ["PUT new=1"]


def test_unknown_id_takes_nothing_away() -> None:
    a, b = Mesh().clients(2)
    b.declare("sub", "t", 7)
    b.undeclare("sub", 8)
    b.undeclare("sub", 8, "t")
    b.undeclare("qable", 7)
    a.put("t")
    assert b.said() == ["PUT t=1"]


def test_faces_have_ids_of_their_own() -> None:
    a, b, c = Mesh().clients(3)
    b.declare("sub", "t", 7)
    c.declare("sub", "t", 7)
    b.undeclare("sub", 7)
    a.put("t")
    assert (b.said(), c.said()) == ([], ["PUT t=1"])


@pytest.mark.parametrize(
    "key", ["a//b", "a/", "/a", "", "/", "a#b", "a$b", "a/b*", "a/**/**/b", "a/$*/b", "a/**/*"]
)
def test_what_is_no_key_goes_nowhere(key: str) -> None:
    a, b = Mesh().clients(2)
    b.declare("sub", "**")
    a.put(key)
    a.send(Push(key_scope=0, key_suffix=None, body=Put()))
    assert b.said() == []
    a.declare("sub", key)
    b.put("a/b")
    assert a.said() == []


# Aliases ------------------------------------------------------------------------------------------


def test_alias_stands_for_its_key_until_it_is_taken_back() -> None:
    a, b = Mesh().clients(2)
    b.declare("sub", "t/**")
    a.alias(7, "t/a")
    a.send(Push(M=1, key_scope=7, body=Put(data=b"1")))
    a.send(Push(M=1, key_scope=7, key_suffix="/b", body=Put(data=b"2")))
    a.unalias(7)
    a.send(Push(M=1, key_scope=7, body=Put(data=b"3")))
    assert b.said() == ["PUT t/a=1", "PUT t/a/b=2"]


def test_alias_may_rest_on_an_alias_and_be_no_key_by_itself() -> None:
    a, b = Mesh().clients(2)
    b.declare("sub", "t/**")
    a.alias(7, "t/")
    a.alias(8, "a", scope=7)
    a.alias(9, "a", scope=6)
    a.send(Push(M=1, key_scope=8, body=Put(data=b"1")))
    a.send(Push(M=1, key_scope=7, body=Put(data=b"no key")))
    a.send(Push(M=1, key_scope=9, body=Put(data=b"unknown")))
    assert b.said() == ["PUT t/a=1"]


def test_alias_of_one_side_is_none_of_the_other_side_and_of_other_faces() -> None:
    a, b = Mesh().clients(2)
    b.declare("sub", "t/**")
    a.alias(7, "t/a")
    a.send(Push(M=0, key_scope=7, body=Put()))
    b.send(Push(M=1, key_scope=7, body=Put()))
    assert b.said() == []


def test_first_meaning_of_an_alias_stays() -> None:
    a, b = Mesh().clients(2)
    b.declare("sub", "**")
    a.alias(7, "one")
    a.alias(7, "two")
    a.alias(0, "zero")
    a.send(Push(M=1, key_scope=7, body=Put(data=b"1")))
    assert b.said() == ["PUT one=1"]


def test_aliases_serve_in_declarations() -> None:
    a, b = Mesh().clients(2)
    b.alias(7, "t")
    b.send(Declare(body=DeclareSubscriber(entity_id=1, M=1, key_scope=7, key_suffix="/x")))
    a.put("t/x")
    assert b.said() == ["PUT t/x=1"]


def test_keys_that_outgrow_a_message_are_refused() -> None:
    mesh = Mesh()
    a, b = mesh.clients(2)
    b.declare("sub", "**")
    a.alias(1, "a" * 60_000)
    a.alias(2, "a" * 60_000, scope=1)
    a.send(Push(M=1, key_scope=1, key_suffix="b" * 6_000, body=Put()))
    a.send(Push(M=1, key_scope=2, body=Put()))
    assert b.said() == []
    assert mesh.router.refused == 3


# What arrives ---------------------------------------------------------------------------------------


def test_body_and_extensions_pass_unchanged() -> None:
    a, b = Mesh().clients(2)
    b.declare("sub", "**")
    unknown = UnknownExtension(ext_id=0xE, ENC=2, data=b"unknown")
    stamp = Timestamp(timestamp=1 << 32, timestamp_id=b"\x01")
    put = Put(
        encoding=10, schema=b"s", timestamp=5, timestamp_id=b"\x02", data=b"1", extensions=[unknown.copy()]
    )
    a.put("t", body=put, extensions=[QoS(priority=2, D=1), stamp, unknown])
    (push,) = b.got()
    assert bytes(push.body) == bytes(put)
    kept = [ext for ext in push.extensions if not isinstance(ext, NodeId)]
    assert [bytes(ext)[1:] for ext in kept] == [
        bytes(ext)[1:] for ext in (QoS(priority=2, D=1), stamp, unknown)
    ]
    a.put("t", body=Del())
    assert b.said() == ["DEL t"]


def test_key_arrives_in_full() -> None:
    a, b = Mesh().clients(2)
    b.declare("sub", "**")
    a.alias(7, "t/a")
    a.send(Push(M=1, key_scope=7, key_suffix="/b", body=Put()))
    (push,) = b.got()
    assert (push.N, push.M, push.key_scope, push.key_suffix) == (1, 1, 0, "t/a/b")


@pytest.mark.parametrize("reliable", [True, False])
@pytest.mark.parametrize("priority", [0, 5, 7])
def test_lane_is_kept(reliable: bool, priority: int) -> None:
    a, b = Mesh().clients(2)
    b.declare("sub", "**")
    push = Push(key_suffix="t", body=Put(), extensions=[QoS(priority=priority)])
    a.send(push, reliable=reliable, priority=priority)
    assert b.lanes() == [(reliable, priority)]


@pytest.mark.parametrize(
    "chain", [[], [NodeId(node_id=9)], [QoS(), NodeId(node_id=9)], [NodeId(node_id=9), QoS()]]
)
def test_node_id_names_the_face_it_came_over(chain: list[NodeId]) -> None:
    a, b, c = Mesh().clients(3)
    for end in (b, c):
        end.declare("sub", "**")
    a.put("t", extensions=chain)
    b.put("t")
    pushes = b.got()
    assert node_ids(pushes) == [a.face]
    assert len(pushes[0].extensions) == len([ext for ext in chain if isinstance(ext, QoS)]) + 1
    assert node_ids(c.got()) == [a.face, b.face]


def test_policy_may_leave_node_id_out() -> None:
    class Silent(RouterPolicy):
        def node_id(self, source: int) -> int | None:
            del source
            return None

    a, b = Mesh(policy=Silent()).clients(2)
    b.declare("sub", "**")
    a.put("t", extensions=[QoS(D=1), NodeId(node_id=9)])
    (push,) = b.got()
    assert extension(push, NodeId) is None
    assert extension(push, QoS).D == 1


# Peers ------------------------------------------------------------------------------------------------


def test_peers_and_clients_reach_each_other_through_a_router() -> None:
    mesh = Mesh()
    ends = [mesh.open(whatami) for whatami in (WhatAmI.PEER, WhatAmI.CLIENT, WhatAmI.PEER, WhatAmI.CLIENT)]
    for end in ends:
        end.declare("sub", "t/**")
    for end in ends:
        end.said()
    ends[0].put("t/x")
    assert [end.said() for end in ends] == [[], *[["PUT t/x=1"]] * 3]


def test_long_keys_are_routed_without_being_remembered() -> None:
    mesh = Mesh()
    a, b = mesh.clients(2)
    b.declare("sub", "**")
    for number in range(30):
        a.put(f"{number}/" + "x/" * 1000 + "y")
    assert len(b.said()) == 30
    assert not mesh.router._routes._known


def test_remembered_routes_are_bounded() -> None:
    class Forgetful(RouterPolicy):
        def most_routes(self) -> int:
            return 10

    mesh = Mesh(policy=Forgetful())
    a, b = mesh.clients(2)
    b.declare("sub", "**")
    for number in range(25):
        a.put(f"t/{number}")
        assert len(mesh.router._routes._known) <= 10
    assert len(b.said()) == 25
