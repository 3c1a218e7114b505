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

"""The stage gold: its tables computed again for the days that new rows of silver belong to.

Each table of a day is a function of silver, so computing it twice changes nothing; late rows touch
old days. What a day has to know of the time before it is in the open rows of the day before
(``lifetimes``), so no more is read than the days from the first touched one on.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from amqp1_driver.pipeline.transform import audit, errors, lifetimes, operations, usage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from amqp1_driver.pipeline.lake.layout import Lake

_DAY = datetime.timedelta(days=1)
#: note of the first day of what is being computed
_BEGIN = "begin.json"
Days = list[datetime.date]


@dataclasses.dataclass(frozen=True)
class Refreshed:
    """What was computed: the days with new rows, and how many days of usage in all."""

    touched: Days
    usage_days: int
    until: datetime.datetime | None


def refresh(lake: Lake, until: datetime.datetime | None = None) -> Refreshed:
    """Compute what silver's new rows touch.

    :param until: end of the window, UTC without a zone; what still runs is counted until then.
        None: the latest time in silver
    """
    notes = [name for name in lake.storage.names(lake.touched) if name.endswith(".json")]
    touched = sorted({
        datetime.date.fromisoformat(day)
        for name in notes for day in lake.storage.read_json(f"{lake.touched}/{name}")
    })
    if not touched:
        return Refreshed([], 0, until)
    silver = lake.read_silver()
    _operations(lake, silver, touched)
    days = silver.where(F.col("day").isin(touched))
    lake.write_gold("errors", errors.errors(days), touched)
    until, range_ = _lifetimes(lake, silver, touched, until)
    _audit(lake, silver, touched, range_)
    # Last: what is not finished now is done again as a whole.
    for name in [*notes, _BEGIN]:
        lake.storage.delete(f"{lake.touched}/{name}")
    return Refreshed(touched, len(range_), until)


def _around(days: Iterable[datetime.date], reach: int) -> Days:
    """The days and those so many days before and after them."""
    return sorted({day + offset * _DAY for day in days for offset in range(-reach, reach + 1)})


def _operations(lake: Lake, silver: DataFrame, touched: Days) -> None:
    affected = _around(touched, operations.HORIZON_DAYS)
    needed = _around(affected, operations.HORIZON_DAYS)
    rows = operations.operations(silver.where(F.col("day").isin(needed)))
    rows = rows.where(F.col("day").isin(affected)).persist()
    try:
        lake.write_gold("operations", rows, affected)
        lake.write_gold("durations", operations.durations(rows), affected)
    finally:
        rows.unpersist()


def _lifetimes(lake: Lake, silver: DataFrame, touched: Days,
               until: datetime.datetime | None) -> tuple[datetime.datetime, Days]:
    """Lifetimes and usage from the first touched day on; the end of the window and the days."""
    # The last day with anything open was counted only up to the end of its window.
    open_days = [name for name in lake.storage.names(lake.gold("lifetimes"))
                 if name.startswith("day=")]
    begin = min([touched[0], *(datetime.date.fromisoformat(name[4:]) for name in open_days[-1:])])
    if begin < touched[0]:
        # Should this end half way, the last day in the table is not the one to begin with again.
        lake.storage.write_json(f"{lake.touched}/{_BEGIN}", [str(begin)])
    later = silver.where(F.col("day") >= F.lit(begin))
    if until is None:
        # No notification tells of what is after its receipt, whatever its clock says.
        latest = later.agg(F.max(F.least("time", "received_time")).cast("string")).first()
        assert latest is not None
        until = datetime.datetime.fromisoformat(latest[0])
    last = max(begin, (until - datetime.timedelta(microseconds=1)).date())
    days = [begin + n * _DAY for n in range((last - begin).days + 1)]
    before = lake.read_gold("lifetimes").where(F.col("day") == F.lit(begin - _DAY))
    changes = lifetimes.changes(later).unionByName(lifetimes.carried(before, begin))
    # Cut off from its input, which is the table that it replaces.
    rows = lifetimes.lifetimes(changes, until).localCheckpoint()
    lake.write_gold("lifetimes", rows, [*days, *_after(open_days, last)])
    lake.write_gold("usage", usage.usage(rows), [*days, *_after(open_days, last)])
    return until, days


def _after(names: list[str], last: datetime.date) -> Days:
    """Days of the table after the last: of an earlier run with a later end of the window."""
    days = [datetime.date.fromisoformat(name[4:]) for name in names]
    return [day for day in days if day > last]


def _audit(lake: Lake, silver: DataFrame, touched: Days, days: Days) -> None:
    """The audit of all periods that begin on a day of which one has changed."""
    # An audit is told of after its period, so later than any day before the first changed one.
    told = audit.exists(silver.where(F.col("day") >= F.lit(days[0])))
    begin = F.lit(days[0]).cast("timestamp")
    changed = (F.col("audit_end") > begin) | F.col("day").isin(touched)
    found = told.where(changed).select(F.to_date("audit_begin").alias("day")).distinct().collect()
    affected = sorted(row.day for row in found)
    if not affected:
        return
    exists = audit.exists(silver.where(F.col("day") >= F.lit(affected[0])))
    exists = exists.where(F.to_date("audit_begin").isin(affected))
    observed = lake.read_gold("lifetimes").where(F.col("day") >= F.lit(affected[0]))
    rows = audit.audit(exists, observed).persist()
    try:
        lake.write_gold("audit", rows, affected)
    finally:
        rows.unpersist()
