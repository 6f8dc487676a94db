"""Batches and stream framing, message ids, transport OAM."""

from __future__ import annotations

import pytest

from conformance.expect import check
from conformance.plugin import req, transports
from conformance.suite.common import frame, listed, pair, settle, unknown
from conformance.tester import SessionEnd, Tester
from scapy_layers.codes import Enc, Kind, Priority
from scapy_layers.data import Put
from scapy_layers.extensions import Lane, QoS, Timestamp
from scapy_layers.network import NetworkOam
from scapy_layers.transport import Close, Fragment, Frame, Init, Join, KeepAlive, Open, TransportOam

OAM_ID = 0x55
"""An OAM id that means nothing to anybody."""

ROUNDS, ENDS = 10, 30
"""Sessions that end with something behind CLOSE: in so many rounds, unless it is seen before, so many each."""

BODIES: dict[str, dict[str, object]] = {
    "unit": {"ENC": Enc.UNIT},
    "z64": {"ENC": Enc.Z64, "z64": 300},
    "zbuf": {"ENC": Enc.ZBUF, "data": b"\x05\x00"},
}


LENGTHS = transports("tcp", "tls", "unixsock-stream")
"""Where a length stands in front of each batch."""


# Batches ------------------------------------------------------------------------------------------


@req("ZN-BAT-102")
def test_messages_of_a_batch_are_handled_in_order(tester: Tester) -> None:
    both = pair(tester)
    both.put("before", b"1")
    both.pub.send(KeepAlive(), frame(both.pub, both.push("after")))
    both.expect("PUT before=1", "PUT after=1")


@req("ZN-BAT-102")
def test_nothing_behind_close_is_carried_out(tester: Tester) -> None:
    both = pair(tester)
    both.pub.send(frame(both.pub, both.push("before")), KeepAlive())
    both.expect("PUT before=1")
    seen: set[str] = set()
    # Often: a node may end the session beside what it reads, and be quick enough most times.
    for _ in range(ROUNDS):
        for _ in range(ENDS):
            leaving = tester.session()
            leaving.send(Close(), frame(leaving, both.push("after")))
            # A control value on this link would race with its end.
            wait_for_end(leaving, tester.reply)
        seen |= {both.words(push) for push in both.delivered()}
        if seen or leaving.link.ended is None:
            # A node that leaves such links open takes a second for each.
            break
    check(not seen, "nothing from behind CLOSE", listed(sorted(seen)))


def wait_for_end(end: SessionEnd, seconds: float) -> None:
    """Waits until the node has ended a link, for some seconds at most."""
    end.wait(lambda: end.link.ended is not None, seconds)


@req("ZN-BAT-103")
@pytest.mark.parametrize("size", [512, 65_535])
def test_no_batch_exceeds_the_agreed_size(tester: Tester, size: int) -> None:
    both = pair(tester, subscriber={"batch_size": size})
    for number in range(5):
        both.put(f"{number}", bytes(20_000), extensions=[QoS(D=1)])
    both.expect(*(f"PUT {number}=20000 bytes" for number in range(5)))
    largest = max(seen.batch_size for seen in both.sub.inbox)
    check(largest <= both.sub.session.agreed.batch_size, "no batch above the agreed size", "a larger one")


@req("ZN-MSG-004", "ZN-BAT-104")
@LENGTHS
@pytest.mark.parametrize("written", ["whole", "byte by byte", "together"])
def test_length_in_front_cuts_the_stream_into_batches(tester: Tester, written: str) -> None:
    link = tester.link()
    raw = link.showing(bytes(tester.init()))
    stream = len(raw).to_bytes(2, "little") + raw
    if written == "byte by byte":
        for byte in stream:
            link.send_raw(bytes([byte]))
    else:
        link.send_raw(stream)
    ack = link.expect(Init, A=1)
    opening = link.showing(bytes(Open(cookie=ack.cookie)))
    stream = len(opening).to_bytes(2, "little") + opening
    link.send_raw(stream + b"\x01\x00\x04" if written == "together" else stream)
    link.expect(Open, A=1)


@req("ZN-MSG-005")
@LENGTHS
def test_length_in_front_is_little_endian(tester: Tester) -> None:
    link, swapped = tester.link(), tester.link()
    raw = link.showing(bytes(tester.init()))
    swapped.send_raw(len(raw).to_bytes(2, "big") + raw)
    link.send_raw(len(raw).to_bytes(2, "little") + raw)
    link.expect(Init, A=1)
    # The node may still wait for the rest of a long batch, so that a fence on that link is not possible. One on
    # another link comes later than an answer would.
    tester.session().fence()
    answered = [seen for seen in swapped.inbox if isinstance(seen.message, Init)]
    check(not answered, "no InitAck for a big-endian length", "INIT")


# Ids --------------------------------------------------------------------------------------------------


@req("ZN-MSG-002", "ZN-NET-001")
def test_network_message_outside_frame_has_no_effect(tester: Tester) -> None:
    both = pair(tester)
    both.pub.send(frame(both.pub, both.push("inside")))
    both.expect("PUT inside=1")
    bare = [seen for seen in both.sub.inbox if seen.carrier is None and seen.message.kind is Kind.NETWORK]
    check(not bare, "network messages of the node inside FRAME", "one outside")
    both.pub.send(both.push("outside"))
    both.expect()


@req("ZN-MSG-003")
def test_data_message_without_carrier_is_not_delivered(tester: Tester) -> None:
    both = pair(tester)
    both.pub.send(frame(both.pub, both.push("carried")))
    both.expect("PUT carried=1")
    both.pub.send(frame(both.pub), Put(data=b"1"))
    both.expect()


@req("ZN-MSG-007")
def test_join_changes_nothing_on_a_unicast_session(tester: Tester) -> None:
    both = pair(tester)
    both.put("before")
    both.pub.send(Join(zid=tester.rng.randbytes(15) + b"\x01"))
    if settle(both.pub):
        both.put("after")
        both.expect("PUT before=", "PUT after=")
    else:
        both.expect("PUT before=")


@req("ZN-MSG-008")
@pytest.mark.parametrize("what", ["OAM", "KEEP_ALIVE", "FRAME", "FRAGMENT", "CLOSE"])
def test_messages_of_both_kinds_of_transport_are_in_place_on_unicast(tester: Tester, what: str) -> None:
    both = pair(tester)
    end = both.pub
    match what:
        case "OAM":
            end.send(TransportOam(oam_id=OAM_ID))
        case "KEEP_ALIVE":
            end.send(KeepAlive())
        case "FRAME":
            end.send(frame(end, both.push("a")))
        case "FRAGMENT":
            raw = bytes(both.push("a"))
            for part, more in ((raw[:9], 1), (raw[9:], 0)):
                end.send(Fragment(R=1, M=more, sn=end.session.take_sn(), data=part))
        case _:
            end.send(Close())
            end.expect_end()
    if what == "CLOSE":
        told = [seen for seen in end.inbox if isinstance(seen.message, Close)]
        check(not told, "no CLOSE for our CLOSE", "CLOSE")
    else:
        check(settle(end), "a session that lives on", "it ends")
    both.expect(*(["PUT a=1"] if what.startswith("FRA") else []))


@req("ZN-MSG-009")
@pytest.mark.parametrize("step", ["first", "after InitAck"])
def test_nothing_is_delivered_before_the_session_is_set_up(tester: Tester, step: str) -> None:
    both = pair(tester)
    both.pub.send(frame(both.pub, both.push("in session")))
    both.expect("PUT in session=1")
    link = tester.link()
    if step != "first":
        link.send(tester.init())
        link.expect(Init, A=1)
    link.send(Frame(R=1, sn=0, messages=[both.push("too early")]))
    link.expect_end()
    both.expect()


# OAM ----------------------------------------------------------------------------------------------------


@req("ZN-OAM-001")
def test_transport_oam_is_consumed_as_its_encoding_says(tester: Tester) -> None:
    both = pair(tester)
    both.put("before")
    oams = [TransportOam(oam_id=OAM_ID, **body) for body in BODIES.values()]
    both.pub.send(*oams, frame(both.pub, both.push("behind")))
    both.expect("PUT before=", "PUT behind=1")


@req("ZN-OAM-002")
@pytest.mark.parametrize("number", [0, 127, 128, 65_535])
def test_transport_oam_id_is_a_z16(tester: Tester, number: int) -> None:
    both = pair(tester)
    both.put("before")
    both.pub.send(TransportOam(oam_id=number), frame(both.pub, both.push("behind")))
    both.expect("PUT before=", "PUT behind=1")


@req("ZN-OAM-003", "ZN-OAM-004")
@pytest.mark.parametrize("enc", BODIES)
def test_transport_oam_extensions_stand_before_the_body(tester: Tester, enc: str) -> None:
    both = pair(tester)
    both.put("before")
    for chain in ([], [unknown("zbuf")], [Lane(priority=Priority.CONTROL)]):
        both.pub.send(TransportOam(oam_id=OAM_ID, extensions=chain, **BODIES[enc]))
    both.pub.send(
        TransportOam(oam_id=OAM_ID, extensions=[unknown("z64")], **BODIES[enc]),
        frame(both.pub, both.push("behind")),
    )
    both.expect("PUT before=", "PUT behind=1")


@req("ZN-EXT-102")
@pytest.mark.parametrize("enc", ["unit", "z64", "zbuf"])
def test_unknown_optional_extension_of_oam_is_skipped(tester: Tester, enc: str) -> None:
    both = pair(tester)
    both.put("before")
    chain = [unknown(enc)]
    inside = frame(both.pub, NetworkOam(oam_id=OAM_ID, extensions=chain), both.push("behind"))
    both.pub.send(TransportOam(oam_id=OAM_ID, extensions=chain), inside)
    both.expect("PUT before=", "PUT behind=1")


@req("ZN-OAM-005", "ZN-OAM-006")
def test_network_oam_is_consumed_as_its_encoding_says(tester: Tester) -> None:
    both = pair(tester)
    both.put("before")
    stamp = Timestamp(timestamp=1 << 32, timestamp_id=b"\x01")
    oams = [
        NetworkOam(oam_id=OAM_ID, extensions=chain, **body)
        for body in BODIES.values()
        for chain in ([], [QoS(priority=Priority.CONTROL), stamp.copy()])
    ]
    both.pub.send(frame(both.pub, *oams, both.push("behind")))
    both.expect("PUT before=", "PUT behind=1")
