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

"""Lifetimes: from when to when a resource was there, and how large, cut into days.

The day's rows that are ``open`` carry all that the next day has to know, so that a day is computed
from its own notifications and the day before it.
"""

from __future__ import annotations

import datetime

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.columns import typed
from amqp1_driver.pipeline.transform.schemas import LIFETIMES

#: after the ``end`` of these the resource is there, with the size in the payload
ALIVE = {
    "instance": ("create", "finish_resize", "resize.confirm", "resize.revert", "unshelve",
                 "rebuild", "restore", "live_migration.post.dest", "resize_finish",
                 "resize_confirm", "resize_revert", "live_migration_post_dest", "shelve"),
    "volume": ("create", "resize", "extend", "manage_existing", "transfer.accept"),
    "port": ("create",),
}
#: after the ``end`` of these it takes nothing any more; a shelved instance keeps its place on the
#: host until it is offloaded
GONE = {
    "instance": ("delete", "force_delete", "shelve_offload"),
    "volume": ("delete", "unmanage"),
    "port": ("delete",),
}
_ACTION = r"^(?:compute\.)?(?:instance|volume|port)\."
_TRAITS = ("tenant_id", "host", "flavor", "vcpus", "memory_mb", "disk_gb", "size_gb")


def changes(silver: DataFrame) -> DataFrame:
    """The notifications after which a resource is there, or not: kind, resource_id, time, alive
    and traits."""
    action = F.regexp_replace("event", _ACTION, "")
    gone = _one_of(action, GONE) | (F.col("state") == "shelved_offloaded")
    alive = F.when(gone, False).when(_one_of(action, ALIVE), True)
    frame = silver.where("phase = 'end' AND resource_id IS NOT NULL").withColumn("alive", alive)
    return frame.where("alive IS NOT NULL").select(
        "kind", "resource_id", "time", "alive", "message_id", F.lit(1).alias("_rank"), *_TRAITS)


def carried(before: DataFrame, begin: datetime.date) -> DataFrame:
    """What was open at the end of a day, as changes at the begin of the next.

    :param before: rows of :data:`LIFETIMES` of the day before ``begin``
    """
    start = F.lit(begin).cast("timestamp")
    return before.where("open").select(
        "kind", "resource_id", start.alias("time"), F.lit(True).alias("alive"),
        F.lit("").alias("message_id"), F.lit(0).alias("_rank"), *_TRAITS)


def lifetimes(changes: DataFrame, until: datetime.datetime) -> DataFrame:
    """Rows of :data:`LIFETIMES`.

    :param changes: of :func:`changes` and :func:`carried`, together
    :param until: end of the window, UTC without a zone: what is still there is counted until then
    """
    by_resource = Window.partitionBy("kind", "resource_id").orderBy("time", "_rank", "message_id")
    end_of_window = F.lit(until.replace(tzinfo=datetime.UTC)).cast("timestamp")
    frame = changes.withColumns({
        "next": F.lead("time").over(by_resource),
        # A payload without a size does not change it.
        **{name: F.last(name, ignorenulls=True).over(by_resource) for name in _TRAITS},
    }).where("alive")
    frame = frame.withColumn("last", F.least(F.coalesce("next", end_of_window), end_of_window))
    frame = frame.where("time < last")
    last_day = F.to_date(F.col("last") - F.expr("INTERVAL 1 MICROSECOND"))
    frame = frame.withColumn("day", F.explode(F.sequence(F.to_date("time"), last_day)))
    midnight = F.date_add("day", 1).cast("timestamp")
    frame = frame.withColumns({
        "begin": F.greatest("time", F.col("day").cast("timestamp")),
        "end": F.least("last", midnight),
    })
    # Ended by a change at its very end it is not open, even where the window ends there, too.
    frame = frame.withColumn("open", F.col("next").isNull() | (F.col("end") < F.col("next")))
    frame = frame.withColumn(
        "open", F.col("open") & ((F.col("end") == midnight) | (F.col("end") == end_of_window)))
    return typed(frame, LIFETIMES)


def _one_of(action: Column, actions: dict[str, tuple[str, ...]]) -> Column:
    found = F.lit(False)
    for kind, names in actions.items():
        found = found | ((F.col("kind") == kind) & action.isin(*names))
    return F.coalesce(found, F.lit(False))
