"""What a trace holds as a history."""

from __future__ import annotations

import pytest

from conformance.observe import Direction, Endpoints
from fuzz.player.history import DECODED, history_of
from fuzz.player.trace import Event

ENDS = Endpoints(("127.0.0.1", 40_000), ("127.0.0.1", 7447))
KEEP_ALIVE = b"\x04"


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (KEEP_ALIVE, "KEEP_ALIVE"),
        (KEEP_ALIVE * (DECODED + 1), f"{DECODED + 3} bytes, not taken apart"),
        (b"\x09", "1 bytes that are no message"),
    ],
)
def test_long_batches_are_said_not_to_be_taken_apart(batch: bytes, words: str) -> None:
    event = Event(1, 0, Direction.SENT, len(batch).to_bytes(2, "little") + batch)
    (seen,) = history_of([event], {0: ENDS}).observations
    assert seen.describe() == words


def test_bytes_that_are_no_batch_are_no_message() -> None:
    (seen,) = history_of([Event(1, 0, Direction.SENT, b"\x09")], {0: ENDS}).observations
    assert seen.describe() == "1 bytes that are no message"
