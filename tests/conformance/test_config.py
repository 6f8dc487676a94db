"""Options."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
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
        ("tls/localhost:7447", Locator("tls", "localhost", 7447)),
        ("ws/127.0.0.1:80", Locator("ws", "127.0.0.1", 80)),
        ("unixsock-stream//tmp/a.sock", Locator("unixsock-stream", "", 0, "/tmp/a.sock")),
        ("unixsock-stream/a.sock", Locator("unixsock-stream", "", 0, "a.sock")),
        ("udp/224.0.0.224:7446#iface=lo", Locator("udp", "224.0.0.224", 7446, config={"iface": "lo"})),
        (
            "udp/[ff02::1%eth0]:7446?rel=0;prio=1-3#ttl=1",
            Locator("udp", "ff02::1%eth0", 7446, "", {"rel": "0", "prio": "1-3"}, {"ttl": "1"}),
        ),
        ("unixsock-stream//tmp/a#b=c", Locator("unixsock-stream", "", 0, "/tmp/a", config={"b": "c"})),
    ],
)
def test_locator_is_read(text: str, locator: Locator) -> None:
    assert Locator.parse(text) == locator


@pytest.mark.parametrize(
    "text",
    [
        "tcp/127.0.0.1:7447",
        "tcp/[::1]:80",
        "tcp/localhost:1",
        "unixsock-stream//tmp/a.sock",
        "udp/[ff02::1]:7446?prio=1;rel=0#iface=lo;ttl=1",
    ],
)
def test_locator_is_written_as_it_was_read(text: str) -> None:
    assert str(Locator.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("127.0.0.1:7447", "is not a locator; use one like tcp/127.0.0.1:7447"),
        ("tcp/", "is not a locator"),
        ("tcp/127.0.0.1\nforged:1", "is not a locator"),
        ("tcp/a:b", "is not a locator"),
        ("tcp/::1:80", "is not a locator"),
        ("quic/127.0.0.1:1", "unixsock-stream, not quic"),
        ("tcp/127.0.0.1:0", "1 to 65535"),
        ("tcp/127.0.0.1:65536", "1 to 65535"),
        ("tcp/127.0.0.1:99999#iface=lo", "1 to 65535"),
        ("tls/", "use one like tls/localhost:7447"),
        ("tcp/::1:80", "put an IPv6 address in brackets"),
        ("unixsock-stream/", "use one like unixsock-stream//tmp/zenoh.sock"),
        ("unixsock-stream//" + "a" * 107, "1 to 107 bytes"),
        ("udp/127.0.0.1:1#lo", "use key=value"),
        ("udp/127.0.0.1:1?=1", "use key=value"),
    ],
)
def test_wrong_locator_is_refused_in_one_line(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        Locator.parse(text)
    assert "\n" not in str(caught.value)


def test_port_that_the_system_chooses_is_for_listening_only() -> None:
    assert Locator.parse("tcp/127.0.0.1:0", listening=True).port == 0
    with pytest.raises(UsageError, match="from 0 to 65535"):
        Locator.parse("tcp/127.0.0.1:65536", listening=True)


def test_locators_are_keys() -> None:
    text = "udp/224.0.0.224:7446#iface=lo"
    assert {Locator.parse(text): 1}[Locator.parse(text)] == 1
    assert Locator.parse(text) != Locator.parse("udp/224.0.0.224:7446")


def test_group_is_told_from_an_address() -> None:
    assert Locator.parse("udp/224.0.0.224:1").group
    assert Locator.parse("udp/[ff02::1%lo]:1").group
    assert not Locator.parse("udp/127.0.0.1:1").group
    assert not Locator.parse("tcp/localhost:1").group


@pytest.mark.parametrize(
    "text",
    [
        "tcp/127.0.0.1:1",
        "tcp/127.255.0.9:1",
        "tcp/[::1]:1",
        "tcp/localhost:1",
        "unixsock-stream//tmp/a",
        "udp/239.255.0.1:1#iface=lo",
    ],
)
def test_loopback_may_be_tested(text: str) -> None:
    check_allowed(Locator.parse(text), allowed=False)


@pytest.mark.parametrize(
    "text", ["tcp/192.0.2.1:7447", "tcp/[2001:db8::1]:7447", "tcp/0.0.0.0:1", "udp/239.255.0.1:1#iface=eth0"]
)
def test_other_addresses_need_the_option(text: str) -> None:
    with pytest.raises(UsageError, match="--i-may-test-this-node"):
        check_allowed(Locator.parse(text), allowed=False)
    check_allowed(Locator.parse(text), allowed=True)


def test_run_folder_below_a_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="choose another --run-dir"):
        prepare_run_dir(tmp_path / "file" / "run")


def test_run_folder_is_made_ready_by_many_processes_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        for number in range(50):
            list(threads.map(prepare_run_dir, [tmp_path / str(number)] * 8))
    assert [path.name for path in (tmp_path / "0").iterdir()] == ["captures"]
