"""The regression test of a finding: a pytest file that needs no fuzzer.

It is made of what went over the links when the finding was last seen: how a link comes into its state is written
out, and only what a link has of its own (ZenohID, cookie, sequence numbers, lengths) is filled in when it runs.
"""

from __future__ import annotations

import math
import pprint
import re
import unittest
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from itertools import groupby
from pathlib import Path
from typing import Any

from conformance.config import Credentials
from conformance.errors import HarnessError, NotApplicable, SessionError
from conformance.observe import Direction
from conformance.session.authentication import hidden
from fuzz import standalone
from fuzz.lab import Part, Tried, linger_of, needs_of
from fuzz.oracles import Harm
from fuzz.player import Event
from fuzz.player.answers import FENCE_ID
from fuzz.player.history import batch_of
from fuzz.player.player import AGAIN
from fuzz.script import PREFIXES, SIZE, Do, Step, lies_about
from fuzz.states import State
from scapy_layers.batch import LONG_PREFIX, PREFIX, BatchReader, prefixed
from scapy_layers.codes import TransportId
from scapy_layers.primitives import write_vle

RUN = 24
"""So many equal bytes are written as a run."""

SHORTEST = 4
"""So many bytes of a lie must be those of a cookie to be taken from it."""

CONFIG: dict[str, dict[str, Any]] = {
    "low_latency": {"transport/unicast/lowlatency": True, "transport/unicast/qos/enabled": False},
    "compression": {"transport/unicast/compression/enabled": True},
    "connects": {
        "mode": "peer",
        "scouting/multicast/enabled": False,
        "connect/timeout_ms": -1,
        "connect/exit_on_failure": False,
    },
    "seeks": {
        "mode": "peer",
        "scouting/multicast/autoconnect": {"router": [], "peer": ["router", "peer"]},
    },
    "joins": {"mode": "peer", "scouting/multicast/enabled": False},
}
"""What a node is configured with for a kind of states."""

_AWAITED = frozenset({TransportId.INIT, TransportId.OPEN})
"""Messages without which a state is not reached."""

FlatStep = dict[str, Any]

COUNTED = ("sn", "sn_be")
"""Live values that a link counts."""

LATE = 0.2
"""Seconds in which a process may still die of what it was sent, at least: a test is run where nobody looks."""

MOST_TIMES = 16
"""So many times the rounds in which memory grew a test plays at most."""

TURNS = ("count", "digits")
"""Live values that say how often a step was repeated."""


def flat(tried: Tried) -> list[FlatStep]:
    """Returns what was done in a try as steps of ``standalone``."""
    flattened: list[FlatStep] = []
    sn: dict[str, tuple[int, int]] = {}
    alive: dict[str, int] = {}
    for step, part in zip(tried.script.steps, tried.parts, strict=False):
        events = [event for event in tried.events[part.start : part.end] if event.link == part.link]
        if step.do is Do.REACH:
            flattened += _reaching(tried, step, part)
            flattened.append({"do": "numbers", "link": step.link, "sn": part.sn[0], "sn_be": part.sn[1]})
            if step.state is State.LOW_LATENCY:
                flattened.append({"do": "prefix", "link": step.link, "size": LONG_PREFIX})
            alive[step.link] = part.link
        elif step.do is Do.SEND:
            flattened += _sent(step, part, events, sn.get(step.link, (0, 0)), tried)
        elif step.do is Do.SETTLE:
            stream = is_stream(tried, part.link)
            flattened.append({**_settle(step.link, events, stream=stream), "goes_on": True})
        else:
            flattened.append({"do": str(step.do), "link": step.link})
            if step.do in {Do.CLOSE, Do.RESET}:
                alive.pop(step.link, None)
        sn[step.link] = part.sn
    behind = tried.events[tried.parts[-1].end :] if tried.parts else []
    flattened += [
        _settle(name, [event for event in behind if event.link == number], stream=is_stream(tried, number))
        for name, number in alive.items()
    ]
    if tried.script.valid:
        flattened = [{**one, "stays": True} if one["do"] == "settle" else one for one in flattened]
    for one in flattened:
        if one["do"] == "send":
            one["data"] = shortened(one["data"])
    return list(_on_links(flattened))


def _on_links(steps: list[FlatStep]) -> Iterator[FlatStep]:
    """Yields the steps without those on links that never came about, because the node was gone by then."""
    made = set()
    for step in steps:
        if step["do"] == "link":
            made.add(step["link"])
        if step["link"] in made:
            yield step


def _reaching(tried: Tried, step: Step, part: Part) -> list[FlatStep]:
    """Returns how a link came into its state, and the links that were made beside it for that."""
    flattened: list[FlatStep] = []
    names = {part.link: step.link}
    came: dict[int, list[int]] = {}
    for event in tried.events[part.start : part.end]:
        if event.direction is Direction.OPENED:
            names.setdefault(event.link, f"{step.link} helper {len(names)}")
            flattened.append({"do": "link", "link": names[event.link], "how": _how(tried, event.link)})
        if event.link not in names:
            continue
        stream = is_stream(tried, event.link)
        if event.direction is Direction.RECEIVED:
            batch = batch_of(event.raw, stream=stream)
            came.setdefault(event.link, []).extend([batch[0] & 0x1F] if batch else [])
        elif event.direction is Direction.SENT:
            flattened += _expected(came, names)
            values = part.values if event.link == part.link else tried.helpers.get(event.link, {})
            text = placed(event.raw, values, stream=stream)
            flattened.append({"do": "send", "link": names[event.link], "data": text})
    return flattened + _expected(came, names)


def _expected(came: dict[int, list[int]], names: Mapping[int, str]) -> list[FlatStep]:
    """Returns what has to come before the next thing leaves; what a state cannot do without is needed."""
    expected: list[FlatStep] = []
    for link, numbers in came.items():
        wanted = next((number for number in numbers if number in _AWAITED), numbers[-1] if numbers else None)
        if wanted is not None:
            needed = {} if wanted in _AWAITED else {"needed": False}
            expected.append({"do": "expect", "link": names[link], "id": int(wanted), **needed})
    came.clear()
    return expected


def _how(tried: Tried, link: int) -> str:
    """Returns how a link comes about: we connect, the node does, or datagrams go to and fro."""
    ends = tried.endpoints.get(link)
    if ends is not None and ends.accepted:
        return "accept"
    return "datagrams" if ends is not None and ends.proto == "udp" and needs_of(tried.script) else "connect"


def is_stream(tried: Tried, link: int) -> bool:
    """Tells whether lengths stand in front of what goes over a link."""
    ends = tried.endpoints.get(link)
    return ends is None or ends.proto != "udp"


def placed(raw: bytes, values: Mapping[str, bytes], *, stream: bool = True) -> str:
    """Returns bytes as text in which a length that is true, the ZenohID and the cookie of a link are places.

    Who we are is no part of it: it is shown anew.
    """
    text, data = "", raw
    for name, size in ((SIZE, PREFIX), ("size32", LONG_PREFIX)) if stream else ():
        if len(raw) >= size and int.from_bytes(raw[:size], "little") == len(raw) - size:
            text, data = f"{{{name}}}", raw[size:]
            break
    if "user" in values and (text or not stream):
        data = hidden(data, values["user"])
    while True:
        found = [(data.find(value), name) for name in ("cookie", "zid") if (value := values.get(name))]
        found = [(at, name) for at, name in found if at >= 0]
        if not found:
            return text + data.hex()
        at, name = min(found)
        text += f"{data[:at].hex()}{{{name}}}"
        data = data[at + len(values[name]) :]


def _sent(step: Step, part: Part, events: list[Event], sn: tuple[int, int], tried: Tried) -> list[FlatStep]:
    """Returns how something is sent again: with places for what a link knows, else as it was sent."""
    names = {piece.partition("|")[0] for piece in step.data.pieces if isinstance(piece, str)}
    stream = is_stream(tried, part.link)
    sent = [
        event.raw
        for event in events
        if event.direction is Direction.SENT and event.note not in {"fence", AGAIN}
    ]
    apart = _taken_apart(step, sent) if stream else []
    if not apart and names <= {*PREFIXES, *COUNTED, *TURNS, *part.values}:
        return [_send(step, part.values, sn)]
    # Ids of queries, what other links know, how much fits into a batch: nobody knows them behind it.
    steps: list[FlatStep] = [
        {"do": "send", "link": step.link, "data": placed(raw, part.values, stream=stream)}
        for raw in apart or sent
    ]
    return [*steps, {"do": "numbers", "link": step.link, "sn": part.sn[0], "sn_be": part.sn[1]}]


def _taken_apart(step: Step, sent: list[bytes]) -> list[bytes]:
    """Returns the batches of a step that went in several, as the node takes smaller ones; nothing when each went in one."""
    if SIZE not in step.data.pieces[:1]:
        return []
    batches = [[prefixed(one) for one in BatchReader().feed(raw)] for raw in sent]
    if all(len(parts) == 1 for parts in batches) or [b"".join(parts) for parts in batches] != sent:
        return []
    return [batch for parts in batches for batch in parts]


def _send(step: Step, values: Mapping[str, bytes], sn: tuple[int, int]) -> FlatStep:
    numbers = dict(zip(COUNTED, sn, strict=True))
    text, prefix, size = "", "", 0
    for piece in step.data.pieces:
        if isinstance(piece, bytes):
            text += piece.hex()
            size += len(piece)
            continue
        name, _, words = piece.partition("|")
        if name in PREFIXES:
            prefix = piece
            continue
        true = write_vle(numbers[name] & 0xFFFFFFFF) if name in numbers else values.get(name, b"")
        if name in numbers:
            numbers[name] += 1
        if not words:
            text += f"{{{name}}}" if name in {*numbers, *TURNS, "zid", "cookie"} else true.hex()
            size += len(true)
            continue
        lie = bytes(lies_about(name)[words](true))
        text += _of_cookie(lie, true) if name == "cookie" else lie.hex()
        size += len(lie)
    name, _, words = prefix.partition("|")
    if words:
        text = bytes(lies_about(name)[words](size)).hex() + text
    elif name:
        text = f"{{{name}}}{text}"
    flattened: FlatStep = {"do": "send", "link": step.link, "data": text}
    if step.times != 1:
        flattened["times"] = step.times
    if step.bytewise:
        flattened["bytewise"] = True
    return flattened


def _of_cookie(lie: bytes, true: bytes) -> str:
    """Returns a lie about a cookie as text: what is the cookie's is taken from the cookie that is given then."""
    text, at = "", 0
    for begin, there, size in SequenceMatcher(None, true, lie, autojunk=False).get_matching_blocks():
        if size >= SHORTEST and there >= at:
            text += f"{lie[at:there].hex()}{{cookie[{begin}:{begin + size}]}}"
            at = there + size
    return text + lie[at:].hex()


def _settle(link: str, events: list[Event], *, stream: bool) -> FlatStep:
    fence = next((event.raw for event in events if event.note == "fence"), None)
    if fence is None or write_vle(FENCE_ID) not in fence:
        return {"do": "settle", "link": link}
    batch = batch_of(fence, stream=stream) or fence
    name = SIZE if len(fence) - len(batch) == PREFIX else "size32" if len(fence) > len(batch) else ""
    head = 0 if name == "size32" else 2 if batch[0] == 0 else 1
    text = batch.hex()
    if head:
        end = head
        while batch[end] & 0x80:
            end += 1
        text = f"{batch[:head].hex()}{{sn_be}}{batch[end + 1 :].hex()}"
    again = [placed(event.raw, {}, stream=stream) for event in events if event.note == AGAIN]
    return {
        "do": "settle",
        "link": link,
        "data": f"{{{name}}}{text}" if name else text,
        "answer": write_vle(FENCE_ID).hex(),
        **({"again": again} if again else {}),
    }


def shortened(text: str) -> str:
    """Returns hexadecimal digits and places with long runs of one byte as ``{ff x 20000}``."""
    return "".join(
        part if index % 2 else "".join(_runs(bytes.fromhex(part)))
        for index, part in enumerate(re.split(r"(\{[^{}]*\})", text))
    )


def _runs(data: bytes) -> Iterator[str]:
    for byte, run in groupby(data):
        count = len(list(run))
        yield f"{{{byte:02x} x {count}}}" if count >= RUN else f"{byte:02x}" * count


def test_of(title: str, harm: str, node: str, tried: Tried) -> str:
    """Returns the text of the test.

    Args:
        title: What is wrong, one line.
        harm: The class.
        node: As for ``--node``.
        tried: A try in which the harm was seen.
    """
    config, needs, late = _surroundings(tried)
    steps = pprint.pformat(flat(tried), indent=1, width=108, sort_dicts=False)
    return f'''"""{title.replace('"', "'").replace(chr(92), "/")}

Run it with ``pytest test_finding.py``. It fails as long as the fault is there, and passes on a fixed node; it is
skipped where a node cannot show the fault. It runs on the node on which this was found; choose another one with
``--node`` or the variable ZENOH_NODE, as for the conformance tests: ``pypi:1.10.2``, ``cmd:'COMMAND {{locator}}'``,
``tcp/127.0.0.1:7447`` (a running node, which the test may harm). To a node that asks for a user and a password, name
them with ``--user`` or in the variables ZENOH_USER and ZENOH_PASSWORD.
"""

{_source()}


NODE = {node!r}
CONFIG: dict[str, Any] = {pprint.pformat(config, width=100)}
NEEDS = {needs!r}
HARM = {harm!r}
ROUNDS = {_rounds(harm, tried)}
LATE = {late:.3g}
STEPS: list[dict[str, Any]] = {steps}


def test_finding(request: Any) -> None:
    check(node_wanted(request, NODE), CONFIG, NEEDS, HARM, STEPS, ROUNDS, LATE, user_wanted(request))
'''


def _surroundings(tried: Tried) -> tuple[dict[str, Any], str, float]:
    """Returns what a node is configured with, how links come about, and how long a process may take to die."""
    needs = needs_of(tried.script)
    config = {**CONFIG.get(needs, {}), **dict(tried.script.where)}
    return config, needs, max(LATE, linger_of(tried.waited))


def _rounds(harm: str, tried: Tried) -> int:
    """Returns how often a test plays the steps.

    Of what makes a node slower the sessions around the steps have their share, and a test has fewer of them. Memory has to
    grow by more than was enough where it was weighed behind each round.
    """
    if tried.rounds == 1:
        return 1
    if harm == Harm.GROWTH:
        grown = max(1.0, tried.grown[0] * tried.seconds)
        return tried.rounds * min(MOST_TIMES, math.ceil(2 * 1024 * standalone.GROWN_KB / grown))
    return 2 * tried.rounds if harm == Harm.SLOW else tried.rounds


def fails_on(node: str, harm: str, tried: Tried, user: Credentials | None = None) -> bool | None:
    """Does what the test does, on nodes that are started for it.

    Args:
        node: As for ``--node``.
        harm: The class.
        tried: As for ``test_of``.
        user: Who we are, to a node that asks for it.

    Returns:
        Whether it fails there; None when it cannot be run.
    """
    config, needs, late = _surroundings(tried)
    try:
        standalone.check(node, config, needs, harm, flat(tried), _rounds(harm, tried), late, user)
    except AssertionError:
        return True
    except (unittest.SkipTest, HarnessError, NotApplicable, SessionError, OSError):
        return None
    return False


def _source() -> str:
    """Returns the code of ``standalone`` without its docstring."""
    # Not by ``ast``, which two threads cannot use at a time in some versions of Python.
    text = Path(standalone.__file__).read_text(encoding="utf-8")
    _, _, code = text.removeprefix('"""').partition('"""')
    return code.strip()
