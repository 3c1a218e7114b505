# SPDX-License-Identifier: Apache-2.0

"""The job in the hands of a test: its processes tell what they do, and wait where they are told.

``python -m tests.pipeline.crash.held ARGUMENTS`` is ``amqp1 pipeline notifications ARGUMENTS`` but
for that: after each append, which is after fsync and before the bus is told that the rows were
accepted, the reader process asks the test whether to go on. There it can be killed.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Sequence
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from amqp1_driver.pipeline.collect import Collector
from amqp1_driver.pipeline.source import Amqp1DataSource
from amqp1_driver.pipeline.source.options import SourceOptions
from amqp1_driver.pipeline.spool import Row, Spool

#: port of the test on 127.0.0.1, and which start of the job this is
PORT, RUN = "AMQP1_CRASH_PORT", "AMQP1_CRASH_RUN"
SETTINGS = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}


class Line:
    """To the test: one object in JSON a line, each answered by a line. One thread at a time."""

    def __init__(self) -> None:
        self._run = int(os.environ[RUN])
        self._socket = socket.create_connection(("127.0.0.1", int(os.environ[PORT])))
        self._file = self._socket.makefile("rw")

    def tell(self, event: str, **facts: Any) -> None:
        """Returns when the test lets it."""
        entry = {"event": event, "run": self._run, "pid": os.getpid(), **facts}
        self._file.write(json.dumps(entry) + "\n")
        self._file.flush()
        self._file.readline()


class HeldSpool:
    """A spool that asks the test after each append."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._line = Line()

    def append(self, rows: Sequence[Row]) -> Any:
        done = self._spool.append(rows)
        if rows:
            self._line.tell("appended", high=done.hi)
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spool, name)


class HeldSource(Amqp1DataSource):
    """The data source ``amqp1`` itself, with a spool that asks."""

    def collector(self, options: SourceOptions, spool: Spool) -> Collector:
        held: Any = HeldSpool(spool)
        return Collector(options, held)


class Teller(StreamingQueryListener):
    """Tells of batches and of the ends of queries."""

    def __init__(self) -> None:
        self._line = Line()

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        self._line.tell(event.progress.name, rows=event.progress.numInputRows)

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        self._line.tell("terminated", exception=(event.exception or "")[-2000:])


def main() -> int:
    from amqp1_driver.pipeline import session
    from amqp1_driver.pipeline.commands import notifications

    real = session.spark_session

    def spark_session(name: str, master: str | None = None, extra: Any = None) -> Any:
        spark = real(name, master, {**SETTINGS, **(extra or {})})
        spark.sparkContext.setLogLevel("ERROR")
        spark.dataSource.register(HeldSource)
        spark.streams.addListener(Teller())
        Line().tell("session", jvm=spark._jvm.java.lang.ProcessHandle.current().pid())
        return spark

    session.spark_session = spark_session
    return notifications.main(sys.argv[1:])


if __name__ == "__main__":
    # by its name: workers import it, and know no __main__ of this program
    from tests.pipeline.crash import held

    sys.exit(held.main())
