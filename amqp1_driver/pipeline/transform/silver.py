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

"""Silver: each notification once, with its traits; and the table of those that are none.

Deduplication is by ``message_id`` within the ``day`` of the notification's own timestamp: a copy
has the timestamp of the original, however late it comes. A notification without a ``message_id`` of
its own has that of the AMQP message.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform import traits
from amqp1_driver.pipeline.transform.columns import once, typed
from amqp1_driver.pipeline.transform.schemas import MALFORMED, SILVER

#: what makes two rows copies of one notification
KEY = ("day", "message_id")
#: ``event.phase``: what the event type of one half of an operation ends with
_PHASE = r"\.(start|end|error)$"
#: ``service.host`` (nova legacy, cinder, neutron) or ``binary:host`` (nova versioned)
_PUBLISHER = r"^([^.:]+)[.:](.+)$"
_ERRORS = ("ERROR", "CRITICAL")


def silver(opened: DataFrame) -> DataFrame:
    """Rows of :data:`SILVER` from :func:`envelope.opened`, copies included."""
    frame = once(opened.where("reason IS NULL"), "_p", traits.parsed(F.col("n_payload")))
    kind = traits.kind_of(F.col("n_event_type"))
    phase = F.regexp_extract("n_event_type", _PHASE, 1)
    frame = frame.withColumns({
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
    })
    frame = frame.withColumns({
        # The owner of the resource, not the administrator who acts on it.
        "tenant_id": F.coalesce("p_tenant_id", "n_tenant_id"),
        "user_id": F.coalesce("p_user_id", "n_user_id"),
        "request_id": F.coalesce("n_request_id", "p_request_id"),
        "failed": F.coalesce((F.col("phase") == "error") | F.col("priority").isin(*_ERRORS),
                             F.lit(False)),
    })
    frame = frame.withColumn("error", F.when(F.col("failed"), F.col("error")))
    return typed(frame, SILVER)


def malformed(opened: DataFrame) -> DataFrame:
    """Rows of :data:`MALFORMED` from :func:`envelope.opened`; ``day`` is that of receipt."""
    frame = opened.where("reason IS NOT NULL").withColumn("day", F.to_date("received_time"))
    return typed(frame, MALFORMED)


def first_of_each(rows: DataFrame) -> DataFrame:
    """One row of each notification: the one that was received first."""
    order = Window.partitionBy(*KEY).orderBy("received_time", "seq")
    return rows.withColumn("_nth", F.row_number().over(order)).where("_nth = 1").drop("_nth")


def unknown(rows: DataFrame, known: DataFrame) -> DataFrame:
    """The rows that are not in ``known``, a frame with the columns of :data:`KEY` at least."""
    return rows.join(known.select(*KEY), on=list(KEY), how="left_anti").select(*rows.columns)


def _publisher(group: int) -> Column:
    found = F.regexp_extract("n_publisher_id", _PUBLISHER, group)
    alone = F.col("n_publisher_id") if group == 1 else F.lit(None)
    return F.when(found != "", found).otherwise(alone)
