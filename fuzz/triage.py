"""Findings: one bucket a signature, its smallest case, and what is masked because it harms again and again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from fuzz.cases import Case
from fuzz.oracles import Harm, Objection

HITS = 3
"""After so many hits of a bucket, what hits it is masked: restarts would eat the time of the campaign."""


def bucket_of(objection: Objection, case: Case) -> str:
    """Returns the signature of a finding: class, place, message; the field when there is no place."""
    if objection.place:
        return f"{objection.harm} {objection.place} {case.message}"
    inside = case.field.startswith(case.message)
    return f"{objection.harm} {case.field if inside else f'{case.message} {case.field}'}"


@dataclass(slots=True)
class Finding:
    """A bucket.

    Attributes:
        bucket: The signature.
        number: Counts the buckets of a campaign, from 1.
        detail: What the oracle saw, from the smallest case.
        first: Number of the first case.
        smallest: Number of the case with the fewest bytes, its size, field and mutation.
        hits: How many cases fell into it.
        masked: Cases left out because of it.
        confirmed: How often the smallest case was sent again to a fresh node, and how often that harmed it.
    """

    bucket: str
    number: int
    detail: str
    first: int
    case: Case
    smallest: int
    size: int
    hits: int = 0
    masked: int = 0
    confirmed: tuple[int, int] = (0, 0)
    causes: set[tuple[str, str, str]] = field(default_factory=set)

    @property
    def harm(self) -> Harm:
        """The class."""
        return Harm(self.bucket.partition(" ")[0])


class Triage:
    """Sorts findings into buckets and says which cases to leave out.

    Attributes:
        findings: By signature, in the order they were found.
        masked: Cases left out: stimulus, field and kind of the lie -> how many.
    """

    def __init__(self) -> None:
        self.findings: dict[str, Finding] = {}
        self.masked: Counter[tuple[str, str, str]] = Counter()
        self._mask: dict[tuple[str, str, str], Finding] = {}

    def add(self, objection: Objection, case: Case, number: int, size: int) -> tuple[Finding, bool]:
        """Takes a finding.

        Args:
            objection: What the oracle saw.
            case: The case.
            number: Its number.
            size: Bytes of its stimulus.

        Returns:
            The bucket, and whether this is its smallest case so far.
        """
        bucket = bucket_of(objection, case)
        finding = self.findings.get(bucket)
        smaller = finding is None or size < finding.size
        if finding is None:
            finding = Finding(bucket, len(self.findings) + 1, objection.detail, number, case, number, size)
            self.findings[bucket] = finding
        elif smaller:
            finding.detail, finding.case, finding.smallest, finding.size = (
                objection.detail,
                case,
                number,
                size,
            )
        finding.hits += 1
        # A pair of lies says nothing about which of the two did it.
        if len(case.lies) == 1:
            finding.causes.add(case.kinds[0])
        if finding.hits >= HITS:
            self._mask |= dict.fromkeys(finding.causes, finding)
        return finding, smaller

    def leaves_out(self, case: Case) -> bool:
        """Tells whether a case is masked, and counts it."""
        for kind in case.kinds:
            finding = self._mask.get(kind)
            if finding is not None:
                finding.masked += 1
                self.masked[kind] += 1
                return True
        return False
