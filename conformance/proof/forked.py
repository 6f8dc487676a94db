"""Reference nodes as forks of this process: everything is imported already, so a node is there in milliseconds.

A node that is started as a program of its own spends most of its start on imports. A campaign starts some thousand.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import selectors
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from conformance.nodes.ref import RefNode
from conformance.refnode.__main__ import main

MODULE = [sys.executable, "-m", "conformance.refnode"]
"""How the command of a reference node begins."""

HIGHEST_FILE = 4096
"""No process here has more files open."""

FAILED = 70
"""Exit code of a node that ended with an exception."""


class ForkedProcess:
    """A child made by fork that runs a reference node, with the part of ``subprocess.Popen`` that nodes use.

    Args:
        words: Options of the reference node.
        stderr: Where it writes what it has to say.
        piped: Its standard output is read by us.

    Attributes:
        pid: Its number.
        stdout: What it prints, when it is read by us.
    """

    def __init__(self, words: Sequence[str], stderr: IO[bytes], *, piped: bool) -> None:
        self.args = list(words)
        self.stdout: IO[bytes] | None = None
        self._code: int | None = None
        mine, its = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            _become_node(words, its, stderr.fileno())
        os.close(its)
        if piped:
            self.stdout = os.fdopen(mine, "rb")
        else:
            os.close(mine)

    def poll(self) -> int | None:
        """Returns the exit code, None while it runs; the number of a signal is negative."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end and returns the exit code.

        Raises:
            TimeoutExpired: It does not end in time.
        """
        if self.poll() is None:
            with selectors.DefaultSelector() as selector:
                file = os.pidfd_open(self.pid)
                try:
                    selector.register(file, selectors.EVENT_READ)
                    if not selector.select(timeout):
                        raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
                finally:
                    os.close(file)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Asks it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it at once."""
        self.send_signal(signal.SIGKILL)


def _become_node(words: Sequence[str], stdout: int, stderr: int) -> None:
    """Turns a fork of this process into a node; does not return."""
    # What was garbage at the fork holds sockets of the tester: to collect it would close files of the node that have
    # the same numbers by then.
    gc.freeze()
    code = FAILED
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        # Two steps: one of them may be 1 or 2 itself.
        said, told = os.dup(stdout), os.dup(stderr)
        os.dup2(said, 1)
        os.dup2(told, 2)
        os.closerange(3, HIGHEST_FILE)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, errors="replace", closefd=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        root = logging.getLogger()
        for handler in tuple(root.handlers):
            root.removeHandler(handler)
        code = main(list(words))
        sys.stdout.flush()
        sys.stderr.flush()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else FAILED
    except BaseException:  # noqa: BLE001  (whatever it is, the fork must not go on as the tester)
        with contextlib.suppress(Exception):
            traceback.print_exc()
    finally:
        os._exit(code)


def fork_nodes() -> None:
    """From here on reference nodes of this process are forks of it."""
    RefNode._launch = _launch  # type: ignore[assignment,method-assign]  # noqa: SLF001


def _launch(self: RefNode, command: list[str], log: Path, stdout: IO[bytes] | int, **_: Any) -> None:
    assert command[: len(MODULE)] == MODULE, command
    with log.open("wb") as err:
        process = ForkedProcess(command[len(MODULE) :], err, piped=stdout == subprocess.PIPE)
    self._process = process  # type: ignore[assignment]
    self._stderr = log.open("rb")
