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

"""Telemetry records of the driver: their columns, from JSON lines, Parquet or Arrow.

A line that is no record is kept aside with the reason: it is counted and shown, never lost.
The columns are those of :mod:`amqp1_driver.telemetry.events`.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_TEXT, _COUNT = StringType(), LongType()
_COLUMNS: dict[str, DataType] = {
    "time": TimestampType(), "kind": _TEXT, "container": _TEXT, "pid": _COUNT, "host": _TEXT,
    "address": _TEXT, "operation": _TEXT, "message_id": _TEXT, "outcome": _TEXT, "error": _TEXT,
    "stage": _TEXT, "handover_us": _COUNT, "wait_us": _COUNT, "ack_us": _COUNT,
    "reply_us": _COUNT, "total_us": _COUNT, "size": _COUNT, "credit": _COUNT, "state": _TEXT,
    "batch": _COUNT,
}  # fmt: skip
#: a record; durations are microseconds, the size is bytes
RECORDS = StructType([StructField(name, kind) for name, kind in _COLUMNS.items()])
#: without these it is no record
REQUIRED = ("time", "kind", "container")
KINDS = ("send", "reply", "stall", "resume", "connection", "link")
#: added to what is read: why it is no record (else null), its text, and what else was in it
REASON, LINE, UNKNOWN = "reason", "line", "unknown"

#: Each client has a reply address of its own, which is random: they are one place together.
REPLIES = "(reply addresses)"
#: of records without an address
NOWHERE = "(none)"
#: outcomes that are failures in themselves, whatever the record says besides
_FAILED = ("rejected", "released", "modified", "timeout")


def of_lines(lines: DataFrame) -> DataFrame:
    """Records of JSON lines.

    :param lines: column ``value``, a line each; empty ones are left out
    :returns: :data:`RECORDS`, and the columns reason, line and unknown (names of further keys)
    """
    schema = StructType([*RECORDS.fields, StructField("_corrupt", StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}
    record = F.from_json("value", schema, options)
    known = F.array(*(F.lit(name) for name in _COLUMNS))
    further = F.array_except(F.json_object_keys(LINE), known)
    # A generator is computed once for each row; a projection may be for each column that uses it.
    parsed = lines.filter(F.trim("value") != "").select(
        F.col("value").alias(LINE), F.inline(F.array(record))).select(
        "*", F.explode(F.array(further)).alias(UNKNOWN))  # fmt: skip
    # A line that is no JSON object has no keys.
    broken = F.col("_corrupt").isNotNull() | F.col(UNKNOWN).isNull()
    return parsed.select(*_COLUMNS, LINE, UNKNOWN, _reason(broken).alias(REASON))


def of_columns(frame: DataFrame) -> DataFrame:
    """Records of a frame that has these columns already, as Parquet has.

    Columns that are missing are null. ``time`` may be microseconds since 1970.

    :returns: as :func:`of_lines`
    :raises ValueError: it is no telemetry: required columns are missing, and are named
    """
    check_columns(frame.columns)
    further = [name for name in frame.columns if name not in _COLUMNS]
    found = frame.select(
        *(_column(frame, name, kind) for name, kind in _COLUMNS.items()),
        F.lit(None).cast("string").alias(LINE),
        F.array(*(F.lit(name) for name in further)).cast("array<string>").alias(UNKNOWN))
    return found.withColumn(REASON, _reason(F.lit(False)))


def of_decoded(frame: DataFrame) -> DataFrame:
    """Records of a frame that has all columns of them, and ``unknown``.

    :returns: as :func:`of_lines`
    """
    return frame.select(*_COLUMNS, F.lit(None).cast("string").alias(LINE), UNKNOWN,
                        _reason(F.lit(False)).alias(REASON))


def check_columns(names: Sequence[str]) -> None:
    """:raises ValueError: required columns are missing; it names them"""
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        raise ValueError(f"no telemetry of the driver: column {', '.join(missing)} is missing "
                         f"among {', '.join(names) or 'none at all'}")


def _column(frame: DataFrame, name: str, kind: DataType) -> Column:
    if name not in frame.columns:
        return F.lit(None).cast(kind).alias(name)
    if name == "time" and isinstance(frame.schema[name].dataType, LongType):
        return F.timestamp_micros(name).alias(name)
    return F.col(name).try_cast(kind).alias(name)


def _reason(broken: Column) -> Column:
    reason = F.when(broken, "not a record in JSON")
    for name in REQUIRED:
        reason = reason.when(F.col(name).isNull(), f"{name} is missing")
    return reason.when(~F.col("kind").isin(*KINDS), F.concat(F.lit("unknown kind "), "kind"))


def good(found: DataFrame) -> DataFrame:
    """The records, with what the tables ask for again and again:

    ``place`` is the address, where one makes sense; ``failed`` whether a message did not get
    where it should; ``client`` is who tells: each transport of a process is one, with a connection
    of its own.
    """
    failed = F.col("error").isNotNull() | F.coalesce(F.col("outcome").isin(*_FAILED), F.lit(False))
    place = F.when(F.col("kind") == "reply", REPLIES).otherwise(
        F.coalesce("address", F.lit(NOWHERE)))  # fmt: skip
    return found.filter(F.col(REASON).isNull()).select(
        *(name for name in _COLUMNS if name != "message_id"),
        place.alias("place"), failed.alias("failed"),
        F.concat_ws("/", "container", "pid").alias("client"))  # fmt: skip


def bad(found: DataFrame) -> DataFrame:
    """What is no record, by reason: how many, and one of them (cut).

    :returns: reason, count, example
    """
    example = F.first(F.substring(LINE, 1, 120), ignorenulls=True)
    return found.filter(F.col(REASON).isNotNull()).groupBy(REASON).agg(
        F.count("*").alias("count"), example.alias("example")).orderBy(
        F.desc("count"), REASON)  # fmt: skip


def unknown(found: DataFrame) -> DataFrame:
    """Names of what is in records and is not known here, and in how many.

    :returns: name, count
    """
    names = found.filter(F.col(REASON).isNull() & (F.size(UNKNOWN) > 0))
    return names.select(F.explode(UNKNOWN).alias("name")).groupBy("name").count().orderBy("name")


def lasted(begin: str, end: str) -> Column:
    """Microseconds between two times; null where one is."""
    return F.unix_micros(F.col(end)) - F.unix_micros(F.col(begin))


def messages(records: DataFrame) -> DataFrame:
    """Only what was sent: requests, notifications and replies."""
    return records.filter(F.col("kind").isin("send", "reply"))


def summary(records: DataFrame) -> DataFrame:
    """All of it in one row.

    :returns: records, clients, messages, failed, dropped (records that the driver could not
        write), first, last (times), bytes
    """
    message = F.col("kind").isin("send", "reply")
    return records.agg(
        F.count("*").alias("records"),
        F.countDistinct("client").alias("clients"),
        F.count_if(message).alias("messages"),
        F.count_if(message & F.col("failed")).alias("failed"),
        F.coalesce(F.sum("batch"), F.lit(0)).alias("dropped"),
        F.min("time").alias("first"), F.max("time").alias("last"),
        F.coalesce(F.sum("size"), F.lit(0)).alias("bytes"))  # fmt: skip


def dropped(records: DataFrame) -> DataFrame:
    """Processes whose records have gaps, the largest first.

    :returns: client, dropped, kept, share (of what there was)
    """
    lost, kept = F.sum("batch"), F.count("*")
    return records.groupBy("client").agg(
        lost.alias("dropped"), kept.alias("kept"), (lost / (lost + kept)).alias("share"),
    ).filter("dropped > 0").orderBy(F.desc("dropped"), "client")  # fmt: skip
