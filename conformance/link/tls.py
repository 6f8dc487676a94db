"""TLS around a stream of batches, without a socket: one way of working for both ends."""

from __future__ import annotations

import os
import ssl
from contextlib import suppress
from pathlib import Path

from conformance.config import Tls
from conformance.errors import UsageError
from conformance.link.framing import Broken, Prefixed

RECORDS = 1 << 16
"""Bytes that are decrypted at a time."""

KEY_LOG = "SSLKEYLOGFILE"
"""Variable with the file to which keys are appended, so that Wireshark can decrypt what was captured; as in browsers."""

ADVICE = "name PEM files: --tls-ca, --tls-cert and --tls-key, in Python Tls(ca=..., certificate=..., key=...)"


def client_context(tls: Tls | None) -> ssl.SSLContext:
    """Returns what an end that connects needs.

    Raises:
        UsageError: A certificate cannot be read, or nothing says whom to trust.
    """
    if tls is None or (tls.verify and tls.ca is None):
        raise UsageError(f"a tls locator needs to know who signs certificates; {ADVICE}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    _load(context, tls, needed=False)
    return context


def server_context(tls: Tls | None) -> ssl.SSLContext:
    """Returns what an end that listens needs.

    Raises:
        UsageError: There is no certificate, or it cannot be read.
    """
    if tls is None or tls.certificate is None:
        raise UsageError(f"to listen on a tls locator takes a certificate; {ADVICE}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load(context, tls, needed=True)
    if tls.mutual:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _load(context: ssl.SSLContext, tls: Tls, *, needed: bool) -> None:
    path: Path | None = tls.ca
    try:
        if tls.ca is not None:
            context.load_verify_locations(tls.ca)
        path = tls.certificate
        if tls.certificate is not None or needed:
            assert tls.certificate is not None
            context.load_cert_chain(tls.certificate, tls.key)
    except OSError as error:
        # An SSLError is an OSError.
        raise UsageError(f"{path} is no certificate that can be used ({error.strerror or error})") from None
    _keep_keys(context)


def _keep_keys(context: ssl.SSLContext) -> None:
    if path := os.environ.get(KEY_LOG):
        try:
            context.keylog_filename = path
        except OSError as error:
            raise UsageError(f"{KEY_LOG}: {path} cannot be written ({error.strerror or error})") from None


class Encrypted(Prefixed):
    """Batches with their length in front, inside TLS.

    Args:
        context: Certificates and rules.
        host: Name that the certificate of the other end must have; None for an end that accepts.
    """

    talks = True
    seals = True

    def __init__(self, context: ssl.SSLContext, host: str | None) -> None:
        super().__init__()
        self.opened = False
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=host is None, server_hostname=host)

    def start(self) -> None:
        """Says ClientHello."""
        self._shake_hands()

    def feed(self, data: bytes) -> None:
        """Takes records."""
        self._in.write(data)
        if not self.opened:
            self._shake_hands()
        while self.opened and not self.over:
            try:
                plain = self._tls.read(RECORDS)
            except ssl.SSLWantReadError:
                return
            except ssl.SSLZeroReturnError:
                plain = b""
            except ssl.SSLError as error:
                raise Broken(_words(error)) from None
            if plain:
                super().feed(plain)
            else:
                # close_notify: an error when we have sent ours, nothing otherwise.
                self.over = "end of stream"

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            raise Broken(_words(error)) from None
        self.opened = True

    def answer(self) -> bytes:
        """Returns records that TLS itself has to send."""
        return self._out.read()

    def seal(self, data: bytes) -> bytes:
        """Returns the records for bytes that leave.

        Raises:
            Broken: TLS sends no more.
        """
        try:
            self._tls.write(data)
        except ssl.SSLError as error:
            raise Broken(_words(error)) from None
        return self._out.read()

    def goodbye(self) -> bytes:
        """Returns close_notify."""
        # It waits for the other end's, which we do not.
        with suppress(ssl.SSLError):
            self._tls.unwrap()
        return self._out.read()

    def stream_ended(self) -> str:
        """Tells an end with close_notify from a stream that was cut."""
        if not self.opened:
            return "end of stream in the TLS handshake"
        return self.over or "end of stream without close_notify"


def _words(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: the certificate was not accepted: {error.verify_message}"
    reason = (error.reason or str(error)).lower().replace("_", " ")
    return f"TLS: {reason}"
