"""Arrow as Spark takes it: no unsigned numbers, times in microseconds, nothing dictionary-coded or large.

An unsigned number becomes the next wider signed one. There is none wider than 64 bits: those stay as they are,
bit by bit, so that from 2**63 on they read as negative (``pmod(cast(x as decimal(20)), 18446744073709551616)``
is what was meant). Lanes, ids and NTP64 times stay below that until 2038.
"""

import pyarrow as pa

_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.int64(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.null(): pa.string(),
}


def fitting_type(found: pa.DataType) -> pa.DataType:
    """Returns the type that Spark takes for a type."""
    if pa.types.is_dictionary(found):
        return fitting_type(found.value_type)
    if pa.types.is_timestamp(found):
        return pa.timestamp("us", "UTC")
    if pa.types.is_fixed_size_binary(found):
        return pa.binary()
    if pa.types.is_list(found) or pa.types.is_large_list(found):
        return pa.list_(pa.field("element", fitting_type(found.value_type)))
    if pa.types.is_struct(found):
        return pa.struct([pa.field(field.name, fitting_type(field.type)) for field in found])
    return _WIDER.get(found, found)


def fitting_schema(found: pa.Schema) -> pa.Schema:
    """Returns the columns that Spark takes for some columns."""
    return pa.schema([pa.field(field.name, fitting_type(field.type)) for field in found])


def fit(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Returns values as the type that ``fitting_type`` says, without a copy where they need none."""
    found = values.type
    if found.equals(wanted):
        return values
    if pa.types.is_struct(found):
        # flatten() gives nulls to the children of what is null.
        children = [fit(child, wanted.field(at).type) for at, child in enumerate(values.flatten())]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=values.is_null())
    if pa.types.is_list(found):
        if values.offset:
            # A mask goes only with offsets that begin with the first list.
            values = pa.concat_arrays([values, values.slice(0, 0)])
        items = fit(values.values, wanted.value_type)
        mask = values.is_null() if values.null_count else None
        return pa.ListArray.from_arrays(values.offsets, items, type=wanted, mask=mask)
    if pa.types.is_uint64(found):
        return values.view(pa.int64())
    # What is below a microsecond may go: ``time_ns`` has it.
    return values.cast(wanted, safe=not pa.types.is_timestamp(found))
