"""TLS: who trusts whom, and how it ends."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from conformance.config import Locator, Tls
from conformance.errors import LinkFailed, UsageError
from conformance.link import Link, Links, Listener
from conformance.link import tls as encrypted
from conformance.observe import History
from scapy_layers.batch import prefixed
from tests.conformance.link._ends import Inbox, ends_of, where


def never() -> bool:
    return False


def listening(links: Links, folder: Path) -> tuple[Listener, list[Link], Inbox]:
    arrived: list[Link] = []
    inbox = Inbox()

    def on_link(link: Link) -> None:
        arrived.append(link)
        inbox.of(link)

    return links.listen(where("tls", folder), on_link), arrived, inbox


def connecting(links: Links, tls: Tls, listener: Listener) -> Link:
    """Connects with other certificates than the listener's, in the same loop."""
    links._tls = tls
    links._contexts.pop(False, None)
    return links.connect(listener.locator, "a")


def test_node_that_nobody_vouches_for_is_refused(links: Links, tls: Tls, tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    listener, arrived, _ = listening(links, tmp_path)
    with pytest.raises(LinkFailed, match="certificate was not accepted"):
        connecting(links, replace(tls, ca=tmp_path / "other.pem"), listener)
    links.wait(never, 0.05)
    assert arrived == []
    assert not links.links


def test_node_with_another_name_is_refused_unless_names_do_not_matter(links: Links, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("elsewhere.example").private_key_and_cert_chain_pem.write_to_path(
        tmp_path / "node.pem"
    )
    links._tls = Tls(ca=tmp_path / "ca.pem", certificate=tmp_path / "node.pem")
    listener, arrived, _ = listening(links, tmp_path)
    with pytest.raises(LinkFailed, match="certificate was not accepted"):
        links.connect(listener.locator, "a")
    connecting(links, replace(links._tls, verify=False), listener)
    links.wait(lambda: bool(arrived), 5)
    assert arrived


def test_whoever_shows_no_certificate_is_refused_where_one_is_demanded(tls: Tls, tmp_path: Path) -> None:
    links = Links(History(), replace(tls, mutual=True))
    try:
        listener, arrived, inbox = listening(links, tmp_path)
        # In TLS 1.3 the one who connects is through before its certificate was looked at.
        link = connecting(links, Tls(ca=tls.ca), listener)
        assert links.wait(lambda: link.ended is not None, 60)
        assert "certificate required" in str(link.ended)
        assert arrived == []
        shown = connecting(links, tls, listener)
        shown.send(b"\x04")
        assert links.wait(lambda: bool(inbox.seen), 60)
    finally:
        links.close()


def test_bytes_that_are_no_tls_end_the_link_and_nothing_else(links: Links, tmp_path: Path) -> None:
    listener, arrived, _ = listening(links, tmp_path)
    with socket.create_connection(("127.0.0.1", listener.locator.port)) as other:
        other.sendall(prefixed(b"\x04") * 100)
        assert links.wait(lambda: any(link.ended for link in links.links) or not links.links, 60)
        links.wait(never, 0.05)
    assert arrived == []
    links.connect(listener.locator, "a")


def test_handshake_that_never_ends_is_given_up(
    links: Links, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conformance.link.listener.HANDSHAKE_SECONDS", 0.05)
    listener, _, _ = listening(links, tmp_path)
    with socket.create_connection(("127.0.0.1", listener.locator.port)):
        assert links.wait(lambda: bool(links.links), 60)
        assert links.wait(lambda: not links.links, 60)


def test_node_that_does_not_speak_tls_is_told_in_one_line(links: Links, tmp_path: Path) -> None:
    plain = links.listen(where("tcp", tmp_path), lambda link: link.send(bytes(100)))
    with pytest.raises(LinkFailed, match=r"TLS: .*does it speak tls"):
        links.connect(Locator("tls", "localhost", plain.locator.port), "a")


def test_stream_that_is_cut_is_told_from_a_farewell(links: Links, tmp_path: Path) -> None:
    ends = ends_of(links, "tls", tmp_path)
    with socket.socket(fileno=os.dup(ends.near.fileno())) as same:
        same.shutdown(socket.SHUT_WR)
    ends.wait(lambda: ends.far_in.ends)
    assert ends.far_in.ends == ["end of stream without close_notify"]


def test_half_closed_link_says_close_notify_and_still_reads(links: Links, tls: Tls) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    assert tls.certificate is not None
    context.load_cert_chain(tls.certificate)
    heard = bytearray()

    def serve(server: socket.socket) -> None:
        accepted, _ = server.accept()
        with context.wrap_socket(accepted, server_side=True, suppress_ragged_eofs=False) as other:
            while data := other.recv(100):
                heard.extend(data)
            other.sendall(prefixed(b"\x04"))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        link = links.connect(Locator("tls", "localhost", server.getsockname()[1]), "a")
        inbox = Inbox().of(link)
        link.send(b"\x03\x00")
        link.half_close()
        link.send(b"\x04")
        assert links.wait(lambda: bool(inbox.seen), 60)
        thread.join(60)
    assert bytes(heard) == prefixed(b"\x03\x00")
    assert links.wait(lambda: link.ended is not None, 60)


@pytest.mark.parametrize(
    ("tls", "words"),
    [
        (None, "ca=..., certificate="),
        (Tls(ca=Path("/nowhere/ca.pem"), certificate=Path("/nowhere/a.pem")), "/nowhere/ca.pem is no cert"),
        (Tls(certificate=Path(__file__)), "is no certificate that can be used"),
    ],
)
def test_certificates_that_cannot_be_used_are_told(tls: Tls | None, words: str, tmp_path: Path) -> None:
    links = Links(None, tls)
    with pytest.raises(UsageError, match=words):
        links.listen(where("tls", tmp_path), lambda _: None)
    links.close()


@pytest.mark.parametrize("ours", ["client_context", "server_context"])
def test_keys_are_kept_for_whoever_captures(
    ours: str, tls: Tls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {name: getattr(encrypted, name)(tls) for name in ("client_context", "server_context")}
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    made[ours] = getattr(encrypted, ours)(tls)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = made["client_context"].wrap_bio(back, there, server_hostname="localhost")
    server = made["server_context"].wrap_bio(there, back, server_side=True)
    for end in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
    assert "CLIENT_TRAFFIC_SECRET_0 " in (tmp_path / "keys").read_text()


def test_keys_that_cannot_be_kept_are_told(tls: Tls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", "/nowhere/keys")
    with pytest.raises(UsageError, match="SSLKEYLOGFILE: /nowhere/keys cannot be written"):
        encrypted.client_context(tls)


def test_connecting_needs_to_know_whom_to_trust(tls: Tls) -> None:
    links = Links(None, Tls(certificate=tls.certificate))
    with pytest.raises(UsageError, match="who signs"):
        links.connect(Locator("tls", "localhost", 1), "a")
    links.close()
