"""PUT, DEL and what carries them."""

from __future__ import annotations

from typing import Any

from pcaps.stage import ZIDS, Stage, scenario, tell_apart

PRIORITIES = (
    "REAL_TIME",
    "INTERACTIVE_HIGH",
    "INTERACTIVE_LOW",
    "DATA_HIGH",
    "DATA",
    "DATA_LOW",
    "BACKGROUND",
)


@scenario()
def put_delete(stage: Stage) -> None:
    """PUT and DEL of a client to its router, and from there to a subscriber.

    Encodings, a schema, an own encoding, attachments, a timestamp, SourceInfo, an empty and a binary payload, a
    long key, TimestampStack.
    """
    router = stage.router()
    bob = stage.client("bob", router)
    bob.subscribe(name="all", key="demo/**")
    bob.fence()
    alice = stage.client("alice", router)
    alice.put(key="demo/plain", payload="no encoding")
    alice.put(key="demo/text", payload="Grüße", encoding="text/plain")
    alice.put(key="demo/schema", payload="text", encoding="text/plain;utf-8")
    alice.put(key="demo/json", payload='{"a": 1}', encoding="application/json")
    alice.put(key="demo/custom", payload="<a/>", encoding="application/x-own;v=2")
    alice.put(key="demo/empty")
    alice.put(key="demo/binary", payload="hex:00ff7f80fe", encoding="application/octet-stream")
    alice.put(key="demo/attachment", payload="with", attachment="an attachment")
    alice.put(key="demo/all", payload="of it", encoding="text/csv", attachment="x=1", stamped=True, sourced=7)
    alice.put(key="demo/long/key/" + "k" * 100, payload="count:500")
    alice.put(key="demo/traced", payload="on the way", traced=True)
    alice.delete(key="demo/plain")
    alice.delete(key="demo/text", attachment="why", stamped=True, sourced=8)
    alice.put(key="elsewhere", payload="nobody subscribed")
    stage.received(bob, 13)


@scenario()
def fragments(stage: Stage) -> None:
    """FRAGMENT: 60 000 bytes in batches of 4096 to the router, of the default size from it; two lanes."""
    router = stage.router()
    bob = stage.client("bob", router)
    bob.subscribe(name="all", key="big/**")
    bob.fence()
    alice = stage.client("alice", router, transport__link__tx__batch_size=4096)
    alice.put(key="big/small", payload="before")
    alice.put(key="big/message", payload="count:60000", encoding="text/plain", congestion_control="BLOCK")
    alice.put(key="big/urgent", payload="count:9000", priority="REAL_TIME", congestion_control="BLOCK")
    alice.put(key="big/small", payload="after")
    stage.received(bob, 4)


@scenario()
def batches(stage: Stage) -> None:
    """Several messages in a FRAME, several FRAMEs in a batch.

    Reliable and best effort in turn, then express messages, each in a batch of its own.
    """
    slow: dict[str, Any] = {"transport/link/tx/queue/batching/time_limit": 50}
    router = stage.router(**slow)
    bob = stage.client("bob", router)
    bob.subscribe(name="all", key="mixed/**")
    bob.fence()
    alice = stage.client("alice", router, **slow)
    for reliability in ("RELIABLE", "BEST_EFFORT"):
        alice.publisher(name=reliability, key=f"mixed/{reliability.lower()}", reliability=reliability)
        alice.matching(name=reliability)
    names = ["RELIABLE"] * 3 + ["BEST_EFFORT"] * 2 + ["RELIABLE", "BEST_EFFORT"] * 3
    alice.publish_all(
        values=[
            {"name": name, "payload": text} for name, text in zip(names, tell_apart(len(names)), strict=True)
        ]
    )
    alice.put_all(
        values=[{"key": "mixed/express", "payload": text, "express": True} for text in tell_apart(3)]
    )
    alice.put_all(values=[{"key": "mixed/put", "payload": text} for text in tell_apart(20)])
    stage.received(bob, len(names) + 23)


@scenario()
def lanes(stage: Stage) -> None:
    """Each priority on its lane, with Drop, Block, BlockFirst and express; then a client without QoS."""
    router = stage.router()
    bob = stage.client("bob", router)
    bob.subscribe(name="all", key="lane/**")
    bob.fence()
    alice = stage.client("alice", router)
    for priority in PRIORITIES:
        for control in ("DROP", "BLOCK", "BLOCK_FIRST"):
            key = f"lane/{priority.lower()}/{control.lower()}"
            alice.put(key=key, payload=priority, priority=priority, congestion_control=control)
        alice.put(key=f"lane/{priority.lower()}/express", payload="now", priority=priority, express=True)
    stage.received(bob, len(PRIORITIES) * 4)
    plain = stage.client("carol", router, transport__unicast__qos__enabled=False)
    plain.put(key="lane/none", payload="one lane", priority="REAL_TIME", congestion_control="BLOCK")
    stage.received(bob, len(PRIORITIES) * 4 + 1)


@scenario()
def encodings(stage: Stage) -> None:
    """Each encoding that has a number, bare and with a schema; encodings of one's own."""
    router = stage.router()
    bob = stage.client("bob", router)
    bob.subscribe(name="all", key="encoded/**")
    bob.fence()
    alice = stage.client("alice", router)
    named = alice.encodings()
    for number, encoding in enumerate(named):
        alice.put(key=f"encoded/{number}", payload="bare", encoding=encoding)
        alice.put(key=f"encoded/{number}/schema", payload="with", encoding=f"{encoding};schema {number}")
    own = ["own/encoding", "own/encoding;with schema", "zenoh/bytes;", "text/unknown;größer"]
    for number, encoding in enumerate(own):
        alice.put(key=f"encoded/own/{number}", payload="own", encoding=encoding)
    stage.received(bob, 2 * len(named) + len(own))


@scenario()
def keys(stage: Stage) -> None:
    """Keys of many scripts, verbatim chunks, wildcards within chunks; values put to wildcards."""
    router = stage.router()
    bob = stage.client("bob", router)
    wanted = (
        "mañana/**",
        "**/日本語",
        "emoji/*/🙂",
        "verbatim/*/x",
        "verbatim/**",
        "verbatim/@v1/x",
        "@root/**",
        "part/pre$*post/*",
        "a b/c,d;e=f&g!h/**",
        "wild/one/x",
        "wild/*/*",
    )
    for key in wanted:
        bob.subscribe(name=key, key=key)
    bob.fence()
    alice = stage.client("alice", router)
    # Each with the number of subscribers that get it.
    values = {
        "mañana/por la mañana": 1,
        "mañana/日本語": 2,
        "日本語": 1,
        "ключ/значение/日本語": 1,
        "emoji/🦀/🙂": 1,
        "emoji/🙂": 0,
        "verbatim/v1/x": 2,
        "verbatim/@v1/x": 1,
        "verbatim/@v2/x": 0,
        "@root/of/all": 1,
        "part/prepost/any": 1,
        "part/pre-and-post/any": 1,
        "part/pre/any": 0,
        "a b/c,d;e=f&g!h/i": 1,
        "/".join(["deep"] * 60): 0,
        "wild/one/x": 2,
        "wild/*/x": 2,
        "wild/**": 2,
        "wild/$*e/*": 2,
    }
    alice.put_all(values=[{"key": key, "payload": f"to {key[:40]}"} for key in values])
    alice.delete(key="wild/**")
    stage.received(bob, sum(values.values()) + 2)


@scenario()
def locality(stage: Stage) -> None:
    """Who may get what is put, and from whom one wants it: the own session, others, all.

    Each value has a SourceInfo; one whose source is the session of the subscriber did not travel.
    """
    router = stage.router()
    bob = stage.client("bob", router)
    alice = stage.client("alice", router)
    wheres = ("ANY", "REMOTE", "SESSION_LOCAL")
    for node in (bob, alice):
        for origin in wheres:
            node.subscribe(name=origin, key="local/**", allowed_origin=origin)
        node.fence()
    for number, (node, name) in enumerate(((alice, "alice"), (bob, "bob"))):
        for where in wheres:
            node.put(
                key=f"local/{name}/{where.lower()}",
                payload=f"from {name}",
                allowed_destination=where,
                sourced=number,
            )
    # Own: ANY twice and SESSION_LOCAL twice, each to two subscribers; from the other: two to two.
    for node in (bob, alice):
        stage.received(node, 2 * 2 + 2 * 2)


@scenario()
def mixed(stage: Stage) -> None:
    """400 values, reliable and best effort in turn, which share batches: many FRAMEs of both in one batch."""
    slow: dict[str, Any] = {"transport/link/tx/queue/batching/time_limit": 100}
    router = stage.router(**slow)
    bob = stage.client("bob", router)
    bob.subscribe(name="all", key="mixed/**")
    bob.fence()
    alice = stage.client("alice", router, **slow)
    runs = (("RELIABLE", 3), ("BEST_EFFORT", 2), ("RELIABLE", 1), ("BEST_EFFORT", 4))
    for reliability in ("RELIABLE", "BEST_EFFORT"):
        alice.publisher(
            name=reliability,
            key=f"mixed/{reliability.lower()}",
            reliability=reliability,
            congestion_control="BLOCK",
        )
        alice.matching(name=reliability)
    names = [name for name, length in runs for _ in range(length)] * 40
    alice.publish_all(
        values=[
            {"name": name, "payload": text} for name, text in zip(names, tell_apart(len(names)), strict=True)
        ]
    )
    stage.received(bob, len(names))


@scenario()
def interleaved(stage: Stage) -> None:
    """Fragments of messages on four lanes, put at the same time: FRAGMENTs of one between those of others.

    Two of the messages have the same priority, one reliable and one best effort. Small messages in between.
    """
    small: dict[str, Any] = {"transport/link/tx/batch_size": 1024}
    router = stage.router()
    bob = stage.client("bob", router, **small)
    bob.subscribe(name="all", key="big/**")
    bob.fence()
    alice = stage.client("alice", router, **small)
    priorities = ("BACKGROUND", "DATA_LOW", "DATA", "INTERACTIVE_HIGH")
    sizes = (16000, 14000, 12000, 10000)
    alice.put_together(
        values=[
            {
                "key": f"big/{priority.lower()}",
                "payload": f"count:{size}",
                "priority": priority,
                "congestion_control": "BLOCK",
            }
            for priority, size in zip(priorities, sizes, strict=True)
        ]
        + [
            {"key": "big/small", "payload": text, "priority": "REAL_TIME", "congestion_control": "BLOCK"}
            for text in tell_apart(4)
        ]
    )
    stage.received(bob, len(priorities) + 4)


@scenario()
def oversized(stage: Stage) -> None:
    """A message that is larger than the receiver lets in: all its FRAGMENTs travel, nobody gets it."""
    router = stage.router()
    bob = stage.client(
        "bob", router, transport__link__rx__max_message_size=4000, transport__link__tx__batch_size=2048
    )
    bob.subscribe(name="all", key="size/**")
    bob.fence()
    alice = stage.client("alice", router, transport__link__tx__batch_size=2048)
    for size in (3000, 9000, 2000):
        alice.put(key=f"size/{size}", payload=f"count:{size}", congestion_control="BLOCK")
    stage.received(bob, 2)


@scenario()
def timestamps(stage: Stage) -> None:
    """Timestamps by the client itself, by the application, and none, as this router adds none."""
    router = stage.router(timestamping__enabled=False)
    bob = stage.client("bob", router)
    bob.subscribe(name="all", key="time/**")
    bob.fence()
    alice = stage.client("alice", router, timestamping__enabled=True)
    carol = stage.client("carol", router)
    alice.put(key="time/by/client", payload="T")
    alice.delete(key="time/by/client")
    carol.put(key="time/by/application", payload="T", stamped=True)
    carol.put(key="time/none", payload="no T")
    carol.delete(key="time/none")
    stage.received(bob, 5)


@scenario()
def ros2(stage: Stage) -> None:
    """Keys, tokens, encodings and attachments as ROS 2 nodes on rmw_zenoh make them; the nodes here are none.

    Attachments: sequence number, source time, and 16 bytes of identity with their count; then the older form
    with the names of the three. A service call carries the same.
    """
    router = stage.router()
    topic = "0/chatter/std_msgs::msg::dds_::String_/RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18"
    service = "0/add_two_ints/example_interfaces::srv::dds_::AddTwoInts_/TypeHashNotSupported"
    identity = bytes(range(16)).hex()
    numbers = [(number).to_bytes(8, "little").hex() for number in (1, 1_700_000_000_000_000_000)]

    def attached(number: int) -> str:
        sequence = number.to_bytes(8, "little").hex()
        return f"hex:{sequence}{numbers[1]}10{identity}"

    def named(text: str) -> str:
        return bytes([len(text)]).hex() + text.encode().hex()

    older = "hex:" + "".join(
        [
            named("sequence_number") + numbers[0],
            named("source_timestamp") + numbers[1],
            named("source_gid") + "10" + identity,
        ]
    )
    text = "hex:00010000" + (6).to_bytes(4, "little").hex() + b"hello\0".hex()
    bob = stage.client("bob", router)
    bob.watch(name="graph", key="@ros2_lv/0/**", history=True)
    bob.subscribe(name="chatter", key=topic)
    bob.queryable(
        name="adder",
        key=service,
        complete=True,
        answers=[
            {"key": service, "payload": "hex:000100000300000000000000", "attachment": attached(1)},
        ],
    )
    bob.fence()
    alice = stage.client("alice", router)
    entity = f"@ros2_lv/0/{ZIDS['alice']}/0"
    mangled = "/".join(["%chatter", *topic.split("/")[2:]])
    alice.token(name="node", key=f"{entity}/0/NN/%/%/talker")
    alice.token(name="topic", key=f"{entity}/10/MP/%/%/talker/{mangled}/::,7:,:,:,,")
    stage.received(bob, 2)
    alice.put(key=topic, payload=text, attachment=attached(1), congestion_control="BLOCK")
    alice.put(key=topic, payload=text, attachment=older, congestion_control="BLOCK")
    stage.received(bob, 4)
    request = "hex:0001000001000000000000000200000000000000"
    stage.asks(alice, service, payload=request, attachment=attached(5), target="ALL_COMPLETE")
    stage.close(alice)
    stage.received(bob, 6)


SHARING: dict[str, Any] = {
    "transport/shared_memory/enabled": True,
    "transport/shared_memory/mode": "init",
    "listen/endpoints": ["tcp/127.0.0.1:0"],
    "scouting/gossip/enabled": False,
}


@scenario()
def shared_memory(stage: Stage) -> None:
    """Shared memory (INIT and OPEN extension 0x2): PUT and REPLY whose payload goes by reference.

    Two peers that share memory: payloads of the application in shared memory, large ones that a node may move
    there by itself, a small one that goes as it is, and a peer that does not share.
    """
    left = stage.start("left", "peer", **SHARING)
    left.subscribe(name="all", key="shared/**")
    left.queryable(
        name="q",
        key="shared/q",
        answers=[{"key": "shared/q", "payload": "shared:count:2000", "encoding": "text/plain"}],
    )
    right = stage.start("right", "peer", connect__endpoints=[stage.locator(left)], **SHARING)
    right.publisher(name="data", key="shared/data")
    right.matching(name="data")
    right.publish(name="data", payload="shared:count:1000")
    right.publish(name="data", payload="shared:by reference though short", attachment="as it is")
    right.publish(name="data", payload="as it is")
    # Memory for what the node moves by itself is made when it first wants some, while that one travels.
    right.publish(name="data", payload="count:4000", encoding="text/plain")
    stage.received(left, 4)
    plain = {**SHARING, "transport/shared_memory/enabled": False}
    middle = stage.start("middle", "peer", connect__endpoints=[stage.locator(left)], **plain)
    middle.publisher(name="data", key="shared/data")
    middle.matching(name="data")
    middle.publish(name="data", payload="from one who does not share")
    stage.received(left, 5)
    right.publish(name="data", payload="count:5000", encoding="text/plain")
    stage.received(left, 6)
    stage.asks(right, "shared/q")
    stage.answered(left, 1)


@scenario()
def shared_query(stage: Stage) -> None:
    """A QUERY whose body goes by reference: its extension claims as many bytes as the shared payload has.

    Far fewer follow, and the other node reads it all the same.
    """
    left = stage.start("left", "peer", **SHARING)
    left.queryable(name="q", key="shared/q", answers=[{"key": "shared/q", "payload": "answer"}])
    right = stage.start("right", "peer", connect__endpoints=[stage.locator(left)], **SHARING)
    right.querier(name="asker", key="shared/q")
    right.matching(name="asker")
    stage.asks(right, "", querier="asker", payload="shared:count:1200", encoding="text/plain")
    stage.answered(left, 1)


@scenario()
def shared_error(stage: Stage) -> None:
    """An ERR whose payload is in shared memory: it has the extension, and its bytes nevertheless."""
    left = stage.start("left", "peer", **SHARING)
    left.queryable(name="e", key="shared/e", answers=[{"payload": "shared:count:1500"}])
    right = stage.start("right", "peer", connect__endpoints=[stage.locator(left)], **SHARING)
    right.querier(name="asker", key="shared/e")
    right.matching(name="asker")
    stage.asks(right, "", querier="asker")
    stage.answered(left, 1)
