"""What a shell gets: every layer, no junk, and Zenoh known to UDP."""

from __future__ import annotations

import subprocess
import sys

import pytest
from scapy.layers.inet import IP, UDP
from scapy.packet import Packet, Raw

from scapy_layers import all as everything
from scapy_layers import codes, errors
from scapy_layers.all import Batch, Frame, Hello, Init, KeepAlive, Push, Put, Scout
from scapy_layers.batch import Batch as TheBatch
from scapy_layers.catalogue import EXTENSIONS, MESSAGES
from scapy_layers.message import UnknownExtension


def test_every_layer_code_and_error_is_exported() -> None:
    layers = {*MESSAGES, *EXTENSIONS, UnknownExtension, TheBatch}
    numbers = {
        one for name, one in vars(codes).items() if isinstance(one, type) and one.__module__ == codes.__name__
    }
    kinds = {one for one in vars(errors).values() if isinstance(one, type)}
    for cls in layers | numbers | kinds:
        assert cls.__name__ in everything.__all__
        assert getattr(everything, cls.__name__) is cls


def test_star_import_brings_nothing_else() -> None:
    code = (
        "before = set(dir()); from scapy_layers.all import *; import scapy_layers.all as a;"
        "print(sorted(set(dir()) - before - set(a.__all__) - {'before', 'a'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"


def test_no_name_of_scapy_is_hidden() -> None:
    code = "import scapy.all, scapy_layers.all as a; print(sorted(set(a.__all__) & set(dir(scapy.all))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "message", [Scout(zid="aabb"), Hello(zid="5", locators=["tcp/a:1"])], ids=["SCOUT", "HELLO"]
)
@pytest.mark.parametrize("port", ["sport", "dport"])
def test_first_byte_of_a_scouting_datagram_decides(message: Packet, port: str) -> None:
    datagram = IP(bytes(IP() / UDP(**{port: 7446}) / message))
    assert type(datagram[UDP].payload) is type(message)
    assert bytes(datagram[type(message)]) == bytes(message)


def test_ports_are_filled_in() -> None:
    assert (UDP() / Scout()).dport == 7446
    assert (UDP() / Hello()).sport == 7446
    assert (UDP() / Batch()).dport == 7447


@pytest.mark.parametrize("anything", [b"\x00", b"\x1f\x00", b"\xff\xff"])
def test_other_datagrams_of_the_scouting_port_stay_raw(anything: bytes) -> None:
    assert UDP(bytes(UDP(dport=7446) / anything)).payload == Raw(anything)


def test_datagrams_of_the_session_port_are_batches() -> None:
    sent = Batch(messages=[Frame(messages=[Push(key_suffix="a", body=Put(data=b"x"))]), KeepAlive()])
    for got in (UDP(bytes(UDP() / sent)), UDP(bytes(UDP(sport=7447, dport=9) / sent))):
        assert [message.name for message in got[Batch].messages] == ["FRAME", "KEEP_ALIVE"]
        assert got.haslayer(Put)
    cut = UDP(bytes(UDP() / Batch(messages=[Init()]))[:-1])
    assert cut[Batch].messages[0].errors
