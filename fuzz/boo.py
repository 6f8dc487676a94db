"""The boofuzz engine: our cases in boofuzz's loop, each on links of its own.

What is set differently from boofuzz's defaults, and why: no web page unless it is asked for (it opens a port and
waits for ENTER at the end), its own record in memory unless a file is given (it commits to disk for each case), no
thresholds (it skips silently; we mask and say so), no restart by a monitor (it sleeps three seconds behind it).
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

from boofuzz import Fuzzable, Request, Session, Target
from boofuzz.connections import ITargetConnection
from boofuzz.exception import BoofuzzFailure
from boofuzz.monitors import BaseMonitor
from boofuzz.mutation import Mutation
from boofuzz.mutation_context import MutationContext
from boofuzz.web.app import app

from fuzz.cases import Case
from fuzz.fast import Judge, Ran
from fuzz.plan import Numbered
from fuzz.player import NotReached, Player, run
from fuzz.player.pipe import Pipe
from fuzz.player.tasks import GivenUp
from fuzz.script import Do
from scapy_layers.primitives import Reader

NUMBERS = ("rid",)
"""Live values that are VLE integers on the wire, sequence numbers aside."""

KEPT = 1000
"""So many cases that harmed nobody stay in boofuzz's database when it is a file."""


class Boo:
    """Plays cases in boofuzz's loop, one after the other, each on links of its own.

    Args:
        make: Makes a player.
        judge: Is told of every case.
        database: Where boofuzz keeps its record; in memory when None.
        web: Port of boofuzz's own page on loopback; None for none.

    Attributes:
        one_by_one: No case is played beside another.
        results: What boofuzz shows of cases that did harm, by their numbers.
    """

    name = "boofuzz"
    one_by_one = True

    def __init__(
        self,
        make: Callable[[], Player],
        judge: Judge,
        database: Path | None = None,
        web: int | None = None,
    ) -> None:
        self.player = make()
        self._judge = judge
        self._database = database
        self._web = web
        self._scripts: dict[str, Request] = {}
        self._ran: Ran | None = None
        self._links = 0
        self._goes_on = True
        self.results: dict[int, list[str]] = {}

    @property
    def played(self) -> int:
        """How many cases were begun."""
        return self._links

    @property
    def in_flight(self) -> list[Ran]:
        """The case that is being played."""
        return [self._ran] if self._ran is not None else []

    def play(self, cases: Iterator[Numbered]) -> bool:
        """Plays cases until there are no more, or the judge says stop; returns whether all were played."""
        self._goes_on = True
        listed = list(cases)
        left = iter(listed)
        requests = {self.request_of(one.case).name: self.request_of(one.case) for one in listed}
        with contextlib.closing(_Loop(self, requests, left, database=self._database, web=self._web)) as loop:
            loop.fuzz()
        self._rest = list(left)
        return not self._rest

    def abandon(self) -> list[Numbered]:
        """Closes all links; returns what was being played."""
        self.player.close()
        running = [ran.numbered for ran in self.in_flight]
        self._ran = None
        return running

    def waiting(self) -> list[Numbered]:
        """Takes out the cases that were not played."""
        left, self._rest = self._rest, []
        return left

    # Called by boofuzz, through the classes below ------------------------------------------------------

    @property
    def goes_on(self) -> bool:
        """The judge wants more."""
        return self._goes_on

    def request_of(self, case: Case) -> Request:
        """Returns the request of a case; one that is not about fields has one of its own kind."""
        if case.request is not None:
            return case.request
        name = f"{case.state} {case.source.name}"
        if name not in self._scripts:
            self._scripts[name] = Request(name, children=[_Scripted("script")])
        return self._scripts[name]

    def mutations_of(self, case: Case) -> dict[str, Any]:
        """Returns the mutations of a case by the name boofuzz knows the element by."""
        if case.request is not None:
            return dict(case.mutations)
        element = self.request_of(case).stack[0]
        mutation = Mutation(value=case, qualified_name=element.qualified_name, index=0)
        return {element.qualified_name: mutation}

    def begin(self, numbered: Numbered) -> None:
        """Makes a case the current one."""
        self._links += 1
        case = numbered.case
        self._ran = Ran(numbered, case.steps, self._links, 0, case.state, time.time_ns(), time.perf_counter())

    def open(self) -> None:
        """Brings the link of the current case into its state.

        Raises:
            BoofuzzFailure: That failed.
        """
        ran = self._current
        try:
            self.player.close()
            run(self.player.reaching(ran.state), self._judge.failed)
        except (NotReached, GivenUp) as error:
            ran.played.failure = str(error)
            raise BoofuzzFailure(message=str(error)) from None
        ran.started = time.perf_counter()

    def live(self) -> dict[str, Any]:
        """Returns the values that only this link has, as boofuzz's session variables."""
        pipe = self.player.links.get("a")
        return {} if pipe is None else values_of(pipe)

    def send(self, data: bytes) -> int:
        """Sends what boofuzz made of the request, or plays the steps of a case that is more than one message."""
        ran = self._current
        played = ran.played
        played.start, played.valid = self.player.trace.end, ran.numbered.case.source.all_valid
        self.player.nth_play = ran.numbered.number
        pipe = self.player.links["a"]
        if ran.numbered.case.request is None:
            with contextlib.suppress(NotReached, GivenUp):
                run(self.player.steps(ran.steps, played), self._judge.failed)
        else:
            for name in ran.steps[0].data.names:
                _ = pipe[name] if name in {"sn", "sn_be"} else None
            played.sent.append(data)
            pipe.send(data, ran.steps[0].note)
        return len(data)

    def receive(self) -> bytes:
        """Waits for what becomes of it."""
        played = self._current.played
        # What has become of the node is for the judge to say.
        with contextlib.suppress(GivenUp):
            run(self.player.conclude(played), self._judge.failed)
        return b"".join(answer.batch for answer in played.answers)

    def judge(self) -> bool:
        """Tells the judge, and boofuzz whether the node is well."""
        ran = self._current
        self.player.close()
        self._ran = None
        self._goes_on = self._judge.ended(ran) and not self._judge.rests()
        return self._goes_on and not ran.played.failure

    @property
    def _current(self) -> Ran:
        assert self._ran is not None
        return self._ran


def values_of(pipe: Pipe) -> dict[str, Any]:
    """Returns the live values of a link as the requests want them: numbers and bytes, not as they stand on the wire."""
    counted = Reader(pipe.values.get("cookie", b"\x00"))
    counted.vle()
    numbers = {name: int(Reader(value).vle()) for name, value in pipe.values.items() if name in NUMBERS}
    return {
        **dict.fromkeys(NUMBERS, 0),
        **numbers,
        "zid": pipe.zid,
        "cookie": counted.rest(),
        "sn": pipe.sn & pipe.sn_mask,
        "sn_be": pipe.sn_be & pipe.sn_mask,
    }


class _Scripted(Fuzzable):
    """Stands for the steps of a case that is not about the fields of one message."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, default_value=b"")

    def encode(self, value: Any, mutation_context: Any) -> bytes:  # noqa: ARG002  (boofuzz calls by name)
        """Returns the bytes that stand fast; live values are filled in when they leave."""
        if not isinstance(value, Case):
            return b""
        return b"".join(
            piece
            for step in value.steps
            if step.do is Do.SEND
            for piece in step.data.pieces
            if isinstance(piece, bytes)
        )


class _Connection(ITargetConnection):
    """boofuzz's way to our links."""

    def __init__(self, engine: Boo) -> None:
        self._engine = engine

    @property
    def info(self) -> str:
        return "fuzz.player"

    def open(self) -> None:
        self._engine.open()

    def close(self) -> None:
        """The links are closed when the case was judged."""

    def send(self, data: bytes) -> int:
        return self._engine.send(data)

    def recv(self, max_bytes: int) -> bytes:  # noqa: ARG002  (boofuzz calls by name)
        return self._engine.receive()


class _Monitor(BaseMonitor):
    """boofuzz's way to our oracles."""

    def __init__(self, engine: Boo) -> None:
        super().__init__()
        self._engine = engine

    def __repr__(self) -> str:
        """Stands on boofuzz's page and in its database."""
        return "zenoh-fuzz"

    def post_send(self, **_: object) -> bool:
        return self._engine.judge()

    def get_crash_synopsis(self) -> str:
        return "see the row of this case in fuzz_cases.jsonl"


class _Loop(Session):
    """boofuzz's loop over our cases in our order.

    Attributes:
        page: Serves boofuzz's own page, which shows the loop that was made last; None until there is one.
    """

    page: ClassVar[Thread | None] = None

    def __init__(
        self,
        engine: Boo,
        requests: dict[str, Request],
        cases: Iterator[Numbered],
        *,
        database: Path | None,
        web: int | None,
    ) -> None:
        super().__init__(
            target=Target(connection=_Connection(engine), monitors=[_Monitor(engine)]),
            web_port=web,
            keep_web_open=False,
            fuzz_loggers=[],
            # boofuzz keeps a record of its own in any case.
            db_filename=str(database) if database else ":memory:",
            fuzz_db_keep_only_n_pass_cases=KEPT if database else 1,
            crash_threshold_request=sys.maxsize,
            crash_threshold_element=sys.maxsize,
            receive_data_after_each_request=False,
            receive_data_after_fuzz=True,
            # Whoever plays this starts the node again, and knows when it is well.
            restart_sleep_time=0,
        )
        # Numbers go on from loop to loop, as the page shows all of them.
        self.monitor_results = engine.results
        # Of a monitor of processes, which boofuzz only makes on Windows; its page of a case asks for it.
        self.procmon_results: dict[int, str] = {}
        self._engine = engine
        self._cases = cases
        self._edges = {
            name: self.connect(request, callback=self._splice) for name, request in requests.items()
        }

    def close(self) -> None:
        """Ends boofuzz's record, which boofuzz leaves open."""
        self._db_logger._database_connection.close()  # noqa: SLF001  (boofuzz has no other way)

    def build_webapp_thread(self, *args: Any, **kwargs: Any) -> Thread:
        """Returns what serves the page: one thread for all loops."""
        if _Loop.page is None:
            _Loop.page = super().build_webapp_thread(*args, **kwargs)
        app.session = self
        return _Loop.page

    def _splice(self, *_: object, test_case_context: Any, **__: object) -> None:
        """Gives the elements the values that only this link has."""
        test_case_context.session_variables.update(self._engine.live())

    def _generate_mutations_indefinitely(self, **_: object) -> Iterator[Any]:
        """Yields our cases where boofuzz would go through one field after the other."""
        self.total_mutant_index = self._engine.played
        for numbered in self._cases:
            case = numbered.case
            request = self._engine.request_of(case)
            self.fuzz_node = request
            self.total_mutant_index += 1
            self._engine.begin(numbered)
            yield MutationContext(
                message_path=[self._edges[request.name]], mutations=self._engine.mutations_of(case)
            )
            if not self._engine.goes_on:
                return
