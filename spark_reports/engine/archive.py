"""A class-data archive: Spark's Java classes as they lie in memory once loaded, so that the next start maps them.

Most of the time that Spark takes to start goes into reading some ten thousand classes out of jars. Java can write
them down as it ends (``make``) and map that file when it begins, which halves the start. Such a file holds for one
Java, one set of jars and one machine, so it is made where it is used, in the user's cache folder. One that does not
fit, or is damaged, is passed over by Java without a word: nothing depends on it but time.
"""

import hashlib
import importlib.metadata
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from spark_reports.engine.java import Java, cache_folder

FOLDER = "archives"
"""Below the cache folder of ``java.cache_folder``."""

KEPT = 3
"""Archives that stay, the ones used last; each takes about 190 MB."""

AHEAD_OF_TIME = 25
"""From this Java on there is a cache that also holds linked classes and profiles, and is made in one step."""


@dataclass(frozen=True, slots=True)
class Archive:
    """Where the archive of a Java and a Spark is, or would be.

    Attributes:
        path: The file; it may not exist.
        ahead: It is the kind that Java 25 and newer have.
    """

    path: Path
    ahead: bool

    def options(self) -> Sequence[str]:
        """Returns the options with which Java uses the archive; none if there is none."""
        if not self.path.is_file():
            return ()
        # Java tells what does not fit; that it starts more slowly is all there is to it.
        if self.ahead:
            # It does so by itself, and refuses to start where it is told by `-Xshare` too.
            return (f"-XX:AOTCache={self.path}", "-Xlog:disable", "-Xlog:all=error,aot*=off:stderr")
        return (
            f"-XX:SharedArchiveFile={self.path}",
            "-Xshare:auto",
            "-Xlog:disable",
            "-Xlog:all=error:stderr",
        )

    def options_to_make(self) -> Sequence[str]:
        """Returns the options with which Java writes the archive as it ends."""
        return (f"-XX:AOTCacheOutput={self.path}" if self.ahead else f"-XX:ArchiveClassesAtExit={self.path}",)

    def touch(self) -> None:
        """Notes that the archive is used, so that it is not among those that are removed."""
        try:
            os.utime(self.path)
        except OSError:
            # Gone in the meantime, or another user's: then it is not ours to keep.
            return

    @contextmanager
    def make(self) -> Iterator[Path]:
        """Gives a file to write to, puts it in place of the archive, and removes the oldest ones.

        Two processes that make the same archive do not disturb each other; the last one stays.

        Raises:
            OSError: The folder cannot be written, or nothing was written in the body.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.path.parent, prefix=".making-") as folder:
            made = Path(folder) / self.path.name
            yield made
            if not made.stat().st_size:
                raise OSError(f"{made} is empty")
            made.replace(self.path)
        for old in _by_use(self.path.parent)[KEPT:]:
            old.unlink(missing_ok=True)


def archive_for(java: Java, spark_home: Path, environ: Mapping[str, str]) -> Archive | None:
    """Returns where the archive for a Java and the Spark in a folder is; None without a cache folder."""
    cache = cache_folder(environ)
    if cache is None:
        return None
    ahead = java.major >= AHEAD_OF_TIME
    name = f"spark-{_spark_version()}-java-{java.major}-{_fingerprint(java.executable, spark_home)}"
    return Archive(cache / FOLDER / f"{name}.{'aot' if ahead else 'jsa'}", ahead)


def _spark_version() -> str:
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _fingerprint(java: Path, spark_home: Path) -> str:
    """Returns what changes when Java or a jar does; Java itself checks again, and more closely."""
    digest = hashlib.sha256()
    program = java.resolve()
    jars = (spark_home / "jars").resolve()
    for path in (program, *sorted(jars.glob("*.jar"))):
        state = path.stat()
        digest.update(f"{path}\0{state.st_size}\0{state.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:12]


def _by_use(folder: Path) -> list[Path]:
    """Returns the archives in a folder, the ones used last first."""
    found: list[tuple[float, Path]] = []
    for path in folder.glob("spark-*"):
        try:
            found.append((path.stat().st_mtime, path))
        except FileNotFoundError:
            # Another process removed it just now.
            continue
    return [path for _, path in sorted(found, reverse=True)]
