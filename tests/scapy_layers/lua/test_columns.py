"""The columns of tshark: whoever asks for one has it, alone or with others, in every pass."""

import pytest

from tests.scapy_layers.lua.wire import PCAPS, fields, needs_tshark, tshark

pytestmark = needs_tshark

CAPTURE = PCAPS / "declarations.pcapng"


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
