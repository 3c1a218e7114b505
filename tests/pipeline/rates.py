# SPDX-License-Identifier: Apache-2.0

"""How fast rows go into the spool and from there into Parquet, and what memory that takes.

    python -m tests.pipeline.rates parquet [--rows 1000000] [--batch 50000] [--heap 1g]
    python -m tests.pipeline.rates memory [--rows 5000000]

``parquet`` fills a spool and runs a streaming query from it to zstd-compressed Parquet files, on
two cores; nothing is collected meanwhile. ``memory`` appends rows, reads and commits them in one
process, and notes its resident memory. Prints JSON. Bodies are base64 of random bytes, each its
own, so that neither dictionaries nor repetition help the compression.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from amqp1_driver.pipeline.source import Amqp1DataSource
from amqp1_driver.pipeline.source.options import SourceOptions
from amqp1_driver.pipeline.spool import Row, Spool, SpoolLimits, segments

DEADLINE = 1200
SEGMENT = 10_000


def made(lo: int, hi: int, size: int, source: random.Random) -> list[Row]:
    """Rows ``lo`` to ``hi``, like notifications in all but the body."""
    return [
        Row(
            "notifications.info",
            f"5f0f7e9c-8d5e-4c1a-9b1e-{seq:012}",
            base64.b64encode(source.randbytes(size * 3 // 4)),
            "application/json",
            {"event": "compute.instance.exists"},
            0,
            1767323045000000 + seq,
            1767323045500000 + seq,
        )
        for seq in range(lo, hi + 1)
    ]


def fill(spool: Spool, rows: int, size: int) -> float:
    """Append rows; returns the seconds that appending took."""
    source = random.Random(1)
    spent = 0.0
    for lo in range(1, rows + 1, SEGMENT):
        part = made(lo, min(rows, lo + SEGMENT - 1), size, source)
        begun = time.perf_counter()
        spool.append(spool.fresh(part))
        spent += time.perf_counter() - begun
    return spent


class Nothing:
    """A collector that collects nothing."""

    error = None

    def start(self) -> None:
        pass

    def stop(self, timeout: float) -> None:
        pass

    def idle(self) -> bool:
        return True

    def wait_for(self, high: int, timeout: float) -> bool:
        return False

    def facts(self) -> dict[str, Any]:
        return {}


class Filled(Amqp1DataSource):
    """``format("filled")``: what is in the spool."""

    @classmethod
    def name(cls) -> str:
        return "filled"

    def collector(self, options: SourceOptions, spool: Spool) -> Nothing:
        return Nothing()


def parquet(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Spool to Parquet; rows per second over all batches, and over the second half of them.

    In the first ones the JVM compiles.
    """
    from amqp1_driver.pipeline.session import spark_session

    limits = SpoolLimits(2 * arguments.rows, 1 << 40, SEGMENT)
    spool = Spool.open(folder / "spool", limits)
    spent = fill(spool, arguments.rows, arguments.body)
    spool.close()
    spark = spark_session(
        "rates",
        "local[2]",
        {
            "spark.driver.memory": arguments.heap,
            "spark.driver.extraJavaOptions": arguments.java,
            "spark.sql.warehouse.dir": str(folder),
            "spark.sql.streaming.numRecentProgressUpdates": "10000",
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(Filled)
    begun = time.perf_counter()
    query = (
        spark.readStream.format("filled")
        .option("url", "-")
        .option("address", "-")
        .option("spoolDir", str(folder / "spool"))
        .option("partitions", "2")
        .option("maxSpoolRows", str(limits.max_rows))
        .option("maxSpoolBytes", str(limits.max_bytes))
        .option("maxRowsPerTrigger", str(arguments.batch))
        .load()
        .writeStream.format("parquet")
        .option("compression", "zstd")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "sink"))
    )
    if not query.awaitTermination(DEADLINE):
        raise TimeoutError(f"not done in {DEADLINE} s")
    wall = time.perf_counter() - begun
    progress = [each for each in query.recentProgress if each["numInputRows"]]
    batches = [
        (each["numInputRows"], each["durationMs"]["triggerExecution"] / 1000) for each in progress
    ]
    written = spark.read.parquet(str(folder / "sink"))
    ids, rows = written.select("message_id").distinct().count(), written.count()
    spark.stop()
    return {
        "rows": rows,
        "ids": ids,
        "batches": len(batches),
        "append_rows_per_s": round(arguments.rows / spent),
        "rows_per_s": _rate(batches),
        "rows_per_s_wall": round(rows / wall),
        "rows_per_s_second_half": _rate(batches[len(batches) // 2 :]),
        "batch_s": [round(seconds, 2) for _, seconds in batches],
        "median_ms": {
            phase: statistics.median(each["durationMs"].get(phase, 0) for each in progress)
            for phase in progress[0]["durationMs"]
        },
    }


def _rate(batches: list[tuple[int, float]]) -> int | None:
    return (
        round(sum(rows for rows, _ in batches) / sum(seconds for _, seconds in batches))
        if batches
        else None
    )


def resident() -> int:
    """Bytes of this process in memory that are its own: mapped files are the kernel's."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return 1024 * int(line.split()[1])
    raise OSError("the kernel does not tell")


def memory(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Append, read and commit; memory after each tenth of the rows."""
    limits = SpoolLimits(arguments.cap, 1 << 40, SEGMENT)
    spool = Spool.open(folder / "spool", limits)
    source = random.Random(1)
    seen, most, on_disc = [], 0, 0
    tenth = max(SEGMENT, arguments.rows // 10)
    bodies = made(1, SEGMENT, arguments.body, source)
    begun = time.perf_counter()
    for lo in range(1, arguments.rows + 1, SEGMENT):
        spool.append(
            spool.fresh(
                [
                    row._replace(message_id=f"5f0f7e9c-8d5e-4c1a-9b1e-{lo + at:012}")
                    for at, row in enumerate(bodies)
                ]
            )
        )
        on_disc = max(on_disc, sum(1 for _ in spool.folder.glob("*.arrow")) * SEGMENT)
        if spool.room() < SEGMENT:
            _read(spool)
        most = max(most, resident())
        if not (lo + SEGMENT - 1) % tenth:
            seen.append(round(resident() / 1e6))
    return {
        "rows": spool.high,
        "cap": arguments.cap,
        "most_rows_on_disc": on_disc,
        "memory_mb_after_each_tenth": seen,
        "memory_mb_most": round(most / 1e6),
        "rows_per_s": round(spool.high / (time.perf_counter() - begun)),
    }


def _read(spool: Spool) -> None:
    """As a query would: all there is, then commit."""
    read = sum(batch.num_rows for batch in _batches(spool))
    assert read == spool.high - spool.committed
    spool.commit(spool.high)


def _batches(spool: Spool) -> Iterator[Any]:
    for part in spool.parts(spool.committed + 1, spool.high):
        yield from segments.read(part.segment.path, part.lo, part.hi)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["parquet", "memory"])
    parser.add_argument("--rows", type=int)
    parser.add_argument("--batch", type=int, default=50_000)
    parser.add_argument("--body", type=int, default=1024, help="bytes")
    parser.add_argument("--cap", type=int, default=500_000, help="rows of the spool, for memory")
    parser.add_argument("--heap", default="1g", help="memory of the JVM (Spark's default: 1g)")
    parser.add_argument("--java", default="", help="further options of the JVM")
    parser.add_argument("--folder", help="where the files go for the time of the run")
    arguments = parser.parse_args()
    arguments.rows = arguments.rows or {"parquet": 1_000_000, "memory": 5_000_000}[arguments.what]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        run = {"parquet": parquet, "memory": memory}[arguments.what]
        result = run(arguments, Path(folder))
    print(json.dumps({"cores": os.cpu_count(), "body_bytes": arguments.body, **result}))


if __name__ == "__main__":
    main()
