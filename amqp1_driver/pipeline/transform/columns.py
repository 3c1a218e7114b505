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

"""Small helpers of the notification tables."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType


def typed(frame: DataFrame, schema: StructType) -> DataFrame:
    """The frame with exactly these columns, in this order and of these types."""
    return frame.select([F.col(f.name).cast(f.dataType).alias(f.name) for f in schema.fields])


def time_of(text: Column) -> Column:
    """A timestamp from a service's text (``2026-03-01 10:00:00.5``, ``2026-03-01T10:00:00Z``);
    UTC where no zone is given, null for what is none, or of no year from 1970 to 9998."""
    time = F.trim(text).try_cast("timestamp")
    return F.when(F.year(time).between(1970, 9998), time)


def number_of(text: Column, to: str | DataType) -> Column:
    """A whole number from 0 on from JSON text (``2``, ``"2"``, ``2.0``), null for what is none."""
    number = text.try_cast("double").try_cast(to)
    return F.when(number >= 0, number)


def once(frame: DataFrame, name: str, value: Column) -> DataFrame:
    """The frame with one more column, which is computed once per row.

    Spark would move a condition on it, and so its expression, below the projection and compute
    it again for each mention; for the JSON in a message that is what costs most. No condition
    goes through a generator.
    """
    return frame.select("*", F.explode(F.array(value)).alias(name))
