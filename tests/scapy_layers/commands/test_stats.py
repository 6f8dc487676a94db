"""``zenoh-dissect stats``, and what ``statistics`` counts."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from scapy_layers import capture
from scapy_layers.__main__ import main
from scapy_layers.conversation import Heard, listen
from scapy_layers.statistics import Statistics
from tests.scapy_layers.commands.said import A, B, Said, final, put, query, reply
from tests.scapy_layers.packets import pcap

ROOT = Path(__file__).parents[3]
PCAPS = ROOT / "pcaps"
FORMATS = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")


def numbers(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict[str, Any]:
    assert main(["stats", "-f", "json", *arguments]) == status
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    return data


def talk() -> Said:
    said = Said().say(put("a", b"12345"), put("b", b"1")).say(put("a", b""))
    said.say(query(1, "q")).say(reply(1, "q", b"r"), back=True).say(final(1), back=True)
    return said.say(query(2, "q"))


def test_messages_count_by_the_names_of_the_specification(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = numbers(capsys, talk().write(tmp_path / "x.pcap"))
    assert data["counts"] == {
        "FRAME": 6,
        "INIT_ACK": 1,
        "INIT_SYN": 1,
        "OPEN_ACK": 1,
        "OPEN_SYN": 1,
        "PUSH": 3,
        "PUT": 4,
        "QUERY": 2,
        "REPLY": 1,
        "REQUEST": 2,
        "RESPONSE": 1,
        "RESPONSE_FINAL": 1,
    }
    assert (data["packets"], data["duration"]) == (12, 11 * 10**9)


def test_keys_nodes_and_requests_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = numbers(capsys, talk().write(tmp_path / "x.pcap"))
    first, second, third = data["keys"]["listed"]
    assert (first["keyexpr"], first["queries"], first["replies"], first["payload_bytes"]) == ("q", 2, 1, 1)
    assert (second["keyexpr"], second["puts"], second["payload_bytes"]) == ("a", 2, 5)
    assert (third["keyexpr"], third["events"], third["per_second"]) == ("b", 1, 0.091)
    assert (data["keys"]["total"]["events"], data["keys"]["total"]["payload_bytes"]) == (6, 7)
    assert [
        (row["zid"], row["whatami"], row["messages"], row["payload_bytes"]) for row in data["zids"]["listed"]
    ] == [
        (A, "client", 11, 6),
        (B, "router", 6, 1),
    ]
    requests = data["requests"]
    assert (requests["sent"], requests["answered"], requests["unanswered"]) == (2, 1, 1)
    assert requests["to_first_reply"]["median"] == 10**9
    assert requests["to_final"] == {
        "count": 1,
        "min": 2 * 10**9,
        "median": 2 * 10**9,
        "max": 2 * 10**9,
        "median_is_exact": True,
    }
    (session,) = data["sessions"]["listed"]
    assert (session["zids"], session["whatami"], session["links"]) == ([A, B], ["client", "router"], [0])


def test_only_the_first_reply_to_a_query_is_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = Said().say(query(1, "q")).say(reply(1, "a"), back=True).say(reply(1, "b"), back=True)
    first = numbers(capsys, said.write(tmp_path / "x.pcap"))["requests"]["to_first_reply"]
    assert (first["count"], first["max"]) == (1, 10**9)


def test_what_a_table_has_no_room_for_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = numbers(capsys, talk().write(tmp_path / "x.pcap"), "--top", "1")
    assert [row["keyexpr"] for row in data["keys"]["listed"]] == ["q"]
    assert data["keys"]["left_out"] == {"rows": 2, "messages": 3}


def test_links_that_were_captured_out_of_order_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    *before, asked, replied = Said().say(query(1, "q")).say(reply(1, "a"), back=True).packets()
    for name, packets in (("x.pcap", [asked, replied]), ("y.pcap", [replied, asked]), ("z.pcap", [replied])):
        path = tmp_path / name
        path.write_bytes(pcap([*before, *packets]))
        out_of_order = name == "y.pcap"
        assert numbers(capsys, str(path))["disordered_links"] == int(out_of_order)
        main(["stats", str(path)])
        assert ("captured out of order: 1 links" in capsys.readouterr().out) is out_of_order


def test_fewer_rows_than_none_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["stats", "x.pcap", "--top", "-1"])
    assert ended.value.code == 2
    assert "--top: at least 0" in capsys.readouterr().err


def test_captures_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [talk().write(tmp_path / name) for name in ("x.pcap", "y.pcap")]
    data = numbers(capsys, *names)
    assert (data["captures"], data["packets"], data["duration"]) == (2, 24, 22 * 10**9)
    assert data["counts"]["PUT"] == 8
    assert [(row["capture"], row["link"]) for row in data["links"]["listed"]] == [(1, 0), (2, 0)]


def test_gaps_of_which_nobody_knows_the_size_are_counted_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.pcap"
    # A capture that begins inside of a connection.
    path.write_bytes(pcap([*talk().packets()][5:]))
    gaps = numbers(capsys, str(path))["gaps"]
    assert gaps["of_unknown_size"] == gaps["count"] > 0
    main(["stats", str(path)])
    assert (
        f"gaps: {gaps['count']}, {gaps['count']} of unknown size; 0 bytes missing" in capsys.readouterr().out
    )


def test_loss_and_remarks_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.pcap"
    said = talk()
    lost = [packet for at, packet in enumerate(said.packets()) if at != 6]
    path.write_bytes(pcap(lost))
    data = numbers(capsys, str(path))
    assert data["gaps"]["count"] == 1
    assert data["gaps"]["missing_bytes"] > 0
    assert data["gaps"]["reasons"]


def test_links_of_one_session_are_one(capsys: pytest.CaptureFixture[str]) -> None:
    data = numbers(capsys, str(PCAPS / "multilink.pcapng"))
    links = sorted(row["links"] for row in data["sessions"]["listed"])
    assert links == [[0], [1, 2]]
    assert sum(row["messages"] for row in data["sessions"]["listed"]) == sum(
        row["messages"] for row in data["links"]["listed"]
    )


@pytest.mark.parametrize("path", sorted(PCAPS.glob("*.pcapng")), ids=lambda path: path.stem)
def test_counts_of_every_capture_are_those_of_its_messages(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    heard = [one for one in listen(capture.read(path)) if isinstance(one, Heard)]
    names = Counter(str(one.message.name) for one in heard if one.message.name != "UNREAD")
    names += Counter(str(body.name) for one in heard if (body := one.message.fields.get("body")) is not None)
    counts = numbers(capsys, str(path))["counts"]
    for name in ("INIT", "OPEN"):
        assert counts.get(f"{name}_SYN", 0) + counts.get(f"{name}_ACK", 0) == names.pop(name, 0)
    for name in names:
        if name not in {"PUT", "DEL"}:  # those in a REPLY lie deeper
            assert counts[name] == names[name]
    assert main(["stats", str(path)]) == 0
    text = capsys.readouterr().out
    for name in counts:
        assert f" {name}" in text


def test_every_field_is_in_the_description(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documented = set(re.findall(r"`(\w+)`|\"(\w+)\"", FORMATS[FORMATS.index("## `stats") :]))
    words = {word for pair in documented for word in pair if word}
    data = numbers(capsys, talk().write(tmp_path / "x.pcap"))
    assert set(data) <= words
    for table in ("links", "sessions", "zids", "keys"):
        assert set(data[table]["listed"][0]) <= words
    assert set(data["requests"]) | set(data["gaps"]) | set(data["requests"]["to_final"]) <= words


def test_interrupt_shows_what_was_counted_by_then(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    take = Statistics.take

    def stop(self: Statistics, heard: Heard) -> None:
        take(self, heard)
        if heard.number == 7:
            raise KeyboardInterrupt

    monkeypatch.setattr(Statistics, "take", stop)
    data = numbers(capsys, talk().write(tmp_path / "x.pcap"), status=130)
    assert (data["packets"], data["counts"]["FRAME"]) == (7, 1)


def test_capture_without_zenoh_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", str(PCAPS / "tls.pcapng")]) == 0
    assert "no readable Zenoh messages" in capsys.readouterr().out
