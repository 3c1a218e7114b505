# SPDX-License-Identifier: Apache-2.0

"""The columns of the driver's telemetry records, read from JSON lines, Parquet or Arrow.

Pure; any thread.

The columns are those of :mod:`amqp1_driver.telemetry.events`. A line that is not a record stays in
the frame with the reason, so that the report can count and show it.
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
    "time": TimestampType(),
    "kind": _TEXT,
    "container": _TEXT,
    "pid": _COUNT,
    "host": _TEXT,
    "address": _TEXT,
    "operation": _TEXT,
    "message_id": _TEXT,
    "outcome": _TEXT,
    "error": _TEXT,
    "stage": _TEXT,
    "handover_us": _COUNT,
    "wait_us": _COUNT,
    "ack_us": _COUNT,
    "reply_us": _COUNT,
    "total_us": _COUNT,
    "size": _COUNT,
    "credit": _COUNT,
    "state": _TEXT,
    "dropped": _COUNT,
}
#: columns of a record; durations are microseconds, the size is bytes
RECORDS = StructType([StructField(name, kind) for name, kind in _COLUMNS.items()])
#: columns that earlier versions of the driver wrote under another name
OLD_NAMES = {"dropped": "batch"}
#: columns without which a row is not a record
REQUIRED = ("time", "kind", "container")
KINDS = ("send", "reply", "stall", "resume", "connection", "link")
#: columns that this module adds: why a row is not a record (else null), the text of its line, and
#: the names of its unknown keys or columns
REASON, LINE, UNKNOWN = "reason", "line", "unknown"

#: the place of all replies: each client has a random reply address of its own
REPLIES = "(reply addresses)"
#: the place of records without an address
NOWHERE = "(none)"
#: outcomes that make a message a failed one even if the record has no error
_FAILED = ("rejected", "released", "modified", "timeout")


def of_lines(lines: DataFrame) -> DataFrame:
    """Return the records of JSON lines.

    :param lines: column ``value`` with one line per row; this function skips empty lines
    :returns: :data:`RECORDS`, and the columns reason, line and unknown (names of unknown keys)
    """
    old = [StructField(name, _COLUMNS[new]) for new, name in OLD_NAMES.items()]
    schema = StructType([*RECORDS.fields, *old, StructField("_corrupt", StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}
    record = F.from_json("value", schema, options)
    known = F.array(*(F.lit(name) for name in (*_COLUMNS, *OLD_NAMES.values())))
    further = F.array_except(F.json_object_keys(LINE), known)
    # Spark computes a generator once per row, but a projection once per column that uses it.
    parsed = (
        lines.filter(F.trim("value") != "")
        .select(F.col("value").alias(LINE), F.inline(F.array(record)))
        .select("*", F.explode(F.array(further)).alias(UNKNOWN))
    )
    # For a line that is not a JSON object, the list of unknown keys is null.
    broken = F.col("_corrupt").isNotNull() | F.col(UNKNOWN).isNull()
    columns = (
        F.coalesce(name, OLD_NAMES[name]).alias(name) if name in OLD_NAMES else name
        for name in _COLUMNS
    )
    return parsed.select(*columns, LINE, UNKNOWN, _reason(broken).alias(REASON))


def of_columns(frame: DataFrame) -> DataFrame:
    """Return the records of a frame that has their columns already, as one from Parquet has.

    Other missing columns than :data:`REQUIRED` become null. ``time`` may be microseconds since
    1970.

    :returns: columns of :func:`of_lines`
    :raises ValueError: required columns are missing; the text names them
    """
    check_columns(frame.columns)
    further = unknown_names(frame.columns)
    found = frame.select(
        *(_column(frame, name, kind) for name, kind in _COLUMNS.items()),
        F.lit(None).cast("string").alias(LINE),
        F.array(*(F.lit(name) for name in further)).cast("array<string>").alias(UNKNOWN),
    )
    return found.withColumn(REASON, _reason(F.lit(False)))


def of_decoded(frame: DataFrame) -> DataFrame:
    """Return the records of a frame that has all columns of :data:`RECORDS` and ``unknown``.

    :returns: columns of :func:`of_lines`
    """
    return frame.select(
        *_COLUMNS,
        F.lit(None).cast("string").alias(LINE),
        UNKNOWN,
        _reason(F.lit(False)).alias(REASON),
    )


def check_columns(names: Sequence[str]) -> None:
    """Check that the required columns are there.

    :raises ValueError: required columns are missing; the text names them
    """
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        raise ValueError(
            f"no telemetry of the driver: column {', '.join(missing)} is missing "
            f"among {', '.join(names) or 'none at all'}"
        )


def unknown_names(names: Sequence[str]) -> list[str]:
    """Return the names of columns that no version of the driver writes."""
    return [name for name in names if name not in _COLUMNS and name not in OLD_NAMES.values()]


def _column(frame: DataFrame, name: str, kind: DataType) -> Column:
    old = OLD_NAMES.get(name)
    if old in frame.columns:
        found = [F.col(x).try_cast(kind) for x in (name, old) if x in frame.columns]
        return F.coalesce(*found).alias(name)
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
    """Return the valid records, with three more columns that most tables use.

    ``place`` is the address, or :data:`REPLIES` for replies, or :data:`NOWHERE`. ``failed`` is
    whether the message failed. ``client`` names the transport that wrote the record, by container
    and process; each transport of a process has a connection of its own.
    """
    failed = F.col("error").isNotNull() | F.coalesce(F.col("outcome").isin(*_FAILED), F.lit(False))
    place = F.when(F.col("kind") == "reply", REPLIES).otherwise(
        F.coalesce("address", F.lit(NOWHERE))
    )
    return found.filter(F.col(REASON).isNull()).select(
        *(name for name in _COLUMNS if name != "message_id"),
        place.alias("place"),
        failed.alias("failed"),
        F.concat_ws("/", "container", "pid").alias("client"),
    )


def bad(found: DataFrame) -> DataFrame:
    """Count the rows that are not records, by reason.

    :returns: reason, count, example (the first 120 characters of one line; null if the rows are not
        from JSON lines); the highest count first
    """
    example = F.first(F.substring(LINE, 1, 120), ignorenulls=True)
    return (
        found.filter(F.col(REASON).isNotNull())
        .groupBy(REASON)
        .agg(F.count("*").alias("count"), example.alias("example"))
        .orderBy(F.desc("count"), REASON)
    )


def unknown(found: DataFrame) -> DataFrame:
    """Count the valid records that have unknown keys or columns, by name.

    :returns: name, count
    """
    names = found.filter(F.col(REASON).isNull() & (F.size(UNKNOWN) > 0))
    return names.select(F.explode(UNKNOWN).alias("name")).groupBy("name").count().orderBy("name")


def lasted(begin: str, end: str) -> Column:
    """Return the microseconds between two times; null if one of them is null."""
    return F.unix_micros(F.col(end)) - F.unix_micros(F.col(begin))


def messages(records: DataFrame) -> DataFrame:
    """Return only the records of messages: requests, notifications, replies and heartbeats."""
    return records.filter(F.col("kind").isin("send", "reply"))


def summary(records: DataFrame) -> DataFrame:
    """Summarise all records in one row.

    :returns: records, clients, messages, failed, dropped (records that the driver could not
        write), first, last (times), bytes (of all bodies)
    """
    message = F.col("kind").isin("send", "reply")
    return records.agg(
        F.count("*").alias("records"),
        F.countDistinct("client").alias("clients"),
        F.count_if(message).alias("messages"),
        F.count_if(message & F.col("failed")).alias("failed"),
        F.coalesce(F.sum("dropped"), F.lit(0)).alias("dropped"),
        F.min("time").alias("first"),
        F.max("time").alias("last"),
        F.coalesce(F.sum("size"), F.lit(0)).alias("bytes"),
    )


def dropped(records: DataFrame) -> DataFrame:
    """Count the records that the driver dropped, by client, the highest count first.

    :returns: client, dropped, kept, share (of dropped and kept records); only clients with dropped
        records
    """
    lost, kept = F.sum("dropped"), F.count("*")
    return (
        records.groupBy("client")
        .agg(
            lost.alias("dropped"),
            kept.alias("kept"),
            (lost / (lost + kept)).alias("share"),
        )
        .filter("dropped > 0")
        .orderBy(F.desc("dropped"), "client")
    )
