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

"""The job that goes on, with copies looked up in Spark's state."""

from __future__ import annotations

import datetime
import threading
from pathlib import Path
from typing import Any

import pytest

from amqp1_driver.pipeline.generate import story
from tests.pipeline.lake import support
from tests.pipeline.lake.support import rows


def test_on_and_on_until_told_to_end(spark: Any, tmp_path: Path,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files, one a batch; a copy in the second of what was in the first."""
    from amqp1_driver.pipeline.lake import gold, job
    from amqp1_driver.pipeline.lake.layout import Lake
    from amqp1_driver.pipeline.lake.plan import Plan

    # Gold is another test's: here it would cost twenty seconds.
    day = datetime.date(2026, 3, 2)
    monkeypatch.setattr(gold, "refresh", lambda lake, until: gold.Refreshed([day], 1, until))
    lake = Lake(spark, str(tmp_path / "lake"))
    emissions = list(story.emissions())
    copy = next(number for number, emission in enumerate(emissions)
                if emission.message_id == "s-8-again")
    support.add_bronze(tmp_path / "bronze", emissions[:copy], 0)
    end, told = threading.Event(), [0]

    def tell(summary: job.Summary) -> None:
        told.append(summary.taken.notifications)
        if told[-1] == 54 or len(told) == 400:
            end.set()
        elif told[-1] == 8 and 8 not in told[:-1]:
            support.add_bronze(tmp_path / "bronze", emissions[copy:], copy)

    plan = Plan(bronze=str(tmp_path / "bronze"), every=0.1, gold_every=0.2,
                dedup_within="2 hours", files_per_batch=1)
    summary = job.run(lake, plan, end, tell)
    assert {8, 54} < {*told, -1}
    taken = summary.taken
    assert (taken.rows, taken.notifications, taken.malformed, taken.copies) == (59, 54, 5, None)
    assert summary.touched == [day]
    found = rows(lake.read_silver(), "message_id")
    assert found == sorted((f"s-{number}",) for number in range(1, 55))
    # what gold is to know: one note for each batch
    assert len(lake.storage.names(lake.touched)) == 2
