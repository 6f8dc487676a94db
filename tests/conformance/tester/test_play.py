"""Scripts that are played: two ends of ours in one loop, a real node, and scripts that were cut down."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from conformance.errors import LinkFailed
from conformance.nodes.places import free_port
from conformance.nodes.pypi import PypiNode
from conformance.tester import Script, SessionEnd, Tester, bends, play, steps
from conformance.tester.said import Said
from conformance.tester.steps import Step
from conformance.tester.values import ScriptError
from scapy_layers.codes import CloseReason
from scapy_layers.data import Put, Query
from scapy_layers.network import Push, Request, ResponseFinal
from scapy_layers.transport import Close, Frame, Init, KeepAlive, Open
from tests.conformance.tester._pairs import lone_tester


@pytest.fixture
def tester() -> Iterator[Tester]:
    with lone_tester() as made:
        yield made


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PypiNode]:
    with PypiNode(tmp_path_factory.mktemp("nodes")) as running:
        yield running


@pytest.fixture
def real(node: PypiNode, request: pytest.FixtureRequest) -> Iterator[Tester]:
    # ZenohIDs of its own: the node may still be closing the sessions of the test before.
    made = Tester(node.locator, random.Random(request.node.name))
    yield made
    made.close()


def put(key: str, data: bytes = b"1") -> Said:
    return Said.of(Push(key_suffix=key, body=Put(data=data)))


def opened(*more: Step, port: int = 0, **offer: object) -> Script:
    """Returns a script that opens a session between two ends of ours, and goes on."""
    where = f"tcp/127.0.0.1:{port}"
    return Script(
        steps=(
            steps.Listen(link="in", locator=where),
            steps.Parallel(
                groups=(
                    (steps.Session(link="a", locator=where, offer=dict(offer)),),
                    (
                        steps.Accept(link="b", listener="in", offer=dict(offer)),
                        steps.Handshake(link="b", part="serve"),
                    ),
                )
            ),
            *more,
        )
    )


@pytest.fixture
def port() -> int:
    """Returns a port that nobody else takes."""
    return free_port("tcp")


def test_session_between_two_links_of_a_script(tester: Tester, port: int) -> None:
    script = opened(
        steps.Post(link="a", messages=(put("t/a", b"hello"),)),
        steps.Expect(link="b", message="Push", fields={"key": "t/a"}),
        steps.Close(link="a", reason=2),
        steps.Expect(link="b", message="Close", fields={"reason": 2}),
        steps.ExpectEnd(link="b"),
        port=port,
    )
    played = play(tester, Script.from_json(script.to_json()))
    assert played.met, played.failure
    assert played.skipped == []
    assert [message.name for message in played.came("b")] == ["INIT", "OPEN", "FRAME", "PUSH", "CLOSE"]
    assert played.done == len(list(script.walk()))


def test_every_step_of_both_sides_alone(tester: Tester, port: int) -> None:
    where = f"tcp/127.0.0.1:{port}"
    parts: list[tuple[str, str, dict[str, Any]]] = [
        ("a", "init", {}),
        ("b", "take_init_syn", {"version": 9}),
        ("b", "init_ack", {"cookie": {"hex": "c0ffee"}}),
        ("a", "take_init_ack", {"cookie": {"hex": "c0ffee"}}),
        ("a", "open_syn", {"lease": 3}),
        ("b", "take_open_syn", {"cookie": {"hex": "c0ffee"}, "lease": 3}),
        ("b", "open_ack", {}),
        ("a", "take_open_ack", {}),
    ]
    steps_: list[Step] = [
        steps.Listen(link="in", locator=where),
        steps.Start(link="a", locator=where),
        steps.Accept(link="b", listener="in"),
        *(steps.Handshake(link=link, part=part, fields=fields) for link, part, fields in parts),
        steps.Post(link="b", messages=(put("x"),)),
        steps.Expect(link="a", message="Push"),
    ]
    played = play(tester, Script(steps=tuple(steps_)))
    assert played.met, played.failure


def test_expectation_that_is_not_met_ends_the_script(tester: Tester, port: int) -> None:
    script = opened(
        steps.Post(link="a", messages=(put("t/a"),)),
        steps.Expect(link="b", message="Push", fields={"key": "t/b"}, within=0.1),
        steps.Note(text="never reached"),
        port=port,
    )
    played = play(tester, script)
    assert not played.met
    assert played.failure is not None
    assert played.failure.path == (3,)
    assert str(played.failure) == "step 4: expected PUSH key='t/b', seen PUSH key='t/a'"
    notes = [note for seen in tester.history.observations for note in tester.history.notes(seen.seq)]
    assert str(played.failure) in notes
    assert "never reached" not in notes


def test_message_with_other_fields_is_passed_over_only_when_the_step_says_so(
    tester: Tester, port: int
) -> None:
    def script(*, passing: bool) -> Script:
        wanted = steps.Expect(link="b", message="Push", fields={"key": "t/b"}, passing=passing)
        said = (steps.Post(link="a", messages=(put("t/a"),)), steps.Post(link="a", messages=(put("t/b"),)))
        return opened(*said, wanted, port=port)

    assert play(tester, script(passing=True)).met
    with lone_tester() as other:
        tester.close()
        assert not play(other, script(passing=False)).met


def test_nothing_forbidden_comes_before_the_fence(real: Tester) -> None:
    def script(*forbidden: str) -> Script:
        return Script(
            steps=(
                steps.Session(link="sub"),
                steps.Session(link="pub"),
                steps.Post(
                    link="sub",
                    messages=(
                        Said(
                            layer="Declare",
                            fields={
                                "body": {
                                    "layer": "DeclareSubscriber",
                                    "fields": {"entity_id": 1, "key_suffix": "t/**"},
                                }
                            },
                        ),
                    ),
                ),
                steps.Fence(link="sub"),
                steps.ExpectNothing(
                    link="sub",
                    messages=forbidden,
                    fence=(
                        steps.Post(link="pub", messages=(put("t/a"),)),
                        steps.Fence(link="pub"),
                        steps.Fence(link="sub"),
                    ),
                ),
            )
        )

    assert play(real, script("Close")).met
    played = play(real, script("Push"))
    assert played.failure is not None
    assert played.failure.expected == "no PUSH before the fence's answer"


def test_handshake_by_hand_with_a_real_node(real: Tester) -> None:
    script = Script(
        steps=(
            steps.Connect(link="a"),
            steps.Send(link="a", messages=(Said(layer="Init", fields={"zid": {"live": "zid"}}),)),
            steps.Expect(link="a", message="Init", fields={"A": 1}),
            steps.Send(link="a", messages=(Said(layer="Open", fields={"cookie": {"live": "cookie"}}),)),
            steps.Expect(link="a", message="Open", fields={"A": 1}),
            steps.Send(link="a", messages=(Said.of(Close()),)),
            steps.ExpectEnd(link="a"),
        )
    )
    for _ in range(2):
        played = play(real, script)
        assert played.met, played.failure


def test_groups_of_a_parallel_step_go_on_side_by_side(
    tester: Tester, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    def select(seconds: float) -> list[object]:
        slept.append(seconds)
        return []

    # Nothing but what is slept for takes time.
    monkeypatch.setattr(tester.links._selector, "select", select)
    monkeypatch.setattr(time, "monotonic", lambda: sum(slept))
    pause = tuple((steps.Advance(seconds=0.5), steps.Note(text=str(number))) for number in range(3))
    nested = steps.Parallel(groups=(steps.Parallel(groups=pause).groups[0], pause[1]))
    played = play(tester, Script(steps=(steps.Parallel(groups=(*pause, (nested,))),)))
    assert played.met
    assert sum(slept) == pytest.approx(0.5)


def test_waiting_group_does_not_hold_up_the_one_it_waits_for(tester: Tester, port: int) -> None:
    script = opened(
        steps.Parallel(
            groups=(
                (steps.Expect(link="b", message="Push"), steps.Post(link="b", messages=(put("back"),))),
                (
                    steps.Advance(seconds=0.05),
                    steps.Post(link="a", messages=(put("there"),)),
                    steps.Expect(link="a", message="Push", fields={"key": "back"}),
                ),
            )
        ),
        port=port,
    )
    played = play(tester, script)
    assert played.met, played.failure


def test_failure_in_one_group_ends_the_others(tester: Tester, port: int) -> None:
    started = time.monotonic()
    script = opened(
        steps.Parallel(
            groups=(
                (steps.Advance(seconds=30.0),),
                (steps.Expect(link="b", message="Push", within=0.05),),
            )
        ),
        port=port,
    )
    played = play(tester, script)
    assert played.failure is not None
    assert played.failure.path == (2, 1, 0)
    assert time.monotonic() - started < 10


def test_choice_depends_on_the_seed_and_on_nothing_else() -> None:
    options = tuple((steps.Note(text=f"option {number}"),) for number in range(5))

    def chosen(script: Script) -> str:
        with lone_tester() as made:
            made.listen()
            made.link(made.listen().locator)
            play(made, script)
            seen = made.history.observations
            return next(
                text for one in seen for text in made.history.notes(one.seq) if text.startswith("option")
            )

    choice = steps.Choose(options=options)
    first = [chosen(Script(steps=(choice,), seed=seed)) for seed in range(12)]
    assert len(set(first)) > 1
    # Another step in front, and another choice: this one stays as it was.
    before = (steps.Note(text="x"), steps.Choose(options=((steps.Note(text="y"),), ())))
    assert first == [chosen(Script(steps=(*before, choice), seed=seed)) for seed in range(12)]


def test_bends_of_a_script_are_seen_at_the_other_end(tester: Tester, port: int) -> None:
    script = opened(
        steps.Bend(link="a", bend=bends.changed(Put, data=b"bent")),
        steps.Bend(bend=bends.dropped(KeepAlive)),
        steps.Post(link="a", messages=(put("t"),)),
        steps.Expect(link="b", message="Push"),
        port=port,
    )
    played = play(tester, Script.from_json(script.to_json()))
    assert played.met, played.failure
    assert played.came("b")[-1].body.data == b"bent"


def test_bytes_are_held_cut_and_let_go_by_a_script(tester: Tester, port: int) -> None:
    script = opened(
        steps.Chunk(link="a", sizes=(1,)),
        steps.Hold(link="a"),
        steps.Post(link="a", messages=(put("t"),)),
        steps.Release(link="a", count=2),
        steps.Advance(seconds=0.05),
        steps.Release(link="a"),
        steps.Expect(link="b", message="Push"),
        steps.Raw(link="a", hex="0500", comment="the length of a batch that never comes"),
        steps.HalfClose(link="a"),
        steps.ExpectEnd(link="b"),
        steps.Abort(link="b"),
        steps.EndLink(link="in"),
        port=port,
    )
    played = play(tester, script)
    assert played.met, played.failure


def test_scouting_and_groups_in_a_script(tester: Tester) -> None:
    from tests.conformance.tester.test_scout import free_group, locator_of

    scouting, transport = locator_of(free_group()), locator_of(free_group())
    script = Script(
        steps=(
            steps.OpenResponder(link="r", locator=scouting, answers=("tcp/127.0.0.1:7447",)),
            steps.OpenScout(link="s", locator=scouting),
            steps.Send(link="s", messages=(Said(layer="Scout", fields={"what": 1}),)),
            steps.Expect(link="s", message="Hello", fields={"L": 1}),
            steps.Answer(link="r", fields={"whatami": 1}),
            steps.Expect(link="s", message="Hello", fields={"whatami": 1}),
            steps.ExpectNothing(link="s", messages=("Hello",), fence=(steps.Fence(link="s"),)),
            steps.OpenGroup(link="g", locator=transport),
            steps.OpenGroup(link="h", locator=transport, join=False),
            steps.Handshake(link="h", part="join"),
            steps.Expect(link="g", message="Join"),
            steps.Post(link="h", messages=(put("t"),)),
            steps.Expect(link="g", message="Push", fields={"key": "t"}),
            steps.Handshake(link="h", part="leave", fields={"reason": 3}),
            steps.Expect(link="g", message="Close", fields={"reason": 3}),
            steps.Close(link="g"),
            steps.Close(link="r"),
        )
    )
    played = play(tester, Script.from_json(script.to_json()))
    assert played.met, played.failure


# Steps that have no meaning where they stand -------------------------------------------------------------


def test_step_on_a_link_that_is_not_there_is_an_error(tester: Tester) -> None:
    with pytest.raises(ScriptError, match="step 1: there is no link 'a'"):
        play(tester, Script(steps=(steps.Fence(link="a"),)))


def test_leniently_such_a_step_is_passed_over_with_a_note(tester: Tester) -> None:
    script = Script(steps=(steps.Listen(link="in"), steps.Connect(link="a"), steps.Fence(link="a")))
    with pytest.raises(LinkFailed):
        play(tester, script)
    played = play(tester, script, lenient=True)
    assert played.met
    assert [(one.path, type(one.step)) for one in played.skipped] == [
        ((1,), steps.Connect),
        ((2,), steps.Fence),
    ]
    assert played.skipped[1].why == "there is no link 'a'"


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (steps.Listen(link="in"), "there is a link 'in' already"),
        (steps.Post(link="in", messages=(put("t"),)), "'in' has no session"),
        (steps.Fence(link="in"), "'in' is no session"),
        (steps.Expect(link="in", message="Push"), "'in' is a listener"),
        (steps.Raw(link="in", hex="00"), "'in' is no link"),
        (steps.Handshake(link="in", part="init"), "'in' is no session"),
        (steps.Handshake(link="in", part="join"), "'in' is no"),
        (steps.Answer(link="in"), "'in' is no responder"),
        (steps.Bend(link="in", bend=bends.dropped(KeepAlive)), "'in' has no session"),
    ],
)
def test_step_on_a_link_of_another_kind_has_no_meaning(tester: Tester, step: Step, why: str) -> None:
    script = Script(steps=(steps.Listen(link="in"), step))
    with pytest.raises(ScriptError, match=why):
        play(tester, script)
    with lone_tester() as other:
        played = play(other, script, lenient=True)
        assert [one.step for one in played.skipped] == [step]


def test_each_step_can_be_taken_out_of_a_script_that_is_played_leniently(port: int) -> None:
    whole = opened(
        steps.Post(link="a", messages=(put("t/a"),)),
        steps.Expect(link="b", message="Push"),
        steps.Send(link="a", messages=(Said(layer="Frame", fields={"sn": {"live": "sn"}}),)),
        steps.Handshake(link="a", part="open_syn"),
        steps.Close(link="a"),
        port=port,
    )
    for path, step in whole.walk():
        with lone_tester(reply=0.05) as made:
            played = play(made, whole.without(path), lenient=True)
            assert played.met or played.failure is not None, step
            # The tester still works: the steps have left it in order.
            end = made.link(made.listen().locator)
            end.close()


def test_message_of_a_session_must_be_a_network_message(tester: Tester, port: int) -> None:
    bad = Said(hex=bytes(KeepAlive()).hex())
    with pytest.raises(ScriptError, match="network message"):
        play(tester, opened(steps.Post(link="a", messages=(bad,)), port=port))


# Recorded ----------------------------------------------------------------------------------------------------


def test_what_a_tester_does_is_written_down_and_played_again(node: PypiNode) -> None:
    with lone_tester() as tester:
        tester.locator = node.locator
        with tester.recording() as journal:
            subscriber, publisher = tester.session(qos=True), tester.session()
            subscriber.declare_subscriber("t/**")
            publisher.bend(bends.changed(Put, data=b"bent"))
            publisher.put("t/a", b"1")
            subscriber.expect(Push, key="t/a")

            def both() -> None:
                publisher.fence()
                subscriber.fence()

            subscriber.expect_nothing(Push, fence=both)
            link = tester.link()
            link.send(tester.init())
            link.expect(Init, A=1)
            link.send(b"\xff")
            link.expect_refusal(CloseReason.INVALID, unless=Open)
            link.expect_end()
            publisher.close()
        script = journal.script("recorded")
    kinds = [type(step).__name__ for step in script.steps]
    assert kinds == [
        *("Start", "Handshake", "Start", "Handshake"),
        *("Post", "Fence", "Bend", "Post", "Expect", "ExpectNothing"),
        *("Connect", "Send", "Expect", "Send", "ExpectRefusal", "ExpectEnd", "Close"),
    ]
    # FRAMEs with numbers of a test's own go by the first one.
    assert all(step.initial_sn is not None for step in script.steps if isinstance(step, steps.Start))
    nothing = next(step for step in script.steps if isinstance(step, steps.ExpectNothing))
    assert nothing.fence == (steps.Fence(link="b"), steps.Fence(link="a"))
    again = Script.from_json(script.to_json())
    assert again == script
    with lone_tester(seed=2) as other:
        other.locator = node.locator
        played = play(other, again)
        assert played.met, played.failure
        assert isinstance(played.ends["a"], SessionEnd)


def test_what_was_taken_from_a_message_is_taken_anew_when_played(node: PypiNode) -> None:
    with lone_tester() as tester:
        tester.locator = node.locator
        with tester.recording() as journal:
            link = tester.link()
            link.send(tester.init())
            ack = link.expect(Init, A=1)
            link.send(Open(cookie=ack.cookie))
            link.expect(Open, A=1)
            link.send(Close())
            link.expect_end()
            asker, answerer = tester.session(), tester.session()
            answerer.declare_queryable("t/**")
            asker.post(Request(request_id=42, key_suffix="t/a", body=Query()))
            request = answerer.expect(Request)
            answerer.post(ResponseFinal(request_id=request.request_id))
            asker.expect(ResponseFinal, request_id=42)
            asker.send(Frame(R=1, sn=asker.session.take_sn(), messages=[Push(key_suffix="t/a", body=Put())]))
            asker.fence()
        script = journal.script()
    texts = script.to_json().splitlines()
    assert [text.count('{"live": "cookie"}') for text in texts if '"layer": "Open"' in text] == [1]
    assert any('{"live": "request_id"}' in text for text in texts)
    with lone_tester(seed=2) as other:
        other.locator = node.locator
        # Another query before: the node gives the one of the script another number.
        before = other.session()
        before.fence()
        played = play(other, script)
        assert played.met, played.failure


def test_recorded_end_that_accepts_is_played_again(port: int) -> None:
    with lone_tester() as tester, tester.recording() as journal:
        listener = tester.listen(f"tcp/127.0.0.1:{port}")
        ours = tester.starting(locator=listener.locator)
        ours.init()
        theirs = listener.accept(cookie=b"c")
        theirs.take_init_syn(version=9)
        theirs.init_ack()
        ours.take_init_ack(cookie=b"c")
        ours.open_syn()
        theirs.take_open_syn()
        theirs.open_ack()
        ours.take_open_ack()
        tester.note("open")
        another = tester.starting(locator=listener.locator)
        another.begin()
        listener.accept().serve()
        another.finish()
        theirs.put("a")
        ours.expect(Push)
        listener.close()
        script = Script.from_json(journal.script().to_json())
    with lone_tester(seed=9) as other:
        played = play(other, script)
        assert played.met, played.failure
        assert played.done == len(script.steps)
    assert dataclasses.replace(script, title="x") != script


def test_bend_that_is_a_function_is_a_note_in_a_recorded_script(tester: Tester) -> None:
    def later(message: object) -> None:
        """A bend: nothing leaves."""

    with tester.recording() as journal:
        tester.bend(later)
        tester.bend(bends.dropped(Init))
    assert journal.script().steps == (
        steps.Note(text="a bend that no script can hold: nothing leaves"),
        steps.Bend(bend=bends.dropped(Init)),
    )
