"""KEEP_ALIVE: renewal of the lease, from both sides."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from conformance.config import RunConfig
from conformance.expect import check
from conformance.plugin import req, slow
from conformance.suite.common import announcing, declare, frame, pair, silent, unknown, watcher
from conformance.tester import SessionEnd, Tester
from scapy_layers.transport import KeepAlive

LEASE = 0.4
"""Seconds: short enough for a test, long against the slack of timers."""

PUBLICATIONS_A_LEASE = 12
"""Often enough that a quarter of a lease is never silent."""


def longest_gap(tester: Tester, end: SessionEnd, seconds: float) -> float:
    """Listens for some seconds; returns the longest time without a message of the node, in seconds."""
    start = tester.history.observations[-1].time_ns
    tester.links.wait(lambda: end.link.ended is not None, seconds)
    stamps = [start, *(seen.time_ns for seen in end.inbox if seen.time_ns > start)]
    stamps.append(start + round(seconds * 1e9))
    return max(later - earlier for earlier, later in pairwise(stamps)) / 1e9


def check_gap(seconds: float, lease: float, slack: float) -> None:
    """Judges that a message came every quarter of a lease."""
    met = seconds <= lease / 4 + slack
    check(met, f"a message every {lease / 4 * 1000:g} ms", "a longer gap", f"{seconds * 1000:.0f} ms")


# What the node sends ----------------------------------------------------------------------------------


@req("ZN-KA-001", "ZN-KA-102")
def test_node_sends_keep_alive_every_quarter_of_its_lease(
    tester_of: Callable[..., Tester], run_config: RunConfig
) -> None:
    tester = tester_of(transport__link__tx__lease=round(LEASE * 1000))
    end = tester.session(lease=60)
    check_gap(longest_gap(tester, end, 2 * LEASE), LEASE, run_config.slack)
    renewals = [seen for seen in end.inbox if isinstance(seen.message, KeepAlive)]
    check(len(renewals) >= 3, "KEEP_ALIVE while nothing else is to be said", "fewer than 3")
    plain = all(seen.message.original == b"\x04" for seen in renewals)
    check(plain, "KEEP_ALIVE as the single byte 0x04", "other bytes")


@req("ZN-KA-101")
def test_node_sends_something_every_quarter_of_our_lease(tester: Tester, run_config: RunConfig) -> None:
    tester.on_send.append(announcing(lease=round(LEASE * 1000)))
    end = tester.session()
    tester.links.every(renewing(end, LEASE / 4))
    check_gap(longest_gap(tester, end, LEASE), LEASE, run_config.slack)


def renewing(end: SessionEnd, period: float) -> Callable[[float], float | None]:
    """Returns a timer that sends KEEP_ALIVE on a link while it lives."""
    due = 0.0

    def timer(now: float) -> float | None:
        nonlocal due
        if end.link.ended is not None:
            return None
        if now >= due:
            end.send(KeepAlive())
            due = now + period
        return due

    return timer


@req("ZN-KA-103")
@slow
def test_keep_alives_beside_data_are_told(tester_of: Callable[..., Tester]) -> None:
    tester = tester_of(transport__link__tx__lease=round(LEASE * 1000))
    both = pair(tester, subscriber={"lease": 60})
    counts = []
    for said in (both.push("a"), None):
        start = len(both.sub.inbox)
        for _ in range(2 * PUBLICATIONS_A_LEASE):
            # The publisher's own link is kept alive either way.
            both.pub.send(frame(both.pub, said) if said else KeepAlive())
            tester.links.wait(lambda: False, LEASE / PUBLICATIONS_A_LEASE)
        heard = [seen.message for seen in both.sub.inbox[start:]]
        counts.append(len([message for message in heard if isinstance(message, KeepAlive)]))
    # Nothing forbids them, so there is nothing to judge; the capture has them.
    words = f"in two leases the node sends {counts[0]} KEEP_ALIVE beside data, {counts[1]} without"
    tester.history.annotate(words)
    check(counts[1], "KEEP_ALIVE while nothing else is to be said", "none")


# What the node does with ours ----------------------------------------------------------------------------


@req("ZN-KA-002", "ZN-BAT-101")
def test_keep_alive_has_no_body(tester: Tester) -> None:
    both = pair(tester)
    both.put("a", b"1")
    both.pub.send(KeepAlive(), KeepAlive(), KeepAlive(), frame(both.pub, both.push("b")))
    both.expect("PUT a=1", "PUT b=1")


@req("ZN-KA-003", "ZN-EXT-102")
@pytest.mark.parametrize("enc", ["unit", "z64", "zbuf"])
def test_unknown_optional_extension_of_keep_alive_is_skipped(tester: Tester, enc: str) -> None:
    end = tester.session()
    end.send(KeepAlive())
    end.fence()
    end.send(KeepAlive(extensions=[unknown(enc)]), frame(end))
    end.fence()


@req("ZN-KA-105")
def test_declarations_of_a_silent_session_are_undeclared(tester: Tester, run_config: RunConfig) -> None:
    told = watcher(tester)
    told.ask()
    alive = tester.session()
    declare(alive, "subscribers", told.at("alive"))
    tester.on_send += [announcing(lease=round(LEASE * 1000)), silent]
    lost = tester.session()
    declare(lost, "subscribers", told.at("lost"))
    told.until("D_SUBSCRIBER lost")
    before = told.until("U_SUBSCRIBER lost", within=LEASE + run_config.slack)
    declare(alive, "subscribers", told.at("control"))
    before += told.until("D_SUBSCRIBER control")
    check("U_SUBSCRIBER alive" not in before, "nothing about a session that lives", "U_SUBSCRIBER alive")
