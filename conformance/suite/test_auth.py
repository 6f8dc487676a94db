"""Authentication by user and password: what it looks like, and who is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.config import START_SECONDS
from conformance.errors import NotApplicable
from conformance.expect import check
from conformance.nodes import Node
from conformance.plugin import req, transports
from conformance.suite.common import listed
from conformance.tester import Tester
from scapy_layers.transport import Init, Open

pytestmark = transports("tcp")

USER = (b"name", b"password")

AUTH = 0x3
"""Number of the extension in INIT and OPEN."""


def demanding(tester_of: Callable[..., Tester], folder: Path) -> Tester:
    """Starts a node that opens sessions with our user only."""
    users = folder / "users.txt"
    users.write_text("name:password\nother:word\n")
    return tester_of(transport__auth__usrpwd__dictionary_file=str(users))


def authentication(message: Init | Open) -> list[str]:
    """Returns the authentication extensions of a message in words, with their encodings."""
    encodings = ("Unit", "Z64", "ZBuf", "reserved")
    return [encodings[ext.ENC] for ext in message.extensions or [] if ext.ext_id == AUTH]


@req("ZN-INIT-004")
def test_session_without_the_right_password_is_refused_with_close(
    tester_of: Callable[..., Tester], tmp_path: Path
) -> None:
    tester = demanding(tester_of, tmp_path)
    tester.session(user=USER)
    for wrong in (None, (b"name", b"word"), (b"nobody", b"password"), (b"name", b"")):
        end = tester.starting(user=wrong)
        end.begin()
        end.expect_refusal(unless=Open)
    tester.session(user=USER)


@req("ZN-INIT-036", "ZN-OPEN-020")
@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
def test_authentication_is_answered_as_zbuf_when_it_is_on(
    request: pytest.FixtureRequest, tmp_path: Path, on: bool
) -> None:
    if on:
        tester = demanding(request.getfixturevalue("tester_of"), tmp_path)
    else:
        tester = request.getfixturevalue("tester")
        if tester.user is not None:
            raise NotApplicable("the node asks everybody for a user and a password")
    wanted = ["ZBuf"] * on
    end = tester.starting(user=USER)
    end.init()
    answer = authentication(end.take_init_ack())
    check(answer == wanted, listed(wanted), listed(answer))
    end.open_syn()
    done = authentication(end.take_open_ack())
    check(done == wanted, listed(wanted), listed(done))


@req("ZN-INIT-036", "ZN-OPEN-020")
def test_node_with_a_password_shows_as_zbuf_that_it_knows_it(
    tester: Tester, launched: Callable[..., Node]
) -> None:
    door = tester.listen("tcp/127.0.0.1:0")
    words = zip(("user", "password"), USER, strict=True)
    shown = {f"transport__auth__usrpwd__{name}": word.decode() for name, word in words}
    launched(connect__endpoints=[str(door.locator)], **shown)
    end = door.accept(START_SECONDS, users=dict([USER]))
    offer = authentication(end.take_init_syn())
    check(offer == ["ZBuf"], "ZBuf", listed(offer))
    end.init_ack()
    proof = authentication(end.take_open_syn())
    check(proof == ["ZBuf"], "ZBuf", listed(proof))
    check(end.closed is None, "the proof of the password", "another one")
    end.open_ack()
    end.fence()
