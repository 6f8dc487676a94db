"""What became of each mutant, and of the whole campaign."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from conformance.proof.plan import Plan, Tests
from conformance.proof.unproven import UNPROVEN
from conformance.refnode.mutants import Mutant
from conformance.requirements import Requirement
from spark_reports.rows import VerdictRow

NOTICED = frozenset({"fail", "warning"})
"""Outcomes that show that a test has noticed something."""

STRAY_BOUND = 6
"""Tests of other requirements that one mutant may fail: some rules hold up many others."""


@dataclass(slots=True, kw_only=True)
class Noticed:
    """A test that noticed a mutant."""

    test: str
    requirements: tuple[str, ...]
    outcome: str
    expected: str
    seen: str


@dataclass(slots=True, kw_only=True)
class Result:
    """What became of one mutant.

    Attributes:
        mutant: Its id; empty for the correct node.
        title: What it does wrong.
        requirements: What it breaks, the one that its test must notice first.
        killed: The first test of its first requirement that noticed it; None when it survived.
        elsewhere: Tests of its further requirements that noticed it.
        strays: Tests of other requirements that noticed something.
        outcomes: Outcome of every test that it faced, by its id.
        seconds: From the start of its node to the end of its last test.
        trouble: Why it was not judged, when it was not.
        alone: No session is possible with it, so that only tests of its own requirements say anything about it.
    """

    mutant: str
    title: str = ""
    requirements: tuple[str, ...] = ()
    killed: Noticed | None = None
    elsewhere: list[Noticed] = field(default_factory=list)
    strays: list[Noticed] = field(default_factory=list)
    outcomes: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    trouble: str = ""
    alone: bool = False


def result_of(plan: Plan, mutant: Mutant, rows: Iterable[VerdictRow], seconds: float, trouble: str) -> Result:
    """Judges what a mutant's tests said."""
    made = Result(
        mutant=plan.mutant,
        title=mutant.title,
        requirements=mutant.requirements,
        seconds=round(seconds, 3),
        trouble=trouble,
    )
    for row in rows:
        if row.outcome == "n/a" and row.test.startswith("passive/"):
            # None of these few tests saw anything that it speaks of.
            continue
        made.outcomes[row.test] = row.outcome
        if row.outcome in {"pass", "n/a", "deviation"}:
            continue
        noticed = Noticed(
            test=row.test,
            requirements=row.requirements,
            outcome=row.outcome,
            expected=row.expected,
            seen=row.seen or row.reason,
        )
        marked = set(row.requirements)
        if mutant.requirements and mutant.requirements[0] in marked:
            if made.killed is None and row.outcome in NOTICED:
                made.killed = noticed
        elif marked & set(mutant.requirements):
            made.elsewhere.append(noticed)
        else:
            made.strays.append(noticed)
    if not made.outcomes and not trouble:
        made.trouble = "no test was run"
    return made


@dataclass(slots=True, kw_only=True)
class NullResult:
    """What became of a node that is none.

    Attributes:
        kind: Which one.
        outcomes: How many tests ended how.
        passed: Tests that passed, which none may.
        seconds: How long it took.
        trouble: Why nothing was judged, when nothing was.
    """

    kind: str
    outcomes: dict[str, int]
    passed: list[str]
    seconds: float
    trouble: str = ""


@dataclass(slots=True, kw_only=True)
class Proof:
    """The whole campaign.

    Attributes:
        seed: Of the samples.
        bound: Stray kills that a mutant may have.
        correct: The node that breaks no rule.
        results: Of each mutant.
        nulls: Of each node that is none.
        tests: The requirements that each test marks.
        seconds: How long it took.
        started_at: When it began, UTC.
    """

    seed: int
    bound: int
    tests: Tests
    correct: Result | None = None
    results: list[Result] = field(default_factory=list)
    nulls: list[NullResult] = field(default_factory=list)
    seconds: float = 0.0
    started_at: str = ""

    @property
    def survivors(self) -> list[Result]:
        """Mutants that no test of their own noticed."""
        return [result for result in self.results if result.killed is None]

    @property
    def wild(self) -> list[Result]:
        """Mutants that more tests of other requirements noticed than may."""
        return [result for result in self.results if len(result.strays) > self.bound]

    @property
    def flawed(self) -> list[str]:
        """Tests that the correct node did not pass."""
        if self.correct is None:
            return []
        return sorted(
            test for test, outcome in self.correct.outcomes.items() if outcome not in {"pass", "n/a"}
        )

    @property
    def holds(self) -> bool:
        """Every mutant is noticed by its own test, few others notice it, the correct node passes, no null node does."""
        if self.correct is not None and self.correct.trouble:
            return False
        return not (self.survivors or self.wild or self.flawed) and not any(
            null.passed or null.trouble for null in self.nulls
        )


def unproven(marked: Iterable[str], mutants: Mapping[str, Mutant]) -> list[str]:
    """Returns requirements with a test that have no mutant of their own, and no reason why not."""
    own = {mutant.requirements[0] for mutant in mutants.values()}
    return sorted(set(marked) - own - set(UNPROVEN))


def document(proof: Proof, known: Mapping[str, Requirement]) -> dict[str, Any]:
    """Returns what stands in ``proof.json``."""
    of: dict[str, list[Result]] = {}
    for result in proof.results:
        of.setdefault(result.requirements[0], []).append(result)
    tests: dict[str, list[str]] = {}
    for test, marked in proof.tests.items():
        for name in marked:
            tests.setdefault(name, []).append(test)
    strays = Counter(len(result.strays) for result in proof.results)
    return {
        "started_at": proof.started_at,
        "seed": proof.seed,
        "seconds": round(proof.seconds, 1),
        "summary": {
            "mutants": len(proof.results),
            "killed": len(proof.results) - len(proof.survivors),
            "survivors": [result.mutant for result in proof.survivors],
            "requirements_with_a_mutant": len(of),
            "requirements_proven": sum(all(one.killed for one in made) for made in of.values()),
            "strays": {str(number): strays[number] for number in sorted(strays)},
            "stray_bound": proof.bound,
            "beyond_the_bound": [result.mutant for result in proof.wild],
            "correct_node": {
                "outcomes": dict(Counter(proof.correct.outcomes.values())) if proof.correct else {},
                "not_passed": proof.flawed,
            },
            "null_passes": sum(len(null.passed) for null in proof.nulls),
            "holds": proof.holds,
        },
        "requirements": {
            name: {
                "tests": sorted(tests.get(name, ())),
                "mutants": [result.mutant for result in of.get(name, ())],
                "killed": [result.mutant for result in of.get(name, ()) if result.killed],
                "unproven": UNPROVEN.get(name, ""),
            }
            for name in known
        },
        "mutants": {result.mutant: _plain(result) for result in proof.results},
        "nulls": {null.kind: _plain(null) for null in proof.nulls},
    }


def _plain(result: Result | NullResult) -> dict[str, Any]:
    return asdict(result)


def line_of(result: Result, bound: int) -> str:
    """Returns what the terminal says about one mutant."""
    if result.killed is None and result.trouble:
        said = f"NOT JUDGED: {result.trouble}"
    elif result.killed is None:
        where = f"; noticed elsewhere by {result.elsewhere[0].test}" if result.elsewhere else ""
        said = f"SURVIVED {len(result.outcomes)} tests{where}"
    else:
        said = f"killed by {short(result.killed.test)}"
        said += f" ({result.trouble})" if result.trouble else ""
    if result.strays:
        said += f"; {len(result.strays)} stray" + (" (too many)" if len(result.strays) > bound else "")
    return f"{result.mutant:<15} {result.seconds:5.1f} s  {said}"


def short(test: str) -> str:
    """Returns a test's id without its folder and file: ``test_close_is_not_answered[GENERIC]``."""
    return test.rpartition("::")[2] or test


def sentences(proof: Proof) -> Sequence[str]:
    """Returns what the terminal says at the end."""
    killed = len(proof.results) - len(proof.survivors)
    strays = Counter(len(result.strays) for result in proof.results)
    said = []
    if proof.results:
        said.append(f"{killed} of {len(proof.results)} mutants killed by a test of their own requirement")
        said.append(
            "stray kills: " + ", ".join(f"{strays[number]} with {number}" for number in sorted(strays))
        )
    if proof.correct is not None:
        counts = Counter(proof.correct.outcomes.values())
        said.append(
            "correct node: "
            + (proof.correct.trouble or ", ".join(f"{counts[name]} {name}" for name in sorted(counts)))
        )
    said += [f"not passed by the correct node: {test}" for test in proof.flawed]
    said += [f"survived: {result.mutant} ({result.title})" for result in proof.survivors]
    said += [f"too many stray kills: {result.mutant} ({len(result.strays)})" for result in proof.wild]
    for null in proof.nulls:
        counts = Counter(null.outcomes)
        words = ", ".join(f"{counts[name]} {name}" for name in sorted(counts)) or null.trouble
        said.append(f"null node {null.kind}: {words}")
    said.append(f"{proof.seconds:.0f} s; the proof {'holds' if proof.holds else 'does not hold'}")
    return said
