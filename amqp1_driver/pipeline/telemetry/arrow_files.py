# SPDX-License-Identifier: Apache-2.0
"""A decoder of telemetry files in Arrow's file format, for Spark's workers.

Spark cannot read Arrow files. It reads the bytes of each file from any file system, and a worker
decodes them, so the process that plans never has the data. A worker holds a whole file in memory;
the driver's files are small (``telemetry_file_bytes``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import ArrayType, DataType, LongType, StringType, StructField, StructType

from amqp1_driver.pipeline.transform.telemetry_records import (
    OLD_NAMES,
    RECORDS,
    UNKNOWN,
    unknown_names,
)

if TYPE_CHECKING:
    import pyarrow as pa

#: the columns of records, and a column with the names of all other columns of the file
COLUMNS = StructType([*RECORDS.fields, StructField(UNKNOWN, ArrayType(StringType()))])


def schema_of(path: str) -> Any:
    """Return the Arrow schema of a local file, of which this function reads only the end.

    :raises ValueError: the file cannot be opened, is not an Arrow file, or was cut off
    """
    import pyarrow as pa

    try:
        with pa.memory_map(path) as file:
            return _open(file, path).schema
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None


def decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn the columns path and content into :data:`COLUMNS`; Spark's ``mapInArrow`` calls this.

    :raises ValueError: a file is not an Arrow file, or was cut off; the text names the file
    """
    import pyarrow as pa

    for files in batches:
        for path, content in zip(files["path"], files["content"], strict=True):
            reader = _open(pa.BufferReader(content.as_buffer()), path.as_py())
            for index in range(reader.num_record_batches):
                yield records(reader.get_batch(index))


def _open(source: Any, path: str) -> Any:
    import pyarrow as pa

    try:
        return pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        raise ValueError(f"{path}: this is no Arrow file, or it was cut off") from None


def records(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert a batch of any columns to :data:`COLUMNS`.

    A column is null if it is missing, or if Arrow has no cast from its type. A single value is null
    if Arrow cannot cast it, as with Spark's ``try_cast``.
    ``time`` may be microseconds since 1970.
    """
    import pyarrow as pa

    further = unknown_names(batch.schema.names)
    known = [_column(batch, field.name, _kind(field.dataType)) for field in RECORDS.fields]
    unknown = pa.array([further] * batch.num_rows, pa.list_(pa.string()))
    return pa.RecordBatch.from_arrays([*known, unknown], names=COLUMNS.names)


def _column(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if name not in batch.schema.names:
        name = OLD_NAMES.get(name, name)
    if name not in batch.schema.names:
        return pa.nulls(batch.num_rows, kind)
    column = batch.column(name)
    try:
        return column.cast(kind)
    except pa.ArrowNotImplementedError:
        return pa.nulls(batch.num_rows, kind)
    except pa.ArrowInvalid:
        return pa.array([_value(value, kind) for value in column], kind)


def _value(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar | None:
    import pyarrow as pa

    try:
        return value.cast(kind)
    except pa.ArrowInvalid:
        return None


def _kind(kind: DataType) -> pa.DataType:
    import pyarrow as pa

    if isinstance(kind, LongType):
        return pa.int64()
    return pa.string() if isinstance(kind, StringType) else pa.timestamp("us", tz="UTC")
