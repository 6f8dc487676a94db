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
    command = ["git", "-C", str(root), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        # No git, or one that waits for something: the run matters more.
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
