# SPDX-License-Identifier: Apache-2.0

"""What the spool holds is, column by column, what Spark expects."""

from __future__ import annotations

from pyspark.sql.pandas.types import to_arrow_schema

from amqp1_driver.pipeline.source.schema import RAW
from amqp1_driver.pipeline.spool import SCHEMA


def test_the_spool_s_schema_is_spark_s() -> None:
    assert to_arrow_schema(RAW, timezone="UTC").equals(SCHEMA)
    assert RAW.simpleString() == (
        "struct<seq:bigint,address:string,message_id:string,body:binary,content_type:string,"
        "properties:map<string,string>,delivery_count:int,enqueued_time:timestamp,"
        "received_time:timestamp>"
    )
