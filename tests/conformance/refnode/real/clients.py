"""Real clients for tests: eclipse-zenoh sessions in processes of their own, told what to do line by line."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

SECONDS = 10.0
"""How long something that must happen may take."""

ANSWER_SECONDS = 30.0
"""How long a process may take to do as it was told, over and above the waiting it was told to do."""

Event: TypeAlias = dict[str, Any]
"""What an entity heard: a sample, a reply, a query, a change."""

CLIENT: dict[str, Any] = {
    "mode": "client",
    "scouting/multicast/enabled": False,
    "adminspace/enabled": False,
    "transport/shared_memory/enabled": False,
}
"""Configuration of a session that speaks to one node and does nothing else."""


class Refused(Exception):
    """The library did not do it; the text is its own."""


def payload(value: bytes | str) -> dict[str, Any]:
    """Describes a payload for a worker, byte by byte."""
    return {"hex": (value.encode() if isinstance(value, str) else value).hex()}


def big(size: int, seed: int = 1) -> dict[str, Any]:
    """Describes a payload of random bytes."""
    return {"size": size, "seed": seed}


def digest(size: int, seed: int = 1) -> dict[str, Any]:
    """Returns what an event tells of ``big(size, seed)``."""
    return {"size": size, "sha256": hashlib.sha256(random.Random(seed).randbytes(size)).hexdigest()}


def text(event: Event) -> str:
    """Returns the payload of an event as text."""
    return bytes.fromhex(event["payload"]["hex"]).decode()


def texts(events: list[Event]) -> list[str]:
    """Returns the payloads of events as text."""
    return [text(event) for event in events]


class Worker:
    """A process that opens sessions for us.

    Args:
        log: File for what the library and the interpreter write.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("worker.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "RUST_BACKTRACE": "0"},
            )
        self._buffer = b""

    def ask(self, do: str, *, patience: float = 0.0, **request: Any) -> Any:
        """Has the process do something and returns what it answers.

        Raises:
            Refused: The library raised.
            AssertionError: The process died, or did not answer in time.
        """
        assert self.alive, f"the worker died before {do!r}; its log ends: {self._tail()}"
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **request}).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self._line(time.monotonic() + ANSWER_SECONDS + patience, do))
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["ok"]

    def _line(self, deadline: float, do: str) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"the worker does not answer to {do!r}; its log ends: {self._tail()}"
            more = os.read(descriptor, 1 << 20)
            assert more, f"the worker died of {do!r}; its log ends: {self._tail()}"
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _tail(self) -> str:
        return " / ".join(self._log.read_text(errors="replace").splitlines()[-5:])

    def open(self, config: dict[str, Any]) -> Client:
        """Opens a session with paths and values of the configuration."""
        return Client(self, self.ask("open", config=config))

    def scout(self, config: dict[str, Any], what: str = "router|peer") -> list[Event]:
        """Looks for nodes until one answers, and returns what it told."""
        number = self.ask("scout", config=config, what=what)
        taken = self.ask("take", entity=number, count=1, seconds=SECONDS, patience=SECONDS)
        self.ask("stop", entity=number)
        events: list[Event] = taken["events"]
        return events

    @property
    def alive(self) -> bool:
        """Whether nobody has ended the process, or itself."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Ends the process without letting it say goodbye."""
        self._process.kill()
        self.end()

    def end(self) -> None:
        """Ends the process; what its sessions have open is dropped."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            # What was not written yet does not matter to a process that has died.
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Client:
    """A session of the real library."""

    def __init__(self, worker: Worker, opened: dict[str, Any]) -> None:
        self.worker = worker
        self.zid: str = opened["zid"]
        self._session: int = opened["session"]

    def ask(self, do: str, **request: Any) -> Any:
        """Has the worker do something with this session."""
        return self.worker.ask(do, session=self._session, **request)

    def put(self, key: str, value: bytes | str | dict[str, Any], **options: Any) -> None:
        """Puts bytes, text, or what ``big`` describes."""
        told = value if isinstance(value, dict) else payload(value)
        self.ask("put", key=key, payload=told, **options)

    def put_many(self, key: str, count: int, first: int = 0, **options: Any) -> None:
        """Puts numbers as text, one after the other; ``{n}`` in the key is the number."""
        self.ask("put_many", key=key, count=count, first=first, **options)

    def delete(self, key: str, **options: Any) -> None:
        """Deletes a key."""
        self.ask("delete", key=key, **options)

    def subscribe(self, key: str) -> Entity:
        """Subscribes, and returns when the node next to us has heard of it."""
        return self._settled(self._entity("subscriber", key=key))

    def subscribe_many(self, key: str, count: int, first: int = 0) -> Entity:
        """Declares many subscribers; an event tells by ``of`` which of them heard it."""
        return self._settled(self._entity("subscribers", key=key, count=count, first=first))

    def queryable(self, key: str, *answers: Event, complete: bool = False) -> Entity:
        """Declares a queryable that gives these answers to every query."""
        return self._settled(self._entity("queryable", key=key, answers=answers, complete=complete))

    def holding_queryable(self, key: str) -> Entity:
        """Declares a queryable that keeps queries until ``reply`` and ``finish``."""
        return self._settled(self._entity("queryable", key=key))

    def reply(self, query: Event, kind: str, **answer: Any) -> None:
        """Answers a query that is held."""
        self.worker.ask("reply", query=query["query"], kind=kind, **answer)

    def finish(self, query: Event) -> None:
        """Lets go of a query that is held."""
        self.worker.ask("finish", query=query["query"])

    def publisher(self, key: str, **options: Any) -> Publisher:
        """Declares a publisher."""
        return Publisher(self, self.ask("publisher", key=key, **options))

    def advanced_publisher(self, key: str, *, cache: int) -> Publisher:
        """Declares a publisher that keeps so many samples for who comes later."""
        return Publisher(self, self.ask("advanced_publisher", key=key, cache=cache))

    def advanced_subscriber(self, key: str) -> Entity:
        """Declares a subscriber that asks for what was published before, and for what it missed."""
        return self._settled(self._entity("advanced_subscriber", key=key))

    def querier(self, key: str, **options: Any) -> Querier:
        """Declares a querier."""
        return Querier(self, self.ask("querier", key=key, **options))

    def get(self, selector: str, within: float = SECONDS, **options: Any) -> list[Event]:
        """Asks, and returns all replies once no more can come."""
        return self.start_get(selector, **options).rest(within)

    def start_get(self, selector: str, **options: Any) -> Entity:
        """Asks, and returns at once."""
        return self._entity("get", selector=selector, **options)

    def token(self, key: str) -> Entity:
        """Declares a liveliness token, and returns when the node next to us has heard of it."""
        return self._settled(self._entity("token", key=key))

    def alive(self, key: str, within: float = SECONDS) -> list[str]:
        """Returns the keys of the liveliness tokens there are, in order of the alphabet.

        To be asked of a client that watches none of them: what it knows already mixes with what it hears.
        """
        return sorted(event["key"] for event in self._entity("liveliness_get", key=key).rest(within))

    def watch(self, key: str, *, history: bool) -> Entity:
        """Subscribes to liveliness."""
        return self._settled(self._entity("liveliness_subscriber", key=key, history=history))

    def transports(self) -> Entity:
        """Listens to the sessions below this one: those that are there, and those that come and go."""
        return self._entity("transports", history=True)

    def info(self) -> dict[str, Any]:
        """Returns whom this session is connected to, and how."""
        told: dict[str, Any] = self.ask("info")
        return told

    def settle(self) -> None:
        """Returns when the node next to us has dealt with what we sent so far on the lane of declarations.

        Its answer to a question about liveliness comes after that.
        """
        self._entity("liveliness_get", key=f"settle/{self.zid}").rest()

    def close(self) -> None:
        """Closes the session."""
        self.ask("close")

    def _entity(self, do: str, **request: Any) -> Entity:
        return Entity(self, self.ask(do, **request))

    def _settled(self, entity: Entity) -> Entity:
        self.settle()
        return entity


class Entity:
    """Something a session declared or asked, and what it hears."""

    def __init__(self, client: Client, number: int) -> None:
        self._client = client
        self._number = number

    def _ask(self, do: str, **request: Any) -> Any:
        return self._client.worker.ask(do, entity=self._number, **request)

    def take(self, count: int, within: float = SECONDS) -> list[Event]:
        """Waits for so many events and returns them; fewer when the time is over."""
        taken = self._ask("take", count=count, seconds=within, patience=within)
        events: list[Event] = taken["events"]
        return events

    def next(self, within: float = SECONDS) -> Event:
        """Waits for one event."""
        events = self.take(1, within)
        assert events, f"nothing came within {within:g} s"
        return events[0]

    def rest(self, within: float = SECONDS) -> list[Event]:
        """Waits for the end, which must come, and returns what came before it."""
        taken = self._ask("take", count=1 << 30, seconds=within, patience=within)
        assert taken["ended"], f"no end within {within:g} s, only {taken['events']}"
        events: list[Event] = taken["events"]
        return events

    def until(self, fits: Callable[[Event], bool], within: float = SECONDS) -> Event:
        """Waits for the first event that fits and forgets those before it."""
        deadline = time.monotonic() + within
        passed: list[Event] = []
        while (left := deadline - time.monotonic()) > 0:
            for event in self.take(1, left):
                if fits(event):
                    return event
                passed.append(event)
        raise AssertionError(f"nothing that fits within {within:g} s, only {passed}")

    def undeclare(self) -> None:
        """Undeclares it, and returns when the node next to us has heard of it."""
        self._ask("undeclare")
        self._client.settle()


class _Matched(Entity):
    """Something that knows whether there is anybody for it."""

    def matching(self) -> bool:
        """Whether there is anybody now."""
        return bool(self._ask("matching"))

    def listener(self) -> Entity:
        """Listens to changes of ``matching``."""
        return Entity(self._client, self._ask("matching_listener"))

    def matched(self, within: float = SECONDS) -> None:
        """Waits until there is anybody."""
        listener = self.listener()
        if not self.matching():
            listener.until(lambda event: bool(event["matching"]), within)


class Publisher(_Matched):
    """A declared publisher."""

    def put(self, value: bytes | str | dict[str, Any], **options: Any) -> None:
        """Puts bytes, text, or what ``big`` describes."""
        self._ask("put", payload=value if isinstance(value, dict) else payload(value), **options)

    def delete(self, **options: Any) -> None:
        """Deletes the key."""
        self._ask("delete", **options)


class Querier(_Matched):
    """A declared querier."""

    def get(self, within: float = SECONDS, **options: Any) -> list[Event]:
        """Asks, and returns all replies once no more can come."""
        return Entity(self._client, self._ask("get", **options)).rest(within)
