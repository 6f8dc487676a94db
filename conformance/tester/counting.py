"""How far a node counts sequence numbers (reading R-42)."""

from __future__ import annotations

from conformance.errors import Unmet
from conformance.session.sequence import WRITTEN_BITS, mask
from conformance.tester.tester import Tester


def largest_number(tester: Tester, code: int) -> int:
    """Returns the number of ours behind which 0 has to come, as the node counts at a resolution.

    The range on the page ends later than that which nodes use: whoever hears a number from between counts as the
    page does, and everybody else ends the session or hears nothing of it.
    """
    end = tester.session(fsn=code, initial_sn=mask(code))
    end.session.policy.following_sn = lambda sn, resolution: sn + 1  # type: ignore[method-assign]  # noqa: ARG005
    end.fence()
    try:
        end.fence()
    except Unmet:
        return mask(code)
    return (1 << WRITTEN_BITS[code]) - 1
