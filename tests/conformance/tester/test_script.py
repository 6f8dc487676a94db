"""Scripts as data: written, read back, refused, cut down."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conformance.tester import bends, steps
from conformance.tester.plain import bends_by_name, steps_by_name
from conformance.tester.said import Said, no_live, stand_in
from conformance.tester.script import Script
from conformance.tester.values import LIVE, ScriptError, read, written
from scapy_layers.batch import contents
from scapy_layers.data import Put
from scapy_layers.declarations import DeclareSubscriber
from scapy_layers.extensions import Lane, QoSOffer
from scapy_layers.message import Message, UnknownExtension
from scapy_layers.network import Declare, NetworkOam, Push
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Close, Frame, Init, KeepAlive, Open, TransportOam

MESSAGES: list[Message] = [
    Init(zid=b"\x01\x02", version=8, extensions=[QoSOffer(), UnknownExtension(ext_id=14, M=1, data=b"x")]),
    Push(key_suffix="t/ä", body=Put(data=b"\x00\xff")),
    Declare(body=DeclareSubscriber(entity_id=1, key_suffix="a/**")),
    Frame(R=1, sn=5, extensions=[Lane(priority=2)], messages=[Push(key_suffix="a", body=Put(data=b"1"))]),
    TransportOam(oam_id=1),
    NetworkOam(oam_id=1),
    Scout(what=7),
    KeepAlive(),
]

EVERY = Script(
    title="every step there is",
    seed=7,
    steps=(
        steps.Connect(link="a"),
        steps.Start(link="b", locator="tcp/127.0.0.1:7447", zid="01", offer={"qos": True}, initial_sn=3),
        steps.Session(link="c", lease=0.5, user="u", password="p"),
        steps.Listen(link="d"),
        steps.Accept(link="e", listener="d", within=2.0, cookie="0a", users={"u": "p"}),
        steps.OpenScout(link="f", locator="udp/239.255.0.9:17446#iface=lo"),
        steps.OpenResponder(link="g", locator="udp/239.255.0.9:17446#iface=lo", answers=("tcp/127.0.0.1:1",)),
        steps.OpenGroup(link="h", locator="udp/239.255.0.9:17447#iface=lo", join=False),
        steps.Handshake(link="b", part="init", fields={"version": 8}),
        steps.Send(link="a", messages=tuple(map(Said.of, MESSAGES)), length=7),
        steps.Post(link="c", messages=(Said(hex="1d0000"),), reliable=False, priority=2),
        steps.Answer(link="g", locators=("tcp/127.0.0.1:1",), fields={"whatami": 1}),
        steps.Raw(link="a", hex="0400", comment="half a batch"),
        steps.Hold(link="a"),
        steps.Release(link="a", count=3),
        steps.Chunk(link="a", sizes=(1, 2)),
        steps.HalfClose(link="a"),
        steps.Abort(link="a"),
        steps.Close(link="c", reason=2),
        steps.EndLink(link="c"),
        steps.Bend(bend=bends.changed(Init, version=8, zid=b"\x01")),
        steps.Bend(bend=bends.nth(2, bends.dropped(KeepAlive)), link="c"),
        steps.Bend(bend=bends.extended(Init, UnknownExtension(ext_id=14)), link="c"),
        steps.Bend(bend=bends.replaced(Close, KeepAlive())),
        steps.Bend(bend=bends.replaced(Close, b"\xff")),
        steps.Bend(bend=bends.delayed(Close, until=KeepAlive)),
        steps.Bend(bend=bends.delayed(Close, seconds=0.5)),
        steps.Bend(bend=bends.sometimes(0.5, bends.repeated(Frame, 3))),
        steps.Bend(bend=bends.reordered(Frame)),
        steps.Bend(bend=bends.cut(Frame, 3)),
        steps.Advance(seconds=0.1),
        steps.Note(text="grüß"),
        steps.Expect(link="a", message="Close", fields={"reason": 2}, within=1.5, passing=True),
        steps.ExpectRefusal(link="a", reason=1, unless="Open"),
        steps.ExpectEnd(link="a", within=3.0),
        steps.ExpectNothing(
            link="a", messages=("Push",), fields={"key": "t/a"}, fence=(steps.Fence(link="c"),)
        ),
        steps.Parallel(groups=((steps.Fence(link="c"), steps.Fence(link="b")), (steps.Note(text="x"),))),
        steps.Choose(options=((steps.Note(text="x"),), ())),
    ),
)


def test_every_step_and_bend_is_in_the_script_of_this_test() -> None:
    assert {type(step) for _, step in EVERY.walk()} == set(steps_by_name().values())
    used = {type(step.bend) for step in EVERY.steps if isinstance(step, steps.Bend)}
    inner = {
        type(step.bend.inner)
        for step in EVERY.steps
        if isinstance(step, steps.Bend) and hasattr(step.bend, "inner")
    }
    assert used | inner == set(bends_by_name().values())


def test_script_reads_back_as_it_was_written() -> None:
    text = EVERY.to_json()
    assert Script.from_json(text) == EVERY
    assert Script.from_json(text).to_json() == text


def test_script_is_readable_json_with_a_step_a_line() -> None:
    text = Script(steps=(steps.Connect(link="a"), steps.Fence(link="a"))).to_json()
    assert json.loads(text)["steps"] == [{"step": "connect", "link": "a"}, {"step": "fence", "link": "a"}]
    assert len(text.splitlines()) == 4
    assert Script.from_json(Script().to_json()) == Script()


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_message_is_written_as_a_layer_that_gives_the_same_bytes(message: Message) -> None:
    said = Said.of(message)
    assert said.layer == type(message).__name__
    assert bytes(said.message(no_live)) == bytes(message)


def test_text_is_written_as_text_unless_it_is_none() -> None:
    assert Said.of(Push(key_suffix="t/ä", body=Put())).fields["key_suffix"] == "t/ä"
    assert Said.of(Hello(zid=b"\x01", locators=["tcp/a"])).fields["locators"] == ["tcp/a"]
    broken = Push(key_suffix=b"\xff", body=Put())
    said = Said.of(broken)
    assert said.fields["key_suffix"] == {"hex": "ff"}
    assert bytes(said.message(no_live)) == bytes(broken)


def test_message_that_lies_is_written_as_its_bytes() -> None:
    raw = bytes(Init(zid=b"\x01"))[:3]
    said = Said.of(raw)
    assert (said.hex, said.layer) == (raw.hex(), "")
    assert "INIT" in said.comment
    assert bytes(Said.of(Frame(sn=1, messages=[b"\xff"])).message(no_live)) == bytes(
        Frame(sn=1, messages=[b"\xff"])
    )


def test_message_that_was_cut_when_it_came_is_written_as_its_bytes() -> None:
    raw = bytes(Init(zid=b"\x05\x06\x07"))[:4]
    (cut,) = contents(raw).messages
    assert Said.of(cut).hex == raw.hex()


def test_live_value_is_asked_for_when_the_message_is_made() -> None:
    said = Said(layer="Open", fields={"cookie": {"live": "cookie"}, "initial_sn": 1})
    assert bytes(said.message({"cookie": b"xyz"}.__getitem__)) == bytes(Open(cookie=b"xyz", initial_sn=1))


def test_value_of_a_field_reads_back() -> None:
    values = [1, True, None, "ä", b"\x00", [1, b"x"], Put(data=b"1")]
    for value in values:
        assert read(json.loads(json.dumps(written(value))), no_live) == value


BAD: list[tuple[Any, str]] = [
    ("not json", "a script is JSON"),
    ([], 'object with "script": 1'),
    ({"steps": []}, 'object with "script": 1'),
    ({"script": 2}, "version 2 of scripts is not known"),
    ({"script": True}, "version True"),
    ({"script": 1, "stepps": []}, "no attribute 'stepps'"),
    ({"script": 1, "steps": {}}, r"script.steps: a list is wanted, not \{\}"),
    ({"script": 1, "steps": [{"step": "conect"}]}, r"steps\[0\]: 'conect' is no step; there are abort"),
    ({"script": 1, "steps": [{"link": "a"}]}, 'a step is an object with "step"'),
    ({"script": 1, "steps": [{"step": "connect"}]}, r"steps\[0\] \(connect\): 'link' is missing"),
    ({"script": 1, "steps": [{"step": "connect", "link": 1}]}, "link: text is wanted, not 1"),
    ({"script": 1, "steps": [{"step": "connect", "link": "a", "to": 1}]}, "no attribute 'to'"),
    ({"script": 1, "steps": [{"step": "raw", "link": "a", "hex": "0"}]}, "'0' is not hexadecimal"),
    ({"script": 1, "steps": [{"step": "advance", "seconds": True}]}, "a number is wanted, not true"),
    ({"script": 1, "steps": [{"step": "release", "link": "a", "count": 1.5}]}, "a whole number is wanted"),
    ({"script": 1, "steps": [{"step": "chunk", "link": "a", "sizes": [0]}]}, "at least one byte"),
    ({"script": 1, "steps": [{"step": "expect", "link": "a", "message": "Opn"}]}, "'Opn' is no message"),
    (
        {"script": 1, "steps": [{"step": "expect", "link": "a", "message": "Open", "fields": {"x": 1}}]},
        "Open has no field 'x'",
    ),
    (
        {"script": 1, "steps": [{"step": "send", "link": "a", "messages": [{"layer": "Ini"}]}]},
        "'Ini' is no layer",
    ),
    (
        {
            "script": 1,
            "steps": [{"step": "send", "link": "a", "messages": [{"layer": "Init", "fields": {"v": 1}}]}],
        },
        "Init has no field 'v'",
    ),
    (
        {
            "script": 1,
            "steps": [
                {"step": "send", "link": "a", "messages": [{"layer": "Init", "fields": {"version": "x"}}]}
            ],
        },
        "Init cannot be built",
    ),
    (
        {"script": 1, "steps": [{"step": "handshake", "link": "a", "part": "greet"}]},
        "no step of a handshake",
    ),
    ({"script": 1, "steps": [{"step": "bend", "bend": {"bend": "bent"}}]}, "'bent' is no bend; there are"),
    (
        {
            "script": 1,
            "steps": [{"step": "bend", "bend": {"bend": "changed", "of": "Init", "fields": {"v": 1}}}],
        },
        "INIT has no field 'v'",
    ),
    ({"script": 1, "steps": [{"step": "start", "link": "a", "offer": {"qoss": True}}]}, "no 'qoss'"),
    ({"script": 1, "steps": [{"step": "start", "link": "a", "offer": {"qos": 1}}]}, "true or false"),
    ({"script": 1, "steps": [{"step": "advance", "seconds": -1}]}, "seconds is a number from 0 to 3600"),
    (
        {"script": 1, "steps": [{"step": "start", "link": "a", "offer": {"fsn": 9}}]},
        "fsn is a number from 0 to 3",
    ),
    ({"script": 1, "steps": [{"step": "start", "link": "a", "zid": "00" * 17}]}, "at most 16 bytes"),
    ({"script": 1, "steps": [{"step": "connect", "link": "a", "locator": "tcp"}]}, "is not a locator"),
    ({"script": 1, "steps": [{"step": "parallel", "groups": [1]}]}, r"groups\[0\]: a list is wanted"),
]


@pytest.mark.parametrize(("plain", "why"), BAD, ids=[why[:30] for _, why in BAD])
def test_text_that_is_no_script_is_refused_with_where_and_why(plain: Any, why: str) -> None:
    text = plain if isinstance(plain, str) else json.dumps(plain)
    with pytest.raises(ScriptError, match=why):
        Script.from_json(text)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(ScriptError):
        Script.from_json('{"script":1,"steps":' + "[" * 100_000)
    nested = '{"step":"choose","options":[[' * 3000 + "]]}" * 3000
    with pytest.raises(ScriptError):
        Script.from_json('{"script":1,"steps":[' + nested + "]}")


def test_bend_that_is_a_function_cannot_be_written() -> None:
    script = Script(steps=(steps.Bend(bend=bends.changed(Init, version=lambda version: version + 1)),))
    with pytest.raises(ScriptError, match="cannot be written down"):
        script.to_json()


def test_each_step_can_be_taken_out() -> None:
    for path, step in EVERY.walk():
        less = EVERY.without(path)
        assert Script.from_json(less.to_json()) == less
        gone = 1 + sum(1 for other, _ in EVERY.walk() if other[: len(path)] == path and other != path)
        assert len(list(less.walk())) == len(list(EVERY.walk())) - gone, step
    with pytest.raises(LookupError):
        EVERY.without((1000,))


def test_names_of_live_values_are_known() -> None:
    for name in LIVE:
        read({"live": name}, stand_in)
    with pytest.raises(ScriptError, match="no live value"):
        read({"live": "weather"}, stand_in)
