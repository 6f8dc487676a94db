"""What an InitAck without S means."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.session.policy import Policy
from scapy_layers.codes import Resolution
from tests.conformance.session.pair import ACCEPTING, CONNECTING, Pair, end


class SaysNoSizes(Policy):
    """Accepts the proposal without repeating it."""

    def writes_sizes(self, sizes: Any, defaults: Any) -> bool:
        del sizes, defaults
        return False


@pytest.mark.parametrize(
    "offer", [{}, {"batch_size": 1000}, {"fsn": Resolution.BITS_16}, {"rid": Resolution.BITS_8}], ids=str
)
def test_init_ack_without_s_accepts_the_proposal_as_it_was(offer: dict[str, Any]) -> None:
    connecting = end(CONNECTING, seed=1, offer=offer)
    joined = Pair(connecting, end(ACCEPTING, seed=2, policy=SaysNoSizes())).start()
    assert joined.open
    assert connecting.agreed.sizes == connecting.config.offer.sizes
    assert joined.accepting.agreed.sizes == connecting.agreed.sizes


def test_init_ack_says_sizes_that_are_not_the_proposed_ones_even_when_they_are_the_defaults() -> None:
    joined = Pair(end(CONNECTING, seed=1, offer={"fsn": Resolution.BITS_64}), end(ACCEPTING, seed=2)).start()
    assert joined.open
    assert joined.connecting.agreed.fsn == joined.accepting.agreed.fsn == Resolution.BITS_32
