"""The pytest plugin: options, marks, fixtures, canary, the outcome of each test, the rows of a run.

Idle in every pytest run that collects no test marked ``req``.
"""

from __future__ import annotations

import contextlib
import random
import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from conformance.config import RunConfig, check_unused, prepare_run_dir
from conformance.errors import HarnessError, Inconclusive, UsageError
from conformance.nodes import Node, node_of
from conformance.recorder import CaptureWriter, NodeFacts, close_run, observation_rows, open_run
from conformance.requirements import LEVELS, requirements, strictest
from conformance.tester import Tester
from conformance.verdicts import Judged, compare, explain, judge, short
from spark_reports.rows import (
    CAPTURES,
    OBSERVATIONS,
    OUTCOMES,
    VERDICTS,
    ObservationRow,
    RowsError,
    RowWriter,
    RunRow,
    VerdictRow,
    new_run_id,
)

req = pytest.mark.req
"""Names the requirements that a test covers: ``@req("ZN-INIT-045")``."""

EXIT_USAGE = int(pytest.ExitCode.USAGE_ERROR)

EXIT_HARNESS = 3
"""Exit code when the node or the harness failed, so that nothing was judged."""

LETTERS = {"pass": ".", "fail": "F", "warning": "w", "deviation": "d", "n/a": "-", "inconclusive": "?"}


@dataclass(slots=True)
class Run:
    """What the tests of one pytest process share.

    Attributes:
        config: The options.
        node: The node, running.
    """

    config: RunConfig
    node: Node


_settings_key = pytest.StashKey[RunConfig]()
_run_key = pytest.StashKey[Run]()
_testers_key = pytest.StashKey[list[Tester]]()
_result_key = pytest.StashKey[dict[str, Any]]()
_broken_key = pytest.StashKey[tuple[str, int]]()


# Options --------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options, all in one group."""
    group = parser.getgroup("zenoh", "Zenoh conformance")
    add = group.addoption
    add(
        "--node",
        default="pypi",
        metavar="NODE",
        help="node under test: a locator (tcp/127.0.0.1:7447), or pypi[:VERSION] to start eclipse-zenoh (default: pypi)",
    )
    add(
        "--run-dir", default=None, metavar="DIR", help="folder for rows and captures (default: runs/<run-id>)"
    )
    add(
        "--req",
        action="append",
        default=[],
        metavar="ID",
        help="run only tests of a requirement or area: ZN-INIT-045, ZN-INIT; may be repeated",
    )
    add(
        "--level",
        action="append",
        default=[],
        metavar="LEVEL",
        type=str.upper,
        help=f"run only tests of a level ({', '.join(LEVELS)}); may be repeated",
    )
    add(
        "--seed",
        type=int,
        default=None,
        metavar="N",
        help="seed of all random choices (default: a new one, shown)",
    )
    add(
        "--time-scale",
        type=float,
        default=1.0,
        metavar="X",
        help="multiply all waiting times, for slow nodes (default: 1)",
    )
    add("--strict-should", action="store_true", help="a broken SHOULD is a fail, not a warning")
    add(
        "--profile",
        default="",
        metavar="IMPL[:VERSION]",
        help="what a node is that you started yourself: eclipse-zenoh:1.10.2; chooses the recorded deviations",
    )
    add(
        "--i-may-test-this-node",
        action="store_true",
        help="allow a node that is not on this machine's loopback",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the mark, and the recorder in the process that writes."""
    config.addinivalue_line("markers", "req(*ids): requirements (ZN-...) that a conformance test covers")
    if not _is_worker(config):
        config.pluginmanager.register(Recorder(config), "zenoh-recorder")


def _is_worker(config: pytest.Config) -> bool:
    """Tells whether this process is a worker of pytest-xdist."""
    return hasattr(config, "workerinput")


def _settings(config: pytest.Config) -> RunConfig:
    """Returns the options, checked; touches nothing on disk.

    Raises:
        UsageError: An option makes no sense.
    """
    if _settings_key in config.stash:
        return config.stash[_settings_key]
    option = config.getoption
    shared = getattr(config, "workerinput", {}).get("zenoh")
    if shared:  # folder and seed come from the controller
        run_dir, seed = Path(shared["run_dir"]), shared["seed"]
    else:
        here = config.invocation_params.dir
        base = config.rootpath if config.inipath else here
        wanted = option("--run-dir")
        run_dir = here / wanted if wanted else base / "runs" / new_run_id()
        seed = option("--seed") if option("--seed") is not None else random.SystemRandom().randrange(1 << 32)
    if not 0 <= seed < 1 << 63:
        raise UsageError("--seed must be a number from 0 to 9223372036854775807")
    if option("--time-scale") <= 0:
        raise UsageError("--time-scale must be more than 0")
    settings = RunConfig(
        node=option("--node"),
        run_dir=run_dir,
        run_id=run_dir.resolve().name,
        seed=seed,
        time_scale=option("--time-scale"),
        strict_should=option("--strict-should"),
        profile=option("--profile"),
        may_test=option("--i-may-test-this-node"),
    )
    config.stash[_settings_key] = settings
    return settings


# Collection -----------------------------------------------------------------------------------------


def _ids(item: pytest.Item) -> tuple[str, ...]:
    """Returns the requirements a test marks, in order, each once."""
    return tuple(dict.fromkeys(str(name) for mark in item.iter_markers("req") for name in mark.args))


def _test_id(nodeid: str) -> str:
    """Returns the id of a test without the place where the suite is installed."""
    return nodeid[nodeid.rfind("suite/") :] if "suite/" in nodeid else nodeid


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Checks the marks and deselects what --req and --level leave out."""
    judged = [item for item in items if item.get_closest_marker("req")]
    for item in items:
        if "conformance/suite/" in item.nodeid.replace("\\", "/") and not _ids(item):
            raise pytest.UsageError(f"{item.nodeid} names no requirement; mark it with @req")
    for item in judged:
        unknown = [name for name in _ids(item) if name not in requirements()]
        if unknown:
            raise pytest.UsageError(
                f"{item.nodeid} names {unknown[0]}, which requirements.toml does not have"
            )
    wanted = [name.upper() for name in config.getoption("--req")]
    levels = config.getoption("--level")
    _check_selection(wanted, levels)
    out = [item for item in judged if not _selected(_ids(item), wanted, levels)]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


def _check_selection(wanted: list[str], levels: list[str]) -> None:
    for name in wanted:
        if not any(known == name or known.startswith(f"{name}-") for known in requirements()):
            raise pytest.UsageError(
                f"--req {name}: no requirement and no area of that name; see conformance/requirements.toml"
            )
    for level in levels:
        if level not in LEVELS:
            raise pytest.UsageError(f"--level {level}: must be one of {', '.join(LEVELS)}")


def _selected(ids: tuple[str, ...], wanted: list[str], levels: list[str]) -> bool:
    by_name = not wanted or any(name == w or name.startswith(f"{w}-") for name in ids for w in wanted)
    by_level = not levels or any(requirements()[name].level in levels for name in ids)
    return by_name and by_level


def pytest_collection_finish(session: pytest.Session) -> None:
    """Starts the node once it is known that there is something to judge."""
    config = session.config
    if config.option.collectonly or not any(_ids(item) for item in session.items):
        return
    try:
        settings = _settings(config)
        if not _is_worker(config):
            check_unused(settings.run_dir)
        prepare_run_dir(settings.run_dir)
        name = getattr(config, "workerinput", {}).get("workerid", "node")
        run = Run(settings, node_of(settings, str(name)))
        run.node.start()
        config.stash[_run_key] = run
        run.node.ask(settings.reply)
    except HarnessError as error:
        code = EXIT_USAGE if isinstance(error, UsageError) else EXIT_HARNESS
        if not _is_worker(config):
            pytest.exit(str(error), code)
        # A worker of pytest-xdist cannot end the run; its first report tells the controller.
        config.stash[_broken_key] = (str(error), code)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a worker of pytest-xdist the folder and the seed, so that all workers share a run."""
    try:
        settings = _settings(node.config)
        check_unused(settings.run_dir)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    node.workerinput["zenoh"] = {"run_dir": str(settings.run_dir), "seed": settings.seed}


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends a node of ours."""
    if _run_key in config.stash:
        config.stash[_run_key].node.stop()


# Each test ------------------------------------------------------------------------------------------


@pytest.fixture
def run_config(request: pytest.FixtureRequest) -> RunConfig:
    """The options of the run: T1, slack, seed."""
    return request.config.stash[_run_key].config


@pytest.fixture
def node(request: pytest.FixtureRequest) -> Node:
    """The node under test, running."""
    return request.config.stash[_run_key].node


@pytest.fixture
def tester(
    request: pytest.FixtureRequest, node: Node, run_config: RunConfig
) -> Generator[Tester, None, None]:
    """Our end: makes links and sessions, records everything; ends all links behind the test."""
    with _testing(request, node, run_config) as made:
        yield made


@pytest.fixture
def tester_of(
    request: pytest.FixtureRequest, node: Node, run_config: RunConfig
) -> Generator[Callable[..., Tester], None, None]:
    """Makes testers of nodes with a configuration of their own: ``tester_of(transport__unicast__max_sessions=1)``.

    The test is n/a when the node was not started by us.
    """
    with contextlib.ExitStack() as stack:

        def make(**config: Any) -> Tester:
            variant = stack.enter_context(node.variant(**config))
            return stack.enter_context(_testing(request, variant, run_config))

        yield make


@pytest.fixture
def launched(node: Node) -> Generator[Callable[..., Node], None, None]:
    """Launches nodes with a configuration of their own, without waiting for them: ``launched(mode="client")``.

    They are ended behind the test. The test is n/a when the node was not started by us.
    """
    with contextlib.ExitStack() as stack:

        def make(**config: Any) -> Node:
            variant = node.variant(**config)
            stack.callback(variant.stop)
            variant.launch()
            return variant

        yield make


@contextlib.contextmanager
def _testing(request: pytest.FixtureRequest, node: Node, config: RunConfig) -> Generator[Tester, None, None]:
    made = Tester(node.locator, config.rng(_test_id(request.node.nodeid)), config.reply)
    request.node.stash.setdefault(_testers_key, []).append(made)
    try:
        yield made
    finally:
        made.close()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fails a test of a worker that has no node."""
    if _broken_key in item.config.stash and _ids(item):
        message, code = item.config.stash[_broken_key]
        item.stash[_result_key] = {"broken": message, "code": code}
        pytest.fail(message, pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Runs a test between two canaries and judges it."""
    ids = _ids(item)
    if not ids:
        return (yield)
    run = item.config.stash[_run_key]
    started = time.time_ns()
    raised: Exception | None = None
    try:
        _canary(run)
        yield
    except Exception as error:  # noqa: BLE001  (what is no judgement is raised again below)
        raised = error
    judged = judge(raised)
    _look_after(run, judged)
    compare(
        judged,
        ids,
        _test_id(item.nodeid),
        (run.node.impl, run.node.version),
        strict_should=run.config.strict_should,
    )
    testers = item.stash.get(_testers_key, [])
    row = _verdict_row(run.config, item, judged, testers, started)
    item.stash[_result_key] = {
        "verdict": asdict(row),
        "observations": [asdict(seen) for seen in _record(run.config, row, testers)],
        "node": asdict(NodeFacts.of(run.node)),
    }
    if raised is not None and judged.bug:
        raise raised
    if row.outcome == "n/a":
        pytest.skip(row.reason)
    if row.outcome in {"fail", "inconclusive"}:
        where = f"{run.node.impl} {run.node.version} at {run.node.locator}"
        pytest.fail(explain(row, judged, where, testers, run.config), pytrace=False)
    return None


def _canary(run: Run) -> None:
    """Makes sure that the node is well before the stimulus.

    Raises:
        Inconclusive: It is not.
    """
    problem = run.node.problem(run.config.reply)
    if problem:
        _heal(run)
        raise Inconclusive(f"the node was not well before the test: {problem}")


def _look_after(run: Run, judged: Judged) -> None:
    """Looks whether the test harmed the node; starts a node of ours again."""
    problem = run.node.problem(run.config.reply)
    if not problem:
        return
    if judged.outcome != "inconclusive":
        judged.outcome = "fail"
        judged.expected = judged.expected or "the node stays well"
        judged.seen = f"{judged.seen}; then {problem}" if judged.seen else problem
    _heal(run)


def _heal(run: Run) -> None:
    """Starts a node of ours again; one that does not come up ends the run."""
    if not run.node.owned:
        return
    try:
        run.node.restart()
    except HarnessError as error:
        pytest.exit(str(error), EXIT_HARNESS)


def _verdict_row(
    config: RunConfig, item: pytest.Item, judged: Judged, testers: list[Tester], started: int
) -> VerdictRow:
    test = _test_id(item.nodeid)
    capture = re.sub(r"[^A-Za-z0-9_.]+", "-", test.removeprefix("suite/")).strip("-") + ".pcapng"
    repeat = ["pytest", f"conformance/{test}", "--node", config.node, "--seed", str(config.seed)]
    return VerdictRow(
        run_id=config.run_id,
        test=test,
        requirements=_ids(item),
        level=strictest(_ids(item)),
        outcome=judged.outcome,
        expected=judged.expected,
        seen=judged.seen,
        reason=judged.reason,
        stimulus=testers[-1].history.last_stimulus() if testers else "",
        duration_s=round((time.time_ns() - started) / 1e9, 6),
        started_ns=started,
        capture=f"{CAPTURES}/{capture}" if any(made.history.observations for made in testers) else "",
        repeat=shlex.join(repeat),
    )


def _record(config: RunConfig, row: VerdictRow, testers: list[Tester]) -> list[ObservationRow]:
    """Writes the capture of a test and returns the rows of what was seen."""
    rows: list[ObservationRow] = []
    for made in testers:
        rows += observation_rows(config.run_id, row.test, made.history, first=len(rows))
    if row.capture:
        title = f"{row.test} ({', '.join(row.requirements)})"
        verdict = f"verdict: {row.outcome}"
        if row.expected:
            verdict += f"; expected {row.expected}, seen {row.seen}"
        with CaptureWriter(config.run_dir / row.capture) as capture:
            for made in testers:
                capture.add(made.history, title, [verdict])
    return rows


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attaches verdict and observations to the report, which travels to the process that writes."""
    report = yield
    result = item.stash.get(_result_key, None)
    if result and (report.when == "call" or (report.when == "setup" and "broken" in result)):
        report.zenoh = result  # type: ignore[attr-defined]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Shows the outcomes of the suite as the reports call them."""
    result = getattr(report, "zenoh", None)
    if result is None or "broken" in result:
        return None
    outcome = result["verdict"]["outcome"]
    category = {"pass": "passed", "fail": "failed"}.get(outcome, outcome)
    return category, LETTERS[outcome], outcome.upper()


# The process that writes ------------------------------------------------------------------------------


class Recorder:
    """Writes the rows of a run and sums it up: in the only process, or in the controller of pytest-xdist."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._row: RunRow | None = None
        self._verdicts: RowWriter | None = None
        self._observations: RowWriter | None = None
        self._counts: Counter[str] = Counter()
        self._remarkable: list[VerdictRow] = []

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Writes the rows of a test."""
        result = getattr(report, "zenoh", None)
        if result is None:
            return
        if "broken" in result:
            pytest.exit(result["broken"], result["code"])
        if self._row is None:
            self._begin(NodeFacts(**result["node"]))
        assert self._verdicts is not None
        assert self._observations is not None
        verdict = result["verdict"]
        row = VerdictRow(**{**verdict, "requirements": tuple(verdict["requirements"])})
        self._verdicts.write(row)
        for seen in result["observations"]:
            self._observations.write(ObservationRow(**seen))
        self._counts[row.outcome] += 1
        if row.outcome not in {"pass", "n/a"}:
            self._remarkable.append(row)

    def _begin(self, facts: NodeFacts) -> None:
        settings = _settings(self._config)
        # Paths of this machine have no place in the rows.
        words = [
            word if "tcp/" in word else word.rstrip("/").rpartition("/")[2]
            for word in self._config.invocation_params.args
        ]
        try:
            self._row = open_run(settings, facts, "conformance", shlex.join(["pytest", *words]))
            self._verdicts = RowWriter(settings.run_dir / VERDICTS)
            self._observations = RowWriter(settings.run_dir / OBSERVATIONS)
        except (OSError, RowsError, UsageError) as error:
            pytest.exit(f"cannot write to the run folder: {error}", EXIT_HARNESS)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Completes the files of the run; those of an interrupted run stay without a footer."""
        if self._row is None or self._verdicts is None or self._observations is None:
            return
        ended = exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
        if ended:
            self._verdicts.close()
            self._observations.close()
        close_run(_settings(self._config), self._row, failed=not ended)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Lists what is remarkable and says where the rows are."""
        if self._row is None:
            return
        write = terminalreporter
        write.section(f"Zenoh conformance: {self._row.node_impl} {self._row.node_version}")
        for row in sorted(self._remarkable, key=lambda row: (OUTCOMES.index(row.outcome), row.test)):
            write.line(f"{row.outcome:<12} {', '.join(row.requirements)}  {row.test}")
            if row.expected:
                write.line(f"{'':<12} expected {row.expected}; seen {row.seen}")
            if row.outcome == "inconclusive":
                write.line(f"{'':<12} {row.reason}")
        counts = ", ".join(f"{self._counts[name]} {name}" for name in OUTCOMES if self._counts[name])
        write.line(f"outcomes: {counts}")
        write.line(f"seed {self._row.seed}; rows and captures: {short(_settings(self._config).run_dir)}")
