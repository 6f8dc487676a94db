import dataclasses

import pytest
from pyspark.sql.types import ArrayType, LongType, StringType

from spark_reports import rows
from spark_reports.storage.schemas import relaxed, required, schema_of

ROW_TYPES = [rows.RunRow, *rows.type_of_file.values()]


@pytest.mark.parametrize("row_type", ROW_TYPES)
def test_every_row_type_has_a_schema_with_its_fields_in_order(row_type: type) -> None:
    assert schema_of(row_type).names == [field.name for field in dataclasses.fields(row_type)]


def test_every_row_type_is_known() -> None:
    declared = {value for value in vars(rows).values() if isinstance(value, type) and hasattr(value, "TABLE")}
    assert declared == set(ROW_TYPES)


def test_types_follow_the_hints() -> None:
    schema = schema_of(rows.VerdictRow)
    assert schema["requirements"].dataType == ArrayType(StringType(), containsNull=False)
    assert schema["started_ns"].dataType == LongType()
    assert not schema["started_ns"].nullable


def test_only_an_optional_field_may_be_empty() -> None:
    schema = schema_of(rows.RunRow)
    assert set(schema.names) - set(required(schema)) == {"ended_at"}
    assert required(relaxed(schema)) == ()


def test_type_without_counterpart_is_refused() -> None:
    @dataclasses.dataclass
    class Odd:
        when: complex

    with pytest.raises(TypeError, match=r"when: .*complex.* has no counterpart"):
        schema_of(Odd)
