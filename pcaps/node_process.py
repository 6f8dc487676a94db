"""The child process that is one node of a scenario. Standard library and ``zenoh`` only.

Started as ``python node_process.py FD``. Each line of standard input is a JSON object: ``do`` names a
method of ``Node``, the rest are its arguments. Each is answered with one JSON line on the file
descriptor: ``{"ok": result}`` or ``{"error": text}``. The node ends with its standard input.

What the API hands out (samples, queries, replies, hellos) is turned into plain values here; the parent
writes them down as what this node saw.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import zenoh

LONGEST = 512
"""Bytes of a payload that is written down as it is; longer ones by their size and SHA-256."""

ENUMERATIONS = {
    "priority": zenoh.Priority,
    "congestion_control": zenoh.CongestionControl,
    "reliability": zenoh.Reliability,
    "target": zenoh.QueryTarget,
    "consolidation": zenoh.ConsolidationMode,
    "accept_replies": zenoh.ReplyKeyExpr,
}

LISTENING = {"tcp": "0A", "udp": "07"}
"""State of a socket that waits for peers, in /proc/net."""


class Node:
    """One session, its entities by name, and what they received."""

    def __init__(self) -> None:
        self._session: Any = None
        self._entities: dict[str, Any] = {}
        self._samples: list[dict[str, Any]] = []
        self._queries: list[dict[str, Any]] = []
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

    def scout(self, what: str, count: int, config: dict[str, Any]) -> list[dict[str, Any]]:
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
        return [hellos[zid] for zid in sorted(hellos)]

    # Publishing -----------------------------------------------------------------------------------

    def put(self, key: str, payload: str = "", **options: Any) -> None:
        """Puts one value."""
        self._session.put(key, _payload(payload), **self._options(options))

    def put_all(self, values: list[dict[str, Any]]) -> None:
        """Puts values as fast as the API takes them, so that they share batches."""
        ready = [(item.pop("key"), _payload(item.pop("payload", "")), self._options(item)) for item in values]
        for key, payload, options in ready:
            self._session.put(key, payload, **options)

    def delete(self, key: str, **options: Any) -> None:
        """Deletes one value."""
        self._session.delete(key, **self._options(options))

    def publisher(self, name: str, key: str, **options: Any) -> None:
        """Declares a publisher."""
        self._entities[name] = self._session.declare_publisher(key, **self._options(options))

    def publish(self, name: str, payload: str = "", **options: Any) -> None:
        """Publishes one value."""
        self._entities[name].put(_payload(payload), **self._options(options))

    def publish_all(self, values: list[dict[str, str]]) -> None:
        """Publishes values as fast as the API takes them, so that they share batches."""
        ready = [(self._entities[item["name"]], _payload(item["payload"])) for item in values]
        for publisher, payload in ready:
            publisher.put(payload)

    def retract(self, name: str, **options: Any) -> None:
        """Deletes the key of a publisher."""
        self._entities[name].delete(**self._options(options))

    def matching(self, name: str) -> None:
        """Waits until a publisher or querier has somebody at the other end."""
        entity = self._entities[name]
        with entity.declare_matching_listener() as listener:
            matching = bool(entity.matching_status)
            while not matching:
                matching = bool(listener.recv().matching)

    # Subscribing ----------------------------------------------------------------------------------

    def subscribe(self, name: str, key: str) -> None:
        """Declares a subscriber."""
        self._entities[name] = self._session.declare_subscriber(key, self._listener("subscriber", name))

    def watch(self, name: str, key: str, history: bool = False) -> None:
        """Declares a liveliness subscriber."""
        liveliness = self._session.liveliness()
        self._entities[name] = liveliness.declare_subscriber(
            key, self._listener("liveliness", name), history=history
        )

    def samples(self, count: int) -> list[dict[str, Any]]:
        """Waits until so many samples arrived since the start of the node; returns all."""
        with self._arrived:
            self._arrived.wait_for(lambda: len(self._samples) >= count)
            return list(self._samples)

    def _listener(self, kind: str, name: str) -> Any:
        def listen(sample: Any) -> None:
            with self._arrived:
                self._samples.append({kind: name, **_sample(sample)})
                self._arrived.notify_all()

        return listen

    # Queries --------------------------------------------------------------------------------------

    def queryable(self, name: str, key: str, answers: list[dict[str, Any]], complete: bool = False) -> None:
        """Declares a queryable that gives the same answers to each query."""

        def answer(query: Any) -> None:
            asked = {"queryable": name, **_query(query)}
            with query:
                for item in answers:
                    options = self._options({key: item[key] for key in item if key not in {"key", "payload"}})
                    if "key" not in item:
                        query.reply_err(_payload(item["payload"]), **options)
                    elif "payload" in item:
                        query.reply(item["key"], _payload(item["payload"]), **options)
                    else:
                        query.reply_del(item["key"], **options)
            with self._arrived:
                self._queries.append(asked)
                self._arrived.notify_all()

        self._entities[name] = self._session.declare_queryable(key, answer, complete=complete)

    def queries(self, count: int) -> list[dict[str, Any]]:
        """Waits until so many queries were answered since the start of the node; returns all."""
        with self._arrived:
            self._arrived.wait_for(lambda: len(self._queries) >= count)
            return list(self._queries)

    def querier(self, name: str, key: str, **options: Any) -> None:
        """Declares a querier."""
        self._entities[name] = self._session.declare_querier(key, **self._options(options))

    def get(self, selector: str, querier: str = "", **options: Any) -> list[dict[str, Any]]:
        """Queries and waits for the last reply.

        Args:
            selector: Key expression and parameters; the parameters alone when a querier is named.
            querier: Its name.
            options: As the API takes them.
        """
        asked = self._options(options)
        if "payload" in asked:
            asked["payload"] = _payload(asked["payload"])
        if querier:
            return [_reply(reply) for reply in self._entities[querier].get(parameters=selector, **asked)]
        return [_reply(reply) for reply in self._session.get(selector, **asked)]

    def alive(self, key: str) -> list[dict[str, Any]]:
        """Asks for the liveliness tokens there are."""
        return [_reply(reply) for reply in self._session.liveliness().get(key)]

    # Other entities -------------------------------------------------------------------------------

    def token(self, name: str, key: str) -> None:
        """Declares a liveliness token."""
        self._entities[name] = self._session.liveliness().declare_token(key)

    def alias(self, name: str, key: str) -> None:
        """Declares a key expression, to be named like an entity."""
        self._entities[name] = self._session.declare_keyexpr(key)

    def put_alias(self, name: str, payload: str) -> None:
        """Puts a value under a declared key expression."""
        self._session.put(self._entities[name], payload)

    def undeclare(self, name: str) -> None:
        """Undeclares any entity."""
        entity = self._entities.pop(name)
        if hasattr(entity, "undeclare"):
            entity.undeclare()
        else:
            self._session.undeclare(entity)

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Turns names into the enumerations of the API; ``stamped``, ``sourced``, ``traced`` into objects."""
        made = {
            name: getattr(ENUMERATIONS[name], value) if name in ENUMERATIONS else value
            for name, value in options.items()
        }
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


def _config(values: dict[str, Any]) -> Any:
    config = zenoh.Config()
    for path, value in values.items():
        config.insert_json5(path, json.dumps(value))
    return config


def _payload(text: str) -> bytes:
    """Returns the bytes that a text of a scenario stands for: ``hex:``, ``count:SIZE``, or itself."""
    kind, _, rest = text.partition(":")
    if kind == "hex":
        return bytes.fromhex(rest)
    if kind == "count":
        # Numbered, so that a lost or doubled piece shows; no two pieces compress to the same.
        return b"".join(b"%07d\n" % index for index in range(int(rest) // 8 + 1))[: int(rest)]
    return text.encode()


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
    stamp, source, stack = sample.timestamp, sample.source_info, sample.timestamp_stack
    seen = {
        "key": str(sample.key_expr),
        "kind": _name(sample.kind),
        "payload": _shown(sample.payload),
        "encoding": str(sample.encoding),
        "attachment": _shown(sample.attachment),
        "priority": _name(sample.priority),
        "congestion_control": _name(sample.congestion_control),
        "express": sample.express,
        "timestamp": stamp
        and {"ntp64": int(str(stamp.get_time_as_ntp64())), "id": bytes(stamp.get_id()).hex()},
        "source": source and {**_entity(source.source_id), "sn": source.source_sn},
        "timestamp_stack": stack and [_name(record.point) for record in stack.records],
    }
    return {name: value for name, value in seen.items() if value is not None}


def _name(member: Any) -> str:
    """Returns the name of a member of an enumeration; those of the API have no ``name``."""
    return repr(member).rpartition(".")[2]


def _entity(identity: Any) -> dict[str, Any]:
    return {"zid": str(identity.zid), "eid": identity.eid}


def _query(query: Any) -> dict[str, Any]:
    seen = {
        "key": str(query.key_expr),
        "parameters": str(query.parameters),
        "payload": _shown(query.payload),
        "encoding": None if query.encoding is None else str(query.encoding),
        "attachment": _shown(query.attachment),
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
    inodes = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the descriptor of this very listing is gone by now
            inodes.add(str(descriptor.readlink()))
    ports = set()
    for line in Path(f"/proc/self/net/{protocol}").read_text().splitlines()[1:]:
        columns = line.split()
        if columns[3] == LISTENING[protocol] and f"socket:[{columns[9]}]" in inodes:
            ports.add(int(columns[1].rpartition(":")[2], 16))
    return sorted(ports)


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
