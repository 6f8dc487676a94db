"""Sessions with compression: each batch behind OPEN begins with a header that says whether LZ4 follows (reading R-65)."""

from __future__ import annotations

from collections.abc import Callable

import lz4.block
import pytest

from conformance.errors import NotApplicable
from conformance.expect import check
from conformance.nodes import Node
from conformance.observe import Direction
from conformance.plugin import req
from conformance.suite.common import Pair, frame, listed, pair, undropped
from conformance.tester import SessionEnd, Tester
from scapy_layers.data import Put
from scapy_layers.transport import KeepAlive

LEASE = 0.4
"""Seconds; the node renews each quarter of it."""

STORED, BLOCK = b"\x00", b"\x01"
"""Headers of batches."""


@pytest.fixture
def compressing(tester: Tester, tester_of: Callable[..., Tester], node: Node) -> Callable[..., Tester]:
    """Gives a tester of a node that takes part in compression, with a configuration of its own where it is ours."""

    def make(**config: object) -> Tester:
        if not node.configured and not config:
            return tester
        return tester_of(transport__unicast__compression__enabled=True, **config)

    return make


def compressed(end: SessionEnd) -> SessionEnd:
    """Returns a session in which compression was agreed on.

    Raises:
        NotApplicable: The node did not agree.
    """
    if not end.session.agreed.compression:
        raise NotApplicable("the node takes no part in compression")
    return end


def block(raw: bytes) -> bytes:
    """Returns a batch with an LZ4 block, also where that is longer."""
    small: bytes = lz4.block.compress(raw, store_size=False)
    return BLOCK + small


def check_values(both: Pair, values: dict[str, bytes]) -> None:
    """Judges that the subscriber gets values as they were published."""
    came = {
        both.words(push).split("=")[0].removeprefix("PUT "): bytes(push.body.data)
        for push in both.delivered()
        if isinstance(push.body, Put)
    }
    lost = [name for name, value in values.items() if came.get(name) != value]
    check(not lost, f"{listed(list(values))} as published", f"not {listed(lost)}")


@req("ZN-INIT-039")
@pytest.mark.parametrize("who", ["both", "publisher", "subscriber"])
def test_values_of_any_kind_cross_compressed_sessions(compressing: Callable[..., Tester], who: str) -> None:
    tester = compressing()
    both = pair(
        tester,
        subscriber={"compression": who != "publisher"},
        compression=who != "subscriber",
    )
    compressed(both.pub if who == "publisher" else both.sub)
    values = {
        "short": b"1",
        "repeated": b"ab" * 10_000,
        "random": tester.rng.randbytes(20_000),
        "repeated-long": b"ab" * 100_000,
        "random-long": tester.rng.randbytes(200_000),
    }
    both.pub.post(*(both.push(name, body=Put(data=value)) for name, value in values.items()))
    check_values(both, values)


@req("ZN-INIT-039")
def test_each_batch_of_a_compressed_session_has_a_header(compressing: Callable[..., Tester]) -> None:
    tester = compressing(transport__link__tx__lease=round(LEASE * 1000))
    both = pair(tester, subscriber={"compression": True, "lease": 60.0})
    sub = compressed(both.sub)
    both.pub.post(both.push("repeated", body=Put(data=b"ab" * 10_000)))
    both.delivered()
    # A renewal is a batch like any other.
    sub.expect(KeepAlive)
    # The handshake travels as it is; in a WebSocket there is more than batches.
    came = [seen for seen in tester.history.observations if seen.link == sub.name]
    said = [
        seen.batch
        for seen in came
        if seen.direction is Direction.RECEIVED and seen.batch and seen.plain != seen.batch
    ]
    odd = sorted({f"0x{batch[0]:02x}" for batch in said if batch[:1] not in {STORED, BLOCK}})
    check(not odd, "headers 0x00 and 0x01", listed(odd))


@req("ZN-INIT-039")
def test_node_takes_both_kinds_of_batches(compressing: Callable[..., Tester]) -> None:
    both = pair(compressing(), compression=True)
    end = compressed(both.pub)
    values = {"stored": b"ab" * 10_000, "longer-as-a-block": b"1", "block": b"ab" * 10_000}
    for name, value in values.items():
        raw = bytes(frame(end, both.push(name, body=Put(data=value))))
        end.send(STORED + raw if name == "stored" else block(raw))
    check_values(both, values)


@req("ZN-INIT-039")
def test_bare_batches_are_not_taken_for_compressed_ones(compressing: Callable[..., Tester]) -> None:
    """A FRAME without a header is a batch whose header is odd, so that a block should follow."""
    both = pair(compressing(), compression=True)
    end = compressed(both.pub)
    end.send(frame(end, undropped(key_suffix=both.at("bare"))))
    came = both.delivered()
    check(not came, "nothing of a batch without a header", listed([both.words(push) for push in came]))
