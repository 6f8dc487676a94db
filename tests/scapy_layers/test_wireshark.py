"""``wireshark``: captures through tshark and pyshark, with types."""

from __future__ import annotations

import asyncio
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
from pyshark.ek_field_mapping import MAPPING
from pyshark.tshark.tshark import TSharkVersionException

from scapy_layers import tshark, wireshark
from scapy_layers.__main__ import main
from scapy_layers.data import Del
from scapy_layers.network import Push
from scapy_layers.tshark import Plugin, Tshark
from scapy_layers.typed_fields import Fields
from scapy_layers.wireshark import Mode, TsharkError
from tests.scapy_layers.commands.said import A, B, Said, final, put, query, reply

ROOT = Path(__file__).parents[2]

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
pytestmark = needs_tshark
modes = pytest.mark.parametrize("mode", ["ek", "json"])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Wireshark without anything of the user."""
    for name in ("WIRESHARK_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    wireshark._loading.cache_clear()
    yield folder
    wireshark._loading.cache_clear()


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Values, a query with a reply, a deletion; the first message after the handshake is in packet 7."""
    said = Said().say(put("a/b", b"\x00\xff", encoding=5)).say(put("c", b"one"), put("d", b"two"))
    said.say(query(1, "q")).say(reply(1, "q", b"r"), back=True).say(final(1), back=True)
    said.say(Push(N=1, key_suffix="gone", body=Del())).say(put(ODD), put("k" * 900, LONG))
    return said.write(tmp_path_factory.mktemp("talk") / "talk.pcap")


ODD = "é/\"'\\x41/日本/{%s}/\u202e"
LONG = bytes(range(256)) * 5
PACKETS = 13


@pytest.fixture(scope="module", params=["ek", "json"])
def packets(talk: str, request: pytest.FixtureRequest) -> list[Any]:
    """All of them, in both modes; the first one is packet 1."""
    with wireshark.open(talk, mode=request.param) as capture:
        return [None, *capture]


def running(program: str) -> list[str]:
    """The children of this process that run a program."""
    return [name for child in psutil.Process().children() if (name := child.name()) == program]


# Values -------------------------------------------------------------------------------------------


def test_fields_have_types(packets: list[Any]) -> None:
    zenoh = packets[7].zenoh
    assert (type(zenoh.frame.sn), zenoh.frame.sn) == (int, 10)
    assert (zenoh.frame.R, zenoh.put.E, zenoh.put.encoding) == (1, 1, 5)
    assert zenoh.put.data == b"\x00\xff"
    assert (zenoh.keyexpr, zenoh.push.key_suffix) == ("a/b", "a/b")
    assert (zenoh.srczid, zenoh.dstzid) == (A, B)


def test_several_messages_are_lists_in_the_order_of_the_bytes(packets: list[Any]) -> None:
    zenoh = packets[8].zenoh
    assert (zenoh.put.data, zenoh.keyexpr) == ([b"one", b"two"], ["c", "d"])
    assert zenoh.frame.sn == 11
    assert zenoh.get_field_as_list("frame.sn") == [11]


def test_replies_know_their_query(packets: list[Any]) -> None:
    zenoh = packets[10].zenoh
    assert (zenoh.request_in, type(zenoh.request_in)) == (9, int)
    assert zenoh.response_time == pytest.approx(1.0)
    assert zenoh.keyexpr == "q"
    assert "response_in" not in packets[9].zenoh


@modes
def test_second_pass_tells_what_comes_later(talk: str, mode: Mode) -> None:
    with wireshark.open(talk, mode=mode, two_passes=True) as capture:
        assert capture[8].zenoh.response_in == 10


def test_name_that_is_a_keyword_has_an_underscore(packets: list[Any]) -> None:
    assert packets[12].zenoh.del_.T == 0
    assert "zenoh" not in packets[1]


def test_long_values_and_unusual_characters_are_whole(packets: list[Any]) -> None:
    zenoh = packets[13].zenoh
    assert zenoh.put.data == [b"x", LONG]
    assert zenoh.push.key_suffix == [ODD, "k" * 900]


def test_other_protocols_are_as_pyshark_has_them(packets: list[Any]) -> None:
    assert packets[7].tcp.dstport in {7447, "7447"}
    assert str(getattr(packets[7].ip.src, "value", packets[7].ip.src)) == "10.0.0.1"


def test_packets_can_be_pickled_in_ek(talk: str) -> None:
    with wireshark.open(talk) as capture:
        packet = pickle.loads(pickle.dumps(capture[6]))
    assert (packet.zenoh.frame.sn, packet.tcp.dstport) == (10, 7447)


def test_other_protocols_have_types_also_where_pyshark_does_not_know_the_version(
    talk: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: object, **__: object) -> None:
        raise TSharkVersionException("Your tshark version does not support elastic-mapping.")

    monkeypatch.setattr(MAPPING, "_protocol_to_mapping", {})
    monkeypatch.setattr(MAPPING, "load_mapping", load)
    with wireshark.open(talk) as capture:
        assert capture[6].tcp.dstport == 7447


def test_both_modes_say_the_same_of_real_nodes() -> None:
    path = ROOT / "pcaps" / "query.pcapng"
    with (
        wireshark.open(path, layers=("zenoh",), mode="ek") as ek,
        wireshark.open(path, layers=("zenoh",), mode="json") as as_json,
    ):
        seen = 0
        for one, other in zip(ek, as_json, strict=True):
            assert (one.number, one.sniff_time, "zenoh" in one) == (
                other.number,
                other.sniff_time,
                "zenoh" in other,
            )
            if "zenoh" in one:
                # EK does not keep the order between messages of different kinds.
                names = sorted(one.zenoh.all_field_names)
                assert names == sorted(other.zenoh.all_field_names)
                for name in names:
                    values = one.zenoh.get_field_as_list(name), other.zenoh.get_field_as_list(name)
                    assert sorted(values[0]) == sorted(values[1]), name
                    seen += 1
    assert seen > 1000


def test_every_field_has_a_name_of_its_own_in_ek() -> None:
    _, table = wireshark._loading(wireshark.tshark(), wireshark.script().read_bytes())
    keys = list(table.keys.values())
    assert len(keys) > 200
    assert len(set(keys)) == len(keys)


def test_no_field_hides_behind_a_method() -> None:
    _, table = wireshark._loading(wireshark.tshark(), wireshark.script().read_bytes())
    methods = {name for name in dir(Fields) if not name.startswith("_")}
    assert not methods & {part for inside in table.inside.values() for part in inside}


# Reading ------------------------------------------------------------------------------------------


def test_iterating_begins_anew_and_indexing_reads_as_far_as_needed(talk: str) -> None:
    with wireshark.open(talk) as capture:
        assert [packet.number for packet in capture] == list(range(1, PACKETS + 1))
        assert [packet.number for packet in capture] == list(range(1, PACKETS + 1))
        assert capture[3].number == 4
        assert len(capture) == 4
        with pytest.raises(KeyError):
            capture[PACKETS]


@modes
def test_filter_and_layers_choose(talk: str, mode: Mode) -> None:
    with wireshark.open(talk, mode=mode, display_filter="zenoh.put", layers=("zenoh",)) as capture:
        packets = list(capture)
    assert [packet.number for packet in packets] == [7, 8, 10, 13]
    assert {layer.layer_name for packet in packets for layer in packet.layers} == {"zenoh"}


def test_ways_of_pyshark_work(talk: str) -> None:
    from pyshark.capture.capture import StopCapture

    numbers: list[int] = []

    def until_three(packet: Any) -> None:
        numbers.append(packet.number)
        if packet.number == 3:
            raise StopCapture

    with wireshark.open(talk) as capture:
        capture.apply_on_packets(until_three)
        assert numbers == [1, 2, 3]
        assert capture.next().number == 1
        assert capture.next().number == 2
    with wireshark.open(talk) as capture:
        capture.load_packets(packet_count=5)
        assert len(capture) == 5


def test_nothing_runs_on_after_closing(talk: str) -> None:
    capture = wireshark.open(talk)
    packets = iter(capture)
    next(packets)
    capture[1]
    assert running("tshark")
    capture.close()
    assert not running("tshark")
    assert list(packets) == []


def test_breaking_off_ends_tshark(talk: str) -> None:
    for _ in wireshark.open(talk):
        break
    assert not running("tshark")


def test_a_running_event_loop_does_not_matter(talk: str) -> None:
    async def count() -> int:
        with wireshark.open(talk) as capture:
            return sum(1 for _ in capture)

    assert asyncio.run(count()) == PACKETS


def test_port_is_decoded_as_told(tmp_path: Path) -> None:
    path = Path(Said().say(put("a")).write(tmp_path / "x.pcap"))
    path.write_bytes(path.read_bytes().replace((7447).to_bytes(2, "big"), (5000).to_bytes(2, "big")))
    off = {"zenoh.heuristics": False}
    with wireshark.open(path, preferences=off) as capture:
        assert all("zenoh" not in packet for packet in capture)
    with wireshark.open(path, preferences=off, decode_as={"tcp.port==5000": "zenoh"}) as capture:
        assert capture[6].zenoh.keyexpr == "a"


@contextmanager
def writing(path: str, pipe: Path) -> Iterator[None]:
    """Writes a file into a pipe, and gives up at the end: where tshark has failed nobody reads it."""
    with subprocess.Popen(["sh", "-c", f"exec cat '{path}' > '{pipe}'"]) as writer:
        try:
            yield
        finally:
            writer.kill()


@pytest.mark.parametrize("refuses", [False, True])
def test_live_packets_come_one_by_one(
    talk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, refuses: bool
) -> None:
    found = tshark.find()
    if found.refuses and not refuses:
        pytest.skip("this tshark runs no scripts of ours as root")
    found = replace(found, refuses=refuses)
    monkeypatch.setattr(tshark, "find", lambda _=None: found)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with (
        wireshark.live(str(pipe), display_filter="zenoh.put") as capture,
        writing(talk, pipe),
    ):
        packets = capture.sniff_continuously(packet_count=2)
        data = [packet.zenoh.get_field_as_list("put.data") for packet in packets]
    assert data == [[b"\x00\xff"], [b"one", b"two"]]
    assert not running("tshark")


def test_live_capture_ends_when_its_time_is_over(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    header = bytes.fromhex("d4c3b2a1020004000000000000000000000004000100 0000")
    # It is open for both, so that nobody waits for the other.
    with wireshark.live(str(pipe)) as capture, pipe.open("r+b", buffering=0) as writer:
        writer.write(header)
        # The writer holds the pipe open: without the limit this would not come back.
        capture.sniff(timeout=0.5)
        assert len(capture) == 0


# Wrong use ----------------------------------------------------------------------------------------


def test_missing_capture_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.pcap"):
        wireshark.open(tmp_path / "none.pcap")


def test_what_is_no_file_is_called_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is a folder"):
        wireshark.open(tmp_path)
    with pytest.raises(FileNotFoundError, match="/dev/null is no ordinary file"):
        wireshark.open("/dev/null")


def test_wrong_filter_is_told_in_the_words_of_tshark(talk: str) -> None:
    with (
        wireshark.open(talk, display_filter="zenoh.nothing") as capture,
        pytest.raises(TsharkError, match="nothing"),
    ):
        list(capture)


@modes
def test_damaged_capture_is_read_as_far_as_it_goes(talk: str, tmp_path: Path, mode: Mode) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(Path(talk).read_bytes()[:-5])
    with wireshark.open(path, mode=mode) as capture:
        packets = iter(capture)
        assert [next(packets).number for _ in range(PACKETS - 1)] == list(range(1, PACKETS))
        with pytest.raises(TsharkError, match="cut short"):
            next(packets)


def test_unknown_mode_is_refused(talk: str) -> None:
    with pytest.raises(ValueError, match="ek or json, not 'xml'"):
        wireshark.open(talk, mode="xml")  # type: ignore[arg-type]


def test_interface_that_does_not_exist_is_told() -> None:
    with wireshark.live("nowhere0") as capture, pytest.raises(TsharkError, match="nowhere0"):
        next(iter(capture))


def test_without_pyshark_the_error_says_what_to_install(talk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(TsharkError, match=r"zenoh-harness\[capture\]"):
        wireshark.open(talk)


@pytest.mark.parametrize("text", ["1795272686.700211465", "2026-11-21T14:51:26.700211465Z"])
def test_time_of_a_packet_is_told_by_all_versions(text: str) -> None:
    from scapy_layers.pyshark_captures import _epoch

    assert _epoch(text) == "1795272686.700211465"


def test_module_imports_neither_pyshark_nor_scapy() -> None:
    code = "import sys, scapy_layers.wireshark; sys.exit('pyshark' in sys.modules or 'scapy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


# Installed dissectors -----------------------------------------------------------------------------


def loaded(home: Path) -> list[Plugin]:
    """What tshark loads of the personal folder; some versions load nothing for root."""
    found = [plugin for plugin in wireshark.tshark().plugins() if plugin.path.is_relative_to(home)]
    if not found:
        pytest.skip("this tshark loads no personal plugins for this user")
    return found


def test_installed_dissector_is_used_and_not_loaded_twice(home: Path, talk: str) -> None:
    assert main(["wireshark", "install"]) == 0
    loaded(home)
    assert wireshark.parameters() == []
    with wireshark.open(talk) as capture:
        assert capture[6].zenoh.frame.sn == 10


@pytest.mark.usefixtures("home")
def test_without_an_installed_dissector_ours_is_given() -> None:
    assert wireshark.parameters() == ["-X", f"lua_script:{wireshark.script()}"]


def test_dissector_that_was_copied_by_hand_is_ours(tmp_path: Path) -> None:
    copy = tmp_path / "zenoh.lua"
    assert not wireshark.is_current(copy)
    shutil.copy(wireshark.script(), copy)
    assert wireshark.is_current(copy)
    copy.write_bytes(copy.read_bytes() + b"-- mine\n")
    assert not wireshark.is_current(copy)


def test_other_dissector_of_that_name_is_told(home: Path, talk: str) -> None:
    folder = wireshark.tshark().folders()["Personal Lua Plugins"]
    folder.mkdir(parents=True)
    (folder / "my_zenoh.lua").write_text('local p = Proto("zenoh", "Other")\n')
    loaded(home)
    with pytest.raises(TsharkError, match=r"my_zenoh\.lua.*wireshark install"):
        wireshark.open(talk)


def test_other_dissector_in_disguise_is_told(home: Path, talk: str) -> None:
    folder = wireshark.tshark().folders()["Personal Lua Plugins"]
    folder.mkdir(parents=True)
    (folder / "my.lua").write_text('local p = Proto("zenoh", "Other")\n')
    loaded(home)
    with pytest.raises(TsharkError, match="another Zenoh dissector has taken its name"):
        wireshark.open(talk)


def fields_of(talk: str, *scripts: Path) -> tuple[list[str], str]:
    """The lines that tshark writes for values, and what it says beside, with some dissectors loaded."""
    loading = [part for script in scripts for part in ("-X", f"lua_script:{script}")]
    run = subprocess.run(
        ["tshark", *loading, "-r", talk, "-Y", "zenoh.put", "-T", "fields", "-e", "frame.number"],
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout.split(), run.stderr


def test_ours_installed_and_given_is_loaded_once_with_a_word_about_it(home: Path, talk: str) -> None:
    assert main(["wireshark", "install"]) == 0
    loaded(home)
    numbers, said = fields_of(talk, wireshark.script())
    assert numbers == ["7", "8", "10", "13"]
    assert "loaded twice" in said
    assert "Error" not in said


def test_another_zenoh_dissector_gets_a_word_and_no_error(tmp_path: Path, talk: str) -> None:
    other = tmp_path / "other.lua"
    other.write_text(
        'local p = Proto("zenoh", "Other")\np.fields = {ProtoField.bytes("zenoh.put", "x")}\n'
        'function p.dissector() end\nDissectorTable.get("tcp.port"):add(7447, p)\n'
    )
    numbers, said = fields_of(talk, other, wireshark.script())
    assert numbers == []
    assert "another Zenoh dissector" in said
    assert "Error" not in said


# tshark itself ------------------------------------------------------------------------------------


def test_tshark_tells_path_and_version() -> None:
    found = wireshark.tshark()
    assert found.path.is_file()
    assert found.version >= (3, 6)
    assert "Personal configuration" in found.folders()
    assert isinstance(found, Tshark)


def test_missing_tshark_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TsharkError, match="install Wireshark's command line"):
        wireshark.tshark()
    with pytest.raises(TsharkError, match="was not found as /no/tshark"):
        wireshark.tshark("/no/tshark")


@pytest.mark.parametrize(
    ("says", "complaint"),
    [("TShark (Wireshark) 2.6.20 (x)", "2.6.20; 3.6 or newer is needed"), ("hello", "is no tshark")],
)
def test_program_that_will_not_do_is_refused(tmp_path: Path, says: str, complaint: str) -> None:
    program = tmp_path / "tshark"
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    with pytest.raises(TsharkError, match=complaint):
        wireshark.tshark(program)
