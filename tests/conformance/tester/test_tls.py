"""Sessions over TLS between two ends of ours."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import trustme

from conformance.config import Tls
from conformance.errors import LinkFailed
from conformance.tester import Tester
from scapy_layers.network import Push
from tests.conformance.tester._pairs import NOWHERE, session_pair


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
        str(folder / "node.pem")
    )
    return Tls(ca=folder / "ca.pem", certificate=folder / "node.pem")


def test_session_over_tls_is_like_any_other_and_written_decrypted(certificates: Tls, tmp_path: Path) -> None:
    tester = Tester(NOWHERE, random.Random(1), tls=certificates)
    for form in ({}, {"lowlatency": True}, {"compression": True}):
        ours, theirs = session_pair(tester, tester.listen("tls/localhost:0"), **form)
        ours.put("a", b"x" * 100)
        theirs.expect(Push, key="a")
        theirs.put("b")
        ours.expect(Push, key="b")
    assert b"decrypted" in tester.write(tmp_path, "tls").read_bytes()
    tester.close()


def test_link_that_does_not_speak_tls_fails(certificates: Tls) -> None:
    tester = Tester(NOWHERE, random.Random(1), tls=certificates)
    listener = tester.listen("tls/localhost:0")
    plain = tester.link(f"tcp/127.0.0.1:{listener.locator.port}")
    plain.send(tester.init())
    plain.expect_end()
    with pytest.raises(LinkFailed):
        tester.link(f"tls/localhost:{tester.listen().locator.port}")
    tester.close()
