"""Row types as Spark schemas, read off the dataclasses in ``rows``, so that they are described once."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

_SIMPLE: dict[Any, type[DataType]] = {str: StringType, int: LongType, float: DoubleType, bool: BooleanType}


def schema_of(row_type: type) -> StructType:
    """Returns the schema of a row type; a field is nullable if its type says ``| None``.

    Raises:
        TypeError: A field has a type that has no counterpart in Spark.
    """
    hints = typing.get_type_hints(row_type)
    return StructType([_field(field.name, hints[field.name]) for field in dataclasses.fields(row_type)])


def required(schema: StructType) -> tuple[str, ...]:
    """Returns the names of the fields that every row must fill."""
    return tuple(field.name for field in schema if not field.nullable)


def relaxed(schema: StructType) -> StructType:
    """Returns the schema with every field nullable: what a reader expects of a line it does not trust."""
    return StructType([StructField(field.name, field.dataType, nullable=True) for field in schema])


def _field(name: str, hint: Any) -> StructField:
    arguments = typing.get_args(hint)
    nullable = isinstance(hint, types.UnionType) and type(None) in arguments
    if nullable:
        (hint,) = (argument for argument in arguments if argument is not type(None))
    return StructField(name, _data_type(name, hint), nullable)


def _data_type(name: str, hint: Any) -> DataType:
    if simple := _SIMPLE.get(hint):
        return simple()
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return ArrayType(_data_type(name, arguments[0]), containsNull=False)
    raise TypeError(f"{name}: {hint} has no counterpart in Spark")
