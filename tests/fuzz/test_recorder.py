from __future__ import annotations

import base64
import dataclasses
import errno
import json
import multiprocessing
import os
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP
from scapy.utils import PcapNgReader

from conformance.config import RunConfig, prepare_run_dir
from conformance.observe import Direction, Endpoints
from fuzz.cases import Case, Edge, Fixed, send
from fuzz.oracles import Harm, Objection
from fuzz.player import Answer, Ending, Played, Trace
from fuzz.player.trace import BEGINNING
from fuzz.recorder import Lines, Recorder, folder_size
from fuzz.resume import complete
from fuzz.states import State
from spark_reports.rows import FUZZ_CASES, FUZZ_COVERAGE, CoverageRow, FuzzCaseRow, read_rows

SOURCE = Fixed("source", State.OPEN, "PUSH", {"as it is": [send(b"\x04")]}, "order")


def config_in(folder: Path, seed: int = 7) -> RunConfig:
    prepare_run_dir(folder)
    return RunConfig(node="fake", run_dir=folder, run_id=folder.name, seed=seed)


def case_of(field: str = "PUSH.N", mutation: str = "N=0", message: str = "PUSH") -> Case:
    return Case(SOURCE, message, field, mutation, "edge", (), (Edge(message, field, mutation),))


def answer(*names: str, shape: str = "") -> Answer:
    return Answer(1, b"", names, shape or " ".join(names), "", 0, None)


def write(recorder: Recorder, number: int = 1, case: Case | None = None, **values: Any) -> None:
    played = values.pop("played", Played(Ending.ACCEPTED, sent=[b"\x01\x00\x04"], rtt=0.00025))
    usual: dict[str, Any] = {"instance": 1, "engine": "fast", "duration_s": 0.001, "time_ns": 5}
    verdict = values.pop("verdict", str(played.ending))
    recorder.case(number, "pushes", case or case_of(), played, verdict, **{**usual, **values})


def rows_in(config: RunConfig) -> list[dict[str, Any]]:
    found = read_rows(config.run_dir / FUZZ_CASES)
    assert not found.bad
    return found.rows


def test_row_says_what_was_sent_and_what_came(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run")
    played = Played(
        Ending.CLOSED, [answer("FRAME", "RESPONSE"), answer("CLOSE")], [b"\x01\x00\x04", b"\xff"], 0.00025
    )
    played.by_itself = True
    with Recorder(config, job=2) as recorder:
        write(recorder, 12, played=played, position=3, session=9, links=2, parent="x")
    (row,) = rows_in(config)
    assert row == {
        **dataclasses.asdict(
            FuzzCaseRow(
                run_id="run", campaign="pushes", case=12, time_ns=5, duration_s=0.001, seed=7, state="open",
                message="PUSH", field="PUSH.N", mutation="N=0", sent_hex="010004 ff", sent_bytes=4,
                reply="RESPONSE CLOSE EOF", verdict="closed", oracle="", bucket="", detail="", node_instance=1,
                capture="", engine="fast", source="source", strategy="edge",
                answer="FRAME RESPONSE | CLOSE | closed", rtt_us=250, links=2, session=9, position=3, parent="x",
                job=2,
            )
        ),
    }  # fmt: skip


def test_objection_and_failure_stand_in_the_row(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run")
    with Recorder(config) as recorder:
        objection = Objection("process", Harm.CRASH, "a.rs:1", "it died")
        write(
            recorder,
            1,
            verdict="finding",
            objection=objection,
            bucket="crash a.rs PUSH",
            capture="captures/x",
        )
        write(recorder, 2, verdict="inconclusive", played=Played(failure="expected INIT, got nothing"))
    first, second = rows_in(config)
    assert (first["oracle"], first["detail"], first["bucket"]) == ("process", "it died", "crash a.rs PUSH")
    assert first["capture"] == "captures/x"
    assert (second["oracle"], second["detail"]) == ("", "expected INIT, got nothing")


@settings(max_examples=60)
@given(
    texts=st.lists(st.text(), min_size=4, max_size=4),
    numbers=st.lists(st.integers(0, 1 << 63), min_size=3, max_size=3),
)
def test_line_made_by_hand_is_json_that_says_the_same(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], numbers: list[int]
) -> None:
    mutation, field, failure, parent = texts
    config = config_in(tmp_path_factory.mktemp("rows") / "run")
    with Recorder(config) as recorder:
        write(
            recorder,
            numbers[0],
            case_of(field, mutation),
            played=Played(failure=failure),
            parent=parent,
            instance=numbers[1],
            time_ns=numbers[2],
        )
    data = (config.run_dir / FUZZ_CASES).read_bytes()
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    value = json.loads(data)
    assert (value["mutation"], value["field"], value["detail"]) == (mutation, field, failure)
    assert value.get("parent", "") == parent
    assert (value["case"], value["node_instance"], value["time_ns"]) == (numbers[0], numbers[1], numbers[2])


def test_text_that_is_none_stays_one_line(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run")
    with Recorder(config) as recorder:
        write(recorder, 1, case_of(mutation='lone \udcff, separator \u2028, quote "\n'))
    (row,) = rows_in(config)
    assert row["mutation"] == 'lone \udcff, separator \u2028, quote "\n'


@pytest.mark.parametrize("sent", [[b"a" * 1024], [b"a" * 1025], [b"ab" * 300] * 4, [os.urandom(70_000)]])
def test_long_stimuli_are_kept_whole_in_less_room(tmp_path: Path, sent: list[bytes]) -> None:
    config = config_in(tmp_path / "run")
    with Recorder(config) as recorder:
        write(recorder, played=Played(sent=sent))
    (row,) = rows_in(config)
    packed = row["sent_zlib"]
    assert bool(packed) == (sum(map(len, sent)) > 1024)
    text = zlib.decompress(base64.b64decode(packed)).decode() if packed else row["sent_hex"]
    assert [bytes.fromhex(word) for word in text.split()] == sent
    assert row["sent_bytes"] == sum(map(len, sent))


def test_what_one_case_takes_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.recorder.MOST_KEPT", 5000)
    config = config_in(tmp_path / "run")
    with Recorder(config) as recorder:
        write(recorder, played=Played(sent=[b"x" * 4000, b"y" * 4000, b"z"]))
    (row,) = rows_in(config)
    text = zlib.decompress(base64.b64decode(row["sent_zlib"])).decode()
    assert [bytes.fromhex(word) for word in text.split()] == [b"x" * 4000, b"y" * 1000]
    assert row["sent_bytes"] == 8001


def test_case_is_there_as_soon_as_it_was_written(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run")
    recorder = Recorder(config)
    write(recorder, 1)
    assert [row["case"] for row in rows_in(config)] == [1]
    recorder.close()
    complete(config.run_dir)
    assert read_rows(config.run_dir / FUZZ_CASES).complete


def _append(path: Path, letter: str, count: int) -> None:
    lines = Lines(path)
    for _ in range(count):
        lines.write(letter * 3000 + "\n")
    lines.close()


def test_lines_of_several_processes_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    context = multiprocessing.get_context("fork")
    some = [context.Process(target=_append, args=(path, letter, 400)) for letter in "abc"]
    for process in some:
        process.start()
    for process in some:
        process.join()
    lines = path.read_text().splitlines()
    assert sorted(line[0] for line in lines) == ["a"] * 400 + ["b"] * 400 + ["c"] * 400
    assert all(line == line[0] * 3000 for line in lines)


def test_limit_of_the_folder_ends_a_run_in_words(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run")
    (config.run_dir / "captures" / "old").write_bytes(b"x" * 5000)
    with Recorder(config, max_disk=8000) as recorder:
        number = 0
        while not recorder.full:
            number += 1
            write(recorder, number)
        assert "--max-disk" in recorder.full
        assert "run folder" in recorder.full
    last = (config.run_dir / FUZZ_CASES).read_bytes().splitlines(keepends=True)[-1]
    assert 8000 <= folder_size(config.run_dir) < 8000 + len(last)
    with Recorder(config, max_disk=None) as recorder:
        assert recorder.full == ""


def test_limit_counts_captures_and_what_others_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.recorder.LOOK_SECONDS", 1e6)
    config = config_in(tmp_path / "run")
    trace = Trace()
    link = trace.link(Endpoints(("127.0.0.1", 1000), ("127.0.0.1", 7447)))
    trace.add(link, Direction.SENT, b"x" * 1000, "x")
    with Recorder(config, max_disk=50_000) as recorder:
        assert recorder.full == ""
        while not recorder.full:
            recorder.keep(trace, case_of(), Played(links={1}))
    assert folder_size(config.run_dir) < 55_000
    monkeypatch.setattr("fuzz.recorder.LOOK_SECONDS", 0.0)
    with Recorder(config, max_disk=80_000) as recorder:
        assert recorder.full == ""
        (config.run_dir / "nodes").mkdir(exist_ok=True)
        (config.run_dir / "nodes" / "node.stderr").write_bytes(b"x" * 50_000)
        assert "--max-disk" in recorder.full


def test_limit_leaves_the_table_of_what_was_tried_alone(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run")
    (config.run_dir / FUZZ_COVERAGE).write_bytes(b"x" * 5000)
    with Recorder(config, max_disk=3000) as recorder:
        assert recorder.full == ""


def test_looking_at_the_limit_takes_no_walk_for_each_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.recorder.LOOK_SECONDS", 1e6)
    walks: list[Path] = []

    def walked(folder: Path, but: str = "") -> int:
        walks.append(folder)
        return folder_size(folder, but)

    monkeypatch.setattr("fuzz.recorder.folder_size", walked)
    with Recorder(config_in(tmp_path / "run"), max_disk=400_000) as recorder:
        number = 0
        while not recorder.full:
            number += 1
            write(recorder, number)
    assert number > 500
    assert len(walks) < 25


def test_full_disk_ends_a_run_before_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_in(tmp_path / "run")
    monkeypatch.setattr("fuzz.recorder.LEAST_FREE", 1 << 62)
    with Recorder(config) as recorder:
        assert "disk" in recorder.full


def test_coverage_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    def full(_: object) -> CoverageRow:
        raise OSError(errno.ENOSPC, "No space left on device")

    with Recorder(config_in(tmp_path / "run")) as recorder:
        before = sorted((tmp_path / "run").iterdir())
        with pytest.raises(OSError, match="No space"):
            recorder.coverage(map(full, range(3)))
    assert sorted((tmp_path / "run").iterdir()) == before


def test_capture_keeps_the_packets_of_a_case(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run")
    trace = Trace()
    link = trace.link(Endpoints(("127.0.0.1", 1000), ("127.0.0.1", 7447)))
    trace.add(link, Direction.SENT, b"\x01\x00\x04", "PUSH.N: N=0")
    with Recorder(config) as recorder:
        path = recorder.keep(trace, case_of(), Played(Ending.ACCEPTED, links={1}))
        assert recorder.keep(trace, case_of(), Played(sent=[b"x" * 300_000], links={1})) == ""
    with PcapNgReader(str(config.run_dir / path)) as reader:
        packets = list(reader)
    said = [comment.decode() for packet in packets for comment in packet.comments or []]
    assert "PUSH in open; PUSH.N: N=0" in said
    assert "answer: accepted" in said
    assert any(bytes(packet).endswith(b"\x01\x00\x04") for packet in packets)


def test_capture_of_a_session_says_how_many_bytes_of_it_are_missing(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run")
    trace = Trace()
    link = trace.link(Endpoints(("127.0.0.1", 1000), ("127.0.0.1", 7447)))
    trace.add(link, Direction.SENT, b"\x02\0\x01\x09")
    trace.add(link, Direction.RECEIVED, b"\x03\0\x21\x09\0")
    for _ in range(BEGINNING):
        trace.add(link, Direction.SENT, b"\x01\0\x04")
    with Recorder(config) as recorder:
        for _ in range(2):
            start = trace.end
            trace.add(link, Direction.SENT, b"\x01\0\x04")
            path = recorder.keep(trace, case_of(), Played(start=start, links={link}))
            trace.add(link, Direction.SENT, b"\x02\0\x04\x04")
    with PcapNgReader(str(config.run_dir / path)) as reader:
        kept = [IP(bytes(packet))[TCP] for packet in reader]
    first = kept[0].seq
    shown = [(tcp.sport, tcp.seq - first, max(0, tcp.ack - first), len(bytes(tcp.payload))) for tcp in kept]
    assert shown[:5] == [(1000, 0, 0, 0), (7447, 0, 1, 0), (1000, 1, 1, 0), (1000, 1, 1, 4), (7447, 1, 5, 5)]
    # What stands near the handshake, then each case behind what was left out.
    near, case = range(5, 5 + 3 * (BEGINNING - 3), 3), 5 + 3 * BEGINNING
    assert shown[5:] == [(1000, seq, 6, 3) for seq in (*near, case, case + 3 + 4)]


def test_later_link_between_the_same_ports_is_none_that_was_sent_again(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run")
    trace = Trace()
    with Recorder(config) as recorder:
        for _ in range(2):
            start = trace.end
            link = trace.link(Endpoints(("127.0.0.1", 1000), ("127.0.0.1", 7447)))
            path = recorder.keep(trace, case_of(), Played(start=start, links={link}))
    with PcapNgReader(str(config.run_dir / path)) as reader:
        kept = [IP(bytes(packet))[TCP] for packet in reader]
    assert [str(tcp.flags) for tcp in kept] == ["S", "SA", "A"] * 2
    assert kept[0].seq != kept[3].seq


def test_second_run_in_a_folder_has_a_capture_of_its_own(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run")
    trace = Trace()
    trace.link(Endpoints(("127.0.0.1", 1000), ("127.0.0.1", 7447)))
    paths = []
    for _ in range(2):
        with Recorder(config) as recorder:
            paths.append(recorder.keep(trace, case_of(), Played(links={1})))
    assert paths == ["captures/fuzz.pcapng", "captures/fuzz-1.pcapng"]


def test_capture_that_is_full_takes_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.recorder.CAPTURE_BYTES", 1200)
    config = config_in(tmp_path / "run")
    trace = Trace()
    link = trace.link(Endpoints(("127.0.0.1", 1000), ("127.0.0.1", 7447)))
    trace.add(link, Direction.SENT, b"\x01\x00\x04", "x")
    with Recorder(config) as recorder:
        kept = [recorder.keep(trace, case_of(), Played(links={1})) for _ in range(9)]
    assert kept[0]
    assert kept[-1] == ""
    assert (config.run_dir / kept[0]).stat().st_size < 4000
