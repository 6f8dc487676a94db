"""Messages read without Scapy say what the layers say."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np

from scapy_layers import stream
from scapy_layers.catalogue import shapes
from scapy_layers.conversation.batches import messages
from scapy_layers.derive.columns import Units
from scapy_layers.scan.plain import Language

PCAPS = Path(__file__).parents[3] / "pcaps"
LANGUAGE: Language = pickle.loads(pickle.dumps(Language(shapes())))


def batches() -> list[bytes]:
    found: set[bytes] = set()
    for path in sorted(PCAPS.glob("*.pcapng"))[::2]:
        units = stream.units_of(path)
        found |= {unit.data[:1000] for unit in units if isinstance(unit, stream.Batch | stream.Datagram)}
    return sorted(found - {b""})[::3]


def by_layers(raw: bytes) -> list[Any]:
    found: list[Any] = []
    for message, errors in messages(raw):
        if type(message).__name__ == "Unread":
            found.append(("UNREAD", bool(errors)))
            continue
        values = {name: value for name, value in message.fields.items() if isinstance(value, int | bytes)}
        extensions = [str(one.name) for one in message.fields.get("extensions", ())]
        stopped = bool(message.errors) and message.stopped
        found.append((str(message.name), bool(message.errors), bool(errors), stopped, values, extensions))
    return found


def plainly(raw: bytes) -> list[Any]:
    found: list[Any] = []
    for message in LANGUAGE.messages(raw):
        if message.name == "UNREAD":
            found.append(("UNREAD", message.refused > 0))
            continue
        values = {name: value for name, value in message.fields.items() if isinstance(value, int | bytes)}
        extensions = [one.name or "unknown extension" for one in message.fields.get("extensions", ())]
        stopped = message.refused > 0 and message.stopped
        found.append((message.name, message.refused > 0, message.own > 0, stopped, values, extensions))
    return found


def test_batches_of_real_nodes_whole_and_spoiled_read_the_same() -> None:
    rng = random.Random(1)
    for raw in batches():
        assert plainly(raw) == by_layers(raw)
        for _ in range(2):
            spoiled = bytearray(raw)
            for _ in range(rng.choice([1, 1, 3])):
                spoiled[rng.randrange(min(len(spoiled), 60))] = rng.choice(
                    [0, 0xFF, 0x80, rng.randrange(256)]
                )
            given = bytes(spoiled[: rng.randrange(len(spoiled) + 1)] if rng.random() < 0.3 else spoiled)
            assert plainly(given) == by_layers(given), given.hex()


def test_what_is_refused_is_refused_by_the_columns_as_well() -> None:
    rng = random.Random(2)
    given = [bytes(b ^ (rng.random() < 0.01) for b in raw) for raw in batches()[:300]]
    ends = np.cumsum([len(raw) for raw in given])
    starts = ends - [len(raw) for raw in given]
    data = np.frombuffer(b"".join(given), np.uint8)
    refused = LANGUAGE.refused(Units(data, starts, ends, np.zeros(len(given), np.uint8)))
    expected = [any(message.refused for message in LANGUAGE.messages(raw)) for raw in given]
    assert refused.tolist() == np.flatnonzero(expected).tolist()
    assert 10 < len(refused) < 290
