# SPDX-License-Identifier: Apache-2.0

"""Helper functions for columns of the notification tables.  Pure; any thread."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType


def typed(frame: DataFrame, schema: StructType) -> DataFrame:
    """Return the frame with the columns of the schema only, in its order and with its types."""
    return frame.select([F.col(f.name).cast(f.dataType).alias(f.name) for f in schema.fields])


def time_of(text: Column) -> Column:
    """Parse a timestamp of a service: ``2026-03-01 10:00:00.5``, ``2026-03-01T10:00:00Z``.

    A text without a zone is UTC.

    :returns: null if the text is not a time, or its year is not from 1970 to 9998
    """
    time = F.trim(text).try_cast("timestamp")
    return F.when(F.year(time).between(1970, 9998), time)


def number_of(text: Column, to: str | DataType) -> Column:
    """Parse a whole number from JSON text: ``2``, ``"2"``, ``2.0``.

    :returns: null if the text is not a number, or the number is negative
    """
    number = text.try_cast("double").try_cast(to)
    return F.when(number >= 0, number)


def once(frame: DataFrame, name: str, value: Column) -> DataFrame:
    """Return the frame with one more column, which Spark computes once per row.

    Spark pushes a condition on a plain column below the projection, together with the column's
    expression. It then computes the expression again for each use, and parsing the JSON of a
    message is the most expensive step. Spark pushes no condition through a generator, so this
    function makes the column with one (``explode``).
    """
    return frame.select("*", F.explode(F.array(value)).alias(name))
