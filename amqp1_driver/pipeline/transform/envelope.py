# SPDX-License-Identifier: Apache-2.0

"""The parser of message bodies: it finds the notification, or the reason why there is none.

Pure; any thread. A body has one of three forms:

``amqp``
    the form of this driver: ``{"request": REQUEST, "context": {...}}``, where REQUEST is the
    message, or ``{"oslo.version", "oslo.message": TEXT}``
``rabbit``
    the form of oslo.messaging's rabbit driver: ``{"oslo.version", "oslo.message": TEXT}``, with
    the context in keys ``_context_*`` of the message
``bare``
    the message alone, from version 1.0 of the rabbit driver's form or from another sender
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
#: earliest valid time of a notification: the beginning of OpenStack's first year
EARLIEST = "2010-01-01 00:00:00"
#: the most by which a service's clock may be ahead of the receiver's
AHEAD = "INTERVAL 1 DAY"
_GZIP = b"\x1f\x8b"


def opened(raw: DataFrame) -> DataFrame:
    """Return the source's rows with the fields of their notifications as text.

    This function adds ``form``, ``reason`` (why the row is not a notification, else null), ``time``
    and the columns ``n_*``: message_id, publisher_id, event_type, priority, payload, timestamp,
    request_id, tenant_id, user_id.
    """
    text = F.col("body").cast("string")
    frame = once(raw, "_outer", F.from_json(text, _OUTER, _OPTIONS))
    frame = frame.withColumn(
        "_text", F.coalesce(F.col("_outer.request.`oslo.message`"), F.col("_outer.`oslo.message`"))
    )
    frame = once(frame, "_inner", F.from_json("_text", _INNER, _OPTIONS))
    fields = {
        name: _field(name)
        for name in ("message_id", "publisher_id", "event_type", "priority", "payload", "timestamp")
    }
    fields["message_id"] = F.coalesce(fields["message_id"], _filled(F.col("message_id")))
    fields["request_id"] = _context("request_id")
    fields["tenant_id"] = F.coalesce(_context("project_id"), _context("tenant"))
    fields["user_id"] = F.coalesce(_context("user_id"), _context("user"))
    frame = frame.withColumns({f"n_{name}": value for name, value in fields.items()})
    frame = frame.withColumn("time", time_of(F.col("n_timestamp")))
    frame = frame.withColumn("form", _form())
    return frame.withColumn("reason", _reason(text)).drop("_outer", "_text", "_inner")


def _filled(value: Column) -> Column:
    """Return the text, or null if it is empty."""
    return F.when(value != "", value)


def _field(name: str) -> Column:
    return F.coalesce(
        *(_filled(F.col(f"{place}.{name}")) for place in ("_inner", "_outer.request", "_outer"))
    )


def _context(name: str) -> Column:
    places = (
        f"_outer.context.{name}",
        f"_inner._context_{name}",
        f"_outer.request._context_{name}",
        f"_outer._context_{name}",
    )
    return F.coalesce(*(_filled(F.col(place)) for place in places))


def _form() -> Column:
    return (
        F.when(F.col("_outer.request").isNotNull(), "amqp")
        .when(F.col("_outer.`oslo.message`").isNotNull(), "rabbit")
        .otherwise("bare")
    )


def _reason(text: Column) -> Column:
    """Return the first reason why the row is not a valid notification, null if there is none."""
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
        # The jobs compute tables by day, from the first changed day on. A clock that is years wrong
        # would make them compute thousands of days.
        .when(F.col("time") < F.lit(EARLIEST).cast("timestamp"), "the timestamp is too early")
        .when(
            F.col("time") > F.col("received_time") + F.expr(AHEAD),
            "the timestamp is after the receipt",
        )
    )
