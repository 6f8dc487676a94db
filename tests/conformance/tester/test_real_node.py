"""Sessions with the real node in every form that it can agree on."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.nodes.pypi import PypiNode
from conformance.tester import Tester
from conformance.tester.bends import changed, cut, dropped, nth, repeated
from scapy_layers.codes import CloseReason
from scapy_layers.data import Put
from scapy_layers.extensions import QoS
from scapy_layers.network import Push
from scapy_layers.transport import Close, Frame, Init, KeepAlive, Open

FORMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "lanes": ({"qos": True, "patch": 1}, {}),
    "small": ({"batch_size": 300, "patch": 1}, {}),
    "lowlatency": (
        {"lowlatency": True},
        {"transport/unicast/lowlatency": True, "transport/unicast/qos/enabled": False},
    ),
    "compression": ({"compression": True}, {"transport/unicast/compression/enabled": True}),
}


@pytest.mark.parametrize("form", FORMS)
def test_values_pass_through_a_real_node_in_every_form(form: str, tmp_path: Path) -> None:
    offer, config = FORMS[form]
    with PypiNode(tmp_path, config=config) as node:
        tester = Tester(node.locator, random.Random())
        with contextlib.closing(tester):
            subscriber, publisher = tester.session(**offer), tester.session(**offer)
            for end in (subscriber, publisher):
                assert {name: getattr(end.session.agreed, name) for name in offer} == offer
            subscriber.declare_subscriber("t/**")
            for size in (0, 10, 3000):
                # A busy node may drop what may be dropped: eleven fragments of 300 bytes come close together.
                publisher.put("t/a", b"x" * size, extensions=[QoS(D=1)])
                assert subscriber.expect(Push, key="t/a").body.data == b"x" * size
            publisher.close()
            subscriber.close()
            assert node.problem(2.0) == ""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PypiNode]:
    with PypiNode(tmp_path_factory.mktemp("nodes")) as running:
        yield running


@pytest.fixture
def tester(node: PypiNode) -> Iterator[Tester]:
    made = Tester(node.locator, random.Random())
    yield made
    made.close()


def test_each_step_with_a_real_node(tester: Tester) -> None:
    end = tester.starting()
    end.init()
    ack = end.take_init_ack(version=9)
    assert ack.cookie
    end.open_syn(lease=5, T=1)
    end.take_open_ack()
    end.fence()


def test_wrong_cookie_is_refused_by_a_real_node(tester: Tester) -> None:
    end = tester.starting()
    end.init()
    end.take_init_ack()
    end.open_syn(cookie=b"another")
    end.expect_refusal(CloseReason.INVALID, unless=Open)
    end.expect_end()


def test_bends_are_felt_by_a_real_node(tester: Tester) -> None:
    subscriber, publisher = tester.session(), tester.session()
    subscriber.declare_subscriber("t/**")
    # The number of a FRAME that comes twice is old the second time.
    publisher.bend(nth(1, repeated(Frame)), changed(Put, data=b"bent"))
    publisher.put("t/a", b"straight")
    publisher.put("t/b", b"straight")
    assert subscriber.expect(Push).body.data == b"bent"
    assert subscriber.key(subscriber.expect(Push)) == "t/b"
    other = tester.starting()
    other.bend(cut(Init, 4))
    other.begin()
    other.expect(Close)
    other.expect_end()


def test_session_without_its_keep_alives_is_given_up_by_a_real_node(tester: Tester) -> None:
    end = tester.session(lease=0.5)
    end.bend(dropped(KeepAlive))
    end.expect_end(within=60)
