"""What a tester writes: rows and captures of every kind of link."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.config import Locator
from conformance.tester import Tester
from conformance.tester.bends import changed
from conformance.tester.writing import from_one_side
from scapy_layers.data import Put
from scapy_layers.network import Push
from scapy_layers.scouting import Hello, Scout
from scapy_layers.transport import Join
from spark_reports.folders import find_run_folders
from spark_reports.rows import read_run
from tests.conformance.tester._pairs import lone_tester, session_pair
from tests.conformance.tester.test_scout import free_group, locator_of

tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


@pytest.fixture
def tester() -> Iterator[Tester]:
    with lone_tester() as made:
        yield made


def rows(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "observations.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if "seq" in row]


def shown(capture: Path, *options: str) -> list[str]:
    """Returns what tshark says about each packet."""
    done = subprocess.run(
        ["tshark", "-r", str(capture), *options], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_rows_say_all_that_was_seen_and_a_second_run_is_added(tester: Tester, tmp_path: Path) -> None:
    ours, theirs = session_pair(tester)
    ours.put("a")
    theirs.expect(Push)
    first = tester.write(tmp_path, "one/two three")
    second = tester.write(tmp_path, "one/two three")
    assert (first.name, second.name) == ("one-two-three.pcapng", "one-two-three-2.pcapng")
    written = rows(tmp_path)
    assert len(written) == 2 * len(tester.history.observations)
    assert {row["test"] for row in written} == {"one/two three"}
    assert [row["messages"] for row in written if row["direction"] == "received"][-1] == "FRAME PUSH PUT"


def test_folder_is_a_run_that_reports_can_read(tester: Tester, tmp_path: Path) -> None:
    tester.locator = Locator("tcp", "127.0.0.1", 7447)
    tester.write(tmp_path / "run", "one")
    run = read_run(tmp_path / "run")
    assert (run.kind, run.status, run.node, run.run_id) == ("tester", "complete", "tcp/127.0.0.1:7447", "run")
    found = find_run_folders([tmp_path])
    assert [folder.problem for folder in found] == [""]
    before = (tmp_path / "run" / "run.json").read_bytes()
    tester.write(tmp_path / "run", "two")
    assert (tmp_path / "run" / "run.json").read_bytes() == before


def test_link_between_two_of_our_ends_stands_once_in_the_capture(tester: Tester) -> None:
    ours, theirs = session_pair(tester)
    ours.bend(changed(Put, data=b"bent"))
    ours.put("a")
    theirs.expect(Push, key="a")
    theirs.put("b")
    ours.expect(Push, key="b")
    seen = from_one_side(tester.history).observations
    assert {one.link for one in seen} == {ours.name}
    names = [(str(one.direction), one.contents.names) for one in seen]
    assert names == [
        ("opened", ""),
        ("sent", "INIT"),
        ("received", "INIT"),
        ("sent", "OPEN"),
        ("received", "OPEN"),
        ("sent", "FRAME PUSH PUT"),
        ("received", "FRAME PUSH PUT"),
    ]
    notes = [text for one in seen for text in from_one_side(tester.history).notes(one.seq)]
    assert "expected PUSH key='a': met" in notes
    assert f"bend on {ours.name}: PUT with data=b'bent'" in notes


def test_datagram_between_two_of_our_ends_stands_once(tester: Tester) -> None:
    where = locator_of(free_group())
    scout, responder = tester.scout(where), tester.responder(where, "tcp/127.0.0.1:7447")
    scout.scout()
    scout.expect(Hello)
    responder.expect(Scout)
    seen = from_one_side(tester.history).observations
    names = [(str(one.direction), one.link, one.contents.names) for one in seen if one.raw]
    assert names == [("sent", scout.name, "SCOUT"), ("sent", responder.name, "HELLO")]


def test_link_with_somebody_else_stays_as_it_is(tester: Tester) -> None:
    with lone_tester() as other:
        link = tester.link(other.listen().locator)
        link.send(b"\x04")
        tester.note("a remark")
    before, after = tester.history, from_one_side(tester.history)
    assert [(one.seq, one.link, one.raw) for one in after.observations] == [
        (one.seq, one.link, one.raw) for one in before.observations
    ]
    assert after.notes(1) == ["a remark"]


@tshark
@pytest.mark.parametrize("form", [{}, {"lowlatency": True}, {"compression": True}], ids=str)
def test_capture_of_a_session_has_no_retransmissions(
    tester: Tester, tmp_path: Path, form: dict[str, Any]
) -> None:
    ours, theirs = session_pair(tester, **form)
    ours.put("a", b"x" * 200)
    theirs.expect(Push, key="a")
    theirs.close()
    ours.expect_end()
    path = tester.write(tmp_path, "session", title="what it is about", remarks=["verdict: pass"])
    assert shown(path, "-Y", "tcp.analysis.flags") == []
    comments = "\n".join(shown(path, "-T", "fields", "-e", "frame.comment"))
    assert "what it is about" in comments
    assert "expected PUSH key='a': met" in comments
    assert comments.rstrip().endswith("verdict: pass")


@tshark
def test_capture_holds_scouting_groups_and_every_kind_of_link(
    tester: Tester, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    socket_path = tmp_path_factory.mktemp("s") / "s"
    for where in ("udp/127.0.0.1:0", "ws/127.0.0.1:0", f"unixsock-stream/{socket_path}"):
        ours, theirs = session_pair(tester, tester.listen(where))
        ours.put("a")
        theirs.expect(Push)
    scouting, transport = locator_of(free_group()), locator_of(free_group())
    scout, responder = tester.scout(scouting), tester.responder(scouting, "tcp/127.0.0.1:7447")
    scout.scout()
    scout.expect(Hello)
    responder.expect(Scout)
    one, two = tester.group(transport), tester.group(transport)
    one.expect(Join)
    path = tester.write(tmp_path, "all")
    lines = shown(path, "-T", "fields", "-e", "udp.dstport", "-e", "tcp.dstport", "-e", "frame.comment")
    text = "\n".join(lines)
    assert sum(bool(line.split("\t")[0]) for line in lines) >= 5 + 4
    for word in ("SCOUT", "HELLO", "JOIN", "OPEN", "PUSH"):
        assert word in text
    names = {row["messages"] for row in rows(tmp_path)}
    assert {"SCOUT", "HELLO", "JOIN", "INIT"} <= names
    assert two.members is not None
