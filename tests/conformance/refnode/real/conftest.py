"""Real clients through a node: the reference node, and a real router as proof of the tests.

Every test runs on ``ref``. On ``real`` run only those with the mark ``spot_check``, unless
``-m real_router`` asks for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.conformance.refnode.real.clients import CLIENT, Client, Worker
from tests.conformance.refnode.real.nodes import NODES, RunningNode, Wanted, locator

HERE = Path(__file__).parent

WORKERS = 3
"""Processes with clients; those of a test are spread over them."""

REAL_MARK = "real_router"

Connect: TypeAlias = Callable[..., Client]
"""``connect(node, **config)``: a client of the node."""

StartNode: TypeAlias = Callable[..., RunningNode]
"""``start_node(Wanted(...), kind=...)``: another node."""

StartWorker: TypeAlias = Callable[[], Worker]
"""A process of its own, for a test that kills it."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{REAL_MARK}: runs on a real router (it proves that the test is right)"
    )
    config.addinivalue_line("markers", "spot_check: is run on a real router in every run, not only on demand")


def _only_real(parameters: Mapping[str, object]) -> bool:
    """Whether the reference node takes no part, neither alone nor in a line of nodes."""
    kinds = parameters.get("kinds", (parameters.get("kind"),))
    return set(kinds) == {"real"} if isinstance(kinds, tuple) else False


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = set()
    for item in items:
        if HERE in item.path.parents and isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            if not _only_real(item.callspec.params):
                continue
            item.add_marker(REAL_MARK)
            if not item.get_closest_marker("spot_check") and REAL_MARK not in config.option.markexpr:
                left_out.add(item)
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="module", params=["ref", "real"])
def kind(request: pytest.FixtureRequest) -> str:
    """What is in the middle."""
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def node(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """A router that the tests of a module share."""
    running = NODES[kind](Wanted(), tmp_path_factory.mktemp("node"))
    yield running
    running.stop()


@pytest.fixture
def start_any(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartNode]:
    """Starts nodes of the kind that a test names; what it has not ended itself is ended afterwards."""
    started: list[RunningNode] = []

    def start(wanted: Wanted | None = None, *, kind: str) -> RunningNode:
        started.append(NODES[kind](wanted or Wanted(), tmp_path_factory.mktemp("node")))
        return started[-1]

    yield start
    for running in reversed(started):
        running.stop()


@pytest.fixture
def start_node(kind: str, start_any: StartNode) -> StartNode:
    """Starts nodes of its own for a test, of the kind that is in the middle unless it names another."""

    def start(wanted: Wanted | None = None, *, kind: str = kind) -> RunningNode:
        return start_any(wanted, kind=kind)

    return start


class Crew:
    """Processes for the clients of all tests, each of them started when it is needed, and again if it died."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._workers: dict[int, Worker] = {}

    def __getitem__(self, number: int) -> Worker:
        """Returns a process by its number."""
        worker = self._workers.get(number)
        if worker is None or not worker.alive:
            self.end(number)
            worker = self._workers[number] = Worker(self._folder / f"worker-{number}.log")
        return worker

    def end(self, *numbers: int) -> None:
        """Ends these processes, or all."""
        for number in numbers or tuple(self._workers):
            if number in self._workers:
                self._workers.pop(number).end()


@pytest.fixture(scope="session")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """Processes for the clients of all tests."""
    crew = Crew(tmp_path_factory.mktemp("workers"))
    yield crew
    crew.end()


@pytest.fixture
def start_worker(tmp_path: Path) -> Iterator[StartWorker]:
    """Starts processes that a test may kill."""
    started: list[Worker] = []

    def start() -> Worker:
        started.append(Worker(tmp_path / f"worker-{len(started)}.log"))
        return started[-1]

    yield start
    for worker in started:
        worker.end()


@pytest.fixture
def connect(workers: Crew) -> Iterator[Connect]:
    """Connects clients, each in another process than the one before; closes them afterwards."""
    clients: list[Client] = []

    def start(
        node: RunningNode, *, proto: str = "tcp", worker: Worker | None = None, **config: Any
    ) -> Client:
        told = {path.replace("__", "/"): value for path, value in config.items()}
        chosen = worker or workers[len(clients) % WORKERS]
        client = chosen.open({**CLIENT, "connect/endpoints": [locator(node, proto)], **told})
        if worker is None:
            clients.append(client)
        return client

    yield start
    for client in clients:
        if client.worker.alive:
            client.close()
