"""What is recovered from the captures of real nodes is what their applications saw; nothing else is found.

``pcaps/README.md`` describes the ground truth, and why samples of an application may differ from what travelled;
each of these reasons has a name here.
"""

from __future__ import annotations

import base64
import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from scapy_layers import capture
from scapy_layers.conversation import Heard, listen
from scapy_layers.data import Del, Err, Put
from scapy_layers.data import Query as QueryMessage
from scapy_layers.extensions import DelAttachment, PutAttachment, QoS
from scapy_layers.message import Message
from scapy_layers.network import Interest as InterestMessage
from scapy_layers.network import Push, Request, Response
from scapy_layers.samples import (
    Answer,
    Content,
    Declaration,
    Event,
    EventKind,
    Final,
    Interest,
    Query,
    Sample,
    Scouting,
    matches,
    samples,
)
from scapy_layers.transport import Close
from tests.scapy_layers.conversation.pair import Pair, alias, fragment, frame, no_alias, put

PCAPS = Path(__file__).parents[2] / "pcaps"
ROWS = tomllib.loads((PCAPS / "manifest.toml").read_text(encoding="utf-8"))["capture"]
TOLD = [row["file"].removesuffix(".pcapng") for row in ROWS if "truth" in row]
OPAQUE = [row["file"].removesuffix(".pcapng") for row in ROWS if row.get("opaque")]
READABLE = [name for name in TOLD if name not in OPAQUE]

Truth = dict[str, Any]


@cache
def events(name: str) -> list[Event]:
    return list(samples(listen(capture.read(PCAPS / f"{name}.pcapng"))))


def nodes(name: str) -> list[Truth]:
    saw: dict[str, Truth] = json.loads((PCAPS / f"{name}.truth.json").read_text(encoding="utf-8"))
    return [node for node in saw.values() if "session" in node]


def zid_of(node: Truth) -> str:
    return str(node["session"]["zid"])


def namespace_of(node: Truth) -> str:
    """What each key of the node has in front on the wire."""
    root = node["session"]["config"].get("namespace")
    return f"{root}/" if root else ""


def reached(name: str, zid: str, *kinds: str) -> list[Event]:
    """What came to a node: addressed to it, or sent to its group by another one."""
    return [
        event
        for event in events(name)
        if event.event in kinds
        and (event.target_zid == zid or (event.target_zid is None and event.source_zid != zid))
    ]


def during(entity: Truth, event: Event) -> bool:
    return bool(entity["since"] <= event.time <= entity.get("until", event.time))


# An event as the ground truth writes it -----------------------------------------------------------


def shown(raw: bytes | None) -> Any:
    if raw is None:
        return None
    if len(raw) > 512:
        return {"size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    try:
        return {"text": raw.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


def as_sample(event: Event, kind: str, root: str = "") -> Truth:
    assert isinstance(event, Content)
    assert event.keyexpr is not None
    seen = {
        "key": event.keyexpr.removeprefix(root),
        "kind": {"put": "PUT", "delete": "DELETE"}[kind],
        "payload": shown(b"" if kind == "delete" else event.payload),
        "encoding": "zenoh/bytes" if kind == "delete" else event.encoding_name,
        "attachment": shown(event.attachment),
        "priority": event.priority_name.upper(),
        "congestion_control": event.congestion_control.upper(),
        "express": event.express,
        # Of the one in the truth it is the wire form, low byte first.
        "timestamp": event.timestamp and {"ntp64": event.timestamp.time, "id": wire_zid(event.timestamp.id)},
        "source": event.source_info and event.source_info._asdict(),
    }
    return {name: value for name, value in seen.items() if value is not None}


def wire_zid(text: str) -> str:
    return bytes.fromhex(text.zfill(len(text) + len(text) % 2))[::-1].hex()


def as_query(event: Event, root: str = "") -> Truth:
    assert isinstance(event, Query)
    assert event.keyexpr is not None
    seen = {
        "key": inside(root, event.keyexpr),
        "parameters": event.parameters,
        "payload": shown(event.payload),
        "encoding": event.encoding_name,
        "attachment": shown(event.attachment),
        "source": event.source_info and event.source_info._asdict(),
    }
    return {name: value for name, value in seen.items() if value is not None}


def inside(root: str, key: str) -> str:
    """The key that a query has for a node with a namespace; in that of a query may be wildcards."""
    if not root or key.startswith(root):
        return key.removeprefix(root)
    chunks = key.split("/")
    assert matches("/".join(chunks[: root.count("/")]), root.rstrip("/"))
    return "/".join(chunks[root.count("/") :])


def as_reply(event: Answer, root: str = "") -> Truth:
    responder = event.responder and event.responder._asdict()
    if event.kind is None:
        return {
            "replier": responder,
            "error": {"payload": shown(event.payload), "encoding": event.encoding_name},
        }
    return {"replier": responder, "ok": as_sample(event, event.kind, root)}


def counted(items: Iterable[Truth], *, without: Iterable[str] = ()) -> Counter[str]:
    left = set(without)
    return Counter(
        json.dumps({name: value for name, value in item.items() if name not in left}, sort_keys=True)
        for item in items
    )


# Values -------------------------------------------------------------------------------------------

NOT_COMPARED = ("subscriber", "timestamp_stack")
"""Who got it; a list to which the receiver appends itself."""


@pytest.mark.parametrize("name", READABLE)
def test_each_subscriber_got_what_travelled_to_its_node(name: str) -> None:
    for node in nodes(name):
        zid, root = zid_of(node), namespace_of(node)
        pushed = reached(name, zid, "put", "delete")
        limit = node["session"]["config"].get("transport/link/rx/max_message_size", 1 << 30)
        for subscriber in node.get("subscribers", []):
            if subscriber["kind"] != "subscriber":
                continue
            concerned = [
                event
                for event in pushed
                if during(subscriber, event) and matches(root + subscriber["key"], event.keyexpr)
            ]
            if subscriber.get("allowed_origin") == "SESSION_LOCAL":
                concerned = []  # it wants nothing from the wire
            # Nodes lose what is longer than they permit.
            concerned = [event for event in concerned if size_of(event) < limit]
            # A payload in shared memory is not in a capture; the rest of the sample is.
            without = [
                *NOT_COMPARED,
                *(["payload"] if any(by_reference(event) for event in concerned) else []),
            ]
            told = [
                sample
                for sample in node.get("samples", [])
                if sample.get("subscriber") == subscriber["name"]
                and sample.get("source", {}).get("zid") != zid  # from the node to itself: it did not travel
            ]
            wire = [as_sample(event, event.event, root) for event in concerned]
            assert counted(told, without=without) == counted(wire, without=without), subscriber


def size_of(event: Event) -> int:
    assert isinstance(event, Content)
    return len(event.payload or b"")


def by_reference(event: Event) -> bool:
    assert isinstance(event, Content)
    return bool(event.shared)


@pytest.mark.parametrize("name", READABLE)
def test_each_advanced_subscriber_got_what_travelled_or_was_asked_for(name: str) -> None:
    for node in nodes(name):
        zid, root = zid_of(node), namespace_of(node)
        for subscriber in node.get("subscribers", []):
            if subscriber["kind"] != "advanced":
                continue
            # Replies have the priority and congestion control of the query; each sample is handed out once.
            without = (*NOT_COMPARED, "priority", "congestion_control", "express")
            told = [item for item in node["samples"] if item.get("subscriber") == subscriber["name"]]
            wire = [
                as_sample(event, event.as_data().get("kind") or event.event, root)
                for event in reached(name, zid, "put", "delete", "reply")
                if during(subscriber, event) and matches(root + subscriber["key"], event.keyexpr)
            ]
            assert set(counted(told, without=without)) == set(counted(wire, without=without))
            assert set(counted(told, without=without).values()) == {1}


# Queries ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", READABLE)
def test_each_queryable_got_the_queries_that_travelled_to_its_node(name: str) -> None:
    for node in nodes(name):
        root = namespace_of(node)
        asked = reached(name, zid_of(node), "query")
        for queryable in node.get("queryables", []):
            told = [row for row in node.get("queries", []) if row["queryable"] == queryable["name"]]
            wire = [
                as_query(event, root)
                for event in asked
                if during(queryable, event)
                and matches(root + queryable["key"], event.keyexpr)
                and wants(event, queryable)
            ]
            without = ["queryable", *(["payload"] if any(map(by_reference, asked)) else [])]
            assert counted(told, without=without) == counted(wire, without=without), queryable


def wants(event: Event, queryable: Truth) -> bool:
    """Tells whether a query that reached a node is for a queryable there."""
    assert isinstance(event, Query)
    return event.target != "all_complete" or bool(queryable.get("complete"))


@pytest.mark.parametrize("name", READABLE)
def test_each_get_got_the_replies_that_travelled(name: str) -> None:
    for node in nodes(name):
        root = namespace_of(node)
        own = [event for event in events(name) if event.event == "query" and event.source_zid == zid_of(node)]
        for get in node.get("gets", []):
            asker = asker_of(node, get)
            queries = queries_of(get, own, asker, root)
            ids = {(back(query), query.request_id) for query in queries}
            answers = [
                event
                for event in reached(name, zid_of(node), "reply", "reply_err")
                if isinstance(event, Answer) and (event.link, event.request_id) in ids
            ]
            without = ["payload"] if any(map(by_reference, answers)) else []
            if "version" in node["session"]:
                without.append("replier")  # older releases do not tell all of it
            told = [trimmed(reply, without) for reply in get["replies"]]
            wire = [trimmed(as_reply(event, root), without) for event in answers]
            # When time is up the API says so itself, or the next router does, whoever is faster.
            told, wire = ([reply for reply in replies if not timed_out(reply)] for replies in (told, wire))
            options = asker | get
            automatic = "NONE" if "_time" in get["selector"] else "LATEST"
            consolidation = options.get("consolidation", "AUTO").replace("AUTO", automatic)
            check_replies(told, wire, consolidation)


def trimmed(reply: Truth, without: list[str]) -> Truth:
    """A reply without what cannot be compared."""
    return {
        part: {name: item for name, item in value.items() if name not in without}
        if isinstance(value, dict)
        else value
        for part, value in reply.items()
        if part not in without
    }


def timed_out(reply: Truth) -> bool:
    return "error" in reply and bool(reply["error"].get("payload") == {"text": "Timeout"})


def asker_of(node: Truth, get: Truth) -> Truth:
    """The querier that a get names, else nothing."""
    return next((row for row in node.get("queriers", []) if row["name"] == get.get("querier")), {})


def queries_of(get: Truth, own: list[Event], asker: Truth, root: str) -> list[Query]:
    """Takes the queries of a get out of those of the node: the next one on each link."""
    key, _, parameters = get["selector"].partition("?")
    if asker:
        key, parameters = asker["key"], get["selector"]
    if (asker | get).get("accept_replies") == "ANY":
        parameters = ";".join(filter(None, [parameters, "_anyke"]))  # how nodes ask for replies with any key
    found: dict[str, Query] = {}
    for event in own:
        assert isinstance(event, Query)
        same = event.keyexpr == root + key and event.parameters == parameters
        if same and event.link not in found:
            found[event.link] = event
    for query in found.values():
        own.remove(query)
    return list(found.values())


def back(event: Event) -> str:
    """The link of an event in the other direction."""
    source, _, target = event.link.partition(" -> ")
    return f"{target} -> {source}"


def check_replies(told: list[Truth], wire: list[Truth], consolidation: str) -> None:
    if consolidation == "NONE":
        assert counted(told) == counted(wire)
        return
    # The API drops older ones for the same key, and duplicates; errors it hands out as they come.
    assert counted(told) <= counted(wire)
    assert {key_of(reply) for reply in told} == {key_of(reply) for reply in wire}
    if consolidation == "LATEST":
        kept = [key_of(reply) for reply in told if "ok" in reply]
        assert len(kept) == len(set(kept))


def key_of(reply: Truth) -> str:
    return str(reply["ok"]["key"]) if "ok" in reply else json.dumps(reply["error"])


@pytest.mark.parametrize("name", READABLE)
def test_each_query_that_was_answered_has_its_time(name: str) -> None:
    for event in events(name):
        if isinstance(event, Final):
            assert event.latency is not None
            assert event.latency >= 0
            assert event.request_packet is not None
            assert event.request_packet <= event.packet


# Liveliness ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", READABLE)
def test_each_liveliness_subscriber_got_the_tokens_that_travelled_to_its_node(name: str) -> None:
    for node in nodes(name):
        root = namespace_of(node)
        for subscriber in node.get("subscribers", []):
            if subscriber["kind"] != "liveliness":
                continue
            told = [
                (sample["kind"], sample["key"])
                for sample in node.get("samples", [])
                if sample.get("liveliness") == subscriber["name"]
            ]
            assert Counter(told) == Counter(changes(name, node, subscriber, root)), subscriber


def changes(name: str, node: Truth, subscriber: Truth, root: str) -> Iterator[tuple[str, str]]:
    """What a liveliness subscriber is told: each token once until it is taken back."""
    alive: dict[str, str | None] = {}
    before: set[str] = set()
    begun = False
    begin: Turn = subscriber["since"], "begin", "", None
    for time, kind, key, source in sorted([begin, *turns(name, node, root)], key=itemgetter(0)):
        if time > subscriber.get("until", time):
            return
        known = set(alive)
        # With a session its tokens end.
        gone = {one for one, other in alive.items() if other == source} if kind == "close" else {key}
        if kind == "token":
            alive.setdefault(key, source)
        elif kind == "begin":
            begun = True
            known, before = (set(), set()) if subscriber["history"] else (known, known)
        else:
            alive = {one: other for one, other in alive.items() if one not in gone}
        if begun:
            yield from (("PUT", one) for one in sorted(set(alive) - known) if matches(subscriber["key"], one))
            lost = known - set(alive) - before
            yield from (("DELETE", one) for one in sorted(lost) if matches(subscriber["key"], one))
            before &= set(alive)


Turn = tuple[int, str, str, str | None]
"""When, what happened, to which token, who said so."""


def turns(name: str, node: Truth, root: str) -> Iterator[Turn]:
    """What happened to tokens that a node knows of: what travelled to it, and what it declared itself."""
    for event in reached(name, zid_of(node), "token", "undeclare_token"):
        assert event.keyexpr is not None
        yield event.time, event.event, event.keyexpr.removeprefix(root), event.source_zid
    for token in node.get("tokens", []):
        yield token["since"], "token", token["key"], None
        if "until" in token:
            yield token["until"], "undeclare_token", token["key"], None
    for time, source, target in closed(name):
        if target == zid_of(node):
            yield time, "close", "", source


@cache
def closed(name: str) -> list[tuple[int, str | None, str | None]]:
    """When which node closed its session with which other."""
    return [
        (heard.time, heard.source_zid, heard.target_zid)
        for heard in listen(capture.read(PCAPS / f"{name}.pcapng"))
        if isinstance(heard, Heard) and isinstance(heard.message, Close)
    ]


# Declarations -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", READABLE)
def test_each_queryable_and_token_was_declared_and_taken_back(name: str) -> None:
    for node in nodes(name):
        root = namespace_of(node)
        sent = [event for event in events(name) if event.source_zid == zid_of(node)]
        declared = {
            (event.event, event.keyexpr, event.complete) for event in sent if isinstance(event, Declaration)
        }
        for queryable in node.get("queryables", []):
            # A node declares all its queryables for one key as one, which is complete if one of them is.
            same = [one for one in node["queryables"] if one["key"] == queryable["key"]]
            complete = any(one.get("complete") for one in same)
            assert ("queryable", root + queryable["key"], complete) in declared
            if "until" in queryable:
                assert ("undeclare_queryable", root + queryable["key"], None) in declared
        for token in node.get("tokens", []):
            assert ("token", root + token["key"], None) in declared
            if "until" in token:
                assert ("undeclare_token", root + token["key"], None) in declared


# Scouting -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TOLD)
def test_each_hello_that_an_application_saw_travelled(name: str) -> None:
    saw = json.loads((PCAPS / f"{name}.truth.json").read_text(encoding="utf-8"))
    hellos = {
        (event.source_zid, event.whatami, event.locators)
        for event in events(name)
        if event.event == "hello" and isinstance(event, Scouting)
    }
    for node in saw.values():
        for scout in node.get("scouts", []):
            told = {(hello["zid"], hello["whatami"], tuple(hello["locators"])) for hello in scout["hellos"]}
            assert told <= hellos


@pytest.mark.parametrize("name", OPAQUE)
def test_nothing_is_found_where_nothing_can_be_read(name: str) -> None:
    assert events(name) == []


def test_captures_have_something_of_everything_that_is_compared() -> None:
    found = Counter(event.event for name in READABLE for event in events(name))
    # Real nodes take no alias back before their session ends.
    assert {kind for kind in EventKind if not found[kind]} == {EventKind.UNDECLARE_KEYEXPR}
    told = Counter(
        section
        for name in READABLE
        for node in nodes(name)
        for section in ("samples", "queries", "gets")
        for _ in node.get(section, [])
    )
    assert told["samples"] >= 500
    assert told["queries"] >= 50
    assert told["gets"] >= 50


# Messages made by hand ----------------------------------------------------------------------------


def said(*messages: Message | bytes) -> list[Event]:
    """What the messages of one FRAME are, behind a handshake."""
    pair = Pair()
    pair.handshake()
    whole = b"\x25\x0a" + b"".join(map(bytes, messages))
    return list(samples(pair.say(whole)))


def only(message: Message | bytes) -> Event:
    (event,) = said(message)
    return event


def test_what_the_wire_leaves_out_is_filled_in() -> None:
    event = only(put("a", b"x"))
    assert isinstance(event, Sample)
    assert (event.priority, event.priority_name, event.congestion_control) == (5, "data", "drop")
    assert (event.express, event.reliable, event.encoding, event.encoding_name) == (
        False,
        True,
        0,
        "zenoh/bytes",
    )
    assert (event.schema, event.attachment, event.timestamp, event.source_info) == (None, None, None, None)
    asked = only(Request(request_id=1, N=1, key_suffix="a", body=QueryMessage()))
    assert isinstance(asked, Query)
    assert (asked.target, asked.consolidation, asked.payload, asked.encoding) == (
        "best_matching",
        "auto",
        None,
        None,
    )


@pytest.mark.parametrize(
    ("d", "f", "congestion"), [(0, 0, "drop"), (1, 0, "block"), (0, 1, "block_first"), (1, 1, "block")]
)
def test_congestion_control_is_read_as_nodes_do(d: int, f: int, congestion: str) -> None:
    message = put("a")
    message.extensions = [QoS(priority=1, D=d, E=1, F=f)]
    message.Z = None
    event = only(message)
    assert isinstance(event, Sample)
    assert (event.congestion_control, event.priority_name, event.express) == (congestion, "real_time", True)


def test_deletion_has_neither_payload_nor_encoding() -> None:
    stamped = Del(T=1, timestamp=5, timestamp_id=b"\x01\x02", extensions=[DelAttachment(attachment=b"gone")])
    event = only(Push(N=1, key_suffix="a", body=stamped))
    assert isinstance(event, Sample)
    assert (event.event, event.payload, event.encoding, event.encoding_name) == ("delete", None, None, None)
    assert (event.attachment, event.timestamp) == (b"gone", (5, "201"))


def test_empty_payload_is_not_none() -> None:
    event = only(put("a", b""))
    assert isinstance(event, Sample)
    assert event.payload == b""
    assert event.as_data()["payload"] == ""


def test_schema_that_is_no_text_is_there_in_hexadecimal() -> None:
    event = only(Push(N=1, key_suffix="a", body=Put(E=1, encoding=0xFFFF, S=1, schema=b"\xff/x", data=b"")))
    data = event.as_data()
    assert (data["encoding"], data["encoding_name"]) == (0xFFFF, "\\xff/x")
    assert (data["schema"], data["schema_hex"]) == ("\\xff/x", "ff2f78")


def test_ros_2_attachment_is_decoded() -> None:
    raw = (7).to_bytes(8, "little") + (9).to_bytes(8, "little") + b"\x10" + bytes(range(16))
    event = only(Push(N=1, key_suffix="a", body=Put(data=b"", extensions=[PutAttachment(attachment=raw)])))
    assert event.as_data()["ros2"] == {
        "sequence_number": 7,
        "source_timestamp": 9,
        "source_gid": bytes(range(16)).hex(),
    }


def test_key_by_an_alias_from_before_the_capture_is_none() -> None:
    assert only(put("/x", scope=9)).keyexpr is None
    assert [event.keyexpr for event in said(alias(9, "a"), put("/x", scope=9))] == ["a", "a/x"]


def test_alias_that_is_taken_back_has_its_key_and_its_declaration() -> None:
    _, event = said(alias(9, "a"), no_alias(9))
    assert isinstance(event, Declaration)
    assert (event.event, event.keyexpr, event.key_id, event.declared_packet) == (
        "undeclare_keyexpr",
        "a",
        9,
        5,
    )


def test_interest_says_what_it_is_for() -> None:
    message = InterestMessage(
        mode=3, interest_id=4, subscribers=1, aggregate=1, restricted=1, N=1, key_suffix="a/*"
    )
    event = only(message)
    assert isinstance(event, Interest)
    assert (event.mode, event.options, event.keyexpr) == (
        "current_future",
        ("subscribers", "aggregate"),
        "a/*",
    )


def test_duplicate_that_receivers_drop_is_no_event() -> None:
    pair = Pair()
    pair.handshake()
    heard = [*pair.say(frame(10, put("a"))), *pair.say(frame(10, put("a"))), *pair.say(frame(11, put("b")))]
    assert [event.keyexpr for event in samples(heard)] == ["a", "b"]


def test_message_in_fragments_names_its_packets() -> None:
    pair = Pair()
    pair.handshake()
    raw = bytes(put("a", bytes(100)))
    heard = [*pair.say(fragment(10, raw[:50])), *pair.say(fragment(11, raw[50:], more=False))]
    (event,) = samples(heard)
    assert (event.packet, event.packets) == (6, (5, 6))


def test_message_that_is_refused_is_told_as_far_as_it_could_be_read() -> None:
    (event,) = said(bytes(put("a", b"hello"))[:-2])
    assert isinstance(event, Sample)
    assert (event.keyexpr, event.payload) == ("a", None)
    assert event.remarks
    # Not text at all: what is no UTF-8 must not break a reader of JSON.
    (event,) = said(b"\x3d\x00\x01\xff\x01\x00")
    assert json.loads(event.as_json())["keyexpr"] in {"\\xff", None}


def test_key_that_could_not_be_read_is_none() -> None:
    (event,) = said(bytes(alias(9, "abc"))[:-2])
    assert event.keyexpr is None


def test_error_without_its_query_has_no_key() -> None:
    pair = Pair()
    heard = pair.say(frame(10, Response(request_id=4, body=Err(data=b"Timeout"))))
    (event,) = samples(heard)
    assert event.keyexpr is None


def test_patterns_match_valid_keys_only() -> None:
    assert matches("a/*", "a/b")
    assert not matches("a/*", "b")
    assert not matches("**", "a//b")
    assert not matches("**", "")
    assert not matches("**", None)
