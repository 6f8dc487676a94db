"""WebSocket in zenoh.lua: frames and masks as the layers read them, and links that are joined anywhere."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from scapy_layers import websocket
from scapy_layers.data import Put, Query
from scapy_layers.network import Request, ResponseFinal
from scapy_layers.transport import Close, Frame, Open
from tests.scapy_layers.lua.parts import VERSIONS, Runtime, part, runtime
from tests.scapy_layers.lua.test_heuristic import ACK, SYN, UPGRADE, UPGRADED
from tests.scapy_layers.lua.wire import Talk, count, needs_tshark, push, values


@pytest.fixture(params=VERSIONS)
def lua(request: pytest.FixtureRequest) -> Runtime:
    lua = runtime(request.param)
    lua.execute("Z = {}")
    part(lua, "looks", "")
    part(lua, "websocket", "")
    return lua


def headers() -> list[bytes]:
    chance = random.Random(5)
    made = []
    for _ in range(3_000):
        first = chance.choice((0x82, 0x82, 0x02, 0x00, 0x80, 0x88, 0x89, chance.randrange(256)))
        made.append(bytes([first]) + chance.randbytes(chance.randrange(16)))
    return made


def test_frame_is_read_as_the_layers_read_it(lua: Runtime) -> None:
    read: Any = lua.execute(
        "return function(raw) local first, start, behind, mask = Z.websockets.frame(raw, 0)"
        " if not first then return { first == nil } end return { first, start, behind, mask or '' } end"
    )
    for raw in headers():
        told = list(read(raw).values())
        try:
            found = websocket.frame(raw, 0)
        except ValueError:
            assert told == [False], raw.hex()
            continue
        if found is None:
            assert told == [True], raw.hex()
        else:
            size = found.end - found.start
            # Of sizes that no message has all that counts is that they are too large.
            end = found.end if size < 1 << 40 else found.start + (1 << 40)
            assert told == [*found._replace(end=end)], raw.hex()


@pytest.mark.parametrize("size", [0, 1, 5, 4_095, 4_098, 10_000])
def test_mask_is_taken_away(lua: Runtime, size: int) -> None:
    data, mask = random.Random(size).randbytes(size), b"\x00\x7f\x80\xff"
    raw = b"\x82\xff" + size.to_bytes(8, "big") + mask + websocket.unmask(data, mask)
    unmasked: Any = lua.execute(
        "return function(raw) local start, behind, mask = Z.looks.place.ws(raw, 0)"
        " return mask(raw:sub(start + 1, behind)) end"
    )
    assert unmasked(raw) == data


@pytest.mark.parametrize(
    ("header", "size"),
    [
        (UPGRADE, len(UPGRADE)),
        (UPGRADED, len(UPGRADED)),
        (UPGRADE[:-1], -1),
        (UPGRADE[:2], -1),
        (UPGRADED[:7], -1),
        (UPGRADED[:9], -1),
        (b"HTTP/2", None),
        (UPGRADED.replace(b"websocket", b"WebSocket") + b"\x82\0", len(UPGRADED)),
        (UPGRADED.replace(b"HTTP/1.1", b"HTTP/1.0"), len(UPGRADED)),
        (UPGRADED.replace(b"HTTP/1.1", b"HTTP/2.1"), None),
        (UPGRADED.replace(b"websocket", b"h2c"), None),
        (UPGRADED.replace(b"websocket", b"xwebsocket"), None),
        (UPGRADE.replace(b"Upgrade: websocket", b"Upgrad: websocket"), len(UPGRADE) - 1),
        (UPGRADED.replace(b"\r\n\r\n", b"\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"), None),
        (UPGRADED.replace(b"101", b"404"), None),
        (b"GET " + b"a" * 20_000, None),
    ],
)
def test_upgrade_is_known_by_its_header(lua: Runtime, header: bytes, size: int | None) -> None:
    upgrade: Any = lua.execute("return Z.websockets.upgrade")
    assert upgrade(header) == size
    answer, end = websocket.upgrade(header, expected=True)
    assert (answer is websocket.Answer.YES) == (size is not None and size > 0)
    assert end == (size or 0) or size == -1


# With tshark --------------------------------------------------------------------------------------

MASK = b"abcd"


def message(one: Frame | Open | bytes, *, back: bool) -> bytes:
    raw = bytes(one)
    head = bytes([0x82, 126 | (0 if back else 0x80)]) + len(raw).to_bytes(2, "big")
    return head + (raw if back else MASK + websocket.unmask(raw, MASK))


def frames(count_of: int, first: int = 1) -> list[Frame]:
    return [
        Frame(R=1, sn=sn, messages=[push(f"key/{sn}", Put(data=b"1234"))])
        for sn in range(first, first + count_of)
    ]


def talk(*, port: int = 7447) -> Talk:
    made = Talk(port=port).syn().raw(UPGRADE).raw(UPGRADED, back=True)
    for one, back in (
        (SYN, False),
        (ACK, True),
        (Open(lease=10_000, initial_sn=1, cookie=b"cookie--"), False),
        (Open(A=1, lease=10_000, initial_sn=1), True),
    ):
        made.raw(message(bytes(one), back=back), back=back)
    return made


@needs_tshark
@pytest.mark.parametrize("passes", [(), ("-2",)], ids=["one pass", "two passes"])
@pytest.mark.parametrize("back", [False, True])
def test_link_is_joined_behind_its_upgrade(tmp_path: Path, back: bool, passes: tuple[str, ...]) -> None:
    made = talk()
    begun = len(made.packets)
    for one in frames(5):
        made.raw(message(one, back=back), back=back)
    made.raw(message(bytes(Close(S=1)), back=back), back=back)
    del made.packets[: begun + 1]
    path = made.save(tmp_path / "t.pcap")
    assert values(path, "zenoh.keyexpr", options=passes) == [f"key/{sn}" for sn in range(2, 6)]
    assert count(path, "zenoh.close && websocket", *passes) == 1


@needs_tshark
@pytest.mark.parametrize("passes", [(), ("-2",)], ids=["one pass", "two passes"])
@pytest.mark.parametrize(("asked", "late", "accused"), [(True, True, 0), (True, False, 0), (False, False, 1)])
def test_answer_that_was_captured_before_its_question_accuses_nobody(
    asked: bool, late: bool, accused: int, passes: tuple[str, ...], tmp_path: Path
) -> None:
    made = talk(port=8080)  # there Wireshark finds the frames
    if asked:
        query = Request(request_id=7, key_suffix="a", body=Query())
        made.raw(message(Frame(R=1, sn=1, messages=[query]), back=False))
    final = Frame(R=1, sn=1, messages=[ResponseFinal(request_id=7)])
    made.raw(message(final, back=True), back=True)
    if late:
        made.packets[-2:] = made.packets[:-3:-1]
    path = made.save(tmp_path / "t.pcap")
    options = ("-o", "tcp.reassemble_out_of_order:TRUE", *passes)
    assert count(path, "zenoh.response_final", *options) == 1
    assert count(path, "zenoh.expert.request", *options) == accused


@needs_tshark
def test_message_that_is_longer_than_wireshark_unmasks_is_read(tmp_path: Path) -> None:
    made = talk()
    raw = bytes(Frame(R=1, sn=1, messages=[push("a", Put(data=bytes(300_000)))]))
    sent = b"\x82\xff" + len(raw).to_bytes(8, "big") + MASK + websocket.unmask(raw, MASK)
    for at in range(0, len(sent), 50_000):
        made.raw(sent[at : at + 50_000])
    made.raw(message(frames(1, 2)[0], back=False))
    path = made.save(tmp_path / "t.pcap")
    assert [len(data) for data in values(path, "zenoh.put.data")] == [600_000, 8]


@needs_tshark
def test_packet_with_hundreds_of_frames_is_read_to_its_end(tmp_path: Path) -> None:
    made = talk().raw(b"".join(message(one, back=False) for one in frames(600)))
    path = made.save(tmp_path / "t.pcap")
    assert values(path, "zenoh.keyexpr") == [f"key/{sn}" for sn in range(1, 601)]
    assert count(path, "_ws.malformed") == 0


@needs_tshark
@pytest.mark.parametrize("passes", [(), ("-2",)], ids=["one pass", "two passes"])
def test_what_is_no_frame_is_passed_over(tmp_path: Path, passes: tuple[str, ...]) -> None:
    whole = [message(one, back=False) for one in frames(4)]
    made = talk().raw(whole[0]).raw(b"\xc2\x01a" + whole[1] + whole[2]).raw(whole[3])
    path = made.save(tmp_path / "t.pcap")
    assert values(path, "zenoh.keyexpr", options=passes) == ["key/1", "key/2", "key/3", "key/4"]


@needs_tshark
def test_whole_frames_of_a_packet_that_the_capture_has_cut_off_are_read(tmp_path: Path) -> None:
    made = talk()
    begun = len(made.packets)
    made.raw(message(frames(1)[0], back=False))
    made.raw(b"".join(message(one, back=False) for one in frames(3, 2)))
    cut = made.packets[-1]
    made.packets[-1] = type(cut)(bytes(cut)[:-3])
    made.packets[-1].wirelen = len(cut)
    del made.packets[:begun]
    path = made.save(tmp_path / "t.pcap")
    assert values(path, "zenoh.keyexpr") == ["key/1", "key/2", "key/3"]
