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

"""From the bytes of a message to the notification in it: envelopes and what is wrong with them.

Three forms are on the wire:

``amqp``
    this driver's: ``{"request": REQUEST, "context": {...}}``, where REQUEST is the message, or
    ``{"oslo.version", "oslo.message": TEXT}``
``rabbit``
    that of oslo.messaging's rabbit driver: ``{"oslo.version", "oslo.message": TEXT}``, the
    context in keys ``_context_*`` of the message
``bare``
    the message alone, version 1.0 of the rabbit driver's or from anywhere else
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.columns import once, time_of

_MESSAGE = """
    message_id STRING, publisher_id STRING, event_type STRING, priority STRING, timestamp STRING,
    payload STRING, _context_request_id STRING, _context_project_id STRING, _context_tenant STRING,
    _context_user_id STRING, _context_user STRING
"""
_INNER = f"{_MESSAGE}, _corrupt STRING"
_OUTER = f"""
    {_MESSAGE}, `oslo.message` STRING,
    request STRUCT<{", ".join(f.strip().replace(" ", ": ", 1) for f in _MESSAGE.split(","))},
                   `oslo.message`: STRING>,
    context STRUCT<request_id: STRING, project_id: STRING, tenant: STRING, user_id: STRING,
                   user: STRING>,
    _corrupt STRING
"""
_OPTIONS = {"columnNameOfCorruptRecord": "_corrupt"}
#: OpenStack's first year: nothing was notified before
EARLIEST = "2010-01-01 00:00:00"
#: a service's clock may be so much ahead of the receiver's
AHEAD = "INTERVAL 1 DAY"
_GZIP = b"\x1f\x8b"


def opened(raw: DataFrame) -> DataFrame:
    """The source's rows with their notification's fields as text.

    Adds ``form``, ``reason`` (why it is no notification, else null), ``time`` and the
    columns ``n_*``: message_id, publisher_id, event_type, priority, payload, request_id,
    tenant_id, user_id.
    """
    text = F.col("body").cast("string")
    frame = once(raw, "_outer", F.from_json(text, _OUTER, _OPTIONS))
    frame = frame.withColumn(
        "_text", F.coalesce(F.col("_outer.request.`oslo.message`"), F.col("_outer.`oslo.message`"))
    )
    frame = once(frame, "_inner", F.from_json("_text", _INNER, _OPTIONS))
    fields = {name: _field(name) for name in
              ("message_id", "publisher_id", "event_type", "priority", "payload", "timestamp")}
    fields["message_id"] = F.coalesce(fields["message_id"], _filled(F.col("message_id")))
    fields["request_id"] = _context("request_id")
    fields["tenant_id"] = F.coalesce(_context("project_id"), _context("tenant"))
    fields["user_id"] = F.coalesce(_context("user_id"), _context("user"))
    frame = frame.withColumns({f"n_{name}": value for name, value in fields.items()})
    frame = frame.withColumn("time", time_of(F.col("n_timestamp")))
    frame = frame.withColumn("form", _form())
    return frame.withColumn("reason", _reason(text)).drop("_outer", "_text", "_inner")


def _filled(value: Column) -> Column:
    """Null for an empty text."""
    return F.when(value != "", value)


def _field(name: str) -> Column:
    return F.coalesce(*(_filled(F.col(f"{place}.{name}"))
                        for place in ("_inner", "_outer.request", "_outer")))


def _context(name: str) -> Column:
    places = (f"_outer.context.{name}", f"_inner._context_{name}",
              f"_outer.request._context_{name}", f"_outer._context_{name}")
    return F.coalesce(*(_filled(F.col(place)) for place in places))


def _form() -> Column:
    return (F.when(F.col("_outer.request").isNotNull(), "amqp")
            .when(F.col("_outer.`oslo.message`").isNotNull(), "rabbit")
            .otherwise("bare"))


def _reason(text: Column) -> Column:
    """The first thing that is wrong, null if nothing is."""
    body = F.col("body")
    outer_bad = F.col("_outer").isNull() | F.col("_outer._corrupt").isNotNull()
    inner_bad = F.col("_inner").isNull() | F.col("_inner._corrupt").isNotNull()
    return (
        F.when(body.isNull() | (F.length(body) == 0), "the body is empty")
        .when(F.substring(body, 1, 2) == F.lit(_GZIP), "the body is compressed")
        .when(~F.is_valid_utf8(text), "the body is not UTF-8")
        .when(outer_bad, "the body is not a JSON object as a notification is one")
        .when(F.col("_text").isNotNull() & inner_bad, "oslo.message is not a JSON object")
        .when(F.col("n_event_type").isNull(), "no event_type")
        .when(F.col("n_message_id").isNull(), "no message_id")
        .when(F.col("n_timestamp").isNull(), "no timestamp")
        .when(F.col("time").isNull(), "the timestamp is not a time")
        # Tables are by day, and computed from the first touched one on: no clock that is wrong
        # by years may make thousands of days.
        .when(F.col("time") < F.lit(EARLIEST).cast("timestamp"), "the timestamp is too early")
        .when(F.col("time") > F.col("received_time") + F.expr(AHEAD),
              "the timestamp is after the receipt")
    )
