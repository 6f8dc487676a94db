"""What two ends agree on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.errors import RemoteError
from conformance.session.negotiate import Offer, agreed, offer_of
from conformance.session.policy import SMALLEST_BATCH
from scapy_layers.extensions import Patch, QoSOffer
from scapy_layers.transport import Init

offers = st.builds(
    Offer,
    fsn=st.integers(0, 3),
    rid=st.integers(0, 3),
    batch_size=st.integers(SMALLEST_BATCH, 65_535),
    qos=st.booleans(),
    patch=st.integers(0, 3),
)


def test_init_without_s_offers_the_defaults() -> None:
    assert offer_of(Init()) == Offer()


def test_offer_is_read_from_fields_and_extensions() -> None:
    init = Init(fsn=0, rid=1, batch_size=2048, extensions=[QoSOffer(), Patch(patch=1)])
    assert offer_of(init) == Offer(fsn=0, rid=1, batch_size=2048, qos=True, patch=1)


@given(offers, offers)
def test_agreement_is_never_more_than_either_side(ours: Offer, answer: Offer) -> None:
    raised = answer.fsn > ours.fsn or answer.rid > ours.rid or answer.patch > ours.patch
    if raised:
        with pytest.raises(RemoteError):
            agreed(ours, answer)
        return
    both = agreed(ours, answer)
    assert (both.fsn, both.rid) == (answer.fsn, answer.rid)
    assert both.batch_size == min(ours.batch_size, answer.batch_size)
    assert both.qos == (ours.qos and answer.qos)
    assert both.patch == answer.patch
