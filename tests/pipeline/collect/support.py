# SPDX-License-Identifier: Apache-2.0

"""A bus, something on it, a spool and collectors for tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from amqp1_driver.pipeline import bus
from amqp1_driver.pipeline.collect import Collector
from amqp1_driver.pipeline.publish.publisher import Publisher
from amqp1_driver.pipeline.source.options import SourceOptions
from amqp1_driver.pipeline.spool import Spool, segments

#: seconds for anything that has to happen
WAIT = 30.0


def publish(url: str, address: str, numbers: Iterable[int], size: int = 10) -> None:
    """Messages with ids m0, m1 … ; the bus has accepted all when this returns."""
    with Publisher(bus.make_client(url), timeout=WAIT) as publisher:
        for number in numbers:
            publisher.send(bus.node(address), f"m{number}", b"%d" % number + b"." * size)
        publisher.flush()


def rows(spool: Spool) -> list[dict[str, Any]]:
    """All rows that the spool has retained."""
    return [
        row
        for part in spool.parts(1, spool.high)
        for batch in segments.read(part.segment.path, part.lo, part.hi)
        for row in batch.to_pylist()
    ]


def ids(spool: Spool) -> list[str]:
    """Their message ids, in order of the rows."""
    return [row["message_id"] for row in rows(spool)]


class Collecting:
    """Makes spools and collectors, and stops them; a folder of its own for each spool."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.collectors: list[Collector] = []
        self._spools: list[Spool] = []

    def options(self, url: str, name: str = "spool", **options: Any) -> SourceOptions:
        values = {"lingerMs": 5, "drainIdleMs": 200, **options}
        if "topic" not in values:
            values.setdefault("address", "q")
        return SourceOptions.parse(
            {
                "url": url,
                "spoolDir": str(self._folder / name),
                **{key.replace("__", "."): str(value) for key, value in values.items()},
            }
        )

    def spool(self, options: SourceOptions) -> Spool:
        spool = Spool.open(options.spool_dir, options.limits())
        self._spools.append(spool)
        return spool

    def __call__(
        self, url: str, name: str = "spool", *, spool: Any = None, **options: Any
    ) -> tuple[Collector, Spool]:
        """A collector that has been started, and its spool."""
        parsed = self.options(url, name, **options)
        spool = spool or self.spool(parsed)
        collector = Collector(parsed, spool)
        self.collectors.append(collector)
        collector.start()
        return collector, spool

    def stop(self) -> None:
        for collector in self.collectors:
            collector.stop()
        for spool in self._spools:
            spool.close()
