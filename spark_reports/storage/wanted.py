"""What rows of a table have to look like in a line: fields, their types, and those that older rows lack."""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa

from spark_reports import rows
from spark_reports.storage.tables import ROW_TYPES, arrow_schema


@dataclass(frozen=True, slots=True)
class Wanted:
    """What rows of a table have to look like.

    Attributes:
        table: Name of the table.
        kinds: The Python type of each field; of a list that of its items.
        lists: Fields that are lists.
        later: Fields that older rows lack, with the values that stand for them.
        schema: The fields as Arrow has them.
    """

    table: str
    kinds: dict[str, type]
    lists: frozenset[str]
    later: dict[str, Any]
    schema: pa.Schema


@cache
def wanted(table: str) -> Wanted:
    """Returns what rows of a table have to look like."""
    row_type = ROW_TYPES[table]
    hints = typing.get_type_hints(row_type)
    kinds: dict[str, type] = {}
    lists = set()
    for column in dataclasses.fields(row_type):
        hint = hints[column.name]
        if typing.get_origin(hint) is tuple:
            lists.add(column.name)
            hint = typing.get_args(hint)[0]
        kinds[column.name] = hint
    whole = arrow_schema(table)
    schema = pa.schema([whole.field(name) for name in kinds])
    return Wanted(table, kinds, frozenset(lists), rows.later_fields(row_type), schema)


def encodable(text: str) -> str:
    """Returns text with lone surrogates, which have no UTF-8, as the escapes that JSON has for them."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
