"""Single parts of the prelude, run in Lua 5.1 to 5.4 without Wireshark."""

from __future__ import annotations

import importlib
from typing import Any, Protocol

import pytest

from scapy_layers.derive.lua import PRELUDE

VERSIONS = ("lua51", "lua52", "lua53", "lua54")


class Runtime(Protocol):
    """As much of a Lua interpreter as is needed here."""

    def execute(self, code: str, *arguments: object) -> Any:
        """Runs a chunk; its ``...`` are the arguments."""


def runtime(version: str) -> Runtime:
    """Returns a new interpreter; strings in it are bytes."""
    lupa = pytest.importorskip(f"lupa.{version}")
    made: Runtime = importlib.import_module(lupa.__name__).LuaRuntime(encoding=None)
    return made


def part(lua: Runtime, name: str, before: str) -> None:
    """Runs a part of the prelude.

    Args:
        lua: Where.
        name: Without the suffix.
        before: Lua code in front of it; makes the globals it needs, ``Z`` among them.
    """
    lua.execute(before + "\n" + (PRELUDE / f"{name}.lua").read_text(encoding="utf-8"))
