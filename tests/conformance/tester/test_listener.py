"""The end that others connect to: ends of ours, and a real client."""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conformance.config import Locator
from conformance.errors import LinkFailed, Unmet
from conformance.tester import ListenerEnd, Tester
from conformance.tester.hearing import Hearing
from scapy_layers.codes import WhatAmI
from scapy_layers.declarations import DeclareSubscriber
from scapy_layers.network import Declare, Push
from scapy_layers.transport import Close, KeepAlive
from tests.conformance.tester._pairs import lone_tester, session_pair

CLIENT = Path(__file__).with_name("_real_client.py")
PATIENCE = 10.0


@pytest.fixture
def tester() -> Iterator[Tester]:
    with lone_tester() as made:
        yield made


@contextmanager
def real_client(config: dict[str, Any], key: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a real client."""
    whole = {
        "mode": "client",
        "scouting/multicast/enabled": False,
        "transport/shared_memory/enabled": False,
        **config,
    }
    process = subprocess.Popen(
        [sys.executable, str(CLIENT), json.dumps(whole), key],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "RUST_BACKTRACE": "0"},
    )
    assert process.stdin
    assert process.stdout
    with process.stdout, process.stdin:
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def heard(end: Hearing, process: subprocess.Popen[bytes]) -> bytes:
    """Returns the next line of a real client while the session goes on; nothing when none comes."""
    output = process.stdout
    assert output is not None
    came = end.wait(lambda: bool(select.select([output], [], [], 0)[0]), PATIENCE)
    return output.readline() if came else b""


def test_nobody_connects_and_that_is_unmet(tester: Tester) -> None:
    with pytest.raises(Unmet, match="nobody connects"):
        tester.listen().accept(0.05)


def test_links_are_accepted_in_the_order_in_which_they_were_made(tester: Tester) -> None:
    listener = tester.listen()
    zids = []
    for _ in range(3):
        syn = tester.init()
        tester.link(listener.locator).send(syn)
        zids.append(syn.zid)
    assert [listener.accept().take_init_syn().zid for _ in range(3)] == zids


def test_what_came_before_the_link_was_accepted_is_not_lost(tester: Tester) -> None:
    listener = tester.listen()
    tester.link(listener.locator).send(KeepAlive(), Close(reason=4))
    tester.advance(0.05)
    theirs = listener.accept_link()
    theirs.expect(KeepAlive)
    theirs.expect(Close, reason=4)


def test_end_of_a_link_before_it_was_accepted_is_seen(tester: Tester) -> None:
    listener = tester.listen()
    ours = tester.link(listener.locator)
    ours.close()
    listener.accept_link().expect_end()


def test_no_link_is_expected_and_judged(tester: Tester) -> None:
    listener, other = tester.listen(), tester.listen()
    ours, theirs = session_pair(tester, other)

    def fence() -> None:
        ours.send(KeepAlive())
        theirs.expect(KeepAlive)

    listener.expect_no_link(fence)
    tester.link(listener.locator)
    with pytest.raises(Unmet, match="a link"):
        listener.expect_no_link(fence)


def test_listener_that_is_closed_keeps_its_links(tester: Tester) -> None:
    listener = tester.listen()
    ours, theirs = session_pair(tester, listener)
    listener.close()
    ours.put("a")
    theirs.expect(Push, key="a")
    with pytest.raises(LinkFailed):
        tester.link(listener.locator)


@pytest.fixture
def listener(tester: Tester) -> ListenerEnd:
    return tester.listen()


@pytest.mark.parametrize(
    ("caller", "called", "asked"),
    [
        (WhatAmI.CLIENT, WhatAmI.CLIENT, False),
        (WhatAmI.PEER, WhatAmI.CLIENT, True),
        (WhatAmI.CLIENT, WhatAmI.ROUTER, True),
    ],
)
def test_nodes_ask_whoever_is_no_client(
    tester: Tester, caller: WhatAmI, called: WhatAmI, asked: bool
) -> None:
    listener = tester.listen()
    ours = tester.starting(locator=listener.locator, whatami=caller)
    ours.begin()
    listener.accept(whatami=called).serve()
    ours.finish()
    assert tester.takes_part is asked


def test_real_client_opens_a_session_and_declares(listener: ListenerEnd) -> None:
    pytest.importorskip("zenoh")
    with real_client({"connect/endpoints": [str(listener.locator)]}, "t/**") as process:
        end = listener.accept(PATIENCE, whatami=WhatAmI.ROUTER, qos=True, patch=1)
        opened = end.serve()
        assert opened.whatami == WhatAmI.CLIENT

        def of_a_subscriber(body: object) -> bool:
            """D_SUBSCRIBER"""
            return isinstance(body, DeclareSubscriber)

        end.until(Declare, body=of_a_subscriber, within=PATIENCE)
        assert end.key(end.last(Declare).body) == "t/**"
        end.put("t/a", b"hello")
        assert heard(end, process) == b"t/a=hello\n"
        assert process.stdin
        process.stdin.close()
        end.expect(Close, within=PATIENCE)
        end.expect_end(within=PATIENCE)


def test_real_client_returns_the_cookie_bit_for_bit(listener: ListenerEnd) -> None:
    pytest.importorskip("zenoh")
    with real_client({"connect/endpoints": [str(listener.locator)]}, "t/**"):
        end = listener.accept(PATIENCE)
        end.take_init_syn(whatami=WhatAmI.CLIENT)
        cookie = bytes(range(200))
        end.init_ack(cookie=cookie)
        end.take_open_syn(cookie=cookie)


@pytest.mark.parametrize("form", [{"lowlatency": True}, {"compression": True}], ids=str)
def test_real_client_speaks_the_form_that_was_agreed(listener: ListenerEnd, form: dict[str, Any]) -> None:
    pytest.importorskip("zenoh")
    config: dict[str, Any] = {"connect/endpoints": [str(listener.locator)]}
    if "lowlatency" in form:
        config |= {"transport/unicast/lowlatency": True, "transport/unicast/qos/enabled": False}
    else:
        config |= {"transport/unicast/compression/enabled": True}
    with real_client(config, "t/**") as process:
        end = listener.accept(PATIENCE, **form)
        end.serve()
        assert end.session.agreed.lowlatency == form.get("lowlatency", False)
        assert end.session.agreed.compression == form.get("compression", False)
        end.expect(Declare, within=PATIENCE)
        end.put("t/a", b"A" * 300)
        assert heard(end, process) == b"t/a=" + b"A" * 300 + b"\n"


def test_tester_of_a_node_takes_a_text_for_a_locator() -> None:
    made = Tester(Locator.parse("tcp/127.0.0.1:1"), random.Random(1))
    listener = made.listen("tcp/127.0.0.1:0")
    assert listener.locator.port > 0
    made.link(str(listener.locator))
    listener.accept_link(1.0)
    made.close()
