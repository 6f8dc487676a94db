"""A process full of eclipse-zenoh sessions that does what it is told. Standard library and ``zenoh`` only.

One JSON request a line on standard input, one JSON answer a line on what was standard output (the library
writes its log there, so that goes to standard error instead): ``{"ok": ...}`` or ``{"error": "..."}``.
Whatever a session hears is kept in the inbox of the entity that heard it until ``take`` asks for it.
The process ends when its standard input does.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import json
import os
import random
import resource
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import zenoh
import zenoh.ext
from zenoh.handlers import Callback

PR_SET_PDEATHSIG = 1

SHOWN = 256
"""Payloads up to this size are told byte by byte, larger ones by size and hash."""

changed = threading.Condition()
"""Guards every inbox; told whenever one grows or ends."""


@dataclass
class Inbox:
    """What an entity heard and nobody has asked for yet."""

    events: list[dict[str, Any]] = field(default_factory=list)
    ended: bool = False

    def add(self, event: dict[str, Any]) -> None:
        with changed:
            self.events.append(event)
            changed.notify_all()

    def end(self) -> None:
        with changed:
            self.ended = True
            changed.notify_all()

    def take(self, count: int, seconds: float) -> list[dict[str, Any]]:
        """Waits for so many events, or until no more can come; hands them out and forgets them."""
        with changed:
            changed.wait_for(lambda: len(self.events) >= count or self.ended, seconds)
            taken, self.events = self.events[:count], self.events[count:]
        return taken


@dataclass
class Entity:
    """Something that was declared: the handle of the library, and what it heard."""

    handle: Any = None
    inbox: Inbox = field(default_factory=Inbox)


sessions: dict[int, zenoh.Session] = {}
entities: dict[int, Entity] = {}
queries: dict[int, zenoh.Query] = {}
numbers = itertools.count(1)


def data(told: dict[str, Any] | None) -> bytes | None:
    """Makes a payload from its description: as hexadecimal digits, or seed and size of random bytes."""
    if told is None:
        return None
    return (
        bytes.fromhex(told["hex"]) if "hex" in told else random.Random(told["seed"]).randbytes(told["size"])
    )


def tell_data(payload: zenoh.ZBytes | None) -> dict[str, Any] | None:
    if payload is None:
        return None
    raw = payload.to_bytes()
    if len(raw) <= SHOWN:
        return {"size": len(raw), "hex": raw.hex()}
    return {"size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}


def name(member: Any) -> str:
    """Returns the name of a member of one of the library's enumerations."""
    return str(member).rpartition(".")[2]


def tell_sample(sample: zenoh.Sample) -> dict[str, Any]:
    return {
        "kind": name(sample.kind),
        "key": str(sample.key_expr),
        "payload": tell_data(sample.payload),
        "encoding": str(sample.encoding),
        "attachment": tell_data(sample.attachment),
        "priority": name(sample.priority),
        "congestion": name(sample.congestion_control),
        "express": sample.express,
        "timestamp": str(sample.timestamp) if sample.timestamp else None,
    }


def tell_reply(reply: zenoh.Reply) -> dict[str, Any]:
    replier = {"replier": str(reply.replier_id.zid) if reply.replier_id else None}
    if reply.ok is not None:
        return tell_sample(reply.ok) | replier
    assert reply.err is not None
    return replier | {
        "kind": "ERR",
        "payload": tell_data(reply.err.payload),
        "encoding": str(reply.err.encoding),
    }


def options(request: dict[str, Any], *names: str) -> dict[str, Any]:
    """Returns those of the named options that the request has, as the library wants them."""
    kinds: dict[str, Callable[[Any], Any]] = {
        "encoding": zenoh.Encoding,
        "attachment": data,
        "payload": data,
        "priority": lambda name: getattr(zenoh.Priority, name),
        "congestion_control": lambda name: getattr(zenoh.CongestionControl, name),
        "reliability": lambda name: getattr(zenoh.Reliability, name),
        "target": lambda name: getattr(zenoh.QueryTarget, name),
        "consolidation": lambda name: getattr(zenoh.ConsolidationMode, name),
        "accept_replies": lambda name: getattr(zenoh.ReplyKeyExpr, name),
        "allowed_destination": lambda name: getattr(zenoh.Locality, name),
    }
    found = {name: request[name] for name in names if request.get(name) is not None}
    return {name: kinds[name](value) if name in kinds else value for name, value in found.items()}


def putting(request: dict[str, Any], *names: str) -> dict[str, Any]:
    """Returns options of a put: unless told so, the library may not drop it when the link is slow."""
    return options({"congestion_control": "BLOCK"} | request, *names)


def configured(paths: dict[str, Any]) -> zenoh.Config:
    """Returns a configuration with these values at these paths."""
    config = zenoh.Config()
    for path, value in paths.items():
        config.insert_json5(path, json.dumps(value))
    return config


def hearing(inbox: Inbox, tell: Callable[[Any], dict[str, Any]]) -> Any:
    """Returns a handler that fills an inbox, on the thread that received: one each would be too many."""

    def heard(what: Any) -> None:
        try:
            inbox.add(tell(what))
        except Exception as error:  # noqa: BLE001  (the test that waits for the event shall see why it is missing)
            inbox.add({"fault": repr(error)})

    return Callback(heard, inbox.end, indirect=False)


PUTTING = ("encoding", "priority", "congestion_control", "express", "attachment")
ASKING = (
    *("target", "consolidation", "accept_replies", "timeout", "priority", "congestion_control", "express"),
    *("payload", "encoding", "attachment", "allowed_destination"),
)


class Commands:
    """What can be asked for; the name of a method is the name of a request."""

    def open(self, request: dict[str, Any]) -> dict[str, Any]:
        """Opens a session and tells its id."""
        session = zenoh.open(configured(request["config"]))
        number = next(numbers)
        sessions[number] = session
        return {"session": number, "zid": str(session.info.zid())}

    def close(self, request: dict[str, Any]) -> None:
        sessions.pop(request["session"]).close()  # type: ignore[no-untyped-call]

    def info(self, request: dict[str, Any]) -> dict[str, Any]:
        info = sessions[request["session"]].info
        return {
            "routers": [str(zid) for zid in info.routers_zid()],
            "peers": [str(zid) for zid in info.peers_zid()],
            "links": [{"src": link.src, "dst": link.dst, "mtu": link.mtu} for link in info.links()],
            "qos": [transport.is_qos for transport in info.transports()],
        }

    def put(self, request: dict[str, Any]) -> str | None:
        """Puts by a session, or by a publisher; tells the timestamp if it was to give one."""
        payload = data(request["payload"])
        if request.get("timestamped"):
            session = sessions[request["session"]]
            timestamp = session.new_timestamp()
            session.put(request["key"], payload, timestamp=timestamp, **putting(request, *PUTTING))
            return str(timestamp)
        if "entity" in request:
            publisher = entities[request["entity"]].handle
            publisher.put(payload, **options(request, "encoding", "attachment"))
        else:
            sessions[request["session"]].put(request["key"], payload, **putting(request, *PUTTING))
        return None

    def delete(self, request: dict[str, Any]) -> None:
        """Deletes by a session, or by a publisher."""
        if "entity" in request:
            entities[request["entity"]].handle.delete(**options(request, "attachment"))
        else:
            sessions[request["session"]].delete(request["key"], **putting(request, *PUTTING[1:]))

    def put_many(self, request: dict[str, Any]) -> None:
        """Puts numbers as text; ``{n}`` in the key is the number."""
        session, chosen = sessions[request["session"]], putting(request, *PUTTING)
        for number in range(request["first"], request["first"] + request["count"]):
            session.put(request["key"].replace("{n}", str(number)), str(number).encode(), **chosen)

    def publisher(self, request: dict[str, Any]) -> int:
        chosen = putting(request, *PUTTING[:-1], "reliability", "allowed_destination")
        return keep(Entity(sessions[request["session"]].declare_publisher(request["key"], **chosen)))

    def subscriber(self, request: dict[str, Any]) -> int:
        entity = Entity()
        handler = hearing(entity.inbox, tell_sample)
        entity.handle = sessions[request["session"]].declare_subscriber(request["key"], handler)
        return keep(entity)

    def subscribers(self, request: dict[str, Any]) -> int:
        """Declares many that share an inbox; ``{n}`` in the key is the number, told as ``of``."""
        entity = Entity(handle=[])

        def of(number: int) -> Callable[[Any], dict[str, Any]]:
            return lambda sample: tell_sample(sample) | {"of": number}

        for number in range(request["first"], request["first"] + request["count"]):
            key = request["key"].replace("{n}", str(number))
            handler = hearing(entity.inbox, of(number))
            entity.handle.append(sessions[request["session"]].declare_subscriber(key, handler))
        return keep(entity)

    def advanced_publisher(self, request: dict[str, Any]) -> int:
        """Declares a publisher that keeps what it published and says that it is there."""
        publisher = zenoh.ext.declare_advanced_publisher(
            sessions[request["session"]],
            request["key"],
            cache=zenoh.ext.CacheConfig(max_samples=request["cache"]),
            sample_miss_detection=zenoh.ext.MissDetectionConfig(heartbeat=0.2, sporadic_heartbeat=None),
            publisher_detection=True,
        )
        return keep(Entity(publisher))

    def advanced_subscriber(self, request: dict[str, Any]) -> int:
        """Declares a subscriber that asks for what was published before, and for what it missed."""
        entity = Entity()
        entity.handle = zenoh.ext.declare_advanced_subscriber(
            sessions[request["session"]],
            request["key"],
            hearing(entity.inbox, tell_sample),
            history=zenoh.ext.HistoryConfig(detect_late_publishers=True),
            recovery=zenoh.ext.RecoveryConfig(periodic_queries=None, heartbeat=True),
        )
        return keep(entity)

    def queryable(self, request: dict[str, Any]) -> int:
        """Declares a queryable that answers each query at once, or holds it without ``answers``."""
        entity = Entity()
        answers = request.get("answers")

        def asked(query: zenoh.Query) -> None:
            number = next(numbers)
            queries[number] = query
            told = {
                "query": number,
                "key": str(query.key_expr),
                "parameters": str(query.parameters),
                "payload": tell_data(query.payload),
                "encoding": str(query.encoding) if query.encoding else None,
                "attachment": tell_data(query.attachment),
            }
            entity.inbox.add(told)
            if answers is not None:
                for answer in answers:
                    self.reply(answer | {"query": number})
                self.finish({"query": number})

        # On a thread of its own: a reply may wait for room in the queue that its own thread empties.
        entity.handle = sessions[request["session"]].declare_queryable(
            request["key"], Callback(asked, entity.inbox.end), complete=request.get("complete")
        )
        return keep(entity)

    def reply(self, request: dict[str, Any]) -> None:
        query = queries[request["query"]]
        key = request.get("key", str(query.key_expr))
        match request["kind"]:
            case "PUT":
                chosen = options(request, "encoding", "attachment", "express")
                query.reply(key, data(request["payload"]), **chosen)
            case "DELETE":
                query.reply_del(key, **options(request, "attachment"))
            case "ERR":
                query.reply_err(data(request["payload"]), **options(request, "encoding"))

    def finish(self, request: dict[str, Any]) -> None:
        queries.pop(request["query"]).drop()  # type: ignore[no-untyped-call]

    def querier(self, request: dict[str, Any]) -> int:
        chosen = options(request, "target", "consolidation", "accept_replies", "timeout", "priority")
        return keep(Entity(sessions[request["session"]].declare_querier(request["key"], **chosen)))

    def get(self, request: dict[str, Any]) -> int:
        """Asks, by a session or by a querier; the inbox ends when no more replies come."""
        entity = Entity()
        handler = hearing(entity.inbox, tell_reply)
        if "entity" in request:
            chosen = options(request, "parameters", "payload", "encoding", "attachment")
            entities[request["entity"]].handle.get(handler, **chosen)
        else:
            sessions[request["session"]].get(request["selector"], handler, **options(request, *ASKING))
        return keep(entity)

    def token(self, request: dict[str, Any]) -> int:
        return keep(Entity(sessions[request["session"]].liveliness().declare_token(request["key"])))

    def liveliness_get(self, request: dict[str, Any]) -> int:
        entity = Entity()
        handler = hearing(entity.inbox, tell_reply)
        liveliness = sessions[request["session"]].liveliness()
        liveliness.get(request["key"], handler, **options(request, "timeout"))
        return keep(entity)

    def liveliness_subscriber(self, request: dict[str, Any]) -> int:
        entity = Entity()
        handler = hearing(entity.inbox, tell_sample)
        liveliness = sessions[request["session"]].liveliness()
        entity.handle = liveliness.declare_subscriber(request["key"], handler, history=request["history"])
        return keep(entity)

    def matching(self, request: dict[str, Any]) -> bool:
        """Tells whether a publisher or querier has anybody now."""
        return bool(entities[request["entity"]].handle.matching_status.matching)

    def matching_listener(self, request: dict[str, Any]) -> int:
        entity = Entity()
        handler = hearing(entity.inbox, lambda status: {"matching": status.matching})
        entity.handle = entities[request["entity"]].handle.declare_matching_listener(handler)
        return keep(entity)

    def transports(self, request: dict[str, Any]) -> int:
        """Listens to sessions that come and go below this one."""
        entity = Entity()
        handler = hearing(
            entity.inbox,
            lambda event: {"kind": name(event.kind), "zid": str(event.transport.zid)},
        )
        info = sessions[request["session"]].info
        entity.handle = info.declare_transport_events_listener(handler, history=request["history"])
        return keep(entity)

    def scout(self, request: dict[str, Any]) -> int:
        """Looks for nodes, without a session."""
        entity = Entity()
        handler = hearing(
            entity.inbox,
            lambda hello: {"whatami": str(hello.whatami), "zid": str(hello.zid), "locators": hello.locators},
        )
        entity.handle = zenoh.scout(handler, what=request["what"], config=configured(request["config"]))
        return keep(entity)

    def stop(self, request: dict[str, Any]) -> None:
        """Ends the looking."""
        entities[request["entity"]].handle.stop()

    def undeclare(self, request: dict[str, Any]) -> None:
        handle = entities[request["entity"]].handle
        for one in handle if isinstance(handle, list) else [handle]:
            one.undeclare()

    def take(self, request: dict[str, Any]) -> dict[str, Any]:
        inbox = entities[request["entity"]].inbox
        events = inbox.take(request["count"], request["seconds"])
        return {"events": events, "left": len(inbox.events), "ended": inbox.ended}


def keep(entity: Entity) -> int:
    number = next(numbers)
    entities[number] = entity
    return number


def requests() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        yield json.loads(line)


def main() -> int:
    """Serves until nobody asks any more."""
    # It must not outlive tests that were killed.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    zenoh.init_log_from_env_or("error")
    commands = Commands()
    for request in requests():
        try:
            answer = {"ok": getattr(commands, request["do"])(request)}
        except zenoh.ZError as error:
            answer = {"error": str(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    # What is still open ends with the process: a close that waits for a silent node would hold it up.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
