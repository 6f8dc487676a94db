"""What a campaign is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fuzz.cases import Source
from fuzz.states import State


@dataclass(frozen=True, slots=True)
class Setting:
    """What sources may depend on.

    Attributes:
        seed: Of the run.
        corpus: Folder in which a corpus that grows is kept from run to run; None for none.
    """

    seed: int = 0
    corpus: Path | None = None


@dataclass(frozen=True)
class Campaign:
    """A named plan.

    Attributes:
        name: For the command line.
        purpose: One line.
        make: Makes its sources.
        weight: Its share of the time of ``run all``, against the others'.
        oracles: Names of oracles on top of the usual ones; see ``fuzz.oracles``.
        without: Names of oracles that do not apply: what it sends brings about what they object to.
        repeats: It sends what others send, where it does not belong: of lies they all have, theirs come first.
    """

    name: str
    purpose: str
    make: Callable[[Setting], Iterable[Source]]
    weight: float = 1.0
    oracles: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    repeats: bool = False

    @cached_property
    def _listed(self) -> list[Source]:
        return list(self.make(Setting()))

    @property
    def states(self) -> list[State]:
        """The states its cases leave in."""
        return sorted({source.state for source in self._listed})

    @property
    def messages(self) -> list[str]:
        """The kinds of messages it lies about."""
        return sorted({source.message for source in self._listed})
