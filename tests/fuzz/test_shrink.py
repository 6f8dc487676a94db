from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from fuzz.cases import reach, send
from fuzz.lying import MARKS
from fuzz.script import Do, Script, Step, Template
from fuzz.shrink import Shrunk, cost_of, fewer, shrink, simpler, valid
from fuzz.states import State
from scapy_layers import extensions as ext
from scapy_layers.batch import contents
from scapy_layers.codes import Kind
from scapy_layers.data import Put, Query
from scapy_layers.extensions import Drop, First
from scapy_layers.network import Push, Request
from scapy_layers.scouting import Scout
from scapy_layers.transport import Fragment, Frame, Open

FRAME = bytes(Frame(R=1, sn=0))[:1]


def frame(*inside: bytes, link: str = "a") -> Step:
    return send("size", FRAME, "sn", b"".join(inside), link=link)


def push(key: str = "some/long/key", data: bytes = b"payload", **fields: object) -> bytes:
    return bytes(Push(key_suffix=key, body=Put(data=data), **fields))


def shrunk(script: Script, harms: Callable[[Script], bool], seconds: float = 30.0) -> Shrunk:
    assert harms(script)
    result = shrink(script, harms, time.monotonic() + seconds)
    assert harms(result.script)
    return result


def sent(script: Script) -> list[bytes]:
    pieces = (step.data.pieces for step in script.steps if step.do is Do.SEND)
    return [b"".join(piece for piece in each if isinstance(piece, bytes)) for each in pieces]


def test_one_message_of_many_is_left_and_its_bytes() -> None:
    script = Script(
        (
            reach(State.DECLARED, "a"),
            *(frame(push()) for _ in range(20)),
            frame(push(data=b"a\x99b")),
            Step(Do.SETTLE),
            reach(State.OPEN, "b"),
            *(frame(push(), link="b") for _ in range(10)),
        )
    )
    result = shrunk(script, lambda one: any(b"\x99" in data for data in sent(one)))
    assert sent(result.script) == [b"\x99"]
    assert [step.state for step in result.script.steps if step.state] == [State.CONNECTED]
    assert result.done
    assert result.tries < 60


def test_what_only_two_messages_bring_about_keeps_both_in_order() -> None:
    def harms(script: Script) -> bool:
        said = b"|".join(sent(script))
        first = said.find(b"\x98")
        return first >= 0 and b"\x99" in said[first:]

    steps = [frame(push(data=bytes([number]))) for number in range(0x90, 0xA0)]
    result = shrunk(Script((reach(State.OPEN, "a"), *steps)), harms)
    assert result.script.sends <= 2
    assert [data for data in sent(result.script) if data] in ([b"\x98", b"\x99"], [b"\x98\x99"])


@pytest.mark.parametrize(("first", "last"), [(0, 399), (7, 8), (150, 330), (398, 399), (0, 1)])
def test_two_messages_of_hundreds_are_found_in_few_tries(first: int, last: int) -> None:
    def harms(script: Script) -> bool:
        tries.append(script)
        said = b"".join(sent(script))
        at = said.find(b"the first")
        return at >= 0 and b"the last" in said[at:]

    steps: list[Step] = []
    for number in range(400):
        link = f"l{number // 3}"
        if not number % 3:
            steps.append(reach(State.OPEN, link))
        data = {first: b"the first", last: b"the last"}.get(number, b"another")
        steps += [frame(push(data=data), link=link), Step(Do.SETTLE, link)]
        if number % 3 == 2:
            steps.append(Step(Do.CLOSE, link))
    tries: list[Script] = []
    shrunk(Script(tuple(steps)), harms, 600)
    few = next(number for number, script in enumerate(tries, 1) if script.sends <= 2 and harms(script))
    # Three alone, twice nine halves, whether it is the last, and both.
    assert few <= 3 + 2 * 9 + 1 + 1
    if last == 399:
        assert few <= 3 + 9 + 1 + 1


def test_what_was_sent_in_fragments_is_sent_in_one_piece_where_that_is_enough() -> None:
    def fragment(more: int, *inside: bytes) -> Step:
        return send("size", bytes(Fragment(R=1, M=more, sn=0))[:1], "sn", *inside)

    def harms(script: Script) -> bool:
        read = [one for one in sent(script) if one]
        whole = any(one[:1] == FRAME and one[1:] == b"\x98\x99" for one in read)
        return whole or [one[1:] for one in read if one[0] & 0x1F == 6] == [b"\x98", b"\x99", b""]

    chain = (fragment(1, b"\x98"), fragment(1, b"\x99"), fragment(0))
    result = shrunk(Script((reach(State.OPEN, "a"), *chain)), harms)
    assert sent(result.script) == [FRAME + b"\x98\x99"]
    # With the mark of the first one, as all send it who agreed on that.
    marked = send("size", b"\xe6", "sn", bytes(First()) + b"\x98")
    whole = shrunk(
        Script((reach(State.OPEN, "a"), marked, *chain[1:])),
        lambda one: FRAME + b"\x98\x99" in sent(one) or one.sends == 3,
    )
    assert sent(whole.script) == [FRAME + b"\x98\x99"]
    # Another extension says how the chain goes on.
    first = send("size", b"\xe6", "sn", bytes(Drop()) + b"\x98")
    result = shrunk(Script((reach(State.OPEN, "a"), first)), lambda one: b"\xe6" in b"".join(sent(one)))
    assert sent(result.script)[0][:1] == b"\xe6"


def test_a_value_becomes_shorter_by_single_bytes() -> None:
    script = Script(
        (reach(State.CONNECTED, "a"), send("size", bytes(Open(cookie=b"\x81\x9f\xc5\xfb\x64\x01"))))
    )

    def harms(one: Script) -> bool:
        read = [contents(data) for data in sent(one)]
        return any(
            isinstance(message, Open) and seen.error is None and len(message.cookie) >= 5
            for seen in read
            for message in seen.messages
        )

    (data,) = sent(shrunk(script, harms).script)
    assert data[3] == 5


def test_two_links_stay_two_when_both_are_needed() -> None:
    def harms(script: Script) -> bool:
        return {step.link for step in script.steps if step.do is Do.SEND} == {"a", "b"}

    steps = (reach(State.OPEN, "a"), reach(State.OPEN, "b"), frame(push()), frame(push(), link="b"))
    result = shrunk(Script(steps), harms)
    assert [step.do for step in result.script.steps].count(Do.REACH) == 2
    assert result.script.sends == 2


def test_repetition_becomes_as_little_as_does_it() -> None:
    steps = (
        reach(State.OPEN, "a"),
        Step(Do.SEND, data=Template.parse("{size}09"), times=1000, bytewise=True),
    )
    result = shrunk(Script(steps), lambda one: one.sends >= 7)
    assert result.script.sends == 7
    assert not any(step.bytewise for step in result.script.steps)


def test_the_state_stays_when_it_matters() -> None:
    script = Script((reach(State.DECLARED, "a"), frame(push())))
    result = shrunk(script, lambda one: one.steps[0].state in {State.OPEN, State.DECLARED} and one.sends > 0)
    assert result.script.steps[0].state is State.OPEN


def test_states_that_need_another_node_are_not_left_for_one() -> None:
    script = Script((reach(State.COMPRESSED, "a"), frame(push())))
    result = shrunk(script, lambda one: one.sends > 0)
    assert result.script.steps[0].state is State.COMPRESSED


def test_lengths_around_what_becomes_shorter_stay_true() -> None:
    inner = push(key="k", data=b"x" * 200)
    found = [template.fill({"sn": b"\x01"}) for template in simpler(frame(inner).data)]
    assert found
    assert all(int.from_bytes(data[:2], "little") == len(data) - 2 for data in found)
    assert any(contents(data[2:]).error is None and len(data) < 30 for data in found)


def test_extensions_and_fields_are_left_out_with_their_flags() -> None:
    rich = push(extensions=[ext.NodeId(node_id=5), ext.QoS(priority=2)])
    templates = [template.fill({"sn": b"\x01"})[2:] for template in simpler(frame(rich).data)]
    plain = FRAME + b"\x01" + push()
    assert plain in templates


def test_the_words_for_a_message_tell_that_it_was_made_smaller() -> None:
    big, other = send("size", FRAME, "sn", push(), note="PUSH.key_suffix: 900 bytes"), frame(push(data=b"z"))
    script = Script((reach(State.OPEN, "a"), big, other))
    result = shrunk(script, lambda one: b"payload" in b"".join(sent(one)) and b"z" in b"".join(sent(one)))
    notes = [step.note for step in result.script.steps if step.do is Do.SEND]
    assert notes == ["PUSH.key_suffix: 900 bytes, then made smaller", ""]
    whole = shrunk(
        Script((reach(State.OPEN, "a"), replace(big, times=3))), lambda one: push() in b"".join(sent(one))
    )
    assert whole.script.steps[-1].note.count("made smaller") == 1
    same = shrunk(script, lambda one: big.data in [step.data for step in one.steps])
    assert same.script.steps[-1].note == big.note


def test_live_values_keep_their_places_and_lies_about_them_are_left_alone() -> None:
    assert all(
        "sn" in template.pieces for template in simpler(frame(push()).data) if len(template.pieces) > 2
    )
    assert not list(simpler(Template.of("size", FRAME, "sn|first 1", push())))
    assert not any(
        mark in str(one).encode() for mark in MARKS.values() for one in simpler(frame(push()).data)
    )


def test_scouting_datagrams_are_taken_apart_as_such() -> None:
    raw = bytes(Scout(what=3, zid=b"\x01\x02"))
    found = [template.fill({}) for template in simpler(Template.of(raw), Kind.SCOUTING)]
    assert bytes(Scout(what=3)) in found


def test_bytes_that_nothing_is_known_of_are_cut_and_zeroed() -> None:
    made = [str(template) for template in fewer(Template.parse("{size}0102{zid}03"))]
    assert {
        "{size}01{zid}03",
        "{size}02{zid}03",
        "{size}010203",
        "{size}0102{zid}",
        "{size}0002{zid}03",
    } <= set(made)


def test_a_lie_goes_back_to_the_truth_or_is_written_out() -> None:
    made = [str(template) for template in fewer(Template.parse("{size}42{cookie|first 3}"))]
    assert "{size}42{cookie}" in made
    assert f"{{size}}42{MARKS['cookie'][:3].hex()}" in made
    script = Script((reach(State.INIT_ACKED, "a"), send("size", b"\x42", "cookie|20000 bytes ff")))
    result = shrunk(script, lambda one: one.size >= 100 or "|" in str(one))
    assert "|" not in str(result.script)
    assert 100 <= result.script.size < 200


def test_a_length_lie_that_is_not_needed_goes() -> None:
    script = Script((reach(State.CONNECTED, "a"), send("size|first 1", b"\x99")))
    result = shrunk(script, lambda one: any(b"\x99" in data for data in sent(one)))
    assert str(result.script.steps[1].data) == "{size}99"


def test_time_ends_it_with_the_smallest_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0

    def slow(script: Script) -> bool:
        nonlocal tries
        tries += 1
        return any(b"\x99" in data for data in sent(script))

    monkeypatch.setattr("fuzz.shrink.time.monotonic", lambda: float(tries))
    steps = [frame(push(data=bytes([number]))) for number in range(0x80, 0xA0)]
    result = shrink(Script((reach(State.OPEN, "a"), *steps)), slow, 5.0)
    assert not result.done
    assert 1 <= result.script.sends < 20
    assert (tries, result.seconds) == (5, 5.0)
    assert result.kept[0].sends == 32


def test_nothing_that_has_no_link_is_tried() -> None:
    assert not valid([frame(push())])
    assert valid([reach(State.OPEN, "a"), frame(push())])
    seen: list[Script] = []

    def harms(script: Script) -> bool:
        seen.append(script)
        return any(b"\x99" in data for data in sent(script))

    request = bytes(Request(request_id=1, key_suffix="a", body=Query()))
    shrunk(Script((reach(State.OPEN, "a"), frame(request), frame(push(data=b"\x99")))), harms)
    assert all(valid(script.steps) for script in seen)
    assert len({str(script) for script in seen}) >= len(seen) - 2


@pytest.mark.parametrize("smaller", ["{size}09", "{size}00"])
def test_cost_prefers_less(smaller: str) -> None:
    def script(data: str) -> Script:
        return Script((reach(State.OPEN, "a"), Step(Do.SEND, data=Template.parse(data))))

    assert cost_of(script(smaller)) < cost_of(script("{size}0a"))
    assert cost_of(script("{size}ff")) < cost_of(script("{size}0000"))


def test_wild_cards_that_are_not_needed_become_letters() -> None:
    deep = Script((reach(State.OPEN, "a"), frame(push("*/**/a$*/" * 30 + "a"))))
    chunks = re.compile(rb"(?:[a*$]+/){60}")
    (left,) = sent(shrunk(deep, lambda one: any(map(chunks.search, sent(one)))).script)
    assert b"*" not in left
    (left,) = sent(shrunk(deep, lambda one: any(data.count(b"**") >= 9 for data in sent(one))).script)
    assert b"**" in left
    assert b"$*" not in left


def test_what_was_tried_before_is_not_tried_again() -> None:
    script = Script((reach(State.OPEN, "a"), *(frame(push(data=bytes([number]))) for number in range(8))))
    played: list[Script] = []

    def harms(one: Script) -> bool:
        played.append(one)
        return False

    tried: set[bytes] = set()
    for _ in range(2):
        shrink(script, harms, time.monotonic() + 30, tried=tried)
    assert len(set(map(str, played))) == len(played)


def test_hundreds_of_messages_in_one_batch_become_few_in_few_tries() -> None:
    # Each has a sequence number of its own, which the player puts in.
    keys = ["fuzz/k" if number in {70, 300} else f"other/{number}" for number in range(400)]
    pieces = [piece for key in keys for piece in (FRAME, "sn", push(key))]
    script = Script((reach(State.OPEN, "a"), send("size", *pieces)))
    result = shrunk(script, lambda one: b"".join(sent(one)).count(b"fuzz/k") >= 2)
    assert result.script.size < 60
    assert result.tries < 400


def test_nothing_can_be_left_out_of_nothing() -> None:
    assert list(fewer(Template.of())) == []
