"""RSA as the links of one session use it to show that they belong to the same node: PKCS #1 v1.5 (RFC 8017).

Keys of 512 bits protect nothing from anybody who has a computer; they are what nodes use for this.
"""

from __future__ import annotations

from dataclasses import dataclass

from conformance.session.policy import Dice

KEY_BITS = 512
"""Bits of a modulus, as real nodes have it."""

EXPONENT = 65_537
"""The public exponent that everybody uses."""

MOST_BYTES = 512
"""Bytes of the largest foreign modulus that is computed with; the work grows with its third power."""

PADDING_BYTES = 11
"""What padding takes of the modulus: two zeros, the type, and eight random bytes at least."""

ROUNDS = 24
"""Of the primality test: a composite number passes each with a chance below a quarter."""

SMALL_PRIMES = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)


@dataclass(frozen=True, slots=True)
class PublicKey:
    """What everybody may know of a key.

    Attributes:
        n: The modulus.
        e: The exponent.
    """

    n: int
    e: int

    @classmethod
    def of(cls, n: bytes, e: bytes) -> PublicKey | None:
        """Reads a key as it travels, low byte first; None when nobody can compute with it."""
        key = cls(int.from_bytes(n, "little"), int.from_bytes(e, "little"))
        usable = key.size > PADDING_BYTES and len(n) <= MOST_BYTES and key.n & 1 and 2 < key.e < 1 << 64
        return key if usable else None

    @property
    def size(self) -> int:
        """Bytes of the modulus, and of everything ciphered."""
        return (self.n.bit_length() + 7) // 8

    @property
    def wire(self) -> tuple[bytes, bytes]:
        """Modulus and exponent as they travel."""
        return self.n.to_bytes(self.size, "little"), self.e.to_bytes((self.e.bit_length() + 7) // 8, "little")

    def cipher(self, plain: bytes, rng: Dice) -> bytes | None:
        """Returns what only the owner of the key can read; None when it is too long for the key."""
        room = self.size - 3 - len(plain)
        if room < PADDING_BYTES - 3:
            return None
        padding = bytes(rng.randint(1, 255) for _ in range(room))
        whole = int.from_bytes(b"\0\2" + padding + b"\0" + plain)
        return pow(whole, self.e, self.n).to_bytes(self.size)


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """A whole key.

    Attributes:
        public: What others may know of it.
        d: The secret exponent.
    """

    public: PublicKey
    d: int

    def decipher(self, ciphered: bytes) -> bytes | None:
        """Returns what somebody ciphered for this key; None when nobody did."""
        size = self.public.size
        if len(ciphered) != size:
            return None
        whole = pow(int.from_bytes(ciphered), self.d, self.public.n).to_bytes(size)
        end = whole.find(b"\0", 2)
        return whole[end + 1 :] if whole[:2] == b"\0\2" and end >= PADDING_BYTES - 1 else None


def new_key(rng: Dice) -> PrivateKey:
    """Makes a key."""
    while True:
        p, q = _prime(rng), _prime(rng)
        n, order = p * q, (p - 1) * (q - 1)
        if n.bit_length() == KEY_BITS and order % EXPONENT:
            return PrivateKey(PublicKey(n, EXPONENT), pow(EXPONENT, -1, order))


def _prime(rng: Dice) -> int:
    """Returns a random prime of half the bits, its two highest bits set so that the product has all."""
    bits = KEY_BITS // 2
    while True:
        number = rng.randint(0, (1 << bits) - 1) | 3 << bits - 2 | 1
        if all(number % small for small in SMALL_PRIMES) and _is_prime(number, rng):
            return number


def _is_prime(number: int, rng: Dice) -> bool:
    """Miller and Rabin's test."""
    odd, twos = number - 1, 0
    while not odd & 1:
        odd, twos = odd >> 1, twos + 1
    for _ in range(ROUNDS):
        power = pow(rng.randint(2, number - 2), odd, number)
        if power in {1, number - 1}:
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True
