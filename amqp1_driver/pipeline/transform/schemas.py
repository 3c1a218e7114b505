# SPDX-License-Identifier: Apache-2.0

"""The columns of the notification tables.  Constants; any thread.

All times are UTC with microseconds. Each row of :data:`SILVER` and :data:`MALFORMED` comes from one
row of the source. The jobs recompute the gold tables by day, so each of them has a column ``day``.
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
    "BIGINT": LongType(),
    "BINARY": BinaryType(),
    "BOOLEAN": BooleanType(),
    "DATE": DateType(),
    "DOUBLE": DoubleType(),
    "INT": IntegerType(),
    "STRING": StringType(),
    "TEXTS": MapType(StringType(), StringType()),
    "TIMESTAMP": TimestampType(),
}


def _struct(columns: str) -> StructType:
    """Parse ``name TYPE, name TYPE``; Spark's own parser of this text needs a running JVM."""
    pairs = (column.split() for column in columns.split(","))
    return StructType([StructField(name, _TYPES[kind]) for name, kind in pairs])


#: notifications, one row per message id
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

#: rows of the source that are not valid notifications, unchanged, with the reason
MALFORMED = _struct("""
    day DATE, reason STRING, seq BIGINT, address STRING, message_id STRING, body BINARY,
    content_type STRING, properties TEXTS, delivery_count INT,
    enqueued_time TIMESTAMP, received_time TIMESTAMP
""")

#: operations, one row each: a start with its end, or one of them alone
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

#: parts of a day in which a resource existed with the same size
LIFETIMES = _struct("""
    day DATE, kind STRING, resource_id STRING, tenant_id STRING, host STRING, flavor STRING,
    vcpus INT, memory_mb BIGINT, disk_gb BIGINT, size_gb BIGINT,
    begin TIMESTAMP, end TIMESTAMP, open BOOLEAN
""")

#: usage of each tenant by day
USAGE = _struct("""
    day DATE, tenant_id STRING, instances BIGINT, instance_hours DOUBLE, vcpu_hours DOUBLE,
    ram_gib_hours DOUBLE, disk_gb_hours DOUBLE, volumes BIGINT, volume_gb_hours DOUBLE,
    ports BIGINT, port_hours DOUBLE
""")

#: comparison of the ``exists`` notifications with the observed lifetimes
AUDIT = _struct("""
    day DATE, kind STRING, audit_begin TIMESTAMP, audit_end TIMESTAMP, resource_id STRING,
    tenant_id STRING, host STRING, status STRING, reason STRING
""")
