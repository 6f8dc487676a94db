from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from conformance.config import Tls
from conformance.link import Links
from conformance.observe import History
from tests.conformance.link._ends import PROTOCOLS, STREAMS, Ends, ends_of


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    made = authority.issue_cert("localhost", "127.0.0.1")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    made.private_key_and_cert_chain_pem.write_to_path(folder / "node.pem")
    return Tls(ca=folder / "ca.pem", certificate=folder / "node.pem")


@pytest.fixture
def links(tls: Tls) -> Iterator[Links]:
    """Keeps a history, as the tester does."""
    made = Links(History(), tls)
    yield made
    made.close()


@pytest.fixture
def silent(tls: Tls) -> Iterator[Links]:
    """Keeps no history, as a node does that runs for long."""
    made = Links(None, tls)
    yield made
    made.close()


@pytest.fixture(params=PROTOCOLS)
def ends(request: pytest.FixtureRequest, links: Links, tmp_path: Path) -> Ends:
    return ends_of(links, request.param, tmp_path)


@pytest.fixture(params=STREAMS)
def stream(request: pytest.FixtureRequest, links: Links, tmp_path: Path) -> Ends:
    return ends_of(links, request.param, tmp_path)
