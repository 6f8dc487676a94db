"""A node against a model of a router: whatever happens in whatever order, both agree.

The steps are drawn by chance, and a sequence after which node and model differ is made shorter. The shortest one is
what the capture of the test shows; as a script it stands in the run folder, to be played again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

from conformance.config import RunConfig
from conformance.errors import NoRoom, Unmet
from conformance.plugin import req
from conformance.suite.model import KINDS
from conformance.suite.sessions import MOST_SESSIONS, Sessions
from conformance.tester import Tester
from scapy_layers.codes import QueryTarget, Resolution

SEQUENCES = 100
"""Most sequences of steps that are tried."""

MOST_SECONDS = 120.0
"""After which no more sequence is begun: each takes a tenth of a second here, and more where the node is far away."""

STEPS = 40
"""Steps of a sequence, with those that have no meaning where they stand."""

TRIES = 300
"""Sequences that are tried to make one shorter."""

CONCRETE = ["a", "b", "a/a", "a/b", "b/a", "b/b"]

KEYS = [*CONCRETE, "*", "**", "a/*", "a/**", "*/a", "**/a", "*/*", "a$*", "a$*/**", "*/**"]

WHO = list(range(MOST_SESSIONS))

WHICH = list(range(4))

HOW = [None, 0, 1]
"""Whether a key is said by an alias, and by which of those that fit."""

ARGUMENTS: dict[str, dict[str, list[Any]]] = {
    "join": {
        "offer": [
            {},
            {"qos": True, "patch": 1},
            {"batch_size": 300, "patch": 1},
            {"fsn": Resolution.BITS_8},
        ],
        "back": [False, True],
    },
    "go": {"who": WHO, "how": ["close", "abort"]},
    "declare": {"who": WHO, "kind": [*KINDS], "key": KEYS, "how": HOW, "complete": [False, True]},
    "take_back": {"who": WHO, "which": WHICH},
    "name_key": {"who": WHO, "key": KEYS},
    "take_name_back": {"who": WHO, "which": WHICH},
    "ask_to_be_told": {
        "who": WHO,
        "kinds": [KINDS, *((kind,) for kind in KINDS), *combinations(KINDS, 2)],
        "key": ["**", *KEYS],
        "how": HOW,
    },
    "ask_no_more": {"who": WHO, "which": WHICH},
    "publish": {
        "who": WHO,
        "key": CONCRETE,
        "how": HOW,
        "what": ["PUT", "DEL", "big PUT"],
        "reliable": [True, False],
    },
    "query": {
        "who": WHO,
        "key": CONCRETE,
        "how": HOW,
        "whom": [QueryTarget.ALL, QueryTarget.ALL_COMPLETE, QueryTarget.BEST_MATCHING],
        "lost": [*["nobody"] * 6, "one that is asked", "who asks"],
    },
}
"""The steps, and what their arguments may be, simplest first."""

OFTEN = {"join": 4, "declare": 8, "take_back": 2, "ask_to_be_told": 3, "publish": 4, "query": 4}
"""How often a step is drawn, where it is not once: only what others have declared leads somewhere."""

Steps = list[tuple[str, dict[str, Any]]]


@pytest.mark.slow
@req("ZN-RTE-025")
def test_node_agrees_with_the_model_after_any_sequence_of_steps(
    tester: Tester, run_config: RunConfig
) -> None:
    dice = random.Random(run_config.seed)

    def differ(steps: Steps) -> Unmet | None:
        try:
            Sessions(tester).run(steps)
        except NoRoom:
            raise
        except Unmet as error:
            return error
        return None

    end = time.monotonic() + MOST_SECONDS
    for _ in range(SEQUENCES):
        if time.monotonic() > end:
            break
        steps = drawn(dice)
        first = differ(steps)
        if first is None:
            continue
        if differ(steps) is None:
            seen = "a difference that was not there when the same steps were done again"
            raise Unmet("node and model agree", seen, str(first))
        last = differ(shortened(steps, lambda shorter: differ(shorter) is not None)) or first
        raise Unmet(last.expected, last.seen, f"shortest sequence: {keep(tester, run_config)}")


def drawn(dice: random.Random) -> Steps:
    """Returns steps by chance.

    Hypothesis plays variations of few sequences instead: of 25 publications one reaches somebody, and no query does.
    """
    names = [*ARGUMENTS]
    often = [OFTEN.get(name, 1) for name in names]
    return [
        (name, {argument: dice.choice(values) for argument, values in ARGUMENTS[name].items()})
        for name in ["join"] * 3 + dice.choices(names, often, k=STEPS - 3)
    ]


def shortened(steps: Steps, differs: Callable[[Steps], bool]) -> Steps:
    """Returns fewer and simpler steps after which node and model differ still.

    Args:
        steps: Steps after which they differ.
        differs: Tells whether they do after other steps; it is asked at most TRIES times.
    """
    left = TRIES

    def still(other: Steps) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and differs(other)

    size = len(steps)
    while size := size // 2:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size :]
            if still(fewer):
                steps = fewer
            else:
                at += size
    for at, (name, arguments) in enumerate(steps):
        for argument, value in arguments.items():
            values = ARGUMENTS[name][argument]
            for other in values[: values.index(value)]:
                changed = {**steps[at][1], argument: other}
                if still([*steps[:at], (name, changed), *steps[at + 1 :]]):
                    steps = [*steps[:at], (name, changed), *steps[at + 1 :]]
                    break
    return steps


def keep(tester: Tester, run_config: RunConfig) -> str:
    """Writes the last sequence as a script into the run folder and returns where."""
    assert tester.journal is not None
    path = run_config.run_dir / "scripts" / "test_model.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tester.journal.script("a sequence after which node and model differ").to_json())
    return str(path)
