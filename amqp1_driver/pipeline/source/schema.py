# SPDX-License-Identifier: Apache-2.0

"""The columns of the data source ``amqp1``."""

from __future__ import annotations

from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

#: one row per delivery; times are UTC with microseconds
RAW = StructType(
    [
        StructField("seq", LongType(), nullable=False),
        StructField("address", StringType()),
        StructField("message_id", StringType()),
        StructField("body", BinaryType()),
        StructField("content_type", StringType()),
        StructField("properties", MapType(StringType(), StringType())),
        StructField("delivery_count", IntegerType()),
        StructField("enqueued_time", TimestampType()),
        StructField("received_time", TimestampType()),
    ]
)
