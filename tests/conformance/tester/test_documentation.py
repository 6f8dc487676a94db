"""The examples of docs/tester.md run as they stand there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.nodes.pypi import PypiNode
from conformance.tester.plain import bends_by_name, steps_by_name
from conformance.tester.script import Script
from conformance.tester.steps import PARTS
from conformance.tester.values import LIVE
from tests.conformance.tester.test_scout import free_group

PAGE = (Path(__file__).parents[3] / "docs" / "tester.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[PypiNode]:
    with PypiNode(tmp_path / "nodes") as running:
        yield running


def test_examples_run(node: PypiNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "\n".join(blocks("python"))
    text = text.replace("tcp/127.0.0.1:7447", str(node.locator))
    for port in ("17446", "17447"):
        text = text.replace(port, free_group().rpartition(":")[2])
    names: dict[str, Any] = {}
    exec(compile(text, "docs/tester.md", "exec"), names)
    assert names["played"].met is True
    assert names["push"].body.data == b"hello"
    assert (tmp_path / "runs" / "by-hand" / "captures" / "my-attempt.pcapng").stat().st_size > 1000


def test_script_on_the_page_is_one() -> None:
    (text,) = blocks("json")
    assert Script.from_json(text).to_json() == text


def test_page_names_every_step_part_bend_and_live_value() -> None:
    for name in [*steps_by_name(), *PARTS, *bends_by_name(), *LIVE]:
        assert re.search(rf"`[^`]*\b{name}\b[^`]*`", PAGE), name
