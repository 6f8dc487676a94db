"""Turns into a command that shall not outlive the harness. Standard library only.

Started as ``python command_process.py PARENT COMMAND WORD...``.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Becomes the command; the two rules below stay in force."""
    # The node must not outlive a harness that was killed.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):
        return  # it was killed before that was said
    # A node that dies shall be told by its exit code, not by a core file of hundreds of megabytes.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606  (no shell is what is wanted)
    except OSError as error:
        sys.exit(f"{sys.argv[2]}: {error.strerror}")


if __name__ == "__main__":
    main()
