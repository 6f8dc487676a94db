"""Our end against the real router."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.errors import LinkFailed, Unmet
from conformance.expect import MOST_REPEATED
from conformance.nodes.pypi import PypiNode
from conformance.session.sequence import mask
from conformance.tester import SessionEnd, Tester, is_unanswered, why_not_well
from scapy_layers.codes import CloseReason, Resolution, WhatAmI
from scapy_layers.data import Put, Query
from scapy_layers.extensions import QoS, QoSOffer
from scapy_layers.message import Message
from scapy_layers.network import Push, Request, ResponseFinal
from scapy_layers.transport import Close, Frame, Init, KeepAlive, Open


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PypiNode]:
    with PypiNode(tmp_path_factory.mktemp("nodes")) as running:
        yield running


@pytest.fixture
def tester(node: PypiNode) -> Iterator[Tester]:
    # A node that still closes the last session of a ZenohID refuses the next: each test has its own.
    made = Tester(node.locator, random.Random())
    yield made
    made.close()


def test_session_opens_and_delivers(tester: Tester) -> None:
    subscriber, publisher = tester.session(), tester.session()
    subscriber.declare_subscriber("t/**")
    publisher.put("t/a", b"hello")
    push = subscriber.expect(Push, key="t/a")
    assert push.body.data == b"hello"


def test_alias_is_resolved_on_both_sides(tester: Tester) -> None:
    subscriber, publisher = tester.session(), tester.session()
    subscriber.declare_subscriber("t/**")
    publisher.declare_alias(7, "t/a")
    publisher.post(Push(key_scope=7, M=1, key_suffix="/b", body=Put(data=b"x")))
    subscriber.expect(Push, key="t/a/b")


def test_wrong_field_is_unmet_with_expected_and_seen(tester: Tester) -> None:
    end = tester.link()
    end.send(tester.init(version=8))
    with pytest.raises(Unmet) as caught:
        end.expect(Close, reason=CloseReason.UNSUPPORTED)
    assert caught.value.expected == "CLOSE reason=1 (UNSUPPORTED)"
    assert caught.value.seen == "CLOSE reason=2 (INVALID)"


def test_message_that_does_not_come_is_unmet_with_what_came(tester: Tester) -> None:
    end = tester.link()
    end.send(tester.init())
    assert end.wait(lambda: bool(end.inbox), tester.reply)
    with pytest.raises(Unmet) as caught:
        end.expect(Close, within=0.05)
    assert caught.value.seen == "INIT"


def test_what_came_over_and_over_is_named_once(tester: Tester) -> None:
    end = tester.session()
    for number in range(3 * MOST_REPEATED):
        end.send(
            Frame(
                R=1,
                sn=end.session.take_sn(),
                messages=[Request(request_id=number, key_suffix="a", body=Query())],
            )
        )
        # Each answer by itself: a node puts answers to what came together into one FRAME.
        final = end.looking_for(end.fitting(ResponseFinal, {"request_id": number}))
        assert tester.links.wait(final, tester.reply)
    with pytest.raises(Unmet) as caught:
        end.until(Close, within=0.2)
    assert caught.value.seen == "FRAME many times"


def test_first_number_of_a_scripted_session_is_far_from_the_end_of_any_range(tester: Tester) -> None:
    tester.record()
    numbers = {tester.first_number(None) for _ in range(1000)}
    assert max(number for number in numbers if number is not None) <= mask(Resolution.BITS_8) // 4


def test_end_of_the_link_ends_the_wait_at_once(tester: Tester) -> None:
    end = tester.link()
    end.send(KeepAlive())
    end.expect(Close)
    with pytest.raises(Unmet, match=r"end of stream|nothing"):
        end.expect(Init, within=60)


def test_field_that_does_not_exist_is_a_mistake_of_the_test(tester: Tester) -> None:
    end = tester.link()
    end.send(tester.init())
    with pytest.raises(LookupError, match="INIT has no field 'reson'"):
        end.expect(Init, reson=1)


def test_forbidden_message_before_the_fence_is_unmet(tester: Tester) -> None:
    subscriber, publisher = tester.session(), tester.session()
    subscriber.declare_subscriber("t/**")

    def publish_and_fence() -> None:
        publisher.put("t/a")
        publisher.fence()
        subscriber.fence()

    with pytest.raises(Unmet, match="no PUSH before the fence's answer"):
        subscriber.expect_nothing(Push, fence=publish_and_fence)
    subscriber.expect_nothing(Push, fence=subscriber.fence)


def test_answer_of_a_fence_may_not_be_dropped(tester: Tester) -> None:
    end = tester.session()
    end.fence()
    (final,) = (seen.message for seen in end.inbox if isinstance(seen.message, ResponseFinal))
    assert [ext.D for ext in final.extensions if isinstance(ext, QoS)] == [1]


def test_refusal_is_unmet_when_the_handshake_went_on(tester: Tester) -> None:
    end = tester.link()
    end.send(tester.init())
    end.wait(lambda: bool(end.inbox), 1)
    end.send(Close())
    with pytest.raises(Unmet):
        end.expect_refusal()


def test_bend_changes_what_leaves_and_nothing_else(tester: Tester) -> None:
    def without_cookie(message: Message) -> Message:
        return Open(A=0, cookie=b"", initial_sn=1) if isinstance(message, Open) else message

    tester.on_send.append(without_cookie)
    end = tester.starting()
    end.session.connect()
    end.flush()
    end.expect(Init, A=1)
    end.expect_refusal(CloseReason.INVALID, unless=Open)


def test_negotiation_follows_the_offer(tester: Tester) -> None:
    end = tester.session(fsn=0, batch_size=1000, qos=True, patch=1)
    agreed = end.session.agreed
    assert (agreed.fsn, agreed.batch_size, agreed.qos, agreed.patch) == (0, 1000, True, 1)
    assert QoSOffer().value("M") == 0


def test_session_lives_on_by_keep_alives_of_its_own(tester: Tester) -> None:
    # A lease in which a KEEP_ALIVE leaves although others have the processors for a while.
    end = tester.session(lease=4.0)
    assert not end.wait(lambda: end.link.ended is not None, 6.0)
    end.fence()


def test_same_seed_gives_the_same_choices(node: PypiNode) -> None:
    zids = [bytes(Tester(node.locator, random.Random(3)).init().zid) for _ in range(2)]
    assert zids[0] == zids[1]


def test_well_node_has_no_problem_and_a_dead_one_has(node: PypiNode, tmp_path: Path) -> None:
    assert why_not_well(node.locator) == ""
    other = PypiNode(tmp_path, name="other")
    with other:
        locator = other.locator
    assert "Connection refused" in why_not_well(locator)
    with pytest.raises(LinkFailed):
        Tester(locator, random.Random(1)).link()


def test_peer_waits_for_what_another_peer_has_to_say(node: PypiNode) -> None:
    with node.variant(mode="peer") as peer:
        tester = peer.tester(0.5)
        tester.session().fence()
        tester.session(whatami=WhatAmI.PEER)
        assert is_unanswered(peer.problem(0.3))
        tester.close()
        assert peer.problem(1.0) == ""


def test_close_of_ours_is_sent_once(tester: Tester) -> None:
    end: SessionEnd = tester.session()
    end.close()
    end.close()
    sent = [seen for seen in tester.history.observations if seen.contents.names == "CLOSE"]
    assert len(sent) == 1
