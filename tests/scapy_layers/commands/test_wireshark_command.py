"""``zenoh-dissect wireshark``: what it writes, what it leaves alone, and that Wireshark takes it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from scapy_layers import tshark, wireshark
from scapy_layers.__main__ import main
from scapy_layers.commands.wireshark import PROFILE, SETTINGS
from scapy_layers.tshark import Plugin, Tshark
from tests.scapy_layers.commands.said import A, Said, final, put, query, reply

SOURCE = Path(wireshark.__file__).parent / "profile"

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


class Folders:
    """Wireshark's folders on a machine that is made up."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lua = root / "lib" / "plugins"
        self.settings = root / "config"
        self.profile = self.settings / "profiles" / PROFILE
        self.plugin = self.lua / "zenoh.lua"
        self.loads = True

    def files(self) -> set[str]:
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}


ALL = {"lib/plugins/zenoh.lua", *(f"config/profiles/Zenoh/{name}" for name in SETTINGS)}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    made = Folders(tmp_path / "machine")
    named = {
        "Personal Lua Plugins": made.lua,
        "Personal configuration": made.settings,
        "Global Plugins": made.root / "global",
    }

    def plugins(_self: Tshark, *_arguments: str) -> list[Plugin]:
        return [Plugin(path.name, "", "lua script", path) for path in made.lua.rglob("*.lua") if made.loads]

    monkeypatch.setattr(tshark, "find", lambda _program=None: Tshark(Path("tshark"), (4, 0, 17)))
    monkeypatch.setattr(Tshark, "folders", lambda _self: named)
    monkeypatch.setattr(Tshark, "plugins", plugins)
    return made


@pytest.fixture
def no_tshark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def run(*arguments: str, status: int = 0) -> None:
    assert main(["wireshark", *arguments]) == status


# install ------------------------------------------------------------------------------------------


def test_install_writes_dissector_and_profile(machine: Folders, capsys: pytest.CaptureFixture[str]) -> None:
    run("install")
    assert machine.files() == ALL
    first, rest = machine.plugin.read_bytes().split(b"\n", 1)
    assert first.startswith(b"-- Installed by zenoh-dissect wireshark install")
    assert rest == wireshark.script().read_bytes()
    assert wireshark.is_current(machine.plugin)
    out = capsys.readouterr().out
    assert str(machine.plugin) in out
    assert "wireshark -C Zenoh" in out


def test_install_again_changes_nothing(machine: Folders, capsys: pytest.CaptureFixture[str]) -> None:
    run("install")
    before = {path: path.stat().st_mtime_ns for path in machine.root.rglob("*")}
    capsys.readouterr()
    run("install")
    assert {path: path.stat().st_mtime_ns for path in machine.root.rglob("*")} == before
    assert capsys.readouterr().out.count("is up to date") == 4


def test_install_renews_what_an_older_version_wrote(
    machine: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = machine.root / "older.lua"
    older.parent.mkdir(parents=True)
    older.write_text("-- older\n")
    with monkeypatch.context() as earlier:
        earlier.setattr(wireshark, "script", lambda: older)
        run("install")
        assert b"older" in machine.plugin.read_bytes()
    run("install")
    assert wireshark.is_current(machine.plugin)


def test_foreign_dissector_stays_without_force(machine: Folders, capsys: pytest.CaptureFixture[str]) -> None:
    machine.lua.mkdir(parents=True)
    machine.plugin.write_text("-- somebody else's\n")
    run("install", status=2)
    assert machine.files() == {"lib/plugins/zenoh.lua"}
    assert machine.plugin.read_text() == "-- somebody else's\n"
    assert re.search(r"zenoh\.lua was not installed by this tool: .*--force", capsys.readouterr().err)
    run("install", "--force")
    assert wireshark.is_current(machine.plugin)


def test_changed_settings_stay_without_force(machine: Folders, capsys: pytest.CaptureFixture[str]) -> None:
    run("install")
    colours = machine.profile / "colorfilters"
    colours.write_text(colours.read_text() + "@Mine@tcp@[0,0,0][1,1,1]\n")
    preferences = machine.profile / "preferences"
    preferences.write_text("# Wireshark writes it anew\n")
    capsys.readouterr()
    run("install", status=1)
    assert "@Mine@" in colours.read_text()
    assert preferences.read_text() == "# Wireshark writes it anew\n"
    assert capsys.readouterr().out.count("left unchanged, --force overwrites it") == 2
    run("install", "--force")
    assert "@Mine@" not in colours.read_text()


@pytest.mark.parametrize(
    "place", ["lib/plugins/other_Zenoh.lua", "lib/plugins/4.0/epan/libzenoh.so", "global/zenoh.so"]
)
def test_other_zenoh_dissector_is_told(
    machine: Folders, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    other = machine.root / place
    other.parent.mkdir(parents=True)
    other.touch()
    run("install", status=1)
    assert f"another Zenoh dissector is installed, move one of them away: {other}" in capsys.readouterr().out
    assert machine.plugin.exists()


def test_folder_that_tshark_ignores_is_told(machine: Folders, capsys: pytest.CaptureFixture[str]) -> None:
    machine.loads = False
    run("install")
    assert f"tshark -X lua_script:{wireshark.script()}" in capsys.readouterr().out


def test_given_folder_gets_the_dissector_alone(machine: Folders) -> None:
    run("install", "--dir", str(machine.root / "given"))
    assert machine.files() == {"given/zenoh.lua"}
    run("install", "--dir", str(machine.root / "given"), "--profile")
    assert machine.files() == {"given/zenoh.lua", *(ALL - {"lib/plugins/zenoh.lua"})}


def test_profile_can_be_left_out(machine: Folders) -> None:
    run("install", "--no-profile")
    assert machine.files() == {"lib/plugins/zenoh.lua"}


@pytest.mark.usefixtures("no_tshark")
def test_without_tshark_a_folder_has_to_be_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("install", status=2)
    assert re.search("tshark was not found.*--dir", capsys.readouterr().err)
    run("install", "--dir", str(tmp_path / "given"))
    assert (tmp_path / "given" / "zenoh.lua").exists()
    run("install", "--dir", str(tmp_path / "given"), "--profile", status=2)
    assert "--no-profile" in capsys.readouterr().err


def test_folder_that_is_a_file_is_refused(
    machine: Folders, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    run("install", "--dir", str(tmp_path / "file"), status=2)
    assert "is not a folder" in capsys.readouterr().err
    run("install", "--dir", str(tmp_path / "file" / "below"), status=2)
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert machine.files() == set()


# remove -------------------------------------------------------------------------------------------


def test_remove_takes_away_what_install_wrote(machine: Folders) -> None:
    machine.lua.mkdir(parents=True)
    (machine.lua / "mine.lua").touch()
    (machine.settings / "profiles" / "Mine").mkdir(parents=True)
    (machine.settings / "profiles" / "Mine" / "preferences").touch()
    before = machine.files()
    run("install")
    run("remove")
    assert machine.files() == before
    assert not machine.profile.exists()
    run("remove")


def test_remove_leaves_what_is_not_ours(machine: Folders, capsys: pytest.CaptureFixture[str]) -> None:
    run("install")
    (machine.profile / "recent").write_text("what Wireshark remembers")
    machine.plugin.write_text("-- somebody else's\n")
    colours = machine.profile / "colorfilters"
    colours.write_text(colours.read_text() + "@Mine@tcp@[0,0,0][1,1,1]\n")
    run("remove", status=1)
    assert machine.files() == {
        "lib/plugins/zenoh.lua",
        "config/profiles/Zenoh/recent",
        "config/profiles/Zenoh/colorfilters",
    }
    assert "it contains colorfilters, recent" in capsys.readouterr().out
    run("remove", "--force", status=1)
    assert machine.files() == {"lib/plugins/zenoh.lua", "config/profiles/Zenoh/recent"}


def test_remove_from_a_given_folder_leaves_the_others(machine: Folders) -> None:
    run("install")
    run("install", "--dir", str(machine.root / "given"))
    run("remove", "--dir", str(machine.root / "given"))
    assert machine.files() == ALL


# path, help ---------------------------------------------------------------------------------------


def test_path_is_that_of_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    run("path")
    assert capsys.readouterr().out == f"{wireshark.script()}\n"


def test_incomplete_installation_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(wireshark, "__file__", str(tmp_path / "wireshark.py"))
    run("path", status=2)
    assert "install this package again" in capsys.readouterr().err


def test_action_has_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["wireshark"])
    assert "ACTION" in capsys.readouterr().err


# The profile in Wireshark's hands -----------------------------------------------------------------


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A capture, and a folder of settings with the profile."""
    folder = tmp_path_factory.mktemp("shown")
    said = Said().say(put("a/b")).say(query(1, "q")).say(reply(1, "q"), back=True).say(final(1), back=True)
    name = said.write(folder / "x.pcap")
    shutil.copytree(SOURCE, folder / "profiles" / PROFILE)
    return name, folder


def ask(shown: tuple[str, Path], *arguments: str) -> list[str]:
    """What tshark says with the profile; it may complain about nothing."""
    capture, folder = shown
    done = subprocess.run(
        ["tshark", "-X", f"lua_script:{wireshark.script()}", "-C", PROFILE, "-r", capture, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"WIRESHARK_CONFIG_DIR": str(folder)},
        check=False,
    )
    complaints = [line for line in done.stderr.splitlines() if not line.startswith("Running as user")]
    assert (done.returncode, complaints) == (0, [])
    return done.stdout.splitlines()


@needs_tshark
def test_columns_show_who_what_and_how_long(shown: tuple[str, Path]) -> None:
    lines = ask(shown)
    assert re.search(rf"^ +7 .* Zenoh {A} a/b ", lines[6])
    assert re.search(r" q 1\.0+ ", lines[8])


@needs_tshark
def test_colours_tell_kinds_of_messages_apart(shown: tuple[str, Path]) -> None:
    rules = ask(shown, "--color", "-T", "fields", "-e", "frame.coloring_rule.name")
    kinds = ["TCP SYN/FIN"] * 2 + ["Zenoh: handshake"] * 4 + ["Zenoh: values"] + ["Zenoh: queries"] * 3
    assert rules == kinds


def filters() -> list[str]:
    """All filters of the profile."""
    colours = [line.split("@")[2] for line in _lines("colorfilters")]
    return colours + [line.split('","')[2] for line in _lines("dfilter_buttons")]


def _lines(name: str) -> list[str]:
    return [line for line in (SOURCE / name).read_text().splitlines() if not line.startswith("#")]


@needs_tshark
def test_every_filter_is_one(shown: tuple[str, Path]) -> None:
    assert len(filters()) > 20
    assert len(ask(shown, "-Y", " || ".join(f"({one})" for one in filters()))) == 10


def test_buttons_and_colours_are_well_formed() -> None:
    assert all(re.fullmatch(r'"TRUE",("[^"]+",?){3}', line) for line in _lines("dfilter_buttons"))
    colour = r"\[\d{1,5},\d{1,5},\d{1,5}\]"
    assert all(re.fullmatch(rf"@[^@]+@[^@]+@{colour}{colour}", line) for line in _lines("colorfilters"))
    assert {path.name for path in SOURCE.iterdir()} == set(SETTINGS)
