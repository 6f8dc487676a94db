"""What was tried and what came back, counted against what the campaigns have.

A denominator is what the sources say that their cases cover; nothing in it is estimated. Counting costs a few
dictionary look-ups a case; what can be derived (fields, extensions, states) is derived at the end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import filterfalse
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from fuzz.cases import THEN, Edge, in_paths
from fuzz.progress import Share
from fuzz.states import FACTS, State
from spark_reports.rows import CoverageRow

if TYPE_CHECKING:
    from fuzz.cases import Case, Source

MOST_ANSWERS = 20_000
"""So many answers are told apart; those of yet other shapes are counted together."""

MOST_EDGES = 200_000
"""So many lies are told apart; sources that draw what they do may have more."""

OTHER = "(others)"

LONGEST_SHAPE = 400
"""Characters of an answer's shape that tell it from others; rows hold as many."""

_EXTENSION = re.compile(r"\.extensions\.([^.]+)")
_SAID = re.compile(r"^(?:an empty |a |an )?([A-Z]\w*)(?= with | of |$| twice| \d+ times)")


class Reply(Protocol):
    """What coverage needs of a case that was played; ``Played`` is one."""

    @property
    def shape(self) -> str:
        """What the answers look like."""

    @property
    def failure(self) -> str:
        """The state was not reached: why."""


class Part(NamedTuple):
    """How much of something was tried.

    Attributes:
        name: Of what, in the plural.
        tried: How many of them.
        planned: Of how many.
    """

    name: str
    tried: int
    planned: int

    @property
    def share(self) -> float:
        """From 0 to 1; 1 when there is nothing to try."""
        return self.tried / self.planned if self.planned else 1.0

    def __str__(self) -> str:
        share = f" ({100 * self.share:.1f} %)" if self.planned else ""
        return f"{self.tried} of {self.planned} {self.name}{share}"


class Coverage:
    """Counts.

    Args:
        sources: By campaign; or of campaigns that do not matter.

    Attributes:
        pairs: Cases by state and kind of message.
        edges: Cases by lie.
        strategies: Cases by kind of lie.
        answers: Cases by message and shape of the answer.
        endings: Cases by state and what became of the link.
        left_out: Lies of cases that were not played, because they would only have met a finding again.
    """

    def __init__(self, sources: Mapping[str, Iterable[Source]] | Iterable[Source] = ()) -> None:
        self.pairs: Counter[tuple[str, str]] = Counter()
        self.edges: Counter[Edge] = Counter()
        self.strategies: Counter[str] = Counter()
        self.answers: Counter[tuple[str, str]] = Counter()
        self.endings: Counter[tuple[str, str]] = Counter()
        self.left_out: set[Edge] = set()
        self._pairs: dict[tuple[str, str], set[str]] = {}
        self._kinds: dict[tuple[str, str], str] = {}
        self._sources: list[tuple[str, Source]] = []
        self._edges: dict[Edge, set[str]] = {}
        by_campaign = sources if isinstance(sources, Mapping) else {"": sources}
        for campaign, some in by_campaign.items():
            for source in some:
                self._pairs.setdefault((str(source.state), source.message), set()).add(campaign)
                self._kinds[campaign, source.name] = source.message
                self._sources.append((campaign, source))

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out what is planned: it is the same wherever it is made, and large."""
        return {**self.__dict__, "_pairs": {}, "_kinds": {}, "_sources": [], "_edges": {}}

    @property
    def planned(self) -> bool:
        """It knows denominators."""
        return bool(self._pairs)

    @property
    def _planned_edges(self) -> dict[Edge, set[str]]:
        """What the sources cover. Some sources take long to say: they are asked when it is needed."""
        while self._sources:
            campaign, source = self._sources.pop()
            for edge in source.edges():
                self._edges.setdefault(edge, set()).add(campaign)
        return self._edges

    # Counting ----------------------------------------------------------------------------------------

    def add(self, campaign: str, case: Case, played: Reply, verdict: str) -> bool:  # noqa: ARG002
        """Counts a case; returns whether its answer has a shape that was never seen for its message.

        A case whose state was not reached has not tried anything.
        """
        if played.failure:
            self.endings[str(case.state), "not reached"] += 1
            return False
        source = case.source
        self.pairs[str(source.state), source.message] += 1
        for edge in case.edges:
            self._tried(edge)
        self.strategies[case.strategy] += 1
        self.endings[str(case.state), verdict] += 1
        return self._answered(case.message, played.shape[:LONGEST_SHAPE])

    def leave_out(self, case: Case) -> None:
        """Takes in that a case is not played."""
        if len(self.left_out) < MOST_EDGES:
            self.left_out.update(case.edges)

    def _tried(self, edge: Edge) -> None:
        edges = self.edges
        if edge in edges or len(edges) < MOST_EDGES:
            edges[edge] += 1
        else:
            edges[Edge(edge.message, "", OTHER)] += 1

    def _answered(self, message: str, shape: str) -> bool:
        answers = self.answers
        key = message, shape
        if key in answers:
            answers[key] += 1
            return False
        if len(answers) >= MOST_ANSWERS:
            answers[message, OTHER] += 1
            return False
        answers[key] = 1
        return True

    def add_row(self, row: Mapping[str, Any]) -> None:
        """Counts a case of an earlier part of the run, from its row."""
        state, verdict = str(row["state"]), str(row["verdict"])
        if verdict == "inconclusive":
            self.endings[state, "not reached"] += 1
            return
        message = str(row["message"])
        source = str(row.get("source", ""))
        kind = self._kind(str(row["campaign"]), source, message)
        self.pairs[state, kind] += 1
        fields, words = str(row["field"]), str(row["mutation"])
        for edge in self._edges_of(source, message, kind, fields, words):
            self._tried(edge)
        self.strategies[str(row.get("strategy", ""))] += 1
        self.endings[state, verdict] += 1
        self._answered(message, str(row.get("answer", "")))

    def _kind(self, campaign: str, source: str, message: str) -> str:
        return self._kinds.get((campaign, source)) or self._kinds.get(("", source)) or message

    def _edges_of(self, source: str, message: str, kind: str, fields: str, words: str) -> Iterator[Edge]:
        """Returns what a row says it covered: a variant of a sequence, one lie, or two about different fields."""
        planned = self._planned_edges
        if message == in_paths(kind):
            message = kind
        if not fields:
            # A sequence is about no field, and goes by the name of its source; or one message is behind another.
            second, _, first = words.partition(f" {THEN} ")
            for edge in (Edge(message, source, words), Edge(kind, source, words), Edge(second, THEN, first)):
                if edge in planned:
                    yield edge
                    return
        whole = Edge(message, fields, words)
        if whole in planned or " + " not in words:
            yield whole
            return
        for field, said in zip(fields.split(" + "), words.split(" + "), strict=False):
            # What is done to a batch is laid on the message that fills it.
            first = field.partition(".")[0]
            for name in (*((kind, message) if first == "batch" else (message, kind)), first):
                if (edge := Edge(name, field, said)) in planned:
                    yield edge
                    break

    def merge(self, other: Coverage) -> None:
        """Adds what another one counted."""
        for mine, theirs in (
            (self.pairs, other.pairs),
            (self.edges, other.edges),
            (self.strategies, other.strategies),
            (self.answers, other.answers),
            (self.endings, other.endings),
        ):
            mine.update(theirs)  # type: ignore[arg-type]
        self.left_out |= other.left_out
        for key, names in other._pairs.items():
            self._pairs.setdefault(key, set()).update(names)
        for edge, names in other._edges.items():
            self._edges.setdefault(edge, set()).update(names)
        self._sources += other._sources
        self._kinds.update(other._kinds)

    # Figures -----------------------------------------------------------------------------------------

    @property
    def parts(self) -> list[Part]:
        """How much was tried of what there is, the coarse first."""
        planned = self._planned_edges
        return [
            _part("states", {state for state, _ in self.pairs}, {state for state, _ in self._pairs}),
            _part("pairs of state and message", set(self.pairs), self._pairs.keys()),
            _part("messages", {kind for _, kind in self.pairs}, {kind for _, kind in self._pairs}),
            _part(
                "fields",
                {edge[:2] for edge in self.edges},
                {edge[:2] for edge in planned if edge.of_field},
            ),
            _part("edges of fields", self.edges, filter(_of_field, planned)),
            _part("variants of sequences", self.edges, filterfalse(_of_field, planned)),
            _part("extensions", set(extensions(self.edges)), set(extensions(planned))),
        ]

    @property
    def hidden(self) -> int:
        """How many edges of fields were not tried because they would only have met a finding again."""
        return sum(map(_of_field, (self.left_out & self._planned_edges.keys()) - self.edges.keys()))

    def glance(self) -> tuple[Share, Share]:
        """Returns which states, and which pairs of state and message, were tried.

        It is cheap: nothing is looked at edge by edge.
        """
        tried = self._pairs.keys() & self.pairs.keys()
        states = Share.of((state for state, _ in tried), {state for state, _ in self._pairs})
        return states, Share.of(tried, self._pairs)

    @property
    def shapes(self) -> int:
        """How many shapes the answers had."""
        return len({shape for _, shape in self.answers})

    def missing(self, most: int = 10) -> list[str]:
        """Returns pairs of state and message that were not tried, in words."""
        left = sorted(key for key in self._pairs if not self.pairs[key])
        words = [f"{message} in {state}" for state, message in left[:most]]
        return [*words, f"and {len(left) - most} more"] if len(left) > most else words

    # Rows --------------------------------------------------------------------------------------------

    def rows(self, run_id: str) -> Iterator[CoverageRow]:
        """Yields the rows of all that was counted, and of what is planned and was not tried."""
        planned = self._planned_edges

        def row(
            kind: str,
            count: int,
            campaigns: Iterable[str] | None = None,
            *,
            state: str = "",
            message: str = "",
            field: str = "",
            what: str = "",
        ) -> CoverageRow:
            names = " ".join(sorted(filter(None, campaigns or ())))
            return CoverageRow(
                run_id=run_id,
                kind=kind,
                campaigns=names,
                state=state,
                message=message,
                field=field,
                what=what,
                count=count,
                planned=campaigns is not None,
            )

        for state, message in sorted(self.pairs.keys() | self._pairs.keys()):
            key = state, message
            yield row("pair", self.pairs[key], self._pairs.get(key), state=state, message=message)
        for edge in sorted(self.edges.keys() | planned.keys()):
            yield row(
                "edge",
                self.edges[edge],
                planned.get(edge),
                message=edge.message,
                field=edge.field,
                what=edge.edge,
            )
        tried, there = extensions(self.edges), extensions(planned)
        for message, name in sorted(tried.keys() | there.keys()):
            some = [""] if (message, name) in there else None
            yield row("extension", tried[message, name], some, message=message, what=name)
        for strategy, count in sorted(self.strategies.items()):
            yield row("strategy", count, what=strategy)
        for state, what, count in self.transitions():
            yield row("transition", count, state=state, what=what)
        for (message, shape), count in sorted(self.answers.items()):
            yield row("answer", count, message=message, what=shape)

    def transitions(self) -> Iterator[tuple[str, str, int]]:
        """Yields a state, what became of a link in it, how often: how it ended, or the state that came next."""
        reached: Counter[tuple[str, str]] = Counter()
        for (state, _), count in self.pairs.items():
            # Every case of a state has gone, or follows one that has gone, through those before it.
            after = State(state) if state in set(State) else None
            while after is not None and (before := FACTS[after].before) is not None:
                reached[before, after] += count
                after = before
        yield from sorted((str(a), str(b), count) for (a, b), count in reached.items())
        yield from sorted((state, ending, count) for (state, ending), count in self.endings.items())


_of_field = attrgetter("of_field")


def _part(name: str, tried: Iterable[object], planned: Iterable[object]) -> Part:
    there = set(planned)
    return Part(name, len(there & set(tried)), len(there))


def extensions(edges: Mapping[Edge, object]) -> Counter[tuple[str, str]]:
    """Returns how often each extension of each message was lied about, or once for each in a plan.

    An extension is known by its name in the path of the field, or in the words of a lie about the chain.
    """
    result: Counter[tuple[str, str]] = Counter()
    for edge, count in edges.items():
        found = _EXTENSION.search(edge.field)
        name = found[1] if found else ""
        if not name and edge.field.endswith(".extensions"):
            said = _SAID.match(edge.edge)
            name = said[1] if said and said[1] not in {"ZB", "ZBuf"} else ""
        if name:
            result[edge.message, name] += count if isinstance(count, int) else 1
    return result
