"""Runs the suite against mutants of the real node, all in one process.

Started as ``python -m tests.conformance._run_mutants FOLDER NAME...``; writes a run folder for each mutant.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

import conformance
from conformance.config import RunConfig
from conformance.nodes import node_of
from tests.conformance._bending import BendingProxy, Mutant
from tests.conformance._mutants import MUTANTS


class OnlyInTests:
    """Bends during the body of a test, so that the canaries see a node that is well."""

    def __init__(self, proxy: BendingProxy, mutant: Mutant) -> None:
        self._proxy = proxy
        self._mutant = mutant

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self) -> Generator[None, object, object]:
        self._proxy.mutant = self._mutant
        try:
            return (yield)
        finally:
            self._proxy.mutant = None


def main(folder: Path, names: list[str]) -> int:
    """Runs the tests of each mutant's requirements."""
    config = RunConfig(node="pypi", run_dir=folder / "node", run_id="node", seed=0)
    suite = str(Path(conformance.__file__).parent)
    with node_of(config) as node:
        proxy = BendingProxy(node.locator)
        for name in names:
            mutant = MUTANTS[name]
            wanted = [word for requirement in mutant.requirements for word in ("--req", requirement)]
            pytest.main(
                [suite, "--node", proxy.locator, "--profile", f"{node.impl}:{node.version}", *wanted]
                + ["--run-dir", str(folder / name), "--seed", "1", "-q", "-p", "no:cacheprovider"],
                plugins=[OnlyInTests(proxy, mutant)],
            )
        proxy.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
