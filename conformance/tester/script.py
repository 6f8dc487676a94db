"""Scripts: what a tester does, step by step. ``play`` plays them, ``journal`` writes down what a tester does as one."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass

from conformance.tester.plain import read_object, write
from conformance.tester.steps import Step
from conformance.tester.values import ScriptError

VERSION = 1
"""Raised with every change of a step; readers accept every version up to their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Steps, and the seed of all choices while they are played.

    Attributes:
        steps: In order.
        title: What it is about.
        seed: Of choices.
    """

    steps: tuple[Step, ...] = ()
    title: str = ""
    seed: int = 0

    def to_json(self) -> str:
        """Writes the script down, a step a line."""
        head = {"script": VERSION, "title": self.title, "seed": self.seed}
        body = ",\n  ".join(json.dumps(write(step), ensure_ascii=False) for step in self.steps)
        start = json.dumps(head, ensure_ascii=False)[:-1]
        return f'{start}, "steps": [\n  {body}\n]}}\n' if body else f'{start}, "steps": []}}\n'

    @classmethod
    def from_json(cls, text: str) -> Script:
        """Reads a script.

        Raises:
            ScriptError: The text is none; says where and what.
        """
        try:
            whole = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ScriptError(f"a script is JSON: {error}") from None
        if not isinstance(whole, dict) or "script" not in whole:
            raise ScriptError('a script is an object with "script": 1 and "steps"')
        version = whole.pop("script")
        if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= VERSION:
            raise ScriptError(f"version {version!r} of scripts is not known here; {VERSION} is the newest")
        try:
            made: Script = read_object(cls, whole, "script")
        except RecursionError:
            raise ScriptError("the steps are nested too deeply") from None
        return made

    def walk(self) -> Iterator[tuple[tuple[int, ...], Step]]:
        """Yields every step with where it stands: index, and inside a step its group and index there."""
        yield from _walk(self.steps, ())

    def without(self, path: tuple[int, ...]) -> Script:
        """Returns the script without the step that stands at a place.

        Raises:
            LookupError: None stands there.
        """
        return dataclasses.replace(self, steps=_without(self.steps, path))


def digest(step: Step) -> str:
    """Returns a text that stands for a step."""
    return json.dumps(write(step))


def _walk(steps: tuple[Step, ...], at: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Step]]:
    for index, step in enumerate(steps):
        yield (*at, index), step
        for number, group in enumerate(step.inner):
            yield from _walk(group, (*at, index, number))


def _without(steps: tuple[Step, ...], path: tuple[int, ...]) -> tuple[Step, ...]:
    if not path or not 0 <= path[0] < len(steps):
        raise LookupError("no step stands there")
    index, *rest = path
    if not rest:
        return steps[:index] + steps[index + 1 :]
    number, *deeper = rest
    groups = list(steps[index].inner)
    if not 0 <= number < len(groups):
        raise LookupError("no step stands there")
    groups[number] = _without(groups[number], tuple(deeper))
    return (*steps[:index], steps[index].with_inner(tuple(groups)), *steps[index + 1 :])
