"""The one command that repeats a test."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from conformance.running.marks import transport_of
from conformance.running.options import Settings

ROOT = Path(__file__).resolve().parents[2]
"""What ``conformance`` is a package of: a checkout, or where it is installed."""


def command(item: pytest.Item, settings: Settings) -> str:
    """Returns what to type, in the folder where this run was begun, to run one test again in the same way."""
    words = ["pytest", *_place(item), *_options(item, settings)]
    return shlex.join(words)


def _place(item: pytest.Item) -> list[str]:
    """Returns the words that name a test, without a path of this machine."""
    inside = item.nodeid.partition("::")[2]
    here = item.config.invocation_params.dir
    if item.path.is_relative_to(here):
        return [f"{item.path.relative_to(here).as_posix()}::{inside}"]
    if item.path.is_relative_to(ROOT / "conformance"):
        module = ".".join(item.path.relative_to(ROOT).with_suffix("").parts)
        return ["--pyargs", f"{module}::{inside}"]
    return [f"{os.path.relpath(item.path, here)}::{inside}"]


def _options(item: pytest.Item, settings: Settings) -> list[str]:
    """Returns the options that have a say in the outcome."""
    config = settings.config
    words = ["--node", config.node, "--seed", str(config.seed)]
    over = transport_of(item)
    if over and config.transports != ("tcp",):
        words += ["--transports", over]
    if config.user:
        words += ["--user", config.user.user.decode()]
    if config.profile:
        words += ["--profile", config.profile]
    if item.config.getoption("--time-scale") != 1:
        words += ["--time-scale", f"{item.config.getoption('--time-scale'):g}"]
    if settings.deviations is not None:
        words += ["--deviations", str(item.config.getoption("--deviations"))]
    given = {
        "--strict-should": config.strict_should,
        "--allow-destructive": item.config.getoption("--allow-destructive"),
        "--i-may-test-this-node": config.may_test,
        "--trust-node": config.trust_node,
    }
    return [*words, *(word for word, is_given in given.items() if is_given)]
