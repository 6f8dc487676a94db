"""What a run says about where and how it was made: what results may depend on besides the node."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

PARENT = "ZENOH_PARENT_RUN"
"""Variable that names the run that starts this one: a matrix, a job."""

ROOT = Path(__file__).resolve().parents[1]

GIT_SECONDS = 5.0
"""How long git may take; a large checkout on a cold disk takes one."""

CPU_INFO = Path("/proc/cpuinfo")


@cache
def environment() -> str:
    """Returns operating system, kernel (major.minor), machine, processor, cores and Python in one line.

    Two runs with the same line may be compared in their times; what changes with every update is left out.
    """
    release = ".".join(platform.release().split("-")[0].split(".")[:2])
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    python = f"{platform.python_implementation()} {sys.version_info.major}.{sys.version_info.minor}"
    parts = [
        f"{platform.system()} {release}".strip(),
        platform.machine(),
        _processor(),
        f"{cores} core{'s' * (cores != 1)}",
        python,
    ]
    return ", ".join(" ".join(part.split()).replace(",", " ") for part in parts if part)


def _processor() -> str:
    """Returns the model of the processor; empty where the system does not tell."""
    try:
        lines = CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        # Not Linux.
        return "" if platform.processor() == platform.machine() else platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "")


@cache
def harness_commit(root: Path = ROOT) -> str:
    """Returns the commit that this package runs from, ``+`` behind it when files differ; empty when not a checkout."""
    if not (root / ".git").exists():
        return ""
    return _git(root, "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+")


def build_version(version: str, root: Path = ROOT) -> str:
    """Returns a version with the commits up to this one behind it, as ``git describe`` writes it: ``0.1.0-57-g0a1b2c3``.

    Where files differ it ends with ``-dirty``, which has no place in an order. It is the version alone when this is no
    checkout, or one without its history.

    Args:
        version: Of this package.
        root: The checkout.
    """
    commit = harness_commit(root)
    if not commit or _git(root, "rev-parse", "--is-shallow-repository") != "false":
        return version
    dirty = "-dirty" if commit.endswith("+") else ""
    return f"{version}-{_git(root, 'rev-list', '--count', 'HEAD')}-g{commit.rstrip('+')}{dirty}"


def _git(root: Path, *words: str) -> str:
    """Returns what git says; nothing when there is none, or it waits for something: the run matters more."""
    command = ["git", "-C", str(root), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def parent() -> str:
    """Returns the run that started this one; empty without one."""
    return os.environ.get(PARENT, "")


def configuration(words: Mapping[str, object], before: str = "") -> str:
    """Returns options as ``name=value`` words in order of their names, spaces in values written as ``_``.

    Args:
        words: The options; one that is None or empty is left out, a flag is ``yes`` or left out.
        before: What another tool in the same folder was asked to do; its options stay.
    """
    both = dict(word.split("=", 1) for word in before.split() if "=" in word)
    for name, value in words.items():
        text = "yes" if value is True else "" if value is None or value is False else str(value)
        if text:
            both[name] = "_".join(text.split())
    return " ".join(f"{name}={both[name]}" for name in sorted(both))
