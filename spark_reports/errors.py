"""What can go wrong while a report is made, and the exit code each kind has.

::

    ReportError
    ├── GateFailed        1   the report is written, and says more than a gate allows
    ├── WrongUse          2   no such folder, a folder that cannot be written
    ├── DataTrouble       3   runs are missing, too many lines are no rows
    │   └── NothingToReport   folders without a run that can be read
    └── EngineFailed      4   Spark does not start or gives up
        └── NoJava        4   no Java that Spark can run on

Each message is one line that says what is wrong and what to do; ``__main__`` prints it and nothing else.
"""

from typing import ClassVar


class ReportError(Exception):
    """A report could not be made; the message is for the person who asked for it."""

    exit_code: ClassVar[int] = 1


class GateFailed(ReportError):
    """The report is written, and there is more in it than a gate allows."""

    exit_code = 1


class WrongUse(ReportError):
    """The command line names something that is not there or cannot be used."""

    exit_code = 2


class DataTrouble(ReportError):
    """The data is not there, or too damaged to judge by."""

    exit_code = 3


class NothingToReport(DataTrouble):
    """No row in any of the folders can be read."""


class EngineFailed(ReportError):
    """Spark, or a package it needs, does not work here."""

    exit_code = 4


class NoJava(EngineFailed):
    """There is no Java that Spark can run on."""
