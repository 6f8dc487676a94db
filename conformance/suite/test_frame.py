"""FRAME: sequence numbers, channels, lanes, messages back to back."""

from __future__ import annotations

from itertools import pairwise

import pytest

from conformance.errors import NotApplicable
from conformance.expect import check
from conformance.plugin import req
from conformance.session.sequence import WRITTEN_BITS, mask
from conformance.suite.common import bits, carriers, count_up_to, frame, listed, pair, unknown
from conformance.tester import SessionEnd, Tester, largest_number
from scapy_layers.codes import Enc, Priority, Resolution
from scapy_layers.extensions import Lane, QoS
from scapy_layers.network import Push
from scapy_layers.transport import Frame

ROUNDS = 300
"""FRAMEs of the node that are looked at: more than numbers of 8 bit."""


FAR = 1000
"""Numbers between those of two channels: one counter for both would take the later ones for repeated."""


def frames(end: SessionEnd) -> list[Frame]:
    """Returns the FRAMEs that an end got, in order."""
    return [seen.message for seen in end.inbox if isinstance(seen.message, Frame)]


@req("ZN-FRM-001")
def test_frame_header_has_r_and_no_reserved_bit(tester: Tester) -> None:
    both = pair(tester)
    both.put("a")
    both.expect("PUT a=")
    for seen in (*frames(both.sub), *frames(both.pub)):
        check(bits(seen, 0, 0x5F) == 0x05, "header with id 5, bit 6 clear", f"{bits(seen, 0, 0x5F):#04x}")


@req("ZN-FRM-002", "ZN-FRM-010")
@pytest.mark.parametrize("fsn", [Resolution.BITS_8, Resolution.BITS_32], ids=["0-8", "2-32"])
def test_numbers_of_the_node_rise_by_one_inside_the_agreed_range(tester: Tester, fsn: int) -> None:
    end = tester.session(fsn=fsn, initial_sn=0)
    agreed = end.session.agreed.fsn
    count_up_to(end, largest_number(tester, agreed))
    opened = end.session.peer
    assert opened is not None
    width = WRITTEN_BITS[agreed]
    rounds = ROUNDS if width == 8 else 20
    for _ in range(rounds):
        end.fence()
    numbers: dict[int, list[int]] = {}
    for seen in carriers(end):
        numbers.setdefault(seen.R, [opened.initial_sn - 1]).append(seen.sn)
    # The range in use is smaller than the written one (reading R-42): both may end.
    tops = (-1, mask(agreed), (1 << width) - 1)
    for run in numbers.values():
        check(max(run) < 1 << width, f"numbers of at most {width} bits", "a larger one")
        steps = pairwise(run)
        met = all(later == earlier + 1 or (later == 0 and earlier in tops) for earlier, later in steps)
        check(met, "numbers that rise by one", "another step", f"{run}")
    check(sum(map(len, numbers.values())) >= rounds, f"{rounds} FRAMEs", "fewer")


@req("ZN-FRM-002")
def test_number_beyond_the_agreed_range_is_refused(tester: Tester) -> None:
    both = pair(tester, fsn=Resolution.BITS_8)
    both.put("inside", b"1")
    both.expect("PUT inside=1")
    both.pub.send(frame(both.pub, both.push("beyond"), sn=(both.pub.session.take_sn() & 0x7F) + 0x100))
    both.expect()


@req("ZN-FRM-003")
@pytest.mark.parametrize("count", [1, 2, 50])
def test_frame_holds_messages_back_to_back(tester: Tester, count: int) -> None:
    both = pair(tester)
    whole = frame(both.pub, *(both.push(f"{number}") for number in range(count)))
    if len(bytes(whole)) > both.pub.session.agreed.batch_size:
        raise NotApplicable(f"its batches have no room for {count} messages")
    both.pub.send(whole)
    both.expect(*(f"PUT {number}=1" for number in range(count)))


@req("ZN-FRM-004")
def test_cut_message_at_the_end_of_a_frame_is_not_delivered(tester: Tester) -> None:
    both = pair(tester)
    both.pub.send(frame(both.pub, both.push("whole")))
    both.expect("PUT whole=1")
    both.pub.send(bytes(frame(both.pub, both.push("cut")))[:-1])
    both.expect()


@req("ZN-FRM-005", "ZN-EXT-102")
@pytest.mark.parametrize("enc", ["unit", "z64", "zbuf"])
def test_extensions_stand_between_number_and_messages(tester: Tester, enc: str) -> None:
    both = pair(tester)
    both.pub.send(frame(both.pub, both.push("without")))
    both.pub.send(frame(both.pub, both.push("with"), extensions=[unknown(enc)]))
    both.expect("PUT without=1", "PUT with=1")


@req("ZN-EXT-103")
@pytest.mark.parametrize("enc", ["unit", "z64", "zbuf"])
def test_unknown_mandatory_extension_of_frame_makes_it_unacceptable(tester: Tester, enc: str) -> None:
    both = pair(tester)
    for key, mandatory in (("optional", False), ("mandatory", True)):
        chain = [unknown(enc, mandatory=mandatory)]
        both.pub.send(frame(both.pub, both.push(key), extensions=chain))
    both.expect("PUT optional=1")


@req("ZN-FRM-006")
def test_reliable_and_best_effort_are_numbered_apart(tester: Tester) -> None:
    both = pair(tester)
    # Never beyond half of the numbers that there are: those are old ones.
    for _ in range(min(FAR, mask(both.pub.session.agreed.fsn) >> 2)):
        both.pub.session.take_sn(reliable=False)
    both.pub.post(*(both.push(f"reliable/{number}") for number in range(10)))
    both.pub.post(both.push("best-effort/0"), reliable=False)
    both.pub.post(both.push("reliable/10"))
    both.pub.post(both.push("best-effort/1"), reliable=False)
    wanted = {both.at(f"reliable/{number}") for number in range(11)}
    wanted |= {both.at(f"best-effort/{number}") for number in range(2)}

    def there() -> bool:
        return wanted <= {
            both.sub.key(seen.message) for seen in both.sub.inbox if isinstance(seen.message, Push)
        }

    check(both.sub.wait(there, tester.reply), "all values of both channels", "some are lost")


@req("ZN-FRM-007", "ZN-FRM-008")
def test_lane_extension_holds_the_priority(tester: Tester) -> None:
    both = pair(tester, subscriber={"qos": True}, qos=True)
    if not (both.sub.session.agreed.qos and both.pub.session.agreed.qos):
        raise NotApplicable("the node has no QoS lanes")
    for priority in Priority:
        said = [] if priority == Priority.DATA else [QoS(priority=priority)]
        both.pub.post(both.push(f"{priority}", extensions=said), priority=priority)
        both.sub.until(Push, key=both.at(f"{priority}"))
        seen = carriers(both.sub)[-1].extensions or []
        if priority == Priority.DATA:
            lanes = [ext.priority for ext in seen if isinstance(ext, Lane)]
            check(lanes in ([], [priority]), "no lane, or lane 5", "another lane")
            continue
        lanes = [(ext.ext_id, ext.ENC, ext.M, ext.original[1]) for ext in seen if isinstance(ext, Lane)]
        check(
            lanes == [(0x1, Enc.Z64, 1, priority)], f"31 {priority:02x}", listed([str(ext) for ext in lanes])
        )


@req("ZN-FRM-009")
def test_repeated_number_is_not_delivered_twice(tester: Tester) -> None:
    both = pair(tester)
    once = frame(both.pub, both.push("once"))
    both.pub.send(once)
    both.pub.send(once)
    both.pub.send(frame(both.pub, both.push("next")))
    both.expect("PUT once=1", "PUT next=1")
