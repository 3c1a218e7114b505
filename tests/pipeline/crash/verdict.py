# SPDX-License-Identifier: Apache-2.0

"""What the lake has in the end, read without Spark, against what was published."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq

#: so many ids are named
MAX_SHOWN_CHARS = 20


class Verdict(NamedTuple):
    """``wrong``: what must not be, in words; empty if all is well. Rows of bronze beside."""

    wrong: list[str]
    bronze: int


def judge(lake: Path, total: int) -> Verdict:
    """Silver has each id once, ``n-0`` to ``n-<total - 1>``; bronze each row of the spool once."""
    wrong: list[str] = []
    found = Counter(
        name
        for path in sorted(lake.glob("silver/day=*/batch=*/*.parquet"))
        for name in _column(path, "message_id")
    )
    expected = {f"n-{number}" for number in range(total)}
    _name(wrong, "missing in silver", sorted(expected - found.keys()))
    _name(
        wrong,
        "more than once in silver",
        [f"{name} ({count})" for name, count in found.items() if count > 1],
    )
    _name(wrong, "never published but in silver", sorted(map(str, found.keys() - expected)))
    malformed = sum(
        pq.ParquetFile(path).metadata.num_rows
        for path in lake.glob("malformed/day=*/batch=*/*.parquet")
    )
    if malformed:
        wrong.append(f"{malformed} malformed")
    seqs = Counter(seq for path in _sunk(lake / "bronze") for seq in _column(path, "seq"))
    _name(
        wrong,
        "rows of the spool that bronze lacks",
        sorted(set(range(1, max(seqs, default=0) + 1)) - seqs.keys()),
    )
    _name(
        wrong,
        "rows of the spool that bronze has more than once",
        [seq for seq, count in seqs.items() if count > 1],
    )
    return Verdict(wrong, seqs.total())


def _name(wrong: list[str], what: str, found: list[object] | list[str] | list[int]) -> None:
    if found:
        dots = " …" if len(found) > MAX_SHOWN_CHARS else ""
        wrong.append(f"{len(found)} {what}: {', '.join(map(str, found[:MAX_SHOWN_CHARS]))}{dots}")


def _column(path: Path, name: str) -> list[object]:
    # one file: as a dataset it would get columns from the names of its folders
    values: list[object] = pq.ParquetFile(path).read([name]).column(0).to_pylist()
    return values


def _sunk(folder: Path) -> list[Path]:
    """The files that count: those in the list of Spark's file sink, which is compacted at times."""
    log = folder / "_spark_metadata"
    batches = {int(path.stem): path for path in log.glob("*") if path.stem.isdigit()}
    compacted = [number for number, path in batches.items() if path.suffix == ".compact"]
    first = max(compacted, default=0)
    # "9.compact" takes the place of "9"
    return [
        Path(unquote(urlsplit(json.loads(line)["path"]).path))
        for number in sorted(batches)
        if number >= first
        for line in batches[number].read_text().splitlines()[1:]
    ]


def state(lake: Path) -> str:
    """Spool and checkpoints in words, for who has to find out why."""
    lines = [
        f"{path.relative_to(lake)} {path.stat().st_size}"
        for path in sorted(lake.glob("_spool/*"))
        if path.is_file()
    ]
    for name in ("_spool/status.json", "_spool/committed"):
        if (lake / name).exists():
            lines.append(f"{name}: {(lake / name).read_text()}")
    for stage in sorted(lake.glob("_checkpoints/*")):
        for kind in ("offsets", "commits"):
            numbers = sorted(
                int(path.name) for path in stage.glob(f"{kind}/*") if path.name.isdigit()
            )
            for number in numbers[-2:]:
                text = (stage / kind / str(number)).read_text()
                lines.append(f"{stage.name} {kind} {number}: {text}")
    return "\n".join(lines)
