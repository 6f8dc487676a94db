from __future__ import annotations

from dataclasses import replace

import pytest

from fuzz.campaigns.resources import held
from fuzz.cases import reach, send
from fuzz.findings import Finding
from fuzz.kinship import MANY, about, other_message, part_seen, phase_of, same_unknown, why_one
from fuzz.oracles import Harm
from fuzz.script import Script, Step
from fuzz.states import State
from scapy_layers.data import Put
from scapy_layers.declarations import DeclareSubscriber, DeclareToken, UndeclareSubscriber
from scapy_layers.message import Message
from scapy_layers.network import Declare, Push
from scapy_layers.transport import Fragment, Frame, Init

FRAME = bytes(Frame(R=1, sn=0))[:1]
DEEP, STARS, DOLLARS = "a/" * 50 + "a", "**/a/" * 20 + "a", "a$*" * 40


def in_frame(*messages: Message) -> Step:
    return send("size", FRAME, "sn", b"".join(map(bytes, messages)))


def token(key: str) -> Step:
    return in_frame(Declare(body=DeclareToken(entity_id=1, key_suffix=key)))


def subscriber(key: str) -> Step:
    return in_frame(Declare(body=DeclareSubscriber(entity_id=7, key_suffix=key)))


def push(key: str) -> Step:
    return in_frame(Push(key_suffix=key, body=Put(data=b"x")))


def finding(
    *steps: Step,
    harm: Harm = Harm.CRASH,
    place: str = "SIGSEGV",
    detail: str = "",
    state: State = State.OPEN,
) -> Finding:
    script = Script((reach(state, "a"), *steps))
    return Finding(
        bucket=f"{harm} {steps}",
        harm=harm,
        oracle="process",
        place=place,
        detail=detail,
        state=str(state),
        message="PUSH",
        script=script,
        first=script,
    )


def test_the_same_field_in_other_messages_is_one_fault() -> None:
    first, second = finding(token(DEEP)), finding(push("b/" * 60), state=State.DECLARED)
    assert about(first) == about(second) == "key_suffix"
    assert "key_suffix" in why_one(first, second)


@pytest.mark.parametrize(
    "other",
    [
        finding(token("a/b")),
        finding(token(STARS)),
        finding(in_frame(Push(key_suffix="a", body=Put(data=b"x" * 200)))),
        finding(token(DEEP), push("a/b")),
        finding(token(DEEP), place="SIGBUS"),
        finding(token(DEEP), harm=Harm.STALL, place=""),
        finding(token(DEEP), place="SIGABRT some-crate/src/face.rs:83"),
        finding(token(DEEP), state=State.LOW_LATENCY),
        finding(send("size", bytes(Fragment(R=1, sn=0))[:1], "sn", DEEP.encode())),
    ],
    ids=["small", "matching", "payload", "two", "signal", "harm", "place", "part", "fragment"],
)
def test_what_else_differs_keeps_findings_apart(other: Finding) -> None:
    assert not why_one(finding(push(DEEP)), other)
    assert not why_one(other, finding(push(DEEP)))


def test_small_messages_about_one_field_are_two_faults() -> None:
    one = finding(in_frame(Declare(body=DeclareToken(entity_id=(1 << 32) - 1, key_suffix="a"))))
    two = finding(in_frame(Declare(body=DeclareSubscriber(entity_id=(1 << 32) - 1, key_suffix="a"))))
    assert not why_one(one, two)


def test_stalls_of_matching_are_told_apart_by_the_wild_cards_that_they_need() -> None:
    def stall(*steps: Step, harm: Harm = Harm.STALL) -> Finding:
        return finding(*steps, harm=harm, place="")

    stars = stall(token(STARS), push(DEEP))
    assert about(stars) == "key_suffix with double wild"
    assert why_one(stars, stall(subscriber(STARS), token(STARS), harm=Harm.PAUSE))
    assert not why_one(stars, stall(subscriber(DOLLARS), push("a" * 99)))
    assert not why_one(stars, finding(token(STARS), harm=Harm.STALL, place="stage"))


def test_stalls_of_many_wild_keys_are_one_whatever_is_matched_with_them() -> None:
    def many(kind: str, key: str, times: int = MANY) -> Step:
        return held(kind, f"each of {key}", times)

    def stall(*steps: Step, harm: Harm = Harm.PAUSE) -> Finding:
        return finding(*steps, harm=harm, place="")

    wide, own = "a wide key", "its own key"
    declared = stall(many("D_QUERYABLE", wide), many("REQUEST", own))
    assert about(declared) == "many key_suffix with double wild"
    assert why_one(declared, stall(many("D_TOKEN", wide), many("D_TOKEN", own), harm=Harm.STALL))
    assert not why_one(declared, stall(many("D_TOKEN", "a key of wide chunks")))
    assert not why_one(declared, stall(token(STARS)))
    assert not about(stall(many("D_QUERYABLE", wide), many("REQUEST", own, 2 * MANY)))
    assert not about(stall(many("D_QUERYABLE", wide, MANY - 1), many("REQUEST", own, MANY - 1)))
    assert not about(stall(send("size", FRAME, "sn", b"**" * 20, times=MANY)))
    # What is left behind is left by the message, whatever key it carries.
    for harm in (Harm.SLOW, Harm.GROWTH, Harm.LEAK):
        assert not about(stall(many("D_TOKEN", wide), harm=harm))
    assert about(stall(many("D_TOKEN", wide), harm=Harm.BUSY))


def test_of_keys_that_are_matched_one_may_be_short() -> None:
    short = finding(subscriber("**/b/**/b/**"), push(STARS), harm=Harm.STALL, place="")
    long = finding(subscriber(STARS), token(STARS), harm=Harm.STALL, place="")
    assert about(short) == "key_suffix with double wild"
    assert why_one(short, long)
    payload = in_frame(Push(key_suffix="a", body=Put(data=b"x" * 200)))
    assert not about(finding(subscriber(STARS), payload, harm=Harm.STALL, place=""))
    assert not about(finding(subscriber("**"), push("a/b"), harm=Harm.STALL, place=""))


def test_what_has_no_bytes_may_be_when_keys_are_matched() -> None:
    end = in_frame(Declare(body=UndeclareSubscriber(entity_id=7)))
    assert about(finding(subscriber(STARS), token(STARS), end)) == "key_suffix with double wild"
    assert not about(finding(subscriber(DEEP), end))


def test_only_keys_have_wild_cards() -> None:
    assert about(finding(send("size", b"\x02\x4e\x01\x48", b"c*" * 36))) == "cookie"
    assert about(finding(in_frame(Push(key_suffix="*", body=Put(data=b"**" * 99))))) == "data"


def test_no_finding_is_about_what_the_player_fills_in() -> None:
    refused = finding(send("size", b"\x02\x4e\xff\x01", "cookie"), state=State.INIT_ACKED, place="")
    assert not about(refused)
    long = finding(send("size", b"\x02\x4e\x01\x48", b"c" * 72), state=State.INIT_ACKED, place="")
    assert about(long) == "cookie"


def test_what_is_valid_is_about_the_last_message() -> None:
    def valid(*steps: Step, message: str) -> Finding:
        seen = finding(*steps)
        return replace(seen, script=replace(seen.script, valid=True), message=message)

    assert other_message(valid(token("a"), subscriber("a"), message="FRAME")) == "D_SUBSCRIBER"
    assert not other_message(valid(token("a"), message="D_TOKEN"))
    assert not other_message(valid(message="FRAME"))
    assert other_message(valid(token("a"), message="INIT")) == "D_TOKEN"
    # So is what nobody could lay on a case.
    several = replace(finding(token("a"), subscriber("a")), message="")
    assert other_message(several) == "D_SUBSCRIBER"
    assert not other_message(replace(several, message="PUT"))
    # Its bytes are not made fewer: how many there are says nothing.
    assert not about(valid(push(DEEP), message="FRAME"))


def test_valid_sessions_end_in_sessions_however_they_were_begun() -> None:
    assert part_seen("valid", State.CONNECTED) == "session"
    assert part_seen("valid", State.LOW_LATENCY) == "low_latency"
    assert part_seen("ping", State.CONNECTED) == "handshake"
    assert part_seen("valid", None) == ""


def test_lie_about_the_id_of_a_message_is_about_the_message_that_it_makes() -> None:
    assert other_message(finding(token("a"))) == "D_TOKEN"
    assert other_message(finding(token("a"), token("b"))) == "D_TOKEN"
    # What was made smaller is often cut.
    assert other_message(finding(send("size", FRAME, "sn", b"\x1e\x26"))) == "D_TOKEN"
    # What is read in it is behind it.
    assert other_message(finding(send("size|length says twice as much", FRAME, "sn"))) == "FRAME"


@pytest.mark.parametrize(
    "other",
    [
        finding(push("a")),
        finding(token("a"), subscriber("a")),
        finding(token("a"), place="stage"),
        replace(finding(token("a")), without="state alone"),
        finding(send("size", FRAME, "sn", bytes(Declare(body=DeclareToken(key_suffix="a"))), b"\x00")),
        finding(send("size", b"\x08")),
    ],
    ids=["true", "two", "stage", "without", "one of them", "all of them"],
)
def test_what_does_not_send_one_other_message_is_called_by_its_case(other: Finding) -> None:
    assert not other_message(other)


def test_id_that_nobody_knows_in_a_message_is_about_the_message_around_it() -> None:
    strange = [finding(send("size", FRAME, "sn", b"\x1e" + header)) for header in (b"\x3f", b"\x08", b"\xff")]
    assert [other_message(one) for one in strange] == ["DECLARE"] * 3
    assert (
        other_message(replace(finding(send("size", FRAME, "sn", b"\x3d\x00\x01a\x09")), message="DEL"))
        == "PUSH"
    )
    assert same_unknown(strange[0], strange[1])
    assert not same_unknown(strange[0], finding(token("a")))


def hungry(size: bytes) -> bytes:
    """A publication that says that so many bytes of payload follow."""
    return bytes(Push(key_suffix="a", body=Put(data=b"x")))[:-2] + size


@pytest.mark.parametrize("state", [State.OPEN, State.LOW_LATENCY])
def test_memory_that_cannot_be_had_is_one_fault_however_the_node_takes_it(state: State) -> None:
    size = b"\xff\xff\xff\xff\xff\xff\xff\x7f"
    first = finding(send("size", FRAME, "sn", hungry(size)), place="SIGABRT memory allocation")
    more = hungry(b"\xff" + size)
    second = finding(
        send("size32", more) if state is State.LOW_LATENCY else send("size", FRAME, "sn", more),
        harm=Harm.PANIC,
        place="alloc/src/raw_vec.rs:545",
        detail="thread 'rx-2' panicked at library/alloc/src/raw_vec.rs:545:5: capacity overflow",
        state=state,
    )
    assert "memory" in why_one(first, second)
    elsewhere = replace(second, script=first.script.with_steps([reach(State.OPEN, "a"), push("a/b")]))
    assert not why_one(first, elsewhere)
    assert not why_one(first, replace(second, detail="index out of bounds"))


def test_hello_is_scouting_wherever_it_is_heard() -> None:
    assert phase_of(State.SCOUTING) == phase_of(State.SEEKING) == "scouting"


def test_what_is_said_to_a_port_that_scouts_is_not_read_as_a_handshake() -> None:
    datagram = bytes(Init(A=1, S=1, zid=b"\x01" * 16, cookie=b"c" * 60))
    script = Script((reach(State.SCOUTING, "a"), send(datagram)))
    assert about(replace(finding(), script=script, state=State.SCOUTING)) == ""
    greeting = Script((reach(State.CONNECTED, "a"), send("size", datagram)))
    assert about(replace(finding(), script=greeting, state=State.CONNECTED)) == "cookie"
