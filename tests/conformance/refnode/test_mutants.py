"""Each mutant has an id that is a requirement, and differs from the correct node."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from conformance.errors import UsageError
from conformance.refnode.mutants import CORRECT, MUTANTS, Memory, mutant_named
from conformance.refnode.policy import NodePolicy
from conformance.refnode.scouting import ScoutPolicy
from conformance.requirements import requirements
from conformance.router.policy import RouterPolicy
from conformance.session.policy import Policy
from scapy_layers.codes import CloseReason
from scapy_layers.data import Put
from scapy_layers.network import Push
from scapy_layers.transport import Close, Frame, Init, KeepAlive, Open
from tests.conformance.refnode.conftest import Start

BASES = {"session": Policy, "router": RouterPolicy, "scout": ScoutPolicy, "node": NodePolicy}


def test_there_are_many_in_all_areas() -> None:
    assert len(MUTANTS) >= 60
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
    assert len(changed) + (found.bend is not None) == 1
    for place in changed:
        made, base = getattr(found, place), BASES[place]
        own = [method for method in vars(made) if not method.startswith("_")]
        assert own
        assert all(hasattr(base, method) for method in own), own


def test_no_name_is_the_correct_node() -> None:
    assert mutant_named("") is CORRECT


def test_name_is_found_whatever_its_case_and_by_any_of_its_requirements() -> None:
    assert mutant_named("zn-init-045") is MUTANTS["ZN-INIT-045"]
    assert "ZN-CLS-102" not in MUTANTS
    assert mutant_named("ZN-CLS-102") is MUTANTS["ZN-CLS-007"]


def test_unknown_name_is_an_error_that_names_near_ones() -> None:
    with pytest.raises(UsageError, match=r"no mutant 'ZN-INIT-046'; near it: ZN-INIT-04"):
        mutant_named("ZN-INIT-046")


def test_bend_reaches_messages_inside_a_frame() -> None:
    found = MUTANTS["ZN-PUSH-001"]
    memory: Memory = {"number": 1}
    frame = Frame(R=1, sn=3, messages=[Push(key_suffix="a/b", body=Put(data=b"x"))])
    plain = bytes(frame)
    bent = found.bent([frame], memory)
    assert bent != plain
    assert bytes(frame) == plain
    assert found.bent([KeepAlive()], memory) == b"\x04"


def test_list_has_a_line_for_each() -> None:
    words = [sys.executable, "-m", "conformance.refnode", "--list-mutants"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
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
