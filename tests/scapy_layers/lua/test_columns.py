"""The columns of tshark: whoever asks for one has it, alone or with others, in every pass."""

from pathlib import Path

import pytest

from scapy_layers.transport import KeepAlive
from tests.scapy_layers.lua.made import Talk, frame, put, save
from tests.scapy_layers.lua.wire import PCAPS, fields, needs_tshark, tshark

pytestmark = needs_tshark

CAPTURE = PCAPS / "declarations.pcapng"
WINDOW = 512
"""Bytes that a ``Talk`` leaves room for."""


def column(letter: str, *options: str) -> list[str]:
    """Returns what stands in the only column there is."""
    text = tshark(CAPTURE, "-Y", "zenoh", "-o", f'gui.column.format:"one","{letter}"', *options)
    return [line.strip() for line in text.splitlines()]


@pytest.mark.parametrize("passes", [(), ("-2",)], ids=["one pass", "two passes"])
def test_info_says_the_same_however_it_is_asked_for(passes: tuple[str, ...]) -> None:
    infos = column("%i", *passes)
    assert infos[0].startswith("INIT syn ")
    assert [[info] for info in infos] == fields(CAPTURE, "_ws.col.Info", options=passes)


def test_protocol_is_told_where_nobody_asks_for_info() -> None:
    assert set(column("%p")) == {"Zenoh"}


@pytest.mark.parametrize("passes", [(), ("-2",)], ids=["one pass", "two passes"])
def test_batch_that_a_segment_completes_is_told_once_and_before_the_rest(
    tmp_path: Path, passes: tuple[str, ...]
) -> None:
    talk = Talk()
    talk.handshake()
    batches = [bytes(frame(10, put("a"))), bytes(KeepAlive()), bytes(frame(11, put("b")))]
    first, second, third = (len(batch).to_bytes(2, "little") + batch for batch in batches)
    talk.raw(first[:5])
    talk.raw(first[5:] + second + third)
    path = save(tmp_path / "two.pcap", talk)
    assert fields(path, "_ws.col.Info", options=passes)[-1] == ["PUSH a PUT, KEEP_ALIVE, PUSH b PUT"]


@pytest.mark.parametrize("passes", [(), ("-2",)], ids=["one pass", "two passes"])
def test_segment_that_only_begins_a_batch_is_no_packet_of_zenoh(
    tmp_path: Path, passes: tuple[str, ...]
) -> None:
    talk = Talk()
    talk.handshake()
    raw = bytes(frame(10, put("a")))
    batch = len(raw).to_bytes(2, "little") + raw
    for piece in (batch[:1], batch[1:5], batch[5:]):
        talk.raw(piece)
    path = save(tmp_path / "three.pcap", talk)
    sent = fields(path, "frame.number", where="tcp.len > 0", options=passes)
    assert fields(path, "frame.number", options=passes) == [*sent[:-3], sent[-1]]


@pytest.mark.parametrize("passes", [(), ("-2",)], ids=["one pass", "two passes"])
def test_what_tcp_says_of_a_segment_stays_in_front(tmp_path: Path, passes: tuple[str, ...]) -> None:
    talk = Talk()
    talk.handshake()
    raw = bytes(frame(10, put("a" * 480)))
    sent = len(raw).to_bytes(2, "little") + raw + b"\1\0" + bytes(KeepAlive())
    sent += b"\1\0\4" * ((WINDOW - len(sent)) // 3)
    talk.raw(sent[:100])
    talk.raw(sent[100:] + b"\1\0\4"[: WINDOW - len(sent)])
    (info,) = fields(save(tmp_path / "full.pcap", talk), "_ws.col.Info", options=passes)[-1]
    assert info.startswith("[TCP Window Full] PUSH aaa")
    assert info.count("PUSH") == 1
