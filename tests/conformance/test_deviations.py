"""Recorded deviations: read strictly, found for a test on a node, proposed out of recorded runs."""

from __future__ import annotations

import datetime as dt
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.deviations import Deviation, Deviations, plain, propose, shipped
from conformance.deviations.__main__ import main
from conformance.deviations.proposals import quoted
from conformance.deviations.versions import NoVersions, Versions, ranges, version_key
from conformance.errors import UsageError
from conformance.verdicts import Judged, compare
from spark_reports.rows import STALE, VERDICTS, RowWriter, RunRow, VerdictRow, write_run

TODAY = dt.date(2026, 11, 22)
TEST = "suite/test_a.py::test_b[0x8]"

ENTRY = {
    "requirement": '"ZN-INIT-045"',
    "impl": '"eclipse-zenoh"',
    "versions": '"1.0.0-1.10.2"',
    "test": '"suite/test_a.py::test_b[*]"',
    "seen": '"CLOSE"',
    "evidence": '"run r, captures/a.pcapng"',
    "note": '"why"',
    "reviewed": "2026-11-01",
    "review_by": "2027-05-01",
}

MakeFile = Callable[..., Path]


@pytest.fixture
def file(tmp_path: Path) -> MakeFile:
    """Writes a deviations file: for each entry what is different from ENTRY, None leaves a key out."""

    def make(*entries: dict[str, str | None]) -> Path:
        path = tmp_path / "known.toml"
        blocks = []
        for changes in entries:
            values = {**ENTRY, **changes}
            blocks.append(
                "[[deviation]]\n" + "".join(f"{k} = {v}\n" for k, v in values.items() if v is not None)
            )
        path.write_text("\n".join(blocks))
        return path

    return make


def known(**values: Any) -> Deviation:
    standard = {key: tomllib.loads(f"x = {text}")["x"] for key, text in ENTRY.items()}
    return Deviation(**{**standard, **values})


# Versions -------------------------------------------------------------------------------------------


def test_versions_have_one_order() -> None:
    order = [
        "0.11.0",
        "1.0.0.dev5",
        "1.0.0-alpha.2",
        "1.0.0a10",
        "1.0.0-beta.1",
        "1.0.0rc1",
        "1.0.0-rc.2",
        "1.0.0-rc.2-4-g0a1b",
        "1.0.0",
        "v1.0.0-9-gabcdef0",
        "1.0.0-12-g0a1b2c3",
    ]
    order += ["1.0.0.post1", "1.0.4", "1.9.0", "1.10.0rc1", "1.10.0", "1.10.2", "2.0"]
    keys = [version_key(text) for text in order]
    assert None not in keys
    assert keys == sorted(keys, key=lambda key: key or ((), 0, 0, 0))
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1.10", "1.10.0"),
        ("1", "1.0.0"),
        ("1.0.0-rc.1", "1.0.0rc1"),
        ("1.0.0", "1.0.0+build.5"),
        ("20261128", "20261128.0"),
    ],
)
def test_spellings_of_one_version_are_equal(one: str, other: str) -> None:
    assert version_key(one) == version_key(other) is not None


@pytest.mark.parametrize(
    "text",
    [
        "unknown",
        "",
        "1.",
        "1.5.1-12-abcdef",
        "1.5.1-12-gabcdef-dirty",
        "1.0.0-dirty",
        "latest",
        "1" * 5000,
        "1.0\u0661",
        # Commits without a tag, as `git describe --always` names them in a shallow clone.
        "1234567",
        "v1234567",
        "12b3456",
    ],
)
def test_what_is_no_version_is_in_no_set(text: str) -> None:
    assert version_key(text) is None
    assert text not in Versions.parse(">=0")


@pytest.mark.parametrize(
    ("versions", "version", "holds"),
    [
        ("1.10.2", "1.10.2", True),
        ("1.10.2", "1.10.1", False),
        ("1.10", "1.10.0", True),
        ("1.0.0-1.10.2", "1.9.0", True),
        ("1.0.0 - 1.10.2", "1.0.0", True),
        ("1.0.0-1.10.2", "1.10.2", True),
        ("1.0.0-1.10.2", "1.11.0", False),
        ("1.0.0-1.10.2", "1.9.0-7-g0a1b2c3", True),
        ("1.0.0-1.10.2", "1.10.2-7-g0a1b2c3", False),
        (">=1.7", "1.10.2-7-g0a1b2c3", True),
        ("1.0.0-1.10.2", "1.10.2rc1", True),
        ("1.0.0-1.10.2", "1.0.0rc1", False),
        ("1.0.0-rc.1-1.10.2", "1.0.0rc1", True),
        ("1.0.0-rc.1", "1.0.0", False),
        ("1.0.0-1.1.1, 1.10.0-1.10.2", "1.10.1", True),
        ("1.0.0-1.1.1, 1.10.0-1.10.2", "1.5.1", False),
        (">=1.7", "1.7.0", True),
        (">=1.7", "1.10.2", True),
        (">=1.7", "1.7.0rc1", False),
        (">1.7", "1.7.0", False),
        (">1.7", "1.7.1", True),
        ("<1.7", "1.7.0rc1", True),
        ("<1.7", "1.7", False),
        ("<=1.7, 1.9.0", "1.9", True),
    ],
)
def test_set_of_versions_holds_what_lies_in_it(versions: str, version: str, holds: bool) -> None:
    assert (version in Versions.parse(versions)) is holds


@pytest.mark.parametrize(
    ("versions", "says"),
    [
        ("", "is not a set of versions"),
        ("all", "is not a set of versions"),
        ("1.0.0-", "is not a set of versions"),
        ("1.0.0,,1.1", "is not a set of versions"),
        ("~=1.7", "is not a set of versions"),
        ("1.10.2-1.0.0", "ends before it starts"),
        ("1.0.0-dirty", "cannot be ordered as a version"),
        # Who joins with a comma may mean "and".
        (">=1.7, <1.9", "overlap"),
        ("1.0.0-1.5.1, 1.4.0", "overlap"),
        ("1.7, 1.7.0", "overlap"),
    ],
)
def test_what_names_no_versions_says_what_to_write(versions: str, says: str) -> None:
    with pytest.raises(NoVersions, match=says):
        Versions.parse(versions)


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("1.0.0-1.5.1", "1.5.1-1.9.0", True),
        ("1.0.0-1.5.1", "1.5.2-1.9.0", False),
        ("<1.5", ">=1.5", False),
        ("<=1.5", ">=1.5", True),
        ("<1.5", ">1.4", True),
        ("1.0.0, 1.9.0", "1.4.0-1.10.0", True),
        (">=1.0", "<=0.9", False),
    ],
)
def test_sets_meet_where_they_share_a_version(one: str, other: str, meet: bool) -> None:
    assert Versions.parse(one).meets(Versions.parse(other)) is meet
    assert Versions.parse(other).meets(Versions.parse(one)) is meet


RELEASES = ["1.0.0", "1.4.0", "1.9.0", "1.10.0", "1.10.2"]


@given(st.lists(st.sampled_from([True, False, None]), min_size=5, max_size=5))
def test_ranges_hold_what_was_chosen_and_bridge_only_what_nobody_knows(chosen: list[bool | None]) -> None:
    text = ranges(chosen, RELEASES)
    if not text:
        assert True not in chosen
        return
    made = Versions.parse(text)
    for wanted, version in zip(chosen, RELEASES, strict=True):
        assert wanted is None or (version in made) is wanted


# The file -------------------------------------------------------------------------------------------


def test_shipped_deviations_load() -> None:
    for deviation in shipped():
        assert deviation.test.startswith(("suite/", "passive/"))
        assert deviation.file == "deviations.toml"


def test_entries_are_read_in_order_with_their_number(file: MakeFile) -> None:
    loaded = Deviations.load(file({}, {"test": '"suite/test_c.py::test_d"', "transports": '"tls, ws"'}))
    assert [entry.number for entry in loaded] == [1, 2]
    assert loaded.entries[1].transports == "tls, ws"
    assert loaded.entries[0].reviewed == dt.date(2026, 11, 1)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"seen": None}, "entry 2: seen: is missing"),
        ({"review_by": None}, "entry 2: review_by: is missing"),
        ({"seen": '" "'}, "entry 2: seen: must not be empty"),
        ({"note": '""'}, "entry 2: note: must not be empty"),
        ({"evidence": '""'}, "entry 2: evidence: must not be empty"),
        ({"requirement": '"ZN-NOPE-001"'}, "entry 2: requirement: ZN-NOPE-001 is not in the catalogue"),
        ({"versions": '"1.x"'}, "entry 2: versions: "),
        ({"versions": "1.10"}, "entry 2: versions: must be a text in quotes"),
        ({"transports": '"quic"'}, "entry 2: transports: 'quic' is not one of tcp, "),
        ({"reviewed": '"2026-11-01"'}, "entry 2: reviewed: must be a date without quotes"),
        ({"reviewed": "2026-11-01T10:00:00"}, "entry 2: reviewed: must be a date without quotes"),
        ({"review_by": "2026-11-01"}, "entry 2: review_by: 2026-11-01 must be later than reviewed"),
        ({"verison": '"1"'}, "entry 2: verison: unknown key; the keys are requirement, "),
        ({}, "entry 2: test: entry 1 also covers "),
        ({"versions": '"1.10.2-1.11.0"'}, "entry 2: test: entry 1 also covers "),
    ],
)
def test_wrong_entry_is_one_sentence_with_file_number_and_key(
    file: MakeFile, changes: dict[str, str | None], says: str
) -> None:
    with pytest.raises(UsageError) as caught:
        Deviations.load(file({}, changes))
    text = str(caught.value)
    assert text.startswith(f"known.toml: {says}")
    assert "\n" not in text


@pytest.mark.parametrize(
    "changes",
    [{"versions": '"1.10.3"'}, {"impl": '"other"'}, {"test": '"suite/test_a.py::test_c"'}],
)
def test_entries_for_other_nodes_or_tests_stand_side_by_side(
    file: MakeFile, changes: dict[str, str | None]
) -> None:
    assert len(Deviations.load(file({}, changes))) == 2


def test_entries_for_other_transports_stand_side_by_side(file: MakeFile) -> None:
    loaded = Deviations.load(file({"transports": '"tcp"'}, {"transports": '"tls, ws"', "seen": '"nothing"'}))
    seen = [loaded.of("eclipse-zenoh", "1.10.2", transport, TEST) for transport in ("tcp", "ws", "udp")]
    assert [entry.seen if entry else None for entry in seen] == ["CLOSE", "nothing", None]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("x = ", "known.toml: not a TOML file"),
        ("[deviation]\n", "known.toml: deviation: must be a list"),
        ("[[deviations]]\n", "known.toml: deviations: unknown key"),
        ("deviation = [1]\n", "known.toml: entry 1: deviation: must be a table"),
        (b"\xff", "known.toml: not a TOML file"),
        ("x = " + "[" * 100_000, "known.toml: not a TOML file"),
    ],
    ids=["cut", "table", "name", "number", "bytes", "depth"],
)
def test_file_that_is_none_is_one_sentence(tmp_path: Path, content: str | bytes, says: str) -> None:
    path = tmp_path / "known.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError) as caught:
        Deviations.load(path)
    assert str(caught.value).startswith(says)
    assert len(str(caught.value).splitlines()) == 1


def test_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.toml: cannot be read"):
        Deviations.load(tmp_path / "nowhere.toml")


# Which test on which node ---------------------------------------------------------------------------


def test_deviation_is_for_its_implementation_version_and_test_only() -> None:
    assert known().is_for("eclipse-zenoh", "1.9.0", TEST)
    assert not known().is_for("other", "1.9.0", TEST)
    assert not known().is_for("eclipse-zenoh", "1.11.0", TEST)
    assert not known().is_for("eclipse-zenoh", "unknown", TEST)
    assert not known().is_for("eclipse-zenoh", "1.9.0", "suite/test_a.py::test_c[0x8]")


def test_only_the_asterisk_is_a_wildcard() -> None:
    assert known(test=TEST).is_about(TEST)
    assert not known(test=TEST).is_about("suite/test_a.py::test_b0")
    assert not known(test=TEST).is_about("suite/test_aXpy::test_b[0x8]")
    assert known(test="suite/*[a?*").is_about("suite/test_a.py::test_b[a?c]")
    assert not known(test="suite/*[a?*").is_about("suite/test_a.py::test_b[abc]")


@pytest.mark.parametrize(
    ("test", "transport", "id_on_tcp"),
    [
        ("t[udp-0x8]", "udp", "t[0x8]"),
        ("t[udp]", "udp", "t"),
        ("t[unixsock-stream-a-b]", "unixsock-stream", "t[a-b]"),
        ("t[udp-0x8]", "tcp", "t[udp-0x8]"),
        ("t[udp-0x8]", "", "t[udp-0x8]"),
        ("t[0x8]", "udp", "t[0x8]"),
    ],
)
def test_id_without_transport_is_that_on_tcp(test: str, transport: str, id_on_tcp: str) -> None:
    assert plain(test, transport) == id_on_tcp


def test_deviation_holds_on_every_transport_unless_it_names_some() -> None:
    other = "suite/test_a.py::test_b[tls-0x8]"
    assert known().is_for("eclipse-zenoh", "1.9.0", other, "tls")
    assert not known(transports="tcp").is_for("eclipse-zenoh", "1.9.0", other, "tls")
    assert known(transports="tcp, tls").is_for("eclipse-zenoh", "1.9.0", other, "tls")


# A whole run ----------------------------------------------------------------------------------------


def test_entry_about_no_test_is_an_error_in_a_whole_run_only(file: MakeFile) -> None:
    loaded = Deviations.load(file({}, {"test": '"suite/test_gone.py::test_x"'}))
    loaded.check([(TEST, "tcp")], whole=False)
    with pytest.raises(
        UsageError, match=r"known.toml: entry 2: test: no such test suite/test_gone.py::test_x"
    ):
        loaded.check([(TEST, "tcp")], whole=True)


def test_entry_for_a_transport_that_does_not_run_is_left_alone(file: MakeFile) -> None:
    loaded = Deviations.load(file({}, {"test": '"suite/test_u.py::test_x"', "transports": '"udp"'}))
    loaded.check([(TEST, "tcp")], whole=True)
    with pytest.raises(UsageError, match="entry 2: test: no such test"):
        loaded.check([(TEST, "tcp"), ("suite/test_u.py::test_y[udp]", "udp")], whole=True)
    loaded.check([(TEST, "tcp"), ("suite/test_u.py::test_x[udp]", "udp")], whole=True)


@pytest.mark.parametrize("whole", [True, False])
def test_two_entries_about_one_test_on_one_version_are_an_error(file: MakeFile, whole: bool) -> None:
    loaded = Deviations.load(
        file({"versions": '"1.0.0-1.5.1"'}, {"test": f'"{TEST}"', "versions": '">=1.5"'})
    )
    with pytest.raises(
        UsageError,
        match=r"entry 2: test: entry 1 also covers suite/test_a.py::test_b\[0x8\] on the same nodes",
    ):
        loaded.check([(TEST, "tcp")], whole=whole)
    with pytest.raises(UsageError, match="entry 1 also covers"):
        loaded.of("eclipse-zenoh", "1.5.1", "tcp", TEST)
    apart = Deviations.load(
        file({"versions": '"1.0.0-1.5.1"'}, {"test": f'"{TEST}"', "versions": '">1.5.1"'})
    )
    apart.check([(TEST, "tcp")], whole=True)


def test_entry_that_nothing_came_near_to_is_unused(file: MakeFile) -> None:
    loaded = Deviations.load(
        file(
            {},
            {"test": '"suite/test_c.py::test_d"'},
            {"test": '"suite/test_e.py::test_f"', "versions": '"1.11.0"'},
        )
    )
    verdicts = [(TEST, "tcp", "deviation"), ("suite/test_c.py::test_d", "tcp", "n/a")]
    assert [entry.number for entry in loaded.unused("eclipse-zenoh", "1.10.2", verdicts)] == [2]
    assert loaded.unused("other", "1.10.2", verdicts) == []
    lines = loaded.remarks("eclipse-zenoh", "1.10.2", verdicts, whole=True, today=TODAY)
    assert lines == [
        "known.toml: entry 2 (ZN-INIT-045): unused: no test suite/test_c.py::test_d was judged on eclipse-zenoh 1.10.2"
    ]
    assert loaded.remarks("eclipse-zenoh", "1.10.2", verdicts, whole=False, today=TODAY) == []


def test_entry_past_its_day_is_a_line_of_the_summary(file: MakeFile) -> None:
    loaded = Deviations.load(file({}))
    late = dt.date(2027, 5, 2)
    assert loaded.remarks("eclipse-zenoh", "1.10.2", [], whole=False, today=dt.date(2027, 5, 1)) == []
    assert loaded.remarks("eclipse-zenoh", "1.10.2", [], whole=False, today=late) == [
        "known.toml: entry 1 (ZN-INIT-045): review was due by 2027-05-01"
    ]
    assert loaded.remarks("eclipse-zenoh", "1.11.0", [], whole=False, today=late) == []


@pytest.mark.parametrize(
    ("outcome", "seen", "becomes", "reason"),
    [
        ("fail", "CLOSE", "deviation", "why"),
        ("pass", "", "fail", STALE),
        ("fail", "nothing", "fail", "differs from the deviation recorded in deviations.toml: entry 0: CLOSE"),
        ("n/a", "", "n/a", ""),
        ("inconclusive", "", "inconclusive", ""),
    ],
)
def test_outcome_is_held_to_the_deviation_in_all_directions(
    outcome: str, seen: str, becomes: str, reason: str
) -> None:
    judged = Judged(outcome, seen=seen)
    compare(
        judged,
        ("ZN-INIT-045",),
        TEST,
        ("eclipse-zenoh", "1.10.2"),
        strict_should=False,
        deviations=Deviations([known()]),
    )
    assert (judged.outcome, judged.reason) == (becomes, reason)


def test_deviation_of_another_transport_does_not_count() -> None:
    judged = Judged("fail", seen="CLOSE")
    compare(
        judged,
        ("ZN-INIT-045",),
        "suite/test_a.py::test_b[tls-0x8]",
        ("eclipse-zenoh", "1.10.2"),
        strict_should=False,
        transport="tls",
        deviations=Deviations([known(transports="tcp")]),
    )
    assert judged.outcome == "fail"


# Proposals ------------------------------------------------------------------------------------------


def verdict(test: str = TEST, outcome: str = "pass", seen: str = "", **values: Any) -> VerdictRow:
    standard = {
        "run_id": "r",
        "test": test,
        "requirements": ("ZN-INIT-045",),
        "level": "MUST",
        "outcome": outcome,
        "expected": "INIT" if seen else "",
        "seen": seen,
        "reason": "",
        "stimulus": "",
        "duration_s": 0.1,
        "started_ns": 1,
        "capture": "captures/a.pcapng",
        "repeat": "",
        "transport": "tcp",
    }
    return VerdictRow(**{**standard, **values})


def write_folder(folder: Path, version: str, *rows: VerdictRow, impl: str = "eclipse-zenoh") -> Path:
    """Writes a run on a version."""
    folder.mkdir(parents=True)
    names = (
        "started_at",
        "kind",
        "node",
        "node_whatami",
        "node_zid",
        "harness_version",
        "python",
        "platform",
        "command",
    )
    values: dict[str, Any] = dict.fromkeys(names, "x")
    row = RunRow(
        run_id=folder.name,
        ended_at=None,
        node_impl=impl,
        node_version=version,
        seed=1,
        status="complete",
        **values,
    )
    write_run(folder, row)
    with RowWriter(folder / VERDICTS) as writer:
        for one in rows:
            writer.write(one)
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Path]:
    """Writes a run on a version below ``tmp_path/runs``."""

    def make(version: str, *rows: VerdictRow, name: str = "", impl: str = "eclipse-zenoh") -> Path:
        return write_folder(tmp_path / "runs" / (name or f"run-{version}"), version, *rows, impl=impl)

    return make


def proposed(deviations: Deviations, folders: Iterable[Path]) -> tuple[list[dict[str, Any]], str]:
    """Returns the proposed entries, read back from the text, and the text."""
    text = propose(deviations, folders, releases=RELEASES, today=TODAY).text("known.toml")
    return tomllib.loads(text).get("deviation", []), text


NONE = Deviations()


def test_runs_as_recorded_need_no_change(run: Callable[..., Path]) -> None:
    folders = [run("1.9.0", verdict(outcome="deviation", seen="CLOSE")), run("1.11.0", verdict())]
    assert proposed(Deviations([known()]), folders)[0] == []


def test_fail_becomes_a_new_entry_without_a_note(run: Callable[..., Path], tmp_path: Path) -> None:
    entries, text = proposed(NONE, [run("1.9.0", verdict(outcome="fail", seen="CLOSE"))])
    assert entries == [
        {
            "requirement": "ZN-INIT-045",
            "impl": "eclipse-zenoh",
            "versions": "1.9.0",
            "transports": "tcp",
            "test": TEST,
            "seen": "CLOSE",
            "evidence": "run r on 1.9.0, captures/a.pcapng",
            "note": "",
            "reviewed": TODAY,
            "review_by": dt.date(2027, 5, 23),
        }
    ]
    # Nobody can take it over without having said what it means.
    path = tmp_path / "known.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"known.toml: entry 1: note: must not be empty"):
        Deviations.load(path)
    path.write_text(text.replace('note = ""', 'note = "why"'))
    assert Deviations.load(path).of("eclipse-zenoh", "1.9.0", "tcp", TEST) is not None


def test_versions_that_fail_alike_become_ranges(run: Callable[..., Path]) -> None:
    seen = {"1.0.0": "CLOSE", "1.4.0": "CLOSE", "1.9.0": "", "1.10.0": "nothing", "1.10.2": "CLOSE"}
    folders = [
        run(version, verdict(outcome="fail" if what else "pass", seen=what)) for version, what in seen.items()
    ]
    entries, _ = proposed(NONE, folders)
    assert {(entry["seen"], entry["versions"]) for entry in entries} == {
        ("CLOSE", "1.0.0-1.4.0, 1.10.2"),
        ("nothing", "1.10.0"),
    }


def test_version_that_shows_nothing_does_not_break_a_range(run: Callable[..., Path]) -> None:
    folders = [
        run("1.0.0", verdict(outcome="fail", seen="CLOSE")),
        run("1.4.0", verdict(outcome="n/a")),
        run("1.9.0", verdict(outcome="warning", seen="CLOSE")),
        run("1.10.0", verdict(outcome="inconclusive")),
    ]
    assert [entry["versions"] for entry in proposed(NONE, folders)[0]] == ["1.0.0-1.9.0"]


def test_wider_range_is_proposed_with_note_and_evidence_kept(run: Callable[..., Path]) -> None:
    recorded = Deviations([known(versions="1.10.0")])
    entries, text = proposed(recorded, [run("1.9.0", verdict(outcome="fail", seen="CLOSE"))])
    assert [(entry["versions"], entry["note"], entry["evidence"], entry["test"]) for entry in entries] == [
        ("1.9.0-1.10.0", "why", "run r, captures/a.pcapng", TEST)
    ]
    assert "# wider, seen likewise: 1.9.0" in text


def test_stale_version_narrows_the_range_between_releases(run: Callable[..., Path]) -> None:
    stale = verdict(outcome="fail", seen="the requirement is met", reason=STALE)
    entries, text = proposed(Deviations([known()]), [run("1.9.0", stale)])
    assert [entry["versions"] for entry in entries] == ["1.0.0-1.4.0, 1.10.0-1.10.2"]
    assert "# stale, the requirement is met: 1.9.0" in text


def test_entry_that_is_stale_everywhere_is_to_be_removed(run: Callable[..., Path]) -> None:
    stale = verdict(outcome="fail", seen="the requirement is met", reason=STALE)
    entries, text = proposed(Deviations([known(versions="1.9.0")]), [run("1.9.0", stale)])
    assert entries == []
    assert "remove it" in text


def test_other_signature_is_told_and_becomes_an_entry(run: Callable[..., Path]) -> None:
    entries, text = proposed(
        Deviations([known(versions="1.9.0")]),
        [run("1.9.0", verdict(outcome="fail", seen="nothing", reason="differs from the deviation"))],
    )
    assert [(entry["seen"], entry["versions"], entry["note"]) for entry in entries] == [
        ("nothing", "1.9.0", "")
    ]
    assert "# different, seen is nothing: 1.9.0" in text


def test_one_half_of_a_joint_range_does_not_save_the_other(run: Callable[..., Path]) -> None:
    recorded = Deviations([known(versions="1.0.0-1.4.0", number=1), known(versions="1.9.0-1.10.2", number=2)])
    stale = verdict(outcome="fail", seen="the requirement is met", reason=STALE)
    entries, _ = proposed(
        recorded, [run("1.4.0", stale), run("1.9.0", verdict(outcome="deviation", seen="CLOSE"))]
    )
    assert [entry["versions"] for entry in entries] == ["1.0.0, 1.9.0-1.10.2"]


def test_parameters_that_fail_alike_share_an_entry(run: Callable[..., Path]) -> None:
    base = "suite/test_a.py::test_b"
    alike = [verdict(f"{base}[{name}]", "fail", "CLOSE") for name in "abc"]
    assert [entry["test"] for entry in proposed(NONE, [run("1.9.0", *alike)])[0]] == [f"{base}[*]"]
    mixed = [*alike, verdict(f"{base}[d]")]
    entries, _ = proposed(NONE, [run("1.9.0", *mixed, name="mixed")])
    assert [entry["test"] for entry in entries] == [f"{base}[{name}]" for name in "abc"]


def test_transports_that_fail_alike_share_an_entry_for_all(run: Callable[..., Path]) -> None:
    base = "suite/test_a.py::test_b"
    both = [verdict(base, "fail", "CLOSE"), verdict(f"{base}[tls]", "fail", "CLOSE", transport="tls")]
    (entry,) = proposed(NONE, [run("1.9.0", *both)])[0]
    assert entry["test"] == base
    assert "transports" not in entry
    one = [verdict(base, "fail", "CLOSE"), verdict(f"{base}[tls]", transport="tls")]
    (entry,) = proposed(NONE, [run("1.9.0", *one, name="one")])[0]
    assert entry["transports"] == "tcp"


def test_node_that_was_not_well_is_no_deviation(run: Callable[..., Path]) -> None:
    died = [
        verdict("a", "fail", "nothing; then the process died of SIGABRT"),
        verdict("b", "fail", "the process died of SIGABRT", expected="the node stays well"),
    ]
    result = propose(NONE, [run("1.9.0", *died)], today=TODAY)
    assert len(result) == 0
    assert len(result.left_out) == 2
    assert "SIGABRT" not in result.text("x")


def test_runs_that_contradict_each_other_propose_nothing(run: Callable[..., Path]) -> None:
    folders = [run("1.9.0", verdict(outcome="fail", seen="CLOSE")), run("1.9.0", verdict(), name="again")]
    result = propose(NONE, folders, today=TODAY)
    assert len(result) == 0
    assert "differs from run to run" in result.left_out[0]


def test_node_of_unknown_version_proposes_nothing(run: Callable[..., Path]) -> None:
    result = propose(NONE, [run("unknown", verdict(outcome="fail", seen="CLOSE"))], today=TODAY)
    assert len(result) == 0
    assert "--profile" in result.left_out[0]


def test_other_implementation_leaves_the_entries_alone(run: Callable[..., Path]) -> None:
    entries, _ = proposed(
        Deviations([known()]), [run("1.9.0", verdict(outcome="fail", seen="CLOSE"), impl="other")]
    )
    assert [entry["impl"] for entry in entries] == ["other"]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives_toml(text: str) -> None:
    line = f"x = {quoted(text)}"
    assert len(line.splitlines()) == 1
    assert tomllib.loads(line)["x"] == text


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_hostile_words_of_a_node_stay_inside_their_string(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    recorded = Deviations([known(versions="1.9.0", seen=text)] if text.strip() else [])
    hostile = 'x"\n[[deviation]]\nrequirement = "'
    folder = write_folder(
        tmp_path_factory.mktemp("runs") / "r", "1.9.0", verdict(outcome="fail", seen=text + hostile)
    )
    entries, _ = proposed(recorded, [folder])
    assert [entry["seen"] for entry in entries] == [text + hostile]


def test_text_that_is_no_unicode_is_left_out(run: Callable[..., Path]) -> None:
    result = propose(NONE, [run("1.9.0", verdict(outcome="fail", seen="a\udcff"))], today=TODAY)
    assert len(result) == 0
    assert "no Unicode" in result.left_out[0]


# The command ----------------------------------------------------------------------------------------


def test_command_writes_beside_the_file_and_never_into_it(
    run: Callable[..., Path], file: MakeFile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file({"versions": '"1.9.0"'})
    before = path.read_bytes()
    run("1.10.2", verdict(outcome="fail", seen="CLOSE"))
    assert main([str(tmp_path / "runs"), "--deviations", str(path)]) == 1
    made = tmp_path / "known.proposed.toml"
    assert tomllib.loads(made.read_text())["deviation"][0]["versions"] == "1.9.0-1.10.2"
    assert path.read_bytes() == before
    assert main([str(tmp_path / "runs"), "--deviations", str(path), "--out", str(path)]) == 2
    assert path.read_bytes() == before
    assert "never edited" in capsys.readouterr().err


def test_command_without_anything_to_change_ends_with_0(
    run: Callable[..., Path], file: MakeFile, tmp_path: Path
) -> None:
    run("1.9.0", verdict(outcome="deviation", seen="CLOSE"))
    assert main([str(tmp_path / "runs"), "--deviations", str(file({}))]) == 0


@pytest.mark.parametrize("name", ["nowhere", "empty", "cut"])
def test_folder_without_runs_is_wrong_use(
    name: str, file: MakeFile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "run.json").write_text("{")
    assert main([str(tmp_path / name), "--deviations", str(file({}))]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
