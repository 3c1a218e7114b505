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

"""The ``exists`` notifications of each audit period against the observed lifetimes.

``matched``
    audited and observed, and both say the same
``missing``
    observed in the period, but no ``exists`` tells of it
``unexpected``
    an ``exists`` tells of it, but no lifetime was observed in the period
``contradictory``
    both, but they differ: the ``reason`` says in what

Of several ``exists`` for one resource and period (nova sends one more at a resize and a delete) the
last counts.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform.columns import typed
from amqp1_driver.pipeline.transform.schemas import AUDIT

_PERIOD = ("kind", "audit_begin")
_RESOURCE = (*_PERIOD, "resource_id")
#: compared: the name in the reason, the column
_COMPARED = (("tenant", "tenant_id"), ("vcpus", "vcpus"), ("memory", "memory_mb"),
             ("disk", "disk_gb"), ("size", "size_gb"))


def exists(silver: DataFrame) -> DataFrame:
    """The audit's notifications of instances and volumes."""
    return silver.where(
        "event IN ('compute.instance.exists', 'instance.exists', 'volume.exists') "
        "AND audit_begin IS NOT NULL AND audit_end IS NOT NULL AND resource_id IS NOT NULL")


def periods(exists: DataFrame) -> DataFrame:
    """The audit periods: kind, audit_begin and the latest audit_end of each."""
    return exists.groupBy(*_PERIOD).agg(F.max("audit_end").alias("audit_end"))


def audit(exists: DataFrame, lifetimes: DataFrame) -> DataFrame:
    """Rows of :data:`AUDIT`; ``day`` is that on which the period begins.

    :param exists: of :func:`exists`, all of the periods in question
    :param lifetimes: of all days of these periods
    """
    audited, observed = _audited(exists), _observed(periods(exists), lifetimes)
    frame = audited.join(observed, on=list(_RESOURCE), how="full_outer")
    # The end is that of the whole period, also where the last exists was of a part of it.
    frame = frame.join(periods(exists), on=list(_PERIOD), how="left")
    missing = F.col("a_time").isNull()
    # An offloaded instance takes no place: the audit tells of it, and nothing is to be observed.
    unexpected = F.col("o_end").isNull() & ~_offloaded()
    differences = _differences()
    differ = F.col("o_end").isNotNull() & (differences != "")
    frame = frame.withColumns({
        "day": F.to_date("audit_begin"),
        "status": F.when(missing, "missing").when(unexpected, "unexpected")
        .when(differ, "contradictory").otherwise("matched"),
        "reason": F.when(missing, "observed, but not in the audit")
        .when(unexpected, "in the audit, but never observed")
        .when(differ, differences),
        "tenant_id": F.coalesce("o_tenant_id", "a_tenant_id"),
        "host": F.coalesce("o_host", "a_host"),
    })
    return typed(frame, AUDIT)


def _audited(exists: DataFrame) -> DataFrame:
    """The last ``exists`` of each resource and period; its columns ``a_*``."""
    last = Window.partitionBy(*_RESOURCE).orderBy(
        F.desc("audit_end"), F.desc("time"), F.desc("message_id"))
    frame = exists.withColumn("_nth", F.row_number().over(last)).where("_nth = 1")
    kept = ("time", "host", "state", "deleted_at", *(column for _, column in _COMPARED))
    return frame.select(*_RESOURCE, *(F.col(name).alias(f"a_{name}") for name in kept))


def _observed(periods: DataFrame, lifetimes: DataFrame) -> DataFrame:
    """The last observed stretch of each resource within each period; its columns ``o_*``."""
    within = periods.alias("p").join(
        lifetimes.alias("l"),
        (F.col("p.kind") == F.col("l.kind")) & (F.col("l.begin") < F.col("p.audit_end"))
        & (F.col("l.end") > F.col("p.audit_begin")))
    kept = ("end", "host", "open", *(column for _, column in _COMPARED))
    last = F.max_by(F.struct(*(F.col(f"l.{name}").alias(name) for name in kept)), "l.end")
    frame = within.groupBy("p.kind", "p.audit_begin", "l.resource_id").agg(
        last.alias("o"), F.max("p.audit_end").alias("_audit_end"))
    # Still there when the period ended: the last stretch reaches it, or is cut by midnight only.
    running = (F.col("o.end") >= F.col("_audit_end")) | F.col("o.open")
    return frame.select(
        *_RESOURCE, running.alias("o_running"),
        *(F.col(f"o.{name}").alias(f"o_{name}") for name in kept if name != "open"))


def _offloaded() -> Column:
    return F.coalesce(F.col("a_state") == "shelved_offloaded", F.lit(False))


def _differences() -> Column:
    """What audit and observation differ in; an empty text if in nothing."""
    found = [
        F.when(F.col(f"a_{column}") != F.col(f"o_{column}"),
               F.concat_ws(" ", F.lit(name), F.col(f"a_{column}").cast("string"), F.lit("observed"),
                           F.col(f"o_{column}").cast("string")))
        for name, column in _COMPARED
    ]
    deleted = _offloaded() | F.coalesce(F.col("a_deleted_at") < F.col("audit_end"), F.lit(False))
    found.append(F.when(deleted & F.col("o_running"), "deleted in the audit only"))
    found.append(F.when(~deleted & ~F.col("o_running"), "running in the audit only"))
    return F.concat_ws("; ", *found)
