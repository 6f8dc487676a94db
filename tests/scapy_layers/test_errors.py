"""The errors: what they carry, and that they survive a process boundary."""

from __future__ import annotations

import pickle

import pytest

from scapy_layers import errors

KINDS = [
    errors.WireError,
    errors.Truncated,
    errors.Overlong,
    errors.BadValue,
    errors.UnknownMessage,
    errors.UnknownMandatoryExtension,
]


@pytest.mark.parametrize("kind", KINDS)
def test_error_says_field_place_and_finding(kind: type[errors.WireError]) -> None:
    error = kind("zid", "nothing", 7).within("INIT").within("batch")
    assert isinstance(error, ValueError)
    assert type(error) is kind
    assert (error.field, error.offset, error.found) == ("batch.INIT.zid", 7, "nothing")
    assert str(error) == "batch.INIT.zid at byte 7: nothing"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_error_without_a_field_takes_the_name_around_it() -> None:
    assert errors.Truncated("", "end").within("SCOUT").field == "SCOUT"
