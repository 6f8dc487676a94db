"""The door of every frame function: the columns it needs are there, or the error lists what was."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark_reports.engine.progress import is_connect

MOST_COUNTED = 1 << 40
"""What a damaged row says it counted is cut to this, so that sums stay numbers."""


class MissingColumns(ValueError):
    """A frame lacks columns; the message names them and those it has."""


def require(frame: DataFrame, *names: str) -> None:
    """Checks that a frame has columns.

    Not over Connect: there a look at them makes the server analyse all that was asked so far, and it says itself what it
    does not find.

    Raises:
        MissingColumns: Some are missing.
    """
    if is_connect(frame):
        return
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise MissingColumns(
            f"no column {', '.join(missing)}; there are {', '.join(frame.columns) or 'none'}"
        )


def bounded(name: str) -> Column:
    """Returns a count that rows say, from 0 to ``MOST_COUNTED``; null stays null."""
    column = sf.col(name)
    return sf.when(column.isNotNull(), sf.greatest(sf.lit(0), sf.least(column, sf.lit(MOST_COUNTED))))
