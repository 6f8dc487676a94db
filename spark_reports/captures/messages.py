"""The table ``messages``: every message of a capture in one table, with the columns that many of them have.

Its rows are made of those of ``scapy_layers.tables``, which has a table for each kind of message: a network
message gets what its body says (PUSH the payload of its PUT, DECLARE the key of its D_SUBSCRIBER) and what the
FRAME or FRAGMENT says that brought it. Nothing is repeated: a body has no row of its own. What could not be read
has a row as well, with ``error`` and no ``message``.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_reports.captures.arrow import fit

Tables = Mapping[str, pa.RecordBatch]
Numbers = npt.NDArray[np.int64]

COLUMNS = pa.schema(
    [
        ("capture", pa.string()),
        ("packet", pa.int64()),
        ("time", pa.timestamp("us", "UTC")),
        ("time_ns", pa.int64()),
        ("connection", pa.int32()),
        ("forward", pa.bool_()),
        ("source", pa.string()),
        ("target", pa.string()),
        ("source_zid", pa.string()),
        ("target_zid", pa.string()),
        ("batch", pa.int64()),
        ("offset", pa.int32()),
        ("length", pa.int32()),
        ("pieces", pa.int32()),
        ("message", pa.string()),
        ("body", pa.string()),
        ("value", pa.string()),
        ("reliable", pa.bool_()),
        ("priority", pa.int16()),
        ("sn", pa.int64()),
        ("key_scope", pa.int64()),
        ("key_suffix", pa.string()),
        ("mapping", pa.bool_()),
        ("key_id", pa.int64()),
        ("entity_id", pa.int64()),
        ("interest_id", pa.int64()),
        ("request_id", pa.int64()),
        ("encoding", pa.int64()),
        ("schema", pa.binary()),
        ("timestamp", pa.int64()),
        ("timestamp_id", pa.string()),
        ("payload", pa.binary()),
        ("payload_size", pa.int64()),
        ("attachment", pa.binary()),
        ("error", pa.string()),
    ]
)
"""``batch``, ``pieces``, ``offset`` and ``length`` say where a message stands; ``message`` and ``body`` are called as
their tables are; ``value`` is the PUT or DEL of a REPLY; ``priority`` is that of the message, 5 when it says none;
``mapping``: the alias is one of the sender; ``timestamp`` is NTP64."""

TRANSPORT = ("init", "open", "close", "keep_alive", "frame", "fragment", "join", "transport_oam")
SCOUTING = ("scout", "hello")
NETWORK = ("push", "request", "response", "response_final", "declare", "interest", "network_oam")
OUTER = (*SCOUTING, *TRANSPORT)
"""Messages that can be read without a look at what they carry."""

MESSAGES = (*SCOUTING, *TRANSPORT, *NETWORK)

_DECLARATIONS = ("keyexpr", "subscriber", "queryable", "token")
BODIES: Mapping[str, tuple[str, ...]] = {
    "push": ("put", "del"),
    "request": ("query",),
    "response": ("reply", "err"),
    "declare": (*(f"{way}_{what}" for what in _DECLARATIONS for way in "du"), "d_final"),
}
VALUES = ("put", "del")
"""What a REPLY brings."""

ERRORS = "errors"

_PLACE = ("packet", "time", "connection", "forward", "batch", "offset", "length", "pieces")

_KEY = {"key_scope": "key_scope", "key_suffix": "key_suffix", "mapping": "M"}
_LOOSE_KEY = {name: f"wire_expr.{name}" for name in ("key_scope", "key_suffix", "mapping")}
_NETWORK = {
    "priority": "qos.priority",
    "timestamp": "timestamp.timestamp",
    "timestamp_id": "timestamp.timestamp_id",
}
_STAMP = {"timestamp": "timestamp", "timestamp_id": "timestamp_id"}
_CONTENT = {"encoding": "encoding", "schema": "schema", "payload": "data"}
_ENTITY = {"entity_id": "entity_id"}

PATHS: Mapping[str, Mapping[str, str]] = {
    "frame": {"sn": "sn", "reliable": "R", "priority": "qos.priority"},
    "fragment": {"sn": "sn", "reliable": "R", "priority": "qos.priority"},
    "push": _NETWORK | _KEY,
    "request": _NETWORK | _KEY | {"request_id": "request_id"},
    "response": _NETWORK | _KEY | {"request_id": "request_id"},
    "response_final": _NETWORK | {"request_id": "request_id"},
    "declare": _NETWORK | {"interest_id": "interest_id"},
    "interest": _NETWORK | _KEY | {"interest_id": "interest_id"},
    "network_oam": _NETWORK,
    "d_keyexpr": {"key_id": "key_id", "key_scope": "key_scope", "key_suffix": "key_suffix"},
    "u_keyexpr": {"key_id": "key_id"},
    "d_subscriber": _ENTITY | _KEY,
    "d_queryable": _ENTITY | _KEY,
    "d_token": _ENTITY | _KEY,
    "u_subscriber": _ENTITY | _LOOSE_KEY,
    "u_queryable": _ENTITY | _LOOSE_KEY,
    "u_token": _ENTITY | _LOOSE_KEY,
    "put": _CONTENT | _STAMP | {"attachment": "attachment.attachment"},
    "del": _STAMP | {"attachment": "attachment.attachment"},
    "query": {
        "encoding": "query_body.encoding",
        "schema": "query_body.schema",
        "payload": "query_body.data",
        "attachment": "attachment.attachment",
    },
    "err": _CONTENT,
}
"""Where each table has what columns, beside those that say where a message stands."""

DATA_PRIORITY = 5
"""What holds for network messages, FRAME and FRAGMENT that say nothing else."""

_LANE = ("sn", "reliable")
_SLICED = {"put": "slices", "query": "query_body.slices"}
_OFFSET_BITS = 26


def tables_for(
    messages: Iterable[str], columns: Iterable[str], only: Collection[str] | None = None
) -> list[str]:
    """Returns which tables are needed for some columns of some messages.

    Args:
        messages: Names of messages.
        columns: Names of columns.
        only: The bodies that are of interest; None for all.
    """
    wanted = set(columns)
    needed: dict[str, None] = {}
    for message in messages:
        needed[message] = None
        bodies = [body for body in BODIES.get(message, ()) if only is None or body in only]
        if wanted & {"body", "value"} or any(_has(body, wanted) for body in bodies):
            needed |= dict.fromkeys(bodies)
        if "reply" in bodies and ("value" in wanted or any(_has(value, wanted) for value in VALUES)):
            needed |= dict.fromkeys(("reply", *VALUES))
        if message in NETWORK and wanted & set(_LANE):
            needed |= dict.fromkeys(("frame", "fragment"))
    return list(needed)


def fields_for(table: str, columns: Iterable[str]) -> list[str]:
    """Returns which columns of a table are needed for some columns of ``messages``."""
    wanted = set(columns)
    if table == ERRORS:
        inside = {"kind", "field", "found"} if "error" in wanted else {"kind"}
        return sorted(inside | _places(wanted) - {"length"})
    paths = PATHS.get(table, {})
    found = {"batch", "offset", "pieces", "within"} | _places(wanted)
    if table == "hello" and "source_zid" in wanted:
        found.add("zid")
    sources = wanted | ({"payload"} if "payload_size" in wanted else set())
    found |= {paths[column].partition(".")[0] for column in sources if column in paths}
    if "payload" in sources and table in _SLICED:
        found.add(_SLICED[table].partition(".")[0])
    if "encoding" in wanted and table in {"put", "err"}:
        found.add("E")
    if "mapping" in wanted and "key_scope" in paths:
        # Where there is no key, M says nothing.
        found.add(paths["key_scope"].partition(".")[0])
    return sorted(found)


def _places(wanted: set[str]) -> set[str]:
    found = wanted & set(_PLACE)
    if "time_ns" in wanted:
        found.add("time")
    if wanted & {"source", "target", "source_zid", "target_zid"}:
        found |= {"connection", "forward"}
    return found


def _has(table: str, wanted: set[str]) -> bool:
    columns = set(PATHS.get(table, ()))
    if "payload" in columns:
        columns.add("payload_size")
    if table == "d_keyexpr":
        columns.add("mapping")
    return bool(wanted & columns)


class Part:
    """The rows of one kind of message, each with its body and the FRAME or FRAGMENT around it.

    Args:
        name: Of the table.
        tables: What was read at the same time.
    """

    def __init__(self, name: str, tables: Tables) -> None:
        self.name = name
        self.rows = tables[name]
        self._tables = tables

    @property
    def size(self) -> int:
        """Number of rows."""
        return int(self.rows.num_rows)

    @cached_property
    def bodies(self) -> list[tuple[str, pa.RecordBatch, Numbers]]:
        """Tables with bodies of these messages, and the row here that each body belongs to, -1 for none."""
        return [
            (name, self._tables[name], _owners(self.rows, self._tables[name]))
            for name in BODIES.get(self.name, ())
            if name in self._tables and self._tables[name].num_rows
        ]

    @cached_property
    def values(self) -> list[tuple[str, pa.RecordBatch, Numbers]]:
        """The same for what REPLY brings."""
        found = []
        for name, replies, owners in self.bodies:
            if name != "reply":
                continue
            for value in VALUES:
                if value in self._tables and self._tables[value].num_rows:
                    inside = _owners(replies, self._tables[value])
                    found.append((value, self._tables[value], np.where(inside < 0, -1, owners[inside])))
        return found

    @cached_property
    def lanes(self) -> list[tuple[str, pa.RecordBatch, Numbers]]:
        """FRAME and FRAGMENT tables, and the row there that each message here came with, -1 for none."""
        if self.name not in NETWORK:
            return []
        found = []
        if (frames := self._tables.get("frame")) is not None and frames.num_rows:
            found.append(("frame", frames, _owners(frames, self.rows)))
        if (pieces := self._tables.get("fragment")) is not None and pieces.num_rows:
            found.append(("fragment", pieces, self._last_pieces(pieces)))
        return found

    def _last_pieces(self, pieces: pa.RecordBatch) -> Numbers:
        """Returns the last FRAGMENT of the batch in which a message was completed."""
        batches = _numbers(pieces.column("batch"))
        order = np.argsort(batches, kind="stable")
        mine = _numbers(self.rows.column("batch"))
        at = np.searchsorted(batches, mine, side="right", sorter=order) - 1
        rows: Numbers = np.where(at < 0, -1, order[at]) if len(order) else np.full(len(mine), -1)
        fits = (rows >= 0) & (batches[rows] == mine) & _whole(self.rows)
        return np.where(fits, rows, -1)


def _owners(owners: pa.RecordBatch, rows: pa.RecordBatch) -> Numbers:
    """Returns where among ``owners`` the message is that each of ``rows`` stands in; -1 for nowhere."""
    batches, mine = _numbers(owners.column("batch")), _numbers(rows.column("batch"))
    offsets, within = _numbers(owners.column("offset")), _numbers(rows.column("within"), -1)
    if (
        len(batches) == len(mine)
        and np.array_equal(batches, mine)
        and np.array_equal(offsets, within)
        and np.array_equal(_whole(owners), _whole(rows))
    ):
        return np.arange(len(mine))
    if not len(batches) or not len(mine):
        return np.full(len(mine), -1)
    # Batches have large numbers; their ranks leave room for offsets.
    _, ranks = np.unique(np.concatenate([batches, mine]), return_inverse=True)
    places = (ranks << (_OFFSET_BITS + 1)) + (
        np.concatenate([_whole(owners), _whole(rows)]).astype(np.int64) << _OFFSET_BITS
    )
    keys, wanted = places[: len(batches)] + offsets, places[len(batches) :] + within
    order = np.argsort(keys, kind="stable")
    at = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
    found: Numbers = np.where((keys[order[at]] == wanted) & (within >= 0), order[at], -1)
    return found


def _whole(rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Tells which messages were put together from fragments, and stand in no batch."""
    found: npt.NDArray[np.bool_] = _numbers(rows.column("pieces")) > 0
    return found


def _numbers(values: pa.Array, null: int = 0) -> Numbers:
    if values.null_count:
        values = pc.fill_null(values, pa.scalar(null, values.type))
    found: Numbers = values.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found


def _field(rows: pa.RecordBatch, path: str) -> pa.Array | None:
    name, _, inner = path.partition(".")
    if name not in rows.schema.names:
        return None
    values = rows.column(name)
    if not inner:
        return values
    at = values.type.get_field_index(inner)
    return None if at < 0 else pc.struct_field(values, inner)


def _read(name: str, rows: pa.RecordBatch, column: str) -> pa.Array | None:
    """Returns a column of ``messages`` as one table has it, None when it has not."""
    if column == "mapping" and name == "d_keyexpr":
        # It has no M: what it builds on are aliases of its sender.
        return pa.array(np.ones(rows.num_rows, bool))
    path = PATHS.get(name, {}).get(column)
    values = None if path is None else _field(rows, path)
    if values is None:
        return None
    wanted = COLUMNS.field(column).type
    values = values.cast(wanted) if pa.types.is_boolean(wanted) else fit(values, wanted)
    if column == "encoding" and name in {"put", "err"}:
        values = pc.fill_null(values, 0)
    elif column == "payload" and name in _SLICED:
        values = _with_slices(values, _field(rows, _SLICED[name]))
    elif column == "mapping" and (scopes := _read(name, rows, "key_scope")) is not None:
        values = pc.if_else(pc.is_valid(scopes), values, pa.scalar(None, pa.bool_()))
    return values


def _with_slices(payloads: pa.Array, slices: pa.Array | None) -> pa.Array:
    """Puts payloads together that came in slices; one of which a part stands in shared memory stays null."""
    if slices is None or slices.null_count == len(slices):
        return payloads
    found = payloads.to_pylist()
    for at, parts in enumerate(slices.to_pylist()):
        if parts and all(part.get("slice") is not None for part in parts):
            found[at] = b"".join(part["slice"] for part in parts)
        elif parts == []:
            found[at] = b""
    return pa.array(found, pa.binary())


def _spread(parts: Sequence[tuple[pa.Array, Numbers]], size: int, wanted: pa.DataType) -> pa.Array:
    """Puts values where they belong.

    Args:
        parts: Values, and the row that each of them belongs to; -1 for none. Earlier parts win.
        size: Number of rows.
        wanted: Type of the values.
    """
    if len(parts) == 1 and len(parts[0][1]) == size and np.array_equal(parts[0][1], np.arange(size)):
        return parts[0][0]
    taken = np.full(size, -1, np.int64)
    before = sum(len(values) for values, _ in parts)
    for values, rows in reversed(parts):
        before -= len(values)
        valid = rows >= 0
        if values.null_count:
            valid &= values.is_valid().to_numpy(zero_copy_only=False)
        taken[rows[valid]] = np.flatnonzero(valid) + before
    if not parts:
        return pa.nulls(size, wanted)
    values = pa.concat_arrays([values for values, _ in parts])
    return values.take(pa.array(taken, mask=taken < 0))


def column(part: Part, name: str) -> pa.Array:
    """Returns one column of ``messages`` for the messages of one kind."""
    wanted, size = COLUMNS.field(name).type, part.size
    if name in _BUILT:
        return _BUILT[name](part)
    if name in _PLACE:
        return fit(part.rows.column(name), wanted)
    found = [(part.name, part.rows, np.arange(size)), *part.bodies, *part.values]
    if name.startswith("timestamp"):
        # That of the value counts, then that of the message.
        found.reverse()
    parts = [
        (values, rows) for source, table, rows in found if (values := _read(source, table, name)) is not None
    ]
    values = _spread(parts, size, wanted)
    if name == "priority" and part.name in {"frame", "fragment", *NETWORK}:
        return pc.fill_null(values, pa.scalar(DATA_PRIORITY, wanted))
    return values


def _lane(part: Part, name: str) -> pa.Array:
    own = _read(part.name, part.rows, name)
    if own is not None:
        return own
    parts = [
        values.take(_maybe(rows))
        for source, table, rows in part.lanes
        if (values := _read(source, table, name)) is not None
    ]
    if not parts:
        return pa.nulls(part.size, COLUMNS.field(name).type)
    return pc.coalesce(*parts)


def _maybe(rows: Numbers) -> pa.Array:
    return pa.array(rows, mask=rows < 0)


def _names(found: Sequence[tuple[str, pa.RecordBatch, Numbers]], size: int) -> pa.Array:
    codes = np.full(size, -1, np.int32)
    for code, (_, _, rows) in enumerate(found):
        codes[rows[rows >= 0]] = code
    if len(found) == 1 and size and bool(np.all(codes == 0)):
        return pa.repeat(found[0][0], size)
    return pa.array([name for name, _, _ in found], pa.string()).take(pa.array(codes, mask=codes < 0))


def _payload_size(part: Part) -> pa.Array:
    return fit(pc.binary_length(column(part, "payload")), pa.int64())


def _time_ns(part: Part) -> pa.Array:
    return part.rows.column("time").cast(pa.timestamp("ns", "UTC")).view(pa.int64())


_BUILT: Mapping[str, Callable[[Part], pa.Array]] = {
    "time_ns": _time_ns,
    "message": lambda part: pa.repeat(part.name, part.size),
    "body": lambda part: _names(part.bodies, part.size),
    "value": lambda part: _names(part.values, part.size),
    "sn": lambda part: _lane(part, "sn"),
    "reliable": lambda part: _lane(part, "reliable"),
    "payload_size": _payload_size,
}


def error_column(rows: pa.RecordBatch, name: str) -> pa.Array:
    """Returns one column of ``messages`` for rows of the table ``errors``."""
    wanted = COLUMNS.field(name).type
    if name == "error":
        parts = [rows.column(part).cast(pa.string()) for part in ("kind", "field", "found")]
        return pc.binary_join_element_wise(*parts, ": ", null_handling="skip")
    if name == "time_ns" and "time" in rows.schema.names:
        return rows.column("time").cast(pa.timestamp("ns", "UTC")).view(pa.int64())
    if name in _PLACE and name in rows.schema.names:
        return fit(rows.column(name), wanted)
    return pa.nulls(rows.num_rows, wanted)
