"""SQL over the views of a store: what may be asked, what went wrong in words, and the answer as text."""

import csv
import datetime as dt
import io
import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.logger import PySparkLogger
from pyspark.sql import Row
from pyspark.sql.types import VariantVal

from spark_reports.errors import WrongUse
from spark_reports.pages.text import one_line, short, visible
from spark_reports.storage.tables import SCHEMAS

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from spark_reports.storage.views import Views

FORMATS = ("table", "csv", "json")

LIMIT = 1_000
"""So many rows are shown unless another limit is asked for."""

MOST = 1_000_000
"""No more rows can be asked for at once; aggregate in the query instead."""

WIDEST = 60
"""Characters of a cell of a table; CSV and JSON have all of them."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?", re.ASCII)

_TEXTS_AND_REMARKS = re.compile(
    r"""(?P<remark>--[^\n]*|/\*.*?\*/)|r'[^']*'|r"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""",
    re.DOTALL | re.IGNORECASE,
)
_CALLS_JAVA = re.compile(r"\b(java_method|reflect|try_reflect)`?\s*\(", re.IGNORECASE)
"""Functions that call any method of Java. Nobody is kept from it who means to, but a store asks for none of them, and
one that ends Java ends the warm server of all others."""

_RUNS_PROGRAM = re.compile(r"\bUSING\s*''", re.IGNORECASE)
"""Ends ``TRANSFORM``, ``MAP`` and ``REDUCE``, which hand rows to a command of the shell; a join uses columns."""

_QUERIES = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE", "MAP", "REDUCE"})
"""Words that a query may begin with, unless it is in brackets."""

_NO_VIEW = "TABLE_OR_VIEW_NOT_FOUND"
_NO_COLUMN = "UNRESOLVED_COLUMN"
_OF_QUERY = ("21", "22", "42", "54", "P0")
"""Classes of SQLSTATE where the query is at fault, not the engine: more rows than one, a division by zero, text that is
no number, words that mean nothing here, arrays that are too large, an error that it raises itself."""

_OF_JAVA = re.compile(
    r"(?:IllegalArgument|Arithmetic|DateTime|IllegalFormat\w*|\w+FormatConversion|Json\w*)Exception\b:? *([^\n]*)"
)
"""What Java raises where Spark has no error of its own for values that are wrong."""

_STATE = re.compile(rf"SQLSTATE: (?:{'|'.join(_OF_QUERY)})")


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows of plain values under the names of their columns.

    Attributes:
        more: There were more rows than the limit.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool


def views_in(sql: str) -> list[str]:
    """Returns the names of the views that a query may be about; words in strings and comments count as well."""
    words = {word.lower() for word in re.findall(r"\w+", sql)}
    return [name for name in SCHEMAS if name in words]


def listing(names: Iterable[str] = ()) -> str:
    """Returns the views with their columns and types, one view a line; all of them if none is named."""
    lines = []
    for name in names or SCHEMAS:
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in SCHEMAS[name])
        lines.append(f"{name}({columns})")
    return "\n".join(lines)


def ask(spark: "SparkSession", views: "Views", sql: str, limit: int = LIMIT) -> Answer:
    """Returns the answer to a query.

    Args:
        spark: The session that the views are of.
        views: The views.
        sql: One query; nothing that changes anything is taken.
        limit: At most so many rows.

    Raises:
        WrongUse: It is no query, or names what is not there; says what there is.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import (
        AnalysisException,
        IllegalArgumentException,
        PySparkException,
        PySparkNotImplementedError,
    )

    text = checked(sql)
    named = views_in(text)
    for name in named:
        views.frame(name).createOrReplaceTempView(name)
    try:
        # In brackets only a query may stand: nothing that writes, and no second statement.
        with _quiet():
            frame = spark.sql(f"SELECT * FROM (\n{text}\n)")  # noqa: S608 (whoever types it is meant to)
            columns = tuple(_unique(frame.schema.names))
            found = frame.limit(limit + 1).collect()
    except (AnalysisException, IllegalArgumentException, PySparkNotImplementedError) as error:
        raise WrongUse(_explained(error, named)) from error
    except PySparkException as error:
        if not str(error.getSqlState() or "").startswith(_OF_QUERY) and not _OF_JAVA.search(str(error)):
            raise
        raise WrongUse(_explained(error, named)) from error
    except Py4JJavaError as error:
        found_in = _OF_JAVA.search(str(error.java_exception))
        if found_in is None and not _STATE.search(str(error.java_exception)):
            raise
        raise WrongUse(_unanswered(str(error.java_exception))) from error
    except (ValueError, OverflowError) as error:
        # Spark has dates that Python has not.
        raise WrongUse(_unanswered(f"{error}; cast that column to string")) from error
    finally:
        for name in named:
            spark.catalog.dropTempView(name)
    rows = tuple(tuple(plain(value) for value in row) for row in found[:limit])
    return Answer(columns, rows, len(found) > limit)


def checked(sql: str) -> str:
    """Returns a query without what ends it.

    Raises:
        WrongUse: There is none, or it does more than read.
    """
    text = _without_end(sql)
    if not text:
        raise WrongUse(f"the query is empty; the views are {', '.join(SCHEMAS)}")
    remarks = (found["remark"] or "" for found in _TEXTS_AND_REMARKS.finditer(text))
    if any(remark.startswith("/*") and "/*" in remark[2:] for remark in remarks):
        # Spark has them end where the outer one does: what stands behind the inner one would be taken for SQL here.
        raise WrongUse("/* stands in a comment that began with /*; comments in comments are not taken")
    words = _TEXTS_AND_REMARKS.sub(lambda found: " " if found["remark"] else "''", text)
    begins = re.match(r"[\s(]*(\w*)", words)
    if begins is None or begins[1].upper() not in _QUERIES:
        raise WrongUse(
            f"invalid query: it begins with {visible(short(one_line(text), 20))}, not with SELECT, WITH, VALUES, FROM "
            "or TABLE; run without a query to list the views and their columns"
        )
    if called := _CALLS_JAVA.search(words):
        raise WrongUse(f"{called[1]} calls Java methods, which may do anything; only reading is allowed")
    if _RUNS_PROGRAM.search(words):
        raise WrongUse("USING with a text runs a program, which may do anything; only reading is allowed")
    return text


def _without_end(sql: str) -> str:
    """Returns a query without the semicolons that end it, and without the remarks behind it."""
    seen = _TEXTS_AND_REMARKS.sub(
        lambda found: " " * len(found[0]) if found["remark"] else "x" * len(found[0]), sql
    )
    return sql[: len(seen.rstrip("; \t\r\n"))].strip()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps PySpark from printing a page about a query that is wrong; one line will do."""
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


def _unique(names: Sequence[str]) -> list[str]:
    """Returns the names of the columns; those that stand twice get a number."""
    result: list[str] = []
    for at, name in enumerate(names):
        # A number that makes the name of no other column.
        others = {*result, *names[at + 1 :]}
        numbered = (f"{name}_{number}" for number in itertools.count(2))
        result.append(next(one for one in numbered if one not in others) if name in result else name)
    return result


def _explained(error: "PySparkException", named: Sequence[str]) -> str:
    condition = str(error.getCondition() or "")
    said = dict(error.getMessageParameters() or {})
    if condition.startswith(_NO_VIEW):
        name = said.get("relationName", "").replace("`", "")
        return visible(
            f"no view {name}; the views are {', '.join(SCHEMAS)}; run without a query to list their columns"
        )
    if condition.startswith(_NO_COLUMN):
        name = said.get("objectName", "").replace("`", "")
        there = "; ".join(f"{view} has {', '.join(SCHEMAS[view].names)}" for view in named)
        return visible(f"no column {name}; {there or 'the query names no view'}")
    return _unanswered(str(error) or condition)


def _unanswered(text: str) -> str:
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    first = re.sub(r"^(?:[\w.]+(?:Exception|Error): )?\[[A-Z_.]+\]\s*|\s*SQLSTATE: \w+.*$", "", first)
    return visible(short(f"invalid query: {first.rstrip('. ')}", 500))


def plain(value: Any) -> Any:
    """Returns a value of a row as JSON has it."""
    if isinstance(value, VariantVal):
        value = value.toPython()
    if isinstance(value, Row):
        # asDict would keep one of the fields that have the same name.
        value = dict(zip(_unique(value.__fields__), value, strict=True))
    if isinstance(value, dict):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return _scalar(value)


def _scalar(value: Any) -> Any:
    if (
        value is None
        or isinstance(value, bool | int | str)
        or (isinstance(value, float) and math.isfinite(value))
    ):
        return value
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return value.isoformat() if isinstance(value, dt.date | dt.time) else str(value)


def as_text(answer: Answer, form: str) -> str:
    """Returns an answer in one of ``FORMATS``, ending with a line end."""
    return {"table": _as_table, "csv": _as_csv, "json": _as_json}[form](answer)


def _as_json(answer: Answer) -> str:
    # What is no ASCII is escaped, so that nothing in it can harm a terminal.
    lines = [json.dumps(dict(zip(answer.columns, row, strict=True))) for row in answer.rows]
    return "[" + ",\n ".join(lines) + "]\n"


def _as_csv(answer: Answer) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_harmless(name) for name in answer.columns)
    for row in answer.rows:
        writer.writerow(value if isinstance(value, int | float) else _harmless(_cell(value)) for value in row)
    return file.getvalue()


def _harmless(text: str) -> str:
    """Returns text for a cell that a spreadsheet shows and does not run; decimals come as text, and are numbers."""
    runs = text.startswith(_FORMULA) and not _NUMBER.fullmatch(text)
    return f"'{visible(text)}" if runs else visible(text)


def _as_table(answer: Answer) -> str:
    head = [short(visible(one_line(name)), WIDEST) for name in answer.columns]
    body = [[short(visible(one_line(_cell(value))), WIDEST) for value in row] for row in answer.rows]
    numeric = [
        all(isinstance(row[at], int | float) and not isinstance(row[at], bool) for row in answer.rows)
        for at in range(len(head))
    ]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    lines = []
    for cells in (head, ["-" * width for width in widths], *body):
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
