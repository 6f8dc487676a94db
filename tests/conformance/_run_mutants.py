"""Runs the suite against mutants of the real node, all in one process.

Started as ``python -m tests.conformance._run_mutants FOLDER NAME...``; writes a run folder for each mutant.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Generator
from pathlib import Path
from unittest.mock import patch

import pytest

import conformance
from conformance.config import RunConfig
from conformance.nodes import node_of
from conformance.running import writer
from tests.conformance._bending import BendingProxy, Mutant
from tests.conformance._mutants import MUTANTS

TRIES = 2
"""A hunt in which a test was inconclusive is begun anew once."""


class Hunt:
    """Bends during the body of a test, so that the canaries see a node that is well.

    Once a requirement has a test that fails, its other tests are left out.

    Attributes:
        unsure: A test was inconclusive, as on a machine that is busy, and a requirement has none that fails.
    """

    def __init__(self, proxy: BendingProxy, mutant: Mutant) -> None:
        self._proxy = proxy
        self._mutant = mutant
        self._missing = set(mutant.requirements)
        self._inconclusive = False

    @property
    def unsure(self) -> bool:
        return self._inconclusive and bool(self._missing)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        ids = {str(name) for mark in item.iter_markers("req") for name in mark.args}
        if not ids & self._missing:
            pytest.skip("its requirements have a test that fails")

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self) -> Generator[None, object, object]:
        self._proxy.mutant = self._mutant
        try:
            return (yield)
        finally:
            self._proxy.mutant = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        result = getattr(report, "zenoh", None)
        if not result:
            return
        verdict = result["verdict"]
        self._inconclusive |= verdict["outcome"] == "inconclusive"
        if verdict["outcome"] in {"fail", "warning"}:
            self._missing -= set(verdict["requirements"])


def main(folder: Path, names: list[str]) -> int:
    """Runs the tests of each mutant's requirements."""
    config = RunConfig(node="pypi", run_dir=folder / f"node-{names[0]}", run_id="node", seed=0)
    # Nobody looks at the pages, which take longer than the tests.
    with node_of(config) as node, patch.object(writer, "write_all"):
        proxy = BendingProxy(node.locator)
        options = ["--node", proxy.locator, "--profile", f"{node.impl}:{node.version}", "--seed", "1"]
        options += ["--time-scale", "0.3", "-q", "-p", "no:cacheprovider"]
        # This module has imported the packages, so that an installed pytest plugin cannot rewrite them.
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        # Other plugins do nothing here but take time, and this one collects garbage ten times behind each run.
        options += ["--disable-plugin-autoload", "-p", "no:unraisableexception"]
        for name in names:
            mutant = MUTANTS[name]
            chosen = [word for requirement in mutant.requirements for word in ("--req", requirement)]
            for _ in range(TRIES):
                shutil.rmtree(folder / name, ignore_errors=True)
                hunt = Hunt(proxy, mutant)
                command = [*files(mutant), *options, *chosen, "--run-dir", str(folder / name)]
                pytest.main(command, plugins=[hunt])
                if not hunt.unsure:
                    break
        proxy.close()
    for failure in proxy.failures:
        sys.stderr.write(f"{failure}\n")
    return 1 if proxy.failures else 0


def files(mutant: Mutant) -> list[str]:
    """Returns the files of the suite that name one of a mutant's requirements."""
    suite = Path(conformance.__file__).parent / "suite"
    return [
        str(file)
        for file in sorted(suite.glob("test_*.py"))
        if any(f'"{requirement}"' in file.read_text() for requirement in mutant.requirements)
    ]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
