"""A doorbell rings for everybody who comes, lets them go, and is quiet otherwise."""

import socket

import pytest

from fuzz.player.doorbell import Doorbell

SOON = 10.0


def come(bell: Doorbell) -> bytes:
    """Connects, says something, and waits to be let go."""
    with socket.create_connection((bell.locator.host, bell.locator.port), SOON) as link:
        try:
            link.sendall(b"INIT")
            return link.recv(1)
        except ConnectionError:
            return b""


def test_whoever_comes_is_let_go_and_counted_although_nobody_waits() -> None:
    bell = Doorbell()
    assert bell.drain() == 0
    assert not bell.wait(0)
    for _ in range(3):
        assert come(bell) == b""
    assert bell.wait(SOON)
    count = 0
    while count < 3:
        assert bell.wait(SOON)
        count += bell.drain()
    assert count == 3
    assert not bell.wait(0)
    bell.close()


def test_it_is_closed_once_and_refuses_then() -> None:
    bell = Doorbell()
    assert bell.ended == ""
    bell.close()
    bell.close()
    assert bell.ended == "closed"
    with pytest.raises(ConnectionRefusedError):
        come(bell)
