"""Runs of pytest that do not start from nothing: a process that has the suite imported forks for each of them.

Nothing of a run stays behind for the next one: each has a process of its own, with its own folder, environment, output
and end. What a start costs by itself, two thirds of the processor time of a short run, is paid once.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SECONDS = 600
"""A run may take as long as this."""


# The side that asks ---------------------------------------------------------------------------------


def environment() -> dict[str, str]:
    """Returns ours without what pytest and xdist put into it."""
    theirs = ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTHONPATH")
    return {name: value for name, value in os.environ.items() if name not in theirs}


@cache
def _server() -> subprocess.Popen[str]:
    server = subprocess.Popen(
        [sys.executable, __file__],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment() | {"PYTHONPATH": str(ROOT)},
    )
    atexit.register(server.communicate)
    return server


def run(words: list[str], cwd: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs pytest with these words, in this folder and environment."""
    server = _server()
    assert server.stdin
    assert server.stdout
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / name) for name in ("out", "err")]
        server.stdin.write(json.dumps([SECONDS, words, str(cwd), environ, files]) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        out, err = (Path(name).read_text() for name in files)
    if code == -signal.SIGALRM:
        raise TimeoutError(f"not ended within {SECONDS} s: {words}\n{out}{err}")
    return subprocess.CompletedProcess(words, code, out, err)


# The process that forks -----------------------------------------------------------------------------


def main() -> int:
    """Imports plugin and suite, then runs what is asked for on standard input, a line each."""
    with Path(os.devnull).open("w") as nothing, contextlib.redirect_stdout(nothing):
        code = pytest.main(["conformance", "--collect-only", "-q", "-p", "no:cacheprovider"])
    assert code == pytest.ExitCode.OK, code
    # Children share what is there; they need not look through it for garbage.
    gc.collect()
    gc.freeze()
    while line := sys.stdin.readline():
        child = os.fork()
        if not child:
            return _run(*json.loads(line))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()
    return 0


def _run(seconds: int, words: list[str], cwd: str, environ: dict[str, str], files: list[str]) -> int:
    """Becomes what ``python -m pytest`` would be."""
    signal.alarm(seconds)
    for descriptor, name in enumerate([os.devnull, *files]):
        opened = os.open(name, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environ)
    own = environ["PYTHONPATH"].split(os.pathsep)
    # In place of the folder of this file and of the checkout.
    sys.path[:2] = [cwd, *own]
    sys.argv[1:] = words
    return int(pytest.main())


if __name__ == "__main__":
    sys.exit(main())
