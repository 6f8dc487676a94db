"""Tasks: they wait for what they say, unless that is in vain."""

import time

import pytest

from fuzz.player.tasks import LOOK, SOON, GivenUp, Task, Wait, run


class Silent:
    """Nothing ever comes.

    Attributes:
        ended: How it ended.
        asked: How long was waited for it.
    """

    def __init__(self, ended: str = "") -> None:
        self.ended = ended
        self.asked: list[float] = []

    def fileno(self) -> int:
        return -1

    def wait(self, seconds: float) -> bool:
        self.asked.append(seconds)
        return False


def waiting(pipe: Silent, seconds: float) -> Task[str]:
    deadline = time.perf_counter() + seconds
    try:
        yield Wait(pipe, deadline)
    except GivenUp as error:
        return str(error)
    return "waited"


def test_a_task_waits_once_when_nothing_can_make_it_hopeless() -> None:
    pipe = Silent()
    assert run(waiting(pipe, 100)) == "waited"
    assert len(pipe.asked) == 1
    assert pipe.asked[0] > 99


def test_what_is_waited_for_in_vain_is_given_up() -> None:
    pipe = Silent()
    assert run(waiting(pipe, 100), lambda: len(pipe.asked) == 3) == "the node failed in the meantime"
    assert pipe.asked == [SOON, 2 * SOON, 4 * SOON]


def test_what_takes_long_is_looked_at_seldom() -> None:
    pipe = Silent()
    assert run(waiting(pipe, 100), lambda: len(pipe.asked) == 9) == "the node failed in the meantime"
    assert pipe.asked[-2:] == [LOOK, LOOK]


def test_a_task_that_is_not_hopeless_waits_to_its_deadline() -> None:
    pipe = Silent()
    assert run(waiting(pipe, 0.01), lambda: False) == "waited"
    assert run(waiting(Silent("EOF"), 100), lambda: False) == "waited"


def test_a_task_is_told_for_how_long_nothing_came(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("fuzz.player.tasks.time.perf_counter", lambda: now[0])

    class Slow(Silent):
        def wait(self, seconds: float) -> bool:
            now[0] += min(seconds, 0.3)
            return super().wait(seconds)

    def timed(pipe: Silent) -> Task[list[float]]:
        quiet = []
        for seconds in (0.25, 0.1):
            quiet.append((yield Wait(pipe, now[0] + seconds)))
            # What we do ourselves is not counted.
            now[0] += 5
        return quiet

    assert run(timed(Slow())) == pytest.approx([0.25, 0.1])
    assert run(timed(Slow()), lambda: False) == pytest.approx([0.25, 0.1])


def test_a_machine_that_stands_still_is_not_the_nodes_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("fuzz.player.tasks.time.perf_counter", lambda: now[0])

    class Frozen(Silent):
        def wait(self, seconds: float) -> bool:
            now[0] += 5
            super().wait(seconds)
            return True

    def timed(pipe: Silent) -> Task[float]:
        return (yield Wait(pipe, now[0] + 1))

    assert run(timed(Frozen()), lambda: False) == SOON
    assert run(timed(Frozen())) == 1


def test_what_gives_up_may_go_on_with_something_else() -> None:
    def twice(pipe: Silent) -> Task[int]:
        for _ in range(2):
            with pytest.raises(GivenUp):
                yield Wait(pipe, time.perf_counter() + 100)
        return len(pipe.asked)

    assert run(twice(Silent()), lambda: True) == 2
