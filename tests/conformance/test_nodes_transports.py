"""Where nodes of ours listen, and in which group they hear SCOUTs."""

from __future__ import annotations

import gc
import os
import random
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conformance.config import LONGEST_PATH, PROTOCOLS, UNIX, Locator, RunConfig
from conformance.errors import NodeDidNotStart
from conformance.nodes import Node, node_of, places, pypi
from conformance.nodes.attach import AttachedNode
from conformance.nodes.certificates import certificates
from conformance.nodes.places import KEPT, Places, free_port, reached, settled
from conformance.nodes.pypi import PypiNode
from conformance.profiles import load_profile
from conformance.tester import Tester
from scapy_layers.network import Push
from scapy_layers.scouting import Hello

REPLY = 5.0


def config(node: str, folder: Path, *transports: str, profile: str = "") -> RunConfig:
    return RunConfig(
        node=node, run_dir=folder, run_id="r", seed=1, transports=transports or ("tcp",), profile=profile
    )


def hello_of(node: Node) -> Hello:
    assert node.scouting is not None
    tester = node.tester(REPLY)
    try:
        scout = tester.scout(node.scouting)
        scout.scout()
        hello: Hello = scout.expect(Hello)
        return hello
    finally:
        tester.close()


def carries(tester: Tester, locator: Locator) -> None:
    sub, pub = tester.session(locator=locator), tester.session(locator=locator)
    sub.declare_subscriber("a")
    pub.put("a", b"1")
    assert bytes(sub.expect(Push, key="a").body.data) == b"1"


@pytest.mark.parametrize("way", ["pypi", "ref"])
def test_node_listens_on_all_transports_of_the_run(tmp_path: Path, way: str) -> None:
    node = node_of(config(way, tmp_path, *PROTOCOLS))
    with node:
        assert set(node.locators) == set(PROTOCOLS)
        assert node.locator == node.locators["tcp"]
        tester = Tester(node.locator, random.Random(1), REPLY, node.tls)
        try:
            for proto, locator in node.locators.items():
                assert locator.proto == proto
                assert node.lacks(proto) == ""
                carries(tester, locator)
        finally:
            tester.close()
        path = Path(node.locators[UNIX].path)
        assert path.exists()
        assert len(os.fsencode(path)) <= LONGEST_PATH
    assert not path.parent.exists()


@pytest.mark.parametrize("way", ["pypi", "ref"])
def test_node_hears_scouts_in_a_group_of_its_own(tmp_path: Path, way: str) -> None:
    with node_of(config(way, tmp_path)) as node, node_of(config(way, tmp_path, profile="")) as other:
        assert hello_of(node).locators == [str(node.locator)]
        assert node.scouting != other.scouting
        assert list(node.locators) == ["tcp"]
        assert "over udp" in node.lacks("udp")


@pytest.mark.parametrize("way", ["pypi", "ref"])
def test_variant_scouts_apart_unless_it_is_told_where(tmp_path: Path, way: str) -> None:
    with node_of(config(way, tmp_path, "tcp", "ws")) as node:
        assert node.scouting is not None
        with node.variant(mode="peer") as variant:
            assert variant.scouting != node.scouting
            assert set(variant.locators) == {"tcp", "ws"}
            assert hello_of(variant).locators
        address = f"{node.scouting.host}:{node.scouting.port}"
        assert node.variant(scouting__multicast__address=address).scouting == node.scouting
        assert node.variant(scouting__multicast__enabled=False).scouting is None


def test_node_that_was_not_told_to_scout_does_not(tmp_path: Path) -> None:
    node = PypiNode(tmp_path)
    assert node.scouting is None
    assert node.variant(mode="peer").scouting is None


def test_foreign_node_on_this_machine_is_asked_in_the_default_group() -> None:
    here, outside = Locator("tcp", "127.0.0.1", 1), Locator("tcp", "192.0.2.1", 1)
    assert str(AttachedNode(here).scouting) == "udp/224.0.0.224:7446#iface=lo"
    assert AttachedNode(outside).scouting is None
    assert AttachedNode(here, load_profile("zenoh-pico")).scouting is None


def test_foreign_node_over_tls_is_trusted(tmp_path: Path) -> None:
    with node_of(config("ref", tmp_path, "tls")) as node:
        attached = node_of(config(str(node.locators["tls"]), tmp_path))
        with attached:
            attached.ask(REPLY)
            assert attached.zid == node.zid
            assert attached.problem(REPLY) == ""
            assert "over tcp" in attached.lacks("tcp")


def test_certificates_are_made_once_a_run(tmp_path: Path) -> None:
    made = certificates(tmp_path / "tls")
    assert made.ca is not None
    before = made.ca.read_bytes()
    assert certificates(tmp_path / "tls").ca == made.ca
    assert made.ca.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["tls"]


def test_port_that_somebody_takes_in_between_is_chosen_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = iter([taken.getsockname()[1]])
        monkeypatch.setattr(
            places, "free_port", lambda proto, host="127.0.0.1": next(ports, 0) or free_port(proto, host)
        )
        with PypiNode(tmp_path, transports=("tcp", "ws")) as node:
            assert node.starts == 2
            assert node.locators["ws"].port != taken.getsockname()[1]


def test_port_is_chosen_by_one_process_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = free_port("tcp"), free_port("tcp")
    elsewhere = (
        "from conformance.nodes import places\n"
        "places.PORTS = ({0}, {0} + 1)\n"
        "try: print(places.free_port({1!r}))\n"
        "except places.NodeDidNotStart as error: print(error)"
    )

    def chosen(port: int, proto: str) -> str:
        text = elsewhere.format(port, proto)
        return subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, check=True
        ).stdout.strip()

    assert chosen(first, "tcp") == "no port of 127.0.0.1 is free for tcp"
    assert chosen(first, "udp") == str(first)
    monkeypatch.setattr(places, "PORTS", (second, second + 1))
    with pytest.raises(NodeDidNotStart, match="no port"):
        free_port("tcp")
    monkeypatch.undo()
    for _ in range(KEPT):
        free_port("tcp")
    assert chosen(first, "tcp") == str(first)


def test_ports_are_chosen_by_many_threads_at_once() -> None:
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: free_port("tcp"), range(20 * KEPT)))
    gc.collect()
    assert len(found) == 20 * KEPT


def test_transport_that_a_release_was_built_without_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Places, "endpoints", lambda _: ["tcp/127.0.0.1:0", "vsock/VMADDR_CID_ANY:1234"])
    with PypiNode(tmp_path, transports=("tcp", "vsock")) as node:
        assert list(node.locators) == ["tcp"]
        assert node.lacks("vsock") == "eclipse-zenoh 1.10.2 was built without links over vsock"


def test_endpoint_of_the_configuration_wins_over_the_transports(tmp_path: Path) -> None:
    where = "ws/127.0.0.1:0"
    with PypiNode(tmp_path, config={"listen/endpoints": [where]}, transports=("tcp", "udp")) as node:
        assert list(node.locators) == ["ws"]
        assert node.problem(REPLY) == ""


def test_node_that_listens_nowhere_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(NodeDidNotStart, match="does not listen"):
        PypiNode(tmp_path, config={"listen/endpoints": []}).start()


def test_endpoints_that_nobody_understands_stay_as_they_are() -> None:
    assert settled("quic/127.0.0.1:0") == "quic/127.0.0.1:0"
    assert settled("tcp/127.0.0.1:5") == "tcp/127.0.0.1:5"
    assert settled("udp/[::1]:0").startswith("udp/[::1]:")
    group = "udp/239.255.1.1:5000#iface=lo"
    assert reached(["quic/127.0.0.1:1", group, "ws/127.0.0.1:2#x=y"]) == {"ws": Locator("ws", "127.0.0.1", 2)}


def test_two_starts_share_nothing_but_the_names(tmp_path: Path) -> None:
    node = pypi.PypiNode(tmp_path, transports=("tcp", UNIX))
    node.start()
    before = node.locators[UNIX].path
    node.restart()
    assert node.locators[UNIX].path != before
    node.stop()
    assert not Path(node.locators[UNIX].path).exists()
