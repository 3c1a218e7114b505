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
RAW = StructType([
    StructField("seq", LongType(), nullable=False),
    StructField("address", StringType()),
    StructField("message_id", StringType()),
    StructField("body", BinaryType()),
    StructField("content_type", StringType()),
    StructField("properties", MapType(StringType(), StringType())),
    StructField("delivery_count", IntegerType()),
    StructField("enqueued_time", TimestampType()),
    StructField("received_time", TimestampType()),
])
