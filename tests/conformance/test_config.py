"""Options."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.config import Locator, check_allowed, prepare_run_dir
from conformance.errors import UsageError


@pytest.mark.parametrize(
    ("text", "locator"),
    [
        ("tcp/127.0.0.1:7447", Locator("tcp", "127.0.0.1", 7447)),
        ("tcp/[::1]:80", Locator("tcp", "::1", 80)),
        ("tcp/localhost", Locator("tcp", "localhost", 7447)),
    ],
)
def test_locator_is_read(text: str, locator: Locator) -> None:
    assert Locator.parse(text) == locator


@pytest.mark.parametrize("text", ["tcp/127.0.0.1:7447", "tcp/[::1]:80", "tcp/localhost:1"])
def test_locator_is_written_as_it_was_read(text: str) -> None:
    assert str(Locator.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("127.0.0.1:7447", "is no locator; write one like tcp/127.0.0.1:7447"),
        ("tcp/", "is no locator"),
        ("tcp/a:b", "is no locator"),
        ("tcp/::1:80", "is no locator"),
        ("quic/127.0.0.1:1", "unixsock-stream, not quic"),
        ("tcp/127.0.0.1:0", "1 to 65535"),
        ("tcp/127.0.0.1:65536", "1 to 65535"),
    ],
)
def test_wrong_locator_is_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        Locator.parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["tcp/127.0.0.1:1", "tcp/127.255.0.9:1", "tcp/[::1]:1", "tcp/localhost:1"])
def test_loopback_may_be_tested(text: str) -> None:
    check_allowed(Locator.parse(text), allowed=False)


@pytest.mark.parametrize("text", ["tcp/192.0.2.1:7447", "tcp/[2001:db8::1]:7447", "tcp/0.0.0.0:1"])
def test_other_addresses_need_the_option(text: str) -> None:
    with pytest.raises(UsageError, match="--i-may-test-this-node"):
        check_allowed(Locator.parse(text), allowed=False)
    check_allowed(Locator.parse(text), allowed=True)


def test_run_folder_below_a_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="choose another --run-dir"):
        prepare_run_dir(tmp_path / "file" / "run")
