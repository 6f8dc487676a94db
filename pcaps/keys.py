"""Keys and certificates of nodes, made for one run and forgotten."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from base64 import b64encode
from pathlib import Path
from typing import Any

from pcaps.recording import CaptureError


def certificates() -> dict[str, str]:
    """Makes an authority, and a key with a certificate for localhost, for this run only.

    Returns:
        ``authority``, ``key`` and ``certificate``, each PEM in base64, as the configuration takes it.

    Raises:
        CaptureError: The ``openssl`` command is missing or failed.
    """
    new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    leaf = ["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"]
    signed = ["-CA", "authority", "-CAkey", "ca.key"]
    made = _openssl(
        [*new, "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "authority"],
        [*new, "-subj", "/CN=localhost", "-keyout", "key", "-out", "certificate", *signed, *leaf],
    )
    return {name: b64encode(content.encode()).decode() for name, content in made.items()}


def key_pair() -> dict[str, Any]:
    """Makes an RSA key for this run only; returns the configuration of a node that shows who it is by it.

    Raises:
        CaptureError: The ``openssl`` command is missing or failed.
    """
    made = _openssl(
        ["genrsa", "-traditional", "-out", "private", "512"],
        ["rsa", "-in", "private", "-RSAPublicKey_out", "-out", "public"],
    )
    return {f"transport/auth/pubkey/{name}_key_pem": made[name] for name in ("private", "public")}


def _openssl(*commands: list[str]) -> dict[str, str]:
    """Runs commands in a folder of their own; returns the files they leave."""
    openssl = shutil.which("openssl")
    if openssl is None:
        raise CaptureError("keys are made with openssl, which is not installed")
    with tempfile.TemporaryDirectory() as folder:
        for command in commands:
            try:
                subprocess.run([openssl, *command], cwd=folder, check=True, capture_output=True)
            except subprocess.CalledProcessError as error:
                said = error.stderr.decode(errors="replace").strip().splitlines()
                raise CaptureError(f"openssl failed: {said[-1] if said else error.returncode}") from None
        return {path.name: path.read_text() for path in Path(folder).iterdir()}
