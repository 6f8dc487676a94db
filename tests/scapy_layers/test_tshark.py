"""tshark as root, which in newer versions runs no scripts then; both it and ``setpriv`` are a few lines of shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from scapy_layers import tshark, wireshark
from scapy_layers.__main__ import main
from scapy_layers.tshark import TsharkError

REFUSING = """#!/bin/sh
case "$*" in
--version) echo 'TShark (Wireshark) 4.4.19.' ;;
'-G folders') printf 'Global Lua Plugins:\\t/usr/lib/wireshark/plugins\\n' ;;
'-G plugins'*lua_script:*)
    for last; do :; done
    if [ -n "$ANOTHER" ]; then printf 'probe.lua\\t\\tlua script\\t%s\\n' "${last#lua_script:}"; fi ;;
esac
"""
SETPRIV = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do shift; done
ANOTHER=user exec "$@"
"""
WHAT_TO_DO = "or give it to all users: `zenoh-dissect wireshark install --dir /usr/lib/wireshark/plugins`"


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def refusing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tshark that runs no scripts for root; this process is root, and cannot become somebody else."""
    monkeypatch.setattr(tshark, "is_root", lambda: True)
    made = program(tmp_path / "bin" / "tshark", REFUSING)
    monkeypatch.setenv("PATH", f"{made.parent}")
    return made


def test_root_starts_it_as_somebody_else_where_it_refuses_scripts(refusing: Path) -> None:
    program(refusing.with_name("setpriv"), SETPRIV)
    found = tshark.find()
    assert found.refuses
    assert found.path != refusing
    assert found.path.name == refusing.name
    assert [plugin.name for plugin in found.plugins("-X", "lua_script:a")] == ["probe.lua"]
    assert tshark.find(found.path) is found


def test_root_is_told_what_to_do_where_it_cannot_become_somebody_else(
    refusing: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program(refusing.with_name("setpriv"), "#!/bin/sh\nexit 1\n")
    found = tshark.find()
    assert (found.path, found.refuses) == (refusing, True)
    with pytest.raises(TsharkError, match=r"as root Wireshark 4\.4\.19 runs no Lua scripts"):
        wireshark.open("capture.pcapng")
    assert main(["wireshark", "path"]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{wireshark.script()}\n"
    assert WHAT_TO_DO in printed.err


@pytest.mark.parametrize(("folder", "told"), [("elsewhere", True), ("/usr/lib/wireshark/plugins", False)])
@pytest.mark.usefixtures("refusing")
def test_install_tells_root_where_scripts_are_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    folder: str,
    *,
    told: bool,
) -> None:
    monkeypatch.setattr("scapy_layers.commands.wireshark.Delivery.write", lambda _: None)
    assert main(["wireshark", "install", "--dir", str(tmp_path / folder)]) == 0
    assert (WHAT_TO_DO in capsys.readouterr().out) is told


@pytest.mark.parametrize(("root", "runs"), [(False, False), (True, True)])
def test_it_is_started_itself_where_it_runs_scripts(
    refusing: Path, monkeypatch: pytest.MonkeyPatch, *, root: bool, runs: bool
) -> None:
    program(refusing.with_name("setpriv"), SETPRIV)
    monkeypatch.setattr(tshark, "is_root", lambda: root)
    if runs:
        monkeypatch.setenv("ANOTHER", "version")
    found = tshark.find()
    assert (found.path, found.refuses) == (refusing, False)


def test_what_tshark_says_whatever_it_does_is_no_complaint() -> None:
    said = (
        b'Running as user "root" and group "root". This could be dangerous.\n\ntshark: no such file\nx.pcap\n'
    )
    assert tshark.complaint(said) == "no such file x.pcap"
