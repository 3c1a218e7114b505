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

"""Error rate by day, host and event."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.columns import typed
from amqp1_driver.pipeline.transform.schemas import ERRORS


def errors(silver: DataFrame) -> DataFrame:
    """Rows of :data:`ERRORS`.

    ``results`` are notifications that tell how something went, that is all but starts; errors are
    those with the phase ``error`` or a priority of ERROR or CRITICAL. ``error_rate`` is errors by
    results, null where there is no result.
    """
    is_result = F.coalesce(F.col("phase") != "start", F.lit(True)) | F.col("failed")
    results = F.count_if(is_result)
    failures = F.count_if("failed")
    return typed(silver.groupBy("day", "publisher_host", "event").agg(
        F.count(F.lit(1)).alias("notifications"),
        results.alias("results"),
        failures.alias("errors"),
        F.when(results > 0, failures / results).alias("error_rate"),
        F.max_by("error", F.when(F.col("error").isNotNull(), F.col("time"))).alias("last_error"),
    ), ERRORS)
