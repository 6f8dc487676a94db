"""What our own Python takes for a case: ``python tests/benchmarks/bench_fuzz_cpu.py``.

The fast engine plays a campaign against a node that is a few lines in this process: it takes INIT and OPEN, answers each
fence, and ends the session of so many cases in a hundred. No system call is made for a link, nothing waits, and so the
processor time of each part can be told apart on a busy machine too: the least of several rounds is shown.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from conformance.config import RunConfig
from conformance.observe import Endpoints
from fuzz.campaigns import CAMPAIGNS
from fuzz.campaigns.base import Setting
from fuzz.coverage import Coverage
from fuzz.fast import Fast, Ran
from fuzz.plan import Numbered, Plan
from fuzz.player import Answers, Door, Player, Trace
from fuzz.player.answers import FENCE_ID
from fuzz.player.player import FENCE_KEY
from fuzz.recorder import Recorder
from fuzz.states import State
from scapy_layers.batch import prefixed
from scapy_layers.network import ResponseFinal
from scapy_layers.transport import Frame, Init, Open

INIT_ACK = prefixed(bytes(Init(A=1, zid=bytes(range(1, 17)), cookie=b"c" * 48)))
OPEN_ACK = prefixed(bytes(Open(A=1, lease=10, T=1, initial_sn=77)))
FINAL = prefixed(bytes(Frame(R=1, sn=1 << 20, messages=[ResponseFinal(request_id=FENCE_ID)])))
FENCE = FENCE_KEY.encode()
ENDS = Endpoints(("127.0.0.1", 1), ("127.0.0.1", 2))


class Sock:
    """A link to the node in these lines.

    Args:
        always: Something that can always be read.
        refuses: Tells of what is sent in a session whether it ends it.
    """

    type = 1

    def __init__(self, always: int, refuses: Callable[[], bool]) -> None:
        self._always = always
        self._refuses = refuses
        self._there: list[bytes] = []
        self._session = False

    def fileno(self) -> int:
        return self._always

    def setblocking(self, flag: bool) -> None:
        """Nothing waits here."""

    def send(self, data: bytes, flags: int = 0) -> int:  # noqa: ARG002
        if self._session:
            if FENCE in bytes(data):
                self._there.append(b"" if self._refuses() else FINAL)
        elif data[2] & 0x1F == 1:
            self._there.append(INIT_ACK)
        else:
            self._session = True
            self._there.append(OPEN_ACK)
        return len(data)

    def recv(self, size: int, flags: int = 0) -> bytes:  # noqa: ARG002
        if not self._there:
            raise BlockingIOError
        return self._there.pop(0)

    def shutdown(self, how: int) -> None:
        """Nobody is told."""

    def close(self) -> None:
        """Nothing is held."""


class Here(Door):
    """Where links to it come from."""

    def __init__(self, always: int, refuses: Callable[[], bool]) -> None:
        self._always, self._refuses = always, refuses

    def open(self) -> tuple[Any, Endpoints]:
        return Sock(self._always, self._refuses), ENDS


class Clerk:
    """Counts and writes each case, as the runner does, and adds up how long that takes."""

    def __init__(self, coverage: Coverage, recorder: Recorder) -> None:
        self.coverage, self.recorder = coverage, recorder
        self.counting = self.writing = 0.0

    def ended(self, ran: Ran) -> bool:
        """See fast.Judge."""
        began = time.thread_time()
        name, case, played = ran.numbered.campaign.name, ran.numbered.case, ran.played
        self.coverage.add(name, case, played, str(played.ending))
        between = time.thread_time()
        self.recorder.case(
            ran.numbered.number,
            name,
            case,
            played,
            str(played.ending),
            instance=1,
            engine="fast",
            duration_s=0.001,
            time_ns=ran.started_ns,
            position=ran.position,
            session=ran.lane,
        )
        self.counting += between - began
        self.writing += time.thread_time() - between
        return True

    def idle(self) -> bool:
        """See fast.Judge."""
        return True

    def failed(self) -> bool:
        return False

    def rests(self) -> bool:
        """See fast.Judge."""
        return False


def once(campaign: str, cases: int, refused: int, folder: Path) -> dict[str, float]:
    """Returns processor time in microseconds a case, by part."""
    plan = Plan(CAMPAIGNS[campaign], Setting(1))
    shared = (one for one in plan.cases() if one.case.state is State.OPEN)
    list(islice(shared, cases // 2))  # forms are read when they are first met
    began = time.thread_time()
    due: list[Numbered] = list(islice(shared, cases))
    planned = time.thread_time()
    for one in due:
        _ = one.case.steps
    rendered = time.thread_time()
    rng = random.Random(1)
    always = os.eventfd(1)
    folder.mkdir()
    with Recorder(RunConfig(node="none", run_dir=folder, run_id="bench", seed=1)) as recorder:
        clerk = Clerk(Coverage(plan.sources), recorder)
        trace, answers = Trace(), Answers()

        def player() -> Player:
            return Player(
                Here(always, lambda: rng.randrange(100) < refused), 1.0, trace=trace, answers=answers
            )

        engine = Fast(player, clerk)
        start = time.thread_time()
        engine.play(iter(due))
        end = time.thread_time()
        engine.abandon()
    os.close(always)
    parts = {
        "plan": planned - began,
        "steps": rendered - planned,
        "coverage": clerk.counting,
        "row": clerk.writing,
    }
    parts["engine, player, answers"] = end - start - sum(list(parts.values())[1:])
    return {name: seconds / cases * 1e6 for name, seconds in parts.items()}


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--campaign", default="session")
    parser.add_argument("--cases", type=int, default=6000)
    parser.add_argument("--refused", type=int, default=50, help="of a hundred cases: end their session")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        rounds = [
            once(options.campaign, options.cases, options.refused, Path(temporary) / str(number))
            for number in range(options.rounds)
        ]
    least = {name: min(one[name] for one in rounds) for name in rounds[0]}
    print(
        f"{options.cases} cases of {options.campaign} in open, {options.refused} of 100 end their session, "
        f"least of {options.rounds} rounds"
    )
    for name, micros in least.items():
        print(f"  {name:24} {micros:7.1f} us")
    print(f"  {'together':24} {sum(least.values()):7.1f} us")


if __name__ == "__main__":
    main()
