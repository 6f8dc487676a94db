"""How two ends of a link show each other that it may be one of several of a session."""

from __future__ import annotations

from typing import TypeVar

from conformance.session.policy import Dice
from conformance.session.rsa import PrivateKey, PublicKey
from scapy_layers.extensions import (
    MultiLinkAck,
    MultiLinkInitAck,
    MultiLinkInitSyn,
    MultiLinkOpenSyn,
)
from scapy_layers.message import Extension
from scapy_layers.transport import Init, Open

E = TypeVar("E", bound=Extension)

NONCE_BYTES = 8


class Proof:
    """Both ends name a key; the end that connects shows that the one it named is its own.

    Whoever makes a second link of a session has to show the same key.

    Args:
        key: Ours.
        rng: For the number that the other end has to read, and for padding.

    Attributes:
        partner: The key of the other end; None as long as it named none.
        done: Both ends want it, and the proof was given.
    """

    def __init__(self, key: PrivateKey, rng: Dice) -> None:
        self.partner: PublicKey | None = None
        self.done = False
        self._key = key
        self._rng = rng
        self._nonce = b""

    def probe(self) -> Extension:
        """Returns what InitSyn says."""
        n, e = self._key.public.wire
        return MultiLinkInitSyn(n=n, e=e)

    def challenge(self, syn: Init) -> list[Extension]:
        """Returns what InitAck says: our key, and a number for the other end to read; nothing when it did not ask."""
        probe = _found(syn, MultiLinkInitSyn)
        partner = probe and PublicKey.of(bytes(probe.n or b""), bytes(probe.e or b""))
        if partner is None:
            return []
        self._nonce = self._rng.randbytes(NONCE_BYTES)
        ciphered = partner.cipher(self._nonce, self._rng)
        if ciphered is None:
            return []
        self.partner = partner
        n, e = self._key.public.wire
        return [MultiLinkInitAck(n=n, e=e, nonce=ciphered)]

    def answer(self, ack: Init) -> list[Extension]:
        """Returns what OpenSyn says: the number that we read; nothing when InitAck has none for us."""
        probe = _found(ack, MultiLinkInitAck)
        partner = probe and PublicKey.of(bytes(probe.n or b""), bytes(probe.e or b""))
        nonce = probe and self._key.decipher(bytes(probe.nonce or b""))
        ciphered = nonce and partner and partner.cipher(nonce, self._rng)
        if not ciphered:
            return []
        self.partner = partner
        return [MultiLinkOpenSyn(nonce=ciphered)]

    def check(self, syn: Open) -> bool:
        """Takes the proof of OpenSyn; False when one is owed and is wrong or missing."""
        if self.partner is None:
            return True
        answer = _found(syn, MultiLinkOpenSyn)
        self.done = answer is not None and self._key.decipher(bytes(answer.nonce or b"")) == self._nonce
        return self.done

    def confirmation(self) -> list[Extension]:
        """Returns what OpenAck says."""
        return [MultiLinkAck()] if self.done else []

    def confirmed(self, ack: Open) -> None:
        """Takes what OpenAck says."""
        self.done = self.partner is not None and _found(ack, MultiLinkAck) is not None


def _found(message: Init | Open, kind: type[E]) -> E | None:
    return next((each for each in message.extensions or () if isinstance(each, kind)), None)
