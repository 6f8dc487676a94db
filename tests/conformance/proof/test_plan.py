"""Which tests each mutant faces."""

from __future__ import annotations

from conformance.proof.plan import plans
from conformance.refnode.mutants import Mutant

TESTS = {f"test_{number}": frozenset({f"ZN-A-{number:03}"}) for number in range(40)}


def mutant(*requirements: str) -> Mutant:
    return Mutant(name=requirements[0], requirements=requirements, title="")


def test_own_tests_come_first_and_slow_ones_last_among_them() -> None:
    tests = {
        "slow": frozenset({"ZN-A-001"}),
        "other": frozenset({"ZN-A-002"}),
        "quick": frozenset({"ZN-A-001"}),
        "further": frozenset({"ZN-A-003"}),
    }
    (made,) = plans([mutant("ZN-A-001", "ZN-A-003")], tests, slow=["slow"], size=4)
    assert made.own == ("quick", "slow")
    assert made.further == ("further",)
    assert made.sample == ("other",)
    assert made.tests == ("quick", "slow", "further", "other")
    assert made.until_noticed == {"quick", "slow", "further"}


def test_samples_of_all_mutants_together_reach_every_test() -> None:
    some = [mutant(f"ZN-A-{number:03}") for number in range(10)]
    made = plans(some, TESTS, size=4, seed=1)
    assert all(len(plan.sample) <= 4 for plan in made)
    assert {test for plan in made for test in plan.tests} == set(TESTS)


def test_samples_differ_from_mutant_to_mutant_and_with_the_seed_only() -> None:
    some = [mutant("ZN-A-000"), mutant("ZN-A-001")]
    made = plans(some, TESTS, size=5, seed=1)
    assert made[0].sample != made[1].sample
    assert plans(some, TESTS, size=5, seed=1) == made
    assert plans(some, TESTS, size=5, seed=2) != made


def test_mutant_without_a_test_of_its_own_faces_tests_of_all_areas_in_turn() -> None:
    tests = {"a1": frozenset({"ZN-A-001"}), "a2": frozenset({"ZN-A-001"}), "b1": frozenset({"ZN-B-001"})}
    (made,) = plans([mutant("ZN-C-001")], tests, size=0)
    assert made.own == ()
    assert made.passing == ("a1", "b1", "a2")


def test_all_tests_when_they_are_asked_for() -> None:
    (made,) = plans([mutant("ZN-A-000")], TESTS, size=1, all_tests=True)
    assert set(made.tests) == set(TESTS)


def test_searching_tests_are_asked_last_and_sampled_never() -> None:
    tests = {"search": frozenset({"ZN-A-001", "ZN-B-001"}), **TESTS}
    first, second = plans([mutant("ZN-B-001"), mutant("ZN-C-001")], tests, searching=["search"], size=41)
    assert first.own == ("search",)
    assert "search" not in second.tests
    assert set(second.sample) == set(TESTS)
