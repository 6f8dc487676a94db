from __future__ import annotations

import io
import random
import struct
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scapy_layers.capture import read
from scapy_layers.conversation import is_batch
from scapy_layers.cutter import Cutter
from scapy_layers.ip import Segment, join_ends
from scapy_layers.links import Endpoint, Link
from scapy_layers.primitives import write_vle
from scapy_layers.resync import Found
from scapy_layers.stream import (
    Batch,
    Datagram,
    End,
    Framing,
    Gap,
    Limits,
    Reader,
    Unit,
    Way,
    plausible,
    units,
    units_of,
)
from scapy_layers.tcp import Order, Piece
from tests.scapy_layers.packets import (
    ACK,
    FIN,
    HERE,
    INIT_ACK,
    INIT_SYN,
    OPEN_ACK,
    OPEN_SYN,
    RST,
    SYN,
    THERE,
    Talk,
    ethernet,
    ipv4,
    pcap,
    prefixed,
    put,
    tcp,
)

PUTS = [put(sn) for sn in range(500, 520)]
PUT = prefixed(PUTS[0])
STREAM = b"".join(map(prefixed, PUTS))
HANDSHAKE = [INIT_SYN, INIT_ACK, OPEN_SYN, OPEN_ACK]


def batches(seen: Iterable[Unit]) -> list[bytes]:
    return [unit.data for unit in seen if isinstance(unit, Batch)]


def gaps(seen: Iterable[Unit]) -> list[tuple[int | None, int]]:
    return [(unit.missing, unit.skipped) for unit in seen if isinstance(unit, Gap)]


def heard(segments: list[Segment], limits: Limits | None = None) -> list[bytes]:
    return batches(units(segments, limits=limits))


def one_each(stream: Iterable[bytes] = PUTS, start: int = 1000, service: int = 7447) -> Talk:
    """Batches in a segment each, with no handshake and no acknowledgement: the start is in mid stream."""
    talk = Talk(service=service)
    for batch in stream:
        talk.add(prefixed(batch), start)
        start += len(prefixed(batch))
    return talk


@pytest.mark.parametrize("service", [80, 7447])
@pytest.mark.parametrize("check", [plausible, is_batch])
@pytest.mark.parametrize("first", [PUTS[0], b"\x02\x0a\x64\x08a cookie"])
def test_connection_that_begins_without_init_is_heard_on_any_port(
    service: int, check: Callable[[bytes], bool], first: bytes
) -> None:
    talk = Talk(service=service)
    talk.syn()
    talk.say(prefixed(first) + prefixed(b"\x04"))
    talk.say(prefixed(b"\x03\x02"), back=True)
    seen = list(units(talk.segments, plausible=check))
    assert batches(seen) == [first, b"\x04", b"\x03\x02"]
    assert gaps(seen) == [(0, 0)]


@pytest.mark.parametrize("data", [PUT + b"\1", PUT + b"\2\0\4", PUT[:-1], prefixed(b"\x04")])
def test_connection_that_begins_with_less_is_left_alone_on_other_ports(data: bytes) -> None:
    talk = Talk(service=80)
    talk.syn()
    talk.say(data)
    assert heard(talk.segments) == []


# The fourteen cases that readers of length-prefixed streams get wrong ------------------------------


def test_one_batch_in_each_segment() -> None:
    assert heard(one_each().segments) == PUTS


def test_many_batches_in_a_segment() -> None:
    talk = Talk()
    talk.add(STREAM, 1000)
    assert heard(talk.segments) == PUTS


def test_batches_split_every_seven_bytes() -> None:
    talk = Talk()
    talk.pieces(STREAM, 7, 1000)
    assert heard(talk.segments) == PUTS


def test_retransmission_of_a_consumed_segment_is_not_heard_twice() -> None:
    segments = one_each().segments
    assert heard([*segments[:6], segments[3], *segments[6:], segments[0]]) == PUTS


def test_overlapping_retransmission_gives_only_its_new_bytes() -> None:
    talk = Talk()
    size = len(prefixed(PUTS[0]))
    talk.add(STREAM[: 5 * size], 1000)
    talk.add(STREAM[3 * size : 8 * size], 1000 + 3 * size)
    talk.add(STREAM[7 * size - 3 :], 1000 + 7 * size - 3)
    assert heard(talk.segments) == PUTS


@pytest.mark.parametrize("at", [0, 1, 9, 18])
def test_two_segments_swapped(at: int) -> None:
    # On our own port the first segment is believed at once.
    segments = one_each(service=80 if at == 0 else 7447).segments
    segments[at], segments[at + 1] = segments[at + 1], segments[at]
    assert heard(segments) == PUTS


@pytest.mark.parametrize("at", [1, 7, 40])
def test_two_segments_swapped_inside_a_split_batch(at: int) -> None:
    talk = Talk()
    talk.pieces(STREAM, 7, 1000)
    segments = talk.segments
    segments[at], segments[at + 1] = segments[at + 1], segments[at]
    assert heard(segments) == PUTS


@pytest.mark.parametrize("inside", [b"\x28\0\x06/a/b", b"\x04\0\x06/a/"], ids=["in the middle", "at the end"])
def test_piece_of_a_batch_is_not_taken_for_a_fragment(inside: bytes) -> None:
    """Captures that keep the first bytes of each packet hold what looks like a length and the head of a FRAGMENT."""
    large = prefixed(put(500, payload=b"-" * 10 + inside + b"-" * 100))
    kept = large[: large.index(inside) + (60 if inside[0] > 4 else len(inside))]
    talk, at = Talk(), 1000
    for _ in range(10):
        for whole, captured in ((STREAM, STREAM), (large, kept), (large, kept)):
            talk.add(captured, at)
            at += len(whole)
    assert set(heard(talk.segments)) == set(PUTS)


def test_a_whole_batch_lost_is_told_and_nothing_else_is_lost() -> None:
    segments = one_each().segments
    del segments[7]
    seen = list(units(segments))
    assert batches(seen) == PUTS[:7] + PUTS[8:]
    assert gaps(seen) == [(None, 0), (len(prefixed(PUTS[7])), 0)]


def test_bytes_lost_inside_a_batch_cost_that_batch_only() -> None:
    talk = Talk()
    size = len(prefixed(PUTS[0]))
    talk.add(STREAM[: 7 * size + 5], 1000)
    talk.add(STREAM[7 * size + 9 :], 1000 + 7 * size + 9)
    seen = list(units(talk.segments))
    assert batches(seen) == PUTS[:7] + PUTS[8:]
    assert gaps(seen) == [(None, 0), (4, size - 4)]


@pytest.mark.parametrize("lost", [(3,), (1, 5), (2, 3, 4)])
def test_batch_with_lost_segments_is_passed_over_to_the_byte(lost: tuple[int, ...]) -> None:
    """What stands behind it says too little to be found."""
    large = put(519, payload=bytes(range(256)) * 10)
    stream = prefixed(large) + prefixed(b"\x04")
    talk = one_each(PUTS[:3])
    start = 1000 + sum(len(prefixed(one)) for one in PUTS[:3])
    for index, at in enumerate(range(0, len(stream), 379)):
        if index not in lost:
            talk.add(stream[at : at + 379], start + at)
    seen = list(units(talk.segments, plausible=is_batch))
    assert batches(seen) == [*PUTS[:3], b"\x04"]
    (_, gap) = gaps(seen)
    assert gap == (379 * len(lost), len(prefixed(large)) - 379 * len(lost))


def test_fragments_are_found_by_their_numbers_on_each_lane() -> None:
    """A transfer in which two priorities take turns, of which the begin is not in the capture."""
    lanes = [
        b"\xe6" + write_vle(sn + lane * 1000) + b"\x31" + bytes([lane])
        for sn in range(500, 506)
        for lane in (5, 6)
    ]
    chance = random.Random(1)
    fragments = [head + chance.randbytes(3000) for head in lanes]
    talk = Talk()
    talk.pieces(b"".join(map(prefixed, fragments))[1000:], 1448, 1000)
    assert batches(units(talk.segments, plausible=is_batch)) == fragments[1:]


@pytest.mark.parametrize("cut", [1, 2, 5, 17])
def test_capture_that_starts_inside_a_batch_finds_the_next(cut: int) -> None:
    talk = Talk()
    talk.pieces(STREAM[cut:], 30, 1000)
    seen = list(units(talk.segments))
    assert batches(seen) == PUTS[1:]
    assert gaps(seen) == [(None, len(prefixed(PUTS[0])) - cut)]


@pytest.mark.parametrize("count", [20, 200])
def test_compressed_batches_with_many_literals_are_found_after_a_loss(count: int) -> None:
    # Blocks of literals alone: a token of 15, behind it how many more there are.
    values = [put(sn, payload=bytes(count)) for sn in range(500, 508)]
    blocks = []
    for value in values:
        more, last = divmod(len(value) - 15, 255)
        blocks.append(b"\x01\xf0" + b"\xff" * more + bytes([last]) + value)
    segments = one_each(blocks).segments
    del segments[1]
    assert heard(segments) == blocks[:1] + blocks[2:]


def test_sequence_numbers_wrap() -> None:
    assert heard(one_each(start=2**32 - 100).segments) == PUTS


def test_sequence_numbers_wrap_inside_a_split_batch() -> None:
    talk = Talk()
    talk.pieces(STREAM, 7, 2**32 - 100)
    assert heard(talk.segments) == PUTS


def test_two_connections_are_kept_apart() -> None:
    talk, other = one_each(), one_each(PUTS[::-1])
    mixed = [
        one
        for first, second in zip(talk.segments, other.segments, strict=True)
        for one in (first, second._replace(ends=join_ends(HERE, THERE, 50_001, 7447)))
    ]
    seen: dict[int, list[bytes]] = {}
    for unit in units(mixed):
        if isinstance(unit, Batch):
            seen.setdefault(unit.way.link.number, []).append(unit.data)
    assert seen == {0: PUTS, 1: PUTS[::-1]}


def test_thousands_of_batches_in_one_segment() -> None:
    talk = Talk()
    talk.add(STREAM * 125, 1000)
    assert heard(talk.segments) == PUTS * 125


# Links --------------------------------------------------------------------------------------------


def test_handshake_tells_who_connected_and_ends_are_told() -> None:
    talk = Talk().open()
    talk.say(STREAM)
    talk.say(b"", flags=FIN | ACK)
    talk.say(b"", back=True, flags=FIN | ACK)
    seen = list(units(talk.segments))
    assert batches(seen) == [*HANDSHAKE, *PUTS]
    assert [type(unit) for unit in seen[-2:]] == [End, End]
    assert [(unit.number, unit.reset) for unit in seen if isinstance(unit, End)] == [(8, False), (9, False)]
    link = seen[0].way.link
    assert (str(link.first), str(link.second), link.tcp) == ("10.0.0.1:50000", "10.0.0.2:7447", True)
    assert [unit.way.forward for unit in seen[:4]] == [True, False, True, False]
    assert link.ways[0].opposite is link.ways[1]
    assert str(link.ways[1].source) == "10.0.0.2:7447"


def test_connection_seen_from_its_answer_on_knows_who_connected() -> None:
    talk = Talk().open()
    seen = list(units(talk.segments[1:]))
    assert seen[-1].way.link.first.port == 50_000


def test_batch_names_the_packet_in_which_it_ends() -> None:
    talk = Talk().open()
    talk.say(STREAM[:40])
    talk.say(STREAM[40:])
    numbers = [unit.number for unit in units(talk.segments)]
    assert numbers == [3, 4, 5, 6, 7, *[8] * 19]


def test_batches_behind_a_hole_name_their_own_packets() -> None:
    segments = one_each().segments
    del segments[7]
    numbers = [unit.number for unit in units(segments) if isinstance(unit, Batch)]
    assert numbers == [*range(1, 8), *range(9, 21)]


def test_new_connection_on_the_same_ports_is_another_link() -> None:
    talk = Talk().open()
    talk.say(STREAM + b"\x50")
    again = Talk(talk.segments, forward=90_000, backward=700).open()
    again.say(STREAM)
    seen = list(units(again.segments))
    assert batches(seen) == [*HANDSHAKE, *PUTS, *HANDSHAKE, *PUTS]
    assert {unit.way.link.number for unit in seen} == {0, 1}
    assert [unit.reset for unit in seen if isinstance(unit, End)] == [True, True]
    assert gaps(seen) == [(0, 1)], "what was left of the first one"


def test_syn_sent_again_changes_nothing() -> None:
    talk = Talk()
    talk.syn()
    talk.segments += talk.segments
    talk.say(prefixed(INIT_SYN))
    assert heard(talk.segments) == [INIT_SYN]


def test_answer_captured_before_its_syn_is_the_same_link() -> None:
    talk = Talk().open()
    first, second, *rest = talk.segments
    seen = list(units([second, first, *rest]))
    assert batches(seen) == HANDSHAKE
    assert {unit.way.link.number for unit in seen} == {0}


@pytest.mark.parametrize(("syn", "behind"), [(syn, behind) for syn in (0, 1) for behind in range(2, 8)])
def test_syn_captured_behind_what_it_begins_is_no_other_link(syn: int, behind: int) -> None:
    talk = Talk().open()
    talk.say(STREAM)
    segments = list(talk.segments)
    segments.insert(behind - 1, segments.pop(syn))
    seen = list(units(segments))
    assert batches(seen) == [*HANDSHAKE, *PUTS]
    assert {unit.way.link.number for unit in seen} == {0}
    assert gaps(seen) == []


def test_both_syns_captured_at_the_end_are_no_other_link() -> None:
    talk = Talk(forward=2**32 - 20).open()
    talk.say(STREAM)
    first, second, *rest = talk.segments
    seen = list(units([*rest, second, first]))
    assert batches(seen) == [*HANDSHAKE, *PUTS]
    assert {unit.way.link.number for unit in seen} == {0}
    assert gaps(seen) == []


def ends(seen: Iterable[Unit]) -> list[tuple[int, bool, bool, int]]:
    return [
        (unit.way.link.number, unit.way.forward, unit.reset, unit.number)
        for unit in seen
        if isinstance(unit, End)
    ]


def later(segments: Iterable[Segment], seconds: float) -> list[Segment]:
    """The same segments at a time after the first one; numbered on."""
    return [one._replace(time=one.time + int(seconds * 10**9)) for one in segments]


def test_reset_ends_both_directions_behind_what_was_on_its_way() -> None:
    talk = Talk().open()
    talk.add(b"", talk.backward, back=True, flags=RST)
    talk.say(STREAM)
    seen = list(units(talk.segments))
    assert batches(seen) == HANDSHAKE + PUTS
    assert ends(seen) == [(0, True, True, 7), (0, False, True, 7)]
    assert isinstance(seen[-1], End)


def test_reset_that_was_captured_before_the_last_bytes_of_its_side_loses_none() -> None:
    talk = Talk().open()
    talk.say(STREAM)
    talk.say(b"", flags=RST | ACK)
    *rest, data, reset = talk.segments
    seen = list(units([*rest, reset, data]))
    assert batches(seen) == HANDSHAKE + PUTS
    assert ends(seen) == [(0, True, True, 8), (0, False, True, 8)]


def test_end_by_reset_is_told_a_second_behind_it_by_any_packet() -> None:
    talk, other = Talk().open(), Talk(port=50_001).open()
    talk.add(b"", talk.backward, back=True, flags=RST)
    other.acknowledge()
    sooner, at_last = later(other.segments[:-1], 0.9), later(other.segments[-1:], 1.1)
    told = [isinstance(unit, End) for unit in units([*talk.segments, *sooner, *at_last])]
    assert told == [False] * 8 + [True, True]


def test_what_comes_long_behind_a_reset_is_a_link_that_begins_inside() -> None:
    talk = Talk().open()
    talk.add(b"", talk.backward, back=True, flags=RST)
    talk.say(STREAM)
    before = list(talk.segments)
    talk.say(STREAM)
    seen = list(units([*before, *later(talk.segments[-2:], 5)]))  # the one before comes again
    assert batches(seen) == HANDSHAKE + 2 * PUTS
    assert ends(seen) == [(0, True, True, 7), (0, False, True, 7)]
    assert [(unit.way.link.number, unit.why) for unit in seen if isinstance(unit, Gap)] == [
        (1, "the capture begins inside the connection")
    ]


def test_connection_whose_syn_is_lost_behind_one_that_has_ended_is_heard() -> None:
    talk = Talk().open()
    talk.say(b"", flags=FIN | ACK)
    talk.say(b"", back=True, flags=FIN | ACK)
    talk.acknowledge(back=False)
    talk.forward += 100_000
    talk.say(STREAM)
    seen = list(units(talk.segments))
    assert batches(seen) == HANDSHAKE + PUTS
    assert [unit.way.link.number for unit in seen if isinstance(unit, Batch)] == [0] * 4 + [1] * 20


def test_new_connection_ends_one_that_was_reset_with_the_reset() -> None:
    talk = Talk().open()
    talk.add(b"", talk.backward, back=True, flags=RST)
    talk.forward += 5_000
    talk.open()
    seen = list(units(talk.segments))
    assert batches(seen) == HANDSHAKE * 2
    assert ends(seen) == [(0, True, True, 7), (0, False, True, 7)]


def test_resets_without_times_take_no_memory() -> None:
    reader = Reader(plausible, Limits())
    talk = Talk()
    for _ in range(1000):
        talk.syn()
        talk.add(b"", talk.backward, back=True, flags=RST)
        talk.forward += 5_000
    for one in talk.segments:
        list(reader.take(one._replace(time=0)))
    assert len(reader._resets) == 1
    assert len(reader._dues) < 100


@pytest.mark.parametrize(
    ("flags", "what"), [(ACK, "capture"), (FIN | ACK, "connection"), (RST, "connection")]
)
def test_what_ended_inside_a_batch_is_told(flags: int, what: str) -> None:
    talk = Talk().open()
    talk.say(STREAM[:-1])
    talk.say(b"", flags=flags)
    why = [unit.why for unit in units(talk.segments) if isinstance(unit, Gap)]
    assert why == [f"the {what} ends inside a batch"]


def test_bytes_behind_fin_are_ignored() -> None:
    talk = Talk().open()
    talk.say(STREAM, flags=FIN | ACK)
    talk.say(STREAM)
    seen = list(units(talk.segments))
    assert batches(seen) == [*HANDSHAKE, *PUTS]
    assert not gaps(seen)


def test_fin_that_comes_early_waits_for_the_bytes_in_front() -> None:
    talk = Talk().open()
    talk.say(STREAM)
    talk.say(b"", flags=FIN | ACK)
    talk.segments[-2:] = talk.segments[:-3:-1]
    seen = list(units(talk.segments))
    assert batches(seen) == [*HANDSHAKE, *PUTS]
    assert isinstance(seen[-1], End)


def test_keep_alive_probes_and_window_noise_are_ignored() -> None:
    talk = Talk().open()
    for batch in PUTS:
        talk.say(prefixed(batch))
        talk.add(b"\0", talk.forward - 1, flags=ACK)
        talk.add(b"", talk.forward - 1, flags=ACK)
        talk.acknowledge()
    seen = list(units(talk.segments))
    assert batches(seen) == [*HANDSHAKE, *PUTS]
    assert not gaps(seen)


# Loss ---------------------------------------------------------------------------------------------


def lossy(*, cut: int = 0) -> Talk:
    """A session whose third batch is not in the capture."""
    talk = Talk().open()
    for index, batch in enumerate(PUTS):
        if index == 2:
            talk.forward += len(prefixed(batch)) - cut
            continue
        talk.say(prefixed(batch))
    return talk


def test_hole_is_told_as_soon_as_the_other_side_acknowledges_behind_it() -> None:
    talk = lossy()
    talk.acknowledge()
    talk.say(prefixed(put(600)))
    seen = list(units(talk.segments))
    hole = next(unit for unit in seen if isinstance(unit, Gap))
    assert (hole.missing, hole.skipped, hole.number) == (len(prefixed(PUTS[2])), 0, 9)
    assert "acknowledged" in hole.why
    assert batches(seen) == [*HANDSHAKE, *PUTS[:2], *PUTS[3:], put(600)]
    assert isinstance(seen[-1], Batch)


def disordered(*between: Callable[[Talk], None]) -> list[Segment]:
    """The second of three segments is captured behind the third and what else came between."""
    talk = Talk().open()
    for one in PUTS[:3]:
        talk.say(prefixed(one))
    late = talk.segments.pop(-2)
    for say in between:
        say(talk)
    talk.segments.append(late)
    return [one._replace(number=number) for number, one in enumerate(talk.segments, 1)]


def test_segment_captured_behind_the_acknowledgement_of_it_is_not_lost() -> None:
    seen = list(units(disordered(*[Talk.acknowledge] * 20)))
    assert batches(seen) == HANDSHAKE + PUTS[:3]
    assert not gaps(seen)


def test_acknowledged_segment_is_waited_for_no_longer_than_some_packets_or_a_second() -> None:
    segments = disordered(*[Talk.acknowledge] * 30)
    seen = list(units(segments))
    assert batches(seen) == [*HANDSHAKE, PUTS[0], PUTS[2]]
    assert [unit.number for unit in seen if isinstance(unit, Gap)] == [8], "the packet behind it"
    few = disordered(*[Talk.acknowledge] * 3)
    assert batches(units(few)) == HANDSHAKE + PUTS[:3]
    assert batches(units([*few[:-2], *later(few[-2:], 1)])) == [*HANDSHAKE, PUTS[0], PUTS[2]]


def shuffled(reach: int) -> list[Segment]:
    """Segments and their acknowledgements, each captured up to so many packets behind its place."""
    talk = Talk().open()
    for sn in range(200):
        talk.say(prefixed(put(500 + sn)))
        talk.acknowledge()
    drawn = random.Random(reach)
    begin = len(talk.segments) - 400
    places = [at + drawn.uniform(0, reach) for at in range(400)]
    behind = [one for _, one in sorted(zip(places, talk.segments[begin:], strict=True))]
    return [one._replace(number=number) for number, one in enumerate(talk.segments[:begin] + behind, 1)]


def test_holes_are_waited_for_once_acknowledgements_stand_in_front_of_what_they_acknowledge() -> None:
    segments = shuffled(100)
    seen = list(units(segments))
    assert len(batches(seen)) - len(HANDSHAKE) >= 190
    assert seen[-1].way.link.late
    capture = written(segments)
    assert batches(units_of(io.BytesIO(capture))) == heard(list(read(io.BytesIO(capture))))


def test_hole_of_a_connection_that_is_out_of_order_is_waited_for_ten_seconds() -> None:
    talk = Talk().open()
    for one in PUTS[:3]:
        talk.say(prefixed(one))
    late = talk.segments.pop(-2)
    talk.say(prefixed(put(700)), back=True)
    talk.segments.append(late)
    talk.forward += len(prefixed(PUTS[3]))
    talk.say(prefixed(PUTS[4]))
    for _ in range(40):
        talk.acknowledge()
    waits = batches(units(talk.segments[:-1]))
    assert waits == [*HANDSHAKE, PUTS[0], PUTS[2], put(700), PUTS[4]]
    reader = Reader(plausible, Limits())
    seen = [unit for one in talk.segments for unit in reader.take(one)]
    assert PUTS[4] not in batches(seen), "the hole in front of it may be filled"
    talk.acknowledge()
    (over,) = later(talk.segments[-1:], 11)
    assert batches(reader.take(over)) == [PUTS[4]]


@pytest.mark.parametrize("answer", [INIT_ACK[:1] + b"\x08" + INIT_ACK[2:], b"\x03\x00", b"\x04"])
def test_answer_to_init_that_is_another_message_or_has_a_fault_is_told(answer: bytes) -> None:
    talk = Talk()
    talk.syn()
    talk.say(prefixed(INIT_SYN))
    talk.say(prefixed(answer), back=True)
    assert batches(units(talk.segments, plausible=is_batch)) == [INIT_SYN, answer]


def written(segments: list[Segment]) -> bytes:
    """The capture of some segments."""
    return pcap(
        [
            ethernet(
                struct.pack(">BBHHHBBH", 0x45, 0, 40 + len(one.data), 1, 0, 64, 6, 0)
                + one.source
                + one.target
                + struct.pack(
                    ">HHIIBBHHH", one.sport, one.dport, one.seq, one.ack, 0x50, one.flags, 512, 0, 0
                )
                + one.data
            )
            for one in segments
        ]
    )


def test_acknowledgement_by_itself_in_front_of_its_bytes_is_no_answer_in_front_of_its_question() -> None:
    talk = Talk().open()
    for sn in range(10):
        talk.say(prefixed(put(500 + sn)))
        talk.acknowledge()
    segments = talk.segments
    segments[-2:] = segments[:-3:-1]
    for found in (list(units(segments)), list(units_of(io.BytesIO(written(segments))))):
        assert not any(unit.way.link.disordered for unit in found)


@pytest.mark.parametrize("late", [1, 2])
def test_connection_is_known_to_be_disordered_before_an_answer_that_was_captured_early(late: int) -> None:
    talk = Talk().open()
    for sn in range(10):
        talk.say(prefixed(put(500 + sn)))
        talk.acknowledge()
        talk.say(prefixed(put(700 + sn)), back=True)
    orderly = list(units_of(io.BytesIO(written(talk.segments))))
    assert batches(orderly)[4:7] == [put(500), put(700), put(501)]
    assert not any(unit.way.link.disordered for unit in orderly)
    question = next(at for at, one in enumerate(talk.segments) if one.data == prefixed(put(504)))
    talk.segments.insert(question + 2 * late, talk.segments.pop(question))
    told: dict[bytes, bool] = {}
    for unit in units_of(io.BytesIO(written(talk.segments))):
        if isinstance(unit, Batch):
            told[unit.data] = unit.way.link.disordered
    assert not told[put(703)]
    assert told[put(704)]


def test_answer_to_what_is_behind_a_hole_comes_behind_it() -> None:
    answer = put(700)
    segments = disordered(Talk.acknowledge, lambda talk: talk.say(prefixed(answer), back=True))
    assert heard(segments) == [*HANDSHAKE, PUTS[0], PUTS[2], answer]


def test_hole_is_told_when_too_much_waits_behind_it() -> None:
    seen = list(units(lossy().segments, limits=Limits(early=1000)))
    assert [unit.why for unit in seen if isinstance(unit, Gap)] == ["more waits behind it than is held back"]
    assert batches(seen) == [*HANDSHAKE, *PUTS[:2], *PUTS[3:]]


def test_early_bytes_are_held_back_within_bounds() -> None:
    order = Order(10_000)
    order.begin(1000)
    for at in range(20_000):
        seq = 1100 + 2 * (at * 7919 % 20_000)
        assert len(list(order.take(Piece(at, at, b"x"), seq, fin=False))) < 3 * 10_000
        assert order.held <= 10_000


def test_snap_length_is_a_loss_of_what_it_cut() -> None:
    talk = Talk().open()
    whole = prefixed(put(700, bytes(100)))
    talk.add(whole[:40], talk.forward, missing=len(whole) - 40)
    talk.forward += len(whole)
    talk.say(STREAM)
    seen = list(units(talk.segments))
    assert gaps(seen) == [(len(whole) - 40, 40)]
    assert batches(seen) == [*HANDSHAKE, *PUTS]


def test_connection_that_ends_inside_a_batch_is_told() -> None:
    talk = Talk().open()
    talk.say(STREAM[:-3], flags=FIN | ACK)
    seen = list(units(talk.segments))
    assert gaps(seen) == [(0, len(prefixed(PUTS[-1])) - 3)]
    assert batches(seen) == [*HANDSHAKE, *PUTS[:-1]]


def test_jump_of_the_sequence_numbers_is_a_new_start() -> None:
    talk = Talk().open()
    talk.say(STREAM)
    talk.forward += 2**31 - 5
    talk.say(STREAM)
    seen = list(units(talk.segments))
    assert batches(seen) == [*HANDSHAKE, *PUTS, *PUTS]
    assert gaps(seen) == [(None, 0)]


def test_numbers_that_went_back_for_long_are_another_stream() -> None:
    talk = Talk().open()
    for _ in range(40):
        talk.say(STREAM)
    talk.forward -= 30 * len(STREAM)
    for _ in range(20):
        talk.say(STREAM)
    seen = list(units(talk.segments, limits=Limits(early=2000)))
    assert "jump" in next(unit for unit in seen if isinstance(unit, Gap)).why
    assert len(batches(seen)) > len(PUTS) * 50


@pytest.mark.parametrize("service", [80, 7447])
def test_start_in_mid_stream_is_believed_for_keep_alives_only_with_a_larger_batch_or_on_our_port(
    service: int,
) -> None:
    alive = [b"\x04"] * 5
    assert heard(one_each(alive, service=service).segments) == (alive if service == 7447 else [])
    assert heard(one_each([*alive, *PUTS[:3]], service=service).segments) == [*alive, *PUTS[:3]]


@pytest.mark.parametrize("service", [80, 7447])
def test_close_that_is_all_of_a_stream_is_believed_on_our_port(service: int) -> None:
    assert heard(one_each([b"\x03\0"], service=service).segments) == [b"\x03\0"] * (service == 7447)


def test_who_only_keeps_alive_is_heard_on_a_link_that_is_known() -> None:
    for alive in (b"\x04", b"\0\x04"):
        talk = Talk()
        for batch in PUTS:
            talk.say(prefixed(batch))
            talk.say(prefixed(alive), back=True)
        assert heard(talk.segments).count(alive) == len(PUTS)


@pytest.mark.parametrize("first", range(4))
def test_handshake_is_heard_without_the_packets_in_front_of_it(first: int) -> None:
    # Behind OPEN the link has lengths of four bytes, so no chain of batches says where it began.
    open_syn = b"\x02\x0a\x64\x10" + bytes(range(16))
    handshake = [INIT_SYN, INIT_ACK, open_syn, OPEN_ACK]
    pushes = [b"\x3d\x00\x04a/bc\x01" + bytes([20]) + bytes(20) for _ in range(12)]
    talk = Talk()
    for index, batch in enumerate(handshake):
        talk.say(prefixed(batch), back=index % 2 == 1)
    for push in pushes:
        talk.say(prefixed(push, 4))
        talk.say(prefixed(push, 4), back=True)
    seen = batches(_followed(talk.segments[first:]))
    assert sorted(seen) == sorted([*handshake[first:], *pushes, *pushes])


def _followed(segments: list[Segment]) -> Iterable[Unit]:
    """As the consumer does it: behind OPEN_SYN both lengths are thought of."""
    for unit in units(segments):
        if isinstance(unit, Batch) and unit.data[0] & 0x1F in {1, 2}:
            for way in unit.way.link.ways:
                way.framing = Framing.EITHER if way.framing is Framing.SHORT else way.framing
        yield unit


def test_consumer_has_the_last_word_on_what_is_plausible() -> None:
    talk = one_each()
    assert batches(units(talk.segments, plausible=lambda batch: batch[3:4] != b"\x3d")) == []


def test_consumer_that_refuses_all_is_not_asked_about_more_than_there_is() -> None:
    asked = []

    def refuse(batch: bytes) -> bool:
        asked.append(len(batch))
        return False

    # A batch begins every six bytes, and each reaches over a hundred of the others.
    data = b"\xe0\x02\x25\x01\x1a\x01" * 4_000
    talk = Talk()
    talk.pieces(data, 1400, 1000)
    assert not list(units(talk.segments, plausible=refuse))
    assert 0 < sum(asked) < 2 * len(data)


def test_low_latency_is_found_in_mid_stream() -> None:
    pushes = [b"\x3d\x00\x04a/bc\x01" + bytes([20]) + bytes(20) for _ in range(12)]
    talk = Talk()
    talk.pieces(b"".join(prefixed(push, 4) for push in pushes)[9:], 100, 1000)
    seen = list(units(talk.segments))
    assert batches(seen) == pushes[1:]
    assert seen[0].way.framing is Framing.LONG


# Framings -----------------------------------------------------------------------------------------


def set_both(way: Way, framing: Framing) -> None:
    way.framing = way.opposite.framing = framing


def test_framing_set_between_units_holds_for_the_next_batch_of_the_segment() -> None:
    talk = Talk().open()
    talk.say(prefixed(PUTS[0]) + prefixed(PUTS[1], 4) + prefixed(PUTS[2], 4))
    talk.say(prefixed(PUTS[3], 4), back=True)
    seen = []
    for unit in units(talk.segments):
        seen.append(unit)
        if isinstance(unit, Batch) and unit.data == PUTS[0]:
            set_both(unit.way, Framing.LONG)
    assert batches(seen) == [*HANDSHAKE, *PUTS[:4]]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_either_framing_goes_by_each_length_until_one_is_long(size: int) -> None:
    talk = Talk().open()
    talk.say(prefixed(PUTS[0]))
    rest = [prefixed(PUTS[1]), prefixed(b""), prefixed(b"\x04"), prefixed(PUTS[2], 4), prefixed(b"\x04", 4)]
    talk.pieces(b"".join(rest), size, talk.forward)
    seen = []
    for unit in units(talk.segments):
        seen.append(unit)
        if isinstance(unit, Batch) and unit.data == PUTS[0]:
            set_both(unit.way, Framing.EITHER)
    assert batches(seen) == [*HANDSHAKE, *PUTS[:2], b"", b"\x04", PUTS[2], b"\x04"]
    assert seen[-1].way.framing is Framing.LONG
    assert seen[-1].way.opposite.framing is Framing.EITHER


@pytest.mark.parametrize(("prefix", "after"), [(2, Framing.EITHER), (4, Framing.LONG)])
def test_either_framing_finds_batches_of_both_kinds_after_a_loss(prefix: int, after: Framing) -> None:
    # In low latency network messages travel bare.
    sent = PUTS if prefix == 2 else [batch[3:] for batch in PUTS]
    talk = Talk().open()
    for batch in sent:
        talk.say(prefixed(batch, prefix))
    del talk.segments[-15]
    seen = []
    for unit in units(talk.segments):
        seen.append(unit)
        if isinstance(unit, Batch) and unit.data == OPEN_ACK:
            set_both(unit.way, Framing.EITHER)
    assert batches(seen) == [*HANDSHAKE, *sent[:5], *sent[6:]]
    assert seen[-1].way.framing is after


def low_latency(data: bytes, limits: Limits | None = None) -> list[Unit]:
    talk = Talk().open()
    talk.say(data, flags=FIN | ACK)
    seen = []
    for unit in units(talk.segments, limits=limits):
        seen.append(unit)
        if isinstance(unit, Batch) and unit.data == OPEN_ACK:
            set_both(unit.way, Framing.LONG)
    return seen[4:]


@pytest.mark.parametrize("header", [b"", b"\0"], ids=["plain", "compression"])
def test_last_close_of_low_latency_with_a_short_length_is_a_batch(header: bytes) -> None:
    seen = low_latency(prefixed(PUTS[0], 4) + prefixed(b"\x03\0", 4) + prefixed(header + b"\x03\0"))
    assert batches(seen) == [PUTS[0], b"\x03\0", b"\x03\0"]
    assert not gaps(seen)


def test_length_in_low_latency_that_is_not_believed_is_passed_over() -> None:
    seen = low_latency(b"\xff" * 4 + b"".join(prefixed(b"\x3d\x00\x04a/bc\x01\x01\x00", 4) for _ in range(4)))
    assert len(batches(seen)) == 4
    assert gaps(seen) == [(0, 4)]


def test_empty_batch_is_a_batch() -> None:
    talk = Talk().open()
    talk.say(b"\0\0" + STREAM)
    assert heard(talk.segments) == [*HANDSHAKE, b"", *PUTS]


def test_init_that_is_answered_with_close() -> None:
    talk = Talk()
    talk.syn()
    talk.say(prefixed(INIT_SYN))
    talk.say(prefixed(b"\x03\x02"), back=True)
    assert heard(talk.segments) == [INIT_SYN, b"\x03\x02"]


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_handshake_in_pieces_of_any_size_is_recognised(size: int) -> None:
    talk = Talk()
    talk.syn()
    talk.pieces(prefixed(INIT_SYN) + prefixed(OPEN_SYN) + STREAM, size, talk.forward)
    assert heard(talk.segments) == [INIT_SYN, OPEN_SYN, *PUTS]


# Foreign traffic ----------------------------------------------------------------------------------

RANDOM = random.Random(7).randbytes(200_000)
TLS = b"".join(
    b"\x17\x03\x03" + (1400).to_bytes(2, "big") + RANDOM[at : at + 1400] for at in range(0, 140_000, 1400)
)
CLIENT_HELLO = bytes.fromhex("160301090a01000906") + RANDOM[:2310]
FOREIGN = {
    "tls": CLIENT_HELLO + TLS,
    "http": b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
    "http answer": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "ssh": b"SSH-2.0-OpenSSH_9.6\r\n" + RANDOM,
    "random": RANDOM,
    "zeros": bytes(100_000),
    "text": b"The quick brown fox jumps over the lazy dog.\r\n" * 3000,
    "counting": b"".join(number.to_bytes(4, "little") for number in range(30_000)),
    "tls records": TLS,
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("inside", [False, True], ids=["from its start", "from the middle"])
@pytest.mark.parametrize("size", [100, 1448])
def test_foreign_stream_is_left_alone(name: str, inside: bool, size: int) -> None:
    # On our port strict decoding has the last word on what looks like a batch, as it has for all who read captures.
    for service, check in ((80, plausible), (7447, is_batch)):
        talk = Talk(service=service)
        if not inside:
            talk.syn()
        talk.pieces(FOREIGN[name], size, talk.forward)
        assert list(units(talk.segments, plausible=check)) == []


def test_foreign_streams_by_the_hundred_are_left_alone_from_the_middle() -> None:
    chance = random.Random(3)
    segments = []
    for port in range(300):
        talk = Talk(port=port + 1)
        talk.pieces(chance.randbytes(3000), chance.choice([60, 500, 1448]), 77)
        segments += talk.segments
    assert list(units(segments)) == []


def test_every_datagram_is_handed_out() -> None:
    ends = join_ends(HERE, THERE, 1, 7446)
    back = join_ends(THERE, HERE, 7446, 1)
    quic = Segment(1, 5, False, ends, 0, 0, 0, b"\xc0\0\0\0\x01", 0)
    answer = quic._replace(number=2, ends=back)
    cut = quic._replace(number=3, missing=7)
    first, second, third = units([quic, answer, cut])
    assert isinstance(first, Datagram)
    assert isinstance(second, Datagram)
    assert (first.data, first.time, first.way.forward, second.way.forward) == (quic.data, 5, True, False)
    assert first.way.link is second.way.link
    assert isinstance(third, Gap)
    assert (third.missing, third.skipped) == (7, 5)


# WebSocket ----------------------------------------------------------------------------------------

GET = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\n\r\n"
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nConnection: Upgrade\r\n\r\n"


def ws(data: bytes, *, first: int = 0x82, mask: bytes = b"", wide: int = 0) -> bytes:
    size = len(data)
    masked = 0x80 if mask else 0
    if size < 126 and not wide:
        head = bytes([first, masked | size])
    elif size < 2**16 and wide < 8:
        head = bytes([first, masked | 126]) + size.to_bytes(2, "big")
    else:
        head = bytes([first, masked | 127]) + size.to_bytes(8, "big")
    return head + mask + bytes(byte ^ mask[at % 4] if mask else byte for at, byte in enumerate(data))


WS_STREAM = (
    ws(PUTS[0], mask=b"abcd")
    + ws(b"", first=0x89)
    + ws(PUTS[1], wide=2)
    + ws(PUTS[2], wide=8, mask=b"\xff\0\xff\1")
    + ws(PUTS[3][:5], first=0x02)
    + ws(b"ping", first=0x89, mask=b"wxyz")
    + ws(PUTS[3][5:9], first=0x00, mask=b"wxyz")
    + ws(PUTS[3][9:], first=0x80)
    + ws(b"text", first=0x81)
    + ws(PUTS[4])
)


@pytest.mark.parametrize("size", [1, 5, 33, 10_000])
def test_websocket_messages_are_batches(size: int) -> None:
    talk = Talk()
    talk.syn()
    talk.pieces(GET + ws(INIT_SYN, mask=b"abcd") + WS_STREAM, size, talk.forward)
    for at in range(0, len(SWITCH), size):
        talk.say(SWITCH[at : at + size], back=True)
    talk.say(ws(PUTS[5]), back=True)
    seen = list(units(talk.segments))
    assert batches(seen) == [INIT_SYN, *PUTS[:6]]
    assert seen[0].way.framing is Framing.WEBSOCKET
    assert not gaps(seen)


@pytest.mark.parametrize("port", [7447, 9000])
@pytest.mark.parametrize("size", [5, 10_000])
def test_request_that_is_answered_with_an_upgrade_was_one_on_the_port_of_zenoh(size: int, port: int) -> None:
    talk, asks = Talk(service=port), GET.replace(b"Upgrade: websocket", b"Upgrad: websocket")
    talk.syn()
    for at in range(0, len(asks), size):
        talk.say(asks[at : at + size])
    talk.say(SWITCH.replace(b"HTTP/1.1", b"HTTP/1.0"), back=True)
    talk.say(ws(INIT_SYN, mask=b"abcd"))
    talk.say(ws(INIT_ACK), back=True)
    assert batches(units(talk.segments)) == [INIT_SYN, INIT_ACK][port != 7447 :]


@pytest.mark.parametrize("asks", [GET, GET.replace(b"Upgrade: websocket", b"Upgrad: websocket")])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("size", [5, 10_000])
def test_websocket_is_heard_from_its_upgrade_on_whose_syn_is_missing_or_late(
    size: int, late: bool, asks: bytes
) -> None:
    talk = Talk()
    talk.syn()
    syns, talk.segments = talk.segments, []
    for data, back in ((asks, False), (SWITCH, True), (ws(INIT_SYN, mask=b"abcd"), False)):
        for at in range(0, len(data), size):
            talk.say(data[at : at + size], back=back)
    talk.segments += syns if late else []
    talk.say(ws(INIT_ACK), back=True)
    talk.say(ws(OPEN_SYN, mask=b"abcd"))
    seen = list(units(talk.segments))
    assert batches(seen) == [INIT_SYN, INIT_ACK, OPEN_SYN]
    assert {unit.way.link.number for unit in seen} == {0}
    assert not gaps(seen)


def test_request_that_the_capture_has_cut_off_is_answered_with_no_upgrade() -> None:
    talk = Talk()
    talk.syn()
    talk.add(GET[:20], talk.forward, missing=len(GET) - 20)
    talk.forward += len(GET)
    talk.say(b"HTTP/1.1 400 Bad Request\r\n\r\n", back=True)
    for batch in (INIT_SYN, OPEN_SYN, *PUTS):
        talk.say(ws(batch, mask=b"abcd"))
    assert batches(units(talk.segments)) == []


@pytest.mark.parametrize(
    "answer",
    [
        SWITCH.replace(b"\r\n\r\n", b"\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
    ids=["with compression", "refused"],
)
def test_websocket_that_cannot_be_read_is_foreign(answer: bytes) -> None:
    talk = Talk()
    talk.syn()
    talk.say(GET)
    talk.say(answer, back=True)
    talk.say(ws(PUTS[0]))
    assert list(units(talk.segments)) == []


@pytest.mark.parametrize("back", [False, True])
def test_websocket_that_does_not_begin_with_init_is_foreign(back: bool) -> None:
    talk = Talk()
    talk.syn()
    talk.say(GET)
    talk.say(SWITCH, back=True)
    for batch in PUTS:
        talk.say(ws(batch), back=back)
    assert list(units(talk.segments)) == []


def test_websocket_whose_init_is_answered_with_close() -> None:
    talk = Talk()
    talk.syn()
    talk.say(GET)
    talk.say(SWITCH, back=True)
    talk.say(ws(INIT_SYN, mask=b"abcd"))
    talk.say(ws(b"\x03\x02"), back=True)
    assert heard(talk.segments) == [INIT_SYN, b"\x03\x02"]


def test_websocket_finds_the_next_message_after_a_loss() -> None:
    talk = Talk()
    talk.syn()
    talk.say(GET)
    talk.say(SWITCH, back=True)
    talk.say(ws(INIT_SYN, mask=b"abcd"))
    for index, batch in enumerate(PUTS):
        whole = ws(batch, mask=b"abcd")
        if index == 5:
            talk.forward += 9
            whole = whole[9:]
        talk.say(whole)
    seen = list(units(talk.segments))
    assert batches(seen) == [INIT_SYN, *PUTS[:5], *PUTS[6:]]
    assert gaps(seen) == [(9, len(ws(PUTS[5], mask=b"abcd")) - 9)]


@pytest.mark.parametrize("bad", [b"\xc2\x01a", b"\x83\x01a", b"\x09\x00", b"\x89\x7e\x00\x90", b"\x80\x01a"])
def test_what_is_no_websocket_frame_is_passed_over_and_told(bad: bytes) -> None:
    talk = Talk()
    talk.syn()
    talk.say(GET + ws(INIT_SYN) + bad + b"".join(map(ws, PUTS)))
    seen = list(units(talk.segments))
    assert batches(seen) == [INIT_SYN, *PUTS]
    assert gaps(seen) == [(0, len(bad))]


def test_message_that_another_one_interrupts_is_given_up() -> None:
    talk = Talk()
    talk.syn()
    talk.say(GET)
    first, *others = PUTS[:6]
    for one in (ws(INIT_SYN), b"\x02" + ws(first)[1:], *map(ws, others)):
        talk.say(one)
    seen = list(units(talk.segments))
    assert batches(seen) == [INIT_SYN, *others]
    assert gaps(seen) == [(0, len(first))]


# Bounds -------------------------------------------------------------------------------------------


def test_links_are_forgotten_when_there_are_too_many() -> None:
    segments = []
    for port in range(1, 200):
        talk = Talk(port=port).open()
        talk.say(STREAM[:-1])
        segments += talk.segments
    seen = list(units(segments, limits=Limits(links=8)))
    assert len(batches(seen)) == 199 * (4 + 19)
    assert len(gaps(seen)) == 199


def test_what_waits_in_all_is_bounded() -> None:
    segments = []
    for port in range(1, 100):
        talk = Talk(port=port).open()
        talk.forward += 10
        talk.say(STREAM)
        segments += talk.segments
    seen = list(units(segments, limits=Limits(held=5_000)))
    first_gap = next(at for at, unit in enumerate(seen) if isinstance(unit, Gap))
    assert first_gap < len(seen) // 4
    assert len(batches(seen)) == 99 * (4 + 20)


# The short way ------------------------------------------------------------------------------------


def flat(seen: Iterable[Unit]) -> list[tuple[object, ...]]:
    return [(type(unit), unit.way.link.number, unit.way.forward, *unit[1:]) for unit in seen]


def switching(seen: Iterable[Unit]) -> list[tuple[object, ...]]:
    """A consumer that changes the framing now and then."""
    out = []
    for at, unit in enumerate(seen):
        out.append(flat([unit])[0])
        if at % 11 == 10:
            unit.way.framing = Framing.LONG
        elif at % 17 == 16:
            unit.way.framing = Framing.SHORT
    return out


def as_capture(segments: Iterable[Segment]) -> bytes:
    packets = []
    for segment in segments:
        raw = tcp(
            segment.data, seq=segment.seq, sport=segment.sport, dport=segment.dport, flags=segment.flags
        )
        packets.append(ethernet(ipv4(raw)))
    return pcap(packets)


@st.composite
def sessions(draw: st.DrawFn) -> list[Segment]:
    """A session cut, repeated, mixed up and holed at will."""
    talk = Talk(forward=draw(st.sampled_from([1000, 2**32 - 150])))
    if draw(st.booleans()):
        talk.open()
    stream = b"".join(
        prefixed(put(sn, bytes(draw(st.integers(0, 80))))) for sn in range(draw(st.integers(1, 12)))
    )
    at = 0
    while at < len(stream):
        size = draw(st.integers(1, 90))
        talk.say(stream[at : at + size])
        at += size
        if draw(st.booleans()):
            talk.acknowledge()
    talk.say(b"", flags=draw(st.sampled_from([ACK, FIN | ACK, RST, SYN])))
    segments = talk.segments
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(segments) - 1))
        match draw(st.sampled_from(["again", "lost", "later"])):
            case "again":
                segments.insert(draw(st.integers(place, len(segments))), segments[place])
            case "lost" if len(segments) > 1:
                del segments[place]
            case _:
                segments.insert(draw(st.integers(0, len(segments) - 1)), segments.pop(place))
    return segments


@settings(max_examples=300)
@given(sessions())
def test_short_way_says_what_the_long_way_says(segments: list[Segment]) -> None:
    raw = as_capture(segments)
    for listen in (flat, switching):
        assert listen(units_of(io.BytesIO(raw))) == listen(units(read(io.BytesIO(raw))))


def test_header_that_is_too_short_is_no_segment_the_short_way_either() -> None:
    talk = Talk().open()
    seq = talk.forward
    packets = [tcp(STREAM, seq=seq)[:12] + b"\x40" + tcp(STREAM, seq=seq)[13:], tcp(STREAM, seq=seq)]
    raw = as_capture(talk.segments) + pcap([ethernet(ipv4(packet)) for packet in packets])[24:]
    assert batches(units_of(io.BytesIO(raw))) == [*HANDSHAKE, *PUTS]


@settings(max_examples=150)
@given(
    st.lists(st.integers(1, 400), min_size=1), st.randoms(use_true_random=False), st.integers(0, 2**32 - 1)
)
def test_batches_do_not_depend_on_how_the_stream_is_cut_and_repeated(
    sizes: list[int], chance: random.Random, start: int
) -> None:
    talk = Talk(forward=start).open()
    at = 0
    for size in sizes:
        talk.say(STREAM[at : at + size])
        at += size
    talk.say(STREAM[at:])
    segments = talk.segments[:6]
    later = talk.segments[6:]
    later += chance.choices(later, k=len(later) // 2)
    chance.shuffle(later)
    seen = list(units([*segments, *later]))
    assert batches(seen) == [*HANDSHAKE, *PUTS]
    assert not gaps(seen)


@pytest.mark.parametrize(
    "batch", [*PUTS[:1], INIT_SYN, OPEN_SYN, b"\x04", b"\x03\0", b"\x01\xf0\x05" + PUTS[0]]
)
def test_real_batches_are_plausible(batch: bytes) -> None:
    assert plausible(batch)


@pytest.mark.parametrize("junk", [b"", b"GET / HTTP", b"\x04\x04\x99", b"\x25\xff", b"\x65\x01\x3d", b"\x08"])
def test_junk_is_not_plausible(junk: bytes) -> None:
    assert not plausible(junk)


def test_place_where_nothing_can_be_read_is_not_found_again_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def look(cutter: Cutter, **_: object) -> tuple[Found, Framing]:
        looks.append(len(cutter.buffer))
        assert len(looks) < 100
        return Found(0, 99), Framing.LONG

    monkeypatch.setattr(Cutter, "_look", look)
    way = Link(0, True, Endpoint("127.0.0.1", 50000), Endpoint("127.0.0.1", 7447), is_batch).ways[0]
    way.framing, way.begun = Framing.LONG, True
    seen = list(Cutter(way, Limits()).take(Piece(1, 0, b"\xff" * 12)))
    # One byte less each time, until a length may go on in what is to come.
    assert looks == list(range(12, 2, -1))
    assert seen
    assert all(isinstance(unit, Gap) for unit in seen)


def test_answer_with_a_short_length_where_the_other_end_has_long_ones_says_nothing_of_what_follows() -> None:
    link = Link(0, True, Endpoint("127.0.0.1", 50000), Endpoint("127.0.0.1", 7447), is_batch)
    link.ways[0].framing, link.ways[0].begun = Framing.LONG, True
    cutter = Cutter(link.ways[1], Limits())
    # A CLOSE as real nodes leave low latency, then a batch as they say it there.
    assert batches(cutter.take(Piece(1, 0, b"\x02\0\x03\0"))) == [b"\x03\0"]
    assert batches(cutter.take(Piece(2, 0, len(PUTS[0]).to_bytes(4, "little") + PUTS[0]))) == [PUTS[0]]
