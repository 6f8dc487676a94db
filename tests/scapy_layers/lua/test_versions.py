"""zenoh.lua under every version of Lua that Wireshark is built with: the same fields as Scapy, the same refusals."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache

import pytest

from fuzz.readers import by_scapy
from fuzz.readers.said import Entry, Part, Said
from fuzz.readers.units import Unit, UnitKind
from scapy_layers import catalogue, names
from scapy_layers.batch import prefixed
from scapy_layers.data import Put
from scapy_layers.derive import lua
from scapy_layers.extensions import PutAttachment
from scapy_layers.names import Type
from scapy_layers.network import Push
from scapy_layers.transport import Frame, Init, Open
from tests.agreement import generate
from tests.scapy_layers.lua.harness import UDP, VERSIONS, ZENOH, Item, Wireshark

BEFORE = b"""
collected = {}
local collect = collectgarbage
function collectgarbage(what, number)
  collected[#collected + 1] = what .. " " .. tostring(number)
  return collect(what, number)
end
"""

SETTINGS = [b"setpause 100", b"setstepmul 400"]

FIELDS = names.all_fields(catalogue.shapes().values())
SCOUTING_PORT = 7446


@cache
def units() -> list[Unit]:
    wanted = [*generate.valid(2, 3), *generate.wrong(2, 3), *generate.cut(1, 3)]
    return [unit for unit in wanted if unit.data and unit.kind in {UnitKind.BATCH, UnitKind.SCOUTING}]


def of_scapy(parts: Iterable[Said | Part]) -> Iterator[Entry]:
    for part in parts:
        yield from part.entries
        yield from of_scapy(part.parts)


def by_name(entries: Iterable[tuple[str, object]]) -> dict[str, list[object]]:
    found = defaultdict(list)
    for name, value in entries:
        found[name].append(value)
    return dict(found)


def of_lua(tree: Item) -> Iterator[tuple[str, object]]:
    for item in tree.walk():
        described = FIELDS.get(item.name)
        if described is None or re.fullmatch(r"reserved_?\d+", described.name):
            continue
        value: object = item.value
        if described.type in {Type.TEXT, Type.ZID} and isinstance(value, bytes):
            value = value.decode()
        yield item.name, value


def refusal(tree: Item) -> tuple[object, ...] | None:
    errors = tree.all("zenoh.error")
    if not errors:
        return None
    kind, field, offset = (
        errors[0].all(f"zenoh.error.{name}")[0].value for name in ("kind", "field", "offset")
    )
    assert isinstance(kind, bytes)
    assert isinstance(field, bytes)
    return offset, kind.decode(), field.decode()


def greet(wireshark: Wireshark, stream: int) -> None:
    """Begins a session without low latency and compression."""
    there, back = (50000, 7447), (7447, 50000)
    for message, (sport, dport) in (
        (Init(zid="b2"), there),
        (Init(A=1, zid="a1", cookie=b"c"), back),
        (Open(cookie=b"c"), there),
        (Open(A=1), back),
    ):
        wireshark.dissect(prefixed(bytes(message)), sport=sport, dport=dport, stream=stream)


def test_committed_dissector_is_what_the_description_gives() -> None:
    assert ZENOH.read_text(encoding="utf-8") == lua.generate(catalogue.shapes()), (
        "zenoh.lua is stale: python -m scapy_layers.derive.lua writes it"
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_of_lua_reads_what_scapy_reads(version: str) -> None:
    wireshark = Wireshark(version)
    read = 0
    for stream, unit in enumerate(units()):
        scouting = unit.kind is UnitKind.SCOUTING
        if scouting:
            tree, _ = wireshark.dissect(unit.data, port_type=UDP, dport=SCOUTING_PORT)
        else:
            greet(wireshark, stream)
            tree, _ = wireshark.dissect(prefixed(unit.data), stream=stream)
        reading = by_scapy.reading(unit)
        if scouting and reading.refusal:
            continue  # which it is cannot be told then
        expected = reading.refusal and (reading.refusal.offset, reading.refusal.kind, reading.refusal.field)
        assert refusal(tree) == expected, f"{version}: {unit}"
        if expected is None:
            entries = (
                (f"zenoh.{entry.layer}.{entry.name}", entry.value) for entry in of_scapy(reading.messages)
            )
            wanted = by_name((name, value) for name, value in entries if "reserved" not in name)
            assert by_name(of_lua(tree)) == wanted, f"{version}: {unit}"
            read += 1
    assert read > 60


@pytest.mark.parametrize("version", VERSIONS)
def test_any_bytes_are_survived(version: str) -> None:
    wireshark = Wireshark(version)
    for number, unit in enumerate(generate.mutated(300, 11)):
        wireshark.dissect(prefixed(unit.data), stream=number % 5)
        wireshark.dissect(unit.data, port_type=UDP, stream=number % 7)


@pytest.mark.parametrize("version", VERSIONS)
def test_loaded_twice_says_so_and_the_first_one_stays(
    version: str, capfd: pytest.CaptureFixture[str]
) -> None:
    wireshark = Wireshark(version)
    wireshark.load(ZENOH)
    wireshark.lua.execute(b"io.stdout:flush()")
    assert "loaded twice" in capfd.readouterr().out
    tree, _ = wireshark.dissect(bytes.fromhex("0100") + b"\x04", port_type=2)
    assert tree is not None


@pytest.mark.parametrize("version", VERSIONS)
def test_second_pass_says_what_the_first_said(version: str) -> None:
    wireshark = Wireshark(version)
    batch = bytes.fromhex("81092010")  # the beginning of an INIT, cut
    first, _ = wireshark.dissect(batch, port_type=UDP)
    again, _ = wireshark.dissect(batch, port_type=UDP, visited=True)
    assert first == again


@pytest.mark.parametrize("version", VERSIONS)
def test_only_fields_that_are_asked_for_are_added(version: str) -> None:
    whole, sparse = Wireshark(version), Wireshark(version)
    sparse.reference("zenoh.put.data", "zenoh.keyexpr", "zenoh.extension.header")
    put = Put(data=b"x", extensions=[PutAttachment(attachment=b"y")])
    batch = prefixed(bytes(Frame(sn=7, messages=[Push(key_suffix="demo/a", body=put)])))
    trees = []
    for wireshark in (whole, sparse):
        greet(wireshark, 0)
        trees.append(wireshark.dissect(batch)[0])
    for name in ("zenoh.put.data", "zenoh.keyexpr", "zenoh.extension.header"):
        values = [[item.value for item in tree.all(name)] for tree in trees]
        assert values[0] == values[1] != []
    assert trees[0].all("zenoh.frame.sn")
    assert not trees[1].all("zenoh.frame.sn")


@pytest.mark.parametrize("version", VERSIONS)
def test_more_messages_than_a_packet_can_show_are_left_as_bytes(version: str) -> None:
    wireshark = Wireshark(version)
    greet(wireshark, 0)
    tree, _ = wireshark.dissect(prefixed(b"\x04" * 50_010))
    shown = len(tree.all("zenoh.keep_alive"))
    assert 49_000 < shown <= 50_000
    assert [item.size for item in tree.all("zenoh.undecoded")] == [50_010 - shown]
    assert [name for item in tree.walk() for name, _ in item.experts] == ["zenoh.expert.messages"]


@pytest.mark.parametrize("version", VERSIONS)
def test_body_that_nodes_do_not_look_into_is_kept_and_nothing_is_wrong(version: str) -> None:
    wireshark = Wireshark(version)
    init = bytes.fromhex("810900b2" + "4303ffffff")  # an Auth of three bytes that are no chain
    tree, _ = wireshark.dissect(prefixed(init))
    assert [item.value for item in tree.all("zenoh.unread")] == [b"\xff\xff\xff"]
    assert refusal(tree) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_key_is_shown_without_what_wireshark_and_xml_cannot_hold(version: str) -> None:
    wireshark = Wireshark(version)
    greet(wireshark, 0)
    push = bytes(Push(key_suffix="a\0b\ufffe\uffff", body=Put(data=b"x")))
    tree, _ = wireshark.dissect(prefixed(bytes(Frame(sn=1)) + push))
    (suffix,) = tree.all("zenoh.push.key_suffix")
    assert isinstance(suffix.value, bytes)
    assert suffix.value.decode() == "a\u2400b\ufffd\ufffd"


@pytest.mark.parametrize("version", VERSIONS)
def test_what_packets_leave_behind_is_collected_at_once(version: str) -> None:
    """Left to itself, Lua before 5.4 takes longer for each packet the longer a capture is; told so, 5.4 takes milliseconds.

    Measured by bench_tshark, with Wireshark 4.0 and 4.4.
    """
    wireshark = Wireshark(version, before=BEFORE)
    globals_ = wireshark.lua.globals()
    told = list(globals_[b"collected"].values())
    assert (told[:2] == SETTINGS) is (globals_[b"_VERSION"] != b"Lua 5.4")


@pytest.mark.parametrize("version", VERSIONS)
def test_datagram_of_twice_as_many_beginnings_takes_twice_as_many_steps(version: str) -> None:
    one, other = (bytes(Init(zid=zid, whatami=2)) for zid in (b"\x01\x02", b"\x03\x04"))

    def steps(count: int) -> int:
        wireshark = Wireshark(version)
        wireshark.dissect(one, port_type=UDP)
        wireshark.lua.execute(b"steps = 0 debug.sethook(function() steps = steps + 1 end, '', 100)")
        wireshark.dissect((one + other) * count, port_type=UDP)
        return int(wireshark.lua.execute(b"debug.sethook() return steps"))

    assert steps(100) < 2.5 * steps(50)
