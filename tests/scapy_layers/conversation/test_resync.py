"""After a loss: bytes of payloads that look like batches are not taken for some."""

from __future__ import annotations

from scapy_layers.conversation import Heard, is_batch, listen
from scapy_layers.network import Push
from tests.scapy_layers.packets import Talk, prefixed, put

DECOY = b"\x25\x07\x3d\x00\x02\xff\xff\x01\x03abc"
"""A FRAME by its first bytes; its key is no text."""


def test_payload_that_looks_like_batches_is_passed_over_after_a_loss() -> None:
    talk = Talk().open()
    talk.say(prefixed(put(500)))
    talk.say(prefixed(put(501, b"".join(prefixed(DECOY) for _ in range(9)))))
    lost = talk.segments.pop()
    talk.add(lost.data[16:], lost.seq + 16)
    talk.say(prefixed(put(502)))
    pushed = [
        one for one in listen(talk.segments) if isinstance(one, Heard) and isinstance(one.message, Push)
    ]
    assert [(one.keyexpr, one.remarks) for one in pushed] == [("a/bc", []), ("a/bc", [])]


def test_batches_are_what_strict_decoding_takes_compressed_or_not() -> None:
    assert is_batch(put(500))
    assert is_batch(b"\0" + put(500))
    assert is_batch(b"\x01\x40\x25\x01\x1a\x07")
    assert not is_batch(DECOY)
    assert not is_batch(b"\0" + DECOY)
    assert not is_batch(put(500)[:-1])
    assert not is_batch(b"")
