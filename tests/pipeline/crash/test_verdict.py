# SPDX-License-Identifier: Apache-2.0

"""The judge finds what is wrong, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.pipeline.crash.verdict import judge, state


def _file(path: Path, **columns: Iterable[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({name: list(values) for name, values in columns.items()}), path)
    return path


def _silver(lake: Path, batch: str, *numbers: int) -> None:
    _file(
        lake / f"silver/day=2026-03-10/batch={batch}/part-0.parquet",
        message_id=[f"n-{number}" for number in numbers],
    )


def _bronze(lake: Path, entry: str, *files: Path) -> None:
    log = lake / "bronze" / "_spark_metadata" / entry
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("\n".join(["v1", *(json.dumps({"path": path.as_uri()}) for path in files)]))


def _part(lake: Path, name: str, *seqs: int) -> Path:
    return _file(lake / "bronze" / "date=2026-03-10" / f"{name}.parquet", seq=seqs)


def test_all_is_well(tmp_path: Path) -> None:
    _silver(tmp_path, "a-0", 0, 2)
    _silver(tmp_path, "a-1", 1)
    _file(
        tmp_path / "silver/.spark-staging-1/day=2026-03-10/batch=a-2/part-0.parquet",
        message_id=["n-1"],
    )
    first, second = _part(tmp_path, "a", 1, 2), _part(tmp_path, "b", 3)
    _part(tmp_path, "of a batch that was killed", 3, 4)
    _bronze(tmp_path, "1", first)  # is in what follows
    _bronze(tmp_path, "9.compact", first)
    _bronze(tmp_path, "10", second)
    assert judge(tmp_path, 3) == ([], 3)


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    _silver(tmp_path, "a-0", 0, 1, 1, 7)
    _file(tmp_path / "malformed/day=2026-03-10/batch=a-0/part-0.parquet", reason=["none"])
    first = _part(tmp_path, "a", 1, 2)
    _bronze(tmp_path, "0", first)
    _bronze(tmp_path, "1", first, _part(tmp_path, "b", 5))
    assert judge(tmp_path, 4) == (
        [
            "2 missing in silver: n-2, n-3",
            "1 more than once in silver: n-1 (2)",
            "1 never published but in silver: n-7",
            "1 malformed",
            "2 rows of the spool that bronze lacks: 3, 4",
            "2 rows of the spool that bronze has more than once: 1, 2",
        ],
        5,
    )


def test_the_last_of_the_spool_and_of_the_checkpoints_is_told(tmp_path: Path) -> None:
    for name, text in {
        "_spool/status.json": "{}",
        "_spool/committed": "5",
        "_checkpoints/bronze/offsets/1": "one",
        "_checkpoints/bronze/offsets/9": "9",
        "_checkpoints/bronze/offsets/10": "ten",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert state(tmp_path).splitlines() == [
        "_spool/committed 1",
        "_spool/status.json 2",
        "_spool/status.json: {}",
        "_spool/committed: 5",
        "bronze offsets 9: 9",
        "bronze offsets 10: ten",
    ]
