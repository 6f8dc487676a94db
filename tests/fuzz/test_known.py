from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conformance.errors import UsageError
from fuzz.known import Known, KnownFindings, Signature

ENTRY = """
[[finding]]
id = "ZF-1"
impl = "some-node"
versions = "1.0.0-1.2.1"
harm = "crash"
place = "SIGABRT some-crate/src/*.rs"
message = "PUSH"
note = "a message of this kind ends the process"
since = 2026-11-22
report = "reported privately"
"""

SEEN = Signature(harm="crash", place="SIGABRT some-crate/src/a.rs", state="open", message="PUSH")


def load(folder: Path, text: str) -> KnownFindings:
    path = folder / "known.toml"
    path.write_text(text)
    return KnownFindings.load(path)


def test_what_is_shipped_can_be_read() -> None:
    assert all(isinstance(known, Known) for known in KnownFindings.load())


def test_an_entry_is_known_by_harm_place_message_and_version(tmp_path: Path) -> None:
    known = load(tmp_path, ENTRY)
    found = known.of(SEEN, "some-node", "1.1.0")
    assert found is not None
    assert found.id == "ZF-1"
    assert known.of(SEEN, "some-node", "1.3.0") is None
    assert known.of(SEEN, "another", "1.1.0") is None
    for change in (
        {"harm": "panic"},
        {"place": "SIGABRT other/src/a.rs"},
        {"message": "REQUEST"},
    ):
        other = Signature(
            **{**{name: getattr(SEEN, name) for name in ("harm", "place", "state", "message")}, **change}
        )
        assert known.of(other, "some-node", "1.1.0") is None


def test_a_finding_that_is_called_by_its_field_is_known_whichever_message_it_was_met_by(
    tmp_path: Path,
) -> None:
    known = load(
        tmp_path, ENTRY.replace('place = "SIGABRT some-crate/src/*.rs"\nmessage = "PUSH"', 'about = "key *"')
    )
    for message in ("PUSH", "D_TOKEN"):
        seen = Signature(harm="crash", place="SIGSEGV", state="open", message=message, about="key with wild")
        assert known.of(seen, "some-node", "1.1.0") is not None
        assert known.of(replace(seen, about=""), "some-node", "1.1.0") is None
    with pytest.raises(UsageError, match="entry 1: place: every crash would match"):
        load(
            tmp_path, ENTRY.replace('place = "SIGABRT some-crate/src/*.rs"\nmessage = "PUSH"', 'about = "*"')
        )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('harm = "crash"', 'harm = "boom"', "entry 1: harm: 'boom' is not one of crash, panic"),
        ('versions = "1.0.0-1.2.1"', 'versions = "old"', "entry 1: versions: 'old' is not a set of versions"),
        ('versions = "1.0.0-1.2.1"', "", "entry 1: versions: is missing"),
        ('message = "PUSH"', 'message = "PUSHED"', "entry 1: message: no message matches PUSHED"),
        (
            'message = "PUSH"',
            'message = "PUSH"\nstate = "opened"',
            "entry 1: state: no state matches opened",
        ),
        (
            'message = "PUSH"',
            'message = "PUSH"\nbytes = "00"',
            "entry 1: bytes: unknown key; the keys are id",
        ),
        ("since = 2026-11-22", 'since = "today"', "entry 1: since: must be a date without quotes"),
        ("since = 2026-11-22", "since = 2999-01-01", "entry 1: since: 2999-01-01 is in the future"),
        ('"reported privately"', '"somewhere"', "entry 1: report: must be a link"),
        ('id = "ZF-1"', 'id = "a b"', "entry 1: id: 'a b' is not a short name"),
        ("a message of this kind", "00 11 22 33 44 55 66 77 88 99 aa bb cc", "entry 1: note: contains bytes"),
        (
            'place = "SIGABRT some-crate/src/*.rs"\nmessage = "PUSH"',
            "",
            "entry 1: place: every crash would match",
        ),
        (
            'place = "SIGABRT some-crate/src/*.rs"\nmessage = "PUSH"',
            'place = "?*"\nmessage = "**"',
            "entry 1: place: every crash would match",
        ),
        ("[[finding]]", "[[findings]]", "findings: unknown; entries start with"),
        ("[[finding]]", "[finding]", "finding: must be a list"),
        ("[[finding]]", "[[finding", "is not a TOML file"),
        (
            'note = "a message of this kind ends the process"',
            "note = 3",
            "entry 1: note: must be a quoted string",
        ),
        (
            'note = "a message of this kind ends the process"',
            'note = " "',
            "entry 1: note: must not be empty",
        ),
    ],
)
def test_what_is_wrong_is_refused_with_entry_and_key(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in ENTRY
    with pytest.raises(UsageError) as caught:
        load(tmp_path, ENTRY.replace(old, new))
    assert words in str(caught.value)


def test_two_entries_may_not_say_the_same(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="entry 2: id: entry 1 already has it"):
        load(tmp_path, ENTRY + ENTRY)
    with pytest.raises(UsageError, match="entry 2: versions: entry 1 already covers these releases"):
        load(tmp_path, ENTRY + ENTRY.replace("ZF-1", "ZF-2").replace("1.0.0-1.2.1", "1.2.0-1.4.0"))
    assert len(load(tmp_path, ENTRY + ENTRY.replace("ZF-1", "ZF-2").replace("1.0.0-1.2.1", ">=1.4"))) == 2


def test_all_versions_are_those_that_nobody_knows_too(tmp_path: Path) -> None:
    known = load(tmp_path, ENTRY.replace("1.0.0-1.2.1", "*").replace("some-node", "unknown"))
    assert known.of(SEEN, "unknown", "unknown")
    assert known.of(SEEN, "unknown", "0.3")
    assert known.of(SEEN, "some-node", "unknown") is None
    assert load(tmp_path, ENTRY).of(SEEN, "some-node", "unknown") is None
    with pytest.raises(UsageError, match="entry 2: versions: entry 1 already covers these releases"):
        load(tmp_path, ENTRY + ENTRY.replace("ZF-1", "ZF-2").replace("1.0.0-1.2.1", "*"))


def test_a_file_of_ones_own_goes_before_what_is_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped, own = tmp_path / "shipped.toml", tmp_path / "own.toml"
    shipped.write_text(ENTRY.replace('message = "PUSH"', ""))
    own.write_text(ENTRY.replace("ZF-1", "MINE-1"))
    monkeypatch.setattr(KnownFindings.load.__func__, "__defaults__", (shipped,))  # type: ignore[attr-defined]
    known = KnownFindings.of_run(own)
    found, other = known.of(SEEN, "some-node", "1.1.0"), replace(SEEN, message="REQUEST")
    assert found
    assert found.id == "MINE-1"
    assert known.of(other, "some-node", "1.1.0")
    assert len(known) == 2
    assert [one.id for one in KnownFindings.of_run()] == ["ZF-1"]


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        KnownFindings.load(tmp_path / "none.toml")


def test_entries_that_nothing_here_can_match_are_told(tmp_path: Path) -> None:
    other = ENTRY.replace("ZF-1", "ZF-2").replace("1.0.0-1.2.1", "1.3.0")
    known = load(tmp_path, ENTRY + other)
    assert known.unfit("some-node", "1.1.0") == (
        "known.toml: 1 of 2 entries are for other nodes than some-node 1.1.0 (ZF-2)"
    )
    assert known.unfit("some-node", "2.0.0") == (
        "known.toml: all entries are for other nodes than some-node 2.0.0 (ZF-1, ZF-2)"
    )
    assert known.unfit("unknown", "unknown") == (
        "known.toml: all entries are for nodes with a name, which this one has not; give it one with --profile "
        "NAME:VERSION (ZF-1, ZF-2)"
    )
    many = "".join(
        ENTRY.replace("ZF-1", f"ZF-{number}").replace("1.0.0-1.2.1", f"1.{number}.0")
        for number in range(1, 8)
    )
    assert load(tmp_path, many).unfit("a", "1.0.0").endswith("(ZF-1, ZF-2, ZF-3, ZF-4, ZF-5, ...)")
    assert load(tmp_path, ENTRY).unfit("some-node", "1.1.0") == ""


def test_a_file_may_begin_with_the_mark_of_an_editor(tmp_path: Path) -> None:
    assert len(load(tmp_path, "\ufeff" + ENTRY)) == 1
