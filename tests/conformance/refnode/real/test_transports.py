"""Real clients over every kind of link."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from tests.conformance.refnode.real.clients import Refused
from tests.conformance.refnode.real.conftest import Connect, StartNode
from tests.conformance.refnode.real.conversation import converse
from tests.conformance.refnode.real.nodes import Certificate, Wanted

DATAGRAM = 1000
"""A payload that one datagram holds: nothing promises that the fragments of more all arrive."""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """Makes a certificate for localhost, and an authority that signs it."""
    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    made = Certificate(chain=folder / "chain.pem", key=folder / "key.pem", authority=folder / "authority.pem")
    issued.private_key_pem.write_to_path(made.key)
    made.chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    authority.cert_pem.write_to_path(made.authority)
    return made


def wanted(proto: str, folder: Path, certificate: Certificate) -> Wanted:
    """Returns a node that listens by this protocol."""
    here = f"unixsock-stream/{folder}/socket" if proto == "unixsock-stream" else f"{proto}/127.0.0.1:0"
    return Wanted(listen=(here,), certificate=certificate if proto == "tls" else None)


@pytest.mark.spot_check
@pytest.mark.parametrize("proto", ["tcp", "tls", "udp", "ws", "unixsock-stream"])
def test_clients_converse(
    start_node: StartNode, connect: Connect, tmp_path: Path, certificate: Certificate, proto: str
) -> None:
    node = start_node(wanted(proto, tmp_path, certificate))
    trusting = {"transport__link__tls__root_ca_certificate": str(certificate.authority)}
    here, there = (connect(node, proto=proto, **trusting) for _ in range(2))
    converse(here, there, large=DATAGRAM if proto == "udp" else 200_000)


def test_client_that_does_not_trust_the_certificate_stays_out(
    start_node: StartNode, connect: Connect, tmp_path: Path, certificate: Certificate
) -> None:
    node = start_node(wanted("tls", tmp_path, certificate))
    stranger = tmp_path / "stranger.pem"
    trustme.CA().cert_pem.write_to_path(stranger)
    with pytest.raises(Refused):
        connect(node, proto="tls", transport__link__tls__root_ca_certificate=str(stranger))
    connect(node, proto="tls", transport__link__tls__root_ca_certificate=str(certificate.authority)).settle()


@pytest.mark.parametrize("proto", ["tls", "udp", "ws", "unixsock-stream"])
def test_clients_over_different_links_converse(
    start_node: StartNode, connect: Connect, tmp_path: Path, certificate: Certificate, proto: str
) -> None:
    one = wanted(proto, tmp_path, certificate)
    node = start_node(Wanted(listen=("tcp/127.0.0.1:0", *one.listen), certificate=one.certificate))
    trusting = {"transport__link__tls__root_ca_certificate": str(certificate.authority)}
    here, there = connect(node), connect(node, proto=proto, **trusting)
    converse(here, there, large=DATAGRAM if proto == "udp" else 200_000)
