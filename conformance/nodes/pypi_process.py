"""The child process that is an eclipse-zenoh node. Standard library and ``zenoh`` only.

Started as ``python pypi_process.py FD CONFIG PARENT``: opens a session with the configuration (a JSON object
of configuration paths and values), writes one JSON line to the file descriptor when it is ready, and
lives until SIGTERM, SIGINT or the end of its parent. Paths that begin with ``app/`` are no configuration of
the node, but what an application does with it: ``app/publish`` is a list of keys on which it declares
publishers. Started as ``python pypi_process.py unknown CONFIG``
it writes which of the paths this release does not know, and ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1

APP = "app/"
"""Begins the paths that say what the application does."""

LISTEN = "0A"
"""State of a listening socket in /proc/net/tcp."""


def main() -> int:
    """Runs the node."""
    if sys.argv[1] == "unknown":
        sys.stdout.write(json.dumps(unknown(json.loads(sys.argv[2]))))
        return 0
    ready, config_text = int(sys.argv[1]), sys.argv[2]
    # The node must not outlive a harness that was killed.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(sys.argv[3]):
        return 0  # it was killed before that was said
    # A node that dies shall be told by its exit code, not by a core file of hundreds of megabytes.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    import zenoh

    wanted = json.loads(config_text)
    config = zenoh.Config()
    for path, value in wanted.items():
        if not path.startswith(APP):
            config.insert_json5(path, json.dumps(value))
    session = zenoh.open(config)
    # They live as long as something refers to them.
    publishers = [session.declare_publisher(key) for key in wanted.get(f"{APP}publish", ())]
    info = {"zid": str(session.info.zid()), "ports": listening_ports()}
    # Nobody may read it: a node that was only launched is heard of on its links.
    with contextlib.suppress(BrokenPipeError), os.fdopen(ready, "w") as pipe:
        pipe.write(json.dumps(info) + "\n")
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    publishers.clear()
    session.close()  # type: ignore[no-untyped-call]
    return 0


def unknown(config: dict[str, object]) -> dict[str, str]:
    """Returns the paths that this release does not know, each with what it says."""
    import zenoh

    found = {}
    for path, value in config.items():
        if path.startswith(APP):
            continue
        try:
            zenoh.Config().insert_json5(path, json.dumps(value))
        except zenoh.ZError as error:
            if "unknown key" in str(error):
                found[path] = str(error)
    return found


def listening_ports() -> list[int]:
    """Returns the TCP ports on which this process listens.

    The API does not tell which port the system chose for port 0; the system does.
    """
    inodes = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the descriptor of this very listing is gone by now
            inodes.add(str(descriptor.readlink()))
    ports: list[int] = []
    for table in (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6")):
        lines = table.read_text().splitlines()[1:] if table.exists() else []  # no tcp6: no IPv6 here
        ports.extend(
            int(columns[1].rpartition(":")[2], 16)
            for columns in map(str.split, lines)
            if columns[3] == LISTEN and f"socket:[{columns[9]}]" in inodes
        )
    return ports


if __name__ == "__main__":
    sys.exit(main())
