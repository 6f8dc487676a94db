"""``sniff(session=ZenohSession)``: one packet for each message, with its headers and what is known."""

from __future__ import annotations

import copy
import json
import multiprocessing
import pickle
from collections.abc import Callable
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

from scapy_layers import all as all_layers
from scapy_layers import capture
from scapy_layers.all import Declare, Fragment, Frame, Hello, Init, Push, Put, Response, Scout
from scapy_layers.conversation import Heard, listen
from scapy_layers.zenoh_session import Zenoh, ZenohSession
from tests.agreement.damage import lengthened
from tests.scapy_layers.lua.wire import Talk, push, save
from tests.scapy_layers.packets import pcap
from tests.scapy_layers.tunnels import TUNNELS

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


@pytest.mark.parametrize("kind", TUNNELS)
@pytest.mark.parametrize("name", ["history", "udp6"])
def test_packet_in_a_tunnel_has_the_headers_of_what_it_carries(name: str, kind: str, tmp_path: Path) -> None:
    captured = rdpcap(str(PCAPS / f"{name}.pcapng"))
    path = tmp_path / "tunnel.pcap"
    path.write_bytes(pcap(TUNNELS[kind](bytes(one)) for one in captured))
    found = sniff(offline=str(path), session=ZenohSession, quiet=True)
    expected = sniff(offline=captured, session=ZenohSession, quiet=True)
    of_ip = IP if name == "history" else IPv6
    assert len(found) == len(expected) > 5
    for packet, other in zip(found, expected, strict=True):
        ports = packet.getlayer(TCP) or packet.getlayer(UDP)
        assert packet[Zenoh].underlayer is ports
        assert (packet.firstlayer().src, ports.sport) == (other[of_ip].src, other[of_ip].payload.sport)
        assert bytes(packet[Zenoh].payload) == bytes(other[Zenoh].payload)


def test_datagrams_of_both_ip_versions() -> None:
    assert all(UDP in one for one in packets("scouting")[:2])
    assert [type(one[Zenoh].payload) for one in packets("scouting")[:2]] == [Scout, Hello]
    assert all(IPv6 in one for one in packets("udp6"))


def test_copy_and_filter_keep_what_is_known() -> None:
    found = packets("declarations", lfilter=_has_key)
    assert found
    assert found[0].copy().keyexpr == found[0].keyexpr
    assert Declare in found[0]


def _again(packet: Any) -> Any:
    return pickle.loads(pickle.dumps(packet))


@pytest.mark.parametrize("again", [_again, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("name", ["query", "scouting", "udp6", "unresponsive", "fragments"])
def test_packet_keeps_its_message_when_it_is_pickled_or_copied(
    name: str, again: Callable[[Any], Any]
) -> None:
    for packet in packets(name):
        other = again(packet)
        assert [type(layer) for layer in other.iterpayloads()] == [
            type(layer) for layer in packet.iterpayloads()
        ]
        assert (bytes(other), other.summary(), other.time) == (bytes(packet), packet.summary(), packet.time)
        known = (other.heard.number, other.source_zid, other.keyexpr, other.pieces, other.remarks)
        heard = packet.heard
        assert known == (heard.number, heard.source_zid, heard.keyexpr, heard.pieces, heard.remarks)


def test_parts_of_a_packet_keep_their_message_when_they_are_pickled() -> None:
    packet = next(one for one in packets("put_delete") if Put in one)
    for part in (packet[IP], packet[TCP], packet[Zenoh], packet / Raw(b"behind")):
        other = _again(part)
        assert other.summary() == part.summary()
        assert other.lastlayer() == part.lastlayer()


def test_list_of_packets_is_pickled_with_one_session() -> None:
    found = sniff(offline=str(PCAPS / "put_delete.pcapng"), session=ZenohSession, quiet=True)
    sessions = {id(one.heard.session) for one in found}
    again = _again(found)
    assert [one.summary() for one in again] == [one.summary() for one in found]
    assert len({id(one.heard.session) for one in again}) == len(sessions)


def test_shallow_copy_can_be_changed_alone() -> None:
    packet = next(one for one in packets("put_delete") if Put in one)
    other = copy.copy(packet)
    before = bytes(packet)
    other[IP].src = "192.0.2.1"
    other[TCP].options.append(("NOP", None))
    other[Put].data = b"another"
    assert bytes(packet) == before
    assert bytes(other) != before


def test_packets_without_zenoh_are_pickled_as_before() -> None:
    packet = packets("put_delete")[0]
    plain = packet.copy()
    plain[TCP].remove_payload()
    plain /= Raw(b"x")
    assert bytes(_again(plain)) == bytes(plain)
    assert Raw in _again(plain)


def test_packets_go_to_another_process_and_back() -> None:
    packet = next(one for one in packets("put_delete") if Put in one)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        other = pool.apply(copy.copy, (packet,))
    assert (other.summary(), bytes(other)) == (packet.summary(), bytes(packet))


def test_json_of_a_packet_has_what_is_known() -> None:
    found = packets("put_delete")
    for packet in found:
        json.loads(packet.json())
    packet = next(one for one in found if Put in one)
    zenoh = json.loads(packet[Zenoh].json())
    message = zenoh.pop("payload")
    assert zenoh == {
        "number": packet.heard.number,
        "source_zid": "b1" * 16,
        "target_zid": "a1" * 16,
        "keyexpr": "demo/plain",
        "remarks": [],
    }
    assert message["body"]["data"] == "no encoding"
    assert json.loads(Zenoh().json())["keyexpr"] is None
    assert eval(packet[Zenoh].command(), vars(all_layers) | {"Zenoh": Zenoh}).payload == packet[Push]


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
