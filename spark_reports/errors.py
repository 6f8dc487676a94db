"""What can go wrong while a report is made, and the exit code each kind has.

::

    ReportError
    ├── WrongUse          2   no such folder, a folder that cannot be written
    ├── NothingToReport   3   folders without a run that can be read
    └── EngineFailed      4   Spark does not start or gives up
        └── NoJava        4   no Java that Spark can run on

Each message is one line that says what is wrong and what to do; ``__main__`` prints it and nothing else.
"""

from typing import ClassVar


class ReportError(Exception):
    """A report could not be made; the message is for the person who asked for it."""

    exit_code: ClassVar[int] = 1


class WrongUse(ReportError):
    """The command line names something that is not there or cannot be used."""

    exit_code = 2


class NothingToReport(ReportError):
    """No row in any of the folders can be read."""

    exit_code = 3


class EngineFailed(ReportError):
    """Spark, or a package it needs, does not work here."""

    exit_code = 4


class NoJava(EngineFailed):
    """There is no Java that Spark can run on."""
