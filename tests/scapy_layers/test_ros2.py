"""The attachment of rmw_zenoh, in both forms that its releases write."""

from __future__ import annotations

import pytest

from scapy_layers.catalogue import decode
from scapy_layers.codes import Kind
from scapy_layers.data import Put
from scapy_layers.extensions import PutAttachment
from scapy_layers.present import as_data
from scapy_layers.ros2 import Ros2Attachment, from_attachment

GID = bytes(range(0xA0, 0xB0))
NUMBER = bytes.fromhex("0500000000000000")
TIME = bytes.fromhex("00002a36fe9c9717")
BARE = NUMBER + TIME + b"\x10" + GID
NAMED = b"\x0fsequence_number" + NUMBER + b"\x10source_timestamp" + TIME + b"\x0asource_gid\x10" + GID
SAID = Ros2Attachment(5, 1_700_000_000_000_000_000, GID)


@pytest.mark.parametrize("raw", [BARE, NAMED], ids=["bare", "named"])
def test_both_forms_say_the_same(raw: bytes) -> None:
    assert from_attachment(raw) == SAID


def test_numbers_are_signed() -> None:
    said = from_attachment(b"\xff" * 16 + b"\x10" + GID)
    assert said == Ros2Attachment(-1, -1, GID)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        BARE[:-1],
        BARE + b"\0",
        BARE[:16] + b"\x0f" + GID[:15],
        NAMED.replace(b"source_gid", b"source_git"),
    ],
    ids=["empty", "cut", "longer", "short id", "other name"],
)
def test_anything_else_is_none(raw: bytes) -> None:
    assert from_attachment(raw) is None


def test_attachment_is_shown_decoded() -> None:
    put = decode(bytes(Put(extensions=[PutAttachment(attachment=BARE)], data=b"x")), Kind.DATA)
    assert (
        f"ROS 2: sequence_number=5 source_timestamp=1700000000000000000 source_gid={GID.hex()}"
        in put.show(dump=True)
    )
    (shown,) = as_data(put)["extensions"]
    assert shown["ros2"] == {
        "sequence_number": 5,
        "source_timestamp": 1_700_000_000_000_000_000,
        "source_gid": GID.hex(),
    }
