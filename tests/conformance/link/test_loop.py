"""Times, fairness, wakes, and what is left behind."""

from __future__ import annotations

import gc
import math
import os
import resource
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conformance.config import Locator
from conformance.link import Link, Links, stream
from conformance.link.stream import StreamLink
from tests.conformance.link._ends import Inbox, ends_of, where


def data_segments(link: Link) -> int:
    """Segments with data that the system has sent on a TCP link (tcpi_data_segs_out)."""
    with socket.socket(fileno=os.dup(link.fileno())) as same:
        info = same.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 160)
    number: int = struct.unpack_from("=I", info, 156)[0]
    return number


def never() -> bool:
    return False


def test_timers_are_called_in_order_and_once(links: Links) -> None:
    calls: list[str] = []
    now = time.monotonic()
    links.at(now + 0.02, lambda _: calls.append("second"))
    links.at(now + 0.01, lambda _: calls.append("first"))
    links.at(now + 0.02, lambda _: calls.append("third"))
    assert links.wait(lambda: len(calls) == 3, 60)
    links.wait(never, 0.03)
    assert calls == ["first", "second", "third"]


def test_timer_is_never_called_before_its_time(links: Links) -> None:
    due = time.monotonic() + 0.02
    seen: list[float] = []
    links.at(due, seen.append)
    links.wait(lambda: bool(seen), 60)
    assert seen[0] >= due


def test_loop_does_not_sleep_behind_a_call_that_brings_what_is_waited_for(
    links: Links, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float | None] = []

    def select(seconds: float | None) -> list[object]:
        slept.append(seconds)
        return []

    monkeypatch.setattr(links._selector, "select", select)
    calls: list[int] = []
    links.call_later(lambda: calls.append(1))
    assert links.wait(lambda: bool(calls), 60)
    assert slept == [0.0]


def test_cancelled_timer_is_not_called_and_leaves_the_heap(links: Links) -> None:
    calls: list[float] = []
    timers = [links.at(time.monotonic() + 60, calls.append) for _ in range(1000)]
    for timer in timers:
        timer.cancel()
        timer.cancel()
    assert len(links._timers) < 200
    links.at(time.monotonic(), calls.append)
    links.wait(lambda: bool(calls), 60)
    assert len(calls) == 1


def test_timer_that_sets_itself_anew_lets_sockets_have_their_turn(links: Links, tmp_path: Path) -> None:
    ends = ends_of(links, "tcp", tmp_path)

    def again(now: float) -> None:
        links.at(now, again)

    again(time.monotonic())
    ends.near.send(b"\x04")
    ends.wait(lambda: ends.far_in.seen)


def test_ticker_that_is_cancelled_is_called_no_more(links: Links) -> None:
    calls: list[float] = []
    ticker = links.every(calls.append)
    links.wait(never, 0)
    ticker.cancel()
    ticker.cancel()
    links.wait(never, 0)
    assert len(calls) == 1


def test_condition_that_a_timer_fulfils_ends_the_wait_at_once(links: Links) -> None:
    done: list[float] = []
    links.at(time.monotonic() + 0.01, done.append)
    start = time.monotonic()
    assert links.wait(lambda: bool(done), 60)
    assert time.monotonic() - start < 30


def test_wake_from_a_signal_handler_makes_wait_look_again(links: Links) -> None:
    stopping: list[int] = []

    def handler(number: int, _: object) -> None:
        stopping.append(number)
        links.wake()

    before = signal.signal(signal.SIGUSR1, handler)
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        timer.start()
        assert links.wait(lambda: bool(stopping), math.inf)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


def test_wake_after_the_end_does_nothing() -> None:
    links = Links(None)
    links.close()
    links.close()
    links.wake()


def test_wake_of_another_thread_and_the_end_do_not_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    links = Links(None)
    looked, may_write, wrong = threading.Event(), threading.Event(), list[OSError]()
    write = os.eventfd_write

    def late(descriptor: int, value: int) -> None:
        looked.set()
        may_write.wait(0.2)
        write(descriptor, value)

    def wake() -> None:
        try:
            links.wake()
        except OSError as error:
            wrong.append(error)

    monkeypatch.setattr(os, "eventfd_write", late)
    thread = threading.Thread(target=wake)
    thread.start()
    looked.wait()
    links.close()
    may_write.set()
    thread.join()
    assert not wrong


def test_flooding_link_does_not_keep_the_others_waiting(silent: Links, tmp_path: Path) -> None:
    ends = ends_of(silent, "tcp", tmp_path)
    inbox = Inbox()
    listener = silent.listen(where("tcp", tmp_path), inbox.of, "quiet")  # type: ignore[arg-type]
    quiet = silent.connect(listener.locator, "b")
    for _ in range(30):
        ends.near.send_raw(b"\x01\x00\x04" * 10_000)
    ends.wait(lambda: len(ends.far_in.seen) > 100)
    before = len(ends.far_in.seen)
    quiet.send(b"\x04")
    silent.wait(lambda: bool(inbox.seen), 5)
    assert len(ends.far_in.seen) - before <= 500
    silent.wait(lambda: len(ends.far_in.seen) == 300_000, 60)


def test_crowd_at_a_listener_is_let_in_a_few_a_turn(silent: Links, tmp_path: Path) -> None:
    arrived: list[Link] = []
    listener = silent.listen(where("tcp", tmp_path), arrived.append)
    crowd = [socket.create_connection((listener.locator.host, listener.locator.port)) for _ in range(100)]
    silent.wait(never, 0)
    assert len(arrived) <= 50
    assert silent.wait(lambda: len(arrived) == 100, 5)
    for one in crowd:
        one.close()


def test_visitor_that_is_gone_already_harms_nobody(links: Links, tmp_path: Path) -> None:
    inboxes: list[Inbox] = []
    listener = links.listen(where("tcp", tmp_path), lambda link: inboxes.append(Inbox().of(link)))
    for _ in range(3):
        with socket.create_connection((listener.locator.host, listener.locator.port)) as gone:
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert links.wait(lambda: len(inboxes) == 3 and all(inbox.ends for inbox in inboxes), 5)
    assert {inbox.ends[0] for inbox in inboxes} == {"reset by the node"}


@contextmanager
def few_descriptors(spare: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(name) for name in os.listdir("/proc/self/fd")) + 1  # noqa: PTH208
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + spare, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_listener_without_descriptors_pauses_and_goes_on_later(silent: Links, tmp_path: Path) -> None:
    arrived: list[Link] = []
    listener = silent.listen(where("tcp", tmp_path), arrived.append)
    crowd = [socket.create_connection((listener.locator.host, listener.locator.port)) for _ in range(10)]
    with few_descriptors(0):
        held = []
        while True:
            try:
                held.append(os.dup(0))
            except OSError:
                break
        turns = 0

        def turned() -> bool:
            nonlocal turns
            turns += 1
            return False

        silent.wait(turned, 0.05)
        assert arrived == []
        assert turns < 20, "the loop spins"
        for descriptor in held:
            os.close(descriptor)
    assert silent.wait(lambda: len(arrived) == 10, 5)
    for one in crowd:
        one.close()


@pytest.mark.parametrize("proto", ["tcp", "udp", "ws", "unixsock-stream", "tls"])
def test_many_connections_leave_no_descriptor_and_no_object_behind(
    silent: Links, proto: str, tmp_path: Path
) -> None:
    count = {"tls": 100, "ws": 300}.get(proto, 1000)
    done: list[str | None] = []

    def on_link(link: Link) -> None:
        link.on_batch = lambda seen: link.send(seen.batch)
        link.on_end = lambda ended: done.append(ended.ended)

    listener = silent.listen(where(proto, tmp_path), on_link)

    def once() -> None:
        answers: list[object] = []
        link = silent.connect(listener.locator, "a")
        link.on_batch = answers.append
        link.send(b"\x04")
        assert silent.wait(lambda: bool(answers), 5)
        link.close()

    once()
    silent.wait(lambda: len(done) == 1, 0.2)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(count):
        once()
    if proto == "udp":
        for link in list(silent.links):
            link.close()
    silent.wait(lambda: len(done) == count + 1, 5)
    silent.wait(lambda: len(os.listdir("/proc/self/fd")) <= before, 2)  # noqa: PTH208
    assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208
    assert not silent.links
    gc.collect()
    assert sum(isinstance(thing, StreamLink) for thing in gc.get_objects()) <= 2
    assert len(silent._timers) < 100


def test_batches_of_one_turn_leave_together_where_no_history_is_kept(silent: Links, tmp_path: Path) -> None:
    ends = ends_of(silent, "tcp", tmp_path)
    before = data_segments(ends.near)
    for _ in range(100):
        ends.near.send(b"\x04")
    assert ends.near.waiting == 300
    ends.wait(lambda: len(ends.far_in.seen) == 100)
    assert data_segments(ends.near) - before == 1


def test_each_batch_leaves_at_once_where_a_history_is_kept(links: Links, tmp_path: Path) -> None:
    ends = ends_of(links, "tcp", tmp_path)
    before = data_segments(ends.near)
    for _ in range(10):
        ends.near.send(b"\x04")
    assert data_segments(ends.near) - before == 10


@pytest.mark.parametrize("at_once", [stream.RECEIVE_BYTES, 300])
def test_what_came_before_a_link_broke_is_read_by_turns(
    silent: Links, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(stream, "RECEIVE_BYTES", at_once)
    ends = ends_of(silent, "tcp", tmp_path)
    ends.near.send_raw(b"\x01\x00\x04" * 1000)
    ends.turn()
    ends.near.abort()
    before = len(ends.far_in.seen)
    ends.far.send(b"\x04")
    ends.turn()
    assert ends.far_in.ends == []
    assert before < len(ends.far_in.seen) < 1000
    ends.wait(lambda: ends.far_in.ends)
    assert len(ends.far_in.seen) == 1000
    assert len(ends.far_in.ends) == 1


@pytest.mark.parametrize("which", ["links", "silent"])
def test_chunks_are_segments_of_their_own(request: pytest.FixtureRequest, which: str, tmp_path: Path) -> None:
    ends = ends_of(request.getfixturevalue(which), "tcp", tmp_path)
    sizes = iter([1, 2, 3, 100])
    ends.near.chunk = lambda: next(sizes)
    before = data_segments(ends.near)
    ends.near.send(bytes(48))
    ends.wait(lambda: ends.far_in.seen)
    assert data_segments(ends.near) - before == 4


def test_callback_that_fails_does_not_lose_the_batches_behind_it(silent: Links, tmp_path: Path) -> None:
    ends = ends_of(silent, "tcp", tmp_path)
    keep = ends.far.on_batch

    def fail(_: object) -> None:
        ends.far.on_batch = keep
        raise RuntimeError("a bug of the owner")

    ends.far.on_batch = fail
    ends.near.send_raw(b"\x01\x00\x04" * 3)
    with pytest.raises(RuntimeError):
        silent.wait(never, 1)
    ends.wait(lambda: len(ends.far_in.seen) == 2)


def test_owner_may_wait_inside_a_callback(links: Links, tmp_path: Path) -> None:
    ends = ends_of(links, "tcp", tmp_path)
    listener = links.listen(Locator("ws", "127.0.0.1", 0), lambda _: None, "ws")
    made: list[Link] = []

    def connect(_: object) -> None:
        made.append(links.connect(listener.locator, "b"))

    ends.far.on_batch = connect
    ends.near.send(b"\x04")
    ends.wait(lambda: made)
