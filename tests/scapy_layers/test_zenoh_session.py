"""``sniff(session=ZenohSession)``: one packet for each message, with its headers and what is known."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot3, Ether
from scapy.packet import Raw
from scapy.sendrecv import sniff
from scapy.utils import rdpcap, wrpcap

from scapy_layers import capture
from scapy_layers.all import Declare, Fragment, Frame, Hello, Init, Push, Put, Response, Scout
from scapy_layers.conversation import Heard, listen
from scapy_layers.zenoh_session import Zenoh, ZenohSession
from tests.agreement.damage import lengthened
from tests.scapy_layers.lua.wire import Talk, push, save
from tests.scapy_layers.packets import pcap

PCAPS = Path(__file__).parents[2] / "pcaps"


def packets(name: str, **options: Any) -> list[Any]:
    return list(sniff(offline=str(PCAPS / f"{name}.pcapng"), session=ZenohSession, quiet=True, **options))


@pytest.mark.parametrize("path", sorted(PCAPS.glob("*.pcapng")), ids=lambda path: path.stem)
def test_messages_are_those_of_the_passive_reader(path: Path) -> None:
    expected = [
        (heard.number, heard.message.name, heard.keyexpr)
        for heard in listen(capture.read(path))
        if isinstance(heard, Heard)
        and (heard.remarks or not (isinstance(heard.message, Frame) and heard.message.messages))
    ]
    found = sniff(offline=str(path), session=ZenohSession, quiet=True)
    assert [(one.heard.number, one.heard.message.name, one.keyexpr) for one in found] == expected


def test_packet_has_headers_time_and_message() -> None:
    raw = rdpcap(str(PCAPS / "put_delete.pcapng"))
    found = next(one for one in packets("put_delete") if Put in one)
    origin = raw[found.heard.number - 1]
    assert [type(found), found[IP].src, found[TCP].sport] == [Ether, origin[IP].src, origin[TCP].sport]
    assert found.time == pytest.approx(float(origin.time))
    assert isinstance(found[Zenoh].payload, Push)
    assert found[Put].data == b"no encoding"
    assert (found.keyexpr, found.source_zid, found.target_zid) == ("demo/plain", "b1" * 16, "a1" * 16)
    assert found.remarks == []


def test_packet_can_be_built_again() -> None:
    found = next(one for one in packets("put_delete") if Put in one)
    again = Ether(bytes(found))
    assert again[TCP].payload.load == bytes(found[Push])
    assert again[IP].len == len(bytes(found[IP]))


def test_numbers_lead_to_the_packets_that_were_captured(tmp_path: Path) -> None:
    captured = rdpcap(str(PCAPS / "query.pcapng"))
    found = sniff(
        offline=captured, session=ZenohSession, lfilter=lambda packet: Response in packet, quiet=True
    )
    part = [captured[number - 1] for number in sorted({packet.heard.number for packet in found})]
    wrpcap(str(tmp_path / "part.pcap"), part)
    again = sniff(offline=str(tmp_path / "part.pcap"), session=ZenohSession, quiet=True)
    replies = [
        sorted(bytes(one[Response]) for one in packets if Response in one) for packets in (found, again)
    ]
    assert replies[0]
    assert replies[0] == replies[1]


def test_packet_with_a_length_in_its_frame_can_be_built_again(tmp_path: Path) -> None:
    path = tmp_path / "llc.pcap"
    path.write_bytes(pcap([lengthened(bytes(one)) for one in rdpcap(str(PCAPS / "put_delete.pcapng"))]))
    for found in sniff(offline=str(path), session=ZenohSession, quiet=True):
        again = Dot3(bytes(found))
        assert again.len == len(again) - len(Ether())
        assert again[TCP].payload.load == bytes(found[Zenoh])


def test_datagrams_of_both_ip_versions() -> None:
    assert all(UDP in one for one in packets("scouting")[:2])
    assert [type(one[Zenoh].payload) for one in packets("scouting")[:2]] == [Scout, Hello]
    assert all(IPv6 in one for one in packets("udp6"))


def test_copy_and_filter_keep_what_is_known() -> None:
    found = packets("declarations", lfilter=_has_key)
    assert found
    assert found[0].copy().keyexpr == found[0].keyexpr
    assert Declare in found[0]


def _has_key(packet: Any) -> bool:
    return packet.keyexpr is not None


def test_fragments_come_with_the_message_they_make() -> None:
    found = packets("fragments")
    whole = next(one for one in found if one.pieces)
    assert isinstance(whole[Zenoh].payload, Push)
    assert any(Fragment in one for one in found)


def test_summary_says_who_says_what() -> None:
    shown = next(one for one in packets("put_delete") if Put in one).summary()
    assert "PUSH" in shown
    assert "'demo/plain'" in shown
    assert " > " in shown


def test_foreign_packets_give_none() -> None:
    foreign = [
        Ether() / IP() / UDP(dport=53) / Raw(b"hello"),
        Ether() / Raw(b"x"),
        IP() / TCP() / Raw(b"GET /"),
    ]
    assert len(sniff(offline=foreign, session=ZenohSession, quiet=True)) == 0


def test_ports_can_be_chosen() -> None:
    found = packets("put_delete")
    port = found[0][TCP].dport
    path = str(PCAPS / "put_delete.pcapng")
    assert len(sniff(offline=path, session=ZenohSession(ports=[port]), quiet=True)) == len(found)
    assert len(sniff(offline=path, session=ZenohSession(ports=[1]), quiet=True)) == 0


def test_loopback_gives_each_packet_once() -> None:
    path = str(PCAPS / "scouting.pcapng")
    twice = [packet for packet in rdpcap(path) for _ in range(2)]
    coming = iter(twice)
    lo = SimpleNamespace(iface="lo", recv=lambda _size: next(coming))
    session = ZenohSession()
    found = [one for _ in twice for one in session.recv(lo)]
    assert [one.heard.message.name for one in found] == [
        one.heard.message.name for one in packets("scouting")
    ]


def test_largest_packets_of_a_loopback_are_taken_whole(tmp_path: Path) -> None:
    packets = Talk().open().frame(push("a", Put(data=bytes(65_483)))).frame(push("b", Put()), sn=2).packets
    assert max(map(len, packets)) == 0xFFFF + 14
    path = save(tmp_path / "t.pcap", packets)
    found = sniff(offline=str(path), session=ZenohSession, quiet=True)
    assert [(one.keyexpr, len(one[Put].data)) for one in found if Put in one] == [("a", 65_483), ("b", 0)]


def test_what_waits_for_a_lost_packet_comes_at_the_end() -> None:
    kept = [one for at, one in enumerate(rdpcap(str(PCAPS / "put_delete.pcapng"))) if at != 32]
    found = sniff(offline=kept, session=ZenohSession, quiet=True)
    assert Init in found[0]
    assert len(found) > len(packets("put_delete")) - 12
