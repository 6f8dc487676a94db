"""The command line of the reference node: what it asks for, and what it refuses in one line."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.config import Tls
from conformance.errors import NotApplicable, UsageError
from conformance.nodes.ref import RefNode, words_of
from conformance.refnode.__main__ import EXIT_FAILED, EXIT_USAGE, config_of, parser
from conformance.refnode.settings import NodeConfig, reason_name, zid_of
from scapy_layers.codes import Resolution, WhatAmI

HERE = ("--listen", "tcp/127.0.0.1:0")


def config(*words: str) -> NodeConfig:
    return config_of(parser().parse_args([*HERE, *words]))


def test_every_option_is_heard() -> None:
    made = config(
        *(
            "--mode",
            "peer",
            "--zid",
            "1a2b",
            "--lease",
            "0.5",
            "--batch-size",
            "1000",
            "--fsn",
            "8",
            "--rid",
            "16",
        ),
        *(
            "--patch",
            "0",
            "--no-qos",
            "--lowlatency",
            "--compression",
            "--max-sessions",
            "3",
            "--half-open",
            "4",
        ),
        *("--handshake-seconds", "2", "--waiting-bytes", "5000", "--max-message", "6000"),
        *("--user", "a:b:c", "--user", "d:", "--credentials", "e:f", "--connect", "ws/127.0.0.1:1"),
        *("--tls-cert", "c.pem", "--tls-key", "k.pem", "--tls-ca", "a.pem", "--tls-mutual"),
        *("--scout", "udp/239.255.0.1:5#iface=lo", "--find", "--multicast", "udp/239.255.0.2:6#iface=lo"),
        *("--mutant", "ZN-INIT-045", "--seed", "7"),
    )
    assert (made.mode, made.zid, made.lease, made.batch_size) == (WhatAmI.PEER, b"\x2b\x1a", 0.5, 1000)
    assert (made.fsn, made.rid, made.patch) == (Resolution.BITS_8, Resolution.BITS_16, 0)
    assert (made.qos, made.lowlatency, made.compression) == (False, True, True)
    assert (made.max_sessions, made.half_open, made.handshake_seconds) == (3, 4, 2.0)
    assert (made.waiting_bytes, made.max_message, made.seed) == (5000, 6000, 7)
    assert made.users == {b"a": b"b:c", b"d": b""}
    assert made.credentials is not None
    assert (made.credentials.user, made.credentials.password) == (b"e", b"f")
    assert [str(locator) for locator in made.connect] == ["ws/127.0.0.1:1"]
    assert made.tls == Tls(ca=Path("a.pem"), certificate=Path("c.pem"), key=Path("k.pem"), mutual=True)
    assert (str(made.scout), made.find) == ("udp/239.255.0.1:5#iface=lo", True)
    assert (str(made.multicast), made.mutant) == ("udp/239.255.0.2:6#iface=lo", "ZN-INIT-045")


def test_defaults_are_those_of_real_nodes() -> None:
    made = config()
    assert (made.mode, made.lease, made.batch_size, made.qos, made.patch) == (
        WhatAmI.ROUTER,
        10,
        65_535,
        True,
        1,
    )
    assert made.users is None
    assert made.tls is None
    assert len(made.zid) == 16


REFUSED = {
    "--lease 0": "must be 0.001 to",
    "--batch-size 31": "must be 32 to 65535 bytes",
    "--batch-size 65536": "must be 32 to 65535 bytes",
    "--max-sessions 0": "must be 1 to",
    "--half-open 0": "must be 1 to",
    "--waiting-bytes 10": "must be 1024 to",
    "--zid xyz": "hexadecimal",
    "--zid 0": "zid",
    "--user nobody": "write USER:PASSWORD",
    "--user :secret": "write USER:PASSWORD",
    "--find": "needs --scout",
    "--scout tcp/127.0.0.1:1": "only udp",
    "--multicast tcp/127.0.0.1:1": "only udp",
    "--connect tcp/127.0.0.1:0": "a port is a number from 1",
    "--listen quic/127.0.0.1:0": "not quic",
}


@pytest.mark.parametrize("words", REFUSED)
def test_option_that_makes_no_sense_is_refused_with_what_to_write(words: str) -> None:
    with pytest.raises(UsageError, match=REFUSED[words]):
        config(*words.split())


def test_node_without_any_link_is_refused() -> None:
    with pytest.raises(UsageError, match="needs --listen"):
        config_of(parser().parse_args([]))


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--listen", "tcp/127.0.0.1:0", "--mutant", "ZN-INIT-999"), EXIT_USAGE, "--list-mutants"),
        (("--listen", "tls/127.0.0.1:0"), EXIT_USAGE, "--tls-cert"),
        (("--listen", "tcp/192.0.2.1:1"), EXIT_FAILED, "cannot listen"),
    ],
)
def test_failure_is_one_line_and_an_exit_code(words: tuple[str, ...], code: int, says: str) -> None:
    command = [sys.executable, "-m", "conformance.refnode", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == code
    assert done.stdout == ""
    assert done.stderr.startswith("refnode: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("text", "wire"), [("1", b"\x01"), ("0a0b", b"\x0b\x0a"), ("f" * 32, b"\xff" * 16)])
def test_zid_is_read_as_people_write_it(text: str, wire: bytes) -> None:
    assert zid_of(text) == wire


def test_reasons_have_names() -> None:
    assert [reason_name(reason) for reason in (None, 0, 7, 0x20)] == [
        "none",
        "GENERIC",
        "CONNECTION_TO_SELF",
        "0x20",
    ]


# As a node under test ---------------------------------------------------------------------------------------


def test_configuration_of_the_real_node_becomes_options() -> None:
    assert words_of(
        {"transport/link/tx/lease": 400, "mode": "peer", "transport/unicast/qos/enabled": False}
    ) == [
        *("--lease", "0.4", "--mode", "peer", "--no-qos"),
    ]
    assert words_of({"transport/link/tx/sequence_number_resolution": "16bit"}) == ["--fsn", "16"]
    assert words_of({"listen/endpoints": ["tcp/a:1", "ws/b:2"], "scouting/delay": 0}) == [
        *("--listen", "tcp/a:1", "--listen", "ws/b:2"),
    ]
    who = {f"transport/auth/usrpwd/{name}": word for name, word in (("user", "me"), ("password", "word"))}
    assert words_of(who) == ["--credentials", "me"]


def test_users_of_the_real_node_become_options(tmp_path: Path) -> None:
    users = tmp_path / "users.txt"
    users.write_text("one:word\n\ntwo:words:2\n")
    words = words_of({"transport/auth/usrpwd/dictionary_file": str(users)})
    assert words == ["--users", str(users)]
    found = config_of(parser().parse_args(["--listen", "tcp/127.0.0.1:0", "--user", "three:x", *words])).users
    assert found == {b"one": b"word", b"two": b"words:2", b"three": b"x"}


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"me:word\nsesame\n", "line 2: write USER:PASSWORD"), (b"\n", "names nobody"), (b"\xff:x\n", "UTF-8")],
)
def test_file_of_users_that_is_none_is_one_line(tmp_path: Path, content: bytes, says: str) -> None:
    users = tmp_path / "users.txt"
    users.write_bytes(content)
    with pytest.raises(UsageError, match=says) as caught:
        config_of(parser().parse_args(["--listen", "tcp/127.0.0.1:0", "--users", str(users)]))
    assert "sesame" not in str(caught.value)
    users.unlink()
    with pytest.raises(UsageError, match="No such file"):
        config_of(parser().parse_args(["--listen", "tcp/127.0.0.1:0", "--users", str(users)]))


@pytest.mark.parametrize("config", [{"no/such/path": 1}, {"mode": "client"}])
def test_configuration_it_cannot_have_is_not_applicable(tmp_path: Path, config: dict[str, object]) -> None:
    with pytest.raises(NotApplicable, match="the reference node"):
        words_of(config)
    with pytest.raises(NotApplicable):
        RefNode(tmp_path).variant(**{path.replace("/", "__"): value for path, value in config.items()})


def test_unknown_mutant_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no mutant 'ZN-INIT-999'"):
        RefNode(tmp_path, "ZN-INIT-999")


def test_node_whose_parent_was_killed_meanwhile_does_not_begin() -> None:
    words = ["--listen", "tcp/127.0.0.1:0", "--end-with-parent", str(os.getppid())]
    done = subprocess.run(
        [sys.executable, "-m", "conformance.refnode", *words], capture_output=True, timeout=600, check=True
    )
    assert not done.stdout


@pytest.mark.parametrize(
    ("words", "code"), [("--list-mutants", EXIT_USAGE), ("--listen tcp/127.0.0.1:0", EXIT_FAILED)]
)
def test_full_device_is_one_line(words: str, code: int) -> None:
    command = [sys.executable, "-m", "conformance.refnode", *words.split()]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=600, check=False
        )
    assert (done.returncode, done.stderr) == (code, "refnode: standard output: No space left on device\n")


def test_mutants_can_be_listed_without_standard_output() -> None:
    command = f"{shlex.quote(sys.executable)} -m conformance.refnode --list-mutants >&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stderr) == (0, "")
