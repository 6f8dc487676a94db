"""Two session machines joined in memory: ``python tests/benchmarks/bench_session.py``.

No sockets and no clock. Ratios are to coding the same messages alone, with layers of Scapy, in the same run.
A relayed message is sent by one end, taken by the other and sent on as it came.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from conformance.session.events import Received
from scapy_layers.batch import contents
from scapy_layers.catalogue import decode_batch
from scapy_layers.data import Put
from scapy_layers.network import Push
from tests.benchmarks._common import best, table
from tests.conformance.session.pair import pair

HANDSHAKES = 500
MESSAGES = 2000
TOGETHER = 50
"""Messages that are queued before what is queued leaves."""


def handshakes(**offer: bool | int) -> None:
    """Opens sessions one after another."""
    for seed in range(HANDSHAKES):
        assert pair({"seed": seed}, {"seed": seed + 1}, **offer).open


def coded(batches: list[bytes]) -> None:
    """Decodes the batches of a handshake and builds them again, as often as there are handshakes."""
    for _ in range(HANDSHAKES):
        for batch in batches:
            (message,) = contents(batch).messages
            assert bytes(message) == batch


def relayed(together: int, size: int) -> None:
    """Sends messages, takes them, sends them on."""
    joined = pair({"batching": True}, {"batching": True}, patch=1)
    one, two = joined.connecting, joined.accepting
    message = Push(key_suffix="demo/example/a", body=Put(data=bytes(size)))
    came = 0
    while came < MESSAGES:
        for _ in range(together):
            one.send(message)
        for batch in one.batches_to_send(0.0):
            for event in two.receive(batch, 0.0):
                assert isinstance(event, Received)
                two.send(event.message)
                came += 1
        two.batches_to_send(0.0)


def taken(batch: bytes) -> None:
    """Decodes the messages alone."""
    for _ in range(MESSAGES):
        decode_batch(batch)


if __name__ == "__main__":
    travelled = [batch for _, batch in pair(qos=True, patch=1).travelled]
    rates = [
        best("decode and build the four", HANDSHAKES, partial(coded, travelled)),
        best("handshake", HANDSHAKES, handshakes),
        best("handshake with QoS and patch", HANDSHAKES, partial(handshakes, qos=True, patch=1)),
        best("with compression too", HANDSHAKES, partial(handshakes, qos=True, patch=1, compression=True)),
    ]
    print(table("sessions opened in memory", rates, against=rates[0].name))
    for size in (8, 1000):
        joined = pair()
        joined.connecting.send(Push(key_suffix="demo/example/a", body=Put(data=bytes(size))))
        (batch,) = joined.connecting.batches_to_send(0.0)
        rates = [
            best("decode one", MESSAGES, partial(taken, batch)),
            best("send, take, send on, one by one", MESSAGES, partial(relayed, 1, size)),
            best(f"the same, {TOGETHER} together", MESSAGES, partial(relayed, TOGETHER, size)),
        ]
        print(table(f"messages of {size} bytes of payload", rates, against=rates[0].name))
