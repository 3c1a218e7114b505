# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.
"""Files in Arrow's file format, as columns of records; in the workers.

Spark reads no Arrow files itself. It hands over the bytes of each, from whatever file system, and a
worker decodes them: nothing goes through the process that plans. The driver's files are small
(``telemetry_file_bytes``), so that one in memory is no burden.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import ArrayType, DataType, LongType, StringType, StructField, StructType

from amqp1_driver.pipeline.transform.telemetry_records import RECORDS, UNKNOWN

if TYPE_CHECKING:
    import pyarrow as pa

#: at both ends of a file
MAGIC = b"ARROW1"
#: columns of records, and the names of those that are none
COLUMNS = StructType([*RECORDS.fields, StructField(UNKNOWN, ArrayType(StringType()))])


def schema_of(path: str) -> Any:
    """The schema of a file of this machine, of which only the end is read.

    :raises ValueError: it is no such file, or was cut off
    """
    import pyarrow as pa

    try:
        with pa.memory_map(path) as file:
            return _open(file, path).schema
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None


def decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: columns path and content to :data:`COLUMNS`.

    :raises ValueError: a file is none of Arrow's, and is named
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
    """Columns of records; what is missing, or of a kind that cannot be taken, is null.

    ``time`` may be microseconds since 1970.
    """
    import pyarrow as pa

    names = batch.schema.names
    further = [name for name in names if name not in RECORDS.names]
    known = [_column(batch, field.name, _kind(field.dataType)) for field in RECORDS.fields]
    unknown = pa.array([further] * batch.num_rows, pa.list_(pa.string()))
    return pa.RecordBatch.from_arrays([*known, unknown], names=COLUMNS.names)


def _column(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if name in batch.schema.names:
        try:
            return batch.column(name).cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass  # as Spark's try_cast
    return pa.nulls(batch.num_rows, kind)


def _kind(kind: DataType) -> pa.DataType:
    import pyarrow as pa

    if isinstance(kind, LongType):
        return pa.int64()
    return pa.string() if isinstance(kind, StringType) else pa.timestamp("us", tz="UTC")
