"""Folders for the time of a command: they go away with it, and those of commands that were killed with a later one.

Each holds a file that its processes have locked. The kernel gives the lock back however a process ends, so a folder
whose lock can be had belongs to nobody.
"""

import contextlib
import fcntl
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "zenoh-reports-"

# Stores, and Hadoop, pass over what is called so.
_OWNER = "_owner"


@contextmanager
def scratch(name: str = "") -> Iterator[Path]:
    """Yields a folder of this process alone, and removes it; removes those of processes that are gone, too.

    Args:
        name: Says in the name of the folder what it is for.
    """
    remove_leftovers()
    folder, handle = _make(name)
    try:
        yield folder
    finally:
        _remove(folder)
        os.close(handle)


@contextmanager
def shared(folder: Path) -> Iterator[int]:
    """Yields a handle for a process that is about to begin and uses such a folder, too; it keeps it by its end."""
    handle = os.open(folder / _OWNER, os.O_RDWR)
    try:
        _lock(handle)
        yield handle
    finally:
        os.close(handle)


def remove_leftovers() -> None:
    """Removes the folders of processes of this user and machine that are gone."""
    for owner in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{_OWNER}"):
        try:
            handle = os.open(owner, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            # Another user's, or removed by now.
            continue
        with os.fdopen(handle, "rb") as file:
            # Not every shared file system passes locks on to other machines.
            ours = os.fstat(handle).st_uid == os.getuid() and file.read() == _host()
            if ours and _is_free(handle):
                _remove(owner.parent)


def _make(name: str) -> tuple[Path, int]:
    """Makes a folder, and returns it with its locked file."""
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{name}{'-' if name else ''}"))
    handle = os.open(folder / _OWNER, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    # Nobody takes it for a leftover before it says whose it is; where there are no locks it never does.
    if _lock(handle):
        os.write(handle, _host())
    return folder, handle


def _lock(handle: int) -> bool:
    """Locks a file beside others that do; False where there are no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
    except OSError:
        return False
    return True


def _host() -> bytes:
    return socket.gethostname().encode("utf-8", "surrogateescape")


def _is_free(handle: int) -> bool:
    """Locks a file for this process alone, unless somebody has locked it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove(folder: Path) -> None:
    """Removes a folder, what says whose it is last: a Java that is about to end may still write to it."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != _OWNER:
                path.unlink()
        (folder / _OWNER).unlink()
        folder.rmdir()
