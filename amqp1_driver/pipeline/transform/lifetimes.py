# SPDX-License-Identifier: Apache-2.0

"""The lifetimes of resources and their sizes, in rows by day.  Pure; any thread.

A row that is ``open`` goes on after its end, and holds all data that the next day needs. So each
day needs only its own notifications and the rows of the day before.
"""

from __future__ import annotations

import datetime

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.columns import typed
from amqp1_driver.pipeline.transform.schemas import LIFETIMES

#: after the ``end`` of these actions the resource exists, with the size in the payload
ALIVE = {
    "instance": (
        "create",
        "finish_resize",
        "resize.confirm",
        "resize.revert",
        "unshelve",
        "rebuild",
        "restore",
        "live_migration.post.dest",
        "resize_finish",
        "resize_confirm",
        "resize_revert",
        "live_migration_post_dest",
        "shelve",
    ),
    "volume": ("create", "resize", "extend", "manage_existing", "transfer.accept"),
    "port": ("create",),
}
#: after the ``end`` of these actions the resource uses nothing; a shelved instance keeps its place
#: on the host until nova offloads it
GONE = {
    "instance": ("delete", "force_delete", "shelve_offload"),
    "volume": ("delete", "unmanage"),
    "port": ("delete",),
}
_ACTION = r"^(?:compute\.)?(?:instance|volume|port)\."
_TRAITS = ("tenant_id", "host", "flavor", "vcpus", "memory_mb", "disk_gb", "size_gb")


def changes(silver: DataFrame) -> DataFrame:
    """Return the notifications that begin, change or end the life of a resource.

    :returns: kind, resource_id, time, alive (whether the resource exists afterwards), message_id
        and traits
    """
    action = F.regexp_replace("event", _ACTION, "")
    gone = _one_of(action, GONE) | (F.col("state") == "shelved_offloaded")
    alive = F.when(gone, False).when(_one_of(action, ALIVE), True)
    frame = silver.where("phase = 'end' AND resource_id IS NOT NULL").withColumn("alive", alive)
    return frame.where("alive IS NOT NULL").select(
        "kind", "resource_id", "time", "alive", "message_id", F.lit(1).alias("_rank"), *_TRAITS
    )


def carried(before: DataFrame, begin: datetime.date) -> DataFrame:
    """Return the lifetimes that were open at the end of a day, as changes at the next day's begin.

    :param before: rows of :data:`LIFETIMES` of the day before ``begin``
    """
    start = F.lit(begin).cast("timestamp")
    return before.where("open").select(
        "kind",
        "resource_id",
        start.alias("time"),
        F.lit(True).alias("alive"),
        F.lit("").alias("message_id"),
        F.lit(0).alias("_rank"),
        *_TRAITS,
    )


def lifetimes(changes: DataFrame, until: datetime.datetime) -> DataFrame:
    """Return rows of :data:`LIFETIMES`.

    :param changes: union of the rows of :func:`changes` and :func:`carried`
    :param until: end of the window, UTC without a zone; lifetimes that go on are cut there
    """
    by_resource = Window.partitionBy("kind", "resource_id").orderBy("time", "_rank", "message_id")
    end_of_window = F.lit(until.replace(tzinfo=datetime.UTC)).cast("timestamp")
    frame = changes.withColumns(
        {
            "next": F.lead("time").over(by_resource),
            # A payload without a trait keeps the value of the one before.
            **{name: F.last(name, ignorenulls=True).over(by_resource) for name in _TRAITS},
        }
    ).where("alive")
    frame = frame.withColumn("last", F.least(F.coalesce("next", end_of_window), end_of_window))
    frame = frame.where("time < last")
    last_day = F.to_date(F.col("last") - F.expr("INTERVAL 1 MICROSECOND"))
    frame = frame.withColumn("day", F.explode(F.sequence(F.to_date("time"), last_day)))
    midnight = F.date_add("day", 1).cast("timestamp")
    frame = frame.withColumns(
        {
            "begin": F.greatest("time", F.col("day").cast("timestamp")),
            "end": F.least("last", midnight),
        }
    )
    # A row that a change ends is not open, even if that change is at midnight or at the end of the
    # window.
    frame = frame.withColumn("open", F.col("next").isNull() | (F.col("end") < F.col("next")))
    frame = frame.withColumn(
        "open", F.col("open") & ((F.col("end") == midnight) | (F.col("end") == end_of_window))
    )
    return typed(frame, LIFETIMES)


def _one_of(action: Column, actions: dict[str, tuple[str, ...]]) -> Column:
    found = F.lit(False)
    for kind, names in actions.items():
        found = found | ((F.col("kind") == kind) & action.isin(*names))
    return F.coalesce(found, F.lit(False))
