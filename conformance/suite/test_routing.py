"""Routing: where declarations, publications, queries and replies go."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.expect import check
from conformance.plugin import req, slow
from conformance.suite.common import (
    DECLARATIONS,
    Watcher,
    declare,
    describe,
    inquiry,
    leave,
    listed,
    pair,
    question,
    undeclare,
    watcher,
)
from conformance.tester import SessionEnd, Tester
from scapy_layers.codes import QueryTarget, WhatAmI
from scapy_layers.data import Put
from scapy_layers.declarations import DeclareSubscriber
from scapy_layers.extensions import NodeId, QoS, Target
from scapy_layers.keyexpr import canonical, intersects
from scapy_layers.network import Declare, Push, Request, Response

KINDS = pytest.mark.parametrize("kind", DECLARATIONS)


# Declarations -------------------------------------------------------------------------------------


def told_without_interest(tester: Tester, role: WhatAmI) -> None:
    """Judges that a session of a role is told of a declaration that it did not ask for."""
    told = watcher(tester, whatami=role)
    other = tester.session()
    declare(other, "subscribers", told.at("a"))
    told.expect("D_SUBSCRIBER a")


def told_with_interest(tester: Tester, role: WhatAmI) -> None:
    """Judges that a session of a role is told of a declaration that it asked for."""
    told = watcher(tester, whatami=role)
    told.ask()
    told.expect("D_FINAL")
    declare(tester.session(), "subscribers", told.at("a"))
    told.expect("D_SUBSCRIBER a")


@req("ZN-RTE-005")
def test_peer_is_told_of_declarations(tester: Tester) -> None:
    told_with_interest(tester, WhatAmI.PEER)


@req("ZN-RTE-006")
def test_client_is_told_of_declarations(tester: Tester) -> None:
    told_with_interest(tester, WhatAmI.CLIENT)


@req("ZN-RTE-005")
def test_peer_is_told_of_declarations_unasked(tester: Tester) -> None:
    told_without_interest(tester, WhatAmI.PEER)


@req("ZN-RTE-006")
def test_client_is_told_of_declarations_unasked(tester: Tester) -> None:
    told_without_interest(tester, WhatAmI.CLIENT)


@req("ZN-RTE-007", "ZN-RTE-009")
@pytest.mark.parametrize("interests", [1, 2])
@KINDS
def test_declaration_is_not_sent_back_where_it_came_from(tester: Tester, kind: str, interests: int) -> None:
    own = watcher(tester)
    other = Watcher(tester.session(), own.base)
    for _ in range(interests):
        for told in (own, other):
            told.ask()
            told.snapshot()
    own.expect(fence=lambda: declare(own.end, kind, own.at("a")))
    name = DECLARATIONS[kind][0].shape().name
    other.until(f"{name} a")
    own.expect()


CHANGES = 30
"""Declarations made or taken back before and after somebody joins."""

Model = dict[tuple[int, int], tuple[str, str]]
"""Session and entity id of what is declared, with its kind and key."""


def change_at_random(tester: Tester, ends: list[SessionEnd], base: str, model: Model) -> None:
    """Declares and takes back at random, in several sessions, and keeps a model of what there is."""
    for _ in range(CHANGES):
        place = tester.rng.randrange(len(ends))
        end = ends[place]
        own = [number for owner, number in model if owner == place]
        if own and tester.rng.random() < 0.45:
            number = tester.rng.choice(own)
            kind, _ = model.pop((place, number))
            end.post(Declare(body=DECLARATIONS[kind][1](entity_id=number)))
        else:
            kind, key = tester.rng.choice(sorted(DECLARATIONS)), f"{tester.rng.randrange(6)}/*"
            number = end.next_id()
            model[place, number] = (kind, key)
            end.post(Declare(body=DECLARATIONS[kind][0](entity_id=number, key_suffix=f"{base}/{key}")))
    for end in ends:
        end.fence()


@req("ZN-RTE-025")
@pytest.mark.parametrize("joins", [0, 1, 2], ids=["first", "in the middle", "late"])
def test_late_joiner_has_the_same_picture(tester: Tester, joins: int) -> None:
    base = f"harness/{tester.word()}"
    ends = [tester.session() for _ in range(3)]
    model: Model = {}
    told = watcher(tester, base)
    said: list[Declare] = []
    for stage in range(3):
        if stage == joins:
            told = watcher(tester, base)
            told.ask()
            said = told.snapshot()
        change_at_random(tester, ends, base, model)
    picture = told.picture([*said, *told.end.collect(Declare, until=told.end.fence)])
    wanted = {f"{DECLARATIONS[kind][0].shape().name[2:]} {key}" for kind, key in model.values()}
    missing, stale = listed(sorted(wanted - picture)), listed(sorted(picture - wanted))
    words = f"{len(wanted - picture)} missing, {len(picture - wanted)} stale"
    check(picture == wanted, "what is declared, and nothing else", words, f"missing {missing}; stale {stale}")


@req("ZN-RTE-025")
@KINDS
@pytest.mark.parametrize("goodbye", [False, True], ids=["undeclared", "CLOSE"])
def test_nothing_is_left_when_a_session_takes_back_what_another_did_before(
    tester: Tester, kind: str, goodbye: bool
) -> None:
    made, gone = (body.shape().name for body in DECLARATIONS[kind])
    told = watcher(tester)
    told.ask()
    told.snapshot()
    other = tester.session()
    theirs = [declare(other, kind, told.at(key)) for key in ("a", "control")]
    told.expect(f"{made} a", f"{made} control")
    ours = declare(told.end, kind, told.at("a"))
    if goodbye:
        leave(other)
    else:
        for number in theirs:
            undeclare(other, kind, number)
    # Only this shows that the node has noticed the end of another link.
    told.until(f"{gone} control")
    undeclare(told.end, kind, ours)
    said = [seen.message for seen in told.end.inbox if isinstance(seen.message, Declare)]
    left = told.picture(said)
    check(not left, "nothing is left", listed(sorted(left)))


# Publications ---------------------------------------------------------------------------------------


@req("ZN-RTE-001", "ZN-RTE-002")
def test_data_goes_only_where_a_declaration_leads(tester: Tester) -> None:
    both = pair(tester)
    outside = f"elsewhere/{tester.word()}"
    both.pub.put(outside, b"1")
    both.put("a", b"1")
    both.expect("PUT a=1")
    both.sub.declare_subscriber(outside)
    both.pub.put(outside, b"2")
    seen = [bytes(push.body.data) for push in both.delivered()]
    check(seen == [b"2"], "the value that follows the declaration", f"{len(seen)} values")


@req("ZN-RTE-011")
def test_push_reaches_each_matching_session_once(tester: Tester) -> None:
    both = pair(tester)
    keys: list[list[str]] = [["a/*"], ["b/**"], ["a/**", "a/x"], ["a"], []]
    ends = [tester.session() for _ in keys]
    control = both.at("control")
    for end, wanted in zip(ends, keys, strict=True):
        for key in wanted:
            end.declare_subscriber(both.at(key))
        end.declare_subscriber(control)
    both.put("a/x", b"1")
    both.put("control")
    counts = []
    for end in ends:
        before = end.until(Push, key=control)
        counts.append(len([seen for seen in before if isinstance(seen, Push)]))
    check(counts == [1, 0, 1, 0, 0], "1, 0, 1, 0, 0 deliveries", listed([str(count) for count in counts]))
    both.expect("PUT a/x=1", "PUT control=")


@req("ZN-RTE-012")
def test_forwarded_push_names_the_last_forwarder(tester: Tester) -> None:
    both = pair(tester)
    both.put("a", b"1")
    chain = both.expect("PUT a=1")[0].extensions or []
    check(any(isinstance(ext, NodeId) for ext in chain), "PUSH with NodeId", "PUSH without NodeId")


@req("ZN-RTE-013")
def test_push_is_not_sent_back_to_its_session(tester: Tester) -> None:
    both = pair(tester)
    both.pub.declare_subscriber(both.at("**"))
    both.put("a", b"1")
    both.expect("PUT a=1")
    control = both.at("control")
    both.sub.put(control)
    both.pub.until(Push, key=control)
    got = [
        describe(both.pub, seen.message, both.base)
        for seen in both.pub.inbox
        if isinstance(seen.message, Push)
    ]
    check(got == ["PUT control="], "PUT control= from the other session only", listed(got[:1]))


@req("ZN-RTE-026")
@pytest.mark.parametrize(
    ("declared", "published", "meet"),
    [
        ("a/b", "a/b", True),
        ("a/b", "a/c", False),
        ("a/*", "a/b", True),
        ("a/*", "a/b/c", False),
        ("a/**", "a", True),
        ("a/**", "a/b/c", True),
        ("**/c", "a/b/c", True),
        ("**/c", "a/b", False),
        ("a/$*b", "a/xb", True),
        ("a/$*b", "a/bx", False),
        ("a/*/c", "a/**", True),
        ("*/b", "a/*", True),
        ("a/x$*", "a/$*y", True),
        ("a/x$*", "a/y$*", False),
    ],
)
def test_keys_match_when_they_intersect(tester: Tester, declared: str, published: str, meet: bool) -> None:
    both = pair(tester)
    end = tester.session()
    control = both.at("control")
    end.declare_subscriber(both.at(declared))
    end.declare_subscriber(control)
    both.put(published, b"1")
    both.put("control")
    came = [seen for seen in end.until(Push, key=control) if isinstance(seen, Push)]
    check(len(came) == meet, f"{int(meet)} delivery", f"{len(came)}")


PAIRS = 300
"""Pairs of a declared key and a published one."""

CHUNKS = ("a", "b", "ab", "*", "**", "a$*", "$*b", "a$*b")


def random_key(tester: Tester) -> str:
    """Returns a key of one to four chunks, wildcards among them."""
    return canonical("/".join(tester.rng.choices(CHUNKS, k=tester.rng.randint(1, 4))))


@req("ZN-RTE-026")
@slow
def test_publications_meet_declarations_as_the_reference_matcher_says(tester: Tester) -> None:
    both = pair(tester)
    pairs = [(random_key(tester), random_key(tester)) for _ in range(PAIRS)]
    meeting = {number for number, (declared, said) in enumerate(pairs) if intersects(declared, said)}
    check(PAIRS // 5 < len(meeting) < PAIRS * 4 // 5, "pairs that meet and pairs that do not", "one kind")
    end = tester.session()
    # Each pair below a chunk of its own, so that all of them can be told at once.
    declared = [both.at(f"{number}/{key}") for number, (key, _) in enumerate(pairs)]
    control = both.at("control")
    end.post(*(Declare(body=DeclareSubscriber(entity_id=end.next_id(), key_suffix=key)) for key in declared))
    end.declare_subscriber(control)
    end.fence()
    quality = QoS(D=1)
    for number, (_, key) in enumerate(pairs):
        value = Put(data=b"%d" % number)
        both.pub.post(both.push(f"{number}/{key}", body=value, extensions=[quality.copy()]))
    both.put("control", extensions=[quality])
    came = [seen for seen in end.until(Push, key=control) if isinstance(seen, Push)]
    got = [int(bytes(push.body.data)) for push in came]
    wrong = sorted(set(got) ^ meeting)
    words = listed([" and ".join(pairs[number]) for number in wrong[:3]])
    check(not wrong, "a delivery for each pair that meets, and no other", f"{len(wrong)} others", words)
    check(len(got) == len(set(got)), "one delivery each", "several")


@req("ZN-RTE-027")
def test_undeclaring_takes_the_path_away(tester: Tester) -> None:
    both = pair(tester)
    key = f"elsewhere/{tester.word()}"
    number = declare(both.sub, "subscribers", key)
    both.pub.put(key, b"1")
    check(len(both.delivered()) == 1, "1 delivery", "another number")
    undeclare(both.sub, "subscribers", number)
    both.pub.put(key, b"2")
    both.expect()


# Queries ------------------------------------------------------------------------------------------------


def who_is_asked(ends: list[SessionEnd], ask: SessionEnd, key: str, **fields: Any) -> list[int]:
    """Sends a query; returns how many REQUESTs each session gets before those of a control query."""
    control = {"target": QueryTarget.ALL}
    number = ask.next_id()
    ask.post(question(request_id=number, key_suffix=key, **fields))
    last = ask.next_id()
    said = [Target(**control)]
    ask.post(Request(request_id=last, key_suffix=f"{key}/control", **{**fields, "extensions": said}))
    counts = []
    for end in ends:
        before = end.until(Request, key=f"{key}/control")
        counts.append(len([seen for seen in before if isinstance(seen, Request)]))
    return counts


@req("ZN-RTE-014", "ZN-RTE-016", "ZN-RTE-015")
@pytest.mark.parametrize("target", QueryTarget)
def test_target_chooses_the_queryables(tester: Tester, target: QueryTarget) -> None:
    both = inquiry(tester, queryables=0)
    ends = [tester.session() for _ in range(3)]
    for end, complete in zip(ends, (True, True, False), strict=True):
        end.declare_queryable(both.at("**"), complete=complete)
    said = [] if target == QueryTarget.BEST_MATCHING else [Target(target=target)]
    body = both.request().body
    seen = who_is_asked(ends, both.asker, both.at("a"), extensions=said, body=body)
    words = listed([str(count) for count in seen])
    match target:
        case QueryTarget.ALL:
            check(seen == [1, 1, 1], "1, 1, 1 queries", words)
        case QueryTarget.ALL_COMPLETE:
            check(seen == [1, 1, 0], "1, 1, 0 queries", words)
        case QueryTarget.BEST_MATCHING:
            check(sum(seen) == 1, "one query in all", words)


@req("ZN-RTE-027")
@pytest.mark.parametrize(("count", "gone"), [(1, 0), (2, 0), (2, 1)], ids=["only", "first", "second"])
def test_query_goes_only_where_a_queryable_is_left(tester: Tester, count: int, gone: int) -> None:
    both = inquiry(tester, queryables=0)
    ends = [tester.session() for _ in range(count)]
    numbers = [declare(end, "queryables", both.at("a")) for end in ends]
    for end in ends:
        end.declare_queryable(both.at("a/control"))

    def expect_queries(*wanted: int) -> None:
        said = [Target(target=QueryTarget.ALL)]
        asked = who_is_asked(ends, both.asker, both.at("a"), extensions=said, body=both.request().body)
        words = [listed([str(number) for number in numbers]) for numbers in (wanted, asked)]
        check(asked == [*wanted], f"{words[0]} queries", words[1])

    expect_queries(*[1] * count)
    undeclare(ends[gone], "queryables", numbers[gone])
    expect_queries(*(int(place != gone) for place in range(count)))


@req("ZN-RTE-017")
@pytest.mark.parametrize("swapped", [False, True], ids=["a", "b"])
def test_reply_goes_to_the_session_that_asked(tester: Tester, swapped: bool) -> None:
    both = inquiry(tester)
    bystander = tester.session()
    if swapped:
        both.asker, bystander = bystander, both.asker
    number, request = both.asked()
    both.reply(request, Put(data=b"1"))
    both.finish(request)
    both.expect(number, "PUT a=1")
    bystander.expect_nothing(Response, fence=bystander.fence)
