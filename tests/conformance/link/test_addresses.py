"""Sockets of the file system."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from conformance.errors import LinkFailed
from conformance.link import Links
from tests.conformance.link._ends import where


def test_socket_file_that_a_dead_process_left_is_replaced(links: Links, tmp_path: Path) -> None:
    locator = where("unixsock-stream", tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(locator.path)
    listener = links.listen(locator, lambda _: None)
    links.connect(listener.locator, "a")
    listener.close()
    assert not Path(locator.path).exists()


def test_file_that_is_no_socket_is_left_alone(links: Links, tmp_path: Path) -> None:
    locator = where("unixsock-stream", tmp_path)
    Path(locator.path).write_text("precious")
    with pytest.raises(LinkFailed, match="Address already in use"):
        links.listen(locator, lambda _: None)
    assert Path(locator.path).read_text() == "precious"
