from __future__ import annotations

import ast
import contextlib
import json
import multiprocessing
import os
import random
import runpy
import shutil
import socket
import subprocess
import sys
import threading
import unittest
from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from scapy.utils import RawPcapNgReader

from conformance.config import Locator, RunConfig, prepare_run_dir
from conformance.nodes import Node, node_of
from conformance.observe import Seen
from conformance.tester import SessionEnd
from fuzz import standalone
from fuzz.__main__ import main
from fuzz.cases import Cause, reach, send
from fuzz.commands.findings import LONGEST, _words, add_replay, add_show, add_shrink, line_of
from fuzz.findings import (
    CAPTURE,
    FINDING,
    FIRST,
    FLAKY,
    PATIENCE,
    README,
    SCRIPT,
    TEST,
    Finding,
    NoFinding,
    dump,
    folder_of,
    open_folder,
    readme_of,
    slug_of,
)
from fuzz.lab import ROUNDS, ROUNDS_SECONDS, Lab, Part, Tried
from fuzz.oracles import Harm, Patient, canary
from fuzz.oracles.besides import BESIDES, LARGE
from fuzz.oracles.common import COMMON
from fuzz.oracles.fresh import EXCHANGES
from fuzz.oracles.trouble import Wrong
from fuzz.player import Answer, Ending, Played
from fuzz.player.pipe import EARLY
from fuzz.regression import LATE, _source, fails_on, flat, placed, shortened
from fuzz.regression import test_of as text_of_test
from fuzz.script import Do, Script, Step, Template
from fuzz.standalone import MASKS, TRIES, Link, Replay, _datagrams, vle
from fuzz.states import State
from fuzz.triage import Triage
from scapy_layers.batch import BatchReader, contents, prefixed
from scapy_layers.data import Put
from scapy_layers.message import Message
from scapy_layers.network import Push, Request, Response
from scapy_layers.primitives import write_vle
from scapy_layers.transport import Frame, Init, Open
from tests.conformance.tester.test_scout import free_group, locator_of
from tests.fuzz.hospital import CRASH, SickNode, config_in, lab_of, on, suspect
from tests.fuzz.planted import FAULTS, command


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Finding:
    config = config_in(tmp_path_factory.mktemp("made") / "run")
    node = SickNode(on(b"bad"))
    with lab_of(config, node) as lab:
        triage = Triage(config, node, lab)
        finding = triage.found(CRASH, [suspect(1, b"harmless"), suspect(2, b"a bad one")])
        triage.minimise(finding, 10)
    return finding


@pytest.fixture
def found(made: Finding, tmp_path: Path) -> Finding:
    """A finding, with a folder of its own."""
    assert made.path is not None
    folder = tmp_path / "run" / "findings" / made.path.name
    shutil.copytree(made.path, folder)
    return replace(made, path=folder, notes=[])


# The folder ------------------------------------------------------------------------------------------


def test_a_finding_is_a_folder_that_says_all_of_it(found: Finding) -> None:
    assert found.path is not None
    assert sorted(path.name for path in found.path.iterdir()) == sorted(
        [FINDING, SCRIPT, FIRST, CAPTURE, README, TEST]
    )
    value = json.loads((found.path / FINDING).read_text())
    assert value["bucket"] == found.bucket
    assert value["confirmed"] == {"hits": 3, "tries": 3}
    assert value["minimised"]["messages"] == 1
    assert (value["case"], value["seed"], value["campaign"]) == (2, 7, "trial")
    assert (value["node_impl"], value["node_version"]) == ("sick", "1.2.3")
    assert Script.from_json(json.loads((found.path / SCRIPT).read_text())) == found.script
    assert Script.from_json(json.loads((found.path / FIRST).read_text())) == found.first
    assert found.first != found.script
    assert value["commands"]["test"] == f"pytest {TEST}"
    page = (found.path / README).read_text()
    assert TEST in page
    assert CAPTURE in page
    assert "3 of 3 fresh nodes" in page
    assert "{size}626164" in page
    assert "zenoh-fuzz replay ." in page


@pytest.mark.parametrize(
    ("fields", "place", "shown"),
    [
        ("ab", "", "Cases with different mutations fell into this bucket: a, b. "),
        ("abcdefghi", "", "fell into this bucket: a, b, c, d, e, f, g, h and 1 more. "),
        ("a", "", ""),
        ("ab", "net/face.rs:12", ""),
    ],
)
def test_the_page_has_the_notes_and_says_that_one_finding_may_be_several_faults(
    found: Finding, fields: str, place: str, shown: str
) -> None:
    finding = replace(found, place=place, causes={Cause("source", field, "lie") for field in fields})
    finding.notes.append("The machine was busy.")
    page = readme_of(finding)
    assert "\nThe machine was busy.\n" in page
    assert shown in page
    assert ("fell into this bucket" in page) is bool(shown)


def test_what_was_never_seen_again_names_no_file_that_is_not_there(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run")
    node = SickNode(lambda _: None)
    with lab_of(config, node) as lab:
        finding = Triage(config, node, lab).found(CRASH, [suspect(1, b"harmless"), suspect(2, b"as well")])
    folder = finding.path
    assert folder is not None
    assert sorted(path.name for path in folder.iterdir()) == sorted([FINDING, SCRIPT, FIRST, README])
    for name in (README, FINDING):
        text = (folder / name).read_text()
        assert TEST not in text
        assert CAPTURE not in text
    assert "neither a capture nor a test" in (folder / README).read_text()
    assert "test" not in Finding.load(folder).to_json()["commands"]


def test_what_nobody_could_be_found_for_was_not_tried_by_itself(tmp_path: Path) -> None:
    lost = replace(CRASH, oracle="canary", harm=Harm.DISTURBED, detail="a value did not come")
    config = config_in(tmp_path / "run")
    node = SickNode(lambda _: None)
    with lab_of(config, node) as lab:
        finding = Triage(config, node, lab).found(lost, [suspect(1, b"harmless"), suspect(2, b"as well")])
    assert (finding.status, finding.confirmed) == ("not reproduced", (0, 0))
    assert finding.path is not None
    page = (finding.path / README).read_text()
    assert "Not reproduced (none of the cases before it reproduced it)" in page
    assert "| on fresh nodes | not retried |" in page
    assert line_of(finding) == f"{finding.bucket}: not reproduced, 1 case"


def test_what_was_saved_is_read_again(found: Finding) -> None:
    assert found.path is not None
    again = Finding.load(found.path)
    assert again.to_json() == found.to_json()
    assert again.script == found.script


def test_the_capture_tells_what_was_sent_and_seen(found: Finding) -> None:
    assert found.path is not None
    data = (found.path / CAPTURE).read_bytes()
    assert b"finding: crash SIGABRT some-crate" in data
    assert b"verdict: finding" in data
    with RawPcapNgReader(str(found.path / CAPTURE)) as reader:
        assert any(packet.endswith(b"\x03\x00bad") for packet, _ in reader)


def test_the_capture_is_written_anew_only_when_it_shows_something_else(found: Finding) -> None:
    assert found.path is not None
    capture = found.path / CAPTURE
    found.save()
    first = capture.stat().st_ino
    found.hits += 1
    found.save()
    assert capture.stat().st_ino == first
    found.detail = "seen again"
    found.save()
    assert b"seen again" in capture.read_bytes()
    other = capture.with_name("other")
    other.write_bytes(b"of another process")
    other.replace(capture)
    found.save()
    assert b"seen again" in capture.read_bytes()


def test_a_finding_is_there_before_anybody_has_looked_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object, **__: object) -> Tried:
        raise KeyboardInterrupt

    monkeypatch.setattr(Lab, "play", killed)
    config = config_in(tmp_path / "run")
    node = SickNode(on(b"bad"))
    with lab_of(config, node) as lab, pytest.raises(KeyboardInterrupt):
        Triage(config, node, lab).found(CRASH, [suspect(2, b"a bad one")])
    (folder,) = (tmp_path / "run" / "findings").iterdir()
    assert Finding.load(folder).status == "open"


def test_nothing_half_written_is_ever_in_place(found: Finding, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found.path is not None
    before = {path.name: path.read_bytes() for path in found.path.iterdir()}
    found.hits += 1
    found.notes.append("changed")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        found.save()
    after = {path.name: path.read_bytes() for path in found.path.iterdir() if not path.name.startswith(".")}
    assert after == before


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        (FINDING, "", "finding.json is not valid JSON"),
        (FINDING, '{"finding_version": 2}', "finding_version: 2, this program reads 1"),
        (FINDING, "[]", "does not hold a JSON object"),
        (SCRIPT, '{"steps": [{"do": "jump"}]}', "step 1: 'jump' is not a valid Do"),
        (SCRIPT, None, "script.json cannot be read"),
    ],
)
def test_a_damaged_folder_is_refused_in_a_sentence(
    found: Finding, name: str, change: str | None, words: str
) -> None:
    assert found.path is not None
    if change is None:
        (found.path / name).unlink()
    else:
        (found.path / name).write_text(change)
    with pytest.raises(NoFinding) as caught:
        Finding.load(found.path)
    assert words in str(caught.value)


@pytest.mark.parametrize("key", ["bucket", "hits", "harm", "confirmed", "causes", "minimised"])
def test_a_missing_key_is_named(found: Finding, key: str) -> None:
    assert found.path is not None
    value = found.to_json()
    del value[key]
    (found.path / FINDING).write_text(json.dumps(value))
    with pytest.raises(NoFinding, match=key):
        Finding.load(found.path)


def test_finding_of_a_node_that_asks_for_a_user_says_so(
    found: Finding, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = replace(found, user=True)
    assert asked.path is not None
    assert not Finding.load(asked.path).user
    asked.save()
    assert Finding.load(asked.path).user
    commands = json.loads((asked.path / FINDING).read_text())["commands"]
    assert all(command.endswith(" --user NAME:PASSWORD") for command in commands.values())
    assert "The node asks for a user and a password" in (asked.path / README).read_text()
    words = ["replay", str(asked.path), "--node", command()]
    told = "the node of this finding asked for a user and a password; name them with --user"
    for user in ([], ["--user", "alice:barley"]):
        main([*words, *user])
        assert (told in capsys.readouterr().out) is not bool(user)


def test_folder_names_are_names_and_differ(found: Finding) -> None:
    assert slug_of('panic a/b.rs "called x() on: y" PUSH') == "panic-a-b.rs-called-x-on-y-push"
    assert slug_of("///") == "finding"
    assert slug_of("../../etc") == "etc"
    assert len(slug_of("x" * 1000)) <= 100
    assert found.path is not None
    path, there = folder_of(found.path.parent, found.bucket)
    assert path == found.path
    assert there is not None
    assert there.to_json() == found.to_json()
    other, nothing = folder_of(found.path.parent, found.bucket.replace("/", "-"))
    assert (other.name, nothing) == (f"{found.path.name}-2", None)


def _write_again_and_again(found: Finding, below: Path) -> None:
    for _ in range(60):
        met = replace(found, path=open_folder(below, found.bucket))
        met.save()
        met.settle()
        met.save()


def test_processes_write_one_bucket_side_by_side(found: Finding, tmp_path: Path) -> None:
    below = tmp_path / "findings"
    both = multiprocessing.get_context("fork")
    workers = [both.Process(target=_write_again_and_again, args=(found, below)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert [path.name for path in below.iterdir()] == [slug_of(found.bucket)]
    _, there = folder_of(below, found.bucket)
    assert there is not None
    assert there.to_json() == found.to_json()


@pytest.mark.parametrize("late", [False, True])
def test_what_was_confirmed_stays(found: Finding, tmp_path: Path, *, late: bool) -> None:
    below = tmp_path / "findings"
    other = replace(found, path=open_folder(below, found.bucket), status=FLAKY)
    confirmed = replace(found, path=open_folder(below, found.bucket))
    assert confirmed.path != other.path
    for one in (confirmed, other) if late else (other, confirmed):
        one.save()
        one.settle()
        one.save()
    other.save()
    assert confirmed.path == other.path
    assert [path.name for path in below.iterdir()] == [slug_of(found.bucket)]
    assert confirmed.path is not None
    assert Finding.load(confirmed.path).to_json() == confirmed.to_json()


@pytest.mark.parametrize("late", [False, True])
def test_the_smaller_of_two_processes_stays(found: Finding, tmp_path: Path, *, late: bool) -> None:
    below = tmp_path / "findings"
    small = replace(found, path=open_folder(below, found.bucket), case=7)
    steps = small.script.steps
    larger = small.script.with_steps((*steps, *steps[1:]))
    large = replace(found, path=open_folder(below, found.bucket), case=16, script=larger)
    for one in (small, large) if late else (large, small):
        one.save()
        one.settle()
        one.save()
    large.save()
    assert small.path == large.path
    assert small.path is not None
    assert Finding.load(small.path).case == 7
    # Its own process may always write what it has learned.
    small.confirmed = 3, 4
    small.save()
    assert Finding.load(small.path).confirmed == (3, 4)


def test_what_a_node_says_cannot_break_the_page(found: Finding) -> None:
    found.detail = "a | b\n```\n# no heading\x1b[31m"
    page = readme_of(found)
    assert "\n# no heading" not in page
    assert "a \\| b" in page


def test_bytes_are_shown_as_bytes() -> None:
    assert dump(b"abc\x00`")[0].split() == ["0000", "61", "62", "63", "00", "60", "abc.."]
    assert len(dump(bytes(10_000))) == 17


# The regression test ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("harm", "rounds", "played"), [("slow", 10, 20), ("slow", 1, 1), ("leak", 10, 10)])
def test_test_of_a_node_that_becomes_slower_plays_more_rounds(harm: str, rounds: int, played: int) -> None:
    text = text_of_test("it", harm, "ref", Tried(Script(()), rounds=rounds))
    assert f"\nROUNDS = {played}\n" in text


def test_live_values_become_places() -> None:
    values = {"zid": bytes(range(16)), "cookie": b"\x03abc"}
    assert placed(b"\x05\x00\x02\x03abc", values) == "{size}02{cookie}"
    assert placed(b"\xff\xff\x02" + bytes(range(16)) + b"\x09", values) == "ffff02{zid}09"
    assert placed(b"\x01\x00\x02", {}, stream=False) == "010002"


def test_long_runs_are_written_as_runs() -> None:
    text = "{size}01" + "ff" * 500 + "{sn}" + "00" * 3
    short = shortened(text)
    assert short == "{size}01{ff x 500}{sn}000000"
    link = Link.__new__(Link)
    link.stream = True
    link.numbers = {"sn": 5, "sn_be": 6}
    link.values = {}
    assert link.fill(short) == (505).to_bytes(2, "little") + b"\x01" + b"\xff" * 500 + b"\x05" + bytes(3)


def test_what_takes_a_cookie_is_sent_as_by_the_player_where_the_node_gave_none() -> None:
    ours, theirs = socket.socketpair()
    replay = object.__new__(Replay)
    link = Link(ours)
    with theirs:
        assert replay._step(link, {"do": "send", "data": "{size}{cookie}"})
        theirs.sendall(prefixed(bytes(Init(A=1, zid=b"z" * 16, cookie=b"given"))))
        replay._step(link, {"do": "await"})
        assert replay._step(link, {"do": "send", "data": "{size}{cookie}"})
        link.close()
        early = EARLY["cookie"]
        assert theirs.recv(100) == prefixed(early) + prefixed(b"\x05given")


def test_the_standalone_player_fills_in_what_the_player_does() -> None:
    link = Link.__new__(Link)
    link.stream = True
    link.numbers = {"sn": 1_000_000, "sn_be": 7}
    link.values = {"zid": b"z" * 16, "cookie": b"\x04cook"}
    values = {"sn": write_vle(1_000_000), "sn_be": write_vle(7), **link.values}
    for text in ("{size}25{sn}00{zid}", "{size32}{cookie}{sn_be}", "0102", "{cookie}"):
        link.numbers = {"sn": 1_000_000, "sn_be": 7}
        assert link.fill(text) == Template.parse(text).fill(values)
    assert link.fill("{cookie[1:3]}ff") == b"co\xff"
    assert [vle(number) for number in (0, 127, 128, 1 << 40, (1 << 64) - 1)] == [
        write_vle(number) for number in (0, 127, 128, 1 << 40, (1 << 64) - 1)
    ]


def test_all_of_its_code_but_the_docstring_is_copied() -> None:
    text = Path(standalone.__file__).read_text(encoding="utf-8")
    tree = ast.parse(text)
    del tree.body[0]
    assert ast.dump(ast.parse(_source())) == ast.dump(tree)


def tried_on(folder: Path, script: Script, *faults: str) -> Tried:
    prepare_run_dir(folder)
    config = RunConfig(node=command(*faults), run_dir=folder, run_id="lab", seed=1)
    with Lab(config, node_of(config), seats=1) as lab:
        return lab.play(script)


def test_last_step_leaves_before_another_link_is_concluded(tmp_path: Path) -> None:
    slow, across = FAULTS["slow"].trigger.steps, FAULTS["across"].trigger.steps
    # The node dies of what is said on one link while the other is open, which a slow one is not for long.
    script = Script((*across[:2], *(step for step in slow if step.do is Do.SEND), *across[2:]))
    objection = tried_on(tmp_path / "run", script, "across", "slow").objection
    assert objection is not None
    assert objection.harm is Harm.CRASH


def test_how_a_state_is_reached_is_written_out(tmp_path: Path) -> None:
    push = bytes(Push(key_suffix="a", body=Put(data=b"x")))
    steps = (reach(State.OPEN, "a"), send("size", bytes(Frame(R=1, sn=0))[:1], "sn", push, times=2))
    tried = tried_on(tmp_path / "run", Script(steps))
    assert tried.objection is None
    flattened = flat(tried)
    assert [step["do"] for step in flattened] == [
        "link", "send", "expect", "send", "expect", "numbers", "send", "settle",
    ]  # fmt: skip
    assert "{zid}" in flattened[1]["data"]
    assert "{cookie}" in flattened[3]["data"]
    assert flattened[6] == {"do": "send", "link": "a", "data": f"{{size}}25{{sn}}{push.hex()}", "times": 2}
    assert "{sn_be}" in flattened[7]["data"]


def test_what_went_in_fragments_goes_in_the_same_fragments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.player.player.room_of", lambda _: 2048)
    push = bytes(Push(key_suffix="a", body=Put(data=bytes(5000))))
    steps = (reach(State.OPEN, "a"), send("size", bytes(Frame(R=1, sn=0))[:1], "sn", push, times=2))
    flattened = flat(tried_on(tmp_path / "run", Script(steps)))
    with socket.socket() as sock:
        link = Link(sock)
        sent = [link.fill(step["data"]) for step in flattened if step["do"] == "send"][2:]
    parts = [contents(data[2:]).messages[0] for data in sent]
    assert [(part.name, part.M) for part in parts] == [("FRAGMENT", 1), ("FRAGMENT", 1), ("FRAGMENT", 0)] * 2
    assert b"".join(bytes(part.data) for part in parts) == push * 2
    assert flattened[-2]["do"] == "numbers"
    with Replay(command(), {}, "", 1, tmp_path / "replay") as replay:
        assert replay.play("stall", flattened, 1, LATE) == ""


def test_a_link_that_is_only_waited_for_in_the_middle_goes_on(tmp_path: Path) -> None:
    push = bytes(Push(key_suffix="a", body=Put(data=b"x")))
    waits = Step(Do.SETTLE, "a")
    steps = (reach(State.OPEN, "a"), send("size", bytes(Frame(R=1, sn=0))[:1], "sn", push), waits, waits)
    flattened = flat(tried_on(tmp_path / "run", Script(steps)))
    assert [step.get("goes_on", False) for step in flattened if step["do"] == "settle"] == [True, True, False]
    replay = Replay(command(), {}, "", 1, tmp_path / "replay")
    with replay:
        assert replay.play("stall", flattened, 1, LATE) == ""
        (link,) = replay._links.values()
        # Every question was answered before our side ended.
        answer = bytes.fromhex(flattened[-1]["answer"])
        assert sum(answer in batch for batch in link.received) == 3


def test_what_only_another_link_knew_is_sent_as_it_was(tmp_path: Path) -> None:
    push = bytes(Push(key_suffix="a", body=Put(data=bytes(16))))[:-16]
    head = bytes(Frame(R=0, sn=0))[:1]
    one = send("size", head, "sn_be", push, "zid@b", times=2)
    lie = send("size", head, "sn_be", push, "zid@b|first 3", bytes(13))
    steps = (
        reach(State.OPEN, "a"),
        reach(State.OPEN, "b"),
        one,
        lie,
        send("size", head, "sn_be", push, bytes(16)),
    )
    tried = tried_on(tmp_path / "run", Script(steps))
    flattened = flat(tried)
    at = max(index for index, step in enumerate(flattened) if step["do"] == "link")
    behind = [step for step in flattened[at:] if step["link"] == "a" and step["do"] in {"send", "numbers"}]
    assert [step["do"] for step in behind] == ["send", "send", "numbers", "send", "numbers", "send"]
    other = tried.parts[1].values["zid"]
    for index, zid in ((0, other), (1, other), (3, other[:3] + bytes(13))):
        assert bytes.fromhex(behind[index]["data"].removeprefix("{size}"))[-16:] == zid
    sn = tried.parts[0].sn[1]
    assert [step["sn_be"] for step in behind if step["do"] == "numbers"] == [sn + 2, sn + 3]
    assert "{sn_be}" in behind[-1]["data"]
    with Replay(command(), {}, "", 1, tmp_path / "replay") as replay:
        assert replay.play("stall", flattened, 1, LATE) == ""


def test_what_is_counted_is_counted_again(tmp_path: Path) -> None:
    push = bytes(Push(key_suffix="a", body=Put(data=b"123456")))[:-6]
    head = bytes(Frame(R=0, sn=0))[:1]
    steps = (reach(State.OPEN, "a"), send("size", head, "sn_be", push, "digits", times=3))
    flattened = flat(tried_on(tmp_path / "run", Script(steps)))
    (one,) = (step for step in flattened if "{digits}" in step.get("data", ""))
    assert one["times"] == 3
    with Replay(command(), {}, "", 1, tmp_path / "replay") as replay:
        link = Link.__new__(Link)
        link.stream = True
        link.numbers, link.values, link.turn, link.nth_play = {"sn": 1, "sn_be": 1}, {}, 1, 0
        assert link.fill(one["data"]).endswith(push + b"000002")
        link.nth_play = 1234
        assert link.fill(one["data"]).endswith(push + b"234002")
        link.turn = 300
        assert link.fill("{count}") == write_vle(301)
        assert replay.play("stall", flattened, 1, LATE) == ""


def test_what_is_waited_for_by_hand_is_taken_from_the_answer(tmp_path: Path) -> None:
    init = bytes(Init(zid=b"z" * 16)).partition(b"z" * 16)
    opened = bytes(Open(cookie=b"cookie")).partition(b"\x06cookie")
    steps = (
        reach(State.CONNECTED, "a"),
        send("size", init[0], "zid", init[2]),
        Step(Do.AWAIT, "a"),
        send("size", opened[0], "cookie", opened[2]),
        Step(Do.AWAIT, "a"),
    )
    tried = tried_on(tmp_path / "run", Script(steps))
    assert "OPEN" in " ".join(tried.played.names)
    flattened = flat(tried)
    assert "{cookie}" in flattened[4]["data"]
    with Replay(command(), {}, "", 1, tmp_path / "replay") as replay:
        assert replay.play("stall", flattened, 1, LATE) == ""
        (link,) = replay._links.values()
        assert any(batch[0] & 0x3F == 0x22 for batch in link.received)


def test_link_that_never_came_about_is_left_out(tmp_path: Path) -> None:
    abort = FAULTS["abort"].trigger.steps
    there = reach(State.OPEN, "b")
    tried = tried_on(
        tmp_path / "run", Script((*abort, Step(Do.SETTLE, "a"), there, Step(Do.SETTLE, "b"))), "abort"
    )
    assert tried.objection is not None
    # The node is gone before the second link is made; what would have been done on it may be there all the same.
    tried.parts = [*tried.parts[: len(abort) + 1], *[Part(0, 0, 0)] * 2]
    tried.script = Script((*tried.script.steps[: len(abort) + 1], there, Step(Do.SETTLE, "b")))
    flattened = flat(tried)
    assert {step["link"] for step in flattened} == {"a"}
    with Replay(command("abort"), {}, "", 1, tmp_path / "replay") as replay:
        assert "SIGABRT" in replay.play("crash", flattened, 1, LATE)


def test_canary_of_the_test_says_what_the_canary_of_the_oracles_says(tmp_path: Path) -> None:
    prepare_run_dir(tmp_path / "run")
    node = node_of(RunConfig(node=command(), run_dir=tmp_path / "run", run_id="canary", seed=1))
    node.start()
    oracle = canary.Canary(node, 1.0, random.Random(1))
    try:
        oracle.open()
        assert (oracle.routes, oracle.replies, oracle.named) == (True, True, True)
        # It agrees on no lanes. What goes in fragments is not read here.
        assert oracle.besides == [*range(len(LARGE))]
        assert oracle.look_at_common() is oracle.look_at_tokens() is None
        assert oracle.look() is None
        reader = BatchReader()
        theirs = said(
            batch
            for event in oracle.trace.since(0)
            if event.direction == "sent"
            for batch in reader.feed(event.raw)
        )
    finally:
        oracle.close()
        node.stop()
    with Replay(command(), {}, "", 1, tmp_path / "replay") as replay:
        made = replay._canary()
        assert made is not None
        assert made.lost(common=True) == ""
        histories = [tester.history for tester in replay._testers]
        assert len(histories) == 3
    ours = said(
        batch
        for history in histories
        for seen in history.observations
        if seen.direction == "sent"
        for batch in [seen.raw[2:]]
    )
    assert {name for name, *_ in theirs} == {"PUSH", "REQUEST", "RESPONSE", "DECLARE", "INTEREST"}
    assert ours == theirs
    assert (standalone.SPREAD, standalone.ALIASES) == (canary.SPREAD, canary.ALIASES)
    assert standalone.REPLIES == canary.REPLIES
    assert (standalone.FIRST_EXCHANGES, standalone.EXCHANGES) == (EXCHANGES, canary.LOOKS)
    assert standalone.BESIDES == BESIDES
    assert (standalone.COMMON, standalone.COMMON_TRIES) == (COMMON, canary.COMMON_TRIES)


def said(batches: Iterable[bytes]) -> set[tuple[str, int]]:
    """Returns names and sizes of the messages about the key of a canary, without what differs in each."""

    def differing(message: Message) -> int:
        number = len(write_vle(message.request_id)) if isinstance(message, Request | Response) else 0
        put = getattr(message, "body", None) if isinstance(message, Push | Response) else None
        size = len(bytes(put.body.data if isinstance(message, Response) else put.data)) if put else 0
        least = canary.WORD + 1 + canary.DIGITS + canary.FILLER
        if b"left" not in bytes(message) and size not in {one.size for one in BESIDES}:
            assert not size or least <= size < least + canary.SPREAD
        return number + size

    return {
        (str(message.name), len(bytes(message)) - differing(message))
        for batch in batches
        for frame in contents(batch).messages
        for message in getattr(frame, "messages", None) or ()
        if b"@zenoh-harness/canary/" in bytes(message)
    }


@pytest.mark.parametrize(("changes", "why"), [(0, ""), (1, "changed"), (10**9, "changed")])
def test_node_that_spoils_only_what_has_the_size_of_a_publication_of_the_oracles_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: int, why: str
) -> None:
    left = [0]
    expect = SessionEnd.expect

    def spoilt(self: SessionEnd, cls: type[Message], **wanted: Any) -> Any:
        got = expect(self, cls, **wanted)
        if cls is Push and left[0] and len(got.body.data) in range(53, 53 + canary.SPREAD):
            left[0] -= 1
            got.body.data = got.body.data[:-1] + bytes([got.body.data[-1] ^ 1])
        return got

    def begin(_: list[dict[str, Any]]) -> bool:
        left[0] = changes
        return True

    monkeypatch.setattr(SessionEnd, "expect", spoilt)
    with Replay(command(), {}, "", 1, tmp_path / "replay") as replay:
        monkeypatch.setattr(replay, "_round", begin)
        assert why in (said := replay.play("disturbed", [], 1, LATE))
        assert bool(said) == bool(why)


@pytest.mark.parametrize(
    ("node", "harm", "fails"),
    [
        ("ref:ZN-RTE-011", "disturbed", "publication 1 arrives again, after 1"),
        ("ref:ZN-PUT-002", "disturbed", "a publication arrives changed"),
        # That is another finding.
        ("ref:ZN-RTE-011", "stall", ""),
    ],
)
def test_what_a_node_spoils_from_the_start_fails_the_regression_test_of_that(
    monkeypatch: pytest.MonkeyPatch, node: str, harm: str, fails: str
) -> None:
    monkeypatch.setattr(standalone, "TRIES", 1)
    with pytest.raises(AssertionError, match=fails) if fails else contextlib.nullcontext():
        standalone.check(node, {}, "", harm, [], 1, LATE)
    assert fails_on(node, harm, Tried(Script(()))) is bool(fails)


def test_publications_are_judged_as_the_oracles_do() -> None:
    made = object.__new__(standalone.Canary)
    made._sent, made._arrived, made._spoilt, made._borne = [b"w1", b"w2", b"w3"], set(), {}, set()
    made._histories = []
    made._word, made._parted = b"w", b""
    # The one without our word is somebody else's.
    for data in (b"w1", b"x", b"w3", b"w2", b"w2", b"xw"):
        made._judge(data)
    assert made._arrived == {1, 2, 3}
    assert made._spoilt == {
        "order": "publication 2 arrives after 3",
        "twice": "publication 2 arrives again, after 3",
        "changed": "a publication arrives changed: 7877",
    }
    made.bear()
    made._judge(b"xw")
    assert not made._spoilt


@pytest.mark.parametrize("to", ["subscriber", "idler"])
def test_a_publication_that_nobody_asked_for_fails_the_regression_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    with Replay(command(), {}, "", 1, tmp_path / "replay") as replay:
        birds = replay._canary()
        assert birds is not None
        inbox = {"subscriber": birds._subscriber, "idler": birds._idler}[to].inbox

        def begin(_: list[dict[str, Any]]) -> bool:
            push = Push(key_suffix="somebody/else", body=Put(data=b"x"))
            inbox.append(Seen(push, None, 0, 0, 0))
            return True

        monkeypatch.setattr(replay, "_canary", lambda: birds)
        monkeypatch.setattr(replay, "_round", begin)
        assert "did not subscribe to" in replay.play("disturbed", [], 1, LATE)


@pytest.mark.parametrize(
    ("fault", "oracle", "place"),
    [
        ("dropkey", "keys", Wrong.COMMON_SILENT),
        ("doublekey", "keys", Wrong.COMMON_TWICE),
        ("takeaway", "keys", Wrong.COMMON_SILENT),
        ("linger", "keys", Wrong.KEPT),
        ("recall", "keys", Wrong.KEPT),
        ("skip", "canary", Wrong.MISNUMBERED),
        ("mingle", "canary", Wrong.UNJOINED),
        ("picky", "canary", Wrong.LOST),
        ("unname", "canary", Wrong.UNNAMED),
        ("wordy", "canary", Wrong.UNNAMED_REPLY),
        ("hurry", "ping", "handshake changed: lease"),
    ],
)
def test_a_node_that_spoils_one_thing_for_others_is_told_and_fails_the_regression_test(
    tmp_path: Path, fault: str, oracle: str, place: str
) -> None:
    tried = tried_on(tmp_path / "run", FAULTS[fault].trigger, fault)
    assert tried.objection is not None
    assert (tried.objection.oracle, tried.objection.harm) == (oracle, Harm.DISTURBED)
    assert tried.objection.place == place
    assert fails_on(command(fault), "disturbed", tried) is True
    assert fails_on(command(), "disturbed", tried) is False


def test_node_that_grows_by_new_keys_only_fails_the_regression_test(tmp_path: Path) -> None:
    """Each round has keys of its own, in the lab and in the test."""
    prepare_run_dir(tmp_path / "run")
    config = RunConfig(node=command("hoard"), run_dir=tmp_path / "run", run_id="lab", seed=1)
    with Lab(config, node_of(config), seats=1) as lab:
        tried = lab.play(FAULTS["hoard"].trigger, rounds=ROUNDS, seconds=60.0)
    assert tried.objection is not None
    assert tried.objection.harm is Harm.GROWTH
    # Any process grows a little.
    assert tried.rounds <= 1000
    assert fails_on(command("hoard"), "growth", tried) is True
    assert fails_on(command(), "growth", tried) is False


def test_a_test_that_cannot_be_run_shows_nothing() -> None:
    assert fails_on("nothing", "stall", Tried(Script(()))) is None
    assert fails_on("cmd:false {locator}", "stall", Tried(Script(()))) is None


@pytest.mark.parametrize(
    ("fails", "words"),
    [(True, "it was run, and failed"), (False, "**but it was run and passed"), (None, "fails as long as")],
)
def test_the_page_tells_whether_the_test_shows_the_fault(
    found: Finding,
    fails: bool | None,
    words: str,
) -> None:
    found.test_fails = fails
    found.save()
    assert found.path is not None
    assert words in (found.path / README).read_text()
    assert Finding.load(found.path).test_fails is fails


def test_what_shows_slowly_is_tried_again_for_longer_than_it_took(found: Finding) -> None:
    assert replace(found, rounds=1).plays == 1
    assert replace(found, rounds=7).plays == 14
    assert found.tried is not None
    assert replace(found, tried=replace(found.tried, seconds=0.01)).patience == ROUNDS_SECONDS
    assert replace(found, tried=replace(found.tried, seconds=9.0)).patience == 18.0
    assert replace(found, tried=None).patience > ROUNDS_SECONDS


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("leak", "All of this up to 14 times:"),
        ("hoard", "All of this up to 14 times, each time with other digits:"),
    ],
)
def test_the_page_tells_of_rounds_and_their_digits(found: Finding, fault: str, words: str) -> None:
    assert words in readme_of(replace(found, rounds=7, script=FAULTS[fault].trigger))


class Group(Replay):
    """A replay whose way to the group is gone as often as said."""

    def __init__(self, folder: Path, *carries: bool) -> None:
        super().__init__(command(), {}, "", 1, folder)
        self._needs = "joins"
        self._answers = iter(carries)

    def _carries(self, _: list[dict[str, Any]]) -> bool:
        return next(self._answers)


@pytest.mark.parametrize(("behind", "why"), [(True, ""), (False, "nothing sent to the group")])
def test_a_group_that_carries_nothing_any_more_is_told(tmp_path: Path, *, behind: bool, why: str) -> None:
    with Group(tmp_path / "run", True, behind) as replay:
        said = replay.play("stall", [], 1, LATE)
        assert said.startswith(why)
        assert bool(said) == bool(why)


def test_a_group_that_carries_nothing_to_begin_with_shows_nothing(tmp_path: Path) -> None:
    with (
        Group(tmp_path / "run", False) as replay,
        pytest.raises(unittest.SkipTest, match="even before the steps"),
    ):
        replay.play("stall", [], 1, LATE)


@pytest.mark.parametrize(("harm", "there"), [("panic", True), ("stall", True), ("growth", False)])
def test_node_has_something_to_tell_of_others_but_where_it_is_measured(
    tmp_path: Path, harm: str, *, there: bool
) -> None:
    # What a node declares of a subscriber gives ids a meaning that a stimulus may use.
    with Replay(command(), {}, "", 1, tmp_path / "replay") as replay:
        assert replay.play(harm, [], 1, LATE) == ""
        assert bool(replay._testers) is there


def pytest_of(folder: Path, node: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder / TEST)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ZENOH_NODE": node},
        timeout=600,
    )


def test_the_regression_test_fails_while_the_fault_is_there_and_passes_on_a_mended_node(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"
    tried = tried_on(folder, FAULTS["across"].trigger, "across")
    assert tried.objection is not None
    assert tried.objection.harm is Harm.CRASH
    finding = Finding(
        bucket="crash across",
        harm=Harm.CRASH,
        oracle="process",
        place="SIGABRT",
        detail="died",
        state="open",
        message="RESPONSE_FINAL",
        node="pypi:0.0.0",
        script=tried.script,
        first=tried.script,
        tried=tried,
        path=folder / "findings" / "across",
    )
    finding.save()
    assert finding.path is not None
    text = (finding.path / TEST).read_text()
    assert "fuzz." not in "".join(line for line in text.splitlines() if line.startswith(("import", "from")))
    there = pytest_of(finding.path, command("across"))
    assert there.returncode == 1, there.stdout
    assert "crash: the process died of SIGABRT" in there.stdout
    runpy.run_path(str(finding.path / TEST))["check"](command(), {}, "", "crash", flat(tried), 1, LATE)


def test_node_that_pauses_fails_the_regression_test_of_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests may run beside this one.
    monkeypatch.setattr(Patient, "busy", False)
    tried = tried_on(tmp_path / "run", FAULTS["freeze"].trigger, "freeze")
    assert tried.objection is not None
    assert (tried.objection.oracle, tried.objection.harm) == ("pause", Harm.PAUSE)
    check = runpy.run_path(standalone.__file__)["check"]

    def said(*faults: str) -> str:
        try:
            check(command(*faults), {}, "", "pause", flat(tried), 1, LATE)
        except AssertionError as error:
            return str(error)
        return ""

    # Once at least while nobody else has the processors.
    assert "" in (said() for _ in range(5))
    assert said("freeze").startswith("pause: ")


def test_exchanges_that_take_long_together_are_no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def takes(seconds: float) -> Callable[..., bool]:
        def passes(*_: object) -> bool:
            now[0] += seconds
            return True

        return passes

    monkeypatch.setattr(standalone, "time", SimpleNamespace(monotonic=lambda: now[0]))
    birds = standalone.Canary.__new__(standalone.Canary)
    birds._joins = birds._replies = True
    birds._spoilt = {}
    for name, seconds in {"_end_in_parts": 0.2, "publish": 0.1, "ask": 0.15, "_hear": 5, "_count": 5}.items():
        monkeypatch.setattr(birds, name, takes(seconds))
    birds._subscriber = cast("Any", SimpleNamespace(wait=takes(5)))
    assert birds.lost(common=False) == ""
    assert birds.longest == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("late", "silent", "others", "why"),
    [
        (0.3, 0.0, 0.01, ""),
        (0.7, 0.0, 0.01, "nothing was answered for 0.7 s"),
        (0.0, 0.0, 0.6, "nothing was answered for 0.6 s"),
        # What is dropped is not answered, and that alone is no pause.
        (0.0, 1.0, 0.01, ""),
        (0.0, 1.0, 0.3, "nothing was answered for 1.3 s"),
    ],
)
def test_how_long_the_node_paused_is_told(
    tmp_path: Path, late: float, silent: float, others: float, why: str
) -> None:
    replay = Replay(command(), {}, "", 1, tmp_path / "run")
    replay._late, replay._silent = late, silent
    assert replay._paused(others) == why


def test_where_a_node_asks_from_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replay = Replay(command(), {}, "seeks", 2, tmp_path / "run")
    group = Locator.parse(locator_of(free_group()))
    monkeypatch.setattr(replay.node, "scouting", group)
    asked = threading.Event()

    with _datagrams(group).sock as asker:

        def ask() -> None:
            while not asked.wait(0.02):
                asker.sendto(b"\x01\x09\x00", (group.host, group.port))

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            first = replay._open("a", "datagrams")
        finally:
            asked.set()
            asking.join()
        # Nobody speaks any more.
        second = replay._open("b", "datagrams")
        for link in (first, second):
            assert link.peer == asker.getsockname()
            link.close()


@pytest.mark.parametrize(("seen", "played"), [(["", "late"], 2), ([""] * TRIES, TRIES)])
def test_what_does_not_show_every_time_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, seen: list[str], played: int
) -> None:
    nodes = []

    def play(self: Replay, *_: object) -> str:
        nodes.append(self.node)
        return seen[len(nodes) - 1]

    monkeypatch.setattr(Replay, "play", play)
    with pytest.raises(AssertionError, match="stall: late") if any(seen) else contextlib.nullcontext():
        standalone.check(command(), {}, "", "stall", [], 1, LATE)
    assert len(nodes) == len({id(node) for node in nodes}) == played


def test_of_a_node_that_refuses_before_it_dies_its_death_is_told(tmp_path: Path) -> None:
    replay = Replay(command(), {}, "", 1, tmp_path / "run")
    with subprocess.Popen(["sh", "-c", "read line; exit 3"], stdin=subprocess.PIPE) as process:

        class Dying:
            pid = process.pid

            def problem(self, _: float) -> str:
                assert process.stdin is not None
                process.stdin.close()
                return "a new session fails"

            def death(self) -> str:
                return "the process died" if process.poll() else ""

        replay.node = cast("Node", Dying())
        assert replay._wrong("crash", {}, None, LATE) == "the process died"


# The commands ----------------------------------------------------------------------------------------


def run(*words: str) -> int:
    parser = ArgumentParser()
    commands = parser.add_subparsers()
    for add in (add_replay, add_shrink, add_show):
        add(commands)
    options = parser.parse_args(words)
    code: int = options.function(options, list(words))
    return code


def test_show_tells_of_one_finding_and_of_a_run(found: Finding, capsys: pytest.CaptureFixture[str]) -> None:
    assert found.path is not None
    assert run("show", str(found.path)) == 0
    assert capsys.readouterr().out.startswith(f"# {found.bucket}")
    assert run("show", "--json", str(found.path)) == 0
    assert json.loads(capsys.readouterr().out) == found.to_json()
    assert run("show", str(found.path.parents[1])) == 0
    assert capsys.readouterr().out == f"{found.bucket}: confirmed 3 of 3, 1 case, 1 message, 3 bytes\n"
    assert run("show", str(found.path / "none")) == 2
    assert "is not the folder of a finding or a run" in capsys.readouterr().err


def test_show_counts_the_cases_of_all_processes(
    found: Finding, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found.path is not None
    rows = [SimpleNamespace(bucket=found.bucket, hits=8), SimpleNamespace(bucket="another", hits=2)]
    below = found.path.parents[1]
    monkeypatch.setattr("fuzz.resume.findings_before", lambda folder: rows if folder == below else [])
    monkeypatch.setattr("fuzz.summary.by_bucket", lambda some: some)
    assert run("show", str(below)) == 0
    assert "8 cases" in capsys.readouterr().out


def test_show_refuses_a_folder_of_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other").mkdir()
    assert run("show", str(tmp_path)) == 2
    assert f"{tmp_path} is not the folder of a finding or a run" in capsys.readouterr().err
    # A run without findings, and what is left of one that was killed.
    (tmp_path / "run.json").write_text("{}")
    assert run("show", str(tmp_path)) == 0
    assert capsys.readouterr().out == "no findings\n"
    (tmp_path / "run.json").unlink()
    (tmp_path / "findings").mkdir()
    assert run("show", str(tmp_path)) == 0
    assert run("show", str(tmp_path / "findings")) == 0


def test_line_of_a_replay_holds_the_first_answers() -> None:
    names = ("FRAME", "DECLARE", "D_FINAL") * 200
    answer = Answer(0, b"", names, shape="", refused="", finals=0, close=None)
    line = _words(Tried(Script(()), played=Played(Ending.ACCEPTED, [answer])))
    assert line.startswith("survived; accepted, answers: FRAME DECLARE D_FINAL FRAME ")
    assert line.endswith(" ...")
    assert len(line) < LONGEST + 50


def test_replay_and_shrink_work_on_a_script_and_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "script.json"
    path.write_text(str(FAULTS["abort"].trigger))
    assert run("replay", str(path), "--node", command("abort")) == 1
    assert "1 of 1: crash SIGABRT: the process died of SIGABRT" in capsys.readouterr().out
    assert run("replay", str(path), "--node", command()) == 0
    assert "the node survived" in capsys.readouterr().out
    assert run("replay", str(path)) == 2
    assert "add --node" in capsys.readouterr().err
    assert run("replay", str(tmp_path)) == 2
    assert run("replay", str(path), "--node", "cmd:false {locator}") == 3
    assert run("replay", str(path), "--node", "nothing") == 2


def test_replay_of_a_run_plays_all_its_findings(
    found: Finding, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "other"
    lethal, harmless = (
        replace(
            found,
            place=place,
            path=folder / "findings" / place,
            script=script,
            node=command("abort"),
            rounds=1,
        )
        for place, script in (("SIGABRT", FAULTS["abort"].trigger), ("SIGSEGV", Script(())))
    )
    for finding in (lethal, harmless):
        finding.save()
    names = sorted(path.name for path in (folder / "findings").iterdir())
    assert run("replay", str(folder)) == 1
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith("finding ")] == [
        f"finding {number} of 2: {name}" for number, name in enumerate(names, 1)
    ]
    assert out.endswith(f"did not survive: 1 of 2\n  {names[0]}\nsurvived: 1 of 2\n  {names[1]}\n")
    assert [out.count(f"{number} of 3: ") for number in (1, 2, 3)] == [2, 1, 1]
    # On a node without the fault; a folder that is damaged keeps nobody from playing the others.
    (folder / "findings" / names[1] / FINDING).write_text("{}")
    assert run("replay", str(folder), "--node", command()) == 3
    out = capsys.readouterr().out
    assert out.endswith(f"survived: 1 of 2\n  {names[0]}\nnot replayed: 1 of 2\n  {names[1]}\n")
    assert run("replay", str(folder), "--node", "nothing") == 2
    capsys.readouterr()
    assert run("shrink", str(folder)) == 2
    assert "is a run; name one of its findings, like " in capsys.readouterr().err


@pytest.mark.parametrize("what", ["replay", "shrink"])
def test_what_showed_slowly_is_played_twice_as_often_and_for_long(
    found: Finding, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = replace(found, rounds=7, node=command())
    slow.save()
    given: list[tuple[int, float]] = []

    def well(_: Lab, script: Script, *, rounds: int, seconds: float, **__: object) -> Tried:
        given.append((rounds, seconds))
        return Tried(script)

    monkeypatch.setattr(Lab, "play", well)
    run(what, str(slow.path))
    assert set(given) == {(14, PATIENCE)}


def test_replay_of_a_run_without_findings_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.json").write_text("{}")
    assert run("replay", str(tmp_path)) == 0
    assert capsys.readouterr().out == "no findings\n"


def test_shrink_leaves_a_finding_alone_that_shows_as_another_one(
    found: Finding, capsys: pytest.CaptureFixture[str]
) -> None:
    script = FAULTS["abort"].trigger
    other = replace(found, harm=Harm.PAUSE, place="", script=script, node=command("abort"), rounds=1)
    other.save()
    assert other.path is not None
    before = (other.path / FINDING).read_bytes()
    assert run("shrink", str(other.path), "--time", "5s") == 1
    out = capsys.readouterr().out
    assert out.startswith(
        "not reproduced in 5 tries; a different failure was seen: crash SIGABRT: the process died"
    )
    assert (other.path / FINDING).read_bytes() == before


def test_shrink_of_a_finding_that_was_played_in_vain_takes_the_try_that_shows_it(
    found: Finding, capsys: pytest.CaptureFixture[str]
) -> None:
    lucky = replace(
        found,
        place="SIGABRT",
        script=FAULTS["abort"].trigger,
        tried=None,
        minimised=None,
        node=command("abort"),
        rounds=1,
    )
    for _ in range(2):  # the second time nothing is left to make smaller
        lucky.played_in_vain(Tried(lucky.script))
        lucky.save()
        assert lucky.path is not None
        assert Finding.load(lucky.path).in_vain
        assert run("shrink", str(lucky.path), "--time", "5s") == 0, capsys.readouterr().out
        lucky = Finding.load(lucky.path)
        assert (lucky.in_vain, lucky.status, lucky.test_fails) == (False, "confirmed", True)
        assert lucky.path is not None
        assert "it was run, and failed." in (lucky.path / README).read_text()


def test_shrink_tries_again_what_does_not_show_at_once(
    found: Finding, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = FAULTS["abort"].trigger
    shy = replace(found, place="SIGABRT", script=script, minimised=None, node=command("abort"), rounds=1)
    shy.save()
    play, missed = Lab.play, [Tried(script), Tried(script)]
    monkeypatch.setattr(Lab, "play", lambda *of, **how: missed.pop() if missed else play(*of, **how))
    assert run("shrink", str(shy.path), "--time", "5s") == 0, capsys.readouterr().out
    assert not missed


@pytest.mark.parametrize("bits", [0, 1, 2])
def test_numbers_of_a_test_stay_in_the_range_that_a_node_has_agreed_to(bits: int) -> None:
    mine, other = socket.socketpair()
    with mine, other:
        link = Link(mine)
        link.received.append(bytes(Init(A=1, S=1, zid=b"\x0a" * 16, fsn=bits, cookie=b"cookie")))
        link.learn()
    assert link.values["cookie"] == b"\x06cookie"
    link.numbers["sn"] = MASKS[bits] + 1
    assert link.fill("{sn}") == b"\x00"
