"""Shapes: plain records, for processes that have no Scapy."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from scapy_layers import shape
from scapy_layers.catalogue import shapes
from scapy_layers.codes import Enc

WITHOUT_SCAPY = """
import pickle, sys
for name in ("scapy", "hypothesis", "pyspark", "pytest"):
    sys.modules[name] = None
from scapy_layers import codes, errors, primitives, shape
read = pickle.load(sys.stdin.buffer)
fields = [one for message in read.values() for one in shape.walk(message.fields)]
print(len(read), len(fields), hash(tuple(fields)) != 0, not [n for n in sys.modules if n.startswith("scapy.")])
"""


def test_shapes_travel_to_a_process_without_scapy() -> None:
    sent = pickle.dumps(shapes())
    done = subprocess.run([sys.executable, "-c", WITHOUT_SCAPY], input=sent, capture_output=True, check=True)
    count = sum(1 for message in shapes().values() for _ in shape.walk(message.fields))
    assert done.stdout.decode().split() == [str(len(shapes())), str(count), "True", "True"]


def test_shapes_are_values() -> None:
    twin = pickle.loads(pickle.dumps(shapes()))
    assert twin == shapes()
    assert hash(tuple(twin.values())) == hash(tuple(shapes().values()))


@pytest.mark.parametrize(
    ("condition", "value", "holds"),
    [
        (shape.Condition("S"), 1, True),
        (shape.Condition("S"), 0, False),
        (shape.Condition("A", 0), 0, True),
        (shape.Condition("mode", None), 3, True),
        (shape.Condition("mode", None), 0, False),
        (shape.Condition("mode", None, negated=True), 0, True),
        (shape.Condition("oam_id", 1, negated=True), 1, False),
        (shape.Condition("oam_id", 1, negated=True), 7, True),
    ],
)
def test_condition(condition: shape.Condition, value: int, holds: bool) -> None:
    assert condition.holds(value) is holds


def test_carries() -> None:
    sliced = shape.Carries("extensions", 0x12)
    assert [sliced.holds(headers) for headers in ([], [0x02], {0x41, 0x12})] == [False, False, True]
    assert shape.Carries("extensions", 0x12, negated=True).holds([])


def test_extension_header_is_what_the_tables_print() -> None:
    assert shape.Extension("NodeId", 3, Enc.Z64, True, ()).header == 0x33
    assert shape.Extension("WireExpr", 15, Enc.ZBUF, True, ()).header == 0x5F


def test_walk_goes_into_conditions() -> None:
    inner = shape.U8("inner")
    outer = shape.When((shape.Condition("S"),), (inner,))
    assert list(shape.walk((outer,))) == [outer, inner]


def test_reserved_bits_are_known_by_their_name() -> None:
    assert shape.Bits("reserved3", 1, 3).reserved
    assert not shape.Bits("rid", 2, 2).reserved
