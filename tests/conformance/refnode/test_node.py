"""The reference node as a process: it starts, serves, survives bad neighbours, and ends in order."""

from __future__ import annotations

import random
import re
import signal
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.config import Locator
from conformance.nodes.ref import RefNode
from conformance.refnode.node import Node
from conformance.refnode.settings import NodeConfig
from scapy_layers.batch import prefixed
from scapy_layers.codes import CloseReason
from scapy_layers.data import Put, Query
from scapy_layers.declarations import DeclareKeyExpr, DeclareSubscriber
from scapy_layers.extensions import First, Patch, QoS
from scapy_layers.message import UnknownExtension
from scapy_layers.network import Declare, Push, Request, ResponseFinal
from scapy_layers.transport import Close, Fragment, Frame, Init, KeepAlive, Open
from tests.conformance.refnode._started import Beside, Raw, Started
from tests.conformance.refnode.conftest import LEASE, Start
from tests.conformance.session.pair import cut

ZID = b"\x11\x22"
OTHER = b"\x33\x44"


def subscribed(raw: Raw, key: str, zid: bytes = ZID) -> Raw:
    raw.open(zid)
    raw.send(Frame(R=1, sn=0, messages=[Declare(body=DeclareSubscriber(entity_id=1, key_suffix=key))]))
    return raw


def fenced(raw: Raw, sn: int) -> Raw:
    """Waits until the node has handled all that was sent before."""
    raw.send(Frame(R=1, sn=sn, messages=[Request(request_id=sn, key_suffix="nobody/has/this", body=Query())]))
    raw.until(ResponseFinal)
    return raw


def put(sn: int, key: str, data: bytes, **fields: object) -> Frame:
    return Frame(R=1, sn=sn, messages=[Push(key_suffix=key, body=Put(data=data), **fields)])


# Start and end ---------------------------------------------------------------------------------------


def test_ready_line_says_where_and_who_it_is(start: Start) -> None:
    node = start(
        "--listen", "tcp/127.0.0.1:0", "--listen", "tcp/127.0.0.1:0", "--mode", "peer", "--zid", "abc1"
    )
    assert node.facts["pid"] == node.process.pid
    assert (node.facts["zid"], node.facts["whatami"], node.facts["mutant"]) == ("abc1", "peer", None)
    assert len(set(node.facts["locators"])) == 2
    assert node.facts["locator"] == node.facts["locators"][0]
    assert not node.facts["locator"].endswith(":0")


def test_each_node_without_zid_gets_its_own(start: Start) -> None:
    assert start().facts["zid"] != start().facts["zid"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_sessions_with_close_and_the_node_with_0(node: Started, number: int) -> None:
    with node.raw() as one, node.raw() as two:
        one.open(ZID)
        two.open(OTHER)
        assert node.ends(number) == 0
        assert one.closed() == two.closed() == CloseReason.GENERIC


def test_end_does_not_wait_for_a_neighbour_that_does_not_read(node: Started) -> None:
    with node.raw() as raw:
        raw.open(ZID)
        started = time.monotonic()
        assert node.ends() == 0
        assert time.monotonic() - started < 5


def test_second_signal_ends_the_node_at_once(start: Start) -> None:
    node = start()
    with node.raw() as raw:
        raw.open(ZID)
        # Stopped, it gets both signals before it can act on the first.
        node.process.send_signal(signal.SIGSTOP)
        node.process.send_signal(signal.SIGTERM)
        node.process.send_signal(signal.SIGINT)
        node.process.send_signal(signal.SIGCONT)
        assert node.process.wait(10) in {128 + signal.SIGTERM, 128 + signal.SIGINT}


def test_counters_tell_what_happened(node: Started) -> None:
    with node.raw() as sub, node.raw() as pub:
        fenced(subscribed(sub, "a/**"), 1)
        pub.open(OTHER)
        pub.send(put(0, "a/b", b"1"))
        sub.until(Push)
        stats = node.stats()
        assert (stats["handshakes"], stats["sessions"], stats["links"], stats["half_open"]) == (2, 2, 2, 0)
        assert stats["received"] == 3
        assert stats["internal_errors"] == 0
    node.until_stats(sessions=0)


def test_stats_option_writes_counters_at_the_end(start: Start) -> None:
    node = start("--stats")
    assert node.ends() == 0
    assert '"handshakes": 0' in node.said()


# Sessions ---------------------------------------------------------------------------------------------


def test_value_goes_from_one_session_to_another(shared: Started) -> None:
    with shared.raw() as sub, shared.raw() as pub:
        fenced(subscribed(sub, "a/**"), 1)
        pub.open(OTHER)
        pub.send(put(0, "a/b", b"hello"))
        push = sub.until(Push)
        assert (push.key_suffix, push.body.data) == ("a/b", b"hello")


def test_messages_of_one_turn_share_a_batch(shared: Started) -> None:
    with shared.raw() as sub, shared.raw() as pub:
        fenced(subscribed(sub, "a/**"), 1)
        pub.open(OTHER)
        pushes = [Push(key_suffix="a/b", body=Put(data=b"%d" % n)) for n in range(100)]
        before = shared.stats()["batches"]
        pub.send(Frame(R=1, sn=0, messages=pushes))
        seen = 0
        while seen < 100:
            batch = sub.batch()
            assert batch is not None
            seen += batch.count(b"a/b")
        assert shared.stats()["batches"] - before < 10


def test_silent_neighbour_is_closed_as_expired_and_the_log_says_so(start: Start) -> None:
    node = start("--lease", "0.2")
    with node.raw() as raw:
        raw.open(ZID)
        assert raw.closed() == CloseReason.EXPIRED
    assert node.says("CLOSE EXPIRED sent: the node was silent")


def test_neighbour_that_spoke_while_the_node_stood_still_is_not_silent(node: Started) -> None:
    lease = 1
    with node.raw() as raw:
        raw.open(ZID, lease=lease)
        node.process.send_signal(signal.SIGSTOP)
        # Nothing tells that a lease has passed but time.
        time.sleep(lease * 1.2)
        raw.send(KeepAlive())
        node.process.send_signal(signal.SIGCONT)
        fenced(raw, 0)


def test_idle_session_gets_keep_alives(start: Start) -> None:
    with start("--lease", "2").raw() as raw:
        raw.open(ZID)
        for _ in range(5):
            assert isinstance(raw.message(), KeepAlive)
            raw.send(KeepAlive())


def test_handshake_that_does_not_go_on_ends(start: Start) -> None:
    node = start("--handshake-seconds", "0.2")
    with node.raw() as silent, node.raw() as half:
        half.send(Init(zid=ZID))
        assert isinstance(half.message(), Init)
        assert half.closed() == CloseReason.EXPIRED
        assert silent.ended()
    node.until_stats(half_open=0, refused=2)


def test_too_many_half_open_links_are_refused_and_others_go_on(start: Start) -> None:
    node = start("--half-open", "3", "--handshake-seconds", "30")
    with node.raw() as good:
        good.open(ZID)
        held = [node.raw() for _ in range(3)]
        node.until_stats(half_open=3)
        with node.raw() as late:
            assert late.closed() == CloseReason.MAX_SESSIONS
        held.pop().socket.close()
        node.until_stats(half_open=2)
        with node.raw() as next_one:
            next_one.open(OTHER)
        fenced(good, 0)
        for raw in held:
            raw.socket.close()


def test_session_limit_is_told_by_its_reason(start: Start) -> None:
    node = start("--max-sessions", "1")
    with node.raw() as first, node.raw() as second:
        first.open(ZID)
        second.send(Init(zid=OTHER))
        answer = second.message()
        assert isinstance(answer, Init)
        second.send(Open(T=1, lease=10, initial_sn=0, cookie=answer.cookie))
        assert second.closed() == CloseReason.MAX_SESSIONS


def test_1000_idle_sessions_live_at_once(start: Start) -> None:
    node = start("--max-sessions", "2000", "--half-open", "2000", level="warning")
    raws = [node.raw() for _ in range(1000)]
    try:
        for number, raw in enumerate(raws):
            raw.send(Init(zid=struct.pack("<I", number + 1)))
        answers = [raw.message() for raw in raws]
        for raw, answer in zip(raws, answers, strict=True):
            assert isinstance(answer, Init)
            raw.send(Open(T=1, lease=60, initial_sn=0, cookie=answer.cookie))
        assert all(isinstance(raw.message(), Open) for raw in raws)
        assert node.stats()["sessions"] == 1000
        fenced(raws[0], 0)
        fenced(raws[-1], 0)
    finally:
        for raw in raws:
            raw.socket.close()
    node.until_stats(sessions=0, half_open=0, internal_errors=0)


def test_slow_bytes_make_the_same_session(shared: Started) -> None:
    with shared.raw() as raw:
        raw.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def drip(*messages: object) -> None:
            for byte in prefixed(b"".join(bytes(message) for message in messages)):  # type: ignore[call-overload]
                raw.socket.sendall(bytes([byte]))

        drip(Init(zid=ZID))
        answer = raw.message()
        assert isinstance(answer, Init)
        drip(Open(T=1, lease=60, initial_sn=0, cookie=answer.cookie))
        assert isinstance(raw.message(), Open)
        drip(Frame(R=1, sn=0, messages=[Request(request_id=7, key_suffix="nobody", body=Query())]))
        assert raw.until(ResponseFinal).request_id == 7


def test_10000_connections_leave_neither_descriptors_nor_memory(start: Start) -> None:
    node = start("--seed", "1", "--half-open", "20000", level="warning")
    address = (node.locator.host, node.locator.port)
    init = prefixed(bytes(Init(zid=ZID)))

    def visit(times: int) -> None:
        for number in range(times):
            with socket.create_connection(address) as link:
                if number % 4 == 0:
                    link.sendall(init)
                    # Also keeps us from running ahead of the node.
                    link.recv(256)

    visit(2000)
    node.until_stats(links=2000, half_open=0)
    descriptors, memory = node.descriptors(), node.resident()
    visit(8000)
    node.until_stats(links=10_000, half_open=0)
    assert node.descriptors() == descriptors
    assert node.resident() - memory < 2000  # kB: a leak of one object a connection would be more


# Bad neighbours ---------------------------------------------------------------------------------------

HALF_MESSAGE = bytes(Frame(R=1, sn=0, messages=[Push(key_suffix="a/b", body=Put(data=b"value"))]))[:-3]

BAD_START = {
    "empty batch": (b"", CloseReason.INVALID),
    "one byte": (b"\x01", CloseReason.INVALID),
    "cut InitSyn": (bytes(Init(zid=ZID))[:-1], CloseReason.INVALID),
    "InitAck": (bytes(Init(A=1, zid=ZID, cookie=b"x")), CloseReason.INVALID),
    "OPEN": (bytes(Open(cookie=b"x")), CloseReason.INVALID),
    "FRAME": (bytes(put(0, "a/b", b"1")), CloseReason.INVALID),
    "KEEP_ALIVE": (b"\x04", CloseReason.INVALID),
    "unknown id": (b"\x08", CloseReason.INVALID),
    "network message": (bytes(Push(key_suffix="a", body=Put())), CloseReason.INVALID),
    "role 3": (b"\x01\x09\x13\x11\x22", CloseReason.INVALID),
    "version 8": (bytes(Init(version=8, zid=ZID)), CloseReason.UNSUPPORTED),
    "unknown mandatory extension": (
        bytes(Init(zid=ZID, extensions=[UnknownExtension(ext_id=0xE, M=1, ENC=0)])),
        CloseReason.UNSUPPORTED,
    ),
    "zeros": (bytes(64), CloseReason.INVALID),
    "noise": (random.Random(5).randbytes(500), CloseReason.INVALID),
}


@pytest.mark.parametrize("name", BAD_START)
def test_bad_start_is_refused_by_reason_and_harms_no_other(shared: Started, name: str) -> None:
    batch, reason = BAD_START[name]
    with shared.raw() as good, shared.raw() as bad:
        good.open(OTHER)
        bad.send(batch)
        assert bad.closed() == reason
        fenced(good, 0)
    assert shared.says(f"CLOSE {CloseReason(reason).name} sent: ")
    assert shared.stats()["internal_errors"] == 0


BAD_MIDDLE = {
    "cut FRAME": (HALF_MESSAGE, CloseReason.INVALID),
    "unknown id": (b"\x08", CloseReason.INVALID),
    "network message outside FRAME": (bytes(Push(key_suffix="a", body=Put())), CloseReason.INVALID),
    "unknown mandatory extension": (
        bytes(KeepAlive(extensions=[UnknownExtension(ext_id=0xE, M=1, ENC=0)])),
        CloseReason.UNSUPPORTED,
    ),
    "number beyond the resolution": (b"\x25\x80\x80\x80\x80\x80\x80\x01", CloseReason.INVALID),
    "bare PUT in FRAME": (b"\x25\x00\x01\x01a", CloseReason.INVALID),
    "noise": (b"\x25\x00" + random.Random(7).randbytes(500), CloseReason.INVALID),
}


@pytest.mark.parametrize("name", BAD_MIDDLE)
def test_bad_batch_in_a_session_is_closed_by_reason_and_harms_no_other(shared: Started, name: str) -> None:
    batch, reason = BAD_MIDDLE[name]
    with shared.raw() as good, shared.raw() as bad:
        good.open(OTHER)
        bad.open(ZID)
        bad.send(batch)
        assert bad.closed() == reason
        fenced(good, 0)
    assert shared.says(f"CLOSE {CloseReason(reason).name} sent: ")


def test_every_bad_start_in_a_row_leaves_a_node_that_serves(shared: Started) -> None:
    for batch, _ in [*BAD_START.values(), *BAD_MIDDLE.values()]:
        with shared.raw() as bad:
            bad.send(batch)
            bad.ended()
    with shared.raw() as good:
        assert good.open(ZID).lease == LEASE
        fenced(good, 0)
    assert shared.stats()["internal_errors"] == 0


def test_noise_of_every_length_harms_nobody(shared: Started) -> None:
    rng = random.Random(9)
    with shared.raw() as good:
        good.open(OTHER)
        for round_ in range(200):
            with shared.raw() as bad:
                if round_ % 2:
                    bad.open(ZID)
                    bad.send(b"\x25" + rng.randbytes(rng.randrange(200)))
                else:
                    bad.socket.sendall(rng.randbytes(rng.randrange(200)))
                bad.socket.shutdown(socket.SHUT_WR)
                bad.ended()
        fenced(good, 0)
    shared.until_stats(sessions=0, half_open=0, internal_errors=0)


def test_reset_in_the_middle_harms_nobody(shared: Started) -> None:
    with shared.raw() as good:
        good.open(OTHER)
        for _ in range(20):
            bad = shared.raw()
            bad.open(ZID)
            bad.send(put(0, "a/b", b"x" * 1000))
            bad.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            bad.socket.close()
            shared.until_stats(sessions=1)
        fenced(good, 0)


def test_neighbour_that_does_not_read_is_closed_as_unresponsive_and_others_get_all(start: Start) -> None:
    node = start("--waiting-bytes", "100000")
    with node.raw() as deaf, node.raw() as good, node.raw() as pub:
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        subscribed(deaf, "a/**", zid=b"\x55")
        fenced(subscribed(good, "a/**"), 1)
        pub.open(OTHER)
        keeps = [QoS(D=1)]
        for sn in range(400):
            pub.send(put(sn, "a/b", bytes(20_000), extensions=keeps))
            good.until(Push)
        assert node.says("CLOSE UNRESPONSIVE sent: it does not read")
        fenced(pub, 400)


def test_neighbour_that_reads_is_told_more_than_may_wait(start: Start) -> None:
    node = start("--waiting-bytes", "100000", "--max-message", "10000000")
    with node.raw() as reads, node.raw() as pub:
        subscribed(reads, "a/**", zid=b"\x55")
        fenced(reads, 1)
        pub.open(OTHER, extensions=[Patch(patch=1)])
        message = Push(key_suffix="a/b", extensions=[QoS(D=1)], body=Put(data=bytes(1_500_000)))
        parts = cut(bytes(message), 60_000)
        for sn, part in enumerate(parts):
            first = [First()] if sn == 0 else []
            pub.send(Fragment(R=1, M=int(sn < len(parts) - 1), sn=sn, extensions=first, data=part))
        while not isinstance(last := reads.message(), Fragment) or last.value("M"):
            assert last is not None
        fenced(reads, 2)


def test_one_neighbour_can_not_have_another_closed_by_many_declarations(start: Start) -> None:
    node = start("--waiting-bytes", "100000")
    with node.raw() as good, node.raw() as bad:
        good.open(OTHER)
        fenced(good, 0)
        bad.open(ZID)
        key = "k" * 20_000
        bad.send(Frame(R=1, sn=0, messages=[Declare(body=DeclareKeyExpr(key_id=1, key_suffix=key))]))
        for sn in range(1, 41):
            body = DeclareSubscriber(entity_id=sn, key_scope=1, M=1, key_suffix=f"/{sn}")
            bad.send(Frame(R=1, sn=sn, messages=[Declare(body=body)]))
        fenced(bad, 41)
        fenced(good, 1)
        assert "UNRESPONSIVE" not in node.said()


@pytest.fixture
def beside() -> Iterator[Node]:
    """A node in this process, which does nothing by itself and never finds that anybody is late."""
    here = Locator.parse("tcp/127.0.0.1:0", listening=True)
    node = Node(NodeConfig(zid=b"\x0a", listen=(here,), lease=3600, handshake_seconds=3600))
    node.start()
    yield node
    node.close()


def test_others_are_served_while_one_gets_a_big_value_in_small_batches(beside: Node) -> None:
    with Beside(beside) as small, Beside(beside) as good, Beside(beside) as pub:
        small.open(b"\x55", batch_size=32, extensions=[Patch(patch=1)])
        body = DeclareSubscriber(entity_id=1, key_suffix="**")
        small.send(Fragment(R=1, M=0, sn=0, extensions=[First()], data=bytes(Declare(body=body))))
        good.open(OTHER)
        fenced(good, 0)
        pub.open(ZID)
        for sn in range(10):
            pub.send(put(sn, "a", bytes(60_000), extensions=[QoS(D=1)]))
        fenced(pub, 10)
        fenced(good, 1)
        before = beside.counters.batches
        values = 0
        while values < 10:
            message = small.message()
            assert message is not None
            values += isinstance(message, Fragment) and not message.value("M")
        # Most of it left after anybody else was answered.
        assert before < beside.counters.batches / 3


def test_batches_of_very_many_messages_leave_turns_to_others(beside: Node) -> None:
    with Beside(beside) as good, Beside(beside) as bad:
        good.open(OTHER)
        bad.open(ZID)
        for _ in range(60):
            bad.send(bytes(KeepAlive()) * 1000)
        bad.send(Close())
        fenced(good, 0)
        assert not bad.readable()
        assert bad.ended()


def test_droppable_values_are_dropped_for_a_neighbour_that_does_not_read(start: Start) -> None:
    node = start("--waiting-bytes", "100000")
    with node.raw() as deaf, node.raw() as good, node.raw() as pub:
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        subscribed(deaf, "a/**", zid=b"\x55")
        fenced(subscribed(good, "a/**"), 1)
        pub.open(OTHER)
        for sn in range(400):
            pub.send(put(sn, "a/b", bytes(20_000)))
            good.until(Push)
        stats = node.stats()
        assert stats["dropped"] > 0
        assert stats["sessions"] == 3


def test_declarations_of_a_lost_link_are_withdrawn(shared: Started) -> None:
    with shared.raw() as watching:
        watching.open(OTHER)
        lost = subscribed(shared.raw(), "gone/**")
        told = watching.until(Declare)
        assert isinstance(told.body, DeclareSubscriber)
        lost.socket.close()
        assert watching.until(Declare).body.entity_id == told.body.entity_id
        assert shared.stats()["sessions"] == 1


def test_close_of_the_other_end_is_not_answered_and_frees_its_zid(shared: Started) -> None:
    for _ in range(5):
        with shared.raw() as raw:
            raw.open(ZID)
            raw.send(Close(reason=0))
            assert raw.batch() is None
    shared.until_stats(sessions=0)


def test_exception_on_one_link_ends_that_link_only_and_is_counted(start: Start) -> None:
    node = start(module="tests.conformance.refnode._failing")
    with node.raw() as good, node.raw() as bad:
        good.open(OTHER)
        bad.open(ZID)
        bad.send(put(0, "fail", b""))
        assert bad.closed() == CloseReason.GENERIC
        fenced(good, 0)
    assert node.stats()["internal_errors"] == 1
    assert re.search(r"internal error\nTraceback", node.said())


# As a node under test ----------------------------------------------------------------------------------


def test_node_of_the_suite_starts_serves_and_ends(tmp_path: Path) -> None:
    with RefNode(tmp_path) as node:
        assert node.whatami == "router"
        assert int(node.zid, 16)
        assert node.problem(1.0) == ""
    assert node.death() == "the process is not running"
