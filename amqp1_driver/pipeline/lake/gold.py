# SPDX-License-Identifier: Apache-2.0

"""The stage gold: it computes its tables again for the days to which new rows of silver belong.

Each table of a day is a function of silver, so computing it twice changes nothing; late rows touch
old days. For ``lifetimes`` the open rows of a day carry all that the next day depends on, so the
stage reads silver from the first touched day on. For ``operations`` it also reads the days around
the touched ones. All functions run on the driver program's thread.
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
#: file with the first day of the computation that is under way
_BEGIN = "begin.json"
Days = list[datetime.date]


@dataclasses.dataclass(frozen=True)
class Refreshed:
    """The result of :func:`refresh`.

    :param touched: the days with new rows
    :param usage_days: the number of days for which it computed usage
    :param until: end of the window; None: there were no new rows, and the caller gave no end
    """

    touched: Days
    usage_days: int
    until: datetime.datetime | None


def refresh(lake: Lake, until: datetime.datetime | None = None) -> Refreshed:
    """Compute the tables again for the days that silver's new rows touch.

    :param until: end of the window, UTC without a zone; resources that still run count until then.
        None: the latest time in silver, where no notification counts as later than its receipt
    """
    notes = [name for name in lake.storage.names(lake.touched) if name.endswith(".json")]
    touched = sorted(
        {
            datetime.date.fromisoformat(day)
            for name in notes
            for day in lake.storage.read_json(f"{lake.touched}/{name}")
        }
    )
    if not touched:
        return Refreshed([], 0, until)
    silver = lake.read_silver()
    _operations(lake, silver, touched)
    days = silver.where(F.col("day").isin(touched))
    lake.write_gold("errors", errors.errors(days), touched)
    until, range_ = _lifetimes(lake, silver, touched, until)
    _audit(lake, silver, touched, range_)
    # Delete the notes last: after a crash before this, the next refresh does all of it again.
    for name in [*notes, _BEGIN]:
        lake.storage.delete(f"{lake.touched}/{name}")
    return Refreshed(touched, len(range_), until)


def _around(days: Iterable[datetime.date], reach: int) -> Days:
    """Return the days, with ``reach`` days before and after each of them."""
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


def _lifetimes(
    lake: Lake, silver: DataFrame, touched: Days, until: datetime.datetime | None
) -> tuple[datetime.datetime, Days]:
    """Write lifetimes and usage from the first touched day on, or from the table's last day.

    The earlier of these two days is the first one.

    :returns: the end of the window, and the days that it computed
    """
    # An earlier run counted the table's last day only up to the end of its window: do it again.
    open_days = [
        name for name in lake.storage.names(lake.gold("lifetimes")) if name.startswith("day=")
    ]
    begin = min([touched[0], *(datetime.date.fromisoformat(name[4:]) for name in open_days[-1:])])
    if begin < touched[0]:
        # After a crash half way the table may end with another day; the note names the right one.
        lake.storage.write_json(f"{lake.touched}/{_BEGIN}", [str(begin)])
    later = silver.where(F.col("day") >= F.lit(begin))
    if until is None:
        # A notification reports nothing later than its receipt, even if its clock was ahead.
        latest = later.agg(F.max(F.least("time", "received_time")).cast("string")).first()
        assert latest is not None
        until = datetime.datetime.fromisoformat(latest[0])
    last = max(begin, (until - datetime.timedelta(microseconds=1)).date())
    days = [begin + n * _DAY for n in range((last - begin).days + 1)]
    before = lake.read_gold("lifetimes").where(F.col("day") == F.lit(begin - _DAY))
    changes = lifetimes.changes(later).unionByName(lifetimes.carried(before, begin))
    # The checkpoint cuts the rows off from their input, which is the table that they replace.
    rows = lifetimes.lifetimes(changes, until).localCheckpoint()
    lake.write_gold("lifetimes", rows, [*days, *_after(open_days, last)])
    lake.write_gold("usage", usage.usage(rows), [*days, *_after(open_days, last)])
    return until, days


def _after(names: list[str], last: datetime.date) -> Days:
    """Return the table's days after ``last``: an earlier run had a later end of the window."""
    days = [datetime.date.fromisoformat(name[4:]) for name in names]
    return [day for day in days if day > last]


def _audit(lake: Lake, silver: DataFrame, touched: Days, days: Days) -> None:
    """Write the audit of all periods that begin on the same day as a changed one."""
    # Services send exists notifications after the period, so those of changed periods are not
    # older than the first computed day.
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
