"""What tests of the suite share, where no node would show that it is wrong."""

import types
from typing import cast

from conformance.observe import Direction, Observation
from conformance.suite.common import lifetime
from conformance.tester.ends import End
from conformance.tester.tester import Tester


def test_life_of_a_link_is_counted_from_the_last_batch_and_not_from_what_a_websocket_answers() -> None:
    def seen(ms: int, direction: Direction, batch: bytes = b"") -> Observation:
        return Observation(0, ms * 1_000_000, "a", direction, batch or b"\x88\x80", batch)

    observations = [
        seen(0, Direction.SENT, b"\x04"),
        # WebSocket: the node says it closes, we answer in kind, the link ends.
        seen(700, Direction.SENT),
        seen(701, Direction.ENDED),
    ]
    link = types.SimpleNamespace(name="a", ended="end of stream")
    end = types.SimpleNamespace(link=link, inbox=[], wait=lambda *_: True)
    tester = types.SimpleNamespace(history=types.SimpleNamespace(observations=observations))
    assert lifetime(cast("Tester", tester), cast("End", end), within=1) == 0.701
