from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from conformance.config import Credentials
from fuzz.cases import reach, send
from fuzz.findings import (
    CAPTURE,
    CONFIRMED,
    FINDING,
    FLAKY,
    OFTEN,
    OPEN,
    README,
    SEEN,
    STATE,
    TEST,
    TRAFFIC,
    Finding,
    Minimised,
    left_open,
    readme_of,
    unfinished,
)
from fuzz.known import KnownFindings
from fuzz.lab import LINGER, Lab, NoFreshNode, Seat, Tried, linger_of
from fuzz.oracles import Harm, Objection, When
from fuzz.oracles.places import words_of
from fuzz.player import Ending, Played
from fuzz.script import Do, Script, Step
from fuzz.states import State
from fuzz.triage import (
    HITS,
    HITS_FLAKY,
    LOOKS,
    SAMPLE,
    WIDE,
    Stopped,
    Suspect,
    Triage,
    akin,
    attribution,
    bucket_of,
    confirming,
    joined,
    names_in,
    triage,
)
from fuzz.triage.smaller import _same_kind, minimise
from scapy_layers.batch import contents, prefixed
from scapy_layers.codes import InterestMode, Kind
from scapy_layers.data import Put, Query
from scapy_layers.declarations import DeclareToken
from scapy_layers.network import Declare, Interest, Push, Request
from scapy_layers.transport import Fragment, Frame, KeepAlive
from tests.fuzz.hospital import (
    CRASH,
    GROWTH,
    PANIC,
    PLACE,
    STALL,
    Doctor,
    Fault,
    SickNode,
    SickStage,
    behind,
    config_in,
    lab_of,
    of_one_session,
    on,
    suspect,
)
from tests.fuzz.test_known import ENTRY, load

AMPLE = 600.0
"""Seconds for what takes some milliseconds on a machine that has nothing else to do."""


@contextmanager
def triage_of(
    folder: Path,
    fault: Fault,
    known: KnownFindings | None = None,
    *,
    through: bool = False,
    minimising: float = 0.0,
) -> Iterator[Triage]:
    config = config_in(folder)
    node = SickNode(fault)
    with lab_of(config, node) as lab:
        yield Triage(config, node, lab, known, through_known=through, minimising=minimising)


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What these nodes do in no time may take long where others have the processors."""
    for module, *names in (
        (attribution, "ATTRIBUTE_SECONDS"),
        (confirming, "CONFIRM_SECONDS"),
        (triage, "ATTRIBUTE_SECONDS", "CONFIRM_SECONDS"),
    ):
        for name in names:
            monkeypatch.setattr(module, name, AMPLE)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


# The signature ---------------------------------------------------------------------------------------


def panic(text: str, place: str, harm: Harm = Harm.PANIC) -> Objection:
    return Objection("stderr", harm, place, text)


def test_a_place_makes_the_signature_and_its_line_does_not() -> None:
    case = suspect(1, b"x").case
    old = panic(
        "thread 'rx-0' panicked at /build/.cargo/registry/src/index-6f1/zenoh-transport-1.0.0/src/unicast/a.rs:83:22: "
        "called `Option::unwrap()` on a `None` value",
        "zenoh-transport/src/unicast/a.rs:83",
    )
    new = panic(
        "thread 'rx-12' (4711) panicked at /build/.cargo/git/checkouts/zenoh-cc2/6231/io/zenoh-transport/src/unicast/a.rs:91:9: "
        "called `Option::unwrap()` on a `None` value",
        "zenoh-transport/src/unicast/a.rs:91",
    )
    older = panic(
        "thread 'rx-0' panicked at 'called `Option::unwrap()` on a `None` value', io/zenoh-transport/src/unicast/a.rs:70:13",
        "zenoh-transport/src/unicast/a.rs:70",
    )
    buckets = {bucket_of(one, case, State.OPEN) for one in (old, new, older)}
    assert buckets == {'panic zenoh-transport/src/unicast/a.rs "called Option::unwrap() on a None value"'}
    assert bucket_of(old, suspect(2, b"x", message="REQUEST").case, State.DECLARED) in buckets


def test_different_texts_and_files_are_different_faults() -> None:
    case = suspect(1, b"x").case
    at = "thread 'rx-0' panicked at src/net/face.rs:83:22: "
    texts = [
        panic(at + "called `Option::unwrap()` on a `None` value", PLACE),
        panic(at + "index out of bounds: the len is 3 but the index is 7", PLACE),
        panic(at + "called `Option::unwrap()` on a `None` value", "some-crate/src/net/hat.rs:83"),
        CRASH,
    ]
    assert len({bucket_of(one, case, State.OPEN) for one in texts}) == len(texts)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "index out of bounds: the len is 3 but the index is 7",
            "index out of bounds: the len is 65536 but the index is 70000",
        ),
        ('no alias 12 for "a/b"', 'no alias 99 for "some/other key"'),
        ("invalid key `***` at /src/a.rs:12", "invalid key `//` at /other/src/a.rs:99"),
        ("bad id 3f8a99b0c1d2e3f4 here", "bad id 00112233445566aa here"),
    ],
)
def test_values_do_not_tell_faults_apart(one: str, other: str) -> None:
    at = "thread 'rx-0' panicked at src/face.rs:83:22: "
    assert words_of(at + one) == words_of(at + other) != ""


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "Traceback (most recent call last): File \"/srv/session.py\", line 8, in on_declare KeyError: 'a/b'",
            "on_declare KeyError: _",
        ),
        (
            "panic: runtime error: index out of range [200] with length 3 /srv/build/session.go:214 +0x1d",
            "runtime error: index out of range [N] with",
        ),
        (
            "==7==ERROR: AddressSanitizer: x; SUMMARY: AddressSanitizer: heap-buffer-overflow /b/message.c:512:9 in d",
            "heap-buffer-overflow",
        ),
        ("/b/core.c:61:22: runtime error: shift exponent 70 is too large", "shift exponent N is too large"),
        ("node: codec.c:93: read_vle: Assertion `len < max' failed.", "read_vle: Assertion len < max failed"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "an instance of std::bad_alloc"),
    ],
)
def test_what_processes_say_that_are_not_written_in_rust_tells_faults_apart(said: str, words: str) -> None:
    assert words_of(f"the process died of SIGABRT; {said}") == words


def test_where_nothing_says_where_the_message_and_the_part_of_the_session_do() -> None:
    push, request = suspect(1, b"x").case, suspect(2, b"x", message="REQUEST").case
    assert bucket_of(STALL, push, State.OPEN) == "stall session PUSH"
    assert bucket_of(STALL, push, State.DECLARED) == bucket_of(STALL, push, State.OPEN)
    assert bucket_of(STALL, request, State.OPEN) == "stall session REQUEST"
    assert bucket_of(STALL, push, State.CONNECTED) == "stall handshake PUSH"
    segv = Objection("process", Harm.CRASH, "SIGSEGV", "the process died of SIGSEGV")
    assert bucket_of(segv, push, State.COMPRESSED) == "crash SIGSEGV compressed PUSH"
    abort = Objection(
        "process", Harm.CRASH, "SIGABRT memory allocation", "memory allocation of 12345678 bytes failed"
    )
    assert bucket_of(abort, push, State.OPEN) == "crash SIGABRT memory allocation session PUSH"


def test_a_place_in_a_standard_library_is_everybodys() -> None:
    said = panic(
        "thread 'a' panicked at library/alloc/src/raw_vec.rs:545:5: capacity overflow",
        "alloc/src/raw_vec.rs:545",
    )
    push, request = suspect(1, b"x").case, suspect(2, b"x", message="REQUEST").case
    assert bucket_of(said, push, State.OPEN) == 'panic alloc/src/raw_vec.rs "capacity overflow" session PUSH'
    assert bucket_of(said, push, State.OPEN) != bucket_of(said, request, State.OPEN)


def test_what_is_seen_later_may_show_better_what_it_was() -> None:
    assert akin(STALL, CRASH)
    assert not akin(CRASH, STALL)
    assert akin(STALL, replace(STALL, harm=Harm.REFUSING))
    assert akin(PANIC, CRASH)
    assert not akin(PANIC, replace(CRASH, place="SIGABRT some-crate/src/other.rs:5"))
    assert not akin(STALL, GROWTH)


# Which case did it -----------------------------------------------------------------------------------


def never(heard: list[bytes]) -> Objection | None:  # noqa: ARG001
    return None


def others(count: int, first: int = 1) -> list[Suspect]:
    return [
        suspect(number, b"harmless %d" % number, message="REQUEST") for number in range(first, first + count)
    ]


def test_the_last_case_is_found_at_once(run: Path) -> None:
    with triage_of(run, on(b"bad")) as made:
        finding = made.found(CRASH, [*others(10), suspect(11, b"a bad one")])
        assert (finding.case, finding.status, finding.confirmed) == (11, CONFIRMED, (3, 3))
        assert finding.script.sends == 1
        assert list(made.findings) == [finding.bucket]


def test_a_case_in_the_middle_of_many_is_found(run: Path) -> None:
    with triage_of(run, on(b"bad", STALL)) as made:
        finding = made.found(STALL, [*others(60), suspect(61, b"a bad one"), *others(40, 62)])
        assert (finding.case, finding.status) == (61, CONFIRMED)
        assert finding.bucket == "stall handshake PUSH"
        assert finding.script.sends == 1
        assert [path.name for path in (run / "findings").iterdir()] == ["stall-handshake-push"]


def test_of_very_many_cases_the_last_are_tried_first(run: Path) -> None:
    with triage_of(run, on(b"bad", STALL)) as made:
        finding = made.found(STALL, [*others(200), suspect(201, b"a bad one"), *others(30, 202)])
        assert (finding.case, finding.status) == (201, CONFIRMED)
        assert made._lab.tries < 100


def test_a_case_behind_one_that_does_other_harm_is_found(run: Path) -> None:
    def fault(heard: list[bytes]) -> Objection | None:
        return on(b"other", panic("it panicked", "some-crate/src/other.rs:5"))(heard) or on(b"bad")(heard)

    suspects = [*others(8), suspect(9, b"other"), suspect(10, b"a bad one"), *others(40, 11)]
    with triage_of(run, fault) as made:
        finding = made.found(CRASH, suspects)
        assert (finding.case, finding.status, finding.script.sends) == (10, CONFIRMED, 1)


def test_two_cases_of_one_session_are_found_together(run: Path) -> None:
    cases = [*others(3), suspect(4, b"first"), *others(3, 5), suspect(8, b"second")]
    with triage_of(run, behind(b"first", b"second")) as made:
        finding = made.found(CRASH, of_one_session(cases))
        assert finding.status == CONFIRMED
        made.minimise(finding, AMPLE)
        assert finding.minimised is not None
        assert finding.minimised.messages <= 2
        assert finding.minimised.done


def test_two_cases_on_two_links_are_found_together(run: Path) -> None:
    cases = [*others(3), suspect(4, b"first"), *others(3, 5), suspect(8, b"second"), *others(3, 9)]
    with triage_of(run, behind(b"first", b"second", STALL)) as made:
        finding = made.found(STALL, cases)
        assert finding.status == CONFIRMED
        made.minimise(finding, AMPLE)
        assert finding.script.sends == 2


def test_what_a_case_leaves_behind_for_one_that_comes_long_after_is_found_with_it(run: Path) -> None:
    cases = [*others(30), suspect(31, b"first"), *others(60, 32), suspect(92, b"second"), *others(6, 93)]
    with triage_of(run, behind(b"first", b"second", STALL)) as made:
        finding = made.found(replace(STALL, lasting=True), cases)
        assert (finding.case, finding.status, finding.script.sends) == (92, CONFIRMED, 2)


def test_what_shows_slowly_is_found_by_doing_it_again_and_again(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attribution, "ROUNDS", 40)
    monkeypatch.setattr(attribution, "GROUP_SECONDS", 10.0)

    def fault(heard: list[bytes]) -> Objection | None:
        return GROWTH if sum(b"grow" in one for one in heard) >= 30 else None

    with triage_of(run, fault) as made:
        finding = made.found(GROWTH, [*others(5), suspect(6, b"to grow"), *others(6, 7)])
        assert (finding.case, finding.status, finding.bucket) == (
            6,
            CONFIRMED,
            "growth memory handshake PUSH",
        )
        assert finding.rounds > 10


def test_what_every_session_brings_about_is_laid_on_no_case(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = count()

    def fault(_: list[bytes]) -> Objection | None:
        return GROWTH if next(looks) >= 30 else None

    def groups(self: attribution.Attribution, group: Sequence[Suspect], *_: object) -> Tried:
        assert len(group) == 1, (
            "all cases look alike, and to split them in groups takes all the time there is"
        )
        return self._lab.play(group[0].alone, rounds=40, seconds=10.0)

    monkeypatch.setattr(attribution.Attribution, "_again_and_again", groups)
    with triage_of(run, fault) as made:
        cases = [suspect(number, b"x", field=f"PUSH.f{number}") for number in range(1, 30)]
        finding = made.found(GROWTH, cases)
        assert (finding.without != "", finding.status) == (True, CONFIRMED)
        assert (finding.message, finding.script.sends, finding.causes) == ("", 0, set())


class Lingering(SickNode):
    """A node whose process dies a while behind what harms it."""

    def __init__(self) -> None:
        super().__init__(lambda _: CRASH if self._process.poll() is not None else None)
        self._dying: threading.Timer | None = None

    def start(self) -> None:
        super().start()
        self._process = subprocess.Popen(["sleep", "600"])
        self.process = self._process.pid

    def listen(self) -> list[bytes]:
        heard = super().listen()
        if self._dying is None and any(b"bad" in one for one in heard):
            self._dying = threading.Timer(LINGER + 0.2, self._process.kill)
            self._dying.start()
        return heard

    def stop(self) -> None:
        super().stop()
        if self.process is not None:
            self._process.kill()
            self._process.wait()
        if self._dying is not None:
            self._dying.cancel()
        self.process = self._dying = None


def test_process_that_takes_its_time_to_die_is_waited_for(run: Path) -> None:
    config = config_in(run)

    def stage_of(*_: object) -> SickStage:
        return SickStage(Lingering())

    with Lab(config, SickNode(never), stage_of=stage_of, patient_of=Doctor) as lab:
        made = Triage(config, SickNode(never), lab)
        finding = made.found(CRASH, [*others(4), suspect(5, b"a bad one"), *others(4, 6)])
        assert (finding.case, finding.status, finding.confirmed) == (5, CONFIRMED, (3, 3))
        assert finding.waited > LINGER
        assert finding.path is not None
        assert Finding.load(finding.path).waited == pytest.approx(finding.waited, abs=0.001)
        made.minimise(finding, 3)
        assert finding.script.sends == 1
        assert f"LATE = {linger_of(finding.waited):.3g}" in (finding.path / TEST).read_text()


def test_process_that_dies_at_once_is_waited_for_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play, lingers = Lab.play, list[float]()

    def slowly(lab: Lab, script: Script, **options: Any) -> Tried:
        lingers.append(options.get("linger", 0.0))
        tried = play(lab, script, **options)
        # Long scripts take their time.
        tried.seconds = 2.0
        return tried

    monkeypatch.setattr(Lab, "play", slowly)
    with triage_of(run, behind(b"first", b"second", SEGV)) as made:
        suspects = [
            *others(30),
            suspect(31, b"first"),
            *others(60, 32),
            suspect(92, b"second"),
            *others(9, 93),
        ]
        culprit = made._attribution._delayed(SEGV, suspects, time.monotonic() + 30)
    assert culprit is not None
    assert [one.numbered.number for one in culprit[0]][-1] == 92
    # All of them, all in front of the one that did it, and that one alone in two ways.
    assert sum(linger > LINGER for linger in lingers) <= 4
    assert len(lingers) < 14


@pytest.mark.parametrize(("objection", "kept"), [(CRASH, True), (STALL, False)])
def test_many_cases_that_show_a_place_are_kept_when_time_is_up(
    run: Path, objection: Objection, kept: bool
) -> None:
    with triage_of(run, on(b"bad", objection)) as made:
        suspects = [*others(5), suspect(6, b"bad"), *others(5, 7)]
        shown = suspects, made._lab.play(joined(suspects))
        assert made._attribution._fewest(objection, shown, 0.0) == (shown if kept else None)
        fewest = made._attribution._fewest(objection, shown, time.monotonic() + 30)
        assert fewest is not None
        assert fewest[0] == suspects[:6]


def test_of_many_those_like_one_that_is_known_to_end_the_process_are_tried_first(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with triage_of(run, on(b"bad", SEGV)) as made:
        finding = made.found(SEGV, [suspect(1, b"bad")])
        assert finding.status == CONFIRMED
        monkeypatch.setattr(Lab, "walk", lambda *_: pytest.fail("all were tried"))
        like = suspect(44, b"another bad one", field="PUT.encoding")
        assert made.found(SEGV, [*others(40, 2), like, *others(20, 50)]) is finding
        assert finding.hits == 2
        assert like.case.causes[0] in finding.causes


def test_joined_suspects_share_the_links_that_they_shared() -> None:
    script = joined(
        [*of_one_session(others(2)), suspect(9, b"alone"), *of_one_session([suspect(10, b"back")])]
    )
    reached = [step.link for step in script.steps if step.do is Do.REACH]
    assert reached == ["a", "b"]
    assert [step.link for step in script.steps if step.do is Do.SEND] == ["a", "a", "b", "a"]
    assert [step.link for step in script.steps if step.do is Do.CLOSE] == ["b", "a"]


# Beside the campaign ---------------------------------------------------------------------------------


SEGV = Objection("process", Harm.CRASH, "SIGSEGV", "the process died of SIGSEGV")


class Slowly:
    """A fault that shows only once somebody lets it."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self.let = threading.Event()
        self.begun = threading.Event()

    def __call__(self, heard: list[bytes]) -> Objection | None:
        self.begun.set()
        assert self.let.wait(30)
        return self._fault(heard)


def test_the_campaign_goes_on_while_a_finding_is_looked_into(run: Path) -> None:
    fault = Slowly(on(b"bad", STALL))
    bad, again, other = suspect(1, b"bad"), suspect(2, b"bad"), suspect(3, b"good", field="PUT.encoding")
    with triage_of(run, fault) as made:
        made.take(STALL, [bad], AMPLE)
        assert fault.begun.wait(30)
        assert made.open == 1
        assert not made.findings
        # It is there whatever happens now.
        (folder,) = (run / "findings").iterdir()
        assert Finding.load(folder).status == OPEN
        assert not made.collect()
        # What it is like is left out meanwhile, and counted when it was under way.
        assert made.leaves_out(bad.case)
        assert not made.leaves_out(other.case)
        made.take(STALL, [again], AMPLE)
        assert made.open == 1
        fault.let.set()
        made.finish(AMPLE)
        (finding,) = made.findings.values()
        assert (finding.bucket, finding.status, finding.confirmed) == (
            "stall handshake PUSH",
            CONFIRMED,
            (3, 3),
        )
        assert (finding.hits, finding.masked) == (2, 1)
        assert not made.leaves_out(bad.case)
        (folder,) = (run / "findings").iterdir()
        assert Finding.load(folder).hits == 2


def test_many_findings_are_looked_into_one_after_the_other(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 4
    monkeypatch.setattr("fuzz.triage.triage.MOST_OPEN", most)
    kinds = ["PUSH", "JOIN", "RESPONSE", "DECLARE", "INTEREST", "OAM", "CLOSE"]
    cases = [suspect(number, b"bad", message=kind) for number, kind in enumerate(kinds, 1)]
    with triage_of(run, on(b"bad", STALL)) as made:
        for case in cases:
            made.take(STALL, [*others(3, 100), case], AMPLE)
            assert made.open <= most
        made.finish(AMPLE)
        assert [finding.case for finding in made.findings.values()] == list(range(1, 8))
        assert {finding.status for finding in made.findings.values()} == {CONFIRMED}
        assert not made.open


def test_the_campaign_does_not_wait_for_long_when_many_that_look_the_same_wait(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.triage.triage.MOST_OPEN", 2)
    monkeypatch.setattr("fuzz.triage.triage.ROOM_SECONDS", 0.05)
    done = threading.Event()

    def attribute(*_: object) -> None:
        done.wait(30)

    monkeypatch.setattr(attribution.Attribution, "culprit", attribute)
    with triage_of(run, on(b"bad")) as made:
        began = time.monotonic()
        for number in range(1, 6):
            made.take(SEGV, [*others(3, 100), suspect(number, b"bad", message=f"M{number}")], AMPLE)
        assert made.open == 2
        assert time.monotonic() - began < 10
        done.set()
        made.finish(AMPLE)
        assert sum(finding.hits for finding in made.findings.values()) == 5


@pytest.mark.parametrize(("objection", "status"), [(STALL, FLAKY), (CRASH, SEEN)])
def test_what_there_is_no_time_for_any_more_is_kept_as_it_was_seen(
    run: Path, objection: Objection, status: str
) -> None:
    fault = Slowly(never)
    with triage_of(run, fault) as made:
        made.take(objection, others(50), AMPLE)
        made.take(GROWTH, [suspect(99, b"bad")], AMPLE)
        assert fault.begun.wait(30)
        fault.let.set()
        made.finish(0)
        assert [finding.status for finding in made.findings.values()] == [status, FLAKY]
        kept = [Finding.load(folder) for folder in (run / "findings").iterdir()]
        assert {finding.bucket for finding in kept} == set(made.findings)


@pytest.mark.parametrize("objection", [CRASH, SEGV, STALL])
def test_what_there_was_no_time_for_is_looked_into_behind_the_campaign(
    run: Path, objection: Objection
) -> None:
    fault = Slowly(on(b"bad", objection))
    with triage_of(run, fault) as made:
        # The first is under way when the time is over, the second waits.
        made.take(panic("panicked at a/b.rs:9:1: no", "a/b.rs:9"), [suspect(99, b"good")], AMPLE)
        assert fault.begun.wait(30)
        made.take(
            objection, [*others(50), suspect(51, b"bad", message="JOIN"), suspect(52, b"harmless")], AMPLE
        )
        fault.let.set()
        made.finish(0)
        seen = [finding for finding in made.findings.values() if finding.harm is objection.harm]
        assert [(finding.confirmed, finding.hits) for finding in seen] == [((0, 0), 1)]
        told: list[tuple[int, int]] = []
        made.catch_up(30, lambda number, count: told.append((number, count)))
        assert told == [(1, 2), (2, 2)]
        (finding,) = [finding for finding in made.findings.values() if finding.harm is objection.harm]
        assert (finding.status, finding.confirmed, finding.case, finding.hits) == (CONFIRMED, (3, 3), 51, 1)
        kept = [Finding.load(folder) for folder in (run / "findings").iterdir()]
        assert {finding.bucket for finding in kept} == set(made.findings)
        # Rows that name it as it seemed lead to what it is.
        assert seen[0].bucket in {finding.bucket, *finding.case_buckets}
        made.catch_up(30, lambda number, count: told.append((number, count)))
        assert len(told) == 2


@pytest.mark.parametrize("fault", [on(b"bad", STALL), never])
def test_two_that_seem_the_same_and_wait_together_are_both_kept(run: Path, fault: Fault) -> None:
    slowly = Slowly(fault)
    with triage_of(run, slowly) as made:
        made.take(STALL, [*others(3), suspect(4, b"bad", message="JOIN"), suspect(5, b"last")], AMPLE)
        made.take(STALL, [*others(3, 11), suspect(14, b"bad", message="OAM"), suspect(15, b"last")], AMPLE)
        assert made.open == 2
        slowly.let.set()
        made.finish(AMPLE)
        kept = [Finding.load(folder) for folder in (run / "findings").iterdir()]
        assert {finding.bucket for finding in kept} == set(made.findings)
        hits = sum(finding.hits for finding in made.findings.values())
        assert hits == 2
        assert len(kept) == (1 if fault is never else 2)


def test_what_waits_and_is_known_by_now_is_counted_and_not_looked_into(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slowly = Slowly(on(b"bad", STALL))
    with triage_of(run, slowly) as made:
        looked_into = []
        attribute = made._attribution.culprit

        def counted(*words: Any) -> Any:
            looked_into.append(words)
            return attribute(*words)

        monkeypatch.setattr(made._attribution, "culprit", counted)
        culprit = suspect(4, b"bad")
        made.take(STALL, [*others(3), culprit, suspect(5, b"harmless too")], AMPLE)
        made.take(STALL, [*others(3, 11), replace(culprit, lane=14), suspect(15, b"harmless too")], AMPLE)
        assert made.open == 2
        slowly.let.set()
        made.finish(AMPLE)
        (finding,) = made.findings.values()
        assert (finding.status, finding.hits, finding.case) == (CONFIRMED, 2, 4)
        assert len(looked_into) == 1
        (folder,) = (run / "findings").iterdir()
        assert Finding.load(folder).hits == 2


def test_case_that_surely_did_it_helps_where_nobody_could_be_found(run: Path) -> None:
    with triage_of(run, on(b"bad")) as made:
        made.take(CRASH, others(5), AMPLE)
        made.finish(AMPLE)
        (finding,) = made.findings.values()
        assert (finding.status, finding.confirmed, finding.in_vain) == (SEEN, (0, 0), True)
        made.take(CRASH, [suspect(6, b"harmless too")], AMPLE)
        made.finish(AMPLE)
        assert (finding.status, finding.hits) == (SEEN, 2)
        made.take(CRASH, [suspect(7, b"bad")], AMPLE)
        made.finish(AMPLE)
        assert (finding.status, finding.confirmed, finding.case, finding.hits) == (CONFIRMED, (3, 3), 7, 3)
        made.take(CRASH, [suspect(8, b"bad")], AMPLE)
        assert not made.open
        (folder,) = (run / "findings").iterdir()
        kept = Finding.load(folder)
        assert (kept.status, kept.hits, kept.script.sends, kept.in_vain) == (CONFIRMED, 4, 1, False)
        assert (folder / "test_finding.py").exists()


def test_what_was_played_in_front_is_tried_when_the_one_that_seemed_sure_shows_nothing(run: Path) -> None:
    with triage_of(run, on(b"bad")) as made:
        before = [*others(3), suspect(4, b"bad"), suspect(5, b"harmless as well")]
        made.take(CRASH, [suspect(6, b"harmless too")], 30, before)
        made.finish(AMPLE)
        (finding,) = made.findings.values()
        assert (finding.status, finding.confirmed, finding.case) == (CONFIRMED, (3, 3), 4)
        assert finding.script.sends == 1
        assert not made.leaves_out(suspect(6, b"harmless too").case)


def test_bucket_is_looked_into_again_so_often_and_no_more(run: Path) -> None:
    with triage_of(run, never) as made:
        made.take(CRASH, others(5), AMPLE)
        made.finish(AMPLE)
        looks = 0
        for number in range(10):
            made.take(CRASH, [suspect(number, b"harmless")], AMPLE)
            looks += made.open
            made.finish(AMPLE)
        assert looks == LOOKS
        assert {finding.hits for finding in made.findings.values()} == {11}


def test_what_looks_the_same_and_is_sure_is_tried_when_the_first_shows_nothing(run: Path) -> None:
    fault = Slowly(on(b"bad"))
    with triage_of(run, fault) as made:
        made.take(CRASH, others(5), AMPLE)
        assert fault.begun.wait(30)
        made.take(CRASH, [suspect(6, b"bad")], AMPLE)
        assert made.open == 1
        fault.let.set()
        made.finish(AMPLE)
        (finding,) = made.findings.values()
        assert (finding.status, finding.confirmed, finding.case, finding.hits) == (CONFIRMED, (3, 3), 6, 2)
        assert len(list((run / "findings").iterdir())) == 1


def in_much(number: int, needle: bytes) -> Suspect:
    return suspect(number, *(b"harmless %d" % other for other in range(20)), needle)


def test_findings_are_made_smaller_while_nothing_else_is_to_be_looked_into(run: Path) -> None:
    with triage_of(run, on(b"bad", STALL), minimising=20) as made:
        made.take(STALL, [in_much(1, b"a bad one")], AMPLE)
        while not made.findings:
            made.collect(wait=True)
        (finding,) = made.findings.values()
        assert finding.script.sends == 21
        made.collect()
        assert made._small is not None
        made._small.result(30)
        assert made.collect()
        assert finding.script.sends == 1
        assert finding.minimised is not None
        assert finding.path is not None
        assert Finding.load(finding.path).script.sends == 1
        # There is nothing left to do.
        assert not made.collect()
        assert not made._large


@pytest.mark.parametrize(("beside", "times"), [(1e-9, 2), (AMPLE, 1)])
def test_what_there_was_too_little_for_beside_the_campaign_is_made_smaller_behind_it(
    run: Path, monkeypatch: pytest.MonkeyPatch, beside: float, times: int
) -> None:
    made_smaller: list[float] = []

    def noted(lab: Lab, finding: Finding, seconds: float, stop: Callable[[], bool]) -> None:
        made_smaller.append(seconds)
        minimise(lab, finding, seconds, stop)

    monkeypatch.setattr(triage, "minimise", noted)
    with triage_of(run, on(b"bad", STALL), minimising=beside) as made:
        made.take(STALL, [in_much(1, b"a bad one")], AMPLE)
        while not made_smaller:
            made.collect(wait=True)
        made.finish(AMPLE)
        (finding,) = made.findings.values()
        assert finding.minimised is not None
        assert finding.script.sends == (21 if times == 2 else 1)
        made.minimise_all(AMPLE, lambda *_: None)
        assert finding.script.sends == 1
        assert finding.minimised.done
        assert len(made_smaller) == times
        assert finding.path is not None
        assert Finding.load(finding.path).script.sends == 1


def test_effort_of_both_times_counts_and_none_is_lost_when_the_second_fails(run: Path) -> None:
    with triage_of(run, on(b"bad")) as made:
        finding = made.found(CRASH, [in_much(1, b"a bad one")])
        before = Minimised(40, 900, 3.5, 7, done=False)
        for now, seconds, tries, done in (
            (Minimised(9, 90, 1.5, 2, done=True), 5.0, 9, True),
            (None, 3.5, 7, False),
        ):
            finding.minimised = now
            triage._add_effort(finding, before)
            assert finding.minimised is not None
            assert (finding.minimised.seconds, finding.minimised.tries) == (seconds, tries)
            assert finding.minimised.done is done
        # What is left is that of the script as it is.
        left = finding.minimised
        assert left is not None
        assert (left.messages, left.size) == (finding.script.sends, finding.script.size)


def test_a_new_objection_comes_before_making_smaller(run: Path) -> None:
    fault = Slowly(lambda heard: STALL if any(b"bad" in one for one in heard) else None)
    fault.let.set()
    with triage_of(run, fault, minimising=20) as made:
        made.take(STALL, [in_much(1, b"bad")], AMPLE)
        while not made.findings:
            made.collect(wait=True)
        (first,) = made.findings.values()
        fault.begun.clear()
        fault.let.clear()
        made.collect()
        assert fault.begun.wait(30)
        other = suspect(2, b"bad", message="REQUEST", field="REQUEST.id")
        made.take(STALL, [other], AMPLE)
        fault.let.set()
        made.finish(AMPLE)
        assert [finding.status for finding in made.findings.values()] == [CONFIRMED, CONFIRMED]
        assert (first.minimised, first.script.sends) == (None, 21)


def test_what_cannot_be_tried_is_said(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> Tried:
        raise NoFreshNode("there is none")

    with triage_of(run, on(b"bad")) as made:
        monkeypatch.setattr(made._lab, "play", none)
        made.take(CRASH, [suspect(1, b"bad")], AMPLE)
        made.finish(AMPLE)
        (finding,) = made.findings.values()
        assert finding.status == SEEN
        assert finding.notes == ["Could not be analysed: there is none"]


def proofs_of(monkeypatch: pytest.MonkeyPatch, *, fails: bool) -> list[Tried]:
    """Has the tests of findings fail or pass; returns those of which one was run."""
    ran: list[Tried] = []

    def check(node: str, harm: str, tried: Tried, user: Credentials | None) -> bool:
        assert (node, harm, user) == ("sick", "disturbed", None)
        ran.append(tried)
        return fails

    monkeypatch.setattr("fuzz.triage.triage.fails_on", check)
    return ran


@pytest.mark.parametrize(("fails", "words"), [(True, "run, and failed"), (False, "passed as well")])
def test_what_nobody_could_be_found_for_can_be_played_again(
    run: Path, monkeypatch: pytest.MonkeyPatch, words: str, *, fails: bool
) -> None:
    ran = proofs_of(monkeypatch, fails=fails)
    with triage_of(run, never) as made:
        made.take(LATE, others(5), AMPLE)
        made.finish(AMPLE)
        (finding,) = made.findings.values()
        assert (finding.status, finding.confirmed, finding.in_vain) == (FLAKY, (0, 0), True)
        assert ran == [finding.vain]
        assert ran[0].script == finding.script == joined(others(5))
        assert finding.path is not None
        kept = Finding.load(finding.path)
        assert (kept.in_vain, kept.test_fails, kept.shown, kept.tested) == (True, fails, True, True)
        for again in (finding, kept):
            page = readme_of(again)
            assert "played on a fresh node, it did not show the fault" in page
            assert "| on fresh nodes | in vain |" in page
            assert words in page
        compile((finding.path / TEST).read_text(), TEST, "exec")
        assert (finding.path / CAPTURE).stat().st_size > 0
        made.minimise_all(AMPLE, lambda *_: None)
        assert len(ran) == 1


def test_what_there_was_no_time_to_play_again_is_played_behind_the_campaign(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = proofs_of(monkeypatch, fails=False)
    with triage_of(run, never) as made:
        made.take(LATE, others(5), AMPLE)
        made.finish(0)
        (finding,) = made.findings.values()
        assert not finding.shown
        made.minimise_all(AMPLE, lambda *_: None)
        assert ran == [finding.vain]
        assert finding.tested


def test_what_shows_when_it_is_played_once_more_is_seen_again_as_often_as_anything(run: Path) -> None:
    fault = Changing(never)
    with triage_of(run, fault) as made:
        # Not while a case is looked for, but behind that.
        play = made._play_again

        def turned(finding: Finding, see: Callable[[Finding, Tried, float], None]) -> None:
            fault.fault = lambda _: CRASH
            play(finding, see)

        made._play_again = turned  # type: ignore[method-assign]
        made.take(CRASH, others(5), AMPLE)
        made.finish(AMPLE)
        (finding,) = made.findings.values()
        assert (finding.status, finding.confirmed, finding.in_vain) == (CONFIRMED, (3, 3), False)
        assert finding.path is not None
        assert "fails as long as the fault is there" in (finding.path / README).read_text()


@pytest.mark.parametrize(
    ("objection", "lucky", "confirmed"), [(CRASH, 5, True), (CRASH, 6, False), (STALL, 2, False)]
)
def test_what_ends_a_process_is_given_some_chances_to_come_again(
    run: Path, monkeypatch: pytest.MonkeyPatch, objection: Objection, lucky: int, confirmed: bool
) -> None:
    monkeypatch.setattr("fuzz.triage.triage.fails_on", lambda *_: None)
    with triage_of(run, never) as made:
        made.take(objection, others(2), AMPLE)
        # Nobody was found for it.
        while not made.findings:
            made.collect(wait=True)
        made.finish(0)
        (finding,) = made.findings.values()
        plays: list[Script] = []
        play = Lab.play

        def rarely(lab: Lab, script: Script, **how: Any) -> Tried:
            plays.append(script)
            tried = play(lab, script, **how)
            if len(plays) >= lucky:
                tried.objection = objection
            return tried

        monkeypatch.setattr(Lab, "play", rarely)
        finding.vain = None
        made.minimise_all(0, lambda *_: None)
        assert (finding.status == CONFIRMED) is confirmed
        assert len(plays) == (lucky + 2 if confirmed else 5 if objection is CRASH else 1)
        assert finding.notes == (["It took 5 fresh nodes until it came again."] if confirmed else [])


def test_what_takes_long_is_played_again_and_again_in_vain(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.triage.triage.ROUNDS", 3)
    monkeypatch.setattr("fuzz.triage.triage.SLOW_SECONDS", AMPLE)
    monkeypatch.setattr("fuzz.triage.triage.fails_on", lambda *_: None)
    with triage_of(run, never) as made:
        made.take(GROWTH, others(2), 0)
        made.finish(AMPLE)
        (finding,) = made.findings.values()
        assert finding.in_vain
        assert finding.rounds == 3


def test_a_fault_of_ours_in_it_is_not_swallowed(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with triage_of(run, on(b"bad")) as made:
        monkeypatch.setattr(made._lab, "play", lambda *_, **__: 1 // 0)

        def look() -> None:
            made.take(CRASH, [suspect(1, b"bad")], AMPLE)
            made.finish(AMPLE)

        with pytest.raises(ZeroDivisionError):
            look()


# Whether it is true ----------------------------------------------------------------------------------


def test_what_does_not_come_again_is_kept_apart(run: Path) -> None:
    with triage_of(run, never) as made:
        finding = made.found(STALL, others(5))
        assert finding.status == FLAKY
        assert not finding.fails
        assert finding.script.sends == 5


def test_what_cannot_be_laid_on_a_case_is_one_finding_and_leaves_nothing_out(run: Path) -> None:
    first, second = others(5), [*others(4), suspect(9, b"the last of others", message="INTEREST")]
    with triage_of(run, never) as made:
        one = made.found(STALL, first)
        again = made.found(STALL, second)
        assert again is one
        assert (one.hits, one.message, one.causes) == (2, "", set())
        assert not made.masked
        assert [path.name for path in (run / "findings").iterdir()] == [one.path.name if one.path else ""]


def test_a_crash_is_true_even_if_it_does_not_come_again(run: Path) -> None:
    with triage_of(run, never) as made:
        finding = made.found(CRASH, others(5))
        assert finding.status == SEEN
        assert finding.fails


def now_and_then(pattern: str) -> Fault:
    """Harms on a fresh node as often as the pattern says."""
    turns = iter(pattern)
    seen: dict[int, Objection | None] = {}

    def fault(heard: list[bytes]) -> Objection | None:
        if not heard:
            return None
        key = id(heard)
        if key not in seen:
            seen[key] = STALL if next(turns, "-") == "x" else None
            keep.append(heard)
        return seen[key]

    keep: list[list[bytes]] = []
    return fault


@pytest.mark.parametrize(
    ("pattern", "status", "confirmed"),
    [
        ("xxx", CONFIRMED, (3, 3)),
        ("xx-x", CONFIRMED, (3, 4)),
        ("x--xx", CONFIRMED, (3, 5)),
        ("x---", FLAKY, (1, 4)),
    ],
)
def test_three_of_five_fresh_nodes_confirm_it(
    run: Path, pattern: str, status: str, confirmed: tuple[int, int]
) -> None:
    with triage_of(run, now_and_then(pattern)) as made:
        finding = made.found(STALL, [suspect(1, b"x")])
        assert (finding.status, finding.confirmed) == (status, confirmed)


def test_a_deadline_is_kept_and_what_was_seen_is_not_lost(run: Path) -> None:
    with triage_of(run, on(b"bad", STALL)) as made:
        finding = made.found(STALL, [*others(5), suspect(6, b"bad")], time.monotonic())
        assert finding.status == FLAKY
        assert made._lab.tries == 0
        assert finding.path is not None
        assert Finding.load(finding.path).bucket == finding.bucket


def test_without_nodes_of_ours_nothing_is_tried(run: Path) -> None:
    config = config_in(run)
    node = SickNode(on(b"bad"))
    node.owned = False
    with lab_of(config, node) as lab:
        made = Triage(config, node, lab)
        finding = made.found(CRASH, [suspect(1, b"bad")])
        assert finding.status == SEEN
        assert lab.tries == 0
        assert "was not started by this run" in finding.notes[0]


def test_a_node_that_is_gone_is_laid_on_the_last_whose_link_ended_with_it(run: Path) -> None:
    config = config_in(run)
    node = SickNode(on(b"bad"))
    node.owned = False
    gone = Objection("ping", Harm.GONE, "", "no link: nobody listens")
    with lab_of(config, node) as lab:
        made = Triage(config, node, lab)
        endings = [Ending.REFUSED, Ending.ACCEPTED, Ending.REFUSED, Ending.SILENT, Ending.SILENT]
        suspects = [
            replace(suspect(number, b"x", message=f"M{number}"), played=Played(ending, sent=[b"x"]))
            for number, ending in enumerate(endings, 1)
        ]
        finding = made.found(gone, suspects)
        assert (finding.bucket, finding.case) == ("gone handshake M3", 3)
        assert finding.causes
        # Where we had ended our side of the link before, that it ended says nothing.
        unsent = replace(suspects[0], played=Played())
        assert made.found(gone, [*suspects[:2], unsent, *suspects[3:]]).case == 4


REFUSING = Objection("ping", Harm.REFUSING, "INIT: end of the link", "a new session fails")
UNDUE = Objection(
    "undue", Harm.UNDUE, "end of the link", "the node ended the session of the fuzzer's publisher"
)
CHANGED = Objection("canary", Harm.DISTURBED, "publication changed", "a publication arrives changed")
LATE = Objection("canary", Harm.DISTURBED, "long without an answer", "for 4 s nothing was answered")


@pytest.mark.parametrize("objection", [REFUSING, UNDUE, CHANGED])
def test_what_the_node_did_fails_a_run_even_if_nobody_can_tell_which_case_did_it(
    run: Path, objection: Objection
) -> None:
    with triage_of(run, never) as made:
        made.take(objection, others(5), AMPLE)
        made.finish(AMPLE)
        (finding,) = made.findings.values()
        assert (finding.status, finding.fails, finding.message, finding.hits) == (SEEN, True, "", 1)
        assert finding.path is not None
        assert "could not be identified" in (finding.path / README).read_text()


@pytest.mark.parametrize(
    "objection",
    [LATE, STALL, replace(REFUSING, place="INIT: no answer"), replace(REFUSING, place="link: no link")],
)
def test_what_rests_on_a_time_fails_a_run_only_when_it_was_seen_often(
    run: Path, objection: Objection
) -> None:
    with triage_of(run, never) as made:
        seen = []
        for _ in range(OFTEN):
            finding = made.found(objection, others(5))
            seen.append(finding.status)
        assert seen == [*[FLAKY] * (OFTEN - 1), SEEN]
        assert finding.fails
        assert finding.path is not None
        assert Finding.load(finding.path).status == SEEN


def test_what_is_known_fails_no_run_when_nobody_can_tell_which_case_did_it(run: Path, tmp_path: Path) -> None:
    text = ENTRY.replace("some-node", "sick").replace("1.0.0-1.2.1", ">=1.0").replace("crash", "refusing")
    lines = [line for line in text.splitlines() if not line.startswith(("place", "state", "message"))]
    known = load(tmp_path, "\n".join([*lines, 'place = "INIT*"']))
    with triage_of(run, never, known) as made:
        finding = made.found(REFUSING, others(5))
        assert (finding.status, finding.known, finding.fails) == (SEEN, "ZF-1", False)


def test_what_nobody_can_tell_and_looks_like_what_needs_no_message_is_counted_there(run: Path) -> None:
    fault = Changing(lambda _: SEGV)
    with triage_of(run, fault) as made:
        first = made.found(SEGV, [suspect(1, b"innocent")])
        first.without = STATE
        fault.fault = never
        assert made.found(SEGV, others(5)) is first
        assert (first.hits, list(made.findings)) == (2, [first.bucket])


@pytest.mark.parametrize(
    ("seen", "status", "tries", "names"),
    [
        (REFUSING, CONFIRMED, 0, 1),
        (REFUSING, SEEN, 0, 2),
        (REFUSING, CONFIRMED, 3, 2),
        (SEGV, CONFIRMED, 0, 2),
    ],
)
def test_what_was_not_tried_again_is_the_same_as_what_needs_no_message(
    run: Path, seen: Objection, status: str, tries: int, names: int
) -> None:
    with triage_of(run, lambda _: None) as made:
        # The rest of the analysis has no time.
        guess = made._make(seen, suspect(1, b"innocent", message="PUSH"))
        other = made._make(seen, suspect(2, b"innocent", message="OAM"))
        for finding in (guess, other):
            made._enter(finding, seen)
        guess.confirmed, guess.status = (tries, tries), SEEN
        other.without, other.confirmed, other.status = STATE, (3, 3), status
        made._lay_untried()
        assert len(made.findings) == names
        assert other.hits == (2 if names == 1 else 1)


# Without its message ---------------------------------------------------------------------------------


def test_what_ordinary_traffic_brings_about_is_one_finding_and_laid_on_no_message(run: Path) -> None:
    with triage_of(run, lambda _: SEGV) as made:
        kinds = ["PUSH", "JOIN", "OAM", "RESPONSE"]
        for number, kind in enumerate(kinds, 1):
            made.take(SEGV, [suspect(number, b"innocent", message=kind)], AMPLE)
            made.finish(AMPLE)
        (finding,) = made.findings.values()
        assert finding.bucket == "crash SIGSEGV ordinary traffic"
        assert (finding.without, finding.status, finding.confirmed) == (TRAFFIC, CONFIRMED, (3, 3))
        assert (finding.state, finding.message, finding.field, finding.causes) == ("", "", "", set())
        assert (finding.hits, finding.script.steps) == (len(kinds), ())
        assert not made.leaves_out(suspect(9, b"innocent").case)
        (folder,) = (run / "findings").iterdir()
        assert "No message of a case is needed" in (folder / README).read_text()
        assert Finding.load(folder).without == TRAFFIC
        made.minimise(finding, AMPLE)
        assert finding.script.steps == ()


def test_what_coming_into_a_state_brings_about_is_laid_on_no_message(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A link of the hospital says nothing to come into its state: what opens it counts.
    opened = SickNode.listen

    def listen(self: SickNode) -> list[bytes]:
        self.heard.extend([b"a link"] * len(self.ends))
        return opened(self)

    monkeypatch.setattr(SickNode, "listen", listen)
    with triage_of(run, on(b"a link", SEGV)) as made:
        for number, kind in enumerate(["PUSH", "JOIN"], 1):
            finding = made.found(SEGV, [suspect(number, b"innocent", message=kind)])
        assert list(made.findings) == ["crash SIGSEGV state alone"]
        assert (finding.without, finding.message, finding.hits) == (STATE, "", 2)
        assert [step.do for step in finding.script.steps] == [Do.REACH]
        made.minimise(finding, AMPLE)
        assert [step.do for step in finding.script.steps] == [Do.REACH]


def test_message_that_is_needed_is_told_from_a_state_that_is_enough_for_something_else(run: Path) -> None:
    other = replace(SEGV, place="SIGABRT")

    def fault(heard: list[bytes]) -> Objection | None:
        return SEGV if any(b"bad" in one for one in heard) else other

    with triage_of(run, fault) as made:
        finding = made.found(SEGV, [suspect(1, b"bad")])
        assert (finding.bucket, finding.without) == ("crash SIGSEGV handshake PUSH", "")
        made.found(other, [suspect(2, b"innocent", message="JOIN")])
        assert list(made.findings) == [finding.bucket, "crash SIGABRT ordinary traffic"]


TWICE = Objection("canary", Harm.DISTURBED, "publication twice", "publication 21 arrives again, after 21")


REPORT = Objection("stderr", Harm.PANIC, "some/node.py:reassemble", "Traceback (most recent call last)")


@pytest.mark.parametrize("seen", [TWICE, REPORT])
def test_what_ordinary_traffic_is_enough_for_is_not_judged_for_ever(run: Path, seen: Objection) -> None:
    with triage_of(run, lambda _: seen) as made:
        kinds = ["PUSH", "JOIN", "OAM", "RESPONSE"][:HITS]
        for number, kind in enumerate(kinds, 1):
            assert not made.unjudged
            made.take(seen, [suspect(number, b"innocent", message=kind)], AMPLE)
            made.finish(AMPLE)
        (finding,) = made.findings.values()
        assert (finding.without, finding.status, finding.hits) == (TRAFFIC, CONFIRMED, HITS)
        assert made.unjudged is made._lab.unjudged
        assert list(made.unjudged) == [(seen.harm, seen.place)]
        assert finding.path
        assert "Not judged for the rest of the run" in (finding.path / README).read_text()


@pytest.mark.parametrize("fails", [True, False])
def test_the_test_of_what_was_confirmed_is_run_on_the_node_once(
    run: Path, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    ran = proofs_of(monkeypatch, fails=fails)
    with triage_of(run, lambda _: TWICE) as made:
        made.take(TWICE, [suspect(1, b"innocent")], AMPLE)
        made.finish(AMPLE)
        (finding,) = made.findings.values()
        assert ran == [finding.tried]
        assert finding.path
        assert Finding.load(finding.path).test_fails is fails
        made.minimise_all(AMPLE, lambda *_: None)
        assert len(ran) == 1


def test_the_test_of_what_was_made_smaller_is_run_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []

    def check(_node: str, _harm: str, tried: Tried, _user: Credentials | None) -> bool:
        ran.append(tried.script.sends)
        return True

    monkeypatch.setattr("fuzz.triage.triage.fails_on", check)
    with triage_of(run, on(b"bad")) as made:
        made.take(CRASH, [suspect(1, b"harmless", b"bad")], AMPLE)
        made.finish(AMPLE)
        made.minimise_all(AMPLE, lambda *_: None)
    assert ran == [2, 1]


def test_what_waits_is_a_hit_of_what_ordinary_traffic_was_enough_for_meanwhile(run: Path) -> None:
    with triage_of(run, lambda _: TWICE) as made:
        for number, kind in enumerate(["PUSH", "JOIN", "OAM", "RESPONSE"], 1):
            made.take(TWICE, [suspect(number, b"innocent", message=kind)], AMPLE)
        made.finish(AMPLE)
        tries = made._lab.tries
        (finding,) = made.findings.values()
        assert (finding.without, finding.hits) == (TRAFFIC, 4)
        assert tries < 4 * 3
        assert [path.name for path in (run / "findings").iterdir()] == [
            "disturbed-publication-twice-ordinary-traffic"
        ]


@pytest.mark.parametrize(
    ("seen", "unjudged"),
    [(TWICE, True), (None, False), (replace(TWICE, place="publication lost"), False), (STALL, False)],
)
def test_what_goes_on_in_new_sessions_of_a_node_that_is_not_ours_is_not_judged(
    run: Path, seen: Objection | None, *, unjudged: bool
) -> None:
    with triage_of(run, never) as made:
        finding = made.found(TWICE, [suspect(1, b"innocent")])
        made.behind(finding, seen)
        assert bool(made.unjudged) is unjudged
        assert finding.path
        assert ("continues in new sessions" in (finding.path / README).read_text()) is unjudged


@pytest.mark.parametrize("seen", [SEGV, replace(REPORT, place="")])
def test_harm_that_a_node_does_not_bear_is_judged_for_ever(run: Path, seen: Objection) -> None:
    with triage_of(run, lambda _: seen) as made:
        for number in range(2 * HITS):
            made.found(seen, [suspect(number, b"innocent")])
        assert not made.unjudged


def test_place_that_needs_no_message_keeps_its_name_and_leaves_nothing_out(run: Path) -> None:
    with triage_of(run, lambda _: CRASH) as made:
        for number in range(HITS):
            finding = made.found(CRASH, [suspect(number, b"innocent")])
        assert finding.without == TRAFFIC
        assert finding.bucket.startswith(f"crash SIGABRT {PLACE.partition(':')[0]}")
        assert finding.hits == HITS
        assert not made.leaves_out(suspect(9, b"innocent").case)


def test_what_shows_without_its_message_now_and_then_stays_with_it_and_says_so(run: Path) -> None:
    with triage_of(run, once_without_a_message()) as made:
        finding = made.found(STALL, [suspect(1, b"bad")])
        assert (finding.without, finding.message, finding.status) == ("", "PUSH", CONFIRMED)
        assert finding.notes == ["Without its message it was seen 1 of 4 times, which is too few to count."]


def once_without_a_message() -> Fault:
    shown: list[int] = []

    def fault(heard: list[bytes]) -> Objection | None:
        if any(b"bad" in one for one in heard):
            return STALL
        if not shown:
            shown.append(1)
            return STALL
        return None

    return fault


def test_run_that_is_resumed_knows_what_needs_no_message(run: Path) -> None:
    for part in (1, 2):
        with triage_of(run, lambda _: SEGV) as made:
            finding = made.found(SEGV, [suspect(1, b"innocent")])
            assert (finding.without, finding.to_json()["hits"]) == (TRAFFIC, part)
    assert [path.name for path in (run / "findings").iterdir()] == ["crash-sigsegv-ordinary-traffic"]


def test_bucket_of_which_nobody_knew_which_case_it_was_may_need_no_message(run: Path) -> None:
    fault = Changing(never)
    with triage_of(run, fault) as made:
        made.take(SEGV, others(5), AMPLE)
        made.finish(AMPLE)
        assert list(made.findings) == ["crash SIGSEGV ?"]
        fault.fault = lambda _: SEGV
        made.take(SEGV, [suspect(6, b"innocent")], AMPLE)
        made.finish(AMPLE)
        assert "crash SIGSEGV ordinary traffic" in made.findings
        assert all(finding.path and finding.path.is_dir() for finding in made.findings.values())


@pytest.mark.parametrize(("seen", "name"), [(SEGV, "crash SIGSEGV ?"), (PANIC, "panic")])
@pytest.mark.parametrize("other", [State.CONNECTED, State.OPEN])
def test_nothing_is_said_of_a_case_where_it_was_none_of_many(
    run: Path, seen: Objection, name: str, other: State
) -> None:
    with triage_of(run, never) as made:
        made.take(seen, [*others(5), replace(suspect(6, b"x"), state=other)], AMPLE)
        made.finish(AMPLE)
        (finding,) = made.findings.values()
        assert finding.bucket.startswith(name)
        assert (finding.state, finding.message, finding.field, finding.mutation) == ("", "", "", "")
        assert not finding.messages | finding.states | finding.causes
        assert readme_of(finding)


def test_of_cases_that_have_a_node_of_their_own_the_part_is_known(run: Path) -> None:
    with triage_of(run, never) as made:
        made.take(SEGV, [replace(one, state=State.GROUP) for one in others(5)], AMPLE)
        made.finish(AMPLE)
        (finding,) = made.findings.values()
        assert (finding.bucket, finding.state, finding.message) == ("crash SIGSEGV group ?", "group", "")


def test_what_lasted_is_true_although_it_does_not_come_again(run: Path) -> None:
    with triage_of(run, never) as made:
        made.take(replace(STALL, lasting=True), others(5), AMPLE)
        made.finish(AMPLE)
        (finding,) = made.findings.values()
        assert (finding.status, finding.fails) == (SEEN, True)


class Changing:
    def __init__(self, fault: Fault) -> None:
        self.fault = fault

    def __call__(self, heard: list[bytes]) -> Objection | None:
        return self.fault(heard)


# What its cases seemed to be ---------------------------------------------------------------------------


def test_finding_holds_the_buckets_of_cases_that_seemed_to_be_something_else(run: Path) -> None:
    with triage_of(run, on(b"bad", SEGV)) as made:
        # Of the last one it died, it seems; another one did it.
        suspects = [suspect(1, b"bad"), suspect(2, b"x", message="DECLARE")]
        finding = made.found(SEGV, suspects, buckets=["crash SIGSEGV handshake DECLARE"])
        assert (finding.bucket, finding.case_buckets) == (
            "crash SIGSEGV handshake PUSH",
            {"crash SIGSEGV handshake DECLARE"},
        )
        assert made.found(SEGV, [suspect(3, b"bad")], buckets=["crash SIGSEGV handshake PUSH"]) is finding
        assert len(finding.case_buckets) == 2


def test_what_is_looked_into_beside_the_campaign_holds_the_buckets_of_all_that_looked_the_same(
    run: Path,
) -> None:
    with triage_of(run, on(b"bad", SEGV)) as made:
        for number, name in enumerate(["a", "b"], 1):
            made.take(STALL, [suspect(number, b"bad")], 30, buckets=[name])
        made.finish(AMPLE)
        made.take(SEGV, [suspect(3, b"bad")], 30, buckets=["c"])
        (finding,) = made.findings.values()
        assert (finding.harm, finding.case_buckets) == (Harm.CRASH, {"a", "b", "c"})


def test_findings_that_are_joined_hold_what_both_held(run: Path) -> None:
    with triage_of(run, on(b"bad", SEGV)) as made:
        first = made.found(SEGV, [suspect(1, b"a bad one")], buckets=["a"])
        second = made.found(SEGV, [suspect(2, b"another bad one", message="DECLARE")], buckets=["b"])
        made.minimise_all(AMPLE, lambda *_: None)
        assert list(made.findings.values()) == [first]
        assert first.case_buckets == {"a", "b", second.bucket}


def test_finding_that_turns_out_to_need_no_message_leaves_nothing_by_its_old_name(run: Path) -> None:
    fault = Changing(never)
    with triage_of(run, fault) as made:
        made.take(STALL, [suspect(1, b"x")], 30, buckets=["a"])
        made.finish(AMPLE)
        assert list(made.findings) == ["stall handshake PUSH"]
        fault.fault = lambda _: STALL
        made.take(STALL, [suspect(2, b"x")], 30, buckets=["b"])
        made.finish(AMPLE)
        (finding,) = made.findings.values()
        assert (finding.bucket, finding.case_buckets) == ("stall ordinary traffic", {"a", "b"})
        # Rows that count cases have been written with the other name.
        assert [(one.bucket, one.fails, one.hits) for one in made.merged] == [
            ("stall handshake PUSH", False, 0)
        ]
        assert finding.hits == 2


# Nothing twice ---------------------------------------------------------------------------------------


def test_the_same_place_met_by_another_message_is_the_same_finding(run: Path) -> None:
    with triage_of(run, on(b"bad")) as made:
        first = made.found(CRASH, [suspect(1, b"bad")])
        tries = made._lab.tries
        second = made.found(CRASH, [suspect(2, b"bad too", message="REQUEST")])
        assert second is first
        assert made._lab.tries == tries
        assert (first.hits, first.messages) == (2, {"PUSH", "REQUEST"})


def test_the_first_of_those_that_got_no_answer_names_a_stall_that_was_met(run: Path) -> None:
    silent, well = Played(Ending.SILENT), Played(Ending.ACCEPTED)
    with triage_of(run, on(b"bad", STALL)) as made:
        first = made.found(STALL, [suspect(1, b"bad")])
        tries = made._lab.tries
        later = [
            replace(suspect(2, b"x", message="REQUEST"), played=well),
            replace(suspect(3, b"bad too", field="PUSH.key_suffix"), played=silent),
            replace(suspect(4, b"x", message="REQUEST"), played=silent),
        ]
        assert made.found(STALL, later) is first
        assert made._lab.tries == tries
        assert first.hits == 2


def test_two_lines_of_one_file_that_say_the_same_are_two_findings(run: Path) -> None:
    other = replace(CRASH, place=CRASH.place.replace(":83", ":120"))
    with triage_of(
        run, lambda heard: CRASH if b"one" in heard else other if b"two" in heard else None
    ) as made:
        one = made.found(CRASH, [suspect(1, b"one")])
        two = made.found(other, [suspect(2, b"two")])
        assert one.bucket != two.bucket
        assert two.bucket == f"{one.bucket} 120"
        assert one.path != two.path


def test_a_stall_that_was_a_death_goes_by_the_name_of_the_death(run: Path) -> None:
    with triage_of(run, on(b"bad")) as made:
        finding = made.found(STALL, [suspect(1, b"bad")])
        assert finding.harm is Harm.CRASH
        assert list(made.findings) == [finding.bucket]
        assert [path.name for path in (run / "findings").iterdir()] == [
            finding.path.name if finding.path else ""
        ]


def test_a_run_that_is_resumed_knows_what_it_found(run: Path) -> None:
    with triage_of(run, on(b"bad")) as made:
        first = made.found(CRASH, [suspect(1, b"bad")])
        made.minimise(first, AMPLE)
    with triage_of(run, on(b"bad")) as made:
        again = made.found(CRASH, [suspect(2, b"bad", message="REQUEST")])
        assert made._lab.tries == 0
        assert (again.hits, again.status, again.script, again.path) == (
            1,
            CONFIRMED,
            first.script,
            first.path,
        )
        assert again.to_json()["hits"] == 2
        assert again.to_json()["messages"] == ["PUSH", "REQUEST"]
        made.minimise(again, AMPLE)
        assert made._lab.tries == 0
    assert len(list((run / "findings").iterdir())) == 1


def test_a_stall_of_many_suspects_is_the_one_of_an_earlier_part(run: Path) -> None:
    suspects = [*others(3), suspect(4, b"bad"), *others(3, 5)]
    for part in (1, 2):
        with triage_of(run, on(b"bad", STALL)) as made:
            finding = made.found(STALL, suspects)
            assert finding.to_json()["hits"] == part
            assert finding.bucket == "stall handshake PUSH"
    assert [path.name for path in (run / "findings").iterdir()] == ["stall-handshake-push"]


def killed_over(run: Path, objection: Objection, suspects: Sequence[Suspect]) -> list[Path]:
    """Leaves what a process leaves that was killed before it looked into something."""
    with triage_of(run, never) as made:
        made._guess(objection, suspects)
    folders = left_open(run / "findings")
    assert folders
    return folders


SIX_LINKS = [*others(3), suspect(4, b"bad", message="JOIN"), *others(2, 5)]


@pytest.mark.parametrize("suspects", [SIX_LINKS, [suspect(4, b"bad")]])
@pytest.mark.parametrize("objection", [CRASH, STALL])
def test_what_a_killed_part_of_the_run_left_is_played_again_and_made_smaller(
    run: Path, objection: Objection, suspects: Sequence[Suspect]
) -> None:
    folders = killed_over(run, objection, suspects)
    with triage_of(run, on(b"bad", objection)) as made:
        told: list[tuple[int, int]] = []
        made.take_over(folders, lambda number, count: told.append((number, count)))
        made.minimise_all(AMPLE, lambda *_: None)
        assert told == [(1, 1)]
        (finding,) = made.findings.values()
    assert (finding.status, finding.confirmed, finding.hits) == (CONFIRMED, (3, 3), 1)
    assert finding.fails
    assert finding.minimised is not None
    assert finding.minimised.messages == 1
    # Rows of its cases have the name that it had then.
    assert bucket_of(objection, suspects[-1].case, suspects[-1].state) in finding.case_buckets
    assert not left_open(run / "findings")
    assert [Finding.load(path).bucket for path in (run / "findings").iterdir()] == [finding.bucket]


@pytest.mark.parametrize(("objection", "status"), [(CRASH, SEEN), (STALL, FLAKY)])
def test_what_a_killed_part_left_and_does_not_come_again_is_kept_as_it_was_seen(
    run: Path, objection: Objection, status: str
) -> None:
    folders = killed_over(run, objection, SIX_LINKS)
    with triage_of(run, never) as made:
        made.take_over(folders, lambda *_: None)
        (finding,) = made.findings.values()
        assert (finding.status, finding.in_vain) == (status, True)
    assert not left_open(run / "findings")


def test_what_a_killed_part_left_is_a_hit_of_what_was_found_since_or_before(run: Path) -> None:
    with triage_of(run, on(b"bad")) as made:
        made.found(CRASH, [suspect(1, b"bad")])
    folders = killed_over(run, CRASH, SIX_LINKS)
    with triage_of(run, on(b"bad")) as made:
        made.take_over(folders, lambda *_: None)
        (finding,) = made.findings.values()
        assert (finding.before, finding.hits, made._lab.tries) == (1, 1, 0)
    folders = killed_over(run, CRASH, SIX_LINKS)
    with triage_of(run, on(b"bad")) as made:
        made.found(CRASH, [suspect(9, b"bad")])
        made.take_over(folders, lambda *_: None)
        (finding,) = made.findings.values()
        assert (finding.before, finding.hits, made._lab.tries) == (2, 2, 0)
    assert len(list((run / "findings").iterdir())) == 1


def test_what_a_killed_part_had_confirmed_is_made_smaller_unless_it_was_met_again(run: Path) -> None:
    long = [*others(3), suspect(4, b"bad"), *others(2, 5)]
    with triage_of(run, behind(b"first", b"second")) as made:
        first = made.found(
            CRASH, of_one_session([suspect(1, b"first"), *others(3, 2), suspect(9, b"second")])
        )
        second = made.found(STALL, long)
    assert (first.status, first.minimised, second.status) == (CONFIRMED, None, FLAKY)
    folders = unfinished(run / "findings")
    assert folders == [first.path]
    with triage_of(run, behind(b"first", b"second"), minimising=20) as made:
        made.take_over(folders, lambda *_: None)
        # It counts no case of this part.
        assert not made.findings
    kept = Finding.load(folders[0])
    assert kept.minimised is not None
    assert (kept.size[0], kept.hits) == (2, 1)
    assert unfinished(run / "findings") == []
    with triage_of(run, behind(b"first", b"second"), minimising=20) as made:
        made.found(CRASH, of_one_session([suspect(1, b"first"), suspect(9, b"second")]))
        tries = made._lab.tries
        made.take_over(folders, lambda *_: None)
        assert made._lab.tries == tries


def test_what_a_killed_part_left_damaged_stays_as_it_is(run: Path) -> None:
    (folder,) = killed_over(run, CRASH, SIX_LINKS)
    (folder / FINDING).write_text("{}")
    with triage_of(run, on(b"bad")) as made:
        made.take_over([folder], lambda *_: None)
        assert not made.findings
    assert left_open(run / "findings") == [folder]


# Leaving out -----------------------------------------------------------------------------------------


def test_what_harms_again_and_again_is_left_out_and_counted(run: Path) -> None:
    with triage_of(run, on(b"bad")) as made:
        for number in range(HITS):
            case = suspect(number, b"bad")
            assert not made.leaves_out(case.case)
            made.found(CRASH, [case])
        assert made.leaves_out(suspect(9, b"bad").case)
        assert not made.leaves_out(suspect(9, b"bad", kind="length").case)
        assert not made.leaves_out(suspect(9, b"bad", message="REQUEST").case)
        (finding,) = made.findings.values()
        assert finding.masked == made.masked.total() == 1


def test_what_could_not_be_confirmed_is_tried_more_often(run: Path) -> None:
    with triage_of(run, never) as made:
        for number in range(HITS_FLAKY):
            assert not made.leaves_out(suspect(number, b"x").case)
            made.found(STALL, [suspect(number, b"x")])
        assert made.leaves_out(suspect(99, b"x").case)


def test_of_what_is_like_many_that_harm_a_sample_is_played(run: Path) -> None:
    with triage_of(run, on(b"bad")) as made:
        for number in range(max(WIDE, HITS)):
            made.found(CRASH, [suspect(number, b"bad", field=f"PUSH.field{number}", kind="length")])
        left_out = [
            made.leaves_out(suspect(n, b"bad", field=f"PUSH.other{n}", kind="length").case)
            for n in range(2 * SAMPLE)
        ]
        assert left_out.count(False) == 2
        assert not made.leaves_out(suspect(9, b"bad", field="PUSH.other", kind="edge").case)


def test_what_any_of_many_may_have_done_is_laid_on_none_of_them(run: Path) -> None:
    with triage_of(run, on(b"bad")) as made:
        for number in range(HITS):
            finding = made.found(CRASH, [suspect(number, b"bad")])
        for number in range(WIDE):
            last = suspect(20 + number, b"x", field=f"PUSH.field{number}", kind="length")
            assert made.found(CRASH, [*others(2), last]) is finding
        assert finding.hits == HITS + WIDE
        assert not made.leaves_out(suspect(99, b"x", field="PUSH.field0", kind="length").case)
        assert made.leaves_out(suspect(99, b"bad").case)
        made.found(CRASH, [*others(2), suspect(98, b"bad"), *others(2, 5)])
        assert len(finding.causes) == 1


def test_known_findings_do_not_fail_and_are_gone_through_on_demand(run: Path, tmp_path: Path) -> None:
    text = (
        ENTRY.replace("some-node", "sick").replace("1.0.0-1.2.1", ">=1.0").replace("src/*.rs", "src/net/*.rs")
    )
    known = load(tmp_path, text)
    for through in (False, True):
        with triage_of(run / str(through), on(b"bad"), known, through=through) as made:
            for number in range(HITS):
                finding = made.found(CRASH, [suspect(number, b"bad")])
            assert finding.known == "ZF-1"
            assert not finding.fails
            assert finding.hits == HITS
            assert made.leaves_out(suspect(9, b"bad").case) is not through


# Making it smaller -----------------------------------------------------------------------------------


def test_nothing_is_lost_when_the_smaller_one_does_not_come_again(run: Path) -> None:
    def picky(calls: list[int]) -> Fault:
        def fault(heard: list[bytes]) -> Objection | None:
            calls.append(1)
            enough = 12 if len(calls) < 40 else 20
            return CRASH if any(b"bad" in one and len(one) >= enough for one in heard) else None

        return fault

    calls: list[int] = []
    with triage_of(run, picky(calls)) as made:
        finding = made.found(CRASH, [suspect(1, b"bad and quite a few bytes more")])
        first = finding.script
        made.minimise(finding, AMPLE)
        assert finding.minimised is not None
        assert finding.script.sends == 1
        assert finding.first == first
        assert finding.script.size >= 20


def test_what_shows_only_in_a_hurry_is_passed_over_and_what_is_left_of_the_time_is_used(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurries: list[bool] = []
    hurried = Lab.hurried

    @contextmanager
    def counted(lab: Lab) -> Iterator[None]:
        hurries.append(True)
        with hurried(lab):
            yield
        hurries.append(False)

    monkeypatch.setattr(Lab, "hurried", counted)

    def fault(heard: list[bytes]) -> Objection | None:
        enough = 9 if hurries and hurries[-1] else 14
        return STALL if any(b"bad" in one and len(one) >= enough for one in heard) else None

    with triage_of(run, fault) as made:
        finding = made.found(STALL, [suspect(1, b"bad and quite a few bytes more")])
        made.minimise(finding, AMPLE)
        assert finding.minimised is not None
        assert finding.script.size == 14
        assert finding.minimised.done
        assert finding.confirmed == (3, 3)
        assert hurries == [True, False]


def test_what_was_made_smaller_before_something_else_came_up_is_not_lost(run: Path) -> None:
    left = 20

    def stop() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    with triage_of(run, on(b"bad")) as made:
        finding = made.found(CRASH, [suspect(1, bytes(range(40, 90)) + b"bad" + bytes(range(100, 200)))])
        with pytest.raises(Stopped):
            made.minimise(finding, 20, stop)
        assert finding.minimised is None
        small = finding.smaller[-1]
        assert small.size < finding.script.size
        before = made._lab.tries
        made.minimise(finding, AMPLE)
        assert finding.script.size <= small.size
        # What was kept for this has served.
        assert not finding.smaller
        again = made._lab.tries - before
    with triage_of(run / "other", on(b"bad")) as made:
        other = made.found(CRASH, [suspect(1, bytes(range(40, 90)) + b"bad" + bytes(range(100, 200)))])
        before = made._lab.tries
        made.minimise(other, AMPLE)
        assert other.script == finding.script
        assert again < made._lab.tries - before


def test_smallest_of_the_cases_that_hit_it_is_tried_first(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[Script] = []
    play = Lab.play

    def noted(lab: Lab, script: Script, **how: Any) -> Tried:
        played.append(script)
        return play(lab, script, **how)

    hits = [
        suspect(2, b"a bad one among some"),
        suspect(3, b"and as bad a one, longer"),
        suspect(4, b"a bad one"),
    ]
    hits += [in_much(5, b"bad"), suspect(6, b"a bad one of a kind"), suspect(7, b"any bad one of them")]
    with triage_of(run, on(b"bad")) as made:
        finding = made.found(CRASH, [in_much(1, b"a bad one")])
        for hit in hits:
            assert made.found(CRASH, [hit]) is finding
        assert [script.size for script in finding.smaller] == sorted(
            (hits[index].alone.size for index in (2, 4, 5)), reverse=True
        )
        monkeypatch.setattr(Lab, "play", noted)
        made.minimise(finding, AMPLE)
        assert played[0] == hits[2].alone
        assert finding.script.size == len(b"bad")
        # Nothing is left to be made smaller.
        assert made.found(CRASH, [suspect(8, b"bad")]) is finding
        assert not finding.smaller


def test_a_smaller_case_stays_the_same_fault(run: Path) -> None:
    other = replace(CRASH, place="SIGABRT other/src/b.rs:7")

    def fault(heard: list[bytes]) -> Objection | None:
        if any(one.startswith(b"bad") for one in heard):
            return CRASH
        return other if any(b"b" in one for one in heard) else None

    with triage_of(run, fault) as made:
        finding = made.found(CRASH, [suspect(1, b"bad as ever")])
        made.minimise(finding, AMPLE)
        (step,) = [step for step in finding.script.steps if step.do is Do.SEND]
        assert str(step.data) == "{size}626164"
        assert finding.place == CRASH.place


def test_what_is_not_confirmed_is_left_as_it_is(run: Path) -> None:
    with triage_of(run, never) as made:
        finding = made.found(CRASH, others(2))
        made.minimise(finding, AMPLE)
        assert finding.minimised is None


def test_what_is_the_same_when_it_is_small_is_one_finding(run: Path) -> None:
    with triage_of(run, on(b"bad", SEGV)) as made:
        first = made.found(SEGV, [suspect(1, b"a bad one", message="PUSH")])
        second = made.found(SEGV, [suspect(2, b"another bad one", message="DECLARE", field="DECLARE.x")])
        made.found(SEGV, [suspect(3, b"another bad one", message="DECLARE", field="DECLARE.x")])
        assert len(made.findings) == 2
        told: list[tuple[int, int]] = []
        made.minimise_all(AMPLE, lambda number, count: told.append((number, count)))
        assert told == [(1, 2), (2, 2)]
        assert list(made.findings.values()) == [first]
        assert (first.hits, first.messages) == (3, {"PUSH", "DECLARE"})
        assert [(one.bucket, one.fails, one.hits, one.path) for one in made.merged] == [
            (second.bucket, False, 0, None)
        ]
        (folder,) = (run / "findings").iterdir()
        kept = Finding.load(folder)
        assert (kept.bucket, kept.hits) == (first.bucket, 3)
        page = (folder / README).read_text()
        assert second.bucket in page
        assert "PUT.data" in page
        assert "one fault or several" in page
        # Whatever it is met by: it is that one.
        tries = made._lab.tries
        assert made.found(SEGV, [suspect(4, b"bad", message="DECLARE", field="DECLARE.y")]) is first
        assert made._lab.tries == tries
        for number in range(HITS):
            made.found(SEGV, [suspect(10 + number, b"bad", message="DECLARE", field="DECLARE.x")])
        assert made.leaves_out(suspect(99, b"bad", message="DECLARE", field="DECLARE.x").case)


LONG = "a/" * 60
KEYS = {
    "D_TOKEN": Declare(body=DeclareToken(entity_id=1, key_suffix=LONG)),
    "PUSH": Push(key_suffix=LONG + "b", body=Put(data=b"x")),
    "INTEREST": Interest(
        mode=InterestMode.CURRENT, interest_id=1, tokens=1, restricted=1, key_suffix=LONG + "*"
    ),
}


def is_deep(one: bytes) -> bool:
    read = contents(one)
    return read.error is None and "FRAME " in read.names and one.count(b"/") >= 50


def of_key(number: int, message: str) -> Suspect:
    data = bytes(Frame(R=1, sn=1, messages=[KEYS[message]]))
    return suspect(number, data, message=message, field="key_suffix")


@pytest.mark.parametrize("order", [["D_TOKEN", "PUSH", "INTEREST"], ["INTEREST", "D_TOKEN", "PUSH"]])
def test_what_is_about_a_key_is_one_finding_whatever_carries_it(run: Path, order: list[str]) -> None:
    deep: Fault = lambda heard: SEGV if any(map(is_deep, heard)) else None  # noqa: E731
    with triage_of(run, deep) as made:
        for number, message in enumerate(order, 1):
            made.found(SEGV, [of_key(number, message)])
        assert len(made.findings) == 3
        played = [made._lab.tries]
        made.minimise_all(AMPLE, lambda *_: played.append(made._lab.tries))
        # The second is joined to the first as it is.
        assert played[1] < played[2] == played[3]
        # It has that name in every run, whichever message was met first.
        (name,) = made.findings
        finding = made.findings[name]
        assert name == finding.bucket == "crash SIGSEGV handshake key_suffix"
        assert finding.hits == 3
        assert finding.messages == set(order)
        assert finding.case_buckets == {f"crash SIGSEGV handshake {message}" for message in order}
        assert [path.name for path in (run / "findings").iterdir()] == ["crash-sigsegv-handshake-key-suffix"]
        assert Finding.load(run / "findings" / "crash-sigsegv-handshake-key-suffix").hits == 3
        assert all(not one.hits and not one.fails for one in made.merged)
        tries = made._lab.tries
        assert made.found(SEGV, [of_key(4, order[-1])]) is finding
        assert made._lab.tries == tries
    # A run that is resumed has it by that name too.
    with triage_of(run, deep) as again:
        again.found(SEGV, [of_key(5, "PUSH")])
        again.minimise_all(20, lambda *_: None)
        assert [(one.bucket, one.before + one.hits) for one in again.findings.values()] == [(name, 5)]


@pytest.mark.parametrize(("hits", "left"), [(2, 1), (0, 2)])
@pytest.mark.parametrize("seldom", ["D_TOKEN", "PUSH"])
def test_what_comes_too_seldom_to_be_made_smaller_joins_what_is_about_its_field(
    run: Path, seldom: str, hits: int, left: int
) -> None:
    deep: Fault = lambda heard: SEGV if any(map(is_deep, heard)) else None  # noqa: E731
    with triage_of(run, deep) as made:
        for number, message in enumerate(["D_TOKEN", "PUSH"], 1):
            finding = made.found(SEGV, [of_key(number, message)])
            if message == seldom:
                finding.status, finding.confirmed = SEEN, (hits, 5)
        made.minimise_all(AMPLE, lambda *_: None)
        assert len(made.findings) == left
        assert made.findings["crash SIGSEGV handshake key_suffix"].hits == (2 if left == 1 else 1)


@pytest.mark.parametrize("keys", [True, False])
def test_what_nobody_could_lay_on_a_case_is_called_by_what_shows_it_later(run: Path, *, keys: bool) -> None:
    deep: Fault = lambda heard: SEGV if any(map(is_deep, heard)) else None  # noqa: E731
    fault = Changing(never)
    last = of_key(6, "PUSH") if keys else suspect(6, SHORT, message="PUSH")
    with triage_of(run, fault) as made:
        made.take(SEGV, [*others(5), last], AMPLE)
        made.finish(AMPLE)
        assert list(made.findings) == ["crash SIGSEGV ?"]
        fault.fault = (
            deep
            if keys
            else lambda heard: SEGV if any("QUERY" in contents(one).names for one in heard) else None
        )
        (finding,) = made.findings.values()
        finding.vain = None
        if keys:
            made.found(SEGV, [of_key(7, "D_TOKEN")])
        made.minimise_all(AMPLE, lambda *_: None)
        (kept,) = made.findings.values()
        words = "key_suffix" if keys else "QUERY"
        assert (kept.bucket, kept.hits) == (f"crash SIGSEGV handshake {words}", 1 + keys)
        assert (kept.state, kept.script.sends, bool(kept.message)) == ("connected", 1, True)
        assert "crash SIGSEGV ?" in kept.case_buckets
    assert [path.name for path in (run / "findings").iterdir()] == [
        f"crash-sigsegv-handshake-{words.lower().replace('_', '-')}"
    ]


SHORT = bytes(Frame(R=1, sn=1, messages=[Request(request_id=1, key_suffix="a", body=Query())]))


def test_what_is_in_fragments_is_called_by_its_message_where_it_needs_no_fragments(run: Path) -> None:
    raw = bytes(Request(request_id=1, key_suffix="a", body=Query()))
    steps = send("size", b"\x66", "sn", raw[:2]), send("size", b"\x26", "sn", raw[2:])
    script = Script((Step(Do.REACH, "a", State.CONNECTED), *steps))
    assert names_in(script) == {"FRAGMENT", "REQUEST", "QUERY"}

    def fault(heard: list[bytes]) -> Objection | None:
        read = [contents(one) for one in heard]
        parts = (one for batch in read for one in batch.messages if isinstance(one, Fragment))
        inside = contents(b"".join(bytes(one.data) for one in parts), Kind.NETWORK)
        return SEGV if any("QUERY" in one.names for one in [*read, inside]) else None

    with triage_of(run, fault) as made:
        made.found(SEGV, [replace(suspect(1, b"x", message="FRAGMENT"), steps=steps, script=script)])
        made.minimise_all(AMPLE, lambda *_: None)
        (finding,) = made.findings.values()
        assert (finding.bucket, finding.script.sends) == ("crash SIGSEGV handshake QUERY", 1)


@pytest.mark.parametrize(
    ("sent", "same"),
    [
        (send("size", bytes(Frame(R=1, sn=0))[:1], "sn", bytes(Interest(interest_id=1))), True),
        (send("size", bytes(KeepAlive())), False),
    ],
)
def test_what_a_frame_alone_brings_about_is_not_about_what_was_in_it(sent: Step, same: bool) -> None:
    opened = reach(State.OPEN, "a")
    alone = Script((opened, send("size", bytes(Frame(R=1, sn=0))[:1], "sn")))
    assert _same_kind(alone, Script((opened, sent)), STALL) is same
    # One that says where it failed is told apart by that.
    assert _same_kind(alone, Script((opened, sent)), PANIC)


@pytest.mark.parametrize("message", ["D_TOKEN", "PUSH"])
def test_what_is_called_by_its_field_is_known_by_it(run: Path, tmp_path: Path, message: str) -> None:
    entry = ENTRY.replace('impl = "some-node"', 'impl = "sick"').replace("1.0.0-1.2.1", "1.2.3")
    entry = entry.replace('place = "SIGABRT some-crate/src/*.rs"\nmessage = "PUSH"', 'about = "key_suffix"')
    deep: Fault = lambda heard: SEGV if any(map(is_deep, heard)) else None  # noqa: E731
    with triage_of(run, deep, load(tmp_path, entry)) as made:
        assert made.found(SEGV, [of_key(1, message)]).fails
        made.minimise_all(AMPLE, lambda *_: None)
        (finding,) = made.findings.values()
        assert (finding.known, finding.fails) == ("ZF-1", False)
        assert finding.path is not None
    there = Finding.load(finding.path)
    assert (there.known, there.about) == ("ZF-1", "key_suffix")


@pytest.mark.parametrize("order", [["D_TOKEN", "OAM"], ["OAM", "D_TOKEN"], ["OAM"]])
def test_what_is_sent_names_a_finding_and_not_what_its_case_was_to_lie_about(
    run: Path, order: list[str]
) -> None:
    def fault(heard: list[bytes]) -> Objection | None:
        read = map(contents, heard)
        return SEGV if any("D_TOKEN" in one.names.split() and one.error is None for one in read) else None

    name = "crash SIGSEGV handshake D_TOKEN"
    with triage_of(run, fault) as made:
        for number, message in enumerate(order, 1):
            # The ids differ, so the smallest scripts do.
            body = Declare(body=DeclareToken(entity_id=10 * number, key_suffix="a"))
            data = bytes(Frame(R=1, sn=1, messages=[body]))
            made.found(SEGV, [suspect(number, data, message=message, field=f"{message}.mid")])
        assert len(made.findings) == len(order)
        made.minimise_all(AMPLE, lambda *_: None)
        (finding,) = made.findings.values()
        assert (finding.bucket, finding.message, finding.hits) == (name, "D_TOKEN", len(order))
        assert "crash SIGSEGV handshake OAM" in finding.case_buckets
        assert [one.hits for one in made.merged] == [0]
        assert [path.name for path in (run / "findings").iterdir()] == ["crash-sigsegv-handshake-d-token"]
        assert made.found(SEGV, [suspect(9, data, message="OAM", field="OAM.mid")]) is finding


@pytest.mark.parametrize("early", [True, False])
def test_the_graver_of_two_that_are_one_is_kept(run: Path, *, early: bool) -> None:
    pause = Objection("pause", Harm.PAUSE, "", "it took a while")

    def fault(heard: list[bytes]) -> Objection | None:
        if not any(map(is_deep, heard)):
            return None
        return STALL if any(one[2:3] == b"\x1e" for one in heard) else pause

    with triage_of(run, fault) as made:
        made.found(pause, [of_key(1, "PUSH")])
        if early:
            # A long campaign makes some smaller while it goes on.
            made.minimise_all(20, lambda *_: None)
        made.found(STALL, [of_key(2, "D_TOKEN")])
        made.minimise_all(AMPLE, lambda *_: None)
        assert list(made.findings) == ["stall handshake key_suffix"]
        gone = "pause handshake key_suffix" if early else "pause handshake PUSH"
        assert gone in made.findings["stall handshake key_suffix"].notes[-1]


def test_what_a_node_took_from_a_zid_is_played_as_it_was_sent(run: Path) -> None:
    """ZenohIDs are drawn anew for each link: what a node reads as a length there comes again by chance only."""
    drawn = bytes(range(200, 216))
    steps = (send("size", b"head", "zid", b"tail"),)
    case = suspect(7, b"x").numbered
    guilty = Suspect(
        case,
        steps,
        Script((Step(Do.REACH, "a", State.CONNECTED), *steps)),
        7,
        State.CONNECTED,
        Played(Ending.ACCEPTED, sent=[prefixed(b"head" + drawn + b"tail")]),
    )
    with triage_of(run, on(b"head" + drawn)) as made:
        finding = made.found(CRASH, [*others(20), guilty, *others(20, 30)])
        assert (finding.case, finding.status) == (7, CONFIRMED)
        made.minimise(finding, AMPLE)
        assert finding.script.size <= 2 + 4 + 16


@pytest.mark.parametrize(
    ("pieces", "times", "sent"),
    [
        (("size", b"head", "cookie"), 1, [b"x"]),
        (("size", b"head", "zid"), 2, [b"x", b"y"]),
        (("size", b"head", "zid"), 1, []),
    ],
)
def test_what_a_link_learns_or_counts_is_never_played_as_it_was_sent(
    pieces: tuple[bytes | str, ...], times: int, sent: list[bytes]
) -> None:
    one = suspect(1, b"x")
    steps = (replace(send(*pieces), times=times),)
    case = replace(one, steps=steps, played=Played(sent=sent))
    assert case.as_sent == case.alone


def test_what_computes_for_long_is_laid_on_what_stalls_a_node_when_it_is_done_often(run: Path) -> None:
    busy = Objection("cpu", Harm.BUSY, "cpu", "the process takes 98% of a processor")
    assert akin(busy, STALL)
    assert not akin(busy, CRASH)
    assert not akin(STALL, busy)
    with triage_of(run, lambda heard: STALL if heard.count(b"x") >= 3 else None) as made:
        finding = made.found(busy, [*others(5), suspect(6, b"x")])
        assert (finding.harm, finding.case) == (Harm.STALL, 6)


def test_slowness_is_laid_on_the_group_that_makes_a_node_slowest(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pace(seat: Seat) -> float:
        assert isinstance(seat.stage, SickStage)
        return 0.001 + 0.00002 * sum(b"slow" in one for one in seat.stage.sick.heard)

    monkeypatch.setattr(Seat, "_pace", pace)
    # Too short for a group to be slow by itself.
    monkeypatch.setattr(attribution, "GROUP_SECONDS", 0.001)
    # Enough for a case, however long that takes.
    monkeypatch.setattr(attribution, "ROUNDS", 400)
    monkeypatch.setattr(attribution, "SLOW_SECONDS", AMPLE)
    slow = Objection("time", Harm.SLOW, "", "an answer takes 20 ms")
    cases = [suspect(number, b"%d" % number, kind=f"kind {number}") for number in range(30)]
    cases[17] = suspect(17, b"slow", message="DEL")
    with triage_of(run, never) as made:
        finding = made.found(slow, cases)
        assert (finding.bucket, finding.case, finding.status) == ("slow handshake DEL", 17, CONFIRMED)


def test_what_took_long_to_show_is_given_longer_when_it_is_tried_again(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attribution, "ROUNDS", 40)
    play, given = Lab.play, list[float]()
    play_beside, beside = Lab.play_beside, list[float]()

    def side_by_side(lab: Lab, *script: Any, **options: Any) -> list[Tried]:
        beside.append(options["seconds"])
        return play_beside(lab, *script, **options)

    def slowly(lab: Lab, script: Script, **options: Any) -> Tried:
        given.append(options.get("seconds", 0.0))
        tried = play(lab, script, **options)
        tried.seconds = 10.0
        return tried

    monkeypatch.setattr(Lab, "play", slowly)
    monkeypatch.setattr(Lab, "play_beside", side_by_side)
    with triage_of(run, lambda heard: GROWTH if sum(b"grow" in one for one in heard) >= 30 else None) as made:
        finding = made.found(GROWTH, [suspect(6, b"to grow")])
        assert finding.status == CONFIRMED
        assert given[-1] == 20.0
        made.minimise(finding, AMPLE)
        assert 12.5 in given
        assert beside[0] == 20.0


def test_processor_that_does_not_come_to_rest_is_laid_on_one_of_many_cases_in_time(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = Objection("cpu", Harm.BUSY, "cpu", "the process takes 98% of a processor")

    def examine(doctor: Doctor, when: When, *_: object) -> Objection | None:
        # Whether a process has come to rest is asked by thorough looks only.
        heard = doctor.node.listen()
        return busy if when is When.TREND and any(b"spin" in one for one in heard) else None

    monkeypatch.setattr(Doctor, "examine", examine)
    # There is time for one round.
    monkeypatch.setattr(attribution, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(attribution, "GROUP_SECONDS", 60.0)
    with triage_of(run, never) as made:
        cases = [suspect(number, b"%d" % number, kind=f"kind {number}") for number in range(200)]
        cases[91] = suspect(91, b"spin", message="DEL")
        finding = made.found(busy, cases, time.monotonic() + 40)
        assert (finding.bucket, finding.case, finding.status) == ("busy cpu handshake DEL", 91, CONFIRMED)
        assert finding.rounds == 2


def test_what_is_known_to_kill_a_process_is_tried_before_an_innocent_case_is_tried_again_and_again(
    run: Path,
) -> None:
    with triage_of(run, on(b"bad", SEGV)) as made:
        made.found(SEGV, [suspect(1, b"bad", message="DEL")])
        before, tries = suspect(8, b"bad too", message="DEL", kind="more"), made._lab.tries
        made.take(SEGV, [suspect(9, b"innocent", kind="other")], 30, [*others(6, 2), before])
        made.finish(AMPLE)
        assert [(name, one.hits) for name, one in made.findings.items()] == [
            ("crash SIGSEGV handshake DEL", 2)
        ]
        assert made._lab.tries - tries == 2


def test_what_differs_when_it_is_small_stays_apart(run: Path) -> None:
    def fault(heard: list[bytes]) -> Objection | None:
        return SEGV if any(b"bad" in one or b"odd" in one for one in heard) else None

    with triage_of(run, fault) as made:
        made.found(SEGV, [suspect(1, b"a bad one", message="PUSH")])
        made.found(SEGV, [suspect(2, b"an odd one", message="DECLARE")])
        made.minimise_all(AMPLE, lambda *_: None)
        assert len(made.findings) == 2
        # They are only called by what their bytes are.
        assert all("what was sent decodes as" in one.detail for one in made.merged)


def test_what_is_placed_is_about_the_message_that_is_left_when_it_is_small(run: Path) -> None:
    keep_alive = bytes(KeepAlive()) * 3
    with triage_of(run, on(keep_alive, PANIC)) as made:
        finding = made.found(PANIC, [suspect(1, b"\x1e\x26" + keep_alive, message="D_TOKEN")])
        bucket = finding.bucket
        assert finding.message == "D_TOKEN"
        made.minimise_all(AMPLE, lambda *_: None)
        assert (finding.message, finding.field, finding.bucket) == ("KEEP_ALIVE", "", bucket)
        assert finding.path is not None
        assert Finding.load(finding.path).message == "KEEP_ALIVE"


def test_findings_made_smaller_beside_the_campaign_are_joined_there(run: Path) -> None:
    with triage_of(run, on(b"bad", SEGV), minimising=20) as made:
        made.take(SEGV, [suspect(1, b"a bad one")], AMPLE)
        made.take(SEGV, [suspect(2, b"another bad one", message="REQUEST", field="REQUEST.id")], AMPLE)
        while made.open:
            made.collect(wait=True)
        while made._large or made._small is not None:
            made.collect()
            if made._small is not None:
                made._small.result(30)
        assert len(made.findings) == 1
        assert made.merged


def test_places_of_one_kind_of_message_are_never_joined(run: Path) -> None:
    other = replace(CRASH, place=CRASH.place.replace("face", "hat"))
    with triage_of(
        run, lambda heard: CRASH if b"one" in heard else other if b"two" in heard else None
    ) as made:
        made.found(CRASH, [suspect(1, b"one")])
        made.found(other, [suspect(2, b"two")])
        made.minimise_all(5, lambda *_: None)
        assert len(made.findings) == 2
        assert all("one fault or several" not in str(one.notes) for one in made.findings.values())


# What two nodes answer differently ---------------------------------------------------------------------

DIFFERS = Objection("differs", Harm.DIFFERS, "closed / accepted", "two nodes answer differently")


@pytest.mark.parametrize(
    ("shows", "status", "confirmed"),
    [
        ([DIFFERS] * 3, CONFIRMED, (3, 3)),
        ([DIFFERS, None, DIFFERS, DIFFERS], CONFIRMED, (3, 4)),
        ([None] * 3, FLAKY, (0, 3)),
        ([replace(DIFFERS, place="silent / accepted")] * 3, FLAKY, (0, 3)),
        ([CRASH] * 3, FLAKY, (0, 3)),
    ],
)
@pytest.mark.parametrize("behind_it", [False, True])
def test_what_two_nodes_answer_differently_is_tried_again_on_fresh_ones(
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    shows: list[Objection | None],
    status: str,
    confirmed: tuple[int, int],
    behind_it: bool,
) -> None:
    seen = iter(shows)
    one = suspect(1, b"x")
    ran = proofs_of(monkeypatch, fails=True)
    monkeypatch.setattr(Lab, "compares", True)
    monkeypatch.setattr(Lab, "compare", lambda _, script: Tried(script, next(seen)))
    with triage_of(run, lambda _: None) as made:
        made.take(DIFFERS, [one], 0.0)
        while made.open:
            made.collect(wait=True)
        (finding,) = made.findings.values()
        assert finding.status == OPEN
        assert finding.script == one.alone
        if behind_it:
            made.finish(0)
            made.minimise_all(0.0, lambda *_: None)
        else:
            made.collect()
            assert made._small is not None
            made._small.result(timeout=600)
        assert (finding.status, finding.confirmed) == (status, confirmed)
        assert finding.fails == (status == CONFIRMED)
        assert finding.path is not None
        assert (finding.path / README).exists()
        assert not (finding.path / TEST).exists()
        assert not ran
        made.finish(0)
    assert Finding.load(finding.path).status == status


def test_difference_counts_all_cases_of_its_class_and_of_no_other(run: Path) -> None:
    one = suspect(1, b"x")
    state, message = str(one.state), one.case.message
    counts = {
        (state, message, "closed / accepted"): 7,
        (state, message, "silent / accepted"): 5,
        (state, "another", "closed / accepted"): 3,
    }
    with triage_of(run, lambda _: None) as made:
        made.take(DIFFERS, [one], 0.0)
        made.found(CRASH, [suspect(2, b"y")])
        made.finish(0)
        made.compared(counts)
        hits = {finding.harm: finding.hits for finding in made.findings.values()}
        assert hits == {Harm.DIFFERS: 7, Harm.CRASH: 1}
        assert all(Finding.load(one.path).hits == one.hits for one in made.findings.values() if one.path)


def test_time_that_it_takes_to_make_others_smaller_is_not_that_for_comparing(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, ahead = time.monotonic, [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now() + sum(ahead))
    monkeypatch.setattr("fuzz.triage.triage.minimise", lambda *_: ahead.append(2 * triage.COMPARE_SECONDS))
    monkeypatch.setattr(Lab, "compares", True)
    monkeypatch.setattr(Lab, "compare", lambda _, script: Tried(script))
    with triage_of(run, on(b"bad")) as made:
        made.found(CRASH, [suspect(1, b"bad")])
        made.take(DIFFERS, [suspect(2, b"x")], 0.0)
        made.finish(0)
        made.minimise_all(AMPLE, lambda *_: None)
        crash, differs = made.findings.values()
        assert (crash.status, differs.status, differs.fails) == (CONFIRMED, FLAKY, False)


def test_what_there_is_no_time_to_compare_was_seen_all_the_same(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lab, "compares", True)
    monkeypatch.setattr("fuzz.triage.triage.COMPARE_SECONDS", -1.0)
    with triage_of(run, lambda _: None) as made:
        made.take(DIFFERS, [suspect(1, b"x")], 0.0)
        made.finish(0)
        made.minimise_all(0.0, lambda *_: None)
        (finding,) = made.findings.values()
    assert (finding.status, finding.confirmed, finding.fails) == (SEEN, (0, 0), True)
    assert finding.path is not None
    assert "it was not retried" in (finding.path / README).read_text()
    assert not (finding.path / CAPTURE).exists()
