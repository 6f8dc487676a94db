"""Scripts that were damaged: refused with one clear error, or played without harm to the tester."""

from __future__ import annotations

import copy
import dataclasses
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from conformance.nodes.places import free_port
from conformance.tester import Script, play, steps
from conformance.tester.steps import Step
from conformance.tester.values import ScriptError
from tests.conformance.tester._pairs import lone_tester
from tests.conformance.tester.test_play import opened, put
from tests.conformance.tester.test_script import EVERY

ODD: list[Any] = [
    None, True, -1, 0, 1.5, 1e400, 2**70, "", "x", "ä\x00", [], [1], {}, {"hex": "0"}, {"live": "sn"},
    {"live": "cookie"}, {"layer": "Put", "fields": {}}, {"layer": "Init"}, "Push", "KeepAlive", "Region",
]  # fmt: skip


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the paths of everything inside JSON."""
    if isinstance(node, dict | list):
        for key in node if isinstance(node, dict) else range(len(node)):
            yield (*path, key)
            yield from places(node[key], (*path, key))


def damaged(whole: Any, rng: random.Random) -> Any:
    """Returns JSON with something taken out, put in, exchanged, or called otherwise."""
    out = copy.deepcopy(whole)
    for _ in range(rng.choice((1, 1, 2, 4))):
        *outer, last = rng.choice(list(places(out)))
        parent = out
        for key in outer:
            parent = parent[key]
        match rng.randrange(4):
            case 0:
                del parent[last]
            case 1 if isinstance(parent, dict):
                parent[rng.choice(["x", "link", "within", "fields", "hex", "step"])] = parent.pop(last)
            case _:
                parent[last] = copy.deepcopy(rng.choice(ODD))
    return out


@pytest.mark.parametrize("seed", range(4))
def test_damaged_script_is_refused_with_a_script_error_or_is_one(seed: int) -> None:
    rng = random.Random(seed)
    whole = json.loads(EVERY.to_json())
    refused = 0
    for _ in range(60):
        text = json.dumps(damaged(whole, rng))
        try:
            script = Script.from_json(text)
        except ScriptError:
            refused += 1
        else:
            assert Script.from_json(script.to_json()) == script
    assert 20 < refused < 60


@pytest.mark.parametrize("seed", range(20))
def test_steps_in_any_order_are_played_leniently_without_harm(seed: int) -> None:
    rng = random.Random(seed)
    port = free_port("tcp")
    start = opened(port=port).steps
    # Links of the script have the names that the steps of the other script use.
    named = {"a": "a", "b": "b", "c": "a", "d": "in", "e": "b", "f": "a", "g": "b", "h": "in"}
    pool: list[Step] = []
    for step in EVERY.steps:
        judged = seed % 2 and type(step).__name__.startswith("Expect")
        if not judged and not isinstance(step, (steps.Advance, *steps.MAKES)):
            name = getattr(step, "link", "")
            pool.append(dataclasses.replace(step, link=named[name]) if name else step)  # type: ignore[call-arg]
    pool += [
        steps.Post(link="a", messages=(put("t"),)),
        steps.Session(link="z", locator=f"tcp/127.0.0.1:{port}"),
    ]
    chosen = (*start, *(rng.choice(pool) for _ in range(25)))
    with lone_tester(reply=0.02) as tester:
        played = play(tester, Script(steps=chosen, seed=seed), lenient=True)
        assert played.done + len(played.skipped) > 0
        end = tester.link(tester.listen().locator)
        end.close()
