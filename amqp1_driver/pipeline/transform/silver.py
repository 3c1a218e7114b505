# SPDX-License-Identifier: Apache-2.0

"""The silver table, with each notification once, and the malformed rows.  Pure; any thread.

Rows with the same ``message_id`` and ``day`` are copies of one notification. ``day`` comes from the
notification's own timestamp, which is the same in each copy, however late the copy arrives. A
notification without a ``message_id`` has the message-id of its AMQP message.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform import traits
from amqp1_driver.pipeline.transform.columns import once, typed
from amqp1_driver.pipeline.transform.schemas import MALFORMED, SILVER

#: columns that are equal in all copies of one notification
KEY = ("day", "message_id")
#: phase at the end of an event type, as in ``event.phase``
_PHASE = r"\.(start|end|error)$"
#: ``service.host`` (nova legacy, cinder, neutron) or ``binary:host`` (nova versioned)
_PUBLISHER = r"^([^.:]+)[.:](.+)$"
_ERRORS = ("ERROR", "CRITICAL")


def silver(opened: DataFrame) -> DataFrame:
    """Return rows of :data:`SILVER`, copies included, from rows of ``envelope.opened``."""
    frame = once(opened.where("reason IS NULL"), "_p", traits.parsed(F.col("n_payload")))
    kind = traits.kind_of(F.col("n_event_type"))
    phase = F.regexp_extract("n_event_type", _PHASE, 1)
    frame = frame.withColumns(
        {
            **traits.traits("_p", kind),
            "kind": kind,
            "amqp_message_id": F.col("message_id"),
            "message_id": F.col("n_message_id"),
            "event_type": F.col("n_event_type"),
            "event": F.regexp_replace("n_event_type", _PHASE, ""),
            "phase": F.when(phase != "", phase),
            "priority": F.upper("n_priority"),
            "publisher_id": F.col("n_publisher_id"),
            "service": _publisher(1),
            "publisher_host": _publisher(2),
            "day": F.to_date("time"),
            "payload": F.col("n_payload"),
        }
    )
    frame = frame.withColumns(
        {
            # The payload names the owner of the resource; the context may name an administrator.
            "tenant_id": F.coalesce("p_tenant_id", "n_tenant_id"),
            "user_id": F.coalesce("p_user_id", "n_user_id"),
            "request_id": F.coalesce("n_request_id", "p_request_id"),
            "failed": F.coalesce(
                (F.col("phase") == "error") | F.col("priority").isin(*_ERRORS), F.lit(False)
            ),
        }
    )
    frame = frame.withColumn("error", F.when(F.col("failed"), F.col("error")))
    return typed(frame, SILVER)


def malformed(opened: DataFrame) -> DataFrame:
    """Return rows of :data:`MALFORMED` from rows of ``envelope.opened``.

    ``day`` is the day of receipt.
    """
    frame = opened.where("reason IS NOT NULL").withColumn("day", F.to_date("received_time"))
    return typed(frame, MALFORMED)


def first_of_each(rows: DataFrame) -> DataFrame:
    """Return one row of each notification: the row that was received first."""
    order = Window.partitionBy(*KEY).orderBy("received_time", "seq")
    return rows.withColumn("_nth", F.row_number().over(order)).where("_nth = 1").drop("_nth")


def unknown(rows: DataFrame, known: DataFrame) -> DataFrame:
    """Return the rows whose :data:`KEY` is not in ``known``.

    :param known: a frame that has at least the columns of :data:`KEY`
    """
    return rows.join(known.select(*KEY), on=list(KEY), how="left_anti").select(*rows.columns)


def _publisher(group: int) -> Column:
    found = F.regexp_extract("n_publisher_id", _PUBLISHER, group)
    alone = F.col("n_publisher_id") if group == 1 else F.lit(None)
    return F.when(found != "", found).otherwise(alone)
