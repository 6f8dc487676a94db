"""The child process that is one node of a scenario. Standard library and ``zenoh`` only.

Started as ``python node_process.py FD``. Each line of standard input is a JSON object: ``do`` names a
method of ``Node``, the rest are its arguments. Each is answered with one JSON line on the file
descriptor: ``{"ok": result}`` or ``{"error": text}``. The node ends with its standard input.

What the API hands out (samples, queries, replies, hellos) is turned into plain values and kept; the parent
asks for it with ``record`` and writes it down as what this node saw. The format is in README.md.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import socket
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import zenoh

LONGEST = 512
"""Bytes of a payload that is written down as it is; longer ones by their size and SHA-256."""

ENUMERATIONS = {
    "priority": "Priority",
    "congestion_control": "CongestionControl",
    "reliability": "Reliability",
    "target": "QueryTarget",
    "consolidation": "ConsolidationMode",
    "accept_replies": "ReplyKeyExpr",
    "allowed_origin": "Locality",
    "allowed_destination": "Locality",
}
"""Options whose values are names of members. Older releases lack some of them."""

LISTENING = {"tcp": "0A", "udp": "07"}
"""State of a socket that waits for peers, in /proc/net."""

CONNECTED = "01"
"""State of a connection there."""

SHARED = 1 << 20
"""Bytes of the shared memory that this process hands out."""


class Node:
    """One session, its entities by name, and what its application saw."""

    def __init__(self) -> None:
        self._session: Any = None
        self._memory: Any = None
        self._entities: dict[str, Any] = {}
        self._rows: dict[str, dict[str, Any]] = {}
        self._seen: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self._arrived = threading.Condition()

    # The session ----------------------------------------------------------------------------------

    def open(self, config: dict[str, Any]) -> dict[str, Any]:
        """Opens the session; tells its ZenohID and where it listens."""
        self._session = zenoh.open(_config(config))
        return {
            "zid": str(self._session.zid()),
            **{protocol: _listening_ports(protocol) for protocol in LISTENING},
        }

    def close(self) -> None:
        """Closes the session."""
        self._session.close()

    def transports(self) -> None:
        """Notes from now on, and for those there are, when a transport opens and closes."""

        def listen(event: Any) -> None:
            transport = event.transport
            self._note(
                "transports",
                {
                    "kind": _name(event.kind),
                    "zid": str(transport.zid),
                    "whatami": str(transport.whatami),
                    "qos": transport.is_qos,
                    "multicast": transport.is_multicast,
                },
            )

        self._entities["transports"] = self._session.info.declare_transport_events_listener(
            listen, history=True
        )

    def links(self) -> None:
        """Notes from now on, and for those there are, when a link is there and when it has ended."""
        self._entities["links"] = self._session.info.declare_link_events_listener(
            lambda event: self._note("links", {"kind": _name(event.kind), "zid": str(event.link.zid)}),
            history=True,
        )

    def cut(self, ports: list[int]) -> None:
        """Ends the connections with ports of this process or of the other end, as a network that fails does."""
        for descriptor, ends in _sockets("tcp", CONNECTED):
            if not {*ends}.isdisjoint(ports):
                with socket.socket(fileno=os.dup(descriptor)) as connection:
                    connection.shutdown(socket.SHUT_RDWR)

    def scout(self, what: str, count: int, config: dict[str, Any]) -> None:
        """Scouts without a session until so many hellos arrived."""
        scout: Any = zenoh.scout(what=what, config=_config(config))
        hellos: dict[str, dict[str, Any]] = {}
        while len(hellos) < count:
            hello = scout.recv()
            hellos[str(hello.zid)] = {
                "zid": str(hello.zid),
                "whatami": str(hello.whatami),
                "locators": list(hello.locators),
            }
        scout.stop()
        self._note("scouts", {"what": what, "hellos": [hellos[zid] for zid in sorted(hellos)]})

    # What was seen --------------------------------------------------------------------------------

    def record(self) -> dict[str, list[dict[str, Any]]]:
        """Returns all that was declared and seen since the start of the process."""
        with self._arrived:
            return dict(self._seen)

    def gathered(self, what: str, count: int) -> None:
        """Waits until so many of something were seen since the start of the process."""
        with self._arrived:
            self._arrived.wait_for(lambda: len(self._seen[what]) >= count)

    def _note(self, what: str, seen: dict[str, Any]) -> None:
        with self._arrived:
            self._seen[what].append(seen)
            self._arrived.notify_all()

    def _declare(
        self, what: str, name: str, key: str, options: dict[str, Any], declare: Callable[[], Any]
    ) -> None:
        """Declares an entity and writes down its row; the row is there before the first sample."""
        row = {"name": name, "key": key, **options, "since": time.time_ns()}
        self._note(what, row)
        self._rows[name] = row
        self._entities[name] = declare()

    def undeclare(self, name: str) -> None:
        """Undeclares any entity."""
        entity = self._entities.pop(name)
        if hasattr(entity, "undeclare"):
            entity.undeclare()
        else:
            self._session.undeclare(entity)
        if name in self._rows:
            self._rows.pop(name)["until"] = time.time_ns()

    # Publishing -----------------------------------------------------------------------------------

    def put(self, key: str, payload: str = "", **options: Any) -> None:
        """Puts one value."""
        self._session.put(key, self._payload(payload), **self._options(options))

    def put_all(self, values: list[dict[str, Any]]) -> None:
        """Puts values as fast as the API takes them, so that they share batches."""
        for key, payload, options in self._ready(values):
            self._session.put(key, payload, **options)

    def put_together(self, values: list[dict[str, Any]]) -> None:
        """Puts values at the same time, each in a thread of its own."""
        start = threading.Barrier(len(values))

        def put(key: str, payload: Any, options: dict[str, Any]) -> None:
            start.wait()
            self._session.put(key, payload, **options)

        threads = [threading.Thread(target=put, args=value) for value in self._ready(values)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _ready(self, values: list[dict[str, Any]]) -> list[tuple[str, Any, dict[str, Any]]]:
        return [
            (item.pop("key"), self._payload(item.pop("payload", "")), self._options(item)) for item in values
        ]

    def delete(self, key: str, **options: Any) -> None:
        """Deletes one value."""
        self._session.delete(key, **self._options(options))

    def publisher(self, name: str, key: str, **options: Any) -> None:
        """Declares a publisher."""
        made = self._options(options)
        self._declare("publishers", name, key, options, lambda: self._session.declare_publisher(key, **made))

    def publish(self, name: str, payload: str = "", **options: Any) -> None:
        """Publishes one value."""
        self._entities[name].put(self._payload(payload), **self._options(options))

    def publish_all(self, values: list[dict[str, str]]) -> None:
        """Publishes values as fast as the API takes them, so that they share batches."""
        ready = [(self._entities[item["name"]], self._payload(item["payload"])) for item in values]
        for publisher, payload in ready:
            publisher.put(payload)

    def retract(self, name: str, **options: Any) -> None:
        """Deletes the key of a publisher."""
        self._entities[name].delete(**self._options(options))

    def advanced_publisher(
        self,
        name: str,
        key: str,
        cache: int = 0,
        heartbeat: float = 0,
        detection: bool = False,
        **options: Any,
    ) -> None:
        """Declares a publisher that numbers its samples, and may keep the last ones for those who ask.

        Args:
            name: Its name.
            key: What it publishes.
            cache: Samples to keep.
            heartbeat: Seconds between heartbeats that tell the last number; 0 for none.
            detection: It has a liveliness token by which subscribers find it.
            options: As the API takes them.
        """
        from zenoh.ext import CacheConfig, MissDetectionConfig, declare_advanced_publisher

        made = self._options(options)
        if cache:
            made["cache"] = CacheConfig(cache)
        made["sample_miss_detection"] = MissDetectionConfig(
            heartbeat=heartbeat or None, sporadic_heartbeat=None
        )
        shown = {"cache": cache, "heartbeat": heartbeat, "detection": detection, **options}
        self._declare(
            "publishers",
            name,
            key,
            {"advanced": True, **shown},
            lambda: declare_advanced_publisher(self._session, key, publisher_detection=detection, **made),
        )

    def listen_matching(self, name: str) -> None:
        """Notes from now on whether a publisher or querier has somebody at the other end."""

        def listen(status: Any) -> None:
            self._note("matching", {"entity": name, "matching": bool(status.matching)})

        self._entities[f"matching of {name}"] = self._entities[name].declare_matching_listener(listen)

    def matching(self, name: str) -> None:
        """Waits until a publisher or querier has somebody at the other end."""
        entity = self._entities[name]
        with entity.declare_matching_listener() as listener:
            matching = bool(entity.matching_status)
            while not matching:
                matching = bool(listener.recv().matching)

    # Subscribing ----------------------------------------------------------------------------------

    def subscribe(self, name: str, key: str, **options: Any) -> None:
        """Declares a subscriber."""
        made, listener = self._options(options), self._listener("subscriber", name)
        self._declare(
            "subscribers",
            name,
            key,
            {"kind": "subscriber", **options},
            lambda: self._session.declare_subscriber(key, listener, **made),
        )

    def watch(self, name: str, key: str, history: bool = False) -> None:
        """Declares a liveliness subscriber."""
        listener = self._listener("liveliness", name)
        self._declare(
            "subscribers",
            name,
            key,
            {"kind": "liveliness", "history": history},
            lambda: self._session.liveliness().declare_subscriber(key, listener, history=history),
        )

    def advanced_subscribe(
        self, name: str, key: str, history: int = 0, late: bool = False, recovery: bool = False
    ) -> None:
        """Declares a subscriber that asks publishers for what it missed, and tells what stays missing.

        Args:
            name: Its name.
            key: What it wants.
            history: Samples of each publisher to ask for; 0 for none.
            late: Ask publishers, too, that come later.
            recovery: Listen to heartbeats and ask for what is missing.
        """
        from zenoh.ext import HistoryConfig, RecoveryConfig, declare_advanced_subscriber

        made: dict[str, Any] = {}
        if history:
            made["history"] = HistoryConfig(detect_late_publishers=late, max_samples=history)
        if recovery:
            made["recovery"] = RecoveryConfig(periodic_queries=None, heartbeat=True)
        listener = self._listener("subscriber", name)
        self._declare(
            "subscribers",
            name,
            key,
            {"kind": "advanced", "history": history, "late": late, "recovery": recovery},
            lambda: declare_advanced_subscriber(self._session, key, listener, **made),
        )

        def missed(miss: Any) -> None:
            self._note("misses", {"subscriber": name, "source": _entity(miss.source), "count": miss.nb})

        self._entities[f"misses of {name}"] = self._entities[name].sample_miss_listener(missed)

    def _listener(self, kind: str, name: str) -> Any:
        def listen(sample: Any) -> None:
            self._note("samples", {kind: name, **_sample(sample)})

        return listen

    # Queries --------------------------------------------------------------------------------------

    def queryable(
        self, name: str, key: str, answers: list[dict[str, Any]], keep: bool = False, **options: Any
    ) -> None:
        """Declares a queryable that gives the same answers to each query.

        Args:
            name: Its name.
            key: What it answers.
            answers: A reply each; one without a key is an error, one without a payload a deletion.
            keep: Never end a query, so that it times out at the asking side.
            options: As the API takes them.
        """
        kept = self._entities.setdefault("kept queries", [])

        def answer(query: Any) -> None:
            self._note("queries", {"queryable": name, **_query(query)})
            for item in answers:
                # The API refuses a reply for a key that was not asked for.
                with contextlib.suppress(zenoh.ZError):
                    self._reply(query, **item)
            if keep:
                kept.append(query)
            elif hasattr(query, "drop"):
                query.drop()

        made = self._options(options)
        self._declare(
            "queryables",
            name,
            key,
            options,
            lambda: self._session.declare_queryable(key, answer, **made),
        )

    def _reply(self, query: Any, key: str = "", payload: str | None = None, **options: Any) -> None:
        made = self._options(options)
        if not key:
            query.reply_err(self._payload(payload or ""), **made)
        elif payload is None:
            query.reply_del(key, **made)
        else:
            query.reply(key, self._payload(payload), **made)

    def querier(self, name: str, key: str, **options: Any) -> None:
        """Declares a querier."""
        made = self._options(options)
        self._declare("queriers", name, key, options, lambda: self._session.declare_querier(key, **made))

    def get(self, selector: str, querier: str = "", **options: Any) -> None:
        """Queries and waits for the last reply.

        Args:
            selector: Key expression and parameters; the parameters alone when a querier is named.
            querier: Its name.
            options: As the API takes them.
        """
        asked = self._options(options)
        if "payload" in asked:
            asked["payload"] = self._payload(asked["payload"])
        row = {"selector": selector, **options}
        if querier:
            row["querier"] = querier
            replies = self._entities[querier].get(parameters=selector, **asked)
        else:
            replies = self._session.get(selector, **asked)
        self._note("gets", {**row, "replies": [_reply(reply) for reply in replies]})

    def alive(self, key: str) -> None:
        """Asks for the liveliness tokens there are."""
        replies = self._session.liveliness().get(key)
        self._note("alive", {"key": key, "replies": [_reply(reply) for reply in replies]})

    # Other entities -------------------------------------------------------------------------------

    def token(self, name: str, key: str) -> None:
        """Declares a liveliness token."""
        self._declare("tokens", name, key, {}, lambda: self._session.liveliness().declare_token(key))

    def alias(self, name: str, key: str) -> None:
        """Declares a key expression, to be named like an entity."""
        self._declare("aliases", name, key, {}, lambda: self._session.declare_keyexpr(key))

    def put_alias(self, name: str, payload: str) -> None:
        """Puts a value under a declared key expression."""
        self._session.put(self._entities[name], payload)

    def encodings(self) -> list[str]:
        """Returns the encodings that have a number on the wire, by name."""
        named = (getattr(zenoh.Encoding, name) for name in dir(zenoh.Encoding) if name.isupper())
        return sorted({str(member) for member in named})

    # Values ---------------------------------------------------------------------------------------

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Turns names into the enumerations of the API; ``stamped``, ``sourced``, ``traced`` into objects."""
        made = {
            name: getattr(getattr(zenoh, ENUMERATIONS[name]), value) if name in ENUMERATIONS else value
            for name, value in options.items()
        }
        if "attachment" in made:
            made["attachment"] = self._payload(made["attachment"])
        if made.pop("stamped", False):
            made["timestamp"] = self._session.new_timestamp()
        if "sourced" in made:
            made["source_info"] = zenoh.SourceInfo(self._session.id, made.pop("sourced"))
        if made.pop("traced", False):
            builder = zenoh.TimestampInstrumentationBuilder()
            made["timestamp_instrumentation"] = (
                builder.set_send(True).set_route(True).set_receive(True).build()
            )
        return made

    def _payload(self, text: str) -> Any:
        """Returns what a text of a scenario stands for: ``hex:``, ``count:SIZE``, or itself.

        With ``shared:`` in front it is in shared memory.
        """
        kind, _, rest = text.partition(":")
        if kind == "shared":
            return self._share(self._payload(rest))
        if kind == "hex":
            return bytes.fromhex(rest)
        if kind == "count":
            # Numbered, so that a lost or doubled piece shows; no two pieces compress to the same.
            return b"".join(b"%07d\n" % index for index in range(int(rest) // 8 + 1))[: int(rest)]
        return text.encode()

    def _share(self, raw: bytes) -> Any:
        from zenoh.shm import ShmProvider

        if self._memory is None:
            self._memory = ShmProvider.default_backend(SHARED)
        buffer = self._memory.alloc(len(raw))
        buffer[:] = raw
        return buffer


def _config(values: dict[str, Any]) -> Any:
    config = zenoh.Config()
    for path, value in values.items():
        config.insert_json5(path, json.dumps(value))
    return config


def _shown(data: Any) -> dict[str, Any] | None:
    """Returns bytes as JSON: text, base64, or for long ones size and SHA-256."""
    if data is None:
        return None
    raw = bytes(data)
    if len(raw) > LONGEST:
        return {"size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
    with contextlib.suppress(UnicodeDecodeError):
        return {"text": raw.decode()}
    return {"base64": base64.b64encode(raw).decode()}


def _sample(sample: Any) -> dict[str, Any]:
    # Of 1.10 and 1.6; older releases hand out samples without them.
    stack, source = getattr(sample, "timestamp_stack", None), getattr(sample, "source_info", None)
    seen = {
        "key": str(sample.key_expr),
        "kind": _name(sample.kind),
        "payload": _shown(sample.payload),
        "encoding": str(sample.encoding),
        "attachment": _shown(sample.attachment),
        "priority": _name(sample.priority),
        "congestion_control": _name(sample.congestion_control),
        "express": sample.express,
        "timestamp": sample.timestamp and _timestamp(sample.timestamp),
        "source": source and _source(source),
        "timestamp_stack": stack and [_name(record.point) for record in stack.records],
    }
    return {name: value for name, value in seen.items() if value is not None}


def _timestamp(stamp: Any) -> dict[str, Any]:
    # The text is the one form that all releases have; the id in it is a number, on the wire it is reversed.
    time_text, _, zid = str(stamp).partition("/")
    return {"ntp64": int(time_text), "id": bytes.fromhex(zid.zfill(len(zid) + len(zid) % 2))[::-1].hex()}


def _source(source: Any) -> dict[str, Any]:
    return {**_entity(source.source_id), "sn": source.source_sn}


def _name(member: Any) -> str:
    """Returns the name of a member of an enumeration; those of the API have no ``name``."""
    return repr(member).rpartition(".")[2]


def _entity(identity: Any) -> dict[str, Any]:
    """Returns who it was; before 1.6 a replier is known by its ZenohID alone."""
    return (
        {"zid": str(identity.zid), "eid": identity.eid}
        if hasattr(identity, "eid")
        else {"zid": str(identity)}
    )


def _query(query: Any) -> dict[str, Any]:
    source = getattr(query, "source_info", None)
    seen = {
        "key": str(query.key_expr),
        "parameters": str(query.parameters),
        "payload": _shown(query.payload),
        "encoding": None if query.encoding is None else str(query.encoding),
        "attachment": _shown(query.attachment),
        "source": source and _source(source),
    }
    return {name: value for name, value in seen.items() if value is not None}


def _reply(reply: Any) -> dict[str, Any]:
    replier = reply.replier_id and _entity(reply.replier_id)
    if reply.ok is not None:
        return {"replier": replier, "ok": _sample(reply.ok)}
    error = {"payload": _shown(reply.err.payload), "encoding": str(reply.err.encoding)}
    return {"replier": replier, "error": error}


def _listening_ports(protocol: str) -> list[int]:
    """Returns the ports on which this process waits for peers; the API does not tell them."""
    return sorted({ends[0] for _, ends in _sockets(protocol, LISTENING[protocol])})


def _sockets(protocol: str, state: str) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yields the sockets of this process in a state: descriptor, own port and that of the other end."""
    inodes = {}
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the descriptor of this very listing is gone by now
            inodes[str(descriptor.readlink())] = int(descriptor.name)
    for family in ("", "6"):
        for line in Path(f"/proc/self/net/{protocol}{family}").read_text().splitlines()[1:]:
            columns = line.split()
            name = f"socket:[{columns[9]}]"
            if columns[3] == state and name in inodes:
                own, other = (int(end.rpartition(":")[2], 16) for end in columns[1:3])
                yield inodes[name], (own, other)


def main() -> int:
    """Does what standard input says."""
    node = Node()
    with os.fdopen(int(sys.argv[1]), "w") as answers:
        for line in sys.stdin:
            command = json.loads(line)
            try:
                answer = {"ok": getattr(node, command.pop("do"))(**command)}
            except Exception as error:  # noqa: BLE001  (whatever the API raises is the parent's to tell)
                answer = {"error": f"{type(error).__name__}: {error}"}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
