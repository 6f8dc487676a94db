"""Scripts: templates with live values, and their form as plain data."""

import json
from dataclasses import replace

import pytest

from fuzz.script import Do, Script, ScriptError, Step, Template
from fuzz.states import State

VALUES = {"sn": b"\xc0\x84\x3d", "zid": b"\x01" * 16, "cookie": b"\x04abcd"}


def test_places_are_filled_and_the_length_follows() -> None:
    template = Template.parse("{size}25{sn}7d00")
    assert template.fill(VALUES) == b"\x06\x00\x25\xc0\x84\x3d\x7d\x00"
    assert template.names == ("sn",)
    assert Template.parse("{size32}1f").fill({}) == b"\x01\x00\x00\x00\x1f"


def test_text_and_template_are_the_same_thing() -> None:
    text = "{size|length says one more}0102{cookie|last bit flipped}ff"
    assert str(Template.parse(text)) == text
    assert Template.of(b"a", b"b", "sn", b"", b"c").pieces == (b"ab", "sn", b"c")


def test_lies_about_live_values_are_told_of_the_value_at_hand() -> None:
    assert Template.parse("{size|length says one more}0102").fill({}) == b"\x03\x00\x01\x02"
    assert Template.parse("{cookie|last bit flipped}").fill(VALUES) == b"\x04abce"
    assert Template.parse("{cookie|first 3}").fill(VALUES) == b"\x04ab"
    assert Template.parse("{sn|one more than true}").fill(VALUES) == b"\xc1\x84\x3d"
    with pytest.raises(KeyError, match="nothing is known"):
        Template.parse("{zid|turned upside down}").fill(VALUES)


def test_what_is_too_long_for_its_length_says_the_most() -> None:
    assert Template.of("size", bytes(70_000)).fill({})[:2] == b"\xff\xff"


def test_a_script_survives_json() -> None:
    script = Script(
        (
            Step(Do.REACH, "b", State.OPEN),
            Step(Do.SEND, "b", data=Template.parse("{size}25{sn}"), times=3, bytewise=True, note="why"),
            Step(Do.RESET, "b"),
        ),
        (("transport/unicast/lowlatency", True),),
    )
    plain = json.loads(json.dumps(script.to_json()))
    assert Script.from_json(plain) == script
    assert Script.from_json(replace(script, valid=True).to_json()).valid
    assert (script.sends, script.size) == (3, 3)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "list of 'steps'"),
        ({"steps": 1}, "list of 'steps'"),
        ({"steps": [{"do": "dance"}]}, "step 1: 'dance'"),
        ({"steps": [{"do": "send", "data": "xy"}]}, "not hexadecimal"),
        ({"steps": [7]}, "step 1"),
        ({"steps": [], "where": 3}, "'where'"),
    ],
)
def test_what_is_no_script_is_refused_with_the_place(value: object, said: str) -> None:
    with pytest.raises(ScriptError, match=said):
        Script.from_json(value)
