"""Each mutant has an id that is a requirement, and differs from the correct node."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from conformance.errors import UsageError
from conformance.refnode.mutants import CORRECT, MUTANTS, Memory, mutant, mutant_named
from conformance.refnode.mutants.registry import Bent
from conformance.refnode.policy import NodePolicy
from conformance.refnode.scouting import ScoutPolicy
from conformance.requirements import requirements
from conformance.router.policy import RouterPolicy
from conformance.session.policy import Policy
from scapy_layers.codes import CloseReason
from scapy_layers.data import Err, Put, Query, Reply
from scapy_layers.declarations import DeclareToken
from scapy_layers.network import Declare, Interest, Push, Request, Response
from scapy_layers.transport import Close, Frame, Init, KeepAlive, Open
from tests.conformance.refnode.conftest import Start

BASES = {"session": Policy, "router": RouterPolicy, "scout": ScoutPolicy, "node": NodePolicy}


@pytest.fixture
def registered() -> Iterator[Callable[[str], None]]:
    """Takes mutants out of the registry again."""
    names: list[str] = []
    yield names.append
    for name in names:
        del MUTANTS[name]


def test_there_are_many_in_all_areas() -> None:
    assert len(MUTANTS) >= 290
    areas = {name.split("-")[1] for name in MUTANTS}
    assert areas >= {
        "INIT",
        "OPEN",
        "CLS",
        "KA",
        "FRM",
        "FRG",
        "SCT",
        "HLO",
        "JOIN",
        "PUSH",
        "DCL",
        "INT",
        "REQ",
    }


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_ids_are_requirements(name: str) -> None:
    found = MUTANTS[name]
    assert re.fullmatch(re.escape(found.requirements[0]) + "[a-z]?", name)
    assert set(found.requirements) <= set(requirements())
    assert found.title


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_one_thing_is_changed_and_it_exists_in_the_correct_node(name: str) -> None:
    found = MUTANTS[name]
    changed = [place for place, base in BASES.items() if getattr(found, place) is not base]
    functions = {found.bend, found.hear} - {None}
    assert len(changed) + len(functions) == 1
    assert bool(found.of) == (found.bend is not None)
    assert bool(found.hears) == (found.hear is not None)
    for place in changed:
        made, base = getattr(found, place), BASES[place]
        own = [method for method in vars(made) if not method.startswith("_")]
        assert own
        assert all(hasattr(base, method) for method in own), own


def test_no_name_is_the_correct_node() -> None:
    assert mutant_named("") is CORRECT


def test_name_is_found_whatever_its_case_and_by_any_of_its_requirements() -> None:
    assert mutant_named("zn-init-045") is MUTANTS["ZN-INIT-045"]
    assert mutant_named("ZN-KA-104") is MUTANTS["ZN-KA-104"]


def test_name_may_be_a_requirement_that_a_mutant_breaks_besides(registered: Callable[[str], None]) -> None:
    registered("ZN-KA-001z")
    mutant("ZN-KA-001z", "ZN-INIT-046", of=KeepAlive)(lambda message, _: message)
    assert mutant_named("ZN-INIT-046") is MUTANTS["ZN-KA-001z"]


def test_unknown_name_is_an_error_that_names_near_ones() -> None:
    with pytest.raises(UsageError, match=r"no mutant 'ZN-INIT-049z'; near it: ZN-INIT-04"):
        mutant_named("ZN-INIT-049z")


def test_bend_reaches_messages_inside_a_frame() -> None:
    found = MUTANTS["ZN-PUSH-001"]
    memory: Memory = {"number": 1}
    frame = Frame(R=1, sn=3, messages=[Push(key_suffix="a/b", body=Put(data=b"x"))])
    plain = bytes(frame)
    bent = found.bent([frame], memory)
    assert bent != plain
    assert bytes(frame) == plain
    assert found.bent([KeepAlive()], memory) == b"\x04"


def test_hearing_mutant_mistakes_what_comes_in() -> None:
    found = MUTANTS["ZN-FRM-006"]
    assert found.hear is not None
    memory: Memory = {"number": 1}
    best_effort = bytes(Frame(R=0, sn=3)) + b"\x04"
    assert found.heard(best_effort, memory) == bytes(Frame(R=1, sn=3)) + b"\x04"


def test_hearing_mutant_reaches_messages_inside_a_frame_and_leaves_the_rest_as_it_is() -> None:
    found = MUTANTS["ZN-PUSH-004"]
    theirs = Push(M=0, key_scope=7, body=Put(data=b"x"))
    ours = Push(M=1, key_scope=7, body=Put(data=b"x"))
    cut = b"\x08rest"
    plain = bytes(Frame(R=1, sn=3, messages=[theirs])) + cut
    assert found.heard(plain, {"number": 1}) == bytes(Frame(R=1, sn=3, messages=[ours])) + cut


def test_hearing_mutant_gets_a_message_that_cannot_be_read() -> None:
    wrong = bytes(Push(key_suffix="a", body=Err(data=b"no")))
    heard = MUTANTS["ZN-DATA-001"].heard(bytes(Frame(R=1, sn=3)) + wrong, {"number": 1})
    assert heard == bytes(Frame(R=1, sn=3, messages=[Push(key_suffix="a", body=Put(data=b"error"))]))


def test_hearing_mutant_knows_what_stands_around_a_message() -> None:
    found = MUTANTS["ZN-BAT-102"]
    memory: Memory = {"number": 1}
    close, frame = bytes(Close()), bytes(Frame(R=1, sn=1))
    assert found.heard(close + frame, memory) == frame + close
    assert found.heard(close, memory) == close


def test_one_function_may_hear_and_bend(registered: Callable[[str], None]) -> None:
    registered("ZN-KA-001z")

    @mutant("ZN-KA-001z", of=KeepAlive, hears=Close)
    def repeats_the_reason(message: KeepAlive | Close, memory: Memory) -> Bent:
        if isinstance(message, Close):
            memory["reason"] = message.reason
            return message
        return Close(reason=memory["reason"])

    found, memory = MUTANTS["ZN-KA-001z"], {"number": 1}
    assert found.heard(bytes(Close(reason=3)), memory) == bytes(Close(reason=3))
    assert found.bent([KeepAlive()], memory) == bytes(Close(reason=3))


@pytest.mark.parametrize("name", sorted(name for name, known in MUTANTS.items() if known.hear))
def test_hearing_mutants_take_any_bytes(name: str) -> None:
    found = MUTANTS[name]
    dice = random.Random(name)
    whole = [
        bytes(Init(zid=b"\x01", S=1)),
        bytes(Open(lease=1, initial_sn=1, cookie=b"c")),
        bytes(
            Frame(R=1, sn=1, messages=[Request(request_id=1, key_suffix="a/b", body=Query(parameters="x"))])
        ),
        bytes(Frame(R=1, sn=2, messages=[Push(key_suffix="a/b", body=Put(data=b"x"))])) + bytes(KeepAlive()),
        bytes(Frame(R=1, sn=3, messages=[Interest(mode=3, interest_id=1, restricted=1, key_suffix="a/**")])),
        bytes(Frame(R=1, sn=4, messages=[Declare(body=DeclareToken(entity_id=1, key_suffix="a"))])),
        bytes(Frame(R=1, sn=5, messages=[Response(request_id=1, key_suffix="a", body=Reply(body=Put()))])),
        bytes(Close()),
    ]
    memory: Memory = {"number": 1}
    for raw in whole:
        found.heard(raw, memory)
        for _ in range(10):
            bent = bytearray(raw)
            bent[dice.randrange(len(bent))] = dice.randrange(256)
            found.heard(bytes(bent[: dice.randrange(1, len(bent) + 1)]), memory)


def test_list_has_a_line_for_each() -> None:
    words = [sys.executable, "-m", "conformance.refnode", "--list-mutants"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=600)
    lines = done.stdout.splitlines()
    assert len(lines) == len(MUTANTS)
    assert any(line.startswith("ZN-INIT-045 ") and "refuses a version as invalid" in line for line in lines)


def test_mutant_differs_from_the_correct_node_on_the_wire(start: Start) -> None:
    correct, wrong = start(), start("--mutant", "ZN-INIT-045")
    assert wrong.facts["mutant"] == "ZN-INIT-045"
    reasons = []
    for node in (correct, wrong):
        with node.raw() as raw:
            raw.send(Init(version=8, zid=b"\x01"))
            reasons.append(raw.closed())
    assert reasons == [CloseReason.UNSUPPORTED, CloseReason.INVALID]


def test_bending_mutant_differs_too(start: Start) -> None:
    with start("--mutant", "ZN-OPEN-002").raw() as raw:
        raw.send(Init(zid=b"\x01"))
        answer = raw.message()
        assert isinstance(answer, Init)
        raw.send(Open(T=1, lease=10, initial_sn=0, cookie=answer.cookie))
        batch = raw.batch()
        assert batch is not None
        assert batch.endswith(b"\x02ab")


def test_mutant_that_shuts_down_without_close(start: Start) -> None:
    node = start("--mutant", "ZN-CLS-006")
    with node.raw() as raw:
        raw.open(b"\x01")
        assert node.ends() == 0
        batch = raw.batch()
        assert batch is None or batch[0] & 0x1F != Close.id
