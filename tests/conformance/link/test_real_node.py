"""The real node over every kind of link: a session by hand."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from conformance.config import START_SECONDS, Locator, Tls
from conformance.link import Link, Links
from conformance.nodes import pypi
from conformance.nodes.places import free_port
from conformance.observe import History
from conformance.recorder import CaptureWriter
from scapy_layers.codes import Kind, WhatAmI
from scapy_layers.message import Message
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Frame, Init, KeepAlive, Open
from tests.conformance.link._ends import PROTOCOLS, Inbox, where

pytest.importorskip("zenoh")


@dataclass
class RealNode:
    """A router that listens on every kind of link."""

    locators: dict[str, Locator]
    scouting: Locator


@pytest.fixture(scope="module")
def node(tls: Tls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    folder = tmp_path_factory.mktemp("node")
    locators = {
        "tcp": Locator("tcp", "127.0.0.1", free_port("tcp")),
        "tls": Locator("tls", "localhost", free_port("tcp")),
        "udp": Locator("udp", "127.0.0.1", free_port("udp")),
        "ws": Locator("ws", "127.0.0.1", free_port("tcp")),
        "unixsock-stream": Locator("unixsock-stream", "", 0, str(folder / "socket")),
    }
    scouting = Locator.parse(f"udp/127.0.0.1:{free_port('udp')}")
    config = {
        **pypi.BASE,
        "listen/endpoints": [str(locator) for locator in locators.values()],
        "transport/link/tls/listen_certificate": str(tls.certificate),
        "transport/link/tls/listen_private_key": str(tls.certificate),
        "scouting/multicast/enabled": True,
        "scouting/multicast/address": f"127.0.0.1:{scouting.port}",
        "scouting/multicast/interface": "lo",
    }
    script = Path(pypi.__file__).with_name("pypi_process.py")
    reading, writing = os.pipe()
    with ExitStack() as stack:
        said = stack.enter_context((folder / "said").open("wb"))
        ready = stack.enter_context(os.fdopen(reading, "rb"))
        process = subprocess.Popen(
            [sys.executable, str(script), str(writing), json.dumps(config), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            pass_fds=[writing],
            env={**os.environ, "RUST_BACKTRACE": "0"},
        )
        os.close(writing)
        try:
            select.select([ready], [], [], START_SECONDS)
            assert ready.readline(), (folder / "said").read_text()
            yield RealNode(locators, scouting)
        finally:
            process.terminate()
            process.wait(5)


def messages(inbox: Inbox, cls: type[Message]) -> list[Message]:
    return [message for seen in inbox.seen for message in seen.contents.messages if isinstance(message, cls)]


def opened(links: Links, link: Link, zid: bytes) -> Inbox:
    """Opens a session by hand."""
    inbox = Inbox().of(link)
    link.send(bytes(Init(whatami=WhatAmI.CLIENT, zid=zid)))
    assert links.wait(lambda: bool(messages(inbox, Init)), 5), link.ended
    (answer,) = messages(inbox, Init)
    assert answer.A
    link.send(bytes(Open(lease=10, T=1, initial_sn=7, cookie=answer.cookie)))
    assert links.wait(lambda: bool(messages(inbox, Open)), 5), link.ended
    return inbox


@pytest.mark.parametrize("proto", PROTOCOLS)
def test_session_opens_over_every_kind_of_link(
    node: RealNode, links: Links, proto: str, tmp_path: Path
) -> None:
    link = links.connect(node.locators[proto], "a")
    inbox = opened(links, link, bytes([1, PROTOCOLS.index(proto) + 1]))
    # INTEREST for tokens, current: the answer is D_FINAL.
    link.send(bytes(Frame(R=1, sn=7)) + bytes.fromhex("39 01 08"))
    assert links.wait(lambda: bool(messages(inbox, Frame)), 5), link.ended
    link.send(bytes(KeepAlive()))
    link.close()
    assert links.history is not None
    with CaptureWriter(tmp_path / "a.pcapng") as capture:
        capture.add(links.history, proto)
    assert (tmp_path / "a.pcapng").stat().st_size > 500


@pytest.mark.parametrize("proto", ["tcp", "tls", "unixsock-stream", "ws"])
def test_handshake_in_single_bytes_is_understood(node: RealNode, links: Links, proto: str) -> None:
    link = links.connect(node.locators[proto], "a")
    link.chunk = lambda: 1
    opened(links, link, bytes([2, PROTOCOLS.index(proto) + 1]))


def test_scout_is_answered_to_the_port_it_came_from(node: RealNode, links: Links) -> None:
    scout = links.datagrams(node.scouting, "scout", group=False, kind=Kind.SCOUTING)
    answers: list[Message] = []
    scout.on_datagram = lambda seen, _: answers.extend(seen.contents.messages)
    scout.send(bytes(Scout(what=7)))
    assert links.wait(lambda: bool(answers), 5)
    (answer,) = answers
    assert isinstance(answer, Hello)
    assert len(answer.locators) >= 5


CLIENT = """
import json, sys, zenoh
config = zenoh.Config()
for path, value in json.loads(sys.argv[1]).items():
    config.insert_json5(path, json.dumps(value))
zenoh.open(config)
"""


@pytest.mark.parametrize("proto", PROTOCOLS)
def test_client_of_the_real_node_reaches_our_listener(
    links: Links, tls: Tls, proto: str, tmp_path: Path
) -> None:
    arrived: list[Inbox] = []
    listener = links.listen(where(proto, tmp_path), lambda link: arrived.append(Inbox().of(link)))
    config = {
        "mode": "client",
        "connect/endpoints": [str(listener.locator)],
        "connect/timeout_ms": 1000,
        "scouting/multicast/enabled": False,
        "transport/link/tls/root_ca_certificate": str(tls.ca),
    }
    said = tmp_path / "said"
    with said.open("wb") as out:
        client = subprocess.Popen([sys.executable, "-c", CLIENT, json.dumps(config)], stdout=out, stderr=out)
    try:
        assert links.wait(lambda: bool(arrived and arrived[0].seen), 10), said.read_text()
        assert arrived[0].seen[0].contents.names.startswith("INIT")
    finally:
        client.kill()
        client.wait()


def test_history_of_a_session_is_kept(node: RealNode, tls: Tls) -> None:
    links = Links(History(), tls)
    opened(links, links.connect(node.locators["tls"], "a"), b"\x03\x01")
    links.close()
    assert links.history is not None
    assert [seen.note for seen in links.history.observations][-1] == "closed by us"
