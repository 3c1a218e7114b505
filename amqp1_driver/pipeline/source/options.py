# SPDX-License-Identifier: Apache-2.0

"""The options of the data source ``amqp1`` for reading. Pure, for any thread."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping

from amqp1_driver.pipeline import options
from amqp1_driver.pipeline.spool import SpoolLimits

#: priorities of notifications, each with a queue of its own (oslo.messaging's Notifier)
PRIORITIES = ("audit", "debug", "info", "warn", "error", "critical", "sample")
SEGMENT_ROWS = 10_000


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SourceOptions:
    """Checked options; :meth:`parse` makes them. Durations are seconds."""

    #: transport URL as oslo.messaging defines it; may hold a password
    url: str = dataclasses.field(repr=False)
    #: AMQP addresses for the sources of the links
    addresses: tuple[str, ...] = ()
    #: topics of notifications, which the driver maps to addresses
    topics: tuple[str, ...] = ()
    exchange: str = "openstack"
    #: pool of listeners: its queues get copies of the messages for the queues without a pool
    pool: str | None = None
    priorities: tuple[str, ...] = PRIORITIES
    #: absolute path of the spool's folder
    spool_dir: str = ""
    max_rows_per_trigger: int = 50_000
    #: tasks that read a batch; 0: one for each processor of the machine of the planning process
    partitions: int = 0
    #: receiving links for each address
    links: int = 1
    #: link credit: messages that the bus may send ahead on each link
    credit: int = 2000
    #: bytes of messages that have come and are not on disc yet, at most
    max_buffer_bytes: int = 64 * 1024**2
    #: how long the bus may refuse an address without a pause before reading fails; 0: for ever
    refused_timeout: float = 300.0
    max_spool_rows: int = 1_000_000
    max_spool_bytes: int = 4 * 1024**3
    #: rows in one file; parse() sets at most half of max_spool_rows if the user gives none
    segment_rows: int = SEGMENT_ROWS
    #: longest time that a message waits for others to share a file with
    linger: float = 0.2
    #: time without a message after which links count as idle
    drain_idle: float = 1.0
    #: longest time that availableNow and batch reads wait for idle links
    drain_max: float = 600.0
    fail_on_data_loss: bool = True
    #: options of the driver by name, values as in a configuration file
    driver: tuple[tuple[str, str], ...] = dataclasses.field(default=(), repr=False)

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SourceOptions:
        """Parse the options that the user gave to ``.option()``.

        :raises ValueError: an option is wrong; the text names option and value, but never the URL
        """
        values, driver = _KNOWN.parse(given, "url", "spoolDir")
        if "max_spool_rows" in values:
            values.setdefault("segment_rows", min(SEGMENT_ROWS, values["max_spool_rows"] // 2))
        made = cls(**values, driver=driver)
        made._check()
        return made

    def _check(self) -> None:
        if bool(self.addresses) == bool(self.topics):
            raise ValueError("one of the options 'address' and 'topic' is needed, and not both")
        try:
            self.limits()
        except ValueError as error:
            raise ValueError(
                f"options 'maxSpoolRows' = {self.max_spool_rows}, 'maxSpoolBytes' = "
                f"{self.max_spool_bytes}, 'segmentRows' = {self.segment_rows}: {error}"
            ) from None

    def limits(self) -> SpoolLimits:
        """Return the caps of the spool."""
        return SpoolLimits(self.max_spool_rows, self.max_spool_bytes, self.segment_rows)

    def tasks(self) -> int:
        """Return the number of tasks that read a batch."""
        return self.partitions or os.cpu_count() or 1


_KNOWN = options.Known(
    ("url", "url", options.text),
    ("addresses", "address", options.names),
    ("topics", "topic", options.names),
    ("exchange", "exchange", options.text),
    ("pool", "pool", options.text),
    ("priorities", "priorities", options.names),
    ("spool_dir", "spoolDir", options.folder),
    ("max_rows_per_trigger", "maxRowsPerTrigger", options.number(1)),
    ("partitions", "partitions", options.number(0)),
    ("links", "links", options.number(1)),
    ("credit", "credit", options.number(1)),
    ("max_buffer_bytes", "maxBufferBytes", options.number(1)),
    ("refused_timeout", "refusedTimeoutMs", options.milliseconds),
    ("max_spool_rows", "maxSpoolRows", options.number(2)),
    ("max_spool_bytes", "maxSpoolBytes", options.number(1)),
    ("segment_rows", "segmentRows", options.number(1)),
    ("linger", "lingerMs", options.milliseconds),
    ("drain_idle", "drainIdleMs", options.milliseconds),
    ("drain_max", "drainMaxMs", options.milliseconds),
    ("fail_on_data_loss", "failOnDataLoss", options.truth),
)
