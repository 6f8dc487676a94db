"""Counts what campaigns hold: ``python -m tests.fuzz.campaigns.counts [CAMPAIGN ...]``."""

from __future__ import annotations

import random
import sys

from fuzz.campaigns import CAMPAIGNS, Setting


def main(names: list[str]) -> None:
    """Prints a line for each campaign."""
    _say(f"{'campaign':12}{'sources':>9}{'pairs':>7}{'cases':>9}{'edges':>8}")
    for name in names or CAMPAIGNS:
        sources = list(CAMPAIGNS[name].make(Setting(1)))
        pairs = {(source.state, source.message) for source in sources}
        cases = sum(1 for source in sources for _ in source.cases(random.Random(1)))
        edges = {edge for source in sources for edge in source.edges()}
        _say(f"{name:12}{len(sources):9}{len(pairs):7}{cases:9}{len(edges):8}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
