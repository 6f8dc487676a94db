"""``typed_fields``: what tshark writes as text, with types."""

from __future__ import annotations

import json
import pickle
from datetime import datetime
from typing import Any

import pytest

from scapy_layers.typed_fields import Fields, FieldTable, Pairs, from_ek, from_json

TYPES = {
    "zenoh.frame": "FT_NONE",
    "zenoh.frame.sn": "FT_UINT64",
    "zenoh.frame.R": "FT_UINT8",
    "zenoh.put.data": "FT_BYTES",
    "zenoh.del": "FT_NONE",
    "zenoh.del.Z": "FT_UINT8",
    "zenoh.keyexpr": "FT_STRING",
    "zenoh.error": "FT_STRING",
    "zenoh.error.offset": "FT_UINT32",
    "zenoh.header": "FT_UINT8",
    "zenoh.number": "FT_INT64",
    "zenoh.request_in": "FT_FRAMENUM",
    "zenoh.response_time": "FT_RELATIVE_TIME",
    "zenoh.at": "FT_ABSOLUTE_TIME",
    "zenoh.known": "FT_BOOLEAN",
    "zenoh.expert.gap": "FT_NONE",
}
TABLE = FieldTable(TYPES)


def ek(*trees: str) -> Fields:
    """Fields by their names in EK without the protocol, as tshark writes them."""
    return from_ek(TABLE, [json.loads(tree, object_pairs_hook=Pairs) for tree in trees])


def one(name: str, text: Any) -> Any:
    return ek(json.dumps({f"zenoh_zenoh_{name}": text})).get_field(name.replace("_sn", ".sn"))


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("frame_sn", "18446744073709551615", 2**64 - 1),
        ("header", "0x2a", 42),
        ("number", "-5", -5),
        ("request_in", "31", 31),
        ("response_time", "0.001500000", 0.0015),
        ("response_time", "-0.5", -0.5),
        ("keyexpr", "a/b", "a/b"),
        ("keyexpr", "", ""),
        ("known", True, True),
        ("known", "1", True),
        ("known", "0", False),
        ("known", "False", False),
        ("at", "2023-11-14T22:13:20.250000000Z", 1_700_000_000.25),
        ("at", "Nov 14, 2023 22:13:20.250000000 UTC", 1_700_000_000.25),
        ("at", "Jan  2, 1970 00:00:00.000000000 UTC", 86_400.0),
    ],
)
def test_text_of_a_field_becomes_its_type(name: str, text: Any, value: object) -> None:
    found = one(name, text)
    assert found == value
    assert type(found) is type(value)


def test_time_in_the_zone_of_the_machine_is_understood() -> None:
    assert one("at", "Jul  1, 2024 12:00:00.500000000 CEST") == datetime(2024, 7, 1, 12).timestamp() + 0.5  # noqa: DTZ001


@pytest.mark.parametrize(
    ("text", "value"), [("", b""), ("00", b"\0"), ("00:ff:3a", b"\0\xff:"), ("00ff", b"\0\xff")]
)
def test_bytes_are_bytes(text: str, value: bytes) -> None:
    assert ek(json.dumps({"zenoh_zenoh_put_data": text})).put.data == value


def test_field_without_a_value_is_true_when_it_is_there() -> None:
    fields = ek('{"zenoh_zenoh_frame":null}')
    assert fields.frame.value is True
    assert not fields.has_field("del")


def test_field_that_occurs_once_is_a_value_and_more_often_a_list() -> None:
    assert ek('{"zenoh_zenoh_frame_sn":"1"}').frame.sn == 1
    assert ek('{"zenoh_zenoh_frame_sn":["1","2"]}').frame.sn == [1, 2]


def test_field_as_list_is_a_list_however_often_it_occurs() -> None:
    assert ek("{}").get_field_as_list("frame.sn") == []
    assert ek('{"zenoh_zenoh_frame_sn":"1"}').frame.get_field_as_list("sn") == [1]
    assert ek('{"zenoh_zenoh_frame_sn":["1","2"]}').get_field_as_list("frame.sn") == [1, 2]
    assert ek('{"zenoh_zenoh_frame":[null,null]}').get_field_as_list("frame") == [True, True]


def test_missing_field_is_named() -> None:
    fields = ek('{"zenoh_zenoh_frame_sn":"1"}')
    with pytest.raises(AttributeError, match=r"this packet has no zenoh\.frame\.R"):
        fields.frame.R  # noqa: B018
    with pytest.raises(AttributeError, match=r"no zenoh\.frame\.wrong, nor has any"):
        fields.frame.wrong  # noqa: B018
    assert fields.get("put.data") is None
    assert fields.get("put.data", b"none") == b"none"
    assert "put" not in fields
    assert "frame" in fields


def test_name_with_a_value_and_fields_has_both() -> None:
    fields = ek('{"zenoh_zenoh_error":"Truncated","zenoh_zenoh_error_offset":"7"}')
    assert (fields.error.value, fields.error.offset) == ("Truncated", 7)


def test_keyword_of_python_has_an_underscore_behind_it() -> None:
    fields = ek('{"zenoh_zenoh_del":null,"zenoh_zenoh_del_Z":"1"}')
    assert fields.del_.Z == 1
    assert fields.get("del.Z") == 1
    assert "del_" in dir(fields)


def test_what_tshark_says_twice_under_one_name_is_all_there() -> None:
    fields = ek('{"zenoh_zenoh_keyexpr":["a","b"],"zenoh_zenoh_frame_sn":"1","zenoh_zenoh_keyexpr":"c"}')
    assert fields.keyexpr == ["a", "b", "c"]
    assert fields.frame.sn == 1


def test_several_trees_are_one_layer() -> None:
    assert ek('{"zenoh_zenoh_frame_sn":"1"}', '{"zenoh_zenoh_frame_sn":["2","3"]}').frame.sn == [1, 2, 3]


def test_remark_of_wireshark_is_a_field() -> None:
    inside = '{"zenoh_zenoh_expert_gap":null,"_ws_expert__ws_expert_message":"lost"}'
    assert ek(f'{{"zenoh_zenoh_frame_sn":"1","_ws_expert":{inside}}}').expert.gap is True
    assert ek(f'{{"_ws_expert":[{inside},{inside}]}}').expert.gap == [True, True]


def test_json_is_read_in_the_order_of_the_bytes() -> None:
    text = """{
        "zenoh.frame": {
            "zenoh.frame.sn": "1",
            "zenoh.frame.R_tree": {"zenoh.frame.R": "1"},
            "PUSH": {"zenoh.keyexpr": "a", "zenoh.put.data": "61:62", "unknown": ["x", {"zenoh.keyexpr": "no"}]},
            "RESPONSE": {"zenoh.keyexpr": "b"},
            "PUSH": {"zenoh.keyexpr": "c", "zenoh.put.data": ""}
        },
        "zenoh.frame": "",
        "zenoh.error": "bad", "zenoh.error_tree": {"zenoh.error.offset": "7"}
    }"""
    fields = from_json(TABLE, [json.loads(text, object_pairs_hook=Pairs)])
    assert fields.keyexpr == ["a", "b", "c"]
    assert fields.put.data == [b"ab", b""]
    assert (fields.frame.value, fields.frame.sn, fields.frame.R) == ([True, True], 1, 1)
    assert (fields.error.value, fields.error.offset) == ("bad", 7)


def test_pairs_have_lists_for_what_occurs_several_times() -> None:
    pairs = json.loads('{"a": "1", "b": "", "a": {"c": "2"}, "b": ""}', object_pairs_hook=Pairs)
    assert pairs == {"a": ["1", {"c": "2"}], "b": ["", ""]}
    assert [name for name, _ in pairs.pairs] == ["a", "b", "a", "b"]


def test_names_and_text_show_what_is_there() -> None:
    fields = ek('{"zenoh_zenoh_frame":null,"zenoh_zenoh_frame_sn":"1","zenoh_zenoh_put_data":"00"}')
    assert fields.field_names == ["frame", "put"]
    assert fields.frame.field_names == ["sn"]
    assert fields.all_field_names == ["frame", "frame.sn", "put.data"]
    assert fields.layer_name == "zenoh"
    assert str(fields) == "Layer ZENOH:\n\tframe: True\n\tframe.sn: 1\n\tput.data: b'\\x00'\n"
    assert repr(fields) == "<ZENOH Layer>"


def test_fields_survive_pickling() -> None:
    assert pickle.loads(pickle.dumps(ek('{"zenoh_zenoh_frame_sn":"1"}'))).frame.sn == 1


def test_long_lists_take_time_in_proportion_to_their_length() -> None:
    data = ["00"] * 50_000
    fields = ek(json.dumps({"zenoh_zenoh_put_data": data, "_ws_expert": {}}))
    assert fields.put.data == [b"\0"] * 50_000
