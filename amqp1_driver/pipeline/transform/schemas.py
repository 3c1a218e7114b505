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

"""Columns of the notification tables; all times are UTC with microseconds.

:data:`SILVER` and :data:`MALFORMED` are made row by row from the source's rows; the gold tables are
recomputed by day, so each has a column ``day``.
"""

from __future__ import annotations

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_TYPES: dict[str, DataType] = {
    "BIGINT": LongType(), "BINARY": BinaryType(), "BOOLEAN": BooleanType(), "DATE": DateType(),
    "DOUBLE": DoubleType(), "INT": IntegerType(), "STRING": StringType(),
    "TEXTS": MapType(StringType(), StringType()), "TIMESTAMP": TimestampType(),
}


def _struct(columns: str) -> StructType:
    """Columns from ``name TYPE, name TYPE``; Spark's own parser of this needs a running JVM."""
    pairs = (column.split() for column in columns.split(","))
    return StructType([StructField(name, _TYPES[kind]) for name, kind in pairs])


#: one row per notification, once per message id
SILVER = _struct("""
    day DATE, time TIMESTAMP, message_id STRING, form STRING,
    event_type STRING, event STRING, phase STRING, failed BOOLEAN, priority STRING,
    publisher_id STRING, service STRING, publisher_host STRING,
    tenant_id STRING, user_id STRING, request_id STRING,
    kind STRING, resource_id STRING, instance_id STRING, volume_id STRING, port_id STRING,
    state STRING, old_state STRING, host STRING, node STRING,
    flavor STRING, vcpus INT, memory_mb BIGINT, root_gb BIGINT, disk_gb BIGINT, size_gb BIGINT,
    created_at TIMESTAMP, launched_at TIMESTAMP, deleted_at TIMESTAMP,
    audit_begin TIMESTAMP, audit_end TIMESTAMP, error STRING, payload STRING,
    address STRING, amqp_message_id STRING, seq BIGINT, delivery_count INT,
    enqueued_time TIMESTAMP, received_time TIMESTAMP
""")

#: what could not be read, as it came, with the reason
MALFORMED = _struct("""
    day DATE, reason STRING, seq BIGINT, address STRING, message_id STRING, body BINARY,
    content_type STRING, properties TEXTS, delivery_count INT,
    enqueued_time TIMESTAMP, received_time TIMESTAMP
""")

#: one row per operation: a start with its end, or one of them alone
OPERATIONS = _struct("""
    day DATE, event STRING, kind STRING, resource_id STRING, request_id STRING, tenant_id STRING,
    publisher_host STRING, outcome STRING, started_at TIMESTAMP, ended_at TIMESTAMP,
    seconds DOUBLE, error STRING
""")

#: operations by day and event
DURATIONS = _struct("""
    day DATE, event STRING, finished BIGINT, failed BIGINT, unmatched BIGINT, orphaned BIGINT,
    mean_s DOUBLE, p50_s DOUBLE, p99_s DOUBLE, max_s DOUBLE
""")

#: errors by day, host and event
ERRORS = _struct("""
    day DATE, publisher_host STRING, event STRING, notifications BIGINT, results BIGINT,
    errors BIGINT, error_rate DOUBLE, last_error STRING
""")

#: stretches of a day in which a resource was there, with its size
LIFETIMES = _struct("""
    day DATE, kind STRING, resource_id STRING, tenant_id STRING, host STRING, flavor STRING,
    vcpus INT, memory_mb BIGINT, disk_gb BIGINT, size_gb BIGINT,
    begin TIMESTAMP, end TIMESTAMP, open BOOLEAN
""")

#: what each tenant used of each day
USAGE = _struct("""
    day DATE, tenant_id STRING, instances BIGINT, instance_hours DOUBLE, vcpu_hours DOUBLE,
    ram_gib_hours DOUBLE, disk_gb_hours DOUBLE, volumes BIGINT, volume_gb_hours DOUBLE,
    ports BIGINT, port_hours DOUBLE
""")

#: the ``exists`` audit against the observed lifetimes
AUDIT = _struct("""
    day DATE, kind STRING, audit_begin TIMESTAMP, audit_end TIMESTAMP, resource_id STRING,
    tenant_id STRING, host STRING, status STRING, reason STRING
""")
