# SPDX-License-Identifier: Apache-2.0

"""A reader that goes on and on: collects, commits, and prints rows and resident memory.

python -m tests.pipeline.collect.steady URL ADDRESS FOLDER ROWS STEP
"""

import resource
import sys
import time

from amqp1_driver.pipeline.collect import Collector
from amqp1_driver.pipeline.source.options import SourceOptions
from amqp1_driver.pipeline.spool import Spool

WAIT = 120.0


def resident() -> int:
    """Bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def main(url: str, address: str, folder: str, rows: str, step: str) -> None:
    options = SourceOptions.parse(
        {"url": url, "address": address, "spoolDir": folder, "maxSpoolRows": "100000"}
    )
    spool = Spool.open(folder, options.limits())
    collector = Collector(options, spool)
    collector.start()
    started = time.monotonic()
    for high in range(int(step), int(rows) + 1, int(step)):
        if not collector.wait_for(high, WAIT):
            raise SystemExit(f"row {high} has not come within {WAIT:g} s: {collector.facts()}")
        spool.commit(high)
        print(high, resident(), f"{time.monotonic() - started:.1f}", flush=True)
    collector.stop()
    spool.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
