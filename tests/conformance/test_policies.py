"""Each decision of the reference node names the requirements it answers; limits of its own answer none."""

from __future__ import annotations

import inspect
import re

import pytest

from conformance.refnode.policy import NodePolicy
from conformance.refnode.scouting import ScoutPolicy
from conformance.requirements import requirements
from conformance.router.policy import RouterPolicy
from conformance.session.policy import Policy

POLICIES = (Policy, RouterPolicy, ScoutPolicy, NodePolicy)
ID = r"ZN-[A-Z]+-\d{3}"


def decisions(policy: type) -> list[tuple[str, str]]:
    return [
        (f"{policy.__name__}.{name}", inspect.getdoc(method) or "")
        for name, method in vars(policy).items()
        if inspect.isfunction(method) and not name.startswith(("_", "most_"))
    ]


@pytest.mark.parametrize(
    ("name", "said"), [pair for policy in POLICIES for pair in decisions(policy)], ids=lambda text: text[:40]
)
def test_decision_begins_with_the_requirements_it_answers(name: str, said: str) -> None:
    match = re.match(rf"({ID})(, {ID})*: ", said)
    assert match, f"{name} begins with {said[:40]!r}"
    unknown = set(re.findall(ID, match[0])) - set(requirements())
    assert not unknown, name
