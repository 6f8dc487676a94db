"""The door of every frame function: the columns it needs are there, or the error lists what was."""

from pyspark.sql import DataFrame


class MissingColumns(ValueError):
    """A frame lacks columns; the message names them and those it has."""


def require(frame: DataFrame, *names: str) -> None:
    """Checks that a frame has columns.

    Raises:
        MissingColumns: Some are missing.
    """
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise MissingColumns(
            f"no column {', '.join(missing)}; there are {', '.join(frame.columns) or 'none'}"
        )
