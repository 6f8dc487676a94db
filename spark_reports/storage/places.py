"""Where a store lies: files of this machine, or whatever else pyarrow reaches.

What a store asks of a place is little: list, read, write a file that is whole or not there, remove. Only local
places can also promise that of two writers of the same name exactly one succeeds.
"""

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from spark_reports.errors import EngineFailed, WrongUse

_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}
_NO_SYNC = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP}
# Of these a file appears when it is closed, and whole.
_OBJECT_STORES = {"s3", "gcs", "abfs"}
# What Hadoop calls the same place.
_SCHEMES = {"s3a": "s3", "s3n": "s3", "gs": "gs", "abfss": "abfss"}
_THREADS = 16


_PATTERN = re.compile(r"[\\*?\[\]{}]")

BY_NAME = {"__globPaths__": "false"}
"""Options with which a reader of Spark takes paths as names. Escapes would do for most, but Hadoop cannot match a
pattern in a folder that has a name with a colon in it. Give one path: of several, Spark 4.3 reads each as often as
there are patterns among them. It does not look whether there is anything. Over Spark Connect they have no effect."""

UNFINISHED = ".unfinished"
"""Ends the name of a record that is being written."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file of a place: its path below the place, bytes, and Unix time of its last change in seconds."""

    path: str
    bytes: int
    modified: float


class Place(Protocol):
    """What a store asks of where it lies. Paths are below the place, with ``/``."""

    exclusive: bool
    """Of two writers of the same new name exactly one succeeds."""

    def names(self, folder: str) -> list[str]:
        """Returns the names of the files in a folder; none if it is not there."""

    def walk(self, folder: str) -> Iterator[Found]:
        """Returns the files at and below a folder."""

    def read(self, path: str) -> bytes:
        """Returns the content of a file; raises FileNotFoundError."""

    def put(self, path: str, content: bytes) -> bool:
        """Writes a new file, which appears whole; False if it is there already."""

    def make(self, folder: str) -> None:
        """Makes a folder where a place has such."""

    def remove(self, paths: Iterable[str]) -> None:
        """Removes files, those that are gone included, and folders that became empty."""

    def arrow(self, path: str) -> tuple[Any, str]:
        """Returns the file system of pyarrow and the path in it."""

    def address(self, path: str) -> str:
        """Returns what other programs call a path: an absolute path, or a URI."""


class LocalPlace:
    """A folder of this machine, or of a file system that is mounted on it.

    Args:
        root: The folder; made with the first file.
        durable: Wait until what was written is on the disk.
    """

    exclusive = True

    def __init__(self, root: Path, *, durable: bool = True) -> None:
        self.root = root
        self.durable = durable

    def names(self, folder: str) -> list[str]:
        """Returns the names of what is in a folder; none if it is not there."""
        try:
            return sorted(path.name for path in (self.root / folder).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def walk(self, folder: str) -> Iterator[Found]:
        """Returns the files at and below a folder."""
        for place, below, files in os.walk(self.root / folder):
            below.sort()
            for name in sorted(files):
                path = Path(place, name)
                with contextlib.suppress(FileNotFoundError):
                    about = path.stat()
                    yield Found(path.relative_to(self.root).as_posix(), about.st_size, about.st_mtime)

    def read(self, path: str) -> bytes:
        """Returns the content of a file; raises FileNotFoundError."""
        return (self.root / path).read_bytes()

    def put(self, path: str, content: bytes) -> bool:
        """Writes a new file, which appears whole; False if it is there already."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f"{target.name}.{os.urandom(8).hex()}{UNFINISHED}")
        try:
            unfinished.write_bytes(content)
            self.sync(unfinished)
            return self.link(unfinished, target)
        finally:
            unfinished.unlink(missing_ok=True)

    def link(self, finished: Path, target: Path) -> bool:
        """Gives a finished file its name unless the name is taken; False if it is."""
        try:
            os.link(finished, target)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # A file system without hard links. Who gets here holds the claim on the name, so nobody is
            # between the question and the answer.
            if target.exists():
                return False
            finished.rename(target)
        self.sync(target.parent)
        return True

    def move(self, folder: str, target: str) -> Path:
        """Moves a folder to where there is none; returns where it is now."""
        new = self.root / target
        while True:
            new.parent.mkdir(parents=True, exist_ok=True)
            try:
                (self.root / folder).rename(new)
            except FileNotFoundError:
                # Somebody removed the parent, which was empty, between the two.
                if not (self.root / folder).exists():
                    raise
            else:
                return new

    def sync(self, *paths: Path) -> None:
        """Waits until files or folders are on the disk."""
        if not self.durable:
            return
        if len(paths) < 2:
            for path in paths:
                _sync(path)
            return
        # Side by side the file system writes its journal once for all of them instead of once for each.
        list(_waiting().map(_sync, paths))

    def make(self, folder: str) -> None:
        """Makes a folder."""
        (self.root / folder).mkdir(parents=True, exist_ok=True)

    def remove(self, paths: Iterable[str]) -> None:
        """Removes files, those that are gone included, and folders that became empty."""
        folders = set()
        for path in paths:
            (self.root / path).unlink(missing_ok=True)
            folders.add((self.root / path).parent)
        for folder in folders:
            self._remove_empty(folder)

    def _remove_empty(self, folder: Path) -> None:
        # The uppermost ones stay: somebody else may be about to put a record there.
        while self.root not in {folder, folder.parent}:
            try:
                folder.rmdir()
            except OSError as error:
                if error.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT}:
                    raise
                return
            folder = folder.parent

    def remove_folder(self, folder: str) -> None:
        """Removes a folder with all that is in it, if it is there."""
        if (self.root / folder).exists():
            shutil.rmtree(self.root / folder)
            self._remove_empty((self.root / folder).parent)

    def arrow(self, path: str) -> tuple[Any, str]:
        """Returns the file system of pyarrow and the path in it."""
        from pyarrow import fs

        return fs.LocalFileSystem(), str(self.root / path)

    def address(self, path: str) -> str:
        """Returns the absolute path."""
        return str(self.root / path)


class RemotePlace:
    """A folder that pyarrow reaches.

    Args:
        filesystem: Of pyarrow.
        root: The folder in it.
        uri: What other programs call the folder.
    """

    exclusive = False

    def __init__(self, filesystem: Any, root: str, uri: str) -> None:
        self._filesystem = filesystem
        self._root = root.rstrip("/")
        self._uri = uri.rstrip("/")

    def names(self, folder: str) -> list[str]:
        """Returns the names of the files in a folder; none if it is not there."""
        return sorted(PurePosixPath(found.path).name for found in self._infos(folder, recursive=False))

    def walk(self, folder: str) -> Iterator[Found]:
        """Returns the files at and below a folder."""
        for found in self._infos(folder, recursive=True):
            below = found.path.removeprefix(self._root).lstrip("/")
            yield Found(below, found.size or 0, found.mtime.timestamp() if found.mtime else 0.0)

    def _infos(self, folder: str, *, recursive: bool) -> list[Any]:
        from pyarrow import fs

        wanted = fs.FileSelector(self._path(folder), recursive=recursive, allow_not_found=True)
        return [found for found in self._filesystem.get_file_info(wanted) if found.type == fs.FileType.File]

    def read(self, path: str) -> bytes:
        """Returns the content of a file; raises FileNotFoundError."""
        with self._filesystem.open_input_stream(self._path(path), compression=None) as file:
            return bytes(file.read())

    def put(self, path: str, content: bytes) -> bool:
        """Writes a new file, which appears whole; False if it is there already.

        Of two writers at the same moment both may succeed, and the file is that of either.
        """
        from pyarrow import fs

        target = self._path(path)
        if self._filesystem.get_file_info(target).type != fs.FileType.NotFound:
            return False
        whole = self._filesystem.type_name in _OBJECT_STORES
        unfinished = target if whole else f"{target}.{os.urandom(8).hex()}{UNFINISHED}"
        self.make(str(PurePosixPath(path).parent))
        with self._filesystem.open_output_stream(unfinished, compression=None) as file:
            file.write(content)
        if not whole:
            self._filesystem.move(unfinished, target)
        return True

    def make(self, folder: str) -> None:
        """Makes a folder, unless a file can be written without."""
        if self._filesystem.type_name not in _OBJECT_STORES:
            self._filesystem.create_dir(self._path(folder), recursive=True)

    def remove(self, paths: Iterable[str]) -> None:
        """Removes files, those that are gone included."""
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                self._filesystem.delete_file(self._path(path))

    def arrow(self, path: str) -> tuple[Any, str]:
        """Returns the file system of pyarrow and the path in it."""
        return self._filesystem, self._path(path)

    def address(self, path: str) -> str:
        """Returns the URI."""
        return f"{self._uri}/{path}"

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root


@cache
def _waiting() -> ThreadPoolExecutor:
    """Returns the threads that wait for the disk: to start one takes as long as to write a small file."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="sync")


os.register_at_fork(after_in_child=_waiting.cache_clear)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems cannot sync folders, and need not.
        if error.errno not in _NO_SYNC or not path.is_dir():
            raise
    finally:
        os.close(handle)


def place_of(uri: str | Path, *, durable: bool = True) -> LocalPlace | RemotePlace:
    """Returns the place that a path or URI means.

    Raises:
        WrongUse: Nothing here reaches it, or Spark could not.
        EngineFailed: pyarrow is missing.
    """
    if not _is_text(str(uri)):
        raise WrongUse(f"{uri} is not valid UTF-8, so Spark cannot open it; use another path for the store")
    parts = urlsplit(str(uri))
    if isinstance(uri, Path) or len(parts.scheme) <= 1:
        return LocalPlace(Path(uri).absolute(), durable=durable)
    if parts.scheme == "file":
        if parts.netloc not in {"", "localhost"}:
            raise WrongUse(f"{uri} names the host {parts.netloc}; use file:///path or a plain path")
        if not parts.path:
            raise WrongUse(f"{uri} names no folder; use file:///path or a plain path")
        return LocalPlace(Path(unquote(parts.path)), durable=durable)
    try:
        from pyarrow import ArrowException, fs
    except ImportError as error:
        raise EngineFailed(f"{error.name} is missing: `pip install 'zenoh-harness[reports]'`") from error
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    try:
        filesystem, root = fs.FileSystem.from_uri(parts._replace(scheme=scheme).geturl())
    except (ArrowException, OSError, ValueError) as error:
        raise WrongUse(
            f"{uri} cannot be reached: {str(error).splitlines()[0]}; a store is a folder, or a URI that pyarrow "
            "knows: s3, gs, abfss, hdfs"
        ) from error
    if not root:
        raise WrongUse(f"{uri} names no bucket or folder")
    return RemotePlace(filesystem, root, plain_uri(str(uri)))


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain_uri(uri: str) -> str:
    """Returns what Hadoop calls what a URI means to pyarrow: nothing percent-encoded, no options, no secrets."""
    parts = urlsplit(uri)
    where = parts.netloc
    if _SCHEMES.get(parts.scheme, parts.scheme) == "s3":
        where = where.rpartition("@")[2]
    return f"{parts.scheme}://{where}{unquote(parts.path)}"


def is_pattern(address: str) -> bool:
    """Whether Spark takes a path or URI for a pattern of paths, although it is the name of one."""
    return _PATTERN.search(address) is not None


def plain_address(address: str) -> str:
    """Returns what Spark takes for this path or URI, whatever letters are in it; give it with ``BY_NAME``."""
    return f"file://{address}" if address.startswith("/") else address


def as_glob(address: str) -> str:
    """Returns a pattern that only this path or URI matches, unless a name in it or beside it has a colon."""
    return re.sub(_PATTERN, r"\\\g<0>", plain_address(address))


def read_all(place: Place, paths: Iterable[str]) -> list[bytes]:
    """Returns the content of files; side by side where each takes a trip over a network."""
    wanted = list(paths)
    if place.exclusive or len(wanted) < 2:
        return [place.read(path) for path in wanted]
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(place.read, wanted))
