"""Queries: whom they reach, how answers come back, and that each ends exactly once."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.router import RouterPolicy
from scapy_layers.codes import QueryTarget, Resolution
from scapy_layers.data import Del, Err, Query, Reply
from scapy_layers.extensions import (
    Budget,
    NodeId,
    QoS,
    QueryBody,
    ResponderId,
    Target,
    Timeout,
    Timestamp,
)
from scapy_layers.network import Request, Response, ResponseFinal
from tests.conformance.router.mesh import End, Mesh, extension

ALL = Target(target=QueryTarget.ALL)
COMPLETE = Target(target=QueryTarget.ALL_COMPLETE)


def asked(end: End) -> Request:
    """Returns the one REQUEST that came."""
    (request,) = end.got()
    assert isinstance(request, Request)
    return request


def inquiry(answerers: int = 1, **info: Any) -> tuple[Mesh, End, list[End]]:
    """Returns a router, an asker and some with a queryable on q/**."""
    mesh = Mesh()
    asker, *ends = mesh.clients(1 + answerers)
    for end in ends:
        end.declare("qable", "q/**", **info)
    return mesh, asker, ends


# Targets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "wanted"),
    [([], [0, 1, 0, 0]), ([ALL], [1, 1, 1, 1]), ([COMPLETE], [0, 1, 1, 0])],
    ids=["best", "all", "all complete"],
)
def test_target_chooses_who_is_asked(target: list[Target], wanted: list[int]) -> None:
    asker, *ends = Mesh().clients(5)
    ends[0].declare("qable", "q/**", distance=0)
    ends[1].declare("qable", "q/**", complete=1, distance=2)
    ends[2].declare("qable", "**", complete=1, distance=3)
    ends[3].declare("qable", "q/x")
    asker.ask("q/x", 7, *target)
    assert [len(end.got()) for end in ends] == wanted


def test_complete_counts_only_where_it_covers_the_whole_query() -> None:
    asker, part, far, near = Mesh().clients(4)
    part.declare("qable", "q/x", complete=1)
    far.declare("qable", "q/**", distance=5)
    near.declare("qable", "q/*", distance=1)
    asker.ask("q/*", 1, COMPLETE)
    assert asker.said() == ["final #1"]
    asker.ask("q/*", 2)
    part.said()
    asker.ask("q/x", 3)
    assert (part.said(), far.said(), near.said()) == (["? q/x #1"], [], [])


def test_nearest_is_asked_when_none_is_complete_and_the_first_face_when_all_are_alike() -> None:
    asker, far, near, same = Mesh().clients(4)
    far.declare("qable", "q/**", distance=5)
    near.declare("qable", "q/**", distance=1)
    same.declare("qable", "q/**", distance=1)
    asker.ask("q/x")
    assert (far.said(), near.said(), same.said()) == ([], ["? q/x #0"], [])


def test_face_with_two_queryables_is_asked_once_and_counts_with_its_best() -> None:
    asker, one, two = Mesh().clients(3)
    one.declare("qable", "q/**", distance=4)
    one.declare("qable", "q/x", distance=1)
    two.declare("qable", "q/*", distance=2)
    asker.ask("q/x")
    assert (one.said(), two.said()) == (["? q/x #0"], [])
    asker.ask("q/x", 2, ALL)
    assert (one.said(), two.said()) == (["? q/x #1"], ["? q/x #0"])


def test_asker_is_never_asked() -> None:
    asker, other = Mesh().clients(2)
    asker.declare("qable", "q/**", complete=1)
    asker.ask("q/x", 1)
    asker.ask("q/x", 2, ALL)
    assert asker.said() == ["final #1", "final #2"]
    other.ask("q/x", 1)
    assert asker.said() == ["? q/x #0"]


@pytest.mark.parametrize("key", ["a//b", "", "q/**/*", "q#"])
def test_query_without_a_key_ends_at_once(key: str) -> None:
    _, asker, (end,) = inquiry()
    asker.ask(key, 5)
    asker.send(Request(request_id=6, M=1, key_scope=7, body=Query()))
    assert asker.said() == ["final #5", "final #6"]
    assert end.said() == []


# Answers --------------------------------------------------------------------------------------------


def test_replies_come_back_in_order_with_the_id_of_the_asker_then_one_final() -> None:
    _, asker, (end,) = inquiry()
    asker.ask("q/*", 0xFFFF_FFFF)
    number = asked(end).request_id
    for data in (b"1", b"2", b"3"):
        end.reply(number, "q/x", data)
    end.send(Response(request_id=number, key_suffix="q/y", body=Reply(body=Del())))
    end.send(Response(request_id=number, key_suffix="q/z", body=Err(data=b"no")))
    end.finish(number, number)
    end.reply(number, "q/x", b"late")
    last = "#4294967295"
    assert asker.said() == [
        *(f"PUT q/x={data} {last}" for data in "123"),
        f"DEL q/y {last}",
        f"ERR no {last}",
        f"final {last}",
    ]


def test_two_askers_with_one_id_each_get_their_own_answers() -> None:
    mesh, first, (end,) = inquiry()
    (second,) = mesh.clients(1)
    first.ask("q/1", 42)
    second.ask("q/2", 42)
    ids = [message.request_id for message in end.got()]
    assert len({*ids}) == 2
    for number, key in zip(reversed(ids), ("q/2", "q/1"), strict=True):
        end.reply(number, key)
        end.finish(number)
    assert first.said() == ["PUT q/1=1 #42", "final #42"]
    assert second.said() == ["PUT q/2=1 #42", "final #42"]


def test_answers_of_one_face_under_the_id_of_another_go_nowhere() -> None:
    _, asker, (one, two) = inquiry(2)
    asker.ask("q/x", 1)
    number = asked(one).request_id
    two.reply(number, "q/x")
    two.finish(number)
    asker.finish(number)
    assert asker.said() == []


@pytest.mark.parametrize("count", [1, 2, 5])
def test_final_follows_the_last_queryable(count: int) -> None:
    _, asker, ends = inquiry(count)
    asker.ask("q/x", 9, ALL)
    for end in ends:
        assert asker.said() == []
        end.finish(asked(end).request_id)
    assert asker.said() == ["final #9"]


def test_reply_with_a_key_that_is_none_is_left_out_but_an_error_needs_no_key() -> None:
    _, asker, (end,) = inquiry()
    asker.ask("q/x", 3)
    number = asked(end).request_id
    end.reply(number, "q//x")
    end.reply(number, "")
    end.send(Response(request_id=number, M=1, key_scope=4, body=Err(data=b"alias")))
    end.send(Response(request_id=number, M=1, body=Err(data=b"none")))
    end.reply(number, "elsewhere")
    assert asker.said() == ["ERR none #3", "PUT elsewhere=1 #3"]


def test_reply_may_rest_on_an_alias() -> None:
    _, asker, (end,) = inquiry()
    end.alias(4, "q/x")
    asker.ask("q/x", 3)
    end.reply(asked(end).request_id, "/y", M=1, key_scope=4)
    assert asker.said() == ["PUT q/x/y=1 #3"]


def test_request_and_answers_keep_what_they_carry() -> None:
    _, asker, (end,) = inquiry()
    stamp = Timestamp(timestamp=1 << 32, timestamp_id=b"\x01")
    body = Query(parameters="a=1", extensions=[QueryBody(encoding=5, data=b"x")])
    chain = [QoS(D=1, priority=2), NodeId(node_id=4), stamp, ALL, Budget(budget=5), Timeout(timeout=700)]
    asker.send(
        Request(request_id=3, key_suffix="q/x", extensions=chain, body=body), reliable=False, priority=2
    )
    assert end.lanes() == [(False, 2)]
    asker.send(Request(request_id=4, key_suffix="q/x", extensions=chain, body=body))
    request = asked(end)
    assert bytes(request.body) == bytes(body)
    assert [type(ext) for ext in request.extensions] == [QoS, Timestamp, Target, Budget, Timeout]
    responder = ResponderId(zid=b"\x11\x22", eid=300)
    end.send(
        Response(
            request_id=request.request_id,
            key_suffix="q/x",
            extensions=[stamp, responder],
            body=Err(encoding=1, data=b"no"),
        )
    )
    end.finish(request.request_id)
    answer, final = asker.got()
    assert [bytes(ext) for ext in answer.extensions][1:] == [bytes(responder)]
    assert answer.body.encoding == 1
    assert bytes(extension(final, QoS)) == bytes(QoS(D=1, priority=2))
    assert len(final.extensions) == 1


def test_final_of_the_router_itself_has_qos_and_lane_of_the_query() -> None:
    (asker,) = Mesh().clients(1)
    query = Request(request_id=3, key_suffix="q", extensions=[QoS(D=1, priority=1), ALL], body=Query())
    asker.send(query, priority=1)
    assert bytes(asker.mesh.sent[-1].message) == b"\x9a\x03\x21\x09"
    assert asker.lanes() == [(True, 1)]
    asker.ask("q", 4)
    assert bytes(asker.mesh.sent[-1].message) == b"\x1a\x04"


def test_budget_caps_the_replies() -> None:
    _, asker, (one, two) = inquiry(2)
    asker.ask("q/x", 3, ALL, Budget(budget=2))
    numbers = [asked(end).request_id for end in (one, two)]
    for data in (b"1", b"2", b"3"):
        for end, number in zip((one, two), numbers, strict=True):
            end.reply(number, "q/x", data)
    for end, number in zip((one, two), numbers, strict=True):
        end.finish(number)
    assert asker.said() == ["PUT q/x=1 #3", "PUT q/x=1 #3", "final #3"]


# Ends without an answer -------------------------------------------------------------------------------


@pytest.mark.parametrize(("chain", "seconds"), [([], 10.0), ([Timeout(timeout=300)], 0.3)])
def test_silence_ends_with_an_error_and_the_final(chain: list[Timeout], seconds: float) -> None:
    mesh, asker, (one, two) = inquiry(2)
    asker.ask("q/x", 3, ALL, QoS(D=1), *chain)
    one.finish(asked(one).request_id)
    number = asked(two).request_id
    assert mesh.router.next_deadline() == pytest.approx(mesh.now + seconds)
    mesh.wait(seconds * 0.99)
    assert asker.said() == []
    mesh.wait(seconds * 0.02)
    two.reply(number, "q/x")
    two.finish(number)
    error, final = asker.got()
    assert [asker.word(message) for message in (error, final)] == ["ERR Timeout #3", "final #3"]
    assert (error.N, error.M, error.key_scope) == (0, 1, 0)
    said = extension(error, ResponderId)
    assert (said.zid, said.eid) == (two.zid, 0)
    assert bytes(extension(error, QoS)) == bytes(QoS(D=1))
    assert mesh.router.next_deadline() is None
    assert len(mesh.router._queries) == 0


def test_timeout_looks_like_that_of_real_routers() -> None:
    mesh, asker, (end,) = inquiry()
    asker.ask("q/x", 9, Timeout(timeout=1))
    mesh.wait(1)
    zid = end.zid
    wanted = b"\x9b\x09\x00\x43\x04\x10" + zid + b"\x00\x05\x07Timeout"
    assert bytes(mesh.sent[-2].message)[1:] == wanted[1:]
    assert bytes(mesh.sent[-2].message)[0] == 0xDB


@pytest.mark.parametrize("others", [0, 1])
def test_queryable_that_leaves_counts_as_finished(others: int) -> None:
    _, asker, ends = inquiry(1 + others)
    asker.ask("q/x", 3, ALL)
    ends[0].reply(asked(ends[0]).request_id, "q/x")
    ends[0].close()
    assert asker.said() == ["PUT q/x=1 #3", *["final #3"] * (not others)]
    for end in ends[1:]:
        end.finish(asked(end).request_id)
        assert asker.said() == ["final #3"]


def test_queryable_that_is_undeclared_may_still_answer() -> None:
    _, asker, (end,) = inquiry()
    asker.ask("q/x", 3)
    number = asked(end).request_id
    end.undeclare("qable", 1)
    assert asker.said() == []
    end.reply(number, "q/x")
    end.finish(number)
    assert asker.said() == ["PUT q/x=1 #3", "final #3"]


def test_asker_that_leaves_frees_its_queries_and_late_replies_mean_nothing() -> None:
    mesh, asker, (end,) = inquiry()
    (other,) = mesh.clients(1)
    asker.ask("q/x", 3)
    number = asked(end).request_id
    asker.close()
    assert len(mesh.router._queries) == 0
    other.ask("q/x", 4)
    assert asked(end).request_id != number
    end.reply(number, "q/x")
    end.finish(number)
    assert (asker.said(), other.said()) == ([], [])
    assert mesh.router.refused == 2
    mesh.wait(11)
    assert other.said() == ["ERR Timeout #4", "final #4"]


def test_asker_that_leaves_makes_room_for_those_who_wait_for_an_id() -> None:
    mesh = Mesh()
    end = mesh.open(rid=Resolution.BITS_8)
    asker, other = mesh.clients(2)
    end.declare("qable", "q/**")
    for number in range(300):
        asker.ask("q/x", number)
    other.ask("q/y", 1)
    end.got()
    asker.close()
    (request,) = end.got()
    assert b"q/y" in bytes(request)
    end.finish(request.request_id)
    assert other.said() == ["final #1"]


def test_query_waits_an_hour_at_most() -> None:
    mesh, asker, (end,) = inquiry()
    asker.ask("q/x", 1, Timeout(timeout=(1 << 64) - 1))
    assert len(end.got()) == 1
    mesh.wait(3599)
    assert asker.said() == []
    mesh.wait(2)
    assert asker.said() == ["ERR Timeout #1", "final #1"]


def test_open_queries_of_one_face_are_bounded_and_others_may_still_ask() -> None:
    class Tight(RouterPolicy):
        def most_queries_of_asker(self) -> int:
            return 2

    mesh = Mesh(policy=Tight())
    asker, other, end = mesh.clients(3)
    end.declare("qable", "q")
    for number in (1, 2, 3):
        asker.ask("q", number)
    other.ask("q", 4)
    assert (asker.said(), other.said()) == (["final #3"], [])
    numbers = [message.request_id for message in end.got()]
    end.finish(*numbers)
    asker.ask("q", 5)
    assert len(end.got()) == 1
    assert mesh.router.refused == 1


# Request ids ---------------------------------------------------------------------------------------------


def test_ids_stay_in_the_agreed_range_and_who_finds_none_waits() -> None:
    mesh = Mesh()
    end = mesh.open(rid=Resolution.BITS_8)
    (asker,) = mesh.clients(1)
    end.declare("qable", "q/**")
    for number in range(300):
        asker.ask("q/x", number)
    first = [message.request_id for message in end.got() if isinstance(message, Request)]
    assert sorted(first) == list(range(256))
    end.finish(*first[:44])
    more = [message.request_id for message in end.got()]
    assert sorted(more) == sorted(first[:44])
    end.finish(*first[44:], *more)
    assert sorted(asker.said()) == sorted(f"final #{number}" for number in range(300))
    asker.ask("q/x", 1000)
    end.finish(*(message.request_id for message in end.got()))
    assert asker.said() == ["final #1000"]


def test_who_waits_for_an_id_may_wait_in_vain() -> None:
    mesh = Mesh()
    end = mesh.open(rid=Resolution.BITS_8)
    asker, other = mesh.clients(2)
    end.declare("qable", "q/**")
    for number in range(256):
        other.ask("q/x", number)
    asker.ask("q/x", 1, Timeout(timeout=100))
    asker.ask("q/x", 2, Timeout(timeout=20_000))
    mesh.wait(0.2)
    assert asker.said() == ["final #1"]
    end.close()
    assert asker.said() == ["final #2"]
    assert len(other.said()) == 256
    assert len(mesh.router._queries) == 0


def test_ids_are_not_used_again_soon() -> None:
    _, asker, (end,) = inquiry()
    seen = []
    for number in range(50):
        asker.ask("q/x", number)
        seen.append(asked(end).request_id)
        end.finish(seen[-1])
    assert seen == list(range(50))


def test_free_ids_are_found_and_rest_as_long_as_they_can() -> None:
    mesh = Mesh()
    end = mesh.open(rid=Resolution.BITS_8)
    (asker,) = mesh.clients(1)
    end.declare("qable", "q/**")
    seen = []
    for number in range(600):
        asker.ask("q/x", number)
        seen += [message.request_id for message in end.got() if isinstance(message, Request)]
        if number != 7:
            end.finish(seen[-1])
    rest = [number for number in range(256) if number != 7]
    assert seen == [*range(256), *rest, *rest][:600]


def test_deadlines_of_ended_queries_do_not_pile_up() -> None:
    mesh, asker, (end,) = inquiry()
    for number in range(3000):
        asker.send(
            Request(request_id=number, key_suffix="q/x", extensions=[Timeout(timeout=1 << 40)], body=Query())
        )
        end.send(ResponseFinal(request_id=number))
    mesh.router.next_deadline()
    assert len(mesh.router._queries._deadlines) < 1100


def test_many_queries_whose_time_is_over_end_in_slices() -> None:
    mesh, asker, (end,) = inquiry()
    for number in range(1500):
        asker.ask("q/x", number, Timeout(timeout=1000))
    mesh.router.tick(1.0)
    assert len(mesh.router._queries) == 500
    assert mesh.router.next_deadline() == 1.0
    mesh.router.tick(1.0)
    assert mesh.router.next_deadline() is None
    mesh.wait(0)
    assert sorted(said for said in asker.said() if "final" in said) == sorted(
        f"final #{number}" for number in range(1500)
    )
    assert len(end.got()) == 1500


def test_policy_may_say_nothing_when_time_is_over() -> None:
    class Quiet(RouterPolicy):
        def timeout_error(self) -> bytes | None:
            return None

    mesh = Mesh(policy=Quiet())
    asker, end = mesh.clients(2)
    end.declare("qable", "q")
    asker.ask("q", 3)
    mesh.wait(11)
    assert asker.said() == ["final #3"]
