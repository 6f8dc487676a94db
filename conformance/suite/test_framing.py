"""What stands in which unit: lengths in front of batches, messages that do not share one."""

from __future__ import annotations

from conformance.expect import check
from conformance.plugin import req, transports
from conformance.suite.common import frame, listed, pair
from conformance.tester import Tester
from scapy_layers.extensions import QoS
from scapy_layers.network import Push
from scapy_layers.transport import Init


@req("ZN-BAT-104")
@transports("tcp", "tls", "unixsock-stream")
def test_batch_without_a_length_is_not_understood(tester: Tester) -> None:
    bare, link = tester.link(), tester.link()
    raw = link.showing(bytes(tester.init()))
    bare.send_raw(raw)
    link.send_raw(len(raw).to_bytes(2, "little") + raw)
    link.expect(Init, A=1)
    # The node may wait for the rest of a long batch; a fence on that link is not possible.
    answered = [str(seen.message.name) for seen in bare.inbox if isinstance(seen.message, Init)]
    check(not answered, "no InitAck for a batch without a length", listed(answered))


@req("ZN-NET-008")
def test_express_publications_leave_in_units_of_their_own(tester: Tester) -> None:
    both = pair(tester)
    keys = [f"{number}" for number in range(4)]
    both.pub.send(frame(both.pub, *(both.push(key, extensions=[QoS(E=1)]) for key in keys)))
    both.expect(*(f"PUT {key}=1" for key in keys))
    units = [seen.at for seen in both.sub.inbox if isinstance(seen.message, Push)]
    shared = len(units) - len(set(units))
    check(not shared, "a unit for each express publication", "units that hold several")
