"""Certificates of a run, for links over TLS."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from conformance.config import Tls
from conformance.errors import UsageError

NAMES = ("localhost", "127.0.0.1", "::1")
"""Whom the certificate vouches for: a node on this machine."""


def certificates(folder: Path) -> Tls:
    """Returns the certificates in a folder; makes them when it is not there.

    Node and tester show the same one: each is vouched for by an authority that nobody else trusts.

    Raises:
        UsageError: The package that makes them is not installed.
    """
    made = Tls(ca=folder / "ca.pem", certificate=folder / "chain.pem", key=folder / "key.pem")
    if not folder.exists():
        _make(folder, made)
    return made


def _make(folder: Path, wanted: Tls) -> None:
    try:
        import trustme
    except ImportError:
        raise UsageError(
            "TLS links need certificates made with the package trustme; install the extra 'conformance'"
        ) from None
    authority = trustme.CA()
    issued = authority.issue_cert(*NAMES)
    assert wanted.ca
    assert wanted.certificate
    assert wanted.key
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        making = Path(temporary) / folder.name
        making.mkdir()
        authority.cert_pem.write_to_path(making / wanted.ca.name)
        issued.private_key_pem.write_to_path(making / wanted.key.name)
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        (making / wanted.certificate.name).write_bytes(chain)
        # Processes that share a run share its certificates: whoever is second finds the folder there.
        with suppress(OSError):
            making.rename(folder)
