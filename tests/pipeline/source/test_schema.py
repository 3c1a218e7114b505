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
        "received_time:timestamp>")
