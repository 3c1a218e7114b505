# SPDX-License-Identifier: Apache-2.0

"""Gold after a death half way, and after late notifications."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.lake.support import rows
from tests.pipeline.transform.frames import plain, silver

D2, D3, D4 = (plain(f"0{day} 00:00:00").date() for day in (2, 3, 4))


class Died(RuntimeError):
    """In place of a SIGKILL."""


def test_half_done_and_late(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from amqp1_driver.pipeline.lake import gold
    from amqp1_driver.pipeline.lake.layout import Lake

    lake = Lake(spark, str(tmp_path / "lake"))

    def take(label: str, time: str, action: str, name: str) -> None:
        row = {
            "time": time,
            "event": f"instance.{action}.end",
            "kind": "instance",
            "resource_id": name,
            "vcpus": 1,
            "tenant_id": "t",
            "message_id": label,
        }
        lake.write_batch(silver(spark, row), lake.silver, label)
        lake.storage.write_json(f"{lake.touched}/{label}.json", [f"2026-03-{time[:2]}"])

    def usage() -> list[tuple[Any, ...]]:
        return rows(lake.read_gold("usage"), "day", "vcpu_hours")

    take("b-1", "02 12:00:00", "create", "x")
    assert gold.refresh(lake, plain("02 18:00:00")).touched == [D2]
    assert usage() == [(D2, 6.0)]

    # Two days on: the day that was counted to 18:00 is counted again. The job dies in between.
    take("b-2", "04 06:00:00", "create", "y")
    write_gold = lake.write_gold

    def die(table: str, *args: Any) -> None:
        if table == "usage":
            raise Died
        write_gold(table, *args)

    monkeypatch.setattr(lake, "write_gold", die)
    with pytest.raises(Died):
        gold.refresh(lake, plain("04 12:00:00"))
    monkeypatch.undo()
    assert usage() == [(D2, 6.0)]
    again = gold.refresh(lake, plain("04 12:00:00"))
    assert (again.touched, again.usage_days) == ([D2, D4], 3)
    assert usage() == [(D2, 12.0), (D3, 24.0), (D4, 18.0)]
    assert gold.refresh(lake, plain("04 12:00:00")).touched == []

    # x was deleted on the first day, and this comes late: the second day has nothing any more.
    take("b-3", "02 13:00:00", "delete", "x")
    gold.refresh(lake, plain("04 12:00:00"))
    assert usage() == [(D2, 1.0), (D4, 6.0)]
    assert lake.storage.names(lake.touched) == []
