"""What a campaign of mutants found, for the page of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from conformance.errors import UsageError
from spark_reports.rows import NotJson, from_json


@dataclass(frozen=True, slots=True)
class Proof:
    """Which tests are known to fail when they should.

    Attributes:
        started_at: When the campaign began.
        mutants: How many there were.
        killed: How many a test of their own requirement noticed.
        survivors: Those that none noticed.
        proven: Requirements all of whose mutants were killed.
        null_passes: Positive passes against nodes that can do nothing.
    """

    started_at: str
    mutants: int
    killed: int
    survivors: tuple[str, ...]
    proven: frozenset[str]
    null_passes: int


def read_proof(path: Path) -> Proof:
    """Reads ``proof.json``.

    Raises:
        UsageError: It is none.
    """
    try:
        value = from_json(path.read_bytes())
        summary, requirements = value["summary"], value["requirements"]
        return Proof(
            started_at=str(value["started_at"]),
            mutants=int(summary["mutants"]),
            killed=int(summary["killed"]),
            survivors=tuple(str(name) for name in summary["survivors"]),
            proven=frozenset(
                name
                for name, one in requirements.items()
                if one["mutants"] and len(one["mutants"]) == len(one["killed"])
            ),
            null_passes=int(summary["null_passes"]),
        )
    except OSError as error:
        raise UsageError(f"--proof {path}: cannot be read ({error.strerror})") from None
    except (NotJson, KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"--proof {path}: is no proof.json ({error})") from None
