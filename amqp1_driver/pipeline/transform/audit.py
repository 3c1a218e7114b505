# SPDX-License-Identifier: Apache-2.0

"""The comparison of ``exists`` notifications with observed lifetimes, by audit period.

Pure; any thread. The ``status`` of a resource in a period:

``matched``
    there are an ``exists`` and a lifetime, and they agree; or an ``exists`` of an offloaded
    instance, and no lifetime
``missing``
    there is a lifetime, but no ``exists``
``unexpected``
    there is an ``exists``, but no lifetime in the period
``contradictory``
    there are both, but they differ; the ``reason`` says in what

nova sends another ``exists`` at a resize and at a delete. The last ``exists`` of a resource and
period counts.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.columns import typed
from amqp1_driver.pipeline.transform.schemas import AUDIT

_PERIOD = ("kind", "audit_begin")
_RESOURCE = (*_PERIOD, "resource_id")
#: the compared values: name in the reason, column
_COMPARED = (
    ("tenant", "tenant_id"),
    ("vcpus", "vcpus"),
    ("memory", "memory_mb"),
    ("disk", "disk_gb"),
    ("size", "size_gb"),
)


def exists(silver: DataFrame) -> DataFrame:
    """Return the ``exists`` notifications of instances and volumes."""
    return silver.where(
        "event IN ('compute.instance.exists', 'instance.exists', 'volume.exists') "
        "AND audit_begin IS NOT NULL AND audit_end IS NOT NULL AND resource_id IS NOT NULL"
    )


def periods(exists: DataFrame) -> DataFrame:
    """Return the audit periods: kind, audit_begin and the latest audit_end of each."""
    return exists.groupBy(*_PERIOD).agg(F.max("audit_end").alias("audit_end"))


def audit(exists: DataFrame, lifetimes: DataFrame) -> DataFrame:
    """Return rows of :data:`AUDIT`; ``day`` is the day on which the period begins.

    :param exists: rows of :func:`exists`; all rows of each period
    :param lifetimes: rows of :data:`.LIFETIMES` for all days of these periods
    """
    audited, observed = _audited(exists), _observed(periods(exists), lifetimes)
    frame = audited.join(observed, on=list(_RESOURCE), how="full_outer")
    # The end is that of the whole period, even if the last exists covers only a part of the period.
    frame = frame.join(periods(exists), on=list(_PERIOD), how="left")
    missing = F.col("a_time").isNull()
    # An offloaded instance occupies no host: it has an exists, but need not have a lifetime.
    unexpected = F.col("o_end").isNull() & ~_offloaded()
    differences = _differences()
    differ = F.col("o_end").isNotNull() & (differences != "")
    frame = frame.withColumns(
        {
            "day": F.to_date("audit_begin"),
            "status": F.when(missing, "missing")
            .when(unexpected, "unexpected")
            .when(differ, "contradictory")
            .otherwise("matched"),
            "reason": F.when(missing, "observed, but not in the audit")
            .when(unexpected, "in the audit, but never observed")
            .when(differ, differences),
            "tenant_id": F.coalesce("o_tenant_id", "a_tenant_id"),
            "host": F.coalesce("o_host", "a_host"),
        }
    )
    return typed(frame, AUDIT)


def _audited(exists: DataFrame) -> DataFrame:
    """Return the last ``exists`` of each resource and period, in columns ``a_*``."""
    last = Window.partitionBy(*_RESOURCE).orderBy(
        F.desc("audit_end"), F.desc("time"), F.desc("message_id")
    )
    frame = exists.withColumn("_nth", F.row_number().over(last)).where("_nth = 1")
    kept = ("time", "host", "state", "deleted_at", *(column for _, column in _COMPARED))
    return frame.select(*_RESOURCE, *(F.col(name).alias(f"a_{name}") for name in kept))


def _observed(periods: DataFrame, lifetimes: DataFrame) -> DataFrame:
    """Return the last observed lifetime of each resource within each period, in columns ``o_*``."""
    within = periods.alias("p").join(
        lifetimes.alias("l"),
        (F.col("p.kind") == F.col("l.kind"))
        & (F.col("l.begin") < F.col("p.audit_end"))
        & (F.col("l.end") > F.col("p.audit_begin")),
    )
    kept = ("end", "host", "open", *(column for _, column in _COMPARED))
    last = F.max_by(F.struct(*(F.col(f"l.{name}").alias(name) for name in kept)), "l.end")
    frame = within.groupBy("p.kind", "p.audit_begin", "l.resource_id").agg(
        last.alias("o"), F.max("p.audit_end").alias("_audit_end")
    )
    # The resource still existed when the period ended: its last lifetime reaches the end of the
    # period, or is open, because only midnight or the end of the window cut it.
    running = (F.col("o.end") >= F.col("_audit_end")) | F.col("o.open")
    return frame.select(
        *_RESOURCE,
        running.alias("o_running"),
        *(F.col(f"o.{name}").alias(f"o_{name}") for name in kept if name != "open"),
    )


def _offloaded() -> Column:
    return F.coalesce(F.col("a_state") == "shelved_offloaded", F.lit(False))


def _differences() -> Column:
    """Return the differences of audit and observation as text, empty if there are none."""
    found = [
        F.when(
            F.col(f"a_{column}") != F.col(f"o_{column}"),
            F.concat_ws(
                " ",
                F.lit(name),
                F.col(f"a_{column}").cast("string"),
                F.lit("observed"),
                F.col(f"o_{column}").cast("string"),
            ),
        )
        for name, column in _COMPARED
    ]
    deleted = _offloaded() | F.coalesce(F.col("a_deleted_at") < F.col("audit_end"), F.lit(False))
    found.append(F.when(deleted & F.col("o_running"), "deleted in the audit only"))
    found.append(F.when(~deleted & ~F.col("o_running"), "running in the audit only"))
    return F.concat_ws("; ", *found)
