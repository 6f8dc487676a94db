"""A node that looks for others: its SCOUTs, and what it makes of HELLO. It is launched with nobody to connect to."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from itertools import pairwise

from conformance.config import Locator, RunConfig
from conformance.errors import LinkFailed, NotApplicable, Unmet
from conformance.expect import check
from conformance.nodes import Node
from conformance.nodes.child import private_scouting
from conformance.plugin import req, slow, transports
from conformance.suite.scouting import Watch, group_of, watching, words_of_bitmap
from conformance.tester import Tester
from conformance.tester.listener import ListenerEnd
from conformance.tester.scout import ResponderEnd
from scapy_layers.scouting import Scout
from scapy_layers.transport import Init

pytestmark = transports("tcp")

Launched = Callable[..., Node]

SCOUTS = 4
"""So many unanswered SCOUTs are waited for: two gaps that have grown."""

LONGEST_SECONDS = 12.0
"""For all of them: a real node needs seven."""

FOLLOWING_REPLIES = 5
"""So many times T1 a node may take to follow HELLO."""

ATTEMPTS = 10
"""Ports that are tried."""


# SCOUT -------------------------------------------------------------------------------------------------


@req("ZN-SCT-002")
def test_node_scouts_for_roles_that_it_wants(tester: Tester, launched: Launched) -> None:
    with watching(tester, launched) as watch:
        check(not watch.first.errors, "a SCOUT that can be read", "one that cannot")
        tester.note(f"a {watch.role} looks for {words_of_bitmap(watch.first.what)}")


@req("ZN-SCT-003")
def test_scout_goes_to_all_members_of_the_group(tester: Tester, launched: Launched) -> None:
    config = private_scouting()
    member = tester.responder(group_of(config))
    alone = tester.responder(Locator("udp", "127.0.0.1", group_of(config).port))
    try:
        with watching(tester, launched, config, unless=lambda: alone.last(Scout)):
            member.expect(Scout)
    except NotApplicable:
        everybody = member.wait(lambda: member.last(Scout) is not None, 0)
        check(everybody or not alone.last(Scout), "SCOUT to the group", "SCOUT to one address")
        raise


@req("ZN-SCT-018")
def test_version_of_scout_is_9(tester: Tester, launched: Launched) -> None:
    with watching(tester, launched) as watch:
        version = watch.first.original[1:2].hex() or "missing"
        check(version == "09", "version 09", f"version {version}")


@req("ZN-SCT-021")
def test_zenoh_id_in_scout_is_the_one_of_init(tester: Tester, launched: Launched) -> None:
    with watching(tester, launched) as watch:
        if not watch.first.value("I"):
            raise NotApplicable("SCOUT carries no ZenohID")
        try:
            shown = followed(watch, watch.responder).zid
        except Unmet:
            raise NotApplicable("the node follows no HELLO") from None
        check(watch.first.zid == shown, "the ZenohID of InitSyn", "another one")


@req("ZN-SCT-009")
@slow
def test_unanswered_scout_is_repeated_with_growing_gaps(
    tester: Tester, launched: Launched, run_config: RunConfig
) -> None:
    with watching(tester, launched) as watch:
        # The node keeps its own pace, however short our patience is elsewhere.
        watch.responder.expect_scouts(SCOUTS, LONGEST_SECONDS * max(1.0, run_config.time_scale))
        for before, after in pairwise(watch.responder.gaps()[: SCOUTS - 1]):
            seconds = f"{before:.2f} s, then {after:.2f} s"
            check(after >= 1.5 * before - run_config.slack, "growing gaps", "gaps that do not grow", seconds)
            check(after <= 3 * before + run_config.slack, "gaps that at most triple", "a leap", seconds)


@req("ZN-SCT-010")
@slow
def test_scouting_ends_with_the_first_hello(
    tester: Tester, launched: Launched, run_config: RunConfig
) -> None:
    with watching(tester, launched) as watch:
        repeated = watch.next_scout(LONGEST_SECONDS * max(1.0, run_config.time_scale))
        check(repeated, "another SCOUT while nobody answers", "no other SCOUT")
        listener = tester.listen()
        watch.responder.reply(str(listener.locator))
        # Without a session it might begin anew.
        with contextlib.suppress(Unmet):
            listener.accept(zid=watch.responder.zid).serve()
        again = watch.next_scout(3 * watch.responder.gaps()[-1])
        check(not again, "no SCOUT after HELLO", "another SCOUT")


# HELLO -------------------------------------------------------------------------------------------------


@req("ZN-HLO-019")
def test_node_connects_to_a_locator_of_hello(tester: Tester, launched: Launched) -> None:
    with watching(tester, launched) as watch:
        unnamed = tester.listen()
        followed(watch, watch.responder)
        check(not unnamed.called, "no link to what HELLO did not name", "a link")


def followed(watch: Watch, responder: ResponderEnd) -> Init:
    """Names a listener in HELLO, and judges that the node comes there and begins a handshake.

    Raises:
        Unmet: It does not.
    """
    listener = watch.tester.listen()
    watch.tester.links.wait(lambda: listener.called, 0)
    check(not listener.called, "no link before HELLO", "a link")
    responder.reply(str(listener.locator))
    init: Init = listener.accept(FOLLOWING_REPLIES * watch.tester.reply, zid=responder.zid).take_init_syn()
    return init


@req("ZN-HLO-004")
def test_hello_without_locators_means_its_source(tester: Tester, launched: Launched) -> None:
    config = private_scouting()
    responder, source = place(tester, group_of(config))
    with watching(tester, launched, config) as watch:
        scout = responder.expect(Scout)
        before = watch.scouts()
        responder.reply(to=scout)
        # Whoever scouts again has not taken it for an answer.
        tester.links.wait(
            lambda: came_to(tester, responder, source) or watch.scouts() > before, 2 * tester.reply
        )
        if not came_to(tester, responder, source):
            try:
                followed(watch, responder)
            except Unmet:
                raise NotApplicable("the node follows no HELLO") from None
        check(
            came_to(tester, responder, source),
            "a link to the source of HELLO",
            "a link only where a locator leads",
        )


def place(tester: Tester, group: Locator) -> tuple[ResponderEnd, ListenerEnd]:
    """Returns an end in a group, and a listener for tcp links at the port from which that end answers.

    Raises:
        NotApplicable: Such ports are taken by others.
    """
    for _ in range(ATTEMPTS):
        responder = tester.responder(group)
        host, port = responder.address
        try:
            return responder, tester.listen(Locator("tcp", host, port))
        except LinkFailed:
            responder.close()
    raise NotApplicable("no port is free for udp and tcp")


def came_to(tester: Tester, responder: ResponderEnd, source: ListenerEnd) -> bool:
    """Tells whether the node came to where our HELLO comes from: over tcp, or with datagrams."""
    return source.called or any(
        seen.link == responder.name and seen.route is not None and seen.route[1] == responder.address
        for seen in tester.history.observations
    )
