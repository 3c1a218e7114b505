# SPDX-License-Identifier: Apache-2.0

"""A data source whose bus is a folder: each file in it is a message, removed when acknowledged.

It is used as the real collector is, in the planning process of Spark.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from amqp1_driver.pipeline.source import Amqp1DataSource
from amqp1_driver.pipeline.source.options import SourceOptions
from amqp1_driver.pipeline.spool import Spool
from tests.pipeline.spool.rows import row


def publish(queue: Path, *names: str) -> None:
    """Put messages with these ids into the folder."""
    queue.mkdir(exist_ok=True)
    first = len(list(queue.iterdir()))
    for at, name in enumerate(names, first):
        (queue / f"{at:06}-{name}").write_bytes(f"body of {name}".encode())


class FolderCollector:
    """Works whenever it is asked something: it needs no thread."""

    def __init__(self, options: SourceOptions, spool: Spool) -> None:
        self._queue = Path(options.url)
        self._spool = spool
        self.error: BaseException | None = None

    def start(self) -> None:
        self._collect()

    def stop(self, timeout: float) -> None:
        pass

    def idle(self) -> bool:
        self._collect()
        return True

    def wait_for(self, high: int, timeout: float) -> bool:
        self._collect()
        return self._spool.high >= high

    def facts(self) -> dict[str, Any]:
        return {"waiting": len(list(self._queue.iterdir()))}

    def _collect(self) -> None:
        broken = self._queue / "broken"
        if broken.exists():
            self.error = OSError(broken.read_text())
            return
        files = sorted(self._queue.iterdir())[: self._spool.room()]
        rows = [row(path.name[7:], path.read_bytes()) for path in files]
        self._spool.append(self._spool.fresh(rows))
        for path in files:
            os.unlink(path)


class FolderSource(Amqp1DataSource):
    """``format("folder")``"""

    @classmethod
    def name(cls) -> str:
        return "folder"

    def collector(self, options: SourceOptions, spool: Spool) -> FolderCollector:
        return FolderCollector(options, spool)
