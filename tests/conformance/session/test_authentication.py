"""User and password, put into bytes of a handshake and taken out of them."""

from __future__ import annotations

import pytest

from conformance.config import Credentials
from conformance.session.authentication import challenged, hidden, shown
from conformance.session.policy import password_proof
from scapy_layers.extensions import (
    AuthInitAck,
    AuthInitSyn,
    AuthOpenSyn,
    Patch,
    PubKeyAck,
    PubKeyProof,
    QoSOffer,
    RegionName,
    UsrPwd,
    UsrPwdNonce,
    UsrPwdProof,
)
from scapy_layers.message import Extension
from scapy_layers.transport import Close, Init, KeepAlive, Open

WHO = Credentials(user=b"alice", password=b"open sesame")
NONCE = 0x1234_5678_9ABC_DEF0
ZID = bytes(range(1, 17))
CHAINS: tuple[list[Extension], ...] = ([], [QoSOffer()], [RegionName(region="north"), Patch(patch=1)])


def asked() -> Extension:
    return AuthInitSyn(extensions=[UsrPwd()])


def proven() -> Extension:
    return AuthOpenSyn(extensions=[UsrPwdProof(user=b"alice", hmac=password_proof(b"open sesame", NONCE))])


def init(*chain: Extension, **fields: object) -> bytes:
    return bytes(Init(zid=ZID, extensions=list(chain), **fields))


def opening(*chain: Extension, lease: int = 10, seconds: int = 1) -> bytes:
    return bytes(Open(T=seconds, lease=lease, initial_sn=300, cookie=b"c" * 200, extensions=list(chain)))


@pytest.mark.parametrize("chain", CHAINS, ids=len)
@pytest.mark.parametrize("behind", [b"", bytes(KeepAlive())])
def test_what_shows_a_user_is_the_message_with_one_extension_more(
    chain: list[Extension], behind: bytes
) -> None:
    sizes = {"S": 1, "fsn": 1, "rid": 1, "batch_size": 300}
    for plain, whole in (
        (init(*chain), init(asked(), *chain)),
        (init(*chain, **sizes), init(asked(), *chain, **sizes)),
        (opening(*chain), opening(proven(), *chain)),
        (opening(*chain, seconds=0, lease=70_000), opening(proven(), *chain, seconds=0, lease=70_000)),
    ):
        assert shown(plain + behind, WHO, NONCE) == whole + behind
        assert hidden(whole + behind, WHO.user) == plain + behind


@pytest.mark.parametrize(
    "message",
    [
        b"",
        init(A=1, cookie=b"c"),
        bytes(Open(A=1, lease=10, initial_sn=1)),
        bytes(Close(reason=0)),
        init(QoSOffer(), asked()),
        opening(AuthOpenSyn(extensions=[PubKeyProof(nonce=b"n")])),
    ],
)
def test_what_begins_no_handshake_or_shows_something_itself_stays_as_it_is(message: bytes) -> None:
    assert shown(message, WHO, NONCE) is message
    if message[:1] != b"\xc1":
        assert hidden(message, WHO.user) == message


def test_without_a_nonce_no_password_is_shown() -> None:
    assert shown(init(), WHO, None) == init(asked())
    assert shown(opening(), WHO, None) == opening()


def test_another_user_is_not_hidden() -> None:
    assert hidden(opening(proven()), b"bob") == opening(proven())


@pytest.mark.parametrize("whole", [init(*CHAINS[2]), opening(*CHAINS[2]), init(asked()), opening(proven())])
def test_what_is_cut_off_anywhere_is_sent_nevertheless(whole: bytes) -> None:
    for size in range(len(whole)):
        cut = whole[:size]
        more = shown(cut, WHO, NONCE)
        assert more == cut or len(more) > len(cut)
        assert hidden(cut, WHO.user) is not None
        assert challenged(cut) == (cut, None)


def test_an_extension_that_is_wrong_stays_as_wrong() -> None:
    reserved = bytes([0x81]) + init()[1:] + b"\x6f"
    assert shown(reserved, WHO, NONCE) == reserved
    wrong = bytes([0x81]) + init()[1:] + b"\x1f"
    assert shown(wrong, WHO, NONCE) == init(asked())[:-3] + b"\xc3\x01\x02\x1f"


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("nonce", [0, 127, NONCE, (1 << 64) - 1])
def test_nonce_is_taken_out_of_init_ack_wherever_it_stands(at: int, nonce: int) -> None:
    others: list[Extension] = [QoSOffer(), Patch(patch=1)]
    chain = [*others[:at], AuthInitAck(extensions=[UsrPwdNonce(nonce=nonce)]), *others[at:]]
    plain = init(*others, A=1, cookie=b"cookie")
    assert challenged(init(*chain, A=1, cookie=b"cookie") + b"\x04") == (plain + b"\x04", nonce)


def test_init_ack_without_a_nonce_or_with_more_stays_as_it_is() -> None:
    both = AuthInitAck(extensions=[UsrPwdNonce(nonce=1), PubKeyAck(n=b"n", e=b"e", nonce=b"x")])
    for message in (init(A=1, cookie=b"c"), init(both, A=1, cookie=b"c"), init(asked()), b""):
        assert challenged(message) == (message, None)


def test_password_is_not_in_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "sesame" not in repr(WHO)
    monkeypatch.setenv("ZENOH_PASSWORD", "open sesame")
    assert Credentials.parse("alice") == Credentials.parse("alice:open sesame") == WHO
    assert Credentials.parse("alice:open:sesame").password == b"open:sesame"
