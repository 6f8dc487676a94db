"""Keys with which links of one session show that they belong together."""

from __future__ import annotations

import random

import pytest

from conformance.session.rsa import KEY_BITS, MOST_BYTES, PrivateKey, PublicKey, new_key


@pytest.fixture(scope="module")
def key() -> PrivateKey:
    return new_key(random.Random(1))


def test_what_is_ciphered_for_a_key_is_read_with_it(key: PrivateKey) -> None:
    rng = random.Random(2)
    for size in (0, 1, 8, KEY_BITS // 8 - 11):
        plain = rng.randbytes(size)
        ciphered = key.public.cipher(plain, rng)
        assert ciphered is not None
        assert len(ciphered) == KEY_BITS // 8
        assert key.decipher(ciphered) == plain


def test_another_implementation_reads_what_is_ciphered() -> None:
    foreign = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    padding = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.padding")
    rng = random.Random(6)
    # Its keys have 1024 bits at least.
    theirs = foreign.generate_private_key(65_537, 1024)
    public = theirs.public_key().public_numbers()
    ciphered = PublicKey(public.n, public.e).cipher(b"number", rng)
    assert theirs.decrypt(ciphered, padding.PKCS1v15()) == b"number"
    own = PrivateKey(PublicKey(public.n, public.e), theirs.private_numbers().d)
    assert own.decipher(theirs.public_key().encrypt(b"number", padding.PKCS1v15())) == b"number"


def test_same_number_is_ciphered_differently_each_time(key: PrivateKey) -> None:
    rng = random.Random(3)
    assert key.public.cipher(b"number", rng) != key.public.cipher(b"number", rng)


def test_what_is_too_long_for_a_key_is_not_ciphered(key: PrivateKey) -> None:
    assert key.public.cipher(bytes(KEY_BITS // 8 - 10), random.Random(4)) is None


@pytest.mark.parametrize("ciphered", [b"", b"\1", bytes(64), b"\xff" * 64, b"\1" * 65])
def test_what_nobody_ciphered_is_not_read(key: PrivateKey, ciphered: bytes) -> None:
    assert key.decipher(ciphered) is None


def test_padding_that_is_too_short_is_refused(key: PrivateKey) -> None:
    for room, wanted in ((7, None), (8, b"1" * 53)):
        whole = int.from_bytes((b"\0\2" + b"\1" * room + b"\0").ljust(64, b"1"))
        ciphered = pow(whole, key.public.e, key.public.n).to_bytes(64)
        assert key.decipher(ciphered) == wanted


def test_what_was_ciphered_for_another_key_is_not_read(key: PrivateKey) -> None:
    rng = random.Random(5)
    ciphered = new_key(rng).public.cipher(b"number", rng)
    assert ciphered is not None
    assert key.decipher(ciphered) != b"number"


def test_keys_have_all_their_bits_and_differ() -> None:
    keys = [new_key(random.Random(seed)) for seed in range(5)]
    assert {key.public.n.bit_length() for key in keys} == {KEY_BITS}
    assert len({key.public.n for key in keys}) == len(keys)


def test_key_travels_low_byte_first(key: PrivateKey) -> None:
    n, e = key.public.wire
    assert int.from_bytes(n, "little") == key.public.n
    assert e == b"\x01\x00\x01"
    assert PublicKey.of(n, e) == key.public


@pytest.mark.parametrize(
    ("n", "e"),
    [
        (b"", b""),
        (b"\1", b"\3"),
        (b"\xff" * 64, b""),
        (b"\xfe" + b"\xff" * 63, b"\3"),
        (b"\xff" * 64, b"\xff" * 9),
        (b"\xff" * (MOST_BYTES + 1), b"\3"),
    ],
    ids=["empty", "tiny", "no exponent", "even", "huge exponent", "huge"],
)
def test_key_that_nobody_can_compute_with_is_refused(n: bytes, e: bytes) -> None:
    assert PublicKey.of(n, e) is None
