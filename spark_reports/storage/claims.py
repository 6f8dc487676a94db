"""Who is writing what into a local store, so that what a killed process left is told from what goes on.

A claim is a lock file, which is created exclusively and then locked for as long as its process lives, and a folder
of the same name beside it for unfinished files. The kernel gives the lock back however a process ends. A claim
whose lock can be had belongs to nobody: ``take_leftovers`` takes it over, so that one process alone cleans up.
"""

import fcntl
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_LOCK = ".lock"

FOREIGN_AGE_S = 24 * 3600.0
"""A claim of another machine is left alone for this long: not every shared file system passes locks on."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A name that belongs to this process.

    Attributes:
        name: What is claimed.
        folder: Where its unfinished files go.
    """

    name: str
    folder: Path
    lock: Path
    handle: int

    def release(self) -> None:
        """Removes the unfinished files, then gives the name back."""
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.lock.unlink(missing_ok=True)
        os.close(self.handle)


def claim(area: Path, name: str) -> Claim | None:
    """Claims a name; None if it is claimed already, also by a process that is gone."""
    lock = area / f"{name}{_LOCK}"
    try:
        handle = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644)
    except FileExistsError:
        return None
    if not _locked(handle) or os.fstat(handle).st_nlink == 0:
        # Whoever cleans up was here between the two steps, and took this for a leftover.
        os.close(handle)
        return None
    folder = area / name
    try:
        about = {"host": socket.gethostname(), "pid": os.getpid(), "since": time.time()}
        os.write(handle, json.dumps(about).encode())
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir()
    except OSError:
        # On a full disk, say: whoever comes next need not wait for the end of this process.
        lock.unlink(missing_ok=True)
        os.close(handle)
        raise
    return Claim(name, folder, lock, handle)


def claimed(area: Path) -> list[str]:
    """Returns every name that is claimed, also by processes that are gone."""
    return sorted(lock.name.removesuffix(_LOCK) for lock in area.glob(f"*{_LOCK}"))


def take_leftovers(area: Path, names: str = "*", foreign_age_s: float = FOREIGN_AGE_S) -> Iterator[Claim]:
    """Takes over, one by one, the claims of processes that are gone; the caller cleans up and releases them.

    Args:
        area: Where the claims are.
        names: Pattern of those that are meant.
        foreign_age_s: How old one of another machine must be, in seconds.
    """
    for lock in sorted(area.glob(f"{names}{_LOCK}")):
        try:
            handle = os.open(lock, os.O_RDWR)
        except FileNotFoundError:
            continue
        if not _locked(handle) or os.fstat(handle).st_nlink == 0 or _foreign(handle, foreign_age_s):
            os.close(handle)
            continue
        name = lock.name.removesuffix(_LOCK)
        yield Claim(name, area / name, lock, handle)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _foreign(handle: int, age_s: float) -> bool:
    """Whether a claim is another machine's, and too young to be given up."""
    try:
        about: object = json.loads(os.pread(handle, 4096, 0))
    except ValueError:
        # It was killed before it could say who it is.
        return False
    if not isinstance(about, dict) or about.get("host") == socket.gethostname():
        return False
    return time.time() - os.fstat(handle).st_mtime < age_s
